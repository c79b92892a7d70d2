#include "text/charsmap.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

gy_rc gy_charsmap_open(gy_charsmap *map, const uint8_t *bytes, size_t n, gy_err *err) {
    if (n < 8) return gy_fail(err, GY_EFORMAT, "charsmap: %zu bytes are too few", n);
    uint32_t trie = gy_load_u32(bytes);
    if (trie > n - 4 || trie % 4 || !trie) {
        return gy_fail(err, GY_EFORMAT, "charsmap: a trie of %u bytes in a table of %zu", trie, n);
    }
    map->n_units = trie / 4;
    map->n_text = n - 4 - trie;
    map->unit = gy_alloc_n(map->n_units, sizeof *map->unit);
    map->text = gy_strndup((const char *)bytes + 4 + trie, map->n_text);
    if (!map->unit || !map->text) {
        gy_charsmap_free(map);
        return gy_fail(err, GY_ENOMEM, "charsmap: out of memory");
    }
    for (size_t i = 0; i < map->n_units; i++) map->unit[i] = gy_load_u32(bytes + 4 + 4 * i);
    return GY_OK;
}

void gy_charsmap_free(gy_charsmap *map) {
    gy_free(map->unit), gy_free(map->text);
    *map = (gy_charsmap){0};
}

/* Bits of a unit: 0-7 and 31 label, 8 a leaf follows, 9 the offset is in units of 256, 10-30
 * offset. A leaf holds the value in bits 0-30. */
static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

const char *gy_charsmap_find(const gy_charsmap *map, const char *s, size_t n, bool longest,
                             size_t *key) {
    const char *found = NULL;
    if (!map->n_units) return NULL;
    size_t at = offset_of(map->unit[0]);
    for (size_t i = 0; i < n && s[i]; i++) {
        at ^= (uint8_t)s[i];
        if (at >= map->n_units) break;
        uint32_t unit = map->unit[at];
        if ((unit & 0x800000FF) != (uint8_t)s[i]) break;
        at ^= offset_of(unit);
        if (!(unit & 0x100)) continue;
        if (at >= map->n_units) break;
        size_t place = map->unit[at] & 0x7FFFFFFF;
        if (place > map->n_text) break;
        found = map->text + place, *key = i + 1;
        if (!longest) break;
    }
    return found;
}
