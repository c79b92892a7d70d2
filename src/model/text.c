/* model/text - the text side of a model: tokenizer, chat template, end ids, and the public
 * functions over them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "model/model.h"

/* ---- Tokenizers ---- */

enum { CACHE_WORTH = 1 << 20 }; /* bytes of tokenizer.json */

static gy_rc open_json_tokenizer(gy_model *m, gy_err *err) {
    char path[4096];
    gy_fmap map;
    if ((size_t)snprintf(path, sizeof path, "%s/tokenizer.json", m->path) >= sizeof path)
        return gy_fail(err, GY_EARG, "path is too long");
    if (access(path, F_OK)) return GY_OK; /* a model of ids alone */
    gy_rc rc = gy_fmap_open(&map, path, err);
    if (rc) return rc;
    /* A small file is read faster than a compiled copy of it is found and checked. */
    char *cache = map.bytes < CACHE_WORTH ? gy_strdup("") : gy_env(GY_ENV_CACHE);
    if (!cache) rc = gy_fail(err, GY_ENOMEM, "out of memory");
    if (!rc)
        rc = gy_tok_open_json((const char *)map.data, map.bytes, m->config.tokenizer.root,
                              *cache ? cache : NULL, &m->tok, err);
    gy_free(cache);
    gy_fmap_close(&map);
    if (rc && err && !strstr(err->msg, "tokenizer.json")) gy_fail_in(err, "tokenizer.json");
    return rc;
}

typedef struct {
    gy_tok_gguf v;
    gy_tok_str *token, *merge;
    float *score;
    int32_t *type;
} vocabulary;

static gy_rc strings(const gy_gguf *g, const char *key, gy_tok_str **out, int *n, gy_err *err) {
    const gy_gguf_kv *kv = gy_gguf_get(g, key);
    if (!kv) return GY_OK;
    if (kv->type != GY_GGUF_ARR || kv->item != GY_GGUF_STR || kv->n > INT32_MAX)
        return gy_fail(err, GY_EFORMAT, "%s must be a list of strings", key);
    *out = gy_alloc_n((size_t)kv->n, sizeof **out);
    if (!*out) return gy_fail(err, GY_ENOMEM, "%s: out of memory", key);
    for (uint64_t i = 0; i < kv->n; i++)
        (*out)[i] = (gy_tok_str){kv->str[i].s, (size_t)kv->str[i].n};
    *n = (int)kv->n;
    return GY_OK;
}

/* A list of n numbers beside the tokens, as f32 or i32; absent is fine. */
static gy_rc numbers(const gy_gguf *g, const char *key, int n, void **out, bool real, gy_err *err) {
    const gy_gguf_kv *kv = gy_gguf_get(g, key);
    double v;
    if (!kv) return GY_OK;
    if (kv->type != GY_GGUF_ARR || kv->n != (uint64_t)n)
        return gy_fail(err, GY_EFORMAT, "%s has %llu entries, expected %d, one per token", key,
                       (unsigned long long)(kv->type == GY_GGUF_ARR ? kv->n : 1), n);
    *out = gy_alloc_n((size_t)n, 4);
    if (!*out) return gy_fail(err, GY_ENOMEM, "%s: out of memory", key);
    for (int i = 0; i < n; i++) {
        if (!gy_gguf_item_num(kv, (uint64_t)i, &v))
            return gy_fail(err, GY_EFORMAT, "%s must be a list of numbers", key);
        if (real)
            ((float *)*out)[i] = (float)v;
        else
            ((int32_t *)*out)[i] = v >= 0 && v < 256 ? (int32_t)v : 0;
    }
    return GY_OK;
}

static int32_t id_of(const gy_gguf *g, const char *key, int n) {
    int64_t id;
    return gy_gguf_int(g, key, &id) && id >= 0 && id < n
               ? (int32_t)id
               : -1; /* an id that is no token is ignored */
}

static int flag_of(const gy_gguf *g, const char *key) {
    int64_t v;
    return gy_gguf_int(g, key, &v) ? v != 0 : -1;
}

