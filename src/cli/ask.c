#include "cli/ask.h"

#include <limits.h>
#include <math.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/json.h"
#include "base/mem.h"

const char *ask_end_name(gy_end end) {
    static const char *names[] = {"none", "stop", "stop", "length", "cancel"};
    return names[end];
}

/* What run uses where no flag says otherwise: the model's own generation_config.json, else these.
 * Greedy answers of small models fall into loops; this much chance keeps them out, and is little
 * enough for the smallest to stay on the subject. */
static const gy_sampling run_defaults = {
    .temperature = 0.6f, .top_k = 40, .top_p = 0.95f, .min_p = 0.1f, .repetition_penalty = 1.05f};

static void model_defaults(const gy_model *m, gy_sampling *s) {
    gy_json_doc doc = {0};
    char *json = NULL;
    if (gy_model_inspect(m, &json, NULL)) return;
    if (!gy_json_parse(&doc, json, strlen(json), NULL)) {
        const gy_json *g = gy_json_get(doc.root, "generation_config");
        if (gy_json_get(g, "temperature") || gy_json_get(g, "top_p") || gy_json_get(g, "top_k")) {
            /* A model that says one of them means the rest to be off. */
            *s = (gy_sampling){0};
            s->temperature = (float)gy_json_f(g, "temperature", 1);
            s->top_k = (int)gy_json_i(g, "top_k", 0);
            s->top_p = (float)gy_json_f(g, "top_p", 0);
            s->min_p = (float)gy_json_f(g, "min_p", 0);
            s->repetition_penalty = (float)gy_json_f(g, "repetition_penalty", 0);
        }
        if (!gy_json_b(g, "do_sample", true)) s->temperature = 0;
    }
    gy_json_free(&doc);
    gy_free(json);
}

/* Flags that were given win over base; NaN and INT_MIN mark those that were not. */
static void given_over(gy_sampling *s, const gy_sampling *base) {
    if (isnan(s->temperature)) s->temperature = base->temperature;
    if (isnan(s->top_p)) s->top_p = base->top_p;
    if (isnan(s->min_p)) s->min_p = base->min_p;
    if (isnan(s->repetition_penalty)) s->repetition_penalty = base->repetition_penalty;
    if (s->top_k == INT_MIN) s->top_k = base->top_k;
}

