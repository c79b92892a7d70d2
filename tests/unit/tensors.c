/* file/tensors: the table's readers, GGUF values, big and odd files. */
#include "file/tensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/num.h"
#include "testlib.h"

static void type_table(void **state) {
    (void)state;
    for (int t = 0; t < GY_T_COUNT; t++) {
        int bytes = -1, n = gy_ttype_block((gy_ttype)t, &bytes);
        if (!gy_ttype_name((gy_ttype)t) || n < 1 || (t != GY_T_OTHER && bytes < 1))
            fail_msg("type %d has no row", t);
        for (int k = 0; k < t; k++)
            assert_true(strcmp(gy_ttype_name((gy_ttype)t), gy_ttype_name((gy_ttype)k)));
    }
    int bytes;
    assert_int_equal(gy_ttype_block(GY_T_Q4_K, &bytes), 256);
    assert_int_equal(bytes, 144);
    assert_int_equal(gy_ttype_block(GY_T_BF16, &bytes), 1);
    assert_int_equal(bytes, 2);
    assert_string_equal(gy_ttype_name((gy_ttype)99), "unknown");
    assert_int_equal(gy_ttype_block((gy_ttype)-1, NULL), 1);
}

static void find_in_order(void **state) {
    (void)state;
    gy_tensors t;
    gy_err err = {0};
    assert_ok(
        gy_tensors_open_file(&t, data_path("file/safetensors/empty_between.safetensors"), &err),
        err);
    assert_int_equal(t.n, 3);
    for (int i = 0; i < t.n; i++) {
        assert_ptr_equal(gy_tensors_find(&t, t.at[i].name), &t.at[i]);
        if (i) assert_true(strcmp(t.at[i - 1].name, t.at[i].name) < 0);
    }
    assert_null(gy_tensors_find(&t, "0"));
    assert_null(gy_tensors_find(&t, "aa"));
    assert_null(gy_tensors_find(&t, "zz"));
    const gy_tensor *z = gy_tensors_find(&t, "z");
    assert_true(z->dims == 2 && z->shape[0] == 0 && z->shape[1] == 7 && z->bytes == 0 &&
                z->file == 0);
    gy_tensors_close(&t);
    assert_null(gy_tensors_find(&t, "a"));
    gy_tensors_close(&t); /* closing twice is harmless */
}

static void gguf_values(void **state) {
    (void)state;
    gy_gguf g;
    gy_gguf_str s;
    gy_err err = {0};
    int64_t i;
    double d;
    assert_ok(gy_gguf_open(&g, data_path("file/gguf/all_types.gguf"), &err), err);
    assert_int_equal(g.version, 3);
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"k.u8", 200},     {"k.i8", -100},         {"k.u16", 60000},
                {"k.i16", -30000}, {"k.u32", 4000000000},  {"k.i32", -2000000000},
                {"k.bool", 1},     {"k.i64", -(1ll << 62)}};
    for (size_t k = 0; k < sizeof ints / sizeof *ints; k++) {
        if (!gy_gguf_int(&g, ints[k].key, &i) || i != ints[k].value)
            fail_msg("%s read as %lld", ints[k].key, (long long)i);
        if (!gy_gguf_num(&g, ints[k].key, &d) || d != (double)ints[k].value)
            fail_msg("%s read as %g", ints[k].key, d);
    }
    i = 77;
    assert_false(gy_gguf_int(&g, "k.u64", &i)); /* 2^63 does not fit */
    assert_false(gy_gguf_int(&g, "k.f32", &i));
    assert_false(gy_gguf_int(&g, "k.str", &i));
    assert_false(gy_gguf_int(&g, "absent", &i));
    assert_int_equal(i, 77);
    assert_true(gy_gguf_num(&g, "k.u64", &d) && d == 0x1p63);
    assert_true(gy_gguf_num(&g, "k.f32", &d) && d == 1.5);
    assert_true(gy_gguf_num(&g, "k.f64", &d) && d == 0.1);
    assert_true(gy_gguf_string(&g, "k.str", &s) && s.n == 3 && !memcmp(s.s, "a\0b", 3));
    assert_false(gy_gguf_string(&g, "k.u8", &s));
    const gy_gguf_kv *kv = gy_gguf_get(&g, "k.strs");
    assert_true(kv && kv->type == GY_GGUF_ARR && kv->item == GY_GGUF_STR && kv->n == 3);
    assert_true(kv->str[0].n == 0 && kv->str[2].n == 2 && !memcmp(kv->str[2].s, "yz", 2));
    assert_false(gy_gguf_item_num(kv, 0, &d));
    kv = gy_gguf_get(&g, "k.ints");
    assert_true(gy_gguf_item_num(kv, 1, &d) && d == -2);
    assert_false(gy_gguf_item_num(kv, 3, &d));
    assert_false(gy_gguf_item_num(NULL, 0, &d));
    assert_true(gy_gguf_item_num(gy_gguf_get(&g, "k.bools"), 1, &d) && d == 1);
    assert_int_equal(gy_gguf_get(&g, "k.none")->n, 0);
    gy_gguf_close(&g);
}

