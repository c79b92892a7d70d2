/* Any bytes as "pattern NUL text": compiling must refuse or succeed, searching must end, and the
 * two machines must agree on every match. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/regex_prog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n_pattern = nul ? (size_t)(nul - data) : size;
    size_t n = nul ? size - n_pattern - 1 : 0;
    const char *text = nul ? (const char *)nul + 1 : "";
    if (n_pattern > 400 || n > 300) return 0;
    gy_regex *re = NULL;
    gy_err err = {0};
    if (gy_regex_new((const char *)data, n_pattern, &re, &err)) {
        if (!err.rc || !err.msg[0] || re) abort();
        return 0;
    }
    /* Repeats of repeats make programs whose every step is long. */
    if (re->n_code > 4000) n = n < 20 ? n : 20;
    for (size_t at = 0, matches = 0; at <= n && matches < 50; matches++) {
        size_t s1 = 0, e1 = 0, s2 = 0, e2 = 0;
        bool a = gy_regex_find(re, text, n, at, &s1, &e1);
        bool b = gy_rx_list_find(re, 0, (gy_rx_mode){0}, text, n, at, &s2, &e2);
        if (a != b || (a && (s1 != s2 || e1 != e2 || s1 < at || e1 < s1 || e1 > n))) abort();
        if (!a) break;
        uint32_t cp;
        at = e1 > at ? e1 : at < n ? at + gy_utf8_get(text + at, n - at, &cp) : n + 1;
    }
    gy_regex_free(re);
    return 0;
}
