/* Tokenizers from GGUF vocabularies. A GGUF names its model and, for byte-pair encodings, its
 * pre-tokeniser; patterns, normaliser and decoder are those of the tokenizer.json that the
 * vocabulary was made from. They are built here by the same readers, from JSON text. */
#include "text/tok_in.h"

#define MARK "\xE2\x96\x81" /* U+2581, sentencepiece's space */

/* ---- Patterns by name ---- */

#define GPT2        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS(digits)                                                                              \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                           \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(tail, digits, slash)                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" tail "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n" slash "]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK                                                                                   \
    "[!\"#$%&'()*+,\\-./"                                                                          \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"               \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define KANA_HAN    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define HAN_HANGUL  "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define PUNCTUATION "[\\p{P}\\$\\+<=>\\^~\\|]+"
#define BLOOM       " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"
#define QWEN35                                                                                     \
    CONTRACTION                                                                                    \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"           \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BAILING                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"  \
    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SEED                                                                                       \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+"             \
                "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define EXAONE_MOE                                                                                 \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"              \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define YOUTU                                                                                      \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{" \
    "2019}"                                                                                        \
    "\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{" \
    "312F}]+"                                                                                      \
    "|" KANA_HAN

typedef struct {
    const char *names;                    /* separated by spaces */
    const char *pattern[GY_TOK_PATTERNS]; /* in turn, each isolating its matches */
    bool whole,
        bos; /* a piece that is a name is taken whole; a begin token if the file says nothing */
} pre_row;

static const pre_row pre_rows[] = {
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {WORDS("\\p{N}{1,3}")},
     true,
     true},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {WORDS("\\p{N}{1,3}")}, false, false},
    {"qwen2 stablelm2 deepseek-r1-qwen hunyuan megrez grok-2 solar-open kormo f2llmv2",
     {WORDS("\\p{N}")},
     false,
     false},
    {"qwen35", {QWEN35}, false, false},
    {"gpt-4o llama4", {CASES(CONTRACTION "?", "\\p{N}{1,3}", "/")}, true, false},
    {"minimax-m2 kanana2 talkie", {CASES(CONTRACTION "?", "\\p{N}{1,3}", "/")}, false, false},
    {"tekken", {CASES("", "\\p{N}", "/")}, true, true},
    {"youtu", {YOUTU, CASES(CONTRACTION "?", "\\p{N}", "/")}, true, false},
    {"deepseek-v3 hunyuan-dense joyai-llm", {"\\p{N}{1,3}", KANA_HAN, DEEPSEEK}, false, false},
    {"deepseek-coder",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN_HANGUL, "\\p{N}"},
     false,
     false},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
     {"\\p{N}", GPT2},
     false,
     false},
    {"gpt-2 gpt2 phi-2 mpt olmo jais trillion gigachat a.x-4.0 mellum modern-bert exaone4 "
     "granite-docling jina-es jina-de "
     "jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe",
     {GPT2},
     false,
     false},
    {"bailingmoe bailingmoe2 llada-moe", {BAILING}, false, false},
    {"seed-coder", {SEED}, false, false},
    {"exaone-moe", {EXAONE_MOE}, false, false},
    {"laguna", {"[^\\n]+|[\\n]+", WORDS("\\p{N}")}, false, false},
    {"minicpm5", {"\\p{N}{1,3}", WORDS("\\p{N}+")}, true, false},
    {"bloom poro-chat gpt3-finnish", {BLOOM}, false, false},
    {"viking", {BLOOM, "\\p{N}"}, false, false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {"default", {PUNCTUATION, GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
};

static const pre_row *pre_find(gy_tok_str pre) {
    if (!pre.n) pre = (gy_tok_str){"default", 7};
    for (size_t i = 0; i < sizeof pre_rows / sizeof *pre_rows; i++) {
        for (const char *s = pre_rows[i].names; *s;) {
            size_t n = strcspn(s, " ");
            if (n == pre.n && !memcmp(s, pre.s, n)) return &pre_rows[i];
            s += n + (s[n] == ' ');
        }
    }
    return NULL;
}

int gy_tok_gguf_patterns(gy_tok_str pre, const char *pattern[GY_TOK_PATTERNS], bool *whole) {
    const pre_row *row = pre_find(pre);
    int n = 0;
    while (row && n < GY_TOK_PATTERNS && row->pattern[n]) pattern[n] = row->pattern[n], n++;
    if (row) *whole = row->whole;
    return n;
}

/* ---- Parts ---- */

static const char space_to_mark[] =
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}";
static const char mark_to_space[] =
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK
    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}";

static bool str_is(gy_tok_str s, const char *word) {
    return s.n == strlen(word) && !memcmp(s.s, word, s.n);
}

