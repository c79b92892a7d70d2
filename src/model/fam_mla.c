/* model/fam_mla - families that attend in a latent space (spec/models.md 7.1, 7.2), with grouped
 * experts. */
#include <math.h>

#include "base/dmath.h"
#include "model/desc.h"
#include "model/rope.h"

#define EACH_LAYER(l, d) for (gy_layer *l = (d)->layer; l < (d)->layer + (d)->n_layers; l++)

enum { MAX_RANK = 1 << 14, MAX_DIM = 1 << 12, MAX_GROUPED = GY_ROUTE_GROUPS };

static gy_rc latent_sizes(const gy_json *c, gy_latent *m, gy_err *e) {
    gy_rc rc = gy_desc_int(c, "q_lora_rank", 1, MAX_RANK, 0, &m->q_rank, e);
    if (!rc) rc = gy_desc_int(c, "kv_lora_rank", 1, MAX_RANK, -1, &m->rank, e);
    if (!rc) rc = gy_desc_int(c, "qk_nope_head_dim", 1, MAX_DIM, -1, &m->plain, e);
    if (!rc) rc = gy_desc_int(c, "qk_rope_head_dim", 2, MAX_DIM, -1, &m->turned, e);
    if (!rc) rc = gy_desc_int(c, "v_head_dim", 1, MAX_DIM, -1, &m->vdim, e);
    return rc;
}

/* 1 / sqrt(width of a whole key), times the square of the stretch that long contexts ask for. */
static gy_rc scale_of(const gy_json *c, const gy_latent *m, float *out, gy_err *e) {
    const gy_json *block = gy_json_get(c, "rope_scaling");
    double all, factor, s = 1;
    if (gy_json_null(block)) block = gy_json_get(c, "rope_parameters");
    gy_rc rc = gy_desc_float(block, "mscale_all_dim", 0, &all, e);
    if (!rc) rc = gy_desc_float(block, "factor", 1, &factor, e);
    if (rc) return rc;
    if (all != 0 && factor > 1) s = 0.1 * all * gy_dlog(factor) + 1;
    return *out = (float)(s * s / sqrt(m->plain + m->turned)), GY_OK;
}

static gy_rc grouped(const gy_json *c, gy_moe *m, int *first, int *every, int *shared, gy_err *e) {
    static const gy_desc_moe_keys keys = {"n_routed_experts", "moe_intermediate_size", 0, 0};
    const gy_json *score = gy_json_get(c, "scoring_func");
    double scale;
    gy_rc rc = gy_desc_moe(c, &keys, m, e);
    if (!rc) rc = gy_desc_int(c, "n_group", 1, MAX_GROUPED, 1, &m->groups, e);
    if (!rc) rc = gy_desc_int(c, "topk_group", 1, MAX_GROUPED, 1, &m->kept, e);
    if (!rc) rc = gy_desc_int(c, "first_k_dense_replace", 0, INT32_MAX, 0, first, e);
    if (!rc) rc = gy_desc_int(c, "moe_layer_freq", 1, INT32_MAX, 1, every, e);
    if (!rc) rc = gy_desc_int(c, "n_shared_experts", 0, 64, 0, shared, e);
    if (!rc) rc = gy_desc_float(c, "routed_scaling_factor", 1, &scale, e);
    if (rc) return rc;
    if (!gy_json_null(score) && (score->kind != GY_JSON_STR || strcmp(score->s, "sigmoid")))
        return gy_fail(e, GY_EUNSUPPORTED, "config: scoring_func other than sigmoid");
    if (m->experts % m->groups || m->kept > m->groups ||
        m->top_k > m->kept * (m->experts / m->groups))
        return gy_fail(e, GY_EFORMAT, "config: %d of %d groups (topk_group, n_group) of %d experts",
                       m->kept, m->groups, m->experts);
    m->scale = (float)scale;
    m->renorm = m->top_k > 1 && gy_json_b(c, "norm_topk_prob", true);
    return GY_OK;
}

static gy_rc experts(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_moe moe = {.router = "mlp.gate",
                  .gate = "mlp.switch_mlp.gate_proj",
                  .up = "mlp.switch_mlp.up_proj",
                  .down = "mlp.switch_mlp.down_proj",
                  .each = "mlp.experts.",
                  .each_gate = "gate_proj",
                  .each_up = "up_proj",
                  .each_down = "down_proj",
                  .choice_bias = "mlp.gate.e_score_correction_bias",
                  .score = GY_ROUTE_SIGMOID};
    int first, every, shared;
    if (gy_json_null(gy_json_get(c, "n_routed_experts"))) return GY_OK; /* dense throughout */
    gy_rc rc = grouped(c, &moe, &first, &every, &shared, e);
    if (rc) return rc;
    EACH_LAYER(l, d) {
        gy_ffn *f = &l->ffn;
        if (l->i < first || l->i % every) continue;
        f->moe = moe, f->gate = f->up = f->down = NULL, f->width = shared * moe.width;
        if (shared)
            f->gate = "mlp.shared_experts.gate_proj", f->up = "mlp.shared_experts.up_proj",
            f->down = "mlp.shared_experts.down_proj";
    }
    return GY_OK;
}

static gy_rc deepseek_v3(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_desc_absent absent = {.dim = 64, .eps = 1e-6, .theta = 1e4, .wide = 1, .pairs = true};
    gy_latent m = {.q = "self_attn.q_proj",
                   .o = "self_attn.o_proj",
                   .bias = gy_json_b(c, "attention_bias", false),
                   .q_a = "self_attn.q_a_proj",
                   .q_a_norm = "self_attn.q_a_layernorm",
                   .q_b = "self_attn.q_b_proj",
                   .kv_a = "self_attn.kv_a_proj_with_mqa",
                   .kv_a_norm = "self_attn.kv_a_layernorm",
                   .embed = "self_attn.embed_q",
                   .unembed = "self_attn.unembed_out",
                   .eps = 1e-6f};
    gy_rope_config rc_rope;
    gy_rope rope;
    float scale;
    gy_rc rc = latent_sizes(c, &m, e);
    if (!rc) rc = gy_desc_base(c, &absent, d, e);
    if (!rc) rc = scale_of(c, &m, &scale, e);
    if (!rc) rc = gy_rope_read(c, "full_attention", absent.theta, &rc_rope, e);
    if (!rc) rc = gy_rope_make(c, &rc_rope, m.turned, true, &d->arena, &rope, e);
    if (!rc) rc = experts(c, d, e);
    if (rc) return rc;
    if (d->head == GY_HEAD_IF_PRESENT) d->head = GY_HEAD_OWN;
    EACH_LAYER(l, d) {
        int heads = l->mix.heads;
        if ((int64_t)heads * (m.rank + m.turned) > 1 << 22)
            return gy_fail(e, GY_EUNSUPPORTED, "config: %d heads of a latent of %d", heads, m.rank);
        l->mix = (gy_mix){.kind = GY_MIX_LATENT, .latent = m, .heads = heads, .scale = scale};
        l->mix.rope = rope;
    }
    d->drop[1] = gy_arena_printf(&d->arena, "model.layers.%d.*", d->n_layers); /* draft layer */
    return d->drop[1] ? GY_OK : gy_fail(e, GY_ENOMEM, "description: out of memory");
}

const gy_family gy_families_mla[] = {
    {"deepseek_v3", deepseek_v3},
    {"kimi_k2", deepseek_v3},
    {"joyai_llm_flash", deepseek_v3},
    {NULL, NULL},
};
