/* The check of v8_load_u3 for one form of cpu/lanes.h; included by lanes.c and, compiled for AVX2
 * or NEON, by lanes_wide.c. */
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/lanes.h"

/* A row of 64 codes that ends where the next page must not be touched, and one that begins where
 * the page before must not be. Returns how many of the levels are wrong, or -1: no memory. */
static int u3_at_edges(void) {
    enum { COLS = 64, BYTES = COLS / 8 * 3 };
    const float table[8] = {-2, -1.5f, -1, -0.25f, 0.25f, 1, 1.5f, 2};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *m = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) return -1;
    if (mprotect(m, page, PROT_NONE) || mprotect(m + 2 * page, page, PROT_NONE)) return -1;
    int wrong = 0;
    uint8_t *const rows[2] = {m + page, m + 2 * page - BYTES};
    for (int r = 0; r < 2; r++) {
        uint8_t code[COLS];
        memset(rows[r], 0, BYTES);
        for (int i = 0; i < COLS; i++) {
            code[i] = (uint8_t)((i * 5 + i / 8 + r) & 7);
            for (int b = 0; b < 3; b++)
                rows[r][(3 * i + b) / 8] |= (uint8_t)((code[i] >> b & 1) << (3 * i + b) % 8);
        }
        for (int i = 0; i < COLS; i += 8) {
            float y[8];
            v8_store(y, v8_load_u3(rows[r] + i / 16 * 6, i & 8, table));
            for (int k = 0; k < 8; k++) wrong += y[k] != table[code[i + k]];
        }
    }
    munmap(m, 3 * page);
    return wrong;
}
