/* model/desc - what families share: reading a config into a description. Names no family. */
#include "model/desc.h"

#include <math.h>
#include <stdio.h>

#include "model/rope.h"

enum {
    MAX_LAYERS = 4096,
    MAX_WIDTH = 1 << 20,
    MAX_HEADS = 1 << 14,
    MAX_DIM = 1 << 14,
    MAX_EXPERTS = 1 << 12,
    MAX_VOCAB = 1 << 26
};

gy_rc gy_desc_int(const gy_json *config, const char *key, int64_t low, int64_t high, int64_t absent,
                  int *out, gy_err *err) {
    const gy_json *v = gy_json_get(config, key);
    int64_t i;
    double f;
    if (gy_json_null(v)) {
        if (absent < 0) return gy_fail(err, GY_EFORMAT, "config: %s is missing", key);
        return *out = (int)absent, GY_OK;
    }
    if (!gy_json_int(v, &i)) {
        /* 4096.0 is how some writers print an integer. */
        if (!gy_json_num(v, &f) || !(fabs(f) < 0x1p53) || f != floor(f))
            return gy_fail(err, GY_EFORMAT, "config: %s must be an integer", key);
        i = (int64_t)f;
    }
    if (i < low || i > high)
        return gy_fail(err, GY_EFORMAT, "config: %s is %lld, must be %lld to %lld", key,
                       (long long)i, (long long)low, (long long)high);
    return *out = (int)i, GY_OK;
}

gy_rc gy_desc_float(const gy_json *config, const char *key, double absent, double *out,
                    gy_err *err) {
    const gy_json *v = gy_json_get(config, key);
    double f;
    if (gy_json_null(v)) {
        if (isnan(absent)) return gy_fail(err, GY_EFORMAT, "config: %s is missing", key);
        return *out = absent, GY_OK;
    }
    if (!gy_json_num(v, &f) || !isfinite(f) || !isfinite((float)f))
        return gy_fail(err, GY_EFORMAT, "config: %s must be a finite number", key);
    return *out = f, GY_OK;
}

gy_rc gy_desc_act(const gy_json *config, const char *key, uint8_t absent, uint8_t *out,
                  gy_err *err) {
    static const struct {
        const char *name;
        uint8_t act;
    } acts[] = {
        {"silu", GY_ACT_SILU},
        {"swish", GY_ACT_SILU},
        {"gelu", GY_ACT_GELU_ERF},
        {"gelu_pytorch_tanh", GY_ACT_GELU_TANH},
        {"gelu_new", GY_ACT_GELU_TANH},
        {"gelu_fast", GY_ACT_GELU_TANH},
        {"gelu_tanh", GY_ACT_GELU_TANH},
        {"relu", GY_ACT_RELU},
        {"relu2", GY_ACT_RELU2},
        {"relu_squared", GY_ACT_RELU2},
        {"quick_gelu", GY_ACT_QUICK_GELU},
    };
    const gy_json *v = gy_json_get(config, key);
    char quoted[64];
    if (gy_json_null(v)) return *out = absent, GY_OK;
    if (v->kind != GY_JSON_STR) return gy_fail(err, GY_EFORMAT, "config: %s must be a string", key);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(v->s, acts[i].name)) return *out = acts[i].act, GY_OK;
    return gy_fail(err, GY_EUNSUPPORTED, "config: %s \"%s\" is not supported", key,
                   gy_err_quote(quoted, v->s, v->n));
}

static gy_rc window_of(const gy_json *config, int *window, gy_err *err) {
    return gy_desc_int(config, "sliding_window", 1, INT32_MAX, 0, window, err);
}

gy_rc gy_desc_window_from(const gy_json *config, gy_desc *d, int first, gy_err *err) {
    int window;
    gy_rc rc = window_of(config, &window, err);
    if (rc || !gy_json_null(gy_json_get(config, "layer_types")) ||
        !gy_json_b(config, "use_sliding_window", true))
        return rc;
    for (gy_layer *l = d->layer; l < d->layer + d->n_layers; l++)
        if (l->i >= first) l->mix.window = window;
    return GY_OK;
}

