/* ROUTE and EXPERTS: the rules of choosing, and a row's result alone equal to that among others by
 * memcmp, over codecs, arithmetics, instruction sets and threads. */
#include "testlib.h"

#include <math.h>

#include "base/mem.h"
#include "cpu/cpu.h"

enum { ROWS = 150, EXPERTS = 12, TOP = 3, IN = 64, WIDTH = 96 };

static void make_plan(gy_plan *plan, gy_op *op, int n_ops, const int *cols, int slots) {
    static gy_kvspec none;
    none = (gy_kvspec){.donor = -1, .keep.policy = GY_KEEP_STATE};
    *plan = (gy_plan){.op = op,
                      .n_ops = n_ops,
                      .n_slots = slots,
                      .slot_cols = cols,
                      .kv = &none,
                      .n_layers = 1,
                      .vocab = 1};
}

typedef struct {
    gy_kv *kv;
    gy_be *be;
} rig;

static rig rig_of(const gy_plan *plan, int threads, gy_be_arith arith, const char *isa) {
    rig r;
    gy_err err = {0};
    assert_ok(gy_kv_new(plan->kv, 1, 100, &r.kv, &err), err);
    assert_ok(gy_cpu_new(plan, r.kv, threads, arith, isa, ROWS, &r.be, &err), err);
    return r;
}

static void rig_free(rig r) {
    r.be->free(r.be);
    gy_kv_free(r.kv);
}

static float *at(gy_be *be, int slot, int row) {
    int ld;
    float *p = (float *)be->slot(be, slot, &ld);
    return p + row * ld;
}

static void run(gy_be *be, const gy_plan *plan, int rows) {
    gy_batch b = {.rows = rows};
    gy_err err = {0};
    be->begin(be, &b);
    for (int i = 0; i < plan->n_ops; i++) be->run(be, plan->op + i, &b);
    assert_ok(be->end(be, &err), err);
}

/* ---- ROUTE ---- */

typedef struct {
    const char *what;
    int experts, top_k, groups, kept;
    gy_route_score score;
    bool renorm;
    float scale, x[8], bias[8];
    int id[4];
    double w[4];
} choice;

static const choice choices[] = {
    {"softmax over all",
     4,
     2,
     0,
     0,
     GY_ROUTE_SOFTMAX,
     false,
     1,
     {1, 3, 2, 0},
     {0},
     {1, 2},
     {0.643914, 0.236883}},
    {"divided by their sum",
     4,
     2,
     0,
     0,
     GY_ROUTE_SOFTMAX,
     true,
     1,
     {1, 3, 2, 0},
     {0},
     {1, 2},
     {0.731059, 0.268941}},
    {"softmax over the chosen",
     4,
     2,
     0,
     0,
     GY_ROUTE_CHOSEN,
     false,
     1,
     {2, -1, 3, 0},
     {0},
     {0, 2},
     {0.268941, 0.731059}},
    {"sigmoid, scaled",
     4,
     2,
     0,
     0,
     GY_ROUTE_SIGMOID,
     false,
     2,
     {0, 1, -1, -2},
     {0},
     {0, 1},
     {1, 1.462117}},
    {"a bias chooses and does not weigh",
     4,
     2,
     0,
     0,
     GY_ROUTE_SIGMOID,
     true,
     1,
     {0, 1, -1, -2},
     {0, 0, 0, 1},
     {1, 3},
     {0.859805, 0.140195}},
    {"equals go to the lower id",
     4,
     2,
     0,
     0,
     GY_ROUTE_CHOSEN,
     false,
     1,
     {1, 2, 2, 2},
     {0},
     {1, 2},
     {0.5, 0.5}},
    {"all equal",
     4,
     3,
     0,
     0,
     GY_ROUTE_SOFTMAX,
     false,
     1,
     {5, 5, 5, 5},
     {0},
     {0, 1, 2},
     {0.25, 0.25, 0.25}},
    {"all of them",
     3,
     3,
     0,
     0,
     GY_ROUTE_CHOSEN,
     false,
     1,
     {0, 0, 0},
     {0},
     {0, 1, 2},
     {1 / 3., 1 / 3., 1 / 3.}},
    {"one group of two is open",
     8,
     2,
     2,
     1,
     GY_ROUTE_SIGMOID,
     true,
     1,
     {9, -9, -9, -9, 1, 1, -9, -9},
     {0},
     {4, 5},
     {0.5, 0.5}},
    {"a closed group stays closed though its members are better than none",
     4,
     2,
     2,
     1,
     GY_ROUTE_SIGMOID,
     true,
     1,
     {0, 0, 2, 2},
     {0, 0, -3, -3},
     {0, 1},
     {0.5, 0.5}},
    {"of equal groups the lower",
     4,
     2,
     2,
     1,
     GY_ROUTE_SIGMOID,
     true,
     1,
     {1, 1, 1, 1},
     {0},
     {0, 1},
     {0.5, 0.5}},
    {"a NaN comes last",
     4,
     3,
     0,
     0,
     GY_ROUTE_CHOSEN,
     false,
     1,
     {NAN, 1, 0, -1},
     {0},
     {1, 2, 3},
     {0.665241, 0.244728, 0.090031}},
};

