/* The machine that keeps its states. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "text/regex_prog.h"

enum {
    CELLS_MAX = 1 << 20, /* 4 MiB of address space; pages are touched as states are made */
    STATES_MAX = 8192,
    POOL_MAX = 1 << 20 /* threads of all states */
};

gy_rc gy_rx_dfa_new(gy_regex *re, gy_err *err) {
    gy_rx_dfa *d = &re->dfa;
    d->width = re->n_symbols + 1;
    if (re->n_looks) {
        uint32_t wide = 1;
        while (wide < d->width << re->n_looks) wide *= 2;
        d->width = wide;
    }
    d->max_states = CELLS_MAX / d->width < STATES_MAX ? CELLS_MAX / d->width : STATES_MAX;
    if (d->max_states < 16) d->max_states = 16; /* at most 16 * 2^20 cells */
    d->hash_size = 64;
    while (d->hash_size < 2 * d->max_states) d->hash_size *= 2;
    d->cap_states = 16;
    d->cell = gy_alloc_n((size_t)d->max_states * d->width, sizeof *d->cell);
    d->looks = gy_alloc_n(d->max_states, 1);
    d->start = gy_alloc_n((size_t)(1 + re->n_looks) * re->n_behind, sizeof *d->start);
    d->state = gy_alloc_n(d->cap_states, sizeof *d->state);
    d->hash = gy_alloc_n(d->hash_size, sizeof *d->hash);
    d->list = gy_alloc_n((size_t)re->n_code + 1, sizeof *d->list);
    bool scratch = gy_rx_scratch_new(&d->scratch, re->n_code);
    d->has_lock = !pthread_mutex_init(&d->lock, NULL);
    bool whole =
        d->cell && d->looks && d->start && d->state && d->hash && d->list && scratch && d->has_lock;
    d->n_states = 1; /* GY_RX_DEAD */
    return whole ? GY_OK : gy_fail(err, GY_ENOMEM, "regex: out of memory");
}

void gy_rx_dfa_free(gy_regex *re) {
    gy_rx_dfa *d = &re->dfa;
    gy_free((void *)d->cell), gy_free(d->looks), gy_free((void *)d->start), gy_free(d->state);
    gy_free(d->pool), gy_free(d->hash), gy_free(d->list);
    gy_rx_scratch_free(&d->scratch);
    if (d->has_lock) pthread_mutex_destroy(&d->lock);
}

/* ---- Making states; all under the lock ---- */

static bool pool_need(gy_rx_dfa *d, uint32_t n) {
    if (n > POOL_MAX - d->n_pool) return false;
    if (d->n_pool + n <= d->cap_pool) return true;
    uint32_t cap = d->cap_pool ? d->cap_pool * 2 : 256;
    if (cap < d->n_pool + n) cap = d->n_pool + n;
    uint32_t *pool = gy_realloc(d->pool, cap * sizeof *pool);
    if (!pool) return false;
    d->pool = pool, d->cap_pool = cap;
    return true;
}

static bool states_need(gy_rx_dfa *d) {
    if (d->n_states == d->max_states) return false;
    if (d->n_states < d->cap_states) return true;
    gy_rx_state *state = gy_realloc(d->state, d->cap_states * 2 * sizeof *state);
    if (!state) return false;
    d->state = state, d->cap_states *= 2;
    return true;
}

/* The state with threads list[n] and symbol before; UINT32_MAX when there is no room. */
static uint32_t state_of(const gy_regex *re, gy_rx_dfa *d, const uint32_t *list, uint32_t n,
                         uint32_t before) {
    if (!n) return GY_RX_DEAD;
    uint32_t hash = (uint32_t)gy_hash64(list, n * sizeof *list, before);
    uint32_t at = hash & (d->hash_size - 1);
    for (; d->hash[at]; at = (at + 1) & (d->hash_size - 1)) {
        const gy_rx_state *s = &d->state[d->hash[at]];
        bool same = s->hash == hash && s->before == before && s->n == n;
        if (same && !memcmp(d->pool + s->at, list, n * sizeof *list)) return d->hash[at];
    }
    if (!pool_need(d, n) || !states_need(d)) return UINT32_MAX;
    uint32_t id = d->n_states++;
    d->state[id] = (gy_rx_state){.at = d->n_pool, .n = n, .before = before, .hash = hash};
    memcpy(d->pool + d->n_pool, list, n * sizeof *list);
    d->n_pool += n;
    d->hash[at] = id;
    if (re->n_looks) d->looks[id] = (uint8_t)gy_rx_looks(re, list, n, &d->scratch);
    return id;
}

