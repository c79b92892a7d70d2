/* Unigram: the segmentation with the highest sum of scores (Viterbi), as sentencepiece and the
 * reference compute it. Sums are in double and in text order, ties keep the path that was found
 * first. */
#include "base/utf8.h"
#include "text/tok_in.h"

#define UNK_PENALTY 10.0

typedef struct {
    double score;
    uint32_t start, next; /* start UINT32_MAX: not reached */
    int32_t id;
} node;

gy_rc gy_uni_build(gy_uni *u, const gy_vocab *v, const bool *usable, gy_err *err) {
    gy_rc rc = gy_trie_init(&u->trie, v->text_bytes, err);
    for (int i = 0; !rc && i < v->n; i++) {
        size_t n = 0;
        const char *s = gy_vocab_name(v, i, &n);
        if (!s || !n || (usable && !usable[i])) continue;
        rc = gy_trie_add(&u->trie, s, n, gy_vocab_find(v, s, n), err);
    }
    return rc;
}

void gy_uni_ready(gy_uni *u, const gy_vocab *v) {
    double low = 0;
    bool any = false;
    for (int i = 0; i < v->n; i++) {
        if (v->name[i].at == GY_NAME_NONE) continue;
        if (!any || u->score[i] < low) low = u->score[i];
        any = true;
    }
    u->unk_score = low - UNK_PENALTY;
    gy_tok_fallback(v, u->fallback);
}

static void node_offer(node *t, double score, size_t start, int32_t id) {
    if (t->start != UINT32_MAX && !(score > t->score)) return;
    t->score = score, t->start = (uint32_t)start, t->id = id;
}

static gy_rc unk_missing(gy_err *err) {
    return gy_fail(err, GY_EFORMAT,
                   "tokenizer: model.unk_id is needed for this text but not stated");
}

static gy_rc best_paths(const gy_uni *u, const char *s, size_t n, node *at, gy_err *err) {
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c, walk = 0;
        len = gy_utf8_get(s + i, n - i, &c);
        double here = at[i].score;
        bool single = false;
        for (size_t k = i; k < n; k++) {
            walk = gy_trie_next(&u->trie, walk, (uint8_t)s[k]);
            if (!walk) break;
            int32_t id = u->trie.value[walk];
            if (id < 0) continue;
            node_offer(&at[k + 1], u->score[id] + here, i, id);
            if (k + 1 - i == len) single = true;
        }
        if (single) continue;
        if (u->unk < 0) return unk_missing(err);
        node_offer(&at[i + len], u->unk_score + here, i, u->unk);
    }
    return GY_OK;
}

/* The ids of one chosen span; known is the name's id, or the unknown token for text that has to be
 * looked up. */
static bool span_out(const gy_uni *u, const gy_vocab *v, const char *s, size_t n, int32_t known,
                     gy_ids *out) {
    if (known != u->unk) return gy_ids_add(out, known);
    int32_t id = gy_vocab_find(v, s, n);
    if (id >= 0) return gy_ids_add(out, id);
    bool bytes = u->byte_fallback, ok = true;
    for (size_t i = 0; i < n && bytes; i++) bytes = u->fallback[(uint8_t)s[i]] >= 0;
    if (!bytes) return gy_ids_add(out, u->unk);
    for (size_t i = 0; i < n && ok; i++) ok = gy_ids_add(out, u->fallback[(uint8_t)s[i]]);
    return ok;
}

gy_rc gy_uni_piece(const gy_uni *u, const gy_vocab *v, const char *s, size_t n, gy_tok_work *w,
                   gy_ids *out, gy_err *err) {
    if (n > INT32_MAX / 4)
        return gy_fail(err, GY_ELIMIT, "tokenizer: a piece of text has %zu bytes", n);
    size_t need = (n + 1) * sizeof(node);
    if (w->path_cap < need) {
        void *p = gy_realloc(w->path, need * 2);
        if (!p) return gy_tok_oom(err);
        w->path = p, w->path_cap = need * 2;
    }
    node *at = w->path;
    for (size_t i = 0; i <= n; i++) at[i] = (node){0, UINT32_MAX, 0, -1};
    gy_rc rc = best_paths(u, s, n, at, err);
    if (rc) return rc;
    for (size_t end = n; end > 0; end = at[end].start) at[at[end].start].next = (uint32_t)end;
    for (size_t i = 0, end; i < n; i = end) {
        end = at[i].next;
        int32_t id = at[end].id;
        /* Neighbouring unknown spans are one. */
        while (id == u->unk && end < n && at[at[end].next].id == id) end = at[end].next;
        if (!span_out(u, v, s + i, end - i, id, out)) return gy_tok_oom(err);
    }
    return GY_OK;
}
