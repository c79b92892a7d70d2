#include "text/pretok.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/regex.h"
#include "text/unicode.h"

typedef enum {
    SPLIT,
    PREFIX,    /* a space before a piece that has none */
    METASPACE, /* spaces become text; text before pieces, by scheme */
    BYTEMAP    /* bytes become their characters */
} step_kind;

typedef enum { BY_REGEX, BY_SPACE, BY_PUNCTUATION, BY_NUMBER, BY_CHAR } find_kind;
typedef enum { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS } behaviour;
typedef enum { ALWAYS, FIRST, NEVER } scheme;

typedef struct {
    step_kind kind;
    find_kind find;
    behaviour behaviour;
    bool invert;
    scheme scheme;
    gy_regex *regex;
    uint32_t cp;  /* BY_CHAR */
    char text[8]; /* METASPACE's replacement, NUL-terminated */
} pretok_step;

struct gy_pretok {
    pretok_step *step; /* [n] */
    size_t n, cap;
    bool bytelevel;
};

/* ---- The ByteLevel alphabet ---- */

static bool keeps_its_value(unsigned b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

/* The 68 bytes that are no visible Latin-1 character take U+0100 onwards, in order: 0-32, 127-160,
 * 173. */
uint32_t gy_bytelevel_char(uint8_t b) {
    if (keeps_its_value(b)) return b;
    return 256u + (b <= 32 ? b : b <= 160 ? b - 127u + 33 : 67u);
}

int gy_bytelevel_byte(uint32_t cp) {
    if (cp < 256) return keeps_its_value(cp) ? (int)cp : -1;
    uint32_t k = cp - 256;
    return k <= 32 ? (int)k : k <= 66 ? (int)(k - 33 + 127) : k == 67 ? 173 : -1;
}

/* ---- Making ---- */

static gy_rc no_memory(gy_err *err) {
    return gy_fail(err, GY_ENOMEM, "pre_tokenizer: out of memory");
}

static pretok_step *add_step(gy_pretok *p, step_kind kind, gy_err *err) {
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 4;
        pretok_step *step = gy_realloc(p->step, cap * sizeof *step);
        if (!step) return no_memory(err), NULL;
        p->step = step, p->cap = cap;
    }
    p->step[p->n] = (pretok_step){.kind = kind};
    return &p->step[p->n++];
}

static gy_rc add_split(gy_pretok *p, find_kind find, behaviour b, gy_err *err) {
    pretok_step *step = add_step(p, SPLIT, err);
    if (!step) return GY_ENOMEM;
    step->find = find, step->behaviour = b;
    return GY_OK;
}

static gy_rc add_split_regex(gy_pretok *p, const char *pattern, size_t n, behaviour b,
                             gy_err *err) {
    gy_rc rc = add_split(p, BY_REGEX, b, err);
    if (!rc) rc = gy_regex_new(pattern, n, &p->step[p->n - 1].regex, err);
    return rc;
}

static gy_rc read_behaviour(const gy_json *v, behaviour absent, behaviour *out, gy_err *err) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = gy_json_s(v, "behavior", NULL);
    *out = absent;
    if (!name && gy_json_null(gy_json_get(v, "behavior"))) return GY_OK;
    for (int i = 0; i < 5 && name; i++) {
        if (!strcmp(name, names[i])) return *out = (behaviour)i, GY_OK;
    }
    char quoted[64];
    return gy_fail(err, GY_EUNSUPPORTED, "pre_tokenizer: behavior \"%s\"",
                   name ? gy_err_quote(quoted, name, strlen(name)) : "?");
}

