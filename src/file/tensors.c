#include "file/tensors.h"

#include <limits.h>
#include <stdlib.h>

#include "file/table.h"

static const struct {
    const char *name;
    int values, bytes; /* of a block */
} types[GY_T_COUNT] = {
    [GY_T_F32] = {"F32", 1, 4},         [GY_T_F16] = {"F16", 1, 2},
    [GY_T_BF16] = {"BF16", 1, 2},       [GY_T_F64] = {"F64", 1, 8},
    [GY_T_I8] = {"I8", 1, 1},           [GY_T_U8] = {"U8", 1, 1},
    [GY_T_I16] = {"I16", 1, 2},         [GY_T_U16] = {"U16", 1, 2},
    [GY_T_I32] = {"I32", 1, 4},         [GY_T_U32] = {"U32", 1, 4},
    [GY_T_I64] = {"I64", 1, 8},         [GY_T_U64] = {"U64", 1, 8},
    [GY_T_BOOL] = {"BOOL", 1, 1},       [GY_T_F8_E4M3] = {"F8_E4M3", 1, 1},
    [GY_T_F8_E5M2] = {"F8_E5M2", 1, 1}, [GY_T_OTHER] = {"OTHER", 1, 0},
    [GY_T_Q4_0] = {"Q4_0", 32, 18},     [GY_T_Q4_1] = {"Q4_1", 32, 20},
    [GY_T_Q5_0] = {"Q5_0", 32, 22},     [GY_T_Q5_1] = {"Q5_1", 32, 24},
    [GY_T_Q8_0] = {"Q8_0", 32, 34},     [GY_T_Q2_K] = {"Q2_K", 256, 84},
    [GY_T_Q3_K] = {"Q3_K", 256, 110},   [GY_T_Q4_K] = {"Q4_K", 256, 144},
    [GY_T_Q5_K] = {"Q5_K", 256, 176},   [GY_T_Q6_K] = {"Q6_K", 256, 210},
    [GY_T_IQ4_NL] = {"IQ4_NL", 32, 18}, [GY_T_IQ4_XS] = {"IQ4_XS", 256, 136},
    [GY_T_MXFP4] = {"MXFP4", 32, 17},   [GY_T_NVFP4] = {"NVFP4", 64, 36},
};

const char *gy_ttype_name(gy_ttype t) {
    return (unsigned)t < GY_T_COUNT ? types[t].name : "unknown";
}

int gy_ttype_block(gy_ttype t, int *bytes) {
    if ((unsigned)t >= GY_T_COUNT) t = GY_T_OTHER;
    if (bytes) *bytes = types[t].bytes;
    return types[t].values;
}

/* ---- the table ---- */

gy_rc gy_table_map(gy_table *table, const char *path, gy_err *err) {
    gy_tensors *t = &table->t;
    if (t->files == table->file_cap) {
        int cap = table->file_cap ? table->file_cap * 2 : 4;
        void *p = gy_realloc(t->file, (size_t)cap * sizeof *t->file);
        if (!p) return gy_fail(err, GY_ENOMEM, "%s: out of memory for the file table", path);
        t->file = p, table->file_cap = cap;
    }
    char *copy = gy_arena_strndup(&t->arena, path, strlen(path));
    if (!copy) return gy_fail(err, GY_ENOMEM, "%s: out of memory for the file table", path);
    gy_fmap map;
    gy_rc rc = gy_fmap_open(&map, path, err);
    if (rc) return rc;
    t->file[t->files].path = copy, t->file[t->files].map = map;
    t->files++;
    return GY_OK;
}

gy_tensor *gy_table_add(gy_table *table) {
    gy_tensors *t = &table->t;
    if (t->n == table->cap) {
        if (table->cap > INT_MAX / 2) return NULL;
        int cap = table->cap ? table->cap * 2 : 64;
        gy_tensor *p = gy_realloc(t->at, (size_t)cap * sizeof *p);
        if (!p) return NULL;
        t->at = p, table->cap = cap;
    }
    t->at[t->n] = (gy_tensor){0};
    return &t->at[t->n++];
}

static int by_name(const void *a, const void *b) {
    const gy_tensor *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

gy_rc gy_table_finish(gy_table *table, gy_err *err) {
    gy_tensors *t = &table->t;
    if (t->n) qsort(t->at, (size_t)t->n, sizeof *t->at, by_name);
    for (int i = 1; i < t->n; i++) {
        const gy_tensor *a = &t->at[i - 1], *b = &t->at[i];
        char name[64];
        if (strcmp(a->name, b->name)) continue;
        gy_err_quote(name, b->name, strlen(b->name));
        if (a->file == b->file)
            return gy_fail(err, GY_EFORMAT, "%s: duplicate tensor \"%s\"", t->file[b->file].path,
                           name);
        return gy_fail(err, GY_EFORMAT, "%s: duplicate tensor \"%s\", also in %s",
                       t->file[b->file].path, name, t->file[a->file].path);
    }
    return GY_OK;
}

int64_t gy_table_mul(int64_t a, int64_t b) {
    int64_t product;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

static int by_begin(const void *a, const void *b) {
    const gy_extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

int gy_extent_overlap(gy_extent *e, int n) {
    if (n) qsort(e, (size_t)n, sizeof *e, by_begin);
    for (int i = 1; i < n; i++) {
        if (e[i].begin < e[i - 1].end) return i;
    }
    return -1;
}

/* ---- readers of the finished table ---- */

const gy_tensor *gy_tensors_find(const gy_tensors *t, const char *name) {
    int low = 0, high = t->n;
    while (low < high) {
        int mid = low + (high - low) / 2, order = strcmp(t->at[mid].name, name);
        if (!order) return &t->at[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

void gy_tensors_close(gy_tensors *t) {
    for (int i = 0; i < t->files; i++) gy_fmap_close(&t->file[i].map);
    gy_free(t->file);
    gy_free(t->at);
    gy_arena_free(&t->arena);
    *t = (gy_tensors){0};
}
