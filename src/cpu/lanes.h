/* cpu/lanes - the vector vocabulary of the kernel bodies: eight f32 lanes, in AVX2 or in plain C.
 *
 * Included by isa_*.c only, before the bodies; the compiler's own macros choose the form, so a file compiled for AVX2
 * and FMA gets intrinsics and any other file gets loops. Every function is one correctly rounded IEEE operation per
 * lane, so both forms give the same bits. The 16 lanes of cpu.h are a pair of v8: low holds lanes 0..7.
 *
 *     v8_tree: ((0+1)+(2+3))+((4+5)+(6+7))        v16_tree(low, high) = v8_tree(low + high) */
#ifndef GY_CPU_LANES_H
#define GY_CPU_LANES_H

#include <stdint.h>
#include <string.h>

#include "base/num.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define GY_LANES_AVX2 1
#include <immintrin.h>

typedef __m256 v8;
static inline v8 v8_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v8_store(float *p, v8 a) { _mm256_storeu_ps(p, a); }
static inline v8 v8_set1(float x) { return _mm256_set1_ps(x); }
static inline v8 v8_zero(void) { return _mm256_setzero_ps(); }
static inline v8 v8_add(v8 a, v8 b) { return _mm256_add_ps(a, b); }
static inline v8 v8_sub(v8 a, v8 b) { return _mm256_sub_ps(a, b); }
static inline v8 v8_mul(v8 a, v8 b) { return _mm256_mul_ps(a, b); }
static inline v8 v8_div(v8 a, v8 b) { return _mm256_div_ps(a, b); }
static inline v8 v8_fma(v8 a, v8 b, v8 c) { return _mm256_fmadd_ps(a, b, c); } /* a * b + c */
static inline float v8_tree(v8 a) {
    __m256 t = _mm256_hadd_ps(a, a); /* 0+1 2+3 .. | 4+5 6+7 .. */
    t = _mm256_hadd_ps(t, t);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1)));
}
static inline v8 v8_load_bf16(const void *p) { /* 8 values */
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
static inline v8 v8_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

#else

typedef struct { float f[8]; } v8;
#define GY_LANES_MAP(expr)                                                                         \
    v8 r;                                                                                          \
    for (int i = 0; i < 8; i++) r.f[i] = (expr);                                                   \
    return r
static inline v8 v8_load(const float *p) { GY_LANES_MAP(p[i]); }
static inline void v8_store(float *p, v8 a) { memcpy(p, a.f, sizeof a.f); }
static inline v8 v8_set1(float x) { GY_LANES_MAP(x); }
static inline v8 v8_zero(void) { return (v8){{0}}; }
static inline v8 v8_add(v8 a, v8 b) { GY_LANES_MAP(a.f[i] + b.f[i]); }
static inline v8 v8_sub(v8 a, v8 b) { GY_LANES_MAP(a.f[i] - b.f[i]); }
static inline v8 v8_mul(v8 a, v8 b) { GY_LANES_MAP(a.f[i] * b.f[i]); }
static inline v8 v8_div(v8 a, v8 b) { GY_LANES_MAP(a.f[i] / b.f[i]); }
static inline v8 v8_fma(v8 a, v8 b, v8 c) { GY_LANES_MAP(__builtin_fmaf(a.f[i], b.f[i], c.f[i])); }
static inline float v8_tree(v8 a) {
    const float *f = a.f;
    return ((f[0] + f[1]) + (f[2] + f[3])) + ((f[4] + f[5]) + (f[6] + f[7]));
}
static inline v8 v8_load_bf16(const void *p) {
    GY_LANES_MAP(gy_bf16_f32(gy_load_u16((const char *)p + 2 * i)));
}
static inline v8 v8_load_f16(const void *p) {
    GY_LANES_MAP(gy_f16_f32(gy_load_u16((const char *)p + 2 * i)));
}
#undef GY_LANES_MAP
#endif

static inline float v16_tree(v8 low, v8 high) { return v8_tree(v8_add(low, high)); }

/* p[n], n <= 8, the other lanes 0. */
static inline v8 v8_load_n(const float *p, int n) {
    float t[8] = {0};
    memcpy(t, p, (size_t)n * sizeof *t);
    return v8_load(t);
}
static inline void v8_store_n(float *p, int n, v8 a) {
    float t[8];
    v8_store(t, a);
    memcpy(p, t, (size_t)n * sizeof *t);
}

#endif
