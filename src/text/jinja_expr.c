/* Parser: expressions, by Jinja's own precedence (loosest first):
 *
 *     x if c else y | or | and | not | == != < in .. | + - | ~ | * / // % | ** | unary - + |
 * postfix, filters, tests
 *
 * Unary minus takes its operand without filters, so -n|abs is (-n)|abs. Statements are in
 * jinja_stmt.c. Recursion is bounded by DEPTH; trees that grow to the left without recursion are
 * bounded by TREE. */
#include "text/jinja_parse.h"

enum { DEPTH = 200, TREE = 1000 };

bool gy_jp_fail(gy_jparser *p, int line, const char *fmt, ...) {
    char msg[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    gy_fail(p->err, GY_EFORMAT, "template line %d: %s", line, msg);
    return false;
}

void *gy_jp_alloc(gy_jparser *p, size_t bytes) {
    void *m = gy_arena_alloc(&p->t->arena, bytes);
    if (!m) gy_fail(p->err, GY_ENOMEM, "template: out of memory");
    return m;
}

gy_jn *gy_jp_node(gy_jparser *p, gy_jn_kind k, int line) {
    gy_jn *e = gy_jp_alloc(p, sizeof *e);
    if (e) e->k = (uint8_t)k, e->line = line, e->depth = 1;
    return e;
}

/* Finishes a node: its depth is one more than its children's. NULL when the tree has become too
 * deep. */
gy_jn *gy_jp_done(gy_jparser *p, gy_jn *e) {
    const gy_jn *kids[3] = {e->a, e->b, e->c};
    uint16_t depth = 0;
    for (int i = 0; i < 3; i++)
        if (kids[i] && kids[i]->depth > depth) depth = kids[i]->depth;
    for (uint32_t i = 0; i < e->n && e->list; i++)
        if (e->list[i] && e->list[i]->depth > depth) depth = e->list[i]->depth;
    e->depth = (uint16_t)(depth + 1);
    return e->depth <= TREE
               ? e
               : (gy_jp_fail(p, e->line, "expression nested too deeply (more than %d levels)",
                             TREE),
                  NULL);
}

bool gy_jp_deeper(gy_jparser *p) {
    if (++p->depth <= DEPTH) return true;
    return gy_jp_fail(p, gy_jp_tok(p)->line, "nested too deeply (more than %d levels)", DEPTH);
}

void gy_jp_add(gy_jparser *p, gy_jlistb *l, gy_jn *e) {
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        gy_jn **v = gy_jp_alloc(p, cap * sizeof *v);
        if (!v) return;
        if (l->n) memcpy(v, l->v, l->n * sizeof *v);
        l->v = v, l->cap = cap;
    }
    l->v[l->n++] = e;
}

uint32_t gy_jp_sym(gy_jparser *p, const char *s, size_t n) {
    gy_tmpl *t = p->t;
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211ull;
    for (uint32_t i = (uint32_t)h & p->mask;; i = (i + 1) & p->mask) {
        uint32_t k = p->index[i];
        if (k && t->sym[k - 1].n == n && memcmp(t->sym[k - 1].s, s, n) == 0) return k - 1;
        if (k) continue;
        if (t->n_sym ==
            t->cap_sym) { /* the table was sized by the number of tokens: cannot happen */
            gy_jp_fail(p, 0, "too many names");
            return 0;
        }
        t->sym[t->n_sym] = (gy_jsym){s, (uint32_t)n};
        p->index[i] = ++t->n_sym;
        return t->n_sym - 1;
    }
}

bool gy_jp_name(const gy_jparser *p, const char *word) {
    const gy_jtok *t = gy_jp_tok(p);
    return t->k == JT_NAME && gy_jv_is((gy_jv){.t = JX_STR, .n = t->v.n, .s = t->v.s}, word);
}

bool gy_jp_skip_name(gy_jparser *p, const char *word) {
    if (!gy_jp_name(p, word)) return false;
    p->at++;
    return true;
}

bool gy_jp_skip(gy_jparser *p, gy_jt_kind k) {
    if (gy_jp_tok(p)->k != k) return false;
    p->at++;
    return true;
}

static const char *describe(const gy_jparser *p, char out[64]) {
    const gy_jtok *t = gy_jp_tok(p);
    if (t->k == JT_NAME) return gy_err_quote(out, t->v.s, t->v.n);
    return gy_jx_tok_name(t->k);
}

