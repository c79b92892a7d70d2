/* run/philox - Philox4x32-10, random numbers as a function of a counter.
 *
 * J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Ten rounds over four
 * words with a key of two; no state. Thread: any. Bits: integers only. */
#ifndef GY_RUN_PHILOX_H
#define GY_RUN_PHILOX_H

#include <stdint.h>

typedef struct {
    uint32_t w[4];
} gy_philox_words;

static inline gy_philox_words gy_philox(uint64_t key, gy_philox_words c) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        uint64_t a = (uint64_t)0xD2511F53u * c.w[0], b = (uint64_t)0xCD9E8D57u * c.w[2];
        c = (gy_philox_words){{(uint32_t)(b >> 32) ^ c.w[1] ^ k0, (uint32_t)b,
                               (uint32_t)(a >> 32) ^ c.w[3] ^ k1, (uint32_t)a}};
    }
    return c;
}

/* Uniform in [0, 1), a multiple of 2^-53: draw number `draw` of choice `choice` at position pos. */
static inline double gy_philox_uniform(uint64_t seed, int pos, int choice, int draw) {
    gy_philox_words c =
        gy_philox(seed, (gy_philox_words){{(uint32_t)pos, (uint32_t)choice, (uint32_t)draw, 0}});
    uint64_t bits = (uint64_t)c.w[0] << 21 ^ c.w[1] >> 11;
    return (double)bits * 0x1p-53;
}

#endif
