/* base/num - 16-bit float formats as plain integer work, equal on every machine.
 *
 * f16 and bf16 conversions round to nearest even. Kernels may use F16C: it gives the same bits for
 * every input that is not a NaN payload. */
#ifndef GY_BASE_NUM_H
#define GY_BASE_NUM_H

#include <stdint.h>
#include <string.h>

static inline uint32_t gy_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float gy_bits_f32(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static inline float gy_bf16_f32(uint16_t h) {
    return gy_bits_f32((uint32_t)h << 16);
}

static inline uint16_t gy_f32_bf16(float x) {
    uint32_t u = gy_f32_bits(x);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40); /* keep a NaN a NaN */
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static inline float gy_f16_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return gy_bits_f32(sign | 0x7F800000 | m << 13);
    if (e) return gy_bits_f32(sign | (e + 112) << 23 | m << 13);
    float x = (float)m * 0x1p-24f; /* subnormal or zero: exact */
    return gy_bits_f32(sign | gy_f32_bits(x));
}

static inline uint16_t gy_f32_f16(float x) {
    uint32_t u = gy_f32_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7FFFFFFF;
    if (a > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (a >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* rounds to infinity */
    if (a < 0x38800000) {
        /* Subnormal result: adding 0.5 leaves the value, rounded to a multiple of 2^-24, in the low
         * bits. */
        float t = gy_bits_f32(a) + 0.5f;
        return (uint16_t)(sign | (gy_f32_bits(t) - 0x3F000000));
    }
    return (uint16_t)(sign | ((a - 0x38000000 + 0xFFF + (a >> 13 & 1)) >> 13));
}

static inline uint16_t gy_load_u16(const void *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

static inline uint32_t gy_load_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

#endif
