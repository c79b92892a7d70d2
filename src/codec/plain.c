/* codec/plain - f32, f16 and bf16 rows: one plane of values. */
#include "codec/impl.h"

void gy_store_real(uint8_t *p, size_t i, uint8_t type, float x) {
    if (type == GY_CODEC_F32) {
        memcpy(p + 4 * i, &x, 4);
        return;
    }
    uint16_t h;
    if (type == GY_CODEC_F16) {
        h = gy_f32_f16(x);
        if ((h & 0x7FFF) == 0x7C00) h = (uint16_t)((h & 0x8000) | 0x7BFF);
    } else {
        h = gy_f32_bf16(x);
    }
    memcpy(p + 2 * i, &h, 2);
}

bool gy_plain_fits(gy_cparm c, int cols) {
    return c.kind <= GY_CODEC_BF16 && cols > 0;
}

void gy_plain_bytes(gy_cparm c, int cols, size_t plane[3]) {
    plane[0] = (size_t)cols * (c.kind == GY_CODEC_F32 ? 4 : 2);
    plane[1] = plane[2] = 0;
}

void gy_plain_encode(const gy_rows *m, int row, const float *x) {
    uint8_t *p = gy_row_at(m, 0, row);
    if (m->c.kind == GY_CODEC_F32) {
        memcpy(p, x, (size_t)m->cols * 4);
        return;
    }
    for (int i = 0; i < m->cols; i++) gy_store_real(p, (size_t)i, m->c.kind, x[i]);
}

/* f16 to f32 without branches: the exponent is rebased by one exact product, which also normalises
 * subnormals; an infinity or NaN comes out past 2^16 and gets the full exponent. */
static inline float half(uint16_t h) {
    float x = gy_bits_f32((uint32_t)(h & 0x7FFF) << 13) * 0x1p112f;
    uint32_t u = gy_f32_bits(x), top = u >= 0x47800000 ? 0x7F800000 : 0;
    return gy_bits_f32(u | top | (uint32_t)(h & 0x8000) << 16);
}

/* Blocks of a fixed length, which compilers turn into vectors, and the rest one by one. */
enum { BLOCK = 32 };

static void decode_f16(const uint8_t *p, size_t n, float *x) {
    uint16_t h[BLOCK];
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        memcpy(h, p + 2 * i, sizeof h);
        for (int k = 0; k < BLOCK; k++) x[i + (size_t)k] = half(h[k]);
    }
    for (; i < n; i++) x[i] = half(gy_load_u16(p + 2 * i));
}

static void decode_bf16(const uint8_t *p, size_t n, float *x) {
    uint16_t h[BLOCK];
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        memcpy(h, p + 2 * i, sizeof h);
        for (int k = 0; k < BLOCK; k++) x[i + (size_t)k] = gy_bf16_f32(h[k]);
    }
    for (; i < n; i++) x[i] = gy_bf16_f32(gy_load_u16(p + 2 * i));
}

void gy_plain_decode(const gy_rows *m, int row, float *x) {
    const uint8_t *p = gy_row_at(m, 0, row);
    size_t n = (size_t)m->cols;
    switch (m->c.kind) {
    case GY_CODEC_F32: memcpy(x, p, n * 4); break;
    case GY_CODEC_F16: decode_f16(p, n, x); break;
    default: decode_bf16(p, n, x);
    }
}
