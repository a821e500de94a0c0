import cython

from contrailmq._native.grpc.frames cimport FrameOut
from contrailmq._native.grpc.stream cimport Stream

cdef int _HEADERS, _END_STREAM, _END_HEADERS, _RECENT, _RESET_COST
cdef Py_ssize_t _PREFIX_SIZE, _FRAME_MAX, _JOINED_MAX
cdef long long _WINDOW, _WINDOW_MAX
cdef long long _CREDIT_MAX, _CREDIT_PER_S, _CREDIT_PER_CALL, _CREDIT_PER_DATA


cdef class Streams:
    cdef readonly object host
    cdef readonly bint is_client
    cdef readonly FrameOut frames
    cdef readonly dict streams
    cdef readonly dict blocked
    cdef public long long last_id
    cdef public bint is_write_paused
    cdef public long long frame_max
    cdef public long long stream_window
    cdef public long long send_left
    cdef public long long held
    cdef readonly long long served
    cdef public long long credit
    cdef public double read_at
    cdef double _credit_at
    cdef list _recent
    cdef int _recent_at

    @cython.locals(size=cython.Py_ssize_t)
    cpdef object answer(self, Stream stream, bytes message)

    @cython.locals(prefix=bytes)
    cpdef object write(self, Stream stream, bytes message)

    cpdef object end(self, Stream stream, bytes last)

    cdef object _put_end(self, Stream stream)

    @cython.locals(pending=list, room=cython.longlong, size=cython.longlong, is_last=cython.bint)
    cdef object _push(self, Stream stream)

    @cython.locals(stream=Stream)
    cpdef object push_all(self)

    @cython.locals(stream=Stream)
    cpdef object open_window(self, long long number, long long step)

    cdef object _finish(self, Stream stream)

    cpdef object reset(self, Stream stream, int code)

    cpdef object lose(self, Stream stream)

    cpdef object put_reset(self, long long number, int code)

    cpdef object drop(self, Stream stream)

    cpdef int was_closed(self, long long number) except -1

    cpdef object spend(self, long long cost)

    cpdef object refill(self)
