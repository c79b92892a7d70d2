/* Values: making, comparing, hashing, iterating. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"

enum { MAX_DEPTH = 6000 };

_Noreturn void gy_jx_fail(gy_jx *x, gy_rc rc, const char *fmt, ...) {
    char msg[sizeof x->err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    gy_fail(x->err, rc, "template line %d: %s", x->line, msg);
    longjmp(x->fail, 1);
}

_Noreturn void gy_jx_undefined(gy_jx *x, gy_jv v) {
    char name[64];
    gy_err_quote(name, v.s, v.n);
    if (v.mark == JX_UNDEF_TEXT) gy_jx_fail(x, GY_EFORMAT, "%s", name);
    if (v.mark == JX_UNDEF_ATTR) gy_jx_fail(x, GY_EFORMAT, "the value has no attribute '%s'", name);
    gy_jx_fail(x, GY_EFORMAT, "'%s' is undefined", name);
}

void gy_jx_enter(gy_jx *x) {
    if (++x->depth > MAX_DEPTH)
        gy_jx_fail(x, GY_ELIMIT, "nested too deeply (more than %d levels)", MAX_DEPTH);
}

void gy_jx_charge(gy_jx *x, size_t bytes) {
    x->steps -= 1 + (int64_t)(bytes / 64);
    if (x->steps < 0) gy_jx_fail(x, GY_ELIMIT, "too many steps");
}

void *gy_jx_alloc(gy_jx *x, size_t bytes) {
    if (bytes > x->memory || x->arena.total > x->memory - bytes)
        gy_jx_fail(x, GY_ELIMIT, "too much memory");
    void *p = gy_arena_alloc(&x->arena, bytes);
    if (!p) gy_jx_fail(x, GY_ENOMEM, "out of memory");
    return p;
}

gy_jv gy_jv_undef(const char *name, size_t n, int which) {
    return (gy_jv){.t = JX_UNDEF, .mark = (uint8_t)which, .n = (uint32_t)n, .s = name};
}

/* ---- Strings ---- */

static char *str_room(gy_jx *x, size_t n) {
    if (n > UINT32_MAX / 4) gy_jx_fail(x, GY_ELIMIT, "string too long");
    if (!x->tail || (size_t)(x->tail_end - x->tail) < n) {
        size_t room = n + n / 2 + 4096;
        x->tail = gy_jx_alloc(x, room);
        x->tail_end = x->tail + room;
    }
    char *p = x->tail;
    x->tail += n;
    return p;
}

gy_jv gy_jx_str(gy_jx *x, const char *s, size_t n) {
    gy_jx_charge(x, n);
    char *p = str_room(x, n);
    if (n) memcpy(p, s, n);
    return gy_jv_str(p, n);
}

gy_jv gy_jx_tmp(gy_jx *x) {
    if (x->tmp.oom) gy_jx_fail(x, GY_ENOMEM, "out of memory");
    if (x->tmp.over) gy_jx_fail(x, GY_ELIMIT, "string too long");
    gy_jv v = gy_jx_str(x, x->tmp.p ? x->tmp.p : "", x->tmp.n);
    x->tmp.n = 0;
    return v;
}

/* When a ends where the last string ended, b is written behind it: building a text piece by piece
 * stays linear. */
gy_jv gy_jx_join2(gy_jx *x, gy_jv a, gy_jv b) {
    bool grow = x->tail && a.n && a.s + a.n == x->tail && (size_t)(x->tail_end - x->tail) >= b.n;
    gy_jx_charge(x, grow ? b.n : (size_t)a.n + b.n);
    char *p = grow ? (char *)a.s : str_room(x, (size_t)a.n + b.n);
    if (grow)
        x->tail += b.n;
    else if (a.n)
        memcpy(p, a.s, a.n);
    if (b.n) memcpy(p + a.n, b.s, b.n);
    gy_jv v = gy_jv_str(p, (size_t)a.n + b.n);
    v.mark = a.mark;
    return v;
}

/* ---- Lists and dicts ---- */

