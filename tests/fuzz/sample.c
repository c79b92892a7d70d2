/* Any parameters, any logits, any history: an error, or a token that the logits allow. */
#include <stdlib.h>
#include <string.h>

#include "run/sample.h"

typedef struct {
    const uint8_t *p;
    size_t n;
} source;

static void take(source *s, void *out, size_t n) {
    size_t have = n < s->n ? n : s->n;
    memset(out, 0, n);
    memcpy(out, s->p, have);
    s->p += have, s->n -= have;
}

/* Mostly values of the usual range, sometimes any bits. */
static float number(source *s) {
    uint8_t b;
    float f;
    take(s, &b, 1);
    if (b < 240) return (float)(b % 80) / 20 - (b > 200);
    take(s, &f, 4);
    return f;
}

static gy_sampling parameters(source *s) {
    uint8_t b[8];
    gy_sampling p = {0};
    float *f[] = {&p.temperature,
                  &p.top_p,
                  &p.min_p,
                  &p.typical_p,
                  &p.top_n_sigma,
                  &p.xtc_probability,
                  &p.xtc_threshold,
                  &p.repetition_penalty,
                  &p.frequency_penalty,
                  &p.presence_penalty,
                  &p.dry_multiplier,
                  &p.dry_base,
                  &p.dynatemp_range,
                  &p.dynatemp_exponent,
                  &p.mirostat_tau,
                  &p.mirostat_eta};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        take(s, b, 1);
        if (b[0] & 1) *f[i] = number(s);
    }
    take(s, b, 8);
    p.top_k = (int8_t)b[0], p.penalty_last = (int8_t)b[1], p.dry_allowed_length = b[2] % 8,
    p.dry_last = b[3];
    p.mirostat = b[4] % 8 < 3 ? b[4] % 8 : 0, p.min_keep = b[5] % 8, p.seed = b[6],
    p.n_bias = b[7] % 4;
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    source s = {data, size};
    gy_sampling p = parameters(&s);
    gy_logit_bias bias[4];
    float logits[256];
    int32_t history[64];
    uint8_t n, marks[256], b;
    for (int i = 0; i < 4; i++) take(&s, &b, 1), bias[i] = (gy_logit_bias){b % 40, number(&s) * 50};
    p.bias = bias;
    for (int i = 0; i < 64; i++) take(&s, &b, 1), history[i] = (int8_t)b;
    take(&s, &n, 1);
    for (int i = 0; i <= n; i++) logits[i] = number(&s);
    for (int i = 0; i < 256; i++) marks[i] = (uint8_t)(i * 7 & 3);
    gy_sampler *sampler;
    gy_sample_out out;
    if (gy_sampler_new(&p, n + 1, 48, marks, &sampler, NULL)) return 0;
    for (int pos = 0; pos < 4; pos++) {
        gy_sample_in in = {.logits = logits,
                           .n = n + 1,
                           .history = history,
                           .n_history = 16 * (pos + 1),
                           .n_prompt = 9,
                           .pos = pos};
        if (gy_sampler_pick(sampler, &in, pos * 5, &out, NULL)) break;
        double q = gy_sampler_prob(sampler, out.id);
        if (out.id < 0 || out.id > n || !(logits[out.id] > -__builtin_inff()) ||
            !(q > 0 && q <= 1.0000001))
            abort();
        if (!(gy_sampler_logits(sampler)[out.id] > -__builtin_inff()) || !(out.logprob <= 0))
            abort();
    }
    gy_sampler_free(sampler);
    return 0;
}
