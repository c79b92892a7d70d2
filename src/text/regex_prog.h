/* text/regex_prog - a compiled pattern; inside text/regex only.
 *
 * Code points are mapped to symbols: two code points that no set of the pattern tells apart have
 * one symbol. A program is a list of instructions; a thread is a place in it. Two machines run
 * programs, and give the same matches:
 *
 *     dfa    state = threads by preference, after consuming; states are made when first reached,
 *            and kept. step(state, symbol here) follows the threads up to their next SET (tests
 *            see the symbol before and the symbol here), notes whether the match ends here, and
 *            takes those that accept the symbol.
 *     list   the same steps over one list of threads, each with the place where it started; needs
 *            no states. Used when there are too many states or too many failed starts, and as the
 *            check of the other.
 *
 * Tests of one code point are part of a step. A longer lookahead is a program of its own (an
 * entry): its outcome where a state needs it is found by running it there, and is part of the
 * symbol. Owner: gy_regex. Thread: states are made under a lock and published by release stores;
 * all else is constant. */
#ifndef GY_TEXT_REGEX_PROG_H
#define GY_TEXT_REGEX_PROG_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/utf8.h"
#include "text/regex.h"
#include "text/regex_ast.h"

typedef enum {
    GY_RX_OP_SET,    /* take a member of set, go to x */
    GY_RX_OP_JUMP,   /* go to x */
    GY_RX_OP_SPLIT,  /* go to x, by second choice to y */
    GY_RX_OP_AHEAD,  /* test the symbol here, go to x */
    GY_RX_OP_BEHIND, /* test the symbol before */
    GY_RX_OP_EDGE,   /* test that one of both is a member */
    GY_RX_OP_LOOK,   /* test entry number set */
    GY_RX_OP_MATCH
} gy_rx_op;

typedef struct {
    uint8_t op;
    bool negated;
    uint16_t set;
    uint32_t x, y;
} gy_rx_inst;

enum {
    GY_RX_INSTS_MAX = 80000, /* times 12 bytes: under 1 MiB */
    GY_RX_LOOKS_MAX = 5,     /* lookaheads of more than one code point */
    GY_RX_SYMBOLS_MAX = 32000,
    GY_RX_DEAD = 0 /* the state without threads */
};

typedef struct {
    uint32_t at, n;  /* threads: pool[at .. at + n) */
    uint32_t before; /* representative of the symbol before, as far as the program can tell */
    uint32_t hash;
} gy_rx_state;

/* What a step works in. A mark is set when it equals generation, which grows by one with each step.
 */
typedef struct {
    uint32_t *seen, *listed; /* [n_code] marks */
    uint32_t *stack;         /* [2 * n_code + 2] */
    uint32_t generation;
} gy_rx_scratch;

/* A cell holds (place of the target's row) * 2 + (whether the match ends here) + 2; 0 when not made
 * yet. */
typedef struct {
    pthread_mutex_t lock;
    bool has_lock;
    _Atomic(uint32_t) *cell; /* [max_states][width] */
    uint8_t
        *looks; /* [max_states] entries whose outcome a step from the state may need, a bit each */
    uint32_t width; /* cells of a row; a power of two when there are looks */
    uint32_t max_states;
    _Atomic(uint32_t) *start; /* [1 + n_looks][n_behind] state, 0 when not made yet */
    /* Under the lock: */
    gy_rx_state *state; /* [n_states]; 0 is GY_RX_DEAD */
    uint32_t n_states, cap_states;
    uint32_t *pool; /* [n_pool] threads of all states */
    uint32_t n_pool, cap_pool;
    uint32_t *hash; /* [hash_size] state or 0 */
    uint32_t hash_size;
    uint32_t *list; /* [n_code] */
    gy_rx_scratch scratch;
} gy_rx_dfa;

