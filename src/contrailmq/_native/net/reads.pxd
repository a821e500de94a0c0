import cython

from contrailmq._native cimport raw, system


@cython.final
cdef class Reads:
    cdef readonly object connection
    cdef public object owner
    cdef object shared
    cdef object run_lane
    cdef object now
    cdef public object room
    cdef unsigned char* _shared_address
    cdef Py_ssize_t _shared_size
    cdef public object out
    cdef public object write
    cdef public object waiting
    cdef public int fd
    cdef public object outlet
    cdef public bint is_straight
    cdef public double read_at

    cpdef object get_buffer(self, object sizehint)

    cpdef object buffer_updated(self, Py_ssize_t nbytes)

    @cython.locals(got=cython.Py_ssize_t)
    cpdef bint receive(self, double now) except -1

    @cython.locals(view="unsigned char[::1]")
    cdef Py_ssize_t _receive_rest(self) except -2

    @cython.locals(out=list, position=cython.Py_ssize_t, left=cython.Py_ssize_t)
    cdef object _handle(self, Py_ssize_t nbytes)

    @cython.locals(left=cython.Py_ssize_t)
    cpdef object answer(self, object reply)
