/* The sampler: shared cases, every filter against a plain reading of serving.md 12 that sorts
 * everything first, penalties worked out by hand, the random numbers against published ones, the
 * exponential against libm. */
#include <math.h>

#include "testlib.h"

#include "base/json.h"
#include "base/mem.h"
#include "run/philox.h"
#include "run/sample_impl.h"

enum { MANY = 300 };

/* ---- A second implementation of the filters, by definition ---- */

typedef struct {
    double p;
    float l;
    int id;
    bool in;
} ref;

static int by_rank(const void *a, const void *b) {
    const ref *x = a, *y = b;
    return x->l != y->l ? (x->l < y->l ? 1 : -1) : x->id - y->id;
}

static void softmax(ref *r, int n, double t) {
    double sum = 0, max = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (r[i].in && r[i].l > max) max = r[i].l;
    }
    for (int i = 0; i < n; i++) sum += r[i].p = r[i].in ? exp((r[i].l - max) / t) : 0;
    for (int i = 0; i < n; i++) r[i].p /= sum;
}

static void ref_typical(ref *r, int n, double limit) {
    double h = 0, sum = 0;
    softmax(r, n, 1);
    for (int i = 0; i < n; i++) h -= r[i].in ? r[i].p * log(r[i].p) : 0;
    bool taken[MANY] = {0};
    while (!(sum > limit)) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            if (!r[i].in || taken[i]) continue;
            if (best < 0 || fabs(-log(r[i].p) - h) < fabs(-log(r[best].p) - h)) best = i;
        }
        if (best < 0) break;
        taken[best] = true, sum += r[best].p;
    }
    for (int i = 0; i < n; i++) r[i].in = r[i].in && taken[i];
}

static void ref_filters(ref *r, int n, const gy_sampling *p) {
    qsort(r, (size_t)n, sizeof *r, by_rank);
    if (p->top_n_sigma > 0) {
        double mean = 0, var = 0, count = 0;
        for (int i = 0; i < n; i++) mean += r[i].in ? r[i].l : 0, count += r[i].in;
        mean /= count;
        for (int i = 0; i < n; i++) var += r[i].in ? pow(r[i].l - mean, 2) : 0;
        for (int i = 0; i < n; i++)
            r[i].in = r[i].in && r[i].l >= r[0].l - p->top_n_sigma * sqrt(var / count);
    }
    if (p->top_k > 0) {
        for (int i = p->top_k; i < n; i++) r[i].in = false;
    }
    if (p->typical_p > 0 && p->typical_p < 1) ref_typical(r, n, p->typical_p);
    if (p->top_p > 0 && p->top_p < 1) {
        double sum = 0;
        softmax(r, n, 1);
        for (int i = 0; i < n; i++) {
            bool in = r[i].in && sum < p->top_p;
            sum += r[i].p;
            r[i].in = in;
        }
    }
    if (p->min_p > 0) {
        softmax(r, n, 1);
        double top = 0;
        for (int i = 0; i < n; i++) top = r[i].p > top ? r[i].p : top;
        for (int i = 0; i < n; i++) r[i].in = r[i].in && r[i].p >= top * p->min_p * (1 - 1e-12);
    }
}

static gy_sampling random_filters(uint64_t *seed) {
    gy_sampling p = {.temperature = 0.05f + fabsf(test_uniform(seed)) * 2, .seed = test_rand(seed)};
    unsigned which = test_rand(seed);
    if (which & 1) p.top_k = 1 + (int)(test_rand(seed) % MANY);
    if (which & 2) p.top_p = fabsf(test_uniform(seed));
    if (which & 4) p.min_p = fabsf(test_uniform(seed));
    if (which & 8) p.typical_p = fabsf(test_uniform(seed));
    if (which & 16) p.top_n_sigma = 0.1f + fabsf(test_uniform(seed)) * 3;
    return p;
}

