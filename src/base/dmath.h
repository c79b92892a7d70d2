/* base/dmath - exp, log, pow, sin and cos in double, ours, for tables made at load and angles (rule
 * D4).
 *
 * Computed with pairs of doubles whose sum is the value (about 100 bits), from + - * / and fma
 * alone, so that the result is the same on every machine. Error against the exact value: below 0.52
 * ulp for exp, log and pow, below 1 ulp for sin and cos (tests/unit/math.c measures it). Thread:
 * any. */
#ifndef GY_BASE_DMATH_H
#define GY_BASE_DMATH_H

double gy_dexp(double x);
double gy_dlog(double x);           /* NaN for x < 0, -infinity for 0 */
double gy_dpow(double x, double y); /* x >= 0; NaN for x < 0 unless y is 0 */
double gy_dsin(double x);           /* |x| <= 2^31, else NaN */
double gy_dcos(double x);           /* |x| <= 2^31, else NaN */

#endif
