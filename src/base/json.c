#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "base/hash.h"
#include "base/utf8.h"

/* The children of open containers wait on two stacks; a container that closes moves its own to the
 * arena.
 *
 *     val  [.. children of the outer array .. | children of the object being read ..]
 *     key  [.. keys of outer objects ..       | its keys ..]
 *
 * Decoded strings and number texts go to one piece of n + 1 bytes: a string of k bytes comes from
 * at least k + 2 bytes of source, and a number of k bytes is followed by at least one more byte
 * unless it is the whole text, so that the terminating NULs fit as well. */
typedef struct {
    const char *begin, *p, *end;
    char *out; /* next free byte of the text piece */
    gy_arena *arena;
    gy_json *val;
    gy_json_key *key;
    size_t vals, val_cap, keys, key_cap;
    int depth;
    bool unique; /* a duplicate key is an error */
    gy_err *err;
    gy_rc rc;
} parser;

enum { MAX_DEPTH = 512, SMALL_OBJECT = 16, BLOCK = 32 };

static bool fail_at(parser *ps, const char *at, const char *what) {
    int line = 1, column = 1;
    for (const char *s = ps->begin; s < at; s++) {
        if (*s == '\n')
            line++, column = 1;
        else
            column += ((unsigned char)*s & 0xC0) != 0x80; /* a code point counts once */
    }
    ps->rc = gy_fail(ps->err, GY_EFORMAT, "JSON line %d, column %d: %s", line, column, what);
    return false;
}

static bool fail_oom(parser *ps) {
    ps->rc = gy_fail(ps->err, GY_ENOMEM, "out of memory while reading JSON");
    return false;
}

/* Indented files are half spaces: runs of them are skipped by eight. */
static inline void skip_space(parser *ps) {
    const char *p = ps->p, *end = ps->end;
    for (;;) {
        uint64_t v;
        while (end - p >= 8 && (memcpy(&v, p, 8), v == 0x2020202020202020)) p += 8;
        if (p == end || (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t')) break;
        p++;
    }
    ps->p = p;
}

/* ---- strings ---- */

static int hex4(const char *p, const char *end) {
    int v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)p[i], low = c | 32;
        int d = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* p is behind "\u". A high surrogate joins a low one that follows at once; alone, either becomes
 * U+FFFD. */
static const char *read_unicode(parser *ps, const char *p, char **out) {
    int c = hex4(p, ps->end);
    if (c < 0) return fail_at(ps, p, "four hexadecimal digits expected after \\u"), NULL;
    p += 4;
    if (c >= 0xD800 && c < 0xDC00 && ps->end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        int low = hex4(p + 2, ps->end);
        if (low >= 0xDC00 && low < 0xE000)
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00), p += 6;
    }
    char two[4];
    size_t n = gy_utf8_put(two, (uint32_t)c);
    memcpy(*out, two, n);
    *out += n;
    return p;
}

static const char *read_escape(parser *ps, const char *p, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p < ps->end && *p == 'u') return read_unicode(ps, p + 1, out);
    const char *at = p < ps->end && *p ? strchr(from, *p) : NULL;
    if (!at) return fail_at(ps, p, "unknown escape in a string"), NULL;
    *(*out)++ = to[at - from];
    return p + 1;
}

/* The lowest set 0x80 bit marks the first byte of v that is a quote, a backslash, a control or not
 * ASCII. Bits above the first marked byte may be wrong, those below are right. */
static inline uint64_t special_bytes(uint64_t v) {
    const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
    uint64_t quote = v ^ ones * '"', slash = v ^ ones * '\\';
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((v - ones * 0x20) & ~v) | v) &
           high;
}

