/* Methods of strings, lists, tuples, dicts, loops and cyclers. */
#include "base/utf8.h"
#include "text/jinja.h"
#include "text/jinja_str.h"
#include "text/unicode.h"

#define METHOD(name) static gy_jv name(gy_jx *x, gy_jv s, gy_jv *a, const gy_jargs *raw)
#define UNUSED       (void)x, (void)s, (void)a, (void)raw

static gy_jv need_str(gy_jx *x, gy_jv v, const char *method) {
    if (v.t != JX_STR) gy_jx_fail(x, GY_EFORMAT, "%s() needs a str, not %s", method, gy_jv_type(v));
    return v;
}

static int64_t count_arg(gy_jx *x, gy_jv v) {
    return gy_jv_given(v) ? gy_jx_index(x, v, "the count") : -1;
}

METHOD(s_upper) {
    return UNUSED, gy_js_upper(x, s);
}
METHOD(s_lower) {
    return UNUSED, gy_js_lower(x, s);
}
METHOD(s_capitalize) {
    return UNUSED, gy_js_capitalize(x, s);
}
METHOD(s_strip) {
    return UNUSED, gy_js_strip(x, s, a[0], 3);
}
METHOD(s_lstrip) {
    return UNUSED, gy_js_strip(x, s, a[0], 1);
}
METHOD(s_rstrip) {
    return UNUSED, gy_js_strip(x, s, a[0], 2);
}
METHOD(s_split) {
    return UNUSED, gy_jv_list(gy_js_split(x, s, a[0], count_arg(x, a[1]), false));
}
METHOD(s_rsplit) {
    return UNUSED, gy_jv_list(gy_js_split(x, s, a[0], count_arg(x, a[1]), true));
}
METHOD(s_splitlines) {
    return UNUSED, gy_jv_list(gy_js_splitlines(x, s, gy_jv_truth(a[0])));
}
METHOD(s_format) {
    return UNUSED, gy_jx_brace(x, s, raw);
}

METHOD(s_title) {
    UNUSED;
    size_t start = x->tmp.n;
    gy_uc_title_text(&x->tmp, s.s, s.n);
    return gy_js_take(x, start, s.mark);
}

METHOD(s_swapcase) {
    UNUSED;
    size_t start = x->tmp.n;
    for (size_t i = 0, k; i < s.n; i += k) {
        uint32_t cp;
        k = gy_utf8_get(s.s + i, s.n - i, &cp);
        gy_uc_cat c = gy_uc_category(cp);
        if (c == GY_UC_LU)
            gy_uc_lower_text(&x->tmp, s.s + i, k);
        else if (c == GY_UC_LL)
            gy_uc_upper_text(&x->tmp, s.s + i, k);
        else
            gy_buf_add(&x->tmp, s.s + i, k);
    }
    return gy_js_take(x, start, s.mark);
}

METHOD(s_replace) {
    UNUSED;
    gy_jv from = need_str(x, a[0], "replace"), to = need_str(x, a[1], "replace");
    return gy_js_replace(x, s, from, s.mark ? gy_jx_escaped(x, to) : to, count_arg(x, a[2]));
}

/* s cut to the code points [start, stop) that a call asks for; MISSING when the range is empty
 * backwards. */
static gy_jv window(gy_jx *x, gy_jv s, gy_jv start, gy_jv stop, int64_t *from) {
    int64_t n = gy_jx_len(x, s), lo = 0, hi = n;
    if (gy_jv_given(start) && start.t != JX_NONE) lo = gy_jx_index(x, start, "start");
    if (gy_jv_given(stop) && stop.t != JX_NONE) hi = gy_jx_index(x, stop, "end");
    if (lo < 0) lo = lo + n < 0 ? 0 : lo + n;
    if (hi < 0) hi = hi + n < 0 ? 0 : hi + n;
    if (hi > n) hi = n;
    *from = lo;
    if (lo > hi) return gy_jv_of(JX_MISSING);
    size_t at = gy_jx_offset(s.s, s.n, (size_t)lo);
    return gy_jv_str(s.s + at, gy_jx_offset(s.s + at, s.n - at, (size_t)(hi - lo)));
}

