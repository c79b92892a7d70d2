/* What gyre.h promises of engines, sequences, steps and generation besides numbers: errors, limits,
 * cancelling, events. The model is a committed fixture with random weights. */
#include "base/mem.h"
#include "testlib.h"

enum { VOCAB = 320, PROMPT = 7 };
static const int32_t prompt[PROMPT] = {3, 100, 7, 42, 9, 250, 18};

static gy_model *model;

static int open_model(void **state) {
    gy_err err = {0};
    (void)state;
    return gy_model_open(data_path("models/llama"), NULL, &model, &err) ? -1 : 0;
}

static int close_model(void **state) {
    (void)state;
    gy_model_unref(model);
    return 0;
}

static gy_engine *engine(int context, int sequences, int chunk) {
    gy_engine_options o = {
        .threads = 1, .context = context, .sequences = sequences, .chunk = chunk};
    gy_engine *e = NULL;
    gy_err err = {0};
    assert_ok(gy_engine_new(model, &o, &e, &err), err);
    return e;
}

static gy_seq *sequence(gy_engine *e) {
    gy_seq *s = NULL;
    gy_err err = {0};
    assert_ok(gy_seq_new(e, &s, &err), err);
    return s;
}

static int best(const float *logits) {
    int b = 0;
    for (int i = 1; i < VOCAB; i++)
        if (logits[i] > logits[b]) b = i;
    return b;
}