/* ps->p is behind the opening quote. */
static bool read_string(parser *ps, const char **s, uint32_t *n) {
    const char *p = ps->p, *end = ps->end;
    char *out = ps->out, *const start = out;
    for (;;) {
        while (end - p >= 8) {
            uint64_t v, mark;
            memcpy(&v, p, 8);
            mark = special_bytes(v);
            memcpy(out, &v, 8); /* there is room: the piece has as many bytes left as the source */
            if (mark) {
                int ok = __builtin_ctzll(mark) / 8;
                p += ok, out += ok;
                break;
            }
            p += 8, out += 8;
        }
        if (p == end) return fail_at(ps, ps->p - 1, "string without an end");
        unsigned char c = (unsigned char)*p;
        if (c == '"') break;
        if (c == '\\') {
            p = read_escape(ps, p + 1, &out);
            if (!p) return false;
        } else if (c < 0x20) {
            return fail_at(ps, p, "control character in a string");
        } else if (c < 0x80) {
            *out++ = *p++;
        } else {
            uint32_t cp;
            size_t k = gy_utf8_get(p, (size_t)(end - p), &cp);
            if (cp == 0xFFFD && (k != 3 || memcmp(p, "\xEF\xBF\xBD", 3)))
                return fail_at(ps, p, "bytes that are not UTF-8 in a string");
            memcpy(out, p, k);
            p += k, out += k;
        }
    }
    *out = 0;
    *s = start, *n = (uint32_t)(out - start);
    ps->out = out + 1, ps->p = p + 1;
    return true;
}

/* ---- numbers ---- */

static const char *digits(const char *p, const char *end) {
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

static bool read_number(parser *ps, gy_json *v) {
    const char *start = ps->p, *p = start, *end = ps->end, *q;
    if (p < end && *p == '-') p++;
    if (end - p >= 8 && !memcmp(p, "Infinity", 8)) {
        p += 8;
    } else if (end - p >= 3 && p == start && !memcmp(p, "NaN", 3)) {
        p += 3;
    } else {
        q = digits(p, end);
        if (q == p)
            return fail_at(ps, start,
                           p == start ? "a value expected" : "digits expected in a number");
        if (*p == '0' && q > p + 1) return fail_at(ps, start, "number with a leading zero");
        p = q;
        if (p < end && *p == '.') {
            q = digits(p + 1, end);
            if (q == p + 1) return fail_at(ps, start, "digits expected after the decimal point");
            p = q;
        }
        if (p < end && (*p | 32) == 'e') {
            p++;
            if (p < end && (*p == '+' || *p == '-')) p++;
            q = digits(p, end);
            if (q == p) return fail_at(ps, start, "digits expected in the exponent");
            p = q;
        }
    }
    v->kind = GY_JSON_NUM, v->n = (uint32_t)(p - start), v->s = ps->out;
    memcpy(ps->out, start, v->n);
    ps->out[v->n] = 0;
    ps->out += v->n + 1, ps->p = p;
    return true;
}

/* ---- containers ---- */

/* Kept apart so that the pushes are a few instructions where they are used. */
static bool __attribute__((noinline)) grow(parser *ps, void **stack, size_t *cap, size_t bytes) {
    size_t want = *cap ? *cap * 2 : 256;
    void *p = gy_realloc(*stack, want * bytes);
    if (!p) return fail_oom(ps);
    *stack = p, *cap = want;
    return true;
}

static inline bool push_value(parser *ps, const gy_json *v) {
    void *stack = ps->val;
    if (ps->vals == ps->val_cap) {
        if (!grow(ps, &stack, &ps->val_cap, sizeof *v)) return false;
        ps->val = stack;
    }
    ps->val[ps->vals++] = *v;
    return true;
}

static inline bool push_key(parser *ps, gy_json_key key) {
    void *stack = ps->key;
    if (ps->keys == ps->key_cap) {
        if (!grow(ps, &stack, &ps->key_cap, sizeof key)) return false;
        ps->key = stack;
    }
    ps->key[ps->keys++] = key;
    return true;
}

static bool same_key(gy_json_key a, gy_json_key b) {
    return a.n == b.n && !memcmp(a.s, b.s, a.n);
}

/* Random per process, so that a file cannot be made whose keys collide; results do not depend on
 * it. */
static uint64_t process_seed(void) {
    uint64_t seed = 0;
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random) memcpy(&seed, random, 8);
    return seed;
}

/* Merges duplicate keys among key[n] and val[n]: the last value moves to the first key's place.
 * Returns the members left, or -1 when memory is out; *twice is a key that was merged. A slot holds
 * half a hash and the index + 1, so that most keys that meet in the table are told apart without a
 * look at their text. */
