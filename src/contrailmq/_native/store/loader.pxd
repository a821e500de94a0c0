import cython

from contrailmq._native cimport raw, system

cdef int _WORD

@cython.locals(room=cython.longlong)
cpdef serve(int wake_fd, int done_fd, const unsigned char[::1] orders)
