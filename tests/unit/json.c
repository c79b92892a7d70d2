/* base/json: what its header promises. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <time.h>

#include "testlib.h"

#define parse_ok(doc, text) parse_ok_at(doc, text, strlen(text))
static void parse_ok_at(gy_json_doc *doc, const char *text, size_t n) {
    gy_err err = {0};
    if (gy_json_parse(doc, text, n, &err)) fail_msg("refused: %.60s: %s", text, err.msg);
}

static void round_trip(const char *text, const char *expected) {
    gy_json_doc doc;
    gy_buf b = {0};
    parse_ok(&doc, text);
    gy_json_write(&b, doc.root);
    if (strcmp(b.p, expected)) fail_msg("%s written as %s, %s expected", text, b.p, expected);
    gy_buf_free(&b);
    gy_json_free(&doc);
    assert_null(doc.root);
}

static void keeps_source_form(void **state) {
    (void)state;
    static const char *const same[] = {
        "1.0",
        "-0",
        "0.10",
        "1E400",
        "1e-7",
        "123456789012345678901234567890",
        "-12.50E+02",
        "NaN",
        "-Infinity",
        "Infinity",
        "null",
        "true",
        "false",
        "\"\"",
        "[]",
        "{}",
        "[[],{}]",
        "[1,2.0,\"x\",null,true]",
        "{\"b\":1,\"a\":{\"c\":[1]}}",
        "\"\\u0000\\u001f\\n\\t\\\\\\\"\"",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) round_trip(same[i], same[i]);
    round_trip(" [ 1 , 2 ]\r\n\t", "[1,2]");
    round_trip("\"\\u00e9\\ud83d\\ude00\\/\"", "\"\xC3\xA9\xF0\x9F\x98\x80/\"");
    round_trip("\"\\b\\f\"", "\"\\b\\f\"");
}

static void lone_surrogates(void **state) {
    (void)state;
    round_trip("\"\\ud83d\"", "\"\xEF\xBF\xBD\"");
    round_trip("\"\\ude00x\"", "\"\xEF\xBF\xBDx\"");
    round_trip("\"\\ud83d\\ud83d\\ude00\"", "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"");
    round_trip("\"\\ud83d\\n\"", "\"\xEF\xBF\xBD\\n\"");
    round_trip("\"\xEF\xBF\xBD\"", "\"\xEF\xBF\xBD\""); /* the character itself is legal */
}

static void duplicates_keep_first_place(void **state) {
    (void)state;
    round_trip("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}");
    round_trip("{\"a\":1,\"\\u0061\":2}", "{\"a\":2}");
    round_trip("{\"\":1,\"\":{\"x\":1,\"x\":2}}", "{\"\":{\"x\":2}}");
    /* A big object takes the hashed way: key i appears twice, the second half overwrites. */
    gy_buf text = {0};
    gy_buf_c(&text, '{');
    for (int i = 0; i < 4000; i++) gy_buf_printf(&text, "%s\"k%d\":%d", i ? "," : "", i % 2000, i);
    gy_buf_c(&text, '}');
    gy_json_doc doc;
    parse_ok(&doc, text.p);
    assert_int_equal(doc.root->n, 2000);
    for (uint32_t i = 0; i < 2000; i++) {
        char key[16];
        int64_t v = -1;
        snprintf(key, sizeof key, "k%u", i);
        assert_string_equal(doc.root->key[i].s, key);
        assert_true(gy_json_int(&doc.root->item[i], &v));
        assert_int_equal(v, i + 2000);
    }
    gy_err err = {0};
    gy_json_doc none;
    assert_int_equal(gy_json_parse_unique(&none, text.p, text.n, &err), GY_EFORMAT);
    assert_non_null(strstr(err.msg, "duplicate key"));
    gy_json_free(&doc);
    gy_buf_free(&text);
}

