/* The product: every KV codec x every layout x every way to get somewhere. Logits and stored bytes
 * must be those of the plainest way (portable C, one feed of all tokens), bit for bit; and that way
 * must be attention over what is stored, by the definition (kv.md 5.1), in double.
 *
 * A codec, a layout or a way is covered by being listed: a cell of the product that ran without a
 * comparison fails, unless the library refused it with the code that is expected. Prints how many
 * comparisons each cell had. */
#include <math.h>

#include "prop/kv_rig.h"

enum { T = 230, OTHERS = 3 };

static const char *const codecs[] = {
    "f32",         "f16",         "bf16",        "q2.32",        "q2.64",       "q2.128",
    "q3.32",       "q3.64",       "q3.128",      "q4.32",        "q4.64",       "q4.128",
    "q5.32",       "q5.64",       "q5.128",      "q6.32",        "q6.64",       "q6.128",
    "q8.32",       "q8.64",       "q8.128",      "q4.64:f32",    "q8.64:bf16",  "k8v4",
    "k8v4.32",     "f16.q4",      "q8.f32",      "turbo-k8v8",   "turbo-k8v5",  "turbo-k8v4",
    "turbo-k8v3",  "turbo-k8v2",  "turbo-k5v8",  "turbo-k5v5",   "turbo-k5v4",  "turbo-k5v3",
    "turbo-k5v2",  "turbo-k4v8",  "turbo-k4v5",  "turbo-k4v4",   "turbo-k4v3",  "turbo-k4v2",
    "turbo-k2v8",  "turbo-k2v5",  "turbo-k2v4",  "turbo-k2v3",   "turbo-k2v2",  "turbox-k8v8",
    "turbox-k8v5", "turbox-k8v4", "turbox-k4v4", "f16.turbo-v4", "turbo-k8.q4", "q8.turbox-v4"};
enum { CODECS = sizeof codecs / sizeof *codecs };

typedef enum {
    ISA,
    CHUNKS,
    BATCH,
    FORK,
    TRIM,
    SPEC,
    MODE_B,
    MODE_C,
    DONOR,
    SHARE,
    PERSIST,
    TRUTH,
    WAYS
} way;
static const char *const way_names[WAYS] = {"isa",    "chunk",  "batch", "fork",  "trim",    "spec",
                                            "mode B", "mode C", "donor", "share", "persist", "f64"};

typedef struct {
    rig_layout layout;
    const char *kv, *other;          /* other: what a transition leads to */
    gy_engine *plain, *fast, *small; /* generic; AVX2, two threads; AVX2, chunks of 7 */
    int32_t ids[OTHERS + 1][T];
    gy_seq *seq;               /* of plain, all T tokens */
    float *want, *got;         /* [T][vocab] */
    float *others[OTHERS + 1]; /* the same of ids[1..] */
    uint64_t rng;
    char what[96];
} rig;

static int counts[CODECS][RIG_LAYOUTS][WAYS], *cell, vocab;
static int refusals[CODECS][RIG_LAYOUTS][WAYS], *refused; /* with the error code that is due */
static bool ran[CODECS][RIG_LAYOUTS];

static const char *say(rig *r, const char *way) {
    snprintf(r->what, sizeof r->what, "%s, %s, %s", r->kv, rig_layout_names[r->layout], way);
    return r->what;
}

static void same(rig *r, way w, const char *how, const float *want, const float *got, int from,
                 int n) {
    const float *a = want + (size_t)(from * vocab), *b = got + (size_t)(from * vocab);
    for (int i = 0; i < n * vocab; i++)
        if (memcmp(a + i, b + i, sizeof *a))
            fail_msg("%s: logit %d of position %d is %.9g, expected %.9g", say(r, how), i % vocab,
                     from + i / vocab, (double)b[i], (double)a[i]);
    cell[w] += n;
}

static float *at(float *logits, int pos) {
    return logits + (size_t)(pos * vocab);
}

