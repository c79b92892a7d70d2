/* The shared cases of numerics: float64 references of masks, softmax, caps, norms, rotations,
 * routing and number formats. A case without a check here fails, so that new ones are noticed. */
#include "testlib.h"

#include <math.h>

#include "base/fmap.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "isas.h"
#include "model/rope.h"

enum { MAX = 64 };

static int compared; /* numbers */

static bool usable(const gy_isa_table *t) {
    gy_err err = {0};
    return gy_isa_find(t->name, &err) != NULL;
}

static double number(const gy_json *v) {
    double x;
    if (gy_json_num(v, &x)) return x;
    assert_true(gy_json_is(v, GY_JSON_STR));
    return strtod(v->s, NULL); /* inf, -inf, nan */
}

static int list(const gy_json *c, const char *key, double *x) {
    const gy_json *a = gy_json_get(c, key);
    assert_true(gy_json_is(a, GY_JSON_ARR) && a->n <= MAX);
    for (uint32_t i = 0; i < a->n; i++) x[i] = number(a->item + i);
    return (int)a->n;
}

static int floats(const gy_json *c, const char *key, float *x) {
    double d[MAX];
    int n = list(c, key, d);
    for (int i = 0; i < n; i++) x[i] = (float)d[i];
    return n;
}

/* Within 1e-5 of the largest wanted value, the tolerance of the cases, and half a unit of the last
 * digit that they write. */
static void near(const char *id, const float *got, const double *want, int n) {
    double top = 0;
    for (int i = 0; i < n; i++) top = fmax(top, fabs(want[i]));
    for (int i = 0; i < n; i++, compared++)
        if (!(fabs(got[i] - want[i]) <= 1e-5 * top + 5e-8))
            fail_msg("%s: value %d is %.9g, expected %.9g", id, i, (double)got[i], want[i]);
}

/* ---- Attention ---- */

typedef struct {
    gy_kvspec spec;
    gy_op op[2];
    gy_plan plan;
} layer;
static const int cols[2] = {12, 4}; /* q | k | v; out */

static void layer_of(layer *l, double scale, double cap, int window) {
    static const gy_cparm f32 = {.kind = GY_CODEC_F32};
    memset(l, 0, sizeof *l);
    l->spec = (gy_kvspec){
        .k = f32, .v = f32, .heads = 1, .kdim = 4, .vdim = 4, .donor = -1, .form = GY_KV_BOTH};
    l->op[0] =
        (gy_op){.kind = GY_OP_KVPUT, .in = {0, -1}, .out = -1, .u.kvput = {.kcol = 4, .vcol = 8}};
    l->op[1] = (gy_op){.kind = GY_OP_ATTN,
                       .in = {0, -1},
                       .out = 1,
                       .u.attn = {.heads = 1,
                                  .kv_heads = 1,
                                  .kdim = 4,
                                  .vdim = 4,
                                  .window = window,
                                  .scale = (float)scale,
                                  .cap = (float)cap}};
    l->plan = (gy_plan){
        .op = l->op, .n_ops = 2, .n_slots = 2, .slot_cols = cols, .kv = &l->spec, .n_layers = 1};
}

static void row(const gy_json *c, const char *key, uint32_t r, double x[4]) {
    const gy_json *a = gy_json_get(c, key);
    assert_true(a && r < a->n && a->item[r].n == 4);
    for (int i = 0; i < 4; i++) x[i] = number(a->item[r].item + i);
}

/* The case's query `r` at position pos among its keys. hide: it is of an image, and sees every key
 * but those that the case's mask hides by a bias; and so do the queries beside it. */
