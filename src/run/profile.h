/* run/profile - counts of the operators of a plan, see gyre_measure.h.
 *
 *     group_of[op of the plan] -> group[], the last of which is the step itself
 *
 * Owner: the engine. Nothing here allocates inside a step. */
#ifndef GY_RUN_PROFILE_H
#define GY_RUN_PROFILE_H

#include "gyre_measure.h"
#include "kv/kv.h"

typedef struct gy_profile {
    bool on, fast;     /* fast: the engine's arithmetic */
    int *group_of;     /* [n_ops] */
    gy_op_time *group; /* [groups] */
    int groups;
    double own;       /* seconds of counting, which belong to nothing */
    uint64_t *chosen; /* bits of the experts that a step chose */
} gy_profile;

gy_rc gy_profile_new(const gy_plan *plan, bool fast, gy_profile **p, gy_err *err);
void gy_profile_free(gy_profile *p); /* NULL is fine */

double gy_profile_now(void); /* seconds, monotonic */
/* Operator i of the plan ran on batch, from `start` till now. */
void gy_profile_op(gy_profile *p, const gy_plan *plan, int i, gy_be *be, const gy_batch *batch,
                   double start);
/* A whole gy_step ended; operators: what gy_profile_operators gave before it. */
void gy_profile_step(gy_profile *p, double start, double operators);
double gy_profile_operators(const gy_profile *p); /* seconds of all operators and of counting */

#endif
