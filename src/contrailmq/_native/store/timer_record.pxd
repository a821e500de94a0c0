import cython

from contrailmq._native cimport raw, record, text

cdef int _TEXT_SIZE, _TEXT_MAX, _LETTER_I, _LETTER_R, _LETTER_T, _LETTER_U, _TIMER_NAME
cdef long long _NUMBER_MAX, _INT_MAX


@cython.final
cdef class TimerRecord:
    cdef unsigned char[::1] out
    cdef unsigned char* out_address
    cdef const unsigned char[::1] _enqueue_ms
    cdef const unsigned char[::1] _dequeue_ms
    cdef const unsigned char[::1] _roll_times
    cdef readonly long long flag, sys_flag, reconsume, born_ms, store_ms, queue_offset
    cdef readonly Py_ssize_t born, born_size, store, store_size
    cdef readonly Py_ssize_t body, body_size, text, text_size
    cdef readonly long long due_ms, out_ms, queue_id
    cdef readonly Py_ssize_t topic, topic_size, unique, unique_size, cancel, cancel_size
    cdef readonly bint is_light
    cdef readonly long long rolls, delay_sec, delay_ms, deliver_ms

    cdef int clear(self) except -1

    @cython.locals(spans=record.Spans, flags=cython.uint, moved=cython.Py_ssize_t)
    cdef bint scan(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t size, long long precision_ms) except -1

    @cython.locals(pair=text.Pair)
    cdef int _scan_text(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) except -1

    cdef int _property(
        self, const unsigned char* data, Py_ssize_t name, Py_ssize_t size, Py_ssize_t value, Py_ssize_t value_size
    ) except -1

    @cython.locals(value=cython.longlong, digit=cython.int)
    cdef long long _number(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept

    @cython.locals(due=cython.longlong)
    cdef long long _exact_due(self, long long precision_ms) noexcept

    @cython.locals(size=cython.Py_ssize_t, at=cython.Py_ssize_t, end=cython.Py_ssize_t, pair=text.Pair)
    cdef Py_ssize_t rewrite(
        self, const unsigned char* data, long long enqueue_ms, long long dequeue_ms, bint is_roll
    ) except? -77

    cdef bint _is_replaced(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t size, bint is_roll) noexcept

    cdef Py_ssize_t _write(self, Py_ssize_t at, const unsigned char* name, long long value) noexcept
