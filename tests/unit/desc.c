/* Descriptions and binding: what a config promises and what files hold must agree, and every
 * disagreement must name the tensor or the key. Damaged checkpoints are made from the committed
 * fixtures, one change at a time. */
#include <math.h>
#include <sys/stat.h>

#include "base/fmap.h"
#include "model/bind.h"
#include "model/rope.h"
#include "testlib.h"

/* ---- Writing a changed checkpoint ---- */

typedef struct {
    const char *omit;      /* tensor left out */
    const char *extra;     /* tensor added: F32 [2] */
    const char *bend;      /* tensor whose shape is changed, its bytes kept */
    const char *from, *to; /* replacement in config.json's text */
    const char *was, *is;  /* replacement of a prefix of tensor names */
} change;

static char work[256];

static void write_file(const char *name, const void *data, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", work, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void shape_of(const gy_tensor *t, bool bend, gy_buf *b) {
    gy_buf_c(b, '[');
    if (bend && t->dims == 1)
        gy_buf_printf(b, "2,%lld", (long long)t->shape[0] / 2);
    else if (bend)
        gy_buf_printf(b, "%lld,%lld", (long long)t->shape[0] * 2, (long long)t->shape[1] / 2);
    for (int i = 0; !bend && i < t->dims; i++)
        gy_buf_printf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    gy_buf_c(b, ']');
}

static void write_weights(const gy_tensors *t, const change *c) {
    gy_buf head = {0}, data = {0};
    gy_buf_puts(&head, "--------{\"__metadata__\":{\"format\":\"mlx\"}");
    for (int i = 0; i < t->n; i++) {
        const gy_tensor *v = t->at + i;
        bool bend = c->bend && !strcmp(c->bend, v->name);
        if (c->omit && !strcmp(c->omit, v->name)) continue;
        /* A dot at the end leaves out a whole module. */
        if (c->omit && c->omit[strlen(c->omit) - 1] == '.' &&
            !strncmp(c->omit, v->name, strlen(c->omit)))
            continue;
        /* A row that cannot be halved is made one column of all values. */
        bool renamed = c->was && !strncmp(v->name, c->was, strlen(c->was));
        gy_buf_printf(&head, ",\"%s%s\":{\"dtype\":\"%s\",\"shape\":", renamed ? c->is : "",
                      v->name + (renamed ? strlen(c->was) : 0), gy_ttype_name(v->type));
        if (bend && v->dims == 2 && v->shape[1] == 1) /* one column: one row */
            gy_buf_printf(&head, v->shape[0] > 1 ? "[1,%lld]" : "[%lld]", (long long)v->shape[0]);
        else if (bend && v->shape[v->dims - 1] % 2)
            gy_buf_printf(&head, "[%lld,1]",
                          (long long)(v->dims == 2 ? v->shape[0] * v->shape[1] : v->shape[0]));
        else
            shape_of(v, bend, &head);
        gy_buf_printf(&head, ",\"data_offsets\":[%zu,%zu]}", data.n, data.n + v->bytes);
        gy_buf_add(&data, v->data, v->bytes);
    }
    if (c->extra) {
        gy_buf_printf(&head, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%zu,%zu]}",
                      c->extra, data.n, data.n + 8);
        gy_buf_add(&data, "\0\0\0\0\0\0\0\0", 8);
    }
    gy_buf_c(&head, '}');
    while (head.n % 8) gy_buf_c(&head, ' ');
    for (int i = 0; i < 8; i++) head.p[i] = (char)(((uint64_t)head.n - 8) >> 8 * i);
    gy_buf_add(&head, data.p, data.n);
    assert_false(head.oom || data.oom);
    write_file("model.safetensors", head.p, head.n);
    gy_buf_free(&head), gy_buf_free(&data);
}

