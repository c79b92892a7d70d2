/* Lexer: the states of Jinja's own lexer, with trim_blocks and lstrip_blocks on and
 * keep_trailing_newline off.
 *
 * Text up to the next tag is DATA; what a tag trims is decided from the sign beside it. Inside a
 * tag an end marker only counts when no bracket is open, which is why {{ {'a': {}}}} works. */
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"
#include "text/unicode.h"

typedef struct {
    const char *s;
    size_t n, at;
    int line;
    bool line_starting; /* the last piece read ended in a newline, or nothing was read yet */
    gy_arena *arena;
    gy_jtok *tok;
    uint32_t n_tok, cap;
    gy_err *err;
} lexer;

static const char *const tok_names[] = {"end of template",
                                        "template data",
                                        "begin of print statement",
                                        "end of print statement",
                                        "begin of statement block",
                                        "end of statement block",
                                        "name",
                                        "string",
                                        "integer",
                                        "float",
                                        "+",
                                        "-",
                                        "/",
                                        "//",
                                        "*",
                                        "%",
                                        "**",
                                        "~",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        "==",
                                        "!=",
                                        ">",
                                        ">=",
                                        "<",
                                        "<=",
                                        "=",
                                        ".",
                                        ":",
                                        "|",
                                        ",",
                                        ";"};

const char *gy_jx_tok_name(gy_jt_kind k) {
    return tok_names[k];
}

static bool fail(lexer *lx, const char *what) {
    gy_fail(lx->err, GY_EFORMAT, "template line %d: %s", lx->line, what);
    return false;
}

static bool out_of_memory(lexer *lx) {
    gy_fail(lx->err, GY_ENOMEM, "template: out of memory");
    return false;
}

static bool push(lexer *lx, gy_jt_kind k, gy_jv v) {
    if (lx->n_tok == lx->cap) {
        uint32_t cap = lx->cap ? lx->cap * 2 : 256;
        gy_jtok *tok = gy_realloc(lx->tok, cap * sizeof *tok);
        if (!tok) return out_of_memory(lx);
        lx->tok = tok, lx->cap = cap;
    }
    lx->tok[lx->n_tok++] = (gy_jtok){(uint8_t)k, lx->line, v};
    return true;
}

static bool starts(const lexer *lx, size_t at, const char *text) {
    size_t n = strlen(text);
    return lx->n - at >= n && memcmp(lx->s + at, text, n) == 0;
}

/* Moves to at, counting lines. */
static void advance(lexer *lx, size_t at) {
    for (size_t i = lx->at; i < at; i++) lx->line += lx->s[i] == '\n';
    if (at > lx->at) lx->line_starting = lx->s[at - 1] == '\n';
    lx->at = at;
}

static size_t skip_space(const lexer *lx, size_t at) {
    while (at < lx->n) {
        uint32_t cp;
        size_t k = gy_utf8_get(lx->s + at, lx->n - at, &cp);
        if (!gy_jx_space(cp)) break;
        at += k;
    }
    return at;
}

/* Emits text [lx->at, end) before a tag with that sign ('-', '+' or 0), trimmed as the sign and the
 * line say. */
static bool push_data(lexer *lx, size_t end, char sign, bool lstrip) {
    size_t from = lx->at, stop = end;
    if (sign == '-') {
        stop = from + gy_jx_strip(gy_jv_str(lx->s + from, end - from), gy_jv_of(JX_MISSING), 2).n;
    } else if (sign != '+' && lstrip) {
        size_t line = end;
        while (line > from && lx->s[line - 1] != '\n') line--;
        if ((line > from || lx->line_starting) && skip_space(lx, line) >= end) stop = line;
    }
    if (stop > from && !push(lx, JT_DATA, gy_jv_str(lx->s + from, stop - from))) return false;
    advance(lx, end);
    return true;
}

/* After a tag's closing mark: "-" eats white space, otherwise trim_blocks eats one newline unless
 * "+". */
static void close_tag(lexer *lx, char sign, size_t end) {
    if (sign == '-')
        end = skip_space(lx, end);
    else if (sign != '+' && end < lx->n && lx->s[end] == '\n')
        end++;
    advance(lx, end);
}

static bool read_comment(lexer *lx, size_t at) {
    if (at >= lx->n) return true; /* Jinja looks for the end only if something follows */
    for (size_t i = at;; i++) {
        if (i + 1 >= lx->n) return fail(lx, "Missing end of comment tag");
        if (lx->s[i] != '#' || lx->s[i + 1] != '}') continue;
        char sign = i > at && (lx->s[i - 1] == '-' || lx->s[i - 1] == '+') ? lx->s[i - 1] : 0;
        close_tag(lx, sign, i + 2);
        return true;
    }
}

