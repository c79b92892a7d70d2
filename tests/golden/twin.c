/* The same model as GGUF: each dense fixture is written as an F32 GGUF file the way llama.cpp's
 * converter lays it out (names, keys, permuted q and k rows, norms of gemma as 1 + w, divisors of
 * rotation as tensors), opened again, and run in double beside the original. GYRE_TWINS=DIR keeps
 * the files, for comparison with other programs. */
#include <math.h>
#include <sys/stat.h>

#include "golden/golden.h"
#include "golden/naive.h"
#include "model/bind.h"
#include "testlib.h"

/* ---- A GGUF writer ---- */

typedef struct {
    gy_buf kv, info, data;
    uint64_t n_kv, n_tensors;
    const char *arch;
} gguf;

static void raw(gy_buf *b, const void *p, size_t n) {
    gy_buf_add(b, p, n);
}

static void put_u32(gy_buf *b, uint32_t v) {
    raw(b, &v, 4);
}

static void put_u64(gy_buf *b, uint64_t v) {
    raw(b, &v, 8);
}

static void put_str(gy_buf *b, const char *s) {
    put_u64(b, strlen(s)), raw(b, s, strlen(s));
}

/* A key below the architecture's name, or a whole one when it has general. or tokenizer. in front.
 */
static void key(gguf *g, const char *name, uint32_t type) {
    char full[128];
    bool whole = !strncmp(name, "general.", 8) || !strncmp(name, "tokenizer.", 10);
    snprintf(full, sizeof full, whole ? "%.0s%s" : "%s.%s", g->arch, name);
    put_str(&g->kv, full), put_u32(&g->kv, type), g->n_kv++;
}

static void kv_int(gguf *g, const char *name, int v) {
    key(g, name, 4), put_u32(&g->kv, (uint32_t)v);
}

static void kv_num(gguf *g, const char *name, double v) {
    float f = (float)v;
    key(g, name, 6), raw(&g->kv, &f, 4);
}

static void kv_str(gguf *g, const char *name, const char *v) {
    key(g, name, 8), put_str(&g->kv, v);
}

static void tensor(gguf *g, const char *name, const float *v, int rows, int cols) {
    put_str(&g->info, name);
    put_u32(&g->info, rows ? 2 : 1), put_u64(&g->info, (uint64_t)cols);
    if (rows) put_u64(&g->info, (uint64_t)rows);
    put_u32(&g->info, 0), put_u64(&g->info, g->data.n), g->n_tensors++;
    raw(&g->data, v, (size_t)(rows ? rows : 1) * (size_t)cols * 4);
    while (g->data.n % 32) gy_buf_c(&g->data, 0);
}

static void write_gguf(gguf *g, const char *path) {
    gy_buf b = {0};
    raw(&b, "GGUF", 4), put_u32(&b, 3), put_u64(&b, g->n_tensors), put_u64(&b, g->n_kv);
    raw(&b, g->kv.p, g->kv.n), raw(&b, g->info.p, g->info.n);
    while (b.n % 32) gy_buf_c(&b, 0);
    raw(&b, g->data.p, g->data.n);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
    gy_buf_free(&b), gy_buf_free(&g->kv), gy_buf_free(&g->info), gy_buf_free(&g->data);
}

/* ---- From a model to its twin ---- */

typedef struct {
    const char *fixture, *arch;
    bool permute, plus_one;
} twin;

static const twin twins[] = {
    {"llama", "llama", true, false},       {"mistral", "llama", true, false},
    {"llama-yarn", "llama", true, false},  {"llama-linear", "llama", true, false},
    {"llama-bf16", "llama", true, false},  {"smollm3", "smollm3", true, false},
    {"qwen2", "qwen2", false, false},      {"qwen3", "qwen3", false, false},
    {"qwen3-yarn", "qwen3", false, false}, {"gemma", "gemma", false, true},
    {"gemma2", "gemma2", false, true},     {"gemma3_text", "gemma3", false, true},
    {"phi3", "phi3", false, false},        {"phi3-plain", "phi3", false, false},
    {"olmo2", "olmo2", false, false},      {"glm4", "glm4", false, false},
    {"granite", "granite", true, false},   {"starcoder2", "starcoder2", false, false},
};

