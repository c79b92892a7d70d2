/* cpu/rows - drivers of the operators that work row by row. */
#include <string.h>

#include "base/dmath.h"
#include "cpu/cpu.h"

typedef struct {
    gy_cpu *cpu;
    const gy_op *op;
    const gy_batch *batch;
    const float *w, *b; /* a norm's weight and bias */
    gy_cpu_turn *turn;
} job;

enum { SMALL_WORK = 1 << 15, RANGES_PER_THREAD = 4 };

typedef struct {
    gy_cpu_range_fn fn;
    void *arg;
    int rows, ranges;
} range_job;

static void range_item(void *arg, int item, int worker) {
    const range_job *j = arg;
    int r0 = (int)((int64_t)j->rows * item / j->ranges),
        r1 = (int)((int64_t)j->rows * (item + 1) / j->ranges);
    j->fn(j->arg, r0, r1, worker);
}

void gy_cpu_ranges(gy_cpu *cpu, int rows, int64_t cost, gy_cpu_range_fn fn, void *arg) {
    if (rows <= 0) return;
    if (cpu->threads == 1 || rows == 1 || rows * cost < SMALL_WORK) {
        fn(arg, 0, rows, 0);
        return;
    }
    range_job j = {.fn = fn, .arg = arg, .rows = rows, .ranges = RANGES_PER_THREAD * cpu->threads};
    if (j.ranges > rows) j.ranges = rows;
    gy_pool_run(cpu->pool, j.ranges, range_item, &j);
}

static float *row_at(const gy_cpu *cpu, int slot, int r) {
    return cpu->slot[slot] + r * cpu->ld[slot];
}

/* ---- EMBED, NORM, HEADNORM ---- */

static void embed_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_rows *m = &j->op->w[0]->file;
    for (int r = r0; r < r1; r++) {
        float *y = row_at(j->cpu, j->op->out, r);
        GY_ASSERT(j->batch->tok[r] >= 0 && j->batch->tok[r] < m->rows);
        gy_codecs[m->c.kind].decode(m, j->batch->tok[r], y);
        if (j->op->u.embed.scale != 1) j->cpu->isa->row.scale(y, m->cols, j->op->u.embed.scale);
    }
}

/* A norm's weight as f32: as stored when it is that already, else decoded into the room for one. */
static const float *norm_weight(gy_cpu *cpu, const gy_weight *w) {
    if (!w) return NULL;
    const gy_rows *m = &w->file;
    if (m->c.kind == GY_CODEC_F32 && (uintptr_t)m->plane[0] % sizeof(float) == 0)
        return m->plane[0];
    gy_codecs[m->c.kind].decode(m, 0, cpu->w);
    return cpu->w;
}

static void norm_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int n = j->cpu->plan->slot_cols[op->in[0]];
    for (int r = r0; r < r1; r++)
        j->cpu->isa->row.norm(row_at(j->cpu, op->in[0], r), row_at(j->cpu, op->out, r), j->w, j->b,
                              n, op->u.norm.eps, op->u.norm.form);
}

static void headnorm_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    for (int r = r0; r < r1; r++) {
        float *x = row_at(j->cpu, op->out, r) + op->u.headnorm.col;
        for (int h = 0; h < op->u.headnorm.heads; h++, x += op->u.headnorm.dim)
            j->cpu->isa->row.norm(x, x, j->w, j->b, op->u.headnorm.dim, op->u.headnorm.eps,
                                  op->u.headnorm.form);
    }
}

/* ---- ROPE ---- */

/* angle = f32(position) * f32 frequency, rounded to f32; cos, sin and mscale in double, rounded
 * once. */
static void turn_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->turn->op;
    int rot = op->u.rope.rot, half = rot / 2;
    for (int r = r0; r < r1; r++) {
        int pos = j->batch->pos[r];
        float *c = j->turn->c + (ptrdiff_t)r * half, *s = j->turn->s + (ptrdiff_t)r * half;
        bool stretched = op->u.rope.dyn_max > 0 && pos >= op->u.rope.dyn_max && rot > 2;
        double base = 0;
        if (stretched) {
            double f = op->u.rope.dyn_factor, grow = f * (pos + 1.0) / op->u.rope.dyn_max - (f - 1);
            base = op->u.rope.dyn_base * gy_dpow(grow, (double)rot / (rot - 2));
        }
        for (int i = 0; i < half; i++) {
            float freq = stretched ? (float)gy_dpow(base, -2.0 * i / rot) : op->u.rope.inv_freq[i];
            float angle = (float)pos * freq;
            c[i] = (float)(gy_dcos(angle) * op->u.rope.mscale),
            s[i] = (float)(gy_dsin(angle) * op->u.rope.mscale);
        }
    }
}

static void rope_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int rot = op->u.rope.rot, half = rot / 2;
    for (int r = r0; r < r1; r++) {
        float *x = row_at(j->cpu, op->out, r) + op->u.rope.col;
        const float *c = j->turn->c + (ptrdiff_t)r * half, *s = j->turn->s + (ptrdiff_t)r * half;
        for (int h = 0; h < op->u.rope.heads; h++, x += op->u.rope.dim)
            j->cpu->isa->row.rope(x, c, s, rot, op->u.rope.pairs);
    }
}

