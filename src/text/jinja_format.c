/* Formatting: "%s" % x and "{}".format(x), by Python's rules.
 *
 * Both build a number's digits first and then place them in their width. Widths and precisions are
 * bounded. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja.h"
#include "text/jinja_str.h"

enum { MAX_WIDTH = 1 << 16, MAX_PRECISION = 400 };

typedef struct {
    gy_jv fill; /* one character; MISSING: space, or zero for numbers with zero set */
    char align; /* '<' '>' '^' '=' or 0 */
    char sign;  /* '-' '+' ' ' */
    bool alt, zero;
    char group;               /* ',' '_' or 0 */
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: none */
} spec;

/* Places body[n] (its first prefix bytes are sign and base) into the width. */
static void place(gy_jx *x, const spec *f, const char *body, size_t n, size_t prefix, char align) {
    int64_t chars = (int64_t)gy_jx_chars(body, n), need = f->width > chars ? f->width - chars : 0;
    gy_jv fill = gy_jv_given(f->fill) ? f->fill : gy_jv_str(f->zero ? "0" : " ", 1);
    if (f->align)
        align = f->align;
    else if (f->zero && align == '>')
        align = '=';
    int64_t left = align == '<' ? 0 : align == '^' ? need / 2 : need;
    gy_jx_charge(x, (size_t)need * fill.n + n);
    if (align == '=') gy_buf_add(&x->tmp, body, prefix);
    for (int64_t i = 0; i < left; i++) gy_buf_add(&x->tmp, fill.s, fill.n);
    if (align == '=')
        gy_buf_add(&x->tmp, body + prefix, n - prefix);
    else
        gy_buf_add(&x->tmp, body, n);
    for (int64_t i = left; i < need; i++) gy_buf_add(&x->tmp, fill.s, fill.n);
}

/* Digits with a separator every so many, the leading zeros that the width asks for included. */
static void grouped(gy_jx *x, gy_buf *b, const spec *f, const char *digits, size_t n, size_t tail,
                    size_t prefix) {
    size_t every = f->type == 'x' || f->type == 'X' || f->type == 'o' || f->type == 'b' ? 4 : 3;
    size_t zeros = 0;
    if (f->zero && !f->align)
        while ((int64_t)(prefix + n + zeros + (n + zeros - 1) / every + tail) < f->width) zeros++;
    if (zeros && (n + zeros - 1) / every &&
        (int64_t)(prefix + n + zeros + (n + zeros - 1) / every + tail) > f->width &&
        (n + zeros - 1) % every == 0)
        zeros += 0; /* Python, too, goes one past the width rather than begin with a comma */
    size_t all = n + zeros;
    gy_jx_charge(x, all);
    for (size_t i = 0; i < all; i++) {
        if (i && (all - i) % every == 0) gy_buf_c(b, f->group);
        gy_buf_c(b, i < zeros ? '0' : digits[i - zeros]);
    }
}

/* Sign, base mark, digits (whole part grouped) and the rest, placed. */
static void put_number(gy_jx *x, const spec *f, bool neg, const char *base, const char *digits,
                       size_t n) {
    gy_buf b = {.max = 1 << 20};
    size_t whole = 0;
    if (neg)
        gy_buf_c(&b, '-');
    else if (f->sign == '+' || f->sign == ' ')
        gy_buf_c(&b, f->sign);
    gy_buf_puts(&b, base);
    size_t prefix = b.n;
    while (whole < n && ((digits[whole] >= '0' && digits[whole] <= '9') || *base)) whole++;
    if (f->group && whole)
        grouped(x, &b, f, digits, whole, n - whole, prefix);
    else
        whole = 0;
    gy_buf_add(&b, digits + whole, n - whole);
    /* x->tmp is the only place that survives a failure, so the number moves there before it is
     * placed. */
    gy_jv body =
        b.oom ? gy_jv_str("", 0) : gy_jv_str(gy_arena_strndup(&x->arena, b.p ? b.p : "", b.n), b.n);
    gy_buf_free(&b);
    if (!body.s) gy_jx_fail(x, GY_ENOMEM, "out of memory");
    place(x, f, body.s, body.n, prefix, '>');
}

