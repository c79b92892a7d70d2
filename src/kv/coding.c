/* kv/coding - codecs of a page, and the change from some to others.
 *
 *     transition at S, all pages:      [f16][f16][f16 ..S)  ->  [q4][q4][q4 ..S) [q4 ...
 *     static mix, the first 2 pages:   [f16][f16][q4][q4][q4 ...
 *
 * A page is changed by making another: sequences that share the old one keep it. */
#include <string.h>

#include "codec/kvname.h"
#include "kv/impl.h"

/* ---- Layout ---- */

/* K alone decides where V is a view of it or absent. */
static gy_rc fits(const gy_kvspec *s, gy_kvpair c, gy_err *err) {
    static const gy_cparm plain = {.kind = GY_CODEC_F16};
    if (s->form == GY_KV_BOTH) return gy_kv_codec_fits(c.k, c.v, s->kdim, s->vdim, err);
    gy_rc rc = gy_kv_codec_fits(c.k, plain, s->kdim, s->kdim, err);
    if (rc || s->form == GY_KV_KEYS || gy_codecs[c.k.kind].fits(c.k, s->vdim)) return rc;
    return gy_fail(err, GY_EUNSUPPORTED, "KV codec cannot give the first %d of %d values", s->vdim,
                   s->kdim);
}

gy_rc gy_coding_layout(gy_kv *kv, int i, int coding, gy_kvpair c, gy_err *err) {
    const gy_kvspec *s = &kv->spec[i];
    gy_kv_layout *l = &kv->layer[i].coding[coding];
    gy_page_pool *pool = &kv->group[kv->layer[i].group].pool[coding];
    gy_rc rc = fits(s, c, err);
    if (rc) return gy_fail_in(err, "kv: layer %d", i), rc;
    *l = (gy_kv_layout){.c = {c.k, s->form == GY_KV_VIEW ? c.k : c.v}};
    for (int v = 0; v < (s->form == GY_KV_BOTH ? 2 : 1); v++) {
        gy_codecs[l->c[v].kind].bytes(l->c[v], v ? s->vdim : s->kdim, l->step[v]);
        l->head_bytes[v] = GY_PAGE * (l->step[v][0] + l->step[v][1] + l->step[v][2]);
        l->at[v] = pool->page_bytes;
        pool->page_bytes += l->head_bytes[v] * (size_t)s->heads;
    }
    if (s->form != GY_KV_VIEW) return GY_OK;
    /* The same bytes, fewer columns. */
    l->at[1] = l->at[0], l->head_bytes[1] = l->head_bytes[0];
    memcpy(l->step[1], l->step[0], sizeof l->step[1]);
    return GY_OK;
}

gy_rows gy_coding_rows(const gy_kv *kv, int layer, gy_page *page, int head, bool value) {
    const gy_kv_place *p = &kv->layer[layer];
    const gy_kvspec *s = &kv->spec[p->owner];
    const gy_kv_layout *l = &p->coding[page->coding];
    uint8_t *at = gy_page_bytes(page) + l->at[value] + l->head_bytes[value] * (size_t)head;
    gy_rows rows = {
        .c = l->c[value], .rows = GY_PAGE, .cols = value ? s->vdim : s->kdim, .global = 1};
    for (int i = 0; i < 3; i++) {
        size_t step = l->step[value][i];
        rows.plane[i] = step ? at : NULL;
        rows.step[i] = (ptrdiff_t)step;
        at += GY_PAGE * step;
    }
    return rows;
}

/* Layers that store rows of their own. */
static bool owns(const gy_kv *kv, int i) {
    return kv->layer[i].group >= 0 && kv->layer[i].owner == i;
}

static bool coding_is(const gy_kv *kv, int coding, const gy_kvpair *c) {
    for (int i = 0; i < kv->n_layers; i++)
        if (owns(kv, i) && !(gy_cparm_same(kv->layer[i].coding[coding].c[0], c[i].k) &&
                             (kv->spec[i].form != GY_KV_BOTH ||
                              gy_cparm_same(kv->layer[i].coding[coding].c[1], c[i].v))))
            return false;
    return true;
}

gy_rc gy_kv_coding(gy_kv *kv, const gy_kvpair *c, int *coding, gy_err *err) {
    int f = 0;
    for (; f < kv->n_codings; f++)
        if (coding_is(kv, f, c)) return *coding = f, GY_OK;
    if (f == GY_KV_CODINGS)
        return gy_fail(err, GY_ELIMIT, "more than %d choices of KV codecs in one engine",
                       GY_KV_CODINGS);
    for (int g = 0; g < kv->n_groups; g++) kv->group[g].pool[f].page_bytes = 0;
    for (int i = 0; i < kv->n_layers; i++) {
        if (!owns(kv, i)) continue;
        gy_rc rc = gy_coding_layout(kv, i, f, c[i], err);
        if (rc) return rc;
    }
    for (int i = 0; i < kv->n_layers; i++)
        if (kv->layer[i].owner != i)
            kv->layer[i].coding[f] = kv->layer[kv->layer[i].owner].coding[f];
    kv->n_codings = f + 1;
    return *coding = f, GY_OK;
}

typedef void (*turn_fn)(gy_cparm c, float *x, int n, bool back);

static turn_fn turn_of(const gy_kv *kv, int layer, int coding) {
    return gy_codecs[kv->layer[layer].coding[coding].c[1].kind].turn;
}

bool gy_kv_mixed(const gy_kv *kv, const struct gy_seq *seq, int layer) {
    return seq->border && turn_of(kv, layer, seq->early) != turn_of(kv, layer, seq->coding);
}

/* ---- Transition ---- */

