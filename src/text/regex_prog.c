/* From tree to program: instructions, symbols, and where a match may start. */
#include "text/regex_prog.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

/* ---- Instructions ---- */

typedef struct {
    gy_regex *re;
    uint32_t cap;
    uint32_t visits; /* nodes emitted so far: bounds repeats that make no code */
    int look_depth;  /* of the entry that is being emitted */
    struct {
        const gy_rx_node *node;
        int depth;
    } look[GY_RX_LOOKS_MAX];
    const gy_rx_ast *ast;
    gy_err *err;
    gy_rc rc;
} compiler;

static void refuse(compiler *c, gy_rc rc, const char *what) {
    if (!c->rc) c->rc = gy_fail(c->err, rc, "regex: %s", what);
}

static uint32_t put(compiler *c, gy_rx_op op, int set, bool negated) {
    gy_regex *re = c->re;
    if (re->n_code == GY_RX_INSTS_MAX)
        refuse(c, GY_ELIMIT, "pattern needs more than 80000 instructions");
    if (c->rc) return 0;
    if (re->n_code == c->cap) {
        uint32_t cap = c->cap ? c->cap * 2 : 64;
        gy_rx_inst *code = gy_realloc(re->code, cap * sizeof *code);
        if (!code) return refuse(c, GY_ENOMEM, "out of memory"), 0;
        re->code = code, c->cap = cap;
    }
    re->code[re->n_code] =
        (gy_rx_inst){.op = (uint8_t)op, .negated = negated, .set = (uint16_t)set};
    re->code[re->n_code].x = re->n_code + 1;
    return re->n_code++;
}

static bool may_be_empty(const gy_rx_node *node) {
    switch (node->kind) {
    case GY_RX_SET: return false;
    case GY_RX_REPEAT: return !node->min || may_be_empty(node->child);
    case GY_RX_ATOMIC: return may_be_empty(node->child);
    case GY_RX_CAT:
        for (const gy_rx_node *k = node->child; k; k = k->next) {
            if (!may_be_empty(k)) return false;
        }
        return true;
    case GY_RX_ALT:
        for (const gy_rx_node *k = node->child; k; k = k->next) {
            if (may_be_empty(k)) return true;
        }
        return false;
    default: return true;
    }
}

static void emit(compiler *c, const gy_rx_node *node);

/* A choice between going on (the next instruction) and the place that patch later gives. */
static uint32_t put_exit(compiler *c) {
    return put(c, GY_RX_OP_SPLIT, 0, false);
}

static void patch_exit(compiler *c, uint32_t at, uint32_t to, bool lazy) {
    if (c->rc) return;
    gy_rx_inst *in = &c->re->code[at];
    in->x = lazy ? to : at + 1, in->y = lazy ? at + 1 : to;
}

/* One or more: the body, then a choice to go back. */
static void emit_plus(compiler *c, const gy_rx_node *body, bool lazy) {
    uint32_t top = c->re->n_code;
    emit(c, body);
    uint32_t at = put(c, GY_RX_OP_SPLIT, 0, false);
    if (c->rc) return;
    c->re->code[at].x = lazy ? at + 1 : top, c->re->code[at].y = lazy ? top : at + 1;
}

/* Repeats of a body that may match nothing. A round that consumed nothing must leave the loop, at
 * its own place in the order of preference, so whether a round has consumed is kept in the place of
 * the thread: the body is there twice.
 *
 *     choice: SPLIT fresh, exit    fresh: body, JUMP exit    used: body, JUMP choice    exit:
 *
 * A SET of the first copy goes on in the second. */
