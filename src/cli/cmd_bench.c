/* bench: prefill and decode rates, in the manner of llama-bench.
 *
 * A test is (threads, depth, batch, prompt p) or (.., generate n): depth positions are filled first
 * and not measured, then p positions of every sequence go through one step, or n steps feed one
 * token to every sequence. Each test runs once unmeasured, then --repetitions times. Tokens are
 * pseudo-random and the same in every run. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/bench.h"

enum { LIST = 32, SEQS = 256 };
typedef struct {
    int at[LIST], n;
} list;
typedef bench_test test;

/* "1,2,8" and "128-512+128" and any mix. */
static bool parse(const cli_args *a, const char *flag, const char *text, int least, list *out) {
    out->n = 0;
    for (const char *s = text; *s && out->n < LIST;) {
        char *end;
        long first = strtol(s, &end, 10), last = first, step = 1;
        if (end != s && *end == '-') last = strtol(end + 1, &end, 10);
        if (end != s && *end == '+') step = strtol(end + 1, &end, 10);
        if (end == s || (*end && *end != ',') || first < least || last < first || step < 1 ||
            last > 1 << 20)
            return cli_usage(a, "--%s %s: expected a list such as 1,2 or 128-512+128", flag, text),
                   false;
        for (long v = first; v <= last && out->n < LIST; v += step) out->at[out->n++] = (int)v;
        s = *end ? end + 1 : end;
    }
    return out->n > 0 || (cli_usage(a, "--%s: the list is empty", flag), false);
}

typedef struct {
    gy_engine *e;
    gy_seq *seq[SEQS];
    gy_feed feed[SEQS];
    int batch, vocab;
    bool profile; /* count operators of what is measured */
    int32_t *ids;
    float *logits;
} bench;

static gy_rc fill(bench *b, int n, bool logits, gy_err *err) {
    if (!n) return GY_OK;
    for (int s = 0; s < b->batch; s++)
        b->feed[s] =
            (gy_feed){.seq = b->seq[s], .ids = b->ids + s, .n = n, .first_out = logits ? n - 1 : n};
    return gy_step(b->e, b->feed, b->batch, b->logits, err);
}

/* Seconds of one run of t. */
static gy_rc once(bench *b, const test *t, double *seconds, gy_err *err) {
    gy_rc rc = GY_OK;
    for (int s = 0; !rc && s < b->batch; s++) rc = gy_seq_new(b->e, &b->seq[s], err);
    if (!rc) rc = fill(b, t->depth, false, err);
    if (!rc && b->profile) rc = gy_engine_profile(b->e, true, err);
    double start = cli_now();
    if (!rc && t->prompt) rc = fill(b, t->prompt, true, err);
    for (int i = 0; !rc && i < t->gen; i++) rc = fill(b, 1, true, err);
    *seconds = cli_now() - start;
    if (b->profile) gy_engine_profile(b->e, false, NULL);
    for (int s = 0; s < b->batch; s++) gy_seq_free(b->e, b->seq[s]), b->seq[s] = NULL;
    return rc;
}

static gy_rc measure(bench *b, test *t, int repetitions, gy_err *err) {
    double sum = 0, squares = 0, seconds;
    gy_rc rc = once(b, t, &seconds, err);
    for (int i = 0; !rc && i < repetitions; i++) {
        rc = once(b, t, &seconds, err);
        double rate = (double)(t->prompt + t->gen) * b->batch / seconds;
        sum += rate, squares += rate * rate;
        if (rate > t->best) t->best = rate;
    }
    t->mean = sum / repetitions;
    double variance = repetitions > 1 ? (squares - sum * t->mean) / (repetitions - 1) : 0;
    t->sd = variance > 0 ? sqrt(variance) : 0;
    return rc;
}

/* Runs t again to see where its time goes. */
static gy_rc profile(bench *b, const test *t, int repetitions, bench_ops *ops, gy_err *err) {
    double seconds;
    gy_rc rc = gy_engine_profile(b->e, true, err); /* there is one from now on */
    gy_engine_profile(b->e, false, NULL);
    if (!rc) rc = bench_ops_take(b->e, ops, err);
    b->profile = true;
    for (int i = 0; !rc && i < repetitions; i++) rc = once(b, t, &seconds, err);
    b->profile = false;
    return rc ? rc : bench_ops_take(b->e, ops, err);
}

