import cython

from contrailmq._native cimport hashing, raw
from contrailmq._native.store.gather cimport Gatherer, LogView
from contrailmq._native.store.log cimport LogWriter, Origin
from contrailmq._native.store.queues cimport QueueWriter
from contrailmq._native.store.slots cimport SlotLoad
from contrailmq._native.store.timer_record cimport TimerRecord
from contrailmq._native.store.wheel cimport TimerFile, Wheel

cdef int _DONE, _NO_ROOM, _NO_UNIT, _BUSY, _UNIT
cdef unsigned int _ROLL, _DELETE
cdef long long _MAX_MS
cdef Py_ssize_t _WINDOW, _CANCELS, _TARGETS_MAX, _ORIGINS_MAX


@cython.final
cdef class Target:
    cdef readonly QueueWriter queue
    cdef readonly bytes topic
    cdef public long long count
    cdef public long long size


@cython.final
cdef class TimerLoop:
    cdef LogWriter log
    cdef Gatherer gatherer
    cdef readonly Wheel wheel
    cdef object host
    cdef bytes timer_topic
    cdef public long long now_ms
    cdef public long long window_ms
    cdef public set known
    cdef public long long replay_before
    cdef public long long replay_ms
    cdef dict targets
    cdef list touched
    cdef dict origins
    cdef public dict counts
    cdef public long long delivered
    cdef public long long cancelled
    cdef public long long rolled
    cdef public long long bad
    cdef readonly Py_ssize_t taken
    cdef TimerRecord found

    cdef bint _scan(self, LogView view, long long offset, long long size) except -1

    @cython.locals(
        address="const unsigned char*", write_ms=cython.longlong, at=cython.Py_ssize_t, offset=cython.longlong,
        ended=cython.int,
    )
    cpdef int enqueue(
        self, const unsigned char[::1] units, Py_ssize_t start, Py_ssize_t end, long long queue_offset,
        long long read_ms,
    ) except -1

    @cython.locals(
        found=TimerRecord, view=LogView, out_ms=cython.longlong, magic=cython.uint, slot_ms=cython.longlong, ahead=cython.longlong,
        hashed=cython.uint,
    )
    cdef int _enqueue(
        self, long long offset, long long size, long long queue_offset, long long write_ms, long long read_ms
    ) except -1

    @cython.locals(half=cython.longlong)
    cdef long long _roll_ms(self, long long ahead) noexcept

    @cython.locals(found=TimerRecord, write_ms=cython.longlong)
    cdef bint _still_waits(self, long long out_ms) noexcept

    cpdef bint load(self, SlotLoad slot, long long steps) except -1

    @cython.locals(
        found=TimerRecord, file=TimerFile, at=cython.Py_ssize_t, before=cython.longlong, magic=cython.uint, offset=cython.longlong,
        size=cython.longlong, view=LogView, place=cython.longlong,
    )
    cdef Py_ssize_t _look(self, SlotLoad slot, long long position) except? -77

    @cython.locals(entry=cython.Py_ssize_t)
    cpdef int deliver(self, SlotLoad slot, long long until, long long count) except -1

    @cython.locals(
        file=TimerFile, at=cython.Py_ssize_t, magic=cython.uint, write_ms=cython.longlong, offset=cython.longlong,
        size=cython.longlong, view=LogView, ended=cython.int,
    )
    cdef int _release(self, SlotLoad slot, long long position) except -1

    @cython.locals(found=TimerRecord)
    cdef bint _is_cancelled(self, SlotLoad slot, LogView view) except -1

    @cython.locals(found=TimerRecord, size=cython.Py_ssize_t, target=Target, written=cython.Py_ssize_t)
    cdef int _append(self, LogView view, long long enqueue_ms, bint is_roll) except -1

    @cython.locals(found=TimerRecord, written=cython.longlong)
    cdef int _put_light(self, LogView view, Target target, Py_ssize_t size) except -1

    cdef int _stored(self, Target target, long long written, bint is_roll) except -1

    @cython.locals(found=TimerRecord, topic=bytes, target=Target)
    cdef Target _target(self, const unsigned char* data, bint is_roll)

    @cython.locals(found=TimerRecord, born=bytes, store=bytes, origin=Origin)
    cdef Origin _origin(self, const unsigned char* data)

    @cython.locals(found=TimerRecord, topic=bytes)
    cdef int _count(self, const unsigned char* data, int change) except -1

