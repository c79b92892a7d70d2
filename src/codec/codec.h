/* codec - how a row of floats is stored.
 *
 * One axis for weights and KV: a codec turns n floats into bytes in up to three planes, row by row,
 * and back. A coded matrix is a gy_rows: a view of a mapping or of a page, never an owner.
 *
 *     affine 4-bit:  plane[0] codes  [rows][cols/8] u32 | plane[1] scales [rows][cols/g] | plane[2]
 * biases [rows][cols/g] gguf block:    plane[0] blocks [rows][cols/32] of {f16 d, ...} plain:
 * plane[0] values [rows][cols]
 *
 * This module is the scalar reference: exact values, exact order; the ISA bodies in cpu/ must agree
 * with it by memcmp. Data may be unaligned. Thread: constant functions. Sources:
 * ../shared/spec/kv.md 2.1-2.6, 3. */
#ifndef GY_CODEC_H
#define GY_CODEC_H

#include "base/err.h"

typedef enum {
    GY_CODEC_F32,
    GY_CODEC_F16,
    GY_CODEC_BF16,
    GY_CODEC_AFFINE, /* bits 2 3 4 5 6 8, group 32 64 128, stype f32 f16 bf16 */
    GY_CODEC_MXFP4,
    GY_CODEC_MXFP8,
    GY_CODEC_NVFP4, /* MLX layouts: codes plane and u8 scales plane */
    GY_CODEC_Q4_0,
    GY_CODEC_Q4_1,
    GY_CODEC_Q5_0,
    GY_CODEC_Q5_1,
    GY_CODEC_Q8_0,
    GY_CODEC_Q2_K,
    GY_CODEC_Q3_K,
    GY_CODEC_Q4_K,
    GY_CODEC_Q5_K,
    GY_CODEC_Q6_K,
    GY_CODEC_IQ4_NL,
    GY_CODEC_MXFP4_GGUF,
    GY_CODEC_TURBO_K,  /* KV rows only (kv.md 3.3): keys of 2 4 5 8 bits */
    GY_CODEC_TURBO_V,  /* values of 2 3 4 5 8 bits, tables as published */
    GY_CODEC_TURBOX_V, /* values of 4 5 8 bits, tables that are exact Lloyd-Max optima */
    GY_CODEC_COUNT
} gy_codec_kind;

typedef struct {
    uint8_t kind, bits, stype;
    uint16_t group;
} gy_cparm; /* a value: compared, hashed. stype: gy_codec_kind
               F32, F16 or BF16 of affine scales */

static inline bool gy_cparm_same(gy_cparm a, gy_cparm b) {
    return a.kind == b.kind && a.bits == b.bits && a.stype == b.stype && a.group == b.group;
}

typedef struct {
    gy_cparm c;
    int rows, cols;
    void *plane[3]; /* codes, scales, biases; NULL where the codec has none; never written through
                       for weights */
    ptrdiff_t step[3]; /* bytes from row to row in each plane */
    float global; /* nvfp4: factor of every value (f32(G/2688)), 1 when there is none; other codecs:
                     1 */
} gy_rows;

typedef struct {
    const char *name;
    int block; /* cols must be a multiple of this */
    bool (*fits)(gy_cparm c, int cols);
    void (*bytes)(gy_cparm c, int cols, size_t plane[3]); /* bytes of one row in each plane */
    /* Codes x[cols] into a row, reading x and nothing else (rule D5). NULL: the codec is read-only
     * (GGUF K types). */
    void (*encode)(const gy_rows *m, int row, const float *x);
    void (*decode)(const gy_rows *m, int row, float *x); /* exact f32 values, x[cols] */
    /* NULL, or the codec stores rows turned: decode gives turned values, and x[n] is turned (in
     * place) or turned back by this. It is linear and keeps lengths, so attention sums turned
     * values and turns the sum back once: out = turn(sum of p v, back). */
    void (*turn)(gy_cparm c, float *x, int n, bool back);
} gy_codec;

extern const gy_codec gy_codecs[GY_CODEC_COUNT];

/* ---- The integer form, for `fast` arithmetic (design 14.1) ----
 *
 * value[k] = step * code[k] + offset over a chunk of 32 columns or, when sub16, each half of it:
 *
 *     chunk j:  code[32 j .. 32 j + 31] int8 | s[2 j], s[2 j + 1] | z[2 j], z[2 j + 1]
 *
 * A codec with an integer form gives it here, for the columns of `chunks` chunks from chunk0 of one
 * row. Values of s and z are f32, computed with one rounding per operation as written in
 * codec/int.c; they are part of GY_BITS. Affine 8-bit codes are given less 128, with z to match.
 * When the codec has one step per 32 columns, s[2j+1] = s[2j]. */
typedef struct {
    int8_t *code; /* [32 * chunks] */
    float *s, *z; /* [2 * chunks] */
} gy_intform;
typedef struct {
    bool has, sub16, offset;
} gy_intkind; /* offset: z may be other than 0 */
gy_intkind gy_codec_intkind(gy_cparm c);
void gy_codec_int(const gy_rows *m, int row, int chunk0, int chunks, gy_intform out);

/* "affine 4-bit g64", "Q4_K": for people. Returns out. */
const char *gy_cparm_name(gy_cparm c, char out[32]);

#endif
