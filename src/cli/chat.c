#include "cli/chat.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <termios.h>

#include "base/env.h"
#include "base/mem.h"

/* ---- Messages ---- */

bool chat_push(chat *c, const char *role, const char *text, size_t bytes) {
    if (c->n == c->cap) {
        chat_message *more = gy_realloc(c->msg, sizeof *more * (size_t)(c->cap + 16));
        if (!more) return false;
        c->msg = more, c->cap += 16;
    }
    chat_message *m = c->msg + c->n;
    m->text = gy_strndup(text, bytes), m->bytes = bytes;
    snprintf(m->role, sizeof m->role, "%s", role);
    return m->text && ++c->n;
}

void chat_drop(chat *c, int to) {
    while (c->n > to) gy_free(c->msg[--c->n].text);
}

void chat_system(chat *c, const char *text) {
    chat_drop(c, 0);
    if (*text) chat_push(c, "system", text, strlen(text));
}

void chat_free(chat *c) {
    chat_drop(c, 0);
    gy_free(c->msg), gy_free(c->history);
    for (int i = 0; i < c->kepts; i++) gy_free(c->kept[i]);
    edit_free(c->edit);
}

/* ---- Answers ---- */

static gy_rc ask_conversation(chat *c, gy_err *err) {
    gy_buf b = {0};
    for (int i = 0; i < c->n; i++) ask_add(&b, c->msg[i].role, c->msg[i].text, c->msg[i].bytes);
    gy_rc rc = b.p && !b.oom ? ask_messages(&c->k, b.p, NULL, err)
                             : gy_fail(err, GY_ENOMEM, "chat: out of memory");
    gy_buf_free(&b);
    return rc;
}

static void note(const char *text) {
    bool colour = cli_colour(2);
    fprintf(stderr, "%s%s%s\n", colour ? "\033[2m" : "", text, colour ? "\033[0m" : "");
}

int chat_answer(chat *c) {
    gy_err err = {0};
    gy_rc rc = ask_conversation(c, &err);
    /* A Ctrl-C between two answers leaves a cancel behind that no signal of this answer explains.
     */
    if (rc == GY_ECANCEL && !cli_signal()) err = (gy_err){0}, rc = ask_conversation(c, &err);
    if (rc && rc != GY_ECANCEL) {
        if (c->n && !strcmp(c->msg[c->n - 1].role, "user")) chat_drop(c, c->n - 1);
        return cli_fail(c->a, &err);
    }
    if (c->k.show) cli_put("\n", 1);
    chat_push(c, "assistant", c->k.text.p ? c->k.text.p : "", c->k.text.n);
    if (c->a->verbose) ask_stats(&c->k, stderr);
    return EXIT_OK;
}

/* Answers at the prompt: says why an answer is not whole. */
static void answer_here(chat *c) {
    cli_signals(c->k.e);
    if (cli_signal() == SIGINT) gy_cancel(c->k.e); /* it came before there was what to cancel */
    chat_answer(c);
    cli_signals(NULL);
    if (cli_signal() == SIGINT) {
        note("(stopped; Ctrl-C again leaves)");
        c->armed = true;
    } else if (c->k.result.end == GY_END_LENGTH) {
        note(c->a->max_tokens ? "(stopped at --max-tokens)" : "(the context is full; /clear)");
    }
}

/* ---- The loop ---- */

static bool ends_with_quotes(const gy_buf *b) {
    return b->n >= 6 && !strcmp(b->p + b->n - 3, "\"\"\"");
}

/* One entry of one or several lines into b: a trailing backslash goes on, and """ begins and ends
 * a text of several lines. */
static edit_result entry(chat *c, gy_buf *b) {
    gy_buf line = {0};
    edit_result r;
    b->n = 0;
    for (const char *prompt = ">>> ";; prompt = "... ") {
        r = edit_read(c->edit, prompt, &line);
        if (r == EDIT_LINE || line.n) gy_buf_add(b, line.p ? line.p : "", line.n);
        if (r != EDIT_LINE || !b->p) break;
        bool block = b->n >= 3 && !strncmp(b->p, "\"\"\"", 3);
        if (block ? ends_with_quotes(b) : !b->n || b->p[b->n - 1] != '\\') break;
        if (!block) b->n--;
        gy_buf_c(b, '\n');
    }
    gy_buf_free(&line);
    return r;
}