static int64_t find_in(gy_jx *x, gy_jv s, gy_jv *a, bool last, const char *method) {
    int64_t from;
    gy_jv what = need_str(x, a[0], method), w = window(x, s, a[1], a[2], &from);
    const char *p = NULL;
    if (!gy_jv_given(w)) return -1;
    gy_jx_charge(x, w.n);
    if (last) {
        if ((uint64_t)w.n * what.n > (1u << 30)) gy_jx_fail(x, GY_ELIMIT, "search: too much work");
        for (size_t i = w.n + 1; i-- > 0 && !p;)
            if (w.n - i >= what.n && memcmp(w.s + i, what.s, what.n) == 0) p = w.s + i;
    } else {
        p = what.n ? memmem(w.s, w.n, what.s, what.n) : w.s;
    }
    return p ? from + (int64_t)gy_jx_chars(w.s, (size_t)(p - w.s)) : -1;
}

static gy_jv found(gy_jx *x, int64_t i) {
    if (i < 0) gy_jx_fail(x, GY_EFORMAT, "substring not found");
    return gy_jv_int(i);
}

METHOD(s_find) {
    return UNUSED, gy_jv_int(find_in(x, s, a, false, "find"));
}
METHOD(s_rfind) {
    return UNUSED, gy_jv_int(find_in(x, s, a, true, "rfind"));
}
METHOD(s_index) {
    return UNUSED, found(x, find_in(x, s, a, false, "index"));
}
METHOD(s_rindex) {
    return UNUSED, found(x, find_in(x, s, a, true, "rindex"));
}

METHOD(s_count) {
    UNUSED;
    int64_t from, n = 0;
    gy_jv what = need_str(x, a[0], "count"), w = window(x, s, a[1], a[2], &from);
    if (!gy_jv_given(w)) return gy_jv_int(0);
    if (!what.n) return gy_jv_int((int64_t)gy_jx_chars(w.s, w.n) + 1);
    gy_jx_charge(x, w.n);
    for (const char *p = w.s; (p = memmem(p, (size_t)(w.s + w.n - p), what.s, what.n)); p += what.n)
        n++;
    return gy_jv_int(n);
}

static bool affix(gy_jx *x, gy_jv w, gy_jv what, bool end, const char *method) {
    if (what.t == JX_TUPLE) {
        for (uint32_t i = 0; i < what.l->n; i++)
            if (affix(x, w, need_str(x, what.l->v[i], method), end, method)) return true;
        return false;
    }
    need_str(x, what, method);
    return gy_jv_given(w) && w.n >= what.n &&
           memcmp(end ? w.s + w.n - what.n : w.s, what.s, what.n) == 0;
}

METHOD(s_startswith) {
    UNUSED;
    int64_t from;
    return gy_jv_bool(affix(x, window(x, s, a[1], a[2], &from), a[0], false, "startswith"));
}
METHOD(s_endswith) {
    UNUSED;
    int64_t from;
    return gy_jv_bool(affix(x, window(x, s, a[1], a[2], &from), a[0], true, "endswith"));
}

METHOD(s_removeprefix) {
    UNUSED;
    if (affix(x, s, need_str(x, a[0], "removeprefix"), false, "")) s.s += a[0].n, s.n -= a[0].n;
    return s;
}
METHOD(s_removesuffix) {
    UNUSED;
    if (affix(x, s, need_str(x, a[0], "removesuffix"), true, "")) s.n -= a[0].n;
    return s;
}

