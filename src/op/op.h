/* op - the vocabulary between plan and backends. No arithmetic here.
 *
 * A plan is a flat list of ops over slots. A slot is an activation buffer, f32 [batch rows, cols];
 * slot numbers index gy_plan.slot_cols. Ops marked OUTS work on the rows whose logits are wanted
 * (after PICK), others on all rows.
 *
 *   EMBED    out = scale * decode(w0, token of the row)
 *   NORM     out = norm(in0) * w0 [+ bias of w0]           over all cols of in0
 *   LINEAR   out = in0 x w0^T [+ bias] | in0 x w1^T | ...  outputs side by side, in order of w
 *   HEADNORM in place on cols [col, col + heads * dim) of out: each dim-wide part, times w0[dim]
 *   ROPE     in place on cols [col, col + heads * dim) of out
 *   KVPUT    k = cols [kcol..), v = cols [vcol..) of in0, coded into the layer's page of the row
 *   ATTN     out = attention(q = cols [0..) of in0, the layer's pages)
 *   ACT      out = act(in0), or act(gate) * up where in0 = gate | up
 *   ADD      out = in0 + a * in1
 *   PICK     out rows = in0 rows listed in batch->out
 *   LOGITS   logits = cap(a * (in0 x w0^T [+ bias]))       OUTS
 *   GATE     out = in0 * sigmoid(g) or norm(in0) * w0 * silu(g), by heads; g = in1 from col on
 *   CONV     cols [0, cols) of out in place: silu(sum of w[j] * row j), each column by itself, over
 *            the last taps rows of the sequence; rows of earlier steps come from its state
 *   SCAN     gated delta rule (kv.md 4.7): q | k | v = in0, b | a = in1; out = what each value head
 *            reads out. The heads' matrices are the sequence's state. in0 and in1 are used up:
 *            unit q and k, beta and decay take their place
 *   HEADS    every head of in0 times a matrix of its own; columns behind it may be copied along
 *   REGROUP  in0 = groups of n parts, side by side; out = all first parts, all second parts ...
 *   ROUTE    out = ids (as numbers, ascending) | weights of the top_k experts by the scores in0,
 *            higher first, then lower id; the scores are used up
 *   EXPERTS  out = sum of weight * down_e(act(gate_e in0) * up_e in0) over the experts of in1, by
 *            ascending id
 *
 * CLIP: later families. */
#ifndef GY_OP_H
#define GY_OP_H

#include <stdatomic.h>

#include "codec/codec.h"

/* One line is one idea in what follows. */
/* clang-format off */

typedef struct {
    gy_rows file;          /* view of the mapping, always usable */
    const float *bias;     /* [rows] f32 or NULL */
    const char *name;      /* tensor name, for people */
    _Atomic(void *) packed; /* optional layout of the backend, same bits; appears between steps */
} gy_weight;

typedef enum {
    GY_OP_EMBED, GY_OP_NORM, GY_OP_LINEAR, GY_OP_HEADNORM, GY_OP_ROPE, GY_OP_KVPUT, GY_OP_ATTN,
    GY_OP_ACT, GY_OP_ADD, GY_OP_ROUTE, GY_OP_EXPERTS, GY_OP_GATE, GY_OP_CLIP, GY_OP_CONV,
    GY_OP_SCAN, GY_OP_HEADS, GY_OP_REGROUP, GY_OP_PICK, GY_OP_LOGITS, GY_OP_COUNT
} gy_opk;
extern const char *const gy_op_names[GY_OP_COUNT]; /* "embed" ... */

/* PLUS1: the weight is 1 + w. */
typedef enum { GY_NORM_RMS, GY_NORM_RMS_PLUS1, GY_NORM_LAYER } gy_norm_form;
typedef enum {
    GY_ACT_SILU, GY_ACT_GELU_TANH, GY_ACT_GELU_ERF, GY_ACT_RELU, GY_ACT_RELU2,
    GY_ACT_QUICK_GELU,  /* x * sigmoid(1.702 x) */
    GY_ACT_CLAMPED_GELU /* quick gelu of min(x, 7); a second factor u counts as clip(u, -7, 7) + 1 */
} gy_act_form;
/* SIGMOID_ALL: one gate value for a whole head. */
typedef enum { GY_GATE_SIGMOID, GY_GATE_NORM_SILU, GY_GATE_SIGMOID_ALL } gy_gate_form;
/* The experts' weights: softmax over all; over the chosen; sigmoid of the scores. */
typedef enum { GY_ROUTE_SOFTMAX, GY_ROUTE_CHOSEN, GY_ROUTE_SIGMOID } gy_route_score;
enum { GY_TOP_K = 64, GY_ROUTE_GROUPS = 64 }; /* most experts of a row; most groups */
extern const char *const gy_norm_names[], *const gy_act_names[], *const gy_gate_names[],
    *const gy_route_names[];

/* flags. GLU: ACT reads gate | up halves of in0. EXACT: LINEAR uses the exact arithmetic always,
 * for what decides: scores of experts. */
enum { GY_OPF_OUTS = 1, GY_OPF_GLU = 2, GY_OPF_EXACT = 4 };