static void put_field(gy_buf *b, const char *key, const char *value) {
    gy_buf_printf(b, ",\"%s\":", key);
    gy_buf_json(b, value, strlen(value));
}

/* What every line is written from. */
typedef struct {
    const cli_args *a;
    const char *format;
    bench_old *old; /* NULL: no --compare */
    int lines, slower, compared;
    bool ops;
    gy_buf tables; /* of --ops, after the lines */
} report;

typedef struct {
    const gy_model_info *m;
    bench_key key;
    const test *t;
    char name[64];
    double old; /* rate of the earlier file; 0: not there */
    const bench_ops *ops;
} line;

static void put_json(gy_buf *b, const report *r, const line *l) {
    const bench_key *k = &l->key;
    gy_buf_puts(b, "{\"schema_version\":1");
    put_field(b, "model", k->model), put_field(b, "quant", k->quant);
    put_field(b, "isa", gy_isa()), put_field(b, "arith", k->arith), put_field(b, "kv", k->kv);
    put_field(b, "test", l->name);
    gy_buf_printf(b,
                  ",\"weight_bytes\":%lld,\"parameters\":%lld,\"bits\":%d,\"threads\":%d,"
                  "\"n_prompt\":%d,\"n_gen\":%d,\"n_depth\":%d,\"batch\":%d,\"avg_ts\":%.3f,"
                  "\"stddev_ts\":%.3f,\"best_ts\":%.3f,\"repetitions\":%d",
                  (long long)k->weight_bytes, (long long)l->m->parameters, gy_bits(), k->threads,
                  k->prompt, k->gen, k->depth, k->batch, l->t->mean, l->t->sd, l->t->best,
                  r->a->repetitions);
    if (l->old > 0)
        gy_buf_printf(b, ",\"old_ts\":%.3f,\"ratio\":%.4f", l->old, l->t->mean / l->old);
    else if (r->old)
        gy_buf_puts(b, ",\"old_ts\":null,\"ratio\":null");
    if (r->ops) bench_ops_json(b, l->ops);
    gy_buf_c(b, '}');
}

static void put_csv(gy_buf *b, const report *r, const line *l) {
    const bench_key *k = &l->key;
    if (!r->lines)
        gy_buf_printf(b,
                      "model,quant,weight_bytes,parameters,isa,arith,kv,threads,test,avg_ts,"
                      "stddev_ts,best_ts%s\n",
                      r->old ? ",old_ts,ratio" : "");
    gy_buf_printf(b, "%s,%s,%lld,%lld,%s,%s,%s,%d,%s,%.3f,%.3f,%.3f", k->model, k->quant,
                  (long long)k->weight_bytes, (long long)l->m->parameters, gy_isa(), k->arith,
                  k->kv, k->threads, l->name, l->t->mean, l->t->sd, l->t->best);
    if (l->old > 0)
        gy_buf_printf(b, ",%.3f,%.4f", l->old, l->t->mean / l->old);
    else if (r->old)
        gy_buf_puts(b, ",,");
    gy_buf_c(b, '\n');
}

static void put_md(gy_buf *b, const report *r, const line *l) {
    const bench_key *k = &l->key;
    char size[32];
    cli_bytes(size, (double)k->weight_bytes);
    if (!r->lines)
        gy_buf_printf(b,
                      "| model | weights | size | params | isa | arith | kv | threads | test | t/s "
                      "|%s\n| --- | --- | ---: | ---: | --- | --- | --- | ---: | --- | ---: |%s\n",
                      r->old ? " old t/s | ratio |" : "", r->old ? " ---: | ---: |" : "");
    gy_buf_printf(b, "| %s | %s | %s | %.1f M | %s | %s | %s | %d | %s | %.2f +- %.2f |", k->model,
                  k->quant, size, (double)l->m->parameters * 1e-6, gy_isa(), k->arith, k->kv,
                  k->threads, l->name, l->t->mean, l->t->sd);
    if (l->old > 0)
        gy_buf_printf(b, " %.2f | %.3f |", l->old, l->t->mean / l->old);
    else if (r->old)
        gy_buf_puts(b, " - | - |");
    gy_buf_c(b, '\n');
}

