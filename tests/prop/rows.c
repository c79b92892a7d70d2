/* Row operators: every function of every instruction set against the generic one by memcmp; norms,
 * rotations and the rest against plain double arithmetic with computed bounds; and the operators of
 * the backend under threads. */
#include "testlib.h"

#include <math.h>

#include "base/dmath.h"
#include "base/mem.h"
#include "base/num.h"
#include "isas.h"

enum { MAX = 700, ROUNDS = 400, GUARD = 8 };

static void fill(float *x, int n, uint64_t *rng, float size) {
    for (int i = 0; i < n; i++) x[i] = size * test_uniform(rng);
}

/* Lengths around the vector sizes, and any. */
static int length(uint64_t *rng) {
    uint32_t r = test_rand(rng) % 4;
    return r == 0   ? 1 + (int)(test_rand(rng) % 40)
           : r == 1 ? 16 * (1 + (int)(test_rand(rng) % 40))
                    : 1 + (int)(test_rand(rng) % MAX);
}

typedef struct {
    float x[MAX + GUARD], b[MAX + GUARD], c[MAX + GUARD], w[MAX + GUARD];
    int n;
    uint32_t pick;
} input;

typedef struct {
    const char *name;
    void (*call)(const gy_isa_rows *, const input *, float *y);
} function;

static void call_norm(const gy_isa_rows *f, const input *in, float *y) {
    f->norm(in->x, y, in->pick & 1 ? in->w : NULL, in->pick & 2 ? in->b : NULL, in->n, 1e-5f,
            in->pick / 4 % 3);
}
static void call_norm_in_place(const gy_isa_rows *f, const input *in, float *y) {
    memcpy(y, in->x, sizeof in->x);
    f->norm(y, y, in->w, NULL, in->n, 1e-6f, in->pick / 4 % 3);
}
static void call_rope(const gy_isa_rows *f, const input *in, float *y) {
    memcpy(y, in->x, sizeof in->x);
    f->rope(y, in->b, in->c, in->n / 2 * 2, in->pick & 1);
}
static void call_act(const gy_isa_rows *f, const input *in, float *y) {
    f->act(in->x, in->pick & 1 ? in->b : NULL, y, in->n, in->pick / 2 % 7);
}
static void call_add(const gy_isa_rows *f, const input *in, float *y) {
    f->add(in->x, in->b, y, in->n, in->pick & 1 ? 1 : in->c[0]);
}
static void call_scale(const gy_isa_rows *f, const input *in, float *y) {
    memcpy(y, in->x, sizeof in->x);
    f->scale(y, in->n, in->c[0]);
}
static void call_finish(const gy_isa_rows *f, const input *in, float *y) {
    memcpy(y, in->x, sizeof in->x);
    f->finish(y, in->n, in->pick & 1 ? 1 : in->c[0], in->pick & 2 ? 30 : 0);
}
static void call_exp(const gy_isa_rows *f, const input *in, float *y) {
    f->exp(in->x, y, in->n);
}
static void call_tanh(const gy_isa_rows *f, const input *in, float *y) {
    f->tanh(in->x, y, in->n);
}
static void call_erf(const gy_isa_rows *f, const input *in, float *y) {
    f->erf(in->x, y, in->n);
}
static void call_codec(const gy_isa_rows *f, const input *in, float *y) {
    gy_codec_kind kind = in->pick % 3;
    uint8_t bytes[4 * MAX + 1];
    gy_rows m = {.c = {.kind = kind}, .rows = 1, .cols = in->n, .plane = {bytes + 1}, .global = 1};
    y[in->n] = (float)f->kv_put(&m, 0, in->x);
    f->kv_rows(&m, 0, 1, y, in->n);
}

