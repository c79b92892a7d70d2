/* text/tok: what its header promises besides ids: bad bytes, begin and end tokens, errors, GGUF
 * vocabularies, the compiled copy, time, threads and failing memory. */
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include "tok_cases.h"

static gy_tok *open_text(const char *json, const char *config) {
    gy_tok *tok = NULL;
    gy_err err = {0};
    gy_json_doc doc = {0};
    if (config) assert_ok(gy_json_parse(&doc, config, strlen(config), &err), err);
    assert_ok(gy_tok_open_json(json, strlen(json), doc.root, NULL, &tok, &err), err);
    gy_json_free(&doc);
    return tok;
}

static void expect_ids(const gy_tok *tok, const char *s, size_t n, unsigned flags,
                       const char *want) {
    gy_ids out = {0};
    gy_err err = {0};
    gy_buf b = {0};
    assert_ok(gy_tok_encode(tok, s, n, flags, &out, &err), err);
    for (int i = 0; i < out.n; i++) gy_buf_printf(&b, i ? " %d" : "%d", out.id[i]);
    if (strcmp(b.p ? b.p : "", want))
        fail_msg("%.*s: got %s, wanted %s", (int)n, s, b.p ? b.p : "", want);
    gy_buf_free(&b);
    gy_free(out.id);
}

/* ---- Bytes that are not UTF-8 ---- */

static void bad_bytes(void **state) {
    (void)state;
#define X "\xEF\xBF\xBD"
    static const struct {
        const char *bad, *clean;
    } row[] = {
        {"\x80", X},
        {"a\xC3", "a" X},
        {"\xC3(", X "("},
        {"\xE2\x82", X X},
        {"\xF0\x9F\x99", X X X},
        {"\xED\xA0\x80", X X X},
        {"\xC0\xAF", X X},
        {"\xF5\x80\x80\x80", X X X X},
        {"ok \xFF ok", "ok " X " ok"},
        {"\xE2\x82\xAC\xE2", "\xE2\x82\xAC" X},
        {"12345678\x81"
         "2345678",
         "12345678" X "2345678"},
        {X "\xFE" X, X X X},
        {"<\xF0<s>", "<" X "<s>"},
    };
    static const char *const file[] = {"text/tok/bytelevel.json", "text/tok/sentencepiece.json",
                                       "text/tok/unigram_bytes.json", "text/tok/wordpiece.json"};
    for (size_t f = 0; f < 4; f++) {
        gy_tok *tok = tok_open(data_path(file[f]), NULL, NULL);
        for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
            gy_ids a = {0}, b = {0};
            gy_err err = {0};
            assert_ok(gy_tok_encode(tok, row[i].bad, strlen(row[i].bad), 0, &a, &err), err);
            assert_ok(gy_tok_encode(tok, row[i].clean, strlen(row[i].clean), 0, &b, &err), err);
            if (a.n != b.n || (a.n && memcmp(a.id, b.id, (size_t)a.n * 4)))
                fail_msg("%s row %zu: %d ids, wanted %d", file[f], i, a.n, b.n);
            gy_free(a.id);
            gy_free(b.id);
        }
        gy_tok_free(tok);
    }
}

/* ---- Begin and end ---- */

#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"<s>\":2,\"</s>\":3,\"ab\":4},\"merges\":[\"a b\"]"
#define SPECIALS                                                                                   \
    "\"added_tokens\":[{\"id\":2,\"content\":\"<s>\",\"special\":true},{\"id\":3,\"content\":\"</" \
    "s>\",\"special\":true}]"
#define TEMPLATE                                                                                   \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"   \
    "\"<s>\",\"type_id\":0}},"                                                                     \
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","    \
    "\"ids\":[2],\"tokens\":[\"<s>\"]}}}"

