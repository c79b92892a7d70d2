#include "text/normalize.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/charsmap.h"
#include "text/pretok.h"
#include "text/regex.h"
#include "text/unicode.h"

typedef enum {
    FORM, /* form */
    LOWERCASE,
    STRIP,            /* left, right */
    STRIP_MARKS,      /* categories M */
    STRIP_NONSPACING, /* category Mn */
    NMT,
    PREPEND,       /* text */
    REPLACE,       /* find, text */
    REPLACE_REGEX, /* regex, text */
    CLEAN,         /* BERT's clean_text */
    SPACE_CHINESE, /* BERT's handle_chinese_chars */
    CHARSMAP,      /* map, longest */
    BYTELEVEL
} step_kind;

typedef struct {
    step_kind kind;
    gy_nform form;
    bool left, right, longest;
    char *find, *text;
    size_t n_find, n_text;
    gy_regex *regex;
    gy_charsmap map;
} norm_step;

struct gy_norm {
    norm_step *step; /* [n] */
    size_t n, cap;
};

/* ---- Making ---- */

static norm_step *add_step(gy_norm *norm, step_kind kind, gy_err *err) {
    if (norm->n == norm->cap) {
        size_t cap = norm->cap ? norm->cap * 2 : 4;
        norm_step *step = gy_realloc(norm->step, cap * sizeof *step);
        if (!step) return gy_fail(err, GY_ENOMEM, "normalizer: out of memory"), NULL;
        norm->step = step, norm->cap = cap;
    }
    norm->step[norm->n] = (norm_step){.kind = kind};
    return &norm->step[norm->n++];
}

static gy_rc add_plain(gy_norm *norm, step_kind kind, gy_nform form, gy_err *err) {
    norm_step *step = add_step(norm, kind, err);
    if (!step) return GY_ENOMEM;
    step->form = form;
    return GY_OK;
}

static gy_rc copy_text(const gy_json *v, const char *key, char **text, size_t *n, gy_err *err) {
    const gy_json *s = gy_json_get(v, key);
    if (!gy_json_is(s, GY_JSON_STR)) {
        return gy_fail(err, GY_EFORMAT, "normalizer: %s must be a string", key);
    }
    *text = gy_strndup(s->s, s->n), *n = s->n;
    return *text ? GY_OK : gy_fail(err, GY_ENOMEM, "normalizer: out of memory");
}

static gy_rc add_replace(gy_norm *norm, const gy_json *v, gy_err *err) {
    norm_step *step = add_step(norm, REPLACE, err);
    if (!step) return GY_ENOMEM;
    gy_rc rc = copy_text(v, "content", &step->text, &step->n_text, err);
    if (rc) return rc;
    const gy_json *pattern = gy_json_get(v, "pattern"), *regex = gy_json_get(pattern, "Regex");
    if (gy_json_is(regex, GY_JSON_STR)) {
        step->kind = REPLACE_REGEX;
        rc = gy_regex_new(regex->s, regex->n, &step->regex, err);
        if (rc) gy_fail_in(err, "normalizer Replace");
        return rc;
    }
    return copy_text(pattern, "String", &step->find, &step->n_find, err);
}

static gy_rc add_bert(gy_norm *norm, const gy_json *v, gy_err *err) {
    bool lower = gy_json_b(v, "lowercase", true);
    gy_rc rc = GY_OK;
    if (gy_json_b(v, "clean_text", true)) rc = add_plain(norm, CLEAN, GY_NFC, err);
    if (!rc && gy_json_b(v, "handle_chinese_chars", true))
        rc = add_plain(norm, SPACE_CHINESE, GY_NFC, err);
    if (!rc && gy_json_b(v, "strip_accents", lower)) { /* null: as lowercase */
        rc = add_plain(norm, FORM, GY_NFD, err);
        if (!rc) rc = add_plain(norm, STRIP_NONSPACING, GY_NFC, err);
    }
    if (!rc && lower) rc = add_plain(norm, LOWERCASE, GY_NFC, err);
    return rc;
}