/* ---- Ways ---- */

static void by_isa(rig *r) {
    gy_seq *s = rig_seq(r->fast);
    rig_feed(r->fast, s, r->ids[0], T, 0, r->got);
    same(r, ISA, "AVX2", r->want, r->got, 0, T);
    cell[ISA] += rig_same_pages(say(r, "AVX2"), r->plain, r->seq, r->fast, s);
    gy_seq_free(r->fast, s);
}

static void by_chunks(rig *r) {
    gy_seq *s = rig_seq(r->small);
    rig_feed(r->small, s, r->ids[0], T - 20, 0, r->got);
    for (int i = T - 20; i < T; i++) rig_feed(r->small, s, r->ids[0] + i, 1, 0, at(r->got, i));
    same(r, CHUNKS, "chunks of 7, then of 1", r->want, r->got, 0, T);
    cell[CHUNKS] += rig_same_pages(say(r, "chunks"), r->plain, r->seq, r->small, s);
    gy_seq_free(r->small, s);
}

/* One step of a crowd: every sequence that has not ended appends a random number of tokens. done:
 * [OTHERS + 1] positions fed; out: where each one's logits go. */
static bool crowd_step(rig *r, gy_engine *e, gy_seq **s, int *done, const int *end, float **out) {
    static float logits[(OTHERS + 1) * 70 * RIG_VOCAB_MAX];
    gy_feed feed[OTHERS + 1];
    int of[OTHERS + 1], n = 0, row = 0;
    int turn = (int)(test_rand(&r->rng) % (OTHERS + 1));
    for (int k = 0; k <= OTHERS; k++) {
        int i = (k + turn) % (OTHERS + 1), take = 1 + (int)(test_rand(&r->rng) % 70);
        if (take > end[i] - done[i]) take = end[i] - done[i];
        if (!take) continue;
        of[n] = i, feed[n++] = (gy_feed){.seq = s[i], .ids = r->ids[i] + done[i], .n = take};
    }
    gy_err err = {0};
    assert_ok(gy_step(e, feed, n, logits, &err), err);
    for (int k = 0; k < n; k++) {
        memcpy(at(out[of[k]], done[of[k]]), at(logits, row),
               (size_t)(feed[k].n * vocab) * sizeof(float));
        row += feed[k].n, done[of[k]] += feed[k].n;
    }
    return n > 0;
}

static void crowd_open(rig *r, gy_engine *e, gy_seq **s, float **out) {
    (void)r;
    for (int i = 0; i <= OTHERS; i++) {
        s[i] = rig_seq(e);
        out[i] = malloc((size_t)(T * vocab) * sizeof(float));
    }
}

static void crowd_close(gy_engine *e, gy_seq **s, float **out) {
    for (int i = 0; i <= OTHERS; i++) gy_seq_free(e, s[i]), free(out[i]);
}

static void by_batch(rig *r) {
    gy_seq *s[OTHERS + 1];
    float *out[OTHERS + 1];
    int done[OTHERS + 1] = {0}, end[OTHERS + 1] = {T, 7, 64, 170};
    crowd_open(r, r->fast, s, out);
    while (crowd_step(r, r->fast, s, done, end, out)) {
    }
    same(r, BATCH, "batch", r->want, out[0], 0, T);
    for (int i = 1; i <= OTHERS; i++) same(r, BATCH, "its mates", r->others[i], out[i], 0, end[i]);
    cell[BATCH] += rig_same_pages(say(r, "batch"), r->plain, r->seq, r->fast, s[0]);
    crowd_close(r->fast, s, out);
}

