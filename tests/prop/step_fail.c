/* Steps that fail between two chunks: cancelled at every border, out of KV memory at every page,
 * out of memory at every allocation. What the sequences hold then is what gyre.h says, and settled,
 * trimmed, forked and fed again they give the logits and the stored bytes of sequences that never
 * failed: those of portable C, fed as a whole. */
#include "base/mem.h"
#include "prop/kv_rig.h"

enum { ROWS = 3, T = 150, CHUNK = 7, REPLAY = 3 };
/* Two rows come to a new page in one chunk, the third: one may find a page when the other does not.
 */
static const int start[ROWS] = {50, 125, 62}, fed[ROWS] = {17, 9, 23}, end[ROWS] = {78, 147, 98};

typedef enum { CANCEL, LIMIT, NOMEM, KINDS } kind;
static const gy_rc code[KINDS] = {GY_ECANCEL, GY_ELIMIT, GY_ENOMEM};

typedef struct {
    gy_engine *e;
    gy_seq *base[ROWS]; /* at start[i] */
} store;

typedef struct {
    gy_model *m;
    rig_layout layout;
    rig_options o;
    store plain; /* whose sequences hold all T tokens */
    int32_t ids[ROWS][T];
    float *want[ROWS], *got; /* [T][vocab]; [ROWS * T][vocab] */
    int vocab;
    uint64_t rng;
    char what[96];
} rig;

static int failures[KINDS], parts, compared; /* parts: failures that left a feed in part */

/* ---- Sequences at their start ---- */

static void same(rig *r, const char *how, int row, int pos, const float *got, int n) {
    const float *want = r->want[row] + (size_t)(pos * r->vocab);
    if (memcmp(want, got, (size_t)(n * r->vocab) * sizeof *got))
        fail_msg("%s: %s: logits of row %d from position %d on differ", r->what, how, row, pos);
    compared += n;
}

/* Goes beyond its start and back; a recurrent model must then replay. Row 1 changes its codecs. */
static gy_seq *begin(rig *r, gy_engine *e, int row) {
    gy_err err = {0};
    gy_seq *s = rig_seq(e);
    bool changes = row == 1 && r->layout != RIG_STATE && r->layout != RIG_LATENT;
    rig_feed(e, s, r->ids[row], start[row] + (changes ? 0 : REPLAY), 0, NULL);
    if (changes)
        assert_ok(gy_seq_transition(e, s, "q8", GY_PAGE, &err), err);
    else
        assert_ok(gy_seq_trim(e, s, start[row], &err), err);
    return s;
}

static bool open_store(rig *r, rig_options o, store *s) {
    gy_err err = {0};
    s->e = rig_engine(r->m, r->layout, o, &err);
    if (!s->e) {
        assert_int_equal(err.rc, GY_EUNSUPPORTED);
        return false;
    }
    for (int i = 0; i < ROWS; i++) s->base[i] = begin(r, s->e, i);
    return true;
}

static void close_store(store *s) {
    for (int i = 0; i < ROWS; i++) gy_seq_free(s->e, s->base[i]);
    gy_engine_free(s->e);
}

/* ---- Failures ---- */

static struct {
    gy_engine *e;
    int chunk, at, last; /* cancels in the chunk `at`, from 1 */
} watch;

static void on_op(void *arg, int op, const char *name, const float *value, int rows, int cols,
                  int ld) {
    (void)arg, (void)name, (void)value, (void)rows, (void)cols, (void)ld;
    if (op <= watch.last && ++watch.chunk == watch.at) gy_cancel(watch.e);
    watch.last = op;
}

/* Takes all pages of the store but n. */
static gy_seq *leave(gy_engine *e, int n) {
    gy_seq *hog = rig_seq(e);
    int pages = RIG_CONTEXT / GY_PAGE * RIG_SEQS;
    while (pages && gy_kv_reserve(e->kv, hog, pages * GY_PAGE, NULL)) pages--;
    gy_seq_free(e, hog), hog = rig_seq(e);
    if (pages > n) assert_int_equal(gy_kv_reserve(e->kv, hog, (pages - n) * GY_PAGE, NULL), GY_OK);
    return hog;
}

static gy_rc fail_at(rig *r, gy_engine *e, const gy_feed *feed, kind k, int at) {
    gy_err err = {0};
    gy_seq *hog = k == LIMIT ? leave(e, at) : NULL;
    watch.e = e, watch.chunk = 0, watch.at = at, watch.last = 1 << 20;
    if (k == CANCEL) gy_engine_trace(e, on_op, NULL);
    if (k == CANCEL && !at) gy_cancel(e);
    if (k == NOMEM) gy_alloc_fail_at(at + 1);
    gy_rc rc = gy_step(e, feed, ROWS, r->got, &err);
    gy_alloc_fail_at(0);
    gy_engine_trace(e, NULL, NULL);
    gy_engine_cancelled(e); /* set in the last chunk: nobody took it */
    gy_seq_free(e, hog);
    if (rc && (rc != code[k] || err.rc != rc))
        fail_msg("%s: %s: %s", r->what, gy_rc_name(rc), err.msg);
    return rc;
}

