/* kv: page layout, reservation, sharing, windows, limits, allocation failure, and a random walk
 * against a plain model. */
#include "testlib.h"

#include "base/mem.h"
#include "kv/kv.h"

enum { DIM = 8, MODEL_LEN = 700 };

static gy_kvspec layer_spec(int heads, gy_keep keep, int donor) {
    gy_cparm f32 = {.kind = GY_CODEC_F32};
    gy_cparm f16 = {.kind = GY_CODEC_F16};
    return (gy_kvspec){.k = f32,
                       .v = f16,
                       .heads = heads,
                       .kdim = DIM,
                       .vdim = 2 * DIM,
                       .donor = donor,
                       .keep = keep};
}

static gy_keep all(void) {
    return (gy_keep){.policy = GY_KEEP_ALL};
}
static gy_keep window(int w, int sinks) {
    return (gy_keep){.policy = GY_KEEP_WINDOW, .window = w, .sinks = sinks};
}

/* Every stored float of a position is a function of (mark, layer, head, K or V), so that a wrong
 * row shows. */
static float mark_value(int mark, int layer, int head, bool value, int i) {
    return (float)((mark * 7 + layer * 3 + head * 5 + value * 11 + i) % 1999);
}

static void put(const gy_kv *kv, const struct gy_seq *seq, const gy_kvspec *spec, int layers,
                int pos, int mark) {
    for (int l = 0; l < layers; l++) {
        if (spec[l].donor >= 0) continue;
        for (int h = 0; h < spec[l].heads; h++) {
            for (int v = 0; v < 2; v++) {
                gy_rows rows = gy_kv_page_rows(kv, seq, l, pos / GY_PAGE, h, v);
                float x[2 * DIM];
                for (int i = 0; i < rows.cols; i++) x[i] = mark_value(mark, l, h, v, i);
                gy_codecs[rows.c.kind].encode(&rows, pos % GY_PAGE, x);
            }
        }
    }
}

static void check(const gy_kv *kv, const struct gy_seq *seq, const gy_kvspec *spec, int layers,
                  int pos, int mark, const char *what) {
    for (int l = 0; l < layers; l++) {
        int owner = spec[l].donor >= 0 ? spec[l].donor : l;
        for (int h = 0; h < spec[l].heads; h++) {
            for (int v = 0; v < 2; v++) {
                gy_rows rows = gy_kv_page_rows(kv, seq, l, pos / GY_PAGE, h, v);
                float x[2 * DIM];
                gy_codecs[rows.c.kind].decode(&rows, pos % GY_PAGE, x);
                for (int i = 0; i < rows.cols; i++)
                    if (x[i] != mark_value(mark, owner, h, v, i))
                        fail_msg("%s: position %d layer %d head %d %s[%d]: %g, expected %g", what,
                                 pos, l, h, v ? "v" : "k", i, x[i],
                                 mark_value(mark, owner, h, v, i));
            }
        }
    }
}

static void test_layout(void **state) {
    (void)state;
    gy_err err = {0};
    gy_kvspec spec[] = {layer_spec(2, all(), -1), layer_spec(1, window(100, 0), -1),
                        layer_spec(2, all(), 0), layer_spec(3, all(), -1),
                        layer_spec(1, window(100, 0), 1)};
    gy_kv *kv;
    assert_ok(gy_kv_new(spec, 5, 1000, &kv, &err), err);
    assert_int_equal(gy_kv_layer_group(kv, 0), gy_kv_layer_group(kv, 2));
    assert_int_equal(gy_kv_layer_group(kv, 0), gy_kv_layer_group(kv, 3));
    assert_int_not_equal(gy_kv_layer_group(kv, 0), gy_kv_layer_group(kv, 1));
    assert_int_equal(gy_kv_layer_group(kv, 1), gy_kv_layer_group(kv, 4));
    /* Five own heads that keep everything: 8 f32 and 16 f16 each. */
    assert_int_equal(gy_kv_token_bytes(kv), 5 * (DIM * 4 + 2 * DIM * 2));
    struct gy_seq *seq;
    assert_ok(gy_kv_seq_new(kv, &seq, &err), err);
    assert_ok(gy_kv_reserve(kv, seq, 130, &err), err);
    for (int p = 0; p < 130; p++) put(kv, seq, spec, 5, p, p);
    int32_t tok[130];
    for (int p = 0; p < 130; p++) tok[p] = 3 * p;
    gy_kv_append(kv, seq, tok, 130);
    for (int p = 0; p < 130; p++) check(kv, seq, spec, 5, p, p, "layout");
    assert_int_equal(seq->len, 130);
    assert_int_equal(seq->committed, 130);
    assert_memory_equal(seq->tok, tok, sizeof tok);
    gy_rows k = gy_kv_page_rows(kv, seq, 3, 1, 2, false);
    assert_int_equal((uintptr_t)k.plane[0] % 64, 0);
    assert_int_equal(k.step[0], DIM * 4);
    gy_kv_seq_free(kv, seq);
    gy_kv_free(kv);
}