int ask_sampling(ask *k) {
    const cli_args *a = k->a;
    gy_sampling *s = &k->req.sampling;
    gy_sampling base = {0};
    if (a->command == CMD_RUN) base = run_defaults, model_defaults(k->m, &base);
    *s = a->sampling;
    /* An explicit --temp 0 asks for the one greedy answer: nothing else bends it unless asked. */
    if (s->temperature == 0) base = (gy_sampling){0};
    given_over(s, &base);
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

static int check_kwargs(const cli_args *a) {
    gy_err err = {0};
    gy_json_doc doc = {0};
    if (!a->template_kwargs) return EXIT_OK;
    gy_json_parse(&doc, a->template_kwargs, strlen(a->template_kwargs), &err);
    if (!err.rc && !gy_json_is(doc.root, GY_JSON_OBJ))
        gy_fail(&err, GY_EFORMAT, "expected an object");
    gy_json_free(&doc);
    return err.rc ? cli_usage(a, "--chat-template-kwargs: %s", err.msg) : EXIT_OK;
}

const char ask_cut[] = "<|gyre cuts here|>";

/* The folder of prefixes, and in a chat also memory for turns that are taken back. */
static int prefix_options(const cli_args *a, gy_engine_options *o) {
    int64_t usual = a->cache_dir ? (int64_t)4 << 30 : a->command == CMD_RUN ? CLI_PREFIX_RUN : 0;
    int code = cli_prefix_memory(a, a->memory ? cli_memory(a->memory) : 0, usual, &o->prefix_bytes);
    if (!code && a->cache_dir && !o->prefix_bytes)
        return cli_usage(a, "--cache-dir: needs --prefix-memory");
    o->prefix_dir = a->cache_dir;
    return code;
}

/* generate needs the file; run begins with it when it is there. */
static gy_rc load_session(ask *k, gy_err *err) {
    const cli_args *a = k->a;
    bool goes_on = a->command == CMD_GENERATE;
    if (a->cache_file && a->command != CMD_CACHE_PROMPT) {
        gy_rc rc = gy_seq_load(k->e, a->cache_file, &k->seq, err);
        if (!rc) return k->base = goes_on ? gy_seq_len(k->seq) : 0, GY_OK;
        /* These would say that the model is missing or not supported. */
        bool model = rc == GY_ENOTFOUND || rc == GY_EFORMAT || rc == GY_EUNSUPPORTED;
        if (rc != GY_ENOTFOUND || goes_on) return model ? err->rc = GY_EIO : rc;
        *err = (gy_err){0};
    }
    return gy_seq_new(k->e, &k->seq, err);
}

/* What was asked to be kept; a failure is told and changes nothing else. */
static void keep(ask *k) {
    gy_err err = {0};
    const cli_args *a = k->a;
    if (a->cache_file && a->command == CMD_RUN && k->seq)
        gy_seq_save(k->e, k->seq, a->cache_file, &err);
    if (!err.rc && a->cache_dir && k->e) gy_engine_flush(k->e, &err);
    if (err.rc) fprintf(stderr, "gyre: %s\n", err.msg);
}

int ask_open(ask *k, cli_args *a) {
    int code = EXIT_OK;
    gy_err err = {0};
    *k = (ask){.a = a, .bar = {.title = "prompt", .unit = "tokens", .quiet = a->quiet}};
    k->m = cli_open(a, NULL, &code);
    if (!k->m) return code;
    code = ask_sampling(k);
    if (!code) code = check_kwargs(a);
    if (code) return code;
    gy_engine_options o = {.context = context_for_ids(a, k->m)};
    if ((code = prefix_options(a, &o))) return code;
    k->e = cli_engine(a, k->m, &o, &code);
    if (!k->e) return code;
    cli_signals(k->e);
    if (load_session(k, &err)) return cli_fail(a, &err);
    return EXIT_OK;
}

void ask_close(ask *k) {
    cli_signals(NULL);
    keep(k);
    if (k->seq) gy_seq_free(k->e, k->seq);
    gy_engine_free(k->e);
    gy_model_unref(k->m);
    gy_buf_free(&k->text), gy_buf_free(&k->ids), gy_buf_free(&k->logprobs);
}

/* A terminal obeys control characters; those of an answer are left out there, for a model (or the
 * text that it was given) must not move the cursor or change the keyboard. */
static bool put_safe(const char *s, size_t n) {
    if (!cli_tty(1)) return cli_put(s, n);
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        bool c1 = c == 0xC2 && i + 1 < n && (unsigned char)s[i + 1] < 0xA0;
        if (!c1 && c != 127 && (c >= 32 || c == '\n' || c == '\t')) continue;
        if (i > from && !cli_put(s + from, i - from)) return false;
        i += c1, from = i + 1;
    }
    return from >= n || cli_put(s + from, n - from);
}

