/* cli/edit - one entry from a terminal: editing keys, history, pasted text.
 *
 *     keys -> line (UTF-8, may hold newlines) -> rows of the screen, redrawn after each key
 *
 * Written for gyre because the line is always UTF-8 whatever the locale says, Ctrl-C must come back
 * as a result, and a pasted text of several lines must stay one entry. When stdin or stdout is no
 * terminal, or TERM is dumb, lines are read plainly (and prompts shown only on a terminal).
 *
 * The terminal is raw only inside edit_read. Owner: edit_new/edit_free. Thread: the main thread. */
#ifndef GY_CLI_EDIT_H
#define GY_CLI_EDIT_H

#include "base/buf.h"

typedef struct edit edit;
typedef enum {
    EDIT_LINE,
    EDIT_END,      /* Ctrl-D on an empty line, end of input, SIGTERM */
    EDIT_INTERRUPT /* Ctrl-C; the line holds what had been typed */
} edit_result;

/* history: a file, read now and appended to by edit_add; NULL: none is kept. words: NULL-terminated
 * list that Tab completes at the start of a line. Both borrowed until edit_free. NULL when memory
 * is out. */
edit *edit_new(const char *history, const char *const *words);
void edit_free(edit *e);
/* What to do while no key comes: called again and again until it returns false, anew for each line;
 * a call should take a few ms. */
void edit_idle(edit *e, bool (*work)(void *arg), void *arg);
/* Reads into line (replaced; the end of line is left out). */
edit_result edit_read(edit *e, const char *prompt, gy_buf *line);
/* Remembers an entry, unless it equals the last one. */
void edit_add(edit *e, const char *text, size_t bytes);

#endif
