/* run/sample - parameters, filters, draw. */
#include "base/dmath.h"
#include "base/mem.h"
#include "run/philox.h"
#include "run/sample_impl.h"

enum { DRAW_TOKEN, DRAW_XTC }; /* numbers of the random draws of one pick */

/* ---- Making one ---- */

uint8_t gy_sampler_mark(const char *text, size_t bytes, bool eos) {
    uint8_t mark = eos ? GY_MARK_XTC_EXEMPT : 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '\n' || c == ':' || c == '"' || c == '*') mark |= GY_MARK_BREAKER;
        if (c == '\n') mark |= GY_MARK_XTC_EXEMPT;
    }
    return mark;
}

/* True when lo <= v <= hi; false for NaN. */
static bool within(const char *name, double v, double lo, double hi, gy_err *err) {
    if (v >= lo && v <= hi) return true;
    gy_fail(err, GY_EARG, "sampling: %s is %g, expected %g to %g", name, v, lo, hi);
    return false;
}

static gy_rc check(const gy_sampling *p, int vocab, gy_err *err) {
    const float big = 1e30f; /* anything finite that leaves room for one operation */
    bool ok = within("temperature", p->temperature, -big, big, err) &&
              within("top_p", p->top_p, 0, big, err) && within("min_p", p->min_p, 0, 1, err) &&
              within("typical_p", p->typical_p, 0, big, err) &&
              within("top_n_sigma", p->top_n_sigma, -big, big, err) &&
              within("xtc_probability", p->xtc_probability, 0, 1, err) &&
              within("xtc_threshold", p->xtc_threshold, 0, 1, err) &&
              within("repetition_penalty", p->repetition_penalty, 0, big, err) &&
              within("frequency_penalty", p->frequency_penalty, -big, big, err) &&
              within("presence_penalty", p->presence_penalty, -big, big, err) &&
              within("dry_multiplier", p->dry_multiplier, 0, big, err) &&
              (p->dry_base == 0 || within("dry_base", p->dry_base, 1, big, err)) &&
              within("dynatemp_range", p->dynatemp_range, 0, big, err) &&
              within("dynatemp_exponent", p->dynatemp_exponent, 0, big, err) &&
              within("mirostat", p->mirostat, 0, 2, err) &&
              within("mirostat_tau", p->mirostat_tau, 0, big, err) &&
              within("mirostat_eta", p->mirostat_eta, 0, big, err) &&
              within("n_bias", p->n_bias, 0, 1 << 20, err);
    if (ok && p->n_bias && !p->bias)
        return gy_fail(err, GY_EARG, "sampling: no array of logit biases");
    for (int i = 0; ok && i < p->n_bias; i++) {
        ok = within("logit bias", p->bias[i].bias, -big, big, err);
        if (ok && (p->bias[i].id < 0 || p->bias[i].id >= vocab)) {
            return gy_fail(err, GY_EARG,
                           "sampling: logit bias for token %d, but the vocabulary has %d",
                           p->bias[i].id, vocab);
        }
    }
    return ok ? GY_OK : GY_EARG;
}

static void fill_defaults(gy_sampler *s) {
    gy_sampling *p = &s->p;
    s->window_given = p->penalty_last != 0;
    if (!p->penalty_last) p->penalty_last = 64;
    if (p->repetition_penalty == 0) p->repetition_penalty = 1;
    if (p->dry_base == 0) p->dry_base = 1.75f;
    if (p->dry_allowed_length <= 0) p->dry_allowed_length = 2;
    if (p->dynatemp_exponent == 0) p->dynatemp_exponent = 1;
    if (p->mirostat_tau == 0) p->mirostat_tau = 5;
    if (p->mirostat_eta == 0) p->mirostat_eta = 0.1f;
    if (p->min_keep < 1) p->min_keep = 1;
    s->mu = 2 * (double)p->mirostat_tau;
}

