#include "cli/args.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/common.h"

static const struct {
    int bit;
    const char *name, *alias, *usage, *summary;
} commands[] = {
    {CMD_RUN, "run", "chat", "[MODEL] [PROMPT]",
     "chat, or one answer when a prompt or stdin is given"},
    {CMD_GENERATE, "generate", "gen,complete", "MODEL -p PROMPT", "one completion to stdout"},
    {CMD_CACHE_PROMPT, "cache-prompt", "", "MODEL -p PROMPT",
     "compute a prompt once, for generate --prompt-cache-file"},
    {CMD_GET, "get", "pull,download", "REPO | --url URL -o FILE",
     "download a model from Hugging Face, or one file"},
    {CMD_LS, "ls", "list", "", "list local models"},
    {CMD_INSPECT, "inspect", "show", "MODEL",
     "show a checkpoint: configuration, tensors, memory plan"},
    {CMD_EXPLAIN, "explain", "", "MODEL [--op N --ids LIST]",
     "print the plan; dump values after an operator"},
    {CMD_BENCH, "bench", "", "MODEL", "measure prefill and decode"},
    {CMD_FIT, "fit", "", "MODEL", "memory with each KV codec, and the largest context that fits"},
    {CMD_PPL, "perplexity", "ppl", "MODEL -f FILE", "perplexity of a text"},
    {CMD_TOKENIZE, "tokenize", "", "MODEL [TEXT]", "text (or stdin) to token ids"},
    {CMD_DETOKENIZE, "detokenize", "", "MODEL --ids LIST", "token ids to text"},
    {CMD_RENDER, "render", "template", "MODEL", "render a chat request body from stdin"},
    {CMD_LOGITS, "logits", "", "MODEL --ids LIST --out FILE",
     "write logits as little-endian f32 [positions, vocab]"},
    {CMD_CONVERT, "convert", "", "SOURCE -o DIR",
     "write an MLX directory with exactly the source's values"},
    {CMD_RM, "rm", "", "MODEL", "delete a downloaded model (asks first)"},
    {CMD_GC, "gc", "", "", "delete what no downloaded model uses (asks first)"},
    {CMD_DEVICES, "devices", "", "", "processors and memory"},
    {CMD_COMPLETION, "completion", "", "bash|zsh|fish", "print a shell completion script"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

typedef enum { SWITCH, INT, FLOAT, TEXT, STOP } kind;
#define AT(field) offsetof(cli_args, field)

static const struct flag {
    const char *name, *alias; /* alias: other spellings, comma-separated, with their dashes */
    uint8_t kind;
    uint16_t at;
    int commands;
    const char *arg, *help;
} flags[] = {
    {"json", "", SWITCH, AT(json), ~0, "", "machine-readable output on stdout"},
    {"help", "-h", SWITCH, AT(help), ~0, "", "this text"},
    {"verbose", "-v", SWITCH, AT(verbose), ~0, "", "statistics on stderr"},
    {"quiet", "-q", SWITCH, AT(quiet), ~0, "", "no progress on stderr"},
    {"model", "-m", TEXT, AT(model), ~(CMD_GET | CMD_LS | CMD_CONVERT | CMD_GC | CMD_DEVICES),
     "MODEL", "the model, instead of the first argument"},
    {"threads", "-t", TEXT, AT(threads), CMD_MODEL | CMD_FIT, "N",
     "threads (bench: a list); default one per core"},
    {"arith", "", TEXT, AT(arith), CMD_MODEL | CMD_FIT, "exact|fast",
     "arithmetic; default fast for quantised weights"},
    {"kv", "--kv-config", TEXT, AT(kv), CMD_MODEL | CMD_FIT | CMD_INSPECT, "CODEC",
     "KV codec: f16, f32, bf16, q8, q4.32, k8v4, turbo-k8v3, K.V, or a per-layer FILE"},
    {"cache-type-k", "-ctk", TEXT, AT(kv_k), CMD_MODEL | CMD_FIT, "CODEC", "codec of keys alone"},
    {"cache-type-v", "-ctv", TEXT, AT(kv_v), CMD_MODEL | CMD_FIT, "CODEC", "codec of values alone"},
    {"memory-budget", "--budget", TEXT, AT(memory), CMD_MODEL | CMD_FIT, "BYTES",
     "refuse what would need more, such as 8G (fit: default what is available)"},
    {"prefix-memory", "", TEXT, AT(prefix_memory), CMD_SAMPLE | CMD_FIT, "BYTES",
     "for shared prefixes, 0: none; else run and fit 256M, --cache-dir 4G, of a budget 1/8"},
    {"isa", "", TEXT, AT(isa), CMD_MODEL | CMD_FIT, "NAME",
     "force an instruction set: generic, avx2, avx512; on arm64 neon"},
    {"ctx-size", "-c,--ctx,--context,--sequence-length", INT, AT(context), CMD_MODEL | CMD_FIT, "N",
     "context in tokens (perplexity: window, 512)"},
    {"chunk", "-ub,--prefill-chunk", INT, AT(chunk), CMD_MODEL | CMD_FIT, "N",
     "most rows of one step; default 512"},
    {"prompt", "-p", TEXT, AT(prompt), CMD_PROMPT, "TEXT", "the prompt; - reads stdin"},
    {"prompt-cache-file", "", TEXT, AT(cache_file), CMD_PROMPT, "FILE",
     "generate: go on from cache-prompt's FILE; run: keep the session's memory in FILE"},
    {"cache-dir", "", TEXT, AT(cache_dir), CMD_SAMPLE, "DIR",
     "keep prefixes in this folder, for later runs to take from"},
    {"n-prompt", "-p", TEXT, AT(n_prompt), CMD_BENCH, "LIST", "prompt lengths; default 512"},
    {"prompt-file", "-f", TEXT, AT(prompt_file), CMD_PROMPT, "FILE", "read the prompt from a file"},
    {"file", "-f,--data-path", TEXT, AT(prompt_file), CMD_PPL, "FILE", "the text"},
    {"system", "", TEXT, AT(system), CMD_PROMPT, "TEXT", "system message"},
    {"chat-template", "", TEXT, AT(chat_template), CMD_PROMPT | CMD_RENDER, "NAME|TEXT",
     "template instead of the model's"},
    {"chat-template-file", "", TEXT, AT(chat_template_file), CMD_PROMPT | CMD_RENDER, "FILE",
     "the same from a file"},
    {"chat-template-kwargs", "--chat-template-args", TEXT, AT(template_kwargs), CMD_PROMPT, "JSON",
     "variables for the template"},
    {"prefill-response", "", TEXT, AT(prefill_response), CMD_GENERATE, "TEXT",
     "start of the answer"},
    {"raw", "--ignore-chat-template", SWITCH, AT(raw), CMD_PROMPT, "",
     "no chat template: the prompt as it is"},
    {"think", "", SWITCH, AT(think), CMD_PROMPT, "",
     "ask the template for reasoning, or --no-think for none"},
    {"show-reasoning", "", SWITCH, AT(show_reasoning), CMD_SAMPLE, "",
     "show reasoning (default), or --no-show-reasoning for the answer alone"},
    {"pull", "", SWITCH, AT(pull), CMD_RUN, "",
     "download MODEL (org/name) if it is not here, without asking"},
    {"stream", "", SWITCH, AT(stream), CMD_SAMPLE, "",
     "with --json: a line per token, then the whole"},
    {"stop", "", STOP, 0, CMD_SAMPLE, "TEXT", "end the answer at this string; may be repeated"},
    {"max-tokens", "-n", INT, AT(max_tokens), CMD_SAMPLE, "N",
     "most tokens of an answer; default until the context is full"},
    {"ignore-eos", "", SWITCH, AT(ignore_eos), CMD_SAMPLE, "", "do not stop at end tokens"},
    {"logprobs", "", INT, AT(logprobs), CMD_GENERATE, "N",
     "report N alternatives per token (with --json)"},
    {"seed", "-s", TEXT, AT(seed), CMD_SAMPLE, "N", "seed; default random, printed with -v"},
    {"temp", "--temperature", FLOAT, AT(sampling.temperature), CMD_SAMPLE, "T",
     "temperature; 0 is greedy. generate: 0; run: the model's, else 0.6"},
    {"top-k", "", INT, AT(sampling.top_k), CMD_SAMPLE, "N",
     "keep the N best; 0 off (run: the model's, else 40)"},
    {"top-p", "", FLOAT, AT(sampling.top_p), CMD_SAMPLE, "P",
     "nucleus; 1 off (run: the model's, else 0.95)"},
    {"min-p", "", FLOAT, AT(sampling.min_p), CMD_SAMPLE, "P",
     "least share of the best; 0 off (run: the model's, else 0.1)"},
    {"typical-p", "--typical", FLOAT, AT(sampling.typical_p), CMD_SAMPLE, "P",
     "typical sampling; 1 off"},
    {"top-n-sigma", "", FLOAT, AT(sampling.top_n_sigma), CMD_SAMPLE, "S",
     "keep logits within S deviations of the best; 0 off"},
    {"xtc-probability", "", FLOAT, AT(sampling.xtc_probability), CMD_SAMPLE, "P",
     "chance to drop top choices"},
    {"xtc-threshold", "", FLOAT, AT(sampling.xtc_threshold), CMD_SAMPLE, "P",
     "their least probability"},
    {"repeat-penalty", "--repetition-penalty", FLOAT, AT(sampling.repetition_penalty), CMD_SAMPLE,
     "R", "repetition penalty; 1 off (run: the model's, else 1.05)"},
    {"repeat-last-n", "--repetition-context-size", INT, AT(sampling.penalty_last), CMD_SAMPLE, "N",
     "tokens it looks at; -1 all"},
    {"frequency-penalty", "", FLOAT, AT(sampling.frequency_penalty), CMD_SAMPLE, "F",
     "per occurrence"},
    {"presence-penalty", "", FLOAT, AT(sampling.presence_penalty), CMD_SAMPLE, "F", "once per id"},
    {"dry-multiplier", "", FLOAT, AT(sampling.dry_multiplier), CMD_SAMPLE, "M", "DRY; 0 off"},
    {"dry-base", "", FLOAT, AT(sampling.dry_base), CMD_SAMPLE, "B", "DRY base; default 1.75"},
    {"dry-allowed-length", "", INT, AT(sampling.dry_allowed_length), CMD_SAMPLE, "N",
     "DRY allowed length; default 2"},
    {"dry-penalty-last-n", "", INT, AT(sampling.dry_last), CMD_SAMPLE, "N", "DRY window"},
    {"ids", "", TEXT, AT(ids), CMD_LOGITS | CMD_DETOKENIZE | CMD_GENERATE | CMD_EXPLAIN, "LIST",
     "token ids, comma-separated"},
    {"positions", "", TEXT, AT(positions), CMD_LOGITS, "all|last|LIST",
     "which rows to write; default all"},
    {"out", "-o,--output,--mlx-path", TEXT, AT(out), CMD_LOGITS | CMD_CONVERT | CMD_GET, "PATH",
     "where to write"},
    {"output-format", "-o", TEXT, AT(format), CMD_BENCH, "md|csv|json|jsonl", "format; default md"},
    {"n-gen", "-n", TEXT, AT(n_gen), CMD_BENCH, "LIST", "tokens to generate; default 128"},
    {"n-depth", "-d", TEXT, AT(n_depth), CMD_BENCH, "LIST",
     "positions held before measuring; default 0"},
    {"batch", "-b", TEXT, AT(batch), CMD_BENCH | CMD_FIT, "LIST",
     "sequences decoding together; default 1"},
    {"n-prompt-gen", "-pg", TEXT, AT(n_both), CMD_BENCH, "P,N",
     "a prompt of P and then N tokens, in one test; pairs"},
    {"repetitions", "-r", INT, AT(repetitions), CMD_BENCH, "N", "runs of each test; default 5"},
    {"ops", "", SWITCH, AT(ops), CMD_BENCH, "",
     "time, bytes and operations of each operator beside the machine's measured roof"},
    {"compare", "", TEXT, AT(compare), CMD_BENCH, "OLD.json",
     "beside each line the one of an earlier -o json; exit 1 when one is slower"},
    {"threshold", "", FLOAT, AT(threshold), CMD_BENCH, "PCT",
     "slower by more than this fails --compare; default 5"},
    {"stride", "", INT, AT(stride), CMD_PPL, "N", "tokens between windows; default the window"},
    {"num-samples", "", INT, AT(samples), CMD_PPL, "N", "windows at most; default all"},
    {"kl-base", "", TEXT, AT(kl_base), CMD_PPL, "FILE",
     "write the distributions here; with --kl: compare with these"},
    {"kl", "", SWITCH, AT(kl), CMD_PPL, "", "KL divergence from the distributions of --kl-base"},
    {"yes", "-y", SWITCH, AT(yes), CMD_RM | CMD_GC, "", "do not ask"},
    {"op", "", TEXT, AT(op), CMD_EXPLAIN, "N|NAME", "dump this operator's output for --ids"},
    {"no-special", "", SWITCH, AT(no_special), CMD_TOKENIZE, "", "add no BOS or EOS"},
    {"pieces", "", SWITCH, AT(pieces), CMD_TOKENIZE, "", "print each token's text"},
    {"tensors", "", SWITCH, AT(tensors), CMD_INSPECT, "", "list every tensor"},
    {"template", "", SWITCH, AT(template_text), CMD_INSPECT, "", "print the chat template"},
    {"revision", "", TEXT, AT(get.revision), CMD_GET, "REV", "branch, tag or commit"},
    {"include", "", TEXT, AT(get.include), CMD_GET, "GLOBS", "only these files"},
    {"exclude", "", TEXT, AT(get.exclude), CMD_GET, "GLOBS", "not these files"},
    {"local-dir", "", TEXT, AT(get.local_dir), CMD_GET, "DIR",
     "plain files here instead of the shared cache"},
    {"token", "", TEXT, AT(get.token), CMD_GET, "TOKEN", "Hugging Face token; default HF_TOKEN"},
    {"endpoint", "", TEXT, AT(get.endpoint), CMD_GET, "URL",
     "default HF_ENDPOINT or https://huggingface.co"},
    {"offline", "", SWITCH, AT(get.offline), CMD_GET, "", "use only what is there"},
    {"verify", "", SWITCH, AT(get.verify), CMD_GET, "", "rehash files that are there"},
    {"url", "", TEXT, AT(url), CMD_GET, "URL", "one file; with --out and --sha256"},
    {"sha256", "", TEXT, AT(sha256), CMD_GET, "HEX", "what the file must hash to"},
    {"config", "", TEXT, 0xFFFF, ~0, "FILE",
     "flags from a file: lines of name = value, or a JSON object"},
};
enum { FLAGS = sizeof flags / sizeof *flags };

int cli_command_find(const char *name) {
    for (int i = 0; i < COMMANDS; i++) {
        if (!strcmp(commands[i].name, name)) return commands[i].bit;
        for (const char *a = commands[i].alias; a && *a;
             a = strchr(a, ',') ? strchr(a, ',') + 1 : NULL)
            if (strcspn(a, ",") == strlen(name) && !strncmp(a, name, strlen(name)))
                return commands[i].bit;
    }
    return 0;
}

const char *cli_command_summary(int command) {
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].bit == command) return commands[i].summary;
    return "";
}

