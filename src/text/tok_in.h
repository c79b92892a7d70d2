/* text/tok_in - what the files of the tokenizer share; nothing outside text/tok*.c, bpe.c,
 * unigram.c, wordpiece.c, added.c, post.c, decoder.c and detok.c includes it.
 *
 *     gy_tok
 *       added      names cut out of the raw and of the normalised text    added.c
 *       norm       text to text                                           normalize.h
 *       pretok     text to pieces                                         pretok.h
 *       vocab      names <-> ids: text | name[id] = span | slot[hash]     tok_vocab.c
 *       bpe        a piece to ids; also uni and wp (wordpiece)            bpe.c
 *       post       ids before and after                                   post.c
 *       decoder    names to text, steps through which tokens stream       decoder.c
 *
 * The large arrays (vocab, pairs of bpe, trie of uni) are each allocated by themselves, or all lie
 * inside image, the bytes of a compiled copy (tok_cache.c). Everything is constant once open, but
 * for the cache of words, which is lock-free. */
#ifndef GY_TEXT_TOK_IN_H
#define GY_TEXT_TOK_IN_H

#include "base/mem.h"
#include "text/normalize.h"
#include "text/pretok.h"
#include "text/regex.h"
#include "text/tok.h"

/* An added token is looked for at every byte of a text, so its length bounds that work. */
enum { GY_TOK_MAX_IDS = 1 << 24, GY_TOK_MAX_NAME = 1 << 20, GY_TOK_MAX_ADDED = 4096 };

/* ---- Names (tok_vocab.c) ---- */

#define GY_NAME_NONE UINT32_MAX
typedef struct {
    uint32_t at, n; /* bytes of text; at is GY_NAME_NONE where no name has this id */
} gy_name;
typedef struct {
    uint32_t hash;
    int32_t id; /* -1: empty */
} gy_vocab_slot;
typedef struct {
    char *text; /* [text_bytes] all names, one after the other */
    size_t text_bytes;
    gy_name *name;       /* [n] */
    int n;               /* highest id + 1 */
    gy_vocab_slot *slot; /* [mask + 1], at most half full */
    uint32_t mask;
} gy_vocab;

/* Names on the way in; text grows, entries in order of arrival; the last of equal names wins. */
typedef struct {
    uint32_t at, n, hash;
    int32_t id;
} gy_vocab_entry;
typedef struct {
    gy_buf text;
    gy_vocab_entry *entry; /* [n] */
    size_t n, cap;
    bool oom;
} gy_vocab_new;

/* Adds the bytes that were appended to b->text since at as the name of id. */
void gy_vocab_add(gy_vocab_new *b, size_t at, int64_t id);
/* Makes the table and takes b's memory; b is empty afterwards, also on failure. */
gy_rc gy_vocab_build(gy_vocab *v, gy_vocab_new *b, gy_err *err);
void gy_vocab_free(gy_vocab *v);

static inline uint64_t gy_tok_load64(const char *s) {
    uint64_t x;
    memcpy(&x, s, 8);
    return x;
}

static inline uint64_t gy_tok_mix(uint64_t a, uint64_t b) {
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Hash of a name or word; never reads outside s[n]. */
static inline uint32_t gy_tok_hash(const char *s, size_t n) {
    uint64_t h = n * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du, x = 0;
    for (; n >= 8; s += 8, n -= 8) h = gy_tok_mix(h ^ gy_tok_load64(s), 0xD6E8FEB86659FD93u);
    if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, s, 4), memcpy(&b, s + n - 4, 4);
        x = (uint64_t)a << 32 | b;
    } else if (n) {
        x = (uint64_t)(uint8_t)s[0] << 16 | (uint64_t)(uint8_t)s[n / 2] << 8 | (uint8_t)s[n - 1];
    }
    h = gy_tok_mix(h ^ x, 0xA0761D6478BD642Fu);
    return (uint32_t)(h ^ h >> 32);
}

