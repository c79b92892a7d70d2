/* model/convert - one model as an MLX directory with exactly the same values.
 *
 *     GGUF --open--> tensors --list--> gy_convert_tensor[] --write--> TARGET.part/model.safetensors
 * --rename--> TARGET
 *              '---> config words, quantization block, tokenizer.json, templates
 *
 * Blocks of 32 become affine groups of 32 through their integer form (codec.h): scale and bias are
 * the s and z that `fast` arithmetic takes from the source, so both arithmetics give the same bits.
 * Scales and biases are stored as f16 when every one of the tensor is an f16 value, else as f32.
 *
 *     Q4_0 Q4_1 Q4_K -> affine 4-bit | Q5_0 Q5_1 Q5_K -> affine 5-bit | Q8_0 -> affine 8-bit |
 * MXFP4 -> mxfp4 F32 F16 BF16 -> as they are | gemma's norms, 1 + w in GGUF -> w, when 1 + w gives
 * the same value
 *
 * Everything else has no exact form. Owner: arrays and names belong to the caller's arena; src
 * points into the source's mapping. Thread: one call, one thread. */
#ifndef GY_MODEL_CONVERT_H
#define GY_MODEL_CONVERT_H

#include "file/tensors.h"
#include "model/model.h"

typedef enum {
    GY_FILL_COPY,
    GY_FILL_MINUS1, /* f32 values less 1 */
    GY_FILL_CODES,
    GY_FILL_SCALES,
    GY_FILL_BIASES, /* affine planes of the source's blocks */
    GY_FILL_MX_CODES,
    GY_FILL_MX_SCALES
} gy_convert_fill;

typedef struct {
    const char *name, *dtype; /* as safetensors says it */
    int dims;
    int64_t shape[8];
    const gy_tensor *src;
    uint8_t fill, bits,
        stype; /* gy_convert_fill; of affine codes; GY_CODEC_F16 or F32 of scales and biases */
} gy_convert_tensor;

typedef struct {
    gy_convert_tensor *at; /* [n] */
    int n;
} gy_convert_list;

/* Decides the form of one tensor and appends its planes, at most three, to list under the module's
 * name. minus1: a norm that MLX stores less 1. GY_EUNSUPPORTED says why a tensor has no exact form.
 */
gy_rc gy_convert_plan(gy_convert_list *list, gy_arena *arena, const gy_tensor *t, const char *name,
                      bool minus1, gy_err *err);

int64_t gy_convert_rows(const gy_convert_tensor *t); /* all dimensions but the last */
size_t gy_convert_row_bytes(const gy_convert_tensor *t);
/* Writes row `row`. The source must have been planned. scratch: gy_convert_scratch bytes. */
void gy_convert_row(const gy_convert_tensor *t, int64_t row, uint8_t *out, void *scratch);
size_t gy_convert_scratch(const gy_convert_tensor *t);

/* Writes the tensors to dir/model.safetensors, or to shards of at most shard_bytes with an index.
 */
gy_rc gy_convert_write(const char *dir, const gy_convert_list *list, uint64_t shard_bytes,
                       gy_progress_fn progress, void *arg, gy_err *err);

/* Writes text[n] to dir/name. */
gy_rc gy_convert_text(const char *dir, const char *name, const char *text, size_t n, gy_err *err);

/* tokenizer.json and tokenizer_config.json of a GGUF vocabulary. The written tokenizer is opened
 * again and compared with m->tok on texts that exercise it; a difference is GY_EUNSUPPORTED. */
gy_rc gy_convert_tokenizer(const gy_model *m, const char *dir, gy_err *err);

/* gy_convert with another limit than 5 GB, for tests. */
gy_rc gy_convert_sharded(const char *source, const char *target, uint64_t shard_bytes,
                         gy_progress_fn progress, void *arg, gy_err *err);

#endif
