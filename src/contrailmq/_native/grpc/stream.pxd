import cython

cdef dict _UNITS


@cython.final
cdef class Stream:
    cdef readonly object session
    cdef readonly long long number
    cdef readonly str method
    cdef public object metadata
    cdef public object handler
    cdef public bint is_unary
    cdef public double arrived
    cdef public long long send_left
    cdef public long long receive_left
    cdef public long long held
    cdef public object buffer
    cdef public list messages
    cdef public list pending
    cdef public bytes last
    cdef public bint has_begun
    cdef public bint has_ended
    cdef public bint is_done
    cdef public bint is_gone
    cdef public object waiter
    cdef public object writer
    cdef public object task
    cdef public object timer
    cdef public object state
    cdef list _callbacks

    cpdef list take_callbacks(self)


cpdef double timeout_of(object text) except? -2