static void filters_by_definition(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    int drawn = 0;
    for (int turn = 0; turn < 3000; turn++) {
        int n = 1 + (int)(test_rand(&seed) % MANY);
        float l[MANY], wide = turn % 3 == 0 ? 0.01f : turn % 3 == 1 ? 5 : 60;
        ref r[MANY];
        for (int i = 0; i < n; i++) {
            l[i] = test_uniform(&seed) * wide;
            if (turn % 7 == 0) l[i] = rintf(l[i]); /* ties */
            if (i && test_rand(&seed) % 9 == 0) l[i] = -INFINITY;
            r[i] = (ref){.l = l[i], .id = i, .in = l[i] > -INFINITY};
        }
        gy_sampling p = random_filters(&seed);
        gy_sampler *s;
        gy_sample_out out;
        gy_err err = {0};
        assert_ok(gy_sampler_new(&p, MANY, 0, NULL, &s, &err), err);
        assert_ok(
            gy_sampler_pick(s, &(gy_sample_in){.logits = l, .n = n, .pos = turn}, 0, &out, &err),
            err);
        ref_filters(r, n, &p);
        softmax(r, n, p.temperature);
        double u = gy_philox_uniform(p.seed, turn, 0, 0), sum = 0;
        int want = -1;
        for (int i = 0; i < n; i++) {
            double got = gy_sampler_prob(s, r[i].id);
            if (fabs(got - r[i].p) > 1e-9 || (got > 0) != (r[i].p > 0 || r[i].in)) {
                fail_msg("turn %d: token %d has %.12g, not %.12g (k %d p %g min %g typ %g sigma %g "
                         "t %g)",
                         turn, r[i].id, got, r[i].p, p.top_k, p.top_p, p.min_p, p.typical_p,
                         p.top_n_sigma, p.temperature);
            }
            sum += r[i].p;
            if (want < 0 && sum > u) want = r[i].id;
        }
        if (want >= 0 && want != out.id) fail_msg("turn %d: drew %d, not %d", turn, out.id, want);
        drawn += want >= 0;
        gy_sampler_free(s);
    }
    printf("filters: 3000 random settings, %d draws compared\n", drawn);
}

/* ---- Shared cases ---- */

static double number(const gy_json *v) {
    if (gy_json_is(v, GY_JSON_STR)) return strtod(v->s, NULL);
    double d = 0;
    if (v) assert_true(gy_json_num(v, &d));
    return d;
}

static bool run_case(const gy_json *c) {
    const gy_json *l = gy_json_get(c, "logits"), *p = gy_json_get(c, "params"),
                  *seen = gy_json_get(c, "seen");
    const gy_json *want = gy_json_get(c, "candidates"), *after = gy_json_get(c, "logits_after");
    float logits[64];
    int32_t history[64];
    int n = (int)l->n, n_history = seen ? (int)seen->n : 0;
    for (int i = 0; i < n; i++) logits[i] = (float)number(&l->item[i]);
    for (int i = 0; i < n_history; i++) history[i] = (int32_t)number(&seen->item[i]);
    gy_sampling q = {.temperature = (float)number(gy_json_get(p, "temperature")),
                     .top_p = (float)number(gy_json_get(p, "top_p")),
                     .top_k = (int)number(gy_json_get(p, "top_k")),
                     .min_p = (float)number(gy_json_get(p, "min_p")),
                     .repetition_penalty = (float)number(gy_json_get(p, "repetition_penalty"))};
    gy_sampler *s;
    gy_sample_out out;
    gy_err err = {0};
    gy_rc rc = gy_sampler_new(&q, n, n_history, NULL, &s, &err);
    if (rc) return gy_json_b(c, "error", false) && rc == GY_EARG;
    bool ok = true;
    for (int pos = 0; pos < 200 && ok; pos++) { /* many draws: none may leave the candidates */
        gy_sample_in in = {
            .logits = logits, .n = n, .history = history, .n_history = n_history, .pos = pos};
        rc = gy_sampler_pick(s, &in, 0, &out, &err);
        if (rc) break;
        char key[16];
        snprintf(key, sizeof key, "%d", out.id);
        ok = !want || gy_json_get(want, key);
    }
    if (gy_json_b(c, "error", false)) ok = rc == GY_EARG;
    for (int i = 0; i < n && want && ok; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        ok = fabs(gy_sampler_prob(s, i) - number(gy_json_get(want, key))) <=
             1e-6; /* as printed: six digits */
    }
    for (int i = 0; i < n && after && ok; i++)
        ok = gy_sampler_logits(s)[i] == (float)number(&after->item[i]);
    gy_sampler_free(s);
    return ok;
}

