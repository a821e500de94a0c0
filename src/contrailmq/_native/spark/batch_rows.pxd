cimport cython

from contrailmq._native cimport hashing, inner, raw, record, text

cdef Py_ssize_t _UNIQUE_SIZE, _UNIQUE_DIGITS, _HIGH_AT, _LOW_AT


@cython.final
cdef class Spans:
    cdef const unsigned char[::1] name
    cdef const int[::1] offsets
    cdef const unsigned char[::1] data
    cdef const unsigned char[::1] validity
    cdef Py_ssize_t first
    cdef Py_ssize_t size
    cdef Py_ssize_t limit
    cdef bint has_gaps
    cdef const unsigned char* name_address
    cdef Py_ssize_t name_size
    cdef const unsigned char* address

    @cython.locals(at=Py_ssize_t, start=Py_ssize_t)
    cpdef Py_ssize_t start(self, Py_ssize_t row) noexcept

    cpdef Py_ssize_t end(self, Py_ssize_t row) noexcept


@cython.final
cdef class Pairs:
    cdef Spans rows
    cdef const int[::1] offsets
    cdef Py_ssize_t first
    cdef Spans names
    cdef Spans values
    cdef const unsigned char[::1] skip
    cdef Py_ssize_t count
    cdef Py_ssize_t end_at

    @cython.locals(start=Py_ssize_t)
    cpdef Py_ssize_t start(self, Py_ssize_t row) noexcept


@cython.final
cdef class Encoder:
    cdef Spans body
    cdef list texts
    cdef Pairs pairs
    cdef bint with_unique
    cdef bytes unique
    cdef const unsigned char* unique_address
    cdef long long base
    cdef readonly long long bad_row

    @cython.locals(text=str)
    cpdef number(self, const unsigned char[::1] origin, const unsigned char[::1] time, long long base)

    @cython.locals(count=Py_ssize_t, total=Py_ssize_t, row=Py_ssize_t, size=Py_ssize_t, target="unsigned char*")
    cpdef tuple encode(self, const long long[::1] rows, Py_ssize_t begin, unsigned char[::1] out, Py_ssize_t at, Py_ssize_t limit)

    @cython.locals(start=Py_ssize_t, size=Py_ssize_t, properties=Py_ssize_t, column=Spans, added=Py_ssize_t)
    cdef Py_ssize_t _measure(self, Py_ssize_t row) except? -1

    @cython.locals(size=Py_ssize_t, entry=Py_ssize_t, name=Py_ssize_t, value=Py_ssize_t, name_end=Py_ssize_t, value_end=Py_ssize_t)
    cdef Py_ssize_t _measure_pairs(self, Pairs pairs, Py_ssize_t row) except? -1

    @cython.locals(start=Py_ssize_t, body_size=Py_ssize_t, place=Py_ssize_t, column=Spans)
    cdef int _write(self, Py_ssize_t row, unsigned char* out, Py_ssize_t at, Py_ssize_t size) except -1

    @cython.locals(entry=Py_ssize_t, name=Py_ssize_t, value=Py_ssize_t, name_size=Py_ssize_t, value_size=Py_ssize_t)
    cdef Py_ssize_t _write_pairs(self, Pairs pairs, Py_ssize_t row, unsigned char* out, Py_ssize_t place) except -1

    @cython.locals(number=cython.longlong)
    cdef int _write_unique(self, Py_ssize_t row, unsigned char* out, Py_ssize_t place) except -1


@cython.locals(row=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, value=cython.longlong)
cpdef int hash_rows(Spans keys, Py_ssize_t count, Py_ssize_t queue_count, int[::1] out) except -1

cdef bint _is_plain(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

cdef Py_ssize_t _copy(unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

cdef void _put_half(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil
