#include "text/regex_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"
#include "text/unicode_tables.h"

enum { LAST = 0x10FFFF };

void gy_cset_free(gy_cset *s) {
    gy_free(s->r);
    *s = (gy_cset){0};
}

void gy_cset_add(gy_cset *s, uint32_t lo, uint32_t hi) {
    if (s->oom) return;
    if (s->n && s->r[s->n - 1].hi + 1 == lo) {
        s->r[s->n - 1].hi = hi;
        return;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        gy_crange *r = gy_realloc(s->r, cap * sizeof *r);
        if (!r) {
            s->oom = true;
            return;
        }
        s->r = r, s->cap = cap;
    }
    s->r[s->n++] = (gy_crange){lo, hi};
}

void gy_cset_add_set(gy_cset *s, const gy_cset *t) {
    for (size_t i = 0; i < t->n; i++) gy_cset_add(s, t->r[i].lo, t->r[i].hi);
    s->oom |= t->oom;
}

static int by_lo(const void *a, const void *b) {
    uint32_t x = ((const gy_crange *)a)->lo, y = ((const gy_crange *)b)->lo;
    return (x > y) - (x < y);
}

void gy_cset_tidy(gy_cset *s) {
    bool sorted = true;
    for (size_t i = 1; i < s->n && sorted; i++) sorted = s->r[i].lo > s->r[i - 1].hi + 1;
    if (sorted) return;
    qsort(s->r, s->n, sizeof *s->r, by_lo);
    size_t kept = 0;
    for (size_t i = 1; i < s->n; i++) {
        if (s->r[i].lo > s->r[kept].hi + 1)
            s->r[++kept] = s->r[i];
        else if (s->r[i].hi > s->r[kept].hi)
            s->r[kept].hi = s->r[i].hi;
    }
    s->n = kept + 1;
}

void gy_cset_negate(gy_cset *s) {
    gy_cset_tidy(s);
    gy_cset out = {.oom = s->oom};
    uint32_t next = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->r[i].lo > next) gy_cset_add(&out, next, s->r[i].lo - 1);
        next = s->r[i].hi + 1;
    }
    if (next <= LAST) gy_cset_add(&out, next, LAST);
    gy_cset_free(s);
    *s = out;
}

void gy_cset_keep(gy_cset *s, const gy_cset *t) {
    gy_cset_tidy(s);
    gy_cset out = {.oom = s->oom || t->oom};
    for (size_t i = 0, k = 0; i < s->n && k < t->n;) {
        uint32_t lo = s->r[i].lo > t->r[k].lo ? s->r[i].lo : t->r[k].lo;
        uint32_t hi = s->r[i].hi < t->r[k].hi ? s->r[i].hi : t->r[k].hi;
        if (lo <= hi) gy_cset_add(&out, lo, hi);
        if (s->r[i].hi < t->r[k].hi)
            i++;
        else
            k++;
    }
    gy_cset_free(s);
    *s = out;
}

