#include "golden/naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const gy_plan *plan;
    const int32_t *ids;
    int n;           /* rows: one sequence, all of its positions */
    double **slot;   /* [n_slots] [n, slot_cols] */
    double **k, **v; /* [n_layers] [n, heads * dim] */
    double *logits;
} state;

static double *row(const state *s, int slot, int r) {
    return s->slot[slot] + (size_t)r * s->plan->slot_cols[slot];
}

static void *must(void *p) {
    if (!p) abort();
    return p;
}

static void decode(const gy_weight *w, int r, float *x) {
    gy_codecs[w->file.c.kind].decode(&w->file, r, x);
}

static void embed(state *s, const gy_op *op) {
    int cols = op->w[0]->file.cols;
    float *x = must(malloc((size_t)cols * sizeof *x));
    for (int r = 0; r < s->n; r++) {
        decode(op->w[0], s->ids[r], x);
        for (int c = 0; c < cols; c++) row(s, op->out, r)[c] = (double)op->u.embed.scale * x[c];
    }
    free(x);
}

static void norm(double *x, int n, const float *w, const float *bias, int form, double eps,
                 double *out) {
    double sum = 0, mean = 0;
    if (form == GY_NORM_LAYER) {
        for (int i = 0; i < n; i++) mean += x[i];
        mean /= n;
    }
    for (int i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / sqrt(sum / n + eps);
    for (int i = 0; i < n; i++)
        out[i] = (x[i] - mean) * scale * (form == GY_NORM_RMS_PLUS1 ? 1.0 + w[i] : w[i]) +
                 (bias ? bias[i] : 0);
}

static void norms(state *s, const gy_op *op) {
    int n = op->w[0]->file.cols;
    float *w = must(malloc((size_t)n * sizeof *w));
    decode(op->w[0], 0, w);
    for (int r = 0; r < s->n; r++) {
        if (op->kind == GY_OP_NORM) {
            norm(row(s, op->in[0], r), n, w, op->w[0]->bias, op->u.norm.form, op->u.norm.eps,
                 row(s, op->out, r));
            continue;
        }
        for (int h = 0; h < op->u.headnorm.heads; h++) {
            double *x = row(s, op->out, r) + op->u.headnorm.col + h * n;
            norm(x, n, w, op->w[0]->bias, op->u.headnorm.form, op->u.headnorm.eps, x);
        }
    }
    free(w);
}

/* out[r * ld + col ...] = x W^T + bias for every row. */
static void product(state *s, const gy_weight *w, int in, double *out, size_t ld) {
    float *x = must(malloc((size_t)w->file.cols * sizeof *x));
    for (int o = 0; o < w->file.rows; o++) {
        decode(w, o, x);
        for (int r = 0; r < s->n; r++) {
            const double *a = row(s, in, r);
            double sum = w->bias ? w->bias[o] : 0;
            for (int c = 0; c < w->file.cols; c++) sum += a[c] * x[c];
            out[(size_t)r * ld + (size_t)o] = sum;
        }
    }
    free(x);
}

static void linear(state *s, const gy_op *op) {
    for (int i = 0, col = 0; i < 3 && op->w[i]; col += op->w[i]->file.rows, i++)
        product(s, op->w[i], op->in[0], s->slot[op->out] + col,
                (size_t)s->plan->slot_cols[op->out]);
}

static void rope(state *s, const gy_op *op) {
    int rot = op->u.rope.rot, half = rot / 2;
    for (int p = 0; p < s->n; p++) {
        for (int h = 0; h < op->u.rope.heads; h++) {
            double *x = row(s, op->out, p) + op->u.rope.col + h * op->u.rope.dim;
            for (int i = 0; i < half; i++) {
                double f = op->u.rope.inv_freq[i];
                if (op->u.rope.dyn_max && p + 1 > op->u.rope.dyn_max) {
                    double k = op->u.rope.dyn_factor;
                    double grown = k * (p + 1) / op->u.rope.dyn_max - (k - 1);
                    f = pow(op->u.rope.dyn_base * pow(grown, rot / (rot - 2.0)), -2.0 * i / rot);
                }
                double *a = x + (op->u.rope.pairs ? 2 * i : i),
                       *b = op->u.rope.pairs ? a + 1 : a + half;
                double c = cos(p * f), d = sin(p * f), u = *a * op->u.rope.mscale,
                       v = *b * op->u.rope.mscale;
                *a = u * c - v * d, *b = u * d + v * c;
            }
        }
    }
}

static void kvput(state *s, const gy_op *op) {
    const gy_kvspec *kv = s->plan->kv + op->layer;
    for (int r = 0; r < s->n; r++) {
        size_t nk = (size_t)(kv->heads * kv->kdim), nv = (size_t)(kv->heads * kv->vdim);
        memcpy(s->k[op->layer] + (size_t)r * nk, row(s, op->in[0], r) + op->u.kvput.kcol,
               nk * sizeof(double));
        for (size_t i = 0; i < nv; i++) /* a view: the first values of each head's K */
            s->v[op->layer][(size_t)r * nv + i] =
                row(s, op->in[0],
                    r)[kv->form == GY_KV_VIEW
                           ? op->u.kvput.kcol + (int)i / kv->vdim * kv->kdim + (int)i % kv->vdim
                           : op->u.kvput.vcol + (int)i];
    }
}

static void attend(state *s, const gy_op *op, int r, int h, double *score) {
    int kd = op->u.attn.kdim, vd = op->u.attn.vdim, heads = op->u.attn.kv_heads;
    int kh = h * heads / op->u.attn.heads, lo = op->u.attn.window ? r - op->u.attn.window + 1 : 0;
    const double *q = row(s, op->in[0], r) + h * kd;
    double *out = row(s, op->out, r) + h * vd, max = -INFINITY, sum = 0;
    if (lo < 0) lo = 0;
    for (int j = lo; j <= r; j++) {
        const double *k = s->k[op->layer] + ((size_t)j * (size_t)heads + (size_t)kh) * (size_t)kd;
        double z = 0;
        for (int i = 0; i < kd; i++) z += q[i] * k[i];
        z *= op->u.attn.scale;
        if (op->u.attn.cap != 0) z = op->u.attn.cap * tanh(z / op->u.attn.cap);
        score[j] = z;
        if (z > max) max = z;
    }
    memset(out, 0, (size_t)vd * sizeof *out);
    if (op->u.attn.sinks) {
        max = fmax(max, op->u.attn.sinks[h]);
        sum = exp(op->u.attn.sinks[h] - max);
    }
    for (int j = lo; j <= r; j++) sum += score[j] = exp(score[j] - max);
    for (int j = lo; j <= r; j++) {
        const double *v = s->v[op->layer] + ((size_t)j * (size_t)heads + (size_t)kh) * (size_t)vd;
        for (int i = 0; i < vd; i++) out[i] += score[j] / sum * v[i];
    }
}

static double act(double x, int form) {
    switch (form) {
    case GY_ACT_SILU: return x / (1 + exp(-x));
    case GY_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case GY_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case GY_ACT_RELU: return x > 0 ? x : 0;
    case GY_ACT_RELU2: return x > 0 ? x * x : 0;
    case GY_ACT_CLAMPED_GELU: return act(fmin(x, 7), GY_ACT_QUICK_GELU);
    default: return x / (1 + exp(-1.702 * x));
    }
}

static double act_times(double x, double up, int form) {
    return act(x, form) * (form == GY_ACT_CLAMPED_GELU ? fmax(-7, fmin(up, 7)) + 1 : up);
}

static void acts(state *s, const gy_op *op) {
    int n = op->u.act.width;
    for (int r = 0; r < s->n; r++)
        for (int i = 0; i < n; i++) {
            const double *x = row(s, op->in[0], r);
            row(s, op->out, r)[i] = op->flags & GY_OPF_GLU
                                        ? act_times(x[i], x[n + i], op->u.act.form)
                                        : act(x[i], op->u.act.form);
        }
}

static void logits(state *s, const gy_op *op) {
    size_t vocab = (size_t)s->plan->vocab;
    product(s, op->w[0], op->in[0], s->logits, vocab);
    for (size_t i = 0; i < (size_t)s->n * vocab; i++) {
        double z = s->logits[i] * op->u.logits.a;
        s->logits[i] = op->u.logits.cap != 0 ? op->u.logits.cap * tanh(z / op->u.logits.cap) : z;
    }
}

static void copy(state *s, const gy_op *op) {
    for (int r = 0; r < s->n; r++)
        memcpy(row(s, op->out, r), row(s, op->in[0], r),
               (size_t)s->plan->slot_cols[op->in[0]] * sizeof(double));
}

static void add(state *s, const gy_op *op) {
    for (int r = 0; r < s->n; r++)
        for (int c = 0; c < s->plan->slot_cols[op->out]; c++)
            row(s, op->out, r)[c] =
                row(s, op->in[0], r)[c] + (double)op->u.add.a * row(s, op->in[1], r)[c];
}

/* ---- Recurrent layers ---- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* From the last row up, so that the inputs of earlier rows are still there. */
static void conv(state *s, const gy_op *op) {
    int cols = op->u.conv.cols, taps = op->u.conv.taps;
    for (int r = s->n - 1; r >= 0; r--)
        for (int c = 0; c < cols; c++) {
            double y = 0;
            for (int j = 0; j < taps && r - j >= 0; j++)
                y += (double)op->u.conv.w[(taps - 1 - j) * cols + c] * row(s, op->out, r - j)[c];
            row(s, op->out, r)[c] = y * sigmoid(y);
        }
}

static double inverse_length(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum + 1e-6);
}

