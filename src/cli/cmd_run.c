/* run (chat): an interactive chat, or one answer when a prompt or stdin is given. */
#include <editline/readline.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/env.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/ask.h"

typedef struct {
    char role[12];
    char *text;
    size_t bytes;
} message;

typedef struct {
    ask k;
    cli_args *a;
    message *msg; /* [n] system first, if there is one */
    int n, cap;
    char *history;  /* path or NULL */
    char *kept[64]; /* values given to /set, which flags point to */
    int kepts;
} chat;

static bool push(chat *c, const char *role, const char *text, size_t bytes) {
    if (c->n == c->cap) {
        message *more = gy_realloc(c->msg, sizeof *more * (size_t)(c->cap + 16));
        if (!more) return false;
        c->msg = more, c->cap += 16;
    }
    message *m = c->msg + c->n;
    m->text = gy_strndup(text, bytes), m->bytes = bytes;
    snprintf(m->role, sizeof m->role, "%s", role);
    return m->text && ++c->n;
}

static void drop(chat *c, int to) {
    while (c->n > to) gy_free(c->msg[--c->n].text);
}

static void set_system(chat *c, const char *text) {
    drop(c, 0);
    if (*text) push(c, "system", text, strlen(text));
}

static void body(const chat *c, gy_buf *b) {
    for (int i = 0; i < c->n; i++) ask_add(b, c->msg[i].role, c->msg[i].text, c->msg[i].bytes);
}

/* Answers the conversation as it stands and adds the answer. */
static int answer(chat *c) {
    gy_err err = {0};
    gy_buf b = {0};
    body(c, &b);
    gy_rc rc = b.p ? ask_messages(&c->k, b.p, NULL, &err)
                   : gy_fail(&err, GY_ENOMEM, "chat: out of memory");
    gy_buf_free(&b);
    if (rc && rc != GY_ECANCEL) return cli_fail(c->a, &err);
    if (c->k.show) cli_put("\n", 1);
    push(c, "assistant", c->k.text.p ? c->k.text.p : "", c->k.text.n);
    if (c->a->verbose) ask_stats(&c->k, stderr);
    return EXIT_OK;
}

/* ---- Files ---- */

static void save(const chat *c, const char *path) {
    gy_buf b = {0};
    FILE *f = fopen(path, "w");
    gy_buf_puts(&b, "{\"messages\":[");
    gy_buf inner = {0};
    body(c, &inner);
    gy_buf_add(&b, inner.p ? inner.p : "", inner.n);
    gy_buf_puts(&b, "]}\n");
    bool ok = f && b.p && fwrite(b.p, 1, b.n, f) == b.n;
    if (f && fclose(f)) ok = false;
    if (ok)
        fprintf(stderr, "saved %d messages to %s\n", c->n, path);
    else
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    gy_buf_free(&b), gy_buf_free(&inner);
}

static void load(chat *c, const char *path) {
    gy_err err = {0};
    gy_json_doc doc = {0};
    size_t bytes = 0;
    char *text = cli_read(path, &bytes, &err);
    if (text) gy_json_parse(&doc, text, bytes, &err);
    const gy_json *list = gy_json_get(doc.root, "messages");
    if (!err.rc && !gy_json_is(list, GY_JSON_ARR))
        gy_fail(&err, GY_EFORMAT, "%s: expected an object with messages", path);
    for (uint32_t i = 0; !err.rc && i < list->n; i++) {
        const gy_json *content = gy_json_get(list->item + i, "content");
        if (!gy_json_is(content, GY_JSON_STR) || !gy_json_s(list->item + i, "role", NULL))
            gy_fail(&err, GY_EFORMAT, "%s: messages[%u]: expected role and content strings", path,
                    i);
    }
    if (err.rc) {
        fprintf(stderr, "%s\n", err.msg);
    } else {
        drop(c, 0);
        for (uint32_t i = 0; i < list->n; i++) {
            const gy_json *content = gy_json_get(list->item + i, "content");
            push(c, gy_json_s(list->item + i, "role", "user"), content->s, content->n);
        }
        fprintf(stderr, "loaded %d messages\n", c->n);
    }
    gy_json_free(&doc);
    gy_free(text);
}