gy_jlist *gy_jx_list(gy_jx *x, size_t cap) {
    gy_jlist *l = gy_jx_alloc(x, sizeof *l);
    if (cap > UINT32_MAX / 32) gy_jx_fail(x, GY_ELIMIT, "list too long");
    if (cap) l->v = gy_jx_alloc(x, cap * sizeof *l->v), l->cap = (uint32_t)cap;
    return l;
}

void gy_jx_push(gy_jx *x, gy_jlist *l, gy_jv v) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? (size_t)l->cap * 2 : 4;
        if (cap > UINT32_MAX / 32) gy_jx_fail(x, GY_ELIMIT, "list too long");
        gy_jx_charge(x, cap * 8);
        gy_jv *p = gy_jx_alloc(x, cap * sizeof *p);
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p, l->cap = (uint32_t)cap;
    }
    l->v[l->n++] = v;
}

gy_jv gy_jx_tuple(gy_jx *x, const gy_jv *v, size_t n) {
    gy_jlist *l = gy_jx_list(x, n);
    if (n) memcpy(l->v, v, n * sizeof *v);
    l->n = (uint32_t)n;
    return (gy_jv){.t = JX_TUPLE, .l = l};
}

gy_jdict *gy_jx_dict(gy_jx *x, size_t cap) {
    gy_jdict *d = gy_jx_alloc(x, sizeof *d);
    if (cap > UINT32_MAX / 64) gy_jx_fail(x, GY_ELIMIT, "dict too large");
    if (cap) d->e = gy_jx_alloc(x, cap * sizeof *d->e), d->cap = (uint32_t)cap;
    return d;
}

static uint64_t mix(uint64_t h) {
    h ^= h >> 32, h *= 0x9E3779B97F4A7C15ull;
    return h ^ h >> 29;
}

/* Numbers that are equal hash alike whatever their type. */
static uint64_t hash_number(gy_jv v) {
    if (v.t != JX_FLOAT) return mix((uint64_t)v.i);
    if (v.f == floor(v.f) && fabs(v.f) < 9e18) return mix((uint64_t)(int64_t)v.f);
    uint64_t u;
    memcpy(&u, &v.f, 8);
    return mix(u + 1);
}

static uint64_t hash_bytes(const char *s, size_t n) {
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211ull;
    return mix(h);
}

bool gy_jv_hashable(gy_jv v) {
    if (v.t != JX_TUPLE)
        return v.t != JX_LIST && v.t != JX_DICT && !(v.t == JX_VIEW && v.mark != JX_VIEW_VALUES);
    for (uint32_t i = 0; i < v.l->n; i++)
        if (!gy_jv_hashable(v.l->v[i])) return false;
    return true;
}

static uint64_t hash(gy_jx *x, gy_jv v) {
    uint64_t h = 7;
    switch (v.t) {
    case JX_NONE:
    case JX_UNDEF: return mix(v.t);
    case JX_BOOL:
    case JX_INT:
    case JX_FLOAT: return hash_number(v);
    case JX_BIG: return hash_number(gy_jv_float(gy_jx_double(x, v)));
    case JX_STR: gy_jx_charge(x, v.n); return hash_bytes(v.s, v.n);
    case JX_TUPLE:
        gy_jx_enter(x);
        for (uint32_t i = 0; i < v.l->n; i++) h = mix(h * 31 + hash(x, v.l->v[i]));
        gy_jx_leave(x);
        return h;
    case JX_RANGE: return mix((uint64_t)v.r->n);
    default:
        if (!gy_jv_hashable(v)) gy_jx_fail(x, GY_EFORMAT, "unhashable type: '%s'", gy_jv_type(v));
        return mix((uint64_t)(uintptr_t)v.l);
    }
}

static int64_t find(gy_jx *x, const gy_jdict *d, gy_jv key, uint64_t h) {
    if (!d->idx) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->e[i].hash == h && gy_jx_eq(x, d->e[i].k, key)) return i;
        return -1;
    }
    for (uint32_t i = (uint32_t)h & d->mask, turns = 0; d->idx[i]; i = (i + 1) & d->mask) {
        uint32_t k = d->idx[i] - 1;
        if (++turns % 64 == 0) gy_jx_charge(x, 64);
        if (d->e[k].hash == h && gy_jx_eq(x, d->e[k].k, key)) return k;
    }
    return -1;
}