/* Codes the first n rows of one head anew. Between equal codecs bytes are copied: coding twice
 * would round twice. */
static void recode_head(const gy_rows *from, const gy_rows *to, int n, float *x) {
    if (gy_cparm_same(from->c, to->c)) {
        for (int p = 0; p < 3; p++)
            if (to->plane[p]) memcpy(to->plane[p], from->plane[p], (size_t)n * (size_t)to->step[p]);
        return;
    }
    for (int r = 0; r < n; r++) {
        gy_codecs[from->c.kind].decode(from, r, x);
        if (gy_codecs[from->c.kind].turn)
            gy_codecs[from->c.kind].turn(from->c, x, from->cols, true);
        gy_codecs[to->c.kind].encode(to, r, x);
    }
}

static void recode(const gy_kv *kv, int group, gy_page *from, gy_page *to, int n, float *x) {
    for (int i = 0; i < kv->n_layers; i++) {
        if (!owns(kv, i) || kv->layer[i].group != group) continue;
        for (int h = 0; h < kv->spec[i].heads; h++) {
            for (int v = 0; v < (kv->spec[i].form == GY_KV_BOTH ? 2 : 1); v++) {
                gy_rows a = gy_coding_rows(kv, i, from, h, v), b = gy_coding_rows(kv, i, to, h, v);
                recode_head(&a, &b, n, x);
            }
        }
    }
}

/* The new pages of one group, in a list, before any old one is touched. Beyond the bound only while
 * both are there. */
static gy_rc take_pages(gy_kv *kv, gy_kv_group *g, const gy_pages *p, int first, int coding,
                        gy_page **list, gy_err *err) {
    int more = 0; /* pages in use afterwards that were not before: old ones that others hold */
    int n = 0;
    for (int i = first; i < p->n; i++) {
        if (!p->at[i] || p->at[i]->coding == coding) continue;
        more += p->at[i]->refs - p->at[i]->kept > 1;
        n++;
    }
    if (more > kv->max_pages - gy_group_in_use(g))
        return gy_fail(err, GY_ELIMIT, "KV memory is full: %lld positions are in use",
                       (long long)gy_group_in_use(g) * GY_PAGE);
    for (; n; n--) {
        gy_page *page = gy_page_new(g, coding);
        if (!page) return gy_fail(err, GY_ENOMEM, "out of memory for KV pages");
        page->next = *list, *list = page;
    }
    return GY_OK;
}

static void drop_list(gy_kv_group *g, gy_page *list) {
    for (gy_page *next; list; list = next) next = list->next, gy_page_drop(g, list);
}

static void change(gy_kv *kv, int group, struct gy_seq *seq, int first, int coding, gy_page *list,
                   float *x) {
    gy_kv_group *g = &kv->group[group];
    gy_pages *p = &seq->group[group];
    for (int i = first; i < p->n; i++) {
        gy_page *old = p->at[i], *page = list;
        if (!old || old->coding == coding) continue;
        int rows = seq->len - i * GY_PAGE;
        list = page->next, page->next = NULL, page->refs = 1;
        if (rows > 0) recode(kv, group, old, page, rows < GY_PAGE ? rows : GY_PAGE, x);
        p->at[i] = page;
        if (old->refs > 1)
            gy_page_unref(g, old);
        else
            gy_page_drop(g, old); /* what a transition is for is the memory */
    }
}

static int widest(const gy_kv *kv) {
    int n = 1;
    for (int i = 0; i < kv->n_layers; i++) {
        if (!owns(kv, i)) continue;
        if (kv->spec[i].kdim > n) n = kv->spec[i].kdim;
        if (kv->spec[i].vdim > n) n = kv->spec[i].vdim;
    }
    return n;
}

gy_rc gy_kv_transition(gy_kv *kv, struct gy_seq *seq, int coding, int first, gy_err *err) {
    gy_page *list[GY_KV_GROUPS] = {0};
    int border = first / GY_PAGE;
    gy_rc rc = GY_OK;
    if (first < 0 || first % GY_PAGE)
        return gy_fail(err, GY_EARG, "KV codecs change at multiples of %d positions, not at %d",
                       GY_PAGE, first);
    if (seq->committed < seq->len)
        return gy_fail(err, GY_EARG, "drafts of the sequence wait to be settled");
    if (seq->replay) /* they were computed before, and must be again, with what is stored now */
        return gy_fail(err, GY_EARG, "%d tokens of the sequence wait to be fed again", seq->replay);
    /* From there on they are what is wanted. */
    if (coding == seq->coding && (border >= seq->border || coding == seq->early)) return GY_OK;
    /* Pages before the border keep one coding. */
    if (seq->border && border > seq->border && seq->early != seq->coding)
        return gy_fail(err, GY_EUNSUPPORTED,
                       "the first %d positions would have two choices of KV codecs", first);
    float *x = gy_alloc_n((size_t)widest(kv), sizeof *x);
    if (!x) return gy_fail(err, GY_ENOMEM, "out of memory for a row");
    for (int g = 0; g < kv->n_groups && !rc; g++)
        rc = take_pages(kv, &kv->group[g], &seq->group[g], border, coding, &list[g], err);
    for (int g = 0; g < kv->n_groups; g++) {
        if (rc)
            drop_list(&kv->group[g], list[g]);
        else
            change(kv, g, seq, border, coding, list[g], x);
    }
    gy_free(x);
    if (rc) return rc;
    if (seq->len > first) seq->reusable = seq->len;
    seq->early = border ? gy_seq_coding(seq, 0) : coding;
    seq->border = border, seq->coding = coding;
    return GY_OK;
}
