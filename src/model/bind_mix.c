/* model/bind_mix - delta mixers and experts; see bind_part.h. */
#include <stdio.h>

#include "base/dmath.h"
#include "model/bind_part.h"

/* ---- Delta mixers ---- */

gy_rc gy_bind_values(gy_binder *b, const gy_layer *l, const char *name, int n, const float **out) {
    char full[256];
    snprintf(full, sizeof full, "%s%s%s", b->root.body, l->prefix, name);
    const gy_tensor *t = gy_bind_take_name(b, full);
    if (!t) return gy_fail(b->err, GY_EFORMAT, "tensor %s is missing", full);
    b->m->bound->parameters += n;
    return gy_bind_vector(b, t, n, out);
}

/* [channels, taps, 1], or [channels, 1, taps] in files that were not converted for MLX; to
 * [taps][channels]. */
static gy_rc bind_conv(gy_binder *b, const gy_layer *l, int channels, int taps, const float **out) {
    char module[224], found[160];
    snprintf(module, sizeof module, "%s%s%s", b->root.body, l->prefix, l->mix.delta.conv);
    const gy_tensor *t = gy_bind_take(b, module, "weight");
    if (!t) return gy_bind_missing(b, module, "weight");
    bool last = t->dims == 3 && t->shape[1] == 1 && taps > 1;
    if (t->dims != 3 || t->shape[0] != channels || t->shape[1] * t->shape[2] != taps ||
        (t->shape[1] != 1 && t->shape[2] != 1))
        return gy_fail(b->err, GY_EFORMAT, "tensor %s has shape %s, expected [%d, %d, 1]", t->name,
                       gy_bind_shape(t, found), channels, taps);
    if (t->type != GY_T_F32 && t->type != GY_T_F16 && t->type != GY_T_BF16)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s has type %s, expected F32, F16 or BF16",
                       t->name, gy_ttype_name(t->type));
    if (b->taps_last && b->taps_last != 1 + last)
        return gy_fail(b->err, GY_EFORMAT, "tensor %s: taps last in some layers only", t->name);
    b->taps_last = 1 + last;
    float *w = gy_arena_alloc(&b->m->arena, (size_t)channels * (size_t)taps * sizeof *w);
    if (!w) return gy_fail(b->err, GY_ENOMEM, "tensor %s: out of memory", t->name);
    for (int c = 0; c < channels; c++)
        for (int j = 0; j < taps; j++)
            w[(size_t)j * (size_t)channels + (size_t)c] = gy_bind_float(t, (int64_t)c * taps + j);
    b->m->bound->parameters += (int64_t)channels * taps;
    return *out = w, GY_OK;
}

gy_rc gy_bind_delta(gy_binder *b, const gy_layer *l, gy_bound_delta *o) {
    const gy_delta *d = &l->mix.delta;
    int w = b->m->desc.width, v = d->v_heads * d->vdim, channels = 2 * d->k_heads * d->kdim + v;
    const gy_bind_part parts[] = {
        {d->qkv, channels, w, 0, false, &o->qkv},
        {d->z, v, w, 0, false, &o->z},
        {d->b, d->v_heads, w, 0, false, &o->b},
        {d->a, d->v_heads, w, 0, false, &o->a},
        {d->qkvz, channels + v, w, 0, false, &o->qkvz},
        {d->ba, 2 * d->v_heads, w, 0, false, &o->ba},
        {d->norm, 0, d->vdim, 0, false, &o->norm},
        {d->o, w, v, 0, false, &o->o},
    };
    const float *log_rate;
    gy_rc rc = gy_bind_parts(b, l, parts, sizeof parts / sizeof *parts);
    if (!rc) rc = bind_conv(b, l, channels, d->taps, &o->conv);
    if (!rc) rc = gy_bind_values(b, l, d->dt_bias, d->v_heads, &o->dt_bias);
    if (!rc) rc = gy_bind_values(b, l, d->rate, d->v_heads, &log_rate);
    if (rc) return rc;
    float *rate = gy_arena_alloc(&b->m->arena, (size_t)d->v_heads * sizeof *rate);
    if (!rate) return gy_fail(b->err, GY_ENOMEM, "binding: out of memory");
    for (int i = 0; i < d->v_heads; i++) rate[i] = (float)gy_dexp(log_rate[i]);
    return o->rate = rate, GY_OK;
}

