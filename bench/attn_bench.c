/* attn_bench - time of KVPUT and ATTN for a chunk of rows at a depth, over KV codecs, and of the
 * row operators; one layer.
 *
 *     attn_bench [-t THREADS] [-i ISA] [-d DEPTH] [KV ...]      KV: names of codec/kvname.h
 *
 * The codecs take turns, so that a busy machine disturbs them alike. Prints microseconds of the
 * best run of each, GFLOP/s of attention, GB/s of page bytes, and the time relative to the first
 * codec. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codec/kvname.h"
#include "cpu/cpu.h"

/* Of this thread when it is the only one, so that a busy machine disturbs less. */
static double now(int threads) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    int heads, kv_heads, dim, rows, depth;
} shape;

enum { CHUNK = 512, OPS = 5, TURNS = 12, CODECS = 24 };

typedef struct {
    const char *name;
    int cols[4];
    float freq[256];
    gy_kvspec spec;
    gy_op op[OPS];
    gy_plan plan;
    gy_kv *kv;
    gy_be *be;
    struct gy_seq *seq;
    double best[OPS];
} rig;

static void check(gy_rc rc, const gy_err *err) {
    if (!rc) return;
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

static void build(rig *r, shape s, const char *name, int threads, const char *isa) {
    int q = s.heads * s.dim, k = s.kv_heads * s.dim;
    gy_err err = {0};
    memset(r, 0, sizeof *r);
    r->name = name, r->freq[0] = 1;
    memcpy(r->cols, (int[]){q + 2 * k, q, 8192, 4096}, sizeof r->cols);
    r->spec = (gy_kvspec){.heads = s.kv_heads, .kdim = s.dim, .vdim = s.dim, .donor = -1};
    check(gy_kv_codec_parse(name, strlen(name), &r->spec.k, &r->spec.v, &err), &err);
    r->op[0] = (gy_op){.kind = GY_OP_KVPUT, .in = {0, -1}, .out = -1, .u.kvput = {q, q + k}};
    r->op[1] = (gy_op){
        .kind = GY_OP_ATTN,
        .in = {0, -1},
        .out = 1,
        .u.attn = {
            .heads = s.heads, .kv_heads = s.kv_heads, .kdim = s.dim, .vdim = s.dim, .scale = 0.1f}};
    r->op[2] = (gy_op){.kind = GY_OP_NORM, .in = {1, -1}, .out = 1, .u.norm = {1e-5f, GY_NORM_RMS}};
    r->op[3] = (gy_op){.kind = GY_OP_ROPE,
                       .in = {-1, -1},
                       .out = 0,
                       .u.rope = {.heads = s.heads + s.kv_heads,
                                  .dim = s.dim,
                                  .rot = s.dim,
                                  .mscale = 1,
                                  .inv_freq = r->freq}};
    r->op[4] = (gy_op){.kind = GY_OP_ACT,
                       .flags = GY_OPF_GLU,
                       .in = {2, -1},
                       .out = 3,
                       .u.act = {GY_ACT_SILU, 4096}};
    r->plan = (gy_plan){.op = r->op,
                        .n_ops = OPS,
                        .n_slots = 4,
                        .slot_cols = r->cols,
                        .kv = &r->spec,
                        .n_layers = 1};
    check(gy_kv_new(&r->spec, 1, s.depth + CHUNK + 64, &r->kv, &err), &err);
    check(gy_cpu_new(&r->plan, r->kv, threads, GY_BE_EXACT, isa, CHUNK, &r->be, &err), &err);
    check(gy_kv_seq_new(r->kv, &r->seq, &err), &err);
    for (int i = 0; i < OPS; i++) r->best[i] = 1e9;
    for (int i = 0; i < 4; i++) {
        int ld;
        float *p = (float *)(uintptr_t)r->be->slot(r->be, i, &ld);
        for (int k = 0; k < CHUNK; k++)
            for (int c = 0; c < r->cols[i]; c++)
                p[k * ld + c] = (float)(rand() % 2001 - 1000) * 1e-3f;
    }
}

/* Puts n rows behind what the sequence holds; timed: runs every operator, else keeps the rows. */
static void step(rig *r, int n, int threads, bool timed) {
    static int32_t tok[CHUNK], pos[CHUNK], of[CHUNK];
    gy_span span = {0, 0, n, r->seq->len};
    gy_err err = {0};
    for (int i = 0; i < n; i++) pos[i] = r->seq->len + i;
    gy_batch b = {
        .rows = n, .spans = 1, .tok = tok, .pos = pos, .of = of, .span = &span, .seq = &r->seq};
    check(gy_kv_reserve(r->kv, r->seq, n, &err), &err);
    r->be->begin(r->be, &b);
    for (int i = 0; i < (timed ? OPS : 1); i++) {
        double t = now(threads);
        r->be->run(r->be, &r->op[i], &b);
        t = now(threads) - t;
        if (timed && t < r->best[i]) r->best[i] = t;
    }
    r->be->end(r->be, &err);
    if (!timed) gy_kv_append(r->kv, r->seq, tok, n);
}

static void report(const rig *r, const rig *first, shape s) {
    double flop = 4.0 * s.heads * s.dim * ((double)s.rows * s.depth + 0.5 * s.rows * (s.rows + 1));
    double bytes = (double)gy_kv_token_bytes(r->kv) * (s.depth + s.rows);
    printf("%2d/%d x %3d, %3d rows at %4d %-12s attn %9.1f us %6.1f GFLOP/s %5.1f GB/s %5.2f | "
           "kvput %6.1f norm %6.1f rope %6.1f act %6.1f us\n",
           s.heads, s.kv_heads, s.dim, s.rows, s.depth, r->name, r->best[1] * 1e6,
           flop / r->best[1] * 1e-9, bytes / r->best[1] * 1e-9, r->best[1] / first->best[1],
           r->best[0] * 1e6, r->best[2] * 1e6, r->best[3] * 1e6, r->best[4] * 1e6);
}

static void bench(shape s, char **names, int n, int threads, const char *isa) {
    static rig rigs[CODECS];
    for (int i = 0; i < n; i++) {
        build(rigs + i, s, names[i], threads, isa);
        while (rigs[i].seq->len < s.depth)
            step(rigs + i, s.depth - rigs[i].seq->len < CHUNK ? s.depth - rigs[i].seq->len : CHUNK,
                 threads, false);
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < n; i++) step(rigs + i, s.rows, threads, true);
    for (int i = 0; i < n; i++) {
        report(rigs + i, rigs, s);
        gy_kv_seq_free(rigs[i].kv, rigs[i].seq);
        rigs[i].be->free(rigs[i].be);
        gy_kv_free(rigs[i].kv);
    }
}

int main(int argc, char **argv) {
    int threads = 1, depth = -1;
    const char *isa = NULL;
    for (int c; (c = getopt(argc, argv, "t:i:d:")) != -1;) {
        if (c == 't') threads = atoi(optarg);
        if (c == 'i') isa = optarg;
        if (c == 'd') depth = atoi(optarg);
        if (c == '?') return 2;
    }
    static const shape list[] = {
        {9, 3, 64, 512, 0},    {9, 3, 64, 512, 2048},  {9, 3, 64, 1, 256},   {9, 3, 64, 1, 8192},
        {32, 8, 128, 512, 0},  {32, 8, 128, 64, 2048}, {32, 8, 128, 1, 256}, {32, 8, 128, 1, 8192},
        {16, 16, 64, 1, 4096}, {4, 1, 256, 1, 4096}};
    static char f16[] = "f16", *just_f16[] = {f16};
    char **names = optind < argc ? argv + optind : just_f16;
    int n = optind < argc ? argc - optind : 1;
    if (n > CODECS) n = CODECS;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (depth < 0 || list[i].depth == depth) bench(list[i], names, n, threads, isa);
    return 0;
}
