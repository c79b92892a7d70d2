#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/regex_ast.h"

typedef struct {
    const char *s;
    size_t n, i; /* i: next byte */
    bool fold;   /* (?i) is on */
    bool dotall; /* (?m) of Oniguruma: . matches a newline */
    int depth;
    gy_rx_ast *ast;
    gy_err *err;
    gy_rc rc;
} parser;

/* ---- Failure ---- */

static void *fail(parser *p, gy_rc rc, const char *what) {
    if (!p->rc) p->rc = gy_fail(p->err, rc, "regex: %s at byte %zu", what, p->i);
    return NULL;
}

static void *unsupported(parser *p, const char *construct) {
    return fail(p, GY_EUNSUPPORTED, construct);
}

static void *no_memory(parser *p) {
    if (!p->rc) p->rc = gy_fail(p->err, GY_ENOMEM, "regex: out of memory");
    return NULL;
}

/* ---- Reading ---- */

static bool at_end(const parser *p) {
    return p->i >= p->n;
}

static bool ahead(const parser *p, const char *text) {
    size_t k = strlen(text);
    return p->n - p->i >= k && !memcmp(p->s + p->i, text, k);
}

static bool eat(parser *p, const char *text) {
    if (!ahead(p, text)) return false;
    p->i += strlen(text);
    return true;
}

static bool eat_until(parser *p, char end) {
    const char *at = memchr(p->s + p->i, end, p->n - p->i);
    if (at) p->i = (size_t)(at - p->s) + 1;
    return at != NULL;
}

static uint32_t take_char(parser *p) {
    uint32_t cp;
    p->i += gy_utf8_get(p->s + p->i, p->n - p->i, &cp);
    return cp;
}

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- Nodes ---- */

static gy_rx_node *node_new(parser *p, gy_rx_kind kind) {
    gy_rx_node *node = gy_arena_alloc(&p->ast->arena, sizeof *node);
    if (!node) return no_memory(p);
    node->kind = kind;
    return node;
}

/* Takes s; its number, or -1. */
static int set_intern(parser *p, gy_cset *s) {
    gy_rx_ast *a = p->ast;
    gy_cset_tidy(s);
    int found = -1;
    for (int i = 0; i < a->n_sets && found < 0 && !s->oom; i++) {
        bool same =
            a->set[i].n == s->n && (!s->n || !memcmp(a->set[i].r, s->r, s->n * sizeof *s->r));
        if (same) found = i;
    }
    if (s->oom)
        no_memory(p);
    else if (found < 0 && a->n_sets == GY_RX_SETS_MAX)
        fail(p, GY_ELIMIT, "too many different characters");
    if (p->rc || found >= 0) return gy_cset_free(s), p->rc ? -1 : found;
    if (a->n_sets == a->cap_sets) {
        int cap = a->cap_sets ? a->cap_sets * 2 : 16;
        gy_cset *set = gy_realloc(a->set, (size_t)cap * sizeof *set);
        if (!set) return gy_cset_free(s), no_memory(p), -1;
        a->set = set, a->cap_sets = cap;
    }
    a->set[a->n_sets] = *s;
    return a->n_sets++;
}

static gy_rx_node *set_node(parser *p, gy_cset *s) {
    int set = set_intern(p, s);
    gy_rx_node *node = set < 0 ? NULL : node_new(p, GY_RX_SET);
    if (node) node->set = set;
    return node;
}

static gy_rx_node *range_node(parser *p, uint32_t lo, uint32_t hi) {
    gy_cset s = {0};
    gy_cset_add(&s, lo, hi);
    if (p->fold && lo == hi) gy_cset_fold(&s);
    return set_node(p, &s);
}

static gy_rx_node *look_node(parser *p, gy_rx_kind kind, bool negated, gy_rx_node *child) {
    gy_rx_node *node = child ? node_new(p, kind) : NULL;
    if (node) node->negated = negated, node->child = child;
    return node;
}

/* Copies of a set node, because a node has one place in its parent's list. */
static gy_rx_node *set_copy(parser *p, const gy_rx_node *set) {
    gy_rx_node *node = node_new(p, GY_RX_SET);
    if (node) node->set = set->set;
    return node;
}

