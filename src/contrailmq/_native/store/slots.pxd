import cython

from contrailmq._native.store.wheel cimport Wheel


@cython.final
cdef class SlotLoad:
    cdef readonly long long slot_ms
    cdef readonly long long precision_ms
    cdef public long long top
    cdef public long long cursor
    cdef public long long walk_top
    cdef list pauses
    cdef long long[::1] stack
    cdef public Py_ssize_t stack_size
    cdef long long[::1] units
    cdef long long[::1] nexts
    cdef Py_ssize_t room
    cdef Py_ssize_t used
    cdef public Py_ssize_t left
    cdef long long[::1] heads
    cdef long long[::1] tails
    cdef public long long mark
    cdef public long long mark_unit
    cdef public long long late_unit
    cdef public long long skip_mark
    cdef public long long skip_unit
    cdef public long long skip_before
    cdef public set cancels
    cdef public long long cancels_ignored
    cdef public long long gone
    cdef public long long given

    cpdef bint is_loaded(self, Wheel wheel) except -1

    @cython.locals(place=cython.Py_ssize_t)
    cpdef Py_ssize_t next_due(self) except? -77

    cdef int add(self, long long unit, long long place) except -1

    @cython.locals(entry=cython.Py_ssize_t)
    cdef int _hold(self, long long unit, long long place) except -1

    cdef int push(self, long long unit, long long place) except -1

    @cython.locals(number=cython.Py_ssize_t)
    cdef int settle(self) except -1


cdef object _grown(object numbers, Py_ssize_t room)