static gy_rc norm_set(gy_tok *t, const char *json, gy_err *err) {
    gy_json_doc doc = {0};
    gy_rc rc = gy_json_parse(&doc, json, strlen(json), err);
    if (!rc) rc = gy_norm_new(doc.root, &t->norm, err);
    gy_json_free(&doc);
    return rc;
}

static gy_rc pretok_set(gy_tok *t, const char *json, gy_err *err) {
    gy_json_doc doc = {0};
    gy_rc rc = gy_json_parse(&doc, json, strlen(json), err);
    if (!rc) rc = gy_pretok_new(doc.root, &t->pretok, err);
    gy_json_free(&doc);
    return rc;
}

static gy_rc decoder_set(gy_tok *t, const char *json, gy_err *err) {
    gy_json_doc doc = {0};
    gy_rc rc = gy_json_parse(&doc, json, strlen(json), err);
    if (!rc) rc = gy_decoder_new(&t->decoder, doc.root, err);
    gy_json_free(&doc);
    return rc;
}

static int type_of(const gy_tok_gguf *f, int i) {
    if (f->type) return f->type[i];
    return gy_tok_byte_name(f->token[i].s, f->token[i].n) >= 0 ? 6 : 1;
}

static gy_rc vocab_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    gy_vocab_new b = {0};
    for (int i = 0; i < f->n; i++) {
        size_t at = b.text.n;
        gy_buf_add(&b.text, f->token[i].s, f->token[i].n);
        if (!b.text.p) gy_buf_need(&b.text, 1); /* an empty first name still has an address */
        gy_vocab_add(&b, at, i);
    }
    return gy_vocab_build(&t->vocab, &b, err);
}

/* Converters write the marks of user-defined names as spaces; text may also hold the marks
 * themselves, and tokenizer.json takes them for the same token. */
static gy_rc marked_add(gy_tok *t, const gy_added_token *a, gy_err *err) {
    gy_buf b = {0};
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->s[i] == ' ') {
            gy_buf_puts(&b, MARK);
        } else {
            gy_buf_c(&b, a->s[i]);
        }
    }
    gy_added_token marked = *a;
    marked.s = b.p, marked.n = (uint32_t)b.n;
    gy_rc rc = b.oom ? gy_tok_oom(err) : gy_added_add(&t->added, &t->vocab, &marked, err);
    gy_buf_free(&b);
    return rc;
}

/* Control, unknown and user-defined names are cut out of the text first. */
static gy_rc added_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    gy_rc rc = GY_OK;
    for (int i = 0; !rc && i < f->n; i++) {
        int type = type_of(f, i);
        if (type < 2 || type > 4) continue;
        if (f->token[i].n > GY_TOK_MAX_ADDED)
            return gy_fail(err, GY_ELIMIT, "tokenizer.ggml.tokens[%d] has %zu bytes, at most %d", i,
                           f->token[i].n, GY_TOK_MAX_ADDED);
        gy_added_token a = {
            .s = f->token[i].s, .n = (uint32_t)f->token[i].n, .id = i, .special = type != 4};
        rc = gy_added_add(&t->added, &t->vocab, &a, err);
        bool marks = type == 4 && str_is(f->model, "llama") && a.n && memchr(a.s, ' ', a.n);
        if (!rc && marks) rc = marked_add(t, &a, err);
    }
    return rc;
}

static gy_rc ends_set(gy_tok *t, const gy_tok_gguf *f, int32_t bos, int32_t eos, bool add_bos,
                      bool add_eos, gy_err *err) {
    size_t n;
    t->bos = bos >= 0 && gy_vocab_name(&t->vocab, bos, &n) ? bos : -1;
    t->eos = eos >= 0 && gy_vocab_name(&t->vocab, eos, &n) ? eos : -1;
    int b = f->add_bos >= 0 ? f->add_bos : add_bos, e = f->add_eos >= 0 ? f->add_eos : add_eos;
    return gy_post_override(&t->post, b, t->bos, e, t->eos, err);
}

/* ---- gpt2: byte-pair encoding by merges ---- */

/* "a b": the space that splits is the first one behind the first character, since a name may be a
 * space itself. */
static gy_rc merge_read(const gy_vocab *v, gy_tok_str m, gy_bpe_pair *p, gy_err *err) {
    const char *space = m.n > 1 ? memchr(m.s + 1, ' ', m.n - 1) : NULL;
    char q[64];
    if (space) {
        size_t na = (size_t)(space - m.s), nb = m.n - na - 1;
        char join[512];
        gy_buf big = {0};
        const char *s = join;
        if (na + nb <= sizeof join) {
            memcpy(join, m.s, na), memcpy(join + na, space + 1, nb);
        } else {
            gy_buf_add(&big, m.s, na);
            gy_buf_add(&big, space + 1, nb);
            s = big.p;
        }
        int32_t a = gy_vocab_find(v, m.s, na), b = gy_vocab_find(v, space + 1, nb);
        p->id = s ? gy_vocab_find(v, s, na + nb) : -1;
        p->a = (uint32_t)a, p->b = (uint32_t)b;
        gy_buf_free(&big);
        if (a >= 0 && b >= 0 && p->id >= 0) return GY_OK;
    }
    return gy_fail(err, GY_EFORMAT,
                   "tokenizer.ggml.merges: \"%s\" does not join two tokens to a third",
                   gy_err_quote(q, m.s, m.n));
}