static int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static gy_rc add_precompiled(gy_norm *norm, const gy_json *v, gy_err *err) {
    const gy_json *s = gy_json_get(v, "precompiled_charsmap");
    if (gy_json_null(s)) return GY_OK;
    if (!gy_json_is(s, GY_JSON_STR))
        return gy_fail(err, GY_EFORMAT, "normalizer: precompiled_charsmap must be a string");
    if (!s->n) return GY_OK;
    norm_step *step = add_step(norm, CHARSMAP, err);
    uint8_t *bytes = step ? gy_alloc((size_t)s->n / 4 * 3 + 3) : NULL;
    if (!bytes) return gy_fail(err, GY_ENOMEM, "normalizer: out of memory");
    size_t n = 0, i = 0;
    uint32_t bits = 0;
    for (; i < s->n && s->s[i] != '='; i++) {
        int value = base64_value(s->s[i]);
        if (value < 0) break;
        bits = bits << 6 | (uint32_t)value;
        if (i & 3) bytes[n++] = (uint8_t)(bits >> (6 - 2 * (i & 3)));
    }
    gy_rc rc = GY_OK;
    if (i < s->n && s->s[i] != '=')
        rc = gy_fail(err, GY_EFORMAT, "normalizer: precompiled_charsmap is not base64");
    else
        rc = gy_charsmap_open(&step->map, bytes, n, err);
    gy_free(bytes);
    return rc;
}

static gy_rc add_any(gy_norm *norm, const gy_json *v, int depth, gy_err *err);

static gy_rc add_sequence(gy_norm *norm, const gy_json *v, int depth, gy_err *err) {
    const gy_json *list = gy_json_get(v, "normalizers");
    if (!gy_json_is(list, GY_JSON_ARR))
        return gy_fail(err, GY_EFORMAT, "normalizer: Sequence without a list of normalizers");
    gy_rc rc = GY_OK;
    for (uint32_t i = 0; i < list->n && !rc; i++)
        rc = add_any(norm, &list->item[i], depth + 1, err);
    return rc;
}

static gy_rc add_any(gy_norm *norm, const gy_json *v, int depth, gy_err *err) {
    static const struct {
        const char *name;
        step_kind kind;
        gy_nform form;
    } plain[] = {{"NFC", FORM, GY_NFC},
                 {"NFD", FORM, GY_NFD},
                 {"NFKC", FORM, GY_NFKC},
                 {"NFKD", FORM, GY_NFKD},
                 {"Nmt", NMT, 0},
                 {"Lowercase", LOWERCASE, 0},
                 {"StripAccents", STRIP_MARKS, 0},
                 {"ByteLevel", BYTELEVEL, 0}};
    if (gy_json_null(v)) return GY_OK;
    const char *type = gy_json_s(v, "type", NULL);
    if (!type) return gy_fail(err, GY_EFORMAT, "normalizer: no type");
    if (depth > 16)
        return gy_fail(err, GY_ELIMIT, "normalizer: Sequence in Sequence, more than 16 deep");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (!strcmp(type, plain[i].name)) return add_plain(norm, plain[i].kind, plain[i].form, err);
    }
    if (!strcmp(type, "Sequence")) return add_sequence(norm, v, depth, err);
    if (!strcmp(type, "Replace")) return add_replace(norm, v, err);
    if (!strcmp(type, "BertNormalizer")) return add_bert(norm, v, err);
    if (!strcmp(type, "Precompiled")) return add_precompiled(norm, v, err);
    if (!strcmp(type, "Prepend")) {
        norm_step *step = add_step(norm, PREPEND, err);
        return step ? copy_text(v, "prepend", &step->text, &step->n_text, err) : GY_ENOMEM;
    }
    if (!strcmp(type, "Strip")) {
        norm_step *step = add_step(norm, STRIP, err);
        if (!step) return GY_ENOMEM;
        step->left = gy_json_b(v, "strip_left", true),
        step->right = gy_json_b(v, "strip_right", true);
        return GY_OK;
    }
    char quoted[64];
    return gy_fail(err, GY_EUNSUPPORTED, "normalizer type \"%s\"",
                   gy_err_quote(quoted, type, strlen(type)));
}

gy_rc gy_norm_new(const gy_json *normalizer, gy_norm **out, gy_err *err) {
    gy_norm *norm = gy_alloc(sizeof *norm);
    if (!norm) return gy_fail(err, GY_ENOMEM, "normalizer: out of memory");
    gy_rc rc = add_any(norm, normalizer, 0, err);
    if (rc)
        gy_norm_free(norm);
    else
        *out = norm;
    return rc;
}

