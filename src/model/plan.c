/* model/plan - compiles a description and its weights to a list of operators.
 *
 *     x -NORM-> h -LINEAR-> qkv -HEADNORM, ROPE in place-> KVPUT, ATTN-> mix -LINEAR-> t
 *       t [-NORM-> h] -ADD-> x                                           or, of a delta mixer:
 *     x -NORM-> h -LINEAR-> delta, beta -CONV in place, SCAN-> mix -GATE, LINEAR-> t ...
 *
 *     x -NORM-> h -LINEAR-> wide -ACT-> act -LINEAR-> t [-NORM-> h] -ADD-> x       per layer
 *     x -PICK-> h -NORM-> t -LOGITS
 *
 * Slots have one width in every layer that uses them alike, so a slot's rows can be shown as they
 * are. What does nothing is not emitted: absent norms, layers without rotation. */
#include <limits.h>

#include "codec/kvname.h"
#include "model/bind.h"

enum {
    SLOT_X,
    SLOT_H,
    SLOT_T,
    SLOT_QKV,
    SLOT_MIX,
    SLOT_WIDE,
    SLOT_ACT,
    /* Of some mixers only: columns before they are regrouped; the channels of a delta mixer and
     * its output gate; its beta and decay. */
    SLOT_RAW,
    SLOT_DELTA,
    SLOT_BETA,
    /* Of layers with experts: scores and the shared expert's gate; choice; shared expert. */
    SLOT_SCORE,
    SLOT_CHOICE,
    SLOT_SHARED,
    SLOTS
};

typedef struct {
    gy_plan plan; /* first: what the caller holds */
    int cols[SLOTS];
    int cap;
    const gy_model *m;
} builder;

static gy_op *emit(builder *b, gy_opk kind, int layer, int in, int out) {
    GY_ASSERT(b->plan.n_ops < b->cap);
    gy_op *op = b->plan.op + b->plan.n_ops++;
    *op = (gy_op){.kind = (uint8_t)kind,
                  .layer = (int16_t)layer,
                  .in = {(int16_t)in, -1},
                  .out = (int16_t)out};
    return op;
}

static void need(builder *b, int slot, int cols) {
    if (b->cols[slot] < cols) b->cols[slot] = cols;
}

/* NORM from slot to slot; without a weight the input is used as it is. Returns the slot that holds
 * the result. */
static int norm(builder *b, int layer, gy_weight *w, int in, int out) {
    if (!w) return in;
    gy_op *op = emit(b, GY_OP_NORM, layer, in, out);
    op->w[0] = w, op->u.norm.eps = b->m->desc.eps, op->u.norm.form = b->m->desc.norm;
    need(b, out, w->file.cols);
    return out;
}

static void linear(builder *b, int layer, gy_weight *const w[3], int in, int out) {
    gy_op *op = emit(b, GY_OP_LINEAR, layer, in, out);
    int cols = 0;
    for (int i = 0, n = 0; i < 3; i++)
        if (w[i]) op->w[n++] = w[i], cols += w[i]->file.rows;
    need(b, out, cols);
}

static void headnorm(builder *b, const gy_layer *l, gy_weight *w, int col, int cols) {
    if (!w) return;
    gy_op *op = emit(b, GY_OP_HEADNORM, l->i, SLOT_QKV, SLOT_QKV);
    op->w[0] = w;
    op->u.headnorm.eps = b->m->desc.eps, op->u.headnorm.form = l->mix.qk_norm_form;
    op->u.headnorm.col = col, op->u.headnorm.dim = w->file.cols,
    op->u.headnorm.heads = cols / w->file.cols;
}

/* Turns the leading part of heads that lie dim apart. */
static void rope(builder *b, const gy_layer *l, int slot, int col, int heads, int dim) {
    const gy_rope *r = &l->mix.rope;
    if (!r->rot) return;
    gy_op *op = emit(b, GY_OP_ROPE, l->i, slot, slot);
    op->u.rope.col = col, op->u.rope.dim = dim, op->u.rope.heads = heads;
    op->u.rope.rot = r->rot, op->u.rope.pairs = r->pairs, op->u.rope.mscale = r->mscale;
    op->u.rope.inv_freq = r->inv_freq;
    op->u.rope.dyn_max = r->dyn_max, op->u.rope.dyn_base = r->dyn_base,
    op->u.rope.dyn_factor = r->dyn_factor;
}