typedef struct {
    uint8_t kind, flags;
    int16_t layer;        /* -1 outside layers */
    int16_t in[2], out;   /* slots, -1 where unused; in place ops name the slot as out */
    gy_weight *w[3];      /* NULL where unused */
    union {
        struct { float scale; } embed;
        struct { float eps; uint8_t form; } norm;
        struct { float eps; uint8_t form; int col, heads, dim; } headnorm;
        struct {
            int col, heads, dim, rot;  /* rot: rotated leading dims of each head, even */
            bool pairs;                /* true: (2i, 2i+1); false: (i, i + rot/2) */
            float mscale;              /* multiplies the rotated part */
            const float *inv_freq;     /* [rot/2] */
            /* dynamic NTK (models.md 3.2): when dyn_max > 0 frequencies at position p >= dyn_max
             * come from base' = base * (factor * (p+1) / dyn_max - (factor - 1))^(rot/(rot-2)) */
            int dyn_max;
            double dyn_base, dyn_factor;
        } rope;
        struct { int kcol, vcol; } kvput;
        struct { /* window, chunk, kept, cap 0: none; sinks [heads] or NULL */
            int heads, kv_heads, kdim, vdim;
            int window; /* the query at q sees p when q - p < window - kept */
            int chunk;  /* p / chunk == q / chunk */
            int kept;   /* < window; p < kept is seen besides */
            float scale, cap;
            const float *sinks;
        } attn;
        struct { uint8_t form; int width; } act;            /* width: cols of out */
        struct { float a; } add;
        struct { float a, cap; } logits;                    /* cap 0: none */
        struct { uint8_t form; int heads, dim, col; float eps; } gate;
        struct { /* groups 0: none, else only the `kept` best of them; bias [experts] or NULL: is
                  * added for choosing; renorm: weights are divided by their sum */
            int experts, top_k, groups, kept;
            uint8_t score;
            bool renorm;
            float scale;
            const float *bias;
        } route;
        struct { /* gate, up, down [experts] */
            int experts, top_k, width;
            uint8_t act;
            const gy_weight *gate, *up, *down;
        } experts;
        struct { int cols, taps; const float *w; } conv;    /* w [taps][cols], oldest tap first */
        struct { /* dt_bias, rate [v_heads]: decay = e^-(rate * softplus(a + dt_bias)) */
            int k_heads, v_heads, kdim, vdim;
            const float *dt_bias, *rate;
        } scan;
        struct { /* w [heads]; columns of in0 and of out from head to head */
            int heads, step, to_step, copied;
            const gy_weight *w;
        } heads;
        struct { /* part i of every group: width[i] columns, the first group's to column to[i] */
            int groups, n, width[4], to[4];
            int rest, rest_cols; /* the columns behind the groups; rest_cols 0: none */
        } regroup;
    } u;
} gy_op;

enum { GY_PAGE = 64 }; /* positions: unit of storage, of attention blocking and of hashing */

typedef enum { GY_KEEP_ALL, GY_KEEP_WINDOW, GY_KEEP_STATE } gy_keep_policy;
typedef struct { uint8_t policy; int window, sinks; } gy_keep;

typedef struct { gy_cparm k, v; } gy_kvpair; /* codecs of one layer */

/* VIEW: V is the first vdim values of the K row, stored once (latents); its codec does not turn.
 * KEYS: no V; vdim 0 (indexers). */
typedef enum { GY_KV_BOTH, GY_KV_VIEW, GY_KV_KEYS } gy_kv_form;

/* What one layer stores per position: heads rows of kdim K values and of vdim V values. donor: the
 * layer that is read instead, or -1. */
typedef struct {
    gy_cparm k, v;
    int heads, kdim, vdim, donor;
    gy_keep keep;
    /* STATE, instead of rows: f32 values per sequence, of CONV [taps - 1][cols] (the newest inputs,
     * oldest first) and of SCAN [v_heads][vdim][kdim]. */
    int conv, scan;
    uint8_t form; /* gy_kv_form */
} gy_kvspec;

typedef struct {
    gy_op *op;             /* [n_ops] */
    int n_ops, n_slots;
    const int *slot_cols;  /* [n_slots] */
    gy_kvspec *kv;         /* [n_layers] */
    int n_layers, vocab;
} gy_plan;

/* ---- The only seam between host logic and a device ---- */

struct gy_batch;
typedef enum { GY_BE_EXACT, GY_BE_FAST } gy_be_arith;

typedef struct gy_be gy_be;
struct gy_be {
    const char *name, *isa;
    /* Starts a step: batch is constant until end. Nothing in a step allocates or fails but a lost
     * device. */
    void (*begin)(gy_be *be, const struct gy_batch *batch);
    void (*run)(gy_be *be, const gy_op *op, const struct gy_batch *batch);
    gy_rc (*end)(gy_be *be, gy_err *err);
    /* Host view of a slot, for traces; valid until the next op. */
    const float *(*slot)(gy_be *be, int slot, int *ld);
    uint64_t (*saturated)(gy_be *be); /* KV values clamped so far */
    /* Makes w->packed if the codec has a faster layout; any thread. */
    gy_rc (*pack)(gy_be *be, gy_weight *w, gy_err *err);
    size_t (*packed_bytes)(gy_be *be);
    void (*free)(gy_be *be);
};

/* clang-format on */

#endif
