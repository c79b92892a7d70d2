/* cpu/cpu - the backend: memory, threads, the choice of instruction set, and dispatch. */
#include "cpu/cpu.h"

#include <string.h>

#include "base/env.h"
#include "base/mem.h"

/* ---- Instruction sets ---- */

#if defined(__x86_64__)
#define NAMES "\"avx512\", \"avx2\" or \"generic\""
#elif defined(__aarch64__)
#define NAMES "\"neon\" or \"generic\""
#else
#define NAMES "\"generic\""
#endif
/* Best first. */
static const gy_isa_table *const tables[] = {
#if defined(__x86_64__)
    &gy_isa_avx512,
    &gy_isa_avx2,
#elif defined(__aarch64__)
    &gy_isa_neon,
#endif
    &gy_isa_generic,
};
enum { TABLES = sizeof tables / sizeof *tables };

const gy_isa_table *gy_isa_find(const char *name, gy_err *err) {
    bool any = !name || !*name;
    for (int i = 0; i < TABLES; i++) {
        if (!any && strcmp(tables[i]->name, name)) continue;
        if (tables[i]->usable()) return tables[i];
        if (any) continue;
        gy_fail(err, GY_EUNSUPPORTED, "instruction set %s: this CPU does not have it", name);
        return NULL;
    }
    char quoted[64];
    gy_fail(err, GY_EARG, "instruction set \"%s\": expected " NAMES,
            gy_err_quote(quoted, name, strlen(name)));
    return NULL;
}

static const gy_isa_table *isa_wanted(const char *name, gy_err *err) {
    if (name && *name) return gy_isa_find(name, err);
    char *env = gy_env(GY_ENV_ISA);
    if (!env) return gy_fail(err, GY_ENOMEM, "out of memory"), NULL;
    const gy_isa_table *table = gy_isa_find(env, err);
    gy_free(env);
    return table;
}

const char *gy_isa(void) {
    const gy_isa_table *table = isa_wanted(NULL, NULL);
    return (table ? table : gy_isa_find(NULL, NULL))->name;
}

/* ---- A step ---- */

static void run_linear(gy_cpu *cpu, const gy_op *op, const gy_batch *batch) {
    bool logits = op->kind == GY_OP_LOGITS;
    int rows = logits || op->flags & GY_OPF_OUTS ? batch->outs : batch->rows, in = op->in[0];
    if (!rows) return;
    gy_linear_run(&cpu->lin, op, cpu->slot[in], cpu->ld[in], rows,
                  logits ? batch->logits : cpu->slot[op->out],
                  logits ? cpu->plan->vocab : cpu->ld[op->out]);
}

static void cpu_begin(gy_be *be, const gy_batch *batch) {
    gy_cpu *cpu = (gy_cpu *)be;
    GY_ASSERT(batch->rows <= cpu->rows && batch->outs <= batch->rows);
    for (int i = 0; i < cpu->turns; i++) cpu->turn[i].made = false;
}

static bool recurrent(gy_opk kind) {
    return kind == GY_OP_CONV || kind == GY_OP_SCAN || kind == GY_OP_GATE || kind == GY_OP_REGROUP;
}

static void cpu_run(gy_be *be, const gy_op *op, const gy_batch *batch) {
    gy_cpu *cpu = (gy_cpu *)be;
    if (op->kind == GY_OP_LINEAR || op->kind == GY_OP_LOGITS)
        run_linear(cpu, op, batch);
    else if (op->kind == GY_OP_ATTN)
        gy_cpu_attn(cpu, op, batch);
    else if (op->kind == GY_OP_ROUTE || op->kind == GY_OP_EXPERTS)
        gy_cpu_moe_op(cpu, op, batch);
    else if (op->kind == GY_OP_HEADS)
        gy_cpu_heads_op(cpu, op, batch);
    else if (recurrent(op->kind))
        gy_cpu_scan_op(cpu, op, batch);
    else
        gy_cpu_row_op(cpu, op, batch);
}

static gy_rc cpu_end(gy_be *be, gy_err *err) {
    (void)be, (void)err;
    return GY_OK;
}

static const float *cpu_slot(gy_be *be, int slot, int *ld) {
    const gy_cpu *cpu = (const gy_cpu *)be;
    *ld = (int)cpu->ld[slot];
    return cpu->slot[slot];
}

static uint64_t cpu_saturated(gy_be *be) {
    return atomic_load_explicit(&((gy_cpu *)be)->saturated, memory_order_relaxed);
}

static gy_rc cpu_pack(gy_be *be, gy_weight *w, gy_err *err) {
    (void)be, (void)w, (void)err; /* no codec has a faster layout than its own yet */
    return GY_OK;
}