/* The text inside """, without the newlines next to the marks. */
static void unquote(const char **s, size_t *n) {
    if (*n < 6 || strncmp(*s, "\"\"\"", 3) || strncmp(*s + *n - 3, "\"\"\"", 3)) return;
    *s += 3, *n -= 6;
    if (*n && **s == '\n') ++*s, --*n;
    if (*n && (*s)[*n - 1] == '\n') --*n;
}

static void make_folders(char *path) {
    for (char *s = path + 1; (s = strchr(s, '/')); *s++ = '/') {
        *s = 0;
        mkdir(path, 0700);
    }
}

static bool open_edit(chat *c) {
    char *home = gy_env(GY_ENV_HOME);
    gy_buf b = {0};
    if (home && *home) {
        gy_buf_printf(&b, "%s/history", home);
        c->history = gy_buf_take(&b, NULL);
        if (c->history) make_folders(c->history);
    }
    gy_free(home);
    gy_buf_free(&b);
    c->edit = edit_new(c->history, chat_command_names);
    return c->edit;
}

/* Writes prefixes behind while the user thinks or types. What fails here is told at the end, by the
 * flush. */
static bool write_behind(void *arg) {
    chat *c = arg;
    int left = 0;
    return !gy_engine_idle(c->k.e, 1, &left, NULL) && left;
}

static bool blank(const char *s) {
    return !s[strspn(s, " \t\n")];
}

/* Ctrl-C at the prompt; false to leave. */
static bool interrupted(chat *c, const gy_buf *typed) {
    if (c->armed && !typed->n) return false;
    c->armed = true;
    note("(Ctrl-C again or Ctrl-D leaves, /help lists commands)");
    return true;
}

/* One entry that was read; false to leave. */
static bool take(chat *c, gy_buf *b) {
    const char *s = b->p ? b->p : "";
    size_t n = b->n;
    c->armed = false;
    if (blank(s)) return true;
    edit_add(c->edit, s, n);
    if (s[0] == '/') {
        cli_signals(c->k.e);
        bool stay = chat_command(c, b->p);
        cli_signals(NULL);
        if (cli_signal() == SIGINT) c->armed = true;
        return stay;
    }
    unquote(&s, &n);
    if (chat_push(c, "user", s, n)) answer_here(c);
    return true;
}

int chat_loop(chat *c) {
    struct termios sane;
    gy_model_info info;
    gy_engine_info engine;
    gy_buf b = {0};
    int code = EXIT_OK;
    bool have = !tcgetattr(0, &sane);
    gy_model_get_info(c->k.m, &info);
    gy_engine_get_info(c->k.e, &engine);
    if (!c->a->quiet)
        fprintf(stderr, "%s, %s, %d threads. /help lists commands, Ctrl-D leaves.\n", info.type,
                info.quant, engine.threads);
    if (!open_edit(c)) return EXIT_MEMORY;
    if (c->a->cache_dir) edit_idle(c->edit, write_behind, c);
    cli_terminal(have ? &sane : NULL);
    cli_signals(NULL); /* at the prompt there is nothing to cancel */
    for (bool go = true; go;) {
        edit_result r = entry(c, &b);
        if (r == EDIT_END && cli_signal() != SIGTERM) fputc('\n', stderr);
        if (r == EDIT_END) break;
        if (r == EDIT_INTERRUPT) {
            cli_signal_clear();
            go = interrupted(c, &b);
            if (!go) code = EXIT_INT;
        } else {
            go = take(c, &b) && !c->k.gone && cli_signal() != SIGTERM;
            if (cli_signal() == SIGINT) cli_signal_clear();
        }
    }
    if (cli_signal() == SIGTERM) code = EXIT_TERM;
    gy_buf_free(&b);
    if (have) tcsetattr(0, TCSADRAIN, &sane);
    cli_terminal(NULL);
    return code;
}
