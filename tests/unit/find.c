/* gy_model_find and gy_model_list over a made-up Hugging Face cache and a made-up GYRE_HOME. */
#include <sys/stat.h>

#include "base/json.h"
#include "testlib.h"

static char root[256];

static void put(const char *rel, const char *text) {
    char path[768];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++)
        *p = 0, mkdir(path, 0700), *p = '/';
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void link_to(const char *rel, const char *target) {
    char path[768];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    assert_int_equal(symlink(target, path), 0);
}

#define WHOLE  "hub/models--Acme--Tiny-4bit"
#define SHARDS "hub/models--acme--sharded"
#define GGUF   "hub/models--Acme--tiny-GGUF"

static int make(void **state) {
    (void)state;
    snprintf(root, sizeof root, "%s/gyre-find-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root)) return -1;
    char path[512];
    snprintf(path, sizeof path, "%s/hub", root), setenv("HF_HUB_CACHE", path, 1);
    snprintf(path, sizeof path, "%s/home", root), setenv("GYRE_HOME", path, 1);
    put(WHOLE "/refs/main", "c0ffee\n");
    put(WHOLE "/blobs/aa", "0123456789");
    put(WHOLE "/snapshots/c0ffee/config.json", "{}");
    link_to(WHOLE "/snapshots/c0ffee/model.safetensors", "../../blobs/aa");
    put(WHOLE "/snapshots/0ld/config.json", "{}");
    put(WHOLE "/snapshots/0ld/model.safetensors", "x");
    put(SHARDS "/refs/main", "beef");
    put(SHARDS "/snapshots/beef/config.json", "{}");
    put(SHARDS "/snapshots/beef/model.safetensors.index.json",
        "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002."
        "safetensors\"}}");
    put(SHARDS "/snapshots/beef/model-00001-of-00002.safetensors", "x");
    link_to(SHARDS "/snapshots/beef/model-00002-of-00002.safetensors", "../../blobs/not-there");
    put(GGUF "/refs/main", "f00d");
    put(GGUF "/snapshots/f00d/tiny-Q4_K_M.gguf", "xx");
    put(GGUF "/snapshots/f00d/tiny-Q8_0-00001-of-00002.gguf", "xxx");
    put(GGUF "/snapshots/f00d/tiny-Q8_0-00002-of-00002.gguf", "xxxx");
    put("hub/models--acme--nothing/refs/main", "dead");
    put("hub/version.txt", "1");
    put("home/models/mine/config.json", "{}");
    put("home/models/mine/model.safetensors", "x");
    put("home/models/org/other.gguf", "x");
    put("home/models/flat.gguf", "x");
    put("plain/config.json", "{}");
    put("empty/readme", "x");
    return 0;
}

static int drop(void **state) {
    (void)state;
    char command[320];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void finds(const char *name, const char *rel) {
    char *path = NULL, want[768];
    gy_err err = {0};
    gy_rc rc = gy_model_find(name, &path, &err);
    if (rc) fail_msg("%s: %s", name, err.msg);
    snprintf(want, sizeof want, "%s/%s", root, rel);
    if (strcmp(path, want)) fail_msg("%s: found %s, expected %s", name, path, want);
    gy_free(path);
}

static void fails(const char *name, const char *word) {
    char *path = NULL;
    gy_err err = {0};
    gy_rc rc = gy_model_find(name, &path, &err);
    if (rc != GY_ENOTFOUND) fail_msg("%s: %s, %s", name, gy_rc_name(rc), rc ? err.msg : path);
    assert_null(path);
    if (!strstr(err.msg, word))
        fail_msg("%s: the message does not say %s: %s", name, word, err.msg);
}

static void names(void **state) {
    (void)state;
    char path[512];
    finds("Acme/Tiny-4bit", WHOLE "/snapshots/c0ffee");
    finds("Acme/Tiny-4bit@0ld", WHOLE "/snapshots/0ld");
    finds("Acme/Tiny-4bit@main", WHOLE "/snapshots/c0ffee");
    finds("tiny-4BIT", WHOLE "/snapshots/c0ffee");
    finds("4bit", WHOLE "/snapshots/c0ffee");
    finds("Acme/tiny-GGUF:q4_k_m", GGUF "/snapshots/f00d/tiny-Q4_K_M.gguf");
    finds("Acme/tiny-GGUF:Q8_0", GGUF "/snapshots/f00d/tiny-Q8_0-00001-of-00002.gguf");
    finds("q4_k", GGUF "/snapshots/f00d/tiny-Q4_K_M.gguf");
    finds("mine", "home/models/mine");
    finds("org/other", "home/models/org/other.gguf");
    finds("OTHER", "home/models/org/other.gguf");
    finds("flat", "home/models/flat.gguf");
    snprintf(path, sizeof path, "%s/home/models/mine", root), finds(path, "home/models/mine");
    snprintf(path, sizeof path, "%s/home/models/org", root),
        finds(path, "home/models/org/other.gguf");
    snprintf(path, sizeof path, "%s/home/models/flat.gguf", root),
        finds(path, "home/models/flat.gguf");
    /* A folder without weights: enough for text; opening says what else is missing. */
    snprintf(path, sizeof path, "%s/plain", root), finds(path, "plain");
}

static void refusals(void **state) {
    (void)state;
    char path[512];
    fails("tiny", "3 models");
    fails("tiny", "Acme/Tiny-4bit");
    fails("acme/sharded", "model-00002-of-00002.safetensors");
    fails("sharded", "incomplete");
    fails("Acme/Tiny-4bit@nope", "nope");
    fails("Acme/tiny-GGUF", "2 GGUF files");
    fails("zebra", "no model \"zebra\"");
    fails("zebra", "Acme/Tiny-4bit");
    fails("../hub", "no model");
    fails("acme/nothing", "no model");
    snprintf(path, sizeof path, "%s/empty", root), fails(path, "no model");
    char *out = NULL;
    assert_int_equal(gy_model_find("", &out, NULL), GY_EARG);
}

static void list(void **state) {
    (void)state;
    static const struct {
        const char *id, *format, *revision;
        bool complete;
        int bytes;
    } want[] = {
        {"Acme/Tiny-4bit", "safetensors", "c0ffee", true, 12},
        {"Acme/tiny-GGUF:tiny-Q4_K_M", "gguf", "f00d", true, 2},
        {"Acme/tiny-GGUF:tiny-Q8_0-00001-of-00002", "gguf", "f00d", true, 7},
        {"acme/sharded", "safetensors", "beef", false, -1},
        {"flat", "gguf", "", true, 1},
        {"mine", "safetensors", "", true, 3},
        {"org/other", "gguf", "", true, 1},
    };
    char *json;
    gy_json_doc doc = {0};
    gy_err err = {0};
    assert_ok(gy_model_list(&json, &err), err);
    assert_ok(gy_json_parse(&doc, json, strlen(json), &err), err);
    assert_int_equal(doc.root->n, sizeof want / sizeof *want);
    for (uint32_t i = 0; i < doc.root->n; i++) {
        const gy_json *e = doc.root->item + i;
        assert_string_equal(gy_json_s(e, "id", ""), want[i].id);
        assert_string_equal(gy_json_s(e, "format", ""), want[i].format);
        assert_string_equal(gy_json_s(e, "revision", "?"), want[i].revision);
        assert_int_equal(gy_json_b(e, "complete", !want[i].complete), want[i].complete);
        if (want[i].bytes >= 0) assert_int_equal(gy_json_i(e, "bytes", -1), want[i].bytes);
    }
    gy_json_free(&doc), gy_free(json);
}

static void memory_runs_out(void **state) {
    (void)state;
    char *json = NULL;
    gy_err err = {0};
    long before = gy_alloc_count();
    assert_ok(gy_model_list(&json, &err), err);
    long total = gy_alloc_count() - before;
    gy_free(json);
    for (long n = 1; n <= total; n++) {
        json = NULL, err = (gy_err){0};
        gy_alloc_fail_at(n);
        gy_rc rc = gy_model_list(&json, &err);
        gy_alloc_fail_at(0);
        /* A failed look into an index or a reference may be taken for an incomplete model, never
         * for nothing. */
        if (rc && rc != GY_ENOMEM) fail_msg("allocation %ld: %s", n, err.msg);
        if (!rc) assert_non_null(strstr(json, "acme/sharded"));
        gy_free(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(refusals),
                                       cmocka_unit_test(list), cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, make, drop);
}
