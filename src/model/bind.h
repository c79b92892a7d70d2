/* model/bind - role -> weight: gives every role of a description its tensor.
 *
 *     description + tensors -> gy_bind -> weights (views of the mapping), norms and biases (copied
 * to f32)
 *
 * Every tensor must be bound or listed as dropped, and every role must have its tensor; shapes must
 * be what the description says. Nothing else of the files is read. Owner: the model's arena. */
#ifndef GY_MODEL_BIND_H
#define GY_MODEL_BIND_H

#include "model/model.h"

enum { GY_BOUND_ROLES = 15, GY_BOUND_OUTSIDE = 3 };

typedef struct { /* NULL where the files spell it otherwise */
    gy_weight *qkv, *z, *b, *a, *qkvz, *ba, *norm, *o;
    const float *conv;           /* [taps][channels] */
    const float *rate, *dt_bias; /* [v_heads] */
} gy_bound_delta;

typedef struct {
    gy_weight *q_a, *q_a_norm, *q_b, *q, *kv_a, *kv_a_norm, *o;
    gy_weight *embed, *unembed; /* [heads], views of stacks */
} gy_bound_latent;

typedef struct {
    gy_weight *router, *shared_gate; /* shared_gate NULL: none */
    gy_weight *gate, *up, *down;     /* [experts], views of the files' stacks */
    const float *choice_bias;        /* [experts] or NULL */
} gy_bound_moe;

typedef struct { /* NULL where the layer has no such role */
    gy_weight *pre_a, *post_a, *pre_f, *post_f, *q_norm, *k_norm; /* norms: one row of f32 */
    gy_weight *q, *k, *v, *qkv, *o, *gate, *up, *down, *gate_up;
    gy_bound_latent latent;
    gy_bound_delta delta; /* of a delta mixer */
    const float *sinks;   /* [heads] or NULL */
    gy_bound_moe moe;     /* of a feed-forward with experts */
} gy_bound_layer;

struct gy_bound {
    gy_weight *embed, *final_norm, *head; /* head is embed when tied */
    gy_bound_layer *layer;                /* [desc.n_layers] */
    int64_t parameters, bytes; /* number of weights; bytes of the mapping that hold them */
};

/* Fills weight, n_weights, dropped, n_dropped and bound of m, whose files, cfg and desc are there;
 * sets desc.vocab. */
gy_rc gy_bind(gy_model *m, gy_err *err);

/* The tensors of a model, of either kind of file. */
static inline const gy_tensors *gy_model_tensors(const gy_model *m) {
    return m->is_gguf ? &m->gguf.tensors : &m->tensors;
}

#endif