gy_rc gy_norm_new_charsmap(const uint8_t *charsmap, size_t bytes, gy_norm **out, gy_err *err) {
    gy_norm *norm = gy_alloc(sizeof *norm);
    if (!norm) return gy_fail(err, GY_ENOMEM, "normalizer: out of memory");
    norm_step *step = add_step(norm, CHARSMAP, err);
    gy_rc rc = step ? gy_charsmap_open(&step->map, charsmap, bytes, err) : GY_ENOMEM;
    if (rc)
        gy_norm_free(norm);
    else
        step->longest = true, *out = norm;
    return rc;
}

void gy_norm_free(gy_norm *norm) {
    if (!norm) return;
    for (size_t i = 0; i < norm->n; i++) {
        gy_free(norm->step[i].find), gy_free(norm->step[i].text);
        gy_regex_free(norm->step[i].regex);
        gy_charsmap_free(&norm->step[i].map);
    }
    gy_free(norm->step);
    gy_free(norm);
}

bool gy_norm_empty(const gy_norm *norm) {
    return norm->n == 0;
}

/* ---- Steps. Each appends its result to out; whether that differs from s[n] is found by the
 * caller. ---- */

static void run_strip(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    size_t from = 0, to = n;
    uint32_t cp;
    while (step->left && from < n) {
        size_t bytes = gy_utf8_get(s + from, n - from, &cp);
        if (!gy_uc_space(cp)) break;
        from += bytes;
    }
    while (step->right && to > from) {
        size_t at = to - 1;
        while (at > from && ((uint8_t)s[at] & 0xC0) == 0x80) at--;
        gy_utf8_get(s + at, to - at, &cp);
        if (!gy_uc_space(cp)) break;
        to = at;
    }
    gy_buf_add(out, s + from, to - from);
}

static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

/* The reference's "Nmt": controls are dropped, other invisible characters become spaces. */
static uint32_t nmt_char(uint32_t c) {
    bool drop = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                c == 0x8F || c == 0x9F;
    bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                 (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                 c == 0xFEFF || c == 0xFFFD;
    return drop ? UINT32_MAX : space ? ' ' : c;
}

/* BERT's clean_text: NUL, U+FFFD and controls are dropped, white space becomes a space. */
static uint32_t clean_char(uint32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return ' ';
    gy_uc_cat cat = gy_uc_category(c);
    if (c == 0xFFFD || cat == GY_UC_CC || cat == GY_UC_CF || cat == GY_UC_CO) return UINT32_MAX;
    return gy_uc_space(c) ? ' ' : c;
}

/* Steps that look at one character at a time. */
static void run_chars(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += gy_utf8_get(s + i, n - i, &cp);
        gy_uc_cat cat;
        switch (step->kind) {
        case NMT: cp = nmt_char(cp); break;
        case CLEAN: cp = clean_char(cp); break;
        case STRIP_MARKS:
            cat = gy_uc_category(cp);
            if (cat == GY_UC_MN || cat == GY_UC_MC || cat == GY_UC_ME) cp = UINT32_MAX;
            break;
        case STRIP_NONSPACING:
            if (gy_uc_category(cp) == GY_UC_MN) cp = UINT32_MAX;
            break;
        default:
            if (!is_chinese(cp)) break;
            gy_buf_c(out, ' ');
            gy_buf_utf8(out, cp);
            cp = ' ';
            break;
        }
        if (cp < 0x80)
            gy_buf_c(out, (char)cp);
        else if (cp != UINT32_MAX)
            gy_buf_utf8(out, cp);
    }
}

static void run_replace(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    size_t i = 0;
    while (step->n_find && i < n) {
        const char *at = memmem(s + i, n - i, step->find, step->n_find);
        if (!at) break;
        gy_buf_add(out, s + i, (size_t)(at - s) - i);
        gy_buf_add(out, step->text, step->n_text);
        i = (size_t)(at - s) + step->n_find;
    }
    /* The empty string is found before every character, and at the end. */
    for (size_t bytes; !step->n_find && i < n; i += bytes) {
        uint32_t cp;
        bytes = gy_utf8_get(s + i, n - i, &cp);
        gy_buf_add(out, step->text, step->n_text);
        gy_buf_add(out, s + i, bytes);
    }
    if (step->n_find)
        gy_buf_add(out, s + i, n - i);
    else
        gy_buf_add(out, step->text, step->n_text);
}