static void attend(const char *id, const gy_json *c, uint32_t r, int pos, int window, bool hide) {
    int keys = (int)gy_json_get(c, "k")->n;
    double want[4], x[4];
    float bias[4];
    row(c, "out", r, want);
    if (hide) row(c, "mask", r, x);
    for (int k = 0; k < 4; k++) bias[k] = hide && !x[k] ? -INFINITY : 0;
    assert_int_equal(keys, 4);
    for (int s = 0; s < ISAS; s++) {
        layer l;
        gy_kv *kv;
        gy_be *be;
        gy_seq *seq;
        gy_err err = {0};
        int ld;
        if (!usable(isas[s])) continue;
        layer_of(&l, gy_json_f(c, "scale", 1), gy_json_f(c, "cap", 0), window);
        assert_ok(gy_kv_new(&l.spec, 1, 64, &kv, &err), err);
        assert_ok(gy_cpu_new(&l.plan, kv, 1, GY_BE_EXACT, isas[s]->name, MAX, &be, &err), err);
        assert_ok(gy_kv_seq_new(kv, &seq, &err), err);
        assert_ok(gy_kv_reserve(kv, seq, keys, &err), err);
        int32_t tok[MAX] = {0}, at[MAX], of[MAX] = {0};
        gy_reach also[MAX] = {{0}};
        const float *biases[MAX] = {0};
        gy_span span = {.n = keys};
        float *in = (float *)(uintptr_t)be->slot(be, 0, &ld);
        for (int p = 0; p < keys; p++) {
            static const char *const part[] = {"q", "k", "v"};
            at[p] = p;
            if (hide) also[p] = (gy_reach){0, keys, 0}, biases[p] = bias;
            for (int k = 0; k < 3; k++) {
                row(c, part[k], k ? (uint32_t)p : r, x);
                for (int i = 0; i < 4; i++) in[p * ld + 4 * k + i] = (float)x[i];
            }
        }
        gy_batch b = {.rows = keys,
                      .spans = 1,
                      .tok = tok,
                      .pos = at,
                      .of = of,
                      .span = &span,
                      .seq = &seq,
                      .also = also,
                      .bias = biases};
        be->begin(be, &b);
        be->run(be, &l.op[0], &b), be->run(be, &l.op[1], &b);
        assert_ok(be->end(be, &err), err);
        near(id, be->slot(be, 1, &ld) + pos * ld, want, 4);
        gy_kv_seq_free(kv, seq);
        be->free(be), gy_kv_free(kv);
    }
}

static void masked(const char *id, const gy_json *c) {
    int n = (int)gy_json_get(c, "q")->n;
    for (int r = 0; r < n; r++)
        for (int pos = 0; pos < 4; pos++) attend(id, c, (uint32_t)r, pos, 0, true);
}
/* What our own masks can say as well. */
static void masked_row(const char *id, const gy_json *c) {
    masked(id, c), attend(id, c, 3, 3, 0, false);
}
static void masked_block(const char *id, const gy_json *c) {
    masked(id, c), attend(id, c, 0, 3, 2, false);
}
static void capped(const char *id, const gy_json *c) {
    masked(id, c), attend(id, c, 0, 0, 0, false), attend(id, c, 1, 1, 0, false);
}

static void window(const char *id, const gy_json *c) {
    const gy_json *seen = gy_json_get(c, "seen");
    gy_attn_mask m = {.window = (int)gy_json_i(c, "window", 0)};
    for (uint32_t q = 0; q < seen->n; q++, compared++) {
        gy_attn_sight s = gy_attn_see(m, (int)q, NULL);
        if (s.kept || s.lo != number(seen->item[q].item) ||
            s.hi - 1 != number(seen->item[q].item + 1))
            fail_msg("%s: query %u sees [%d, %d)", id, q, s.lo, s.hi);
    }
}

/* ---- Rows ---- */

static void norm(const char *id, const gy_json *c) {
    float x[MAX], b[MAX], y[MAX];
    double want[MAX], sum[MAX];
    bool stream = gy_json_get(c, "a") != NULL;
    int n = floats(c, stream ? "a" : "x", x);
    list(c, "out", want);
    if (stream) floats(c, "b", b), list(c, "sum", sum);
    for (int s = 0; s < ISAS; s++) {
        if (!usable(isas[s])) continue;
        memcpy(y, x, sizeof x);
        if (stream) isas[s]->row.add(x, b, y, n, 1), near(id, y, sum, n);
        isas[s]->row.norm(y, y, NULL, NULL, n, (float)gy_json_f(c, "eps", 0), GY_NORM_RMS);
        near(id, y, want, n);
    }
}

