/* The scalar codecs against rows and values that tools/gen_codec.py made from the specification,
 * and what codec.h promises: sizes, refusals, names, encoders that read their own row only. */
#include "testlib.h"

#include "base/json.h"
#include "base/num.h"
#include "codec/codec.h"

static uint8_t *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*n + 1);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

static size_t unhex(const char *s, uint8_t *out) {
    size_t n = strlen(s) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned v;
        sscanf(s + 2 * i, "%2x", &v);
        out[i] = (uint8_t)v;
    }
    return n;
}

static gy_cparm cparm_of(const gy_json *c) {
    gy_cparm p = {.bits = (uint8_t)gy_json_i(c, "bits", 0),
                  .group = (uint16_t)gy_json_i(c, "group", 0)};
    const char *kind = gy_json_s(c, "kind", ""), *stype = gy_json_s(c, "stype", "f32");
    for (int i = 0; i < GY_CODEC_COUNT; i++) {
        /* "MXFP4" is GGUF's, "mxfp4" is MLX's. */
        if (!strcmp(gy_codecs[i].name, kind)) p.kind = (uint8_t)i;
        if (!strcmp(gy_codecs[i].name, stype)) p.stype = (uint8_t)i;
    }
    return p;
}

static bool same_floats(const float *a, const uint8_t *want, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t w = gy_load_u32(want + 4 * i);
        bool nan = (w & 0x7FFFFFFF) > 0x7F800000;
        if (nan ? a[i] == a[i] : gy_f32_bits(a[i]) != w) return false;
    }
    return true;
}

/* One case: rows and the values that they have, or values and the rows that they become. */
static void own_case(const gy_json *c, uint32_t i, int count[2]) {
    static uint8_t raw[3][4096], made[3][4096], number[4096];
    static float x[1024];
    const gy_json *planes = gy_json_get(c, "planes");
    const char *input = gy_json_s(c, "input", NULL);
    gy_rows m = {.c = cparm_of(c), .rows = 1, .cols = (int)gy_json_i(c, "cols", 0)};
    m.global = (float)gy_json_f(c, "factor", 1);
    const gy_codec *codec = &gy_codecs[m.c.kind];
    size_t bytes[3];
    char name[32];
    gy_cparm_name(m.c, name);
    if (!codec->fits(m.c, m.cols)) fail_msg("case %u, %s: does not fit", i, name);
    codec->bytes(m.c, m.cols, bytes);
    for (uint32_t k = 0; k < planes->n; k++) {
        size_t got = unhex(planes->item[k].s, raw[k] + 1); /* + 1: data may be unaligned */
        if (got != bytes[k])
            fail_msg("case %u, %s: plane %u has %zu bytes, not %zu", i, name, k, bytes[k], got);
        m.plane[k] = (input ? made[k] : raw[k]) + 1;
        m.step[k] = (ptrdiff_t)got;
    }
    unhex(input ? input : gy_json_s(c, "values", ""), number);
    count[input != NULL]++;
    if (input) {
        memcpy(x, number, (size_t)m.cols * sizeof *x);
        codec->encode(&m, 0, x);
        for (uint32_t k = 0; k < planes->n; k++) {
            if (memcmp(raw[k] + 1, made[k] + 1, bytes[k]))
                fail_msg("case %u, %s: other bytes in plane %u", i, name, k);
        }
    } else {
        codec->decode(&m, 0, x);
        if (!same_floats(x, number, m.cols)) fail_msg("case %u, %s: other values", i, name);
    }
}

static void own_vectors(void **state) {
    (void)state;
    size_t n;
    uint8_t *text = slurp(data_path("codec/vectors.json"), &n);
    gy_json_doc doc = {0};
    gy_err err = {0};
    int count[2] = {0};
    assert_ok(gy_json_parse(&doc, (char *)text, n, &err), err);
    for (uint32_t i = 0; i < doc.root->n; i++) own_case(&doc.root->item[i], i, count);
    printf("own vectors: %d decoded, %d encoded\n", count[0], count[1]);
    gy_json_free(&doc);
    free(text);
}

/* Every parameter set that has an encoder. */
static int encoders(gy_cparm out[80]) {
    static const uint8_t widths[] = {2, 3, 4, 5, 6, 8};
    static const uint16_t groups[] = {32, 64, 128};
    int n = 0;
    for (uint8_t k = GY_CODEC_F32; k <= GY_CODEC_NVFP4; k++) {
        if (k != GY_CODEC_AFFINE) out[n++] = (gy_cparm){.kind = k};
    }
    for (int b = 0; b < 6; b++) {
        for (int g = 0; g < 3; g++) {
            for (uint8_t t = 0; t < 3; t++) {
                out[n++] = (gy_cparm){GY_CODEC_AFFINE, widths[b], t, groups[g]};
            }
        }
    }
    return n;
}

static int kv_encoders(gy_cparm out[96]) {
    int n = encoders(out);
    for (uint8_t k = GY_CODEC_TURBO_K; k <= GY_CODEC_TURBOX_V; k++) {
        for (uint8_t b = 2; b <= 8; b++) {
            out[n] = (gy_cparm){.kind = k, .bits = b};
            n += gy_codecs[k].fits(out[n], 128);
        }
    }
    return n;
}

