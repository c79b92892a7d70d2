/* run/fit - how much memory an engine will take, and what fits a budget, before any is taken.
 *
 *     weights: the mapping | kv: gy_kv_need | prefix: its bound, reached in time |
 *     scratch: of a step of `chunk` rows, and the plan
 *
 * What a step needs is linear in its rows, so backends for one row and for two are made and the
 * bytes that they asked for are counted: no formula here can fall behind what backends do. */
#include <limits.h>

#include "base/mem.h"
#include "run/engine.h"

/* Bytes that a backend for so many rows asks for. */
static gy_rc backend_bytes(const gy_engine *e, const gy_plan *plan, const gy_kv *kv,
                           const char *isa, int rows, int64_t *bytes, gy_err *err) {
    gy_be *be;
    int64_t before = gy_alloc_bytes();
    gy_rc rc = gy_engine_backend(e, plan, kv, isa, rows, &be, err);
    if (rc) return rc;
    *bytes = gy_alloc_bytes() - before;
    be->free(be);
    return GY_OK;
}

typedef struct {
    gy_engine e; /* options as read; owns nothing */
    gy_plan *plan;
    const char *isa;
    int sequences;
    int64_t prefix;
} job;

static int64_t plan_bytes(const gy_plan *p) {
    return (int64_t)sizeof(gy_engine) + (int64_t)sizeof *p + p->n_ops * (int64_t)sizeof *p->op +
           p->n_layers * (int64_t)sizeof *p->kv;
}

static gy_rc need_of(const job *j, int context, gy_need *need, gy_err *err) {
    int64_t one = 0, two = 0, positions;
    gy_kv *kv;
    gy_model_info info;
    positions = (int64_t)(context / GY_PAGE + (context % GY_PAGE != 0)) * GY_PAGE * j->sequences;
    gy_rc rc = gy_kv_new(j->plan->kv, j->plan->n_layers, positions, &kv, err);
    if (rc) return rc;
    rc = backend_bytes(&j->e, j->plan, kv, j->isa, 1, &one, err);
    if (!rc) rc = backend_bytes(&j->e, j->plan, kv, j->isa, 2, &two, err);
    if (rc) return gy_kv_free(kv), rc;
    gy_model_get_info(j->e.model, &info);
    *need = (gy_need){.weights = info.weight_bytes,
                      .kv = gy_kv_need(kv, context, j->e.chunk, j->sequences),
                      .prefix = j->prefix,
                      .scratch = one + (two - one) * (j->e.chunk - 1) +
                                 gy_engine_step_bytes(j->e.chunk) + plan_bytes(j->plan),
                      .kv_token = gy_kv_token_bytes(kv),
                      .context = context};
    need->total = need->weights + need->kv + need->prefix + need->scratch;
    gy_kv_free(kv);
    return GY_OK;
}

/* The largest context in whole pages, or `most` itself, whose need is at most the budget. */
static gy_rc largest(const job *j, int most, int64_t budget, gy_need *need, gy_err *err) {
    int lo = 0, hi = most / GY_PAGE + (most % GY_PAGE != 0); /* lo pages fit, hi + 1 do not */
    gy_need at = {0}, best = {0};
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        gy_rc rc = need_of(j, mid < hi || most > mid * GY_PAGE ? mid * GY_PAGE : most, &at, err);
        if (rc) return rc;
        if (at.total <= budget)
            lo = mid, best = at;
        else
            hi = mid - 1;
    }
    if (!lo) {
        return gy_fail(err, GY_ELIMIT,
                       "memory: %d positions of %d sequences need %lld bytes, of which %lld are "
                       "weights and %lld for shared prefixes; the budget is %lld",
                       at.context, j->sequences, (long long)at.total, (long long)at.weights,
                       (long long)at.prefix, (long long)budget);
    }
    best.by_model = best.context >= most;
    *need = best;
    return GY_OK;
}

gy_rc gy_fit(gy_model *model, const gy_engine_options *options, int64_t budget, gy_need *need,
             gy_err *err) {
    gy_engine_options o = options ? *options : (gy_engine_options){0};
    job j = {.isa = o.isa, .sequences = o.sequences ? o.sequences : 1, .prefix = o.prefix_bytes};
    gy_kvpair *kv;
    gy_model_info info;
    if (err) *err = (gy_err){0};
    if (budget < 0) return gy_fail(err, GY_EARG, "budget: %lld is negative", (long long)budget);
    gy_rc rc = gy_engine_read_options(model, &o, &j.e, err);
    if (!rc) rc = gy_kv_choose(o.kv, model->desc.n_layers, &kv, j.e.kv_name, err);
    if (rc) return rc;
    rc = gy_plan_build_layers(model, kv, &j.plan, err);
    gy_free(kv);
    if (rc) return rc;
    gy_model_get_info(model, &info);
    int most = o.context ? o.context : info.context ? info.context : j.e.context;
    if (most > INT_MAX / j.sequences - GY_PAGE) most = INT_MAX / j.sequences - GY_PAGE;
    rc = budget ? largest(&j, most, budget, need, err) : need_of(&j, j.e.context, need, err);
    gy_plan_free(j.plan);
    return rc;
}
