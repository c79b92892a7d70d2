/* model/fam_gguf - see gguf_map.h. Key and tensor names are those of llama.cpp's converter. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dmath.h"
#include "base/num.h"
#include "model/gguf_map.h"

typedef struct {
    const char *arch, *type;
    bool permuted; /* q and k rows were permuted so that neighbours rotate together */
} arch;

static const arch archs[] = {
    {"llama", "llama", true},     {"xverse", "llama", true},
    {"minicpm", "granite", true}, {"granite", "granite", true},
    {"smollm3", "smollm3", true}, {"qwen2", "qwen2", false},
    {"qwen3", "qwen3", false},    {"gemma", "gemma", false},
    {"gemma2", "gemma2", false},  {"gemma3", "gemma3_text", false},
    {"phi3", "phi3", false},      {"olmo2", "olmo2", false},
    {"glm4", "glm4", false},      {"starcoder2", "starcoder2", false},
};

typedef struct {
    const gy_gguf *g;
    const arch *a;
    gy_buf *b; /* the config being written */
    gy_err *err;
} writer;

static gy_rc find_arch(const gy_gguf *g, const arch **out, gy_err *err) {
    gy_gguf_str s;
    char quoted[64], list[256];
    size_t n = 0;
    if (!gy_gguf_string(g, "general.architecture", &s))
        return gy_fail(err, GY_EFORMAT, "general.architecture is missing or no string");
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (strlen(archs[i].arch) == s.n && !memcmp(archs[i].arch, s.s, s.n))
            return *out = archs + i, GY_OK;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", archs[i].arch);
    }
    return gy_fail(err, GY_EUNSUPPORTED,
                   "general.architecture \"%s\" is not supported; these are: %s",
                   gy_err_quote(quoted, s.s, s.n), list);
}

bool gy_gguf_permuted(const gy_gguf *g) {
    const arch *a;
    return !find_arch(g, &a, NULL) && a->permuted;
}

/* ---- Reading metadata ---- */

static const char *key_of(const writer *w, const char *key, char out[128]) {
    snprintf(out, 128, "%s.%s", w->a->arch, key);
    return out;
}

static bool number(const writer *w, const char *key, double *out) {
    char name[128];
    return gy_gguf_num(w->g, key_of(w, key, name), out) && isfinite(*out);
}

/* A whole number of at least low; a list of equal ones counts as one. absent < 0: required. */
static gy_rc whole(const writer *w, const char *key, int64_t low, int64_t absent, int64_t *out) {
    char name[128];
    const gy_gguf_kv *kv = gy_gguf_get(w->g, key_of(w, key, name));
    double first = 0, v;
    if (!kv && absent >= 0) return *out = absent, GY_OK;
    if (!kv) return gy_fail(w->err, GY_EFORMAT, "%s is missing", name);
    if (kv->type == GY_GGUF_ARR) {
        if (!kv->n || !gy_gguf_item_num(kv, 0, &first) || first != floor(first) ||
            fabs(first) > 0x1p31)
            return gy_fail(w->err, GY_EFORMAT, "%s must be a list of integers", name);
        for (uint64_t i = 1; i < kv->n; i++)
            if (!gy_gguf_item_num(kv, i, &v) || v != first)
                return gy_fail(w->err, GY_EUNSUPPORTED, "%s differs from layer to layer", name);
        *out = (int64_t)first;
    } else if (!gy_gguf_int(w->g, name, out)) {
        return gy_fail(w->err, GY_EFORMAT, "%s must be an integer", name);
    }
    if (*out >= low && *out <= INT32_MAX) return GY_OK;
    return gy_fail(w->err, GY_EFORMAT, "%s is %lld, must be %lld to 2147483647", name,
                   (long long)*out, (long long)low);
}

static void put_int(writer *w, const char *name, int64_t v) {
    gy_buf_printf(w->b, ",\"%s\":%lld", name, (long long)v);
}
static void put_num(writer *w, const char *name, double v) {
    gy_buf_printf(w->b, ",\"%s\":%.17g", name, v);
}

/* Copies a number under another name, if it is there. */
static void copy_num(writer *w, const char *key, const char *name) {
    double v;
    if (number(w, key, &v)) put_num(w, name, v);
}

/* ---- Rotation ---- */