bool gy_jp_expect(gy_jparser *p, gy_jt_kind k) {
    char out[64];
    if (gy_jp_skip(p, k)) return true;
    return gy_jp_fail(p, gy_jp_tok(p)->line, "expected token '%s', got '%s'", gy_jx_tok_name(k),
                      describe(p, out));
}

/* A name token's text, or NULL after an error. */
const gy_jtok *gy_jp_expect_name(gy_jparser *p) {
    const gy_jtok *t = gy_jp_tok(p);
    return gy_jp_expect(p, JT_NAME) ? t : NULL;
}

static gy_jn *constant(gy_jparser *p, int line, gy_jv v) {
    gy_jn *e = gy_jp_node(p, JN_CONST, line);
    if (e) e->v = v;
    return e;
}

static void note_use(gy_jparser *p, uint32_t sym) {
    if (!p->frames && !p->storing && !p->t->mention[sym]) p->t->mention[sym] = JX_READ;
    if (sym == p->t->s_caller) p->uses |= JX_MACRO_CALLER;
    if (sym == p->t->s_varargs) p->uses |= JX_MACRO_VARARGS;
    if (sym == p->t->s_kwargs) p->uses |= JX_MACRO_KWARGS;
}

gy_jn *gy_jp_name_node(gy_jparser *p, const gy_jtok *t) {
    gy_jn *e = gy_jp_node(p, JN_NAME, t->line);
    if (!e) return NULL;
    e->v = gy_jv_str(t->v.s, t->v.n);
    e->sym = gy_jp_sym(p, t->v.s, t->v.n);
    return e;
}

static gy_jn *name_or_word(gy_jparser *p, bool with_namespace) {
    const gy_jtok *t = gy_jp_tok(p);
    gy_jv word = gy_jv_str(t->v.s, t->v.n);
    p->at++;
    if (gy_jv_is(word, "true") || gy_jv_is(word, "True"))
        return constant(p, t->line, gy_jv_bool(true));
    if (gy_jv_is(word, "false") || gy_jv_is(word, "False"))
        return constant(p, t->line, gy_jv_bool(false));
    if (gy_jv_is(word, "none") || gy_jv_is(word, "None"))
        return constant(p, t->line, gy_jv_of(JX_NONE));
    gy_jn *e = gy_jp_name_node(p, t);
    if (!e) return NULL;
    if (with_namespace && gy_jp_skip(p, JT_DOT)) {
        const gy_jtok *attr = gy_jp_expect_name(p);
        if (!attr) return NULL;
        e->k = JN_NSREF, e->v = gy_jv_str(attr->v.s, attr->v.n);
    }
    note_use(p, e->sym);
    return e;
}

static gy_jn *string_literal(gy_jparser *p) {
    const gy_jtok *t = gy_jp_tok(p);
    size_t n = 0, count = 0;
    for (; t[count].k == JT_STRING; count++) n += t[count].v.n;
    if (n > UINT32_MAX / 2) return gy_jp_fail(p, t->line, "string too long"), NULL;
    p->at += (uint32_t)count;
    if (count == 1) return constant(p, t->line, t->v);
    char *s = gy_jp_alloc(p, n + 1), *at = s;
    if (!s) return NULL;
    for (size_t i = 0; i < count; at += t[i++].v.n)
        if (t[i].v.n) memcpy(at, t[i].v.s, t[i].v.n);
    return constant(p, t->line, gy_jv_str(s, n));
}

static gy_jn *list_of(gy_jparser *p, gy_jn_kind k, int line, gy_jlistb items) {
    gy_jn *e = gy_jp_node(p, k, line);
    if (!e) return NULL;
    e->list = items.v, e->n = items.n;
    return gy_jp_done(p, e);
}

static gy_jn *list_literal(gy_jparser *p) {
    int line = gy_jp_tok(p)->line;
    gy_jlistb items = {0};
    p->at++;
    while (gy_jp_tok(p)->k != JT_RBRACKET) {
        if (items.n && !gy_jp_expect(p, JT_COMMA)) return NULL;
        if (gy_jp_tok(p)->k == JT_RBRACKET) break;
        gy_jn *e = gy_jp_expr(p, true);
        if (!e) return NULL;
        gy_jp_add(p, &items, e);
    }
    return gy_jp_expect(p, JT_RBRACKET) ? list_of(p, JN_LIST, line, items) : NULL;
}

