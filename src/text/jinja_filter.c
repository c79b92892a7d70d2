/* Filters over sequences and values; those over text are in jinja_filter2.c. Names and parameters
 * are Jinja's own. */
#include <math.h>
#include <stdio.h>

#include "text/jinja.h"
#include "text/unicode.h"

static gy_jv iter_of(gy_jlist *l) {
    return (gy_jv){.t = JX_ITER, .l = l};
}

gy_jv gy_jx_get_path(gy_jx *x, gy_jv v, gy_jv path, gy_jv absent) {
    if (!gy_jv_given(path) || path.t == JX_NONE) return v;
    bool whole = path.t != JX_STR;
    const char *p = whole ? NULL : path.s, *end = whole ? NULL : p + path.n, *dot;
    do {
        gy_jv key = path;
        if (!whole) {
            dot = memchr(p, '.', (size_t)(end - p));
            key = gy_jv_str(p, (size_t)((dot ? dot : end) - p));
            bool digits = key.n > 0 && key.n < 10;
            for (uint32_t i = 0; i < key.n; i++) digits &= key.s[i] >= '0' && key.s[i] <= '9';
            if (digits) key = gy_jx_int_text(x, key.s, key.n);
            p = dot ? dot + 1 : NULL;
        }
        v = gy_jx_item(x, v, key);
        if (v.t == JX_UNDEF && gy_jv_given(absent) && absent.t != JX_NONE) v = absent;
    } while (!whole && p);
    return v;
}

static gy_jv lowered(gy_jx *x, gy_jv v, bool lower) {
    if (!lower || v.t != JX_STR) return v;
    size_t start = x->tmp.n;
    gy_uc_lower_text(&x->tmp, v.s, v.n);
    gy_jv s = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start;
    return s;
}

/* What items are compared by. For sort (multi) that is a list with one value for each part of
 * "a,b.c": lists compare their items for equality first, which shows when values have no order. */
static gy_jv sort_key(gy_jx *x, gy_jv v, gy_jv attribute, bool lower, bool multi) {
    if (!multi) return lowered(x, gy_jx_get_path(x, v, attribute, gy_jv_of(JX_MISSING)), lower);
    gy_jlist *l = gy_jx_list(x, 1);
    if (attribute.t != JX_STR) gy_jx_push(x, l, sort_key(x, v, attribute, lower, false));
    for (const char *p = attribute.t == JX_STR ? attribute.s : NULL, *end = p ? p + attribute.n : p;
         p;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        gy_jv part = gy_jv_str(p, (size_t)((comma ? comma : end) - p));
        gy_jx_push(x, l, sort_key(x, v, part, lower, false));
        p = comma ? comma + 1 : NULL;
    }
    return gy_jv_list(l);
}

/* Stable merge sort of item by key; both are [n] and move together. */
static void merge_sort(gy_jx *x, gy_jv *key, gy_jv *item, gy_jv *tmp, uint32_t n, bool reverse) {
    if (n < 2) return;
    uint32_t half = n / 2, i = 0, j = half, k = 0;
    merge_sort(x, key, item, tmp, half, reverse);
    merge_sort(x, key + half, item + half, tmp, n - half, reverse);
    gy_jv *tk = tmp, *ti = tmp + n;
    while (i < half || j < n) {
        bool right = i == half;
        if (!right && j < n)
            right = reverse ? gy_jx_cmp(x, key[i], key[j], JO_LT) == -1
                            : gy_jx_cmp(x, key[j], key[i], JO_LT) == -1;
        uint32_t from = right ? j++ : i++;
        tk[k] = key[from], ti[k++] = item[from];
    }
    memcpy(key, tk, n * sizeof *key), memcpy(item, ti, n * sizeof *item);
}

