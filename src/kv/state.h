/* kv/state - what recurrent layers remember of a sequence: the third way of keeping, beside pages.
 *
 * A block is the state of every STATE layer after so many tokens of one sequence; with no tokens it
 * is all zero and has no block. A mark is a block and its position:
 *
 *     marks    [0..768) [0..896)   [0..959)   [0..960)    ascending; the last is at the
 *               256 k     64 k      base      len         sequence's len
 *     next     [0..961)                                   written by the running step
 *
 *     block:   layer a: conv [taps - 1][cols], scan [v_heads][vdim][kdim]   layer b: ...   f32
 *
 * A step reads the last mark and writes other blocks, so that what it found is still there after
 * it. Between steps are kept: len; base, where the drafts of the last step began, else where the
 * step itself began, so that withdrawing it costs nothing; and for each spacing of 64, 256 and 1024
 * positions the nearest mark at or below len. Going back to a position without a mark means going
 * back to the nearest before it and feeding the tokens between again (gy_seq.replay); at worst that
 * is the whole sequence.
 *
 * Blocks are refcounted and not changed once appended; a fork shares them. Thread: a pool and its
 * sequences belong to the engine's thread; kernels write different parts of one block at once.
 * Bits: a block is a function of the tokens before it, whatever steps led there. */
#ifndef GY_KV_STATE_H
#define GY_KV_STATE_H

#include "op/op.h"

enum {
    GY_STATE_LEVELS = 3,                   /* spacings of kept marks: 64 * 4^i */
    GY_STATE_MARKS = GY_STATE_LEVELS + 2,  /* most marks of a sequence between steps */
    GY_STATE_TARGETS = GY_STATE_LEVELS + 2 /* most marks that one step writes */
};

typedef struct gy_state_pool gy_state_pool;
typedef struct gy_state_block gy_state_block;
typedef struct {
    int pos; /* tokens that led to it */
    gy_state_block *block;
} gy_state_mark;

typedef struct { /* part of a gy_seq; all-zero is the state of no tokens */
    gy_state_mark mark[GY_STATE_MARKS + GY_STATE_TARGETS];
    int marks;
    gy_state_mark next[GY_STATE_TARGETS];
    int nexts, base;
} gy_state;

/* *pool is NULL when no layer keeps state; every function takes that for nothing to do. */
gy_rc gy_state_pool_new(const gy_kvspec *spec, int n_layers, gy_state_pool **pool, gy_err *err);
void gy_state_pool_free(gy_state_pool *pool); /* after its sequences */

/* Memory, for people who plan it: a sequence holds at most GY_STATE_MARKS blocks between steps, and
 * GY_STATE_TARGETS more while one runs. */
int64_t gy_state_block_bytes(const gy_state_pool *pool);
int64_t gy_state_held_bytes(const gy_state_pool *pool); /* taken from the system so far */

/* Takes the blocks that a step over positions [len, len + n) writes. base, in len..len + n, is the
 * position that is gone back to most likely: of the first draft, or of the first new token; -1: as
 * in the step before. On failure s is as it was. */
gy_rc gy_state_reserve(gy_state_pool *pool, gy_state *s, int len, int base, int n, gy_err *err);
/* The step has run: what it wrote becomes marks. */
void gy_state_append(gy_state_pool *pool, gy_state *s);
/* The position of the nearest mark at or below n; 0 is always one. */
int gy_state_back(const gy_state *s, int n);
/* Forgets marks beyond n. */
void gy_state_cut(gy_state_pool *pool, gy_state *s, int n);
/* to is all-zero. */
void gy_state_fork(const gy_state *from, gy_state *to);
static inline int gy_state_pos(const gy_state *s) {
    return s->marks ? s->mark[s->marks - 1].pos : 0;
}

/* For files: the bytes of a mark's block, [gy_state_block_bytes]. */
const void *gy_state_data(const gy_state_mark *mark);
/* Adds a mark at pos, behind all others, and returns its block to be filled; NULL when there are
 * GY_STATE_MARKS already or memory is out. */
void *gy_state_add(gy_state_pool *pool, gy_state *s, int pos);

/* For the prefix tree, which holds references of its own: the block of the mark at pos, or NULL; a
 * new block to be filled, or NULL; its bytes. A sequence begins, all-zero before, with a block. */
gy_state_block *gy_state_share(const gy_state *s, int pos);
gy_state_block *gy_state_block_new(gy_state_pool *pool);
void *gy_state_block_data(gy_state_block *block);
void gy_state_unshare(gy_state_pool *pool, gy_state_block *block);
void gy_state_begin(gy_state *s, int pos, gy_state_block *block);

/* ---- Inside a step ---- */

/* One layer's part of the blocks: the rows up to position end[0] begin with `from` and leave their
 * state in to[0], those up to end[1] go on from there to to[1], ... */
typedef struct {
    const float *from; /* NULL: all zero */
    int n, end[GY_STATE_TARGETS];
    float *to[GY_STATE_TARGETS];
} gy_state_way;
/* op: GY_OP_CONV or GY_OP_SCAN, whose part of the layer's state is meant. */
void gy_state_find(const gy_state_pool *pool, const gy_state *s, int layer, gy_opk op,
                   gy_state_way *way);

#endif