/* Reasoning is dim where there is colour, or left out with --no-show-reasoning. */
static bool show_run(void *arg, const char *s, size_t n, bool reasoning) {
    ask *k = arg;
    if (reasoning && !k->a->show_reasoning) return k->swallow = true;
    while (k->swallow && n && (*s == '\n' || *s == ' ')) s++, n--;
    if (!n) return true;
    k->swallow = false;
    if (reasoning != k->dim && cli_colour(1))
        k->dim = reasoning, cli_put(reasoning ? "\033[2m" : "\033[0m", 4);
    return put_safe(s, n);
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

/* --json --stream: a line per token. */
static bool put_line(const gy_event *ev) {
    gy_buf b = {0};
    if (ev->kind == GY_EV_END && !ev->bytes) return true;
    gy_buf_puts(&b, "{\"schema_version\":1,\"text\":");
    gy_buf_json(&b, ev->text, ev->bytes);
    if (ev->kind == GY_EV_TOKEN) gy_buf_printf(&b, ",\"id\":%d", ev->id);
    gy_buf_puts(&b, "}\n");
    bool ok = b.p && cli_put(b.p, b.n);
    gy_buf_free(&b);
    return ok;
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
    if (k->show && !cli_think_push(&k->think, ev->text, ev->bytes, show_run, k)) k->gone = true;
    if (k->show && ev->kind == GY_EV_END && !cli_think_end(&k->think, show_run, k)) k->gone = true;
    if (k->stream && !put_line(ev)) k->gone = true;
    return !k->gone;
}

gy_rc ask_ids(ask *k, const int32_t *ids, int n, gy_err *err) {
    const int32_t *held = gy_seq_tokens(k->seq);
    int len = gy_seq_len(k->seq), same = 0;
    if (n < 1) return gy_fail(err, GY_EARG, "prompt: it is empty");
    while (!k->base && same < len && same < n - 1 && held[same] == ids[same]) same++;
    if (!k->base && same < len && gy_seq_trim(k->e, k->seq, same, NULL)) {
        /* A window has already let go of what position `same` would see: start over. */
        gy_seq_free(k->e, k->seq);
        k->seq = NULL, same = 0;
        gy_rc rc = gy_seq_new(k->e, &k->seq, err);
        if (rc) return rc;
    }
    k->text.n = k->ids.n = k->logprobs.n = 0;
    k->bar.start = 0;
    k->prompt_tokens = k->base + n;
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

char *ask_prompt(const cli_args *a, size_t *bytes, gy_err *err) {
    bool in = !a->prompt_file && (!a->prompt ? !a->words : !strcmp(a->prompt, "-"));
    const char *given = a->prompt_file ? NULL : a->prompt;
    char *prompt = in || a->prompt_file ? cli_read(a->prompt_file, bytes, err)
                   : given              ? gy_strndup(given, *bytes = strlen(given))
                                        : cli_join(a, bytes);
    if (!prompt) gy_fail(err, GY_ENOMEM, "prompt: out of memory");
    return prompt;
}

gy_rc ask_render(ask *k, const char *messages, char **text, size_t *bytes, gy_err *err) {
    gy_buf body = {0};
    const cli_args *a = k->a;
    gy_buf_printf(&body, "{\"messages\":[%s]", messages);
    if (a->think_given && !a->template_kwargs)
        gy_buf_printf(&body, ",\"chat_template_kwargs\":{\"enable_thinking\":%s}",
                      a->think ? "true" : "false");
    if (a->template_kwargs)
        gy_buf_printf(&body, ",\"chat_template_kwargs\":%s", a->template_kwargs);
    gy_buf_puts(&body, "}");
    gy_rc rc = body.oom ? gy_fail(err, GY_ENOMEM, "prompt: out of memory")
                        : gy_render(k->m, body.p, body.n, text, bytes, err);
    gy_buf_free(&body);
    return rc;
}

/* Of a rendered text, what goes on behind the file's prompt. */
static gy_rc behind_cut(const char **text, size_t *bytes, gy_err *err) {
    const char *cut = memmem(*text, *bytes, ask_cut, strlen(ask_cut));
    if (!cut)
        return gy_fail(err, GY_EUNSUPPORTED,
                       "the chat template does not keep the user's text as it is; use --raw");
    cut += strlen(ask_cut);
    *bytes -= (size_t)(cut - *text), *text = cut;
    return GY_OK;
}

gy_rc ask_messages(ask *k, const char *messages, const char *tail, gy_err *err) {
    gy_buf prompt = {0};
    char *text = NULL;
    size_t bytes = 0;
    gy_rc rc = ask_render(k, messages, &text, &bytes, err);
    const char *from = text;
    if (!rc && k->base) rc = behind_cut(&from, &bytes, err);
    if (!rc) {
        gy_buf_add(&prompt, from, bytes);
        if (tail) gy_buf_puts(&prompt, tail);
        cli_think_start(&k->think, prompt.p ? prompt.p : "", prompt.n);
        rc = ask_text(k, prompt.p ? prompt.p : "", prompt.n, false, err);
    }
    gy_free(text);
    gy_buf_free(&prompt);
    return rc;
}

void ask_end_json(const ask *k, gy_buf *b) {
    gy_buf_printf(b, ",\"finish_reason\":\"%s\",\"seed\":%llu", ask_end_name(k->result.end),
                  (unsigned long long)k->req.sampling.seed);
    gy_buf_printf(b,
                  ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
                  k->prompt_tokens, k->result.tokens,
                  k->prompt_tokens - k->result.prompt_tokens + k->result.cached_tokens);
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
            r->prompt_tokens,
            r->prefill_s > 0 ? (r->prompt_tokens - r->cached_tokens) / r->prefill_s : 0, r->tokens,
            r->decode_s > 0 ? (r->tokens - 1) / r->decode_s : 0, peak,
            (unsigned long long)k->req.sampling.seed);
}
