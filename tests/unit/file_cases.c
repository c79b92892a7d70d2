/* The case folders of ../shared/cases (and small own ones in tests/data/file, of the same form):
 * every file gets the verdict of its manifest, a refusal says which file and what is wrong, in less
 * than a second and 512 MB. */
#include <dirent.h>
#include <sys/resource.h>
#include <time.h>

#include "base/num.h"
#include "file/config.h"
#include "file/tensors.h"
#include "testlib.h"

/* A sanitizer reserves address space by the terabyte. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* What a refusal of a class has to say; any of the words, separated by '|'. */
static const struct {
    const char *class, *words;
} said[] = {
    {"truncated", "truncated"},
    {"header", "header"},
    {"header-too-large", "header too large"},
    {"not-safetensors", "not a safetensors file"},
    {"duplicate", "duplicate"},
    {"overlap", "overlaps"},
    {"hole", "hole"},
    {"offsets", "data_offsets"},
    {"size-mismatch", "size mismatch"},
    {"not-covered", "not covered"},
    {"overflow", "overflow"},
    {"shape", "shape"},
    {"dtype", "dtype"},
    {"magic", "magic"},
    {"version", "version"},
    {"count", "count"},
    {"string", "string of"},
    {"array", "array of"},
    {"type", "type"},
    {"offset", "offset"},
    {"alignment", "alignment"},
    {"path", "leaves the directory"},
    {"missing-file", "missing shard"},
    {"missing-tensor", "missing tensor"},
    {"unsupported", "is not supported"},
    {"index", "index"},
    {"kind", " expected"},
    {"range", " expected"},
    {"split", "split"},
    {"relation", "divide|expected"},
};

static bool says(const char *msg, const char *class) {
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        if (strcmp(said[i].class, class)) continue;
        char words[64], *save, *w;
        snprintf(words, sizeof words, "%s", said[i].words);
        for (w = strtok_r(words, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
            if (strstr(msg, w)) return true;
        }
        return false;
    }
    fail_msg("class %s is not in the table of this test", class);
    return false;
}

typedef struct {
    const char *dir; /* of the manifest */
    gy_json_doc doc;
    const gy_json *cases;
    int passed, total;
} folder;

static void open_folder(folder *f, const char *dir) {
    char path[1200], *text;
    size_t n;
    gy_err err = {0};
    *f = (folder){.dir = dir};
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    assert_ok(gy_file_read(path, 1 << 24, &text, &n, &err), err);
    assert_ok(gy_json_parse(&f->doc, text, n, &err), err);
    gy_free(text);
    f->cases = gy_json_get(f->doc.root, "cases");
    assert_true(gy_json_is(f->cases, GY_JSON_ARR) && f->cases->n);
}

static void close_folder(folder *f) {
    printf("%s: passed %d of %d\n", f->dir, f->passed, f->total);
    int missed = f->total - f->passed;
    gy_json_free(&f->doc);
    if (missed) fail_msg("%d cases failed", missed);
}

/* Compares a verdict with the manifest's. values: what the caller thinks of the content, NULL when
 * right. */
static void judge(folder *f, const gy_json *c, const char *name, gy_rc rc, const gy_err *err,
                  const char *values, double seconds) {
    const char *expect = gy_json_s(c, "expect", ""), *class = gy_json_s(c, "class", "");
    const char *file = strrchr(name, '/') ? strrchr(name, '/') + 1 : name,
               *field = gy_json_s(c, "names", file);
    bool load = !strcmp(expect, "load"), reject = !strcmp(expect, "reject");
    const char *wrong = load && rc                       ? "refused"
                        : reject && !rc                  ? "accepted"
                        : !rc && values                  ? values
                        : rc && !err->msg[0]             ? "no message"
                        : rc && !strstr(err->msg, field) ? "the message does not name it"
                        : reject && *class && !says(err->msg, class)
                            ? "the message does not fit the class"
                        : seconds > 1 ? "took more than a second"
                                      : NULL;
    f->total++;
    if (!wrong)
        f->passed++;
    else
        printf("MISS %s: %s (class %s): %s\n", name, wrong, class, rc ? err->msg : "no error");
}

static double seconds_since(const struct timespec *a) {
    struct timespec b;
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a->tv_sec) + (double)(b.tv_nsec - a->tv_nsec) * 1e-9;
}

/* ---- safetensors ---- */

static double element(const gy_tensor *t, size_t i) {
    int bytes;
    gy_ttype_block(t->type, &bytes);
    uint64_t raw = 0;
    memcpy(&raw, t->data + i * (size_t)bytes, (size_t)bytes);
    switch (t->type) {
    case GY_T_F32: return gy_bits_f32((uint32_t)raw);
    case GY_T_F16: return gy_f16_f32((uint16_t)raw);
    case GY_T_BF16: return gy_bf16_f32((uint16_t)raw);
    case GY_T_I64: return (double)(int64_t)raw;
    default: return (double)raw;
    }
}

