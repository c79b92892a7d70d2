/* What outlives a sequence changes nothing but time: logits after a shared prefix was adopted, and
 * after a session was saved, its process killed and the file loaded by another, are those of a
 * sequence that was never interrupted, bit for bit. Every model of tests/data/models and, where it
 * is there, one with windows of 8 of ../shared/cases; every KV codec the engine takes. */
#include "testlib.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fmap.h"
#include "base/mem.h"
#include "kv/snap.h"
#include "run/persist.h"

enum { LEN = 230, CONTEXT = 256 };
static char dir[64];
static const char *const own[] = {"gemma3", "llama",      "llama-dynamic",
                                  "olmo2",  "phi3-plain", "starcoder2"};
static const char *const codecs[] = {"f16", "f32", "bf16", "f32.f16", "q8.32", "q4.32", "turbo"};
static const char *const shared[] = {"cases/models/swa8", "fixtures/models/qwen3",
                                     "fixtures/models/llama-8bit"};
static const char *const recurrent[] = {"fixtures/models/qwen3_5"};
enum { STATES = sizeof recurrent / sizeof *recurrent };
enum { SHARED = sizeof shared / sizeof *shared };
enum { OWN = sizeof own / sizeof *own, PLAIN = 4, CODECS = sizeof codecs / sizeof *codecs };

static gy_model *open_model(const char *path) {
    gy_model *m;
    gy_err err = {0};
    assert_ok(gy_model_open(path, &(gy_model_options){.no_tokenizer = true}, &m, &err), err);
    return m;
}

static gy_engine_options options(const char *kv) {
    return (gy_engine_options){
        .threads = 1, .kv = kv, .context = CONTEXT, .sequences = 4, .chunk = 50};
}

/* NULL when the engine does not take this KV codec, which plain ones may not be. */
static gy_engine *engine(gy_model *m, gy_engine_options o) {
    gy_engine *e;
    gy_err err = {0};
    gy_rc rc = gy_engine_new(m, &o, &e, &err);
    if (!rc) return e;
    bool plain = false;
    for (int i = 0; i < PLAIN; i++) plain |= !strcmp(o.kv, codecs[i]);
    if (plain || (rc != GY_EUNSUPPORTED && rc != GY_EARG)) fail_msg("%s: %s", o.kv, err.msg);
    return NULL;
}

static int vocab_of(gy_model *m) {
    gy_model_info info;
    gy_model_get_info(m, &info);
    return info.vocab;
}

static void tokens(int vocab, int seed, int32_t ids[LEN]) {
    uint64_t s = 1000 + (uint64_t)seed;
    for (int i = 0; i < LEN; i++) ids[i] = (int32_t)(test_rand(&s) % (unsigned)vocab);
}

static gy_seq *new_seq(gy_engine *e) {
    gy_seq *s;
    gy_err err = {0};
    assert_ok(gy_seq_new(e, &s, &err), err);
    return s;
}

static void feed(gy_engine *e, gy_seq *s, const int32_t *ids, int n, float *logits) {
    gy_err err = {0};
    gy_feed f = {.seq = s, .ids = ids, .n = n, .first_out = logits ? 0 : n};
    assert_ok(gy_step(e, &f, 1, logits, &err), err);
}

/* Logits of all positions, in one go. */
static float *cold(gy_engine *e, const int32_t ids[LEN], int vocab) {
    float *logits = malloc((size_t)LEN * (size_t)vocab * sizeof(float));
    gy_seq *s = new_seq(e);
    assert_non_null(logits);
    feed(e, s, ids, LEN, logits);
    gy_seq_free(e, s);
    return logits;
}

/* Goes on with the rest of ids and compares every logit. */
static void go_on(gy_engine *e, gy_seq *s, const int32_t ids[LEN], const float *want, int vocab,
                  const char *what) {
    int at = gy_seq_len(s), rest = LEN - at;
    size_t bytes = (size_t)rest * (size_t)vocab * sizeof(float);
    float *got = malloc(bytes + 1);
    assert_non_null(got);
    assert_memory_equal(gy_seq_tokens(s), ids, (size_t)at * 4);
    feed(e, s, ids + at, rest, got);
    if (memcmp(got, want + (size_t)at * (size_t)vocab, bytes))
        fail_msg("%s: logits after %d positions differ", what, at);
    free(got);
}

