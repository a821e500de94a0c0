import cython

from contrailmq._native cimport system
from contrailmq._native.records cimport RecordFields
from contrailmq._native.store cimport scan

cdef int _COMPRESSED
cdef object _COROUTINE


cdef class DeliveryFields(RecordFields):
    cdef public object origin
    cdef public bint retry_asked
    cdef public object retry_after_s
    cdef public long long started_ms
    cdef public str trace_id

@cython.locals(message=DeliveryFields, flags=cython.int)
cpdef bint adopt(list messages, object origin) except -1


@cython.final
cdef class Hand:
    cdef object handler
    cdef object now
    cdef readonly double since
    cdef readonly object message
    cdef readonly str topic
    cdef readonly object rest
    cdef readonly object awaited
    cdef readonly bint is_begun
    cdef readonly Py_ssize_t count

    cpdef object clear(self)
    @cython.locals(size=cython.longlong, done=cython.Py_ssize_t, message=DeliveryFields, first=cython.longlong)
    cpdef object run(self, object cache, Py_ssize_t count, double until)
    cdef bint _call(self, DeliveryFields message) except -1


@cython.final
cdef class Grip:
    cdef object inbox
    cdef object now
    cdef readonly DeliveryFields held
    cdef readonly double since
    cdef double until
    cdef object cache
    cdef object ready
    cdef Py_ssize_t left
    cdef readonly Py_ssize_t count
    cdef long long size

    cpdef object begin(self, object cache, DeliveryFields message, Py_ssize_t left, double until)
    @cython.locals(held=DeliveryFields, message=DeliveryFields, now=cython.double)
    cpdef object take(self)
    @cython.locals(held=DeliveryFields)
    cpdef object let_go(self)
    @cython.locals(first=cython.longlong)
    cdef object _settle(self, DeliveryFields held)

@cython.locals(
    number=Py_ssize_t, crc=cython.longlong, message=DeliveryFields, body=bytes,
    data='const unsigned char*',
)
cpdef list find_bad_bodies(list messages)
