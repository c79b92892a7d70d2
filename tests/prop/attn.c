/* Attention: the shared vectors, a plain double reference with computed bounds, and equal bits
 * under every legal variation: batches, chunks, threads, instruction sets, pages that were copied,
 * dropped or shared. */
#include "testlib.h"

#include <math.h>

#include "base/json.h"
#include "base/num.h"
#include "isas.h"

/* What a query sees: kv.md 4.1. images: spans of image_at are seen both ways; bias: added to every
 * score. */
typedef struct {
    int window, chunk, kept;
    bool images, bias;
} mask;

typedef struct {
    int heads, kv_heads, kdim, vdim;
    float scale, cap;
    bool sinks, view; /* view: V is a part of K */
    mask m;
    gy_cparm k, v;
} shape;

enum { SEQS = 3, SINKS = 64, ROWS = 512, IMAGES = 6 };

/* One layer of KVPUT and ATTN over slots the test fills: q | k | v per row. */
typedef struct {
    shape s;
    float sink[SINKS];
    int cols[2];
    gy_op op[2];
    gy_kvspec spec;
    gy_plan plan;
    int len[SEQS];
    float *x[SEQS];       /* [len][cols[0]] */
    int image[IMAGES][2]; /* [from, to), ascending */
    float *bias[SEQS];    /* [len][len] or NULL */
    float *out[SEQS];     /* [len][cols[1]] of the first run */
} rig;

static void rig_make(rig *r, shape s, const int *len) {
    memset(r, 0, sizeof *r);
    r->s = s;
    int q = s.heads * s.kdim, k = s.kv_heads * s.kdim;
    r->cols[0] = q + k + s.kv_heads * s.vdim, r->cols[1] = s.heads * s.vdim;
    r->spec = (gy_kvspec){.k = s.k,
                          .v = s.v,
                          .form = s.view ? GY_KV_VIEW : GY_KV_BOTH,
                          .heads = s.kv_heads,
                          .kdim = s.kdim,
                          .vdim = s.vdim,
                          .donor = -1,
                          .keep = {.policy = GY_KEEP_ALL}};
    if (s.m.window || s.m.chunk)
        r->spec.keep = (gy_keep){.policy = GY_KEEP_WINDOW,
                                 .window = s.m.window ? s.m.window : s.m.chunk,
                                 .sinks = s.m.kept};
    r->op[0] = (gy_op){
        .kind = GY_OP_KVPUT, .in = {0, -1}, .out = -1, .u.kvput = {.kcol = q, .vcol = q + k}};
    r->op[1] = (gy_op){.kind = GY_OP_ATTN,
                       .in = {0, -1},
                       .out = 1,
                       .u.attn = {.heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .kdim = s.kdim,
                                  .vdim = s.vdim,
                                  .window = s.m.window,
                                  .chunk = s.m.chunk,
                                  .kept = s.m.kept,
                                  .scale = s.scale,
                                  .cap = s.cap,
                                  .sinks = s.sinks ? r->sink : NULL}};
    r->plan = (gy_plan){
        .op = r->op, .n_ops = 2, .n_slots = 2, .slot_cols = r->cols, .kv = &r->spec, .n_layers = 1};
    for (int i = 0; i < SEQS; i++) {
        r->len[i] = len[i];
        r->x[i] = calloc((size_t)len[i] * (size_t)r->cols[0] + 1, sizeof(float));
        r->out[i] = calloc((size_t)len[i] * (size_t)r->cols[1] + 1, sizeof(float));
        if (s.m.bias) r->bias[i] = calloc((size_t)len[i] * (size_t)len[i] + 1, sizeof(float));
    }
    static const int image_at[IMAGES][2] = {{3, 8}, {10, 14}, {50, 75}, {100, 180}, {250, 262}};
    if (s.m.images) memcpy(r->image, image_at, sizeof r->image);
}

