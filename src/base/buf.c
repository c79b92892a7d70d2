#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"

bool gy_buf_need(gy_buf *b, size_t more) {
    if (b->oom || b->over) return false;
    if (b->max && (more > b->max || b->n > b->max - more)) return !(b->over = true);
    if (more >= SIZE_MAX / 4 || b->n >= SIZE_MAX / 4) return !(b->oom = true);
    if (b->n + more + 1 <= b->cap) return true;
    size_t cap = b->cap ? b->cap * 2 : 64;
    if (cap < b->n + more + 1) cap = b->n + more + 1;
    char *p = gy_realloc(b->p, cap);
    if (!p) return !(b->oom = true);
    b->p = p, b->cap = cap;
    return true;
}

void gy_buf_add(gy_buf *b, const void *s, size_t n) {
    if (!gy_buf_need(b, n)) return;
    if (n) memcpy(b->p + b->n, s, n);
    b->n += n;
    b->p[b->n] = 0;
}

void gy_buf_puts(gy_buf *b, const char *s) {
    gy_buf_add(b, s, strlen(s));
}

void gy_buf_printf(gy_buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !gy_buf_need(b, (size_t)n)) return;
    va_start(ap, fmt);
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

void gy_buf_utf8(gy_buf *b, uint32_t c) {
    char out[4];
    gy_buf_add(b, out, gy_utf8_put(out, c));
}

void gy_buf_json(gy_buf *b, const char *s, size_t n) {
    static const char hex[] = "0123456789abcdef";
    gy_buf_c(b, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x80) {
            uint32_t cp;
            i += gy_utf8_get(s + i, n - i, &cp);
            gy_buf_utf8(b, cp);
            continue;
        }
        i++;
        const char *two = c == '"'    ? "\\\""
                          : c == '\\' ? "\\\\"
                          : c == '\n' ? "\\n"
                          : c == '\r' ? "\\r"
                          : c == '\t' ? "\\t"
                          : c == '\b' ? "\\b"
                          : c == '\f' ? "\\f"
                                      : NULL;
        if (two)
            gy_buf_add(b, two, 2);
        else if (c < 0x20)
            gy_buf_add(b, (char[6]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        else
            gy_buf_c(b, (char)c);
    }
    gy_buf_c(b, '"');
}

char *gy_buf_take(gy_buf *b, size_t *n) {
    if (!gy_buf_need(b, 0)) return NULL;
    b->p[b->n] = 0;
    char *p = b->p;
    if (n) *n = b->n;
    *b = (gy_buf){0};
    return p;
}

void gy_buf_free(gy_buf *b) {
    gy_free(b->p);
    *b = (gy_buf){0};
}
