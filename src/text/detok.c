/* Text from tokens as they come: decoder steps, then UTF-8, then stop strings.
 *
 *     ids -> names -> [decoder.c] -> bytes -> [whole characters] -> [stop strings] -> out
 *
 * Stop strings are found byte by byte in an automaton over all of them (Aho-Corasick). held is the
 * end of the text that may still belong to a stop string: the longest end that some stop string
 * starts with. When a stop string is complete but one that starts earlier may still come, the
 * decision waits (cut), so that what is delivered does not depend on how the text was divided into
 * tokens. */
#include "base/utf8.h"
#include "text/tok_in.h"

typedef struct {
    uint32_t fail, parent;
    uint32_t depth; /* bytes from the root */
    uint8_t byte;   /* on the way from parent */
    int32_t match;  /* the longest stop string that ends here: index, or -1 */
} stop_node;

struct gy_detok {
    const gy_tok *tok;
    bool skip_special, stopped;
    gy_dec_run run;
    char part[4]; /* bytes of an unfinished character */
    size_t parts;
    gy_trie trie;
    stop_node *node;  /* [trie.nodes]; NULL without stop strings */
    uint32_t *length; /* [n_stop] bytes */
    uint32_t state;
    gy_buf held;
    bool cut; /* a stop string is complete: held[cut_at] is its start */
    size_t cut_at;
    int cut_stop;
    gy_buf *out; /* of the call in progress */
};

/* ---- Stop strings ---- */

static bool text_valid(const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = gy_utf8_get(s + i, n - i, &c);
        if (c == 0xFFFD && !(len == 3 && !memcmp(s + i, "\xEF\xBF\xBD", 3))) return false;
        i += len;
    }
    return true;
}

/* Parents and depths of the nodes of one stop string. */
static void path_note(gy_detok *d, const char *s, size_t n) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t next = gy_trie_next(&d->trie, node, (uint8_t)s[i]);
        d->node[next].depth = (uint32_t)i + 1, d->node[next].parent = node,
        d->node[next].byte = (uint8_t)s[i];
        node = next;
    }
}

static void fail_link(gy_detok *d, uint32_t i) {
    stop_node *n = &d->node[i];
    uint32_t f = n->parent, to = 0;
    while (f && !to) {
        f = d->node[f].fail;
        to = gy_trie_next(&d->trie, f, n->byte);
    }
    n->fail = to;
    n->match = d->trie.value[i] >= 0 ? d->trie.value[i] : d->node[to].match;
}

/* A fail target is nearer to the root than its node: nodes go by depth. */
static gy_rc fail_links(gy_detok *d, size_t longest, gy_err *err) {
    uint32_t nodes = d->trie.nodes, *start = gy_alloc_n(longest + 2, sizeof *start),
             *order = gy_alloc_n(nodes, sizeof *order);
    if (start && order) {
        for (uint32_t i = 0; i < nodes; i++) start[d->node[i].depth + 1]++;
        for (size_t k = 1; k <= longest + 1; k++) start[k] += start[k - 1];
        for (uint32_t i = 0; i < nodes; i++) order[start[d->node[i].depth]++] = i;
        for (uint32_t i = 1; i < nodes; i++) fail_link(d, order[i]);
    }
    bool ok = start && order;
    gy_free(start);
    gy_free(order);
    return ok ? GY_OK : gy_tok_oom(err);
}

static gy_rc stops_new(gy_detok *d, const char *const *stop, int n_stop, gy_err *err) {
    if (n_stop <= 0) return GY_OK;
    size_t total = 0, longest = 0;
    gy_rc rc = gy_trie_init(&d->trie, 64, err);
    d->length = gy_alloc_n((size_t)n_stop, sizeof *d->length);
    if (!d->length) rc = rc ? rc : gy_tok_oom(err);
    for (int i = 0; !rc && i < n_stop; i++) {
        size_t n = strlen(stop[i]);
        total += n;
        if (!n || !text_valid(stop[i], n))
            return gy_fail(err, GY_EARG, "stop string %d is empty or not UTF-8", i);
        if (n > 4096 || total > 1 << 20)
            return gy_fail(err, GY_ELIMIT, "stop strings: one is longer than 4096 bytes");
        d->length[i] = (uint32_t)n;
        if (n > longest) longest = n;
        rc = gy_trie_add(&d->trie, stop[i], n, i, err);
    }
    if (rc) return rc;
    d->node = gy_alloc_n(d->trie.nodes, sizeof *d->node);
    if (!d->node) return gy_tok_oom(err);
    for (uint32_t i = 0; i < d->trie.nodes; i++) d->node[i].match = -1;
    for (int i = 0; i < n_stop; i++) path_note(d, stop[i], d->length[i]);
    return fail_links(d, longest, err);
}

/* What is held before at is certain. */
static void held_out(gy_detok *d, size_t at) {
    if (!at) return;
    gy_buf_add(d->out, d->held.p, at);
    memmove(d->held.p, d->held.p + at, d->held.n - at);
    d->held.n -= at;
    d->cut_at -= d->cut ? at : 0;
}

static void cut_decide(gy_detok *d) {
    held_out(d, d->cut_at);
    d->held.n = 0;
    d->stopped = true;
}