static const char *command_name(int command) {
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].bit == command) return commands[i].name;
    return "";
}

static bool is_alias(const char *list, const char *s, size_t n) {
    for (const char *a = list; a && *a; a = strchr(a, ',') ? strchr(a, ',') + 1 : NULL)
        if (strcspn(a, ",") == n && !strncmp(a, s, n)) return true;
    return false;
}

/* The flag that s[n] (with its dashes) spells for the command, or NULL. *off: spelled --no-NAME. */
static const struct flag *flag_find(int command, const char *s, size_t n, bool *off) {
    *off = false;
    for (int pass = 0; pass < 2; pass++) {
        for (const struct flag *f = flags; f < flags + FLAGS; f++) {
            if (!(f->commands & command)) continue;
            bool same = n > 2 && !strncmp(s, "--", 2) && strlen(f->name) == n - 2 &&
                        !strncmp(f->name, s + 2, n - 2);
            if (!pass && (same || is_alias(f->alias, s, n))) return f;
            bool no = n > 5 && !strncmp(s, "--no-", 5) && strlen(f->name) == n - 5 &&
                      !strncmp(f->name, s + 5, n - 5);
            if (pass && no && f->kind == SWITCH) return *off = true, f;
        }
    }
    return NULL;
}

static int distance(const char *a, const char *b) {
    int row[64], n = (int)strlen(b);
    if (n > 62) return 99;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j], row[j] = best;
        }
    }
    return row[n];
}