static void test_choices(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const choice *c = choices + i;
        int cols[2] = {c->experts, 2 * c->top_k};
        gy_op op = {.kind = GY_OP_ROUTE, .in = {0, -1}, .out = 1};
        gy_plan plan;
        op.u.route.experts = c->experts, op.u.route.top_k = c->top_k;
        op.u.route.groups = c->groups, op.u.route.kept = c->kept;
        op.u.route.score = c->score, op.u.route.renorm = c->renorm, op.u.route.scale = c->scale;
        op.u.route.bias = c->bias;
        make_plan(&plan, &op, 1, cols, 2);
        rig r = rig_of(&plan, 1, GY_BE_EXACT, NULL);
        memcpy(at(r.be, 0, 0), c->x, (size_t)c->experts * sizeof(float));
        run(r.be, &plan, 1);
        for (int k = 0; k < c->top_k; k++) {
            float id = at(r.be, 1, 0)[k], w = at(r.be, 1, 0)[c->top_k + k];
            if (id != (float)c->id[k] || !(fabs(w - c->w[k]) < 2e-6))
                fail_msg("%s: place %d is expert %g with %.7g, expected %d with %.7g", c->what, k,
                         (double)id, (double)w, c->id[k], c->w[k]);
        }
        rig_free(r);
    }
    /* Nothing but NaN still chooses distinct experts. */
    int cols[2] = {EXPERTS, 2 * TOP};
    gy_op op = {.kind = GY_OP_ROUTE, .in = {0, -1}, .out = 1};
    gy_plan plan;
    op.u.route.experts = EXPERTS, op.u.route.top_k = TOP, op.u.route.scale = 1;
    make_plan(&plan, &op, 1, cols, 2);
    rig r = rig_of(&plan, 1, GY_BE_EXACT, NULL);
    for (int e = 0; e < EXPERTS; e++) at(r.be, 0, 0)[e] = NAN;
    run(r.be, &plan, 1);
    for (int k = 0; k < TOP; k++) assert_true(at(r.be, 1, 0)[k] == (float)k);
    rig_free(r);
}

/* ---- EXPERTS ---- */

static gy_weight weight[3][EXPERTS];
static void *stack[3][3];
static float bias[3][EXPERTS * WIDTH];

