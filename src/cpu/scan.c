/* cpu/scan - drivers of the operators of recurrent layers: CONV, SCAN, GATE, REGROUP.
 *
 * Columns (CONV) and heads (SCAN) of a span are independent; each is walked by one thread in the
 * order of positions, and its state is left wherever a mark of the sequence wants it. */
#include "cpu/scan.h"

#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

typedef struct {
    gy_cpu *cpu;
    const gy_op *op;
    const gy_batch *batch;
} job;

enum { CONV_BLOCK = 256 }; /* columns of one item */

static float *row_at(const gy_cpu *cpu, int slot, int r) {
    return cpu->slot[slot] + r * cpu->ld[slot];
}

static void find(const job *j, const gy_span *span, gy_state_way *way) {
    gy_state_find(gy_kv_state(j->cpu->kv), &j->batch->seq[span->seq]->state, j->op->layer,
                  j->op->kind, way);
    GY_ASSERT(way->end[way->n - 1] == span->pos0 + span->n);
}

/* ---- CONV ---- */

static void conv_range(void *arg, int i0, int i1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int cols = op->u.conv.cols, blocks = (cols + CONV_BLOCK - 1) / CONV_BLOCK;
    for (int i = i0; i < i1; i++) {
        const gy_span *span = j->batch->span + i / blocks;
        int col = i % blocks * CONV_BLOCK, done = 0;
        gy_state_way way;
        find(j, span, &way);
        gy_conv c = {.ld = j->cpu->ld[op->out],
                     .cols = cols - col < CONV_BLOCK ? cols - col : CONV_BLOCK,
                     .taps = op->u.conv.taps,
                     .w = op->u.conv.w + col,
                     .from = way.from ? way.from + col : NULL,
                     .ldw = cols};
        for (int k = 0; k < way.n; k++) {
            c.x = row_at(j->cpu, op->out, span->row0 + done) + col;
            c.rows = way.end[k] - span->pos0 - done, c.to = way.to[k] + col;
            j->cpu->isa->scan.conv(&c);
            done += c.rows, c.from = c.to;
        }
    }
}

/* ---- SCAN ---- */

/* Unit keys and queries, and what the gates mean, in place. */
static void scan_prepare(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int kd = op->u.scan.kdim, kh = op->u.scan.k_heads, vh = op->u.scan.v_heads;
    float readout = (float)(1 / sqrt(kd));
    for (int r = r0; r < r1; r++) {
        float *q = row_at(j->cpu, op->in[0], r), *g = row_at(j->cpu, op->in[1], r);
        for (int h = 0; h < 2 * kh; h++)
            j->cpu->isa->scan.unit(q + h * kd, kd, 1e-6f, h < kh ? readout : 1);
        j->cpu->isa->scan.gates(g, g + vh, op->u.scan.dt_bias, op->u.scan.rate, vh);
    }
}

static void scan_range(void *arg, int i0, int i1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int kd = op->u.scan.kdim, vd = op->u.scan.vdim, kh = op->u.scan.k_heads,
        vh = op->u.scan.v_heads;
    for (int i = i0; i < i1; i++) {
        const gy_span *span = j->batch->span + i / vh;
        int h = i % vh, key = (int)((int64_t)h * kh / vh), done = 0;
        ptrdiff_t matrix = (ptrdiff_t)h * vd * kd;
        gy_state_way way;
        find(j, span, &way);
        gy_scan s = {.ld = j->cpu->ld[op->in[0]],
                     .ldg = j->cpu->ld[op->in[1]],
                     .ldo = j->cpu->ld[op->out],
                     .kdim = kd,
                     .vdim = vd,
                     .from = way.from ? way.from + matrix : NULL};
        for (int k = 0; k < way.n; k++) {
            const float *x = row_at(j->cpu, op->in[0], span->row0 + done);
            s.q = x + key * kd, s.k = x + (kh + key) * kd, s.v = x + 2 * kh * kd + h * vd;
            s.beta = row_at(j->cpu, op->in[1], span->row0 + done) + h, s.decay = s.beta + vh;
            s.out = row_at(j->cpu, op->out, span->row0 + done) + h * vd;
            s.rows = way.end[k] - span->pos0 - done, s.to = way.to[k] + matrix;
            j->cpu->isa->scan.scan(&s);
            done += s.rows, s.from = s.to;
        }
    }
}

/* ---- GATE, REGROUP ---- */

static void gate_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    const float *w = op->w[0] ? op->w[0]->file.plane[0] : NULL; /* bound as f32 */
    int n = op->u.gate.dim;
    for (int r = r0; r < r1; r++) {
        const float *x = row_at(j->cpu, op->in[0], r),
                    *g = row_at(j->cpu, op->in[1], r) + op->u.gate.col;
        float *y = row_at(j->cpu, op->out, r);
        if (op->u.gate.form == GY_GATE_SIGMOID_ALL) {
            float one = 1, s;
            for (int h = 0; h < op->u.gate.heads; h++, x += n, y += n) {
                j->cpu->isa->scan.gate(&one, g + h, NULL, &s, 1, 0, GY_GATE_SIGMOID);
                memmove(y, x, (size_t)n * sizeof *y);
                j->cpu->isa->row.scale(y, n, s);
            }
            continue;
        }
        for (int h = 0; h < op->u.gate.heads; h++, x += n, g += n, y += n)
            j->cpu->isa->scan.gate(x, g, w, y, n, op->u.gate.eps, op->u.gate.form);
    }
}

static void regroup_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    for (int r = r0; r < r1; r++) {
        const float *x = row_at(j->cpu, op->in[0], r);
        float *y = row_at(j->cpu, op->out, r);
        for (int g = 0; g < op->u.regroup.groups; g++)
            for (int i = 0; i < op->u.regroup.n; x += op->u.regroup.width[i++])
                memcpy(y + op->u.regroup.to[i] + g * op->u.regroup.width[i], x,
                       (size_t)op->u.regroup.width[i] * sizeof *y);
        if (op->u.regroup.rest_cols)
            memcpy(y + op->u.regroup.rest, x, (size_t)op->u.regroup.rest_cols * sizeof *y);
    }
}

void gy_cpu_scan_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    job j = {.cpu = cpu, .op = op, .batch = batch};
    int cols = op->u.conv.cols, heads = op->u.scan.v_heads;
    int mean = batch->spans ? (batch->rows + batch->spans - 1) / batch->spans : 0; /* rows a span */
    switch ((gy_opk)op->kind) {
    case GY_OP_CONV:
        gy_cpu_ranges(cpu, batch->spans * ((cols + CONV_BLOCK - 1) / CONV_BLOCK),
                      (int64_t)mean * 8 * (cols < CONV_BLOCK ? cols : CONV_BLOCK), conv_range, &j);
        break;
    case GY_OP_SCAN:
        gy_cpu_ranges(cpu, batch->rows,
                      2 * (int64_t)op->u.scan.k_heads * op->u.scan.kdim + 64 * (int64_t)heads,
                      scan_prepare, &j);
        gy_cpu_ranges(cpu, batch->spans * heads, (int64_t)mean * op->u.scan.kdim * op->u.scan.vdim,
                      scan_range, &j);
        break;
    case GY_OP_GATE:
        gy_cpu_ranges(cpu, batch->rows, 8 * (int64_t)op->u.gate.heads * op->u.gate.dim, gate_range,
                      &j);
        break;
    case GY_OP_REGROUP:
        gy_cpu_ranges(cpu, batch->rows, cpu->plan->slot_cols[op->in[0]], regroup_range, &j);
        break;
    default: GY_ASSERT(!"an operator of recurrent layers"); break;
    }
}