/* ---- Commands ---- */

static const char help_text[] =
    "/clear            forget the conversation\n"
    "/system TEXT      forget it and set the system message\n"
    "/set NAME VALUE   set a flag, such as /set temp 0.2\n"
    "/save F, /load F  write or read the conversation as JSON\n"
    "/think, /nothink  ask for reasoning, or for none\n"
    "/retry            answer again\n"
    "/undo             take back the last question and answer\n"
    "/tokens           how much of the context is used\n"
    "/quit             leave (also Ctrl-D)\n"
    "A line that ends in \\ goes on; \"\"\" starts and ends a text of several lines.\n"
    "Ctrl-C stops an answer; twice leaves.\n";

static void set_flag(chat *c, char *arg) {
    char *value = arg + strcspn(arg, " ");
    if (*value) *value++ = 0;
    if (!*value || c->kepts == 64) {
        fprintf(stderr, "expected /set NAME VALUE\n");
        return;
    }
    char *kept = c->kept[c->kepts++] = gy_strdup(value);
    if (kept && !cli_args_set(c->a, arg, kept)) ask_sampling(&c->k);
}

static void undo(chat *c) {
    int to = c->n;
    while (to > 0 && strcmp(c->msg[to - 1].role, "user")) to--;
    if (to > 0)
        drop(c, to - 1);
    else
        fprintf(stderr, "nothing to undo\n");
}

static void retry(chat *c) {
    while (c->n && !strcmp(c->msg[c->n - 1].role, "assistant")) drop(c, c->n - 1);
    if (c->n && !strcmp(c->msg[c->n - 1].role, "user"))
        answer(c);
    else
        fprintf(stderr, "nothing to answer\n");
}

static void tokens(const chat *c) {
    gy_engine_info info;
    gy_engine_get_info(c->k.e, &info);
    fprintf(stderr, "%d of %d positions used\n", gy_seq_len(c->k.seq), info.context);
}

/* Returns false to leave. */
static bool command(chat *c, char *line) {
    char *arg = line + strcspn(line, " ");
    if (*arg) *arg++ = 0;
    if (!strcmp(line, "/quit") || !strcmp(line, "/exit") || !strcmp(line, "/bye")) return false;
    if (!strcmp(line, "/help"))
        fputs(help_text, stderr);
    else if (!strcmp(line, "/clear"))
        drop(c, c->n && !strcmp(c->msg[0].role, "system") ? 1 : 0);
    else if (!strcmp(line, "/system"))
        set_system(c, arg);
    else if (!strcmp(line, "/set"))
        set_flag(c, arg);
    else if (!strcmp(line, "/save") && *arg)
        save(c, arg);
    else if (!strcmp(line, "/load") && *arg)
        load(c, arg);
    else if (!strcmp(line, "/think"))
        c->a->think = c->a->think_given = true;
    else if (!strcmp(line, "/nothink"))
        c->a->think = false, c->a->think_given = true;
    else if (!strcmp(line, "/retry"))
        retry(c);
    else if (!strcmp(line, "/undo"))
        undo(c);
    else if (!strcmp(line, "/tokens"))
        tokens(c);
    else if (!strcmp(line, "/image"))
        fprintf(stderr, "this model takes no images\n");
    else
        fprintf(stderr, "%s: not a command, or its argument is missing; /help lists them\n", line);
    return true;
}

/* ---- Reading lines ---- */

/* One entry of one or several lines; NULL at the end of input. gy_alloc'd. */
static char *entry(void) {
    gy_buf b = {0};
    bool block = false;
    for (const char *prompt = ">>> ";; prompt = "... ") {
        char *line = readline(prompt);
        if (!line) return gy_buf_free(&b), NULL;
        size_t n = strlen(line);
        bool quote = n >= 3 && !strncmp(line, "\"\"\"", 3) && !b.n && !block;
        const char *s = quote ? line + 3 : line;
        if (quote) block = true, n -= 3;
        bool ends = block && n >= 3 && !strcmp(s + n - 3, "\"\"\"");
        bool more = !block && n && s[n - 1] == '\\';
        gy_buf_add(&b, s, ends ? n - 3 : more ? n - 1 : n);
        free(line);
        if (ends || (!block && !more)) return gy_buf_take(&b, NULL);
        gy_buf_c(&b, '\n');
    }
}

