/* model/bind - see bind.h. */
#include "model/bind.h"

#include <stdio.h>

#include "base/num.h"
#include "model/bind_part.h"

/* ---- Finding and reading tensors ---- */

const gy_tensor *gy_bind_find(gy_binder *b, const char *module, const char *part) {
    char name[256];
    int n = snprintf(name, sizeof name, "%s.%s", module, part);
    return n > 0 && (size_t)n < sizeof name ? gy_tensors_find(b->t, name) : NULL;
}

static const gy_tensor *use(gy_binder *b, const gy_tensor *t) {
    if (t) b->used[t - b->t->at] = true, b->m->bound->bytes += (int64_t)t->bytes;
    return t;
}

const gy_tensor *gy_bind_take(gy_binder *b, const char *module, const char *part) {
    return use(b, gy_bind_find(b, module, part));
}

const gy_tensor *gy_bind_take_name(gy_binder *b, const char *name) {
    return use(b, gy_tensors_find(b->t, name));
}

const char *gy_bind_shape(const gy_tensor *t, char out[160]) {
    size_t n = (size_t)snprintf(out, 160, "[");
    for (int i = 0; i < t->dims && n < 130; i++)
        n += (size_t)snprintf(out + n, 160 - n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    snprintf(out + n, 160 - n, "]");
    return out;
}

gy_rc gy_bind_missing(gy_binder *b, const char *module, const char *part) {
    return gy_fail(b->err, GY_EFORMAT, "tensor %s.%s is missing", module, part);
}

/* rows < 0: any number. */
static gy_rc want_shape(gy_binder *b, const gy_tensor *t, int64_t rows, int64_t cols) {
    char found[160];
    if (t->dims == 2 && (rows < 0 || t->shape[0] == rows) && t->shape[1] == cols &&
        t->shape[0] > 0 && t->shape[0] <= 1 << 28)
        return GY_OK;
    if (rows < 0)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s has shape %s, expected [vocab, %lld]",
                       t->name, gy_bind_shape(t, found), (long long)cols);
    return gy_fail(b->err, GY_EFORMAT, "tensor %s has shape %s, expected [%lld, %lld]", t->name,
                   gy_bind_shape(t, found), (long long)rows, (long long)cols);
}

float gy_bind_float(const gy_tensor *t, int64_t i) {
    return t->type == GY_T_F32   ? gy_bits_f32(gy_load_u32(t->data + 4 * i))
           : t->type == GY_T_F16 ? gy_f16_f32(gy_load_u16(t->data + 2 * i))
                                 : gy_bf16_f32(gy_load_u16(t->data + 2 * i));
}

gy_rc gy_bind_vector(gy_binder *b, const gy_tensor *t, int64_t n, const float **out) {
    char found[160];
    if (t->dims != 1 || t->shape[0] != n)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s has shape %s, expected [%lld]", t->name,
                       gy_bind_shape(t, found), (long long)n);
    if (t->type != GY_T_F32 && t->type != GY_T_F16 && t->type != GY_T_BF16)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s has type %s, expected F32, F16 or BF16",
                       t->name, gy_ttype_name(t->type));
    float *v = gy_arena_alloc(&b->m->arena, (size_t)n * sizeof *v);
    if (!v) return gy_fail(b->err, GY_ENOMEM, "tensor %s: out of memory", t->name);
    for (int64_t i = 0; i < n; i++) v[i] = gy_bind_float(t, i);
    *out = v;
    return GY_OK;
}

gy_weight *gy_bind_weights(gy_binder *b, const char *name, int n) {
    gy_weight *w = b->m->weight + b->m->n_weights;
    for (int i = 0; i < n; i++) w[i].name = name;
    b->m->n_weights += n;
    return w;
}

/* ---- Codecs ---- */

