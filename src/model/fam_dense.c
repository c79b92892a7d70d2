/* model/fam_dense - families whose layers are attention and a dense feed-forward (spec/models.md
 * 2).
 *
 * One function per family; each edits what gy_desc_base makes of the config. Where mlx-lm and
 * transformers differ, transformers, the authors' code, is followed (spec/models.md 13). */
#include <math.h>

#include "base/num.h"
#include "model/desc.h"
#include "model/rope.h"

#define EACH_LAYER(l, d) for (gy_layer *l = (d)->layer; l < (d)->layer + (d)->n_layers; l++)

static gy_rc llama(const gy_json *c, gy_desc *d, gy_err *e) {
    return gy_desc_base(c, &(gy_desc_absent){.theta = 1e4}, d, e);
}

static gy_rc mistral(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = llama(c, d, e);
    return rc ? rc : gy_desc_window_from(c, d, 0, e);
}

static gy_rc minicpm(const gy_json *c, gy_desc *d, gy_err *e) {
    double embed, depth, base;
    gy_rc rc = llama(c, d, e);
    if (!rc) rc = gy_desc_float(c, "scale_emb", 1, &embed, e);
    if (!rc) rc = gy_desc_float(c, "scale_depth", 1, &depth, e);
    if (!rc) rc = gy_desc_float(c, "dim_model_base", 1, &base, e);
    if (rc) return rc;
    d->embed_scale = (float)embed, d->logit_scale = (float)(base / d->width);
    EACH_LAYER(l, d) l->res_scale = (float)(depth / sqrt(d->n_layers));
    return GY_OK;
}

static gy_rc smollm3(const gy_json *c, gy_desc *d, gy_err *e) {
    const gy_json *turn = gy_json_get(c, "no_rope_layers"); /* 0: the layer carries no position */
    int every;
    gy_rc rc = llama(c, d, e);
    if (!rc) rc = gy_desc_int(c, "no_rope_layer_interval", 1, INT32_MAX, 4, &every, e);
    if (rc) return rc;
    if (!gy_json_null(turn) &&
        (turn->kind != GY_JSON_ARR || (turn->n && (int64_t)turn->n != d->n_layers)))
        return gy_fail(e, GY_EFORMAT, "config: no_rope_layers must be a list of %d numbers",
                       d->n_layers);
    EACH_LAYER(l, d) {
        int64_t on = (l->i + 1) % every != 0;
        if (!gy_json_null(turn) && turn->n && !gy_json_int(turn->item + l->i, &on))
            return gy_fail(e, GY_EFORMAT, "config: no_rope_layers[%d] must be 0 or 1", l->i);
        if (!on) l->mix.rope = (gy_rope){0};
    }
    return GY_OK;
}

/* Windows start at a layer, and only when the config switches them on. */
static gy_rc qwen_window(const gy_json *c, gy_desc *d, gy_err *e) {
    int first;
    gy_rc rc = gy_desc_int(c, "max_window_layers", 0, INT32_MAX, 28, &first, e);
    return rc || !gy_json_b(c, "use_sliding_window", false) ? rc
                                                            : gy_desc_window_from(c, d, first, e);
}

static gy_rc qwen2(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){.theta = 1e6}, d, e);
    if (rc) return rc;
    EACH_LAYER(l, d) l->mix.qkv_bias = true, l->mix.o_bias = false;
    return qwen_window(c, d, e);
}

static gy_rc qwen3(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){0}, d, e);
    if (rc) return rc;
    EACH_LAYER(l, d) l->mix.q_norm = "self_attn.q_norm", l->mix.k_norm = "self_attn.k_norm";
    return qwen_window(c, d, e);
}

static gy_rc gemma(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){.theta = 1e4}, d, e);
    if (rc) return rc;
    /* Published configs name "gelu" and mean the tanh form; a config that names none is the
     * oracle's erf form. */
    bool named = !gy_json_null(gy_json_get(c, "hidden_act")) ||
                 !gy_json_null(gy_json_get(c, "hidden_activation"));
    d->norm = GY_NORM_RMS_PLUS1, d->embed_scale = (float)sqrt(d->width), d->head = GY_HEAD_TIED;
    EACH_LAYER(l, d) l->ffn.act = named ? GY_ACT_GELU_TANH : GY_ACT_GELU_ERF;
    return GY_OK;
}

/* Norms before and after both halves of the layer. */
static void sandwich(gy_layer *l) {
    l->pre_a = "input_layernorm", l->post_a = "post_attention_layernorm";
    l->pre_f = "pre_feedforward_layernorm", l->post_f = "post_feedforward_layernorm";
}