static void by_fork(rig *r) {
    gy_err err = {0};
    gy_seq *s = rig_seq(r->fast), *f;
    rig_feed(r->fast, s, r->ids[0], 150, 0, r->got);
    assert_ok(gy_seq_fork(r->fast, s, &f, &err), err);
    rig_feed(r->fast, f, r->ids[1], T - 150, 0, at(r->got, 150)); /* goes another way */
    rig_feed(r->fast, s, r->ids[0] + 150, T - 150, 0, at(r->got, 150));
    gy_seq_free(r->fast, f);
    same(r, FORK, "fork", r->want, r->got, 0, T);
    cell[FORK] += rig_same_pages(say(r, "fork"), r->plain, r->seq, r->fast, s);
    gy_seq_free(r->fast, s);
}

/* Forward by random steps, back by up to a page now and then: always legal, after any number of
 * wraps. */
static void by_trim(rig *r) {
    gy_seq *s = rig_seq(r->fast);
    int deepest = 0;
    for (int len = 0, steps = 0; len < T; steps++) {
        int n = 1 + (int)(test_rand(&r->rng) % 90),
            back = (int)(test_rand(&r->rng) % (GY_PAGE + 1));
        if (n > T - len) n = T - len;
        rig_feed(r->fast, s, r->ids[0] + len, n, 0, at(r->got, len));
        same(r, TRIM, "forward and back", r->want, r->got, len, n);
        len += n;
        if (len > deepest) deepest = len;
        if (len == T || steps > 40) continue;
        if (len - back < deepest - GY_PAGE) back = len - (deepest - GY_PAGE);
        if (back < 0 || back > len) back = 0;
        gy_err err = {0};
        assert_ok(gy_seq_trim(r->fast, s, len - back, &err), err);
        len -= back;
    }
    cell[TRIM] += rig_same_pages(say(r, "trim"), r->plain, r->seq, r->fast, s);
    gy_seq_free(r->fast, s);
}

/* Rounds of 1 + d tokens of which k are right: the logits of these are those of plain steps, and
 * what is withdrawn leaves no trace. Another sequence is verified beside it in the same steps. */
static void by_drafts(rig *r, gy_engine *e, int d) {
    static float logits[2 * 130 * RIG_VOCAB_MAX];
    gy_seq *s[2] = {rig_seq(e), rig_seq(e)};
    int len[2] = {0, 0}, ends[2] = {T, 170};
    while (len[0] < T) {
        int32_t guess[2][130];
        int keep[2], n = 0, row = 0;
        gy_feed feed[2];
        gy_err err = {0};
        for (int i = 0; i < 2; i++) {
            int room = ends[i] - len[i], all = 1 + d < room ? 1 + d : room;
            if (!all) continue;
            keep[n] = (int)(test_rand(&r->rng) % (unsigned)all);
            for (int k = 0; k < all; k++) {
                int32_t id = r->ids[i ? 3 : 0][len[i] + k];
                guess[n][k] = k <= keep[n] ? id : (id + 1 + k) % vocab;
            }
            feed[n] = (gy_feed){.seq = s[i], .ids = guess[n], .n = all, .drafts = all - 1};
            n++;
        }
        assert_ok(gy_step(e, feed, n, logits, &err), err);
        for (int k = 0; k < n; k++) {
            int i = feed[k].seq == s[1];
            assert_ok(gy_seq_settle(e, s[i], keep[k], &err), err);
            memcpy(at(r->got, len[i]), at(logits, row),
                   (size_t)((keep[k] + 1) * vocab) * sizeof(float));
            same(r, SPEC, "drafts", i ? r->others[3] : r->want, r->got, len[i], keep[k] + 1);
            row += feed[k].n, len[i] += keep[k] + 1;
            assert_int_equal(gy_seq_len(s[i]), len[i]);
        }
    }
    cell[SPEC] += rig_same_pages(say(r, "drafts"), r->plain, r->seq, e, s[0]);
    gy_seq_free(e, s[0]), gy_seq_free(e, s[1]);
}

static void by_spec(rig *r) {
    static const int depths[] = {1, 4, 9, 70};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        by_drafts(r, depths[i] == 9 ? r->small : r->fast, depths[i]);
}

