/* cpu/lanes_neon - the v8 of lanes.h in NEON: two vectors of four lanes. Included by lanes.h.
 *
 * The larger and the smaller of two lanes are a comparison and a choice, for the instructions that
 * are called maximum and minimum differ in NaN and in the sign of zero. */
#ifndef GY_CPU_LANES_NEON_H
#define GY_CPU_LANES_NEON_H

#include <arm_neon.h>

typedef struct {
    float32x4_t l, h; /* lanes 0..3, 4..7 */
} v8;
#define GY_LANES_BOTH(f, ...)                                                                      \
    (v8) {                                                                                         \
        f(l, __VA_ARGS__), f(h, __VA_ARGS__)                                                       \
    }
#define GY_LANES_ONE(half, op, a)     op(a.half)
#define GY_LANES_TWO(half, op, a, b)  op(a.half, b.half)
#define GY_LANES_MASK(half, op, a, b) vreinterpretq_f32_u32(op(a.half, b.half))

static inline uint32x4_t v4_bits(float32x4_t a) {
    return vreinterpretq_u32_f32(a);
}
static inline float32x4_t v4_from(uint32x4_t a) {
    return vreinterpretq_f32_u32(a);
}
static inline v8 v8_load(const float *p) {
    return (v8){vld1q_f32(p), vld1q_f32(p + 4)};
}
static inline void v8_store(float *p, v8 a) {
    vst1q_f32(p, a.l), vst1q_f32(p + 4, a.h);
}
static inline v8 v8_set1(float x) {
    return (v8){vdupq_n_f32(x), vdupq_n_f32(x)};
}
static inline v8 v8_zero(void) {
    return v8_set1(0);
}
static inline v8 v8_add(v8 a, v8 b) {
    return GY_LANES_BOTH(GY_LANES_TWO, vaddq_f32, a, b);
}
static inline v8 v8_sub(v8 a, v8 b) {
    return GY_LANES_BOTH(GY_LANES_TWO, vsubq_f32, a, b);
}
static inline v8 v8_mul(v8 a, v8 b) {
    return GY_LANES_BOTH(GY_LANES_TWO, vmulq_f32, a, b);
}
static inline v8 v8_div(v8 a, v8 b) {
    return GY_LANES_BOTH(GY_LANES_TWO, vdivq_f32, a, b);
}
static inline v8 v8_fma(v8 a, v8 b, v8 c) {
    return (v8){vfmaq_f32(c.l, a.l, b.l), vfmaq_f32(c.h, a.h, b.h)};
} /* a * b + c */
static inline float v8_tree(v8 a) {
    float32x4_t t = vpaddq_f32(a.l, a.h); /* 0+1 2+3 4+5 6+7 */
    t = vpaddq_f32(t, t);
    return vgetq_lane_f32(t, 0) + vgetq_lane_f32(t, 1);
}
static inline v8 v8_load_bf16(const void *p) { /* 8 values */
    uint16x8_t b = vreinterpretq_u16_u8(vld1q_u8(p));
    return (v8){v4_from(vshll_n_u16(vget_low_u16(b), 16)), v4_from(vshll_high_n_u16(b, 16))};
}
static inline v8 v8_load_f16(const void *p) {
    float16x8_t b = vreinterpretq_f16_u8(vld1q_u8(p));
    return (v8){vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b)};
}
static inline v8 v8_load_u8(const void *p) { /* 8 bytes as floats */
    uint16x8_t b = vmovl_u8(vld1_u8(p));
    return (v8){vcvtq_f32_u32(vmovl_u16(vget_low_u16(b))), vcvtq_f32_u32(vmovl_high_u16(b))};
}
static inline v8 v8_load_s8(const void *p) {
    int16x8_t b = vmovl_s8(vld1_s8(p));
    return (v8){vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), vcvtq_f32_s32(vmovl_high_s16(b))};
}
/* Eight fields of w from bit `first` on, `bits` apart. A shift by a negative count goes right. */
static inline uint32x4_t v4_fields(uint32_t w, int first, int bits) {
    const int32x4_t iota = {0, 1, 2, 3};
    int32x4_t by = vmlaq_n_s32(vdupq_n_s32(-first), iota, -bits);
    return vandq_u32(vshlq_u32(vdupq_n_u32(w), by), vdupq_n_u32((1u << bits) - 1));
}
/* Entries of a table by eight codes of 3 bits: the first eight of the sixteen at p, or the second
 * ones. Four bytes are read, and they lie within the six of the sixteen. */