/* Latents: V's rows are the front of K's; keys alone: no bytes for V. */
static void test_forms(void **state) {
    (void)state;
    gy_err err = {0};
    gy_kvspec spec[2] = {layer_spec(1, all(), -1), layer_spec(3, all(), -1)};
    gy_kv *kv;
    struct gy_seq *seq;
    spec[0].form = GY_KV_VIEW, spec[0].kdim = 96, spec[0].vdim = 64;
    spec[0].k = (gy_cparm){GY_CODEC_AFFINE, 4, GY_CODEC_F16, 32};
    spec[1].form = GY_KV_KEYS, spec[1].vdim = 0;
    assert_ok(gy_kv_new(spec, 2, 100, &kv, &err), err);
    assert_int_equal(gy_kv_token_bytes(kv), 96 / 2 + 3 * 4 + 3 * DIM * 4);
    assert_ok(gy_kv_seq_new(kv, &seq, &err), err);
    assert_ok(gy_kv_reserve(kv, seq, 70, &err), err);
    gy_rows k = gy_kv_page_rows(kv, seq, 0, 1, 0, false),
            v = gy_kv_page_rows(kv, seq, 0, 1, 0, true);
    float x[96], y[96], z[64];
    for (int i = 0; i < 96; i++) x[i] = mark_value(3, 0, 0, false, i);
    gy_codecs[k.c.kind].encode(&k, 5, x);
    gy_codecs[k.c.kind].decode(&k, 5, y);
    assert_int_equal(v.cols, 64);
    gy_codecs[v.c.kind].decode(&v, 5, z);
    assert_memory_equal(y, z, sizeof z);
    gy_kv_seq_free(kv, seq);
    gy_kv_free(kv);
}

