/* cli/width - how many cells of a terminal one character takes. */
#ifndef GY_CLI_WIDTH_H
#define GY_CLI_WIDTH_H

#include <stddef.h>

/* The first character of s[n] (n > 0) as it is shown: cell is NUL-terminated, *wide its cells (0
 * for combining marks). Control characters are shown as ^A, tabs as spaces, bad bytes as "?".
 * Returns its bytes. */
size_t cli_cell(const char *s, size_t n, char cell[8], int *wide);

#endif
