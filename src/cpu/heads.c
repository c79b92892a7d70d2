/* cpu/heads - HEADS: every head of a row times a matrix of its own, in exact arithmetic.
 *
 *     in0:  head 0: [.. cols ..|copied] head 1: [.. cols ..|copied] ...     step apart
 *     out:  head 0: [ rows |copied]     head 1: [ rows |copied]     ...     to_step apart */
#include <string.h>

#include "cpu/cpu.h"

enum { ROW_BLOCK = 64 };

typedef struct {
    gy_cpu *cpu;
    const gy_op *op;
    int rows;
} job;

static void heads_range(void *arg, int i0, int i1, int worker) {
    const job *j = arg;
    const gy_op *op = j->op;
    int heads = op->u.heads.heads;
    ptrdiff_t ldx = j->cpu->ld[op->in[0]], ldy = j->cpu->ld[op->out];
    void *scratch = j->cpu->scratch + (size_t)worker * j->cpu->scratch_bytes;
    for (int i = i0; i < i1; i++) {
        int h = i % heads, r0 = i / heads * ROW_BLOCK;
        int rows = j->rows - r0 < ROW_BLOCK ? j->rows - r0 : ROW_BLOCK;
        const gy_weight *w = op->u.heads.w + h;
        const float *x = j->cpu->slot[op->in[0]] + r0 * ldx + h * op->u.heads.step;
        float *y = j->cpu->slot[op->out] + r0 * ldy + h * op->u.heads.to_step;
        j->cpu->isa->lin.exact(w, 0, w->file.rows, x, ldx, rows, y, ldy, scratch);
        for (int r = 0; r < rows && op->u.heads.copied; r++)
            memcpy(y + r * ldy + w->file.rows, x + r * ldx + w->file.cols,
                   (size_t)op->u.heads.copied * sizeof *y);
    }
}

void gy_cpu_heads_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    job j = {cpu, op, batch->rows};
    const gy_rows *m = &op->u.heads.w->file;
    int block = batch->rows < ROW_BLOCK ? batch->rows : ROW_BLOCK;
    gy_cpu_ranges(cpu, (batch->rows + ROW_BLOCK - 1) / ROW_BLOCK * op->u.heads.heads,
                  (int64_t)block * m->rows * m->cols / 8, heads_range, &j);
}