/* x += res_scale * (what the half layer made, normed if it has a post norm). */
static void residual(builder *b, const gy_layer *l, gy_weight *post) {
    int from = norm(b, l->i, post, SLOT_T, SLOT_H);
    gy_op *op = emit(b, GY_OP_ADD, l->i, SLOT_X, SLOT_X);
    op->in[1] = (int16_t)from, op->u.add.a = l->res_scale;
}

static gy_op *regroup(builder *b, const gy_layer *l, int groups, int n, int out, int cols) {
    gy_op *op = emit(b, GY_OP_REGROUP, l->i, SLOT_RAW, out);
    op->u.regroup.groups = groups, op->u.regroup.n = n;
    need(b, out, cols);
    return op;
}

static void part_to(gy_op *op, int i, int width, int to) {
    op->u.regroup.width[i] = width, op->u.regroup.to[i] = to;
}

static void attention(builder *b, const gy_layer *l, const gy_bound_layer *w) {
    const gy_mix *m = &l->mix;
    int q = m->heads * m->dim, kv = m->kv_heads * m->dim, gate = q + 2 * kv;
    int in = norm(b, l->i, w->pre_a, SLOT_X, SLOT_H);
    gy_weight *const split[3] = {w->q, w->k, w->v}, *const fused[3] = {w->qkv},
                     *const out[3] = {w->o};
    linear(b, l->i, w->qkv ? fused : split, in, m->out_gate ? SLOT_RAW : SLOT_QKV);
    if (m->out_gate) { /* heads of q | gate, then k | v */
        gy_op *op = regroup(b, l, m->heads, 2, SLOT_QKV, gate + q);
        part_to(op, 0, m->dim, 0), part_to(op, 1, m->dim, gate);
        op->u.regroup.rest = q, op->u.regroup.rest_cols = 2 * kv;
    }
    headnorm(b, l, w->q_norm, 0, q);
    headnorm(b, l, w->k_norm, q, kv);
    rope(b, l, SLOT_QKV, 0, m->heads + m->kv_heads, m->dim); /* q and k lie side by side */
    gy_op *op = emit(b, GY_OP_KVPUT, l->i, SLOT_QKV, -1);
    op->u.kvput.kcol = q, op->u.kvput.vcol = q + kv;
    op = emit(b, GY_OP_ATTN, l->i, SLOT_QKV, SLOT_MIX);
    op->u.attn.heads = m->heads, op->u.attn.kv_heads = m->kv_heads,
    op->u.attn.kdim = op->u.attn.vdim = m->dim;
    op->u.attn.window = m->window, op->u.attn.scale = m->scale, op->u.attn.cap = m->cap;
    op->u.attn.sinks = w->sinks;
    need(b, SLOT_MIX, q);
    if (m->out_gate) {
        op = emit(b, GY_OP_GATE, l->i, SLOT_MIX, SLOT_MIX);
        op->in[1] = SLOT_QKV, op->u.gate.form = GY_GATE_SIGMOID;
        op->u.gate.heads = m->heads, op->u.gate.dim = m->dim, op->u.gate.col = gate;
    }
    linear(b, l->i, out, SLOT_MIX, SLOT_T);
    residual(b, l, w->post_a);
}

/* q | k | v | z of the delta mixer to SLOT_DELTA, b | a to SLOT_BETA. */
static void delta_inputs(builder *b, const gy_layer *l, const gy_bound_delta *w, int in) {
    const gy_delta *d = &l->mix.delta;
    int k = d->k_heads * d->kdim, v = d->v_heads * d->vdim, each = d->v_heads / d->k_heads;
    gy_weight *const wide[3] = {w->qkv, w->z}, *const thin[3] = {w->b, w->a};
    gy_weight *const fused[3] = {w->qkvz}, *const gates[3] = {w->ba};
    if (w->qkvz) {
        linear(b, l->i, fused, in, SLOT_RAW);
        gy_op *op = regroup(b, l, d->k_heads, 4, SLOT_DELTA, 2 * (k + v));
        part_to(op, 0, d->kdim, 0), part_to(op, 1, d->kdim, k);
        part_to(op, 2, each * d->vdim, 2 * k), part_to(op, 3, each * d->vdim, 2 * k + v);
    } else {
        linear(b, l->i, wide, in, SLOT_DELTA);
    }
    if (w->ba) {
        linear(b, l->i, gates, in, SLOT_RAW);
        gy_op *op = regroup(b, l, d->k_heads, 2, SLOT_BETA, 2 * d->v_heads);
        part_to(op, 0, each, 0), part_to(op, 1, each, d->v_heads);
    } else {
        linear(b, l->i, thin, in, SLOT_BETA);
    }
}

