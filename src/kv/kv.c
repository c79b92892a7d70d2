/* kv - the page pool and the sequences that refer to it. See kv.h. */
#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "kv/kv.h"

enum { MAX_DIM = 1 << 16, MAX_LAYERS = 1 << 14 };

/* Head and data are one allocation; data begins PAGE_HEAD bytes in, so that planes stay 64-byte
 * aligned. */
struct gy_page {
    int refs;      /* sequences that hold it, and its keeper; 0 while it waits in the free list */
    bool kept;     /* one of refs is a keeper's */
    gy_page *next; /* free list */
};
enum { PAGE_HEAD = 64 };

typedef struct {
    gy_keep keep;
    size_t page_bytes;  /* of data */
    int held, free;     /* pages taken from the system; of these, waiting in the list */
    int idle;           /* pages that only a keeper refers to: outside the bound */
    gy_page *free_list; /* [free] */
    bool stored;        /* any layer stores here */
} group;

/* Where a layer's rows lie inside a page. index 0: K, 1: V. */
typedef struct {
    int group;
    int owner;            /* layer whose rows are read: the donor, or itself */
    size_t at[2];         /* first byte of head 0 */
    size_t head_bytes[2]; /* 64 rows of one head, all planes */
    size_t step[2][3];    /* bytes of one row in each plane */
} place;

struct gy_kv {
    gy_kvspec *spec; /* [n_layers] */
    place *layer;    /* [n_layers] */
    int n_layers;
    group group[GY_KV_GROUPS];
    int n_groups;
    int max_pages; /* of each group */
    gy_state_pool *state;
    int64_t token_bytes;
};

static uint8_t *page_data(gy_page *page) {
    return (uint8_t *)page + PAGE_HEAD;
}

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

/* Bytes of 64 rows of one head, or 0 when the codec cannot store them. */
static size_t head_layout(gy_cparm c, int dim, size_t step[3]) {
    if (c.kind >= GY_CODEC_COUNT) return 0;
    const gy_codec *codec = &gy_codecs[c.kind];
    if (!codec->encode || !codec->fits || !codec->fits(c, dim)) return 0;
    memset(step, 0, 3 * sizeof *step);
    codec->bytes(c, dim, step);
    return GY_PAGE * (step[0] + step[1] + step[2]);
}

static gy_rc layer_place(gy_kv *kv, int i, gy_err *err) {
    const gy_kvspec *s = &kv->spec[i];
    place *p = &kv->layer[i];
    p->owner = i, p->group = -1;
    if (s->donor >= 0) {
        if (s->donor >= i || kv->spec[s->donor].donor >= 0)
            return gy_fail(err, GY_EFORMAT, "layer %d: cannot read the KV of layer %d", i,
                           s->donor);
        *p = kv->layer[s->donor];
        return GY_OK;
    }
    if (s->keep.policy == GY_KEEP_STATE || s->heads == 0) return GY_OK; /* no pages */
    if (s->heads < 0 || s->heads > MAX_DIM || s->kdim < 1 || s->kdim > MAX_DIM || s->vdim < (s->form != GY_KV_KEYS) ||
        s->vdim > (s->form == GY_KV_VIEW ? s->kdim : MAX_DIM) ||
        (s->keep.policy == GY_KEEP_WINDOW && s->keep.window < 1))
        return gy_fail(err, GY_EFORMAT,
                       "layer %d: %d KV heads of %d and %d values, window %d: expected 1 to %d", i,
                       s->heads, s->kdim, s->vdim, s->keep.window, MAX_DIM);
    gy_rc rc = group_of(kv, s->keep, &p->group, err);
    if (rc) return rc;
    group *g = &kv->group[p->group];
    for (int v = 0; v < 2 && !(v && s->form == GY_KV_KEYS); v++) {
        gy_cparm c = v && s->form != GY_KV_VIEW ? s->v : s->k;
        int dim = v ? s->vdim : s->kdim;
        char name[32];
        p->head_bytes[v] = head_layout(c, dim, p->step[v]);
        if (!p->head_bytes[v] || (v && s->form == GY_KV_VIEW && gy_codecs[c.kind].turn))
            return gy_fail(err, GY_EUNSUPPORTED, "layer %d: KV codec %s cannot hold heads of %d", i,
                           c.kind < GY_CODEC_COUNT ? gy_cparm_name(c, name) : "?", dim);
        if (v && s->form == GY_KV_VIEW) { /* the same bytes, fewer columns */
            p->at[1] = p->at[0], p->head_bytes[1] = p->head_bytes[0];
            memcpy(p->step[1], p->step[0], sizeof p->step[1]);
            break;
        }
        p->at[v] = g->page_bytes;
        g->page_bytes += p->head_bytes[v] * (size_t)s->heads;
    }
    g->stored = true;
    return GY_OK;
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
    kv->n_layers = n_layers;
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
            kv->token_bytes += (int64_t)(kv->group[g].page_bytes / GY_PAGE);
    *out = kv;
    return GY_OK;
}

