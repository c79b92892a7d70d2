#include "cli/edit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/common.h"
#include "cli/width.h"

enum { HISTORY = 1000, ESCAPE_MS = 60 };

struct edit {
    gy_buf line;
    size_t at; /* cursor: a byte of line, at the start of a code point */
    const char *prompt;
    const char *const *words;
    unsigned char in[512]; /* [in_n] bytes read, in_at of them used */
    size_t in_n, in_at;
    int row; /* of the cursor below the first drawn row */
    gy_buf kill;
    const char *path;
    char *item[HISTORY]; /* [items] oldest first */
    int items, browse;   /* browse: the entry shown; items: the draft */
    char *draft;
    bool plain, prompts;
    struct termios sane;
    bool (*work)(void *arg); /* NULL: none */
    void *arg;
    bool idle;     /* work has to be done yet for this line */
    sigset_t mask; /* of the program; while reading, SIGINT, SIGTERM and SIGWINCH wait */
};

/* Keys that are not a character of the text. */
enum {
    KEY_END_OF_INPUT = -1,
    KEY_SIGNAL = -2,
    KEY_RESIZE = -3,
    KEY_ODD = -4, /* an escape sequence that means nothing here */
    KEY_UP = -10,
    KEY_DOWN = -11,
    KEY_RIGHT = -12,
    KEY_LEFT = -13,
    KEY_HOME = -14,
    KEY_END = -15,
    KEY_DELETE = -16,
    KEY_WORD_LEFT = -17,
    KEY_WORD_RIGHT = -18,
    KEY_WORD_ERASE = -19,
    KEY_WORD_DELETE = -20,
    KEY_NEWLINE = -21,
    KEY_PASTE = -22
};
#define CTL(c) ((c)&31)

/* ---- History ---- */

static void remember(edit *e, char *text) {
    if (!text) return;
    if (e->items == HISTORY) {
        gy_free(e->item[0]);
        memmove(e->item, e->item + 1, sizeof *e->item * (size_t)--e->items);
    }
    e->item[e->items++] = text;
}

/* One entry a line; newlines and backslashes inside are written \n and \\. */
static void read_history(edit *e) {
    FILE *f = e->path ? fopen(e->path, "r") : NULL;
    char *text = NULL;
    size_t cap = 0;
    for (ssize_t n; f && (n = getline(&text, &cap, f)) > 0;) {
        gy_buf b = {0};
        if (text[n - 1] == '\n') n--;
        for (ssize_t i = 0; i < n; i++) {
            bool escaped = text[i] == '\\' && i + 1 < n;
            char c = escaped ? text[++i] : text[i];
            gy_buf_c(&b, escaped && c == 'n' ? '\n' : c);
        }
        if (b.n) remember(e, gy_buf_take(&b, NULL));
        gy_buf_free(&b);
    }
    free(text);
    if (f) fclose(f);
}

void edit_add(edit *e, const char *text, size_t bytes) {
    if (!bytes || (e->items && !strcmp(e->item[e->items - 1], text))) return;
    remember(e, gy_strndup(text, bytes));
    gy_buf b = {0};
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n' || text[i] == '\\') gy_buf_c(&b, '\\');
        gy_buf_c(&b, text[i] == '\n' ? 'n' : text[i]);
    }
    gy_buf_c(&b, '\n');
    /* Appended at once, so that a killed chat keeps it and two chats do not overwrite each other.
     */
    int fd = e->path && b.p ? open(e->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        if (write(fd, b.p, b.n) < 0) e->path = NULL;
        close(fd);
    }
    gy_buf_free(&b);
}

edit *edit_new(const char *history, const char *const *words) {
    const char *term = getenv("TERM");
    edit *e = gy_alloc(sizeof *e);
    if (!e) return NULL;
    *e = (edit){.path = history, .words = words};
    e->prompts = cli_tty(0) && cli_tty(1);
    e->plain = !e->prompts || !term || !*term || !strcmp(term, "dumb");
    read_history(e);
    return e;
}

void edit_free(edit *e) {
    if (!e) return;
    for (int i = 0; i < e->items; i++) gy_free(e->item[i]);
    gy_free(e->draft);
    gy_buf_free(&e->line), gy_buf_free(&e->kill);
    gy_free(e);
}

/* ---- Drawing ---- */