static gy_rx_node *pair_node(parser *p, gy_rx_kind kind, gy_rx_node *a, gy_rx_node *b) {
    gy_rx_node *node = a && b ? node_new(p, kind) : NULL;
    if (node) node->child = a, a->next = b;
    return node;
}

/* ---- Escapes ---- */

typedef enum { ESC_FAIL, ESC_CHAR, ESC_SET, ESC_ANCHOR } escape_kind;

static escape_kind escape_hex(parser *p, uint32_t *cp, int digits_min, int digits_max,
                              bool braces) {
    uint32_t v = 0;
    int k = 0;
    for (; k < digits_max && !at_end(p) && hex_value(p->s[p->i]) >= 0; k++) {
        v = v << 4 | (uint32_t)hex_value(p->s[p->i++]);
    }
    if (k < digits_min || (braces && !eat(p, "}"))) {
        return fail(p, GY_EFORMAT, "malformed hexadecimal escape"), ESC_FAIL;
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) {
        return fail(p, GY_EFORMAT, "escape of no code point"), ESC_FAIL;
    }
    /* Oniguruma reads these as raw bytes of the encoding, others as code points. */
    if (digits_max == 2 && v >= 0x80) return unsupported(p, "\\xHH above 7F"), ESC_FAIL;
    *cp = v;
    return ESC_CHAR;
}

static escape_kind escape_property(parser *p, bool negated, gy_cset *set) {
    if (!eat(p, "{")) return unsupported(p, "\\p without braces"), ESC_FAIL;
    if (eat(p, "^")) negated = !negated;
    size_t from = p->i;
    if (!eat_until(p, '}')) return fail(p, GY_EFORMAT, "\\p{ without }"), ESC_FAIL;
    size_t n = p->i - 1 - from;
    if (!gy_cset_add_property(set, p->s + from, n)) {
        char name[64], what[128];
        snprintf(what, sizeof what, "property \\p{%s}", gy_err_quote(name, p->s + from, n));
        return unsupported(p, what), ESC_FAIL;
    }
    if (negated) gy_cset_negate(set);
    return ESC_SET;
}

static escape_kind escape_class(char c, bool in_class, gy_cset *set) {
    switch (c) {
    case 's':
    case 'S': gy_cset_add_space(set); break;
    case 'd':
    case 'D': gy_cset_add_digit(set); break;
    default: gy_cset_add_word(set, !in_class); break;
    }
    if (c == 'S' || c == 'D' || c == 'W') gy_cset_negate(set);
    return ESC_SET;
}

static escape_kind escape_other(parser *p, char c) {
    char what[64];
    if (c >= '1' && c <= '9') return unsupported(p, "back-reference or octal escape"), ESC_FAIL;
    snprintf(what, sizeof what, "escape \\%c", c);
    return unsupported(p, what), ESC_FAIL;
}

/* After a backslash. ESC_CHAR fills cp, ESC_SET fills set, ESC_ANCHOR leaves its letter in cp. */
static escape_kind escape(parser *p, bool in_class, uint32_t *cp, gy_cset *set) {
    static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\x1b";
    if (at_end(p)) return fail(p, GY_EFORMAT, "backslash at the end"), ESC_FAIL;
    char c = p->s[p->i];
    if (c & 0x80) return *cp = take_char(p), ESC_CHAR;
    p->i++;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) return *cp = (uint8_t)to[simple - from], ESC_CHAR;
    switch (c) {
    case 'x': return eat(p, "{") ? escape_hex(p, cp, 1, 7, true) : escape_hex(p, cp, 1, 2, false);
    case 'u': return escape_hex(p, cp, 4, 4, false);
    case 'p':
    case 'P': return escape_property(p, c == 'P', set);
    case 's':
    case 'S':
    case 'd':
    case 'D':
    case 'w':
    case 'W': return escape_class(c, in_class, set);
    case '0':
        *cp = 0;
        for (int k = 0; k < 2 && !at_end(p) && p->s[p->i] >= '0' && p->s[p->i] <= '7'; k++) {
            *cp = *cp * 8 + (uint32_t)(p->s[p->i++] - '0');
        }
        return ESC_CHAR;
    case 'b':
        if (in_class) return *cp = '\b', ESC_CHAR;
        return *cp = 'b', ESC_ANCHOR;
    case 'A':
    case 'B':
    case 'Z':
    case 'z':
        if (in_class) return escape_other(p, c);
        return *cp = (uint8_t)c, ESC_ANCHOR;
    default: break;
    }
    bool word = (c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (word) return escape_other(p, c);
    return *cp = (uint8_t)c, ESC_CHAR;
}

