# inline module: C for the modules that cimport it; never compiled by itself
# The C side of raw.py: inline, by address, big-endian. Bounds are the caller's.
from libc.string cimport memchr, memcmp, memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint16_t contrail_get16(const unsigned char *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
    static inline uint32_t contrail_get32(const unsigned char *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
    static inline uint64_t contrail_get64(const unsigned char *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
    static inline void contrail_put16(unsigned char *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
    static inline void contrail_put32(unsigned char *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
    #include <sys/mman.h>
    static inline int contrail_is_resident(const unsigned char *p, size_t size) {
        unsigned char pages[160];
        uintptr_t start = (uintptr_t) p & ~(uintptr_t) 4095;
        size_t count = ((uintptr_t) p + size - start + 4095) / 4096, i;
        if (count > sizeof pages || mincore((void *) start, count * 4096, (void *) pages) != 0) return 1;
        for (i = 0; i < count; i++) if (!(pages[i] & 1)) return 0;
        return 1;
    }
    static inline void contrail_prefetch(const unsigned char *p) { __builtin_prefetch(p, 0, 1); }
    static inline void contrail_put64(unsigned char *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }
    static inline int contrail_same(const unsigned char *p, const unsigned char *q, size_t size) {
        uint64_t a, b, c, d;
        uint32_t e, f, g, h;
        if (size > 16) return memcmp(p, q, size) == 0;
        if (size >= 8) {
            memcpy(&a, p, 8); memcpy(&b, q, 8); memcpy(&c, p + size - 8, 8); memcpy(&d, q + size - 8, 8);
            return ((a ^ b) | (c ^ d)) == 0;
        }
        if (size >= 4) {
            memcpy(&e, p, 4); memcpy(&f, q, 4); memcpy(&g, p + size - 4, 4); memcpy(&h, q + size - 4, 4);
            return ((e ^ f) | (g ^ h)) == 0;
        }
        return size == 0 || (p[0] == q[0] && p[size / 2] == q[size / 2] && p[size - 1] == q[size - 1]);
    }
    typedef unsigned char contrail_part __attribute__((vector_size(16)));
    /* Up to 256 bytes in steps of 32: what is too much is there to be read, and is written over later. */
    static inline void contrail_copy(unsigned char *p, size_t room, const unsigned char *q, size_t rest, size_t size) {
        size_t at = 0;
        contrail_part a, b;
        if (size > 256 || size + 32 > room || size + 32 > rest) { memcpy(p, q, size); return; }
        do {
            memcpy(&a, q + at, 16); memcpy(&b, q + at + 16, 16);
            memcpy(p + at, &a, 16); memcpy(p + at + 16, &b, 16);
            at += 32;
        } while (at < size);
    }
    /* Where the mask is 255 bytes must be the model's, where it is 0 they must not be the separator: 0 if they
       are not so, 1 if all are ASCII besides, 2 if not.  The last step ends with the bytes, so 16 are needed. */
    static inline int contrail_fits(const unsigned char *p, const unsigned char *model, const unsigned char *mask, size_t size, unsigned char separator) {
        contrail_part bytes, same, fixed, marks, bad = {0}, high = {0};
        uint64_t half[2];
        size_t at = 0;
        memset(&marks, separator, 16);
        for (;;) {
            memcpy(&bytes, p + at, 16); memcpy(&same, model + at, 16); memcpy(&fixed, mask + at, 16);
            bad |= (fixed & (bytes ^ same)) | (~fixed & (contrail_part) (bytes == marks));
            high |= bytes;
            if (at == size - 16) break;
            at = at + 32 > size ? size - 16 : at + 16;
        }
        memcpy(half, &bad, 16);
        if ((half[0] | half[1]) != 0) return 0;
        memcpy(half, &high, 16);
        return ((half[0] | half[1]) & 0x8080808080808080u) == 0 ? 1 : 2;
    }
    /* One bit a byte of 64: those equal to a byte, those beyond ASCII. */
    #if defined(__SSE2__)
    #include <emmintrin.h>
    static inline uint64_t contrail_find64(const unsigned char *p, unsigned char byte) {
        const __m128i *from = (const __m128i *) p, same = _mm_set1_epi8((char) byte);
        uint64_t a = (uint32_t) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(from), same));
        uint64_t b = (uint32_t) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(from + 1), same));
        uint64_t c = (uint32_t) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(from + 2), same));
        uint64_t d = (uint32_t) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(from + 3), same));
        return a | b << 16 | c << 32 | d << 48;
    }
    static inline uint64_t contrail_high64(const unsigned char *p) {
        const __m128i *from = (const __m128i *) p;
        uint64_t a = (uint32_t) _mm_movemask_epi8(_mm_loadu_si128(from));
        uint64_t b = (uint32_t) _mm_movemask_epi8(_mm_loadu_si128(from + 1));
        uint64_t c = (uint32_t) _mm_movemask_epi8(_mm_loadu_si128(from + 2));
        uint64_t d = (uint32_t) _mm_movemask_epi8(_mm_loadu_si128(from + 3));
        return a | b << 16 | c << 32 | d << 48;
    }
    #else
    static inline uint64_t contrail_tops(uint64_t v) { /* the highest bit of each byte */
        return ((v >> 7) & 0x0101010101010101u) * 0x0102040810204080u >> 56;
    }
    static inline uint64_t contrail_find64(const unsigned char *p, unsigned char byte) {
        uint64_t found = 0, v;
        int i;
        for (i = 0; i < 8; i++) {
            v = __builtin_bswap64(contrail_get64(p + 8 * i)) ^ byte * 0x0101010101010101u;
            v = ~(((v & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | v);
            found |= contrail_tops(v) << 8 * i;
        }
        return found;
    }
    static inline uint64_t contrail_high64(const unsigned char *p) {
        uint64_t found = 0;
        int i;
        for (i = 0; i < 8; i++)
            found |= contrail_tops(__builtin_bswap64(contrail_get64(p + 8 * i))) << 8 * i;
        return found;
    }
    #endif
    static inline uint64_t contrail_low_bits(size_t count) { return count < 64 ? ((uint64_t) 1 << count) - 1 : ~(uint64_t) 0; }
    static inline uint64_t contrail_find(const unsigned char *p, size_t size, size_t rest, unsigned char byte) {
        unsigned char part[64];
        if (rest < 64) { memcpy(part, p, size); return contrail_find64(part, byte) & contrail_low_bits(size); }
        return contrail_find64(p, byte) & contrail_low_bits(size);
    }
    static inline uint64_t contrail_high(const unsigned char *p, size_t size, size_t rest) {
        unsigned char part[64];
        if (rest < 64) { memcpy(part, p, size); return contrail_high64(part) & contrail_low_bits(size); }
        return contrail_high64(p) & contrail_low_bits(size);
    }
    """
    unsigned short contrail_get16(const unsigned char* p) nogil
    unsigned int contrail_get32(const unsigned char* p) nogil
    unsigned long long contrail_get64(const unsigned char* p) nogil
    void contrail_put16(unsigned char* p, unsigned short v) nogil
    void contrail_put32(unsigned char* p, unsigned int v) nogil
    int contrail_is_resident(const unsigned char* p, size_t size) nogil
    void contrail_prefetch(const unsigned char* p) nogil
    void contrail_put64(unsigned char* p, unsigned long long v) nogil
    bint contrail_same(const unsigned char* p, const unsigned char* q, size_t size) nogil
    void contrail_copy(unsigned char* p, size_t room, const unsigned char* q, size_t rest, size_t size) nogil
    int contrail_fits(const unsigned char* p, const unsigned char* model, const unsigned char* mask, size_t size, unsigned char separator) nogil
    unsigned long long contrail_find(const unsigned char* p, size_t size, size_t rest, unsigned char byte) nogil
    unsigned long long contrail_high(const unsigned char* p, size_t size, size_t rest) nogil
    int __builtin_ctzll(unsigned long long bits) nogil

cdef inline unsigned char* at_address(const unsigned char[::1] data) noexcept:
    if data.shape[0] == 0:
        return NULL
    return <unsigned char*> &data[0]

cdef extern from "Python.h":
    bytearray PyByteArray_FromStringAndSize(const char* data, Py_ssize_t size)

cdef inline bytearray new_buffer(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)

cdef inline void copy_bytes(unsigned char* target, Py_ssize_t target_at, const unsigned char* source, Py_ssize_t source_at, Py_ssize_t size) noexcept nogil:
    memcpy(target + target_at, source + source_at, size)

cdef extern from "Python.h":
    bytes PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)

cdef inline bytes copy_of(const unsigned char* data, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*> (data + at), size)

cdef inline bint same_bytes(const unsigned char* left, Py_ssize_t left_at, const unsigned char* right, Py_ssize_t right_at, Py_ssize_t size) noexcept nogil:
    return memcmp(left + left_at, right + right_at, size) == 0

cdef inline unsigned int get_u16(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return contrail_get16(data + at)

cdef inline unsigned int get_u32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return contrail_get32(data + at)

cdef inline int get_i32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <int> contrail_get32(data + at)

cdef inline long long get_i64(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <long long> contrail_get64(data + at)

cdef inline void put_u16(unsigned char* data, Py_ssize_t at, unsigned int value) noexcept nogil:
    contrail_put16(data + at, <unsigned short> value)

cdef inline void put_u32(unsigned char* data, Py_ssize_t at, unsigned int value) noexcept nogil:
    contrail_put32(data + at, value)

cdef inline void put_i64(unsigned char* data, Py_ssize_t at, long long value) noexcept nogil:
    contrail_put64(data + at, <unsigned long long> value)

cdef inline bint is_resident(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    return contrail_is_resident(data + at, size)

cdef inline void prefetch(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    contrail_prefetch(data + at)

cdef inline Py_ssize_t find_byte(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int byte) noexcept nogil:
    cdef const unsigned char* found
    if at >= end:
        return -1
    found = <const unsigned char*> memchr(data + at, byte, end - at)
    return -1 if found == NULL else found - data

cdef inline long long* numbers_at(long long[::1] numbers) noexcept:
    return &numbers[0]

cdef inline const unsigned int* words_at(const unsigned int[::1] words) noexcept:
    return &words[0]

cdef inline bint is_same(const unsigned char* data, Py_ssize_t left_at, Py_ssize_t right_at, Py_ssize_t size) noexcept nogil:
    return contrail_same(data + left_at, data + right_at, size)

cdef inline void copy_short(unsigned char* target, Py_ssize_t target_at, Py_ssize_t target_end, const unsigned char* source, Py_ssize_t source_at, Py_ssize_t source_end, Py_ssize_t size) noexcept nogil:
    contrail_copy(target + target_at, target_end - target_at, source + source_at, source_end - source_at, size)

cdef inline unsigned long long find_64(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t limit, int byte) noexcept nogil:
    return contrail_find(data + at, end - at, limit - at, byte)

cdef inline unsigned long long high_64(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t limit) noexcept nogil:
    return contrail_high(data + at, end - at, limit - at)

cdef inline int fits(const unsigned char* data, Py_ssize_t at, const unsigned char* model, const unsigned char* mask, Py_ssize_t size, int separator) noexcept nogil:
    return contrail_fits(data + at, model, mask, size, separator)

cdef inline unsigned long long bit(Py_ssize_t number) noexcept nogil:
    return (<unsigned long long> 1) << number

cdef inline int lowest_bit(unsigned long long bits) noexcept nogil:
    return __builtin_ctzll(bits)

# CRC-32 by multiplication without carries, 64 bytes a step (Gopal et al., "Fast CRC Computation for
# Generic Polynomials Using PCLMULQDQ", Intel 2009): the remainders of x^n by the polynomial move
# 128 bits of message forward by 512 and 128 bits, the last two steps are Barrett's reduction.
cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    static int contrail_can_fold(void) {
        static int known = -1;
        if (known < 0)
            known = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
        return known;
    }
    #define CONTRAIL_CLMUL __attribute__((target("pclmul,sse4.1")))
    CONTRAIL_CLMUL static inline __m128i contrail_forward(__m128i part, __m128i by, __m128i next) {
        __m128i low = _mm_clmulepi64_si128(part, by, 0x00), high = _mm_clmulepi64_si128(part, by, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), next);
    }
    CONTRAIL_CLMUL static inline uint32_t contrail_crc_fold(uint32_t crc, const unsigned char *at, size_t size) {
        const __m128i *from = (const __m128i *) at, *end = (const __m128i *) (at + size);
        const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
        const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
        const __m128i by_64 = _mm_set_epi64x(0, 0x163cd6124);
        const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
        const __m128i words = _mm_set_epi32(0, -1, 0, -1);
        __m128i a = _mm_xor_si128(_mm_loadu_si128(from), _mm_cvtsi32_si128((int) crc));
        __m128i b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3), t;
        for (from += 4; end - from >= 4; from += 4) {
            a = contrail_forward(a, by_512, _mm_loadu_si128(from));
            b = contrail_forward(b, by_512, _mm_loadu_si128(from + 1));
            c = contrail_forward(c, by_512, _mm_loadu_si128(from + 2));
            d = contrail_forward(d, by_512, _mm_loadu_si128(from + 3));
        }
        a = contrail_forward(contrail_forward(contrail_forward(a, by_128, b), by_128, c), by_128, d);
        for (; from < end; from++)
            a = contrail_forward(a, by_128, _mm_loadu_si128(from));
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
        a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, words), by_64, 0x00));
        t = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, words), barrett, 0x10), words);
        a = _mm_xor_si128(a, _mm_clmulepi64_si128(t, barrett, 0x00));
        return (uint32_t) _mm_extract_epi32(a, 1);
    }
    #else
    static inline int contrail_can_fold(void) { return 0; }
    static inline uint32_t contrail_crc_fold(uint32_t crc, const unsigned char *at, size_t size) { return crc; }
    #endif
    """
    int contrail_can_fold() nogil
    unsigned int contrail_crc_fold(unsigned int crc, const unsigned char* at, size_t size) nogil

cdef inline Py_ssize_t crc_fold_size(Py_ssize_t size) noexcept nogil:
    return size - size % 16 if size >= 64 and contrail_can_fold() else 0

cdef inline unsigned int crc_fold(unsigned int crc, const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    return contrail_crc_fold(crc, data + at, size)
