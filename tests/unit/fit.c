/* Projected memory: against what engines really take from malloc, against a budget, and against
 * the architectures of shared/cases/memory. */
#include <malloc.h>

#include "base/fmap.h"
#include "base/json.h"
#include "base/mem.h"
#include "run/engine.h"
#include "testlib.h"

static gy_model *model;

static int open_model(void **state) {
    gy_err err = {0};
    (void)state;
    return gy_model_open(data_path("models/gemma3"), &(gy_model_options){.no_tokenizer = true},
                         &model, &err);
}

static int close_model(void **state) {
    (void)state;
    gy_model_unref(model);
    return 0;
}

static int64_t taken(void) {
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
}

/* Fills every sequence one after another, by a prompt and then single tokens. */
static void fill(gy_engine *e, gy_seq **s, int sequences, int len) {
    int32_t *ids = calloc((size_t)len, sizeof *ids);
    for (int i = 0; i < sequences; i++) {
        gy_err err = {0};
        assert_ok(gy_seq_new(e, s + i, &err), err);
        gy_feed f = {.seq = s[i], .ids = ids, .n = len - 5, .first_out = len - 5};
        assert_ok(gy_step(e, &f, 1, NULL, &err), err);
    }
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < sequences; i++) {
            gy_err err = {0};
            gy_feed f = {.seq = s[i], .ids = ids, .n = 1, .first_out = 1};
            assert_ok(gy_step(e, &f, 1, NULL, &err), err);
        }
    free(ids);
}

static void as_projected(void **state) {
    (void)state;
    static const struct {
        const char *kv;
        int context, sequences, chunk, threads;
        gy_arith arith;
    } cases[] = {{"f16", 2000, 1, 512, 1, GY_ARITH_FAST},
                 {"f32", 1000, 3, 64, 2, GY_ARITH_EXACT},
                 {"q8.32", 2048, 2, 100, 1, GY_ARITH_FAST},
                 {"q4.32:f32", 4000, 1, 1, 1, GY_ARITH_EXACT},
                 {"f32.q2.32", 777, 4, 333, 1, GY_ARITH_FAST}};
    if (!taken()) { /* the sanitizers' allocator */
        printf("notice: skipped, this malloc does not tell what it gave\n");
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gy_engine_options o = {.kv = cases[i].kv,
                               .context = cases[i].context,
                               .sequences = cases[i].sequences,
                               .chunk = cases[i].chunk,
                               .threads = cases[i].threads,
                               .arith = cases[i].arith};
        gy_need need;
        gy_err err = {0};
        gy_engine *e;
        gy_seq *s[4];
        assert_ok(gy_fit(model, &o, 0, &need, &err), err);
        int64_t before = taken();
        assert_ok(gy_engine_new(model, &o, &e, &err), err);
        fill(e, s, o.sequences, o.context);
        int64_t got = taken() - before, want = need.kv + need.scratch;
        printf("%-10s %d x %d, chunk %d: taken %lld, projected %lld (%.2f %%)\n", o.kv, o.sequences,
               o.context, o.chunk, (long long)got, (long long)want,
               100.0 * (double)(got - want) / (double)want);
        if (llabs(got - want) * 100 > 3 * want)
            fail_msg("%s: %lld bytes taken, %lld projected", o.kv, (long long)got, (long long)want);
        for (int k = 0; k < o.sequences; k++) gy_seq_free(e, s[k]);
        gy_engine_free(e);
    }
}

/* Prompts until the tree is full, of sequences that end. */
static void fill_prefixes(gy_engine *e, int64_t budget) {
    enum { PROMPT = 200 };
    int32_t ids[PROMPT];
    gy_engine_info info = {0};
    for (int t = 0; info.prefix_bytes < budget - budget / 50; t++) {
        gy_err err = {0};
        gy_seq *s;
        assert_true(t < 1000);
        for (int i = 0; i < PROMPT; i++) ids[i] = (t * 7 + i) % 100;
        gy_request r = {.ids = ids, .n = PROMPT, .max_tokens = 1, .ignore_eos = true};
        ids[0] = t % 100, ids[1] = t / 100;
        assert_ok(gy_seq_new(e, &s, &err), err);
        assert_ok(gy_generate(e, s, &r, NULL, NULL, NULL, &err), err);
        gy_seq_free(e, s);
        gy_engine_get_info(e, &info);
    }
}

