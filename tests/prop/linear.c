/* The dense products: every instruction set, tile, row chunking and thread count gives the bits of
 * the rule in cpu/linear.h, which is written once more here, in the plainest form, as the
 * reference. */
#include <math.h>

#include "base/mem.h"
#include "base/num.h"
#include "isas.h"
#include "testlib.h"

static uint64_t rng;

typedef struct {
    const char *label;
    gy_cparm c;
} kind_case;

#define AFF(b, g, t)                                                                               \
    {                                                                                              \
        "affine" #b "/" #g "/" #t, {                                                               \
            GY_CODEC_AFFINE, b, GY_CODEC_##t, g                                                    \
        }                                                                                          \
    }
#define KIND(k)                                                                                    \
    {                                                                                              \
#k, {                                                                                      \
            GY_CODEC_##k, 0, 0, 0                                                                  \
        }                                                                                          \
    }
static const kind_case kinds[] = {
    KIND(F32),        KIND(F16),        KIND(BF16),       AFF(2, 32, BF16), AFF(2, 64, F16),
    AFF(3, 64, BF16), AFF(3, 128, F32), AFF(4, 32, F32),  AFF(4, 64, BF16), AFF(4, 64, F16),
    AFF(4, 128, F16), AFF(5, 64, BF16), AFF(5, 32, F16),  AFF(6, 64, BF16), AFF(6, 32, F32),
    AFF(8, 32, F32),  AFF(8, 64, BF16), AFF(8, 128, F16), KIND(MXFP4),      KIND(MXFP8),
    KIND(NVFP4),      KIND(Q4_0),       KIND(Q4_1),       KIND(Q5_0),       KIND(Q5_1),
    KIND(Q8_0),       KIND(Q2_K),       KIND(Q3_K),       KIND(Q4_K),       KIND(Q5_K),
    KIND(Q6_K),       KIND(IQ4_NL),     KIND(MXFP4_GGUF),
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Random weights ---- */

static float gauss(void) {
    float s = 0;
    for (int i = 0; i < 6; i++) s += test_uniform(&rng);
    return s * 0.7f;
}

/* Where the f16 fields of a GGUF block lie; 0 is a first field, -1 none. */
static void sane_halves(uint8_t kind, uint8_t *b) {
    int at[2] = {0, -1};
    switch (kind) {
    case GY_CODEC_Q4_1:
    case GY_CODEC_Q5_1:
    case GY_CODEC_Q4_K:
    case GY_CODEC_Q5_K: at[1] = 2; break;
    case GY_CODEC_Q2_K: at[0] = 80, at[1] = 82; break;
    case GY_CODEC_Q3_K: at[0] = 108; break;
    case GY_CODEC_Q6_K: at[0] = 208; break;
    case GY_CODEC_MXFP4_GGUF: b[0] = (uint8_t)(118 + test_rand(&rng) % 6), at[0] = -1; break;
    default: break;
    }
    for (int i = 0; i < 2; i++) {
        if (at[i] < 0) continue;
        uint16_t h = gy_f32_f16(gauss() * 0.01f);
        memcpy(b + at[i], &h, 2);
    }
}

/* rows x cols random weights in memory that ends exactly where the data ends. */
static gy_weight make(gy_cparm c, int rows, int cols) {
    gy_weight w = {.file = {.c = c, .rows = rows, .cols = cols, .global = 1}};
    size_t bytes[3];
    assert_true(gy_codecs[c.kind].fits(c, cols));
    gy_codecs[c.kind].bytes(c, cols, bytes);
    for (int p = 0; p < 3; p++) {
        if (!bytes[p]) continue;
        w.file.step[p] = (ptrdiff_t)bytes[p];
        w.file.plane[p] = malloc(bytes[p] * (size_t)rows);
    }
    if (c.kind == GY_CODEC_NVFP4) w.file.global = 0.37f;
    float *x = malloc((size_t)cols * sizeof *x);
    for (int r = 0; r < rows; r++) {
        if (gy_codecs[c.kind].encode) {
            for (int i = 0; i < cols; i++) x[i] = gauss() + (i / 32 % 3 ? 0.0f : 0.2f);
            gy_codecs[c.kind].encode(&w.file, r, x);
        } else {
            uint8_t *b = (uint8_t *)w.file.plane[0] + (size_t)r * bytes[0];
            for (size_t i = 0; i < bytes[0]; i++) b[i] = (uint8_t)(test_rand(&rng) >> 8);
            size_t one[3];
            gy_codecs[c.kind].bytes(c, gy_codecs[c.kind].block, one);
            for (size_t i = 0; i < bytes[0]; i += one[0]) sane_halves(c.kind, b + i);
        }
    }
    free(x);
    return w;
}

static void drop(gy_weight *w) {
    for (int p = 0; p < 3; p++) free(w->file.plane[p]);
    free((void *)(uintptr_t)w->bias);
}

static float *make_x(int rows, int cols) {
    float *x = malloc((size_t)rows * (size_t)cols * sizeof *x);
    for (int i = 0; i < rows * cols; i++)
        x[i] = gauss() * (i / 32 % 5 == 4 ? 0.0f : i / 32 % 7 == 6 ? 30.0f : 1.0f);
    return x;
}

/* ---- The rule, in the plainest form ---- */

static void ref_exact(const gy_weight *w, const float *x, int rows, float *y) {
    int cols = w->file.cols, n = w->file.rows, padded = (cols + 15) / 16 * 16;
    float *v = calloc((size_t)padded, sizeof *v), *xp = calloc((size_t)padded, sizeof *xp);
    for (int c = 0; c < n; c++) {
        gy_codecs[w->file.c.kind].decode(&w->file, c, v);
        for (int r = 0; r < rows; r++) {
            memcpy(xp, x + (size_t)r * (size_t)cols, (size_t)cols * sizeof *x);
            float l[16] = {0};
            for (int k = 0; k < padded; k++) l[k % 16] = fmaf(xp[k], v[k], l[k % 16]);
            for (int i = 0; i < 8; i++) l[i] += l[i + 8];
            y[r * n + c] = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
        }
    }
    free(v), free(xp);
}

static float code_chunk(const float *x, int *q) {
    float amax = 0;
    for (int k = 0; k < 32; k++) amax = fabsf(x[k]) > amax ? fabsf(x[k]) : amax;
    float up = amax > 0 ? 127.0f / amax : 0;
    for (int k = 0; k < 32; k++) q[k] = (int)lrintf(x[k] * up);
    return amax / 127.0f;
}

static void ref_fast(const gy_weight *w, const float *x, int rows, float *y) {
    int cols = w->file.cols, n = w->file.rows, chunks = cols / 32;
    gy_intkind kind = gy_codec_intkind(w->file.c);
    gy_intform f = {malloc((size_t)cols), malloc((size_t)chunks * 8), malloc((size_t)chunks * 8)};
    for (int c = 0; c < n; c++) {
        gy_codec_int(&w->file, c, 0, chunks, f);
        for (int r = 0; r < rows; r++) {
            float l[8] = {0};
            for (int j = 0; j < chunks; j++) {
                int q[32], parts = kind.sub16 ? 2 : 1, len = 32 / parts;
                float d = code_chunk(x + (size_t)r * (size_t)cols + 32 * j, q);
                for (int h = 0; h < parts; h++) {
                    int dot = 0, sum = 0;
                    for (int k = h * len; k < (h + 1) * len; k++)
                        dot += f.code[32 * j + k] * q[k], sum += q[k];
                    float sd = f.s[2 * j + h] * d, ds = d * (float)sum;
                    l[j % 8] = fmaf(sd, (float)dot, l[j % 8]);
                    if (kind.offset) l[j % 8] = fmaf(f.z[2 * j + h], ds, l[j % 8]);
                }
            }
            y[r * n + c] = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
        }
    }
    free(f.code), free(f.s), free(f.z);
}

static void reference(const gy_weight *w, bool fast, const float *x, int rows, float *y) {
    if (fast && gy_linear_is_coded(&w->file)) {
        ref_fast(w, x, rows, y);
    } else {
        ref_exact(w, x, rows, y);
    }
    for (int r = 0; w->bias && r < rows; r++) {
        for (int c = 0; c < w->file.rows; c++) y[r * w->file.rows + c] += w->bias[c];
    }
}

static void assert_same(const float *a, const float *b, int rows, int n, const char *what,
                        const char *label, int cols) {
    if (!memcmp(a, b, (size_t)rows * (size_t)n * sizeof *a)) return;
    for (int i = 0; i < rows * n; i++) {
        if (gy_f32_bits(a[i]) != gy_f32_bits(b[i]))
            fail_msg("%s %s, %d cols, %d rows: row %d column %d is %a, expected %a", label, what,
                     cols, rows, i / n, i % n, (double)a[i], (double)b[i]);
    }
}

/* ---- Kernels ---- */

static int compared[ISAS]; /* products of each set that were held against the rule */

/* Runs a table's kernel in steps of tile_n columns and tile_r rows. */
static void kernel(const gy_isa_table *isa, const gy_weight *w, bool fast, const float *x, int rows,
                   int tile_r, int tile_n, float *y) {
    int cols = w->file.cols, n = w->file.rows;
    void *scratch = gy_alloc_aligned(gy_linear_scratch(cols));
    gy_xrow *coded = calloc((size_t)rows, sizeof *coded);
    char **mem = calloc((size_t)rows, sizeof *mem);
    fast = fast && gy_linear_is_coded(&w->file);
    for (int r = 0; fast && r < rows; r++) {
        mem[r] = gy_alloc_aligned(gy_linear_coded(1, cols));
        memset(mem[r], 0x5A, gy_linear_coded(1, cols));
        coded[r] = gy_linear_xrow(mem[r], cols);
        isa->lin.code(x + (size_t)r * (size_t)cols, cols, coded[r]);
    }
    for (int r = 0; r < rows; r += tile_r) {
        int nr = rows - r < tile_r ? rows - r : tile_r;
        for (int c = 0; c < n; c += tile_n) {
            int nc = n - c < tile_n ? n - c : tile_n;
            if (fast) {
                isa->lin.fast(w, c, nc, coded + r, nr, y + r * n + c, n, scratch);
            } else {
                isa->lin.exact(w, c, nc, x + (size_t)r * (size_t)cols, cols, nr, y + r * n + c, n,
                               scratch);
            }
        }
    }
    for (int r = 0; r < rows; r++) gy_free(mem[r]);
    free(mem), free(coded), gy_free(scratch);
}

static void compare(const char *label, const gy_weight *w, const float *x, int rows, bool fast) {
    const int cols = w->file.cols, n = w->file.rows;
    float *want = calloc((size_t)(rows * n), sizeof *want),
          *got = calloc((size_t)(rows * n), sizeof *got);
    reference(w, fast, x, rows, want);
    const int tiles[][2] = {{rows, n}, {1, n}, {3, 5}};
    for (int i = 0; i < ISAS; i++) {
        if (!isas[i]->usable()) continue;
        for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
            if (i == 0 && t) continue;
            char what[64];
            snprintf(what, sizeof what, "%s %s tile %d x %d", isas[i]->name,
                     fast ? "fast" : "exact", tiles[t][0], tiles[t][1]);
            memset(got, 0xA5, (size_t)(rows * n) * sizeof *got);
            kernel(isas[i], w, fast, x, rows, tiles[t][0], tiles[t][1], got);
            assert_same(got, want, rows, n, what, label, cols);
            compared[i]++;
        }
    }
    free(want), free(got);
}