/* If "{%- raw -%}" stands at lx->at gives the place after "raw" and its spaces, else 0. */
static size_t raw_tag(const lexer *lx, size_t at, const char *word) {
    if (!starts(lx, at, "{%")) return 0;
    at += 2;
    if (at < lx->n && (lx->s[at] == '-' || lx->s[at] == '+')) at++;
    at = skip_space(lx, at);
    return starts(lx, at, word) ? skip_space(lx, at + strlen(word)) : 0;
}

static bool read_raw(lexer *lx) {
    if (lx->at >= lx->n) return true;
    for (size_t i = lx->at; i < lx->n; i++) {
        size_t end = lx->s[i] == '{' ? raw_tag(lx, i, "endraw") : 0;
        if (!end) continue;
        char sign = lx->s[i + 2] == '-' || lx->s[i + 2] == '+' ? lx->s[i + 2] : 0;
        char close = end < lx->n && (lx->s[end] == '-' || lx->s[end] == '+') ? lx->s[end] : 0;
        if (!starts(lx, end + (close != 0), "%}")) continue;
        if (!push_data(lx, i, sign, true)) return false;
        close_tag(lx, close, end + (close != 0) + 2);
        return true;
    }
    return fail(lx, "Missing end of raw directive");
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* n hex digits at *p; false when there are fewer. */
static bool read_hex(const char **p, const char *end, int n, uint32_t *cp) {
    *cp = 0;
    for (int i = 0; i < n; i++, ++*p) {
        int d = *p < end ? hex_digit(**p) : -1;
        if (d < 0) return false;
        *cp = *cp << 4 | (uint32_t)d;
    }
    return *cp <= 0x10FFFF;
}

static bool read_escape(lexer *lx, const char **at, const char *end, gy_buf *b) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *p = *at;
    char c = *p++;
    const char *known = c ? strchr(from, c) : NULL;
    uint32_t cp;
    if (known) {
        gy_buf_c(b, to[known - from]);
    } else if (c == '\n') { /* a joined line */
    } else if (c >= '0' && c <= '7') {
        cp = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && p < end && *p >= '0' && *p <= '7'; i++)
            cp = cp * 8 + (uint32_t)(*p++ - '0');
        gy_buf_utf8(b, cp);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        if (!read_hex(&p, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &cp))
            return fail(lx, "bad escape in a string");
        if (cp >= 0xD800 && cp < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
            const char *q = p + 2;
            uint32_t low;
            if (read_hex(&q, end, 4, &low) && low >= 0xDC00 && low < 0xE000)
                cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00), p = q;
        }
        gy_buf_utf8(b, cp);
    } else if (c == 'N') {
        return fail(lx, "\\N{...} escapes are not supported");
    } else {
        gy_buf_c(b, '\\'), gy_buf_c(b, c);
    }
    *at = p;
    return true;
}

static bool read_string(lexer *lx) {
    char quote = lx->s[lx->at];
    size_t i = lx->at + 1;
    bool escapes = false;
    for (; i < lx->n && lx->s[i] != quote; i++)
        if (lx->s[i] == '\\') escapes = true, i++;
    if (i >= lx->n) return fail(lx, "unexpected char: a string without its closing quote");
    gy_jv v = gy_jv_str(lx->s + lx->at + 1, i - lx->at - 1);
    if (escapes) {
        gy_buf b = {0};
        for (const char *p = v.s, *end = v.s + v.n; p < end;) {
            if (*p != '\\')
                gy_buf_c(&b, *p++);
            else if (p++, !read_escape(lx, &p, end, &b))
                return gy_buf_free(&b), false;
        }
        char *copy = b.oom ? NULL : gy_arena_strndup(lx->arena, b.p ? b.p : "", b.n);
        v = gy_jv_str(copy, b.n);
        gy_buf_free(&b);
        if (!copy) return out_of_memory(lx);
    }
    if (!push(lx, JT_STRING, v)) return false;
    advance(lx, i + 1);
    return true;
}

static bool is_digit(const lexer *lx, size_t i) {
    return i < lx->n && lx->s[i] >= '0' && lx->s[i] <= '9';
}

/* digits, single underscores between them; returns the end, or at when there is none. */
static size_t digit_run(const lexer *lx, size_t at) {
    if (!is_digit(lx, at)) return at;
    while (is_digit(lx, at) || (lx->s[at] == '_' && is_digit(lx, at + 1) && at < lx->n)) at++;
    return at;
}

