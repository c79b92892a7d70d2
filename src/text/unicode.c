#include "text/unicode.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/unicode_tables.h"

enum {
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    S_BASE = 0xAC00,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

static const gy_uc_record *record_of(uint32_t cp) {
    if (cp > 0x10FFFF) cp = 0xFFFF; /* a noncharacter: unassigned, maps to itself */
    return &gy_uc_records[gy_uc_stage2[gy_uc_stage1[cp >> 7] << 7 | (cp & 127)]];
}

/* ---- Properties ---- */

gy_uc_cat gy_uc_category(uint32_t cp) {
    return (gy_uc_cat)record_of(cp)->cat;
}

/* Whole blocks that repeat a block of only this category are stepped over. */
uint32_t gy_uc_category_run(uint32_t cp) {
    gy_uc_cat cat = gy_uc_category(cp);
    uint32_t start = cp;
    for (cp++; cp <= 0x10FFFF; cp++) {
        uint32_t b = cp >> 7;
        bool whole = !(cp & 127) && cp - 128 >= start && gy_uc_stage1[b] == gy_uc_stage1[b - 1];
        if (whole)
            cp += 127;
        else if (gy_uc_category(cp) != cat)
            break;
    }
    return cp - 1;
}

bool gy_uc_space(uint32_t cp) {
    if (cp < 0x85) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool gy_uc_alpha(uint32_t cp) {
    gy_uc_cat cat = gy_uc_category(cp);
    return cat >= GY_UC_LU && cat <= GY_UC_LO;
}

bool gy_uc_printable(uint32_t cp) {
    gy_uc_cat cat = gy_uc_category(cp);
    return cp == ' ' || (cat >= GY_UC_LU && cat <= GY_UC_SO);
}

uint32_t gy_uc_fold(uint32_t cp) {
    return cp + (uint32_t)record_of(cp)->fold;
}

/* ---- Case ---- */

typedef enum { UPPER, LOWER, TITLE } case_kind;

static const gy_uc_special *special_of(uint32_t cp) {
    int lo = 0, hi = gy_uc_n_specials - 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (gy_uc_specials[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return &gy_uc_specials[lo];
}

static void put_case(gy_buf *out, const gy_uc_record *r, uint32_t cp, case_kind kind) {
    if (r->flags & GY_UC_SPECIAL) {
        const gy_uc_special *sp = special_of(cp);
        const uint32_t *to = kind == UPPER ? sp->upper : kind == LOWER ? sp->lower : sp->title;
        for (int i = 0; i < 3 && to[i]; i++) gy_buf_utf8(out, to[i]);
        return;
    }
    int32_t distance = kind == UPPER ? r->upper : kind == LOWER ? r->lower : r->title;
    gy_buf_utf8(out, cp + (uint32_t)distance);
}

/* Whether a capital sigma, with before telling whether a cased letter precedes it, ends a word: no
 * cased letter follows in s[n], ignorable characters aside. */
static bool sigma_is_final(bool before, const char *s, size_t n) {
    if (!before) return false;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += gy_utf8_get(s + i, n - i, &cp);
        unsigned flags = record_of(cp)->flags;
        if (!(flags & GY_UC_IGNORABLE)) return !(flags & GY_UC_CASED);
    }
    return true;
}

static void put_lower(gy_buf *out, const gy_uc_record *r, uint32_t cp, bool before, const char *s,
                      size_t n) {
    if (cp == 0x3A3)
        gy_buf_utf8(out, sigma_is_final(before, s, n) ? 0x3C2 : 0x3C3);
    else
        put_case(out, r, cp, LOWER);
}

void gy_uc_upper_text(gy_buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += gy_utf8_get(s + i, n - i, &cp);
        if (cp < 0x80)
            gy_buf_c(out, (char)(cp >= 'a' && cp <= 'z' ? cp - 32 : cp));
        else
            put_case(out, record_of(cp), cp, UPPER);
    }
}

void gy_uc_lower_text(gy_buf *out, const char *s, size_t n) {
    bool before = false;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += gy_utf8_get(s + i, n - i, &cp);
        const gy_uc_record *r = record_of(cp);
        put_lower(out, r, cp, before, s + i, n - i);
        if (!(r->flags & GY_UC_IGNORABLE)) before = r->flags & GY_UC_CASED;
    }
}

void gy_uc_lower_chars(gy_buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += gy_utf8_get(s + i, n - i, &cp);
        if (cp < 0x80)
            gy_buf_c(out, (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
        else
            put_case(out, record_of(cp), cp, LOWER);
    }
}

void gy_uc_title_text(gy_buf *out, const char *s, size_t n) {
    bool before = false, in_word = false;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += gy_utf8_get(s + i, n - i, &cp);
        const gy_uc_record *r = record_of(cp);
        if (in_word)
            put_lower(out, r, cp, before, s + i, n - i);
        else
            put_case(out, r, cp, TITLE);
        in_word = r->flags & GY_UC_CASED;
        if (!(r->flags & GY_UC_IGNORABLE)) before = in_word;
    }
}

/* ---- Normal forms ---- */

/* Text is cut into segments that start at a character which neither changes, reorders nor composes
 * with what is before it. Such a character alone is copied; longer segments are decomposed, ordered
 * and composed here. */
typedef struct {
    uint32_t *item, *spare; /* [cap] code point | combining class << 24 */
    size_t n, cap;
    uint32_t small[2][64];
    bool oom;
} segment;

static void segment_add(segment *g, uint32_t cp) {
    if (g->n == g->cap) {
        size_t cap = g->cap * 2;
        uint32_t *item = gy_alloc_n(cap, 8);
        if (!item) {
            g->oom = true;
            return;
        }
        memcpy(item, g->item, g->n * 4);
        if (g->item != g->small[0]) gy_free(g->item);
        g->item = item, g->spare = item + cap, g->cap = cap;
    }
    g->item[g->n++] = cp | (uint32_t)record_of(cp)->ccc << 24;
}

static const gy_uc_decomp *decomp_of(const gy_uc_decomp *table, int n, uint32_t cp) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (table[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && table[lo].cp == cp ? &table[lo] : NULL;
}

static void decompose(segment *g, uint32_t cp, bool compat) {
    if (cp >= S_BASE && cp < S_BASE + S_COUNT) {
        uint32_t at = cp - S_BASE;
        segment_add(g, L_BASE + at / (V_COUNT * T_COUNT));
        segment_add(g, V_BASE + at / T_COUNT % V_COUNT);
        if (at % T_COUNT) segment_add(g, T_BASE + at % T_COUNT);
        return;
    }
    const gy_uc_decomp *d = compat ? decomp_of(gy_uc_compat, gy_uc_n_compat, cp) : NULL;
    if (!d) d = decomp_of(gy_uc_canon, gy_uc_n_canon, cp);
    if (!d) {
        segment_add(g, cp);
        return;
    }
    for (uint32_t i = 0; i < (d->at & 31); i++) segment_add(g, gy_uc_pool[(d->at >> 5) + i]);
}

/* Stable sort of item[n] by combining class; all classes are non-zero. */
static void order_run(uint32_t *item, uint32_t *spare, size_t n) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            uint32_t x = item[i];
            size_t j = i;
            for (; j && item[j - 1] >> 24 > x >> 24; j--) item[j] = item[j - 1];
            item[j] = x;
        }
        return;
    }
    size_t place[257] = {0};
    for (size_t i = 0; i < n; i++) place[(item[i] >> 24) + 1]++;
    for (int c = 0; c < 256; c++) place[c + 1] += place[c];
    for (size_t i = 0; i < n; i++) spare[place[item[i] >> 24]++] = item[i];
    memcpy(item, spare, n * 4);
}

