/* text/normalize and text/pretok against what the tokenizers library makes of the same
 * tokenizer.json members (tests/data/text/normalize.json and pretok.json, made by make_text.py
 * beside them). */
#include "text/pretok.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "testlib.h"
#include "text/normalize.h"

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

static void name_of(const gy_json *v, gy_buf *out) {
    out->n = 0;
    if (v)
        gy_json_write(out, v);
    else
        gy_buf_puts(out, "null");
}

/* ---- Pre-tokenisers ---- */

static void put_piece(const gy_pieces *p, size_t i, bool map, gy_buf *out) {
    const char *s = p->text + p->piece[i].at;
    for (size_t k = 0; map && k < p->piece[i].n; k++)
        gy_buf_utf8(out, gy_bytelevel_char((uint8_t)s[k]));
    if (!map) gy_buf_add(out, s, p->piece[i].n);
    gy_buf_puts(out, "\x01"); /* between pieces */
}

static void check_pieces(const char *name, const gy_pretok *pretok, const gy_json *c,
                         gy_pieces *p) {
    const gy_json *text = gy_json_get(c, "text"), *pieces = gy_json_get(c, "pieces");
    gy_buf want = {0}, got = {0};
    gy_buf_puts(&want, ""), gy_buf_puts(&got, "");
    for (uint32_t i = 0; i < pieces->n; i++) {
        gy_buf_add(&want, pieces->item[i].s, pieces->item[i].n);
        gy_buf_puts(&want, "\x01");
    }
    gy_pretok_run(pretok, text->s, text->n, true, p);
    assert_false(p->oom);
    for (size_t i = 0; i < p->n; i++) put_piece(p, i, gy_pretok_bytelevel(pretok), &got);
    bool same = want.n == got.n && !memcmp(want.p, got.p, want.n);
    if (!same) fail_msg("%s on \"%s\": \"%s\", expected \"%s\"", name, text->s, got.p, want.p);
    gy_buf_free(&want), gy_buf_free(&got);
}

static void test_pretok_oracle(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    load(data_path("text/pretok.json"), &doc);
    int cases = 0;
    gy_pieces p = {0};
    gy_buf name = {0};
    for (uint32_t i = 0; i < doc.root->n; i++) {
        const gy_json *row = &doc.root->item[i], *list = gy_json_get(row, "cases");
        gy_pretok *pretok = NULL;
        gy_err err = {0};
        name_of(gy_json_get(row, "pre_tokenizer"), &name);
        if (gy_pretok_new(gy_json_get(row, "pre_tokenizer"), &pretok, &err))
            fail_msg("%s: %s", name.p, err.msg);
        for (uint32_t k = 0; k < list->n; k++, cases++)
            check_pieces(name.p, pretok, &list->item[k], &p);
        gy_pretok_free(pretok);
    }
    printf("%u pre-tokenisers, %d texts\n", doc.root->n, cases);
    assert_true(cases > 1500);
    gy_pieces_free(&p);
    gy_buf_free(&name);
    gy_json_free(&doc);
}

static gy_rc pretok_of(const char *json, gy_pretok **pretok, gy_err *err) {
    gy_json_doc doc = {0};
    gy_err parse = {0};
    assert_ok(gy_json_parse(&doc, json, strlen(json), &parse), parse);
    gy_rc rc = gy_pretok_new(doc.root, pretok, err);
    gy_json_free(&doc);
    return rc;
}

static void test_pretok_hot_path(void **state) {
    (void)state;
    static const char *const patterns[] = {" ?\\p{L}+|\\s+"};
    const char *text = " Hello world";
    gy_pretok *pretok = NULL;
    gy_err err = {0};
    gy_pieces p = {0};
    assert_ok(gy_pretok_new_split(patterns, 1, &pretok, &err), err);
    assert_true(gy_pretok_bytelevel(pretok));
    gy_pretok_run(pretok, text, strlen(text), true, &p);
    assert_ptr_equal(p.text, text); /* nothing was copied */
    assert_int_equal(p.n, 2);
    assert_int_equal(p.piece[1].at, 6);
    assert_int_equal(p.piece[1].n, 6);
    gy_pretok_run(pretok, text, 0, true, &p);
    assert_int_equal(p.n, 0);
    gy_pretok_free(pretok);

    assert_ok(gy_pretok_new(NULL, &pretok, &err), err);
    assert_false(gy_pretok_bytelevel(pretok));
    gy_pretok_run(pretok, text, 5, false, &p);
    assert_int_equal(p.n, 1);
    assert_int_equal(p.piece[0].n, 5);
    gy_pretok_free(pretok);
    gy_pieces_free(&p);
}

