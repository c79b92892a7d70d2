/* prefix_rig - a prefix tree over a KV store whose rows are a function of the tokens, for tests
 * that must tell whether what is adopted is right. */
#ifndef GY_PREFIX_RIG_H
#define GY_PREFIX_RIG_H

#include "base/hash.h"
#include "run/prefix.h"
#include "testlib.h"

enum { DIM = 8, LEN = 1000, SEQS = 6, RECORDS = 4096, ALPHABET = 3 };

static inline gy_kvspec layer(gy_keep keep) {
    gy_cparm f32 = {.kind = GY_CODEC_F32};
    return (gy_kvspec){
        .k = f32, .v = f32, .heads = 1, .kdim = DIM, .vdim = DIM, .donor = -1, .keep = keep};
}
static const gy_keep keep_all = {.policy = GY_KEEP_ALL};
static inline gy_keep window(int w, int sinks) {
    return (gy_keep){.policy = GY_KEEP_WINDOW, .window = w, .sinks = sinks};
}

static const int64_t all_of_it = (int64_t)1 << 40;

/* Stands for what attention stores at pos: a function of all tokens up to it. */
static inline uint64_t content(const int32_t *tok, int pos, int l) {
    return gy_hash64(tok, ((size_t)pos + 1) * 4, (uint64_t)l + 1);
}

/* The naive model: which pages of which prefixes were offered. */
typedef struct {
    uint64_t prefix; /* hash of the tokens up to the page's end, and of the root */
    int index;
    bool has[GY_KV_GROUPS + 1], disk[GY_KV_GROUPS + 1]; /* the last: state */
} record;

typedef struct {
    gy_kv *kv;
    gy_prefix *prefix;
    gy_digest root[2];
    const gy_kvspec *spec;
    int layers, groups, n;
    record rec[RECORDS];
    struct gy_seq *seq[SEQS];
    int seq_root[SEQS];
    uint64_t seed;
    gy_store *store; /* NULL: none */
    gy_identity id;
} rig;

static inline void feed(rig *r, int s, const int32_t *tok, int n) {
    gy_err err = {0};
    struct gy_seq *seq = r->seq[s];
    int32_t all[LEN];
    if (seq->len) memcpy(all, seq->tok, (size_t)seq->len * 4);
    memcpy(all + seq->len, tok, (size_t)n * 4);
    assert_ok(gy_kv_reserve(r->kv, seq, n, &err), err);
    for (int l = 0; l < r->layers; l++) {
        gy_state_way way;
        if (r->spec[l].keep.policy != GY_KEEP_STATE) continue;
        gy_state_find(gy_kv_state(r->kv), &seq->state, l, GY_OP_SCAN, &way);
        for (int i = 0; i < way.n; i++) {
            uint64_t c = content(all, way.end[i] - 1, 2 * l);
            memcpy(way.to[i], &c, 8);
        }
    }
    for (int p = seq->len; p < seq->len + n; p++)
        for (int l = 0; l < r->layers; l++)
            for (int v = 0; v < 2 && r->spec[l].keep.policy != GY_KEEP_STATE; v++) {
                gy_rows rows = gy_kv_page_rows(r->kv, seq, l, p / GY_PAGE, 0, v);
                uint64_t c = content(all, p, 2 * l + v);
                memcpy((uint8_t *)rows.plane[0] + p % GY_PAGE * rows.step[0], &c, 8);
            }
    gy_kv_append(r->kv, seq, tok, n);
}

/* Every row that a query at len could see is there and right. */
static inline void check_rows(rig *r, const gy_kvspec *spec, const struct gy_seq *seq,
                              const char *what) {
    for (int l = 0; l < r->layers && seq->len; l++) {
        if (spec[l].keep.policy != GY_KEEP_STATE) continue;
        assert_int_equal(gy_state_pos(&seq->state), seq->len);
        uint64_t c = content(seq->tok, seq->len - 1, 2 * l);
        /* The one layer's scan begins its block. */
        if (memcmp(gy_state_data(&seq->state.mark[seq->state.marks - 1]), &c, 8))
            fail_msg("%s: the state at %d is of another prefix", what, seq->len);
    }
    for (int l = 0; l < r->layers; l++)
        for (int p = 0; p < seq->len; p++) {
            gy_keep k = spec[l].keep;
            if (k.policy == GY_KEEP_STATE) continue;
            if (k.policy == GY_KEEP_WINDOW && seq->len - p >= k.window && p >= k.sinks) continue;
            for (int v = 0; v < 2; v++) {
                gy_rows rows = gy_kv_page_rows(r->kv, seq, l, p / GY_PAGE, 0, v);
                uint64_t c = content(seq->tok, p, 2 * l + v);
                if (memcmp((uint8_t *)rows.plane[0] + p % GY_PAGE * rows.step[0], &c, 8))
                    fail_msg("%s: layer %d position %d of %d holds another prefix", what, l, p,
                             seq->len);
            }
        }
}

#endif
