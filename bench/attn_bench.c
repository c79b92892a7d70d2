/* attn_bench - time of KVPUT and ATTN for a chunk of rows at a depth, and of the row operators; one
 * layer.
 *
 *     attn_bench [threads] [isa]        prints microseconds of the best run, and GFLOP/s of
 * attention */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

enum { CHUNK = 512 };

static void bench(shape s, int threads, const char *isa) {
    int q = s.heads * s.dim, k = s.kv_heads * s.dim, cols[] = {q + 2 * k, q, 8192, 4096};
    float freq[256] = {1};
    gy_kvspec spec = {.k = {.kind = GY_CODEC_F16},
                      .v = {.kind = GY_CODEC_F16},
                      .heads = s.kv_heads,
                      .kdim = s.dim,
                      .vdim = s.dim,
                      .donor = -1};
    gy_op op[] = {
        {.kind = GY_OP_KVPUT, .in = {0, -1}, .out = -1, .u.kvput = {q, q + k}},
        {.kind = GY_OP_ATTN,
         .in = {0, -1},
         .out = 1,
         .u.attn = {.heads = s.heads,
                    .kv_heads = s.kv_heads,
                    .kdim = s.dim,
                    .vdim = s.dim,
                    .scale = 0.1f}},
        {.kind = GY_OP_NORM, .in = {1, -1}, .out = 1, .u.norm = {1e-5f, GY_NORM_RMS}},
        {.kind = GY_OP_ROPE,
         .in = {-1, -1},
         .out = 0,
         .u.rope = {.heads = s.heads + s.kv_heads,
                    .dim = s.dim,
                    .rot = s.dim,
                    .mscale = 1,
                    .inv_freq = freq}},
        {.kind = GY_OP_ACT,
         .flags = GY_OPF_GLU,
         .in = {2, -1},
         .out = 3,
         .u.act = {GY_ACT_SILU, 4096}},
    };
    enum { OPS = sizeof op / sizeof *op };
    gy_plan plan = {
        .op = op, .n_ops = OPS, .n_slots = 4, .slot_cols = cols, .kv = &spec, .n_layers = 1};
    gy_err err = {0};
    gy_kv *kv;
    gy_be *be;
    struct gy_seq *seq;
    if (gy_kv_new(&spec, 1, s.depth + CHUNK + 64, &kv, &err) ||
        gy_cpu_new(&plan, kv, threads, GY_BE_EXACT, isa, CHUNK, &be, &err) ||
        gy_kv_seq_new(kv, &seq, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    int32_t tok[CHUNK] = {0}, pos[CHUNK], of[CHUNK] = {0};
    double best[OPS];
    for (int i = 0; i < OPS; i++) best[i] = 1e9;
    for (int i = 0; i < 4; i++) {
        int ld;
        float *p = (float *)(uintptr_t)be->slot(be, i, &ld);
        for (int r = 0; r < CHUNK; r++)
            for (int c = 0; c < cols[i]; c++) p[r * ld + c] = (float)(rand() % 2001 - 1000) * 1e-3f;
    }
    for (int turn = 0; seq->len < s.depth || turn < 10;) {
        int n =
            seq->len < s.depth ? (s.depth - seq->len < CHUNK ? s.depth - seq->len : CHUNK) : s.rows;
        gy_span span = {0, 0, n, seq->len};
        for (int r = 0; r < n; r++) pos[r] = seq->len + r;
        gy_batch b = {
            .rows = n, .spans = 1, .tok = tok, .pos = pos, .of = of, .span = &span, .seq = &seq};
        if (gy_kv_reserve(kv, seq, n, &err)) exit(1);
        be->begin(be, &b);
        bool timed = seq->len >= s.depth;
        for (int i = 0; i < OPS && (timed || i < 1); i++) {
            double t = now(threads);
            be->run(be, &op[i], &b);
            t = now(threads) - t;
            if (timed && t < best[i]) best[i] = t;
        }
        be->end(be, &err);
        if (timed)
            turn++;
        else
            gy_kv_append(kv, seq, tok, n);
    }
    double flop = 4.0 * s.heads * s.dim * ((double)s.rows * s.depth + 0.5 * s.rows * (s.rows + 1));
    printf("%2d/%d x %3d, %3d rows at %4d: attn %9.1f us %6.1f GFLOP/s | kvput %6.1f norm %6.1f "
           "rope %6.1f act %6.1f us\n",
           s.heads, s.kv_heads, s.dim, s.rows, s.depth, best[1] * 1e6, flop / best[1] * 1e-9,
           best[0] * 1e6, best[2] * 1e6, best[3] * 1e6, best[4] * 1e6);
    gy_kv_seq_free(kv, seq);
    be->free(be);
    gy_kv_free(kv);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *isa = argc > 2 ? argv[2] : NULL;
    static const shape list[] = {
        {9, 3, 64, 512, 0},    {9, 3, 64, 512, 2048},  {9, 3, 64, 1, 256},   {9, 3, 64, 1, 4096},
        {32, 8, 128, 512, 0},  {32, 8, 128, 64, 2048}, {32, 8, 128, 1, 256}, {32, 8, 128, 1, 4096},
        {16, 16, 64, 1, 4096}, {4, 1, 256, 1, 4096}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) bench(list[i], threads, isa);
    return 0;
}
