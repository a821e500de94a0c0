cimport cython

from contrailmq._native cimport raw
from contrailmq._native.arrow cimport Survey

cdef Py_ssize_t _WIDTH
cdef Py_ssize_t _PAIR_WIDTH
cdef long long _I64_MAX

@cython.locals(source="const unsigned char*", places="const long long*", index=Py_ssize_t)
cpdef void fill_i32(Survey survey, Py_ssize_t column, Py_ssize_t shift, int[::1] out)

@cython.locals(source="const unsigned char*", places="const long long*", index=Py_ssize_t, top=cython.longlong, value=cython.longlong)
cpdef void fill_i64(Survey survey, Py_ssize_t column, Py_ssize_t shift, long long scale, long long[::1] out)

cpdef void fill_spans(Survey survey, Py_ssize_t column, int[::1] offsets, unsigned char[::1] out)
cpdef void fill_names(Survey survey, int[::1] offsets, unsigned char[::1] out)
cpdef void fill_values(Survey survey, int[::1] offsets, unsigned char[::1] out)
cpdef void fill_hits(Survey survey, Py_ssize_t column, int[::1] offsets, unsigned char[::1] out)

@cython.locals(size=Py_ssize_t, room=Py_ssize_t, count=Py_ssize_t, source="const unsigned char*", limit=Py_ssize_t, target="unsigned char*", index=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t)
cdef void _fill(Survey survey, const long long* numbers, Py_ssize_t width, Py_ssize_t first, Py_ssize_t cut, int[::1] offsets, unsigned char[::1] out)

@cython.locals(hits="const long long*", index=Py_ssize_t)
cpdef void fill_validity(Survey survey, Py_ssize_t column, unsigned char[::1] validity)

@cython.locals(count=Py_ssize_t, data="const unsigned char*", places="const long long*", room=Py_ssize_t, size=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t, host=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t fill_message_ids(Survey survey, int[::1] offsets, unsigned char[::1] out) except -1

cdef unsigned char _hex(int digit) noexcept nogil

@cython.locals(count=Py_ssize_t, data="const unsigned char*", places="const long long*", room=Py_ssize_t, size=Py_ssize_t, before=Py_ssize_t, before_end=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, step=Py_ssize_t, place=Py_ssize_t, port=cython.longlong)
cpdef Py_ssize_t fill_born_hosts(Survey survey, int[::1] offsets, unsigned char[::1] out) except -1

@cython.locals(size=Py_ssize_t)
cdef bint _same_host(const unsigned char* data, Py_ssize_t first, Py_ssize_t first_end, Py_ssize_t second, Py_ssize_t second_end) noexcept nogil

@cython.locals(scale=cython.longlong)
cdef Py_ssize_t _decimal(long long value, unsigned char[::1] out, Py_ssize_t size) noexcept nogil

@cython.locals(shift=cython.int, digit=cython.int)
cdef Py_ssize_t _hexadecimal(int value, unsigned char[::1] out, Py_ssize_t size) noexcept nogil

cdef void _require(Py_ssize_t there, Py_ssize_t count, Py_ssize_t column)