static void gguf_shapes_are_outermost_first(void **state) {
    (void)state;
    char path[] = "/tmp/gyre-shape-XXXXXX";
    struct __attribute__((packed)) {
        char magic[4];
        uint32_t version;
        uint64_t tensors, pairs, name_bytes;
        char name[1];
        uint32_t dims;
        uint64_t dim[3];
        uint32_t type;
        uint64_t offset;
        char pad[23]; /* 73 bytes so far */
        float data[24];
    } file = {{'G', 'G', 'U', 'F'}, 3, 1, 0, 1, {'w'}, 3, {2, 3, 4}, 0, 0, {0}, {0}};
    _Static_assert(offsetof(__typeof__(file), data) == 96, "data starts at a multiple of 32");
    int fd = mkstemp(path);
    assert_true(write(fd, &file, sizeof file) == sizeof file);
    close(fd);
    gy_gguf g;
    gy_err err = {0};
    assert_ok(gy_gguf_open(&g, path, &err), err);
    const gy_tensor *w = gy_tensors_find(&g.tensors, "w");
    assert_true(w->dims == 3 && w->shape[0] == 4 && w->shape[1] == 3 && w->shape[2] == 2 &&
                w->bytes == 96);
    gy_gguf_close(&g);
    unlink(path);
}

/* ---- big and odd files ---- */

