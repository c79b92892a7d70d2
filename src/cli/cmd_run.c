/* run (chat): an interactive chat, or one answer when a prompt or stdin is given. */
#include <signal.h>

#include "base/mem.h"
#include "cli/chat.h"

static void put_json(chat *c) {
    gy_buf b = {0};
    gy_buf_puts(&b, "{\"schema_version\":1,\"text\":");
    gy_buf_json(&b, c->k.text.p ? c->k.text.p : "", c->k.text.n);
    ask_end_json(&c->k, &b);
    gy_buf_puts(&b, "}\n");
    if (b.p) cli_put(b.p, b.n);
    gy_buf_free(&b);
}

/* One question from the command line or stdin; the answer alone goes to stdout. */
static int once(chat *c, const char *prompt, size_t bytes) {
    c->k.show = !c->a->json;
    c->k.stream = c->a->json && c->a->stream;
    int code = EXIT_FAIL;
    if (c->a->raw) {
        gy_err err = {0};
        gy_rc rc = ask_text(&c->k, prompt, bytes, true, &err);
        code = rc && rc != GY_ECANCEL ? cli_fail(c->a, &err) : EXIT_OK;
        if (!code && c->k.show) cli_put("\n", 1);
        if (!code && c->a->verbose) ask_stats(&c->k, stderr);
    } else if (chat_push(c, "user", prompt, bytes)) {
        code = chat_answer(c);
    }
    if (!code && c->a->json) put_json(c);
    return cli_signal() ? (cli_signal() == SIGTERM ? EXIT_TERM : EXIT_INT) : code;
}

static int start(chat *c) {
    cli_args *a = c->a;
    gy_err err = {0};
    gy_model_info info;
    size_t bytes = 0;
    gy_model_get_info(c->k.m, &info);
    if (!info.has_template && !a->raw)
        return cli_usage(
            a, "%s has no chat template; give one with --chat-template chatml, or use generate",
            info.type);
    if (a->system) chat_system(c, a->system);
    if (a->prompt && a->prompt_file)
        return cli_usage(a, "--prompt and --prompt-file exclude each other");
    int code = cli_words(a, a->prompt || a->prompt_file ? 0 : CLI_WORDS);
    if (code) return code;
    bool words = a->words && strcmp(a->word[0], "-");
    bool dash = (a->prompt && !strcmp(a->prompt, "-")) || (a->words && !words);
    bool in = a->prompt_file || dash || (!a->prompt && !words && !cli_tty(0));
    if (a->prompt && !in) return once(c, a->prompt, strlen(a->prompt));
    if (words) {
        char *joined = cli_join(a, &bytes);
        code = joined ? once(c, joined, bytes) : EXIT_MEMORY;
        gy_free(joined);
        return code;
    }
    c->k.show = true;
    if (!in && a->raw) return cli_usage(a, "--raw needs a prompt");
    if (!in) return chat_loop(c);
    char *text = cli_read(a->prompt_file, &bytes, &err);
    if (!text) return cli_fail(a, &err);
    while (bytes && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) bytes--;
    code = once(c, text, bytes);
    gy_free(text);
    return code;
}

int cmd_run(cli_args *a) {
    chat c = {.a = a};
    int code = ask_open(&c.k, a);
    if (!code) code = start(&c);
    ask_close(&c.k);
    chat_free(&c);
    return code;
}