void gy_bind_norms_by_taps(gy_binder *b) {
    gy_desc *d = &b->m->desc;
    if (!d->norm_by_taps || b->taps_last != 2) return;
    d->norm = GY_NORM_RMS_PLUS1;
    for (gy_layer *l = d->layer; l < d->layer + d->n_layers; l++)
        l->mix.qk_norm_form = GY_NORM_RMS_PLUS1;
}

/* ---- Experts ---- */

/* Weights of `experts` views of the tall matrix: rows first, first + by, ... of every `step`. */
static void views(gy_weight *w, int experts, const gy_rows *all, const float *bias, int first,
                  int by, int rows, int step) {
    for (int e = 0; e < experts; e++) {
        int at = e * step + first;
        w[e].file = *all, w[e].file.rows = rows;
        w[e].bias = bias ? bias + at : NULL;
        for (int p = 0; p < 3; p++)
            if (all->plane[p])
                w[e].file.plane[p] = (char *)all->plane[p] + (ptrdiff_t)at * all->step[p],
                w[e].file.step[p] = by * all->step[p];
    }
}

/* One tensor for all experts, `halves` matrices of rows by cols for each. */
static gy_rc bind_stack(gy_binder *b, const char *module, const gy_tensor *t, int halves, int rows,
                        int cols, bool bias, gy_weight *out[2]) {
    int experts = b->experts, step = halves * rows;
    const gy_tensor *add = gy_bind_take(b, module, "bias");
    const float *values = NULL;
    gy_rows all;
    gy_rc rc = gy_bind_rows(b, module, t, experts, experts * step, cols, &all);
    if (rc) return rc;
    if (!add && bias) return gy_bind_missing(b, module, "bias");
    if (add) {
        gy_tensor flat = *add;
        if (add->dims == 2 && add->shape[0] == experts && add->shape[1] == step)
            flat.dims = 1, flat.shape[0] = (int64_t)experts * step;
        if ((rc = gy_bind_vector(b, &flat, (int64_t)experts * step, &values))) return rc;
    }
    b->m->bound->parameters += (int64_t)experts * step * cols + (add ? experts * step : 0);
    for (int h = 0; h < halves; h++) {
        out[h] = gy_bind_weights(b, t->name, experts);
        views(out[h], experts, &all, values, h * rows, 1, rows, step);
    }
    return GY_OK;
}

static bool has_each(gy_binder *b, const gy_layer *l, const char *name) {
    char module[224];
    if (!l->ffn.moe.each) return false;
    snprintf(module, sizeof module, "%s%s%s0.%s", b->root.body, l->prefix, l->ffn.moe.each, name);
    return gy_bind_find(b, module, "weight");
}

/* A module for each expert. */
static gy_rc bind_each(gy_binder *b, const gy_layer *l, const char *name, int rows, int cols,
                       bool bias, gy_weight **out) {
    for (int e = 0; e < b->experts; e++) {
        char module[224];
        gy_weight *w;
        snprintf(module, sizeof module, "%s%s%s%d.%s", b->root.body, l->prefix, l->ffn.moe.each, e,
                 name);
        gy_rc rc = gy_bind_matrix(b, module, rows, cols, bias, &w);
        if (rc) return rc;
        if (!e) *out = w; /* the others follow it */
    }
    return GY_OK;
}

static gy_rc bind_experts(gy_binder *b, const gy_layer *l, gy_bound_moe *o) {
    const gy_moe *m = &l->ffn.moe;
    int w = b->m->desc.width, n = m->width;
    const struct {
        const char *stack, *each;
        int rows, cols;
        gy_weight **out;
    } parts[] = {{m->gate, m->each_gate, n, w, &o->gate},
                 {m->up, m->each_up, n, w, &o->up},
                 {m->down, m->each_down, w, n, &o->down}};
    char module[224];
    gy_weight *out[2];
    for (int i = 0; i < 3; i++) {
        snprintf(module, sizeof module, "%s%s%s", b->root.body, l->prefix, parts[i].stack);
        const gy_tensor *t = gy_bind_take(b, module, "weight");
        if (!t && !has_each(b, l, parts[i].each)) return gy_bind_missing(b, module, "weight");
        gy_rc rc = t ? bind_stack(b, module, t, 1, parts[i].rows, parts[i].cols, m->biases, out)
                     : bind_each(b, l, parts[i].each, parts[i].rows, parts[i].cols, m->biases, out);
        if (rc) return rc;
        *parts[i].out = out[0];
    }
    return GY_OK;
}