static void shared_cases(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/sampling/cases.json");
    static char text[1 << 16];
    FILE *f = fopen(shared_path("cases/sampling/cases.json"), "rb");
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    gy_json_doc doc = {0};
    gy_err err = {0};
    assert_ok(gy_json_parse(&doc, text, n, &err), err);
    const gy_json *cases = gy_json_get(doc.root, "cases");
    uint32_t good = 0;
    for (uint32_t i = 0; i < cases->n; i++) {
        bool ok = run_case(&cases->item[i]);
        if (!ok) printf("case %s failed\n", gy_json_s(&cases->item[i], "id", "?"));
        good += ok;
    }
    printf("sampling cases: %u of %u\n", good, cases->n);
    assert_int_equal(good, cases->n);
    gy_json_free(&doc);
}

/* ---- Bias, penalties, DRY ---- */

static void adjusted(const gy_sampling *p, const float *l, int n, const int32_t *h, int len,
                     int n_prompt, const uint8_t *marks, float *out) {
    gy_sampler *s;
    gy_sample_out picked;
    gy_err err = {0};
    assert_ok(gy_sampler_new(p, n, len, marks, &s, &err), err);
    gy_sample_in in = {.logits = l, .n = n, .history = h, .n_history = len, .n_prompt = n_prompt};
    for (int twice = 0; twice < 2; twice++)
        assert_ok(gy_sampler_pick(s, &in, 0, &picked, &err), err);
    memcpy(out, gy_sampler_logits(s), (size_t)n * sizeof *out);
    gy_sampler_free(s);
}

static void expect(const char *name, const float *got, const float *want, int n) {
    for (int i = 0; i < n; i++) {
        if (got[i] != want[i]) fail_msg("%s: logit %d is %g, not %g", name, i, got[i], want[i]);
    }
}

static void bias_and_penalties(void **state) {
    (void)state;
    const float l[5] = {4, -4, 1, 0, 2}, inf = INFINITY;
    const int32_t h[6] = {0, 1, 1, 2, 2, 2};
    float out[5];
    const gy_logit_bias ban[] = {{0, -100}, {3, 0.5f}, {3, 0.25f}}, only[] = {{1, 100}, {2, 3}};
    adjusted(&(gy_sampling){.n_bias = 3, .bias = ban}, l, 5, h, 6, 0, NULL, out);
    expect("bias", out, (float[]){-inf, -4, 1, 0.75f, 2}, 5);
    adjusted(&(gy_sampling){.n_bias = 2, .bias = only}, l, 5, h, 6, 0, NULL, out);
    expect("bias +100", out, (float[]){-inf, 96, -inf, -inf, -inf}, 5);
    adjusted(&(gy_sampling){.repetition_penalty = 2}, l, 5, h, 6, 0, NULL, out);
    expect("repetition", out, (float[]){2, -8, 0.5f, 0, 2}, 5);
    adjusted(&(gy_sampling){.repetition_penalty = 2, .penalty_last = 4}, l, 5, h, 6, 0, NULL, out);
    expect("repetition, last 4", out, (float[]){4, -8, 0.5f, 0, 2}, 5);
    adjusted(&(gy_sampling){.presence_penalty = 0.5f, .frequency_penalty = 1}, l, 5, h, 6, 0, NULL,
             out);
    expect("presence, frequency", out, (float[]){2.5f, -6.5f, -2.5f, 0, 2}, 5);
    adjusted(&(gy_sampling){.presence_penalty = 0.5f, .frequency_penalty = 1}, l, 5, h, 6, 2, NULL,
             out);
    expect("presence, frequency, 2 of the prompt", out, (float[]){4, -5.5f, -2.5f, 0, 2}, 5);
    adjusted(&(gy_sampling){.repetition_penalty = 2}, l, 5, (int32_t[]){-1, 5, 1 << 30, 4}, 4, 0,
             NULL, out);
    expect("ids out of range", out, (float[]){4, -4, 1, 0, 1}, 5);
    int32_t old[100] = {[30] = 4};
    for (int i = 0; i < 100; i++) old[i] = i == 30 ? 4 : 3;
    adjusted(&(gy_sampling){.repetition_penalty = 2}, l, 5, old, 100, 0, NULL, out);
    expect("repetition looks at 64", out, l, 5);
    adjusted(&(gy_sampling){.repetition_penalty = 2, .penalty_last = -1}, l, 5, old, 100, 0, NULL,
             out);
    expect("repetition looks at all", out, (float[]){4, -4, 1, 0, 1}, 5);
}

