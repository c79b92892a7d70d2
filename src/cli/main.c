/* gyre - the command line. Each command is one function; args.c holds the flags. */
#include <string.h>

#include "cli/common.h"

static const struct {
    int bit;
    int (*run)(cli_args *);
} table[] = {
    {CMD_RUN, cmd_run},
    {CMD_GENERATE, cmd_generate},
    {CMD_GET, cmd_get},
    {CMD_LS, cmd_ls},
    {CMD_INSPECT, cmd_inspect},
    {CMD_EXPLAIN, cmd_explain},
    {CMD_BENCH, cmd_bench},
    {CMD_PPL, cmd_perplexity},
    {CMD_TOKENIZE, cmd_tokenize},
    {CMD_DETOKENIZE, cmd_detokenize},
    {CMD_RENDER, cmd_render},
    {CMD_LOGITS, cmd_logits},
    {CMD_CONVERT, cmd_convert},
    {CMD_RM, cmd_rm},
    {CMD_GC, cmd_gc},
    {CMD_DEVICES, cmd_devices},
    {CMD_CACHE_PROMPT, cmd_cache_prompt},
    {CMD_FIT, cmd_fit},
};

static int completion(const cli_args *a) {
    if (!a->words ||
        (strcmp(a->word[0], "bash") && strcmp(a->word[0], "zsh") && strcmp(a->word[0], "fish")))
        return cli_usage(a, "expected bash, zsh or fish");
    cli_args_completion(stdout, a->word[0]);
    return EXIT_OK;
}

int main(int argc, char **argv) {
    cli_args a = {.command_name = "--help"};
    if (argc < 2) return cli_args_help(stderr, 0, false), EXIT_USAGE;
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("gyre %s (cpu %s, bits %d)\n", gy_version(), gy_isa(), gy_bits());
        return cli_put_end(&a, EXIT_OK);
    }
    bool all = !strcmp(argv[1], "--help-all");
    if (all || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        int command = argc > 2 && !all ? cli_command_find(argv[2]) : 0;
        cli_args_help(stdout, command, all);
        return cli_put_end(&a, EXIT_OK);
    }
    int rc = cli_args_parse(&a, argc, argv);
    if (rc) return rc;
    if (a.help) return cli_args_help(stdout, a.command, false), cli_put_end(&a, EXIT_OK);
    cli_signals(NULL);
    if (a.command == CMD_COMPLETION) return cli_put_end(&a, completion(&a));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].bit == a.command) return cli_put_end(&a, table[i].run(&a));
    return EXIT_FAIL;
}