static void test_sets(void **state) {
    (void)state;
    static const function list[] = {
        {"norm", call_norm},     {"norm in place", call_norm_in_place},
        {"rope", call_rope},     {"act", call_act},
        {"add", call_add},       {"scale", call_scale},
        {"finish", call_finish}, {"exp", call_exp},
        {"tanh", call_tanh},     {"erf", call_erf},
        {"codec", call_codec},
    };
    uint64_t rng = test_seed();
    static const float sizes[] = {1e-30f, 1e-3f, 1, 10, 90, 1e5f, 1e18f};
    static input in;
    for (int round = 0; round < ROUNDS; round++) {
        in.n = length(&rng), in.pick = test_rand(&rng);
        float size = sizes[test_rand(&rng) % 7];
        fill(in.x, MAX, &rng, size), fill(in.b, MAX, &rng, 2), fill(in.c, MAX, &rng, 2),
            fill(in.w, MAX, &rng, 3);
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            float want[MAX + GUARD];
            memset(want, 0x5A, sizeof want);
            list[i].call(&isas[0]->row, &in, want);
            for (int t = 1; t < ISAS; t++) {
                float got[MAX + GUARD];
                if (!isas[t]->usable()) continue;
                memset(got, 0x5A, sizeof got); /* bytes past the end must be left alone */
                list[i].call(&isas[t]->row, &in, got);
                if (memcmp(got, want, sizeof got))
                    fail_msg("%s: %s differs, n %d pick %u size %g", list[i].name, isas[t]->name,
                             in.n, in.pick, size);
            }
        }
    }
}

/* Lanes are 16 sums of n / 16 squares, then 4 levels: n / 16 + 5 roundings, and one each for the
 * square, division, eps, root, reciprocal; the output has 3 more. The mean has n / 16 + 5 of the
 * mean magnitude, which x - m inherits. */
static void test_norm(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    const double eps = 0x1p-24;
    float x[MAX], w[MAX], b[MAX], y[MAX];
    double worst = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = length(&rng), form = (int)(test_rand(&rng) % 3);
        fill(x, n, &rng, round % 3 ? 1 : 100), fill(w, n, &rng, 2), fill(b, n, &rng, 1);
        for (int i = 0; i < n; i++) x[i] += round % 2 ? 0.5f : 0;
        double mean = 0, size = 0, ss = 0;
        for (int i = 0; i < n; i++) mean += x[i], size += fabs((double)x[i]);
        mean = form == GY_NORM_LAYER ? mean / n : 0, size /= n;
        for (int i = 0; i < n; i++) ss += (x[i] - mean) * (x[i] - mean);
        double r = 1 / sqrt(ss / n + 1e-5), sums = (n / 16 + 6) * eps;
        double off_mean = form == GY_NORM_LAYER ? sums * size + 2 * eps * fabs(mean) : 0;
        /* The mean's error moves the sum of squares by its own square only, which is below what is
         * counted. */
        double rel = sums / 2 + 6 * eps + off_mean * off_mean * n * r * r;
        gy_isa_generic.row.norm(x, y, w, form == GY_NORM_LAYER ? b : NULL, n, 1e-5f, form);
        for (int i = 0; i < n; i++) {
            double scale = form == GY_NORM_RMS_PLUS1 ? 1 + (double)w[i] : w[i],
                   add = form == GY_NORM_LAYER ? b[i] : 0;
            double want = (x[i] - mean) * r * scale + add;
            double bound =
                fabs(scale) * r * (fabs(x[i] - mean) * rel + off_mean + eps * fabs((double)x[i])) +
                2 * eps * (fabs(want) + fabs(add)) + 1e-38;
            double off = fabs(y[i] - want) / bound;
            if (!(off <= worst)) worst = off;
            if (!(off <= 1))
                fail_msg("%s n %d [%d]: %.9g, expected %.9g", gy_norm_names[form], n, i, y[i],
                         want);
        }
    }
    printf("norms: %.3f of the bound\n", worst);
}

/* ---- Operators of the backend ---- */

enum { ROWS = 40, WIDTH = 96, HEADS = 4, DIM = 24, ROT = 16, VOCAB = 50, MID = 150 };
enum { S_X, S_N, S_H, S_GU, S_ACT, S_SUM, S_OUT, S_COUNT };

typedef struct {
    float embed[VOCAB * WIDTH], gain[WIDTH], bias[WIDTH], head_gain[DIM], freq[ROT / 2];
    uint16_t gain16[WIDTH];
    gy_weight w_embed, w_gain, w_gain16, w_head;
    gy_op op[16];
    int cols[S_COUNT];
    gy_kvspec spec;
    gy_plan plan;
} model;

