import cython

from contrailmq._native cimport raw, record, text, unit

cdef const unsigned int[::1] _TABLE

cdef int _PAGE_SIZE, _BLOCK, _WASTE

@cython.locals(a=cython.uint, b=cython.uint, c=cython.uint, d=cython.uint)
cdef unsigned int _le32(const unsigned char* data, Py_ssize_t at) noexcept

@cython.locals(
    table="const unsigned int*", crc=cython.uint, at=cython.Py_ssize_t,
    w0=cython.uint, w1=cython.uint, w2=cython.uint, w3=cython.uint, folded=cython.Py_ssize_t,
)
cdef unsigned int crc32_at(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

cpdef unsigned int crc32(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except? 77

@cython.locals(at=cython.Py_ssize_t)
cdef bint _page_lost(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(stop=cython.Py_ssize_t, pair=text.Pair)
cdef bint _text_lost(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.locals(
    room=cython.Py_ssize_t, size=cython.longlong, magic=cython.uint, is_empty=cython.bint,
    found=record.Spans,
)
cdef record.Spans _find(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t limit, long long base
) noexcept

@cython.locals(crc=cython.uint)
cdef bint _has_checksum(const unsigned char* data, Py_ssize_t position, Py_ssize_t body, Py_ssize_t body_size) noexcept

@cython.locals(found=record.Spans)
cdef Py_ssize_t _check(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t limit, long long base, bint crc
) noexcept

cdef bint _is_name(const unsigned char* data, Py_ssize_t at, Py_ssize_t size, unsigned int magic) noexcept

cdef int _bounds(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t limit) except -1

@cython.locals(memory='const unsigned char*', 
    limit=cython.Py_ssize_t, count=cython.longlong, last=cython.Py_ssize_t, size=cython.longlong,
    store_ms=cython.longlong, found=record.Spans,
)
cpdef tuple walk(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t until, long long base,
    bint crc, long long doubt_ms,
)

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

cpdef long long store_time(const unsigned char[::1] data, Py_ssize_t position) except? -77

@cython.locals(memory='const unsigned char*', base=cython.longlong, found=record.Spans)
cpdef tuple fields(const unsigned char[::1] data, Py_ssize_t position)

@cython.locals(memory='const unsigned char*', marks='const unsigned char*', name='const unsigned char*', 
    count=cython.Py_ssize_t, limit=cython.Py_ssize_t, length=cython.Py_ssize_t,
    at=cython.Py_ssize_t, offset=cython.longlong, position=cython.Py_ssize_t,
    found=record.Spans,
)
cpdef tuple match_units(
    const unsigned char[::1] units, Py_ssize_t index, long long first,
    const unsigned char[::1] data, long long base, long long queue_id,
    const unsigned char[::1] topic,
)

@cython.locals(memory='const unsigned char*', limit=cython.Py_ssize_t, number=cython.Py_ssize_t,
    position=cython.longlong, base=cython.longlong,
)
cpdef list find_wrong_bodies(const unsigned char[::1] data, const long long[::1] positions)
