#include "kv/snap_seq.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* ---- Saving ---- */

typedef struct {
    gy_snap_page *page; /* [n] */
    const void **data;  /* [n] */
    void *tail[GY_KV_GROUPS];
    int n;
} parts;

static void parts_free(parts *p) {
    for (int g = 0; g < GY_KV_GROUPS; g++) gy_free(p->tail[g]);
    gy_free(p->page);
    gy_free(p->data);
}

/* Fills p with the pages that seq holds; a page cut short is a copy, with the rest zero. */
static bool collect(const gy_kv *kv, const struct gy_seq *seq, parts *p) {
    int groups = gy_kv_groups(kv), all = gy_pages_for(seq->len);
    size_t most = (size_t)groups * (size_t)all + GY_STATE_MARKS;
    p->page = gy_alloc_n(most, sizeof *p->page);
    p->data = gy_alloc_n(most, sizeof *p->data);
    if (!p->page || !p->data) return false;
    for (int g = 0; g < groups; g++) {
        size_t bytes = gy_kv_group_bytes(kv, g);
        for (int i = 0; bytes && i < all; i++) {
            gy_page *held = seq->group[g].at[i];
            if (!held) continue;
            const void *data = gy_kv_page_data(held);
            if (i == seq->len / GY_PAGE) {
                p->tail[g] = gy_alloc(bytes);
                if (!p->tail[g]) return false;
                memcpy(p->tail[g], data, bytes);
                gy_kv_page_blank(kv, g, p->tail[g], seq->len % GY_PAGE);
                data = p->tail[g];
            }
            p->page[p->n] = (gy_snap_page){
                .group = (uint32_t)g, .index = (uint32_t)i, .bytes = (uint64_t)bytes};
            p->data[p->n++] = data;
        }
    }
    for (int i = 0; i < seq->state.marks; i++) {
        p->page[p->n] = (gy_snap_page){.group = GY_SNAP_STATE,
                                       .index = (uint32_t)seq->state.mark[i].pos,
                                       .bytes = (uint64_t)gy_state_block_bytes(gy_kv_state(kv))};
        p->data[p->n++] = gy_state_data(&seq->state.mark[i]);
    }
    return true;
}

static bool chain_of(gy_snap_head *h) {
    if (!gy_chain_root(&h->id, NULL, NULL, &h->before)) return false;
    h->after = h->before;
    for (int i = 0; i < h->n_tok / GY_PAGE; i++)
        if (!gy_chain_next(&h->after, h->tok + i * GY_PAGE, &h->after)) return false;
    return true;
}

gy_rc gy_snap_save_seq(const gy_io *io, const char *path, const gy_kv *kv, const struct gy_seq *seq,
                       const gy_identity *id, const char *kv_name, gy_err *err) {
    gy_snap_head h = {.kind = GY_SNAP_SEQ,
                      .id = *id,
                      .n_tok = seq->len + seq->replay,
                      .replay = seq->replay,
                      .tok = seq->tok};
    parts p = {0};
    if (seq->committed < seq->len)
        return gy_fail(err, GY_EARG, "a sequence with unsettled drafts cannot be saved");
    if (gy_kv_recoded(seq))
        return gy_fail(err, GY_EUNSUPPORTED,
                       "sequences whose KV codecs are not the engine's cannot be saved");
    snprintf(h.kv, sizeof h.kv, "%s", kv_name);
    gy_rc rc = collect(kv, seq, &p) && chain_of(&h)
                   ? GY_OK
                   : gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    h.page = p.page, h.n_pages = p.n;
    if (!rc) rc = gy_snap_clean(io, path, err);
    if (!rc) rc = gy_snap_write(io, path, &h, p.data, err);
    parts_free(&p);
    return rc;
}

/* ---- Loading ---- */

static gy_rc check_identity(const gy_snap_head *h, const gy_identity *id, const char *kv_name,
                            gy_err *err) {
    char other[64];
    if (!gy_digest_equal(&h->id.model, &id->model))
        return gy_fail(err, GY_EARG, "saved from another model");
    if (h->id.bits != id->bits)
        return gy_fail(err, GY_EARG,
                       "saved with revision %u of the arithmetic; this program has revision %u",
                       h->id.bits, id->bits);
    if (h->id.arith != id->arith)
        return gy_fail(err, GY_EARG, "saved with %s arithmetic; the engine has %s",
                       h->id.arith == GY_ARITH_EXACT ? "exact" : "fast",
                       id->arith == GY_ARITH_EXACT ? "exact" : "fast");
    if (!gy_digest_equal(&h->id.layout, &id->layout))
        return gy_fail(err, GY_EARG, "saved with KV codec %s; the engine has %s",
                       gy_err_quote(other, h->kv, strlen(h->kv)), kv_name);
    if (!gy_digest_equal(&h->id.plan, &id->plan))
        return gy_fail(err, GY_EARG, "saved by a version of gyre that computes in another order");
    return GY_OK;
}

