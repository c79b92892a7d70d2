#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "file/table.h"

/* A file is
 *
 *     "GGUF" | u32 version | u64 tensors | u64 pairs | pair[pairs] | info[tensors] | padding | data
 *     pair: string key, u32 type, value      info: string name, u32 dims, u64 dim[dims] innermost
 * first, u32 type, string: u64 bytes, bytes                     u64 offset in data
 *
 * Everything is little-endian and unaligned up to data, which is aligned to general.alignment.
 * Counts come from outside: each is held against the bytes that are left before anything is
 * allocated or multiplied. */

enum { MAX_PARTS = 10000, MIN_PAIR = 8 + 4 + 1, MIN_INFO = 8 + 4 + 4 + 8, MAX_ALIGNMENT = 1 << 20 };

/* Keeps the first error; every take after it gives zeros, so that code reads straight through. */
typedef struct {
    const uint8_t *data;
    size_t at, bytes;
    const char *path;
    gy_arena *arena;
    gy_err *err;
    gy_rc rc;
} cursor;

#define BAD(c, ...) ((c)->rc ? (c)->rc : ((c)->rc = gy_fail((c)->err, GY_EFORMAT, __VA_ARGS__)))

static gy_rc oom(cursor *c) {
    return c->rc
               ? c->rc
               : (c->rc = gy_fail(c->err, GY_ENOMEM, "%s: out of memory for the header", c->path));
}

static const uint8_t *take(cursor *c, uint64_t n, const char *what) {
    static const uint8_t zeros[16];
    if (!c->rc && n > c->bytes - c->at)
        BAD(c, "%s: truncated: %s at byte %zu takes %" PRIu64 " bytes, %zu are left", c->path, what,
            c->at, n, c->bytes - c->at);
    if (c->rc) return zeros;
    const uint8_t *p = c->data + c->at;
    c->at += (size_t)n;
    return p;
}

static uint64_t load_le(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static uint32_t take_u32(cursor *c, const char *what) {
    return (uint32_t)load_le(take(c, 4, what), 4);
}
static uint64_t take_u64(cursor *c, const char *what) {
    return load_le(take(c, 8, what), 8);
}

static gy_gguf_str take_string(cursor *c, const char *what) {
    uint64_t n = take_u64(c, what);
    if (!c->rc && n > c->bytes - c->at)
        BAD(c,
            "%s: %s at byte %zu: string of %" PRIu64 " bytes, %zu are left: truncated or damaged",
            c->path, what, c->at - 8, n, c->bytes - c->at);
    const uint8_t *p = take(c, c->rc ? 0 : n, what);
    return (gy_gguf_str){(const char *)p, c->rc ? 0 : n};
}

/* A key or tensor name, copied to be NUL-terminated. Never NULL. */
static const char *take_name(cursor *c, const char *what) {
    gy_gguf_str s = take_string(c, what);
    char quoted[64];
    if (c->rc) return "";
    if (memchr(s.s, 0, s.n))
        return BAD(c, "%s: %s \"%s\" holds a NUL", c->path, what, gy_err_quote(quoted, s.s, s.n)),
               "";
    const char *copy = gy_arena_strndup(c->arena, s.s, s.n);
    return copy ? copy : (oom(c), "");
}

/* ---- pairs ---- */

/* Bytes of a scalar; 0 for strings, arrays and unknown types. */
static int scalar_bytes(uint32_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

static void take_strings(cursor *c, gy_gguf_kv *kv, uint64_t n) {
    gy_gguf_str *str =
        n < SIZE_MAX / sizeof *str ? gy_arena_raw(c->arena, (size_t)n * sizeof *str) : NULL;
    if (!str) {
        oom(c);
        return;
    }
    kv->str = str;
    for (uint64_t i = 0; i < n && !c->rc; i++) str[i] = take_string(c, kv->key);
}

static void take_array(cursor *c, gy_gguf_kv *kv, const char *quoted) {
    uint32_t item = take_u32(c, kv->key);
    uint64_t n = take_u64(c, kv->key), left = c->bytes - c->at;
    int size = scalar_bytes(item);
    if (c->rc) return;
    kv->item = (uint8_t)item, kv->n = n;
    if (item == GY_GGUF_ARR) {
        BAD(c, "%s: key \"%s\": array of arrays", c->path, quoted);
    } else if (item > GY_GGUF_F64) {
        BAD(c, "%s: key \"%s\": unknown element type %" PRIu32 " of an array", c->path, quoted,
            item);
    } else if (n > left / (size ? (size_t)size : 8)) {
        BAD(c,
            "%s: key \"%s\": array of %" PRIu64 " elements, %" PRIu64
            " bytes are left: truncated or damaged",
            c->path, quoted, n, left);
    } else {
        kv->data = c->data + c->at;
        if (size)
            take(c, n * (uint64_t)size, kv->key);
        else
            take_strings(c, kv, n);
    }
}

static void take_pair(cursor *c, gy_gguf_kv *kv) {
    char quoted[64];
    kv->key = take_name(c, "key");
    gy_err_quote(quoted, kv->key, strlen(kv->key));
    uint32_t type = take_u32(c, quoted);
    if (c->rc) return;
    kv->type = (uint8_t)type, kv->data = c->data + c->at;
    if (type == GY_GGUF_ARR)
        take_array(c, kv, quoted);
    else if (type == GY_GGUF_STR)
        take_strings(c, kv, 1);
    else if (type > GY_GGUF_F64)
        BAD(c, "%s: key \"%s\": unknown type %" PRIu32, c->path, quoted, type);
    else
        take(c, (uint64_t)scalar_bytes(type), quoted);
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(const gy_gguf_kv *const *)a)->key, (*(const gy_gguf_kv *const *)b)->key);
}

