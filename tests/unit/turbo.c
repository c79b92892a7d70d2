/* What codec.h and turbo.h promise of the turbo codecs, beyond the vectors: finite values whatever
 * comes in, error bounds of keys, the turn, and tables that are what they say. */
#include "testlib.h"

#include <math.h>

#include "base/num.h"
#include "codec/turbo.h"

static const int dims[] = {64, 128, 256, 512};

typedef struct {
    uint8_t raw[3][GY_TURBO_MAX];
    gy_rows m;
} row;

static void row_init(row *r, gy_cparm c, int dim) {
    size_t bytes[3];
    char name[32];
    if (!gy_codecs[c.kind].fits(c, dim)) fail_msg("%s x %d", gy_cparm_name(c, name), dim);
    gy_codecs[c.kind].bytes(c, dim, bytes);
    memset(r->raw, 0, sizeof r->raw);
    r->m = (gy_rows){.c = c, .rows = 1, .cols = dim, .global = 1};
    for (int p = 0; p < 3; p++)
        if (bytes[p]) r->m.plane[p] = r->raw[p], r->m.step[p] = (ptrdiff_t)bytes[p];
}

static int codecs(gy_cparm out[16]) {
    int n = 0;
    for (uint8_t kind = GY_CODEC_TURBO_K; kind <= GY_CODEC_TURBOX_V; kind++) {
        for (uint8_t b = 0; b < 16; b++) {
            gy_cparm c = {.kind = kind, .bits = b};
            if (gy_codecs[kind].fits(c, 64)) out[n++] = c;
        }
    }
    return n;
}

/* Sum of twelve uniform numbers: near enough to normal. */
static float normal(uint64_t *seed) {
    float s = 0;
    for (int i = 0; i < 12; i++) s += test_uniform(seed);
    return s * 0.5f;
}

static void fits_and_sizes(void **state) {
    (void)state;
    gy_cparm all[16];
    int n = codecs(all);
    assert_int_equal(n, 4 + 5 + 3);
    for (int i = 0; i < n; i++) {
        for (int d = -32; d <= 1024; d += 16) {
            bool want = d == 64 || d == 128 || d == 256 || d == 512;
            if (gy_codecs[all[i].kind].fits(all[i], d) != want) fail_msg("codec %d x %d", i, d);
        }
        gy_cparm c = all[i];
        c.group = 32;
        assert_false(gy_codecs[c.kind].fits(c, 64));
        c.group = 0, c.stype = GY_CODEC_F16;
        assert_false(gy_codecs[c.kind].fits(c, 64));
        c.stype = 0, c.kind = GY_CODEC_TURBO_K + (c.kind == GY_CODEC_TURBO_K);
        assert_false(gy_codecs[all[i].kind].fits(c, 64) && c.kind != all[i].kind);
    }
    /* kv.md 3.4, D = 128. */
    const struct {
        uint8_t k, v;
        size_t bytes;
    } sizes[] = {{8, 8, 280}, {8, 4, 216}, {8, 3, 200}, {8, 2, 184}, {5, 3, 152},
                 {4, 4, 152}, {4, 3, 136}, {4, 2, 120}, {2, 2, 88}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t k[3], v[3];
        gy_codecs[GY_CODEC_TURBO_K].bytes((gy_cparm){GY_CODEC_TURBO_K, sizes[i].k, 0, 0}, 128, k);
        gy_codecs[GY_CODEC_TURBO_V].bytes((gy_cparm){GY_CODEC_TURBO_V, sizes[i].v, 0, 0}, 128, v);
        if (k[0] + k[1] + k[2] + v[0] + v[1] + v[2] != sizes[i].bytes)
            fail_msg("turbo k%dv%d", sizes[i].k, sizes[i].v);
    }
    char name[32];
    assert_string_equal(gy_cparm_name((gy_cparm){GY_CODEC_TURBO_K, 8, 0, 0}, name), "turbo k8");
    assert_string_equal(gy_cparm_name((gy_cparm){GY_CODEC_TURBOX_V, 4, 0, 0}, name), "turbox v4");
}

