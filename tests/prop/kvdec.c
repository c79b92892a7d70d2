/* The fast rows of KV codecs against the scalar codecs: bytes, values and turns by memcmp, over
 * every codec, head and kind of row. This file is compiled with the flags of isa_avx2.c, as the
 * bodies are. */
#include "testlib.h"

#include <float.h>
#include <math.h>

#include "cpu/lanes.h"

#include "cpu/kvdec.inc"

enum { KINDS = 14, MOST = 512 };

static bool able(void) {
#ifdef GY_LANES_AVX2
    /* clang 14 cannot ask for f16c; every CPU with AVX2 has it. */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return true;
    printf("notice: skipped, this machine has no AVX2\n");
    return false;
#else
    return true;
#endif
}

static float normal(uint64_t *seed) {
    float s = 0;
    for (int i = 0; i < 12; i++) s += test_uniform(seed);
    return s * 0.5f;
}

/* Rows that are hard in different ways; a row mixes two kinds by groups of 32. */
static float value_of(int kind, int i, uint64_t *seed) {
    switch (kind) {
    case 0: return normal(seed);
    case 1: return normal(seed) * 0.05f + 0.3f;
    case 2: return i % 2 ? 0.0f : -0.0f;
    case 3: return 1.5f;
    case 4: return i % 32 == 7 ? 50 : normal(seed);
    case 5: return 100 + normal(seed);
    case 6: return normal(seed) * 1e-4f;
    case 7: return (float)(i % 31 - 15);
    case 8: return gy_bits_f32(test_rand(seed)); /* any bits: NaN, infinities, all sizes */
    case 9: return test_rand(seed) % 8 ? normal(seed) : gy_bits_f32(0x7FC00000 | i % 2u << 31);
    case 10: return normal(seed) * 1e7f - 3e9f;
    case 11: return -1e-9f * (float)(i % 3);
    case 12: return normal(seed) * 1e-42f;
    default: return i % 2 ? 3.4e38f : -3.4e38f;
    }
}

static int codecs(gy_cparm out[96]) {
    static const uint8_t widths[] = {2, 3, 4, 5, 6, 8};
    int n = 0;
    for (int b = 0; b < 6; b++)
        for (uint16_t g = 32; g <= 128; g *= 2)
            for (uint8_t t = 0; t < 3; t++) out[n++] = (gy_cparm){GY_CODEC_AFFINE, widths[b], t, g};
    for (uint8_t kind = GY_CODEC_TURBO_K; kind <= GY_CODEC_TURBOX_V; kind++) {
        for (uint8_t b = 2; b <= 8; b++) {
            out[n] = (gy_cparm){.kind = kind, .bits = b};
            n += gy_codecs[kind].fits(out[n], 64);
        }
    }
    for (uint8_t t = 0; t < 3; t++) out[n++] = (gy_cparm){.kind = t};
    return n;
}

typedef struct {
    uint8_t raw[3][4 * MOST + 16];
    gy_rows m;
} store;

static void store_init(store *s, gy_cparm c, int cols) {
    size_t bytes[3];
    gy_codecs[c.kind].bytes(c, cols, bytes);
    memset(s->raw, 0xA5, sizeof s->raw);
    s->m = (gy_rows){.c = c, .rows = 1, .cols = cols, .global = 1};
    for (int p = 0; p < 3; p++)
        if (bytes[p]) s->m.plane[p] = s->raw[p] + 1, s->m.step[p] = (ptrdiff_t)bytes[p];
}

/* Codes or levels, and scales and biases, make up the values. */
static void check_raw(const gy_rows *m, const float *value, const char *name) {
    static float raw[MOST], scale[MOST / 32], bias[MOST / 32];
    bool affine = m->c.kind == GY_CODEC_AFFINE;
    int group = affine ? m->c.group : GY_TURBO_GROUP;
    if (!affine && !gy_codecs[m->c.kind].turn) return;
    kv_raw_rows(m, 0, 1, raw, MOST);
    kv_reals(m, 1, 0, 1, scale);
    if (affine) kv_reals(m, 2, 0, 1, bias);
    for (int i = 0; i < m->cols; i++) {
        float y = raw[i] * scale[i / group];
        if (affine) y += bias[i / group];
        if (memcmp(&y, value + i, sizeof y))
            fail_msg("%s x %d: parts of value %d", name, m->cols, i);
    }
}

