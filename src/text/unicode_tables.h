/* text/unicode_tables - the generated tables behind text/unicode; only unicode.c and regex_set.c
 * read them.
 *
 *     cp -> stage1[cp / 128] -> stage2[that * 128 + cp % 128] -> records[that]
 *
 * Mappings in a record are distances to add to the code point. Mappings to several code points lie
 * in specials, sorted by cp and zero-padded. A decomposition is complete (applied until nothing
 * changes) and lies in pool. */
#ifndef GY_TEXT_UNICODE_TABLES_H
#define GY_TEXT_UNICODE_TABLES_H

#include <stdint.h>

enum {
    GY_UC_CASED = 1,
    GY_UC_IGNORABLE = 2, /* Case_Ignorable */
    GY_UC_SPECIAL = 4,   /* upper, lower or title is in specials */
    GY_UC_NOT_C = 8      /* << gy_nform: may change, reorder or compose with what is before it */
};

typedef struct {
    int32_t upper, lower, title, fold;
    uint8_t cat, ccc, flags;
} gy_uc_record;

typedef struct {
    uint32_t cp, upper[3], lower[3], title[3];
} gy_uc_special;

typedef struct {
    uint32_t cp, at; /* at: place in pool << 5 | number of code points */
} gy_uc_decomp;

typedef struct {
    uint32_t first, second, whole;
} gy_uc_pair;

typedef struct {
    uint32_t lo, hi; /* inclusive */
    uint8_t script;  /* place in gy_uc_script_name */
} gy_uc_script_range;

typedef struct {
    uint32_t cp, to; /* simple folding, where it changes something */
} gy_uc_folding;

typedef struct {
    uint32_t lo, hi; /* inclusive */
    uint8_t kind;    /* 0 Extend or ZWJ, 1 SpacingMark, 2 Prepend, 3 Control, CR or LF */
} gy_uc_grapheme_range;

extern const gy_uc_record gy_uc_records[];
extern const uint16_t gy_uc_stage1[], gy_uc_stage2[];
extern const gy_uc_special gy_uc_specials[];
extern const int gy_uc_n_specials;
extern const gy_uc_decomp gy_uc_canon[],
    gy_uc_compat[]; /* compat: only where it differs from canon */
extern const int gy_uc_n_canon, gy_uc_n_compat;
extern const uint32_t gy_uc_pool[];
extern const gy_uc_pair gy_uc_pairs[]; /* sorted by first, second */
extern const int gy_uc_n_pairs;
extern const char *const gy_uc_script_name[]; /* lower case, no '_'; NULL-terminated */
extern const gy_uc_script_range gy_uc_scripts[];
extern const int gy_uc_n_scripts;
extern const gy_uc_folding gy_uc_folds[]; /* sorted by cp */
extern const int gy_uc_n_folds;
extern const gy_uc_grapheme_range gy_uc_graphemes[]; /* sorted */
extern const int gy_uc_n_graphemes;

#endif
