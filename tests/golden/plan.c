/* The plan, run in double by the naive interpreter, against the reference's float32 logits:
 * descriptions, binding, decoding and the plan are right if this holds, whatever the backends do.
 */
#include "golden/naive.h"

#include <math.h>

#include "golden/golden.h"
#include "model/model.h"
#include "testlib.h"

static double largest_gap(const golden *g, const double *logits) {
    double gap = 0;
    for (int i = 0; i < g->rows; i++)
        for (int c = 0; c < g->vocab; c++) {
            double d = fabs(logits[(size_t)g->row[i] * (size_t)g->vocab + (size_t)c] -
                            g->logits[(size_t)i * (size_t)g->vocab + (size_t)c]);
            if (!(d <= gap)) gap = d;
        }
    return gap;
}

static int best(const double *row, int n) {
    int b = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[b]) b = i;
    return b;
}

static void check(const char *name, const char *dir) {
    golden g;
    gy_model *m;
    gy_plan *plan;
    gy_err err = {0};
    gy_cparm f32 = {.kind = GY_CODEC_F32};
    gy_model_options options = {.no_tokenizer = true};
    golden_open(&g, dir);
    assert_ok(gy_model_open(dir, &options, &m, &err), err);
    assert_ok(gy_plan_build(m, f32, f32, &plan, &err), err);
    assert_int_equal(plan->vocab, g.vocab);
    int n = g.prompt + g.greedy - 1;
    double *logits = calloc((size_t)n * (size_t)g.vocab, sizeof *logits);
    const char *unknown = naive_run(plan, g.ids, n, logits);
    if (unknown) fail_msg("%s: the oracle does not know operator %s", name, unknown);
    double gap = largest_gap(&g, logits);
    printf("%-18s reference f32 - f64 %.3g, f32_noise %.3g, allowed %.3g\n", name, gap, g.noise,
           g.tolerance);
    if (!(gap <= g.tolerance))
        fail_msg("%s: logits differ by %g, allowed %g", name, gap, g.tolerance);
    for (int i = 0; i < g.greedy; i++) {
        int id = best(logits + (size_t)(g.prompt - 1 + i) * (size_t)g.vocab, g.vocab);
        if (id != g.ids[g.prompt + i])
            fail_msg("%s: greedy id %d is %d, expected %d", name, i, id, g.ids[g.prompt + i]);
    }
    free(logits);
    gy_plan_free(plan);
    gy_model_unref(m);
    golden_close(&g);
}

static void every_dense_fixture(void **state) {
    (void)state;
    int missing = 0;
    for (const char *const *name = golden_dense; *name; name++) {
        const char *dir = golden_path(*name);
        if (dir)
            check(*name, dir);
        else
            missing++;
    }
    if (missing) printf("notice: %d fixtures skipped, set GYRE_SHARED\n", missing);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_dense_fixture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
