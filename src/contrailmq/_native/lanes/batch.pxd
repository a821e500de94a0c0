import cython

from contrailmq._native cimport raw, text
from contrailmq._native.lanes.answers cimport AnswerWriter
from contrailmq._native.lanes.decided cimport LaneTopic
from contrailmq._native.lanes.fields cimport SendFields
from contrailmq._native.lanes.send cimport SendLane
from contrailmq._native.net.request cimport RequestScan
from contrailmq._native.store.log cimport LogWriter, Origin
from contrailmq._native.store.queues cimport QueueWriter

cdef int _SEND_V2, _SEND_BATCH, _ANSWER_SIZE, _ONEWAY, _NAME_KEY_SIZE, _UNIQUE_KEY_MAX
cdef int _TOPIC_SIZE_MAX, _ORIGINS_MAX, _HOST_SIZE_MAX, _REST_SIZE, _FULL, _HAS_KEY, _ODD


cdef class BatchLane(SendLane):
    cdef object batch_host
    cdef dict _origins
    cdef unsigned char[::1] _rest
    cdef unsigned char* _rest_address
    cdef unsigned char[::1] _key
    cdef unsigned char* _key_address

    cpdef Py_ssize_t serve_batches(self, object buffer, Py_ssize_t start, Py_ssize_t end, object peer, list out) except -1

    @cython.locals(
        scan=RequestScan, log=LogWriter, fields=SendFields, answers=AnswerWriter, entry=LaneTopic,
        found=cython.int, after=Origin, queue=QueueWriter, total=cython.longlong,
        offset=cython.longlong, inner=cython.Py_ssize_t, queue_offset=cython.longlong,
    )
    cdef bint _take_one(self, const unsigned char* data, Origin origin) except -1

    @cython.locals(
        data="const unsigned char*", at=cython.Py_ssize_t, end=cython.Py_ssize_t,
        rest="unsigned char*", size=cython.Py_ssize_t, start=cython.Py_ssize_t, key=bytes, found=Origin,
    )
    cdef Origin _after(self, Origin origin, int has_key)

    @cython.locals(made=bytes, size=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cdef int _make_key(self) except -1
