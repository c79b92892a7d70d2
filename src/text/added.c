/* Added tokens: names that are cut out of the text before anything else sees it. Leftmost, then
 * longest, as the reference finds them; a match that its flags reject is stepped over as a whole.
 */
#include "base/utf8.h"
#include "text/tok_in.h"
#include "text/unicode.h"

gy_rc gy_added_add(gy_added *a, const gy_vocab *v, const gy_added_token *t, gy_err *err) {
    char q[64];
    if (!t->n || gy_added_by_name(a, t->s, t->n)) return GY_OK;
    if (!a->names.edge) {
        gy_rc rc = gy_trie_init(&a->names, 256, err);
        if (rc) return rc;
    }
    if (a->n == a->cap) {
        int cap = a->cap ? a->cap * 2 : 64;
        gy_added_token *token = gy_realloc(a->token, (size_t)cap * sizeof *token);
        if (!token) return gy_tok_oom(err);
        a->token = token, a->cap = cap;
    }
    gy_added_token copy = *t;
    int32_t known = gy_vocab_find(v, t->s, t->n);
    if (known >= 0) copy.id = known;
    if (copy.id < 0) copy.id = a->ids > v->n ? a->ids : v->n;
    if (copy.id - v->n > a->n + (1 << 20)) {
        return gy_fail(err, GY_EFORMAT,
                       "tokenizer: added_tokens: id %d of \"%s\" is far outside the vocabulary",
                       copy.id, gy_err_quote(q, t->s, t->n));
    }
    copy.s = gy_arena_strndup(&a->arena, t->s, t->n);
    if (!copy.s) return gy_tok_oom(err);
    copy.shown = copy.s, copy.shown_n = copy.n;
    gy_rc rc = gy_trie_add(&a->names, copy.s, copy.n, a->n, err);
    if (rc) return rc;
    if (copy.id >= a->ids) a->ids = copy.id + 1;
    a->token[a->n++] = copy;
    return GY_OK;
}

const gy_added_token *gy_added_by_name(const gy_added *a, const char *s, size_t n) {
    if (!a->names.edge || n > GY_TOK_MAX_NAME) return NULL;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = gy_trie_next(&a->names, node, (uint8_t)s[i]);
        if (!node) return NULL;
    }
    int32_t k = a->names.value[node];
    return k >= 0 ? &a->token[k] : NULL;
}

static gy_rc set_add(gy_added_set *set, const char *s, size_t n, int index, gy_err *err) {
    if (!n) return GY_OK;
    gy_rc rc = set->trie.edge ? GY_OK : gy_trie_init(&set->trie, 256, err);
    if (rc || (rc = gy_trie_add(&set->trie, s, n, index, err))) return rc;
    uint8_t x = (uint8_t)s[0];
    if (n == 1) {
        set->single[x / 64] |= (uint64_t)1 << x % 64;
    } else {
        unsigned b = (unsigned)x << 8 | (uint8_t)s[1];
        set->pair[b / 64] |= (uint64_t)1 << b % 64;
    }
    set->n++;
    return GY_OK;
}

static gy_rc set_fill(gy_added *a, const gy_norm *norm, bool special, gy_err *err) {
    gy_rc rc = GY_OK;
    gy_buf b = {0};
    for (int i = 0; !rc && i < a->n; i++) {
        gy_added_token *t = &a->token[i];
        if (t->special != special) continue;
        if (!t->normalized) {
            rc = set_add(&a->raw, t->s, t->n, i, err);
            continue;
        }
        b.n = 0;
        if (gy_norm_run(norm, t->s, t->n, &b)) {
            if (b.oom) return gy_buf_free(&b), gy_tok_oom(err);
            t->shown = gy_arena_strndup(&a->arena, b.p ? b.p : "", b.n);
            t->shown_n = (uint32_t)b.n;
            if (!t->shown) rc = gy_tok_oom(err);
        }
        if (!rc) rc = set_add(&a->normal, t->shown, t->shown_n, i, err);
    }
    gy_buf_free(&b);
    return rc;
}