/* The memory for shared prefixes is part of the sum, as what really is taken when it is full. */
static void prefixes(void **state) {
    (void)state;
    gy_need without, with;
    gy_err err = {0};
    gy_engine *e = NULL;
    gy_engine_options o = {.threads = 1, .context = 1000, .sequences = 2, .chunk = 64};
    assert_ok(gy_fit(model, &o, 0, &without, &err), err);
    assert_int_equal(without.prefix, 0);
    o.prefix_bytes = 3000000;
    assert_ok(gy_fit(model, &o, 0, &with, &err), err);
    assert_int_equal(with.prefix, o.prefix_bytes);
    assert_int_equal(with.total, with.weights + with.kv + with.prefix + with.scratch);
    assert_int_equal(with.total, without.total + o.prefix_bytes);
    /* A context that fits a budget beside them fits without them too, not the other way round. */
    o.context = 0;
    gy_need most, less;
    assert_ok(gy_fit(model, &o, with.total, &less, &err), err);
    o.prefix_bytes = 0;
    assert_ok(gy_fit(model, &o, with.total, &most, &err), err);
    assert_true(less.context >= 1000 / GY_PAGE * GY_PAGE && less.context < most.context);
    o.context = 1000, o.prefix_bytes = 3000000, o.memory = with.total - 1;
    assert_int_equal(gy_engine_new(model, &o, &e, &err), GY_ELIMIT);
    assert_non_null(strstr(err.msg, "shared prefixes 3000000"));
    assert_int_equal(gy_fit(model, &o, 3000000, &less, (err = (gy_err){0}, &err)), GY_ELIMIT);
    assert_non_null(strstr(err.msg, "3000000 for shared prefixes"));
    o.memory = with.total, err = (gy_err){0};
    gy_digest once; /* the library of hashes takes memory at its first use, whatever engines do */
    assert_true(gy_chain_root(&(gy_identity){0}, NULL, NULL, &once));
    int64_t before = taken(), want = with.total - with.weights;
    assert_ok(gy_engine_new(model, &o, &e, &err), err);
    gy_seq *s[2];
    fill_prefixes(e, o.prefix_bytes);
    fill(e, s, 2, o.context);
    int64_t got = taken() - before;
    if (before) {
        printf("prefixes: taken %lld, projected %lld (%.2f %%)\n", (long long)got, (long long)want,
               100.0 * (double)(got - want) / (double)want);
        if (llabs(got - want) * 100 > 3 * want)
            fail_msg("%lld bytes taken, %lld projected", (long long)got, (long long)want);
    }
    gy_seq_free(e, s[0]), gy_seq_free(e, s[1]);
    gy_engine_free(e);
}

static void budgets(void **state) {
    (void)state;
    gy_need need, more;
    gy_err err = {0};
    gy_engine_options o = {.threads = 1, .sequences = 2, .chunk = 64};
    assert_ok(gy_fit(model, &o, 0, &more, &err), err);
    int64_t budget = more.weights + more.scratch + more.kv / 2;
    assert_ok(gy_fit(model, &o, budget, &need, &err), err);
    assert_true(need.total <= budget && !need.by_model && need.context % GY_PAGE == 0);
    o.context = need.context + GY_PAGE;
    assert_ok(gy_fit(model, &o, 0, &more, &err), err);
    assert_true(more.total > budget); /* the next page is the one that does not fit */
    o.context = 0;
    assert_ok(gy_fit(model, &o, (int64_t)1 << 40, &more, &err), err);
    gy_model_info info;
    gy_model_get_info(model, &info);
    assert_true(more.by_model && more.context == info.context);
    assert_int_equal(gy_fit(model, &o, 1000, &more, &err), GY_ELIMIT);
    assert_non_null(strstr(err.msg, "1000"));
    assert_int_equal(gy_fit(model, &o, -1, &more, &err), GY_EARG);
    o.kv = "turbo"; /* heads of 32 */
    assert_int_equal(gy_fit(model, &o, 1000, &more, &err), GY_EUNSUPPORTED);
}

static void bound(void **state) {
    (void)state;
    gy_need need;
    gy_err err = {0};
    gy_engine *e = NULL;
    gy_engine_options o = {.threads = 1, .context = 4096};
    assert_ok(gy_fit(model, &o, 0, &need, &err), err);
    o.memory = need.total;
    assert_ok(gy_engine_new(model, &o, &e, &err), err);
    gy_engine_free(e), e = NULL;
    o.memory--;
    int64_t before = taken();
    assert_int_equal(gy_engine_new(model, &o, &e, &err), GY_ELIMIT);
    assert_null(e);
    assert_true(taken() - before < 4096);
    char room[32];
    snprintf(room, sizeof room, "%lld", (long long)o.memory);
    assert_non_null(strstr(err.msg, room)); /* the need and the room */
    snprintf(room, sizeof room, "%lld", (long long)need.total);
    assert_non_null(strstr(err.msg, room));
}

