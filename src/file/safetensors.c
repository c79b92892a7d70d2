#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "file/table.h"

/* A file is  u64 n | JSON header of n bytes | data.  The header maps names to {dtype, shape,
 * data_offsets [begin, end)} relative to data. The tensors must cover data without hole or overlap.
 */

/* The limit of the reference implementation. */
enum { MAX_HEADER = 100000000 };

static const struct {
    const char *name;
    gy_ttype type;
    int bits; /* of one value */
} dtypes[] = {
    {"F32", GY_T_F32, 32},
    {"F16", GY_T_F16, 16},
    {"BF16", GY_T_BF16, 16},
    {"U32", GY_T_U32, 32},
    {"U8", GY_T_U8, 8},
    {"I8", GY_T_I8, 8},
    {"I16", GY_T_I16, 16},
    {"U16", GY_T_U16, 16},
    {"I32", GY_T_I32, 32},
    {"I64", GY_T_I64, 64},
    {"U64", GY_T_U64, 64},
    {"F64", GY_T_F64, 64},
    {"BOOL", GY_T_BOOL, 8},
    {"F8_E4M3", GY_T_F8_E4M3, 8},
    {"F8_E5M2", GY_T_F8_E5M2, 8},
    {"F8_E8M0", GY_T_OTHER, 8},
    {"F8_E4M3FNUZ", GY_T_OTHER, 8},
    {"F8_E5M2FNUZ", GY_T_OTHER, 8},
    {"C64", GY_T_OTHER, 64},
    {"F4", GY_T_OTHER, 4},
    {"F6_E2M3", GY_T_OTHER, 6},
    {"F6_E3M2", GY_T_OTHER, 6},
};

/* The entry being read, for messages. */
typedef struct {
    const char *path;
    char name[64]; /* quoted */
    gy_err *err;
} where;

#define BAD(w, ...) bad(w, GY_EFORMAT, __VA_ARGS__)
static gy_rc __attribute__((format(printf, 3, 4)))
bad(const where *w, gy_rc rc, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return gy_fail(w->err, rc, "%s: tensor \"%s\": %s", w->path, w->name, text);
}

/* ---- one entry of the header ---- */

static gy_rc read_dtype(const where *w, const gy_json *entry, gy_ttype *type, int *bits) {
    const gy_json *v = gy_json_get(entry, "dtype");
    char name[64];
    if (!gy_json_is(v, GY_JSON_STR)) return BAD(w, "header without a dtype string");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strlen(dtypes[i].name) != v->n || memcmp(dtypes[i].name, v->s, v->n)) continue;
        *type = dtypes[i].type, *bits = dtypes[i].bits;
        return GY_OK;
    }
    return bad(w, GY_EUNSUPPORTED, "unknown dtype \"%s\"", gy_err_quote(name, v->s, v->n));
}

/* Fills shape and the bytes it stands for. */
static gy_rc read_shape(const where *w, const gy_json *entry, int bits, gy_tensor *t,
                        uint64_t *bytes) {
    const gy_json *v = gy_json_get(entry, "shape");
    int64_t values = 1, total;
    if (!gy_json_is(v, GY_JSON_ARR)) return BAD(w, "header without a shape array");
    if (v->n > 8)
        return bad(w, GY_EUNSUPPORTED, "shape of %" PRIu32 " dimensions, at most 8 expected", v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        if (!gy_json_int(&v->item[i], &t->shape[i]) || t->shape[i] < 0)
            return BAD(w, "shape: dimension %" PRIu32 " is not an integer from 0 to 2^63-1", i);
        values = gy_table_mul(values, t->shape[i]);
        if (values < 0) return BAD(w, "overflow: the product of its shape does not fit 64 bits");
    }
    total = gy_table_mul(values, bits);
    if (total < 0) return BAD(w, "overflow: the bytes of its shape do not fit 64 bits");
    if (total % 8) return BAD(w, "shape: %" PRId64 " bits are not whole bytes", total);
    t->dims = (int)v->n, *bytes = (uint64_t)total / 8;
    return GY_OK;
}