/* Hugging Face's row j * dim / 2 + i of a head is GGUF's row 2 i + j. width: floats of one row. */
static void permute(float *v, int heads, int dim, size_t width) {
    float *head = calloc((size_t)dim * width, sizeof *head);
    for (int h = 0; h < heads; h++) {
        float *from = v + (size_t)(h * dim) * width;
        for (int i = 0; i < dim / 2; i++)
            for (int j = 0; j < 2; j++)
                memcpy(head + (size_t)(2 * i + j) * width, from + (size_t)(j * dim / 2 + i) * width,
                       width * sizeof *v);
        memcpy(from, head, (size_t)dim * width * sizeof *v);
    }
    free(head);
}

static void put_matrix(gguf *g, const char *prefix, const char *role, const gy_weight *w, int heads,
                       int dim) {
    char name[128];
    int rows = w->file.rows, cols = w->file.cols;
    float *v = calloc((size_t)rows * (size_t)cols, sizeof *v),
          *bias = calloc((size_t)rows, sizeof *bias);
    for (int r = 0; r < rows; r++)
        gy_codecs[w->file.c.kind].decode(&w->file, r, v + (size_t)r * (size_t)cols);
    if (w->bias) memcpy(bias, w->bias, (size_t)rows * sizeof *bias);
    if (heads) permute(v, heads, dim, (size_t)cols), permute(bias, heads, dim, 1);
    snprintf(name, sizeof name, "%s%s.weight", prefix, role), tensor(g, name, v, rows, cols);
    snprintf(name, sizeof name, "%s%s.bias", prefix, role);
    if (w->bias) tensor(g, name, bias, 0, rows);
    free(v), free(bias);
}

static void put_norm(gguf *g, const char *prefix, const char *role, const gy_weight *w,
                     bool plus_one) {
    char name[128];
    int n = w->file.cols;
    float *v = calloc((size_t)n, sizeof *v);
    gy_codecs[GY_CODEC_F32].decode(&w->file, 0, v);
    for (int i = 0; i < n; i++) v[i] += plus_one ? 1 : 0;
    snprintf(name, sizeof name, "%s%s.weight", prefix, role), tensor(g, name, v, 0, n);
    snprintf(name, sizeof name, "%s%s.bias", prefix, role);
    if (w->bias) tensor(g, name, w->bias, 0, n);
    free(v);
}

static void put_layer(gguf *g, const twin *t, const gy_layer *l, const gy_bound_layer *w) {
    char prefix[32];
    int heads = t->permute ? l->mix.heads : 0, kv = t->permute ? l->mix.kv_heads : 0,
        dim = l->mix.dim;
    const struct {
        const char *name;
        const gy_weight *w;
        int heads;
    } parts[] = {
        {"attn_q", w->q, heads}, {"attn_k", w->k, kv},      {"attn_v", w->v, 0},
        {"attn_qkv", w->qkv, 0}, {"attn_output", w->o, 0},  {"ffn_gate", w->gate, 0},
        {"ffn_up", w->up, 0},    {"ffn_up", w->gate_up, 0}, {"ffn_down", w->down, 0},
    };
    const struct {
        const char *name;
        const gy_weight *w;
    } norms[] = {{"attn_norm", w->pre_a},    {"post_attention_norm", w->post_a},
                 {"ffn_norm", w->pre_f},     {"post_ffw_norm", w->post_f},
                 {"attn_q_norm", w->q_norm}, {"attn_k_norm", w->k_norm}};
    snprintf(prefix, sizeof prefix, "blk.%d.", l->i);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].w) put_matrix(g, prefix, parts[i].name, parts[i].w, parts[i].heads, dim);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (norms[i].w) put_norm(g, prefix, norms[i].name, norms[i].w, t->plus_one);
}

