/* text/normalize - the normaliser of a tokenizer: text to the text that is split.
 *
 * A parsed pipeline of steps, run in order over one piece of text (the text between two added
 * tokens):
 *
 *     null | Sequence | NFC NFD NFKC NFKD | Lowercase | Strip | StripAccents | Nmt | Prepend
 *     | Replace(String, Regex) | BertNormalizer | Precompiled (sentencepiece charsmap) | ByteLevel
 *
 * Input is valid UTF-8 (the tokenizer turns bad bytes into U+FFFD first), output too.
 * Owner: the caller. Thread: constant after making; run from any thread at once. */
#ifndef GY_TEXT_NORMALIZE_H
#define GY_TEXT_NORMALIZE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

typedef struct gy_norm gy_norm;

/* normalizer is tokenizer.json's "normalizer" member; NULL and null give a pipeline without steps.
 * The JSON may go away afterwards. An unknown type or option is GY_EUNSUPPORTED naming it. */
gy_rc gy_norm_new(const gy_json *normalizer, gy_norm **norm, gy_err *err);

/* A Precompiled step from the raw bytes of a charsmap (GGUF's precompiled_charsmap); bytes are
 * copied. */
gy_rc gy_norm_new_charsmap(const uint8_t *charsmap, size_t bytes, gy_norm **norm, gy_err *err);
void gy_norm_free(gy_norm *norm);

/* True when no text is ever changed. */
bool gy_norm_empty(const gy_norm *norm);

/* Normalises s[n]. Returns false when the text is already what it should be: out is then untouched
 * and the caller uses s itself. Returns true when the result was appended to out (or out->oom was
 * set). */
bool gy_norm_run(const gy_norm *norm, const char *s, size_t n, gy_buf *out);

#endif