static void check(const kind_case *k, int rows, int cols, int n, bool fast) {
    gy_weight w = make(k->c, n, cols);
    float *x = make_x(rows, cols);
    compare(k->label, &w, x, rows, fast);
    free(x);
    drop(&w);
}

static void kernels_follow_the_rule(void **state) {
    (void)state;
    static const int row_list[] = {1, 2, 3, 5, 8, 17, 64};
    for (int k = 0; k < KINDS; k++) {
        int unit = gy_codecs[kinds[k].c.kind].block;
        if (kinds[k].c.group > unit) unit = kinds[k].c.group;
        for (size_t i = 0; i < sizeof row_list / sizeof *row_list; i++) {
            int rows = row_list[i], n = 1 + (int)(test_rand(&rng) % 37), cols;
            for (int fast = 0; fast < 2; fast++) {
                cols = unit == 1 ? 1 + (int)(test_rand(&rng) % 300)
                                 : unit * (1 + (int)(test_rand(&rng) %
                                                     (unit > 128 ? 3 : 1100 / (unsigned)unit)));
                check(&kinds[k], rows, cols, n, fast);
            }
        }
    }
}

/* Kernels that take a long row in pieces. */
static void long_rows(void **state) {
    (void)state;
    const kind_case list[] = {KIND(F32), KIND(BF16), KIND(F16), KIND(Q8_0), AFF(4, 64, BF16)};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const int unit = i < 3 ? 1 : 64;
        for (int rows = 1; rows <= 13; rows++) {
            int cols = unit * (1 + (int)(test_rand(&rng) % (4000u / (unsigned)unit)));
            check(&list[i], rows, cols, 1 + (int)(test_rand(&rng) % 70), false);
            check(&list[i], rows, unit * (1024 / unit + rows), 5, false);
        }
    }
}