/* A string as a pattern that matches just it. */
static gy_rc add_split_string(gy_pretok *p, const gy_json *s, behaviour b, gy_err *err) {
    gy_buf pattern = {0};
    for (uint32_t i = 0; i < s->n; i++) {
        bool plain = (s->s[i] & 0x80) || s->s[i] < 33 || (s->s[i] >= '0' && s->s[i] <= '9') ||
                     (s->s[i] >= 'A' && s->s[i] <= 'Z') || (s->s[i] >= 'a' && s->s[i] <= 'z') ||
                     s->s[i] == 127;
        if (!plain) gy_buf_c(&pattern, '\\');
        gy_buf_c(&pattern, s->s[i]);
    }
    gy_rc rc = pattern.oom ? no_memory(err)
                           : add_split_regex(p, pattern.p ? pattern.p : "", pattern.n, b, err);
    gy_buf_free(&pattern);
    return rc;
}

static gy_rc read_split(gy_pretok *p, const gy_json *v, gy_err *err) {
    const gy_json *pattern = gy_json_get(v, "pattern");
    const gy_json *regex = gy_json_get(pattern, "Regex"), *string = gy_json_get(pattern, "String");
    behaviour b;
    gy_rc rc = read_behaviour(v, ISOLATED, &b, err);
    if (rc) return rc;
    if (gy_json_is(regex, GY_JSON_STR))
        rc = add_split_regex(p, regex->s, regex->n, b, err);
    else if (gy_json_is(string, GY_JSON_STR))
        rc = add_split_string(p, string, b, err);
    else
        return gy_fail(err, GY_EFORMAT,
                       "pre_tokenizer: Split needs a pattern with Regex or String");
    if (rc) return gy_fail_in(err, "pre_tokenizer Split"), rc;
    p->step[p->n - 1].invert = gy_json_b(v, "invert", false);
    return GY_OK;
}

static gy_rc read_byte_level(gy_pretok *p, const gy_json *v, gy_err *err) {
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    gy_rc rc = GY_OK;
    if (gy_json_b(v, "add_prefix_space", true) && !add_step(p, PREFIX, err)) rc = GY_ENOMEM;
    if (!rc && gy_json_b(v, "use_regex", true))
        rc = add_split_regex(p, gpt2, sizeof gpt2 - 1, ISOLATED, err);
    if (!rc && !add_step(p, BYTEMAP, err)) rc = GY_ENOMEM;
    return rc;
}

/* The one character of a string member. */
static gy_rc read_char(const gy_json *v, const char *key, uint32_t *cp, char text[8], gy_err *err) {
    const gy_json *s = gy_json_get(v, key);
    if (!gy_json_is(s, GY_JSON_STR) || !s->n || gy_utf8_get(s->s, s->n, cp) != s->n) {
        return gy_fail(err, GY_EFORMAT, "pre_tokenizer: %s must be one character", key);
    }
    if (text) text[gy_utf8_put(text, *cp)] = 0;
    return GY_OK;
}

static gy_rc read_metaspace(gy_pretok *p, const gy_json *v, gy_err *err) {
    static const char *const names[] = {"always", "first", "never"};
    pretok_step *step = add_step(p, METASPACE, err);
    if (!step) return GY_ENOMEM;
    gy_rc rc = read_char(v, "replacement", &step->cp, step->text, err);
    if (rc) return rc;
    const char *name = gy_json_s(v, "prepend_scheme", "always");
    int k = 0;
    while (k < 3 && strcmp(name, names[k]) != 0) k++;
    char quoted[64];
    if (k == 3)
        return gy_fail(err, GY_EUNSUPPORTED, "pre_tokenizer: prepend_scheme \"%s\"",
                       gy_err_quote(quoted, name, strlen(name)));
    /* Older files say it with a flag. */
    if (!gy_json_b(v, "add_prefix_space", true)) k = NEVER;
    step->scheme = (scheme)k;
    uint32_t cp = step->cp;
    if (!gy_json_b(v, "split", true)) return GY_OK;
    rc = add_split(p, BY_CHAR, MERGED_WITH_NEXT, err);
    if (!rc) p->step[p->n - 1].cp = cp;
    return rc;
}