/* llama3's rule and longrope's lists travel as divisors of the plain frequencies. */
static void put_rope(gguf *g, const gy_model *m) {
    const gy_json *s = gy_json_get(m->cfg, "rope_scaling");
    const gy_rope *r = &m->desc.layer->mix.rope;
    const char *type = gy_json_s(s, "type", gy_json_s(s, "rope_type", "default"));
    double theta = gy_json_f(m->cfg, "rope_theta", 1e4);
    float v[256], one[256];
    kv_num(g, "rope.freq_base", theta);
    kv_int(g, "rope.dimension_count", r->rot);
    if (!strcmp(type, "linear"))
        kv_str(g, "rope.scaling.type", "linear"),
            kv_num(g, "rope.scaling.factor", gy_json_f(s, "factor", 1));
    if (!strcmp(type, "yarn")) {
        kv_str(g, "rope.scaling.type", "yarn"),
            kv_num(g, "rope.scaling.factor", gy_json_f(s, "factor", 1));
        kv_int(g, "rope.scaling.original_context_length",
               (int)gy_json_i(s, "original_max_position_embeddings", 0));
    }
    for (int i = 0; i < r->rot / 2 && i < 256; i++)
        v[i] = (float)(pow(theta, -2.0 * i / r->rot) / r->inv_freq[i]), one[i] = 1;
    if (!strcmp(type, "llama3")) tensor(g, "rope_freqs.weight", v, 0, r->rot / 2);
    if (!strcmp(type, "longrope")) {
        kv_str(g, "rope.scaling.type", "longrope"),
            kv_num(g, "rope.scaling.attn_factor", r->mscale);
        kv_int(g, "rope.scaling.original_context_length",
               (int)gy_json_i(m->cfg, "original_max_position_embeddings", 0));
        tensor(g, "rope_factors_long.weight", v, 0, r->rot / 2),
            tensor(g, "rope_factors_short.weight", one, 0, r->rot / 2);
    }
}

static void put_keys(gguf *g, const gy_model *m) {
    const gy_desc *d = &m->desc;
    const gy_mix *mix = &d->layer->mix;
    kv_str(g, "general.architecture", g->arch), kv_str(g, "general.name", "twin");
    kv_int(g, "context_length", d->context), kv_int(g, "embedding_length", d->width),
        kv_int(g, "block_count", d->n_layers);
    kv_int(g, "feed_forward_length", d->layer->ffn.width),
        kv_int(g, "attention.head_count", mix->heads);
    kv_int(g, "attention.head_count_kv", mix->kv_heads), kv_int(g, "vocab_size", d->vocab);
    kv_int(g, "attention.key_length", mix->dim), kv_int(g, "attention.value_length", mix->dim);
    kv_num(g,
           d->norm == GY_NORM_LAYER ? "attention.layer_norm_epsilon"
                                    : "attention.layer_norm_rms_epsilon",
           d->eps);
    kv_str(g, "tokenizer.ggml.model", "none");
    if (!strcmp(g->arch, "gemma2"))
        kv_num(g, "attn_logit_softcapping", mix->cap),
            kv_num(g, "final_logit_softcapping", d->logit_cap);
    if (mix->window) kv_int(g, "attention.sliding_window", mix->window);
    if (!strcmp(g->arch, "gemma3")) kv_int(g, "attention.sliding_window_pattern", 3);
    if (!strcmp(g->arch, "granite")) {
        kv_num(g, "logit_scale", 1 / d->logit_scale),
            kv_num(g, "residual_scale", d->layer->res_scale);
        kv_num(g, "embedding_scale", d->embed_scale), kv_num(g, "attention.scale", mix->scale);
    }
}

