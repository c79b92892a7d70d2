/* generate: one completion to stdout. */
#include "base/mem.h"
#include "cli/ask.h"

static void put_json(ask *k) {
    gy_buf b = {0};
    gy_buf_printf(&b, "{\"schema_version\":1,\"ids\":[%s],\"text\":", k->ids.n ? k->ids.p : "");
    gy_buf_json(&b, k->text.p ? k->text.p : "", k->text.n);
    ask_end_json(k, &b);
    if (k->a->logprobs >= 0)
        gy_buf_printf(&b, ",\"logprobs\":[%s]", k->logprobs.n ? k->logprobs.p : "");
    gy_buf_puts(&b, "}\n");
    if (b.p) cli_put(b.p, b.n);
    gy_buf_free(&b);
}

static gy_rc answer(ask *k, gy_err *err) {
    const cli_args *a = k->a;
    gy_buf messages = {0};
    gy_model_info info;
    size_t bytes = 0;
    int n = 0;
    gy_rc rc;
    gy_model_get_info(k->m, &info);
    if (a->ids) {
        int32_t *ids = cli_ids(a->ids, &n, err);
        rc = ids ? ask_ids(k, ids, n, err) : GY_EARG;
        gy_free(ids);
        return rc;
    }
    char *prompt = ask_prompt(a, &bytes, err);
    if (!prompt) return err->rc;
    if (a->raw || !info.has_template) {
        rc = ask_text(k, prompt, bytes, !k->base, err);
    } else {
        gy_buf content = {0};
        if (k->base) gy_buf_puts(&content, ask_cut);
        gy_buf_add(&content, prompt, bytes);
        if (a->system) ask_add(&messages, "system", a->system, strlen(a->system));
        ask_add(&messages, "user", content.p ? content.p : "", content.n);
        gy_buf_free(&content);
        rc = messages.oom ? GY_ENOMEM : ask_messages(k, messages.p, a->prefill_response, err);
    }
    gy_free(prompt);
    gy_buf_free(&messages);
    return rc;
}

int cmd_generate(cli_args *a) {
    ask k;
    gy_err err = {0};
    int code = ask_open(&k, a);
    bool given = a->ids || a->prompt || a->prompt_file;
    if (!code) code = cli_words(a, given ? 0 : CLI_WORDS);
    if (!code && !!a->ids + !!a->prompt + !!a->prompt_file > 1)
        code = cli_usage(a, "--ids, --prompt and --prompt-file exclude each other");
    k.show = !a->json, k.stream = a->json && a->stream;
    /* Ids are for tests and porters, who want exactly as many tokens as they asked for. */
    if (a->ids) k.req.ignore_eos = true;
    if (!code && a->prefill_response && k.show)
        cli_put(a->prefill_response, strlen(a->prefill_response));
    if (!code && answer(&k, &err) && err.rc != GY_ECANCEL)
        code = k.gone ? EXIT_OK : cli_fail(a, &err);
    if (!code && !k.gone && a->json)
        put_json(&k);
    else if (!code && !k.gone && k.show)
        cli_put("\n", 1);
    if (!code && a->verbose) ask_stats(&k, stderr);
    if (!code && k.result.end == GY_END_CANCEL && cli_signal())
        code = cli_signal() == 15 ? EXIT_TERM : EXIT_INT;
    ask_close(&k);
    return code;
}