/* The image that holds the position, or NULL. */
static const int *image_of(const rig *r, int pos) {
    for (int i = 0; i < IMAGES; i++)
        if (r->image[i][0] <= pos && pos < r->image[i][1]) return r->image[i];
    return NULL;
}

/* n rows from position pos, and as many more as the last one's image needs, within the sequence. */
static int whole_images(const rig *r, int seq, int pos, int n) {
    const int *image = n ? image_of(r, pos + n - 1) : NULL;
    if (image && pos + n < image[1]) n = image[1] - pos;
    return n < r->len[seq] - pos ? n : r->len[seq] - pos;
}

static bool sees(const rig *r, int q, int p) {
    mask m = r->s.m;
    const int *image = image_of(r, q);
    if (image && image == image_of(r, p)) return true;
    if (p > q) return false;
    if (p < m.kept) return true;
    return (!m.window || q - p < m.window - m.kept) && (!m.chunk || p / m.chunk == q / m.chunk);
}

/* -infinity hides positions: one in eight, whole pages, or all that there are. */
static void bias_row(float *bias, int n, uint64_t *rng) {
    bool none = test_rand(rng) % 16 == 0, page = false;
    for (int p = 0; p < n; p++) {
        if (p % GY_PAGE == 0) page = test_rand(rng) % 4 == 0;
        bias[p] = none || page || test_rand(rng) % 8 == 0 ? -INFINITY : 2 * test_uniform(rng);
    }
}

static void rig_random(rig *r, uint64_t *rng) {
    for (int i = 0; i < SEQS; i++)
        for (size_t k = 0; k < (size_t)r->len[i] * (size_t)r->cols[0]; k++)
            r->x[i][k] = 2 * test_uniform(rng);
    for (int i = 0; i < SEQS; i++)
        for (int k = 0; r->bias[i] && k < r->len[i]; k++)
            bias_row(r->bias[i] + (ptrdiff_t)k * r->len[i], r->len[i], rng);
    for (int h = 0; h < SINKS; h++) r->sink[h] = 3 * test_uniform(rng);
}

static void rig_free(rig *r) {
    for (int i = 0; i < SEQS; i++) free(r->x[i]), free(r->out[i]), free(r->bias[i]);
}

typedef struct {
    const char *isa;
    int threads, chunk; /* chunk: most rows of a step; 1: row by row */
    bool mixed,
        forked; /* several sequences in a step; continue on a fork and with withdrawn rows */
} variation;

typedef struct {
    const rig *r;
    gy_be *be;
    gy_kv *kv;
    struct gy_seq *seq[SEQS];
    float *out[SEQS];
} live;

/* One step with n[i] rows of each sequence; keep: take the outputs and append, else the rows are
 * withdrawn again. */