static void begin_and_end(void **state) {
    (void)state;
    static const char with[] = "{" SPECIALS "," TEMPLATE ",\"model\":{\"type\":\"BPE\"," VOCAB "}}";
    static const char without[] =
        "{" SPECIALS ",\"model\":{" VOCAB "}}"; /* no type: has merges, so BPE */
    static const struct {
        const char *json, *config, *text, *want;
        unsigned flags;
        int bos, eos;
    } row[] = {
        {with, NULL, "ab", "2 4", GY_TOK_SPECIALS, 2, -1},
        {with, NULL, "ab", "4", 0, 2, -1},
        {with, NULL, "", "2", GY_TOK_SPECIALS, 2, -1},
        {with, "{\"add_bos_token\":false,\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}", "ab", "4",
         GY_TOK_SPECIALS, 2, 3},
        {with, "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"}}", "ab", "2 4",
         GY_TOK_SPECIALS, 2, -1},
        {with, "{\"add_eos_token\":true,\"eos_token\":\"</s>\"}", "ab", "2 4 3", GY_TOK_SPECIALS, 2,
         3},
        {without, "{\"add_bos_token\":true,\"bos_token\":\"<s>\"}", "ab", "2 4", GY_TOK_SPECIALS, 2,
         -1},
        {without, "{\"add_bos_token\":true,\"bos_token\":null}", "ab", "4", GY_TOK_SPECIALS, -1,
         -1},
        {without, NULL, "ab", "4", GY_TOK_SPECIALS, -1, -1},
        /* As the reference: a begin token in the text does not stop the template. */
        {with, NULL, "<s>ab", "2 2 4", GY_TOK_SPECIALS, 2, -1},
        {with, NULL, "<s>ab", "2 4", GY_TOK_SPECIALS | GY_TOK_ONE_BOS, 2, -1},
        {with, NULL, "<s><s>ab", "2 2 4", GY_TOK_SPECIALS | GY_TOK_ONE_BOS, 2, -1},
        {with, NULL, "ab<s>", "2 4 2", GY_TOK_SPECIALS | GY_TOK_ONE_BOS, 2, -1},
        {with, NULL, "<s>ab", "2 4", GY_TOK_ONE_BOS, 2, -1},
        /* Names of special tokens as text: characters without an id vanish in this vocabulary. */
        {with, NULL, "<s>ab", "4", GY_TOK_PLAIN, 2, -1},
        {without, "{\"added_tokens_decoder\":{\"9\":{\"content\":\"<x>\",\"special\":true}}}",
         "a<x>", "0 9", 0, -1, -1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        gy_tok *tok = open_text(row[i].json, row[i].config);
        expect_ids(tok, row[i].text, strlen(row[i].text), row[i].flags, row[i].want);
        if (gy_tok_bos(tok) != row[i].bos || gy_tok_eos(tok) != row[i].eos) {
            fail_msg("row %zu: begin %d end %d", i, gy_tok_bos(tok), gy_tok_eos(tok));
        }
        gy_tok_free(tok);
    }
}

static void names_and_ids(void **state) {
    (void)state;
    gy_tok *tok = open_text("{" SPECIALS ",\"model\":{\"type\":\"BPE\"," VOCAB "}}", NULL);
    size_t n;
    gy_buf b = {0};
    gy_err err = {0};
    assert_int_equal(gy_tok_size(tok), 5);
    assert_int_equal(gy_tok_id(tok, "ab", 2), 4);
    assert_int_equal(gy_tok_id(tok, "<s>", 3), 2);
    assert_int_equal(gy_tok_id(tok, "zz", 2), -1);
    assert_memory_equal(gy_tok_name(tok, 4, &n), "ab", 2);
    assert_null(gy_tok_name(tok, 5, &n));
    assert_null(gy_tok_name(tok, -1, NULL));
    assert_true(gy_tok_special(tok, 2) && !gy_tok_special(tok, 0) && !gy_tok_special(tok, 99));
    const int32_t ids[] = {0, 5}, low[] = {-1};
    assert_int_equal(gy_tok_decode(tok, ids, 2, false, &b, &err), GY_EARG);
    assert_non_null(strstr(err.msg, "id 5"));
    assert_int_equal(b.n, 0);
    assert_int_equal(gy_tok_decode(tok, low, 1, false, &b, NULL), GY_EARG);
    gy_buf_free(&b);
    gy_tok_free(tok);
}

/* ---- What is refused ---- */