static gy_rc read_offsets(const where *w, const gy_json *entry, uint64_t bytes, uint64_t data_bytes,
                          gy_extent *e) {
    const gy_json *v = gy_json_get(entry, "data_offsets");
    int64_t begin, end;
    if (!gy_json_is(v, GY_JSON_ARR)) return BAD(w, "header without a data_offsets array");
    if (v->n != 2) return BAD(w, "%" PRIu32 " data_offsets, 2 expected", v->n);
    if (!gy_json_int(&v->item[0], &begin) || !gy_json_int(&v->item[1], &end) || begin < 0 ||
        end < 0)
        return BAD(w, "data_offsets are not integers from 0 to 2^63-1");
    if (begin > end)
        return BAD(w, "data_offsets [%" PRId64 ", %" PRId64 "] run backwards", begin, end);
    e->begin = (uint64_t)begin, e->end = (uint64_t)end;
    if (e->end - e->begin != bytes)
        return BAD(
            w, "size mismatch: dtype and shape take %" PRIu64 " bytes, data_offsets give %" PRIu64,
            bytes, e->end - e->begin);
    if (e->end > data_bytes)
        return BAD(w, "truncated file: %" PRIu64 " bytes missing", e->end - data_bytes);
    return GY_OK;
}

static gy_rc read_entry(gy_table *table, where *w, gy_json_key key, const gy_json *entry,
                        const uint8_t *data, uint64_t data_bytes, gy_extent *e) {
    gy_tensor t = {.file = table->t.files - 1};
    uint64_t bytes = 0;
    int bits = 0;
    gy_err_quote(w->name, key.s, key.n);
    if (memchr(key.s, 0, key.n)) return BAD(w, "header: its name holds a NUL");
    if (!gy_json_is(entry, GY_JSON_OBJ)) return BAD(w, "header entry is not an object");
    gy_rc rc = read_dtype(w, entry, &t.type, &bits);
    if (!rc) rc = read_shape(w, entry, bits, &t, &bytes);
    if (!rc) rc = read_offsets(w, entry, bytes, data_bytes, e);
    if (rc) return rc;
    t.name = gy_arena_strndup(&table->t.arena, key.s, key.n);
    t.data = data + e->begin, t.bytes = (size_t)bytes;
    e->name = t.name;
    gy_tensor *slot = t.name ? gy_table_add(table) : NULL;
    if (!slot) return bad(w, GY_ENOMEM, "out of memory for the tensor table");
    *slot = t;
    return GY_OK;
}

/* ---- the file ---- */

static gy_rc check_metadata(const char *path, const gy_json *meta, gy_err *err) {
    if (gy_json_null(meta)) return GY_OK;
    if (!gy_json_is(meta, GY_JSON_OBJ))
        return gy_fail(err, GY_EFORMAT, "%s: header: __metadata__ is not an object", path);
    for (uint32_t i = 0; i < meta->n; i++) {
        char key[64];
        if (gy_json_is(&meta->item[i], GY_JSON_STR)) continue;
        return gy_fail(err, GY_EFORMAT, "%s: header: __metadata__ value \"%s\" is not a string",
                       path, gy_err_quote(key, meta->key[i].s, meta->key[i].n));
    }
    return GY_OK;
}

/* Extents are sorted here. Zero-length tensors may lie anywhere between others. */
static gy_rc check_cover(const char *path, gy_extent *e, int n, uint64_t data_bytes, gy_err *err) {
    char name[64], other[64];
    int at = gy_extent_overlap(e, n);
    if (at > 0) {
        return gy_fail(err, GY_EFORMAT, "%s: tensor \"%s\" overlaps tensor \"%s\"", path,
                       gy_err_quote(name, e[at].name, strlen(e[at].name)),
                       gy_err_quote(other, e[at - 1].name, strlen(e[at - 1].name)));
    }
    uint64_t end = 0;
    for (int i = 0; i < n; i++) {
        if (e[i].begin != end) {
            return gy_fail(err, GY_EFORMAT,
                           "%s: hole: bytes %" PRIu64 " to %" PRIu64
                           " before tensor \"%s\" belong to no tensor",
                           path, end, e[i].begin, gy_err_quote(name, e[i].name, strlen(e[i].name)));
        }
        end = e[i].end;
    }
    if (end == data_bytes) return GY_OK;
    return gy_fail(err, GY_EFORMAT,
                   "%s: not covered: %" PRIu64 " bytes after the last tensor belong to no tensor",
                   path, data_bytes - end);
}