static long resident_kb(void) {
    long pages = 0, skip;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* 40 GB of data that no byte of is read: opening must cost neither memory nor time. */
static void sparse_40_gb(void **state) {
    (void)state;
    char path[] = "/tmp/gyre-sparse-XXXXXX", header[256];
    int64_t values = 10ll << 30, bytes = values * 4;
    int fd = mkstemp(path);
    int n = snprintf(header + 8, sizeof header - 8,
                     "{\"w\":{\"dtype\":\"F32\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                     (long long)values, (long long)bytes);
    uint64_t length = (uint64_t)n;
    memcpy(header, &length, 8);
    assert_true(write(fd, header, (size_t)n + 8) == n + 8);
    if (ftruncate(fd, n + 8 + bytes)) {
        printf("notice: skipped, no sparse files in /tmp\n");
        close(fd), unlink(path);
        skip();
    }
    close(fd);
    long before = resident_kb();
    gy_tensors t;
    gy_err err = {0};
    gy_rc rc = gy_tensors_open_file(&t, path, &err);
    unlink(path);
    if (rc) fail_msg("%s", err.msg);
    assert_true(t.n == 1 && t.at[0].bytes == (size_t)bytes);
    if (resident_kb() - before > 20000) fail_msg("%ld KB more in memory", resident_kb() - before);
    gy_tensors_close(&t);
}

/* A hub cache: the snapshot's files are links that leave the directory. */
static void links_of_a_hub_cache(void **state) {
    (void)state;
    char dir[] = "/tmp/gyre-hub-XXXXXX", snapshot[64], link[128], target[600];
    assert_non_null(mkdtemp(dir));
    snprintf(snapshot, sizeof snapshot, "%s/snapshot", dir);
    assert_int_equal(mkdir(snapshot, 0700), 0);
    static const char *const files[] = {"model.safetensors.index.json",
                                        "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors"};
    for (int i = 0; i < 3; i++) {
        snprintf(link, sizeof link, "%s/%s", snapshot, files[i]);
        snprintf(target, sizeof target, "%s/%s", data_path("file/index/two"), files[i]);
        assert_int_equal(symlink(target, link), 0);
    }
    gy_tensors t;
    gy_err err = {0};
    assert_ok(gy_tensors_open_dir(&t, snapshot, &err), err);
    assert_int_equal(t.n, 2);
    gy_tensors_close(&t);
    /* An index whose blob is gone is a broken download, not an absent index. */
    snprintf(link, sizeof link, "%s/%s", snapshot, files[0]);
    unlink(link);
    assert_int_equal(symlink("/nonexistent/blob", link), 0);
    assert_int_equal(gy_tensors_open_dir(&t, snapshot, &err), GY_EIO);
    assert_non_null(strstr(err.msg, "index.json"));
    for (int i = 0; i < 3; i++)
        snprintf(link, sizeof link, "%s/%s", snapshot, files[i]), unlink(link);
    rmdir(snapshot), rmdir(dir);
}

static int open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void opening_leaves_nothing(void **state) {
    (void)state;
    int before = open_files();
    for (int i = 0; i < 20; i++) {
        gy_tensors t;
        gy_gguf g;
        gy_err err = {0};
        assert_ok(gy_tensors_open_dir(&t, data_path("file/index/two"), &err), err);
        assert_ok(gy_gguf_open(&g, data_path("file/gguf/split-00001-of-00002.gguf"), &err), err);
        assert_int_equal(g.tensors.files, 2);
        gy_tensors_close(&t);
        gy_gguf_close(&g);
        assert_int_not_equal(gy_gguf_open(&g, data_path("file/gguf/overlap.gguf"), NULL), GY_OK);
    }
    assert_int_equal(open_files(), before);
}

/* A vocabulary of 260,000 strings: the table is built without copying a byte of them. */
static void large_vocabulary(void **state) {
    (void)state;
    enum { N = 260000 };
    char path[] = "/tmp/gyre-vocab-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "wb");
    uint64_t head[3] = {0, 1, 6}, n = N;
    uint32_t version = 3, array[2] = {GY_GGUF_ARR, GY_GGUF_STR};
    fwrite("GGUF", 1, 4, f), fwrite(&version, 4, 1, f), fwrite(head, 8, 3, f);
    fwrite("tokens", 1, 6, f), fwrite(array, 4, 2, f), fwrite(&n, 8, 1, f);
    for (int i = 0; i < N; i++) {
        char s[16];
        uint64_t k = (uint64_t)snprintf(s, sizeof s, "tok%d", i);
        fwrite(&k, 8, 1, f), fwrite(s, 1, k, f);
    }
    fclose(f);
    struct timespec a, b;
    gy_gguf g;
    gy_err err = {0};
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_ok(gy_gguf_open(&g, path, &err), err);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("opened in %.1f ms\n",
           (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
    const gy_gguf_kv *kv = gy_gguf_get(&g, "tokens");
    assert_true(kv->n == N && kv->str[N - 1].n == 9 && !memcmp(kv->str[N - 1].s, "tok259999", 9));
    assert_true((const uint8_t *)kv->str[0].s > g.tensors.file[0].map.data);
    gy_gguf_close(&g);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type_table),
        cmocka_unit_test(find_in_order),
        cmocka_unit_test(gguf_values),
        cmocka_unit_test(gguf_shapes_are_outermost_first),
        cmocka_unit_test(sparse_40_gb),
        cmocka_unit_test(links_of_a_hub_cache),
        cmocka_unit_test(opening_leaves_nothing),
        cmocka_unit_test(large_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
