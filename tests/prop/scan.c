/* Operators of recurrent layers: every instruction set against the generic one by memcmp, any cut
 * of the rows by memcmp, the shared vectors of the gated delta rule within their bounds, and the
 * operators of the backend over spans, steps and threads. */
#include "testlib.h"

#include <math.h>

#include "base/mem.h"
#include "isas.h"
#include "vectors.h"

enum { ROWS = 40, COLS = 70, GUARD = 8, ROUNDS = 400 };

/* How many of them this CPU has: each needs all that the one before it needs. */
static int sets_here(void) {
    int n = 1;
    while (n < ISAS && isas[n]->usable()) n++;
    return n;
}

static void fill(float *x, size_t n, uint64_t *rng) {
    for (size_t i = 0; i < n; i++) x[i] = 2 * test_uniform(rng);
}

static int below(uint64_t *rng, int n) {
    return (int)(test_rand(rng) % (unsigned)n);
}

static void equal(const char *what, const char *isa, const float *want, const float *got,
                  size_t n) {
    if (!memcmp(want, got, n * sizeof *want)) return;
    size_t i = 0;
    while (!memcmp(want + i, got + i, sizeof *want)) i++;
    fail_msg("%s, %s: value %zu is %.9g, expected %.9g", what, isa, i, (double)got[i],
             (double)want[i]);
}

/* ---- Kernels ---- */

/* rows rows from `from`, whole or cut in two at `cut`. */
static void run_conv(const gy_isa_scan *f, gy_conv c, int cut) {
    int rows = c.rows;
    c.rows = cut, f->conv(&c);
    c.x += cut * c.ld, c.rows = rows - cut, c.from = c.to;
    if (c.rows) f->conv(&c);
}

static void test_conv(void **state) {
    (void)state;
    static float x[ROWS * (COLS + GUARD)], w[GY_CONV_TAPS * COLS], from[GY_CONV_TAPS * COLS];
    static float want[ROWS * (COLS + GUARD)], got[ROWS * (COLS + GUARD)];
    static float end[GY_CONV_TAPS * COLS], to[GY_CONV_TAPS * COLS];
    uint64_t rng = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        int rows = 1 + below(&rng, ROWS), cols = 1 + below(&rng, COLS), ld = cols + GUARD;
        gy_conv c = {.ld = ld, .rows = rows, .cols = cols, .taps = 1 + below(&rng, GY_CONV_TAPS)};
        fill(x, sizeof x / sizeof *x, &rng), fill(w, sizeof w / sizeof *w, &rng);
        fill(from, sizeof from / sizeof *from, &rng);
        c.w = w, c.ldw = cols, c.from = below(&rng, 2) ? from : NULL;
        for (int i = 0; i < sets_here(); i++)
            for (int cut = 0; cut < 2; cut++) {
                bool first = !i && !cut;
                memcpy(got, x, sizeof x), memset(to, 0, sizeof to);
                c.x = got, c.to = to;
                run_conv(&isas[i]->scan, c, cut ? 1 + below(&rng, rows) : rows);
                if (first) memcpy(want, got, sizeof got), memcpy(end, to, sizeof to);
                equal("conv", isas[i]->name, want, got, sizeof got / sizeof *got);
                equal("conv state", isas[i]->name, end, to, sizeof to / sizeof *to);
            }
        /* The last inputs, as they were; earlier ones from the state. */
        for (int j = 0; j < c.taps - 1; j++)
            for (int k = 0; k < cols; k++) {
                int at = rows - (c.taps - 1) + j;
                float input = at >= 0  ? x[at * ld + k]
                              : c.from ? from[(at + c.taps - 1) * cols + k]
                                       : 0;
                assert_true(end[j * cols + k] == input);
            }
        double y = 0;
        int r = below(&rng, rows), k = below(&rng, cols);
        for (int j = 0; j < c.taps; j++) {
            int at = r - (c.taps - 1) + j;
            y += (double)w[j * cols + k] * (at >= 0  ? x[at * ld + k]
                                            : c.from ? from[(at + c.taps - 1) * cols + k]
                                                     : 0);
        }
        y /= 1 + exp(-y);
        if (!(fabs(want[r * ld + k] - y) <= 1e-5))
            fail_msg("conv of %d taps: %g, expected %g", c.taps, (double)want[r * ld + k], y);
    }
}

