/* run/sample_adjust - what changes logits before anything is filtered: bias, penalties, DRY. */
#include "base/dmath.h"
#include "run/sample_impl.h"

static void add_bias(gy_sampler *s, int n) {
    const gy_logit_bias *b = s->p.bias;
    bool only = false;
    for (int i = 0; i < s->p.n_bias; i++) only |= b[i].bias >= 100;
    if (only) { /* +100: nothing but these */
        for (int i = 0; i < n; i++) s->work[i] = gy_bits_f32(0xFF800000);
        for (int i = 0; i < s->p.n_bias; i++) {
            if (b[i].bias >= 100 && b[i].id < n) s->work[b[i].id] = s->cur[b[i].id] + b[i].bias;
        }
        return;
    }
    for (int i = 0; i < s->p.n_bias; i++) {
        if (b[i].id >= n) continue;
        if (b[i].bias <= -100) {
            s->work[b[i].id] = gy_bits_f32(0xFF800000);
        } else {
            s->work[b[i].id] += b[i].bias;
        }
    }
}

static inline bool inside(int32_t id, int n) {
    return id >= 0 && id < n;
}

/* Once for every distinct id in the window. */
static void repetition(gy_sampler *s, const int32_t *h, int len, int n) {
    float r = s->p.repetition_penalty;
    int window = s->p.penalty_last < 0 || s->p.penalty_last > len ? len : s->p.penalty_last;
    for (int i = len - window; i < len; i++) {
        if (!inside(h[i], n) || s->seen[h[i]]++) continue;
        float l = s->work[h[i]];
        s->work[h[i]] = l > 0 ? l / r : l * r;
    }
    for (int i = len - window; i < len; i++) {
        if (inside(h[i], n)) s->seen[h[i]] = 0;
    }
}

/* h: generated tokens only. */
static void frequency(gy_sampler *s, const int32_t *h, int len, int n) {
    for (int i = 0; i < len; i++) {
        if (inside(h[i], n)) s->seen[h[i]]++;
    }
    for (int i = 0; i < len; i++) {
        if (!inside(h[i], n) || !s->seen[h[i]]) continue;
        s->work[h[i]] -= s->p.presence_penalty;
        s->work[h[i]] -= s->p.frequency_penalty * (float)s->seen[h[i]];
        s->seen[h[i]] = 0;
    }
}

/* z[i]: how many tokens before the end of h[len] equal those before h[len - i], at most cap. The Z
 * function of the reversed history. */
static void repeats(const int32_t *h, int len, int32_t *z, int cap) {
    const int32_t *r = h + len - 1; /* r[-i] is the reversed history */
    for (int i = 1, left = 0, right = 0; i < len; i++) {
        int k = i < right ? (z[i - left] < right - i ? z[i - left] : right - i) : 0;
        while (i + k < len && r[-k] == r[-(i + k)]) k++;
        if (i + k > right) left = i, right = i + k;
        z[i] = k;
    }
    for (int i = 1; i < len; i++) {
        if (z[i] > cap) z[i] = cap;
    }
}

static void dry(gy_sampler *s, const int32_t *h, int len, int n) {
    int allowed = s->p.dry_allowed_length, cap = 0;
    if (s->p.dry_last > 0 && s->p.dry_last < len) h += len - s->p.dry_last, len = s->p.dry_last;
    /* A repetition may not reach back over the most recent breaker. */
    while (cap < len) {
        int32_t id = h[len - 1 - cap];
        if (s->marks && inside(id, s->vocab) && s->marks[id] & GY_MARK_BREAKER) break;
        cap++;
    }
    if (cap < allowed || len < 2) return;
    repeats(h, len, s->z, cap);
    for (int i = 1; i < len; i++) { /* h[len - i] once followed the same z[i] tokens */
        int32_t id = h[len - i];
        if (inside(id, n) && s->z[i] > s->seen[id]) s->seen[id] = s->z[i];
    }
    for (int i = 1; i < len; i++) {
        int32_t id = h[len - i];
        if (!inside(id, n)) continue;
        int longest = s->seen[id];
        s->seen[id] = 0;
        if (longest < allowed || !longest || (s->marks && s->marks[id] & GY_MARK_BREAKER)) continue;
        double cost = s->p.dry_multiplier * gy_dpow(s->p.dry_base, longest - allowed);
        s->work[id] -= cost < 0x1.fffffep127 ? (float)cost : 0x1.fffffep127f;
    }
}

void gy_sample_adjust(gy_sampler *s, const gy_sample_in *in) {
    s->cur = in->logits;
    if (!s->work) return;
    const gy_sampling *p = &s->p;
    memcpy(s->work, in->logits, (size_t)in->n * sizeof *s->work);
    if (p->n_bias) add_bias(s, in->n);
    s->cur = s->work;
    if (!s->seen || in->n_history <= 0) return;
    int len = in->n_history, cut = len > s->context ? len - s->context : 0;
    const int32_t *h = in->history + cut;
    len -= cut;
    if (p->repetition_penalty != 1) repetition(s, h, len, in->n);
    if (p->presence_penalty != 0 || p->frequency_penalty != 0) {
        int from = in->n_prompt > cut ? in->n_prompt - cut : 0;
        if (s->window_given && p->penalty_last > 0 && len - from > p->penalty_last)
            from = len - p->penalty_last;
        if (from < len) frequency(s, h + from, len - from, in->n);
    }
    if (p->dry_multiplier > 0) dry(s, h, len, in->n);
}
