/* kv: other codecs for a sequence (gy_kv_transition), drafts (gy_kv_settle), and every allocation
 * of both failing. */
#include "testlib.h"

#include "base/mem.h"
#include "kv/kv.h"

enum { DIM = 64, LAYERS = 4, WINDOW = 70 };

static const gy_cparm f32 = {.kind = GY_CODEC_F32}, f16 = {.kind = GY_CODEC_F16},
                      q4 = {GY_CODEC_AFFINE, 4, GY_CODEC_F16, 32},
                      q8 = {GY_CODEC_AFFINE, 8, GY_CODEC_F16, 64},
                      tk = {.kind = GY_CODEC_TURBO_K, .bits = 8},
                      tv = {.kind = GY_CODEC_TURBO_V, .bits = 3};

/* A layer that keeps all, one with a window, keys alone, and V as a view of K. */
static void specs(gy_kvspec spec[LAYERS]) {
    for (int i = 0; i < LAYERS; i++)
        spec[i] = (gy_kvspec){
            .k = f32, .v = f32, .heads = 1 + i % 2, .kdim = DIM, .vdim = DIM, .donor = -1};
    spec[1].keep = (gy_keep){.policy = GY_KEEP_WINDOW, .window = WINDOW};
    spec[2].form = GY_KV_KEYS, spec[2].vdim = 0;
    spec[3].form = GY_KV_VIEW;
}

static gy_kv *store(int positions) {
    gy_kvspec spec[LAYERS];
    gy_kv *kv;
    gy_err err = {0};
    specs(spec);
    assert_ok(gy_kv_new(spec, LAYERS, positions, &kv, &err), err);
    return kv;
}

static int coding_of(gy_kv *kv, gy_cparm k, gy_cparm v) {
    gy_kvpair pair[LAYERS];
    gy_err err = {0};
    int coding;
    for (int i = 0; i < LAYERS; i++) pair[i] = (gy_kvpair){k, v};
    assert_ok(gy_kv_coding(kv, pair, &coding, &err), err);
    return coding;
}

static void value_of(int layer, int head, bool v, int pos, float x[DIM]) {
    uint64_t s = (uint64_t)(((layer * 4 + head) * 2 + v) * 100000 + pos);
    for (int i = 0; i < DIM; i++) x[i] = test_uniform(&s) * 3;
}

static int parts_of(int layer) { /* of a head that are stored */
    return layer < 2 ? 2 : 1;
}

static void put(gy_kv *kv, gy_seq *s, int n) {
    for (int p = s->len; p < s->len + n; p++)
        for (int l = 0; l < LAYERS; l++)
            for (int h = 0; h < 1 + l % 2; h++)
                for (int v = 0; v < parts_of(l); v++) {
                    float x[DIM];
                    gy_rows m = gy_kv_page_rows(kv, s, l, p / GY_PAGE, h, v);
                    value_of(l, h, v, p, x);
                    gy_codecs[m.c.kind].encode(&m, p % GY_PAGE, x);
                }
}

static void grow(gy_kv *kv, gy_seq *s, int n, int drafts) {
    gy_err err = {0};
    int32_t tok[1024] = {0};
    assert_ok(gy_kv_reserve(kv, s, n, &err), err);
    put(kv, s, n);
    gy_kv_append_drafts(kv, s, tok, n, drafts);
}

/* The bytes of position p are those of its values coded once, by the codecs of its page. */
static void check(const char *what, gy_kv *kv, const gy_seq *s, int p) {
    for (int l = 0; l < LAYERS; l++) {
        int g = gy_kv_layer_group(kv, l);
        if (!gy_kv_page_needed(kv, g, s->len, p / GY_PAGE)) continue;
        for (int part = 0; part < (1 + l % 2) * parts_of(l); part++) {
            int h = part / parts_of(l), v = part % parts_of(l);
            float x[DIM];
            uint8_t room[3][DIM * 4];
            gy_rows m = gy_kv_page_rows(kv, s, l, p / GY_PAGE, h, v), one = m;
            value_of(l, h, v, p, x);
            for (int k = 0; k < 3; k++) one.plane[k] = m.plane[k] ? room[k] : NULL;
            gy_codecs[m.c.kind].encode(&one, 0, x);
            for (int k = 0; k < 3; k++)
                if (m.plane[k] && memcmp(room[k], (uint8_t *)m.plane[k] + p % GY_PAGE * m.step[k],
                                         (size_t)m.step[k]))
                    fail_msg("%s: layer %d head %d %c of position %d", what, l, h, "kv"[v], p);
        }
    }
}