/* Writes a list of rotation divisors from a tensor of n f32; false when there is no such tensor. */
static gy_rc factors(writer *w, const char *tensor, const char *name, double times, bool *found) {
    const gy_tensor *t = gy_tensors_find(&w->g->tensors, tensor);
    *found = t != NULL;
    if (!t) return GY_OK;
    if (t->type != GY_T_F32 || t->dims != 1 || t->shape[0] < 1 || t->shape[0] > 1 << 13)
        return gy_fail(w->err, GY_EFORMAT, "tensor %s must be a vector of F32", tensor);
    gy_buf_printf(w->b, ",\"%s\":[", name);
    for (int64_t i = 0; i < t->shape[0]; i++) {
        float v = gy_bits_f32(gy_load_u32(t->data + 4 * i));
        if (!isfinite(v))
            return gy_fail(w->err, GY_EFORMAT, "tensor %s: value %lld is not finite", tensor,
                           (long long)i);
        gy_buf_printf(w->b, "%s%.17g", i ? "," : "", v * times);
    }
    gy_buf_c(w->b, ']');
    return GY_OK;
}

static gy_rc rope_scaling(writer *w, int64_t context) {
    gy_gguf_str kind = {"none", 4};
    char name[128], quoted[64];
    double factor = 0, attn = 1;
    int64_t trained;
    bool found;
    gy_gguf_string(w->g, key_of(w, "rope.scaling.type", name), &kind);
    if (!number(w, "rope.scaling.factor", &factor)) number(w, "rope.scale_linear", &factor);
    number(w, "rope.scaling.attn_factor", &attn);
    gy_rc rc =
        whole(w, "rope.scaling.original_context_length", 1, context ? context : 4096, &trained);
    bool yarn = kind.n == 4 && !memcmp(kind.s, "yarn", 4),
         none = kind.n == 4 && !memcmp(kind.s, "none", 4);
    bool linear = kind.n == 6 && !memcmp(kind.s, "linear", 6),
         lists = kind.n == 8 && !memcmp(kind.s, "longrope", 8);
    if (!rc && !yarn && !none && !linear && !lists)
        rc = gy_fail(w->err, GY_EUNSUPPORTED, "%s.rope.scaling.type \"%s\" is not supported",
                     w->a->arch, gy_err_quote(quoted, kind.s, kind.n));
    if (rc) return rc;
    if (!(factor > 0) || lists) factor = 1;
    /* Older files name no type and mean linear. */
    if (none && !gy_gguf_get(w->g, name)) linear = true;
    bool vectors = gy_tensors_find(&w->g->tensors, "rope_freqs.weight") ||
                   gy_tensors_find(&w->g->tensors, "rope_factors_long.weight");
    if (vectors) {
        gy_buf_puts(w->b, ",\"rope_scaling\":{\"type\":\"longrope\"");
        put_num(w, "attention_factor", attn);
        put_int(w, "original_max_position_embeddings", trained);
        double times = linear ? factor : 1;
        rc = factors(w, "rope_factors_short.weight", "short_factor", times, &found);
        if (!rc) rc = factors(w, "rope_factors_long.weight", "long_factor", times, &found);
        if (!rc && !found) rc = factors(w, "rope_freqs.weight", "long_factor", times, &found);
        gy_buf_c(w->b, '}');
    } else if (yarn) {
        gy_buf_puts(w->b, ",\"rope_scaling\":{\"type\":\"yarn\"");
        put_num(w, "factor", factor);
        put_int(w, "original_max_position_embeddings", trained);
        put_num(w, "attention_factor", attn * (factor > 1 ? 1 + 0.1 * gy_dlog(factor) : 1));
        copy_num(w, "rope.scaling.yarn_beta_fast", "beta_fast");
        copy_num(w, "rope.scaling.yarn_beta_slow", "beta_slow");
        gy_buf_c(w->b, '}');
    } else if (linear && factor != 1) {
        gy_buf_printf(w->b, ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":%.17g}", factor);
    }
    return rc;
}

/* ---- Words that only some architectures have ---- */

static bool is(const writer *w, const char *name) {
    return !strcmp(w->a->arch, name);
}