static void refused(void **state) {
    (void)state;
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB "}"
    static const struct {
        const char *json;
        gy_rc rc;
        const char *says;
    } row[] = {
        {"", GY_EFORMAT, "object"},
        {"{", GY_EFORMAT, "byte 1"},
        {"[]", GY_EFORMAT, "object"},
        {"{}", GY_EFORMAT, "vocab"},
        {"{\"model\":{}}", GY_EFORMAT, "vocab"},
        {"{\"model\":null}", GY_EFORMAT, "vocab"},
        {"{" MODEL "} x", GY_EFORMAT, "end"},
        {"{" MODEL "," MODEL "}", GY_EFORMAT, "twice"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", GY_EFORMAT, "merges"},
        {"{\"model\":{\"type\":\"Lattice\"," VOCAB "}}", GY_EUNSUPPORTED, "Lattice"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1," VOCAB "}}", GY_EUNSUPPORTED, "dropout"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", GY_EFORMAT, "id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1.5},\"merges\":[]}}", GY_EFORMAT, "id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}", GY_EFORMAT,
         "id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":12000000},\"merges\":[]}}", GY_EFORMAT,
         "outside"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,},\"merges\":[]}}", GY_EFORMAT, "string"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\x80\":0},\"merges\":[]}}", GY_EFORMAT,
         "UTF-8"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\\x\":0},\"merges\":[]}}", GY_EFORMAT,
         "escape"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", GY_EFORMAT,
         "\"b\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", GY_EFORMAT,
         "two parts"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", GY_EFORMAT,
         "comma"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[[\"a\",0.5]],\"merges\":[]}}", GY_EFORMAT,
         "Unigram"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}", GY_EFORMAT, "scores"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1]]}}", GY_EFORMAT,
         "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}}", GY_EFORMAT, "score"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Rot13\"}}", GY_EUNSUPPORTED, "Rot13"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Syllables\"}}", GY_EUNSUPPORTED, "Syllables"},
        {"{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}", GY_EUNSUPPORTED, "CTC"},
        {"{" MODEL ",\"decoder\":{}}", GY_EFORMAT, "decoder"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"Frame\"}}", GY_EUNSUPPORTED, "Frame"},
        {"{" MODEL
         ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"x\",77],\"cls\":[\"a\",0]}}",
         GY_EFORMAT, "77"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":"
         "{\"id\":\"B\"}}]}}",
         GY_EUNSUPPORTED, "single"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
         "\"SpecialToken\":{\"id\":\"q\"}}]}}",
         GY_EFORMAT, "q"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1}]}", GY_EFORMAT, "content"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":9000000,\"content\":\"x\"}]}", GY_EFORMAT,
         "9000000"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":123456789012,\"content\":\"x\"}]}", GY_ELIMIT, "id"},
        {"{" MODEL ",\"added_tokens\":{}}", GY_EFORMAT, "added_tokens"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        gy_tok *tok = NULL;
        gy_err err = {0};
        gy_rc rc = gy_tok_open_json(row[i].json, strlen(row[i].json), NULL, NULL, &tok, &err);
        if (rc != row[i].rc || !strstr(err.msg, row[i].says)) {
            fail_msg("%s: %s: %s; wanted %s about %s", row[i].json, gy_rc_name(rc), err.msg,
                     gy_rc_name(row[i].rc), row[i].says);
        }
        assert_null(tok);
    }
}

/* An unknown token that is stated but absent matters only when it is needed. */
static void unknown_missing(void **state) {
    (void)state;
    gy_tok *tok =
        open_text("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\"," VOCAB "}}", NULL);
    gy_ids out = {0};
    gy_err err = {0};
    expect_ids(tok, "ab", 2, 0, "4");
    assert_int_equal(gy_tok_encode(tok, "abz", 3, 0, &out, &err), GY_EFORMAT);
    assert_non_null(strstr(err.msg, "unk_token"));
    assert_int_equal(out.n, 0);
    gy_free(out.id);
    gy_tok_free(tok);
}

/* ---- GGUF ---- */

static gy_tok_gguf gguf_of(const char *model, const char *pre, const gy_tok_str *token, int n) {
    gy_tok_gguf f = {
        .model = {model, strlen(model)}, .pre = {pre, strlen(pre)}, .n = n, .token = token};
    f.bos = f.eos = f.unk = f.sep = f.pad = f.cls = f.mask = f.add_bos = f.add_eos =
        f.add_space_prefix = -1;
    return f;
}

static void gguf_refused(void **state) {
    (void)state;
    const gy_tok_str token[] = {{"a", 1}, {"b", 1}, {"ab", 2}}, good = {"a b", 3}, bad = {"a c", 3},
                     one = {"a", 1};
    gy_tok *tok = NULL;
    gy_err err = {0};
    gy_tok_gguf f = gguf_of("rwkv", "", token, 3);
    assert_int_equal(gy_tok_open_gguf(&f, &tok, &err), GY_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "rwkv"));
    f = gguf_of("gpt2", "from-the-future", token, 3);
    err = (gy_err){0};
    assert_int_equal(gy_tok_open_gguf(&f, &tok, &err), GY_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "from-the-future"));
    f = gguf_of("gpt2", "gpt-2", token, 3);
    f.n_merges = 1, f.merge = &bad;
    assert_int_equal(gy_tok_open_gguf(&f, &tok, NULL), GY_EFORMAT);
    f.merge = &one;
    assert_int_equal(gy_tok_open_gguf(&f, &tok, NULL), GY_EFORMAT);
    assert_null(tok);
    f.merge = &good;
    assert_ok(gy_tok_open_gguf(&f, &tok, &err), err);
    expect_ids(tok, "aab", 3, GY_TOK_SPECIALS, "0 2");
    gy_tok_free(tok);
}

