/* model/convert_rows - planning and filling of converted tensors. */
#include "base/num.h"
#include "codec/codec.h"
#include "model/convert.h"

typedef struct {
    int8_t *code;
    float *s, *z;
} planes;

/* Bits of the affine form of a GGUF type; 0: it has none. */
static int affine_bits(gy_ttype t) {
    switch (t) {
    case GY_T_Q4_0:
    case GY_T_Q4_1:
    case GY_T_Q4_K: return 4;
    case GY_T_Q5_0:
    case GY_T_Q5_1:
    case GY_T_Q5_K: return 5;
    case GY_T_Q8_0: return 8;
    default: return 0;
    }
}

static uint8_t codec_of(gy_ttype t) {
    switch (t) {
    case GY_T_Q4_0: return GY_CODEC_Q4_0;
    case GY_T_Q4_1: return GY_CODEC_Q4_1;
    case GY_T_Q4_K: return GY_CODEC_Q4_K;
    case GY_T_Q5_0: return GY_CODEC_Q5_0;
    case GY_T_Q5_1: return GY_CODEC_Q5_1;
    case GY_T_Q5_K: return GY_CODEC_Q5_K;
    case GY_T_Q8_0: return GY_CODEC_Q8_0;
    default: return GY_CODEC_MXFP4_GGUF;
    }
}

/* ---- One row of the source as codes 0.., scales and biases ---- */

static planes planes_at(void *scratch, int64_t cols) {
    float *f = scratch;
    int64_t chunks = cols / 32;
    return (planes){.s = f, .z = f + 2 * chunks, .code = (int8_t *)(f + 4 * chunks)};
}

size_t gy_convert_scratch(const gy_convert_tensor *t) {
    int64_t cols = t->src->dims ? t->src->shape[t->src->dims - 1] : 1;
    return (size_t)cols * 2 +
           64; /* 16 bytes of s and z and 32 codes for every 32 columns, rounded up */
}

/* The integer form. 8-bit codes are made unsigned: code + 128, with the bias that takes it back. */
static planes split(const gy_tensor *t, int64_t row, void *scratch) {
    int cols = (int)t->shape[1];
    planes p = planes_at(scratch, cols);
    gy_rows m = {
        .c = {.kind = codec_of(t->type)}, .rows = (int)t->shape[0], .cols = cols, .global = 1};
    m.plane[0] = (void *)t->data;
    m.step[0] = (ptrdiff_t)(t->bytes / (size_t)t->shape[0]);
    gy_codec_int(&m, (int)row, 0, cols / 32, (gy_intform){p.code, p.s, p.z});
    if (t->type != GY_T_Q8_0) return p;
    for (int i = 0; i < cols; i++) p.code[i] = (int8_t)(uint8_t)(p.code[i] + 128);
    for (int j = 0; j < cols / 32; j++) p.z[2 * j] = -128.0f * p.s[2 * j];
    return p;
}

static void pack(const int8_t *code, int64_t cols, int bits, uint8_t *out) {
    for (int64_t i = 0; i < cols; i += 8, out += bits) {
        uint64_t v = 0;
        for (int k = 0; k < 8; k++) v |= (uint64_t)(uint8_t)code[i + k] << bits * k;
        memcpy(out, &v, (size_t)bits);
    }
}

static void store(const float *v, int64_t chunks, uint8_t stype, uint8_t *out) {
    for (int64_t j = 0; j < chunks; j++) {
        if (stype == GY_CODEC_F16) {
            uint16_t h = gy_f32_f16(v[2 * j]);
            memcpy(out + 2 * j, &h, 2);
        } else {
            memcpy(out + 4 * j, &v[2 * j], 4);
        }
    }
}

/* MXFP4 blocks {scale, 16 bytes of low and high halves} to MLX order. GGUF's code 8 is +0, MLX's is
 * -0. */