static void check_duplicate_keys(cursor *c, const gy_gguf_kv *kv, int n) {
    const gy_gguf_kv **sorted = c->rc ? NULL : gy_alloc_n((size_t)n, sizeof *sorted);
    char quoted[64];
    if (!sorted) {
        if (!c->rc) oom(c);
        return;
    }
    for (int i = 0; i < n; i++) sorted[i] = &kv[i];
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_key);
    for (int i = 1; i < n && !c->rc; i++) {
        if (strcmp(sorted[i - 1]->key, sorted[i]->key)) continue;
        BAD(c, "%s: duplicate key \"%s\"", c->path,
            gy_err_quote(quoted, sorted[i]->key, strlen(sorted[i]->key)));
    }
    gy_free(sorted);
}

/* ---- tensor infos ---- */

/* Types by the number in the file. A name alone is a type that gyre does not read; neither is one
 * never given or withdrawn. */
static const struct {
    const char *name;
    gy_ttype type;
} ggml_types[] = {
    [0] = {"F32", GY_T_F32},        [1] = {"F16", GY_T_F16},        [2] = {"Q4_0", GY_T_Q4_0},
    [3] = {"Q4_1", GY_T_Q4_1},      [6] = {"Q5_0", GY_T_Q5_0},      [7] = {"Q5_1", GY_T_Q5_1},
    [8] = {"Q8_0", GY_T_Q8_0},      [9] = {"Q8_1", GY_T_COUNT},     [10] = {"Q2_K", GY_T_Q2_K},
    [11] = {"Q3_K", GY_T_Q3_K},     [12] = {"Q4_K", GY_T_Q4_K},     [13] = {"Q5_K", GY_T_Q5_K},
    [14] = {"Q6_K", GY_T_Q6_K},     [15] = {"Q8_K", GY_T_COUNT},    [16] = {"IQ2_XXS", GY_T_COUNT},
    [17] = {"IQ2_XS", GY_T_COUNT},  [18] = {"IQ3_XXS", GY_T_COUNT}, [19] = {"IQ1_S", GY_T_COUNT},
    [20] = {"IQ4_NL", GY_T_IQ4_NL}, [21] = {"IQ3_S", GY_T_COUNT},   [22] = {"IQ2_S", GY_T_COUNT},
    [23] = {"IQ4_XS", GY_T_IQ4_XS}, [24] = {"I8", GY_T_I8},         [25] = {"I16", GY_T_I16},
    [26] = {"I32", GY_T_I32},       [27] = {"I64", GY_T_I64},       [28] = {"F64", GY_T_F64},
    [29] = {"IQ1_M", GY_T_COUNT},   [30] = {"BF16", GY_T_BF16},     [34] = {"TQ1_0", GY_T_COUNT},
    [35] = {"TQ2_0", GY_T_COUNT},   [39] = {"MXFP4", GY_T_MXFP4},   [40] = {"NVFP4", GY_T_NVFP4},
};

