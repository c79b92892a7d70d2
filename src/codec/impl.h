/* codec/impl - what the codec files share: the functions behind the table gy_codecs, small tables,
 * bit streams.
 *
 * Included only by the files of codec. Thread: constant functions. */
#ifndef GY_CODEC_IMPL_H
#define GY_CODEC_IMPL_H

#include "base/num.h"
#include "codec/codec.h"
#include "codec/grid.h"

static inline uint8_t *gy_row_at(const gy_rows *m, int plane, int row) {
    return (uint8_t *)m->plane[plane] + (ptrdiff_t)row * m->step[plane];
}

/* A float of type F32, F16 or BF16 at index i of unaligned p. */
static inline float gy_load_real(const uint8_t *p, size_t i, uint8_t type) {
    if (type == GY_CODEC_F32) return gy_bits_f32(gy_load_u32(p + 4 * i));
    uint16_t h = gy_load_u16(p + 2 * i);
    return type == GY_CODEC_F16 ? gy_f16_f32(h) : gy_bf16_f32(h);
}

/* x rounded to a type and back; not saturating. */
static inline float gy_round_real(float x, uint8_t type) {
    if (type == GY_CODEC_F16) return gy_f16_f32(gy_f32_f16(x));
    return type == GY_CODEC_BF16 ? gy_bf16_f32(gy_f32_bf16(x)) : x;
}

/* Nearest integer, ties to even. Adding 2^23 leaves no fraction bits; larger values have none. */
static inline float gy_rint(float x) {
    float a = x < 0 ? -x : x;
    if (!(a < 0x1p23f)) return x;
    float t = (a + 0x1p23f) - 0x1p23f;
    return x < 0 ? -t : t;
}

/* x, or 0 where x is infinite or NaN: what a quantising encoder does with such a value. */
static inline float gy_or_zero(float x) {
    return (gy_f32_bits(x) & 0x7F800000) == 0x7F800000 ? 0 : x;
}

/* Eight codes of `bits` each from bits bytes, lowest bits first: MLX packing (kv.md 2.1). */
static inline uint64_t gy_load_bits8(const uint8_t *p, int bits) {
    uint64_t v = 0;
    memcpy(&v, p, (size_t)bits);
    return v;
}

/* Scale and minimum of sub-block i (0..7) of Q4_K and Q5_K from their 12 bytes. */
static inline void gy_k4_scale(const uint8_t *s, int i, int *sc, int *mn) {
    if (i < 4) {
        *sc = s[i] & 63, *mn = s[i + 4] & 63;
    } else {
        *sc = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
        *mn = (s[i + 4] >> 4) | (s[i] >> 6) << 4;
    }
}

/* Scale of sub-block i (0..15) of Q3_K from its 12 bytes, 32 already taken off: -32..31. */
static inline int gy_k3_scale(const uint8_t *s, int i) {
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    return (low | (s[8 + (i & 3)] >> 2 * (i >> 2) & 3) << 4) - 32;
}

extern const float gy_e2m1[16];        /* values of fp4 codes; code 8 is -0 */
extern const int8_t gy_e2m1_twice[16]; /* twice the value, code 8 is 0: the GGUF form */
extern const int8_t gy_iq4[16];        /* IQ4_NL's table */
float gy_e4m3_f32(uint8_t code);       /* 0x7F and 0xFF are NaN */
uint8_t gy_f32_e4m3(
    float x); /* nearest even; |x| >= 448, infinities and NaN give 0x7E with x's sign */
float gy_e8m0_f32(uint8_t code); /* 2^(code - 127); 255 gives infinity */

/* The rows of the table, one set per file. */
bool gy_plain_fits(gy_cparm c, int cols);
void gy_plain_bytes(gy_cparm c, int cols, size_t plane[3]);
void gy_plain_encode(const gy_rows *m, int row, const float *x);
void gy_plain_decode(const gy_rows *m, int row, float *x);

bool gy_affine_fits(gy_cparm c, int cols);
void gy_affine_bytes(gy_cparm c, int cols, size_t plane[3]);
void gy_affine_encode(const gy_rows *m, int row, const float *x);
void gy_affine_decode(const gy_rows *m, int row, float *x);

bool gy_mxfp_fits(gy_cparm c, int cols);
void gy_mxfp_bytes(gy_cparm c, int cols, size_t plane[3]);
void gy_mxfp_encode(const gy_rows *m, int row, const float *x);
void gy_mxfp_decode(const gy_rows *m, int row, float *x);

bool gy_block_fits(gy_cparm c, int cols);
void gy_block_bytes(gy_cparm c, int cols, size_t plane[3]);
void gy_block_decode(const gy_rows *m, int row, float *x);

bool gy_turbo_k_fits(gy_cparm c, int cols);
void gy_turbo_k_bytes(gy_cparm c, int cols, size_t plane[3]);
void gy_turbo_k_encode(const gy_rows *m, int row, const float *x);
void gy_turbo_k_decode(const gy_rows *m, int row, float *x);
bool gy_turbo_v_fits(gy_cparm c, int cols);
void gy_turbo_v_bytes(gy_cparm c, int cols, size_t plane[3]);
void gy_turbo_v_encode(const gy_rows *m, int row, const float *x);
void gy_turbo_v_decode(const gy_rows *m, int row, float *x);
void gy_turbo_v_turn(gy_cparm c, float *x, int n, bool back);

#endif
