/* Byte-pair encoding: a piece becomes symbols, and neighbours join, lowest rank first, then
 * leftmost.
 *
 * Three things make it fast and none changes the ids. Short pieces look for the lowest rank by a
 * scan, long ones by a heap. Results of short pieces are kept (tok_words.c). A piece that is a
 * whole text (sentencepiece kinds) is cut where no merge can ever join: between characters x and y
 * such that no merge has a left part that ends in x and a right part that starts with y. */
#include "base/utf8.h"
#include "text/tok_in.h"

enum { SCAN_SYMBOLS = 48 };

/* ---- Tables ---- */

static uint32_t pair_hash(uint32_t a, uint32_t b) {
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)((h ^ h >> 29) >> 16);
}

static uint32_t joint_bit(uint32_t x, uint32_t y) {
    uint64_t h = ((uint64_t)x << 32 | y) * 0xD6E8FEB86659FD93u;
    return (uint32_t)((h ^ h >> 32) >> 7) % GY_BPE_JOINT_BITS;
}
static void joint_set(gy_bpe *m, uint32_t x, uint32_t y) {
    uint32_t b = joint_bit(x, y);
    m->joint[b / 64] |= (uint64_t)1 << b % 64;
}
static bool joint_get(const gy_bpe *m, uint32_t x, uint32_t y) {
    uint32_t b = joint_bit(x, y);
    return m->joint[b / 64] >> b % 64 & 1;
}

static uint32_t char_last(const char *s, size_t n) {
    size_t i = n;
    while (i && n - i < 4 && ((uint8_t)s[--i] & 0xC0) == 0x80) {
    }
    uint32_t c;
    gy_utf8_get(s + i, n - i, &c);
    return c;
}

gy_rc gy_bpe_joint_new(gy_bpe *m, gy_err *err) {
    m->joint = gy_alloc(GY_BPE_JOINT_BITS / 8);
    return m->joint ? GY_OK : gy_tok_oom(err);
}

void gy_bpe_joint(gy_bpe *m, const char *a, size_t na, int32_t id_a, const char *b, size_t nb,
                  int32_t id_b) {
    if (!m->joint || !na || !nb) return;
    bool odd = gy_tok_byte_name(a, na) >= 0 || gy_tok_byte_name(b, nb) >= 0;
    if (odd || id_a == m->unk || id_b == m->unk) m->foreign = true;
    uint32_t first;
    gy_utf8_get(b, nb, &first);
    joint_set(m, char_last(a, na), first);
}

gy_rc gy_bpe_pairs(gy_bpe *m, const gy_bpe_pair *merge, size_t n, gy_err *err) {
    uint32_t size = gy_tok_table_size(n);
    m->pair = gy_alloc_n(size, sizeof *m->pair);
    if (!m->pair) return gy_tok_oom(err);
    m->pair_mask = size - 1;
    for (size_t k = 0; k < n; k++) {
        if (k + 16 < n) {
            uint32_t ahead = pair_hash(merge[k + 16].a, merge[k + 16].b);
            __builtin_prefetch(&m->pair[ahead & m->pair_mask], 1);
        }
        int probes = 0;
        uint32_t a = merge[k].a + 1, b = merge[k].b, i = pair_hash(merge[k].a, b) & m->pair_mask;
        while (m->pair[i].a && (m->pair[i].a != a || m->pair[i].b != b)) {
            if (++probes > 4096)
                return gy_fail(err, GY_ELIMIT, "tokenizer: merges: too many pairs with one hash");
            i = (i + 1) & m->pair_mask;
        }
        m->pair[i] = (gy_bpe_pair){a, b, (uint32_t)k, merge[k].id};
    }
    return GY_OK;
}