static int64_t merge_duplicates(gy_json_key *key, gy_json *val, uint32_t n, gy_json_key *twice) {
    typedef struct {
        uint32_t hash, index;
    } slot;
    slot small[SMALL_OBJECT * 2] = {0}, *table = small;
    uint32_t kept = 0, mask = SMALL_OBJECT * 2 - 1;
    uint64_t seed = process_seed(), hash[BLOCK];
    if (n > SMALL_OBJECT) {
        while (mask < (uint64_t)n * 3 / 2 && mask < UINT32_MAX / 2) mask = mask * 2 + 1;
        table = gy_alloc_aligned(((size_t)mask + 1) * sizeof *table);
        if (!table) return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        /* Slots lie all over a table larger than the near caches: fetch those of a block of keys at
         * once. */
        if (i % BLOCK == 0) {
            for (uint32_t k = i; k < n && k < i + BLOCK; k++) {
                hash[k % BLOCK] = gy_hash64(key[k].s, key[k].n, seed);
                __builtin_prefetch(&table[(uint32_t)hash[k % BLOCK] & mask], 1);
            }
        }
        uint64_t h = hash[i % BLOCK];
        uint32_t at = (uint32_t)h & mask, tag = (uint32_t)(h >> 32);
        while (table[at].index &&
               (table[at].hash != tag || !same_key(key[table[at].index - 1], key[i])))
            at = (at + 1) & mask;
        if (table[at].index) {
            val[table[at].index - 1] = val[i], *twice = key[i];
        } else {
            key[kept] = key[i], val[kept] = val[i];
            table[at] = (slot){tag, ++kept};
        }
    }
    if (table != small) gy_free(table);
    return kept;
}

static bool close_array(parser *ps, size_t base, gy_json *v) {
    size_t n = ps->vals - base;
    v->kind = GY_JSON_ARR, v->n = (uint32_t)n;
    if (n) {
        gy_json *item = gy_arena_raw(ps->arena, n * sizeof *item);
        if (!item) return fail_oom(ps);
        memcpy(item, ps->val + base, n * sizeof *item);
        v->item = item;
    }
    ps->vals = base, ps->depth--;
    return true;
}

static bool fail_twice(parser *ps, gy_json_key key) {
    char name[64], what[128];
    snprintf(what, sizeof what, "duplicate key \"%s\" in the object that ends here",
             gy_err_quote(name, key.s, key.n));
    return fail_at(ps, ps->p, what);
}

static bool close_object(parser *ps, size_t base, size_t key_base, gy_json *v) {
    int64_t n = (int64_t)(ps->vals - base);
    gy_json_key twice = {0};
    if (n > 1) n = merge_duplicates(ps->key + key_base, ps->val + base, (uint32_t)n, &twice);
    if (n < 0) return fail_oom(ps);
    if (twice.s && ps->unique) return fail_twice(ps, twice);
    v->kind = GY_JSON_OBJ, v->n = (uint32_t)n;
    if (n) {
        gy_json *item = gy_arena_raw(ps->arena, (size_t)n * sizeof *item);
        gy_json_key *key = gy_arena_raw(ps->arena, (size_t)n * sizeof *key);
        if (!item || !key) return fail_oom(ps);
        memcpy(item, ps->val + base, (size_t)n * sizeof *item);
        memcpy(key, ps->key + key_base, (size_t)n * sizeof *key);
        v->item = item, v->key = key;
    }
    ps->vals = base, ps->keys = key_base, ps->depth--;
    return true;
}

static bool read_value(parser *ps, gy_json *v);

static bool read_array(parser *ps, gy_json *v) {
    size_t base = ps->vals;
    if (++ps->depth > MAX_DEPTH) return fail_at(ps, ps->p, "nested deeper than 512 levels");
    ps->p++;
    skip_space(ps);
    if (ps->p < ps->end && *ps->p == ']') return ps->p++, close_array(ps, base, v);
    for (;;) {
        gy_json item = {0};
        if (!read_value(ps, &item) || !push_value(ps, &item)) return false;
        skip_space(ps);
        if (ps->p == ps->end) return fail_at(ps, ps->p, "array without an end");
        char c = *ps->p;
        if (c == ']') return ps->p++, close_array(ps, base, v);
        if (c != ',') return fail_at(ps, ps->p, "',' or ']' expected in an array");
        ps->p++;
    }
}

