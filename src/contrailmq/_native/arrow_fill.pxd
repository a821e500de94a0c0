cimport cython

from contrailmq._native cimport raw

cdef Py_ssize_t _WIDTH
cdef long long _WRAP
cdef long long _I64_MAX

@cython.locals(first=cython.uint)
cdef unsigned int _u32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(value=cython.longlong)
cdef long long _i32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(high=cython.longlong, low=cython.uint)
cdef long long _i64(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(index=Py_ssize_t)
cdef bint _same(const unsigned char[::1] data, Py_ssize_t first, Py_ssize_t second, Py_ssize_t size) noexcept nogil

@cython.locals(index=Py_ssize_t)
cpdef void fill_i32(const unsigned char[::1] data, const long long[::1] places, Py_ssize_t column, Py_ssize_t shift, int[::1] out)

@cython.locals(index=Py_ssize_t, top=cython.longlong, value=cython.longlong)
cpdef void fill_i64(const unsigned char[::1] data, const long long[::1] places, Py_ssize_t column, Py_ssize_t shift, long long scale, long long[::1] out)

@cython.locals(size=Py_ssize_t, room=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, source="const unsigned char*", target="unsigned char*")
cpdef void fill_spans(const unsigned char[::1] data, const long long[::1] places, Py_ssize_t column, int[::1] offsets, unsigned char[::1] out)

cpdef void fill_names(const unsigned char[::1] data, const long long[::1] pairs, int[::1] offsets, unsigned char[::1] out)
cpdef void fill_values(const unsigned char[::1] data, const long long[::1] pairs, int[::1] offsets, unsigned char[::1] out)

@cython.locals(size=Py_ssize_t, room=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, source="const unsigned char*", target="unsigned char*")
cdef void _fill_pairs(const unsigned char[::1] data, const long long[::1] pairs, Py_ssize_t part, int[::1] offsets, unsigned char[::1] out)

@cython.locals(count=Py_ssize_t, wanted=Py_ssize_t, size=Py_ssize_t, gaps=Py_ssize_t, index=Py_ssize_t, found=Py_ssize_t, pair=Py_ssize_t, start=Py_ssize_t, step=Py_ssize_t)
cpdef tuple find_pairs(const unsigned char[::1] data, const int[::1] firsts, const long long[::1] pairs, const unsigned char[::1] name, long long[::1] hits)

@cython.locals(wanted=Py_ssize_t, size=Py_ssize_t, gaps=Py_ssize_t, source="const unsigned char*", known="const unsigned char*", index=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, value=Py_ssize_t, value_end=Py_ssize_t, at=Py_ssize_t)
cpdef tuple find_values(const unsigned char[::1] data, const long long[::1] places, Py_ssize_t count, const unsigned char[::1] name, long long[::1] pairs, long long[::1] hits)

@cython.locals(size=Py_ssize_t, room=Py_ssize_t, count=Py_ssize_t, index=Py_ssize_t, pair=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, source="const unsigned char*", target="unsigned char*")
cpdef void fill_hits(const unsigned char[::1] data, const long long[::1] pairs, const long long[::1] hits, int[::1] offsets, unsigned char[::1] out)

@cython.locals(index=Py_ssize_t)
cpdef void fill_validity(const long long[::1] hits, Py_ssize_t count, unsigned char[::1] validity)

@cython.locals(count=Py_ssize_t, room=Py_ssize_t, size=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t, host=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t fill_message_ids(const unsigned char[::1] data, const long long[::1] places, int[::1] offsets, unsigned char[::1] out) except -1

cdef unsigned char _hex(int digit) noexcept nogil

@cython.locals(count=Py_ssize_t, room=Py_ssize_t, size=Py_ssize_t, before=Py_ssize_t, before_end=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, step=Py_ssize_t, place=Py_ssize_t, port=cython.longlong)
cpdef Py_ssize_t fill_born_hosts(const unsigned char[::1] data, const long long[::1] places, int[::1] offsets, unsigned char[::1] out) except -1

@cython.locals(size=Py_ssize_t)
cdef bint _same_host(const unsigned char[::1] data, Py_ssize_t first, Py_ssize_t first_end, Py_ssize_t second, Py_ssize_t second_end) noexcept nogil

@cython.locals(scale=cython.longlong)
cdef Py_ssize_t _decimal(long long value, unsigned char[::1] out, Py_ssize_t size) noexcept nogil

@cython.locals(shift=cython.int, digit=cython.int)
cdef Py_ssize_t _hexadecimal(int value, unsigned char[::1] out, Py_ssize_t size) noexcept nogil

cdef void _require(Py_ssize_t numbers, Py_ssize_t count, Py_ssize_t column)
