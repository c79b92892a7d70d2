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
    const char *p = c->at;
    while (p < c->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
        while (c->end - p >= 8 && gy_tok_load64(p) == 0x2020202020202020u) p += 8; /* indentation */
    }
    c->at = p;
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

/* The first byte of s[.. end) that a string does not simply hold: a quote, a backslash or a control
 * character. high gathers the top bits of what lies before. Eight bytes at a time: the lowest
 * marked byte is always right (little-endian). */
static const char *plain_end(const char *s, const char *end, uint64_t *high) {
    static const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    for (; end - s >= 8; s += 8) {
        uint64_t x = gy_tok_load64(s), quote = x ^ ones * '"', slash = x ^ ones * '\\';
        uint64_t hit =
            (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((x - ones * 0x20) & ~x)) &
            tops;
        if (hit) {
            int k = __builtin_ctzll(hit) / 8;
            *high |= k ? x << (64 - 8 * k) & tops : 0;
            return s + k;
        }
        *high |= x & tops;
    }
    for (; s < end && *s != '"' && *s != '\\' && (uint8_t)*s >= 0x20; s++)
        *high |= (uint8_t)*s & 0x80;
    return s;
}

/* A string without escapes: *s, *n point into the text, and true; else the cursor stays behind the
 * opening quote. */
static gy_rc plain_read(cursor *c, const char **s, size_t *n, bool *plain) {
    if (!take(c, '"')) return bad(c, "a string");
    uint64_t high = 0;
    const char *begin = c->at, *p = plain_end(begin, c->end, &high);
    *s = begin, *n = (size_t)(p - begin);
    *plain = p < c->end && *p == '"';
    if (!*plain) return GY_OK;
    c->at = p + 1;
    return high ? utf8_check(c, begin, p) : GY_OK;
}

/* The rest of a string that has escapes, appended to out; c is behind the opening quote. */
static gy_rc rest_read(cursor *c, gy_buf *out) {
    for (;;) {
        uint64_t high = 0;
        const char *p = plain_end(c->at, c->end, &high);
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

static gy_rc vocab_read(gy_tok_scan *s, cursor *c) {
    /* A name and its id take some 24 bytes of an indented file, and merges more than the rest of
     * it. */
    if (!gy_buf_need(&s->names.text, (size_t)(c->end - c->at) / 16 + 1)) return gy_tok_oom(c->err);
    s->vocab = true;
    return take(c, '{')   ? names_read(s, c)
           : take(c, '[') ? scores_read(s, c)
                          : bad(c, "an object or a list");
}

/* ---- model.merges ---- */

/* One part of a merge: where it is in the file, or in escaped when it had escapes (top bit of n).
 */
#define ESCAPED 0x80000000u

static gy_rc part_read(gy_tok_scan *s, cursor *c, gy_name *part) {
    const char *p;
    size_t n;
    bool plain;
    gy_rc rc = plain_read(c, &p, &n, &plain);
    if (rc) return rc;
    if (plain) {
        *part = (gy_name){(uint32_t)(p - c->start), (uint32_t)n};
    } else {
        size_t at = s->escaped.n;
        rc = rest_read(c, &s->escaped);
        if (rc) return rc;
        if (s->escaped.oom) return gy_tok_oom(c->err);
        n = s->escaped.n - at;
        *part = (gy_name){(uint32_t)at, (uint32_t)n | ESCAPED};
    }
    return n <= GY_TOK_MAX_NAME
               ? GY_OK
               : gy_fail(c->err, GY_ELIMIT, "tokenizer.json: model.merges: a name is over 1 MiB");
}

static const char *part_text(const gy_tok_scan *s, const gy_name *part, size_t *n) {
    *n = part->n & ~ESCAPED;
    return part->n & ESCAPED ? (s->escaped.p ? s->escaped.p : "") + part->at : s->text + part->at;
}

/* ["a","b"] or "a b" */
static gy_rc merge_read(gy_tok_scan *s, cursor *c, gy_tok_merge *m) {
    gy_rc rc;
    if (take(c, '[')) {
        rc = part_read(s, c, &m->a);
        if (rc) return rc;
        if (!take(c, ',')) return bad(c, "a comma");
        rc = part_read(s, c, &m->b);
        return rc || take(c, ']') ? rc : bad(c, "]");
    }
    rc = part_read(s, c, &m->a);
    if (rc) return rc;
    size_t n;
    const char *p = part_text(s, &m->a, &n), *space = memchr(p, ' ', n);
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - p)))
        return bad(c, "a merge of two parts");
    uint32_t left = (uint32_t)(space - p), escaped = m->a.n & ESCAPED;
    m->b = (gy_name){m->a.at + left + 1, ((uint32_t)n - left - 1) | escaped};
    m->a.n = left | escaped;
    return GY_OK;
}

static gy_rc merges_read(gy_tok_scan *s, cursor *c) {
    size_t cap = 0;
    s->has_merges = true;
    if (!take(c, '[')) return bad(c, "a list");
    for (bool first = true; !take(c, ']'); first = false) {
        if (!first && !take(c, ',')) return bad(c, "a comma or ]");
        if (s->merges == cap) {
            cap = cap ? cap * 2 : 4096;
            gy_tok_merge *m = gy_realloc(s->merge, cap * sizeof *m);
            if (!m) return gy_tok_oom(c->err);
            s->merge = m;
        }
        gy_rc rc = merge_read(s, c, &s->merge[s->merges]);
        if (rc) return rc;
        s->merges++;
    }
    return GY_OK;
}

/* Merges are looked up a batch at a time and in stages, so that the memory that a stage needs is on
 * its way since the one before: slot, then name, then text. */
