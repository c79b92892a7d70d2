/* cpu/linear - the dense products: LINEAR and LOGITS. The lane rules of both arithmetics are stated here.
 *
 * exact:  y[r][c] = tree(lane[0..15]); lane i takes k = i mod 16 in ascending k, lane = fma(x[r][k], w[c][k], lane), w the
 *         codec's exact f32 value. The 16-lane tree is that of cpu.h.
 * fast:   x[r] is coded once per row: per chunk of 32 columns d = amax / 127, q = rint(x * (127 / amax)) (0 when amax is 0),
 *         and the sums of q of each half chunk. For output column c, 8 lanes over chunks: lane j mod 8, in ascending j, takes
 *             one step per chunk:  lane = fma(s * d, (float)dot(code, q), lane);  lane = fma(z, d * (float)sum(q), lane)
 *             sub16: the same two lines for the first half, then for the second half
 *         where dot and sum are exact integers, and the line with z exists only for codecs with an offset. Then
 *         ((0+1)+(2+3))+((4+5)+(6+7)). The integer dot does not care how columns are permuted or interleaved, and lanes are
 *         chunks, not columns: a packed copy of 8 or 16 output columns side by side keeps 8 accumulators per vector.
 * Both:   + bias[c], one addition, if there is a bias. Weights without an integer form always run exact.
 * A result depends on (codec, cols, x[r], w[c]) only: never on tile, thread, number of rows or instruction set. */
#ifndef GY_CPU_LINEAR_H
#define GY_CPU_LINEAR_H

#include "op/op.h"

/* One coded activation row in one allocation: q[chunks * 32], d[chunks], sum[2 * chunks] as i32. */
typedef struct { int8_t *q; float *d; int32_t *sum; } gy_xrow;

typedef struct {
    void (*code)(const float *x, int cols, gy_xrow out); /* cols a multiple of 32 */
    /* y[r * ldy + c - c0] for c in [c0, c0 + n), r in [0, rows). scratch: gy_linear_scratch bytes, one per worker. */
    void (*exact)(const gy_weight *w, int c0, int n, const float *x, ptrdiff_t ldx, int rows, float *y, ptrdiff_t ldy,
                  void *scratch);
    void (*fast)(const gy_weight *w, int c0, int n, const gy_xrow *x, int rows, float *y, ptrdiff_t ldy, void *scratch);
} gy_isa_linear;

#endif
