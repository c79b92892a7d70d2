/* cpu/moe - ROUTE and EXPERTS.
 *
 * EXPERTS gathers (row, expert) pairs by expert, so that an expert's weights are read once a step;
 * every pair is its own product, by the rules of linear.h, and a row's pairs are summed in
 * ascending expert id.
 *
 *     row 0: 1 4     pairs by expert   p0 p1 p2 p3        first: 0 0 2 3 3 4
 *     row 1: 1 2     rows              0  1  1  0
 *     pair_of        0 3 1 2           experts 1  1  2  4
 *
 *     x of the rows -gate, up-> wide [pairs][2 width] -act in place-> -down-> out [pairs][cols]
 *                                                                  -weighted sum-> rows */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu.h"

enum { ROW_BLOCK = 128, COL_BLOCK = 64, CODE_ROWS = 4, SMALL_WORK = 1 << 15 };

struct gy_cpu_moe {
    int *first;   /* [experts + 1] first pair of an expert */
    int *item;    /* [experts + 1] first item of an expert in the running product */
    int *row;     /* [pairs] */
    int *pair_of; /* [rows][top_k] */
    float *wide, *out;
    gy_xrow *coded, *gathered; /* [pairs]; coded rows, and those of pairs */
    void *coded_mem;
};

/* ---- Memory ---- */

typedef struct { /* the largest of the plan's EXPERTS */
    int experts, top_k, width, cols;
    bool any;
} sizes;

static sizes largest(const gy_plan *plan) {
    sizes s = {0};
    for (int i = 0; i < plan->n_ops; i++) {
        const gy_op *op = plan->op + i;
        if (op->kind != GY_OP_EXPERTS) continue;
        int cols = op->u.experts.gate->file.cols;
        s.any = true;
        if (op->u.experts.experts > s.experts) s.experts = op->u.experts.experts;
        if (op->u.experts.top_k > s.top_k) s.top_k = op->u.experts.top_k;
        if (op->u.experts.width > s.width) s.width = op->u.experts.width;
        if (cols > s.cols) s.cols = cols;
        if (op->u.experts.down->file.rows > s.cols) s.cols = op->u.experts.down->file.rows;
    }
    return s;
}

int gy_cpu_moe_cols(const gy_plan *plan) {
    sizes s = largest(plan);
    return s.width > s.cols ? s.width : s.cols;
}

gy_rc gy_cpu_moe_new(const gy_plan *plan, int rows, struct gy_cpu_moe **out, gy_err *err) {
    sizes s = largest(plan);
    if (!s.any) return *out = NULL, GY_OK;
    size_t pairs = (size_t)rows * (size_t)s.top_k, experts = (size_t)s.experts + 1;
    size_t row_coded = gy_linear_coded(1, s.cols), pair_coded = gy_linear_coded(1, s.width);
    struct gy_cpu_moe *m = gy_alloc(sizeof *m);
    if (m) {
        m->first = gy_alloc_n(experts, sizeof *m->first);
        m->item = gy_alloc_n(experts, sizeof *m->item);
        m->row = gy_alloc_n(pairs, sizeof *m->row);
        m->pair_of = gy_alloc_n(pairs, sizeof *m->pair_of);
        m->wide = gy_alloc_aligned(pairs * 2 * (size_t)s.width * sizeof(float));
        m->out = gy_alloc_aligned(pairs * (size_t)s.cols * sizeof(float));
        m->coded = gy_alloc_n(2 * pairs, sizeof *m->coded);
        m->gathered = m->coded + pairs;
        row_coded *= (size_t)rows, pair_coded *= pairs;
        m->coded_mem = gy_alloc_aligned(row_coded > pair_coded ? row_coded : pair_coded);
    }
    if (m && m->first && m->item && m->row && m->pair_of && m->wide && m->out && m->coded &&
        m->coded_mem)
        return *out = m, GY_OK;
    gy_cpu_moe_free(m);
    return gy_fail(err, GY_ENOMEM, "out of memory for the experts of a step");
}

void gy_cpu_moe_free(struct gy_cpu_moe *m) {
    if (!m) return;
    gy_free(m->first), gy_free(m->item), gy_free(m->row), gy_free(m->pair_of);
    gy_free(m->wide), gy_free(m->out), gy_free(m->coded), gy_free(m->coded_mem);
    gy_free(m);
}

