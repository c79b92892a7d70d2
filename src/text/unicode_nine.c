/* Normal forms with the data of Unicode 9, which the tokenizers library (0.23) still has:
 * characters assigned later neither decompose nor reorder there, and nothing composes with or
 * across them. Such a character therefore cuts the text: what lies before and behind it is
 * normalised by itself.
 *
 * The ranges are the characters of Unicode 16 that have a combining class or a decomposition, or
 * are part of one, and were assigned, or got it, after Unicode 9. Made by comparing all characters
 * with the library. */
#include "base/utf8.h"
#include "text/unicode.h"

static const struct {
    uint32_t lo, hi;
} newer[] = {{0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
             {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
             {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
             {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9}, {0x105D2, 0x105D2},
             {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
             {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC},
             {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
             {0x1133B, 0x1133B}, {0x11382, 0x11385}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E},
             {0x11390, 0x11391}, {0x113B8, 0x113B8}, {0x113BB, 0x113BB}, {0x113C2, 0x113C2},
             {0x113C5, 0x113C5}, {0x113C7, 0x113C9}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E},
             {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938},
             {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
             {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
             {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x1611E, 0x16129}, {0x1612F, 0x1612F},
             {0x16D63, 0x16D63}, {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9},
             {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
             {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1F16C, 0x1F16C},
             {0x1FBF0, 0x1FBF9}};

static bool is_newer(uint32_t cp) {
    int lo = 0, hi = (int)(sizeof newer / sizeof *newer);
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (newer[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < (int)(sizeof newer / sizeof *newer) && newer[lo].lo <= cp;
}

void gy_uc_normalize_nine(gy_buf *out, gy_nform form, const char *s, size_t n) {
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t bytes = (s[i] & 0x80) ? gy_utf8_get(s + i, n - i, &cp) : 1;
        if ((s[i] & 0x80) && is_newer(cp)) {
            gy_uc_normalize(out, form, s + from, i - from);
            gy_buf_add(out, s + i, bytes);
            from = i + bytes;
        }
        i += bytes;
    }
    gy_uc_normalize(out, form, s + from, n - from);
}