static void take_shape(cursor *c, gy_tensor *t, const char *quoted) {
    uint32_t dims = take_u32(c, quoted);
    int64_t values = 1;
    if (!c->rc && dims > 4)
        BAD(c, "%s: tensor \"%s\": shape of %" PRIu32 " dimensions, at most 4 expected", c->path,
            quoted, dims);
    for (uint32_t i = 0; i < dims && !c->rc; i++) {
        uint64_t d = take_u64(c, quoted);
        if (c->rc) return;
        if (d > INT64_MAX)
            BAD(c, "%s: tensor \"%s\": shape: dimension %" PRIu32 " is negative", c->path, quoted,
                i);
        values = gy_table_mul(values, (int64_t)d);
        if (values < 0)
            BAD(c, "%s: tensor \"%s\": overflow: its values do not fit 63 bits", c->path, quoted);
        if (!c->rc) t->shape[dims - 1 - i] = (int64_t)d;
    }
    t->dims = c->rc ? 0 : (int)dims;
}

static void take_type(cursor *c, gy_tensor *t, const char *quoted) {
    uint32_t type = take_u32(c, quoted);
    if (c->rc) return;
    if (type >= sizeof ggml_types / sizeof *ggml_types || !ggml_types[type].name) {
        BAD(c, "%s: tensor \"%s\": unknown or withdrawn type %" PRIu32, c->path, quoted, type);
    } else if (ggml_types[type].type == GY_T_COUNT) {
        c->rc = gy_fail(c->err, GY_EUNSUPPORTED, "%s: tensor \"%s\": type %s is not supported",
                        c->path, quoted, ggml_types[type].name);
    } else {
        t->type = ggml_types[type].type;
    }
}

/* Whole blocks along the innermost dimension, and bytes that fit 63 bits. */
static void count_bytes(cursor *c, gy_tensor *t, const char *quoted) {
    int block_bytes, block = gy_ttype_block(t->type, &block_bytes);
    int64_t row = t->dims ? t->shape[t->dims - 1] : 1, bytes;
    if (c->rc) return;
    if (row % block) {
        BAD(c,
            "%s: tensor \"%s\": shape: rows of %" PRId64
            " values, a multiple of %d expected for %s",
            c->path, quoted, row, block, gy_ttype_name(t->type));
        return;
    }
    bytes = gy_table_mul(row / block, block_bytes);
    for (int i = 0; i + 1 < t->dims; i++) bytes = gy_table_mul(bytes, t->shape[i]);
    if (bytes < 0)
        BAD(c, "%s: tensor \"%s\": overflow: its bytes do not fit 63 bits", c->path, quoted);
    else
        t->bytes = (size_t)bytes;
}

/* Offsets stay in e until the data section's begin is known. */
static void take_info(cursor *c, gy_tensor *t, gy_extent *e) {
    char quoted[64];
    t->name = take_name(c, "tensor name");
    gy_err_quote(quoted, t->name, strlen(t->name));
    take_shape(c, t, quoted);
    take_type(c, t, quoted);
    count_bytes(c, t, quoted);
    e->begin = take_u64(c, quoted), e->name = t->name;
}

/* ---- one file ---- */

