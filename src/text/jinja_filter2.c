/* Filters over text. x->tmp is the place where a result is built; nested calls leave what is before
 * their start alone. */
#include <ctype.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"
#include "text/jinja_str.h"
#include "text/unicode.h"

static gy_jv f_upper(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, (void)raw, gy_js_upper(x, gy_jx_soft(x, v));
}
static gy_jv f_lower(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, (void)raw, gy_js_lower(x, gy_jx_soft(x, v));
}
static gy_jv f_capitalize(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, (void)raw, gy_js_capitalize(x, gy_jx_soft(x, v));
}
static gy_jv f_string(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, (void)raw, gy_jx_soft(x, v);
}
static gy_jv f_escape(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    return (void)a, (void)raw, gy_jx_escaped(x, v);
}

static gy_jv f_safe(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    gy_jv s = gy_jx_soft(x, v);
    s.mark = 1;
    return s;
}

static gy_jv f_forceescape(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    gy_jv s = gy_jx_soft(x, v);
    s.mark = 0;
    return gy_jx_escaped(x, s);
}

/* Jinja's own title: words begin after white space and any of - ( { [ <. */
static gy_jv f_title(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    gy_jv s = gy_jx_soft(x, v);
    size_t start = x->tmp.n, i = 0;
    while (i < s.n) {
        size_t from = i, first = 0;
        uint32_t cp;
        for (; i < s.n; i += first) {
            first = gy_utf8_get(s.s + i, s.n - i, &cp);
            if (!gy_jx_space(cp) && !(cp < 0x80 && cp && strchr("-({[<", (int)cp))) break;
        }
        gy_buf_add(&x->tmp, s.s + from, i - from);
        size_t word = i;
        for (size_t k = 0; i < s.n; i += k) {
            k = gy_utf8_get(s.s + i, s.n - i, &cp);
            if (gy_jx_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp))) break;
        }
        if (i == word) continue;
        gy_uc_upper_text(&x->tmp, s.s + word, first);
        gy_uc_lower_text(&x->tmp, s.s + word + first, i - word - first);
    }
    return gy_js_take(x, start, 0);
}

static gy_jv f_trim(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    return gy_js_strip(x, gy_jx_soft(x, v), a[0], 3);
}

static gy_jv f_center(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    int64_t width = gy_jv_given(a[0]) ? gy_jx_index(x, a[0], "width") : 80;
    return gy_js_pad(x, gy_jx_soft(x, v), width, gy_jv_str(" ", 1), JS_CENTER);
}

static gy_jv f_replace(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    gy_jv s = gy_jx_soft(x, v), from = gy_jx_soft(x, a[0]), to = gy_jx_soft(x, a[1]);
    int64_t count = gy_jv_given(a[2]) && a[2].t != JX_NONE ? gy_jx_index(x, a[2], "count") : -1;
    if (!x->escape)
        s.mark = 0, to.mark = 0;
    else if ((from.mark || to.mark) && !s.mark)
        s = gy_jx_escaped(x, s);
    if (s.mark) to = gy_jx_escaped(x, to);
    return gy_js_replace(x, s, from, to, count);
}

static gy_jv f_join(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    gy_jlist *l = gy_jx_items(x, v);
    gy_jv sep = gy_jv_given(a[0]) ? gy_jx_soft(x, a[0]) : gy_jv_str("", 0);
    bool marked = sep.mark && x->escape;
    gy_jv *part = gy_jx_alloc(x, l->n * sizeof *part);
    for (uint32_t i = 0; i < l->n; i++) {
        part[i] = gy_jx_soft(x, gy_jx_get_path(x, l->v[i], a[1], gy_jv_of(JX_MISSING)));
        marked |= part[i].mark && x->escape;
    }
    size_t start = x->tmp.n;
    if (marked) sep = gy_jx_escaped(x, sep);
    for (uint32_t i = 0; i < l->n; i++) {
        gy_jv p = marked ? gy_jx_escaped(x, part[i]) : part[i];
        if (i) gy_buf_add(&x->tmp, sep.s, sep.n);
        gy_buf_add(&x->tmp, p.s, p.n);
        gy_jx_charge(x, sep.n + p.n);
    }
    return gy_js_take(x, start, marked);
}

