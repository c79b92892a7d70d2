/* cli/args - the flags of every command, in one table.
 *
 * Precedence: flag, then environment (GYRE_ and the flag's name in upper snake), then --config
 * FILE, then default.
 * "--flag value" and "--flag=value" are the same; "--no-flag" turns a switch off; "--" ends flags.
 * An unknown flag, or one that the command does not take, is a usage error (exit 2) that names the
 * nearest flag. Owner: cli_args lives as long as main; strings point into argv, the environment or
 * the arena of the config file. */
#ifndef GY_CLI_ARGS_H
#define GY_CLI_ARGS_H

#include <stdio.h>

#include "gyre.h"

/* Exit codes, serving.md 18. */
enum {
    EXIT_OK = 0,
    EXIT_FAIL = 1,
    EXIT_USAGE = 2,
    EXIT_MODEL = 3,
    EXIT_MEMORY = 4,
    EXIT_NET = 5,
    EXIT_INTEGRITY = 6,
    EXIT_INT = 130,
    EXIT_TERM = 143
};

/* Commands as bits, so that a flag lists its commands. */
enum {
    CMD_RUN = 1,
    CMD_GENERATE = 2,
    CMD_GET = 4,
    CMD_LS = 8,
    CMD_INSPECT = 16,
    CMD_EXPLAIN = 32,
    CMD_BENCH = 64,
    CMD_PPL = 128,
    CMD_TOKENIZE = 256,
    CMD_DETOKENIZE = 512,
    CMD_RENDER = 1024,
    CMD_LOGITS = 2048,
    CMD_CONVERT = 4096,
    CMD_COMPLETION = 8192,
    CMD_RM = 16384,
    CMD_GC = 32768,
    CMD_DEVICES = 65536,
    CMD_CACHE_PROMPT = 131072,
    CMD_FIT = 262144,
    CMD_MODEL = CMD_RUN | CMD_GENERATE | CMD_EXPLAIN | CMD_BENCH | CMD_PPL | CMD_LOGITS |
                CMD_CACHE_PROMPT, /* make an engine */
    CMD_SAMPLE = CMD_RUN | CMD_GENERATE,
    CMD_PROMPT = CMD_SAMPLE | CMD_CACHE_PROMPT /* take a prompt */
};

enum { CLI_STOPS = 16, CLI_WORDS = 64 };

typedef struct {
    int command; /* CMD_ bit */
    const char *command_name;
    const char
        *word[CLI_WORDS]; /* arguments that are not flags; word[0] is MODEL for most commands */
    int words;
    bool json, help, verbose, quiet, yes;
    /* engine */
    const char *model, *threads, *arith, *kv, *kv_k, *kv_v, *isa, *memory, *prefix_memory;
    int context, chunk;
    /* text */
    const char *prompt, *prompt_file, *system, *chat_template, *chat_template_file,
        *template_kwargs, *prefill_response, *cache_file, *cache_dir;
    const char *stop[CLI_STOPS];
    int stops;
    bool raw, no_special, think, think_given, show_reasoning, stream, pieces, pull;
    /* sampling */
    int max_tokens;
    bool ignore_eos, seed_given;
    int logprobs; /* -1: not asked */
    gy_sampling sampling;
    const char *seed;
    /* logits, detokenize */
    const char *ids, *positions, *out;
    /* get, ls, convert */
    gy_get_options get;
    const char *url, *sha256;
    /* bench, perplexity */
    const char *n_prompt, *n_gen, *n_depth, *n_both, *batch, *format, *kl_base, *compare;
    float threshold; /* percent */
    bool kl, ops;
    int repetitions, stride, samples;
    /* inspect */
    bool tensors, template_text;
    const char *op; /* explain: dump after this operator */
} cli_args;

/* Fills a from argv (argv[0] is the program). Returns EXIT_OK, or EXIT_USAGE after a message on
 * stderr. */
int cli_args_parse(cli_args *a, int argc, char **argv);
/* Sets one flag by name, as /set does; value must outlive a. Returns EXIT_OK or EXIT_USAGE after a
 * message. */
int cli_args_set(cli_args *a, const char *name, const char *value);
void cli_args_help(FILE *to, int command, bool all); /* command 0: the list of commands */
void cli_args_completion(FILE *to, const char *shell);
const char *cli_command_summary(int command);
int cli_command_find(const char *name); /* CMD_ bit or 0; aliases too */

#endif
