/* The compiled copy of a tokenizer.json: the large arrays as they are in memory, so that opening is
 * one read.
 *
 *     header | text | name | slot | pair | joint | score | edge | value | rest      each at a
 * multiple of 64 bytes
 *
 * The file is DIR/tok-HASH-BYTES.gyt, named by its source. It is used when format, sizes and both
 * hashes (of the source, of its own bytes) agree; since hashes do not stop whoever writes into the
 * folder, every index inside is checked as well, so that a forged copy can give wrong ids but no
 * access outside. It is read, not mapped: a copy that shrinks meanwhile must not kill the process.
 * Whatever is wrong, the tokenizer is built again and the copy replaced. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fmap.h"
#include "base/hash.h"
#include "text/tok_in.h"

enum { TEXT, NAME, SLOT, PAIR, JOINT, SCORE, EDGE, VALUE, REST, PARTS };
enum { FORMAT = 1 };
static const char magic[8] = "gyretok";

typedef struct {
    char magic[8];
    uint32_t format, sizes; /* sizes: of the structs inside */
    gy_tok_source source;
    uint64_t hash; /* of everything behind the header */
    uint64_t at[PARTS], bytes[PARTS];
    int32_t names, foreign;
    uint32_t nodes, pad;
} header;

static uint32_t struct_sizes(void) {
    return (uint32_t)(sizeof(gy_name) | sizeof(gy_vocab_slot) << 6 | sizeof(gy_bpe_pair) << 12 |
                      sizeof(gy_trie_edge) << 18 | (sizeof(header) / 8) << 24);
}

static void path_make(char *path, size_t n, const char *dir, gy_tok_source source,
                      const char *end) {
    snprintf(path, n, "%s/tok-%016llx-%llu.gyt%s", dir, (unsigned long long)source.hash,
             (unsigned long long)source.bytes, end);
}

/* ---- Loading ---- */

/* The whole file in 64-byte aligned memory. */
static char *image_read(const char *path, size_t *n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *p = NULL;
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(header) &&
        st.st_size < 1 << 30) {
        *n = (size_t)st.st_size;
        p = aligned_alloc(64,
                          (*n + 63) / 64 * 64); /* not gy_alloc_aligned: 25 MB need no zeroing */
        size_t got = 0;
        while (p && got < *n) {
            ssize_t k = read(fd, p + got, *n - got);
            if (k <= 0) break;
            got += (size_t)k;
        }
        if (p && got < *n) gy_free(p), p = NULL;
    }
    if (fd >= 0) close(fd);
    return p;
}

static bool header_good(const header *h, size_t n, gy_tok_source source) {
    if (memcmp(h->magic, magic, sizeof magic) || h->format != FORMAT || h->sizes != struct_sizes())
        return false;
    if (h->source.bytes != source.bytes || h->source.hash != source.hash) return false;
    for (int i = 0; i < PARTS; i++) {
        if (h->at[i] % 64 || h->at[i] < sizeof *h || h->at[i] > n || h->bytes[i] > n - h->at[i])
            return false;
    }
    return gy_hash64((const char *)h + sizeof *h, n - sizeof *h, FORMAT) == h->hash;
}

/* Entries of a hash table: a power of two. */
static bool table_mask(uint64_t bytes, size_t each, uint32_t *mask) {
    uint64_t count = bytes / each;
    if (bytes % each || !count || count & (count - 1) || count > 1u << 28) return false;
    *mask = (uint32_t)count - 1;
    return true;
}

static bool vocab_good(gy_vocab *v, const header *h, char *image) {
    if (h->names < 0 || h->names > 2 * GY_TOK_MAX_IDS ||
        h->bytes[NAME] != (uint64_t)h->names * sizeof(gy_name))
        return false;
    if (!table_mask(h->bytes[SLOT], sizeof(gy_vocab_slot), &v->mask) || h->bytes[TEXT] > UINT32_MAX)
        return false;
    v->text = image + h->at[TEXT], v->text_bytes = h->bytes[TEXT];
    v->name = (gy_name *)(void *)(image + h->at[NAME]), v->n = h->names;
    v->slot = (gy_vocab_slot *)(void *)(image + h->at[SLOT]);
    bool good = true, empty = false;
    for (int i = 0; i < v->n; i++) {
        const gy_name *name = &v->name[i];
        good &= name->at == GY_NAME_NONE || (uint64_t)name->at + name->n <= v->text_bytes;
    }
    for (uint32_t i = 0; i <= v->mask; i++) {
        int32_t id = v->slot[i].id;
        empty |= id < 0;
        good &= id < 0 || (id < v->n && v->name[id].at != GY_NAME_NONE);
    }
    return good && empty; /* a table without an empty slot would be searched for ever */
}

static bool pairs_good(gy_bpe *m, const gy_vocab *v, const header *h, char *image) {
    m->foreign = h->foreign != 0;
    if (h->bytes[JOINT]) {
        if (h->bytes[JOINT] != GY_BPE_JOINT_BITS / 8) return false;
        m->joint = (uint64_t *)(void *)(image + h->at[JOINT]);
    }
    if (!h->bytes[PAIR]) return true;
    if (!table_mask(h->bytes[PAIR], sizeof(gy_bpe_pair), &m->pair_mask)) return false;
    m->pair = (gy_bpe_pair *)(void *)(image + h->at[PAIR]);
    bool good = true, empty = false;
    uint32_t n = (uint32_t)v->n;
    for (uint32_t i = 0; i <= m->pair_mask; i++) {
        const gy_bpe_pair *p = &m->pair[i];
        bool none = !p->a;
        empty |= none;
        good &= none || (p->a - 1 < n && p->b < n && (uint32_t)p->id < n);
    }
    return good && empty;
}

