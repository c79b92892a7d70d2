#include "cli/width.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Ascending ranges; terminals agree on these, and differ on what is left out. */
static const struct {
    uint32_t first, last;
    int cells;
} ranges[] = {
    {0x0300, 0x036F, 0},   {0x0483, 0x0489, 0},   {0x0591, 0x05BD, 0},   {0x0610, 0x061A, 0},
    {0x064B, 0x065F, 0},   {0x093C, 0x093C, 0},   {0x094D, 0x094D, 0},   {0x0E31, 0x0E31, 0},
    {0x0E34, 0x0E3A, 0},   {0x0E47, 0x0E4E, 0},   {0x1100, 0x115F, 2},   {0x1AB0, 0x1AFF, 0},
    {0x1DC0, 0x1DFF, 0},   {0x200B, 0x200F, 0},   {0x20D0, 0x20FF, 0},   {0x231A, 0x231B, 2},
    {0x23E9, 0x23EC, 2},   {0x25FD, 0x25FE, 2},   {0x2614, 0x2615, 2},   {0x2648, 0x2653, 2},
    {0x26A1, 0x26A1, 2},   {0x26BD, 0x26BE, 2},   {0x2705, 0x2705, 2},   {0x2728, 0x2728, 2},
    {0x274C, 0x274C, 2},   {0x2753, 0x2755, 2},   {0x2E80, 0x303E, 2},   {0x3041, 0x33FF, 2},
    {0x3400, 0x4DBF, 2},   {0x4E00, 0x9FFF, 2},   {0xA000, 0xA4CF, 2},   {0xAC00, 0xD7A3, 2},
    {0xF900, 0xFAFF, 2},   {0xFE00, 0xFE0F, 0},   {0xFE20, 0xFE2F, 0},   {0xFE30, 0xFE6F, 2},
    {0xFF00, 0xFF60, 2},   {0xFFE0, 0xFFE6, 2},   {0x1F300, 0x1F64F, 2}, {0x1F680, 0x1F6FF, 2},
    {0x1F900, 0x1F9FF, 2}, {0x1FA70, 0x1FAFF, 2}, {0x20000, 0x3FFFD, 2}, {0xE0100, 0xE01EF, 0},
};

size_t cli_cell(const char *s, size_t n, char cell[8], int *wide) {
    unsigned char c = (unsigned char)*s;
    size_t need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1, have = 1;
    *wide = 1;
    if (c == '\t') return strcpy(cell, "    "), *wide = 4, 1;
    if (c < 32 || c == 127) return snprintf(cell, 8, "^%c", c ^ 64), *wide = 2, 1;
    uint32_t code = need == 1 ? c : c & (0x7Fu >> need);
    for (; have < need && have < n && (s[have] & 0xC0) == 0x80; have++)
        code = code << 6 | (uint32_t)(s[have] & 0x3F);
    if (have < need || (need == 1 && c >= 0x80)) return strcpy(cell, "?"), have;
    memcpy(cell, s, need), cell[need] = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && code >= ranges[i].first; i++)
        if (code <= ranges[i].last) *wide = ranges[i].cells;
    return need;
}
