/* kv/chain - digests that name what a page holds.
 *
 * A page's bytes follow from the arithmetic, the model, the codecs and every token up to its end.
 * The chain is a running SHA-256 of exactly these, one link per full page of 64 tokens:
 *
 *     identity, adapter, salt --root--> d0 --tokens 0..63--> d1 --tokens 64..127--> d2 ...
 *
 * d[i + 1] names page i of every group; equal names mean equal bytes, on any machine. salt keeps
 * users apart who must not see each other's prefixes by timing.
 *
 * Owner: values, copied. Thread: functions without state. They return false when memory is out. */
#ifndef GY_KV_CHAIN_H
#define GY_KV_CHAIN_H

#include <string.h>

#include "base/hash.h"
#include "op/op.h"

typedef struct {
    uint8_t b[32];
} gy_digest;

/* What two engines must have in common for their pages to be equal. */
typedef struct {
    uint32_t bits;    /* gy_bits(): the revision of the arithmetic */
    uint32_t arith;   /* gy_arith: activations reach K and V */
    gy_digest model;  /* configuration and weights */
    gy_digest plan;   /* operators and their parameters */
    gy_digest layout; /* codecs, heads and retention of every layer: gy_chain_layout */
} gy_identity;

bool gy_chain_layout(const gy_kvspec *spec, int n_layers, gy_digest *out);
/* adapter and salt may be NULL, which is the same as "". */
bool gy_chain_root(const gy_identity *id, const char *adapter, const char *salt, gy_digest *out);
/* before and after may be the same object. tok[GY_PAGE]. */
bool gy_chain_next(const gy_digest *before, const int32_t *tok, gy_digest *after);

static inline bool gy_digest_equal(const gy_digest *a, const gy_digest *b) {
    return !memcmp(a, b, sizeof *a);
}
/* Lower-case hex, NUL-terminated. Returns out. */
const char *gy_digest_hex(const gy_digest *d, char out[65]);

/* Ends a hash that the caller filled, with its digest as bytes. */
bool gy_digest_end(gy_sha256 *h, gy_digest *out);
/* Adds text with its length, so that neighbours cannot run into each other. */
void gy_digest_text(gy_sha256 *h, const char *s);
void gy_digest_int(gy_sha256 *h, uint64_t v); /* 8 bytes, little-endian */

#endif
