/* tojson and from_json: Python's json.dumps and loads. */
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "text/jinja.h"

typedef struct {
    gy_jx *x;
    gy_buf *b;
    bool ascii, sort, lines; /* lines: indent was given, items go on lines of their own */
    gy_jv indent;            /* one level, as text */
    gy_jv item_sep, key_sep;
    int level;
} writer;

static void put_str(writer *w, gy_jv s) {
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    gy_jx_charge(w->x, s.n);
    gy_buf_c(w->b, '"');
    for (size_t i = 0, k; i < s.n; i += k) {
        uint32_t cp;
        k = gy_utf8_get(s.s + i, s.n - i, &cp);
        const char *esc = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
        if (esc)
            gy_buf_c(w->b, '\\'), gy_buf_c(w->b, to[esc - from]);
        else if (cp < 0x20)
            gy_buf_printf(w->b, "\\u%04x", cp);
        else if (cp < 0x7F || !w->ascii)
            gy_buf_add(w->b, s.s + i, k);
        else if (cp < 0x10000)
            gy_buf_printf(w->b, "\\u%04x", cp);
        else
            gy_buf_printf(w->b, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                          0xDC00 + ((cp - 0x10000) & 0x3FF));
    }
    gy_buf_c(w->b, '"');
}

static void put_float(gy_buf *b, double f) {
    char text[40];
    if (isnan(f))
        gy_buf_puts(b, "NaN");
    else if (isinf(f))
        gy_buf_puts(b, f < 0 ? "-Infinity" : "Infinity");
    else
        gy_buf_add(b, text, gy_jx_float_repr(text, f));
}

static void put_line(writer *w) {
    if (!w->lines) return;
    gy_buf_c(w->b, '\n');
    gy_jx_charge(w->x, (size_t)w->level * w->indent.n);
    for (int i = 0; i < w->level; i++) gy_buf_add(w->b, w->indent.s, w->indent.n);
}

/* Scalars as they stand; false for the others. */
static bool put_scalar(writer *w, gy_jv v) {
    switch (v.t) {
    case JX_NONE: gy_buf_puts(w->b, "null"); return true;
    case JX_BOOL: gy_buf_puts(w->b, v.i ? "true" : "false"); return true;
    case JX_INT: gy_buf_printf(w->b, "%lld", (long long)v.i); return true;
    case JX_BIG: gy_buf_add(w->b, v.s, v.n); return true;
    case JX_FLOAT: put_float(w->b, v.f); return true;
    default: return false;
    }
}

static void put_key(writer *w, gy_jv k) {
    if (k.t == JX_STR) {
        put_str(w, k);
        return;
    }
    gy_buf_c(w->b, '"');
    if (!put_scalar(w, k))
        gy_jx_fail(w->x, GY_EFORMAT, "keys must be str, int, float, bool or None, not %s",
                   gy_jv_type(k));
    gy_buf_c(w->b, '"');
}

static void put(writer *w, gy_jv v);

/* Positions of d's entries in the order of their keys. */
static uint32_t *sorted_keys(writer *w, const gy_jdict *d) {
    uint32_t *order = gy_jx_alloc(w->x, d->n * sizeof *order + 1);
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t k = i;
        for (; k && gy_jx_cmp(w->x, d->e[i].k, d->e[order[k - 1]].k, JO_LT) == -1; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return order;
}

static void put_dict(writer *w, const gy_jdict *d) {
    uint32_t *order = w->sort ? sorted_keys(w, d) : NULL;
    gy_buf_c(w->b, '{');
    w->level++;
    for (uint32_t i = 0; i < d->n; i++) {
        const gy_jpair *e = &d->e[order ? order[i] : i];
        if (i) gy_buf_add(w->b, w->item_sep.s, w->item_sep.n);
        put_line(w);
        put_key(w, e->k);
        gy_buf_add(w->b, w->key_sep.s, w->key_sep.n);
        put(w, e->v);
    }
    w->level--;
    if (d->n) put_line(w);
    gy_buf_c(w->b, '}');
}

static void put_list(writer *w, const gy_jlist *l) {
    gy_buf_c(w->b, '[');
    w->level++;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) gy_buf_add(w->b, w->item_sep.s, w->item_sep.n);
        put_line(w);
        put(w, l->v[i]);
    }
    w->level--;
    if (l->n) put_line(w);
    gy_buf_c(w->b, ']');
}

static void put(writer *w, gy_jv v) {
    gy_jx_charge(w->x, 0);
    if (w->b->over) gy_jx_fail(w->x, GY_ELIMIT, "text too long");
    if (v.t == JX_STR) {
        put_str(w, v);
    } else if (!put_scalar(w, v)) {
        gy_jx_enter(w->x);
        if (v.t == JX_DICT)
            put_dict(w, v.d);
        else if (v.t == JX_LIST || v.t == JX_TUPLE)
            put_list(w, v.l);
        else
            gy_jx_fail(w->x, GY_EFORMAT, "Object of type %s is not JSON serializable",
                       gy_jv_type(v));
        gy_jx_leave(w->x);
    }
}

void gy_jx_tojson(gy_jx *x, gy_buf *b, gy_jv v, bool ascii, gy_jv indent, gy_jv separators,
                  bool sort) {
    static char spaces[] =
        "                                                                "; /* 64 */
    writer w = {.x = x, .b = b, .ascii = ascii, .sort = sort};
    w.item_sep = gy_jv_cstr(", "), w.key_sep = gy_jv_cstr(": ");
    if (gy_jv_given(indent) && indent.t != JX_NONE) {
        w.lines = true, w.item_sep = gy_jv_cstr(",");
        if (indent.t == JX_STR) {
            w.indent = indent;
        } else {
            int64_t n = gy_jx_index(x, indent, "indent");
            if (n > 64) gy_jx_fail(x, GY_ELIMIT, "indent of more than 64 spaces");
            w.indent = gy_jv_str(spaces, n < 0 ? 0 : (size_t)n);
        }
    }
    if (gy_jv_given(separators) && separators.t != JX_NONE) {
        gy_jlist *l = gy_jx_items(x, separators);
        if (l->n != 2 || l->v[0].t != JX_STR || l->v[1].t != JX_STR)
            gy_jx_fail(x, GY_EFORMAT, "separators must be two strings");
        w.item_sep = l->v[0], w.key_sep = l->v[1];
    }
    put(&w, v);
}

gy_jv gy_jx_parse_json(gy_jx *x, gy_jv text) {
    gy_json_doc doc = {0};
    gy_err err = {0};
    if (text.t != JX_STR)
        gy_jx_fail(x, GY_EFORMAT, "from_json needs a string, not %s", gy_jv_type(text));
    gy_jx_charge(x, (size_t)text.n * 16);
    if (gy_json_parse(&doc, text.s, text.n, &err)) {
        gy_json_free(&doc);
        gy_jx_fail(x, GY_EFORMAT, "from_json: %s", err.msg);
    }
    /* The document must live as long as the values made of it: it is freed with the render. */
    if (x->n_docs == JX_MAX_DOCS) {
        gy_json_free(&doc);
        gy_jx_fail(x, GY_ELIMIT, "from_json used more than %d times", JX_MAX_DOCS);
    }
    x->docs[x->n_docs++] = doc;
    x->doc_bytes += doc.arena.total;
    if (x->doc_bytes > x->memory) gy_jx_fail(x, GY_ELIMIT, "too much memory");
    return gy_jx_from_json(x, doc.root);
}
