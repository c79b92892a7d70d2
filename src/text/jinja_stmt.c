/* Parser: statements.
 *
 *     IF          list: test, body, test, body, .. [else]
 *     FOR         a target, b items, c filter or NULL; list: body, [else]; op JX_FOR_RECURSIVE
 *     SET         a target, b value;  SETBLOCK  a target, b filters or NULL, c body
 *     MACRO       v name, sym; a BODY of parameter NAMEs, b BODY of the last defaults, c body; op
 * JX_MACRO_* CALLBLOCK   a call, b the MACRO that becomes caller;  FILTERBLOCK  b filters, c body
 *     WITH        list: target, value, ..; c body;  SCOPE  c body;  ESCAPE  a switch, c body
 *
 * Filters of a block start from a NAME of the reserved symbol s_block. */
#include "text/jinja_parse.h"

static gy_jn *statement(gy_jparser *p);

static bool at_end_word(const gy_jparser *p, const char *const *end) {
    for (; end && *end; end++)
        if (gy_jp_name(p, *end)) return true;
    return false;
}

/* Reads up to the block that begins with one of the words in end; its name is the current token
 * then. */
static gy_jn *subparse(gy_jparser *p, const char *const *end) {
    gy_jn *body = gy_jp_node(p, JN_BODY, gy_jp_tok(p)->line), *e;
    gy_jlistb items = {0};
    if (!body || !gy_jp_deeper(p)) return NULL;
    for (;;) {
        const gy_jtok *t = gy_jp_tok(p);
        p->at++;
        if (t->k == JT_EOF) {
            p->at--;
            if (end)
                return gy_jp_fail(p, t->line, "Unexpected end of template; looking for '%s'",
                                  end[0]),
                       NULL;
            break;
        }
        if (t->k == JT_DATA) {
            if (!(e = gy_jp_node(p, JN_DATA, t->line))) return NULL;
            e->v = t->v;
        } else if (t->k == JT_VAR_BEGIN) {
            e = gy_jp_node(p, JN_OUT, t->line);
            if (!e || !(e->a = gy_jp_tuple(p, JP_CONDEXPR)) || !gy_jp_expect(p, JT_VAR_END) ||
                !gy_jp_done(p, e))
                return NULL;
        } else {
            if (at_end_word(p, end)) break;
            if (!(e = statement(p)) || !gy_jp_expect(p, JT_BLOCK_END)) return NULL;
        }
        gy_jp_add(p, &items, e);
        if (p->err->rc || !gy_jp_all_known(p)) return NULL;
    }
    p->depth--;
    body->list = items.v, body->n = items.n;
    return gy_jp_done(p, body);
}

/* The body of a block: from its closing mark to one of the end words; drop skips that word too. In
 * a frame of its own (not the branches of an if) unknown filters are errors again. */
static gy_jn *block_body(gy_jparser *p, const char *const *end, bool drop) {
    gy_jp_skip(p, JT_COLON);
    if (!gy_jp_all_known(p) || !gy_jp_expect(p, JT_BLOCK_END)) return NULL;
    gy_jn *e = subparse(p, end);
    if (e && drop) p->at++;
    return e;
}

static gy_jn *framed_body(gy_jparser *p, const char *end) {
    const char *const words[] = {end, NULL};
    bool soft = p->soft;
    p->soft = false, p->frames++;
    gy_jn *e = block_body(p, words, true);
    p->soft = soft, p->frames--;
    return e;
}

static gy_jn *make(gy_jparser *p, gy_jn_kind k) {
    return gy_jp_node(p, k, gy_jp_tok(p)->line);
}

static bool assignable(gy_jparser *p, const gy_jn *e) {
    if (e->k == JN_TUPLE) {
        for (uint32_t i = 0; i < e->n; i++)
            if (!assignable(p, e->list[i])) return false;
        return true;
    }
    return e->k == JN_NAME || e->k == JN_NSREF ||
           gy_jp_fail(p, e->line, "can't assign to this expression");
}

static bool stores(const gy_jn *e, uint32_t sym) {
    if (e->k == JN_NAME) return e->sym == sym;
    for (uint32_t i = 0; e->k == JN_TUPLE && i < e->n; i++)
        if (stores(e->list[i], sym)) return true;
    return false;
}

static gy_jn *target(gy_jparser *p, bool with_namespace) {
    unsigned uses = p->uses; /* a store is no use */
    p->storing = true;
    gy_jn *e = gy_jp_tuple(p, JP_SIMPLIFIED | (with_namespace ? JP_NAMESPACE : 0));
    p->uses = uses, p->storing = false;
    return e && assignable(p, e) ? e : NULL;
}