/* The pieces of sentencepiece join by score; what has no name becomes bytes; user-defined names are
 * cut out raw. */
static void gguf_llama(void **state) {
    (void)state;
    static const char *const name[] = {"<unk>",
                                       "<s>",
                                       "</s>",
                                       "\xE2\x96\x81",
                                       "a",
                                       "b",
                                       "ab",
                                       ("\xE2\x96\x81"
                                        "a"),
                                       "ba",
                                       "<us er>"};
    gy_tok_str token[266];
    float score[266] = {0};
    int32_t type[266];
    char bytes[256][8];
    for (int i = 0; i < 10; i++) {
        token[i] = (gy_tok_str){name[i], strlen(name[i])};
        type[i] = i == 0 ? 2 : i < 3 ? 3 : i == 9 ? 4 : 1;
        score[i] = -(float)i;
    }
    for (int i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", i);
        token[10 + i] = (gy_tok_str){bytes[i], 6}, type[10 + i] = 6;
    }
    gy_tok_gguf f = gguf_of("llama", "", token, 266);
    f.score = score, f.type = type, f.bos = 1, f.eos = 2, f.unk = 0;
    gy_tok *tok = NULL;
    gy_err err = {0};
    gy_buf b = {0};
    assert_ok(gy_tok_open_gguf(&f, &tok, &err), err);
    expect_ids(tok, "ab", 2, GY_TOK_SPECIALS, "1 3 6"); /* ab (-6) before _a (-7) */
    expect_ids(tok, "aab", 3, 0, "7 6");
    expect_ids(tok, "bab", 3, 0, "3 5 6");
    expect_ids(tok, "b a", 3, 0, "3 5 7");
    expect_ids(tok, "\xC3\xA9", 2, 0, "3 205 179"); /* C3 A9 as bytes */
    expect_ids(tok, "<0x41>", 6, 0,
               "3 70 58 130 62 59 72"); /* typed: six characters, each a byte */
    expect_ids(tok, "a<us er>a", 9, 0, "7 9 7");
    expect_ids(tok,
               "a<us\xE2\x96\x81"
               "er>a",
               11, 0, "7 9 7"); /* the mark as text */
    expect_ids(tok, "<s>a", 4, 0, "1 7");
    expect_ids(tok, "<s>", 3, GY_TOK_PLAIN, "3 70 125 72");
    const int32_t ids[] = {1, 7, 6, 205, 179, 9};
    assert_ok(gy_tok_decode(tok, ids, 6, true, &b, &err), err);
    assert_string_equal(b.p, "aab\xC3\xA9<us er>");
    gy_buf_free(&b);
    gy_tok_free(tok);
    f.add_space_prefix = 0, f.add_bos = 0, f.add_eos = 1;
    assert_ok(gy_tok_open_gguf(&f, &tok, &err), err);
    expect_ids(tok, "ab", 2, GY_TOK_SPECIALS, "6 2");
    gy_tok_free(tok);
}

/* Converters write words with a mark and continuations bare. */
static void gguf_bert(void **state) {
    (void)state;
#define M "\xE2\x96\x81"
    static const char *const name[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", M "un",
                                       "aff",   "able",  M "aff", M "!"};
    static const int32_t type[] = {3, 2, 3, 3, 1, 1, 1, 1, 1};
    gy_tok_str token[9];
    for (int i = 0; i < 9; i++) token[i] = (gy_tok_str){name[i], strlen(name[i])};
    gy_tok_gguf f = gguf_of("bert", "", token, 9);
    f.type = type, f.cls = 2, f.sep = 3, f.unk = 1;
    gy_tok *tok = NULL;
    gy_err err = {0};
    gy_buf b = {0};
    assert_ok(gy_tok_open_gguf(&f, &tok, &err), err);
    expect_ids(tok, "UnAffable aff! zz", 17, GY_TOK_SPECIALS, "2 4 5 6 7 8 1 3");
    const int32_t ids[] = {2, 4, 5, 6, 7, 8, 3};
    assert_ok(gy_tok_decode(tok, ids, 7, true, &b, &err), err);
    assert_string_equal(b.p, "unaffable aff !");
    gy_buf_free(&b);
    gy_tok_free(tok);
}

