/* profile - see profile.h. Bytes and operations follow from op/op.h's list; KV bytes are those of
 * the plan's codecs, also for a sequence that has others by gy_seq_transition. */
#include "run/profile.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

double gy_profile_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Names ---- */

/* "model.layers.3.mlp.up_proj.weight" -> "up_proj" */
static void add_role(char name[96], const gy_weight *w, char before) {
    const char *s = w->name ? w->name : "", *end = s + strlen(s), *start;
    if (end - s > 7 && !strcmp(end - 7, ".weight")) end -= 7;
    for (start = end; start > s && start[-1] != '.';) start--;
    size_t n = strlen(name);
    snprintf(name + n, 96 - n, "%c%.*s", before, (int)(end - start), start);
}

static void name_of(const gy_op *op, char name[96]) {
    snprintf(name, 96, "%s", gy_op_names[op->kind]);
    if (op->kind == GY_OP_LINEAR)
        for (int i = 0; i < 3 && op->w[i]; i++) add_role(name, op->w[i], i ? '+' : ' ');
}

/* ---- Sizes ---- */

static int64_t row_bytes(gy_cparm c, int cols) {
    size_t plane[3] = {0};
    gy_codecs[c.kind].bytes(c, cols, plane);
    return (int64_t)(plane[0] + plane[1] + plane[2]);
}

static int64_t weight_bytes(const gy_weight *w) {
    return row_bytes(w->file.c, w->file.cols) * w->file.rows +
           (w->bias ? (int64_t)w->file.rows * 4 : 0);
}

/* Where the positions that the query at q sees begin, besides the first `kept` ones. */
static int64_t seen_from(const gy_op *op, int64_t q) {
    int64_t from = 0;
    if (op->u.attn.window) from = q - (op->u.attn.window - op->u.attn.kept) + 1;
    if (op->u.attn.chunk && q / op->u.attn.chunk * op->u.attn.chunk > from)
        from = q / op->u.attn.chunk * op->u.attn.chunk;
    return from > 0 ? from : 0;
}

static int64_t seen(const gy_op *op, int64_t first, int64_t q) {
    int64_t from = seen_from(op, first), kept = op->u.attn.window ? op->u.attn.kept : 0;
    return q + 1 - from + (kept < from ? kept : from);
}

/* K and V rows of one position of one layer. */
static int64_t kv_bytes(const gy_kvspec *s) {
    int64_t n = row_bytes(s->k, s->kdim);
    if (s->form == GY_KV_BOTH) n += row_bytes(s->v, s->vdim);
    return n * s->heads;
}

typedef struct {
    int64_t bytes, ops, int8_ops;
} work;

static void add_product(const gy_profile *p, work *w, const gy_weight *m, int64_t rows,
                        bool exact) {
    int64_t ops = 2 * rows * m->file.rows * m->file.cols;
    w->ops += ops;
    if (p->fast && !exact && gy_codec_intkind(m->file.c).has) w->int8_ops += ops;
}

static void linear(const gy_profile *p, const gy_op *op, int64_t rows, work *w) {
    w->bytes += rows * op->w[0]->file.cols * 4;
    for (int i = 0; i < 3 && op->w[i]; i++) {
        w->bytes += weight_bytes(op->w[i]) + rows * op->w[i]->file.rows * 4;
        add_product(p, w, op->w[i], rows, op->flags & GY_OPF_EXACT);
    }
}

static void attention(const gy_plan *plan, const gy_op *op, const gy_batch *b, work *w) {
    const gy_kvspec *own = plan->kv + op->layer, *s = own->donor >= 0 ? plan->kv + own->donor : own;
    int64_t dims = op->u.attn.kdim + op->u.attn.vdim, pairs = 0;
    w->bytes += b->rows * op->u.attn.heads * dims * 4;
    for (int i = 0; i < b->spans; i++) {
        const gy_span *span = b->span + i;
        w->bytes += seen(op, span->pos0, span->pos0 + span->n - 1) * kv_bytes(s);
        for (int r = 0; r < span->n; r++) pairs += seen(op, span->pos0 + r, span->pos0 + r);
    }
    w->ops += 2 * pairs * op->u.attn.heads * dims;
}

static void experts(gy_profile *p, const gy_plan *plan, const gy_op *op, gy_be *be,
                    const gy_batch *b, work *w) {
    int ld, n = op->u.experts.experts, k = op->u.experts.top_k;
    const float *ids = be->slot(be, op->in[1], &ld);
    memset(p->chosen, 0, (size_t)(n / 64 + 1) * 8);
    w->bytes +=
        (int64_t)b->rows * (plan->slot_cols[op->in[0]] + plan->slot_cols[op->out] + 2 * k) * 4;
    for (int r = 0; r < b->rows; r++)
        for (int i = 0; i < k; i++) {
            int e = (int)ids[(ptrdiff_t)r * ld + i];
            const gy_weight *m[3] = {op->u.experts.gate + e, op->u.experts.up + e,
                                     op->u.experts.down + e};
            bool first = !(p->chosen[e / 64] >> e % 64 & 1);
            p->chosen[e / 64] |= 1ull << e % 64;
            for (int j = 0; j < 3; j++) {
                if (first) w->bytes += weight_bytes(m[j]);
                add_product(p, w, m[j], 1, false);
            }
        }
}