static bool trie_good(gy_trie *t, const gy_vocab *v, const header *h, char *image) {
    if (!h->bytes[EDGE]) return true;
    t->nodes = h->nodes;
    if (!t->nodes || h->bytes[VALUE] != (uint64_t)t->nodes * sizeof(int32_t)) return false;
    if (!table_mask(h->bytes[EDGE], sizeof(gy_trie_edge), &t->mask)) return false;
    t->edge = (gy_trie_edge *)(void *)(image + h->at[EDGE]);
    t->value = (int32_t *)(void *)(image + h->at[VALUE]);
    bool good = true, empty = false;
    for (uint32_t i = 0; i <= t->mask; i++) {
        empty |= !t->edge[i].child;
        good &= t->edge[i].child < t->nodes;
    }
    for (uint32_t i = 0; i < t->nodes; i++) good &= t->value[i] < v->n;
    return good && empty;
}

bool gy_tok_cache_load(gy_tok *tok, const char *dir, gy_tok_source source, char **rest,
                       size_t *rest_bytes) {
    char path[4096];
    size_t n;
    path_make(path, sizeof path, dir, source, "");
    char *image = image_read(path, &n);
    if (!image) return false;
    const header *h = (const header *)(const void *)image;
    gy_vocab v = {0};
    gy_bpe m = {.unk = -1};
    gy_uni u = {.unk = -1};
    bool good = header_good(h, n, source) && vocab_good(&v, h, image) &&
                pairs_good(&m, &v, h, image) && trie_good(&u.trie, &v, h, image);
    if (good && h->bytes[SCORE]) {
        good = h->bytes[SCORE] == (uint64_t)v.n * sizeof(double) && u.trie.edge;
        u.score = (double *)(void *)(image + h->at[SCORE]);
    }
    if (good) *rest = gy_strndup(image + h->at[REST], h->bytes[REST]), good = *rest != NULL;
    if (!good) {
        gy_free(image);
        return false;
    }
    *rest_bytes = h->bytes[REST];
    tok->vocab = v, tok->bpe = m, tok->uni = u, tok->image = image;
    return true;
}

/* ---- Saving ---- */

static bool all_write(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k <= 0) return false;
        p += k, n -= (size_t)k;
    }
    return true;
}

static void part_set(header *h, const void *part[PARTS], int i, const void *p, size_t bytes) {
    part[i] = p, h->bytes[i] = p ? bytes : 0;
}

static char *image_make(const gy_tok *t, gy_tok_source source, const char *rest, size_t rest_bytes,
                        size_t *bytes) {
    header h = {.format = FORMAT,
                .sizes = struct_sizes(),
                .source = source,
                .names = t->vocab.n,
                .foreign = t->bpe.foreign};
    const void *part[PARTS];
    const gy_vocab *v = &t->vocab;
    const gy_trie *trie = &t->uni.trie;
    memcpy(h.magic, magic, sizeof magic);
    h.nodes = trie->nodes;
    part_set(&h, part, TEXT, v->text, v->text_bytes);
    part_set(&h, part, NAME, v->name, (size_t)v->n * sizeof *v->name);
    part_set(&h, part, SLOT, v->slot, ((size_t)v->mask + 1) * sizeof *v->slot);
    part_set(&h, part, PAIR, t->bpe.pair, ((size_t)t->bpe.pair_mask + 1) * sizeof *t->bpe.pair);
    part_set(&h, part, JOINT, t->bpe.joint, GY_BPE_JOINT_BITS / 8);
    part_set(&h, part, SCORE, t->uni.score, (size_t)v->n * sizeof *t->uni.score);
    part_set(&h, part, EDGE, trie->edge, ((size_t)trie->mask + 1) * sizeof *trie->edge);
    part_set(&h, part, VALUE, trie->value, trie->nodes * sizeof *trie->value);
    part_set(&h, part, REST, rest, rest_bytes);
    size_t at = (sizeof h + 63) / 64 * 64;
    for (int i = 0; i < PARTS; i++) {
        h.at[i] = at;
        at += (h.bytes[i] + 63) / 64 * 64;
    }
    char *image = gy_alloc(at);
    if (!image) return NULL;
    for (int i = 0; i < PARTS; i++) {
        if (h.bytes[i]) memcpy(image + h.at[i], part[i], h.bytes[i]);
    }
    h.hash = gy_hash64(image + sizeof h, at - sizeof h, FORMAT);
    memcpy(image, &h, sizeof h);
    *bytes = at;
    return image;
}

void gy_tok_cache_save(const gy_tok *tok, const char *dir, gy_tok_source source, const char *rest,
                       size_t rest_bytes) {
    char path[4096], temp[4096 + 32];
    size_t n = 0;
    if (strlen(dir) > 3900) return;
    char *image = image_make(tok, source, rest, rest_bytes, &n);
    if (!image) return;
    path_make(path, sizeof path, dir, source, "");
    (void)gy_file_parents(path, NULL); /* opening the file tells */
    path_make(temp, sizeof temp, dir, source, ".XXXXXX");
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd >= 0) {
        /* mkostemp makes it readable for its owner alone, which is what a cache needs. */
        bool ok = all_write(fd, image, n);
        ok &= !close(fd);
        if (!ok || rename(temp, path)) unlink(temp);
    }
    gy_free(image);
}