static inline v8 v8_load_u3(const void *p, bool second, const float *table) {
    const uint32_t w = gy_load_u32((const char *)p + (second ? 2 : 0)) >> (second ? 8 : 0);
    const uint8x16x2_t t = {
        {vld1q_u8((const uint8_t *)table), vld1q_u8((const uint8_t *)table + 16)}};
    uint32x4_t a[2] = {v4_fields(w, 0, 3), v4_fields(w, 12, 3)};
    for (int i = 0; i < 2; i++) { /* code c: bytes 4 c .. 4 c + 3 of the table */
        a[i] = vmlaq_n_u32(vdupq_n_u32(0x03020100), a[i], 0x04040404);
        a[i] = vreinterpretq_u32_u8(vqtbl2q_u8(t, vreinterpretq_u8_u32(a[i])));
    }
    return (v8){v4_from(a[0]), v4_from(a[1])};
}
static inline v8 v8_load_u4(const void *p) { /* 4 bytes, lowest bits first */
    uint32_t w = gy_load_u32(p);
    return (v8){vcvtq_f32_u32(v4_fields(w, 0, 4)), vcvtq_f32_u32(v4_fields(w, 16, 4))};
}
static inline v8 v8_max(v8 a, v8 b) {
    return (v8){vbslq_f32(vcgtq_f32(a.l, b.l), a.l, b.l), vbslq_f32(vcgtq_f32(a.h, b.h), a.h, b.h)};
} /* a > b ? a : b */
static inline v8 v8_min(v8 a, v8 b) {
    return (v8){vbslq_f32(vcltq_f32(a.l, b.l), a.l, b.l), vbslq_f32(vcltq_f32(a.h, b.h), a.h, b.h)};
} /* a < b ? a : b */
static inline v8 v8_abs(v8 a) {
    return GY_LANES_BOTH(GY_LANES_ONE, vabsq_f32, a);
}
static inline v8 v8_sign(v8 a, v8 b) { /* |a| with the sign of b */
    const uint32x4_t sign = vdupq_n_u32(0x80000000);
    return (v8){vbslq_f32(sign, b.l, a.l), vbslq_f32(sign, b.h, a.h)};
}
static inline v8 v8_round(v8 a) { /* to the nearest integer, ties to even */
    return GY_LANES_BOTH(GY_LANES_ONE, vrndnq_f32, a);
}
static inline float32x4_t v4_scale2(float32x4_t a, float32x4_t n) { /* a NaN n becomes 0 */
    return v4_from(vaddq_u32(v4_bits(a), vreinterpretq_u32_s32(vshlq_n_s32(vcvtq_s32_f32(n), 23))));
}
static inline v8 v8_scale2(v8 a, v8 n) { /* a 2^n for whole n where a and the result are normal */
    return GY_LANES_BOTH(GY_LANES_TWO, v4_scale2, a, n);
}
static inline v8 v8_lt(v8 a, v8 b) {
    return GY_LANES_BOTH(GY_LANES_MASK, vcltq_f32, a, b);
} /* a mask */
static inline v8 v8_ge(v8 a, v8 b) {
    return GY_LANES_BOTH(GY_LANES_MASK, vcgeq_f32, a, b);
}
static inline v8 v8_and(v8 a, v8 b) {
    return (v8){v4_from(vandq_u32(v4_bits(a.l), v4_bits(b.l))),
                v4_from(vandq_u32(v4_bits(a.h), v4_bits(b.h)))};
}
static inline v8 v8_sel(v8 mask, v8 a, v8 b) {
    return (v8){vbslq_f32(v4_bits(mask.l), a.l, b.l), vbslq_f32(v4_bits(mask.h), a.h, b.h)};
}
static inline int v8_count(v8 mask) {
    return (int)vaddvq_u32(
        vaddq_u32(vshrq_n_u32(v4_bits(mask.l), 31), vshrq_n_u32(v4_bits(mask.h), 31)));
}
static inline float v8_top(v8 a) { /* the largest lane */
    float32x4_t t = vbslq_f32(vcgtq_f32(a.l, a.h), a.l, a.h), u = vextq_f32(t, t, 2);
    t = vbslq_f32(vcgtq_f32(t, u), t, u);
    float x = vgetq_lane_f32(t, 0), y = vgetq_lane_f32(t, 1);
    return x > y ? x : y;
}
/* a0 b0 a1 b1 ..: the lower (zip0) and upper (zip1) half; and back. */
static inline v8 v8_zip0(v8 a, v8 b) {
    return (v8){vzip1q_f32(a.l, b.l), vzip2q_f32(a.l, b.l)};
}
static inline v8 v8_zip1(v8 a, v8 b) {
    return (v8){vzip1q_f32(a.h, b.h), vzip2q_f32(a.h, b.h)};
}
static inline v8 v8_even(v8 a, v8 b) {
    return (v8){vuzp1q_f32(a.l, a.h), vuzp1q_f32(b.l, b.h)};
}
static inline v8 v8_odd(v8 a, v8 b) {
    return (v8){vuzp2q_f32(a.l, a.h), vuzp2q_f32(b.l, b.h)};
}
static inline v8 v8_trees(const v8 a[8]) { /* lane i: v8_tree(a[i]) */
    float32x4_t t[8];
    for (int i = 0; i < 8; i++) t[i] = vpaddq_f32(a[i].l, a[i].h);
    for (int i = 0; i < 4; i++) t[i] = vpaddq_f32(t[2 * i], t[2 * i + 1]);
    return (v8){vpaddq_f32(t[0], t[1]), vpaddq_f32(t[2], t[3])};
}
static inline void v8_store_f16(void *p, v8 a) { /* a NaN keeps its sign and no payload */
    const v8 nan = v8_sign(v8_set1(NAN), a);
    a.l = vbslq_f32(vceqq_f32(a.l, a.l), a.l, nan.l);
    a.h = vbslq_f32(vceqq_f32(a.h, a.h), a.h, nan.h);
    vst1q_u8(p, vreinterpretq_u8_f16(vcvt_high_f16_f32(vcvt_f16_f32(a.l), a.h)));
}
static inline uint32x4_t v4_bf16(float32x4_t a) {
    uint32x4_t u = v4_bits(a), high = vshrq_n_u32(u, 16);
    uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
    uint32x4_t r = vshrq_n_u32(vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7FFF)), odd), 16);
    return vbslq_u32(vceqq_f32(a, a), r, vorrq_u32(high, vdupq_n_u32(0x40)));
}
static inline void v8_store_bf16(void *p, v8 a) {
    vst1q_u8(p, vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(v4_bf16(a.l)), v4_bf16(a.h))));
}
#undef GY_LANES_BOTH
#undef GY_LANES_ONE
#undef GY_LANES_TWO
#undef GY_LANES_MASK

#endif
