import cython

from contrailmq._native cimport raw

cdef int _VARINT, _FIXED64, _SIZED, _FIXED32, _SHIFT_END, _HIGH_BIT, _WORD_BITS
cdef object _FLOAT
cdef unsigned long long _WORD, _POSITIVE


@cython.final
cdef class FieldPlan:
    cdef readonly str name
    cdef readonly int number
    cdef readonly int kind
    cdef readonly bint is_list
    cdef readonly bint has_presence
    cdef readonly Plan codec
    cdef readonly bytes tag


@cython.final
cdef class Plan:
    cdef object _make
    cdef list _fields
    cdef list _by_number

    cpdef bytes encode(self, object message)

    @cython.locals(field=FieldPlan)
    cpdef object write(self, bytearray out, object message)

    @cython.locals(kind=cython.int, pair=bytearray, packed=bytearray)
    cdef object _put(self, bytearray out, FieldPlan field, object value)

    @cython.locals(kind=cython.int, part=bytearray)
    cdef object _put_one(self, bytearray out, FieldPlan field, object value)

    @cython.locals(reader=Reader)
    cpdef object decode(self, object data)

    @cython.locals(
        found=dict, known=cython.ulonglong, tag=cython.ulonglong, number=cython.ulonglong, wire=cython.int,
        field=FieldPlan, end=cython.Py_ssize_t, value=cython.ulonglong, size=cython.Py_ssize_t,
    )
    cpdef object read(self, Reader reader, Py_ssize_t stop)


@cython.final
cdef class Reader:
    cdef const unsigned char[::1] _view
    cdef const unsigned char* _data
    cdef public Py_ssize_t at

    @cython.locals(
        data="const unsigned char*", at=cython.Py_ssize_t, result=cython.ulonglong,
        shift=cython.int, byte=cython.int,
    )
    cdef unsigned long long varint(self, Py_ssize_t stop) except? 0xFFFFFFFFFFFFFFFF

    @cython.locals(size=cython.ulonglong, room=cython.ulonglong)
    cdef Py_ssize_t end_of_part(self, Py_ssize_t stop) except -1

    cdef bytes bytes_to(self, Py_ssize_t end)

    cdef str text_to(self, Py_ssize_t end, str name)


cdef unsigned long long _shifted(unsigned long long bits, int shift) noexcept

@cython.locals(kind=cython.int)
cdef object _take(dict found, FieldPlan field, Reader reader, Py_ssize_t end)

@cython.locals(tag=cython.ulonglong, wire=cython.int, stop=cython.Py_ssize_t, pairs=dict, key=str, value=str)
cdef object _take_pair(dict found, FieldPlan field, Reader reader, Py_ssize_t end)

@cython.locals(items=list)
cdef object _note(dict found, FieldPlan field, object value)

cdef object _check_count(Py_ssize_t count, str name)

cdef object _number(FieldPlan field, unsigned long long value)

cdef long long _signed(unsigned long long value) noexcept

cdef object _put_sized(bytearray out, bytes tag, object data)

@cython.locals(high=cython.ulonglong)
cdef object _put_varint(bytearray out, unsigned long long value)

cdef object _broken(str what, Py_ssize_t at)