static gy_rc read_any(gy_pretok *p, const gy_json *v, int depth, gy_err *err);

static gy_rc read_sequence(gy_pretok *p, const gy_json *v, int depth, gy_err *err) {
    const gy_json *list = gy_json_get(v, "pretokenizers");
    if (!gy_json_is(list, GY_JSON_ARR))
        return gy_fail(err, GY_EFORMAT, "pre_tokenizer: Sequence without a list of pretokenizers");
    if (depth > 16)
        return gy_fail(err, GY_ELIMIT, "pre_tokenizer: Sequence in Sequence, more than 16 deep");
    gy_rc rc = GY_OK;
    for (uint32_t i = 0; i < list->n && !rc; i++) rc = read_any(p, &list->item[i], depth + 1, err);
    return rc;
}

/* The reference takes \w of this step from another engine, which adds the two joiners. */
static gy_rc read_whitespace(gy_pretok *p, gy_err *err) {
    static const char words[] = "[\\w\\x{200C}\\x{200D}]+|[^\\w\\s\\x{200C}\\x{200D}]+";
    gy_rc rc = add_split_regex(p, words, sizeof words - 1, REMOVED, err);
    if (!rc) p->step[p->n - 1].invert = true;
    return rc;
}

static gy_rc read_any(gy_pretok *p, const gy_json *v, int depth, gy_err *err) {
    if (gy_json_null(v)) return GY_OK;
    const char *type = gy_json_s(v, "type", NULL);
    behaviour b;
    if (!type) return gy_fail(err, GY_EFORMAT, "pre_tokenizer: no type");
    if (!strcmp(type, "Sequence")) return read_sequence(p, v, depth, err);
    if (!strcmp(type, "Split")) return read_split(p, v, err);
    if (!strcmp(type, "ByteLevel")) return read_byte_level(p, v, err);
    if (!strcmp(type, "Metaspace")) return read_metaspace(p, v, err);
    if (!strcmp(type, "Whitespace")) return read_whitespace(p, err);
    if (!strcmp(type, "WhitespaceSplit")) return add_split(p, BY_SPACE, REMOVED, err);
    if (!strcmp(type, "Digits")) {
        bool each = gy_json_b(v, "individual_digits", false);
        return add_split(p, BY_NUMBER, each ? ISOLATED : CONTIGUOUS, err);
    }
    if (!strcmp(type, "Punctuation")) {
        gy_rc rc = read_behaviour(v, ISOLATED, &b, err);
        return rc ? rc : add_split(p, BY_PUNCTUATION, b, err);
    }
    if (!strcmp(type, "BertPreTokenizer")) {
        gy_rc rc = add_split(p, BY_SPACE, REMOVED, err);
        return rc ? rc : add_split(p, BY_PUNCTUATION, ISOLATED, err);
    }
    if (!strcmp(type, "CharDelimiterSplit")) {
        gy_rc rc = add_split(p, BY_CHAR, REMOVED, err);
        return rc ? rc : read_char(v, "delimiter", &p->step[p->n - 1].cp, NULL, err);
    }
    char quoted[64];
    return gy_fail(err, GY_EUNSUPPORTED, "pre_tokenizer type \"%s\"",
                   gy_err_quote(quoted, type, strlen(type)));
}

static gy_rc finish(gy_pretok *p, gy_rc rc, gy_pretok **out) {
    if (rc) {
        gy_pretok_free(p);
        return rc;
    }
    if (p->n && p->step[p->n - 1].kind == BYTEMAP) p->n--, p->bytelevel = true;
    *out = p;
    return GY_OK;
}

gy_rc gy_pretok_new(const gy_json *pre_tokenizer, gy_pretok **out, gy_err *err) {
    gy_pretok *p = gy_alloc(sizeof *p);
    if (!p) return no_memory(err);
    return finish(p, read_any(p, pre_tokenizer, 0, err), out);
}

