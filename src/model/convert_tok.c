/* model/convert_tok - a GGUF vocabulary as tokenizer.json and tokenizer_config.json.
 *
 * The parts are those that text/tok_gguf builds the open tokenizer from. Sentencepiece's merging by
 * score becomes merges ranked by the score of what they make. Because the two descriptions are
 * different things, the written one is opened again and compared. */
#include <stdlib.h>

#include "base/utf8.h"
#include "model/convert.h"

#define MARK "\xE2\x96\x81" /* U+2581, sentencepiece's space */

typedef struct {
    const gy_gguf *g;
    const gy_tok *tok;
    const gy_gguf_str *token; /* [n] */
    int n;
    uint8_t *type; /* [n] 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte */
    gy_buf *b;
    gy_err *err;
} writer;

static bool is(gy_gguf_str s, const char *name) {
    return s.n == strlen(name) && !memcmp(s.s, name, s.n);
}

static void put_name(writer *w, int id) {
    gy_buf_json(w->b, w->token[id].s, (size_t)w->token[id].n);
}

static gy_rc open_vocab(writer *w) {
    const gy_gguf_kv *kv = gy_gguf_get(w->g, "tokenizer.ggml.tokens");
    const gy_gguf_kv *types = gy_gguf_get(w->g, "tokenizer.ggml.token_type");
    if (!kv || kv->type != GY_GGUF_ARR || kv->item != GY_GGUF_STR || kv->n > INT32_MAX)
        return gy_fail(w->err, GY_EFORMAT, "tokenizer.ggml.tokens must be a list of strings");
    w->token = kv->str, w->n = (int)kv->n;
    w->type = gy_alloc_n((size_t)w->n, 1);
    if (!w->type) return gy_fail(w->err, GY_ENOMEM, "tokenizer: out of memory");
    for (int i = 0; i < w->n; i++) {
        double v = 1;
        if (types) gy_gguf_item_num(types, (uint64_t)i, &v);
        w->type[i] = v >= 0 && v < 256 ? (uint8_t)v : 0;
        const char *s = w->token[i].s;
        for (size_t at = 0, n = (size_t)w->token[i].n, step; at < n; at += step) {
            uint32_t cp;
            step = gy_utf8_get(s + at, n - at, &cp);
            if (cp == 0xFFFD && !(step == 3 && (uint8_t)s[at] == 0xEF))
                return gy_fail(w->err, GY_EUNSUPPORTED, "tokenizer.ggml.tokens[%d] is not UTF-8",
                               i);
        }
    }
    return GY_OK;
}

static void put_added(writer *w) {
    int count = 0;
    gy_buf_puts(w->b, "\"added_tokens\":[");
    for (int i = 0; i < w->n; i++) {
        if (w->type[i] < 2 || w->type[i] > 4) continue;
        gy_buf_printf(w->b, "%s\n{\"id\":%d,\"content\":", count++ ? "," : "", i);
        put_name(w, i);
        gy_buf_printf(w->b,
                      ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
                      "false,\"special\":%s}",
                      w->type[i] == 4 ? "false" : "true");
    }
    gy_buf_puts(w->b, "],\n");
}

static void put_vocab(writer *w) {
    gy_buf_puts(w->b, "\"vocab\":{");
    for (int i = 0; i < w->n; i++) {
        gy_buf_puts(w->b, i ? ",\n" : "\n");
        put_name(w, i);
        gy_buf_printf(w->b, ":%d", i);
    }
    gy_buf_puts(w->b, "},\n");
}

static void put_merge(writer *w, bool first, const char *s, size_t na, size_t nb, size_t gap) {
    gy_buf_puts(w->b, first ? "\n[" : ",\n[");
    gy_buf_json(w->b, s, na);
    gy_buf_c(w->b, ',');
    gy_buf_json(w->b, s + na + gap, nb);
    gy_buf_c(w->b, ']');
}

/* ---- gpt2: merges as listed ---- */

