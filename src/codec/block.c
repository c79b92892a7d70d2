/* codec/block - GGUF blocks: one plane of blocks of 32 or 256 values, as laid out in kv.md 2.6.
 *
 * Every value is made by the f32 operations written here, each rounded once, in this order; the
 * tables of kv.md name the same order. Read-only: gyre does not write GGUF. */
#include "codec/impl.h"

const int8_t gy_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                           1,    13,   25,  38,  53,  69,  89,  113};

static inline float half(const uint8_t *p) {
    return gy_f16_f32(gy_load_u16(p));
}

static void q4_0(const uint8_t *b, float *x) {
    float d = half(b);
    for (int j = 0; j < 16; j++) {
        x[j] = d * (float)((b[2 + j] & 15) - 8);
        x[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}

static void q4_1(const uint8_t *b, float *x) {
    float d = half(b), m = half(b + 2);
    for (int j = 0; j < 16; j++) {
        x[j] = d * (float)(b[4 + j] & 15) + m;
        x[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}

static void q5_0(const uint8_t *b, float *x) {
    float d = half(b);
    uint32_t qh = gy_load_u32(b + 2);
    for (int j = 0; j < 16; j++) {
        int lo = (b[6 + j] & 15) | (qh >> j & 1) << 4, hi = b[6 + j] >> 4 | (qh >> (j + 16) & 1)
                                                                                << 4;
        x[j] = d * (float)(lo - 16);
        x[j + 16] = d * (float)(hi - 16);
    }
}

static void q5_1(const uint8_t *b, float *x) {
    float d = half(b), m = half(b + 2);
    uint32_t qh = gy_load_u32(b + 4);
    for (int j = 0; j < 16; j++) {
        int lo = (b[8 + j] & 15) | (qh >> j & 1) << 4, hi = b[8 + j] >> 4 | (qh >> (j + 16) & 1)
                                                                                << 4;
        x[j] = d * (float)lo + m;
        x[j + 16] = d * (float)hi + m;
    }
}

static void q8_0(const uint8_t *b, float *x) {
    float d = half(b);
    for (int j = 0; j < 32; j++) x[j] = d * (float)(int8_t)b[2 + j];
}

static void iq4_nl(const uint8_t *b, float *x) {
    float d = half(b);
    for (int j = 0; j < 16; j++) {
        x[j] = d * (float)gy_iq4[b[2 + j] & 15];
        x[j + 16] = d * (float)gy_iq4[b[2 + j] >> 4];
    }
}

/* Half the scale times twice the element: finite where the scale itself, 2^128, would not be. */
static void mxfp4(const uint8_t *b, float *x) {
    float d = b[0] < 2 ? gy_bits_f32(0x00200000u << b[0]) : gy_bits_f32((uint32_t)(b[0] - 1) << 23);
    for (int j = 0; j < 16; j++) {
        x[j] = d * (float)gy_e2m1_twice[b[1 + j] & 15];
        x[j + 16] = d * (float)gy_e2m1_twice[b[1 + j] >> 4];
    }
}

static void q2_k(const uint8_t *b, float *x) {
    const uint8_t *qs = b + 16;
    float d = half(b + 80), dmin = half(b + 82);
    for (int i = 0; i < 16; i++) { /* sub-block i: half i / 8, bits of i / 2 % 4, bytes of i % 2 */
        float ds = d * (float)(b[i] & 15), ms = dmin * (float)(b[i] >> 4);
        const uint8_t *q = qs + 32 * (i / 8) + 16 * (i % 2);
        for (int l = 0; l < 16; l++) x[16 * i + l] = ds * (float)(q[l] >> 2 * (i / 2 % 4) & 3) - ms;
    }
}

static void q3_k(const uint8_t *b, float *x) {
    const uint8_t *hm = b, *qs = b + 32, *sc = b + 96;
    float d = half(b + 108);
    for (int i = 0; i < 16; i++) {
        float ds = d * (float)gy_k3_scale(sc, i);
        const uint8_t *q = qs + 32 * (i / 8) + 16 * (i % 2), *h = hm + 16 * (i % 2);
        for (int l = 0; l < 16; l++) {
            int code = q[l] >> 2 * (i / 2 % 4) & 3;
            if (!(h[l] >> i / 2 & 1)) code -= 4;
            x[16 * i + l] = ds * (float)code;
        }
    }
}

static void q4_k(const uint8_t *b, float *x) {
    float d = half(b), dmin = half(b + 2);
    for (int i = 0; i < 8; i++) {
        int sc, mn;
        gy_k4_scale(b + 4, i, &sc, &mn);
        float ds = d * (float)sc, ms = dmin * (float)mn;
        const uint8_t *q = b + 16 + 32 * (i / 2);
        for (int l = 0; l < 32; l++) x[32 * i + l] = ds * (float)(q[l] >> 4 * (i % 2) & 15) - ms;
    }
}

static void q5_k(const uint8_t *b, float *x) {
    float d = half(b), dmin = half(b + 2);
    for (int i = 0; i < 8; i++) {
        int sc, mn;
        gy_k4_scale(b + 4, i, &sc, &mn);
        float ds = d * (float)sc, ms = dmin * (float)mn;
        const uint8_t *q = b + 48 + 32 * (i / 2), *h = b + 16;
        for (int l = 0; l < 32; l++) {
            int code = (q[l] >> 4 * (i % 2) & 15) | (h[l] >> i & 1) << 4;
            x[32 * i + l] = ds * (float)code - ms;
        }
    }
}

static void q6_k(const uint8_t *b, float *x) {
    const int8_t *sc = (const int8_t *)(b + 192);
    float d = half(b + 208);
    for (int i = 0; i < 8; i++) { /* 32 values: half i / 4, quarter i % 4 of it */
        const uint8_t *l4 = b + 64 * (i / 4) + 32 * (i % 2), *h2 = b + 128 + 32 * (i / 4);
        float d0 = d * (float)sc[2 * i], d1 = d * (float)sc[2 * i + 1];
        for (int l = 0; l < 32; l++) {
            int code = (l4[l] >> 4 * (i % 4 / 2) & 15) | (h2[l] >> 2 * (i % 4) & 3) << 4;
            x[32 * i + l] = (l < 16 ? d0 : d1) * (float)(code - 32);
        }
    }
}

static const struct {
    uint16_t bytes, values;
    void (*decode)(const uint8_t *b, float *x);
} blocks[GY_CODEC_COUNT] = {
    [GY_CODEC_Q4_0] = {18, 32, q4_0},     [GY_CODEC_Q4_1] = {20, 32, q4_1},
    [GY_CODEC_Q5_0] = {22, 32, q5_0},     [GY_CODEC_Q5_1] = {24, 32, q5_1},
    [GY_CODEC_Q8_0] = {34, 32, q8_0},     [GY_CODEC_Q2_K] = {84, 256, q2_k},
    [GY_CODEC_Q3_K] = {110, 256, q3_k},   [GY_CODEC_Q4_K] = {144, 256, q4_k},
    [GY_CODEC_Q5_K] = {176, 256, q5_k},   [GY_CODEC_Q6_K] = {210, 256, q6_k},
    [GY_CODEC_IQ4_NL] = {18, 32, iq4_nl}, [GY_CODEC_MXFP4_GGUF] = {17, 32, mxfp4},
};

bool gy_block_fits(gy_cparm c, int cols) {
    return c.kind < GY_CODEC_COUNT && blocks[c.kind].values && cols > 0 &&
           cols % blocks[c.kind].values == 0;
}

void gy_block_bytes(gy_cparm c, int cols, size_t plane[3]) {
    plane[0] = (size_t)(cols / blocks[c.kind].values) * blocks[c.kind].bytes;
    plane[1] = plane[2] = 0;
}

void gy_block_decode(const gy_rows *m, int row, float *x) {
    const uint8_t *p = gy_row_at(m, 0, row);
    int values = blocks[m->c.kind].values;
    for (int i = 0; i < m->cols; i += values, p += blocks[m->c.kind].bytes)
        blocks[m->c.kind].decode(p, x + i);
}