static int unknown(const cli_args *a, const char *s, size_t n) {
    char name[64];
    const char *best = NULL;
    int least = 4;
    snprintf(name, sizeof name, "%.*s", (int)(n > 60 ? 60 : n), s);
    for (const struct flag *f = flags; f < flags + FLAGS; f++) {
        int d = f->commands & a->command ? distance(name + strspn(name, "-"), f->name) : 99;
        if (d < least) least = d, best = f->name;
    }
    return cli_usage(a, "unknown flag %s%s%s%s", name, best ? "; did you mean --" : "",
                     best ? best : "", best ? "?" : "");
}

static int wrong(const cli_args *a, const struct flag *f, const char *value, const char *expected) {
    return cli_usage(a, "--%s: '%s' is not %s", f->name, value, expected);
}

static int set(cli_args *a, const struct flag *f, const char *value, bool off) {
    char *end;
    if (f->kind == SWITCH) {
        bool no = value && (!strcmp(value, "0") || !strcmp(value, "false") ||
                            !strcmp(value, "no") || !strcmp(value, "off"));
        *(bool *)((char *)a + f->at) = !(off || no);
        if (f->at == AT(think)) a->think_given = true;
    } else if (f->kind == INT) {
        errno = 0;
        long v = strtol(value, &end, 10);
        if (end == value || *end || errno || v < INT_MIN || v > INT_MAX)
            return wrong(a, f, value, "an integer of 32 bits");
        *(int *)((char *)a + f->at) = (int)v;
    } else if (f->kind == FLOAT) {
        float v = strtof(value, &end);
        if (end == value || *end || v != v) return wrong(a, f, value, "a number");
        *(float *)((char *)a + f->at) = v;
    } else if (f->kind == STOP) {
        if (a->stops == CLI_STOPS) return wrong(a, f, value, "one of at most 16 stop strings");
        a->stop[a->stops++] = value;
    } else {
        *(const char **)((char *)a + f->at) = value;
    }
    return EXIT_OK;
}

