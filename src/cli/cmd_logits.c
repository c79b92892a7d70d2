/* logits, explain: what porters and tests look at. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/common.h"

typedef struct {
    bool *want;
    int n, count;
} rows; /* want[n] positions to write, count of them */

static bool choose(const cli_args *a, int n, rows *r, gy_err *err) {
    r->n = n, r->want = gy_alloc_n((size_t)n + 1, sizeof *r->want);
    if (!r->want) return gy_fail(err, GY_ENOMEM, "positions: out of memory"), false;
    const char *p = a->positions ? a->positions : "all";
    int listed = 0;
    if (!strcmp(p, "all")) {
        for (int i = 0; i < n; i++) r->want[i] = true;
    } else if (!strcmp(p, "last")) {
        r->want[n - 1] = true;
    } else {
        int32_t *at = cli_ids(p, &listed, err);
        for (int i = 0; at && i < listed; i++) {
            if (at[i] < 0 || at[i] >= n)
                gy_fail(err, GY_EARG, "positions: %d is not in 0..%d", at[i], n - 1);
            else
                r->want[at[i]] = true;
        }
        gy_free(at);
        if (!at || (err && err->rc)) return false;
    }
    for (int i = 0; i < n; i++) r->count += r->want[i];
    return true;
}

/* Feeds the ids in pieces of one chunk and writes the wanted rows as they come. */
static gy_rc write_rows(gy_engine *e, const int32_t *ids, const rows *r, int vocab, FILE *f,
                        const char *path, gy_err *err) {
    gy_engine_info info;
    gy_seq *seq = NULL;
    gy_engine_get_info(e, &info);
    int piece = info.chunk < r->n ? info.chunk : r->n;
    float *logits = gy_alloc_n((size_t)piece * (size_t)vocab, sizeof *logits);
    gy_rc rc = GY_OK;
    if (!logits) rc = gy_fail(err, GY_ENOMEM, "logits: out of memory");
    if (!rc) rc = gy_seq_new(e, &seq, err);
    for (int at = 0; !rc && at < r->n; at += piece) {
        int n = r->n - at < piece ? r->n - at : piece, first = 0;
        while (first < n && !r->want[at + first]) first++;
        rc = gy_step(e, &(gy_feed){.seq = seq, .ids = ids + at, .n = n, .first_out = first}, 1,
                     logits, err);
        for (int i = first; !rc && i < n; i++)
            if (r->want[at + i] &&
                fwrite(logits + (size_t)(i - first) * vocab, 4, (size_t)vocab, f) != (size_t)vocab)
                rc = gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno));
    }
    gy_seq_free(e, seq);
    gy_free(logits);
    return rc;
}

static void put_report(int rows, int vocab, const char *file) {
    gy_buf b = {0};
    gy_buf_printf(&b, "{\"schema_version\":1,\"rows\":%d,\"vocab\":%d,\"file\":", rows, vocab);
    gy_buf_json(&b, file, strlen(file));
    gy_buf_puts(&b, "}\n");
    if (b.p) cli_put(b.p, b.n);
    gy_buf_free(&b);
}

int cmd_logits(cli_args *a) {
    int code = EXIT_OK, n = 0;
    gy_err err = {0};
    gy_engine *e = NULL;
    gy_model_info info;
    rows r = {0};
    gy_model *m = cli_open(a, &(gy_model_options){.no_tokenizer = true}, &code);
    if (!m) return code;
    if ((code = cli_words(a, 0))) return gy_model_unref(m), code;
    if (!a->ids || !a->out) return gy_model_unref(m), cli_usage(a, "--ids and --out are needed");
    gy_model_get_info(m, &info);
    int32_t *ids = cli_ids(a->ids, &n, &err);
    if (ids && !n) gy_fail(&err, GY_EARG, "ids: the list is empty");
    if (!err.rc && choose(a, n, &r, &err)) {
        e = cli_engine(a, m, &(gy_engine_options){.context = n}, &code);
        FILE *f = e ? fopen(a->out, "wb") : NULL;
        if (e && !f) gy_fail(&err, GY_EIO, "%s: %s", a->out, strerror(errno));
        cli_signals(e);
        if (f) write_rows(e, ids, &r, info.vocab, f, a->out, &err);
        if (f && fclose(f)) gy_fail(&err, GY_EIO, "%s: %s", a->out, strerror(errno));
        cli_signals(NULL);
        gy_engine_free(e);
    }
    if (err.rc)
        code = cli_fail(a, &err);
    else if (!code && a->json)
        put_report(r.count, info.vocab, a->out);
    gy_free(ids), gy_free(r.want);
    gy_model_unref(m);
    return code;
}