/* ---- What is left ---- */

/* The feeds are held in their order, in logits too, and nothing is held for what was not fed. good:
 * tokens of a feed that are not wrong guesses. */
static void check_left(rig *r, const store *t, gy_seq *const *s, const gy_feed *feed,
                       const int *good, gy_rc rc) {
    const float *got = r->got;
    bool whole = true;
    for (int i = 0; i < ROWS; i++) {
        int n = gy_seq_len(s[i]) - start[i];
        assert_true(n >= 0 && n <= fed[i]);
        if (n && !whole) fail_msg("%s: row %d was fed before those in front", r->what, i);
        whole = n == fed[i], parts += n && !whole;
        assert_memory_equal(gy_seq_tokens(s[i]), r->ids[i], (size_t)start[i] * sizeof(int32_t));
        if (n)
            assert_memory_equal(gy_seq_tokens(s[i]) + start[i], feed[i].ids,
                                (size_t)n * sizeof(int32_t));
        same(r, "what was finished", i, start[i], got, n < good[i] ? n : good[i]);
        got += (size_t)(n * r->vocab);
        for (int l = 0; l < t->e->plan->n_layers; l++) {
            int g = gy_kv_layer_group(t->e->kv, l);
            if (g >= 0 && t->e->plan->kv[l].donor < 0 &&
                s[i]->group[g].n != gy_pages_for(s[i]->len))
                fail_msg("%s: row %d holds %d pages for %d positions", r->what, i, s[i]->group[g].n,
                         s[i]->len);
        }
    }
    assert_true(!rc == whole);
}

/* Ends the round, so that none of the wrong guesses stays: by settling or by going back. */
static void end_round(rig *r, gy_engine *e, gy_seq *s, const gy_feed *feed, int row, int good) {
    gy_err err = {0};
    int n = gy_seq_len(s) - start[row], sure = feed->n - feed->drafts;
    int held = n > sure ? n - sure : 0, keep = good - sure < held ? good - sure : held;
    if (test_rand(&r->rng) % 3 == 0) {
        int most = n < good ? n : good, back = (int)(test_rand(&r->rng) % (unsigned)(most + 1));
        assert_ok(gy_seq_trim(e, s, start[row] + back, &err), err);
        assert_int_equal(gy_seq_len(s), start[row] + back);
        return;
    }
    assert_int_equal(gy_seq_settle(e, s, held + 1, &err), GY_EARG);
    assert_int_equal(gy_seq_settle(e, s, -1, &err), GY_EARG);
    if (held)
        assert_int_equal(gy_step(e, &(gy_feed){s, r->ids[row], 1, 1, 0}, 1, NULL, &err), GY_EARG);
    assert_ok(gy_seq_settle(e, s, keep, &err), err);
    assert_int_equal(gy_seq_len(s), start[row] + n - held + keep);
}

static void go_on(rig *r, const store *t, gy_seq *const *s) {
    gy_feed feed[ROWS];
    gy_err err = {0};
    for (int i = 0; i < ROWS; i++) {
        int n = gy_seq_len(s[i]);
        feed[i] = (gy_feed){.seq = s[i], .ids = r->ids[i] + n, .n = end[i] - n};
    }
    assert_ok(gy_step(t->e, feed, ROWS, r->got, &err), err);
    const float *got = r->got;
    for (int i = 0; i < ROWS; i++) {
        same(r, "gone on", i, end[i] - feed[i].n, got, feed[i].n);
        got += (size_t)(feed[i].n * r->vocab);
        compared += rig_same_pages(r->what, r->plain.e, r->plain.base[i], t->e, s[i]);
    }
}

/* One step that fails; false when it did not. */
static bool trial(rig *r, const store *t, kind k, int at) {
    int32_t tok[ROWS][T];
    int good[ROWS];
    gy_feed feed[ROWS];
    gy_seq *s[ROWS];
    gy_err err = {0};
    snprintf(r->what, sizeof r->what, "%s, %s, %s, %s at %d", rig_layout_names[r->layout], r->o.kv,
             r->o.isa ? r->o.isa : "best", gy_rc_name(code[k]), at);
    for (int i = 0; i < ROWS; i++) {
        int drafts = (int)(test_rand(&r->rng) % (unsigned)(fed[i] + 1));
        good[i] = fed[i] - (int)(test_rand(&r->rng) % (unsigned)(drafts + 1));
        for (int p = 0; p < fed[i]; p++)
            tok[i][p] = (r->ids[i][start[i] + p] + (p >= good[i])) % r->vocab;
        if (at % 3) /* shares the pages of its start */
            assert_ok(gy_seq_fork(t->e, t->base[i], &s[i], &err), err);
        else
            s[i] = begin(r, t->e, i);
        feed[i] = (gy_feed){.seq = s[i], .ids = tok[i], .n = fed[i], .drafts = drafts};
    }
    gy_rc rc = fail_at(r, t->e, feed, k, at);
    failures[k] += rc != GY_OK;
    check_left(r, t, s, feed, good, rc);
    for (int i = 0; i < ROWS; i++) {
        if (test_rand(&r->rng) % 3 == 0) {
            gy_seq *old = s[i];
            assert_ok(gy_seq_fork(t->e, old, &s[i], &err), err);
            gy_seq_free(t->e, old);
        }
        end_round(r, t->e, s[i], feed + i, i, good[i]);
    }
    go_on(r, t, s);
    for (int i = 0; i < ROWS; i++) gy_seq_free(t->e, s[i]);
    return rc != GY_OK;
}