static void put(const gy_buf *b) {
    for (size_t at = 0; b->p && at < b->n;) {
        ssize_t n = write(1, b->p + at, b->n - at);
        if (n < 0 && errno != EINTR) return;
        at += n > 0 ? (size_t)n : 0;
    }
}

static void size_of_screen(int *cols, int *rows) {
    struct winsize w;
    bool known = !ioctl(1, TIOCGWINSZ, &w);
    *cols = known && w.ws_col > 8 ? w.ws_col : 80;
    *rows = known && w.ws_row > 1 ? w.ws_row : 24;
}

typedef struct {
    int row, col, rows; /* of the cursor; rows of all */
} place;

static void row_break(gy_buf *out, int row, int from, int to) {
    if (row > from && row < to) gy_buf_puts(out, "\r\n");
}

/* Lays the prompt and the line out in rows of at most cols cells, and writes rows [from, to). */
static place lay_out(const edit *e, int cols, int from, int to, gy_buf *out) {
    place p = {0};
    int row = 0, col = (int)strlen(e->prompt);
    if (from <= 0 && to > 0) gy_buf_puts(out, e->prompt);
    for (size_t i = 0, step; i <= e->line.n; i += step) {
        char cell[8];
        bool end = i == e->line.n;
        int wide = 0;
        step = end ? 1 : cli_cell(e->line.p + i, e->line.n - i, cell, &wide);
        bool line_end = !end && e->line.p[i] == '\n';
        if (!line_end && col + wide > cols) row_break(out, ++row, from, to), col = 0;
        if (i == e->at) p.row = row, p.col = col;
        if (line_end) {
            row_break(out, ++row, from, to), col = 4;
            if (row >= from && row < to) gy_buf_puts(out, "... ");
        } else if (!end) {
            if (row >= from && row < to) gy_buf_puts(out, cell);
            col += wide;
        }
    }
    p.rows = row + 1;
    return p;
}

/* Rows that do not fit the screen are left out above and below the cursor's. */
static void draw(edit *e) {
    int cols, rows;
    gy_buf out = {0};
    size_of_screen(&cols, &rows);
    place p = lay_out(e, cols - 1, 0, 0, &out);
    int from = p.row >= rows ? p.row - rows + 1 : 0,
        to = from + rows < p.rows ? from + rows : p.rows;
    if (e->row) gy_buf_printf(&out, "\033[%dA", e->row);
    gy_buf_puts(&out, "\r\033[J");
    lay_out(e, cols - 1, from, to, &out);
    if (to - 1 > p.row) gy_buf_printf(&out, "\033[%dA", to - 1 - p.row);
    gy_buf_c(&out, '\r');
    if (p.col) gy_buf_printf(&out, "\033[%dC", p.col);
    e->row = p.row - from;
    put(&out);
    gy_buf_free(&out);
}

/* Leaves the cursor below the line, for what is printed next. */
static void draw_done(edit *e) {
    gy_buf out = {0};
    e->at = e->line.n;
    draw(e);
    gy_buf_puts(&out, "\r\n");
    put(&out);
    gy_buf_free(&out);
    e->row = 0;
}

/* ---- Keys ---- */

static volatile sig_atomic_t resized;

static void on_resize(int number) {
    (void)number;
    resized = 1;
}

/* A byte, or KEY_*; ms < 0 waits for ever, and KEY_ODD says that none came in time. */
static int next_byte(edit *e, int ms) {
    if (e->in_at < e->in_n) return e->in[e->in_at++];
    for (;;) {
        struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
        struct pollfd in = {.fd = 0, .events = POLLIN};
        /* Signals are let in only here: one that comes between the look and the wait is not lost.
         */
        bool idle = ms < 0 && e->idle;
        if (idle) limit = (struct timespec){0};
        int ready = ppoll(&in, 1, ms >= 0 || idle ? &limit : NULL, &e->mask);
        if (cli_signal()) return KEY_SIGNAL;
        if (resized) return resized = 0, KEY_RESIZE;
        if (ready == 0 && idle) {
            e->idle = e->work(e->arg);
            continue;
        }
        if (ready == 0) return KEY_ODD;
        ssize_t n = ready > 0 ? read(0, e->in, sizeof e->in) : -1;
        if (n > 0) {
            e->in_n = (size_t)n, e->in_at = 1;
            return e->in[0];
        }
        if (n == 0 || (errno != EINTR && errno != EAGAIN)) return KEY_END_OF_INPUT;
    }
}

