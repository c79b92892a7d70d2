/* Layers with the delta rule and with experts, as other files than MLX's spell them: a model
 * rewritten in another spelling gives the same bits. And what their configs must say. */
#include "base/buf.h"
#include "base/fmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "file/tensors.h"
#include "model/bind.h"
#include "model/model.h"
#include "testlib.h"

enum { EXPERTS = 4, IDS = 40 };
static char work[256];

/* ---- Writing a model ---- */

typedef struct {
    gy_buf head, data;
} writer;

static void put(writer *w, const char *name, const char *type, const int64_t *shape, int dims,
                const void *data, size_t bytes) {
    gy_buf_printf(&w->head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", w->head.n > 9 ? "," : "",
                  name, type);
    for (int i = 0; i < dims; i++)
        gy_buf_printf(&w->head, "%s%lld", i ? "," : "", (long long)shape[i]);
    gy_buf_printf(&w->head, "],\"data_offsets\":[%zu,%zu]}", w->data.n, w->data.n + bytes);
    gy_buf_add(&w->data, data, bytes);
}

static void save(const char *name, const void *data, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", work, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void finish(writer *w) {
    gy_buf_c(&w->head, '}');
    while (w->head.n % 8) gy_buf_c(&w->head, ' ');
    for (int i = 0; i < 8; i++) w->head.p[i] = (char)(((uint64_t)w->head.n - 8) >> 8 * i);
    gy_buf_add(&w->head, w->data.p, w->data.n);
    assert_false(w->head.oom || w->data.oom);
    save("model.safetensors", w->head.p, w->head.n);
    gy_buf_free(&w->head), gy_buf_free(&w->data);
}

static void copy(writer *w, const gy_tensor *t) {
    put(w, t->name, gy_ttype_name(t->type), t->shape, t->dims, t->data, t->bytes);
}

/* "...switch_mlp.gate_proj.scales" as a tensor for each expert. */
static void put_each(writer *w, const gy_tensor *t) {
    const char *at = strstr(t->name, "switch_mlp.");
    assert_true(t->dims == 3 && t->shape[0] == EXPERTS);
    for (int e = 0; e < EXPERTS; e++) {
        char name[200];
        size_t bytes = t->bytes / EXPERTS;
        snprintf(name, sizeof name, "%.*sexperts.%d.%s", (int)(at - t->name), t->name, e,
                 at + strlen("switch_mlp."));
        put(w, name, gy_ttype_name(t->type), t->shape + 1, 2, t->data + (size_t)e * bytes, bytes);
    }
}

/* A norm's weight less one, in f32. */
static void put_less_one(writer *w, const gy_tensor *t) {
    float v[256];
    assert_true(t->type == GY_T_BF16 && t->dims == 1 && t->shape[0] <= 256);
    for (int i = 0; i < t->shape[0]; i++) {
        float x = gy_bf16_f32(gy_load_u16(t->data + 2 * i));
        v[i] = x - 1;
        assert_true(1 + v[i] == x); /* so that bits can be compared */
    }
    put(w, t->name, "F32", t->shape, 1, v, (size_t)t->shape[0] * sizeof *v);
}

static void put_taps_last(writer *w, const gy_tensor *t) {
    int64_t shape[3] = {t->shape[0], 1, t->shape[1]};
    put(w, t->name, gy_ttype_name(t->type), shape, 3, t->data, t->bytes);
}

