import cython

cdef int _COUNT, _LONG


@cython.final
cdef class Times:
    cdef long long[::1] _bounds
    cdef long long[::1] _counts
    cdef readonly long long total
    cdef readonly long long sum_ns
    cdef readonly long long worst_ns

    @cython.locals(index=cython.Py_ssize_t)
    cpdef int add(self, long long took_ns, long long times) except -1

    cpdef list counts(self)