static gy_jn *parse_if(gy_jparser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif",
                                                                                        NULL};
    gy_jn *e = make(p, JN_IF);
    gy_jlistb parts = {0};
    bool soft = p->soft;
    if (!e) return NULL;
    p->soft = true;
    do {
        p->at++;
        gy_jn *test = gy_jp_tuple(p, 0), *body = test ? block_body(p, ends, false) : NULL;
        if (!body) return NULL;
        gy_jp_add(p, &parts, test), gy_jp_add(p, &parts, body);
    } while (gy_jp_name(p, "elif"));
    if (gy_jp_skip_name(p, "else")) {
        gy_jn *body = block_body(p, last, false);
        if (!body) return NULL;
        gy_jp_add(p, &parts, body);
    }
    p->at++, p->soft = soft;
    e->list = parts.v, e->n = parts.n;
    return gy_jp_done(p, e);
}

static gy_jn *parse_for(gy_jparser *p) {
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    gy_jn *e = make(p, JN_FOR);
    bool soft = p->soft;
    if (!e || !(e->list = gy_jp_alloc(p, 2 * sizeof *e->list))) return NULL;
    p->at++;
    if (!(e->a = target(p, false))) return NULL;
    if (stores(e->a, p->t->s_loop))
        return gy_jp_fail(p, e->line, "Can't assign to special loop variable in for-loop"), NULL;
    if (!gy_jp_name(p, "in")) {
        char out[64];
        const gy_jtok *t = gy_jp_tok(p);
        gy_jp_fail(p, e->line, "expected token 'in', got '%s'",
                   t->k == JT_NAME ? gy_err_quote(out, t->v.s, t->v.n) : gy_jx_tok_name(t->k));
        return NULL;
    }
    p->at++;
    if (!(e->b = gy_jp_tuple(p, 0))) return NULL;
    if (!gy_jp_all_known(p)) return NULL;
    p->soft = false, p->loops++, p->frames++;
    if (gy_jp_skip_name(p, "if") && !(e->c = gy_jp_expr(p, true))) return NULL;
    if (gy_jp_skip_name(p, "recursive")) e->op = JX_FOR_RECURSIVE;
    if (!(e->list[0] = block_body(p, ends, false))) return NULL;
    p->loops--, e->n = 1;
    if (gy_jp_skip_name(p, "else")) {
        if (!(e->list[1] = block_body(p, last, false))) return NULL;
        e->n = 2;
    }
    p->at++, p->soft = soft, p->frames--;
    return gy_jp_done(p, e);
}

/* An assignment at the top level, outside of any if. */
static void note_store(gy_jparser *p, const gy_jn *e) {
    if (p->frames || p->soft) return;
    if (e->k == JN_NAME && !p->t->mention[e->sym]) p->t->mention[e->sym] = JX_LATE;
    for (uint32_t i = 0; e->k == JN_TUPLE && i < e->n; i++) note_store(p, e->list[i]);
}

static gy_jn *parse_set(gy_jparser *p) {
    gy_jn *e = make(p, JN_SET);
    if (!e) return NULL;
    p->at++;
    if (!(e->a = target(p, true))) return NULL;
    if (gy_jp_skip(p, JT_ASSIGN)) {
        if (!(e->b = gy_jp_tuple(p, JP_CONDEXPR))) return NULL;
        note_store(p, e->a);
        return gy_jp_done(p, e);
    }
    e->k = JN_SETBLOCK;
    if (gy_jp_tok(p)->k == JT_PIPE) {
        gy_jn *start = make(p, JN_NAME);
        if (!start) return NULL;
        start->sym = p->t->s_block;
        if (!(e->b = gy_jp_filter(p, start, false))) return NULL;
    }
    note_store(p, e->a);
    return (e->c = framed_body(p, "endset")) ? gy_jp_done(p, e) : NULL;
}

