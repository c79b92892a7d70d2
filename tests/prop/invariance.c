/* Equal bits, end to end: the logits of a sequence do not depend on chunking, threads, instruction
 * set, batch-mates, fork or trim. Every model of tests/data/models and of ../shared/fixtures/models
 * that opens, both arithmetics; and the model that GYRE_TEST_MODEL names. */
#include "testlib.h"

#include <dirent.h>

#include "gyre.h"

enum { PROMPT = 70, STRANGERS = 8 };

typedef struct {
    gy_model *m;
    gy_model_info info;
    int32_t ids[STRANGERS + 1][PROMPT]; /* ids[0] is the sequence under test */
    int len[STRANGERS + 1];
    float *want, *got; /* [PROMPT][vocab] */
} rig;

static gy_engine *engine(rig *r, gy_arith arith, int threads, int chunk, const char *isa,
                         const char *kv) {
    gy_err err = {0};
    gy_engine *e = NULL;
    gy_engine_options o = {.threads = threads,
                           .arith = arith,
                           .chunk = chunk,
                           .isa = isa,
                           .kv = kv,
                           .context = 256,
                           .sequences = STRANGERS + 2};
    assert_ok(gy_engine_new(r->m, &o, &e, &err), err);
    return e;
}

static void same(rig *r, const float *got, int rows, const char *what) {
    size_t bytes = (size_t)rows * (size_t)r->info.vocab * sizeof(float);
    if (!memcmp(r->want, got, bytes)) return;
    size_t i = 0, n = bytes / sizeof(float);
    while (i < n && !memcmp(r->want + i, got + i, sizeof(float))) i++;
    fail_msg("%s: logits differ first at row %d column %d: %.9g, expected %.9g", what,
             (int)(i / (size_t)r->info.vocab), (int)(i % (size_t)r->info.vocab), (double)got[i],
             (double)r->want[i]);
}

/* The whole sequence in pieces of `piece` tokens through one engine. */
static void alone(rig *r, gy_engine *e, int piece, float *out) {
    gy_err err = {0};
    gy_seq *s = NULL;
    assert_ok(gy_seq_new(e, &s, &err), err);
    for (int at = 0; at < r->len[0]; at += piece) {
        int n = r->len[0] - at < piece ? r->len[0] - at : piece;
        gy_feed feed = {.seq = s, .ids = r->ids[0] + at, .n = n};
        assert_ok(gy_step(e, &feed, 1, out + (size_t)at * (size_t)r->info.vocab, &err), err);
    }
    gy_seq_free(e, s);
}

/* The sequence among strangers, each fed a random number of tokens per step until all have ended.
 */
static void crowd(rig *r, gy_engine *e, uint64_t *seed, float *out) {
    gy_err err = {0};
    gy_seq *s[STRANGERS + 1] = {0};
    int at[STRANGERS + 1] = {0};
    float *scratch =
        malloc((size_t)(STRANGERS + 1) * PROMPT * (size_t)r->info.vocab * sizeof(float));
    assert_non_null(scratch);
    for (int i = 0; i <= STRANGERS; i++) assert_ok(gy_seq_new(e, &s[i], &err), err);
    while (at[0] < r->len[0]) {
        gy_feed feed[STRANGERS + 1];
        int order[STRANGERS + 1], n = 0, rows = 0, mine = -1;
        int shift = (int)(test_rand(seed) % (STRANGERS + 1));
        for (int k = 0; k <= STRANGERS; k++) {
            int i = (k + shift) % (STRANGERS + 1), left = r->len[i] - at[i];
            int take = (int)(test_rand(seed) % 12);
            if (take > left) take = left;
            if (!take) continue;
            /* Strangers want logits of a random tail only, so that rows and outs differ. */
            int first = i ? (int)(test_rand(seed) % (unsigned)(take + 1)) : 0;
            if (!i) mine = rows;
            feed[n] =
                (gy_feed){.seq = s[i], .ids = r->ids[i] + at[i], .n = take, .first_out = first};
            rows += take - first, order[n++] = i;
        }
        assert_ok(gy_step(e, feed, n, scratch, &err), err);
        for (int k = 0; k < n; k++) {
            if (!order[k])
                memcpy(out + (size_t)at[0] * (size_t)r->info.vocab,
                       scratch + (size_t)mine * (size_t)r->info.vocab,
                       (size_t)feed[k].n * (size_t)r->info.vocab * sizeof(float));
            at[order[k]] += feed[k].n;
        }
    }
    for (int i = 0; i <= STRANGERS; i++) gy_seq_free(e, s[i]);
    free(scratch);
}

/* Feeds 40, forks, lets the fork go another way, trims the original to 33 and feeds the rest again.
 */
