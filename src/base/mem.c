#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static atomic_long alloc_count;
static atomic_long fail_at;
static _Thread_local int forbidden;
static _Thread_local int64_t asked;

static bool may_alloc(size_t bytes) {
#ifdef GY_DEBUG
    GY_ASSERT(!forbidden);
#endif
    long n = atomic_fetch_add(&alloc_count, 1) + 1;
    asked += (int64_t)bytes;
    return n != atomic_load(&fail_at);
}

void gy_alloc_fail_at(long nth) {
    atomic_store(&fail_at, nth ? atomic_load(&alloc_count) + nth : 0);
}
long gy_alloc_count(void) {
    return atomic_load(&alloc_count);
}
int64_t gy_alloc_bytes(void) {
    return asked;
}
void gy_alloc_forbid(int on) {
    forbidden += on ? 1 : -1;
}

void *gy_alloc(size_t bytes) {
    return may_alloc(bytes) ? calloc(1, bytes ? bytes : 1) : NULL;
}

void *gy_alloc_n(size_t count, size_t bytes) {
    if (bytes && count > SIZE_MAX / 2 / bytes) return NULL;
    return gy_alloc(count * bytes);
}

void *gy_realloc(void *p, size_t bytes) {
    return may_alloc(bytes) ? realloc(p, bytes ? bytes : 1) : NULL;
}

void *gy_alloc_aligned(size_t bytes) {
    if (bytes > SIZE_MAX / 2 || !may_alloc(bytes)) return NULL;
    size_t padded = (bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, padded ? padded : 64);
    return p ? memset(p, 0, padded) : NULL;
}

void gy_free(void *p) {
    free(p);
}

char *gy_strndup(const char *s, size_t n) {
    char *copy = n < SIZE_MAX ? gy_alloc(n + 1) : NULL;
    return copy ? memcpy(copy, s, n) : NULL;
}

char *gy_strdup(const char *s) {
    return gy_strndup(s, strlen(s));
}

struct gy_arena_block {
    gy_arena_block *next;
    size_t bytes; /* usable, after this header */
    _Alignas(16) char data[];
};

enum { ARENA_BLOCK = 64 * 1024 };

void *gy_arena_raw(gy_arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!a->block || a->block->bytes - a->used < bytes) {
        /* Blocks grow with the arena so that a large arena has few; a huge object gets its own. */
        size_t want = ARENA_BLOCK + a->total / 4;
        if (want > ((size_t)8 << 20)) want = (size_t)8 << 20;
        if (want < bytes) want = bytes;
        gy_arena_block *b = may_alloc(sizeof *b + want) ? malloc(sizeof *b + want) : NULL;
        if (!b) return NULL;
        b->next = a->block, b->bytes = want;
        a->block = b, a->used = 0, a->total += want;
    }
    void *p = a->block->data + a->used;
    a->used += bytes;
    return p;
}

void *gy_arena_alloc(gy_arena *a, size_t bytes) {
    void *p = gy_arena_raw(a, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

char *gy_arena_strndup(gy_arena *a, const char *s, size_t n) {
    char *copy = n < SIZE_MAX ? gy_arena_alloc(a, n + 1) : NULL;
    return copy ? memcpy(copy, s, n) : NULL;
}

char *gy_arena_printf(gy_arena *a, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) return NULL;
    if ((size_t)n < sizeof text) return gy_arena_strndup(a, text, (size_t)n);
    char *p = gy_arena_alloc(a, (size_t)n + 1);
    if (!p) return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

void gy_arena_free(gy_arena *a) {
    for (gy_arena_block *b = a->block, *next; b; b = next) next = b->next, free(b);
    *a = (gy_arena){0};
}
