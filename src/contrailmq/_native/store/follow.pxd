import cython

from contrailmq._native.store.gather cimport Gatherer
from contrailmq._native.store.log cimport LogWriter
from contrailmq._native.store.queues cimport Deriver, QueueWriter

cdef long long _CHECK_SIZE
cdef bytes _ALWAYS_TOLD, _TIMERS


@cython.final
cdef class Follower:
    cdef LogWriter log
    cdef Gatherer gatherer
    cdef Deriver deriver
    cdef object host
    cdef public bint follows
    cdef public bint is_open
    cdef public long long derived_offset
    cdef public dict dirty
    cdef public object on_readable
    cdef public dict awaited
    cdef public object on_appended
    cdef public dict topics
    cdef long long _check_at

    cpdef bint is_ready(self) noexcept

    @cython.locals(
        end=cython.longlong, base=cython.longlong, start=cython.Py_ssize_t, stage="unsigned char[::1]"
    )
    cpdef int appended(self) except -1

    cdef int _derive(self, const unsigned char[::1] stage, long long base, Py_ssize_t size) except -1

    @cython.locals(touched=list, queue=QueueWriter)
    cpdef int tell(self) except -1

    cdef bint _is_awaited(self, QueueWriter queue) except -1
