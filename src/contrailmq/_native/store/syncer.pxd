from contrailmq._native cimport raw, system

cdef int _WORDS, _WORD

cpdef serve(int wake_fd, int done_fd, const unsigned char[::1] order)