/* ---- ROUTE ---- */

typedef struct {
    gy_cpu *cpu;
    const gy_op *op;
    const gy_batch *batch;
} job;

static float *row_at(const gy_cpu *cpu, int slot, int r) {
    return cpu->slot[slot] + r * cpu->ld[slot];
}

static void softmax(const gy_cpu *cpu, float *x, int n) {
    float max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int i = 0; i < n; i++) x[i] -= max;
    cpu->isa->row.exp(x, x, n);
    for (int i = 0; i < n; i++) sum += x[i];
    for (int i = 0; i < n; i++) x[i] /= sum;
}

/* What an expert is chosen by; a NaN is chosen last. */
static float rank(const gy_op *op, const float *p, int i) {
    float c = op->u.route.bias ? p[i] + op->u.route.bias[i] : p[i];
    return c == c ? c : -INFINITY;
}

/* One bit for each group of experts whose members may be chosen: the groups with the largest sums
 * of their two best, lower groups first among equals. */
static uint64_t open_groups(const gy_op *op, const float *p) {
    int groups = op->u.route.groups, each = op->u.route.experts / (groups ? groups : 1);
    uint64_t open = 0;
    float sum[64];
    if (groups <= 1) return ~(uint64_t)0;
    for (int g = 0; g < groups; g++) {
        float a = -INFINITY, b = -INFINITY;
        for (int i = g * each; i < (g + 1) * each; i++) {
            float c = rank(op, p, i);
            if (c > a)
                b = a, a = c;
            else if (c > b)
                b = c;
        }
        sum[g] = each > 1 ? a + b : a;
    }
    for (int n = 0; n < op->u.route.kept; n++) {
        int best = -1;
        for (int g = 0; g < groups; g++)
            if (!(open >> g & 1) && (best < 0 || sum[g] > sum[best])) best = g;
        open |= (uint64_t)1 << best;
    }
    return open;
}

/* The best top_k, higher rank first, then lower id; out in ascending id. */
static void choose(const gy_op *op, const float *p, int *id) {
    int experts = op->u.route.experts, groups = op->u.route.groups, last = -1;
    int each = groups > 1 ? experts / groups : experts;
    uint64_t open = open_groups(op, p);
    float bound = INFINITY;
    for (int n = 0; n < op->u.route.top_k; n++) {
        int best = -1;
        float high = -INFINITY;
        for (int i = 0; i < experts; i++) {
            float c = open >> i / each & 1 ? rank(op, p, i) : -INFINITY;
            if ((c < bound || (c == bound && i > last)) && (best < 0 || c > high))
                best = i, high = c;
        }
        GY_ASSERT(best >= 0);
        bound = high, last = best;
        int at = n;
        for (; at && id[at - 1] > best; at--) id[at] = id[at - 1];
        id[at] = best;
    }
}

static void route_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    const gy_op *op = j->op;
    int experts = op->u.route.experts, k = op->u.route.top_k, id[GY_TOP_K];
    for (int r = r0; r < r1; r++) {
        float *p = row_at(j->cpu, op->in[0], r), *out = row_at(j->cpu, op->out, r), *w = out + k;
        float sum = 0;
        if (op->u.route.score == GY_ROUTE_SOFTMAX) softmax(j->cpu, p, experts);
        if (op->u.route.score == GY_ROUTE_SIGMOID) {
            for (int i = 0; i < experts; i++) p[i] = 0 - p[i];
            j->cpu->isa->row.exp(p, p, experts);
            for (int i = 0; i < experts; i++) p[i] = 1 / (1 + p[i]);
        }
        choose(op, p, id);
        for (int i = 0; i < k; i++) out[i] = (float)id[i], w[i] = p[id[i]];
        if (op->u.route.score == GY_ROUTE_CHOSEN) softmax(j->cpu, w, k);
        for (int i = 0; i < k; i++) sum += w[i];
        for (int i = 0; i < k && op->u.route.renorm; i++) w[i] /= sum;
        for (int i = 0; i < k && op->u.route.scale != 1; i++) w[i] *= op->u.route.scale;
    }
}

