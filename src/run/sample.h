/* run/sample - from logits to one token.
 *
 *     logits --bias, penalties, DRY--> l --top_n_sigma, top_k, typical_p, top_p, min_p, xtc--> few
 * --temperature--> draw
 *        '--log-softmax--> logprob of the chosen token, top alternatives
 *
 * The order is serving.md section 12. Candidates are sorted lazily: one pass groups them into
 * descending buckets, and only the buckets that a filter walks into are sorted, by (logit
 * descending, id ascending).
 *
 * State: all that outlives a pick is Mirostat's mu; everything else is a function of (logits,
 * history, position). The random numbers are Philox4x32-10 of (seed; pos, choice, draw), so nothing
 * has to be saved, rolled back or kept in step. Owner: one per running request. Thread: one at a
 * time. gy_sampler_pick allocates nothing.
 *
 * Bits: + - * / sqrt, and exp and log of our own, in a fixed order: the same token on every
 * machine. The exp here has a relative error below 2^-44 (tests/unit/sample.c), far below what f32
 * logits carry. */
#ifndef GY_RUN_SAMPLE_H
#define GY_RUN_SAMPLE_H

#include "base/err.h"

typedef struct gy_sampler gy_sampler;

enum { GY_TOP_LOGPROBS = 20 };

/* What one token is to the filters that look at text; see gy_sampler_mark. */
enum { GY_MARK_BREAKER = 1, GY_MARK_XTC_EXEMPT = 2 };

/* Marks of a token with this text: DRY's default breakers (newline, ':', '"', '*') stop a
 * repetition, and XTC never removes newlines or tokens that end an answer. */
uint8_t gy_sampler_mark(const char *text, size_t bytes, bool eos);

/* Checks the parameters (GY_EARG names the wrong one) and reserves all memory: for vocab logits,
 * and histories of at most `context` tokens when a parameter looks at them (longer ones are cut to
 * their last `context` tokens). *p is copied, its bias array too. marks[vocab] is borrowed until
 * the end, or NULL: no token has any. */
gy_rc gy_sampler_new(const gy_sampling *p, int vocab, int context, const uint8_t *marks,
                     gy_sampler **s, gy_err *err);
void gy_sampler_free(gy_sampler *s); /* NULL is fine */

typedef struct {
    const float *logits; /* [n], n <= vocab; not changed */
    int n;
    const int32_t *history; /* [n_history] tokens before this one, oldest first */
    int n_history;
    int n_prompt;    /* the first of them that were given, not generated. Presence and frequency
                        penalties count    generated tokens only */
    int pos, choice; /* counter of the random numbers: position of the token to pick; which of n
                        answers */
} gy_sample_in;

typedef struct {
    int32_t id;
    float logprob;                   /* before bias, penalties, filters and temperature */
    gy_logprob top[GY_TOP_LOGPROBS]; /* [n_top] of the same distribution, descending, ties by id */
    int n_top;
} gy_sample_out;

/* Picks a token; n_top <= GY_TOP_LOGPROBS alternatives are wanted. GY_EARG: a logit is NaN or
 * +infinity, or no candidate is left; the sampler is then as before. */
gy_rc gy_sampler_pick(gy_sampler *s, const gy_sample_in *in, int n_top, gy_sample_out *out,
                      gy_err *err);

/* Of the last pick, for tests and for logprobs of the sampled distribution: the logits after bias
 * and penalties (valid until the next pick, or until the caller's logits go), and the probability
 * with which id could be drawn. */
const float *gy_sampler_logits(const gy_sampler *s);
double gy_sampler_prob(const gy_sampler *s, int32_t id);

#endif
