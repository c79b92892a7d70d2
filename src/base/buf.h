/* base/buf - a growing byte buffer.
 *
 * All-zero is empty. Failure to grow is remembered (oom) and later writes do nothing, so that a
 * writer checks once at the end. p is NUL-terminated whenever it is not NULL. */
#ifndef GY_BASE_BUF_H
#define GY_BASE_BUF_H

#include <stddef.h>
#include <string.h>

#include "gyre.h"

typedef struct {
    char *p;
    size_t n, cap;
    size_t max; /* most bytes allowed; 0: no limit. Passing it sets over, and writes stop */
    bool oom, over;
} gy_buf;

bool gy_buf_need(gy_buf *b, size_t more); /* room for more bytes and a NUL */
void gy_buf_add(gy_buf *b, const void *s, size_t n);
void gy_buf_puts(gy_buf *b, const char *s);
void gy_buf_printf(gy_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Surrogates and values past U+10FFFF become U+FFFD. */
void gy_buf_utf8(gy_buf *b, uint32_t code_point);
/* As a quoted JSON string; bad UTF-8 becomes U+FFFD. */
void gy_buf_json(gy_buf *b, const char *s, size_t n);
/* Gives the bytes away (gy_free), or NULL when oom or over. */
char *gy_buf_take(gy_buf *b, size_t *n);
void gy_buf_free(gy_buf *b);

static inline void gy_buf_c(gy_buf *b, char c) {
    if (b->n + 1 < b->cap && (!b->max || b->n < b->max)) {
        b->p[b->n++] = c, b->p[b->n] = 0;
    } else {
        gy_buf_add(b, &c, 1);
    }
}

#endif