static void run_replace_regex(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    size_t done = 0, at = 0, start, end, last = SIZE_MAX;
    while (at <= n && gy_regex_find(step->regex, s, n, at, &start, &end)) {
        if (start == end && end == last) { /* not an empty match right after a match */
            uint32_t cp;
            at += at < n ? gy_utf8_get(s + at, n - at, &cp) : 1;
            continue;
        }
        gy_buf_add(out, s + done, start - done);
        gy_buf_add(out, step->text, step->n_text);
        done = at = last = end;
    }
    gy_buf_add(out, s + done, n - done);
}

static void put_mapped(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    size_t key;
    const char *to = gy_charsmap_find(&step->map, s, n, false, &key);
    if (to)
        gy_buf_puts(out, to);
    else
        gy_buf_add(out, s, n);
}

/* The longest key at each place, as sentencepiece does; or as the tokenizers library does: a
 * cluster of under 6 bytes is replaced as a whole when some key starts it, else each character when
 * some key starts that. */
static void run_charsmap(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    size_t bytes, key;
    for (size_t i = 0; i < n; i += bytes) {
        uint32_t cp;
        bool small = i + 1 == n || !((s[i] | s[i + 1]) & 0x80);
        if (step->longest) {
            const char *to = gy_charsmap_find(&step->map, s + i, n - i, true, &key);
            bytes = to ? key : gy_utf8_get(s + i, n - i, &cp);
            gy_buf_add(out, to ? to : s + i, to ? strlen(to) : bytes);
            continue;
        }
        bytes = small && s[i] != '\r' ? 1 : gy_uc_cluster(s + i, n - i);
        if (bytes < 6 && gy_charsmap_find(&step->map, s + i, bytes, false, &key)) {
            put_mapped(step, s + i, bytes, out);
            continue;
        }
        for (size_t k = 0, part; k < bytes; k += part) {
            part = gy_utf8_get(s + i + k, bytes - k, &cp);
            put_mapped(step, s + i + k, part, out);
        }
    }
}

static bool all_ascii(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] & 0x80) return false;
    }
    return true;
}

/* True when the step surely leaves s[n] as it is; finding that out costs less than doing it. */
static bool surely_same(const norm_step *step, const char *s, size_t n) {
    switch (step->kind) {
    case FORM: return gy_uc_is_normal(step->form, s, n);
    case STRIP_MARKS:
    case STRIP_NONSPACING:
    case SPACE_CHINESE: return all_ascii(s, n);
    case PREPEND: return !n || !step->n_text;
    case REPLACE_REGEX: return !n; /* in nothing, nothing is found */
    case REPLACE: return !n || (step->n_find && !memmem(s, n, step->find, step->n_find));
    default: return false;
    }
}

static void run_step(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    switch (step->kind) {
    case FORM: gy_uc_normalize_nine(out, step->form, s, n); break;
    case LOWERCASE: gy_uc_lower_chars(out, s, n); break;
    case STRIP: run_strip(step, s, n, out); break;
    case PREPEND:
        gy_buf_add(out, step->text, step->n_text);
        gy_buf_add(out, s, n);
        break;
    case REPLACE: run_replace(step, s, n, out); break;
    case REPLACE_REGEX: run_replace_regex(step, s, n, out); break;
    case CHARSMAP: run_charsmap(step, s, n, out); break;
    case BYTELEVEL:
        for (size_t i = 0; i < n; i++) gy_buf_utf8(out, gy_bytelevel_char((uint8_t)s[i]));
        break;
    default: run_chars(step, s, n, out); break;
    }
}

/* Runs a step into an empty buffer; false when nothing changed. */
static bool step_changes(const norm_step *step, const char *s, size_t n, gy_buf *out) {
    if (surely_same(step, s, n)) return false;
    gy_buf_need(out, n);
    run_step(step, s, n, out);
    if (out->oom) return true;
    return out->n != n || memcmp(out->p, s, n) != 0;
}

bool gy_norm_run(const gy_norm *norm, const char *s, size_t n, gy_buf *out) {
    gy_buf side[2] = {{0}, {0}};
    int turn = 0;
    bool changed = false, oom = false;
    for (size_t i = 0; i < norm->n && !oom; i++) {
        gy_buf *to = &side[turn];
        to->n = 0;
        if (!step_changes(&norm->step[i], s, n, to)) continue;
        s = to->n ? to->p : "", n = to->n, oom = to->oom;
        turn ^= 1, changed = true;
    }
    if (oom)
        out->oom = true;
    else if (changed)
        gy_buf_add(out, s, n);
    gy_buf_free(&side[0]), gy_buf_free(&side[1]);
    return changed;
}
