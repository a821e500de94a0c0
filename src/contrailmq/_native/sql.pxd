import cython

from contrailmq._native cimport raw, record, text

cdef int _FALSE, _TRUE, _UNKNOWN, _ERROR, _HARD, _NODE_SIZE
cdef int _OP_HARD, _OP_VALUE, _OP_CAST, _OP_NOT, _OP_AND, _OP_OR, _OP_AMONG, _OP_SEARCH
cdef int _OP_ORDER_INTEGER, _OP_ORDER_DOUBLE, _OP_ORDER_NAMES, _OP_EQUAL_TEXT, _OP_EQUAL_INTEGER
cdef int _OP_EQUAL_DOUBLE, _OP_EQUAL_BOOLEAN, _OP_IS_NULL, _OP_IS_UNKNOWN, _OP_EQUAL_NAMES
cdef int _LOWER, _DIGITS_MAX, _EXACT_DIGITS, _FRACTION_MAX
cdef long long _INT_MAX
cdef const double[::1] _POWERS
cdef const unsigned char[::1] _TRUE_TEXT


@cython.final
cdef class SqlProgram:
    cdef int names
    cdef long long[::1] nodes
    cdef long long[::1] children
    cdef long long[::1] integers
    cdef double[::1] doubles
    cdef object fallback
    cdef const unsigned char[::1] texts
    cdef const unsigned char* text_data
    cdef long long[::1] text_at
    cdef long long[::1] value_at
    cdef long long[::1] value_size
    cdef const unsigned char* data
    cdef double number

    cpdef int evaluate(self, const unsigned char[::1] properties) except -1

    @cython.locals(outcome=cython.int)
    cpdef bint matches(self, bytes properties) except -1

    @cython.locals(spans=record.Spans, outcome=cython.int)
    cdef bint matches_record(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t size) except -1
    cdef int evaluate_at(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) except -1

    @cython.locals(number=cython.int, pair=text.Pair, size=cython.Py_ssize_t, at=cython.Py_ssize_t)
    cdef void _find_values(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

    @cython.locals(at=cython.Py_ssize_t, op=cython.int, a=cython.longlong, b=cython.longlong, outcome=cython.int)
    cdef int _evaluate(self, Py_ssize_t node) noexcept

    @cython.locals(result=cython.int, place=cython.Py_ssize_t, outcome=cython.int)
    cdef int _chain(self, Py_ssize_t first, Py_ssize_t count, int final) noexcept
    cdef int _missing(self, int op, int outcome) noexcept

    @cython.locals(word=cython.Py_ssize_t, outcome=cython.int)
    cdef int _compare(self, int op, Py_ssize_t name, long long b, long long c, long long d) noexcept

    @cython.locals(
        left_size=cython.Py_ssize_t, right_size=cython.Py_ssize_t, left_at=cython.Py_ssize_t,
        right_at=cython.Py_ssize_t, at=cython.Py_ssize_t, outcome=cython.int, first=cython.double,
    )
    cdef int _compare_names(self, int op, Py_ssize_t left, Py_ssize_t right, int test) noexcept

    @cython.locals(at=cython.Py_ssize_t, size=cython.Py_ssize_t)
    cdef int _is_text(self, Py_ssize_t name, Py_ssize_t word) noexcept

    @cython.locals(
        at=cython.Py_ssize_t, size=cython.Py_ssize_t, value=cython.Py_ssize_t, room=cython.Py_ssize_t,
        found=cython.int, step=cython.Py_ssize_t,
    )
    cdef int _search(self, Py_ssize_t name, Py_ssize_t word, int place, int negated) noexcept

    @cython.locals(at=cython.Py_ssize_t, step=cython.int)
    cdef int _is_true(self, Py_ssize_t name) noexcept

    @cython.locals(
        at=cython.Py_ssize_t, end=cython.Py_ssize_t, is_negative=cython.int, value=cython.longlong,
        place=cython.Py_ssize_t, digit=cython.int,
    )
    cdef int _compare_integer(self, int op, Py_ssize_t name, long long number, int test, int is_long) noexcept

    @cython.locals(
        at=cython.Py_ssize_t, end=cython.Py_ssize_t, is_negative=cython.int, first=cython.int,
        mantissa=cython.longlong, digits=cython.int, count=cython.int, fraction=cython.int,
        digit=cython.int, value=cython.double,
    )
    cdef int _parse_double(self, Py_ssize_t name) noexcept


cdef int _order(double left, double right, int test) noexcept