gy_rc gy_pretok_new_split(const char *const *pattern, int n_patterns, gy_pretok **out,
                          gy_err *err) {
    gy_pretok *p = gy_alloc(sizeof *p);
    gy_rc rc = p ? GY_OK : no_memory(err);
    for (int i = 0; i < n_patterns && !rc; i++)
        rc = add_split_regex(p, pattern[i], strlen(pattern[i]), ISOLATED, err);
    if (!rc && !add_step(p, BYTEMAP, err)) rc = GY_ENOMEM;
    return finish(p, rc, out);
}

void gy_pretok_free(gy_pretok *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n; i++) gy_regex_free(p->step[i].regex);
    gy_free(p->step);
    gy_free(p);
}

bool gy_pretok_bytelevel(const gy_pretok *p) {
    return p->bytelevel;
}

/* ---- Running ---- */

static bool piece_add(gy_pieces *out, size_t at, size_t n) {
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 64;
        gy_piece *piece = gy_realloc(out->piece, cap * sizeof *piece);
        if (!piece) return !(out->oom = true);
        out->piece = piece, out->cap = cap;
    }
    out->piece[out->n++] = (gy_piece){(uint32_t)at, (uint32_t)n};
    return true;
}

static bool char_matches(const pretok_step *step, uint32_t cp) {
    gy_uc_cat cat;
    switch (step->find) {
    case BY_SPACE: return gy_uc_space(cp);
    case BY_CHAR: return cp == step->cp;
    case BY_NUMBER: cat = gy_uc_category(cp); return cat >= GY_UC_ND && cat <= GY_UC_NO;
    default: break;
    }
    if (cp < 0x80)
        return cp > 32 && cp < 127 && !(cp >= '0' && cp <= '9') &&
               !((cp | 32) >= 'a' && (cp | 32) <= 'z');
    cat = gy_uc_category(cp);
    return cat >= GY_UC_PC && cat <= GY_UC_PO;
}

/* The next match in s[n] from at on. Single characters match one by one. last is where the match
 * before ended: an empty match there is none. */
static bool next_match(const pretok_step *step, const char *s, size_t n, size_t at, size_t last,
                       size_t *start, size_t *end) {
    uint32_t cp;
    size_t bytes;
    if (step->find != BY_REGEX) {
        for (; at < n; at += bytes) {
            bytes = gy_utf8_get(s + at, n - at, &cp);
            if (char_matches(step, cp)) return *start = at, *end = at + bytes, true;
        }
        return false;
    }
    while (at <= n && gy_regex_find(step->regex, s, n, at, start, end)) {
        if (*start != *end || *end != last) return true;
        at += at < n ? gy_utf8_get(s + at, n - at, &cp) : 1;
    }
    return false;
}

/* Adds a match or the text between two, joined to the piece before where the step says so. first is
 * the number of pieces before the text that is being split; before is whether the span before was a
 * match. Empty spans are kept here, for they take part in joining. */
static void span_add(const pretok_step *step, gy_pieces *out, size_t first, size_t at, size_t n,
                     bool match, bool before) {
    bool join = false;
    match ^= step->invert;
    before ^= step->invert;
    if (out->n == first) before = false;
    switch (step->behaviour) {
    case REMOVED:
        if (match) return;
        break;
    case CONTIGUOUS: join = match == before; break;
    case MERGED_WITH_PREVIOUS: join = match && !before; break;
    case MERGED_WITH_NEXT: join = !match && before; break;
    default: break;
    }
    if (join && out->n > first)
        out->piece[out->n - 1].n += (uint32_t)n;
    else
        piece_add(out, at, n);
}

static void drop_empty(gy_pieces *out, size_t first) {
    size_t kept = first;
    for (size_t i = first; i < out->n; i++) {
        if (out->piece[i].n) out->piece[kept++] = out->piece[i];
    }
    out->n = kept;
}