static void emit_empty_loop(compiler *c, const gy_rx_node *body, bool lazy, bool plus) {
    gy_regex *re = c->re;
    uint32_t enter = plus ? put(c, GY_RX_OP_JUMP, 0, false) : 0;
    uint32_t choice = put_exit(c), fresh = re->n_code;
    if (!c->rc && plus) re->code[enter].x = fresh;
    emit(c, body);
    uint32_t leave = put(c, GY_RX_OP_JUMP, 0, false), used = re->n_code;
    emit(c, body);
    uint32_t back = put(c, GY_RX_OP_JUMP, 0, false);
    if (c->rc) return;
    for (uint32_t i = fresh; i < leave; i++) {
        if (re->code[i].op == GY_RX_OP_SET) re->code[i].x += used - fresh;
    }
    re->code[back].x = choice, re->code[leave].x = re->n_code;
    patch_exit(c, choice, re->n_code, lazy);
}

/* None or more, or with plus one or more. */
static void emit_loop(compiler *c, const gy_rx_node *body, bool lazy, bool plus) {
    if (may_be_empty(body)) {
        emit_empty_loop(c, body, lazy, plus);
        return;
    }
    if (plus) {
        emit_plus(c, body, lazy);
        return;
    }
    uint32_t exit = put_exit(c);
    emit(c, body);
    uint32_t back = put(c, GY_RX_OP_JUMP, 0, false);
    if (!c->rc) c->re->code[back].x = exit;
    patch_exit(c, exit, c->re->n_code, lazy);
}

static void emit_repeat(compiler *c, const gy_rx_node *node) {
    bool plus = node->max < 0 && node->min > 0;
    for (int i = 0; i < node->min - plus && !c->rc; i++) emit(c, node->child);
    if (node->max < 0) emit_loop(c, node->child, node->lazy, plus);
    /* Optional copies leave for the same place; marked until it is known. */
    uint32_t first = c->re->n_code;
    for (int i = node->min; i < node->max && !c->rc; i++) {
        uint32_t at = put_exit(c);
        if (!c->rc) c->re->code[at].y = UINT32_MAX;
        emit(c, node->child);
    }
    for (uint32_t i = first; i < c->re->n_code && !c->rc && node->max > node->min; i++) {
        gy_rx_inst *in = &c->re->code[i];
        if (in->op == GY_RX_OP_SPLIT && in->y == UINT32_MAX)
            patch_exit(c, i, c->re->n_code, node->lazy);
    }
}

static void emit_alternatives(compiler *c, const gy_rx_node *node) {
    uint32_t jumps = UINT32_MAX; /* linked through x, until the end is known */
    for (const gy_rx_node *k = node->child; k && !c->rc; k = k->next) {
        uint32_t choice = k->next ? put_exit(c) : 0;
        emit(c, k);
        if (!k->next) break;
        uint32_t jump = put(c, GY_RX_OP_JUMP, 0, false);
        if (c->rc) return;
        c->re->code[jump].x = jumps, jumps = jump;
        patch_exit(c, choice, c->re->n_code, false);
    }
    while (!c->rc && jumps != UINT32_MAX) {
        uint32_t next = c->re->code[jumps].x;
        c->re->code[jumps].x = c->re->n_code;
        jumps = next;
    }
}

static void emit_look(compiler *c, const gy_rx_node *node) {
    if (node->child->kind == GY_RX_SET) {
        gy_rx_op op = node->kind == GY_RX_AHEAD ? GY_RX_OP_AHEAD : GY_RX_OP_BEHIND;
        put(c, op, node->child->set, node->negated);
        return;
    }
    if (node->kind == GY_RX_BEHIND) {
        refuse(c, GY_EUNSUPPORTED, "lookbehind of other than one character");
        return;
    }
    int k = 0;
    while (k < c->re->n_looks && c->look[k].node->child != node->child) k++;
    if (k == GY_RX_LOOKS_MAX)
        refuse(c, GY_EUNSUPPORTED, "more than 5 lookaheads of several characters");
    if (c->look_depth == 2) refuse(c, GY_EUNSUPPORTED, "lookahead in lookahead in lookahead");
    if (c->rc) return;
    if (k == c->re->n_looks) {
        c->look[k].node = node, c->look[k].depth = c->look_depth + 1;
        c->re->n_looks++;
    }
    put(c, GY_RX_OP_LOOK, k, node->negated);
}

