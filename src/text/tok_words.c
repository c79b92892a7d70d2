/* The cache of words. A slot is 64 bytes, written under a sequence number that is odd meanwhile:
 * readers copy and look at the number again, writers that meet another writer give up. Slots are
 * found directly by hash, the newest word wins.
 *
 *     w[0] = sequence << 16 | bytes << 8 | ids     w[1..4] = the word, zero padded     w[5..7] =
 * its ids, two in each
 *
 * Every access is atomic, so that there is no data race; on x86 these are plain loads and stores.
 */
#include <stdatomic.h>

#include "text/tok_in.h"

enum { SLOTS = 1 << 14 };
typedef struct {
    _Atomic uint64_t w[8];
} slot;
struct gy_words {
    slot s[SLOTS];
};

gy_words *gy_words_new(void) {
    return gy_alloc_aligned(sizeof(gy_words));
}
void gy_words_free(gy_words *w) {
    gy_free(w);
}

static void word_load(uint64_t word[4], const char *s, size_t n) {
    memset(word, 0, 32);
    size_t i = 0;
    for (; n >= 8; i++, s += 8, n -= 8) word[i] = gy_tok_load64(s);
    if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, s, 4), memcpy(&b, s + n - 4, 4);
        word[i] = a | (uint64_t)b << 8 * (n - 4);
    } else if (n) {
        word[i] = (uint8_t)s[0] | (uint64_t)(uint8_t)s[n / 2] << 8 * (n / 2) |
                  (uint64_t)(uint8_t)s[n - 1] << 8 * (n - 1);
    }
}

static uint32_t word_slot(const uint64_t word[4], size_t n) {
    uint64_t h = gy_tok_mix(word[0] ^ 0x9E3779B97F4A7C15u, 0xA0761D6478BD642Fu ^ n);
    if (n > 8)
        h = gy_tok_mix(h ^ word[1],
                       gy_tok_mix(word[2] ^ 0xD6E8FEB86659FD93u, word[3] ^ 0xE7037ED1A0B428DBu));
    return (uint32_t)(h >> 40) & (SLOTS - 1);
}

bool gy_words_get(const gy_words *words, const char *s, size_t n, gy_ids *out) {
    uint64_t word[4];
    word_load(word, s, n);
    const slot *at = &words->s[word_slot(word, n)];
    uint64_t head = atomic_load_explicit(&at->w[0], memory_order_acquire);
    if ((head >> 8 & 255) != n || head >> 16 & 1) return false;
    uint64_t differ = 0, id[3];
    for (int i = 0; i < 4; i++)
        differ |= word[i] ^ atomic_load_explicit(&at->w[1 + i], memory_order_acquire);
    if (differ) return false;
    for (int i = 0; i < 3; i++) id[i] = atomic_load_explicit(&at->w[5 + i], memory_order_acquire);
    if (atomic_load_explicit(&at->w[0], memory_order_relaxed) != head) return false;
    int ids = (int)(head & 255);
    if (!gy_ids_need(out, GY_WORD_IDS)) return false;
    for (int i = 0; i < ids; i++)
        out->id[out->n + i] = (int32_t)(uint32_t)(id[i / 2] >> 32 * (i & 1));
    out->n += ids;
    return true;
}

void gy_words_put(gy_words *words, const char *s, size_t n, const int32_t *id, int ids) {
    if (n > GY_WORD_BYTES || ids > GY_WORD_IDS) return;
    uint64_t word[4], pair[3] = {0};
    word_load(word, s, n);
    slot *at = &words->s[word_slot(word, n)];
    uint64_t head = atomic_load_explicit(&at->w[0], memory_order_relaxed);
    if (head >> 16 & 1) return;
    uint64_t busy = ((head >> 16) + 1) << 16;
    if (!atomic_compare_exchange_strong(&at->w[0], &head, busy)) return;
    for (int i = 0; i < ids; i++) pair[i / 2] |= (uint64_t)(uint32_t)id[i] << 32 * (i & 1);
    /* Release, so that no reader sees a new part before the odd number. */
    for (int i = 0; i < 4; i++) atomic_store_explicit(&at->w[1 + i], word[i], memory_order_release);
    for (int i = 0; i < 3; i++) atomic_store_explicit(&at->w[5 + i], pair[i], memory_order_release);
    atomic_store_explicit(&at->w[0], busy + (1 << 16) + (n << 8) + (uint64_t)ids,
                          memory_order_release);
}