/* One member of a config file; flags of other commands are passed over. value must outlive a. */
static int config_set(cli_args *a, const char *path, const char *name, size_t n,
                      const char *value) {
    char spelled[72];
    bool off;
    snprintf(spelled, sizeof spelled, "--%.*s", (int)(n < 64 ? n : 64), name);
    for (char *s = spelled + 2; *s; s++) *s = *s == '_' ? '-' : *s;
    const struct flag *any = flag_find(~0, spelled, strlen(spelled), &off);
    const struct flag *f = flag_find(a->command, spelled, strlen(spelled), &off);
    if (!any || any->at == 0xFFFF || !value) {
        return cli_usage(a, "%s: '%.*s' is no flag's name with a value", path, (int)n, name);
    }
    return f ? set(a, f, value, off) : EXIT_OK;
}

/* {"name": value, ...}; a list gives a flag several times. */
static int config_json(cli_args *a, const char *path, const char *text, size_t n) {
    static gy_json_doc doc; /* flags point into it */
    gy_err err = {0};
    if (gy_json_parse(&doc, text, n, &err)) return cli_usage(a, "%s: %s", path, err.msg);
    int rc = EXIT_OK;
    for (uint32_t i = 0; !rc && i < doc.root->n; i++) {
        const gy_json *v = doc.root->item + i, *list = v->kind == GY_JSON_ARR ? v->item : v;
        for (uint32_t k = 0; !rc && k < (v->kind == GY_JSON_ARR ? v->n : 1); k++) {
            const gy_json *one = list + k;
            const char *value = one->kind == GY_JSON_STR || one->kind == GY_JSON_NUM ? one->s
                                : one->kind == GY_JSON_BOOL ? (one->truth ? "true" : "false")
                                                            : NULL;
            rc = config_set(a, path, doc.root->key[i].s, doc.root->key[i].n, value);
        }
    }
    return rc;
}