static void put(report *r, const gy_model_info *m, const gy_engine_info *e, const test *t,
                const bench_ops *ops) {
    line l = {.m = m,
              .t = t,
              .ops = ops,
              .key = {.model = m->type,
                      .quant = m->quant,
                      .arith = e->arith == GY_ARITH_EXACT ? "exact" : "fast",
                      .kv = e->kv,
                      .weight_bytes = m->weight_bytes,
                      .threads = t->threads,
                      .depth = t->depth,
                      .batch = t->batch,
                      .prompt = t->prompt,
                      .gen = t->gen}};
    gy_buf b = {0};
    bench_name(&l.key, l.name);
    if (r->old) l.old = bench_old_rate(r->old, &l.key);
    if (l.old > 0) {
        r->compared++;
        r->slower += bench_slower(l.old, t->mean, (double)r->a->threshold);
    }
    bool array = !strcmp(r->format, "json");
    if (array) gy_buf_puts(&b, r->lines ? ",\n " : "[");
    if (!strncmp(r->format, "json", 4))
        put_json(&b, r, &l), gy_buf_puts(&b, array ? "" : "\n");
    else if (!strcmp(r->format, "csv"))
        put_csv(&b, r, &l);
    else
        put_md(&b, r, &l);
    if (r->ops && strncmp(r->format, "json", 4)) bench_ops_md(&r->tables, l.name, t->threads, ops);
    r->lines++;
    if (b.p) cli_put(b.p, b.n);
    gy_buf_free(&b);
}

/* What the comparison comes to: EXIT_FAIL when a line is slower, or none could be compared. */
static int verdict(const report *r) {
    char name[64];
    for (int i = 0; i < r->old->n; i++) {
        const struct bench_old_line *l = r->old->at + i;
        if (l->met) continue;
        char q[4][64]; /* the file's own words */
        bench_name(&l->key, name);
        fprintf(stderr, "--compare: not measured now: %s %s %s %s, %d threads, %s\n",
                gy_err_quote(q[0], l->key.model, strlen(l->key.model)),
                gy_err_quote(q[1], l->key.quant, strlen(l->key.quant)),
                gy_err_quote(q[2], l->key.arith, strlen(l->key.arith)),
                gy_err_quote(q[3], l->key.kv, strlen(l->key.kv)), l->key.threads, name);
    }
    if (!r->compared)
        return fprintf(stderr, "--compare %s: no line of it was measured now\n", r->a->compare),
               EXIT_FAIL;
    if (r->slower)
        fprintf(stderr, "--compare: %d of %d lines slower by more than %g %%\n", r->slower,
                r->compared, (double)r->a->threshold);
    return r->slower ? EXIT_FAIL : EXIT_OK;
}

typedef struct {
    list prompt, gen, depth, batch, threads;
    list both; /* pairs: prompt, generate in one test */
} plan;

static int longest(const list *l) {
    int most = 0;
    for (int i = 0; i < l->n; i++) most = l->at[i] > most ? l->at[i] : most;
    return most;
}

/* All tests of one engine (one thread count, one batch). */
static int run_engine(report *r, gy_model *m, const plan *p, int threads, int batch) {
    const cli_args *a = r->a;
    int code = EXIT_OK,
        span = longest(&p->prompt) > longest(&p->gen) ? longest(&p->prompt) : longest(&p->gen);
    for (int i = 0; i < p->both.n; i += 2)
        if (p->both.at[i] + p->both.at[i + 1] > span) span = p->both.at[i] + p->both.at[i + 1];
    gy_err err = {0};
    gy_model_info info;
    gy_engine_info engine;
    char text[16];
    cli_args mine = *a;
    gy_model_get_info(m, &info);
    snprintf(text, sizeof text, "%d", threads);
    mine.threads = threads ? text : NULL;
    gy_engine_options o = {.context = longest(&p->depth) + span, .sequences = batch};
    bench b = {.e = cli_engine(&mine, m, &o, &code), .batch = batch, .vocab = info.vocab};
    if (!b.e) return code;
    gy_engine_get_info(b.e, &engine);
    cli_signals(b.e);
    int most = engine.context + SEQS;
    b.ids = gy_alloc_n((size_t)most, sizeof *b.ids),
    b.logits = gy_alloc_n((size_t)batch * (size_t)info.vocab, sizeof *b.logits);
    uint32_t x = 12345;
    for (int i = 0; b.ids && i < most; i++)
        x = x * 1664525u + 1013904223u, b.ids[i] = (int32_t)((x >> 8) % (uint32_t)info.vocab);
    bench_ops ops = {0};
    if (r->ops) gy_measure_roof(engine.threads, &ops.roof, &err);
    if (!b.ids || !b.logits) gy_fail(&err, GY_ENOMEM, "bench: out of memory");
    for (int d = 0; d < p->depth.n; d++) {
        int alone = p->prompt.n + p->gen.n;
        for (int i = 0; i < alone + p->both.n / 2 && !err.rc; i++) {
            test t = {.threads = engine.threads, .depth = p->depth.at[d], .batch = batch};
            if (i < p->prompt.n)
                t.prompt = p->prompt.at[i];
            else if (i < alone)
                t.gen = p->gen.at[i - p->prompt.n];
            else
                t.prompt = p->both.at[2 * (i - alone)], t.gen = p->both.at[2 * (i - alone) + 1];
            if (!t.prompt && !t.gen) continue;
            gy_rc rc = measure(&b, &t, a->repetitions, &err);
            if (!rc && r->ops) rc = profile(&b, &t, a->repetitions, &ops, &err);
            if (!rc) put(r, &info, &engine, &t, &ops);
        }
    }
    cli_signals(NULL);
    bench_ops_free(&ops);
    gy_free(b.ids), gy_free(b.logits);
    gy_engine_free(b.e);
    return err.rc ? cli_fail(a, &err) : EXIT_OK;
}