enum { BATCH = 32 };
typedef struct {
    const char *s;
    size_t n;
    uint32_t hash;
} word;
typedef struct {
    word w[3 * BATCH]; /* left parts, right parts, joined names */
    int32_t id[3 * BATCH];
    gy_buf joined;
} batch;

static void words_find(const gy_vocab *v, batch *b, int from, int to) {
    for (int i = from; i < to; i++) {
        b->w[i].hash = gy_tok_hash(b->w[i].s, b->w[i].n);
        __builtin_prefetch(&v->slot[b->w[i].hash & v->mask]);
    }
    for (int i = from; i < to; i++) {
        int32_t id = v->slot[b->w[i].hash & v->mask].id;
        if (id >= 0) __builtin_prefetch(&v->name[id]);
    }
    for (int i = from; i < to; i++) {
        int32_t id = v->slot[b->w[i].hash & v->mask].id;
        if (id >= 0 && v->name[id].at != GY_NAME_NONE) __builtin_prefetch(v->text + v->name[id].at);
    }
    for (int i = from; i < to; i++)
        b->id[i] = gy_vocab_find_hash(v, b->w[i].s, b->w[i].n, b->w[i].hash);
}

static gy_rc joined_make(batch *b, int n, size_t prefix_bytes, gy_err *err) {
    size_t at[BATCH];
    b->joined.n = 0;
    for (int i = 0; i < n; i++) {
        const word *l = &b->w[i], *r = &b->w[n + i];
        size_t cut = r->n < prefix_bytes ? r->n : prefix_bytes;
        at[i] = b->joined.n;
        gy_buf_add(&b->joined, l->s, l->n);
        gy_buf_add(&b->joined, r->s + cut, r->n - cut);
        b->w[2 * n + i].n = b->joined.n - at[i];
    }
    if (b->joined.oom) return gy_tok_oom(err);
    for (int i = 0; i < n; i++) b->w[2 * n + i].s = (b->joined.p ? b->joined.p : "") + at[i];
    return GY_OK;
}

static gy_rc batch_find(const gy_tok_scan *s, const gy_vocab *v, gy_bpe *m, batch *b,
                        const gy_tok_merge *merge, int n, gy_bpe_pair *out, gy_err *err) {
    for (int i = 0; i < n; i++) {
        b->w[i].s = part_text(s, &merge[i].a, &b->w[i].n);
        b->w[n + i].s = part_text(s, &merge[i].b, &b->w[n + i].n);
    }
    gy_rc rc = joined_make(b, n, m->prefix_bytes, err);
    if (rc) return rc;
    words_find(v, b, 0, 3 * n);
    for (int i = 0; i < n; i++) {
        const word *l = &b->w[i], *r = &b->w[n + i];
        if (b->id[i] < 0 || b->id[n + i] < 0 || b->id[2 * n + i] < 0) {
            char q[64], t[64];
            return gy_fail(
                err, GY_EFORMAT,
                "tokenizer.json: model.merges: \"%s\" and \"%s\" do not join two names to a third",
                gy_err_quote(q, l->s, l->n), gy_err_quote(t, r->s, r->n));
        }
        out[i] = (gy_bpe_pair){(uint32_t)b->id[i], (uint32_t)b->id[n + i], 0, b->id[2 * n + i]};
        gy_bpe_joint(m, l->s, l->n, b->id[i], r->s, r->n, b->id[n + i]);
    }
    return GY_OK;
}

gy_rc gy_tok_scan_merges(const gy_tok_scan *s, const gy_vocab *v, gy_bpe *m, gy_err *err) {
    if (!s->has_merges) return gy_fail(err, GY_EFORMAT, "tokenizer.json: model.merges is missing");
    gy_bpe_pair *pair = gy_alloc_n(s->merges + 1, sizeof *pair);
    batch *b = gy_alloc(sizeof *b);
    gy_rc rc = pair && b ? GY_OK : gy_tok_oom(err);
    for (size_t i = 0; !rc && i < s->merges; i += BATCH) {
        int n = s->merges - i < BATCH ? (int)(s->merges - i) : BATCH;
        rc = batch_find(s, v, m, b, &s->merge[i], n, pair + i, err);
    }
    if (!rc) rc = gy_bpe_pairs(m, pair, s->merges, err);
    if (b) gy_buf_free(&b->joined);
    gy_free(b);
    gy_free(pair);
    return rc;
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
        if (!rc && key.oom) rc = gy_tok_oom(c->err);
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
    if (vocab ? s->vocab : s->has_merges) {
        *rc = gy_fail(c->err, GY_EFORMAT, "tokenizer.json: model.%s is there twice", key);
    } else {
        *rc = vocab ? vocab_read(s, c) : merges_read(s, c);
    }
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
    if (n > UINT32_MAX / 2)
        return gy_fail(err, GY_ELIMIT, "tokenizer.json: %zu bytes, at most 2 GiB", n);
    cursor c = {text, text + n, text, err};
    s->text = text;
    gy_rc rc = members_read(s, &c, rest, top_keep);
    space_skip(&c);
    if (!rc && c.at != c.end) rc = bad(&c, "the end of the file");
    if (!rc && rest->oom) rc = gy_tok_oom(err);
    if (!rc && !s->vocab) rc = gy_fail(err, GY_EFORMAT, "tokenizer.json: model.vocab is missing");
    return rc;
}

void gy_tok_scan_free(gy_tok_scan *s) {
    gy_buf_free(&s->names.text);
    gy_free(s->names.entry);
    gy_free(s->score);
    gy_free(s->merge);
    gy_buf_free(&s->escaped);
    *s = (gy_tok_scan){0};
}
