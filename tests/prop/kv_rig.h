/* kv_rig - engines on a tiny model whose KV has any layout, for tests that compare them.
 *
 * The model is made on the spot: random weights, 2 layers, heads of 128 values, so that every codec
 * fits. A layout says what its layers keep and see; those that no config can say are laid into the
 * plan after it was compiled. */
#ifndef GY_TEST_KV_RIG_H
#define GY_TEST_KV_RIG_H

#include "run/engine.h"
#include "testlib.h"

enum {
    RIG_VOCAB = 48,
    RIG_VOCAB_MAX = 320,
    RIG_WINDOW = 40,
    RIG_KEPT = 5,
    RIG_CONTEXT = 512,
    RIG_SEQS = 5
};

typedef enum {
    RIG_ALL,     /* both layers keep and see all */
    RIG_WINDOW_, /* both see a window, and keep it */
    RIG_BOTH,    /* one of each */
    RIG_KEPT_,   /* windows with a kept prefix */
    RIG_CHUNK,   /* all is kept, chunks of 48 are seen */
    RIG_DONOR,   /* the second layer reads the first one's rows */
    RIG_SINKS,   /* windows, a sink per head and capped scores */
    RIG_LATENT,  /* V is a view of K */
    RIG_STATE,   /* recurrent layers and one that keeps all: a committed fixture, heads of 64 */
    RIG_LAYOUTS
} rig_layout;
extern const char *const rig_layout_names[RIG_LAYOUTS];

/* The model of a layout, with random weights; freed with gy_model_unref. */
gy_model *rig_model(rig_layout layout);

typedef struct {
    const char *kv, *isa;
    int threads, chunk;
} rig_options;

/* NULL: the codec does not exist for this layout, and *why says so. */
gy_engine *rig_engine(gy_model *m, rig_layout layout, rig_options o, gy_err *why);

/* Feeds and returns; logits [n, RIG_VOCAB] or NULL. drafts as in gy_feed. */
void rig_feed(gy_engine *e, gy_seq *s, const int32_t *ids, int n, int drafts, float *logits);
gy_seq *rig_seq(gy_engine *e);

/* Compares what two sequences store, byte by byte, for every position that both must hold. Returns
 * how many pages of heads were compared. */
int rig_same_pages(const char *what, gy_engine *ea, const gy_seq *a, gy_engine *eb,
                   const gy_seq *b);

/* Reads what others wrote: the plan of e without its KVPUTs, as a drafter or a layer that borrows
 * another's K and V does. */
typedef struct {
    gy_engine *e; /* writes */
    gy_plan *plan;
    gy_op *op;
    gy_be *be; /* asks */
    int asked; /* rows */
} rig_reader;
rig_reader rig_reader_of(gy_engine *e, int threads);
void rig_reader_free(rig_reader *r);

/* Rows of tok[n], n <= 64, at positions pos0 .. of one sequence, which does not change; end: see
 * gy_batch. logits: [n, vocab]. */
void rig_ask(rig_reader *r, gy_seq *s, const int32_t *tok, int n, int pos0, int end, float *logits);

#endif