/* ---- EXPERTS ---- */

/* One product of all pairs: one or two weights per expert, side by side in y. */
typedef struct {
    const job *j;
    const gy_weight *w[2]; /* [experts] each */
    int n;                 /* weights */
    const float *x;        /* [pairs] rows ldx apart, or of the coded rows */
    ptrdiff_t ldx;
    const gy_xrow *coded; /* [pairs] or NULL */
    float *y;             /* [pairs] rows */
    ptrdiff_t ldy;
} product;

static int blocks(int n, int block) {
    return (n + block - 1) / block;
}

static void product_item(void *arg, int item, int worker) {
    const product *p = arg;
    const gy_cpu *cpu = p->j->cpu;
    const struct gy_cpu_moe *m = cpu->moe;
    int e = 0, end = p->j->op->u.experts.experts;
    while (end - e > 1) { /* the last expert whose first item is not beyond */
        int mid = (e + end) / 2;
        if (m->item[mid] <= item)
            e = mid;
        else
            end = mid;
    }
    int cols = p->w[0][e].file.rows, col_blocks = blocks(cols, COL_BLOCK), b = item - m->item[e];
    int r0 = b / (p->n * col_blocks) * ROW_BLOCK, k = b / col_blocks % p->n;
    int c0 = b % col_blocks * COL_BLOCK, n = cols - c0 < COL_BLOCK ? cols - c0 : COL_BLOCK;
    int p0 = m->first[e] + r0, rows = m->first[e + 1] - p0;
    if (rows > ROW_BLOCK) rows = ROW_BLOCK;
    const gy_weight *w = p->w[k] + e;
    float *y = p->y + p0 * p->ldy + k * cols + c0;
    void *scratch = (char *)cpu->lin.scratch + (size_t)worker * cpu->lin.scratch_bytes;
    if (p->coded)
        cpu->isa->lin.fast(w, c0, n, p->coded + p0, rows, y, p->ldy, scratch);
    else
        cpu->isa->lin.exact(w, c0, n, p->x + p0 * p->ldx, p->ldx, rows, y, p->ldy, scratch);
    for (int r = 0; w->bias && r < rows; r++)
        for (int c = 0; c < n; c++) y[r * p->ldy + c] += w->bias[c0 + c];
}

static void run_product(product *p) {
    const gy_cpu *cpu = p->j->cpu;
    struct gy_cpu_moe *m = cpu->moe;
    int experts = p->j->op->u.experts.experts, items = 0;
    for (int e = 0; e < experts; e++) {
        m->item[e] = items;
        items += blocks(m->first[e + 1] - m->first[e], ROW_BLOCK) * p->n *
                 blocks(p->w[0][e].file.rows, COL_BLOCK);
    }
    m->item[experts] = items;
    gy_pool_run(cpu->pool, items, product_item, p);
}

/* Sorts the pairs by expert; within one, by row. */
static void sort_pairs(const job *j, int rows) {
    struct gy_cpu_moe *m = j->cpu->moe;
    int experts = j->op->u.experts.experts, k = j->op->u.experts.top_k, at = 0;
    memset(m->first, 0, ((size_t)experts + 1) * sizeof *m->first);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < k; i++) m->first[(int)row_at(j->cpu, j->op->in[1], r)[i]]++;
    for (int e = 0; e < experts; e++) {
        int n = m->first[e];
        m->first[e] = at, at += n;
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < k; i++) {
            int p = m->first[(int)row_at(j->cpu, j->op->in[1], r)[i]]++;
            m->row[p] = r, m->pair_of[r * k + i] = p;
        }
    memmove(m->first + 1, m->first, (size_t)experts * sizeof *m->first);
    m->first[0] = 0;
}

typedef struct {
    const job *j;
    const float *x;
    ptrdiff_t ldx;
    int rows, cols;
} coding;

static void code_item(void *arg, int item, int worker) {
    (void)worker;
    const coding *c = arg;
    int end = (item + 1) * CODE_ROWS < c->rows ? (item + 1) * CODE_ROWS : c->rows;
    for (int r = item * CODE_ROWS; r < end; r++)
        c->j->cpu->isa->lin.code(c->x + r * c->ldx, c->cols, c->j->cpu->moe->coded[r]);
}