static void emit(compiler *c, const gy_rx_node *node) {
    if (++c->visits > 1000000) refuse(c, GY_ELIMIT, "pattern repeats too much");
    if (c->rc) return;
    switch (node->kind) {
    case GY_RX_EMPTY: break;
    case GY_RX_SET: put(c, GY_RX_OP_SET, node->set, false); break;
    case GY_RX_CAT:
        for (const gy_rx_node *k = node->child; k && !c->rc; k = k->next) emit(c, k);
        break;
    case GY_RX_ALT: emit_alternatives(c, node); break;
    case GY_RX_REPEAT: emit_repeat(c, node); break;
    case GY_RX_ATOMIC:
        refuse(c, GY_EUNSUPPORTED, "atomic group, or possessive repeat of a group");
        break;
    case GY_RX_EDGE: put(c, GY_RX_OP_EDGE, node->set, node->negated); break;
    default: emit_look(c, node); break;
    }
}

static gy_rc emit_program(gy_regex *re, const gy_rx_ast *ast, gy_err *err) {
    compiler c = {.re = re, .ast = ast, .err = err};
    emit(&c, ast->root);
    put(&c, GY_RX_OP_MATCH, 0, false);
    for (int k = 0; k < re->n_looks && !c.rc; k++) {
        re->entry[1 + k] = re->n_code;
        c.look_depth = c.look[k].depth;
        emit(&c, c.look[k].node->child);
        put(&c, GY_RX_OP_MATCH, 0, false);
    }
    return c.rc;
}

/* ---- Symbols ---- */

typedef struct {
    uint32_t cp, set; /* at cp, set begins or ends */
} edge;

static int by_cp(const void *a, const void *b) {
    uint32_t x = ((const edge *)a)->cp, y = ((const edge *)b)->cp;
    return (x > y) - (x < y);
}

typedef struct {
    gy_regex *re;
    uint64_t *now;   /* [words] sets of the current code point */
    uint32_t cap;    /* symbols that member has room for */
    uint32_t *table; /* [size] symbol + 1, by the hash of its sets */
    uint32_t size;   /* a power of two */
    gy_crange *run;  /* runs of one symbol, and */
    uint16_t *run_symbol;
    size_t n_runs;
} partition;

/* The symbol of code points in exactly the sets now, or -1 when memory is out. */
static int64_t symbol_of(partition *p) {
    gy_regex *re = p->re;
    size_t bytes = re->words * sizeof *p->now;
    uint64_t h = gy_hash64(p->now, bytes, 0);
    uint32_t at = (uint32_t)h & (p->size - 1);
    for (; p->table[at]; at = (at + 1) & (p->size - 1)) {
        uint32_t s = p->table[at] - 1;
        if (!memcmp(re->member + (size_t)s * re->words, p->now, bytes)) return s;
    }
    if (re->n_symbols == p->cap) {
        uint32_t cap = p->cap * 2;
        uint64_t *member = gy_realloc(re->member, (cap + 1) * bytes);
        if (!member) return -1;
        re->member = member, p->cap = cap;
    }
    memcpy(re->member + (size_t)re->n_symbols * re->words, p->now, bytes);
    p->table[at] = re->n_symbols + 1;
    return re->n_symbols++;
}

/* Walks over all code points, changing the sets at each edge. */
static bool make_runs(partition *p, const edge *edges, size_t n) {
    uint32_t from = 0;
    for (size_t i = 0; i <= n;) {
        uint32_t to = i < n ? edges[i].cp : 0x110000;
        if (to > from) {
            int64_t symbol = symbol_of(p);
            if (symbol < 0 || symbol >= GY_RX_SYMBOLS_MAX) return false;
            p->run[p->n_runs] = (gy_crange){from, to - 1};
            p->run_symbol[p->n_runs++] = (uint16_t)symbol;
        }
        from = to;
        if (i == n) break;
        for (; i < n && edges[i].cp == to; i++)
            p->now[edges[i].set / 64] ^= 1ull << (edges[i].set & 63);
    }
    return true;
}

enum { PAGES = 0x110000 / 128 };