static void byte_in(gy_detok *d, char c) {
    uint32_t to;
    gy_buf_c(&d->held, c);
    if (d->held.oom) return; /* the caller learns it from out */
    while (!(to = gy_trie_next(&d->trie, d->state, (uint8_t)c)) && d->state)
        d->state = d->node[d->state].fail;
    d->state = to;
    /* A match at this state may be shorter than the state's text, but no other one starts earlier.
     */
    int32_t k = d->node[to].match;
    if (k >= 0) {
        size_t start = d->held.n - d->length[k];
        if (!d->cut || start <= d->cut_at) d->cut = true, d->cut_at = start, d->cut_stop = k;
    }
    size_t pending = d->held.n - d->node[to].depth;
    if (d->cut && pending >= d->cut_at) {
        cut_decide(d);
    } else if (!d->cut) {
        held_out(d, pending);
    }
}

/* Text of whole characters. */
static void text_in(gy_detok *d, const char *s, size_t n) {
    if (!d->node) {
        gy_buf_add(d->out, s, n);
        return;
    }
    for (size_t i = 0; i < n && !d->stopped; i++) byte_in(d, s[i]);
}

/* ---- Characters ---- */

/* The first character of s[n], or U+FFFD for its bad bytes; returns the bytes taken. */
static size_t char_in(gy_detok *d, const char *s, size_t n) {
    uint32_t c;
    char good[4];
    size_t len = gy_utf8_get(s, n, &c);
    text_in(d, good, gy_utf8_put(good, c));
    return len;
}

static void bytes_in(void *arg, const char *s, size_t n) {
    gy_detok *d = arg;
    while (n && d->parts) {
        d->part[d->parts++] = *s++, n--;
        while (d->parts && !gy_tok_unfinished(d->part, d->parts)) {
            size_t len = char_in(d, d->part, d->parts);
            memmove(d->part, d->part + len, d->parts - len);
            d->parts -= len;
        }
    }
    size_t done = 0, i = 0;
    while (i < n) {
        if (!((uint8_t)s[i] & 0x80)) {
            i++;
            continue;
        }
        uint32_t c;
        size_t len = gy_utf8_get(s + i, n - i, &c);
        if (c != 0xFFFD) {
            i += len;
            continue;
        }
        text_in(d, s + done, i - done);
        if (n - i < 4 && len == n - i && gy_tok_unfinished(s + i, n - i)) {
            memcpy(d->part, s + i, n - i);
            d->parts = n - i;
            return;
        }
        done = i += char_in(d, s + i, n - i);
    }
    if (done < n) text_in(d, s + done, n - done);
}

/* ---- The whole ---- */

gy_rc gy_detok_new(const gy_tok *tok, bool skip_special, const char *const *stop, int n_stop,
                   gy_detok **out, gy_err *err) {
    gy_detok *d = gy_alloc(sizeof *d);
    if (!d) return gy_tok_oom(err);
    d->tok = tok, d->skip_special = skip_special;
    d->run.d = &tok->decoder, d->run.sink = bytes_in, d->run.arg = d;
    gy_rc rc = stops_new(d, stop, n_stop, err);
    if (rc) {
        gy_detok_free(d);
        return rc;
    }
    *out = d;
    return GY_OK;
}

void gy_detok_free(gy_detok *d) {
    if (!d) return;
    gy_dec_free(&d->run);
    gy_trie_free(&d->trie);
    gy_free(d->node);
    gy_free(d->length);
    gy_buf_free(&d->held);
    gy_free(d);
}

bool gy_detok_push(gy_detok *d, int32_t id, gy_buf *out) {
    size_t n;
    const char *s = gy_tok_name(d->tok, id, &n);
    if (!s || d->stopped || (d->skip_special && gy_tok_special(d->tok, id))) return d->stopped;
    const gy_added_token *t = gy_added_by_id(&d->tok->added, id);
    if (t) s = t->shown, n = t->shown_n;
    d->out = out;
    gy_dec_push(&d->run, s, n);
    if (d->run.oom || d->held.oom) out->oom = true;
    return d->stopped;
}

void gy_detok_end(gy_detok *d, gy_buf *out) {
    d->out = out;
    if (!d->stopped) gy_dec_end(&d->run);
    if (!d->stopped && d->parts) {
        d->parts = 0;
        text_in(d, "\xEF\xBF\xBD", 3);
    }
    if (!d->stopped && d->cut) cut_decide(d);
    if (!d->stopped) held_out(d, d->held.n);
    if (d->run.oom || d->held.oom) out->oom = true;
}

int gy_detok_stop(const gy_detok *d) {
    return d->stopped ? d->cut_stop : -1;
}

gy_rc gy_tok_decode(const gy_tok *tok, const int32_t *ids, int n, bool skip_special, gy_buf *out,
                    gy_err *err) {
    for (int i = 0; i < n; i++) {
        size_t bytes;
        if (!gy_tok_name(tok, ids[i], &bytes)) {
            return gy_fail(err, GY_EARG, "token %d of %d: id %d is not in the vocabulary of %d", i,
                           n, ids[i], gy_tok_size(tok));
        }
    }
    gy_detok *d;
    gy_rc rc = gy_detok_new(tok, skip_special, NULL, 0, &d, err);
    if (rc) return rc;
    for (int i = 0; i < n; i++) gy_detok_push(d, ids[i], out);
    gy_detok_end(d, out);
    gy_detok_free(d);
    return out->oom ? gy_tok_oom(err) : GY_OK;
}

bool gy_tok_bytes(const gy_tok *tok, int32_t id, gy_buf *out) {
    size_t n;
    const char *s = gy_tok_name(tok, id, &n);
    if (!s) return false;
    const gy_added_token *t = gy_added_by_id(&tok->added, id);
    if (t) {
        gy_buf_add(out, t->shown, t->shown_n);
    } else {
        gy_decoder_bytes(&tok->decoder, s, n, out);
    }
    return true;
}
