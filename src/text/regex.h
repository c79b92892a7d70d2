/* text/regex - the regular expressions of pre-tokenisers, as an automaton over bytes.
 *
 * Semantics are leftmost, first alternative wins (Oniguruma, as the tokenizers library uses it), over UTF-8 code points
 * with Unicode 16 classes. Covered: literals and escapes (\r \n \t \s \S \d \D \w \W \xHH \x{H..} \uHHHH \p{..} \P{..}
 * \h of Oniguruma is refused), classes with ranges, nested escapes, negation and && , . ^ $ \b \A \z, groups (?:) ()
 * (?i:) (?i), greedy, lazy and possessive ? * + {m,n}, alternation, lookahead (?=) (?!) and lookbehind (?<!) (?<=) of one
 * code point. Anything else is GY_EUNSUPPORTED naming the construct. Counted repeats are limited so that a program stays
 * under 1 MiB. Searching is linear in the text for patterns without nested lookahead.
 * A compiled pattern may be used from any thread at once (lazily built states are guarded or per scanner). */
#ifndef GY_TEXT_REGEX_H
#define GY_TEXT_REGEX_H

#include "base/err.h"

typedef struct gy_regex gy_regex;

gy_rc gy_regex_new(const char *pattern, size_t n, gy_regex **re, gy_err *err);
void gy_regex_free(gy_regex *re);
/* First match in text[n] that starts at or after from. Text before from is seen by lookbehind. Returns false when there
 * is none; else [*start, *end), which may be empty. */
bool gy_regex_find(const gy_regex *re, const char *text, size_t n, size_t from, size_t *start, size_t *end);

#endif