static void step(live *l, const int *n, bool keep) {
    const rig *r = l->r;
    gy_err err = {0};
    int32_t tok[ROWS] = {0}, pos[ROWS], of[ROWS];
    gy_reach also[ROWS] = {{0}};
    const float *bias[ROWS];
    gy_span span[SEQS];
    struct gy_seq *seq[SEQS];
    gy_batch b = {.tok = tok, .pos = pos, .of = of, .span = span, .seq = seq};
    if (r->s.m.images) b.also = also;
    if (r->s.m.bias) b.bias = bias;
    int ld;
    float *in = (float *)(uintptr_t)l->be->slot(l->be, 0, &ld);
    for (int i = 0; i < SEQS; i++) {
        if (!n[i]) continue;
        int pos0 = l->seq[i]->len;
        assert_ok(gy_kv_reserve(l->kv, l->seq[i], n[i], &err), err);
        seq[b.spans] = l->seq[i];
        span[b.spans] = (gy_span){.seq = b.spans, .row0 = b.rows, .n = n[i], .pos0 = pos0};
        for (int t = 0; t < n[i]; t++, b.rows++) {
            const int *image = image_of(r, pos0 + t);
            pos[b.rows] = pos0 + t, of[b.rows] = b.spans;
            if (image)
                also[b.rows] =
                    (gy_reach){image[0], image[1] < pos0 + n[i] ? image[1] : pos0 + n[i], 0};
            if (b.bias) bias[b.rows] = r->bias[i] + (size_t)(pos0 + t) * (size_t)r->len[i];
            memcpy(in + (size_t)b.rows * (size_t)ld,
                   r->x[i] + (size_t)(pos0 + t) * (size_t)r->cols[0],
                   (size_t)r->cols[0] * sizeof *in);
            /* Rows that will be withdrawn hold other values: they must leave no trace. */
            for (int c = 0; !keep && c < r->cols[0]; c++)
                in[(size_t)b.rows * (size_t)ld + (size_t)c] *= 1.5f;
        }
        b.spans++;
    }
    l->be->begin(l->be, &b);
    l->be->run(l->be, &r->op[0], &b);
    l->be->run(l->be, &r->op[1], &b);
    assert_ok(l->be->end(l->be, &err), err);
    const float *out = l->be->slot(l->be, 1, &ld);
    for (int s = 0; s < b.spans && keep; s++) {
        int i = 0;
        while (l->seq[i] != seq[s]) i++;
        for (int t = 0; t < span[s].n; t++)
            memcpy(l->out[i] + (size_t)(span[s].pos0 + t) * (size_t)r->cols[1],
                   out + (size_t)(span[s].row0 + t) * (size_t)ld, (size_t)r->cols[1] * sizeof *out);
        gy_kv_append(l->kv, seq[s], tok, span[s].n);
    }
}

static void disturb(live *l, uint64_t *rng) {
    gy_err err = {0};
    int i = (int)(test_rand(rng) % SEQS), n[SEQS] = {0};
    struct gy_seq *copy;
    assert_ok(gy_kv_seq_fork(l->kv, l->seq[i], &copy, &err), err);
    if (test_rand(rng) % 2) { /* go on with the copy; the original is still there while it does */
        struct gy_seq *t = l->seq[i];
        l->seq[i] = copy, copy = t;
    }
    n[i] = whole_images(l->r, i, l->seq[i]->len, (int)(test_rand(rng) % 5) + 1);
    if (n[i]) step(l, n, false);
    gy_kv_seq_free(l->kv, copy);
}

/* Runs all sequences to their ends under the variation. */
static void run(const rig *r, variation v, uint64_t seed, float *const *out) {
    gy_err err = {0};
    live l = {.r = r};
    uint64_t rng = seed;
    assert_ok(gy_kv_new(&r->spec, 1, 16384, &l.kv, &err), err);
    assert_ok(gy_cpu_new(&r->plan, l.kv, v.threads, GY_BE_EXACT, v.isa, ROWS, &l.be, &err), err);
    for (int i = 0; i < SEQS; i++) {
        assert_ok(gy_kv_seq_new(l.kv, &l.seq[i], &err), err);
        l.out[i] = out[i];
    }
    for (;;) {
        int n[SEQS] = {0}, any = 0, room = v.chunk;
        for (int i = 0; i < SEQS; i++) {
            int rest = r->len[i] - l.seq[i]->len,
                take = v.mixed ? 1 + (int)(test_rand(&rng) % (uint32_t)v.chunk) : v.chunk;
            if (!v.mixed && any) break;
            if (v.mixed && test_rand(&rng) % 4 == 0) take = 1;
            n[i] = take < rest ? take : rest;
            if (n[i] > room) n[i] = room;
            n[i] = whole_images(r, i, l.seq[i]->len, n[i]);
            room = room > n[i] ? room - n[i] : 0, any += n[i];
        }
        if (!any) break;
        step(&l, n, true);
        if (v.forked && test_rand(&rng) % 8 == 0) disturb(&l, &rng);
    }
    for (int i = 0; i < SEQS; i++) gy_kv_seq_free(l.kv, l.seq[i]);
    l.be->free(l.be);
    gy_kv_free(l.kv);
}