static void order(segment *g) {
    for (size_t i = 0; i < g->n;) {
        size_t end = i;
        while (end < g->n && g->item[end] >> 24) end++;
        if (end - i > 1) order_run(g->item + i, g->spare, end - i);
        i = end + 1;
    }
}

/* The primary composite of a pair, or 0. */
static uint32_t pair_whole(uint32_t first, uint32_t second) {
    if (second >= V_BASE && second < T_BASE + T_COUNT) {
        if (first >= L_BASE && first < L_BASE + L_COUNT && second < V_BASE + V_COUNT) {
            return S_BASE + ((first - L_BASE) * V_COUNT + second - V_BASE) * T_COUNT;
        }
        bool lv = first >= S_BASE && first < S_BASE + S_COUNT && (first - S_BASE) % T_COUNT == 0;
        return lv && second > T_BASE ? first + second - T_BASE : 0;
    }
    int lo = 0, hi = gy_uc_n_pairs;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        const gy_uc_pair *p = &gy_uc_pairs[mid];
        if (p->first < first || (p->first == first && p->second < second))
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == gy_uc_n_pairs) return 0;
    const gy_uc_pair *p = &gy_uc_pairs[lo];
    return p->first == first && p->second == second ? p->whole : 0;
}

static void compose(segment *g) {
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < g->n; i++) {
        uint32_t x = g->item[i], ccc = x >> 24;
        bool reach = starter != SIZE_MAX && (kept - 1 == starter || g->item[kept - 1] >> 24 < ccc);
        uint32_t whole = reach ? pair_whole(g->item[starter], x & 0xFFFFFF) : 0;
        if (whole) {
            g->item[starter] = whole;
            continue;
        }
        if (!ccc) starter = kept;
        g->item[kept++] = x;
    }
    g->n = kept;
}

