/* Names of KV codecs: every form that codec/kvname.h lists, refusals with their reasons, and the
 * way back. */
#include "testlib.h"

#include "codec/kvname.h"

enum { F32 = GY_CODEC_F32, F16 = GY_CODEC_F16, BF16 = GY_CODEC_BF16 };

#define PLAIN(t)                                                                                   \
    { .kind = t }
#define AFF(b, g, t)                                                                               \
    { GY_CODEC_AFFINE, b, t, g }
#define TK(b)                                                                                      \
    { .kind = GY_CODEC_TURBO_K, .bits = b }
#define TV(b)                                                                                      \
    { .kind = GY_CODEC_TURBO_V, .bits = b }
#define TX(b)                                                                                      \
    { .kind = GY_CODEC_TURBOX_V, .bits = b }

static bool equal(gy_cparm a, gy_cparm b) {
    return a.kind == b.kind && a.bits == b.bits && a.stype == b.stype && a.group == b.group;
}

static void reads_names(void **state) {
    (void)state;
    static const struct {
        const char *text;
        gy_cparm k, v;
    } cases[] = {
        {"f16", PLAIN(F16), PLAIN(F16)},
        {"bf16", PLAIN(BF16), PLAIN(BF16)},
        {"f32", PLAIN(F32), PLAIN(F32)},
        {"f32.f16", PLAIN(F32), PLAIN(F16)},
        {"q8", AFF(8, 64, F16), AFF(8, 64, F16)},
        {"q4", AFF(4, 64, F16), AFF(4, 64, F16)},
        {"q3", AFF(3, 64, F16), AFF(3, 64, F16)},
        {"q4.32", AFF(4, 32, F16), AFF(4, 32, F16)},
        {"q4g32", AFF(4, 32, F16), AFF(4, 32, F16)},
        {"q6:g128", AFF(6, 128, F16), AFF(6, 128, F16)},
        {"q8:g32:f32", AFF(8, 32, F32), AFF(8, 32, F32)},
        {"q8.32:bf16", AFF(8, 32, BF16), AFF(8, 32, BF16)},
        {"q8:f32", AFF(8, 64, F32), AFF(8, 64, F32)},
        {"q8.q4", AFF(8, 64, F16), AFF(4, 64, F16)},
        {"q8.128.q4.32", AFF(8, 128, F16), AFF(4, 32, F16)},
        {"q8:g32:f32.bf16", AFF(8, 32, F32), PLAIN(BF16)},
        {"f16.q4:g32", PLAIN(F16), AFF(4, 32, F16)},
        {"q8.f16", AFF(8, 64, F16), PLAIN(F16)},
        {"k8v4", AFF(8, 64, F16), AFF(4, 64, F16)},
        {"k8.v4", AFF(8, 64, F16), AFF(4, 64, F16)},
        {"k8v4.32", AFF(8, 32, F16), AFF(4, 32, F16)},
        {"k8.v4:g128:f32", AFF(8, 128, F32), AFF(4, 128, F32)},
        {"k8.64.v4.32", AFF(8, 64, F16), AFF(4, 32, F16)},
        {"k8:g128v4", AFF(8, 128, F16), AFF(4, 64, F16)},
        {"k8.f16", AFF(8, 64, F16), PLAIN(F16)},
        {"f16.v4", PLAIN(F16), AFF(4, 64, F16)},
        {"turbo", TK(8), TV(3)},
        {"turbo-k8v3", TK(8), TV(3)},
        {"turbo-k4v2", TK(4), TV(2)},
        {"turbo:k5.v8", TK(5), TV(8)},
        {"turbo:k2v5", TK(2), TV(5)},
        {"turbo-k8.v4", TK(8), TV(4)},
        {"turbox", TK(8), TX(4)},
        {"turbox-k8v8", TK(8), TX(8)},
        {"turbox:k4.v5", TK(4), TX(5)},
        {"f16.turbo-v3", PLAIN(F16), TV(3)},
        {"q8.turbox-v4", AFF(8, 64, F16), TX(4)},
        {"turbo-k8.f16", TK(8), PLAIN(F16)},
        {"turbo-k8.turbox-v5", TK(8), TX(5)},
        {"q8_0", AFF(8, 32, F16), AFF(8, 32, F16)},
        {"q4_0", AFF(4, 32, F16), AFF(4, 32, F16)},
        {"q4_1.f16", AFF(4, 32, F16), PLAIN(F16)},
        {"f16.q8_0", PLAIN(F16), AFF(8, 32, F16)},
        {"q8_0.q4_0", AFF(8, 32, F16), AFF(4, 32, F16)},
    };
    int read = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_cparm k, v;
        gy_err err = {0};
        char text[64];
        /* Followed by something, and without a NUL: only n bytes count. */
        int n = snprintf(text, sizeof text, "%s", cases[i].text);
        text[n] = '9';
        gy_rc rc = gy_kv_codec_parse(text, (size_t)n, &k, &v, &err);
        if (rc) fail_msg("%s: %s", cases[i].text, err.msg);
        if (!equal(k, cases[i].k)) fail_msg("%s: keys", cases[i].text);
        if (!equal(v, cases[i].v)) fail_msg("%s: values", cases[i].text);
        read++;
    }
    printf("%d names read\n", read);
}

