/* Operators, attribute and item access, slices: Python's rules for the types a template can hold.
 *
 * Integers are exact within 64 bits; a result beyond that is refused (GY_ELIMIT), never rounded. */
#include <math.h>

#include "base/utf8.h"
#include "text/jinja.h"

enum { MAX_REPEAT = 1 << 20 };

static const char *const signs[] = {"+",  "-",  "*", "/",  "//", "%", "** or pow()",
                                    "==", "!=", "<", "<=", ">",  ">="};

static _Noreturn void bad_operands(gy_jx *x, gy_jop op, gy_jv a, gy_jv b) {
    if (a.t == JX_UNDEF) gy_jx_undefined(x, a);
    if (b.t == JX_UNDEF) gy_jx_undefined(x, b);
    if (op == JO_ADD && (a.t == JX_STR || a.t == JX_LIST || a.t == JX_TUPLE))
        gy_jx_fail(x, GY_EFORMAT, "can only concatenate %s (not \"%s\") to %s", gy_jv_type(a),
                   gy_jv_type(b), gy_jv_type(a));
    gy_jx_fail(x, GY_EFORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op],
               gy_jv_type(a), gy_jv_type(b));
}

static _Noreturn void too_big(gy_jx *x) {
    gy_jx_fail(x, GY_ELIMIT, "integer arithmetic beyond 64 bits is not supported");
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static gy_jv int_pow(gy_jx *x, int64_t a, int64_t b) {
    int64_t r = 1;
    if (a == 1 || a == -1 || a == 0) return gy_jv_int(b == 0 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : a);
    if (b > 63) too_big(x);
    while (b--)
        if (__builtin_mul_overflow(r, a, &r)) too_big(x);
    return gy_jv_int(r);
}

static gy_jv float_op(gy_jx *x, gy_jop op, double a, double b) {
    double mod, div;
    switch (op) {
    case JO_ADD: return gy_jv_float(a + b);
    case JO_SUB: return gy_jv_float(a - b);
    case JO_MUL: return gy_jv_float(a * b);
    case JO_POW:
        if (a == 0 && b < 0) gy_jx_fail(x, GY_EFORMAT, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            gy_jx_fail(x, GY_EFORMAT, "a negative number to a fractional power is complex");
        div = pow(a, b);
        if (isinf(div) && isfinite(a) && isfinite(b))
            gy_jx_fail(x, GY_EFORMAT, "Numerical result out of range");
        return gy_jv_float(div);
    default: break;
    }
    if (b == 0)
        gy_jx_fail(x, GY_EFORMAT,
                   op == JO_DIV ? "division by zero" : "float modulo or floor division by zero");
    if (op == JO_DIV) return gy_jv_float(a / b);
    mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) mod += b, div -= 1;
    if (mod == 0) mod = copysign(0, b);
    if (op == JO_MOD) return gy_jv_float(mod);
    if (div == 0) return gy_jv_float(copysign(0, a / b));
    double whole = floor(div);
    return gy_jv_float(div - whole > 0.5 ? whole + 1 : whole);
}

static gy_jv int_op(gy_jx *x, gy_jop op, int64_t a, int64_t b) {
    int64_t r = 0;
    bool over = false;
    switch (op) {
    case JO_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case JO_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case JO_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case JO_POW: return b < 0 ? float_op(x, op, (double)a, (double)b) : int_pow(x, a, b);
    default:
        if (b == 0)
            gy_jx_fail(x, GY_EFORMAT,
                       op == JO_DIV ? "division by zero" : "integer division or modulo by zero");
        if (op == JO_DIV) return gy_jv_float((double)a / (double)b);
        if (b == -1) return op == JO_MOD ? gy_jv_int(0) : int_op(x, JO_SUB, 0, a);
        r = op == JO_FLOORDIV ? floor_div(a, b) : a - floor_div(a, b) * b;
    }
    if (over) too_big(x);
    return gy_jv_int(r);
}

static gy_jv number_op(gy_jx *x, gy_jop op, gy_jv a, gy_jv b) {
    if (gy_jv_is_int(a) && gy_jv_is_int(b)) return int_op(x, op, a.i, b.i);
    if (a.t != JX_FLOAT && b.t != JX_FLOAT && op != JO_DIV) too_big(x);
    return float_op(x, op, gy_jx_double(x, a), gy_jx_double(x, b));
}

static gy_jv add_text(gy_jx *x, gy_jv a, gy_jv b) {
    if (a.mark != b.mark) a = gy_jx_escaped(x, a), b = gy_jx_escaped(x, b);
    return gy_jx_join2(x, a, b);
}

static gy_jv add_lists(gy_jx *x, gy_jv a, gy_jv b) {
    gy_jlist *l = gy_jx_list(x, (size_t)a.l->n + b.l->n);
    gy_jx_charge(x, (size_t)l->cap * sizeof *l->v);
    if (a.l->n) memcpy(l->v, a.l->v, a.l->n * sizeof *l->v);
    if (b.l->n) memcpy(l->v + a.l->n, b.l->v, b.l->n * sizeof *l->v);
    l->n = a.l->n + b.l->n;
    return (gy_jv){.t = a.t, .l = l};
}

static gy_jv repeat(gy_jx *x, gy_jv a, int64_t times) {
    if (times < 0) times = 0;
    uint64_t n = a.t == JX_STR ? a.n : a.l->n;
    if (n && (uint64_t)times > MAX_REPEAT / n)
        gy_jx_fail(x, GY_ELIMIT, "repeated %s is longer than %d", gy_jv_type(a), MAX_REPEAT);
    if (a.t == JX_STR) {
        size_t start = x->tmp.n;
        gy_jx_charge(x, n * (uint64_t)times);
        for (int64_t i = 0; n && i < times; i++) gy_buf_add(&x->tmp, a.s, a.n);
        if (x->tmp.over) gy_jx_fail(x, GY_ELIMIT, "text too long");
        gy_jv s = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
        x->tmp.n = start, s.mark = a.mark;
        return s;
    }
    gy_jlist *l = gy_jx_list(x, n * (uint64_t)times);
    gy_jx_charge(x, n * (uint64_t)times * sizeof *l->v);
    for (int64_t i = 0; n && i < times; i++, l->n += (uint32_t)n)
        memcpy(l->v + l->n, a.l->v, n * sizeof *l->v);
    return (gy_jv){.t = a.t, .l = l};
}

static bool repeats(gy_jv v) {
    return v.t == JX_STR || v.t == JX_LIST || v.t == JX_TUPLE;
}

gy_jv gy_jx_binary(gy_jx *x, gy_jop op, gy_jv a, gy_jv b) {
    if (gy_jv_is_num(a) && gy_jv_is_num(b)) return number_op(x, op, a, b);
    if (op == JO_ADD && a.t == b.t && a.t == JX_STR) return add_text(x, a, b);
    if (op == JO_ADD && a.t == b.t && (a.t == JX_LIST || a.t == JX_TUPLE))
        return add_lists(x, a, b);
    if (op == JO_MUL && repeats(a) && gy_jv_is_int(b)) return repeat(x, a, b.i);
    if (op == JO_MUL && repeats(b) && gy_jv_is_int(a)) return repeat(x, b, a.i);
    if (op == JO_MOD && a.t == JX_STR) return gy_jx_percent(x, a, b);
    bad_operands(x, op, a, b);
}

gy_jv gy_jx_neg(gy_jx *x, gy_jv a) {
    if (a.t == JX_UNDEF) gy_jx_undefined(x, a);
    if (a.t == JX_FLOAT) return gy_jv_float(-a.f);
    if (gy_jv_is_int(a) && a.i == INT64_MIN)
        return (gy_jv){.t = JX_BIG, .n = 19, .s = "9223372036854775808"};
    if (gy_jv_is_int(a)) return gy_jv_int(-a.i);
    if (a.t != JX_BIG)
        gy_jx_fail(x, GY_EFORMAT, "bad operand type for unary -: '%s'", gy_jv_type(a));
    if (a.s[0] == '-') return gy_jx_int_text(x, a.s + 1, a.n - 1);
    char *text = gy_jx_alloc(x, (size_t)a.n + 2);
    text[0] = '-', memcpy(text + 1, a.s, a.n);
    return gy_jx_int_text(x, text, (size_t)a.n + 1);
}

int64_t gy_jx_index(gy_jx *x, gy_jv v, const char *what) {
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (!gy_jv_is_int(v))
        gy_jx_fail(x, GY_EFORMAT, "%s must be an integer, not %s", what, gy_jv_type(v));
    return v.i;
}

/* ---- Access ---- */

static gy_jv undefined_attr(gy_jv name) {
    if (name.t == JX_STR) return gy_jv_undef(name.s, name.n, JX_UNDEF_ATTR);
    return gy_jv_undef("item", 4, JX_UNDEF_ATTR);
}

static gy_jv number_attr(gy_jv v, gy_jv name) {
    if (gy_jv_is(name, "real") || (v.t != JX_FLOAT && gy_jv_is(name, "numerator")))
        return v.t == JX_BOOL ? gy_jv_int(v.i) : v;
    if (gy_jv_is(name, "imag")) return v.t == JX_FLOAT ? gy_jv_float(0) : gy_jv_int(0);
    if (v.t != JX_FLOAT && gy_jv_is(name, "denominator")) return gy_jv_int(1);
    return gy_jv_of(JX_MISSING);
}

static gy_jv macro_attr(gy_jx *x, const gy_jmacro *m, gy_jv name) {
    if (gy_jv_is(name, "name")) return m->name;
    if (gy_jv_is(name, "catch_kwargs")) return gy_jv_bool(m->node->op & JX_MACRO_KWARGS);
    if (gy_jv_is(name, "catch_varargs")) return gy_jv_bool(m->node->op & JX_MACRO_VARARGS);
    if (gy_jv_is(name, "caller")) return gy_jv_bool(m->node->op & JX_MACRO_CALLER);
    if (!gy_jv_is(name, "arguments")) return gy_jv_of(JX_MISSING);
    gy_jlist *l = gy_jx_list(x, m->node->a->n);
    for (uint32_t i = 0; i < m->node->a->n; i++) l->v[l->n++] = m->node->a->list[i]->v;
    return (gy_jv){.t = JX_TUPLE, .l = l};
}

gy_jv gy_jx_only_attr(gy_jx *x, gy_jv obj, gy_jv name) {
    gy_jv v = gy_jv_of(JX_MISSING), *slot;
    if (name.n && name.s[0] == '_') return v;
    switch (obj.t) {
    case JX_NS: return (slot = gy_jx_dict_get(x, obj.d, name)) ? *slot : v;
    case JX_LOOP: v = gy_jx_loop_attr(x, obj.loop, name); break;
    case JX_MACRO: v = macro_attr(x, obj.m, name); break;
    case JX_TUPLE:
        if (obj.mark && gy_jv_is(name, "grouper")) return obj.l->v[0];
        if (obj.mark && gy_jv_is(name, "list")) return obj.l->v[1];
        break;
    case JX_CYCLER:
        if (gy_jv_is(name, "current")) return obj.l->v[obj.l->at % obj.l->n];
        break;
    case JX_RANGE:
        if (gy_jv_is(name, "start")) return gy_jv_int(obj.r->start);
        if (gy_jv_is(name, "stop")) return gy_jv_int(obj.r->stop);
        if (gy_jv_is(name, "step")) return gy_jv_int(obj.r->step);
        break;
    case JX_BOOL:
    case JX_INT:
    case JX_BIG:
    case JX_FLOAT: v = number_attr(obj, name); break;
    default: break;
    }
    if (gy_jv_given(v)) return v;
    const gy_jfn *fn = gy_jx_method(obj, name.s, name.n);
    if (!fn) return v;
    gy_jbound *b = gy_jx_alloc(x, sizeof *b);
    *b = (gy_jbound){obj, fn};
    return (gy_jv){.t = JX_METHOD, .b = b};
}

/* obj[key] as the type itself defines it; MISSING where Python raises TypeError or LookupError. */
static gy_jv plain_item(gy_jx *x, gy_jv obj, gy_jv key) {
    gy_jv none = gy_jv_of(JX_MISSING), *slot;
    if (obj.t == JX_DICT) {
        if (!gy_jv_hashable(key)) return none;
        return (slot = gy_jx_dict_get(x, obj.d, key)) ? *slot : none;
    }
    if (!gy_jv_is_int(key)) return none;
    int64_t i = key.i, n;
    switch (obj.t) {
    case JX_STR:
        n = gy_jx_len(x, obj);
        if (i < 0) i += n;
        if (i < 0 || i >= n) return none;
        size_t at = gy_jx_offset(obj.s, obj.n, (size_t)i);
        gy_jv c = gy_jv_str(obj.s + at, gy_jx_offset(obj.s + at, obj.n - at, 1));
        c.mark = obj.mark;
        return c;
    case JX_LIST:
    case JX_TUPLE:
        if (i < 0) i += obj.l->n;
        return i < 0 || i >= obj.l->n ? none : obj.l->v[i];
    case JX_RANGE:
        if (i < 0) i += obj.r->n;
        return i < 0 || i >= obj.r->n ? none : gy_jv_int(obj.r->start + i * obj.r->step);
    default: return none;
    }
}

gy_jv gy_jx_attr(gy_jx *x, gy_jv obj, gy_jv name) {
    if (obj.t == JX_UNDEF) gy_jx_undefined(x, obj);
    gy_jv v = gy_jx_only_attr(x, obj, name);
    if (!gy_jv_given(v)) v = plain_item(x, obj, name);
    return gy_jv_given(v) ? v : undefined_attr(name);
}

gy_jv gy_jx_item(gy_jx *x, gy_jv obj, gy_jv key) {
    if (obj.t == JX_UNDEF) gy_jx_undefined(x, obj);
    gy_jv v = plain_item(x, obj, key);
    if (!gy_jv_given(v) && key.t == JX_STR) v = gy_jx_only_attr(x, obj, key);
    return gy_jv_given(v) ? v : undefined_attr(key);
}

/* ---- Slices ---- */

static int64_t bound(gy_jx *x, gy_jv v, int64_t absent, int64_t n, int64_t lo, int64_t hi) {
    if (v.t == JX_NONE || v.t == JX_MISSING) return absent;
    if (v.t == JX_BIG) return v.s[0] == '-' ? lo : hi;
    if (!gy_jv_is_int(v)) gy_jx_fail(x, GY_EFORMAT, "slice indices must be integers or None");
    int64_t i = v.i < 0 ? v.i + n : v.i;
    return i < lo ? lo : i > hi ? hi : i;
}

static gy_jv slice_text(gy_jx *x, gy_jv s, int64_t from, int64_t step, int64_t count) {
    if (step == 1) {
        size_t a = gy_jx_offset(s.s, s.n, (size_t)from),
               b = a + gy_jx_offset(s.s + a, s.n - a, (size_t)count);
        gy_jv v = gy_jv_str(s.s + a, b - a);
        v.mark = s.mark;
        return v;
    }
    gy_jlist *l = gy_jx_items(x, s);
    size_t start = x->tmp.n;
    for (int64_t k = 0; k < count; k++, from += step)
        gy_buf_add(&x->tmp, l->v[from].s, l->v[from].n);
    gy_jv v = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start, v.mark = s.mark;
    return v;
}

gy_jv gy_jx_slice(gy_jx *x, gy_jv obj, gy_jv start, gy_jv stop, gy_jv step) {
    if (obj.t == JX_UNDEF) gy_jx_undefined(x, obj);
    if (obj.t != JX_STR && obj.t != JX_LIST && obj.t != JX_TUPLE && obj.t != JX_RANGE)
        gy_jx_fail(x, GY_EFORMAT, "'%s' object cannot be sliced", gy_jv_type(obj));
    int64_t n = gy_jx_len(x, obj), by = bound(x, step, 1, 0, INT64_MIN / 2, INT64_MAX / 2),
            count = 0;
    if (by == 0) gy_jx_fail(x, GY_EFORMAT, "slice step cannot be zero");
    int64_t lo = by < 0 ? -1 : 0, hi = by < 0 ? n - 1 : n;
    int64_t from = bound(x, start, by < 0 ? hi : lo, n, lo, hi),
            to = bound(x, stop, by < 0 ? lo : hi, n, lo, hi);
    if (by > 0 && from < to) count = (to - from - 1) / by + 1;
    if (by < 0 && from > to) count = (from - to - 1) / -by + 1;
    if (obj.t == JX_STR) return slice_text(x, obj, from, by, count);
    if (obj.t == JX_RANGE) {
        gy_jrange *r = gy_jx_alloc(x, sizeof *r);
        const gy_jrange *o = obj.r;
        *r = (gy_jrange){o->start + from * o->step, o->start + to * o->step, 0, count};
        if (__builtin_mul_overflow(o->step, by, &r->step)) too_big(x);
        return (gy_jv){.t = JX_RANGE, .r = r};
    }
    gy_jlist *l = gy_jx_list(x, (size_t)count);
    gy_jx_charge(x, (size_t)count * sizeof *l->v);
    for (int64_t k = 0; k < count; k++, from += by) l->v[l->n++] = obj.l->v[from];
    return (gy_jv){.t = obj.t, .l = l};
}
