/* cpu/attn - cuts ATTN into pool items: (rows of one span) x (KV head), and when these are too few
 * to keep the threads busy, x (run of 256 positions) with the runs joined afterwards. The cut
 * cannot change a bit: see rowops.h. */
#include "cpu/cpu.h"

enum {
    TILE_QUERIES = 64,    /* rows x heads of one item: a page is decoded once for all of them */
    SMALL_WORK = 1 << 17, /* multiplications below which waking the pool costs more than it gives */
    PARTS_MAX = 4 << 20   /* floats */
};

static size_t align64(size_t n) {
    return (n + 63) & ~(size_t)63;
}

size_t gy_attn_scratch(int queries, int kdim, int vdim) {
    size_t n = (size_t)queries, dk = ((size_t)kdim + 15) / 16 * 16,
           dv = ((size_t)vdim + 15) / 16 * 16;
    size_t floats = n * dk + GY_PAGE * (dk + dv) + 2 * GY_PAGE * 9 + 2 * dv + 2 * n * (dv + 16);
    return align64(floats * sizeof(float));
}

static int group_heads(const gy_op *op) {
    return op->u.attn.heads / op->u.attn.kv_heads;
}

size_t gy_cpu_attn_scratch(const gy_plan *plan) {
    size_t bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const gy_op *op = &plan->op[i];
        if (op->kind != GY_OP_ATTN) continue;
        int n = group_heads(op) > TILE_QUERIES ? group_heads(op) : TILE_QUERIES;
        size_t b = gy_attn_scratch(n, op->u.attn.kdim, op->u.attn.vdim);
        if (b > bytes) bytes = b;
    }
    return bytes;
}

/* Room for as many rows as could leave threads idle, each as deep as the store, within a bound:
 * without room a step runs unsplit. */
size_t gy_cpu_attn_parts(const gy_plan *plan, int64_t positions, int threads) {
    size_t runs = (size_t)(positions + GY_ATTN_RUN - 1) / GY_ATTN_RUN + 1, floats = 0;
    if (threads == 1) return 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const gy_op *op = &plan->op[i];
        if (op->kind != GY_OP_ATTN) continue;
        size_t n = (size_t)op->u.attn.heads * ((size_t)op->u.attn.vdim + 2) * runs * 4;
        if (n > floats) floats = n;
    }
    return floats < PARTS_MAX ? floats : PARTS_MAX;
}

typedef struct {
    gy_cpu *cpu;
    const gy_op *op;
    const gy_batch *batch;
    int tiles, items, heads;
    bool split;
} job;

static int make_tiles(job *j, int tile_rows) {
    int n = 0;
    for (int s = 0; s < j->batch->spans; s++) {
        const gy_span *span = &j->batch->span[s];
        for (int r = 0; r < span->n; r += tile_rows) {
            int rows = span->n - r < tile_rows ? span->n - r : tile_rows, pos0 = span->pos0 + r;
            j->cpu->tile[n++] = (gy_cpu_tile){.span = s,
                                              .row = span->row0 + r,
                                              .rows = rows,
                                              .pos0 = pos0,
                                              .run0 = gy_attn_run0(pos0, j->op->u.attn.window),
                                              .run1 = gy_attn_run1(pos0, rows)};
        }
    }
    return n;
}

/* Numbers the items of all tiles; split ones also get their part of cpu->part. False: it does not
 * fit. */
static bool number_items(job *j, bool split) {
    size_t part = 0;
    int items = 0, kv_heads = j->op->u.attn.kv_heads;
    for (int t = 0; t < j->tiles; t++) {
        gy_cpu_tile *tile = &j->cpu->tile[t];
        tile->item0 = items, tile->part0 = part;
        items += kv_heads * (split ? tile->run1 - tile->run0 : 1);
        if (split)
            part += (size_t)(tile->run1 - tile->run0) * (size_t)(tile->rows * j->op->u.attn.heads) *
                    ((size_t)j->op->u.attn.vdim + 2);
    }
    if (part > j->cpu->part_floats) return false;
    j->items = items, j->split = split;
    return true;
}

static const gy_cpu_tile *tile_of(const job *j, int item) {
    int lo = 0, hi = j->tiles - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (j->cpu->tile[mid].item0 <= item)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &j->cpu->tile[lo];
}

