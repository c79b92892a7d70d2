#include "text/tok_in.h"

static gy_rc edges_resize(gy_trie *t, uint32_t size, gy_err *err) {
    gy_trie_edge *edge = gy_alloc_n(size, sizeof *edge);
    if (!edge) return gy_tok_oom(err);
    for (uint32_t i = 0; t->edge && i <= t->mask; i++) {
        if (!t->edge[i].child) continue;
        uint32_t k = gy_trie_slot(t->edge[i].key) & (size - 1);
        while (edge[k].child) k = (k + 1) & (size - 1);
        edge[k] = t->edge[i];
    }
    gy_free(t->edge);
    t->edge = edge, t->mask = size - 1;
    return GY_OK;
}

static gy_rc node_new(gy_trie *t, gy_err *err) {
    /* The key of an edge holds the node in 24 bits. */
    if (t->nodes >= 1u << 24)
        return gy_fail(err, GY_ELIMIT, "tokenizer: names have more than 16 million parts");
    if (t->nodes == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        int32_t *value = gy_realloc(t->value, cap * sizeof *value);
        if (!value) return gy_tok_oom(err);
        t->value = value, t->cap = cap;
    }
    t->value[t->nodes++] = -1;
    return GY_OK;
}

gy_rc gy_trie_init(gy_trie *t, size_t bytes_hint, gy_err *err) {
    if (bytes_hint > 1 << 22) bytes_hint = 1 << 22;
    gy_rc rc = edges_resize(t, gy_tok_table_size(bytes_hint / 2), err);
    return rc ? rc : node_new(t, err);
}

gy_rc gy_trie_add(gy_trie *t, const char *s, size_t n, int32_t value, gy_err *err) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t next = gy_trie_next(t, node, (uint8_t)s[i]);
        if (!next) {
            gy_rc rc =
                2 * (uint64_t)t->nodes > t->mask ? edges_resize(t, (t->mask + 1) * 2, err) : GY_OK;
            if (rc || (rc = node_new(t, err))) return rc;
            next = t->nodes - 1;
            uint32_t key = node << 8 | (uint8_t)s[i], k = gy_trie_slot(key) & t->mask;
            while (t->edge[k].child) k = (k + 1) & t->mask;
            t->edge[k] = (gy_trie_edge){key, next};
        }
        node = next;
    }
    if (t->value[node] < 0) t->value[node] = value;
    return GY_OK;
}

void gy_trie_free(gy_trie *t) {
    gy_free(t->edge);
    gy_free(t->value);
    *t = (gy_trie){0};
}