/* layer_types: one word per layer. */
static gy_rc layer_types(const gy_json *config, bool linear, gy_desc *d, gy_err *err) {
    const gy_json *types = gy_json_get(config, "layer_types");
    bool use = gy_json_b(config, "use_sliding_window", true);
    char quoted[64];
    int window;
    gy_rc rc = window_of(config, &window, err);
    if (rc || gy_json_null(types)) return rc;
    if (types->kind != GY_JSON_ARR || (int64_t)types->n != d->n_layers)
        return gy_fail(err, GY_EFORMAT, "config: layer_types must be a list of %d names",
                       d->n_layers);
    for (gy_layer *l = d->layer; l < d->layer + d->n_layers; l++) {
        const gy_json *t = types->item + l->i;
        if (t->kind != GY_JSON_STR)
            return gy_fail(err, GY_EFORMAT, "config: layer_types[%d] must be a string", l->i);
        if (!strcmp(t->s, "full_attention") || (linear && !strcmp(t->s, "linear_attention")))
            continue;
        if (strcmp(t->s, "sliding_attention"))
            return gy_fail(err, GY_EUNSUPPORTED, "config: layer type \"%s\" is not supported",
                           gy_err_quote(quoted, t->s, t->n));
        if (!window)
            return gy_fail(err, GY_EFORMAT,
                           "config: layer_types has sliding_attention without sliding_window");
        if (use) l->mix.window = window;
    }
    return GY_OK;
}

/* Rotated dimensions of a head: rotary_dim as written, else a part of the head, cut to an integer.
 */
static gy_rc rotated(const gy_json *config, const gy_desc_absent *absent, int dim, int *rot,
                     gy_err *err) {
    const char *key = "partial_rotary_factor";
    const gy_json *from =
        gy_json_null(gy_json_get(config, key)) ? gy_json_get(config, "rope_parameters") : config;
    double part;
    gy_rc rc = gy_desc_float(from, key, absent->partial > 0 ? absent->partial : 1, &part, err);
    if (rc) return rc;
    if (!(part > 0) || part > 1)
        return gy_fail(err, GY_EFORMAT, "config: %s must be above 0, at most 1", key);
    return gy_desc_int(config, "rotary_dim", 2, dim, (int)(dim * part), rot, err);
}

static gy_rc ropes(const gy_json *config, const gy_desc_absent *absent, gy_desc *d, gy_err *err) {
    static const char *const type[2] = {"full_attention", "sliding_attention"};
    gy_rope rope[2];
    int rot;
    gy_rc rc = rotated(config, absent, d->layer->mix.dim, &rot, err);
    bool pairs = gy_json_b(config, "rope_traditional", absent->pairs);
    bool each = gy_json_is(gy_json_path(config, "rope_parameters.sliding_attention"), GY_JSON_OBJ);
    for (int i = 0; !rc && i < 2; i++) {
        gy_rope_config c;
        if (i && !each) {
            rope[1] = rope[0];
            continue;
        }
        rc = gy_rope_read(config, type[i], absent->theta, &c, err);
        if (!rc) rc = gy_rope_make(config, &c, rot, pairs, &d->arena, rope + i, err);
    }
    for (gy_layer *l = d->layer; !rc && l < d->layer + d->n_layers; l++)
        l->mix.rope = rope[l->mix.window > 0];
    return rc;
}

static gy_rc sizes(const gy_json *config, const gy_desc_absent *a, gy_desc *d, gy_mix *mix,
                   gy_ffn *ffn, gy_err *err) {
    double eps;
    gy_rc rc = gy_desc_int(config, "hidden_size", 1, MAX_WIDTH, -1, &d->width, err);
    if (!rc) rc = gy_desc_int(config, "num_hidden_layers", 1, MAX_LAYERS, -1, &d->n_layers, err);
    if (!rc) rc = gy_desc_int(config, "vocab_size", 1, MAX_VOCAB, 0, &d->vocab, err);
    if (!rc) rc = gy_desc_int(config, "max_position_embeddings", 0, INT32_MAX, 0, &d->context, err);
    if (!rc)
        rc = gy_desc_int(config, "intermediate_size", 1, MAX_WIDTH, a->wide ? a->wide : -1,
                         &ffn->width, err);
    if (!rc)
        rc = gy_desc_int(config, "num_attention_heads", 1, MAX_HEADS, a->heads ? a->heads : -1,
                         &mix->heads, err);
    if (!rc)
        rc = gy_desc_int(config, "num_key_value_heads", 1, MAX_HEADS,
                         a->kv_heads ? a->kv_heads : mix->heads, &mix->kv_heads, err);
    if (!rc) rc = gy_desc_int(config, "head_dim", 1, MAX_DIM, a->dim, &mix->dim, err);
    if (!rc)
        rc = gy_desc_float(config, a->eps_key ? a->eps_key : "rms_norm_eps",
                           a->eps > 0 ? a->eps : (double)NAN, &eps, err);
    if (rc) return rc;
    if (mix->heads % mix->kv_heads)
        return gy_fail(err, GY_EFORMAT,
                       "config: num_attention_heads %d is not a multiple of num_key_value_heads %d",
                       mix->heads, mix->kv_heads);
    if (!mix->dim) {
        if (d->width % mix->heads)
            return gy_fail(
                err, GY_EFORMAT,
                "config: hidden_size %d is not a multiple of num_attention_heads %d, and there "
                "is no head_dim",
                d->width, mix->heads);
        mix->dim = d->width / mix->heads;
    }
    if (mix->dim > MAX_DIM || (int64_t)mix->heads * mix->dim > MAX_WIDTH)
        return gy_fail(err, GY_EUNSUPPORTED, "config: %d heads of %d are more than gyre takes",
                       mix->heads, mix->dim);
    if (!(eps > 0)) return gy_fail(err, GY_EFORMAT, "config: the norm's epsilon must be above 0");
    d->eps = (float)eps;
    return GY_OK;
}