/* Opens fixture `name` with one change; the result is gy_model_open's. */
static gy_rc open_changed(const char *name, const change *c, gy_model **m, gy_err *err) {
    char rel[128], path[512], *text;
    gy_tensors t = {0};
    gy_buf config = {0};
    size_t n;
    snprintf(rel, sizeof rel, "models/%s", name);
    assert_ok(gy_tensors_open_dir(&t, data_path(rel), err), *err);
    snprintf(path, sizeof path, "%s/config.json", data_path(rel));
    assert_ok(gy_file_read(path, 1 << 20, &text, &n, err), *err);
    const char *at = c->from ? strstr(text, c->from) : NULL;
    if (c->from && !at) fail_msg("%s: config.json has no %s", name, c->from);
    if (at) {
        gy_buf_add(&config, text, (size_t)(at - text));
        gy_buf_puts(&config, c->to);
        gy_buf_puts(&config, at + strlen(c->from));
    } else {
        gy_buf_add(&config, text, n);
    }
    write_file("config.json", config.p, config.n);
    write_weights(&t, c);
    gy_free(text), gy_buf_free(&config), gy_tensors_close(&t);
    gy_model_options o = {.no_tokenizer = true};
    return gy_model_open(work, &o, m, err);
}

static void refused(const char *name, const change *c, gy_rc rc, const char *word) {
    gy_model *m;
    gy_err err = {0};
    gy_rc got = open_changed(name, c, &m, &err);
    const char *what = c->omit ? c->omit : c->extra ? c->extra : c->bend ? c->bend : c->to;
    if (!got) fail_msg("%s: opened in spite of %s", name, what);
    if (rc && got != rc) fail_msg("%s: %s gives %s: %s", name, what, gy_rc_name(got), err.msg);
    if (!strstr(err.msg, word))
        fail_msg("%s: %s: the message does not name %s: %s", name, what, word, err.msg);
}

static int make_work(void **state) {
    (void)state;
    snprintf(work, sizeof work, "%s/gyre-desc-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(work) ? 0 : -1;
}

static int drop_work(void **state) {
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/config.json", work), unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", work), unlink(path);
    return rmdir(work);
}

/* ---- Tensors ---- */

static const char *const own[] = {"llama",   "gemma3",     "phi3-plain", "starcoder2", "olmo2",
                                  "qwen3_5", "qwen3_next", "gpt_oss",    "deepseek_v3"};

/* Without any one tensor the load fails and names it; so it does when its shape is another. */
static void every_tensor_counts(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof own / sizeof *own; f++) {
        char rel[128];
        gy_tensors t = {0};
        gy_err err = {0};
        snprintf(rel, sizeof rel, "models/%s", own[f]);
        assert_ok(gy_tensors_open_dir(&t, data_path(rel), &err), err);
        for (int i = 0; i < t.n; i++) {
            char module[200];
            const char *name = t.at[i].name;
            snprintf(module, sizeof module, "%.*s", (int)(strrchr(name, '.') - name), name);
            /* gemma3's own head is one by being there. */
            bool optional = strstr(name, "lm_head.weight") && strstr(own[f], "gemma3");
            if (!optional) refused(own[f], &(change){.omit = name}, GY_EFORMAT, name);
            /* Which of weight, scales and biases is the wrong one cannot be known; the module can.
             */
            refused(own[f], &(change){.bend = name}, GY_OK, module);
        }
        gy_tensors_close(&t);
    }
}

static void extra_tensors_are_named(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *extra;
        bool known;
    } cases[] = {
        {"llama", "model.layers.0.self_attn.sinks", false},
        {"llama", "model.layers.3.mlp.up_proj.weight", false},
        {"llama", "visual.patch_embed.weight", false},
        {"llama", "model.layers.0.self_attn.rotary_emb.inv_freq", true},
        {"llama", "lm_head.weight", true}, /* tied */
        {"llama", "lm_head_extra.weight", false},
        {"gemma3", "vision_tower.encoder.layers.0.x", true},
        {"gemma3", "multi_modal_projector.mm_norm.weight", true},
        {"gemma3", "language_model.vision_tower.x", false},
        {"phi3-plain", "model.layers.0.self_attn.q_proj.weight", false},
        {"starcoder2", "model.layers.0.mlp.gate_proj.weight", false},
        {"olmo2", "model.layers.0.input_layernorm.weight", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        change c = {.extra = cases[i].extra};
        gy_model *m;
        gy_err err = {0};
        if (!cases[i].known) {
            refused(cases[i].fixture, &c, GY_EFORMAT, cases[i].extra);
            continue;
        }
        assert_ok(open_changed(cases[i].fixture, &c, &m, &err), err);
        assert_int_equal(m->n_dropped, 1);
        assert_string_equal(m->dropped[0], cases[i].extra);
        gy_model_unref(m);
    }
}