typedef struct {
    gy_gguf_kv *kv;
    int n, version;
    uint64_t tensors;
} header;

static void take_head(cursor *c, header *h, uint64_t *pairs) {
    char quoted[64];
    if (c->bytes < 4 || memcmp(c->data, "GGUF", 4)) {
        if (c->bytes < 4) BAD(c, "%s: truncated: %zu bytes, no GGUF file", c->path, c->bytes);
        BAD(c, "%s: magic \"%s\", \"GGUF\" expected", c->path,
            gy_err_quote(quoted, (const char *)c->data, 4));
    }
    take(c, 4, "magic");
    uint32_t version = take_u32(c, "version");
    uint32_t swapped = __builtin_bswap32(version);
    if (!c->rc && version != 2 && version != 3) {
        if (swapped >= 1 && swapped <= 3)
            BAD(c,
                "%s: version %" PRIu32
                " in big-endian byte order; only little-endian files are read",
                c->path, swapped);
        else
            BAD(c, "%s: version %" PRIu32 ", 2 or 3 expected", c->path, version);
    }
    h->version = (int)version;
    h->tensors = take_u64(c, "tensor count");
    *pairs = take_u64(c, "pair count");
    if (c->rc) return;
    size_t left = c->bytes - c->at;
    if (*pairs > left / MIN_PAIR || *pairs >= INT_MAX)
        BAD(c, "%s: count of %" PRIu64 " key-value pairs in %zu bytes", c->path, *pairs, left);
    if (h->tensors > left / MIN_INFO || h->tensors >= INT_MAX)
        BAD(c, "%s: count of %" PRIu64 " tensors in %zu bytes", c->path, h->tensors, left);
}

static const gy_gguf_kv *find_kv(const gy_gguf_kv *kv, int n, const char *key) {
    for (int i = 0; i < n; i++) {
        if (!strcmp(kv[i].key, key)) return &kv[i];
    }
    return NULL;
}

static uint64_t alignment(cursor *c, const header *h) {
    const gy_gguf_kv *kv = find_kv(h->kv, h->n, "general.alignment");
    if (!kv || c->rc) return 32;
    if (kv->type != GY_GGUF_U32)
        return BAD(c, "%s: general.alignment: type is not u32", c->path), 32;
    uint32_t a = (uint32_t)load_le(kv->data, 4);
    if (!a || (a & (a - 1)) || a > MAX_ALIGNMENT)
        return BAD(c,
                   "%s: general.alignment: alignment %" PRIu32 ", a power of two up to %d expected",
                   c->path, a, MAX_ALIGNMENT),
               32;
    return a;
}

/* Sets data of the file's tensors t[n]. */
static void place(cursor *c, gy_tensor *t, gy_extent *e, int n, uint64_t align) {
    uint64_t start = (c->at + align - 1) / align * align;
    uint64_t data_bytes = start < c->bytes ? c->bytes - start : 0;
    char quoted[64], other[64];
    for (int i = 0; i < n && !c->rc; i++) {
        uint64_t offset = e[i].begin;
        gy_err_quote(quoted, t[i].name, strlen(t[i].name));
        if (offset % align) {
            BAD(c,
                "%s: tensor \"%s\": offset %" PRIu64 " is not a multiple of the alignment %" PRIu64,
                c->path, quoted, offset, align);
        } else if (offset > data_bytes && offset) {
            BAD(c,
                "%s: tensor \"%s\": offset %" PRIu64 " is past the %" PRIu64
                " bytes of data: truncated or damaged",
                c->path, quoted, offset, data_bytes);
        } else if (t[i].bytes > data_bytes - offset) {
            BAD(c,
                "%s: tensor \"%s\": %" PRIu64 " bytes at offset %" PRIu64 " overflow the %" PRIu64
                " bytes of data: truncated or damaged",
                c->path, quoted, (uint64_t)t[i].bytes, offset, data_bytes);
        } else {
            t[i].data = t[i].bytes ? c->data + start + offset : c->data;
            e[i].end = offset + t[i].bytes;
        }
    }
    int at = c->rc ? -1 : gy_extent_overlap(e, n);
    if (at > 0)
        BAD(c, "%s: tensor \"%s\" overlaps tensor \"%s\"", c->path,
            gy_err_quote(quoted, e[at].name, strlen(e[at].name)),
            gy_err_quote(other, e[at - 1].name, strlen(e[at - 1].name)));
}