static void mx_codes(const uint8_t *b, int64_t blocks, uint8_t *out) {
    for (int64_t j = 0; j < blocks; j++, b += 17, out += 16) {
        uint8_t code[32];
        for (int i = 0; i < 16; i++) code[i] = b[1 + i] & 15, code[16 + i] = b[1 + i] >> 4;
        for (int i = 0; i < 32; i++) code[i] = code[i] == 8 ? 0 : code[i];
        for (int i = 0; i < 16; i++) out[i] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
    }
}

void gy_convert_row(const gy_convert_tensor *t, int64_t row, uint8_t *out, void *scratch) {
    size_t bytes = gy_convert_row_bytes(t);
    if (t->fill == GY_FILL_COPY) {
        memcpy(out, t->src->data + (size_t)row * bytes, bytes);
        return;
    }
    if (t->fill == GY_FILL_MINUS1) {
        for (size_t i = 0; i < bytes; i += 4) {
            float v = gy_bits_f32(gy_load_u32(t->src->data + (size_t)row * bytes + i)) - 1;
            memcpy(out + i, &v, 4);
        }
        return;
    }
    int64_t cols = t->src->shape[1], chunks = cols / 32;
    if (t->fill == GY_FILL_MX_CODES || t->fill == GY_FILL_MX_SCALES) {
        const uint8_t *b = t->src->data + row * chunks * 17;
        if (t->fill == GY_FILL_MX_CODES) {
            mx_codes(b, chunks, out);
        } else {
            for (int64_t j = 0; j < chunks; j++) out[j] = b[17 * j];
        }
        return;
    }
    planes p = split(t->src, row, scratch);
    if (t->fill == GY_FILL_CODES) {
        pack(p.code, cols, t->bits, out);
    } else {
        store(t->fill == GY_FILL_SCALES ? p.s : p.z, chunks, t->stype, out);
    }
}

int64_t gy_convert_rows(const gy_convert_tensor *t) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->dims; i++) rows *= t->shape[i];
    return rows;
}

size_t gy_convert_row_bytes(const gy_convert_tensor *t) {
    static const struct {
        const char *name;
        uint8_t bytes;
    } sizes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"U32", 4}, {"U8", 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!strcmp(t->dtype, sizes[i].name))
            return sizes[i].bytes * (size_t)(t->dims ? t->shape[t->dims - 1] : 1);
    }
    int64_t rows = gy_convert_rows(t); /* another type, copied as it is */
    return rows ? t->src->bytes / (size_t)rows : 0;
}

/* ---- Planning ---- */

/* Looks at every scale and bias: *f16 is whether f16 holds them all. Fails on one that is not
 * finite. */
static gy_rc survey(const gy_tensor *t, bool *f16, gy_err *err) {
    gy_convert_tensor probe = {.src = t};
    void *scratch = gy_alloc(gy_convert_scratch(&probe));
    if (!scratch) return gy_fail(err, GY_ENOMEM, "tensor %s: out of memory", t->name);
    gy_rc rc = GY_OK;
    *f16 = true;
    for (int64_t row = 0; row < t->shape[0] && !rc; row++) {
        planes p = split(t, row, scratch);
        for (int64_t j = 0; j < t->shape[1] / 32 && !rc; j++) {
            float v[2] = {p.s[2 * j], p.z[2 * j]};
            for (int k = 0; k < 2; k++) {
                if ((gy_f32_bits(v[k]) & 0x7F800000) == 0x7F800000)
                    rc = gy_fail(err, GY_EUNSUPPORTED, "tensor %s, row %lld: a scale is not finite",
                                 t->name, (long long)row);
                *f16 = *f16 && gy_f32_bits(gy_f16_f32(gy_f32_f16(v[k]))) == gy_f32_bits(v[k]);
            }
        }
    }
    gy_free(scratch);
    return rc;
}

/* A scale byte of 255 is finite for some elements in GGUF, and never in MLX. */
static gy_rc survey_mx(const gy_tensor *t, gy_err *err) {
    for (size_t i = 0; i < t->bytes; i += 17) {
        if (t->data[i] == 255)
            return gy_fail(err, GY_EUNSUPPORTED, "tensor %s: a scale of 2^128 has no form in MLX",
                           t->name);
    }
    return GY_OK;
}

