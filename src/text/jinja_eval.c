/* Evaluator: expressions, statements, macros, loops.
 *
 * A scope is what a block with its own names holds: loop bodies, macros, with, set and filter
 * blocks, generation. An if has none. The root's names lie in x->top by symbol; behind them
 * x->given holds input variables and globals. Scopes live in the render's arena because a macro
 * keeps the scope it was written in. */
#include "text/jinja.h"

typedef enum { GO_ON, GO_BREAK, GO_CONTINUE } flow;

static flow run_body(gy_jx *x, gy_jscope *s, const gy_jn *body);

/* ---- Names ---- */

static gy_jv *own(gy_jscope *s, uint32_t sym) {
    for (uint32_t i = 0; i < s->n; i++)
        if (s->var[i].sym == sym) return &s->var[i].v;
    return NULL;
}

static gy_jv lookup(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    for (; s->up; s = s->up) {
        gy_jv *v = own(s, e->sym);
        if (v) return *v;
    }
    if (gy_jv_given(x->top[e->sym])) return x->top[e->sym];
    if (gy_jv_given(x->given[e->sym])) return x->given[e->sym];
    return gy_jv_undef(x->t->sym[e->sym].s, x->t->sym[e->sym].n, JX_UNDEF_NAME);
}

static void bind(gy_jx *x, gy_jscope *s, uint32_t sym, gy_jv v) {
    if (!s->up) {
        x->top[sym] = v;
        return;
    }
    gy_jv *old = own(s, sym);
    if (old) {
        *old = v;
        return;
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        gy_jvar *var = gy_jx_alloc(x, cap * sizeof *var);
        if (s->n) memcpy(var, s->var, s->n * sizeof *var);
        s->var = var, s->cap = cap;
    }
    gy_jx_charge(x, s->n);
    s->var[s->n++] = (gy_jvar){sym, v};
}

static gy_jscope *inner(gy_jx *x, gy_jscope *up) {
    gy_jscope *s = gy_jx_alloc(x, sizeof *s);
    s->up = up;
    return s;
}

static void assign(gy_jx *x, gy_jscope *s, const gy_jn *to, gy_jv v) {
    if (to->k == JN_NAME) {
        bind(x, s, to->sym, v);
    } else if (to->k == JN_NSREF) {
        gy_jv ns = lookup(x, s, to);
        if (ns.t != JX_NS)
            gy_jx_fail(x, GY_EFORMAT, "cannot assign attribute on non-namespace object");
        if (to->v.n && to->v.s[0] == '_')
            gy_jx_fail(x, GY_EFORMAT,
                       "a namespace does not take names that begin with an underscore");
        gy_jx_dict_set(x, ns.d, to->v, v);
    } else {
        gy_jlist *l = gy_jx_items(x, v);
        if (l->n != to->n)
            gy_jx_fail(x, GY_EFORMAT, "%s values to unpack (expected %u, got %u)",
                       l->n > to->n ? "too many" : "not enough", to->n, l->n);
        gy_jx_enter(x);
        for (uint32_t i = 0; i < to->n && i < l->n; i++) assign(x, s, to->list[i], l->v[i]);
        gy_jx_leave(x);
    }
}

/* ---- Expressions ---- */

static void add_keyword(gy_jx *x, gy_jargs *args, uint32_t *cap, gy_jv name, gy_jv v) {
    if (args->n_kw == *cap) {
        uint32_t more = *cap ? *cap * 2 : 4;
        gy_jkw *kw = gy_jx_alloc(x, more * sizeof *kw);
        if (args->n_kw) memcpy(kw, args->kw, args->n_kw * sizeof *kw);
        args->kw = kw, *cap = more;
    }
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (gy_jx_eq(x, args->kw[i].name, name))
            gy_jx_fail(x, GY_EFORMAT, "multiple values for a keyword argument");
    args->kw[args->n_kw++] = (gy_jkw){name, v};
}