static int dense_kind(gy_ttype t) {
    static const struct {
        gy_ttype t;
        gy_codec_kind k;
    } kinds[] = {
        {GY_T_F32, GY_CODEC_F32},          {GY_T_F16, GY_CODEC_F16},
        {GY_T_BF16, GY_CODEC_BF16},        {GY_T_Q4_0, GY_CODEC_Q4_0},
        {GY_T_Q4_1, GY_CODEC_Q4_1},        {GY_T_Q5_0, GY_CODEC_Q5_0},
        {GY_T_Q5_1, GY_CODEC_Q5_1},        {GY_T_Q8_0, GY_CODEC_Q8_0},
        {GY_T_Q2_K, GY_CODEC_Q2_K},        {GY_T_Q3_K, GY_CODEC_Q3_K},
        {GY_T_Q4_K, GY_CODEC_Q4_K},        {GY_T_Q5_K, GY_CODEC_Q5_K},
        {GY_T_Q6_K, GY_CODEC_Q6_K},        {GY_T_IQ4_NL, GY_CODEC_IQ4_NL},
        {GY_T_MXFP4, GY_CODEC_MXFP4_GGUF},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].t == t) return kinds[i].k;
    return -1;
}

/* The codec must take rows of this width, and the tensor must hold exactly the bytes that follow
 * from it. */
static gy_rc check_planes(gy_binder *b, const gy_rows *r, const gy_tensor *const t[3]) {
    size_t bytes[3] = {0};
    char name[32];
    const gy_codec *codec = gy_codecs + r->c.kind;
    if (!codec->fits(r->c, r->cols))
        return gy_fail(b->err, GY_EUNSUPPORTED,
                       "tensor %s: %s rows of %d columns are not supported", t[0]->name,
                       gy_cparm_name(r->c, name), r->cols);
    codec->bytes(r->c, r->cols, bytes);
    for (int p = 0; p < 3; p++)
        if (bytes[p] && (!t[p] || bytes[p] * (size_t)r->rows != t[p]->bytes))
            return gy_fail(b->err, GY_EFORMAT, "tensor %s has %zu bytes, expected %zu",
                           t[p] ? t[p]->name : t[0]->name, t[p] ? t[p]->bytes : 0,
                           bytes[p] * (size_t)r->rows);
    return GY_OK;
}

static gy_rc bind_dense(gy_binder *b, const gy_tensor *t, int rows, int cols, gy_rows *out) {
    gy_rc rc = want_shape(b, t, rows, cols);
    int kind = dense_kind(t->type);
    if (rc) return rc;
    if (kind < 0)
        return gy_fail(b->err, GY_EUNSUPPORTED, "tensor %s: type %s is not supported for weights",
                       t->name, gy_ttype_name(t->type));
    *out = (gy_rows){
        .c = {.kind = (uint8_t)kind}, .rows = (int)t->shape[0], .cols = cols, .global = 1};
    out->plane[0] = (void *)t->data, out->step[0] = (ptrdiff_t)(t->bytes / (size_t)t->shape[0]);
    return check_planes(b, out, (const gy_tensor *[3]){t, NULL, NULL});
}

/* ---- MLX quantised modules: X.weight, X.scales, X.biases (spec/kv.md 2.7) ---- */

/* The entry that the config has for exactly this module, if any: it must agree with the shapes,
 * whereas the block's own values are only a default. */
static const gy_json *own_entry(const gy_binder *b, const char *module) {
    const gy_json *q = gy_json_get(b->m->cfg, "quantization");
    if (gy_json_null(q)) q = gy_json_get(b->m->cfg, "quantization_config");
    return gy_json_get(q, module);
}

static gy_rc agree(gy_binder *b, const char *module, const gy_json *entry, const char *mode,
                   int bits, int group) {
    int64_t want_bits = gy_json_i(entry, "bits", bits),
            want_group = gy_json_i(entry, "group_size", group);
    const char *want_mode = gy_json_s(entry, "mode", mode);
    if (gy_json_is(entry, GY_JSON_BOOL) && !entry->truth)
        return gy_fail(b->err, GY_EFORMAT,
                       "config: quantization says that %s is not quantised, but it has scales",
                       module);
    if (want_bits == bits && want_group == group && !strcmp(want_mode, mode)) return GY_OK;
    return gy_fail(b->err, GY_EFORMAT,
                   "config: quantization of %s is %s %lld bits group %lld, but its tensors have "
                   "the shapes of %s %d bits "
                   "group %d",
                   module, want_mode, (long long)want_bits, (long long)want_group, mode, bits,
                   group);
}

