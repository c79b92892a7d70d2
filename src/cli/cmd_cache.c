/* cache-prompt: computes a prompt once and keeps what attention remembers of it in a file, which
 * generate --prompt-cache-file goes on from. */
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/ask.h"

static gy_rc feed(ask *k, const int32_t *ids, int n, gy_err *err) {
    gy_engine_info info;
    gy_rc rc = GY_OK;
    gy_engine_get_info(k->e, &info);
    for (int at = 0; !rc && at < n; at += info.chunk) {
        int some = n - at < info.chunk ? n - at : info.chunk;
        gy_feed f = {.seq = k->seq, .ids = ids + at, .n = some, .first_out = some};
        rc = gy_step(k->e, &f, 1, NULL, err);
        if (!rc && n > 256) cli_progress(&k->bar, "tokens", (uint64_t)(at + some), (uint64_t)n);
    }
    cli_progress_end(&k->bar);
    return rc;
}

/* The prompt as the template begins a conversation with it, up to where the user's text ends. */
static gy_rc head(ask *k, const char *prompt, size_t bytes, char **text, size_t *n, gy_err *err) {
    gy_buf messages = {0}, content = {0};
    gy_buf_add(&content, prompt, bytes);
    gy_buf_puts(&content, ask_cut);
    if (k->a->system) ask_add(&messages, "system", k->a->system, strlen(k->a->system));
    if (!content.oom) ask_add(&messages, "user", content.p, content.n);
    gy_rc rc = content.oom || messages.oom ? gy_fail(err, GY_ENOMEM, "prompt: out of memory")
                                           : ask_render(k, messages.p, text, n, err);
    const char *cut = rc ? NULL : memmem(*text, *n, ask_cut, strlen(ask_cut));
    if (!rc && !cut) {
        gy_free(*text), *text = NULL;
        rc = gy_fail(err, GY_EUNSUPPORTED,
                     "the chat template does not keep the user's text as it is; use --raw");
    }
    if (!rc) *n = (size_t)(cut - *text);
    gy_buf_free(&messages), gy_buf_free(&content);
    return rc;
}

static gy_rc compute(ask *k, gy_err *err) {
    gy_model_info info;
    char *prompt, *text = NULL;
    int32_t *ids = NULL;
    size_t bytes;
    int n = 0;
    gy_model_get_info(k->m, &info);
    prompt = ask_prompt(k->a, &bytes, err);
    if (!prompt) return err->rc;
    bool raw = k->a->raw || !info.has_template;
    gy_rc rc = raw ? GY_OK : head(k, prompt, bytes, &text, &bytes, err);
    if (!rc)
        rc =
            gy_tokenize(k->m, raw ? prompt : text, bytes, raw ? GY_TOK_SPECIALS : 0, &ids, &n, err);
    if (!rc && !n) rc = gy_fail(err, GY_EARG, "prompt: it is empty");
    if (!rc) rc = feed(k, ids, n, err);
    if (!rc) rc = gy_seq_save(k->e, k->seq, k->a->cache_file, err);
    gy_free(ids);
    gy_free(text);
    gy_free(prompt);
    return rc;
}

static void report(const ask *k) {
    const cli_args *a = k->a;
    struct stat st = {0};
    char size[32];
    stat(a->cache_file, &st);
    if (a->json) {
        gy_buf b = {0};
        gy_buf_puts(&b, "{\"schema_version\":1,\"file\":");
        gy_buf_json(&b, a->cache_file, strlen(a->cache_file));
        gy_buf_printf(&b, ",\"tokens\":%d,\"bytes\":%lld}\n", gy_seq_len(k->seq),
                      (long long)st.st_size);
        if (b.p) cli_put(b.p, b.n);
        gy_buf_free(&b);
    } else if (!a->quiet) {
        cli_bytes(size, (double)st.st_size);
        fprintf(stderr, "%s: %d tokens, %s\n", a->cache_file, gy_seq_len(k->seq), size);
    }
}

int cmd_cache_prompt(cli_args *a) {
    ask k = {0};
    gy_err err = {0};
    if (!a->cache_file) return cli_usage(a, "--prompt-cache-file FILE is missing");
    int code = ask_open(&k, a);
    if (!code) code = cli_words(a, a->prompt || a->prompt_file ? 0 : CLI_WORDS);
    if (!code && a->prompt && a->prompt_file)
        code = cli_usage(a, "--prompt and --prompt-file exclude each other");
    if (!code && compute(&k, &err)) code = err.rc == GY_ECANCEL ? EXIT_INT : cli_fail(a, &err);
    if (code == EXIT_INT && cli_signal() == 15) code = EXIT_TERM;
    if (!code) report(&k);
    ask_close(&k);
    return code;
}