gy_rc gy_sampler_new(const gy_sampling *p, int vocab, int context, const uint8_t *marks,
                     gy_sampler **out, gy_err *err) {
    if (vocab < 1 || context < 0)
        return gy_fail(err, GY_EARG, "sampling: %d logits, context %d", vocab, context);
    gy_rc rc = check(p, vocab, err);
    if (rc) return rc;
    gy_sampler *s = gy_alloc(sizeof *s);
    if (!s) return gy_fail(err, GY_ENOMEM, "sampler");
    *s = (gy_sampler){.p = *p, .vocab = vocab, .context = context, .marks = marks};
    s->p.bias = NULL;
    fill_defaults(s);
    bool penalties =
        s->p.repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
    bool history = penalties || p->dry_multiplier > 0, ok = true;
    size_t n = (size_t)vocab;
    if (p->n_bias) {
        gy_logit_bias *b = gy_alloc_n((size_t)p->n_bias, sizeof *b);
        if (b) memcpy(b, p->bias, (size_t)p->n_bias * sizeof *b);
        ok = (s->p.bias = b) != NULL;
    }
    if (history || p->n_bias) ok = ok && (s->work = gy_alloc_n(n, sizeof *s->work));
    if (history) ok = ok && (s->seen = gy_alloc_n(n, sizeof *s->seen));
    if (p->dry_multiplier > 0) ok = ok && (s->z = gy_alloc_n((size_t)context + 1, sizeof *s->z));
    if (p->temperature > 0) {
        ok = ok && (s->c.at = gy_alloc_n(n, sizeof *s->c.at)) &&
             (s->c.spare = gy_alloc_n(n, sizeof *s->c.spare));
    }
    if (!ok) {
        gy_sampler_free(s);
        return gy_fail(err, GY_ENOMEM, "sampler for %d logits", vocab);
    }
    *out = s;
    return GY_OK;
}

void gy_sampler_free(gy_sampler *s) {
    if (!s) return;
    gy_free((void *)s->p.bias);
    gy_free(s->work);
    gy_free(s->seen);
    gy_free(s->z);
    gy_free(s->c.at);
    gy_free(s->c.spare);
    gy_free(s);
}

/* ---- Filters: each shrinks lo..hi-1 and leaves at least min_keep of them ---- */

static void cut(gy_sampler *s, int keep) {
    gy_cands *c = &s->c;
    if (keep < s->p.min_keep) keep = s->p.min_keep;
    if (keep >= c->hi - c->lo) return;
    gy_cands_get(c, c->lo + keep - 1); /* the boundary may lie inside a bucket */
    c->hi = c->lo + keep;
    if (c->sorted > c->hi) c->sorted = c->hi;
}

/* Drops what lies below the limit. */
static void cut_below(gy_sampler *s, double limit) {
    int i = s->c.lo;
    while (i < s->c.hi && gy_cands_get(&s->c, i).l >= limit) i++;
    cut(s, i - s->c.lo);
}

static void top_n_sigma(gy_sampler *s) {
    gy_cands *c = &s->c;
    double n = c->hi - c->lo, mean = 0, var = 0;
    for (int i = c->lo; i < c->hi; i++) mean += c->at[i].l;
    mean /= n;
    for (int i = c->lo; i < c->hi; i++) var += (c->at[i].l - mean) * (c->at[i].l - mean);
    cut_below(s, gy_cands_get(c, c->lo).l - s->p.top_n_sigma * __builtin_sqrt(var / n));
}

/* exp(l - max) of candidate i at temperature t. */
static double weight(gy_sampler *s, int i, double t) {
    return gy_sample_exp(((double)gy_cands_get(&s->c, i).l - (double)s->c.at[s->c.lo].l) / t);
}

/* Entropy of the survivors in nats; *log_total is the logarithm of the sum of their weights. */
static double entropy(gy_sampler *s, double *log_total) {
    gy_cands *c = &s->c;
    gy_cands_sort_to(c, c->hi - 1);
    double total = gy_cands_sum(c, 1), h = 0, lt = gy_dlog(total);
    for (int i = c->lo; i < c->hi; i++) {
        double logp = (double)c->at[i].l - (double)c->at[c->lo].l - lt;
        h -= weight(s, i, 1) / total * logp;
    }
    *log_total = lt;
    return h;
}

/* Keeps the candidates whose surprise is nearest to the entropy, until their sum passes typical_p.
 */