static void gguf_t5(void **state) {
    (void)state;
    static const char *const name[] = {"<pad>", "</s>", "<unk>", M, "a", "b", M "a", "ab"};
    static const int32_t type[] = {3, 3, 2, 1, 1, 1, 1, 1};
    static const float score[] = {0, 0, 0, -2, -3, -3, -2.5f, -4};
    gy_tok_str token[8];
    for (int i = 0; i < 8; i++) token[i] = (gy_tok_str){name[i], strlen(name[i])};
    gy_tok_gguf f = gguf_of("t5", "", token, 8);
    f.type = type, f.score = score, f.eos = 1, f.unk = 2;
    gy_tok *tok = NULL;
    gy_err err = {0};
    assert_ok(gy_tok_open_gguf(&f, &tok, &err), err);
    expect_ids(tok, "ab   a\xC3\xA9\xC3\xA9", 10, GY_TOK_SPECIALS,
               "6 5 6 2 1"); /* _a + b: -5.5, _ + ab: -6 */
    gy_tok_free(tok);
}

/* The published tokenizers as GGUF vocabularies: the same ids wherever the file has no normaliser
 * of its own. */
static void gguf_like_json(const char *name, const char *model, const char *pre) {
    char rel[128], group[64];
    snprintf(rel, sizeof rel, "tokenizers/%s/tokenizer.json.xz", name);
    snprintf(group, sizeof group, "gguf %s", name);
    SKIP_WITHOUT_SHARED(rel);
    gy_tok *json = tok_open(shared_path(rel), NULL, NULL), *tok = NULL;
    gy_json_doc doc = tok_json(shared_path(rel));
    const gy_json *merges = gy_json_path(doc.root, "model.merges"),
                  *added = gy_json_get(doc.root, "added_tokens");
    int n = gy_tok_size(json);
    gy_tok_str *token = calloc((size_t)n, sizeof *token), *merge = calloc(merges->n, sizeof *merge);
    int32_t *type = calloc((size_t)n, sizeof *type);
    float *score = calloc((size_t)n, sizeof *score);
    gy_arena arena = {0};
    for (int i = 0; i < n; i++) {
        token[i].s = gy_tok_name(json, i, &token[i].n);
        type[i] = token[i].n == 6 && !memcmp(token[i].s, "<0x", 3) ? 6 : 1;
        score[i] = -1e9f;
    }
    for (uint32_t i = 0; i < added->n; i++) {
        int64_t id = gy_json_i(&added->item[i], "id", 0);
        type[id] = gy_json_b(&added->item[i], "special", false) ? 3 : 4;
    }
    for (uint32_t i = merges->n; i-- > 0;) {
        /* As converters do: a name's score is its first merge's. */
        const gy_json *m = &merges->item[i];
        char *pair = m->kind == GY_JSON_ARR
                         ? gy_arena_printf(&arena, "%s %s", m->item[0].s, m->item[1].s)
                         : gy_arena_printf(&arena, "%s", m->s);
        char *join = gy_arena_printf(&arena, "%s", pair), *space = strchr(join, ' ');
        merge[i] = (gy_tok_str){pair, strlen(pair)};
        memmove(space, space + 1, strlen(space));
        score[gy_tok_id(json, join, strlen(join))] = -(float)i;
    }
    gy_tok_gguf f = gguf_of(model, pre, token, n);
    f.type = type, f.score = score;
    if (*pre) f.merge = merge, f.n_merges = (int)merges->n;
    gy_err err = {0};
    assert_ok(gy_tok_open_gguf(&f, &tok, &err), err);
    gy_json_free(&doc);
    snprintf(rel, sizeof rel, "fixtures/tokenizers/%s.json", name);
    doc = tok_json(shared_path(rel));
    const gy_json *cases = gy_json_get(doc.root, "cases");
    tok_count c = {group, 0, 0};
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *row = &cases->item[i];
        tok_check_ids(&c, tok, "ids", gy_json_get(row, "text"), gy_json_get(row, "ids"), 0);
    }
    gy_json_free(&doc);
    gy_tok_free(json);
    gy_tok_free(tok);
    free(token), free(merge), free(type), free(score);
    gy_arena_free(&arena);
    tok_done(&c);
}
static void gguf_deepseek(void **state) {
    (void)state, gguf_like_json("deepseek_v3", "gpt2", "deepseek-v3");
}
static void gguf_llama2(void **state) {
    (void)state, gguf_like_json("llama2", "llama", "");
}

static void gguf_gemma3(void **state) {
    (void)state, gguf_like_json("gemma3", "gpt2", "gemma4");
}

