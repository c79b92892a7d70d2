/* kv/need - how much memory a store will have taken, before it takes any. See gy_kv_need. */
#include "kv/impl.h"

/* Pages of a group that a sequence of `committed` positions has dropped for good. */
static int dropped(const gy_kv_group *g, int committed) {
    if (g->keep.policy != GY_KEEP_WINDOW || g->keep.window >= committed - GY_PAGE) return 0;
    int end = (committed - GY_PAGE - g->keep.window) / GY_PAGE;
    int first = gy_pages_for(g->keep.sinks > 0 ? g->keep.sinks : 0);
    return end > first ? end - first : 0;
}

/* Most pages that one sequence holds on its way to len in steps of `chunk`: a step's pages are
 * taken before those that it pushes out of a window are dropped. */
static int64_t most(const gy_kv_group *g, int len, int chunk) {
    int64_t pages = 0;
    for (int64_t c = 0; c < len; c += chunk) {
        int64_t end = c + chunk < len ? c + chunk : len,
                n = gy_pages_for((int)end) - dropped(g, (int)c);
        if (n > pages) pages = n;
    }
    return pages;
}

int64_t gy_kv_need(const gy_kv *kv, int len, int chunk, int sequences) {
    int64_t bytes = 0, tables = 0;
    if (len < 1) return 0;
    for (int i = 0; i < kv->n_groups; i++) {
        const gy_kv_group *g = &kv->group[i];
        if (!g->stored) continue;
        /* All of them one token before the end, or the last one still in its prompt. */
        int64_t decode = (gy_pages_for(len) - dropped(g, len - 1)) * (int64_t)sequences;
        int64_t fill =
            (gy_pages_for(len) - dropped(g, len)) * (int64_t)(sequences - 1) + most(g, len, chunk);
        bytes += (decode > fill ? decode : fill) * (int64_t)(g->pool[0].page_bytes + GY_PAGE_HEAD);
        tables += gy_pages_for(len) * (int64_t)sizeof(gy_page *);
    }
    tables += len * (int64_t)sizeof(int32_t);
    /* Between steps a sequence holds its marks; a step of all writes one more each, or several for
     * one that is in its prompt. */
    int64_t blocks = (GY_STATE_MARKS + 1) * (int64_t)sequences + GY_STATE_TARGETS - 1;
    return bytes + tables * sequences + blocks * gy_state_block_bytes(kv->state);
}