static void shape_name(char out[200], const shape *s) {
    char k[32], v[32];
    snprintf(out, 200, "heads %d/%d dims %d/%d%s window %d chunk %d kept %d%s%s cap %g%s K %s V %s",
             s->heads, s->kv_heads, s->kdim, s->vdim, s->view ? " view" : "", s->m.window,
             s->m.chunk, s->m.kept, s->m.images ? " images" : "", s->m.bias ? " bias" : "", s->cap,
             s->sinks ? " sinks" : "", gy_cparm_name(s->k, k), gy_cparm_name(s->v, v));
}

static bool usable(const char *isa) {
    gy_err err = {0};
    return gy_isa_find(isa, &err) != NULL;
}

/* few: every kind of variation, but not every one. */
static void check_equal(const rig *r, uint64_t *rng, bool few) {
    static const variation list[] = {
        {"generic", 1, 512, false, false}, {WIDE, 1, 1, false, false},
        {WIDE, 1, 37, false, false},       {WIDE, 1, 512, true, false},
        {WIDE, 3, 100, true, false},       {WIDE, 2, 1, false, false},
        {WIDE, 4, 7, true, true},          {"generic", 2, 64, true, true},
        {WIDEST, 1, 37, false, false},     {WIDEST, 3, 100, true, false},
    };
    float *out[SEQS];
    for (int i = 0; i < SEQS; i++)
        out[i] = malloc(((size_t)r->len[i] * (size_t)r->cols[1] + 1) * sizeof(float));
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        uint64_t seed = test_rand(rng);
        if (!usable(list[k].isa) || (few && k % 2 && k != 1)) continue;
        run(r, list[k], seed, k ? out : r->out);
        for (int i = 0; i < SEQS && k; i++) {
            for (int p = 0; p < r->len[i]; p++) {
                size_t at = (size_t)p * (size_t)r->cols[1],
                       bytes = (size_t)r->cols[1] * sizeof(float);
                if (!memcmp(out[i] + at, r->out[i] + at, bytes)) continue;
                char name[200];
                shape_name(name, &r->s);
                fail_msg("%s: %s threads %d chunk %d mixed %d forked %d: sequence %d position %d "
                         "differs",
                         name, list[k].isa, list[k].threads, list[k].chunk, list[k].mixed,
                         list[k].forked, i, p);
            }
        }
    }
    for (int i = 0; i < SEQS; i++) free(out[i]);
}

/* ---- A plain reference in double ---- */

/* What a row becomes by being stored. */
static void coded(gy_cparm c, const float *x, int n, float *y) {
    uint8_t bytes[3][1 << 16];
    size_t step[3];
    gy_rows m = {.c = c, .rows = 1, .cols = n, .global = 1};
    const gy_codec *codec = &gy_codecs[c.kind];
    codec->bytes(c, n, step);
    for (int i = 0; i < 3; i++) m.plane[i] = bytes[i], m.step[i] = (ptrdiff_t)step[i];
    codec->encode(&m, 0, x);
    codec->decode(&m, 0, y);
    if (codec->turn) codec->turn(c, y, n, true);
}

static bool shown(const rig *r, int seq, int pos, int p) {
    return sees(r, pos, p) && !(r->s.m.bias && isinf(r->bias[seq][pos * r->len[seq] + p]));
}

/* One head of one position, and a bound for what f32 may lose: each score by its dot (16 lanes: dim
 * / 16 + 5 roundings of the sum of magnitudes), scaling, the cap's tanh and its argument, exp and
 * its argument; this moves the weights, hence the output by twice that times the largest value;
 * then the sums over the positions, at most 64 roundings in a page and a few for every page and
 * run, and the last division. */