static gy_jn *dict_literal(gy_jparser *p) {
    int line = gy_jp_tok(p)->line;
    gy_jlistb items = {0};
    p->at++;
    while (gy_jp_tok(p)->k != JT_RBRACE) {
        if (items.n && !gy_jp_expect(p, JT_COMMA)) return NULL;
        if (gy_jp_tok(p)->k == JT_RBRACE) break;
        gy_jn *pair = gy_jp_node(p, JN_PAIR, gy_jp_tok(p)->line);
        if (!pair || !(pair->a = gy_jp_expr(p, true)) || !gy_jp_expect(p, JT_COLON) ||
            !(pair->b = gy_jp_expr(p, true)) || !gy_jp_done(p, pair))
            return NULL;
        gy_jp_add(p, &items, pair);
    }
    return gy_jp_expect(p, JT_RBRACE) ? list_of(p, JN_DICT, line, items) : NULL;
}

static gy_jn *primary(gy_jparser *p, bool with_namespace) {
    const gy_jtok *t = gy_jp_tok(p);
    char out[64];
    gy_jn *e;
    switch (t->k) {
    case JT_NAME: return name_or_word(p, with_namespace);
    case JT_STRING: return string_literal(p);
    case JT_INT:
    case JT_FLOAT: p->at++; return constant(p, t->line, t->v);
    case JT_LBRACKET: return list_literal(p);
    case JT_LBRACE: return dict_literal(p);
    case JT_LPAREN:
        p->at++;
        e = gy_jp_tuple(p, JP_EXPLICIT | JP_CONDEXPR);
        return e && gy_jp_expect(p, JT_RPAREN) ? e : NULL;
    default: gy_jp_fail(p, t->line, "unexpected '%s'", describe(p, out)); return NULL;
    }
}

static bool tuple_end(const gy_jparser *p) {
    gy_jt_kind k = gy_jp_tok(p)->k;
    return k == JT_VAR_END || k == JT_BLOCK_END || k == JT_RPAREN;
}

gy_jn *gy_jp_tuple(gy_jparser *p, int flags) {
    int line = gy_jp_tok(p)->line;
    gy_jlistb items = {0};
    bool is_tuple = false;
    char out[64];
    for (;;) {
        if (items.n && !gy_jp_expect(p, JT_COMMA)) return NULL;
        if (tuple_end(p)) break;
        gy_jn *e = flags & JP_SIMPLIFIED ? primary(p, flags & JP_NAMESPACE)
                                         : gy_jp_expr(p, flags & JP_CONDEXPR);
        if (!e) return NULL;
        gy_jp_add(p, &items, e);
        if (gy_jp_tok(p)->k != JT_COMMA) break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) return items.v[0];
    if (!is_tuple && !(flags & JP_EXPLICIT)) {
        gy_jp_fail(p, line, "Expected an expression, got '%s'", describe(p, out));
        return NULL;
    }
    return list_of(p, JN_TUPLE, line, items);
}

static gy_jn *subscribed(gy_jparser *p) {
    int line = gy_jp_tok(p)->line;
    gy_jn *first = NULL;
    if (gy_jp_tok(p)->k != JT_COLON) {
        first = gy_jp_expr(p, true);
        if (!first || gy_jp_tok(p)->k != JT_COLON) return first;
    }
    gy_jn *e = gy_jp_node(p, JN_SLICE, line);
    if (!e) return NULL;
    e->a = first;
    for (int i = 0; i < 2 && gy_jp_skip(p, JT_COLON); i++) {
        gy_jt_kind k = gy_jp_tok(p)->k;
        if (k == JT_RBRACKET || k == JT_COMMA || k == JT_COLON) continue;
        gy_jn *bound = gy_jp_expr(p, true);
        if (!bound) return NULL;
        if (i == 0)
            e->b = bound;
        else
            e->c = bound;
    }
    return gy_jp_done(p, e);
}