static __attribute__((noinline)) void eval_args(gy_jx *x, gy_jscope *s, const gy_jn *e,
                                                gy_jargs *args) {
    gy_jlist pos = {0};
    uint32_t cap_kw = 0;
    *args = (gy_jargs){0};
    if (!e->n) return;
    pos.v = gy_jx_alloc(x, e->n * sizeof *pos.v), pos.cap = e->n;
    for (uint32_t i = 0; i < e->n; i++) {
        const gy_jn *a = e->list[i];
        if (a->k == JN_KW) {
            add_keyword(x, args, &cap_kw, a->v, gy_jx_eval(x, s, a->a));
        } else if (a->k == JN_STAR) {
            gy_jlist *l = gy_jx_items(x, gy_jx_eval(x, s, a->a));
            for (uint32_t k = 0; k < l->n; k++) gy_jx_push(x, &pos, l->v[k]);
        } else if (a->k == JN_STAR2) {
            gy_jv d = gy_jx_eval(x, s, a->a);
            if (d.t != JX_DICT)
                gy_jx_fail(x, GY_EFORMAT, "argument after ** must be a mapping, not %s",
                           gy_jv_type(d));
            for (uint32_t k = 0; k < d.d->n; k++) {
                if (d.d->e[k].k.t != JX_STR) gy_jx_fail(x, GY_EFORMAT, "keywords must be strings");
                add_keyword(x, args, &cap_kw, d.d->e[k].k, d.d->e[k].v);
            }
        } else {
            gy_jx_push(x, &pos, gy_jx_eval(x, s, a));
        }
    }
    args->pos = pos.v, args->n = pos.n;
}

static __attribute__((noinline)) gy_jv eval_call(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jargs args;
    gy_jv fn = gy_jx_eval(x, s, e->a);
    eval_args(x, s, e, &args);
    x->line = e->line;
    return gy_jx_call(x, fn, &args);
}

static __attribute__((noinline)) gy_jv eval_filter(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jargs args;
    char name[64];
    gy_jv v = gy_jx_eval(x, s, e->a);
    eval_args(x, s, e, &args);
    x->line = e->line;
    if (!e->fn)
        gy_jx_fail(x, GY_EFORMAT, "No %s named '%s'.", e->k == JN_TEST ? "test" : "filter",
                   gy_err_quote(name, e->v.s, e->v.n));
    v = gy_jx_apply(x, e->fn, v, &args);
    return e->k == JN_TEST ? gy_jv_bool(gy_jv_truth(v)) : v;
}

static __attribute__((noinline)) gy_jv eval_literal(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    if (e->k == JN_DICT) {
        gy_jdict *d = gy_jx_dict(x, e->n);
        for (uint32_t i = 0; i < e->n; i++) {
            gy_jv k = gy_jx_eval(x, s, e->list[i]->a);
            gy_jx_dict_set(x, d, k, gy_jx_eval(x, s, e->list[i]->b));
        }
        return gy_jv_dict(d);
    }
    gy_jlist *l = gy_jx_list(x, e->n);
    for (uint32_t i = 0; i < e->n; i++) l->v[i] = gy_jx_eval(x, s, e->list[i]);
    l->n = e->n;
    return (gy_jv){.t = e->k == JN_LIST ? JX_LIST : JX_TUPLE, .l = l};
}

static __attribute__((noinline)) gy_jv eval_concat(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jv *part = gy_jx_alloc(x, e->n * sizeof *part);
    bool marked = false;
    for (uint32_t i = 0; i < e->n; i++) {
        part[i] = gy_jx_soft(x, gy_jx_eval(x, s, e->list[i]));
        marked |= part[i].mark;
    }
    marked &= x->escape;
    gy_jv v = marked ? gy_jx_escaped(x, part[0]) : part[0];
    for (uint32_t i = 1; i < e->n; i++)
        v = gy_jx_join2(x, v, marked ? gy_jx_escaped(x, part[i]) : part[i]);
    v.mark = marked;
    return v;
}

static bool compare(gy_jx *x, gy_jop op, gy_jv a, gy_jv b) {
    int c;
    switch (op) {
    case JO_EQ: return gy_jx_eq(x, a, b);
    case JO_NE: return !gy_jx_eq(x, a, b);
    case JO_IN: return gy_jx_contains(x, b, a);
    case JO_NOTIN: return !gy_jx_contains(x, b, a);
    default: break;
    }
    c = gy_jx_cmp(x, a, b, op);
    if (c == 2) return false;
    return op == JO_LT ? c < 0 : op == JO_LE ? c <= 0 : op == JO_GT ? c > 0 : c >= 0;
}

