/* model/explain - the plan as text for people and as JSON for programs.
 *
 *      4 rope      0  s3 -> s3     cols 0, 6 heads of 32, 32 turned in halves
 *
 * One line per operator: its number, kind, layer, slots, then what it reads and its parameters. */
#include <stdio.h>

#include "model/model.h"

static void line(gy_buf *b, bool *first, const char *name) {
    gy_buf_printf(b, "%s\"%s\":", *first ? "" : ",", name);
    *first = false;
}

/* ---- Parameters, as name and value; text shows the same pairs ---- */

typedef struct {
    gy_buf *b;
    bool json, first;
} out;

static void put_int(out *o, const char *name, int64_t v) {
    if (o->json)
        line(o->b, &o->first, name), gy_buf_printf(o->b, "%lld", (long long)v);
    else
        gy_buf_printf(o->b, " %s=%lld", name, (long long)v);
}

static void put_num(out *o, const char *name, double v) {
    if (o->json)
        line(o->b, &o->first, name), gy_buf_printf(o->b, "%.9g", v);
    else
        gy_buf_printf(o->b, " %s=%.6g", name, v);
}

static void put_text(out *o, const char *name, const char *v) {
    if (o->json)
        line(o->b, &o->first, name), gy_buf_json(o->b, v, strlen(v));
    else
        gy_buf_printf(o->b, " %s=%s", name, v);
}

static void attn_params(out *o, const gy_op *op) {
    put_int(o, "heads", op->u.attn.heads);
    put_int(o, "kv_heads", op->u.attn.kv_heads);
    put_int(o, "kdim", op->u.attn.kdim);
    put_int(o, "vdim", op->u.attn.vdim);
    put_num(o, "scale", op->u.attn.scale);
    if (op->u.attn.window) put_int(o, "window", op->u.attn.window);
    if (op->u.attn.cap != 0) put_num(o, "cap", op->u.attn.cap);
    if (op->u.attn.sinks) put_int(o, "sinks", op->u.attn.heads);
}

static void rope_params(out *o, const gy_op *op) {
    put_int(o, "col", op->u.rope.col);
    put_int(o, "heads", op->u.rope.heads);
    put_int(o, "dim", op->u.rope.dim);
    put_int(o, "rot", op->u.rope.rot);
    put_text(o, "pairing", op->u.rope.pairs ? "neighbours" : "halves");
    if (op->u.rope.mscale != 1) put_num(o, "mscale", op->u.rope.mscale);
    if (op->u.rope.dyn_max) put_int(o, "dynamic_from", op->u.rope.dyn_max);
}