/* The two-stage map; pages of equal content that follow each other are shared. */
static bool make_pages(gy_regex *re, const partition *p) {
    uint16_t block[128];
    uint32_t n = 0, cap = 64;
    size_t run = 0;
    re->page = gy_alloc_n(PAGES, sizeof *re->page);
    re->symbol = gy_alloc_n(cap, sizeof block);
    for (uint32_t b = 0; b < PAGES && re->page && re->symbol; b++) {
        if (n && b && p->run[run].lo <= (b - 1) * 128 && p->run[run].hi >= b * 128 + 127) {
            re->page[b] = re->page[b - 1]; /* inside one run, as the page before */
            continue;
        }
        for (uint32_t k = 0; k < 128; k++) {
            while (p->run[run].hi < b * 128 + k) run++;
            block[k] = p->run_symbol[run];
        }
        if (n && !memcmp(re->symbol + (size_t)(n - 1) * 128, block, sizeof block)) {
            re->page[b] = (uint16_t)(n - 1);
            continue;
        }
        if (n == cap) {
            uint16_t *more = gy_realloc(re->symbol, (cap *= 2) * sizeof block);
            if (!more) return false;
            re->symbol = more;
        }
        memcpy(re->symbol + (size_t)n * 128, block, sizeof block);
        re->page[b] = (uint16_t)n++;
    }
    if (!re->page || !re->symbol) return false;
    memcpy(re->ascii, re->symbol, sizeof re->ascii); /* page 0 */
    return true;
}

static gy_rc make_symbols(gy_regex *re, const gy_rx_ast *ast, gy_err *err) {
    size_t n = 0, total = 0;
    for (int i = 0; i < ast->n_sets; i++) total += ast->set[i].n;
    edge *edges = gy_alloc_n(2 * total + 1, sizeof *edges);
    for (int i = 0; i < ast->n_sets && edges; i++) {
        for (size_t k = 0; k < ast->set[i].n; k++) {
            edges[n++] = (edge){ast->set[i].r[k].lo, (uint32_t)i};
            if (ast->set[i].r[k].hi < 0x10FFFF)
                edges[n++] = (edge){ast->set[i].r[k].hi + 1, (uint32_t)i};
        }
    }
    if (edges) qsort(edges, n, sizeof *edges, by_cp);
    re->words = (uint32_t)ast->n_sets / 64 + 1;
    partition p = {.re = re, .cap = 16, .size = 1};
    while (p.size < 2 * (n + 2)) p.size *= 2;
    p.now = gy_alloc_n(re->words, sizeof *p.now);
    p.table = gy_alloc_n(p.size, sizeof *p.table);
    p.run = gy_alloc_n(n + 1, sizeof *p.run);
    p.run_symbol = gy_alloc_n(n + 1, sizeof *p.run_symbol);
    re->member = gy_alloc_n((p.cap + 1) * re->words, sizeof *re->member);
    bool memory = edges && p.now && p.table && p.run && p.run_symbol && re->member;
    bool done = memory && make_runs(&p, edges, n);
    gy_rc rc = GY_OK;
    if (memory && re->n_symbols >= GY_RX_SYMBOLS_MAX)
        rc = gy_fail(err, GY_ELIMIT, "regex: too many kinds of characters");
    else if (!done || !make_pages(re, &p))
        rc = gy_fail(err, GY_ENOMEM, "regex: out of memory");
    else
        memset(re->member + (size_t)re->n_symbols * re->words, 0, re->words * sizeof *re->member);
    gy_free(edges), gy_free(p.now), gy_free(p.table), gy_free(p.run), gy_free(p.run_symbol);
    return rc;
}

/* ---- What is looked at before, and where a match may start ---- */