/* Negative products that underflow leave sums of -0, which a step of zeros past the end makes 0:
 * lanes must not leave it out. */
static void signs_of_zero(void **state) {
    (void)state;
    static const uint8_t plain[] = {GY_CODEC_F32, GY_CODEC_F16, GY_CODEC_BF16};
    static const int row_list[] = {1, 2, 3, 7, 18};
    int minus = 0;
    for (int cols = 1; cols <= 50; cols++) {
        for (size_t i = 0; i < 3 * sizeof row_list / sizeof *row_list; i++) {
            const int rows = row_list[i / 3], n = 1 + cols % 19;
            gy_weight w = make((gy_cparm){.kind = plain[i % 3]}, n, cols);
            float v[50], y[18 * 19], *x = malloc((size_t)(rows * cols) * sizeof *x);
            for (int k = 0; k < cols; k++) v[k] = -6e-8f;
            for (int r = 0; r < n; r++) gy_codecs[w.file.c.kind].encode(&w.file, r, v);
            for (int k = 0; k < rows * cols; k++) x[k] = 1e-40f;
            compare("1e-40 * -6e-8", &w, x, rows, false);
            reference(&w, false, x, rows, y);
            minus += gy_f32_bits(y[0]) == 0x80000000;
            free(x);
            drop(&w);
        }
    }
    assert_int_equal(minus, 50 / 16 * 15); /* where no zeros are added */
}

