/* linear_bench - speed of the dense product kernels on one core. Not a test.
 *
 *     linear_bench [--isa NAME] [--cols K] [--outs N] [--rows R]... [CODEC]...
 *
 * One line for each (codec, rows, arithmetic): GOP/s (a multiply and an addition are two) and GB/s
 * of weights as stored, best of five, and the share of the peak that a loop over registers reaches.
 * With one row the weights are 96 MiB, so that they come from memory, not from a cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cpu/cpu.h"
#include "gyre_measure.h"

static const struct {
    const char *name;
    gy_cparm c;
} kinds[] = {
    {"f32", {GY_CODEC_F32, 0, 0, 0}},
    {"f16", {GY_CODEC_F16, 0, 0, 0}},
    {"bf16", {GY_CODEC_BF16, 0, 0, 0}},
    {"affine2", {GY_CODEC_AFFINE, 2, GY_CODEC_BF16, 64}},
    {"affine3", {GY_CODEC_AFFINE, 3, GY_CODEC_BF16, 64}},
    {"affine4", {GY_CODEC_AFFINE, 4, GY_CODEC_BF16, 64}},
    {"affine5", {GY_CODEC_AFFINE, 5, GY_CODEC_BF16, 64}},
    {"affine6", {GY_CODEC_AFFINE, 6, GY_CODEC_BF16, 64}},
    {"affine8", {GY_CODEC_AFFINE, 8, GY_CODEC_BF16, 64}},
    {"mxfp4", {GY_CODEC_MXFP4, 0, 0, 0}},
    {"mxfp8", {GY_CODEC_MXFP8, 0, 0, 0}},
    {"nvfp4", {GY_CODEC_NVFP4, 0, 0, 0}},
    {"q4_0", {GY_CODEC_Q4_0, 0, 0, 0}},
    {"q4_1", {GY_CODEC_Q4_1, 0, 0, 0}},
    {"q5_0", {GY_CODEC_Q5_0, 0, 0, 0}},
    {"q5_1", {GY_CODEC_Q5_1, 0, 0, 0}},
    {"q8_0", {GY_CODEC_Q8_0, 0, 0, 0}},
    {"q2_k", {GY_CODEC_Q2_K, 0, 0, 0}},
    {"q3_k", {GY_CODEC_Q3_K, 0, 0, 0}},
    {"q4_k", {GY_CODEC_Q4_K, 0, 0, 0}},
    {"q5_k", {GY_CODEC_Q5_K, 0, 0, 0}},
    {"q6_k", {GY_CODEC_Q6_K, 0, 0, 0}},
    {"iq4_nl", {GY_CODEC_IQ4_NL, 0, 0, 0}},
    {"mxfp4_gguf", {GY_CODEC_MXFP4_GGUF, 0, 0, 0}},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    const gy_isa_table *isa;
    int cols, outs, rows;
    bool fast;
    gy_roof roof; /* of one thread */
} shape;

enum { BLOCK = 132 }; /* rows of an item, as cpu/linear.c cuts them */