/* Every known name of a pre-tokeniser opens, and its pieces join to the text again. */
static void gguf_pre_names(void **state) {
    (void)state;
    static const char names[] =
        "llama-bpe llama3 lfm2 dbrx glm4 qwen2 hunyuan qwen35 gpt-4o llama4 minimax-m2 tekken "
        "youtu deepseek-v3 deepseek-coder smollm command-r gpt-2 exaone4 bailingmoe seed-coder "
        "exaone-moe laguna minicpm5 bloom viking falcon default";
    static const char text[] = "It's 12345 of them, isn't it?  \n\n caf\xC3\xA9 "
                               "\xE7\xB2\x89\xE5\xB1\x8B DON'T \t{x+=1} \xEA\xB0\x80\r\n ";
    char name[256][5];
    gy_tok_str token[256];
    for (int i = 0; i < 256; i++) {
        size_t n = gy_utf8_put(name[i], gy_bytelevel_char((uint8_t)i));
        token[i] = (gy_tok_str){name[i], n};
    }
    for (const char *s = names; *s; s += strspn(s, " ")) {
        char pre[32];
        size_t n = strcspn(s, " ");
        snprintf(pre, sizeof pre, "%.*s", (int)n, s);
        s += n;
        gy_tok_gguf f = gguf_of("gpt2", pre, token, 256);
        gy_tok *tok = NULL;
        gy_err err = {0};
        gy_ids ids = {0};
        gy_buf b = {0};
        if (gy_tok_open_gguf(&f, &tok, &err)) fail_msg("%s: %s", pre, err.msg);
        assert_ok(gy_tok_encode(tok, text, strlen(text), 0, &ids, &err), err);
        assert_ok(gy_tok_decode(tok, ids.id, ids.n, false, &b, &err), err);
        assert_string_equal(b.p, text);
        gy_free(ids.id);
        gy_buf_free(&b);
        gy_tok_free(tok);
    }
}

/* ---- The compiled copy ---- */

static char *only_file(const char *dir, size_t *n) {
    static char path[1400];
    DIR *d = opendir(dir);
    int files = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (*e->d_name != '.') snprintf(path, sizeof path, "%s/%s", dir, e->d_name), files++;
    }
    closedir(d);
    assert_int_equal(files, 1); /* no temporary file stays */
    if (n) free(tok_file(path, n));
    return path;
}

static void write_file(const char *path, const char *s, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(s, 1, n, f) == n && !fclose(f));
}

static void same_ids(const gy_tok *a, const gy_tok *b, const char *text) {
    gy_ids x = {0}, y = {0};
    gy_err err = {0};
    assert_ok(gy_tok_encode(a, text, strlen(text), GY_TOK_SPECIALS, &x, &err), err);
    assert_ok(gy_tok_encode(b, text, strlen(text), GY_TOK_SPECIALS, &y, &err), err);
    if (x.n != y.n || (x.n && memcmp(x.id, y.id, (size_t)x.n * 4)))
        fail_msg("%s: other ids from the compiled copy", text);
    gy_free(x.id);
    gy_free(y.id);
}

static const char mixed[] = "The miller's sacks: 17, 204 \xF0\x9F\x99\x82 <s>Stra\xC3\x9F"
                            "e\xE7\xB2\x89\xE5\xB1\x8B  x\n\n";

static void copy_of(const char *file, uint64_t *seed) {
    char dir[] = "/tmp/gyre-tok-XXXXXX";
    assert_non_null(mkdtemp(dir));
    gy_tok *plain = tok_open(data_path(file), NULL, NULL),
           *tok = tok_open(data_path(file), NULL, dir);
    same_ids(plain, tok, mixed);
    gy_tok_free(tok);
    size_t n;
    const char *path = only_file(dir, &n);
    char *good = tok_file(path, &n);
    struct stat before, after;
    stat(path, &before);
    tok = tok_open(data_path(file), NULL, dir); /* from the copy: it is not written again */
    stat(path, &after);
    assert_true(before.st_ino == after.st_ino);
    same_ids(plain, tok, mixed);
    gy_tok_free(tok);
    enum { HEADER = 200, HASH = 32 };
    uint64_t hash;
    memcpy(&hash, good + HASH, 8);
    assert_true(hash == gy_hash64(good + HEADER, n - HEADER,
                                  1)); /* else the forgeries below would prove nothing */
    for (int turn = 0; turn < 150; turn++) {
        size_t m = n;
        char *s = malloc(n);
        memcpy(s, good, n);
        bool forged = turn % 3 == 0;
        if (turn % 3 == 2) m = test_rand(seed) % n;
        for (int k = 0; k < 1 + turn % 4; k++) {
            size_t at = turn % 5 ? test_rand(seed) % n : test_rand(seed) % HEADER;
            s[at] = (char)(test_rand(seed) & 1 ? test_rand(seed) : 0xFF);
        }
        if (forged) hash = gy_hash64(s + HEADER, n - HEADER, 1), memcpy(s + HASH, &hash, 8);
        write_file(path, s, m);
        tok = tok_open(data_path(file), NULL, dir);
        gy_ids out = {0};
        if (forged) { /* may be believed: no access outside is what matters */
            gy_tok_encode(tok, mixed, strlen(mixed), 0, &out, NULL);
            gy_buf b = {0};
            for (int i = -1; i < gy_tok_size(tok) + 1 && i < 2000; i++) gy_tok_bytes(tok, i, &b);
            gy_buf_free(&b);
        } else {
            same_ids(plain, tok, mixed);
        }
        gy_free(out.id);
        gy_tok_free(tok);
        free(s);
        only_file(dir, NULL);
    }
    free(good);
    gy_tok_free(plain);
    unlink(path);
    rmdir(dir);
}

