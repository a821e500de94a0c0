import cython


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
    cdef public object outlet
    cdef public bint is_straight
    cdef public double read_at

    cpdef object get_buffer(self, object sizehint)

    @cython.locals(out=list, position=cython.Py_ssize_t)
    cpdef object buffer_updated(self, Py_ssize_t nbytes)

    cpdef object answer(self, object reply)