/* Stacks named without ".weight": gate | up of every expert, and down. */
static gy_rc bind_fused(gy_binder *b, const gy_layer *l, const gy_tensor *gate_up,
                        gy_bound_moe *o) {
    const gy_moe *m = &l->ffn.moe;
    gy_weight *out[2];
    char name[224];
    gy_rc rc = bind_stack(b, gate_up->name, gate_up, 2, m->width, b->m->desc.width, false, out);
    if (rc) return rc;
    o->gate = out[0], o->up = out[1];
    snprintf(name, sizeof name, "%s%s%s", b->root.body, l->prefix, m->fused_down);
    const gy_tensor *down = gy_bind_take_name(b, name);
    if (!down) return gy_fail(b->err, GY_EFORMAT, "tensor %s is missing", name);
    rc = bind_stack(b, name, down, 1, b->m->desc.width, m->width, false, out);
    return o->down = out[0], rc;
}

/* One stack of MXFP4 blocks: [experts, rows, cols / 32, 16] nibbles and a scale byte for each. */
static gy_rc bind_blocks(gy_binder *b, const gy_layer *l, const char *base, int rows, int cols,
                         gy_rows *all, const float **bias, const char **name) {
    static const char *const parts[2] = {"_blocks", "_scales"};
    const gy_moe *m = &l->ffn.moe;
    char full[256], found[160];
    *all = (gy_rows){.c = {.kind = GY_CODEC_MXFP4, .bits = 4, .group = 32},
                     .rows = m->experts * rows,
                     .cols = cols,
                     .global = 1};
    if (cols % 32)
        return gy_fail(b->err, GY_EUNSUPPORTED, "%s: rows of %d columns in blocks of 32", base,
                       cols);
    for (int p = 0; p < 2; p++) {
        snprintf(full, sizeof full, "%s%s%s%s", b->root.body, l->prefix, base, parts[p]);
        const gy_tensor *t = gy_bind_take_name(b, full);
        if (!t) return gy_fail(b->err, GY_EFORMAT, "tensor %s is missing", full);
        size_t step = (size_t)cols / (p ? 32 : 2);
        if (t->type != GY_T_U8 || t->bytes != (size_t)all->rows * step)
            return gy_fail(b->err, GY_EFORMAT, "tensor %s is %s %s, expected %zu bytes of U8",
                           t->name, gy_ttype_name(t->type), gy_bind_shape(t, found),
                           (size_t)all->rows * step);
        all->plane[p] = (void *)t->data, all->step[p] = (ptrdiff_t)step;
        if (!p) *name = t->name;
    }
    snprintf(full, sizeof full, "%s%s%s_bias", b->root.body, l->prefix, base);
    const gy_tensor *t = gy_bind_take_name(b, full);
    if (!t) return gy_fail(b->err, GY_EFORMAT, "tensor %s is missing", full);
    gy_tensor flat = *t;
    if (t->dims == 2 && t->shape[0] == m->experts && t->shape[1] == rows)
        flat.dims = 1, flat.shape[0] = all->rows;
    b->m->bound->parameters += (int64_t)all->rows * (cols + 1);
    return gy_bind_vector(b, &flat, all->rows, bias);
}

