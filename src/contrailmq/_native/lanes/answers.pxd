import cython

from contrailmq._native cimport names, raw, text

cdef int _PARTS_MAX, _HEAD_SIZE, _BINARY


@cython.final
cdef class AnswerParts:
    cdef const unsigned char[::1] constant
    cdef const unsigned char* address
    cdef readonly Py_ssize_t size
    cdef readonly bint is_binary
    cdef long long[::1] _ends
    cdef long long[::1] _meanings
    cdef long long* ends
    cdef long long* meanings


@cython.final
cdef class AnswerWriter:
    cdef readonly Py_ssize_t size
    cdef public Py_ssize_t end
    cdef long long[::1] _numbers
    cdef long long* numbers
    cdef unsigned char[::1] _out
    cdef unsigned char* address
    cdef unsigned char[::1] _ids
    cdef unsigned char* _ids_address
    cdef Py_ssize_t _ids_size
    cdef const unsigned char* _key
    cdef Py_ssize_t _key_at, _key_size
    cdef const unsigned char[::1] _id_prefix
    cdef const unsigned char* _id_prefix_address
    cdef Py_ssize_t _id_prefix_size
    cdef readonly Py_ssize_t id_size

    cdef Py_ssize_t rest(self) noexcept

    cpdef bytes take(self)

    cdef int key(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept

    @cython.locals(out="unsigned char*", at=cython.Py_ssize_t)
    cdef int add_id(self, long long offset) noexcept

    @cython.locals(
        out="unsigned char*", start=cython.Py_ssize_t, at=cython.Py_ssize_t,
        fields_at=cython.Py_ssize_t, before=cython.Py_ssize_t, number=cython.int,
        size=cython.Py_ssize_t, meaning=cython.int, value_at=cython.Py_ssize_t,
        header_size=cython.longlong, is_binary=cython.bint,
    )
    cdef int write(self, AnswerParts parts, long long body_size) noexcept
