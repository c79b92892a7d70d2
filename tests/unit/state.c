/* Recurrent state: marks, going back and replaying, forks, memory, failing allocations; and whole
 * rounds of drafts, trims and forks on a model that has such layers. */
#include "base/mem.h"
#include "gyre.h"
#include "kv/kv.h"
#include "testlib.h"

/* ---- A store whose state is a sum over the tokens so far, different in each part ---- */

enum { CONV = 3, SCAN = 17 };
static const gy_kvspec spec[] = {
    {.donor = -1, .keep.policy = GY_KEEP_STATE, .conv = CONV, .scan = SCAN},
    {.k.kind = GY_CODEC_F16, .v.kind = GY_CODEC_F16, .heads = 1, .kdim = 8, .vdim = 8, .donor = -1},
    {.donor = -1, .keep.policy = GY_KEEP_STATE, .conv = 0, .scan = SCAN},
    {.k.kind = GY_CODEC_F16,
     .v.kind = GY_CODEC_F16,
     .heads = 1,
     .kdim = 8,
     .vdim = 8,
     .donor = -1,
     .keep = {GY_KEEP_WINDOW, 40, 0}},
};
enum { LAYERS = sizeof spec / sizeof *spec };

static gy_kv *store(void) {
    gy_kv *kv = NULL;
    gy_err err = {0};
    assert_ok(gy_kv_new(spec, LAYERS, 1 << 16, &kv, &err), err);
    assert_non_null(gy_kv_state(kv));
    return kv;
}

/* Exact in f32 for the sizes used: what value i of a layer's part is after tok[n]. */
static float value(const int32_t *tok, int n, int layer, int part, int i) {
    uint32_t h = (uint32_t)(layer * 1000 + part * 100 + i);
    for (int t = 0; t < n; t++) h = h * 31 + (uint32_t)tok[t];
    return (float)(h & 0xFFFFF);
}

static float next_value(float was, bool none, int32_t tok, int layer, int part, int i) {
    uint32_t h = none ? (uint32_t)(layer * 1000 + part * 100 + i) : (uint32_t)was;
    return (float)((h * 31 + (uint32_t)tok) & 0xFFFFF);
}

/* What kernels do: from the last mark through every target. */
static void compute(const gy_kv *kv, const struct gy_seq *s, const int32_t *tok, int pos0, int n) {
    for (int layer = 0; layer < LAYERS; layer++)
        for (int part = 0; part < 2 && spec[layer].keep.policy == GY_KEEP_STATE; part++) {
            gy_state_way way;
            gy_state_find(gy_kv_state(kv), &s->state, layer, part ? GY_OP_SCAN : GY_OP_CONV, &way);
            assert_int_equal(way.end[way.n - 1], pos0 + n);
            assert_true(way.from != NULL || pos0 == 0);
            int count = part ? spec[layer].scan : spec[layer].conv, at = pos0;
            const float *from = way.from;
            for (int k = 0; k < way.n; from = way.to[k++])
                for (int first = at; at < way.end[k]; at++)
                    for (int i = 0; i < count; i++) {
                        const float *x = at == first ? from : way.to[k];
                        way.to[k][i] = next_value(x ? x[i] : 0, !x, tok[at - pos0], layer, part, i);
                    }
        }
}

/* A step as the engine makes it: what waits to be replayed, then tok[n], of which drafts. */
static void step(gy_kv *kv, struct gy_seq *s, const int32_t *tok, int n, int drafts) {
    int32_t all[4096];
    gy_err err = {0};
    int again = s->replay, pos0 = s->len;
    if (again) memcpy(all, s->tok + s->len, (size_t)again * sizeof *all);
    memcpy(all + again, tok, (size_t)n * sizeof *all);
    assert_ok(gy_kv_reserve_drafts(kv, s, again + n, drafts, &err), err);
    compute(kv, s, all, pos0, again + n);
    gy_kv_append_drafts(kv, s, all, again + n, drafts);
    assert_int_equal(s->replay, 0);
    assert_int_equal(s->len, pos0 + again + n);
}

