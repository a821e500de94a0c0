import cython

from contrailmq._native cimport raw
from contrailmq._native.grpc.hpack cimport HeaderDecoder
from contrailmq._native.grpc.stream cimport Stream
from contrailmq._native.grpc.streams cimport Streams

cdef int _DATA, _HEADERS, _WINDOW_UPDATE, _CONTINUATION
cdef int _END_STREAM, _END_HEADERS, _PADDED, _PRIORITY
cdef Py_ssize_t _HEAD_SIZE, _PREFIX_SIZE, _FRAME_MAX, _ID_AT, _PRIORITY_SIZE
cdef int _FRAGMENTS_MAX, _MESSAGE_EXTRA, _STREAM_EXTRA, _CREDIT_LOW, _RESET_COST
cdef long long _WINDOW_MAX


@cython.final
cdef class Session(Streams):
    cdef dict _unary
    cdef dict _streaming
    cdef HeaderDecoder _decoder
    cdef Py_ssize_t _block_size_max
    cdef long long _message_size_max
    cdef Py_ssize_t _streams_max
    cdef public long long window
    cdef public long long wide_window
    cdef public bint accepts
    cdef public bint is_closed
    cdef public long long receive_left
    cdef bytes _stash
    cdef const unsigned char[::1] _view
    cdef const unsigned char* _data
    cdef long long _continuing
    cdef bytearray _fragments
    cdef int _fragment_count
    cdef int _block_flags
    cdef bint _is_self_dependent

    @cython.locals(at=cython.Py_ssize_t)
    cpdef object take(self, object block, Py_ssize_t size, double now)

    @cython.locals(
        view="const unsigned char[::1]", data="const unsigned char*", at=cython.Py_ssize_t,
        size=cython.Py_ssize_t, kind=cython.int, flags=cython.int, number=cython.longlong,
    )
    cdef Py_ssize_t _walk(self, object whole, Py_ssize_t end) except -1

    @cython.locals(end=cython.Py_ssize_t)
    cdef object _on_headers(self, int flags, long long number, Py_ssize_t at, Py_ssize_t size)

    @cython.locals(whole=bytearray, kept="const unsigned char[::1]")
    cdef object _on_continuation(self, int flags, long long number, Py_ssize_t at, Py_ssize_t size)

    @cython.locals(stream=Stream, has_ended=cython.bint, fields=dict)
    cdef object _on_block(self, int flags, long long number, Py_ssize_t at, Py_ssize_t end)

    @cython.locals(stream=Stream, decoder=HeaderDecoder, path=str)
    cdef object _open(self, long long number, dict fields, bint has_ended, Py_ssize_t size)

    @cython.locals(stream=Stream, data="const unsigned char*", left=cython.Py_ssize_t)
    cdef object _on_data(self, int flags, long long number, Py_ssize_t at, Py_ssize_t size)

    cdef object _on_late_data(self, Stream stream, long long number)

    @cython.locals(
        buffer=bytearray, start=cython.Py_ssize_t, have=cython.Py_ssize_t, end=cython.Py_ssize_t,
        length=cython.longlong,
    )
    cdef object _gather(self, Stream stream, Py_ssize_t at, Py_ssize_t size)

    cdef object _on_end(self, Stream stream)

    @cython.locals(messages=list, size=cython.longlong)
    cpdef object next_message(self, Stream stream)

    @cython.locals(left=cython.longlong)
    cpdef object replenish(self, Stream stream)

    cdef object _serve(self, Stream stream, bytes message)
