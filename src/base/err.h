/* base/err - how failure travels.
 *
 * External failure returns a gy_rc and fills the caller's gy_err; the first failure of a call wins,
 * so a caller may run several steps and look once. A broken invariant aborts through GY_ASSERT.
 * Kernels cannot fail. gy_rc and gy_err are public (gyre.h), which every module may include. */
#ifndef GY_BASE_ERR_H
#define GY_BASE_ERR_H

#include "gyre.h"

/* Records rc and a printf-style message unless err already holds a failure; returns err's code, or
 * rc when err is NULL. Messages longer than the buffer end in "...". Non-printable bytes from
 * outside must be passed through gy_err_quote first. */
gy_rc gy_fail(gy_err *err, gy_rc rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of an existing message: a file or tensor name added on the way out. */
gy_rc gy_fail_in(gy_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copies at most 60 bytes of s[n] into out, replacing everything but printable ASCII by '?', and
 * marks a cut with
 * "...". Returns out. */
const char *gy_err_quote(char out[64], const char *s, size_t n);

#define GY_ASSERT(cond) ((cond) ? (void)0 : gy_assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void gy_assert_failed(const char *cond, const char *file, int line);

#endif