static void refuses_and_says_where(void **state) {
    (void)state;
    static const struct {
        const char *text, *where;
    } bad[] = {
        {"", "line 1, column 1"},
        {"[1,]", "column 4"},
        {"[1 2]", "column 4"},
        {"{\"a\" 1}", "column 6"},
        {"{\"a\":1,}", "column 8"},
        {"{a:1}", "column 2"},
        {"\n\n  tru", "line 3, column 3"},
        {"01", "column 1"},
        {"-", "column 1"},
        {"1.", "column 1"},
        {".5", "column 1"},
        {"1e", "column 1"},
        {"+1", "column 1"},
        {"[1", "column 3"},
        {"{\"a\":1", "column 7"},
        {"\"ab", "column 1"},
        {"\"a\nb\"", "column 3"},
        {"\"\\x\"", "column 3"},
        {"\"\\u12g4\"", "column 4"},
        {"1 1", "column 3"},
        {"{} x", "column 4"},
        {"[\"\xC3\xA9\", \xC3\xA9]", "column 7"},
        {"\"\xFF\"", "column 2"},
        {"\"\xC0\x80\"", "column 2"},
        {"\"\xED\xA0\x80\"", "column 2"},
        {"\"\xF4\x90\x80\x80\"", "column 2"},
        {"nul", "column 1"},
        {"-NaN", "column 1"},
        {"Inf", "column 1"},
        {"'a'", "column 1"},
        {"// x\n1", "column 1"},
        {"\"\\", "column 3"},
        {"\"\\u", "column 4"},
        {"\xEF\xBB\xBF{}", "column 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gy_err err = {0};
        gy_json_doc doc;
        gy_rc rc = gy_json_parse(&doc, bad[i].text, strlen(bad[i].text), &err);
        if (rc != GY_EFORMAT || doc.root) fail_msg("accepted: %s", bad[i].text);
        if (!strstr(err.msg, bad[i].where))
            fail_msg("%s: %s, %s expected", bad[i].text, err.msg, bad[i].where);
        assert_int_equal(gy_json_parse(&doc, bad[i].text, strlen(bad[i].text), NULL), GY_EFORMAT);
    }
    gy_json_doc doc;
    assert_int_equal(gy_json_parse(&doc, "\"a\0b\"", 5, NULL),
                     GY_EFORMAT); /* a raw NUL is a control character */
    assert_int_equal(gy_json_parse(&doc, NULL, 0, NULL), GY_EFORMAT);
}

static void depth_is_limited(void **state) {
    (void)state;
    char text[1100];
    for (int deep = 511; deep <= 513; deep++) {
        gy_json_doc doc;
        memset(text, '[', (size_t)deep), memset(text + deep, ']', (size_t)deep);
        gy_rc rc = gy_json_parse(&doc, text, (size_t)deep * 2, NULL);
        if (rc != (deep > 512 ? GY_EFORMAT : GY_OK)) fail_msg("depth %d: %s", deep, gy_rc_name(rc));
        gy_json_free(&doc);
    }
    /* A million open brackets neither crash nor take long. */
    size_t n = 1000000;
    char *many = malloc(n);
    gy_json_doc doc;
    memset(many, '[', n);
    assert_int_equal(gy_json_parse(&doc, many, n, NULL), GY_EFORMAT);
    free(many);
}

static void readers_give_defaults(void **state) {
    (void)state;
    gy_json_doc doc;
    parse_ok(
        &doc,
        "{\"i\":-7,\"f\":2.5,\"big\":1e300,\"s\":\"x\",\"t\":true,\"n\":null,\"o\":{\"p\":{\"q\":5}"
        "},"
        "\"max\":9223372036854775807,\"min\":-9223372036854775808,\"over\":9223372036854775808,"
        "\"inf\":{\"__float__\":\"Infinity\"},\"nan\":NaN,\"sinf\":\"-Infinity\",\"e\":1e2}");
    const gy_json *r = doc.root;
    int64_t i = 0;
    double d = 0;
    assert_int_equal(gy_json_i(r, "i", 1), -7);
    assert_int_equal(gy_json_i(r, "f", 1), 2);
    assert_int_equal(gy_json_i(r, "s", 1), 1);
    assert_int_equal(gy_json_i(r, "absent", 9), 9);
    assert_int_equal(gy_json_i(NULL, "i", 9), 9);
    assert_int_equal(gy_json_i(r, "big", 1), INT64_MAX);
    assert_int_equal(gy_json_i(r, "nan", 3), 3);
    assert_true(gy_json_int(gy_json_get(r, "max"), &i) && i == INT64_MAX);
    assert_true(gy_json_int(gy_json_get(r, "min"), &i) && i == INT64_MIN);
    assert_false(gy_json_int(gy_json_get(r, "over"), &i));
    assert_false(gy_json_int(gy_json_get(r, "e"), &i));
    assert_false(gy_json_int(gy_json_get(r, "f"), &i));
    assert_true(gy_json_f(r, "f", 0) == 2.5 && gy_json_f(r, "e", 0) == 100 &&
                gy_json_f(r, "n", 4) == 4);
    assert_true(gy_json_num(gy_json_get(r, "inf"), &d) && isinf(d) && d > 0);
    assert_true(gy_json_num(gy_json_get(r, "sinf"), &d) && isinf(d) && d < 0);
    assert_true(gy_json_num(gy_json_get(r, "nan"), &d) && isnan(d));
    assert_false(gy_json_num(gy_json_get(r, "s"), &d));
    assert_string_equal(gy_json_s(r, "s", "no"), "x");
    assert_string_equal(gy_json_s(r, "i", "no"), "no");
    assert_true(gy_json_b(r, "t", false));
    assert_true(gy_json_b(r, "n", true));
    assert_int_equal(gy_json_i(gy_json_path(r, "o.p"), "q", 0), 5);
    assert_true(gy_json_int(gy_json_path(r, "o.p.q"), &i) && i == 5);
    assert_null(gy_json_path(r, "o.x.q"));
    assert_null(gy_json_path(NULL, "o"));
    assert_true(gy_json_null(gy_json_get(r, "n")) && gy_json_null(NULL));
    gy_json_free(&doc);
}

static void strings_hold_nuls(void **state) {
    (void)state;
    gy_json_doc doc;
    parse_ok(&doc, "{\"a\\u0000b\":\"x\\u0000y\"}");
    assert_int_equal(doc.root->key[0].n, 3);
    assert_memory_equal(doc.root->item[0].s, "x\0y", 4);
    gy_json_free(&doc);
}

/* Against the C library on the shortest and on hard decimal forms; the locale must not matter. */
static void numbers_round_correctly(void **state) {
    (void)state;
    static const char *const text[] = {"0.1",
                                       "1e23",
                                       "8.533e22",
                                       "2.2250738585072011e-308",
                                       "4.9e-324",
                                       "1e-400",
                                       "9007199254740993",
                                       "179769313486231580793728971405301e276",
                                       "0.500000000000000166533453693773481063544750213623046875"};
    const char *comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    double expected[9];
    for (int i = 0; i < 9; i++) expected[i] = strtod(text[i], NULL);
    bool found = false;
    for (int i = 0; i < 4 && !found; i++) found = setlocale(LC_NUMERIC, comma[i]) != NULL;
    if (!found) printf("notice: no locale with a decimal comma is installed\n");
    for (int i = 0; i < 9; i++) {
        gy_json_doc doc;
        double d;
        parse_ok(&doc, text[i]);
        assert_true(gy_json_num(doc.root, &d));
        if (memcmp(&d, &expected[i], 8))
            fail_msg("%s read as %a, %a expected", text[i], d, expected[i]);
        gy_json_free(&doc);
    }
    setlocale(LC_NUMERIC, "C");
}

/* Random documents are written, read and written again to the same text; every prefix is refused or
 * read, never read past its end (the copy is exact, so that a sanitizer sees it). */
static void random_value(gy_buf *b, uint64_t *seed, int depth) {
    static const char *const atom[] = {
        "0",
        "-1",
        "3.25",
        "1e9",
        "null",
        "true",
        "false",
        "\"\"",
        "\"\\u00e9\\n\"",
        "\"\xE4\xB8\xAD\xE6\x96\x87 text that is longer than eight bytes\"",
        "NaN"};
    uint32_t kind = depth > 5 ? 0 : test_rand(seed) % 4, n = test_rand(seed) % 5;
    if (kind < 2) {
        gy_buf_puts(b, atom[test_rand(seed) % (sizeof atom / sizeof *atom)]);
        return;
    }
    gy_buf_c(b, kind == 2 ? '[' : '{');
    for (uint32_t i = 0; i < n; i++) {
        if (i) gy_buf_c(b, ',');
        if (kind == 3) gy_buf_printf(b, "\"key%u\":", i);
        random_value(b, seed, depth + 1);
    }
    gy_buf_c(b, kind == 2 ? ']' : '}');
}

static void random_documents(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < 300; i++) {
        gy_buf text = {0}, once = {0}, twice = {0};
        gy_json_doc doc;
        random_value(&text, &seed, 0);
        parse_ok(&doc, text.p);
        gy_json_write(&once, doc.root);
        gy_json_free(&doc);
        parse_ok(&doc, once.p);
        gy_json_write(&twice, doc.root);
        assert_string_equal(once.p, twice.p);
        gy_json_free(&doc);
        for (size_t n = 0; n < text.n && n < 200; n++) {
            char *copy = malloc(n ? n : 1);
            memcpy(copy, text.p, n);
            if (!gy_json_parse(&doc, copy, n, NULL)) gy_json_free(&doc);
            free(copy);
        }
        gy_buf_free(&text), gy_buf_free(&once), gy_buf_free(&twice);
    }
}

