/* file/tensors - named tensors of a checkpoint, wherever they lie.
 *
 * One table over safetensors (single, sharded with an index) and GGUF (single, split). data points
 * into a mapping and is not read. Files that the index does not name are never merged.
 *
 *     gy_tensors -> tensor[n] sorted by name  ->  data inside file[i].map
 *
 * Owner: the caller, until gy_tensors_close; tensor names and data are borrowed until then.
 * Constant after opening. */
#ifndef GY_FILE_TENSORS_H
#define GY_FILE_TENSORS_H

#include "base/fmap.h"
#include "base/json.h"

/* clang-format off */
typedef enum {
    /* safetensors types; GY_T_U32 carries packed MLX codes */
    GY_T_F32, GY_T_F16, GY_T_BF16, GY_T_F64, GY_T_I8, GY_T_U8, GY_T_I16, GY_T_U16, GY_T_I32,
    GY_T_U32, GY_T_I64, GY_T_U64, GY_T_BOOL, GY_T_F8_E4M3, GY_T_F8_E5M2, GY_T_OTHER,
    /* GGUF block types */
    GY_T_Q4_0, GY_T_Q4_1, GY_T_Q5_0, GY_T_Q5_1, GY_T_Q8_0, GY_T_Q2_K, GY_T_Q3_K, GY_T_Q4_K,
    GY_T_Q5_K, GY_T_Q6_K, GY_T_IQ4_NL, GY_T_IQ4_XS, GY_T_MXFP4, GY_T_NVFP4,
    GY_T_COUNT
} gy_ttype;
/* clang-format on */

const char *gy_ttype_name(gy_ttype t); /* "F32", "Q4_K" */
/* Values per block, 1 for plain types; *bytes, which may be NULL, gets the block's bytes. */
int gy_ttype_block(gy_ttype t, int *bytes);

typedef struct {
    const char *name;
    gy_ttype type;
    int dims;
    int64_t shape[8];    /* outermost first, for GGUF too: a matrix is [out, in] */
    const uint8_t *data; /* may be unaligned */
    size_t bytes;
    int file; /* index of the file it lies in */
} gy_tensor;

typedef struct {
    char *path;
    gy_fmap map;
} gy_tensor_file;

typedef struct {
    gy_tensor *at; /* [n] ascending by name (strcmp) */
    int n, files;
    gy_tensor_file *file; /* [files] */
    gy_arena arena;
} gy_tensors;

/* Opens the safetensors of a directory: model.safetensors.index.json and the shards it names, else
 * model.safetensors, else a whole set model-0000I-of-0000N.safetensors. */
gy_rc gy_tensors_open_dir(gy_tensors *t, const char *dir, gy_err *err);
/* Opens one safetensors file. */
gy_rc gy_tensors_open_file(gy_tensors *t, const char *path, gy_err *err);
const gy_tensor *gy_tensors_find(const gy_tensors *t, const char *name); /* NULL when absent */
void gy_tensors_close(gy_tensors *t);

/* ---- GGUF ---- */

/* clang-format off */
typedef enum {
    GY_GGUF_U8, GY_GGUF_I8, GY_GGUF_U16, GY_GGUF_I16, GY_GGUF_U32, GY_GGUF_I32, GY_GGUF_F32,
    GY_GGUF_BOOL, GY_GGUF_STR, GY_GGUF_ARR, GY_GGUF_U64, GY_GGUF_I64, GY_GGUF_F64
} gy_gguf_type;
/* clang-format on */

typedef struct {
    const char *s;
    uint64_t n;
} gy_gguf_str; /* bytes in the mapping, not NUL-terminated */

typedef struct {
    const char *key;        /* NUL-terminated */
    uint8_t type, item;     /* gy_gguf_type; item: of the elements when type is ARR */
    uint64_t n;             /* elements when type is ARR */
    const uint8_t *data;    /* the value in the mapping, little-endian, unaligned */
    const gy_gguf_str *str; /* STR: [1]; ARR of STR: [n]; else NULL */
} gy_gguf_kv;

typedef struct {
    gy_gguf_kv *kv; /* [n] in file order */
    int n, version;
    gy_tensors tensors; /* of all parts of a split file */
} gy_gguf;

/* Opens a GGUF v2 or v3 file, and the other parts when it is the first of a split set. */
gy_rc gy_gguf_open(gy_gguf *g, const char *path, gy_err *err);
void gy_gguf_close(gy_gguf *g);
const gy_gguf_kv *gy_gguf_get(const gy_gguf *g, const char *key);
bool gy_gguf_int(const gy_gguf *g, const char *key, int64_t *out); /* any integer type or bool */
bool gy_gguf_num(const gy_gguf *g, const char *key, double *out);  /* any numeric type */
bool gy_gguf_string(const gy_gguf *g, const char *key, gy_gguf_str *out);
/* Element i of a numeric array. */
bool gy_gguf_item_num(const gy_gguf_kv *kv, uint64_t i, double *out);

#endif
