/* cpu - the operators on x86-64 (and anywhere, in plain C).
 *
 * cpu.c makes the backend: chooses the instruction set table once, owns the thread pool, the activation arena
 * [slots] and per-thread scratch, and drives each operator by cutting its outputs into pool items.
 *
 *     cpu.c, rows.c, attn.c, linear.c (drivers, no arithmetic)
 *        -> gy_isa_table -> isa_generic.c | isa_avx2.c: a few defines, then #include lanes.h math.inc row.inc
 *                            attn.inc linear.inc
 *
 * Bits: every function of every table gives the same bits (tests/prop). Lanes: dot products of f32 use 16 virtual lanes,
 * lane i takes k = i mod 16 with fused multiply-add in ascending k, missing k count as 0; then lane i += lane i + 8,
 * and ((0+1)+(2+3))+((4+5)+(6+7)). `fast` dots use 8 lanes over chunks of 32 columns; see linear.h. */
#ifndef GY_CPU_H
#define GY_CPU_H

#include "base/pool.h"
#include "cpu/linear.h"
#include "cpu/rowops.h"
#include "kv/kv.h"
#include "op/op.h"

typedef struct {
    const char *name;
    bool (*usable)(void);
    gy_isa_linear lin; /* cpu/linear.h */
    gy_isa_rows row;   /* cpu/rowops.h */
} gy_isa_table;

extern const gy_isa_table gy_isa_generic, gy_isa_avx2;
const gy_isa_table *gy_isa_find(const char *name, gy_err *err); /* NULL or "": the best usable one */

/* plan and kv must outlive the backend; rows: most rows of a batch; outs: most rows with logits at once. */
gy_rc gy_cpu_new(const gy_plan *plan, const gy_kv *kv, int threads, gy_be_arith arith, const char *isa, int rows,
                 gy_be **be, gy_err *err);

#endif