static gy_rc read_infos(cursor *c, gy_table *table, const header *h) {
    uint64_t align = alignment(c, h);
    int first = table->t.n, n = (int)h->tensors;
    gy_extent *e = c->rc ? NULL : gy_alloc_n((size_t)n, sizeof *e);
    if (!e) return oom(c);
    for (int i = 0; i < n && !c->rc; i++) {
        gy_tensor *t = gy_table_add(table);
        if (!t)
            oom(c);
        else
            t->file = table->t.files - 1, take_info(c, t, &e[i]);
    }
    if (!c->rc && n) place(c, table->t.at + first, e, n, align);
    gy_free(e);
    return c->rc;
}

/* Maps a file and adds its tensors; h gets its pairs, which live in the table's arena. */
static gy_rc read_part(gy_table *table, const char *path, header *h, gy_err *err) {
    uint64_t pairs = 0;
    gy_rc rc = gy_table_map(table, path, err);
    if (rc) return rc;
    gy_fmap map = table->t.file[table->t.files - 1].map;
    cursor c = {
        .data = map.data, .bytes = map.bytes, .path = path, .arena = &table->t.arena, .err = err};
    take_head(&c, h, &pairs);
    if (c.rc) return c.rc;
    h->kv = gy_arena_alloc(c.arena, (size_t)pairs * sizeof *h->kv);
    if (!h->kv) return oom(&c);
    for (; h->n < (int)pairs && !c.rc; h->n++) take_pair(&c, &h->kv[h->n]);
    check_duplicate_keys(&c, h->kv, h->n);
    return c.rc ? c.rc : read_infos(&c, table, h);
}

/* ---- split files ---- */

/* The numbers of NAME-00001-of-00003.gguf; stem gets the bytes before the hyphen. */
static bool split_name(const char *path, int *no, int *of, size_t *stem) {
    size_t n = strlen(path), tail = strlen("-00001-of-00003.gguf");
    int end = 0;
    if (n <= tail) return false;
    *stem = n - tail;
    return sscanf(path + *stem, "-%5d-of-%5d.gguf%n", no, of, &end) == 2 && (size_t)end == tail;
}

static bool small(const header *h, const char *key, int64_t *out) {
    gy_gguf g = {.kv = h->kv, .n = h->n};
    return gy_gguf_int(&g, key, out);
}

static gy_rc read_others(gy_table *table, const char *path, const header *first, gy_err *err) {
    int no = 1, of = 1;
    size_t stem = 0;
    bool named = split_name(path, &no, &of, &stem);
    int64_t count = named ? of : 1, this_no = no - 1, total = -1;
    small(first, "split.count", &count), small(first, "split.no", &this_no),
        small(first, "split.tensors.count", &total);
    if (count <= 1) return GY_OK;
    if (count > MAX_PARTS)
        return gy_fail(err, GY_ELIMIT, "%s: split.count %" PRId64 ", at most %d expected", path,
                       count, MAX_PARTS);
    if (this_no)
        return gy_fail(err, GY_EARG, "%s: part %" PRId64 " of a split model; open its first part",
                       path, this_no + 1);
    if (!named || no != 1 || of != count)
        return gy_fail(err, GY_EFORMAT,
                       "%s: first of %" PRId64 " parts; the name NAME-00001-of-%05d.gguf expected",
                       path, count, (int)count);
    for (int i = 1; i < count; i++) {
        header h = {0};
        int64_t part = i, parts = count;
        char *next =
            gy_arena_printf(&table->t.arena, "%.*s-%05d-of-%05d.gguf", (int)stem, path, i + 1, of);
        if (!next) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
        gy_rc rc = read_part(table, next, &h, err);
        if (rc) return rc;
        small(&h, "split.no", &part), small(&h, "split.count", &parts);
        if (part != i || parts != count)
            return gy_fail(err, GY_EFORMAT,
                           "%s: split.no %" PRId64 " of %" PRId64 ", %d of %" PRId64 " expected",
                           next, part, parts, i, count);
    }
    if (total >= 0 && total != table->t.n)
        return gy_fail(err, GY_EFORMAT, "%s: split.tensors.count %" PRId64 ", the parts hold %d",
                       path, total, table->t.n);
    return GY_OK;
}

