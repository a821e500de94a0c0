import cython

from contrailmq._native cimport raw
from contrailmq._native.gather cimport Gatherer, Limits, LogView
from contrailmq._native.queues cimport QueueWriter
from contrailmq._native.request cimport RequestScan
from contrailmq._native.sql cimport SqlProgram

cdef int _PULL, _LITE_PULL, _UNIT, _COMMIT, _SUBSCRIPTION, _KEY_SIZE, _HEAD_SIZE, _FOUND, _NO_MATCH, _COUNT_MAX


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
    cdef public SqlProgram program
    cdef const unsigned char[::1] tail
    cdef readonly list queues
    cdef dict pulls


@cython.final
cdef class PullLane:
    cdef Gatherer gatherer
    cdef object host
    cdef public Limits limits
    cdef public long long scan_size
    cdef public long long memory_size
    cdef object counters
    cdef public dict plans
    cdef readonly int ended
    cdef RequestScan scan
    cdef object _owner
    cdef const unsigned char[::1] _buffer
    cdef Py_ssize_t _buffer_size
    cdef unsigned char[::1] _key
    cdef unsigned char* _key_address
    cdef bytes _last_key
    cdef const unsigned char* _last_key_address
    cdef Py_ssize_t _last_key_size
    cdef LanePlan _last_plan
    cdef unsigned char[::1] _head
    cdef unsigned char* _head_address
    cdef const unsigned char[::1] _next, _min, _max, _opaque, _close, _missed, _missed_close
    cdef unsigned char[::1] _digits
    cdef unsigned char* _digits_address

    cpdef int release(self) except -1

    @cython.locals(found=cython.int, data="const unsigned char*")
    cpdef Py_ssize_t run(self, object buffer, Py_ssize_t start, Py_ssize_t end, list out) except -1

    @cython.locals(
        scan=RequestScan, queue_id=cython.longlong, offset=cython.longlong, count=cython.longlong,
        flags=cython.longlong, commit=cython.longlong, group=cython.int, topic=cython.int,
        subscription=cython.int, version=cython.int, kind=cython.int, number=cython.int,
        size=cython.longlong, first=cython.int, at=cython.Py_ssize_t, value_size=cython.Py_ssize_t,
        plan=LanePlan,
    )
    cdef bint _take(self, const unsigned char* data, list out) except -1

    @cython.locals(scan=RequestScan, size=cython.Py_ssize_t, key="unsigned char*", last=LanePlan, name=bytes, plan=LanePlan)
    cdef LanePlan _plan(self, const unsigned char* data, int group, int topic, int wanted, int kind, long long flags)

    @cython.locals(size=cython.Py_ssize_t)
    cdef Py_ssize_t _part(self, const unsigned char* data, Py_ssize_t at, int field) noexcept

    @cython.locals(
        found=object, queue=LaneQueue, high=cython.longlong, low=cython.longlong,
        end=cython.longlong, span=cython.longlong, start=cython.longlong, stop=cython.longlong,
        gatherer=Gatherer, seen=cython.longlong, answer=bytearray, size=cython.Py_ssize_t,
    )
    cdef bint _answer(self, LanePlan plan, Py_ssize_t queue_id, long long offset, long long count, long long commit, list out) except -1

    cdef int _note(self, LanePlan plan, LaneQueue queue, Py_ssize_t queue_id, long long following) except -1

    @cython.locals(at=cython.Py_ssize_t)
    cdef Py_ssize_t _header(self, LanePlan plan, long long following, long long low, long long high, long long body_size) noexcept

    @cython.locals(size=cython.Py_ssize_t)
    cdef Py_ssize_t _text(self, Py_ssize_t at, const unsigned char[::1] text) noexcept

    @cython.locals(out="unsigned char*", digits="unsigned char*", count=cython.int, step=cython.int)
    cdef Py_ssize_t _number(self, Py_ssize_t at, long long value) noexcept
