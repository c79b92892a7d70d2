/* math: our own exp, log, pow, sin and cos in double, against the long double library (x87: 64
 * bits). */
#include "testlib.h"

#include <float.h>
#include <math.h>

#include "base/dmath.h"
#include "base/num.h"
#include "isas.h"

/* Distance in units in the last place of the exact value. */
static double dulps(double got, long double want) {
    if (got == want) return 0;
    int e;
    frexpl(want, &e);
    if (e < -1021) e = -1021;
    return (double)(fabsl((long double)got - want) / ldexpl(1, e - 53));
}

static double uniform(uint64_t *rng) {
    return (test_rand(rng) + test_rand(rng) * 0x1p-32) * 0x1p-32;
}

static void hold(const char *what, double worst, double bound, double at) {
    printf("%-24s worst %.4f ulp at %.17g\n", what, worst, at);
    if (!(worst <= bound)) fail_msg("%s: %.4f ulp at %.17g, promised %.4f", what, worst, at, bound);
}

#define MEASURE(what, bound, n, draw, got, want)                                                   \
    do {                                                                                           \
        double worst = 0, at = 0;                                                                  \
        for (int i = 0; i < (n); i++) {                                                            \
            double x = (draw), u = dulps((got), (want));                                           \
            if (!(u <= worst)) worst = u, at = x;                                                  \
        }                                                                                          \
        hold(what, worst, bound, at);                                                              \
    } while (0)

static void test_double(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    if (LDBL_MANT_DIG < 64) {
        printf("notice: skipped, long double has no more bits than double here\n");
        skip();
    }
    const int n = 40000;
    MEASURE("exp [-708, 709]", 0.52, n, uniform(&rng) * 1417 - 708, gy_dexp(x), expl(x));
    MEASURE("exp [-1, 1]", 0.52, n, uniform(&rng) * 2 - 1, gy_dexp(x), expl(x));
    MEASURE("log (0, 1e9)", 0.52, n, uniform(&rng) * 1e9, gy_dlog(x), logl(x));
    MEASURE("log around 1", 0.52, n, 0.9 + 0.2 * uniform(&rng), gy_dlog(x), logl(x));
    MEASURE("log of powers of 2", 0.52, 2098, ldexp(1, i - 1074), gy_dlog(x), logl(x));
    MEASURE("pow(10000, -y)", 0.52, n, uniform(&rng), gy_dpow(10000, -x), powl(10000, -x));
    MEASURE("pow(x, 17.3)", 0.52, n, 1e6 * uniform(&rng), gy_dpow(x, 17.3), powl(x, 17.3));
    MEASURE("sin [-4, 4]", 1, n, uniform(&rng) * 8 - 4, gy_dsin(x), sinl(x));
    MEASURE("cos [-4, 4]", 1, n, uniform(&rng) * 8 - 4, gy_dcos(x), cosl(x));
    MEASURE("sin [0, 2^24]", 1, n, uniform(&rng) * 0x1p24, gy_dsin(x), sinl(x));
    MEASURE("cos [0, 2^24]", 1, n, uniform(&rng) * 0x1p24, gy_dcos(x), cosl(x));
    MEASURE("sin of floats to 2^31", 1, n, (float)(uniform(&rng) * 0x1p31), gy_dsin(x), sinl(x));
    MEASURE("cos near n pi / 2", 1, n, (float)((2 * (i * 97) + 1) * 1.57079632679489661923),
            gy_dcos(x), cosl(x));
}

