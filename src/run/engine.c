#include "run/engine.h"

#include <sched.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "run/persist.h"

enum { CONTEXT_DEFAULT = 32768, CHUNK_DEFAULT = 512, CHUNK_MAX = 8192, THREADS_MAX = 1024 };

static int cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static int threads_wanted(int asked) {
    if (!asked) {
        char *env = gy_env(GY_ENV_THREADS);
        asked = env ? atoi(env) : 0;
        gy_free(env);
    }
    if (asked < 1) asked = cores();
    return asked > THREADS_MAX ? THREADS_MAX : asked;
}

static gy_rc check_options(const gy_engine_options *o, gy_err *err) {
    if (o->threads < 0) return gy_fail(err, GY_EARG, "threads: %d is negative", o->threads);
    if (o->context < 0) return gy_fail(err, GY_EARG, "context: %d is negative", o->context);
    if (o->sequences < 0 || o->sequences > 65536)
        return gy_fail(err, GY_EARG, "sequences: %d is not in 0..65536", o->sequences);
    if (o->chunk < 0 || o->chunk > CHUNK_MAX)
        return gy_fail(err, GY_EARG, "chunk: %d is not in 0..%d", o->chunk, CHUNK_MAX);
    if (o->prefix_bytes < 0)
        return gy_fail(err, GY_EARG, "prefix_bytes: %lld is negative", (long long)o->prefix_bytes);
    if (o->prefix_dir_bytes < 0 || (o->prefix_dir && !o->prefix_bytes))
        return gy_fail(err, GY_EARG, "prefix_dir: needs prefix_bytes, and no negative size");
    if (o->memory < 0)
        return gy_fail(err, GY_EARG, "memory: %lld is negative", (long long)o->memory);
    if ((unsigned)o->arith > GY_ARITH_FAST)
        return gy_fail(err, GY_EARG, "arith: %d is not a gy_arith", (int)o->arith);
    return GY_OK;
}

static gy_rc take_scratch(gy_engine *e, gy_err *err) {
    size_t n = (size_t)e->chunk;
    e->tok = gy_alloc_n(n, sizeof *e->tok), e->pos = gy_alloc_n(n, sizeof *e->pos),
    e->of = gy_alloc_n(n, sizeof *e->of), e->drafts = gy_alloc_n(n, sizeof *e->drafts);
    e->out = gy_alloc_n(n, sizeof *e->out), e->span = gy_alloc_n(n, sizeof *e->span),
    e->seq = gy_alloc_n(n, sizeof *e->seq);
    if (e->tok && e->pos && e->of && e->drafts && e->out && e->span && e->seq) return GY_OK;
    return gy_fail(err, GY_ENOMEM, "engine: out of memory");
}

int64_t gy_engine_step_bytes(int chunk) {
    const gy_engine *e = NULL;
    return (int64_t)chunk *
           (int64_t)(sizeof *e->tok + sizeof *e->pos + sizeof *e->of + sizeof *e->out +
                     sizeof *e->drafts + sizeof *e->span + sizeof *e->seq);
}

gy_rc gy_engine_backend(const gy_engine *e, const gy_plan *plan, const gy_kv *kv, const char *isa,
                        int rows, gy_be **be, gy_err *err) {
    gy_be_arith arith = e->arith == GY_ARITH_EXACT ? GY_BE_EXACT : GY_BE_FAST;
    return gy_cpu_new(plan, kv, e->threads, arith, isa, rows, be, err);
}

/* All but the plan, which is there. */
static gy_rc build_on_plan(gy_engine *e, const gy_engine_options *o, gy_err *err) {
    int64_t pages = e->context / GY_PAGE + (e->context % GY_PAGE != 0),
            positions = pages * GY_PAGE * (o->sequences ? o->sequences : 1);
    gy_rc rc = gy_kv_new(e->plan->kv, e->plan->n_layers, positions, &e->kv, err);
    if (!rc) rc = gy_engine_open_prefix(e, o, err);
    if (!rc) rc = take_scratch(e, err);
    if (!rc) rc = gy_engine_backend(e, e->plan, e->kv, o->isa, e->chunk, &e->be, err);
    return rc;
}