static gy_weight weight_of(void *p, gy_codec_kind kind, int rows, int cols, const float *bias) {
    return (gy_weight){.file = {.c = {.kind = kind},
                                .rows = rows,
                                .cols = cols,
                                .plane = {p},
                                .step = {cols * (kind == GY_CODEC_F32 ? 4 : 2)},
                                .global = 1},
                       .bias = bias};
}

static void model_make(model *m, uint64_t *rng) {
    memset(m, 0, sizeof *m);
    fill(m->embed, VOCAB * WIDTH, rng, 1), fill(m->gain, WIDTH, rng, 1),
        fill(m->bias, WIDTH, rng, 1);
    fill(m->head_gain, DIM, rng, 1);
    for (int i = 0; i < ROT / 2; i++) m->freq[i] = (float)gy_dpow(10000, -2.0 * i / ROT);
    for (int i = 0; i < WIDTH; i++)
        m->gain16[i] = gy_f32_bf16(m->gain[i]), m->gain[i] = gy_bf16_f32(m->gain16[i]);
    m->w_embed = weight_of(m->embed, GY_CODEC_F32, VOCAB, WIDTH, NULL);
    m->w_gain = weight_of(m->gain, GY_CODEC_F32, 1, WIDTH, m->bias);
    m->w_gain16 = weight_of(m->gain16, GY_CODEC_BF16, 1, WIDTH, m->bias);
    m->w_head = weight_of(m->head_gain, GY_CODEC_F32, 1, DIM, NULL);
    int cols[S_COUNT] = {WIDTH, WIDTH, WIDTH, 2 * MID, MID, WIDTH, WIDTH};
    memcpy(m->cols, cols, sizeof cols);
    gy_op op[] = {
        {.kind = GY_OP_EMBED,
         .in = {-1, -1},
         .out = S_X,
         .w = {&m->w_embed},
         .u.embed = {.scale = 2.5f}},
        {.kind = GY_OP_NORM,
         .in = {S_X, -1},
         .out = S_N,
         .w = {&m->w_gain},
         .u.norm = {1e-5f, GY_NORM_LAYER}},
        {.kind = GY_OP_NORM,
         .in = {S_X, -1},
         .out = S_H,
         .w = {&m->w_gain16},
         .u.norm = {1e-5f, GY_NORM_LAYER}},
        {.kind = GY_OP_ADD, .in = {S_X, S_N}, .out = S_SUM, .u.add = {0.25f}},
        {.kind = GY_OP_HEADNORM,
         .in = {-1, -1},
         .out = S_H,
         .w = {&m->w_head},
         .u.headnorm =
             {.eps = 1e-6f, .form = GY_NORM_RMS_PLUS1, .col = DIM, .heads = HEADS - 1, .dim = DIM}},
        {.kind = GY_OP_ROPE,
         .in = {-1, -1},
         .out = S_H,
         .u.rope = {.col = 0,
                    .heads = HEADS,
                    .dim = DIM,
                    .rot = ROT,
                    .mscale = 1.25f,
                    .inv_freq = m->freq}},
        {.kind = GY_OP_ACT,
         .flags = GY_OPF_GLU,
         .in = {S_GU, -1},
         .out = S_ACT,
         .u.act = {GY_ACT_SILU, MID}},
        {.kind = GY_OP_KVPUT, .in = {S_H, -1}, .out = -1, .u.kvput = {.kcol = 0, .vcol = 2 * DIM}},
        {.kind = GY_OP_PICK, .in = {S_SUM, -1}, .out = S_OUT},
        {.kind = GY_OP_NORM,
         .flags = GY_OPF_OUTS,
         .in = {S_OUT, -1},
         .out = S_OUT,
         .u.norm = {1e-5f, GY_NORM_RMS}},
    };
    memcpy(m->op, op, sizeof op);
    m->spec = (gy_kvspec){.k = {.kind = GY_CODEC_F16},
                          .v = {.kind = GY_CODEC_BF16},
                          .heads = 2,
                          .kdim = DIM,
                          .vdim = DIM,
                          .donor = -1};
    m->plan = (gy_plan){.op = m->op,
                        .n_ops = sizeof op / sizeof *op,
                        .n_slots = S_COUNT,
                        .slot_cols = m->cols,
                        .kv = &m->spec,
                        .n_layers = 1,
                        .vocab = VOCAB};
}