static bool read_object(parser *ps, gy_json *v) {
    size_t base = ps->vals, key_base = ps->keys;
    if (++ps->depth > MAX_DEPTH) return fail_at(ps, ps->p, "nested deeper than 512 levels");
    ps->p++;
    skip_space(ps);
    if (ps->p < ps->end && *ps->p == '}') return ps->p++, close_object(ps, base, key_base, v);
    for (;;) {
        gy_json_key key;
        gy_json item = {0};
        skip_space(ps);
        if (ps->p == ps->end) return fail_at(ps, ps->p, "object without an end");
        if (*ps->p != '"')
            return fail_at(ps, ps->p, "a key in double quotes expected in an object");
        ps->p++;
        if (!read_string(ps, &key.s, &key.n)) return false;
        skip_space(ps);
        if (ps->p == ps->end || *ps->p != ':')
            return fail_at(ps, ps->p, "':' expected after a key");
        ps->p++;
        if (!read_value(ps, &item) || !push_key(ps, key) || !push_value(ps, &item)) return false;
        skip_space(ps);
        if (ps->p == ps->end) return fail_at(ps, ps->p, "object without an end");
        char c = *ps->p;
        if (c == '}') return ps->p++, close_object(ps, base, key_base, v);
        if (c != ',') return fail_at(ps, ps->p, "',' or '}' expected in an object");
        ps->p++;
    }
}

static bool read_word(parser *ps, const char *word, gy_json *v, gy_json_kind kind, bool truth) {
    size_t n = strlen(word);
    if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, word, n))
        return fail_at(ps, ps->p, "a value expected");
    v->kind = (uint8_t)kind, v->truth = truth;
    ps->p += n;
    return true;
}

static bool read_value(parser *ps, gy_json *v) {
    skip_space(ps);
    if (ps->p == ps->end) return fail_at(ps, ps->p, "a value expected, the text ends");
    switch (*ps->p) {
    case '{': return read_object(ps, v);
    case '[': return read_array(ps, v);
    case '"': ps->p++, v->kind = GY_JSON_STR; return read_string(ps, &v->s, &v->n);
    case 't': return read_word(ps, "true", v, GY_JSON_BOOL, true);
    case 'f': return read_word(ps, "false", v, GY_JSON_BOOL, false);
    case 'n': return read_word(ps, "null", v, GY_JSON_NULL, false);
    default: return read_number(ps, v);
    }
}

static gy_rc parse(gy_json_doc *doc, const char *text, size_t n, bool unique, gy_err *err) {
    *doc = (gy_json_doc){0};
    if (n >= UINT32_MAX)
        return gy_fail(err, GY_ELIMIT, "JSON text of %zu bytes; at most 4 GiB are read", n);
    if (!n) text = "";
    gy_arena arena = {0};
    parser ps = {
        .begin = text, .p = text, .end = text + n, .arena = &arena, .unique = unique, .err = err};
    ps.out = gy_arena_raw(&arena, n + 1);
    gy_json *root = gy_arena_alloc(&arena, sizeof *root);
    if (!ps.out || !root) {
        fail_oom(&ps);
    } else if (read_value(&ps, root)) {
        skip_space(&ps);
        if (ps.p < ps.end) fail_at(&ps, ps.p, "text after the value");
    }
    gy_free(ps.val);
    gy_free(ps.key);
    if (ps.rc) return gy_arena_free(&arena), ps.rc;
    doc->arena = arena, doc->root = root;
    return GY_OK;
}

gy_rc gy_json_parse(gy_json_doc *doc, const char *text, size_t n, gy_err *err) {
    return parse(doc, text, n, false, err);
}

gy_rc gy_json_parse_unique(gy_json_doc *doc, const char *text, size_t n, gy_err *err) {
    return parse(doc, text, n, true, err);
}

void gy_json_free(gy_json_doc *doc) {
    gy_arena_free(&doc->arena);
    doc->root = NULL;
}

/* ---- reading ---- */

