/* gy_model_open and the text functions of gyre.h, on committed fixtures and on copies with one file
 * changed. */
#include <pthread.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fmap.h"
#include "base/mem.h"
#include "testlib.h"

static char work[256];

static int make_work(void **state) {
    (void)state;
    snprintf(work, sizeof work, "%s/gyre-open-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(work) ? 0 : -1;
}

static int drop_work(void **state) {
    char command[320];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", work);
    return system(command);
}

/* A copy of models/llama by links, in which `file` has `from` replaced by `to` (from NULL: the
 * whole text), or is absent (to NULL). Opens it. */
static gy_rc open_changed(const char *file, const char *from, const char *to, gy_model **m,
                          gy_err *err) {
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    char path[512], source[1024], *text = NULL;
    size_t n;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", work, files[i]), unlink(path);
        snprintf(source, sizeof source, "%s/%s", data_path("models/llama"), files[i]);
        if (strcmp(files[i], file)) {
            assert_int_equal(symlink(source, path), 0);
            continue;
        }
        if (!to) continue;
        assert_ok(gy_file_read(source, 1 << 24, &text, &n, err), *err);
        const char *at = from ? strstr(text, from) : text;
        if (!at) fail_msg("%s has no %s", file, from);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fwrite(text, 1, from ? (size_t)(at - text) : 0, f), fputs(to, f);
        if (from) fputs(at + strlen(from), f);
        fclose(f), gy_free(text);
    }
    return gy_model_open(work, NULL, m, err);
}

static gy_model *llama(const gy_model_options *o) {
    gy_model *m = NULL;
    gy_err err = {0};
    assert_ok(gy_model_open(data_path("models/llama"), o, &m, &err), err);
    return m;
}