gy_jv *gy_jx_dict_get(gy_jx *x, const gy_jdict *d, gy_jv key) {
    int64_t i = find(x, d, key, hash(x, key));
    return i < 0 ? NULL : &d->e[i].v;
}

static void index_dict(gy_jx *x, gy_jdict *d) {
    uint32_t slots = 32;
    while (slots < d->cap * 2) slots *= 2;
    gy_jx_charge(x, slots);
    if (!d->idx || d->mask != slots - 1)
        d->idx = gy_jx_alloc(x, slots * sizeof *d->idx), d->mask = slots - 1;
    else
        memset(d->idx, 0, slots * sizeof *d->idx);
    for (uint32_t k = 0; k < d->n; k++) {
        uint32_t i = (uint32_t)d->e[k].hash & d->mask;
        while (d->idx[i]) i = (i + 1) & d->mask;
        d->idx[i] = k + 1;
    }
}

void gy_jx_dict_set(gy_jx *x, gy_jdict *d, gy_jv key, gy_jv v) {
    uint64_t h = hash(x, key);
    int64_t at = find(x, d, key, h);
    if (at >= 0) {
        d->e[at].v = v;
        return;
    }
    bool grown = d->n == d->cap;
    if (grown) {
        size_t cap = d->cap ? (size_t)d->cap * 2 : 4;
        if (cap > UINT32_MAX / 64) gy_jx_fail(x, GY_ELIMIT, "dict too large");
        gy_jpair *e = gy_jx_alloc(x, cap * sizeof *e);
        if (d->n) memcpy(e, d->e, d->n * sizeof *e);
        d->e = e, d->cap = (uint32_t)cap;
    }
    d->e[d->n++] = (gy_jpair){key, v, h};
    if (d->n <= 8) return;
    if (grown || !d->idx) {
        index_dict(x, d);
        return;
    }
    uint32_t i = (uint32_t)h & d->mask;
    while (d->idx[i]) i = (i + 1) & d->mask;
    d->idx[i] = d->n;
}

bool gy_jx_dict_del(gy_jx *x, gy_jdict *d, gy_jv key, gy_jv *old) {
    int64_t at = find(x, d, key, hash(x, key));
    if (at < 0) return false;
    *old = d->e[at].v;
    gy_jx_charge(x, (d->n - (size_t)at) * sizeof *d->e);
    memmove(d->e + at, d->e + at + 1, (d->n - (size_t)at - 1) * sizeof *d->e);
    d->n--;
    if (d->idx) index_dict(x, d);
    return true;
}

/* ---- Numbers ---- */

gy_jv gy_jx_int_text(gy_jx *x, const char *s, size_t n) {
    bool neg = n && *s == '-';
    const char *p = s + (n && (*s == '-' || *s == '+')), *end = s + n;
    while (p + 1 < end && *p == '0') p++;
    uint64_t u = 0;
    bool fits = end - p <= 19;
    for (const char *q = p; fits && q < end; q++)
        u = u * 10 + (uint64_t)(*q - '0'); /* 19 digits cannot wrap */
    if (fits && u <= (uint64_t)INT64_MAX + neg)
        return gy_jv_int(neg ? (int64_t)(0 - u) : (int64_t)u);
    gy_jv v = {.t = JX_BIG, .n = (uint32_t)(end - p), .s = p};
    if (neg && x) {
        char *copy = gy_jx_alloc(x, (size_t)(end - p) + 1);
        copy[0] = '-', memcpy(copy + 1, p, (size_t)(end - p));
        v.s = copy, v.n++;
    } else if (x) {
        v.s = gy_jx_str(x, p, v.n).s;
    }
    return v;
}

double gy_jx_double(gy_jx *x, gy_jv v) {
    double f = 0;
    if (v.t == JX_FLOAT) return v.f;
    if (v.t != JX_BIG) return (double)v.i;
    if (!gy_jx_parse_double(v.s, v.n, &f) || isinf(f))
        gy_jx_fail(x, GY_EFORMAT, "int too large to convert to float");
    return f;
}

/* ---- Input ---- */