static gy_rx_dfa *dfa_of(const gy_regex *re) {
    return (gy_rx_dfa *)&re->dfa; /* what the lock guards changes in a constant regex */
}

static uint32_t behind_class(const gy_regex *re, uint32_t symbol) {
    return re->behind ? re->behind[symbol] : 0;
}

static uint32_t make_start(const gy_regex *re, int entry, uint32_t behind) {
    gy_rx_dfa *d = dfa_of(re);
    pthread_mutex_lock(&d->lock);
    uint32_t id = state_of(re, d, &re->entry[entry], 1, re->behind_symbol[behind]);
    if (id != UINT32_MAX) {
        atomic_store_explicit(&d->start[(uint32_t)entry * re->n_behind + behind], id,
                              memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return id;
}

/* Fills a cell; 0 when there is no room. */
static uint32_t make_cell(const gy_regex *re, uint32_t id, uint32_t symbol, unsigned outcome) {
    gy_rx_dfa *d = dfa_of(re);
    size_t at = (size_t)id * d->width + (symbol << re->n_looks | outcome);
    pthread_mutex_lock(&d->lock);
    uint32_t cell = atomic_load_explicit(&d->cell[at], memory_order_relaxed);
    if (!cell) {
        const gy_rx_state *s = &d->state[id];
        gy_rx_context c = {.before = s->before, .here = symbol, .outcome = outcome};
        int64_t ended;
        uint32_t n = gy_rx_step(re, d->pool + s->at, s->n, c, &d->scratch, d->list, NULL, &ended);
        uint32_t before = re->behind_symbol[behind_class(re, symbol)];
        uint32_t to = state_of(re, d, d->list, n, before);
        if (to != UINT32_MAX) cell = to * d->width * 2 + (ended >= 0) + 2;
        if (cell) atomic_store_explicit(&d->cell[at], cell, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return cell;
}

/* ---- Running ---- */

unsigned gy_rx_outcomes(const gy_regex *re, unsigned mask, const char *text, size_t n, size_t at) {
    unsigned outcome = 0;
    for (int k = 0; k < re->n_looks; k++) {
        size_t start, end;
        if (!(mask >> k & 1)) continue;
        gy_rx_result r = gy_rx_dfa_match(re, 1 + k, true, text, n, at, &end, &start);
        gy_rx_mode mode = {.anchored = true, .any = true};
        bool holds = r == GY_RX_YES;
        if (r == GY_RX_FULL) holds = gy_rx_list_find(re, 1 + k, mode, text, n, at, &start, &end);
        outcome |= (unsigned)holds << k;
    }
    return outcome;
}

gy_rx_result gy_rx_dfa_match(const gy_regex *re, int entry, bool any, const char *text, size_t n,
                             size_t from, size_t *end, size_t *stop) {
    const gy_rx_dfa *d = &re->dfa;
    uint32_t behind = 0;
    if (re->behind) behind = re->behind[gy_rx_symbol_before(re, text, from)];
    uint32_t id = atomic_load_explicit(&d->start[(uint32_t)entry * re->n_behind + behind],
                                       memory_order_acquire);
    if (!id && (id = make_start(re, entry, behind)) == UINT32_MAX) return GY_RX_FULL;
    gy_rx_result result = GY_RX_NO;
    uint32_t place = id * d->width;
    size_t i = from;
    for (;;) {
        uint32_t symbol = re->n_symbols, x;
        size_t bytes = 0;
        unsigned outcome = 0;
        if (i < n) symbol = gy_rx_symbol(re, text, n, i, &bytes);
        x = symbol;
        if (re->n_looks) {
            unsigned mask = d->looks[place / d->width];
            if (mask) outcome = gy_rx_outcomes(re, mask, text, n, i);
            x = symbol << re->n_looks | outcome;
        }
        uint32_t cell = atomic_load_explicit(&d->cell[place + x], memory_order_acquire);
        if (!cell && !(cell = make_cell(re, place / d->width, symbol, outcome))) return GY_RX_FULL;
        if (cell & 1) {
            *end = i, result = GY_RX_YES;
            if (any) break;
        }
        if (cell <= 3 || i == n) break;
        place = (cell - 2) >> 1;
        i += bytes;
    }
    *stop = i;
    return result;
}
