/* cpu/linear - the dense products: LINEAR and LOGITS. Both arithmetics' lane rules are stated here.
 *
 * exact:  y[r][c] = tree(lane[0..15]), the tree of cpu.h. Lane i takes k = i mod 16 in ascending k:
 *             lane = fma(x[r][k], w[c][k], lane)
 *         w is the codec's exact f32 value; k past the end, up to a multiple of 16, count as 0.
 *
 * fast:   x[r] is coded once per row: per chunk of 32 columns
 *             d = amax / 127,  q = rint(x * (127 / amax)) (0 when amax is 0),
 *         and the sums of q of each half chunk. For output column c, 8 lanes over chunks: lane
 *         j mod 8, in ascending j, takes one step per chunk:
 *             lane = fma(s * d, (float)dot(code, q), lane)
 *             lane = fma(z, d * (float)sum(q), lane)           only codecs with an offset
 *         sub16: the same lines for the first half of the chunk, then for the second. dot and sum
 *         are exact integers. Then ((0+1)+(2+3))+((4+5)+(6+7)).
 *         The integer dot does not care how columns are permuted or interleaved, and lanes are
 *         chunks, not columns: 8 or 16 output columns side by side keep 8 accumulators per vector.
 *         x not finite: amax is the largest |x| as an integer, so a NaN wins; q is clamped to
 *         -127..127 and is 0 where the product is a NaN; d carries the infinity or NaN on.
 *
 * Both:   + bias[c], one addition, if there is a bias. LOGITS: * a unless a is 1, then
 *         cap * tanh(y / cap) unless cap is 0.
 *
 * Weights without an integer form, or with cols not a multiple of 32, always run exact. A result
 * depends on (codec, cols, x[r], w[c]) only: not on tile, thread, number of rows, instruction set.
 *
 * Equal bits between formats in fast (codec/int.c): Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K and their
 * exact MLX affine g32 conversions with f32 scales; MXFP4 in MLX and GGUF layout (scale byte 255
 * apart). Hence Q4_0 and Q5_0 have unsigned codes and z = -8 d, -16 d: one fma per 8 chunks, where
 * signed codes would need an integer correction. And 8-bit affine codes are taken less 128, with
 * z + 128 s: the z of a converted Q8_0 is then 0, and the sums stay small.
 *
 *     op -> items: (rows r0..r1) x (columns c0..c1 of one weight)
 *        -> isa->fast or isa->exact into y -> bias, scale, cap
 *
 * Owner: the caller owns all memory; nothing here allocates. Thread: a run is the engine thread's;
 * items run on the pool. */
#ifndef GY_CPU_LINEAR_H
#define GY_CPU_LINEAR_H

#include "base/pool.h"
#include "op/op.h"

/* One coded activation row in one allocation. P is the number of chunks rounded up to 8; entries
 * past the last chunk are 0. The rest after sum is derived from the first three; which orders of q
 * exist is the instruction set's matter. */
typedef struct {
    int8_t *q;           /* [32 P] in column order */
    float *d;            /* [P] */
    int32_t *sum;        /* [2 P] of each half chunk */
    float *ds, *dh[2];   /* [P] d * (float)sum of the chunk, of its first and of its second half */
    int32_t *sums[3];    /* [P] sums of chunk, first halves, second halves */
    int8_t *pair, *even; /* [32 P] two chunks side by side: first 16 | second 16 columns; even | odd
                            columns */
} gy_xrow;

typedef struct {
    void (*code)(const float *x, int cols, gy_xrow out); /* cols a multiple of 32 */
    /* y[r * ldy + c - c0] for c in [c0, c0 + n), r in [0, rows). scratch: gy_linear_scratch bytes,
     * one per worker. */
    void (*exact)(const gy_weight *w, int c0, int n, const float *x, ptrdiff_t ldx, int rows,
                  float *y, ptrdiff_t ldy, void *scratch);
    void (*fast)(const gy_weight *w, int c0, int n, const gy_xrow *x, int rows, float *y,
                 ptrdiff_t ldy, void *scratch);
} gy_isa_linear;

/* cols below: at least the largest in0 of any LINEAR or LOGITS of the plan. All memory 64-byte
 * aligned. */
size_t gy_linear_scratch(int cols);         /* bytes of one worker; a multiple of 64 */
size_t gy_linear_coded(int rows, int cols); /* bytes for the coded rows of one op */
gy_xrow gy_linear_xrow(void *mem,
                       int cols); /* the parts of one row of gy_linear_coded(1, cols) bytes */

/* True when the weight runs by the fast rule under GY_BE_FAST. */
bool gy_linear_is_coded(const gy_rows *m);

typedef struct {
    gy_pool *pool;
    const gy_isa_linear *isa;
    gy_be_arith arith;
    void *scratch;        /* [threads][scratch_bytes] */
    size_t scratch_bytes; /* gy_linear_scratch(cols) */
    void *coded;          /* gy_linear_coded(rows, cols); unused when arith is exact */
    /* y = cap(a * y) for n logits, from the row operators' mathematics; cap 0: none. */
    void (*finish)(float *y, int n, float a, float cap);
} gy_linear_env;

/* y[rows][ldy] = the op's outputs, those of w[0], w[1], w[2] side by side, from x[rows][ldx]. */
void gy_linear_run(const gy_linear_env *env, const gy_op *op, const float *x, ptrdiff_t ldx,
                   int rows, float *y, ptrdiff_t ldy);

#endif
