import cython

from contrailmq._native cimport raw

cdef long long _SLOTS
cdef int _SLOT_SIZE, _UNIT_SIZE, _BLANK_MIN, _MAGIC_MAX, _EXPECTED, _DELETE
cdef unsigned int _BLANK_MAGIC


@cython.final
cdef class TimerFile:
    cdef unsigned char[::1] buffer
    cdef unsigned char* address
    cdef readonly long long base
    cdef readonly Py_ssize_t size


@cython.final
cdef class Wheel:
    cdef unsigned char[::1] slots
    cdef unsigned char* address
    cdef readonly long long precision_ms
    cdef readonly long long file_size
    cdef readonly dict files
    cdef TimerFile _last
    cdef public long long first
    cdef public long long end
    cdef public long long limit
    cdef public long long last_unit

    cpdef long long floor(self, long long ms) noexcept

    @cython.locals(at=cython.Py_ssize_t)
    cpdef long long last(self, long long slot_ms) noexcept

    @cython.locals(at=cython.Py_ssize_t)
    cpdef long long count(self, long long slot_ms) noexcept

    @cython.locals(at=cython.Py_ssize_t, time=cython.longlong)
    cpdef int put(self, long long slot_ms, long long position, int change) except -1

    @cython.locals(at=cython.Py_ssize_t, step=cython.Py_ssize_t)
    cpdef int clear(self, long long slot_ms) except -1

    @cython.locals(time=cython.longlong, end=cython.longlong, at=cython.Py_ssize_t)
    cpdef Py_ssize_t next_used(self, long long start_ms, long long end_ms) except? -1

    @cython.locals(oldest=cython.longlong, slot=cython.Py_ssize_t, found=cython.longlong)
    cdef long long _oldest_used(self, long long time, long long end) noexcept

    @cython.locals(time=cython.longlong, total=cython.longlong, slot=cython.Py_ssize_t)
    cpdef Py_ssize_t total(self, long long start_ms) except? -1

    @cython.locals(time=cython.longlong, slot=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cpdef bint points_beyond(self, long long start_ms, long long end) except -1

    cdef Py_ssize_t _slot(self, long long slot_ms) noexcept

    @cython.locals(last=TimerFile)
    cpdef TimerFile find(self, long long position)

    @cython.locals(left=cython.longlong)
    cpdef Py_ssize_t room(self) except? -1

    @cython.locals(file=TimerFile, at=cython.Py_ssize_t, left=cython.longlong)
    cpdef int close_file(self) except -1

    @cython.locals(base=cython.longlong, file=TimerFile, at=cython.Py_ssize_t, position=cython.longlong)
    cpdef Py_ssize_t append(
        self, long long slot_ms, long long write_ms, unsigned int magic, long long offset,
        long long size, long long topic_hash,
    ) except? -77

    @cython.locals(
        file=TimerFile, at=cython.Py_ssize_t, offset=cython.longlong, slot_ms=cython.longlong,
        is_cancel=cython.uint,
    )
    cpdef Py_ssize_t revise(self, long long base, Py_ssize_t start, long long from_ms, long long log_end) except -1

    @cython.locals(file=TimerFile, found=list, at=cython.Py_ssize_t)
    cpdef list offsets(self, long long base, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(file=TimerFile, at=cython.Py_ssize_t, write_ms=cython.longlong)
    cpdef tuple unit(self, long long position)


@cython.locals(size=cython.longlong, magic=cython.longlong)
cdef bint _is_unit(const unsigned char* data, Py_ssize_t at) noexcept