/* A new list of l's items in the order of their keys. */
static gy_jlist *sorted(gy_jx *x, const gy_jlist *l, gy_jv attribute, bool lower, bool multi,
                        bool reverse) {
    gy_jlist *out = gy_jx_list(x, l->n);
    gy_jv *key = gy_jx_alloc(x, l->n * sizeof *key),
          *tmp = gy_jx_alloc(x, (size_t)l->n * 2 * sizeof *tmp);
    for (uint32_t i = 0; i < l->n; i++)
        out->v[i] = l->v[i], key[i] = sort_key(x, l->v[i], attribute, lower, multi);
    out->n = l->n;
    merge_sort(x, key, out->v, tmp, l->n, reverse);
    return out;
}

static gy_jv f_sort(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    return gy_jv_list(
        sorted(x, gy_jx_items(x, v), a[2], !gy_jv_truth(a[1]), true, gy_jv_truth(a[0])));
}

static gy_jv f_dictsort(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    bool by_value = gy_jv_is(a[1], "value");
    if (gy_jv_given(a[1]) && !by_value && !gy_jv_is(a[1], "key"))
        gy_jx_fail(x, GY_EFORMAT, "You can only sort by either \"key\" or \"value\"");
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (v.t != JX_DICT)
        gy_jx_fail(x, GY_EFORMAT, "dictsort needs a mapping, not %s", gy_jv_type(v));
    gy_jlist *l = gy_jx_items(x, (gy_jv){.t = JX_VIEW, .mark = JX_VIEW_ITEMS, .d = v.d});
    return gy_jv_list(
        sorted(x, l, gy_jv_int(by_value), !gy_jv_truth(a[0]), false, gy_jv_truth(a[2])));
}

static gy_jv f_groupby(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    bool lower = !gy_jv_truth(a[2]);
    gy_jlist *items = gy_jx_items(x, v), *pairs = gy_jx_list(x, items->n), *out = gy_jx_list(x, 0);
    for (uint32_t i = 0; i < items->n; i++) {
        gy_jv key = gy_jx_get_path(x, items->v[i], a[0], a[1]);
        gy_jx_push(x, pairs,
                   gy_jx_tuple(x, (gy_jv[]){lowered(x, key, lower), key, items->v[i]}, 3));
    }
    pairs = sorted(x, pairs, gy_jv_int(0), false, false, false);
    gy_jlist *group = NULL;
    for (uint32_t i = 0; i < pairs->n; i++) {
        const gy_jv *pair = pairs->v[i].l->v;
        if (!i || !gy_jx_eq(x, pair[0], pairs->v[i - 1].l->v[0])) {
            group = gy_jx_list(x, 0);
            gy_jv t = gy_jx_tuple(x, (gy_jv[]){pair[1], gy_jv_list(group)}, 2);
            t.mark = 1;
            gy_jx_push(x, out, t);
        }
        gy_jx_push(x, group, pair[2]);
    }
    return gy_jv_list(out);
}

static gy_jv f_unique(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    gy_jlist *items = gy_jx_items(x, v), *out = gy_jx_list(x, 0);
    gy_jdict *seen = gy_jx_dict(x, 0);
    for (uint32_t i = 0; i < items->n; i++) {
        gy_jv key = sort_key(x, items->v[i], a[1], !gy_jv_truth(a[0]), false);
        if (gy_jx_dict_get(x, seen, key)) continue;
        gy_jx_dict_set(x, seen, key, key);
        gy_jx_push(x, out, items->v[i]);
    }
    return iter_of(out);
}

static gy_jv extreme(gy_jx *x, gy_jv v, gy_jv *a, bool max) {
    static const char why[] = "No aggregated item, sequence was empty.";
    gy_jlist *l = gy_jx_items(x, v);
    if (!l->n) return gy_jv_undef(why, sizeof why - 1, JX_UNDEF_TEXT);
    gy_jv best = l->v[0], best_key = sort_key(x, best, a[1], !gy_jv_truth(a[0]), false);
    for (uint32_t i = 1; i < l->n; i++) {
        gy_jv key = sort_key(x, l->v[i], a[1], !gy_jv_truth(a[0]), false);
        int c = max ? gy_jx_cmp(x, best_key, key, JO_LT) : gy_jx_cmp(x, key, best_key, JO_LT);
        if (c == -1) best = l->v[i], best_key = key;
    }
    return best;
}
static gy_jv f_min(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)raw, extreme(x, v, a, false);
}
static gy_jv f_max(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)raw, extreme(x, v, a, true);
}