static void params(out *o, const gy_op *op) {
    switch (op->kind) {
    case GY_OP_EMBED:
        if (op->u.embed.scale != 1) put_num(o, "scale", op->u.embed.scale);
        break;
    case GY_OP_NORM:
        put_text(o, "form", gy_norm_names[op->u.norm.form]);
        put_num(o, "eps", op->u.norm.eps);
        break;
    case GY_OP_HEADNORM:
        put_text(o, "form", gy_norm_names[op->u.headnorm.form]);
        put_num(o, "eps", op->u.headnorm.eps);
        put_int(o, "col", op->u.headnorm.col);
        put_int(o, "heads", op->u.headnorm.heads);
        put_int(o, "dim", op->u.headnorm.dim);
        break;
    case GY_OP_ROPE: rope_params(o, op); break;
    case GY_OP_KVPUT:
        put_int(o, "kcol", op->u.kvput.kcol);
        put_int(o, "vcol", op->u.kvput.vcol);
        break;
    case GY_OP_ATTN: attn_params(o, op); break;
    case GY_OP_ACT:
        put_text(o, "form", gy_act_names[op->u.act.form]);
        put_int(o, "width", op->u.act.width);
        put_int(o, "gated", op->flags & GY_OPF_GLU ? 1 : 0);
        break;
    case GY_OP_ADD:
        if (op->u.add.a != 1) put_num(o, "times", op->u.add.a);
        break;
    case GY_OP_LOGITS:
        if (op->u.logits.a != 1) put_num(o, "times", op->u.logits.a);
        if (op->u.logits.cap != 0) put_num(o, "cap", op->u.logits.cap);
        break;
    case GY_OP_GATE:
        put_text(o, "form", gy_gate_names[op->u.gate.form]);
        put_int(o, "heads", op->u.gate.heads);
        put_int(o, "dim", op->u.gate.dim);
        put_int(o, "col", op->u.gate.col);
        break;
    case GY_OP_CONV:
        put_int(o, "cols", op->u.conv.cols);
        put_int(o, "taps", op->u.conv.taps);
        break;
    case GY_OP_SCAN:
        put_int(o, "k_heads", op->u.scan.k_heads);
        put_int(o, "v_heads", op->u.scan.v_heads);
        put_int(o, "kdim", op->u.scan.kdim);
        put_int(o, "vdim", op->u.scan.vdim);
        break;
    case GY_OP_ROUTE:
        put_text(o, "score", gy_route_names[op->u.route.score]);
        put_int(o, "experts", op->u.route.experts);
        put_int(o, "top_k", op->u.route.top_k);
        if (op->u.route.groups) put_int(o, "groups", op->u.route.groups);
        if (op->u.route.groups) put_int(o, "kept", op->u.route.kept);
        put_int(o, "renorm", op->u.route.renorm);
        if (op->u.route.scale != 1) put_num(o, "times", op->u.route.scale);
        break;
    case GY_OP_EXPERTS:
        put_text(o, "form", gy_act_names[op->u.experts.act]);
        put_int(o, "experts", op->u.experts.experts);
        put_int(o, "width", op->u.experts.width);
        put_text(o, "gate", op->u.experts.gate->name);
        put_text(o, "up", op->u.experts.up->name);
        put_text(o, "down", op->u.experts.down->name);
        break;
    case GY_OP_HEADS:
        put_int(o, "heads", op->u.heads.heads);
        put_int(o, "rows", op->u.heads.w->file.rows);
        put_int(o, "cols", op->u.heads.w->file.cols);
        put_int(o, "copied", op->u.heads.copied);
        put_text(o, "w", op->u.heads.w->name);
        break;
    case GY_OP_REGROUP:
        put_int(o, "groups", op->u.regroup.groups);
        put_int(o, "parts", op->u.regroup.n);
        break;
    default: break;
    }
}

/* ---- The two forms ---- */

static void weights_text(gy_buf *b, const gy_op *op) {
    char codec[32];
    for (int i = 0; i < 3 && op->w[i]; i++) {
        const gy_rows *r = &op->w[i]->file;
        gy_buf_printf(b, "  %s [%d, %d] %s%s", op->w[i]->name, r->rows, r->cols,
                      gy_cparm_name(r->c, codec), op->w[i]->bias ? " + bias" : "");
    }
}

static void slot_text(char text[12], int slot) {
    if (slot < 0)
        snprintf(text, 12, "-");
    else
        snprintf(text, 12, "s%d", slot);
}

static bool alike(const gy_kvspec *a, const gy_kvspec *b) {
    return gy_cparm_same(a->k, b->k) && gy_cparm_same(a->v, b->v) && a->heads == b->heads &&
           a->kdim == b->kdim && a->vdim == b->vdim && a->donor == b->donor &&
           a->keep.policy == b->keep.policy && a->keep.window == b->keep.window &&
           a->keep.sinks == b->keep.sinks && a->conv == b->conv && a->scan == b->scan;
}