/* Applies "name = value" lines; "#" and ";" start comments, "[section]" lines are skipped. */
static int read_config(cli_args *a, const char *path) {
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    errno = 0;
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    bool bad = !f || ferror(f);
    if (f) fclose(f);
    if (bad || n == sizeof text - 1) {
        return cli_usage(a, "--config %s: %s", path,
                         bad ? strerror(errno ? errno : ENOENT) : "larger than 64 KiB");
    }
    text[n] = 0;
    if (text[strspn(text, " \t\r\n")] == '{') return config_json(a, path, text, n);
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line += strspn(line, " \t\r");
        if (!*line || strchr("#;[", *line)) continue;
        char *eq = strchr(line, '='), *end = eq ? eq : line + strlen(line), *value = NULL;
        while (end > line && isspace((unsigned char)end[-1])) end--;
        if (eq) value = eq + 1 + strspn(eq + 1, " \t");
        if (eq)
            for (char *e = value + strlen(value); e > value && isspace((unsigned char)e[-1]);)
                *--e = 0;
        int rc = config_set(a, path, line, (size_t)(end - line), value);
        if (rc) return rc;
    }
    return EXIT_OK;
}

static int read_env(cli_args *a) {
    for (const struct flag *f = flags; f < flags + FLAGS; f++) {
        char name[64] = "GYRE_";
        if (!(f->commands & a->command) || f->at == 0xFFFF || f->kind == STOP) continue;
        for (size_t i = 0; f->name[i] && i < 50; i++)
            name[5 + i] = f->name[i] == '-' ? '_' : (char)toupper((unsigned char)f->name[i]),
                     name[6 + i] = 0;
        const char *value = getenv(name);
        int rc = value && *value ? set(a, f, value, false) : EXIT_OK;
        if (rc) return rc;
    }
    return EXIT_OK;
}