/* After kernels_follow_the_rule: a set that this machine lacks is told, and counted as skipped. */
static void every_set_was_compared(void **state) {
    (void)state;
    int missing = 0;
    for (int i = 0; i < ISAS; i++) {
        print_message("%s: %d products compared%s\n", isas[i]->name, compared[i],
                      isas[i]->usable() ? "" : ": not on this CPU");
        if (isas[i]->usable()) {
            assert_int_equal(compared[i], (i ? 3 : 1) * compared[0]);
            assert_true(compared[i] > 0);
        }
        missing += !isas[i]->usable();
    }
    if (!missing) return;
    print_message("SKIP: %d of %d instruction sets\n", missing, ISAS);
    skip();
}

/* Infinities and subnormals among the weights' scales and the activations: no NaN results are
 * compared. */
static void coding_of_edges(void **state) {
    (void)state;
    enum { COLS = 32 * 11 };
    float x[COLS];
    for (int i = 0; i < COLS; i++) x[i] = gauss();
    for (int i = 0; i < 32; i++) x[i] = i % 3 ? 0.0f : -0.0f;
    for (int i = 32; i < 64; i++) x[i] = 1e-41f * (float)(i - 40);
    for (int i = 64; i < 96; i++) x[i] = (float)(i - 80) * 0.5f; /* ties */
    x[64] = 127.0f;
    x[100] = INFINITY, x[130] = NAN, x[170] = 3e38f, x[171] = -3.4e38f, x[200] = -INFINITY,
    x[201] = NAN;
    gy_xrow row[ISAS];
    void *mem[ISAS];
    for (int i = 0; i < ISAS; i++) {
        mem[i] = gy_alloc_aligned(gy_linear_coded(1, COLS));
        memset(mem[i], 0x5A, gy_linear_coded(1, COLS));
        row[i] = gy_linear_xrow(mem[i], COLS);
        if (isas[i]->usable()) isas[i]->lin.code(x, COLS, row[i]);
    }
    for (int k = 64; k < 96; k++) assert_int_equal(row[0].q[k], (int)lrintf(x[k]));
    assert_int_equal(row[0].q[100], 0);
    assert_true(isinf(row[0].d[3]) && isnan(row[0].d[4]) && isnan(row[0].d[6]));
    for (int i = 1; i < ISAS; i++) {
        if (!isas[i]->usable()) continue;
        assert_memory_equal(row[0].q, row[i].q, COLS);
        assert_memory_equal(row[0].sum, row[i].sum, COLS / 32 * 8);
        for (int j = 0; j < COLS / 32; j++)
            assert_true(gy_f32_bits(row[0].d[j]) == gy_f32_bits(row[i].d[j]) || isnan(row[0].d[j]));
    }
    for (int i = 0; i < ISAS; i++) gy_free(mem[i]);
}