static gy_jv number_from_json(gy_jx *x, const gy_json *j) {
    double f = 0;
    if (j->n <= 1 || !memchr("NIef.E", j->s[j->s[0] == '-'], 6)) { /* not NaN or Infinity */
        bool real = false;
        for (uint32_t i = 0; i < j->n; i++)
            real |= j->s[i] == '.' || j->s[i] == 'e' || j->s[i] == 'E';
        if (!real) return gy_jx_int_text(x, j->s, j->n);
    }
    gy_json_num(j, &f);
    return gy_jv_float(f);
}

gy_jv gy_jx_from_json(gy_jx *x, const gy_json *j) {
    gy_jv v = gy_jv_of(JX_NONE);
    switch (j->kind) {
    case GY_JSON_NULL: return v;
    case GY_JSON_BOOL: return gy_jv_bool(j->truth);
    case GY_JSON_NUM: return number_from_json(x, j);
    case GY_JSON_STR: return gy_jv_str(j->s, j->n);
    case GY_JSON_ARR:
        gy_jx_enter(x);
        v = gy_jv_list(gy_jx_list(x, j->n));
        for (uint32_t i = 0; i < j->n; i++) v.l->v[i] = gy_jx_from_json(x, &j->item[i]);
        v.l->n = j->n;
        break;
    case GY_JSON_OBJ:
        gy_jx_enter(x);
        v = gy_jv_dict(gy_jx_dict(x, j->n));
        for (uint32_t i = 0; i < j->n; i++)
            gy_jx_dict_set(x, v.d, gy_jv_str(j->key[i].s, j->key[i].n),
                           gy_jx_from_json(x, &j->item[i]));
        break;
    }
    gy_jx_leave(x);
    return v;
}

/* ---- Questions ---- */

const char *gy_jv_type(gy_jv v) {
    static const char *const names[] = {
        "missing",   "Undefined", "NoneType", "bool",   "int",         "int",    "float",
        "str",       "list",      "tuple",    "dict",   "dict view",   "range",  "generator",
        "Namespace", "Macro",     "function", "method", "LoopContext", "Cycler", "Joiner"};
    return names[v.t];
}

bool gy_jv_truth(gy_jv v) {
    switch (v.t) {
    case JX_MISSING:
    case JX_UNDEF:
    case JX_NONE: return false;
    case JX_BOOL:
    case JX_INT: return v.i != 0;
    case JX_FLOAT: return v.f != 0;
    case JX_STR: return v.n > 0;
    case JX_LIST:
    case JX_TUPLE: return v.l->n > 0;
    case JX_DICT:
    case JX_VIEW: return v.d->n > 0;
    case JX_RANGE: return v.r->n > 0;
    default: return true;
    }
}

static bool eq_lists(gy_jx *x, const gy_jlist *a, const gy_jlist *b) {
    if (a->n != b->n) return false;
    gy_jx_enter(x);
    bool same = true;
    for (uint32_t i = 0; same && i < a->n && i < b->n; i++) same = gy_jx_eq(x, a->v[i], b->v[i]);
    gy_jx_leave(x);
    return same;
}

static bool eq_dicts(gy_jx *x, const gy_jdict *a, const gy_jdict *b) {
    if (a->n != b->n) return false;
    gy_jx_enter(x);
    bool same = true;
    for (uint32_t i = 0; same && i < a->n; i++) {
        int64_t k = find(x, b, a->e[i].k, a->e[i].hash);
        same = k >= 0 && gy_jx_eq(x, a->e[i].v, b->e[k].v);
    }
    gy_jx_leave(x);
    return same;
}

