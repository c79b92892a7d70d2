/* A page file from outside: a verdict with a message, and nothing outside the file in what passes.
 * The digest at the end of the head is set right first, so that mutations get behind it. */
#include "kv/snap.h"
#include "base/mem.h"

static void fix_digest(uint8_t *p, size_t n) {
    uint32_t n_tok, n_pages;
    gy_digest d;
    if (n < 256) return;
    memcpy(&n_tok, p + 196, 4), memcpy(&n_pages, p + 200, 4);
    uint64_t end = (256 + 4 * (uint64_t)n_tok + 7) / 8 * 8 + 32 * (uint64_t)n_pages;
    gy_sha256 *h = gy_sha256_new();
    if (end > n || n - end < 32 || !h) {
        if (h) gy_digest_end(h, &d);
        return;
    }
    gy_sha256_add(h, p, (size_t)end);
    if (gy_digest_end(h, &d)) memcpy(p + end, &d, 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *p = gy_alloc(size + 1);
    if (!p) return 0;
    memcpy(p, data, size);
    if (size >= 256) {
        uint64_t bytes = size;
        memcpy(p + 16, &bytes, 8);
        fix_digest(p, size);
    }
    for (int exact = 0; exact < 2; exact++) {
        gy_err err = {0};
        gy_snap_head h;
        void *mem;
        if (gy_snap_parse(exact ? p : data, size, size, &h, &mem, &err)) {
            GY_ASSERT(err.rc && err.msg[0]);
            continue;
        }
        for (int i = 0; i < h.n_pages; i++)
            GY_ASSERT(h.page[i].group <= GY_SNAP_STATE && h.page[i].bytes &&
                      h.page[i].bytes <= size && h.page[i].offset <= size - h.page[i].bytes);
        for (int i = 0; i < h.n_tok; i++) GY_ASSERT(h.tok[i] >= 0);
        GY_ASSERT(h.first % GY_PAGE == 0 && h.kv[GY_SNAP_KV - 1] == 0);
        gy_free(mem);
    }
    gy_free(p);
    return 0;
}