static void forked(rig *r, gy_engine *e, float *out) {
    gy_err err = {0};
    gy_seq *s = NULL, *f = NULL;
    size_t v = (size_t)r->info.vocab;
    assert_ok(gy_seq_new(e, &s, &err), err);
    assert_ok(gy_step(e, &(gy_feed){.seq = s, .ids = r->ids[0], .n = 40}, 1, out, &err), err);
    assert_ok(gy_seq_fork(e, s, &f, &err), err);
    float *scratch = malloc(PROMPT * v * sizeof(float));
    assert_non_null(scratch);
    assert_ok(gy_step(e, &(gy_feed){.seq = f, .ids = r->ids[1], .n = r->len[1]}, 1, scratch, &err),
              err);
    free(scratch);
    assert_ok(gy_seq_trim(e, s, 33, &err), err);
    assert_ok(gy_step(e, &(gy_feed){.seq = s, .ids = r->ids[0] + 33, .n = r->len[0] - 33}, 1,
                      out + 33 * v, &err),
              err);
    gy_seq_free(e, f), gy_seq_free(e, s);
}

static int check_model(rig *r, const char *name, gy_arith arith, const char *kv, uint64_t *seed) {
    static const int chunks[] = {1, 7, 64, 512};
    const char *isas[] = {NULL, "generic"};
    int checks = 0;
    char what[300];
    gy_engine *e = engine(r, arith, 1, 512, "generic", kv);
    alone(r, e, PROMPT, r->want);
    gy_engine_free(e);
    for (int i = 0; i < 2; i++)
        for (int threads = 1; threads <= 2; threads++)
            for (int c = 0; c < 4; c++) {
                if (isas[i] && (threads == 2 || chunks[c] == 1))
                    continue; /* plain C is slow; two of its cases do */
                snprintf(what, sizeof what, "%s arith %d kv %s isa %s threads %d chunk %d", name,
                         arith, kv, isas[i] ? isas[i] : "best", threads, chunks[c]);
                e = engine(r, arith, threads, chunks[c], isas[i], kv);
                alone(r, e, PROMPT, r->got), same(r, r->got, r->len[0], what), checks++;
                if (chunks[c] == 64 && !isas[i]) {
                    alone(r, e, 5, r->got), same(r, r->got, r->len[0], what), checks++;
                    crowd(r, e, seed, r->got), same(r, r->got, r->len[0], what), checks++;
                    forked(r, e, r->got), same(r, r->got, r->len[0], what), checks++;
                }
                gy_engine_free(e);
            }
    return checks;
}

static int run_model(const char *path, const char *name, uint64_t *seed, bool must_open) {
    gy_err err = {0};
    rig r = {0};
    int checks = 0;
    if (gy_model_open(path, &(gy_model_options){.no_tokenizer = true}, &r.m, &err)) {
        if (must_open) fail_msg("%s: %s", name, err.msg);
        return 0; /* families of later issues */
    }
    gy_model_get_info(r.m, &r.info);
    for (int s = 0; s <= STRANGERS; s++) {
        r.len[s] = s ? 1 + (int)(test_rand(seed) % PROMPT) : PROMPT;
        for (int i = 0; i < PROMPT; i++)
            r.ids[s][i] = (int32_t)(test_rand(seed) % (unsigned)r.info.vocab);
    }
    r.want = malloc(PROMPT * (size_t)r.info.vocab * sizeof(float)),
    r.got = malloc(PROMPT * (size_t)r.info.vocab * sizeof(float));
    assert_non_null(r.want), assert_non_null(r.got);
    checks += check_model(&r, name, GY_ARITH_EXACT, "f16", seed);
    checks += check_model(&r, name, GY_ARITH_FAST, "f32.bf16", seed);
    free(r.want), free(r.got);
    gy_model_unref(r.m);
    return checks;
}

static void run_folder(const char *folder, bool must_open) {
    uint64_t seed = test_seed();
    DIR *d = opendir(folder);
    int models = 0, checks = 0;
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        char path[1200];
        if (f->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/config.json", folder, f->d_name);
        if (access(path, R_OK)) continue;
        *strrchr(path, '/') = 0;
        int n = run_model(path, f->d_name, &seed, must_open);
        models += n > 0, checks += n;
    }
    closedir(d);
    printf("%s: %d models, %d comparisons, all equal\n", folder, models, checks);
    assert_true(models > 0);
}

static void test_own(void **state) {
    (void)state;
    run_folder(data_path("models"), true);
}

static void test_shared(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("fixtures/models");
    run_folder(shared_path("fixtures/models"), false);
}

static void test_named(void **state) {
    (void)state;
    const char *path = getenv("GYRE_TEST_MODEL");
    uint64_t seed = test_seed();
    if (!path || !*path) {
        printf("notice: skipped, GYRE_TEST_MODEL names no model\n");
        skip();
    }
    printf("%s: %d comparisons, all equal\n", path, run_model(path, path, &seed, true));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own), cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
