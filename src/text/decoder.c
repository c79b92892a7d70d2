/* The decoder: steps that turn names into text, each of which the next one reads.
 *
 *     names --push--> step 0 --> step 1 --> ... --> sink
 *
 * Before a Fuse or ByteLevel a step sees whole tokens; behind it, one endless token in parts
 * (fused). A step gives on what can no longer change and holds the rest. The reference turns a run
 * of <0xNN> tokens with one bad byte into U+FFFD entirely; that cannot be streamed, so here the
 * well-formed characters of such a run stay and every other byte becomes one U+FFFD. */
#include "base/utf8.h"
#include "text/tok_in.h"

static const char replacement[] = "\xEF\xBF\xBD";

/* ---- From JSON ---- */

static gy_rc unsupported(gy_err *err, const char *what, const char *name) {
    char q[64];
    return gy_fail(err, GY_EUNSUPPORTED, "tokenizer: decoder: %s \"%s\"", what,
                   gy_err_quote(q, name, strlen(name)));
}

static gy_rc text_set(char **to, size_t *bytes, const gy_json *v, const char *what, gy_err *err) {
    if (!gy_json_is(v, GY_JSON_STR))
        return gy_fail(err, GY_EFORMAT, "tokenizer: decoder: %s is not a string", what);
    *to = gy_strndup(v->s, v->n);
    *bytes = v->n;
    return *to ? GY_OK : gy_tok_oom(err);
}

static gy_rc replace_read(gy_dec_step *s, const gy_json *v, gy_err *err) {
    const gy_json *pattern = gy_json_get(v, "pattern");
    const gy_json *plain = gy_json_get(pattern, "String"), *regex = gy_json_get(pattern, "Regex");
    gy_rc rc = text_set(&s->to, &s->to_bytes, gy_json_get(v, "content"), "content of Replace", err);
    if (rc) return rc;
    if (gy_json_is(regex, GY_JSON_STR)) {
        s->kind = GY_DEC_REPLACE_RE;
        return gy_regex_new(regex->s, regex->n, &s->re, err);
    }
    s->kind = GY_DEC_REPLACE;
    rc = text_set(&s->from, &s->from_bytes, plain, "pattern of Replace", err);
    if (!rc && !s->from_bytes)
        rc = gy_fail(err, GY_EFORMAT, "tokenizer: decoder: pattern of Replace is empty");
    return rc;
}

static gy_rc strip_read(gy_dec_step *s, const gy_json *v, gy_err *err) {
    s->kind = GY_DEC_STRIP;
    s->start = gy_json_i(v, "start", 0), s->stop = gy_json_i(v, "stop", 0);
    gy_rc rc =
        text_set(&s->from, &s->from_bytes, gy_json_get(v, "content"), "content of Strip", err);
    if (rc) return rc;
    uint32_t c;
    if (!s->from_bytes || gy_utf8_get(s->from, s->from_bytes, &c) != s->from_bytes ||
        s->start < 0 || s->stop < 0) {
        return gy_fail(err, GY_EFORMAT,
                       "tokenizer: decoder: Strip needs one character and counts from 0");
    }
    return GY_OK;
}

static gy_rc metaspace_read(gy_dec_step *s, const gy_json *v, gy_err *err) {
    const char *scheme =
        gy_json_s(v, "prepend_scheme", gy_json_b(v, "add_prefix_space", true) ? "always" : "never");
    s->kind = GY_DEC_METASPACE;
    s->flag = strcmp(scheme, "never") != 0;
    gy_rc rc = text_set(&s->from, &s->from_bytes, gy_json_get(v, "replacement"),
                        "replacement of Metaspace", err);
    if (!rc && !s->from_bytes)
        rc = gy_fail(err, GY_EFORMAT, "tokenizer: decoder: replacement of Metaspace is empty");
    return rc;
}

static gy_rc text_or(gy_dec_step *s, const gy_json *v, const char *key, const char *absent,
                     gy_err *err) {
    const gy_json *text = gy_json_get(v, key);
    if (!gy_json_null(text)) return text_set(&s->from, &s->from_bytes, text, key, err);
    s->from = gy_strdup(absent), s->from_bytes = strlen(absent);
    return s->from ? GY_OK : gy_tok_oom(err);
}

