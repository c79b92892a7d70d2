/* model/info - what a model is, for programs: gy_model_get_info and the JSON of gy_model_inspect.
 */
#include <math.h>
#include <stdio.h>

#include "codec/kvname.h"
#include "model/bind.h"

/* The codec that holds most weights stands for the model. */
static gy_cparm main_codec(const gy_model *m) {
    enum { KINDS = 32 };
    gy_cparm kind[KINDS] = {{0}};
    int64_t held[KINDS] = {0};
    int n = 0, best = 0;
    for (int i = 0; i < m->n_weights; i++) {
        const gy_rows *r = &m->weight[i].file;
        int k = 0;
        while (k < n && !(kind[k].kind == r->c.kind && kind[k].bits == r->c.bits &&
                          kind[k].group == r->c.group))
            k++;
        if (k == KINDS) continue;
        if (k == n) kind[n++] = r->c;
        held[k] += (int64_t)r->rows * r->cols;
        if (held[k] > held[best]) best = k;
    }
    return kind[best];
}

void gy_model_get_info(const gy_model *m, gy_model_info *info) {
    bool weights = m->bound != NULL;
    int64_t vocab = gy_json_i(m->cfg, "vocab_size", m->tok ? gy_tok_size(m->tok) : 0);
    *info = (gy_model_info){.type = m->type,
                            .format = m->is_gguf ? "gguf" : "safetensors",
                            .quant = m->quant,
                            .layers = m->desc.n_layers,
                            .width = m->desc.width,
                            .vocab = weights                          ? m->desc.vocab
                                     : vocab > 0 && vocab < INT32_MAX ? (int)vocab
                                                                      : 0,
                            .context = m->desc.context,
                            .parameters = weights ? m->bound->parameters : 0,
                            .weight_bytes = weights ? m->bound->bytes : 0,
                            .eos = m->eos,
                            .n_eos = m->n_eos,
                            .has_tokenizer = m->tok != NULL,
                            .has_template = m->chat && gy_chat_has_template(m->chat)};
}

void gy_model_name_quant(gy_model *m) {
    if (m->bound) gy_cparm_name(main_codec(m), m->quant);
}

static void put_string(gy_buf *b, const char *s) {
    gy_buf_json(b, s, strlen(s));
}

static void put_files(gy_buf *b, const gy_tensors *t) {
    gy_buf_puts(b, ",\"files\":[");
    for (int i = 0; i < t->files; i++) {
        gy_buf_puts(b, i ? ",{\"path\":" : "{\"path\":");
        put_string(b, t->file[i].path);
        gy_buf_printf(b, ",\"bytes\":%zu}", t->file[i].map.bytes);
    }
    gy_buf_c(b, ']');
}

static void put_tensors(gy_buf *b, const gy_tensors *t) {
    gy_buf_puts(b, ",\"tensors\":[");
    for (int i = 0; i < t->n; i++) {
        gy_buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        put_string(b, t->at[i].name);
        gy_buf_printf(b, ",\"type\":\"%s\",\"shape\":[", gy_ttype_name(t->at[i].type));
        for (int k = 0; k < t->at[i].dims; k++)
            gy_buf_printf(b, "%s%lld", k ? "," : "", (long long)t->at[i].shape[k]);
        gy_buf_printf(b, "],\"bytes\":%zu,\"file\":%d}", t->at[i].bytes, t->at[i].file);
    }
    gy_buf_c(b, ']');
}

static void put_weights(gy_buf *b, const gy_model *m) {
    char codec[32];
    gy_buf_puts(b, ",\"weights\":[");
    for (int i = 0; i < m->n_weights; i++) {
        const gy_weight *w = m->weight + i;
        gy_buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        put_string(b, w->name);
        gy_buf_printf(b, ",\"codec\":\"%s\",\"rows\":%d,\"cols\":%d,\"bias\":%s}",
                      gy_cparm_name(w->file.c, codec), w->file.rows, w->file.cols,
                      w->bias ? "true" : "false");
    }
    gy_buf_puts(b, "],\"dropped\":[");
    for (int i = 0; i < m->n_dropped; i++) {
        if (i) gy_buf_c(b, ',');
        put_string(b, m->dropped[i]);
    }
    gy_buf_c(b, ']');
}

static int64_t row_bytes(gy_cparm c, int cols) {
    size_t plane[3] = {0};
    gy_codecs[c.kind].bytes(c, cols, plane);
    return (int64_t)(plane[0] + plane[1] + plane[2]);
}

typedef struct {
    int64_t all, window, state; /* bytes of a position, of a position, of a sequence */
    int longest;                /* window */
} kv_cost;

/* False when a head does not fit the codecs. */
static bool kv_cost_of(const gy_desc *d, gy_kvpair c, kv_cost *cost) {
    *cost = (kv_cost){0};
    for (const gy_layer *l = d->layer; l < d->layer + d->n_layers; l++) {
        gy_kvspec s;
        if (gy_plan_kv(l, c, &s, NULL)) return false;
        cost->state += 4 * ((int64_t)s.conv + s.scan);
        if (s.donor >= 0 || s.heads == 0) continue;
        if (s.form == GY_KV_VIEW && !gy_codecs[s.k.kind].fits(s.k, s.vdim)) return false;
        int64_t bytes = row_bytes(s.k, s.kdim);
        if (s.form == GY_KV_BOTH) bytes += row_bytes(s.v, s.vdim);
        bool window = s.keep.policy == GY_KEEP_WINDOW;
        *(window ? &cost->window : &cost->all) += bytes * s.heads;
        if (window && s.keep.window > cost->longest) cost->longest = s.keep.window;
    }
    return true;
}