int cmd_bench(cli_args *a) {
    int code = EXIT_OK;
    plan p;
    bench_old old = {0};
    static const char *const formats[] = {"md", "csv", "json", "jsonl"};
    bool known = !a->format;
    for (int i = 0; i < 4 && !known; i++) known = !strcmp(a->format, formats[i]);
    if (!known)
        return cli_usage(a, "--output-format %s: expected md, csv, json or jsonl", a->format);
    if (a->repetitions < 1)
        return cli_usage(a, "--repetitions %d: expected 1 or more", a->repetitions);
    if (!parse(a, "n-prompt", a->n_prompt ? a->n_prompt : "512", 0, &p.prompt) ||
        !parse(a, "n-gen", a->n_gen ? a->n_gen : "128", 0, &p.gen) ||
        !parse(a, "n-depth", a->n_depth ? a->n_depth : "0", 0, &p.depth) ||
        !parse(a, "batch", a->batch ? a->batch : "1", 1, &p.batch) ||
        !parse(a, "threads", a->threads ? a->threads : "0", 0, &p.threads))
        return EXIT_USAGE;
    p.both.n = 0;
    if (a->n_both && !parse(a, "n-prompt-gen", a->n_both, 0, &p.both)) return EXIT_USAGE;
    if (p.both.n % 2) return cli_usage(a, "--n-prompt-gen %s: expected pairs", a->n_both);
    if (cli_words(a, a->model ? 0 : 1)) return EXIT_USAGE;
    if (!longest(&p.prompt) && !longest(&p.gen) && !longest(&p.both))
        return cli_usage(a, "--n-prompt and --n-gen are 0: nothing to measure");
    if (longest(&p.batch) > SEQS) return cli_usage(a, "--batch: at most %d", SEQS);
    if (!(a->threshold >= 0 && a->threshold < 100))
        return cli_usage(a, "--threshold %g: expected 0 to 100 percent", (double)a->threshold);
    if (a->ops && a->format && !strcmp(a->format, "csv"))
        return cli_usage(a, "--ops: a profile has no csv form; expected md, json or jsonl");
    if (a->compare && (code = bench_old_read(a, a->compare, &old))) return code;
    gy_model *m = cli_open(a, &(gy_model_options){.no_tokenizer = true}, &code);
    report r = {.a = a, .format = a->json ? "json" : a->format ? a->format : "md"};
    r.old = a->compare ? &old : NULL, r.ops = a->ops;
    for (int t = 0; m && t < p.threads.n && !code; t++)
        for (int b = 0; b < p.batch.n && !code; b++)
            code = run_engine(&r, m, &p, p.threads.at[t], p.batch.at[b]);
    if (r.lines && !strcmp(r.format, "json")) cli_put("]\n", 2);
    if (r.tables.p) cli_put(r.tables.p, r.tables.n);
    gy_buf_free(&r.tables);
    if (!code && r.old) code = verdict(&r);
    bench_old_free(&old);
    gy_model_unref(m);
    return code;
}