enum { ROWS = 5, COLS = 128 };

typedef struct {
    uint8_t *raw[3];
    gy_rows m;
} matrix;

static matrix matrix_new(gy_cparm c, size_t gap) {
    matrix a = {.m = {.c = c, .rows = ROWS, .cols = COLS, .global = 1}};
    size_t bytes[3];
    gy_codecs[c.kind].bytes(c, COLS, bytes);
    for (int p = 0; p < 3; p++) {
        if (!bytes[p]) continue;
        a.raw[p] = calloc(ROWS, bytes[p] + gap);
        a.m.plane[p] = a.raw[p];
        a.m.step[p] = (ptrdiff_t)(bytes[p] + gap);
    }
    return a;
}

static void matrix_free(matrix *a) {
    for (int p = 0; p < 3; p++) free(a->raw[p]);
}

/* Bytes of a row depend on the row's values only, rows may lie apart, and nothing outside them is
 * written. */
static void encode_reads_its_own_row(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    static float x[ROWS][COLS], y[COLS], z[COLS];
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < COLS; i++)
            x[r][i] = test_uniform(&seed) * (float)(1 << r) + (float)(r == 3);
    }
    gy_cparm all[96];
    int n = kv_encoders(all);
    for (int k = 0; k < n; k++) {
        const gy_codec *codec = &gy_codecs[all[k].kind];
        char name[32];
        gy_cparm_name(all[k], name);
        matrix a = matrix_new(all[k], 0), b = matrix_new(all[k], 7);
        for (int r = 0; r < ROWS; r++) codec->encode(&a.m, r, x[r]);
        for (int r = ROWS - 1; r >= 0; r--) codec->encode(&b.m, r, x[r]);
        for (int r = 0; r < ROWS; r++) {
            for (int p = 0; p < 3 && a.raw[p]; p++) {
                size_t w = (size_t)a.m.step[p];
                if (memcmp(a.raw[p] + r * w, b.raw[p] + r * (w + 7), w))
                    fail_msg("%s: row %d plane %d", name, r, p);
                for (size_t i = 0; i < 7; i++) {
                    if (b.raw[p][r * (w + 7) + w + i])
                        fail_msg("%s: row %d writes past its end", name, r);
                }
            }
            codec->decode(&a.m, r, y);
            codec->decode(&b.m, r, z);
            assert_memory_equal(y, z, sizeof y);
        }
        matrix_free(&a);
        matrix_free(&b);
    }
}

/* Half a step of the coarsest grid point near |v|, for data in [-top, top]. */
static float half_step(gy_cparm c, float v, float range, float top) {
    if (c.kind == GY_CODEC_F32) return 0;
    if (c.kind == GY_CODEC_F16 || c.kind == GY_CODEC_BF16)
        return top * (c.kind == GY_CODEC_F16 ? 0x1p-12f : 0x1p-9f);
    if (c.kind == GY_CODEC_AFFINE) {
        /* Rounding of scale and bias to their type adds up to one unit in the last place of each
         * end, twice. */
        float ulp = c.stype == GY_CODEC_F32   ? 0x1p-23f
                    : c.stype == GY_CODEC_F16 ? 0x1p-10f
                                              : 0x1p-7f;
        float step = range / (float)((1 << c.bits) - 1);
        /* The edge moves to a multiple of the step, so the step grows by at most edge / (edge/step
         * - 1/2). */
        return 1.5f * step + 4 * ulp * (top + range) + 1e-6f;
    }
    (void)v;
    return top / (c.kind == GY_CODEC_MXFP8
                      ? 8
                      : 3); /* mx scales are powers of two: the grid is up to twice too wide */
}

static void encode_then_decode_is_near(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    gy_cparm all[80];
    int n = encoders(all);
    static float x[COLS], y[COLS];
    for (int k = 0; k < n; k++) {
        char name[32];
        gy_cparm_name(all[k], name);
        matrix a = matrix_new(all[k], 0);
        for (int turn = 0; turn < 8; turn++) {
            for (int i = 0; i < COLS; i++) x[i] = test_uniform(&seed);
            gy_codecs[all[k].kind].encode(&a.m, 0, x);
            gy_codecs[all[k].kind].decode(&a.m, 0, y);
            for (int i = 0; i < COLS; i++) {
                float gap = y[i] > x[i] ? y[i] - x[i] : x[i] - y[i];
                if (!(gap <= half_step(all[k], x[i], 2, 1)))
                    fail_msg("%s: %g became %g", name, x[i], y[i]);
            }
        }
        matrix_free(&a);
    }
}

/* KV values that no codec can hold: f16 saturates, quantisers code 0, and the neighbours stay
 * right. */
