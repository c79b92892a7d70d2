/* codec/codec - the table of codecs and their names. */
#include <stdio.h>

#include "codec/impl.h"

#define PLAIN(name)                                                                                \
    { name, 1, gy_plain_fits, gy_plain_bytes, gy_plain_encode, gy_plain_decode, NULL }
#define MXFP(name, block)                                                                          \
    { name, block, gy_mxfp_fits, gy_mxfp_bytes, gy_mxfp_encode, gy_mxfp_decode, NULL }
#define BLOCK(name, block)                                                                         \
    { name, block, gy_block_fits, gy_block_bytes, NULL, gy_block_decode, NULL }

#define TURBO_V(name)                                                                              \
    {                                                                                              \
        name, 64, gy_turbo_v_fits, gy_turbo_v_bytes, gy_turbo_v_encode, gy_turbo_v_decode,         \
            gy_turbo_v_turn                                                                        \
    }

const gy_codec gy_codecs[GY_CODEC_COUNT] = {
    [GY_CODEC_F32] = PLAIN("f32"),
    [GY_CODEC_F16] = PLAIN("f16"),
    [GY_CODEC_BF16] = PLAIN("bf16"),
    [GY_CODEC_AFFINE] = {"affine", 32, gy_affine_fits, gy_affine_bytes, gy_affine_encode,
                         gy_affine_decode, NULL},
    [GY_CODEC_MXFP4] = MXFP("mxfp4", 32),
    [GY_CODEC_MXFP8] = MXFP("mxfp8", 32),
    [GY_CODEC_NVFP4] = MXFP("nvfp4", 16),
    [GY_CODEC_Q4_0] = BLOCK("Q4_0", 32),
    [GY_CODEC_Q4_1] = BLOCK("Q4_1", 32),
    [GY_CODEC_Q5_0] = BLOCK("Q5_0", 32),
    [GY_CODEC_Q5_1] = BLOCK("Q5_1", 32),
    [GY_CODEC_Q8_0] = BLOCK("Q8_0", 32),
    [GY_CODEC_Q2_K] = BLOCK("Q2_K", 256),
    [GY_CODEC_Q3_K] = BLOCK("Q3_K", 256),
    [GY_CODEC_Q4_K] = BLOCK("Q4_K", 256),
    [GY_CODEC_Q5_K] = BLOCK("Q5_K", 256),
    [GY_CODEC_Q6_K] = BLOCK("Q6_K", 256),
    [GY_CODEC_IQ4_NL] = BLOCK("IQ4_NL", 32),
    [GY_CODEC_MXFP4_GGUF] = BLOCK("MXFP4", 32),
    [GY_CODEC_TURBO_K] = {"turbo k", 64, gy_turbo_k_fits, gy_turbo_k_bytes, gy_turbo_k_encode,
                          gy_turbo_k_decode, NULL},
    [GY_CODEC_TURBO_V] = TURBO_V("turbo v"),
    [GY_CODEC_TURBOX_V] = TURBO_V("turbox v"),
};

const char *gy_cparm_name(gy_cparm c, char out[32]) {
    if (c.kind >= GY_CODEC_COUNT) {
        snprintf(out, 32, "codec %d", c.kind);
    } else if (c.kind == GY_CODEC_AFFINE) {
        snprintf(out, 32, "affine %d-bit g%d", c.bits, c.group);
    } else if (c.kind >= GY_CODEC_TURBO_K) {
        snprintf(out, 32, "%s%d", gy_codecs[c.kind].name, c.bits);
    } else {
        snprintf(out, 32, "%s", gy_codecs[c.kind].name);
    }
    return out;
}