static gy_jv f_sum(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    gy_jlist *l = gy_jx_items(x, v);
    gy_jv total = gy_jv_given(a[1]) ? a[1] : gy_jv_int(0);
    if (total.t == JX_STR)
        gy_jx_fail(x, GY_EFORMAT, "sum() can't sum strings [use ''.join(seq) instead]");
    for (uint32_t i = 0; i < l->n; i++)
        total =
            gy_jx_binary(x, JO_ADD, total, gy_jx_get_path(x, l->v[i], a[0], gy_jv_of(JX_MISSING)));
    return total;
}

static gy_jv f_first(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    static const char why[] = "No first item, sequence was empty.";
    (void)a, (void)raw;
    if (v.t == JX_ITER) gy_jx_force(x, v.l);
    if (v.t == JX_ITER && v.l->at < v.l->n) return v.l->v[v.l->at++];
    gy_jlist *l = gy_jx_items(x, v);
    return l->n ? l->v[0] : gy_jv_undef(why, sizeof why - 1, JX_UNDEF_TEXT);
}

static gy_jv f_last(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    static const char why[] = "No last item, sequence was empty.";
    (void)a, (void)raw;
    if (v.t == JX_ITER) gy_jx_fail(x, GY_EFORMAT, "'generator' object is not reversible");
    gy_jlist *l = gy_jx_items(x, v);
    return l->n ? l->v[l->n - 1] : gy_jv_undef(why, sizeof why - 1, JX_UNDEF_TEXT);
}

static gy_jv f_length(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    int64_t n = gy_jx_len(x, v);
    if (n < 0) gy_jx_fail(x, GY_EFORMAT, "object of type '%s' has no len()", gy_jv_type(v));
    return gy_jv_int(n);
}

static gy_jlist *copy_items(gy_jx *x, gy_jv v) {
    gy_jlist *l = gy_jx_items(x, v), *out = gy_jx_list(x, l->n);
    gy_jx_charge(x, l->n * sizeof *l->v);
    if (l->n) memcpy(out->v, l->v, l->n * sizeof *l->v);
    out->n = l->n;
    return out;
}

static gy_jv f_list(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    return gy_jv_list(copy_items(x, v));
}

static gy_jv f_items(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    if (v.t == JX_UNDEF) return iter_of(gy_jx_list(x, 0));
    if (v.t != JX_DICT) gy_jx_fail(x, GY_EFORMAT, "Can only get item pairs from a mapping.");
    return iter_of(gy_jx_items(x, (gy_jv){.t = JX_VIEW, .mark = JX_VIEW_ITEMS, .d = v.d}));
}

static gy_jv f_reverse(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    if (v.t == JX_STR) {
        gy_jv none = gy_jv_of(JX_NONE);
        return gy_jx_slice(x, v, none, none, gy_jv_int(-1));
    }
    gy_jlist *l = copy_items(x, v);
    for (uint32_t i = 0; i < l->n / 2; i++) {
        gy_jv t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i], l->v[l->n - 1 - i] = t;
    }
    return v.t == JX_ITER ? gy_jv_list(l) : iter_of(l);
}

static gy_jv f_batch(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    int64_t size = gy_jx_index(x, a[0], "linecount");
    gy_jlist *l = gy_jx_items(x, v), *out = gy_jx_list(x, 0), *row = gy_jx_list(x, 0);
    for (uint32_t i = 0; i < l->n; i++) {
        if (row->n == size) gy_jx_push(x, out, gy_jv_list(row)), row = gy_jx_list(x, 0);
        gy_jx_push(x, row, l->v[i]);
    }
    if (!row->n) return iter_of(out);
    gy_jx_push(x, out, gy_jv_list(row));
    while (gy_jv_given(a[1]) && a[1].t != JX_NONE && row->n < size) gy_jx_push(x, row, a[1]);
    return iter_of(out);
}

