/* text/regex against the spans that Oniguruma gives (tests/data/text/regex.json, made by
 * make_text.py beside it), its two machines against each other, and what it must refuse or bound.
 */
#include "text/regex.h"

#include <pthread.h>
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "testlib.h"
#include "text/regex_prog.h"

static void load(const char *path, gy_json_doc *doc) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    gy_buf b = {0};
    char block[65536];
    for (size_t got; (got = fread(block, 1, sizeof block, f)) > 0;) gy_buf_add(&b, block, got);
    fclose(f);
    gy_err err = {0};
    assert_ok(gy_json_parse(doc, b.p, b.n, &err), err);
    gy_buf_free(&b);
}

typedef bool (*find_fn)(const gy_regex *re, const char *s, size_t n, size_t from, size_t *start,
                        size_t *end);

static bool find_by_list(const gy_regex *re, const char *s, size_t n, size_t from, size_t *start,
                         size_t *end) {
    return gy_rx_list_find(re, 0, (gy_rx_mode){0}, s, n, from, start, end);
}

/* All matches that are not empty, as "0-2 5-7 ". An empty match right after a match is none. */
static void all_matches(find_fn find, const gy_regex *re, const char *s, size_t n, gy_buf *out) {
    size_t at = 0, start, end, last = SIZE_MAX;
    out->n = 0;
    gy_buf_puts(out, "");
    while (at <= n && find(re, s, n, at, &start, &end)) {
        if (start < at || end < start || end > n)
            fail_msg("match %zu-%zu from %zu in %zu bytes", start, end, at, n);
        if (start == end && end == last) {
            uint32_t cp;
            at += at < n ? gy_utf8_get(s + at, n - at, &cp) : 1;
            continue;
        }
        if (end > start) gy_buf_printf(out, "%zu-%zu ", start, end);
        at = last = end;
    }
}

static void check_case(const char *pattern, const gy_regex *re, const gy_json *c) {
    const gy_json *text = gy_json_get(c, "text"), *spans = gy_json_get(c, "spans");
    gy_buf want = {0}, got = {0};
    gy_buf_puts(&want, "");
    for (uint32_t i = 0; i < spans->n; i++) {
        gy_buf_printf(&want, "%s-%s ", spans->item[i].item[0].s, spans->item[i].item[1].s);
    }
    all_matches(gy_regex_find, re, text->s, text->n, &got);
    if (strcmp(want.p, got.p) != 0)
        fail_msg("/%s/ on \"%s\": %s, expected %s", pattern, text->s, got.p, want.p);
    all_matches(find_by_list, re, text->s, text->n, &got);
    if (strcmp(want.p, got.p) != 0)
        fail_msg("/%s/ on \"%s\", by list: %s, expected %s", pattern, text->s, got.p, want.p);
    gy_buf_free(&want), gy_buf_free(&got);
}