enum { KDIM = 140, VDIM = 21, WIDTH = 2 * KDIM + VDIM + 2 };

static void run_scan(const gy_isa_scan *f, gy_scan s, int cut) {
    int rows = s.rows;
    s.rows = cut, f->scan(&s);
    s.q += cut * s.ld, s.k += cut * s.ld, s.v += cut * s.ld, s.out += cut * s.ldo;
    s.beta += cut * s.ldg, s.decay += cut * s.ldg;
    s.rows = rows - cut, s.from = s.to;
    if (s.rows) f->scan(&s);
}

static void test_scan(void **state) {
    (void)state;
    static float x[ROWS * WIDTH], from[VDIM * KDIM];
    static float want[ROWS * VDIM], got[ROWS * VDIM], end[VDIM * KDIM], to[VDIM * KDIM];
    uint64_t rng = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        int rows = 1 + below(&rng, ROWS);
        int kd = below(&rng, 2) ? 16 * (1 + below(&rng, 8)) : 1 + below(&rng, KDIM);
        gy_scan s = {.ld = WIDTH,
                     .ldg = WIDTH,
                     .ldo = VDIM,
                     .rows = rows,
                     .kdim = kd,
                     .vdim = 1 + below(&rng, VDIM)};
        fill(x, sizeof x / sizeof *x, &rng), fill(from, sizeof from / sizeof *from, &rng);
        for (int r = 0; r < rows; r++) {
            float *row = x + r * WIDTH;
            isas[0]->scan.unit(row, kd, 1e-6f, 0.2f), isas[0]->scan.unit(row + KDIM, kd, 1e-6f, 1);
            row[WIDTH - 2] = fabsf(row[WIDTH - 2]) / 2, row[WIDTH - 1] = fabsf(row[WIDTH - 1]) / 2;
        }
        s.q = x, s.k = x + KDIM, s.v = x + 2 * KDIM, s.beta = x + WIDTH - 2,
        s.decay = x + WIDTH - 1;
        s.from = below(&rng, 3) ? from : NULL;
        for (int i = 0; i < sets_here(); i++)
            for (int cut = 0; cut < 2; cut++) {
                memset(got, 0, sizeof got), memset(to, 0, sizeof to);
                s.out = got, s.to = to;
                run_scan(&isas[i]->scan, s, cut ? 1 + below(&rng, rows) : rows);
                if (!i && !cut) memcpy(want, got, sizeof got), memcpy(end, to, sizeof to);
                equal("scan", isas[i]->name, want, got, sizeof got / sizeof *got);
                equal("scan state", isas[i]->name, end, to, sizeof to / sizeof *to);
            }
    }
}

