#include "text/jinja_str.h"

#include "base/utf8.h"
#include "text/unicode.h"

enum { MAX_PAD = 1 << 20 };

gy_jv gy_js_take(gy_jx *x, size_t start, int mark) {
    if (x->tmp.oom) gy_jx_fail(x, GY_ENOMEM, "out of memory");
    if (x->tmp.over) gy_jx_fail(x, GY_ELIMIT, "text too long");
    gy_jv s = gy_jx_str(x, x->tmp.p + start, x->tmp.n - start);
    x->tmp.n = start, s.mark = (uint8_t)mark;
    return s;
}

gy_jv gy_js_upper(gy_jx *x, gy_jv s) {
    size_t start = x->tmp.n;
    gy_uc_upper_text(&x->tmp, s.s, s.n);
    return gy_js_take(x, start, s.mark);
}

gy_jv gy_js_lower(gy_jx *x, gy_jv s) {
    size_t start = x->tmp.n;
    gy_uc_lower_text(&x->tmp, s.s, s.n);
    return gy_js_take(x, start, s.mark);
}

gy_jv gy_js_capitalize(gy_jx *x, gy_jv s) {
    size_t start = x->tmp.n, first = gy_jx_offset(s.s, s.n, 1);
    gy_uc_title_text(&x->tmp, s.s, first);
    /* The rest is lowered with the first letter before it, so that a final sigma sees its word. */
    size_t at = x->tmp.n, skip = 0;
    gy_uc_lower_text(&x->tmp, s.s, first);
    skip = x->tmp.n - at, x->tmp.n = at;
    gy_uc_lower_text(&x->tmp, s.s, s.n);
    if (!x->tmp.over && !x->tmp.oom && x->tmp.n >= at + skip) {
        memmove(x->tmp.p + at, x->tmp.p + at + skip, x->tmp.n - at - skip);
        x->tmp.n -= skip;
    }
    return gy_js_take(x, start, s.mark);
}

gy_jv gy_js_strip(gy_jx *x, gy_jv s, gy_jv chars, int sides) {
    if (gy_jv_given(chars) && chars.t != JX_NONE && chars.t != JX_STR)
        gy_jx_fail(x, GY_EFORMAT, "strip arg must be None or str");
    gy_jx_charge(x, chars.t == JX_STR ? (size_t)s.n + chars.n : s.n);
    if (chars.t == JX_STR && (uint64_t)s.n * chars.n > (1u << 30))
        gy_jx_fail(x, GY_ELIMIT, "strip: too much work");
    if (chars.t == JX_STR) gy_jx_charge(x, (size_t)s.n * chars.n / 16);
    return gy_jx_strip(s, chars, sides);
}

gy_jv gy_js_pad(gy_jx *x, gy_jv s, int64_t width, gy_jv fill, int where) {
    int64_t n = gy_jx_len(x, s), need = width - n;
    if (gy_jx_len(x, fill) != 1)
        gy_jx_fail(x, GY_EFORMAT, "The fill character must be exactly one character long");
    if (need <= 0) return s;
    if (need > MAX_PAD) gy_jx_fail(x, GY_ELIMIT, "padding of more than %d characters", MAX_PAD);
    int64_t left = where == JS_LEFT ? need : where == JS_RIGHT ? 0 : need / 2 + (need & width & 1);
    size_t start = x->tmp.n;
    gy_jx_charge(x, (size_t)need * fill.n + s.n);
    for (int64_t i = 0; i < left; i++) gy_buf_add(&x->tmp, fill.s, fill.n);
    gy_buf_add(&x->tmp, s.s, s.n);
    for (int64_t i = left; i < need; i++) gy_buf_add(&x->tmp, fill.s, fill.n);
    return gy_js_take(x, start, s.mark);
}

gy_jv gy_js_replace(gy_jx *x, gy_jv s, gy_jv from, gy_jv to, int64_t count) {
    size_t start = x->tmp.n, i = 0;
    gy_jx_charge(x, s.n);
    while (i < s.n && count != 0) {
        size_t at, next;
        if (from.n) {
            const char *p = memmem(s.s + i, s.n - i, from.s, from.n);
            if (!p) break;
            at = (size_t)(p - s.s), next = at + from.n;
            gy_buf_add(&x->tmp, s.s + i, at - i);
            gy_buf_add(&x->tmp, to.s, to.n);
        } else { /* an empty text stands before every character, and at the end */
            next = i + gy_jx_offset(s.s + i, s.n - i, 1);
            gy_buf_add(&x->tmp, to.s, to.n);
            gy_buf_add(&x->tmp, s.s + i, next - i);
        }
        gy_jx_charge(x, to.n);
        if (x->tmp.over) break;
        i = next, count--;
    }
    gy_buf_add(&x->tmp, s.s + i, s.n - i);
    if (!from.n && count != 0) gy_buf_add(&x->tmp, to.s, to.n);
    return gy_js_take(x, start, s.mark);
}

