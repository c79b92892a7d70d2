/* codec/int - the integer form of rows: value = s * code + z, for `fast` arithmetic.
 *
 * Every f32 operation on s and z is written out here and is part of GY_BITS. Which coding of the
 * same values is chosen decides which conversions give equal bits (stated in cpu/linear.h):
 *
 *     affine 2 to 6   code 0..2^bits-1    s = scale             z = bias
 *     affine 8        code - 128          s = scale             z = bias + 128 scale
 *     Q4_1 Q5_1       unsigned code       s = d                 z = m
 *     Q4_0 Q5_0       unsigned code       s = d                 z = -8 d, -16 d
 *     Q8_0            signed code         s = d
 *     Q4_K Q5_K       unsigned code       s = d sc              z = -(dmin mn)
 *     Q2_K            unsigned code       s = d sc              z = -(dmin mn)     halves
 *     Q3_K Q6_K       code - 4 or -32     s = d sc                                 halves
 *     mxfp4           twice the element   s = half the scale
 *     nvfp4           twice the element   s = half the scale, times the factor     halves
 *     IQ4_NL          the table's value   s = d
 */
#include "codec/impl.h"

gy_intkind gy_codec_intkind(gy_cparm c) {
    gy_intkind k = {.has = true};
    switch (c.kind) {
    case GY_CODEC_AFFINE:
    case GY_CODEC_Q4_0:
    case GY_CODEC_Q4_1:
    case GY_CODEC_Q5_0:
    case GY_CODEC_Q5_1:
    case GY_CODEC_Q4_K:
    case GY_CODEC_Q5_K: k.offset = true; break;
    case GY_CODEC_Q2_K: k.offset = k.sub16 = true; break;
    case GY_CODEC_NVFP4:
    case GY_CODEC_Q3_K:
    case GY_CODEC_Q6_K: k.sub16 = true; break;
    case GY_CODEC_MXFP4:
    case GY_CODEC_MXFP4_GGUF:
    case GY_CODEC_Q8_0:
    case GY_CODEC_IQ4_NL: break;
    default: k.has = false;
    }
    return k;
}

static inline float half(const uint8_t *p) {
    return gy_f16_f32(gy_load_u16(p));
}

static void both(gy_intform o, int j, float s, float z) {
    o.s[2 * j] = o.s[2 * j + 1] = s;
    o.z[2 * j] = o.z[2 * j + 1] = z;
}

static void affine(const gy_rows *m, int row, int chunk0, int chunks, gy_intform o) {
    int bits = m->c.bits, g = m->c.group, flip = bits == 8 ? 128 : 0;
    const uint8_t *p = gy_row_at(m, 0, row) + (size_t)chunk0 * 4 * (size_t)bits;
    const uint8_t *sp = gy_row_at(m, 1, row), *zp = gy_row_at(m, 2, row);
    uint64_t mask = (1u << bits) - 1;
    for (int j = 0; j < chunks; j++) {
        size_t group = (size_t)(chunk0 + j) * 32 / (size_t)g;
        float s = gy_load_real(sp, group, m->c.stype), z = gy_load_real(zp, group, m->c.stype);
        if (flip) {
            float shift = 128.0f * s;
            z = z + shift;
        }
        both(o, j, s, z);
        for (int i = 0; i < 32; i += 8, p += bits) {
            uint64_t v = gy_load_bits8(p, bits);
            for (int k = 0; k < 8; k++)
                o.code[32 * j + i + k] = (int8_t)((int)(v >> bits * k & mask) - flip);
        }
    }
}

static void mxfp4(const gy_rows *m, int row, int chunk0, int chunks, gy_intform o) {
    const uint8_t *p = gy_row_at(m, 0, row) + (size_t)chunk0 * 16, *sp = gy_row_at(m, 1, row);
    bool nv = m->c.kind == GY_CODEC_NVFP4;
    for (int j = 0; j < chunks; j++, p += 16) {
        size_t at = (size_t)(chunk0 + j);
        if (nv) {
            for (size_t h = 0; h < 2; h++) {
                float s = 0.5f * gy_e4m3_f32(sp[2 * at + h]);
                o.s[2 * j + (int)h] = s * m->global;
                o.z[2 * j + (int)h] = 0;
            }
        } else {
            both(o, j, 0.5f * gy_e8m0_f32(sp[at]), 0);
        }
        for (int i = 0; i < 16; i++) {
            o.code[32 * j + 2 * i] = gy_e2m1_twice[p[i] & 15];
            o.code[32 * j + 2 * i + 1] = gy_e2m1_twice[p[i] >> 4];
        }
    }
}

/* ---- GGUF blocks of 32: one chunk each ---- */

/* Low nibbles first, high nibbles second. */
static void nibbles(const uint8_t *q, int8_t *code) {
    for (int i = 0; i < 16; i++) code[i] = (int8_t)(q[i] & 15), code[i + 16] = (int8_t)(q[i] >> 4);
}

static void fifth_bit(uint32_t qh, int8_t *code) {
    for (int i = 0; i < 32; i++) code[i] = (int8_t)(code[i] | (qh >> i & 1) << 4);
}