/* Over all sizes of b and a, against double. */
static void test_gates(void **state) {
    (void)state;
    static float b[2001], a[2001], dt[2001], rate[2001], got[ISAS][2][2001];
    double off[2] = {0};
    for (int i = 0; i <= 2000; i++) {
        a[i] = b[i] = (float)(i - 1000) / 10, dt[i] = (float)(i % 7) / 4 - 1;
        rate[i] = 0.001f + (float)(i % 13);
    }
    b[0] = a[0] = -INFINITY, b[1] = a[1] = INFINITY, b[2] = a[2] = NAN;
    for (int k = 0; k < sets_here(); k++) {
        memcpy(got[k][0], b, sizeof b), memcpy(got[k][1], a, sizeof a);
        isas[k]->scan.gates(got[k][0], got[k][1], dt, rate, 2001);
        equal("beta", isas[k]->name, got[0][0], got[k][0], 2001);
        equal("decay", isas[k]->name, got[0][1], got[k][1], 2001);
    }
    assert_true(got[0][0][0] == 0 && got[0][1][0] == 1 && got[0][0][1] == 1 && got[0][1][1] == 0);
    assert_true(isnan(got[0][0][2]) && isnan(got[0][1][2]));
    for (int i = 3; i <= 2000; i++) {
        double x = (double)(a[i] + dt[i]), plus = x > 40 ? x : log1p(exp(x));
        off[0] = fmax(off[0], fabs(got[0][0][i] - 1 / (1 + exp(-(double)b[i]))));
        off[1] = fmax(off[1], fabs(got[0][1][i] - exp(-rate[i] * plus)));
    }
    printf("gates: beta off by %.2g, decay by %.2g\n", off[0], off[1]);
    assert_true(off[0] < 0x1p-22 && off[1] < 0x1p-21); /* a few units of the last place of 1 */
}

static void test_unit_gate(void **state) {
    (void)state;
    static float x[300], g[300], w[300], want[300], got[300];
    uint64_t rng = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        int n = 1 + below(&rng, 300), form = below(&rng, 3);
        fill(x, 300, &rng), fill(g, 300, &rng), fill(w, 300, &rng);
        double sum = 0, worst = 0;
        for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
        for (int i = 0; i < sets_here(); i++) {
            memcpy(got, x, sizeof x);
            if (form == 2)
                isas[i]->scan.unit(got, n, 1e-6f, 0.5f);
            else
                isas[i]->scan.gate(x, g, w, got, n, 1e-6f, form);
            if (!i) memcpy(want, got, sizeof got);
            equal("unit or gate", isas[i]->name, want, got, 300);
        }
        for (int i = 0; i < n; i++) {
            double norm = x[i] / sqrt(sum / n + 1e-6) * w[i], s = 1 / (1 + exp(-(double)g[i]));
            double y = form == GY_GATE_SIGMOID     ? x[i] * s
                       : form == GY_GATE_NORM_SILU ? norm * g[i] * s
                                                   : 0.5 * x[i] / sqrt(sum + 1e-6);
            worst = fmax(worst, fabs(y - want[i]) / (1 + fabs(y)));
        }
        if (!(worst <= 2e-6)) fail_msg("form %d of %d values: off by %g", form, n, worst);
    }
}

/* ---- Shared vectors ---- */

static const float *floats(const vectors *v, const char *name, int *n) {
    tensor t = get(v, "%s", name);
    *n = (int)(t.bytes / sizeof(float));
    assert_true((uintptr_t)t.p % sizeof(float) == 0);
    return (const float *)t.p;
}

static double real64(const vectors *v, const char *name, int i) {
    double d;
    memcpy(&d, get(v, "%s", name).p + (size_t)i * sizeof d, sizeof d);
    return d;
}

static double farther(double worst, double got, double want) {
    return fmax(worst, isnan(got) ? INFINITY : fabs(got - want));
}