static void refuses_names(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "not a KV codec"},
        {"f8", "not a KV codec"},
        {"F16", "not a KV codec"},
        {"f16 ", "not a KV codec"},
        {"f161", "not a KV codec"},
        {"q", "not a KV codec"},
        {"q7", "2, 3, 4, 5, 6 or 8 bits"},
        {"q0", "2, 3, 4, 5, 6 or 8 bits"},
        {"q16", "2, 3, 4, 5, 6 or 8 bits"},
        {"q44444444444444", "2, 3, 4, 5, 6 or 8 bits"},
        {"q4.16", "32, 64 or 128 values"},
        {"q4.99999999999", "32, 64 or 128 values"},
        {"q4:g", "32, 64 or 128 values"},
        {"q4:x", "after ':'"},
        {"q4:g32:", "after ':'"},
        {"q4.32.32", "not a KV codec"},
        {"q5_0", "not a KV codec"},
        {"q5_1", "not a KV codec"},
        {"iq4_nl", "not a KV codec"},
        {"q8_0x", "not a KV codec"},
        {"f16.", "not a KV codec"},
        {".f16", "not a KV codec"},
        {"f16.f16.f16", "not a KV codec"},
        {"f16,f16", "not a KV codec"},
        {"k8", "keys only"},
        {"v8", "values only"},
        {"k8v", "2, 3, 4, 5, 6 or 8 bits"},
        {"v4.k8", "before the '.'"},
        {"k8.k8", "after the '.'"},
        {"k8v4.f16", "before the '.'"},
        {"f16.k8v4", "after the '.'"},
        {"turbo.f16", "before the '.'"},
        {"f16.turbo", "after the '.'"},
        {"turbo-k8", "keys only"},
        {"turbo-v3", "values only"},
        {"turbo-", "after turbo-"},
        {"turbo:x", "after turbo-"},
        {"turbo-k3v3", "keys have 2, 4, 5 or 8"},
        {"turbo-k8v6", "values have 2, 3, 4, 5 or 8"},
        {"turbo-k8v3000", "values have 2, 3, 4, 5 or 8"},
        {"turbox-k8v3", "values have 4, 5 or 8"},
        {"turbo-k8v3/grow", "not a KV codec"},
        {"turbok8v3", "not a KV codec"},
        {"turbo-k8.v4.32", "not a KV codec"}, /* turbo has no group to choose */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_cparm k, v;
        gy_err err = {0};
        gy_rc rc = gy_kv_codec_parse(cases[i].text, strlen(cases[i].text), &k, &v, &err);
        if (rc != GY_EARG) fail_msg("'%s' was read", cases[i].text);
        if (!strstr(err.msg, cases[i].why)) fail_msg("'%s': %s", cases[i].text, err.msg);
    }
    gy_cparm k, v;
    assert_int_equal(gy_kv_codec_parse("f16\0x", 5, &k, &v, NULL), GY_EARG);
    printf("%zu names refused\n", sizeof cases / sizeof *cases);
}