/* Random experts in a codec: views of one coded stack for each of gate, up and down. */
static void make_experts(gy_cparm c, bool biased, uint64_t *rng) {
    for (int i = 0; i < 3; i++) {
        int rows = i < 2 ? WIDTH : IN, cols = i < 2 ? IN : WIDTH;
        size_t bytes[3] = {0};
        float *x = malloc((size_t)cols * sizeof *x);
        gy_rows all = {.c = c, .rows = EXPERTS * rows, .cols = cols, .global = 1};
        gy_codecs[c.kind].bytes(c, cols, bytes);
        for (int p = 0; p < 3; p++) {
            stack[i][p] = bytes[p] ? calloc((size_t)all.rows, bytes[p]) : NULL;
            all.plane[p] = stack[i][p], all.step[p] = (ptrdiff_t)bytes[p];
        }
        for (int r = 0; r < all.rows; r++) {
            for (int k = 0; k < cols; k++) x[k] = test_uniform(rng);
            gy_codecs[c.kind].encode(&all, r, x);
            bias[i][r] = test_uniform(rng);
        }
        for (int e = 0; e < EXPERTS; e++) {
            gy_weight *w = weight[i] + e;
            w->file = all, w->file.rows = rows, w->bias = biased ? bias[i] + e * rows : NULL;
            for (int p = 0; p < 3; p++)
                if (bytes[p])
                    w->file.plane[p] = (char *)stack[i][p] + (size_t)(e * rows) * bytes[p];
        }
        free(x);
    }
}

static void drop_experts(void) {
    for (int i = 0; i < 3; i++)
        for (int p = 0; p < 3; p++) free(stack[i][p]);
}

/* One row in double. */
static void reference(const float *x, const float *choose, double *y) {
    float *line = malloc((IN + WIDTH) * sizeof *line);
    double h[WIDTH];
    memset(y, 0, IN * sizeof *y);
    for (int k = 0; k < TOP; k++) {
        int e = (int)choose[k];
        for (int r = 0; r < WIDTH; r++) {
            double s[2];
            for (int i = 0; i < 2; i++) {
                const gy_weight *w = weight[i] + e;
                s[i] = w->bias ? w->bias[r] : 0;
                gy_codecs[w->file.c.kind].decode(&w->file, r, line);
                for (int c = 0; c < IN; c++) s[i] += (double)line[c] * x[c];
            }
            h[r] = s[0] / (1 + exp(-s[0])) * s[1];
        }
        for (int r = 0; r < IN; r++) {
            const gy_weight *w = weight[2] + e;
            double s = w->bias ? w->bias[r] : 0;
            gy_codecs[w->file.c.kind].decode(&w->file, r, line);
            for (int c = 0; c < WIDTH; c++) s += line[c] * h[c];
            y[r] += choose[TOP + k] * s;
        }
    }
    free(line);
}

