/* naive - runs a plan in double precision, slowly and literally: an oracle that shares only the
 * plan with the backends. Decoded weights and every operator of dense families; libm for the
 * mathematics. */
#ifndef GY_TEST_NAIVE_H
#define GY_TEST_NAIVE_H

#include "op/op.h"

/* logits[n, plan->vocab] after each of ids[n], one sequence from position 0; KV is kept as
 * computed. Returns NULL, or what the plan holds that this oracle does not know. */
const char *naive_run(const gy_plan *plan, const int32_t *ids, int n, double *logits);

#endif