static inline int32_t gy_vocab_find_hash(const gy_vocab *v, const char *s, size_t n,
                                         uint32_t hash) {
    if (!v->slot) return -1;
    for (uint32_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        int32_t id = v->slot[i].id;
        if (id < 0) return -1;
        const gy_name *name = &v->name[id];
        if (v->slot[i].hash == hash && name->n == n && !memcmp(v->text + name->at, s, n)) return id;
    }
}
static inline int32_t gy_vocab_find(const gy_vocab *v, const char *s, size_t n) {
    return gy_vocab_find_hash(v, s, n, gy_tok_hash(s, n));
}
static inline const char *gy_vocab_name(const gy_vocab *v, int32_t id, size_t *n) {
    if (id < 0 || id >= v->n || v->name[id].at == GY_NAME_NONE) return NULL;
    *n = v->name[id].n;
    return v->text + v->name[id].at;
}

/* Whether more bytes could make s[n], n >= 1, one well-formed character. */
static inline bool gy_tok_unfinished(const char *s, size_t n) {
    uint8_t a = (uint8_t)s[0];
    size_t need = a >= 0xC2 && a <= 0xDF   ? 2
                  : (a & 0xF0) == 0xE0     ? 3
                  : a >= 0xF0 && a <= 0xF4 ? 4
                                           : 0;
    if (n >= need) return false;
    uint8_t lo = a == 0xE0   ? 0xA0
                 : a == 0xF0 ? 0x90
                             : 0x80,
            hi = a == 0xED   ? 0x9F
                 : a == 0xF4 ? 0x8F
                             : 0xBF;
    for (size_t i = 1; i < n; i++, lo = 0x80, hi = 0xBF) {
        if ((uint8_t)s[i] < lo || (uint8_t)s[i] > hi) return false;
    }
    return true;
}

/* Smallest power of two that is at least twice n. */
static inline uint32_t gy_tok_table_size(size_t n) {
    uint32_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
}

/* ---- A trie over bytes, its edges in one hash table (tok_trie.c) ---- */

typedef struct {
    uint32_t key;   /* node << 8 | byte */
    uint32_t child; /* 0: empty (the root is nobody's child) */
} gy_trie_edge;
typedef struct {
    gy_trie_edge *edge; /* [mask + 1] */
    int32_t *value;     /* [nodes] -1: no word ends here */
    uint32_t mask, nodes, cap;
} gy_trie;

gy_rc gy_trie_init(gy_trie *t, size_t bytes_hint, gy_err *err);
/* Keeps the first value of equal words. */
gy_rc gy_trie_add(gy_trie *t, const char *s, size_t n, int32_t value, gy_err *err);
void gy_trie_free(gy_trie *t);

static inline uint32_t gy_trie_slot(uint32_t key) {
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}
/* The node after byte c of node, or 0. */
static inline uint32_t gy_trie_next(const gy_trie *t, uint32_t node, uint8_t c) {
    uint32_t key = node << 8 | c;
    for (uint32_t i = gy_trie_slot(key) & t->mask;; i = (i + 1) & t->mask) {
        if (!t->edge[i].child) return 0;
        if (t->edge[i].key == key) return t->edge[i].child;
    }
}

/* ---- Working memory of one call ---- */

typedef struct {
    int32_t id, prev, next; /* id -1: text without a name; next -1: the last */
    uint32_t at, n;         /* bytes of the piece; n 0: merged into its left neighbour */
} gy_bpe_sym;
typedef struct {
    uint32_t rank, pos;
    int32_t id;
} gy_bpe_step;
typedef struct {
    gy_buf clean, normal, mapped, word;
    gy_pieces pieces;
    gy_bpe_sym *sym;   /* [sym_cap] */
    gy_bpe_step *heap; /* [heap_cap] */
    size_t sym_cap, heap_cap;
    void *path; /* [path_cap] bytes: the best paths of Unigram */
    size_t path_cap;
} gy_tok_work;

bool gy_ids_need(gy_ids *ids, size_t more);
static inline bool gy_ids_add(gy_ids *ids, int32_t id) {
    if (ids->n >= ids->cap && !gy_ids_need(ids, 1)) return false;
    ids->id[ids->n++] = id;
    return true;
}
gy_rc gy_tok_oom(gy_err *err); /* GY_ENOMEM */

/* ---- BPE (bpe.c) ---- */

