/* chain: every input changes the digest, every digest depends on all before it, and the values are
 * the ones written down here, so that another machine or a later build finds the same pages. */
#include "testlib.h"

#include "base/mem.h"
#include "kv/chain.h"

static gy_identity identity(void) {
    gy_identity id = {.bits = 1, .arith = 2};
    memset(id.model.b, 3, 32), memset(id.plan.b, 4, 32), memset(id.layout.b, 5, 32);
    return id;
}

static gy_kvspec spec(void) {
    return (gy_kvspec){
        .k = {.kind = GY_CODEC_F16},
        .v = {.kind = GY_CODEC_AFFINE, .bits = 4, .stype = GY_CODEC_F16, .group = 64},
        .heads = 2,
        .kdim = 64,
        .vdim = 128,
        .donor = -1,
        .keep = {.policy = GY_KEEP_WINDOW, .window = 512, .sinks = 4}};
}

static void root_of(const gy_identity *id, const char *adapter, const char *salt, gy_digest *out) {
    assert_true(gy_chain_root(id, adapter, salt, out));
}

static void test_root(void **state) {
    (void)state;
    gy_identity id = identity();
    gy_digest all[10];
    int n = 0;
    root_of(&id, NULL, NULL, &all[n++]);
    gy_digest same;
    root_of(&id, "", "", &same);
    assert_memory_equal(&same, &all[0], sizeof same);
    root_of(&id, "a", NULL, &all[n++]);
    root_of(&id, NULL, "a", &all[n++]);
    root_of(&id, "ab", "c", &all[n++]);
    root_of(&id, "a", "bc", &all[n++]);
    id.bits++, root_of(&id, NULL, NULL, &all[n++]), id = identity();
    id.arith++, root_of(&id, NULL, NULL, &all[n++]), id = identity();
    id.model.b[31]++, root_of(&id, NULL, NULL, &all[n++]), id = identity();
    id.plan.b[0]++, root_of(&id, NULL, NULL, &all[n++]), id = identity();
    id.layout.b[9]++, root_of(&id, NULL, NULL, &all[n++]);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (gy_digest_equal(all + i, all + k)) fail_msg("roots %d and %d are equal", i, k);
}

static void test_layout(void **state) {
    (void)state;
    gy_kvspec base[2] = {spec(), spec()};
    gy_digest want, got;
    assert_true(gy_chain_layout(base, 2, &want));
#define CHANGED(field)                                                                             \
    do {                                                                                           \
        gy_kvspec s[2] = {spec(), spec()};                                                         \
        s[1].field++;                                                                              \
        assert_true(gy_chain_layout(s, 2, &got));                                                  \
        if (gy_digest_equal(&want, &got)) fail_msg("%s does not reach the digest", #field);        \
    } while (0)
    CHANGED(k.kind);
    CHANGED(k.bits);
    CHANGED(k.stype);
    CHANGED(k.group);
    CHANGED(v.kind);
    CHANGED(v.bits);
    CHANGED(v.group);
    CHANGED(v.stype);
    CHANGED(heads);
    CHANGED(kdim);
    CHANGED(vdim);
    CHANGED(donor);
    CHANGED(keep.policy);
    CHANGED(keep.window);
    CHANGED(keep.sinks);
    CHANGED(form);
    CHANGED(conv);
    CHANGED(scan);
#undef CHANGED
    assert_true(gy_chain_layout(base, 1, &got));
    assert_false(gy_digest_equal(&want, &got));
    /* Padding between fields is not hashed. */
    gy_kvspec dirty[2];
    memset(dirty, 0xAA, sizeof dirty);
    for (int i = 0; i < 2; i++) {
        dirty[i].k.kind = base[i].k.kind, dirty[i].k.bits = 0, dirty[i].k.stype = 0;
        dirty[i].k.group = 0, dirty[i].v.kind = base[i].v.kind, dirty[i].v.bits = 4;
        dirty[i].v.stype = GY_CODEC_F16, dirty[i].v.group = 64, dirty[i].heads = 2;
        dirty[i].kdim = 64, dirty[i].vdim = 128, dirty[i].donor = -1;
        dirty[i].form = 0, dirty[i].conv = dirty[i].scan = 0;
        dirty[i].keep.policy = GY_KEEP_WINDOW, dirty[i].keep.window = 512, dirty[i].keep.sinks = 4;
    }
    assert_true(gy_chain_layout(dirty, 2, &got));
    assert_true(gy_digest_equal(&want, &got));
}

static void test_pages(void **state) {
    (void)state;
    enum { PAGES = 4 };
    gy_identity id = identity();
    int32_t tok[PAGES * GY_PAGE];
    gy_digest root, d[PAGES];
    for (int i = 0; i < PAGES * GY_PAGE; i++) tok[i] = 7 * i - 3;
    root_of(&id, "", "", &root);
    for (int i = 0; i < PAGES; i++)
        assert_true(gy_chain_next(i ? d + i - 1 : &root, tok + i * GY_PAGE, d + i));
    /* Any token changes its own page's name and all later ones, no earlier one. */
    static const int at[] = {0, 63, 64, 100, 191, 192, 255};
    for (size_t c = 0; c < sizeof at / sizeof *at; c++) {
        gy_digest x = root;
        tok[at[c]] ^= 1 << 30;
        for (int i = 0; i < PAGES; i++) {
            assert_true(gy_chain_next(&x, tok + i * GY_PAGE, &x)); /* in place */
            bool equal = gy_digest_equal(&x, d + i);
            if (equal != (i < at[c] / GY_PAGE))
                fail_msg("token %d changed: page %d is %s", at[c], i, equal ? "equal" : "other");
        }
        tok[at[c]] ^= 1 << 30;
    }
}

/* sha256 over the bytes that chain.h promises, computed with Python's hashlib. */
static void test_values(void **state) {
    (void)state;
    gy_identity id = identity();
    gy_digest d;
    char hex[65];
    int32_t tok[GY_PAGE];
    for (int i = 0; i < GY_PAGE; i++) tok[i] = i * 1000 - 1;
    root_of(&id, "ad", "s", &d);
    assert_string_equal(gy_digest_hex(&d, hex),
                        "cc0813f1dcfaf778f2fea021362d7ffc9f2443192921072b4f2189c5b31704b2");
    assert_true(gy_chain_next(&d, tok, &d));
    assert_string_equal(gy_digest_hex(&d, hex),
                        "95678f81ea5c9c41ca895f934dbda8f2472cdf65ff0656d2d3f43194e6571125");
}

static void test_memory(void **state) {
    (void)state;
    gy_identity id = identity();
    gy_digest d;
    int32_t tok[GY_PAGE] = {0};
    gy_kvspec s = spec();
    gy_alloc_fail_at(1);
    assert_false(gy_chain_root(&id, "", "", &d));
    gy_alloc_fail_at(1);
    assert_false(gy_chain_next(&d, tok, &d));
    gy_alloc_fail_at(1);
    assert_false(gy_chain_layout(&s, 1, &d));
    gy_alloc_fail_at(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_root),   cmocka_unit_test(test_layout), cmocka_unit_test(test_pages),
        cmocka_unit_test(test_values), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