static void rope(job *j, int rows) {
    gy_cpu *cpu = j->cpu;
    j->turn = &cpu->turn[cpu->turn_of[j->op - cpu->plan->op]];
    if (!j->turn->made) gy_cpu_ranges(cpu, rows, 64 * (int64_t)j->op->u.rope.rot, turn_range, j);
    j->turn->made = true;
    gy_cpu_ranges(cpu, rows, (int64_t)j->op->u.rope.heads * j->op->u.rope.rot, rope_range, j);
}

/* ---- KVPUT ---- */

static void kvput_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    const gy_kvspec *spec = &j->cpu->plan->kv[op->layer];
    int clamped = 0;
    for (int r = r0; r < r1; r++) {
        const struct gy_seq *seq = j->batch->seq[j->batch->of[r]];
        int pos = j->batch->pos[r];
        const float *x = row_at(j->cpu, op->in[0], r);
        const float *k = x + op->u.kvput.kcol, *v = x + op->u.kvput.vcol;
        for (int h = 0; h < spec->heads; h++, k += spec->kdim, v += spec->vdim) {
            gy_rows rows = gy_kv_page_rows(j->cpu->kv, seq, op->layer, pos / GY_PAGE, h, false);
            clamped += j->cpu->isa->row.kv_put(&rows, pos % GY_PAGE, k);
            if (spec->form != GY_KV_BOTH) continue;
            rows = gy_kv_page_rows(j->cpu->kv, seq, op->layer, pos / GY_PAGE, h, true);
            clamped += j->cpu->isa->row.kv_put(&rows, pos % GY_PAGE, v);
        }
    }
    if (clamped)
        atomic_fetch_add_explicit(&j->cpu->saturated, (uint64_t)clamped, memory_order_relaxed);
}

/* ---- ACT, ADD, PICK ---- */

enum { COL_BLOCK = 2048 }; /* columns of one item of an elementwise op */

static void act_range(void *arg, int i0, int i1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int width = op->u.act.width, blocks = (width + COL_BLOCK - 1) / COL_BLOCK;
    for (int i = i0; i < i1; i++) {
        int c = i % blocks * COL_BLOCK, n = width - c < COL_BLOCK ? width - c : COL_BLOCK;
        const float *x = row_at(j->cpu, op->in[0], i / blocks) + c;
        j->cpu->isa->row.act(x, op->flags & GY_OPF_GLU ? x + width : NULL,
                             row_at(j->cpu, op->out, i / blocks) + c, n, op->u.act.form);
    }
}

static void add_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    for (int r = r0; r < r1; r++)
        j->cpu->isa->row.add(row_at(j->cpu, op->in[0], r), row_at(j->cpu, op->in[1], r),
                             row_at(j->cpu, op->out, r), j->cpu->plan->slot_cols[op->out],
                             op->u.add.a);
}

static void pick(const job *j) {
    const gy_op *op = j->op;
    size_t bytes = (size_t)j->cpu->plan->slot_cols[op->out] * sizeof(float);
    for (int i = 0; i < j->batch->outs; i++) /* ascending, so in place is safe too */
        memmove(row_at(j->cpu, op->out, i), row_at(j->cpu, op->in[0], j->batch->out[i]), bytes);
}

void gy_cpu_row_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    job j = {.cpu = cpu, .op = op, .batch = batch};
    int rows = op->flags & GY_OPF_OUTS ? batch->outs : batch->rows;
    int64_t cols = op->out >= 0 ? cpu->plan->slot_cols[op->out] : 0;
    if (op->kind == GY_OP_NORM || op->kind == GY_OP_HEADNORM)
        j.w = norm_weight(cpu, op->w[0]), j.b = op->w[0] ? op->w[0]->bias : NULL;
    switch ((gy_opk)op->kind) {
    case GY_OP_EMBED: gy_cpu_ranges(cpu, rows, 4 * cols, embed_range, &j); break;
    case GY_OP_NORM: gy_cpu_ranges(cpu, rows, cols, norm_range, &j); break;
    case GY_OP_HEADNORM:
        gy_cpu_ranges(cpu, rows, (int64_t)op->u.headnorm.heads * op->u.headnorm.dim, headnorm_range,
                      &j);
        break;
    case GY_OP_ROPE: rope(&j, rows); break;
    case GY_OP_KVPUT:
        gy_cpu_ranges(cpu, rows, cpu->plan->slot_cols[op->in[0]], kvput_range, &j);
        break;
    case GY_OP_ACT:
        gy_cpu_ranges(cpu, rows * (((int)op->u.act.width + COL_BLOCK - 1) / COL_BLOCK),
                      4 * (cols < COL_BLOCK ? cols : COL_BLOCK), act_range, &j);
        break;
    case GY_OP_ADD: gy_cpu_ranges(cpu, rows, cols, add_range, &j); break;
    case GY_OP_PICK: pick(&j); break;
    default: GY_ASSERT(!"an operator that this backend has"); break;
    }
}
