/* The /commands of the interactive chat. */
#include <errno.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/chat.h"

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
    "A line that ends in \\ goes on; \"\"\" starts and ends a text of several lines; a pasted "
    "text\n"
    "of several lines is one entry. Arrows, Home, End, Ctrl-A E B F D K U W Y edit; up and down "
    "and\n"
    "Ctrl-R recall; Tab completes commands. Ctrl-C stops an answer or clears the line; twice "
    "leaves.\n";

const char *const chat_command_names[] = {"/help", "/clear",  "/system", "/set",     "/save",
                                          "/load", "/image",  "/think",  "/nothink", "/retry",
                                          "/undo", "/tokens", "/quit",   NULL};

/* ---- Files ---- */

static void save(chat *c, const char *path) {
    gy_buf b = {0};
    gy_buf_puts(&b, "{\"messages\":[");
    gy_buf inner = {0};
    for (int i = 0; i < c->n; i++) ask_add(&inner, c->msg[i].role, c->msg[i].text, c->msg[i].bytes);
    gy_buf_add(&b, inner.p ? inner.p : "", inner.n);
    gy_buf_puts(&b, "]}\n");
    errno = 0;
    FILE *f = b.oom || inner.oom ? NULL : fopen(path, "w");
    bool ok = f && b.p && fwrite(b.p, 1, b.n, f) == b.n;
    if (f && fclose(f)) ok = false;
    if (ok)
        fprintf(stderr, "saved %d messages to %s\n", c->n, path);
    else
        fprintf(stderr, "%s: %s\n", path, errno ? strerror(errno) : "out of memory");
    gy_buf_free(&b), gy_buf_free(&inner);
}

/* Roles reach the template and ask_add as they are; others than these make no conversation. */
static bool known_role(const char *role) {
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(role, roles[i])) return true;
    return false;
}

static gy_rc check(const gy_json *list, const char *path, gy_err *err) {
    if (!gy_json_is(list, GY_JSON_ARR))
        return gy_fail(err, GY_EFORMAT, "%s: expected an object with a list of messages", path);
    for (uint32_t i = 0; i < list->n; i++)
        if (!gy_json_is(gy_json_get(list->item + i, "content"), GY_JSON_STR) ||
            !known_role(gy_json_s(list->item + i, "role", NULL)))
            return gy_fail(err, GY_EFORMAT,
                           "%s: messages[%u]: expected a role (system, user, assistant, tool) and "
                           "content, a string",
                           path, i);
    return GY_OK;
}

static void load(chat *c, const char *path) {
    gy_err err = {0};
    gy_json_doc doc = {0};
    size_t bytes = 0;
    char *text = cli_read(path, &bytes, &err);
    if (text) gy_json_parse(&doc, text, bytes, &err);
    const gy_json *list = gy_json_get(doc.root, "messages");
    if (!err.rc) check(list, path, &err);
    if (err.rc) {
        fprintf(stderr, "%s\n", err.msg);
    } else {
        chat_drop(c, 0);
        for (uint32_t i = 0; i < list->n; i++) {
            const gy_json *content = gy_json_get(list->item + i, "content");
            chat_push(c, gy_json_s(list->item + i, "role", "user"), content->s, content->n);
        }
        fprintf(stderr, "loaded %d messages\n", c->n);
    }
    gy_json_free(&doc);
    gy_free(text);
}

/* ---- The rest ---- */

static void set_flag(chat *c, char *arg) {
    char *value = arg + strcspn(arg, " ");
    if (*value) *value++ = 0;
    value += strspn(value, " ");
    if (!*value || c->kepts == (int)(sizeof c->kept / sizeof *c->kept)) {
        fprintf(stderr, *value ? "too many /set\n" : "expected /set NAME VALUE\n");
        return;
    }
    char *kept = c->kept[c->kepts++] = gy_strdup(value);
    if (kept && !cli_args_set(c->a, arg, kept)) ask_sampling(&c->k);
}

static void undo(chat *c) {
    int to = c->n;
    while (to > 0 && strcmp(c->msg[to - 1].role, "user")) to--;
    if (to > 0)
        chat_drop(c, to - 1);
    else
        fprintf(stderr, "nothing to undo\n");
}

static void retry(chat *c) {
    while (c->n && !strcmp(c->msg[c->n - 1].role, "assistant")) chat_drop(c, c->n - 1);
    if (!c->n || strcmp(c->msg[c->n - 1].role, "user")) {
        fprintf(stderr, "nothing to answer\n");
        return;
    }
    ask_sampling(&c->k); /* another seed, unless one was given */
    chat_answer(c);
}

static void tokens(const chat *c) {
    gy_engine_info info;
    gy_engine_get_info(c->k.e, &info);
    fprintf(stderr, "%d of %d positions used\n", gy_seq_len(c->k.seq), info.context);
}

static void clear(chat *c) {
    chat_drop(c, c->n && !strcmp(c->msg[0].role, "system") ? 1 : 0);
    gy_seq_trim(c->k.e, c->k.seq, 0, NULL);
}

bool chat_command(chat *c, char *line) {
    char *arg = line + strcspn(line, " \n");

    if (*arg) *arg++ = 0;
    arg += strspn(arg, " ");
    for (size_t n = strlen(arg); n && arg[n - 1] == ' ';) arg[--n] = 0;
    if (!strcmp(line, "/quit") || !strcmp(line, "/exit") || !strcmp(line, "/bye")) return false;
    if (!strcmp(line, "/help") || !strcmp(line, "/?"))
        fputs(help_text, stderr);
    else if (!strcmp(line, "/clear"))
        clear(c);
    else if (!strcmp(line, "/system"))
        chat_system(c, arg);
    else if (!strcmp(line, "/set"))
        set_flag(c, arg);
    else if (!strcmp(line, "/save") && *arg)
        save(c, arg);
    else if (!strcmp(line, "/load") && *arg)
        load(c, arg);
    else if (!strcmp(line, "/think") || !strcmp(line, "/nothink"))
        c->a->think = line[1] == 't', c->a->think_given = true;
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
