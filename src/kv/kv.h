/* kv - the paged store, and the batch that fills it. No other cache exists.
 *
 * A page holds 64 positions [64 i, 64 i + 64), aligned to absolute position, of every layer of one
 * group; a group is the layers with an equal gy_keep. Within a page, planes are contiguous per
 * (layer, head, K or V):
 *
 *     page of group g    layer a: K head 0 [64 rows] K head 1 ... V head 0 [64 rows] ... layer b
 *     seq.group[g].at    [0] [1] [NULL: dropped by WINDOW] ... [n - 1]
 *     position p         row p % 64 of at[p / 64]
 *
 * Pages are refcounted; a fork shares them and the tail is copied before it is written. WINDOW
 * keeps window + GY_PAGE positions behind `committed` (whole pages), so that withdrawing rows never
 * needs a dropped page. Growing happens before a step (gy_kv_reserve); inside a step nothing fails.
 * Values are coded once, when put. Thread: a store and its sequences belong to the engine's thread;
 * kernels read and write rows of different positions at once. Bits: page bytes are a function of
 * (values, codec) only. */
#ifndef GY_KV_H
#define GY_KV_H

#include "kv/state.h"
#include "op/op.h"

typedef struct gy_kv gy_kv;
typedef struct gy_page gy_page;

enum { GY_KV_GROUPS = 8, GY_KV_CODINGS = 8 };
typedef struct {
    gy_page **at;
    int n, cap;
} gy_pages;

/* Pages that hold positions [0, len). */
static inline int gy_pages_for(int len) {
    return len / GY_PAGE + (len % GY_PAGE != 0);
}

struct gy_seq {
    int len;       /* positions held */
    int committed; /* rows >= committed may still be withdrawn; <= len */
    int replay;    /* tokens behind len that must be fed again before others: see gy_kv_trim */
    int32_t *tok;  /* [len + replay] */
    int tok_cap;
    gy_pages group[GY_KV_GROUPS];
    gy_state state; /* of STATE layers, at len */
    /* Choices of codecs (gy_kv_coding) in which pages are written: `early` for pages below border,
     * coding from there on. reusable: the sequence cannot be cut back to 1 .. reusable - 1. */
    int coding, early, border, reusable;
};

/* max_positions bounds page memory: so many positions, as whole pages, in each group of all
 * sequences. Memory is taken from the system lazily, page by page, and kept for reuse. spec is
 * copied. */
gy_rc gy_kv_new(const gy_kvspec *spec, int n_layers, int64_t max_positions, gy_kv **kv,
                gy_err *err);
void gy_kv_free(gy_kv *kv);
int64_t gy_kv_max_positions(const gy_kv *kv); /* the bound given, rounded up to whole pages */
int64_t gy_kv_token_bytes(const gy_kv *kv);   /* bytes of one position over all ALL layers */
int64_t gy_kv_held_bytes(const gy_kv *kv);    /* taken from the system so far */
/* Bytes that the store has taken when so many sequences have grown to len, by steps of at most
 * chunk rows and one after another, in the plan's codecs; with page tables, tokens and state. */
int64_t gy_kv_need(const gy_kv *kv, int len, int chunk, int sequences);
int gy_kv_layer_group(const gy_kv *kv, int layer);
gy_state_pool *gy_kv_state(const gy_kv *kv); /* NULL: no layer keeps state */

gy_rc gy_kv_seq_new(gy_kv *kv, struct gy_seq **seq, gy_err *err);
void gy_kv_seq_free(gy_kv *kv, struct gy_seq *seq);
gy_rc gy_kv_seq_fork(gy_kv *kv, const struct gy_seq *from, struct gy_seq **seq, gy_err *err);

/* Makes positions [len, len + n) writable: takes pages, copies a shared tail. GY_ELIMIT when the
 * bound is reached: the sequence is unchanged. */
gy_rc gy_kv_reserve(gy_kv *kv, struct gy_seq *seq, int n, gy_err *err);
/* The same for rows of which the last `drafts` may be withdrawn: going back to the first of them,
 * or to any, is then cheap for STATE layers too. */
gy_rc gy_kv_reserve_drafts(gy_kv *kv, struct gy_seq *seq, int n, int drafts, gy_err *err);
/* Gives back what was reserved and not appended to. */
void gy_kv_unreserve(gy_kv *kv, struct gy_seq *seq);
/* Appends n tokens whose rows have been put, and commits them; WINDOW groups drop what is out of
 * reach. */
void gy_kv_append(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n);
/* The same, but the last `drafts` of the n are not committed: gy_kv_settle decides on them. */
void gy_kv_append_drafts(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n, int drafts);
/* Ends a round: commits the first `keep` rows that are not, and withdraws the others. Nothing that
 * this could need was dropped: it fails only for a keep out of range, GY_EARG. */
gy_rc gy_kv_settle(gy_kv *kv, struct gy_seq *seq, int keep, gy_err *err);
/* Cuts the sequence to n <= len + replay tokens, of which none is a draft any more. With STATE
 * layers len goes back to the nearest mark at or below n, and the tokens tok[len .. n) wait in
 * replay: a step must begin with them. GY_ELIMIT when a WINDOW group no longer holds what position
 * len would see. */
