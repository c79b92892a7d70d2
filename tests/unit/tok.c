/* text/tok: ids and text of every kind of tokenizer, against the reference's; limits and errors. */
#include "tok_cases.h"

/* ---- The shared oracle: large published tokenizers ---- */

static void bytes_check(tok_count *c, const gy_tok *tok, const gy_json *all) {
    for (uint32_t i = 0; i < all->n; i++) {
        gy_buf b = {0}, hex = {0};
        c->total++;
        bool there = gy_tok_bytes(tok, atoi(all->key[i].s), &b);
        for (size_t k = 0; k < b.n; k++) gy_buf_printf(&hex, "%02x", (uint8_t)b.p[k]);
        if (there && hex.n == all->item[i].n &&
            !memcmp(hex.p ? hex.p : "", all->item[i].s, hex.n)) {
            c->passed++;
        } else {
            tok_miss(c, all->key[i].s, &all->item[i], hex.p ? hex.p : "nothing");
        }
        gy_buf_free(&b);
        gy_buf_free(&hex);
    }
}

static void stream_check(tok_count *c, const gy_tok *tok, const gy_json *row) {
    const gy_json *ids = gy_json_get(row, "ids"), *visible = gy_json_get(row, "visible");
    gy_detok *d;
    gy_err err = {0};
    gy_buf b = {0};
    int32_t *id = tok_list(ids);
    assert_ok(gy_detok_new(tok, false, NULL, 0, &d, &err), err);
    for (uint32_t i = 0; i < ids->n; i++) {
        const gy_json *want = &visible->item[i];
        gy_detok_push(d, id[i], &b);
        c->total++;
        if (b.n == want->n && !memcmp(b.p ? b.p : "", want->s, b.n)) {
            c->passed++;
        } else {
            tok_miss(c, "visible text", want, b.p ? b.p : "");
        }
    }
    gy_detok_free(d);
    gy_buf_free(&b);
    free(id);
}

static void fixture(const char *name) {
    char rel[256], group[64], group2[64];
    snprintf(rel, sizeof rel, "tokenizers/%s/tokenizer.json.xz", name);
    SKIP_WITHOUT_SHARED(rel);
    gy_tok *tok = tok_open(shared_path(rel), NULL, NULL);
    snprintf(rel, sizeof rel, "fixtures/tokenizers/%s.json", name);
    snprintf(group, sizeof group, "fixtures %s", name);
    tok_count c = {group, 0, 0};
    gy_json_doc doc = tok_json(shared_path(rel));
    const gy_json *cases = gy_json_get(doc.root, "cases"),
                  *stream = gy_json_get(doc.root, "stream");
    assert_true(cases && cases->n > 100 && stream && stream->n);
    assert_int_equal(gy_tok_size(tok), gy_json_i(doc.root, "vocab_size", -1));
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *row = &cases->item[i], *text = gy_json_get(row, "text"),
                      *ids = gy_json_get(row, "ids");
        const gy_json *bos = gy_json_get(row, "ids_bos"), *out = gy_json_get(row, "text_out");
        const gy_json *skip = gy_json_get(row, "skip_out");
        if (!out) out = text;
        tok_check_ids(&c, tok, "ids", text, ids, 0);
        tok_check_ids(&c, tok, "ids with specials", text, bos ? bos : ids, GY_TOK_SPECIALS);
        tok_check_text(&c, tok, "text", ids, out, false);
        tok_check_text(&c, tok, "text without specials", ids, skip ? skip : out, true);
    }
    bytes_check(&c, tok, gy_json_get(doc.root, "token_bytes"));
    for (uint32_t i = 0; i < stream->n; i++) stream_check(&c, tok, &stream->item[i]);
    gy_json_free(&doc);

    snprintf(rel, sizeof rel, "cases/tokenizer/%s.json", name);
    snprintf(group2, sizeof group2, "cases %s", name);
    tok_count d = {group2, 0, 0};
    doc = tok_json(shared_path(rel));
    cases = gy_json_get(doc.root, "encode"), stream = gy_json_get(doc.root, "stream");
    assert_true(cases && cases->n > 10);
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *row = &cases->item[i], *text = gy_json_get(row, "text"),
                      *ids = gy_json_get(row, "ids");
        const gy_json *plain = gy_json_get(row, "literal"), *out = gy_json_get(row, "decodes_to");
        tok_check_ids(&d, tok, "ids", text, ids, 0);
        tok_check_ids(&d, tok, "literal ids", text, plain ? plain : ids, GY_TOK_PLAIN);
        tok_check_text(&d, tok, "text", ids, out ? out : text, false);
    }
    for (uint32_t i = 0; i < stream->n; i++) {
        const gy_json *row = &stream->item[i];
        tok_check_text(&d, tok, gy_json_s(row, "why", "stream"), gy_json_get(row, "ids"),
                       gy_json_get(row, "text"), gy_json_b(row, "skip_special", false));
    }
    gy_json_free(&doc);
    gy_tok_free(tok);
    print_message("%s: %d of %d\n", c.group, c.passed, c.total);
    tok_done(&d);
    tok_done(&c);
}