static void check_all(const char *what, gy_kv *kv, const gy_seq *s) {
    for (int p = 0; p < s->len; p++) check(what, kv, s, p);
}

static gy_seq *seq_of(gy_kv *kv) {
    gy_seq *s;
    gy_err err = {0};
    assert_ok(gy_kv_seq_new(kv, &s, &err), err);
    return s;
}

static int kind_at(gy_kv *kv, const gy_seq *s, int page) {
    return gy_kv_page_rows(kv, s, 0, page, 0, false).c.kind;
}

static void whole(void **state) {
    (void)state;
    gy_kv *kv = store(2000);
    gy_seq *a = seq_of(kv), *b;
    gy_err err = {0};
    int coding = coding_of(kv, q4, q8);
    assert_int_equal(coding_of(kv, f32, f32), 0);
    assert_int_equal(coding_of(kv, q4, q8), coding);
    grow(kv, a, 300, 0);
    assert_ok(gy_kv_seq_fork(kv, a, &b, &err), err);
    assert_ok(gy_kv_transition(kv, a, coding, 0, &err), err);
    check_all("recoded", kv, a), check_all("its fork", kv, b);
    assert_int_equal(kind_at(kv, a, 4), GY_CODEC_AFFINE);
    assert_int_equal(kind_at(kv, b, 4), GY_CODEC_F32);
    assert_true(gy_kv_recoded(a) && !gy_kv_recoded(b));
    grow(kv, a, 100, 0), grow(kv, b, 50, 0);
    check_all("grown", kv, a), check_all("its fork grown", kv, b);
    gy_kv_seq_free(kv, b);
    /* Back among what old codes computed: refused, but to nothing. */
    assert_int_equal(gy_kv_trim(kv, a, 299, &err), GY_ELIMIT);
    assert_int_equal(a->len, 400);
    assert_ok(gy_kv_trim(kv, a, 350, (err = (gy_err){0}, &err)), err);
    assert_ok(gy_kv_seq_fork(kv, a, &b, &err), err);
    assert_int_equal(gy_kv_trim(kv, b, 299, &err), GY_ELIMIT);
    assert_ok(gy_kv_trim(kv, a, 0, (err = (gy_err){0}, &err)), err);
    grow(kv, a, 10, 0);
    assert_int_equal(kind_at(kv, a, 0), GY_CODEC_AFFINE);
    assert_ok(gy_kv_trim(kv, a, 5, &err), err); /* nothing old is below */
    gy_kv_seq_free(kv, a), gy_kv_seq_free(kv, b);
    gy_kv_free(kv);
}

/* Turned values come back as they were, up to their codec. */
static void turned(void **state) {
    (void)state;
    gy_kv *kv = store(500);
    gy_seq *a = seq_of(kv);
    gy_err err = {0};
    double off = 0;
    grow(kv, a, 100, 0);
    assert_ok(gy_kv_transition(kv, a, coding_of(kv, tk, tv), 0, &err), err);
    check_all("turned", kv, a);
    assert_ok(gy_kv_transition(kv, a, 0, 0, &err), err); /* and back to f32 */
    for (int p = 0; p < 100; p++) {
        float x[DIM], y[DIM];
        gy_rows m = gy_kv_page_rows(kv, a, 0, p / GY_PAGE, 0, true);
        value_of(0, 0, true, p, x);
        gy_codecs[m.c.kind].decode(&m, p % GY_PAGE, y);
        for (int i = 0; i < DIM; i++) off += (x[i] - y[i]) * (x[i] - y[i]) / 3;
    }
    assert_true(off / (100 * DIM) < 1.5 * 0.0345); /* of variance 1, 3 bits lose 0.0345 (kv.md) */
    gy_kv_seq_free(kv, a);
    gy_kv_free(kv);
}