static void test_bad_specs(void **state) {
    (void)state;
    gy_keep a = all();
    gy_kvspec far = layer_spec(1, a, 3), self = layer_spec(1, a, 0), wide = layer_spec(1, a, -1);
    gy_kvspec none = layer_spec(1, a, -1), codec = layer_spec(1, a, -1),
              readonly = layer_spec(1, a, -1);
    gy_kvspec nowin = layer_spec(1, window(0, 0), -1);
    gy_kvspec broad = layer_spec(1, a, -1), turned = layer_spec(1, a, -1);
    broad.form = turned.form = GY_KV_VIEW; /* vdim is twice kdim */
    turned.kdim = turned.vdim = 64, turned.k = (gy_cparm){.kind = GY_CODEC_TURBO_V, .bits = 4};
    wide.kdim = 1 << 20, none.vdim = 0, codec.k.kind = 200, readonly.k.kind = GY_CODEC_Q6_K;
    struct {
        const char *what;
        gy_kvspec spec;
        gy_rc rc;
    } bad[] = {
        {"donor after", far, GY_EFORMAT},
        {"donor itself", self, GY_EFORMAT},
        {"wide head", wide, GY_EFORMAT},
        {"no dims", none, GY_EFORMAT},
        {"no such codec", codec, GY_EUNSUPPORTED},
        {"read-only codec", readonly, GY_EUNSUPPORTED},
        {"no window", nowin, GY_EFORMAT},
        {"view beyond K", broad, GY_EFORMAT},
        {"view of turned rows", turned, GY_EUNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gy_err err = {0};
        gy_kv *kv = NULL;
        gy_rc rc = gy_kv_new(&bad[i].spec, 1, 100, &kv, &err);
        if (rc != bad[i].rc) fail_msg("%s: %s", bad[i].what, gy_rc_name(rc));
        assert_null(kv);
    }
    gy_kvspec many[GY_KV_GROUPS + 1];
    for (int i = 0; i <= GY_KV_GROUPS; i++) many[i] = layer_spec(1, window(i + 1, 0), -1);
    gy_err err = {0};
    gy_kv *kv = NULL;
    assert_int_equal(gy_kv_new(many, GY_KV_GROUPS + 1, 100, &kv, &err), GY_EUNSUPPORTED);
    memset(&err, 0, sizeof err);
    assert_int_equal(gy_kv_new(many, 1, 0, &kv, &err), GY_EARG);
}

static int pages_held(const struct gy_seq *seq, int g) {
    int n = 0;
    for (int i = 0; i < seq->group[g].n; i++) n += seq->group[g].at[i] != NULL;
    return n;
}

static void grow(gy_kv *kv, struct gy_seq *seq, const gy_kvspec *spec, int layers, int n,
                 int mark) {
    gy_err err = {0};
    int32_t tok[MODEL_LEN];
    assert_ok(gy_kv_reserve(kv, seq, n, &err), err);
    for (int i = 0; i < n; i++)
        tok[i] = mark + i, put(kv, seq, spec, layers, seq->len + i, mark + i);
    gy_kv_append(kv, seq, tok, n);
}

static void test_window(void **state) {
    (void)state;
    gy_err err = {0};
    gy_kvspec spec[] = {layer_spec(1, all(), -1), layer_spec(1, window(100, 0), -1),
                        layer_spec(1, window(80, 5), -1)};
    gy_kv *kv;
    struct gy_seq *seq;
    assert_ok(gy_kv_new(spec, 3, 2000, &kv, &err), err);
    assert_ok(gy_kv_seq_new(kv, &seq, &err), err);
    for (int i = 0; i < 600; i++) {
        grow(kv, seq, spec, 3, 1, i);
        int lo = i + 1 - 100 - GY_PAGE;
        int expect = (i + 1 + 63) / 64 - (lo > 0 ? lo / 64 : 0);
        if (pages_held(seq, 1) != expect)
            fail_msg("after %d: %d pages, expected %d", i + 1, pages_held(seq, 1), expect);
    }
    assert_non_null(seq->group[2].at[0]); /* the kept prefix */
    assert_null(seq->group[2].at[1]);
    /* 600: a withdrawal of a whole page is always legal, and its window is still there. */
    assert_ok(gy_kv_trim(kv, seq, 600 - GY_PAGE, &err), err);
    for (int p = 600 - GY_PAGE - 99; p < 600 - GY_PAGE; p++)
        check(kv, seq, spec, 2, p, p, "window");
    struct gy_seq before = *seq;
    assert_int_equal(gy_kv_trim(kv, seq, 300, &err), GY_ELIMIT);
    assert_memory_equal(&before, seq, sizeof before);
    memset(&err, 0, sizeof err);
    assert_int_equal(gy_kv_trim(kv, seq, seq->len + 1, &err), GY_EARG);
    memset(&err, 0, sizeof err);
    assert_int_equal(gy_kv_trim(kv, seq, -1, &err), GY_EARG);
    /* Back to nothing needs nothing. */
    assert_ok(gy_kv_trim(kv, seq, 0, (memset(&err, 0, sizeof err), &err)), err);
    assert_int_equal(pages_held(seq, 0) + pages_held(seq, 1) + pages_held(seq, 2), 0);
    gy_kv_seq_free(kv, seq);
    gy_kv_free(kv);
}

static void test_limit(void **state) {
    (void)state;
    gy_err err = {0};
    gy_kvspec spec[] = {layer_spec(1, all(), -1), layer_spec(1, window(10, 0), -1)};
    gy_kv *kv;
    struct gy_seq *a, *b;
    assert_ok(gy_kv_new(spec, 2, 256, &kv, &err), err); /* 4 pages */
    assert_ok(gy_kv_seq_new(kv, &a, &err), err);
    grow(kv, a, spec, 2, 190, 0);
    assert_ok(gy_kv_seq_fork(kv, a, &b, &err), err);
    assert_ptr_equal(a->group[0].at[2], b->group[0].at[2]);
    grow(kv, b, spec, 2, 2, 1000); /* the tail is copied: the 4th page */
    assert_ptr_not_equal(a->group[0].at[2], b->group[0].at[2]);
    assert_ptr_equal(a->group[0].at[1], b->group[0].at[1]);
    struct gy_seq before = *b;
    assert_int_equal(gy_kv_reserve(kv, b, 1, &err), GY_ELIMIT);
    assert_memory_equal(&before, b, sizeof before);
    memset(&err, 0, sizeof err);
    assert_int_equal(gy_kv_reserve(kv, b, 2147483000, &err), GY_ELIMIT);
    assert_int_equal(b->len, 192);
    grow(kv, a, spec, 2, 2, 190); /* alone on its page again: in place */
    for (int p = 0; p < 190; p++) check(kv, b, spec, 1, p, p, "fork");
    check(kv, b, spec, 2, 191, 1001, "fork tail");
    check(kv, a, spec, 2, 191, 191, "origin tail");
    gy_kv_seq_free(kv, a);
    memset(&err, 0, sizeof err);
    assert_ok(gy_kv_reserve(kv, b, 1, &err), err); /* a's tail page came back */
    int64_t held = gy_kv_held_bytes(kv);
    gy_kv_seq_free(kv, b);
    assert_int_equal(gy_kv_held_bytes(kv), held);
    gy_kv_free(kv);
}

/* One scenario with every call; true when it came through. What fails must leave its sequence
 * unchanged. */
static bool scenario(gy_kv **kept) {
    gy_err err = {0};
    gy_kvspec spec[] = {layer_spec(1, all(), -1), layer_spec(2, window(70, 0), -1)};
    gy_kv *kv = NULL;
    struct gy_seq *a = NULL, *b = NULL;
    bool ok = false;
    if (gy_kv_new(spec, 2, 1000, &kv, &err)) return false;
    if (gy_kv_seq_new(kv, &a, &err)) goto out;
    for (int step = 0; step < 5; step++) {
        struct gy_seq before = *a;
        if (gy_kv_reserve(kv, a, 50, &err)) {
            assert_int_equal(err.rc, GY_ENOMEM);
            assert_int_equal(a->len, before.len);
            for (int g = 0; g < 2; g++) assert_int_equal(a->group[g].n, before.group[g].n);
            memset(&err, 0, sizeof err);
            assert_ok(gy_kv_reserve(kv, a, 50, &err),
                      err); /* the failure was single: trying again works */
            err.rc = GY_ENOMEM;
        }
        int32_t tok[50] = {0};
        for (int i = 0; i < 50; i++) put(kv, a, spec, 2, a->len + i, a->len + i);
        gy_kv_append(kv, a, tok, 50);
    }
    if (err.rc) goto out;
    if (gy_kv_seq_fork(kv, a, &b, &err)) goto out;
    if (gy_kv_reserve(kv, b, 1, &err)) {
        assert_ptr_equal(a->group[0].at[3], b->group[0].at[3]);
        goto out;
    }
    ok = true;
out:
    if (a)
        for (int p = a->len > 70 ? a->len - 70 : 0; p < a->len; p++)
            check(kv, a, spec, 2, p, p, "after failure");
    gy_kv_seq_free(kv, a);
    gy_kv_seq_free(kv, b);
    *kept = kv;
    gy_kv_free(kv);
    return ok;
}

static void test_faults(void **state) {
    (void)state;
    gy_kv *kv;
    long before = gy_alloc_count();
    assert_true(scenario(&kv));
    long n = gy_alloc_count() - before;
    assert_true(n > 10);
    for (long i = 1; i <= n; i++) {
        gy_alloc_fail_at(i);
        bool ok = scenario(&kv);
        gy_alloc_fail_at(0);
        if (ok) fail_msg("allocation %ld of %ld failed and nobody noticed", i, n);
    }
}

/* ---- A random walk against arrays of marks ---- */

enum { SEQS = 5, WALK = 4000 };
typedef struct {
    struct gy_seq *seq;
    int len, deepest, mark[MODEL_LEN];
} model_seq;

static void model_check(gy_kv *kv, const gy_kvspec *spec, const model_seq *m) {
    assert_int_equal(m->seq->len, m->len);
    for (int p = 0; p < m->len; p++) {
        if (m->seq->tok[p] != m->mark[p]) fail_msg("token of position %d", p);
        check(kv, m->seq, spec, 1, p, m->mark[p], "walk");
    }
    for (int l = 1; l < 3; l++) {
        int lo = m->len - spec[l].keep.window + 1;
        for (int p = lo > 0 ? lo : 0; p < m->len; p++) {
            gy_rows rows = gy_kv_page_rows(kv, m->seq, l, p / GY_PAGE, 0, true);
            float x[2 * DIM];
            gy_codecs[rows.c.kind].decode(&rows, p % GY_PAGE, x);
            if (x[0] != mark_value(m->mark[p], l, 0, true, 0))
                fail_msg("walk: layer %d position %d", l, p);
        }
    }
}

static void walk_grow(gy_kv *kv, const gy_kvspec *spec, model_seq *m, uint64_t *rng, int *mark) {
    int n = 1 + (int)(test_rand(rng) % (test_rand(rng) % 4 ? 8 : 150));
    if (m->len + n > MODEL_LEN) return;
    gy_err err = {0};
    struct gy_seq before = *m->seq;
    if (gy_kv_reserve(kv, m->seq, n, &err)) {
        assert_int_equal(err.rc, GY_ELIMIT);
        for (int g = 0; g < GY_KV_GROUPS; g++)
            assert_int_equal(before.group[g].n, m->seq->group[g].n);
        return;
    }
    if (test_rand(rng) % 8 == 0) return; /* reserved, then the step did not happen */
    for (int i = 0; i < n; i++)
        m->mark[m->len + i] = (*mark)++, put(kv, m->seq, spec, 3, m->len + i, *mark - 1);
    gy_kv_append(kv, m->seq, m->mark + m->len, n);
    m->len += n;
    if (m->len > m->deepest) m->deepest = m->len;
}

static void walk_trim(gy_kv *kv, model_seq *m, uint64_t *rng) {
    int back = (int)(test_rand(rng) % (test_rand(rng) % 3 ? 65 : 300));
    if (back > m->len) return;
    gy_err err = {0};
    gy_rc rc = gy_kv_trim(kv, m->seq, m->len - back, &err);
    if (!rc) {
        m->len -= back;
    } else {
        assert_int_equal(rc, GY_ELIMIT);
        if (m->len - back >= m->deepest - GY_PAGE)
            fail_msg("withdrawing %d of %d refused", back, m->len);
    }
}

static void test_walk(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    gy_err err = {0};
    gy_kvspec spec[] = {layer_spec(2, all(), -1), layer_spec(1, window(30, 0), -1),
                        layer_spec(1, window(130, 0), -1)};
    gy_kv *kv;
    assert_ok(gy_kv_new(spec, 3, 2000, &kv, &err), err);
    model_seq *m = calloc(SEQS, sizeof *m);
    int mark = 0;
    for (int i = 0; i < WALK; i++) {
        model_seq *a = &m[test_rand(&rng) % SEQS], *b = &m[test_rand(&rng) % SEQS];
        int what = (int)(test_rand(&rng) % 16);
        if (!a->seq) {
            assert_ok(gy_kv_seq_new(kv, &a->seq, &err), err);
            a->len = a->deepest = 0;
        } else if (what == 0 && a != b) {
            gy_kv_seq_free(kv, b->seq);
            *b = *a, b->seq = NULL;
            assert_ok(gy_kv_seq_fork(kv, a->seq, &b->seq, &err), err);
        } else if (what == 1) {
            gy_kv_seq_free(kv, a->seq), a->seq = NULL;
        } else if (what < 6) {
            walk_trim(kv, a, &rng);
        } else {
            walk_grow(kv, spec, a, &rng, &mark);
        }
        if (i % 16 == 0)
            for (int s = 0; s < SEQS; s++)
                if (m[s].seq) model_check(kv, spec, &m[s]);
    }
    for (int s = 0; s < SEQS; s++) gy_kv_seq_free(kv, m[s].seq);
    gy_kv_free(kv);
    free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),    cmocka_unit_test(test_forms),
        cmocka_unit_test(test_bad_specs), cmocka_unit_test(test_window),
        cmocka_unit_test(test_limit),     cmocka_unit_test(test_faults),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