static void reference(const rig *r, int seq, int pos, int head, double *o, double *bound) {
    const shape *s = &r->s;
    const double eps = 0x1p-24;
    int len = r->len[seq], n = 0, g = head / (s->heads / s->kv_heads);
    size_t cols = (size_t)r->cols[0];
    const float *q = r->x[seq] + (size_t)pos * cols + head * s->kdim;
    float y[1 << 14];
    double *w = malloc((size_t)len * sizeof *w), max = s->sinks ? r->sink[head] : -INFINITY,
           sum = 0, lost = 0, top = 0;
    for (int p = 0; p < len; p++) {
        const float *k = r->x[seq] + (size_t)p * cols + (s->heads + g) * s->kdim;
        double dot = 0, size = 0;
        if (!shown(r, seq, pos, p)) continue;
        coded(s->k, k, s->kdim, y);
        for (int d = 0; d < s->kdim; d++) {
            double t = q[d] * (double)y[d];
            dot += t, size += fabs(t);
        }
        double e = (s->kdim / 16 + 6) * eps * size * s->scale, x = dot * s->scale;
        if (s->cap != 0) x = s->cap * tanh(x / s->cap), e += 6 * eps * fabs(x);
        if (s->m.bias) x += r->bias[seq][pos * len + p], e += eps * fabs(x);
        w[p] = x, n++;
        if (x > max) max = x;
        if (e > lost) lost = e;
    }
    lost += 2 * eps * fabs(max) + 8 * eps;
    if (s->sinks) sum += exp(r->sink[head] - max);
    memset(o, 0, (size_t)s->vdim * sizeof *o);
    for (int p = 0; p < len; p++)
        if (shown(r, seq, pos, p)) sum += w[p] = exp(w[p] - max);
    for (int p = 0; p < len; p++) {
        const float *k = r->x[seq] + (size_t)p * cols + (s->heads + g) * s->kdim;
        const float *v =
            r->x[seq] + (size_t)p * cols + (s->heads + s->kv_heads) * s->kdim + g * s->vdim;
        if (!shown(r, seq, pos, p)) continue;
        coded(s->view ? s->k : s->v, s->view ? k : v, s->view ? s->kdim : s->vdim, y);
        for (int d = 0; d < s->vdim; d++) {
            o[d] += w[p] / sum * y[d];
            if (fabsf(y[d]) > top) top = fabsf(y[d]);
        }
    }
    /* Turned values are larger by up to the root of their number, and are turned by log2 of it
     * sums. */
    if (gy_codecs[s->v.kind].turn) top *= sqrt(s->vdim), lost += (log2(s->vdim) + 2) * eps;
    /* Affine values are summed as codes and biases, of which each is at most twice the largest. */
    if (s->v.kind == GY_CODEC_AFFINE) top *= 3;
    *bound = !n ? 0x1p-1000 : top * (2 * lost + (64 + 6 * (n / GY_PAGE + 4) + 8) * eps);
    free(w);
}

static void check_close(const rig *r, uint64_t *rng, bool few) {
    double *o = malloc((size_t)r->s.vdim * sizeof *o), worst = 0;
    for (int k = 0; k < (few ? 20 : 60); k++) {
        int seq = (int)(test_rand(rng) % SEQS);
        if (!r->len[seq]) continue;
        int pos = k < 3 ? r->len[seq] - 1 : (int)(test_rand(rng) % (uint32_t)r->len[seq]);
        int head = (int)(test_rand(rng) % (uint32_t)r->s.heads);
        double bound;
        reference(r, seq, pos, head, o, &bound);
        const float *got = r->out[seq] + (size_t)pos * (size_t)r->cols[1] + head * r->s.vdim;
        for (int d = 0; d < r->s.vdim; d++) {
            double off = fabs(got[d] - o[d]) / bound;
            if (!(off <= worst)) worst = off;
            if (off <= 1) continue;
            char name[200];
            shape_name(name, &r->s);
            fail_msg("%s: position %d head %d value %d: %.9g, expected %.9g, bound %g", name, pos,
                     head, d, got[d], o[d], bound);
        }
    }
    char name[200];
    shape_name(name, &r->s);
    if (!few) printf("%s: %.3f of the bound\n", name, worst);
    free(o);
}