static gy_jv f_indent(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    if (v.t != JX_STR) gy_jx_fail(x, GY_EFORMAT, "indent needs a string, not %s", gy_jv_type(v));
    bool first = gy_jv_truth(a[1]), blank = gy_jv_truth(a[2]);
    gy_jv by = a[0], space = gy_jv_str(" ", 1);
    if (by.t != JX_STR)
        by = gy_js_pad(x, gy_jv_str("", 0), gy_jv_given(by) ? gy_jx_index(x, by, "width") : 4,
                       space, JS_LEFT);
    gy_jlist *lines = gy_js_splitlines(x, gy_jx_join2(x, v, gy_jv_str("\n", 1)), false);
    size_t start = x->tmp.n;
    for (uint32_t i = 0; i < lines->n; i++) {
        gy_jv line = lines->v[i];
        if (i) gy_buf_c(&x->tmp, '\n');
        if (i ? blank || line.n : first) gy_buf_add(&x->tmp, by.s, by.n);
        gy_buf_add(&x->tmp, line.s, line.n);
        gy_jx_charge(x, by.n + line.n);
    }
    return gy_js_take(x, start, v.mark);
}

static bool word_char(uint32_t cp) {
    gy_uc_cat c = gy_uc_category(cp);
    return cp == '_' || gy_uc_alpha(cp) || c == GY_UC_ND || c == GY_UC_NL || c == GY_UC_NO;
}

static gy_jv f_wordcount(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    gy_jv s = gy_jx_soft(x, v);
    int64_t words = 0;
    bool in = false;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += gy_utf8_get(s.s + i, s.n - i, &cp);
        words += word_char(cp) && !in;
        in = word_char(cp);
    }
    return gy_jv_int(words);
}

static gy_jv f_truncate(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    int64_t length = gy_jv_given(a[0]) ? gy_jx_index(x, a[0], "length") : 255;
    int64_t leeway = gy_jv_given(a[3]) && a[3].t != JX_NONE ? gy_jx_index(x, a[3], "leeway") : 5;
    gy_jv end = gy_jv_given(a[2]) ? a[2] : gy_jv_cstr("...");
    if (gy_jx_len(x, v) < 0 || end.t != JX_STR) gy_jx_fail(x, GY_EFORMAT, "truncate needs strings");
    int64_t tail = gy_jx_len(x, end);
    if (length < tail || leeway < 0)
        gy_jx_fail(x, GY_EFORMAT, "truncate: length is less than the end or leeway negative");
    if (gy_jx_len(x, v) - leeway <= length) return v; /* whatever it is */
    if (v.t != JX_STR) gy_jx_fail(x, GY_EFORMAT, "truncate needs a string, not %s", gy_jv_type(v));
    gy_jv s = v;
    s.n = (uint32_t)gy_jx_offset(v.s, v.n, (size_t)(length - tail));
    const char *space = gy_jv_truth(a[1]) ? NULL : memrchr(s.s, ' ', s.n);
    if (space) s.n = (uint32_t)(space - s.s);
    return gy_jx_binary(x, JO_ADD, s, end);
}

