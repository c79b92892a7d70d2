/* cpu/lanes - the vector vocabulary of the kernel bodies: eight f32 lanes, in AVX2, in NEON or in
 * plain C.
 *
 * Included by isa_*.c only, before the bodies; the compiler's own macros choose the form, so a file
 * compiled for AVX2 and FMA, or for ARMv8.2 with its dot products, gets intrinsics and any other
 * file gets loops (on arm64 too, where every file could use NEON: the generic set stays the plain
 * one). Every function is one correctly rounded IEEE operation per lane, so all forms give the same
 * bits. The 16 lanes of cpu.h are a pair of v8: low holds lanes 0..7.
 *
 *     v8_tree: ((0+1)+(2+3))+((4+5)+(6+7))        v16_tree(low, high) = v8_tree(low + high) */
#ifndef GY_CPU_LANES_H
#define GY_CPU_LANES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define GY_LANES_AVX2 1
#include <immintrin.h>

typedef __m256 v8;
static inline v8 v8_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void v8_store(float *p, v8 a) {
    _mm256_storeu_ps(p, a);
}
static inline v8 v8_set1(float x) {
    return _mm256_set1_ps(x);
}
static inline v8 v8_zero(void) {
    return _mm256_setzero_ps();
}
static inline v8 v8_add(v8 a, v8 b) {
    return _mm256_add_ps(a, b);
}
static inline v8 v8_sub(v8 a, v8 b) {
    return _mm256_sub_ps(a, b);
}
static inline v8 v8_mul(v8 a, v8 b) {
    return _mm256_mul_ps(a, b);
}
static inline v8 v8_div(v8 a, v8 b) {
    return _mm256_div_ps(a, b);
}
static inline v8 v8_fma(v8 a, v8 b, v8 c) {
    return _mm256_fmadd_ps(a, b, c);
} /* a * b + c */
static inline float v8_tree(v8 a) {
    __m256 t = _mm256_hadd_ps(a, a); /* 0+1 2+3 .. | 4+5 6+7 .. */
    t = _mm256_hadd_ps(t, t);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1)));
}
static inline v8 v8_load_bf16(const void *p) { /* 8 values */
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
static inline v8 v8_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
static inline v8 v8_load_u8(const void *p) { /* 8 bytes as floats */
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)));
}
static inline v8 v8_load_s8(const void *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
/* Entries of a table by eight codes of 3 bits: the first eight of the sixteen at p, or the second
 * ones. Four bytes are read, and they lie within the six of the sixteen. */
static inline v8 v8_load_u3(const void *p, bool second, const float *table) {
    __m256i w = _mm256_set1_epi32((int)gy_load_u32((const char *)p + (second ? 2 : 0)));
    const __m256i by = second ? _mm256_setr_epi32(8, 11, 14, 17, 20, 23, 26, 29)
                              : _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21);
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), _mm256_srlv_epi32(w, by));
}
static inline v8 v8_load_u4(const void *p) { /* 4 bytes, lowest bits first */
    __m256i w = _mm256_set1_epi32((int)gy_load_u32(p));
    w = _mm256_srlv_epi32(w, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    return _mm256_cvtepi32_ps(_mm256_and_si256(w, _mm256_set1_epi32(15)));
}
static inline v8 v8_max(v8 a, v8 b) {
    return _mm256_max_ps(a, b);
} /* a > b ? a : b */
static inline v8 v8_min(v8 a, v8 b) {
    return _mm256_min_ps(a, b);
} /* a < b ? a : b */
static inline v8 v8_abs(v8 a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline v8 v8_sign(v8 a, v8 b) { /* |a| with the sign of b */
    return _mm256_or_ps(v8_abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), b));
}
static inline v8 v8_round(v8 a) { /* to the nearest integer, ties to even */
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline v8 v8_scale2(v8 a, v8 n) { /* a 2^n for whole n where a and the result are normal */
    __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), e));
}
static inline v8 v8_lt(v8 a, v8 b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
} /* a mask */
static inline v8 v8_ge(v8 a, v8 b) {
    return _mm256_cmp_ps(a, b, _CMP_GE_OQ);
}
static inline v8 v8_and(v8 a, v8 b) {
    return _mm256_and_ps(a, b);
}
static inline v8 v8_sel(v8 mask, v8 a, v8 b) {
    return _mm256_blendv_ps(b, a, mask);
}
static inline int v8_count(v8 mask) {
    return __builtin_popcount((unsigned)_mm256_movemask_ps(mask));
}
static inline float v8_top(v8 a) { /* the largest lane */
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_shuffle_ps(t, t, 1)));
}
/* a0 b0 a1 b1 ..: the lower (zip0) and upper (zip1) half; and back. */
static inline v8 v8_zip0(v8 a, v8 b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
static inline v8 v8_zip1(v8 a, v8 b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}
static inline v8 v8_even(v8 a, v8 b) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xD8));
}
static inline v8 v8_odd(v8 a, v8 b) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xDD)), 0xD8));
}
static inline v8 v8_trees(const v8 a[8]) { /* lane i: v8_tree(a[i]) */
    v8 s = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    v8 t = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(s, t, 0x20), _mm256_permute2f128_ps(s, t, 0x31));
}
static inline void v8_store_f16(void *p, v8 a) { /* a NaN keeps its sign and no payload */
    v8 nan = _mm256_or_ps(_mm256_and_ps(a, _mm256_set1_ps(-0.0f)), _mm256_set1_ps(NAN));
    a = _mm256_blendv_ps(a, nan, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    _mm_storeu_si128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void v8_store_bf16(void *p, v8 a) {
    __m256i u = _mm256_castps_si256(a), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    r = _mm256_srli_epi32(r, 16);
    r = _mm256_blendv_epi8(r, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0xD8);
    _mm_storeu_si128(p, _mm256_castsi256_si128(r));
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define GY_LANES_NEON 1
#include "cpu/lanes_neon.h"
#else

typedef struct {
    float f[8];
} v8;
#define GY_LANES_MAP(expr)                                                                         \
    v8 r;                                                                                          \
    for (int i = 0; i < 8; i++) r.f[i] = (expr);                                                   \
    return r
static inline v8 v8_load(const float *p) {
    GY_LANES_MAP(p[i]);
}
static inline void v8_store(float *p, v8 a) {
    memcpy(p, a.f, sizeof a.f);
}
static inline v8 v8_set1(float x) {
    GY_LANES_MAP(x);
}
static inline v8 v8_zero(void) {
    return (v8){{0}};
}
static inline v8 v8_add(v8 a, v8 b) {
    GY_LANES_MAP(a.f[i] + b.f[i]);
}
static inline v8 v8_sub(v8 a, v8 b) {
    GY_LANES_MAP(a.f[i] - b.f[i]);
}
static inline v8 v8_mul(v8 a, v8 b) {
    GY_LANES_MAP(a.f[i] * b.f[i]);
}
static inline v8 v8_div(v8 a, v8 b) {
    GY_LANES_MAP(a.f[i] / b.f[i]);
}
static inline v8 v8_fma(v8 a, v8 b, v8 c) {
    GY_LANES_MAP(__builtin_fmaf(a.f[i], b.f[i], c.f[i]));
}
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
static inline v8 v8_load_u8(const void *p) {
    GY_LANES_MAP((float)((const uint8_t *)p)[i]);
}
static inline v8 v8_load_s8(const void *p) {
    GY_LANES_MAP((float)((const int8_t *)p)[i]);
}
static inline v8 v8_load_u3(const void *p, bool second, const float *table) {
    const uint32_t w = gy_load_u32((const char *)p + (second ? 2 : 0)) >> (second ? 8 : 0);
    GY_LANES_MAP(table[w >> 3 * i & 7]);
}
static inline v8 v8_load_u4(const void *p) {
    GY_LANES_MAP((float)(((const uint8_t *)p)[i / 2] >> (i & 1) * 4 & 15));
}
static inline v8 v8_max(v8 a, v8 b) {
    GY_LANES_MAP(a.f[i] > b.f[i] ? a.f[i] : b.f[i]);
}
static inline v8 v8_min(v8 a, v8 b) {
    GY_LANES_MAP(a.f[i] < b.f[i] ? a.f[i] : b.f[i]);
}
static inline v8 v8_abs(v8 a) {
    GY_LANES_MAP(gy_bits_f32(gy_f32_bits(a.f[i]) & 0x7FFFFFFF));
}
static inline v8 v8_sign(v8 a, v8 b) {
    GY_LANES_MAP(
        gy_bits_f32((gy_f32_bits(a.f[i]) & 0x7FFFFFFF) | (gy_f32_bits(b.f[i]) & 0x80000000)));
}
static inline v8 v8_round(v8 a) {
    GY_LANES_MAP(__builtin_rintf(a.f[i]));
}
static inline v8 v8_scale2(v8 a,
                           v8 n) { /* a NaN n adds nothing, as the instruction's 0x80000000 << 23 */
    GY_LANES_MAP(n.f[i] != n.f[i]
                     ? a.f[i]
                     : gy_bits_f32(gy_f32_bits(a.f[i]) + ((uint32_t)(int32_t)n.f[i] << 23)));
}
static inline v8 v8_lt(v8 a, v8 b) {
    GY_LANES_MAP(gy_bits_f32(a.f[i] < b.f[i] ? 0xFFFFFFFF : 0));
}
static inline v8 v8_ge(v8 a, v8 b) {
    GY_LANES_MAP(gy_bits_f32(a.f[i] >= b.f[i] ? 0xFFFFFFFF : 0));
}
static inline v8 v8_and(v8 a, v8 b) {
    GY_LANES_MAP(gy_bits_f32(gy_f32_bits(a.f[i]) & gy_f32_bits(b.f[i])));
}
static inline v8 v8_sel(v8 m, v8 a, v8 b) {
    GY_LANES_MAP(gy_f32_bits(m.f[i]) >> 31 ? a.f[i] : b.f[i]);
}
static inline int v8_count(v8 mask) {
    int n = 0;
    for (int i = 0; i < 8; i++) n += (int)(gy_f32_bits(mask.f[i]) >> 31);
    return n;
}
static inline float v8_top(v8 a) {
    const float *f = a.f;
    float t[4];
    for (int i = 0; i < 4; i++) t[i] = f[i] > f[i + 4] ? f[i] : f[i + 4];
    for (int i = 0; i < 2; i++) t[i] = t[i] > t[i + 2] ? t[i] : t[i + 2];
    return t[0] > t[1] ? t[0] : t[1];
}
static inline v8 v8_zip0(v8 a, v8 b) {
    GY_LANES_MAP(i & 1 ? b.f[i / 2] : a.f[i / 2]);
}
static inline v8 v8_zip1(v8 a, v8 b) {
    GY_LANES_MAP(i & 1 ? b.f[4 + i / 2] : a.f[4 + i / 2]);
}
static inline v8 v8_even(v8 a, v8 b) {
    GY_LANES_MAP(i < 4 ? a.f[2 * i] : b.f[2 * i - 8]);
}
static inline v8 v8_odd(v8 a, v8 b) {
    GY_LANES_MAP(i < 4 ? a.f[2 * i + 1] : b.f[2 * i - 7]);
}
static inline v8 v8_trees(const v8 a[8]) {
    GY_LANES_MAP(v8_tree(a[i]));
}
static inline void v8_store_f16(void *p, v8 a) {
    for (int i = 0; i < 8; i++) {
        uint16_t h = gy_f32_f16(a.f[i]);
        memcpy((char *)p + 2 * i, &h, 2);
    }
}
static inline void v8_store_bf16(void *p, v8 a) {
    for (int i = 0; i < 8; i++) {
        uint16_t h = gy_f32_bf16(a.f[i]);
        memcpy((char *)p + 2 * i, &h, 2);
    }
}
#undef GY_LANES_MAP
#endif

static inline float v16_tree(v8 low, v8 high) {
    return v8_tree(v8_add(low, high));
}

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