static void scan(state *s, const gy_op *op) {
    int kd = op->u.scan.kdim, vd = op->u.scan.vdim, kh = op->u.scan.k_heads,
        vh = op->u.scan.v_heads;
    double *matrix = must(malloc((size_t)(kd * vd) * sizeof *matrix));
    for (int h = 0; h < vh; h++) {
        memset(matrix, 0, (size_t)(kd * vd) * sizeof *matrix);
        for (int r = 0; r < s->n; r++) {
            const double *x = row(s, op->in[0], r), *g = row(s, op->in[1], r);
            const double *q = x + h / (vh / kh) * kd, *k = q + kh * kd,
                         *v = x + 2 * kh * kd + h * vd;
            double a = g[vh + h] + op->u.scan.dt_bias[h], beta = sigmoid(g[h]);
            double decay = exp(-(double)op->u.scan.rate[h] * log1p(exp(a)));
            double lq = inverse_length(q, kd) / sqrt(kd), lk = inverse_length(k, kd);
            for (int i = 0; i < vd; i++) {
                double *line = matrix + i * kd, m = 0, o = 0;
                for (int j = 0; j < kd; j++) m += (line[j] *= decay) * k[j] * lk;
                for (int j = 0; j < kd; j++)
                    o += (line[j] += beta * (v[i] - m) * k[j] * lk) * q[j] * lq;
                row(s, op->out, r)[h * vd + i] = o;
            }
        }
    }
    free(matrix);
}

