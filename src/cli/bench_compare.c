/* bench_compare - see bench.h. The file comes from outside: nothing in it is trusted. */
#include <math.h>

#include "base/mem.h"
#include "cli/bench.h"

static bool text_field(const gy_json *row, const char *key, const char **out) {
    *out = gy_json_s(row, key, NULL);
    return *out != NULL;
}

static bool count_field(const gy_json *row, const char *key, int64_t most, int64_t *out) {
    return gy_json_int(gy_json_get(row, key), out) && *out >= 0 && *out <= most;
}

/* NULL, or the field that is wrong; *expected says how. */
static const char *read_line(const gy_json *row, struct bench_old_line *l, const char **expected) {
    const struct {
        const char *key, **to;
    } texts[] = {{"model", &l->key.model},
                 {"quant", &l->key.quant},
                 {"arith", &l->key.arith},
                 {"kv", &l->key.kv}};
    const struct {
        const char *key;
        int *to;
    } counts[] = {{"threads", &l->key.threads},
                  {"n_depth", &l->key.depth},
                  {"batch", &l->key.batch},
                  {"n_prompt", &l->key.prompt},
                  {"n_gen", &l->key.gen}};
    *expected = "a string";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!text_field(row, texts[i].key, texts[i].to)) return texts[i].key;
    *expected = "a whole number that is not negative";
    if (!count_field(row, "weight_bytes", INT64_MAX, &l->key.weight_bytes)) return "weight_bytes";
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t v;
        if (!count_field(row, counts[i].key, INT32_MAX, &v)) return counts[i].key;
        *counts[i].to = (int)v;
    }
    *expected = "a number above 0";
    if (!gy_json_num(gy_json_get(row, "avg_ts"), &l->rate) || !isfinite(l->rate) || l->rate <= 0)
        return "avg_ts";
    return NULL;
}

static gy_rc parse(const char *text, size_t n, const char *path, bench_old *o, gy_err *err) {
    const char *expected;
    if (gy_json_parse(&o->doc, text, n, err)) return gy_fail_in(err, "%s", path);
    const gy_json *root = o->doc.root;
    if (!gy_json_is(root, GY_JSON_ARR) || !root->n)
        return gy_fail(err, GY_EFORMAT, "%s: expected the array that `gyre bench -o json` prints",
                       path);
    o->at = gy_alloc_n(root->n, sizeof *o->at);
    if (!o->at) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    for (; o->n < (int)root->n; o->n++) {
        const gy_json *row = root->item + o->n;
        if (row->kind != GY_JSON_OBJ)
            return gy_fail(err, GY_EFORMAT, "%s: [%d]: expected an object", path, o->n);
        const char *field = read_line(row, o->at + o->n, &expected);
        if (field)
            return gy_fail(err, GY_EFORMAT, "%s: [%d].%s: expected %s", path, o->n, field,
                           expected);
    }
    return GY_OK;
}

int bench_old_read(const cli_args *a, const char *path, bench_old *o) {
    gy_err err = {0};
    size_t n = 0;
    char *text = cli_read(path, &n, &err);
    *o = (bench_old){0};
    if (text) parse(text, n, path, o, &err);
    gy_free(text);
    if (!err.rc) return EXIT_OK;
    bench_old_free(o);
    return cli_usage(a, "--compare %s", err.msg);
}

void bench_old_free(bench_old *o) {
    gy_free(o->at);
    gy_json_free(&o->doc);
    *o = (bench_old){0};
}

static bool same(const bench_key *a, const bench_key *b) {
    return a->weight_bytes == b->weight_bytes && a->threads == b->threads && a->depth == b->depth &&
           a->batch == b->batch && a->prompt == b->prompt && a->gen == b->gen &&
           !strcmp(a->model, b->model) && !strcmp(a->quant, b->quant) &&
           !strcmp(a->arith, b->arith) && !strcmp(a->kv, b->kv);
}

double bench_old_rate(bench_old *o, const bench_key *key) {
    for (int i = 0; i < o->n; i++)
        if (same(&o->at[i].key, key)) return o->at[i].met = true, o->at[i].rate;
    return 0;
}

bool bench_slower(double old, double rate, double percent) {
    return rate < old * (1 - percent / 100);
}

void bench_name(const bench_key *k, char out[64]) {
    int n = 0;
    out[0] = 0;
    if (k->prompt) n = snprintf(out, 64, "pp%d", k->prompt);
    if (k->gen) n += snprintf(out + n, 64 - (size_t)n, "%stg%d", n ? "+" : "", k->gen);
    if (k->batch > 1) n += snprintf(out + n, 64 - (size_t)n, " x%d", k->batch);
    if (k->depth) snprintf(out + n, 64 - (size_t)n, " @ d%d", k->depth);
}
