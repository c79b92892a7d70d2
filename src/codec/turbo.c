/* codec/turbo - keys with a scale and a zero point, values rotated and coded by Lloyd-Max tables.
 *
 * Every f32 operation rounds once, in the order of kv.md 3.3; a value that is not finite is coded
 * as 0. A key group that f16 cannot describe (constant, or far from 0 for its width) becomes its
 * middle: all codes 0, scale and zero such that their product is the middle (kv.md 3.3.6). */
#include <math.h>

#include "codec/impl.h"
#include "codec/turbo.h"

enum { GROUP = GY_TURBO_GROUP };
#define TINY    1e-8f
#define F16_MAX 65504.0f

/* What is coded in place of x; -0 is 0. */
static inline float tame(float x) {
    x = gy_or_zero(x);
    x = x > GY_TURBO_TOP ? GY_TURBO_TOP : x < -GY_TURBO_TOP ? -GY_TURBO_TOP : x;
    return x + 0.0f;
}

static bool width_fits(gy_cparm c, int cols) {
    bool dim = cols == 64 || cols == 128 || cols == 256 || cols == 512;
    return dim && c.group == 0 && c.stype == 0; /* one spelling of a codec: it is compared */
}

bool gy_turbo_k_fits(gy_cparm c, int cols) {
    bool bits = c.bits == 2 || c.bits == 4 || c.bits == 5 || c.bits == 8;
    return c.kind == GY_CODEC_TURBO_K && bits && width_fits(c, cols);
}

bool gy_turbo_v_fits(gy_cparm c, int cols) {
    bool kind = c.kind == GY_CODEC_TURBO_V || c.kind == GY_CODEC_TURBOX_V;
    return kind && c.bits <= 8 && gy_turbo_table_of(c)->level && width_fits(c, cols);
}

void gy_turbo_k_bytes(gy_cparm c, int cols, size_t plane[3]) {
    plane[0] = (size_t)cols / 8 * c.bits;
    plane[1] = plane[2] = (size_t)(cols / GROUP) * 2;
}

void gy_turbo_v_bytes(gy_cparm c, int cols, size_t plane[3]) {
    gy_turbo_k_bytes(c, cols, plane);
    plane[2] = 0;
}

/* Codes of one group as a bit stream; code 0..2^bits-1, or the low byte of an int8. */
static inline void pack(uint8_t *p, int bits, const uint8_t code[GROUP]) {
    for (int i = 0; i < GROUP; i += 8, p += bits) {
        uint64_t v = 0;
        for (int k = 0; k < 8; k++) v |= (uint64_t)code[i + k] << bits * k;
        memcpy(p, &v, (size_t)bits);
    }
}

static inline void unpack(const uint8_t *p, int bits, uint8_t code[GROUP]) {
    const uint64_t mask = (1u << bits) - 1;
    for (int i = 0; i < GROUP; i += 8, p += bits) {
        uint64_t v = gy_load_bits8(p, bits);
        for (int k = 0; k < 8; k++) code[i + k] = (uint8_t)(v >> bits * k & mask);
    }
}

/* ---- Keys ---- */

/* Scale and zero of a group that has only its middle. */
static void middle(float lo, float hi, float *scale, float *zero) {
    float a = (hi + lo) * 0.5f, step = 1;
    *scale = a < 0 ? -a : a;
    /* 2^15 is the largest power of two in f16: beyond 2^15 * 65504 the scale saturates. */
    for (int j = 0; j < 15 && *scale > F16_MAX; j++) *scale *= 0.5f, step *= 2;
    *zero = a < 0 ? -step : a > 0 ? step : 0;
}

bool gy_turbo_key_grid(float lo, float hi, int bits, float *scale, float *zero, float *step) {
    bool wide = bits == 8; /* codes around 0 instead of from 0 */
    float s = (hi - lo) / (wide ? 254 : (float)((1 << bits) - 1)), d = s + TINY;
    float z = gy_rint(wide ? (hi + lo) / (2 * d) : lo / d);
    bool inf = (gy_f32_f16(z) & 0x7FFF) == 0x7C00, flat = (gy_f32_f16(s) & 0x7FFF) == 0;
    *scale = s, *zero = z, *step = d;
    if (!inf && !flat) return true;
    middle(lo, hi, scale, zero);
    return false;
}