gy_rc gy_added_ready(gy_added *a, const gy_norm *norm, gy_err *err) {
    a->of_id = gy_alloc_n((size_t)a->ids + 1, sizeof *a->of_id);
    if (!a->of_id) return gy_tok_oom(err);
    for (int i = 0; i < a->ids; i++) a->of_id[i] = -1;
    for (int i = a->n; i-- > 0;) a->of_id[a->token[i].id] = i;
    /* Where contents are equal after normalising, special tokens come first. */
    gy_rc rc = set_fill(a, norm, true, err);
    return rc ? rc : set_fill(a, norm, false, err);
}

void gy_added_free(gy_added *a) {
    gy_arena_free(&a->arena);
    gy_free(a->token);
    gy_free(a->of_id);
    gy_trie_free(&a->names);
    gy_trie_free(&a->raw.trie);
    gy_trie_free(&a->normal.trie);
    *a = (gy_added){0};
}

/* ---- Finding ---- */

/* \w of the reference's regex library: Alphabetic, marks, Nd, Pc and the two joiners. */
static bool word_char(uint32_t c) {
    switch (gy_uc_category(c)) {
    case GY_UC_LU:
    case GY_UC_LL:
    case GY_UC_LT:
    case GY_UC_LM:
    case GY_UC_LO:
    case GY_UC_MN:
    case GY_UC_MC:
    case GY_UC_ME:
    case GY_UC_ND:
    case GY_UC_NL:
    case GY_UC_PC: return true;
    default: break;
    }
    return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
           (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
           (c >= 0x1F170 && c <= 0x1F189);
}

/* Start of the character that ends at at > 0. */
static size_t char_before(const char *s, size_t at, uint32_t *c) {
    size_t i = at - 1;
    while (i && at - i < 4 && ((uint8_t)s[i] & 0xC0) == 0x80) i--;
    gy_utf8_get(s + i, at - i, c);
    return i;
}

static bool word_alone(const char *s, size_t n, size_t at, size_t end) {
    uint32_t c;
    if (at) {
        char_before(s, at, &c);
        if (word_char(c)) return false;
    }
    if (end == n) return true;
    gy_utf8_get(s + end, n - end, &c);
    return !word_char(c);
}

static size_t space_before(const char *s, size_t start, size_t at) {
    while (at > start) {
        uint32_t c;
        size_t i = char_before(s, at, &c);
        if (i < start || !gy_uc_space(c)) break;
        at = i;
    }
    return at;
}

static size_t space_after(const char *s, size_t n, size_t at) {
    while (at < n) {
        uint32_t c;
        size_t len = gy_utf8_get(s + at, n - at, &c);
        if (!gy_uc_space(c)) break;
        at += len;
    }
    return at;
}

static int longest_at(const gy_trie *t, const char *s, size_t n, size_t at, size_t *end) {
    int found = -1;
    uint32_t node = 0;
    for (size_t i = at; i < n; i++) {
        node = gy_trie_next(t, node, (uint8_t)s[i]);
        if (!node) break;
        if (t->value[node] >= 0) found = t->value[node], *end = i + 1;
    }
    return found;
}

static bool may_start(const gy_added_set *set, const char *s, size_t n, size_t i) {
    uint8_t x = (uint8_t)s[i];
    if (set->single[x / 64] >> x % 64 & 1) return true;
    if (i + 1 >= n) return false;
    unsigned b = (unsigned)x << 8 | (uint8_t)s[i + 1];
    return set->pair[b / 64] >> b % 64 & 1;
}

bool gy_added_next(const gy_added *a, const gy_added_set *set, const char *s, size_t n,
                   size_t start, size_t from, bool plain, gy_added_match *m) {
    if (!set->n) return false;
    for (size_t i = from; i < n;) {
        size_t end = 0;
        int k = may_start(set, s, n, i) ? longest_at(&set->trie, s, n, i, &end) : -1;
        if (k < 0) {
            i++;
            continue;
        }
        const gy_added_token *t = &a->token[k];
        if ((plain && t->special) || (t->single_word && !word_alone(s, n, i, end))) {
            i = end;
            continue;
        }
        *m = (gy_added_match){k, i, end, end};
        if (t->lstrip) m->at = space_before(s, start, i);
        if (t->rstrip) m->end = space_after(s, n, end);
        return true;
    }
    return false;
}
