# inline module: C for the modules that cimport it; never compiled by itself
# The C side of mac.py: HMAC-SHA1 (RFC 2104, FIPS 180-4) from two kept states per secret, with the
# processor's own SHA instructions where it has them. Bounds are the caller's.
cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static inline uint32_t contrail_turn(uint32_t value, int by) { return value << by | value >> (32 - by); }
    static void contrail_sha1_plain(uint32_t *state, const unsigned char *at, size_t blocks) {
        uint32_t w[80], a, b, c, d, e, f, t;
        int i;
        for (; blocks; blocks--, at += 64) {
            for (i = 0; i < 16; i++) { memcpy(&t, at + 4 * i, 4); w[i] = __builtin_bswap32(t); }
            for (; i < 80; i++) w[i] = contrail_turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
            a = state[0]; b = state[1]; c = state[2]; d = state[3]; e = state[4];
            for (i = 0; i < 80; i++) {
                if (i < 20) f = ((b & c) | (~b & d)) + 0x5A827999u;
                else if (i < 40) f = (b ^ c ^ d) + 0x6ED9EBA1u;
                else if (i < 60) f = ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDCu;
                else f = (b ^ c ^ d) + 0xCA62C1D6u;
                t = contrail_turn(a, 5) + f + e + w[i];
                e = d; d = c; c = contrail_turn(b, 30); b = a; a = t;
            }
            state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e;
        }
    }
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <cpuid.h>
    #include <immintrin.h>
    static int contrail_has_sha(void) {
        static int known = -1;
        unsigned a, b, c, d;
        if (known < 0)
            known = __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
        return known;
    }
    /* Four rounds: what they need of the words before (w0 is the oldest), and the states between. */
    #define CONTRAIL_FOUR(step, w0, w1, w2, w3) \\
        if ((step) >= 4) w0 = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2), w3); \\
        e = (step) ? _mm_sha1nexte_epu32(before, w0) : _mm_add_epi32(e, w0); \\
        before = abcd; \\
        abcd = _mm_sha1rnds4_epu32(abcd, e, (step) / 5);
    #define CONTRAIL_SIXTEEN(step) \\
        CONTRAIL_FOUR((step), a, b, c, d) CONTRAIL_FOUR((step) + 1, b, c, d, a) \\
        CONTRAIL_FOUR((step) + 2, c, d, a, b) CONTRAIL_FOUR((step) + 3, d, a, b, c)
    __attribute__((target("sha,sse4.1")))
    static void contrail_sha1_quick(uint32_t *state, const unsigned char *at, size_t blocks) {
        const __m128i flip = _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL);
        __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *) state), 0x1B);
        __m128i e = _mm_set_epi32((int) state[4], 0, 0, 0), before = abcd, first, first_e, a, b, c, d;
        for (; blocks; blocks--, at += 64) {
            first = abcd; first_e = e;
            a = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) at), flip);
            b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) (at + 16)), flip);
            c = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) (at + 32)), flip);
            d = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) (at + 48)), flip);
            CONTRAIL_SIXTEEN(0) CONTRAIL_SIXTEEN(4) CONTRAIL_SIXTEEN(8) CONTRAIL_SIXTEEN(12) CONTRAIL_SIXTEEN(16)
            e = _mm_sha1nexte_epu32(before, first_e);
            abcd = _mm_add_epi32(abcd, first);
        }
        _mm_storeu_si128((__m128i *) state, _mm_shuffle_epi32(abcd, 0x1B));
        state[4] = (uint32_t) _mm_extract_epi32(e, 3);
    }
    #undef CONTRAIL_FOUR
    #undef CONTRAIL_SIXTEEN
    #else
    static int contrail_has_sha(void) { return 0; }
    static void contrail_sha1_quick(uint32_t *state, const unsigned char *at, size_t blocks) { (void) state; (void) at; (void) blocks; }
    #endif
    static void contrail_sha1_blocks(uint32_t *state, const unsigned char *at, size_t blocks) {
        if (contrail_has_sha()) contrail_sha1_quick(state, at, blocks);
        else contrail_sha1_plain(state, at, blocks);
    }
    /* Two stretches after ``done`` bytes (whole blocks) that ``state`` has seen; the digest goes to ``out``. */
    static void contrail_sha1_end(uint32_t *state, uint64_t done, const unsigned char *p, size_t size,
                                  const unsigned char *q, size_t more, unsigned char *out) {
        unsigned char rest[128];
        size_t have, part, i, ends;
        uint64_t bits = __builtin_bswap64((done + size + more) * 8);
        contrail_sha1_blocks(state, p, size / 64);
        have = size % 64;
        if (have) memcpy(rest, p + (size - have), have);
        if (have && more) {
            part = more < 64 - have ? more : 64 - have;
            memcpy(rest + have, q, part);
            have += part; q += part; more -= part;
            if (have == 64) { contrail_sha1_blocks(state, rest, 1); have = 0; }
        }
        if (more) {
            contrail_sha1_blocks(state, q, more / 64);
            if (more % 64) memcpy(rest, q + more / 64 * 64, more % 64);
            have = more % 64;
        }
        ends = have < 56 ? 64 : 128;
        rest[have] = 0x80;
        memset(rest + have + 1, 0, ends - have - 9);
        memcpy(rest + ends - 8, &bits, 8);
        contrail_sha1_blocks(state, rest, ends / 64);
        for (i = 0; i < 5; i++) { uint32_t word = __builtin_bswap32(state[i]); memcpy(out + 4 * i, &word, 4); }
    }
    static const uint32_t contrail_sha1_start[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    static void contrail_mac_states(const unsigned char *secret, size_t size, unsigned char *out) {
        unsigned char key[64] = {0};
        uint32_t state[5];
        int i, side;
        if (size > 64) { memcpy(state, contrail_sha1_start, 20); contrail_sha1_end(state, 0, secret, size, secret, 0, key); }
        else if (size) memcpy(key, secret, size);
        for (side = 0; side < 2; side++) {
            for (i = 0; i < 64; i++) key[i] ^= side ? 0x36 ^ 0x5C : 0x36;
            memcpy(state, contrail_sha1_start, 20);
            contrail_sha1_blocks(state, key, 1);
            memcpy(out + 20 * side, state, 20);
        }
        memset(key, 0, sizeof key);
    }
    static int contrail_mac_matches(const unsigned char *states, const unsigned char *p, size_t size,
                                    const unsigned char *q, size_t more, const unsigned char *given) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        unsigned char digest[21];
        uint32_t state[5], bits;
        unsigned char differs = 0;
        int i, j;
        memcpy(state, states, 20);
        contrail_sha1_end(state, 64, p, size, q, more, digest);
        memcpy(state, states + 20, 20);
        contrail_sha1_end(state, 64, digest, 20, digest, 0, digest);
        digest[20] = 0;
        for (i = 0; i < 7; i++) {
            bits = (uint32_t) digest[3 * i] << 16 | (uint32_t) digest[3 * i + 1] << 8 | digest[3 * i + 2];
            for (j = 0; j < 4; j++)
                differs |= given[4 * i + j] ^ (unsigned char) (i == 6 && j == 3 ? '=' : letters[bits >> (18 - 6 * j) & 63]);
        }
        return differs == 0;
    }
    """
    void contrail_mac_states(const unsigned char* secret, size_t size, unsigned char* out) nogil
    bint contrail_mac_matches(const unsigned char* states, const unsigned char* p, size_t size, const unsigned char* q, size_t more, const unsigned char* given) nogil

cdef enum:
    SIGNATURE_SIZE = 28
    STATES_SIZE = 40

cdef inline bytes states(bytes secret):
    cdef unsigned char out[STATES_SIZE]
    contrail_mac_states(secret, len(secret), out)
    return out[:STATES_SIZE]

cdef inline bint matches(const unsigned char* kept, const unsigned char* head, Py_ssize_t head_size, const unsigned char* data, Py_ssize_t at, Py_ssize_t size, const unsigned char* given) noexcept nogil:
    return contrail_mac_matches(kept, head, head_size, data + at, size, given)