gy_rc gy_bpe_scores(gy_bpe *m, const gy_vocab *v, const float *score, const bool *usable,
                    gy_err *err) {
    m->key = gy_alloc_n((size_t)v->n + 1, sizeof *m->key);
    if (!m->key) return gy_tok_oom(err);
    gy_rc rc = gy_bpe_joint_new(m, err);
    for (int i = 0; !rc && i < v->n; i++) {
        size_t n = 0;
        const char *s = gy_vocab_name(v, i, &n);
        m->key[i] = UINT32_MAX;
        if (!s || !n || !usable[i]) continue;
        /* Floats in order as unsigned integers, then reversed: the best score is the smallest key.
         */
        float f = score ? score[i] : 0.0f;
        uint32_t u;
        memcpy(&u, &f, 4);
        u = ~(u >> 31 ? ~u : u | 0x80000000u);
        m->key[i] = u == UINT32_MAX ? u - 1 : u;
        if (n > m->longest) m->longest = (uint32_t)n;
        uint32_t before, c;
        size_t at = gy_utf8_get(s, n, &before);
        for (; at < n; before = c) {
            at += gy_utf8_get(s + at, n - at, &c);
            joint_set(m, before, c);
        }
    }
    return rc;
}

static int32_t char_id(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n) {
    if (n == 1 && !((uint8_t)*s & 0x80)) return m->ascii_id[(uint8_t)*s];
    int32_t id = gy_vocab_find(v, s, n);
    return id >= 0 && m->key && m->key[id] == UINT32_MAX ? -1 : id;
}

gy_rc gy_bpe_ready(gy_bpe *m, const gy_vocab *v, gy_err *err) {
    m->bytes_whole = true;
    m->fallback_whole = gy_tok_fallback(v, m->fallback);
    for (int c = 0; c < 128; c++) {
        char s = (char)c;
        int32_t id = gy_vocab_find(v, &s, 1);
        m->ascii_id[c] = id >= 0 && m->key && m->key[id] == UINT32_MAX ? -1 : id;
    }
    for (int c = 0; c < 256; c++) {
        char s[4];
        m->byte_id[c] = gy_vocab_find(v, s, gy_utf8_put(s, gy_bytelevel_char((uint8_t)c)));
        if (m->byte_id[c] < 0) m->bytes_whole = false;
    }
    m->cut = m->joint && m->byte_fallback && m->fallback_whole && !m->foreign &&
             !m->ignore_merges && !m->prefix && !m->suffix;
    m->words = gy_words_new();
    return m->words ? GY_OK : gy_tok_oom(err);
}

void gy_bpe_free(gy_bpe *m) {
    gy_free(m->pair);
    gy_free(m->joint);
    gy_free(m->key);
    gy_free(m->prefix);
    gy_free(m->suffix);
    gy_words_free(m->words);
    *m = (gy_bpe){0};
}

/* ---- Symbols of a piece ---- */

static bool syms_need(gy_tok_work *w, size_t n) {
    if (n <= w->sym_cap) return true;
    size_t cap = w->sym_cap ? w->sym_cap : 256;
    while (cap < n) cap *= 2;
    gy_bpe_sym *sym = gy_realloc(w->sym, cap * sizeof *sym);
    if (!sym) return false;
    w->sym = sym, w->sym_cap = cap;
    return true;
}

static void sym_put(gy_tok_work *w, size_t *count, int32_t id, size_t at, size_t n) {
    int32_t k = (int32_t)*count;
    w->sym[(*count)++] = (gy_bpe_sym){id, k - 1, k + 1, (uint32_t)at, (uint32_t)n};
}

/* The id of one character with the model's prefix and suffix around it. */
static int32_t affixed_id(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n, bool first,
                          bool last, gy_tok_work *w) {
    bool prefix = m->prefix && !first, suffix = m->suffix && last;
    if (!prefix && !suffix) return char_id(m, v, s, n);
    gy_buf *b = &w->word;
    b->n = 0;
    if (prefix) gy_buf_add(b, m->prefix, m->prefix_bytes);
    gy_buf_add(b, s, n);
    if (suffix) gy_buf_add(b, m->suffix, m->suffix_bytes);
    return b->oom ? -1 : gy_vocab_find(v, b->p, b->n);
}

