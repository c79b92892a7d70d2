/* The codecs against the shared vectors (mlx and gguf-py): bytes and values, bit for bit. */
#include "testlib.h"

#include "vectors.h"

static const char *const type_names[] = {"f32", "f16", "bf16"};

static float round_to(float x, int type) {
    return type == GY_CODEC_F16    ? gy_f16_f32(gy_f32_f16(x))
           : type == GY_CODEC_BF16 ? gy_bf16_f32(gy_f32_bf16(x))
                                   : x;
}

/* The codes alone, read through the codec with scale 1 and bias 0. */
static void codes_of(const gy_rows *m, int row, float *code) {
    float one[4] = {1, 1, 1, 1}, zero[4] = {0};
    gy_rows u = *m;
    u.c.stype = GY_CODEC_F32, u.plane[1] = one, u.plane[2] = zero, u.step[1] = u.step[2] = 0;
    gy_codecs[GY_CODEC_AFFINE].decode(&u, row, code);
}

static int affine_one(int type, int bits, int group) {
    char name[40];
    snprintf(name, sizeof name, "affine_%s_b%d", type_names[type], bits);
    vectors v = vectors_open(name);
    tensor w = get(&v, "w"), packed = get(&v, "g%d.packed", group),
           scales = get(&v, "g%d.scales", group);
    tensor biases = get(&v, "g%d.biases", group), dequant = get(&v, "g%d.dequant", group);
    gy_cparm c = {GY_CODEC_AFFINE, (uint8_t)bits, (uint8_t)type, (uint16_t)group};
    assert_true(gy_codecs[c.kind].fits(c, w.cols));
    gy_rows m =
        rows_of(c, w.rows, w.cols,
                (uint8_t *[3]){(uint8_t *)packed.p, (uint8_t *)scales.p, (uint8_t *)biases.p});
    assert_int_equal((size_t)m.step[0] * (size_t)w.rows, packed.bytes);
    assert_int_equal((size_t)m.step[1] * (size_t)w.rows, scales.bytes);
    uint8_t *raw[3] = {calloc(1, packed.bytes), calloc(1, scales.bytes), calloc(1, biases.bytes)};
    gy_rows mine = rows_of(c, w.rows, w.cols, raw);
    float x[128], y[128], q[128];
    for (int r = 0; r < w.rows; r++) {
        gy_codecs[c.kind].decode(&m, r, y);
        codes_of(&m, r, q);
        for (int i = 0; i < w.cols; i++) {
            size_t at = (size_t)(r * w.cols + i), j = (size_t)(r * (w.cols / group) + i / group);
            float s = real_at(scales.p, j, type), z = real_at(biases.p, j, type),
                  want = real_at(dequant.p, at, type);
            float qs = q[i] * s, value = qs + z;
            if (!same(round_to(round_to(qs, type) + z, type), want))
                fail_msg("%s g%d row %d col %d code", name, group, r, i);
            if (!same(y[i], value))
                fail_msg("%s g%d row %d col %d: %g, not %g", name, group, r, i, y[i], value);
            x[i] = real_at(w.p, at, type);
        }
        gy_codecs[c.kind].encode(&mine, r, x);
    }
    if (memcmp(raw[1], scales.p, scales.bytes)) fail_msg("%s g%d: scales", name, group);
    if (memcmp(raw[2], biases.p, biases.bytes)) fail_msg("%s g%d: biases", name, group);
    if (memcmp(raw[0], packed.p, packed.bytes)) fail_msg("%s g%d: codes", name, group);
    for (int p = 0; p < 3; p++) free(raw[p]);
    vectors_close(&v);
    return w.rows;
}

static void affine(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/index.json");
    static const int widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    int sets = 0, rows = 0;
    for (int type = 0; type < 3; type++) {
        for (int b = 0; b < 6; b++) {
            for (int g = 0; g < 3; g++) rows += affine_one(type, widths[b], groups[g]), sets++;
        }
    }
    printf("affine: %d of 54 parameter sets, %d rows: decoded and encoded\n", sets, rows);
}

/* gyre's encoder differs from mlx 0.32.4 in one point: fp4 ties go to the even code. True when x is
 * such a tie and mine is the even one of the two. */
