/* kv - the page pool and the sequences that refer to it. See kv.h. */
#include <limits.h>
#include <string.h>

#include "codec/kvname.h"
#include "kv/impl.h"

enum { MAX_DIM = 1 << 16, MAX_LAYERS = 1 << 14 };

/* ---- Layout ---- */

static bool keep_equal(gy_keep a, gy_keep b) {
    return a.policy == b.policy &&
           (a.policy != GY_KEEP_WINDOW || (a.window == b.window && a.sinks == b.sinks));
}

static gy_rc group_of(gy_kv *kv, gy_keep keep, int *index, gy_err *err) {
    for (int g = 0; g < kv->n_groups; g++)
        if (keep_equal(kv->group[g].keep, keep)) return *index = g, GY_OK;
    if (kv->n_groups == GY_KV_GROUPS)
        return gy_fail(err, GY_EUNSUPPORTED, "more than %d different attention windows",
                       GY_KV_GROUPS);
    kv->group[kv->n_groups].keep = keep;
    return *index = kv->n_groups++, GY_OK;
}

static gy_rc layer_place(gy_kv *kv, int i, gy_err *err) {
    const gy_kvspec *s = &kv->spec[i];
    gy_kv_place *p = &kv->layer[i];
    p->owner = i, p->group = -1;
    if (s->donor >= 0) {
        if (s->donor >= i || kv->spec[s->donor].donor >= 0 ||
            kv->spec[s->donor].keep.policy == GY_KEEP_STATE)
            return gy_fail(err, GY_EFORMAT, "layer %d: cannot read the KV of layer %d", i,
                           s->donor);
        *p = kv->layer[s->donor];
        return GY_OK;
    }
    if (s->keep.policy == GY_KEEP_STATE || s->heads == 0) return GY_OK; /* no pages */
    if (s->heads < 0 || s->heads > MAX_DIM || s->kdim < 1 || s->kdim > MAX_DIM ||
        s->vdim < (s->form != GY_KV_KEYS) ||
        s->vdim > (s->form == GY_KV_VIEW ? s->kdim : MAX_DIM) ||
        (s->keep.policy == GY_KEEP_WINDOW && s->keep.window < 1))
        return gy_fail(err, GY_EFORMAT,
                       "layer %d: %d KV heads of %d and %d values, window %d: expected 1 to %d", i,
                       s->heads, s->kdim, s->vdim, s->keep.window, MAX_DIM);
    gy_rc rc = group_of(kv, s->keep, &p->group, err);
    if (rc) return rc;
    kv->group[p->group].stored = true;
    return gy_coding_layout(kv, i, 0, (gy_kvpair){s->k, s->v}, err);
}

gy_rc gy_kv_new(const gy_kvspec *spec, int n_layers, int64_t max_positions, gy_kv **out,
                gy_err *err) {
    if (n_layers < 0 || n_layers > MAX_LAYERS)
        return gy_fail(err, GY_EFORMAT, "%d layers: expected 0 to %d", n_layers, MAX_LAYERS);
    if (max_positions < 1 || max_positions > INT_MAX - GY_PAGE)
        return gy_fail(err, GY_EARG, "KV memory for %lld positions: expected 1 to %d",
                       (long long)max_positions, INT_MAX - GY_PAGE);
    gy_kv *kv = gy_alloc(sizeof *kv);
    if (kv) {
        kv->spec = gy_alloc_n((size_t)n_layers, sizeof *kv->spec);
        kv->layer = gy_alloc_n((size_t)n_layers, sizeof *kv->layer);
    }
    if (!kv || !kv->spec || !kv->layer) {
        gy_kv_free(kv);
        return gy_fail(err, GY_ENOMEM, "out of memory for the KV store");
    }
    if (n_layers) memcpy(kv->spec, spec, (size_t)n_layers * sizeof *spec);
    kv->n_layers = n_layers, kv->n_codings = 1;
    kv->max_pages = (int)((max_positions + GY_PAGE - 1) / GY_PAGE);
    for (int i = 0; i < n_layers; i++) {
        gy_rc rc = layer_place(kv, i, err);
        if (rc) {
            gy_kv_free(kv);
            return rc;
        }
    }
    gy_rc rc = gy_state_pool_new(spec, n_layers, &kv->state, err);
    if (rc) {
        gy_kv_free(kv);
        return rc;
    }
    for (int g = 0; g < kv->n_groups; g++)
        if (kv->group[g].keep.policy == GY_KEEP_ALL)
            kv->token_bytes += (int64_t)(kv->group[g].pool[0].page_bytes / GY_PAGE);
    *out = kv;
    return GY_OK;
}

