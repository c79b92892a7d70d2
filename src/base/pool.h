/* base/pool - worker threads.
 *
 * gy_pool_run gives the items 0..items-1 to the callers' thread and the workers by an atomic
 * ticket, and returns when all are done. Which thread takes which item is not defined, so an item
 * must be one piece of output (rule D2). Workers spin shortly between runs, then sleep on a futex.
 * One run at a time per pool; not from inside an item. worker is 0..threads-1, for per-thread
 * scratch. */
#ifndef GY_BASE_POOL_H
#define GY_BASE_POOL_H

#include "base/err.h"

typedef struct gy_pool gy_pool;
typedef void (*gy_pool_fn)(void *arg, int item, int worker);

/* threads >= 1, the caller's included. */
gy_rc gy_pool_new(int threads, gy_pool **pool, gy_err *err);
void gy_pool_free(gy_pool *pool);
int gy_pool_threads(const gy_pool *pool);
void gy_pool_run(gy_pool *pool, int items, gy_pool_fn fn, void *arg);

#endif
