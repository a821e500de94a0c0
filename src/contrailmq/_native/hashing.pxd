import cython

from contrailmq._native cimport raw, text

cdef unsigned int _MASK, _SIGN, _31, _31_2, _31_3, _31_4
cdef long long _TWO_32

cpdef unsigned int java_hash(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, unsigned int seed) except? 77

@cython.locals(
    value=cython.uint, at=cython.Py_ssize_t, a=cython.uint, b=cython.uint, c=cython.uint,
    d=cython.uint,
)
cdef unsigned int hash_at(const unsigned char* address, Py_ssize_t start, Py_ssize_t end, unsigned int seed) except? 77

cpdef long long java_hash_of(str words) except? -77

cpdef long long as_int(unsigned int value) noexcept

@cython.locals(value=cython.uint, character=Py_UCS4, code=cython.uint)
cdef unsigned int _hash_units(str words, unsigned int seed) except? 77