struct gy_regex {
    gy_rx_inst *code; /* [n_code] */
    uint32_t n_code;
    uint32_t entry[1 + GY_RX_LOOKS_MAX];
    int n_looks;
    /* Symbols. */
    uint16_t ascii[128];
    uint16_t *page;   /* [0x110000 / 128] */
    uint16_t *symbol; /* [pages][128] */
    uint32_t
        n_symbols; /* the symbol n_symbols stands for both ends of the text, and is in no set */
    uint32_t words;
    uint64_t *member; /* [n_symbols + 1][words] a bit a set */
    uint16_t
        *behind; /* [n_symbols + 1] class of a symbol before, or NULL when nothing looks there */
    uint16_t *behind_symbol; /* [n_behind] one symbol of each class */
    uint32_t n_behind;
    uint8_t *may_start; /* [n_symbols + 1] whether a match may start with it; NULL: anywhere */
    uint8_t ascii_start[128];
    gy_rx_dfa dfa;
};

/* ---- regex_prog.c ---- */

gy_rc gy_rx_compile(const gy_rx_ast *ast, gy_regex *re, gy_err *err);

bool gy_rx_scratch_new(gy_rx_scratch *s, uint32_t n_code);
void gy_rx_scratch_free(gy_rx_scratch *s);

/* Symbol of the code point at text[i], i < n; *bytes is its length. */
static inline uint32_t gy_rx_symbol(const gy_regex *re, const char *text, size_t n, size_t i,
                                    size_t *bytes) {
    uint32_t cp = (uint8_t)text[i];
    if (cp < 0x80) return *bytes = 1, re->ascii[cp];
    *bytes = gy_utf8_get(text + i, n - i, &cp);
    return re->symbol[(uint32_t)re->page[cp >> 7] << 7 | (cp & 127)];
}

/* Symbol of the code point that ends at text[i]; i may be 0. */
uint32_t gy_rx_symbol_before(const gy_regex *re, const char *text, size_t i);

static inline bool gy_rx_member(const gy_regex *re, uint32_t symbol, uint32_t set) {
    return re->member[(size_t)symbol * re->words + set / 64] >> (set & 63) & 1;
}

/* ---- regex_list.c ---- */

/* What a step may look at: the symbols before and here, and a bit for each entry that holds here.
 */
typedef struct {
    uint32_t before, here;
    unsigned outcome;
} gy_rx_context;

/* One step of the threads in[n] by preference. Those that go on are put into out, each once; *ended
 * is the place in in[] of the thread whose match ends here, or -1: threads after it are dropped.
 * from[k], when not NULL, becomes the place in in[] of the thread that out[k] came from. Returns
 * the number in out. */
uint32_t gy_rx_step(const gy_regex *re, const uint32_t *in, uint32_t n, gy_rx_context c,
                    gy_rx_scratch *s, uint32_t *out, uint32_t *from, int64_t *ended);

/* Entries whose outcome a step from in[n] may need. */
unsigned gy_rx_looks(const gy_regex *re, const uint32_t *in, uint32_t n, gy_rx_scratch *s);

typedef struct {
    bool anchored; /* only at from */
    bool any;      /* any end will do: stop at the first that is found */
} gy_rx_mode;

/* The first match at or after from. When memory is out there is none. */
bool gy_rx_list_find(const gy_regex *re, int entry, gy_rx_mode mode, const char *text, size_t n,
                     size_t from, size_t *start, size_t *end);

/* ---- regex_dfa.c ---- */

gy_rc gy_rx_dfa_new(gy_regex *re, gy_err *err);
void gy_rx_dfa_free(gy_regex *re);

typedef enum {
    GY_RX_NO,
    GY_RX_YES,
    GY_RX_FULL /* no room for more states: ask the list machine */
} gy_rx_result;

/* The match at exactly from; any as above. *stop is where it stopped reading. */
gy_rx_result gy_rx_dfa_match(const gy_regex *re, int entry, bool any, const char *text, size_t n,
                             size_t from, size_t *end, size_t *stop);

/* Outcomes of the entries in mask at text[at]. */
unsigned gy_rx_outcomes(const gy_regex *re, unsigned mask, const char *text, size_t n, size_t at);

#endif