static void gate(state *s, const gy_op *op) {
    int n = op->u.gate.dim;
    for (int r = 0; r < s->n; r++)
        for (int h = 0; h < op->u.gate.heads; h++) {
            const double *x = row(s, op->in[0], r) + h * n,
                         *g = row(s, op->in[1], r) + op->u.gate.col + h * n;
            double *y = row(s, op->out, r) + h * n, all = row(s, op->in[1], r)[op->u.gate.col + h];
            if (op->u.gate.form == GY_GATE_NORM_SILU)
                norm((double *)x, n, op->w[0]->file.plane[0], NULL, GY_NORM_RMS, op->u.gate.eps, y);
            for (int i = 0; i < n; i++)
                y[i] = op->u.gate.form == GY_GATE_SIGMOID     ? x[i] * sigmoid(g[i])
                       : op->u.gate.form == GY_GATE_NORM_SILU ? y[i] * g[i] * sigmoid(g[i])
                                                              : x[i] * sigmoid(all);
        }
}

static void regroup(state *s, const gy_op *op) {
    for (int r = 0; r < s->n; r++) {
        const double *x = row(s, op->in[0], r);
        double *y = row(s, op->out, r);
        for (int g = 0; g < op->u.regroup.groups; g++)
            for (int i = 0; i < op->u.regroup.n; i++)
                for (int c = 0; c < op->u.regroup.width[i]; c++)
                    y[op->u.regroup.to[i] + g * op->u.regroup.width[i] + c] = *x++;
        for (int c = 0; c < op->u.regroup.rest_cols; c++) y[op->u.regroup.rest + c] = *x++;
    }
}