static gy_rc read_header(gy_table *table, const char *path, const gy_json *root,
                         const uint8_t *data, uint64_t data_bytes, gy_err *err) {
    where w = {.path = path, .err = err};
    if (!gy_json_is(root, GY_JSON_OBJ))
        return gy_fail(err, GY_EFORMAT, "%s: header is not a JSON object", path);
    if (root->n >= INT_MAX)
        return gy_fail(err, GY_ELIMIT, "%s: header with too many tensors", path);
    gy_extent *e = gy_alloc_n(root->n, sizeof *e);
    if (!e)
        return gy_fail(err, GY_ENOMEM, "%s: out of memory for %" PRIu32 " tensors", path, root->n);
    gy_rc rc = GY_OK;
    int n = 0;
    for (uint32_t i = 0; i < root->n && !rc; i++) {
        gy_json_key key = root->key[i];
        if (key.n == 12 && !memcmp(key.s, "__metadata__", 12))
            rc = check_metadata(path, &root->item[i], err);
        else
            rc = read_entry(table, &w, key, &root->item[i], data, data_bytes, &e[n++]);
    }
    if (!rc) rc = check_cover(path, e, n, data_bytes, err);
    gy_free(e);
    return rc;
}

/* Files that often stand in for weights, told apart by their first bytes. Asked only when these
 * bytes make no header length: a header of 640 bytes begins like a pickle. */
static const char *stand_in(const uint8_t *data, size_t bytes) {
    static const struct {
        const char *start, *what;
    } known[] = {
        {"version https://git-lfs", "a Git LFS pointer; fetch the weights with git lfs pull"},
        {"<", "an HTML or XML page"},
        {"PK\3\4", "a zip archive, as torch.save writes"},
        {"\x80\2", "a Python pickle"},
        {"GGUF", "a GGUF file"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].start);
        if (bytes >= n && !memcmp(data, known[i].start, n)) return known[i].what;
    }
    return NULL;
}

gy_rc gy_table_read_safetensors(gy_table *table, const char *path, gy_err *err) {
    gy_rc rc = gy_table_map(table, path, err);
    if (rc) return rc;
    gy_fmap map = table->t.file[table->t.files - 1].map;
    uint64_t header = 0, left = map.bytes >= 8 ? map.bytes - 8 : 0;
    if (map.bytes < 8)
        return gy_fail(err, GY_EFORMAT, "%s: truncated: %zu bytes, the header length alone takes 8",
                       path, map.bytes);
    for (int i = 7; i >= 0; i--) header = header << 8 | map.data[i];
    const char *what = header > MAX_HEADER || header > left ? stand_in(map.data, map.bytes) : NULL;
    if (what) return gy_fail(err, GY_EFORMAT, "%s: not a safetensors file but %s", path, what);
    if (header > MAX_HEADER)
        return gy_fail(err, GY_EFORMAT,
                       "%s: header too large: %" PRIu64 " bytes, at most 100000000 expected", path,
                       header);
    if (header > left)
        return gy_fail(err, GY_EFORMAT,
                       "%s: truncated: header of %" PRIu64 " bytes, %" PRIu64 " follow", path,
                       header, left);
    if (!header || map.data[8] != '{')
        return gy_fail(err, GY_EFORMAT, "%s: header does not begin with '{'", path);
    gy_json_doc doc;
    rc = gy_json_parse_unique(&doc, (const char *)map.data + 8, (size_t)header, err);
    if (rc) return gy_fail_in(err, "%s: header", path), rc;
    rc = read_header(table, path, doc.root, map.data + 8 + header, left - header, err);
    gy_json_free(&doc);
    return rc;
}

gy_rc gy_tensors_open_file(gy_tensors *t, const char *path, gy_err *err) {
    gy_table table = {0};
    gy_rc rc = gy_table_read_safetensors(&table, path, err);
    if (!rc) rc = gy_table_finish(&table, err);
    if (rc) gy_tensors_close(&table.t);
    *t = table.t;
    return rc;
}