/* The row that a hard row must be coded as: not a number and infinities are 0. */
static void hard_values_stay_finite(void **state) {
    (void)state;
    const float inf = INFINITY, nan = gy_bits_f32(0x7FC00001), top = 3.4e38f;
    const float hard[][4] = {{nan, 1, 2, 3},
                             {inf, -inf, nan, 1},
                             {top, top, top, top},
                             {-top, -top, -top, -top},
                             {top, -top, 0, 1},
                             {1e10f, 1e10f, 1e10f, 1e10f},
                             {-7e4f, -7e4f, -7e4f, -7e4f},
                             {1e-45f, 0, -1e-45f, 0},
                             {-0.0f, 0, -0.0f, 0},
                             {1e-8f, 1e-8f, 1e-8f, 1e-8f},
                             {65504, -65504, 65536, 1e6f},
                             {1e20f, 1, -1e20f, 1},
                             {3e9f, 3e9f, 3e9f, 3e9f}};
    gy_cparm all[16];
    int n = codecs(all);
    static row a, b;
    for (int i = 0; i < n; i++) {
        const gy_codec *codec = &gy_codecs[all[i].kind];
        for (int d = 0; d < 4; d++) {
            for (size_t h = 0; h < sizeof hard / sizeof *hard; h++) {
                float x[GY_TURBO_MAX], y[GY_TURBO_MAX];
                for (int k = 0; k < dims[d]; k++) x[k] = hard[h][k % 4];
                row_init(&a, all[i], dims[d]);
                codec->encode(&a.m, 0, x);
                codec->decode(&a.m, 0, y);
                if (codec->turn) codec->turn(all[i], y, dims[d], true);
                for (int k = 0; k < dims[d]; k++)
                    if (!isfinite(y[k])) fail_msg("codec %d, hard row %zu: %g", i, h, y[k]);
                for (int k = 0; k < dims[d]; k++) x[k] = isfinite(x[k]) ? x[k] : 0;
                row_init(&b, all[i], dims[d]);
                codec->encode(&b.m, 0, x);
                if (memcmp(a.raw, b.raw, sizeof a.raw)) fail_msg("codec %d, hard row %zu", i, h);
            }
        }
    }
}

/* Keys: half a step and the rounding of scale and zero to f16; the middle where f16 has no word for
 * the group (kv.md 3.3.6). */
static void keys_are_near(void **state) {
    (void)state;
    static const uint8_t bits[] = {2, 4, 5, 8};
    static row a;
    uint64_t seed = test_seed();
    int guarded = 0, groups = 0;
    for (int turn = 0; turn < 4000; turn++) {
        gy_cparm c = {.kind = GY_CODEC_TURBO_K, .bits = bits[turn % 4]};
        float x[64], y[64];
        float size = ldexpf(1, (int)(test_rand(&seed) % 40) - 25),
              offset =
                  turn % 3 ? test_uniform(&seed) * ldexpf(1, (int)(test_rand(&seed) % 30) - 12) : 0;
        for (int i = 0; i < 64; i++) x[i] = test_uniform(&seed) * size + offset;
        row_init(&a, c, 64);
        gy_codecs[c.kind].encode(&a.m, 0, x);
        gy_codecs[c.kind].decode(&a.m, 0, y);
        for (int g = 0; g < 2; g++, groups++) {
            double lo = x[32 * g], hi = lo, most = 0;
            for (int i = 32 * g; i < 32 * g + 32; i++) {
                lo = fmin(lo, x[i]), hi = fmax(hi, x[i]);
                most = fmax(most, fabs((double)x[i] - (double)y[i]));
            }
            double steps = c.bits == 8 ? 254 : (1 << c.bits) - 1, s = (hi - lo) / steps;
            double far = fmax(fabs(lo), fabs(hi)), mid = fabs(hi + lo) / 2, d = s + 1e-8;
            /* Only the guard leaves all codes 0: else the ends are more than two steps apart. */
            bool middle = true;
            for (int i = 0; i < 4 * c.bits; i++) middle = middle && !a.raw[0][g * 4 * c.bits + i];
            guarded += middle;
            /* Half a step; zero and scale in f16, off by 2^-11 of themselves and the scale by 2^-25
             * at least; d is not the scale; f32. */
            double scale_off = s * 0x1p-11 + 0x1p-25 + 1e-8;
            double bound = middle ? (hi - lo) / 2 + mid * 0x1p-11 + 0x1p-25 + far * 0x1p-23
                                  : d / 2 + (far + s) * 0x1p-11 * (1 + 0x1p-11) +
                                        (far + s) / d * scale_off + far * 0x1p-22;
            if (!(most <= bound))
                fail_msg("k%d, size %g, offset %g: off by %g, bound %g", c.bits, size, offset, most,
                         bound);
        }
    }
    printf("%d groups of keys, %d of them a middle\n", groups, guarded);
    assert_in_range(guarded, 100, groups - 100);
}

