import cython

cdef int OTHER, CODE, FLAG, OPAQUE, VERSION, EXT_FIELDS

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

    @cython.locals(size=cython.uint, word=cython.uint, header_size=cython.Py_ssize_t)
    cpdef int scan(self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(size=cython.Py_ssize_t, number=cython.int, at=cython.Py_ssize_t, position=cython.Py_ssize_t)
    cpdef int find(self, const unsigned char[::1] buffer, const unsigned char[::1] name)
    cpdef long long number(self, const unsigned char[::1] buffer, int field)
    @cython.locals(at=cython.Py_ssize_t, size=cython.Py_ssize_t, written=cython.Py_ssize_t)
    cpdef object text(self, const unsigned char[::1] buffer, int field)
    @cython.locals(key_at=cython.Py_ssize_t, key_size=cython.Py_ssize_t)
    cdef int _scan_json(self, const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(name=cython.int, stop=cython.Py_ssize_t, number=cython.longlong)
    cdef Py_ssize_t _json_member(self, const unsigned char[::1] buffer, Py_ssize_t key_at, Py_ssize_t key_size, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(count=cython.int, stop=cython.Py_ssize_t)
    cdef Py_ssize_t _json_fields(self, const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(size=cython.Py_ssize_t, count=cython.int)
    cdef int _scan_binary(self, const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end)

@cython.locals(first=cython.int)
cdef int top_level_key(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t size)
@cython.locals(position=cython.Py_ssize_t)
cdef bint spells(const unsigned char[::1] buffer, Py_ssize_t at, bytes word)
cpdef unsigned int load_u32(const unsigned char[::1] buffer, Py_ssize_t at) noexcept
@cython.locals(value=cython.longlong)
cpdef int load_i32(const unsigned char[::1] buffer, Py_ssize_t at) noexcept
cpdef Py_ssize_t skip_blank(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(byte=cython.int)
cpdef Py_ssize_t string_end(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end) noexcept
cpdef int has_escape(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(byte=cython.int)
cpdef Py_ssize_t literal_end(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(end=cython.Py_ssize_t, negative=cython.bint, value=cython.longlong, digit=cython.int)
cpdef long long parse_number(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t size) noexcept
@cython.locals(value=cython.int, position=cython.Py_ssize_t, byte=cython.int, digit=cython.int)
cpdef int hex4(const unsigned char[::1] buffer, Py_ssize_t at) noexcept
@cython.locals(byte=cython.int, point=cython.int, low=cython.int)
cpdef Py_ssize_t unescape(const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end, unsigned char[::1] out, Py_ssize_t out_at) noexcept
cpdef Py_ssize_t put_utf8(unsigned char[::1] out, Py_ssize_t at, unsigned int point) noexcept
