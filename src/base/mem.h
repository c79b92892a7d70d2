/* base/mem - allocation.
 *
 * gy_alloc family: zeroed memory through one hook, so that tests can make the Nth allocation fail
 * and debug builds can forbid allocation inside a step. Arena: many small objects freed together;
 * blocks never move.
 *
 *     arena -> [block 64 KiB: obj obj obj ..free..] -> [block] -> ...
 *
 * Thread: gy_alloc and gy_free may be called from any thread; an arena belongs to one thread at a
 * time. */
#ifndef GY_BASE_MEM_H
#define GY_BASE_MEM_H

#include <stddef.h>

#include "gyre.h"

void *gy_alloc(size_t bytes); /* zeroed; NULL on failure; bytes 0 gives a unique pointer */
void *gy_alloc_n(size_t count, size_t bytes); /* zeroed; NULL on failure or overflow */
void *gy_realloc(void *p, size_t bytes);      /* NULL on failure, p then unchanged; not zeroed */
void *gy_alloc_aligned(size_t bytes);         /* 64-byte aligned, zeroed, also freed with gy_free */
char *gy_strdup(const char *s);
char *gy_strndup(const char *s, size_t n); /* s[n] may hold NULs; a NUL is added */

/* Test hook: the Nth allocation from now fails, once; 0 turns it off. Allocations so far are
 * counted. */
void gy_alloc_fail_at(long nth);
long gy_alloc_count(void);
/* Bytes asked for on this thread so far, given back or not. */
int64_t gy_alloc_bytes(void);
/* While forbidden, an allocation on this thread aborts in debug builds (GY_DEBUG); nests. */
void gy_alloc_forbid(int on);

typedef struct gy_arena_block gy_arena_block;
typedef struct {
    gy_arena_block *block;
    size_t used, total;
} gy_arena; /* all-zero is an empty arena */

void *gy_arena_alloc(gy_arena *a, size_t bytes); /* zeroed, 16-byte aligned; NULL on failure */
void *gy_arena_raw(gy_arena *a, size_t bytes);   /* not zeroed: for what is written at once */
char *gy_arena_strndup(gy_arena *a, const char *s, size_t n);
char *gy_arena_printf(gy_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void gy_arena_free(gy_arena *a); /* everything at once; a is empty again */

#endif