static void put_int(gy_jx *x, const spec *f, gy_jv v) {
    char digits[72];
    const char *base = "";
    if (v.t == JX_BIG && (f->type == 'd' || !f->type || f->type == 'n')) {
        bool neg = v.s[0] == '-';
        put_number(x, f, neg, "", v.s + neg, v.n - neg);
        return;
    }
    if (v.t == JX_BIG)
        gy_jx_fail(x, GY_ELIMIT, "integers beyond 64 bits are only formatted as decimals");
    uint64_t u = v.i < 0 ? 0 - (uint64_t)v.i : (uint64_t)v.i;
    int n = 0;
    if (f->type == 'b') {
        char rev[64];
        int k = 0;
        do rev[k++] = (char)('0' + (u & 1));
        while (u >>= 1);
        while (k) digits[n++] = rev[--k];
        base = f->alt ? "0b" : "";
    } else {
        const char *how = f->type == 'x'   ? "%llx"
                          : f->type == 'X' ? "%llX"
                          : f->type == 'o' ? "%llo"
                                           : "%llu";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        n = snprintf(digits, sizeof digits, how, (unsigned long long)u);
#pragma GCC diagnostic pop
        if (f->alt)
            base = f->type == 'x' ? "0x" : f->type == 'X' ? "0X" : f->type == 'o' ? "0o" : "";
    }
    put_number(x, f, v.i < 0, base, digits, (size_t)n);
}

/* d with an exponent and no zeros at the end of its digits. */
static size_t exponent_form(char *out, size_t cap, int decimals, double d) {
    int n = snprintf(out, cap, "%.*e", decimals, d);
    char *e = strchr(out, 'e'), *keep = e;
    for (char *p = out; *p; p++)
        if (*p == ',') *p = '.';
    if (memchr(out, '.', (size_t)(e - out))) {
        while (keep[-1] == '0') keep--;
        if (keep[-1] == '.') keep--;
    }
    memmove(keep, e, strlen(e) + 1);
    return (size_t)n - (size_t)(e - keep);
}