/* The manifest nests arrays as the shape does. */
static bool same_values(const gy_tensor *t, const gy_json *v, size_t *at) {
    double x;
    if (gy_json_is(v, GY_JSON_ARR)) {
        for (uint32_t i = 0; i < v->n; i++) {
            if (!same_values(t, &v->item[i], at)) return false;
        }
        return true;
    }
    int bytes;
    gy_ttype_block(t->type, &bytes);
    if ((*at + 1) * (size_t)bytes > t->bytes) return false;
    if (gy_json_is(v, GY_JSON_BOOL))
        x = v->truth;
    else if (!gy_json_num(v, &x))
        return false;
    return element(t, (*at)++) == x;
}

static const char *check_values(const gy_tensors *t, const gy_json *expected) {
    if (!gy_json_is(expected, GY_JSON_OBJ)) return NULL;
    if ((int)expected->n != t->n) return "another number of tensors";
    for (uint32_t i = 0; i < expected->n; i++) {
        const gy_tensor *x = gy_tensors_find(t, expected->key[i].s);
        size_t at = 0;
        int bytes;
        if (!x) return "a tensor is missing";
        gy_ttype_block(x->type, &bytes);
        if (!same_values(x, &expected->item[i], &at) || at * (size_t)bytes != x->bytes)
            return "other values";
    }
    return NULL;
}

static void run_safetensors(const char *dir) {
    folder f;
    open_folder(&f, dir);
    for (uint32_t i = 0; i < f.cases->n; i++) {
        const gy_json *c = &f.cases->item[i];
        char path[1200];
        gy_tensors t;
        gy_err err = {0};
        struct timespec start;
        snprintf(path, sizeof path, "%s/%s", dir, gy_json_s(c, "file", "?"));
        clock_gettime(CLOCK_MONOTONIC, &start);
        gy_rc rc = gy_tensors_open_file(&t, path, &err);
        double took = seconds_since(&start);
        judge(&f, c, path, rc, &err, rc ? NULL : check_values(&t, gy_json_get(c, "tensors")), took);
        if (!rc)
            gy_tensors_close(&t);
        else
            assert_true(!t.n && !t.files && !t.arena.block);
    }
    close_folder(&f);
}

/* ---- index ---- */

/* The bytes that any loaded directory must have: those of the case that needs no index. */
static const char *same_tensors(const gy_tensors *t, const gy_tensors *model) {
    if (t->n != model->n) return "another number of tensors";
    for (int i = 0; i < t->n; i++) {
        const gy_tensor *a = &t->at[i], *b = &model->at[i];
        if (strcmp(a->name, b->name) || a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes))
            return "other tensors";
    }
    return NULL;
}

static void run_index(const char *dir, const char *model_dir) {
    folder f;
    gy_tensors model;
    gy_err err = {0};
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", dir, model_dir);
    assert_ok(gy_tensors_open_dir(&model, path, &err), err);
    open_folder(&f, dir);
    for (uint32_t i = 0; i < f.cases->n; i++) {
        const gy_json *c = &f.cases->item[i];
        gy_tensors t;
        struct timespec start;
        err = (gy_err){0};
        snprintf(path, sizeof path, "%s/%s", dir, gy_json_s(c, "id", "?"));
        clock_gettime(CLOCK_MONOTONIC, &start);
        gy_rc rc = gy_tensors_open_dir(&t, path, &err);
        double took = seconds_since(&start);
        judge(&f, c, path, rc, &err, rc ? NULL : same_tensors(&t, &model), took);
        if (!rc) gy_tensors_close(&t);
    }
    gy_tensors_close(&model);
    close_folder(&f);
}

/* ---- GGUF ---- */

static void run_gguf(const char *dir) {
    folder f;
    int to_model = 0;
    open_folder(&f, dir);
    for (uint32_t i = 0; i < f.cases->n; i++) {
        gy_json c = f.cases->item[i];
        char path[1200];
        gy_gguf g;
        gy_err err = {0};
        struct timespec start;
        snprintf(path, sizeof path, "%s/%s", dir, gy_json_s(&c, "file", "?"));
        clock_gettime(CLOCK_MONOTONIC, &start);
        gy_rc rc = gy_gguf_open(&g, path, &err);
        double took = seconds_since(&start);
        /* A sound container with an impossible model is for model/ to refuse, so it must open here.
         */
        if (!strcmp(gy_json_s(&c, "level", ""), "model") &&
            strcmp(gy_json_s(&c, "expect", ""), "load")) {
            if (rc) fail_msg("%s: a sound container was refused: %s", path, err.msg);
            to_model++;
        } else {
            judge(&f, &c, path, rc, &err,
                  rc ? NULL : check_values(&g.tensors, gy_json_get(&c, "tensors")), took);
        }
        if (!rc)
            gy_gguf_close(&g);
        else
            assert_true(!g.n && !g.tensors.files && !g.tensors.arena.block);
    }
    if (to_model) printf("%s: %d more are sound containers, for model/ to refuse\n", dir, to_model);
    close_folder(&f);
}