/* Two symbols are one class when no test of the symbol before tells them apart. */
static bool make_behind(gy_regex *re) {
    uint64_t *tested = gy_alloc_n(re->words, sizeof *tested);
    bool any = false;
    for (uint32_t i = 0; i < re->n_code && tested; i++) {
        const gy_rx_inst *in = &re->code[i];
        if (in->op != GY_RX_OP_BEHIND && in->op != GY_RX_OP_EDGE) continue;
        tested[in->set / 64] |= 1ull << (in->set & 63), any = true;
    }
    re->n_behind = any ? 0 : 1;
    re->behind_symbol = gy_alloc_n(re->n_symbols + 1, sizeof *re->behind_symbol);
    if (any) re->behind = gy_alloc_n(re->n_symbols + 1, sizeof *re->behind);
    bool done = tested && re->behind_symbol && (re->behind || !any);
    if (done && !any) re->behind_symbol[0] = (uint16_t)re->n_symbols;
    for (uint32_t s = 0; s <= re->n_symbols && done && any; s++) {
        uint32_t k = 0;
        for (; k < re->n_behind; k++) {
            const uint64_t *a = re->member + (size_t)s * re->words;
            const uint64_t *b = re->member + (size_t)re->behind_symbol[k] * re->words;
            uint32_t w = 0;
            while (w < re->words && !((a[w] ^ b[w]) & tested[w])) w++;
            if (w == re->words) break;
        }
        if (k == re->n_behind) re->behind_symbol[re->n_behind++] = (uint16_t)s;
        re->behind[s] = (uint16_t)k;
    }
    gy_free(tested);
    return done;
}

/* Follows the entry as if every test held. When that finds an end, a match may be empty and start
 * anywhere. */
static bool make_start(gy_regex *re) {
    uint32_t *stack = gy_alloc_n(2 * (size_t)re->n_code + 2, sizeof *stack), n = 0;
    uint8_t *seen = gy_alloc_n(re->n_code, 1);
    uint64_t *sets = gy_alloc_n(re->words, sizeof *sets);
    bool empty = false, memory = stack && seen && sets;
    if (memory) stack[n++] = re->entry[0];
    while (n) {
        uint32_t pc = stack[--n];
        const gy_rx_inst *in = &re->code[pc];
        if (seen[pc]) continue;
        seen[pc] = 1;
        if (in->op == GY_RX_OP_SPLIT) stack[n++] = in->y;
        if (in->op == GY_RX_OP_MATCH)
            empty = true;
        else if (in->op == GY_RX_OP_SET)
            sets[in->set / 64] |= 1ull << (in->set & 63);
        else
            stack[n++] = in->x;
    }
    if (memory && !empty) {
        re->may_start = gy_alloc_n(re->n_symbols + 1, 1);
        memory = re->may_start != NULL;
    }
    for (uint32_t s = 0; s < re->n_symbols && re->may_start; s++) {
        for (uint32_t w = 0; w < re->words; w++) {
            if (re->member[(size_t)s * re->words + w] & sets[w]) re->may_start[s] = 1;
        }
    }
    for (int c = 0; c < 128 && re->may_start; c++) re->ascii_start[c] = re->may_start[re->ascii[c]];
    gy_free(stack), gy_free(seen), gy_free(sets);
    return memory;
}

bool gy_rx_scratch_new(gy_rx_scratch *s, uint32_t n_code) {
    s->seen = gy_alloc_n(n_code, sizeof *s->seen);
    s->listed = gy_alloc_n(n_code, sizeof *s->listed);
    s->stack = gy_alloc_n(2 * (size_t)n_code + 2, sizeof *s->stack);
    s->generation = 0;
    return s->seen && s->listed && s->stack;
}

void gy_rx_scratch_free(gy_rx_scratch *s) {
    gy_free(s->seen), gy_free(s->listed), gy_free(s->stack);
    *s = (gy_rx_scratch){0};
}

gy_rc gy_rx_compile(const gy_rx_ast *ast, gy_regex *re, gy_err *err) {
    gy_rc rc = emit_program(re, ast, err);
    if (!rc) rc = make_symbols(re, ast, err);
    if (rc) return rc;
    if (!make_behind(re) || !make_start(re)) return gy_fail(err, GY_ENOMEM, "regex: out of memory");
    return gy_rx_dfa_new(re, err);
}