/* The state at len is what the tokens say, seen as the next step sees it. */
static void check(gy_kv *kv, struct gy_seq *s, const int32_t *want, int n) {
    gy_err err = {0};
    assert_int_equal(s->len + s->replay, n);
    assert_true(!n || !memcmp(s->tok, want, (size_t)n * sizeof *want));
    assert_int_equal(gy_state_pos(&s->state), s->len);
    assert_true(s->state.marks <= GY_STATE_MARKS);
    assert_ok(gy_kv_reserve(kv, s, 1, &err), err);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int part = 0; part < 2 && spec[layer].keep.policy == GY_KEEP_STATE; part++) {
            gy_state_way way;
            gy_state_find(gy_kv_state(kv), &s->state, layer, part ? GY_OP_SCAN : GY_OP_CONV, &way);
            for (int i = 0; way.from && i < (part ? spec[layer].scan : spec[layer].conv); i++)
                if (way.from[i] != value(want, s->len, layer, part, i))
                    fail_msg("layer %d part %d value %d at %d: %g, expected %g", layer, part, i,
                             s->len, (double)way.from[i],
                             (double)value(want, s->len, layer, part, i));
        }
}

static void draw(uint64_t *rng, int32_t *tok, int n) {
    for (int i = 0; i < n; i++) tok[i] = (int32_t)(test_rand(rng) % 1000);
}

/* Sequences that grow, guess, settle, go back and fork at random. */
static void test_random(void **state) {
    (void)state;
    enum { SEQS = 4, MOST = 1500, ROUNDS = 3000 };
    uint64_t rng = test_seed();
    gy_kv *kv = store();
    static int32_t want[SEQS][MOST];
    struct gy_seq *s[SEQS] = {0};
    int len[SEQS] = {0}, trims = 0, refused = 0;
    gy_err err = {0};
    for (int i = 0; i < SEQS; i++) assert_ok(gy_kv_seq_new(kv, &s[i], &err), err);
    for (int round = 0; round < ROUNDS; round++) {
        int i = (int)(test_rand(&rng) % SEQS), what = (int)(test_rand(&rng) % 8);
        int n = 1 + (int)(test_rand(&rng) % (what == 0 ? 300 : 9));
        if (what == 7 && len[i]) { /* go back: mostly a little */
            int most = test_rand(&rng) % 4 ? (len[i] < 20 ? len[i] : 20) : len[i];
            int to = len[i] - (int)(test_rand(&rng) % (unsigned)(most + 1));
            gy_rc rc = gy_kv_trim(kv, s[i], to, &err);
            assert_true(rc == GY_OK || rc == GY_ELIMIT); /* the window's pages may be gone */
            refused += rc != GY_OK, trims++;
            err = (gy_err){0};
            if (!rc) len[i] = to;
        } else if (what == 6) { /* fork over another */
            int j = (int)(test_rand(&rng) % SEQS);
            if (j == i) continue;
            gy_kv_seq_free(kv, s[j]);
            assert_ok(gy_kv_seq_fork(kv, s[i], &s[j], &err), err);
            memcpy(want[j], want[i], sizeof want[j]);
            len[j] = len[i];
        } else if (len[i] + n <= MOST) {
            int drafts = what > 3 ? (int)(test_rand(&rng) % (unsigned)(n + 1)) : 0;
            draw(&rng, want[i] + len[i], n);
            step(kv, s[i], want[i] + len[i], n, drafts);
            len[i] += n;
            if (drafts) {
                int keep = (int)(test_rand(&rng) % (unsigned)(drafts + 1));
                assert_ok(gy_kv_settle(kv, s[i], keep, &err), err);
                len[i] -= drafts - keep;
                /* Going back to the first draft, and keeping all, are free. */
                if (keep == 0 || keep == drafts) assert_int_equal(s[i]->replay, 0);
                assert_true(s[i]->replay <= keep);
            }
        } else {
            assert_ok(gy_kv_trim(kv, s[i], 0, &err), err);
            len[i] = 0;
        }
        check(kv, s[i], want[i], len[i]);
    }
    printf("%d trims, %d refused by the window\n", trims, refused);
    assert_true(refused < trims / 2);
    int64_t most = (int64_t)SEQS * (GY_STATE_MARKS + GY_STATE_TARGETS) *
                   (gy_state_block_bytes(gy_kv_state(kv)) + 64);
    assert_true(gy_state_held_bytes(gy_kv_state(kv)) <= most);
    for (int i = 0; i < SEQS; i++) gy_kv_seq_free(kv, s[i]);
    gy_kv_free(kv);
}

