/* cli/bench - what the parts of `gyre bench` share.
 *
 *     flags -> bench_test[] -> cmd_bench.c measures -> a line each, md, csv or JSON
 *                                   ^ bench_compare.c: the same line of an earlier file
 *                                   ^ bench_ops.c: operators of the same test, run again
 *
 * Thread: the command's own. */
#ifndef GY_CLI_BENCH_H
#define GY_CLI_BENCH_H

#include "base/json.h"
#include "cli/common.h"
#include "gyre_measure.h"

/* One line: depth positions are there, then a prompt of `prompt` tokens or `gen` steps of a token
 * for each of `batch` sequences. Rates are tokens of all sequences a second. */
typedef struct {
    int threads, depth, batch, prompt, gen;
    double mean, sd, best;
} bench_test;

/* What makes two lines the same measurement. The instruction set does not: it may get better. */
typedef struct {
    const char *model, *quant, *arith, *kv;
    int64_t weight_bytes;
    int threads, depth, batch, prompt, gen;
} bench_key;

/* Lines of an earlier `gyre bench -o json`. Owner: bench_old_free. */
typedef struct {
    gy_json_doc doc;
    struct bench_old_line {
        bench_key key;
        double rate; /* avg_ts */
        bool met;    /* measured again */
    } * at;          /* [n] */
    int n;
} bench_old;

/* Reads and checks the whole file. EXIT_OK, or EXIT_USAGE after a message with file, line and
 * field. */
int bench_old_read(const cli_args *a, const char *path, bench_old *o);
void bench_old_free(bench_old *o);
/* The earlier rate of this line, which then counts as measured again; 0: there is none. */
double bench_old_rate(bench_old *o, const bench_key *key);
/* True when `rate` is below `old` by more than `percent`. */
bool bench_slower(double old, double rate, double percent);

/* Where the time of one test went. Owner: bench_ops_free. */
typedef struct {
    gy_op_time *at; /* [n] in the order of the plan; the last is "step" */
    int n;
    double seconds; /* of all steps, the sum over at */
    gy_roof roof;
} bench_ops;

/* What the engine counted since the last time. */
gy_rc bench_ops_take(gy_engine *e, bench_ops *o, gy_err *err);
void bench_ops_free(bench_ops *o);
void bench_ops_json(gy_buf *b,
                    const bench_ops *o); /* members of the line's object, from a comma on */
void bench_ops_md(gy_buf *b, const char *test, int threads, const bench_ops *o); /* a table */

/* "pp512", "tg128 x8 @ d4096" */
void bench_name(const bench_key *k, char out[64]);

#endif