static void open_history(chat *c) {
    char *home = gy_env(GY_ENV_HOME);
    gy_buf b = {0};
    if (home && *home) {
        mkdir(home, 0700);
        gy_buf_printf(&b, "%s/history", home);
        c->history = gy_buf_take(&b, NULL);
    }
    gy_free(home);
    rl_initialize();
    if (c->history) read_history(c->history);
    stifle_history(1000);
}

static int interactive(chat *c) {
    struct termios sane;
    gy_model_info info;
    gy_engine_info engine;
    bool have = !tcgetattr(0, &sane);
    gy_model_get_info(c->k.m, &info);
    gy_engine_get_info(c->k.e, &engine);
    fprintf(stderr, "%s, %s, %d threads. /help lists commands, Ctrl-D leaves.\n", info.type,
            info.quant, engine.threads);
    cli_terminal(have ? &sane : NULL);
    open_history(c);
    for (bool go = true; go;) {
        char *line = entry();
        if (!line) break;
        cli_signal_clear();
        if (*line) add_history(line);
        if (line[0] == '/')
            go = command(c, line);
        else if (*line && push(c, "user", line, strlen(line)))
            answer(c);
        go = go && !c->k.gone && cli_signal() != 15;
        cli_signal_clear();
        gy_free(line);
    }
    if (c->history) write_history(c->history);
    fputc('\n', stderr);
    if (have) tcsetattr(0, TCSANOW, &sane);
    return EXIT_OK;
}

/* One question from the command line or stdin; the answer alone goes to stdout. */
static int once(chat *c, const char *prompt, size_t bytes) {
    push(c, "user", prompt, bytes);
    c->k.show = !c->a->json;
    int code = answer(c);
    if (!code && c->a->json) {
        gy_buf b = {0};
        gy_buf_puts(&b, "{\"schema_version\":1,\"text\":");
        gy_buf_json(&b, c->k.text.p ? c->k.text.p : "", c->k.text.n);
        gy_buf_printf(&b,
                      ",\"finish_reason\":\"%s\",\"usage\":{\"prompt_tokens\":%d,\"completion_"
                      "tokens\":%d}}\n",
                      ask_end_name(c->k.result.end), c->k.result.prompt_tokens, c->k.result.tokens);
        if (b.p) cli_put(b.p, b.n);
        gy_buf_free(&b);
    }
    return cli_signal() ? (cli_signal() == 15 ? EXIT_TERM : EXIT_INT) : code;
}

static int start(chat *c) {
    cli_args *a = c->a;
    gy_err err = {0};
    gy_model_info info;
    size_t bytes = 0;
    gy_model_get_info(c->k.m, &info);
    if (!info.has_template)
        return cli_usage(
            a, "%s has no chat template; give one with --chat-template chatml, or use generate",
            info.type);
    if (a->system) set_system(c, a->system);
    const char *given = a->prompt ? a->prompt : a->words ? a->word[0] : NULL;
    bool in = a->prompt_file || (given && !strcmp(given, "-")) || (!given && !cli_tty(0));
    if (given && !in) return once(c, given, strlen(given));
    c->k.show = true;
    if (!in) return interactive(c);
    char *text = cli_read(a->prompt_file, &bytes, &err);
    if (!text) return cli_fail(a, &err);
    while (bytes && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) bytes--;
    int code = once(c, text, bytes);
    gy_free(text);
    return code;
}

int cmd_run(cli_args *a) {
    chat c = {.a = a};
    int code = ask_open(&c.k, a);
    if (!code) code = start(&c);
    ask_close(&c.k);
    drop(&c, 0);
    gy_free(c.msg), gy_free(c.history);
    for (int i = 0; i < c.kepts; i++) gy_free(c.kept[i]);
    return code;
}
