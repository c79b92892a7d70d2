#include "base/utf8.h"
#include "text/tok_in.h"

gy_rc gy_tok_oom(gy_err *err) {
    return gy_fail(err, GY_ENOMEM, "tokenizer: out of memory");
}

bool gy_ids_need(gy_ids *ids, size_t more) {
    size_t want = (size_t)ids->n + more;
    if (want <= (size_t)ids->cap) return true;
    if (want > INT32_MAX / 2) return false;
    size_t cap = ids->cap ? (size_t)ids->cap * 2 : 64;
    if (cap < want) cap = want;
    int32_t *id = gy_realloc(ids->id, cap * sizeof *id);
    if (!id) return false;
    ids->id = id, ids->cap = (int)cap;
    return true;
}

int gy_tok_byte_name(const char *s, size_t n) {
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>') return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        int c = s[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

bool gy_tok_fallback(const gy_vocab *v, int32_t id[256]) {
    static const char digit[] = "0123456789ABCDEF";
    bool whole = true;
    for (int c = 0; c < 256; c++) {
        char s[6] = {'<', '0', 'x', digit[c >> 4], digit[c & 15], '>'};
        id[c] = gy_vocab_find(v, s, 6);
        if (id[c] < 0) whole = false;
    }
    return whole;
}

void gy_vocab_add(gy_vocab_new *b, size_t at, int64_t id) {
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 4096;
        gy_vocab_entry *e = gy_realloc(b->entry, cap * sizeof *e);
        if (!e) {
            b->oom = true;
            return;
        }
        b->entry = e, b->cap = cap;
    }
    size_t n = b->text.n - at;
    /* Ids out of range are kept so that build can refuse them by number. */
    int32_t id32 = id < 0 || id >= GY_TOK_MAX_IDS ? -1 : (int32_t)id;
    uint32_t at32 = b->text.n < UINT32_MAX ? (uint32_t)at : GY_NAME_NONE;
    b->entry[b->n++] = (gy_vocab_entry){at32, (uint32_t)n, gy_tok_hash(b->text.p + at, n), id32};
}

/* Highest id + 1. A few holes are normal; a huge id in a small vocabulary would only take memory.
 */
static gy_rc ids_count(const gy_vocab_new *b, int *n, gy_err *err) {
    int32_t top = -1;
    for (size_t i = 0; i < b->n; i++) {
        const gy_vocab_entry *e = &b->entry[i];
        if (e->at == GY_NAME_NONE)
            return gy_fail(err, GY_ELIMIT, "tokenizer: names take 4 GiB or more");
        if (e->id < 0 || (size_t)e->id >= b->n + (1 << 20)) {
            char q[64];
            return gy_fail(err, GY_EFORMAT, "tokenizer: vocab: id of \"%s\" is outside 0 to %zu",
                           gy_err_quote(q, b->text.p + e->at, e->n), b->n + (1 << 20) - 1);
        }
        if (e->id > top) top = e->id;
    }
    *n = top + 1;
    return GY_OK;
}

/* Returns false when a chain of probes is longer than chance makes it: names chosen to collide. */
static bool slot_put(gy_vocab *v, const gy_vocab_entry *e) {
    int probes = 0;
    for (uint32_t i = e->hash & v->mask;; i = (i + 1) & v->mask) {
        gy_vocab_slot *s = &v->slot[i];
        if (s->id < 0) {
            *s = (gy_vocab_slot){e->hash, e->id};
            return true;
        }
        const gy_name *name = &v->name[s->id];
        if (s->hash == e->hash && name->n == e->n &&
            !memcmp(v->text + name->at, v->text + e->at, e->n)) {
            s->id = e->id;
            return true;
        }
        if (++probes > 4096) return false;
    }
}

static gy_rc table_fill(gy_vocab *v, const gy_vocab_new *b, gy_err *err) {
    uint32_t size = gy_tok_table_size(b->n);
    v->name = gy_alloc_n((size_t)v->n + 1, sizeof *v->name);
    v->slot = gy_alloc_n(size, sizeof *v->slot);
    if (!v->name || !v->slot) return gy_tok_oom(err);
    v->mask = size - 1;
    for (int i = 0; i < v->n; i++) v->name[i].at = GY_NAME_NONE;
    for (uint32_t i = 0; i < size; i++) v->slot[i].id = -1;
    for (size_t i = 0; i < b->n; i++) {
        const gy_vocab_entry *e = &b->entry[i];
        if (i + 16 < b->n) __builtin_prefetch(&v->slot[b->entry[i + 16].hash & v->mask], 1);
        v->name[e->id] = (gy_name){e->at, e->n};
        if (!slot_put(v, e))
            return gy_fail(err, GY_ELIMIT, "tokenizer: vocab: too many names with one hash");
    }
    return GY_OK;
}

gy_rc gy_vocab_build(gy_vocab *v, gy_vocab_new *b, gy_err *err) {
    gy_rc rc = b->oom || b->text.oom ? gy_tok_oom(err) : ids_count(b, &v->n, err);
    if (!rc) {
        v->text_bytes = b->text.n;
        v->text = gy_buf_take(&b->text, NULL);
        if (!v->text && v->text_bytes) rc = gy_tok_oom(err);
    }
    if (!rc) rc = table_fill(v, b, err);
    gy_buf_free(&b->text);
    gy_free(b->entry);
    *b = (gy_vocab_new){0};
    return rc;
}

void gy_vocab_free(gy_vocab *v) {
    gy_free(v->text);
    gy_free(v->name);
    gy_free(v->slot);
    *v = (gy_vocab){0};
}