static void paths(void **state) {
    (void)state;
    static const struct {
        const char *path;
        gy_rc rc;
    } cases[] = {
        {"/nonesuch/model", GY_ENOTFOUND}, {"models", GY_OK}, {"models/llama/config.json", GY_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_model *m = NULL;
        gy_err err = {0};
        const char *path = *cases[i].path == '/' ? cases[i].path : data_path(cases[i].path);
        gy_rc rc = gy_model_open(path, NULL, &m, &err);
        assert_null(m);
        if (!rc || (cases[i].rc && rc != cases[i].rc)) fail_msg("%s: %s", path, gy_rc_name(rc));
        if (!strstr(err.msg, path)) fail_msg("%s: the message does not name it: %s", path, err.msg);
    }
    assert_int_equal(gy_model_open(NULL, NULL, NULL, NULL), GY_EARG);
    gy_model_unref(NULL);
}

static void info(void **state) {
    (void)state;
    gy_model *m = llama(NULL);
    gy_model_info i;
    assert_ptr_equal(gy_model_ref(m), m);
    gy_model_unref(m);
    gy_model_get_info(m, &i);
    assert_string_equal(i.type, "llama");
    assert_string_equal(i.format, "safetensors");
    assert_string_equal(i.quant, "affine 4-bit g32");
    assert_true(i.layers == 3 && i.width == 96 && i.vocab == 320 && i.context == 4096);
    assert_true(i.has_tokenizer && i.has_template);
    /* embed, 3 layers of (q, k, v, o, 3 ffn, 2 norms), final norm */
    assert_int_equal(i.parameters,
                     320 * 96 + 3 * (128 * 96 * 2 + 2 * 64 * 96 + 3 * 192 * 96 + 2 * 96) + 96);
    assert_true(i.weight_bytes > i.parameters / 2 && i.weight_bytes < i.parameters);
    gy_model_unref(m);
}

static void eos_is(gy_model *m, const char *what, int n, int a, int b) {
    gy_model_info i;
    gy_model_get_info(m, &i);
    if (i.n_eos != n || (n > 0 && i.eos[0] != a) || (n > 1 && i.eos[1] != b))
        fail_msg("%s: %d end ids, first %d", what, i.n_eos, i.n_eos ? i.eos[0] : -1);
    gy_model_unref(m);
}

static void end_ids(void **state) {
    (void)state;
    gy_model *m;
    gy_err err = {0};
    eos_is(llama(NULL), "generation_config and tokenizer", 2, 314, 316);
    assert_ok(open_changed("generation_config.json", NULL, NULL, &m, &err), err);
    eos_is(m, "tokenizer alone", 1, 316, 0);
    assert_ok(open_changed("generation_config.json", NULL, "{\"eos_token_id\": 7}", &m, &err), err);
    eos_is(m, "one id", 2, 7, 316);
    assert_ok(
        open_changed("generation_config.json", NULL, "{\"eos_token_id\": [400, 7, 7]}", &m, &err),
        err);
    eos_is(m, "twice, and out of range", 2, 7, 316);
    /* The template ends turns with <|im_end|>; the tokenizer says another token. */
    assert_ok(open_changed("tokenizer_config.json", "\"eos_token\": \"<|im_end|>\"",
                           "\"eos_token\": \"<|endoftext|>\"", &m, &err),
              err);
    eos_is(m, "template's end of turn", 2, 314, 316);
    assert_int_equal(
        open_changed("generation_config.json", NULL, "{\"eos_token_id\": \"x\"}", &m, &err),
        GY_EFORMAT);
    assert_non_null(strstr(err.msg, "eos_token_id"));
}

/* Ids beyond the logits are refused, but for special tokens, which no ordinary text gives. */
static void vocabulary(void **state) {
    (void)state;
    gy_model *m;
    gy_err err = {0};
#define ADDED(special)                                                                             \
    "\"added_tokens\": [{\"id\": 320, \"content\": \"<beyond>\", \"single_word\": false, "         \
    "\"lstrip\": false, "                                                                          \
    "\"rstrip\": false, \"normalized\": false, \"special\": " special "}, "
    assert_int_equal(
        open_changed("tokenizer.json", "\"added_tokens\": [", ADDED("false"), &m, &err),
        GY_EFORMAT);
    if (!strstr(err.msg, "320")) fail_msg("%s", err.msg);
    err = (gy_err){0};
    assert_ok(open_changed("tokenizer.json", "\"added_tokens\": [", ADDED("true"), &m, &err), err);
    gy_model_unref(m);
#undef ADDED
}

static void text(void **state) {
    (void)state;
    static const char story[] = "Tell me a story about the cache - \xc3\xa9t\xc3\xa9";
    gy_model *m = llama(NULL);
    int32_t *ids;
    int n;
    char *out;
    size_t bytes;
    gy_err err = {0};
    assert_ok(gy_tokenize(m, story, strlen(story), 0, &ids, &n, &err), err);
    assert_true(n > 5);
    assert_ok(gy_detokenize(m, ids, n, true, &out, &bytes, &err), err);
    assert_string_equal(out, story);
    assert_int_equal(bytes, strlen(story));
    gy_free(ids), gy_free(out);
    assert_ok(gy_tokenize(m, "", 0, 0, &ids, &n, &err), err);
    assert_true(n == 0 && ids);
    assert_ok(gy_detokenize(m, ids, 0, true, &out, NULL, &err), err);
    assert_string_equal(out, "");
    gy_free(ids), gy_free(out);
    /* A special token's name is that token, or text when asked so. */
    assert_ok(gy_tokenize(m, "<|im_end|>", 10, 0, &ids, &n, &err), err);
    assert_true(n == 1 && ids[0] == 316);
    assert_ok(gy_detokenize(m, ids, 1, true, &out, NULL, &err), err);
    assert_string_equal(out, "");
    gy_free(ids), gy_free(out);
    assert_ok(gy_tokenize(m, "<|im_end|>", 10, GY_TOK_PLAIN, &ids, &n, &err), err);
    assert_true(n > 1);
    gy_free(ids);
    const char *name = gy_token_name(m, 316, &bytes);
    assert_true(bytes == 10 && !memcmp(name, "<|im_end|>", 10));
    assert_null(gy_token_name(m, 5000, &bytes));
    assert_int_equal(gy_detokenize(m, (int32_t[]){5000}, 1, true, &out, NULL, &err), GY_EARG);
    gy_model_unref(m);
}

static gy_rc render(gy_model *m, const char *body, char **out, gy_err *err) {
    size_t n;
    *err = (gy_err){0};
    return gy_render(m, body, strlen(body), out, &n, err);
}

static void chat(void **state) {
    (void)state;
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    gy_model *m = llama(NULL);
    gy_model_info i;
    char *out;
    gy_err err;
    assert_ok(render(m, body, &out, &err), err);
    assert_string_equal(out, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    gy_free(out);
    assert_int_equal(render(m, "{\"messages\":", &out, &err), GY_EARG);
    gy_model_unref(m);
    m = llama(&(gy_model_options){.chat_template = "{{ raise_exception('not like this') }}"});
    assert_int_equal(render(m, body, &out, &err), GY_EARG);
    assert_non_null(strstr(err.msg, "not like this"));
    gy_model_unref(m);
    m = llama(&(gy_model_options){.chat_template = "[{{ messages[0].content }}]{{ eos_token }}"});
    assert_ok(render(m, body, &out, &err), err);
    assert_string_equal(out, "[hi]<|im_end|>");
    gy_free(out);
    gy_model_unref(m);
    gy_model_options broken = {.chat_template = "{% for %}"};
    assert_int_not_equal(gy_model_open(data_path("models/llama"), &broken, &m, &err), GY_OK);
    assert_non_null(strstr(err.msg, "template"));
    /* Without a template there is nothing to render with, and the message says so. */
    err = (gy_err){0};
    assert_ok(open_changed("tokenizer_config.json", NULL, "{}", &m, &err), err);
    assert_int_equal(render(m, body, &out, &err), GY_ENOTFOUND);
    gy_model_unref(m);
    /* The checkpoint's own template may be broken: only who renders is told. */
    err = (gy_err){0};
    assert_ok(
        open_changed("tokenizer_config.json", NULL, "{\"chat_template\": \"{% for %}\"}", &m, &err),
        err);
    gy_model_get_info(m, &i);
    assert_true(i.has_template);
    assert_int_equal(render(m, body, &out, &err), GY_EFORMAT);
    assert_non_null(strstr(err.msg, "line 1"));
    gy_model_unref(m);
    /* A template needs no tokenizer. */
    err = (gy_err){0};
    assert_ok(open_changed("tokenizer.json", NULL, NULL, &m, &err), err);
    assert_ok(render(m, body, &out, &err), err);
    assert_string_equal(out, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    gy_free(out);
    gy_model_unref(m);
}

/* Text needs no config.json, and no family that gyre knows. */
static void text_alone(void **state) {
    (void)state;
    static const char *const config[] = {NULL, "{\"model_type\":\"nonesuch\",\"eos_token_id\":3}"};
    gy_model_options text = {.no_weights = true};
    for (int i = 0; i < 2; i++) {
        gy_model *m = NULL;
        int32_t *ids;
        int n;
        gy_err err = {0};
        assert_int_equal(open_changed("config.json", NULL, config[i], &m, &err),
                         i ? GY_EUNSUPPORTED : GY_ENOTFOUND);
        err = (gy_err){0};
        assert_ok(gy_model_open(work, &text, &m, &err), err);
        assert_ok(gy_tokenize(m, "x", 1, 0, &ids, &n, &err), err);
        gy_free(ids);
        gy_model_unref(m);
    }
}

static void parts(void **state) {
    (void)state;
    gy_model *m = llama(&(gy_model_options){.no_tokenizer = true});
    int32_t *ids;
    int n;
    char *out;
    gy_err err = {0};
    gy_model_info i;
    gy_model_get_info(m, &i);
    assert_false(i.has_tokenizer || i.has_template);
    assert_int_equal(gy_tokenize(m, "x", 1, 0, &ids, &n, &err), GY_ENOTFOUND);
    assert_int_equal(gy_detokenize(m, NULL, 0, false, &out, NULL, &err), GY_ENOTFOUND);
    assert_int_equal(render(m, "{}", &out, &err), GY_ENOTFOUND);
    assert_null(gy_token_name(m, 1, NULL));
    gy_model_unref(m);
    m = llama(&(gy_model_options){.no_weights = true});
    gy_model_get_info(m, &i);
    assert_true(i.has_tokenizer && i.vocab == 320 && i.parameters == 0);
    err = (gy_err){0};
    assert_ok(gy_tokenize(m, "x", 1, 0, &ids, &n, &err), err);
    gy_free(ids);
    gy_engine *e;
    assert_int_not_equal(gy_engine_new(m, NULL, &e, &err), GY_OK);
    gy_model_unref(m);
}

/* What a model makes of one conversation: text and ids, as one string. */
static void fingerprint(gy_model *m, gy_buf *b) {
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a story, 123\"}]}";
    char *out;
    int32_t *ids;
    int n;
    gy_err err = {0};
    assert_ok(render(m, body, &out, &err), err);
    assert_ok(gy_tokenize(m, out, strlen(out), 0, &ids, &n, &err), err);
    gy_buf_puts(b, out);
    for (int i = 0; i < n; i++) gy_buf_printf(b, " %d", ids[i]);
    gy_free(out), gy_free(ids);
}

/* One model, several threads: states that a pattern builds as it meets text are shared. */
static void *use_model(void *arg) {
    gy_buf *got = calloc(1, sizeof *got);
    for (int i = 0; got && i < 20; i++) got->n = 0, fingerprint(arg, got);
    return got;
}

static void many_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    gy_model *m = llama(NULL);
    gy_buf want = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_model, m), 0);
    fingerprint(m, &want);
    for (int i = 0; i < THREADS; i++) {
        void *got = NULL;
        pthread_join(thread[i], &got);
        assert_non_null(got);
        assert_string_equal(((gy_buf *)got)->p, want.p);
        gy_buf_free(got), free(got);
    }
    gy_buf_free(&want);
    gy_model_unref(m);
}

