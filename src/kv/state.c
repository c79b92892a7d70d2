/* kv/state - see state.h. */
#include "kv/state.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"

struct gy_state_block {
    int refs;
    gy_state_block *next; /* free list */
};
enum { BLOCK_HEAD = 64 }; /* keeps the floats behind it aligned */

struct gy_state_pool {
    size_t floats; /* of a block */
    size_t *at;    /* [n_layers][2] first float of the layer's conv and scan */
    int64_t held;  /* blocks taken from the system */
    gy_state_block *free_list;
};

static size_t whole_lines(int64_t floats) {
    return ((size_t)floats + 15) / 16 * 16;
}

gy_rc gy_state_pool_new(const gy_kvspec *spec, int n_layers, gy_state_pool **out, gy_err *err) {
    bool any = false;
    for (int i = 0; i < n_layers; i++) any |= spec[i].keep.policy == GY_KEEP_STATE;
    if (!any) return *out = NULL, GY_OK;
    gy_state_pool *pool = gy_alloc(sizeof *pool);
    if (pool) pool->at = gy_alloc_n((size_t)n_layers * 2, sizeof *pool->at);
    if (!pool || !pool->at) {
        gy_free(pool);
        return gy_fail(err, GY_ENOMEM, "out of memory for recurrent state");
    }
    for (int i = 0; i < n_layers; i++) {
        if (spec[i].keep.policy != GY_KEEP_STATE) continue;
        GY_ASSERT(spec[i].conv >= 0 && spec[i].scan >= 0);
        pool->at[2 * i] = pool->floats, pool->floats += whole_lines(spec[i].conv);
        pool->at[2 * i + 1] = pool->floats, pool->floats += whole_lines(spec[i].scan);
    }
    return *out = pool, GY_OK;
}

void gy_state_pool_free(gy_state_pool *pool) {
    if (!pool) return;
    for (gy_state_block *b = pool->free_list, *next; b; b = next) next = b->next, gy_free(b);
    gy_free(pool->at);
    gy_free(pool);
}

int64_t gy_state_block_bytes(const gy_state_pool *pool) {
    return pool ? (int64_t)(pool->floats * sizeof(float)) : 0;
}

int64_t gy_state_held_bytes(const gy_state_pool *pool) {
    return pool ? pool->held * (int64_t)(BLOCK_HEAD + pool->floats * sizeof(float)) : 0;
}

static gy_state_block *block_take(gy_state_pool *pool) {
    gy_state_block *b = pool->free_list;
    if (b)
        pool->free_list = b->next;
    else if ((b = gy_alloc_aligned(BLOCK_HEAD + pool->floats * sizeof(float))))
        pool->held++;
    if (b) b->refs = 1, b->next = NULL;
    return b;
}

static void block_unref(gy_state_pool *pool, gy_state_block *b) {
    if (--b->refs) return;
    b->next = pool->free_list, pool->free_list = b;
}

static float *floats(const gy_state_block *b) {
    return (float *)((char *)b + BLOCK_HEAD);
}

/* ---- Marks ---- */

static int spacing(int level) {
    return GY_PAGE << 2 * level;
}

static bool aligned_mark(int pos, int len) {
    for (int i = 0; i < GY_STATE_LEVELS; i++)
        if (pos == len / spacing(i) * spacing(i)) return true;
    return false;
}

static void drop_next(gy_state_pool *pool, gy_state *s) {
    while (s->nexts) block_unref(pool, s->next[--s->nexts].block);
}

/* Inserts pos into the ascending list at[n] unless it is there. */
static int add_pos(int *at, int n, int pos) {
    int i = n;
    while (i && at[i - 1] >= pos) i--;
    if (i < n && at[i] == pos) return n;
    memmove(at + i + 1, at + i, (size_t)(n - i) * sizeof *at);
    at[i] = pos;
    return n + 1;
}