static gy_tok_str string_of(const gy_gguf *g, const char *key) {
    gy_gguf_str s;
    return gy_gguf_string(g, key, &s) ? (gy_tok_str){s.s, (size_t)s.n} : (gy_tok_str){NULL, 0};
}

static gy_rc open_gguf_tokenizer(gy_model *m, gy_err *err) {
    const gy_gguf *g = &m->gguf;
    vocabulary o = {0};
    gy_tok_gguf *v = &o.v;
    gy_rc rc = strings(g, "tokenizer.ggml.tokens", &o.token, &v->n, err);
    if (!rc && v->n < 1) rc = gy_fail(err, GY_EFORMAT, "tokenizer.ggml.tokens is missing or empty");
    if (!rc) rc = strings(g, "tokenizer.ggml.merges", &o.merge, &v->n_merges, err);
    if (!rc) rc = numbers(g, "tokenizer.ggml.scores", v->n, (void **)&o.score, true, err);
    if (!rc) rc = numbers(g, "tokenizer.ggml.token_type", v->n, (void **)&o.type, false, err);
    if (!rc) {
        const gy_gguf_kv *map = gy_gguf_get(g, "tokenizer.ggml.precompiled_charsmap");
        v->model = string_of(g, "tokenizer.ggml.model"),
        v->pre = string_of(g, "tokenizer.ggml.pre");
        v->token = o.token, v->merge = o.merge, v->score = o.score, v->type = o.type;
        v->bos = id_of(g, "tokenizer.ggml.bos_token_id", v->n),
        v->eos = id_of(g, "tokenizer.ggml.eos_token_id", v->n);
        v->unk = id_of(g, "tokenizer.ggml.unknown_token_id", v->n);
        v->sep = id_of(g, "tokenizer.ggml.seperator_token_id", v->n);
        v->pad = id_of(g, "tokenizer.ggml.padding_token_id", v->n),
        v->cls = id_of(g, "tokenizer.ggml.cls_token_id", v->n);
        v->mask = id_of(g, "tokenizer.ggml.mask_token_id", v->n);
        v->add_bos = flag_of(g, "tokenizer.ggml.add_bos_token"),
        v->add_eos = flag_of(g, "tokenizer.ggml.add_eos_token");
        v->add_space_prefix = flag_of(g, "tokenizer.ggml.add_space_prefix");
        if (map && map->type == GY_GGUF_ARR && (map->item == GY_GGUF_U8 || map->item == GY_GGUF_I8))
            v->charsmap = map->data, v->charsmap_bytes = (size_t)map->n;
        rc = gy_tok_open_gguf(v, &m->tok, err);
    }
    gy_free(o.token), gy_free(o.merge), gy_free(o.score), gy_free(o.type);
    return rc;
}

/* ---- Templates ---- */

enum { MAX_TEMPLATES = 16 };

typedef struct {
    gy_chat_options o;
    const char *name[MAX_TEMPLATES], *source[MAX_TEMPLATES];
} templates;

static void gguf_templates(gy_model *m, templates *t) {
    static const char key[] = "tokenizer.chat_template";
    size_t n = sizeof key - 1;
    for (int i = 0; i < m->gguf.n; i++) {
        const gy_gguf_kv *kv = m->gguf.kv + i;
        if (strncmp(kv->key, key, n) || kv->type != GY_GGUF_STR) continue;
        const char *text = gy_arena_strndup(&m->arena, kv->str->s, (size_t)kv->str->n);
        if (!kv->key[n]) {
            t->o.source = text;
        } else if (kv->key[n] == '.' && t->o.n_named < MAX_TEMPLATES && text) {
            t->name[t->o.n_named] = kv->key + n + 1, t->source[t->o.n_named++] = text;
        }
    }
}

/* A special token's text: "bos_token" is a string or an object with content. */
static const char *special(const gy_model *m, const char *key) {
    const gy_json *roots[] = {m->config.tokenizer.root, m->config.special.root};
    for (int i = 0; i < 2; i++) {
        const gy_json *v = gy_json_get(roots[i], key);
        if (gy_json_is(v, GY_JSON_STR)) return v->s;
        const char *s = gy_json_s(v, "content", NULL);
        if (s) return s;
    }
    return NULL;
}

