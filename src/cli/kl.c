#include "cli/kl.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

static const char magic[8] = "GYREKL1\n";
enum { STEPS = 65535 };

static gy_rc put(cli_kl *k, const void *p, size_t n, gy_err *err) {
    return fwrite(p, 1, n, k->f) == n
               ? GY_OK
               : gy_fail(err, GY_EIO, "%s: %s", k->path, strerror(errno ? errno : EIO));
}

static gy_rc get(cli_kl *k, void *p, size_t n, gy_err *err) {
    if (fread(p, 1, n, k->f) == n) return GY_OK;
    return gy_fail(err, GY_EARG, "%s: ends before the text does; was it made from the same one?",
                   k->path);
}

gy_rc cli_kl_open(cli_kl *k, const char *path, bool reads, int vocab, gy_err *err) {
    char head[8];
    uint32_t n = (uint32_t)vocab;
    *k = (cli_kl){.path = path, .reads = reads, .vocab = vocab};
    if (!path) return GY_OK;
    k->f = fopen(path, reads ? "rb" : "wb");
    if (!k->f) return gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno));
    k->code = gy_alloc_n((size_t)vocab, sizeof *k->code);
    k->logp = gy_alloc_n((size_t)vocab, sizeof *k->logp);
    if (!k->code || !k->logp) return gy_fail(err, GY_ENOMEM, "perplexity: out of memory");
    if (!reads) return put(k, magic, 8, err) ? err->rc : put(k, &n, 4, err);
    if (get(k, head, 8, err) || get(k, &n, 4, err)) return err->rc;
    if (memcmp(head, magic, 8) || n != (uint32_t)vocab)
        return gy_fail(err, GY_EARG, "%s: expected a file of --kl-base with a vocabulary of %d",
                       path, vocab);
    return GY_OK;
}

gy_rc cli_kl_window(cli_kl *k, const int32_t *ids, int n, gy_err *err) {
    if (!k->f) return GY_OK;
    if (!k->reads) return put(k, ids, (size_t)n * 4, err);
    for (int i = 0; i < n; i++) {
        int32_t id;
        gy_rc rc = get(k, &id, 4, err);
        if (rc) return rc;
        if (id != ids[i])
            return gy_fail(err, GY_EARG, "%s: was made from another text or window size", k->path);
    }
    return GY_OK;
}

/* Log-probabilities of l into k->logp; returns the index of the largest. */
static int log_softmax(cli_kl *k, const float *l) {
    int top = 0;
    double sum = 0;
    for (int i = 1; i < k->vocab; i++)
        if (l[i] > l[top]) top = i;
    for (int i = 0; i < k->vocab; i++) sum += exp((double)(l[i] - l[top]));
    sum = log(sum);
    for (int i = 0; i < k->vocab; i++) k->logp[i] = (double)(l[i] - l[top]) - sum;
    return top;
}

static gy_rc write_row(cli_kl *k, int top, gy_err *err) {
    double least = 0;
    for (int i = 0; i < k->vocab; i++)
        if (isfinite(k->logp[i]) && k->logp[i] < least) least = k->logp[i];
    float head[2] = {(float)k->logp[top], (float)((k->logp[top] - least) / STEPS)};
    for (int i = 0; i < k->vocab; i++) {
        double code = head[1] > 0 ? ((double)head[0] - k->logp[i]) / (double)head[1] : 0;
        k->code[i] = (uint16_t)(code < 0 ? 0 : code < STEPS ? code + 0.5 : STEPS);
    }
    gy_rc rc = put(k, head, sizeof head, err);
    return rc ? rc : put(k, k->code, (size_t)k->vocab * 2, err);
}

gy_rc cli_kl_row(cli_kl *k, const float *l, int32_t id, gy_err *err) {
    float head[2];
    int top;
    if (!k->f) return GY_OK;
    top = log_softmax(k, l);
    if (!k->reads) return write_row(k, top, err);
    if (get(k, head, sizeof head, err) || get(k, k->code, (size_t)k->vocab * 2, err))
        return err->rc;
    double kl = 0;
    for (int i = 0; i < k->vocab; i++) {
        double base = (double)head[0] - (double)head[1] * k->code[i];
        if (isfinite(k->logp[i])) kl += exp(base) * (base - k->logp[i]);
    }
    /* Rounding of the kept row can take the sum a little below zero. */
    k->kl += kl > 0 ? kl : 0;
    if (kl > k->largest) k->largest = kl;
    k->base_nll -= (double)head[0] - (double)head[1] * k->code[id];
    k->same_top += k->code[top] == 0;
    k->count++;
    return GY_OK;
}

gy_rc cli_kl_close(cli_kl *k, gy_err *err) {
    bool bad = k->f && fclose(k->f) && !k->reads;
    k->f = NULL;
    gy_free(k->code), gy_free(k->logp);
    k->code = NULL, k->logp = NULL;
    return bad ? gy_fail(err, GY_EIO, "%s: %s", k->path, strerror(errno)) : GY_OK;
}
