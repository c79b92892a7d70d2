/* math: our own exp, log, pow, sin and cos in double, against the long double library (x87: 64
 * bits). */
#include "testlib.h"

#include <float.h>
#include <math.h>

#include "base/dmath.h"

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
    MEASURE("pow(x, 17.3)", 0.52, n, 1e6 * uniform(&rng), gy_dpow(x, 17.3),
            powl(x, 17.3));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_double_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