void gy_kv_free(gy_kv *kv) {
    if (!kv) return;
    for (int g = 0; g < kv->n_groups; g++) gy_page_free_list(&kv->group[g]);
    gy_state_pool_free(kv->state);
    gy_free(kv->spec);
    gy_free(kv->layer);
    gy_free(kv);
}

int64_t gy_kv_max_positions(const gy_kv *kv) {
    return (int64_t)kv->max_pages * GY_PAGE;
}

int64_t gy_kv_token_bytes(const gy_kv *kv) {
    return kv->token_bytes;
}

gy_state_pool *gy_kv_state(const gy_kv *kv) {
    return kv->state;
}

int64_t gy_kv_held_bytes(const gy_kv *kv) {
    int64_t bytes = gy_state_held_bytes(kv->state);
    for (int g = 0; g < kv->n_groups; g++) {
        const gy_page_pool *pool = kv->group[g].pool;
        for (int f = 0; f < kv->n_codings; f++)
            bytes += (int64_t)pool[f].held * (int64_t)(pool[f].page_bytes + GY_PAGE_HEAD);
    }
    return bytes;
}

int gy_kv_layer_group(const gy_kv *kv, int layer) {
    return kv->layer[layer].group;
}

/* ---- Tables ---- */

static void pages_cut(gy_kv_group *g, gy_pages *pages, int n) {
    while (pages->n > n) gy_page_unref(g, pages->at[--pages->n]);
}

static bool pages_room(gy_pages *pages, int n) {
    if (n <= pages->cap) return true;
    int cap = pages->cap * 2 > n ? pages->cap * 2 : n + 4;
    gy_page **at = gy_realloc(pages->at, (size_t)cap * sizeof *at);
    if (!at) return false;
    pages->at = at, pages->cap = cap;
    return true;
}

static bool tok_room(struct gy_seq *seq, int n) {
    if (n <= seq->tok_cap) return true;
    int cap = seq->tok_cap < INT_MAX / 2 && seq->tok_cap * 2 > n ? seq->tok_cap * 2 : n;
    int32_t *tok = gy_realloc(seq->tok, (size_t)cap * sizeof *tok);
    if (!tok) return false;
    seq->tok = tok, seq->tok_cap = cap;
    return true;
}

/* The page that holds position len - 1 is about to be written while others read it. */
static bool tail_shared(const gy_pages *pages, int len) {
    return len % GY_PAGE && pages->at[len / GY_PAGE]->refs > 1;
}

/* ---- Sequences ---- */

gy_rc gy_kv_seq_new(gy_kv *kv, struct gy_seq **out, gy_err *err) {
    (void)kv;
    struct gy_seq *seq = gy_alloc(sizeof *seq);
    if (!seq) return gy_fail(err, GY_ENOMEM, "out of memory for a sequence");
    *out = seq;
    return GY_OK;
}

void gy_kv_seq_free(gy_kv *kv, struct gy_seq *seq) {
    if (!seq) return;
    for (int g = 0; g < kv->n_groups; g++) {
        pages_cut(&kv->group[g], &seq->group[g], 0);
        gy_free(seq->group[g].at);
    }
    gy_state_cut(kv->state, &seq->state, 0);
    gy_free(seq->tok);
    gy_free(seq);
}

