import cython

from contrailmq._native cimport raw
from contrailmq._native.lanes.answers cimport AnswerParts
from contrailmq._native.sql cimport SqlProgram
from contrailmq._native.store.gather cimport LogView
from contrailmq._native.store.queues cimport QueueWriter

cdef int _UNIT, _SIZE_STEPS


@cython.final
cdef class LaneTopic:
    cdef readonly bytes topic
    cdef const unsigned char[::1] topic_view
    cdef const unsigned char* topic_address
    cdef Py_ssize_t topic_size
    cdef readonly list queues
    cdef readonly long long queue_count
    cdef long long[::1] counts
    cdef long long[::1] sizes
    cdef long long[::1] calls
    cdef long long[::1] spread
    cdef public bint is_touched

    @cython.locals(count=cython.longlong, size=cython.longlong, calls=cython.longlong)
    cpdef tuple take(self, Py_ssize_t queue_id)

    cpdef list take_spread(self)


@cython.final
cdef class LaneQueue:
    cdef readonly object queue
    cdef readonly QueueWriter writer
    cdef const unsigned char[::1] units
    cdef LogView view
    cdef readonly long long first
    cdef readonly long long last
    cdef list tally


@cython.final
cdef class LanePlan:
    cdef readonly str group
    cdef readonly str topic
    cdef readonly long long queue_count
    cdef readonly object codes
    cdef readonly SqlProgram program
    cdef readonly AnswerParts found
    cdef readonly AnswerParts missed
    cdef readonly list queues
    cdef dict pulls
