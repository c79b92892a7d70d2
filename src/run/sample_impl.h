/* run/sample_impl - the sampler's parts, shared by its three files.
 *
 *     cands.at: [ ... lo | sorted candidates ... | sorted | bucket | bucket | ... | hi ]
 *
 * Candidates lo..hi-1 are still in the game. lo..sorted-1 are in their final order; behind them lie
 * whole buckets in descending order, each unsorted within. gy_cands_need sorts on demand. Thread
 * and owner: the sampler's. */
#ifndef GY_RUN_SAMPLE_IMPL_H
#define GY_RUN_SAMPLE_IMPL_H

#include "base/num.h"
#include "run/sample.h"

enum { GY_CAND_BUCKETS = 4096 };

typedef struct {
    float l;
    int32_t id;
} gy_cand;

typedef struct {
    gy_cand *at, *spare; /* [vocab]; spare is scratch */
    int lo, hi, sorted;
    int bucket;               /* the next bucket to sort */
    int end[GY_CAND_BUCKETS]; /* of each bucket in at */
} gy_cands;

struct gy_sampler {
    gy_sampling p; /* defaults filled in */
    int vocab, context;
    bool window_given; /* penalty_last was not left to its default */
    const uint8_t *marks;
    float *work;      /* [vocab] logits after bias and penalties; NULL when nothing changes them */
    const float *cur; /* work, or the caller's logits */
    int32_t
        *seen; /* [vocab] scratch, all zero between uses; NULL when no parameter looks at history */
    int32_t *z;      /* [context] scratch of DRY, or NULL */
    double mu;       /* Mirostat */
    double t, total; /* of the last draw: temperature, sum of exp((l - max) / t) over lo..hi-1 */
    gy_cands c;
};

/* Two doubles at a time, in the compilers' common vector notation: every CPU gyre runs on has
 * registers for two, and one lane is exactly the scalar arithmetic. */
typedef double gy_f64x2 __attribute__((vector_size(16)));
typedef int64_t gy_i64x2 __attribute__((vector_size(16)));

/* e^x for x <= 0, by range reduction and a polynomial of degree 11; below -700 it is e^-700.
 * Relative error below 2^-44. */
static inline gy_f64x2 gy_sample_exp2(gy_f64x2 x) {
    gy_i64x2 low = x < -700.0;
    x = (gy_f64x2)(((gy_i64x2)x & ~low) | ((gy_i64x2)(gy_f64x2){-700, -700} & low));
    gy_f64x2 t = x * 0x1.71547652b82fep+0 + 0x1.8p52; /* the low bits of t hold rint(x / ln 2) */
    gy_f64x2 k = t - 0x1.8p52;
    gy_f64x2 r = (x - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45;
    gy_f64x2 y = r * (1.0 / 39916800) + 1.0 / 3628800;
    y = y * r + 1.0 / 362880;
    y = y * r + 1.0 / 40320;
    y = y * r + 1.0 / 5040;
    y = y * r + 1.0 / 720;
    y = y * r + 1.0 / 120;
    y = y * r + 1.0 / 24;
    y = y * r + 1.0 / 6;
    y = y * r + 0.5;
    y = y * r + 1.0;
    y = y * r + 1.0;
    return y * (gy_f64x2)(((gy_i64x2)t + 1023) << 52);
}

static inline double gy_sample_exp(double x) {
    return gy_sample_exp2((gy_f64x2){x, x})[0];
}

/* Sum of exp((l - max) / t): eight partial sums over i mod 8, then a tree. */
double gy_sample_sum(const float *l, int n, double max, double t);

/* Groups the finite ones of l[n] into buckets; max is the largest of them. Returns how many there
 * are. */
int gy_cands_build(gy_cands *c, const float *l, int n, float max);
void gy_cands_sort_to(gy_cands *c, int i); /* at[i] and all before it get their final places */
double gy_cands_sum(const gy_cands *c,
                    double t); /* as gy_sample_sum over lo..hi-1 in the order in which they lie */
void gy_cands_order(gy_cand *a, int n); /* sorts by l descending, id ascending */

static inline gy_cand gy_cands_get(gy_cands *c, int i) {
    if (i >= c->sorted) gy_cands_sort_to(c, i);
    return c->at[i];
}

/* Sets s->cur: the logits after bias, penalties and DRY. */
void gy_sample_adjust(gy_sampler *s, const gy_sample_in *in);

#endif
