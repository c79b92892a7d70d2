/* Globals: functions that every template sees. */
#include <stdlib.h>
#include <time.h>

#include "base/env.h"
#include "text/jinja.h"

enum { MAX_RANGE = 100000 };

#define GLOBAL(name) static gy_jv name(gy_jx *x, gy_jv s, gy_jv *a, const gy_jargs *raw)
#define UNUSED       (void)x, (void)s, (void)a, (void)raw

static gy_jdict *dict_from(gy_jx *x, const gy_jargs *raw) {
    gy_jv d = gy_jv_dict(gy_jx_dict(x, 0));
    gy_jx_apply(x, gy_jx_method(d, "update", 6), d, raw);
    return d.d;
}

GLOBAL(g_dict) {
    return UNUSED, gy_jv_dict(dict_from(x, raw));
}

GLOBAL(g_namespace) {
    UNUSED;
    gy_jv ns = {.t = JX_NS, .d = dict_from(x, raw)};
    for (uint32_t i = 0; i < ns.d->n; i++)
        if (ns.d->e[i].k.t == JX_STR && ns.d->e[i].k.n && ns.d->e[i].k.s[0] == '_')
            gy_jx_fail(x, GY_EFORMAT,
                       "a namespace does not take names that begin with an underscore");
    return ns;
}

GLOBAL(g_range) {
    UNUSED;
    bool one = !gy_jv_given(a[1]);
    int64_t start = one ? 0 : gy_jx_index(x, a[0], "range()"),
            stop = gy_jx_index(x, a[one ? 0 : 1], "range()");
    int64_t step = gy_jv_given(a[2]) ? gy_jx_index(x, a[2], "range()") : 1;
    if (!step) gy_jx_fail(x, GY_EFORMAT, "range() arg 3 must not be zero");
    __int128 span = step > 0 ? (__int128)stop - start : (__int128)start - stop,
             by = step > 0 ? step : -(__int128)step;
    __int128 n = span > 0 ? (span - 1) / by + 1 : 0;
    if (n > MAX_RANGE)
        gy_jx_fail(x, GY_ELIMIT, "Range too big. Ranges of more than %d items are refused.",
                   MAX_RANGE);
    gy_jrange *r = gy_jx_alloc(x, sizeof *r);
    *r = (gy_jrange){start, stop, step, (int64_t)n};
    return (gy_jv){.t = JX_RANGE, .r = r};
}

GLOBAL(g_raise) {
    UNUSED;
    gy_jv text = gy_jx_soft(x, a[0]);
    gy_fail(x->err, GY_EARG, "%.*s", (int)text.n, text.s);
    longjmp(x->fail, 1);
}

static struct tm now(void) {
    char *fixed = gy_env(GY_ENV_NOW);
    time_t t = fixed && *fixed ? (time_t)strtoll(fixed, NULL, 10) : time(NULL);
    struct tm tm = {0};
    gy_free(fixed);
    localtime_r(&t, &tm);
    return tm;
}

GLOBAL(g_strftime_now) {
    UNUSED;
    if (a[0].t != JX_STR)
        gy_jx_fail(x, GY_EFORMAT, "strftime_now needs a str, not %s", gy_jv_type(a[0]));
    struct tm tm = now();
    size_t start = x->tmp.n;
    for (const char *p = a[0].s, *end = p + a[0].n; p < end;) {
        if (*p != '%' || p + 1 == end) {
            gy_buf_c(&x->tmp, *p++);
            continue;
        }
        char one[4] = "%", out[128];
        size_t k = 1;
        p++;
        if (*p && strchr("-_0^#", *p) && p + 1 < end) one[k++] = *p++;
        one[k] = *p++;
        gy_jx_charge(x, 64);
        if (one[k] == 'Z' || one[k] == 'z') continue; /* the reference's clock has no zone */
        if (one[k] == 'f')
            gy_buf_puts(&x->tmp, "000000");
        else if (one[k] == '%')
            gy_buf_c(&x->tmp, '%');
        else if (one[k] && strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY", one[k])) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            gy_buf_add(&x->tmp, out, strftime(out, sizeof out, one, &tm));
#pragma GCC diagnostic pop
        } else {
            gy_buf_add(&x->tmp, one, k + 1);
        }
    }
    gy_jv v = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start;
    return v;
}

GLOBAL(g_lipsum) {
    UNUSED;
    gy_jx_fail(x, GY_EUNSUPPORTED, "lipsum() is not supported");
}

GLOBAL(g_cycler) {
    UNUSED;
    if (!raw->n || raw->n_kw) gy_jx_fail(x, GY_EFORMAT, "at least one item has to be provided");
    gy_jv v = gy_jx_tuple(x, raw->pos, raw->n);
    v.t = JX_CYCLER;
    return v;
}

GLOBAL(g_joiner) {
    UNUSED;
    gy_jv sep = gy_jv_given(a[0]) ? a[0] : gy_jv_cstr(", ");
    gy_jv v = gy_jx_tuple(x, &sep, 1);
    v.t = JX_JOINER;
    return v;
}

static const gy_jfn globals[] = {
    {"cycler", g_cycler, "", 0, JX_RAW},
    {"dict", g_dict, "", 0, JX_RAW},
    {"joiner", g_joiner, "sep", 0, 0},
    {"lipsum", g_lipsum, "", 0, JX_RAW},
    {"namespace", g_namespace, "", 0, JX_RAW},
    {"raise_exception", g_raise, "message", 1, 0},
    {"range", g_range, "/start stop step", 1, 0},
    {"strftime_now", g_strftime_now, "format", 1, 0},
};

gy_jv gy_jx_global(const char *name, size_t n) {
    static const char self[] = "<TemplateReference None>";
    const gy_jfn *fn = gy_jx_find(globals, sizeof globals / sizeof *globals, name, n);
    if (fn) return (gy_jv){.t = JX_FUNC, .fn = fn};
    if (n == 4 && memcmp(name, "self", 4) == 0) return gy_jv_str(self, sizeof self - 1);
    return gy_jv_of(JX_MISSING);
}