/* Numbers only. 2: unordered (NaN). */
static int cmp_numbers(gy_jx *x, gy_jv a, gy_jv b) {
    if (gy_jv_is_int(a) && gy_jv_is_int(b)) return (a.i > b.i) - (a.i < b.i);
    if ((a.t == JX_BIG || b.t == JX_BIG) && a.t != JX_FLOAT && b.t != JX_FLOAT) {
        bool na = a.t == JX_BIG ? a.s[0] == '-' : false, nb = b.t == JX_BIG ? b.s[0] == '-' : false;
        if (a.t != JX_BIG) return nb ? 1 : -1;
        if (b.t != JX_BIG) return na ? -1 : 1;
        if (na != nb) return na ? -1 : 1;
        int c = a.n != b.n ? (a.n > b.n ? 1 : -1) : memcmp(a.s, b.s, a.n);
        c = (c > 0) - (c < 0);
        return na ? -c : c;
    }
    long double f = a.t == JX_FLOAT ? a.f : a.t == JX_BIG ? gy_jx_double(x, a) : (long double)a.i;
    long double g = b.t == JX_FLOAT ? b.f : b.t == JX_BIG ? gy_jx_double(x, b) : (long double)b.i;
    return f < g ? -1 : f > g ? 1 : f == g ? 0 : 2;
}

bool gy_jx_eq(gy_jx *x, gy_jv a, gy_jv b) {
    gy_jx_charge(x, 0);
    if (gy_jv_is_num(a) && gy_jv_is_num(b)) return cmp_numbers(x, a, b) == 0;
    if (a.t != b.t) return false;
    switch (a.t) {
    case JX_UNDEF:
    case JX_NONE: return true;
    case JX_STR: return a.n == b.n && (a.s == b.s || memcmp(a.s, b.s, a.n) == 0);
    case JX_LIST:
    case JX_TUPLE: return a.l == b.l || eq_lists(x, a.l, b.l);
    case JX_DICT: return a.d == b.d || eq_dicts(x, a.d, b.d);
    case JX_RANGE:
        return a.r->n == b.r->n &&
               (!a.r->n || (a.r->start == b.r->start && (a.r->n == 1 || a.r->step == b.r->step)));
    case JX_METHOD: return a.b->fn == b.b->fn && a.b->self.l == b.b->self.l;
    default: return a.l == b.l;
    }
}

static int cmp_bytes(gy_jx *x, gy_jv a, gy_jv b) {
    uint32_t n = a.n < b.n ? a.n : b.n;
    gy_jx_charge(x, n);
    int c = n ? memcmp(a.s, b.s, n) : 0; /* UTF-8 order is code point order */
    return c ? (c > 0) - (c < 0) : (a.n > b.n) - (a.n < b.n);
}

int gy_jx_cmp(gy_jx *x, gy_jv a, gy_jv b, gy_jop op) {
    static const char *const sign[] = {
        [JO_LT] = "<", [JO_LE] = "<=", [JO_GT] = ">", [JO_GE] = ">="};
    gy_jx_charge(x, 0);
    if (gy_jv_is_num(a) && gy_jv_is_num(b)) return cmp_numbers(x, a, b);
    if (a.t == JX_UNDEF) gy_jx_undefined(x, a);
    if (b.t == JX_UNDEF) gy_jx_undefined(x, b);
    if (a.t == JX_STR && b.t == JX_STR) return cmp_bytes(x, a, b);
    if (a.t == b.t && (a.t == JX_LIST || a.t == JX_TUPLE)) {
        for (uint32_t i = 0; i < a.l->n && i < b.l->n; i++) {
            if (gy_jx_eq(x, a.l->v[i], b.l->v[i])) continue;
            gy_jx_enter(x);
            int c = gy_jx_cmp(x, a.l->v[i], b.l->v[i], op);
            gy_jx_leave(x);
            return c;
        }
        return (a.l->n > b.l->n) - (a.l->n < b.l->n);
    }
    gy_jx_fail(x, GY_EFORMAT, "'%s' not supported between instances of '%s' and '%s'", sign[op],
               gy_jv_type(a), gy_jv_type(b));
}

static bool range_has(gy_jx *x, const gy_jrange *r, gy_jv v) {
    if (v.t == JX_FLOAT && v.f == floor(v.f) && fabs(v.f) < 9e18) v = gy_jv_int((int64_t)v.f);
    (void)x;
    if (!gy_jv_is_int(v) || !r->n) return false;
    int64_t last = r->start + (r->n - 1) * r->step;
    int64_t lo = r->step > 0 ? r->start : last, hi = r->step > 0 ? last : r->start;
    return v.i >= lo && v.i <= hi && (v.i - r->start) % r->step == 0;
}