static gy_rc step_read(gy_dec_step *s, const char *type, const gy_json *v, gy_err *err) {
    if (!strcmp(type, "ByteLevel")) return s->kind = GY_DEC_BYTELEVEL, GY_OK;
    if (!strcmp(type, "ByteFallback")) return s->kind = GY_DEC_FALLBACK, GY_OK;
    if (!strcmp(type, "Fuse")) return s->kind = GY_DEC_FUSE, GY_OK;
    if (!strcmp(type, "Replace")) return replace_read(s, v, err);
    if (!strcmp(type, "Strip")) return strip_read(s, v, err);
    if (!strcmp(type, "Metaspace")) return metaspace_read(s, v, err);
    if (!strcmp(type, "WordPiece")) {
        s->kind = GY_DEC_WORDPIECE, s->flag = gy_json_b(v, "cleanup", true);
        return text_or(s, v, "prefix", "##", err);
    }
    if (!strcmp(type, "BPEDecoder")) {
        s->kind = GY_DEC_BPE;
        return text_or(s, v, "suffix", "</w>", err);
    }
    return unsupported(err, "type", type);
}

static gy_rc steps_read(gy_decoder *d, const gy_json *v, int depth, gy_err *err) {
    const char *type = gy_json_s(v, "type", NULL);
    if (!type) return gy_fail(err, GY_EFORMAT, "tokenizer: decoder: type is missing");
    if (depth > 8)
        return gy_fail(err, GY_ELIMIT, "tokenizer: decoder: Sequences are nested too deeply");
    if (!strcmp(type, "Sequence")) {
        const gy_json *list = gy_json_get(v, "decoders");
        if (!gy_json_is(list, GY_JSON_ARR))
            return gy_fail(err, GY_EFORMAT, "tokenizer: decoder: decoders is not a list");
        gy_rc rc = GY_OK;
        for (uint32_t i = 0; !rc && i < list->n; i++)
            rc = steps_read(d, &list->item[i], depth + 1, err);
        return rc;
    }
    if (d->n == GY_DEC_STEPS)
        return gy_fail(err, GY_ELIMIT, "tokenizer: decoder: more than %d steps", GY_DEC_STEPS);
    gy_dec_step *s = &d->step[d->n];
    if (d->n) {
        uint8_t before = s[-1].kind;
        s->fused = s[-1].fused || before == GY_DEC_FUSE || before == GY_DEC_BYTELEVEL;
    }
    d->n++;
    return step_read(s, type, v, err);
}

gy_rc gy_decoder_new(gy_decoder *d, const gy_json *decoder, gy_err *err) {
    if (gy_json_null(decoder)) {
        d->step[0].kind = GY_DEC_JOIN, d->n = 1;
        return GY_OK;
    }
    return steps_read(d, decoder, 0, err);
}

void gy_decoder_free(gy_decoder *d) {
    for (int i = 0; i < d->n; i++) {
        gy_free(d->step[i].from);
        gy_free(d->step[i].to);
        gy_regex_free(d->step[i].re);
    }
    *d = (gy_decoder){0};
}

/* ---- Text tools ---- */

static void replace_all(gy_buf *out, const char *s, size_t n, const char *from, size_t from_bytes,
                        const char *to, size_t to_bytes) {
    while (from_bytes && n >= from_bytes) {
        const char *hit = memmem(s, n, from, from_bytes);
        if (!hit) break;
        gy_buf_add(out, s, (size_t)(hit - s));
        gy_buf_add(out, to, to_bytes);
        n -= (size_t)(hit - s) + from_bytes;
        s = hit + from_bytes;
    }
    gy_buf_add(out, s, n);
}

static void replace_regex(gy_buf *out, const gy_dec_step *s, const char *text, size_t n) {
    size_t done = 0, from = 0, start, end;
    while (from <= n && gy_regex_find(s->re, text, n, from, &start, &end)) {
        if (end == start) { /* the reference skips empty matches */
            from = end + 1;
            continue;
        }
        gy_buf_add(out, text + done, start - done);
        gy_buf_add(out, s->to, s->to_bytes);
        done = from = end;
    }
    gy_buf_add(out, text + done, n - done);
}