static void delta(builder *b, const gy_layer *l, const gy_bound_layer *bound) {
    const gy_delta *d = &l->mix.delta;
    const gy_bound_delta *w = &bound->delta;
    int v = d->v_heads * d->vdim, channels = 2 * d->k_heads * d->kdim + v;
    gy_weight *const out[3] = {w->o};
    delta_inputs(b, l, w, norm(b, l->i, bound->pre_a, SLOT_X, SLOT_H));
    gy_op *op = emit(b, GY_OP_CONV, l->i, SLOT_DELTA, SLOT_DELTA);
    op->u.conv.cols = channels, op->u.conv.taps = d->taps, op->u.conv.w = w->conv;
    op = emit(b, GY_OP_SCAN, l->i, SLOT_DELTA, SLOT_MIX);
    op->in[1] = SLOT_BETA;
    op->u.scan.k_heads = d->k_heads, op->u.scan.v_heads = d->v_heads;
    op->u.scan.kdim = d->kdim, op->u.scan.vdim = d->vdim;
    op->u.scan.dt_bias = w->dt_bias, op->u.scan.rate = w->rate;
    need(b, SLOT_MIX, v);
    op = emit(b, GY_OP_GATE, l->i, SLOT_MIX, SLOT_MIX);
    op->in[1] = SLOT_DELTA, op->w[0] = w->norm, op->u.gate.form = GY_GATE_NORM_SILU;
    op->u.gate.heads = d->v_heads, op->u.gate.dim = d->vdim, op->u.gate.col = channels;
    op->u.gate.eps = b->m->desc.eps;
    linear(b, l->i, out, SLOT_MIX, SLOT_T);
    residual(b, l, bound->post_a);
}

static void latent_norm(builder *b, const gy_layer *l, gy_weight *w, int col) {
    gy_op *op = emit(b, GY_OP_HEADNORM, l->i, SLOT_RAW, SLOT_RAW);
    op->w[0] = w, op->u.headnorm.eps = l->mix.latent.eps, op->u.headnorm.form = GY_NORM_RMS;
    op->u.headnorm.col = col, op->u.headnorm.heads = 1, op->u.headnorm.dim = w->file.cols;
}

static void heads(builder *b, const gy_layer *l, const gy_weight *w, int in, int step, int out,
                  int to_step, int copied) {
    gy_op *op = emit(b, GY_OP_HEADS, l->i, in, out);
    op->u.heads.heads = l->mix.heads, op->u.heads.w = w;
    op->u.heads.step = step, op->u.heads.to_step = to_step, op->u.heads.copied = copied;
    need(b, out, l->mix.heads * to_step);
}

/* Queries go to the latent space of the keys, so that one stored row serves all heads whatever the
 * number of queries. SLOT_RAW holds [query latent | key latent | turned key]. */
static void latent(builder *b, const gy_layer *l, const gy_bound_layer *bound) {
    const gy_latent *m = &l->mix.latent;
    const gy_bound_latent *w = &bound->latent;
    int in = norm(b, l->i, bound->pre_a, SLOT_X, SLOT_H), key = m->rank + m->turned;
    gy_weight *const low[3] = {w->q_a, w->kv_a}, *const q[3] = {w->q_b ? w->q_b : w->q},
                     *const out[3] = {w->o};
    linear(b, l->i, low, in, SLOT_RAW);
    if (w->q_a) latent_norm(b, l, w->q_a_norm, 0);
    latent_norm(b, l, w->kv_a_norm, m->q_rank);
    linear(b, l->i, q, w->q_b ? SLOT_RAW : in, SLOT_DELTA);
    heads(b, l, w->embed, SLOT_DELTA, m->plain + m->turned, SLOT_QKV, key, m->turned);
    rope(b, l, SLOT_QKV, m->rank, l->mix.heads, key);
    rope(b, l, SLOT_RAW, m->q_rank + m->rank, 1, key);
    gy_op *op = emit(b, GY_OP_KVPUT, l->i, SLOT_RAW, -1);
    op->u.kvput.kcol = op->u.kvput.vcol = m->q_rank;
    op = emit(b, GY_OP_ATTN, l->i, SLOT_QKV, SLOT_MIX);
    op->u.attn.heads = l->mix.heads, op->u.attn.kv_heads = 1;
    op->u.attn.kdim = key, op->u.attn.vdim = m->rank, op->u.attn.scale = l->mix.scale;
    need(b, SLOT_MIX, l->mix.heads * m->rank);
    heads(b, l, w->unembed, SLOT_MIX, m->rank, SLOT_DELTA, m->vdim, 0);
    linear(b, l->i, out, SLOT_DELTA, SLOT_T);
    residual(b, l, bound->post_a);
}

