/* cpu - the operators on x86-64 and arm64 (and anywhere, in plain C).
 *
 * cpu.c makes the backend: chooses the instruction set table once, owns the thread pool, the
 * activation arena [slots] and per-thread scratch, and drives each operator by cutting its outputs
 * into pool items.
 *
 *     cpu.c, rows.c, attn.c, linear.c (drivers, no arithmetic)
 *        -> gy_isa_table -> isa_generic.c | isa_avx2.c | isa_avx512.c | isa_neon.c: lanes.h, then
 *                            the bodies math.inc row.inc kvdec.inc attn.inc linear.inc scan.inc
 *
 * Bits: every function of every table gives the same bits (tests/prop). Lanes: dot products of f32
 * use 16 virtual lanes, lane i takes k = i mod 16 with fused multiply-add in ascending k, missing k
 * count as 0; then lane i += lane i + 8, and ((0+1)+(2+3))+((4+5)+(6+7)). `fast` dots use 8 lanes
 * over chunks of 32 columns; see linear.h. */
#ifndef GY_CPU_H
#define GY_CPU_H

#include "base/pool.h"
#include "cpu/linear.h"
#include "cpu/rowops.h"
#include "cpu/scan.h"
#include "kv/kv.h"
#include "op/op.h"

typedef struct {
    const char *name;
    bool (*usable)(void);
    gy_isa_linear lin; /* cpu/linear.h */
    gy_isa_rows row;   /* cpu/rowops.h */
    gy_isa_scan scan;  /* cpu/scan.h */
} gy_isa_table;

extern const gy_isa_table gy_isa_generic, gy_isa_avx2, gy_isa_avx512; /* the last two: x86-64 */
extern const gy_isa_table gy_isa_neon;                                /* arm64 */
/* NULL or "": the best usable one. */
const gy_isa_table *gy_isa_find(const char *name, gy_err *err);

/* ---- Inside src/cpu ---- */

/* cos and sin of one kind of rotation for the rows of a step, made at its first ROPE: one for each
 * distinct set of parameters in the plan. */
typedef struct {
    const gy_op *op; /* the first op with these parameters */
    float *c, *s;    /* [rows][rot / 2] */
    bool made;       /* in this step */
} gy_cpu_turn;

typedef struct {
    gy_be be; /* first: a gy_be is a gy_cpu */
    const gy_plan *plan;
    const gy_kv *kv;
    const gy_isa_table *isa;
    gy_pool *pool;
    int threads, rows;    /* rows: most of a step */
    float *arena, **slot; /* [n_slots] -> [rows][ld], 64-byte aligned rows */
    ptrdiff_t *ld;        /* [n_slots] floats from row to row */
    float *w;             /* [max cols] a norm's decoded weight */
    uint8_t *scratch;     /* [threads][scratch_bytes] of linear or attention */
    size_t scratch_bytes;
    struct gy_cpu_tile *tile; /* [rows] of the running ATTN */
    float *part;              /* partial attention results of a step with few rows */
    size_t part_floats;
    gy_cpu_turn *turn; /* [turns] */
    int turns;
    int *turn_of; /* [n_ops] index into turn of a ROPE */
    gy_linear_env lin;
    struct gy_cpu_moe *moe; /* NULL: the plan has no EXPERTS */
    _Atomic uint64_t saturated;
} gy_cpu;

/* Runs fn over [0, rows) in ranges on the pool, or at once when rows * cost (elements touched) is
 * small. */
typedef void (*gy_cpu_range_fn)(void *arg, int r0, int r1, int worker);
void gy_cpu_ranges(gy_cpu *cpu, int rows, int64_t cost, gy_cpu_range_fn fn, void *arg);

/* moe.c: ROUTE, EXPERTS. rows: most of a step. */
void gy_cpu_moe_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch);
gy_rc gy_cpu_moe_new(const gy_plan *plan, int rows, struct gy_cpu_moe **moe, gy_err *err);
void gy_cpu_moe_free(struct gy_cpu_moe *moe);
int gy_cpu_moe_cols(const gy_plan *plan); /* the widest row of any expert's product */
/* heads.c: HEADS. */
void gy_cpu_heads_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch);
/* scan.c: CONV, SCAN, GATE, REGROUP. */
void gy_cpu_scan_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch);
/* rows.c: the other operators but LINEAR, LOGITS and ATTN. */
void gy_cpu_row_op(gy_cpu *cpu, const gy_op *op, const gy_batch *batch);
/* attn.c */
void gy_cpu_attn(gy_cpu *cpu, const gy_op *op, const gy_batch *batch);
typedef struct gy_cpu_tile { /* rows of one span, and where their items and partial results begin */
    int span, row, rows, pos0, item0;
    gy_attn_runs runs;
    size_t part0;
} gy_cpu_tile;
size_t gy_cpu_attn_scratch(const gy_plan *plan); /* bytes of one worker */
/* Floats of gy_cpu.part. */
size_t gy_cpu_attn_parts(const gy_plan *plan, int64_t positions, int threads);

/* plan and kv must outlive the backend; rows: most rows of a batch; outs: most rows with logits at
 * once. */
gy_rc gy_cpu_new(const gy_plan *plan, const gy_kv *kv, int threads, gy_be_arith arith,
                 const char *isa, int rows, gy_be **be, gy_err *err);

#endif
