/* cpu/attn - cuts ATTN into pool items: (rows of one span) x (KV head), and when these are too few
 * to keep the threads busy, x (run of 256 positions) with the runs joined afterwards. The cut
 * cannot change a bit: see rowops.h. */
#include <limits.h>

#include "cpu/cpu.h"

enum {
    SMALL_WORK = 1 << 17, /* multiplications below which waking the pool costs more than it gives */
    PARTS_MAX = 4 << 20   /* floats */
};

static size_t align64(size_t n) {
    return (n + 63) & ~(size_t)63;
}

size_t gy_attn_scratch(int queries, int kdim, int vdim) {
    size_t n = (size_t)queries, dk = ((size_t)kdim + 15) / 16 * 16,
           dv = ((size_t)vdim + 15) / 16 * 16;
    size_t block = GY_PAGE * 9 + dv + 2 * dv + dv / 16; /* of one query */
    size_t floats = n * dk + GY_PAGE * (2 * dk + dv) + GY_PAGE * dk / 16 + 4 * dv +
                    GY_ATTN_BLOCK * block + 2 * n * (dv + 16);
    return align64(floats * sizeof(float)) + align64(n * sizeof(gy_attn_sight));
}

static int group_heads(const gy_op *op) {
    return op->u.attn.heads / op->u.attn.kv_heads;
}

size_t gy_cpu_attn_scratch(const gy_plan *plan) {
    size_t bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const gy_op *op = &plan->op[i];
        if (op->kind != GY_OP_ATTN) continue;
        int n = group_heads(op) > GY_ATTN_QUERIES ? group_heads(op) : GY_ATTN_QUERIES;
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

static gy_attn_mask mask_of(const gy_op *op) {
    return (gy_attn_mask){op->u.attn.window, op->u.attn.chunk, op->u.attn.kept};
}

/* Everything that any of the tile's rows sees. */
static gy_attn_sight tile_sees(const job *j, const gy_cpu_tile *tile) {
    gy_attn_sight all = {0, INT_MAX, 0};
    for (int r = 0; r < tile->rows; r++) {
        const gy_reach *also = j->batch->also ? j->batch->also + tile->row + r : NULL;
        gy_attn_sight s = gy_attn_see(mask_of(j->op), tile->pos0 + r, also);
        if (s.kept > all.kept) all.kept = s.kept;
        if (s.lo < all.lo) all.lo = s.lo;
        if (s.hi > all.hi) all.hi = s.hi;
    }
    const gy_span *span = &j->batch->span[tile->span];
    GY_ASSERT(all.lo >= 0 && all.hi <= span->pos0 + span->n);
    return all;
}

static int make_tiles(job *j, int tile_rows) {
    int n = 0;
    for (int s = 0; s < j->batch->spans; s++) {
        const gy_span *span = &j->batch->span[s];
        for (int r = 0; r < span->n; r += tile_rows) {
            gy_cpu_tile *tile = &j->cpu->tile[n++];
            *tile = (gy_cpu_tile){.span = s,
                                  .row = span->row0 + r,
                                  .rows = span->n - r < tile_rows ? span->n - r : tile_rows,
                                  .pos0 = span->pos0 + r};
            tile->runs = gy_attn_runs_of(tile_sees(j, tile));
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
        int runs = gy_attn_runs_count(tile->runs);
        tile->item0 = items, tile->part0 = part;
        items += kv_heads * (split ? runs : 1);
        if (split)
            part += (size_t)runs * (size_t)(tile->rows * j->op->u.attn.heads) *
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
        .mask = mask_of(op),
        .also = j->batch->also ? j->batch->also + tile->row : NULL,
        .bias = j->batch->bias ? j->batch->bias + tile->row : NULL,
        .scale = op->u.attn.scale,
        .cap = op->u.attn.cap,
        .runs = tile->runs,
        .sinks = op->u.attn.sinks ? op->u.attn.sinks + first : NULL,
        .out = cpu->slot[out] + tile->row * cpu->ld[out] + (ptrdiff_t)first * op->u.attn.vdim,
        .ldo = cpu->ld[out],
        .scratch = cpu->scratch + (size_t)worker * cpu->scratch_bytes};
}

static float *part_of(const job *j, const gy_cpu_tile *tile, int kv_head, int run) {
    size_t one = (size_t)(tile->rows * j->heads) * ((size_t)j->op->u.attn.vdim + 2);
    return j->cpu->part + tile->part0 +
           ((size_t)kv_head * (size_t)gy_attn_runs_count(tile->runs) + (size_t)run) * one;
}

static void attn_item(void *arg, int item, int worker) {
    const job *j = arg;
    item = j->items - 1 - item; /* the deepest first: they take longest */
    const gy_cpu_tile *tile = tile_of(j, item);
    int rest = item - tile->item0, runs = j->split ? gy_attn_runs_count(tile->runs) : 1;
    gy_attn a = attn_of(j, tile, rest / runs, worker);
    if (j->split) {
        a.part = part_of(j, tile, rest / runs, rest % runs);
        int run = gy_attn_run_at(tile->runs, rest % runs);
        a.runs = (gy_attn_runs){0, run, run + 1};
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
        gy_attn_sight s = tile_sees(j, tile);
        positions += (int64_t)tile->rows * (s.kept + s.hi - s.lo);
    }
    return positions * j->op->u.attn.heads * (j->op->u.attn.kdim + j->op->u.attn.vdim);
}

void gy_cpu_attn(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    job j = {.cpu = cpu, .op = op, .batch = batch, .heads = group_heads(op)};
    int kv_heads = op->u.attn.kv_heads, wanted = 3 * cpu->threads;
    int queries = cpu->isa->row.attn_queries, rows = j.heads < queries ? queries / j.heads : 1;
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