typedef struct {
    gy_kv *kv;
    gy_be *be;
    struct gy_seq *seq;
    int32_t tok[ROWS], pos[ROWS], of[ROWS], out[3];
    gy_span span;
    gy_batch batch;
} live;

static float *slot_row(live *l, int slot, int r) {
    int ld;
    float *p = (float *)(uintptr_t)l->be->slot(l->be, slot, &ld);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(ld % 16, 0);
    return p + (ptrdiff_t)r * ld;
}

static void live_run(live *l, model *m, const char *isa, int threads, const float *gu) {
    gy_err err = {0};
    memset(l, 0, sizeof *l);
    assert_ok(gy_kv_new(&m->spec, 1, 256, &l->kv, &err), err);
    assert_ok(gy_cpu_new(&m->plan, l->kv, threads, GY_BE_EXACT, isa, ROWS, &l->be, &err), err);
    assert_string_equal(l->be->isa, isa);
    assert_ok(gy_kv_seq_new(l->kv, &l->seq, &err), err);
    assert_ok(gy_kv_reserve(l->kv, l->seq, ROWS, &err), err);
    for (int r = 0; r < ROWS; r++) {
        l->tok[r] = (r * 17 + 3) % VOCAB, l->pos[r] = r;
        memcpy(slot_row(l, S_GU, r), gu + r * 2 * MID, 2 * MID * sizeof *gu);
    }
    l->out[0] = 2, l->out[1] = 3, l->out[2] = ROWS - 1;
    l->span = (gy_span){0, 0, ROWS, 0};
    l->batch = (gy_batch){.rows = ROWS,
                          .spans = 1,
                          .outs = 3,
                          .tok = l->tok,
                          .pos = l->pos,
                          .of = l->of,
                          .span = &l->span,
                          .out = l->out,
                          .seq = &l->seq};
    l->be->begin(l->be, &l->batch);
    for (int i = 0; i < m->plan.n_ops; i++) l->be->run(l->be, &m->op[i], &l->batch);
    assert_ok(l->be->end(l->be, &err), err);
}

static void live_free(live *l) {
    gy_kv_seq_free(l->kv, l->seq);
    l->be->free(l->be);
    gy_kv_free(l->kv);
}

/* What the ops say, from the tested functions of one row. */
static void check_ops(live *l, model *m, const float *gu) {
    const gy_isa_rows *f = &gy_isa_generic.row;
    for (int r = 0; r < ROWS; r++) {
        float x[WIDTH], n[WIDTH], h[WIDTH], act[MID], c[ROT / 2], s[ROT / 2];
        for (int i = 0; i < WIDTH; i++) x[i] = m->embed[l->tok[r] * WIDTH + i] * 2.5f;
        assert_memory_equal(slot_row(l, S_X, r), x, sizeof x);
        f->norm(x, n, m->gain, m->bias, WIDTH, 1e-5f, GY_NORM_LAYER);
        assert_memory_equal(slot_row(l, S_N, r), n, sizeof n);
        memcpy(h, n, sizeof h); /* the bf16 gain has the same values */
        for (int k = 1; k < HEADS; k++)
            f->norm(h + k * DIM, h + k * DIM, m->head_gain, NULL, DIM, 1e-6f, GY_NORM_RMS_PLUS1);
        for (int i = 0; i < ROT / 2; i++) {
            float angle = (float)r * m->freq[i];
            c[i] = (float)(gy_dcos(angle) * 1.25), s[i] = (float)(gy_dsin(angle) * 1.25);
        }
        for (int k = 0; k < HEADS; k++) f->rope(h + k * DIM, c, s, ROT, false);
        assert_memory_equal(slot_row(l, S_H, r), h, sizeof h);
        f->act(gu + r * 2 * MID, gu + r * 2 * MID + MID, act, MID, GY_ACT_SILU);
        assert_memory_equal(slot_row(l, S_ACT, r), act, sizeof act);
        for (int i = 0; i < WIDTH; i++) x[i] = fmaf(n[i], 0.25f, x[i]);
        assert_memory_equal(slot_row(l, S_SUM, r), x, sizeof x);
        for (int o = 0; o < 3; o++) {
            if (l->out[o] != r) continue;
            f->norm(x, n, NULL, NULL, WIDTH, 1e-5f, GY_NORM_RMS);
            assert_memory_equal(slot_row(l, S_OUT, o), n, sizeof n);
        }
        for (int head = 0; head < 2; head++) {
            gy_rows k = gy_kv_page_rows(l->kv, l->seq, 0, 0, head, false),
                    v = gy_kv_page_rows(l->kv, l->seq, 0, 0, head, true);
            uint16_t want[DIM];
            gy_rows one = {.c = k.c,
                           .rows = 1,
                           .cols = DIM,
                           .plane = {want},
                           .step = {sizeof want},
                           .global = 1};
            gy_codecs[k.c.kind].encode(&one, 0, h + head * DIM);
            assert_memory_equal((char *)k.plane[0] + r * k.step[0], want, sizeof want);
            one.c = v.c;
            gy_codecs[v.c.kind].encode(&one, 0, h + (2 + head) * DIM);
            assert_memory_equal((char *)v.plane[0] + r * v.step[0], want, sizeof want);
        }
    }
}