/* ---- All ---- */

static bool run_store(rig *r) {
    store t;
    int before[KINDS];
    if (!open_store(r, r->o, &t)) return false;
    memcpy(before, failures, sizeof before);
    for (kind k = CANCEL; k <= LIMIT; k++)
        for (int at = 0; trial(r, &t, k, at); at++) assert_true(at < 100);
    close_store(&t);
    for (int at = 0, more = 1; more; at++) { /* pages that wait for reuse need no allocation */
        assert_true(open_store(r, r->o, &t));
        more = trial(r, &t, NOMEM, at);
        close_store(&t);
    }
    assert_true(failures[CANCEL] - before[CANCEL] >= 49 / CHUNK);
    assert_true(failures[LIMIT] > before[LIMIT] && failures[NOMEM] > before[NOMEM]);
    return true;
}

static void run_layout(rig_layout layout) {
    static const char *const kvs[] = {"f16", "q4.32", "turbo-k8v3"};
    rig r = {.layout = layout, .rng = test_seed()};
    gy_model_info info;
    int stores = 0;
    memset(failures, 0, sizeof failures), parts = compared = 0;
    r.m = rig_model(layout);
    gy_model_get_info(r.m, &info), r.vocab = info.vocab;
    for (int i = 0; i < ROWS; i++) {
        for (int p = 0; p < T; p++) r.ids[i][p] = (int32_t)(test_rand(&r.rng) % (unsigned)r.vocab);
        r.want[i] = malloc((size_t)(T * r.vocab) * sizeof(float));
    }
    r.got = malloc((size_t)(ROWS * T * r.vocab) * sizeof(float));
    for (size_t c = 0; c < sizeof kvs / sizeof *kvs; c++) {
        rig_options plain = {.kv = kvs[c], .isa = "generic", .threads = 1, .chunk = T};
        if (!open_store(&r, plain, &r.plain)) continue;
        for (int i = 0; i < ROWS; i++) {
            gy_seq *s = r.plain.base[i];
            rig_feed(r.plain.e, s, r.ids[i] + start[i], end[i] - start[i], 0,
                     r.want[i] + (size_t)(start[i] * r.vocab));
        }
        /* Portable C is slow: every codec and every layout, not every pair. */
        for (int best = c != layout % 3; best < 2; best++) {
            r.o = (rig_options){
                .kv = kvs[c], .isa = best ? NULL : "generic", .threads = 1, .chunk = CHUNK};
            stores += run_store(&r);
        }
        close_store(&r.plain);
    }
    assert_true(stores == 4 && parts > 0);
    printf(
        "%s: %d stores; failed %d times cancelled, %d full, %d out of memory, %d in the midst of "
        "a feed; %d rows of logits and pages equal\n",
        rig_layout_names[layout], stores, failures[CANCEL], failures[LIMIT], failures[NOMEM], parts,
        compared);
    for (int i = 0; i < ROWS; i++) free(r.want[i]);
    free(r.got);
    gy_model_unref(r.m);
}

static void every_layout(void **state) {
    (void)state;
    for (rig_layout l = 0; l < RIG_LAYOUTS; l++) run_layout(l);
}

/* A request that fails in the midst of a step counts what the step had finished: the first step has
 * two chunks, for it begins with a token that is replayed. */
static void a_request(void **state) {
    (void)state;
    static const int held[] = {0, 6, 7, 14, 20}; /* after so many chunks; a step takes 7 tokens */
    rig r = {.layout = RIG_STATE};
    rig_options o = {.kv = "f16", .threads = 1, .chunk = CHUNK};
    gy_err err = {0};
    r.m = rig_model(r.layout);
    for (int i = 0; i < T; i++) r.ids[0][i] = i;
    for (int at = 0; at <= 4; at++) {
        gy_engine *e = rig_engine(r.m, r.layout, o, &err);
        gy_seq *s = begin(&r, e, 0);
        gy_request q = {.ids = r.ids[0] + start[0], .n = 20, .max_tokens = 1};
        gy_result result;
        assert_int_equal(s->replay, 1);
        watch.e = e, watch.chunk = 0, watch.at = at, watch.last = 1 << 20;
        gy_engine_trace(e, on_op, NULL);
        if (!at) gy_cancel(e);
        gy_rc rc = gy_generate(e, s, &q, NULL, NULL, &result, &err);
        assert_int_equal(rc, at < 4 ? GY_ECANCEL : GY_OK);
        assert_int_equal(result.prompt_tokens, held[at]);
        assert_int_equal(gy_seq_len(s), start[0] + result.prompt_tokens);
        gy_seq_free(e, s);
        gy_engine_free(e);
    }
    gy_model_unref(r.m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout), cmocka_unit_test(a_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
