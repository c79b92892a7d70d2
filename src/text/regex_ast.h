/* text/regex_ast - a pattern as a tree; between the parser and the compiler of text/regex only.
 *
 *     "a|b+(?!c)"  ->  ALT( SET a, CAT( REPEAT 1.. (SET b), AHEAD not (SET c) ) )
 *
 * Everything that consumes is a SET: one code point of set[node->set]. Anchors are AHEAD and BEHIND
 * over sets. Nodes live in the arena, sets in set[]; gy_rx_free ends both. */
#ifndef GY_TEXT_REGEX_AST_H
#define GY_TEXT_REGEX_AST_H

#include "base/mem.h"
#include "text/regex_set.h"

typedef enum {
    GY_RX_EMPTY,
    GY_RX_SET,
    GY_RX_CAT,    /* children in order */
    GY_RX_ALT,    /* children by preference */
    GY_RX_REPEAT, /* child, min..max times; max -1: no limit */
    GY_RX_ATOMIC, /* child, whose first way to match is its only one */
    GY_RX_AHEAD,  /* child matches here (negated: does not), nothing consumed */
    GY_RX_BEHIND, /* child matches up to here */
    GY_RX_EDGE    /* between a member of set and something else; negated: not so */
} gy_rx_kind;

typedef struct gy_rx_node gy_rx_node;
struct gy_rx_node {
    gy_rx_kind kind;
    bool negated, lazy;
    int set, min, max;
    gy_rx_node *child, *next; /* first child; next sibling */
};

typedef struct {
    gy_arena arena;
    gy_cset *set; /* [n_sets] tidy, all different */
    int n_sets, cap_sets;
    const gy_rx_node *root;
} gy_rx_ast;

enum { GY_RX_SETS_MAX = 4096, GY_RX_DEPTH_MAX = 200, GY_RX_REPEAT_MAX = 100000 };

/* ast is all-zero before; gy_rx_free it afterwards, on failure too. */
gy_rc gy_rx_parse(const char *pattern, size_t n, gy_rx_ast *ast, gy_err *err);
void gy_rx_free(gy_rx_ast *ast);

#endif