/* Bits and group follow from the shapes: cols values in `words` u32 and `groups` scales. */
static gy_rc infer(gy_binder *b, const gy_tensor *w, const gy_tensor *s, int cols, int *bits,
                   int *group) {
    char found[160];
    int64_t words = w->dims == 2 ? w->shape[1] : 0, groups = s->dims == 2 ? s->shape[1] : 0;
    if (w->type != GY_T_U32 || words < 1 || words > cols || words * 32 % cols)
        return gy_fail(b->err, GY_EFORMAT,
                       "tensor %s is %s %s, expected U32 rows that hold %d values", w->name,
                       gy_ttype_name(w->type), gy_bind_shape(w, found), cols);
    if (groups < 1 || cols % groups || cols / groups > 1024 || s->shape[0] != w->shape[0])
        return gy_fail(b->err, GY_EFORMAT,
                       "tensor %s has shape %s, expected [%lld, groups of %d values]", s->name,
                       gy_bind_shape(s, found), (long long)w->shape[0], cols);
    *bits = (int)(words * 32 / cols), *group = (int)(cols / groups);
    return GY_OK;
}

static gy_rc quant_kind(gy_binder *b, const gy_tensor *s, int bits, int group, gy_cparm *c,
                        const char **mode) {
    *c = (gy_cparm){.bits = (uint8_t)bits, .group = (uint16_t)group};
    if (s->type != GY_T_U8) {
        int stype = dense_kind(s->type);
        if (stype < 0 || stype > GY_CODEC_BF16)
            return gy_fail(b->err, GY_EFORMAT,
                           "tensor %s has type %s, expected F32, F16, BF16 or U8", s->name,
                           gy_ttype_name(s->type));
        return c->kind = GY_CODEC_AFFINE, c->stype = (uint8_t)stype, *mode = "affine", GY_OK;
    }
    if (bits == 4 && group == 16) return c->kind = GY_CODEC_NVFP4, *mode = "nvfp4", GY_OK;
    if (bits == 4 && group == 32) return c->kind = GY_CODEC_MXFP4, *mode = "mxfp4", GY_OK;
    if (bits == 8 && group == 32) return c->kind = GY_CODEC_MXFP8, *mode = "mxfp8", GY_OK;
    return gy_fail(b->err, GY_EUNSUPPORTED,
                   "tensor %s: %d-bit codes in groups of %d with U8 scales are no known mode",
                   s->name, bits, group);
}

static gy_rc global_scale(gy_binder *b, const char *module, gy_rows *out) {
    const gy_tensor *g =
        out->c.kind == GY_CODEC_NVFP4 ? gy_bind_take(b, module, "global_scale") : NULL;
    if (!g) return GY_OK;
    if (g->type != GY_T_F32 || g->bytes != 4)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s must be one F32 value", g->name);
    out->global = gy_bits_f32(gy_load_u32(g->data)) / 2688.0f;
    return GY_OK;
}

/* A stack of matrices as one tall matrix; other shapes as they are. */
static gy_tensor flat(const gy_tensor *t, int stack) {
    gy_tensor f = *t;
    if (stack && t->dims == 3 && t->shape[0] == stack)
        f.dims = 2, f.shape[0] = t->shape[0] * t->shape[1], f.shape[1] = t->shape[2];
    return f;
}

