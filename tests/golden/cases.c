/* Cases from public bug reports (shared/cases): configurations, sharded checkpoints, GGUF models.
 * What must load gives the listed tokens; what must not is refused with a message. */
#include <math.h>
#include <sys/stat.h>

#include "base/fmap.h"
#include "base/json.h"
#include "testlib.h"

static int best(const float *row, int n) {
    int b = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[b]) b = i;
    return b;
}

static void load_json(gy_json_doc *doc, const char *path) {
    char *text;
    size_t n;
    gy_err err = {0};
    assert_ok(gy_file_read(path, 1 << 24, &text, &n, &err), err);
    assert_ok(gy_json_parse(doc, text, n, &err), err);
    gy_free(text);
}

static int ids_of(const gy_json *list, int32_t *out, int cap) {
    int n = 0;
    for (; list && n < (int)list->n && n < cap; n++) {
        int64_t v;
        assert_true(gy_json_int(list->item + n, &v));
        out[n] = (int32_t)v;
    }
    return n;
}

typedef struct {
    gy_engine *e;
    gy_seq *s;
    float *logits;
    int vocab;
} session;

static void session_open(session *s, gy_model *m) {
    gy_engine_options o = {.threads = 1, .arith = GY_ARITH_EXACT, .kv = "f32", .context = 128};
    gy_err err = {0};
    gy_model_info info;
    gy_model_get_info(m, &info);
    s->vocab = info.vocab, s->logits = calloc((size_t)info.vocab, sizeof *s->logits);
    assert_ok(gy_engine_new(m, &o, &s->e, &err), err);
    assert_ok(gy_seq_new(s->e, &s->s, &err), err);
}

static void session_feed(session *s, const int32_t *ids, int n) {
    gy_feed feed = {.seq = s->s, .ids = ids, .n = n, .first_out = n - 1};
    gy_err err = {0};
    assert_ok(gy_step(s->e, &feed, 1, s->logits, &err), err);
}

static void session_close(session *s) {
    gy_seq_free(s->e, s->s);
    gy_engine_free(s->e);
    free(s->logits);
}

/* Greedy from the prompt gives exactly these tokens; top: some logits after the prompt. NULL when
 * all is well. */
static const char *wrong(gy_model *m, const gy_json *prompt, const gy_json *tokens,
                         const gy_json *top, bool stops) {
    static char text[160];
    int32_t ids[64], want[64];
    int n = ids_of(prompt, ids, 64), n_want = ids_of(tokens, want, 64);
    session s;
    gy_model_info info;
    const char *bad = NULL;
    session_open(&s, m);
    gy_model_get_info(m, &info);
    session_feed(&s, ids, n);
    for (uint32_t i = 0; !bad && top && i < top->n; i++) {
        double id = 0, value = 0;
        assert_true(gy_json_num(top->item[i].item, &id) &&
                    gy_json_num(top->item[i].item + 1, &value));
        if (!(fabs(s.logits[(int)id] - value) <= 2e-3)) {
            snprintf(text, sizeof text, "logit %d is %g, expected %g", (int)id, s.logits[(int)id],
                     value);
            bad = text;
        }
    }
    for (int i = 0; !bad && i < n_want; i++) {
        int32_t id = best(s.logits, s.vocab);
        bool end = false;
        for (int k = 0; k < info.n_eos; k++) end |= info.eos[k] == id;
        snprintf(text, sizeof text, "token %d is %d%s, expected %d", i, id, end ? " (end)" : "",
                 want[i]);
        if (id != want[i] || (stops && end != (i + 1 == n_want)))
            bad = text;
        else
            session_feed(&s, &id, 1);
    }
    session_close(&s);
    return bad;
}

static bool is(const gy_json *c, const char *key, const char *value) {
    return !strcmp(gy_json_s(c, key, ""), value);
}

/* ---- config/: one config.json each, weights from elsewhere ---- */

static void spill(const char *path, const gy_json *v) {
    gy_buf b = {0};
    gy_json_write(&b, v);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
    gy_buf_free(&b);
}

/* Shards need an index; it is made of the files' own tables here. */
static void make_dir(const char *dir, const gy_json *c) {
    char from[1024], to[1024], rel[512];
    gy_json_doc config = {0};
    const gy_json *weights = gy_json_get(c, "weights"),
                  *generation = gy_json_get(c, "generation_config");
    snprintf(rel, sizeof rel, "cases/config/%s", gy_json_s(c, "file", ""));
    load_json(&config, shared_path(rel));
    snprintf(to, sizeof to, "%s/config.json", dir);
    spill(to, config.root);
    gy_json_free(&config);
    if (generation)
        snprintf(to, sizeof to, "%s/generation_config.json", dir), spill(to, generation);
    for (uint32_t i = 0; i < weights->n; i++) {
        snprintf(rel, sizeof rel, "cases/config/%s", weights->item[i].s);
        assert_non_null(realpath(shared_path(rel), from));
        if (weights->n == 1)
            snprintf(to, sizeof to, "%s/model.safetensors", dir);
        else
            snprintf(to, sizeof to, "%s/model-%05u-of-%05u.safetensors", dir, i + 1, weights->n);
        assert_int_equal(symlink(from, to), 0);
    }
}