/* Is argv[i] a flag? A lone dash and negative numbers are words. */
static bool is_flag(const char *s) {
    return s[0] == '-' && s[1] && !isdigit((unsigned char)s[1]);
}

static int read_argv(cli_args *a, int argc, char **argv, bool config_only) {
    bool flags_end = false;
    for (int i = 2; i < argc; i++) {
        const char *s = argv[i];
        if (flags_end || !is_flag(s)) {
            if (config_only) continue;
            if (a->words == CLI_WORDS) return cli_usage(a, "more than %d arguments", CLI_WORDS);
            a->word[a->words++] = s;
            continue;
        }
        if (!strcmp(s, "--")) {
            flags_end = true;
            continue;
        }
        const char *eq = !strncmp(s, "--", 2) ? strchr(s, '=') : NULL, *value = eq ? eq + 1 : NULL;
        size_t n = eq ? (size_t)(eq - s) : strlen(s);
        bool off;
        const struct flag *f = flag_find(a->command, s, n, &off);
        if (!f) {
            if (config_only) continue;
            return unknown(a, s, n);
        }
        if (!value && f->kind != SWITCH) {
            if (i + 1 == argc) return cli_usage(a, "%s needs a value %s", s, f->arg);
            value = argv[++i];
        }
        bool is_config = f->at == 0xFFFF;
        int rc = is_config != config_only ? EXIT_OK
                 : is_config              ? read_config(a, value)
                                          : set(a, f, value, off);
        if (rc) return rc;
    }
    return EXIT_OK;
}

static int finish(cli_args *a) {
    char *end;
    if (!a->seed) return EXIT_OK;
    a->sampling.seed = strtoull(a->seed, &end, 0);
    if (end == a->seed || *end) return cli_usage(a, "--seed: '%s' is not an integer", a->seed);
    a->seed_given = true;
    return EXIT_OK;
}

int cli_args_set(cli_args *a, const char *name, const char *value) {
    char spelled[72];
    bool off;
    snprintf(spelled, sizeof spelled, "--%s", name);
    const struct flag *f = flag_find(a->command, spelled, strlen(spelled), &off);
    if (!f || f->at == 0xFFFF) return unknown(a, spelled, strlen(spelled));
    int rc = set(a, f, value, off);
    return rc ? rc : finish(a);
}