static gy_rc bind_quant(gy_binder *b, const char *module, int stack, const gy_tensor *w,
                        const gy_tensor *s, int rows, int cols, gy_rows *out) {
    const gy_tensor *z = NULL;
    gy_tensor z_flat;
    gy_config_quant q = {0};
    const char *mode = "";
    int bits = 0, group = 0;
    gy_cparm c = {0};
    gy_rc rc = infer(b, w, s, cols, &bits, &group);
    if (!rc) rc = gy_config_quant_of(b->m->cfg, module, &q, b->err);
    if (!rc && !strcmp(q.mode, "trellis"))
        rc = gy_fail(b->err, GY_EUNSUPPORTED, "tensor %s: trellis weights are not supported",
                     w->name);
    if (!rc) rc = quant_kind(b, s, bits, group, &c, &mode);
    if (!rc) rc = agree(b, module, own_entry(b, module), mode, bits, group);
    if (rc) return rc;
    if (c.kind == GY_CODEC_AFFINE) {
        if (!(z = gy_bind_take(b, module, "biases"))) return gy_bind_missing(b, module, "biases");
        z_flat = flat(z, stack), z = &z_flat;
        if (z->type != s->type || z->dims != 2 || z->shape[0] != s->shape[0] ||
            z->shape[1] != s->shape[1])
            return gy_fail(b->err, GY_EFORMAT, "tensor %s must have the type and shape of %s",
                           z->name, s->name);
    }
    if ((rc = want_shape(b, w, rows, w->shape[1]))) return rc;
    *out = (gy_rows){.c = c, .rows = (int)w->shape[0], .cols = cols, .global = 1};
    const gy_tensor *t[3] = {w, s, z};
    if ((rc = check_planes(b, out, t))) return rc;
    for (int p = 0; p < 3; p++)
        if (t[p])
            out->plane[p] = (void *)t[p]->data,
            out->step[p] = (ptrdiff_t)(t[p]->bytes / (size_t)out->rows);
    return global_scale(b, module, out);
}

/* ---- Roles ---- */

gy_rc gy_bind_rows(gy_binder *b, const char *module, const gy_tensor *t, int stack, int rows,
                   int cols, gy_rows *out) {
    const gy_tensor *scales = gy_bind_take(b, module, "scales");
    gy_tensor w = flat(t, stack), s;
    /* Codes without scales are no matrix of integers: say which tensor is not there. */
    if (!scales && t->type == GY_T_U32) return gy_bind_missing(b, module, "scales");
    if (!scales) return bind_dense(b, &w, rows, cols, out);
    s = flat(scales, stack);
    return bind_quant(b, module, stack, &w, &s, rows, cols, out);
}

/* rows < 0: any. bias: the config promises one. */
gy_rc gy_bind_matrix(gy_binder *b, const char *module, int rows, int cols, bool bias,
                     gy_weight **out) {
    const gy_tensor *t = gy_bind_take(b, module, "weight");
    if (!t) return gy_bind_missing(b, module, "weight");
    gy_weight *w = gy_bind_weights(b, t->name, 1);
    const gy_tensor *add = gy_bind_take(b, module, "bias");
    gy_rc rc = gy_bind_rows(b, module, t, 0, rows, cols, &w->file);
    if (rc) return rc;
    b->m->bound->parameters += (int64_t)w->file.rows * cols + (add ? w->file.rows : 0);
    if (!add && bias) return gy_bind_missing(b, module, "bias");
    if (add) rc = gy_bind_vector(b, add, w->file.rows, &w->bias);
    return *out = w, rc;
}

/* A norm of n columns, or of n2 when n2 is not 0 and the tensor says so. */
static gy_rc bind_norm(gy_binder *b, const char *module, int n, int n2, bool bias,
                       gy_weight **out) {
    const gy_tensor *t = gy_bind_take(b, module, "weight");
    const float *v;
    if (!t) return gy_bind_missing(b, module, "weight");
    if (n2 && t->dims == 1 && t->shape[0] == n2) n = n2;
    gy_rc rc = gy_bind_vector(b, t, n, &v);
    if (rc) return rc;
    gy_weight *w = gy_bind_weights(b, t->name, 1);
    w->file = (gy_rows){.c = {.kind = GY_CODEC_F32}, .rows = 1, .cols = n, .global = 1};
    w->file.plane[0] = (void *)v, w->file.step[0] = (ptrdiff_t)n * 4;
    const gy_tensor *add = gy_bind_take(b, module, "bias");
    b->m->bound->parameters += add ? 2 * n : n;
    if (!add && bias) return gy_bind_missing(b, module, "bias");
    if (add) rc = gy_bind_vector(b, add, n, &w->bias);
    return *out = w, rc;
}

