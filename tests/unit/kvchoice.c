/* kvchoice: names and files of KV codecs per layer, good and bad. */
#include "testlib.h"

#include "base/mem.h"
#include "codec/kvname.h"
#include "run/kvchoice.h"

enum { LAYERS = 4 };

static const char *name_of(gy_kvpair p, char out[48]) {
    return gy_kv_codec_name(p.k, p.v, out);
}

static void names(void **state) {
    (void)state;
    static const struct {
        const char *text, *name;
    } cases[] = {{NULL, "f16"},          {"", "f16"},         {"f32.bf16", "f32.bf16"},
                 {"q8", "q8:g64"},       {"q4.32", "q4:g32"}, {"k8v4", "q8:g64.q4:g64"},
                 {"turbo", "turbo-k8v3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_kvpair *kv;
        gy_err err = {0};
        char name[GY_KV_NAME], one[48];
        assert_ok(gy_kv_choose(cases[i].text, LAYERS, &kv, name, &err), err);
        assert_string_equal(name, cases[i].name);
        for (int l = 0; l < LAYERS; l++) assert_string_equal(name_of(kv[l], one), cases[i].name);
        gy_free(kv);
    }
    gy_kvpair *kv;
    gy_err err = {0};
    char name[GY_KV_NAME];
    assert_int_equal(gy_kv_choose("q7", LAYERS, &kv, name, &err), GY_EARG);
    assert_non_null(strstr(err.msg, "q7"));
    assert_ok(gy_kv_choose("q8", 0, &kv, name, (err = (gy_err){0}, &err)), err);
    gy_free(kv);
}

static void good_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *layer[LAYERS];
    } cases[] = {
        {"[]", {"f16", "f16", "f16", "f16"}},
        {"[{\"layer_idx\":0,\"bits\":8,\"group_size\":64},{\"layer_idx\":1,\"bits\":4,"
         "\"group_size\":32,\"mode\":\"affine\"}]",
         {"q8:g64", "q4:g32", "f16", "f16"}},
        {"[{\"layer_idx\":3,\"kv\":\"turbo-k8v4\"},{\"bits\":16,\"layer_idx\":0},"
         "{\"bits\":32,\"layer_idx\":1},{\"bits\":5,\"layer_idx\":2}]",
         {"f16", "f32", "q5:g64", "turbo-k8v4"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_kvpair kv[LAYERS];
        gy_err err = {0};
        char one[48];
        assert_ok(gy_kv_choose_json(cases[i].text, strlen(cases[i].text), LAYERS, kv, &err), err);
        for (int l = 0; l < LAYERS; l++)
            assert_string_equal(name_of(kv[l], one), cases[i].layer[l]);
    }
}

static void bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{}", "array"},
        {"[", "line"},
        {"[3]", "object"},
        {"[{\"bits\":8}]", "layer_idx"},
        {"[{\"layer_idx\":-1,\"bits\":8}]", "layer_idx"},
        {"[{\"layer_idx\":4,\"bits\":8}]", "4 layers"},
        {"[{\"layer_idx\":99999999999,\"bits\":8}]", "4 layers"},
        {"[{\"layer_idx\":0.5,\"bits\":8}]", "integer"},
        {"[{\"layer_idx\":0}]", "bits"},
        {"[{\"layer_idx\":0,\"bits\":7}]", "bits is 7"},
        {"[{\"layer_idx\":0,\"bits\":8,\"group_size\":48}]", "group_size is 48"},
        {"[{\"layer_idx\":0,\"bits\":8,\"group\":64}]", "\"group\""},
        {"[{\"layer_idx\":0,\"bits\":8,\"mode\":\"nvfp4\"}]", "\"mode\""},
        {"[{\"layer_idx\":0,\"kv\":\"q9\"}]", "q9"},
        {"[{\"layer_idx\":0,\"kv\":\"q8\",\"bits\":8}]", "exclude"},
        {"[{\"layer_idx\":0,\"bits\":8},{\"layer_idx\":0,\"bits\":4}]", "entry 1: layer 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_kvpair kv[LAYERS];
        gy_err err = {0};
        if (!gy_kv_choose_json(cases[i].text, strlen(cases[i].text), LAYERS, kv, &err))
            fail_msg("%s: accepted", cases[i].text);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, err.msg, cases[i].says);
    }
}

static void paths(void **state) {
    (void)state;
    char path[] = "/tmp/gyre-kvchoice-XXXXXX", name[GY_KV_NAME], one[48];
    int fd = mkstemp(path);
    const char *text = "[{\"layer_idx\":2,\"bits\":8}]";
    gy_kvpair *kv;
    gy_err err = {0};
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    assert_ok(gy_kv_choose(path, LAYERS, &kv, name, &err), err);
    assert_string_equal(name, "per-layer");
    assert_string_equal(name_of(kv[2], one), "q8:g64");
    gy_free(kv);
    assert_int_equal(gy_kv_choose(path, 2, &kv, name, &err), GY_EFORMAT);
    assert_non_null(strstr(err.msg, path)); /* it says which file and which entry */
    assert_non_null(strstr(err.msg, "entry 0"));
    unlink(path);
    assert_int_not_equal(gy_kv_choose(path, 2, &kv, name, (err = (gy_err){0}, &err)), GY_OK);
    assert_int_not_equal(gy_kv_choose("none.json", 2, &kv, name, (err = (gy_err){0}, &err)), GY_OK);
    assert_true(!strncmp(err.msg, "kv: ", 4));
}

/* Every allocation fails once. */
static void memory_runs_out(void **state) {
    (void)state;
    const char *text = "[{\"layer_idx\":2,\"kv\":\"q8\"}]";
    for (long i = 1;; i++) {
        gy_kvpair kv[LAYERS];
        gy_err err = {0};
        gy_alloc_fail_at(i);
        gy_rc rc = gy_kv_choose_json(text, strlen(text), LAYERS, kv, &err);
        bool reached = rc != GY_OK;
        gy_alloc_fail_at(0);
        if (!reached) {
            assert_true(i > 1);
            break;
        }
        assert_int_equal(rc, GY_ENOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(good_files),
                                       cmocka_unit_test(bad_files), cmocka_unit_test(paths),
                                       cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