/* "(a, b=1)" into m->a and m->b. */
static bool signature(gy_jparser *p, gy_jn *m) {
    gy_jlistb names = {0}, defaults = {0};
    if (!gy_jp_expect(p, JT_LPAREN)) return false;
    while (gy_jp_tok(p)->k != JT_RPAREN) {
        if (names.n && !gy_jp_expect(p, JT_COMMA)) return false;
        const gy_jtok *t = gy_jp_expect_name(p);
        gy_jn *name = t ? gy_jp_name_node(p, t) : NULL, *value;
        if (!name) return false;
        if (gy_jp_skip(p, JT_ASSIGN)) {
            if (!(value = gy_jp_expr(p, true))) return false;
            gy_jp_add(p, &defaults, value);
        } else if (defaults.n) {
            return gy_jp_fail(p, t->line, "non-default argument follows default argument");
        }
        gy_jp_add(p, &names, name);
    }
    p->at++;
    m->a->list = names.v, m->a->n = names.n;
    m->b->list = defaults.v, m->b->n = defaults.n;
    gy_jp_done(p, m->b);
    return true;
}

static gy_jn *macro_node(gy_jparser *p) {
    gy_jn *m = make(p, JN_MACRO);
    if (!m || !(m->a = make(p, JN_BODY)) || !(m->b = make(p, JN_BODY))) return NULL;
    return m;
}

/* The body of a macro, with notes on which special names it reads. */
static bool macro_body(gy_jparser *p, gy_jn *m, const char *end) {
    unsigned outer = p->uses;
    int loops = p->loops;
    p->uses = 0, p->loops = 0;
    m->c = framed_body(p, end);
    unsigned uses = p->uses;
    p->uses |= outer, p->loops = loops;
    if (!m->c) return false;
    for (uint32_t i = 0; i < m->a->n; i++) {
        uint32_t sym = m->a->list[i]->sym;
        bool has_default = i >= m->a->n - m->b->n;
        if (sym == p->t->s_kwargs) uses &= ~(unsigned)JX_MACRO_KWARGS;
        if (sym == p->t->s_varargs) uses &= ~(unsigned)JX_MACRO_VARARGS;
        if (sym == p->t->s_caller && uses & JX_MACRO_CALLER && !has_default)
            return gy_jp_fail(
                p, m->line,
                "the special \"caller\" argument must be omitted or be given a default");
    }
    m->op = (uint8_t)uses;
    return gy_jp_done(p, m) != NULL;
}

static gy_jn *parse_macro(gy_jparser *p) {
    gy_jn *m = macro_node(p);
    if (!m) return NULL;
    p->at++;
    const gy_jtok *name = gy_jp_expect_name(p);
    if (!name) return NULL;
    m->v = gy_jv_str(name->v.s, name->v.n), m->sym = gy_jp_sym(p, name->v.s, name->v.n);
    if (!p->frames && !p->soft && !p->t->mention[m->sym]) p->t->mention[m->sym] = JX_LATE;
    return signature(p, m) && macro_body(p, m, "endmacro") ? m : NULL;
}

static gy_jn *parse_call(gy_jparser *p) {
    gy_jn *e = make(p, JN_CALLBLOCK), *m = macro_node(p);
    if (!e || !m) return NULL;
    p->at++;
    m->v = gy_jv_cstr("caller");
    if (gy_jp_tok(p)->k == JT_LPAREN && !signature(p, m)) return NULL;
    if (!(e->a = gy_jp_expr(p, true))) return NULL;
    if (e->a->k != JN_CALL) return gy_jp_fail(p, e->line, "expected call"), NULL;
    e->b = m;
    return macro_body(p, m, "endcall") ? gy_jp_done(p, e) : NULL;
}

static gy_jn *parse_filter_block(gy_jparser *p) {
    gy_jn *e = make(p, JN_FILTERBLOCK), *start = make(p, JN_NAME);
    if (!e || !start) return NULL;
    p->at++;
    start->sym = p->t->s_block;
    if (!(e->b = gy_jp_filter(p, start, true))) return NULL;
    return (e->c = framed_body(p, "endfilter")) ? gy_jp_done(p, e) : NULL;
}

static gy_jn *parse_with(gy_jparser *p) {
    gy_jn *e = make(p, JN_WITH);
    gy_jlistb pairs = {0};
    if (!e) return NULL;
    p->at++;
    while (gy_jp_tok(p)->k != JT_BLOCK_END) {
        if (pairs.n && !gy_jp_expect(p, JT_COMMA)) return NULL;
        gy_jn *to = target(p, false), *value;
        if (!to || !gy_jp_expect(p, JT_ASSIGN) || !(value = gy_jp_expr(p, true))) return NULL;
        gy_jp_add(p, &pairs, to), gy_jp_add(p, &pairs, value);
    }
    e->list = pairs.v, e->n = pairs.n;
    return (e->c = framed_body(p, "endwith")) ? gy_jp_done(p, e) : NULL;
}