static gy_rc build(gy_engine *e, const gy_engine_options *o, gy_err *err) {
    gy_kvpair *kv = NULL;
    gy_rc rc = gy_kv_choose(o->kv, e->model->desc.n_layers, &kv, e->kv_name, err);
    if (!rc) rc = gy_plan_build_layers(e->model, kv, &e->plan, err);
    gy_free(kv);
    return rc ? rc : build_on_plan(e, o, err);
}

gy_rc gy_engine_of_plan(gy_plan *plan, const gy_engine_options *o, gy_engine **engine,
                        gy_err *err) {
    gy_engine *e = gy_alloc(sizeof *e);
    if (!e) return gy_plan_free(plan), gy_fail(err, GY_ENOMEM, "engine: out of memory");
    e->plan = plan, e->arith = o->arith;
    e->threads = o->threads, e->chunk = o->chunk, e->context = o->context;
    e->vocab = e->vocab_text = plan->vocab;
    gy_rc rc = check_options(o, err);
    if (!rc) rc = build_on_plan(e, o, err);
    if (rc) return gy_engine_free(e), rc;
    *engine = e;
    return GY_OK;
}

gy_rc gy_engine_read_options(gy_model *model, const gy_engine_options *o, gy_engine *e,
                             gy_err *err) {
    gy_model_info info;
    gy_rc rc = check_options(o, err);
    if (rc) return rc;
    gy_model_get_info(model, &info);
    e->model = model;
    e->arith = o->arith != GY_ARITH_DEFAULT ? o->arith
               : gy_model_quantised(model)  ? GY_ARITH_FAST
                                            : GY_ARITH_EXACT;
    e->threads = threads_wanted(o->threads);
    e->chunk = o->chunk ? o->chunk : CHUNK_DEFAULT;
    e->context = o->context ? o->context : info.context ? info.context : CONTEXT_DEFAULT;
    if (!o->context && e->context > CONTEXT_DEFAULT) e->context = CONTEXT_DEFAULT;
    e->vocab = info.vocab;
    e->vocab_text =
        model->tok && gy_tok_size(model->tok) < info.vocab ? gy_tok_size(model->tok) : info.vocab;
    return GY_OK;
}

/* A bound on memory is kept before any is taken. */
static gy_rc check_memory(gy_model *model, const gy_engine_options *o, gy_err *err) {
    gy_need need;
    gy_rc rc = o->memory ? gy_fit(model, o, 0, &need, err) : GY_OK;
    if (rc || !o->memory || need.total <= o->memory) return rc;
    return gy_fail(err, GY_ELIMIT,
                   "memory: %d sequences of %d positions need %lld bytes (weights %lld, KV %lld, "
                   "shared prefixes %lld, steps %lld); the bound is %lld",
                   o->sequences ? o->sequences : 1, need.context, (long long)need.total,
                   (long long)need.weights, (long long)need.kv, (long long)need.prefix,
                   (long long)need.scratch, (long long)o->memory);
}

gy_rc gy_engine_new(gy_model *model, const gy_engine_options *options, gy_engine **engine,
                    gy_err *err) {
    gy_engine_options o = options ? *options : (gy_engine_options){0};
    if (err) *err = (gy_err){0};
    gy_engine *e = gy_alloc(sizeof *e);
    if (!e) return gy_fail(err, GY_ENOMEM, "engine: out of memory");
    gy_rc rc = gy_engine_read_options(model, &o, e, err);
    if (!rc) rc = check_memory(model, &o, err);
    if (rc) return gy_free(e), rc;
    gy_model_ref(model);
    rc = build(e, &o, err);
    if (rc) return gy_engine_free(e), rc;
    *engine = e;
    return GY_OK;
}

void gy_engine_free(gy_engine *e) {
    if (!e) return;
    if (e->be) e->be->free(e->be);
    gy_profile_free(e->profile);
    gy_prefix_free(e->prefix);
    gy_store_close(e->store);
    gy_kv_free(e->kv);
    gy_plan_free(e->plan);
    gy_model_unref(e->model);
    gy_free(e->tok), gy_free(e->pos), gy_free(e->of), gy_free(e->drafts), gy_free(e->out),
        gy_free(e->span), gy_free(e->seq);
    gy_free(e);
}