bool gy_uc_is_normal(gy_nform form, const char *s, size_t n) {
    unsigned no = (unsigned)GY_UC_NOT_C << form;
    for (size_t i = 0; i < n;) {
        uint64_t eight;
        while (n - i >= 8 && (memcpy(&eight, s + i, 8), !(eight & 0x8080808080808080))) i += 8;
        if (i == n) break;
        uint32_t cp;
        size_t bytes = gy_utf8_get(s + i, n - i, &cp);
        if (cp < 0x80) {
            i++;
            continue;
        }
        if (record_of(cp)->flags & no) return false;
        if (cp == 0xFFFD && (bytes != 3 || memcmp(s + i, "\xEF\xBF\xBD", 3) != 0)) return false;
        i += bytes;
    }
    return true;
}

/* Copies characters that stand for themselves. Returns where the next segment starts: at the last
 * of them, for what follows may compose with it, or at n. */
static size_t copy_plain(gy_buf *out, unsigned no, const char *s, size_t i, size_t n) {
    size_t from = i, last = i;
    while (i < n) {
        uint32_t cp;
        if (!(s[i] & 0x80)) {
            last = i++;
            continue;
        }
        size_t bytes = gy_utf8_get(s + i, n - i, &cp);
        if (record_of(cp)->flags & no) {
            gy_buf_add(out, s + from, last - from);
            return last;
        }
        last = i, i += bytes;
        if (cp == 0xFFFD && (bytes != 3 || memcmp(s + last, "\xEF\xBF\xBD", 3) != 0)) {
            gy_buf_add(out, s + from, last - from);
            gy_buf_utf8(out, cp);
            from = last = i;
        }
    }
    gy_buf_add(out, s + from, n - from);
    return n;
}

void gy_uc_normalize(gy_buf *out, gy_nform form, const char *s, size_t n) {
    unsigned no = (unsigned)GY_UC_NOT_C << form;
    segment g = {.cap = 64};
    g.item = g.small[0], g.spare = g.small[1];
    for (size_t i = 0; i < n && !g.oom;) {
        i = copy_plain(out, no, s, i, n);
        g.n = 0;
        for (bool first = true; i < n && !g.oom; first = false) {
            uint32_t cp;
            size_t bytes = gy_utf8_get(s + i, n - i, &cp);
            if (!first && !(record_of(cp)->flags & no)) break;
            decompose(&g, cp, form == GY_NFKC || form == GY_NFKD);
            i += bytes;
        }
        order(&g);
        if (form == GY_NFC || form == GY_NFKC) compose(&g);
        for (size_t k = 0; k < g.n; k++) gy_buf_utf8(out, g.item[k] & 0xFFFFFF);
    }
    if (g.oom) out->oom = true;
    if (g.item != g.small[0]) gy_free(g.item);
}

/* ---- Grapheme clusters ---- */

typedef enum { EXTEND, SPACING, PREPEND, CONTROL, OTHER } cluster_kind;

static cluster_kind cluster_kind_of(uint32_t cp) {
    if (cp < 0x80) return cp < 0x20 || cp == 0x7F ? CONTROL : OTHER;
    int lo = 0, hi = gy_uc_n_graphemes;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (gy_uc_graphemes[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == gy_uc_n_graphemes || gy_uc_graphemes[lo].lo > cp) return OTHER;
    return (cluster_kind)gy_uc_graphemes[lo].kind;
}

size_t gy_uc_cluster(const char *s, size_t n) {
    uint32_t cp;
    size_t i = gy_utf8_get(s, n, &cp);
    cluster_kind before = cluster_kind_of(cp);
    if (before == CONTROL) return i < n && cp == '\r' && s[i] == '\n' ? 2 : i;
    while (i < n) {
        size_t bytes = gy_utf8_get(s + i, n - i, &cp);
        cluster_kind kind = cluster_kind_of(cp);
        bool joins = kind == EXTEND || kind == SPACING || (before == PREPEND && kind != CONTROL);
        if (!joins) break;
        i += bytes, before = kind;
    }
    return i;
}