gy_rc gy_gguf_open(gy_gguf *g, const char *path, gy_err *err) {
    gy_table table = {0};
    header h = {0};
    *g = (gy_gguf){0};
    gy_rc rc = read_part(&table, path, &h, err);
    if (!rc) rc = read_others(&table, path, &h, err);
    if (!rc) rc = gy_table_finish(&table, err);
    if (rc) return gy_tensors_close(&table.t), rc;
    *g = (gy_gguf){.kv = h.kv, .n = h.n, .version = h.version, .tensors = table.t};
    return GY_OK;
}

void gy_gguf_close(gy_gguf *g) {
    gy_tensors_close(&g->tensors);
    *g = (gy_gguf){0};
}

/* ---- values ---- */

const gy_gguf_kv *gy_gguf_get(const gy_gguf *g, const char *key) {
    return find_kv(g->kv, g->n, key);
}

static bool scalar_int(uint8_t type, const uint8_t *p, int64_t *out) {
    uint64_t v = load_le(p, scalar_bytes(type));
    switch (type) {
    case GY_GGUF_U8:
    case GY_GGUF_U16:
    case GY_GGUF_U32: return *out = (int64_t)v, true;
    case GY_GGUF_BOOL: return *out = v != 0, true;
    case GY_GGUF_I8: return *out = (int8_t)v, true;
    case GY_GGUF_I16: return *out = (int16_t)v, true;
    case GY_GGUF_I32: return *out = (int32_t)v, true;
    case GY_GGUF_I64: return *out = (int64_t)v, true;
    case GY_GGUF_U64: return *out = (int64_t)v, v <= INT64_MAX;
    default: return false;
    }
}

static bool scalar_num(uint8_t type, const uint8_t *p, double *out) {
    int64_t i;
    uint64_t v = load_le(p, scalar_bytes(type));
    if (type == GY_GGUF_F32) return *out = gy_bits_f32((uint32_t)v), true;
    if (type == GY_GGUF_F64) return memcpy(out, &v, 8), true;
    if (type == GY_GGUF_U64) return *out = (double)v, true;
    return scalar_int(type, p, &i) ? (*out = (double)i, true) : false;
}

bool gy_gguf_int(const gy_gguf *g, const char *key, int64_t *out) {
    const gy_gguf_kv *kv = gy_gguf_get(g, key);
    int64_t v;
    return kv && scalar_int(kv->type, kv->data, &v) ? (*out = v, true) : false;
}

bool gy_gguf_num(const gy_gguf *g, const char *key, double *out) {
    const gy_gguf_kv *kv = gy_gguf_get(g, key);
    return kv && scalar_num(kv->type, kv->data, out);
}

bool gy_gguf_string(const gy_gguf *g, const char *key, gy_gguf_str *out) {
    const gy_gguf_kv *kv = gy_gguf_get(g, key);
    return kv && kv->type == GY_GGUF_STR ? (*out = kv->str[0], true) : false;
}

bool gy_gguf_item_num(const gy_gguf_kv *kv, uint64_t i, double *out) {
    if (!kv || kv->type != GY_GGUF_ARR || i >= kv->n || !scalar_bytes(kv->item)) return false;
    return scalar_num(kv->item, kv->data + i * (uint64_t)scalar_bytes(kv->item), out);
}