/* One batch entry of a case through unit, gates and scan. */
static void vector_case(const gy_isa_table *set, const vectors *v, const gy_json *c, int b,
                        double *off_y, double *off_s) {
    int n, T = (int)gy_json_i(c, "T", 0), hk = (int)gy_json_i(c, "Hk", 0),
           hv = (int)gy_json_i(c, "Hv", 0), kd = (int)gy_json_i(c, "Dk", 0),
           vd = (int)gy_json_i(c, "Dv", 0);
    const float *q0 = floats(v, "q", &n), *k0 = floats(v, "k", &n), *val = floats(v, "v", &n);
    const float *a = floats(v, "a", &n), *beta_in = floats(v, "b", &n);
    const float *log_rate = floats(v, "A_log", &n), *dt = floats(v, "dt_bias", &n);
    const float *state0 = floats(v, "state0", &n);
    size_t keys = (size_t)(T * hk * kd);
    float *q = malloc(keys * sizeof *q), *k = malloc(keys * sizeof *k);
    float *gate = malloc((size_t)(2 * T * hv) * sizeof *gate);
    float *out = malloc((size_t)(T * hv * vd) * sizeof *out),
          *to = malloc((size_t)(vd * kd) * sizeof *to);
    memcpy(q, q0 + b * (int)keys, keys * sizeof *q),
        memcpy(k, k0 + b * (int)keys, keys * sizeof *k);
    for (int i = 0; i < T * hk; i++) {
        set->scan.unit(q + i * kd, kd, 1e-6f, (float)(1 / sqrt(kd)));
        set->scan.unit(k + i * kd, kd, 1e-6f, 1);
    }
    float rate[64];
    assert_true(hv <= 64);
    for (int h = 0; h < hv; h++) rate[h] = (float)exp(log_rate[h]);
    memcpy(gate, beta_in + b * T * hv, (size_t)(T * hv) * sizeof *gate);
    memcpy(gate + T * hv, a + b * T * hv, (size_t)(T * hv) * sizeof *gate);
    for (int t = 0; t < T; t++) set->scan.gates(gate + t * hv, gate + (T + t) * hv, dt, rate, hv);
    for (int h = 0; h < hv; h++) {
        gy_scan s = {.rows = T, .kdim = kd, .vdim = vd, .ldg = hv, .ldo = hv * vd, .to = to};
        /* q and k of the key head, and v, have one row step in the kernel: here each its own. */
        float *x = malloc((size_t)(T * (2 * kd + vd)) * sizeof *x);
        for (int t = 0; t < T; t++) {
            float *row = x + t * (2 * kd + vd);
            int key = (t * hk + h / (hv / hk)) * kd;
            memcpy(row, q + key, (size_t)kd * sizeof *x);
            memcpy(row + kd, k + key, (size_t)kd * sizeof *x);
            memcpy(row + 2 * kd, val + ((b * T + t) * hv + h) * vd, (size_t)vd * sizeof *x);
        }
        s.q = x, s.k = x + kd, s.v = x + 2 * kd, s.ld = 2 * kd + vd;
        s.beta = gate + h, s.decay = gate + T * hv + h, s.out = out + h * vd;
        s.from = state0 + (b * hv + h) * vd * kd;
        set->scan.scan(&s);
        for (int i = 0; i < vd * kd; i++)
            *off_s = farther(*off_s, to[i], real64(v, "state_f64", (b * hv + h) * vd * kd + i));
        free(x);
    }
    for (int i = 0; i < T * hv * vd; i++)
        *off_y = farther(*off_y, out[i], real64(v, "y_f64", b * T * hv * vd + i));
    free(q), free(k), free(gate), free(out), free(to);
}

static void test_vectors(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/gated_delta.json");
    gy_json_doc doc;
    gy_err err = {0};
    char text[8192];
    FILE *f = fopen(shared_path("vectors/gated_delta.json"), "rb");
    assert_non_null(f);
    size_t bytes = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_ok(gy_json_parse(&doc, text, bytes, &err), err);
    const gy_json *cases = gy_json_get(doc.root, "cases");
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *c = cases->item + i;
        char name[64];
        snprintf(name, sizeof name, "gated_delta_%s", gy_json_s(c, "name", "?"));
        vectors v = vectors_open(name);
        for (int k = 0; k < sets_here(); k++) {
            double y = 0, s = 0;
            for (int b = 0; b < gy_json_i(c, "B", 0); b++) vector_case(isas[k], &v, c, b, &y, &s);
            printf("%s, %s: output off by %.2g, state by %.2g\n", name, isas[k]->name, y, s);
            if (!(y <= gy_json_f(c, "accept_y", 0)) || !(s <= gy_json_f(c, "accept_state", 0)))
                fail_msg("%s, %s: output off by %g, state by %g", name, isas[k]->name, y, s);
        }
        vectors_close(&v);
    }
    gy_json_free(&doc);
}

