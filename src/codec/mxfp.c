/* codec/mxfp - mxfp4, mxfp8 and nvfp4 in MLX layout: a plane of codes and a plane of scale bytes.
 *
 *     mxfp4  e2m1, 32 per e8m0 scale | mxfp8  e4m3, 32 per e8m0 scale | nvfp4  e2m1, 16 per e4m3
 * scale, f32 factor
 *
 * Decoding: f32(element * scale), times the factor for nvfp4 (kv.md 2.3.1). Encoding: the rule of
 * kv.md 2.3.2, where c.stype is the type in which quotients are rounded (the type the values had;
 * F32 for KV), with gyre's two changes: the exponent is clamped to -127..127 and fp4 ties go to the
 * even code. Values that are not finite are coded as 0. */
#include "codec/impl.h"

const float gy_e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                           -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
const int8_t gy_e2m1_twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float gy_e4m3_f32(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80) << 24, e = code >> 3 & 15, m = code & 7;
    if ((code & 0x7F) == 0x7F) return gy_bits_f32(sign | 0x7FC00000);
    if (e) return gy_bits_f32(sign | (e + 120) << 23 | m << 20);
    float x = (float)m * 0x1p-9f;
    return gy_bits_f32(sign | gy_f32_bits(x));
}

uint8_t gy_f32_e4m3(float x) {
    uint32_t u = gy_f32_bits(x), a = u & 0x7FFFFFFF;
    uint8_t sign = (uint8_t)(u >> 24 & 0x80);
    if (a >= 0x43E00000) return sign | 0x7E; /* 448 and more, infinity, NaN */
    if (a < 0x3C800000) {
        /* Below 2^-6, the smallest normal: a multiple of 2^-9. 8 here is the code of 2^-6 itself.
         */
        return (uint8_t)(sign | (uint8_t)gy_rint(gy_bits_f32(a) * 0x1p9f));
    }
    uint32_t r =
        (a + 0x7FFFF + (a >> 20 & 1)) >> 20; /* exponent and three bits, still biased by 127 */
    uint32_t code = r - (120 << 3);
    return (uint8_t)(sign | (code > 0x7E ? 0x7E : code));
}

float gy_e8m0_f32(uint8_t code) {
    return gy_bits_f32(code ? (uint32_t)code << 23 : 0x00400000);
}

static int group_of(gy_cparm c) {
    return c.kind == GY_CODEC_NVFP4 ? 16 : 32;
}

bool gy_mxfp_fits(gy_cparm c, int cols) {
    return c.kind >= GY_CODEC_MXFP4 && c.kind <= GY_CODEC_NVFP4 && c.stype <= GY_CODEC_BF16 &&
           cols > 0 && cols % group_of(c) == 0;
}

void gy_mxfp_bytes(gy_cparm c, int cols, size_t plane[3]) {
    plane[0] = (size_t)cols / (c.kind == GY_CODEC_MXFP8 ? 1 : 2);
    plane[1] = (size_t)(cols / group_of(c));
    plane[2] = 0;
}

void gy_mxfp_decode(const gy_rows *m, int row, float *x) {
    const uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row);
    int g = group_of(m->c), groups = m->cols / g;
    bool nv = m->c.kind == GY_CODEC_NVFP4;
    for (int j = 0; j < groups; j++, x += g) {
        float s = nv ? gy_e4m3_f32(sp[j]) : gy_e8m0_f32(sp[j]);
        if (m->c.kind == GY_CODEC_MXFP8) {
            for (int i = 0; i < g; i++) x[i] = gy_e4m3_f32(p[i]) * s;
            p += g;
        } else {
            for (int i = 0; i < g / 2; i++) {
                x[2 * i] = gy_e2m1[p[i] & 15] * s;
                x[2 * i + 1] = gy_e2m1[p[i] >> 4] * s;
            }
            p += g / 2;
        }
        if (nv && m->global != 1) {
            for (int i = 0; i < g; i++) x[i] *= m->global;
        }
    }
}

/* Nearest fp4 code of |x|, ties to the even code, with x's sign; what rounds to zero is code 0. */
static unsigned fp4(float x) {
    static const float mid[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    float a = x < 0 ? -x : x;
    unsigned code = 0;
    while (code < 7 && (a > mid[code] || (a == mid[code] && code % 2))) code++;
    return code && x < 0 ? code | 8 : code;
}

/* Smallest e with 2^e >= a, for a > 0 and finite; zero gives 0. */
static int ceil_log2(float a) {
    if (!(a > 0)) return 0;
    uint32_t u = gy_f32_bits(a);
    if (u < 0x00800000)
        return u > 0x00400000 ? -126 : -127; /* subnormal; below 2^-127 the exponent is clamped */
    int e = (int)(u >> 23) - 127;
    return u & 0x7FFFFF ? e + 1 : e;
}

static float largest(const float *x, int n) {
    float top = 0;
    for (int i = 0; i < n; i++) {
        float v = gy_or_zero(x[i]), a = v < 0 ? -v : v;
        if (a > top) top = a;
    }
    return top;
}

static float power_of_two(int e) { /* -127..127 */
    return gy_e8m0_f32((uint8_t)(e + 127));
}

/* Chooses a group's scale byte and gives what each value is divided by (0: every code is 0). */
static float choose_scale(const gy_rows *m, float top, uint8_t *byte) {
    uint8_t t = m->c.stype;
    float a = gy_round_real(top / (m->c.kind == GY_CODEC_MXFP8 ? 448.0f : 6.0f), t);
    if (m->c.kind == GY_CODEC_NVFP4) {
        *byte = gy_f32_e4m3(m->global == 1 ? a : a / m->global);
        return gy_round_real(gy_e4m3_f32(*byte), t);
    }
    int e = ceil_log2(a);
    e = e < -127 ? -127 : e > 127 ? 127 : e;
    *byte = (uint8_t)(e + 127);
    return power_of_two(e);
}

void gy_mxfp_encode(const gy_rows *m, int row, const float *x) {
    uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row);
    int g = group_of(m->c), groups = m->cols / g;
    bool nv = m->c.kind == GY_CODEC_NVFP4, wide = m->c.kind == GY_CODEC_MXFP8;
    for (int j = 0; j < groups; j++, x += g) {
        float s = choose_scale(m, largest(x, g), &sp[j]);
        for (int i = 0; i < g; i++) {
            float v = s > 0 ? gy_round_real(gy_or_zero(x[i]) / s, m->c.stype) : 0;
            if (nv && m->global != 1) v /= m->global;
            if (wide) {
                p[i] = gy_f32_e4m3(v);
            } else if (i % 2) {
                p[i / 2] |= (uint8_t)(fp4(v) << 4);
            } else {
                p[i / 2] = (uint8_t)fp4(v);
            }
        }
        p += wide ? g : g / 2;
    }
}