/* The experts of SLOT_T for the rows of in; their scores and the shared expert's gate. */
static void experts(builder *b, const gy_layer *l, const gy_bound_moe *w, int in) {
    const gy_moe *m = &l->ffn.moe;
    gy_weight *const scores[3] = {w->router, w->shared_gate};
    linear(b, l->i, scores, in, SLOT_SCORE);
    b->plan.op[b->plan.n_ops - 1].flags = GY_OPF_EXACT;
    gy_op *op = emit(b, GY_OP_ROUTE, l->i, SLOT_SCORE, SLOT_CHOICE);
    op->u.route.experts = m->experts, op->u.route.top_k = m->top_k;
    op->u.route.groups = m->groups, op->u.route.kept = m->kept;
    op->u.route.score = m->score, op->u.route.renorm = m->renorm;
    op->u.route.scale = m->scale, op->u.route.bias = w->choice_bias;
    need(b, SLOT_CHOICE, 2 * m->top_k);
    op = emit(b, GY_OP_EXPERTS, l->i, in, SLOT_T);
    op->in[1] = SLOT_CHOICE;
    op->u.experts.experts = m->experts, op->u.experts.top_k = m->top_k;
    op->u.experts.width = m->width, op->u.experts.act = l->ffn.act;
    op->u.experts.gate = w->gate, op->u.experts.up = w->up, op->u.experts.down = w->down;
}

/* SLOT_T += the shared expert, which lies in SLOT_SHARED. */
static void add_shared(builder *b, const gy_layer *l, const gy_bound_moe *w) {
    int width = b->m->desc.width;
    gy_op *op;
    if (w->shared_gate) {
        op = emit(b, GY_OP_GATE, l->i, SLOT_SHARED, SLOT_SHARED);
        op->in[1] = SLOT_SCORE, op->u.gate.form = GY_GATE_SIGMOID_ALL;
        op->u.gate.heads = 1, op->u.gate.dim = width, op->u.gate.col = l->ffn.moe.experts;
    }
    op = emit(b, GY_OP_ADD, l->i, SLOT_T, SLOT_T);
    op->in[1] = SLOT_SHARED, op->u.add.a = 1;
}

static void feed_forward(builder *b, const gy_layer *l, const gy_bound_layer *w) {
    int in = norm(b, l->i, w->pre_f, SLOT_X, SLOT_H);
    bool moe = l->ffn.moe.router != NULL;
    if (moe) experts(b, l, &w->moe, in);
    if (moe && !w->up && !w->gate_up) {
        residual(b, l, w->post_f);
        return;
    }
    gy_weight *const split[3] = {w->gate, w->up}, *const fused[3] = {w->gate_up},
                     *const down[3] = {w->down};
    linear(b, l->i, w->gate_up ? fused : split, in, SLOT_WIDE);
    gy_op *op = emit(b, GY_OP_ACT, l->i, SLOT_WIDE, SLOT_ACT);
    op->flags = l->ffn.glu ? GY_OPF_GLU : 0;
    op->u.act.form = l->ffn.act, op->u.act.width = l->ffn.width;
    need(b, SLOT_ACT, l->ffn.width);
    linear(b, l->i, down, SLOT_ACT, moe ? SLOT_SHARED : SLOT_T);
    if (moe) add_shared(b, l, &w->moe);
    residual(b, l, w->post_f);
}

static void compile(builder *b) {
    const gy_desc *d = &b->m->desc;
    const struct gy_bound *w = b->m->bound;
    gy_op *op = emit(b, GY_OP_EMBED, -1, -1, SLOT_X);
    op->w[0] = w->embed, op->u.embed.scale = d->embed_scale;
    need(b, SLOT_X, d->width), need(b, SLOT_H, d->width), need(b, SLOT_T, d->width);
    for (int i = 0; i < d->n_layers; i++) {
        if (d->layer[i].mix.kind == GY_MIX_DELTA)
            delta(b, d->layer + i, w->layer + i);
        else if (d->layer[i].mix.kind == GY_MIX_LATENT)
            latent(b, d->layer + i, w->layer + i);
        else
            attention(b, d->layer + i, w->layer + i);
        feed_forward(b, d->layer + i, w->layer + i);
    }
    emit(b, GY_OP_PICK, -1, SLOT_X, SLOT_H)->flags = GY_OPF_OUTS;
    int from = norm(b, -1, w->final_norm, SLOT_H, SLOT_T);
    b->plan.op[b->plan.n_ops - 1].flags |= GY_OPF_OUTS;
    op = emit(b, GY_OP_LOGITS, -1, from, -1);
    op->flags = GY_OPF_OUTS, op->w[0] = w->head;
    op->u.logits.a = d->logit_scale, op->u.logits.cap = d->logit_cap;
    b->plan.n_slots = SLOTS;
    while (!b->cols[b->plan.n_slots - 1]) b->plan.n_slots--;
}

