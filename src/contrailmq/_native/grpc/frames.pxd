import cython

from contrailmq._native cimport raw

cdef int _DATA, _HEADERS, _RESET, _WINDOW_UPDATE, _END_STREAM, _END_HEADERS
cdef Py_ssize_t _HEAD_SIZE, _PREFIX_SIZE, _ID_AT
cdef bytes _OK, _TYPE_ENTERS, _TYPE_PLAIN, _STATUS_ENTERS, _STATUS_PLAIN, _NEWEST, _SECOND, _NO_TABLE


@cython.final
cdef class FrameOut:
    cdef object _on_first
    cdef public bytearray out
    cdef public bint is_held
    cdef readonly bint can_enter
    cdef bint _has_type, _has_status
    cdef bytes _opening
    cdef bytearray _head, _prefix

    cpdef bytearray take(self)

    cpdef bytes opening(self)

    cpdef object frame(self, int kind, int flags, long long number, bytes payload)

    cpdef object reset(self, long long number, code)

    cpdef object window(self, long long number, step)

    cpdef object data(self, long long number, int flags, object chunk)

    cpdef object message(self, long long number, bytes message)

    @cython.locals(block=bytes)
    cpdef object first(self, long long number)

    @cython.locals(block=bytes)
    cpdef object last(self, long long number)

    @cython.locals(head="unsigned char*")
    cdef object _put_head(self, Py_ssize_t size, int kind, int flags, long long number)

    cdef object _touch(self)
