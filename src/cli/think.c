#include "cli/think.h"

#include <string.h>

static const struct {
    const char *open, *close;
} marks[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<longcat_think>", "</longcat_think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
};
enum { MARKS = sizeof marks / sizeof *marks };

void cli_think_start(cli_think *t, const char *prompt, size_t bytes) {
    *t = (cli_think){0};
    for (size_t i = bytes; i-- > 0;) {
        for (int k = 0; k < MARKS; k++) {
            size_t open = strlen(marks[k].open), close = strlen(marks[k].close);
            if (bytes - i >= close && !memcmp(prompt + i, marks[k].close, close)) return;
            if (bytes - i >= open && !memcmp(prompt + i, marks[k].open, open)) {
                t->inside = true, t->kind = k;
                return;
            }
        }
    }
}

/* Is held[n] a mark that is looked for (2), the start of one (1), or neither (0)? */
static int match(cli_think *t) {
    int found = 0;
    for (int k = t->inside ? t->kind : 0; k < (t->inside ? t->kind + 1 : MARKS); k++) {
        const char *mark = t->inside ? marks[k].close : marks[k].open;
        size_t n = strlen(mark);
        if (t->n > n || memcmp(mark, t->held, t->n)) continue;
        if (t->n == n) return t->kind = k, 2;
        found = 1;
    }
    return found;
}

bool cli_think_push(cli_think *t, const char *s, size_t n, cli_think_fn fn, void *arg) {
    for (size_t i = 0; i < n;) {
        if (!t->n) { /* everything before the next possible mark at once */
            size_t from = i;
            while (i < n && s[i] != '<' && s[i] != '[') i++;
            if (i > from && !fn(arg, s + from, i - from, t->inside)) return false;
            if (i == n) break;
        }
        t->held[t->n++] = s[i++];
        int found = match(t);
        if (found == 1) continue;
        if (found == 2) {
            bool ok = fn(arg, t->held, t->n, true);
            t->n = 0, t->inside = !t->inside;
            if (!ok) return false;
            continue;
        }
        /* Not a mark: all but the byte just read can go; that byte may start one. */
        if (t->n > 1) t->n--, i--;
        if (!fn(arg, t->held, t->n, t->inside)) return false;
        t->n = 0;
    }
    return true;
}

bool cli_think_end(cli_think *t, cli_think_fn fn, void *arg) {
    size_t n = t->n;
    t->n = 0;
    return !n || fn(arg, t->held, n, t->inside);
}
