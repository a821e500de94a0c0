import cython

from contrailmq._native cimport raw
from contrailmq._native.lane cimport LaneTopic, SendLane
from contrailmq._native.log cimport LogWriter, Origin
from contrailmq._native.queues cimport QueueWriter
from contrailmq._native.request cimport RequestScan

cdef int _SEND_V2, _SEND_BATCH, _ANSWER_SIZE, _TEXT_SIZE, _ONEWAY, _NAME_END, _VALUE_END
cdef int _ALLOWED_SYS_FLAGS, _UNIQUE_KEY_MAX, _TOPIC_SIZE_MAX, _ORIGINS_MAX, _HOST_SIZE_MAX
cdef int _MORE, _OTHER, _FULL
cdef long long _INT_MAX


cdef class BatchLane(SendLane):
    cdef dict _origins
    cdef unsigned char[::1] _rest
    cdef unsigned char* _rest_address
    cdef unsigned char[::1] _key
    cdef unsigned char* _key_address
    cdef Py_ssize_t _inner
    cdef QueueWriter _queue
    cdef Origin _origin

    cpdef int forget(self) except -1

    cpdef Py_ssize_t serve_batches(self, object buffer, Py_ssize_t start, Py_ssize_t end, object connection, list out) except -1

    @cython.locals(found=cython.int, data="const unsigned char*")
    cdef Py_ssize_t _run(self, Py_ssize_t start, Py_ssize_t end, Origin origin) except -1

    @cython.locals(
        scan=RequestScan, size=cython.Py_ssize_t, topic_field=cython.int, queue_field=cython.int,
        properties_field=cython.int, is_batch=cython.bint, sys_flag=cython.longlong,
        flag=cython.longlong, born_ms=cython.longlong, seen=cython.int, number=cython.int,
        letter=cython.int, entry=LaneTopic, queue_id=cython.longlong, at=cython.Py_ssize_t,
    )
    cdef bint _take(self, const unsigned char[::1] buffer, const unsigned char* data, Origin origin) except -1

    @cython.locals(
        scan=RequestScan, log=LogWriter, behind=Origin, found=object, queue=QueueWriter,
        total=cython.longlong, needed=cython.longlong, offset=cython.longlong,
        queue_offset=cython.longlong, inner="const unsigned char*",
    )
    cdef bint _put(
        self, const unsigned char[::1] buffer, const unsigned char* text, Origin origin,
        LaneTopic entry, Py_ssize_t queue_id, Py_ssize_t at, Py_ssize_t size, long long sys_flag,
        long long born_ms,
    ) except -1

    @cython.locals(
        rest="unsigned char*", rest_at=cython.Py_ssize_t, middle=cython.Py_ssize_t,
        stop=cython.Py_ssize_t, key=bytes, found=Origin,
    )
    cdef Origin _behind(self, const unsigned char* text, Py_ssize_t at, Py_ssize_t end, Origin origin)

    @cython.locals(made=bytes, size=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cdef int _make_key(self) except -1

    @cython.locals(place=cython.Py_ssize_t)
    cdef bint _is_plain_key(self, const unsigned char* text, Py_ssize_t at, Py_ssize_t end) noexcept

    @cython.locals(
        out="unsigned char*", data="const unsigned char*", inner=cython.Py_ssize_t,
        end=cython.Py_ssize_t, rest=cython.longlong, step=cython.int, digit=cython.int,
    )
    cdef Py_ssize_t _message_id(self, Py_ssize_t at, long long offset) noexcept