static gy_rx_node *any_node(parser *p) {
    return range_node(p, 0, 0x10FFFF);
}

/* A line ends at a newline and at the end of the text. */
static gy_rx_node *line_end(parser *p) {
    gy_cset s = {0};
    gy_cset_add(&s, '\n', '\n');
    gy_cset_negate(&s);
    return look_node(p, GY_RX_AHEAD, true, set_node(p, &s));
}

/* A line starts at the start of the text, and after a newline that is not the last character. */
static gy_rx_node *line_start(parser *p) {
    gy_rx_node *start = look_node(p, GY_RX_BEHIND, true, any_node(p));
    gy_rx_node *after = look_node(p, GY_RX_BEHIND, false, range_node(p, '\n', '\n'));
    gy_rx_node *more = look_node(p, GY_RX_AHEAD, false, any_node(p));
    return pair_node(p, GY_RX_ALT, start, pair_node(p, GY_RX_CAT, after, more));
}

static gy_rx_node *anchor(parser *p, uint32_t letter) {
    gy_cset word = {0};
    gy_rx_node *node, *end;
    switch (letter) {
    case 'A': return look_node(p, GY_RX_BEHIND, true, any_node(p));
    case 'z': return look_node(p, GY_RX_AHEAD, true, any_node(p));
    case 'Z': /* the end, or before a newline there */
        end = look_node(p, GY_RX_AHEAD, true, any_node(p));
        node = pair_node(p, GY_RX_CAT, range_node(p, '\n', '\n'), end);
        node = look_node(p, GY_RX_AHEAD, false, node);
        return pair_node(p, GY_RX_ALT, look_node(p, GY_RX_AHEAD, true, any_node(p)), node);
    default: break;
    }
    gy_cset_add_word(&word, true);
    node = set_node(p, &word);
    if (node) node->kind = GY_RX_EDGE, node->negated = letter == 'B';
    return node;
}

/* ---- Classes ---- */

static bool class_posix(parser *p, gy_cset *out) {
    size_t from = p->i + 2, end = from;
    while (end < p->n && (p->s[end] == '^' || (p->s[end] >= 'a' && p->s[end] <= 'z'))) end++;
    if (end == from || p->n - end < 2 || memcmp(p->s + end, ":]", 2) != 0) return false;
    bool negated = p->s[from] == '^';
    from += negated;
    const char *name = p->s + from;
    size_t n = end - from;
    gy_cset set = {0};
    if (n == 6 && !memcmp(name, "xdigit", 6)) {
        gy_cset_add(&set, '0', '9'), gy_cset_add(&set, 'A', 'F'), gy_cset_add(&set, 'a', 'f');
    } else if (n == 5 && !memcmp(name, "punct", 5)) {
        gy_cset_add_property(&set, "P", 1), gy_cset_add_property(&set, "S", 1);
    } else if (n == 5 && !memcmp(name, "space", 5)) {
        gy_cset_add_space(&set);
    } else if (n == 5 && !memcmp(name, "digit", 5)) {
        gy_cset_add_digit(&set);
    } else if (n == 5 && !memcmp(name, "ascii", 5)) {
        gy_cset_add(&set, 0, 0x7F);
    } else if (n == 4 && !memcmp(name, "word", 4)) {
        gy_cset_add_word(&set, false);
    } else {
        char quoted[64], what[128];
        snprintf(what, sizeof what, "bracket class [:%s:]", gy_err_quote(quoted, name, n));
        unsupported(p, what);
        return true;
    }
    p->i = end + 2;
    if (negated) gy_cset_negate(&set);
    gy_cset_add_set(out, &set);
    gy_cset_free(&set);
    return true;
}

