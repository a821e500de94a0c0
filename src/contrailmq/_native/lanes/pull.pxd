import cython

from contrailmq._native cimport names, raw, system
from contrailmq._native.lanes.answers cimport AnswerParts, AnswerWriter
from contrailmq._native.lanes.decided cimport LanePlan, LaneQueue
from contrailmq._native.lanes.fields cimport PullFields
from contrailmq._native.lanes.gate cimport Gate
from contrailmq._native.lanes.times cimport Times
from contrailmq._native.net.request cimport RequestScan
from contrailmq._native.store.gather cimport Gatherer, Limits

cdef int _PULL, _LITE_PULL, _UNIT, _COMMIT, _SUBSCRIPTION, _KEY_SIZE, _KEY_REST, _GIVEN_MAX, _HEAD_SIZE, _FOUND, _NO_MATCH


@cython.final
cdef class PullLane:
    cdef object host
    cdef Gatherer gatherer
    cdef Limits limits
    cdef object counters
    cdef PullFields fields
    cdef Gate gate
    cdef readonly dict plans
    cdef readonly int ended
    cdef readonly long long answered
    cdef readonly Times times
    cdef RequestScan scan
    cdef AnswerWriter head
    cdef object _owner
    cdef const unsigned char[::1] _buffer
    cdef Py_ssize_t _buffer_size
    cdef unsigned char[::1] _key
    cdef unsigned char* _key_address
    cdef bytes _last_key
    cdef const unsigned char* _last_key_address
    cdef Py_ssize_t _last_key_size
    cdef LanePlan _last_plan

    cpdef int forget_plans(self, Limits limits) except -1

    cpdef int release(self) except -1

    @cython.locals(began_ns=cython.longlong, answered=cython.longlong)
    cpdef Py_ssize_t run(self, object buffer, Py_ssize_t start, Py_ssize_t end, list out) except -1

    @cython.locals(found=cython.int, data="const unsigned char*", given=cython.Py_ssize_t)
    cdef Py_ssize_t _run(self, Py_ssize_t start, Py_ssize_t end, list out) except -1

    @cython.locals(scan=RequestScan, fields=PullFields, wanted=cython.int, plan=LanePlan)
    cdef bint _take(self, const unsigned char* data, list out) except -1

    @cython.locals(
        scan=RequestScan, fields=PullFields, size=cython.Py_ssize_t, key="unsigned char*",
        last=LanePlan, name=bytes, plan=LanePlan,
    )
    cdef LanePlan _plan(self, const unsigned char* data, int wanted)

    @cython.locals(size=cython.Py_ssize_t)
    cdef Py_ssize_t _part(self, const unsigned char* data, Py_ssize_t at, int field) noexcept

    @cython.locals(
        gatherer=Gatherer, fields=PullFields, queue_id=cython.Py_ssize_t, found=object,
        queue=LaneQueue, high=cython.longlong, low=cython.longlong, seen=cython.longlong,
    )
    cdef bint _answer(self, LanePlan plan, list out) except -1

    @cython.locals(
        gatherer=Gatherer, fields=PullFields, offset=cython.longlong, end=cython.longlong,
        start=cython.longlong, stop=cython.longlong, span=cython.longlong, seen=cython.longlong,
    )
    cdef Py_ssize_t _select(self, LanePlan plan, LaneQueue queue, long long high) except -2

    @cython.locals(queue_id=cython.Py_ssize_t)
    cdef int _note(self, LanePlan plan, LaneQueue queue, long long following) except -1

    @cython.locals(numbers="long long*")
    cdef int _head(self, AnswerParts parts, long long following, long long low, long long high, long long body_size) except -1
