/* WordPiece: the longest name from the left, again and again; a word that cannot be made whole is
 * one unknown token. WordLevel: the word itself or the unknown token. */
#include "base/utf8.h"
#include "text/tok_in.h"

static gy_rc unk_out(const gy_wordpiece *m, gy_ids *out, gy_err *err) {
    if (m->unk < 0)
        return gy_fail(err, GY_EFORMAT,
                       "tokenizer: model.unk_token is needed for this text but not in model.vocab");
    return gy_ids_add(out, m->unk) ? GY_OK : gy_tok_oom(err);
}

static size_t chars(const char *s, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((uint8_t)s[i] & 0xC0) != 0x80;
    return count;
}

/* The longest name at s[n]; *bytes of s that it takes. */
static int32_t longest(const gy_wordpiece *m, const gy_vocab *v, const char *prefix, const char *s,
                       size_t n, gy_buf *b, size_t *bytes) {
    b->n = 0;
    gy_buf_puts(b, prefix);
    size_t before = b->n;
    if (before > m->longest) return -1;
    if (n > m->longest - before) n = m->longest - before;
    gy_buf_add(b, s, n);
    if (b->oom) return -1;
    for (size_t k = n; k > 0; k--) {
        if (k < n && ((uint8_t)s[k] & 0xC0) == 0x80) continue; /* inside a character */
        int32_t id = gy_vocab_find(v, b->p, before + k);
        if (id >= 0) return *bytes = k, id;
    }
    return -1;
}

gy_rc gy_wordpiece_piece(const gy_wordpiece *m, const gy_vocab *v, const char *s, size_t n,
                         gy_tok_work *w, gy_ids *out, gy_err *err) {
    if (m->max_chars >= 0 && chars(s, n) > (uint64_t)m->max_chars) return unk_out(m, out, err);
    int before = out->n;
    for (size_t at = 0, len = 0; at < n; at += len) {
        int32_t id = longest(m, v, at ? m->more : m->start, s + at, n - at, &w->word, &len);
        if (w->word.oom) return gy_tok_oom(err);
        if (id < 0) {
            out->n = before;
            return unk_out(m, out, err);
        }
        if (!gy_ids_add(out, id)) return gy_tok_oom(err);
    }
    return GY_OK;
}

gy_rc gy_wordlevel_piece(const gy_wordpiece *m, const gy_vocab *v, const char *s, size_t n,
                         gy_ids *out, gy_err *err) {
    int32_t id = gy_vocab_find(v, s, n);
    if (id < 0) return unk_out(m, out, err);
    return gy_ids_add(out, id) ? GY_OK : gy_tok_oom(err);
}
