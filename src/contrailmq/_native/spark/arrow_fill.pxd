cimport cython

from contrailmq._native cimport raw, record, text
from contrailmq._native.spark cimport place
from contrailmq._native.spark.arrow cimport Survey

cdef Py_ssize_t _ID_SIZE, _ID_MORE, _HOST_SIZE_MAX, _HOST_MORE, _ADDRESS_SIZE
cdef long long _I64_MAX
cdef long long _SIZE_MAX
cdef Py_ssize_t _SLACK, _BITS

@cython.locals(column=Column)
cpdef void fill(Survey survey, list columns, bint is_plain=*)


cdef class Column:
    cpdef void begin(self, Py_ssize_t rows)
    cpdef void add(self, Survey survey)


cdef class Ints(Column):
    cdef Py_ssize_t _part
    cdef Py_ssize_t _shift
    cdef readonly bytearray data
    cdef int[::1] _out

    @cython.locals(out="int[::1]", places="const long long*", index=Py_ssize_t, at=Py_ssize_t)
    cpdef void add(self, Survey survey)


cdef class Longs(Column):
    cdef Py_ssize_t _part
    cdef Py_ssize_t _shift
    cdef long long _scale
    cdef readonly bytearray data
    cdef long long[::1] _out

    @cython.locals(out="long long[::1]", places="const long long*", top=cython.longlong, value=cython.longlong, index=Py_ssize_t, at=Py_ssize_t)
    cpdef void add(self, Survey survey)


cdef class Texts(Column):
    cdef Py_ssize_t count
    cdef Py_ssize_t size
    cdef Py_ssize_t _rows
    cdef bytearray _offset_memory
    cdef int[::1] _offsets
    cdef bytearray _memory
    cdef unsigned char[::1] _out

    @cython.locals(count=Py_ssize_t, size=Py_ssize_t)
    cpdef void begin(self, Py_ssize_t rows)

    cpdef tuple take(self)

    cdef void _clear(self, Py_ssize_t count, Py_ssize_t size)

    @cython.locals(done=Py_ssize_t, offsets=bytearray, memory=bytearray)
    cdef void _make_room(self, Survey survey, Py_ssize_t count, Py_ssize_t size)

    @cython.locals(size=Py_ssize_t, room=Py_ssize_t, source="const unsigned char*", limit=Py_ssize_t, target="unsigned char*", offsets="int[::1]", index=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t)
    cdef void _append(self, Survey survey, const long long* numbers, Py_ssize_t count, Py_ssize_t width, Py_ssize_t first, Py_ssize_t cut)


cdef class Spans(Texts):
    cdef Py_ssize_t _part

    @cython.locals(size=Py_ssize_t)
    cpdef void add(self, Survey survey)


cdef class Names(Texts):
    cpdef void add(self, Survey survey)


cdef class Values(Texts):
    cpdef void add(self, Survey survey)


cdef class Hits(Texts):
    cdef Py_ssize_t _column
    cdef readonly Py_ssize_t gap_count
    cdef readonly bytearray validity

    cpdef void begin(self, Py_ssize_t rows)

    @cython.locals(step=Py_ssize_t, hits="const long long*", validity="unsigned char[::1]", index=Py_ssize_t, row=Py_ssize_t)
    cpdef void add(self, Survey survey)


cdef class MessageIds(Texts):
    @cython.locals(data="const unsigned char*", places="const long long*", out="unsigned char*", size=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, offset=cython.longlong)
    cpdef void add(self, Survey survey)


cdef class BornHosts(Texts):
    @cython.locals(data="const unsigned char*", places="const long long*", out="unsigned char*", slot=Py_ssize_t, size=Py_ssize_t, before=Py_ssize_t, before_end=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, step=Py_ssize_t)
    cpdef void add(self, Survey survey)


cdef void _require(Py_ssize_t room, Py_ssize_t rows)

@cython.locals(byte=Py_ssize_t)
cdef Py_ssize_t _host(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, unsigned char* out, Py_ssize_t size) noexcept nogil

@cython.locals(size=Py_ssize_t)
cdef bint _same_host(const unsigned char* data, Py_ssize_t first, Py_ssize_t first_end, Py_ssize_t second, Py_ssize_t second_end) noexcept nogil

@cython.locals(shift=cython.int)
cdef Py_ssize_t _hexadecimal(int value, unsigned char* out, Py_ssize_t size) noexcept nogil