typedef struct {
    uint32_t a, b; /* ids; in the table a + 1, so that zeroed slots are empty */
    uint32_t rank;
    int32_t id; /* of the joined name */
} gy_bpe_pair;
typedef struct gy_words gy_words;
enum { GY_BPE_JOINT_BITS = 1 << 19 };
typedef struct {
    gy_bpe_pair *pair; /* [pair_mask + 1], at most half full */
    uint32_t pair_mask;
    uint64_t *
        joint; /* bitset [GY_BPE_JOINT_BITS]: hashes of the character pairs that a merge can join */
    bool foreign; /* a merge has <0xNN> or the unknown token as an operand: joint does not tell */
    uint32_t
        *key; /* [vocab.n] or NULL: instead of pairs, two neighbours join when their text is a name,
               * smallest key first (sentencepiece); UINT32_MAX: this name is not for text */
    uint32_t longest;      /* bytes of the longest name; with key */
    int32_t byte_id[256];  /* id of a byte's character of the ByteLevel alphabet, -1 without */
    int32_t ascii_id[128]; /* id of an ASCII character */
    int32_t fallback[256]; /* id of <0xNN>, -1 without */
    bool bytes_whole, fallback_whole; /* no -1 in byte_id, fallback */
    bool byte_fallback, fuse_unk, ignore_merges, cut;
    bool unk_missing; /* unk_token is stated but no name */
    int32_t unk;
    char *prefix, *suffix; /* continuing_subword_prefix, end_of_word_suffix; NULL when empty */
    size_t prefix_bytes, suffix_bytes;
    gy_words *words;
} gy_bpe;

/* After pairs or keys and options are set: the tables that follow from them, and the cache of
 * words. */
gy_rc gy_bpe_ready(gy_bpe *m, const gy_vocab *v, gy_err *err);
/* Builds the table of pairs from merge[n], in order of rank (rank is set here); the last of equal
 * pairs wins. */
gy_rc gy_bpe_pairs(gy_bpe *m, const gy_bpe_pair *merge, size_t n, gy_err *err);
/* Notes in joint that a merge joins the names a[na] and b[nb]; does nothing for models whose pieces
 * are not cut. */
void gy_bpe_joint(gy_bpe *m, const char *a, size_t na, int32_t id_a, const char *b, size_t nb,
                  int32_t id_b);
gy_rc gy_bpe_joint_new(gy_bpe *m, gy_err *err);
/* Builds key and joint from scores. usable[id] false: a name that text never gives. */
gy_rc gy_bpe_scores(gy_bpe *m, const gy_vocab *v, const float *score, const bool *usable,
                    gy_err *err);
gy_rc gy_bpe_piece(const gy_bpe *m, const gy_vocab *v, const char *s, size_t n, bool bytes,
                   gy_tok_work *w, gy_ids *out, gy_err *err);
void gy_bpe_free(gy_bpe *m);

/* ---- The cache of words (tok_words.c): short pieces to ids, shared by all threads without locks
 * ---- */

enum { GY_WORD_BYTES = 32, GY_WORD_IDS = 6 };
gy_words *gy_words_new(void);
void gy_words_free(gy_words *w);
/* Appends the ids of s[n], n <= GY_WORD_BYTES, if they are known. */
bool gy_words_get(const gy_words *w, const char *s, size_t n, gy_ids *out);
void gy_words_put(gy_words *w, const char *s, size_t n, const int32_t *id, int ids);

/* ---- Unigram (unigram.c) ---- */

typedef struct {
    double *score; /* [vocab.n] */
    gy_trie trie;
    double unk_score;
    int32_t unk; /* -1 when absent */
    int32_t fallback[256];
    bool byte_fallback;
} gy_uni;

/* From vocab and score; usable NULL or [vocab.n]: names that text can give. */
gy_rc gy_uni_build(gy_uni *u, const gy_vocab *v, const bool *usable, gy_err *err);
/* What follows from the tables. */
void gy_uni_ready(gy_uni *u, const gy_vocab *v);
gy_rc gy_uni_piece(const gy_uni *u, const gy_vocab *v, const char *s, size_t n, gy_tok_work *w,
                   gy_ids *out, gy_err *err);

