#include "base/hash.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/mem.h"

/* ---- gy_hash64: 16 bytes a turn, folded by a 64 x 64 -> 128 bit multiplication ---- */

static uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t load64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

uint64_t gy_hash64(const void *data, size_t n, uint64_t seed) {
    /* Odd constants with mixed bits: digits of pi and e. */
    static const uint64_t k1 = 0x243F6A8885A308D3, k2 = 0x13198A2E03707345, k3 = 0xB7E151628AED2A6B;
    const unsigned char *p = data;
    uint64_t h = fold(seed ^ k1, k3) ^ seed;
    size_t left = n;
    for (; left > 16; left -= 16, p += 16) h = fold(load64(p) ^ k1 ^ h, load64(p + 8) ^ k2);
    unsigned char tail[16] = {0};
    if (left) memcpy(tail, p, left);
    h = fold(load64(tail) ^ k2 ^ h, load64(tail + 8) ^ k3 ^ (h >> 32));
    return fold(h ^ n, k1 ^ seed);
}

/* ---- SHA-256 ---- */

struct gy_sha256 {
    EVP_MD_CTX *ctx;
    int ok;
};

gy_sha256 *gy_sha256_new(void) {
    gy_sha256 *h = gy_alloc(sizeof *h);
    if (!h) return NULL;
    h->ctx = EVP_MD_CTX_new();
    h->ok = h->ctx && EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) == 1;
    if (h->ok) return h;
    EVP_MD_CTX_free(h->ctx);
    gy_free(h);
    return NULL;
}

void gy_sha256_add(gy_sha256 *h, const void *p, size_t n) {
    h->ok &= EVP_DigestUpdate(h->ctx, p, n) == 1;
}

void gy_sha256_end(gy_sha256 *h, char hex[65]) {
    static const char digit[] = "0123456789abcdef";
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    h->ok &= EVP_DigestFinal_ex(h->ctx, md, &n) == 1 && n == 32;
    /* libcrypto cannot fail here short of memory corruption; a digest that matches nothing is the
     * safe answer. */
    hex[0] = 0;
    for (unsigned i = 0; h->ok && i < 32; i++) {
        hex[2 * i] = digit[md[i] >> 4], hex[2 * i + 1] = digit[md[i] & 15], hex[2 * i + 2] = 0;
    }
    EVP_MD_CTX_free(h->ctx);
    gy_free(h);
}