/* The code point that an entity "&name;" at p names, and its length; 0 when it is none. */
static size_t entity(const char *p, size_t n, uint32_t *cp) {
    static const struct {
        const char *name;
        uint32_t cp;
    } named[] = {{"amp;", '&'},  {"lt;", '<'},    {"gt;", '>'},
                 {"quot;", '"'}, {"apos;", '\''}, {"nbsp;", 0xA0}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        size_t k = strlen(named[i].name);
        if (n > k && memcmp(p + 1, named[i].name, k) == 0) return *cp = named[i].cp, k + 1;
    }
    if (n < 4 || p[1] != '#') return 0;
    bool hex = (p[2] | 32) == 'x';
    size_t i = hex ? 3 : 2, from = i;
    for (*cp = 0; i < n && i < from + 8 &&
                  (hex ? isxdigit((unsigned char)p[i]) : isdigit((unsigned char)p[i]));
         i++)
        *cp = *cp * (hex ? 16 : 10) + (uint32_t)(p[i] <= '9' ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    return i > from && i < n && p[i] == ';' ? i + 1 : 0;
}

static gy_jv f_striptags(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    gy_jv s = gy_jx_soft(x, v);
    size_t start = x->tmp.n, i = 0;
    gy_jx_charge(x, (size_t)s.n * 2);
    while (i < s.n) { /* comments go first, then tags; an unclosed one stays as text */
        const char *open = memmem(s.s + i, s.n - i, "<!--", 4), *close = NULL;
        if (open) close = memmem(open, (size_t)(s.s + s.n - open), "-->", 3);
        size_t stop = close ? (size_t)(open - s.s) : s.n;
        gy_buf_add(&x->tmp, s.s + i, stop - i);
        i = close ? (size_t)(close - s.s) + 3 : s.n;
    }
    s = gy_js_take(x, start, 0);
    for (i = 0; i < s.n;) {
        const char *open = memchr(s.s + i, '<', s.n - i), *close = NULL;
        if (open) close = memchr(open, '>', (size_t)(s.s + s.n - open));
        size_t stop = close ? (size_t)(open - s.s) : s.n;
        gy_buf_add(&x->tmp, s.s + i, stop - i);
        i = close ? (size_t)(close - s.s) + 1 : s.n;
    }
    gy_jlist *words = gy_js_split(x, gy_js_take(x, start, 0), gy_jv_of(JX_NONE), -1, false);
    for (uint32_t w = 0; w < words->n; w++) {
        if (w) gy_buf_c(&x->tmp, ' ');
        for (i = 0; i < words->v[w].n;) {
            const char *p = words->v[w].s + i;
            uint32_t cp;
            size_t k = *p == '&' ? entity(p, words->v[w].n - i, &cp) : 0;
            if (k)
                gy_buf_utf8(&x->tmp, cp);
            else
                gy_buf_c(&x->tmp, *p);
            i += k ? k : 1;
        }
    }
    return gy_js_take(x, start, 0);
}

static void url_quote(gy_jx *x, gy_jv v, bool query) {
    static const char hex[] = "0123456789ABCDEF";
    gy_jv s = gy_jx_soft(x, v);
    gy_jx_charge(x, s.n);
    for (uint32_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        bool plain = c < 0x80 && (isalnum(c) || (c && strchr("_.-~", c)) || (c == '/' && !query));
        if (plain)
            gy_buf_c(&x->tmp, (char)c);
        else if (c == ' ' && query)
            gy_buf_c(&x->tmp, '+');
        else
            gy_buf_add(&x->tmp, (char[3]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}

static gy_jv f_urlencode(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    size_t start = x->tmp.n;
    bool many = v.t == JX_DICT || v.t == JX_LIST || v.t == JX_TUPLE || v.t == JX_VIEW ||
                v.t == JX_ITER || v.t == JX_UNDEF;
    if (!many) {
        url_quote(x, v, false);
        return gy_js_take(x, start, 0);
    }
    if (v.t == JX_DICT) v = (gy_jv){.t = JX_VIEW, .mark = JX_VIEW_ITEMS, .d = v.d};
    gy_jlist *l = gy_jx_items(x, v);
    for (uint32_t i = 0; i < l->n; i++) {
        gy_jlist *pair = gy_jx_items(x, l->v[i]);
        if (pair->n != 2) gy_jx_fail(x, GY_EFORMAT, "urlencode needs pairs");
        if (i) gy_buf_c(&x->tmp, '&');
        url_quote(x, pair->v[0], true);
        gy_buf_c(&x->tmp, '=');
        url_quote(x, pair->v[1], true);
    }
    return gy_js_take(x, start, 0);
}

static gy_jv f_xmlattr(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)raw;
    size_t start = x->tmp.n;
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (v.t != JX_DICT) gy_jx_fail(x, GY_EFORMAT, "xmlattr needs a mapping, not %s", gy_jv_type(v));
    bool any = false, space = !gy_jv_given(a[0]) || gy_jv_truth(a[0]);
    for (uint32_t i = 0; i < v.d->n; i++) {
        gy_jv key = v.d->e[i].k, value = v.d->e[i].v;
        if (value.t == JX_NONE || value.t == JX_UNDEF) continue;
        for (uint32_t k = 0; key.t == JX_STR && k < key.n; k++)
            if (key.s[k] && strchr(" \t\n\r\f\v/>=", key.s[k]))
                gy_jx_fail(x, GY_EFORMAT, "Invalid character in attribute name");
        key = gy_jx_escaped(x, key), value = gy_jx_escaped(x, value);
        if (any || space) gy_buf_c(&x->tmp, ' ');
        gy_buf_add(&x->tmp, key.s, key.n), gy_buf_puts(&x->tmp, "=\"");
        gy_buf_add(&x->tmp, value.s, value.n), gy_buf_c(&x->tmp, '"');
        any = true;
    }
    return gy_js_take(x, start, x->escape);
}

static gy_jv f_filesizeformat(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    static const char units[] = "kMGTPEZY";
    (void)raw;
    bool binary = gy_jv_truth(a[0]);
    double f = 0, base = binary ? 1024 : 1000, unit = base;
    gy_jv text = v.t == JX_STR ? gy_jx_strip(v, gy_jv_of(JX_MISSING), 3) : v;
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    if (v.t == JX_STR ? !gy_jx_parse_double(text.s, text.n, &f) : !gy_jv_is_num(v))
        gy_jx_fail(x, GY_EFORMAT, "filesizeformat needs a number, not %s", gy_jv_type(v));
    if (v.t != JX_STR) f = gy_jx_double(x, v);
    char out[64];
    int i = 0;
    if (f == 1) return gy_jv_cstr("1 Byte");
    if (f < base) {
        snprintf(out, sizeof out, "%lld Bytes", (long long)f);
        return gy_jx_str(x, out, strlen(out));
    }
    for (; i < 7 && f >= unit * base; i++) unit *= base;
    snprintf(out, sizeof out, "%.1f %c%s", base * f / (unit * base),
             binary && i == 0 ? 'K' : units[i], binary ? "iB" : "B");
    return gy_jx_str(x, out, strlen(out));
}

static gy_jv f_format(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a;
    if (raw->n && raw->n_kw)
        gy_jx_fail(x, GY_EFORMAT, "can't handle positional and keyword arguments at the same time");
    gy_jv args = gy_jx_tuple(x, raw->pos, raw->n);
    if (raw->n_kw) {
        args = gy_jv_dict(gy_jx_dict(x, raw->n_kw));
        for (uint32_t i = 0; i < raw->n_kw; i++)
            gy_jx_dict_set(x, args.d, raw->kw[i].name, raw->kw[i].v);
    }
    return gy_jx_percent(x, gy_jx_soft(x, v), args);
}

/* A copy of v whose dicts are in the order of their keys, as pprint shows them (a value that fits
 * on one line). */
static gy_jv ordered(gy_jx *x, gy_jv v) {
    gy_jx_enter(x);
    if (v.t == JX_DICT) {
        gy_jlist *keys = gy_jx_list(x, v.d->n);
        gy_jdict *d = gy_jx_dict(x, v.d->n);
        for (uint32_t i = 0; i < v.d->n; i++) {
            uint32_t k = keys->n++;
            for (; k && gy_jx_cmp(x, v.d->e[i].k, keys->v[k - 1], JO_LT) == -1; k--)
                keys->v[k] = keys->v[k - 1];
            keys->v[k] = v.d->e[i].k;
        }
        for (uint32_t i = 0; i < keys->n; i++)
            gy_jx_dict_set(x, d, keys->v[i], ordered(x, *gy_jx_dict_get(x, v.d, keys->v[i])));
        v = gy_jv_dict(d);
    } else if (v.t == JX_LIST || v.t == JX_TUPLE) {
        gy_jlist *l = gy_jx_list(x, v.l->n);
        for (uint32_t i = 0; i < v.l->n; i++) gy_jx_push(x, l, ordered(x, v.l->v[i]));
        v.l = l;
    }
    gy_jx_leave(x);
    return v;
}

static gy_jv f_pprint(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {
    (void)a, (void)raw;
    size_t start = x->tmp.n;
    gy_jx_repr(x, &x->tmp, ordered(x, v));
    return gy_js_take(x, start, 0);
}

const gy_jfn gy_jx_filters2[] = {
    {"capitalize", f_capitalize, "", 0, 0},
    {"center", f_center, "width", 0, 0},
    {"e", f_escape, "", 0, 0},
    {"escape", f_escape, "", 0, 0},
    {"filesizeformat", f_filesizeformat, "binary", 0, 0},
    {"forceescape", f_forceescape, "", 0, 0},
    {"format", f_format, "", 0, JX_RAW},
    {"indent", f_indent, "width first blank", 0, 0},
    {"join", f_join, "d attribute", 0, 0},
    {"lower", f_lower, "", 0, 0},
    {"pprint", f_pprint, "", 0, 0},
    {"replace", f_replace, "old new count", 2, 0},
    {"safe", f_safe, "", 0, 0},
    {"string", f_string, "", 0, 0},
    {"striptags", f_striptags, "", 0, 0},
    {"title", f_title, "", 0, 0},
    {"trim", f_trim, "chars", 0, 0},
    {"truncate", f_truncate, "length killwords end leeway", 0, 0},
    {"upper", f_upper, "", 0, 0},
    {"urlencode", f_urlencode, "", 0, 0},
    {"wordcount", f_wordcount, "", 0, 0},
    {"xmlattr", f_xmlattr, "autospace", 0, 0},
};
const size_t gy_jx_n_filters2 = sizeof gy_jx_filters2 / sizeof *gy_jx_filters2;
