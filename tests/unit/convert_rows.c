/* Conversion of tensors to MLX form: for every GGUF type with an exact form, the converted rows
 * have the values of the source (exact arithmetic) and its codes, steps and offsets (fast
 * arithmetic), bit for bit; everything else is refused by name. And the safetensors writer, read
 * back. */
#include "testlib.h"

#include "base/num.h"
#include "codec/codec.h"
#include "model/convert.h"

enum { ROWS = 6, COLS = 512, CHUNKS = COLS / 32 };

typedef struct {
    const char *name;
    gy_ttype type;
    uint8_t kind, bits;
    uint16_t halves[2]; /* offsets of f16 fields in a block; 0xFFFF: none */
} type_case;

static const type_case cases[] = {
    {"Q4_0", GY_T_Q4_0, GY_CODEC_Q4_0, 4, {0, 0xFFFF}},
    {"Q4_1", GY_T_Q4_1, GY_CODEC_Q4_1, 4, {0, 2}},
    {"Q5_0", GY_T_Q5_0, GY_CODEC_Q5_0, 5, {0, 0xFFFF}},
    {"Q5_1", GY_T_Q5_1, GY_CODEC_Q5_1, 5, {0, 2}},
    {"Q8_0", GY_T_Q8_0, GY_CODEC_Q8_0, 8, {0, 0xFFFF}},
    {"Q4_K", GY_T_Q4_K, GY_CODEC_Q4_K, 4, {0, 2}},
    {"Q5_K", GY_T_Q5_K, GY_CODEC_Q5_K, 5, {0, 2}},
    {"MXFP4", GY_T_MXFP4, GY_CODEC_MXFP4_GGUF, 4, {0xFFFF, 0xFFFF}},
};

/* Random blocks with finite scales; large: some that f16 biases cannot hold. */
static uint8_t *random_blocks(const type_case *c, bool large, uint64_t *seed, size_t *bytes) {
    int block_bytes, block = gy_ttype_block(c->type, &block_bytes);
    *bytes = (size_t)(ROWS * COLS / block * block_bytes);
    uint8_t *p = malloc(*bytes);
    for (size_t i = 0; i < *bytes; i++) p[i] = (uint8_t)(test_rand(seed) >> 7);
    for (size_t at = 0; at < *bytes; at += (size_t)block_bytes) {
        for (int k = 0; k < 2; k++) {
            float v =
                test_uniform(seed) * (test_rand(seed) % 5 ? 0.03f : 1e-6f); /* subnormals too */
            if (large && at == 0) v = 60000;
            uint16_t h = gy_f32_f16(v);
            if (c->halves[k] != 0xFFFF) memcpy(p + at + c->halves[k], &h, 2);
        }
        if (c->type == GY_T_MXFP4) p[at] = (uint8_t)(test_rand(seed) % 255);
    }
    return p;
}

static gy_rows view(gy_cparm c, uint8_t *a, uint8_t *s, uint8_t *z) {
    gy_rows m = {.c = c, .rows = ROWS, .cols = COLS, .global = 1, .plane = {a, s, z}};
    size_t bytes[3];
    assert_true(gy_codecs[c.kind].fits(c, COLS));
    gy_codecs[c.kind].bytes(c, COLS, bytes);
    for (int p = 0; p < 3; p++) m.step[p] = (ptrdiff_t)bytes[p];
    return m;
}

/* Equal values; the sign of a zero cannot change a sum and may differ. */
static bool same(const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++) {
        if (gy_f32_bits(a[i]) != gy_f32_bits(b[i]) && !(a[i] == 0 && b[i] == 0)) return false;
    }
    return true;
}

static void same_bits(const type_case *c, const gy_rows *a, const gy_rows *b) {
    static float x[COLS], y[COLS], s[2][2 * CHUNKS], z[2][2 * CHUNKS];
    static int8_t code[2][COLS];
    for (int r = 0; r < ROWS; r++) {
        gy_codecs[a->c.kind].decode(a, r, x);
        gy_codecs[b->c.kind].decode(b, r, y);
        if (!same(x, y, COLS)) fail_msg("%s row %d: values differ", c->name, r);
        gy_codec_int(a, r, 0, CHUNKS, (gy_intform){code[0], s[0], z[0]});
        gy_codec_int(b, r, 0, CHUNKS, (gy_intform){code[1], s[1], z[1]});
        if (memcmp(code[0], code[1], COLS)) fail_msg("%s row %d: codes differ", c->name, r);
        if (!same(s[0], s[1], 2 * CHUNKS)) fail_msg("%s row %d: steps differ", c->name, r);
        if (!same(z[0], z[1], 2 * CHUNKS)) fail_msg("%s row %d: offsets differ", c->name, r);
    }
}