gy_rc gy_kv_seq_fork(gy_kv *kv, const struct gy_seq *from, struct gy_seq **out, gy_err *err) {
    struct gy_seq *seq = NULL;
    gy_rc rc = gy_kv_seq_new(kv, &seq, err);
    if (rc) return rc;
    int tokens = from->len + from->replay;
    bool room = tok_room(seq, tokens);
    int n = gy_pages_for(from->len);
    for (int g = 0; g < kv->n_groups && room; g++)
        if (kv->group[g].stored) room = pages_room(&seq->group[g], n);
    if (!room) {
        gy_kv_seq_free(kv, seq);
        return gy_fail(err, GY_ENOMEM, "out of memory for a sequence");
    }
    for (int g = 0; g < kv->n_groups; g++) {
        if (!kv->group[g].stored) continue;
        for (int i = 0; i < n; i++) {
            gy_page *page = from->group[g].at[i];
            if (page) gy_page_ref(&kv->group[g], page);
            seq->group[g].at[i] = page;
        }
        seq->group[g].n = n;
    }
    if (tokens) memcpy(seq->tok, from->tok, (size_t)tokens * sizeof *seq->tok);
    seq->len = from->len, seq->replay = from->replay, seq->committed = from->committed;
    seq->coding = from->coding, seq->early = from->early, seq->border = from->border;
    seq->reusable = from->reusable;
    gy_state_fork(&from->state, &seq->state);
    *out = seq;
    return GY_OK;
}

/* Pages that positions [len, len + n) need in a group, by coding. */
static void count_need(const struct gy_seq *seq, const gy_pages *p, int pages,
                       int need[GY_KV_CODINGS]) {
    memset(need, 0, GY_KV_CODINGS * sizeof *need);
    for (int i = p->n; i < pages; i++) need[gy_seq_coding(seq, i)]++;
    if (tail_shared(p, seq->len)) need[p->at[seq->len / GY_PAGE]->coding]++;
}

/* Everything that can fail comes first and leaves only spare room and spare pages behind. */
gy_rc gy_kv_reserve_drafts(gy_kv *kv, struct gy_seq *seq, int n, int drafts, gy_err *err) {
    if (n < 0 || n > INT_MAX - GY_PAGE - seq->len)
        return gy_fail(err, GY_ELIMIT, "cannot append %d tokens to a sequence of %d", n, seq->len);
    if (n == 0) return GY_OK;
    int pages = gy_pages_for(seq->len + n), need[GY_KV_CODINGS];
    if (!tok_room(seq, seq->len + n)) return gy_fail(err, GY_ENOMEM, "out of memory for tokens");
    for (int g = 0; g < kv->n_groups; g++) {
        gy_pages *p = &seq->group[g];
        if (!kv->group[g].stored) continue;
        if (!pages_room(p, pages)) return gy_fail(err, GY_ENOMEM, "out of memory for a page table");
        count_need(seq, p, pages, need);
        gy_rc rc = gy_page_stock(kv, &kv->group[g], need, err);
        if (rc) return rc;
    }
    int base = drafts ? n - drafts : seq->replay < n ? seq->replay : n;
    base = seq->committed < seq->len ? -1 : seq->len + base; /* a round of drafts goes on */
    gy_rc rc = gy_state_reserve(kv->state, &seq->state, seq->len, base, n, err);
    if (rc) return rc;
    for (int g = 0; g < kv->n_groups; g++) {
        gy_kv_group *gr = &kv->group[g];
        gy_pages *p = &seq->group[g];
        if (!gr->stored) continue;
        if (tail_shared(p, seq->len)) {
            gy_page **tail = &p->at[seq->len / GY_PAGE], *copy = gy_page_pop(gr, (*tail)->coding);
            memcpy(gy_page_bytes(copy), gy_page_bytes(*tail), gr->pool[copy->coding].page_bytes);
            gy_page_unref(gr, *tail);
            *tail = copy;
        }
        for (; p->n < pages; p->n++) p->at[p->n] = gy_page_pop(gr, gy_seq_coding(seq, p->n));
    }
    return GY_OK;
}

gy_rc gy_kv_reserve(gy_kv *kv, struct gy_seq *seq, int n, gy_err *err) {
    return gy_kv_reserve_drafts(kv, seq, n, 0, err);
}

