/* run/engine - one model, one backend, one KV store, and the ragged step.
 *
 *     feeds --cut into chunks--> gy_batch --> for op in plan: be->run --> logits --> caller
 *                                   ^ pages reserved before, tokens appended after each chunk
 *
 * Owner: the caller of gy_engine_new. Thread: one at a time, except the cancel flag. Nothing in a
 * step allocates: the arrays below are sized at creation for `chunk` rows. */
#ifndef GY_RUN_ENGINE_H
#define GY_RUN_ENGINE_H

#include "kv/kv.h"
#include "model/model.h"
#include "run/kvchoice.h"
#include "run/prefix.h"
#include "run/profile.h"

struct gy_engine {
    gy_model *model;
    gy_plan *plan;
    gy_kv *kv;
    gy_prefix *prefix;    /* NULL: none is kept */
    gy_identity identity; /* all-zero until identified; persist.c */
    bool identified;
    gy_store *store; /* behind prefix; NULL: none */
    gy_be *be;
    gy_arith arith;
    char kv_name[GY_KV_NAME];                       /* of the codecs, see kvchoice.h */
    int threads, context, chunk, vocab, vocab_text; /* logits at and beyond vocab_text are -inf */
    _Atomic int cancel;
    gy_trace_fn trace;
    void *trace_arg;
    gy_profile *profile; /* NULL: never asked for */
    /* Step scratch, [chunk] each. */
    int32_t *tok, *pos, *of, *out;
    int *drafts; /* rows of each span that are not committed yet */
    gy_span *span;
    struct gy_seq **seq;
};

/* Checks options and fills in what follows from them: arithmetic, threads, chunk, context, sizes of
 * the vocabulary. e refers to the model without a reference of its own. */
gy_rc gy_engine_read_options(gy_model *model, const gy_engine_options *o, gy_engine *e,
                             gy_err *err);
/* An engine without a model, on a plan that it takes, even when it fails. threads, chunk, context
 * and arith of o must be given; its KV codecs are the plan's. */
gy_rc gy_engine_of_plan(gy_plan *plan, const gy_engine_options *o, gy_engine **engine, gy_err *err);
/* A backend with e's threads and arithmetic, for steps of at most `rows`. */
gy_rc gy_engine_backend(const gy_engine *e, const gy_plan *plan, const gy_kv *kv, const char *isa,
                        int rows, gy_be **be, gy_err *err);
int64_t gy_engine_step_bytes(int chunk); /* of the step scratch */
/* True once per gy_cancel: takes the flag back. */
bool gy_engine_cancelled(gy_engine *e);

#endif