static void typical(gy_sampler *s) {
    gy_cands *c = &s->c;
    double lt, h = entropy(s, &lt), total = gy_cands_sum(c, 1), sum = 0;
    int n = c->hi - c->lo, keep = 0;
    for (int i = 0; i < n; i++) {
        double gap = (double)c->at[c->lo].l + lt - (double)c->at[c->lo + i].l - h;
        c->spare[i] =
            (gy_cand){(float)(gap < 0 ? gap : -gap), i}; /* descending -|gap|: ascending distance */
    }
    gy_cands_order(c->spare, n);
    while (keep < n && (keep < s->p.min_keep || !(sum > s->p.typical_p * total))) {
        sum += weight(s, c->lo + c->spare[keep++].id, 1);
    }
    for (int i = 0; i < keep; i++) c->spare[i].l = 0;
    gy_cands_order(c->spare, keep); /* back to descending probability: by rank */
    for (int i = 0; i < keep; i++) c->at[c->lo + i] = c->at[c->lo + c->spare[i].id];
    c->hi = c->sorted = c->lo + keep;
}

static void top_p(gy_sampler *s) {
    gy_cands_get(&s->c, s->c.lo);
    double limit = s->p.top_p * gy_cands_sum(&s->c, 1), sum = 0;
    int i = s->c.lo;
    while (i < s->c.hi && !(sum >= limit && i > s->c.lo)) sum += weight(s, i++, 1);
    cut(s, i - s->c.lo);
}

/* With some probability drops all but the least of those that pass the threshold, to surprise. */
static void xtc(gy_sampler *s, const gy_sample_in *in) {
    gy_cands *c = &s->c;
    if (!(s->p.xtc_threshold <= 0.5f)) return; /* two candidates could not pass it */
    if (gy_philox_uniform(s->p.seed, in->pos, in->choice, DRAW_XTC) > s->p.xtc_probability) return;
    gy_cands_get(c, c->lo);
    double limit = s->p.xtc_threshold * gy_cands_sum(c, 1);
    int last = c->lo;
    while (last + 1 < c->hi && weight(s, last + 1, 1) >= limit) last++;
    if (c->hi - last < s->p.min_keep) return;
    int to = last;
    for (int i = last - 1; i >= c->lo; i--) {
        gy_cand v = c->at[i];
        if (s->marks && s->marks[v.id] & GY_MARK_XTC_EXEMPT) c->at[--to] = v;
    }
    c->lo = to;
}

static void truncate(gy_sampler *s, const gy_sample_in *in) {
    const gy_sampling *p = &s->p;
    if (p->top_n_sigma > 0) top_n_sigma(s);
    if (p->top_k > 0) cut(s, p->top_k);
    if (p->typical_p > 0 && p->typical_p < 1) typical(s);
    if (p->top_p > 0 && p->top_p < 1) top_p(s);
    if (p->min_p > 0) cut_below(s, (double)gy_cands_get(&s->c, s->c.lo).l + gy_dlog(p->min_p));
    if (p->xtc_probability > 0) xtc(s, in);
}

/* ---- Draw ---- */

/* The temperature, or what the entropy of the survivors makes of it. */
static double temperature(gy_sampler *s) {
    double t = s->p.temperature, range = s->p.dynatemp_range, lt;
    int n = s->c.hi - s->c.lo;
    if (!(range > 0) || n < 2) return t;
    double share = entropy(s, &lt) / gy_dlog(n), low = t > range ? t - range : 0;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return low + (t + range - low) * gy_dpow(share, s->p.dynatemp_exponent);
}

/* Index of the drawn candidate: the first whose cumulative weight passes u times the total. */
static int draw(gy_sampler *s, const gy_sample_in *in) {
    gy_cands *c = &s->c;
    gy_cands_get(c, c->lo);
    s->total = gy_cands_sum(c, s->t);
    double limit = gy_philox_uniform(s->p.seed, in->pos, in->choice, DRAW_TOKEN) * s->total,
           sum = 0;
    for (int i = c->lo; i < c->hi; i++) {
        sum += weight(s, i, s->t);
        if (sum > limit) return i;
    }
    return c->lo; /* only when two orders of summation differ in their last bits */
}

