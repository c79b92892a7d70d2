/* Values as text: str(), repr(), white space, code points, markup escaping. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "text/jinja.h"
#include "text/unicode.h"

bool gy_jx_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x1F);
    return gy_uc_space(cp);
}

size_t gy_jx_chars(const char *s, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}

size_t gy_jx_offset(const char *s, size_t n, size_t chars) {
    size_t i = 0;
    for (; i < n; i++) {
        if (((unsigned char)s[i] & 0xC0) == 0x80) continue;
        if (!chars--) break;
    }
    return i;
}

/* The last code point of s[n], n > 0. */
static size_t last_char(const char *s, size_t n, uint32_t *cp) {
    size_t k = 1;
    while (k < n && k < 4 && ((unsigned char)s[n - k] & 0xC0) == 0x80) k++;
    gy_utf8_get(s + n - k, k, cp);
    return k;
}

static bool strips(uint32_t cp, const char *at, size_t k, gy_jv chars) {
    if (chars.t != JX_STR) return gy_jx_space(cp);
    for (size_t i = 0; i + k <= chars.n; i++)
        if (memcmp(chars.s + i, at, k) == 0) return true;
    return false;
}

gy_jv gy_jx_strip(gy_jv s, gy_jv chars, int sides) {
    uint32_t cp;
    while (sides & 1 && s.n) {
        size_t k = gy_utf8_get(s.s, s.n, &cp);
        if (!strips(cp, s.s, k, chars)) break;
        s.s += k, s.n -= (uint32_t)k;
    }
    while (sides & 2 && s.n) {
        size_t k = last_char(s.s, s.n, &cp);
        if (!strips(cp, s.s + s.n - k, k, chars)) break;
        s.n -= (uint32_t)k;
    }
    return s;
}

/* A locale of the program may write a comma; templates always see a point. */
static void fix_point(char *s) {
    for (; *s; s++)
        if (*s == ',') *s = '.';
}

size_t gy_jx_float_repr(char out[40], double f) {
    char digits[40];
    if (isnan(f)) return (size_t)snprintf(out, 40, "nan");
    if (isinf(f)) return (size_t)snprintf(out, 40, f < 0 ? "-inf" : "inf");
    double back = 0;
    for (int p = 0; p < 17; p++) {
        snprintf(digits, sizeof digits, "%.*e", p, f);
        fix_point(digits);
        if (gy_jx_parse_double(digits, strlen(digits), &back) && back == f) break;
    }
    char *e = strchr(digits, 'e'), mantissa[24];
    int exp = atoi(e + 1), n = 0;
    bool neg = signbit(f);
    for (char *p = digits; p < e; p++)
        if (*p >= '0' && *p <= '9') mantissa[n++] = *p;
    while (n > 1 && mantissa[n - 1] == '0') n--;
    char *o = out;
    if (neg) *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = mantissa[0];
        if (n > 1) *o++ = '.', memcpy(o, mantissa + 1, (size_t)n - 1), o += n - 1;
        o += snprintf(o, 8, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
        return (size_t)(o - out);
    }
    if (exp < 0) {
        *o++ = '0', *o++ = '.';
        for (int i = -1; i > exp; i--) *o++ = '0';
        memcpy(o, mantissa, (size_t)n), o += n;
    } else {
        for (int i = 0; i < n || i <= exp; i++) {
            if (i == exp + 1) *o++ = '.';
            *o++ = i < n ? mantissa[i] : '0';
        }
        if (n <= exp + 1) *o++ = '.', *o++ = '0';
    }
    *o = 0;
    return (size_t)(o - out);
}

/* Digits with single underscores between them; returns what follows, counting digits. */
static const char *digits(const char *p, const char *end, char **out, int *count) {
    const char *start = p;
    for (; p < end; p++) {
        if (*p == '_' && p > start && p[-1] != '_' && p + 1 < end && p[1] >= '0' && p[1] <= '9')
            continue;
        if (*p < '0' || *p > '9') break;
        *(*out)++ = *p, ++*count;
    }
    return p;
}