static void print_text(const gy_plan *p, gy_buf *b) {
    char name[32];
    gy_buf_printf(b, "%d operators, %d layers, %d logits\nslots:", p->n_ops, p->n_layers, p->vocab);
    for (int i = 0; i < p->n_slots; i++) gy_buf_printf(b, " s%d[%d]", i, p->slot_cols[i]);
    gy_buf_puts(b, "\nkv:");
    for (int i = 0; i < p->n_layers; i++) {
        const gy_kvspec *s = p->kv + i;
        /* Layers alike are told once, as a range. */
        int last = i;
        while (last + 1 < p->n_layers && alike(s, p->kv + last + 1)) last++;
        if (s->keep.policy == GY_KEEP_STATE) {
            gy_buf_printf(b, "\n  layers %d-%d: state of %d + %d values", i, last, s->conv,
                          s->scan);
            i = last;
            continue;
        }
        gy_buf_printf(b, "\n  layers %d-%d: %d heads, k %d %s,", i, last, s->heads, s->kdim,
                      gy_cparm_name(s->k, name));
        gy_buf_printf(b, " v %d %s, ", s->vdim, gy_cparm_name(s->v, name));
        if (s->keep.policy == GY_KEEP_WINDOW)
            gy_buf_printf(b, "window %d", s->keep.window);
        else
            gy_buf_puts(b, "keep all");
        i = last;
    }
    gy_buf_puts(b, "\nplan:\n");
    for (int i = 0; i < p->n_ops; i++) {
        const gy_op *op = p->op + i;
        char a[12], a2[12], z[12], layer[12];
        slot_text(a, op->in[0]), slot_text(a2, op->in[1]), slot_text(z, op->out);
        if (op->layer < 0)
            snprintf(layer, sizeof layer, "-");
        else
            snprintf(layer, sizeof layer, "%d", op->layer);
        gy_buf_printf(b, "%4d  %-8s %3s  %s%s%s -> %s%s ", i, gy_op_names[op->kind], layer, a,
                      op->in[1] < 0 ? "" : ", ", op->in[1] < 0 ? "" : a2, z,
                      op->flags & GY_OPF_OUTS ? " (out rows)" : "");
        params(&(out){b, false, true}, op);
        weights_text(b, op);
        gy_buf_c(b, '\n');
    }
}

static void op_json(gy_buf *b, const gy_op *op) {
    char codec[32];
    gy_buf_printf(b,
                  "{\"op\":\"%s\",\"layer\":%d,\"in\":[%d,%d],\"out\":%d,\"outs\":%s,\"params\":{",
                  gy_op_names[op->kind], op->layer, op->in[0], op->in[1], op->out,
                  op->flags & GY_OPF_OUTS ? "true" : "false");
    params(&(out){b, true, true}, op);
    gy_buf_puts(b, "},\"weights\":[");
    for (int i = 0; i < 3 && op->w[i]; i++) {
        const gy_rows *r = &op->w[i]->file;
        gy_buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        gy_buf_json(b, op->w[i]->name, strlen(op->w[i]->name));
        gy_buf_printf(b, ",\"rows\":%d,\"cols\":%d,\"codec\":\"%s\",\"bias\":%s}", r->rows, r->cols,
                      gy_cparm_name(r->c, codec), op->w[i]->bias ? "true" : "false");
    }
    gy_buf_puts(b, "]}");
}

static void print_json(const gy_plan *p, gy_buf *b) {
    char name[32];
    gy_buf_printf(b, "{\"vocab\":%d,\"layers\":%d,\"slots\":[", p->vocab, p->n_layers);
    for (int i = 0; i < p->n_slots; i++) gy_buf_printf(b, "%s%d", i ? "," : "", p->slot_cols[i]);
    gy_buf_puts(b, "],\"kv\":[");
    for (int i = 0; i < p->n_layers; i++) {
        const gy_kvspec *s = p->kv + i;
        gy_buf_printf(b, "%s{\"heads\":%d,\"kdim\":%d,\"vdim\":%d,\"k\":\"%s\",", i ? "," : "",
                      s->heads, s->kdim, s->vdim, gy_cparm_name(s->k, name));
        gy_buf_printf(b, "\"v\":\"%s\",\"window\":%d,\"state\":%d}", gy_cparm_name(s->v, name),
                      s->keep.policy == GY_KEEP_WINDOW ? s->keep.window : 0, s->conv + s->scan);
    }
    gy_buf_puts(b, "],\"ops\":[");
    for (int i = 0; i < p->n_ops; i++) {
        if (i) gy_buf_c(b, ',');
        op_json(b, p->op + i);
    }
    gy_buf_puts(b, "]}");
}

void gy_plan_print(const gy_plan *plan, bool json, gy_buf *b) {
    if (json)
        print_json(plan, b);
    else
        print_text(plan, b);
}
