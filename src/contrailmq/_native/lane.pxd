import cython

from contrailmq._native cimport raw
from contrailmq._native.follow cimport Follower
from contrailmq._native.log cimport LogWriter, Origin
from contrailmq._native.queues cimport QueueWriter
from contrailmq._native.request cimport RequestScan

cdef int _SEND_V2, _REPLY_SIZE_MAX, _PROPERTIES_MAX, _ONEWAY, _NAME_END, _VALUE_END
cdef int _ALLOWED_SYS_FLAGS, _UNIQUE_KEY_MAX, _OUT_SIZE, _TEXT_SIZE, _FRAMES_SIZE_MIN
cdef int _MORE, _OTHER, _FULL
cdef long long _INT_MAX


cdef class LaneTopic:
    cdef readonly bytes topic
    cdef const unsigned char[::1] topic_view
    cdef const unsigned char* topic_address
    cdef Py_ssize_t topic_size
    cdef readonly list queues
    cdef readonly long long queue_count
    cdef long long[::1] counts
    cdef long long[::1] sizes
    cdef public bint is_touched

    cpdef tuple take(self, Py_ssize_t queue_id)


cdef class SendLane:
    cdef readonly LogWriter log
    cdef object host
    cdef RequestScan scan
    cdef object _owner
    cdef const unsigned char[::1] _buffer
    cdef Py_ssize_t _buffer_size
    cdef public long long body_size_max
    cdef public dict topics
    cdef list touched
    cdef public bint wait_matters
    cdef public Follower follower
    cdef public object now_ms
    cdef public object revision
    cdef public object queues
    cdef long long decided_at, removals_at
    cdef public bint is_open
    cdef public Py_ssize_t kept_size
    cdef readonly int ended
    cdef readonly long long count
    cdef LaneTopic _last
    cdef unsigned char[::1] _text
    cdef unsigned char* _text_address
    cdef unsigned char[::1] _out
    cdef unsigned char* _out_address
    cdef Py_ssize_t _out_size
    cdef Py_ssize_t _out_at
    cdef const unsigned char[::1] _id_prefix
    cdef const unsigned char* _id_prefix_address
    cdef Py_ssize_t _id_prefix_size
    cdef const unsigned char[::1] _json_parts
    cdef const unsigned char* _json_address
    cdef Py_ssize_t _json_1, _json_2, _json_3, _json_4, _json_5, _json_6
    cdef const unsigned char[::1] _binary_tail
    cdef const unsigned char* _binary_tail_address
    cdef Py_ssize_t _binary_tail_size
    cdef int _language, _version
    cdef const unsigned char[::1] _name_queueid, _name_queueoffset, _name_msgid, _name_transactionid
    cdef Py_ssize_t _unique, _unique_size
    cdef unsigned char[::1] _digits
    cdef unsigned char* _digits_address

    cpdef bytes reply(self)

    cpdef int release(self) except -1

    @cython.locals(position=cython.Py_ssize_t, revision=cython.longlong, removals=cython.longlong)
    cpdef Py_ssize_t serve(self, object buffer, Py_ssize_t start, Py_ssize_t end, object connection, list out) except -1

    @cython.locals(position=cython.Py_ssize_t, before_ms=cython.longlong, origin=Origin)
    cdef Py_ssize_t _serve_sends(self, Py_ssize_t start, Py_ssize_t end, object connection, list out) except -1

    cdef int _use(self, object buffer) except -1

    cpdef Py_ssize_t run(self, object buffer, Py_ssize_t start, Py_ssize_t end, Origin origin) except -1

    @cython.locals(found=cython.int, data="const unsigned char*")
    cdef Py_ssize_t _run(self, Py_ssize_t start, Py_ssize_t end, Origin origin) except -1

    @cython.locals(
        scan=RequestScan, body_size=cython.longlong, topic_field=cython.int, queue_field=cython.int,
        properties_field=cython.int, sys_flag=cython.longlong, flag=cython.longlong,
        born_ms=cython.longlong, seen=cython.int, number=cython.int, letter=cython.int,
        entry=LaneTopic, queue_id=cython.longlong,
    )
    cdef bint _take(self, const unsigned char[::1] buffer, const unsigned char* data, Origin origin) except -1

    @cython.locals(scan=RequestScan, at=cython.Py_ssize_t, size=cython.Py_ssize_t, step=cython.Py_ssize_t, last=LaneTopic, name=bytes, entry=LaneTopic)
    cdef LaneTopic _topic(self, const unsigned char* data, int field)

    @cython.locals(
        scan=RequestScan, at=cython.Py_ssize_t, size=cython.Py_ssize_t, queue=QueueWriter, found=object,
        offset=cython.longlong, queue_offset=cython.longlong, written=cython.longlong,
    )
    cdef bint _append(
        self, const unsigned char[::1] buffer, const unsigned char* data, Origin origin, LaneTopic entry, Py_ssize_t queue_id,
        int field, long long flag, long long sys_flag, long long born_ms,
    ) except -1

    @cython.locals(middle=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef bint _is_plain(self, const unsigned char* text, Py_ssize_t at, Py_ssize_t end) except -1

    @cython.locals(size=cython.Py_ssize_t, value_size=cython.Py_ssize_t, first=cython.int, at=cython.Py_ssize_t)
    cdef bint _is_plain_pair(self, const unsigned char* text, Py_ssize_t name, Py_ssize_t middle, Py_ssize_t stop) except -1

    @cython.locals(start=cython.Py_ssize_t, out="unsigned char*", at=cython.Py_ssize_t)
    cdef int _answer(self, const unsigned char* unique, long long queue_id, long long queue_offset, long long offset) except -1

    @cython.locals(out="unsigned char*", ext=cython.Py_ssize_t, value=cython.Py_ssize_t, step=cython.Py_ssize_t)
    cdef Py_ssize_t _binary_answer(self, Py_ssize_t at, const unsigned char* unique, long long queue_id, long long queue_offset, long long offset) except -1

    cdef Py_ssize_t _parts(self, Py_ssize_t at, Py_ssize_t start, Py_ssize_t end) noexcept

    cdef Py_ssize_t _name(self, Py_ssize_t at, const unsigned char[::1] name, Py_ssize_t size) noexcept

    cdef Py_ssize_t _unique_key(self, Py_ssize_t at, const unsigned char* unique) noexcept

    @cython.locals(out="unsigned char*", step=cython.int, digit=cython.int)
    cdef Py_ssize_t _message_id(self, Py_ssize_t at, long long offset) noexcept

    @cython.locals(out="unsigned char*", digits="unsigned char*", count=cython.int, step=cython.int)
    cdef Py_ssize_t _number(self, Py_ssize_t at, long long value) noexcept