/* A flag per layer, or a period whose last layer sees everything. */
static gy_rc window_words(writer *w, int64_t layers, int64_t absent_period) {
    char name[128];
    const gy_gguf_kv *kv = gy_gguf_get(w->g, key_of(w, "attention.sliding_window_pattern", name));
    int64_t window, period;
    double v;
    gy_rc rc = whole(w, "attention.sliding_window", 0, 0, &window);
    if (rc) return rc;
    if (!window) return put_int(w, "sliding_window_pattern", 1), GY_OK;
    put_int(w, "sliding_window", window);
    if (!kv || kv->type != GY_GGUF_ARR) {
        rc = whole(w, "attention.sliding_window_pattern", 1, absent_period, &period);
        if (!rc) put_int(w, "sliding_window_pattern", period);
        return rc;
    }
    if (kv->n != (uint64_t)layers)
        return gy_fail(w->err, GY_EFORMAT, "%s must have %lld entries", name, (long long)layers);
    gy_buf_puts(w->b, ",\"layer_types\":[");
    for (uint64_t i = 0; i < kv->n; i++) {
        if (!gy_gguf_item_num(kv, i, &v))
            return gy_fail(w->err, GY_EFORMAT, "%s must be a list of flags", name);
        gy_buf_printf(w->b, "%s\"%s_attention\"", i ? "," : "", v != 0 ? "sliding" : "full");
    }
    gy_buf_c(w->b, ']');
    return GY_OK;
}

static gy_rc gemma_words(writer *w, int64_t layers, int64_t width, int64_t heads, int64_t dim) {
    /* The largest model of each generation scales queries by width per head; files do not say so.
     */
    bool largest = (is(w, "gemma2") && layers == 46) || (is(w, "gemma3") && layers == 62);
    put_int(w, "query_pre_attn_scalar", largest ? width / heads : dim);
    copy_num(w, "attn_logit_softcapping", "attn_logit_softcapping");
    copy_num(w, "final_logit_softcapping", "final_logit_softcapping");
    copy_num(w, "rope.freq_base_swa", "rope_local_base_freq");
    if (is(w, "gemma3")) return window_words(w, layers, 6);
    copy_num(w, "attention.sliding_window", "sliding_window");
    return GY_OK;
}

static void granite_words(writer *w, int64_t layers, int64_t width, int64_t dim) {
    bool minicpm = is(w, "minicpm");
    double embed = minicpm ? 12 : 1, res = minicpm ? 1.4 / sqrt((double)layers) : 1,
           attn = 1 / sqrt((double)dim);
    double div = minicpm ? (double)width / 256 : 1;
    number(w, "embedding_scale", &embed), number(w, "residual_scale", &res);
    number(w, "logit_scale", &div), number(w, "attention.scale", &attn);
    put_num(w, "embedding_multiplier", embed), put_num(w, "residual_multiplier", res);
    put_num(w, "logits_scaling", div), put_num(w, "attention_multiplier", attn);
}

static gy_rc family_words(writer *w, int64_t layers, int64_t width, int64_t heads, int64_t dim) {
    int64_t window;
    if (is(w, "gemma2") || is(w, "gemma3")) return gemma_words(w, layers, width, heads, dim);
    if (is(w, "gemma")) gy_buf_puts(w->b, ",\"hidden_activation\":\"gelu_pytorch_tanh\"");
    if (is(w, "starcoder2")) gy_buf_puts(w->b, ",\"hidden_act\":\"gelu_pytorch_tanh\"");
    if (!strcmp(w->a->type, "granite")) granite_words(w, layers, width, dim);
    gy_rc rc = whole(w, "attention.sliding_window", 0, 0, &window);
    if (!rc && window && is(w, "olmo2"))
        return gy_fail(w->err, GY_EUNSUPPORTED,
                       "olmo2.attention.sliding_window: windows are not supported for it");
    if (!rc && window) put_int(w, "sliding_window", window);
    return rc;
}

static void eos_words(writer *w) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t id;
    int n = 0;
    gy_buf_puts(w->b, ",\"eos_token_id\":[");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (gy_gguf_int(w->g, keys[i], &id) && id >= 0 && id <= INT32_MAX)
            gy_buf_printf(w->b, "%s%lld", n++ ? "," : "", (long long)id);
    gy_buf_c(w->b, ']');
}