static void encode_hard_values(void **state) {
    (void)state;
    const float inf = gy_bits_f32(0x7F800000), nan = gy_bits_f32(0x7FC00000);
    float x[COLS], y[COLS];
    for (int i = 0; i < COLS; i++) x[i] = 1;
    x[0] = inf, x[1] = -inf, x[2] = 70000, x[3] = -1e30f, x[4] = 65519.996f;
    matrix a = matrix_new((gy_cparm){.kind = GY_CODEC_F16}, 0);
    gy_codecs[GY_CODEC_F16].encode(&a.m, 0, x);
    gy_codecs[GY_CODEC_F16].decode(&a.m, 0, y);
    const float want[] = {65504, -65504, 65504, -65504, 65504, 1};
    for (int i = 0; i < 6; i++) assert_true(y[i] == want[i]);
    matrix_free(&a);
    gy_cparm all[80];
    int n = encoders(all);
    for (int k = 0; k < n; k++) {
        if (all[k].kind < GY_CODEC_AFFINE) continue;
        for (int i = 0; i < COLS; i++) x[i] = 1;
        x[0] = nan, x[1] = inf, x[2] = -inf;
        a = matrix_new(all[k], 0);
        gy_codecs[all[k].kind].encode(&a.m, 1, x);
        gy_codecs[all[k].kind].decode(&a.m, 1, y);
        char name[32];
        gy_cparm_name(all[k], name);
        for (int i = 0; i < COLS; i++) {
            float v = i < 3 ? 0 : 1, gap = y[i] > v ? y[i] - v : v - y[i];
            /* 1 / 6 as an nvfp4 scale is off by up to one part in 16. */
            if (!(gap <= (all[k].kind == GY_CODEC_NVFP4 ? 0.0625f : 0.01f)))
                fail_msg("%s: value %d of a row with NaN is %g", name, i, y[i]);
        }
        for (int i = 0; i < COLS; i++) x[i] = i % 2 ? 3e38f : -3e38f;
        gy_codecs[all[k].kind].encode(&a.m, 2, x);
        gy_codecs[all[k].kind].decode(&a.m, 2, y);
        if (all[k].stype == GY_CODEC_F32 && all[k].kind == GY_CODEC_AFFINE) {
            for (int i = 0; i < COLS; i++) {
                if (y[i] != y[i]) fail_msg("%s: a huge value became NaN", name);
            }
        }
        matrix_free(&a);
    }
}

/* The quick f16 decoder against the plain one, all values; an odd length for the rest loop. */
static void every_f16_decodes(void **state) {
    (void)state;
    static uint16_t h[65536];
    static float x[65536];
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    for (int at = 0; at < 2; at++) {
        gy_rows m = {.c = {.kind = GY_CODEC_F16}, .rows = 1, .cols = 65536 - at, .plane = {h + at}};
        gy_codecs[GY_CODEC_F16].decode(&m, 0, x);
        for (int i = 0; i < m.cols; i++) {
            if (gy_f32_bits(x[i]) != gy_f32_bits(gy_f16_f32(h[at + i])))
                fail_msg("f16 %04x", h[at + i]);
        }
    }
}

static void refuses_what_does_not_fit(void **state) {
    (void)state;
    const struct {
        gy_cparm c;
        int cols;
        bool fits;
    } cases[] = {
        {{.kind = GY_CODEC_F16}, 1, true},
        {{.kind = GY_CODEC_F16}, 0, false},
        {{GY_CODEC_AFFINE, 4, GY_CODEC_F16, 64}, 128, true},
        {{GY_CODEC_AFFINE, 4, GY_CODEC_F16, 64}, 96, false},
        {{GY_CODEC_AFFINE, 7, GY_CODEC_F16, 64}, 128, false},
        {{GY_CODEC_AFFINE, 4, GY_CODEC_F16, 16}, 128, false},
        {{GY_CODEC_AFFINE, 4, GY_CODEC_F16, 0}, 128, false},
        {{GY_CODEC_AFFINE, 4, GY_CODEC_Q4_0, 64}, 128, false},
        {{.kind = GY_CODEC_NVFP4}, 16, true},
        {{.kind = GY_CODEC_MXFP4}, 16, false},
        {{.kind = GY_CODEC_Q4_0}, 33, false},
        {{.kind = GY_CODEC_Q6_K}, 256, true},
        {{.kind = GY_CODEC_Q6_K}, 288, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        if (gy_codecs[cases[i].c.kind].fits(cases[i].c, cases[i].cols) != cases[i].fits) {
            fail_msg("case %zu: %s x %d", i, gy_cparm_name(cases[i].c, name), cases[i].cols);
        }
    }
    char name[32];
    assert_string_equal(gy_cparm_name((gy_cparm){GY_CODEC_AFFINE, 4, 0, 64}, name),
                        "affine 4-bit g64");
    assert_string_equal(gy_cparm_name((gy_cparm){.kind = GY_CODEC_Q4_K}, name), "Q4_K");
    assert_string_equal(gy_cparm_name((gy_cparm){.kind = 200}, name), "codec 200");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_vectors),
        cmocka_unit_test(encode_reads_its_own_row),
        cmocka_unit_test(encode_then_decode_is_near),
        cmocka_unit_test(encode_hard_values),
        cmocka_unit_test(every_f16_decodes),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