/* s * code + z is the decoded value up to the roundings of the three operations. */
static void integer_form_is_the_value(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        gy_intkind kind = gy_codec_intkind(kinds[k].c);
        if (!kind.has) continue;
        int cols = 512, chunks = cols / 32;
        gy_weight w = make(kinds[k].c, 3, cols);
        float v[512], s[32], z[32];
        int8_t code[512];
        for (int r = 0; r < 3; r++) {
            gy_codecs[kinds[k].c.kind].decode(&w.file, r, v);
            /* In two pieces: the parts of a row must not depend on where a call starts. */
            gy_codec_int(&w.file, r, 0, 5, (gy_intform){code, s, z});
            gy_codec_int(&w.file, r, 5, chunks - 5, (gy_intform){code + 160, s + 10, z + 10});
            for (int i = 0; i < cols; i++) {
                double a = (double)s[i / 16] * code[i], b = z[i / 16], ulp = ldexp(1, -23);
                if (!kind.offset && b != 0)
                    fail_msg("%s has z = %g but no offset", kinds[k].label, b);
                if (!kind.sub16 && s[i / 32 * 2] != s[i / 32 * 2 + 1])
                    fail_msg("%s: two steps", kinds[k].label);
                /* 8-bit: z + 128 s rounds once at the size of z or 128 s. */
                double size =
                    fabs(a) + fabs(b) + (kinds[k].c.bits == 8 ? 255 * fabs((double)s[i / 16]) : 0);
                if (fabs(a + b - v[i]) > 3 * ulp * size)
                    fail_msg("%s value %d: %g * %d + %g, expected %g", kinds[k].label, i,
                             (double)s[i / 16], code[i], b, (double)v[i]);
            }
        }
        drop(&w);
    }
}

/* |fast - exact| is bounded by the coding: each |x - d q| <= d / 2 (and half an ulp of the
 * products). */