static void test_vector_conv(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/gated_delta_conv.safetensors");
    vectors v = vectors_open("gated_delta_conv");
    enum { B = 2, L = 6, C = 8, K = 4 };
    int n;
    const float *x = floats(&v, "x", &n), *st = floats(&v, "state0", &n), *w = floats(&v, "w", &n);
    const float *after = floats(&v, "state1", &n);
    const uint8_t *lengths = get(&v, "lengths").p;
    float taps[K * C], rows[L * C], to[(K - 1) * C];
    double worst = 0;
    assert_int_equal(n, B * (K - 1) * C);
    for (int c = 0; c < C; c++)
        for (int j = 0; j < K; j++) taps[j * C + c] = w[c * K + j];
    for (int b = 0; b < B; b++)
        for (int k = 0; k < sets_here(); k++) {
            int len = (int)gy_load_u32(lengths + 4 * b);
            gy_conv c = {.x = rows, .ld = C, .rows = len, .cols = C, .taps = K};
            c.w = taps, c.ldw = C, c.from = st + b * (K - 1) * C, c.to = to;
            memcpy(rows, x + b * L * C, sizeof rows);
            isas[k]->scan.conv(&c);
            equal("conv state", isas[k]->name, after + b * (K - 1) * C, to, (K - 1) * C);
            for (int i = 0; i < len * C; i++)
                worst = farther(worst, rows[i], real64(&v, "y_f64", b * L * C + i));
        }
    printf("conv: off by %.2g\n", worst);
    assert_true(worst <= 1e-6);
    vectors_close(&v);
}

/* ---- The backend ---- */

enum { KH = 2, VH = 6, KD = 24, VD = 10, TAPS = 4, CH = 2 * KH * KD + VH * VD, SLOT_ROWS = 48 };
enum { LONG = 150, SEQS = 3 };

static float conv_w[TAPS * CH], dt_bias[VH], rate[VH];

static int plan_of(gy_plan *plan, gy_op *op, gy_kvspec *spec, int *cols) {
    *spec = (gy_kvspec){.donor = -1, .keep.policy = GY_KEEP_STATE};
    spec->conv = (TAPS - 1) * CH, spec->scan = VH * VD * KD;
    cols[0] = CH, cols[1] = 2 * VH, cols[2] = VH * VD;
    op[0] = (gy_op){.kind = GY_OP_CONV, .in = {0, -1}, .out = 0};
    op[0].u.conv.cols = CH, op[0].u.conv.taps = TAPS, op[0].u.conv.w = conv_w;
    op[1] = (gy_op){.kind = GY_OP_SCAN, .in = {0, 1}, .out = 2};
    op[1].u.scan.k_heads = KH, op[1].u.scan.v_heads = VH, op[1].u.scan.kdim = KD;
    op[1].u.scan.vdim = VD, op[1].u.scan.dt_bias = dt_bias, op[1].u.scan.rate = rate;
    *plan = (gy_plan){.op = op,
                      .n_ops = 2,
                      .n_slots = 3,
                      .slot_cols = cols,
                      .kv = spec,
                      .n_layers = 1,
                      .vocab = 1};
    return plan->n_ops;
}

