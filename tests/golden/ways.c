/* One prompt, one answer, however its positions came to be there (shared/cases/kv/e2e.json, a model
 * with windows of 8): in one step, in chunks, beside other sequences in any order, a second time,
 * from a forked or cut back prefix, from a file. With f32 KV the answer is the reference's; with
 * f16 it is the same one for every way. */
#include "base/fmap.h"
#include "base/json.h"
#include "testlib.h"

enum { CASES = 16, IDS = 128 };

typedef struct {
    int32_t prompt[IDS], want[IDS];
    int n, n_want;
    const char *id;
} item;

static item items[CASES];
static int n_items;

static int best(const float *row, int n) {
    int b = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[b]) b = i;
    return b;
}

static int ids_of(const gy_json *list, int32_t *out) {
    assert_true(gy_json_is(list, GY_JSON_ARR) && list->n <= IDS);
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t v;
        assert_true(gy_json_int(list->item + i, &v));
        out[i] = (int32_t)v;
    }
    return (int)list->n;
}

static void load_items(gy_json_doc *doc) {
    char *text;
    size_t n;
    gy_err err = {0};
    assert_ok(gy_file_read(shared_path("cases/kv/e2e.json"), 1 << 20, &text, &n, &err), err);
    assert_ok(gy_json_parse(doc, text, n, &err), err);
    gy_free(text);
    const gy_json *cases = gy_json_get(doc->root, "cases");
    assert_true(gy_json_is(cases, GY_JSON_ARR) && cases->n <= CASES);
    for (n_items = 0; n_items < (int)cases->n; n_items++) {
        const gy_json *c = cases->item + n_items;
        items[n_items].id = gy_json_s(c, "id", "?");
        items[n_items].n = ids_of(gy_json_get(c, "prompt"), items[n_items].prompt);
        items[n_items].n_want = ids_of(gy_json_get(c, "tokens"), items[n_items].want);
    }
}

static gy_engine *engine(gy_model *m, const char *kv, int chunk, int threads) {
    gy_engine_options o = {.threads = threads,
                           .arith = GY_ARITH_EXACT,
                           .kv = kv,
                           .context = 256,
                           .sequences = CASES,
                           .chunk = chunk};
    gy_engine *e;
    gy_err err = {0};
    assert_ok(gy_engine_new(m, &o, &e, &err), err);
    return e;
}

static int vocab_of(gy_model *m) {
    gy_model_info info;
    gy_model_get_info(m, &info);
    return info.vocab;
}

/* Feeds ids from position `at` of the sequence on and answers greedily; compares with want, or sets
 * it. */
static void answer(const char *way, gy_engine *e, gy_seq *s, item *it, int at, int vocab,
                   bool set) {
    float *logits = calloc((size_t)vocab, sizeof *logits);
    gy_err err = {0};
    gy_feed feed = {.seq = s, .ids = it->prompt + at, .n = it->n - at, .first_out = it->n - at - 1};
    assert_ok(gy_step(e, &feed, 1, logits, &err), err);
    for (int i = 0; i < it->n_want; i++) {
        int32_t id = best(logits, vocab);
        if (set) it->want[i] = id;
        if (id != it->want[i])
            fail_msg("%s, %s: token %d is %d, expected %d", it->id, way, i, id, it->want[i]);
        feed = (gy_feed){.seq = s, .ids = &id, .n = 1, .first_out = 0};
        assert_ok(gy_step(e, &feed, 1, logits, &err), err);
    }
    free(logits);
}

static gy_seq *new_seq(gy_engine *e) {
    gy_seq *s;
    gy_err err = {0};
    assert_ok(gy_seq_new(e, &s, &err), err);
    return s;
}

/* All prompts in one step, then one token of each per step, in the given order; some end early. */
static void together(const char *way, gy_engine *e, int vocab, bool backwards, bool early) {
    gy_seq *s[CASES];
    gy_feed feed[CASES];
    int at[CASES], of[CASES];
    int32_t id[CASES];
    float *logits = calloc((size_t)(CASES * vocab), sizeof *logits);
    gy_err err = {0};
    for (int i = 0; i < n_items; i++) {
        of[i] = backwards ? n_items - 1 - i : i;
        const item *it = items + of[i];
        s[i] = new_seq(e), at[i] = 0;
        feed[i] = (gy_feed){.seq = s[i], .ids = it->prompt, .n = it->n, .first_out = it->n - 1};
    }
    for (int n = n_items; n;) {
        assert_ok(gy_step(e, feed, n, logits, &err), err);
        int left = 0;
        for (int k = 0; k < n; k++) {
            int i = 0;
            while (s[i] != feed[k].seq) i++;
            const item *it = items + of[i];
            int32_t got = best(logits + (size_t)k * (size_t)vocab, vocab);
            if (got != it->want[at[i]])
                fail_msg("%s, %s: token %d is %d, expected %d", it->id, way, at[i], got,
                         it->want[at[i]]);
            id[i] = got;
            int end = early && i % 2 ? 3 + i : it->n_want;
            if (++at[i] < end && at[i] < it->n_want)
                feed[left++] = (gy_feed){.seq = s[i], .ids = id + i, .n = 1};
        }
        n = left;
    }
    for (int i = 0; i < n_items; i++) gy_seq_free(e, s[i]);
    free(logits);
}

