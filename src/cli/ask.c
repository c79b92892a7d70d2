#include "cli/ask.h"

#include <sys/random.h>
#include <sys/resource.h>

#include "base/json.h"
#include "base/mem.h"

const char *ask_end_name(gy_end end) {
    static const char *names[] = {"none", "stop", "stop", "length", "cancel"};
    return names[end];
}

/* The model's own sampling defaults (generation_config.json) are used by run, as other programs do.
 */
static void model_defaults(const gy_model *m, gy_sampling *s) {
    gy_json_doc doc = {0};
    char *json = NULL;
    if (gy_model_inspect(m, &json, NULL)) return;
    if (!gy_json_parse(&doc, json, strlen(json), NULL)) {
        const gy_json *g = gy_json_get(doc.root, "generation_config");
        s->temperature = (float)gy_json_f(g, "temperature", s->temperature);
        if (!s->top_k) s->top_k = (int)gy_json_i(g, "top_k", 0);
        if (s->top_p == 0) s->top_p = (float)gy_json_f(g, "top_p", 0);
        if (s->repetition_penalty == 0)
            s->repetition_penalty = (float)gy_json_f(g, "repetition_penalty", 0);
    }
    gy_json_free(&doc);
    gy_free(json);
}

int ask_sampling(ask *k) {
    const cli_args *a = k->a;
    gy_sampling *s = &k->req.sampling;
    *s = a->sampling;
    if (s->temperature < 0) {
        s->temperature = a->command == CMD_RUN ? 0.8f : 0;
        if (a->command == CMD_RUN) model_defaults(k->m, s);
    }
    if (!a->seed_given && getrandom(&s->seed, sizeof s->seed, 0) != (ssize_t)sizeof s->seed)
        s->seed = 0;
    k->req.max_tokens = a->max_tokens;
    k->req.stop = a->stop, k->req.n_stop = a->stops;
    k->req.ignore_eos = a->ignore_eos;
    k->req.top_logprobs = a->logprobs > 0 ? a->logprobs : 0;
    return a->max_tokens < 0 ? cli_usage(a, "--max-tokens %d is negative", a->max_tokens) : EXIT_OK;
}

/* Ids are fed as they are, also past the positions that the model was made for; 0: the engine's
 * default. */
static int context_for_ids(const cli_args *a, const gy_model *m) {
    gy_model_info info;
    int need = 1 + a->max_tokens;
    if (!a->ids || !a->max_tokens || a->max_tokens > INT32_MAX / 2) return 0;
    for (const char *s = a->ids; *s; s++) need += *s == ',' || *s == ' ';
    gy_model_get_info(m, &info);
    return need > info.context ? need : 0;
}

int ask_open(ask *k, cli_args *a) {
    int code = EXIT_OK;
    gy_err err = {0};
    *k = (ask){.a = a, .bar = {.title = "prompt", .quiet = a->quiet || !cli_tty(2)}};
    k->m = cli_open(a, NULL, &code);
    if (!k->m) return code;
    code = ask_sampling(k);
    if (code) return code;
    k->e = cli_engine(a, k->m, &(gy_engine_options){.context = context_for_ids(a, k->m)}, &code);
    if (!k->e) return code;
    cli_signals(k->e);
    if (gy_seq_new(k->e, &k->seq, &err)) return cli_fail(a, &err);
    return EXIT_OK;
}

void ask_close(ask *k) {
    cli_signals(NULL);
    if (k->seq) gy_seq_free(k->e, k->seq);
    gy_engine_free(k->e);
    gy_model_unref(k->m);
    gy_buf_free(&k->text), gy_buf_free(&k->ids), gy_buf_free(&k->logprobs);
}

/* Reasoning between <think> and </think> is shown dim; the marks stay in the text. */
static bool show_text(ask *k, const char *s, size_t n) {
    if (!n) return true;
    bool colour = cli_colour(1);
    if (colour && n < 64) {
        char piece[64];
        memcpy(piece, s, n), piece[n] = 0;
        if (strstr(piece, "<think>")) k->dim = true, cli_put("\033[2m", 4);
        if (!cli_put(s, n)) return false;
        if (strstr(piece, "</think>")) k->dim = false, cli_put("\033[0m", 4);
        return true;
    }
    return cli_put(s, n);
}

static void add_logprob(ask *k, const gy_event *ev) {
    gy_buf *b = &k->logprobs;
    gy_buf_printf(b, "%s{\"id\":%d,\"logprob\":%.9g,\"top\":[", b->n ? "," : "", ev->id,
                  (double)ev->logprob);
    for (int i = 0; i < ev->n_top; i++)
        gy_buf_printf(b, "%s{\"id\":%d,\"logprob\":%.9g}", i ? "," : "", ev->top[i].id,
                      (double)ev->top[i].logprob);
    gy_buf_puts(b, "]}");
}