static void code_rows(const job *j, const float *x, ptrdiff_t ldx, int rows, int cols) {
    struct gy_cpu_moe *m = j->cpu->moe;
    coding c = {j, x, ldx, rows, cols};
    size_t bytes = gy_linear_coded(1, cols);
    for (int r = 0; r < rows; r++)
        m->coded[r] = gy_linear_xrow((char *)m->coded_mem + (size_t)r * bytes, cols);
    int items = blocks(rows, CODE_ROWS);
    if (rows * (int64_t)cols >= SMALL_WORK)
        gy_pool_run(j->cpu->pool, items, code_item, &c);
    else /* sooner done than a worker is awake */
        for (int i = 0; i < items; i++) code_item(&c, i, 0);
}

static void act_range(void *arg, int p0, int p1, int worker) {
    (void)worker;
    const job *j = arg;
    int width = j->op->u.experts.width;
    for (int p = p0; p < p1; p++) {
        float *x = j->cpu->moe->wide + (ptrdiff_t)p * 2 * width;
        j->cpu->isa->row.act(x, x + width, x, width, j->op->u.experts.act);
    }
}

static void sum_range(void *arg, int r0, int r1, int worker) {
    (void)worker;
    const job *j = arg;
    int k = j->op->u.experts.top_k, cols = j->op->u.experts.down->file.rows;
    for (int r = r0; r < r1; r++) {
        const float *w = row_at(j->cpu, j->op->in[1], r) + k;
        float *y = row_at(j->cpu, j->op->out, r);
        memset(y, 0, (size_t)cols * sizeof *y);
        for (int i = 0; i < k; i++)
            j->cpu->isa->row.add(
                y, j->cpu->moe->out + (ptrdiff_t)j->cpu->moe->pair_of[r * k + i] * cols, y, cols,
                w[i]);
    }
}

static void run_experts(job *j) {
    gy_cpu *cpu = j->cpu;
    struct gy_cpu_moe *m = cpu->moe;
    const gy_op *op = j->op;
    int rows = j->batch->rows, in = op->u.experts.gate->file.cols, width = op->u.experts.width;
    int pairs = rows * op->u.experts.top_k, cols = op->u.experts.down->file.rows;
    bool fast = cpu->lin.arith == GY_BE_FAST;
    sort_pairs(j, rows);
    product up = {.j = j,
                  .w = {op->u.experts.gate, op->u.experts.up},
                  .n = 2,
                  .y = m->wide,
                  .ldy = 2 * (ptrdiff_t)width};
    if (fast && gy_linear_is_coded(&op->u.experts.gate->file)) {
        code_rows(j, row_at(cpu, op->in[0], 0), cpu->ld[op->in[0]], rows, in);
        for (int p = 0; p < pairs; p++) m->gathered[p] = m->coded[m->row[p]];
        up.coded = m->gathered;
    } else { /* `out` is not in use yet */
        for (int p = 0; p < pairs; p++)
            memcpy(m->out + (ptrdiff_t)p * in, row_at(cpu, op->in[0], m->row[p]),
                   (size_t)in * sizeof(float));
        up.x = m->out, up.ldx = in;
    }
    run_product(&up);
    gy_cpu_ranges(cpu, pairs, 8 * (int64_t)width, act_range, j);
    product down = {.j = j, .w = {op->u.experts.down}, .n = 1, .y = m->out, .ldy = cols};
    down.x = m->wide, down.ldx = 2 * (ptrdiff_t)width;
    if (fast && gy_linear_is_coded(&op->u.experts.down->file)) {
        code_rows(j, m->wide, 2 * (ptrdiff_t)width, pairs, width);
        down.coded = m->coded;
    }
    run_product(&down);
    gy_cpu_ranges(cpu, rows, (int64_t)op->u.experts.top_k * cols, sum_range, j);
}

void gy_cpu_moe_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    job j = {.cpu = cpu, .op = op, .batch = batch};
    if (op->kind == GY_OP_ROUTE)
        gy_cpu_ranges(cpu, batch->rows, (int64_t)op->u.route.experts * (8 + op->u.route.top_k),
                      route_range, &j);
    else if (batch->rows)
        run_experts(&j);
}