/* The decoded experts of one layer: gate | up of each as one stack, and down. */
static void put_fused(writer *w, const gy_bound_moe *moe, int layer) {
    int rows = moe->gate->file.rows, cols = moe->gate->file.cols;
    float *v = malloc((size_t)(2 * EXPERTS * rows * cols) * sizeof *v);
    char name[100];
    for (int e = 0; e < EXPERTS; e++)
        for (int r = 0; r < 2 * rows; r++) {
            const gy_rows *m = r < rows ? &moe->gate[e].file : &moe->up[e].file;
            gy_codecs[m->c.kind].decode(m, r % rows, v + (e * 2 * rows + r) * cols);
        }
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.gate_up_proj", layer);
    put(w, name, "F32", (int64_t[]){EXPERTS, 2 * rows, cols}, 3, v,
        (size_t)(2 * EXPERTS * rows * cols) * sizeof *v);
    for (int e = 0; e < EXPERTS; e++)
        for (int r = 0; r < cols; r++)
            gy_codecs[moe->down->file.c.kind].decode(&moe->down[e].file, r,
                                                     v + (e * cols + r) * rows);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj", layer);
    put(w, name, "F32", (int64_t[]){EXPERTS, cols, rows}, 3, v,
        (size_t)(EXPERTS * rows * cols) * sizeof *v);
    free(v);
}

/* MXFP4 experts as bytes, rows of a and b (NULL: none) taking turns; their biases likewise. */
static void put_blocks(writer *w, const gy_weight *a, const gy_weight *b, int layer,
                       const char *base) {
    static const char *const parts[2] = {"blocks", "scales"};
    int rows = a->file.rows * (b ? 2 : 1), cols = a->file.cols;
    char name[100];
    gy_buf bytes[2] = {{0}}, bias = {0};
    for (int e = 0; e < EXPERTS; e++)
        for (int r = 0; r < rows; r++) {
            const gy_weight *x = b && r % 2 ? b + e : a + e;
            int at = b ? r / 2 : r;
            for (int p = 0; p < 2; p++)
                gy_buf_add(bytes + p, (char *)x->file.plane[p] + at * x->file.step[p],
                           (size_t)cols / (p ? 32 : 2));
            gy_buf_add(&bias, x->bias + at, sizeof *x->bias);
        }
    for (int p = 0; p < 2; p++) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%s_%s", layer, base, parts[p]);
        put(w, name, "U8", (int64_t[]){EXPERTS, rows, cols / 32, 16}, p ? 3 : 4, bytes[p].p,
            bytes[p].n);
        gy_buf_free(bytes + p);
    }
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%s_bias", layer, base);
    put(w, name, "F32", (int64_t[]){EXPERTS, rows}, 2, bias.p, bias.n);
    gy_buf_free(&bias);
}

typedef struct {
    bool each, fused, blocks, taps_last, less_one;
    int taps_layer; /* the only layer with the taps last; -1: all */
} spelling;

static bool is_norm(const char *name) {
    return strstr(name, "norm") && !strstr(name, "linear_attn.norm");
}

static void rewrite(const gy_model *m, spelling s) {
    writer w = {0};
    char *config, path[512], layer[40];
    size_t n;
    gy_err err = {0};
    gy_buf_puts(&w.head, "--------{");
    snprintf(layer, sizeof layer, "layers.%d.", s.taps_layer);
    for (int i = 0; i < m->tensors.n; i++) {
        const gy_tensor *t = m->tensors.at + i;
        bool expert = strstr(t->name, "switch_mlp.") || strstr(t->name, "mlp.experts.");
        if (expert && (s.fused || s.blocks)) continue;
        if (expert && s.each)
            put_each(&w, t);
        else if (strstr(t->name, "conv1d") && s.taps_last &&
                 (s.taps_layer < 0 || strstr(t->name, layer)))
            put_taps_last(&w, t);
        else if (s.less_one && is_norm(t->name))
            put_less_one(&w, t);
        else
            copy(&w, t);
    }
    for (int i = 0; i < m->desc.n_layers && s.fused; i++) put_fused(&w, &m->bound->layer[i].moe, i);
    for (int i = 0; i < m->desc.n_layers && s.blocks; i++) {
        const gy_bound_moe *moe = &m->bound->layer[i].moe;
        put_blocks(&w, moe->gate, moe->up, i, "gate_up_proj");
        put_blocks(&w, moe->down, NULL, i, "down_proj");
    }
    finish(&w);
    snprintf(path, sizeof path, "%s/config.json", m->path);
    assert_ok(gy_file_read(path, 1 << 20, &config, &n, &err), err);
    save("config.json", config, n);
    gy_free(config);
}

