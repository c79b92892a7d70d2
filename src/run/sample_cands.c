/* run/sample_cands - candidates in descending order, sorted only as far as somebody looks. */
#include "run/sample_impl.h"

double gy_sample_sum(const float *l, int n, double max, double t) {
    gy_f64x2 lane[4] = {{0}};
    for (int i = 0; i < n; i += 8) {
        float tail[8];
        const float *b = l + i;
        if (n - i < 8) { /* filled up with what adds nothing: e^-700 */
            for (int k = 0; k < 8; k++) tail[k] = k < n - i ? b[k] : gy_bits_f32(0xFF800000);
            b = tail;
        }
        for (int k = 0; k < 4; k++) {
            gy_f64x2 x = {b[2 * k], b[2 * k + 1]};
            lane[k] += gy_sample_exp2((x - max) / t);
        }
    }
    gy_f64x2 sum = (lane[0] + lane[2]) + (lane[1] + lane[3]);
    return sum[0] + sum[1];
}

double gy_cands_sum(const gy_cands *c, double t) {
    float block[256];
    double sum = 0, max = c->at[c->lo].l;
    for (int i = c->lo; i < c->hi; i += 256) {
        int n = c->hi - i < 256 ? c->hi - i : 256;
        for (int k = 0; k < n; k++) block[k] = c->at[i + k].l;
        sum += gy_sample_sum(block, n, max, t);
    }
    return sum;
}

/* Buckets are 1/32 wide below the maximum, the last one holds the rest. Monotone in l, so buckets
 * never overlap. */
static inline int bucket_of(float max, float l) {
    float d = (max - l) * 32;
    return d < GY_CAND_BUCKETS - 1 ? (int)d : GY_CAND_BUCKETS - 1;
}

int gy_cands_build(gy_cands *c, const float *l, int n, float max) {
    const float none = gy_bits_f32(0xFF800000);
    memset(c->end, 0, sizeof c->end);
    for (int i = 0; i < n; i++) {
        if (l[i] > none) c->end[bucket_of(max, l[i])]++;
    }
    int at = 0;
    for (int b = 0; b < GY_CAND_BUCKETS; b++) {
        int count = c->end[b];
        c->end[b] = at; /* its start; placing the candidates moves it to its end */
        at += count;
    }
    for (int i = 0; i < n; i++) {
        if (l[i] > none) c->at[c->end[bucket_of(max, l[i])]++] = (gy_cand){l[i], i};
    }
    c->lo = 0, c->hi = at, c->sorted = 0, c->bucket = 0;
    return at;
}

static inline bool before(gy_cand a, gy_cand b) {
    return a.l > b.l || (a.l == b.l && a.id < b.id);
}

static void sift(gy_cand *a, int root, int n) {
    gy_cand v = a[root];
    for (int child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(a[child], a[child + 1]))
            child++; /* the heap's top is the last in order */
        if (!before(v, a[child])) break;
        a[root] = a[child];
    }
    a[root] = v;
}

void gy_cands_order(gy_cand *a, int n) {
    if (n <= 24) {
        for (int i = 1; i < n; i++) {
            gy_cand v = a[i];
            int j = i;
            for (; j > 0 && before(v, a[j - 1]); j--) a[j] = a[j - 1];
            a[j] = v;
        }
        return;
    }
    int i = 1;
    while (i < n && before(a[i - 1], a[i])) i++;
    if (i == n) return; /* in order already, as equal logits are */
    for (i = n / 2 - 1; i >= 0; i--) sift(a, i, n);
    for (i = n - 1; i > 0; i--) {
        gy_cand v = a[0];
        a[0] = a[i], a[i] = v;
        sift(a, 0, i);
    }
}

void gy_cands_sort_to(gy_cands *c, int i) {
    while (c->sorted <= i && c->bucket < GY_CAND_BUCKETS) {
        int end = c->end[c->bucket++];
        if (end <= c->sorted) continue;
        gy_cands_order(c->at + c->sorted, end - c->sorted);
        c->sorted = end;
    }
}