/* L(c) by its definition: every earlier place of c, every length. */
static int longest_repeat(const int32_t *t, int n, int32_t c, const uint8_t *marks) {
    int best = 0, cap = 0;
    while (cap < n && !(marks[t[n - 1 - cap]] & GY_MARK_BREAKER)) cap++;
    for (int at = 0; at < n; at++) {
        if (t[at] != c) continue;
        int k = 0;
        while (k < cap && k < at && t[at - 1 - k] == t[n - 1 - k]) k++;
        if (k > best) best = k;
    }
    return best;
}

static void dry_by_definition(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    int hits = 0;
    for (int turn = 0; turn < 2000; turn++) {
        enum { VOCAB = 6 };
        int32_t h[60];
        uint8_t marks[VOCAB] = {0};
        float l[VOCAB] = {0}, out[VOCAB];
        int len = 1 + (int)(test_rand(&seed) % 60), symbols = 1 + (int)(test_rand(&seed) % VOCAB);
        for (int i = 0; i < len; i++) h[i] = (int32_t)(test_rand(&seed) % (unsigned)symbols);
        if (turn % 3 == 0) marks[test_rand(&seed) % VOCAB] = GY_MARK_BREAKER;
        gy_sampling p = {.dry_multiplier = 0.5f,
                         .dry_base = 2,
                         .dry_allowed_length = 1 + (int)(test_rand(&seed) % 4)};
        if (turn % 2) p.dry_last = 1 + (int)(test_rand(&seed) % 60);
        adjusted(&p, l, VOCAB, h, len, 0, marks, out);
        int n = p.dry_last && p.dry_last < len ? p.dry_last : len;
        for (int c = 0; c < VOCAB; c++) {
            int k = longest_repeat(h + len - n, n, c, marks);
            bool hit = k >= p.dry_allowed_length && !marks[c];
            float want = hit ? -0.5f * ldexpf(1, k - p.dry_allowed_length) : 0;
            if (out[c] != want)
                fail_msg("turn %d: token %d is %g, not %g (repeat %d)", turn, c, out[c], want, k);
            hits += hit;
        }
    }
    assert_true(hits > 1000);
    /* A power past f32 stays finite. */
    int32_t same[3000] = {0};
    float l[2] = {1, 0}, out[2];
    adjusted(&(gy_sampling){.dry_multiplier = 1, .dry_base = 10}, l, 2, same, 3000, 0, NULL, out);
    assert_true(out[0] < -1e38f && out[0] > -INFINITY && out[1] == 0);
}

/* ---- XTC, temperature, Mirostat ---- */