static bool more_waits(const edit *e) {
    return e->in_at < e->in_n || poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 0) > 0;
}

static int final_key(int final, int first, int second) {
    bool word = second == 5 || second == 3;
    switch (final) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return word ? KEY_WORD_RIGHT : KEY_RIGHT;
    case 'D': return word ? KEY_WORD_LEFT : KEY_LEFT;
    case 'H': return KEY_HOME;
    case 'F': return KEY_END;
    case '~': break;
    default: return KEY_ODD;
    }
    switch (first) {
    case 1:
    case 7: return KEY_HOME;
    case 4:
    case 8: return KEY_END;
    case 3: return KEY_DELETE;
    case 200: return KEY_PASTE;
    default: return KEY_ODD;
    }
}

static int escape_key(edit *e) {
    int c = next_byte(e, ESCAPE_MS), number[2] = {0}, at = 0;
    switch (c) {
    case 'b': return KEY_WORD_LEFT;
    case 'f': return KEY_WORD_RIGHT;
    case 'd': return KEY_WORD_DELETE;
    case 127:
    case 8: return KEY_WORD_ERASE;
    case '\r':
    case '\n': return KEY_NEWLINE;
    case '[':
    case 'O': break;
    default: return KEY_ODD;
    }
    for (c = next_byte(e, ESCAPE_MS); (c >= '0' && c <= '9') || c == ';';
         c = next_byte(e, ESCAPE_MS)) {
        if (c == ';')
            at = 1;
        else if (number[at] < 1000)
            number[at] = number[at] * 10 + c - '0';
    }
    return final_key(c, number[0], number[1]);
}

/* ---- Changing the line ---- */

static size_t before(const edit *e, size_t at) {
    if (!at) return 0;
    for (at--; at && (e->line.p[at] & 0xC0) == 0x80;) at--;
    return at;
}

static size_t after(const edit *e, size_t at) {
    if (at >= e->line.n) return e->line.n;
    for (at++; at < e->line.n && (e->line.p[at] & 0xC0) == 0x80;) at++;
    return at;
}

static bool blank(const edit *e, size_t at) {
    return e->line.p[at] == ' ' || e->line.p[at] == '\n' || e->line.p[at] == '\t';
}

static size_t word_before(const edit *e) {
    size_t at = e->at;
    while (at && blank(e, at - 1)) at--;
    while (at && !blank(e, at - 1)) at--;
    return at;
}

static size_t word_after(const edit *e) {
    size_t at = e->at;
    while (at < e->line.n && blank(e, at)) at++;
    while (at < e->line.n && !blank(e, at)) at++;
    return at;
}