static size_t cpu_packed_bytes(gy_be *be) {
    (void)be;
    return 0;
}

static void cpu_free(gy_be *be) {
    gy_cpu *cpu = (gy_cpu *)be;
    gy_pool_free(cpu->pool);
    gy_free(cpu->arena), gy_free(cpu->slot), gy_free(cpu->ld), gy_free(cpu->w);
    gy_free(cpu->scratch), gy_free(cpu->tile), gy_free(cpu->part), gy_free(cpu->lin.coded);
    for (int i = 0; i < cpu->turns; i++) gy_free(cpu->turn[i].c);
    gy_free(cpu->turn), gy_free(cpu->turn_of);
    gy_cpu_moe_free(cpu->moe);
    gy_free(cpu);
}

/* ---- Construction ---- */

static gy_rc oom(gy_err *err) {
    return gy_fail(err, GY_ENOMEM, "out of memory for the activations of a step");
}

/* Floats from row to row: whole cache lines, and an odd number of them, so that the rows of a
 * column do not fall into one set of the cache. */
static size_t row_floats(int cols) {
    size_t lines = ((size_t)cols + 15) / 16;
    return (lines | 1) * 16;
}

static gy_rc take_slots(gy_cpu *cpu, gy_err *err) {
    const gy_plan *plan = cpu->plan;
    size_t floats = 0, n = (size_t)plan->n_slots;
    cpu->slot = gy_alloc_n(n, sizeof *cpu->slot), cpu->ld = gy_alloc_n(n, sizeof *cpu->ld);
    if (!cpu->slot || !cpu->ld) return oom(err);
    for (int i = 0; i < plan->n_slots; i++) {
        cpu->ld[i] = (ptrdiff_t)row_floats(plan->slot_cols[i]);
        floats += (size_t)cpu->ld[i] * (size_t)cpu->rows;
    }
    cpu->arena = gy_alloc_aligned(floats * sizeof(float));
    if (!cpu->arena) return oom(err);
    float *at = cpu->arena;
    for (int i = 0; i < plan->n_slots; i++) {
        cpu->slot[i] = at;
        at += cpu->ld[i] * cpu->rows;
    }
    return GY_OK;
}

/* Widest input of a product, and widest weight of a norm. */
static int widest(const gy_plan *plan, bool norms) {
    int cols = 1;
    for (int i = 0; i < plan->n_ops; i++) {
        const gy_op *op = &plan->op[i];
        bool norm = op->kind == GY_OP_NORM || op->kind == GY_OP_HEADNORM;
        bool product = op->kind == GY_OP_LINEAR || op->kind == GY_OP_LOGITS;
        if ((norms ? norm : product) && op->w[0] && op->w[0]->file.cols > cols)
            cols = op->w[0]->file.cols;
        if (!norms && op->kind == GY_OP_HEADS && op->u.heads.w->file.cols > cols)
            cols = op->u.heads.w->file.cols;
    }
    int experts = norms ? 0 : gy_cpu_moe_cols(plan);
    return experts > cols ? experts : cols;
}

static bool same_turn(const gy_op *a, const gy_op *b) {
    return a->u.rope.rot == b->u.rope.rot && a->u.rope.mscale == b->u.rope.mscale &&
           a->u.rope.dyn_max == b->u.rope.dyn_max && a->u.rope.dyn_base == b->u.rope.dyn_base &&
           a->u.rope.dyn_factor == b->u.rope.dyn_factor &&
           !memcmp(a->u.rope.inv_freq, b->u.rope.inv_freq,
                   (size_t)(a->u.rope.rot / 2) * sizeof(float));
}

static gy_rc take_turns(gy_cpu *cpu, gy_err *err) {
    const gy_plan *plan = cpu->plan;
    int ropes = 0;
    for (int i = 0; i < plan->n_ops; i++) ropes += plan->op[i].kind == GY_OP_ROPE;
    cpu->turn = gy_alloc_n((size_t)ropes, sizeof *cpu->turn);
    cpu->turn_of = gy_alloc_n((size_t)plan->n_ops, sizeof *cpu->turn_of);
    if (!cpu->turn || !cpu->turn_of) return oom(err);
    for (int i = 0; i < plan->n_ops; i++) {
        const gy_op *op = &plan->op[i];
        if (op->kind != GY_OP_ROPE) continue;
        int t = 0;
        while (t < cpu->turns && !same_turn(cpu->turn[t].op, op)) t++;
        cpu->turn_of[i] = t;
        if (t < cpu->turns) continue;
        size_t n = (size_t)cpu->rows * (size_t)(op->u.rope.rot / 2);
        gy_cpu_turn *turn = &cpu->turn[t];
        turn->op = op;
        turn->c = gy_alloc_n(2 * n, sizeof *turn->c);
        if (!turn->c) return oom(err);
        turn->s = turn->c + n;
        cpu->turns++;
    }
    return GY_OK;
}

