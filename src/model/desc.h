/* model/desc - what a model is, in mechanisms; never which family it is.
 *
 * A family function (fam_*.c) turns a config into a gy_desc; plan.c compiles the gy_desc. Zero
 * means absent; strings are tensor names inside the layer ("self_attn.q_proj"), without ".weight".
 * Facts visible in the checkpoint are not fields: a bias is used if its tensor exists; a q/k norm
 * is per head or over the whole projection by its length. What a config promises is a field:
 * `..._bias` means that the load fails when the tensor is not there.
 *
 *     a role's tensor:  root.body  layer.prefix  role              .weight
 *                       "model."   "layers.3."   "self_attn.q_proj"
 *
 * Strings and layers live in the description's arena until gy_desc_free; constant after describe.
 * Thread: any, after that. Bits: rotary frequencies are computed here (rope.h); they are part of
 * GY_BITS. */
#ifndef GY_MODEL_DESC_H
#define GY_MODEL_DESC_H

#include "base/json.h"
#include "op/op.h"

typedef struct {
    int rot; /* rotated leading dims of a head; 0: no rotation (NoPE) */
    bool pairs;
    float mscale;          /* 1 unless the scaling says otherwise */
    const float *inv_freq; /* [rot/2] */
    int dyn_max;           /* dynamic NTK, see op.h */
    double dyn_base, dyn_factor;
} gy_rope;

/* The gated delta rule (kv.md 4.7): each value head reads its share of the key heads. Channels of
 * the convolution are q | k | v. */
typedef struct {
    int k_heads, v_heads, kdim, vdim, taps;
    const char *qkv, *z, *b, *a; /* rows q | k | v of all heads; output gate; beta; decay */
    const char *qkvz, *ba;       /* fused instead: per key head q | k | v | z and b | a */
    const char *conv, *norm, *o;
    const char *rate, *dt_bias; /* whole tensor names: log of the decay's rate; its bias */
} gy_delta;

/* Attention over latents: a row stores one vector of rank values and `turned` rotated ones. Heads
 * of queries, plain | turned, are taken into the latent space, and results out of it. */
typedef struct {
    int q_rank, rank, plain, turned, vdim; /* q_rank 0: queries straight from q */
    const char *q, *q_a, *q_a_norm, *q_b, *kv_a, *kv_a_norm, *o;
    bool bias;                   /* promised: of q_a, kv_a and o */
    const char *embed, *unembed; /* stacks [heads, rank, plain] and [heads, vdim, rank] */
    float eps;                   /* of these norms */
} gy_latent;

typedef enum { GY_MIX_ATTN, GY_MIX_DELTA, GY_MIX_LATENT } gy_mix_kind;

typedef struct {
    uint8_t kind;  /* gy_mix_kind; of DELTA only `delta` is meant */
    bool out_gate; /* q has rows q | gate for each head; attention's result is gated by sigmoid */
    gy_delta delta;
    gy_latent latent;                 /* of LATENT, with heads, scale and rope */
    int heads, kv_heads, dim, window; /* window 0: all */
    const char *q, *k, *v, *qkv, *o;  /* qkv: fused rows q | k | v, instead of q, k, v */
    const char *q_norm, *k_norm;
    const char *sinks;    /* whole tensor name: a logit per head that takes weight and gives none */
    uint8_t qk_norm_form; /* gy_norm_form */
    bool qkv_bias, o_bias; /* promised by the config, so that a missing tensor is an error */
    float scale, cap;
    gy_rope rope;
} gy_mix;

/* Experts: a router chooses top_k of them for each row. Files hold them as stacks [experts, ...],
 * as one module each, or as fused stacks; the first that is there is used. */
typedef struct {
    const char *router;           /* NULL: no experts */
    bool router_bias, biases;     /* promised: of the router; of the experts' matrices */
    const char *gate, *up, *down; /* stacks */
    const char *each, *each_gate, *each_up, *each_down; /* "mlp.experts." N "." "gate_proj" */
    const char *fused_gate_up, *fused_down;             /* whole names */
    const char *block_gate_up, *block_down; /* + "_blocks", "_scales", "_bias": MXFP4, and rows of
                                             * gate and up take turns */
    const char *choice_bias;                /* whole name */
    const char *shared_gate;                /* one row: its sigmoid scales the shared expert */
    int experts, top_k, width;
    int groups, kept; /* groups 0: none */
    uint8_t score;    /* gy_route_score */
    bool renorm;
    float scale; /* of the weights */
} gy_moe;

/* With experts, the matrices named here are a shared expert's, which every row takes; up NULL:
 * there is none. */
typedef struct {
    gy_moe moe;
    uint8_t act;    /* gy_act_form */
    bool glu, bias; /* bias: promised by the config */
    int width;      /* columns after the activation */
    const char *gate, *up, *down,
        *gate_up; /* gate_up: fused rows gate | up; a plain ffn has up and down */
} gy_ffn;