/* At S the codecs become others, from `first` on. Alone, and within a crowd whose others must not
 * notice; a fork taken before must not either. */
static void by_transition(rig *r, way w, int S, int first) {
    gy_engine *e = w == MODE_B ? r->plain : r->small;
    gy_seq *p = rig_seq(e), *s[OTHERS + 1], *f;
    float *out[OTHERS + 1], *want = malloc((size_t)(T * vocab) * sizeof(float));
    int done[OTHERS + 1] = {0}, end[OTHERS + 1] = {S, 7, 64, 100};
    gy_err err = {0};
    if (S) rig_feed(e, p, r->ids[0], S, 0, want);
    if (gy_seq_transition(e, p, r->other, first, &err)) { /* a view has no codec of V */
        assert_int_equal(err.rc, GY_EUNSUPPORTED);
        refused[w]++;
        gy_seq_free(e, p), free(want);
        return;
    }
    rig_feed(e, p, r->ids[0] + S, T - S, 0, at(want, S));
    if (S) same(r, w, "before a transition", r->want, want, 0, S);
    crowd_open(r, r->fast, s, out);
    while (crowd_step(r, r->fast, s, done, end, out)) {
    }
    assert_ok(gy_seq_fork(r->fast, s[0], &f, &err), err);
    assert_ok(gy_seq_transition(r->fast, s[0], r->other, first, &err), err);
    end[0] = T, end[3] = 170;
    while (crowd_step(r, r->fast, s, done, end, out)) {
    }
    same(r, w, "transition", want, out[0], 0, T);
    for (int i = 1; i <= OTHERS; i++) same(r, w, "its mates", r->others[i], out[i], 0, end[i]);
    cell[w] += rig_same_pages(say(r, "transition"), e, p, r->fast, s[0]);
    if (S) assert_int_equal(s[0]->reusable, S > first ? S : 0);
    if (S > first + 1) {
        assert_int_equal(gy_seq_trim(r->fast, s[0], S - 1, &err), GY_ELIMIT);
        assert_int_equal(gy_seq_len(s[0]), T);
    }
    rig_feed(r->fast, f, r->ids[0] + S, T - S, 0, at(r->got, S));
    same(r, w, "a fork from before", r->want, r->got, S, T - S);
    cell[w] += rig_same_pages(say(r, "a fork from before"), r->plain, r->seq, r->fast, f);
    gy_seq_free(r->fast, f), gy_seq_free(e, p), free(want);
    crowd_close(r->fast, s, out);
}

/* No layer may read the rows of one that keeps a recurrent state: there are none. */
static void no_donor(rig *r) {
    const gy_plan *p = r->fast->plan;
    gy_kvspec *spec = malloc((size_t)p->n_layers * sizeof *spec);
    gy_err err = {0};
    gy_kv *kv;
    int state = 0;
    memcpy(spec, p->kv, (size_t)p->n_layers * sizeof *spec);
    while (state < p->n_layers && spec[state].keep.policy != GY_KEEP_STATE) state++;
    assert_true(state + 1 < p->n_layers);
    spec[p->n_layers - 1].donor = state;
    assert_int_equal(gy_kv_new(spec, p->n_layers, 100, &kv, &err), GY_EFORMAT);
    refused[DONOR]++;
    free(spec);
}

/* Who only reads is given the logits that the writer had: the last page of rows, at several lengths
 * of the sequence, after it was forked, and beside drafts. */
