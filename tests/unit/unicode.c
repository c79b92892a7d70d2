/* text/unicode against Unicode 16 data of two other programs: tests/data/text/unicode.txt (made by
 * make_unicode.py beside it) and the classes that the reference tokenizer's regular expressions
 * use. */
#include "text/unicode.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "testlib.h"

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    gy_buf b = {0};
    char block[65536];
    for (size_t got; (got = fread(block, 1, sizeof block, f)) > 0;) gy_buf_add(&b, block, got);
    fclose(f);
    char *text = gy_buf_take(&b, n);
    assert_non_null(text);
    return text;
}

/* "1f600.301" to UTF-8. */
static void from_hex(gy_buf *b, const char *s) {
    b->n = 0;
    gy_buf_need(b, 0);
    b->p[0] = 0;
    if (*s == '-') return;
    while (*s) {
        char *end;
        gy_buf_utf8(b, (uint32_t)strtoul(s, &end, 16));
        s = *end ? end + 1 : end;
    }
}

static uint64_t fnv(uint64_t h, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 0x100000001B3;
    return h;
}

static const char *const form_name[] = {"NFC", "NFD", "NFKC", "NFKD"};

static uint64_t digest_of(gy_nform form) {
    uint64_t h = 0xCBF29CE484222325;
    gy_buf out = {0};
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        char s[4];
        out.n = 0;
        gy_uc_normalize(&out, form, s, gy_utf8_put(s, cp));
        gy_buf_c(&out, '\n');
        h = fnv(h, out.p, out.n);
    }
    gy_buf_free(&out);
    return h;
}

static void check_equal(int line, const char *what, const gy_buf *got, const gy_buf *want) {
    if (got->n == want->n && !memcmp(got->p, want->p, got->n)) return;
    fail_msg("unicode.txt:%d: %s gives \"%s\", expected \"%s\"", line, what, got->p, want->p);
}

static void apply(gy_buf *out, char kind, int which, const gy_buf *text) {
    out->n = 0;
    gy_buf_need(out, 0);
    if (kind == 'N')
        gy_uc_normalize(out, (gy_nform)which, text->p, text->n);
    else if (which == 0)
        gy_uc_upper_text(out, text->p, text->n);
    else if (which == 1)
        gy_uc_lower_text(out, text->p, text->n);
    else
        gy_uc_title_text(out, text->p, text->n);
}

static void test_vectors(void **state) {
    (void)state;
    static const char *const case_name[] = {"upper", "lower", "title"};
    size_t n;
    char *text = read_file(data_path("text/unicode.txt"), &n), *save = NULL;
    int line = 0, digests = 0, normals = 0, cases = 0;
    gy_buf in = {0}, want = {0}, got = {0};
    for (char *row = strtok_r(text, "\n", &save); row; row = strtok_r(NULL, "\n", &save)) {
        char *word = NULL, *kind = strtok_r(row, " ", &word), *first = strtok_r(NULL, " ", &word);
        line++;
        if (*kind == 'D') {
            int form = 0;
            while (strcmp(form_name[form], first) != 0) form++;
            uint64_t h = strtoull(strtok_r(NULL, " ", &word), NULL, 16);
            if (digest_of((gy_nform)form) != h)
                fail_msg("%s: the digest of all code points differs", first);
            digests++;
            continue;
        }
        from_hex(&in, first);
        for (int i = 0; i < (*kind == 'N' ? 4 : 3); i++) {
            from_hex(&want, strtok_r(NULL, " ", &word));
            apply(&got, *kind, i, &in);
            check_equal(line, *kind == 'N' ? form_name[i] : case_name[i], &got, &want);
        }
        *kind == 'N' ? normals++ : cases++;
    }
    printf("%d digests, %d normal texts, %d cased texts\n", digests, normals, cases);
    assert_int_equal(digests, 4);
    assert_true(normals > 300 && cases > 300);
    gy_buf_free(&in), gy_buf_free(&want), gy_buf_free(&got);
    gy_free(text);
}

