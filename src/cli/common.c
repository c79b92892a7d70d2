#include "cli/common.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

double cli_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool cli_tty(int fd) {
    return isatty(fd);
}

bool cli_colour(int fd) {
    const char *term = getenv("TERM"), *force = getenv("CLICOLOR_FORCE"), *no = getenv("NO_COLOR");
    if (no && *no) return false;
    if (force && *force && strcmp(force, "0")) return true;
    return isatty(fd) && term && strcmp(term, "dumb");
}

void cli_bytes(char out[32], double n) {
    static const char *unit[] = {"B", "KB", "MB", "GB", "TB"};
    int u = 0;
    while (n >= 1000 && u < 4) n /= 1000, u++;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
}

static int exit_code(gy_rc rc) {
    switch (rc) {
    case GY_OK: return EXIT_OK;
    case GY_ENOTFOUND:
    case GY_EUNSUPPORTED:
    case GY_EFORMAT: return EXIT_MODEL;
    case GY_ENOMEM:
    case GY_ELIMIT: return EXIT_MEMORY;
    case GY_EINTEGRITY: return EXIT_INTEGRITY;
    case GY_EARG: return EXIT_USAGE;
    case GY_ECANCEL: return cli_signal() == SIGTERM ? EXIT_TERM : EXIT_INT;
    default: return EXIT_FAIL;
    }
}

/* "gyre COMMAND: message" for people, {"error":{..}} for programs. */
static void tell(const cli_args *a, gy_rc rc, const char *message, const char *more) {
    if (a->json) {
        gy_buf b = {0};
        gy_buf_puts(&b, "{\"error\":{\"code\":");
        gy_buf_json(&b, gy_rc_name(rc), strlen(gy_rc_name(rc)));
        gy_buf_puts(&b, ",\"message\":");
        gy_buf_json(&b, message, strlen(message));
        gy_buf_puts(&b, "}}\n");
        if (b.p) cli_put(b.p, b.n);
        gy_buf_free(&b);
    } else {
        fprintf(stderr, "gyre %s: %s%s\n", a->command_name, message, more);
    }
}

int cli_fail(const cli_args *a, const gy_err *err) {
    tell(a, err->rc, err->msg, "");
    /* Downloads that fail for another reason than a checksum are network failures. */
    if (a->command == CMD_GET && err->rc == GY_EIO) return EXIT_NET;
    return exit_code(err->rc);
}

