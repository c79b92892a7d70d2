/* The tokenizer on bytes from outside: as tokenizer.json, as text, and as ids.
 *
 * First byte 0 to 7: the rest is a tokenizer.json, which encodes a fixed text and decodes every id.
 * Else it chooses one of a few tokenizers written below, and the rest is text. Whatever was encoded
 * must decode, a stream of it must end with what decoding at once gives, and nothing may be visible
 * that is not UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "text/tok.h"

static const char *const written[] = {
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true,\"lstrip\":true},{\"id\":10,"
    "\"content\":\"ab \","
    "\"normalized\":true,\"rstrip\":true},{\"id\":11,\"content\":\"x\",\"single_word\":true}],"
    "\"normalizer\":{\"type\":"
    "\"NFKC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":"
    "true},\"decoder\":{\"type\":"
    "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,"
    "\"ab\":2,\"abab\":3,\"\xC4\xA0\":4,"
    "\"\xC4\xA0"
    "ab\":5,\"?\":6,\"e\":7,\"\xC3\x83\":8},\"merges\":[\"a b\",\"ab ab\",\"\xC4\xA0 ab\"]}}",
    "{\"added_tokens\":[{\"id\":8,\"content\":\"</"
    "s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{"
    "\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
    "\"},\"content\":\"_\"}]},\"decoder\":{"
    "\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},"
    "\"content\":\" \"},{\"type\":"
    "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,\"stop\":1}]},\"model\":{\"type\":"
    "\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"_\":"
    "1,\"a\":2,\"_a\":3,\"<0xC3>\":4,"
    "\"<0xA9>\":5,\"aa\":6,\"__\":7},\"merges\":[[\"_\",\"a\"],[\"a\",\"a\"],[\"_\",\"_\"]]}}",
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}"
    ",\"decoder\":{\"type\":"
    "\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"},\"model\":{\"type\":"
    "\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],"
    "[\"_\",-2],[\"a\",-3],[\"ab\",-4.5],[\"_a\",-3.5],[\"b\",-3]]}}",
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
    "true,\"strip_accents\":null,"
    "\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":"
    "\"WordPiece\",\"prefix\":\"##\","
    "\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,"
    "\"a\":1,\"##b\":2,\"##a\":3,\".\":4}}}",
};

static void check(const gy_tok *tok, const char *s, size_t n, unsigned flags) {
    static const char *const stop[] = {"ab", "b a", "\xC3\xA9!"};
    gy_ids ids = {0};
    gy_buf whole = {0}, parts = {0}, cut = {0};
    gy_detok *d, *e;
    if (!gy_tok_encode(tok, s, n, flags, &ids, NULL)) {
        GY_ASSERT(!gy_tok_decode(tok, ids.id, ids.n, false, &whole, NULL));
        GY_ASSERT(!gy_detok_new(tok, false, NULL, 0, &d, NULL) &&
                  !gy_detok_new(tok, true, stop, 3, &e, NULL));
        for (int i = 0; i < ids.n; i++) {
            gy_detok_push(d, ids.id[i], &parts);
            gy_detok_push(e, ids.id[i], &cut);
        }
        gy_detok_end(d, &parts);
        gy_detok_end(e, &cut);
        GY_ASSERT(whole.n == parts.n && (!whole.n || !memcmp(whole.p, parts.p, whole.n)));
        for (size_t i = 0; i < whole.n;) {
            uint32_t c;
            size_t len = gy_utf8_get(whole.p + i, whole.n - i, &c);
            GY_ASSERT(c != 0xFFFD || !memcmp(whole.p + i, "\xEF\xBF\xBD", 3));
            i += len;
        }
        for (int k = 0; k < 3; k++)
            GY_ASSERT(!cut.n || !memmem(cut.p, cut.n, stop[k], strlen(stop[k])));
        gy_detok_free(d);
        gy_detok_free(e);
    }
    free(ids.id);
    gy_buf_free(&whole);
    gy_buf_free(&parts);
    gy_buf_free(&cut);
}

static void as_file(const char *s, size_t n) {
    static const char text[] = "ab abab <s>a \xC3\xA9 x.1 </s>\xF0\x9F\x99\x82\n\n a";
    gy_tok *tok;
    gy_err err = {0};
    if (gy_tok_open_json(s, n, NULL, NULL, &tok, &err)) {
        GY_ASSERT(err.rc && *err.msg);
        return;
    }
    check(tok, text, sizeof text - 1, 1);
    check(tok, text, sizeof text - 1, 2);
    gy_buf b = {0};
    for (int i = 0; i < gy_tok_size(tok) && i < 4096; i++) {
        size_t bytes;
        const char *name = gy_tok_name(tok, i, &bytes);
        GY_ASSERT(!name == !gy_tok_bytes(tok, i, &b));
    }
    gy_buf_free(&b);
    gy_tok_free(tok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    enum { KINDS = sizeof written / sizeof *written };
    static gy_tok *tok[KINDS];
    if (!n) return 0;
    const char *s = (const char *)data + 1;
    if (*data < 8) {
        as_file(s, n - 1);
        return 0;
    }
    int k = *data % KINDS;
    if (!tok[k])
        GY_ASSERT(!gy_tok_open_json(written[k], strlen(written[k]), NULL, NULL, &tok[k], NULL));
    check(tok[k], s, n - 1, *data >> 3 & 3);
    return 0;
}