gy_rc gy_bind_parts(gy_binder *b, const gy_layer *l, const gy_bind_part *parts, size_t n) {
    for (const gy_bind_part *p = parts; p < parts + n; p++) {
        char module[224];
        if (!p->role) continue;
        snprintf(module, sizeof module, "%s%s%s", b->root.body, l->prefix, p->role);
        gy_rc rc = p->rows ? gy_bind_matrix(b, module, p->rows, p->cols, p->bias, p->out)
                           : bind_norm(b, module, p->cols, p->cols2, p->bias, p->out);
        if (rc) return rc;
    }
    return GY_OK;
}

static gy_rc bind_layer(gy_binder *b, const gy_layer *l, gy_bound_layer *o) {
    const gy_desc *d = &b->m->desc;
    const gy_mix *m = &l->mix;
    const gy_ffn *f = &l->ffn;
    int w = d->width, q = m->heads * m->dim, kv = m->kv_heads * m->dim, n = f->width;
    bool nb = d->norm_bias, qb = m->qkv_bias;
    gy_rc rc = m->kind == GY_MIX_DELTA ? gy_bind_delta(b, l, &o->delta) : GY_OK;
    if (!rc && m->kind == GY_MIX_LATENT) rc = gy_bind_latent(b, l, &o->latent);
    if (!rc && m->sinks) rc = gy_bind_values(b, l, m->sinks, m->heads, &o->sinks);
    if (!rc && f->moe.router) rc = gy_bind_moe(b, l, &o->moe);
    if (rc) return rc;
    const gy_bind_part parts[] = {
        {l->pre_a, 0, w, 0, nb, &o->pre_a},
        {m->q, m->out_gate ? 2 * q : q, w, 0, qb, &o->q},
        {m->k, kv, w, 0, qb, &o->k},
        {m->v, kv, w, 0, qb, &o->v},
        {m->qkv, q + 2 * kv, w, 0, qb, &o->qkv},
        {m->q_norm, 0, m->dim, q, false, &o->q_norm},
        {m->k_norm, 0, m->dim, kv, false, &o->k_norm},
        {m->o, w, q, 0, m->o_bias, &o->o},
        {l->post_a, 0, w, 0, nb, &o->post_a},
        {l->pre_f, 0, w, 0, nb, &o->pre_f},
        {f->gate, n, w, 0, f->bias, &o->gate},
        {f->up, n, w, 0, f->bias, &o->up},
        {f->gate_up, 2 * n, w, 0, f->bias, &o->gate_up},
        {f->down, w, n, 0, f->bias, &o->down},
        {l->post_f, 0, w, 0, nb, &o->post_f},
    };
    _Static_assert(sizeof parts / sizeof *parts == GY_BOUND_ROLES, "one weight per role");
    return gy_bind_parts(b, l, parts, GY_BOUND_ROLES);
}

static gy_rc choose_root(gy_binder *b) {
    const gy_desc *d = &b->m->desc;
    char module[224];
    for (const gy_desc_root *r = d->root; r->body; r++) {
        snprintf(module, sizeof module, "%s%s", r->body, d->embed);
        if (gy_bind_find(b, module, "weight")) return b->root = *r, GY_OK;
    }
    snprintf(module, sizeof module, "%s%s", d->root->body, d->embed);
    return gy_bind_missing(b, module, "weight");
}