static gy_rc check_tokens(const gy_snap_head *h, int max_len, int vocab, gy_err *err) {
    if (h->kind != GY_SNAP_SEQ || h->first)
        return gy_fail(err, GY_EFORMAT, "a page of a prefix store; expected a whole sequence");
    if (h->n_tok > max_len)
        return gy_fail(err, GY_ELIMIT, "%d positions do not fit the context of %d", h->n_tok,
                       max_len);
    for (int i = 0; i < h->n_tok; i++)
        if (h->tok[i] >= vocab)
            return gy_fail(err, GY_EINTEGRITY, "token %d is %d; the model has ids below %d", i,
                           h->tok[i], vocab);
    return GY_OK;
}

/* The tables of pages of a sequence of n positions, with one reference to each page. */
typedef struct {
    gy_page **at[GY_KV_GROUPS]; /* [pages] */
    int len, pages, groups;
} tables;

/* The marks of recurrent layers; the last one must be at the sequence's end. */
static gy_rc fill_state(gy_kv *kv, const gy_snap *s, struct gy_seq *seq, gy_err *err) {
    gy_state_pool *pool = gy_kv_state(kv);
    for (int k = 0; k < s->head.n_pages; k++) {
        const gy_snap_page *p = s->head.page + k;
        if (p->group != GY_SNAP_STATE) continue;
        if (!pool || p->bytes != (uint64_t)gy_state_block_bytes(pool) ||
            p->index > (uint32_t)seq->len)
            return gy_fail(err, GY_EINTEGRITY, "state at %u has %llu bytes", p->index,
                           (unsigned long long)p->bytes);
        void *data = gy_state_add(pool, &seq->state, (int)p->index);
        if (!data) return gy_fail(err, GY_ENOMEM, "out of memory for recurrent state");
        gy_rc rc = gy_snap_read(s, k, data, err);
        if (rc) return rc;
    }
    if (pool && gy_state_pos(&seq->state) != seq->len)
        return gy_fail(err, GY_EINTEGRITY, "state at %d is missing", seq->len);
    return GY_OK;
}

static void tables_free(gy_kv *kv, tables *t) {
    for (int g = 0; g < t->groups; g++)
        for (int i = 0; t->at[g] && i < t->pages; i++)
            if (t->at[g][i]) gy_kv_page_unref(kv, g, t->at[g][i]);
    for (int g = 0; g < GY_KV_GROUPS; g++) gy_free(t->at[g]);
}

static gy_rc fill(gy_kv *kv, const gy_snap *s, tables *t, gy_err *err) {
    for (int g = 0; g < t->groups; g++) {
        t->at[g] = gy_alloc_n((size_t)t->pages, sizeof *t->at[g]);
        if (!t->at[g]) return gy_fail(err, GY_ENOMEM, "out of memory for a page table");
    }
    for (int k = 0; k < s->head.n_pages; k++) {
        const gy_snap_page *p = s->head.page + k;
        if (p->group == GY_SNAP_STATE) continue;
        if (p->group >= (uint32_t)t->groups || p->bytes != gy_kv_group_bytes(kv, (int)p->group) ||
            p->index >= (uint32_t)t->pages)
            return gy_fail(err, GY_EINTEGRITY, "page %u of group %u has %llu bytes", p->index,
                           p->group, (unsigned long long)p->bytes);
        gy_page **at = &t->at[p->group][p->index];
        gy_rc rc = gy_kv_page_take(kv, (int)p->group, at, err);
        if (!rc) rc = gy_snap_read(s, k, gy_kv_page_data(*at), err);
        if (rc) return rc;
    }
    for (int g = 0; g < t->groups; g++)
        for (int i = 0; i < t->pages; i++)
            if (!t->at[g][i] && gy_kv_page_needed(kv, g, t->len, i))
                return gy_fail(err, GY_EINTEGRITY, "page %d of group %d is missing", i, g);
    return GY_OK;
}

static gy_rc load(gy_kv *kv, const gy_snap *s, struct gy_seq **out, gy_err *err) {
    int len = s->head.n_tok - s->head.replay;
    tables t = {.len = len, .pages = gy_pages_for(len), .groups = gy_kv_groups(kv)};
    gy_page *const *at[GY_KV_GROUPS] = {0};
    struct gy_seq *seq = NULL;
    gy_rc rc = fill(kv, s, &t, err);
    if (!rc) rc = gy_kv_seq_new(kv, &seq, err);
    for (int g = 0; g < t.groups; g++) at[g] = t.at[g];
    if (!rc) rc = gy_kv_seq_adopt(kv, seq, s->head.tok, len, s->head.replay, at, err);
    if (!rc) rc = fill_state(kv, s, seq, err);
    tables_free(kv, &t);
    if (rc) return gy_kv_seq_free(kv, seq), rc;
    *out = seq;
    return GY_OK;
}

gy_rc gy_snap_load_seq(const gy_io *io, const char *path, gy_kv *kv, const gy_identity *id,
                       const char *kv_name, int max_len, int vocab, struct gy_seq **seq,
                       gy_err *err) {
    gy_err local = {0};
    gy_err *e = err ? err : &local;
    gy_snap s;
    gy_rc rc = gy_snap_open(io, path, &s, e);
    if (rc) return rc;
    rc = check_identity(&s.head, id, kv_name, e);
    if (!rc) rc = check_tokens(&s.head, max_len, vocab, e);
    if (!rc) rc = load(kv, &s, seq, e);
    if (rc) gy_fail_in(e, "%s", path);
    gy_snap_close(&s);
    return rc;
}
