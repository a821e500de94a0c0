cimport cython

ctypedef const unsigned char* raw_bytes

cdef unsigned int _MAGIC_V1
cdef unsigned int _MAGIC_V2
cdef unsigned int _BLANK_MAGIC
cdef unsigned int _RECORD_SIZE_MIN
cdef Py_ssize_t _BODY_LENGTH_AT
cdef long long _WRAP
cdef long long _MASK
cdef int _END
cdef int _FULL
cdef int _BLANK
cdef int _SHORT
cdef int _SIZE
cdef int _MAGIC
cdef int _LENGTHS
cdef int _CRC
cdef int _ZERO

cdef class RecordFields:
    cdef public str topic
    cdef public int queue_id
    cdef public long long queue_offset
    cdef public long long commit_log_offset
    cdef public int store_size
    cdef public int sys_flag
    cdef public int flag
    cdef public long long born_ms
    cdef public bytes born_host_bytes
    cdef public long long store_ms
    cdef public bytes store_host_bytes
    cdef public int reconsume_times
    cdef public long long prepared_transaction_offset
    cdef public bytes body
    cdef public int body_crc
    cdef public bytes properties_bytes
    cdef public dict lazy_properties

@cython.locals(first=cython.uint)
cdef unsigned int _u32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(value=cython.longlong)
cdef int _i32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(high=cython.longlong, low=cython.uint)
cdef long long _i64(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(left=Py_ssize_t, size=cython.uint, magic=cython.uint)
cdef int _check(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.locals(place=Py_ssize_t, flags=cython.int)
cdef Py_ssize_t _body_length_at(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(place=Py_ssize_t, length=Py_ssize_t)
cdef int _check_lengths(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

cpdef int check_record(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(room=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t, reason=cython.int)
cpdef tuple scan_records(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, long long[::1] positions)

@cython.locals(
    result=list, view="const unsigned char[::1]", end=Py_ssize_t, at=Py_ssize_t, reason=cython.int,
    record=RecordFields, previous=RecordFields,
)
cpdef list decode_records(bytes data, object make, Py_ssize_t limit, bint check_crc)

@cython.locals(place=Py_ssize_t)
cdef void _fill_numbers(const unsigned char[::1] view, Py_ssize_t at, RecordFields record) noexcept

@cython.locals(raw=raw_bytes, place=Py_ssize_t, size=Py_ssize_t, known=bytes)
cdef int _fill_bytes(bytes data, const unsigned char[::1] view, Py_ssize_t at, RecordFields record, RecordFields previous) except -1

@cython.locals(other=raw_bytes, index=Py_ssize_t)
cdef bytes _host(raw_bytes raw, Py_ssize_t at, Py_ssize_t size, bytes known)

@cython.locals(index=Py_ssize_t)
cdef bint _is_text(raw_bytes raw, Py_ssize_t at, Py_ssize_t size, str text)

@cython.locals(
    result=dict, view="const unsigned char[::1]", raw=raw_bytes, end=Py_ssize_t, start=Py_ssize_t,
    name_end=Py_ssize_t, at=Py_ssize_t, byte=cython.uchar,
)
cpdef dict decode_properties(bytes data)

cpdef Py_ssize_t property_at(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, const unsigned char[::1] name) except -2

@cython.locals(found=Py_ssize_t, length=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t)
cdef Py_ssize_t _property_at(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, const unsigned char[::1] name) noexcept nogil

@cython.locals(view="const unsigned char[::1]", raw=raw_bytes, end=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t)
cpdef bytes find_property(bytes data, bytes name)

@cython.locals(value=cython.longlong, character=Py_UCS4, code=cython.uint)
cpdef long long java_hash(str text)

@cython.locals(value=cython.longlong, view="const unsigned char[::1]", index=Py_ssize_t, code=cython.uint)
cpdef long long java_hash_utf8(bytes data)