/* ---- Configs ---- */

static void configs_that_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        gy_rc rc;
        const char *word;
    } cases[] = {
        {"\"llama\"", "\"nonesuch\"", GY_EUNSUPPORTED, "nonesuch"},
        {"\"llama\"", "\"nonesuch\"", GY_EUNSUPPORTED, "starcoder2"},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 0", GY_EFORMAT,
         "num_attention_heads"},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": \"4\"", GY_EFORMAT,
         "num_attention_heads"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", GY_EFORMAT,
         "num_key_value_heads"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", GY_EFORMAT, "k_proj"},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4294967295", GY_EFORMAT,
         "num_hidden_layers"},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", GY_EFORMAT, "layers.3"},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", GY_EFORMAT, "layers.2"},
        {"\"hidden_size\": 96", "\"hidden_size\": 128", GY_EFORMAT, "embed_tokens"},
        {"\"hidden_size\": 96", "\"hidden_size\": -1", GY_EFORMAT, "hidden_size"},
        {"\"hidden_size\": 96", "\"hidden_size\": 1e300", GY_EFORMAT, "hidden_size"},
        {"\"vocab_size\": 320", "\"vocab_size\": 321", GY_EFORMAT, "embed_tokens"},
        {"\"intermediate_size\": 192", "\"intermediate_size\": 96", GY_EFORMAT, "gate_proj"},
        {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0", GY_EFORMAT, "eps"},
        {"\"rms_norm_eps\": 1e-05", "\"unknown\": 0", GY_EFORMAT, "rms_norm_eps"},
        {"\"rope_theta\": 500000.0", "\"rope_theta\": 0", GY_EFORMAT, "rope_theta"},
        {"\"rope_theta\": 500000.0", "\"rope_theta\": NaN", GY_EFORMAT, "rope_theta"},
        {"\"factor\": 8.0", "\"factor\": 0", GY_EFORMAT, "factor"},
        {"\"factor\": 8.0", "\"factor\": \"8\"", GY_EFORMAT, "factor"},
        {"\"factor\": 8.0", "\"other\": 8.0", GY_EFORMAT, "factor"},
        {"\"low_freq_factor\": 1.0", "\"low_freq_factor\": 4.0", GY_EFORMAT, "high_freq_factor"},
        {"\"rope_type\": \"llama3\"", "\"rope_type\": \"spiral\"", GY_EUNSUPPORTED, "spiral"},
        {"\"rope_type\": \"llama3\"", "\"rope_type\": \"longrope\"", GY_EFORMAT, "long_factor"},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", GY_EFORMAT,
         "lm_head.weight"},
        {"\"tie_word_embeddings\": true", "\"attention_bias\": true", GY_EFORMAT, "q_proj.bias"},
        {"\"tie_word_embeddings\": true", "\"mlp_bias\": true", GY_EFORMAT, "gate_proj.bias"},
        {"\"tie_word_embeddings\": true", "\"hidden_act\": \"mish\"", GY_EUNSUPPORTED, "mish"},
        {"\"tie_word_embeddings\": true", "\"partial_rotary_factor\": 1.5", GY_EFORMAT,
         "partial_rotary_factor"},
        {"\"tie_word_embeddings\": true", "\"layer_types\": [\"full_attention\"]", GY_EFORMAT,
         "layer_types"},
        {"\"tie_word_embeddings\": true",
         "\"layer_types\": [\"full_attention\", \"chunked_attention\", \"full_attention\"]",
         GY_EUNSUPPORTED, "chunked_attention"},
        {"\"tie_word_embeddings\": true",
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         GY_EFORMAT, "sliding_window"},
        {"\"bits\": 4",
         "\"bits\": 4, \"model.layers.1.mlp.up_proj\": {\"bits\": 8, \"group_size\": 32}",
         GY_EFORMAT, "model.layers.1.mlp.up_proj"},
        {"\"bits\": 4",
         "\"bits\": 4, \"model.layers.1.mlp.up_proj\": {\"bits\": 4, \"group_size\": 64}",
         GY_EFORMAT, "model.layers.1.mlp.up_proj"},
        {"\"bits\": 4", "\"bits\": 4, \"model.layers.1.mlp.up_proj\": false", GY_EFORMAT,
         "model.layers.1.mlp.up_proj"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused("llama", &(change){.from = cases[i].from, .to = cases[i].to}, cases[i].rc,
                cases[i].word);
}

