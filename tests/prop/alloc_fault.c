/* Memory that runs out at any moment: one script of library calls is run again and again, the Nth
 * allocation failing, N = 1, 2, .. until no allocation is left to fail.
 *
 * The call in which it fails returns GY_ENOMEM with a message, or, where the contract says that a
 * failure is a miss (taking and leaving shared prefixes, sweeping their folder), it goes on. The
 * script then either makes the same call again and goes on: all logits and tokens must be those of
 * the script that was never disturbed, bit for bit; or it closes everything: the asan preset sees
 * what is left. */
#include <dirent.h>

#include "base/mem.h"
#include "testlib.h"

enum { LONG = 150, PROMPT = 140, ANSWER = 3, ROWS = 256, IDS = 512 };

/* Durable is not what is tested here, and takes most of the time. */
int fsync(int fd);
int fsync(int fd) {
    (void)fd;
    return 0;
}

typedef struct {
    const char *model, *kv, *other; /* other: what a sequence changes to */
} subject;
static const subject subjects[] = {
    {"llama", "f16", "q8.32"}, {"gemma3", "q4.32", "f32"}, {"qwen3_5", "q8", "turbo-k8v3"}};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

typedef struct {
    const subject *of;
    long nth, start; /* the allocation that fails, 0: none, counted from start */
    bool hit;        /* it has failed */
    bool leaves;     /* what the script does then: close all, or call again */
    bool left;       /* it closes */
    int misses, ooms;
    char dir[64], file[96];
    gy_model *m;
    gy_engine *e, *e2;
    gy_seq *a, *b, *c, *f, *l;
    int vocab, rows, tokens;
    float *logits; /* [ROWS][vocab] */
    int32_t ids[IDS], token[4 * ANSWER];
} script;

/* After a call that returned rc: true when it must be made again. */
static bool again(script *s, const char *call, bool may_miss, gy_rc rc, const gy_err *err) {
    bool now = !s->hit && s->nth && gy_alloc_count() - s->start >= s->nth;
    s->hit |= now;
    if (rc && (rc != GY_ENOMEM || !now || !err->msg[0]))
        fail_msg("%s, allocation %ld: %s: %s: \"%s\"", s->of->model, s->nth, call, gy_rc_name(rc),
                 err->msg);
    if (!rc && now && !may_miss)
        fail_msg("%s, allocation %ld: %s does not tell", s->of->model, s->nth, call);
    s->ooms += rc != GY_OK, s->misses += now && !rc;
    s->left = rc && s->leaves;
    return rc && !s->left;
}