static void push_part(gy_jx *x, gy_jlist *l, gy_jv s, size_t from, size_t to) {
    gy_jv part = gy_jv_str(s.s + from, to - from);
    part.mark = s.mark;
    gy_jx_push(x, l, part);
}

static void reverse(gy_jlist *l) {
    for (uint32_t i = 0; i < l->n / 2; i++) {
        gy_jv t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i], l->v[l->n - 1 - i] = t;
    }
}

static void split_space(gy_jx *x, gy_jlist *l, gy_jv s, int64_t max) {
    gy_jv none = gy_jv_of(JX_MISSING);
    for (s = gy_jx_strip(s, none, 1); s.n && max != 0; max--) {
        size_t i = 0;
        uint32_t cp;
        while (i < s.n) {
            size_t k = gy_utf8_get(s.s + i, s.n - i, &cp);
            if (gy_jx_space(cp)) break;
            i += k;
        }
        push_part(x, l, s, 0, i);
        s.s += i, s.n -= (uint32_t)i;
        s = gy_jx_strip(s, none, 1);
    }
    if (s.n) gy_jx_push(x, l, gy_jx_strip(s, none, 2));
    if (s.n && max == 0 && l->n) l->v[l->n - 1] = s; /* the rest keeps its trailing space */
}

static void rsplit_space(gy_jx *x, gy_jlist *l, gy_jv s, int64_t max) {
    gy_jv none = gy_jv_of(JX_MISSING);
    for (s = gy_jx_strip(s, none, 2); s.n && max != 0; max--) {
        size_t i = s.n;
        while (i) {
            size_t k = 1;
            uint32_t cp;
            while (k < i && ((unsigned char)s.s[i - k] & 0xC0) == 0x80) k++;
            gy_utf8_get(s.s + i - k, k, &cp);
            if (gy_jx_space(cp)) break;
            i -= k;
        }
        push_part(x, l, s, i, s.n);
        s.n = (uint32_t)i;
        s = gy_jx_strip(s, none, 2);
    }
    if (s.n) gy_jx_push(x, l, s);
    reverse(l);
}

static size_t find_last(gy_jv s, size_t end, gy_jv sep) {
    for (size_t i = end; i >= sep.n; i--)
        if (memcmp(s.s + i - sep.n, sep.s, sep.n) == 0) return i - sep.n;
    return SIZE_MAX;
}

gy_jlist *gy_js_split(gy_jx *x, gy_jv s, gy_jv sep, int64_t max, bool from_right) {
    gy_jlist *l = gy_jx_list(x, 0);
    gy_jx_charge(x, s.n);
    if (sep.t == JX_NONE || sep.t == JX_MISSING) {
        if (from_right)
            rsplit_space(x, l, s, max);
        else
            split_space(x, l, s, max);
        return l;
    }
    if (sep.t != JX_STR) gy_jx_fail(x, GY_EFORMAT, "must be str or None, not %s", gy_jv_type(sep));
    if (!sep.n) gy_jx_fail(x, GY_EFORMAT, "empty separator");
    if (from_right) {
        size_t end = s.n, at;
        for (; max != 0 && (at = find_last(s, end, sep)) != SIZE_MAX; end = at, max--)
            push_part(x, l, s, at + sep.n, end);
        push_part(x, l, s, 0, end);
        reverse(l);
        return l;
    }
    size_t from = 0;
    for (const char *p; max != 0 && (p = memmem(s.s + from, s.n - from, sep.s, sep.n)); max--) {
        push_part(x, l, s, from, (size_t)(p - s.s));
        from = (size_t)(p - s.s) + sep.n;
    }
    push_part(x, l, s, from, s.n);
    return l;
}

gy_jlist *gy_js_splitlines(gy_jx *x, gy_jv s, bool keep) {
    gy_jlist *l = gy_jx_list(x, 0);
    size_t from = 0, i = 0;
    gy_jx_charge(x, s.n);
    while (i < s.n) {
        uint32_t cp;
        size_t k = gy_utf8_get(s.s + i, s.n - i, &cp), end = i;
        i += k;
        bool line = (cp >= 10 && cp <= 13) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 ||
                    cp == 0x2028 || cp == 0x2029;
        if (!line) continue;
        if (cp == '\r' && i < s.n && s.s[i] == '\n') i++;
        push_part(x, l, s, from, keep ? i : end);
        from = i;
    }
    if (from < s.n) push_part(x, l, s, from, s.n);
    return l;
}