/* A wrong or absent default of the quantization block does not matter: shapes decide. */
static void quantisation_is_inferred(void **state) {
    (void)state;
    static const char *const to[] = {"\"bits\": 8", "\"other\": 1"};
    for (size_t i = 0; i < 2; i++) {
        gy_model *m;
        gy_err err = {0};
        assert_ok(open_changed("llama", &(change){.from = "\"bits\": 4", .to = to[i]}, &m, &err),
                  err);
        assert_string_equal(m->quant, "affine 4-bit g32");
        gy_model_unref(m);
    }
}

/* ---- Rotary tables, against the formulas of models.md 3.2 in libm's double ---- */

static void rope_case(const char *name, const char *text, int dims, double (*want)(double f, int i),
                      double mscale) {
    gy_json_doc doc = {0};
    gy_arena arena = {0};
    gy_err err = {0};
    gy_rope_config c;
    gy_rope r;
    assert_ok(gy_json_parse(&doc, text, strlen(text), &err), err);
    assert_ok(gy_rope_read(doc.root, "full_attention", 1e4, &c, &err), err);
    assert_ok(gy_rope_make(doc.root, &c, dims, false, &arena, &r, &err), err);
    for (int i = 0; i < dims / 2; i++) {
        double w = want(pow(c.theta, -2.0 * i / dims), i);
        if (fabs(r.inv_freq[i] - w) > 1e-7 * fabs(w))
            fail_msg("%s: frequency %d is %.9g, expected %.9g", name, i, r.inv_freq[i], w);
    }
    if (fabs(r.mscale - mscale) > 1e-6)
        fail_msg("%s: mscale is %.9g, expected %.9g", name, r.mscale, mscale);
    gy_json_free(&doc), gy_arena_free(&arena);
}

static double plain(double f, int i) {
    return (void)i, f;
}
static double eighth(double f, int i) {
    return (void)i, f / 8;
}
static double listed(double f, int i) {
    return f / (1 + i);
}
static double part(double f, int i) {
    return i < 2 ? f / 2 : 0;
}

/* n 16, theta 1e4, factor 4, L 64: c(32) < 0, c(1) = 16 ln(64 / 2 pi) / (2 ln 1e4) = 2.0159 */
static double yarn(double f, int i) {
    return i >= 3 ? f / 4 : f * (1 - i / 3.0) + f / 4 * (i / 3.0);
}
static double yarn_exact(double f, int i) {
    double hi = 16 * log(64 / (2 * 3.14159265358979323846)) / (2 * log(1e4)),
           r = i / hi > 1 ? 1 : i / hi;
    return f * (1 - r) + f / 4 * r;
}

