/* model/desc - what a model is, in mechanisms; never which family it is.
 *
 * A family function (fam_*.c) turns a config into a gy_desc; plan.c compiles the gy_desc. Zero means absent; strings are
 * tensor names inside the layer ("self_attn.q_proj"), without ".weight". Facts visible in the checkpoint are not fields:
 * a bias exists if its tensor does; a q/k norm is per head or over the whole projection by its length.
 * Everything lives in the arena of the model; constant after describe. */
#ifndef GY_MODEL_DESC_H
#define GY_MODEL_DESC_H

#include "base/json.h"
#include "op/op.h"

typedef struct {
    int rot;                 /* rotated leading dims of a head; 0: no rotation (NoPE) */
    bool pairs;
    float mscale;            /* 1 unless the scaling says otherwise */
    const float *inv_freq;   /* [rot/2] */
    int dyn_max;             /* dynamic NTK, see op.h */
    double dyn_base, dyn_factor;
} gy_rope;

typedef struct {
    int heads, kv_heads, dim, window;    /* window 0: all */
    const char *q, *k, *v, *qkv, *o;     /* qkv: fused rows q | k | v, instead of q, k, v */
    const char *q_norm, *k_norm;
    uint8_t qk_norm_form;                /* gy_norm_form */
    float scale, cap;
    gy_rope rope;
} gy_mix;

typedef struct { uint8_t act; bool glu; const char *gate, *up, *down, *gate_up; } gy_ffn; /* gate_up: fused rows */

typedef struct {
    int i;
    const char *prefix;                            /* "model.layers.3." */
    const char *pre_a, *post_a, *pre_f, *post_f;   /* norm slots; NULL: none */
    float res_scale;                               /* 1 unless stated */
    gy_mix mix;
    gy_ffn ffn;
} gy_layer;

typedef struct {
    const char *type;
    const char *embed, *final_norm, *head;         /* head NULL: tied */
    uint8_t norm;                                  /* gy_norm_form of all but q/k norms */
    float eps, embed_scale, logit_scale, logit_cap;
    int n_layers, width, ffn_width, vocab, context;
    gy_layer *layer;                               /* [n_layers] */
    const char *const *drop;                       /* NULL-terminated globs of tensors that are known and not used */
    gy_arena *arena;
} gy_desc;

/* config is config.json's root, or what fam_gguf.c makes of GGUF metadata in the same words. */
typedef struct { const char *type; gy_rc (*describe)(const gy_json *config, gy_desc *d, gy_err *err); } gy_family;
extern const gy_family gy_families[]; /* ends with type NULL */

/* The default that every family edits: reads the keys that llama-like configs share. */
gy_rc gy_desc_llama(const gy_json *config, gy_desc *d, gy_err *err);
gy_rc gy_describe(const gy_json *config, gy_desc *d, gy_err *err); /* picks the family by model_type */

#endif