static void fast_is_close(void **state) {
    (void)state;
    enum { COLS = 1024, N = 24, ROWS = 5 };
    for (int k = 0; k < KINDS; k++) {
        gy_weight w = make(kinds[k].c, N, COLS);
        if (!gy_linear_is_coded(&w.file)) {
            drop(&w);
            continue;
        }
        float *x = make_x(ROWS, COLS), fast[ROWS * N], exact[ROWS * N], v[COLS];
        kernel(gy_isa_find(NULL, NULL), &w, true, x, ROWS, ROWS, N, fast);
        ref_exact(&w, x, ROWS, exact);
        for (int c = 0; c < N; c++) {
            gy_codecs[kinds[k].c.kind].decode(&w.file, c, v);
            for (int r = 0; r < ROWS; r++) {
                double bound = 0, size = 0;
                for (int j = 0; j < COLS; j += 32) {
                    double amax = 0, sum = 0;
                    for (int i = j; i < j + 32; i++) {
                        amax = fmax(amax, fabs((double)x[r * COLS + i])), sum += fabs((double)v[i]);
                    }
                    bound += amax / 254 * sum, size += amax * sum;
                }
                bound = bound * 1.001 +
                        size * 1e-5; /* roundings of q near a tie; those of the float sums */
                if (fabs((double)fast[r * N + c] - exact[r * N + c]) > bound)
                    fail_msg("%s: fast %g, exact %g, bound %g", kinds[k].label,
                             (double)fast[r * N + c], (double)exact[r * N + c], bound);
            }
        }
        free(x);
        drop(&w);
    }
}

/* ---- The conversions that linear.h promises ---- */

/* The exact affine import (kv.md 2.6): g32, f32 scales. */
static gy_weight import(const gy_weight *w, int bits) {
    int rows = w->file.rows, cols = w->file.cols, chunks = cols / 32;
    gy_weight a = {.file = {.c = {GY_CODEC_AFFINE, (uint8_t)bits, GY_CODEC_F32, 32},
                            .rows = rows,
                            .cols = cols,
                            .global = 1}};
    size_t bytes[3];
    gy_codecs[GY_CODEC_AFFINE].bytes(a.file.c, cols, bytes);
    for (int p = 0; p < 3; p++) {
        a.file.step[p] = (ptrdiff_t)bytes[p];
        a.file.plane[p] = calloc((size_t)rows, bytes[p]);
    }
    int8_t *code = malloc((size_t)cols);
    float *s = malloc((size_t)chunks * 8), *z = malloc((size_t)chunks * 8);
    for (int r = 0; r < rows; r++) {
        gy_codec_int(&w->file, r, 0, chunks, (gy_intform){code, s, z});
        uint8_t *p = (uint8_t *)a.file.plane[0] + (size_t)r * bytes[0];
        for (int i = 0; i < cols; i++) {
            int q = bits == 8 ? code[i] + 128 : code[i];
            for (int b = 0; b < bits; b++) {
                if (q >> b & 1) p[(i * bits + b) / 8] |= (uint8_t)(1 << (i * bits + b) % 8);
            }
        }
        for (int j = 0; j < chunks; j++) {
            float zj = bits == 8 ? -128.0f * s[2 * j] : z[2 * j];
            memcpy((char *)a.file.plane[1] + (size_t)r * bytes[1] + 4 * (size_t)j, &s[2 * j], 4);
            memcpy((char *)a.file.plane[2] + (size_t)r * bytes[2] + 4 * (size_t)j, &zj, 4);
        }
    }
    free(code), free(s), free(z);
    return a;
}

static void imports_give_equal_bits(void **state) {
    (void)state;
    static const struct {
        uint8_t kind, bits;
    } list[] = {{GY_CODEC_Q4_0, 4}, {GY_CODEC_Q4_1, 4}, {GY_CODEC_Q5_0, 5}, {GY_CODEC_Q5_1, 5},
                {GY_CODEC_Q8_0, 8}, {GY_CODEC_Q4_K, 4}, {GY_CODEC_Q5_K, 5}};
    enum { COLS = 768, N = 11, ROWS = 9 };
    float *x = make_x(ROWS, COLS), a[ROWS * N], b[ROWS * N];
    const gy_isa_table *isa = gy_isa_find(NULL, NULL);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        gy_weight w = make((gy_cparm){.kind = list[i].kind}, N, COLS), m = import(&w, list[i].bits);
        for (int fast = 0; fast < 2; fast++) {
            kernel(isa, &w, fast, x, ROWS, ROWS, N, a);
            kernel(isa, &m, fast, x, ROWS, ROWS, N, b);
            assert_same(a, b, ROWS, N, fast ? "import, fast" : "import, exact",
                        gy_codecs[list[i].kind].name, COLS);
        }
        drop(&w), drop(&m);
    }
    free(x);
}