/* Every wrong feed is GY_EARG or GY_ELIMIT, and no sequence is touched. */
static void wrong_feeds(void **state) {
    (void)state;
    gy_engine *e = engine(64, 1, 16);
    gy_seq *s = sequence(e), *other = sequence(e);
    const int32_t beyond[2] = {1, VOCAB}, negative[1] = {-1}, many[65] = {0};
    float logits[2 * VOCAB];
    const struct {
        const char *what;
        gy_feed feed[2];
        int n;
        float *logits;
        gy_rc rc;
    } cases[] = {
        {"no sequence", {{.ids = prompt, .n = 1}}, 1, logits, GY_EARG},
        {"id beyond", {{.seq = s, .ids = beyond, .n = 2, .first_out = 2}}, 1, logits, GY_EARG},
        {"negative id", {{.seq = s, .ids = negative, .n = 1}}, 1, logits, GY_EARG},
        {"negative n", {{.seq = s, .ids = prompt, .n = -1}}, 1, logits, GY_EARG},
        {"first_out", {{.seq = s, .ids = prompt, .n = 1, .first_out = 2}}, 1, logits, GY_EARG},
        {"no ids", {{.seq = s, .n = 1}}, 1, logits, GY_EARG},
        {"no room", {{.seq = s, .ids = prompt, .n = 1}}, 1, NULL, GY_EARG},
        {"twice", {{s, prompt, 1, 1, 0}, {s, prompt, 1, 1, 0}}, 2, logits, GY_EARG},
        {"second wrong", {{s, prompt, 1, 1, 0}, {other, beyond, 2, 2, 0}}, 2, logits, GY_EARG},
        {"context", {{.seq = s, .ids = many, .n = 65, .first_out = 65}}, 1, logits, GY_ELIMIT},
        {"count", {{0}}, -1, logits, GY_EARG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_err err = {.rc = GY_EIO, .msg = "old"};
        gy_rc rc = gy_step(e, cases[i].feed, cases[i].n, cases[i].logits, &err);
        if (rc != cases[i].rc || err.rc != rc || !strcmp(err.msg, "old"))
            fail_msg("%s: %s, %s", cases[i].what, gy_rc_name(rc), err.msg);
        if (gy_step(e, cases[i].feed, cases[i].n, cases[i].logits, NULL) != rc)
            fail_msg("%s: another code without err", cases[i].what);
        if (gy_seq_len(s) || gy_seq_len(other)) fail_msg("%s: a sequence grew", cases[i].what);
    }
    gy_err err = {0};
    assert_ok(gy_step(e, NULL, 0, NULL, &err), err);
    assert_ok(gy_step(e, &(gy_feed){s, prompt, PROMPT, PROMPT, 0}, 1, NULL, &err), err);
    assert_int_equal(gy_seq_len(s), PROMPT);
    assert_memory_equal(gy_seq_tokens(s), prompt, sizeof prompt);
    gy_seq_free(e, s), gy_seq_free(e, other), gy_seq_free(e, NULL);
    gy_engine_free(e);
}

/* KV memory for one full sequence: a second one runs into GY_ELIMIT, keeps what was finished, and
 * goes on when the first has gone. */
static void memory_limit(void **state) {
    (void)state;
    gy_engine *e = engine(128, 1, 64);
    gy_seq *a = sequence(e), *b = sequence(e);
    int32_t ids[128];
    gy_err err = {0};
    for (int i = 0; i < 128; i++) ids[i] = i;
    assert_ok(gy_step(e, &(gy_feed){a, ids, 64, 64, 0}, 1, NULL, &err), err);
    assert_int_equal(gy_step(e, &(gy_feed){b, ids, 128, 128, 0}, 1, NULL, &err), GY_ELIMIT);
    assert_int_equal(gy_seq_len(b), 64);
    gy_seq_free(e, a);
    assert_ok(gy_step(e, &(gy_feed){b, ids + 64, 64, 64, 0}, 1, NULL, &err), err);
    assert_int_equal(gy_seq_len(b), 128);
    assert_int_equal(gy_step(e, &(gy_feed){b, ids, 1, 1, 0}, 1, NULL, &err), GY_ELIMIT);
    assert_int_equal(gy_seq_trim(e, b, 129, &err), GY_EARG);
    assert_int_equal(gy_seq_trim(e, b, -1, &err), GY_EARG);
    assert_ok(gy_seq_trim(e, b, 100, &err), err);
    assert_int_equal(gy_seq_len(b), 100);
    gy_seq_free(e, b);
    gy_engine_free(e);
}

/* What gyre.h says that gy_seq_transition refuses, and that nothing has changed then. */
static void transitions(void **state) {
    (void)state;
    static const char *const more[6] = {"f16.bf16", "f16.f32", "bf16.f16",
                                        "bf16.f32", "f32.f16", "f32.bf16"};
    gy_engine *e = engine(256, 2, 64);
    gy_seq *s = sequence(e);
    int32_t ids[200];
    gy_err err = {0};
    for (int i = 0; i < 200; i++) ids[i] = i;
    assert_ok(gy_step(e, &(gy_feed){s, ids, 150, 150, 2}, 1, NULL, &err), err);
    assert_int_equal(gy_seq_transition(e, s, "f16", 0, &err), GY_EARG); /* drafts wait */
    assert_non_null(strstr(err.msg, "settled"));
    assert_ok(gy_seq_settle(e, s, 1, &err), err);
    /* The codecs that it has: as if nobody had asked, so that it may go back anywhere. */
    assert_ok(gy_seq_transition(e, s, "f16", 0, &err), err);
    assert_ok(gy_seq_transition(e, s, "f16", 64, &err), err);
    assert_ok(gy_seq_trim(e, s, 140, &err), err);
    assert_int_equal(gy_seq_transition(e, s, "f16", 63, &err), GY_EARG);
    assert_int_equal(gy_seq_transition(e, s, "f17", 0, &err), GY_EARG);
    assert_int_equal(gy_seq_transition(e, s, "q4.128", 0, &err), GY_EUNSUPPORTED); /* of 16 */
    assert_ok(gy_seq_trim(e, s, 139, &err), err);
    assert_ok(gy_seq_transition(e, s, "bf16", 64, &err), err);
    assert_int_equal(gy_seq_trim(e, s, 130, &err), GY_ELIMIT);
    assert_ok(gy_step(e, &(gy_feed){s, ids, 20, 20, 0}, 1, NULL, &err), err);
    assert_ok(gy_seq_transition(e, s, "bf16", 64, &err), err);
    assert_ok(gy_seq_transition(e, s, "bf16", 128, &err), err);
    assert_ok(gy_seq_trim(e, s, 139, &err), err); /* as before these two */
    assert_int_equal(gy_seq_transition(e, s, "f32", 128, &err), GY_EUNSUPPORTED);
    assert_int_equal(gy_seq_len(s), 139);
    assert_ok(gy_seq_transition(e, s, "bf16", 0, &err), err); /* the first page too: no border */
    assert_ok(gy_seq_transition(e, s, "bf16", 128, &err), err);
    for (int i = 0; i < 6; i++) { /* after f16, bf16 and f32 */
        gy_rc rc = gy_seq_transition(e, s, more[i], 0, &err);
        if (rc != (i < 5 ? GY_OK : GY_ELIMIT)) fail_msg("%s: %s", more[i], gy_rc_name(rc));
    }
    assert_int_equal(gy_seq_len(s), 139);
    gy_seq_free(e, s);
    gy_engine_free(e);
}

/* A recurrent model that went back among its tokens must first compute them again. */
static void transition_waits(void **state) {
    (void)state;
    gy_engine_options o = {.threads = 1, .context = 256, .chunk = 64};
    gy_model *m;
    gy_engine *e;
    int32_t ids[80];
    gy_err err = {0};
    for (int i = 0; i < 80; i++) ids[i] = i;
    assert_ok(gy_model_open(data_path("models/qwen3_5"), &(gy_model_options){.no_tokenizer = true},
                            &m, &err),
              err);
    assert_ok(gy_engine_new(m, &o, &e, &err), err);
    gy_seq *s = sequence(e);
    assert_ok(gy_step(e, &(gy_feed){s, ids, 80, 80, 0}, 1, NULL, &err), err);
    assert_ok(gy_seq_trim(e, s, 70, &err), err);
    assert_int_equal(gy_seq_transition(e, s, "q8", 0, &err), GY_EARG);
    assert_non_null(strstr(err.msg, "fed again"));
    assert_int_equal(gy_seq_len(s), 70);
    assert_ok(gy_step(e, &(gy_feed){s, ids, 1, 1, 0}, 1, NULL, &err), err);
    assert_ok(gy_seq_transition(e, s, "q8", 0, &err), err);
    gy_seq_free(e, s);
    gy_engine_free(e);
    gy_model_unref(m);
}

typedef struct {
    gy_engine *e;
    int prefill, token, end, stop_after, cancel_after;
    int32_t id[64];
    char text[256];
    gy_end why;
} seen;

static bool on_event(void *arg, const gy_event *ev) {
    seen *s = arg;
    assert_int_equal(s->end, 0); /* nothing follows the end */
    strncat(s->text, ev->text ? ev->text : "", ev->bytes);
    if (ev->kind == GY_EV_PREFILL) {
        assert_int_equal(s->token, 0);
        assert_true(ev->done > 0 && ev->done <= ev->total && ev->total == PROMPT);
        s->prefill++;
    } else if (ev->kind == GY_EV_TOKEN) {
        assert_int_equal(ev->pos, PROMPT + s->token);
        assert_true(ev->logprob <= 0);
        if (s->token < 64) s->id[s->token] = ev->id;
        s->token++;
    } else {
        s->end++, s->why = ev->end;
    }
    if (s->cancel_after && s->token == s->cancel_after) gy_cancel(s->e);
    return !s->stop_after || s->token < s->stop_after;
}

static gy_rc generate(gy_engine *e, gy_request r, seen *s, gy_result *result, gy_err *err) {
    gy_seq *q = sequence(e);
    r.ids = prompt, r.n = PROMPT;
    s->e = e;
    gy_rc rc = gy_generate(e, q, &r, on_event, s, result, err);
    /* What was sampled last is not in the sequence. */
    assert_int_equal(gy_seq_len(q), result->prompt_tokens + (s->token ? s->token - 1 : 0));
    gy_seq_free(e, q);
    return rc;
}

static void greedy(void **state) {
    (void)state;
    gy_engine *e = engine(64, 1, 3);
    seen s = {0}, other = {0};
    gy_result result;
    gy_err err = {0};
    assert_ok(generate(e, (gy_request){.max_tokens = 8, .ignore_eos = true}, &s, &result, &err),
              err);
    assert_true(s.prefill == 3 && s.token == 8 && s.end == 1 && s.why == GY_END_LENGTH);
    assert_true(result.prompt_tokens == PROMPT && result.tokens == 8 &&
                result.end == GY_END_LENGTH);
    gy_seq *q = sequence(e);
    float logits[VOCAB];
    gy_feed feed = {q, prompt, PROMPT, PROMPT - 1, 0};
    for (int i = 0; i < 8; i++) {
        assert_ok(gy_step(e, &feed, 1, logits, &err), err);
        assert_int_equal(best(logits), s.id[i]);
        feed = (gy_feed){q, s.id + i, 1, 0, 0};
    }
    gy_seq_free(e, q);
    /* Until the context is full: 57 tokens are held, and one more can be sampled. */
    assert_ok(generate(e, (gy_request){.ignore_eos = true}, &other, &result, &err), err);
    assert_true(other.token == 64 - PROMPT + 1 && other.why == GY_END_LENGTH);
    assert_memory_equal(other.id, s.id, 8 * sizeof *s.id);
    gy_engine_free(e);
}

/* Text that ends an answer, and a callback or a signal that does. */
static void endings(void **state) {
    (void)state;
    gy_engine *e = engine(64, 1, 16);
    seen all = {0};
    gy_result result;
    gy_err err = {0};
    gy_request plain = {.max_tokens = 12, .ignore_eos = true};
    assert_ok(generate(e, plain, &all, &result, &err), err);

    seen halt = {.stop_after = 2};
    assert_ok(generate(e, plain, &halt, &result, &err), err);
    assert_true(halt.token == 2 && halt.end == 1 && halt.why == GY_END_CANCEL);
    assert_int_equal(result.end, GY_END_CANCEL);

    seen cancelled = {.cancel_after = 3};
    assert_int_equal(generate(e, plain, &cancelled, &result, &err), GY_ECANCEL);
    assert_true(cancelled.token == 3 && cancelled.end == 1 && cancelled.why == GY_END_CANCEL);
    assert_true(result.tokens == 3 && result.end == GY_END_CANCEL);
    gy_cancel(e); /* before it begins: the next one, once */
    seen none = {0}, again = {0};
    assert_int_equal(generate(e, plain, &none, &result, &err), GY_ECANCEL);
    assert_true(!none.token && none.end == 1);
    assert_ok(generate(e, plain, &again, &result, &err), err);
    assert_memory_equal(again.id, all.id, 12 * sizeof *all.id);

    /* A character from within the answer ends it; nothing of it is shown. */
    char stop[8] = {0};
    size_t skip = 2, n = 1;
    while (((unsigned char)all.text[skip] & 0xC0) == 0x80) skip++;
    while (((unsigned char)all.text[skip + n] & 0xC0) == 0x80) n++;
    memcpy(stop, all.text + skip, n);
    const char *const words[] = {"zzzzzz", stop};
    gy_request r = plain;
    r.stop = words, r.n_stop = 2;
    seen cut = {0};
    const char *first = strstr(all.text, stop);
    assert_non_null(first);
    assert_ok(generate(e, r, &cut, &result, &err), err);
    if (cut.why != GY_END_STRING || strlen(cut.text) != (size_t)(first - all.text) ||
        memcmp(cut.text, all.text, strlen(cut.text)))
        fail_msg("stop \"%s\" in \"%s\" gave \"%s\"", stop, all.text, cut.text);
    gy_engine_free(e);
}

static void wrong_requests(void **state) {
    (void)state;
    gy_engine *e = engine(64, 1, 16);
    gy_seq *q = sequence(e);
    /* Wrong ones in the last of three chunks. */
    const int32_t many[65] = {0}, beyond[1] = {VOCAB}, late[40] = {[39] = VOCAB},
                  negative[40] = {[35] = -1};
    const struct {
        const char *what;
        gy_request r;
        gy_rc rc;
    } cases[] = {
        {"empty", {.ids = prompt}, GY_EARG},
        {"max_tokens", {.ids = prompt, .n = 1, .max_tokens = -1}, GY_EARG},
        {"top_logprobs", {.ids = prompt, .n = 1, .top_logprobs = 21}, GY_EARG},
        {"stop", {.ids = prompt, .n = 1, .n_stop = -1}, GY_EARG},
        {"temperature", {.ids = prompt, .n = 1, .sampling.min_p = 7}, GY_EARG},
        {"id", {.ids = beyond, .n = 1}, GY_EARG},
        {"last id", {.ids = late, .n = 40}, GY_EARG},
        {"negative id", {.ids = negative, .n = 40}, GY_EARG},
        {"context", {.ids = many, .n = 65}, GY_ELIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        seen s = {0};
        gy_err err = {0};
        gy_result result;
        gy_rc rc = gy_generate(e, q, &cases[i].r, on_event, &s, &result, &err);
        if (rc != cases[i].rc || !err.msg[0])
            fail_msg("%s: %s, %s", cases[i].what, gy_rc_name(rc), err.msg);
        if (s.prefill || s.token || s.end || gy_seq_len(q)) fail_msg("%s: it began", cases[i].what);
        assert_int_equal(gy_generate(e, q, &cases[i].r, NULL, NULL, NULL, NULL), rc);
    }
    gy_seq_free(e, q);
    gy_engine_free(e);
}

/* Whichever allocation fails: GY_ENOMEM, nothing leaked (the sanitizer build watches), and what did
 * not fail gives the same tokens. */
static void memory_runs_out(void **state) {
    (void)state;
    seen want = {0};
    gy_result result;
    gy_err err = {0};
    gy_request r = {.max_tokens = 3, .ignore_eos = true, .sampling.dry_multiplier = 1};
    gy_engine *e = engine(64, 1, 16);
    assert_ok(generate(e, r, &want, &result, &err), err);
    gy_engine_free(e);
    for (long nth = 1;; nth++) {
        gy_engine_options o = {.threads = 2, .context = 64, .chunk = 16};
        gy_seq *q = NULL;
        seen got = {0};
        r.ids = prompt, r.n = PROMPT;
        err = (gy_err){0}, e = NULL, got.e = NULL;
        long before = gy_alloc_count();
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_engine_new(model, &o, &e, &err);
        if (!rc) rc = gy_seq_new(e, &q, &err);
        if (!rc) rc = gy_generate(e, q, &r, on_event, &got, NULL, &err);
        gy_alloc_fail_at(0);
        bool failed = gy_alloc_count() - before >= nth;
        if (e) gy_seq_free(e, q);
        gy_engine_free(e);
        if (rc && (rc != GY_ENOMEM || err.rc != rc))
            fail_msg("allocation %ld: %s, \"%s\"", nth, gy_rc_name(rc), err.msg);
        if (!rc && memcmp(got.id, want.id, 3 * sizeof *want.id))
            fail_msg("allocation %ld: other tokens", nth);
        if (!failed) break;
        if (nth > 100000) fail_msg("allocation never stops failing");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_feeds),    cmocka_unit_test(memory_limit),
        cmocka_unit_test(greedy),         cmocka_unit_test(endings),
        cmocka_unit_test(wrong_requests), cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(transitions),    cmocka_unit_test(transition_waits),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