static void check_codec(const char *name, gy_cparm c, bool biased, uint64_t *rng) {
    static float x[ROWS][IN], scores[ROWS][EXPERTS], want[ROWS][IN];
    int cols[4] = {IN, EXPERTS, 2 * TOP, IN};
    gy_plan plan;
    gy_op op[2] = {{.kind = GY_OP_ROUTE, .in = {1, -1}, .out = 2},
                   {.kind = GY_OP_EXPERTS, .in = {0, 2}, .out = 3}};
    make_experts(c, biased, rng);
    op[0].u.route.experts = EXPERTS, op[0].u.route.top_k = TOP, op[0].u.route.scale = 1;
    op[0].u.route.score = GY_ROUTE_CHOSEN;
    op[1].u.experts.experts = EXPERTS, op[1].u.experts.top_k = TOP;
    op[1].u.experts.width = WIDTH, op[1].u.experts.act = GY_ACT_SILU;
    op[1].u.experts.gate = weight[0], op[1].u.experts.up = weight[1],
    op[1].u.experts.down = weight[2];
    make_plan(&plan, op, 2, cols, 4);
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < IN; k++) x[r][k] = test_uniform(rng);
        /* Some experts are nearly always chosen, some never. */
        for (int e = 0; e < EXPERTS; e++) scores[r][e] = test_uniform(rng) + (float)(e % 4);
    }
    for (int arith = GY_BE_EXACT; arith <= GY_BE_FAST; arith++) {
        bool first = true;
        double off = 0, size = 0;
        for (int set = 0; set < 2; set++)
            for (int threads = 1; threads <= 3; threads++) {
                const char *isa = set ? gy_isa() : "generic";
                rig r = rig_of(&plan, threads, arith, isa);
                /* One by one, then in batches of any size. */
                for (int step = 1; step <= ROWS; step = step * 7 + 3) {
                    if (step == 1 && !first) continue;
                    for (int row = 0; row < ROWS; row += step) {
                        int n = ROWS - row < step ? ROWS - row : step;
                        for (int i = 0; i < n; i++) {
                            memcpy(at(r.be, 0, i), x[row + i], sizeof *x);
                            memcpy(at(r.be, 1, i), scores[row + i], sizeof *scores);
                        }
                        run(r.be, &plan, n);
                        for (int i = 0; i < n; i++) {
                            if (step == 1) {
                                double y[IN];
                                memcpy(want[row], at(r.be, 3, 0), sizeof *want);
                                reference(x[row], at(r.be, 2, 0), y);
                                for (int k = 0; k < IN; k++)
                                    off = fmax(off, fabs(y[k] - want[row][k])),
                                    size = fmax(size, fabs(y[k]));
                            } else if (memcmp(want[row + i], at(r.be, 3, i), sizeof *want)) {
                                fail_msg("%s, arith %d, %s, %d threads, steps of %d: row %d", name,
                                         arith, isa, threads, step, row + i);
                            }
                        }
                    }
                }
                first = false;
                rig_free(r);
            }
        printf("%-8s %s: off by %.2g of %.2g\n", name, arith ? "fast" : "exact", off, size);
        /* exact: a rounding per term; fast: each of two inputs is off by half of 1/127 of its
         * largest value, in products that may be some times their sum. */
        assert_true(off <= (arith ? 4.0 / 127 : (IN + WIDTH) * 0x1p-24) * size);
    }
    drop_experts();
}

static void test_experts(void **state) {
    (void)state;
    static const struct {
        const char *name;
        gy_cparm c;
    } codecs[] = {
        {"f32", {.kind = GY_CODEC_F32}},
        {"bf16", {.kind = GY_CODEC_BF16}},
        {"affine4", {.kind = GY_CODEC_AFFINE, .bits = 4, .group = 32, .stype = GY_CODEC_BF16}},
        {"affine8", {.kind = GY_CODEC_AFFINE, .bits = 8, .group = 32, .stype = GY_CODEC_F16}},
        {"mxfp4", {.kind = GY_CODEC_MXFP4, .bits = 4, .group = 32}},
    };
    uint64_t rng = test_seed();
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        check_codec(codecs[i].name, codecs[i].c, i % 2, &rng);
}

/* Each allocation of a backend with experts fails once. */
static void test_faults(void **state) {
    (void)state;
    uint64_t rng = 3;
    int cols[3] = {IN, 2 * TOP, IN};
    gy_op op = {.kind = GY_OP_EXPERTS, .in = {0, 1}, .out = 2};
    gy_plan plan;
    gy_kv *kv;
    gy_err err = {0};
    make_experts((gy_cparm){.kind = GY_CODEC_F32}, false, &rng);
    op.u.experts.experts = EXPERTS, op.u.experts.top_k = TOP, op.u.experts.width = WIDTH;
    op.u.experts.gate = weight[0], op.u.experts.up = weight[1], op.u.experts.down = weight[2];
    make_plan(&plan, &op, 1, cols, 3);
    assert_ok(gy_kv_new(plan.kv, 1, 100, &kv, &err), err);
    for (long nth = 1;; nth++) {
        gy_be *be = NULL;
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_cpu_new(&plan, kv, 2, GY_BE_FAST, "generic", 8, &be, &err);
        gy_alloc_fail_at(0);
        if (!rc) {
            be->free(be);
            assert_true(nth > 8);
            break;
        }
        assert_int_equal(rc, GY_ENOMEM);
        err = (gy_err){0};
    }
    gy_kv_free(kv);
    drop_experts();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices),
                                       cmocka_unit_test(test_experts),
                                       cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