/* Mirostat 1: how many candidates, from the exponent of Zipf's law as the best hundred show it. */
static int zipf_keep(gy_sampler *s) {
    double tb = 0, tt = 0;
    gy_cands *c = &s->c;
    int m = c->hi - c->lo < 100 ? c->hi - c->lo : 100;
    for (int i = 0; i + 1 < m; i++) {
        double t = gy_dlog((double)(i + 2) / (i + 1));
        double b =
            ((double)gy_cands_get(c, c->lo + i).l - (double)gy_cands_get(c, c->lo + i + 1).l) /
            s->t;
        tb += t * b, tt += t * t;
    }
    if (!(tt > 0) || !(tb > 0)) return c->hi - c->lo;
    double exponent = tb / tt, eps = exponent - 1, n = s->vocab;
    double k = eps == 0 ? gy_dpow(2, s->mu) / gy_dlog(n)
                        : eps * gy_dpow(2, s->mu) / (1 - gy_dpow(n, -eps));
    k = gy_dpow(k, 1 / exponent);
    return k < c->hi - c->lo ? (int)k : c->hi - c->lo;
}

/* Mirostat: cuts where the surprise would pass mu, draws, and moves mu toward tau. */
static int mirostat(gy_sampler *s, const gy_sample_in *in) {
    const double ln2 = 0x1.62e42fefa39efp-1;
    gy_cands *c = &s->c;
    gy_cands_get(c, c->lo);
    if (s->p.mirostat == 1) {
        cut(s, zipf_keep(s));
    } else {
        double limit = gy_dexp(-s->mu * ln2) * gy_cands_sum(c, s->t);
        int i = c->lo;
        while (i < c->hi && weight(s, i, s->t) >= limit) i++;
        cut(s, i - c->lo);
    }
    int i = draw(s, in);
    double surprise = -gy_dlog(weight(s, i, s->t) / s->total) / ln2;
    s->mu -= s->p.mirostat_eta * (surprise - s->p.mirostat_tau);
    return i;
}

/* ---- Pick ---- */

enum { BLOCK = 64 };

/* Largest of up to BLOCK values, -infinity if there is none; *bad is set when one is NaN or
 * +infinity. */
static float block_max(const float *l, int n, bool *bad) {
    const float inf = gy_bits_f32(0x7F800000);
    float m[8];
    int odd[8] = {0};
    for (int k = 0; k < 8; k++) m[k] = -inf;
    for (int i = 0; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) m[k] = l[i + k] > m[k] ? l[i + k] : m[k];
        for (int k = 0; k < 8; k++) odd[k] |= !(l[i + k] < inf);
    }
    for (int i = n & ~7; i < n; i++) {
        m[0] = l[i] > m[0] ? l[i] : m[0];
        odd[0] |= !(l[i] < inf);
    }
    for (int k = 1; k < 8; k++) m[0] = m[k] > m[0] ? m[k] : m[0], odd[0] |= odd[k];
    *bad |= odd[0];
    return m[0];
}

/* Largest of l[n], the first of equals. Fails on NaN, +infinity and when all are -infinity. */
static gy_rc largest(const float *l, int n, const char *what, int *best, gy_err *err) {
    float max = gy_bits_f32(0xFF800000);
    int from = -1, i = 0;
    for (int b = 0; b < n; b += BLOCK) {
        bool bad = false;
        float m = block_max(l + b, n - b < BLOCK ? n - b : BLOCK, &bad);
        if (bad) {
            for (i = b; l[i] < gy_bits_f32(0x7F800000);) i++;
            return gy_fail(err, GY_EARG, "sampling: logit %d is %g", i, l[i]);
        }
        if (m > max) max = m, from = b;
    }
    if (from < 0) return gy_fail(err, GY_EARG, "sampling: no token is left %s", what);
    for (i = from; l[i] != max;) i++;
    *best = i;
    return GY_OK;
}

