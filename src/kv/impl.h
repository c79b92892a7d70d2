/* kv/impl - what the files of the store share: pages, pools, layouts.
 *
 *     store -> group (layers of one keep) -> pool per coding -> pages
 *     layer -> place -> layout per coding: where its rows lie inside a page
 *
 * A coding is one choice of codecs for all layers; 0 is the plan's. A page has one coding from the
 * day it is taken, and a pool holds pages of one, for others have other sizes.
 *
 * Included only by kv/kv.c, kv/page.c and kv/coding.c. Thread: the store's. */
#ifndef GY_KV_IMPL_H
#define GY_KV_IMPL_H

#include "base/mem.h"
#include "kv/kv.h"

/* Head and data are one allocation; data begins GY_PAGE_HEAD bytes in, so that planes stay 64-byte
 * aligned. */
struct gy_page {
    int refs;  /* sequences that hold it, and its keeper; 0 while it waits in the free list */
    bool kept; /* one of refs is a keeper's */
    uint8_t coding;
    gy_page *next; /* free list */
};
enum { GY_PAGE_HEAD = 64 };

typedef struct {
    size_t page_bytes;  /* of data */
    int held, free;     /* pages taken from the system; of these, waiting in the list */
    gy_page *free_list; /* [free] */
} gy_page_pool;

typedef struct {
    gy_keep keep;
    gy_page_pool pool[GY_KV_CODINGS];
    int held, free; /* over all codings */
    int idle;       /* pages that only a keeper refers to: outside the bound */
    bool stored;    /* any layer stores here */
} gy_kv_group;

/* index 0: K, 1: V. */
typedef struct {
    gy_cparm c[2];
    size_t at[2];         /* first byte of head 0 in a page */
    size_t head_bytes[2]; /* 64 rows of one head, all planes */
    size_t step[2][3];    /* bytes of one row in each plane */
} gy_kv_layout;

typedef struct {
    int group;
    int owner; /* layer whose rows are read: the donor, or itself */
    gy_kv_layout coding[GY_KV_CODINGS];
} gy_kv_place;

struct gy_kv {
    gy_kvspec *spec;    /* [n_layers] */
    gy_kv_place *layer; /* [n_layers] */
    int n_layers, n_codings;
    gy_kv_group group[GY_KV_GROUPS];
    int n_groups;
    int max_pages; /* of each group */
    gy_state_pool *state;
    int64_t token_bytes;
};

static inline uint8_t *gy_page_bytes(gy_page *page) {
    return (uint8_t *)page + GY_PAGE_HEAD;
}
static inline int gy_group_in_use(const gy_kv_group *g) {
    return g->held - g->free - g->idle;
}
/* The coding in which the sequence writes page i. */
static inline int gy_seq_coding(const struct gy_seq *seq, int i) {
    return i < seq->border ? seq->early : seq->coding;
}

/* ---- page.c ---- */

/* Puts pages into the free lists until they hold need[coding]; GY_ELIMIT beyond the bound. */
gy_rc gy_page_stock(gy_kv *kv, gy_kv_group *g, const int need[GY_KV_CODINGS], gy_err *err);
gy_page *gy_page_pop(gy_kv_group *g, int coding); /* stocked before */
/* A page from the system, outside the free lists and the bound's check. NULL: no memory. */
gy_page *gy_page_new(gy_kv_group *g, int coding);
/* Gives a page without references, in no list, back to the system. */
void gy_page_drop(gy_kv_group *g, gy_page *page);
void gy_page_free_list(gy_kv_group *g);
void gy_page_ref(gy_kv_group *g, gy_page *page);
void gy_page_unref(gy_kv_group *g, gy_page *page); /* NULL is fine */

/* ---- coding.c ---- */

/* Where the rows of layer i, which stores, lie in pages of a coding; lengthens these pages. */
gy_rc gy_coding_layout(gy_kv *kv, int i, int coding, gy_kvpair c, gy_err *err);
/* The rows of one head of a page of the coding. */
gy_rows gy_coding_rows(const gy_kv *kv, int layer, gy_page *page, int head, bool value);

#endif