static void test_oracle(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    load(data_path("text/regex.json"), &doc);
    int cases = 0;
    for (uint32_t i = 0; i < doc.root->n; i++) {
        const gy_json *row = &doc.root->item[i], *pattern = gy_json_get(row, "pattern"),
                      *list = gy_json_get(row, "cases");
        gy_regex *re = NULL;
        gy_err err = {0};
        if (gy_regex_new(pattern->s, pattern->n, &re, &err))
            fail_msg("/%s/: %s", pattern->s, err.msg);
        for (uint32_t k = 0; k < list->n; k++, cases++) check_case(pattern->s, re, &list->item[k]);
        gy_regex_free(re);
    }
    printf("%u patterns, %d texts\n", doc.root->n, cases);
    assert_true(cases > 1500);
    gy_json_free(&doc);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        gy_rc rc;
        const char *message; /* part of it */
    } cases[] = {
        {"(a)\\1", GY_EUNSUPPORTED, "back-reference"},
        {"\\h", GY_EUNSUPPORTED, "escape \\h"},
        {"\\R", GY_EUNSUPPORTED, "escape \\R"},
        {"\\X", GY_EUNSUPPORTED, "escape \\X"},
        {"\\Ga", GY_EUNSUPPORTED, "escape \\G"},
        {"a\\Kb", GY_EUNSUPPORTED, "escape \\K"},
        {"\\pL", GY_EUNSUPPORTED, "\\p without braces"},
        {"\\p{Foo}", GY_EUNSUPPORTED, "property \\p{Foo}"},
        {"[[:alpha:]]", GY_EUNSUPPORTED, "[:alpha:]"},
        {"(?x: a)", GY_EUNSUPPORTED, "group option"},
        {"(?(1)a)", GY_EUNSUPPORTED, "conditional"},
        {"(?>ab|a)c", GY_EUNSUPPORTED, "atomic group"},
        {"(?:ab)*+", GY_EUNSUPPORTED, "possessive repeat of a group"},
        {"(?<=ab)c", GY_EUNSUPPORTED, "lookbehind"},
        {"(?=a(?=b(?=cd)))", GY_EUNSUPPORTED, "lookahead in lookahead"},
        {"\\xE9", GY_EUNSUPPORTED, "\\xHH above 7F"},
        {"a(", GY_EFORMAT, "at byte 2"},
        {"a)", GY_EFORMAT, "at byte 1"},
        {"[a", GY_EFORMAT, "class without ]"},
        {"[]", GY_EFORMAT, "class without ]"},
        {"[b-a]", GY_EFORMAT, "out of order"},
        {"[a-\\d]", GY_EFORMAT, "end of a range"},
        {"[\\w-a]", GY_EFORMAT, "start of a range"},
        {"*a", GY_EFORMAT, "repeat of nothing"},
        {"a|+", GY_EFORMAT, "repeat of nothing"},
        {"a{3,2}", GY_EFORMAT, "out of order"},
        {"\\", GY_EFORMAT, "backslash"},
        {"\\x{110000}", GY_EFORMAT, "no code point"},
        {"\\x{D800}", GY_EFORMAT, "no code point"},
        {"\\u12", GY_EFORMAT, "hexadecimal"},
        {"\\p{L", GY_EFORMAT, "without }"},
        {"(?#", GY_EFORMAT, "comment"},
        {"a{1,1000}{1,1000}", GY_ELIMIT, "instructions"},
        {"a{200000}", GY_ELIMIT, "100000"},
        {"(?:){100000}{100000}{100000}", GY_ELIMIT, "repeats too much"},
        {"a*********b", GY_ELIMIT, "nine times"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_regex *re = NULL;
        gy_err err = {0};
        gy_rc rc = gy_regex_new(cases[i].pattern, strlen(cases[i].pattern), &re, &err);
        if (rc != cases[i].rc || re || !strstr(err.msg, cases[i].message)) {
            fail_msg("/%s/: %s \"%s\", expected %s with \"%s\"", cases[i].pattern, gy_rc_name(rc),
                     err.msg, gy_rc_name(cases[i].rc), cases[i].message);
        }
    }
}

static gy_regex *compile(const char *pattern) {
    gy_regex *re = NULL;
    gy_err err = {0};
    if (gy_regex_new(pattern, strlen(pattern), &re, &err)) fail_msg("/%s/: %s", pattern, err.msg);
    return re;
}

static void test_deep(void **state) {
    (void)state;
    static const char *const part[] = {"(", "[", "(?:a|", "(?=", "(?i)"};
    for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
        gy_buf b = {0};
        for (int i = 0; i < 50000; i++) gy_buf_puts(&b, part[k]);
        gy_regex *re = NULL;
        gy_err err = {0};
        gy_rc rc = gy_regex_new(b.p, b.n, &re, &err);
        if (rc != GY_ELIMIT) fail_msg("%s nested: %s %s", part[k], gy_rc_name(rc), err.msg);
        gy_buf_free(&b);
    }
}