static gy_rc merges_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    gy_bpe_pair *merge = gy_alloc_n((size_t)f->n_merges + 1, sizeof *merge);
    gy_rc rc = merge ? GY_OK : gy_tok_oom(err);
    for (int i = 0; !rc && i < f->n_merges; i++) {
        rc = merge_read(&t->vocab, f->merge[i], &merge[i], err);
        if (rc) break;
        const gy_name *a = &t->vocab.name[merge[i].a], *b = &t->vocab.name[merge[i].b];
        gy_bpe_joint(&t->bpe, t->vocab.text + a->at, a->n, (int32_t)merge[i].a,
                     t->vocab.text + b->at, b->n, (int32_t)merge[i].b);
    }
    if (!rc) rc = gy_bpe_pairs(&t->bpe, merge, (size_t)f->n_merges, err);
    gy_free(merge);
    return rc;
}

/* Some write merges over characters with spaces as marks, as sentencepiece does. */
static gy_rc marked_bpe_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    t->model = GY_TOK_BPE;
    t->bpe.byte_fallback = t->bpe.fuse_unk = true;
    t->bpe.unk = f->unk >= 0 && f->unk < f->n ? f->unk : -1;
    gy_rc rc = norm_set(t, space_to_mark, err);
    if (!rc) rc = pretok_set(t, "null", err);
    if (!rc) rc = decoder_set(t, mark_to_space, err);
    if (!rc) rc = gy_bpe_joint_new(&t->bpe, err);
    if (!rc) rc = merges_set(t, f, err);
    return rc ? rc : ends_set(t, f, f->bos, f->eos, true, false, err);
}

static gy_rc bpe_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    const pre_row *row = pre_find(f->pre);
    char q[64];
    if (str_is(f->pre, "gemma4") || str_is(f->pre, "sarvam-moe")) return marked_bpe_set(t, f, err);
    if (!row) {
        return gy_fail(err, GY_EUNSUPPORTED, "tokenizer.ggml.pre: \"%s\" is not known",
                       gy_err_quote(q, f->pre.s, f->pre.n));
    }
    t->model = GY_TOK_BPE;
    t->bpe.unk = -1;
    t->bpe.ignore_merges = row->whole;
    int patterns = 0;
    while (patterns < GY_TOK_PATTERNS && row->pattern[patterns]) patterns++;
    gy_rc rc = gy_pretok_new_split(row->pattern, patterns, &t->pretok, err);
    if (!rc) rc = norm_set(t, "null", err);
    if (!rc) rc = decoder_set(t, "{\"type\":\"ByteLevel\"}", err);
    if (!rc) rc = merges_set(t, f, err);
    return rc ? rc : ends_set(t, f, f->bos, f->eos, row->bos, false, err);
}

/* ---- llama: sentencepiece's byte-pair encoding, by scores ---- */

static bool *usable_new(const gy_tok_gguf *f) {
    bool *usable = gy_alloc_n((size_t)f->n + 1, sizeof *usable);
    for (int i = 0; usable && i < f->n; i++)
        usable[i] = type_of(f, i) == 1 || type_of(f, i) == 4 || type_of(f, i) == 5;
    return usable;
}

static gy_rc spm_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    static const char prefixed[] =
        "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}]}";
    static const char decode_strip[] =
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK
        "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}";
    bool space = f->add_space_prefix != 0;
    t->model = GY_TOK_BPE;
    t->bpe.byte_fallback = t->bpe.fuse_unk = true;
    t->bpe.unk = f->unk >= 0 && f->unk < f->n ? f->unk : -1;
    gy_rc rc = norm_set(t, space ? prefixed : space_to_mark, err);
    if (!rc) rc = pretok_set(t, "null", err);
    if (!rc) rc = decoder_set(t, space ? decode_strip : mark_to_space, err);
    bool *usable = usable_new(f);
    if (!usable && !rc) rc = gy_tok_oom(err);
    if (!rc) rc = gy_bpe_scores(&t->bpe, &t->vocab, f->score, usable, err);
    gy_free(usable);
    return rc ? rc : ends_set(t, f, f->bos, f->eos, true, false, err);
}

/* ---- t5: Unigram ---- */

