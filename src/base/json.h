/* base/json - JSON as it was written.
 *
 * Numbers keep their source text (tojson must print 1.0 as 1.0 and integers of any size exactly),
 * objects keep the order of their members; a duplicate key keeps the last value at the first key's
 * place, as Python does. A parsed document lives in one arena and is constant.
 *
 *     doc -> arena { text copies, nodes };  array: item[n];  object: item[n] with key[n] beside it
 *
 * Strict RFC 8259 UTF-8, besides what config files of the field contain: the words NaN, Infinity
 * and -Infinity are numbers. Limits: depth 512, text of 4 GiB. Memory: 24 bytes a value, 16 a key,
 * besides the text; while parsing, up to three times that. A lone surrogate escape becomes U+FFFD.
 * Thread: a parsed document may be read from any thread. */
#ifndef GY_BASE_JSON_H
#define GY_BASE_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

typedef enum {
    GY_JSON_NULL,
    GY_JSON_BOOL,
    GY_JSON_NUM,
    GY_JSON_STR,
    GY_JSON_ARR,
    GY_JSON_OBJ
} gy_json_kind;

typedef struct {
    const char *s;
    uint32_t n;
} gy_json_key; /* NUL-terminated besides */

typedef struct gy_json gy_json;
struct gy_json {
    uint8_t kind; /* gy_json_kind */
    bool truth;   /* BOOL */
    uint32_t n;   /* bytes of STR or NUM, members of ARR or OBJ */
    union {
        /* STR: decoded, may hold NULs; NUM: source text; both NUL-terminated */
        const char *s;
        const gy_json *item; /* ARR, OBJ: [n] */
    };
    const gy_json_key *key; /* OBJ: [n] */
};

typedef struct {
    gy_arena arena;
    const gy_json *root;
} gy_json_doc; /* all-zero is empty */

/* Parses text[n] entirely. Errors give line and column. Strings are copied: text may go away. */
gy_rc gy_json_parse(gy_json_doc *doc, const char *text, size_t n, gy_err *err);
/* The same, but a key that appears twice in one object is an error which names it. */
gy_rc gy_json_parse_unique(gy_json_doc *doc, const char *text, size_t n, gy_err *err);
void gy_json_free(gy_json_doc *doc);

/* Every reader below takes NULL for "not there", and gives NULL or the default when the kind is
 * another. */
/* A member; NULL when absent. Looks through all members in order: walk a big object (a vocabulary)
 * once instead. */
const gy_json *gy_json_get(const gy_json *obj, const char *key);
const gy_json *gy_json_path(const gy_json *obj, const char *dotted); /* "rope_scaling.type" */
static inline bool gy_json_is(const gy_json *v, gy_json_kind kind) {
    return v && v->kind == kind;
}
static inline bool gy_json_null(const gy_json *v) {
    return !v || v->kind == GY_JSON_NULL;
}
/* A member that is a string, a number truncated toward zero, a number, a boolean. */
const char *gy_json_s(const gy_json *obj, const char *key, const char *absent);
int64_t gy_json_i(const gy_json *obj, const char *key, int64_t absent);
double gy_json_f(const gy_json *obj, const char *key, double absent);
bool gy_json_b(const gy_json *obj, const char *key, bool absent);
bool gy_json_int(const gy_json *v, int64_t *out); /* v is an integer literal that fits */
/* Correctly rounded; "Infinity" and {"__float__":"Infinity"} too. */
bool gy_json_num(const gy_json *v, double *out);

/* Writes a value compactly, numbers as they were. */
void gy_json_write(gy_buf *b, const gy_json *v);

#endif
