/* kv/page - pages: taken from the system one by one, shared by counting, kept for reuse. See
 * impl.h. */
#include "kv/impl.h"

/* Gives back one waiting page of a coding that has more of them than needed. */
static bool shed(gy_kv_group *g, const int need[GY_KV_CODINGS]) {
    for (int f = 0; f < GY_KV_CODINGS; f++) {
        gy_page_pool *p = &g->pool[f];
        if (p->free <= need[f]) continue;
        gy_page *page = p->free_list;
        p->free_list = page->next, p->free--, g->free--;
        gy_page_drop(g, page);
        return true;
    }
    return false;
}

gy_page *gy_page_new(gy_kv_group *g, int coding) {
    gy_page *page = gy_alloc_aligned(GY_PAGE_HEAD + g->pool[coding].page_bytes);
    if (!page) return NULL;
    page->coding = (uint8_t)coding;
    g->pool[coding].held++, g->held++;
    return page;
}

void gy_page_drop(gy_kv_group *g, gy_page *page) {
    g->pool[page->coding].held--, g->held--;
    gy_free(page);
}

gy_rc gy_page_stock(gy_kv *kv, gy_kv_group *g, const int need[GY_KV_CODINGS], gy_err *err) {
    int sum = 0;
    for (int f = 0; f < GY_KV_CODINGS; f++) sum += need[f];
    if (sum > kv->max_pages - gy_group_in_use(g))
        return gy_fail(err, GY_ELIMIT, "KV memory is full: %lld positions are in use",
                       (long long)gy_group_in_use(g) * GY_PAGE);
    for (int f = 0; f < GY_KV_CODINGS; f++) {
        gy_page_pool *p = &g->pool[f];
        while (p->free < need[f]) {
            /* Waiting pages of other codings are memory too. */
            while (g->held - g->idle >= kv->max_pages && shed(g, need)) {
            }
            gy_page *page = gy_page_new(g, f);
            if (!page) return gy_fail(err, GY_ENOMEM, "out of memory for KV pages");
            page->next = p->free_list, p->free_list = page;
            p->free++, g->free++;
        }
    }
    return GY_OK;
}

gy_page *gy_page_pop(gy_kv_group *g, int coding) {
    gy_page_pool *p = &g->pool[coding];
    gy_page *page = p->free_list;
    GY_ASSERT(page);
    p->free_list = page->next, p->free--, g->free--;
    page->refs = 1, page->next = NULL;
    return page;
}

void gy_page_free_list(gy_kv_group *g) {
    for (int f = 0; f < GY_KV_CODINGS; f++)
        for (gy_page *page = g->pool[f].free_list, *next; page; page = next)
            next = page->next, gy_free(page);
}

void gy_page_unref(gy_kv_group *g, gy_page *page) {
    if (!page) return;
    if (--page->refs) {
        g->idle += page->refs == 1 && page->kept;
        return;
    }
    gy_page_pool *p = &g->pool[page->coding];
    page->next = p->free_list, p->free_list = page;
    p->free++, g->free++;
}

void gy_page_ref(gy_kv_group *g, gy_page *page) {
    g->idle -= page->refs == 1 && page->kept;
    page->refs++;
}

/* ---- Pages beside sequences ---- */

gy_rc gy_kv_page_take(gy_kv *kv, int group, gy_page **page, gy_err *err) {
    const int need[GY_KV_CODINGS] = {1};
    gy_rc rc = gy_page_stock(kv, &kv->group[group], need, err);
    if (!rc) *page = gy_page_pop(&kv->group[group], 0);
    return rc;
}

void gy_kv_page_unref(gy_kv *kv, int group, gy_page *page) {
    gy_page_unref(&kv->group[group], page);
}

void *gy_kv_page_data(gy_page *page) {
    return gy_page_bytes(page);
}

void gy_kv_page_keep(gy_kv *kv, int group, gy_page *page) {
    GY_ASSERT(!page->kept);
    gy_page_ref(&kv->group[group], page);
    page->kept = true;
}

void gy_kv_page_unkeep(gy_kv *kv, int group, gy_page *page) {
    GY_ASSERT(page->kept);
    kv->group[group].idle -= page->refs == 1;
    page->kept = false;
    gy_page_unref(&kv->group[group], page);
}

bool gy_kv_page_kept(const gy_page *page) {
    return page->kept;
}

bool gy_kv_page_idle(const gy_page *page) {
    return page->kept && page->refs == 1;
}
