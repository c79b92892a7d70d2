/* base/utf8 - one code point in, one out. */
#ifndef GY_BASE_UTF8_H
#define GY_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes one code point of s[n], n >= 1. Returns the bytes consumed, at least 1. An ill-formed
 * sequence gives U+FFFD and consumes its maximal subpart (Unicode 16, section 3.9, U+FFFD
 * substitution of maximal subparts). */
static inline size_t gy_utf8_get(const char *s, size_t n, uint32_t *cp) {
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) return *cp = u[0], 1;
    size_t more = u[0] >= 0xC2 && u[0] <= 0xDF   ? 1
                  : (u[0] & 0xF0) == 0xE0        ? 2
                  : u[0] >= 0xF0 && u[0] <= 0xF4 ? 3
                                                 : 0;
    unsigned lo = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80; /* of the second byte only */
    unsigned hi = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
    uint32_t c = more == 1 ? u[0] & 0x1F : more == 2 ? u[0] & 0x0F : u[0] & 0x07;
    *cp = 0xFFFD;
    for (size_t i = 1; i <= more; i++) {
        if (i >= n || u[i] < lo || u[i] > hi) return i;
        c = c << 6 | (u[i] & 0x3F), lo = 0x80, hi = 0xBF;
    }
    if (more) *cp = c;
    return more + 1;
}

/* Encodes c into out[4], returns the bytes; surrogates and values past U+10FFFF become U+FFFD. */
static inline size_t gy_utf8_put(char out[4], uint32_t c) {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)),
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63));
    return 4;
}

#endif