static void test_ops(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    static model m;
    static float gu[ROWS * 2 * MID];
    model_make(&m, &rng);
    fill(gu, ROWS * 2 * MID, &rng, 4);
    for (int t = 0; t < ISAS; t++) {
        if (!isas[t]->usable()) continue;
        for (int threads = 1; threads <= 3; threads += 2) {
            live l;
            live_run(&l, &m, isas[t]->name, threads, gu);
            check_ops(&l, &m, gu);
            assert_int_equal(l.be->saturated(l.be), 0);
            live_free(&l);
        }
    }
    /* Values beyond f16 are clamped and counted; bf16 holds them. K of head 0 has no gain: put 1e6
     * there by the bias. */
    m.bias[0] = m.bias[1] = 1e6f, m.bias[3 * DIM] = 1e6f;
    live l;
    live_run(&l, &m, "generic", 1, gu);
    int clamped = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < 2 * DIM; i++) clamped += fabsf(slot_row(&l, S_H, r)[i]) >= 65520;
    assert_true(clamped > ROWS);
    assert_int_equal(l.be->saturated(l.be), clamped);
    live_free(&l);
}

/* Rotation keeps the positions' difference: <R(p) a, R(q) b> depends on p - q; pairs and halves are
 * the same rotation of other dims. Far positions use the same reduction. */
static void test_rope_positions(void **state) {
    (void)state;
    static const int at[] = {0, 1, 63, 4096, 131071, (1 << 24) - 1};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        float freq[] = {1, 0.1f, 0.0316227766f, 1e-4f};
        for (int i = 0; i < 4; i++) {
            float angle = (float)at[k] * freq[i];
            double c = gy_dcos(angle), want = (double)cosl((long double)angle);
            if (fabs(c - want) > 0x1p-52)
                fail_msg("cos of %g: %.17g, expected %.17g", angle, c, want);
            float x[2] = {1, 0}, cf = (float)c, sf = (float)gy_dsin(angle);
            gy_isa_generic.row.rope(x, &cf, &sf, 2, true);
            assert_true(x[0] == cf && x[1] == sf);
        }
    }
    float a[32], b[32], c[16], s[16];
    uint64_t rng = 7;
    fill(a, 32, &rng, 1), fill(c, 16, &rng, 1), fill(s, 16, &rng, 1);
    for (int i = 0; i < 16; i++) b[i] = a[2 * i], b[16 + i] = a[2 * i + 1];
    gy_isa_generic.row.rope(a, c, s, 32, true);
    gy_isa_generic.row.rope(b, c, s, 32, false);
    for (int i = 0; i < 16; i++) assert_true(b[i] == a[2 * i] && b[16 + i] == a[2 * i + 1]);
}