static void rotary_tables(void **state) {
    (void)state;
#define YARN                                                                                       \
    "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":" \
    "64"
    double g = 0.1 * log(4) + 1;
    rope_case("default", "{}", 8, plain, 1);
    rope_case("null", "{\"rope_scaling\":null,\"rope_parameters\":null}", 8, plain, 1);
    rope_case("type null",
              "{\"rope_scaling\":{\"type\":null,\"rope_type\":\"linear\",\"factor\":8}}", 8, eighth,
              1);
    rope_case("mrope", "{\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[2,1,1]}}", 8,
              plain, 1);
    rope_case("linear", "{\"rope_theta\":500,\"rope_scaling\":{\"type\":\"linear\",\"factor\":8}}",
              8, eighth, 1);
    rope_case("v5",
              "{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":123}}", 8,
              eighth, 1);
    rope_case("v5 by layer",
              "{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,"
              "\"rope_theta\":9},"
              "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":77}}}",
              8, eighth, 1);
    rope_case("top wins",
              "{\"rope_scaling\":{\"type\":\"default\"},\"rope_parameters\":{\"type\":\"linear\","
              "\"factor\":8}}",
              8, plain, 1);
    rope_case("yarn", YARN "}}", 16, yarn, g);
    rope_case("yarn exact", YARN ",\"truncate\":false}}", 16, yarn_exact, g);
    rope_case("yarn factor given", YARN ",\"attention_factor\":0.5}}", 16, yarn, 0.5);
    rope_case("yarn mscales", YARN ",\"mscale\":2,\"mscale_all_dim\":0.5}}", 16, yarn,
              (0.2 * log(4) + 1) / (0.05 * log(4) + 1));
    rope_case("yarn one mscale", YARN ",\"mscale\":2}}", 16, yarn, g);
    rope_case(
        "longrope",
        "{\"max_position_embeddings\":256,\"original_max_position_embeddings\":64,\"rope_scaling\":"
        "{\"type\":\"longrope\",\"long_factor\":[1,2,3,4],\"short_factor\":[9,9,9,9]}}",
        8, listed, sqrt(1 + log(4) / log(64)));
    rope_case(
        "su",
        "{\"rope_scaling\":{\"type\":\"su\",\"factor\":1,\"original_max_position_embeddings\":64,"
        "\"long_factor\":[1,2,3,4]}}",
        8, listed, 1);
    rope_case("proportional",
              "{\"rope_scaling\":{\"type\":\"proportional\",\"factor\":2,\"partial_rotary_factor\":"
              "0.25}}",
              16, part, 1);
#undef YARN
}

/* ---- Families' own knobs, as the description shows them ---- */

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_"        \
    "heads\":2,"                                                                                   \
    "\"intermediate_size\":96,\"head_dim\":16,\"rms_norm_eps\":1e-5,\"rope_theta\":10000"

static void describe(const char *text, gy_desc *d) {
    gy_json_doc doc = {0};
    gy_err err = {0};
    assert_ok(gy_json_parse(&doc, text, strlen(text), &err), err);
    assert_ok(gy_describe(doc.root, d, &err), err);
    gy_json_free(&doc);
}

static void windows(void **state) {
    (void)state;
    static const struct {
        const char *config;
        int window[4];
    } cases[] = {
        {"{\"model_type\":\"llama\",\"sliding_window\":7," SIZES "}", {0, 0, 0, 0}},
        {"{\"model_type\":\"llama\",\"sliding_window\":7,\"layer_types\":[\"full_attention\","
         "\"sliding_attention\","
         "\"sliding_attention\",\"full_attention\"]," SIZES "}",
         {0, 7, 7, 0}},
        {"{\"model_type\":\"mistral\",\"sliding_window\":7," SIZES "}", {7, 7, 7, 7}},
        {"{\"model_type\":\"mistral\",\"sliding_window\":null," SIZES "}", {0, 0, 0, 0}},
        {"{\"model_type\":\"phi3\",\"sliding_window\":7," SIZES "}", {7, 7, 7, 7}},
        {"{\"model_type\":\"starcoder2\",\"sliding_window\":7," SIZES "}", {7, 7, 7, 7}},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":7," SIZES "}", {0, 0, 0, 0}},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":7,\"use_sliding_window\":false,\"max_window_"
         "layers\":1," SIZES "}",
         {0, 0, 0, 0}},
        {"{\"model_type\":\"qwen2\",\"sliding_window\":7,\"use_sliding_window\":true,\"max_window_"
         "layers\":1," SIZES "}",
         {0, 7, 7, 7}},
        {"{\"model_type\":\"qwen3\",\"sliding_window\":7,\"use_sliding_window\":true," SIZES "}",
         {0, 0, 0, 0}},
        {"{\"model_type\":\"gemma2\",\"sliding_window\":7," SIZES "}", {7, 0, 7, 0}},
        {"{\"model_type\":\"gemma2\"," SIZES "}", {4096, 0, 4096, 0}},
        {"{\"model_type\":\"gemma3_text\",\"sliding_window\":7,\"sliding_window_pattern\":2," SIZES
         "}",
         {7, 0, 7, 0}},
        {"{\"model_type\":\"gemma3_text\",\"sliding_window\":7,\"layer_types\":[\"full_attention\","
         "\"sliding_attention\","
         "\"sliding_attention\",\"full_attention\"]," SIZES "}",
         {0, 7, 7, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_desc d;
        describe(cases[i].config, &d);
        for (int l = 0; l < 4; l++)
            if (d.layer[l].mix.window != cases[i].window[l])
                fail_msg("%s: layer %d has window %d, expected %d", cases[i].config, l,
                         d.layer[l].mix.window, cases[i].window[l]);
        gy_desc_free(&d);
    }
}