static gy_jv f_slice(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    int64_t slices = gy_jx_index(x, a[0], "slices");
    gy_jlist *l = gy_jx_items(x, v), *out = gy_jx_list(x, 0);
    if (slices == 0) gy_jx_fail(x, GY_EFORMAT, "integer division or modulo by zero");
    for (int64_t k = 0, at = 0; k < slices; k++) {
        gy_jlist *row = gy_jx_list(x, 0);
        int64_t size = l->n / slices + (k < l->n % slices);
        for (int64_t i = 0; i < size; i++) gy_jx_push(x, row, l->v[at++]);
        if (gy_jv_given(a[1]) && a[1].t != JX_NONE && k >= l->n % slices) gy_jx_push(x, row, a[1]);
        gy_jx_push(x, out, gy_jv_list(row));
    }
    return iter_of(out);
}

/* ---- map, select and their like: names of filters and tests are values here ---- */

static gy_jv keyword(const gy_jargs *args, const char *name) {
    for (uint32_t i = 0; i < args->n_kw; i++)
        if (gy_jv_is(args->kw[i].name, name)) return args->kw[i].v;
    return gy_jv_of(JX_MISSING);
}

static gy_jv f_map(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    gy_jv attribute = keyword(raw, "attribute"), absent = keyword(raw, "default"), one;
    const gy_jfn *fn = NULL;
    char text[64];
    (void)a;
    gy_jlist *out = gy_jx_list(x, 0);
    if (!gy_jv_truth(v)) return iter_of(out);
    if (!raw->n && gy_jv_given(attribute)) {
        if (raw->n_kw > 1u + gy_jv_given(absent))
            gy_jx_fail(x, GY_EFORMAT, "map: unexpected keyword argument");
    } else {
        if (!raw->n || raw->pos[0].t != JX_STR)
            gy_jx_fail(x, GY_EFORMAT, "map requires a filter argument");
        fn = gy_jx_filter(raw->pos[0].s, raw->pos[0].n);
        gy_err_quote(text, raw->pos[0].s, raw->pos[0].n);
        if (!fn) gy_jx_fail(x, GY_EFORMAT, "No filter named '%s'.", text);
    }
    gy_jlist *l = gy_jx_items(x, v);
    gy_jargs rest = {raw->n ? raw->pos + 1 : raw->pos, raw->kw, raw->n ? raw->n - 1 : 0, raw->n_kw};
    gy_jx_enter(x);
    for (uint32_t i = 0; i < l->n; i++) {
        one =
            fn ? gy_jx_apply(x, fn, l->v[i], &rest) : gy_jx_get_path(x, l->v[i], attribute, absent);
        gy_jx_push(x, out, one);
    }
    gy_jx_leave(x);
    return iter_of(out);
}

bool gy_jx_run_test(gy_jx *x, gy_jv name, gy_jv v, const gy_jargs *args) {
    char text[64];
    const gy_jfn *fn = name.t == JX_STR ? gy_jx_test(name.s, name.n) : NULL;
    if (!fn)
        gy_jx_fail(x, GY_EFORMAT, "No test named '%s'.",
                   name.t == JX_STR ? gy_err_quote(text, name.s, name.n) : gy_jv_type(name));
    return gy_jv_truth(gy_jx_apply(x, fn, v, args));
}