/* ---- Comparing ---- */

static gy_rc open_at(const char *path, gy_model **m, gy_err *err) {
    return gy_model_open(path, &(gy_model_options){.no_tokenizer = true}, m, err);
}

static float *logits(gy_model *m) {
    gy_engine *e;
    gy_seq *s;
    gy_model_info info;
    gy_err err = {0};
    int32_t ids[IDS];
    gy_model_get_info(m, &info);
    for (int i = 0; i < IDS; i++) ids[i] = (i * 37 + 11) % info.vocab;
    float *out = malloc((size_t)IDS * (size_t)info.vocab * sizeof *out);
    gy_engine_options o = {.threads = 2, .arith = GY_ARITH_EXACT, .context = 128};
    assert_ok(gy_engine_new(m, &o, &e, &err), err);
    assert_ok(gy_seq_new(e, &s, &err), err);
    assert_ok(gy_step(e, &(gy_feed){.seq = s, .ids = ids, .n = IDS}, 1, out, &err), err);
    gy_seq_free(e, s);
    gy_engine_free(e);
    return out;
}

static void spellings(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *what;
        spelling s;
    } cases[] = {
        {"qwen3_next", "as it is", {.taps_layer = -1}},
        {"qwen3_next", "a module for each expert", {.each = true, .taps_layer = -1}},
        {"qwen3_next", "fused stacks", {.fused = true, .taps_layer = -1}},
        {"qwen3_next",
         "fused stacks, taps last, norms less one",
         {.fused = true, .taps_last = true, .less_one = true, .taps_layer = -1}},
        {"gpt_oss", "blocks with rows taking turns", {.blocks = true, .taps_layer = -1}},
        {"qwen3_5",
         "taps last, norms less one",
         {.taps_last = true, .less_one = true, .taps_layer = -1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rel[64];
        gy_model *m, *other;
        gy_err err = {0};
        gy_model_info info;
        snprintf(rel, sizeof rel, "models/%s", cases[i].fixture);
        assert_ok(open_at(data_path(rel), &m, &err), err);
        rewrite(m, cases[i].s);
        assert_ok(open_at(work, &other, &err), err);
        gy_model_get_info(m, &info);
        float *a = logits(m), *b = logits(other);
        if (memcmp(a, b, (size_t)IDS * (size_t)info.vocab * sizeof *a))
            fail_msg("%s, %s: other logits", cases[i].fixture, cases[i].what);
        assert_int_equal(m->bound->parameters, other->bound->parameters);
        free(a), free(b);
        gy_model_unref(m), gy_model_unref(other);
    }
}

/* One layer spelled otherwise than the rest is no model. */
static void mixed_spellings(void **state) {
    (void)state;
    gy_model *m, *other;
    gy_err err = {0};
    assert_ok(open_at(data_path("models/qwen3_5"), &m, &err), err);
    rewrite(m, (spelling){.taps_last = true, .taps_layer = 1});
    assert_int_equal(open_at(work, &other, &err), GY_EFORMAT);
    assert_non_null(strstr(err.msg, "conv1d"));
    gy_model_unref(m);
}

/* ---- Configs ---- */

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":2,\"rms_norm_eps\":1e-6,"  \
    "\"vocab_size\":320,\"rope_theta\":1e4"
#define LINEAR                                                                                     \
    "\"linear_num_value_heads\":4,\"linear_num_key_heads\":2,\"linear_key_head_dim\":32,"          \
    "\"linear_value_head_dim\":32,\"linear_conv_kernel_dim\":4"
#define MOE "\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"

#define LATENT                                                                                     \
    "\"kv_lora_rank\":32,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":32,\"v_head_dim\":32"
#define GROUPS "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"

static void refused_configs(void **state) {
    (void)state;
    static const struct {
        const char *config;
        gy_rc rc;
        const char *word;
    } cases[] = {
        {"{\"model_type\":\"qwen3_5\"," SIZES "}", GY_EFORMAT, "linear_num_key_heads"},
        {"{\"model_type\":\"qwen3_5\",\"text_config\":[]}", GY_EFORMAT, "text_config"},
        {"{\"model_type\":\"qwen3_5\"," SIZES "," LINEAR ",\"output_gate_type\":\"sigmoid\"}",
         GY_EUNSUPPORTED, "sigmoid"},
        {"{\"model_type\":\"qwen3_5\"," SIZES "," LINEAR ",\"layer_types\":[\"full_attention\"]}",
         GY_EFORMAT, "layer_types"},
        {"{\"model_type\":\"qwen3_5\"," SIZES "," LINEAR
         ",\"layer_types\":[\"linear_attention\",\"mamba\",\"full_attention\",\"full_attention\"]}",
         GY_EUNSUPPORTED, "mamba"},
        {"{\"model_type\":\"qwen3_5\"," SIZES ",\"linear_num_value_heads\":3,"
         "\"linear_num_key_heads\":2,\"linear_key_head_dim\":32,\"linear_value_head_dim\":32,"
         "\"linear_conv_kernel_dim\":4}",
         GY_EFORMAT, "linear_num_value_heads"},
        {"{\"model_type\":\"qwen3_5\"," SIZES ",\"linear_num_value_heads\":4096,"
         "\"linear_num_key_heads\":1,\"linear_key_head_dim\":4096,\"linear_value_head_dim\":200,"
         "\"linear_conv_kernel_dim\":4}",
         GY_EUNSUPPORTED, "too wide"},
        {"{\"model_type\":\"qwen3_5\"," SIZES ",\"linear_num_value_heads\":4,"
         "\"linear_num_key_heads\":2,\"linear_key_head_dim\":32,\"linear_value_head_dim\":32,"
         "\"linear_conv_kernel_dim\":9}",
         GY_EFORMAT, "linear_conv_kernel_dim"},
        {"{\"model_type\":\"llama\",\"intermediate_size\":96," SIZES
         ",\"layer_types\":[\"linear_attention\",\"full_attention\",\"full_attention\","
         "\"full_attention\"]}",
         GY_EUNSUPPORTED, "linear_attention"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES "}", GY_EFORMAT, "num_experts"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES ",\"num_experts\":2,\"num_experts_per_tok\":3,"
         "\"moe_intermediate_size\":32}",
         GY_EFORMAT, "num_experts_per_tok"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES "," MOE ",\"mlp_only_layers\":{}}", GY_EFORMAT,
         "mlp_only_layers"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES "," MOE ",\"mlp_only_layers\":[\"1\"]}", GY_EFORMAT,
         "mlp_only_layers[0]"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES "," MOE ",\"decoder_sparse_step\":0}", GY_EFORMAT,
         "decoder_sparse_step"},
        {"{\"model_type\":\"qwen2_moe\"," SIZES "," MOE "}", GY_EFORMAT,
         "shared_expert_intermediate_size"},
        {"{\"model_type\":\"mixtral\"," SIZES "}", GY_EFORMAT, "intermediate_size"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES "}", GY_EFORMAT, "kv_lora_rank"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES "," LATENT "," GROUPS
         ",\"n_group\":3,\"topk_group\":1}",
         GY_EFORMAT, "n_group"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES "," LATENT "," GROUPS
         ",\"n_group\":8,\"topk_group\":1}",
         GY_EFORMAT, "topk_group"}, /* one expert is open, two are wanted */
        {"{\"model_type\":\"deepseek_v3\"," SIZES "," LATENT "," GROUPS
         ",\"scoring_func\":\"softmax\"}",
         GY_EUNSUPPORTED, "scoring_func"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES
         ",\"kv_lora_rank\":32,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":31,"
         "\"v_head_dim\":32}",
         GY_EFORMAT, "31"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_json_doc doc;
        gy_desc d;
        gy_err err = {0};
        assert_ok(gy_json_parse(&doc, cases[i].config, strlen(cases[i].config), &err), err);
        gy_rc rc = gy_describe(doc.root, &d, &err);
        if (rc != cases[i].rc || !strstr(err.msg, cases[i].word))
            fail_msg("case %zu gives %s: %s; expected %s", i, gy_rc_name(rc), err.msg,
                     cases[i].word);
        gy_json_free(&doc);
    }
}

/* 'a' attention, 'd' delta rule, 'l' latents; 'e' experts, 'm' a dense feed-forward, 's' experts
 * and shared. */
static void layer_kinds(void **state) {
    (void)state;
    static const struct {
        const char *config, *mixers, *ffns;
    } cases[] = {
        {"{\"model_type\":\"qwen3_5\"," SIZES "," LINEAR "}", "ddda", "mmmm"},
        {"{\"model_type\":\"qwen3_5\"," SIZES "," LINEAR ",\"full_attention_interval\":2}", "dada",
         "mmmm"},
        {"{\"model_type\":\"qwen3_5_text\"," SIZES "," LINEAR
         ",\"full_attention_interval\":2,\"layer_types\":[\"full_attention\",\"linear_attention\","
         "\"linear_attention\",\"full_attention\"]}",
         "adda", "mmmm"},
        {"{\"model_type\":\"qwen3_next\"," SIZES "," LINEAR "," MOE
         ",\"shared_expert_intermediate_size\":32,\"mlp_only_layers\":[0]}",
         "ddda", "msss"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES "," MOE
         ",\"intermediate_size\":96,\"decoder_sparse_step\":2}",
         "aaaa", "meme"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES "," MOE
         ",\"intermediate_size\":96,\"mlp_only_layers\":[3,1]}",
         "aaaa", "emem"},
        {"{\"model_type\":\"qwen2_moe\"," SIZES "," MOE
         ",\"shared_expert_intermediate_size\":32,\"mlp_only_layers\":[3,1]}",
         "aaaa", "ssss"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES "," LATENT "," GROUPS
         ",\"first_k_dense_replace\":1,\"n_shared_experts\":1,\"intermediate_size\":96}",
         "llll", "msss"},
        {"{\"model_type\":\"kimi_k2\"," SIZES "," LATENT "," GROUPS
         ",\"moe_layer_freq\":2,\"intermediate_size\":96}",
         "llll", "emem"},
        {"{\"model_type\":\"gpt_oss\"," SIZES ",\"intermediate_size\":96,"
         "\"num_key_value_heads\":1}",
         "aaaa", "eeee"},
        {"{\"model_type\":\"mixtral\"," SIZES ",\"intermediate_size\":96,"
         "\"num_key_value_heads\":1}",
         "aaaa", "eeee"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_json_doc doc;
        gy_desc d;
        gy_err err = {0};
        assert_ok(gy_json_parse(&doc, cases[i].config, strlen(cases[i].config), &err), err);
        assert_ok(gy_describe(doc.root, &d, &err), err);
        for (int l = 0; l < 4; l++) {
            const gy_layer *y = d.layer + l;
            char mixer = y->mix.kind == GY_MIX_DELTA ? 'd' : y->mix.kind ? 'l' : 'a';
            char ffn = !y->ffn.moe.router ? 'm' : y->ffn.up ? 's' : 'e';
            if (mixer != cases[i].mixers[l] || ffn != cases[i].ffns[l])
                fail_msg("case %zu, layer %d: %c %c, expected %c %c", i, l, mixer, ffn,
                         cases[i].mixers[l], cases[i].ffns[l]);
        }
        gy_desc_free(&d), gy_json_free(&doc);
    }
}

static int make_work(void **state) {
    (void)state;
    snprintf(work, sizeof work, "%s/gyre-mix-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(work) ? 0 : -1;
}

static int drop_work(void **state) {
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/config.json", work), unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", work), unlink(path);
    return rmdir(work);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings), cmocka_unit_test(mixed_spellings),
        cmocka_unit_test(refused_configs), cmocka_unit_test(layer_kinds)};
    return cmocka_run_group_tests(tests, make_work, drop_work);
}