#define CODED(kind, bits, type, group) ((gy_cparm){kind, bits, type, group})
#define F32                            CODED(GY_CODEC_F32, 0, 0, 0)
#define F16                            CODED(GY_CODEC_F16, 0, 0, 0)
#define BF16                           CODED(GY_CODEC_BF16, 0, 0, 0)
#define AFF(bits, group)               CODED(GY_CODEC_AFFINE, bits, GY_CODEC_F16, group)
#define TK(bits)                       CODED(GY_CODEC_TURBO_K, bits, 0, 0)
#define TV(bits)                       CODED(GY_CODEC_TURBO_V, bits, 0, 0)
#define TXV(bits)                      CODED(GY_CODEC_TURBOX_V, bits, 0, 0)

static void check_shape(shape s, const int len[SEQS], uint64_t *rng, bool few) {
    rig r;
    rig_make(&r, s, len);
    rig_random(&r, rng);
    check_equal(&r, rng, few);
    check_close(&r, rng, few);
    rig_free(&r);
}

static void test_shapes(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    const shape list[] = {
        {4, 4, 64, 64, 0.125f, 0, false, false, {0}, F16, F16},
        {9, 3, 64, 64, 0.125f, 0, false, false, {0}, F16, F16},
        {8, 2, 128, 128, 0.088f, 0, false, false, {0}, F16, BF16},
        {5, 1, 80, 80, 0.11f, 0, true, false, {0}, BF16, F32},
        {4, 2, 72, 40, 0.12f, 20, true, false, {.window = 100}, F32, F16},
        {2, 1, 256, 128, 0.0625f, 50, false, false, {.window = 33}, F32, F32},
        {6, 2, 24, 24, 0.2f, 0, true, false, {.window = 64}, F16, F16},
        {3, 1, 7, 5, 0.4f, 0, false, false, {.window = 1}, F32, F32},
        {71, 1, 16, 16, 0.25f, 0, false, false, {.window = 300}, BF16, BF16},
        {4, 2, 64, 96, 0.125f, 0, false, false, {.window = 90}, AFF(8, 32), F16},
        {3, 3, 32, 64, 0.2f, 0, false, false, {0}, F32, AFF(8, 32)},
        {4, 2, 64, 128, 0.125f, 0, true, false, {0}, TK(4), TV(4)},
        /* Latents: V is the front of K. */
        {6, 1, 96, 64, 0.1f, 0, false, true, {0}, F16, F16},
        {6, 1, 160, 128, 0.1f, 0, true, true, {.window = 70}, AFF(8, 32), F16},
        {66, 1, 72, 40, 0.1f, 0, false, true, {0}, BF16, F16},
        {4, 2, 128, 64, 0.1f, 0, false, true, {.window = 90, .kept = 3}, TK(8), F16},
        {2, 1, 576, 512, 0.05f, 0, false, true, {0}, AFF(4, 64), F16},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        int deep = i < 2 ? 560 : 140 + (int)(test_rand(&rng) % 100);
        check_shape(
            list[i],
            (int[SEQS]){deep, 1 + (int)(test_rand(&rng) % 150), (int)(test_rand(&rng) % 70)}, &rng,
            false);
    }
}

/* The widest heads that a config may ask for, in the most groups. */
static void test_widest(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    const gy_cparm codecs[] = {AFF(8, 32), AFF(4, 64), AFF(3, 32)};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        check_shape(
            (shape){1, 1, 1 << 14, 1 << 14, 0.01f, 0, false, false, {0}, codecs[i], codecs[i]},
            (int[SEQS]){3, 2, 0}, &rng, true);
}