static void xtc_drops_the_obvious(void **state) {
    (void)state;
    const float l[5] = {logf(0.4f), logf(0.3f), logf(0.2f), logf(0.07f), logf(0.03f)};
    const struct {
        const char *name;
        gy_sampling p;
        uint8_t mark0;
        double want[5];
    } cases[] = {
        {"drops two",
         {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.1f},
         0,
         {0, 0, 2 / 3., .7 / 3, .1}},
        {"exempt stays",
         {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.1f},
         GY_MARK_XTC_EXEMPT,
         {4 / 7., 0, 2 / 7., .1, .3 / 7}},
        {"one passes",
         {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.35f},
         0,
         {.4, .3, .2, .07, .03}},
        {"threshold past one half",
         {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.6f},
         0,
         {.4, .3, .2, .07, .03}},
        {"min_keep",
         {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.1f, .min_keep = 4},
         0,
         {.4, .3, .2, .07, .03}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        uint8_t marks[5] = {cases[k].mark0};
        gy_sampler *s;
        gy_sample_out out;
        gy_err err = {0};
        assert_ok(gy_sampler_new(&cases[k].p, 5, 0, marks, &s, &err), err);
        assert_ok(gy_sampler_pick(s, &(gy_sample_in){.logits = l, .n = 5}, 0, &out, &err), err);
        for (int i = 0; i < 5; i++) {
            double got = gy_sampler_prob(s, i);
            if (fabs(got - cases[k].want[i]) > 1e-6)
                fail_msg("%s: token %d has %g", cases[k].name, i, got);
        }
        gy_sampler_free(s);
    }
    assert_int_equal(gy_sampler_mark("a\n", 2, false), GY_MARK_BREAKER | GY_MARK_XTC_EXEMPT);
    assert_int_equal(gy_sampler_mark("x: y", 4, false), GY_MARK_BREAKER);
    assert_int_equal(gy_sampler_mark("</s>", 4, true), GY_MARK_XTC_EXEMPT);
}

static void dynamic_temperature(void **state) {
    (void)state;
    float l[4] = {1, 0.5f, 0, -1};
    gy_sampling p = {.temperature = 1, .dynatemp_range = 0.5f, .dynatemp_exponent = 2};
    gy_sampler *s;
    gy_sample_out out;
    gy_err err = {0};
    assert_ok(gy_sampler_new(&p, 4, 0, NULL, &s, &err), err);
    assert_ok(gy_sampler_pick(s, &(gy_sample_in){.logits = l, .n = 4}, 0, &out, &err), err);
    ref r[4];
    for (int i = 0; i < 4; i++) r[i] = (ref){.l = l[i], .id = i, .in = true};
    softmax(r, 4, 1);
    double h = 0;
    for (int i = 0; i < 4; i++) h -= r[i].p * log(r[i].p);
    softmax(r, 4, 0.5 + pow(h / log(4), 2));
    for (int i = 0; i < 4; i++) assert_true(fabs(gy_sampler_prob(s, i) - r[i].p) < 1e-9);
    gy_sampler_free(s);
}

/* Mirostat's promise: over many tokens the mean surprise is tau. */
static void mirostat_holds_the_surprise(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    static float l[2000];
    for (int version = 1; version <= 2; version++) {
        gy_sampling p = {.temperature = 1,
                         .mirostat = version,
                         .mirostat_tau = 3,
                         .mirostat_eta = 0.1f,
                         .seed = 7};
        gy_sampler *s;
        gy_sample_out out;
        gy_err err = {0};
        assert_ok(gy_sampler_new(&p, 2000, 0, NULL, &s, &err), err);
        double surprise = 0;
        const int turns = 2000;
        for (int pos = 0; pos < turns; pos++) {
            for (int i = 0; i < 2000; i++)
                l[i] = -1.1f * logf((float)(i + 1)) + 0.1f * test_uniform(&seed);
            assert_ok(gy_sampler_pick(s, &(gy_sample_in){.logits = l, .n = 2000, .pos = pos}, 0,
                                      &out, &err),
                      err);
            surprise -= log2(gy_sampler_prob(s, out.id));
        }
        /* mu moved by eta times (sum of surprise - turns tau), and it stays within a few bits. */
        if (fabs(surprise / turns - 3) > 0.1)
            fail_msg("mirostat %d: mean surprise %g", version, surprise / turns);
        gy_sampler_free(s);
    }
}

/* ---- Log-probabilities, errors, numbers ---- */

static void logprobs_before_everything(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    static float l[5000];
    for (int i = 0; i < 5000; i++) l[i] = rintf(test_uniform(&seed) * 40) / 4;
    const gy_logit_bias bias = {17, 100};
    gy_sampling p = {.temperature = 0.3f, .top_k = 3, .n_bias = 1, .bias = &bias};
    gy_sampler *s;
    gy_sample_out out;
    gy_err err = {0};
    assert_ok(gy_sampler_new(&p, 5000, 0, NULL, &s, &err), err);
    assert_ok(
        gy_sampler_pick(s, &(gy_sample_in){.logits = l, .n = 5000}, GY_TOP_LOGPROBS, &out, &err),
        err);
    static ref r[5000];
    double sum = 0;
    for (int i = 0; i < 5000; i++) r[i] = (ref){.l = l[i], .id = i}, sum += exp(l[i]);
    qsort(r, 5000, sizeof *r, by_rank);
    assert_int_equal(out.id, 17);
    assert_true(fabs(out.logprob - (l[17] - log(sum))) < 1e-5);
    assert_int_equal(out.n_top, GY_TOP_LOGPROBS);
    for (int i = 0; i < out.n_top; i++) {
        assert_int_equal(out.top[i].id, r[i].id);
        assert_true(fabs(out.top[i].logprob - (r[i].l - log(sum))) < 1e-5);
    }
    gy_sampler_free(s);
    float three[3] = {1, 3, 2}, logprob;
    int32_t id;
    assert_ok(gy_sample(NULL, three, 3, NULL, 0, 0, &id, &logprob, &err), err);
    assert_int_equal(id, 1);
    assert_true(fabs(logprob - (3 - log(exp(1) + exp(2) + exp(3)))) < 1e-6);
    /* Of the history the last pos tokens are the answer's: presence counts those alone. */
    gy_sampling presence = {.presence_penalty = 10};
    const int32_t history[2] = {1, 2};
    for (int pos = 0; pos < 3; pos++) {
        assert_ok(gy_sample(&presence, three, 3, history, 2, pos, &id, NULL, &err), err);
        assert_int_equal(id, pos < 2 ? 1 : 0);
    }
}

static void refuses(void **state) {
    (void)state;
    const gy_logit_bias far = {9, 1}, nan = {0, NAN};
    const struct {
        const char *name;
        gy_sampling p;
    } cases[] = {
        {"temperature", {.temperature = NAN}},
        {"top_p", {.top_p = -0.5f}},
        {"min_p", {.min_p = 1.5f}},
        {"typical_p", {.typical_p = NAN}},
        {"top_n_sigma", {.top_n_sigma = INFINITY}},
        {"xtc_probability", {.xtc_probability = 2}},
        {"repetition_penalty", {.repetition_penalty = -1}},
        {"dry_base", {.dry_multiplier = 1, .dry_base = 0.5f}},
        {"mirostat", {.mirostat = 3}},
        {"logit bias", {.n_bias = 1, .bias = &far}},
        {"logit bias", {.n_bias = 1, .bias = &nan}},
        {"logit bias", {.n_bias = 1}},
    };
    float l[3] = {0, 1, 2};
    int32_t id = 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_err err = {0};
        gy_rc rc = gy_sample(&cases[i].p, l, 3, NULL, 0, 0, &id, NULL, &err);
        if (rc != GY_EARG || !strstr(err.msg, cases[i].name))
            fail_msg("%s: %d %s", cases[i].name, rc, err.msg);
    }
    l[1] = INFINITY;
    assert_int_equal(gy_sample(NULL, l, 3, NULL, 0, 0, &id, NULL, NULL), GY_EARG);
    assert_int_equal(gy_sample(NULL, l, 0, NULL, 0, 0, &id, NULL, NULL), GY_EARG);
    assert_int_equal(id, 77);
}