static gy_rc query_scale(const gy_json *c, gy_desc *d, double absent, gy_err *e) {
    double s;
    gy_rc rc = gy_desc_float(c, "query_pre_attn_scalar", absent, &s, e);
    if (!rc && !(s > 0))
        rc = gy_fail(e, GY_EFORMAT, "config: query_pre_attn_scalar must be above 0");
    if (rc) return rc;
    EACH_LAYER(l, d) l->mix.scale = (float)(1 / sqrt(s));
    return GY_OK;
}

/* A cap that is written as null is none, unlike one that is not written. */
static gy_rc cap_of(const gy_json *c, const char *key, double absent, double *out, gy_err *e) {
    const gy_json *v = gy_json_get(c, key);
    gy_rc rc = gy_desc_float(c, key, v ? 0 : absent, out, e);
    return rc || *out >= 0 ? rc : gy_fail(e, GY_EFORMAT, "config: %s must not be negative", key);
}

static gy_rc gemma2(const gy_json *c, gy_desc *d, gy_err *e) {
    double attn, final;
    int window;
    gy_rc rc = gemma(c, d, e);
    if (!rc) rc = query_scale(c, d, 144, e);
    if (!rc) rc = cap_of(c, "attn_logit_softcapping", 50, &attn, e);
    if (!rc) rc = cap_of(c, "final_logit_softcapping", 30, &final, e);
    if (!rc) rc = gy_desc_int(c, "sliding_window", 1, INT32_MAX, 4096, &window, e);
    d->logit_cap = rc ? 0 : (float) final;
    bool types = !gy_json_null(gy_json_get(c, "layer_types"));
    for (gy_layer *l = d->layer; !rc && l < d->layer + d->n_layers; l++) {
        sandwich(l);
        l->mix.cap = (float)attn;
        if (!types && l->i % 2 == 0) l->mix.window = window;
        rc = gy_desc_act(c, "hidden_activation", GY_ACT_GELU_TANH, &l->ffn.act, e);
    }
    return rc;
}

/* Windowed layers rotate with their own base and no scaling. */
static gy_rc gemma3_rope(const gy_json *c, gy_desc *d, gy_err *e) {
    double local;
    gy_rope slow = d->layer->mix.rope, fast;
    gy_rope_config full, plain = {0};
    gy_rc rc = gy_desc_float(c, "rope_local_base_freq", 1e4, &local, e);
    if (!rc) rc = gy_rope_read(c, "full_attention", 1e6, &full, e);
    if (!rc) rc = gy_rope_make(c, &full, slow.rot, slow.pairs, &d->arena, &slow, e);
    if (rc) return rc;
    const gy_json *v5 = gy_json_path(c, "rope_parameters.sliding_attention");
    plain.theta = local;
    if (v5 && gy_json_null(gy_json_get(c, "rope_local_base_freq")) &&
        (rc = gy_rope_read(v5, NULL, 1e4, &plain, e)))
        return rc;
    if (!(plain.theta > 0))
        return gy_fail(e, GY_EFORMAT, "config: rope_local_base_freq must be above 0");
    rc = gy_rope_make(c, &plain, slow.rot, slow.pairs, &d->arena, &fast, e);
    EACH_LAYER(l, d) l->mix.rope = l->mix.window ? fast : slow;
    return rc;
}

static gy_rc gemma3_text(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_desc_absent absent = {.heads = 8, .kv_heads = 4, .dim = 256, .eps = 1e-6, .theta = 1e6};
    int window, every;
    double final;
    gy_rc rc = gy_desc_base(c, &absent, d, e);
    if (!rc) rc = query_scale(c, d, 256, e);
    if (!rc) rc = gy_desc_int(c, "sliding_window", 1, INT32_MAX, 512, &window, e);
    if (!rc) rc = gy_desc_int(c, "sliding_window_pattern", 1, INT32_MAX, 6, &every, e);
    if (!rc) rc = cap_of(c, "final_logit_softcapping", 0, &final, e);
    if (rc) return rc;
    d->norm = GY_NORM_RMS_PLUS1, d->head = GY_HEAD_IF_PRESENT, d->logit_cap = (float) final;
    /* The reference rounds this factor to bf16 whatever type it computes in. */
    d->embed_scale = gy_bf16_f32(gy_f32_bf16((float)sqrt(d->width)));
    bool types = !gy_json_null(gy_json_get(c, "layer_types"));
    for (gy_layer *l = d->layer; !rc && l < d->layer + d->n_layers; l++) {
        sandwich(l);
        l->mix.q_norm = "self_attn.q_norm", l->mix.k_norm = "self_attn.k_norm",
        l->mix.qk_norm_form = GY_NORM_RMS_PLUS1;
        if (!types && (l->i + 1) % every) l->mix.window = window;
        rc = gy_desc_act(c, "hidden_activation", GY_ACT_GELU_TANH, &l->ffn.act, e);
    }
    return rc ? rc : gemma3_rope(c, d, e);
}

