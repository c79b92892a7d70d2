/* tokenizer.json read once, straight through. A file has up to 33 MB in model.vocab and
 * model.merges; these are read here without a tree. Everything else is copied to a small text,
 * which base/json parses.
 *
 * Escapes, UTF-8 and numbers are as strict as in base/json, except that a lone surrogate is U+FFFD
 * too. */
#include "base/utf8.h"
#include "text/tok_in.h"

typedef struct {
    const char *at, *end, *start;
    gy_err *err;
} cursor;

static gy_rc bad(const cursor *c, const char *wanted) {
    return gy_fail(c->err, GY_EFORMAT, "tokenizer.json: byte %zu: expected %s",
                   (size_t)(c->at - c->start), wanted);
}

static void space_skip(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
}

/* Takes ch if it is next. */
static bool take(cursor *c, char ch) {
    space_skip(c);
    if (c->at == c->end || *c->at != ch) return false;
    c->at++;
    return true;
}

/* ---- Strings ---- */

static int hex4(const cursor *c, const char *s) {
    int v = 0;
    if (c->end - s < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int d = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                : s[i] >= 'A' && s[i] <= 'F' ? s[i] - 'A' + 10
                                             : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* c is behind the backslash. */
static gy_rc escape_read(cursor *c, gy_buf *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (c->at == c->end) return bad(c, "an escape");
    char e = *c->at++;
    const char *k = e ? strchr(from, e) : NULL;
    if (k) return gy_buf_c(out, to[k - from]), GY_OK;
    int u = e == 'u' ? hex4(c, c->at) : -1;
    if (u < 0) return bad(c, "an escape");
    c->at += 4;
    if (u >= 0xD800 && u < 0xDC00 && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u') {
        int low = hex4(c, c->at + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
            c->at += 6;
        }
    }
    gy_buf_utf8(out, (uint32_t)u); /* a lone surrogate becomes U+FFFD */
    return GY_OK;
}

static gy_rc utf8_check(cursor *c, const char *s, const char *end) {
    while (s < end) {
        uint32_t cp;
        size_t len = gy_utf8_get(s, (size_t)(end - s), &cp);
        if (cp == 0xFFFD && !(len == 3 && !memcmp(s, "\xEF\xBF\xBD", 3)))
            return c->at = s, bad(c, "UTF-8");
        s += len;
    }
    return GY_OK;
}

/* A string without escapes: *s, *n point into the text, and true; else the cursor stays behind the
 * opening quote. */
static gy_rc plain_read(cursor *c, const char **s, size_t *n, bool *plain) {
    if (!take(c, '"')) return bad(c, "a string");
    const char *p = c->at;
    uint8_t high = 0;
    while (p < c->end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20) high |= (uint8_t)*p++;
    *s = c->at, *n = (size_t)(p - c->at);
    *plain = p < c->end && *p == '"';
    if (!*plain) return GY_OK;
    const char *begin = c->at;
    c->at = p + 1;
    if (!(high & 0x80)) return GY_OK;
    return utf8_check(c, begin, p);
}

/* The rest of a string that has escapes, appended to out; c is behind the opening quote. */
static gy_rc rest_read(cursor *c, gy_buf *out) {
    for (;;) {
        const char *p = c->at;
        while (p < c->end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20) p++;
        gy_rc rc = utf8_check(c, c->at, p);
        if (rc) return rc;
        gy_buf_add(out, c->at, (size_t)(p - c->at));
        c->at = p;
        if (p == c->end || (uint8_t)*p < 0x20) return bad(c, "the end of a string");
        c->at++;
        if (*p == '"') return GY_OK;
        rc = escape_read(c, out);
        if (rc) return rc;
    }
}

static gy_rc string_read(cursor *c, gy_buf *out) {
    const char *s;
    size_t n;
    bool plain;
    gy_rc rc = plain_read(c, &s, &n, &plain);
    if (rc) return rc;
    if (!plain) return rest_read(c, out);
    gy_buf_add(out, s, n);
    return GY_OK;
}

static gy_rc string_skip(cursor *c) {
    for (c->at++; c->at < c->end && *c->at != '"'; c->at++) {
        if (*c->at == '\\') c->at++;
    }
    if (c->at >= c->end) return c->at = c->end, bad(c, "the end of a string");
    c->at++;
    return GY_OK;
}

/* Skips one value; what it holds is checked when it is read. */
static gy_rc value_skip(cursor *c) {
    space_skip(c);
    size_t depth = 0;
    const char *start = c->at;
    while (c->at < c->end) {
        char ch = *c->at;
        if (ch == '"') {
            gy_rc rc = string_skip(c);
            if (rc) return rc;
        } else if (ch == '{' || ch == '[') {
            depth++, c->at++;
            continue;
        } else if (ch == '}' || ch == ']') {
            if (!depth) break;
            depth--, c->at++;
        } else if (ch == ',' && !depth) {
            break;
        } else {
            c->at++;
            if (!depth && c->at < c->end && strchr(" \n\r\t", *c->at)) return GY_OK;
            continue;
        }
        if (!depth) return GY_OK;
    }
    return depth || c->at == start ? bad(c, "a value") : GY_OK;
}

/* ---- The parts ---- */

/* The members of one object: copied to out, but for those that keep takes over. */
typedef bool (*keep_fn)(gy_tok_scan *s, cursor *c, gy_buf *out, const char *key, gy_rc *rc);

static gy_rc members_read(gy_tok_scan *s, cursor *c, gy_buf *out, keep_fn keep) {
    if (!take(c, '{')) return bad(c, "an object");
    gy_buf key = {0};
    gy_rc rc = GY_OK;
    bool first = true, any = false;
    gy_buf_c(out, '{');
    while (!rc && !take(c, '}')) {
        if (!first && !take(c, ',')) rc = bad(c, "a comma or }");
        first = false;
        space_skip(c);
        const char *key_at = c->at;
        key.n = 0;
        if (!rc) rc = string_read(c, &key);
        size_t key_bytes = (size_t)(c->at - key_at);
        if (!rc && !take(c, ':')) rc = bad(c, "a colon");
        if (rc) break;
        size_t mark = out->n;
        if (any) gy_buf_c(out, ',');
        gy_buf_add(out, key_at, key_bytes);
        gy_buf_c(out, ':');
        if (keep(s, c, out, key.p ? key.p : "", &rc)) {
            if (out->n > mark && out->p[out->n - 1] == ':') {
                out->n = mark;
                continue;
            }
        } else {
            space_skip(c);
            const char *value = c->at;
            rc = value_skip(c);
            gy_buf_add(out, value, (size_t)(c->at - value));
        }
        any = true;
    }
    gy_buf_c(out, '}');
    gy_buf_free(&key);
    return rc;
}

static bool model_keep(gy_tok_scan *s, cursor *c, gy_buf *out, const char *key, gy_rc *rc) {
    (void)out;
    bool vocab = !strcmp(key, "vocab");
    if (!vocab && strcmp(key, "merges")) return false;
    space_skip(c);
    const char *start = c->at, **at = vocab ? &s->vocab : &s->merges;
    if (*at) {
        *rc = gy_fail(c->err, GY_EFORMAT, "tokenizer.json: model.%s is there twice", key);
        return true;
    }
    *rc = value_skip(c);
    *at = start;
    *(vocab ? &s->vocab_bytes : &s->merges_bytes) = (size_t)(c->at - start);
    return true;
}

static bool top_keep(gy_tok_scan *s, cursor *c, gy_buf *out, const char *key, gy_rc *rc) {
    if (strcmp(key, "model")) return false;
    space_skip(c);
    if (c->at == c->end || *c->at != '{') return false;
    *rc = members_read(s, c, out, model_keep);
    return true;
}

gy_rc gy_tok_scan_open(gy_tok_scan *s, const char *text, size_t n, gy_buf *rest, gy_err *err) {
    if (n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) text += 3, n -= 3;
    cursor c = {text, text + n, text, err};
    gy_rc rc = members_read(s, &c, rest, top_keep);
    space_skip(&c);
    if (!rc && c.at != c.end) rc = bad(&c, "the end of the file");
    if (!rc && rest->oom) rc = gy_tok_oom(err);
    return rc;
}

/* ---- model.vocab ---- */

/* An integer from 0 on; other numbers, also 1.0, are refused. */
static gy_rc id_read(cursor *c, int64_t *id) {
    space_skip(c);
    const char *p = c->at;
    int64_t v = 0;
    while (p < c->end && *p >= '0' && *p <= '9' && v < GY_TOK_MAX_IDS) v = v * 10 + (*p++ - '0');
    if (p == c->at || (p < c->end && !strchr(",} \n\r\t", *p))) return bad(c, "a token's id");
    c->at = p;
    *id = v;
    return GY_OK;
}

static gy_rc name_read(gy_tok_scan *s, cursor *c, size_t *at) {
    *at = s->names.text.n;
    gy_rc rc = string_read(c, &s->names.text);
    if (!rc && s->names.text.n - *at > GY_TOK_MAX_NAME)
        rc = gy_fail(c->err, GY_ELIMIT, "tokenizer.json: a name is over 1 MiB");
    return rc;
}

static gy_rc names_read(gy_tok_scan *s, cursor *c) {
    bool first = true;
    while (!take(c, '}')) {
        size_t at;
        int64_t id = 0;
        if (!first && !take(c, ',')) return bad(c, "a comma or }");
        first = false;
        gy_rc rc = name_read(s, c, &at);
        if (rc) return rc;
        if (!take(c, ':')) return bad(c, "a colon");
        rc = id_read(c, &id);
        if (rc) return rc;
        if (s->names.text.oom) return gy_tok_oom(c->err);
        gy_vocab_add(&s->names, at, id);
    }
    return GY_OK;
}

/* A number as base/json reads it. */
static gy_rc score_read(cursor *c, double *x) {
    char digits[64];
    space_skip(c);
    size_t n = 0;
    while (c->at + n < c->end && n < sizeof digits - 1 && strchr("+-.0123456789eE", c->at[n]) &&
           c->at[n])
        n++;
    memcpy(digits, c->at, n);
    digits[n] = 0;
    gy_json v = {.kind = GY_JSON_NUM, .n = (uint32_t)n, .s = digits};
    bool sign = n && digits[0] == '-';
    if (n <= sign || digits[sign] < '0' || digits[sign] > '9' || !gy_json_num(&v, x))
        return bad(c, "a score");
    c->at += n;
    return GY_OK;
}

static gy_rc scores_read(gy_tok_scan *s, cursor *c) {
    size_t cap = 0;
    s->scored = true;
    for (bool first = true; !take(c, ']'); first = false) {
        size_t at, i = s->names.n;
        if (!first && !take(c, ',')) return bad(c, "a comma or ]");
        if (!take(c, '[')) return bad(c, "a pair of name and score");
        gy_rc rc = name_read(s, c, &at);
        if (rc) return rc;
        if (i == cap) {
            cap = cap ? cap * 2 : 4096;
            double *score = gy_realloc(s->score, cap * sizeof *score);
            if (!score) return gy_tok_oom(c->err);
            s->score = score;
        }
        if (!take(c, ',')) return bad(c, "a comma");
        rc = score_read(c, &s->score[i]);
        if (rc) return rc;
        if (!take(c, ']')) return bad(c, "]");
        if (s->names.text.oom || s->names.oom) return gy_tok_oom(c->err);
        gy_vocab_add(&s->names, at, (int64_t)i);
        if (s->names.n != i + 1) return gy_tok_oom(c->err);
    }
    return GY_OK;
}

gy_rc gy_tok_scan_vocab(gy_tok_scan *s, gy_err *err) {
    if (!s->vocab) return gy_fail(err, GY_EFORMAT, "tokenizer.json: model.vocab is missing");
    cursor c = {s->vocab, s->vocab + s->vocab_bytes, s->vocab, err};
    /* A name and its id take about 24 bytes of an indented file. */
    if (!gy_buf_need(&s->names.text, s->vocab_bytes / 4 + 1)) return gy_tok_oom(err);
    gy_rc rc = take(&c, '{')   ? names_read(s, &c)
               : take(&c, '[') ? scores_read(s, &c)
                               : bad(&c, "an object or a list");
    return rc ? gy_fail_in(err, "model.vocab") : GY_OK;
}

/* ---- model.merges ---- */

/* Merges are looked up a batch at a time, so that the memory a lookup needs is already on its way.
 */
enum { BATCH = 32 };
typedef struct {
    const char *s;
    size_t n;
    uint32_t hash;
    int32_t id;
} word;
typedef struct {
    word a, b, joined;
} merge;
typedef struct {
    merge m[BATCH];
    int n;
    gy_buf copy[2 * BATCH]; /* decoded strings that have escapes */
    gy_buf joined;
} batch;

static void word_prefetch(const gy_vocab *v, word *w) {
    w->hash = gy_tok_hash(w->s, w->n);
    __builtin_prefetch(&v->slot[w->hash & v->mask]);
}

static gy_rc batch_resolve(const gy_vocab *v, batch *b, size_t prefix_bytes, gy_bpe_pair *out,
                           gy_err *err) {
    char q[64], r[64];
    size_t at[BATCH];
    for (int i = 0; i < b->n; i++) {
        merge *m = &b->m[i];
        m->a.id = gy_vocab_find_hash(v, m->a.s, m->a.n, m->a.hash);
        m->b.id = gy_vocab_find_hash(v, m->b.s, m->b.n, m->b.hash);
    }
    b->joined.n = 0;
    for (int i = 0; i < b->n; i++) {
        merge *m = &b->m[i];
        size_t cut = m->b.n < prefix_bytes ? m->b.n : prefix_bytes;
        at[i] = b->joined.n;
        gy_buf_add(&b->joined, m->a.s, m->a.n);
        gy_buf_add(&b->joined, m->b.s + cut, m->b.n - cut);
        m->joined.n = b->joined.n - at[i];
    }
    if (b->joined.oom) return gy_tok_oom(err);
    for (int i = 0; i < b->n; i++) {
        b->m[i].joined.s = b->joined.p + at[i];
        word_prefetch(v, &b->m[i].joined);
    }
    for (int i = 0; i < b->n; i++) {
        merge *m = &b->m[i];
        int32_t id = gy_vocab_find_hash(v, m->joined.s, m->joined.n, m->joined.hash);
        if (m->a.id < 0 || m->b.id < 0 || id < 0) {
            return gy_fail(
                err, GY_EFORMAT,
                "tokenizer.json: model.merges: \"%s\" and \"%s\" do not join two names to a third",
                gy_err_quote(q, m->a.s, m->a.n), gy_err_quote(r, m->b.s, m->b.n));
        }
        out[i] = (gy_bpe_pair){(uint32_t)m->a.id, (uint32_t)m->b.id, 0, id};
    }
    b->n = 0;
    return GY_OK;
}

static gy_rc word_read(cursor *c, word *w, gy_buf *copy) {
    bool plain;
    gy_rc rc = plain_read(c, &w->s, &w->n, &plain);
    if (rc || plain) return rc;
    copy->n = 0;
    rc = rest_read(c, copy);
    if (rc) return rc;
    if (copy->oom) return gy_tok_oom(c->err);
    w->s = copy->p ? copy->p : "", w->n = copy->n;
    return GY_OK;
}

/* ["a","b"] or "a b" */
static gy_rc merge_read(cursor *c, const gy_vocab *v, batch *b) {
    merge *m = &b->m[b->n];
    gy_rc rc;
    if (take(c, '[')) {
        rc = word_read(c, &m->a, &b->copy[2 * b->n]);
        if (rc) return rc;
        if (!take(c, ',')) return bad(c, "a comma");
        rc = word_read(c, &m->b, &b->copy[2 * b->n + 1]);
        if (rc) return rc;
        if (!take(c, ']')) return bad(c, "]");
    } else {
        word w;
        rc = word_read(c, &w, &b->copy[2 * b->n]);
        if (rc) return rc;
        const char *space = memchr(w.s, ' ', w.n);
        if (!space || memchr(space + 1, ' ', w.n - (size_t)(space + 1 - w.s)))
            return bad(c, "a merge of two parts");
        m->a.s = w.s, m->a.n = (size_t)(space - w.s);
        m->b.s = space + 1, m->b.n = w.n - m->a.n - 1;
    }
    word_prefetch(v, &m->a);
    word_prefetch(v, &m->b);
    b->n++;
    return GY_OK;
}

static gy_rc merges_read(cursor *c, const gy_vocab *v, batch *b, size_t prefix_bytes,
                         gy_bpe_pair **merge, size_t *n) {
    size_t cap = 0;
    if (!take(c, '[')) return bad(c, "a list");
    bool end = take(c, ']');
    for (bool first = true; !end || b->n; first = false) {
        if (*n + BATCH > cap) {
            cap = cap ? cap * 2 : 4096;
            gy_bpe_pair *p = gy_realloc(*merge, cap * sizeof *p);
            if (!p) return gy_tok_oom(c->err);
            *merge = p;
        }
        while (!end && b->n < BATCH) {
            if ((!first || b->n) && !take(c, ',')) return bad(c, "a comma or ]");
            gy_rc rc = merge_read(c, v, b);
            if (rc) return rc;
            end = take(c, ']');
        }
        int k = b->n;
        gy_rc rc = batch_resolve(v, b, prefix_bytes, *merge + *n, c->err);
        if (rc) return rc;
        *n += (size_t)k;
    }
    return GY_OK;
}

gy_rc gy_tok_scan_merges(const gy_tok_scan *s, const gy_vocab *v, size_t prefix_bytes,
                         gy_bpe_pair **merge, size_t *n, gy_err *err) {
    *merge = NULL, *n = 0;
    if (!s->merges) return gy_fail(err, GY_EFORMAT, "tokenizer.json: model.merges is missing");
    batch *b = gy_alloc(sizeof *b);
    if (!b) return gy_tok_oom(err);
    cursor c = {s->merges, s->merges + s->merges_bytes, s->merges, err};
    gy_rc rc = merges_read(&c, v, b, prefix_bytes, merge, n);
    for (int i = 0; i < 2 * BATCH; i++) gy_buf_free(&b->copy[i]);
    gy_buf_free(&b->joined);
    gy_free(b);
    return rc;
}

void gy_tok_scan_free(gy_tok_scan *s) {
    gy_buf_free(&s->names.text);
    gy_free(s->names.entry);
    gy_free(s->score);
    *s = (gy_tok_scan){0};
}