gy_rc gy_plan_kv(const gy_layer *l, gy_kvpair c, gy_kvspec *s, gy_err *err) {
    const gy_delta *d = &l->mix.delta;
    if (l->mix.kind == GY_MIX_DELTA) {
        *s = (gy_kvspec){.donor = -1, .keep.policy = GY_KEEP_STATE};
        s->conv = (d->taps - 1) * (2 * d->k_heads * d->kdim + d->v_heads * d->vdim);
        s->scan = d->v_heads * d->vdim * d->kdim;
        return GY_OK;
    }
    const gy_latent *m = &l->mix.latent;
    if (l->mix.kind == GY_MIX_LATENT) { /* the store checks K's codec */
        *s = (gy_kvspec){.k = c.k,
                         .v = c.k,
                         .heads = 1,
                         .kdim = m->rank + m->turned,
                         .vdim = m->rank,
                         .donor = -1,
                         .form = GY_KV_VIEW};
        return GY_OK;
    }
    gy_rc rc = gy_kv_codec_fits(c.k, c.v, l->mix.dim, l->mix.dim, err);
    if (rc) return gy_fail_in(err, "kv: layer %d", l->i), rc;
    *s = (gy_kvspec){.k = c.k,
                     .v = c.v,
                     .heads = l->mix.kv_heads,
                     .kdim = l->mix.dim,
                     .vdim = l->mix.dim,
                     .donor = -1};
    s->keep.policy = l->mix.window ? GY_KEEP_WINDOW : GY_KEEP_ALL;
    s->keep.window = l->mix.window;
    return GY_OK;
}

gy_rc gy_plan_build_layers(gy_model *m, const gy_kvpair *kv, gy_plan **plan, gy_err *err) {
    if (!m->bound) return gy_fail(err, GY_EARG, "%s was opened without weights", m->path);
    enum { OPS_LAYER = 26, OPS_OUTSIDE = 4 };
    int layers = m->desc.n_layers;
    builder *b = gy_alloc(sizeof *b);
    if (!b) return gy_fail(err, GY_ENOMEM, "plan: out of memory");
    b->m = m, b->cap = layers * OPS_LAYER + OPS_OUTSIDE;
    b->plan.op = gy_alloc_n((size_t)b->cap, sizeof *b->plan.op);
    b->plan.kv = gy_alloc_n((size_t)layers, sizeof *b->plan.kv);
    b->plan.n_layers = layers, b->plan.vocab = m->desc.vocab;
    b->plan.slot_cols = b->cols;
    gy_rc rc = b->plan.op && b->plan.kv ? GY_OK : gy_fail(err, GY_ENOMEM, "plan: out of memory");
    for (int i = 0; !rc && i < layers; i++)
        rc = gy_plan_kv(m->desc.layer + i, kv[i], b->plan.kv + i, err);
    if (rc) return gy_plan_free(&b->plan), rc;
    compile(b);
    *plan = &b->plan;
    return GY_OK;
}

gy_rc gy_plan_build(gy_model *m, gy_cparm k, gy_cparm v, gy_plan **plan, gy_err *err) {
    gy_kvpair *kv = gy_alloc_n((size_t)m->desc.n_layers, sizeof *kv);
    if (!kv) return gy_fail(err, GY_ENOMEM, "plan: out of memory");
    for (int i = 0; i < m->desc.n_layers; i++) kv[i] = (gy_kvpair){k, v};
    gy_rc rc = gy_plan_build_layers(m, kv, plan, err);
    gy_free(kv);
    return rc;
}

void gy_plan_free(gy_plan *plan) {
    if (!plan) return;
    gy_free(plan->op), gy_free(plan->kv);
    gy_free(plan);
}

bool gy_model_quantised(const gy_model *m) {
    for (int i = 0; i < m->n_weights; i++) {
        /* Norms are one row of f32; an embedding that is only looked up has no product to be fast
         * in. */
        if (m->weight + i == m->bound->embed && m->bound->embed != m->bound->head) continue;
        if (gy_codec_intkind(m->weight[i].file.c).has) return true;
    }
    return false;
}