static __attribute__((noinline)) gy_jv eval_compare(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jv left = gy_jx_eval(x, s, e->a);
    for (uint32_t i = 0; i < e->n; i++) {
        gy_jv right = gy_jx_eval(x, s, e->list[i]->a);
        x->line = e->line;
        if (!compare(x, e->list[i]->op, left, right)) return gy_jv_bool(false);
        left = right;
    }
    return gy_jv_bool(true);
}

static __attribute__((noinline)) gy_jv eval_slice(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    const gy_jn *b = e->b;
    gy_jv obj = gy_jx_eval(x, s, e->a), none = gy_jv_of(JX_NONE);
    gy_jv start = b->a ? gy_jx_eval(x, s, b->a) : none, stop = b->b ? gy_jx_eval(x, s, b->b) : none;
    gy_jv step = b->c ? gy_jx_eval(x, s, b->c) : none;
    x->line = e->line;
    return gy_jx_slice(x, obj, start, stop, step);
}

static __attribute__((noinline)) gy_jv eval_binary(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jv a = gy_jx_eval(x, s, e->a), b = gy_jx_eval(x, s, e->b);
    x->line = e->line;
    if (e->k == JN_ITEM) return gy_jx_item(x, a, b);
    return gy_jx_binary(x, e->op, a, b);
}

static __attribute__((noinline)) gy_jv eval_sign(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jv v = gy_jx_eval(x, s, e->a);
    if (e->k == JN_NEG) return gy_jx_neg(x, v);
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (!gy_jv_is_num(v))
        gy_jx_fail(x, GY_EFORMAT, "bad operand type for unary +: '%s'", gy_jv_type(v));
    return v.t == JX_BOOL ? gy_jv_int(v.i) : v;
}

static gy_jv eval_cond(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    if (gy_jv_truth(gy_jx_eval(x, s, e->b))) return gy_jx_eval(x, s, e->a);
    if (e->c) return gy_jx_eval(x, s, e->c);
    static const char why[] =
        "the inline if-expression evaluated to false and no else section was defined";
    return gy_jv_undef(why, sizeof why - 1, JX_UNDEF_TEXT);
}

static gy_jv eval_inner(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jv v;
    switch (e->k) {
    case JN_LIST:
    case JN_TUPLE:
    case JN_DICT: return eval_literal(x, s, e);
    case JN_ATTR:
        v = gy_jx_eval(x, s, e->a);
        x->line = e->line;
        return gy_jx_attr(x, v, e->v);
    case JN_ITEM: return e->b->k == JN_SLICE ? eval_slice(x, s, e) : eval_binary(x, s, e);
    case JN_BIN: return eval_binary(x, s, e);
    case JN_CALL: return eval_call(x, s, e);
    case JN_FILTER:
    case JN_TEST: return eval_filter(x, s, e);
    case JN_NEG:
    case JN_POS: return eval_sign(x, s, e);
    case JN_NOT: return gy_jv_bool(!gy_jv_truth(gy_jx_eval(x, s, e->a)));
    case JN_AND: v = gy_jx_eval(x, s, e->a); return gy_jv_truth(v) ? gy_jx_eval(x, s, e->b) : v;
    case JN_OR: v = gy_jx_eval(x, s, e->a); return gy_jv_truth(v) ? v : gy_jx_eval(x, s, e->b);
    case JN_CMP: return eval_compare(x, s, e);
    case JN_CONCAT: return eval_concat(x, s, e);
    case JN_COND: return eval_cond(x, s, e);
    default: x->line = e->line; gy_jx_fail(x, GY_EFORMAT, "a slice cannot stand here");
    }
}

gy_jv gy_jx_eval(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jx_charge(x, 0);
    if (e->k == JN_CONST) return e->v;
    if (e->k == JN_NAME) return lookup(x, s, e);
    gy_jx_enter(x);
    gy_jv v = eval_inner(x, s, e);
    gy_jx_leave(x);
    return v;
}