static const char *name_of(gy_model *m, int32_t id) {
    size_t n;
    const char *s = id >= 0 ? gy_tok_name(m->tok, id, &n) : NULL;
    return s ? gy_arena_strndup(&m->arena, s, n) : NULL;
}

static void gguf_specials(gy_model *m, gy_chat_options *o) {
    int n = gy_tok_size(m->tok);
    o->bos = name_of(m, gy_tok_bos(m->tok)), o->eos = name_of(m, gy_tok_eos(m->tok));
    o->unk = name_of(m, id_of(&m->gguf, "tokenizer.ggml.unknown_token_id", n));
    o->pad = name_of(m, id_of(&m->gguf, "tokenizer.ggml.padding_token_id", n));
}

static void directory_templates(gy_model *m, templates *t) {
    t->o.source = m->config.template_default;
    for (int i = 0; i < m->config.n_named && i < MAX_TEMPLATES; i++) {
        t->name[i] = m->config.template_named[i].name,
        t->source[i] = m->config.template_named[i].source;
        t->o.n_named = i + 1;
    }
    t->o.bos = special(m, "bos_token"), t->o.eos = special(m, "eos_token");
    t->o.unk = special(m, "unk_token"), t->o.pad = special(m, "pad_token");
}

static gy_rc open_chat(gy_model *m, templates *t, const char *replacement, gy_err *err) {
    if (m->is_gguf)
        gguf_templates(m, t), gguf_specials(m, &t->o);
    else
        directory_templates(m, t);
    if (replacement) t->o.source = replacement, t->o.n_named = 0;
    t->o.name = t->name, t->o.named = t->source;
    gy_rc rc = gy_chat_new(&t->o, &m->chat, err);
    /* The checkpoint's own is judged when it is used; what the caller brings is an argument. */
    return rc || !replacement ? rc : gy_chat_check(m->chat, err);
}

/* ---- End ids: generation_config, else config, and the tokenizer's, and those that the template
 * ends turns with ---- */

static gy_rc add_eos(gy_model *m, int64_t id, gy_err *err) {
    int i = 0;
    if (id < 0 || id > INT32_MAX || (m->desc.vocab && id >= m->desc.vocab)) return GY_OK;
    while (i < m->n_eos && m->eos[i] < id) i++;
    if (i < m->n_eos && m->eos[i] == id) return GY_OK;
    int32_t *p = gy_realloc(m->eos, (size_t)(m->n_eos + 1) * sizeof *p);
    if (!p) return gy_fail(err, GY_ENOMEM, "end ids: out of memory");
    memmove(p + i + 1, p + i, (size_t)(m->n_eos - i) * sizeof *p);
    p[i] = (int32_t)id, m->eos = p, m->n_eos++;
    return GY_OK;
}

static gy_rc config_eos(gy_model *m, gy_err *err) {
    const gy_json *v = gy_json_get(m->config.generation.root, "eos_token_id");
    int64_t id;
    if (gy_json_null(v)) v = gy_json_get(m->cfg, "eos_token_id");
    if (gy_json_null(v)) v = gy_json_path(m->cfg, "text_config.eos_token_id");
    if (gy_json_null(v)) return GY_OK;
    if (gy_json_int(v, &id)) return add_eos(m, id, err);
    if (v->kind != GY_JSON_ARR)
        return gy_fail(err, GY_EFORMAT, "eos_token_id must be an integer or a list of integers");
    for (uint32_t i = 0; i < v->n; i++) {
        if (!gy_json_int(v->item + i, &id))
            return gy_fail(err, GY_EFORMAT, "eos_token_id[%u] must be an integer", i);
        gy_rc rc = add_eos(m, id, err);
        if (rc) return rc;
    }
    return GY_OK;
}

static bool template_has(const templates *t, const char *text) {
    if (t->o.source && strstr(t->o.source, text)) return true;
    for (int i = 0; i < t->o.n_named; i++)
        if (strstr(t->source[i], text)) return true;
    return false;
}