/* A fresh account has no ~/.cache yet. */
static void copy_makes_folders(void **state) {
    (void)state;
    char root[] = "/tmp/gyre-tok-XXXXXX", dir[96], part[64];
    assert_non_null(mkdtemp(root));
    snprintf(part, sizeof part, "%s/cache", root), snprintf(dir, sizeof dir, "%s/gyre", part);
    gy_tok_free(tok_open(data_path("text/tok/bytelevel.json"), NULL, dir));
    unlink(only_file(dir, NULL));
    assert_true(!rmdir(dir) && !rmdir(part) && !rmdir(root));
}

static void compiled_copy(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    copy_of("text/tok/sentencepiece.json", &seed);
    copy_of("text/tok/unigram_bytes.json", &seed);
    copy_of("text/tok/wordpiece.json", &seed);
}

/* A folder that cannot be written or made is no error. */
static void copy_impossible(void **state) {
    (void)state;
    gy_tok *tok = tok_open(data_path("text/tok/bytelevel.json"), NULL, "/proc/no/such/place");
    expect_ids(tok, "", 0, 0, "");
    gy_tok_free(tok);
}

/* ---- Time ---- */

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double encode_seconds(const gy_tok *tok, const char *s, size_t n) {
    gy_ids out = {0};
    gy_err err = {0};
    double t = cpu_seconds();
    assert_ok(gy_tok_encode(tok, s, n, 0, &out, &err), err);
    gy_free(out.id);
    return cpu_seconds() - t;
}

/* 200 kB without a space. Ten times the text takes ten times as long, with n log n some 13 times;
 * quadratic work a hundred times. What takes less than half a second is not measured. */
static void long_pieces(void **state) {
    (void)state;
    static const char *const file[] = {
        "bytelevel", "llama3_like", "sentencepiece", "crossing",        "unigram",  "unigram_whole",
        "wordpiece", "affixes",     "added_plain",   "metaspace_whole", "wordlevel"};
    static const char *const repeat[] = {"a", " ", "the", "<q", "\xE7\xB2\x89", NULL};
    enum { N = 200001 };
    char *s = malloc(N);
    uint64_t seed = test_seed();
    for (size_t f = 0; f < sizeof file / sizeof *file; f++) {
        char path[64];
        snprintf(path, sizeof path, "text/tok/%s.json", file[f]);
        gy_tok *tok = tok_open(data_path(path), NULL, NULL);
        for (size_t kind = 0; kind < sizeof repeat / sizeof *repeat; kind++) {
            const char *r = repeat[kind];
            size_t n = r ? strlen(r) : 0;
            for (size_t i = 0; i < N; i++)
                s[i] = r ? r[i % n] : (char)('a' + (int)(test_rand(&seed) % 3));
            double all = encode_seconds(tok, s, N), part = encode_seconds(tok, s, N / 10);
            if (all > 0.5 && all > 40 * part)
                fail_msg("%s: text %zu takes %.2f s, a tenth of it %.3f s", file[f], kind, all,
                         part);
        }
        gy_tok_free(tok);
    }
    free(s);
}

/* ---- Threads ---- */