/* The k largest of l[n] as log-probabilities. */
static int list_top(const float *l, int n, int k, double log_sum, gy_logprob *top) {
    gy_cand best[GY_TOP_LOGPROBS + 1];
    int count = 0;
    bool bad = false;
    for (int i = 0; i < n && k; i++) {
        if (i % BLOCK == 0 && count == k && i + BLOCK <= n &&
            !(block_max(l + i, BLOCK, &bad) > best[k - 1].l)) {
            i += BLOCK - 1; /* nothing here gets into the list */
            continue;
        }
        if (count == k && !(l[i] > best[k - 1].l)) continue;
        int j = count < k ? count++ : k - 1;
        for (; j > 0 && l[i] > best[j - 1].l; j--) best[j] = best[j - 1];
        best[j] = (gy_cand){l[i], i};
    }
    for (int i = 0; i < count; i++) top[i] = (gy_logprob){best[i].id, (float)(best[i].l - log_sum)};
    return count;
}

static int32_t choose(gy_sampler *s, const gy_sample_in *in, int best) {
    if (!(s->p.temperature > 0)) return best;
    gy_cands_build(&s->c, s->cur, in->n, s->cur[best]);
    if (!s->p.mirostat) truncate(s, in);
    s->t = s->p.mirostat ? s->p.temperature : temperature(s);
    if (!(s->t > 0)) {
        s->c.hi = s->c.lo + 1, s->t = s->total = 1;
        return gy_cands_get(&s->c, s->c.lo).id;
    }
    return s->c.at[s->p.mirostat ? mirostat(s, in) : draw(s, in)].id;
}

gy_rc gy_sampler_pick(gy_sampler *s, const gy_sample_in *in, int n_top, gy_sample_out *out,
                      gy_err *err) {
    GY_ASSERT(in->n >= 1 && in->n <= s->vocab && n_top >= 0 && n_top <= GY_TOP_LOGPROBS);
    int raw_best, best;
    gy_rc rc = largest(in->logits, in->n, "that the model allows", &raw_best, err);
    if (rc) return rc;
    gy_sample_adjust(s, in);
    best = raw_best;
    if (s->cur != in->logits) rc = largest(s->cur, in->n, "after bias and penalties", &best, err);
    if (rc) return rc;
    double max = in->logits[raw_best],
           log_sum = max + gy_dlog(gy_sample_sum(in->logits, in->n, max, 1));
    out->id = choose(s, in, best);
    out->logprob = (float)(in->logits[out->id] - log_sum);
    out->n_top = list_top(in->logits, in->n, n_top, log_sum, out->top);
    if (!(s->p.temperature > 0)) s->c.lo = s->c.hi = best; /* for gy_sampler_prob */
    return GY_OK;
}

const float *gy_sampler_logits(const gy_sampler *s) {
    return s->cur;
}

double gy_sampler_prob(const gy_sampler *s, int32_t id) {
    const gy_cands *c = &s->c;
    if (!(s->p.temperature > 0)) return id == c->lo;
    for (int i = c->lo; i < c->hi; i++) {
        if (c->at[i].id != id) continue;
        return gy_sample_exp(((double)c->at[i].l - (double)c->at[c->lo].l) / s->t) / s->total;
    }
    return 0;
}

gy_rc gy_sample(const gy_sampling *sampling, const float *logits, int n, const int32_t *history,
                int n_history, int pos, int32_t *id, float *logprob, gy_err *err) {
    gy_sampling greedy = {0};
    gy_sampler *s;
    gy_sample_out out;
    if (err) *err = (gy_err){0};
    if (n < 1 || !logits) return gy_fail(err, GY_EARG, "sampling: no logits");
    gy_rc rc = gy_sampler_new(sampling ? sampling : &greedy, n, n_history > 0 ? n_history : 0, NULL,
                              &s, err);
    if (rc) return rc;
    gy_sample_in in = {.logits = logits,
                       .n = n,
                       .history = history,
                       .n_history = n_history,
                       .n_prompt = n_history > pos ? n_history - pos : 0,
                       .pos = pos};
    rc = gy_sampler_pick(s, &in, 0, &out, err);
    gy_sampler_free(s);
    if (rc) return rc;
    *id = out.id;
    if (logprob) *logprob = out.logprob;
    return GY_OK;
}