static void by_donor(rig *r) {
    static const int stops[] = {30, 70, 131, 192, T};
    static const int32_t wrong[5] = {1, 2, 3, 4, 5};
    gy_err err = {0};
    if (r->layout == RIG_STATE) {
        no_donor(r);
        return;
    }
    rig_reader reader = rig_reader_of(r->fast, 2);
    gy_seq *s = rig_seq(r->fast), *f;
    for (size_t i = 0, len = 0; i < sizeof stops / sizeof *stops; i++) {
        int n = stops[i] < GY_PAGE ? stops[i] : GY_PAGE, from = stops[i] - n;
        rig_feed(r->fast, s, r->ids[0] + len, stops[i] - (int)len, 0, NULL);
        len = (size_t)stops[i];
        rig_ask(&reader, s, r->ids[0] + from, n, from, 0, at(r->got, from));
        same(r, DONOR, "read by another plan", r->want, r->got, from, n);
    }
    assert_ok(gy_seq_fork(r->fast, s, &f, &err), err);
    rig_feed(r->fast, s, wrong, 5, 5, NULL);
    rig_ask(&reader, s, r->ids[0] + T - 1, 1, T - 1, T, at(r->got, T - 1));
    same(r, DONOR, "read beside drafts", r->want, r->got, T - 1, 1);
    assert_ok(gy_seq_settle(r->fast, s, 0, &err), err);
    rig_ask(&reader, f, r->ids[0] + T - 1, 1, T - 1, 0, at(r->got, T - 1));
    same(r, DONOR, "a fork read", r->want, r->got, T - 1, 1);
    cell[DONOR] += rig_same_pages(say(r, "after it was read"), r->plain, r->seq, r->fast, s);
    gy_seq_free(r->fast, s), gy_seq_free(r->fast, f);
    rig_reader_free(&reader);
}

static void by_share(rig *r) {
    gy_prefix *p;
    gy_err err = {0};
    gy_digest root = {{1}};
    gy_seq *a = rig_seq(r->fast), *b = rig_seq(r->fast);
    assert_ok(gy_prefix_new(r->fast->kv, 1 << 24, &p, &err), err);
    rig_feed(r->fast, a, r->ids[0], 200, 0, NULL);
    gy_prefix_offer(p, &root, a);
    gy_seq_free(r->fast, a);
    int n = gy_prefix_adopt(p, &root, b, r->ids[0], T);
    if (r->layout != RIG_STATE) assert_int_equal(n, 192);
    rig_feed(r->fast, b, r->ids[0] + n, T - n, 0, at(r->got, n));
    same(r, SHARE, "shared prefix", r->want, r->got, n, T - n);
    cell[SHARE] += rig_same_pages(say(r, "shared prefix"), r->plain, r->seq, r->fast, b);
    gy_seq_free(r->fast, b);
    gy_prefix_free(p);
}

static void by_persist(rig *r) {
    char path[] = "/tmp/gyre-product-XXXXXX";
    int fd = mkstemp(path), S = 150;
    gy_err err = {0};
    gy_seq *a = rig_seq(r->fast), *b;
    assert_true(fd >= 0);
    close(fd);
    rig_feed(r->fast, a, r->ids[0], S, 0, NULL);
    assert_ok(gy_seq_save(r->fast, a, path, &err), err);
    gy_seq_free(r->fast, a);
    assert_ok(gy_seq_load(r->small, path, &b, &err), err); /* another engine */
    rig_feed(r->small, b, r->ids[0] + S, T - S, 0, at(r->got, S));
    same(r, PERSIST, "saved and loaded", r->want, r->got, S, T - S);
    cell[PERSIST] += rig_same_pages(say(r, "saved and loaded"), r->plain, r->seq, r->small, b);
    gy_seq_free(r->small, b);
    unlink(path);
}

/* ---- Attention as defined, over what is stored ---- */

typedef struct {
    rig *r;
    gy_engine *e;
    gy_seq *seq;
    int pos0, rows, cols; /* of the step */
    float *q;             /* [rows][cols] as the last ROPE left it */
    float *k, *v;         /* [T][dim] decoded */
    double off, allowed;
    int checked;
} oracle;