/* ---- Statements ---- */

static gy_jv captured(gy_jx *x, size_t start) {
    gy_jv v = gy_jx_str(x, x->out.p + start, x->out.n - start);
    x->out.n = start, v.mark = x->escape;
    return v;
}

/* Runs body into a string. */
static flow capture(gy_jx *x, gy_jscope *s, const gy_jn *body, gy_jv *v) {
    size_t start = x->out.n;
    flow f = run_body(x, s, body);
    *v = captured(x, start);
    return f;
}

static void print(gy_jx *x, gy_jv v) {
    if (x->escape) v = gy_jx_escaped(x, v);
    gy_jx_write(x, &x->out, v);
}

static flow run_if(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    uint32_t i = 0;
    for (; i + 1 < e->n; i += 2)
        if (gy_jv_truth(gy_jx_eval(x, s, e->list[i]))) return run_body(x, s, e->list[i + 1]);
    return i < e->n ? run_body(x, s, e->list[i]) : GO_ON;
}

static gy_jlist *filtered(gy_jx *x, gy_jscope *s, const gy_jn *e, gy_jlist *items) {
    gy_jlist *kept = gy_jx_list(x, 0);
    gy_jscope *in = inner(x, s);
    for (uint32_t i = 0; i < items->n; i++) {
        in->n = 0;
        assign(x, in, e->a, items->v[i]);
        if (gy_jv_truth(gy_jx_eval(x, in, e->c))) gy_jx_push(x, kept, items->v[i]);
    }
    return kept;
}

static void run_loop(gy_jx *x, gy_jscope *s, const gy_jn *e, gy_jv over, int depth0) {
    gy_jlist *items = gy_jx_items(x, over);
    if (e->c) items = filtered(x, s, e, items);
    gy_jscope *in = inner(x, s);
    gy_jloop *loop = gy_jx_alloc(x, sizeof *loop);
    *loop = (gy_jloop){.node = e, .scope = s, .items = items, .depth0 = depth0};
    for (; loop->i < items->n;
         loop->i++) { /* the list may grow or shrink meanwhile, as in Python */
        in->n = 0;
        bind(x, in, x->t->s_loop, (gy_jv){.t = JX_LOOP, .loop = loop});
        assign(x, in, e->a, items->v[loop->i]);
        if (run_body(x, in, e->list[0]) == GO_BREAK) break;
    }
    if (!loop->i && !items->n && e->n > 1) run_body(x, inner(x, s), e->list[1]);
}

static void enter_call(gy_jx *x) {
    if (++x->calls > x->max_calls)
        gy_jx_fail(x, GY_ELIMIT, "macros nested more than %d deep", x->max_calls);
    gy_jx_enter(x);
}

static void leave_call(gy_jx *x) {
    gy_jx_leave(x);
    x->calls--;
}

gy_jv gy_jx_loop_again(gy_jx *x, gy_jloop *loop, gy_jv items) {
    if (loop->node->op != JX_FOR_RECURSIVE)
        gy_jx_fail(x, GY_EFORMAT,
                   "The loop must have the 'recursive' marker to be called recursively.");
    size_t start = x->out.n;
    enter_call(x);
    run_loop(x, loop->scope, loop->node, items, loop->depth0 + 1);
    leave_call(x);
    return captured(x, start);
}

gy_jv gy_jx_loop_attr(gy_jx *x, gy_jloop *loop, gy_jv name) {
    static const char no_prev[] = "there is no previous item", no_next[] = "there is no next item";
    int64_t i = loop->i, n = loop->items->n;
    (void)x;
    if (gy_jv_is(name, "index")) return gy_jv_int(i + 1);
    if (gy_jv_is(name, "index0")) return gy_jv_int(i);
    if (gy_jv_is(name, "first")) return gy_jv_bool(i == 0);
    if (gy_jv_is(name, "last")) return gy_jv_bool(i + 1 == n);
    if (gy_jv_is(name, "length")) return gy_jv_int(n);
    if (gy_jv_is(name, "revindex")) return gy_jv_int(n - i);
    if (gy_jv_is(name, "revindex0")) return gy_jv_int(n - i - 1);
    if (gy_jv_is(name, "depth")) return gy_jv_int(loop->depth0 + 1);
    if (gy_jv_is(name, "depth0")) return gy_jv_int(loop->depth0);
    if (gy_jv_is(name, "previtem"))
        return i > 0 && i <= n ? loop->items->v[i - 1]
                               : gy_jv_undef(no_prev, sizeof no_prev - 1, JX_UNDEF_TEXT);
    if (gy_jv_is(name, "nextitem"))
        return i + 1 < n ? loop->items->v[i + 1]
                         : gy_jv_undef(no_next, sizeof no_next - 1, JX_UNDEF_TEXT);
    return gy_jv_of(JX_MISSING);
}

