import cython

from contrailmq._native cimport raw, system
from contrailmq._native.net.reads cimport Reads

cdef int _ROOM


@cython.final
cdef class Turns:
    cdef object now
    cdef object _epoll
    cdef readonly int fd
    cdef dict _members
    cdef object _found
    cdef unsigned char* _found_address
    cdef int[::1] _words

    @cython.locals(now=cython.double, index=cython.int, reads=Reads, found=object)
    cpdef object run(self)