static void split_piece(const pretok_step *step, const char *text, gy_piece piece, gy_pieces *out) {
    const char *s = text + piece.at;
    size_t n = piece.n, done = 0, last = SIZE_MAX, start, end, first = out->n, at = 0;
    bool before = step->invert, empty = false; /* such that the first span joins nothing */
    while (!out->oom && next_match(step, s, n, at, last, &start, &end)) {
        if (start > done)
            span_add(step, out, first, piece.at + done, start - done, false, before),
                before = false;
        span_add(step, out, first, piece.at + start, end - start, true, before);
        before = true, empty |= start == end;
        done = at = last = end;
    }
    if (n > done) span_add(step, out, first, piece.at + done, n - done, false, before);
    if (empty) drop_empty(out, first);
}

static void run_split(const pretok_step *step, gy_pieces *p) {
    gy_piece *old = p->piece;
    size_t n = p->n, cap = p->cap;
    p->piece = p->spare, p->cap = p->spare_cap, p->n = 0;
    p->spare = old, p->spare_cap = cap;
    for (size_t i = 0; i < n && !p->oom; i++) split_piece(step, p->text, old[i], p);
}

static bool starts_with(const char *s, size_t n, const char *text) {
    size_t k = strlen(text);
    return n >= k && !memcmp(s, text, k);
}

/* The text of one piece after a step that changes text. head: the piece starts the whole text. */
static void put_text(const pretok_step *step, const char *s, size_t n, bool head, gy_buf *out) {
    if (step->kind == BYTEMAP) {
        for (size_t i = 0; i < n; i++) gy_buf_utf8(out, gy_bytelevel_char((uint8_t)s[i]));
        return;
    }
    if (step->kind == PREFIX) {
        if (s[0] != ' ') gy_buf_c(out, ' ');
        gy_buf_add(out, s, n);
        return;
    }
    bool marked = s[0] == ' ' || starts_with(s, n, step->text);
    bool wanted = step->scheme == ALWAYS || (step->scheme == FIRST && head);
    if (wanted && !marked) gy_buf_puts(out, step->text);
    for (size_t i = 0; i < n;) {
        const char *space = memchr(s + i, ' ', n - i);
        size_t run = space ? (size_t)(space - s) - i : n - i;
        gy_buf_add(out, s + i, run);
        if (space) gy_buf_puts(out, step->text);
        i += run + (space != NULL);
    }
}

static void run_text(const pretok_step *step, bool head, gy_pieces *p) {
    gy_buf *out = &p->own[p->text == p->own[0].p && p->own[0].p];
    out->n = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t from = out->n;
        put_text(step, p->text + p->piece[i].at, p->piece[i].n, head && i == 0, out);
        if (out->oom || out->n > UINT32_MAX) {
            p->oom = true, p->n = 0;
            return;
        }
        p->piece[i] = (gy_piece){(uint32_t)from, (uint32_t)(out->n - from)};
    }
    p->text = out->p;
}

void gy_pretok_run(const gy_pretok *pretok, const char *s, size_t n, bool first, gy_pieces *p) {
    p->text = s, p->n = 0, p->oom = false;
    p->own[0].oom = p->own[1].oom = false;
    if (n > UINT32_MAX) p->oom = true;
    if (!n || p->oom || !piece_add(p, 0, n)) return;
    for (size_t i = 0; i < pretok->n && p->n && !p->oom; i++) {
        const pretok_step *step = &pretok->step[i];
        uint32_t at = p->piece[0].at;
        if (step->kind != SPLIT) {
            run_text(step, first, p);
            continue;
        }
        run_split(step, p);
        if (p->n && p->piece[0].at != at) first = false; /* what started the text was removed */
    }
}

void gy_pieces_free(gy_pieces *p) {
    gy_free(p->piece), gy_free(p->spare);
    gy_buf_free(&p->own[0]), gy_buf_free(&p->own[1]);
    *p = (gy_pieces){0};
}