static int common(const item *a, const item *b) {
    int n = 0;
    while (n < a->n && n < b->n - 1 && a->prompt[n] == b->prompt[n]) n++;
    return n;
}

/* Each case goes on from the case before: its sequence is forked after the prompt, and cut back to
 * what both share, or taken anew where a window has already dropped what that would need. */
static int reuse(gy_engine *e, int vocab) {
    int reused = 0;
    gy_seq *last = NULL;
    for (int i = 0; i < n_items; i++) {
        gy_seq *s = NULL;
        gy_err err = {0};
        int n = i ? common(items + i - 1, items + i) : 0;
        if (n) {
            assert_ok(gy_seq_fork(e, last, &s, &err), err);
            if (gy_seq_trim(e, s, n, &err)) gy_seq_free(e, s), s = NULL, n = 0;
        }
        if (s) assert_int_equal(gy_seq_len(s), n);
        reused += n;
        if (!s) s = new_seq(e);
        answer("prefix of the case before", e, s, items + i, n, vocab, false);
        gy_seq_free(e, last);
        last = s;
    }
    gy_seq_free(e, last);
    return reused;
}

static void every_way(gy_model *m, const char *kv, bool set) {
    int vocab = vocab_of(m);
    gy_engine *e = engine(m, kv, 0, 1);
    for (int i = 0; i < n_items; i++) {
        gy_seq *s = new_seq(e);
        answer("one step", e, s, items + i, 0, vocab, set);
        gy_seq_free(e, s);
    }
    for (int i = 0; i < n_items; i++) { /* an exact hit: all but the last position is kept */
        gy_seq *s = new_seq(e), *again;
        gy_err err = {0};
        gy_feed feed = {.seq = s, .ids = items[i].prompt, .n = items[i].n, .first_out = items[i].n};
        assert_ok(gy_step(e, &feed, 1, NULL, &err), err);
        assert_ok(gy_seq_fork(e, s, &again, &err), err);
        assert_ok(gy_seq_trim(e, again, items[i].n - 1, &err), err);
        answer("twice", e, again, items + i, items[i].n - 1, vocab, false);
        gy_seq_free(e, again);
        assert_ok(gy_seq_trim(e, s, items[i].n - 1, &err), err);
        answer("twice, the first", e, s, items + i, items[i].n - 1, vocab, false);
        gy_seq_free(e, s);
    }
    for (int i = 0; i < n_items; i++) { /* saved and restored, all but the last position */
        char file[] = "/tmp/gyre-ways-XXXXXX";
        int fd = mkstemp(file);
        gy_seq *s = new_seq(e), *again;
        gy_err err = {0};
        gy_feed feed = {
            .seq = s, .ids = items[i].prompt, .n = items[i].n - 1, .first_out = items[i].n - 1};
        assert_true(fd >= 0);
        assert_ok(gy_step(e, &feed, 1, NULL, &err), err);
        assert_ok(gy_seq_save(e, s, file, &err), err);
        gy_seq_free(e, s);
        assert_ok(gy_seq_load(e, file, &again, &err), err);
        answer("saved and restored", e, again, items + i, items[i].n - 1, vocab, false);
        gy_seq_free(e, again);
        close(fd), unlink(file);
    }
    together("one batch", e, vocab, false, false);
    together("one batch, backwards, some ending early", e, vocab, true, true);
    printf("%s: %d positions taken from the case before\n", kv, reuse(e, vocab));
    gy_engine_free(e);
    static const int chunks[] = {1, 3, 8, 9};
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        char way[32];
        snprintf(way, sizeof way, "chunks of %d", chunks[c]);
        e = engine(m, kv, chunks[c], 2);
        for (int i = 0; i < n_items; i++) {
            gy_seq *s = new_seq(e);
            answer(way, e, s, items + i, 0, vocab, false);
            gy_seq_free(e, s);
        }
        together(way, e, vocab, false, false);
        gy_engine_free(e);
    }
}

static void windows(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    gy_model *m;
    gy_err err = {0};
    SKIP_WITHOUT_SHARED("cases/kv/e2e.json");
    load_items(&doc);
    assert_ok(gy_model_open(shared_path("cases/models/swa8"), NULL, &m, &err), err);
    every_way(m, "f32", false);
    every_way(m, "f16", true);
    gy_model_unref(m);
    printf("kv/e2e: %d of %d\n", n_items, n_items);
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
