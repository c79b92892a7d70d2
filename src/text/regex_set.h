/* text/regex_set - sets of code points as sorted ranges, for building patterns.
 *
 * Ranges may be added in any order; gy_cset_tidy sorts and joins them. The other functions tidy
 * first. Failure to grow is remembered (oom). Owner: whoever holds the struct (gy_cset_free). */
#ifndef GY_TEXT_REGEX_SET_H
#define GY_TEXT_REGEX_SET_H

#include "base/err.h"

typedef struct {
    uint32_t lo, hi; /* inclusive */
} gy_crange;

typedef struct {
    gy_crange *r; /* [n] */
    size_t n, cap;
    bool oom;
} gy_cset; /* all-zero is empty */

void gy_cset_free(gy_cset *s);
void gy_cset_add(gy_cset *s, uint32_t lo, uint32_t hi);
void gy_cset_add_set(gy_cset *s, const gy_cset *t);
void gy_cset_tidy(gy_cset *s);
void gy_cset_negate(gy_cset *s);
void gy_cset_keep(gy_cset *s, const gy_cset *tidy); /* intersection */
bool gy_cset_has(const gy_cset *tidy, uint32_t cp);
void gy_cset_fold(gy_cset *s); /* adds what folds to the same as a member */

/* Adds a property by name: general categories, scripts and a few more, spelt in any case, with or
 * without spaces, '-' and '_'. Returns false when the name is not known. */
bool gy_cset_add_property(gy_cset *s, const char *name, size_t n);
void gy_cset_add_space(gy_cset *s);
void gy_cset_add_digit(gy_cset *s);
void gy_cset_add_word(gy_cset *s, bool bare); /* bare: as \w reads outside of a class */

#endif
