/* cpu/scan - recurrent layers: causal convolution, gated delta rule, and gates.
 *
 *     conv   y[t] = silu(fma chain over the taps, oldest first, of w[j] x[t - taps + 1 + j])
 *     unit   y = x * (scale * (1 / sqrt(ss + eps)))            ss by the 16 lanes of cpu.h
 *     gates  beta = 1 / (1 + e^-b);  decay = e^-(rate * softplus(a + dt_bias)), where softplus(x) =
 *            max(x, 0) + ln(1 + u), u = e^-|x|, by 2 atanh(u / (2 + u)) as a series of nine terms
 *     scan   for each value row S of a head's matrix, token by token (kv.md 4.7):
 *            S = decay S; m = dot(S, k); d = beta (v - m); S = fma(d, k, S); out = dot(S, q)
 *            dots by 16 lanes
 *     gate   sigmoid: y = x / (1 + e^-g);  norm_silu: y = norm(x) * w * (g / (1 + e^-g))
 *
 * A row is a function of the rows before it, in the order of positions; which of them come from a
 * state and which from the same step does not show. Every instruction set gives the same bits. */
#ifndef GY_CPU_SCAN_H
#define GY_CPU_SCAN_H

#include "kv/kv.h"
#include "op/op.h"

enum { GY_CONV_TAPS = 8 }; /* most taps */

typedef struct { /* cols columns of one span's rows, in place */
    float *x;
    ptrdiff_t ld;
    int rows, cols, taps;
    const float *w;    /* [taps] rows of cols, ldw apart */
    const float *from; /* [taps - 1] rows of cols, ldw apart, oldest first; NULL: zeros */
    float *to;         /* as from; may be from */
    ptrdiff_t ldw;
} gy_conv;

typedef struct { /* one value head of one span's rows */
    const float *q, *k, *v;
    ptrdiff_t ld;              /* of q, k and v */
    const float *beta, *decay; /* one value per row */
    ptrdiff_t ldg;
    int rows, kdim, vdim;
    const float *from; /* [vdim][kdim]; NULL: zeros */
    float *to;         /* as from; may be from */
    float *out;        /* vdim values per row */
    ptrdiff_t ldo;
} gy_scan;

typedef struct {
    void (*conv)(const gy_conv *c);
    void (*unit)(float *x, int n, float eps, float scale);
    /* In place: b to beta, a to decay; [n] each. */
    void (*gates)(float *b, float *a, const float *dt_bias, const float *rate, int n);
    void (*scan)(const gy_scan *s);
    /* w: [n], norm_silu only; y may be x. */
    void (*gate)(const float *x, const float *g, const float *w, float *y, int n, float eps,
                 gy_gate_form form);
} gy_isa_scan;

#endif