static void softcap(const char *id, const gy_json *c) {
    float y[MAX];
    double want[MAX];
    list(c, "out", want);
    for (int s = 0; s < ISAS; s++) {
        if (!usable(isas[s])) continue;
        int n = floats(c, "x", y);
        isas[s]->row.finish(y, n, 1, (float)gy_json_f(c, "cap", 0));
        near(id, y, want, n);
    }
}

/* ---- Routing ---- */

/* The chosen experts leave ROUTE in ascending order, whatever their weights: that is the order in
 * which they are summed. */
static int chosen(const gy_json *c, const char *weights, double *expert, double *w) {
    int k = list(c, "experts", expert);
    assert_int_equal(list(c, weights, w), k);
    for (int i = 1; i < k; i++)
        for (int j = i; j && expert[j] < expert[j - 1]; j--) {
            double e = expert[j], x = w[j];
            expert[j] = expert[j - 1], w[j] = w[j - 1], expert[j - 1] = e, w[j - 1] = x;
        }
    return k;
}

/* The k largest of x[n] and their weights. */
static void route_once(const char *id, const float *x, int n, int k, bool renorm,
                       const double *expert, const double *want) {
    int ld;
    int slot_cols[2] = {n, 2 * k};
    gy_kvspec none = {.donor = -1, .keep.policy = GY_KEEP_STATE};
    gy_op op = {
        .kind = GY_OP_ROUTE,
        .in = {0, -1},
        .out = 1,
        .u.route = {
            .experts = n, .top_k = k, .score = GY_ROUTE_SOFTMAX, .renorm = renorm, .scale = 1}};
    gy_plan plan = {.op = &op,
                    .n_ops = 1,
                    .n_slots = 2,
                    .slot_cols = slot_cols,
                    .kv = &none,
                    .n_layers = 1,
                    .vocab = 1};
    for (int s = 0; s < ISAS; s++) {
        gy_kv *kv;
        gy_be *be;
        gy_err err = {0};
        gy_batch b = {.rows = 1};
        if (!usable(isas[s])) continue;
        assert_ok(gy_kv_new(&none, 1, 64, &kv, &err), err);
        assert_ok(gy_cpu_new(&plan, kv, 1, GY_BE_EXACT, isas[s]->name, 1, &be, &err), err);
        memcpy((float *)(uintptr_t)be->slot(be, 0, &ld), x, (size_t)n * sizeof *x);
        be->begin(be, &b), be->run(be, &op, &b);
        assert_ok(be->end(be, &err), err);
        const float *y = be->slot(be, 1, &ld);
        for (int i = 0; i < k; i++, compared++)
            if (y[i] != expert[i])
                fail_msg("%s: expert %d is %g, expected %g", id, i, (double)y[i], expert[i]);
        near(id, y + k, want, k);
        be->free(be), gy_kv_free(kv);
    }
}

static void route(const char *id, const gy_json *c) {
    static const char *const weights[] = {"weights", "weights_normalised"};
    float x[MAX];
    double expert[MAX], want[MAX];
    int n = floats(c, "logits", x);
    for (int norm = 0; norm < 2; norm++) {
        if (!norm && !gy_json_get(c, weights[norm])) continue;
        int k = chosen(c, weights[norm], expert, want);
        route_once(id, x, n, k, norm, expert, want);
    }
}

/* A router that chooses everybody. */
static void softmax(const char *id, const gy_json *c) {
    float x[MAX];
    double all[MAX], want[MAX];
    int n = floats(c, "x", x);
    list(c, "out", want);
    for (int i = 0; i < n; i++) all[i] = i;
    route_once(id, x, n, n, false, all, want);
}

/* ---- Rotations ---- */