/* ---- Prefixes ---- */

static int prefixes(const char *path, const char *kv) {
    gy_model *m = open_model(path);
    gy_engine_options o = options(kv);
    gy_engine *plain = engine(m, o);
    if (!plain) return gy_model_unref(m), 0;
    o.prefix_bytes = 1 << 30;
    gy_engine *e = engine(m, o);
    int vocab = vocab_of(m), checks = 0;
    int32_t a[LEN], b[LEN];
    tokens(vocab, 1, a), tokens(vocab, 2, b);
    memcpy(b, a, 150 * 4); /* two pages in common */
    float *want_a = cold(plain, a, vocab), *want_b = cold(plain, b, vocab);
    gy_seq *s = new_seq(e);
    assert_int_equal(gy_engine_adopt(e, NULL, s, a, LEN), 0);
    for (int at = 0; at < LEN; at += 50) { /* as gy_generate does */
        feed(e, s, a + at, LEN - at < 50 ? LEN - at : 50, NULL);
        gy_engine_offer(e, NULL, s);
    }
    for (int n = 1; n <= LEN; n += n < 60 ? 59 : n % 64 == 0 || n % 64 == 63 ? 1 : 62) {
        gy_seq *t = new_seq(e);
        int held = gy_engine_adopt(e, NULL, t, a, n);
        if (held > n - 1 || held % 64 || (n > 192 && held < 128))
            fail_msg("%s %s: %d of %d positions adopted", path, kv, held, n);
        assert_int_equal(gy_seq_len(t), held);
        go_on(e, t, a, want_a, vocab, path), checks++;
        gy_seq_free(e, t);
    }
    gy_seq *t = new_seq(e), *u = new_seq(e), *other = new_seq(e);
    int held = gy_engine_adopt(e, NULL, t, b, LEN);
    assert_true(held == 128);
    assert_int_equal(gy_engine_adopt(e, "salt", other, a, LEN), 0);
    go_on(e, t, b, want_b, vocab, path), checks++;
    gy_engine_offer(e, NULL, t);
    assert_true(gy_engine_adopt(e, NULL, u, a, LEN) >= 128); /* a's pages are as they were */
    go_on(e, u, a, want_a, vocab, path), checks++;
    gy_seq_free(e, s), gy_seq_free(e, t), gy_seq_free(e, u), gy_seq_free(e, other);
    free(want_a), free(want_b);
    gy_engine_free(e), gy_engine_free(plain), gy_model_unref(m);
    return checks;
}

static void test_prefixes(void **state) {
    (void)state;
    int checks = 0, by[CODECS] = {0};
    for (int i = 0; i < OWN; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", data_path("models"), own[i]);
        for (int k = 0; k < CODECS; k++) {
            int n = prefixes(path, codecs[k]);
            checks += n, by[k] += n;
        }
    }
    for (int i = 0; i < SHARED; i++)
        for (int k = 0; k < CODECS && have_shared(shared[i]); k++)
            by[k] += prefixes(shared_path(shared[i]), codecs[k]);
    for (int i = 0; i < STATES && have_shared(recurrent[i]); i++)
        for (int k = 0; k < CODECS; k += 3) by[k] += prefixes(shared_path(recurrent[i]), codecs[k]);
    for (int k = 0; k < CODECS; k++) printf("prefixes: %s %d\n", codecs[k], by[k]);
    printf("prefixes: %d continuations of the own models, all equal\n", checks);
    assert_true(checks >= OWN * PLAIN * 7);
}

/* ---- Requests ---- */

typedef struct {
    int32_t id[32];
    float logprob[32];
    int n, first_done;
} answer;