static gy_rc unigram_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    t->model = GY_TOK_UNIGRAM;
    t->uni.unk = f->unk >= 0 && f->unk < f->n ? f->unk : -1;
    gy_rc rc = f->charsmap_bytes
                   ? gy_norm_new_charsmap(f->charsmap, f->charsmap_bytes, &t->norm, err)
                   : norm_set(t, "null", err);
    if (!rc) {
        rc = pretok_set(t,
                        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{"
                        "\"type\":\"Metaspace\","
                        "\"replacement\":\"" MARK
                        "\",\"prepend_scheme\":\"always\",\"split\":true}]}",
                        err);
    }
    if (!rc) {
        rc = decoder_set(t,
                         "{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                         "\",\"prepend_scheme\":\"always\"}",
                         err);
    }
    t->uni.score = gy_alloc_n((size_t)t->vocab.n + 1, sizeof *t->uni.score);
    bool *usable = usable_new(f);
    if ((!usable || !t->uni.score) && !rc) rc = gy_tok_oom(err);
    for (int i = 0; !rc && i < t->vocab.n; i++) t->uni.score[i] = f->score ? f->score[i] : 0;
    if (!rc) rc = gy_uni_build(&t->uni, &t->vocab, usable, err);
    gy_free(usable);
    return rc ? rc : ends_set(t, f, f->bos, f->eos, false, true, err);
}

/* ---- bert: WordPiece ---- */

/* Converters write words' first pieces with a mark and continuations bare; some files keep the
 * original "##". */
static bool hashes_used(const gy_tok_gguf *f) {
    for (int i = 0; i < f->n; i++) {
        if (f->token[i].n > 2 && !memcmp(f->token[i].s, MARK, 3)) return false;
    }
    return true;
}

static gy_rc wordpiece_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    bool hashes = hashes_used(f);
    int32_t unk = gy_vocab_find(&t->vocab, "[UNK]", 5);
    t->model = GY_TOK_WORDPIECE;
    t->wp.max_chars = -1;
    t->wp.unk = f->unk >= 0 && f->unk < f->n ? f->unk : unk;
    t->wp.start = gy_strdup(hashes ? "" : MARK), t->wp.more = gy_strdup(hashes ? "##" : "");
    gy_rc rc = t->wp.start && t->wp.more ? GY_OK : gy_tok_oom(err);
    if (!rc) {
        rc = norm_set(
            t,
            "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
            "\"strip_accents\":null,\"lowercase\":true}",
            err);
    }
    if (!rc) rc = pretok_set(t, "{\"type\":\"BertPreTokenizer\"}", err);
    if (!rc && hashes)
        rc = decoder_set(t, "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false}", err);
    if (!rc && !hashes) {
        rc = decoder_set(
            t,
            "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
            "\"" MARK "\"},\"content\":\" "
            "\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"
            "\"stop\":0}]}",
            err);
    }
    if (rc) return rc;
    int32_t cls = f->cls >= 0 ? f->cls : f->bos, sep = f->sep >= 0 ? f->sep : f->eos;
    return ends_set(t, f, cls, sep, true, true, err);
}

/* ---- The whole ---- */

static gy_rc model_set(gy_tok *t, const gy_tok_gguf *f, gy_err *err) {
    static const struct {
        const char *name;
        gy_rc (*set)(gy_tok *, const gy_tok_gguf *, gy_err *);
    } model[] = {{"gpt2", bpe_set},
                 {"llama", spm_set},
                 {"t5", unigram_set},
                 {"bert", wordpiece_set},
                 {"gemma4", marked_bpe_set}};
    for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
        if (str_is(f->model, model[i].name)) return model[i].set(t, f, err);
    }
    char q[64];
    return gy_fail(err, GY_EUNSUPPORTED,
                   "tokenizer.ggml.model: \"%s\" is not gpt2, llama, t5, bert or gemma4",
                   gy_err_quote(q, f->model.s, f->model.n));
}

gy_rc gy_tok_open_gguf(const gy_tok_gguf *f, gy_tok **out, gy_err *err) {
    if (f->n < 0 || f->n > GY_TOK_MAX_IDS || f->n_merges < 0) {
        return gy_fail(err, GY_ELIMIT, "tokenizer.ggml.tokens: %d tokens, at most %d", f->n,
                       GY_TOK_MAX_IDS);
    }
    gy_tok *t = gy_alloc(sizeof *t);
    if (!t) return gy_tok_oom(err);
    t->bos = t->eos = t->bpe.unk = t->uni.unk = t->wp.unk = -1;
    gy_rc rc = vocab_set(t, f, err);
    if (!rc) rc = added_set(t, f, err);
    if (!rc) rc = model_set(t, f, err);
    if (!rc) rc = gy_tok_ready(t, err);
    if (rc) {
        gy_tok_free(t);
        return rc;
    }
    *out = t;
    return GY_OK;
}
