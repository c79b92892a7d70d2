/* A converted model is the model: the same ids for the same text, the same rendered chat, and the
 * same logits bit for bit in both arithmetics. The GGUF files of tests/data/convert
 * (tools/gen_tiny_gguf.py), and the file that GYRE_TEST_GGUF names. */
#include "testlib.h"

#include "model/convert.h"

enum { TOKENS = 48 };

static char root[64];

static const char *in_root(const char *name) {
    static char path[4][200];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/gy_convert_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static bool there(const char *path) {
    return access(path, F_OK) == 0;
}

static gy_model *open_model(const char *path) {
    gy_model *m = NULL;
    gy_err err = {0};
    assert_ok(gy_model_open(path, NULL, &m, &err), err);
    return m;
}

/* Logits of TOKENS ids. */
static float *logits_of(gy_model *m, gy_arith arith, int vocab) {
    gy_engine_options o = {.threads = 1, .arith = arith, .context = 64, .chunk = 16};
    gy_engine *e = NULL;
    gy_seq *s = NULL;
    gy_err err = {0};
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((unsigned)i * 2654435761u % (unsigned)(vocab < 256 ? vocab : 256));
    float *out = malloc(sizeof(float) * TOKENS * (size_t)vocab);
    assert_ok(gy_engine_new(m, &o, &e, &err), err);
    assert_ok(gy_seq_new(e, &s, &err), err);
    assert_ok(gy_step(e, &(gy_feed){.seq = s, .ids = ids, .n = TOKENS}, 1, out, &err), err);
    gy_seq_free(e, s);
    gy_engine_free(e);
    return out;
}

static void same_logits(gy_model *a, gy_model *b, const char *name) {
    gy_model_info x, y;
    gy_model_get_info(a, &x), gy_model_get_info(b, &y);
    assert_int_equal(x.vocab, y.vocab);
    static const char *const arith[] = {"exact", "fast"};
    for (int k = 0; k < 2; k++) {
        float *p = logits_of(a, k ? GY_ARITH_FAST : GY_ARITH_EXACT, x.vocab);
        float *q = logits_of(b, k ? GY_ARITH_FAST : GY_ARITH_EXACT, x.vocab);
        size_t n = TOKENS * (size_t)x.vocab, i = 0, numbers = 0;
        while (i < n && !memcmp(p + i, q + i, sizeof *p)) i++;
        if (i < n) fail_msg("%s, %s: logit %zu is %.9g, not %.9g", name, arith[k], i, q[i], p[i]);
        for (i = 0; i < n; i++) numbers += p[i] == p[i] && p[i] != 0;
        assert_true(numbers > n / 2); /* not a comparison of nothing */
        free(p);
        free(q);
    }
}

static void same_text(gy_model *a, gy_model *b, const char *name) {
    static const char *const texts[] = {
        "",
        " ",
        "Hello the world",
        "  the  the\n\n\nhe'll have 12 123\t<|im_end|>x",
        "aaaaaaaaa a aa",
        "caf\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80 <tool>ing<unk> <0x41>",
        "\xFF broken \xE4\xBD"};
    static const unsigned flags[] = {0, GY_TOK_SPECIALS, GY_TOK_PLAIN};
    gy_err err = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int f = 0; f < 3; f++) {
            int32_t *x = NULL, *y = NULL;
            int n, m;
            char *s = NULL, *t = NULL;
            assert_ok(gy_tokenize(a, texts[i], strlen(texts[i]), flags[f], &x, &n, &err), err);
            assert_ok(gy_tokenize(b, texts[i], strlen(texts[i]), flags[f], &y, &m, &err), err);
            if (n != m || (n && memcmp(x, y, (size_t)n * sizeof *x)))
                fail_msg("%s: other ids for \"%s\"", name, texts[i]);
            assert_ok(gy_detokenize(a, x, n, f == 1, &s, NULL, &err), err);
            assert_ok(gy_detokenize(b, x, n, f == 1, &t, NULL, &err), err);
            assert_string_equal(s, t);
            gy_free(x), gy_free(y), gy_free(s), gy_free(t);
        }
    }
    gy_model_info p, q;
    gy_model_get_info(a, &p), gy_model_get_info(b, &q);
    assert_int_equal(p.n_eos, q.n_eos);
    assert_memory_equal(p.eos, q.eos, (size_t)p.n_eos * sizeof *p.eos);
    assert_int_equal(p.has_template, q.has_template);
    assert_int_equal(p.context, q.context);
    if (!p.has_template) return;
    const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}";
    char *s = NULL, *t = NULL;
    assert_ok(gy_render(a, body, sizeof body - 1, &s, NULL, &err), err);
    assert_ok(gy_render(b, body, sizeof body - 1, &t, NULL, &err), err);
    assert_string_equal(s, t);
    gy_free(s), gy_free(t);
}