METHOD(s_join) {
    UNUSED;
    gy_jlist *l = gy_jx_items(x, a[0]);
    for (uint32_t i = 0; i < l->n; i++)
        if (l->v[i].t != JX_STR && !s.mark)
            gy_jx_fail(x, GY_EFORMAT, "sequence item %u: expected str instance, %s found", i,
                       gy_jv_type(l->v[i]));
    size_t start = x->tmp.n;
    for (uint32_t i = 0; i < l->n; i++) {
        gy_jv part = s.mark ? gy_jx_escaped(x, l->v[i]) : l->v[i];
        if (i) gy_buf_add(&x->tmp, s.s, s.n);
        gy_buf_add(&x->tmp, part.s, part.n);
        gy_jx_charge(x, (size_t)s.n + part.n);
    }
    return gy_js_take(x, start, s.mark);
}

static gy_jv partition(gy_jx *x, gy_jv s, gy_jv sep, bool last) {
    gy_jv empty = gy_jv_str("", 0), part[3] = {s, empty, empty};
    need_str(x, sep, "partition");
    part[1].mark = part[2].mark = sep.mark = s.mark;
    if (!sep.n) gy_jx_fail(x, GY_EFORMAT, "empty separator");
    gy_jlist *l = gy_js_split(x, s, sep, 1, last);
    if (l->n == 2)
        part[0] = l->v[0], part[1] = sep, part[2] = l->v[1];
    else if (last)
        part[2] = s, part[0] = part[1];
    return gy_jx_tuple(x, part, 3);
}
METHOD(s_partition) {
    return UNUSED, partition(x, s, a[0], false);
}
METHOD(s_rpartition) {
    return UNUSED, partition(x, s, a[0], true);
}

static gy_jv pad(gy_jx *x, gy_jv s, gy_jv *a, int where) {
    gy_jv fill = gy_jv_given(a[1]) ? need_str(x, a[1], "padding") : gy_jv_str(" ", 1);
    return gy_js_pad(x, s, gy_jx_index(x, a[0], "width"), fill, where);
}
METHOD(s_center) {
    return UNUSED, pad(x, s, a, JS_CENTER);
}
METHOD(s_ljust) {
    return UNUSED, pad(x, s, a, JS_RIGHT);
}
METHOD(s_rjust) {
    return UNUSED, pad(x, s, a, JS_LEFT);
}

METHOD(s_zfill) {
    UNUSED;
    int64_t width = gy_jx_index(x, a[0], "width");
    bool sign = s.n && (s.s[0] == '-' || s.s[0] == '+');
    gy_jv rest = s;
    if (sign) rest.s++, rest.n--, width--;
    rest = gy_js_pad(x, rest, width, gy_jv_str("0", 1), JS_LEFT);
    return sign ? gy_jx_join2(x, gy_jv_str(s.s, 1), rest) : rest;
}

METHOD(s_expandtabs) {
    UNUSED;
    int64_t size = gy_jv_given(a[0]) ? gy_jx_index(x, a[0], "tabsize") : 8, column = 0;
    if (size > 1024) gy_jx_fail(x, GY_ELIMIT, "tabs wider than 1024");
    size_t start = x->tmp.n;
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.s[i] == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            gy_jx_charge(x, (size_t)n);
            for (column += n; n-- > 0;) gy_buf_c(&x->tmp, ' ');
            continue;
        }
        gy_buf_c(&x->tmp, s.s[i]);
        column = s.s[i] == '\n' || s.s[i] == '\r'
                     ? 0
                     : column + (((unsigned char)s.s[i] & 0xC0) != 0x80);
    }
    return gy_js_take(x, start, s.mark);
}