static void one(const char *name, gy_cparm c, shape s) {
    size_t bytes[3], row_bytes;
    gy_codecs[c.kind].bytes(c, s.cols, bytes);
    row_bytes = bytes[0] + bytes[1] + bytes[2];
    if (s.rows == 1 && !s.outs) s.outs = (int)(((size_t)96 << 20) / row_bytes);
    if (!s.outs) s.outs = 2048;
    gy_weight w = {.file = {.c = c, .rows = s.outs, .cols = s.cols, .global = 1}};
    for (int p = 0; p < 3; p++) {
        if (!bytes[p]) continue;
        w.file.step[p] = (ptrdiff_t)bytes[p];
        w.file.plane[p] = gy_alloc_aligned(bytes[p] * (size_t)s.outs);
        /* A byte pattern that is a small finite number in every float format. */
        memset(w.file.plane[p], 0x21, bytes[p] * (size_t)s.outs);
    }
    float *x = gy_alloc_aligned((size_t)s.rows * (size_t)s.cols * 4);
    float *y = gy_alloc_aligned((size_t)s.rows * (size_t)s.outs * 4);
    for (int i = 0; i < s.rows * s.cols; i++) x[i] = (float)(i % 37 - 18) * 0.1f;
    void *scratch = gy_alloc_aligned(gy_linear_scratch(s.cols));
    gy_xrow *coded = gy_alloc((size_t)s.rows * sizeof *coded);
    for (int r = 0; r < s.rows; r++)
        coded[r] = gy_linear_xrow(gy_alloc_aligned(gy_linear_coded(1, s.cols)), s.cols);
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double t = now();
        for (int r0 = 0; r0 < s.rows; r0 += BLOCK) {
            int nr = s.rows - r0 < BLOCK ? s.rows - r0 : BLOCK;
            if (s.fast) {
                for (int r = r0; r < r0 + nr; r++)
                    s.isa->lin.code(x + r * s.cols, s.cols, coded[r]);
                s.isa->lin.fast(&w, 0, s.outs, coded + r0, nr, y + r0 * s.outs, s.outs, scratch);
            } else {
                s.isa->lin.exact(&w, 0, s.outs, x + r0 * s.cols, s.cols, nr, y + r0 * s.outs,
                                 s.outs, scratch);
            }
        }
        t = now() - t;
        if (t < best) best = t;
    }
    double ops = 2.0 * s.rows * s.cols * s.outs;
    double roof = s.fast ? s.roof.int8_ops : s.roof.f32_ops;
    printf("%-10s %-5s rows %4d  %7.1f GOP/s  %6.2f GB/s  %5.1f %% of peak\n", name,
           s.fast ? "fast" : "exact", s.rows, ops / best * 1e-9,
           (double)row_bytes * s.outs / best * 1e-9, 100 * ops / best / roof);
    fflush(stdout);
    for (int r = 0; r < s.rows; r++) gy_free(coded[r].q);
    for (int p = 0; p < 3; p++) gy_free(w.file.plane[p]);
    gy_free(x), gy_free(y), gy_free(scratch), gy_free(coded);
}

int main(int argc, char **argv) {
    shape s = {
        .isa = gy_isa_find(NULL, NULL),
        .cols = 2048,
    };
    int rows[16] = {1, 4, 64, 512}, n_rows = 0, first = argc;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--cols")) {
            s.cols = atoi(value), i++;
        } else if (!strcmp(argv[i], "--outs")) {
            s.outs = atoi(value), i++;
        } else if (!strcmp(argv[i], "--rows") && n_rows < 16) {
            rows[n_rows++] = atoi(value), i++;
        } else if (!strcmp(argv[i], "--isa")) {
            gy_err err = {0};
            s.isa = gy_isa_find(value, &err);
            if (!s.isa) return fprintf(stderr, "linear_bench: %s\n", err.msg), 2;
            i++;
        } else {
            first = i;
            break;
        }
    }
    if (!n_rows) n_rows = 4;
    gy_err err;
    if (gy_measure_roof(1, &s.roof, &err)) return fprintf(stderr, "linear_bench: %s\n", err.msg), 1;
    printf("%s, peak of one core: %.1f GFLOP/s f32, %.1f GOP/s int8\n", s.isa->name,
           s.roof.f32_ops * 1e-9, s.roof.int8_ops * 1e-9);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool wanted = first == argc;
        for (int i = first; i < argc; i++) wanted |= !strcmp(argv[i], kinds[k].name);
        if (!wanted || !gy_codecs[kinds[k].c.kind].fits(kinds[k].c, s.cols)) continue;
        for (int fast = 0; fast < 2; fast++) {
            if (fast && !gy_codec_intkind(kinds[k].c).has) continue;
            for (int r = 0; r < n_rows; r++) {
                s.fast = fast, s.rows = rows[r];
                one(kinds[k].name, kinds[k].c, s);
            }
        }
    }
    return 0;
}
