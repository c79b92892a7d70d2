/* text/tok - tokenizers: text to ids and back.
 *
 * A tokenizer is added tokens, a normaliser, pre-tokenisers, a model (BPE, Unigram, WordPiece,
 * WordLevel), a post-processor and a decoder, as tokenizer.json states them, or the same made from
 * a GGUF vocabulary.
 *
 *     text -> [added tokens cut out] -> normalise -> pre-tokenise -> model -> ids -> post-process
 *
 * Owner: the caller. Thread: constant after opening; encode from any thread. Sources:
 * spec/serving.md 11, 22. */
#ifndef GY_TEXT_TOK_H
#define GY_TEXT_TOK_H

#include "base/buf.h"
#include "base/json.h"

typedef struct gy_tok gy_tok;
typedef struct {
    int32_t *id;
    int n, cap;
} gy_ids; /* all-zero is empty; gy_free(id) */

/* Opens tokenizer.json text[n]. config is tokenizer_config.json's root or NULL (add_bos_token,
 * add_eos_token, eos_token, added_tokens_decoder). cache_dir: where a compiled copy may be kept,
 * checked against its source; NULL: none. */
gy_rc gy_tok_open_json(const char *text, size_t n, const gy_json *config, const char *cache_dir,
                       gy_tok **tok, gy_err *err);

/* What a GGUF file says of its vocabulary; strings are borrowed only for the call. */
typedef struct {
    const char *s;
    size_t n;
} gy_tok_str;
typedef struct {
    gy_tok_str model, pre; /* tokenizer.ggml.model, .pre; n 0 when absent */
    int n;
    const gy_tok_str *token; /* [n] */
    const float *score;      /* [n] or NULL */
    const int32_t *type;     /* [n] or NULL: 1 normal 2 unknown 3 control 4 user-defined 5 unused
                              * 6 byte */
    int n_merges;
    const gy_tok_str *merge;                    /* [n_merges] "a b" */
    int32_t bos, eos, unk, sep, pad, cls, mask; /* -1 when absent */
    int add_bos, add_eos, add_space_prefix;     /* 1, 0, or -1 when absent */
    const uint8_t *charsmap;                    /* precompiled_charsmap or NULL */
    size_t charsmap_bytes;
} gy_tok_gguf;
gy_rc gy_tok_open_gguf(const gy_tok_gguf *vocab, gy_tok **tok, gy_err *err);
enum { GY_TOK_PATTERNS = 6 };
/* The patterns that a tokenizer.ggml.pre names (n 0: the default), each isolating its matches in
 * turn; *whole: a piece that is a name is taken whole (ignore_merges). Returns how many, 0 when the
 * name is not known. */
int gy_tok_gguf_patterns(gy_tok_str pre, const char *pattern[GY_TOK_PATTERNS], bool *whole);

void gy_tok_free(gy_tok *tok);

/* Besides the flags of gyre.h. With GY_TOK_SPECIALS: a begin token that the text already starts
 * with is not put before it once more (the reference would; a template and its user may both ask
 * for one). */
enum { GY_TOK_ONE_BOS = 1 << 16 };

/* flags: GY_TOK_SPECIALS, GY_TOK_PLAIN of gyre.h, GY_TOK_ONE_BOS. Appends to out. */
gy_rc gy_tok_encode(const gy_tok *tok, const char *text, size_t n, unsigned flags, gy_ids *out,
                    gy_err *err);
/* Appends the text of ids[n]; ids outside the vocabulary give GY_EARG. */
gy_rc gy_tok_decode(const gy_tok *tok, const int32_t *ids, int n, bool skip_special, gy_buf *out,
                    gy_err *err);

int gy_tok_size(const gy_tok *tok); /* highest id + 1 */
const char *gy_tok_name(const gy_tok *tok, int32_t id,
                        size_t *bytes); /* vocabulary spelling; NULL when there is none */
int32_t gy_tok_id(const gy_tok *tok, const char *name, size_t bytes); /* -1 when absent */
/* Appends the bytes that the token stands for in the middle of a text (a decoder's rules for the
 * first or last token left out): what masks and logprobs need. They may be part of a character.
 * False when there is no such id. */
bool gy_tok_bytes(const gy_tok *tok, int32_t id, gy_buf *out);
bool gy_tok_special(const gy_tok *tok, int32_t id);
int32_t gy_tok_bos(const gy_tok *tok); /* -1 when absent */
int32_t gy_tok_eos(const gy_tok *tok);

/* ---- Incremental text: never half a code point, never a possible start of a stop string ---- */

typedef struct gy_detok gy_detok;
gy_rc gy_detok_new(const gy_tok *tok, bool skip_special, const char *const *stop, int n_stop,
                   gy_detok **d, gy_err *err);
void gy_detok_free(gy_detok *d);
/* Adds a token; appends text that became certain to out. Returns true when a stop string completed:
 * text before it has been appended, nothing after it will be. */
bool gy_detok_push(gy_detok *d, int32_t id, gy_buf *out);
/* The end: appends what was held back (incomplete bytes as U+FFFD: one for each maximal subpart
 * with a ByteLevel decoder, one for each byte with ByteFallback). */
void gy_detok_end(gy_detok *d, gy_buf *out);
/* Which stop string ended the text: index, or -1. It may be decided by gy_detok_end, when a longer
 * one that started earlier did not come. */
int gy_detok_stop(const gy_detok *d);

#endif