/* True when s is not empty and every code point passes. */
static bool every(gy_jv s, bool (*pass)(uint32_t)) {
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += gy_utf8_get(s.s + i, s.n - i, &cp);
        if (!pass(cp)) return false;
    }
    return s.n > 0;
}
static bool decimal(uint32_t cp) {
    return gy_uc_category(cp) == GY_UC_ND;
}
/* Superscripts and circled digits have a digit value besides the decimal digits. */
static bool digit(uint32_t cp) {
    return decimal(cp) || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || cp == 0x2070 ||
           (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) ||
           (cp >= 0x2460 && cp <= 0x2468);
}
static bool numeric(uint32_t cp) {
    gy_uc_cat c = gy_uc_category(cp);
    return c == GY_UC_ND || c == GY_UC_NL || c == GY_UC_NO;
}
static bool alnum(uint32_t cp) {
    return gy_uc_alpha(cp) || numeric(cp);
}
static bool printable(uint32_t cp) {
    return cp == ' ' || gy_uc_printable(cp);
}
static bool ascii(uint32_t cp) {
    return cp < 0x80;
}
METHOD(s_isdigit) {
    return UNUSED, gy_jv_bool(every(s, digit));
}
METHOD(s_isdecimal) {
    return UNUSED, gy_jv_bool(every(s, decimal));
}
METHOD(s_isnumeric) {
    return UNUSED, gy_jv_bool(every(s, numeric));
}
METHOD(s_isalpha) {
    return UNUSED, gy_jv_bool(every(s, gy_uc_alpha));
}
METHOD(s_isalnum) {
    return UNUSED, gy_jv_bool(every(s, alnum));
}
METHOD(s_isspace) {
    return UNUSED, gy_jv_bool(every(s, gy_jx_space));
}
METHOD(s_isascii) {
    return UNUSED, gy_jv_bool(!s.n || every(s, ascii));
}
METHOD(s_isprintable) {
    return UNUSED, gy_jv_bool(!s.n || every(s, printable));
}
METHOD(s_islower) {
    return UNUSED, gy_jx_apply(x, gy_jx_test("lower", 5), s, &(gy_jargs){0});
}
METHOD(s_isupper) {
    return UNUSED, gy_jx_apply(x, gy_jx_test("upper", 5), s, &(gy_jargs){0});
}

METHOD(s_istitle) {
    UNUSED;
    bool cased = false, any = false;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += gy_utf8_get(s.s + i, s.n - i, &cp);
        gy_uc_cat c = gy_uc_category(cp);
        bool upper = c == GY_UC_LU || c == GY_UC_LT, lower = c == GY_UC_LL;
        if ((upper && cased) || (lower && !cased)) return gy_jv_bool(false);
        cased = upper || lower, any |= cased;
    }
    return gy_jv_bool(any);
}

static const gy_jfn str_methods[] = {{"capitalize", s_capitalize, "", 0, 0},
                                     {"center", s_center, "/width fillchar", 1, 0},
                                     {"casefold", s_lower, "", 0, 0},
                                     {"count", s_count, "/sub start end", 1, 0},
                                     {"endswith", s_endswith, "/suffix start end", 1, 0},
                                     {"expandtabs", s_expandtabs, "tabsize", 0, 0},
                                     {"find", s_find, "/sub start end", 1, 0},
                                     {"format", s_format, "", 0, JX_RAW},
                                     {"index", s_index, "/sub start end", 1, 0},
                                     {"isalnum", s_isalnum, "", 0, 0},
                                     {"isalpha", s_isalpha, "", 0, 0},
                                     {"isascii", s_isascii, "", 0, 0},
                                     {"isdecimal", s_isdecimal, "", 0, 0},
                                     {"isdigit", s_isdigit, "", 0, 0},
                                     {"islower", s_islower, "", 0, 0},
                                     {"isnumeric", s_isnumeric, "", 0, 0},
                                     {"isprintable", s_isprintable, "", 0, 0},
                                     {"isspace", s_isspace, "", 0, 0},
                                     {"istitle", s_istitle, "", 0, 0},
                                     {"isupper", s_isupper, "", 0, 0},
                                     {"join", s_join, "/iterable", 1, 0},
                                     {"ljust", s_ljust, "/width fillchar", 1, 0},
                                     {"lower", s_lower, "", 0, 0},
                                     {"lstrip", s_lstrip, "/chars", 0, 0},
                                     {"partition", s_partition, "/sep", 1, 0},
                                     {"removeprefix", s_removeprefix, "/prefix", 1, 0},
                                     {"removesuffix", s_removesuffix, "/suffix", 1, 0},
                                     {"replace", s_replace, "/old new count", 2, 0},
                                     {"rfind", s_rfind, "/sub start end", 1, 0},
                                     {"rindex", s_rindex, "/sub start end", 1, 0},
                                     {"rjust", s_rjust, "/width fillchar", 1, 0},
                                     {"rpartition", s_rpartition, "/sep", 1, 0},
                                     {"rsplit", s_rsplit, "sep maxsplit", 0, 0},
                                     {"rstrip", s_rstrip, "/chars", 0, 0},
                                     {"split", s_split, "sep maxsplit", 0, 0},
                                     {"splitlines", s_splitlines, "keepends", 0, 0},
                                     {"startswith", s_startswith, "/prefix start end", 1, 0},
                                     {"strip", s_strip, "/chars", 0, 0},
                                     {"swapcase", s_swapcase, "", 0, 0},
                                     {"title", s_title, "", 0, 0},
                                     {"upper", s_upper, "", 0, 0},
                                     {"zfill", s_zfill, "/width", 1, 0}};

