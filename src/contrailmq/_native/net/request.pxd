import cython

from contrailmq._native cimport frame, raw, text

cdef int _OTHER, _CODE, _FLAG, _OPAQUE, _VERSION, _EXT_FIELDS, _FIELDS_MAX, _SHORT
cdef int _CODE_MAX, _DIGITS_MAX, _ESCAPE_SIZE, _SURROGATE, _LOW_SURROGATE, _SURROGATE_LAST
cdef int _SURROGATE_BITS, _PLANE, _TWO_BYTES_END, _NEXT_BITS
cdef long long _BAD_NUMBER, _SIGN


cdef class RequestScan:
    cdef long long[::1] key_at
    cdef long long[::1] key_size
    cdef long long[::1] value_at
    cdef long long[::1] value_size
    cdef long long[::1] escaped
    cdef public int field_count
    cdef public long long code
    cdef public long long opaque
    cdef public long long flag
    cdef public long long version
    cdef public bint is_binary
    cdef public Py_ssize_t body_at
    cdef public Py_ssize_t frame_end

    cpdef int scan(self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t end) except? -7
    @cython.locals(size=cython.uint, rest=cython.uint, word=cython.uint, header_size=cython.Py_ssize_t)
    cdef int scan_at(self, const unsigned char* buffer, Py_ssize_t start, Py_ssize_t end) noexcept
    @cython.locals(size=cython.Py_ssize_t, number=cython.int, data="const unsigned char*", wanted="const unsigned char*")
    cpdef int find(self, const unsigned char[::1] buffer, const unsigned char[::1] name)
    cpdef long long number(self, const unsigned char[::1] buffer, int field)
    @cython.locals(at=cython.Py_ssize_t, size=cython.Py_ssize_t, written=cython.Py_ssize_t)
    cpdef object text(self, const unsigned char[::1] buffer, int field)
    cdef long long number_at(self, const unsigned char* buffer, Py_ssize_t at, Py_ssize_t size) noexcept
    cdef Py_ssize_t unescape_at(self, const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end, unsigned char* out, Py_ssize_t out_at) noexcept
    @cython.locals(key_at=cython.Py_ssize_t, key_size=cython.Py_ssize_t)
    cdef int _scan_json(self, const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(name=cython.int, stop=cython.Py_ssize_t, number=cython.longlong)
    cdef Py_ssize_t _json_member(self, const unsigned char* buffer, Py_ssize_t key_at, Py_ssize_t key_size, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(count=cython.int, start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef Py_ssize_t _json_fields(self, const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept
    @cython.locals(size=cython.Py_ssize_t, count=cython.int, remark_size=cython.uint)
    cdef int _scan_binary(self, const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept

cdef int top_level_key(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t size) noexcept
cdef Py_ssize_t skip_blank(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(byte=cython.int)
cdef Py_ssize_t short_end(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(start=cython.Py_ssize_t, back=cython.Py_ssize_t)
cdef Py_ssize_t string_end(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(byte=cython.int)
cdef Py_ssize_t literal_end(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(end=cython.Py_ssize_t, negative=cython.bint, value=cython.longlong, digit=cython.int)
cdef long long parse_number(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t size) noexcept
@cython.locals(value=cython.int, position=cython.Py_ssize_t, byte=cython.int, digit=cython.int)
cdef int hex4(const unsigned char* buffer, Py_ssize_t at) noexcept
@cython.locals(byte=cython.int, point=cython.int, low=cython.int, stop=cython.Py_ssize_t)
cdef Py_ssize_t unescape(const unsigned char* buffer, Py_ssize_t at, Py_ssize_t end, unsigned char* out, Py_ssize_t out_at) noexcept
cdef Py_ssize_t put_utf8(unsigned char* out, Py_ssize_t at, int point) noexcept
cdef Py_ssize_t put_next(unsigned char* out, Py_ssize_t at, int point, int count) noexcept