/* ---- The driver ---- */

static void no_finish(float *y, int n, float a, float cap) {
    (void)cap;
    for (int i = 0; i < n; i++) y[i] *= a;
}

static void driver_case(const kind_case *const k[3], const int n[3], int cols, int rows,
                        int threads, bool fast, float scale) {
    gy_err err = {0};
    gy_weight w[3];
    gy_op op = {.kind = scale == 1 ? GY_OP_LINEAR : GY_OP_LOGITS};
    op.u.logits.a = scale;
    int outs = 0, weights = 0;
    for (; weights < 3 && k[weights]; weights++) {
        w[weights] = make(k[weights]->c, n[weights], cols);
        if (weights != 1) {
            float *bias = malloc((size_t)n[weights] * sizeof *bias);
            for (int i = 0; i < n[weights]; i++) bias[i] = gauss();
            w[weights].bias = bias;
        }
        op.w[weights] = &w[weights];
        outs += n[weights];
    }
    gy_linear_env env = {.isa = &gy_isa_find(NULL, NULL)->lin, .finish = no_finish};
    env.arith = fast ? GY_BE_FAST : GY_BE_EXACT;
    assert_ok(gy_pool_new(threads, &env.pool, &err), err);
    env.scratch_bytes = gy_linear_scratch(cols);
    env.scratch = gy_alloc_aligned(env.scratch_bytes * (size_t)threads);
    env.coded = gy_alloc_aligned(gy_linear_coded(rows, cols));
    float *x = make_x(rows, cols), *y = calloc((size_t)(rows * outs), sizeof *y);
    gy_linear_run(&env, &op, x, cols, rows, y, outs);
    for (int i = 0, c0 = 0; i < weights; c0 += n[i], i++) {
        float *want = calloc((size_t)(rows * n[i]), sizeof *want),
              *got = calloc((size_t)(rows * n[i]), sizeof *got);
        reference(&w[i], fast, x, rows, want);
        for (int r = 0; r < rows; r++) {
            memcpy(got + r * n[i], y + r * outs + c0, (size_t)n[i] * sizeof *got);
            for (int c = 0; scale != 1 && c < n[i]; c++) want[r * n[i] + c] *= scale;
        }
        char what[80];
        snprintf(what, sizeof what, "driver %s, %d threads, weight %d", fast ? "fast" : "exact",
                 threads, i);
        assert_same(got, want, rows, n[i], what, k[i]->label, cols);
        free(want), free(got);
        drop(&w[i]);
    }
    free(x), free(y), gy_free(env.scratch), gy_free(env.coded);
    gy_pool_free(env.pool);
}

static void driver_gives_the_same(void **state) {
    (void)state;
    const kind_case q4 = KIND(Q4_K), q6 = KIND(Q6_K), h = KIND(BF16), a4 = AFF(4, 64, BF16),
                    q8 = KIND(Q8_0);
    const kind_case *const mixed[3] = {&q4, &q6, &h}, *const one[3] = {&a4},
                           *const two[3] = {&q8, &h};
    const int n[3] = {70, 33, 17}, big[3] = {900, 0, 0};
    for (int threads = 1; threads <= 3; threads++) {
        for (int fast = 0; fast < 2; fast++) {
            driver_case(mixed, n, 256, 1, threads, fast, 1);
            driver_case(mixed, n, 512, 7, threads, fast, 1);
            driver_case(one, big, 256, 1, threads, fast, 0.25f);
            driver_case(one, n, 128, 210, threads, fast, 1);
            driver_case(two, n, 96, 2, threads, fast, 1);
        }
    }
}

static int set_up(void **state) {
    (void)state;
    rng = test_seed();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_form_is_the_value),
        cmocka_unit_test(coding_of_edges),
        cmocka_unit_test(kernels_follow_the_rule),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(signs_of_zero),
        cmocka_unit_test(every_set_was_compared),
        cmocka_unit_test(fast_is_close),
        cmocka_unit_test(imports_give_equal_bits),
        cmocka_unit_test(driver_gives_the_same),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