/* Every allocation of a projection, and of a transition, fails once. */
static void memory_runs_out(void **state) {
    (void)state;
    gy_engine_options o = {.threads = 1, .context = 256, .chunk = 64, .kv = "f32"};
    gy_engine *e;
    gy_seq *s;
    gy_need need = {.total = -1};
    gy_err err = {0};
    int32_t ids[150] = {0};
    long n = 0;
    for (gy_rc rc = GY_ENOMEM; rc; n++) {
        gy_alloc_fail_at(n + 1);
        rc = gy_fit(model, &o, n % 2 ? 1 << 22 : 0, &need, &err);
        gy_alloc_fail_at(0);
        if (!rc) continue;
        assert_int_equal(rc, GY_ENOMEM);
        assert_int_equal(need.total, -1); /* left as it was */
    }
    assert_true(n > 20);
    assert_ok(gy_engine_new(model, &o, &e, &err), err);
    assert_ok(gy_seq_new(e, &s, &err), err);
    gy_feed f = {.seq = s, .ids = ids, .n = 150, .first_out = 150};
    assert_ok(gy_step(e, &f, 1, NULL, &err), err);
    n = 0;
    for (gy_rc rc = GY_ENOMEM; rc; n++) {
        gy_alloc_fail_at(n + 1);
        rc = gy_seq_transition(e, s, "q4.32", 0, &err);
        gy_alloc_fail_at(0);
        if (rc) assert_int_equal(rc, GY_ENOMEM);
        assert_int_equal(gy_kv_recoded(s), !rc);
    }
    assert_true(n > 4);
    gy_seq_free(e, s);
    gy_engine_free(e);
}

/* ---- shared/cases/memory ---- */

enum { LAYERS_MAX = 256 };

static int add_layers(const gy_json *l, gy_cparm c, gy_kvspec *spec, int n, int64_t *fixed) {
    int count = (int)gy_json_i(l, "count", 0), el = (int)gy_json_i(l, "elements_per_token", 0);
    int64_t bytes = gy_json_i(l, "fixed_bytes", 0);
    for (int i = 0; i < count; i++) {
        gy_kvspec *s = spec + n++;
        assert_true(n <= LAYERS_MAX);
        *s = (gy_kvspec){.k = c, .v = c, .heads = 1, .donor = -1, .kdim = el / 2, .vdim = el / 2};
        s->keep.window = (int)gy_json_i(l, "window", 0);
        s->keep.policy = s->keep.window ? GY_KEEP_WINDOW : GY_KEEP_ALL;
        if (el == 576) s->form = GY_KV_KEYS, s->kdim = el, s->vdim = 0; /* a latent */
        if (!bytes) continue;
        s->keep.policy = GY_KEEP_STATE, s->heads = 0, s->scan = (int)(bytes / 4), *fixed += bytes;
    }
    return n;
}

/* Bytes of the case, of which a window's are what 64 more positions and whole pages add, and a
 * state's what its marks add. */
static void architecture(const gy_json *c) {
    const char *id = gy_json_s(c, "id", "?"), *codec = gy_json_s(c, "codec", "?");
    const gy_json *layers = gy_json_get(c, "layers");
    static gy_kvspec spec[LAYERS_MAX];
    gy_cparm p = {.kind = !strcmp(codec, "f16") ? GY_CODEC_F16 : GY_CODEC_BF16};
    int n = 0, tokens = (int)gy_json_i(c, "tokens", 0);
    int64_t fixed = 0;
    gy_kv *kv;
    gy_err err = {0};
    if (*codec == 'q')
        p = (gy_cparm){GY_CODEC_AFFINE, (uint8_t)(codec[1] - '0'), GY_CODEC_F16,
                       (uint16_t)atoi(codec + 3)};
    for (uint32_t i = 0; i < layers->n; i++) n = add_layers(layers->item + i, p, spec, n, &fixed);
    assert_ok(gy_kv_new(spec, n, tokens, &kv, &err), err);
    int64_t need = gy_kv_need(kv, tokens, 1, 1), bytes = gy_json_i(c, "bytes", 0),
            paged = gy_json_i(c, "bytes_page_256", 0);
    need -= (GY_STATE_MARKS + GY_STATE_TARGETS - 1) * fixed;
    printf("%-20s need %lld, case %lld, with pages of 256 %lld\n", id, (long long)need,
           (long long)bytes, (long long)paged);
    if (need * 100 < bytes * 100 || need * 100 > paged * 105)
        fail_msg("%s: %lld bytes, expected %lld to %lld and 5 %%", id, (long long)need,
                 (long long)bytes, (long long)paged);
    gy_kv_free(kv);
}

static void architectures(void **state) {
    (void)state;
    char *text;
    size_t n;
    gy_json_doc doc = {0};
    gy_err err = {0};
    SKIP_WITHOUT_SHARED("cases/memory/kv_bytes.json");
    assert_ok(gy_file_read(shared_path("cases/memory/kv_bytes.json"), 1 << 20, &text, &n, &err),
              err);
    assert_ok(gy_json_parse(&doc, text, n, &err), err);
    const gy_json *cases = gy_json_get(doc.root, "cases");
    assert_true(gy_json_is(cases, GY_JSON_ARR) && cases->n > 0);
    for (uint32_t i = 0; i < cases->n; i++) architecture(cases->item + i);
    printf("memory: %u of %u\n", cases->n, cases->n);
    gy_json_free(&doc), gy_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_projected),    cmocka_unit_test(prefixes),
        cmocka_unit_test(budgets),         cmocka_unit_test(bound),
        cmocka_unit_test(memory_runs_out), cmocka_unit_test(architectures)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