static bool on_event(void *arg, const gy_event *ev) {
    answer *a = arg;
    if (ev->kind == GY_EV_PREFILL && !a->first_done) a->first_done = ev->done;
    if (ev->kind == GY_EV_TOKEN) a->id[a->n] = ev->id, a->logprob[a->n++] = ev->logprob;
    return true;
}

static int ask(gy_engine *e, const gy_request *r, answer *a) {
    gy_result result;
    gy_err err = {0};
    gy_seq *s = new_seq(e);
    memset(a, 0, sizeof *a);
    assert_ok(gy_generate(e, s, r, on_event, a, &result, &err), err);
    assert_int_equal(result.prompt_tokens, r->n);
    assert_int_equal(gy_seq_len(s), r->n + a->n - 1);
    assert_true(a->first_done > result.cached_tokens);
    gy_seq_free(e, s);
    return result.cached_tokens;
}

/* A window of 16: where chunks are wider than the window and a page, fewer borders of pages can be
 * resumed at, and none gives other tokens. */
static void test_wide_chunks(void **state) {
    (void)state;
    static const int chunk[2] = {80, 200}, asked[5] = {65, 129, 150, 193, 230},
                     held[2][5] = {{64, 128, 128, 192, 192}, {0, 128, 128, 192, 192}};
    char path[1200];
    int32_t ids[LEN];
    snprintf(path, sizeof path, "%s/%s", data_path("models"), own[0]);
    gy_model *m = open_model(path);
    gy_engine_options o = options("f16");
    gy_engine *plain = engine(m, o);
    o.prefix_bytes = 1 << 30;
    tokens(vocab_of(m), 5, ids);
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < 5; k++) {
            answer want, got;
            o.chunk = chunk[c];
            gy_engine *e = engine(m, o);
            gy_request r = {.ids = ids, .n = LEN, .max_tokens = 5, .ignore_eos = true};
            assert_int_equal(ask(e, &r, &got), 0);
            r.n = asked[k];
            ask(plain, &r, &want);
            assert_int_equal(ask(e, &r, &got), held[c][k]);
            assert_int_equal(got.n, 5);
            assert_memory_equal(want.id, got.id, sizeof want.id);
            assert_memory_equal(want.logprob, got.logprob, sizeof want.logprob);
            gy_engine_free(e);
        }
    gy_engine_free(plain), gy_model_unref(m);
}

static void test_requests(void **state) {
    (void)state;
    for (int i = 0; i < OWN; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", data_path("models"), own[i]);
        gy_model *m = open_model(path);
        gy_engine_options o = options("f16");
        gy_engine *plain = engine(m, o);
        o.prefix_bytes = 1 << 30;
        gy_engine *e = engine(m, o);
        int32_t ids[LEN];
        answer want, got;
        tokens(vocab_of(m), 3, ids);
        gy_request r = {.ids = ids, .n = 200, .max_tokens = 20, .ignore_eos = true};
        r.sampling.temperature = 1, r.sampling.seed = 5;
        assert_int_equal(ask(plain, &r, &want), 0);
        assert_int_equal(want.n, 20);
        assert_int_equal(ask(e, &r, &got), 0);
        assert_memory_equal(&want, &got, sizeof got);
        int held = ask(e, &r, &got);
        if (held != 192) fail_msg("%s: %d positions found, expected 192", own[i], held);
        assert_memory_equal(want.id, got.id, sizeof got.id);
        assert_memory_equal(want.logprob, got.logprob, sizeof got.logprob);
        r.no_prefix = true;
        assert_int_equal(ask(e, &r, &got), 0);
        r.no_prefix = false, r.prefix_salt = "another client";
        assert_int_equal(ask(e, &r, &got), 0);
        assert_int_equal(ask(e, &r, &got), 192);
        gy_engine_info info;
        gy_engine_get_info(e, &info);
        assert_true(info.prefix_bytes > 0 && info.prefix_bytes <= o.prefix_bytes);
        gy_engine_free(e), gy_engine_free(plain), gy_model_unref(m);
    }
}

/* ---- A folder of prefixes ---- */