bool gy_cset_has(const gy_cset *s, uint32_t cp) {
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->r[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n && s->r[lo].lo <= cp;
}

/* Every character of a folding class is either folded to another or the one that they fold to. So
 * the classes with a member in s are found first, by what they fold to, and then added whole. */
void gy_cset_fold(gy_cset *s) {
    gy_cset_tidy(s);
    gy_cset hit = {0}, more = {0};
    for (int i = 0; i < gy_uc_n_folds; i++) {
        const gy_uc_folding *f = &gy_uc_folds[i];
        if (gy_cset_has(s, f->cp) || gy_cset_has(s, f->to)) gy_cset_add(&hit, f->to, f->to);
    }
    gy_cset_tidy(&hit);
    for (int i = 0; i < gy_uc_n_folds && hit.n; i++) {
        const gy_uc_folding *f = &gy_uc_folds[i];
        if (gy_cset_has(&hit, f->to)) gy_cset_add(&more, f->cp, f->cp);
    }
    gy_cset_add_set(s, &hit), gy_cset_add_set(s, &more);
    gy_cset_free(&hit), gy_cset_free(&more);
    gy_cset_tidy(s);
}

/* ---- Properties ---- */

static void add_categories(gy_cset *s, uint32_t mask) {
    for (uint32_t cp = 0; cp <= LAST;) {
        uint32_t end = gy_uc_category_run(cp);
        if (mask >> gy_uc_category(cp) & 1) gy_cset_add(s, cp, end);
        cp = end + 1;
    }
}

#define M(c)  (1u << GY_UC_##c)
#define L_ALL (M(LU) | M(LL) | M(LT) | M(LM) | M(LO))
#define M_ALL (M(MN) | M(MC) | M(ME))
#define P_ALL (M(PC) | M(PD) | M(PS) | M(PE) | M(PI) | M(PF) | M(PO))
#define C_ALL (M(CC) | M(CF) | M(CS) | M(CO) | M(CN))
static const struct {
    const char *name;
    uint32_t mask;
} categories[] = {
    {"l", L_ALL},
    {"letter", L_ALL},
    {"lc", M(LU) | M(LL) | M(LT)},
    {"casedletter", M(LU) | M(LL) | M(LT)},
    {"lu", M(LU)},
    {"uppercaseletter", M(LU)},
    {"ll", M(LL)},
    {"lowercaseletter", M(LL)},
    {"lt", M(LT)},
    {"titlecaseletter", M(LT)},
    {"lm", M(LM)},
    {"modifierletter", M(LM)},
    {"lo", M(LO)},
    {"otherletter", M(LO)},
    {"m", M_ALL},
    {"mark", M_ALL},
    {"combiningmark", M_ALL},
    {"mn", M(MN)},
    {"nonspacingmark", M(MN)},
    {"mc", M(MC)},
    {"spacingmark", M(MC)},
    {"me", M(ME)},
    {"enclosingmark", M(ME)},
    {"n", M(ND) | M(NL) | M(NO)},
    {"number", M(ND) | M(NL) | M(NO)},
    {"nd", M(ND)},
    {"decimalnumber", M(ND)},
    {"digit", M(ND)},
    {"nl", M(NL)},
    {"letternumber", M(NL)},
    {"no", M(NO)},
    {"othernumber", M(NO)},
    {"p", P_ALL},
    {"punctuation", P_ALL},
    {"punct", P_ALL},
    {"pc", M(PC)},
    {"connectorpunctuation", M(PC)},
    {"pd", M(PD)},
    {"dashpunctuation", M(PD)},
    {"ps", M(PS)},
    {"openpunctuation", M(PS)},
    {"pe", M(PE)},
    {"closepunctuation", M(PE)},
    {"pi", M(PI)},
    {"initialpunctuation", M(PI)},
    {"pf", M(PF)},
    {"finalpunctuation", M(PF)},
    {"po", M(PO)},
    {"otherpunctuation", M(PO)},
    {"s", M(SM) | M(SC) | M(SK) | M(SO)},
    {"symbol", M(SM) | M(SC) | M(SK) | M(SO)},
    {"sm", M(SM)},
    {"mathsymbol", M(SM)},
    {"sc", M(SC)},
    {"currencysymbol", M(SC)},
    {"sk", M(SK)},
    {"modifiersymbol", M(SK)},
    {"so", M(SO)},
    {"othersymbol", M(SO)},
    {"z", M(ZS) | M(ZL) | M(ZP)},
    {"separator", M(ZS) | M(ZL) | M(ZP)},
    {"zs", M(ZS)},
    {"spaceseparator", M(ZS)},
    {"zl", M(ZL)},
    {"lineseparator", M(ZL)},
    {"zp", M(ZP)},
    {"paragraphseparator", M(ZP)},
    {"c", C_ALL},
    {"other", C_ALL},
    {"cc", M(CC)},
    {"control", M(CC)},
    {"cntrl", M(CC)},
    {"cf", M(CF)},
    {"format", M(CF)},
    {"cs", M(CS)},
    {"surrogate", M(CS)},
    {"co", M(CO)},
    {"privateuse", M(CO)},
    {"cn", M(CN)},
    {"unassigned", M(CN)},
    {"assigned", ~M(CN)},
    {"any", ~0u},
};

void gy_cset_add_space(gy_cset *s) {
    for (uint32_t cp = 0; cp <= 0x3000; cp++) {
        if (gy_uc_space(cp)) gy_cset_add(s, cp, cp);
    }
}

void gy_cset_add_digit(gy_cset *s) {
    add_categories(s, M(ND));
}

/* Alphabetic, marks, decimal digits, connectors. Alphabetic is letters, letter numbers, some marks,
 * and the circled and squared Latin letters. */
void gy_cset_add_word(gy_cset *s, bool bare) {
    add_categories(s, L_ALL | M_ALL | M(ND) | M(NL) | M(PC));
    gy_cset_add(s, 0x24B6, 0x24E9);
    gy_cset_add(s, 0x1F130, 0x1F149);
    gy_cset_add(s, 0x1F150, 0x1F169);
    gy_cset_add(s, 0x1F170, 0x1F189);
    if (!bare) return;
    /* Oniguruma answers for Latin-1 from another table, which has the superscript digits and the
     * fractions. */
    gy_cset_add(s, 0xB2, 0xB3);
    gy_cset_add(s, 0xB9, 0xB9);
    gy_cset_add(s, 0xBC, 0xBE);
}

bool gy_cset_add_property(gy_cset *s, const char *name, size_t n) {
    char plain[48];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (c == ' ' || c == '-' || c == '_') continue;
        if (k + 1 >= sizeof plain || (c & 0x80)) return false;
        plain[k++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    plain[k] = 0;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        if (!strcmp(plain, categories[i].name)) return add_categories(s, categories[i].mask), true;
    }
    if (!strcmp(plain, "space") || !strcmp(plain, "whitespace")) return gy_cset_add_space(s), true;
    if (!strcmp(plain, "word")) return gy_cset_add_word(s, true), true;
    if (!strcmp(plain, "ascii")) return gy_cset_add(s, 0, 0x7F), true;
    int script = 0;
    while (gy_uc_script_name[script] && strcmp(plain, gy_uc_script_name[script]) != 0) script++;
    if (!gy_uc_script_name[script]) return false;
    for (int i = 0; i < gy_uc_n_scripts; i++) {
        const gy_uc_script_range *r = &gy_uc_scripts[i];
        if (r->script == script) gy_cset_add(s, r->lo, r->hi);
    }
    return true;
}
