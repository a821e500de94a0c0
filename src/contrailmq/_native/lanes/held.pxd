import cython


@cython.final
cdef class Held:
    cdef object host
    cdef public long long size
    cdef public long long size_max
    cdef list _group

    cpdef object hold(self, bytes reply, object peer)

    cpdef list take(self)

    @cython.locals(index=cython.Py_ssize_t)
    cpdef object answer(self, list group)

    @cython.locals(index=cython.Py_ssize_t, was_over=cython.bint)
    cpdef object drop(self, list group)