/* Every codec with every mask: a new one is covered by being listed. */
static void test_masks(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    static const mask masks[] = {
        {0},
        {.window = 90},
        {.window = 8},
        {.chunk = 50},
        {.chunk = 8, .window = 5},
        {.window = 100, .kept = 4},
        {.window = 70, .kept = 69},
        {.window = 600, .kept = 300},
        {.images = true},
        {.window = 20, .images = true},
        {.window = 60, .kept = 30, .images = true, .bias = true},
        {.bias = true},
    };
    const struct {
        gy_cparm k, v;
    } codecs[] = {
        {F32, F32},
        {F16, F16},
        {BF16, BF16},
        {AFF(8, 64), AFF(8, 64)},
        {AFF(6, 32), AFF(5, 32)},
        {AFF(4, 64), AFF(4, 64)},
        {AFF(3, 32), AFF(2, 64)},
        {TK(8), TV(3)},
        {TK(5), TV(8)},
        {TK(4), TV(4)},
        {TK(2), TV(2)},
        {F16, TXV(5)},
        {AFF(8, 32), TV(5)},
    };
    enum { MASKS = sizeof masks / sizeof *masks, CODECS = sizeof codecs / sizeof *codecs };
    for (int i = 0; i < MASKS * CODECS; i++) {
        shape s = {.heads = 3, .kv_heads = 1, .kdim = 64, .vdim = 64, .scale = 0.2f};
        s.m = masks[i % MASKS], s.k = codecs[i / MASKS].k, s.v = codecs[i / MASKS].v;
        s.sinks = i % 3 == 0, s.cap = i % 5 == 1 ? 30 : 0;
        /* The long prefix needs more than one run before its window. */
        int deep = s.m.kept == 300 ? 700 : 150 + (int)(test_rand(&rng) % 60);
        check_shape(s, (int[SEQS]){deep, 60 + (int)(test_rand(&rng) % 40), 20}, &rng, true);
    }
    printf("%d codecs x %d masks\n", CODECS, MASKS);
}

/* ---- The shared vectors ---- */

typedef struct {
    uint8_t *file;
    const uint8_t *data;
    gy_json_doc head;
} vectors;

static vectors vectors_open(const char *name) {
    char rel[120];
    snprintf(rel, sizeof rel, "vectors/%s", name);
    FILE *f = fopen(shared_path(rel), "rb");
    if (!f) fail_msg("cannot open %s", rel);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    vectors v = {.file = malloc(n)};
    assert_int_equal(fread(v.file, 1, n, f), n);
    fclose(f);
    uint64_t head;
    memcpy(&head, v.file, 8);
    gy_err err = {0};
    assert_ok(gy_json_parse(&v.head, (char *)v.file + 8, head, &err), err);
    v.data = v.file + 8 + head;
    return v;
}

static const uint8_t *tensor(const vectors *v, const char *name) {
    int64_t at;
    const gy_json *t = gy_json_get(v->head.root, name);
    if (!t) fail_msg("no tensor %s", name);
    assert_true(gy_json_int(&gy_json_get(t, "data_offsets")->item[0], &at));
    return v->data + at;
}

static float bf16_at(const uint8_t *p, size_t i) {
    return gy_bf16_f32(gy_load_u16(p + 2 * i));
}

/* K and V are bf16 values, which an f32 store keeps; queries before the last L are zeros whose
 * outputs are ignored. */