static void test_double_edges(void **state) {
    (void)state;
    assert_true(gy_dexp(0) == 1 && gy_dexp(-INFINITY) == 0 && gy_dexp(INFINITY) == INFINITY);
    assert_true(gy_dexp(800) == INFINITY && gy_dexp(-800) == 0 && isnan(gy_dexp(NAN)));
    assert_true(gy_dexp(-745) == 0x1p-1074);
    assert_true(gy_dlog(1) == 0 && gy_dlog(0) == -INFINITY && isnan(gy_dlog(-1)) &&
                gy_dlog(INFINITY) == INFINITY);
    assert_true(gy_dpow(2, 10) == 1024 && gy_dpow(2, -1074) == 0x1p-1074 &&
                gy_dpow(10000, 0.5) == 100);
    assert_true(gy_dpow(0, 2) == 0 && gy_dpow(0, -2) == INFINITY && gy_dpow(0, 0) == 1 &&
                gy_dpow(INFINITY, -1) == 0);
    assert_true(gy_dpow(INFINITY, 2) == INFINITY && gy_dpow(3, 1e300) == INFINITY &&
                gy_dpow(3, -1e300) == 0);
    assert_true(gy_dpow(0.5, 1e300) == 0 && isnan(gy_dpow(-2, 2)) && isnan(gy_dpow(NAN, 1)) &&
                gy_dpow(3, 1) == 3);
    assert_true(gy_dsin(0) == 0 && gy_dcos(0) == 1 && isnan(gy_dsin(1e300)) &&
                isnan(gy_dcos(INFINITY)));
}

/* ---- f32, on every instruction set ---- */

enum { DENSE = 1 << 20, ODD = 13 };

static double fulps(float got, double want) {
    if ((double)got == want) return 0;
    int e;
    frexp(want, &e);
    if (e < -125) e = -125;
    return fabs((double)got - want) / ldexp(1, e - 24);
}

static double erf_of(double x) {
    return erf(x);
}

/* n floats from lo to hi, evenly in value or evenly in their bits (lo > 0), then negated ones if
 * asked. */
static int spread(float *x, int n, double lo, double hi, bool by_bits, bool both) {
    uint32_t a = gy_f32_bits((float)lo), b = gy_f32_bits((float)hi);
    for (int i = 0; i < n; i++) {
        float v =
            by_bits
                ? gy_bits_f32(a + (uint32_t)((uint64_t)(b - a) * (uint64_t)i / (uint64_t)(n - 1)))
                : (float)(lo + (hi - lo) * i / (n - 1));
        x[i] = both && i & 1 ? -v : v;
    }
    return n;
}

typedef void (*row_fn)(const float *x, float *y, int n);
static row_fn row_of(const gy_isa_table *t, int which) {
    return which == 0 ? t->row.exp : which == 1 ? t->row.tanh : t->row.erf;
}

static void test_float(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int fn;
        double (*exact)(double);
        double lo, hi;
        bool by_bits, both;
        double bound; /* as stated in math.inc */
    } cases[] = {
        {"expf [-87.3, 88.7]", 0, exp, -87.33, 88.72, false, false, 1.05},
        {"expf tiny", 0, exp, 1e-12, 1, true, true, 1.05},
        {"tanhf by bits", 1, tanh, 1e-10, 20, true, true, 1.4},
        {"tanhf [-2, 2]", 1, tanh, -2, 2, false, false, 1.4},
        {"erff by bits", 2, erf_of, 1e-10, 8, true, true, 1.15},
        {"erff [-4, 4]", 2, erf_of, -4, 4, false, false, 1.15},
    };
    float *x = malloc(DENSE * sizeof *x), *y[ISAS];
    for (int t = 0; t < ISAS; t++) y[t] = malloc(DENSE * sizeof *x);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int n = spread(x, DENSE, cases[c].lo, cases[c].hi, cases[c].by_bits, cases[c].both) -
                3; /* and an odd end */
        for (int t = 0; t < ISAS; t++) {
            if (!isas[t]->usable()) continue;
            row_of(isas[t], cases[c].fn)(x, y[t], n);
            if (memcmp(y[t], y[0], (size_t)n * sizeof *x))
                fail_msg("%s: %s differs", cases[c].name, isas[t]->name);
        }
        double worst = 0, at = 0;
        for (int i = 0; i < n; i++) {
            double u = fulps(y[0][i], cases[c].exact(x[i]));
            if (!(u <= worst)) worst = u, at = x[i];
        }
        hold(cases[c].name, worst, cases[c].bound, at);
    }
    for (int t = 0; t < ISAS; t++) free(y[t]);
    free(x);
}

