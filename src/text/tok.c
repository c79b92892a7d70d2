#include "base/utf8.h"
#include "text/tok_in.h"

void gy_tok_free(gy_tok *tok) {
    if (!tok) return;
    if (tok->image) { /* the large arrays lie inside it */
        tok->vocab = (gy_vocab){0};
        tok->bpe.pair = NULL, tok->bpe.joint = NULL;
        tok->uni = (gy_uni){0};
        gy_free(tok->image);
    }
    gy_vocab_free(&tok->vocab);
    gy_bpe_free(&tok->bpe);
    gy_trie_free(&tok->uni.trie);
    gy_free(tok->uni.score);
    gy_free(tok->wp.start);
    gy_free(tok->wp.more);
    gy_added_free(&tok->added);
    gy_norm_free(tok->norm);
    gy_pretok_free(tok->pretok);
    gy_post_free(&tok->post);
    gy_decoder_free(&tok->decoder);
    gy_free(tok);
}

gy_rc gy_tok_ready(gy_tok *tok, gy_err *err) {
    gy_rc rc = gy_added_ready(&tok->added, tok->norm, err);
    if (!rc && tok->model == GY_TOK_BPE) rc = gy_bpe_ready(&tok->bpe, &tok->vocab, err);
    if (!rc && tok->model == GY_TOK_UNIGRAM) gy_uni_ready(&tok->uni, &tok->vocab);
    for (int i = 0; i < tok->vocab.n; i++) {
        const gy_name *name = &tok->vocab.name[i];
        if (name->at != GY_NAME_NONE && name->n > tok->wp.longest) tok->wp.longest = name->n;
    }
    tok->size = tok->vocab.n > tok->added.ids ? tok->vocab.n : tok->added.ids;
    return rc;
}

int gy_tok_size(const gy_tok *tok) {
    return tok->size;
}
int32_t gy_tok_bos(const gy_tok *tok) {
    return tok->bos;
}
int32_t gy_tok_eos(const gy_tok *tok) {
    return tok->eos;
}

const char *gy_tok_name(const gy_tok *tok, int32_t id, size_t *bytes) {
    size_t none;
    const gy_added_token *t = gy_added_by_id(&tok->added, id);
    if (t) return *(bytes ? bytes : &none) = t->n, t->s;
    return gy_vocab_name(&tok->vocab, id, bytes ? bytes : &none);
}

int32_t gy_tok_id(const gy_tok *tok, const char *name, size_t bytes) {
    const gy_added_token *t = gy_added_by_name(&tok->added, name, bytes);
    return t ? t->id : gy_vocab_find(&tok->vocab, name, bytes);
}

bool gy_tok_special(const gy_tok *tok, int32_t id) {
    const gy_added_token *t = gy_added_by_id(&tok->added, id);
    return t && t->special;
}

/* ---- Encoding ---- */

typedef struct {
    const gy_tok *tok;
    bool plain;
    gy_tok_work w;
    gy_ids *out;
    gy_err *err;
} call;

static gy_rc piece_encode(call *c, const char *s, size_t n, bool bytes) {
    const gy_tok *t = c->tok;
    if (t->model == GY_TOK_BPE)
        return gy_bpe_piece(&t->bpe, &t->vocab, s, n, bytes, &c->w, c->out, c->err);
    if (bytes) {
        c->w.mapped.n = 0;
        for (size_t i = 0; i < n; i++) gy_buf_utf8(&c->w.mapped, gy_bytelevel_char((uint8_t)s[i]));
        if (c->w.mapped.oom) return gy_tok_oom(c->err);
        s = c->w.mapped.p, n = c->w.mapped.n;
    }
    if (t->model == GY_TOK_UNIGRAM)
        return gy_uni_piece(&t->uni, &t->vocab, s, n, &c->w, c->out, c->err);
    if (t->model == GY_TOK_WORDPIECE)
        return gy_wordpiece_piece(&t->wp, &t->vocab, s, n, &c->w, c->out, c->err);
    return gy_wordlevel_piece(&t->wp, &t->vocab, s, n, c->out, c->err);
}

/* Normalised text without added tokens. */
static gy_rc plain_encode(call *c, const char *s, size_t n, bool first) {
    gy_pieces *p = &c->w.pieces;
    bool bytes = gy_pretok_bytelevel(c->tok->pretok);
    gy_pretok_run(c->tok->pretok, s, n, first, p);
    if (p->oom) return gy_tok_oom(c->err);
    for (size_t i = 0; i < p->n; i++) {
        gy_rc rc = piece_encode(c, p->text + p->piece[i].at, p->piece[i].n, bytes);
        if (rc) return rc;
    }
    return GY_OK;
}