/* Every codec that can hold keys or values. */
static int sides(bool value, gy_cparm out[80]) {
    static const uint8_t widths[] = {2, 3, 4, 5, 6, 8};
    int n = 0;
    for (uint8_t t = 0; t < 3; t++) out[n++] = (gy_cparm){.kind = t};
    for (int b = 0; b < 6; b++)
        for (uint16_t g = 32; g <= 128; g *= 2)
            for (uint8_t t = 0; t < 3; t++) out[n++] = (gy_cparm){GY_CODEC_AFFINE, widths[b], t, g};
    for (uint8_t kind = GY_CODEC_TURBO_K; kind <= GY_CODEC_TURBOX_V; kind++) {
        for (uint8_t b = 0; b < 9; b++) {
            gy_cparm c = {.kind = kind, .bits = b};
            if ((kind != GY_CODEC_TURBO_K) == value && gy_codecs[kind].fits(c, 64)) out[n++] = c;
        }
    }
    return n;
}

static void names_lead_back(void **state) {
    (void)state;
    gy_cparm ks[80], vs[80];
    int nk = sides(false, ks), nv = sides(true, vs);
    assert_int_equal(nk, 3 + 54 + 4);
    assert_int_equal(nv, 3 + 54 + 8);
    for (int i = 0; i < nk; i++) {
        for (int j = 0; j < nv; j++) {
            char name[48];
            gy_cparm k, v;
            gy_err err = {0};
            gy_kv_codec_name(ks[i], vs[j], name);
            gy_rc rc = gy_kv_codec_parse(name, strlen(name), &k, &v, &err);
            if (rc || !equal(k, ks[i]) || !equal(v, vs[j])) fail_msg("%s: %s", name, err.msg);
        }
    }
    char name[48];
    assert_string_equal(gy_kv_codec_name((gy_cparm)TK(8), (gy_cparm)TV(3), name), "turbo-k8v3");
    assert_string_equal(
        gy_kv_codec_name((gy_cparm)AFF(8, 64, F16), (gy_cparm)AFF(8, 64, F16), name), "q8:g64");
    assert_string_equal(gy_kv_codec_name((gy_cparm)TV(3), (gy_cparm)TV(3), name), "?");
    printf("%d pairs of codecs named and read\n", nk * nv);
}

static void tells_what_fits(void **state) {
    (void)state;
    static const struct {
        gy_cparm k, v;
        int kdim, vdim;
        const char *why; /* NULL: fits */
    } cases[] = {
        {PLAIN(F16), PLAIN(F16), 80, 80, NULL},
        {AFF(8, 64, F16), AFF(4, 64, F16), 128, 128, NULL},
        {AFF(8, 64, F16), AFF(8, 64, F16), 96, 96, "groups of 32 (q8.32) fit"},
        {AFF(8, 128, F16), AFF(8, 128, F16), 64, 64, "groups of 64 (q8.64) fit"},
        {AFF(8, 64, F16), AFF(8, 64, F16), 80, 80, "keys of 80 values; f16 fits"},
        {AFF(8, 64, F16), AFF(4, 64, F16), 128, 96, "values of 96 values: not a multiple of 64"},
        {AFF(7, 64, F16), PLAIN(F16), 128, 128, "f16 fits"},
        {TK(8), TV(3), 64, 512, NULL},
        {TK(8), TV(3), 96, 96, "64, 128, 256 or 512"},
        {TK(8), TV(3), 128, 80, "turbo v3 cannot store values of 80"},
        {TV(3), TV(3), 128, 128, "cannot store keys"},
        {TK(8), TK(8), 128, 128, "cannot store values"},
        {PLAIN(GY_CODEC_Q8_0), PLAIN(F16), 128, 128, "Q8_0 cannot store keys"},
        {PLAIN(200), PLAIN(F16), 128, 128, "cannot store keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_err err = {0};
        gy_rc rc = gy_kv_codec_fits(cases[i].k, cases[i].v, cases[i].kdim, cases[i].vdim, &err);
        if (!cases[i].why) {
            if (rc) fail_msg("case %zu: %s", i, err.msg);
        } else if (rc != GY_EUNSUPPORTED || !strstr(err.msg, cases[i].why)) {
            fail_msg("case %zu: %s", i, err.msg);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names), cmocka_unit_test(refuses_names),
        cmocka_unit_test(names_lead_back), cmocka_unit_test(tells_what_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