/* Start and end of the line of text that the cursor is in. */
static size_t line_start(const edit *e) {
    size_t at = e->at;
    while (at && e->line.p[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(const edit *e) {
    size_t at = e->at;
    while (at < e->line.n && e->line.p[at] != '\n') at++;
    return at;
}

static void insert(edit *e, const char *s, size_t n) {
    if (!gy_buf_need(&e->line, n)) return;
    memmove(e->line.p + e->at + n, e->line.p + e->at, e->line.n - e->at);
    memcpy(e->line.p + e->at, s, n);
    e->line.n += n, e->at += n, e->line.p[e->line.n] = 0;
}

static void erase(edit *e, size_t from, size_t to, bool keep) {
    if (from >= to) return;
    if (keep) e->kill.n = 0, gy_buf_add(&e->kill, e->line.p + from, to - from);
    memmove(e->line.p + from, e->line.p + to, e->line.n - to);
    e->line.n -= to - from, e->at = from, e->line.p[e->line.n] = 0;
}

static void replace(edit *e, const char *text) {
    e->line.n = e->at = 0;
    insert(e, text, strlen(text));
}

static void browse(edit *e, int to) {
    if (to < 0 || to > e->items) return;
    if (e->browse == e->items) {
        gy_free(e->draft);
        e->draft = gy_strndup(e->line.p ? e->line.p : "", e->line.n);
    }
    e->browse = to;
    replace(e, to < e->items ? e->item[to] : e->draft ? e->draft : "");
}

/* Up and down move inside a text of several lines first. */
static void up_or_down(edit *e, bool up) {
    size_t start = line_start(e), end = line_end(e), col = e->at - start;
    if (up ? !start : end == e->line.n) {
        browse(e, e->browse + (up ? -1 : 1));
        return;
    }
    e->at = up ? start - 1 : end + 1;
    size_t first = line_start(e), last = line_end(e);
    e->at = first + col < last ? first + col : last;
    while (e->at > first && (e->line.p[e->at] & 0xC0) == 0x80) e->at--;
}

/* What a terminal sends between its paste marks; control characters have no place in a message. */
static void paste(edit *e) {
    static const char mark[] = "\033[201~";
    gy_buf b = {0};
    for (size_t seen = 0; seen < 6;) {
        int c = next_byte(e, 2000);
        if (c < 0) break;
        if (c == mark[seen]) {
            seen++;
            continue;
        }
        if (seen > 1) gy_buf_add(&b, mark + 1, seen - 1);
        seen = c == mark[0];
        if (c == '\r') c = '\n';
        if (!seen && (c >= 32 || c == '\n' || c == '\t') && c != 127) gy_buf_c(&b, (char)c);
    }
    while (b.n && b.p[b.n - 1] == '\n') b.n--;
    if (b.n) insert(e, b.p, b.n);
    gy_buf_free(&b);
}

static void complete(edit *e) {
    const char *only = NULL;
    int found = 0;
    gy_buf all = {0};
    for (const char *const *w = e->words; w && *w && e->line.n && e->at == e->line.n; w++)
        if (!strncmp(*w, e->line.p, e->line.n)) found++, only = *w, gy_buf_printf(&all, "%s ", *w);
    if (found == 1) {
        insert(e, only + e->line.n, strlen(only) - e->line.n);
        insert(e, " ", 1);
    } else if (found) {
        size_t at = e->at;
        draw_done(e);
        gy_buf_puts(&all, "\r\n");
        put(&all);
        e->at = at;
    }
    gy_buf_free(&all);
}

/* Ctrl-R: the newest entry that holds what is typed; Ctrl-R again: an older one. Returns the key
 * that ended it. */
static int search(edit *e) {
    gy_buf query = {0}, prompt = {0};
    const char *old = e->prompt;
    int at = e->items, key;
    browse(e, e->browse);
    for (;;) {
        prompt.n = 0;
        gy_buf_printf(&prompt, "search '%s': ", query.n ? query.p : "");
        e->prompt = prompt.p ? prompt.p : old;
        draw(e);
        key = next_byte(e, -1);
        bool again = key == CTL('R');
        if (key == 127 || key == CTL('H'))
            query.n -= query.n > 0, at = e->items;
        else if (key >= 32 && key < 127)
            gy_buf_c(&query, (char)key), at = e->items;
        else if (!again && key != KEY_RESIZE)
            break;
        if (query.p) query.p[query.n] = 0;
        for (int i = at - 1; query.n && i >= 0; i--) {
            if (!strstr(e->item[i], query.p)) continue;
            at = i, e->browse = i, replace(e, e->item[i]);
            break;
        }
    }
    e->prompt = old;
    gy_buf_free(&query), gy_buf_free(&prompt);
    if (key == 27) key = escape_key(e);
    return key;
}

/* ---- Reading ---- */

static void raw(edit *e, bool on) {
    struct termios t = e->sane;
    gy_buf b = {0};
    if (on) {
        t.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
        t.c_cflag |= CS8;
        t.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
        t.c_cc[VMIN] = 1, t.c_cc[VTIME] = 0;
    }
    /* DRAIN, not FLUSH: what was typed ahead is kept. The settings change before anything is shown,
     * so that who sees the mode switch can rely on Ctrl-C. */
    tcsetattr(0, TCSADRAIN, &t);
    gy_buf_puts(&b, on ? "\033[?2004h" : "\033[?2004l");
    put(&b);
    gy_buf_free(&b);
}

static void suspend(edit *e) {
    draw_done(e);
    raw(e, false);
    raise(SIGTSTP);
    raw(e, true);
}

static void character(edit *e, int first) {
    char s[4] = {(char)first};
    size_t n = 1, need = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    for (; n < need; n++) {
        int c = next_byte(e, 200);
        if (c < 0x80 || c > 0xBF) return;
        s[n] = (char)c;
    }
    if (first < 0x80 || first >= 0xC0) insert(e, s, n);
}

/* One key; false when it ends the reading, with the result in *r. */
static bool apply(edit *e, int key, edit_result *r) {
    size_t mark;
    switch (key) {
    case '\r':
    case '\n': return *r = EDIT_LINE, false;
    case CTL('C'): return *r = EDIT_INTERRUPT, false;
    case KEY_SIGNAL: return *r = cli_signal() == SIGINT ? EDIT_INTERRUPT : EDIT_END, false;
    case KEY_END_OF_INPUT: return *r = EDIT_END, false;
    case CTL('D'):
        if (!e->line.n) return *r = EDIT_END, false;
        erase(e, e->at, after(e, e->at), false);
        break;
    case KEY_DELETE: erase(e, e->at, after(e, e->at), false); break;
    case 127:
    case CTL('H'): erase(e, before(e, e->at), e->at, false); break;
    case KEY_LEFT:
    case CTL('B'): e->at = before(e, e->at); break;
    case KEY_RIGHT:
    case CTL('F'): e->at = after(e, e->at); break;
    case KEY_HOME:
    case CTL('A'): e->at = line_start(e); break;
    case KEY_END:
    case CTL('E'): e->at = line_end(e); break;
    case KEY_UP:
    case CTL('P'): up_or_down(e, true); break;
    case KEY_DOWN:
    case CTL('N'): up_or_down(e, false); break;
    case KEY_WORD_LEFT: e->at = word_before(e); break;
    case KEY_WORD_RIGHT: e->at = word_after(e); break;
    case KEY_WORD_ERASE:
    case CTL('W'): erase(e, word_before(e), e->at, true); break;
    case KEY_WORD_DELETE: erase(e, e->at, word_after(e), true); break;
    case CTL('U'): erase(e, line_start(e), e->at, true); break;
    case CTL('K'):
        mark = line_end(e);
        erase(e, e->at, mark > e->at ? mark : after(e, e->at), true);
        break;
    case CTL('Y'):
        if (e->kill.n) insert(e, e->kill.p, e->kill.n);
        break;
    case CTL('L'): e->row = 0, put(&(gy_buf){.p = "\033[H\033[2J", .n = 7}); break;
    case CTL('Z'): suspend(e); break;
    case '\t': complete(e); break;
    case KEY_NEWLINE: insert(e, "\n", 1); break;
    case KEY_PASTE: paste(e); break;
    default:
        if (key >= 32) character(e, key);
    }
    return true;
}

static edit_result read_plain(edit *e, gy_buf *line) {
    char *text = NULL;
    size_t cap = 0;
    if (e->prompts) cli_put(e->prompt, strlen(e->prompt));
    while (e->idle && !cli_signal() && !more_waits(e)) e->idle = e->work(e->arg);
    errno = 0;
    ssize_t n = getline(&text, &cap, stdin);
    bool interrupted = n < 0 && errno == EINTR && cli_signal() == SIGINT;
    if (n > 0 && text[n - 1] == '\n') n--;
    if (n > 0) gy_buf_add(line, text, (size_t)n);
    free(text);
    if (interrupted) clearerr(stdin);
    return interrupted ? EDIT_INTERRUPT : n < 0 ? EDIT_END : EDIT_LINE;
}

void edit_idle(edit *e, bool (*work)(void *arg), void *arg) {
    e->work = work, e->arg = arg;
}

edit_result edit_read(edit *e, const char *prompt, gy_buf *line) {
    struct sigaction act = {.sa_handler = on_resize}, old;
    edit_result r = EDIT_LINE;
    e->prompt = prompt, line->n = 0, e->idle = e->work;
    if (line->p) *line->p = 0;
    if (e->plain) return read_plain(e, line);
    if (tcgetattr(0, &e->sane)) return EDIT_END;
    sigset_t wait;
    sigemptyset(&wait), sigaddset(&wait, SIGINT), sigaddset(&wait, SIGTERM);
    sigaddset(&wait, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &wait, &e->mask);
    sigaction(SIGWINCH, &act, &old);
    e->line.n = e->at = 0, e->browse = e->items, e->row = 0;
    if (gy_buf_need(&e->line, 64)) *e->line.p = 0;
    raw(e, true);
    draw(e);
    for (bool go = true; go;) {
        int key = next_byte(e, -1);
        if (key == CTL('R')) key = search(e);
        if (key == 27) key = escape_key(e);
        go = apply(e, key, &r);
        if (go && !more_waits(e)) draw(e);
    }
    draw_done(e);
    raw(e, false);
    pthread_sigmask(SIG_SETMASK, &e->mask, NULL);
    sigaction(SIGWINCH, &old, NULL);
    gy_buf_add(line, e->line.p, e->line.n);
    return r;
}