static const gy_json *member(const gy_json *obj, const char *key, size_t n) {
    if (!gy_json_is(obj, GY_JSON_OBJ)) return NULL;
    for (uint32_t i = 0; i < obj->n; i++) {
        if (obj->key[i].n == n && !memcmp(obj->key[i].s, key, n)) return &obj->item[i];
    }
    return NULL;
}

const gy_json *gy_json_get(const gy_json *obj, const char *key) {
    return member(obj, key, strlen(key));
}

const gy_json *gy_json_path(const gy_json *obj, const char *dotted) {
    while (obj) {
        size_t n = strcspn(dotted, ".");
        obj = member(obj, dotted, n);
        if (!dotted[n]) break;
        dotted += n + 1;
    }
    return obj;
}

bool gy_json_int(const gy_json *v, int64_t *out) {
    if (!gy_json_is(v, GY_JSON_NUM)) return false;
    bool minus = v->s[0] == '-';
    uint64_t x = 0;
    for (uint32_t i = minus; i < v->n; i++) {
        unsigned d = (unsigned char)v->s[i] - '0';
        if (d > 9 || x > (UINT64_MAX - d) / 10) return false;
        x = x * 10 + d;
    }
    if (x > (uint64_t)INT64_MAX + minus) return false;
    *out = minus ? (int64_t)(0 - x) : (int64_t)x;
    return true;
}

static bool special_number(const char *s, uint32_t n, double *out) {
    if (n == 8 && !memcmp(s, "Infinity", 8)) return *out = INFINITY, true;
    if (n == 9 && !memcmp(s, "-Infinity", 9)) return *out = -INFINITY, true;
    if (n == 3 && !memcmp(s, "NaN", 3)) return *out = NAN, true;
    return false;
}

bool gy_json_num(const gy_json *v, double *out) {
    if (gy_json_is(v, GY_JSON_OBJ) && v->n == 1) v = gy_json_get(v, "__float__");
    if (gy_json_is(v, GY_JSON_STR)) return special_number(v->s, v->n, out);
    if (!gy_json_is(v, GY_JSON_NUM)) return false;
    if (special_number(v->s, v->n, out)) return true;
    /* The program's locale may write the decimal point as a comma; "C" costs no allocation in glibc
     * and musl. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return false;
    *out = strtod_l(v->s, NULL, c);
    freelocale(c);
    return true;
}

const char *gy_json_s(const gy_json *obj, const char *key, const char *absent) {
    const gy_json *v = gy_json_get(obj, key);
    return gy_json_is(v, GY_JSON_STR) ? v->s : absent;
}

int64_t gy_json_i(const gy_json *obj, const char *key, int64_t absent) {
    const gy_json *v = gy_json_get(obj, key);
    int64_t i;
    double d;
    if (!gy_json_is(v, GY_JSON_NUM)) return absent;
    if (gy_json_int(v, &i)) return i;
    if (!gy_json_num(v, &d) || isnan(d)) return absent;
    return d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

double gy_json_f(const gy_json *obj, const char *key, double absent) {
    double d;
    return gy_json_num(gy_json_get(obj, key), &d) ? d : absent;
}

bool gy_json_b(const gy_json *obj, const char *key, bool absent) {
    const gy_json *v = gy_json_get(obj, key);
    return gy_json_is(v, GY_JSON_BOOL) ? v->truth : absent;
}

/* ---- writing ---- */

void gy_json_write(gy_buf *b, const gy_json *v) {
    bool object = gy_json_is(v, GY_JSON_OBJ);
    if (gy_json_null(v)) {
        gy_buf_puts(b, "null");
    } else if (v->kind == GY_JSON_BOOL) {
        gy_buf_puts(b, v->truth ? "true" : "false");
    } else if (v->kind == GY_JSON_NUM) {
        gy_buf_add(b, v->s, v->n);
    } else if (v->kind == GY_JSON_STR) {
        gy_buf_json(b, v->s, v->n);
    } else {
        gy_buf_c(b, object ? '{' : '[');
        for (uint32_t i = 0; i < v->n; i++) {
            if (i) gy_buf_c(b, ',');
            if (object) gy_buf_json(b, v->key[i].s, v->key[i].n), gy_buf_c(b, ':');
            gy_json_write(b, &v->item[i]);
        }
        gy_buf_c(b, object ? '}' : ']');
    }
}
