import cython

from contrailmq._native cimport index_file, raw

cdef long long _INT_MAX, _SECOND_MS, _TWO_32
cdef unsigned int _SIGN

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
    before=cython.longlong, is_late=cython.bint, entry_hash=cython.uint,
)
cpdef list find(
    const unsigned char[::1] data, long long slots, long long entries, unsigned int value,
    long long begin_ms, long long end_ms, long long limit,
)


@cython.locals(memory='const unsigned char*', 
    used=cython.longlong, reached=cython.longlong,
    slot=cython.Py_ssize_t, number=cython.longlong, at=cython.Py_ssize_t, before=cython.longlong,
)
cpdef tuple check_chains(
    const unsigned char[::1] data, Py_ssize_t slots, long long next_entry, unsigned char[::1] seen
)

@cython.locals(memory='const unsigned char*', 
    at=cython.Py_ssize_t, before=cython.longlong, offset=cython.longlong,
    number=cython.longlong,
)
cpdef long long find_disorder(
    const unsigned char[::1] data, Py_ssize_t slots, long long next_entry
) except? -77
