/* perplexity: exp of the mean negative log-likelihood of a text's tokens.
 *
 * The text is cut into windows of --ctx-size tokens (default 512) that start --stride tokens apart
 * (default the window). In the manner of llama-perplexity each window is scored from its middle on,
 * so that every scored token has at least half a window of context; a model with BOS gets it in
 * place of each window's first token. */
#include <math.h>

#include "base/mem.h"
#include "cli/common.h"
#include "cli/kl.h"

typedef struct {
    double sum, squares;
    int64_t count;
    int windows;
} score;

/* -log softmax(l)[id], summed in double. */
static double surprise(const float *l, int vocab, int32_t id) {
    float top = l[0];
    for (int i = 1; i < vocab; i++) top = l[i] > top ? l[i] : top;
    double sum = 0;
    for (int i = 0; i < vocab; i++) sum += exp((double)(l[i] - top));
    return log(sum) - (double)(l[id] - top);
}

static gy_rc window(gy_engine *e, const int32_t *ids, int n, int vocab, float *logits, score *s,
                    cli_kl *kl, gy_err *err) {
    gy_seq *seq = NULL;
    int first = n / 2;
    gy_rc rc = cli_kl_window(kl, ids, n, err);
    if (!rc) rc = gy_seq_new(e, &seq, err);
    if (!rc)
        rc = gy_step(e, &(gy_feed){.seq = seq, .ids = ids, .n = n - 1, .first_out = first}, 1,
                     logits, err);
    for (int i = first; !rc && i < n - 1; i++) {
        const float *row = logits + (size_t)(i - first) * vocab;
        double x = surprise(row, vocab, ids[i + 1]);
        rc = cli_kl_row(kl, row, ids[i + 1], err);
        s->sum += x, s->squares += x * x, s->count++;
    }
    s->windows++;
    gy_seq_free(e, seq);
    return rc;
}

/* The id that the tokenizer puts before a text, or -1. */
static int32_t bos_of(const gy_model *m) {
    int32_t *with = NULL, *without = NULL, id = -1;
    int n = 0, k = 0;
    if (!gy_tokenize(m, "a", 1, GY_TOK_SPECIALS, &with, &n, NULL) &&
        !gy_tokenize(m, "a", 1, 0, &without, &k, NULL))
        if (n > k && k && with[0] != without[0]) id = with[0];
    gy_free(with), gy_free(without);
    return id;
}

static gy_rc run(const cli_args *a, gy_engine *e, const gy_model *m, int32_t *ids, int n, int size,
                 score *s, cli_kl *kl, gy_err *err) {
    gy_model_info info;
    gy_model_get_info(m, &info);
    int32_t bos = bos_of(m);
    int stride = a->stride > 0 ? a->stride : size, all = (n - size) / stride + 1;
    cli_bar bar = {.title = "perplexity", .unit = "windows", .quiet = a->quiet};
    if (a->samples > 0 && a->samples < all) all = a->samples;
    float *logits = gy_alloc_n((size_t)size * (size_t)info.vocab, sizeof *logits);
    gy_rc rc = GY_OK;
    if (!logits) rc = gy_fail(err, GY_ENOMEM, "perplexity: out of memory");
    for (int w = 0; !rc && w < all; w++) {
        int32_t *at = ids + (size_t)w * (size_t)stride, kept = at[0];
        if (bos >= 0) at[0] = bos;
        rc = window(e, at, size, info.vocab, logits, s, kl, err);
        at[0] = kept;
        cli_progress(&bar, "windows", (uint64_t)w + 1, (uint64_t)all);
    }
    cli_progress_end(&bar);
    gy_free(logits);
    return rc;
}

static void report(const cli_args *a, const score *s, const cli_kl *k) {
    double mean = s->sum / (double)s->count, ppl = exp(mean);
    double variance = s->squares / (double)s->count - mean * mean, n = (double)k->count;
    double error = s->count > 1 && variance > 0 ? ppl * sqrt(variance / (double)(s->count - 1)) : 0;
    bool compared = k->count > 0;
    double base = compared ? exp(k->base_nll / n) : 0,
           same = compared ? (double)k->same_top / n : 0;
    gy_buf b = {0};
    if (a->json) {
        gy_buf_printf(&b,
                      "{\"schema_version\":1,\"perplexity\":%.6f,\"error\":%.6f,\"nll\":%.9f,"
                      "\"tokens\":%lld,\"windows\":%d",
                      ppl, error, mean, (long long)s->count, s->windows);
        if (compared)
            gy_buf_printf(&b,
                          ",\"kl\":%.9f,\"kl_max\":%.9f,\"same_top\":%.6f,"
                          "\"base_perplexity\":%.6f",
                          k->kl / n, k->largest, same, base);
        gy_buf_puts(&b, "}\n");
    } else {
        gy_buf_printf(&b, "perplexity %.4f +- %.4f (%lld tokens in %d windows)\n", ppl, error,
                      (long long)s->count, s->windows);
        if (compared)
            gy_buf_printf(&b,
                          "KL divergence %.6f, largest %.6f; same first choice %.2f %%; base "
                          "perplexity %.4f\n",
                          k->kl / n, k->largest, 100 * same, base);
    }
    if (b.p) cli_put(b.p, b.n);
    gy_buf_free(&b);
}

int cmd_perplexity(cli_args *a) {
    int code = EXIT_OK, n = 0;
    gy_err err = {0};
    gy_engine *e = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0;
    score s = {0};
    gy_model_info info;
    cli_kl kl = {0};
    if (a->kl && !a->kl_base) return cli_usage(a, "--kl needs --kl-base FILE");
    if (cli_words(a, (a->model ? 0 : 1) + !a->prompt_file)) return EXIT_USAGE;
    if (a->context && a->context < 4)
        return cli_usage(a, "--ctx-size %d: expected 4 or more", a->context);
    gy_model *m = cli_open(a, NULL, &code);
    if (!m) return code;
    char *text = cli_read(a->prompt_file ? a->prompt_file
                          : a->words     ? a->word[0]
                                         : NULL,
                          &bytes, &err);
    if (text) gy_tokenize(m, text, bytes, GY_TOK_SPECIALS, &ids, &n, &err);
    int size = a->context ? a->context : 512;
    if (ids && n < size && !a->context) size = n;
    if (ids && (n < size || size < 4))
        gy_fail(&err, GY_EARG, "text: it has %d tokens, a window needs %d", n, size < 4 ? 4 : size);
    if (!err.rc) e = cli_engine(a, m, &(gy_engine_options){.context = size}, &code);
    cli_signals(e);
    gy_model_get_info(m, &info);
    if (e && !cli_kl_open(&kl, a->kl_base, a->kl, info.vocab, &err))
        run(a, e, m, ids, n, size, &s, &kl, &err);
    cli_kl_close(&kl, &err);
    if (e && !err.rc) report(a, &s, &kl);
    cli_signals(NULL);
    if (err.rc) code = cli_fail(a, &err);
    gy_engine_free(e);
    gy_free(text), gy_free(ids);
    gy_model_unref(m);
    return code;
}
