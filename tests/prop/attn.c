/* Attention: the shared vectors, a plain double reference with computed bounds, and equal bits
 * under every legal variation: batches, chunks, threads, instruction sets, pages that were copied,
 * dropped or shared. */
#include "testlib.h"

#include <math.h>

#include "base/json.h"
#include "base/num.h"
#include "cpu/cpu.h"

typedef struct {
    int heads, kv_heads, kdim, vdim, window;
    float scale, cap;
    bool sinks;
    gy_codec_kind k, v; /* AFFINE: 8 bits, groups of 32, f16 scales; TURBO: 4 bits */
} shape;

enum { SEQS = 3, SINKS = 64 };

/* One layer of KVPUT and ATTN over slots the test fills: q | k | v per row. */
typedef struct {
    shape s;
    float sink[SINKS];
    int cols[2];
    gy_op op[2];
    gy_kvspec spec;
    gy_plan plan;
    int len[SEQS];
    float *x[SEQS];   /* [len][cols[0]] */
    float *out[SEQS]; /* [len][cols[1]] of the first run */
} rig;

static gy_cparm parm(gy_codec_kind kind) {
    gy_cparm c = {.kind = kind};
    if (kind == GY_CODEC_AFFINE) c.bits = 8, c.group = 32, c.stype = GY_CODEC_F16;
    if (kind == GY_CODEC_TURBO_K || kind == GY_CODEC_TURBO_V) c.bits = 4;
    return c;
}

static void rig_make(rig *r, shape s, const int *len) {
    memset(r, 0, sizeof *r);
    r->s = s;
    int q = s.heads * s.kdim, k = s.kv_heads * s.kdim;
    r->cols[0] = q + k + s.kv_heads * s.vdim, r->cols[1] = s.heads * s.vdim;
    r->spec = (gy_kvspec){
        .k = parm(s.k),
        .v = parm(s.v),
        .heads = s.kv_heads,
        .kdim = s.kdim,
        .vdim = s.vdim,
        .donor = -1,
        .keep = {.policy = s.window ? GY_KEEP_WINDOW : GY_KEEP_ALL, .window = s.window}};
    r->op[0] = (gy_op){
        .kind = GY_OP_KVPUT, .in = {0, -1}, .out = -1, .u.kvput = {.kcol = q, .vcol = q + k}};
    r->op[1] = (gy_op){.kind = GY_OP_ATTN,
                       .in = {0, -1},
                       .out = 1,
                       .u.attn = {.heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .kdim = s.kdim,
                                  .vdim = s.vdim,
                                  .window = s.window,
                                  .scale = s.scale,
                                  .cap = s.cap,
                                  .sinks = s.sinks ? r->sink : NULL}};
    r->plan = (gy_plan){
        .op = r->op, .n_ops = 2, .n_slots = 2, .slot_cols = r->cols, .kv = &r->spec, .n_layers = 1};
    for (int i = 0; i < SEQS; i++) {
        r->len[i] = len[i];
        r->x[i] = calloc((size_t)len[i] * (size_t)r->cols[0] + 1, sizeof(float));
        r->out[i] = calloc((size_t)len[i] * (size_t)r->cols[1] + 1, sizeof(float));
    }
}

static void rig_random(rig *r, uint64_t *rng) {
    for (int i = 0; i < SEQS; i++)
        for (size_t k = 0; k < (size_t)r->len[i] * (size_t)r->cols[0]; k++)
            r->x[i][k] = 2 * test_uniform(rng);
    for (int h = 0; h < SINKS; h++) r->sink[h] = 3 * test_uniform(rng);
}

static void rig_free(rig *r) {
    for (int i = 0; i < SEQS; i++) free(r->x[i]), free(r->out[i]);
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
    int32_t tok[512] = {0}, pos[512], of[512];
    gy_span span[SEQS];
    struct gy_seq *seq[SEQS];
    gy_batch b = {.tok = tok, .pos = pos, .of = of, .span = span, .seq = seq};
    int ld;
    float *in = (float *)(uintptr_t)l->be->slot(l->be, 0, &ld);
    for (int i = 0; i < SEQS; i++) {
        if (!n[i]) continue;
        int pos0 = l->seq[i]->len;
        assert_ok(gy_kv_reserve(l->kv, l->seq[i], n[i], &err), err);
        seq[b.spans] = l->seq[i];
        span[b.spans] = (gy_span){.seq = b.spans, .row0 = b.rows, .n = n[i], .pos0 = pos0};
        for (int t = 0; t < n[i]; t++, b.rows++) {
            pos[b.rows] = pos0 + t, of[b.rows] = b.spans;
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
    n[i] = (int)(test_rand(rng) % 5) + 1;
    if (l->seq[i]->len + n[i] <= l->r->len[i]) step(l, n, false);
    gy_kv_seq_free(l->kv, copy);
}

/* Runs all sequences to their ends under the variation. */
static void run(const rig *r, variation v, uint64_t seed, float *const *out) {
    gy_err err = {0};
    live l = {.r = r};
    uint64_t rng = seed;
    assert_ok(gy_kv_new(&r->spec, 1, 16384, &l.kv, &err), err);
    assert_ok(gy_cpu_new(&r->plan, l.kv, v.threads, GY_BE_EXACT, v.isa, 512, &l.be, &err), err);
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
            room -= n[i], any += n[i];
        }
        if (!any) break;
        step(&l, n, true);
        if (v.forked && test_rand(&rng) % 8 == 0) disturb(&l, &rng);
    }
    for (int i = 0; i < SEQS; i++) gy_kv_seq_free(l.kv, l.seq[i]);
    l.be->free(l.be);
    gy_kv_free(l.kv);
}