static escape_kind class_atom(parser *p, uint32_t *cp, gy_cset *set) {
    if (eat(p, "\\")) return escape(p, true, cp, set);
    return *cp = take_char(p), ESC_CHAR;
}

/* One character, range or escaped class. */
static void class_item(parser *p, gy_cset *out) {
    gy_cset set = {0};
    uint32_t lo = 0, hi = 0;
    escape_kind kind = class_atom(p, &lo, &set);
    bool dash = ahead(p, "-") && !ahead(p, "-]") && !ahead(p, "-&&") && p->i + 1 < p->n;
    if (kind == ESC_SET) {
        gy_cset_add_set(out, &set);
        if (dash) fail(p, GY_EFORMAT, "class as the start of a range");
    } else if (kind == ESC_CHAR && !dash) {
        gy_cset_add(out, lo, lo);
    } else if (kind == ESC_CHAR) {
        p->i++;
        if (ahead(p, "["))
            unsupported(p, "class as the end of a range");
        else if (class_atom(p, &hi, &set) != ESC_CHAR)
            fail(p, GY_EFORMAT, "class as the end of a range");
        else if (hi < lo)
            fail(p, GY_EFORMAT, "range out of order");
        else
            gy_cset_add(out, lo, hi);
    }
    gy_cset_free(&set);
}

/* After '['. Adds the class to out; outermost says that folding is still to be applied. */
static void class_body(parser *p, gy_cset *out, bool outermost) {
    bool negated = eat(p, "^"), both = false, first = true;
    gy_cset part = {0}, before = {0};
    if (++p->depth > GY_RX_DEPTH_MAX) fail(p, GY_ELIMIT, "nesting deeper than 200");
    for (; !p->rc; first = false) {
        if (at_end(p)) {
            fail(p, GY_EFORMAT, "class without ]");
        } else if (!first && eat(p, "]")) {
            break;
        } else if (eat(p, "&&")) {
            gy_cset_tidy(&part);
            if (both)
                gy_cset_keep(&before, &part), gy_cset_free(&part);
            else
                before = part, part = (gy_cset){0};
            both = true;
        } else if (ahead(p, "[:") && class_posix(p, &part)) {
            continue;
        } else if (eat(p, "[")) {
            class_body(p, &part, false);
        } else {
            class_item(p, &part);
        }
    }
    p->depth--;
    gy_cset_tidy(&part);
    if (both) gy_cset_keep(&part, &before);
    if (outermost && p->fold) gy_cset_fold(&part);
    if (negated) gy_cset_negate(&part);
    gy_cset_add_set(out, &part);
    if (before.oom) out->oom = true;
    gy_cset_free(&part), gy_cset_free(&before);
}

/* ---- Repeats ---- */

static bool interval_number(parser *p, size_t *i, int *out) {
    size_t from = *i;
    for (*out = 0; *i < p->n && p->s[*i] >= '0' && p->s[*i] <= '9'; ++*i) {
        if (*out <= GY_RX_REPEAT_MAX) *out = *out * 10 + (p->s[*i] - '0');
    }
    return *i > from;
}

/* {n} {n,} {n,m} {,m}; anything else leaves the brace an ordinary character. */
static bool interval(parser *p, int *min, int *max) {
    size_t i = p->i + 1;
    bool low = interval_number(p, &i, min), high = low;
    *max = *min;
    if (i < p->n && p->s[i] == ',') {
        i++;
        high = interval_number(p, &i, max);
        if (!high) *max = -1;
    }
    if ((!low && !high) || i >= p->n || p->s[i] != '}') return false;
    p->i = i + 1;
    if (*min > GY_RX_REPEAT_MAX || *max > GY_RX_REPEAT_MAX)
        fail(p, GY_ELIMIT, "repeat of more than 100000");
    else if (*max >= 0 && *max < *min)
        fail(p, GY_EFORMAT, "repeat counts out of order");
    return true;
}

