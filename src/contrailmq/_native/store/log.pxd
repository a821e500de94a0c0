import cython

from contrailmq._native cimport inner, raw, record, system, text

from contrailmq._native.store cimport scan
from contrailmq._native.store.queues cimport QueueWriter

cdef int _STAGE_SIZE, _SHORT_RUN


@cython.final
cdef class Origin:
    cdef const unsigned char[::1] born_host
    cdef const unsigned char[::1] store_host
    cdef const unsigned char[::1] suffix
    cdef const unsigned char* born_host_address
    cdef const unsigned char* store_host_address
    cdef const unsigned char* suffix_address
    cdef readonly Py_ssize_t born_size
    cdef readonly Py_ssize_t store_size
    cdef readonly Py_ssize_t suffix_size
    cdef readonly unsigned int flags


@cython.final
cdef class LogWriter:
    cdef public long long record_size_max
    cdef public long long body_size_max
    cdef unsigned char[::1] buffer
    cdef unsigned char* address
    cdef unsigned char[::1] segment
    cdef unsigned char* segment_address
    cdef unsigned char[::1] stage
    cdef object spill
    cdef object file
    cdef public long long base
    cdef public Py_ssize_t position
    cdef readonly Py_ssize_t size
    cdef public Py_ssize_t ready
    cdef readonly Py_ssize_t start
    cdef Py_ssize_t room
    cdef public long long store_ms
    cdef readonly long long batch_count

    cpdef Py_ssize_t end_offset(self)

    cpdef Py_ssize_t settled_offset(self)

    @cython.locals(size=cython.Py_ssize_t, fd=cython.int)
    cpdef Py_ssize_t settle(self)

    cpdef int settled(self) except -1

    cdef int _let_go(self) except -1

    cdef int _use(self, unsigned char[::1] buffer, Py_ssize_t room) except -1

    cdef int _make_room(self, Py_ssize_t size) except -1

    @cython.locals(room=cython.longlong)
    cpdef int close_segment(self) except -1

    cpdef Py_ssize_t record_size(self, QueueWriter queue, Origin origin, long long body_size, long long properties_size)

    cpdef Py_ssize_t append(
        self, QueueWriter queue, Origin origin,
        const unsigned char[::1] bodies, Py_ssize_t body, Py_ssize_t body_size,
        const unsigned char[::1] properties, Py_ssize_t properties_at, Py_ssize_t properties_size,
        long long flag, long long sys_flag, long long born_ms, long long reconsume_times,
        long long prepared_offset,
    ) except? -77

    @cython.locals(
        separator=cython.int, whole=cython.longlong, size=cython.longlong,
        start=cython.Py_ssize_t, at=cython.Py_ssize_t, checksum=cython.uint,
    )
    cdef Py_ssize_t append_at(
        self, QueueWriter queue, Origin origin,
        const unsigned char* bodies, Py_ssize_t body, Py_ssize_t body_size,
        const unsigned char* properties, Py_ssize_t properties_at, Py_ssize_t properties_size,
        long long flag, long long sys_flag, long long born_ms, long long reconsume_times,
        long long prepared_offset,
    ) except? -77

    @cython.locals(
        at=cython.Py_ssize_t, is_long=cython.bint, queue_offset=cython.longlong,
        times=cython.Py_ssize_t,
    )
    cdef int _head(
        self, QueueWriter queue, Origin origin, long long size, long long flag,
        long long sys_flag, long long born_ms,
    ) except -1

    cdef Py_ssize_t _copy(self, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size) noexcept

    @cython.locals(total=cython.longlong)
    cpdef Py_ssize_t append_batch(
        self, QueueWriter queue, Origin origin, const unsigned char[::1] batch,
        Py_ssize_t start, Py_ssize_t end, long long sys_flag, long long born_ms,
        long long reconsume_times,
    ) except? -77

    cdef bint has_room(self, long long size) noexcept

    @cython.locals(
        at=cython.Py_ssize_t, body_size=cython.longlong, properties=cython.Py_ssize_t,
        properties_size=cython.Py_ssize_t,
    )
    cdef int write_batch(
        self, QueueWriter queue, Origin origin, const unsigned char* batch,
        Py_ssize_t start, Py_ssize_t end, long long sys_flag, long long born_ms,
        long long reconsume_times,
    ) except -1

    @cython.locals(
        address="const unsigned char*", total=cython.longlong, at=cython.Py_ssize_t, body_size=cython.longlong,
        properties=cython.Py_ssize_t, properties_size=cython.Py_ssize_t, inner_size=cython.longlong,
        whole=cython.longlong, size=cython.longlong,
    )
    cpdef Py_ssize_t measure_batch(
        self, QueueWriter queue, Origin origin, const unsigned char[::1] batch,
        Py_ssize_t start, Py_ssize_t end,
    ) except? -77

    @cython.locals(
        body_size=cython.longlong, properties=cython.Py_ssize_t, properties_size=cython.Py_ssize_t,
        whole=cython.longlong,
    )
    cdef Py_ssize_t inner_record_size(
        self, QueueWriter queue, Origin origin, const unsigned char* batch, Py_ssize_t at
    ) noexcept

    @cython.locals(address="const unsigned char*", found=list, at=cython.Py_ssize_t)
    cpdef list batch_offsets(
        self, QueueWriter queue, Origin origin, const unsigned char[::1] batch,
        Py_ssize_t start, Py_ssize_t end, long long offset,
    )

cdef int _separator(Origin origin, const unsigned char* properties, Py_ssize_t at, Py_ssize_t size) noexcept
