import cython

from contrailmq._native cimport raw

cdef int _FIELD_EXTRA, _NUMBER_MAX, _SHIFT_MAX, _HIGH_BIT, _SIZE_BITS, _SIZE_MARK, _SLACK
cdef int _REGULAR, _BAD, _METHOD, _SCHEME, _PATH, _AUTHORITY, _STATUS
cdef dict _PSEUDO
cdef frozenset _FORBIDDEN, _NAME_LETTERS
cdef const unsigned char[::1] _steps, _does, _symbols, _may_end
cdef const unsigned char* _steps_at
cdef const unsigned char* _does_at
cdef const unsigned char* _symbols_at
cdef const unsigned char* _may_end_at
cdef list _static
cdef Py_ssize_t _static_count


@cython.final
cdef class Field:
    cdef readonly str name
    cdef readonly str value
    cdef readonly int kind
    cdef readonly Py_ssize_t size


cdef int _kind_of(str name) except -1

cdef bint _has_control(str value) except -1

cdef str _latin(const unsigned char* data, Py_ssize_t at, Py_ssize_t size)


@cython.final
cdef class HeaderDecoder:
    cdef list _table
    cdef Py_ssize_t _first, _size, _size_max, _size_limit, _list_size_max, _at, _end
    cdef const unsigned char[::1] _view
    cdef const unsigned char* _data
    cdef readonly str method, scheme, path, authority, status, problem
    cdef readonly bint is_too_large

    @cython.locals(view="const unsigned char[::1]", fields=dict)
    cpdef dict decode(self, object block, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(total=cython.Py_ssize_t, is_first=cython.bint, byte=cython.int, field=Field)
    cdef object _walk(self, dict fields)

    @cython.locals(kind=cython.int, name=str, before=str)
    cdef object _keep(self, Field field, dict fields)

    @cython.locals(mask=cython.longlong, value=cython.longlong, shift=cython.int, byte=cython.longlong)
    cdef Py_ssize_t _number(self, int bits) except -1

    @cython.locals(place=cython.Py_ssize_t)
    cdef Field _entry(self, Py_ssize_t index)

    @cython.locals(index=cython.Py_ssize_t, known=Field, name=str, value=str, kind=cython.int)
    cdef Field _literal(self, int bits)

    @cython.locals(is_coded=cython.bint, size=cython.Py_ssize_t, start=cython.Py_ssize_t)
    cdef str _text(self)

    @cython.locals(
        buffer="unsigned char[::1]", out="unsigned char*", data="const unsigned char*",
        state=cython.int, count=cython.Py_ssize_t, at=cython.Py_ssize_t, byte=cython.int,
        half=cython.int, step=cython.int, doing=cython.int,
    )
    cdef str _unpacked(self, Py_ssize_t start, Py_ssize_t size)

    cdef object _insert(self, Field field)

    cdef object _resize(self, Py_ssize_t size)

    @cython.locals(field=Field)
    cdef object _shrink(self, Py_ssize_t size)