/* A unit vector in the plane of the pair, turned at the position: its cos and sin. */
static void turned(const char *id, const gy_json *v, const gy_rope *r, int dim,
                   const gy_isa_table *set) {
    int pos = (int)gy_json_i(v, "position", -1), pair = (int)gy_json_i(v, "pair", -1), ld;
    assert_true(pos >= 0 && pair >= 0 && pair < dim / 2);
    gy_kvspec none = {.donor = -1, .keep.policy = GY_KEEP_STATE};
    gy_op op = {
        .kind = GY_OP_ROPE,
        .in = {0, -1},
        .out = 0,
        .u.rope = {.heads = 1, .dim = dim, .rot = dim, .mscale = 1, .inv_freq = r->inv_freq}};
    gy_plan plan = {.op = &op,
                    .n_ops = 1,
                    .n_slots = 1,
                    .slot_cols = &dim,
                    .kv = &none,
                    .n_layers = 1,
                    .vocab = 1};
    gy_kv *kv;
    gy_be *be;
    gy_err err = {0};
    int32_t at = pos;
    gy_batch b = {.rows = 1, .pos = &at};
    assert_ok(gy_kv_new(&none, 1, 64, &kv, &err), err);
    assert_ok(gy_cpu_new(&plan, kv, 1, GY_BE_EXACT, set->name, 1, &be, &err), err);
    float *x = (float *)(uintptr_t)be->slot(be, 0, &ld);
    memset(x, 0, (size_t)dim * sizeof *x), x[pair] = 1;
    be->begin(be, &b), be->run(be, &op, &b);
    assert_ok(be->end(be, &err), err);
    double off = fmax(fabs(x[pair] - gy_json_f(v, "cos", 9)),
                      fabs(x[pair + dim / 2] - gy_json_f(v, "sin", 9)));
    if (!(off <= pos * 0x1p-23 + 1e-6)) /* as the case allows */
        fail_msg("%s: position %d, pair %d is off by %g", id, pos, pair, off);
    compared += 2;
    be->free(be), gy_kv_free(kv);
}

static void rope(const char *id, const gy_json *c) {
    const gy_json *v = gy_json_get(c, "values");
    gy_rope_config rc = {.theta = gy_json_f(c, "theta", 0)};
    int dim = (int)gy_json_i(c, "head_dim", 0);
    gy_arena arena = {0};
    gy_rope r = {0};
    gy_err err = {0};
    assert_ok(gy_rope_make(c, &rc, dim, false, &arena, &r, &err), err);
    for (uint32_t i = 0; i < v->n; i++)
        for (int s = 0; s < ISAS; s++)
            if (usable(isas[s])) turned(id, v->item + i, &r, dim, isas[s]);
    gy_arena_free(&arena);
}

/* ---- Number formats ---- */

/* Groups of equal values come back as they were, in every width and type of scales. */
static void constant_group(const char *id, const gy_json *c) {
    static const uint8_t bits[] = {2, 3, 4, 5, 6, 8},
                         types[] = {GY_CODEC_F32, GY_CODEC_F16, GY_CODEC_BF16};
    const gy_json *groups = gy_json_get(c, "groups");
    for (uint32_t g = 0; g < groups->n; g++) {
        float x[32], y[32];
        assert_int_equal(groups->item[g].n, 32);
        for (int i = 0; i < 32; i++) x[i] = (float)number(groups->item[g].item + i);
        for (size_t k = 0; k < sizeof bits * sizeof types; k++) {
            uint8_t plane[3][32 * 4] = {{0}};
            gy_rows m = {.c = {.kind = GY_CODEC_AFFINE,
                               .bits = bits[k / sizeof types],
                               .stype = types[k % sizeof types],
                               .group = 32},
                         .rows = 1,
                         .cols = 32,
                         .plane = {plane[0], plane[1], plane[2]},
                         .global = 1};
            gy_codecs[m.c.kind].encode(&m, 0, x), gy_codecs[m.c.kind].decode(&m, 0, y);
            for (int i = 0; i < 32; i++, compared++)
                if (y[i] != x[i])
                    fail_msg("%s: %d bits: %g became %g", id, m.c.bits, (double)x[i], (double)y[i]);
        }
    }
}

