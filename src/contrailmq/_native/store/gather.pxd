import cython

from contrailmq._native cimport raw, record, unit
from contrailmq._native.sql cimport SqlProgram

cdef int _LINE, _AHEAD, _FAR, _FEW, _TICKS, _NEAR_SIZE, _COLD
cdef Py_ssize_t _CHUNK
cdef long long _GAP_SIZE
cdef int _FOUND, _NO_MATCH, _REMOVING, _NOTHING


@cython.final
cdef class LogView:
    cdef const unsigned char[::1] buffer
    cdef const unsigned char* address
    cdef readonly long long base
    cdef readonly Py_ssize_t size
    cdef readonly bint is_mapped
    cdef unsigned char[::1] seen
    cdef unsigned char[::1] marked


@cython.final
cdef class Limits:
    cdef long long count_memory, bytes_memory, count_disk, bytes_disk
    cdef readonly long long scan_size
    cdef readonly long long memory_size

    @cython.locals(size=cython.longlong)
    cpdef long long span(self, long long count) noexcept

    cpdef long long disk_before(self, long long end_offset) noexcept


@cython.final
cdef class Gatherer:
    cdef readonly long long segment_size
    cdef public dict views
    cdef LogView _last
    cdef public long long min_offset
    cdef public long long end_offset
    cdef long long[::1] chosen
    cdef readonly Py_ssize_t count
    cdef readonly long long total
    cdef public int status
    cdef readonly long long next_unit
    cdef public long long last_offset
    cdef public long long unreadable
    cdef public long long unreadable_at
    cdef public bint watched
    cdef public int tick
    cdef public long long cold_offset
    cdef public long long touched
    cdef public Py_ssize_t away_at
    cdef object _codes_of
    cdef long long[::1] _codes
    cdef Py_ssize_t _code_count

    @cython.locals(last=LogView)
    cdef LogView _view(self, long long offset)

    @cython.locals(view=LogView, first=cython.Py_ssize_t, last=cython.Py_ssize_t, chunk=cython.Py_ssize_t)
    cpdef int note_loaded(self, long long start, long long end) except -1

    @cython.locals(view=LogView, first=cython.Py_ssize_t, last=cython.Py_ssize_t, before=cython.int)
    cpdef bint must_load(self, long long start, long long end) except -1

    @cython.locals(before=cython.int, chunk=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cpdef bint is_away(self, LogView view, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit) except -1

    @cython.locals(view=LogView, position=cython.Py_ssize_t)
    cpdef bint is_cold(self, long long offset, long long size) except -1

    @cython.locals(view=LogView, position=cython.Py_ssize_t)
    cpdef LogView find(self, long long offset, long long size)
    cpdef int begin(self, Py_ssize_t units) except -1
    cpdef bint is_full(self, long long size, long long count_max, Limits limits, bint on_disk) except -1
    cpdef int choose(self, long long offset, long long size) except -1

    @cython.locals(
        address="const unsigned char*", skip_before=cython.longlong, at=cython.Py_ssize_t, offset=cython.longlong,
        size=cython.longlong, view=LogView, ahead=cython.Py_ssize_t,
    )
    cpdef Py_ssize_t select(
        self, const unsigned char[::1] units, Py_ssize_t start, Py_ssize_t end,
        long long count_max, Limits limits, long long disk_before, object codes, SqlProgram program,
    ) except -1

    cdef void _note_unreadable(self, long long offset) noexcept

    @cython.locals(view=LogView, position=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef void _ask_for(self, long long offset, long long size) noexcept
    cdef int _use_codes(self, object codes) except -1

    @cython.locals(low=cython.Py_ssize_t, high=cython.Py_ssize_t, middle=cython.Py_ssize_t)
    cdef bint _is_wanted(self, long long code) noexcept

    @cython.locals(out=bytearray)
    cpdef bytearray copy(self)

    @cython.locals(out=bytearray, target="unsigned char*")
    cdef bytearray copy_behind(self, const unsigned char* head, Py_ssize_t head_size)

    @cython.locals(
        number=cython.Py_ssize_t, offset=cython.longlong, size=cython.longlong, view=LogView,
    )
    cdef int _fill(self, unsigned char* target, Py_ssize_t filled) except -1
