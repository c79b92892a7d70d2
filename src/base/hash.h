/* base/hash - digests.
 *
 * gy_hash64: fast, for tables and cache checks, not against an adversary. gy_sha256: libcrypto's.
 */
#ifndef GY_BASE_HASH_H
#define GY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t gy_hash64(const void *p, size_t n, uint64_t seed);
typedef struct gy_sha256 gy_sha256;
gy_sha256 *gy_sha256_new(void); /* NULL when memory is out */
void gy_sha256_add(gy_sha256 *h, const void *p, size_t n);
void gy_sha256_end(gy_sha256 *h, char hex[65]); /* frees h; lower-case hex, NUL-terminated */

#endif