static void mix(void **state) {
    (void)state;
    gy_kv *kv = store(2000);
    gy_seq *a = seq_of(kv);
    gy_err err = {0};
    int coding = coding_of(kv, q4, q4), turbo = coding_of(kv, tk, tv);
    assert_ok(gy_kv_transition(kv, a, coding, 2 * GY_PAGE, &err), err);
    assert_true(gy_kv_recoded(a) && !gy_kv_mixed(kv, a, 0));
    for (int i = 0; i < 30; i++) {
        grow(kv, a, 25, 0);
        if (a->len < 500) continue;
        assert_ok(gy_kv_trim(kv, a, a->len - 20, &err), err);
    }
    for (int p = 0; p < a->len / GY_PAGE; p++)
        assert_int_equal(kind_at(kv, a, p), p < 2 ? GY_CODEC_F32 : GY_CODEC_AFFINE);
    check_all("mix", kv, a);
    assert_int_equal(a->reusable, 0);
    /* The border may come down, not go up. */
    assert_int_equal(gy_kv_transition(kv, a, turbo, 3 * GY_PAGE, &err), GY_EUNSUPPORTED);
    /* What is there already is no change. */
    assert_ok(gy_kv_transition(kv, a, coding, 3 * GY_PAGE, (err = (gy_err){0}, &err)), err);
    assert_ok(gy_kv_transition(kv, a, coding, 2 * GY_PAGE, &err), err);
    assert_true(!a->reusable && a->border == 2);
    assert_ok(gy_kv_transition(kv, a, turbo, GY_PAGE, &err), err);
    assert_int_equal(kind_at(kv, a, 0), GY_CODEC_F32);
    assert_int_equal(kind_at(kv, a, 1), GY_CODEC_TURBO_K);
    assert_true(gy_kv_mixed(kv, a, 0));
    assert_int_equal(a->reusable, a->len);
    gy_kv_seq_free(kv, a);
    gy_kv_free(kv);
}

static void refused(void **state) {
    (void)state;
    gy_kv *kv = store(2000);
    gy_seq *a = seq_of(kv);
    gy_err err = {0};
    int coding = coding_of(kv, q4, q4);
    gy_kvpair odd[LAYERS];
    grow(kv, a, 100, 3);
    assert_int_equal(gy_kv_transition(kv, a, coding, 0, &err), GY_EARG); /* drafts wait */
    assert_ok(gy_kv_settle(kv, a, 2, (err = (gy_err){0}, &err)), err);
    assert_int_equal(gy_kv_transition(kv, a, coding, 63, &err), GY_EARG);
    assert_int_equal(gy_kv_transition(kv, a, coding, -64, (err = (gy_err){0}, &err)), GY_EARG);
    for (int i = 0; i < LAYERS; i++) odd[i] = (gy_kvpair){f16, f16};
    odd[1].v = tk; /* turbo keys as values */
    assert_int_equal(gy_kv_coding(kv, odd, &coding, (err = (gy_err){0}, &err)), GY_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "layer 1"));
    for (uint8_t bits = 2; bits <= 8; bits++) { /* 2 3 4 5 6 8, of which 4 is there: seven in all */
        if (bits == 7) continue;
        for (int i = 0; i < LAYERS; i++) odd[i].k = odd[i].v = q4, odd[i].k.bits = bits;
        assert_ok(gy_kv_coding(kv, odd, &coding, (err = (gy_err){0}, &err)), err);
    }
    coding_of(kv, q8, q8);
    for (int i = 0; i < LAYERS; i++) odd[i] = (gy_kvpair){f16, f16};
    assert_int_equal(gy_kv_coding(kv, odd, &coding, &err), GY_ELIMIT);
    check_all("after refusals", kv, a);
    gy_kv_seq_free(kv, a);
    gy_kv_free(kv);
}

/* A bound is a bound on positions; other codecs give their memory back. */
static void memory(void **state) {
    (void)state;
    gy_kv *kv = store(512); /* 8 pages */
    gy_seq *a = seq_of(kv), *b;
    gy_err err = {0};
    int coding = coding_of(kv, q4, q4);
    grow(kv, a, 320, 0); /* 5 */
    int64_t held = gy_kv_held_bytes(kv);
    assert_ok(gy_kv_seq_fork(kv, a, &b, &err), err);
    assert_int_equal(gy_kv_transition(kv, b, coding, 0, &err), GY_ELIMIT); /* 5 more */
    assert_int_equal(gy_kv_held_bytes(kv), held);
    check_all("refused", kv, b), check_all("refused", kv, a);
    assert_ok(gy_kv_transition(kv, b, coding, 128, (err = (gy_err){0}, &err)), err); /* 3 more */
    check_all("half", kv, b), check_all("half", kv, a);
    gy_kv_seq_free(kv, b);
    held = gy_kv_held_bytes(kv);
    assert_ok(gy_kv_transition(kv, a, coding, 0, &err), err);
    assert_true(gy_kv_held_bytes(kv) <
                held - 5 * 64 * 7 * DIM * 3); /* 4 bytes became less than 1 */
    grow(kv, a, 192, 0);                      /* 8 pages: full, over pages of two kinds */
    assert_int_equal(gy_kv_reserve(kv, a, 1, &err), GY_ELIMIT);
    b = seq_of(kv);
    assert_int_equal(gy_kv_reserve(kv, b, 1, (err = (gy_err){0}, &err)), GY_ELIMIT);
    gy_kv_seq_free(kv, a);
    grow(kv, b, 512, 0); /* waiting pages of other codecs make room */
    check_all("plain again", kv, b);
    assert_true(gy_kv_held_bytes(kv) <= 8 * (64 * 9 * DIM * 4 + 2 * 64) + 4096);
    gy_kv_seq_free(kv, b);
    gy_kv_free(kv);
}