typedef struct {
    int i;
    const char *prefix;                          /* "layers.3." */
    const char *pre_a, *post_a, *pre_f, *post_f; /* norm slots; NULL: none */
    float res_scale;                             /* 1 unless stated */
    gy_mix mix;
    gy_ffn ffn;
} gy_layer;

/* How files of the family spell the parts outside layers. Candidates are tried in order: the first
 * whose embedding exists is the one. */
typedef struct {
    const char *body; /* in front of embed, final_norm and layer prefixes: "model." */
    const char *head; /* "lm_head" */
} gy_desc_root;

typedef enum {
    GY_HEAD_TIED,      /* the embedding is the head; a head tensor in the files is dropped */
    GY_HEAD_OWN,       /* the head tensor must be there */
    GY_HEAD_IF_PRESENT /* the config does not say: its own if the files hold one */
} gy_head;

enum { GY_DESC_DROPS = 16 };

typedef struct {
    const char *type;         /* model_type */
    const gy_desc_root *root; /* ends with body NULL */
    const char *embed, *final_norm;
    uint8_t head;      /* gy_head */
    uint8_t norm;      /* gy_norm_form of all but q/k norms */
    bool norm_bias;    /* promised by the family: every such norm has a bias */
    bool norm_by_taps; /* files whose convolutions have the taps last hold every norm as w - 1, but
                        * for those of delta mixers */
    float eps, embed_scale, logit_scale, logit_cap;
    int n_layers, width, vocab, context; /* vocab 0: as many as the embedding has rows */
    gy_layer *layer;                     /* [n_layers] */
    const char
        *drop[GY_DESC_DROPS]; /* NULL-terminated globs of tensors that are known and not used */
    gy_arena arena;
} gy_desc;

/* config is config.json's root, or what fam_gguf.c makes of GGUF metadata in the same words. */
typedef struct {
    const char *type; /* model_type */
    gy_rc (*describe)(const gy_json *config, gy_desc *d, gy_err *err);
} gy_family;
extern const gy_family gy_families[], gy_families_moe[], gy_families_mix[],
    gy_families_mla[]; /* each ends with type NULL */

/* Picks the family by model_type. On failure d is empty. */
gy_rc gy_describe(const gy_json *config, gy_desc *d, gy_err *err);
void gy_desc_free(gy_desc *d);

/* ---- For family functions (desc.c) ---- */

/* What absent keys mean; 0: the key is required, or follows from others (head_dim from the width,
 * kv_heads from heads). */
typedef struct {
    int heads, kv_heads, dim;
    int wide;                   /* intermediate_size */
    double eps, theta, partial; /* partial: rotated part of a head, 0 is 1 */
    const char *eps_key;        /* NULL: rms_norm_eps */
    bool pairs;                 /* of rotation, when rope_traditional is absent */
    bool linear; /* layer_types may say "linear_attention": layers that the family describes */
} gy_desc_absent;

/* The description that every family edits: reads the keys that llama-like configs share. */
gy_rc gy_desc_base(const gy_json *config, const gy_desc_absent *absent, gy_desc *d, gy_err *err);

/* Readers: null is absent; a value of another kind or out of range is an error that names the key.
 */
gy_rc gy_desc_int(const gy_json *config, const char *key, int64_t low, int64_t high, int64_t absent,
                  int *out, gy_err *err); /* absent < 0: required */
gy_rc gy_desc_float(const gy_json *config, const char *key, double absent, double *out,
                    gy_err *err); /* NAN: required */
gy_rc gy_desc_act(const gy_json *config, const char *key, uint8_t absent, uint8_t *out,
                  gy_err *err);
/* Which keys hold the number of experts and their width; what absent keys mean, 0: required. */
typedef struct {
    const char *experts_key, *width_key;
    int experts, top_k;
} gy_desc_moe_keys;
gy_rc gy_desc_moe(const gy_json *config, const gy_desc_moe_keys *keys, gy_moe *moe, gy_err *err);
/* Experts as "mlp.gate", "mlp.switch_mlp.*" in layers that are not in mlp_only_layers and are every
 * decoder_sparse_step-th, or in all; a shared expert besides; renorm_key: norm_topk_prob counts,
 * whose absence means renorm. */
typedef struct {
    bool all, shared, renorm_key, renorm;
} gy_desc_sparse;
gy_rc gy_desc_moe_sparse(const gy_json *config, const gy_desc_sparse *form, gy_desc *d,
                         gy_err *err);
/* Gives layers [first, n_layers) the config's sliding_window unless layer_types, which base has
 * applied, or an explicit use_sliding_window: false rules. */
gy_rc gy_desc_window_from(const gy_json *config, gy_desc *d, int first, gy_err *err);

#endif