/* Every allocation of a parse fails once: the document stays empty, nothing leaks (the sanitizer's
 * leak check). */
static void allocation_failures(void **state) {
    (void)state;
    gy_buf text = {0};
    gy_buf_puts(&text, "{\"list\":[");
    for (int i = 0; i < 9000; i++)
        gy_buf_printf(&text, "%s{\"id\":%d,\"s\":\"token\"}", i ? "," : "", i);
    gy_buf_puts(&text, "],");
    for (int i = 0; i < 500; i++) gy_buf_printf(&text, "%s\"m%d\":%d", i ? "," : "", i, i);
    gy_buf_c(&text, '}');
    int failed = 0;
    for (long nth = 1;; nth++) {
        gy_json_doc doc;
        gy_err err = {0};
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_json_parse(&doc, text.p, text.n, &err);
        gy_alloc_fail_at(0);
        if (!rc) {
            gy_json_free(&doc);
            break;
        }
        failed++;
        if (rc != GY_ENOMEM || doc.root || doc.arena.block || !err.msg[0])
            fail_msg("allocation %ld fails: %s, root %p", nth, gy_rc_name(rc),
                     (const void *)doc.root);
    }
    printf("%d allocations failed in turn\n", failed);
    assert_true(failed > 10);
    gy_buf_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_source_form),
        cmocka_unit_test(lone_surrogates),
        cmocka_unit_test(duplicates_keep_first_place),
        cmocka_unit_test(refuses_and_says_where),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(readers_give_defaults),
        cmocka_unit_test(strings_hold_nuls),
        cmocka_unit_test(numbers_round_correctly),
        cmocka_unit_test(random_documents),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