static void test_float_edges(void **state) {
    (void)state;
    for (int t = 0; t < ISAS; t++) {
        if (!isas[t]->usable()) continue;
        float x[8] = {0, -INFINITY, INFINITY, NAN, -87.4f, 89, -1e30f, 1e30f}, y[8];
        isas[t]->row.exp(x, y, 8);
        assert_true(y[0] == 1 && y[1] == 0 && y[2] == INFINITY && isnan(y[3]));
        assert_true(y[4] == 0 && y[5] == INFINITY && y[6] == 0 && y[7] == INFINITY);
        isas[t]->row.tanh(x, y, 8);
        assert_true(y[0] == 0 && y[1] == -1 && y[2] == 1 && isnan(y[3]) && y[4] == -1 && y[7] == 1);
        isas[t]->row.erf(x, y, 8);
        assert_true(y[0] == 0 && y[1] == -1 && y[2] == 1 && isnan(y[3]) && y[4] == -1 && y[7] == 1);
        float limits[2] = {0x1.62e42ep+6f, -0x1.5d589ep+6f}; /* last finite, last normal */
        isas[t]->row.exp(limits, y, 2);
        assert_true(isfinite(y[0]) && y[0] > 3.4e38f && y[1] >= 0x1p-126f);
    }
}

static double act_exact(gy_act_form form, double x) {
    switch (form) {
    case GY_ACT_SILU: return x / (1 + exp(-x));
    case GY_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case GY_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    case GY_ACT_RELU: return x > 0 ? x : 0;
    case GY_ACT_RELU2: return x > 0 ? x * x : 0;
    default: return x / (1 + exp(-1.702 * x));
    }
}

/* Bounds. Sigmoids, relative to the result: exp 1.05 ulp or 2.1 eps, the sum and the quotient one
 * eps each; for quick gelu the argument is off by the rounding of 1.702 and of the product, one eps
 * each, times its size. The gelus are x / 2 (1 + t): t has 1.6 ulp of 1, its argument at most 4
 * roundings which t' (at most 1, where t is not 1 yet |x| is below 3) passes on, and three
 * roundings follow; relative to |x|. */
static void test_act(void **state) {
    (void)state;
    enum { N = 1 << 17 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *x), *z = malloc(N * sizeof *x);
    const double eps = 0x1p-24;
    for (int form = GY_ACT_SILU; form <= GY_ACT_QUICK_GELU; form++) {
        spread(x, N, -30, 30, false, false);
        isas[0]->row.act(x, NULL, y, N - ODD, form);
        double worst = 0, at = 0;
        for (int i = 0; i < N - ODD; i++) {
            double want = act_exact(form, x[i]), bound = 4.1 * eps * fabs(want);
            if (form == GY_ACT_QUICK_GELU) bound += 2 * fabs(1.702 * x[i]) * eps * fabs(want);
            if (form == GY_ACT_GELU_TANH || form == GY_ACT_GELU_ERF) bound = 5 * eps * fabs(x[i]);
            double u = bound > 0 ? fabs(y[i] - want) / bound : y[i] == want ? 0 : 1e9;
            if (!(u <= worst)) worst = u, at = x[i];
        }
        printf("%-12s %.2f of its bound, at %g\n", gy_act_names[form], worst, at);
        if (!(worst <= 1))
            fail_msg("%s: %g times its bound at %.9g", gy_act_names[form], worst, at);
        for (int t = 1; t < ISAS; t++) {
            if (!isas[t]->usable()) continue;
            isas[t]->row.act(x, NULL, z, N - ODD, form);
            assert_memory_equal(z, y, (N - ODD) * sizeof *x);
        }
    }
    free(x), free(y), free(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double), cmocka_unit_test(test_double_edges),
        cmocka_unit_test(test_float),  cmocka_unit_test(test_float_edges),
        cmocka_unit_test(test_act),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