/* ---- Lists and tuples ---- */

METHOD(l_append) {
    return UNUSED, gy_jx_push(x, s.l, a[0]), gy_jv_of(JX_NONE);
}

METHOD(l_extend) {
    UNUSED;
    gy_jlist *more = gy_jx_items(x, a[0]);
    uint32_t n = more->n; /* a list may extend itself */
    for (uint32_t i = 0; i < n; i++) gy_jx_push(x, s.l, more->v[i]);
    return gy_jv_of(JX_NONE);
}

METHOD(l_insert) {
    UNUSED;
    int64_t i = gy_jx_index(x, a[0], "index"), n = s.l->n;
    if (i < 0) i = i + n < 0 ? 0 : i + n;
    if (i > n) i = n;
    gy_jx_push(x, s.l, a[1]);
    gy_jx_charge(x, (size_t)(n - i) * sizeof a[1]);
    memmove(s.l->v + i + 1, s.l->v + i, (size_t)(n - i) * sizeof a[1]);
    s.l->v[i] = a[1];
    return gy_jv_of(JX_NONE);
}

METHOD(l_pop) {
    UNUSED;
    int64_t n = s.l->n, i = gy_jv_given(a[0]) ? gy_jx_index(x, a[0], "index") : n - 1;
    if (i < 0) i += gy_jv_given(a[0]) ? n : 0;
    if (!n) gy_jx_fail(x, GY_EFORMAT, "pop from empty list");
    if (i < 0 || i >= n) gy_jx_fail(x, GY_EFORMAT, "pop index out of range");
    gy_jv v = s.l->v[i];
    gy_jx_charge(x, (size_t)(n - i) * sizeof v);
    memmove(s.l->v + i, s.l->v + i + 1, (size_t)(n - i - 1) * sizeof v);
    s.l->n--;
    return v;
}

METHOD(l_index) {
    UNUSED;
    if (s.t == JX_RANGE) s = gy_jv_list(gy_jx_items(x, s));
    for (uint32_t i = 0; i < s.l->n; i++)
        if (gy_jx_eq(x, s.l->v[i], a[0])) return gy_jv_int(i);
    gy_jx_fail(x, GY_EFORMAT, "the value is not in the list");
}

METHOD(l_remove) {
    gy_jv at = l_index(x, s, a, raw);
    return l_pop(x, s, &at, raw), gy_jv_of(JX_NONE);
}

METHOD(l_count) {
    UNUSED;
    int64_t n = 0;
    if (s.t == JX_RANGE) s = gy_jv_list(gy_jx_items(x, s));
    for (uint32_t i = 0; i < s.l->n; i++) n += gy_jx_eq(x, s.l->v[i], a[0]);
    return gy_jv_int(n);
}