typedef gy_rc (*between_fn)(call *c, const char *s, size_t n, bool first);

/* Gives the text between the added tokens of set to between, and the tokens to out. */
static gy_rc split_encode(call *c, const gy_added_set *set, const char *s, size_t n, bool first,
                          between_fn between) {
    const gy_added *a = &c->tok->added;
    gy_added_match m;
    size_t start = 0, from = 0;
    for (; gy_added_next(a, set, s, n, start, from, c->plain, &m);
         start = m.end, from = m.found_end) {
        gy_rc rc = m.at > start ? between(c, s + start, m.at - start, first && !start) : GY_OK;
        if (rc) return rc;
        if (!gy_ids_add(c->out, a->token[m.token].id)) return gy_tok_oom(c->err);
    }
    return start < n ? between(c, s + start, n - start, first && !start) : GY_OK;
}

/* Raw text without tokens of the raw set. */
static gy_rc raw_encode(call *c, const char *s, size_t n, bool first) {
    c->w.normal.n = 0;
    if (gy_norm_run(c->tok->norm, s, n, &c->w.normal)) {
        if (c->w.normal.oom) return gy_tok_oom(c->err);
        s = c->w.normal.p, n = c->w.normal.n;
        if (!n) return GY_OK;
        if (n > UINT32_MAX / 2)
            return gy_fail(c->err, GY_ELIMIT, "text of %zu bytes after normalising", n);
    }
    return split_encode(c, &c->tok->added.normal, s, n, first, plain_encode);
}

/* Bad bytes become U+FFFD each. Returns false when the text has none and out is untouched. */
static bool bytes_clean(const char *s, size_t n, gy_buf *out) {
    size_t done = 0;
    for (size_t i = 0; i < n;) {
        if (n - i >= 8 && !(gy_tok_load64(s + i) & 0x8080808080808080u)) {
            i += 8;
            continue;
        }
        uint32_t c;
        size_t len = gy_utf8_get(s + i, n - i, &c);
        if (c == 0xFFFD && !(len == 3 && !memcmp(s + i, "\xEF\xBF\xBD", 3))) {
            gy_buf_add(out, s + done, i - done);
            gy_buf_add(out, "\xEF\xBF\xBD", 3);
            done = i + 1, len = 1;
        }
        i += len;
    }
    if (!done) return false;
    gy_buf_add(out, s + done, n - done);
    return true;
}

static void work_free(gy_tok_work *w) {
    gy_buf_free(&w->clean);
    gy_buf_free(&w->normal);
    gy_buf_free(&w->mapped);
    gy_buf_free(&w->word);
    gy_pieces_free(&w->pieces);
    gy_free(w->sym);
    gy_free(w->heap);
    gy_free(w->path);
}

static gy_rc ids_append(gy_ids *out, const int32_t *id, int n, gy_err *err) {
    if (!gy_ids_need(out, (size_t)n)) return gy_tok_oom(err);
    for (int i = 0; i < n; i++) out->id[out->n++] = id[i];
    return GY_OK;
}

gy_rc gy_tok_encode(const gy_tok *tok, const char *text, size_t n, unsigned flags, gy_ids *out,
                    gy_err *err) {
    /* Spans of pieces are 32 bits wide, and normalising may make text longer. */
    if (n > 1u << 28)
        return gy_fail(err, GY_ELIMIT,
                       "text of %zu bytes; at most 256 MiB can be tokenised at once", n);
    call c = {.tok = tok, .plain = (flags & GY_TOK_PLAIN) != 0, .out = out, .err = err};
    const gy_post *post = &tok->post;
    int start = out->n;
    gy_rc rc =
        flags & GY_TOK_SPECIALS ? ids_append(out, post->before.id, post->before.n, err) : GY_OK;
    int body = out->n;
    if (!rc && bytes_clean(text, n, &c.w.clean)) {
        text = c.w.clean.p, n = c.w.clean.n;
        if (c.w.clean.oom) rc = gy_tok_oom(err);
    }
    if (!rc && n) rc = split_encode(&c, &tok->added.raw, text, n, true, raw_encode);
    if (!rc && flags & GY_TOK_SPECIALS) rc = ids_append(out, post->after.id, post->after.n, err);
    bool twice = flags & GY_TOK_ONE_BOS && body > start && out->n > body && tok->bos >= 0;
    if (!rc && twice && out->id[body - 1] == tok->bos && out->id[body] == tok->bos) {
        memmove(out->id + body, out->id + body + 1, (size_t)(out->n - body - 1) * sizeof *out->id);
        out->n--;
    }
    if (rc) out->n = start;
    work_free(&c.w);
    return rc;
}
