/* fit: how much memory a model takes with each KV codec, and the largest context that fits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/common.h"

/* What the system could give without swapping, from /proc/meminfo; page cache counts, for the
 * weights are in it. */
static int64_t available(void) {
    char line[128];
    long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && !kib && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %lld kB", &kib);
    if (f) fclose(f);
    return kib ? kib * 1024 : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
}

int64_t cli_memory(const char *text) {
    char *end;
    double n = strtod(text, &end);
    const char *unit = strchr("KMGT", *end & ~32);
    int power = *end && unit && *unit ? (int)(unit - "KMGT") + 1 : 0;
    end += power > 0;
    double base = power && (*end == 'i' || *end == 'I') ? 1024 : 1000;
    end += base == 1024;
    if (power && (*end == 'B' || *end == 'b')) end++;
    n *= pow(base, power);
    return *end || end == text || !(n >= 1) || n > 0x1p62 ? -1 : (int64_t)n;
}

int cli_prefix_memory(const cli_args *a, int64_t budget, int64_t usual, int64_t *bytes) {
    const char *s = a->prefix_memory;
    *bytes = budget > 0 && usual > budget / 8 ? budget / 8 : usual;
    if (s) *bytes = strcmp(s, "0") ? cli_memory(s) : 0;
    return *bytes < 0 ? cli_usage(a, "--prefix-memory %s: expected bytes, such as 1G, or 0", s)
                      : EXIT_OK;
}

typedef struct {
    const cli_args *a;
    gy_model *m;
    gy_engine_options o;
    int64_t budget;
    gy_buf text;
    bool first, refused; /* refused: the asked context does not fit */
} job;

/* One codec's line. */
static gy_rc line(job *j, const char *kv, gy_err *err) {
    gy_need most = {0}, at = {0};
    gy_engine_options o = j->o;
    int asked = o.context;
    o.kv = kv, o.context = 0;
    gy_rc rc = gy_fit(j->m, &o, j->budget, &most, err);
    if (rc && rc != GY_ELIMIT) return rc;
    bool none = rc == GY_ELIMIT;
    o.context = asked ? asked : none ? 64 : most.context;
    rc = gy_fit(j->m, &o, 0, &at, err);
    if (rc) return rc;
    bool fits = at.total <= j->budget;
    const char *limit = !none && most.by_model ? "model" : "memory";
    j->refused |= asked && !fits;
    if (j->a->json) {
        gy_buf_printf(&j->text, "%s{\"kv\":\"%s\",\"kv_bytes_token\":%lld,\"largest_context\":%d,",
                      j->first ? "" : ",", kv, (long long)at.kv_token, most.context);
        gy_buf_printf(&j->text,
                      "\"limited_by\":\"%s\",\"context\":%d,\"weights\":%lld,\"kv_bytes\":%lld,"
                      "\"prefix_bytes\":%lld,\"scratch\":%lld,\"total\":%lld,\"fits\":%s}",
                      limit, at.context, (long long)at.weights, (long long)at.kv,
                      (long long)at.prefix, (long long)at.scratch, (long long)at.total,
                      fits ? "true" : "false");
    } else {
        char kv_bytes[32], steps[32], total[32];
        cli_bytes(kv_bytes, (double)at.kv), cli_bytes(steps, (double)at.scratch);
        cli_bytes(total, (double)at.total);
        gy_buf_printf(&j->text, "%-14s %11lld %16d  %-10s %9d %11s %11s %11s%s\n", kv,
                      (long long)at.kv_token, most.context, limit, at.context, kv_bytes, steps,
                      total, fits ? "" : "  does not fit");
    }
    j->first = false;
    return GY_OK;
}

static void head(job *j) {
    char weights[32], budget[32], prefix[32];
    gy_model_info info;
    gy_model_get_info(j->m, &info);
    if (j->a->json) {
        gy_buf_printf(&j->text,
                      "{\"schema_version\":1,\"weights\":%lld,\"budget\":%lld,\"sequences\":%d,"
                      "\"model_context\":%d,\"codecs\":[",
                      (long long)info.weight_bytes, (long long)j->budget, j->o.sequences,
                      info.context);
        return;
    }
    cli_bytes(weights, (double)info.weight_bytes), cli_bytes(budget, (double)j->budget);
    cli_bytes(prefix, (double)j->o.prefix_bytes);
    gy_buf_printf(&j->text,
                  "budget %s, %d sequence%s, model context %d\n"
                  "in every total: weights %s, shared prefixes %s (--prefix-memory)\n\n",
                  budget, j->o.sequences, j->o.sequences == 1 ? "" : "s", info.context, weights,
                  prefix);
    gy_buf_printf(&j->text, "%-14s %11s %16s  %-10s %9s %11s %11s %11s\n", "kv", "bytes/token",
                  "largest context", "limited by", "at", "kv", "steps", "total");
}

/* Every codec that the model's heads fit, or the one asked for. */
static gy_rc lines(job *j, gy_err *err) {
    char *json;
    gy_json_doc doc = {0};
    if (j->o.kv) return line(j, j->o.kv, err);
    gy_rc rc = gy_model_inspect(j->m, &json, err);
    if (rc) return rc;
    rc = gy_json_parse(&doc, json, strlen(json), err);
    gy_free(json);
    const gy_json *kv = gy_json_get(doc.root, "kv_bytes_per_token");
    for (uint32_t i = 0; !rc && gy_json_is(kv, GY_JSON_OBJ) && i < kv->n; i++) {
        gy_err one = {0};
        rc = line(j, kv->key[i].s, &one);
        if (rc == GY_EUNSUPPORTED)
            rc = GY_OK; /* a codec that these layers cannot have is not in the list */
        else if (rc)
            gy_fail(err, rc, "%s", one.msg);
    }
    gy_json_free(&doc);
    return rc;
}

int cmd_fit(cli_args *a) {
    int code = EXIT_OK;
    gy_err err = {0};
    job j = {.a = a, .first = true, .budget = available()};
    const char *budget = a->memory;
    char *end = NULL;
    a->memory = NULL; /* the options' bound would refuse what is only asked about */
    if (budget) j.budget = cli_memory(budget);
    if (j.budget < 1) return cli_usage(a, "--budget %s: expected bytes, such as 8G", budget);
    j.o.sequences = a->batch ? (int)strtol(a->batch, &end, 10) : 1;
    if ((a->batch && *end) || j.o.sequences < 1)
        return cli_usage(a, "--batch %s: expected 1 or more", a->batch);
    j.m = cli_open(a, &(gy_model_options){.no_tokenizer = true}, &code);
    if (!j.m) return code;
    char kv[CLI_KV];
    if ((code = cli_words(a, 0)) || (code = cli_engine_options(a, &j.o, kv)) ||
        (code = cli_prefix_memory(a, j.budget, CLI_PREFIX_RUN, &j.o.prefix_bytes)))
        return gy_model_unref(j.m), code;
    head(&j);
    if (lines(&j, &err)) {
        code = cli_fail_engine(a, &err);
    } else {
        if (a->json) gy_buf_puts(&j.text, "]}\n");
        if (j.text.p) cli_put(j.text.p, j.text.n);
        code = j.refused ? EXIT_MEMORY : EXIT_OK;
    }
    gy_buf_free(&j.text);
    gy_model_unref(j.m);
    return code;
}