void gy_kv_free(gy_kv *kv) {
    if (!kv) return;
    for (int g = 0; g < kv->n_groups; g++) {
        for (gy_page *page = kv->group[g].free_list, *next; page; page = next)
            next = page->next, gy_free(page);
    }
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
    for (int g = 0; g < kv->n_groups; g++)
        bytes += (int64_t)kv->group[g].held * (int64_t)(kv->group[g].page_bytes + PAGE_HEAD);
    return bytes;
}

int gy_kv_layer_group(const gy_kv *kv, int layer) {
    return kv->layer[layer].group;
}

/* ---- Pages ---- */

static int in_use(const group *g) {
    return g->held - g->free - g->idle;
}

/* Puts pages into the free list until it holds n. */
static gy_rc pool_stock(gy_kv *kv, group *g, int n, gy_err *err) {
    if (n > kv->max_pages - in_use(g))
        return gy_fail(err, GY_ELIMIT, "KV memory is full: %lld positions are in use",
                       (long long)in_use(g) * GY_PAGE);
    while (g->free < n) {
        gy_page *page = gy_alloc_aligned(PAGE_HEAD + g->page_bytes);
        if (!page) return gy_fail(err, GY_ENOMEM, "out of memory for KV pages");
        page->next = g->free_list, g->free_list = page;
        g->held++, g->free++;
    }
    return GY_OK;
}

static gy_page *page_take(group *g) {
    gy_page *page = g->free_list;
    GY_ASSERT(page);
    g->free_list = page->next, g->free--;
    page->refs = 1, page->next = NULL;
    return page;
}

static void page_unref(group *g, gy_page *page) {
    if (!page) return;
    if (--page->refs) {
        g->idle += page->refs == 1 && page->kept;
        return;
    }
    page->next = g->free_list, g->free_list = page;
    g->free++;
}

static void page_ref(group *g, gy_page *page) {
    g->idle -= page->refs == 1 && page->kept;
    page->refs++;
}

static int pages_for(int len) {
    return len / GY_PAGE + (len % GY_PAGE != 0);
}

static void pages_cut(group *g, gy_pages *pages, int n) {
    while (pages->n > n) page_unref(g, pages->at[--pages->n]);
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
    int n = pages_for(from->len);
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
            if (page) page_ref(&kv->group[g], page);
            seq->group[g].at[i] = page;
        }
        seq->group[g].n = n;
    }
    if (tokens) memcpy(seq->tok, from->tok, (size_t)tokens * sizeof *seq->tok);
    seq->len = from->len, seq->replay = from->replay, seq->committed = from->committed;
    gy_state_fork(&from->state, &seq->state);
    *out = seq;
    return GY_OK;
}

