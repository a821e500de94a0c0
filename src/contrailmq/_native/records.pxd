cimport cython

ctypedef const unsigned char* raw_bytes

from contrailmq._native cimport raw, record, text

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

@cython.locals(
    left=Py_ssize_t, size=cython.uint, magic=cython.uint, is_empty=cython.bint, spans=record.Spans,
)
cdef record.Spans _find(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(
    result=list, view=raw_bytes, end=Py_ssize_t, at=Py_ssize_t, spans=record.Spans,
    made=RecordFields, previous=RecordFields, name=bytes,
)
cpdef list decode_records(bytes data, object make, Py_ssize_t limit, bint check_crc)

@cython.locals(flag=cython.uint, known=bytes, place=Py_ssize_t)
cdef int _fill(raw_bytes view, Py_ssize_t at, RecordFields made, RecordFields previous) except -1

cdef bytes _host(raw_bytes view, Py_ssize_t at, Py_ssize_t size, bytes known)

@cython.locals(index=Py_ssize_t)
cdef bint _is_text(raw_bytes view, Py_ssize_t at, Py_ssize_t size, str words)

@cython.locals(result=dict, view=raw_bytes, end=Py_ssize_t, at=Py_ssize_t, pair=text.Pair)
cpdef dict decode_properties(bytes data)

@cython.locals(
    view=raw_bytes, wanted=raw_bytes, size=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t,
    stop=Py_ssize_t, at=Py_ssize_t, pair=text.Pair,
)
cpdef bytes find_property(bytes data, bytes name)
