/* Every allocation of every reader fails once: GY_ENOMEM, an empty result, nothing leaked (the
 * sanitizer's leak check sees memory; mappings and descriptors are counted here), and the next
 * opening works. */
#include "base/mem.h"
#include "file/config.h"
#include "file/tensors.h"
#include "testlib.h"

static int mappings(const char *word) {
    char line[4096];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, word) != NULL;
    if (f) fclose(f);
    return n;
}

typedef gy_rc (*open_fn)(const char *path, bool *empty, gy_err *err);

static gy_rc open_file(const char *path, bool *empty, gy_err *err) {
    gy_tensors t;
    gy_rc rc = gy_tensors_open_file(&t, path, err);
    *empty = !t.at && !t.n && !t.file && !t.files && !t.arena.block;
    gy_tensors_close(&t);
    return rc;
}

static gy_rc open_dir(const char *path, bool *empty, gy_err *err) {
    gy_tensors t;
    gy_rc rc = gy_tensors_open_dir(&t, path, err);
    *empty = !t.at && !t.n && !t.file && !t.files && !t.arena.block;
    gy_tensors_close(&t);
    return rc;
}

static gy_rc open_gguf(const char *path, bool *empty, gy_err *err) {
    gy_gguf g;
    gy_rc rc = gy_gguf_open(&g, path, err);
    *empty = !g.kv && !g.n && !g.tensors.at && !g.tensors.files && !g.tensors.arena.block;
    gy_gguf_close(&g);
    return rc;
}

static gy_rc open_config(const char *path, bool *empty, gy_err *err) {
    gy_config c;
    gy_rc rc = gy_config_open(&c, path, false, err);
    *empty = !c.config.root && !c.tokenizer.root && !c.template_default && !c.n_named;
    gy_config_close(&c);
    return rc;
}

static void each_allocation(open_fn fn, const char *rel, int least) {
    const char *path = data_path(rel);
    int before = mappings("tests/data/file"), failed = 0;
    for (long nth = 1;; nth++) {
        bool empty;
        gy_err err = {0};
        gy_alloc_fail_at(nth);
        gy_rc rc = fn(path, &empty, &err);
        gy_alloc_fail_at(0);
        if (!rc) break;
        failed++;
        if (rc != GY_ENOMEM)
            fail_msg("%s, allocation %ld: %s: %s", rel, nth, gy_rc_name(rc), err.msg);
        if (!empty) fail_msg("%s, allocation %ld: half a result is left", rel, nth);
        if (!err.msg[0]) fail_msg("%s, allocation %ld: no message", rel, nth);
        if (nth > 10000) fail_msg("%s never opens", rel);
    }
    printf("%s: %d allocations failed in turn\n", rel, failed);
    assert_true(failed >= least);
    assert_int_equal(mappings("tests/data/file"), before);
}

static void safetensors(void **state) {
    (void)state, each_allocation(open_file, "file/safetensors/order.safetensors", 4);
}
static void sharded(void **state) {
    (void)state, each_allocation(open_dir, "file/index/two", 8);
}
static void without_index(void **state) {
    (void)state, each_allocation(open_dir, "file/index/set_without_index", 8);
}
static void gguf(void **state) {
    (void)state, each_allocation(open_gguf, "file/gguf/all_types.gguf", 4);
}
static void split(void **state) {
    (void)state, each_allocation(open_gguf, "file/gguf/split-00001-of-00002.gguf", 6);
}
static void config(void **state) {
    (void)state, each_allocation(open_config, "file/checkpoint", 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors), cmocka_unit_test(sharded), cmocka_unit_test(without_index),
        cmocka_unit_test(gguf),        cmocka_unit_test(split),   cmocka_unit_test(config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