static void row_both(gy_cparm c, int cols, const float *x, int *rows) {
    static store a, b;
    static float y[MOST + 1], z[MOST + 1];
    char name[32];
    gy_cparm_name(c, name);
    store_init(&a, c, cols), store_init(&b, c, cols);
    gy_codecs[c.kind].encode(&a.m, 0, x);
    int bad = kv_encode_row(&b.m, 0, x), want = 0;
    bool half = c.kind == GY_CODEC_F16 || (c.kind == GY_CODEC_AFFINE && c.stype == GY_CODEC_F16);
    float most = half ? 65519.996f : c.kind >= GY_CODEC_TURBO_K ? GY_TURBO_TOP : FLT_MAX;
    for (int i = 0; i < cols; i++) want += !(fabsf(x[i]) <= most);
    if (bad != want) fail_msg("%s x %d: %d values counted, not %d", name, cols, bad, want);
    for (int p = 0; p < 3; p++)
        if (memcmp(a.raw[p], b.raw[p], sizeof a.raw[p]))
            fail_msg("%s x %d: other bytes in plane %d", name, cols, p);
    y[cols] = z[cols] = 7;
    gy_codecs[c.kind].decode(&a.m, 0, y);
    kv_decode_rows(&a.m, 0, 1, z, MOST);
    if (memcmp(y, z, sizeof *y * (size_t)(cols + 1))) fail_msg("%s x %d: other values", name, cols);
    /* Any bytes are codes; scales stay as they are. */
    for (ptrdiff_t i = 0; i < a.m.step[0] && c.kind >= GY_CODEC_AFFINE; i++)
        ((uint8_t *)a.m.plane[0])[i] = (uint8_t)(i * 73 + *rows);
    gy_codecs[c.kind].decode(&a.m, 0, y);
    kv_decode_rows(&a.m, 0, 1, z, MOST);
    if (memcmp(y, z, sizeof *y * (size_t)(cols + 1))) fail_msg("%s x %d: other codes", name, cols);
    check_raw(&a.m, y, name);
    ++*rows;
}

static void rows_agree(void **state) {
    (void)state;
    static const int dims[] = {32, 64, 96, 128, 160, 192, 256, 512};
    if (!able()) skip();
    gy_cparm all[96];
    uint64_t seed = test_seed();
    static float x[MOST];
    int n = codecs(all), rows = 0;
    for (int k = 0; k < n; k++) {
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            if (!gy_codecs[all[k].kind].fits(all[k], dims[d])) continue;
            for (int kind = 0; kind < KINDS * 2; kind++) {
                for (int i = 0; i < dims[d]; i++)
                    x[i] = value_of(kind < KINDS || i / 32 % 2 ? kind % KINDS : 0, i, &seed);
                row_both(all[k], dims[d], x, &rows);
            }
        }
    }
    printf("%d rows of %d codecs: the same bytes and values\n", rows, n);
}

static void turns_agree(void **state) {
    (void)state;
    if (!able()) skip();
    const gy_cparm c = {.kind = GY_CODEC_TURBO_V, .bits = 3};
    uint64_t seed = test_seed();
    for (int n = 64; n <= MOST; n *= 2) {
        for (int i = 0; i < 40; i++) {
            float x[MOST], y[MOST];
            for (int k = 0; k < n; k++) x[k] = y[k] = value_of(i % 8, k, &seed);
            gy_codecs[c.kind].turn(c, x, n, i & 1);
            kv_turn(c, y, n, i & 1);
            if (memcmp(x, y, sizeof *x * (size_t)n)) fail_msg("turn of %d, row %d", n, i);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_agree), cmocka_unit_test(turns_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