gy_rc gy_desc_moe(const gy_json *config, const gy_desc_moe_keys *k, gy_moe *m, gy_err *err) {
    gy_rc rc = gy_desc_int(config, k->experts_key, 1, MAX_EXPERTS, k->experts ? k->experts : -1,
                           &m->experts, err);
    if (!rc)
        rc = gy_desc_int(config, "num_experts_per_tok", 1, GY_TOP_K, k->top_k ? k->top_k : -1,
                         &m->top_k, err);
    if (!rc) rc = gy_desc_int(config, k->width_key, 1, MAX_WIDTH, -1, &m->width, err);
    if (rc) return rc;
    if (m->top_k > m->experts)
        return gy_fail(err, GY_EFORMAT, "config: num_experts_per_tok %d of %s %d", m->top_k,
                       k->experts_key, m->experts);
    if ((int64_t)m->experts * m->width > 1 << 27)
        return gy_fail(err, GY_EUNSUPPORTED, "config: %d experts of %d are more than gyre takes",
                       m->experts, m->width);
    return m->scale = 1, GY_OK;
}

static gy_rc only_dense(const gy_json *config, int layer, bool *dense, gy_err *err) {
    const gy_json *only = gy_json_get(config, "mlp_only_layers");
    int64_t i;
    *dense = false;
    if (gy_json_null(only)) return GY_OK;
    if (only->kind != GY_JSON_ARR)
        return gy_fail(err, GY_EFORMAT, "config: mlp_only_layers must be a list of layers");
    for (uint32_t k = 0; k < only->n; k++) {
        if (!gy_json_int(only->item + k, &i))
            return gy_fail(err, GY_EFORMAT, "config: mlp_only_layers[%u] must be an integer", k);
        if (i == layer) *dense = true;
    }
    return GY_OK;
}

gy_rc gy_desc_moe_sparse(const gy_json *config, const gy_desc_sparse *form, gy_desc *d,
                         gy_err *err) {
    static const gy_desc_moe_keys keys = {"num_experts", "moe_intermediate_size", 0, 0};
    gy_moe moe = {.router = "mlp.gate",
                  .gate = "mlp.switch_mlp.gate_proj",
                  .up = "mlp.switch_mlp.up_proj",
                  .down = "mlp.switch_mlp.down_proj",
                  .each = "mlp.experts.",
                  .each_gate = "gate_proj",
                  .each_up = "up_proj",
                  .each_down = "down_proj",
                  .fused_gate_up = "mlp.experts.gate_up_proj",
                  .fused_down = "mlp.experts.down_proj",
                  .shared_gate = form->shared ? "mlp.shared_expert_gate" : NULL,
                  .score = GY_ROUTE_SOFTMAX};
    int every, shared = 0;
    gy_rc rc = gy_desc_moe(config, &keys, &moe, err);
    if (!rc) rc = gy_desc_int(config, "decoder_sparse_step", 1, MAX_LAYERS, 1, &every, err);
    if (!rc && form->shared)
        rc = gy_desc_int(config, "shared_expert_intermediate_size", 1, MAX_WIDTH, -1, &shared, err);
    moe.renorm = form->renorm_key && gy_json_b(config, "norm_topk_prob", form->renorm);
    for (gy_layer *l = d->layer; !rc && l < d->layer + d->n_layers; l++) {
        bool dense = false;
        if (!form->all) rc = only_dense(config, l->i, &dense, err);
        if (rc || dense || (!form->all && (l->i + 1) % every)) continue;
        gy_ffn *f = &l->ffn;
        f->moe = moe, f->gate = f->up = f->down = NULL, f->width = shared;
        if (form->shared)
            f->gate = "mlp.shared_expert.gate_proj", f->up = "mlp.shared_expert.up_proj",
            f->down = "mlp.shared_expert.down_proj";
    }
    return rc;
}

