/* Steps of a program, and the machine that keeps its threads in a list. */
#include <string.h>

#include "base/mem.h"
#include "text/regex_prog.h"

uint32_t gy_rx_symbol_before(const gy_regex *re, const char *text, size_t i) {
    size_t back = 1, bytes;
    if (!i) return re->n_symbols;
    while (back < 4 && back < i && ((uint8_t)text[i - back] & 0xC0) == 0x80) back++;
    uint32_t symbol = gy_rx_symbol(re, text, i, i - back, &bytes);
    /* Ill-formed: the last byte belongs to a subpart that reads as U+FFFD. */
    while (bytes < back) back -= bytes, symbol = gy_rx_symbol(re, text, i, i - back, &bytes);
    return symbol;
}

static bool test_holds(const gy_regex *re, const gy_rx_inst *in, gy_rx_context c) {
    bool holds;
    switch (in->op) {
    case GY_RX_OP_AHEAD: holds = gy_rx_member(re, c.here, in->set); break;
    case GY_RX_OP_BEHIND: holds = gy_rx_member(re, c.before, in->set); break;
    case GY_RX_OP_EDGE:
        holds = gy_rx_member(re, c.before, in->set) != gy_rx_member(re, c.here, in->set);
        break;
    case GY_RX_OP_LOOK: holds = c.outcome >> in->set & 1; break;
    default: return true;
    }
    return holds != in->negated;
}

uint32_t gy_rx_step(const gy_regex *re, const uint32_t *in, uint32_t n, gy_rx_context c,
                    gy_rx_scratch *s, uint32_t *out, uint32_t *from, int64_t *ended) {
    uint32_t n_out = 0, mark = ++s->generation;
    *ended = -1;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t depth = 0;
        s->stack[depth++] = in[k];
        while (depth) {
            uint32_t pc = s->stack[--depth];
            const gy_rx_inst *i = &re->code[pc];
            if (s->seen[pc] == mark) continue;
            s->seen[pc] = mark;
            if (i->op == GY_RX_OP_MATCH) return *ended = k, n_out;
            if (i->op == GY_RX_OP_SET) {
                if (!gy_rx_member(re, c.here, i->set) || s->listed[i->x] == mark) continue;
                s->listed[i->x] = mark;
                if (from) from[n_out] = k;
                out[n_out++] = i->x;
                continue;
            }
            if (i->op == GY_RX_OP_SPLIT) s->stack[depth++] = i->y;
            if (test_holds(re, i, c)) s->stack[depth++] = i->x;
        }
    }
    return n_out;
}

unsigned gy_rx_looks(const gy_regex *re, const uint32_t *in, uint32_t n, gy_rx_scratch *s) {
    uint32_t mark = ++s->generation, depth = 0;
    unsigned mask = 0;
    for (uint32_t k = 0; k < n; k++) {
        s->stack[depth++] = in[k];
        while (depth) {
            uint32_t pc = s->stack[--depth];
            const gy_rx_inst *i = &re->code[pc];
            if (s->seen[pc] == mark) continue;
            s->seen[pc] = mark;
            if (i->op == GY_RX_OP_LOOK) mask |= 1u << i->set;
            if (i->op == GY_RX_OP_SPLIT) s->stack[depth++] = i->y;
            if (i->op != GY_RX_OP_SET && i->op != GY_RX_OP_MATCH) s->stack[depth++] = i->x;
        }
    }
    return mask;
}

/* ---- The list machine ---- */

typedef struct {
    uint32_t *pc;  /* [n_code + 1] by preference */
    size_t *start; /* [n_code + 1] */
    uint32_t n;
} thread_list;

static bool list_new(thread_list *l, uint32_t n_code) {
    l->pc = gy_alloc_n((size_t)n_code + 1, sizeof *l->pc);
    l->start = gy_alloc_n((size_t)n_code + 1, sizeof *l->start);
    l->n = 0;
    return l->pc && l->start;
}

static void list_free(thread_list *l) {
    gy_free(l->pc), gy_free(l->start);
}

static bool list_run(const gy_regex *re, int entry, gy_rx_mode mode, const char *text, size_t n,
                     size_t at, thread_list *now, thread_list *next, uint32_t *from,
                     gy_rx_scratch *s, size_t *start, size_t *end) {
    bool found = false;
    uint32_t before = re->behind ? gy_rx_symbol_before(re, text, at) : re->n_symbols;
    for (bool first = true;; first = false) {
        if (!found && (first || !mode.anchored)) {
            now->pc[now->n] = re->entry[entry], now->start[now->n++] = at;
        }
        if (!now->n) return found;
        size_t bytes = 0;
        gy_rx_context c = {.before = before, .here = re->n_symbols};
        if (at < n) c.here = gy_rx_symbol(re, text, n, at, &bytes);
        if (re->n_looks)
            c.outcome = gy_rx_outcomes(re, gy_rx_looks(re, now->pc, now->n, s), text, n, at);
        int64_t ended;
        next->n = gy_rx_step(re, now->pc, now->n, c, s, next->pc, from, &ended);
        if (ended >= 0) {
            *start = now->start[ended], *end = at, found = true;
            if (mode.any) return true;
        }
        for (uint32_t k = 0; k < next->n; k++) next->start[k] = now->start[from[k]];
        if (at == n) return found;
        thread_list swap = *now;
        *now = *next, *next = swap;
        at += bytes, before = c.here;
    }
}

bool gy_rx_list_find(const gy_regex *re, int entry, gy_rx_mode mode, const char *text, size_t n,
                     size_t from, size_t *start, size_t *end) {
    thread_list now, next;
    gy_rx_scratch s = {0};
    bool memory = list_new(&now, re->n_code);
    memory = list_new(&next, re->n_code) && memory;
    memory = gy_rx_scratch_new(&s, re->n_code) && memory;
    uint32_t *origin = gy_alloc_n((size_t)re->n_code + 1, sizeof *origin);
    bool found = memory && origin &&
                 list_run(re, entry, mode, text, n, from, &now, &next, origin, &s, start, end);
    list_free(&now), list_free(&next), gy_rx_scratch_free(&s), gy_free(origin);
    return found;
}
