/* base/dmath - see dmath.h. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dmath.h"

/* fma is the IEEE operation, correctly rounded by definition, whether an instruction or a library
 * call. */

typedef struct {
    double h, l; /* value h + l, |l| <= ulp(h) / 2 */
} pair;

/* ln 2 and pi / 2 as sums of doubles. */
static const pair LN2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
static const double PI_2[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                               -0x1.f1976b7ed8fbcp-110};

static pair fast_sum(double a, double b) { /* |a| >= |b| */
    double h = a + b;
    return (pair){h, b - (h - a)};
}

static pair sum(double a, double b) {
    double h = a + b, t = h - a;
    return (pair){h, (a - (h - t)) + (b - t)};
}

static pair product(double a, double b) {
    double h = a * b;
    return (pair){h, fma(a, b, -h)};
}

static pair add(pair a, pair b) {
    pair s = sum(a.h, b.h), t = sum(a.l, b.l);
    s = fast_sum(s.h, s.l + t.h);
    return fast_sum(s.h, s.l + t.l);
}

static pair mul(pair a, pair b) {
    pair p = product(a.h, b.h);
    return fast_sum(p.h, p.l + (a.h * b.l + a.l * b.h));
}

static pair divide(pair a, pair b) {
    double q = a.h / b.h;
    pair r = add(a, mul((pair){-q, 0}, b)); /* the remainder fits a pair */
    double q2 = r.h / b.h;
    r = add(r, mul((pair){-q2, 0}, b));
    return add(fast_sum(q, q2), (pair){r.h / b.h, 0});
}

static double power2(int k) { /* -1022 <= k <= 1023 */
    uint64_t u = (uint64_t)(k + 1023) << 52;
    double x;
    memcpy(&x, &u, 8);
    return x;
}

/* (h + l) * 2^k with one rounding but for subnormal results. */
static double scaled(pair v, int k) {
    double x = v.h + v.l;
    if (k > 1023) return x * power2(1023) * power2(k - 1023);
    if (k < -1021) return x * power2(-1000) * power2(k + 1000 < -1022 ? -1022 : k + 1000);
    return x * power2(k);
}

/* e^x: x = k ln 2 + r, |r| <= 0.35, and 20 terms of the series, of which the next is below 2^-90.
 */
static double exp_pair(pair x) {
    if (x.h > 710) return INFINITY;
    if (x.h < -746) return 0;
    double k = nearbyint(x.h * 0x1.71547652b82fep+0);
    pair r = add(x, mul((pair){-k, 0}, LN2)), term = {1, 0}, s = {0, 0};
    pair terms[21];
    for (int i = 0; i <= 20; i++) {
        terms[i] = term;
        term = divide(mul(term, r), (pair){i + 1, 0});
    }
    for (int i = 20; i >= 0; i--) s = add(terms[i], s); /* small ones first */
    return scaled(s, (int)k);
}

/* ln x for finite x > 0: x = m 2^e with m around 1, ln m = 2 atanh((m - 1) / (m + 1)), of which 18
 * terms are used. */
static pair log_pair(double x) {
    int e = 0;
    uint64_t u;
    if (x < 0x1p-1022) x *= 0x1p54, e = -54;
    memcpy(&u, &x, 8);
    e += (int)(u >> 52) - 1023;
    u = (u & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
    double m;
    memcpy(&m, &u, 8);
    if (m > 0x1.6a09e667f3bcdp+0) m *= 0.5, e++;
    pair s = divide((pair){m - 1, 0}, sum(m, 1)), s2 = mul(s, s), t = {0, 0};
    for (int i = 17; i >= 0; i--) t = add(mul(t, s2), divide((pair){2, 0}, (pair){2 * i + 1, 0}));
    return add(mul((pair){e, 0}, LN2), mul(t, s));
}

double gy_dexp(double x) {
    if (x != x) return x;
    return exp_pair((pair){x, 0});
}

double gy_dlog(double x) {
    if (x != x || x == INFINITY) return x;
    if (x <= 0) return x == 0 ? -INFINITY : NAN;
    pair v = log_pair(x);
    return v.h + v.l;
}

double gy_dpow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (x != x || y != y || x < 0) return NAN;
    if (x == 0 || x == INFINITY) return (x == 0) == (y > 0) ? 0 : INFINITY;
    pair v = log_pair(x);
    if (fabs(y) > 0x1p80)
        return (v.h > 0) == (y > 0) ? INFINITY : 0; /* beyond any exponent unless x is 1 */
    if (fabs(v.h * y) > 800) return v.h * y > 0 ? INFINITY : 0;
    return exp_pair(mul(v, (pair){y, 0}));
}

/* x - n pi / 2 in [-pi / 4, pi / 4]. n has at most 31 bits; what is lost of n PI_2 lies below
 * 2^-100. */
static pair reduce(double x, unsigned *quadrant) {
    double n = nearbyint(x * 0x1.45f306dc9c883p-1);
    *quadrant = (unsigned)(int64_t)n & 3;
    pair r = {x, 0};
    for (int i = 0; i < 3; i++) r = add(r, product(-n, PI_2[i]));
    return r;
}

/* Series in r^2 with the remainder r.l as a first-order correction; the next terms are below 2^-58.
 */
static double sin_near(pair r) {
    double x2 = r.h * r.h, p = 0x1.952c77030ad4ap-49; /* 1 / 17! */
    static const double c[] = {-0x1.ae7f3e733b81fp-41, 0x1.6124613a86d09p-33,
                               -0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19,
                               -0x1.a01a01a01a01ap-13, 0x1.1111111111111p-7,
                               -0x1.5555555555555p-3};
    for (int i = 0; i < 7; i++) p = fma(p, x2, c[i]);
    return r.h + fma(p * x2, r.h, r.l * fma(-0.5, x2, 1));
}

static double cos_near(pair r) {
    double x2 = r.h * r.h, p = 0x1.ae7f3e733b81fp-45; /* 1 / 16! */
    static const double c[] = {-0x1.93974a8c07c9dp-37, 0x1.1eed8eff8d898p-29,
                               -0x1.27e4fb7789f5cp-22, 0x1.a01a01a01a01ap-16,
                               -0x1.6c16c16c16c17p-10, 0x1.5555555555555p-5};
    for (int i = 0; i < 6; i++) p = fma(p, x2, c[i]);
    double half = 0.5 * x2, w = 1 - half;
    double lost = (1 - w) - half;             /* of the subtraction */
    lost = fma(-0.5 * r.h, r.h, half) + lost; /* and of the square */
    return w + (fma(p * x2, x2, -r.h * r.l) + lost);
}

static double sin_quarter(double x, unsigned turn) {
    if (!(fabs(x) <= 0x1p31)) return NAN;
    unsigned q;
    pair r = reduce(x, &q);
    q += turn;
    double v = q & 1 ? cos_near(r) : sin_near(r);
    return q & 2 ? -v : v;
}

double gy_dsin(double x) {
    return sin_quarter(x, 0);
}
double gy_dcos(double x) {
    return sin_quarter(x, 1);
}