/* Metaspace "first" marks only the start of the whole text. */
static void test_metaspace_first(void **state) {
    (void)state;
    gy_pretok *pretok = NULL;
    gy_err err = {0};
    gy_pieces p = {0};
    assert_ok(
        pretok_of("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}",
                  &pretok, &err),
        err);
    gy_pretok_run(pretok, "a b", 3, true, &p);
    assert_int_equal(p.n, 2);
    assert_memory_equal(p.text, "_a_b", 4);
    gy_pretok_run(pretok, "a b", 3, false, &p);
    assert_memory_equal(p.text, "a_b", 3);
    assert_int_equal(p.piece[0].n, 1);
    gy_pretok_free(pretok);
    /* Older files say it with a flag. */
    assert_ok(pretok_of("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false}",
                        &pretok, &err),
              err);
    gy_pretok_run(pretok, "a b", 3, true, &p);
    assert_memory_equal(p.text, "a_b", 3);
    gy_pretok_free(pretok);
    gy_pieces_free(&p);
}

static void test_pretok_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        gy_rc rc;
        const char *message;
    } cases[] = {
        {"{\"type\":\"UnicodeScripts\"}", GY_EUNSUPPORTED, "UnicodeScripts"},
        {"{\"x\":1}", GY_EFORMAT, "no type"},
        {"{\"type\":\"Sequence\"}", GY_EFORMAT, "pretokenizers"},
        {"{\"type\":\"Split\",\"behavior\":\"Isolated\"}", GY_EFORMAT, "pattern"},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\\\\w)\\\\1\"}}", GY_EUNSUPPORTED,
         "back-reference"},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}}", GY_EFORMAT, "pre_tokenizer Split"},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}",
         GY_EUNSUPPORTED, "Odd"},
        {"{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", GY_EFORMAT, "one character"},
        {"{\"type\":\"Metaspace\",\"replacement\":\"a\",\"prepend_scheme\":\"odd\"}",
         GY_EUNSUPPORTED, "odd"},
        {"{\"type\":\"CharDelimiterSplit\"}", GY_EFORMAT, "delimiter"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_pretok *pretok = NULL;
        gy_err err = {0};
        gy_rc rc = pretok_of(cases[i].json, &pretok, &err);
        if (rc != cases[i].rc || !strstr(err.msg, cases[i].message))
            fail_msg("%s: %s \"%s\"", cases[i].json, gy_rc_name(rc), err.msg);
    }
}

static void test_alphabet(void **state) {
    (void)state;
    bool seen[0x144] = {false};
    for (int b = 0; b < 256; b++) {
        uint32_t cp = gy_bytelevel_char((uint8_t)b);
        assert_true(cp > 32 && cp <= 0x143 && !seen[cp]);
        seen[cp] = true;
        assert_int_equal(gy_bytelevel_byte(cp), b);
    }
    assert_int_equal(gy_bytelevel_char(' '), 0x120);
    assert_int_equal(gy_bytelevel_char('\n'), 0x10A);
    assert_int_equal(gy_bytelevel_char(173), 0x143);
    assert_int_equal(gy_bytelevel_byte(' '), -1);
    assert_int_equal(gy_bytelevel_byte(0x144), -1);
    assert_int_equal(gy_bytelevel_byte(0x10FFFF), -1);
}

/* ---- Normalisers ---- */