static void turn_and_back(void **state) {
    (void)state;
    const gy_cparm c = {.kind = GY_CODEC_TURBO_V, .bits = 3};
    uint64_t seed = test_seed();
    for (int d = 0; d < 4; d++) {
        int n = dims[d];
        float x[GY_TURBO_MAX], y[GY_TURBO_MAX], z[GY_TURBO_MAX];
        double in = 0, out = 0;
        for (int i = 0; i < n; i++) y[i] = z[i] = x[i] = test_uniform(&seed);
        gy_codecs[c.kind].turn(c, y, n, false);
        for (int i = 0; i < n; i++) in += (double)x[i] * (double)x[i];
        for (int i = 0; i < n; i++) out += (double)y[i] * (double)y[i];
        if (fabs(in - out) > 1e-5 * in) fail_msg("D = %d: the turn changes lengths", n);
        gy_codecs[GY_CODEC_TURBOX_V].turn((gy_cparm){GY_CODEC_TURBOX_V, 8, 0, 0}, z, n, false);
        assert_memory_equal(y, z, (size_t)n * sizeof *y); /* one rotation for all value codecs */
        gy_codecs[c.kind].turn(c, y, n, true);
        /* log2(n) additions and a product each way. */
        for (int i = 0; i < n; i++)
            if (fabsf(x[i] - y[i]) > 64 * 0x1p-24f) fail_msg("D = %d: %g became %g", n, x[i], y[i]);
        /* The rotation, written as a matrix: sign, then (-1)^popcount(i & k) / sqrt(n). */
        memset(y, 0, sizeof y);
        int one = (int)(test_rand(&seed) % (unsigned)n);
        y[one] = 1;
        gy_codecs[c.kind].turn(c, y, n, false);
        bool minus = gy_turbo_sign_words(n)[one / 32] >> one % 32 & 1;
        for (int i = 0; i < n; i++) {
            float want =
                (float)(1 / sqrt(n)) * (__builtin_popcount((unsigned)(i & one)) % 2 ? -1 : 1);
            assert_true(y[i] == (minus ? -want : want));
        }
    }
}

/* Attention's order: sums of turned rows turned back once, against rows turned back one by one. */
static void turn_once_is_turn_each(void **state) {
    (void)state;
    gy_cparm all[16];
    int n = codecs(all);
    uint64_t seed = test_seed();
    static row a;
    for (int i = 0; i < n; i++) {
        const gy_codec *codec = &gy_codecs[all[i].kind];
        if (!codec->turn) continue;
        double each[128] = {0};
        float once[128] = {0};
        for (int p = 0; p < 40; p++) {
            float x[128], y[128], w = (test_uniform(&seed) + 1) / 40;
            for (int k = 0; k < 128; k++) x[k] = normal(&seed);
            row_init(&a, all[i], 128);
            codec->encode(&a.m, 0, x);
            codec->decode(&a.m, 0, y);
            for (int k = 0; k < 128; k++) once[k] = fmaf(w, y[k], once[k]);
            codec->turn(all[i], y, 128, true);
            for (int k = 0; k < 128; k++) each[k] += (double)w * (double)y[k];
        }
        codec->turn(all[i], once, 128, true);
        for (int k = 0; k < 128; k++)
            if (fabs((double)once[k] - each[k]) > 1e-5) fail_msg("codec %d value %d", i, k);
    }
}

