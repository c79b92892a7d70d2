/* model/fam_moe - families whose layers attend and choose among experts (spec/models.md 2.3, 5). */
#include "model/desc.h"

#define EACH_LAYER(l, d) for (gy_layer *l = (d)->layer; l < (d)->layer + (d)->n_layers; l++)

static gy_rc mixtral(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_desc_absent absent = {.heads = 32, .kv_heads = 8, .eps = 1e-5, .theta = 1e6};
    gy_desc_moe_keys keys = {"num_local_experts", "intermediate_size", 8, 2};
    gy_moe moe = {.router = "block_sparse_moe.gate",
                  .gate = "block_sparse_moe.switch_mlp.gate_proj",
                  .up = "block_sparse_moe.switch_mlp.up_proj",
                  .down = "block_sparse_moe.switch_mlp.down_proj",
                  .each = "block_sparse_moe.experts.",
                  .each_gate = "w1",
                  .each_up = "w3",
                  .each_down = "w2",
                  .score = GY_ROUTE_CHOSEN};
    gy_rc rc = gy_desc_base(c, &absent, d, e);
    if (!rc) rc = gy_desc_moe(c, &keys, &moe, e);
    if (rc) return rc;
    if (d->head == GY_HEAD_IF_PRESENT) d->head = GY_HEAD_OWN;
    EACH_LAYER(l, d) l->ffn.moe = moe, l->ffn.gate = l->ffn.up = l->ffn.down = NULL;
    return gy_desc_window_from(c, d, 0, e);
}

/* Windows start at a layer, and only when the config switches them on. */
static gy_rc late_windows(const gy_json *c, gy_desc *d, gy_err *e) {
    int first;
    gy_rc rc = gy_desc_int(c, "max_window_layers", 0, INT32_MAX, 28, &first, e);
    return rc || !gy_json_b(c, "use_sliding_window", false) ? rc
                                                            : gy_desc_window_from(c, d, first, e);
}

static gy_rc qwen2_moe(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){.wide = 1, .theta = 1e6}, d, e);
    if (!rc) rc = gy_desc_moe_sparse(c, &(gy_desc_sparse){.all = true, .shared = true}, d, e);
    if (rc) return rc;
    if (d->head == GY_HEAD_IF_PRESENT) d->head = GY_HEAD_OWN;
    EACH_LAYER(l, d) l->mix.qkv_bias = true, l->mix.o_bias = false;
    return late_windows(c, d, e);
}

static gy_rc qwen3_moe(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_rc rc = gy_desc_base(c, &(gy_desc_absent){.wide = 1}, d, e);
    if (!rc) rc = gy_desc_moe_sparse(c, &(gy_desc_sparse){.renorm_key = true}, d, e);
    if (rc) return rc;
    EACH_LAYER(l, d) l->mix.q_norm = "self_attn.q_norm", l->mix.k_norm = "self_attn.k_norm";
    return late_windows(c, d, e);
}

static gy_rc gpt_oss(const gy_json *c, gy_desc *d, gy_err *e) {
    gy_desc_absent absent = {
        .heads = 64, .kv_heads = 8, .dim = 64, .eps = 1e-5, .theta = 150000, .wide = 1};
    gy_desc_moe_keys keys = {"num_local_experts", "intermediate_size", 128, 4};
    gy_moe moe = {.router = "mlp.router",
                  .router_bias = true,
                  .biases = true,
                  .gate = "mlp.experts.gate_proj",
                  .up = "mlp.experts.up_proj",
                  .down = "mlp.experts.down_proj",
                  .block_gate_up = "mlp.experts.gate_up_proj",
                  .block_down = "mlp.experts.down_proj",
                  .score = GY_ROUTE_CHOSEN};
    int window;
    gy_rc rc = gy_desc_base(c, &absent, d, e);
    if (!rc) rc = gy_desc_moe(c, &keys, &moe, e);
    if (!rc) rc = gy_desc_int(c, "sliding_window", 1, INT32_MAX, 128, &window, e);
    if (rc) return rc;
    if (d->head == GY_HEAD_IF_PRESENT) d->head = GY_HEAD_OWN;
    bool types = !gy_json_null(gy_json_get(c, "layer_types"));
    EACH_LAYER(l, d) {
        l->ffn.moe = moe, l->ffn.act = GY_ACT_CLAMPED_GELU;
        l->ffn.gate = l->ffn.up = l->ffn.down = NULL;
        l->mix.qkv_bias = l->mix.o_bias = true, l->mix.sinks = "self_attn.sinks";
        if (!types && l->i % 2 == 0) l->mix.window = window;
    }
    return GY_OK;
}

const gy_family gy_families_moe[] = {{"mixtral", mixtral},
                                     {"qwen2_moe", qwen2_moe},
                                     {"qwen3_moe", qwen3_moe},
                                     {"gpt_oss", gpt_oss},
                                     {NULL, NULL}};