static void make_twin(const twin *t, const gy_model *m, const char *path) {
    gguf g = {.arch = t->arch};
    put_keys(&g, m);
    put_rope(&g, m);
    put_matrix(&g, "", "token_embd", m->bound->embed, 0, 0);
    if (m->bound->head != m->bound->embed) put_matrix(&g, "", "output", m->bound->head, 0, 0);
    put_norm(&g, "", "output_norm", m->bound->final_norm, t->plus_one);
    for (int i = 0; i < m->desc.n_layers; i++)
        put_layer(&g, t, m->desc.layer + i, m->bound->layer + i);
    write_gguf(&g, path);
}

/* ---- Comparison ---- */

/* What GGUF cannot say of a fixture, or what its name fixes: the tanh form of gelu, queries scaled
 * by the head. */
static void as_gguf_says(const twin *t, gy_model *m) {
    bool tanh_form = !strcmp(t->arch, "gemma") || !strcmp(t->arch, "starcoder2");
    bool scaled = !strcmp(t->arch, "gemma2") || !strcmp(t->arch, "gemma3");
    for (gy_layer *l = m->desc.layer; l < m->desc.layer + m->desc.n_layers; l++) {
        if (tanh_form) l->ffn.act = GY_ACT_GELU_TANH;
        if (scaled) l->mix.scale = (float)(1 / sqrt(l->mix.dim));
    }
}

static double *logits_of(const char *name, gy_model *m, const golden *g) {
    gy_cparm f32 = {.kind = GY_CODEC_F32};
    gy_plan *plan;
    gy_err err = {0};
    double *logits = calloc((size_t)g->prompt * (size_t)g->vocab, sizeof *logits);
    assert_ok(gy_plan_build(m, f32, f32, &plan, &err), err);
    const char *unknown = naive_run(plan, g->ids, g->prompt, logits);
    if (unknown) fail_msg("%s: the oracle does not know operator %s", name, unknown);
    gy_plan_free(plan);
    return logits;
}

static void check(const twin *t, const char *dir, const char *path) {
    golden g;
    gy_model *hf, *gg;
    gy_err err = {0};
    gy_model_options o = {.no_tokenizer = true};
    golden_open(&g, dir);
    assert_ok(gy_model_open(dir, &o, &hf, &err), err);
    as_gguf_says(t, hf);
    make_twin(t, hf, path);
    assert_ok(gy_model_open(path, &o, &gg, &err), err);
    assert_int_equal(gg->desc.layer->mix.rope.pairs, t->permute || hf->desc.layer->mix.rope.pairs);
    double *a = logits_of(t->fixture, hf, &g), *b = logits_of(t->fixture, gg, &g), gap = 0;
    for (size_t i = 0; i < (size_t)g.prompt * (size_t)g.vocab; i++)
        gap = fmax(gap, fabs(a[i] - b[i]));
    /* Only constants that pass through f32 keys and tensors may differ: a last bit of theta,
     * factors, 1 + w. */
    printf("%-14s as %-10s differs by %.3g, f32_noise %.3g\n", t->fixture, t->arch, gap, g.noise);
    if (!(gap <= g.noise))
        fail_msg("%s as %s: logits differ by %g, f32_noise is %g", t->fixture, t->arch, gap,
                 g.noise);
    free(a), free(b);
    gy_model_unref(hf), gy_model_unref(gg);
    golden_close(&g);
}

static void every_architecture(void **state) {
    (void)state;
    const char *keep = getenv("GYRE_TWINS");
    char dir[256];
    int missing = 0;
    snprintf(dir, sizeof dir, "%s", keep ? keep : "/tmp/gyre-twin-XXXXXX");
    if (keep)
        mkdir(dir, 0700);
    else
        assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        const char *from = golden_path(twins[i].fixture);
        char path[512], copy[1024];
        snprintf(path, sizeof path, "%s/%s.gguf", dir, twins[i].fixture);
        if (!from) {
            missing++;
            continue;
        }
        snprintf(copy, sizeof copy, "%s", from);
        check(&twins[i], copy, path);
        if (!keep) unlink(path);
    }
    if (!keep) rmdir(dir);
    if (missing) printf("notice: %d fixtures skipped, set GYRE_SHARED\n", missing);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