static void shape_name(char out[160], const shape *s) {
    snprintf(out, 160, "heads %d/%d dims %d/%d window %d cap %g sinks %d kv %s.%s", s->heads,
             s->kv_heads, s->kdim, s->vdim, s->window, s->cap, s->sinks, gy_codecs[s->k].name,
             gy_codecs[s->v].name);
}

static bool usable(const char *isa) {
    gy_err err = {0};
    return gy_isa_find(isa, &err) != NULL;
}

static void check_equal(const rig *r, uint64_t *rng) {
    static const variation list[] = {
        {"generic", 1, 512, false, false}, {"avx2", 1, 1, false, false},
        {"avx2", 1, 37, false, false},     {"avx2", 1, 512, true, false},
        {"avx2", 3, 100, true, false},     {"avx2", 2, 1, false, false},
        {"avx2", 4, 7, true, true},        {"generic", 2, 64, true, true},
    };
    float *out[SEQS];
    for (int i = 0; i < SEQS; i++)
        out[i] = malloc(((size_t)r->len[i] * (size_t)r->cols[1] + 1) * sizeof(float));
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        uint64_t seed = test_rand(rng);
        if (!usable(list[k].isa)) continue;
        run(r, list[k], seed, k ? out : r->out);
        for (int i = 0; i < SEQS && k; i++) {
            for (int p = 0; p < r->len[i]; p++) {
                size_t at = (size_t)p * (size_t)r->cols[1],
                       bytes = (size_t)r->cols[1] * sizeof(float);
                if (!memcmp(out[i] + at, r->out[i] + at, bytes)) continue;
                char name[160];
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
static void coded(gy_codec_kind kind, const float *x, int n, float *y) {
    uint8_t bytes[3][2048];
    size_t step[3];
    gy_rows m = {.c = parm(kind), .rows = 1, .cols = n, .global = 1};
    gy_codecs[kind].bytes(m.c, n, step);
    for (int i = 0; i < 3; i++) m.plane[i] = bytes[i], m.step[i] = (ptrdiff_t)step[i];
    gy_codecs[kind].encode(&m, 0, x);
    gy_codecs[kind].decode(&m, 0, y);
    if (gy_codecs[kind].turn) gy_codecs[kind].turn(m.c, y, n, true);
}

/* One head of one position, and a bound for what f32 may lose: each score by its dot (16 lanes: dim
 * / 16 + 5 roundings of the sum of magnitudes), scaling, the cap's tanh and its argument, exp and
 * its argument; this moves the weights, hence the output by twice that times the largest value;
 * then the sums over the positions, at most 64 roundings in a page and a few for every page and
 * run, and the last division. */
static void reference(const rig *r, int seq, int pos, int head, double *o, double *bound) {
    const shape *s = &r->s;
    const double eps = 0x1p-24;
    int lo = s->window && pos >= s->window ? pos - s->window + 1 : 0, n = pos - lo + 1,
        g = head / (s->heads / s->kv_heads);
    size_t cols = (size_t)r->cols[0];
    const float *q = r->x[seq] + (size_t)pos * cols + head * s->kdim;
    float y[512];
    double *w = malloc((size_t)n * sizeof *w), max = s->sinks ? r->sink[head] : -INFINITY, sum = 0,
           lost = 0, top = 0;
    for (int i = 0; i < n; i++) {
        const float *k = r->x[seq] + (size_t)(lo + i) * cols + (s->heads + g) * s->kdim;
        double dot = 0, size = 0;
        coded(s->k, k, s->kdim, y);
        for (int d = 0; d < s->kdim; d++) {
            double t = q[d] * (double)y[d];
            dot += t, size += fabs(t);
        }
        double e = (s->kdim / 16 + 6) * eps * size * s->scale, x = dot * s->scale;
        if (s->cap != 0) x = s->cap * tanh(x / s->cap), e += 6 * eps * fabs(x);
        w[i] = x;
        if (x > max) max = x;
        if (e > lost) lost = e;
    }
    for (int i = 0; i < n; i++) sum += w[i] = exp(w[i] - max);
    lost += 2 * eps * fabs(max) + 8 * eps;
    if (s->sinks) sum += exp(r->sink[head] - max);
    memset(o, 0, (size_t)s->vdim * sizeof *o);
    for (int i = 0; i < n; i++) {
        const float *v =
            r->x[seq] + (size_t)(lo + i) * cols + (s->heads + s->kv_heads) * s->kdim + g * s->vdim;
        coded(s->v, v, s->vdim, y);
        for (int d = 0; d < s->vdim; d++) {
            o[d] += w[i] / sum * y[d];
            if (fabsf(y[d]) > top) top = fabsf(y[d]);
        }
    }
    /* Turned values are larger by up to the root of their number, and are turned by log2 of it
     * sums. */
    if (gy_codecs[s->v].turn) top *= sqrt(s->vdim), lost += (log2(s->vdim) + 2) * eps;
    *bound = top * (2 * lost + (64 + 6 * (n / GY_PAGE + 2) + 8) * eps);
    free(w);
}

static void check_close(const rig *r, uint64_t *rng) {
    double *o = malloc((size_t)r->s.vdim * sizeof *o), worst = 0;
    for (int k = 0; k < 60; k++) {
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
            char name[160];
            shape_name(name, &r->s);
            fail_msg("%s: position %d head %d value %d: %.9g, expected %.9g, bound %g", name, pos,
                     head, d, got[d], o[d], bound);
        }
    }
    char name[160];
    shape_name(name, &r->s);
    printf("%s: %.3f of the bound\n", name, worst);
    free(o);
}

static void test_shapes(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    static const gy_codec_kind F32 = GY_CODEC_F32, F16 = GY_CODEC_F16, BF16 = GY_CODEC_BF16,
                               AFF = GY_CODEC_AFFINE, TK = GY_CODEC_TURBO_K, TV = GY_CODEC_TURBO_V;
    const shape list[] = {
        {4, 4, 64, 64, 0, 0.125f, 0, false, F16, F16},
        {9, 3, 64, 64, 0, 0.125f, 0, false, F16, F16},
        {8, 2, 128, 128, 0, 0.088f, 0, false, F16, BF16},
        {5, 1, 80, 80, 0, 0.11f, 0, true, BF16, F32},
        {4, 2, 72, 40, 100, 0.12f, 20, true, F32, F16},
        {2, 1, 256, 128, 33, 0.0625f, 50, false, F32, F32},
        {6, 2, 24, 24, 64, 0.2f, 0, true, F16, F16},
        {3, 1, 7, 5, 1, 0.4f, 0, false, F32, F32},
        {71, 1, 16, 16, 300, 0.25f, 0, false, BF16, BF16},
        {4, 2, 64, 96, 90, 0.125f, 0, false, AFF, F16},
        {3, 3, 32, 64, 0, 0.2f, 0, false, F32, AFF},
        {4, 2, 64, 128, 0, 0.125f, 0, true, TK, TV},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        rig r;
        int deep = i < 2 ? 560 : 140 + (int)(test_rand(&rng) % 100);
        int len[SEQS] = {deep, 1 + (int)(test_rand(&rng) % 150), (int)(test_rand(&rng) % 70)};
        rig_make(&r, list[i], len);
        rig_random(&r, &rng);
        check_equal(&r, &rng);
        check_close(&r, &rng);
        rig_free(&r);
    }
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
               .window = (int)gy_json_i(c, "window", 0),
               .scale = (float)gy_json_f(c, "scale", 0),
               .cap = (float)gy_json_f(c, "softcap", 0)};
    vectors v = vectors_open(gy_json_s(c, "file", NULL));
    s.sinks = gy_json_get(v.head.root, "sinks") != NULL;
    rig r;
    rig_make(&r, s, (int[SEQS]){n});
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
    int ran = 0, skipped = 0;
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *c = &cases->item[i];
        /* ATTN has no chunk, kept prefix, bidirectional span or bias. */
        if (gy_json_get(c, "chunk") || gy_json_get(c, "keep") || gy_json_get(c, "spans") ||
            strstr(gy_json_s(c, "name", ""), "bias")) {
            printf("notice: skipped %s: not an operator of gyre yet\n", gy_json_s(c, "name", "?"));
            skipped++;
            continue;
        }
        vector_case(c, usable("avx2") ? "avx2" : "generic");
        ran++;
    }
    printf("%d cases, %d skipped\n", ran, skipped);
    assert_true(ran >= 11);
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