/* A character that is no name as the bytes <0xNN>. The prefix and suffix count as its bytes, as in
 * the reference. */
static bool fallback_put(const gy_bpe *m, const char *s, size_t n, size_t at, bool affixed,
                         const gy_buf *b, gy_tok_work *w, size_t *count) {
    if (!m->byte_fallback) return false;
    const char *p = affixed ? b->p : s;
    size_t bytes = affixed ? b->n : n;
    for (size_t i = 0; i < bytes; i++) {
        if (m->fallback[(uint8_t)p[i]] < 0) return false;
    }
    if (!syms_need(w, *count + bytes + n)) return w->word.oom = true, false;
    for (size_t i = 0; i < bytes; i++)
        sym_put(w, count, m->fallback[(uint8_t)p[i]], at + (i < n ? i : n - 1), 1);
    return true;
}

static gy_rc syms_of_text(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n,
                          gy_tok_work *w, size_t *count, gy_err *err) {
    size_t unk_at = 0, unk_n = 0, len;
    if (!syms_need(w, n + 1)) return gy_tok_oom(err);
    for (size_t at = 0; at < n; at += len) {
        uint32_t c;
        len = gy_utf8_get(s + at, n - at, &c);
        bool first = at == 0, last = at + len == n;
        int32_t id = affixed_id(m, v, s + at, len, first, last, w);
        if (id >= 0 || m->key) {
            if (unk_n) sym_put(w, count, m->unk, unk_at, unk_n), unk_n = 0;
            sym_put(w, count, id, at, len);
            continue;
        }
        bool affixed = (m->prefix && !first) || (m->suffix && last);
        if (fallback_put(m, s + at, len, at, affixed, &w->word, w, count)) {
            if (!syms_need(w, *count + (n - at) + 1)) return gy_tok_oom(err);
            continue;
        }
        if (w->word.oom) return gy_tok_oom(err);
        if (m->unk_missing)
            return gy_fail(err, GY_EFORMAT, "tokenizer: model.unk_token is not in model.vocab");
        if (m->unk < 0) continue; /* the reference drops what it cannot name */
        if (unk_n && m->fuse_unk) {
            unk_n += len;
            continue;
        }
        if (unk_n) sym_put(w, count, m->unk, unk_at, unk_n);
        unk_at = at, unk_n = len;
    }
    if (unk_n) sym_put(w, count, m->unk, unk_at, unk_n);
    return GY_OK;
}

/* ---- Joining ---- */

static bool pair_find(const gy_bpe *m, const gy_vocab *v, const char *s, const gy_bpe_sym *l,
                      const gy_bpe_sym *r, gy_bpe_step *step) {
    if (m->key) {
        size_t n = (size_t)l->n + r->n;
        if (n > m->longest) return false;
        step->id = gy_vocab_find(v, s + l->at, n);
        if (step->id < 0) return false;
        step->rank = m->key[step->id];
        return step->rank != UINT32_MAX;
    }
    uint32_t a = (uint32_t)l->id, b = (uint32_t)r->id;
    if (l->id < 0 || r->id < 0 || !m->pair) return false;
    for (uint32_t i = pair_hash(a, b) & m->pair_mask;; i = (i + 1) & m->pair_mask) {
        const gy_bpe_pair *p = &m->pair[i];
        if (!p->a) return false;
        if (p->a == a + 1 && p->b == b) return step->rank = p->rank, step->id = p->id, true;
    }
}

