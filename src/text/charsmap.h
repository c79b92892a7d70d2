/* text/charsmap - sentencepiece's precompiled table of replacements.
 *
 *     bytes:  u32 trie bytes | trie: u32 units (darts-clone double array) | replacements
 *
 * Replacements end with a NUL each.
 *
 * A key found in the trie gives the place of its replacement. Bytes come from outside: every read
 * is checked. Owner: the caller. Thread: constant. */
#ifndef GY_TEXT_CHARSMAP_H
#define GY_TEXT_CHARSMAP_H

#include "base/err.h"

typedef struct {
    uint32_t *unit; /* [n_units] */
    size_t n_units;
    char *text; /* [n_text], ended by a NUL */
    size_t n_text;
} gy_charsmap; /* all-zero is empty */

gy_rc gy_charsmap_open(gy_charsmap *map, const uint8_t *bytes, size_t n, gy_err *err); /* copies */
void gy_charsmap_free(gy_charsmap *map);

/* The replacement of the shortest (or the longest) key that s[n] starts with, NUL-terminated; NULL
 * when there is none. *key is the key's length. */
const char *gy_charsmap_find(const gy_charsmap *map, const char *s, size_t n, bool longest,
                             size_t *key);

#endif
