import cython

from contrailmq._native cimport frame, raw, record, text
from contrailmq._native.spark.answers cimport Answer, Arena, Body, Intake

cdef Py_ssize_t _PIECE_SIZE, _IN_FLIGHT_MAX, _IN_FLIGHT_MIN
cdef double _RECORD_SIZE_GUESS, _SLOWNESS
cdef double _IN_FLIGHT_SIZE
cdef long long _STRIDE_FIRST, _STRIDE_MAX, _STRIDE_PATIENCE, _FILTER_COUNT


@cython.final
cdef class Chunk:
    cdef public long long at
    cdef readonly long long end
    cdef readonly long long asked
    cdef readonly list bodies
    cdef readonly list gaps

    cpdef object go_on(self, long long following)


cdef class Line:
    cdef readonly long long end
    cdef readonly bint chained
    cdef readonly object chunks
    cdef readonly long long next
    cdef readonly long long given
    cdef long long gone_at
    cdef long long gone_to
    cdef bytes text
    cdef Py_ssize_t offset_at
    cdef Py_ssize_t count_at
    cdef Py_ssize_t opaque_at

    cpdef bint is_done(self)
    cpdef object template(self, bytes text, Py_ssize_t offset_at, Py_ssize_t count_at, Py_ssize_t opaque_at)
    @cython.locals(end=cython.longlong, chunk=Chunk)
    cpdef Chunk cut(self, long long stride)
    cpdef object rewind(self)


cdef class Flow:
    cdef readonly dict asked
    cdef readonly Py_ssize_t ready_size
    cdef Intake _intake
    cdef list _lines
    cdef bint _is_all
    cdef Py_ssize_t _held_size_max
    cdef long long _stride
    cdef long long _answers_since
    cdef Chunk _probe
    cdef double _record_size
    cdef Py_ssize_t _turn
    cdef Py_ssize_t _front
    cdef Py_ssize_t _held_size
    cdef list _parked
    cdef list _ready

    cpdef object note_gap(self, Line line, Chunk chunk, long long first)
    @cython.locals(answer=Answer, found=tuple, line=Line, chunk=Chunk)
    cpdef list settle(self, list answers)
    @cython.locals(start=cython.longlong, size=cython.Py_ssize_t, data="const unsigned char*", first=cython.longlong)
    cdef bint _take(self, Line line, Chunk chunk, Answer answer) except -1
    cdef object _learn(self, Chunk chunk, long long count, Py_ssize_t size)
    @cython.locals(line=Line, chunk=Chunk, body=Body)
    cpdef object give_out(self)
    @cython.locals(start=cython.longlong, end=cython.longlong)
    cdef object _say(self, Line line, Chunk chunk)
    @cython.locals(start=cython.longlong)
    cdef object _say_gone(self, Line line)
    @cython.locals(front=Line, is_full=cython.bint, out=list, found=tuple, most=cython.Py_ssize_t, idle=cython.Py_ssize_t, line=Line, chunk=Chunk)
    cpdef list plan(self, list again)
    @cython.locals(stride=cython.longlong)
    cdef Chunk _cut(self, Line line)
    @cython.locals(line=Line, chunk=Chunk)
    cpdef long long note_asked(self, tuple found, long long opaque) except -1
    @cython.locals(room=cython.Py_ssize_t, found=tuple, line=Line, chunk=Chunk, data=bytearray, target="unsigned char*", template="const unsigned char*", at=cython.Py_ssize_t, start=cython.Py_ssize_t, size=cython.Py_ssize_t, opaque=cython.longlong, count=cython.longlong)
    cpdef object encode(self, list out)
    @cython.locals(ready=list, groups=list, small=list, run=list, size=cython.Py_ssize_t, body=Body, arena=Arena)
    cpdef list collect(self)
    @cython.locals(body=Body)
    cpdef object release(self, list bodies)


cdef list _placed(list groups, list small, list run, Py_ssize_t size)