static bool even_tie(float x, unsigned mine, unsigned theirs) {
    static const float mid[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    unsigned a = mine & 7, b = theirs & 7, lo = a < b ? a : b;
    return (a > b ? a - b : b - a) == 1 && (x < 0 ? -x : x) == mid[lo] && a % 2 == 0;
}

static void mxfp_one(const char *name, int kind, int group) {
    vectors v = vectors_open(name);
    int rows = 0, ties = 0, coded = 0;
    for (int type = 0; type < 3; type++) {
        const char *t = type_names[type];
        tensor w = get(&v, "%s.w", t), packed = get(&v, "%s.packed", t),
               scales = get(&v, "%s.scales", t);
        tensor dequant = get(&v, "%s.dequant_f32", t);
        gy_cparm c = {.kind = (uint8_t)kind, .stype = (uint8_t)type};
        gy_rows m = rows_of(c, w.rows, w.cols,
                            (uint8_t *[3]){(uint8_t *)packed.p, (uint8_t *)scales.p, NULL});
        uint8_t *raw[3] = {calloc(1, packed.bytes), calloc(1, scales.bytes), NULL};
        gy_rows mine = rows_of(c, w.rows, w.cols, raw);
        float x[128], y[128];
        for (int r = 0; r < w.rows; r++, rows++) {
            gy_codecs[kind].decode(&m, r, y);
            for (int i = 0; i < w.cols; i++) {
                size_t at = (size_t)(r * w.cols + i);
                if (!same(y[i], real_at(dequant.p, at, GY_CODEC_F32)))
                    fail_msg("%s %s row %d col %d", name, t, r, i);
                x[i] = real_at(w.p, at, type);
            }
            gy_codecs[kind].encode(&mine, r, x);
        }
        if (memcmp(raw[1], scales.p, scales.bytes)) fail_msg("%s %s: scales", name, t);
        for (size_t i = 0; i < packed.bytes * (kind == GY_CODEC_MXFP8 ? 1 : 2); i++, coded++) {
            unsigned a = kind == GY_CODEC_MXFP8 ? raw[0][i] : raw[0][i / 2] >> 4 * (i % 2) & 15;
            unsigned b = kind == GY_CODEC_MXFP8 ? packed.p[i] : packed.p[i / 2] >> 4 * (i % 2) & 15;
            if (a == b) continue;
            /* The quotient, through a decode of scale and code 1 (nvfp4 2: the value 1). */
            uint8_t one[16] = {0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22,
                               0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22};
            gy_rows u = {.c = c,
                         .rows = 1,
                         .cols = group,
                         .global = 1,
                         .plane = {one, raw[1] + i / (size_t)group}};
            float s[32];
            gy_codecs[kind].decode(&u, 0, s);
            float q = round_to(real_at(w.p, i, type) / s[0], type);
            if (kind == GY_CODEC_MXFP8 || !even_tie(q, a, b))
                fail_msg("%s %s: code %zu is %u, not %u", name, t, i, a, b);
            ties++;
        }
        free(raw[0]);
        free(raw[1]);
    }
    printf("%s: %d rows decoded; %d codes encoded, of which %d fp4 ties go to the even code\n",
           name, rows, coded, ties);
    vectors_close(&v);
}

static void mxfp(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/index.json");
    mxfp_one("mxfp4", GY_CODEC_MXFP4, 32);
    mxfp_one("mxfp8", GY_CODEC_MXFP8, 32);
    mxfp_one("nvfp4", GY_CODEC_NVFP4, 16);
}

static void gguf(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/index.json");
    vectors v = vectors_open("gguf_blocks");
    int types = 0, count = 0;
    for (int kind = GY_CODEC_Q4_0; kind <= GY_CODEC_MXFP4_GGUF; kind++, types++) {
        const char *name = gy_codecs[kind].name;
        tensor blocks = get(&v, "%s.blocks", name), want = get(&v, "%s.f32", name);
        gy_rows m = rows_of((gy_cparm){.kind = (uint8_t)kind}, blocks.rows, want.cols,
                            (uint8_t *[3]){(uint8_t *)blocks.p, NULL, NULL});
        assert_int_equal(m.step[0], blocks.cols);
        float y[256];
        for (int r = 0; r < blocks.rows; r++, count++) {
            gy_codecs[kind].decode(&m, r, y);
            for (int i = 0; i < want.cols; i++) {
                if (!same(y[i], real_at(want.p, (size_t)(r * want.cols + i), GY_CODEC_F32))) {
                    fail_msg("%s block %d value %d is %g", name, r, i, y[i]);
                }
            }
        }
    }
    printf("gguf: %d of 12 types, %d blocks decoded\n", types, count);
    vectors_close(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(affine), cmocka_unit_test(mxfp),
                                       cmocka_unit_test(gguf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