static gy_jv select_where(gy_jx *x, gy_jv v, const gy_jargs *raw, bool attr, bool want) {
    gy_jlist *out = gy_jx_list(x, 0);
    uint32_t off = attr;
    if (!gy_jv_truth(v)) return iter_of(out);
    if (attr && !raw->n) gy_jx_fail(x, GY_EFORMAT, "Missing parameter for attribute name");
    gy_jlist *l = gy_jx_items(x, v);
    bool named = raw->n > off;
    gy_jargs rest = {named ? raw->pos + off + 1 : raw->pos, raw->kw, named ? raw->n - off - 1 : 0,
                     raw->n_kw};
    for (uint32_t i = 0; i < l->n; i++) {
        gy_jv one = attr ? gy_jx_get_path(x, l->v[i], raw->pos[0], gy_jv_of(JX_MISSING)) : l->v[i];
        bool yes = named ? gy_jx_run_test(x, raw->pos[off], one, &rest) : gy_jv_truth(one);
        if (yes == want) gy_jx_push(x, out, l->v[i]);
    }
    return iter_of(out);
}
static gy_jv f_select(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, select_where(x, v, raw, false, true);
}
static gy_jv f_reject(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, select_where(x, v, raw, false, false);
}
static gy_jv f_selectattr(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, select_where(x, v, raw, true, true);
}
static gy_jv f_rejectattr(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, select_where(x, v, raw, true, false);
}

/* ---- Values ---- */

static gy_jv f_default(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)x, (void)raw;
    bool use = v.t == JX_UNDEF || (gy_jv_truth(a[1]) && !gy_jv_truth(v));
    return !use ? v : gy_jv_given(a[0]) ? a[0] : gy_jv_str("", 0);
}

static gy_jv f_attr(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    gy_jv name = gy_jx_soft(x, a[0]);
    if (v.t == JX_UNDEF && !(name.n > 1 && name.s[0] == '_' && name.s[1] == '_'))
        gy_jx_undefined(x, v);
    gy_jv r = gy_jx_only_attr(x, v, name);
    return gy_jv_given(r) ? r : gy_jv_undef(name.s, name.n, JX_UNDEF_ATTR);
}

static gy_jv f_abs(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (!gy_jv_is_num(v))
        gy_jx_fail(x, GY_EFORMAT, "bad operand type for abs(): '%s'", gy_jv_type(v));
    if (v.t == JX_FLOAT) return gy_jv_float(fabs(v.f));
    if (v.t == JX_BIG) return v.s[0] == '-' ? gy_jx_neg(x, v) : v;
    return v.i < 0 ? gy_jx_neg(x, v) : gy_jv_int(v.i);
}

static gy_jv rounded(gy_jx *x, gy_jv v, int64_t digits) {
    char text[400];
    double f;
    if (v.t != JX_FLOAT && digits >= 0) return v.t == JX_BOOL ? gy_jv_int(v.i) : v;
    if (v.t != JX_FLOAT) { /* round half to even at a power of ten */
        if (v.t == JX_BIG || digits < -18)
            gy_jx_fail(x, GY_ELIMIT, "integer arithmetic beyond 64 bits is not supported");
        int64_t ten = 1;
        for (int64_t i = 0; i < -digits; i++) ten *= 10;
        int64_t low = v.i % ten, base = v.i - low;
        if (low < 0) low += ten, base -= ten;
        bool up = low > ten - low || (low == ten - low && base / ten % 2);
        return gy_jx_binary(x, JO_ADD, gy_jv_int(base), gy_jv_int(up ? ten : 0));
    }
    if (!isfinite(v.f) || digits > 323) return v;
    if (digits < -308) return gy_jv_float(copysign(0, v.f));
    if (digits < 0) {
        double scale = pow(10, (double)-digits);
        return gy_jv_float(nearbyint(v.f / scale) * scale);
    }
    if (fabs(v.f) > 1e17) return v; /* already whole */
    snprintf(text, sizeof text, "%.*f", (int)digits, v.f);
    for (char *p = text; *p; p++)
        if (*p == ',') *p = '.';
    return gy_jx_parse_double(text, strlen(text), &f) ? gy_jv_float(f) : v;
}