/* The clean-up of WordPiece, in the reference's order. */
static void clean_up(gy_buf *b, gy_buf *other) {
    static const char *const rule[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                          {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                          {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                          {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
        size_t n = strlen(rule[i][0]);
        if (!b->p || !memmem(b->p, b->n, rule[i][0], n)) continue;
        other->n = 0;
        replace_all(other, b->p, b->n, rule[i][0], n, rule[i][1], strlen(rule[i][1]));
        gy_buf t = *b;
        *b = *other, *other = t;
    }
}

/* Length of s after at most most times the character c was taken off its end. */
static size_t end_stripped(const char *s, size_t n, const char *c, size_t c_bytes, int64_t most) {
    for (; most > 0 && n >= c_bytes && !memcmp(s + n - c_bytes, c, c_bytes); most--) n -= c_bytes;
    return n;
}

/* ---- Steps ---- */

static void token_in(gy_dec_run *r, int i, const char *s, size_t n);
static void part_in(gy_dec_run *r, int i, const char *s, size_t n);

static void next_out(gy_dec_run *r, int i, const char *s, size_t n) {
    if (++i == r->d->n) {
        if (n) r->sink(r->arg, s, n);
    } else if (r->d->step[i].fused) {
        if (n) part_in(r, i, s, n);
    } else {
        token_in(r, i, s, n);
    }
}

static void buf_out(gy_dec_run *r, int i, const gy_buf *b) {
    if (b->oom) r->oom = true;
    next_out(r, i, b->p ? b->p : "", b->n);
}

/* Bytes of an unfinished character that are decided: a whole character, or one U+FFFD for each bad
 * byte. */
static void parts_out(gy_dec_run *r, int i, bool last) {
    while (r->parts) {
        uint32_t c;
        char *p = (char *)r->part, ch[4];
        size_t n = (size_t)r->parts;
        if (!last && gy_tok_unfinished(p, n)) return;
        size_t len = gy_utf8_get(p, n, &c);
        bool bad = c == 0xFFFD && !(len == 3 && !memcmp(p, replacement, 3));
        if (bad) len = 1;
        memcpy(ch, p, len);
        memmove(p, p + len, n - len);
        r->parts -= (int)len;
        next_out(r, i, bad ? replacement : ch, bad ? 3 : len);
    }
}

static void fallback_token(gy_dec_run *r, int i, const char *s, size_t n) {
    int byte = gy_tok_byte_name(s, n);
    if (byte >= 0) {
        r->part[r->parts++] = (uint8_t)byte;
        parts_out(r, i, false);
        return;
    }
    parts_out(r, i, true);
    next_out(r, i, s, n);
}

static void bytelevel_token(gy_dec_run *r, int i, const char *s, size_t n) {
    gy_buf *b = &r->at[i].tmp;
    b->n = 0;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += gy_utf8_get(s + at, n - at, &c);
        int byte = gy_bytelevel_byte(c);
        if (byte < 0) { /* one foreign character: the token stands for its own bytes */
            next_out(r, i, s, n);
            return;
        }
        gy_buf_c(b, (char)byte);
    }
    buf_out(r, i, b);
}

static void strip_token(gy_dec_run *r, int i, const gy_dec_step *st, const char *s, size_t n) {
    for (int64_t k = st->start;
         k > 0 && n >= st->from_bytes && !memcmp(s, st->from, st->from_bytes); k--) {
        s += st->from_bytes, n -= st->from_bytes;
    }
    next_out(r, i, s, end_stripped(s, n, st->from, st->from_bytes, st->stop));
}

static void wordpiece_token(gy_dec_run *r, int i, const gy_dec_step *st, const char *s, size_t n,
                            bool first) {
    gy_buf *b = &r->at[i].tmp;
    b->n = 0;
    if (!first) {
        if (n >= st->from_bytes && !memcmp(s, st->from, st->from_bytes)) {
            s += st->from_bytes, n -= st->from_bytes;
        } else {
            gy_buf_c(b, ' ');
        }
    }
    gy_buf_add(b, s, n);
    if (st->flag) clean_up(b, &r->at[i].held);
    buf_out(r, i, b);
}

/* The last token's suffix becomes nothing, every other's a space: a token waits for the next one.
 */
static void bpe_token(gy_dec_run *r, int i, const gy_dec_step *st, const char *s, size_t n,
                      bool first) {
    gy_buf *b = &r->at[i].tmp, *held = &r->at[i].held;
    b->n = 0;
    replace_all(b, held->p ? held->p : "", held->n, st->from, st->from_bytes, " ", 1);
    if (!first) buf_out(r, i, b);
    held->n = 0;
    gy_buf_add(held, s, n);
}

static void token_in(gy_dec_run *r, int i, const char *s, size_t n) {
    const gy_dec_step *st = &r->d->step[i];
    gy_buf *b = &r->at[i].tmp;
    bool first = !r->at[i].tokens++;
    switch ((gy_dec_kind)st->kind) {
    case GY_DEC_JOIN:
        if (!first) next_out(r, i, " ", 1);
        next_out(r, i, s, n);
        break;
    case GY_DEC_BYTELEVEL: bytelevel_token(r, i, s, n); break;
    case GY_DEC_REPLACE:
        b->n = 0;
        replace_all(b, s, n, st->from, st->from_bytes, st->to, st->to_bytes);
        buf_out(r, i, b);
        break;
    case GY_DEC_REPLACE_RE:
        b->n = 0;
        replace_regex(b, st, s, n);
        buf_out(r, i, b);
        break;
    case GY_DEC_FALLBACK: fallback_token(r, i, s, n); break;
    case GY_DEC_FUSE: next_out(r, i, s, n); break;
    case GY_DEC_STRIP: strip_token(r, i, st, s, n); break;
    case GY_DEC_METASPACE:
        b->n = 0;
        replace_all(b, s, n, st->from, st->from_bytes, " ", first && st->flag ? 0 : 1);
        buf_out(r, i, b);
        break;
    case GY_DEC_WORDPIECE: wordpiece_token(r, i, st, s, n, first); break;
    case GY_DEC_BPE: bpe_token(r, i, st, s, n, first); break;
    }
}

/* ---- Steps behind a Fuse ---- */

/* Characters that Strip takes off the start of the one token. */
static void strip_start(gy_dec_run *r, int i, const gy_dec_step *st, gy_buf *held) {
    while (r->at[i].cut >= 0) {
        if (r->at[i].cut >= st->start) {
            r->at[i].cut = -1;
            return;
        }
        size_t n = held->n < st->from_bytes ? held->n : st->from_bytes;
        bool same = !memcmp(held->p, st->from, n);
        if (same && n < st->from_bytes) return; /* not all of the character is here yet */
        if (!same) {
            r->at[i].cut = -1;
            return;
        }
        memmove(held->p, held->p + n, held->n - n);
        held->n -= n;
        r->at[i].cut++;
    }
}

static void strip_part(gy_dec_run *r, int i, const gy_dec_step *st, gy_buf *held) {
    if (held->n) strip_start(r, i, st, held);
    if (r->at[i].cut >= 0 || !held->n) return;
    /* A part of the character at the end may also become one to strip: it is held as if it were. */
    size_t n = held->n;
    if (st->stop) {
        for (size_t k = st->from_bytes - 1; k > 0; k--) {
            if (n >= k && !memcmp(held->p + n - k, st->from, k)) {
                n -= k;
                break;
            }
        }
    }
    n = end_stripped(held->p, n, st->from, st->from_bytes, st->stop);
    next_out(r, i, held->p, n);
    memmove(held->p, held->p + n, held->n - n);
    held->n -= n;
}

static void replace_part(gy_dec_run *r, int i, const gy_dec_step *st, gy_buf *held, const char *to,
                         size_t to_bytes) {
    const char *s = held->p;
    size_t left = held->n;
    for (const char *hit;
         left >= st->from_bytes && (hit = memmem(s, left, st->from, st->from_bytes));) {
        next_out(r, i, s, (size_t)(hit - s));
        next_out(r, i, to, to_bytes);
        left -= (size_t)(hit - s) + st->from_bytes;
        s = hit + st->from_bytes;
    }
    /* The longest end that the pattern could start with stays. */
    size_t keep = left < st->from_bytes ? left : st->from_bytes - 1;
    while (keep && memcmp(s + left - keep, st->from, keep)) keep--;
    next_out(r, i, s, left - keep);
    memmove(held->p, s + left - keep, keep);
    held->n = keep;
}

/* Metaspace and BPEDecoder see one token, which is the first and the last: their mark becomes
 * nothing. */
static void part_in(gy_dec_run *r, int i, const char *s, size_t n) {
    const gy_dec_step *st = &r->d->step[i];
    gy_buf *held = &r->at[i].held;
    if (st->kind == GY_DEC_FUSE || st->kind == GY_DEC_JOIN || st->kind == GY_DEC_BYTELEVEL) {
        next_out(r, i, s, n);
        return;
    }
    gy_buf_add(held, s, n);
    if (held->oom) {
        r->oom = true;
        return;
    }
    switch ((gy_dec_kind)st->kind) {
    case GY_DEC_STRIP: strip_part(r, i, st, held); break;
    case GY_DEC_REPLACE: replace_part(r, i, st, held, st->to, st->to_bytes); break;
    case GY_DEC_METASPACE: replace_part(r, i, st, held, " ", st->flag ? 0 : 1); break;
    case GY_DEC_BPE:
        if (st->from_bytes) {
            replace_part(r, i, st, held, "", 0);
        } else {
            next_out(r, i, held->p, held->n), held->n = 0;
        }
        break;
    default: break; /* ByteFallback, WordPiece and a regex need the whole: it waits for the end */
    }
}

static void step_end(gy_dec_run *r, int i) {
    const gy_dec_step *st = &r->d->step[i];
    gy_buf *held = &r->at[i].held, *b = &r->at[i].tmp;
    if (st->kind == GY_DEC_FALLBACK && !st->fused) parts_out(r, i, true);
    if (st->kind == GY_DEC_BPE && !st->fused && r->at[i].tokens) {
        b->n = 0;
        replace_all(b, held->p, held->n, st->from, st->from_bytes, "", 0);
        buf_out(r, i, b);
    }
    if (!st->fused || !held->n) return;
    b->n = 0;
    switch ((gy_dec_kind)st->kind) {
    case GY_DEC_FALLBACK:
        fallback_token(r, i, held->p, held->n);
        parts_out(r, i, true);
        break;
    case GY_DEC_REPLACE_RE:
        replace_regex(b, st, held->p, held->n);
        buf_out(r, i, b);
        break;
    case GY_DEC_WORDPIECE:
        gy_buf_add(b, held->p, held->n);
        if (st->flag) clean_up(b, held);
        buf_out(r, i, b);
        break;
    case GY_DEC_STRIP:
        next_out(r, i, held->p, end_stripped(held->p, held->n, st->from, st->from_bytes, st->stop));
        break;
    default: next_out(r, i, held->p, held->n); break;
    }
    held->n = 0;
}

void gy_dec_push(gy_dec_run *r, const char *s, size_t n) {
    if (r->d->n) {
        token_in(r, 0, s, n);
    } else if (n) {
        r->sink(r->arg, s, n);
    }
}

void gy_dec_end(gy_dec_run *r) {
    for (int i = 0; i < r->d->n; i++) step_end(r, i);
}

void gy_dec_free(gy_dec_run *r) {
    for (int i = 0; i < GY_DEC_STEPS; i++) {
        gy_buf_free(&r->at[i].tmp);
        gy_buf_free(&r->at[i].held);
    }
}

/* ---- One token alone ---- */

/* The name with one step's rule for a token in the middle of a text applied: from in to out. */
static void middle_step(const gy_dec_step *st, const gy_buf *in, gy_buf *out) {
    const char *s = in->p ? in->p : "";
    int byte = st->kind == GY_DEC_FALLBACK ? gy_tok_byte_name(s, in->n) : -1;
    switch ((gy_dec_kind)st->kind) {
    case GY_DEC_REPLACE:
        replace_all(out, s, in->n, st->from, st->from_bytes, st->to, st->to_bytes);
        return;
    case GY_DEC_REPLACE_RE: replace_regex(out, st, s, in->n); return;
    case GY_DEC_METASPACE:
    case GY_DEC_BPE: replace_all(out, s, in->n, st->from, st->from_bytes, " ", 1); return;
    case GY_DEC_WORDPIECE:
        if (in->n >= st->from_bytes && !memcmp(s, st->from, st->from_bytes)) {
            gy_buf_add(out, s + st->from_bytes, in->n - st->from_bytes);
            return;
        }
        gy_buf_c(out, ' ');
        break;
    case GY_DEC_FALLBACK:
        if (byte < 0) break;
        gy_buf_c(out, (char)byte);
        return;
    case GY_DEC_BYTELEVEL:
        for (size_t at = 0; at < in->n;) {
            uint32_t c;
            at += gy_utf8_get(s + at, in->n - at, &c);
            if (gy_bytelevel_byte(c) < 0) {
                out->n = 0;
                break;
            }
            gy_buf_c(out, (char)gy_bytelevel_byte(c));
            if (at == in->n) return;
        }
        break;
    case GY_DEC_JOIN:
    case GY_DEC_FUSE:
    case GY_DEC_STRIP: break;
    }
    gy_buf_add(out, s, in->n);
}

void gy_decoder_bytes(const gy_decoder *d, const char *s, size_t n, gy_buf *out) {
    gy_buf in = {0}, next = {0};
    gy_buf_add(&in, s, n);
    for (int i = 0; i < d->n && !d->step[i].fused; i++) {
        next.n = 0;
        middle_step(&d->step[i], &in, &next);
        gy_buf t = in;
        in = next, next = t;
    }
    if (in.oom || next.oom) out->oom = true;
    gy_buf_add(out, in.p ? in.p : "", in.n);
    gy_buf_free(&in);
    gy_buf_free(&next);
}