static gy_jv make_macro(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jmacro *m = gy_jx_alloc(x, sizeof *m);
    *m = (gy_jmacro){.node = e, .scope = s, .name = e->v, .escape = x->escape};
    return (gy_jv){.t = JX_MACRO, .m = m};
}

/* The keyword of that name, marked as used; MISSING when there is none. */
static gy_jv take_keyword(gy_jx *x, const gy_jargs *args, bool *used, gy_jv name) {
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (!used[i] && gy_jx_eq(x, args->kw[i].name, name)) return used[i] = true, args->kw[i].v;
    return gy_jv_of(JX_MISSING);
}

/* Jinja's order: parameters by position, then by keyword, then caller, kwargs, varargs where the
 * body reads them. */
static void bind_macro(gy_jx *x, gy_jscope *in, gy_jmacro *m, const gy_jargs *args) {
    const gy_jn *e = m->node, *names = e->a, *defaults = e->b;
    bool *used = gy_jx_alloc(x, args->n_kw + 1), own_caller = false;
    char text[64];
    for (uint32_t i = 0; i < names->n; i++) {
        own_caller |= names->list[i]->sym == x->t->s_caller;
        if (i < args->n) bind(x, in, names->list[i]->sym, args->pos[i]);
    }
    for (uint32_t i = args->n; i < names->n; i++) {
        gy_jv v = take_keyword(x, args, used, names->list[i]->v);
        if (gy_jv_given(v)) bind(x, in, names->list[i]->sym, v);
    }
    if (e->op & JX_MACRO_CALLER && !own_caller) {
        static const char why[] = "No caller defined";
        gy_jv v = take_keyword(x, args, used, gy_jv_cstr("caller"));
        if (!gy_jv_given(v) || v.t == JX_NONE) v = gy_jv_undef(why, sizeof why - 1, JX_UNDEF_TEXT);
        bind(x, in, x->t->s_caller, v);
    }
    gy_jdict *rest = e->op & JX_MACRO_KWARGS ? gy_jx_dict(x, 0) : NULL;
    for (uint32_t i = 0; i < args->n_kw; i++) {
        if (used[i]) continue;
        if (!rest)
            gy_jx_fail(x, GY_EFORMAT, "macro takes no keyword argument '%s'",
                       gy_err_quote(text, args->kw[i].name.s, args->kw[i].name.n));
        gy_jx_dict_set(x, rest, args->kw[i].name, args->kw[i].v);
    }
    if (rest) bind(x, in, x->t->s_kwargs, gy_jv_dict(rest));
    if (e->op & JX_MACRO_VARARGS) {
        uint32_t extra = args->n > names->n ? args->n - names->n : 0;
        bind(x, in, x->t->s_varargs, gy_jx_tuple(x, extra ? args->pos + names->n : NULL, extra));
    } else if (args->n > names->n) {
        gy_jx_fail(x, GY_EFORMAT, "macro takes not more than %u argument(s)", names->n);
    }
    /* Defaults last, in order: one may read the parameters before it. */
    for (uint32_t i = args->n; i < names->n; i++) {
        static const char why[] = "parameter was not provided";
        if (own(in, names->list[i]->sym)) continue;
        uint32_t k = i - (names->n - defaults->n);
        gy_jv v = i >= names->n - defaults->n ? gy_jx_eval(x, in, defaults->list[k])
                                              : gy_jv_undef(why, sizeof why - 1, JX_UNDEF_TEXT);
        bind(x, in, names->list[i]->sym, v);
    }
}