static void decode_rows(oracle *o, int layer, int head, int n, bool value, float *x) {
    for (int p = 0; p < n; p++) {
        int g = gy_kv_layer_group(o->e->kv, layer);
        if (!o->seq->group[g].at[p / GY_PAGE]) continue; /* dropped: nobody may see it */
        gy_rows m = gy_kv_page_rows(o->e->kv, o->seq, layer, p / GY_PAGE, head, value);
        float *to = x + (size_t)p * (size_t)m.cols;
        gy_codecs[m.c.kind].decode(&m, p % GY_PAGE, to);
        if (gy_codecs[m.c.kind].turn) gy_codecs[m.c.kind].turn(m.c, to, m.cols, true);
    }
}

static bool sees(const gy_op *op, int q, int p) {
    if (p > q) return false;
    if (op->u.attn.chunk && p / op->u.attn.chunk != q / op->u.attn.chunk) return false;
    return !op->u.attn.window || p < op->u.attn.kept || q - p < op->u.attn.window - op->u.attn.kept;
}

/* One query head in double, and in float by the same loops: their gap is the measure of rounding.
 */
static void attend(oracle *o, const gy_op *op, int head, const float *q, int pos,
                   const float *got) {
    int kd = op->u.attn.kdim, vd = op->u.attn.vdim;
    double s[T], m = -INFINITY, l = 0;
    float sf[T], mf = -INFINITY, lf = 0;
    for (int p = 0; p <= pos; p++) {
        double a = 0;
        float b = 0;
        if (!sees(op, pos, p)) continue;
        for (int i = 0; i < kd; i++)
            a += (double)q[i] * o->k[p * kd + i], b += q[i] * o->k[p * kd + i];
        s[p] = a * op->u.attn.scale, sf[p] = b * op->u.attn.scale;
        if (op->u.attn.cap != 0) {
            s[p] = op->u.attn.cap * tanh(s[p] / op->u.attn.cap);
            sf[p] = op->u.attn.cap * tanhf(sf[p] / op->u.attn.cap);
        }
        m = fmax(m, s[p]), mf = fmaxf(mf, sf[p]);
    }
    if (op->u.attn.sinks)
        l = exp(op->u.attn.sinks[head] - m), lf = expf(op->u.attn.sinks[head] - mf);
    for (int p = 0; p <= pos; p++)
        if (sees(op, pos, p)) l += s[p] = exp(s[p] - m), lf += sf[p] = expf(sf[p] - mf);
    for (int i = 0; i < vd; i++) {
        double want = 0;
        float rough = 0;
        for (int p = 0; p <= pos; p++)
            if (sees(op, pos, p))
                want += s[p] / l * o->v[p * vd + i], rough += sf[p] / lf * o->v[p * vd + i];
        o->off = fmax(o->off, isnan(got[i]) ? INFINITY : fabs(got[i] - want));
        o->allowed = fmax(o->allowed, 10 * fabs(rough - want));
        o->checked++;
    }
}

static void watch(void *arg, int i, const char *name, const float *value, int rows, int cols,
                  int ld) {
    oracle *o = arg;
    const gy_op *op = o->e->plan->op + i;
    (void)name;
    if (op->kind == GY_OP_ROPE) { /* where the next ATTN finds its queries */
        assert_true(cols <= 2048);
        o->rows = rows, o->cols = cols;
        for (int r = 0; r < rows; r++)
            memcpy(o->q + (size_t)r * (size_t)cols, value + (ptrdiff_t)r * ld,
                   (size_t)cols * sizeof *value);
    }
    if (op->kind != GY_OP_ATTN) return;
    for (int kh = 0; kh < op->u.attn.kv_heads; kh++) {
        int heads = op->u.attn.heads / op->u.attn.kv_heads;
        decode_rows(o, op->layer, kh, o->pos0 + rows, false, o->k);
        decode_rows(o, op->layer, kh, o->pos0 + rows, true, o->v);
        for (int r = 0; r < rows; r += r + 30 < rows ? 29 : 1)
            for (int h = kh * heads; h < (kh + 1) * heads; h++)
                attend(o, op, h, o->q + (size_t)r * (size_t)o->cols + h * op->u.attn.kdim,
                       o->pos0 + r, value + (ptrdiff_t)r * ld + h * op->u.attn.vdim);
    }
}