static void knobs(void **state) {
    (void)state;
    gy_desc d;
    describe("{\"model_type\":\"smollm3\",\"no_rope_layer_interval\":2," SIZES "}", &d);
    for (int i = 0; i < 4; i++) assert_int_equal(d.layer[i].mix.rope.rot, i % 2 ? 0 : 16);
    gy_desc_free(&d);
    describe("{\"model_type\":\"smollm3\",\"no_rope_layers\":[0,1,1,0]," SIZES "}", &d);
    for (int i = 0; i < 4; i++)
        assert_int_equal(d.layer[i].mix.rope.rot, i == 0 || i == 3 ? 0 : 16);
    gy_desc_free(&d);
    describe("{\"model_type\":\"minicpm\",\"scale_emb\":12,\"scale_depth\":1.4,\"dim_model_base\":"
             "16," SIZES "}",
             &d);
    assert_true(d.embed_scale == 12 && d.logit_scale == 0.25f &&
                fabsf(d.layer->res_scale - 0.7f) < 1e-6f);
    gy_desc_free(&d);
    describe("{\"model_type\":\"gemma\"," SIZES "}", &d);
    assert_int_equal(d.layer->ffn.act, GY_ACT_GELU_ERF);
    gy_desc_free(&d);
    describe("{\"model_type\":\"gemma\",\"hidden_act\":\"gelu\"," SIZES "}", &d);
    assert_int_equal(d.layer->ffn.act, GY_ACT_GELU_TANH);
    gy_desc_free(&d);
    describe("{\"model_type\":\"glm4\"," SIZES "}", &d);
    assert_true(d.layer->mix.rope.pairs && d.layer->mix.rope.rot == 8);
    gy_desc_free(&d);
    describe("{\"model_type\":\"gemma2\"," SIZES "}", &d);
    assert_true(d.layer->mix.cap == 50 && d.logit_cap == 30);
    gy_desc_free(&d);
    describe("{\"model_type\":\"gemma2\",\"attn_logit_softcapping\":null,\"final_logit_"
             "softcapping\":null," SIZES "}",
             &d);
    assert_true(d.layer->mix.cap == 0 && d.logit_cap == 0);
    gy_desc_free(&d);
    /* gemma3 of transformers 5: bases by layer type. */
    describe("{\"model_type\":\"gemma3_text\",\"hidden_size\":64,\"num_hidden_layers\":6,"
             "\"intermediate_size\":96,"
             "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":2,"
             "\"rope_theta\":100},"
             "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":16}}}",
             &d);
    assert_true(d.layer->mix.heads == 8 && d.layer->mix.kv_heads == 4 && d.layer->mix.dim == 256);
    assert_true(d.layer[0].mix.rope.inv_freq[0] == 1 && d.layer[5].mix.rope.inv_freq[0] == 0.5f);
    assert_true(fabsf(d.layer[0].mix.rope.inv_freq[64] - 0.25f) < 1e-7f);
    assert_true(fabsf(d.layer[5].mix.rope.inv_freq[64] - 0.05f) < 1e-8f);
    gy_desc_free(&d);
}