static void recurrence(const gy_op *op, const gy_batch *b, work *w) {
    if (op->kind == GY_OP_CONV) {
        int64_t cols = op->u.conv.cols, taps = op->u.conv.taps;
        w->bytes += (2 * b->rows + taps + 2 * (taps - 1) * b->spans) * cols * 4;
        w->ops += 2 * b->rows * taps * cols;
    } else { /* decay, what k reads, the update by k, what q reads: 1 + 2 + 2 + 2 of each value */
        int64_t state = (int64_t)op->u.scan.v_heads * op->u.scan.vdim * op->u.scan.kdim;
        w->bytes += 2 * state * b->spans * 4;
        w->ops += 7 * state * b->rows;
    }
}

/* Rows of the operator's slots, in and out. */
static int64_t slots(const gy_plan *plan, const gy_op *op, int64_t rows) {
    int64_t cols = 0;
    for (int i = 0; i < 2; i++)
        if (op->in[i] >= 0) cols += plan->slot_cols[op->in[i]];
    if (op->out >= 0) cols += plan->slot_cols[op->out];
    return rows * cols * 4;
}

static work work_of(gy_profile *p, const gy_plan *plan, const gy_op *op, gy_be *be,
                    const gy_batch *b) {
    work w = {0};
    bool outs = op->flags & GY_OPF_OUTS || op->kind == GY_OP_PICK || op->kind == GY_OP_LOGITS;
    int64_t rows = outs ? b->outs : b->rows;
    switch (op->kind) {
    case GY_OP_EMBED:
        w.bytes = rows * (row_bytes(op->w[0]->file.c, op->w[0]->file.cols) +
                          (int64_t)op->w[0]->file.cols * 4);
        break;
    case GY_OP_LINEAR:
    case GY_OP_LOGITS:
        if (rows) linear(p, op, rows, &w);
        break;
    case GY_OP_HEADNORM:
        w.bytes = weight_bytes(op->w[0]) + 8 * rows * op->u.headnorm.heads * op->u.headnorm.dim;
        break;
    case GY_OP_ROPE: w.bytes = 8 * rows * op->u.rope.heads * op->u.rope.rot; break;
    case GY_OP_KVPUT: {
        const gy_kvspec *s = plan->kv + op->layer;
        int values = s->kdim + (s->form == GY_KV_BOTH ? s->vdim : 0);
        w.bytes = rows * ((int64_t)s->heads * values * 4 + kv_bytes(s));
        break;
    }
    case GY_OP_ATTN: attention(plan, op, b, &w); break;
    case GY_OP_EXPERTS: experts(p, plan, op, be, b, &w); break;
    case GY_OP_SCAN: w.bytes = slots(plan, op, rows), recurrence(op, b, &w); break;
    case GY_OP_CONV: recurrence(op, b, &w); break;
    case GY_OP_HEADS:
        w.bytes = slots(plan, op, rows);
        for (int h = 0; h < op->u.heads.heads; h++) {
            w.bytes += weight_bytes(op->u.heads.w + h);
            add_product(p, &w, op->u.heads.w + h, rows, false);
        }
        break;
    default:
        w.bytes = slots(plan, op, rows);
        for (int i = 0; i < 3 && op->w[i]; i++) w.bytes += weight_bytes(op->w[i]);
    }
    return w;
}

/* ---- Counting ---- */

void gy_profile_op(gy_profile *p, const gy_plan *plan, int i, gy_be *be, const gy_batch *batch,
                   double start) {
    double end = gy_profile_now();
    gy_op_time *g = p->group + p->group_of[i];
    work w = work_of(p, plan, plan->op + i, be, batch);
    g->runs++, g->seconds += end - start;
    g->bytes += w.bytes, g->ops += w.ops, g->int8_ops += w.int8_ops;
    p->own += gy_profile_now() - end;
}

double gy_profile_operators(const gy_profile *p) {
    double sum = p->own;
    for (int g = 0; g + 1 < p->groups; g++) sum += p->group[g].seconds;
    return sum;
}

void gy_profile_step(gy_profile *p, double start, double operators) {
    double end = gy_profile_now();
    gy_op_time *g = p->group + p->groups - 1;
    g->runs++, g->seconds += end - start - (gy_profile_operators(p) - operators);
}

gy_rc gy_profile_new(const gy_plan *plan, bool fast, gy_profile **out, gy_err *err) {
    int experts = 0;
    for (int i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == GY_OP_EXPERTS && plan->op[i].u.experts.experts > experts)
            experts = plan->op[i].u.experts.experts;
    gy_profile *p = gy_alloc(sizeof *p);
    if (p) {
        p->fast = fast;
        p->group_of = gy_alloc_n((size_t)plan->n_ops, sizeof *p->group_of);
        p->group = gy_alloc_n((size_t)plan->n_ops + 1, sizeof *p->group);
        p->chosen = gy_alloc_n((size_t)experts / 64 + 1, sizeof *p->chosen);
    }
    if (!p || !p->group_of || !p->group || !p->chosen)
        return gy_profile_free(p), gy_fail(err, GY_ENOMEM, "profile: out of memory");
    for (int i = 0; i < plan->n_ops; i++) {
        int g = 0;
        name_of(plan->op + i, p->group[p->groups].name);
        while (strcmp(p->group[g].name, p->group[p->groups].name)) g++;
        p->group_of[i] = g;
        p->groups += g == p->groups;
    }
    snprintf(p->group[p->groups++].name, 96, "step");
    *out = p;
    return GY_OK;
}

void gy_profile_free(gy_profile *p) {
    if (!p) return;
    gy_free(p->group_of), gy_free(p->group), gy_free(p->chosen);
    gy_free(p);
}