void gy_engine_get_info(const gy_engine *e, gy_engine_info *info) {
    int64_t scratch = 0;
    gy_prefix_stats prefix = {0};
    if (e->prefix) gy_prefix_get_stats(e->prefix, &prefix);
    for (int s = 0; s < e->plan->n_slots; s++)
        scratch += (int64_t)e->plan->slot_cols[s] * 4 * e->chunk;
    *info = (gy_engine_info){.threads = e->threads,
                             .context = e->context,
                             .chunk = e->chunk,
                             .arith = e->arith,
                             .kv = e->kv_name,
                             .kv_bytes_token = gy_kv_token_bytes(e->kv),
                             .kv_bytes = gy_kv_held_bytes(e->kv),
                             .prefix_bytes = prefix.bytes,
                             .scratch_bytes = scratch,
                             .packed_bytes = (int64_t)e->be->packed_bytes(e->be),
                             .kv_saturated = e->be->saturated(e->be),
                             .ops = e->plan->n_ops};
}

gy_rc gy_explain(const gy_engine *e, bool json, char **text, gy_err *err) {
    gy_buf b = {0};
    if (err) *err = (gy_err){0};
    gy_plan_print(e->plan, json, &b);
    char *p = gy_buf_take(&b, NULL);
    if (!p) return gy_buf_free(&b), gy_fail(err, GY_ENOMEM, "explain: out of memory");
    *text = p;
    return GY_OK;
}

void gy_engine_trace(gy_engine *e, gy_trace_fn fn, void *arg) {
    e->trace = fn, e->trace_arg = arg;
}

gy_rc gy_engine_profile(gy_engine *e, bool on, gy_err *err) {
    if (err) *err = (gy_err){0};
    if (on && !e->profile) {
        gy_rc rc = gy_profile_new(e->plan, e->arith == GY_ARITH_FAST, &e->profile, err);
        if (rc) return rc;
    }
    if (e->profile) e->profile->on = on;
    return GY_OK;
}

int gy_engine_profile_take(gy_engine *e, gy_op_time *out, int n) {
    gy_profile *p = e->profile;
    for (int g = 0; p && g < p->groups; g++) {
        gy_op_time *at = p->group + g;
        if (g < n) out[g] = *at;
        at->runs = at->bytes = at->ops = at->int8_ops = 0, at->seconds = 0;
    }
    return p ? p->groups : 0;
}

void gy_cancel(gy_engine *e) {
    atomic_store(&e->cancel, 1);
}
bool gy_engine_cancelled(gy_engine *e) {
    return atomic_load(&e->cancel) && atomic_exchange(&e->cancel, 0);
}

/* ---- Sequences: the public names of the store's ---- */

gy_rc gy_seq_new(gy_engine *e, gy_seq **seq, gy_err *err) {
    if (err) *err = (gy_err){0};
    return gy_kv_seq_new(e->kv, seq, err);
}

void gy_seq_free(gy_engine *e, gy_seq *seq) {
    if (seq) gy_kv_seq_free(e->kv, seq); /* with a NULL sequence the engine may be NULL too */
}

gy_rc gy_seq_fork(gy_engine *e, const gy_seq *from, gy_seq **seq, gy_err *err) {
    if (err) *err = (gy_err){0};
    return gy_kv_seq_fork(e->kv, from, seq, err);
}

int gy_seq_len(const gy_seq *seq) {
    return seq->len + seq->replay;
}
const int32_t *gy_seq_tokens(const gy_seq *seq) {
    return seq->tok;
}

gy_rc gy_seq_trim(gy_engine *e, gy_seq *seq, int len, gy_err *err) {
    if (err) *err = (gy_err){0};
    if (len < 0 || len > gy_seq_len(seq))
        return gy_fail(err, GY_EARG, "trim: length %d is not in 0..%d", len, gy_seq_len(seq));
    return gy_kv_trim(e->kv, seq, len, err);
}

gy_rc gy_seq_settle(gy_engine *e, gy_seq *seq, int keep, gy_err *err) {
    if (err) *err = (gy_err){0};
    return gy_kv_settle(e->kv, seq, keep, err);
}

gy_rc gy_seq_transition(gy_engine *e, gy_seq *seq, const char *kv, int first, gy_err *err) {
    gy_kvpair *pair;
    char name[GY_KV_NAME];
    int coding;
    if (err) *err = (gy_err){0};
    gy_rc rc = gy_kv_choose(kv, e->plan->n_layers, &pair, name, err);
    if (rc) return rc;
    rc = gy_kv_coding(e->kv, pair, &coding, err);
    gy_free(pair);
    return rc ? rc : gy_kv_transition(e->kv, seq, coding, first, err);
}