/* Whichever allocation fails, opening fails, or the model is as it should be (tables that only save
 * time may be left out). Nothing leaks: the sanitizer build watches. */
static void memory_runs_out(void **state) {
    (void)state;
    gy_buf want = {0};
    long before = gy_alloc_count();
    gy_model *m = llama(NULL);
    long total = gy_alloc_count() - before;
    fingerprint(m, &want);
    gy_model_unref(m);
    for (long n = 1; n <= total; n++) {
        gy_buf got = {0};
        gy_err err = {0};
        gy_alloc_fail_at(n);
        gy_rc rc = gy_model_open(data_path("models/llama"), NULL, &m, &err);
        gy_alloc_fail_at(0);
        if (rc) {
            if (rc != GY_ENOMEM || err.rc != rc || !err.msg[0])
                fail_msg("allocation %ld of %ld: %s, \"%s\"", n, total, gy_rc_name(rc), err.msg);
            continue;
        }
        fingerprint(m, &got);
        if (strcmp(got.p, want.p))
            fail_msg("allocation %ld of %ld: another model:\n%s", n, total, got.p);
        gy_model_unref(m), gy_buf_free(&got);
    }
    gy_buf_free(&want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(info),
        cmocka_unit_test(end_ids),
        cmocka_unit_test(vocabulary),
        cmocka_unit_test(text),
        cmocka_unit_test(chat),
        cmocka_unit_test(parts),
        cmocka_unit_test(text_alone),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, make_work, drop_work);
}