static size_t join_scan(const gy_bpe *m, const gy_vocab *v, const char *s, gy_bpe_sym *sym,
                        size_t n) {
    gy_bpe_step
        next[SCAN_SYMBOLS]; /* next[i] joins i and i + 1; rank UINT32_MAX: they do not join */
    for (size_t i = 0; i + 1 < n; i++) {
        if (!pair_find(m, v, s, &sym[i], &sym[i + 1], &next[i])) next[i].rank = UINT32_MAX;
    }
    for (;;) {
        size_t best = 0;
        uint32_t rank = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            if (next[i].rank < rank) rank = next[i].rank, best = i;
        }
        if (rank == UINT32_MAX) return n;
        sym[best].id = next[best].id;
        sym[best].n += sym[best + 1].n;
        n--;
        memmove(&sym[best + 1], &sym[best + 2], (n - best - 1) * sizeof *sym);
        if (best + 1 < n) memmove(&next[best], &next[best + 1], (n - best - 1) * sizeof *next);
        if (best + 1 < n && !pair_find(m, v, s, &sym[best], &sym[best + 1], &next[best]))
            next[best].rank = UINT32_MAX;
        if (best && !pair_find(m, v, s, &sym[best - 1], &sym[best], &next[best - 1]))
            next[best - 1].rank = UINT32_MAX;
    }
}

static bool step_before(const gy_bpe_step *x, const gy_bpe_step *y) {
    return x->rank < y->rank || (x->rank == y->rank && x->pos < y->pos);
}

static void heap_down(gy_bpe_step *heap, size_t n, size_t i) {
    gy_bpe_step x = heap[i];
    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && step_before(&heap[k + 1], &heap[k])) k++;
        if (!step_before(&heap[k], &x)) break;
        heap[i] = heap[k];
    }
    heap[i] = x;
}

