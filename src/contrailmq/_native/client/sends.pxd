import cython

from contrailmq._native cimport frame, inner, raw, record, text
from contrailmq._native.net.request cimport RequestScan

cdef object _WAIT, _NO_WAIT
cdef Py_ssize_t _LONG_ESCAPE


cdef class SendTemplate:
    cdef bint is_binary
    cdef bytes first
    cdef bytes second
    cdef bytes third
    cdef bytes fourth
    cdef bytes fifth
    cdef bytes sixth
    cdef Py_ssize_t fixed

    @cython.locals(source="const unsigned char*", properties_size=cython.Py_ssize_t, body_size=cython.Py_ssize_t, header=cython.Py_ssize_t, fields_size=cython.Py_ssize_t, made=bytearray, out="unsigned char*", at=cython.Py_ssize_t)
    cpdef bytearray frame(self, long long opaque, long long sys_flag, long long born_ms, long long flag, bytes properties, bytes body)
    @cython.locals(at=cython.Py_ssize_t)
    cdef Py_ssize_t _binary(self, unsigned char* out, long long opaque, long long sys_flag, long long born_ms, long long flag)

@cython.locals(size=cython.Py_ssize_t)
cdef Py_ssize_t put_piece(unsigned char* out, Py_ssize_t at, bytes piece)
cdef Py_ssize_t put_counted(unsigned char* out, Py_ssize_t at, long long value)
@cython.locals(count=cython.Py_ssize_t, at=cython.Py_ssize_t, byte=cython.int)
cdef Py_ssize_t escaped_size(const unsigned char* source, Py_ssize_t size) noexcept
cdef int short_escape(int byte) noexcept
@cython.locals(position=cython.Py_ssize_t, byte=cython.int)
cdef Py_ssize_t put_escaped(unsigned char* out, Py_ssize_t at, const unsigned char* source, Py_ssize_t size) noexcept


cdef class QuickSend:
    cdef public object future
    cdef public str message_id
    cdef public object queue
    cdef public str text
    cdef public bytes body
    cdef public long long flag
    cdef public long long size
    cdef public double begun


cdef class SendAnswers:
    cdef object _receipt_type
    cdef object _make
    cdef object _status
    cdef RequestScan _scan

    @cython.locals(scan=RequestScan, pending=dict, data="const unsigned char*")
    cpdef Py_ssize_t run(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end, object connection, object out) except -1
    @cython.locals(scan=RequestScan, offset=cython.longlong, field=cython.int, size=cython.Py_ssize_t, at=cython.Py_ssize_t, value_at=cython.Py_ssize_t, value_size=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef object _receipt(self, const unsigned char* data, bytearray buffer, QuickSend sent)

@cython.locals(count=cython.Py_ssize_t)
cpdef object property_text(object message, object reserved)
@cython.locals(count=cython.Py_ssize_t, size=cython.Py_ssize_t, index=cython.Py_ssize_t, bodies=list, texts=list, flags=list)
cpdef object plain_batch(list messages, list ids, str topic, object wait, str before_id, Py_ssize_t size_max, object reserved)
@cython.locals(count=cython.Py_ssize_t, size=cython.Py_ssize_t, index=cython.Py_ssize_t, at=cython.Py_ssize_t, body_size=cython.Py_ssize_t, properties_size=cython.Py_ssize_t, body=bytes, properties=bytes, flag=cython.longlong, made=bytearray, out="unsigned char*")
cpdef bytearray batch_body(list bodies, list texts, list flags)