/* The end of a float literal at lx->at, or 0. */
static size_t float_end(const lexer *lx) {
    if (lx->at && lx->s[lx->at - 1] == '.') return 0;
    size_t i = digit_run(lx, lx->at), frac = i;
    if (i < lx->n && lx->s[i] == '.' && is_digit(lx, i + 1)) frac = digit_run(lx, i + 1);
    size_t e = frac;
    if (e < lx->n && (lx->s[e] == 'e' || lx->s[e] == 'E')) {
        e++;
        if (e < lx->n && (lx->s[e] == '+' || lx->s[e] == '-')) e++;
        if (is_digit(lx, e)) return digit_run(lx, e);
    }
    return frac > i ? frac : 0;
}

/* Digits of another base after 0x, 0o, 0b into v. */
static bool radix_int(lexer *lx, int base, size_t *end, uint64_t *v) {
    size_t i = lx->at + 2;
    bool any = false;
    for (*v = 0;; i++, any = true) {
        size_t k = i < lx->n && lx->s[i] == '_' ? i + 1 : i;
        int d = k < lx->n ? hex_digit(lx->s[k]) : -1;
        if (d < 0 || d >= base) break;
        if (*v >> 59) return fail(lx, "integer literal too large");
        *v = *v * (unsigned)base + (unsigned)d, i = k;
    }
    *end = i;
    return any;
}

static bool read_number(lexer *lx) {
    size_t end = float_end(lx);
    char text[400];
    gy_jv v;
    if (!end) {
        char c = lx->at + 1 < lx->n ? lx->s[lx->at + 1] | 32 : 0;
        int base = lx->s[lx->at] != '0' ? 0 : c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        uint64_t u;
        if (base && radix_int(lx, base, &end, &u)) {
            v = gy_jv_int((int64_t)u);
            goto done;
        }
        if (lx->err && lx->err->rc) return false;
    }
    size_t stop = end ? end : digit_run(lx, lx->at), k = 0;
    if (!end && lx->s[lx->at] == '0')
        for (stop = lx->at + 1;
             stop < lx->n && (lx->s[stop] == '0' ||
                              (lx->s[stop] == '_' && stop + 1 < lx->n && lx->s[stop + 1] == '0'));)
            stop++;
    for (size_t i = lx->at; i < stop; i++) {
        if (lx->s[i] == '_') continue;
        if (k + 1 >= sizeof text) return fail(lx, "number literal too long");
        text[k++] = lx->s[i];
    }
    text[k] = 0;
    if (end) {
        double f;
        if (!gy_jx_parse_double(text, k, &f)) return fail(lx, "bad number");
        v = gy_jv_float(f);
    } else {
        v = gy_jx_int_text(NULL, text, k);
        if (v.t == JX_BIG && !(v.s = gy_arena_strndup(lx->arena, text, k)))
            return out_of_memory(lx);
        end = stop;
    }
done:
    if (!push(lx, v.t == JX_FLOAT ? JT_FLOAT : JT_INT, v)) return false;
    advance(lx, end);
    return true;
}

static bool read_name(lexer *lx) {
    size_t i = lx->at;
    while (i < lx->n) {
        uint32_t cp;
        size_t k = gy_utf8_get(lx->s + i, lx->n - i, &cp);
        bool ok = cp < 0x80 ? cp == '_' || (cp >= '0' && cp <= '9') ||
                                  ((cp | 32) >= 'a' && (cp | 32) <= 'z')
                            : gy_uc_alpha(cp) || gy_uc_category(cp) == GY_UC_MN ||
                                  gy_uc_category(cp) == GY_UC_ND;
        if (!ok) break;
        i += k;
    }
    if (i == lx->at) return false;
    if (!push(lx, JT_NAME, gy_jv_str(lx->s + lx->at, i - lx->at))) return false;
    advance(lx, i);
    return true;
}

static const struct {
    const char text[3];
    uint8_t k;
} operators[] = {{"//", JT_FLOORDIV}, {"**", JT_POW},     {"==", JT_EQ},    {"!=", JT_NE},
                 {">=", JT_GE},       {"<=", JT_LE},      {"+", JT_ADD},    {"-", JT_SUB},
                 {"/", JT_DIV},       {"*", JT_MUL},      {"%", JT_MOD},    {"~", JT_TILDE},
                 {"[", JT_LBRACKET},  {"]", JT_RBRACKET}, {"(", JT_LPAREN}, {")", JT_RPAREN},
                 {"{", JT_LBRACE},    {"}", JT_RBRACE},   {">", JT_GT},     {"<", JT_LT},
                 {"=", JT_ASSIGN},    {".", JT_DOT},      {":", JT_COLON},  {"|", JT_PIPE},
                 {",", JT_COMMA},     {";", JT_SEMI}};

