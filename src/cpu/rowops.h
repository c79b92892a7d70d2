/* cpu/rowops - operators on single rows, the KV writer and attention; and the mathematics they use.
 *
 * A row operator reads one row and writes one row; elementwise ones may do so in place. No
 * alignment is required. Every function of every instruction set gives the same bits; see cpu.h for
 * the 16 lanes of sums.
 *
 *     norm   RMS:       y = (x * r) * w               r = 1 / sqrt(ss / n + eps), ss by lanes
 *            RMS_PLUS1: y = (x * r) * (1 + w)
 *            LAYER:     y = ((x - m) * r) * w + b     m = sum / n, r from the sum of (x - m)^2
 *     rope   (a, b) -> (fma(a, c, -(b s)), fma(a, s, b c)); c, s: cos and sin of the position
 *     add    y = fma(b, a, x) = x + a * b
 *
 * Attention (kv.md 5.6) of one query head over the positions that it sees: [lo, hi), and before
 * that perhaps a kept prefix:
 *
 *     page   of 64: s = scale * dot(q, k) by 16 lanes, then cap * tanh(s / cap), + bias; m = max s;
 *            w = e^(s - m); l = sum of w by 8 lanes (p mod 8);
 *            o = sum of w v, ascending p with fused multiply-add. V of affine and turbo codes is
 *            code x scale (+ bias): o = sum of (w scale) code, + sum of w bias by 8 lanes; but
 *            values where V is a view of K, and where a turn is taken back row by row.
 *            Where the prefix and [lo, hi) lie apart in one page they are two pages, the prefix
 *            first
 *     run    of 4 pages = 256 positions: pages joined in ascending order
 *     query  runs joined in ascending order, then the sink (its logit, 1, 0), then o * (1 / l)
 *     join   of (M, L, O) and (m, l, o): N = max(M, m), a = e^(M - N), b = e^(m - N) gives
 *            (N, fma(l, b, L a), fma(o, b, O a)); the start is (-infinity, 0, 0), and stays where a
 *            bias of -infinity hides all: such a query gives 0
 *
 * Pages and runs lie at absolute positions, and positions that are not visible are never read into
 * a sum: the result is a function of (q, coded K and V that it sees) only. A run is what threads
 * may share out when there are few queries. */
#ifndef GY_CPU_ROWOPS_H
#define GY_CPU_ROWOPS_H

#include "kv/kv.h"
#include "op/op.h"

enum { GY_ATTN_RUN = 4 * GY_PAGE };                /* positions */
enum { GY_ATTN_BLOCK = 4, GY_ATTN_QUERIES = 128 }; /* queries; most of attn_queries */

typedef struct {
    int window, chunk, kept; /* as in gy_op.u.attn */
} gy_attn_mask;

/* The positions that a query sees: [0, kept) and [lo, hi). kept is 0 when the two meet. */
typedef struct {
    int kept, lo, hi;
} gy_attn_sight;

/* also: what the row sees besides, or NULL. */
static inline gy_attn_sight gy_attn_see(gy_attn_mask m, int pos, const gy_reach *also) {
    gy_attn_sight s = {.kept = m.kept, .lo = 0, .hi = pos + 1};
    int near = m.window - m.kept; /* positions of the window, the query's own among them */
    if (m.window && pos >= near) s.lo = pos - near + 1;
    if (m.chunk && pos / m.chunk * m.chunk > s.lo) s.lo = pos / m.chunk * m.chunk;
    if (also && also->lo < also->hi) {
        if (also->lo < s.lo) s.lo = also->lo;
        if (also->hi > s.hi) s.hi = also->hi;
    }
    if (also && also->end) {
        if (also->end < s.hi) s.hi = also->end;
        if (s.kept > s.hi) s.kept = s.hi;
    }
    if (s.kept >= s.lo) s.lo = s.kept ? 0 : s.lo, s.kept = 0;
    return s;
}

/* Runs in the order in which they are joined: 0 .. kept - 1, then r0 .. r1 - 1; kept <= r0. */
typedef struct {
    int kept, r0, r1;
} gy_attn_runs;
static inline gy_attn_runs gy_attn_runs_of(gy_attn_sight s) {
    gy_attn_runs r = {.kept = (s.kept + GY_ATTN_RUN - 1) / GY_ATTN_RUN,
                      .r0 = s.lo / GY_ATTN_RUN,
                      .r1 = (s.hi - 1) / GY_ATTN_RUN + 1};
    if (r.kept > r.r0) r.kept = r.r0;
    return r;
}
static inline int gy_attn_runs_count(gy_attn_runs r) {
    return r.kept + r.r1 - r.r0;
}
static inline int gy_attn_run_at(gy_attn_runs r, int i) {
    return i < r.kept ? i : r.r0 + i - r.kept;
}

/* Queries of one KV head: rows x heads, positions pos0 .. pos0 + rows - 1, in the given runs. */
typedef struct {
    const gy_kv *kv;
    const struct gy_seq *seq;
    int layer, kv_head;
    const float *q; /* first row's first head; heads kdim apart */
    ptrdiff_t ldq;  /* floats from row to row */
    int rows, heads, pos0;
    int kdim, vdim;
    gy_attn_mask mask;
    const gy_reach *also;     /* [rows] or NULL, as in gy_batch */
    const float *const *bias; /* [rows] or NULL, as in gy_batch */
    float scale, cap;         /* cap 0: none */
    gy_attn_runs runs;
    float *part;        /* [runs][rows * heads][vdim + 2]: o, m, l of each run; NULL: write out */
    const float *sinks; /* [heads] or NULL */
    float *out;         /* first row's first head, vdim apart; unused with part */
    ptrdiff_t ldo;
    void *scratch; /* gy_attn_scratch(rows * heads, kdim, vdim) bytes, 64-byte aligned */
} gy_attn;

size_t gy_attn_scratch(int queries, int kdim, int vdim);

typedef struct {
    void (*exp)(const float *x, float *y, int n);
    void (*tanh)(const float *x, float *y, int n);
    void (*erf)(const float *x, float *y, int n);
    /* w: [n] or NULL for ones; b: [n] or NULL. */
    void (*norm)(const float *x, float *y, const float *w, const float *b, int n, float eps,
                 gy_norm_form form);
    /* c, s: [rot / 2]. */
    void (*rope)(float *x, const float *c, const float *s, int rot, bool pairs);
    /* up: [n] or NULL. */
    void (*act)(const float *x, const float *up, float *y, int n, gy_act_form form);
    void (*add)(const float *x, const float *b, float *y, int n, float a);
    void (*scale)(float *y, int n, float a);
    /* y = cap * tanh(a * y / cap); cap 0: a * y. */
    void (*finish)(float *y, int n, float a, float cap);
    /* Codes x[cols] into a row of a page; returns how many values the codec cannot hold. */
    int (*kv_put)(const gy_rows *m, int row, const float *x);
    /* Rows [r0, r1) as f32 to x[r][cols], d floats apart, turned where the codec stores them so. */
    void (*kv_rows)(const gy_rows *m, int r0, int r1, float *x, int d);
    void (*attn)(const gy_attn *a);
    int attn_queries; /* rows x heads that suit one call: a page is decoded once for all of them */
    /* Joins what attn left in parts: part[runs][rows * heads][vdim + 2]. */
    void (*attn_join)(const gy_attn *a, const float *part);
} gy_isa_rows;

#endif
