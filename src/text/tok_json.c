/* A tokenizer from tokenizer.json, and what tokenizer_config.json adds to it. */
#include "base/hash.h"
#include "text/tok_in.h"

typedef struct {
    const char *text;
    size_t n;
    const gy_json *config;
    const char *cache_dir;
    gy_tok *t;
    gy_tok_scan scan;
    bool cached; /* the large arrays came from the compiled copy */
    gy_buf rest; /* JSON text of all but vocab and merges */
    gy_json_doc doc;
    const gy_json *model; /* doc's */
    gy_err *err;
} open_call;

static gy_rc bad(open_call *c, const char *what) {
    return gy_fail(c->err, GY_EFORMAT, "tokenizer.json: %s", what);
}

/* A string member; NULL and "" are the same to callers. *s is gy_alloc'd, or NULL. */
static gy_rc text_member(open_call *c, const char *key, char **s, size_t *n) {
    const gy_json *v = gy_json_get(c->model, key);
    if (gy_json_null(v)) return GY_OK;
    if (v->kind != GY_JSON_STR)
        return gy_fail(c->err, GY_EFORMAT, "tokenizer.json: model.%s is not a string", key);
    if (!v->n) return GY_OK;
    *s = gy_strndup(v->s, v->n), *n = v->n;
    return *s ? GY_OK : gy_tok_oom(c->err);
}

/* The id of model.unk_token, or -1; missing tells that it is stated but is no name. */
static int32_t unk_find(open_call *c, bool *missing) {
    const gy_json *v = gy_json_get(c->model, "unk_token");
    int32_t id = gy_json_is(v, GY_JSON_STR) ? gy_vocab_find(&c->t->vocab, v->s, v->n) : -1;
    *missing = id < 0 && gy_json_is(v, GY_JSON_STR);
    return id;
}

/* ---- Models ---- */

static gy_rc bpe_read(open_call *c) {
    gy_bpe *m = &c->t->bpe;
    const gy_json *v = c->model;
    double dropout;
    if (gy_json_num(gy_json_get(v, "dropout"), &dropout) && dropout != 0) {
        return gy_fail(c->err, GY_EUNSUPPORTED,
                       "tokenizer.json: model.dropout is %g; only encoding without chance is done",
                       dropout);
    }
    m->byte_fallback = gy_json_b(v, "byte_fallback", false);
    m->fuse_unk = gy_json_b(v, "fuse_unk", false);
    m->ignore_merges = gy_json_b(v, "ignore_merges", false);
    m->unk = unk_find(c, &m->unk_missing);
    gy_rc rc = text_member(c, "continuing_subword_prefix", &m->prefix, &m->prefix_bytes);
    if (!rc) rc = text_member(c, "end_of_word_suffix", &m->suffix, &m->suffix_bytes);
    if (rc || c->cached) return rc;
    /* Only models with byte fallback cut their pieces, see gy_bpe_ready. */
    if (m->byte_fallback) rc = gy_bpe_joint_new(m, c->err);
    return rc ? rc : gy_tok_scan_merges(&c->scan, &c->t->vocab, m, c->err);
}

static gy_rc unigram_read(open_call *c) {
    gy_uni *u = &c->t->uni;
    gy_vocab *v = &c->t->vocab;
    int64_t unk = gy_json_i(c->model, "unk_id", -1);
    if (unk >= v->n) return bad(c, "model.unk_id is outside model.vocab");
    u->unk = unk < 0 ? -1 : (int32_t)unk;
    u->byte_fallback = gy_json_b(c->model, "byte_fallback", false);
    if (c->cached) return u->score ? GY_OK : bad(c, "model.vocab has no scores");
    if (!c->scan.scored) return bad(c, "model.vocab of Unigram is not a list of names and scores");
    u->score = c->scan.score, c->scan.score = NULL;
    return gy_uni_build(u, v, NULL, c->err);
}

static gy_rc wordpiece_read(open_call *c) {
    gy_wordpiece *m = &c->t->wp;
    bool missing;
    size_t n = 0;
    m->unk = unk_find(c, &missing);
    if (!gy_json_get(c->model, "unk_token")) m->unk = gy_vocab_find(&c->t->vocab, "[UNK]", 5);
    m->max_chars = gy_json_i(c->model, "max_input_chars_per_word", 100);
    m->start = gy_strdup("");
    gy_rc rc = GY_OK;
    if (gy_json_get(c->model, "continuing_subword_prefix")) {
        rc = text_member(c, "continuing_subword_prefix", &m->more, &n);
        if (!m->more && !rc) m->more = gy_strdup("");
    } else {
        m->more = gy_strdup("##");
    }
    return rc ? rc : m->start && m->more ? GY_OK : gy_tok_oom(c->err);
}