/* ---- Experts ---- */

static double chosen_by(const gy_op *op, const double *p, int i) {
    return p[i] + (op->u.route.bias ? (double)op->u.route.bias[i] : 0);
}

/* Experts of other groups than the kept ones get nothing: by the sums of their two best. */
static void close_groups(const gy_op *op, const double *p, bool *open) {
    int groups = op->u.route.groups, each = groups ? op->u.route.experts / groups : 0;
    for (int g = 0; g < groups; g++) {
        int better = 0;
        double sum[2] = {0};
        for (int other = g, pass = 0; pass <= groups; other = pass++) {
            double a = -INFINITY, b = -INFINITY;
            for (int i = other * each; i < (other + 1) * each; i++) {
                double c = chosen_by(op, p, i);
                if (c > a)
                    b = a, a = c;
                else if (c > b)
                    b = c;
            }
            sum[pass > 0] = a + b;
            if (pass && (sum[1] > sum[0] || (sum[1] == sum[0] && other < g))) better++;
        }
        for (int i = g * each; i < (g + 1) * each; i++) open[i] = better < op->u.route.kept;
    }
}

static void route(state *s, const gy_op *op) {
    int n = op->u.route.experts, k = op->u.route.top_k;
    double *p = must(malloc((size_t)n * sizeof *p));
    bool *open = must(malloc((size_t)n));
    for (int r = 0; r < s->n; r++) {
        const double *x = row(s, op->in[0], r);
        double *out = row(s, op->out, r), sum = 0, all = 0;
        for (int i = 0; i < n; i++) open[i] = true, all += exp(x[i]);
        for (int i = 0; i < n; i++)
            p[i] = op->u.route.score == GY_ROUTE_SOFTMAX   ? exp(x[i]) / all
                   : op->u.route.score == GY_ROUTE_SIGMOID ? sigmoid(x[i])
                                                           : x[i];
        if (op->u.route.groups > 1) close_groups(op, p, open);
        int found = 0;
        for (int i = 0; i < n; i++) { /* chosen when fewer than k are better */
            int better = 0;
            for (int j = 0; j < n; j++) {
                double a = chosen_by(op, p, j), b = chosen_by(op, p, i);
                better += open[j] && (a > b || (a == b && j < i));
            }
            if (!open[i] || better >= k) continue;
            out[found] = i;
            out[k + found++] = op->u.route.score == GY_ROUTE_CHOSEN ? exp(p[i]) : p[i];
        }
        for (int i = 0; i < k; i++) sum += out[k + i];
        bool part = op->u.route.renorm || op->u.route.score == GY_ROUTE_CHOSEN;
        for (int i = 0; i < k; i++) out[k + i] *= op->u.route.scale / (part ? sum : 1);
    }
    free(p), free(open);
}

static double *times(const gy_weight *w, const double *x) {
    double *y = must(calloc((size_t)w->file.rows, sizeof *y));
    float *line = must(malloc((size_t)w->file.cols * sizeof *line));
    for (int o = 0; o < w->file.rows; o++) {
        decode(w, o, line);
        for (int c = 0; c < w->file.cols; c++) y[o] += x[c] * line[c];
        if (w->bias) y[o] += w->bias[o];
    }
    free(line);
    return y;
}