/* Feeds ids[from..T) and watches. */
static void truth(rig *r, const char *how, gy_engine *e, gy_seq *s, int from) {
    oracle o = {.r = r, .e = e, .seq = s, .pos0 = from};
    o.q = malloc(T * 2048 * sizeof(float));
    o.k = calloc(T * 128, sizeof(float)), o.v = calloc(T * 128, sizeof(float));
    gy_engine_trace(e, watch, &o);
    rig_feed(e, s, r->ids[0] + from, T - from, 0, at(r->got, from));
    gy_engine_trace(e, NULL, NULL);
    assert_true(o.checked > 0);
    if (!(o.off <= o.allowed))
        fail_msg("%s: attention is off by %g, allowed %g", say(r, how), o.off, o.allowed);
    cell[TRUTH] += o.checked;
    free(o.q), free(o.k), free(o.v);
}

static void by_truth(rig *r) {
    gy_err err = {0};
    gy_seq *s = rig_seq(r->plain);
    truth(r, "against double", r->plain, s, 0);
    gy_seq_free(r->plain, s);
    s = rig_seq(r->plain); /* pages of two kinds under one query */
    if (!gy_seq_transition(r->plain, s, r->other, 2 * GY_PAGE, &err))
        truth(r, "a mix against double", r->plain, s, 0);
    gy_seq_free(r->plain, s);
}

/* ---- The product ---- */

static void run(gy_model *m, rig_layout layout, int codec) {
    rig r = {.layout = layout, .kv = codecs[codec], .rng = 99 + (uint64_t)codec};
    gy_err err = {0};
    cell = counts[codec][layout], refused = refusals[codec][layout];
    r.other = codecs[(codec * 7 + 13) % CODECS]; /* all pairs would be too many */
    if (r.other == r.kv || (layout == RIG_STATE && strstr(r.other, ".128"))) r.other = "q8";
    r.plain = rig_engine(m, layout, (rig_options){r.kv, "generic", 1, 512}, &err);
    if (!r.plain) { /* heads of 64 have no groups of 128; all else fits */
        bool group = layout == RIG_STATE && strstr(r.kv, ".128");
        if (!group) fail_msg("%s: %s", say(&r, "engine"), err.msg);
        assert_int_equal(err.rc, GY_EUNSUPPORTED);
        for (int w = 0; w < WAYS; w++) refused[w]++;
        return;
    }
    vocab = r.plain->vocab;
    r.fast = rig_engine(m, layout, (rig_options){r.kv, NULL, 2, 512}, &err);
    r.small = rig_engine(m, layout, (rig_options){r.kv, NULL, 1, 7}, &err);
    assert_true(r.fast && r.small);
    r.want = malloc((size_t)(T * vocab) * sizeof(float)),
    r.got = malloc((size_t)(T * vocab) * sizeof(float));
    for (int i = 0; i <= OTHERS; i++) {
        for (int k = 0; k < T; k++) r.ids[i][k] = (int32_t)(test_rand(&r.rng) % (unsigned)vocab);
        gy_engine *e = i ? r.fast : r.plain; /* portable C is slow; for one sequence it will do */
        gy_seq *s = rig_seq(e);
        r.others[i] = i ? malloc((size_t)(T * vocab) * sizeof(float)) : r.want;
        rig_feed(e, s, r.ids[i], i ? 170 : T, 0, r.others[i]);
        if (i)
            gy_seq_free(e, s);
        else
            r.seq = s;
    }
    by_isa(&r), by_chunks(&r), by_batch(&r), by_fork(&r), by_trim(&r), by_spec(&r);
    by_transition(&r, MODE_B, 150, 0);
    by_transition(&r, MODE_C, 0, GY_PAGE);
    by_transition(&r, MODE_C, 150, GY_PAGE);
    by_donor(&r), by_share(&r), by_persist(&r), by_truth(&r);
    for (int w = 0; w < WAYS; w++)
        if (!cell[w] && !refused[w]) fail_msg("%s: nothing was compared", say(&r, way_names[w]));
    for (int i = 1; i <= OTHERS; i++) free(r.others[i]);
    free(r.want), free(r.got);
    gy_seq_free(r.plain, r.seq);
    gy_engine_free(r.plain), gy_engine_free(r.fast), gy_engine_free(r.small);
}