static void block32(uint8_t kind, const uint8_t *b, int j, gy_intform o) {
    int8_t *code = o.code + 32 * j;
    float d = half(b);
    switch (kind) {
    case GY_CODEC_Q4_0: nibbles(b + 2, code), both(o, j, d, -8.0f * d); break;
    case GY_CODEC_Q4_1: nibbles(b + 4, code), both(o, j, d, half(b + 2)); break;
    case GY_CODEC_Q5_0:
        nibbles(b + 6, code), fifth_bit(gy_load_u32(b + 2), code), both(o, j, d, -16.0f * d);
        break;
    case GY_CODEC_Q5_1:
        nibbles(b + 8, code), fifth_bit(gy_load_u32(b + 4), code), both(o, j, d, half(b + 2));
        break;
    case GY_CODEC_Q8_0: memcpy(code, b + 2, 32), both(o, j, d, 0); break;
    case GY_CODEC_IQ4_NL:
        nibbles(b + 2, code), both(o, j, d, 0);
        for (int i = 0; i < 32; i++) code[i] = gy_iq4[code[i]];
        break;
    default: /* MXFP4_GGUF */
        nibbles(b + 1, code);
        for (int i = 0; i < 32; i++) code[i] = gy_e2m1_twice[code[i]];
        both(o, j,
             b[0] < 2 ? gy_bits_f32(0x00200000u << b[0]) : gy_bits_f32((uint32_t)(b[0] - 1) << 23),
             0);
    }
}

/* ---- GGUF blocks of 256: chunk i (0..7) of one ---- */

static void q2_k(const uint8_t *b, int i, int j, gy_intform o) {
    float d = half(b + 80), dmin = half(b + 82);
    for (int h = 0; h < 2; h++) {
        int sc = b[2 * i + h] & 15, mn = b[2 * i + h] >> 4;
        o.s[2 * j + h] = d * (float)sc;
        o.z[2 * j + h] = -(dmin * (float)mn);
    }
    const uint8_t *q = b + 16 + 32 * (i / 4);
    for (int l = 0; l < 32; l++) o.code[32 * j + l] = (int8_t)(q[l] >> 2 * (i % 4) & 3);
}

static void q3_k(const uint8_t *b, int i, int j, gy_intform o) {
    float d = half(b + 108);
    for (int h = 0; h < 2; h++) {
        o.s[2 * j + h] = d * (float)gy_k3_scale(b + 96, 2 * i + h);
        o.z[2 * j + h] = 0;
    }
    const uint8_t *q = b + 32 + 32 * (i / 4);
    for (int l = 0; l < 32; l++) {
        int code = (q[l] >> 2 * (i % 4) & 3) | (b[l] >> i & 1) << 2;
        o.code[32 * j + l] = (int8_t)(code - 4);
    }
}

static void q45_k(uint8_t kind, const uint8_t *b, int i, int j, gy_intform o) {
    float d = half(b), dmin = half(b + 2);
    int sc, mn;
    gy_k4_scale(b + 4, i, &sc, &mn);
    both(o, j, d * (float)sc, -(dmin * (float)mn));
    const uint8_t *q = b + (kind == GY_CODEC_Q5_K ? 48 : 16) + 32 * (i / 2), *h = b + 16;
    for (int l = 0; l < 32; l++) o.code[32 * j + l] = (int8_t)(q[l] >> 4 * (i % 2) & 15);
    if (kind == GY_CODEC_Q5_K) {
        for (int l = 0; l < 32; l++)
            o.code[32 * j + l] = (int8_t)(o.code[32 * j + l] | (h[l] >> i & 1) << 4);
    }
}

static void q6_k(const uint8_t *b, int i, int j, gy_intform o) {
    const int8_t *sc = (const int8_t *)(b + 192);
    float d = half(b + 208);
    for (int h = 0; h < 2; h++) o.s[2 * j + h] = d * (float)sc[2 * i + h], o.z[2 * j + h] = 0;
    const uint8_t *l4 = b + 64 * (i / 4) + 32 * (i % 2), *h2 = b + 128 + 32 * (i / 4);
    for (int l = 0; l < 32; l++) {
        int code = (l4[l] >> 4 * (i % 4 / 2) & 15) | (h2[l] >> 2 * (i % 4) & 3) << 4;
        o.code[32 * j + l] = (int8_t)(code - 32);
    }
}

static void block256(uint8_t kind, const uint8_t *b, int i, int j, gy_intform o) {
    switch (kind) {
    case GY_CODEC_Q2_K: q2_k(b, i, j, o); break;
    case GY_CODEC_Q3_K: q3_k(b, i, j, o); break;
    case GY_CODEC_Q6_K: q6_k(b, i, j, o); break;
    default: q45_k(kind, b, i, j, o);
    }
}

void gy_codec_int(const gy_rows *m, int row, int chunk0, int chunks, gy_intform out) {
    uint8_t kind = m->c.kind;
    if (kind == GY_CODEC_AFFINE) {
        affine(m, row, chunk0, chunks, out);
        return;
    }
    if (kind == GY_CODEC_MXFP4 || kind == GY_CODEC_NVFP4) {
        mxfp4(m, row, chunk0, chunks, out);
        return;
    }
    bool big = gy_codecs[kind].block == 256;
    size_t plane[3];
    gy_codecs[kind].bytes(m->c, big ? 256 : 32, plane);
    const uint8_t *p = gy_row_at(m, 0, row);
    for (int j = 0; j < chunks; j++) {
        size_t at = (size_t)(chunk0 + j);
        if (big) {
            block256(kind, p + at / 8 * plane[0], (int)(at % 8), j, out);
        } else {
            block32(kind, p + at * plane[0], j, out);
        }
    }
}