static void check_normal(const char *name, const gy_norm *norm, const gy_json *c) {
    const gy_json *text = gy_json_get(c, "text"), *want = gy_json_get(c, "out");
    gy_buf out = {0};
    gy_buf_puts(&out, "before");
    bool changed = gy_norm_run(norm, text->s, text->n, &out);
    bool same = text->n == want->n && !memcmp(text->s, want->s, text->n);
    if (changed == same)
        fail_msg("%s on \"%s\" says %s", name, text->s, changed ? "changed" : "unchanged");
    if (!changed) assert_int_equal(out.n, 6);
    if (changed && (out.n != want->n + 6 || memcmp(out.p, "before", 6) != 0 ||
                    memcmp(out.p + 6, want->s, want->n) != 0)) {
        fail_msg("%s on \"%s\": \"%s\", expected \"%s\"", name, text->s, out.p + 6, want->s);
    }
    gy_buf_free(&out);
}

static void test_normalize_oracle(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    load(data_path("text/normalize.json"), &doc);
    int cases = 0;
    gy_buf name = {0};
    for (uint32_t i = 0; i < doc.root->n; i++) {
        const gy_json *row = &doc.root->item[i], *list = gy_json_get(row, "cases");
        gy_norm *norm = NULL;
        gy_err err = {0};
        name_of(gy_json_get(row, "normalizer"), &name);
        if (gy_norm_new(gy_json_get(row, "normalizer"), &norm, &err))
            fail_msg("%s: %s", name.p, err.msg);
        for (uint32_t k = 0; k < list->n; k++, cases++) check_normal(name.p, norm, &list->item[k]);
        gy_norm_free(norm);
    }
    printf("%u normalisers, %d texts\n", doc.root->n, cases);
    assert_true(cases > 1000);
    gy_buf_free(&name);
    gy_json_free(&doc);
}

static void test_normalize_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        gy_rc rc;
        const char *message;
    } cases[] = {
        {"{\"type\":\"Odd\"}", GY_EUNSUPPORTED, "Odd"},
        {"{}", GY_EFORMAT, "no type"},
        {"{\"type\":\"Sequence\",\"normalizers\":3}", GY_EFORMAT, "normalizers"},
        {"{\"type\":\"Prepend\"}", GY_EFORMAT, "prepend"},
        {"{\"type\":\"Replace\",\"content\":\"\"}", GY_EFORMAT, "String"},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[\"},\"content\":\"\"}", GY_EFORMAT,
         "normalizer Replace"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA\"}", GY_EFORMAT, "charsmap"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A*AA\"}", GY_EFORMAT, "base64"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////wAAAAAA\"}", GY_EFORMAT,
         "charsmap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_json_doc doc = {0};
        gy_norm *norm = NULL;
        gy_err err = {0};
        assert_ok(gy_json_parse(&doc, cases[i].json, strlen(cases[i].json), &err), err);
        gy_rc rc = gy_norm_new(doc.root, &norm, &err);
        if (rc != cases[i].rc || !strstr(err.msg, cases[i].message))
            fail_msg("%s: %s \"%s\"", cases[i].json, gy_rc_name(rc), err.msg);
        gy_json_free(&doc);
    }
}

/* A table of one unit or of noise: nothing outside of it may be read. */
static void test_charsmap_noise(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (int round = 0; round < 3000; round++) {
        uint8_t bytes[512];
        size_t n = 8 + test_rand(&seed) % (sizeof bytes - 8);
        for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)test_rand(&seed);
        uint32_t trie = test_rand(&seed) % 2 ? 4 : (uint32_t)((n - 4) / 4 * 4);
        memcpy(bytes, &trie, 4);
        gy_norm *norm = NULL;
        gy_err err = {0};
        gy_rc rc = gy_norm_new_charsmap(bytes, n, &norm, &err);
        if (rc) fail_msg("%s", err.msg);
        gy_buf out = {0};
        gy_norm_run(norm, (const char *)bytes, n, &out);
        gy_buf_free(&out);
        gy_norm_free(norm);
    }
}

