/* A GGUF file from outside: strings, arrays and tensors of what opens must lie inside the file. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/tensors.h"

static void check(const gy_gguf *g, const uint8_t *base, size_t size) {
    double sum = 0, x;
    for (int i = 0; i < g->n; i++) {
        const gy_gguf_kv *kv = &g->kv[i];
        uint64_t strings = !kv->str ? 0 : kv->type == GY_GGUF_STR ? 1 : kv->n;
        GY_ASSERT(gy_gguf_get(g, kv->key) == kv);
        for (uint64_t k = 0; k < strings; k++) {
            size_t at = (size_t)((const uint8_t *)kv->str[k].s - base);
            GY_ASSERT(at <= size && kv->str[k].n <= size - at);
        }
        for (uint64_t k = 0; k < kv->n; k++) sum += gy_gguf_item_num(kv, k, &x) ? x : 0;
        if (gy_gguf_num(g, kv->key, &x)) sum += x;
    }
    for (int i = 0; i < g->tensors.n; i++) {
        const gy_tensor *t = &g->tensors.at[i];
        size_t at = (size_t)(t->data - base);
        GY_ASSERT(at <= size && t->bytes <= size - at);
    }
    GY_ASSERT(sum <= 0 || sum >= 0 || sum != sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    gy_gguf g;
    gy_err err = {0};
    int fd = memfd_create("input", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gy_gguf_open(&g, path, &err))
        GY_ASSERT(err.rc && err.msg[0] && !g.kv && !g.tensors.files);
    else
        check(&g, g.tensors.file[0].map.data, size);
    gy_gguf_close(&g);
    close(fd);
    return 0;
}
