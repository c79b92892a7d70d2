/* bench_ops - see bench.h. An operator's bound is the later of two times: its bytes at the measured
 * read bandwidth, its operations at the measured peaks. Operands that stay in a cache can be read
 * faster than that, so a small operator may pass 100 %. */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/bench.h"

gy_rc bench_ops_take(gy_engine *e, bench_ops *o, gy_err *err) {
    int n = gy_engine_profile_take(e, o->at, o->n);
    if (n > o->n) { /* the first time: nothing has been counted yet */
        gy_free(o->at);
        o->n = 0, o->at = gy_alloc_n((size_t)n, sizeof *o->at);
        if (!o->at) return gy_fail(err, GY_ENOMEM, "bench: out of memory");
        o->n = n;
    }
    o->seconds = 0;
    for (int i = 0; i < o->n; i++) o->seconds += o->at[i].seconds;
    return GY_OK;
}

void bench_ops_free(bench_ops *o) {
    gy_free(o->at);
    *o = (bench_ops){0};
}

/* Seconds that the machine needs at least. */
static double bound(const gy_roof *r, const gy_op_time *op) {
    double int8 = r->int8_ops > 0 ? r->int8_ops : r->f32_ops;
    double memory = (double)op->bytes / r->read_bytes,
           products = (double)(op->ops - op->int8_ops) / r->f32_ops + (double)op->int8_ops / int8;
    return memory > products ? memory : products;
}

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

void bench_ops_json(gy_buf *b, const bench_ops *o) {
    gy_buf_printf(b,
                  ",\"roof\":{\"read_gbs\":%.3f,\"f32_gops\":%.3f,\"int8_gops\":%.3f},"
                  "\"ops_seconds\":%.9f,\"ops\":[",
                  o->roof.read_bytes * 1e-9, o->roof.f32_ops * 1e-9, o->roof.int8_ops * 1e-9,
                  o->seconds);
    for (int i = 0; i < o->n; i++) {
        const gy_op_time *op = o->at + i;
        gy_buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        gy_buf_json(b, op->name, strlen(op->name));
        gy_buf_printf(b,
                      ",\"runs\":%lld,\"seconds\":%.9f,\"share\":%.6f,\"bytes\":%lld,\"ops\":%lld,"
                      "\"int8_ops\":%lld,\"gbs\":%.3f,\"gops\":%.3f,\"of_roof\":%.4f}",
                      (long long)op->runs, op->seconds, over(op->seconds, o->seconds),
                      (long long)op->bytes, (long long)op->ops, (long long)op->int8_ops,
                      over((double)op->bytes * 1e-9, op->seconds),
                      over((double)op->ops * 1e-9, op->seconds),
                      over(bound(&o->roof, op), op->seconds));
    }
    gy_buf_c(b, ']');
}

static int by_time(const void *a, const void *b) {
    const gy_op_time *x = *(const gy_op_time *const *)a, *y = *(const gy_op_time *const *)b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void put_op(gy_buf *b, const bench_ops *o, const gy_op_time *op, double steps) {
    char bytes[32] = "", rate[32] = "", ops[32] = "", roof[32] = "";
    if (op->bytes) {
        cli_bytes(bytes, (double)op->bytes / steps);
        snprintf(rate, sizeof rate, "%.1f", over((double)op->bytes * 1e-9, op->seconds));
        snprintf(roof, sizeof roof, "%.0f %%", 100 * over(bound(&o->roof, op), op->seconds));
    }
    if (op->ops)
        snprintf(ops, sizeof ops, "%.1f %s", over((double)op->ops * 1e-9, op->seconds),
                 op->int8_ops ? "int8" : "f32");
    gy_buf_printf(b, "| %s | %.1f | %.4f | %.1f %% | %s | %s | %s | %s |\n", op->name,
                  (double)op->runs / steps, 1e3 * op->seconds / steps,
                  100 * over(op->seconds, o->seconds), bytes, rate, ops, roof);
}

void bench_ops_md(gy_buf *b, const char *test, int threads, const bench_ops *o) {
    const gy_op_time **sorted = gy_alloc_n((size_t)o->n, sizeof *sorted);
    double steps = o->n && o->at[o->n - 1].runs ? (double)o->at[o->n - 1].runs : 1;
    if (!sorted) {
        b->oom = true;
        return;
    }
    for (int i = 0; i < o->n; i++) sorted[i] = o->at + i;
    qsort(sorted, (size_t)o->n, sizeof *sorted, by_time);
    gy_buf_printf(b,
                  "\n%s, threads %d: %.0f steps of %.3f ms. Roof: read %.1f GB/s, f32 %.0f GOP/s, "
                  "int8 %.0f GOP/s.\n\n| operator | runs | ms | share | bytes | GB/s | GOP/s | of "
                  "roof |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
                  test, threads, steps, 1e3 * o->seconds / steps, o->roof.read_bytes * 1e-9,
                  o->roof.f32_ops * 1e-9, o->roof.int8_ops * 1e-9);
    for (int i = 0; i < o->n; i++) put_op(b, o, sorted[i], steps);
    gy_free(sorted);
}