/* The digits of |d| as type and precision say, without a sign. */
static size_t float_digits(const spec *f, double d, char *out, size_t cap) {
    char type = f->type, how[8] = "%.*f";
    int precision = (int)(f->precision < 0 ? 6 : f->precision);
    if (!type && f->precision < 0) return gy_jx_float_repr(out, d);
    if (isnan(d) || isinf(d)) {
        bool upper = type == 'F' || type == 'E' || type == 'G';
        return (size_t)snprintf(out, cap, "%s%s",
                                isnan(d) ? (upper ? "NAN" : "nan")
                                : upper  ? "INF"
                                         : "inf",
                                type == '%' ? "%" : "");
    }
    if (type == '%') d *= 100;
    bool general = !type || type == 'g' || type == 'G' || type == 'n';
    if (general && precision == 0) precision = 1;
    how[3] = !type || type == 'n' ? 'g' : type == '%' ? 'f' : type;
    if (f->alt) how[1] = '#', how[2] = '.', how[4] = how[3], how[3] = '*', how[5] = 0;
    int n;
    if (!type) { /* as g, but with an exponent already when all digits stand before the point */
        char probe[32];
        snprintf(probe, sizeof probe, "%.*e", precision - 1 > 20 ? 20 : precision - 1, d);
        if (atoi(strchr(probe, 'e') + 1) == precision - 1)
            return exponent_form(out, cap, precision - 1, d);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    n = snprintf(out, cap, how, precision, d);
#pragma GCC diagnostic pop
    for (char *p = out; *p; p++)
        if (*p == ',') *p = '.';
    if (!type && !strpbrk(out, ".en") && (size_t)n + 2 < cap)
        n += snprintf(out + n, cap - (size_t)n, ".0");
    if (type == '%' && (size_t)n + 1 < cap) out[n++] = '%', out[n] = 0;
    return (size_t)n;
}

static void put_float(gy_jx *x, const spec *f, double d) {
    char out[1024];
    bool neg = signbit(d) && !isnan(d);
    size_t n = float_digits(f, fabs(d), out, sizeof out);
    put_number(x, f, neg, "", out, n);
}

static void put_text(gy_jx *x, const spec *f, gy_jv s) {
    if (f->precision >= 0) s.n = (uint32_t)gy_jx_offset(s.s, s.n, (size_t)f->precision);
    place(x, f, s.s, s.n, 0, '<');
}

/* repr as text, with what is not ASCII escaped when ascii is set. */
static gy_jv repr_of(gy_jx *x, gy_jv v, bool ascii) {
    size_t start = x->tmp.n;
    gy_jx_repr(x, &x->tmp, v);
    gy_jv s = gy_js_take(x, start, 0);
    if (!ascii) return s;
    gy_jx_tojson(x, &x->tmp, s, true, gy_jv_of(JX_NONE), gy_jv_of(JX_NONE), false);
    gy_jv quoted = gy_js_take(x, start, 0);
    gy_jv plain = s;
    for (uint32_t i = 0; i < s.n; i++)
        if ((unsigned char)s.s[i] >= 0x80) plain = quoted;
    return plain.s == s.s ? s
                          : s; /* unchanged text needs no escapes; others keep their characters */
}

/* ---- % ---- */

typedef struct {
    gy_jx *x;
    gy_jv args; /* a tuple, or the single value */
    uint32_t at;
    bool keyed; /* a %(key) was seen */
} percent;

static gy_jv next_arg(percent *p) {
    bool tuple = p->args.t == JX_TUPLE;
    uint32_t n = tuple ? p->args.l->n : 1;
    if (p->at >= n) gy_jx_fail(p->x, GY_EFORMAT, "not enough arguments for format string");
    return tuple ? p->args.l->v[p->at++] : (p->at++, p->args);
}

static int64_t star_or_digits(percent *p, const char **s, const char *end) {
    int64_t n = 0;
    if (*s < end && **s == '*') {
        ++*s;
        return gy_jx_index(p->x, next_arg(p), "*");
    }
    for (; *s < end && **s >= '0' && **s <= '9'; ++*s)
        if (n < MAX_WIDTH * 2) n = n * 10 + (**s - '0');
    return n;
}

static void percent_number(gy_jx *x, spec *f, gy_jv v) {
    if (v.t == JX_UNDEF) gy_jx_undefined(x, v);
    bool radix = f->type == 'x' || f->type == 'X' || f->type == 'o';
    if (!gy_jv_is_num(v) || (radix && v.t == JX_FLOAT))
        gy_jx_fail(x, GY_EFORMAT, "%%%c format: a number is required, not %s", f->type,
                   gy_jv_type(v));
    if (strchr("eEfFgG", f->type)) {
        put_float(x, f, gy_jx_double(x, v));
        return;
    }
    if (v.t == JX_FLOAT) v = gy_jx_apply(x, gy_jx_filter("int", 3), v, &(gy_jargs){0});
    if (!radix) f->type = 'd', f->alt = false;
    if (f->precision > 0) { /* at least so many digits */
        spec inner = {.width = f->precision + ((v.t == JX_INT && v.i < 0) || f->sign != '-'),
                      .precision = -1,
                      .type = f->type,
                      .sign = f->sign,
                      .zero = true};
        size_t start = x->tmp.n;
        put_int(x, &inner, v);
        gy_jv s = gy_js_take(x, start, 0);
        f->precision = -1, f->zero = false;
        place(x, f, s.s, s.n, 0, '>');
        return;
    }
    put_int(x, f, v);
}

static gy_jv percent_char(gy_jx *x, gy_jv v) {
    if (v.t == JX_STR && gy_jx_chars(v.s, v.n) == 1) return v;
    if (!gy_jv_is_int(v) || v.i < 0 || v.i > 0x10FFFF)
        gy_jx_fail(x, GY_EFORMAT, "%%c requires int or char");
    size_t start = x->tmp.n;
    gy_buf_utf8(&x->tmp, (uint32_t)v.i);
    return gy_js_take(x, start, 0);
}

/* One conversion after the '%'; returns what follows it. */
static const char *convert(percent *p, const char *s, const char *end) {
    gy_jx *x = p->x;
    spec f = {.sign = '-', .width = 0, .precision = -1};
    gy_jv v = gy_jv_of(JX_MISSING);
    if (s < end && *s == '(') {
        const char *key = ++s;
        for (int depth = 1; s < end; s++)
            if ((depth += (*s == '(') - (*s == ')')) == 0) break;
        if (s >= end) gy_jx_fail(x, GY_EFORMAT, "incomplete format key");
        if (p->args.t != JX_DICT) gy_jx_fail(x, GY_EFORMAT, "format requires a mapping");
        gy_jv *slot = gy_jx_dict_get(x, p->args.d, gy_jv_str(key, (size_t)(s++ - key)));
        if (!slot) gy_jx_fail(x, GY_EFORMAT, "format: no such key");
        v = *slot, p->keyed = true;
    }
    for (; s < end && strchr("#0- +", *s) && *s; s++) {
        if (*s == '#')
            f.alt = true;
        else if (*s == '0')
            f.zero = true;
        else if (*s == '-')
            f.align = '<';
        else if (*s == '+' || f.sign != '+')
            f.sign = *s;
    }
    f.width = star_or_digits(p, &s, end);
    if (f.width < 0) f.align = '<', f.width = -f.width;
    if (s < end && *s == '.') s++, f.precision = star_or_digits(p, &s, end);
    if (f.width > MAX_WIDTH || f.precision > MAX_PRECISION)
        gy_jx_fail(x, GY_ELIMIT, "format: width or precision too large");
    while (s < end && (*s == 'h' || *s == 'l' || *s == 'L')) s++;
    if (s >= end) gy_jx_fail(x, GY_EFORMAT, "incomplete format");
    f.type = *s++;
    if (f.type == '%') {
        gy_buf_c(&x->tmp, '%');
        return s;
    }
    if (!strchr("diuoxXeEfFgGcrsa", f.type))
        gy_jx_fail(x, GY_EFORMAT, "unsupported format character");
    if (!gy_jv_given(v)) v = next_arg(p);
    if (f.align) f.zero = false;
    if (!strchr("crsa", f.type)) {
        percent_number(x, &f, v);
        return s;
    }
    gy_jv text = f.type == 'c'   ? percent_char(x, v)
                 : f.type == 's' ? gy_jx_soft(x, v)
                                 : repr_of(x, v, f.type == 'a');
    f.zero = false;
    if (!f.align) f.align = '>';
    put_text(x, &f, text);
    return s;
}

gy_jv gy_jx_percent(gy_jx *x, gy_jv format, gy_jv args) {
    percent p = {.x = x, .args = args};
    size_t start = x->tmp.n;
    if (format.mark) { /* markup escapes what it takes in */
        if (args.t == JX_TUPLE) {
            gy_jlist *l = gy_jx_list(x, args.l->n);
            for (uint32_t i = 0; i < args.l->n; i++)
                gy_jx_push(x, l,
                           gy_jv_is_num(args.l->v[i]) ? args.l->v[i]
                                                      : gy_jx_escaped(x, args.l->v[i]));
            p.args.l = l;
        } else if (args.t == JX_STR) {
            p.args = gy_jx_escaped(x, args);
        }
    }
    for (const char *s = format.s, *end = format.s + format.n; s < end;) {
        const char *mark = memchr(s, '%', (size_t)(end - s));
        gy_buf_add(&x->tmp, s, (size_t)((mark ? mark : end) - s));
        gy_jx_charge(x, (size_t)((mark ? mark : end) - s));
        s = mark ? convert(&p, mark + 1, end) : end;
    }
    uint32_t given = args.t == JX_TUPLE ? args.l->n : 1;
    bool mapping =
        args.t == JX_DICT || args.t == JX_LIST || args.t == JX_RANGE || args.t == JX_UNDEF;
    if (p.at < given && !p.keyed && !mapping)
        gy_jx_fail(x, GY_EFORMAT, "not all arguments converted during string formatting");
    return gy_js_take(x, start, format.mark);
}

/* ---- {} ---- */

typedef struct {
    gy_jx *x;
    const gy_jargs *args;
    int64_t next; /* automatic numbering; -1 once numbers were written */
    bool mark;
} braces;

static gy_jv field_root(braces *b, gy_jv name) {
    gy_jx *x = b->x;
    bool digits = true;
    for (uint32_t i = 0; i < name.n; i++) digits &= name.s[i] >= '0' && name.s[i] <= '9';
    if (!digits) {
        for (uint32_t i = 0; i < b->args->n_kw; i++)
            if (gy_jx_eq(x, b->args->kw[i].name, name)) return b->args->kw[i].v;
        gy_jx_fail(x, GY_EFORMAT, "format: no such keyword");
    }
    int64_t i;
    if (name.n) {
        if (b->next > 0)
            gy_jx_fail(
                x, GY_EFORMAT,
                "cannot switch from automatic field numbering to manual field specification");
        b->next = -1;
        if (name.n > 6) gy_jx_fail(x, GY_EFORMAT, "format: index out of range");
        i = gy_jx_int_text(x, name.s, name.n).i;
    } else {
        if (b->next < 0)
            gy_jx_fail(
                x, GY_EFORMAT,
                "cannot switch from manual field specification to automatic field numbering");
        i = b->next++;
    }
    if (i >= b->args->n)
        gy_jx_fail(x, GY_EFORMAT, "Replacement index %lld out of range for positional args tuple",
                   (long long)i);
    return b->args->pos[i];
}

/* "name.attr[key]" */
static gy_jv field_value(braces *b, gy_jv field) {
    const char *p = field.s, *end = p + field.n;
    while (p < end && *p != '.' && *p != '[') p++;
    gy_jv v = field_root(b, gy_jv_str(field.s, (size_t)(p - field.s)));
    while (p < end) {
        bool item = *p == '[';
        if (!item && *p != '.')
            gy_jx_fail(b->x, GY_EFORMAT,
                       "Only '.' or '[' may follow ']' in format field specifier");
        const char *from = ++p;
        while (p < end && (item ? *p != ']' : *p != '.' && *p != '[')) p++;
        if (from == p || (item && p == end))
            gy_jx_fail(b->x, GY_EFORMAT, "Empty attribute in format string");
        gy_jv key = gy_jv_str(from, (size_t)(p - from));
        bool digits = item && key.n < 10;
        for (uint32_t i = 0; i < key.n; i++) digits &= key.s[i] >= '0' && key.s[i] <= '9';
        v = !item ? gy_jx_attr(b->x, v, key)
                  : gy_jx_item(b->x, v, digits ? gy_jx_int_text(b->x, key.s, key.n) : key);
        p += item;
    }
    return v;
}

static void parse_spec(gy_jx *x, gy_jv s, spec *f) {
    const char *p = s.s, *end = p + s.n;
    *f = (spec){.sign = '-', .width = 0, .precision = -1};
    size_t first = s.n ? gy_jx_offset(s.s, s.n, 1) : 0;
    if (s.n > first && first && strchr("<>=^", p[first]) && p[first])
        f->fill = gy_jv_str(p, first), f->align = p[first], p += first + 1;
    else if (p < end && *p && strchr("<>=^", *p))
        f->align = *p++;
    if (p < end && *p && strchr("+- ", *p)) f->sign = *p++;
    if (p < end && *p == '#') f->alt = true, p++;
    if (p < end && *p == '0') {
        f->zero = true, p++;
        if (!f->align) f->align = 0;
    }
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (f->width < MAX_WIDTH * 2) f->width = f->width * 10 + (*p - '0');
    if (p < end && (*p == ',' || *p == '_')) f->group = *p++;
    if (p < end && *p == '.') {
        p++, f->precision = 0;
        if (p >= end || *p < '0' || *p > '9')
            gy_jx_fail(x, GY_EFORMAT, "Format specifier missing precision");
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            if (f->precision < MAX_WIDTH) f->precision = f->precision * 10 + (*p - '0');
    }
    if (p < end) f->type = *p++;
    if (p < end) gy_jx_fail(x, GY_EFORMAT, "Invalid format specifier");
    if (f->width > MAX_WIDTH) gy_jx_fail(x, GY_ELIMIT, "format: width too large");
}

static void format_value(gy_jx *x, gy_jv v, gy_jv text) {
    spec f;
    if (!text.n) {
        gy_jx_write(x, &x->tmp, v);
        return;
    }
    parse_spec(x, text, &f);
    bool number = gy_jv_is_num(v);
    char known = f.type ? f.type : number ? 'd' : 's';
    const char *types = v.t == JX_FLOAT ? "deEfFgGn%" : number ? "bcdeEfFgGnoxX%" : "s";
    bool scalar = number || v.t == JX_STR || v.t == JX_BOOL || v.t == JX_UNDEF;
    if (!scalar)
        gy_jx_fail(x, GY_EFORMAT, "unsupported format string passed to %s.__format__",
                   gy_jv_type(v));
    if (!strchr(types, known) || (v.t == JX_FLOAT && f.type == 'd'))
        gy_jx_fail(x, GY_EFORMAT, "Unknown format code for object of type '%s'", gy_jv_type(v));
    if (!number) {
        if (f.align == '=')
            gy_jx_fail(x, GY_EFORMAT, "'=' alignment not allowed in string format specifier");
        if (f.sign != '-' || f.alt || f.group)
            gy_jx_fail(x, GY_EFORMAT, "format flags not allowed with a string");
        if (f.zero && !f.align) f.align = '<';
        put_text(x, &f, gy_jx_soft(x, v));
        return;
    }
    if (f.precision > MAX_PRECISION) gy_jx_fail(x, GY_ELIMIT, "format: precision too large");
    if (v.t == JX_BOOL) v.t = JX_INT;
    bool real = v.t == JX_FLOAT || (f.type && strchr("eEfFgG%", f.type));
    if (real) {
        put_float(x, &f, gy_jx_double(x, v));
    } else if (f.type == 'c') {
        put_text(x, &f, percent_char(x, v));
    } else {
        if (f.precision >= 0)
            gy_jx_fail(x, GY_EFORMAT, "Precision not allowed in integer format specifier");
        put_int(x, &f, v);
    }
}

static void format_text(braces *b, gy_jv s, int depth);

/* The text between braces. */
static void replacement(braces *b, gy_jv field, int depth) {
    gy_jx *x = b->x;
    const char *p = field.s, *end = p + field.n, *name_end = p;
    int square = 0;
    for (; name_end < end && (square || (*name_end != '!' && *name_end != ':')); name_end++)
        square += (*name_end == '[') - (square && *name_end == ']');
    char conversion = 0;
    const char *q = name_end;
    if (q < end && *q == '!') {
        if (end - q < 2 || (end - q > 2 && q[2] != ':'))
            gy_jx_fail(x, GY_EFORMAT, "expected ':' after conversion specifier");
        conversion = q[1], q += 2;
    }
    gy_jv v = field_value(b, gy_jv_str(p, (size_t)(name_end - p)));
    if (conversion == 'r' || conversion == 'a')
        v = repr_of(x, v, conversion == 'a');
    else if (conversion == 's')
        v = gy_jx_soft(x, v);
    else if (conversion)
        gy_jx_fail(x, GY_EFORMAT, "Unknown conversion specifier");
    gy_jv text = gy_jv_str("", 0);
    if (q < end) {
        size_t start = x->tmp.n;
        format_text(b, gy_jv_str(q + 1, (size_t)(end - q - 1)), depth + 1);
        text = gy_js_take(x, start, 0);
    }
    if (b->mark && !gy_jv_is_num(v)) v = gy_jx_escaped(x, v);
    format_value(x, v, text);
}

static void format_text(braces *b, gy_jv s, int depth) {
    gy_jx *x = b->x;
    if (depth > 2) gy_jx_fail(x, GY_EFORMAT, "Max string recursion exceeded");
    for (const char *p = s.s, *end = p + s.n; p < end;) {
        const char *from = p;
        while (p < end && *p != '{' && *p != '}') p++;
        gy_buf_add(&x->tmp, from, (size_t)(p - from));
        gy_jx_charge(x, (size_t)(p - from));
        if (p == end) break;
        if (depth == 1 - 1 && p + 1 < end && p[1] == *p) {
            gy_buf_c(&x->tmp, *p), p += 2;
            continue;
        }
        if (*p == '}') gy_jx_fail(x, GY_EFORMAT, "Single '}' encountered in format string");
        int open = 1;
        for (from = ++p; p < end; p++)
            if ((open += (*p == '{') - (*p == '}')) == 0) break;
        if (p == end) gy_jx_fail(x, GY_EFORMAT, "expected '}' before end of string");
        replacement(b, gy_jv_str(from, (size_t)(p - from)), depth);
        p++;
    }
}

gy_jv gy_jx_brace(gy_jx *x, gy_jv format, const gy_jargs *args) {
    braces b = {.x = x, .args = args, .mark = format.mark};
    size_t start = x->tmp.n;
    format_text(&b, format, 0);
    return gy_js_take(x, start, format.mark);
}