static gy_rc shared_words(writer *w) {
    int64_t width, layers, heads, kv, ffn, context, dim, vdim, rot, experts;
    gy_rc rc = whole(w, "expert_count", 0, 0, &experts);
    if (!rc && experts)
        return gy_fail(w->err, GY_EUNSUPPORTED,
                       "%s.expert_count is %lld: mixtures of experts are not supported", w->a->arch,
                       (long long)experts);
    if (!rc) rc = whole(w, "embedding_length", 1, -1, &width);
    if (!rc) rc = whole(w, "block_count", 1, -1, &layers);
    if (!rc) rc = whole(w, "attention.head_count", 1, -1, &heads);
    if (!rc) rc = whole(w, "attention.head_count_kv", 1, rc ? 1 : heads, &kv);
    if (!rc) rc = whole(w, "feed_forward_length", 1, -1, &ffn);
    if (!rc) rc = whole(w, "context_length", 0, 0, &context);
    if (!rc) rc = whole(w, "attention.key_length", 1, width / heads, &dim);
    if (!rc) rc = whole(w, "attention.value_length", 1, dim, &vdim);
    if (!rc) rc = whole(w, "rope.dimension_count", 1, dim, &rot);
    if (rc) return rc;
    if (kv > heads || heads % kv)
        return gy_fail(w->err, GY_EFORMAT,
                       "%s.attention.head_count %lld is not a multiple of head_count_kv %lld",
                       w->a->arch, (long long)heads, (long long)kv);
    if (vdim != dim)
        return gy_fail(w->err, GY_EUNSUPPORTED, "%s: keys of %lld but values of %lld", w->a->arch,
                       (long long)dim, (long long)vdim);
    if (rot > dim)
        return gy_fail(w->err, GY_EFORMAT,
                       "%s.rope.dimension_count is %lld, more than a head's %lld", w->a->arch,
                       (long long)rot, (long long)dim);
    gy_buf_printf(w->b, "{\"model_type\":\"%s\"", w->a->type);
    put_int(w, "hidden_size", width), put_int(w, "num_hidden_layers", layers),
        put_int(w, "num_attention_heads", heads);
    put_int(w, "num_key_value_heads", kv), put_int(w, "intermediate_size", ffn),
        put_int(w, "head_dim", dim);
    put_int(w, "rotary_dim", rot);
    if (context) put_int(w, "max_position_embeddings", context);
    rc = rope_scaling(w, context);
    return rc ? rc : family_words(w, layers, width, heads, dim);
}

gy_rc gy_gguf_config(const gy_gguf *g, gy_json_doc *out, gy_err *err) {
    gy_buf b = {0};
    writer w = {.g = g, .b = &b, .err = err};
    double theta = 1e4;
    gy_rc rc = find_arch(g, &w.a, err);
    if (!rc) rc = shared_words(&w);
    if (!rc) {
        const gy_tensor *embed = gy_tensors_find(&g->tensors, "token_embd.weight");
        number(&w, "rope.freq_base", &theta);
        put_num(&w, "rope_theta", theta);
        if (embed && embed->dims == 2) put_int(&w, "vocab_size", embed->shape[0]);
        copy_num(&w, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
        copy_num(&w, "attention.layer_norm_epsilon", "norm_epsilon");
        gy_buf_printf(&b, ",\"tie_word_embeddings\":%s",
                      gy_tensors_find(&g->tensors, "output.weight") ? "false" : "true");
        eos_words(&w);
        gy_buf_c(&b, '}');
        rc = b.oom ? gy_fail(err, GY_ENOMEM, "GGUF metadata: out of memory")
                   : gy_json_parse(out, b.p, b.n, err);
    }
    gy_buf_free(&b);
    return rc;
}

/* ---- Names ---- */

/* Where a role's name lies in a layer, and what GGUF calls it. */
static const struct {
    size_t at;
    const char *name;
} roles[] = {
    {offsetof(gy_layer, pre_a), "attn_norm"},
    {offsetof(gy_layer, post_a), "post_attention_norm"},
    {offsetof(gy_layer, pre_f), "ffn_norm"},
    {offsetof(gy_layer, post_f), "post_ffw_norm"},
    {offsetof(gy_layer, mix.q), "attn_q"},
    {offsetof(gy_layer, mix.k), "attn_k"},
    {offsetof(gy_layer, mix.v), "attn_v"},
    {offsetof(gy_layer, mix.qkv), "attn_qkv"},
    {offsetof(gy_layer, mix.o), "attn_output"},
    {offsetof(gy_layer, mix.q_norm), "attn_q_norm"},
    {offsetof(gy_layer, mix.k_norm), "attn_k_norm"},
    {offsetof(gy_layer, ffn.gate), "ffn_gate"},
    {offsetof(gy_layer, ffn.up), "ffn_up"},
    {offsetof(gy_layer, ffn.gate_up), "ffn_up"},
    {offsetof(gy_layer, ffn.down), "ffn_down"},
};
enum { ROLES = sizeof roles / sizeof *roles };

static const char **role_of(gy_layer *l, int i) {
    return (const char **)((char *)l + roles[i].at);
}

static bool layer_has(const gy_gguf *g, const gy_layer *l, const char *role) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", l->i, role);
    return gy_tensors_find(&g->tensors, name) != NULL;
}

