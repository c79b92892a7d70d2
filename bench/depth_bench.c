/* depth_bench - time of one decoded token at a depth, over KV codecs.
 *
 *     depth_bench MODEL [-t THREADS] [-d DEPTH] [-n TOKENS] [KV ...]
 *
 * Every codec has its engine and its sequence, prefilled once; then they take turns token by token,
 * so that a busy machine disturbs them alike. With one thread the time is that of the process, not
 * the clock's. Prints milliseconds of the median and of the best token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gyre.h"

enum { CODECS = 12, TOKENS = 256 };

typedef struct {
    const char *kv;
    gy_engine *engine;
    gy_seq *seq;
    double ms[TOKENS];
    int64_t bytes; /* of a position */
} rig;

static void check(gy_rc rc, const gy_err *err) {
    if (!rc) return;
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

static double now(int threads) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void build(rig *r, gy_model *model, const char *kv, int threads, int depth, float *logits) {
    gy_err err = {0};
    gy_engine_options o = {.threads = threads, .context = depth + TOKENS, .kv = kv};
    gy_engine_info info;
    int32_t *ids = malloc((size_t)depth * sizeof *ids);
    for (int i = 0; i < depth; i++) ids[i] = (int32_t)(i * 7919LL % 1000 + 20);
    r->kv = kv;
    check(gy_engine_new(model, &o, &r->engine, &err), &err);
    check(gy_seq_new(r->engine, &r->seq, &err), &err);
    gy_feed feed = {.seq = r->seq, .ids = ids, .n = depth, .first_out = depth};
    check(gy_step(r->engine, &feed, 1, logits, &err), &err);
    gy_engine_get_info(r->engine, &info);
    r->bytes = info.kv_bytes_token;
    free(ids);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    static rig rigs[CODECS];
    static char f16[] = "f16", *just_f16[] = {f16};
    int threads = 1, depth = 2048, n = 24;
    for (int c; (c = getopt(argc, argv, "t:d:n:")) != -1;) {
        if (c == 't') threads = atoi(optarg);
        if (c == 'd') depth = atoi(optarg);
        if (c == 'n') n = atoi(optarg);
        if (c == '?') return 2;
    }
    if (optind >= argc || n < 1 || n > TOKENS || depth < 1) {
        fprintf(stderr, "usage: depth_bench MODEL [-t THREADS] [-d DEPTH] [-n TOKENS] [KV ...]\n");
        return 2;
    }
    gy_err err = {0};
    gy_model *model;
    gy_model_info info;
    check(gy_model_open(argv[optind++], NULL, &model, &err), &err);
    gy_model_get_info(model, &info);
    float *logits = malloc((size_t)info.vocab * sizeof *logits);
    char **names = optind < argc ? argv + optind : just_f16;
    int codecs = optind < argc ? argc - optind : 1;
    if (codecs > CODECS) codecs = CODECS;
    for (int i = 0; i < codecs; i++) build(rigs + i, model, names[i], threads, depth, logits);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < codecs; i++) {
            int32_t id = 100 + k;
            gy_feed feed = {.seq = rigs[i].seq, .ids = &id, .n = 1, .first_out = 0};
            double t = now(threads);
            check(gy_step(rigs[i].engine, &feed, 1, logits, &err), &err);
            rigs[i].ms[k] = 1e3 * (now(threads) - t);
        }
    }
    for (int i = 0; i < codecs; i++) {
        qsort(rigs[i].ms, (size_t)n, sizeof *rigs[i].ms, ascending);
        printf("%d threads, depth %d, %-12s %6lld bytes a position: median %7.2f best %7.2f ms\n",
               threads, depth, rigs[i].kv, (long long)rigs[i].bytes, rigs[i].ms[n / 2],
               rigs[i].ms[0]);
        gy_seq_free(rigs[i].engine, rigs[i].seq);
        gy_engine_free(rigs[i].engine);
    }
    free(logits);
    gy_model_unref(model);
    return 0;
}