/* GGUF to a directory, to one with shards, and from a directory to another. */
static void converted_is_the_model(const char *source, const char *name) {
    gy_err err = {0};
    char one[100], many[100], again[100];
    snprintf(one, sizeof one, "%s.one/", name);
    snprintf(many, sizeof many, "%s.many", name);
    snprintf(again, sizeof again, "%s.again", name);
    assert_ok(gy_convert(source, in_root(one), NULL, NULL, &err), err);
    assert_ok(gy_convert_sharded(source, in_root(many), 20000, NULL, NULL, &err), err);
    assert_ok(gy_convert(in_root(many), in_root(again), NULL, NULL, &err), err);
    gy_model *a = open_model(source), *b = open_model(in_root(one)),
             *c = open_model(in_root(again));
    same_text(a, b, name);
    same_logits(a, b, name);
    same_text(a, c, name);
    same_logits(a, c, name);
    gy_model_info x, y;
    gy_model_get_info(a, &x), gy_model_get_info(b, &y);
    printf("%s: %s as %s\n", name, x.quant, y.quant);
    gy_model_unref(a), gy_model_unref(b), gy_model_unref(c);
}

static void tiny_models(void **state) {
    (void)state;
    converted_is_the_model(data_path("convert/mix.gguf"), "mix");
    converted_is_the_model(data_path("convert/spm.gguf"), "spm");
}

static void named_model(void **state) {
    (void)state;
    const char *path = getenv("GYRE_TEST_GGUF");
    if (!path || !*path) {
        printf("notice: skipped, GYRE_TEST_GGUF names no file\n");
        skip();
    }
    gy_err err = {0};
    assert_ok(gy_convert(path, in_root("named"), NULL, NULL, &err), err);
    gy_model *a = open_model(path), *b = open_model(in_root("named"));
    same_text(a, b, path);
    same_logits(a, b, path);
    gy_model_unref(a), gy_model_unref(b);
}

static bool stop_at_once(void *arg, const char *what, uint64_t done, uint64_t total) {
    (void)arg, (void)what, (void)done, (void)total;
    return false;
}

/* A failure names its reason and leaves nothing behind. */
static void failures_leave_nothing(void **state) {
    (void)state;
    gy_err err = {0};
    assert_int_equal(gy_convert(data_path("convert/inexact.gguf"), in_root("f"), NULL, NULL, &err),
                     GY_EUNSUPPORTED);
    if (!strstr(err.msg, "blk.0.attn_v.weight") || !strstr(err.msg, "IQ4_NL"))
        fail_msg("message: %s", err.msg);
    assert_false(there(in_root("f")) || there(in_root("f.part")));
    assert_int_equal(
        gy_convert(data_path("convert/mix.gguf"), in_root("f"), stop_at_once, NULL, &err),
        GY_ECANCEL);
    assert_false(there(in_root("f")) || there(in_root("f.part")));
    assert_int_equal(gy_convert(in_root("nothing"), in_root("f"), NULL, NULL, &err), GY_ENOTFOUND);
    assert_int_equal(gy_convert(data_path("convert/mix.gguf"), root, NULL, NULL, &err),
                     GY_EARG); /* it is there */
    /* What an interrupted run left is replaced; a folder with other things in it is not touched. */
    char command[512];
    snprintf(command, sizeof command,
             "mkdir %s/g.part %s/h.part && touch %s/g.part/config.json %s/h.part/mine", root, root,
             root, root);
    assert_int_equal(system(command), 0);
    assert_ok(gy_convert(data_path("convert/mix.gguf"), in_root("g"), NULL, NULL, &err), err);
    assert_false(there(in_root("g.part")));
    assert_int_equal(gy_convert(data_path("convert/mix.gguf"), in_root("h"), NULL, NULL, &err),
                     GY_EIO);
    assert_true(there(in_root("h.part/mine")));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiny_models), cmocka_unit_test(named_model),
                                       cmocka_unit_test(failures_leave_nothing)};
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
