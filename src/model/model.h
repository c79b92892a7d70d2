/* model/model - an opened checkpoint: files, description, bound weights.
 *
 *     path -> files (tensors or gguf) -> config -> gy_desc -> bind: role -> gy_weight ->
 * gy_plan_build per KV codec
 *
 * gy_model is the public opaque type: refcounted, constant after opening, shared by engines. No
 * tensor byte is read while opening, except norm weights and biases, which are small. */
#ifndef GY_MODEL_MODEL_H
#define GY_MODEL_MODEL_H

#include "file/config.h"
#include "file/tensors.h"
#include "kv/kv.h"
#include "model/desc.h"
#include "text/tmpl.h"
#include "text/tok.h"

struct gy_model {
    _Atomic int refs;
    gy_arena arena;
    char *path;
    bool is_gguf;
    gy_tensors tensors; /* of a directory; for GGUF see gguf.tensors */
    gy_gguf gguf;
    gy_config config;
    gy_json_doc gguf_config; /* config.json words made from GGUF metadata */
    const gy_json *cfg;      /* the root in use */
    const char *type;        /* model_type or GGUF architecture */
    gy_desc desc;            /* empty when opened without weights */
    gy_weight *weight;       /* [n_weights] every bound weight once */
    int n_weights;
    const char **dropped; /* [n_dropped] tensor names listed as not used */
    int n_dropped;
    gy_tok *tok; /* NULL when opened without */
    gy_chat *chat;
    int32_t *eos; /* [n_eos] ascending */
    int n_eos;
    char quant[32];         /* codec of most weights; "" when opened without */
    struct gy_bound *bound; /* bind.c's table: per layer weights; NULL when opened without */
};

/* ---- Parts of opening ---- */

void gy_model_name_quant(gy_model *m); /* fills quant; info.c */
/* Tokenizer, template and end ids of a model whose files are open; text.c. */
gy_rc gy_model_open_text(gy_model *m, const gy_model_options *options, gy_err *err);

/* Compiles the plan for KV codecs, one pair per layer of desc. The plan's ops point to the model's
 * weights. Owned by the caller: gy_plan_free. GY_EUNSUPPORTED names the first layer whose heads do
 * not fit. */
gy_rc gy_plan_build_layers(gy_model *m, const gy_kvpair *kv, gy_plan **plan, gy_err *err);
/* The same codecs k and v in every layer. */
gy_rc gy_plan_build(gy_model *m, gy_cparm k, gy_cparm v, gy_plan **plan, gy_err *err);
/* What a layer keeps, with these codecs. */
gy_rc gy_plan_kv(const gy_layer *l, gy_kvpair c, gy_kvspec *s, gy_err *err);
void gy_plan_free(gy_plan *plan);
/* The plan as text for people, or JSON. */
void gy_plan_print(const gy_plan *plan, bool json, gy_buf *out);
/* True when some LINEAR weight has an integer form, so that `fast` differs from `exact`. */
bool gy_model_quantised(const gy_model *m);

#endif