METHOD(l_reverse) {
    UNUSED;
    gy_jx_charge(x, s.l->n * sizeof(gy_jv));
    for (uint32_t i = 0; i < s.l->n / 2; i++) {
        gy_jv t = s.l->v[i];
        s.l->v[i] = s.l->v[s.l->n - 1 - i], s.l->v[s.l->n - 1 - i] = t;
    }
    return gy_jv_of(JX_NONE);
}

METHOD(l_copy) {
    return UNUSED, gy_jx_binary(x, JO_ADD, s, gy_jv_list(gy_jx_list(x, 0)));
}
METHOD(l_clear) {
    return UNUSED, s.l->n = 0, gy_jv_of(JX_NONE);
}

static const gy_jfn list_methods[] = {{"append", l_append, "/object", 1, 0},
                                      {"clear", l_clear, "", 0, 0},
                                      {"copy", l_copy, "", 0, 0},
                                      {"count", l_count, "/value", 1, 0},
                                      {"extend", l_extend, "/iterable", 1, 0},
                                      {"index", l_index, "/value", 1, 0},
                                      {"insert", l_insert, "/index object", 2, 0},
                                      {"pop", l_pop, "/index", 0, 0},
                                      {"remove", l_remove, "/value", 1, 0},
                                      {"reverse", l_reverse, "", 0, 0}};
static const gy_jfn tuple_methods[] = {{"count", l_count, "/value", 1, 0},
                                       {"index", l_index, "/value", 1, 0}};

/* ---- Dicts ---- */

METHOD(d_get) {
    UNUSED;
    gy_jv *v = gy_jx_dict_get(x, s.d, a[0]);
    return v ? *v : gy_jv_given(a[1]) ? a[1] : gy_jv_of(JX_NONE);
}
METHOD(d_keys) {
    return UNUSED, (gy_jv){.t = JX_VIEW, .mark = JX_VIEW_KEYS, .d = s.d};
}
METHOD(d_values) {
    return UNUSED, (gy_jv){.t = JX_VIEW, .mark = JX_VIEW_VALUES, .d = s.d};
}
METHOD(d_items) {
    return UNUSED, (gy_jv){.t = JX_VIEW, .mark = JX_VIEW_ITEMS, .d = s.d};
}

METHOD(d_pop) {
    UNUSED;
    gy_jv v;
    if (gy_jx_dict_del(x, s.d, a[0], &v)) return v;
    if (!gy_jv_given(a[1])) gy_jx_fail(x, GY_EFORMAT, "pop: no such key");
    return a[1];
}

METHOD(d_setdefault) {
    UNUSED;
    gy_jv *v = gy_jx_dict_get(x, s.d, a[0]), add = gy_jv_given(a[1]) ? a[1] : gy_jv_of(JX_NONE);
    if (v) return *v;
    gy_jx_dict_set(x, s.d, a[0], add);
    return add;
}

static void update(gy_jx *x, gy_jdict *d, const gy_jargs *raw) {
    if (raw->n > 1) gy_jx_fail(x, GY_EFORMAT, "update expected at most 1 argument");
    if (raw->n && raw->pos[0].t == JX_DICT) {
        const gy_jdict *o = raw->pos[0].d;
        for (uint32_t i = 0; i < o->n; i++) gy_jx_dict_set(x, d, o->e[i].k, o->e[i].v);
    } else if (raw->n) {
        gy_jlist *l = gy_jx_items(x, raw->pos[0]);
        for (uint32_t i = 0; i < l->n; i++) {
            gy_jlist *pair = gy_jx_items(x, l->v[i]);
            if (pair->n != 2) gy_jx_fail(x, GY_EFORMAT, "a dict is made of pairs");
            gy_jx_dict_set(x, d, pair->v[0], pair->v[1]);
        }
    }
    for (uint32_t i = 0; i < raw->n_kw; i++) gy_jx_dict_set(x, d, raw->kw[i].name, raw->kw[i].v);
}
METHOD(d_update) {
    return UNUSED, update(x, s.d, raw), gy_jv_of(JX_NONE);
}

