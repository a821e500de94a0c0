# inline module: C for the modules that cimport it; never compiled by itself
# The C side of text.py: the same names, as constants and inline functions. Bounds are the caller's.
from libc.string cimport memcmp, strlen

from contrailmq._native cimport raw

cdef enum:
    NAME_END = 1
    VALUE_END = 2
    NUMBER_SIZE_MAX = 20
    HEX_64_SIZE = 16
    HIGH_BIT = 0x80

    UTF8_TWO = 0xC2
    UTF8_THREE = 0xE0
    UTF8_FOUR = 0xF0
    UTF8_LAST = 0xF4
    UTF8_SURROGATES = 0xED
    UTF8_TWO_MARK = 0xC0
    UTF8_NEXT = 0x80
    UTF8_NEXT_BITS = 0x3F
    UTF8_NEXT_TOP = 0xBF
    UTF8_THREE_NEXT = 0xA0
    UTF8_FOUR_NEXT = 0x90
    UTF8_SURROGATES_TOP = 0x9F
    UTF8_LAST_TOP = 0x8F

cdef struct Pair:
    Py_ssize_t name, name_size, value, value_size, end

# The word is a literal, so the compiler knows its length: one or two comparisons of whole numbers.
cdef inline bint is_word(const unsigned char* data, Py_ssize_t at, Py_ssize_t size, const char* word) noexcept nogil:
    return size == <Py_ssize_t> strlen(word) and memcmp(data + at, word, strlen(word)) == 0

cdef inline Pair pair_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t stop = raw.find_byte(data, at, end, VALUE_END)
    cdef Py_ssize_t middle
    if stop < 0:
        stop = end
    middle = raw.find_byte(data, at, stop, NAME_END)
    if middle < 0:
        return Pair(at, -1, at, -1, stop)
    return Pair(at, middle - at, middle + 1, stop - middle - 1, stop)

cdef inline unsigned long long _magnitude(long long value) noexcept nogil:
    return -(<unsigned long long> value) if value < 0 else <unsigned long long> value

cdef inline Py_ssize_t digits(long long value) noexcept nogil:
    cdef unsigned long long rest = _magnitude(value)
    cdef unsigned long long limit = 10
    cdef Py_ssize_t count = 2 if value < 0 else 1
    while rest >= limit:  # 10 ** 19 is more than any 64-bit number with a sign, and fits
        limit *= 10
        count += 1
    return count

cdef inline Py_ssize_t put_number(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil:
    cdef Py_ssize_t end, place
    cdef unsigned long long rest
    if 0 <= value < 10:
        out[at] = c"0" + value
        return at + 1
    end = place = at + digits(value)
    rest = _magnitude(value)
    if value < 0:
        out[at] = c"-"
    while True:
        place -= 1
        out[place] = c"0" + rest % 10
        rest //= 10
        if rest == 0:
            return end

cdef inline unsigned char upper_hex(int digit) noexcept nogil:
    return c"0" + digit if digit < 10 else c"A" - 10 + digit

cdef inline unsigned char lower_hex(int digit) noexcept nogil:
    return c"0" + digit if digit < 10 else c"a" - 10 + digit

cdef inline Py_ssize_t put_hex_8(unsigned char* out, Py_ssize_t at, int value) noexcept nogil:
    out[at] = upper_hex(value >> 4)
    out[at + 1] = upper_hex(value & 15)
    return at + 2

# Eight digits at once: a nibble in each byte, then the distance from 9 to A where it is above 9.
cdef inline unsigned long long _hex_32(unsigned long long value) noexcept nogil:
    value = ((value << 16) | value) & 0x0000FFFF0000FFFFULL
    value = ((value << 8) | value) & 0x00FF00FF00FF00FFULL
    value = ((value << 4) | value) & 0x0F0F0F0F0F0F0F0FULL
    return value + 0x3030303030303030ULL + (((value + 0x0606060606060606ULL) >> 4) & 0x0101010101010101ULL) * 7

cdef inline Py_ssize_t put_hex_64(unsigned char* out, Py_ssize_t at, unsigned long long value) noexcept nogil:
    raw.put_i64(out, at, <long long> _hex_32(value >> 32))
    raw.put_i64(out, at + 8, <long long> _hex_32(value & 0xFFFFFFFFULL))
    return at + HEX_64_SIZE
