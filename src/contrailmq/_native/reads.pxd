import cython

from contrailmq._native cimport system


@cython.final
cdef class Reads:
    cdef object connection
    cdef public object owner
    cdef object shared
    cdef object run_lane
    cdef object now
    cdef public object room
    cdef public object out
    cdef public object write
    cdef public object waiting
    cdef public int fd
    cdef public object outlet
    cdef public bint is_straight
    cdef public double read_at

    cpdef object get_buffer(self, object sizehint)

    @cython.locals(out=list, position=cython.Py_ssize_t, left=cython.Py_ssize_t)
    cpdef object buffer_updated(self, Py_ssize_t nbytes)

    @cython.locals(left=cython.Py_ssize_t)
    cpdef object answer(self, object reply)