/* Mean squared error of normal rows: every bit counts, and the exact 8-bit table is more than twice
 * as good as the published one (kv.md 3.3.4: 4.12e-5 and 1.003e-4). */
static void more_bits_less_error(void **state) {
    (void)state;
    static row a;
    double mse[2][9] = {{0}};
    for (int kind = 0; kind < 2; kind++) {
        for (uint8_t b = 2; b <= 8; b++) {
            gy_cparm c = {.kind = kind ? GY_CODEC_TURBOX_V : GY_CODEC_TURBO_V, .bits = b};
            if (!gy_codecs[c.kind].fits(c, 128)) continue;
            uint64_t seed = 7;
            for (int t = 0; t < 100; t++) {
                float x[128], y[128];
                for (int k = 0; k < 128; k++) x[k] = normal(&seed);
                row_init(&a, c, 128);
                gy_codecs[c.kind].encode(&a.m, 0, x);
                gy_codecs[c.kind].decode(&a.m, 0, y);
                gy_codecs[c.kind].turn(c, y, 128, true);
                for (int k = 0; k < 128; k++) mse[kind][b] += pow(x[k] - y[k], 2) / 12800;
            }
        }
    }
    printf("mse turbo 2 3 4 5 8: %.4g %.4g %.4g %.4g %.4g; turbox 4 5 8: %.4g %.4g %.4g\n",
           mse[0][2], mse[0][3], mse[0][4], mse[0][5], mse[0][8], mse[1][4], mse[1][5], mse[1][8]);
    assert_true(mse[0][2] > mse[0][3] && mse[0][3] > mse[0][4] && mse[0][4] > mse[0][5] &&
                mse[0][5] > mse[0][8]);
    assert_true(mse[1][4] > mse[1][5] && mse[1][5] > mse[1][8]);
    assert_true(2 * mse[1][8] < mse[0][8]);
}

static double tail(double x) {
    return erfc(x / sqrt(2)) / 2;
}

static void tables_are_optimal(void **state) {
    (void)state;
    static const double half4[] = {.128395,  .388048,  .656759,  .94234,
                                   1.256231, 1.618046, 2.069017, 2.73259}; /* kv.md 3.3.4 */
    for (int b = 2; b <= 8; b++) {
        for (int x = 0; x < 2; x++) {
            const gy_turbo_table *t = x ? &gy_turbox_tables[b] : &gy_turbo_tables[b];
            if (!t->level) continue;
            int n = 1 << b;
            for (int i = 0; i + 1 < n; i++) {
                assert_true(t->level[i] < t->edge[i] && t->edge[i] < t->level[i + 1]);
                if (x || b != 3) assert_true(t->edge[i] == (t->level[i] + t->level[i + 1]) * 0.5f);
            }
            for (int i = n / 2; x && i < n; i++) {
                assert_true(t->level[i] == -t->level[n - 1 - i]);
                double lo = t->edge[i - 1], hi = i + 1 < n ? t->edge[i] : 60;
                double mean = (exp(-lo * lo / 2) - exp(-hi * hi / 2)) / sqrt(2 * 3.14159265358979) /
                              (tail(lo) - tail(hi));
                /* Levels and edges are rounded to f32: a few units of 2^-23. */
                if (fabs(mean - (double)t->level[i]) > 8 * 0x1p-23)
                    fail_msg("turbox v%d level %d: %.9g, its cell's mean is %.9g", b, i,
                             t->level[i], mean);
                if (b == 4 && fabs(half4[i - 8] - (double)t->level[i]) > 0.6e-6)
                    fail_msg("turbox v4 level %d", i);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_and_sizes),         cmocka_unit_test(hard_values_stay_finite),
        cmocka_unit_test(keys_are_near),          cmocka_unit_test(turn_and_back),
        cmocka_unit_test(turn_once_is_turn_each), cmocka_unit_test(more_bits_less_error),
        cmocka_unit_test(tables_are_optimal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