/* Memory runs out at every place in turn: an error, nothing leaked (the sanitizer build sees it).
 */
static void out_of_memory(void **state) {
    (void)state;
    const gy_logit_bias bias = {1, 1};
    gy_sampling p = {
        .temperature = 1, .dry_multiplier = 1, .repetition_penalty = 2, .n_bias = 1, .bias = &bias};
    int failures = 0;
    for (long nth = 1;; nth++, failures++) {
        gy_sampler *s = NULL;
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_sampler_new(&p, 100, 10, NULL, &s, NULL);
        gy_alloc_fail_at(0);
        gy_sampler_free(s);
        if (!rc) break;
        assert_int_equal(rc, GY_ENOMEM);
        assert_null(s);
    }
    assert_int_equal(failures, 7); /* the object, bias, logits, two histories, two lists */
}

static void philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint64_t key;
        uint32_t in[4], out[4];
    } kat[] = {
        {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        gy_philox_words w;
        memcpy(w.w, kat[i].in, 16);
        w = gy_philox(kat[i].key, w);
        assert_memory_equal(w.w, kat[i].out, 16);
    }
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        double u = gy_philox_uniform(1, i, 0, 0);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(fabs(sum / 10000 - 0.5) < 0.0144); /* five standard deviations */
}

static void exponential_error(void **state) {
    (void)state;
    double worst = 0;
    for (double x = 0; x > -700; x -= 0.00137) {
        double want = exp(x), gap = fabs(gy_sample_exp(x) - want) / want;
        if (gap > worst) worst = gap;
    }
    printf("exp: largest relative error 2^%.1f\n", log2(worst));
    assert_true(worst < 0x1p-44);
    assert_true(gy_sample_exp(0) == 1 && gy_sample_exp(-INFINITY) < 1e-300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_cases),
        cmocka_unit_test(filters_by_definition),
        cmocka_unit_test(bias_and_penalties),
        cmocka_unit_test(dry_by_definition),
        cmocka_unit_test(xtc_drops_the_obvious),
        cmocka_unit_test(dynamic_temperature),
        cmocka_unit_test(mirostat_holds_the_surprise),
        cmocka_unit_test(logprobs_before_everything),
        cmocka_unit_test(refuses),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(exponential_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