static gy_rc put_bpe(writer *w) {
    const gy_gguf_kv *merges = gy_gguf_get(w->g, "tokenizer.ggml.merges");
    gy_gguf_str pre = {NULL, 0};
    const char *pattern[GY_TOK_PATTERNS];
    bool whole;
    char q[64];
    gy_gguf_string(w->g, "tokenizer.ggml.pre", &pre);
    int patterns = gy_tok_gguf_patterns((gy_tok_str){pre.s, (size_t)pre.n}, pattern, &whole);
    if (!patterns)
        return gy_fail(w->err, GY_EUNSUPPORTED, "tokenizer.ggml.pre: \"%s\" is not known",
                       gy_err_quote(q, pre.s, pre.n));
    gy_buf_puts(
        w->b, "\"normalizer\":null,\n\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < patterns; i++) {
        gy_buf_puts(w->b, "\n{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        gy_buf_json(w->b, pattern[i], strlen(pattern[i]));
        gy_buf_puts(w->b, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    gy_buf_puts(
        w->b, "\n{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_"
              "regex\":false}]},\n"
              "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
              "\"use_regex\":true},\n");
    gy_buf_printf(w->b,
                  "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_"
                  "subword_prefix\":null,"
                  "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_"
                  "merges\":%s,\n",
                  whole ? "true" : "false");
    put_vocab(w);
    gy_buf_puts(w->b, "\"merges\":[");
    for (uint64_t i = 0; merges && i < merges->n; i++) {
        const char *s = merges->str[i].s,
                   *space = merges->str[i].n > 1 ? memchr(s + 1, ' ', merges->str[i].n - 1) : NULL;
        if (!space)
            return gy_fail(w->err, GY_EFORMAT, "tokenizer.ggml.merges[%llu] is no pair",
                           (unsigned long long)i);
        size_t na = (size_t)(space - s);
        put_merge(w, !i, s, na, (size_t)merges->str[i].n - na - 1, 1);
    }
    gy_buf_puts(w->b, "]}\n");
    return GY_OK;
}

/* ---- llama: merges from scores ---- */

typedef struct {
    float score;
    int32_t id;
    uint32_t cut; /* bytes of the left part */
} made;

static int by_score(const void *a, const void *b) {
    const made *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->cut < y->cut ? -1 : 1;
}

static bool usable(const writer *w, const char *s, size_t n) {
    int32_t id = gy_tok_id(w->tok, s, n);
    return id >= 0 && id < w->n && (w->type[id] == 1 || w->type[id] == 4 || w->type[id] == 5);
}

/* Every way to cut a usable name into two usable names. */
static gy_rc collect(const writer *w, const gy_gguf_kv *scores, made **out, size_t *n) {
    size_t cap = 0;
    for (int id = 0; id < w->n; id++) {
        const char *s = w->token[id].s;
        size_t len = (size_t)w->token[id].n;
        double score = 0;
        if (!usable(w, s, len) || gy_tok_id(w->tok, s, len) != id) continue;
        gy_gguf_item_num(scores, (uint64_t)id, &score);
        for (size_t cut = 1; cut < len; cut++) {
            if ((s[cut] & 0xC0) == 0x80 || !usable(w, s, cut) || !usable(w, s + cut, len - cut))
                continue;
            if (*n == cap) {
                made *p = gy_realloc(*out, (cap = cap ? 2 * cap : 4096) * sizeof **out);
                if (!p) return gy_fail(w->err, GY_ENOMEM, "tokenizer: out of memory");
                *out = p;
            }
            (*out)[(*n)++] = (made){(float)score, id, (uint32_t)cut};
        }
    }
    return GY_OK;
}

static gy_rc put_spm(writer *w) {
    const gy_gguf_kv *scores = gy_gguf_get(w->g, "tokenizer.ggml.scores");
    int64_t space = 1, unk = -1;
    made *merge = NULL;
    size_t n = 0;
    if (!scores || scores->type != GY_GGUF_ARR || scores->n != (uint64_t)w->n)
        return gy_fail(w->err, GY_EUNSUPPORTED,
                       "tokenizer.ggml.scores must hold one number per token");
    gy_gguf_int(w->g, "tokenizer.ggml.add_space_prefix", &space);
    gy_gguf_int(w->g, "tokenizer.ggml.unknown_token_id", &unk);
    gy_rc rc = collect(w, scores, &merge, &n);
    if (rc) return gy_free(merge), rc;
    if (n) qsort(merge, n, sizeof *merge, by_score);
    gy_buf_puts(w->b, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (space) gy_buf_puts(w->b, "{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},");
    gy_buf_puts(w->b, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK
                      "\"}]},\n"
                      "\"pre_tokenizer\":null,\n\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{"
                      "\"type\":\"Replace\","
                      "\"pattern\":{\"String\":\"" MARK
                      "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                      "{\"type\":\"Fuse\"}");
    if (space) gy_buf_puts(w->b, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    gy_buf_puts(w->b, "]},\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (unk >= 0 && unk < w->n) {
        put_name(w, (int)unk);
    } else {
        gy_buf_puts(w->b, "null");
    }
    gy_buf_puts(w->b,
                ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":true,"
                "\"byte_fallback\":true,\"ignore_merges\":false,\n");
    put_vocab(w);
    gy_buf_puts(w->b, "\"merges\":[");
    for (size_t i = 0; i < n; i++) {
        const gy_gguf_str *t = &w->token[merge[i].id];
        put_merge(w, !i, t->s, merge[i].cut, (size_t)t->n - merge[i].cut, 0);
    }
    gy_buf_puts(w->b, "]}\n");
    gy_free(merge);
    return GY_OK;
}

/* ---- What surrounds a text ---- */

typedef struct {
    gy_ids all;
    int before, after;
} ends;

/* Reads them off the open tokenizer: the ids that it adds around a text. */
static gy_rc find_ends(writer *w, ends *e) {
    gy_ids plain = {0};
    gy_rc rc = gy_tok_encode(w->tok, "a", 1, 0, &plain, w->err);
    if (!rc) rc = gy_tok_encode(w->tok, "a", 1, GY_TOK_SPECIALS, &e->all, w->err);
    int at = 0, room = e->all.n - plain.n;
    while (!rc && at < room && memcmp(e->all.id + at, plain.id, (size_t)plain.n * sizeof *plain.id))
        at++;
    e->before = at, e->after = room - at;
    gy_free(plain.id);
    return rc;
}

static void put_special(writer *w, int32_t id, const char *before, const char *after) {
    gy_buf_puts(w->b, before);
    gy_buf_puts(w->b, "{\"SpecialToken\":{\"id\":");
    put_name(w, id);
    gy_buf_puts(w->b, ",\"type_id\":0}}");
    gy_buf_puts(w->b, after);
}

static void put_sequence(writer *w, const ends *e, const char *name) {
    for (int i = 0; i < e->before; i++) put_special(w, e->all.id[i], "", ",");
    gy_buf_printf(w->b, "{\"Sequence\":{\"id\":\"%s\",\"type_id\":0}}", name);
    for (int i = e->all.n - e->after; i < e->all.n; i++) put_special(w, e->all.id[i], ",", "");
}

static void put_post(writer *w, const ends *e) {
    if (!e->before && !e->after) {
        gy_buf_puts(w->b, "\"post_processor\":null,\n");
        return;
    }
    gy_buf_puts(w->b, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    put_sequence(w, e, "A");
    gy_buf_puts(w->b, "],\"pair\":[");
    put_sequence(w, e, "A");
    gy_buf_c(w->b, ',');
    put_sequence(w, e, "B");
    gy_buf_puts(w->b, "],\"special_tokens\":{");
    int count = 0;
    for (int i = 0; i < e->all.n; i++) {
        if (i >= e->before && i < e->all.n - e->after) continue;
        int32_t id = e->all.id[i];
        gy_buf_puts(w->b, count++ ? "," : "");
        put_name(w, id);
        gy_buf_puts(w->b, ":{\"id\":");
        put_name(w, id);
        gy_buf_printf(w->b, ",\"ids\":[%d],\"tokens\":[", id);
        put_name(w, id);
        gy_buf_puts(w->b, "]}");
    }
    gy_buf_puts(w->b, "}},\n");
}

/* ---- Files ---- */

static gy_rc tokenizer_json(writer *w, const ends *e) {
    gy_gguf_str model = {"", 0};
    char q[64];
    gy_gguf_string(w->g, "tokenizer.ggml.model", &model);
    gy_buf_puts(w->b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    put_added(w);
    put_post(w, e);
    gy_rc rc = is(model, "gpt2") ? put_bpe(w)
               : is(model, "llama")
                   ? put_spm(w)
                   : gy_fail(w->err, GY_EUNSUPPORTED,
                             "tokenizer.ggml.model: \"%s\" is not converted; gpt2 and llama are",
                             gy_err_quote(q, model.s, model.n));
    gy_buf_puts(w->b, "}\n");
    return rc ? rc : w->b->oom ? gy_fail(w->err, GY_ENOMEM, "tokenizer: out of memory") : GY_OK;
}

static void config_json(writer *w, const ends *e) {
    static const char *const names[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                           {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                           {"pad_token", "tokenizer.ggml.padding_token_id"}};
    gy_buf_printf(w->b, "{\"add_bos_token\":%s,\n\"add_eos_token\":%s,\n",
                  e->before ? "true" : "false", e->after ? "true" : "false");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id;
        if (!gy_gguf_int(w->g, names[i][1], &id) || id < 0 || id >= w->n) continue;
        gy_buf_printf(w->b, "\"%s\":", names[i][0]);
        put_name(w, (int)id);
        gy_buf_puts(w->b, ",\n");
    }
    gy_buf_puts(w->b, "\"clean_up_tokenization_spaces\":false,\n\"tokenizer_class\":"
                      "\"PreTrainedTokenizerFast\"}\n");
}

/* ---- Check ---- */

static gy_rc same_ids(const gy_tok *a, const gy_tok *b, const char *s, size_t n, unsigned flags,
                      gy_err *err) {
    gy_ids x = {0}, y = {0};
    gy_buf p = {0}, r = {0};
    gy_rc rc = gy_tok_encode(a, s, n, flags, &x, err);
    if (!rc) rc = gy_tok_encode(b, s, n, flags, &y, err);
    bool same = !rc && x.n == y.n && (!x.n || !memcmp(x.id, y.id, (size_t)x.n * sizeof *x.id));
    if (same) {
        rc = gy_tok_decode(a, x.id, x.n, false, &p, err);
        if (!rc) rc = gy_tok_decode(b, x.id, x.n, false, &r, err);
        same = p.n == r.n && (!p.n || !memcmp(p.p, r.p, p.n));
    }
    if (!rc && !same)
        rc = gy_fail(err, GY_EUNSUPPORTED,
                     "tokenizer: no tokenizer.json gives the same tokens as this vocabulary");
    gy_free(x.id), gy_free(y.id);
    gy_buf_free(&p), gy_buf_free(&r);
    return rc;
}

/* Texts with every kind of character, and the vocabulary itself, in pieces that join in other ways
 * than the names. */
static gy_rc compare(writer *w, const gy_tok *b) {
    static const char text[] =
        " Hello, world!  It's 3.14 (not 22/7);\n\n\tI'LL see  \r\n   \"caf\xC3\xA9\" na\xC3\xAFve "
        "<|x|> </s><s> 1234567 "
        "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C "
        "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 "
        "\xD9\xA1\xD9\xA2\xD9\xA3 \xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD aaaaaaaa    "
        "b\xE2\x80\x99s ____ <0x41> ";
    gy_buf all = {0};
    gy_rc rc = same_ids(w->tok, b, text, sizeof text - 1, 0, w->err);
    if (!rc) rc = same_ids(w->tok, b, text + 1, sizeof text - 2, GY_TOK_SPECIALS, w->err);
    if (!rc) rc = same_ids(w->tok, b, text, sizeof text - 1, GY_TOK_PLAIN, w->err);
    for (int32_t id = 0; id < w->n && !rc; id++) {
        if (w->type[id] == 1) rc = gy_tok_decode(w->tok, &id, 1, false, &all, w->err);
        if (all.n < 4000 && id + 1 < w->n) continue;
        if (!rc) rc = same_ids(w->tok, b, all.p ? all.p : "", all.n, 0, w->err);
        all.n = 0;
    }
    gy_buf_free(&all);
    return rc;
}

gy_rc gy_convert_tokenizer(const gy_model *m, const char *dir, gy_err *err) {
    gy_buf b = {0}, config = {0};
    ends e = {0};
    gy_json_doc doc = {0};
    gy_tok *tok = NULL;
    writer w = {.g = &m->gguf, .tok = m->tok, .b = &b, .err = err};
    gy_rc rc = open_vocab(&w);
    if (!rc) rc = find_ends(&w, &e);
    if (!rc) rc = tokenizer_json(&w, &e);
    w.b = &config;
    if (!rc) config_json(&w, &e);
    if (!rc && config.oom) rc = gy_fail(err, GY_ENOMEM, "tokenizer: out of memory");
    if (!rc) rc = gy_json_parse(&doc, config.p, config.n, err);
    if (!rc) rc = gy_tok_open_json(b.p, b.n, doc.root, NULL, &tok, err);
    if (!rc) rc = compare(&w, tok);
    if (!rc) rc = gy_convert_text(dir, "tokenizer.json", b.p, b.n, err);
    if (!rc) rc = gy_convert_text(dir, "tokenizer_config.json", config.p, config.n, err);
    gy_tok_free(tok);
    gy_json_free(&doc);
    gy_buf_free(&b), gy_buf_free(&config);
    gy_free(e.all.id), gy_free(w.type);
    return rc;
}
