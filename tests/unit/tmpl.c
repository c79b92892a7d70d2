/* tmpl: the template engine against recorded renderings of the reference (jinja2 in transformers'
 * environment).
 *
 * shared/fixtures/templates/semantics.json, shared/cases/template/cases.json and our own
 * tests/data/text/tmpl_*.json (made by tools/make_tmpl_cases.py). A case is right when text is
 * equal byte for byte, or both refuse. */
#include <time.h>

#include "testlib.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tmpl.h"

/* Where the reference refuses and gyre, by spec/serving.md 20.3, does not: lists and dicts may be
 * changed. */
static const char *const mutable_cases[][2] = {
    {"{% set l2 = [] %}{{ l2.append(1) }}", "None"},
    {"{% set x = d.pop('b') %}", ""},
    {"{% set _ = messages.append({'role': 'x'}) %}{{ messages|length }}", "2"},
};

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    gy_buf b = {0};
    char block[65536];
    if (!f) return NULL;
    for (size_t k; (k = fread(block, 1, sizeof block, f)) > 0;) gy_buf_add(&b, block, k);
    fclose(f);
    return gy_buf_take(&b, n);
}

static void load(const char *path, gy_json_doc *doc) {
    size_t n;
    gy_err err = {0};
    char *text = read_file(path, &n);
    assert_non_null(text);
    assert_ok(gy_json_parse(doc, text, n, &err), err);
    gy_free(text);
}

/* Sets the clock to an ISO time, as the reference's local time. */
static void set_clock(const char *iso) {
    struct tm tm = {0};
    char text[32];
    assert_int_equal(6, sscanf(iso, "%d-%d-%dT%d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                               &tm.tm_hour, &tm.tm_min, &tm.tm_sec));
    tm.tm_year -= 1900, tm.tm_mon--;
    setenv("TZ", "UTC0", 1), tzset();
    snprintf(text, sizeof text, "%lld", (long long)timegm(&tm));
    setenv("GYRE_NOW", text, 1);
}

static gy_rc render(const char *source, size_t n, const gy_json *vars, gy_buf *out, gy_err *err) {
    gy_tmpl *t = NULL;
    gy_rc rc = gy_tmpl_parse(source, n, &t, err);
    if (!rc) rc = gy_tmpl_render(t, vars, NULL, out, err);
    gy_tmpl_free(t);
    return rc;
}

/* One case; message is the raise_exception text, or NULL. Returns whether it is as expected. */
static bool run_case(const char *id, const gy_json *source, const gy_json *vars,
                     const gy_json *want, bool fails, const char *message) {
    gy_buf out = {0};
    gy_err err = {0};
    const char *text = want ? want->s : "";
    size_t n = want ? want->n : 0;
    for (size_t i = 0; i < sizeof mutable_cases / sizeof *mutable_cases; i++)
        if (strcmp(source->s, mutable_cases[i][0]) == 0)
            text = mutable_cases[i][1], n = strlen(text), fails = false;
    gy_rc rc = render(source->s, source->n, vars, &out, &err);
    bool ok =
        fails ? rc != GY_OK : rc == GY_OK && out.n == n && memcmp(out.p ? out.p : "", text, n) == 0;
    if (ok && message) ok = rc == GY_EARG && strcmp(err.msg, message) == 0;
    if (ok && fails && !message) ok = rc != GY_EARG && strstr(err.msg, "line ") != NULL;
    if (!ok)
        printf("MISS %s: %s\n   got  %s %s\n   want %s\n", id, source->s,
               rc ? gy_rc_name(rc) : "text:",
               rc      ? err.msg
               : out.p ? out.p
                       : "",
               fails ? message ? message : "an error" : text);
    gy_buf_free(&out);
    return ok;
}

static void report(const char *file, int passed, int total) {
    printf("%s: %d/%d\n", file, passed, total);
    assert_true(total > 0);
    assert_int_equal(passed, total);
}

static void test_semantics(void **state) {
    (void)state;
    const char *rel = "fixtures/templates/semantics.json";
    SKIP_WITHOUT_SHARED(rel);
    gy_json_doc doc = {0};
    load(shared_path(rel), &doc);
    const gy_json *vars = gy_json_get(doc.root, "variables"),
                  *groups = gy_json_get(doc.root, "groups");
    set_clock(gy_json_s(doc.root, "fixed_now", ""));
    int passed = 0, total = 0;
    for (uint32_t g = 0; g < groups->n; g++)
        for (uint32_t i = 0; i < groups->item[g].n; i++, total++) {
            const gy_json *c = &groups->item[g].item[i], *error = gy_json_get(c, "error");
            bool raised = error && strcmp(gy_json_s(error, "type", ""), "TemplateError") == 0;
            passed += run_case(groups->key[g].s, gy_json_get(c, "template"), vars,
                               gy_json_get(c, "expected"), error,
                               raised ? gy_json_s(error, "message", "") : NULL);
        }
    gy_json_free(&doc);
    report(rel, passed, total);
}

static void run_cases(const char *path, const char *name, const char *clock) {
    gy_json_doc doc = {0};
    load(path, &doc);
    const gy_json *cases = gy_json_get(doc.root, "cases"),
                  *shared = gy_json_get(doc.root, "context");
    set_clock(gy_json_s(doc.root, "fixed_now", clock));
    int passed = 0, total = 0;
    for (uint32_t i = 0; i < cases->n; i++, total++) {
        const gy_json *c = &cases->item[i], *vars = gy_json_get(c, "context");
        const char *error = gy_json_s(c, "error", NULL);
        bool raised = error && strcmp(error, "raised") == 0;
        passed +=
            run_case(gy_json_s(c, "id", name), gy_json_get(c, "template"), vars ? vars : shared,
                     gy_json_get(c, "render"), error, raised ? gy_json_s(c, "message", "") : NULL);
    }
    gy_json_free(&doc);
    report(name, passed, total);
}

static void test_cases(void **state) {
    (void)state;
    const char *rel = "cases/template/cases.json";
    SKIP_WITHOUT_SHARED(rel);
    run_cases(shared_path(rel), rel, "2026-07-04T09:05:07");
}

static void test_written(void **state) {
    (void)state;
    run_cases(data_path("text/tmpl_cases.json"), "tmpl_cases.json", "");
}

static void test_random(void **state) {
    (void)state;
    run_cases(data_path("text/tmpl_random.json"), "tmpl_random.json", "");
}

int main(int argc, char **argv) {
    if (argc > 1) { /* a file of cases, for tools/make_tmpl_cases.py */
        run_cases(argv[1], argv[1], "2026-07-04T09:05:07");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_semantics),
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