static void one_type(const type_case *c, bool large, uint64_t *seed) {
    gy_tensor t = {.name = "blk.0.x.weight", .type = c->type, .dims = 2, .shape = {ROWS, COLS}};
    uint8_t *blocks = random_blocks(c, large, seed, &t.bytes);
    t.data = blocks;
    gy_convert_tensor planned[3];
    gy_convert_list list = {.at = planned};
    gy_arena arena = {0};
    gy_err err = {0};
    assert_ok(gy_convert_plan(&list, &arena, &t, "m.x.weight", false, &err), err);
    bool mx = c->type == GY_T_MXFP4;
    assert_int_equal(list.n, mx ? 2 : 3);
    static const char *const names[] = {"m.x.weight", "m.x.scales", "m.x.biases"};
    uint8_t *plane[3] = {0};
    void *scratch = malloc(gy_convert_scratch(&planned[0]));
    for (int p = 0; p < list.n; p++) {
        assert_string_equal(planned[p].name, names[p]);
        size_t row = gy_convert_row_bytes(&planned[p]);
        plane[p] = malloc(row * ROWS);
        for (int r = 0; r < ROWS; r++)
            gy_convert_row(&planned[p], r, plane[p] + row * (size_t)r, scratch);
    }
    gy_cparm to = {
        .kind = GY_CODEC_AFFINE, .bits = c->bits, .stype = planned[1].stype, .group = 32};
    if (mx) to = (gy_cparm){.kind = GY_CODEC_MXFP4};
    gy_rows a = view((gy_cparm){.kind = c->kind}, blocks, NULL, NULL),
            b = view(to, plane[0], plane[1], plane[2]);
    same_bits(c, &a, &b);
    if (c->halves[1] == 2 && c->kind < GY_CODEC_Q8_0)
        assert_int_equal(planned[1].stype, GY_CODEC_F16); /* d, m as they are */
    if (large && c->halves[1] == 0xFFFF && !mx) assert_int_equal(planned[1].stype, GY_CODEC_F32);
    for (int p = 0; p < 3; p++) free(plane[p]);
    free(scratch);
    free(blocks);
    gy_arena_free(&arena);
}

static void every_exact_type(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int turn = 0; turn < 20; turn++) one_type(&cases[i], turn % 2, &seed);
    }
    printf("converted types: %zu\n", sizeof cases / sizeof *cases);
}

static void dense_is_copied(void **state) {
    (void)state;
    float norm[4] = {1.5f, -0.25f, 1 + 0x1p-20f, 3.75f}, odd[4] = {0.1f, 1, 1, 1}, got[4];
    gy_convert_tensor planned[1];
    gy_arena arena = {0};
    gy_err err = {0};
    gy_tensor t = {.name = "output_norm.weight",
                   .type = GY_T_F32,
                   .dims = 1,
                   .shape = {4},
                   .data = (uint8_t *)norm,
                   .bytes = 16};
    for (int minus1 = 0; minus1 < 2; minus1++) {
        gy_convert_list list = {.at = planned};
        assert_ok(gy_convert_plan(&list, &arena, &t, "model.norm.weight", minus1, &err), err);
        assert_int_equal(gy_convert_rows(planned), 1);
        assert_int_equal(gy_convert_row_bytes(planned), 16);
        gy_convert_row(planned, 0, (uint8_t *)got, NULL);
        for (int i = 0; i < 4; i++) assert_true(got[i] == norm[i] - (float)minus1);
    }
    t.data = (uint8_t *)odd; /* 1 + (0.1f - 1) is not 0.1f */
    gy_convert_list list = {.at = planned};
    assert_int_equal(gy_convert_plan(&list, &arena, &t, "model.norm.weight", true, &err),
                     GY_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "output_norm.weight"));
    gy_arena_free(&arena);
}

