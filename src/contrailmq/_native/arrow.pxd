cimport cython

from contrailmq._native cimport raw

cdef Py_ssize_t _WIDTH
cdef unsigned int _MAGIC_V1
cdef unsigned int _MAGIC_V2
cdef Py_ssize_t _MANY
cdef Py_ssize_t _RECORD_SIZE_MIN
cdef Py_ssize_t _QUEUE_OFFSET_AT

@cython.locals(first=cython.uint)
cdef unsigned int _u32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil

@cython.locals(limit=Py_ssize_t, size=Py_ssize_t, magic=cython.uint, end=Py_ssize_t, flags=cython.int, place=Py_ssize_t, length=Py_ssize_t)
cdef bint _locate_one(const unsigned char[::1] data, Py_ssize_t at, long long[::1] places, Py_ssize_t slot) noexcept nogil

@cython.locals(high=cython.uchar, index=Py_ssize_t, first=cython.int, low=cython.int, top=cython.int, more=Py_ssize_t)
cdef bint _is_utf8(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.locals(room=Py_ssize_t, count=Py_ssize_t, source="const unsigned char*", span=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, limit=cython.longlong, size=Py_ssize_t)
cpdef tuple find_records(const unsigned char[::1] data, const long long[::1] spans, long long[::1] positions)

@cython.locals(count=Py_ssize_t, odd_count=Py_ssize_t, bodies=cython.longlong, topics=cython.longlong, pairs=cython.longlong, born_v6=Py_ssize_t, store_v6=Py_ssize_t, flags=cython.int, index=Py_ssize_t, slot=Py_ssize_t)
cpdef tuple locate(const unsigned char[::1] data, const long long[::1] positions, long long[::1] places, unsigned char[::1] odd)

@cython.locals(count=cython.int, index=Py_ssize_t)
cdef int _separators(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.locals(count=Py_ssize_t, room=Py_ssize_t, found=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t, begin=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, source="const unsigned char*", name_end=Py_ssize_t, names=cython.longlong, values=cython.longlong)
cpdef tuple split(const unsigned char[::1] data, const long long[::1] places, int[::1] firsts, long long[::1] pairs)

@cython.locals(count=Py_ssize_t, longest=Py_ssize_t, total=Py_ssize_t, found=Py_ssize_t, name_size=cython.longlong, value_size=cython.longlong, source="const unsigned char*", known="const unsigned char*", index=Py_ssize_t, pair=Py_ssize_t, start=Py_ssize_t, value=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
cpdef tuple leave_out(const unsigned char[::1] data, const int[::1] firsts, const long long[::1] pairs, const unsigned char[::1] names, const int[::1] borders, int[::1] kept_firsts, long long[::1] kept)

@cython.locals(kept=Py_ssize_t, index=Py_ssize_t, start=cython.longlong, length=cython.longlong, twin=Py_ssize_t, other=Py_ssize_t)
cdef Py_ssize_t _unique(const unsigned char[::1] data, long long[::1] pairs, Py_ssize_t begin, Py_ssize_t end) except -1

@cython.locals(known=dict, kept=Py_ssize_t, index=Py_ssize_t, twin=Py_ssize_t)
cdef Py_ssize_t _unique_of_many(const unsigned char[::1] data, long long[::1] pairs, Py_ssize_t begin, Py_ssize_t end) except -1

@cython.locals(source="const unsigned char*")
cdef bint _same(const unsigned char[::1] data, Py_ssize_t first, Py_ssize_t second, Py_ssize_t size) noexcept