static gy_rc collect_eos(gy_model *m, const templates *t, gy_err *err) {
    static const char *const turns[] = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>",
                                        "<|return|>", "<|call|>",   "<|end|>"};
    gy_rc rc = config_eos(m, err);
    if (!rc && m->tok) rc = add_eos(m, gy_tok_eos(m->tok), err);
    for (size_t i = 0; !rc && m->tok && i < sizeof turns / sizeof *turns; i++) {
        if (!template_has(t, turns[i])) continue;
        /* In a template with channels <|end|> closes one message of several. */
        if (!strcmp(turns[i], "<|end|>") && template_has(t, "<|channel|>")) continue;
        rc = add_eos(m, gy_tok_id(m->tok, turns[i], strlen(turns[i])), err);
    }
    return rc;
}

gy_rc gy_model_open_text(gy_model *m, const gy_model_options *options, gy_err *err) {
    templates t = {0};
    gy_rc rc = GY_OK;
    if (!options->no_tokenizer)
        rc = m->is_gguf ? open_gguf_tokenizer(m, err) : open_json_tokenizer(m, err);
    if (!rc && !options->no_tokenizer) rc = open_chat(m, &t, options->chat_template, err);
    return rc ? rc : collect_eos(m, &t, err);
}

/* ---- Public functions ---- */

static gy_rc need_tok(const gy_model *m, gy_err *err) {
    if (err) *err = (gy_err){0};
    if (m->tok) return GY_OK;
    return gy_fail(err, GY_ENOTFOUND, "%s has no tokenizer%s", m->path,
                   m->is_gguf ? "" : " (tokenizer.json)");
}

gy_rc gy_tokenize(const gy_model *m, const char *text, size_t bytes, unsigned flags, int32_t **ids,
                  int *n, gy_err *err) {
    gy_ids out = {0};
    gy_rc rc = need_tok(m, err);
    if (!rc) rc = gy_tok_encode(m->tok, text, bytes, flags, &out, err);
    if (!rc && !out.id && !(out.id = gy_alloc(sizeof *out.id)))
        rc = gy_fail(err, GY_ENOMEM, "tokenize: out of memory");
    if (rc) return gy_free(out.id), rc;
    *ids = out.id, *n = out.n;
    return GY_OK;
}

/* Gives a buffer's text away, "" for an empty one. */
static gy_rc give(gy_buf *b, char **text, size_t *bytes, gy_err *err) {
    size_t n;
    gy_buf_need(b, 1);
    if (b->p && !b->oom && !b->over) b->p[b->n] = 0;
    char *p = gy_buf_take(b, &n);
    gy_buf_free(b);
    if (!p) return gy_fail(err, GY_ENOMEM, "text: out of memory");
    *text = p;
    if (bytes) *bytes = n;
    return GY_OK;
}

gy_rc gy_detokenize(const gy_model *m, const int32_t *ids, int n, bool skip_special, char **text,
                    size_t *bytes, gy_err *err) {
    gy_buf b = {0};
    gy_rc rc = need_tok(m, err);
    if (!rc) rc = gy_tok_decode(m->tok, ids, n, skip_special, &b, err);
    if (rc) return gy_buf_free(&b), rc;
    return give(&b, text, bytes, err);
}

const char *gy_token_name(const gy_model *m, int32_t id, size_t *bytes) {
    return m->tok ? gy_tok_name(m->tok, id, bytes) : NULL;
}

gy_rc gy_render(const gy_model *m, const char *body, size_t bytes, char **text, size_t *text_bytes,
                gy_err *err) {
    gy_json_doc doc = {0};
    gy_buf b = {0};
    gy_rc rc = GY_OK;
    gy_err why = {0};
    if (err) *err = (gy_err){0};
    if (!gy_chat_has_template(m->chat)) /* a template renders without a tokenizer */
        rc = gy_fail(err, GY_ENOTFOUND, "%s has no chat template", m->path);
    /* Not GY_EFORMAT: that is said of files, and of the template. */
    if (!rc && gy_json_parse(&doc, body, bytes, &why))
        rc = gy_fail(err, why.rc == GY_EFORMAT ? GY_EARG : why.rc, "chat request: %s", why.msg);
    if (!rc) rc = gy_chat_render(m->chat, doc.root, &b, err);
    gy_json_free(&doc);
    if (rc) return gy_buf_free(&b), rc;
    return give(&b, text, text_bytes, err);
}