static void fixture_qwen3(void **state) {
    (void)state, fixture("qwen3");
}
static void fixture_deepseek_v3(void **state) {
    (void)state, fixture("deepseek_v3");
}
static void fixture_llama2(void **state) {
    (void)state, fixture("llama2");
}
static void fixture_gemma3(void **state) {
    (void)state, fixture("gemma3");
}

/* ---- Small tokenizers, each with one awkward feature ---- */

/* expected.json: {"tokenizers": [{"file", "why", "texts": [{"text", "ids", "decoded",
 * "with_special", "literal"}]}]} */
static void folder(const char *path_expected, const char *group, bool shared) {
    gy_json_doc doc = tok_json(shared ? shared_path(path_expected) : data_path(path_expected));
    const gy_json *all = gy_json_get(doc.root, "tokenizers");
    tok_count c = {group, 0, 0};
    char path[256];
    assert_true(all && all->n);
    for (uint32_t i = 0; i < all->n; i++) {
        const char *file = gy_json_s(&all->item[i], "file", "");
        const gy_json *texts = gy_json_get(&all->item[i], "texts");
        snprintf(path, sizeof path, "%.*s%s",
                 (int)(strrchr(path_expected, '/') + 1 - path_expected), path_expected, file);
        gy_tok *tok = tok_open(shared ? shared_path(path) : data_path(path), NULL, NULL);
        for (uint32_t k = 0; k < texts->n; k++) {
            const gy_json *row = &texts->item[k], *text = gy_json_get(row, "text"),
                          *ids = gy_json_get(row, "ids");
            const gy_json *full = gy_json_get(row, "with_special"),
                          *plain = gy_json_get(row, "literal");
            const gy_json *skip = gy_json_get(row, "skipped"),
                          *decoded = gy_json_get(row, "decoded");
            tok_check_ids(&c, tok, file, text, ids, 0);
            tok_check_ids(&c, tok, file, text, full ? full : ids, GY_TOK_SPECIALS);
            if (!shared) tok_check_ids(&c, tok, file, text, plain ? plain : ids, GY_TOK_PLAIN);
            tok_check_text(&c, tok, file, ids, decoded, false);
            if (!shared) tok_check_text(&c, tok, file, ids, skip ? skip : decoded, true);
        }
        gy_tok_free(tok);
    }
    gy_json_free(&doc);
    tok_done(&c);
}

static void tiny_shared(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/tokenizer/tiny/expected.json");
    folder("cases/tokenizer/tiny/expected.json", "cases tiny", true);
}

static void tiny_own(void **state) {
    (void)state;
    folder("text/tok/expected.json", "own tokenizers", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_own),       cmocka_unit_test(tiny_shared),
        cmocka_unit_test(fixture_qwen3),  cmocka_unit_test(fixture_deepseek_v3),
        cmocka_unit_test(fixture_llama2), cmocka_unit_test(fixture_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