static const gy_desc_root roots[] = {{"model.", "lm_head"}, {"", "lm_head"}, {NULL, NULL}};

/* What names and forms are when nobody says otherwise. */
static void common(const gy_json *config, gy_desc *d, gy_mix *mix, gy_ffn *ffn) {
    d->root = roots, d->embed = "embed_tokens", d->final_norm = "norm";
    d->norm = GY_NORM_RMS, d->embed_scale = 1, d->logit_scale = 1;
    d->head = gy_json_null(gy_json_get(config, "tie_word_embeddings")) ? GY_HEAD_IF_PRESENT
              : gy_json_b(config, "tie_word_embeddings", true)         ? GY_HEAD_TIED
                                                                       : GY_HEAD_OWN;
    d->drop[0] = "*rotary_emb.inv_freq";
    mix->q = "self_attn.q_proj", mix->k = "self_attn.k_proj", mix->v = "self_attn.v_proj",
    mix->o = "self_attn.o_proj";
    mix->scale = (float)(1 / sqrt(mix->dim));
    mix->qkv_bias = mix->o_bias = gy_json_b(config, "attention_bias", false);
    ffn->gate = "mlp.gate_proj", ffn->up = "mlp.up_proj", ffn->down = "mlp.down_proj";
    ffn->glu = true, ffn->bias = gy_json_b(config, "mlp_bias", false);
}

gy_rc gy_desc_base(const gy_json *config, const gy_desc_absent *absent, gy_desc *d, gy_err *err) {
    gy_mix mix = {0};
    gy_ffn ffn = {0};
    gy_rc rc = sizes(config, absent, d, &mix, &ffn, err);
    if (!rc) rc = gy_desc_act(config, "hidden_act", GY_ACT_SILU, &ffn.act, err);
    if (rc) return rc;
    common(config, d, &mix, &ffn);
    d->layer = gy_arena_alloc(&d->arena, (size_t)d->n_layers * sizeof *d->layer);
    if (!d->layer) return gy_fail(err, GY_ENOMEM, "description: out of memory");
    for (int i = 0; i < d->n_layers; i++) {
        d->layer[i] = (gy_layer){.i = i,
                                 .prefix = gy_arena_printf(&d->arena, "layers.%d.", i),
                                 .pre_a = "input_layernorm",
                                 .pre_f = "post_attention_layernorm",
                                 .res_scale = 1,
                                 .mix = mix,
                                 .ffn = ffn};
        if (!d->layer[i].prefix) return gy_fail(err, GY_ENOMEM, "description: out of memory");
    }
    rc = layer_types(config, absent->linear, d, err);
    if (!rc) rc = ropes(config, absent, d, err);
    return rc;
}

static const gy_family *const families[] = {gy_families, gy_families_moe, gy_families_mix,
                                            gy_families_mla};
enum { FAMILY_LISTS = sizeof families / sizeof *families };

static gy_rc unknown(const gy_json *type, gy_err *err) {
    char quoted[64], list[400];
    size_t n = 0;
    for (size_t i = 0; i < FAMILY_LISTS; i++)
        for (const gy_family *f = families[i]; f->type && n < sizeof list; f++)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", f->type);
    return gy_fail(err, GY_EUNSUPPORTED, "model_type \"%s\" is not supported; these are: %s",
                   gy_err_quote(quoted, type->s, type->n), list);
}

static const gy_family *family_of(const char *type) {
    for (size_t i = 0; i < FAMILY_LISTS; i++)
        for (const gy_family *f = families[i]; f->type; f++)
            if (!strcmp(type, f->type)) return f;
    return NULL;
}

gy_rc gy_describe(const gy_json *config, gy_desc *d, gy_err *err) {
    const gy_json *type = gy_json_get(config, "model_type");
    *d = (gy_desc){0};
    if (!gy_json_is(type, GY_JSON_STR))
        return gy_fail(err, GY_EFORMAT, "config: model_type is missing");
    const gy_family *f = family_of(type->s);
    if (!f) return unknown(type, err);
    gy_rc rc = f->describe(config, d, err);
    if (rc) gy_desc_free(d);
    d->type = f->type;
    return rc;
}

void gy_desc_free(gy_desc *d) {
    gy_arena_free(&d->arena);
    *d = (gy_desc){0};
}