/* ---- explain --op ---- */

typedef struct {
    const char *want;
    int number;
    bool json;
    int shown;
} dump;

static void on_value(void *arg, int op, const char *name, const float *v, int rows, int cols,
                     int ld) {
    dump *d = arg;
    if (d->number >= 0 ? op != d->number : strcmp(name, d->want) && strcmp(d->want, "all")) return;
    if (d->json)
        printf("{\"op\":%d,\"name\":\"%s\",\"rows\":%d,\"cols\":%d,\"value\":[", op, name, rows,
               cols);
    else
        printf("op %d %s: %d x %d\n", op, name, rows, cols);
    for (int r = 0; r < rows; r++) {
        if (d->json) printf("%s[", r ? "," : "");
        for (int c = 0; c < cols; c++)
            printf("%s%.9g", c ? (d->json ? "," : " ") : "",
                   (double)v[(size_t)r * (size_t)ld + (size_t)c]);
        printf("%s", d->json ? "]" : "\n");
    }
    if (d->json) printf("]}\n");
    d->shown++;
}

static gy_rc run_dump(const cli_args *a, gy_engine *e, int vocab, gy_err *err) {
    char *end;
    int n = 0;
    gy_seq *seq = NULL;
    dump d = {.want = a->op, .number = (int)strtol(a->op, &end, 10), .json = a->json};
    if (*end || end == a->op) d.number = -1;
    int32_t *ids = cli_ids(a->ids, &n, err);
    float *logits = gy_alloc_n((size_t)vocab, sizeof *logits);
    gy_rc rc = ids && !n ? gy_fail(err, GY_EARG, "ids: the list is empty") : ids ? GY_OK : GY_EARG;
    if (!rc && !logits) rc = gy_fail(err, GY_ENOMEM, "explain: out of memory");
    if (!rc) rc = gy_seq_new(e, &seq, err);
    gy_engine_trace(e, on_value, &d);
    if (!rc)
        rc = gy_step(e, &(gy_feed){.seq = seq, .ids = ids, .n = n, .first_out = n - 1}, 1, logits,
                     err);
    if (!rc && !d.shown)
        rc = gy_fail(err, GY_EARG, "--op %s: no such operator; gyre explain MODEL lists them",
                     a->op);
    gy_seq_free(e, seq);
    gy_free(ids), gy_free(logits);
    return rc;
}

int cmd_explain(cli_args *a) {
    int code = EXIT_OK;
    gy_err err = {0};
    char *text = NULL;
    gy_model_info info;
    gy_model *m = cli_open(a, &(gy_model_options){.no_tokenizer = true}, &code);
    gy_engine *e =
        m ? cli_engine(a, m, &(gy_engine_options){.context = a->ids ? 0 : 64}, &code) : NULL;
    if (!e) return gy_model_unref(m), code;
    gy_model_get_info(m, &info);
    if (cli_words(a, 0))
        code = EXIT_USAGE;
    else if (a->op && !a->ids)
        code = cli_usage(a, "--op needs --ids");
    else if (a->op)
        run_dump(a, e, info.vocab, &err);
    else if (!gy_explain(e, a->json, &text, &err))
        cli_put(text, strlen(text));
    if (err.rc) code = cli_fail(a, &err);
    gy_free(text);
    gy_engine_free(e);
    gy_model_unref(m);
    return code;
}
