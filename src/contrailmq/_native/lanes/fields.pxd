import cython

from contrailmq._native cimport names, raw, text
from contrailmq._native.net.request cimport RequestScan

cdef int _ALLOWED_SYS_FLAGS, _COUNT_MAX, _KEY_MAX
cdef int _HAS_KEY, _IS_ACTED_ON, _NO_WAIT, _IS_ODD, _IS_KEY_ODD
cdef long long _INT_MAX, _MISSING


@cython.final
cdef class SendFields:
    cdef const unsigned char[::1] _table
    cdef const unsigned char* _table_address
    cdef readonly int topic
    cdef readonly int properties
    cdef readonly long long queue_id
    cdef readonly long long sys_flag
    cdef readonly long long flag
    cdef readonly long long born_ms
    cdef readonly bint is_batch

    @cython.locals(
        topic=cython.int, properties=cython.int, group=cython.int, queue_id=cython.longlong,
        sys_flag=cython.longlong, flag=cython.longlong, born_ms=cython.longlong,
        number=cython.int, at=cython.Py_ssize_t, size=cython.Py_ssize_t, meaning=cython.int,
    )
    cdef bint read(self, RequestScan scan, const unsigned char* data) noexcept


@cython.final
cdef class PullFields:
    cdef const unsigned char[::1] _table
    cdef const unsigned char* _table_address
    cdef readonly int group
    cdef readonly int topic
    cdef readonly int subscription
    cdef readonly int version
    cdef readonly int kind
    cdef readonly long long queue_id
    cdef readonly long long offset
    cdef readonly long long count
    cdef readonly long long flags
    cdef readonly long long commit

    @cython.locals(
        group=cython.int, topic=cython.int, subscription=cython.int, version=cython.int,
        kind=cython.int, queue_id=cython.longlong, offset=cython.longlong, count=cython.longlong,
        flags=cython.longlong, commit=cython.longlong, number=cython.int, at=cython.Py_ssize_t,
        size=cython.Py_ssize_t, meaning=cython.int,
    )
    cdef bint read(self, RequestScan scan, const unsigned char* data) noexcept


@cython.final
cdef class SendProperties:
    cdef const unsigned char[::1] _table
    cdef const unsigned char* _table_address
    cdef readonly Py_ssize_t key_at
    cdef readonly Py_ssize_t key_size

    cpdef int look(self, const unsigned char[::1] data) except -1

    cpdef bytes key(self, const unsigned char[::1] data)

    @cython.locals(found=cython.int, pair=text.Pair, meaning=cython.int)
    cdef int read(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(place=cython.Py_ssize_t)
cdef bint is_plain(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept
