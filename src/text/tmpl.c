/* The template engine's front: parse a source, render it over variables. */
#include "text/tmpl.h"

#include "base/utf8.h"
#include "text/jinja.h"

enum { MAX_SOURCE = 1 << 20 };

/* Copies source with newlines as \n, one trailing newline gone, and ill-formed UTF-8 replaced. */
static bool normalise(const char *s, size_t n, gy_buf *b) {
    static const char replacement[] = "\xEF\xBF\xBD";
    if (!gy_buf_need(b, n)) return false;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t k = gy_utf8_get(s + i, n - i, &cp);
        if (s[i] == '\r') {
            gy_buf_c(b, '\n');
            if (i + 1 < n && s[i + 1] == '\n') k = 2;
        } else if (cp == 0xFFFD) {
            gy_buf_add(b, replacement, 3);
        } else {
            gy_buf_add(b, s + i, k);
        }
        i += k;
    }
    if (b->n && b->p[b->n - 1] == '\n') b->p[--b->n] = 0;
    return !b->oom;
}

gy_rc gy_tmpl_parse(const char *source, size_t n, gy_tmpl **out, gy_err *err) {
    gy_buf text = {0};
    gy_jtoks toks = {0};
    if (n > MAX_SOURCE)
        return gy_fail(err, GY_ELIMIT, "template of %zu bytes: at most %d are taken", n,
                       MAX_SOURCE);
    gy_tmpl *t = gy_alloc(sizeof *t);
    bool ok = t && normalise(source, n, &text);
    size_t bytes = text.n;
    if (ok) t->source = gy_buf_take(&text, &bytes);
    gy_buf_free(&text);
    if (!ok || !t->source) {
        gy_tmpl_free(t);
        return gy_fail(err, GY_ENOMEM, "template: out of memory");
    }
    gy_rc rc = gy_jx_lex(&t->arena, t->source, bytes, &toks, err);
    if (!rc) rc = gy_jx_parse(t, &toks, err);
    gy_free(toks.tok);
    if (rc)
        gy_tmpl_free(t);
    else
        *out = t;
    return rc;
}

void gy_tmpl_free(gy_tmpl *t) {
    if (!t) return;
    gy_arena_free(&t->arena);
    gy_free(t->source);
    gy_free(t);
}

static const gy_json *variable(const gy_json *vars, gy_jsym name) {
    if (!vars || vars->kind != GY_JSON_OBJ) return NULL;
    for (uint32_t i = 0; i < vars->n; i++)
        if (vars->key[i].n == name.n && memcmp(vars->key[i].s, name.s, name.n) == 0)
            return &vars->item[i];
    return NULL;
}

/* What the template's names mean at the start: input first, then globals. */
static void prepare(gy_jx *x, const gy_json *vars) {
    const gy_tmpl *t = x->t;
    x->given = gy_jx_alloc(x, (t->n_sym + 1) * sizeof *x->given);
    x->top = gy_jx_alloc(x, (t->n_sym + 1) * sizeof *x->top);
    for (uint32_t i = 0; i < t->n_sym; i++) {
        if (t->mention[i] == JX_LATE) continue;
        const gy_json *v = variable(vars, t->sym[i]);
        x->given[i] = v ? gy_jx_from_json(x, v) : gy_jx_global(t->sym[i].s, t->sym[i].n);
    }
}

static bool guarded(gy_jx *x, const gy_json *vars) {
    if (setjmp(x->fail)) return false;
    prepare(x, vars);
    gy_jx_run(x);
    return true;
}

gy_rc gy_tmpl_render(const gy_tmpl *t, const gy_json *vars, const gy_tmpl_limits *limits,
                     gy_buf *out, gy_err *err) {
    gy_tmpl_limits l = limits ? *limits : (gy_tmpl_limits){0};
    gy_err own = {0};
    gy_jx *x = gy_alloc(sizeof *x);
    if (!x) return gy_fail(err, GY_ENOMEM, "template: out of memory");
    x->t = t, x->err = &own;
    x->steps = l.steps ? l.steps : 5000000;
    x->memory = l.memory ? l.memory : (size_t)256 << 20;
    x->max_calls = l.depth ? l.depth : 200;
    x->out.max = l.output ? l.output : (size_t)16 << 20;
    x->tmp.max = x->out.max;
    if (!gy_buf_need(&x->out, 256) || !gy_buf_need(&x->tmp, 256))
        gy_fail(&own, GY_ENOMEM, "template: out of memory");
    else if (guarded(x, vars))
        gy_buf_add(out, x->out.p, x->out.n);
    for (int i = 0; i < x->n_docs; i++) gy_json_free(&x->docs[i]);
    gy_arena_free(&x->arena);
    gy_buf_free(&x->out), gy_buf_free(&x->tmp);
    gy_free(x);
    if (!own.rc && out->oom) gy_fail(&own, GY_ENOMEM, "template: out of memory");
    if (!own.rc && out->over)
        gy_fail(&own, GY_ELIMIT, "template: the text is longer than the caller takes");
    return own.rc ? gy_fail(err, own.rc, "%s", own.msg) : GY_OK;
}
