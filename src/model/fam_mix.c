/* model/fam_mix - families whose layers mix attention with the gated delta rule (spec/models.md 6).
 */
#include "model/desc.h"

#define EACH_LAYER(l, d) for (gy_layer *l = (d)->layer; l < (d)->layer + (d)->n_layers; l++)

enum {
    MAX_TAPS = 8,
    MAX_HEADS = 1 << 12,
    MAX_DIM = 1 << 12,
    MAX_CHANNELS = 1 << 20,
    MAX_STATE = 1 << 28 /* values of one layer */
};

static gy_rc delta_sizes(const gy_json *c, gy_delta *d, gy_err *e) {
    gy_rc rc = gy_desc_int(c, "linear_num_key_heads", 1, MAX_HEADS, -1, &d->k_heads, e);
    if (!rc) rc = gy_desc_int(c, "linear_num_value_heads", 1, MAX_HEADS, -1, &d->v_heads, e);
    if (!rc) rc = gy_desc_int(c, "linear_key_head_dim", 1, MAX_DIM, -1, &d->kdim, e);
    if (!rc) rc = gy_desc_int(c, "linear_value_head_dim", 1, MAX_DIM, -1, &d->vdim, e);
    if (!rc) rc = gy_desc_int(c, "linear_conv_kernel_dim", 1, MAX_TAPS, -1, &d->taps, e);
    if (rc) return rc;
    if (d->v_heads % d->k_heads)
        return gy_fail(e, GY_EFORMAT,
                       "config: linear_num_value_heads %d is not a multiple of "
                       "linear_num_key_heads %d",
                       d->v_heads, d->k_heads);
    if (2 * (int64_t)d->k_heads * d->kdim + (int64_t)d->v_heads * d->vdim > MAX_CHANNELS ||
        (int64_t)d->v_heads * d->vdim * d->kdim > MAX_STATE)
        return gy_fail(e, GY_EUNSUPPORTED, "config: linear layers of %d + %d heads are too wide",
                       d->k_heads, d->v_heads);
    return GY_OK;
}

/* Which layers attend: by name, else every interval-th. */
static gy_rc attends(const gy_json *c, const gy_desc *d, int i, bool *out, gy_err *e) {
    const gy_json *types = gy_json_get(c, "layer_types");
    int every;
    if (!gy_json_null(types)) /* its form is checked by the base */
        return *out = strcmp(types->item[i].s, "linear_attention") != 0, GY_OK;
    gy_rc rc = gy_desc_int(c, "full_attention_interval", 1, d->n_layers, 4, &every, e);
    return *out = !rc && (i + 1) % every == 0, rc;
}

/* names: of the projections, which families spell differently. */
static gy_rc hybrid(const gy_json *c, const gy_desc_absent *absent, const gy_delta *names,
                    gy_desc *d, gy_err *e) {
    const gy_json *gate = gy_json_get(c, "output_gate_type");
    gy_delta delta = *names;
    char quoted[64];
    gy_rc rc = gy_desc_base(c, absent, d, e);
    if (!rc) rc = delta_sizes(c, &delta, e);
    if (rc) return rc;
    if (!gy_json_null(gate) && (gate->kind != GY_JSON_STR || strcmp(gate->s, "swish")))
        return gy_fail(e, GY_EUNSUPPORTED, "config: output_gate_type %s is not supported",
                       gate->kind == GY_JSON_STR ? gy_err_quote(quoted, gate->s, gate->n)
                                                 : "of another kind");
    delta.conv = "linear_attn.conv1d", delta.norm = "linear_attn.norm";
    delta.o = "linear_attn.out_proj";
    delta.rate = "linear_attn.A_log", delta.dt_bias = "linear_attn.dt_bias";
    EACH_LAYER(l, d) {
        bool attention;
        if ((rc = attends(c, d, l->i, &attention, e))) return rc;
        if (!attention) {
            l->mix = (gy_mix){.kind = GY_MIX_DELTA, .delta = delta};
            continue;
        }
        l->mix.q_norm = "self_attn.q_norm", l->mix.k_norm = "self_attn.k_norm";
        l->mix.out_gate = gy_json_b(c, "attn_output_gate", true);
    }
    d->norm_by_taps = true;
    return GY_OK;
}

static const gy_delta split = {.qkv = "linear_attn.in_proj_qkv",
                               .z = "linear_attn.in_proj_z",
                               .b = "linear_attn.in_proj_b",
                               .a = "linear_attn.in_proj_a"};

/* The text part of the files, which may stand alone; towers and draft heads are left out. */
static gy_rc qwen3_5(const gy_json *c, gy_desc *d, gy_err *e) {
    static const gy_desc_root roots[] = {{"language_model.model.", "language_model.lm_head"},
                                         {"model.language_model.", "lm_head"},
                                         {"model.", "lm_head"},
                                         {NULL, NULL}};
    static const char *const unused[] = {"vision_tower.*", "model.visual.*", "mtp.*", "model.mtp.*",
                                         "language_model.mtp.*"};
    gy_desc_absent absent = {.wide = 1, .eps = 1e-6, .theta = 1e5, .partial = 0.25, .linear = true};
    const gy_json *text = gy_json_get(c, "text_config");
    if (gy_json_null(text)) text = c;
    if (text->kind != GY_JSON_OBJ)
        return gy_fail(e, GY_EFORMAT, "config: text_config must be an object");
    gy_rc rc = hybrid(text, &absent, &split, d, e);
    if (rc) return rc;
    d->root = roots;
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) d->drop[1 + i] = unused[i];
    return d->vocab ? GY_OK : gy_desc_int(c, "vocab_size", 1, 1 << 26, 0, &d->vocab, e);
}

static gy_rc qwen3_5_moe(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_desc_sparse form = {.all = true, .shared = true, .renorm_key = true, .renorm = true};
    const gy_json *text = gy_json_get(c, "text_config");
    gy_rc rc = qwen3_5(c, d, e);
    return rc ? rc : gy_desc_moe_sparse(gy_json_null(text) ? c : text, &form, d, e);
}

static gy_rc qwen3_next(const gy_json *c, gy_desc *d, gy_err *e) {
    static const gy_delta fused = {.qkvz = "linear_attn.in_proj_qkvz",
                                   .ba = "linear_attn.in_proj_ba"};
    gy_desc_absent absent = {.wide = 1, .partial = 0.25, .linear = true};
    gy_rc rc = hybrid(c, &absent, &fused, d, e);
    if (!rc)
        rc = gy_desc_moe_sparse(c, &(gy_desc_sparse){.shared = true, .renorm_key = true}, d, e);
    d->drop[1] = "mtp.*";
    return rc;
}

const gy_family gy_families_mix[] = {
    {"qwen3_5", qwen3_5},         {"qwen3_5_text", qwen3_5},
    {"qwen3_5_moe", qwen3_5_moe}, {"qwen3_5_moe_text", qwen3_5_moe},
    {"qwen3_next", qwen3_next},   {NULL, NULL},
};
