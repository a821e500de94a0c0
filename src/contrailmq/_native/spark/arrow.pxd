cimport cython

from contrailmq._native cimport raw, record, text
from contrailmq._native.spark cimport place

cdef Py_ssize_t _MANY
cdef int _LEFT_OUT, _FIXED
cdef Py_ssize_t _WORD, _PAIR_SIZE_MIN
cdef Py_ssize_t _AHEAD
cdef Py_ssize_t _BLOCK
cdef Py_ssize_t _LINE
cdef Py_ssize_t _LINES
cdef Py_ssize_t _SHAPE_MIN
cdef Py_ssize_t _SHAPE_MAX
cdef int _PATIENCE
cdef int _PATIENCE_MAX

@cython.locals(room=Py_ssize_t, count=Py_ssize_t, source="const unsigned char*", span=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, limit=cython.longlong, size=Py_ssize_t)
cpdef tuple find_records(const unsigned char[::1] data, const long long[::1] spans, long long[::1] positions)

cpdef bytearray new_buffer(Py_ssize_t size)


@cython.final
cdef class Survey:
    # What was taken.
    cdef const unsigned char[::1] data
    cdef const unsigned char* source
    cdef Py_ssize_t limit
    cdef const long long[::1] _positions
    cdef readonly Py_ssize_t rows
    cdef readonly bytearray firsts
    cdef int[::1] _offsets
    cdef readonly list odd
    cdef readonly int flags
    cdef readonly Py_ssize_t damaged
    cdef Py_ssize_t column_count

    # The block, for arrow_fill.
    cdef readonly Py_ssize_t first
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t pair_first
    cdef readonly Py_ssize_t pair_count
    cdef long long* places
    cdef long long* pairs
    cdef long long* hits
    cdef readonly long long body_size
    cdef readonly long long topic_size
    cdef readonly long long names_size
    cdef readonly long long values_size
    cdef readonly Py_ssize_t born_v6
    cdef readonly Py_ssize_t store_v6

    # Names, and what is to be done with their pairs.
    cdef const unsigned char[::1] _names
    cdef const unsigned char[::1] _kinds
    cdef long long[::1] _borders
    cdef Py_ssize_t _longest
    cdef int _other

    # Memory.
    cdef long long[::1] _place_memory
    cdef long long[::1] _pair_memory
    cdef long long[::1] _hit_memory
    cdef Py_ssize_t _pair_room
    cdef long long[::1] _sums

    # The shape.
    cdef Py_ssize_t _shape_size
    cdef unsigned char[::1] _shape_text
    cdef unsigned char[::1] _shape_mask
    cdef long long[::1] _shape_pairs
    cdef Py_ssize_t _shape_count
    cdef long long[::1] _shape_hits
    cdef long long _shape_names_size
    cdef long long _shape_values_size
    cdef int _misses
    cdef int _patience

    # The last record.
    cdef long long[::1] _model
    cdef Py_ssize_t _model_count
    cdef Py_ssize_t _topic_at
    cdef Py_ssize_t _topic_length
    cdef Py_ssize_t _size
    cdef Py_ssize_t _end
    cdef int _flags

    cpdef void begin(self, const unsigned char[::1] data, const long long[::1] positions)

    cpdef void release(self)

    @cython.locals(last=Py_ssize_t, row=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t, found=cython.int)
    cpdef bint more(self) except -1

    cpdef Py_ssize_t value_size(self, Py_ssize_t column) except -1

    @cython.locals(index=Py_ssize_t)
    cdef void _begin_block(self) noexcept

    @cython.locals(at=Py_ssize_t, end=Py_ssize_t)
    cdef void _prefetch(self, Py_ssize_t row) noexcept

    @cython.locals(source="const unsigned char*", places="long long*", size=Py_ssize_t, spans=record.Spans, flags=cython.uint)
    cdef Py_ssize_t _locate(self, Py_ssize_t at, Py_ssize_t slot) noexcept

    cdef bint _is_topic_text(self, Py_ssize_t at, Py_ssize_t end) noexcept

    @cython.locals(found=cython.int, pairs="long long*", slot=Py_ssize_t, at=Py_ssize_t)
    cdef int _fit(self, Py_ssize_t index, Py_ssize_t start, Py_ssize_t end) noexcept

    @cython.locals(size=Py_ssize_t, count=Py_ssize_t, is_value=bint, at=Py_ssize_t, byte=cython.uchar, pair=Py_ssize_t, slot=Py_ssize_t)
    cdef void _learn(self, Py_ssize_t index, Py_ssize_t start, Py_ssize_t end, Py_ssize_t first) noexcept

    @cython.locals(source="const unsigned char*", model="long long*", model_count=Py_ssize_t, pairs="long long*", found=Py_ssize_t, name_size=cython.longlong, value_size=cython.longlong, high=cython.ulonglong, known=Py_ssize_t, block=Py_ssize_t, mask=cython.ulonglong, stop=Py_ssize_t, value=Py_ssize_t, kind=cython.int)
    cdef int _match(self, Py_ssize_t index, Py_ssize_t start, Py_ssize_t end) noexcept

    @cython.locals(column=Py_ssize_t, at=Py_ssize_t)
    cdef void _hit(self, Py_ssize_t index, int kind, Py_ssize_t value, Py_ssize_t stop) noexcept

    @cython.locals(column=Py_ssize_t, at=Py_ssize_t)
    cdef void _count_hits(self, Py_ssize_t slot) noexcept

    @cython.locals(room=Py_ssize_t, memory="long long[::1]")
    cdef void _make_room(self, Py_ssize_t count)

    @cython.locals(source="const unsigned char*", pairs="long long*", begin=Py_ssize_t, found=Py_ssize_t, most=Py_ssize_t, slot=Py_ssize_t, at=Py_ssize_t, pair=text.Pair, number=Py_ssize_t, value=Py_ssize_t, kind=cython.int)
    cdef void _split(self, Py_ssize_t index, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(at=Py_ssize_t, names="const unsigned char*")
    cdef int _kind(self, Py_ssize_t start, Py_ssize_t length) noexcept

    @cython.locals(pairs="long long*", kept=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, twin=Py_ssize_t)
    cdef Py_ssize_t _unique(self, Py_ssize_t begin, Py_ssize_t end) except -1

    @cython.locals(pairs="long long*", known=dict, kept=Py_ssize_t, index=Py_ssize_t, length=Py_ssize_t, name=bytes, twin=Py_ssize_t)
    cdef Py_ssize_t _unique_of_many(self, Py_ssize_t begin, Py_ssize_t end) except -1


cdef object _numbers(Py_ssize_t count)

@cython.locals(index=Py_ssize_t, first=cython.int, low=cython.int, top=cython.int, more=Py_ssize_t)
cdef bint _is_utf8(const unsigned char* source, Py_ssize_t at, Py_ssize_t end) noexcept nogil