static gy_jv f_round(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    int64_t digits = gy_jv_given(a[0]) ? gy_jx_index(x, a[0], "precision") : 0;
    bool floor_it = gy_jv_is(a[1], "floor"), ceil_it = gy_jv_is(a[1], "ceil");
    if (gy_jv_given(a[1]) && !floor_it && !ceil_it && !gy_jv_is(a[1], "common"))
        gy_jx_fail(x, GY_EFORMAT, "method must be common, ceil or floor");
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (!gy_jv_is_num(v))
        gy_jx_fail(x, GY_EFORMAT, "type %s doesn't define __round__ method", gy_jv_type(v));
    if (!floor_it && !ceil_it) return rounded(x, v, digits);
    gy_jv scale = gy_jx_binary(x, JO_POW, gy_jv_int(10), gy_jv_int(digits));
    gy_jv big = gy_jx_binary(x, JO_MUL, v, scale);
    double f = gy_jx_double(x, big);
    if (!isfinite(f)) gy_jx_fail(x, GY_EFORMAT, "cannot convert float infinity or NaN to integer");
    return gy_jx_binary(x, JO_DIV, gy_jv_float(floor_it ? floor(f) : ceil(f)), scale);
}

/* int(f): MISSING for NaN and infinity. */
static gy_jv int_of_float(gy_jx *x, double f) {
    char text[400];
    if (!isfinite(f)) return gy_jv_of(JX_MISSING);
    if (fabs(f) < 9e18) return gy_jv_int((int64_t)f);
    int n = snprintf(text, sizeof text, "%.0f", f);
    return gy_jx_int_text(x, text, (size_t)n);
}

static int digit_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'z' ? c - 'a' + 10
           : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                  : 99;
}

/* int(text, base); MISSING when Python raises ValueError. */
static gy_jv int_of_text(gy_jx *x, gy_jv s, int64_t base) {
    s = gy_jx_strip(s, gy_jv_of(JX_MISSING), 3);
    bool neg = s.n && s.s[0] == '-';
    const char *p = s.s + (s.n && (*s.s == '-' || *s.s == '+')), *end = s.s + s.n;
    int prefix = end - p > 1 && p[0] == '0' ? ((p[1] | 32) == 'x'   ? 16
                                               : (p[1] | 32) == 'o' ? 8
                                               : (p[1] | 32) == 'b' ? 2
                                                                    : 0)
                                            : 0;
    if (prefix && (base == prefix || base == 0))
        p += 2, base = prefix, p += p < end && *p == '_';
    else if (base == 0)
        base = 10;
    char *text = gy_jx_alloc(x, (size_t)(end - p) + 2), *o = text + 1;
    uint64_t u = 0;
    for (const char *q = p; q < end; q++) {
        if (*q == '_' && q > p && q[-1] != '_' && q + 1 < end) continue;
        int d = digit_of(*q);
        if (d >= base) return gy_jv_of(JX_MISSING);
        *o++ = *q;
        if (base != 10 && (u >> 58 || (u = u * (uint64_t)base + (uint64_t)d) >> 63))
            gy_jx_fail(x, GY_ELIMIT, "integer too large");
    }
    if (p >= end) return gy_jv_of(JX_MISSING);
    if (base != 10) return gy_jv_int(neg ? -(int64_t)u : (int64_t)u);
    text[0] = neg ? '-' : '+';
    return gy_jx_int_text(x, neg ? text : text + 1, (size_t)(o - text) - !neg);
}

