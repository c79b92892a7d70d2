#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rc_names[] = {"ok",       "io",        "format",   "unsupported",
                                       "memory",   "limit",     "cancel",   "device",
                                       "argument", "not-found", "integrity"};

const char *gy_rc_name(gy_rc rc) {
    return (unsigned)rc < sizeof rc_names / sizeof *rc_names ? rc_names[rc] : "unknown";
}

static void mark_cut(gy_err *err, int need) {
    if (need >= (int)sizeof err->msg) memcpy(err->msg + sizeof err->msg - 4, "...", 4);
}

gy_rc gy_fail(gy_err *err, gy_rc rc, const char *fmt, ...) {
    va_list ap;
    if (!err) return rc;
    if (err->rc) return err->rc;
    err->rc = rc;
    va_start(ap, fmt);
    mark_cut(err, vsnprintf(err->msg, sizeof err->msg, fmt, ap));
    va_end(ap);
    return rc;
}

gy_rc gy_fail_in(gy_err *err, const char *fmt, ...) {
    char tail[sizeof err->msg], head[256];
    va_list ap;
    if (!err || !err->rc) return err ? err->rc : GY_OK;
    memcpy(tail, err->msg, sizeof tail);
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    mark_cut(err, snprintf(err->msg, sizeof err->msg, "%s: %s", head, tail));
    return err->rc;
}

const char *gy_err_quote(char out[64], const char *s, size_t n) {
    size_t keep = n > 60 ? 57 : n;
    for (size_t i = 0; i < keep; i++) out[i] = s[i] >= 32 && s[i] < 127 ? s[i] : '?';
    memcpy(out + keep, n > 60 ? "..." : "", n > 60 ? 4 : 1);
    return out;
}

void gy_assert_failed(const char *cond, const char *file, int line) {
    fprintf(stderr, "gyre: broken invariant: %s (%s:%d)\n", cond, file, line);
    abort();
}