void gy_kv_unreserve(gy_kv *kv, struct gy_seq *seq) {
    for (int g = 0; g < kv->n_groups; g++)
        pages_cut(&kv->group[g], &seq->group[g], gy_pages_for(seq->len));
    gy_state_cut(kv->state, &seq->state, seq->len);
}

/* Pages of a WINDOW group that neither a query nor a withdrawal of up to GY_PAGE rows can reach. */
static void window_drop(gy_kv_group *g, gy_pages *pages, int committed) {
    if (g->keep.window >= committed - GY_PAGE) return;
    int end = (committed - GY_PAGE - g->keep.window) / GY_PAGE;
    int i = end - 1, first = gy_pages_for(g->keep.sinks > 0 ? g->keep.sinks : 0);
    /* Dropping goes on from where the last append stopped: everything below a hole is gone. */
    for (; i >= first && pages->at[i]; i--) {
        gy_page_unref(g, pages->at[i]);
        pages->at[i] = NULL;
    }
}

void gy_kv_append_drafts(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n, int drafts) {
    GY_ASSERT(n >= 0 && n <= seq->tok_cap - seq->len && drafts >= 0 && drafts <= n);
    if (n) memcpy(seq->tok + seq->len, tok, (size_t)n * sizeof *tok);
    int again = n < seq->replay ? n : seq->replay; /* of these, tokens that were there before */
    gy_state_append(kv->state, &seq->state);
    seq->len += n, seq->replay -= again;
    if (drafts < n) seq->committed = seq->len - drafts;
    for (int g = 0; g < kv->n_groups; g++) {
        GY_ASSERT(!kv->group[g].stored || seq->group[g].n >= gy_pages_for(seq->len));
        if (kv->group[g].stored && kv->group[g].keep.policy == GY_KEEP_WINDOW)
            window_drop(&kv->group[g], &seq->group[g], seq->committed);
    }
}

void gy_kv_append(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n) {
    gy_kv_append_drafts(kv, seq, tok, n, 0);
}

gy_rc gy_kv_settle(gy_kv *kv, struct gy_seq *seq, int keep, gy_err *err) {
    int drafts = seq->len - seq->committed;
    if (keep < 0 || keep > drafts)
        return gy_fail(err, GY_EARG, "cannot keep %d of %d drafts", keep, drafts);
    if (!drafts) return GY_OK; /* tokens that wait to be fed again stay */
    return gy_kv_trim(kv, seq, seq->committed + keep, err);
}

gy_rc gy_kv_trim(gy_kv *kv, struct gy_seq *seq, int n, gy_err *err) {
    int tokens = seq->len + seq->replay, want = n;
    if (n < 0 || n > tokens)
        return gy_fail(err, GY_EARG, "cannot cut a sequence of %d positions to %d", tokens, n);
    if (n > seq->len) n = seq->len; /* of the tokens that wait, fewer */
    if (kv->state) n = gy_state_back(&seq->state, n);
    if (want && n < seq->reusable)
        return gy_fail(err, GY_ELIMIT,
                       "cannot go back to position %d: the KV codecs changed at %d, and what came "
                       "before was computed with others",
                       want, seq->reusable);
    for (int g = 0; g < kv->n_groups; g++) {
        const gy_kv_group *gr = &kv->group[g];
        if (!gr->stored || gr->keep.policy != GY_KEEP_WINDOW || n == seq->len) continue;
        /* The query at n sees n - window + 1 .. n, and n is written beside n - 1. */
        int lo = n - gr->keep.window + 1 > 0 ? n - gr->keep.window + 1 : 0;
        for (int i = (lo < n ? lo : n - 1) / GY_PAGE; n && i <= (n - 1) / GY_PAGE; i++)
            if (!seq->group[g].at[i])
                return gy_fail(err, GY_ELIMIT,
                               "cannot go back to position %d: a window of %d no longer holds what "
                               "it would see",
                               n, gr->keep.window);
    }
    for (int g = 0; g < kv->n_groups; g++)
        pages_cut(&kv->group[g], &seq->group[g], gy_pages_for(n));
    gy_state_cut(kv->state, &seq->state, n);
    seq->len = n, seq->replay = want - n;
    seq->committed = n;
    if (!n) seq->reusable = 0;
    return GY_OK;
}