gy_rc gy_state_reserve(gy_state_pool *pool, gy_state *s, int len, int base, int n, gy_err *err) {
    int at[GY_STATE_TARGETS + 1], targets = 0, end = len + n;
    if (!pool || n == 0) return GY_OK;
    GY_ASSERT(gy_state_pos(s) == len && n <= INT_MAX - len && base <= end &&
              (base < 0 || base >= len));
    drop_next(pool, s); /* of a step that did not come to its end */
    targets = add_pos(at, targets, end);
    if (base > len) targets = add_pos(at, targets, base);
    for (int i = 0; i < GY_STATE_LEVELS; i++) {
        int pos = end / spacing(i) * spacing(i);
        if (pos > len) targets = add_pos(at, targets, pos);
    }
    GY_ASSERT(targets <= GY_STATE_TARGETS);
    for (int i = 0; i < targets; i++) {
        gy_state_block *b = block_take(pool);
        if (!b) {
            drop_next(pool, s);
            return gy_fail(err, GY_ENOMEM, "out of memory for recurrent state");
        }
        s->next[s->nexts++] = (gy_state_mark){at[i], b};
    }
    if (base >= 0) s->base = base;
    return GY_OK;
}

void gy_state_append(gy_state_pool *pool, gy_state *s) {
    if (!pool || !s->nexts) return;
    memcpy(s->mark + s->marks, s->next, (size_t)s->nexts * sizeof *s->mark);
    s->marks += s->nexts, s->nexts = 0;
    int len = gy_state_pos(s), kept = 0;
    for (int i = 0; i < s->marks; i++) {
        int pos = s->mark[i].pos;
        if (pos == len || pos == s->base || aligned_mark(pos, len))
            s->mark[kept++] = s->mark[i];
        else
            block_unref(pool, s->mark[i].block);
    }
    s->marks = kept;
    GY_ASSERT(kept <= GY_STATE_MARKS);
}

int gy_state_back(const gy_state *s, int n) {
    int i = s->marks;
    while (i && s->mark[i - 1].pos > n) i--;
    return i ? s->mark[i - 1].pos : 0;
}

void gy_state_cut(gy_state_pool *pool, gy_state *s, int n) {
    if (!pool) return;
    drop_next(pool, s);
    while (s->marks && s->mark[s->marks - 1].pos > n) block_unref(pool, s->mark[--s->marks].block);
}

void gy_state_fork(const gy_state *from, gy_state *to) {
    for (int i = 0; i < from->marks; i++) {
        from->mark[i].block->refs++;
        to->mark[i] = from->mark[i];
    }
    to->marks = from->marks;
}

const void *gy_state_data(const gy_state_mark *mark) {
    return floats(mark->block);
}

void *gy_state_add(gy_state_pool *pool, gy_state *s, int pos) {
    GY_ASSERT(pos > gy_state_pos(s));
    gy_state_block *b = s->marks < GY_STATE_MARKS ? block_take(pool) : NULL;
    if (!b) return NULL;
    s->mark[s->marks++] = (gy_state_mark){pos, b};
    return floats(b);
}

gy_state_block *gy_state_share(const gy_state *s, int pos) {
    for (int i = 0; i < s->marks; i++)
        if (s->mark[i].pos == pos) return s->mark[i].block->refs++, s->mark[i].block;
    return NULL;
}

gy_state_block *gy_state_block_new(gy_state_pool *pool) {
    return block_take(pool);
}

void *gy_state_block_data(gy_state_block *block) {
    return floats(block);
}

void gy_state_unshare(gy_state_pool *pool, gy_state_block *block) {
    block_unref(pool, block);
}

void gy_state_begin(gy_state *s, int pos, gy_state_block *block) {
    GY_ASSERT(!s->marks);
    block->refs++;
    s->mark[s->marks++] = (gy_state_mark){pos, block};
}

void gy_state_find(const gy_state_pool *pool, const gy_state *s, int layer, gy_opk op,
                   gy_state_way *way) {
    size_t at = pool->at[2 * layer + (op == GY_OP_SCAN)];
    GY_ASSERT(s->nexts > 0);
    way->from = s->marks ? floats(s->mark[s->marks - 1].block) + at : NULL;
    way->n = s->nexts;
    for (int i = 0; i < s->nexts; i++)
        way->end[i] = s->next[i].pos, way->to[i] = floats(s->next[i].block) + at;
}