/* What sentencepiece does with a table: the longest key at each place. */
static void test_charsmap_longest(void **state) {
    (void)state;
    uint32_t unit[512] = {0};
    /* Keys "a" -> "1" and "ab" -> "2", laid out by hand: the children of a node lie at base ^
     * label. */
    const uint32_t base[] = {256, 384, 416};
    unit[0] = base[0] << 10;
    uint32_t a = base[0] ^ 'a', b = base[1] ^ 'b';
    unit[a] = 'a' | 0x100 | (a ^ base[1]) << 10;
    unit[base[1]] = 0x80000000 | 0;
    unit[b] = 'b' | 0x100 | (b ^ base[2]) << 10;
    unit[base[2]] = 0x80000000 | 2;
    uint8_t bytes[4 + sizeof unit + 4];
    memcpy(bytes, &(uint32_t){sizeof unit}, 4);
    memcpy(bytes + 4, unit, sizeof unit);
    memcpy(bytes + 4 + sizeof unit, "1\0002", 4);
    gy_norm *norm = NULL;
    gy_err err = {0};
    gy_buf out = {0};
    assert_ok(gy_norm_new_charsmap(bytes, sizeof bytes, &norm, &err), err);
    assert_true(gy_norm_run(norm, "xabaac\xC3\xA9", 8, &out));
    assert_string_equal(out.p, "x211c\xC3\xA9");
    out.n = 0;
    assert_false(gy_norm_run(norm, "xyz", 3, &out));
    gy_buf_free(&out);
    gy_norm_free(norm);
}

/* Every allocation fails in turn: an error or a marked result, never a crash or a leak. */
static void test_no_memory(void **state) {
    (void)state;
    static const char pre[] =
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"."
        "\"},"
        "\"behavior\":\"MergedWithNext\"},{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":true},{\"type\":\"Digits\"}]}";
    static const char norm[] = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKD\"},{"
                               "\"type\":\"Prepend\",\"prepend\":\"_\"},"
                               "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" "
                               "+\"},\"content\":\"_\"},{\"type\":\"Lowercase\"},"
                               "{\"type\":\"Precompiled\",\"precompiled_charsmap\":"
                               "\"BAAAAAAAAAAA\"},{\"type\":\"BertNormalizer\"}]}";
    static const char text[] = "Ab. c  1.\xEF\xBC\xA1 12 \xE4\xB8\xAD.";
    gy_json_doc docs[2];
    memset(docs, 0, sizeof docs);
    gy_err err = {0};
    assert_ok(gy_json_parse(&docs[0], pre, sizeof pre - 1, &err), err);
    assert_ok(gy_json_parse(&docs[1], norm, sizeof norm - 1, &err), err);
    int failed = 0, whole = 0;
    for (int nth = 1; whole < 3; nth++) {
        gy_pretok *p = NULL;
        gy_norm *m = NULL;
        gy_pieces pieces = {0};
        gy_buf out = {0};
        gy_err e1 = {0}, e2 = {0};
        gy_alloc_fail_at(nth);
        gy_rc r1 = gy_pretok_new(docs[0].root, &p, &e1), r2 = gy_norm_new(docs[1].root, &m, &e2);
        if (!r1) gy_pretok_run(p, text, sizeof text - 1, true, &pieces);
        bool changed = !r2 && gy_norm_run(m, text, sizeof text - 1, &out);
        gy_alloc_fail_at(0);
        if (r1) assert_int_equal(r1, GY_ENOMEM);
        if (r2) assert_int_equal(r2, GY_ENOMEM);
        bool fault = r1 || r2 || pieces.oom || out.oom;
        if (!fault) assert_true(changed);
        failed += fault, whole = fault ? 0 : whole + 1;
        gy_pretok_free(p), gy_norm_free(m), gy_pieces_free(&pieces), gy_buf_free(&out);
        assert_true(nth < 2000);
    }
    printf("%d places failed\n", failed);
    assert_true(failed > 100);
    gy_json_free(&docs[0]), gy_json_free(&docs[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretok_oracle),     cmocka_unit_test(test_pretok_hot_path),
        cmocka_unit_test(test_metaspace_first),   cmocka_unit_test(test_pretok_refused),
        cmocka_unit_test(test_alphabet),          cmocka_unit_test(test_normalize_oracle),
        cmocka_unit_test(test_normalize_refused), cmocka_unit_test(test_charsmap_noise),
        cmocka_unit_test(test_charsmap_longest),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