static void key_group(const float *in, int bits, uint8_t code[GROUP], float *scale, float *zero) {
    float x[GROUP], lo, hi, d, bottom = bits == 8 ? -127 : 0,
                               top = bits == 8 ? 127 : (float)((1 << bits) - 1);
    for (int i = 0; i < GROUP; i++) x[i] = tame(in[i]);
    lo = hi = x[0];
    for (int i = 1; i < GROUP; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    if (!gy_turbo_key_grid(lo, hi, bits, scale, zero, &d)) {
        memset(code, 0, GROUP);
        return;
    }
    for (int i = 0; i < GROUP; i++) {
        float q = gy_rint(x[i] / d - *zero);
        q = q < bottom ? bottom : q > top ? top : q;
        code[i] = (uint8_t)(int)q;
    }
}

void gy_turbo_k_encode(const gy_rows *m, int row, const float *x) {
    uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row), *zp = gy_row_at(m, 2, row);
    uint8_t code[GROUP];
    int bits = m->c.bits;
    for (int j = 0; j < m->cols / GROUP; j++, x += GROUP, p += GROUP / 8 * bits) {
        float s, z;
        key_group(x, bits, code, &s, &z);
        gy_store_real(sp, (size_t)j, GY_CODEC_F16, s);
        gy_store_real(zp, (size_t)j, GY_CODEC_F16, z);
        pack(p, bits, code);
    }
}

void gy_turbo_k_decode(const gy_rows *m, int row, float *x) {
    const uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row), *zp = gy_row_at(m, 2, row);
    uint8_t code[GROUP];
    int bits = m->c.bits;
    for (int j = 0; j < m->cols / GROUP; j++, x += GROUP, p += GROUP / 8 * bits) {
        float s = gy_load_real(sp, (size_t)j, GY_CODEC_F16),
              z = gy_load_real(zp, (size_t)j, GY_CODEC_F16);
        unpack(p, bits, code);
        for (int i = 0; i < GROUP; i++) {
            float q = (float)(bits == 8 ? (int8_t)code[i] : code[i]);
            x[i] = (q + z) * s;
        }
    }
}

/* ---- Values ---- */

static void flip(float *x, int n) {
    const uint32_t *word = gy_turbo_sign_words(n);
    for (int i = 0; i < n; i++) {
        uint32_t sign = word[i / 32] >> i % 32 << 31;
        x[i] = gy_bits_f32(gy_f32_bits(x[i]) ^ sign);
    }
}

/* Walsh-Hadamard, Sylvester's order, orthonormal: its own inverse up to rounding. */
static void fwht(float *x, int n) {
    for (int h = 1; h < n; h *= 2) {
        for (int i = 0; i < n; i += 2 * h) {
            for (int k = i; k < i + h; k++) {
                float a = x[k], b = x[k + h];
                x[k] = a + b, x[k + h] = a - b;
            }
        }
    }
    float norm = n == 64 ? 0.125f : n == 128 ? 0x1.6a09e6p-4f : n == 256 ? 0.0625f : 0x1.6a09e6p-5f;
    for (int i = 0; i < n; i++) x[i] *= norm;
}

void gy_turbo_v_turn(gy_cparm c, float *x, int n, bool back) {
    (void)c;
    if (!back) flip(x, n);
    fwht(x, n);
    if (back) flip(x, n);
}

/* Root of the mean square; the sum is a halving tree. */
static float rms(const float *y) {
    float t[GROUP];
    for (int i = 0; i < GROUP; i++) t[i] = y[i] * y[i];
    for (int h = GROUP / 2; h; h /= 2)
        for (int i = 0; i < h; i++) t[i] = t[i] + t[i + h];
    return sqrtf(t[0] * 0x1p-5f);
}

/* Number of edges below x, by halving: bits comparisons. */
static inline unsigned cell(const float *edge, int bits, float x) {
    unsigned at = 0;
    for (unsigned step = 1u << (bits - 1); step; step /= 2)
        at += edge[at + step - 1] < x ? step : 0;
    return at;
}

void gy_turbo_v_encode(const gy_rows *m, int row, const float *x) {
    const gy_turbo_table *table = gy_turbo_table_of(m->c);
    uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row), code[GROUP];
    int bits = m->c.bits;
    float y[GY_TURBO_MAX];
    for (int i = 0; i < m->cols; i++) y[i] = tame(x[i]);
    gy_turbo_v_turn(m->c, y, m->cols, false);
    for (int j = 0; j < m->cols / GROUP; j++, p += GROUP / 8 * bits) {
        const float *g = y + j * GROUP;
        float s = rms(g), d = s + TINY;
        for (int i = 0; i < GROUP; i++) code[i] = (uint8_t)cell(table->edge, bits, g[i] / d);
        gy_store_real(sp, (size_t)j, GY_CODEC_F16, s);
        pack(p, bits, code);
    }
}

void gy_turbo_v_decode(const gy_rows *m, int row, float *x) {
    const float *level = gy_turbo_table_of(m->c)->level;
    const uint8_t *p = gy_row_at(m, 0, row), *sp = gy_row_at(m, 1, row);
    uint8_t code[GROUP];
    int bits = m->c.bits;
    for (int j = 0; j < m->cols / GROUP; j++, x += GROUP, p += GROUP / 8 * bits) {
        float s = gy_load_real(sp, (size_t)j, GY_CODEC_F16);
        unpack(p, bits, code);
        for (int i = 0; i < GROUP; i++) x[i] = level[code[i]] * s;
    }
}