int cli_usage(const cli_args *a, const char *fmt, ...) {
    char message[512], more[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    snprintf(more, sizeof more, "; gyre %s --help tells more", a->command_name);
    tell(a, GY_EARG, message, more);
    return EXIT_USAGE;
}

int cli_words(const cli_args *a, int most) {
    return a->words > most ? cli_usage(a, "unexpected argument '%s'", a->word[most]) : EXIT_OK;
}

char *cli_join(const cli_args *a, size_t *bytes) {
    gy_buf b = {0};
    gy_buf_need(&b, 1);
    for (int i = 0; i < a->words; i++) {
        if (i) gy_buf_c(&b, ' ');
        gy_buf_puts(&b, a->word[i]);
    }
    return gy_buf_take(&b, bytes);
}

const char *cli_model_name(cli_args *a) {
    if (a->model) return a->model;
    if (!a->words) return cli_usage(a, "MODEL is missing"), NULL;
    const char *name = a->word[0];
    memmove(a->word, a->word + 1, sizeof *a->word * (size_t)--a->words);
    return name;
}

/* "org/name" with nothing of a path in it: what a download can be asked for. */
static bool is_repo(const char *name) {
    const char *slash = strchr(name, '/');
    return slash && slash != name && slash[1] && !strchr(slash + 1, '/') && *name != '.' &&
           *name != '~' && !strstr(name, "..");
}

/* A repository that is not here: run fetches it with --pull, or asks on a terminal. */
static gy_rc pull(const cli_args *a, const char *name, char **path, gy_err *err) {
    char reply[8] = "", repo[256];
    cli_bar bar = {.title = "get", .quiet = a->quiet};
    gy_get_options o = {.progress = cli_progress, .arg = &bar};
    if (!a->pull) {
        if (!cli_tty(0) || !cli_tty(1)) return err->rc;
        fprintf(stderr, "%s is not on this machine. Download it? [y/N] ", name);
        if (!fgets(reply, sizeof reply, stdin) || (*reply != 'y' && *reply != 'Y')) return err->rc;
    }
    fprintf(stderr, "downloading %s\n", name);
    size_t n = strcspn(name, "@");
    if (n >= sizeof repo) return err->rc;
    snprintf(repo, sizeof repo, "%.*s", (int)n, name);
    if (name[n]) o.revision = name + n + 1;
    *err = (gy_err){0};
    gy_rc rc = gy_get(repo, &o, path, err);
    cli_progress_end(&bar);
    return rc;
}

gy_model *cli_open(cli_args *a, const gy_model_options *options, int *code) {
    gy_model_options o = options ? *options : (gy_model_options){0};
    gy_err err = {0};
    gy_model *m = NULL;
    char *path = NULL, *template = NULL;
    const char *name = cli_model_name(a);
    bool fetched = false, path_known;
    if (!name) return *code = EXIT_USAGE, NULL;
    if (a->chat_template) o.chat_template = a->chat_template;
    if (a->chat_template_file)
        o.chat_template = template = cli_read(a->chat_template_file, NULL, &err);
    if (!err.rc && gy_model_find(name, &path, &err) == GY_ENOTFOUND && a->command == CMD_RUN &&
        is_repo(name) && !strchr(name, ':'))
        pull(a, name, &path, &err), fetched = true;
    if (!err.rc) gy_model_open(path, &o, &m, &err);
    path_known = path;
    gy_free(template);
    gy_free(path);
    if (!m) *code = cli_fail(a, &err);
    if (!m && fetched && !path_known && err.rc == GY_EIO) *code = EXIT_NET;
    return m;
}

int cli_fail_engine(const cli_args *a, const gy_err *err) {
    int code = cli_fail(a, err);
    return !strncmp(err->msg, "kv:", 3) ? EXIT_USAGE : code;
}

int cli_engine_options(const cli_args *a, gy_engine_options *o, char kv[CLI_KV]) {
    char *end = NULL;
    if (a->threads) o->threads = (int)strtol(a->threads, &end, 10);
    if (a->threads && (*end || o->threads < 1))
        return cli_usage(a, "--threads %s: expected 1 or more", a->threads);
    if (a->context) o->context = a->context;
    if (a->chunk) o->chunk = a->chunk;
    if (a->isa) o->isa = a->isa;
    if (a->memory) o->memory = cli_memory(a->memory);
    if (a->memory && o->memory < 1)
        return cli_usage(a, "--memory-budget %s: expected bytes, such as 8G", a->memory);
    if (a->kv) o->kv = a->kv;
    if (a->kv && (a->kv_k || a->kv_v))
        return cli_usage(a, "--kv and --cache-type-k/-v exclude each other");
    if (a->kv_k || a->kv_v) {
        snprintf(kv, CLI_KV, "%s.%s", a->kv_k ? a->kv_k : "f16", a->kv_v ? a->kv_v : "f16");
        o->kv = kv;
    }
    if (a->arith && !strcmp(a->arith, "exact"))
        o->arith = GY_ARITH_EXACT;
    else if (a->arith && !strcmp(a->arith, "fast"))
        o->arith = GY_ARITH_FAST;
    else if (a->arith)
        return cli_usage(a, "--arith %s: expected exact or fast", a->arith);
    return EXIT_OK;
}

gy_engine *cli_engine(const cli_args *a, gy_model *m, gy_engine_options *o, int *code) {
    gy_err err = {0};
    gy_engine *e = NULL;
    char kv[CLI_KV];
    if ((*code = cli_engine_options(a, o, kv))) return NULL;
    if (gy_engine_new(m, o, &e, &err)) *code = cli_fail_engine(a, &err);
    return e;
}

char *cli_read(const char *path, size_t *bytes, gy_err *err) {
    bool in = !path || !strcmp(path, "-");
    FILE *f = in ? stdin : fopen(path, "rb");
    gy_buf b = {.max = (size_t)1 << 30};
    if (!f) return gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno)), NULL;
    for (size_t n = 1; n;) {
        if (!gy_buf_need(&b, 65536)) break;
        n = fread(b.p + b.n, 1, 65536, f);
        b.n += n;
    }
    bool bad = ferror(f);
    if (bad) gy_fail(err, GY_EIO, "%s: %s", in ? "stdin" : path, strerror(errno));
    if (!in) fclose(f);
    char *p = bad ? NULL : gy_buf_take(&b, bytes);
    if (!p && !bad)
        gy_fail(err, GY_ENOMEM, "%s: larger than 1 GiB, or out of memory", in ? "stdin" : path);
    gy_buf_free(&b);
    return p;
}

