/* codec/affine - MLX affine groups: value = f32(code * scale) + bias.
 *
 * Codes are a little-endian bit stream, eight of them in `bits` bytes (kv.md 2.1). Encoding follows
 * the CPU rule of kv.md 2.2.2; a value that is not finite is coded as 0, and a scale or bias past
 * the range of its type saturates. */
#include "codec/impl.h"

bool gy_affine_fits(gy_cparm c, int cols) {
    bool bits =
        c.bits == 2 || c.bits == 3 || c.bits == 4 || c.bits == 5 || c.bits == 6 || c.bits == 8;
    bool group = c.group == 32 || c.group == 64 || c.group == 128;
    return c.kind == GY_CODEC_AFFINE && bits && group && c.stype <= GY_CODEC_BF16 && cols > 0 &&
           cols % c.group == 0;
}

void gy_affine_bytes(gy_cparm c, int cols, size_t plane[3]) {
    plane[0] = (size_t)cols / 8 * c.bits;
    plane[1] = plane[2] = (size_t)(cols / c.group) * (c.stype == GY_CODEC_F32 ? 4 : 2);
}

/* Values of n codes (a multiple of 8) of one group; inlined with a constant width. */
static inline __attribute__((always_inline)) void spread(const uint8_t *p, int bits, int n, float s,
                                                         float z, float *x) {
    const uint64_t mask = (1u << bits) - 1;
    for (int i = 0; i < n; i += 8, p += bits) {
        uint64_t v = gy_load_bits8(p, bits);
        for (int k = 0; k < 8; k++) {
            float q = (float)(int)(v >> bits * k & mask);
            float qs = q * s;
            x[i + k] = qs + z;
        }
    }
}

void gy_affine_decode(const gy_rows *m, int row, float *x) {
    const uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row), *zp = gy_row_at(m, 2, row);
    int g = m->c.group, bits = m->c.bits, groups = m->cols / g;
    for (int j = 0; j < groups; j++, p += g / 8 * bits, x += g) {
        float s = gy_load_real(sp, (size_t)j, m->c.stype),
              z = gy_load_real(zp, (size_t)j, m->c.stype);
        switch (bits) {
        case 2: spread(p, 2, g, s, z, x); break;
        case 3: spread(p, 3, g, s, z, x); break;
        case 4: spread(p, 4, g, s, z, x); break;
        case 5: spread(p, 5, g, s, z, x); break;
        case 6: spread(p, 6, g, s, z, x); break;
        default: spread(p, 8, g, s, z, x); break;
        }
    }
}

/* Scale and bias of one group before they are rounded to the storage type. */
void gy_affine_grid(float lo, float hi, int bits, float *scale, float *bias) {
    float alo = lo < 0 ? -lo : lo, ahi = hi < 0 ? -hi : hi;
    bool neg = alo > ahi;
    float s = (hi - lo) / (float)((1 << bits) - 1);
    if (s > 3.402823466e38f) s = 3.402823466e38f; /* hi - lo passed the range: coarse, but finite */
    if (s < 1e-7f) s = 1e-7f;
    if (!neg) s = -s;
    float edge = neg ? lo : hi, q0 = gy_rint(edge / s);
    *scale = s, *bias = 0;
    if (q0 != 0) *scale = edge / q0, *bias = edge;
}

static void grid(const float *x, int n, int bits, float *scale, float *bias) {
    float lo = gy_or_zero(x[0]), hi = lo;
    for (int i = 1; i < n; i++) {
        float v = gy_or_zero(x[i]);
        if (v < lo) lo = v;
        if (v > hi) hi = v;
    }
    gy_affine_grid(lo, hi, bits, scale, bias);
}

void gy_affine_encode(const gy_rows *m, int row, const float *x) {
    uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row), *zp = gy_row_at(m, 2, row);
    int g = m->c.group, bits = m->c.bits, groups = m->cols / g, top = (1 << bits) - 1;
    for (int j = 0; j < groups; j++, x += g) {
        float s, z;
        grid(x, g, bits, &s, &z);
        gy_store_real(sp, (size_t)j, m->c.stype, s);
        gy_store_real(zp, (size_t)j, m->c.stype, z);
        for (int i = 0; i < g; i += 8, p += bits) {
            uint64_t v = 0;
            for (int k = 0; k < 8; k++) {
                float q = gy_rint((gy_or_zero(x[i + k]) - z) / s);
                int code = q > (float)top ? top : q > 0 ? (int)q : 0;
                v |= (uint64_t)code << bits * k;
            }
            memcpy(p, &v, (size_t)bits);
        }
    }
}