bool gy_jx_contains(gy_jx *x, gy_jv box, gy_jv v) {
    if (box.t == JX_STR) {
        if (v.t == JX_UNDEF)
            gy_jx_fail(x, GY_EFORMAT,
                       "'in <string>' requires string as left operand, not Undefined");
        if (v.t != JX_STR)
            gy_jx_fail(x, GY_EFORMAT, "'in <string>' requires string as left operand, not %s",
                       gy_jv_type(v));
        gy_jx_charge(x, box.n);
        return !v.n || memmem(box.s, box.n, v.s, v.n);
    }
    if (box.t == JX_DICT || (box.t == JX_VIEW && box.mark == JX_VIEW_KEYS))
        return gy_jx_dict_get(x, box.d, v);
    if (box.t == JX_RANGE) return range_has(x, box.r, v);
    if (box.t != JX_UNDEF && box.t != JX_LIST && box.t != JX_TUPLE && box.t != JX_VIEW &&
        box.t != JX_ITER)
        gy_jx_fail(x, GY_EFORMAT, "argument of type '%s' is not iterable", gy_jv_type(box));
    gy_jlist *l = gy_jx_items(x, box);
    for (uint32_t i = 0; i < l->n; i++)
        if (gy_jx_eq(x, l->v[i], v)) return true;
    return false;
}

static gy_jlist *chars(gy_jx *x, gy_jv s) {
    gy_jlist *l = gy_jx_list(x, gy_jx_chars(s.s, s.n));
    gy_jx_charge(x, (size_t)l->cap * 16);
    for (size_t i = 0, k; i < s.n && l->n < l->cap; i += k) {
        uint32_t cp;
        k = gy_utf8_get(s.s + i, s.n - i, &cp);
        l->v[l->n++] = gy_jv_str(s.s + i, k); /* characters of markup are plain, as in Python */
    }
    return l;
}

static gy_jlist *view_items(gy_jx *x, const gy_jdict *d, int which) {
    gy_jlist *l = gy_jx_list(x, d->n);
    gy_jx_charge(x, d->n * sizeof(gy_jpair));
    for (uint32_t i = 0; i < d->n; i++)
        l->v[l->n++] = which == JX_VIEW_KEYS ? d->e[i].k
                       : which == JX_VIEW_VALUES
                           ? d->e[i].v
                           : gy_jx_tuple(x, (gy_jv[]){d->e[i].k, d->e[i].v}, 2);
    return l;
}

gy_jlist *gy_jx_items(gy_jx *x, gy_jv v) {
    gy_jlist *l;
    gy_jx_charge(x, 0);
    switch (v.t) {
    case JX_UNDEF: return gy_jx_list(x, 0);
    case JX_STR: return chars(x, v);
    case JX_LIST:
    case JX_TUPLE: return v.l;
    case JX_DICT: return view_items(x, v.d, JX_VIEW_KEYS);
    case JX_VIEW: return view_items(x, v.d, v.mark);
    case JX_RANGE:
        l = gy_jx_list(x, (size_t)v.r->n);
        gy_jx_charge(x, (size_t)v.r->n * 16);
        for (int64_t i = 0; i < v.r->n; i++) l->v[l->n++] = gy_jv_int(v.r->start + i * v.r->step);
        return l;
    case JX_ITER:
        gy_jx_force(x, v.l);
        l = gy_jx_list(x, 0);
        l->v = v.l->at ? v.l->v + v.l->at : v.l->v, l->n = l->cap = v.l->n - v.l->at;
        v.l->at = v.l->n;
        return l;
    default: gy_jx_fail(x, GY_EFORMAT, "'%s' object is not iterable", gy_jv_type(v));
    }
}

int64_t gy_jx_len(gy_jx *x, gy_jv v) {
    switch (v.t) {
    case JX_UNDEF: return 0;
    case JX_STR: gy_jx_charge(x, v.n); return (int64_t)gy_jx_chars(v.s, v.n);
    case JX_LIST:
    case JX_TUPLE: return v.l->n;
    case JX_DICT:
    case JX_VIEW: return v.d->n;
    case JX_RANGE: return v.r->n;
    case JX_LOOP: return v.loop->items->n;
    default: return -1;
    }
}