static gy_jn *subscript(gy_jparser *p, gy_jn *obj) {
    const gy_jtok *t = gy_jp_tok(p);
    gy_jn *e = gy_jp_node(p, t->k == JT_DOT ? JN_ATTR : JN_ITEM, t->line);
    if (!e) return NULL;
    e->a = obj;
    p->at++;
    if (t->k == JT_DOT) {
        const gy_jtok *attr = gy_jp_tok(p);
        if (attr->k != JT_NAME && attr->k != JT_INT)
            return gy_jp_fail(p, attr->line, "expected name or number"), NULL;
        p->at++;
        if (attr->k == JT_NAME) {
            e->v = gy_jv_str(attr->v.s, attr->v.n);
            return gy_jp_done(p, e);
        }
        e->k = JN_ITEM;
        return (e->b = constant(p, attr->line, attr->v)) ? gy_jp_done(p, e) : NULL;
    }
    gy_jlistb items = {0};
    while (gy_jp_tok(p)->k != JT_RBRACKET) {
        if (items.n && !gy_jp_expect(p, JT_COMMA)) return NULL;
        gy_jn *s = subscribed(p);
        if (!s) return NULL;
        gy_jp_add(p, &items, s);
    }
    p->at++;
    e->b = items.n == 1 ? items.v[0] : list_of(p, JN_TUPLE, t->line, items);
    return e->b ? gy_jp_done(p, e) : NULL;
}

/* "(args)" into e->list. */
static bool call_args(gy_jparser *p, gy_jn *e) {
    gy_jlistb items = {0};
    int stage = 0; /* positional, keywords, *args, **kwargs: only forward */
    if (!gy_jp_expect(p, JT_LPAREN)) return false;
    while (gy_jp_tok(p)->k != JT_RPAREN) {
        if (items.n && !gy_jp_expect(p, JT_COMMA)) return false;
        const gy_jtok *t = gy_jp_tok(p);
        if (t->k == JT_RPAREN) break;
        bool star = t->k == JT_MUL, star2 = t->k == JT_POW,
             kw = t->k == JT_NAME && t[1].k == JT_ASSIGN;
        if ((star && stage >= 2) || (star2 && stage >= 3) || (kw && stage >= 3) ||
            (!star && !star2 && !kw && stage > 0))
            return gy_jp_fail(p, t->line, "invalid syntax for function call expression");
        stage = star2 ? 3 : star ? 2 : kw && stage < 1 ? 1 : stage;
        p->at += kw ? 2 : star || star2 ? 1 : 0;
        gy_jn *v = gy_jp_expr(p, true);
        if (!v) return false;
        if (star || star2 || kw) {
            gy_jn *w = gy_jp_node(p, star ? JN_STAR : star2 ? JN_STAR2 : JN_KW, t->line);
            if (!w) return false;
            w->a = v;
            if (kw) w->v = gy_jv_str(t->v.s, t->v.n);
            if (!(v = gy_jp_done(p, w))) return false;
        }
        gy_jp_add(p, &items, v);
    }
    e->list = items.v, e->n = items.n;
    return gy_jp_expect(p, JT_RPAREN);
}

static gy_jn *call(gy_jparser *p, gy_jn *fn) {
    gy_jn *e = gy_jp_node(p, JN_CALL, gy_jp_tok(p)->line);
    if (!e) return NULL;
    e->a = fn;
    return call_args(p, e) ? gy_jp_done(p, e) : NULL;
}

static gy_jn *postfix(gy_jparser *p, gy_jn *e) {
    while (e) {
        gy_jt_kind k = gy_jp_tok(p)->k;
        if (k == JT_DOT || k == JT_LBRACKET)
            e = subscript(p, e);
        else if (k == JT_LPAREN)
            e = call(p, e);
        else
            break;
    }
    return e;
}

/* The dotted name of a filter or test into e->v. */
static bool dotted_name(gy_jparser *p, gy_jn *e) {
    const gy_jtok *t = gy_jp_expect_name(p), *last = t;
    if (!t) return false;
    while (gy_jp_skip(p, JT_DOT))
        if (!(last = gy_jp_expect_name(p))) return false;
    e->v = gy_jv_str(t->v.s, (size_t)(last->v.s + last->v.n - t->v.s));
    return true;
}

static void check_known(gy_jparser *p, gy_jn *e) {
    if (!e->fn && !p->soft) gy_jp_add(p, &p->unknown, e);
}

gy_jn *gy_jp_filter(gy_jparser *p, gy_jn *e, bool inline_first) {
    while (e && (inline_first || gy_jp_tok(p)->k == JT_PIPE)) {
        if (!inline_first) p->at++;
        inline_first = false;
        gy_jn *f = gy_jp_node(p, JN_FILTER, gy_jp_tok(p)->line);
        if (!f || !dotted_name(p, f)) return NULL;
        f->a = e, f->fn = gy_jx_filter(f->v.s, f->v.n);
        check_known(p, f);
        if (gy_jp_tok(p)->k == JT_LPAREN && !call_args(p, f)) return NULL;
        e = gy_jp_done(p, f);
    }
    return e;
}