static void from_f16(const char *id, const gy_json *c) {
    double code[MAX], want[MAX];
    int n = list(c, "codes", code);
    assert_int_equal(list(c, "values", want), n);
    for (int i = 0; i < n; i++, compared++) {
        float y = gy_f16_f32((uint16_t)code[i]);
        bool same = isinf(want[i]) ? y == want[i] : fabs(y - want[i]) <= 1e-5 * fabs(want[i]);
        if (!same || !signbit(y) != !(gy_json_is(gy_json_get(c, "values")->item + i, GY_JSON_STR)
                                          ? want[i] < 0
                                          : signbit(want[i])))
            fail_msg("%s: code %g is %.9g, expected %.9g", id, code[i], (double)y, want[i]);
    }
}

static void codes(const char *id, const gy_json *c, const char *from, const char *to,
                  uint32_t (*convert)(double)) {
    double x[MAX], want[MAX];
    int n = list(c, from, x);
    assert_int_equal(list(c, to, want), n);
    for (int i = 0; i < n; i++, compared++)
        if (convert(x[i]) != (uint32_t)want[i])
            fail_msg("%s: %.17g is code %u, expected %.0f", id, x[i], convert(x[i]), want[i]);
}
static uint32_t bf16_code_bits(double x) {
    return gy_f32_bits(gy_bf16_f32((uint16_t)x));
}
static uint32_t f16_code(double x) {
    return gy_f32_f16((float)x);
}
static uint32_t bf16_code(double x) {
    return gy_f32_bf16((float)x);
}
static void from_bf16(const char *id, const gy_json *c) {
    codes(id, c, "codes", "f32_codes", bf16_code_bits);
}
static void to_f16(const char *id, const gy_json *c) {
    codes(id, c, "x", "codes", f16_code);
}
static void to_bf16(const char *id, const gy_json *c) {
    codes(id, c, "x", "codes", bf16_code);
}

/* ---- All cases ---- */

static const struct {
    const char *id;
    void (*check)(const char *id, const gy_json *c);
} checks[] = {{"masked_row", masked_row},
              {"masked_block_then_open", masked_block},
              {"window_4", window},
              {"window_1", window},
              {"rope_positions", rope},
              {"rms_norm_f16_overflow", norm},
              {"residual_past_f16", norm},
              {"softcap_50", softcap},
              {"softcap_in_attention", capped},
              {"router_near_tie", route},
              {"router_tie", route},
              {"router_norm", route},
              {"softmax_large", softmax},
              {"constant_group", constant_group},
              {"f16_to_f32", from_f16},
              {"bf16_to_f32", from_bf16},
              {"f32_to_f16", to_f16},
              {"f32_to_bf16", to_bf16}};
enum { CHECKS = sizeof checks / sizeof *checks };

static void every_case(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/numerics/cases.json");
    char *text;
    size_t n;
    gy_json_doc doc = {0};
    gy_err err = {0};
    assert_ok(gy_file_read(shared_path("cases/numerics/cases.json"), 1 << 20, &text, &n, &err),
              err);
    assert_ok(gy_json_parse(&doc, text, n, &err), err);
    gy_free(text);
    const gy_json *cases = gy_json_get(doc.root, "cases");
    assert_true(gy_json_is(cases, GY_JSON_ARR) && cases->n >= CHECKS);
    for (uint32_t i = 0; i < cases->n; i++) {
        const char *id = gy_json_s(cases->item + i, "id", "?");
        int k = 0, before = compared;
        while (k < CHECKS && strcmp(checks[k].id, id)) k++;
        if (k == CHECKS) fail_msg("case %s has no check", id);
        checks[k].check(id, cases->item + i);
        printf("%-24s %5d numbers\n", id, compared - before);
        assert_true(compared > before);
    }
    printf("numerics: %u of %u cases, %d numbers\n", cases->n, cases->n, compared);
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
