import cython

from contrailmq._native cimport frame, raw, record, text
from contrailmq._native.net.request cimport RequestScan

cdef Py_ssize_t _SPARE_MAX
cdef int _UNDERSTOOD, _INCOMPLETE
cdef long long _BAD_NUMBER, _INT_MAX


@cython.final
cdef class Arena:
    cdef readonly bytearray data
    cdef readonly object view
    cdef public Py_ssize_t filled
    cdef public Py_ssize_t parsed
    cdef public Py_ssize_t pins


@cython.final
cdef class Answer:
    cdef readonly Arena arena
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef public long long code
    cdef public long long opaque
    cdef public long long following


@cython.final
cdef class Intake:
    cdef readonly Arena arena
    cdef readonly long long opaque
    cdef Py_ssize_t _arena_size
    cdef Py_ssize_t _receive_size
    cdef list _spare
    cdef RequestScan _scan

    cpdef long long next_opaque(self)
    @cython.locals(arena=Arena, fresh=Arena, begun=cython.Py_ssize_t, wanted=cython.Py_ssize_t)
    cpdef Arena room(self)
    @cython.locals(arena=Arena, index=cython.Py_ssize_t)
    cdef Arena _take(self, Py_ssize_t size)
    cpdef object release(self, Arena arena)
    @cython.locals(arena=Arena, data="const unsigned char*", scan=RequestScan, at=cython.Py_ssize_t, state=cython.int, following=cython.longlong, answer=Answer)
    cpdef bint parse(self, list answers) except -1
    @cython.locals(scan=RequestScan, field=cython.int, at=cython.Py_ssize_t)
    cdef long long _following(self, const unsigned char* data) noexcept


@cython.final
cdef class Body:
    cdef readonly Arena arena
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef readonly long long limit


@cython.locals(is_one=cython.bint, first=Body, body=Body, size=cython.Py_ssize_t, room=cython.Py_ssize_t, data=bytearray, target="unsigned char*", places="long long[::1]", at=cython.Py_ssize_t, start=cython.Py_ssize_t, index=cython.Py_ssize_t)
cpdef tuple joined(list bodies)
