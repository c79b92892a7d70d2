/* text/jinja_parse - what the expression and the statement half of the parser share.
 *
 * Every function that returns a node gives NULL after an error, which is then in p->err. Nodes live
 * in the template's arena. */
#ifndef GY_TEXT_JINJA_PARSE_H
#define GY_TEXT_JINJA_PARSE_H

#include <stdarg.h>
#include <stdio.h>

#include "text/jinja.h"

typedef struct {
    gy_jn **v;
    uint32_t n, cap;
} gy_jlistb; /* a list of nodes being built */

typedef struct {
    gy_tmpl *t;
    const gy_jtok *tok;
    uint32_t at, n_tok;
    uint32_t *index, mask; /* hash of symbols: position + 1 */
    int depth, loops;      /* nesting; loops that a break could leave */
    unsigned uses;         /* JX_MACRO_*: special names read since the macro began */
    int frames;            /* blocks with names of their own around here; 0: the top level */
    bool storing;          /* reading a target: its names are not read */
    bool soft;             /* inside an if: unknown filters and tests fail only when reached */
    gy_jlistb
        unknown; /* FILTER and TEST nodes without a function, so far outside of conditionals */
    gy_err *err;
} gy_jparser;

enum { JP_SIMPLIFIED = 1, JP_CONDEXPR = 2, JP_EXPLICIT = 4, JP_NAMESPACE = 8 };

static inline const gy_jtok *gy_jp_tok(const gy_jparser *p) {
    return &p->tok[p->at];
}
bool gy_jp_fail(gy_jparser *p, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void *gy_jp_alloc(gy_jparser *p, size_t bytes);
gy_jn *gy_jp_node(gy_jparser *p, gy_jn_kind k, int line);
gy_jn *gy_jp_done(gy_jparser *p, gy_jn *e);
bool gy_jp_deeper(gy_jparser *p);
void gy_jp_add(gy_jparser *p, gy_jlistb *l, gy_jn *e);
uint32_t gy_jp_sym(gy_jparser *p, const char *s, size_t n);
bool gy_jp_name(const gy_jparser *p, const char *word);
bool gy_jp_skip_name(gy_jparser *p, const char *word);
bool gy_jp_skip(gy_jparser *p, gy_jt_kind k);
bool gy_jp_expect(gy_jparser *p, gy_jt_kind k);
const gy_jtok *gy_jp_expect_name(gy_jparser *p);
gy_jn *gy_jp_name_node(gy_jparser *p, const gy_jtok *t);
gy_jn *gy_jp_expr(gy_jparser *p, bool with_condexpr);
gy_jn *gy_jp_tuple(gy_jparser *p, int flags);
gy_jn *gy_jp_filter(gy_jparser *p, gy_jn *e, bool inline_first);
bool gy_jp_all_known(gy_jparser *p);

#endif
