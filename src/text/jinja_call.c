/* Calls: binding of arguments to parameters, and what is callable. */
#include "text/jinja.h"

static _Noreturn void too_many(gy_jx *x, const gy_jfn *fn) {
    gy_jx_fail(x, GY_EFORMAT, "%s() got too many arguments", fn->name);
}

/* Index of the parameter of that name in "a b c", or -1. */
static int param_index(const char *params, const char *name, size_t n) {
    for (int i = 0; *params; i++) {
        size_t k = strcspn(params, " ");
        if (k == n && memcmp(params, name, n) == 0) return i;
        params += k + (params[k] == ' ');
    }
    return -1;
}

static int param_count(const char *params) {
    int n = *params != 0;
    for (; *params; params++) n += *params == ' ';
    return n;
}

/* A generator that will make the call. Its arguments live in the arena already. */
static gy_jv later(gy_jx *x, const gy_jfn *fn, gy_jv self, const gy_jv *a, const gy_jargs *raw) {
    gy_jlist *l = gy_jx_list(x, 0);
    l->lazy = gy_jx_alloc(x, sizeof *l->lazy);
    *l->lazy = (gy_jlazy){.fn = fn, .self = self, .raw = *raw};
    memcpy(l->lazy->a, a, sizeof l->lazy->a);
    return (gy_jv){.t = JX_ITER, .l = l};
}

/* Makes the call of a generator that was not read yet. */
void gy_jx_force(gy_jx *x, gy_jlist *l) {
    gy_jlazy *z = l->lazy;
    if (!z) return;
    l->lazy = NULL; /* a generator that reads itself finds nothing */
    gy_jx_enter(x);
    gy_jv v = z->fn->call(x, z->self, z->a, &z->raw);
    gy_jx_leave(x);
    l->v = v.l->v, l->n = v.l->n, l->cap = v.l->cap, l->at = v.l->at;
}

gy_jv gy_jx_apply(gy_jx *x, const gy_jfn *fn, gy_jv self, const gy_jargs *args) {
    gy_jv a[JX_MAX_PARAMS] = {0};
    gy_jx_charge(x, 0);
    if (fn->flags & JX_RAW)
        return fn->flags & JX_LAZY ? later(x, fn, self, a, args) : fn->call(x, self, NULL, args);
    bool positional = fn->params[0] == '/';
    const char *params = fn->params + positional;
    int count = param_count(params);
    if (args->n > (uint32_t)count) too_many(x, fn);
    for (uint32_t i = 0; i < args->n; i++) a[i] = args->pos[i];
    for (uint32_t i = 0; i < args->n_kw; i++) {
        gy_jv name = args->kw[i].name;
        char text[64];
        int k = positional ? -1 : param_index(params, name.s, name.n);
        gy_err_quote(text, name.s, name.n);
        if (k < 0)
            gy_jx_fail(x, GY_EFORMAT, "%s() got an unexpected keyword argument '%s'", fn->name,
                       text);
        if (gy_jv_given(a[k]))
            gy_jx_fail(x, GY_EFORMAT, "%s() got multiple values for argument '%s'", fn->name, text);
        a[k] = args->kw[i].v;
    }
    for (int i = 0; i < fn->need; i++)
        if (!gy_jv_given(a[i]))
            gy_jx_fail(x, GY_EFORMAT, "%s() misses a required argument", fn->name);
    return fn->flags & JX_LAZY ? later(x, fn, self, a, args) : fn->call(x, self, a, args);
}

const gy_jfn *gy_jx_find(const gy_jfn *table, size_t count, const char *name, size_t n) {
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) return &table[i];
    return NULL;
}

static gy_jv call_joiner(gy_jlist *l) {
    gy_jv v = l->at ? l->v[0] : gy_jv_str("", 0);
    l->at = 1;
    return v;
}

gy_jv gy_jx_call(gy_jx *x, gy_jv fn, const gy_jargs *args) {
    switch (fn.t) {
    case JX_UNDEF: gy_jx_undefined(x, fn);
    case JX_MACRO: return gy_jx_call_macro(x, fn.m, args);
    case JX_FUNC: return gy_jx_apply(x, fn.fn, gy_jv_of(JX_NONE), args);
    case JX_METHOD: return gy_jx_apply(x, fn.b->fn, fn.b->self, args);
    case JX_LOOP:
        if (args->n != 1 || args->n_kw)
            gy_jx_fail(x, GY_EFORMAT, "a recursive loop takes one argument");
        return gy_jx_loop_again(x, fn.loop, args->pos[0]);
    case JX_JOINER:
        if (!args->n && !args->n_kw) return call_joiner(fn.l);
        break;
    default: break;
    }
    gy_jx_fail(x, GY_EFORMAT, "'%s' object is not callable", gy_jv_type(fn));
}