static gy_rx_node *repeat_node(parser *p, gy_rx_node *child, int min, int max, bool lazy) {
    gy_rx_node *node = child ? node_new(p, GY_RX_REPEAT) : NULL;
    if (node) node->child = child, node->min = min, node->max = max, node->lazy = lazy;
    return node;
}

/* Giving nothing back is, over one set, the same as not stopping before a member of it; so it needs
 * no atomic group. */
static gy_rx_node *possessive(parser *p, gy_rx_node *child, int min, int max) {
    if (child->kind != GY_RX_SET) {
        return look_node(p, GY_RX_ATOMIC, false, repeat_node(p, child, min, max, false));
    }
    gy_rx_node *stop = look_node(p, GY_RX_AHEAD, true, set_copy(p, child));
    if (max == 1) return pair_node(p, GY_RX_ALT, child, stop);
    return pair_node(p, GY_RX_CAT, repeat_node(p, child, min, max, false), stop);
}

static gy_rx_node *repeats(parser *p, gy_rx_node *atom) {
    for (int times = 0; atom && !p->rc && !at_end(p); times++) {
        int min = 0, max = -1;
        char c = p->s[p->i];
        if (times > 8) return fail(p, GY_ELIMIT, "repeat of a repeat, nine times over");
        if (c == '{') {
            if (!interval(p, &min, &max)) break;
            bool lazy = eat(p, "?");
            /* Ruby's reading, which the reference has: {n}? may be left out as a whole. */
            bool optional = lazy && min == max;
            atom = repeat_node(p, atom, min, max, lazy && !optional);
            if (optional) atom = repeat_node(p, atom, 0, 1, false);
            continue;
        }
        if (c != '*' && c != '+' && c != '?') break;
        p->i++;
        min = c == '+', max = c == '?' ? 1 : -1;
        if (eat(p, "+"))
            atom = possessive(p, atom, min, max);
        else
            atom = repeat_node(p, atom, min, max, eat(p, "?"));
    }
    return p->rc ? NULL : atom;
}

/* ---- Groups and sequences ---- */

static gy_rx_node *alternatives(parser *p);

static gy_rx_node *close_group(parser *p, gy_rx_node *inside) {
    if (!inside) return NULL;
    if (!eat(p, ")")) return fail(p, GY_EFORMAT, "group without )");
    return inside;
}

/* After "(?": option letters, then ')' (the rest of the group) or ':' (this group). */
static gy_rx_node *options(parser *p, bool *rest) {
    bool fold = p->fold, dotall = p->dotall, on = true;
    for (; !at_end(p) && p->s[p->i] != ')' && p->s[p->i] != ':'; p->i++) {
        char c = p->s[p->i];
        if (c == '-')
            on = false;
        else if (c == 'i')
            p->fold = on;
        else if (c == 'm')
            p->dotall = on;
        else
            return unsupported(p, "group option");
    }
    if (at_end(p)) return fail(p, GY_EFORMAT, "group without )");
    *rest = p->s[p->i++] == ')';
    gy_rx_node *inside = alternatives(p);
    p->fold = fold, p->dotall = dotall;
    return *rest ? inside : close_group(p, inside);
}

/* After '('. rest: what came back reaches to the end of the group around. */
static gy_rx_node *group(parser *p, bool *rest) {
    bool fold = p->fold, dotall = p->dotall;
    if (!eat(p, "?")) return close_group(p, alternatives(p));
    if (eat(p, "#")) {
        if (!eat_until(p, ')')) return fail(p, GY_EFORMAT, "comment without )");
        return node_new(p, GY_RX_EMPTY);
    }
    bool look = true, negated = false;
    gy_rx_kind kind = GY_RX_CAT;
    if (eat(p, "="))
        kind = GY_RX_AHEAD;
    else if (eat(p, "!"))
        kind = GY_RX_AHEAD, negated = true;
    else if (eat(p, "<="))
        kind = GY_RX_BEHIND;
    else if (eat(p, "<!"))
        kind = GY_RX_BEHIND, negated = true;
    else if (eat(p, ">"))
        kind = GY_RX_ATOMIC;
    else
        look = false;
    if (!look) {
        if (ahead(p, "<") && eat_until(p, '>')) return close_group(p, alternatives(p));
        if (ahead(p, "(")) return unsupported(p, "conditional group");
        return options(p, rest);
    }
    gy_rx_node *inside = close_group(p, alternatives(p));
    p->fold = fold, p->dotall = dotall;
    return look_node(p, kind, negated, inside);
}