static gy_attn attn_of(const job *j, const gy_cpu_tile *tile, int kv_head, int worker) {
    const gy_op *op = j->op;
    const gy_cpu *cpu = j->cpu;
    int in = op->in[0], out = op->out, first = kv_head * j->heads;
    return (gy_attn){
        .kv = cpu->kv,
        .seq = j->batch->seq[j->batch->span[tile->span].seq],
        .layer = op->layer,
        .kv_head = kv_head,
        .q = cpu->slot[in] + tile->row * cpu->ld[in] + (ptrdiff_t)first * op->u.attn.kdim,
        .ldq = cpu->ld[in],
        .rows = tile->rows,
        .heads = j->heads,
        .pos0 = tile->pos0,
        .kdim = op->u.attn.kdim,
        .vdim = op->u.attn.vdim,
        .window = op->u.attn.window,
        .scale = op->u.attn.scale,
        .cap = op->u.attn.cap,
        .run0 = tile->run0,
        .run1 = tile->run1,
        .sinks = op->u.attn.sinks ? op->u.attn.sinks + first : NULL,
        .out = cpu->slot[out] + tile->row * cpu->ld[out] + (ptrdiff_t)first * op->u.attn.vdim,
        .ldo = cpu->ld[out],
        .scratch = cpu->scratch + (size_t)worker * cpu->scratch_bytes};
}

static float *part_of(const job *j, const gy_cpu_tile *tile, int kv_head, int run) {
    size_t one = (size_t)(tile->rows * j->heads) * ((size_t)j->op->u.attn.vdim + 2);
    return j->cpu->part + tile->part0 +
           ((size_t)kv_head * (size_t)(tile->run1 - tile->run0) + (size_t)run) * one;
}

static void attn_item(void *arg, int item, int worker) {
    const job *j = arg;
    item = j->items - 1 - item; /* the deepest first: they take longest */
    const gy_cpu_tile *tile = tile_of(j, item);
    int rest = item - tile->item0, runs = j->split ? tile->run1 - tile->run0 : 1;
    gy_attn a = attn_of(j, tile, rest / runs, worker);
    if (j->split) {
        a.part = part_of(j, tile, rest / runs, rest % runs);
        a.run0 = tile->run0 + rest % runs, a.run1 = a.run0 + 1;
    }
    j->cpu->isa->row.attn(&a);
}

static void join_range(void *arg, int i0, int i1, int worker) {
    const job *j = arg;
    int kv_heads = j->op->u.attn.kv_heads;
    for (int i = i0; i < i1; i++) {
        const gy_cpu_tile *tile = &j->cpu->tile[i / kv_heads];
        gy_attn a = attn_of(j, tile, i % kv_heads, worker);
        j->cpu->isa->row.attn_join(&a, part_of(j, tile, i % kv_heads, 0));
    }
}

/* Multiplications of the whole op, roughly. */
static int64_t work(const job *j) {
    int64_t positions = 0;
    for (int t = 0; t < j->tiles; t++) {
        const gy_cpu_tile *tile = &j->cpu->tile[t];
        int64_t seen = tile->pos0 + tile->rows, window = j->op->u.attn.window;
        positions += tile->rows * (window && seen > window ? window : seen);
    }
    return positions * j->op->u.attn.heads * (j->op->u.attn.kdim + j->op->u.attn.vdim);
}

void gy_cpu_attn(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    job j = {.cpu = cpu, .op = op, .batch = batch, .heads = group_heads(op)};
    int kv_heads = op->u.attn.kv_heads, wanted = 3 * cpu->threads;
    int rows = j.heads < TILE_QUERIES ? TILE_QUERIES / j.heads : 1;
    j.tiles = make_tiles(&j, rows);
    while (cpu->threads > 1 && rows > 1 && j.tiles * kv_heads < wanted)
        j.tiles = make_tiles(&j, rows /= 2);
    if (!j.tiles) return;
    bool small = work(&j) < SMALL_WORK;
    if (small || cpu->threads == 1 || j.tiles * kv_heads >= wanted || !number_items(&j, true))
        number_items(&j, false);
    if (small) {
        for (int i = 0; i < j.items; i++) attn_item(&j, i, 0);
    } else {
        gy_pool_run(cpu->pool, j.items, attn_item, &j);
    }
    if (!j.split) return;
    int64_t runs = j.items / (j.tiles * kv_heads) + 1; /* of one tile, on average */
    gy_cpu_ranges(cpu, j.tiles * kv_heads, runs * j.heads * op->u.attn.vdim, join_range, &j);
}