static gy_rc take_scratch(gy_cpu *cpu, gy_be_arith arith, gy_err *err) {
    int cols = widest(cpu->plan, false);
    size_t linear = gy_linear_scratch(cols), attn = gy_cpu_attn_scratch(cpu->plan);
    int64_t positions = gy_kv_max_positions(cpu->kv);
    cpu->scratch_bytes = linear > attn ? linear : attn;
    cpu->scratch = gy_alloc_aligned((size_t)cpu->threads * cpu->scratch_bytes);
    cpu->part_floats =
        gy_cpu_attn_parts(cpu->plan, positions < 1 << 17 ? positions : 1 << 17, cpu->threads);
    cpu->part = gy_alloc_aligned(cpu->part_floats * sizeof(float));
    cpu->tile = gy_alloc_n((size_t)cpu->rows, sizeof *cpu->tile);
    cpu->w = gy_alloc_aligned((size_t)widest(cpu->plan, true) * sizeof(float));
    if (arith == GY_BE_FAST) cpu->lin.coded = gy_alloc_aligned(gy_linear_coded(cpu->rows, cols));
    if (!cpu->scratch || !cpu->part || !cpu->tile || !cpu->w ||
        (arith == GY_BE_FAST && !cpu->lin.coded))
        return oom(err);
    cpu->lin.pool = cpu->pool, cpu->lin.isa = &cpu->isa->lin, cpu->lin.arith = arith;
    cpu->lin.scratch = cpu->scratch, cpu->lin.scratch_bytes = cpu->scratch_bytes;
    cpu->lin.finish = cpu->isa->row.finish;
    return GY_OK;
}

static gy_rc check_plan(const gy_plan *plan, gy_err *err) {
    for (int i = 0; i < plan->n_ops; i++) {
        gy_opk kind = plan->op[i].kind;
        if (kind == GY_OP_ATTN && plan->op[i].u.attn.window &&
            plan->op[i].u.attn.kept >= plan->op[i].u.attn.window)
            return gy_fail(err, GY_EFORMAT, "op %d: %d kept positions in a window of %d", i,
                           plan->op[i].u.attn.kept, plan->op[i].u.attn.window);
        bool row = kind <= GY_OP_EXPERTS || kind == GY_OP_PICK || kind == GY_OP_LOGITS ||
                   kind == GY_OP_HEADS || recurrent(kind);
        if (!row)
            return gy_fail(err, GY_EUNSUPPORTED, "op %d: the CPU backend has no %s", i,
                           kind < GY_OP_COUNT ? gy_op_names[kind] : "?");
    }
    return GY_OK;
}

gy_rc gy_cpu_new(const gy_plan *plan, const gy_kv *kv, int threads, gy_be_arith arith,
                 const char *isa, int rows, gy_be **be, gy_err *err) {
    if (threads < 1 || rows < 1)
        return gy_fail(err, GY_EARG, "%d threads, %d rows: expected at least 1", threads, rows);
    const gy_isa_table *table = isa_wanted(isa, err);
    if (!table) return err ? err->rc : GY_EARG;
    gy_rc rc = check_plan(plan, err);
    if (rc) return rc;
    gy_cpu *cpu = gy_alloc(sizeof *cpu);
    if (!cpu) return oom(err);
    cpu->be = (gy_be){.name = "cpu",
                      .isa = table->name,
                      .begin = cpu_begin,
                      .run = cpu_run,
                      .end = cpu_end,
                      .slot = cpu_slot,
                      .saturated = cpu_saturated,
                      .pack = cpu_pack,
                      .packed_bytes = cpu_packed_bytes,
                      .free = cpu_free};
    cpu->plan = plan, cpu->kv = kv, cpu->isa = table, cpu->threads = threads, cpu->rows = rows;
    rc = gy_pool_new(threads, &cpu->pool, err);
    if (!rc) rc = take_slots(cpu, err);
    if (!rc) rc = take_turns(cpu, err);
    if (!rc) rc = take_scratch(cpu, arith, err);
    if (!rc) rc = gy_cpu_moe_new(plan, rows, &cpu->moe, err);
    if (rc) {
        cpu_free(&cpu->be);
        return rc;
    }
    *be = &cpu->be;
    return GY_OK;
}