/* The same model under the names that other writers give. */
static void prefixes(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *was, *is;
        bool opens;
    } cases[] = {
        {"llama", "model.", "", true}, /* embedding checkpoints lack the prefix */
        {"llama", "model.", "transformer.", false},
        {"starcoder2", "model.", "", true},
        {"gemma3", "language_model.model.", "model.language_model.", true},
        {"gemma3", "language_model.model.", "model.", true},
        {"gemma3", "language_model.model.", "text.", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        change c = {.was = cases[i].was, .is = cases[i].is};
        gy_model *m = NULL;
        gy_err err = {0};
        /* gemma3's own head keeps its name, which belongs to the first form only: it is left out,
         * and the model tied. */
        if (!strcmp(cases[i].fixture, "gemma3")) c.omit = "language_model.lm_head.";
        gy_rc rc = open_changed(cases[i].fixture, &c, &m, &err);
        if (cases[i].opens && rc) fail_msg("%s, %s: %s", cases[i].fixture, cases[i].is, err.msg);
        if (!cases[i].opens && !strstr(err.msg, "embed_tokens.weight"))
            fail_msg("%s, %s: %s", cases[i].fixture, cases[i].is, rc ? err.msg : "opened");
        if (!rc) assert_int_equal(m->desc.vocab, 320);
        gy_model_unref(m);
    }
}

static void plan_forms(void **state) {
    (void)state;
    gy_model *m;
    gy_plan *plan;
    gy_err err = {0};
    gy_buf b = {0};
    gy_json_doc doc = {0};
    gy_cparm f16 = {.kind = GY_CODEC_F16};
    gy_model_options o = {.no_tokenizer = true};
    assert_ok(gy_model_open(data_path("models/gemma3"), &o, &m, &err), err);
    assert_ok(gy_plan_build(m, f16, f16, &plan, &err), err);
    assert_int_equal(plan->kv[0].keep.policy, GY_KEEP_WINDOW);
    assert_int_equal(plan->kv[0].keep.window, 16);
    assert_int_equal(plan->kv[1].keep.policy, GY_KEEP_ALL);
    gy_plan_print(plan, false, &b);
    assert_non_null(strstr(
        b.p, "language_model.model.layers.1.mlp.down_proj.weight [64, 128] affine 4-bit g32"));
    gy_buf_free(&b);
    gy_plan_print(plan, true, &b);
    assert_ok(gy_json_parse(&doc, b.p, b.n, &err), err);
    assert_int_equal(gy_json_get(doc.root, "ops")->n, plan->n_ops);
    gy_json_free(&doc), gy_buf_free(&b), gy_plan_free(plan);
    gy_cparm odd = {.kind = GY_CODEC_Q4_K};
    assert_int_equal(gy_plan_build(m, odd, f16, &plan, &err), GY_EUNSUPPORTED);
    char *json;
    assert_ok(gy_model_inspect(m, &json, &err), err);
    assert_ok(gy_json_parse(&doc, json, strlen(json), &err), err);
    gy_free(json), gy_json_free(&doc);
    gy_model_unref(m);
    gy_model_options tok_only = {.no_weights = true, .no_tokenizer = true};
    assert_ok(gy_model_open(data_path("models/gemma3"), &tok_only, &m, &err), err);
    assert_int_equal(gy_plan_build(m, f16, f16, &plan, &err), GY_EARG);
    gy_model_unref(m);
}

/* Every allocation of an opening fails once. */
static void memory_runs_out(void **state) {
    (void)state;
    gy_model_options o = {.no_tokenizer = true};
    gy_model *m;
    gy_err err = {0};
    long before = gy_alloc_count();
    assert_ok(gy_model_open(data_path("models/starcoder2"), &o, &m, &err), err);
    long total = gy_alloc_count() - before;
    gy_model_unref(m);
    for (long n = 1;; n++) {
        gy_alloc_fail_at(n);
        gy_rc rc = gy_model_open(data_path("models/starcoder2"), &o, &m, &err);
        gy_alloc_fail_at(0);
        if (!rc) {
            gy_model_unref(m);
            if (n > total) break;
            fail_msg("allocation %ld failed and the model opened", n);
        }
        if (rc != GY_ENOMEM) fail_msg("allocation %ld: %s: %s", n, gy_rc_name(rc), err.msg);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotary_tables),
        cmocka_unit_test(windows),
        cmocka_unit_test(knobs),
        cmocka_unit_test(every_tensor_counts),
        cmocka_unit_test(extra_tensors_are_named),
        cmocka_unit_test(configs_that_are_refused),
        cmocka_unit_test(quantisation_is_inferred),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(plan_forms),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, make_work, drop_work);
}
