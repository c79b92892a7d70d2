/* cli/common - what the commands share: opening, failing, progress, output.
 *
 * Answers and data go to stdout, everything else to stderr. A failed command prints one line on
 * stderr, or with --json
 * {"error":{...}} on stdout, and ends with the exit code of its kind. */
#ifndef GY_CLI_COMMON_H
#define GY_CLI_COMMON_H

#include "base/buf.h"
#include "base/err.h"
#include "cli/args.h"

/* Reports err and returns its exit code. */
int cli_fail(const cli_args *a, const gy_err *err);
int cli_usage(const cli_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* EXIT_OK, or EXIT_USAGE after a message when more than `most` words are left. */
int cli_words(const cli_args *a, int most);
/* The words with spaces between; gy_alloc'd, NULL when memory is out. */
char *cli_join(const cli_args *a, size_t *bytes);

/* The model's name on the command line: --model or the first word, which is then taken from
 * a->word. NULL after a message. */
const char *cli_model_name(cli_args *a);
/* Finds and opens it; what: flags for opening. On failure *code is the exit code and NULL is
 * returned. */
gy_model *cli_open(cli_args *a, const gy_model_options *options, int *code);
/* The same for what gy_engine_new and gy_fit say: a codec that gyre or the model's heads do not
 * take is a wrong flag, not a wrong model. */
int cli_fail_engine(const cli_args *a, const gy_err *err);
/* The flags' options over what the command already set in o, which may point into kv; EXIT_OK, or
 * EXIT_USAGE after a message. */
enum { CLI_KV = 96 };
int cli_engine_options(const cli_args *a, gy_engine_options *o, char kv[CLI_KV]);
/* "8G", "512MiB", "1000000" in bytes; -1: something else. */
int64_t cli_memory(const char *text);
/* Bytes for shared prefixes: what the user says, or `usual`, of which a budget (0: none) gives at
 * most an eighth. An exit code after saying what is wrong. */
int cli_prefix_memory(const cli_args *a, int64_t budget, int64_t usual, int64_t *bytes);
enum { CLI_PREFIX_RUN = 256 << 20 }; /* usual bytes of gyre run */
/* An engine with the flags' options over what the command already set in o. */
gy_engine *cli_engine(const cli_args *a, gy_model *m, gy_engine_options *o, int *code);

/* Whole stdin or file in gy_alloc'd memory; NULL after filling err. path "-" or NULL: stdin. */
char *cli_read(const char *path, size_t *bytes, gy_err *err);
/* "1,2,3" -> ids; NULL after filling err. */
int32_t *cli_ids(const char *list, int *n, gy_err *err);

/* Writes and flushes; false when stdout takes no more: the command then ends. */
bool cli_put(const char *s, size_t n);
/* Flushes at the end of a command. A reader that went away (EPIPE) is no failure; a full disk is.
 */
int cli_put_end(const cli_args *a, int code);

/* A progress line on a TTY, at most 10 a second; else a line per 5 s. Use as a gy_progress_fn with
 * arg = a cli_bar. */
typedef struct {
    const char *title;
    double start, last;
    const char *unit; /* what is counted, such as "tokens"; NULL: bytes */
    bool shown, quiet;
    uint64_t first, drawn;
    char what[64]; /* the start of what is counted now, for rates are per file */
} cli_bar;
bool cli_progress(void *bar, const char *what, uint64_t done, uint64_t total);
void cli_progress_end(cli_bar *bar);

double cli_now(void); /* seconds, monotonic */
bool cli_tty(int fd);
bool cli_colour(int fd);                /* NO_COLOR, CLICOLOR_FORCE, TERM=dumb respected */
void cli_bytes(char out[32], double n); /* "92.3 MB" */

/* SIGINT and SIGTERM cancel this engine; the number that came, or 0. */
void cli_signals(gy_engine *e);
int cli_signal(void);
void cli_signal_clear(void);
/* The terminal's settings, put back when a second Ctrl-C ends the program; NULL: none. */
struct termios;
void cli_terminal(const struct termios *sane);

/* The commands; each returns an exit code. */
int cmd_run(cli_args *a);
int cmd_generate(cli_args *a);
int cmd_get(cli_args *a);
int cmd_ls(cli_args *a);
int cmd_inspect(cli_args *a);
int cmd_explain(cli_args *a);
int cmd_bench(cli_args *a);
int cmd_perplexity(cli_args *a);
int cmd_tokenize(cli_args *a);
int cmd_detokenize(cli_args *a);
int cmd_render(cli_args *a);
int cmd_logits(cli_args *a);
int cmd_convert(cli_args *a);
int cmd_rm(cli_args *a);
int cmd_gc(cli_args *a);
int cmd_devices(cli_args *a);
int cmd_cache_prompt(cli_args *a);
int cmd_fit(cli_args *a);

#endif