static gy_rc gemma3(const gy_json *c, gy_desc *d, gy_err *e) {
    static const gy_desc_root roots[] = {{"language_model.model.", "language_model.lm_head"},
                                         {"model.language_model.", "lm_head"},
                                         {"model.", "lm_head"},
                                         {NULL, NULL}};
    const gy_json *text = gy_json_get(c, "text_config");
    if (!gy_json_is(text, GY_JSON_OBJ))
        return gy_fail(e, GY_EFORMAT, "config: text_config must be an object");
    gy_rc rc = gemma3_text(text, d, e);
    if (rc) return rc;
    d->root = roots;
    static const char *const towers[] = {"vision_tower.*", "multi_modal_projector.*",
                                         "model.vision_tower.*", "model.multi_modal_projector.*"};
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++) d->drop[1 + i] = towers[i];
    return d->vocab ? GY_OK : gy_desc_int(c, "vocab_size", 1, 1 << 26, 0, &d->vocab, e);
}

static gy_rc phi3(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){.theta = 1e4}, d, e);
    if (rc) return rc;
    if (d->head == GY_HEAD_IF_PRESENT) d->head = GY_HEAD_OWN;
    EACH_LAYER(l, d) {
        l->mix.qkv = "self_attn.qkv_proj", l->mix.q = l->mix.k = l->mix.v = NULL;
        l->ffn.gate_up = "mlp.gate_up_proj", l->ffn.gate = l->ffn.up = NULL;
    }
    return gy_desc_window_from(c, d, 0, e);
}

static gy_rc olmo2(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = llama(c, d, e);
    if (rc) return rc;
    EACH_LAYER(l, d) {
        l->pre_a = l->pre_f = NULL;
        l->post_a = "post_attention_layernorm", l->post_f = "post_feedforward_layernorm";
        l->mix.q_norm = "self_attn.q_norm", l->mix.k_norm = "self_attn.k_norm";
    }
    return GY_OK;
}

static gy_rc glm4(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){.partial = 0.5, .pairs = true}, d, e);
    if (rc) return rc;
    if (d->head == GY_HEAD_IF_PRESENT) d->head = GY_HEAD_OWN;
    EACH_LAYER(l, d) {
        l->post_a = "post_self_attn_layernorm", l->post_f = "post_mlp_layernorm";
        l->mix.o_bias = false;
        l->ffn.gate_up = "mlp.gate_up_proj", l->ffn.gate = l->ffn.up = NULL, l->ffn.bias = false;
    }
    return GY_OK;
}

static gy_rc granite(const gy_json *c, gy_desc *d, gy_err *e) {
    double attn, embed, res, div;
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){0}, d, e);
    if (!rc) rc = gy_desc_float(c, "attention_multiplier", 1, &attn, e);
    if (!rc) rc = gy_desc_float(c, "embedding_multiplier", 1, &embed, e);
    if (!rc) rc = gy_desc_float(c, "residual_multiplier", 1, &res, e);
    if (!rc) rc = gy_desc_float(c, "logits_scaling", 1, &div, e);
    if (rc) return rc;
    if (!(div > 0)) return gy_fail(e, GY_EFORMAT, "config: logits_scaling must be above 0");
    d->embed_scale = (float)embed, d->logit_scale = (float)(1 / div);
    EACH_LAYER(l, d) l->mix.scale = (float)attn, l->res_scale = (float)res;
    return GY_OK;
}

static gy_rc starcoder2(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(
        c, &(gy_desc_absent){.theta = 1e5, .eps = 1e-5, .eps_key = "norm_epsilon"}, d, e);
    d->norm = GY_NORM_LAYER, d->norm_bias = true;
    for (gy_layer *l = d->layer; !rc && l < d->layer + d->n_layers; l++) {
        rc = gy_desc_act(c, "hidden_act", GY_ACT_GELU_ERF, &l->ffn.act, e);
        l->ffn.glu = false, l->ffn.gate = NULL, l->ffn.up = "mlp.c_fc", l->ffn.down = "mlp.c_proj";
        l->ffn.bias = l->mix.qkv_bias = l->mix.o_bias = gy_json_b(c, "use_bias", true);
    }
    return rc ? rc : gy_desc_window_from(c, d, 0, e);
}

const gy_family gy_families[] = {
    {"llama", llama},     {"mistral", mistral},       {"iquestcoder", llama},
    {"xverse", llama},    {"minicpm", minicpm},       {"smollm3", smollm3},
    {"qwen2", qwen2},     {"qwen3", qwen3},           {"gemma", gemma},
    {"gemma2", gemma2},   {"gemma3", gemma3},         {"gemma3_text", gemma3_text},
    {"phi3", phi3},       {"olmo2", olmo2},           {"glm4", glm4},
    {"granite", granite}, {"starcoder2", starcoder2}, {NULL, NULL},
};