static bool test_argument(const gy_jparser *p) {
    switch (gy_jp_tok(p)->k) {
    case JT_STRING:
    case JT_INT:
    case JT_FLOAT:
    case JT_LBRACKET:
    case JT_LBRACE: return true;
    case JT_NAME: return !gy_jp_name(p, "else") && !gy_jp_name(p, "or") && !gy_jp_name(p, "and");
    default: return false;
    }
}

static gy_jn *test(gy_jparser *p, gy_jn *e) {
    gy_jn *f = gy_jp_node(p, JN_TEST, gy_jp_tok(p)->line);
    if (!f) return NULL;
    p->at++;
    bool negated = gy_jp_skip_name(p, "not");
    if (!dotted_name(p, f)) return NULL;
    f->a = e, f->fn = gy_jx_test(f->v.s, f->v.n);
    check_known(p, f);
    if (gy_jp_tok(p)->k == JT_LPAREN) {
        if (!call_args(p, f)) return NULL;
    } else if (test_argument(p)) {
        if (gy_jp_name(p, "is"))
            return gy_jp_fail(p, f->line, "You cannot chain multiple tests with is"), NULL;
        gy_jlistb items = {0};
        gy_jn *arg = primary(p, false);
        if (!arg || !(arg = postfix(p, arg))) return NULL;
        gy_jp_add(p, &items, arg);
        f->list = items.v, f->n = items.n;
    }
    if (!gy_jp_done(p, f) || !negated) return f->depth <= TREE ? f : NULL;
    gy_jn *no = gy_jp_node(p, JN_NOT, f->line);
    if (!no) return NULL;
    no->a = f;
    return gy_jp_done(p, no);
}

static gy_jn *unary(gy_jparser *p, bool with_filter) {
    gy_jt_kind k = gy_jp_tok(p)->k;
    gy_jn *e;
    if (k == JT_SUB || k == JT_ADD) {
        e = gy_jp_node(p, k == JT_SUB ? JN_NEG : JN_POS, gy_jp_tok(p)->line);
        if (!e || !gy_jp_deeper(p)) return NULL;
        p->at++;
        e->a = unary(p, false);
        p->depth--;
        e = e->a ? gy_jp_done(p, e) : NULL;
    } else {
        e = primary(p, false);
    }
    e = e ? postfix(p, e) : NULL;
    while (e && with_filter) {
        if (gy_jp_tok(p)->k == JT_PIPE)
            e = gy_jp_filter(p, e, false);
        else if (gy_jp_name(p, "is"))
            e = test(p, e);
        else if (gy_jp_tok(p)->k == JT_LPAREN)
            e = call(p, e);
        else
            break;
    }
    return e;
}

static gy_jn *binary(gy_jparser *p, gy_jn_kind k, int op, int line, gy_jn *a, gy_jn *b) {
    gy_jn *e = a && b ? gy_jp_node(p, k, line) : NULL;
    if (!e) return NULL;
    e->op = (uint8_t)op, e->a = a, e->b = b;
    return gy_jp_done(p, e);
}

static gy_jn *power(gy_jparser *p) {
    gy_jn *e = unary(p, true);
    while (e && gy_jp_tok(p)->k == JT_POW) {
        int line = gy_jp_tok(p)->line;
        p->at++;
        e = binary(p, JN_BIN, JO_POW, line, e, unary(p, true));
    }
    return e;
}

static gy_jn *product(gy_jparser *p) {
    gy_jn *e = power(p);
    while (e) {
        const gy_jtok *t = gy_jp_tok(p);
        int op = t->k == JT_MUL        ? JO_MUL
                 : t->k == JT_DIV      ? JO_DIV
                 : t->k == JT_FLOORDIV ? JO_FLOORDIV
                 : t->k == JT_MOD      ? JO_MOD
                                       : -1;
        if (op < 0) break;
        p->at++;
        e = binary(p, JN_BIN, op, t->line, e, power(p));
    }
    return e;
}

static gy_jn *concat(gy_jparser *p) {
    int line = gy_jp_tok(p)->line;
    gy_jn *e = product(p);
    if (!e || gy_jp_tok(p)->k != JT_TILDE) return e;
    gy_jlistb items = {0};
    gy_jp_add(p, &items, e);
    while (gy_jp_skip(p, JT_TILDE)) {
        if (!(e = product(p))) return NULL;
        gy_jp_add(p, &items, e);
    }
    return list_of(p, JN_CONCAT, line, items);
}

