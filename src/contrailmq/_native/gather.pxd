import cython

cdef unsigned int _SIGN
cdef long long _TWO_32
cdef int _UNIT, _HEAD_SIZE, _FOUND, _NO_MATCH, _REMOVING, _NOTHING


@cython.final
cdef class LogView:
    cdef const unsigned char[::1] buffer
    cdef readonly long long base
    cdef readonly Py_ssize_t size


@cython.final
cdef class Limits:
    cdef long long count_memory, bytes_memory, count_disk, bytes_disk


@cython.final
cdef class Gatherer:
    cdef readonly long long segment_size
    cdef public dict views
    cdef public long long min_offset
    cdef public long long end_offset
    cdef long long[::1] chosen
    cdef readonly Py_ssize_t count
    cdef readonly long long total
    cdef public int status
    cdef readonly long long next_unit
    cdef public long long last_offset

    cdef LogView _view(self, long long offset)

    @cython.locals(view=LogView, position=cython.Py_ssize_t)
    cpdef LogView find(self, long long offset, long long size)
    cpdef int begin(self, Py_ssize_t units) except -1
    cpdef bint is_full(self, long long size, long long count_max, Limits limits, bint on_disk) except -1
    cpdef int choose(self, long long offset, long long size) except -1

    @cython.locals(
        skip_before=cython.longlong, at=cython.Py_ssize_t, offset=cython.longlong,
        size=cython.longlong,
    )
    cpdef Py_ssize_t select(
        self, const unsigned char[::1] units, Py_ssize_t start, Py_ssize_t end,
        long long count_max, Limits limits, long long disk_before, object codes,
    ) except -1

    @cython.locals(
        target="unsigned char[::1]", filled=cython.Py_ssize_t, number=cython.Py_ssize_t,
        offset=cython.longlong, size=cython.longlong, view=LogView,
    )
    cpdef bytearray copy(self)


@cython.locals(step=cython.Py_ssize_t)
cdef int _copy(unsigned char[::1] target, Py_ssize_t to, const unsigned char[::1] source, Py_ssize_t start, Py_ssize_t size) noexcept

@cython.locals(a=cython.uint, b=cython.uint, c=cython.uint, d=cython.uint)
cdef unsigned int _u32(const unsigned char[::1] data, Py_ssize_t at) noexcept

@cython.locals(high=cython.longlong, low=cython.longlong)
cdef long long _i64(const unsigned char[::1] data, Py_ssize_t at) noexcept
