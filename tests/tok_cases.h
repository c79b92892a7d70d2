/* tok_cases - what the tests of the tokenizer share: opening files, and comparing ids and text with
 * a count of both.
 *
 * A case that differs is printed with its name and text, and counted; tok_done fails the test if
 * any did. */
#ifndef GY_TOK_CASES_H
#define GY_TOK_CASES_H

#include "text/pretok.h"
#include "text/tok.h"

#include "testlib.h"

typedef struct {
    const char *group;
    int passed, total;
} tok_count;

/* A whole file, .xz unpacked; fails the test when it cannot be read. */
static inline char *tok_file(const char *path, size_t *n) {
    char command[1200];
    size_t len = strlen(path), cap = 1 << 16;
    bool xz = len > 3 && !strcmp(path + len - 3, ".xz");
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *f = xz ? popen(command, "r") : fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    char *s = malloc(cap);
    *n = 0;
    for (size_t k; (k = fread(s + *n, 1, cap - *n - 1, f)) > 0;) {
        *n += k;
        if (*n + 1 == cap) s = realloc(s, cap *= 2);
    }
    s[*n] = 0;
    if (xz ? pclose(f) : fclose(f)) fail_msg("cannot read %s", path);
    return s;
}

static inline gy_json_doc tok_json(const char *path) {
    gy_json_doc doc = {0};
    gy_err err = {0};
    size_t n;
    char *s = tok_file(path, &n);
    if (gy_json_parse(&doc, s, n, &err)) fail_msg("%s: %s", path, err.msg);
    free(s);
    return doc;
}

static inline gy_tok *tok_open(const char *path, const gy_json *config, const char *cache_dir) {
    gy_tok *tok = NULL;
    gy_err err = {0};
    size_t n;
    char *s = tok_file(path, &n);
    if (gy_tok_open_json(s, n, config, cache_dir, &tok, &err))
        fail_msg("%s: %s: %s", path, gy_rc_name(err.rc), err.msg);
    free(s);
    return tok;
}

static inline void tok_miss(const tok_count *c, const char *what, const gy_json *text,
                            const char *got) {
    gy_buf b = {0};
    gy_json_write(&b, text);
    print_message("%s: %s of %.200s: got %.400s\n", c->group, what, b.p, got);
    gy_buf_free(&b);
}

/* Encodes text and compares with the list ids. */
static inline void tok_check_ids(tok_count *c, const gy_tok *tok, const char *what,
                                 const gy_json *text, const gy_json *ids, unsigned flags) {
    gy_ids out = {0};
    gy_err err = {0};
    c->total++;
    gy_rc rc = gy_tok_encode(tok, text->s, text->n, flags, &out, &err);
    bool same = !rc && (uint32_t)out.n == ids->n;
    for (int i = 0; same && i < out.n; i++) {
        int64_t want = -1;
        same = gy_json_int(&ids->item[i], &want) && want == out.id[i];
    }
    if (same) {
        c->passed++;
    } else {
        gy_buf b = {0};
        gy_buf_puts(&b, rc ? err.msg : "");
        for (int i = 0; i < out.n; i++) gy_buf_printf(&b, "%d ", out.id[i]);
        gy_buf_puts(&b, "wanted ");
        gy_json_write(&b, ids);
        tok_miss(c, what, text, b.p);
        gy_buf_free(&b);
    }
    gy_free(out.id);
}

static inline int32_t *tok_list(const gy_json *ids) {
    int32_t *id = malloc((ids->n + 1) * sizeof *id);
    for (uint32_t i = 0; i < ids->n; i++) {
        int64_t v = -1;
        gy_json_int(&ids->item[i], &v);
        id[i] = (int32_t)v;
    }
    return id;
}

static inline void tok_check_text(tok_count *c, const gy_tok *tok, const char *what,
                                  const gy_json *ids, const gy_json *text, bool skip) {
    gy_buf b = {0};
    gy_err err = {0};
    int32_t *id = tok_list(ids);
    c->total++;
    gy_rc rc = gy_tok_decode(tok, id, (int)ids->n, skip, &b, &err);
    if (!rc && b.n == text->n && !memcmp(b.p ? b.p : "", text->s, b.n)) {
        c->passed++;
    } else {
        tok_miss(c, what, text, rc ? err.msg : b.p ? b.p : "");
    }
    gy_buf_free(&b);
    free(id);
}

static inline void tok_done(const tok_count *c) {
    print_message("%s: %d of %d\n", c->group, c->passed, c->total);
    if (c->passed != c->total)
        fail_msg("%s: %d of %d cases differ", c->group, c->total - c->passed, c->total);
}

#endif
