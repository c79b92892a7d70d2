#include "text/regex.h"

#include "base/mem.h"
#include "text/regex_prog.h"

gy_rc gy_regex_new(const char *pattern, size_t n, gy_regex **out, gy_err *err) {
    gy_rx_ast ast = {0};
    gy_regex *re = gy_alloc(sizeof *re);
    gy_rc rc = re ? GY_OK : gy_fail(err, GY_ENOMEM, "regex: out of memory");
    if (!rc) rc = gy_rx_parse(pattern, n, &ast, err);
    if (!rc) rc = gy_rx_compile(&ast, re, err);
    gy_rx_free(&ast);
    if (rc)
        gy_regex_free(re);
    else
        *out = re;
    return rc;
}

void gy_regex_free(gy_regex *re) {
    if (!re) return;
    gy_rx_dfa_free(re);
    gy_free(re->code), gy_free(re->page), gy_free(re->symbol), gy_free(re->member);
    gy_free(re->behind), gy_free(re->behind_symbol), gy_free(re->may_start);
    gy_free(re);
}

/* The next place, from i on, where a match may start; n + 1 when there is none. */
static size_t next_start(const gy_regex *re, const char *text, size_t n, size_t i) {
    if (!re->may_start) return i;
    while (i < n) {
        uint8_t c = (uint8_t)text[i];
        size_t bytes = 1;
        if (c < 0x80 ? re->ascii_start[c] : re->may_start[gy_rx_symbol(re, text, n, i, &bytes)])
            return i;
        i += bytes;
    }
    return n + 1;
}

/* Starts are tried one after the other, which is quick as long as failed tries stop early. When
 * they have read much more than was stepped over, the list machine takes over: it follows all
 * starts in one pass. */
bool gy_regex_find(const gy_regex *re, const char *text, size_t n, size_t from, size_t *start,
                   size_t *end) {
    enum { PATIENCE = 64, PATIENCE_FREE = 4096 };
    size_t wasted = 0, bytes = 1, stop;
    for (size_t i = from; i <= n; i += bytes) {
        i = next_start(re, text, n, i);
        if (i > n) return false;
        gy_rx_result r = gy_rx_dfa_match(re, 0, false, text, n, i, end, &stop);
        if (r == GY_RX_YES) return *start = i, true;
        wasted += stop - i;
        if (r == GY_RX_FULL || wasted > PATIENCE * (i - from) + PATIENCE_FREE) {
            return gy_rx_list_find(re, 0, (gy_rx_mode){0}, text, n, i, start, end);
        }
        bytes = 1;
        if (i < n) gy_rx_symbol(re, text, n, i, &bytes);
    }
    return false;
}