static gy_rc bind_outside(gy_binder *b) {
    gy_desc *d = &b->m->desc;
    struct gy_bound *o = b->m->bound;
    char module[224];
    snprintf(module, sizeof module, "%s%s", b->root.body, d->embed);
    gy_rc rc = gy_bind_matrix(b, module, d->vocab ? d->vocab : -1, d->width, false, &o->embed);
    if (rc) return rc;
    if (o->embed->bias)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s.bias: an embedding has no bias", module);
    d->vocab = o->embed->file.rows;
    bool own = d->head == GY_HEAD_OWN ||
               (d->head == GY_HEAD_IF_PRESENT && gy_bind_find(b, b->root.head, "weight"));
    o->head = o->embed;
    if (own && (rc = gy_bind_matrix(b, b->root.head, d->vocab, d->width, false, &o->head)))
        return rc;
    snprintf(module, sizeof module, "%s%s", b->root.body, d->final_norm);
    return bind_norm(b, module, d->width, 0, d->norm_bias, &o->final_norm);
}

/* ---- Audit: a silent extra tensor is how a missing bias hides ---- */

/* '*' stands for any run of characters. */
static bool glob(const char *pattern, const char *s) {
    for (; *pattern; pattern++, s++) {
        if (*pattern == '*') {
            for (const char *p = s;; p++) {
                if (glob(pattern + 1, p)) return true;
                if (!*p) return false;
            }
        }
        if (*pattern != *s) return false;
    }
    return !*s;
}

static bool known(const gy_binder *b, const char *name) {
    size_t head = strlen(b->root.head);
    /* A head beside tied embeddings is a copy that some writers leave in. */
    if (b->m->bound->head == b->m->bound->embed && !strncmp(name, b->root.head, head) &&
        name[head] == '.')
        return true;
    for (const char *const *g = b->m->desc.drop; *g; g++)
        if (glob(*g, name)) return true;
    return false;
}

static gy_rc audit(gy_binder *b) {
    gy_model *m = b->m;
    char quoted[64];
    int drops = 0;
    for (int i = 0; i < b->t->n; i++) drops += !b->used[i];
    m->dropped = gy_arena_alloc(&m->arena, ((size_t)drops + 1) * sizeof *m->dropped);
    if (!m->dropped) return gy_fail(b->err, GY_ENOMEM, "binding: out of memory");
    for (int i = 0; i < b->t->n; i++) {
        const char *name = b->t->at[i].name;
        if (b->used[i]) continue;
        if (!known(b, name))
            return gy_fail(b->err, GY_EFORMAT,
                           "tensor %s is no part of a %s model as its configuration describes it",
                           gy_err_quote(quoted, name, strlen(name)), m->desc.type);
        m->dropped[m->n_dropped++] = name;
    }
    return GY_OK;
}

gy_rc gy_bind(gy_model *m, gy_err *err) {
    gy_binder b = {.m = m, .t = gy_model_tensors(m), .err = err};
    size_t layers = (size_t)m->desc.n_layers;
    m->bound = gy_arena_alloc(&m->arena, sizeof *m->bound);
    size_t experts = 0;
    for (size_t i = 0; i < layers; i++) {
        const gy_layer *l = m->desc.layer + i;
        experts += 3 * (size_t)l->ffn.moe.experts;
        if (l->mix.kind == GY_MIX_LATENT) experts += 2 * (size_t)l->mix.heads;
    }
    m->weight =
        gy_arena_alloc(&m->arena, (layers * (GY_BOUND_ROLES + 2) + experts + GY_BOUND_OUTSIDE) *
                                      sizeof *m->weight);
    b.used = gy_alloc((size_t)b.t->n);
    if (m->bound) m->bound->layer = gy_arena_alloc(&m->arena, layers * sizeof *m->bound->layer);
    gy_rc rc = m->weight && b.used && m->bound && m->bound->layer
                   ? GY_OK
                   : gy_fail(err, GY_ENOMEM, "binding: out of memory");
    if (!rc) rc = choose_root(&b);
    if (!rc) rc = bind_outside(&b);
    for (size_t i = 0; !rc && i < layers; i++)
        rc = bind_layer(&b, m->desc.layer + i, m->bound->layer + i);
    if (!rc) gy_bind_norms_by_taps(&b);
    if (!rc) rc = audit(&b);
    gy_free(b.used);
    return rc;
}