gy_jv gy_jx_call_macro(gy_jx *x, gy_jmacro *m, const gy_jargs *args) {
    gy_jscope *in = inner(x, m->scope);
    gy_jv v;
    enter_call(x);
    bind_macro(x, in, m, args);
    bool outer = x->escape;
    x->escape = m->escape; /* what is escaped inside was settled where the macro was written */
    capture(x, in, m->node->c, &v);
    x->escape = outer, v.mark = outer;
    leave_call(x);
    return v;
}

static void run_call_block(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jargs args;
    gy_jv fn = gy_jx_eval(x, s, e->a->a), caller = make_macro(x, s, e->b);
    eval_args(x, s, e->a, &args);
    uint32_t cap = 0;
    gy_jargs all = {.pos = args.pos, .n = args.n};
    for (uint32_t i = 0; i < args.n_kw; i++)
        add_keyword(x, &all, &cap, args.kw[i].name, args.kw[i].v);
    add_keyword(x, &all, &cap, gy_jv_cstr("caller"), caller);
    x->line = e->line;
    print(x, gy_jx_call(x, fn, &all));
}

/* A block whose text goes through filters: e->b starts from the reserved name. */
static gy_jv through_filters(gy_jx *x, gy_jscope *s, const gy_jn *e, gy_jv text) {
    if (!e->b) return text;
    gy_jscope *in = inner(x, s);
    bind(x, in, x->t->s_block, text);
    return gy_jx_eval(x, in, e->b);
}

static flow run_with(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jscope *in = inner(x, s);
    for (uint32_t i = 0; i + 1 < e->n; i += 2)
        assign(x, in, e->list[i], gy_jx_eval(x, s, e->list[i + 1]));
    return run_body(x, in, e->c);
}

static flow run_escape(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    bool before = x->escape;
    x->escape = gy_jv_truth(gy_jx_eval(x, s, e->a));
    flow f = run_body(x, inner(x, s), e->c);
    x->escape = before;
    return f;
}

static flow run(gy_jx *x, gy_jscope *s, const gy_jn *e) {
    gy_jv v;
    flow f;
    switch (e->k) {
    case JN_IF: return run_if(x, s, e);
    case JN_FOR: run_loop(x, s, e, gy_jx_eval(x, s, e->b), 0); return GO_ON;
    case JN_SET: assign(x, s, e->a, gy_jx_eval(x, s, e->b)); return GO_ON;
    case JN_SETBLOCK:
        f = capture(x, inner(x, s), e->c, &v);
        if (f == GO_ON) assign(x, s, e->a, through_filters(x, s, e, v));
        return f;
    case JN_FILTERBLOCK:
        f = capture(x, inner(x, s), e->c, &v);
        if (f == GO_ON) print(x, through_filters(x, s, e, v));
        return f;
    case JN_MACRO: bind(x, s, e->sym, make_macro(x, s, e)); return GO_ON;
    case JN_CALLBLOCK: run_call_block(x, s, e); return GO_ON;
    case JN_WITH: return run_with(x, s, e);
    case JN_SCOPE: return run_body(x, inner(x, s), e->c);
    case JN_ESCAPE: return run_escape(x, s, e);
    case JN_BREAK: return GO_BREAK;
    case JN_CONTINUE: return GO_CONTINUE;
    default: return run_body(x, s, e);
    }
}

static flow run_body(gy_jx *x, gy_jscope *s, const gy_jn *body) {
    flow f = GO_ON;
    gy_jx_enter(x);
    for (uint32_t i = 0; i < body->n && f == GO_ON; i++) {
        const gy_jn *e = body->list[i];
        x->line = e->line;
        gy_jx_charge(x, 0);
        if (e->k == JN_DATA)
            gy_jx_write(x, &x->out, e->v);
        else if (e->k == JN_OUT)
            print(x, gy_jx_eval(x, s, e->a));
        else
            f = run(x, s, e);
    }
    gy_jx_leave(x);
    return f;
}

void gy_jx_run(gy_jx *x) {
    gy_jscope root = {0};
    run_body(x, &root, x->t->body);
}
