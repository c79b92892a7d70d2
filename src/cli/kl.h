/* cli/kl - distributions of one run kept in a file, and another run compared with them.
 *
 *     "GYREKL1\n" | u32 vocab | per window: its ids, i32, and per scored position of it
 *     f32 largest log-probability, f32 step, u16 code[vocab]
 *
 * All little-endian. A log-probability is largest - step * code: 16 bits over a row's span, an
 * error of at most step / 2, some 2e-4. Ids are checked, so that other windows are not compared. */
#ifndef GY_CLI_KL_H
#define GY_CLI_KL_H

#include <stdio.h>

#include "base/err.h"

typedef struct {
    FILE *f;
    const char *path;
    bool reads; /* compares; else writes */
    int vocab;
    uint16_t *code; /* [vocab] */
    double *logp;   /* [vocab] of this run */
    /* sums of a comparison */
    double kl, largest, base_nll;
    int64_t count, same_top;
} cli_kl;

/* path NULL: nothing is kept or compared, and the calls below do nothing. */
gy_rc cli_kl_open(cli_kl *k, const char *path, bool reads, int vocab, gy_err *err);
/* A window's ids, before its rows. */
gy_rc cli_kl_window(cli_kl *k, const int32_t *ids, int n, gy_err *err);
/* Logits l[vocab] of one scored position, whose true next token is id. */
gy_rc cli_kl_row(cli_kl *k, const float *l, int32_t id, gy_err *err);
gy_rc cli_kl_close(cli_kl *k, gy_err *err);

#endif