/* Feeds every sequence x[seq][LONG] in ragged steps of random sizes; out [SEQS][LONG][VH * VD]. */
static void run_steps(gy_be *be, gy_kv *kv, const gy_plan *plan, const float *x, const float *g,
                      int most, uint64_t *rng, float *out) {
    struct gy_seq *seq[SEQS];
    gy_err err = {0};
    int at[SEQS] = {0}, done = 0, ld;
    for (int i = 0; i < SEQS; i++) assert_ok(gy_kv_seq_new(kv, &seq[i], &err), err);
    while (done < SEQS * LONG) {
        gy_span span[SEQS];
        int32_t tok[SLOT_ROWS] = {0}, pos[SLOT_ROWS], of[SLOT_ROWS];
        gy_batch b = {.tok = tok, .pos = pos, .of = of, .span = span, .seq = seq};
        for (int i = 0; i < SEQS; i++) {
            int n = below(rng, most) + 1;
            if (n > LONG - at[i]) n = LONG - at[i];
            if (n > SLOT_ROWS - b.rows) n = SLOT_ROWS - b.rows;
            if (!n) continue;
            span[b.spans++] = (gy_span){.seq = i, .row0 = b.rows, .n = n, .pos0 = at[i]};
            for (int r = 0; r < n; r++, b.rows++) {
                pos[b.rows] = at[i] + r, of[b.rows] = i;
                memcpy((float *)be->slot(be, 0, &ld) + b.rows * ld,
                       x + (i * LONG + pos[b.rows]) * CH, CH * sizeof *x);
                memcpy((float *)be->slot(be, 1, &ld) + b.rows * ld,
                       g + (i * LONG + pos[b.rows]) * 2 * VH, 2 * VH * sizeof *g);
            }
            assert_ok(gy_kv_reserve(kv, seq[i], n, &err), err);
        }
        be->begin(be, &b);
        for (int i = 0; i < plan->n_ops; i++) be->run(be, plan->op + i, &b);
        assert_ok(be->end(be, &err), err);
        for (int r = 0; r < b.rows; r++)
            memcpy(out + (of[r] * LONG + pos[r]) * VH * VD, be->slot(be, 2, &ld) + r * ld,
                   VH * VD * sizeof *out);
        for (int i = 0; i < b.spans; i++) {
            gy_kv_append(kv, seq[span[i].seq], tok, span[i].n);
            at[span[i].seq] += span[i].n, done += span[i].n;
        }
    }
    for (int i = 0; i < SEQS; i++) gy_kv_seq_free(kv, seq[i]);
}

static void test_backend(void **state) {
    (void)state;
    static float x[SEQS * LONG * CH], g[SEQS * LONG * 2 * VH];
    static float want[SEQS * LONG * VH * VD], got[SEQS * LONG * VH * VD];
    uint64_t rng = test_seed();
    gy_plan plan;
    gy_op op[2];
    gy_kvspec spec;
    gy_err err = {0};
    int cols[3];
    plan_of(&plan, op, &spec, cols);
    fill(x, sizeof x / sizeof *x, &rng), fill(g, sizeof g / sizeof *g, &rng);
    fill(conv_w, TAPS * CH, &rng), fill(dt_bias, VH, &rng), fill(rate, VH, &rng);
    for (int h = 0; h < VH; h++) rate[h] = fabsf(rate[h]) + 0.01f;
    for (int set = 0; set < sets_here(); set++)
        for (int threads = 1; threads <= 3; threads++)
            for (int most = 1; most <= 60; most = most * 4 + 1) {
                gy_kv *kv;
                gy_be *be;
                char what[60];
                assert_ok(gy_kv_new(&spec, 1, 1000, &kv, &err), err);
                assert_ok(gy_cpu_new(&plan, kv, threads, GY_BE_EXACT, isas[set]->name, SLOT_ROWS,
                                     &be, &err),
                          err);
                bool first = !set && threads == 1 && most == 1;
                run_steps(be, kv, &plan, x, g, most, &rng, first ? want : got);
                snprintf(what, sizeof what, "backend, %d threads, steps up to %d", threads, most);
                if (!first) equal(what, isas[set]->name, want, got, sizeof got / sizeof *got);
                be->free(be);
                gy_kv_free(kv);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),    cmocka_unit_test(test_scan),
        cmocka_unit_test(test_gates),   cmocka_unit_test(test_unit_gate),
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_vector_conv),
        cmocka_unit_test(test_backend)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