/* Everything that can fail comes first and leaves only spare room and spare pages behind. */
gy_rc gy_kv_reserve_drafts(gy_kv *kv, struct gy_seq *seq, int n, int drafts, gy_err *err) {
    if (n < 0 || n > INT_MAX - GY_PAGE - seq->len)
        return gy_fail(err, GY_ELIMIT, "cannot append %d tokens to a sequence of %d", n, seq->len);
    if (n == 0) return GY_OK;
    int pages = pages_for(seq->len + n);
    if (!tok_room(seq, seq->len + n)) return gy_fail(err, GY_ENOMEM, "out of memory for tokens");
    for (int g = 0; g < kv->n_groups; g++) {
        gy_pages *p = &seq->group[g];
        if (!kv->group[g].stored) continue;
        if (!pages_room(p, pages)) return gy_fail(err, GY_ENOMEM, "out of memory for a page table");
        int more = (pages > p->n ? pages - p->n : 0) + tail_shared(p, seq->len);
        gy_rc rc = pool_stock(kv, &kv->group[g], more, err);
        if (rc) return rc;
    }
    int base = drafts ? n - drafts : seq->replay < n ? seq->replay : n;
    base = seq->committed < seq->len ? -1 : seq->len + base; /* a round of drafts goes on */
    gy_rc rc = gy_state_reserve(kv->state, &seq->state, seq->len, base, n, err);
    if (rc) return rc;
    for (int g = 0; g < kv->n_groups; g++) {
        group *gr = &kv->group[g];
        gy_pages *p = &seq->group[g];
        if (!gr->stored) continue;
        if (tail_shared(p, seq->len)) {
            gy_page **tail = &p->at[seq->len / GY_PAGE], *copy = page_take(gr);
            memcpy(page_data(copy), page_data(*tail), gr->page_bytes);
            page_unref(gr, *tail);
            *tail = copy;
        }
        while (p->n < pages) p->at[p->n++] = page_take(gr);
    }
    return GY_OK;
}

gy_rc gy_kv_reserve(gy_kv *kv, struct gy_seq *seq, int n, gy_err *err) {
    return gy_kv_reserve_drafts(kv, seq, n, 0, err);
}