static gy_rc adapt_layer(const gy_gguf *g, gy_desc *d, gy_layer *l, bool permuted) {
    gy_mix *m = &l->mix;
    gy_ffn *f = &l->ffn;
    for (int i = 0; i < ROLES; i++)
        if (*role_of(l, i)) *role_of(l, i) = roles[i].name;
    /* Files exist with fused rows and with separate ones, whatever the family's own files have. */
    if (layer_has(g, l, "attn_qkv"))
        m->qkv = "attn_qkv", m->q = m->k = m->v = NULL;
    else
        m->qkv = NULL, m->q = "attn_q", m->k = "attn_k", m->v = "attn_v";
    if (f->gate_up && layer_has(g, l, "ffn_gate"))
        f->gate_up = NULL, f->gate = "ffn_gate", f->up = "ffn_up";
    if (m->qk_norm_form == GY_NORM_RMS_PLUS1) m->qk_norm_form = GY_NORM_RMS;
    if (permuted) m->rope.pairs = true;
    l->prefix = gy_arena_printf(&d->arena, "blk.%d.", l->i);
    return l->prefix ? GY_OK : GY_ENOMEM;
}

gy_rc gy_gguf_adapt(const gy_gguf *g, gy_desc *d, gy_err *err) {
    static const gy_desc_root roots[] = {{"", "output"}, {NULL, NULL}};
    static const char *const drops[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                        "rope_factors_short.weight", "blk.*.attn_rot_embd.weight"};
    bool permuted = gy_gguf_permuted(g);
    d->root = roots, d->embed = "token_embd", d->final_norm = "output_norm";
    if (d->norm == GY_NORM_RMS_PLUS1) d->norm = GY_NORM_RMS;
    for (size_t i = 0; i < sizeof drops / sizeof *drops; i++) d->drop[i] = drops[i];
    d->drop[sizeof drops / sizeof *drops] = NULL;
    for (gy_layer *l = d->layer; l < d->layer + d->n_layers; l++)
        if (adapt_layer(g, d, l, permuted))
            return gy_fail(err, GY_ENOMEM, "description: out of memory");
    return GY_OK;
}

bool gy_gguf_hf_name(const gy_desc *hf, const char *gguf, char out[256]) {
    const char *leaf = strrchr(gguf, '.'), *body = hf->root->body;
    if (!leaf) return false;
    size_t n = (size_t)(leaf - gguf);
    if (n == 10 && !memcmp(gguf, "token_embd", n))
        return snprintf(out, 256, "%s%s%s", body, hf->embed, leaf) < 256;
    if (n == 11 && !memcmp(gguf, "output_norm", n))
        return snprintf(out, 256, "%s%s%s", body, hf->final_norm, leaf) < 256;
    if (n == 6 && !memcmp(gguf, "output", n))
        return snprintf(out, 256, "%s%s", hf->root->head, leaf) < 256;
    char *end;
    if (strncmp(gguf, "blk.", 4) || gguf[4] < '0' || gguf[4] > '9') return false;
    unsigned long layer = strtoul(gguf + 4, &end, 10);
    if (*end != '.' || layer >= (unsigned long)hf->n_layers || end + 1 > leaf) return false;
    size_t role = (size_t)(leaf - end - 1);
    for (int i = 0; i < ROLES; i++) {
        const char *name = *role_of(hf->layer + layer, i);
        if (name && strlen(roles[i].name) == role && !memcmp(end + 1, roles[i].name, role))
            return snprintf(out, 256, "%s%s%s%s", body, hf->layer[layer].prefix, name, leaf) < 256;
    }
    return false;
}