/* Writes by a flush, or (idle) page by page as between requests; a killed process had no more. */
static int child_write(char **argv, bool idle) {
    gy_model *m = open_model(argv[0]);
    gy_engine_options o = options(argv[1]);
    o.prefix_bytes = 1 << 28, o.prefix_dir = argv[2];
    gy_engine *e = engine(m, o);
    int32_t ids[LEN];
    answer got;
    gy_err err = {0};
    tokens(vocab_of(m), 3, ids);
    gy_request r = {.ids = ids, .n = 200, .max_tokens = 20, .ignore_eos = true};
    if (ask(e, &r, &got)) return 1;
    for (int left = 1, last = 1000; idle && left; last = left)
        if (gy_engine_idle(e, 1, &left, &err) || left >= last) return 1;
    if (!idle && gy_engine_flush(e, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
    raise(SIGKILL);
    return 1;
}

static void killed_child(const char *what, const char *model, const char *kv, const char *file,
                         int n);

/* A killed process leaves its prefixes to the next one; another model or codec finds nothing. */
static void test_folder(void **state) {
    (void)state;
    int found = 0;
    for (int i = 0; i < OWN; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", data_path("models"), own[i]);
        for (int k = 0; k < 2; k++) {
            gy_model *m = open_model(path);
            gy_engine_options o = options(k ? "q8.32" : "f16");
            gy_engine *plain = engine(m, o);
            o.prefix_bytes = 1 << 28, o.prefix_dir = dir;
            gy_engine *before = engine(m, o);
            int32_t ids[LEN];
            answer want, got;
            tokens(vocab_of(m), 3, ids);
            gy_request r = {.ids = ids, .n = 200, .max_tokens = 20, .ignore_eos = true};
            assert_int_equal(ask(plain, &r, &want), 0);
            assert_int_equal(ask(before, &r, &got), 0); /* others' pages lie there by now */
            killed_child(k ? "--idle" : "--flush", path, o.kv, dir, 0);
            gy_engine *e = engine(m, o);
            int held = ask(e, &r, &got);
            if (held != 192) fail_msg("%s %s: %d positions found", own[i], o.kv, held);
            assert_memory_equal(want.id, got.id, sizeof got.id);
            assert_memory_equal(want.logprob, got.logprob, sizeof got.logprob);
            found++;
            gy_engine_free(e), gy_engine_free(plain), gy_engine_free(before), gy_model_unref(m);
        }
    }
    gy_model *m = open_model(data_path("models/llama"));
    gy_engine_options o = options("f16");
    gy_engine *e;
    gy_err err = {0};
    o.prefix_dir = dir;
    assert_int_equal(gy_engine_new(m, &o, &e, &err), GY_EARG);
    o.prefix_dir = NULL;
    e = engine(m, o);
    int left = -1;
    assert_int_equal(gy_engine_idle(e, 0, &left, &err), GY_EARG);
    assert_int_equal(left, -1);
    assert_ok(gy_engine_idle(e, 1, &left, (err = (gy_err){0}, &err)), err);
    assert_int_equal(left, 0);
    gy_engine_free(e);
    o.prefix_bytes = 1000, o.prefix_dir = "/nonexistent/folder/x";
    assert_int_equal(gy_engine_new(m, &o, &e, &err), GY_EIO);
    assert_non_null(strstr(err.msg, o.prefix_dir));
    gy_model_unref(m);
    printf("folder: %d restarts found their prefix\n", found);
}

/* ---- Sessions ---- */

/* The child: computes the first n positions, saves, and is killed. */
static int child_save(char **argv) {
    gy_model *m = open_model(argv[0]);
    gy_engine *e = engine(m, options(argv[1]));
    int32_t ids[LEN];
    gy_err err = {0};
    tokens(vocab_of(m), 4, ids);
    gy_seq *s = new_seq(e);
    feed(e, s, ids, atoi(argv[3]), NULL);
    if (gy_seq_save(e, s, argv[2], &err)) return fprintf(stderr, "%s\n", err.msg), 1;
    raise(SIGKILL);
    return 1;
}

static void killed_child(const char *what, const char *model, const char *kv, const char *file,
                         int n) {
    char number[16];
    int status;
    snprintf(number, sizeof number, "%d", n);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        execl("/proc/self/exe", "persist", what, model, kv, file, number, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s %s %s %d: the child ended with %d", what, model, kv, n, status);
}

static void same_files(const char *a, const char *b) {
    char *x, *y;
    size_t nx, ny;
    gy_err err = {0};
    assert_ok(gy_file_read(a, 1 << 28, &x, &nx, &err), err);
    assert_ok(gy_file_read(b, 1 << 28, &y, &ny, &err), err);
    if (nx != ny || memcmp(x, y, nx)) fail_msg("%s and %s differ", a, b);
    gy_free(x), gy_free(y);
}

static int sessions(const char *path, const char *kv, bool far) {
    static const int lengths[] = {0, 1, 63, 64, 65, 100, 128, 200, LEN - 1};
    gy_model *m = open_model(path);
    gy_engine *e = engine(m, options(kv));
    int vocab = vocab_of(m), checks = 0;
    int32_t ids[LEN];
    char file[200], again[200];
    gy_err err = {0};
    if (!e) return gy_model_unref(m), 0;
    snprintf(file, sizeof file, "%s/session", dir), snprintf(again, sizeof again, "%s/again", dir);
    tokens(vocab, 4, ids);
    float *want = cold(e, ids, vocab);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        gy_seq *s;
        killed_child("--save", path, kv, file, lengths[i]);
        assert_ok(gy_seq_load(e, file, &s, &err), err);
        assert_int_equal(gy_seq_len(s), lengths[i]);
        assert_ok(gy_seq_save(e, s, again, &err), err);
        same_files(file, again);
        if (lengths[i] > 70) { /* going back is as legal as it was, and as right */
            gy_seq *back;
            assert_ok(gy_seq_fork(e, s, &back, &err), err);
            assert_ok(gy_seq_trim(e, back, lengths[i] - 60, &err), err);
            assert_ok(gy_seq_save(e, back, again, &err), err);
            go_on(e, back, ids, want, vocab, path), checks++;
            gy_seq_free(e, back);
            assert_ok(gy_seq_load(e, again, &back, &err), err);
            assert_int_equal(gy_seq_len(back), lengths[i] - 60);
            go_on(e, back, ids, want, vocab, path), checks++;
            gy_seq_free(e, back);
        }
        go_on(e, s, ids, want, vocab, path), checks++;
        gy_seq_free(e, s);
        if (!far) i++;
    }
    free(want);
    gy_engine_free(e), gy_model_unref(m);
    return checks;
}

static void test_sessions(void **state) {
    (void)state;
    int checks = 0;
    for (int i = 0; i < OWN; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s", data_path("models"), own[i]);
        for (int k = 0; k < CODECS; k++) checks += sessions(path, codecs[k], i == 0 || k == 0);
    }
    for (int i = 0; i < SHARED; i++)
        for (int k = 0; k < CODECS && have_shared(shared[i]); k++)
            checks += sessions(shared_path(shared[i]), codecs[k], false);
    int states = 0;
    for (int i = 0; i < STATES && have_shared(recurrent[i]); i++)
        for (int k = 0; k < CODECS; k += 4)
            states += sessions(shared_path(recurrent[i]), codecs[k], true);
    printf("sessions: %d continuations of recurrent models\n", states);
    printf("sessions: %d continuations after a killed process, all equal\n", checks);
    assert_true(checks >= OWN * PLAIN * 6);
}

static void refused(gy_engine *e, const char *file, gy_rc want, const char *word) {
    gy_err err = {0};
    gy_seq *s = (gy_seq *)dir;
    gy_rc rc = gy_seq_load(e, file, &s, &err);
    if (rc != want || !strstr(err.msg, word) || !strstr(err.msg, file) || (char *)s != dir)
        fail_msg("%s: %s '%s', expected %s and '%s'", file, gy_rc_name(rc), err.msg,
                 gy_rc_name(want), word);
    gy_engine_info info;
    gy_engine_get_info(e, &info);
}

static void copy_model(const char *from, const char *to) {
    char command[2600];
    snprintf(command, sizeof command, "cp -r %s %s", from, to);
    assert_int_equal(system(command), 0);
}

static void test_refusals(void **state) {
    (void)state;
    char file[100], text[100], moved[100], path[200];
    gy_err err = {0};
    int32_t ids[LEN];
    snprintf(file, sizeof file, "%s/a", dir), snprintf(text, sizeof text, "%s/text", dir);
    gy_model *m = open_model(data_path("models/llama")), *o = open_model(data_path("models/olmo2"));
    gy_engine_options opt = options("f16");
    gy_engine *e = engine(m, opt);
    tokens(vocab_of(m), 4, ids);
    gy_seq *s = new_seq(e), *t;
    feed(e, s, ids, 100, NULL);
    assert_ok(gy_seq_save(e, s, file, &err), err);
    gy_engine *other = engine(o, opt);
    refused(other, file, GY_EARG, "another model"), gy_engine_free(other);
    opt.kv = "bf16", other = engine(m, opt);
    refused(other, file, GY_EARG, "KV codec f16; the engine has bf16"), gy_engine_free(other);
    opt.kv = "f16", opt.arith = GY_ARITH_EXACT, other = engine(m, opt);
    refused(other, file, GY_EARG, "saved with fast arithmetic; the engine has exact"),
        gy_engine_free(other);
    opt.arith = GY_ARITH_DEFAULT, opt.context = 99, other = engine(m, opt);
    refused(other, file, GY_ELIMIT, "context of 99"), gy_engine_free(other);
    refused(e, text, GY_ENOTFOUND, "No such file");
    refused(e, data_path("models/llama/config.json"), GY_EFORMAT, "not a gyre page file");
    assert_int_equal(gy_seq_save(e, s, "/nonexistent/file", &err), GY_EIO);
    /* The KV memory is full: a message, and nothing is lost. */
    opt.context = 100, opt.sequences = 1, other = engine(m, opt);
    gy_seq *full = new_seq(other);
    feed(other, full, ids, 100, NULL);
    refused(other, file, GY_ELIMIT, "KV memory is full");
    gy_seq_free(other, full);
    assert_ok(gy_seq_load(other, file, &t, &err), err); /* no page was kept back */
    gy_seq_free(other, t), gy_engine_free(other);
    /* Damage in the last page. */
    int fd = open(file, O_RDWR);
    uint8_t byte;
    assert_true(fd >= 0);
    off_t at = lseek(fd, -64, SEEK_END);
    assert_int_equal(pread(fd, &byte, 1, at - 8000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at - 8000), 1);
    close(fd);
    refused(e, file, GY_EINTEGRITY, "damaged");
    /* What a killed process left of this file an hour ago goes when it is saved again. */
    char tmp[200];
    struct timespec hour[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    snprintf(tmp, sizeof tmp, "%s.12-3.tmp", file);
    fd = open(tmp, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, "half a page", 11) == 11 && !futimens(fd, hour));
    close(fd);
    assert_ok(gy_seq_save(e, s, file, &err), err);
    assert_int_equal(access(tmp, F_OK), -1);
    /* The same files elsewhere are the same model; one other weight is another. */
    snprintf(moved, sizeof moved, "%s/moved", dir);
    copy_model(data_path("models/llama"), moved);
    gy_model *c = open_model(moved);
    opt = options("f16"), other = engine(c, opt);
    assert_ok(gy_seq_load(other, file, &t, &err), err);
    gy_seq_free(other, t), gy_engine_free(other), gy_model_unref(c);
    snprintf(path, sizeof path, "%s/model.safetensors", moved);
    fd = open(path, O_RDWR);
    at = lseek(fd, -1, SEEK_END);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    c = open_model(moved), other = engine(c, opt);
    refused(other, file, GY_EARG, "another model");
    gy_engine_free(other), gy_model_unref(c);
    gy_seq_free(e, s), gy_engine_free(e), gy_model_unref(m), gy_model_unref(o);
}

/* A file says nothing of rows that were taken back, nor of who had a page before. */
static void test_nothing_else(void **state) {
    (void)state;
    char file[100], again[100];
    gy_err err = {0};
    int32_t ids[LEN], other[LEN];
    snprintf(file, sizeof file, "%s/a", dir), snprintf(again, sizeof again, "%s/b", dir);
    gy_model *m = open_model(data_path("models/llama"));
    for (int k = 0; k < CODECS; k++) {
        gy_engine *e = engine(m, options(codecs[k]));
        if (!e) continue;
        tokens(vocab_of(m), 4, ids), tokens(vocab_of(m), 5, other);
        gy_seq *s = new_seq(e);
        feed(e, s, ids, 70, NULL);
        assert_ok(gy_seq_save(e, s, file, &err), err);
        feed(e, s, other, 100, NULL); /* fills pages that the next sequence gets */
        gy_seq_free(e, s), s = new_seq(e);
        feed(e, s, ids, 120, NULL);
        assert_ok(gy_seq_trim(e, s, 70, &err), err);
        assert_ok(gy_seq_save(e, s, again, &err), err);
        same_files(file, again);
        gy_seq_free(e, s), gy_engine_free(e);
    }
    gy_model_unref(m);
}

/* Files whose checksums are right and whose contents are not. */
static void test_crafted(void **state) {
    (void)state;
    static const char *const words[] = {"is missing",     "has 64 bytes",   "has 64 bytes",
                                        "whole sequence", "whole sequence", "ids below",
                                        "context of"};
    char file[100], bad[100];
    gy_err err = {0};
    int32_t ids[LEN], tok[4096] = {0};
    snprintf(file, sizeof file, "%s/good", dir), snprintf(bad, sizeof bad, "%s/bad", dir);
    gy_model *m = open_model(data_path("models/gemma3"));
    gy_engine *e = engine(m, options("f16"));
    tokens(vocab_of(m), 4, ids);
    gy_seq *s = new_seq(e);
    feed(e, s, ids, 200, NULL);
    assert_ok(gy_seq_save(e, s, file, &err), err);
    for (int kind = 0; kind < 7; kind++) {
        gy_snap f;
        gy_snap_page page[16];
        void *data[16];
        assert_ok(gy_snap_open(&gy_io_system, file, &f, &err), err);
        gy_snap_head h = f.head;
        assert_true(h.n_pages <= 16 && h.n_pages > 4);
        memcpy(page, h.page, (size_t)h.n_pages * sizeof *page);
        memcpy(tok, h.tok, 200 * sizeof *tok);
        for (int i = 0; i < h.n_pages; i++) {
            data[i] = malloc(page[i].bytes);
            assert_non_null(data[i]);
            assert_ok(gy_snap_read(&f, i, data[i], &err), err);
        }
        h.page = page, h.tok = tok;
        int n = h.n_pages;
        switch (kind) {
        case 0: h.n_pages--; break;
        case 1: page[n - 1].bytes = 64; break;
        case 2: page[n - 1].group = 7, page[n - 1].bytes = 64; break;
        case 3: h.kind = GY_SNAP_PAGE; break;
        case 4: h.first = 64, h.n_pages = 0; break;
        case 5: tok[100] = vocab_of(m); break;
        default: h.n_tok = 4096;
        }
        assert_ok(gy_snap_write(&gy_io_system, bad, &h, (const void *const *)data, &err), err);
        refused(e, bad,
                kind < 3 || kind == 5 ? GY_EINTEGRITY
                : kind == 6           ? GY_ELIMIT
                                      : GY_EFORMAT,
                words[kind]);
        for (int i = 0; i < n; i++) free(data[i]);
        gy_snap_close(&f);
    }
    gy_seq_free(e, s), gy_engine_free(e), gy_model_unref(m);
}

/* Every allocation fails once: a message, no sequence, no page kept back, the file as it was. */
static void test_memory(void **state) {
    (void)state;
    char file[100], old[100];
    gy_err err = {0};
    int32_t ids[LEN];
    snprintf(file, sizeof file, "%s/a", dir), snprintf(old, sizeof old, "%s/old", dir);
    gy_model *m = open_model(data_path("models/gemma3"));
    gy_engine_options o = options("f16");
    gy_engine *e = engine(m, o);
    o.context = 200, o.sequences = 1;
    gy_engine *small = engine(m, o);
    tokens(vocab_of(m), 4, ids);
    gy_seq *s = new_seq(e), *t = NULL;
    feed(e, s, ids, 200, NULL);
    assert_ok(gy_seq_save(e, s, file, &err), err);
    assert_ok(gy_seq_save(e, s, old, &err), err);
    int failures = 0;
    for (int load = 0; load < 2; load++) {
        gy_rc rc = GY_ENOMEM;
        for (long n = 1; rc; n++) {
            gy_alloc_fail_at(n);
            rc = load ? gy_seq_load(small, file, &t, &err) : gy_seq_save(e, s, file, &err);
            gy_alloc_fail_at(0);
            if (rc && (rc != GY_ENOMEM || !err.msg[0] || t)) fail_msg("allocation %ld: %d", n, rc);
            failures += rc != GY_OK;
            same_files(file, old);
        }
    }
    assert_int_equal(gy_seq_len(t), 200);
    printf("memory: %d failed allocations\n", failures);
    assert_true(failures > 20);
    gy_seq_free(small, t), gy_seq_free(e, s);
    gy_engine_free(small), gy_engine_free(e), gy_model_unref(m);
}

static int setup(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/gyre-persist-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    char command[200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* A conversation is saved between two requests, and asked with another salt: it goes on as it
 * would have, and its prefix is still found. */
static void test_saved_between(void **state) {
    (void)state;
    char path[1200], file[128];
    gy_err err = {0};
    gy_result result;
    int32_t ids[LEN];
    snprintf(path, sizeof path, "%s/%s", data_path("models"), own[0]);
    snprintf(file, sizeof file, "%s/session.kv", dir);
    gy_model *m = open_model(path);
    gy_engine_options o = options("f16");
    gy_engine *plain = engine(m, o);
    o.prefix_bytes = 1 << 30;
    gy_engine *e = engine(m, o);
    answer want[3], got[3];
    tokens(vocab_of(m), 4, ids);
    for (int turn = 0; turn < 2; turn++) {
        gy_engine *on = turn ? e : plain;
        gy_seq *s = new_seq(on);
        for (int k = 0; k < 3; k++) {
            answer *a = turn ? &got[k] : &want[k];
            gy_request r = {.ids = ids + 70 * k, .n = 70, .max_tokens = 5, .ignore_eos = true};
            if (k == 2) r.prefix_salt = "other";
            memset(a, 0, sizeof *a);
            assert_ok(gy_generate(on, s, &r, on_event, a, NULL, &err), err);
            if (turn) assert_ok(gy_seq_save(on, s, file, &err), err);
        }
        gy_seq_free(on, s);
    }
    assert_memory_equal(want, got, sizeof got);
    gy_seq *t = new_seq(e);
    gy_request r = {.ids = ids, .n = 70, .max_tokens = 5, .ignore_eos = true};
    assert_ok(gy_generate(e, t, &r, NULL, NULL, &result, &err), err);
    assert_int_equal(result.cached_tokens, 64);
    assert_ok(gy_seq_trim(e, t, 0, &err), err);
    r.ids = NULL; /* looked at by the tree before the step refuses it */
    assert_int_equal(gy_generate(e, t, &r, NULL, NULL, NULL, NULL), GY_EARG);
    gy_seq_free(e, t);
    gy_engine_free(e), gy_engine_free(plain), gy_model_unref(m);
}

int main(int argc, char **argv) {
    if (argc == 6 && !strcmp(argv[1], "--save")) return child_save(argv + 2);
    if (argc == 6 && !strcmp(argv[1], "--flush")) return child_write(argv + 2, false);
    if (argc == 6 && !strcmp(argv[1], "--idle")) return child_write(argv + 2, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_wide_chunks),
        cmocka_unit_test_setup_teardown(test_saved_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sessions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crafted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
