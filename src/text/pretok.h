/* text/pretok - the pre-tokeniser of a tokenizer: one text to pieces that the model never joins.
 *
 *     null | Sequence | Split | ByteLevel | Metaspace | Digits | Punctuation | Whitespace
 *     | WhitespaceSplit | BertPreTokenizer | CharDelimiterSplit
 *
 *     " Hello world"  --Split P1, ByteLevel-->  text " Hello world", piece { 0, 6 } { 6, 6 }
 *
 * Pieces are spans of text. text is the input itself while no step changed it (the usual case:
 * nothing is copied), else a buffer inside gy_pieces. A ByteLevel that is the last step does not
 * map bytes to its alphabet of 256 characters: the pieces stay raw bytes and gy_pretok_bytelevel
 * says that the model must map them. A ByteLevel followed by other steps maps, since those see the
 * mapped text, and then gy_pretok_bytelevel is false. Owner: the caller. Thread: constant after
 * making; run from any thread at once, with one gy_pieces per thread. */
#ifndef GY_TEXT_PRETOK_H
#define GY_TEXT_PRETOK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

typedef struct gy_pretok gy_pretok;
typedef struct {
    uint32_t at, n; /* bytes of gy_pieces.text; n is never 0 */
} gy_piece;

typedef struct {
    const char *text; /* what the spans are of: the input of the last run, or own[].p */
    gy_piece *piece;  /* [n] ascending, not overlapping; gaps are text that was removed */
    size_t n, cap;
    bool oom;        /* memory ran out: the pieces are not complete */
    gy_buf own[2];   /* text after and before the last step that changed it */
    gy_piece *spare; /* [spare_cap] the pieces before the current step */
    size_t spare_cap;
} gy_pieces; /* all-zero is empty; kept between runs so that memory is reused */

/* pre_tokenizer is tokenizer.json's "pre_tokenizer" member; NULL and null give the whole text as
 * one piece. The JSON may go away afterwards. An unknown type or option, or a regex outside
 * text/regex, is GY_EUNSUPPORTED naming it. */
gy_rc gy_pretok_new(const gy_json *pre_tokenizer, gy_pretok **pretok, gy_err *err);

/* As a tokenizer.json that says Sequence [ Split(pattern[i], Isolated) ..., ByteLevel(use_regex
 * false) ] would, for vocabularies that only name their patterns (GGUF). */
gy_rc gy_pretok_new_split(const char *const *pattern, int n_patterns, gy_pretok **pretok,
                          gy_err *err);
void gy_pretok_free(gy_pretok *pretok);

bool gy_pretok_bytelevel(const gy_pretok *pretok); /* the model maps the bytes of pieces */

/* Splits s[n] (valid UTF-8, n < 4 GiB). first: s starts the whole text (Metaspace with
 * prepend_scheme "first"). Replaces what pieces held. An empty text has no pieces. s must live as
 * long as the pieces are read. */
void gy_pretok_run(const gy_pretok *pretok, const char *s, size_t n, bool first, gy_pieces *pieces);
void gy_pieces_free(gy_pieces *pieces);

/* The ByteLevel alphabet: code point of each byte, and back (-1 when cp stands for no byte).
 * Constant. */
uint32_t gy_bytelevel_char(uint8_t byte);
int gy_bytelevel_byte(uint32_t cp);

#endif