static gy_rx_node *atom(parser *p, bool *rest) {
    gy_cset set = {0};
    uint32_t cp = 0;
    if (eat(p, "(")) {
        if (++p->depth > GY_RX_DEPTH_MAX) return fail(p, GY_ELIMIT, "nesting deeper than 200");
        gy_rx_node *node = group(p, rest);
        p->depth--;
        return node;
    }
    if (eat(p, "[")) {
        class_body(p, &set, true);
        if (p->rc) return gy_cset_free(&set), NULL;
        return set_node(p, &set);
    }
    if (eat(p, "\\")) {
        switch (escape(p, false, &cp, &set)) {
        case ESC_CHAR: return range_node(p, cp, cp);
        case ESC_SET: return set_node(p, &set);
        case ESC_ANCHOR: return anchor(p, cp);
        default: return gy_cset_free(&set), NULL;
        }
    }
    if (ahead(p, "*") || ahead(p, "+") || ahead(p, "?"))
        return fail(p, GY_EFORMAT, "repeat of nothing");
    if (eat(p, "^")) return line_start(p);
    if (eat(p, "$")) return line_end(p);
    if (eat(p, ".")) {
        if (p->dotall) return any_node(p);
        gy_cset_add(&set, '\n', '\n');
        gy_cset_negate(&set);
        return set_node(p, &set);
    }
    cp = take_char(p);
    return range_node(p, cp, cp);
}

/* A list of siblings becomes their parent, or itself when it is one. */
static gy_rx_node *gather(parser *p, gy_rx_kind kind, gy_rx_node *list) {
    if (!list) return node_new(p, GY_RX_EMPTY);
    if (!list->next) return list;
    gy_rx_node *node = node_new(p, kind);
    if (node) node->child = list;
    return node;
}

static gy_rx_node *sequence(parser *p) {
    gy_rx_node *first = NULL, **last = &first;
    bool rest = false;
    while (!rest && !at_end(p) && p->s[p->i] != '|' && p->s[p->i] != ')') {
        gy_rx_node *node = atom(p, &rest);
        if (node && !rest) node = repeats(p, node);
        if (!node) return NULL;
        *last = node, last = &node->next;
    }
    return gather(p, GY_RX_CAT, first);
}

/* Alternatives that are one set each are one set: lookbehind can then take them. */
static gy_rx_node *join_sets(parser *p, gy_rx_node *first) {
    for (const gy_rx_node *k = first; k; k = k->next) {
        if (k->kind != GY_RX_SET) return gather(p, GY_RX_ALT, first);
    }
    gy_cset s = {0};
    for (const gy_rx_node *k = first; k; k = k->next) gy_cset_add_set(&s, &p->ast->set[k->set]);
    return set_node(p, &s);
}

static gy_rx_node *alternatives(parser *p) {
    gy_rx_node *first = NULL, **last = &first;
    do {
        gy_rx_node *node = sequence(p);
        if (!node) return NULL;
        *last = node, last = &node->next;
    } while (eat(p, "|"));
    return join_sets(p, first);
}

gy_rc gy_rx_parse(const char *pattern, size_t n, gy_rx_ast *ast, gy_err *err) {
    parser p = {.s = pattern, .n = n, .ast = ast, .err = err};
    ast->root = alternatives(&p);
    if (!p.rc && !at_end(&p)) fail(&p, GY_EFORMAT, ") without a group");
    return p.rc;
}

void gy_rx_free(gy_rx_ast *ast) {
    for (int i = 0; i < ast->n_sets; i++) gy_cset_free(&ast->set[i]);
    gy_free(ast->set);
    gy_arena_free(&ast->arena);
    *ast = (gy_rx_ast){0};
}