bool gy_jx_parse_double(const char *s, size_t n, double *out) {
    char text[512], *o = text;
    if (n + 4 > sizeof text) {
        /* Only digits of a long integer are worth a copy; anything else this long is no number. */
        char *copy = gy_strndup(s, n);
        for (size_t i = 0; copy && i < n; i++)
            if ((s[i] < '0' || s[i] > '9') && !(i == 0 && s[i] == '-')) return gy_free(copy), false;
        gy_json j = {.kind = GY_JSON_NUM, .n = (uint32_t)n, .s = copy};
        bool ok = copy && gy_json_num(&j, out);
        gy_free(copy);
        return ok;
    }
    const char *p = s, *end = s + n;
    int count = 0;
    if (p < end && (*p == '+' || *p == '-')) {
        if (*p == '-') *o++ = '-';
        p++;
    }
    size_t left = (size_t)(end - p);
    double sign = o > text ? -1 : 1;
    if (left == 3 && strncasecmp(p, "nan", 3) == 0) return *out = NAN, true;
    if ((left == 3 && strncasecmp(p, "inf", 3) == 0) ||
        (left == 8 && strncasecmp(p, "infinity", 8) == 0))
        return *out = sign * INFINITY, true;
    char *start = o;
    p = digits(p, end, &o, &count);
    if (!count) *o++ = '0';
    while (o > start + 1 && *start == '0')
        memmove(start, start + 1, (size_t)(o-- - start - 1)); /* JSON has no 007 */
    if (p < end && *p == '.') {
        int frac = 0;
        *o++ = *p++;
        p = digits(p, end, &o, &frac);
        if (!frac) *o++ = '0';
        count += frac;
    }
    if (!count) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int exp = 0;
        *o++ = *p++;
        if (p < end && (*p == '+' || *p == '-')) *o++ = *p++;
        p = digits(p, end, &o, &exp);
        if (!exp) return false;
    }
    if (p != end) return false;
    *o = 0;
    gy_json j = {.kind = GY_JSON_NUM, .n = (uint32_t)(o - text), .s = text};
    return gy_json_num(&j, out);
}

static void write_float(gy_buf *b, double f) {
    char text[40];
    gy_buf_add(b, text, gy_jx_float_repr(text, f));
}

