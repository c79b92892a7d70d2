/* kv_bias - what biases of keys cost each KV codec: mean KL of the next token against f32 KV.
 *
 *     kv_bias MODEL [TIMES ...]      MODEL: a directory; TIMES: factors of the key biases, default
 * 1 10 100
 *
 * Tokens are fed one by one into an f32 engine, and after each the keys that it left are coded and
 * decoded in place, so that codecs of any head size can be compared: turbo works on groups of 32.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/bind.h"
#include "run/engine.h"

enum { TOKENS = 160, MAX_DIM = 512 };

static const struct {
    const char *name;
    gy_cparm c;
} codecs[] = {{"q8.32", {GY_CODEC_AFFINE, 8, GY_CODEC_F16, 32}},
              {"q4.32", {GY_CODEC_AFFINE, 4, GY_CODEC_F16, 32}},
              {"turbo-k8", {.kind = GY_CODEC_TURBO_K, .bits = 8}},
              {"turbo-k5", {.kind = GY_CODEC_TURBO_K, .bits = 5}},
              {"turbo-k4", {.kind = GY_CODEC_TURBO_K, .bits = 4}}};
enum { CODECS = sizeof codecs / sizeof *codecs };

/* A row through a codec, in pieces of 64 values. */
static void through(gy_cparm c, float *x, int n) {
    uint8_t room[3][256];
    float y[64];
    for (int i = 0; i < n; i += 64) {
        int k = n - i < 64 ? n - i : 64;
        size_t bytes[3] = {0};
        memset(y, 0, sizeof y), memcpy(y, x + i, (size_t)k * sizeof *x);
        if (k < 64) memcpy(y + k, y, (size_t)(64 - k) * sizeof *x); /* heads of 32: twice */
        gy_codecs[c.kind].bytes(c, 64, bytes);
        gy_rows m = {.c = c, .rows = 1, .cols = 64, .global = 1};
        for (int p = 0; p < 3; p++) m.plane[p] = room[p], m.step[p] = (ptrdiff_t)bytes[p];
        gy_codecs[c.kind].encode(&m, 0, y), gy_codecs[c.kind].decode(&m, 0, y);
        memcpy(x + i, y, (size_t)k * sizeof *x);
    }
}

static void recode(gy_engine *e, gy_seq *s, int pos, gy_cparm c) {
    for (int l = 0; l < e->plan->n_layers; l++)
        for (int h = 0; h < e->plan->kv[l].heads; h++) {
            gy_rows m = gy_kv_page_rows(e->kv, s, l, pos / GY_PAGE, h, false);
            through(c, (float *)(void *)((uint8_t *)m.plane[0] + pos % GY_PAGE * m.step[0]),
                    m.cols);
        }
}

static void feed(gy_engine *e, const int32_t *ids, const gy_cparm *c, float *logits) {
    gy_seq *s;
    gy_err err = {0};
    if (gy_seq_new(e, &s, &err)) exit(1);
    for (int i = 0; i < TOKENS; i++) {
        gy_feed f = {.seq = s, .ids = ids + i, .n = 1};
        if (gy_step(e, &f, 1, logits + (size_t)i * (size_t)e->vocab, &err))
            exit((fprintf(stderr, "%s\n", err.msg), 1));
        if (c) recode(e, s, i, *c);
    }
    gy_seq_free(e, s);
}

static double divergence(const float *p, const float *q, int n) {
    double a = 0, b = 0, kl = 0, pm = p[0], qm = q[0];
    for (int i = 1; i < n; i++) pm = fmax(pm, p[i]), qm = fmax(qm, q[i]);
    for (int i = 0; i < n; i++) a += exp(p[i] - pm), b += exp(q[i] - qm);
    for (int i = 0; i < n; i++)
        kl += exp(p[i] - pm) / a * ((p[i] - pm - log(a)) - (q[i] - qm - log(b)));
    return kl;
}

int main(int argc, char **argv) {
    gy_model *m;
    gy_engine *e;
    gy_err err = {0};
    static const char *const usual[] = {"1", "10", "100"};
    gy_engine_options o = {.threads = 1, .arith = GY_ARITH_EXACT, .kv = "f32", .context = 512};
    if (argc < 2) return fprintf(stderr, "kv_bias MODEL [TIMES ...]\n"), 2;
    if (gy_model_open(argv[1], &(gy_model_options){.no_tokenizer = true}, &m, &err) ||
        gy_engine_new(m, &o, &e, &err))
        return fprintf(stderr, "%s\n", err.msg), 1;
    size_t n = (size_t)TOKENS * (size_t)e->vocab;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    int32_t ids[TOKENS];
    uint64_t rng = 1;
    for (int i = 0; i < TOKENS; i++)
        rng = rng * 6364136223846793005u + 1442695040888963407u,
        ids[i] = (int32_t)((rng >> 33) % (uint64_t)e->vocab);
    printf("| keys times | key bias, rms |");
    for (int c = 0; c < CODECS; c++) printf(" %s |", codecs[c].name);
    printf("\n");
    double now = 1;
    for (int t = 0; t < (argc > 2 ? argc - 2 : 3); t++) {
        double times = atof(argc > 2 ? argv[2 + t] : usual[t]), sum = 0;
        long count = 0;
        for (int l = 0; l < m->desc.n_layers; l++) {
            const gy_weight *k = m->bound->layer[l].k;
            for (int i = 0; k && k->bias && i < k->file.rows; i++, count++) {
                float *b = (float *)(uintptr_t)(k->bias + i);
                *b = (float)(*b / now * times), sum += (double)*b * *b;
            }
        }
        now = times;
        feed(e, ids, NULL, want);
        printf("| %g | %.3g |", times, count ? sqrt(sum / (double)count) : 0);
        for (int c = 0; c < CODECS; c++) {
            double kl = 0;
            feed(e, ids, &codecs[c].c, got);
            for (int i = 0; i < TOKENS; i++)
                kl += divergence(want + (size_t)i * (size_t)e->vocab,
                                 got + (size_t)i * (size_t)e->vocab, e->vocab);
            printf(" %.3g |", kl / TOKENS);
        }
        printf("\n");
    }
    gy_engine_free(e);
    gy_model_unref(m);
    free(want), free(got);
    return 0;
}
