/* text/regex - the regular expressions of pre-tokenisers, as an automaton over code points.
 *
 * Semantics are leftmost, first alternative wins, over UTF-8 with Unicode 16 classes, as
 * Oniguruma's Ruby syntax reads them (what the tokenizers library uses). Covered: literals and
 * escapes (\r \n \t \s \S \d \D \w \W \xHH \x{H..} \uHHHH \p{..} \P{..}; \h of Oniguruma is
 * refused), classes with ranges, nested classes, negation and && , . ^ $ \b \B \A \z \Z, groups
 * (?:) () (?i:) (?i), greedy, lazy and possessive ? * + {m,n}, alternation, lookahead (?=) (?!),
 * lookbehind (?<!) (?<=) of one code point. ^ and $ match at lines, (?m) lets . match a newline,
 * {n}? is (?:{n})?, all as there. Folding is simple: (?i) does not join \u00DF and "ss". Possessive
 * repeats are of one character or class only. Anything else is GY_EUNSUPPORTED naming the
 * construct. Programs stay under 1 MiB, at most two lookaheads deep and five wide. Searching is
 * linear in the text for patterns without lookahead of several characters. Ill-formed bytes read as
 * U+FFFD for each maximal subpart. A compiled pattern may be used from any thread at once (lazily
 * built states are guarded). */
#ifndef GY_TEXT_REGEX_H
#define GY_TEXT_REGEX_H

#include "base/err.h"

typedef struct gy_regex gy_regex;

gy_rc gy_regex_new(const char *pattern, size_t n, gy_regex **re, gy_err *err);
void gy_regex_free(gy_regex *re);
/* First match in text[n] that starts at or after from. Text before from is seen by lookbehind.
 * Returns false when there is none; else [*start, *end), which may be empty. */
bool gy_regex_find(const gy_regex *re, const char *text, size_t n, size_t from, size_t *start,
                   size_t *end);

#endif