#define CALL_OR(may_miss, call)                                                                    \
    do {                                                                                           \
        gy_err err = {0};                                                                          \
        if (s->left) break;                                                                        \
        if (!again(s, #call, may_miss, call, &err)) break;                                         \
    } while (1)
#define CALL(call)     CALL_OR(false, call)
#define MAY_MISS(call) CALL_OR(true, call)

static float *room(script *s, int rows) {
    s->rows += rows;
    assert_true(s->rows <= ROWS);
    return s->logits + (size_t)(s->rows - rows) * (size_t)s->vocab;
}

/* A step of one sequence that takes several chunks: what was finished stays. */
static void feed(script *s, gy_seq *q, int from, int n) {
    if (s->left) return;
    float *logits = room(s, n);
    int len = gy_seq_len(q), done = 0;
    do {
        gy_err err = {0};
        gy_feed f = {.seq = q, .ids = s->ids + from + done, .n = n - done};
        gy_rc rc = gy_step(s->e, &f, 1, logits + (size_t)done * (size_t)s->vocab, &err);
        done = gy_seq_len(q) - len;
        assert_true(done >= 0 && done <= n && (rc || done == n));
        if (!again(s, "gy_step", false, rc, &err)) return;
    } while (1);
}

/* A ragged step that fits one chunk: all of it, or nothing. */
static void crowd(script *s) {
    if (s->left) return;
    gy_feed f[] = {{.seq = s->a, .ids = s->ids + 200, .n = 3},
                   {.seq = s->b, .ids = s->ids + 210, .n = 40},
                   {.seq = s->c, .ids = s->ids + 260, .n = 5}};
    int len[3];
    float *logits = room(s, 48);
    for (int i = 0; i < 3; i++) len[i] = gy_seq_len(f[i].seq);
    gy_err err;
    gy_rc rc;
    do {
        err = (gy_err){0};
        rc = gy_step(s->e, f, 3, logits, &err);
        for (int i = 0; i < 3; i++)
            assert_int_equal(gy_seq_len(f[i].seq), len[i] + (rc ? 0 : f[i].n));
    } while (again(s, "gy_step of three", false, rc, &err));
}

static bool on_event(void *arg, const gy_event *ev) {
    script *s = arg;
    if (ev->kind == GY_EV_TOKEN) s->token[s->tokens++] = ev->id;
    return true;
}

/* A request on a new sequence; memory may also run out within, where tokens were given already. */
static gy_rc request(script *s, gy_engine *e, int *cached, gy_err *err) {
    gy_request r = {.ids = s->ids + 300, .n = PROMPT, .max_tokens = ANSWER, .ignore_eos = true};
    gy_result result = {0};
    int tokens = s->tokens;
    gy_seq *q;
    gy_rc rc = gy_seq_new(e, &q, err);
    if (rc) return rc;
    rc = gy_generate(e, q, &r, on_event, s, &result, err);
    if (rc) {
        s->tokens = tokens;
        assert_memory_equal(gy_seq_tokens(q), r.ids,
                            (size_t)(gy_seq_len(q) < r.n ? gy_seq_len(q) : r.n) * sizeof *r.ids);
    }
    *cached = result.cached_tokens;
    gy_seq_free(e, q);
    return rc;
}

/* What one request leaves the next one finds, unless memory ran out in either; what a flush said is
 * written is there, whatever happened in it. */
static void requests(script *s, gy_engine_options o) {
    int cached = 0;
    bool first = s->hit, second, flushed;
    MAY_MISS(request(s, s->e, &cached, &err));
    if (!s->left && first == s->hit) assert_int_equal(cached, 0);
    second = s->hit;
    MAY_MISS(request(s, s->e, &cached, &err));
    if (!s->left && first == s->hit && cached != 128)
        fail_msg("%s, allocation %ld: %d tokens adopted", s->of->model, s->nth, cached);
    second = second == s->hit;
    MAY_MISS(gy_engine_flush(s->e, &err));       /* sweeping is put off */
    CALL(gy_engine_new(s->m, &o, &s->e2, &err)); /* another process would do the same */
    flushed = s->hit;
    MAY_MISS(request(s, s->e2, &cached, &err));
    if (!s->left && second && flushed == s->hit && cached != 128)
        fail_msg("%s, allocation %ld: %d tokens read", s->of->model, s->nth, cached);
}

static void sequences(script *s) {
    CALL(gy_seq_new(s->e, &s->a, &err));
    CALL(gy_seq_new(s->e, &s->b, &err));
    CALL(gy_seq_new(s->e, &s->c, &err));
    feed(s, s->a, 0, LONG);
    crowd(s);
    CALL(gy_seq_fork(s->e, s->a, &s->f, &err));
    feed(s, s->f, 280, 4);
    if (!s->left) { /* a round of guessing */
        gy_feed f = {.seq = s->a, .ids = s->ids + 290, .n = 6, .first_out = 6, .drafts = 5};
        CALL(gy_step(s->e, &f, 1, NULL, &err));
        CALL(gy_seq_settle(s->e, s->a, 2, &err));
    }
    CALL(gy_seq_trim(s->e, s->c, 3, &err));
    feed(s, s->c, 265, 2);
    CALL(gy_seq_save(s->e, s->a, s->file, &err));
    CALL(gy_seq_load(s->e, s->file, &s->l, &err));
    feed(s, s->a, 270, 2);
    feed(s, s->l, 270, 2);
    if (!s->left)
        assert_memory_equal(s->logits + (size_t)(s->rows - 2) * (size_t)s->vocab,
                            s->logits + (size_t)(s->rows - 4) * (size_t)s->vocab,
                            2 * (size_t)s->vocab * sizeof *s->logits);
    CALL(gy_seq_transition(s->e, s->b, s->of->other, 0, &err));
    feed(s, s->b, 250, 6);
}

static void empty_folder(const char *path) {
    DIR *d = opendir(path);
    struct dirent *x;
    char name[400];
    while (d && (x = readdir(d))) {
        if (*x->d_name == '.' && (!x->d_name[1] || x->d_name[1] == '.')) continue;
        snprintf(name, sizeof name, "%s/%s", path, x->d_name);
        if (unlink(name)) empty_folder(name);
    }
    if (d) closedir(d), rmdir(path);
}

static void run(script *s) {
    gy_engine_options o = {.threads = 1,
                           .kv = s->of->kv,
                           .context = 256,
                           .sequences = 8,
                           .chunk = 64,
                           .prefix_bytes = 1 << 24,
                           .prefix_dir = s->dir};
    char path[1100];
    snprintf(path, sizeof path, "%s/%s", data_path("models"), s->of->model);
    strcpy(s->dir, "/tmp/gyre-alloc-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->file, sizeof s->file, "%s/saved.gyre", s->dir);
    s->start = gy_alloc_count();
    gy_alloc_fail_at(s->nth);
    gy_model_options mo = {.no_tokenizer = true};
    CALL(gy_model_open(path, &mo, &s->m, &err));
    if (!s->left) {
        gy_model_info info;
        gy_model_get_info(s->m, &info);
        s->vocab = info.vocab;
        uint64_t rng = 3;
        for (int i = 0; i < IDS; i++) s->ids[i] = (int32_t)(test_rand(&rng) % (unsigned)s->vocab);
        s->logits = calloc((size_t)ROWS * (size_t)s->vocab, sizeof *s->logits);
        assert_non_null(s->logits);
    }
    CALL(gy_engine_new(s->m, &o, &s->e, &err));
    sequences(s);
    requests(s, o);
    gy_seq *all[] = {s->a, s->b, s->c, s->f, s->l};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gy_seq_free(s->e, all[i]);
    gy_engine_free(s->e), gy_engine_free(s->e2);
    gy_model_unref(s->m);
    s->hit |= s->nth && gy_alloc_count() - s->start >= s->nth;
    gy_alloc_fail_at(0);
    empty_folder(s->dir);
}

static void every_allocation(void **state) {
    (void)state;
    for (int i = 0; i < SUBJECTS; i++) {
        script want = {.of = &subjects[i]};
        int ooms = 0, misses = 0;
        long n = 1;
        run(&want);
        for (;; n++) {
            script got = {.of = &subjects[i], .nth = n}, gone = {.of = &subjects[i], .nth = n};
            gone.leaves = true;
            run(&got);
            if (got.rows != want.rows || got.tokens != want.tokens ||
                memcmp(got.logits, want.logits,
                       (size_t)want.rows * (size_t)want.vocab * sizeof *want.logits) ||
                memcmp(got.token, want.token, sizeof got.token))
                fail_msg("%s: after allocation %ld failed, other bits", got.of->model, n);
            free(got.logits);
            if (!got.hit) break;
            run(&gone);
            free(gone.logits);
            assert_int_equal(gone.ooms + gone.misses, 1);
            assert_int_equal(got.ooms + got.misses, 1);
            ooms += got.ooms, misses += got.misses;
        }
        printf("%s: %ld allocations failed in turn: %d calls refused, %d misses; %d rows of logits "
               "and %d tokens equal after each\n",
               want.of->model, n - 1, ooms, misses, want.rows, want.tokens);
        assert_true(ooms > 100 && misses > 0);
        free(want.logits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