/* ---- WordPiece and WordLevel (wordpiece.c) ---- */

typedef struct {
    char *start, *more; /* prefix of a word's first and of its other pieces; never NULL */
    int64_t max_chars;
    size_t longest; /* bytes of the longest name */
    int32_t unk;    /* -1 when absent */
} gy_wordpiece;

gy_rc gy_wordpiece_piece(const gy_wordpiece *m, const gy_vocab *v, const char *s, size_t n,
                         gy_tok_work *w, gy_ids *out, gy_err *err);
gy_rc gy_wordlevel_piece(const gy_wordpiece *m, const gy_vocab *v, const char *s, size_t n,
                         gy_ids *out, gy_err *err);

/* ---- Added tokens (added.c) ---- */

typedef struct {
    const char *s; /* [n] in arena */
    uint32_t n, shown_n;
    const char *shown; /* [shown_n] what decoding gives: normalised when the token is, as in the
                          reference */
    int32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
} gy_added_token;
typedef struct {
    gy_trie trie;        /* value: index of a token */
    uint64_t pair[1024]; /* bitset: the first two bytes of some token */
    uint64_t single[4];  /* bitset: tokens of one byte */
    int n;
} gy_added_set;
typedef struct {
    gy_arena arena;
    gy_added_token *token; /* [n] */
    int n, cap;
    gy_trie names;  /* value: index of a token */
    int32_t *of_id; /* [ids]: index of a token, or -1 */
    int ids;
    gy_added_set raw, normal;
} gy_added;
typedef struct {
    int token;        /* index */
    size_t at, end;   /* of the text, whitespace that the token takes included */
    size_t found_end; /* where the search goes on */
} gy_added_match;

/* Adds a token; equal contents are added once. id -1: the id that the vocabulary or the next free
 * number gives. */
gy_rc gy_added_add(gy_added *a, const gy_vocab *v, const gy_added_token *t, gy_err *err);
/* After all were added: the tables that find them. */
gy_rc gy_added_ready(gy_added *a, const gy_norm *norm, gy_err *err);
/* The first match that starts at or after from; text before start (0 <= start <= from) belongs to
 * matches. */
bool gy_added_next(const gy_added *a, const gy_added_set *set, const char *s, size_t n,
                   size_t start, size_t from, bool plain, gy_added_match *m);
static inline const gy_added_token *gy_added_by_id(const gy_added *a, int32_t id) {
    return id >= 0 && id < a->ids && a->of_id && a->of_id[id] >= 0 ? &a->token[a->of_id[id]] : NULL;
}
const gy_added_token *gy_added_by_name(const gy_added *a, const char *s, size_t n);
void gy_added_free(gy_added *a);

/* ---- Post-processing (post.c) ---- */

typedef struct {
    gy_ids before, after;
    int32_t first; /* the first of before as the file says, -1 without: a begin token if nothing
                      else names one */
} gy_post;
gy_rc gy_post_new(gy_post *p, const gy_json *post_processor, const gy_tok *tok, gy_err *err);
/* add_bos, add_eos: 1 0 or -1 (as the file says). */
gy_rc gy_post_override(gy_post *p, int add_bos, int32_t bos, int add_eos, int32_t eos, gy_err *err);
void gy_post_free(gy_post *p);

/* ---- Decoding (decoder.c) ---- */

typedef enum {
    GY_DEC_JOIN,
    GY_DEC_BYTELEVEL,
    GY_DEC_REPLACE,
    GY_DEC_REPLACE_RE,
    GY_DEC_FALLBACK,
    GY_DEC_FUSE,
    GY_DEC_STRIP,
    GY_DEC_METASPACE,
    GY_DEC_WORDPIECE,
    GY_DEC_BPE
} gy_dec_kind;
typedef struct {
    uint8_t kind;    /* gy_dec_kind */
    bool fused;      /* the input is one token that arrives in parts */
    bool flag;       /* METASPACE: drop what the first token starts with; WORDPIECE: clean up */
    char *from, *to; /* REPLACE: pattern, content; STRIP: content; METASPACE: replacement;
                        WORDPIECE: prefix; BPE: suffix */
    size_t from_bytes, to_bytes;
    int64_t start, stop; /* STRIP */
    gy_regex *re;
} gy_dec_step;
enum { GY_DEC_STEPS = 16 };
typedef struct {
    gy_dec_step step[GY_DEC_STEPS];
    int n;
} gy_decoder;
gy_rc gy_decoder_new(gy_decoder *d, const gy_json *decoder, gy_err *err);
/* Appends the bytes of a name in the middle of a text. */
void gy_decoder_bytes(const gy_decoder *d, const char *s, size_t n, gy_buf *out);
void gy_decoder_free(gy_decoder *d);