static gy_jn *sum(gy_jparser *p) {
    gy_jn *e = concat(p);
    while (e && (gy_jp_tok(p)->k == JT_ADD || gy_jp_tok(p)->k == JT_SUB)) {
        const gy_jtok *t = gy_jp_tok(p);
        p->at++;
        e = binary(p, JN_BIN, t->k == JT_ADD ? JO_ADD : JO_SUB, t->line, e, concat(p));
    }
    return e;
}

/* a < b < c: a CMP holds its first operand in a and PAIRs with op and operand in list. */
static gy_jn *compare(gy_jparser *p) {
    int line = gy_jp_tok(p)->line;
    gy_jn *e = sum(p);
    gy_jlistb ops = {0};
    while (e) {
        const gy_jtok *t = gy_jp_tok(p);
        int op = t->k == JT_EQ         ? JO_EQ
                 : t->k == JT_NE       ? JO_NE
                 : t->k == JT_LT       ? JO_LT
                 : t->k == JT_LE       ? JO_LE
                 : t->k == JT_GT       ? JO_GT
                 : t->k == JT_GE       ? JO_GE
                 : gy_jp_name(p, "in") ? JO_IN
                                       : -1;
        if (op < 0 && gy_jp_name(p, "not") && t[1].k == JT_NAME &&
            gy_jv_is(gy_jv_str(t[1].v.s, t[1].v.n), "in"))
            op = JO_NOTIN, p->at++;
        if (op < 0) break;
        p->at++;
        gy_jn *right = sum(p), *o = right ? gy_jp_node(p, JN_PAIR, t->line) : NULL;
        if (!o) return NULL;
        o->op = (uint8_t)op, o->a = right;
        if (!gy_jp_done(p, o)) return NULL;
        gy_jp_add(p, &ops, o);
    }
    if (!e || !ops.n) return e;
    gy_jn *c = list_of(p, JN_CMP, line, ops);
    if (!c) return NULL;
    c->a = e;
    return gy_jp_done(p, c);
}

static gy_jn *not_expr(gy_jparser *p) {
    if (!gy_jp_name(p, "not")) return compare(p);
    gy_jn *e = gy_jp_node(p, JN_NOT, gy_jp_tok(p)->line);
    if (!e || !gy_jp_deeper(p)) return NULL;
    p->at++;
    e->a = not_expr(p);
    p->depth--;
    return e->a ? gy_jp_done(p, e) : NULL;
}

static gy_jn *and_expr(gy_jparser *p) {
    gy_jn *e = not_expr(p);
    while (e && gy_jp_name(p, "and")) {
        int line = gy_jp_tok(p)->line;
        p->at++;
        e = binary(p, JN_AND, 0, line, e, not_expr(p));
    }
    return e;
}

static gy_jn *or_expr(gy_jparser *p) {
    gy_jn *e = and_expr(p);
    while (e && gy_jp_name(p, "or")) {
        int line = gy_jp_tok(p)->line;
        p->at++;
        e = binary(p, JN_OR, 0, line, e, and_expr(p));
    }
    return e;
}

/* COND: a if b else c (c may be NULL: undefined). An unknown filter or test is an error at once,
 * except inside a conditional, where it is one only when reached; that an "if" follows is known
 * late, so such names wait in unknown. */
gy_jn *gy_jp_expr(gy_jparser *p, bool with_condexpr) {
    if (!gy_jp_deeper(p)) return NULL;
    uint32_t waiting = p->unknown.n;
    gy_jn *e = or_expr(p);
    while (e && with_condexpr && gy_jp_name(p, "if")) {
        gy_jn *c = gy_jp_node(p, JN_COND, gy_jp_tok(p)->line);
        p->at++;
        if (!c || !(c->b = or_expr(p))) return NULL;
        if (gy_jp_skip_name(p, "else") && !(c->c = gy_jp_expr(p, true))) return NULL;
        c->a = e;
        e = gy_jp_done(p, c);
        p->unknown.n = waiting;
    }
    p->depth--;
    return e;
}

/* Fails if a filter or test used outside of any conditional does not exist. */
bool gy_jp_all_known(gy_jparser *p) {
    char out[64];
    if (!p->unknown.n) return true;
    const gy_jn *e = p->unknown.v[0];
    return gy_jp_fail(p, e->line, "No %s named '%s'.", e->k == JN_FILTER ? "filter" : "test",
                      gy_err_quote(out, e->v.s, e->v.n));
}