gy_rc gy_kv_trim(gy_kv *kv, struct gy_seq *seq, int n, gy_err *err);

/* The 64 rows of one head of one page of the layer, or of its donor; value: V, else K. */
gy_rows gy_kv_page_rows(const gy_kv *kv, const struct gy_seq *seq, int layer, int page, int head,
                        bool value);

/* ---- Other codecs than the plan's (kv.md 4.5) ---- */

/* The number of a choice of codecs, [n_layers], of which layers that store rows of their own count;
 * 0 is the plan's. At most GY_KV_CODINGS in one store. */
gy_rc gy_kv_coding(gy_kv *kv, const gy_kvpair *layer, int *coding, gy_err *err);
/* From position `first` on, a multiple of GY_PAGE, seq is kept in a coding: what it holds is coded
 * anew, what will be appended is coded so when put. Only this sequence changes; pages that it
 * shares are left to the others. On failure nothing has changed, nor where that is the coding
 * already. Rows below seq->len were computed from the old codes: going back among them would give
 * other bits, so it is refused from then on. */
gy_rc gy_kv_transition(gy_kv *kv, struct gy_seq *seq, int coding, int first, gy_err *err);
/* Whether the V rows of seq come, or will come, both turned (gy_codec.turn) and not: then each
 * page's sum must be turned back by itself, else the sum of all of them is, once. A property of the
 * sequence, not of what it holds, so that bits do not depend on what a query happens to see. */
bool gy_kv_mixed(const gy_kv *kv, const struct gy_seq *seq, int layer);
/* Whether seq has pages that the plan's codecs did not make; such are not for others. */
static inline bool gy_kv_recoded(const struct gy_seq *seq) {
    return seq->coding || seq->early || seq->reusable;
}

/* ---- Pages beside sequences: the prefix tree keeps them, page files fill them ---- */

int gy_kv_groups(const gy_kv *kv);
size_t gy_kv_group_bytes(const gy_kv *kv, int group); /* of one page; 0: nothing is stored */
int64_t gy_kv_page_cost(const gy_kv *kv, int group);  /* the same with the page's head, or 0 */
/* Whether a sequence of len positions must hold page i of the group to go on. */
bool gy_kv_page_needed(const gy_kv *kv, int group, int len, int i);
/* A page with one reference, the caller's. */
gy_rc gy_kv_page_take(gy_kv *kv, int group, gy_page **page, gy_err *err);
void gy_kv_page_unref(gy_kv *kv, int group, gy_page *page);
void *gy_kv_page_data(gy_page *page); /* [gy_kv_group_bytes] */
/* Zeroes the rows from row `from` on in a copy of a page's bytes. */
void gy_kv_page_blank(const gy_kv *kv, int group, void *data, int from);
/* One keeper's reference. While it is the only one the page is idle, and does not count against the
 * bound. */
void gy_kv_page_keep(gy_kv *kv, int group, gy_page *page);
void gy_kv_page_unkeep(gy_kv *kv, int group, gy_page *page);
bool gy_kv_page_idle(const gy_page *page);
bool gy_kv_page_kept(const gy_page *page); /* by a keeper, of whom a page has at most one */
/* Makes the empty seq one of n committed positions: page i of group g is at[g][i], shared; NULL
 * where it is not held, which no needed one may be. tok[n + replay]. State is the caller's to add.
 * On failure seq is still empty. */
gy_rc gy_kv_seq_adopt(gy_kv *kv, struct gy_seq *seq, const int32_t *tok, int n, int replay,
                      gy_page *const *const at[GY_KV_GROUPS], gy_err *err);

/* ---- Batches: a flat list of rows, grouped in spans of one sequence ---- */

typedef struct {
    int seq, row0, n, pos0;
} gy_span;

typedef struct {
    int lo, hi;
    int end;
} gy_reach;

typedef struct gy_batch {
    int rows, spans, outs;
    const int32_t *tok, *pos, *of; /* [rows]; of = index into seq */
    const gy_span *span;           /* [spans] ascending row0 */
    const int32_t *out;            /* [outs] ascending rows whose logits are wanted */
    struct gy_seq *const *seq;     /* pages for pos0 .. pos0 + n - 1 are reserved */
    float *logits;                 /* [outs, vocab] */
    /* [rows] or NULL: positions [lo, hi) that a row sees besides what its layers' masks let it see,
     * of its image or other span seen both ways: lo <= pos < hi within the row's span of the batch
     * or before it; lo = hi: none. end > 0: the row sees no position from end on, of at least one
     * that it does see. A batch of a plan without KVPUT asks so of what others have written: the
     * query of a drafter, or a view of an earlier length. */
    const gy_reach *also;
    /* [rows] or NULL: f32 for every position that the row sees, added to its scores; -infinity
     * hides it, and a row that sees nothing gives 0; or NULL. */
    const float *const *bias;
} gy_batch;

#endif