static gy_rc bind_all_blocks(gy_binder *b, const gy_layer *l, gy_bound_moe *o) {
    const gy_moe *m = &l->ffn.moe;
    int n = m->width, experts = m->experts;
    const float *turns, *bias;
    const char *name;
    gy_rows all;
    gy_rc rc = bind_blocks(b, l, m->block_gate_up, 2 * n, b->m->desc.width, &all, &turns, &name);
    if (rc) return rc;
    float *apart = gy_arena_alloc(&b->m->arena, (size_t)(2 * n) * (size_t)experts * sizeof *apart);
    if (!apart) return gy_fail(b->err, GY_ENOMEM, "binding: out of memory");
    o->gate = gy_bind_weights(b, name, experts), o->up = gy_bind_weights(b, name, experts);
    views(o->gate, experts, &all, NULL, 0, 2, n, 2 * n);
    views(o->up, experts, &all, NULL, 1, 2, n, 2 * n);
    for (int e = 0; e < experts; e++, turns += 2 * n, apart += 2 * n) {
        for (int i = 0; i < n; i++) apart[i] = turns[2 * i], apart[n + i] = turns[2 * i + 1];
        o->gate[e].bias = apart, o->up[e].bias = apart + n;
    }
    rc = bind_blocks(b, l, m->block_down, b->m->desc.width, n, &all, &bias, &name);
    if (rc) return rc;
    o->down = gy_bind_weights(b, name, experts);
    views(o->down, experts, &all, bias, 0, 1, b->m->desc.width, b->m->desc.width);
    return GY_OK;
}

gy_rc gy_bind_latent(gy_binder *b, const gy_layer *l, gy_bound_latent *o) {
    const gy_latent *m = &l->mix.latent;
    int w = b->m->desc.width, heads = l->mix.heads, q = heads * (m->plain + m->turned);
    bool lora = m->q_rank > 0, bias = m->bias;
    const gy_bind_part parts[] = {
        {lora ? m->q_a : NULL, m->q_rank, w, 0, bias, &o->q_a},
        {lora ? m->q_a_norm : NULL, 0, m->q_rank, 0, false, &o->q_a_norm},
        {lora ? m->q_b : NULL, q, m->q_rank, 0, false, &o->q_b},
        {lora ? NULL : m->q, q, w, 0, false, &o->q},
        {m->kv_a, m->rank + m->turned, w, 0, bias, &o->kv_a},
        {m->kv_a_norm, 0, m->rank, 0, false, &o->kv_a_norm},
        {m->o, w, heads * m->vdim, 0, bias, &o->o},
    };
    const struct {
        const char *name;
        int rows, cols;
        gy_weight **out;
    } stacks[] = {{m->embed, m->rank, m->plain, &o->embed},
                  {m->unembed, m->vdim, m->rank, &o->unembed}};
    gy_rc rc = gy_bind_parts(b, l, parts, sizeof parts / sizeof *parts);
    b->experts = heads;
    for (int i = 0; !rc && i < 2; i++) {
        char module[224];
        gy_weight *out[2] = {NULL};
        snprintf(module, sizeof module, "%s%s%s", b->root.body, l->prefix, stacks[i].name);
        const gy_tensor *t = gy_bind_take(b, module, "weight");
        if (!t) return gy_bind_missing(b, module, "weight");
        rc = bind_stack(b, module, t, 1, stacks[i].rows, stacks[i].cols, false, out);
        *stacks[i].out = out[0];
    }
    return rc;
}

gy_rc gy_bind_moe(gy_binder *b, const gy_layer *l, gy_bound_moe *o) {
    const gy_moe *m = &l->ffn.moe;
    int w = b->m->desc.width;
    const gy_bind_part parts[] = {{m->router, m->experts, w, 0, m->router_bias, &o->router},
                                  {m->shared_gate, 1, w, 0, false, &o->shared_gate}};
    gy_rc rc = gy_bind_parts(b, l, parts, 2);
    if (!rc && m->choice_bias)
        rc = gy_bind_values(b, l, m->choice_bias, m->experts, &o->choice_bias);
    if (rc) return rc;
    char name[224];
    b->experts = m->experts;
    if (m->fused_gate_up) {
        snprintf(name, sizeof name, "%s%s%s", b->root.body, l->prefix, m->fused_gate_up);
        const gy_tensor *t = gy_bind_take_name(b, name);
        if (t) return bind_fused(b, l, t, o);
    }
    if (m->block_gate_up) {
        snprintf(name, sizeof name, "%s%s%s_blocks", b->root.body, l->prefix, m->block_gate_up);
        if (gy_tensors_find(b->t, name)) return bind_all_blocks(b, l, o);
    }
    return bind_experts(b, l, o);
}