/* How far one must go back, in the worst case, by the spacings of state.h. */
static void test_distance(void **state) {
    (void)state;
    gy_kv *kv = NULL;
    struct gy_seq *s = NULL;
    gy_err err = {0};
    int32_t tok[3000];
    assert_ok(gy_kv_new(spec, LAYERS - 1, 1 << 16, &kv, &err), err); /* without the window */
    uint64_t rng = 1;
    draw(&rng, tok, 3000);
    assert_ok(gy_kv_seq_new(kv, &s, &err), err);
    for (int at = 0; at < 2000; at += 50) step(kv, s, tok + at, 50, 0);
    assert_int_equal(s->state.marks, GY_STATE_MARKS);
    static const int cases[][2] = {{2000, 2000}, {1999, 1984}, {1984, 1984}, {1983, 1950},
                                   {1950, 1950}, {1949, 1792}, {1791, 1024}, {1023, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(gy_kv_trim(kv, s, cases[i][0], &err), err);
        if (s->len != cases[i][1] || s->replay != cases[i][0] - cases[i][1])
            fail_msg("back to %d: len %d replay %d, expected len %d", cases[i][0], s->len,
                     s->replay, cases[i][1]);
    }
    assert_int_equal(gy_kv_trim(kv, s, 1024, &err), GY_EARG); /* only 1023 are left */
    gy_kv_seq_free(kv, s);
    gy_kv_free(kv);
}

/* Settling where nothing waits to be settled forgets nothing: not the tokens that are to be fed
 * again. */
static void test_settle_twice(void **state) {
    (void)state;
    gy_kv *kv = store();
    struct gy_seq *s = NULL, *f = NULL;
    gy_err err = {0};
    int32_t tok[30];
    uint64_t rng = 3;
    draw(&rng, tok, 30);
    assert_ok(gy_kv_seq_new(kv, &s, &err), err);
    step(kv, s, tok, 20, 0);
    step(kv, s, tok + 20, 10, 8);
    assert_ok(gy_kv_settle(kv, s, 5, &err), err);
    assert_int_equal(s->replay, 5);
    assert_ok(gy_kv_settle(kv, s, 0, &err), err);
    check(kv, s, tok, 27);
    assert_ok(gy_kv_seq_fork(kv, s, &f, &err), err);
    assert_ok(gy_kv_settle(kv, f, 0, &err), err);
    check(kv, f, tok, 27);
    assert_int_equal(gy_kv_settle(kv, s, 1, &err), GY_EARG);
    gy_kv_seq_free(kv, s), gy_kv_seq_free(kv, f);
    gy_kv_free(kv);
}

/* Each allocation fails once: the sequence is as before, and the step succeeds afterwards. */
static void test_faults(void **state) {
    (void)state;
    int32_t tok[700];
    uint64_t rng = 2;
    draw(&rng, tok, 700);
    for (int split = 1; split < 700; split += 140)
        for (long nth = 1;; nth++) {
            gy_kv *kv = store();
            struct gy_seq *s = NULL;
            gy_err err = {0};
            assert_ok(gy_kv_seq_new(kv, &s, &err), err);
            step(kv, s, tok, split, 0);
            gy_alloc_fail_at(nth);
            gy_rc rc = gy_kv_reserve(kv, s, 700 - split, &err);
            gy_alloc_fail_at(0);
            assert_true(rc == GY_OK || rc == GY_ENOMEM);
            assert_int_equal(s->len, split);
            step(kv, s, tok + split, 700 - split, 0);
            check(kv, s, tok, 700);
            gy_kv_seq_free(kv, s);
            gy_kv_free(kv);
            if (!rc) break;
        }
    for (long nth = 1;; nth++) {
        gy_kv *kv = NULL;
        gy_err err = {0};
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_kv_new(spec, LAYERS, 1000, &kv, &err);
        gy_alloc_fail_at(0);
        gy_kv_free(kv);
        if (!rc) break;
        assert_int_equal(rc, GY_ENOMEM);
    }
}

/* ---- On a model ---- */

typedef struct {
    gy_model *m;
    int vocab;
    int32_t ids[400];
    float *want; /* [400][vocab] */
} rig;

static void open_rig(rig *r, uint64_t *rng) {
    gy_err err = {0};
    gy_model_info info;
    assert_ok(gy_model_open(data_path("models/qwen3_5"), &(gy_model_options){.no_tokenizer = true},
                            &r->m, &err),
              err);
    gy_model_get_info(r->m, &info);
    r->vocab = info.vocab;
    r->want = malloc(400 * (size_t)r->vocab * sizeof(float));
    for (int i = 0; i < 400; i++) r->ids[i] = (int32_t)(test_rand(rng) % (unsigned)r->vocab);
}

static gy_engine *engine(const rig *r, int threads, int chunk) {
    gy_engine *e = NULL;
    gy_err err = {0};
    gy_engine_options o = {.threads = threads, .chunk = chunk, .context = 512, .sequences = 4};
    assert_ok(gy_engine_new(r->m, &o, &e, &err), err);
    return e;
}

static void same(const rig *r, const float *got, int at, int n, const char *what) {
    if (memcmp(r->want + (size_t)at * (size_t)r->vocab, got,
               (size_t)n * (size_t)r->vocab * sizeof(float)))
        fail_msg("%s: logits of positions %d..%d differ", what, at, at + n - 1);
}

/* Rounds of right and wrong drafts, trims, and forks whose strays go another way: the logits of
 * right tokens are those of a run straight through. */
static void rounds(const rig *r, int threads, int chunk, uint64_t *rng) {
    gy_engine *e = engine(r, threads, chunk);
    gy_seq *s = NULL, *stray = NULL;
    gy_err err = {0};
    int at = 0;
    float *got = malloc(64 * (size_t)r->vocab * sizeof *got);
    assert_ok(gy_seq_new(e, &s, &err), err);
    while (at < 400) {
        int n = 1 + (int)(test_rand(rng) % (test_rand(rng) % 6 ? 5 : 60)), drafts = 0, right;
        int32_t feed[64];
        if (n > 400 - at) n = 400 - at;
        memcpy(feed, r->ids + at, (size_t)n * sizeof *feed);
        if (n > 1) drafts = (int)(test_rand(rng) % (unsigned)n);
        right = drafts ? (int)(test_rand(rng) % (unsigned)(drafts + 1)) : 0;
        for (int i = n - drafts + right; i < n; i++) feed[i] = (feed[i] + 1) % r->vocab;
        gy_feed f[2] = {{.seq = s, .ids = feed, .n = n, .drafts = drafts},
                        {.seq = stray, .ids = r->ids, .n = 3, .first_out = 3}};
        assert_ok(gy_step(e, f, stray && gy_seq_len(stray) < 480 ? 2 : 1, got, &err), err);
        same(r, got, at, n - drafts + right, "rounds");
        assert_int_equal(gy_seq_len(s), at + n);
        if (drafts) assert_ok(gy_seq_settle(e, s, right, &err), err);
        at += n - drafts + right;
        assert_int_equal(gy_seq_len(s), at);
        assert_memory_equal(gy_seq_tokens(s), r->ids, (size_t)at * sizeof *r->ids);
        if (test_rand(rng) % 8 == 0) {
            gy_seq_free(e, stray);
            assert_ok(gy_seq_fork(e, s, &stray, &err), err);
        }
        if (test_rand(rng) % 5 == 0) {
            int back = (int)(test_rand(rng) % (test_rand(rng) % 4 ? 10 : 150));
            at = at > back ? at - back : at;
            assert_ok(gy_seq_trim(e, s, at, &err), err);
            assert_int_equal(gy_seq_len(s), at);
        }
        if (at > 300 && test_rand(rng) % 3 == 0) break; /* not always to the end */
    }
    gy_seq_free(e, s), gy_seq_free(e, stray);
    gy_engine_free(e);
    free(got);
}

static void test_model(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    rig r;
    gy_seq *s = NULL;
    gy_err err = {0};
    open_rig(&r, &rng);
    gy_engine *e = engine(&r, 1, 512);
    assert_ok(gy_seq_new(e, &s, &err), err);
    gy_feed feed = {.seq = s, .ids = r.ids, .n = 400};
    assert_ok(gy_step(e, &feed, 1, r.want, &err), err);
    gy_seq_free(e, s);
    gy_engine_free(e);
    for (int threads = 1; threads <= 3; threads++)
        for (int chunk = 3; chunk <= 300; chunk *= 9) rounds(&r, threads, chunk, &rng);
    gy_model_unref(r.m);
    free(r.want);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_distance),
                                       cmocka_unit_test(test_settle_twice),
                                       cmocka_unit_test(test_faults), cmocka_unit_test(test_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