static void settle(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    gy_kv *kv = store(3000);
    gy_seq *a = seq_of(kv);
    gy_err err = {0};
    for (int round = 0; a->len < 900; round++) {
        int d = (int)(test_rand(&rng) % (round % 5 ? 9 : 200)), before = a->len;
        int keep = (int)(test_rand(&rng) % (unsigned)(d + 1));
        grow(kv, a, 1 + d, d);
        assert_int_equal(a->committed, before + 1);
        assert_int_equal(gy_kv_settle(kv, a, d + 1, &err), GY_EARG);
        assert_int_equal(gy_kv_settle(kv, a, -1, (err = (gy_err){0}, &err)), GY_EARG);
        assert_ok(gy_kv_settle(kv, a, keep, (err = (gy_err){0}, &err)), err);
        assert_int_equal(a->len, before + 1 + keep);
        assert_int_equal(a->committed, a->len);
        check_all("settled", kv, a); /* with all that the window must hold */
    }
    gy_kv_seq_free(kv, a);
    gy_kv_free(kv);
}

/* One scenario; false when an allocation failed, and then all is as before the call that failed. */
static bool scenario(void) {
    gy_kvspec spec[LAYERS];
    gy_kvpair pair[LAYERS];
    gy_kv *kv = NULL;
    gy_seq *a = NULL, *b = NULL;
    gy_err err = {0};
    int coding, len = 0;
    bool ok = false;
    specs(spec);
    for (int i = 0; i < LAYERS; i++) pair[i] = (gy_kvpair){q4, q8};
    if (gy_kv_new(spec, LAYERS, 1000, &kv, &err)) return false;
    if (gy_kv_seq_new(kv, &a, &err)) goto out;
    for (int i = 0; i < 4; i++) {
        int32_t tok[90] = {0};
        if (gy_kv_reserve(kv, a, 90, &err)) goto out;
        put(kv, a, 90);
        gy_kv_append_drafts(kv, a, tok, 90, 40);
        if (gy_kv_settle(kv, a, 10, &err)) fail_msg("settling failed: %s", err.msg);
        len += 60;
    }
    if (gy_kv_seq_fork(kv, a, &b, &err)) goto out;
    if (gy_kv_coding(kv, pair, &coding, &err)) goto out;
    if (gy_kv_transition(kv, a, coding, GY_PAGE, &err)) {
        assert_int_equal(err.rc, GY_ENOMEM);
        assert_true(!gy_kv_recoded(a) && kind_at(kv, a, 2) == GY_CODEC_F32);
        goto out;
    }
    len += 40;
    if (gy_kv_reserve(kv, a, 40, &err)) {
        len -= 40;
        goto out;
    }
    int32_t tok[40] = {0};
    put(kv, a, 40);
    gy_kv_append(kv, a, tok, 40);
    ok = true;
out:
    if (a) assert_int_equal(a->len, len);
    if (a) check_all("after a failure", kv, a);
    if (b) check_all("fork after a failure", kv, b);
    gy_kv_seq_free(kv, a), gy_kv_seq_free(kv, b);
    gy_kv_free(kv);
    return ok;
}

static void faults(void **state) {
    (void)state;
    long before = gy_alloc_count();
    assert_true(scenario());
    long n = gy_alloc_count() - before;
    for (long i = 1; i <= n; i++) {
        gy_alloc_fail_at(i);
        bool ok = scenario();
        gy_alloc_fail_at(0);
        if (ok) fail_msg("allocation %ld of %ld failed and nobody noticed", i, n);
    }
    printf("%ld allocations, each failed once\n", n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole),  cmocka_unit_test(turned),
                                       cmocka_unit_test(mix),    cmocka_unit_test(refused),
                                       cmocka_unit_test(memory), cmocka_unit_test(settle),
                                       cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