static const char *const cat_name[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                       "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                       "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

static bool in_class(const char *cls, uint32_t cp) {
    if (!strcmp(cls, "s")) return gy_uc_space(cp);
    return !strncmp(cat_name[gy_uc_category(cp)], cls, strlen(cls));
}

static void test_classes(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("fixtures/tokenizers/unicode_classes.json");
    size_t n;
    char *text = read_file(shared_path("fixtures/tokenizers/unicode_classes.json"), &n);
    gy_json_doc doc = {0};
    gy_err err = {0};
    assert_ok(gy_json_parse(&doc, text, n, &err), err);
    const gy_json *classes = gy_json_get(doc.root, "classes");
    assert_non_null(classes);
    for (uint32_t c = 0; c < classes->n; c++) {
        const gy_json *ranges = &classes->item[c];
        const char *cls = classes->key[c].s;
        uint32_t r = 0;
        for (uint32_t cp = 0; cp < 0x110000; cp++) {
            if (cp >= 0xD800 && cp < 0xE000) continue;
            int64_t lo = 0, hi = -1;
            for (; r < ranges->n; r++) {
                gy_json_int(&ranges->item[r].item[0], &lo);
                gy_json_int(&ranges->item[r].item[1], &hi);
                if (hi >= cp) break;
            }
            bool want = r < ranges->n && cp >= lo && cp <= hi;
            if (in_class(cls, cp) != want)
                fail_msg("\\p{%s}: U+%04X should %sbe in it", cls, cp, want ? "" : "not ");
        }
    }
    printf("%u classes\n", classes->n);
    assert_int_equal(classes->n, 13);
    gy_json_free(&doc);
    gy_free(text);
}

static void test_fold(void **state) {
    (void)state;
    static const struct {
        uint32_t cp, fold;
    } cases[] = {{'A', 'a'},         {'a', 'a'},         {0x17F, 's'},     {0x212A, 'k'},
                 {0x130, 0x130},     {0xDF, 0xDF},       {0x1E9E, 0xDF},   {0x3C2, 0x3C3},
                 {0x1C5, 0x1C6},     {0x1F88, 0x1F80},   {0x13A0, 0x13A0}, {0xAB70, 0x13A0},
                 {0x13F8, 0x13F0},   {0x10400, 0x10428}, {0xFB05, 0xFB06}, {0x1FD3, 0x390},
                 {0x1E921, 0x1E943}, {0xA7DC, 0x19B},    {0x1C89, 0x1C8A}, {0x110000, 0x110000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (gy_uc_fold(cases[i].cp) != cases[i].fold) {
            fail_msg("fold(U+%04X) is U+%04X, expected U+%04X", cases[i].cp,
                     gy_uc_fold(cases[i].cp), cases[i].fold);
        }
    }
}

static void test_printable(void **state) {
    (void)state;
    static const struct {
        uint32_t cp;
        bool printable, alpha;
    } cases[] = {{' ', true, false},      {'a', true, true},      {0x7F, false, false},
                 {0xA0, false, false},    {0xAD, false, false},   {0x2028, false, false},
                 {0x3000, false, false},  {0x4E00, true, true},   {0xE000, false, false},
                 {0x1F600, true, false},  {0x378, false, false},  {0x2160, true, false},
                 {0x301, true, false},    {0xD800, false, false}, {0x10FFFF, false, false},
                 {0x110000, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (gy_uc_printable(cases[i].cp) != cases[i].printable)
            fail_msg("printable(U+%04X)", cases[i].cp);
        if (gy_uc_alpha(cases[i].cp) != cases[i].alpha) fail_msg("alpha(U+%04X)", cases[i].cp);
    }
}

static void test_lower_chars(void **state) {
    (void)state;
    gy_buf out = {0};
    const char *text = "A\xCE\xA3\xCE\xA3 \xC4\xB0Z"; /* no context: both sigmas become U+03C3 */
    gy_uc_lower_chars(&out, text, strlen(text));
    assert_string_equal(out.p, "a\xCF\x83\xCF\x83 i\xCC\x87z");
    gy_buf_free(&out);
}

static void test_bad_bytes(void **state) {
    (void)state;
    gy_buf out = {0};
    static const char text[] = "a\xFF\xCC\x81"
                               "e\xCC\x81\xE2\x82 \xED\xA0\x80z\xC3";
    gy_uc_normalize(&out, GY_NFC, text, sizeof text - 1);
    assert_string_equal(out.p, "a\xEF\xBF\xBD\xCC\x81\xC3\xA9\xEF\xBF\xBD "
                               "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD");
    gy_buf_free(&out);
}

/* Runs cover every code point once, have one category each, and do not touch another run of it. */
static void test_runs(void **state) {
    (void)state;
    for (uint32_t cp = 0, before = UINT32_MAX; cp < 0x110000;) {
        uint32_t end = gy_uc_category_run(cp);
        gy_uc_cat cat = gy_uc_category(cp);
        if (end < cp || end > 0x10FFFF) fail_msg("run of U+%04X ends at U+%04X", cp, end);
        for (uint32_t k = cp; k <= end; k++) {
            if (gy_uc_category(k) != cat) fail_msg("U+%04X is not as U+%04X", k, cp);
        }
        if (before == cat) fail_msg("the run before U+%04X stopped early", cp);
        before = cat, cp = end + 1;
    }
}

/* What the quick check lets pass is left as it is, and it lets pass nearly all of what may. */
static void test_is_normal(void **state) {
    (void)state;
    gy_buf out = {0};
    for (int form = 0; form < 4; form++) {
        int same = 0, passed = 0;
        for (uint32_t cp = 0; cp < 0x110000; cp++) {
            char s[8] = "e";
            if (cp >= 0xD800 && cp < 0xE000) continue;
            size_t n = 1 + gy_utf8_put(s + 1, cp);
            out.n = 0;
            gy_uc_normalize(&out, (gy_nform)form, s, n);
            bool is = out.n == n && !memcmp(out.p, s, n),
                 quick = gy_uc_is_normal((gy_nform)form, s, n);
            if (quick && !is)
                fail_msg("%s: U+%04X after e passes the quick check", form_name[form], cp);
            same += is, passed += quick;
        }
        assert_true(same - passed < 1200);
    }
    assert_true(gy_uc_is_normal(GY_NFC, "only ASCII, longer than one word", 32));
    assert_false(gy_uc_is_normal(GY_NFC, "eight by\xFFtes", 12));
    gy_buf_free(&out);
}

static void test_clusters(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {{"ab", 1},
                 {"\r\n\n", 2},
                 {"\n\xCC\x81", 1},                /* nothing joins a control */
                 {"e\xCC\x81\xCC\xA3x", 5},        /* two marks */
                 {"\xE0\xA4\xB9\xE0\xA4\xBFx", 6}, /* a spacing mark */
                 {"x\xE2\x80\x8Dy", 4},            /* a joiner belongs to what is before it */
                 {"\xD8\x80"
                  "1\xCC\x81",
                  5}, /* a prepended sign */
                 {"\xD8\x80\n", 2},
                 {"\xF0\x9F\x98\x80", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t got = gy_uc_cluster(cases[i].text, strlen(cases[i].text));
        if (got != cases[i].bytes)
            fail_msg("case %zu: %zu bytes, expected %zu", i, got, cases[i].bytes);
    }
}

/* One segment of 300,000 marks in descending order: quadratic sorting would take minutes. */
static void test_many_marks(void **state) {
    (void)state;
    gy_buf in = {0}, out = {0};
    gy_buf_c(&in, 'a');
    for (int i = 0; i < 150000; i++) gy_buf_puts(&in, "\xCC\x81"); /* ccc 230 */
    for (int i = 0; i < 150000; i++) gy_buf_puts(&in, "\xCC\xA3"); /* ccc 220 */
    gy_uc_normalize(&out, GY_NFC, in.p, in.n);
    assert_int_equal(out.n, in.n);
    assert_memory_equal(out.p, "\xE1\xBA\xA1\xCC\xA3",
                        5); /* a with dot below, then the other dots */
    assert_memory_equal(out.p + out.n - 4, "\xCC\x81\xCC\x81", 4);
    gy_buf_free(&in), gy_buf_free(&out);
}

static void test_no_memory(void **state) {
    (void)state;
    gy_buf in = {0};
    gy_buf_c(&in, 'a');
    for (int i = 0; i < 5000; i++) gy_buf_puts(&in, "\xCC\x81");
    for (int nth = 1; nth < 12; nth++) {
        gy_buf out = {0};
        gy_alloc_fail_at(nth);
        gy_uc_normalize(&out, GY_NFD, in.p, in.n);
        gy_alloc_fail_at(0);
        assert_true(out.oom || out.n == in.n);
        gy_buf_free(&out);
    }
    gy_buf_free(&in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),     cmocka_unit_test(test_classes),
        cmocka_unit_test(test_fold),        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_lower_chars), cmocka_unit_test(test_bad_bytes),
        cmocka_unit_test(test_many_marks),  cmocka_unit_test(test_runs),
        cmocka_unit_test(test_is_normal),   cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