/* Pages of a WINDOW group that neither a query nor a withdrawal of up to GY_PAGE rows can reach. */
static void window_drop(group *g, gy_pages *pages, int committed) {
    if (g->keep.window >= committed - GY_PAGE) return;
    int end = (committed - GY_PAGE - g->keep.window) / GY_PAGE;
    int i = end - 1, first = pages_for(g->keep.sinks > 0 ? g->keep.sinks : 0);
    /* Dropping goes on from where the last append stopped: everything below a hole is gone. */
    for (; i >= first && pages->at[i]; i--) {
        page_unref(g, pages->at[i]);
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
        GY_ASSERT(!kv->group[g].stored || seq->group[g].n >= pages_for(seq->len));
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
    gy_rc rc = gy_kv_trim(kv, seq, seq->committed + keep, err);
    if (!rc) seq->committed = seq->len;
    return rc;
}

gy_rc gy_kv_trim(gy_kv *kv, struct gy_seq *seq, int n, gy_err *err) {
    int tokens = seq->len + seq->replay, want = n;
    if (n < 0 || n > tokens)
        return gy_fail(err, GY_EARG, "cannot cut a sequence of %d positions to %d", tokens, n);
    if (n > seq->len) n = seq->len; /* of the tokens that wait, fewer */
    if (kv->state) n = gy_state_back(&seq->state, n);
    for (int g = 0; g < kv->n_groups; g++) {
        const group *gr = &kv->group[g];
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
    for (int g = 0; g < kv->n_groups; g++) pages_cut(&kv->group[g], &seq->group[g], pages_for(n));
    gy_state_cut(kv->state, &seq->state, n);
    seq->len = n, seq->replay = want - n;
    if (seq->committed > n) seq->committed = n;
    return GY_OK;
}

gy_rows gy_kv_page_rows(const gy_kv *kv, const struct gy_seq *seq, int layer, int page, int head,
                        bool value) {
    const place *p = &kv->layer[layer];
    const gy_kvspec *s = &kv->spec[p->owner];
    gy_page *held = seq->group[p->group].at[page];
    GY_ASSERT(held);
    uint8_t *at = page_data(held) + p->at[value] + p->head_bytes[value] * (size_t)head;
    gy_rows rows = {.c = value && s->form != GY_KV_VIEW ? s->v : s->k,
                    .rows = GY_PAGE,
                    .cols = value ? s->vdim : s->kdim,
                    .global = 1};
    for (int i = 0; i < 3; i++) {
        size_t step = p->step[value][i];
        rows.plane[i] = step ? at : NULL;
        rows.step[i] = (ptrdiff_t)step;
        at += GY_PAGE * step;
    }
    return rows;
}

/* ---- Pages beside sequences ---- */

int gy_kv_groups(const gy_kv *kv) {
    return kv->n_groups;
}

size_t gy_kv_group_bytes(const gy_kv *kv, int group) {
    return kv->group[group].stored ? kv->group[group].page_bytes : 0;
}

bool gy_kv_pages_suffice(const gy_kv *kv) {
    for (int i = 0; i < kv->n_layers; i++)
        if (kv->spec[i].keep.policy == GY_KEEP_STATE) return false;
    return true;
}

bool gy_kv_page_needed(const gy_kv *kv, int group, int len, int i) {
    gy_keep keep = kv->group[group].keep;
    if (!kv->group[group].stored || i >= pages_for(len)) return false;
    if (keep.policy != GY_KEEP_WINDOW) return true;
    /* The query at len sees len - window + 1 .. len and the kept prefix, and is written beside len
     * - 1 unless a page begins with it. */
    if (i == pages_for(len) - 1 && len % GY_PAGE) return true;
    if (keep.sinks > 0 && i < pages_for(keep.sinks)) return true;
    return keep.window - 1 >= len || (i + 1) * GY_PAGE > len - keep.window + 1;
}

gy_rc gy_kv_page_take(gy_kv *kv, int group, gy_page **page, gy_err *err) {
    gy_rc rc = pool_stock(kv, &kv->group[group], 1, err);
    if (!rc) *page = page_take(&kv->group[group]);
    return rc;
}

void gy_kv_page_unref(gy_kv *kv, int group, gy_page *page) {
    page_unref(&kv->group[group], page);
}

void *gy_kv_page_data(gy_page *page) {
    return page_data(page);
}

void gy_kv_page_blank(const gy_kv *kv, int group, void *data, int from) {
    for (int l = 0; l < kv->n_layers; l++) {
        const place *p = &kv->layer[l];
        if (p->group != group || p->owner != l) continue;
        for (int part = 0; part < 2 * kv->spec[l].heads; part++) {
            int v = part % 2;
            uint8_t *at = (uint8_t *)data + p->at[v] + p->head_bytes[v] * (size_t)(part / 2);
            for (int i = 0; i < 3; i++) {
                size_t step = p->step[v][i];
                memset(at + (size_t)from * step, 0, (size_t)(GY_PAGE - from) * step);
                at += GY_PAGE * step;
            }
        }
    }
}

void gy_kv_page_keep(gy_kv *kv, int group, gy_page *page) {
    GY_ASSERT(!page->kept);
    page_ref(&kv->group[group], page);
    page->kept = true;
}

void gy_kv_page_unkeep(gy_kv *kv, int group, gy_page *page) {
    GY_ASSERT(page->kept);
    kv->group[group].idle -= page->refs == 1;
    page->kept = false;
    page_unref(&kv->group[group], page);
}

bool gy_kv_page_idle(const gy_page *page) {
    return page->kept && page->refs == 1;
}

gy_rc gy_kv_seq_adopt(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n,
                      gy_page *const *const at[GY_KV_GROUPS], gy_err *err) {
    int pages = pages_for(n);
    GY_ASSERT(seq->len == 0);
    if (!tok_room(seq, n)) return gy_fail(err, GY_ENOMEM, "out of memory for tokens");
    for (int g = 0; g < kv->n_groups; g++) {
        const group *gr = &kv->group[g];
        int woken = 0;
        if (!gr->stored) continue;
        if (!pages_room(&seq->group[g], pages))
            return gy_fail(err, GY_ENOMEM, "out of memory for a page table");
        for (int i = 0; i < pages; i++) {
            GY_ASSERT(at[g][i] || !gy_kv_page_needed(kv, g, n, i));
            woken += at[g][i] && gy_kv_page_idle(at[g][i]);
        }
        if (woken > kv->max_pages - in_use(gr))
            return gy_fail(err, GY_ELIMIT, "KV memory is full: %lld positions are in use",
                           (long long)in_use(gr) * GY_PAGE);
    }
    for (int g = 0; g < kv->n_groups; g++) {
        if (!kv->group[g].stored) continue;
        pages_cut(&kv->group[g], &seq->group[g], 0);
        for (int i = 0; i < pages; i++) {
            if (at[g][i]) page_ref(&kv->group[g], at[g][i]);
            seq->group[g].at[i] = at[g][i];
        }
        seq->group[g].n = pages;
    }
    if (n) memcpy(seq->tok, tok, (size_t)n * sizeof *tok);
    seq->len = seq->committed = n;
    return GY_OK;
}