static bool on_event(void *arg, const gy_event *ev) {
    ask *k = arg;
    if (ev->kind == GY_EV_PREFILL) {
        if (ev->total > 256)
            cli_progress(&k->bar, "tokens", (uint64_t)ev->done, (uint64_t)ev->total);
        return true;
    }
    if (k->bar.shown) cli_progress_end(&k->bar);
    gy_buf_add(&k->text, ev->text, ev->bytes);
    if (ev->kind == GY_EV_TOKEN) {
        gy_buf_printf(&k->ids, "%s%d", k->ids.n ? "," : "", ev->id);
        if (k->a->logprobs >= 0) add_logprob(k, ev);
    }
    if (k->show && !show_text(k, ev->text, ev->bytes)) k->gone = true;
    return !k->gone;
}

gy_rc ask_ids(ask *k, const int32_t *ids, int n, gy_err *err) {
    const int32_t *held = gy_seq_tokens(k->seq);
    int len = gy_seq_len(k->seq), same = 0;
    if (n < 1) return gy_fail(err, GY_EARG, "prompt: it is empty");
    while (same < len && same < n - 1 && held[same] == ids[same]) same++;
    if (same < len && gy_seq_trim(k->e, k->seq, same, NULL)) {
        /* A window has already let go of what position `same` would see: start over. */
        gy_seq_free(k->e, k->seq);
        k->seq = NULL, same = 0;
        gy_rc rc = gy_seq_new(k->e, &k->seq, err);
        if (rc) return rc;
    }
    k->text.n = k->ids.n = k->logprobs.n = 0;
    k->bar.start = 0;
    k->req.ids = ids + same, k->req.n = n - same;
    gy_rc rc = gy_generate(k->e, k->seq, &k->req, on_event, k, &k->result, err);
    cli_progress_end(&k->bar);
    if (k->dim) k->dim = false, cli_put("\033[0m", 4);
    return rc;
}

gy_rc ask_text(ask *k, const char *prompt, size_t bytes, bool specials, gy_err *err) {
    int32_t *ids = NULL;
    int n = 0;
    gy_rc rc = gy_tokenize(k->m, prompt, bytes, specials ? GY_TOK_SPECIALS : 0, &ids, &n, err);
    if (!rc) rc = ask_ids(k, ids, n, err);
    gy_free(ids);
    return rc;
}

void ask_add(gy_buf *messages, const char *role, const char *text, size_t bytes) {
    gy_buf_printf(messages, "%s{\"role\":\"%s\",\"content\":", messages->n ? "," : "", role);
    gy_buf_json(messages, text, bytes);
    gy_buf_c(messages, '}');
}

gy_rc ask_messages(ask *k, const char *messages, const char *tail, gy_err *err) {
    gy_buf body = {0}, prompt = {0};
    char *text = NULL;
    size_t bytes = 0;
    const cli_args *a = k->a;
    gy_buf_printf(&body, "{\"messages\":[%s]", messages);
    if (a->think_given && !a->template_kwargs)
        gy_buf_printf(&body, ",\"chat_template_kwargs\":{\"enable_thinking\":%s}",
                      a->think ? "true" : "false");
    if (a->template_kwargs)
        gy_buf_printf(&body, ",\"chat_template_kwargs\":%s", a->template_kwargs);
    gy_buf_puts(&body, "}");
    gy_rc rc = body.oom ? gy_fail(err, GY_ENOMEM, "prompt: out of memory")
                        : gy_render(k->m, body.p, body.n, &text, &bytes, err);
    if (!rc) {
        gy_buf_add(&prompt, text, bytes);
        if (tail) gy_buf_puts(&prompt, tail);
        rc = ask_text(k, prompt.p ? prompt.p : "", prompt.n, false, err);
    }
    gy_free(text);
    gy_buf_free(&body), gy_buf_free(&prompt);
    return rc;
}

void ask_stats(const ask *k, FILE *to) {
    struct rusage u;
    const gy_result *r = &k->result;
    char peak[32];
    getrusage(RUSAGE_SELF, &u);
    cli_bytes(peak, (double)u.ru_maxrss * 1024);
    fprintf(to,
            "prompt: %d tokens, %.3f tokens/s\ngeneration: %d tokens, %.3f tokens/s\npeak memory: "
            "%s\nseed: %llu\n",
            r->prompt_tokens, r->prefill_s > 0 ? r->prompt_tokens / r->prefill_s : 0, r->tokens,
            r->decode_s > 0 ? (r->tokens - 1) / r->decode_s : 0, peak,
            (unsigned long long)k->req.sampling.seed);
}