static void vector_case(const gy_json *c, const char *isa) {
    int n = (int)gy_json_i(c, "N", 0), l = (int)gy_json_i(c, "L", 0);
    shape s = {.heads = (int)gy_json_i(c, "Hq", 0),
               .kv_heads = (int)gy_json_i(c, "Hkv", 0),
               .kdim = (int)gy_json_i(c, "D", 0),
               .vdim = (int)gy_json_i(c, "Dv", 0),
               .m = {.window = (int)gy_json_i(c, "window", 0),
                     .chunk = (int)gy_json_i(c, "chunk", 0),
                     .kept = (int)gy_json_i(c, "keep", 0)},
               .scale = (float)gy_json_f(c, "scale", 0),
               .cap = (float)gy_json_f(c, "softcap", 0)};
    vectors v = vectors_open(gy_json_s(c, "file", NULL));
    s.sinks = gy_json_get(v.head.root, "sinks") != NULL;
    s.m.bias = gy_json_get(v.head.root, "bias") != NULL;
    rig r;
    rig_make(&r, s, (int[SEQS]){n});
    const gy_json *spans = gy_json_get(c, "spans");
    r.s.m.images = spans != NULL;
    for (uint32_t i = 0; spans && i < spans->n; i++) {
        int64_t end[2];
        for (int k = 0; k < 2; k++)
            assert_true(gy_json_int(&spans->item[i].item[k], &end[k])), r.image[i][k] = (int)end[k];
    }
    for (int i = 0; i < l * n && s.m.bias; i++)
        r.bias[0][(n - l) * n + i] = bf16_at(tensor(&v, "bias"), (size_t)i);
    const uint8_t *q = tensor(&v, "q"), *k = tensor(&v, "k"), *val = tensor(&v, "v"),
                  *want = tensor(&v, "f64");
    for (int h = 0; h < s.heads && s.sinks; h++)
        r.sink[h] = bf16_at(tensor(&v, "sinks"), (size_t)h);
    for (int p = 0; p < n; p++) {
        float *x = r.x[0] + (size_t)p * (size_t)r.cols[0];
        for (int h = 0; h < s.heads; h++)
            for (int d = 0; d < s.kdim; d++, x++)
                *x = p < n - l ? 0 : bf16_at(q, (size_t)((h * l + p - (n - l)) * s.kdim + d));
        for (int h = 0; h < s.kv_heads; h++)
            for (int d = 0; d < s.kdim; d++) *x++ = bf16_at(k, (size_t)((h * n + p) * s.kdim + d));
        for (int h = 0; h < s.kv_heads; h++)
            for (int d = 0; d < s.vdim; d++)
                *x++ = bf16_at(val, (size_t)((h * n + p) * s.vdim + d));
    }
    run(&r, (variation){isa, 1, 16, false, false}, 1, r.out);
    double worst = 0, accept = gy_json_f(c, "accept_f32", 0);
    for (int h = 0; h < s.heads; h++) {
        for (int t = 0; t < l; t++) {
            for (int d = 0; d < s.vdim; d++) {
                double w;
                memcpy(&w, want + 8 * (size_t)((h * l + t) * s.vdim + d), 8);
                double off = fabs(
                    r.out[0][(size_t)(n - l + t) * (size_t)r.cols[1] + (size_t)(h * s.vdim + d)] -
                    w);
                if (!(off <= worst)) worst = off;
            }
        }
    }
    printf("%s: %.3g of %.3g\n", gy_json_s(c, "name", "?"), worst, accept);
    if (!(worst <= accept))
        fail_msg("%s: off by %g, accepted %g", gy_json_s(c, "name", "?"), worst, accept);
    rig_free(&r);
    gy_json_free(&v.head);
    free(v.file);
}

static void test_vectors(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/attention.json");
    char text[16384];
    FILE *f = fopen(shared_path("vectors/attention.json"), "rb");
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    gy_json_doc doc;
    gy_err err = {0};
    assert_ok(gy_json_parse(&doc, text, n, &err), err);
    const gy_json *cases = gy_json_get(doc.root, "cases");
    int ran = 0;
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *c = &cases->item[i];
        vector_case(c, usable(WIDE) ? WIDE : "generic");
        ran++;
    }
    printf("%d cases\n", ran);
    assert_true(ran >= 15);
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_widest),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