typedef struct {
    const gy_tok *tok;
    const gy_json *rows;
    int failed;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    for (int turn = 0; turn < 20; turn++) {
        for (uint32_t i = 0; i < w->rows->n; i++) {
            const gy_json *text = gy_json_get(&w->rows->item[i], "text"),
                          *ids = gy_json_get(&w->rows->item[i], "ids");
            gy_ids out = {0};
            if (gy_tok_encode(w->tok, text->s, text->n, 0, &out, NULL) || (uint32_t)out.n != ids->n)
                w->failed++;
            for (uint32_t k = 0; k < ids->n && (int)k < out.n; k++) {
                int64_t id = -1;
                gy_json_int(&ids->item[k], &id);
                w->failed += id != out.id[k];
            }
            gy_free(out.id);
        }
    }
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    gy_json_doc doc = tok_json(data_path("text/tok/expected.json"));
    const gy_json *all = gy_json_get(doc.root, "tokenizers");
    for (uint32_t i = 0; i < all->n && i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "text/tok/%s", gy_json_s(&all->item[i], "file", ""));
        gy_tok *tok = tok_open(data_path(path), NULL, NULL);
        worker w[4];
        pthread_t t[4];
        for (int k = 0; k < 4; k++) {
            w[k] = (worker){tok, gy_json_get(&all->item[i], "texts"), 0};
            assert_int_equal(pthread_create(&t[k], NULL, work, &w[k]), 0);
        }
        for (int k = 0; k < 4; k++) {
            pthread_join(t[k], NULL);
            assert_int_equal(w[k].failed, 0);
        }
        gy_tok_free(tok);
    }
    gy_json_free(&doc);
}

/* ---- Failing memory ---- */

static gy_rc everything(const char *s, size_t n, const int32_t *want, int wanted) {
    gy_tok *tok = NULL;
    gy_detok *d = NULL;
    gy_ids out = {0};
    gy_buf b = {0};
    const char *stop[] = {"zz", "sacks"};
    gy_rc rc = gy_tok_open_json(s, n, NULL, NULL, &tok, NULL);
    if (!rc) rc = gy_tok_encode(tok, mixed, strlen(mixed), GY_TOK_SPECIALS, &out, NULL);
    if (!rc && wanted && (out.n != wanted || memcmp(out.id, want, (size_t)wanted * 4)))
        fail_msg("ids changed by failing memory");
    if (!rc) rc = gy_tok_decode(tok, out.id, out.n, false, &b, NULL);
    if (!rc) rc = gy_detok_new(tok, true, stop, 2, &d, NULL);
    for (int i = 0; !rc && i < out.n; i++) gy_detok_push(d, out.id[i], &b);
    if (!rc) gy_detok_end(d, &b);
    if (!rc && b.oom) rc = GY_ENOMEM;
    gy_detok_free(d);
    gy_tok_free(tok);
    gy_free(out.id);
    gy_buf_free(&b);
    return rc;
}

static void memory_fails(void **state) {
    (void)state;
    static const char *const file[] = {"bytelevel", "sentencepiece", "unigram_bytes",
                                       "wordpiece", "affixes",       "added_lower"};
    for (size_t f = 0; f < sizeof file / sizeof *file; f++) {
        char path[64];
        size_t n;
        snprintf(path, sizeof path, "text/tok/%s.json", file[f]);
        char *s = tok_file(data_path(path), &n);
        gy_tok *tok = tok_open(data_path(path), NULL, NULL);
        gy_ids want = {0};
        gy_err err = {0};
        assert_ok(gy_tok_encode(tok, mixed, strlen(mixed), GY_TOK_SPECIALS, &want, &err), err);
        gy_tok_free(tok);
        long before = gy_alloc_count();
        assert_int_equal(everything(s, n, want.id, want.n), GY_OK);
        long count = gy_alloc_count() - before;
        for (long k = 1; k <= count; k++) {
            gy_alloc_fail_at(k);
            gy_rc rc = everything(s, n, want.id, want.n);
            gy_alloc_fail_at(0);
            if (rc != GY_ENOMEM && rc != GY_OK)
                fail_msg("%s: allocation %ld of %ld: %s", file[f], k, count, gy_rc_name(rc));
        }
        gy_free(want.id);
        free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_bytes),       cmocka_unit_test(begin_and_end),
        cmocka_unit_test(names_and_ids),   cmocka_unit_test(refused),
        cmocka_unit_test(unknown_missing), cmocka_unit_test(gguf_refused),
        cmocka_unit_test(gguf_llama),      cmocka_unit_test(gguf_bert),
        cmocka_unit_test(gguf_t5),         cmocka_unit_test(gguf_deepseek),
        cmocka_unit_test(gguf_llama2),     cmocka_unit_test(gguf_gemma3),
        cmocka_unit_test(gguf_pre_names),  cmocka_unit_test(compiled_copy),
        cmocka_unit_test(copy_impossible), cmocka_unit_test(copy_makes_folders),
        cmocka_unit_test(long_pieces),     cmocka_unit_test(many_threads),
        cmocka_unit_test(memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