int32_t *cli_ids(const char *list, int *n, gy_err *err) {
    size_t most = 1;
    for (const char *s = list; *s; s++) most += *s == ',' || *s == ' ';
    int32_t *ids = gy_alloc_n(most, sizeof *ids);
    if (!ids) return gy_fail(err, GY_ENOMEM, "ids: out of memory"), NULL;
    *n = 0;
    for (const char *s = list + strspn(list, ", \n[]"); *s; s += strspn(s, ", \n[]")) {
        char *end, q[64];
        errno = 0;
        long v = strtol(s, &end, 10);
        if (end == s || errno || v < INT32_MIN || v > INT32_MAX) {
            gy_free(ids);
            return gy_fail(err, GY_EARG, "ids: '%s' is not an integer",
                           gy_err_quote(q, s, strcspn(s, ", \n"))),
                   NULL;
        }
        ids[(*n)++] = (int32_t)v, s = end;
    }
    return ids;
}

static int put_errno; /* why stdout takes no more; 0 while it does */

bool cli_put(const char *s, size_t n) {
    if (put_errno) return false;
    errno = 0;
    if (fwrite(s, 1, n, stdout) == n && fflush(stdout) == 0) return true;
    put_errno = errno ? errno : EIO;
    return false;
}

int cli_put_end(const cli_args *a, int code) {
    errno = 0;
    if (!put_errno && (fflush(stdout) || ferror(stdout))) put_errno = errno ? errno : EIO;
    if (!put_errno || put_errno == EPIPE) return code;
    fprintf(stderr, "gyre %s: stdout: %s\n", a->command_name, strerror(put_errno));
    return code ? code : EXIT_FAIL;
}

/* ---- Progress ---- */

static void amount(const cli_bar *bar, char out[32], double n) {
    if (bar->unit)
        snprintf(out, 32, "%.0f", n);
    else
        cli_bytes(out, n);
}

static void bar_line(cli_bar *bar, const char *what, uint64_t done, uint64_t total, double now) {
    char have[32], all[32], rate[32], eta[32] = "", share[32] = "", line[256];
    double speed = now > bar->start ? (double)(done - bar->first) / (now - bar->start) : 0;
    amount(bar, have, (double)done), amount(bar, all, (double)total), amount(bar, rate, speed);
    if (total)
        snprintf(share, sizeof share, " (%d%%)", (int)(100.0 * (double)done / (double)total));
    if (total > done && speed > 0)
        snprintf(eta, sizeof eta, ", %.0f s left", (double)(total - done) / speed);
    snprintf(line, sizeof line, "%s%s%s: %s%s%s%s, %s%s%s/s%s", bar->title, bar->unit ? "" : " ",
             bar->unit ? "" : what, have, total ? " of " : "", total ? all : "", share, rate,
             bar->unit ? " " : "", bar->unit ? bar->unit : "", eta);
    if (cli_tty(2)) {
        struct winsize w;
        int cols = !ioctl(2, TIOCGWINSZ, &w) && w.ws_col > 8 ? w.ws_col - 1 : 79;
        fprintf(stderr, "\r\033[K%.*s", cols, line);
    } else {
        fprintf(stderr, "%s\n", line);
    }
    bar->shown = true;
}

bool cli_progress(void *arg, const char *what, uint64_t done, uint64_t total) {
    cli_bar *bar = arg;
    double now = cli_now();
    if (!bar->start) bar->start = now, bar->last = cli_tty(2) ? 0 : now, bar->first = done;
    if (done < bar->first || strncmp(bar->what, what, sizeof bar->what - 1))
        bar->first = done, bar->start = now;
    snprintf(bar->what, sizeof bar->what, "%s", what);
    bool tty = cli_tty(2), last = total && done == total && bar->drawn != done;
    bool due = now - bar->last >= (tty ? 0.1 : 5.0) || (last && (tty || bar->shown));
    if (!bar->quiet && due)
        bar_line(bar, what, done, total, now), bar->last = now, bar->drawn = done;
    return !cli_signal();
}

void cli_progress_end(cli_bar *bar) {
    if (bar->shown && cli_tty(2)) fprintf(stderr, "\r\033[K");
    bar->shown = false, bar->start = 0;
}

/* ---- Signals ---- */

static _Atomic(gy_engine *) signal_engine;
static volatile sig_atomic_t signal_seen;

static struct termios terminal;
static volatile sig_atomic_t terminal_known;

void cli_terminal(const struct termios *sane) {
    terminal_known = 0;
    if (sane) terminal = *sane, terminal_known = 1;
}

static void on_signal(int number) {
    if (signal_seen && number == SIGINT) { /* the second Ctrl-C does not wait */
        if (terminal_known) tcsetattr(0, TCSANOW, &terminal);
        _exit(EXIT_INT);
    }
    signal_seen = number;
    gy_engine *e = atomic_load(&signal_engine);
    if (e) gy_cancel(e);
}

void cli_signals(gy_engine *e) {
    struct sigaction act = {.sa_handler = on_signal};
    atomic_store(&signal_engine, e);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int cli_signal(void) {
    return signal_seen;
}
void cli_signal_clear(void) {
    signal_seen = 0;
}
