/* codec/turbo - what the turbo codecs share with their fast bodies in cpu/: tables and signs.
 *
 * A key row and a value row of D = 64, 128, 256 or 512 values, in groups of 32 (kv.md 3.3):
 *
 *     K   plane[0] codes [D kb / 8]   plane[1] scales f16 [D / 32]   plane[2] zeros f16 [D / 32]
 *     V   plane[0] codes [D vb / 8]   plane[1] scales f16 [D / 32]
 *
 * Key codes of 8 bits are int8, all others unsigned: eight in `bits` bytes, lowest bits first. A
 * value row is stored turned: y = FWHT(x * sign), and decodes to y; `turn` leads back. Owner:
 * static tables. Thread: constants. Bits: tables and signs are part of GY_BITS. */
#ifndef GY_CODEC_TURBO_H
#define GY_CODEC_TURBO_H

#include "codec/codec.h"

enum { GY_TURBO_GROUP = 32, GY_TURBO_MAX = 512 }; /* values */

/* Larger magnitudes count as this. It lies far beyond what an f16 scale can say, so it changes no
 * value that has a code of its own, and sums and squares of 512 such values stay finite. */
#define GY_TURBO_TOP 0x1p50f

typedef struct {
    const float *level; /* [2^bits] ascending; NULL: no such width */
    const float *edge;  /* [2^bits - 1]; code = number of edges below the value */
} gy_turbo_table;

/* By bits. turbo: constants as published, from sampling. turbox: the optimum for N(0,1). */
extern const gy_turbo_table gy_turbo_tables[9], gy_turbox_tables[9];

extern const uint32_t gy_turbo_signs[30];

/* [n / 32] words: bit i % 32 of word i / 32 set where value i changes its sign. */
static inline const uint32_t *gy_turbo_sign_words(int n) {
    return gy_turbo_signs + (n - 64) / 32; /* 2, 4, 8 and 16 words one behind the other */
}

static inline const gy_turbo_table *gy_turbo_table_of(gy_cparm c) {
    return c.kind == GY_CODEC_TURBOX_V ? &gy_turbox_tables[c.bits] : &gy_turbo_tables[c.bits];
}

#endif
