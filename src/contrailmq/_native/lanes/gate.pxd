import cython

from contrailmq._native cimport mac, raw, text
from contrailmq._native.lanes.decided cimport LanePlan, LaneTopic
from contrailmq._native.net.request cimport RequestScan

cdef int _FIELDS_MAX, _HEAD_SIZE, _SIGNATURE_ROOM


@cython.final
cdef class Allowance:
    cdef public long long messages
    cdef public long long size


@cython.final
cdef class LaneAccount:
    cdef readonly bytes name
    cdef readonly object owner
    cdef readonly bint is_free
    cdef readonly int key_count
    cdef bytes _first
    cdef bytes _second
    cdef const unsigned char[::1] _name_view
    cdef const unsigned char[::1] _first_view
    cdef const unsigned char[::1] _second_view
    cdef const unsigned char* name_address
    cdef const unsigned char* first_address
    cdef const unsigned char* second_address
    cdef Py_ssize_t name_size
    cdef readonly Allowance allowance
    cdef dict sends
    cdef dict pulls
    cdef LaneTopic last_topic
    cdef LanePlan last_plan


@cython.final
cdef class Visitor:
    cdef readonly long long epoch
    cdef readonly LaneAccount free
    cdef readonly dict accounts
    cdef LaneAccount last


@cython.final
cdef class Gate:
    cdef object host
    cdef readonly bint takes_tokens
    cdef readonly long long epoch
    cdef readonly long long checked
    cdef Visitor _visitor
    cdef long long[::1] _order
    cdef unsigned char[::1] _head
    cdef unsigned char* _head_address
    cdef unsigned char[::1] _given
    cdef unsigned char* _given_address
    cdef int _key, _token, _signature

    cpdef int forget(self) except -1

    @cython.locals(found=object, visitor=Visitor)
    cpdef int enter(self, object peer) except -1

    @cython.locals(account=LaneAccount, found=object, allowance=Allowance, size=cython.longlong)
    cdef bint admits_send(self, RequestScan scan, const unsigned char* data, LaneTopic entry, bint is_batch) except -1

    @cython.locals(account=LaneAccount, found=object)
    cdef bint admits_pull(self, RequestScan scan, const unsigned char* data, LanePlan plan) except -1

    @cython.locals(
        visitor=Visitor, number=cython.int, at=cython.Py_ssize_t, size=cython.Py_ssize_t,
        last=LaneAccount, found=object,
    )
    cdef LaneAccount _account(self, RequestScan scan, const unsigned char* data)

    @cython.locals(size=cython.Py_ssize_t, body=cython.Py_ssize_t)
    cdef bint _is_signed(self, RequestScan scan, const unsigned char* data, LaneAccount account) except -1

    @cython.locals(at=cython.Py_ssize_t, size=cython.Py_ssize_t, is_whole=cython.bint)
    cdef bint _read_signature(self, RequestScan scan, const unsigned char* data) except -1

    @cython.locals(
        count=cython.int, number=cython.int, place=cython.int, order=cython.int,
        size=cython.Py_ssize_t, at=cython.Py_ssize_t, more=cython.Py_ssize_t,
    )
    cdef Py_ssize_t _gather(self, RequestScan scan, const unsigned char* data) except -2

    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef bint _is_plain(self, RequestScan scan, const unsigned char* data, int number) noexcept


@cython.locals(
    left_at=cython.Py_ssize_t, right_at=cython.Py_ssize_t, left_size=cython.Py_ssize_t,
    right_size=cython.Py_ssize_t, size=cython.Py_ssize_t, place=cython.Py_ssize_t,
    difference=cython.int,
)
cdef int compare(RequestScan scan, const unsigned char* data, int left, int right) noexcept