/* Dynamic NTK: up to the limit the plain frequencies, past it those of the grown base at the row's
 * own position. */
static void test_rope_dynamic(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    static model m;
    static float gu[ROWS * 2 * MID];
    model_make(&m, &rng);
    m.op[5].u.rope.mscale = 1, m.op[5].u.rope.dyn_max = 20, m.op[5].u.rope.dyn_base = 10000,
    m.op[5].u.rope.dyn_factor = 4;
    live l;
    live_run(&l, &m, "generic", 1, gu);
    for (int r = 0; r < ROWS; r++) {
        float x[DIM], want[DIM], c[ROT / 2], s[ROT / 2];
        gy_isa_generic.row.norm(slot_row(&l, S_X, r), slot_row(&l, S_N, r), m.gain, m.bias, WIDTH,
                                1e-5f, GY_NORM_LAYER);
        memcpy(want, slot_row(&l, S_N, r), sizeof want);
        memcpy(x, slot_row(&l, S_H, r), sizeof x);
        double base = r < 20 ? 10000 : 10000 * pow(4 * (r + 1) / 20.0 - 3, (double)ROT / (ROT - 2));
        for (int i = 0; i < ROT / 2; i++) {
            float angle = (float)r * (float)pow(base, -2.0 * i / ROT);
            c[i] = (float)cos(angle), s[i] = (float)sin(angle);
        }
        gy_isa_generic.row.rope(want, c, s, ROT, false);
        for (int i = 0; i < DIM;
             i++) /* frequency and angle may round the other way: |r| ulps of the angle */
            if (fabsf(x[i] - want[i]) > 4 * (float)(r + 1) * 0x1p-23f)
                fail_msg("position %d value %d: %.9g, expected %.9g", r, i, x[i], want[i]);
    }
    live_free(&l);
}

/* Every allocation of a backend fails once: an error, and nothing left behind (the sanitizer
 * looks). */
static void test_faults(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    static model m;
    model_make(&m, &rng);
    gy_err err = {0};
    gy_kv *kv;
    gy_be *be = NULL;
    assert_ok(gy_kv_new(&m.spec, 1, 256, &kv, &err), err);
    long before = gy_alloc_count();
    assert_ok(gy_cpu_new(&m.plan, kv, 2, GY_BE_FAST, NULL, ROWS, &be, &err), err);
    long n = gy_alloc_count() - before;
    be->free(be);
    assert_true(n >= 10);
    for (long i = 1; i <= n; i++) {
        memset(&err, 0, sizeof err);
        be = NULL;
        gy_alloc_fail_at(i);
        gy_rc rc = gy_cpu_new(&m.plan, kv, 2, GY_BE_FAST, NULL, ROWS, &be, &err);
        gy_alloc_fail_at(0);
        if (rc != GY_ENOMEM || be) fail_msg("allocation %ld of %ld: %s", i, n, gy_rc_name(rc));
    }
    m.op[0].kind = GY_OP_CLIP; /* the one operator of the vocabulary that no backend has yet */
    memset(&err, 0, sizeof err);
    assert_int_equal(gy_cpu_new(&m.plan, kv, 1, GY_BE_EXACT, NULL, ROWS, &be, &err),
                     GY_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "clip"));
    gy_kv_free(kv);
}

static void test_isa_names(void **state) {
    (void)state;
    gy_err err = {0};
    assert_non_null(gy_isa_find(NULL, &err));
    assert_ptr_equal(gy_isa_find("generic", &err), &gy_isa_generic);
    assert_null(gy_isa_find("abacus", &err));
    assert_int_equal(err.rc, GY_EARG);
    assert_non_null(strstr(err.msg, "abacus"));
    setenv("GYRE_ISA", "generic", 1);
    assert_string_equal(gy_isa(), "generic");
    unsetenv("GYRE_ISA");
    assert_string_equal(gy_isa(), gy_isa_find("", NULL)->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),         cmocka_unit_test(test_norm),
        cmocka_unit_test(test_ops),          cmocka_unit_test(test_rope_positions),
        cmocka_unit_test(test_rope_dynamic), cmocka_unit_test(test_isa_names),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