/* Bytes that one position takes, by codec: in layers that keep everything, and in layers with a
 * window, which stop growing there. Codecs that a head does not fit are left out. */
static void put_kv(gy_buf *b, const gy_desc *d) {
    static const char *const names[] = {
        "f32",        "f16",        "bf16",       "q8",         "q8.32",      "q6",
        "q5",         "k8v4",       "q4",         "q4.32",      "q3",         "q2",
        "turbo-k8v8", "turbo-k8v4", "turbo-k8v3", "turbo-k4v4", "turbo-k4v3", "turbox-k8v4"};
    kv_cost cost = {0};
    bool first = true;
    gy_buf_puts(b, ",\"kv_bytes_per_token\":{");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gy_kvpair c;
        if (gy_kv_codec_parse(names[i], strlen(names[i]), &c.k, &c.v, NULL) ||
            !kv_cost_of(d, c, &cost))
            continue;
        gy_buf_printf(b, "%s\"%s\":{\"all\":%lld,\"window\":%lld,\"longest_window\":%d}",
                      first ? "" : ",", names[i], (long long)cost.all, (long long)cost.window,
                      cost.longest);
        first = false;
    }
    kv_cost_of(d, (gy_kvpair){{.kind = GY_CODEC_F16}, {.kind = GY_CODEC_F16}}, &cost);
    gy_buf_printf(b, "},\"state_bytes\":%lld", (long long)cost.state);
}

/* The largest root mean square of a layer's key biases: what makes coded keys worse
 * (docs/pitfalls.md). Said only where there are any. */
static void put_key_bias(gy_buf *b, const gy_model *m) {
    double most = 0;
    for (int l = 0; m->bound && l < m->desc.n_layers; l++) {
        const gy_bound_layer *w = m->bound->layer + l;
        const gy_mix *mix = &m->desc.layer[l].mix;
        const gy_weight *k = w->k ? w->k : w->qkv;
        if (!k || !k->bias) continue;
        int first = w->k ? 0 : mix->heads * mix->dim, n = mix->kv_heads * mix->dim;
        double sum = 0;
        for (int i = first; i < first + n && i < k->file.rows; i++)
            sum += (double)k->bias[i] * k->bias[i];
        if (n && sum / n > most) most = sum / n;
    }
    if (most > 0) gy_buf_printf(b, ",\"key_bias_rms\":%.3g", sqrt(most));
}

static void put_template(gy_buf *b, const gy_model *m) {
    const gy_gguf_kv *kv = m->is_gguf ? gy_gguf_get(&m->gguf, "tokenizer.chat_template") : NULL;
    gy_buf_puts(b, ",\"chat_template\":");
    if (kv && kv->type == GY_GGUF_STR)
        gy_buf_json(b, kv->str->s, (size_t)kv->str->n);
    else if (m->config.template_default)
        put_string(b, m->config.template_default);
    else
        gy_buf_puts(b, "null");
}

gy_rc gy_model_inspect(const gy_model *m, char **json, gy_err *err) {
    gy_buf b = {0};
    gy_model_info info;
    if (err) *err = (gy_err){0};
    gy_model_get_info(m, &info);
    gy_buf_puts(&b, "{\"path\":");
    put_string(&b, m->path);
    gy_buf_puts(&b, ",\"type\":");
    put_string(&b, m->type);
    gy_buf_printf(&b,
                  ",\"format\":\"%s\",\"quant\":\"%s\",\"layers\":%d,\"width\":%d,\"vocab\":%d,"
                  "\"context\":%d,"
                  "\"parameters\":%lld,\"weight_bytes\":%lld,\"eos\":[",
                  info.format, info.quant, info.layers, info.width, info.vocab, info.context,
                  (long long)info.parameters, (long long)info.weight_bytes);
    for (int i = 0; i < info.n_eos; i++) gy_buf_printf(&b, "%s%d", i ? "," : "", info.eos[i]);
    gy_buf_printf(&b, "],\"tokenizer\":%s,\"template\":%s", info.has_tokenizer ? "true" : "false",
                  info.has_template ? "true" : "false");
    put_files(&b, gy_model_tensors(m));
    gy_buf_puts(&b, ",\"config\":");
    if (m->cfg)
        gy_json_write(&b, m->cfg);
    else
        gy_buf_puts(&b, "null");
    gy_buf_puts(&b, ",\"generation_config\":");
    if (m->config.generation.root)
        gy_json_write(&b, m->config.generation.root);
    else
        gy_buf_puts(&b, "null");
    put_template(&b, m);
    put_tensors(&b, gy_model_tensors(m));
    put_weights(&b, m);
    put_kv(&b, &m->desc);
    put_key_bias(&b, m);
    gy_buf_c(&b, '}');
    char *text = gy_buf_take(&b, NULL);
    gy_buf_free(&b);
    if (!text) return gy_fail(err, GY_ENOMEM, "inspect: out of memory");
    *json = text;
    return GY_OK;
}
