/* run/prefix - pages that sequences leave behind for others: a tree of prefixes.
 *
 * A node is one full page of 64 tokens after one certain prefix, found by its chain digest; it
 * keeps that page of every group that was offered. Pages are immutable and shared, never copied: a
 * sequence that adopts a prefix refers to the tree's own pages.
 *
 *     root --[0..63]--> node --[64..127]--> node --[128..191]--> node     "... Paris is"
 *                                     \---[128..191']--> node             "... Rome is"
 *
 * A prefix can be adopted at the end of page k when every page that a sequence of that length needs
 * is there: all of them in groups that keep everything, the last ones in groups with a window, and
 * the state behind page k of recurrent layers, which is there where a sequence had a mark.
 *
 * Memory: pages in the tree count against `budget`, and against the store's bound only while a
 * sequence uses them. Beyond the budget the least recently used leaf goes first; what a sequence
 * uses stays. Owner: the tree refers to kv and must be freed before it. Thread: the engine's. Bits:
 * a page found by its digest (and by its tokens) holds what computing would give, so a hit changes
 * nothing but time. Every failure is a miss.
 *
 * Behind the tree there may be a folder of page files: what memory does not hold is looked for
 * there, and what it holds is written when asked, or when it leaves memory. */
#ifndef GY_RUN_PREFIX_H
#define GY_RUN_PREFIX_H

#include "kv/chain.h"
#include "kv/kv.h"
#include "kv/snap_store.h"

typedef struct gy_prefix gy_prefix;

/* budget in bytes, over all prefixes. */
gy_rc gy_prefix_new(gy_kv *kv, int64_t budget, gy_prefix **prefix, gy_err *err);
void gy_prefix_free(gy_prefix *prefix); /* NULL is fine; sequences keep the pages they use */

/* Gives the empty seq the longest held prefix of ids[n] that leaves at least one id to compute, and
 * returns its length: a multiple of GY_PAGE, 0 for a miss. root: gy_chain_root of the engine,
 * adapter and salt; prefixes under different roots never meet. */
int gy_prefix_adopt(gy_prefix *prefix, const gy_digest *root, struct gy_seq *seq,
                    const int32_t *ids, int n);

/* Keeps the committed full pages of seq that are not there yet. */
void gy_prefix_offer(gy_prefix *prefix, const gy_digest *root, const struct gy_seq *seq);

/* All are borrowed. kv_name: of the codecs, for the files' readers. */
void gy_prefix_attach(gy_prefix *prefix, gy_store *store, const gy_identity *id,
                      const char *kv_name);

/* Writes what the store does not have yet, ancestors first, and sweeps it: at most `most` pages
 * that are not known to be there; or with 0 all, where each file is looked for, its use is noted,
 * and on GY_OK all are durable. The least recently used pages that the store has no room for beside
 * the others are not written. *left, which may be NULL: pages that are still to be written. Stops
 * at the first failure. */
gy_rc gy_prefix_flush(gy_prefix *prefix, int most, int *left, gy_err *err);

typedef struct {
    int nodes;
    int64_t bytes, budget;
    uint64_t hits, misses, hit_tokens, evicted; /* adoptions; nodes */
    uint64_t read, lost; /* pages taken from the store; that left memory and are not in it */
} gy_prefix_stats;
void gy_prefix_get_stats(const gy_prefix *prefix, gy_prefix_stats *stats);

/* Aborts when counts, links or sums do not agree; for tests. */
void gy_prefix_check(const gy_prefix *prefix);

#endif