gy_rows gy_kv_page_rows(const gy_kv *kv, const struct gy_seq *seq, int layer, int page, int head,
                        bool value) {
    gy_page *held = seq->group[kv->layer[layer].group].at[page];
    GY_ASSERT(held);
    return gy_coding_rows(kv, layer, held, head, value);
}

/* ---- Pages beside sequences ---- */

int gy_kv_groups(const gy_kv *kv) {
    return kv->n_groups;
}

size_t gy_kv_group_bytes(const gy_kv *kv, int group) {
    return kv->group[group].stored ? kv->group[group].pool[0].page_bytes : 0;
}

int64_t gy_kv_page_cost(const gy_kv *kv, int group) {
    size_t bytes = gy_kv_group_bytes(kv, group);
    return bytes ? (int64_t)bytes + GY_PAGE_HEAD : 0;
}

bool gy_kv_page_needed(const gy_kv *kv, int group, int len, int i) {
    gy_keep keep = kv->group[group].keep;
    if (!kv->group[group].stored || i >= gy_pages_for(len)) return false;
    if (keep.policy != GY_KEEP_WINDOW) return true;
    /* The query at len sees len - window + 1 .. len and the kept prefix, and is written beside len
     * - 1 unless a page begins with it. */
    if (i == gy_pages_for(len) - 1 && len % GY_PAGE) return true;
    if (keep.sinks > 0 && i < gy_pages_for(keep.sinks)) return true;
    return keep.window - 1 >= len || (i + 1) * GY_PAGE > len - keep.window + 1;
}

void gy_kv_page_blank(const gy_kv *kv, int group, void *data, int from) {
    for (int l = 0; l < kv->n_layers; l++) {
        const gy_kv_place *p = &kv->layer[l];
        const gy_kv_layout *f = &p->coding[0];
        if (p->group != group || p->owner != l) continue;
        for (int part = 0; part < 2 * kv->spec[l].heads; part++) {
            int v = part % 2;
            uint8_t *at = (uint8_t *)data + f->at[v] + f->head_bytes[v] * (size_t)(part / 2);
            for (int i = 0; i < 3; i++) {
                size_t step = f->step[v][i];
                memset(at + (size_t)from * step, 0, (size_t)(GY_PAGE - from) * step);
                at += GY_PAGE * step;
            }
        }
    }
}

gy_rc gy_kv_seq_adopt(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n, int replay,
                      gy_page *const *const at[GY_KV_GROUPS], gy_err *err) {
    int pages = gy_pages_for(n);
    GY_ASSERT(seq->len == 0 && !gy_kv_recoded(seq));
    if (!tok_room(seq, n + replay)) return gy_fail(err, GY_ENOMEM, "out of memory for tokens");
    for (int g = 0; g < kv->n_groups; g++) {
        const gy_kv_group *gr = &kv->group[g];
        int woken = 0;
        if (!gr->stored) continue;
        if (!pages_room(&seq->group[g], pages))
            return gy_fail(err, GY_ENOMEM, "out of memory for a page table");
        for (int i = 0; i < pages; i++) {
            GY_ASSERT(at[g][i] || !gy_kv_page_needed(kv, g, n, i));
            woken += at[g][i] && gy_kv_page_idle(at[g][i]);
        }
        if (woken > kv->max_pages - gy_group_in_use(gr))
            return gy_fail(err, GY_ELIMIT, "KV memory is full: %lld positions are in use",
                           (long long)gy_group_in_use(gr) * GY_PAGE);
    }
    for (int g = 0; g < kv->n_groups; g++) {
        if (!kv->group[g].stored) continue;
        pages_cut(&kv->group[g], &seq->group[g], 0);
        for (int i = 0; i < pages; i++) {
            if (at[g][i]) gy_page_ref(&kv->group[g], at[g][i]);
            seq->group[g].at[i] = at[g][i];
        }
        seq->group[g].n = pages;
    }
    if (n + replay) memcpy(seq->tok, tok, (size_t)(n + replay) * sizeof *tok);
    seq->len = seq->committed = n, seq->replay = replay;
    return GY_OK;
}