static gy_rc survey_minus1(const gy_tensor *t, gy_err *err) {
    if (t->type != GY_T_F32)
        return gy_fail(err, GY_EUNSUPPORTED, "tensor %s: norm weights are %s, expected F32",
                       t->name, gy_ttype_name(t->type));
    for (size_t i = 0; i < t->bytes; i += 4) {
        float v = gy_bits_f32(gy_load_u32(t->data + i)), w = v - 1, back = 1 + w;
        if (gy_f32_bits(back) != gy_f32_bits(v))
            return gy_fail(err, GY_EUNSUPPORTED, "tensor %s: %.9g is no 1 + w in f32", t->name, v);
    }
    return GY_OK;
}

static gy_convert_tensor *append(gy_convert_list *list, gy_arena *arena, const gy_tensor *t,
                                 const char *name, const char *leaf) {
    gy_convert_tensor *o = &list->at[list->n];
    size_t n = strlen(name);
    if (leaf && n > 7 && !strcmp(name + n - 7, ".weight")) n -= 6;
    *o = (gy_convert_tensor){
        .name = gy_arena_printf(arena, "%.*s%s", (int)n, name, leaf ? leaf : ""), .src = t};
    if (!o->name) return NULL;
    o->dims = t->dims;
    memcpy(o->shape, t->shape, sizeof o->shape);
    list->n++;
    return o;
}

static gy_rc plan_blocks(gy_convert_list *list, gy_arena *arena, const gy_tensor *t,
                         const char *name, gy_err *err) {
    int bits = affine_bits(t->type);
    bool f16 = true, mx = t->type == GY_T_MXFP4;
    size_t n = strlen(name);
    if (t->dims != 2 || n < 8 || strcmp(name + n - 7, ".weight"))
        return gy_fail(err, GY_EUNSUPPORTED,
                       "tensor %s: %s is converted only where it is a weight matrix", t->name,
                       gy_ttype_name(t->type));
    gy_rc rc = mx ? survey_mx(t, err) : survey(t, &f16, err);
    for (int plane = 0; plane < (mx ? 2 : 3) && !rc; plane++) {
        static const char *const leaf[] = {"weight", "scales", "biases"};
        gy_convert_tensor *o = append(list, arena, t, name, leaf[plane]);
        if (!o) return gy_fail(err, GY_ENOMEM, "tensor %s: out of memory", t->name);
        o->bits = (uint8_t)(mx ? 4 : bits), o->stype = f16 ? GY_CODEC_F16 : GY_CODEC_F32;
        o->fill = (uint8_t)((mx ? GY_FILL_MX_CODES : GY_FILL_CODES) + plane);
        o->dtype = !plane ? "U32" : mx ? "U8" : f16 ? "F16" : "F32";
        o->shape[1] = plane ? t->shape[1] / 32 : t->shape[1] * o->bits / 32;
    }
    return rc;
}

gy_rc gy_convert_plan(gy_convert_list *list, gy_arena *arena, const gy_tensor *t, const char *name,
                      bool minus1, gy_err *err) {
    if (affine_bits(t->type) || t->type == GY_T_MXFP4)
        return plan_blocks(list, arena, t, name, err);
    if (t->type == GY_T_OTHER || t->type > GY_T_OTHER)
        return gy_fail(err, GY_EUNSUPPORTED, "tensor %s: %s has no exact form in MLX", t->name,
                       gy_ttype_name(t->type));
    gy_rc rc = minus1 ? survey_minus1(t, err) : GY_OK;
    if (rc) return rc;
    gy_convert_tensor *o = append(list, arena, t, name, NULL);
    if (!o) return gy_fail(err, GY_ENOMEM, "tensor %s: out of memory", t->name);
    o->dtype = gy_ttype_name(t->type), o->fill = minus1 ? GY_FILL_MINUS1 : GY_FILL_COPY;
    return GY_OK;
}