/* Bad bytes read as U+FFFD for each maximal subpart, before and after the place looked at. */
static void test_bad_bytes(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text, *spans;
    } cases[] = {
        {"\\x{FFFD}", "a\xFF\xE2\x82z\xC3", "1-2 2-4 5-6 "},
        {".", "\xF0\x9F\x98\xE9\x80", "0-3 3-5 "},
        {"(?<=\\x{FFFD})b",
         "\xE2\x82"
         "b\xFF"
         "b\x80\x80"
         "bab",
         "2-3 4-5 7-8 "},
        {"(?<=\\p{L})b",
         "\xC3\xA9"
         "b\xA9"
         "b",
         "2-3 "},
        {"\\p{L}+",
         "\xED\xA0\x80"
         "ab\xC0\xAFz",
         "3-5 7-8 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_regex *re = compile(cases[i].pattern);
        gy_buf got = {0};
        all_matches(gy_regex_find, re, cases[i].text, strlen(cases[i].text), &got);
        if (strcmp(got.p, cases[i].spans) != 0)
            fail_msg("case %zu /%s/: %s, expected %s", i, cases[i].pattern, got.p, cases[i].spans);
        all_matches(find_by_list, re, cases[i].text, strlen(cases[i].text), &got);
        if (strcmp(got.p, cases[i].spans) != 0) fail_msg("case %zu by list: %s", i, got.p);
        gy_buf_free(&got);
        gy_regex_free(re);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Searches that a backtracking or restarting engine needs minutes for. Limits are far above what a
 * pass takes. */
static void test_linear(void **state) {
    (void)state;
    static const char *const patterns[] = {"a*b",           "(?:a+)+b",         "(?:a|aa)+b",
                                           "(?:a*)*c",      "(?:a?){50}a{50}c", "[ab]*a[ab]{12}c",
                                           "(?:a|b|ab)*c|z"};
    gy_buf text = {0};
    for (int i = 0; i < 200000; i++) gy_buf_c(&text, 'a');
    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
        gy_regex *re = compile(patterns[k]);
        size_t start, end;
        double t = seconds();
        if (gy_regex_find(re, text.p, text.n, 0, &start, &end))
            fail_msg("/%s/ found %zu-%zu", patterns[k], start, end);
        t = seconds() - t;
        if (t > 20) fail_msg("/%s/ took %.1f s for 200 kB", patterns[k], t);
        gy_regex_free(re);
    }
    gy_buf_free(&text);
}

/* More states than there is room for: the list machine takes over in the middle, with the same
 * result. */
static void test_many_states(void **state) {
    (void)state;
    gy_regex *re = compile("(?:a|b)*a(?:a|b){14}c|[ab]*c");
    uint64_t seed = test_seed();
    gy_buf text = {0}, a = {0}, b = {0};
    for (int i = 0; i < 60000; i++)
        gy_buf_c(&text, test_rand(&seed) % 400 ? (test_rand(&seed) & 1 ? 'a' : 'b') : 'c');
    size_t at = 0, s1, e1, s2, e2;
    for (int i = 0; i < 100 && gy_regex_find(re, text.p, text.n, at, &s1, &e1); i++) {
        assert_true(find_by_list(re, text.p, text.n, at, &s2, &e2));
        if (s1 != s2 || e1 != e2)
            fail_msg("from %zu: %zu-%zu and by list %zu-%zu", at, s1, e1, s2, e2);
        at = e1;
    }
    printf("%u states of %u\n", re->dfa.n_states, re->dfa.max_states);
    assert_int_equal(re->dfa.n_states, re->dfa.max_states);
    gy_buf_free(&text), gy_buf_free(&a), gy_buf_free(&b);
    gy_regex_free(re);
}

typedef struct {
    const gy_regex *re;
    const char *text;
    size_t n;
    gy_buf spans;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    all_matches(gy_regex_find, w->re, w->text, w->n, &w->spans);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static const char text[] = "Hello world, it's 2026! \xE4\xB8\xAD\xE6\x96\x87 12345 ... "
                               "caf\xC3\xA9\r\n\r\n  def f(x): return x**2  ";
    for (int round = 0; round < 50; round++) {
        gy_regex *re = compile("(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}(?=(?:\\p{N}{3}"
                               ")*\\b)| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+(?!\\S)|\\s+");
        worker w[4];
        pthread_t id[4];
        for (int i = 0; i < 4; i++) {
            w[i] = (worker){.re = re, .text = text, .n = sizeof text - 1};
            assert_int_equal(pthread_create(&id[i], NULL, work, &w[i]), 0);
        }
        for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
        for (int i = 1; i < 4; i++) assert_string_equal(w[i].spans.p, w[0].spans.p);
        for (int i = 0; i < 4; i++) gy_buf_free(&w[i].spans);
        gy_regex_free(re);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    const char *pattern = "(?i:'s|[^\\W&&[a-z]])+(?!\\s+x)|\\p{L}{1,3}(?=a)";
    for (int nth = 1;; nth++) {
        gy_regex *re = NULL;
        gy_err err = {0};
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_regex_new(pattern, strlen(pattern), &re, &err);
        size_t start = 0, end = 0;
        if (!rc) gy_regex_find(re, "a's b", 5, 0, &start, &end);
        bool reached = false;
        if (!rc) { /* one more allocation tells whether the failure was still to come */
            void *p = gy_alloc(1);
            reached = p != NULL;
            gy_free(p);
        }
        gy_alloc_fail_at(0);
        if (rc && rc != GY_ENOMEM) fail_msg("allocation %d: %s", nth, err.msg);
        if (!rc) gy_regex_free(re);
        if (!rc && reached && nth > 60) break;
        assert_true(nth < 2000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_deep),      cmocka_unit_test(test_linear),
        cmocka_unit_test(test_bad_bytes), cmocka_unit_test(test_many_states),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
