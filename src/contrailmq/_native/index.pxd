import cython

from contrailmq._native cimport raw

cdef int _HEAD, _ENTRY
cdef long long _INT_MAX

cdef unsigned int _MASK, _SIGN
cdef long long _TWO_32




cdef unsigned int _31_2, _31_3, _31_4

cpdef unsigned int java_hash(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, unsigned int seed) except? 77

@cython.locals(
    value=cython.uint, at=cython.Py_ssize_t, a=cython.uint, b=cython.uint, c=cython.uint,
    d=cython.uint,
)
cdef unsigned int hash_at(const unsigned char* address, Py_ssize_t start, Py_ssize_t end, unsigned int seed) except? 77

@cython.locals(value=cython.uint, code=cython.uint)
cdef unsigned int _hash_text(bytes rest, unsigned int seed) except? 77

cpdef unsigned int key_hash(unsigned int value) noexcept


@cython.final
cdef class IndexWriter:
    cdef unsigned char[::1] buffer
    cdef unsigned char* address
    cdef readonly long long slots
    cdef readonly long long entries
    cdef public long long begin_ms
    cdef public long long end_ms
    cdef public long long begin_offset
    cdef public long long end_offset
    cdef public long long slot_count
    cdef public long long count
    cdef public long long limit

    cpdef int begin(self, long long end_ms, long long end_offset) except -1
    cpdef bint is_full(self)
    cpdef bint has_room(self)

    @cython.locals(
        number=cython.longlong, slot=cython.Py_ssize_t, before=cython.longlong,
        seconds=cython.longlong, at=cython.Py_ssize_t,
    )
    cpdef bint put(self, unsigned int value, long long offset, long long store_ms) except -1
    cdef int _store_head(self) except -1


@cython.locals(
    address="unsigned char*", count=cython.longlong, file_begin_ms=cython.longlong, number=cython.longlong,
    steps=cython.longlong, at=cython.Py_ssize_t, seconds=cython.longlong, time_ms=cython.longlong,
    before=cython.longlong,
)
cpdef list find(
    const unsigned char[::1] data, long long slots, long long entries, unsigned int value,
    long long begin_ms, long long end_ms, long long limit,
)