static gy_jv f_int(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    gy_jv r = gy_jv_of(JX_MISSING), absent = gy_jv_given(a[0]) ? a[0] : gy_jv_int(0);
    double f;
    int64_t base = gy_jv_given(a[1]) ? gy_jx_index(x, a[1], "base") : 10;
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (gy_jv_is_int(v)) return gy_jv_int(v.i);
    if (v.t == JX_BIG) return v;
    if (v.t == JX_FLOAT && isinf(v.f))
        gy_jx_fail(x, GY_EFORMAT, "cannot convert float infinity to integer");
    if (v.t == JX_FLOAT) r = int_of_float(x, v.f);
    if (v.t == JX_STR) {
        bool base_ok = base == 0 || (base >= 2 && base <= 36);
        r = base_ok ? int_of_text(x, v, base) : r;
        gy_jv s = gy_jx_strip(v, gy_jv_of(JX_MISSING), 3);
        if (!gy_jv_given(r) && gy_jx_parse_double(s.s, s.n, &f)) r = int_of_float(x, f);
    }
    return gy_jv_given(r) ? r : absent;
}

static gy_jv f_float(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    double f;
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (gy_jv_is_num(v)) return gy_jv_float(gy_jx_double(x, v));
    gy_jv s = v.t == JX_STR ? gy_jx_strip(v, gy_jv_of(JX_MISSING), 3) : gy_jv_str("", 0);
    if (gy_jx_parse_double(s.s, s.n, &f)) return gy_jv_float(f);
    return gy_jv_given(a[0]) ? a[0] : gy_jv_float(0);
}

static gy_jv f_tojson(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    size_t start = x->tmp.n;
    gy_jx_tojson(x, &x->tmp, v, gy_jv_truth(a[0]), a[1], a[2], gy_jv_truth(a[3]));
    if (x->tmp.over) gy_jx_fail(x, GY_ELIMIT, "text too long");
    gy_jv s = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start;
    return s;
}

static gy_jv f_from_json(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    return gy_jx_parse_json(x, v);
}

static const gy_jfn filters[] = {
    {"abs", f_abs, "", 0, 0},
    {"attr", f_attr, "name", 1, 0},
    {"batch", f_batch, "linecount fill_with", 1, JX_LAZY},
    {"count", f_length, "", 0, 0},
    {"d", f_default, "default_value boolean", 0, 0},
    {"default", f_default, "default_value boolean", 0, 0},
    {"dictsort", f_dictsort, "case_sensitive by reverse", 0, 0},
    {"first", f_first, "", 0, 0},
    {"float", f_float, "default", 0, 0},
    {"from_json", f_from_json, "", 0, 0},
    {"fromjson", f_from_json, "", 0, 0},
    {"groupby", f_groupby, "attribute default case_sensitive", 1, 0},
    {"int", f_int, "default base", 0, 0},
    {"items", f_items, "", 0, JX_LAZY},
    {"last", f_last, "", 0, 0},
    {"length", f_length, "", 0, 0},
    {"list", f_list, "", 0, 0},
    {"map", f_map, "", 0, JX_RAW | JX_LAZY},
    {"max", f_max, "case_sensitive attribute", 0, 0},
    {"min", f_min, "case_sensitive attribute", 0, 0},
    {"reject", f_reject, "", 0, JX_RAW | JX_LAZY},
    {"rejectattr", f_rejectattr, "", 0, JX_RAW | JX_LAZY},
    {"reverse", f_reverse, "", 0, 0},
    {"round", f_round, "precision method", 0, 0},
    {"select", f_select, "", 0, JX_RAW | JX_LAZY},
    {"selectattr", f_selectattr, "", 0, JX_RAW | JX_LAZY},
    {"slice", f_slice, "slices fill_with", 1, JX_LAZY},
    {"sort", f_sort, "reverse case_sensitive attribute", 0, 0},
    {"sum", f_sum, "attribute start", 0, 0},
    {"tojson", f_tojson, "ensure_ascii indent separators sort_keys", 0, 0},
    {"unique", f_unique, "case_sensitive attribute", 0, JX_LAZY},
};

const gy_jfn *gy_jx_filter(const char *name, size_t n) {
    const gy_jfn *fn = gy_jx_find(filters, sizeof filters / sizeof *filters, name, n);
    return fn ? fn : gy_jx_find(gy_jx_filters2, gy_jx_n_filters2, name, n);
}
