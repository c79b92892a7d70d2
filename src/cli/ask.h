/* cli/ask - one answer: from messages or ids through gy_generate to a stream of text. Shared by
 * generate and run. */
#ifndef GY_CLI_ASK_H
#define GY_CLI_ASK_H

#include "cli/common.h"
#include "cli/think.h"

typedef struct {
    const cli_args *a;
    gy_model *m;
    gy_engine *e;
    gy_seq *seq;
    gy_request req; /* sampling, stops, limits; ids are set per answer */
    cli_bar bar;
    bool show;    /* stream text to stdout */
    bool stream;  /* stream JSON lines to stdout */
    bool dim;     /* the terminal is dim now, for reasoning */
    bool swallow; /* reasoning is not shown, nor the blank lines after it */
    bool gone;    /* stdout has closed */
    cli_think think;
    gy_buf text, ids, logprobs; /* of the answer: text, "1,2,3", JSON entries when asked */
    gy_result result;
    int base;          /* positions of --prompt-cache-file that the prompt goes on from; 0: none */
    int prompt_tokens; /* of the whole prompt, held before or not */
} ask;

/* Opens model and engine and reads the sampling flags. Returns an exit code; ask_close undoes it
 * either way. */
int ask_open(ask *k, cli_args *a);
void ask_close(ask *k);
int ask_sampling(ask *k); /* reads the sampling flags again, after one was set; an exit code */
/* The prompt that the flags, words or stdin give; gy_alloc'd, NULL after filling err. */
char *ask_prompt(const cli_args *a, size_t *bytes, gy_err *err);
/* Stands where one half of a user's text ends and another half goes on: rendered text is cut
 * there. */
extern const char ask_cut[];
/* messages as in ask_messages; *text is freed with gy_free. */
gy_rc ask_render(ask *k, const char *messages, char **text, size_t *bytes, gy_err *err);
/* Makes the sequence hold all but the last of ids[n] (reusing what it holds already), then answers.
 */
gy_rc ask_ids(ask *k, const int32_t *ids, int n, gy_err *err);
gy_rc ask_text(ask *k, const char *prompt, size_t bytes, bool specials, gy_err *err);
/* messages: JSON objects separated by commas, without brackets. */
gy_rc ask_messages(ask *k, const char *messages, const char *tail, gy_err *err);
/* Appends one {"role":..,"content":..} to messages. */
void ask_add(gy_buf *messages, const char *role, const char *text, size_t bytes);
/* ,"finish_reason":..,"seed":..,"usage":{..} of the answer. */
void ask_end_json(const ask *k, gy_buf *b);
void ask_stats(const ask *k, FILE *to);
const char *ask_end_name(gy_end end);

#endif