static void heads(state *s, const gy_op *op) {
    for (int r = 0; r < s->n; r++)
        for (int h = 0; h < op->u.heads.heads; h++) {
            const gy_weight *w = op->u.heads.w + h;
            const double *x = row(s, op->in[0], r) + h * op->u.heads.step;
            double *y = row(s, op->out, r) + h * op->u.heads.to_step, *z = times(w, x);
            memcpy(y, z, (size_t)w->file.rows * sizeof *y);
            memcpy(y + w->file.rows, x + w->file.cols, (size_t)op->u.heads.copied * sizeof *y);
            free(z);
        }
}

static void experts(state *s, const gy_op *op) {
    int k = op->u.experts.top_k, cols = op->u.experts.down->file.rows;
    for (int r = 0; r < s->n; r++) {
        const double *pick = row(s, op->in[1], r);
        double *y = row(s, op->out, r);
        memset(y, 0, (size_t)cols * sizeof *y);
        for (int i = 0; i < k; i++) {
            int e = (int)pick[i];
            double *a = times(op->u.experts.gate + e, row(s, op->in[0], r)),
                   *b = times(op->u.experts.up + e, row(s, op->in[0], r));
            for (int c = 0; c < op->u.experts.width; c++)
                a[c] = act_times(a[c], b[c], op->u.experts.act);
            double *d = times(op->u.experts.down + e, a);
            for (int c = 0; c < cols; c++) y[c] += pick[k + i] * d[c];
            free(a), free(b), free(d);
        }
    }
}

static const char *run(state *s, const gy_op *op, double *score) {
    switch (op->kind) {
    case GY_OP_EMBED: embed(s, op); break;
    case GY_OP_NORM:
    case GY_OP_HEADNORM: norms(s, op); break;
    case GY_OP_LINEAR: linear(s, op); break;
    case GY_OP_ROPE: rope(s, op); break;
    case GY_OP_KVPUT: kvput(s, op); break;
    case GY_OP_ATTN:
        for (int r = 0; r < s->n; r++)
            for (int h = 0; h < op->u.attn.heads; h++) attend(s, op, r, h, score);
        break;
    case GY_OP_ACT: acts(s, op); break;
    case GY_OP_ADD: add(s, op); break;
    case GY_OP_PICK: copy(s, op); break;
    case GY_OP_LOGITS: logits(s, op); break;
    case GY_OP_CONV: conv(s, op); break;
    case GY_OP_SCAN: scan(s, op); break;
    case GY_OP_GATE: gate(s, op); break;
    case GY_OP_REGROUP: regroup(s, op); break;
    case GY_OP_ROUTE: route(s, op); break;
    case GY_OP_HEADS: heads(s, op); break;
    case GY_OP_EXPERTS: experts(s, op); break;
    default: return gy_op_names[op->kind];
    }
    return NULL;
}

const char *naive_run(const gy_plan *plan, const int32_t *ids, int n, double *out) {
    state s = {.plan = plan, .ids = ids, .n = n, .logits = out};
    const char *unknown = NULL;
    size_t rows = (size_t)n, layers = (size_t)plan->n_layers;
    double *score = must(calloc(rows, sizeof *score));
    s.slot = must(calloc((size_t)plan->n_slots, sizeof *s.slot));
    s.k = must(calloc(layers, sizeof *s.k)), s.v = must(calloc(layers, sizeof *s.v));
    for (int i = 0; i < plan->n_slots; i++)
        s.slot[i] = must(calloc(rows * (size_t)plan->slot_cols[i], sizeof(double)));
    for (size_t i = 0; i < layers; i++) {
        const gy_kvspec *kv = plan->kv + i;
        s.k[i] = must(calloc(rows * (size_t)(kv->heads * kv->kdim), sizeof(double)));
        s.v[i] = must(calloc(rows * (size_t)(kv->heads * kv->vdim), sizeof(double)));
    }
    for (int i = 0; !unknown && i < plan->n_ops; i++) unknown = run(&s, plan->op + i, score);
    for (int i = 0; i < plan->n_slots; i++) free(s.slot[i]);
    for (size_t i = 0; i < layers; i++) free(s.k[i]), free(s.v[i]);
    free(s.slot), free(s.k), free(s.v), free(score);
    return unknown;
}
