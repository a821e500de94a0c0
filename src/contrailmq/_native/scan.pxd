import cython

from contrailmq._native cimport raw

cdef const unsigned int[::1] _TABLE

cdef unsigned int _MAGIC_V1
cdef unsigned int _MAGIC_V2
cdef unsigned int _BLANK_MAGIC
cdef int _END, _EMPTY, _BLANK, _BAD_MAGIC, _BAD_SIZE, _BAD_PLACE, _BAD_FIELDS, _BAD_CRC, _LOST_PAGE, _FULL
cdef int _HEAD_SIZE, _UNIT_SIZE, _PAGE_SIZE

@cython.locals(a=cython.uint, b=cython.uint, c=cython.uint, d=cython.uint)
cdef unsigned int _le32(const unsigned char* data, Py_ssize_t at) noexcept

@cython.locals(
    table="const unsigned int[::1]", crc=cython.uint, at=cython.Py_ssize_t,
    w0=cython.uint, w1=cython.uint, w2=cython.uint, w3=cython.uint, folded=cython.Py_ssize_t,
)
cdef unsigned int crc32_at(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

cpdef unsigned int crc32(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except? 77

@cython.locals(at=cython.Py_ssize_t)
cdef bint _page_lost(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(
    room=cython.Py_ssize_t, size=cython.longlong, magic=cython.uint, end=cython.Py_ssize_t,
    sys_flag=cython.uint, at=cython.Py_ssize_t, body_size=cython.longlong, body=cython.Py_ssize_t,
    topic_size=cython.int, topic_end=cython.Py_ssize_t, properties_size=cython.int,
)
cdef long long _check(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t limit, long long base, bint crc
) noexcept

cdef int _bounds(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t limit) except -1

@cython.locals(memory='const unsigned char*', 
    limit=cython.Py_ssize_t, count=cython.longlong, last=cython.Py_ssize_t, size=cython.longlong,
    store_ms=cython.longlong,
)
cpdef tuple walk(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t until, long long base,
    bint crc, long long doubt_ms,
)

@cython.locals(
    end=cython.Py_ssize_t, at=cython.Py_ssize_t, sys_flag=cython.uint, topic_size=cython.int,
    topic_end=cython.Py_ssize_t,
)
cdef bint _is_torn(const unsigned char* data, Py_ssize_t position, long long size) noexcept

@cython.locals(memory='const unsigned char*', at=cython.Py_ssize_t, seen=cython.int, step=cython.int)
cpdef Py_ssize_t find_nonzero(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except? -77

@cython.locals(memory='const unsigned char*', count=cython.Py_ssize_t, room=cython.Py_ssize_t, size=cython.longlong)
cpdef tuple collect(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t limit, long long base,
    bint crc, long long[::1] out,
)

@cython.locals(memory='const unsigned char*')
cpdef long long check(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t limit, long long base, bint crc
) except? -77

@cython.locals(at=cython.Py_ssize_t)
cdef long long _store_time(const unsigned char* data, Py_ssize_t position) noexcept

cpdef long long store_time(const unsigned char[::1] data, Py_ssize_t position) except? -77

@cython.locals(memory='const unsigned char*', 
    size=cython.longlong, queue_id=cython.longlong, sys_flag=cython.uint, at=cython.Py_ssize_t,
    body_size=cython.longlong, body=cython.Py_ssize_t, topic_size=cython.int,
    properties_size=cython.int,
)
cpdef tuple fields(const unsigned char[::1] data, Py_ssize_t position)

@cython.locals(memory='const unsigned char*')
cdef long long _i64_at(const unsigned char[::1] data, Py_ssize_t at) except? -77

@cython.locals(memory='const unsigned char*', marks='const unsigned char*', name='const unsigned char*', 
    count=cython.Py_ssize_t, limit=cython.Py_ssize_t, length=cython.Py_ssize_t,
    at=cython.Py_ssize_t, offset=cython.longlong, position=cython.Py_ssize_t,
    size=cython.longlong, sys_flag=cython.uint, topic_size=cython.int, step=cython.Py_ssize_t,
)
cpdef tuple match_units(
    const unsigned char[::1] units, Py_ssize_t index, long long first,
    const unsigned char[::1] data, long long base, long long queue_id,
    const unsigned char[::1] topic,
)

@cython.locals(memory='const unsigned char*', 
    entries=cython.Py_ssize_t, used=cython.longlong, reached=cython.longlong,
    slot=cython.Py_ssize_t, number=cython.longlong, at=cython.Py_ssize_t, before=cython.longlong,
)
cpdef tuple check_chains(
    const unsigned char[::1] data, Py_ssize_t slots, long long next_entry, unsigned char[::1] seen
)

@cython.locals(memory='const unsigned char*', 
    entries=cython.Py_ssize_t, before=cython.longlong, offset=cython.longlong,
    number=cython.longlong,
)
cpdef long long find_disorder(
    const unsigned char[::1] data, Py_ssize_t slots, long long next_entry
) except? -77