static bool read_operator(lexer *lx, char *open, int *n_open) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!starts(lx, lx->at, operators[i].text)) continue;
        char c = operators[i].text[0], want = c == '(' ? ')' : c == '[' ? ']' : '}';
        if (c == '(' || c == '[' || c == '{') {
            if (*n_open == 255) return fail(lx, "brackets nested too deeply");
            open[(*n_open)++] = want;
        } else if (c == ')' || c == ']' || c == '}') {
            char msg[64];
            snprintf(msg, sizeof msg,
                     *n_open ? "unexpected '%c', expected '%c'" : "unexpected '%c'", c,
                     *n_open ? open[*n_open - 1] : 0);
            if (!*n_open || open[*n_open - 1] != c) return fail(lx, msg);
            --*n_open;
        }
        if (!push(lx, operators[i].k, gy_jv_of(JX_NONE))) return false;
        advance(lx, lx->at + strlen(operators[i].text));
        return true;
    }
    char msg[64], quoted[64];
    snprintf(msg, sizeof msg, "unexpected char '%s'", gy_err_quote(quoted, lx->s + lx->at, 1));
    return fail(lx, msg);
}

/* The inside of {{ }} or {% %}, up to and with its end. */
static bool read_tag(lexer *lx, bool variable) {
    char open[256];
    int n_open = 0;
    const char *mark = variable ? "}}" : "%}";
    gy_jt_kind end = variable ? JT_VAR_END : JT_BLOCK_END;
    for (;;) {
        if (lx->at >= lx->n) {
            char msg[96];
            snprintf(msg, sizeof msg, "unexpected end of template, expected '%s'.", tok_names[end]);
            return fail(lx, msg);
        }
        char c = lx->s[lx->at];
        char sign = c == '-' || (c == '+' && !variable) ? c : 0;
        if (!n_open && starts(lx, lx->at + (sign != 0), mark)) {
            if (!push(lx, end, gy_jv_of(JX_NONE))) return false;
            size_t after = lx->at + (sign != 0) + 2;
            if (variable && !sign)
                advance(lx, after);
            else
                close_tag(lx, sign, after);
            return true;
        }
        size_t space = skip_space(lx, lx->at);
        if (space > lx->at) {
            advance(lx, space);
            continue;
        }
        bool ok = c >= '0' && c <= '9'    ? read_number(lx)
                  : c == '\'' || c == '"' ? read_string(lx)
                                          : read_name(lx);
        if (ok) continue;
        if ((lx->err && lx->err->rc) || (c >= '0' && c <= '9') || c == '\'' || c == '"')
            return false;
        if (!read_operator(lx, open, &n_open)) return false;
    }
}

static bool read_all(lexer *lx) {
    while (lx->at < lx->n) {
        size_t i = lx->at;
        for (; i < lx->n; i++)
            if (lx->s[i] == '{' && i + 1 < lx->n &&
                (lx->s[i + 1] == '{' || lx->s[i + 1] == '%' || lx->s[i + 1] == '#'))
                break;
        if (i == lx->n) return push(lx, JT_DATA, gy_jv_str(lx->s + lx->at, i - lx->at));
        char kind = lx->s[i + 1],
             sign =
                 i + 2 < lx->n && (lx->s[i + 2] == '-' || lx->s[i + 2] == '+') ? lx->s[i + 2] : 0;
        if (!push_data(lx, i, sign, kind != '{')) return false;
        size_t raw = kind == '%' ? raw_tag(lx, i, "raw") : 0;
        bool minus = raw && starts(lx, raw, "-%}");
        if (raw && (minus || starts(lx, raw, "%}"))) {
            raw += minus ? 3 : 2;
            advance(lx, minus ? skip_space(lx, raw) : raw);
            if (!read_raw(lx)) return false;
            continue;
        }
        advance(lx, i + 2 + (sign != 0));
        if (kind == '#') {
            if (!read_comment(lx, lx->at)) return false;
            continue;
        }
        if (!push(lx, kind == '{' ? JT_VAR_BEGIN : JT_BLOCK_BEGIN, gy_jv_of(JX_NONE)) ||
            !read_tag(lx, kind == '{'))
            return false;
    }
    return true;
}

gy_rc gy_jx_lex(gy_arena *arena, const char *source, size_t n, gy_jtoks *toks, gy_err *err) {
    gy_err own = {0};
    lexer lx = {.s = source, .n = n, .line = 1, .line_starting = true, .arena = arena, .err = &own};
    bool ok = read_all(&lx) && push(&lx, JT_EOF, gy_jv_of(JX_NONE));
    if (!ok) {
        gy_free(lx.tok);
        return gy_fail(err, own.rc, "%s", own.msg);
    }
    toks->tok = lx.tok, toks->n = lx.n_tok;
    return GY_OK;
}