static void clean(const char *dir) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void configs(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    int passed = 0, total = 0;
    SKIP_WITHOUT_SHARED("cases/config/manifest.json");
    load_json(&doc, shared_path("cases/config/manifest.json"));
    const gy_json *cases = gy_json_get(doc.root, "cases"),
                  *prompt = gy_json_get(doc.root, "prompt");
    for (uint32_t i = 0; i < cases->n; i++, total++) {
        const gy_json *c = cases->item + i;
        char dir[256];
        gy_model *m = NULL;
        gy_err err = {0};
        snprintf(dir, sizeof dir, "%s/gyre-cases-XXXXXX",
                 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        assert_non_null(mkdtemp(dir));
        make_dir(dir, c);
        gy_rc rc = gy_model_open(dir, NULL, &m, &err);
        const char *bad = NULL;
        if (is(c, "expect", "reject"))
            bad = rc ? NULL : "loaded";
        else
            bad = rc ? err.msg
                     : wrong(m, prompt, gy_json_get(c, "tokens"), gy_json_get(c, "top"),
                             is(c, "finish_reason", "stop"));
        if (rc && is(c, "expect", "reject"))
            printf("%s: %s\n", gy_json_s(c, "file", ""),
                   strrchr(err.msg, '/') ? strrchr(err.msg, '/') : err.msg);
        if (bad)
            printf("FAILED %s: %s\n", gy_json_s(c, "file", ""), bad);
        else
            passed++;
        gy_model_unref(m);
        clean(dir);
    }
    printf("config: %d of %d\n", passed, total);
    assert_int_equal(passed, total);
    gy_json_free(&doc);
}

/* ---- index/: checkpoint directories ---- */

static void indexes(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    int passed = 0, total = 0;
    SKIP_WITHOUT_SHARED("cases/index/manifest.json");
    load_json(&doc, shared_path("cases/index/manifest.json"));
    const gy_json *cases = gy_json_get(doc.root, "cases");
    for (uint32_t i = 0; i < cases->n; i++, total++) {
        const gy_json *c = cases->item + i;
        char rel[256];
        gy_model *m = NULL;
        gy_err err = {0};
        snprintf(rel, sizeof rel, "cases/index/%s", gy_json_s(c, "id", ""));
        gy_rc rc = gy_model_open(shared_path(rel), NULL, &m, &err);
        const char *bad = NULL;
        if (!rc)
            bad = wrong(m, gy_json_get(doc.root, "prompt"), gy_json_get(doc.root, "tokens"), NULL,
                        false);
        if (!bad && is(c, "expect", "reject") && !rc) bad = "loaded";
        if (!bad && is(c, "expect", "load") && rc) bad = err.msg;
        if (bad)
            printf("FAILED %s: %s\n", gy_json_s(c, "id", ""), bad);
        else
            passed++;
        gy_model_unref(m);
    }
    printf("index: %d of %d\n", passed, total);
    assert_int_equal(passed, total);
    gy_json_free(&doc);
}

/* ---- gguf/: complete tiny models with impossible contents ---- */

static void ggufs(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    int passed = 0, total = 0;
    SKIP_WITHOUT_SHARED("cases/gguf/manifest.json");
    load_json(&doc, shared_path("cases/gguf/manifest.json"));
    const gy_json *cases = gy_json_get(doc.root, "cases");
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *c = cases->item + i;
        char rel[256];
        gy_model *m = NULL;
        gy_err err = {0};
        const char *bad = NULL;
        snprintf(rel, sizeof rel, "cases/gguf/%s", gy_json_s(c, "file", ""));
        gy_rc rc = gy_model_open(shared_path(rel), NULL, &m, &err);
        if (is(c, "level", "container")) { /* none holds a model: only survival counts here */
            gy_model_unref(m);
            continue;
        }
        total++;
        if (!rc && is(c, "expect", "reject")) bad = "loaded";
        if (rc && is(c, "expect", "load")) bad = err.msg;
        if (!rc && !bad) {
            session s;
            session_open(&s, m);
            session_feed(&s, (int32_t[]){1, 2, 3}, 3);
            for (int k = 0; k < s.vocab; k++)
                if (isnan(s.logits[k])) bad = "NaN logits";
            session_close(&s);
        }
        if (bad)
            printf("FAILED %s: %s\n", gy_json_s(c, "file", ""), bad);
        else
            passed++;
        gy_model_unref(m);
    }
    printf("gguf models: %d of %d\n", passed, total);
    assert_int_equal(passed, total);
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(configs), cmocka_unit_test(indexes),
                                       cmocka_unit_test(ggufs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