static gy_rc wordlevel_read(open_call *c) {
    bool missing;
    c->t->wp.unk = unk_find(c, &missing);
    return GY_OK;
}

/* Old files do not say what their model is. */
static const char *model_guess(open_call *c) {
    if (c->scan.has_merges || (c->cached && c->t->bpe.pair)) return "BPE";
    if (c->scan.scored || (c->cached && c->t->uni.score)) return "Unigram";
    return gy_json_get(c->model, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

static gy_rc model_read(open_call *c) {
    static const struct {
        const char *name;
        gy_tok_model model;
        gy_rc (*read)(open_call *);
    } kind[] = {{"BPE", GY_TOK_BPE, bpe_read},
                {"Unigram", GY_TOK_UNIGRAM, unigram_read},
                {"WordPiece", GY_TOK_WORDPIECE, wordpiece_read},
                {"WordLevel", GY_TOK_WORDLEVEL, wordlevel_read}};
    const char *type = gy_json_s(c->model, "type", NULL);
    if (!type) type = model_guess(c);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        if (strcmp(kind[i].name, type)) continue;
        if (kind[i].model != GY_TOK_UNIGRAM && c->scan.scored)
            return bad(c, "model.vocab is a list but the model is not Unigram");
        c->t->model = (uint8_t)kind[i].model;
        return kind[i].read(c);
    }
    char q[64];
    return gy_fail(c->err, GY_EUNSUPPORTED, "tokenizer.json: model.type \"%s\"",
                   gy_err_quote(q, type, strlen(type)));
}

/* ---- Added tokens ---- */

static gy_rc added_one(open_call *c, const gy_json *v, int64_t id) {
    const gy_json *content = gy_json_get(v, "content");
    if (!gy_json_is(content, GY_JSON_STR)) return bad(c, "added_tokens: content is not a string");
    if (content->n > GY_TOK_MAX_ADDED || id >= GY_TOK_MAX_IDS)
        return gy_fail(
            c->err, GY_ELIMIT,
            "tokenizer.json: added_tokens: a content of %u bytes or an id of %lld is too large",
            content->n, (long long)id);
    bool special = gy_json_b(v, "special", false);
    gy_added_token a = {.s = content->s,
                        .n = content->n,
                        .id = id < 0 ? -1 : (int32_t)id,
                        .special = special,
                        .single_word = gy_json_b(v, "single_word", false),
                        .lstrip = gy_json_b(v, "lstrip", false),
                        .rstrip = gy_json_b(v, "rstrip", false),
                        .normalized = gy_json_b(v, "normalized", !special)};
    return gy_added_add(&c->t->added, &c->t->vocab, &a, c->err);
}

static gy_rc added_read(open_call *c) {
    const gy_json *list = gy_json_get(c->doc.root, "added_tokens");
    gy_rc rc = GY_OK;
    if (!gy_json_null(list) && list->kind != GY_JSON_ARR)
        return bad(c, "added_tokens is not a list");
    for (uint32_t i = 0; !rc && list && i < list->n; i++) {
        rc = added_one(c, &list->item[i], gy_json_i(&list->item[i], "id", -1));
    }
    const gy_json *more = gy_json_get(c->config, "added_tokens_decoder");
    if (!gy_json_is(more, GY_JSON_OBJ)) return rc;
    for (uint32_t i = 0; !rc && i < more->n; i++) {
        int64_t id = 0;
        const char *s = more->key[i].s;
        while (*s >= '0' && *s <= '9' && id < GY_TOK_MAX_IDS) id = id * 10 + (*s++ - '0');
        if (*s || s == more->key[i].s)
            return gy_fail(c->err, GY_EFORMAT,
                           "tokenizer_config.json: added_tokens_decoder: a key is no id");
        rc = added_one(c, &more->item[i], id);
    }
    return rc;
}

/* ---- Begin and end ---- */

/* The id of a token that the configuration names as a string or as an object with content; -1 when
 * there is none. */
static int32_t config_token(const open_call *c, const char *key) {
    const gy_json *v = gy_json_get(c->config, key);
    if (gy_json_is(v, GY_JSON_OBJ)) v = gy_json_get(v, "content");
    return gy_json_is(v, GY_JSON_STR) ? gy_tok_id(c->t, v->s, v->n) : -1;
}

static int config_flag(const open_call *c, const char *key) {
    const gy_json *v = gy_json_get(c->config, key);
    return gy_json_is(v, GY_JSON_BOOL) ? v->truth : -1;
}

static gy_rc ends_read(open_call *c) {
    gy_tok *t = c->t;
    gy_rc rc = gy_post_new(&t->post, gy_json_get(c->doc.root, "post_processor"), t, c->err);
    if (rc) return rc;
    t->bos = config_token(c, "bos_token");
    t->eos = config_token(c, "eos_token");
    if (t->bos < 0 && !gy_json_get(c->config, "bos_token")) t->bos = t->post.first;
    return gy_post_override(&t->post, config_flag(c, "add_bos_token"), t->bos,
                            config_flag(c, "add_eos_token"), t->eos, c->err);
}

/* ---- The whole ---- */

static gy_rc tables_read(open_call *c, gy_tok_source *source) {
    if (c->cache_dir) {
        char *rest;
        size_t n;
        *source = (gy_tok_source){c->n, gy_hash64(c->text, c->n, 0)};
        c->cached = gy_tok_cache_load(c->t, c->cache_dir, *source, &rest, &n);
        if (c->cached) {
            gy_buf_add(&c->rest, rest, n);
            gy_free(rest);
            return c->rest.oom ? gy_tok_oom(c->err) : GY_OK;
        }
    }
    gy_rc rc = gy_tok_scan_open(&c->scan, c->text, c->n, &c->rest, c->err);
    return rc ? rc : gy_vocab_build(&c->t->vocab, &c->scan.names, c->err);
}

static gy_rc parts_read(open_call *c) {
    gy_tok *t = c->t;
    gy_rc rc = gy_json_parse(&c->doc, c->rest.p, c->rest.n, c->err);
    if (rc) return gy_fail_in(c->err, "tokenizer.json without vocab and merges");
    const gy_json *root = c->doc.root;
    c->model = gy_json_get(root, "model");
    if (!gy_json_is(c->model, GY_JSON_OBJ)) return bad(c, "model is not an object");
    rc = model_read(c);
    if (!rc) rc = gy_norm_new(gy_json_get(root, "normalizer"), &t->norm, c->err);
    if (!rc) rc = gy_pretok_new(gy_json_get(root, "pre_tokenizer"), &t->pretok, c->err);
    if (!rc) rc = gy_decoder_new(&t->decoder, gy_json_get(root, "decoder"), c->err);
    if (!rc) rc = added_read(c);
    if (!rc) rc = gy_tok_ready(t, c->err);
    return rc ? rc : ends_read(c);
}

static gy_rc open_once(open_call *c, gy_tok **tok) {
    gy_tok_source source = {0};
    c->t = gy_alloc(sizeof *c->t);
    if (!c->t) return gy_tok_oom(c->err);
    c->t->bos = c->t->eos = c->t->bpe.unk = c->t->uni.unk = c->t->wp.unk = -1;
    gy_rc rc = tables_read(c, &source);
    if (!rc) rc = parts_read(c);
    if (!rc && c->cache_dir && !c->cached)
        gy_tok_cache_save(c->t, c->cache_dir, source, c->rest.p, c->rest.n);
    gy_tok_scan_free(&c->scan);
    gy_buf_free(&c->rest);
    gy_json_free(&c->doc);
    if (rc) {
        gy_tok_free(c->t);
    } else {
        *tok = c->t;
    }
    return rc;
}

gy_rc gy_tok_open_json(const char *text, size_t n, const gy_json *config, const char *cache_dir,
                       gy_tok **tok, gy_err *err) {
    gy_err first = {0};
    open_call c = {.text = text, .n = n, .config = config, .cache_dir = cache_dir, .err = &first};
    gy_rc rc = open_once(&c, tok);
    if (!rc) return GY_OK;
    if (!c.cached) return gy_fail(err, rc, "%s", first.msg);
    /* What a forged or stale copy says must not stop the original from being read. */
    c = (open_call){.text = text, .n = n, .config = config, .err = err};
    return open_once(&c, tok);
}
