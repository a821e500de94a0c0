import cython

from contrailmq._native cimport names, raw, system
from contrailmq._native.lanes.answers cimport AnswerParts, AnswerWriter
from contrailmq._native.lanes.decided cimport LaneTopic
from contrailmq._native.lanes.fields cimport SendFields, SendProperties
from contrailmq._native.lanes.gate cimport Gate
from contrailmq._native.lanes.held cimport Held
from contrailmq._native.lanes.times cimport Times
from contrailmq._native.net.request cimport RequestScan
from contrailmq._native.store.follow cimport Follower
from contrailmq._native.store.log cimport LogWriter, Origin
from contrailmq._native.store.queues cimport QueueWriter

cdef int _SEND_V2, _ANSWER_SIZE, _OUT_SIZE, _TEXT_SIZE, _ONEWAY, _FRAMES_SIZE_MIN
cdef int _SIZE_0, _SIZE_1, _SIZE_2, _SIZE_3, _SIZE_4, _SIZE_5
cdef int _MORE, _OTHER, _FULL, _HAS_KEY, _NO_WAIT, _SPECIAL


cdef class SendLane:
    cdef object host
    cdef readonly LogWriter log
    cdef Follower follower
    cdef object now_ms
    cdef object revision
    cdef object queues
    cdef readonly Held held
    cdef Py_ssize_t kept_size
    cdef Gate gate
    cdef RequestScan scan
    cdef SendFields fields
    cdef SendProperties properties
    cdef readonly AnswerWriter answers
    cdef AnswerParts json_answer
    cdef AnswerParts binary_answer
    cdef readonly dict topics
    cdef list touched
    cdef long long decided_at, removals_at
    cdef readonly bint is_open
    cdef readonly bint waits
    cdef readonly int ended
    cdef readonly long long taken
    cdef readonly long long served
    cdef readonly Times times
    cdef object _owner
    cdef const unsigned char[::1] _buffer
    cdef Py_ssize_t _buffer_size
    cdef LaneTopic _last
    cdef unsigned char[::1] _unescaped
    cdef unsigned char* _unescaped_address
    cdef const unsigned char* _text
    cdef Py_ssize_t _text_at, _text_end

    cpdef int steer(self, bint is_open, bint waits) except -1

    @cython.locals(entry=LaneTopic)
    cpdef list take_touched(self)

    cpdef int release(self) except -1

    cpdef int forget(self) except -1

    @cython.locals(position=cython.Py_ssize_t, revision=cython.longlong, removals=cython.longlong)
    cpdef Py_ssize_t run(self, object buffer, Py_ssize_t start, Py_ssize_t end, object peer, list out) except -1

    cpdef Py_ssize_t take(self, object buffer, Py_ssize_t start, Py_ssize_t end, Origin origin) except -1

    cdef int _use(self, object buffer) except -1

    @cython.locals(
        position=cython.Py_ssize_t, before_ms=cython.longlong, origin=Origin,
        began_ns=cython.longlong, served=cython.longlong,
    )
    cdef Py_ssize_t _serve(self, Py_ssize_t start, Py_ssize_t end, object peer, list out) except -1

    @cython.locals(found=cython.int, data="const unsigned char*")
    cdef Py_ssize_t _take(self, Py_ssize_t start, Py_ssize_t end, Origin origin) except -1

    @cython.locals(
        scan=RequestScan, fields=SendFields, entry=LaneTopic, found=cython.int, queue=QueueWriter,
        offset=cython.longlong, queue_offset=cython.longlong, written=cython.longlong,
    )
    cdef bint _take_one(self, const unsigned char* data, Origin origin) except -1

    @cython.locals(scan=RequestScan, fields=SendFields, entry=LaneTopic, at=cython.Py_ssize_t, size=cython.Py_ssize_t)
    cdef LaneTopic _admit(self, const unsigned char* data)

    @cython.locals(scan=RequestScan, at=cython.Py_ssize_t, size=cython.Py_ssize_t, last=LaneTopic, name=bytes, entry=LaneTopic)
    cdef LaneTopic _topic(self, const unsigned char* data, int field)

    @cython.locals(queue_id=cython.Py_ssize_t, found=object)
    cdef QueueWriter _queue(self, LaneTopic entry)

    @cython.locals(answers=AnswerWriter, scan=RequestScan)
    cdef int _answer(self, long long queue_offset) except -1

    @cython.locals(queue_id=cython.Py_ssize_t)
    cdef int _note(self, LaneTopic entry, long long count, long long size) except -1


cdef int _size_step(long long size) noexcept