METHOD(d_copy) {
    UNUSED;
    gy_jdict *d = gy_jx_dict(x, s.d->n);
    for (uint32_t i = 0; i < s.d->n; i++) gy_jx_dict_set(x, d, s.d->e[i].k, s.d->e[i].v);
    return gy_jv_dict(d);
}

METHOD(d_clear) {
    UNUSED;
    *s.d = (gy_jdict){0};
    return gy_jv_of(JX_NONE);
}

METHOD(d_popitem) {
    UNUSED;
    if (!s.d->n) gy_jx_fail(x, GY_EFORMAT, "popitem(): dictionary is empty");
    gy_jpair last = s.d->e[s.d->n - 1];
    gy_jx_dict_del(x, s.d, last.k, &last.v);
    return gy_jx_tuple(x, (gy_jv[]){last.k, last.v}, 2);
}

static const gy_jfn dict_methods[] = {
    {"clear", d_clear, "", 0, 0},         {"copy", d_copy, "", 0, 0},
    {"get", d_get, "/key default", 1, 0}, {"items", d_items, "", 0, 0},
    {"keys", d_keys, "", 0, 0},           {"pop", d_pop, "/key default", 1, 0},
    {"popitem", d_popitem, "", 0, 0},     {"setdefault", d_setdefault, "/key default", 1, 0},
    {"update", d_update, "", 0, JX_RAW},  {"values", d_values, "", 0, 0}};

/* ---- Loops, cyclers ---- */

METHOD(o_cycle) {
    UNUSED;
    if (!raw->n || raw->n_kw) gy_jx_fail(x, GY_EFORMAT, "no items for cycling given");
    return raw->pos[s.loop->i % raw->n];
}

METHOD(o_changed) {
    UNUSED;
    gy_jv now = gy_jx_tuple(x, raw->pos, raw->n);
    bool same = gy_jv_given(s.loop->last_changed) && gy_jx_eq(x, now, s.loop->last_changed);
    s.loop->last_changed = now;
    return gy_jv_bool(!same);
}

METHOD(c_reset) {
    return UNUSED, s.l->at = 0, gy_jv_of(JX_NONE);
}
METHOD(c_next) {
    UNUSED;
    gy_jv v = s.l->v[s.l->at];
    s.l->at = (s.l->at + 1) % s.l->n;
    return v;
}

METHOD(n_is_integer) {
    return UNUSED, gy_jv_bool(gy_jx_eq(x, gy_jx_binary(x, JO_MOD, s, gy_jv_int(1)), gy_jv_int(0)));
}

static const gy_jfn loop_methods[] = {{"cycle", o_cycle, "", 0, JX_RAW},
                                      {"changed", o_changed, "", 0, JX_RAW}};
static const gy_jfn cycler_methods[] = {{"next", c_next, "", 0, 0}, {"reset", c_reset, "", 0, 0}};
static const gy_jfn float_methods[] = {{"is_integer", n_is_integer, "", 0, 0}};

#define FIND(table) gy_jx_find(table, sizeof table / sizeof *table, name, n)

const gy_jfn *gy_jx_method(gy_jv self, const char *name, size_t n) {
    switch (self.t) {
    case JX_STR: return FIND(str_methods);
    case JX_LIST: return FIND(list_methods);
    case JX_RANGE:
    case JX_TUPLE: return FIND(tuple_methods);
    case JX_DICT: return FIND(dict_methods);
    case JX_LOOP: return FIND(loop_methods);
    case JX_CYCLER: return FIND(cycler_methods);
    case JX_FLOAT: return FIND(float_methods);
    default: return NULL;
    }
}