/* ---- config ---- */

static void run_config(const char *dir) {
    static const char *const of_model[] = {"missing-tensor", "shape", "architecture"};
    folder f;
    int to_model = 0;
    open_folder(&f, dir);
    for (uint32_t i = 0; i < f.cases->n; i++) {
        const gy_json *c = &f.cases->item[i];
        char path[1200], *text;
        size_t n;
        gy_json_doc doc;
        gy_err err = {0};
        struct timespec start;
        bool model = false;
        for (int k = 0; k < 3; k++) model |= !strcmp(gy_json_s(c, "class", ""), of_model[k]);
        snprintf(path, sizeof path, "%s/%s", dir, gy_json_s(c, "file", "?"));
        assert_ok(gy_file_read(path, 1 << 24, &text, &n, &err), err);
        clock_gettime(CLOCK_MONOTONIC, &start);
        gy_rc rc = gy_json_parse(&doc, text, n, &err);
        if (!rc) rc = gy_config_check(doc.root, &err);
        if (rc) gy_fail_in(&err, "%s", path);
        if (model && rc) fail_msg("%s: the configuration itself is sound: %s", path, err.msg);
        if (model)
            to_model++;
        else
            judge(&f, c, path, rc, &err, NULL, seconds_since(&start));
        gy_json_free(&doc);
        gy_free(text);
    }
    if (to_model) printf("%s: %d more need the tensors, for model/ to refuse\n", dir, to_model);
    close_folder(&f);
}

/* Every model directory of the fixtures and of the cases opens: configuration, quantisation,
 * tensors. */
static void open_models(const char *rel, int *passed, int *total) {
    DIR *d = opendir(shared_path(rel));
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        char path[1200];
        gy_config c;
        gy_tensors t = {0};
        gy_err err = {0};
        snprintf(path, sizeof path, "%s/%s", shared_path(rel), f->d_name);
        if (f->d_name[0] == '.' || strchr(f->d_name, '.'))
            continue; /* generators lie beside the folders */
        gy_rc rc = gy_config_open(&c, path, false, &err);
        if (!rc) rc = gy_tensors_open_dir(&t, path, &err);
        for (int i = 0; i < t.n && !rc; i++) {
            gy_config_quant q;
            rc = gy_config_quant_of(c.config.root, t.at[i].name, &q, &err);
        }
        if (rc) printf("MISS %s: %s\n", path, err.msg);
        *total += 1, *passed += !rc && t.n > 0;
        gy_tensors_close(&t);
        gy_config_close(&c);
    }
    closedir(d);
}

static void model_directories(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("fixtures/models/llama/config.json");
    int passed = 0, total = 0;
    open_models("fixtures/models", &passed, &total);
    open_models("cases/models", &passed, &total);
    printf("passed %d of %d model directories\n", passed, total);
    assert_true(total > 40 && passed == total);
}

static void own_safetensors(void **state) {
    (void)state, run_safetensors(data_path("file/safetensors"));
}
static void own_gguf(void **state) {
    (void)state, run_gguf(data_path("file/gguf"));
}
static void own_index(void **state) {
    (void)state, run_index(data_path("file/index"), "single");
}
static void own_config(void **state) {
    (void)state, run_config(data_path("file/config"));
}

static void shared_safetensors(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/safetensors/manifest.json");
    run_safetensors(shared_path("cases/safetensors"));
}

static void shared_gguf(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/gguf/manifest.json");
    run_gguf(shared_path("cases/gguf"));
}

static void shared_index(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/index/manifest.json");
    run_index(shared_path("cases/index"), "ok_single_no_index");
}

static void shared_config(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/config/manifest.json");
    run_config(shared_path("cases/config"));
}

int main(void) {
#ifndef SANITIZED
    setrlimit(RLIMIT_AS, &(struct rlimit){512u << 20, 512u << 20});
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_safetensors),    cmocka_unit_test(own_gguf),
        cmocka_unit_test(own_index),          cmocka_unit_test(own_config),
        cmocka_unit_test(shared_safetensors), cmocka_unit_test(shared_gguf),
        cmocka_unit_test(shared_index),       cmocka_unit_test(shared_config),
        cmocka_unit_test(model_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