int cli_args_parse(cli_args *a, int argc, char **argv) {
    *a = (cli_args){.command = cli_command_find(argv[1]),
                    .command_name = argv[1],
                    .logprobs = -1,
                    .show_reasoning = true,
                    .repetitions = 5,
                    .threshold = 5};
    if (!a->command)
        return fprintf(stderr, "gyre: unknown command '%s'; gyre --help lists them\n", argv[1]),
               EXIT_USAGE;
    a->command_name = command_name(a->command);
    /* Not given: ask.c decides, by command and model. */
    a->sampling.temperature = a->sampling.top_p = a->sampling.min_p = NAN;
    a->sampling.repetition_penalty = NAN, a->sampling.top_k = INT_MIN;
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--json"))
            a->json = true; /* errors of what stands before it follow it */
    const char *config = getenv("GYRE_CONFIG");
    int rc = config && *config ? read_config(a, config) : EXIT_OK;
    if (!rc) rc = read_argv(a, argc, argv, true);
    if (!rc) rc = read_env(a);
    if (!rc) rc = read_argv(a, argc, argv, false);
    return rc ? rc : finish(a);
}

void cli_args_help(FILE *to, int command, bool all) {
    if (!command) {
        fprintf(to, "usage: gyre COMMAND [MODEL] [flags]\n\nRuns language models: MLX "
                    "(safetensors) directories and GGUF files.\n"
                    "MODEL is a directory, a .gguf file, a repository id in the Hugging Face "
                    "cache, or part of a name "
                    "from gyre ls.\n\n");
        for (int i = 0; i < COMMANDS; i++)
            fprintf(to, "  %-12s %-26s %s\n", commands[i].name, commands[i].usage,
                    commands[i].summary);
        fprintf(to, "\ngyre COMMAND --help tells a command's flags; gyre --help-all tells all; "
                    "gyre --version.\n"
                    "Every flag can be set in the environment: --top-k is GYRE_TOP_K.\n"
                    "Exit codes: 0 ok, 1 failure, 2 usage, 3 model not found or unsupported, 4 "
                    "does not fit memory,\n"
                    "5 network, 6 checksum, 130 interrupted, 143 terminated.\n");
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (command != commands[i].bit && !(all && !command)) continue;
        fprintf(to, "%susage: gyre %s %s [flags]\n%s%s%s\n%s\n\n", command ? "" : "\n",
                commands[i].name, commands[i].usage, *commands[i].alias ? "also: " : "",
                commands[i].alias, *commands[i].alias ? "\n" : "", commands[i].summary);
        for (const struct flag *f = flags; f < flags + FLAGS; f++) {
            char left[80];
            if (!(f->commands & commands[i].bit)) continue;
            snprintf(left, sizeof left, "--%s%s%s%s%s", f->name, *f->alias ? "," : "", f->alias,
                     *f->arg ? " " : "", f->arg);
            fprintf(to, "  %-44s %s\n", left, f->help);
        }
    }
}

void cli_args_completion(FILE *to, const char *shell) {
    if (!strcmp(shell, "fish")) {
        for (int i = 0; i < COMMANDS; i++)
            fprintf(to, "complete -c gyre -n __fish_use_subcommand -a %s -d '%s'\n",
                    commands[i].name, commands[i].summary);
        for (const struct flag *f = flags; f < flags + FLAGS; f++)
            fprintf(to, "complete -c gyre -l %s -d '%s'\n", f->name, f->help);
        return;
    }
    if (!strcmp(shell, "zsh")) fprintf(to, "autoload -U +X bashcompinit && bashcompinit\n");
    fprintf(to, "_gyre() {\n  local cur=${COMP_WORDS[COMP_CWORD]}\n  if [ \"$COMP_CWORD\" = 1 ]; "
                "then\n    COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < COMMANDS; i++) fprintf(to, "%s%s", i ? " " : "", commands[i].name);
    fprintf(to, "\" -- \"$cur\")); return\n  fi\n  case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < COMMANDS; i++) {
        fprintf(to, "    %s) flags=\"", commands[i].name);
        for (const struct flag *f = flags; f < flags + FLAGS; f++)
            if (f->commands & commands[i].bit) fprintf(to, "--%s ", f->name);
        fprintf(to, "\" ;;\n");
    }
    fprintf(to, "  esac\n  case $cur in -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")) ;; *) "
                "COMPREPLY=($(compgen -f -- \"$cur\")) ;; esac\n}\n"
                "complete -F _gyre gyre\n");
}