static void refuses_by_name(void **state) {
    (void)state;
    static uint8_t zeros[4096];
    static const gy_ttype none[] = {GY_T_Q2_K,   GY_T_Q3_K,  GY_T_Q6_K, GY_T_IQ4_NL,
                                    GY_T_IQ4_XS, GY_T_NVFP4, GY_T_OTHER};
    gy_convert_tensor planned[3];
    gy_arena arena = {0};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        gy_convert_list list = {.at = planned};
        gy_err err = {0};
        gy_tensor t = {.name = "blk.7.y.weight",
                       .type = none[i],
                       .dims = 2,
                       .shape = {1, 256},
                       .data = zeros,
                       .bytes = 256};
        gy_rc rc = gy_convert_plan(&list, &arena, &t, "y.weight", false, &err);
        if (rc != GY_EUNSUPPORTED || !strstr(err.msg, "blk.7.y.weight"))
            fail_msg("%s: %s", gy_ttype_name(none[i]), err.msg);
    }
    uint8_t mx[17] = {255}, inf[18] = {0, 0x7C};
    const struct {
        const char *name;
        gy_ttype type;
        uint8_t *data;
        size_t bytes;
        int64_t shape1;
        int dims;
    } bad[] = {{"mxfp4 of 2^128", GY_T_MXFP4, mx, 17, 32, 2},
               {"infinite scale", GY_T_Q4_0, inf, 18, 32, 2},
               {"quantised vector", GY_T_Q4_0, zeros, 18, 32, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gy_convert_list list = {.at = planned};
        gy_err err = {0};
        gy_tensor t = {.name = "q.weight",
                       .type = bad[i].type,
                       .dims = bad[i].dims,
                       .shape = {1, bad[i].shape1},
                       .data = bad[i].data,
                       .bytes = bad[i].bytes};
        if (bad[i].dims == 1) t.shape[0] = 32;
        gy_rc rc = gy_convert_plan(&list, &arena, &t, "q.weight", false, &err);
        if (rc != GY_EUNSUPPORTED || !strstr(err.msg, "q.weight"))
            fail_msg("%s: %d %s", bad[i].name, rc, err.msg);
    }
    gy_arena_free(&arena);
}

static bool count_and_stop(void *arg, const char *what, uint64_t done, uint64_t total) {
    assert_true(what && done <= total);
    return --*(int *)arg != 0;
}

/* One file, several shards, and a caller who stops. */
static void written_files_are_read_back(void **state) {
    (void)state;
    char dir[] = "/tmp/gy_convert_XXXXXX";
    assert_non_null(mkdtemp(dir));
    float data[3][8];
    gy_tensor src[3];
    gy_convert_tensor at[3];
    static const char *const names[] = {"a", "b.weight", "c\"d"};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 8; k++) data[i][k] = (float)(10 * i + k);
        src[i] = (gy_tensor){
            .type = GY_T_F32, .dims = 2, .shape = {2, 4}, .data = (uint8_t *)data[i], .bytes = 32};
        at[i] = (gy_convert_tensor){
            .name = names[i], .dtype = "F32", .dims = 2, .shape = {2, 4}, .src = &src[i]};
    }
    gy_convert_list list = {at, 3};
    static const uint64_t limits[] = {1000, 64, 40, 1};
    for (int l = 0; l < 4; l++) {
        gy_err err = {0};
        gy_tensors t = {0};
        char path[200];
        assert_ok(gy_convert_write(dir, &list, limits[l], NULL, NULL, &err), err);
        assert_ok(gy_tensors_open_dir(&t, dir, &err), err);
        assert_int_equal(t.n, 3);
        assert_int_equal(t.files, l == 0 ? 1 : l == 1 ? 2 : 3);
        for (int i = 0; i < 3; i++) {
            const gy_tensor *x = gy_tensors_find(&t, names[i]);
            assert_non_null(x);
            assert_int_equal(x->bytes, 32);
            assert_memory_equal(x->data, data[i], 32);
        }
        gy_tensors_close(&t);
        snprintf(path, sizeof path, "rm -f %s/*", dir);
        assert_int_equal(system(path), 0);
    }
    int left = 2;
    gy_err err = {0};
    assert_int_equal(gy_convert_write(dir, &list, 1000, count_and_stop, &left, &err), GY_ECANCEL);
    assert_int_equal(gy_convert_write("/nonexistent", &list, 1000, NULL, NULL, NULL), GY_EIO);
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exact_type), cmocka_unit_test(dense_is_copied),
        cmocka_unit_test(refuses_by_name), cmocka_unit_test(written_files_are_read_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