static gy_jn *parse_generation(gy_jparser *p) {
    gy_jn *e = make(p, JN_SCOPE);
    int loops = p->loops;
    if (!e) return NULL;
    p->at++, p->loops = 0;
    e->c = framed_body(p, "endgeneration");
    p->loops = loops;
    return e->c ? gy_jp_done(p, e) : NULL;
}

static gy_jn *parse_escape(gy_jparser *p) {
    gy_jn *e = make(p, JN_ESCAPE);
    if (!e) return NULL;
    p->at++;
    if (!(e->a = gy_jp_expr(p, true))) return NULL;
    return (e->c = framed_body(p, "endautoescape")) ? gy_jp_done(p, e) : NULL;
}

static gy_jn *parse_print(gy_jparser *p) {
    gy_jn *body = make(p, JN_BODY);
    gy_jlistb items = {0};
    if (!body) return NULL;
    p->at++;
    while (gy_jp_tok(p)->k != JT_BLOCK_END) {
        if (items.n && !gy_jp_expect(p, JT_COMMA)) return NULL;
        gy_jn *e = make(p, JN_OUT);
        if (!e || !(e->a = gy_jp_expr(p, true)) || !gy_jp_done(p, e)) return NULL;
        gy_jp_add(p, &items, e);
    }
    body->list = items.v, body->n = items.n;
    return gy_jp_done(p, body);
}

static gy_jn *parse_jump(gy_jparser *p) {
    bool is_break = gy_jp_name(p, "break");
    gy_jn *e = make(p, is_break ? JN_BREAK : JN_CONTINUE);
    if (!e) return NULL;
    if (!p->loops)
        return gy_jp_fail(p, e->line, "'%s' outside loop", is_break ? "break" : "continue"), NULL;
    p->at++;
    return e;
}

static gy_jn *statement(gy_jparser *p) {
    static const struct {
        const char *word;
        gy_jn *(*parse)(gy_jparser *);
    } words[] = {{"if", parse_if},       {"for", parse_for},       {"set", parse_set},
                 {"macro", parse_macro}, {"call", parse_call},     {"filter", parse_filter_block},
                 {"with", parse_with},   {"print", parse_print},   {"generation", parse_generation},
                 {"break", parse_jump},  {"continue", parse_jump}, {"autoescape", parse_escape}};
    static const char *const refused[] = {"include", "import", "from", "extends",
                                          "block",   "trans",  "do",   NULL};
    const gy_jtok *t = gy_jp_tok(p);
    char out[64];
    if (t->k != JT_NAME) return gy_jp_fail(p, t->line, "tag name expected"), NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (gy_jp_name(p, words[i].word)) return words[i].parse(p);
    if (at_end_word(p, refused))
        gy_jp_fail(p, t->line, "tag '%s' is not supported", gy_err_quote(out, t->v.s, t->v.n));
    else
        gy_jp_fail(p, t->line, "Encountered unknown tag '%s'.", gy_err_quote(out, t->v.s, t->v.n));
    return NULL;
}

gy_rc gy_jx_parse(gy_tmpl *t, const gy_jtoks *toks, gy_err *err) {
    gy_err own = {0};
    gy_jparser p = {.t = t, .tok = toks->tok, .n_tok = toks->n, .err = &own};
    uint32_t names = 8, slots = 32;
    for (uint32_t i = 0; i < toks->n; i++) names += toks->tok[i].k == JT_NAME;
    while (slots < names * 2) slots *= 2;
    t->cap_sym = names, p.mask = slots - 1;
    t->sym = gy_jp_alloc(&p, names * sizeof *t->sym);
    p.index = gy_alloc_n(slots, sizeof *p.index);
    t->mention = gy_jp_alloc(&p, names);
    if (t->sym && t->mention && p.index) {
        t->s_loop = gy_jp_sym(&p, "loop", 4);
        t->s_caller = gy_jp_sym(&p, "caller", 6);
        t->s_varargs = gy_jp_sym(&p, "varargs", 7);
        t->s_kwargs = gy_jp_sym(&p, "kwargs", 6);
        t->s_block = gy_jp_sym(&p, " block", 6);
        t->body = subparse(&p, NULL);
    }
    gy_free(p.index);
    if (own.rc) return gy_fail(err, own.rc, "%s", own.msg);
    return t->body ? GY_OK : gy_fail(err, GY_ENOMEM, "template: out of memory");
}