static void heap_up(gy_bpe_step *heap, size_t i) {
    gy_bpe_step x = heap[i];
    for (; i && step_before(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

/* Every symbol adds one step at first and every join removes a step and adds at most two, so 2 n
 * always fit. */
static bool join_heap(const gy_bpe *m, const gy_vocab *v, const char *s, gy_tok_work *w, size_t n) {
    if (w->heap_cap < 2 * n) {
        gy_bpe_step *h = gy_realloc(w->heap, 2 * n * sizeof *h);
        if (!h) return false;
        w->heap = h, w->heap_cap = 2 * n;
    }
    gy_bpe_sym *sym = w->sym;
    gy_bpe_step *heap = w->heap, now;
    size_t steps = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (!pair_find(m, v, s, &sym[i], &sym[i + 1], &heap[steps])) continue;
        heap[steps++].pos = (uint32_t)i;
    }
    for (size_t i = steps / 2; i-- > 0;) heap_down(heap, steps, i);
    while (steps) {
        gy_bpe_step top = heap[0];
        heap[0] = heap[--steps];
        if (steps) heap_down(heap, steps, 0);
        gy_bpe_sym *l = &sym[top.pos];
        if (!l->n || l->next < 0) continue;
        gy_bpe_sym *r = &sym[l->next];
        if (!pair_find(m, v, s, l, r, &now) || now.id != top.id)
            continue; /* a neighbour has changed since */
        l->id = top.id, l->n += r->n, l->next = r->next, r->n = 0;
        if (l->next >= 0) sym[l->next].prev = (int32_t)top.pos;
        if (l->prev >= 0 && pair_find(m, v, s, &sym[l->prev], l, &heap[steps])) {
            heap[steps].pos = (uint32_t)l->prev;
            heap_up(heap, steps++);
        }
        if (l->next >= 0 && pair_find(m, v, s, l, &sym[l->next], &heap[steps])) {
            heap[steps].pos = top.pos;
            heap_up(heap, steps++);
        }
    }
    return true;
}

/* ---- A piece ---- */

/* Without joins by id a symbol may still have no name: its bytes, else the unknown token. */
static bool unnamed_put(const gy_bpe *m, const char *s, const gy_bpe_sym *sym, gy_ids *out) {
    bool bytes = true, ok = true;
    for (uint32_t i = 0; i < sym->n; i++) bytes &= m->fallback[(uint8_t)s[sym->at + i]] >= 0;
    for (uint32_t i = 0; bytes && ok && i < sym->n; i++)
        ok = gy_ids_add(out, m->fallback[(uint8_t)s[sym->at + i]]);
    return bytes ? ok : m->unk < 0 || gy_ids_add(out, m->unk);
}

static bool syms_out(const gy_bpe *m, const char *s, const gy_bpe_sym *sym, size_t count,
                     bool linked, gy_ids *out) {
    if (!gy_ids_need(out, count)) return false;
    for (int32_t i = 0; count && i >= 0; i = linked                  ? sym[i].next
                                             : (size_t)i + 1 < count ? i + 1
                                                                     : -1) {
        if (sym[i].id < 0 ? !unnamed_put(m, s, &sym[i], out) : !gy_ids_add(out, sym[i].id))
            return false;
    }
    return true;
}

static gy_rc word_ids(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n, bool bytes,
                      gy_tok_work *w, gy_ids *out, gy_err *err) {
    size_t count = 0;
    if (n > INT32_MAX / 4)
        return gy_fail(err, GY_ELIMIT, "tokenizer: a piece of text has %zu bytes", n);
    bool direct = bytes && m->bytes_whole && !m->prefix && !m->suffix;
    if (bytes && (!direct || m->ignore_merges)) {
        w->mapped.n = 0;
        for (size_t i = 0; i < n; i++) gy_buf_utf8(&w->mapped, gy_bytelevel_char((uint8_t)s[i]));
        if (w->mapped.oom) return gy_tok_oom(err);
    }
    if (m->ignore_merges) {
        int32_t id = bytes ? gy_vocab_find(v, w->mapped.p, w->mapped.n) : gy_vocab_find(v, s, n);
        if (id >= 0) return gy_ids_add(out, id) ? GY_OK : gy_tok_oom(err);
    }
    if (direct) {
        if (!syms_need(w, n)) return gy_tok_oom(err);
        for (size_t i = 0; i < n; i++) sym_put(w, &count, m->byte_id[(uint8_t)s[i]], i, 1);
    } else {
        if (bytes) s = w->mapped.p, n = w->mapped.n;
        gy_rc rc = syms_of_text(m, v, s, n, w, &count, err);
        if (rc) return rc;
    }
    if (!count) return GY_OK;
    w->sym[count - 1].next = -1;
    bool linked = count > SCAN_SYMBOLS;
    if (!linked) {
        count = join_scan(m, v, s, w->sym, count);
    } else if (!join_heap(m, v, s, w, count)) {
        return gy_tok_oom(err);
    }
    return syms_out(m, s, w->sym, count, linked, out) ? GY_OK : gy_tok_oom(err);
}

static gy_rc word_cached(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n, bool bytes,
                         gy_tok_work *w, gy_ids *out, gy_err *err) {
    if (n > GY_WORD_BYTES) return word_ids(m, v, s, n, bytes, w, out, err);
    if (gy_words_get(m->words, s, n, out)) return GY_OK;
    int before = out->n;
    gy_rc rc = word_ids(m, v, s, n, bytes, w, out, err);
    if (!rc && out->id) gy_words_put(m->words, s, n, out->id + before, out->n - before);
    return rc;
}

gy_rc gy_bpe_piece(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n, bool bytes,
                   gy_tok_work *w, gy_ids *out, gy_err *err) {
    if (bytes || !m->cut) return word_cached(m, v, s, n, bytes, w, out, err);
    size_t start = 0;
    uint32_t before = 0, c;
    for (size_t at = 0, len; at < n; at += len, before = c) {
        len = gy_utf8_get(s + at, n - at, &c);
        if (at == start || joint_get(m, before, c)) continue;
        gy_rc rc = word_cached(m, v, s + start, at - start, false, w, out, err);
        if (rc) return rc;
        start = at;
    }
    return start < n ? word_cached(m, v, s + start, n - start, false, w, out, err) : GY_OK;
}