/* One text being decoded. sink gets valid UTF-8, except that bytes from ByteLevel pass as they are.
 */
typedef struct {
    const gy_decoder *d;
    struct {
        gy_buf tmp, held;
        uint64_t tokens; /* seen by this step */
        int64_t cut;     /* STRIP: removed at the start; -1 when that is over */
    } at[GY_DEC_STEPS];
    uint8_t part[4]; /* FALLBACK: bytes of an unfinished character */
    int parts;
    void (*sink)(void *arg, const char *s, size_t n);
    void *arg;
    bool oom;
} gy_dec_run;
void gy_dec_push(gy_dec_run *r, const char *s, size_t n); /* a whole token's name */
void gy_dec_end(gy_dec_run *r);
void gy_dec_free(gy_dec_run *r);

/* ---- The whole ---- */

typedef enum { GY_TOK_BPE, GY_TOK_UNIGRAM, GY_TOK_WORDPIECE, GY_TOK_WORDLEVEL } gy_tok_model;
struct gy_tok {
    uint8_t model; /* gy_tok_model */
    gy_vocab vocab;
    gy_bpe bpe;
    gy_uni uni;
    gy_wordpiece wp;
    gy_added added;
    gy_norm *norm;
    gy_pretok *pretok;
    gy_post post;
    gy_decoder decoder;
    int size; /* highest id + 1 */
    int32_t bos, eos;
    void *image; /* see above; NULL: the arrays are their own */
};

/* Sets size and whatever else follows from the parts; to be called last when opening. */
gy_rc gy_tok_ready(gy_tok *tok, gy_err *err);
/* <0xNN> -> NN, -1 for other names. */
int gy_tok_byte_name(const char *s, size_t n);
/* The ids of <0x00> to <0xFF>, -1 without; true when all exist. */
bool gy_tok_fallback(const gy_vocab *v, int32_t id[256]);

/* ---- tokenizer.json in parts (tok_scan.c): the large arrays are read straight from the text ----
 */

typedef struct {
    gy_name a, b; /* see tok_scan.c */
} gy_tok_merge;
typedef struct {
    const char *text; /* the file's */
    gy_vocab_new names;
    double *score;       /* [names.n] when vocab is a list of (name, score) */
    gy_tok_merge *merge; /* [merges] */
    size_t merges;
    gy_buf escaped;
    bool vocab, scored,
        has_merges; /* model.vocab is there, is such a list; model.merges is there */
} gy_tok_scan;

/* Reads vocab and merges; the text of everything else goes to rest. text must live as long as s. */
gy_rc gy_tok_scan_open(gy_tok_scan *s, const char *text, size_t n, gy_buf *rest, gy_err *err);
/* Gives the merges to m, whose options are set; needs the finished vocabulary. */
gy_rc gy_tok_scan_merges(const gy_tok_scan *s, const gy_vocab *v, gy_bpe *m, gy_err *err);
void gy_tok_scan_free(gy_tok_scan *s);

/* ---- The compiled copy (tok_cache.c) ---- */

typedef struct {
    uint64_t bytes, hash;
} gy_tok_source;
/* Loads the large arrays and the rest's JSON text (gy_free) from dir; false when there is no usable
 * copy. */
bool gy_tok_cache_load(gy_tok *tok, const char *dir, gy_tok_source source, char **rest,
                       size_t *rest_bytes);
/* Best effort: failure leaves no file behind and is silent, since the copy is only a short cut. */
void gy_tok_cache_save(const gy_tok *tok, const char *dir, gy_tok_source source, const char *rest,
                       size_t rest_bytes);

#endif
