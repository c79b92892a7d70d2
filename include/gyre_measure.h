/* gyre_measure - where the time of a step goes, and what this machine could do. For `gyre bench
 * --ops` and programs like it; nothing here is needed to run a model.
 *
 * A profile counts the operators of an engine's plan in groups: of one kind, and for products of
 * the same matrices of every layer ("linear down_proj", "attn"). While it is off a step pays one
 * comparison for each operator. Bits do not depend on it.
 *
 * Thread: an engine's functions as in gyre.h; gy_measure_roof from any thread, one at a time. */
#ifndef GYRE_MEASURE_H
#define GYRE_MEASURE_H

#include "gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* bytes: every operand of an operator once a step: weights as the file stores them (of experts,
 * those that were chosen), the KV rows that at least one row of the step sees, f32 rows in and out.
 * ops: additions and multiplications of matrix products, attention and recurrences; elementwise
 * work counts as none. */
typedef struct {
    char name[96];
    int64_t runs;
    double seconds;
    int64_t bytes, ops;
    int64_t int8_ops; /* of ops, those on 8-bit integers (fast arithmetic) */
} gy_op_time;

/* Counts from now on, or pauses; counts of before are kept. GY_ENOMEM: nothing has changed. */
GY_API gy_rc gy_engine_profile(gy_engine *engine, bool on, gy_err *err);
/* Copies at most n groups in the order of the plan to out[n] and zeroes the counts. The last group
 * is "step": gy_step's time outside operators, runs being steps. Returns how many groups there are;
 * 0 before the first gy_engine_profile. out may be NULL when n is 0. */
GY_API int gy_engine_profile_take(gy_engine *engine, gy_op_time *out, int n);

/* What `threads` threads of this machine reach: bytes read a second from a buffer larger than its
 * caches, operations a second in registers (a multiply-add is two), with its widest instructions
 * whatever gyre uses of them. int8_ops is 0 where there are none to measure. */
typedef struct {
    double read_bytes, f32_ops, int8_ops;
} gy_roof;

/* Takes about half a second and a buffer of 256 MiB to 1 GiB. GY_EARG, GY_ENOMEM. */
GY_API gy_rc gy_measure_roof(int threads, gy_roof *roof, gy_err *err);

#ifdef __cplusplus
}
#endif
#endif
