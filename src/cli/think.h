/* cli/think - which part of a streamed answer is reasoning.
 *
 *     pieces of any size -> runs of text, each wholly reasoning or wholly answer
 *
 * A mark (<think>, [THINK], ...) may be cut anywhere between pieces: what could be the start of the
 * mark that is looked for is held until it is decided. Marks count as reasoning. No bytes are lost:
 * the runs joined are the pieces joined. */
#ifndef GY_CLI_THINK_H
#define GY_CLI_THINK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    bool inside;
    int kind; /* of the opener; which closer ends it */
    char held[24];
    size_t n; /* bytes held */
} cli_think;

typedef bool (*cli_think_fn)(void *arg, const char *s, size_t n, bool reasoning);

/* The state after a rendered prompt: inside when its last opener has no closer after it. */
void cli_think_start(cli_think *t, const char *prompt, size_t bytes);
/* Passes runs to fn; false as soon as fn returns false. */
bool cli_think_push(cli_think *t, const char *s, size_t n, cli_think_fn fn, void *arg);
bool cli_think_end(cli_think *t, cli_think_fn fn, void *arg); /* what is still held */

#endif