static void repr_str(gy_jx *x, gy_buf *b, gy_jv v) {
    bool single = v.n && memchr(v.s, '\'', v.n), twice = v.n && memchr(v.s, '"', v.n);
    char quote = single && !twice ? '"' : '\'';
    gy_jx_charge(x, v.n);
    gy_buf_c(b, quote);
    for (size_t i = 0, k; i < v.n; i += k) {
        uint32_t cp;
        k = gy_utf8_get(v.s + i, v.n - i, &cp);
        if (cp == '\\' || cp == (uint32_t)quote)
            gy_buf_c(b, '\\'), gy_buf_c(b, (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            gy_buf_c(b, '\\'), gy_buf_c(b, cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (cp < 0x7F ? cp >= 0x20 : gy_uc_printable(cp))
            gy_buf_add(b, v.s + i, k);
        else if (cp < 0x100)
            gy_buf_printf(b, "\\x%02x", cp);
        else if (cp < 0x10000)
            gy_buf_printf(b, "\\u%04x", cp);
        else
            gy_buf_printf(b, "\\U%08x", cp);
    }
    gy_buf_c(b, quote);
}

static void repr_items(gy_jx *x, gy_buf *b, gy_jv v, const char *open, const char *close) {
    gy_buf_puts(b, open);
    for (uint32_t i = 0; i < v.l->n; i++) {
        if (i) gy_buf_puts(b, ", ");
        gy_jx_repr(x, b, v.l->v[i]);
    }
    if (v.t == JX_TUPLE && v.l->n == 1) gy_buf_c(b, ',');
    gy_buf_puts(b, close);
}

static void repr_dict(gy_jx *x, gy_buf *b, const gy_jdict *d) {
    gy_buf_c(b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i) gy_buf_puts(b, ", ");
        gy_jx_repr(x, b, d->e[i].k);
        gy_buf_puts(b, ": ");
        gy_jx_repr(x, b, d->e[i].v);
    }
    gy_buf_c(b, '}');
}

static void repr_view(gy_jx *x, gy_buf *b, gy_jv v) {
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    gy_buf_puts(b, names[v.mark]);
    for (uint32_t i = 0; i < v.d->n; i++) {
        if (i) gy_buf_puts(b, ", ");
        if (v.mark == JX_VIEW_ITEMS) gy_buf_c(b, '(');
        if (v.mark != JX_VIEW_VALUES) gy_jx_repr(x, b, v.d->e[i].k);
        if (v.mark == JX_VIEW_ITEMS) gy_buf_puts(b, ", ");
        if (v.mark != JX_VIEW_KEYS) gy_jx_repr(x, b, v.d->e[i].v);
        if (v.mark == JX_VIEW_ITEMS) gy_buf_c(b, ')');
    }
    gy_buf_puts(b, "])");
}

static void repr_range(gy_buf *b, const gy_jrange *r) {
    gy_buf_printf(b, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
    if (r->step != 1) gy_buf_printf(b, ", %lld", (long long)r->step);
    gy_buf_c(b, ')');
}

void gy_jx_repr(gy_jx *x, gy_buf *b, gy_jv v) {
    gy_jx_charge(x, 0);
    if (b->over) gy_jx_fail(x, GY_ELIMIT, "text too long");
    gy_jx_enter(x);
    switch (v.t) {
    case JX_MISSING: break;
    case JX_UNDEF: gy_buf_puts(b, "Undefined"); break;
    case JX_NONE: gy_buf_puts(b, "None"); break;
    case JX_BOOL: gy_buf_puts(b, v.i ? "True" : "False"); break;
    case JX_INT: gy_buf_printf(b, "%lld", (long long)v.i); break;
    case JX_BIG: gy_buf_add(b, v.s, v.n); break;
    case JX_FLOAT: write_float(b, v.f); break;
    case JX_STR:
        if (v.mark) gy_buf_puts(b, "Markup(");
        repr_str(x, b, v);
        if (v.mark) gy_buf_c(b, ')');
        break;
    case JX_LIST: repr_items(x, b, v, "[", "]"); break;
    case JX_TUPLE: repr_items(x, b, v, "(", ")"); break;
    case JX_DICT: repr_dict(x, b, v.d); break;
    case JX_NS: gy_buf_puts(b, "<Namespace "), repr_dict(x, b, v.d), gy_buf_c(b, '>'); break;
    case JX_VIEW: repr_view(x, b, v); break;
    case JX_RANGE: repr_range(b, v.r); break;
    case JX_LOOP: gy_buf_printf(b, "<LoopContext %u/%u>", v.loop->i + 1, v.loop->items->n); break;
    case JX_MACRO: gy_buf_puts(b, "<Macro "), repr_str(x, b, v.m->name), gy_buf_c(b, '>'); break;
    case JX_ITER: gy_buf_puts(b, "<generator object>"); break;
    case JX_FUNC: gy_buf_printf(b, "<function %s>", v.fn->name); break;
    case JX_METHOD:
        gy_buf_printf(b, "<built-in method %s of %s object>", v.b->fn->name, gy_jv_type(v.b->self));
        break;
    case JX_CYCLER: gy_buf_puts(b, "<Cycler object>"); break;
    case JX_JOINER: gy_buf_puts(b, "<Joiner object>"); break;
    }
    gy_jx_leave(x);
}

void gy_jx_write(gy_jx *x, gy_buf *b, gy_jv v) {
    if (v.t == JX_STR) {
        gy_jx_charge(x, v.n);
        gy_buf_add(b, v.s, v.n);
    } else if (v.t != JX_UNDEF) {
        gy_jx_repr(x, b, v);
    }
    if (b->over) gy_jx_fail(x, GY_ELIMIT, "text too long");
    if (b->oom) gy_jx_fail(x, GY_ENOMEM, "out of memory");
}

gy_jv gy_jx_soft(gy_jx *x, gy_jv v) {
    if (v.t == JX_STR) return v;
    if (v.t == JX_UNDEF || v.t == JX_MISSING) return gy_jv_str("", 0);
    size_t start = x->tmp.n; /* nested use keeps what is already there */
    gy_jx_write(x, &x->tmp, v);
    gy_jv s = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start;
    return s;
}

void gy_jx_escape(gy_buf *b, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        switch (s[i]) {
        case '&': gy_buf_puts(b, "&amp;"); break;
        case '<': gy_buf_puts(b, "&lt;"); break;
        case '>': gy_buf_puts(b, "&gt;"); break;
        case '\'': gy_buf_puts(b, "&#39;"); break;
        case '"': gy_buf_puts(b, "&#34;"); break;
        default: gy_buf_c(b, s[i]);
        }
    }
}

gy_jv gy_jx_escaped(gy_jx *x, gy_jv v) {
    if (v.t == JX_STR && v.mark) return v;
    gy_jv s = gy_jx_soft(x, v);
    size_t start = x->tmp.n;
    gy_jx_escape(&x->tmp, s.s, s.n);
    if (x->tmp.over) gy_jx_fail(x, GY_ELIMIT, "text too long");
    s = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start, s.mark = 1;
    return s;
}