/* Codecs of one kind share a row of the table. */
typedef enum { PLAIN, AFFINE, TURBO, TURBOX, PAIRS, FAMILIES } family;
static const char *const family_names[FAMILIES] = {"plain", "affine", "turbo", "turbox", "pairs"};

static family family_of(const char *codec) {
    const char *dot = strchr(codec, '.');
    if (dot && (dot[1] < '0' || dot[1] > '9')) return PAIRS; /* K.V */
    if (!strncmp(codec, "turbox", 6)) return TURBOX;
    if (!strncmp(codec, "turbo", 5)) return TURBO;
    return *codec == 'q' || *codec == 'k' ? AFFINE : PLAIN;
}

/* Returns how many comparisons this family and layout had. */
static int report_row(family f, rig_layout l) {
    int sum = 0, codec_n = 0, not_any = 0;
    int n[WAYS] = {0}, no[WAYS] = {0};
    for (int c = 0; c < CODECS; c++) {
        if (family_of(codecs[c]) != f || !ran[c][l]) continue;
        codec_n++, not_any += !counts[c][l][TRUTH];
        for (int w = 0; w < WAYS; w++) n[w] += counts[c][l][w], no[w] += refusals[c][l][w];
    }
    if (!codec_n) return 0;
    printf("%-7s %-7s %4d", family_names[f], rig_layout_names[l], codec_n - not_any);
    for (int w = 0; w < WAYS; w++) {
        sum += n[w];
        if (n[w])
            printf(" %8d", n[w]);
        else
            printf(" %8s", no[w] ? "refused" : "NONE");
    }
    printf("\n");
    return sum;
}

static void report(void) {
    int total = 0, refusal_n = 0, cell_n = 0;
    printf("%-7s %-7s %4s", "codecs", "keeps", "n");
    for (int w = 0; w < WAYS; w++) printf(" %8s", way_names[w]);
    printf("\n");
    for (int f = 0; f < FAMILIES; f++)
        for (int l = 0; l < RIG_LAYOUTS; l++) total += report_row((family)f, (rig_layout)l);
    for (int c = 0; c < CODECS; c++)
        for (int l = 0; l < RIG_LAYOUTS; l++)
            for (int w = 0; w < WAYS; w++)
                cell_n += counts[c][l][w] > 0, refusal_n += ran[c][l] && !counts[c][l][w];
    printf("%d comparisons, all equal, in %d cells (codec x layout x way); %d cells refused by "
           "design, with the error code expected\n",
           total, cell_n, refusal_n);
}

/* GYRE_TEST_KV names one codec, or "all" for the whole product. Without it codecs take turns: each
 * runs on one layout. */
static bool wanted(rig_layout l, int codec) {
    const char *only = getenv("GYRE_TEST_KV");
    if (only && *only) return !strcmp(only, "all") || !strcmp(only, codecs[codec]);
    return ((int)l + codec) % RIG_LAYOUTS == 0;
}

static void product(void **state) {
    (void)state;
    for (int l = 0; l < RIG_LAYOUTS; l++) {
        gy_model *m = rig_model((rig_layout)l);
        for (int c = 0; c < CODECS; c++)
            if (wanted((rig_layout)l, c)) ran[c][l] = true, run(m, (rig_layout)l, c);
        gy_model_unref(m);
    }
    report();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(product)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
