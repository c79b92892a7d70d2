/* The shared cases of KV memory: what each query sees and computes through every operation of the
 * traces (vectors/trace_*), windows that fill, wrap and go back (cases/kv/ring.json), and rounds of
 * drafts (cases/spec).
 *
 * A trace is run by a plan of its own: token s is slot s, whose q | k | v the embedding holds, and
 * the logits are the attention's output, through an identity. */
#include <math.h>

#include "base/fmap.h"
#include "cpu/rowops.h"
#include "run/engine.h"
#include "vectors.h"

/* ---- A plan that is nothing but attention ---- */

enum { SLOTS = 120, DIM = 32, HEADS = 2, WIDTH = (HEADS + 2) * DIM, OUT = HEADS * DIM };

typedef struct {
    gy_weight embed, head;
    float rows[SLOTS][WIDTH], unit[SLOTS][OUT];
    int cols[3];
} bare_weights;
static bare_weights bare;

static gy_weight weight_of(const char *name, float *p, int rows, int cols) {
    return (gy_weight){.name = name,
                       .file = {.c = {.kind = GY_CODEC_F32},
                                .rows = rows,
                                .cols = cols,
                                .plane = {p},
                                .step = {(ptrdiff_t)((size_t)cols * sizeof(float))},
                                .global = 1}};
}

typedef struct {
    int window, keep, chunk;
    const char *codec;
} bare_spec;

static gy_engine *bare_engine(bare_spec b) {
    enum { EMBED, PUT, ATTN, PICK, LOGITS, OPS };
    gy_plan *p = gy_alloc(sizeof *p);
    gy_err err = {0};
    gy_engine *e;
    for (int i = 0; i < OUT; i++) bare.unit[i][i] = 1;
    bare.embed = weight_of("slots", bare.rows[0], SLOTS, WIDTH);
    bare.head = weight_of("unit", bare.unit[0], SLOTS, OUT);
    bare.cols[0] = WIDTH, bare.cols[1] = bare.cols[2] = OUT;
    *p = (gy_plan){.n_ops = OPS, .n_slots = 3, .n_layers = 1, .vocab = SLOTS};
    p->slot_cols = bare.cols;
    p->op = gy_alloc_n(OPS, sizeof *p->op), p->kv = gy_alloc(sizeof *p->kv);
    for (int i = 0; i < OPS; i++) p->op[i] = (gy_op){.layer = -1, .in = {-1, -1}, .out = -1};
    gy_op *op = p->op;
    op[EMBED].kind = GY_OP_EMBED, op[EMBED].out = 0, op[EMBED].w[0] = &bare.embed;
    op[EMBED].u.embed.scale = 1;
    op[PUT].kind = GY_OP_KVPUT, op[PUT].layer = 0, op[PUT].in[0] = 0;
    op[PUT].u.kvput.kcol = OUT, op[PUT].u.kvput.vcol = OUT + DIM;
    op[ATTN].kind = GY_OP_ATTN, op[ATTN].layer = 0, op[ATTN].in[0] = 0, op[ATTN].out = 1;
    op[ATTN].u.attn.heads = HEADS, op[ATTN].u.attn.kv_heads = 1;
    op[ATTN].u.attn.kdim = op[ATTN].u.attn.vdim = DIM;
    op[ATTN].u.attn.scale = (float)(1 / sqrt(DIM));
    op[ATTN].u.attn.window = b.window, op[ATTN].u.attn.kept = b.keep;
    op[ATTN].u.attn.chunk = b.chunk;
    op[PICK].kind = GY_OP_PICK, op[PICK].in[0] = 1, op[PICK].out = 2;
    op[LOGITS].kind = GY_OP_LOGITS, op[LOGITS].in[0] = 2, op[LOGITS].w[0] = &bare.head;
    op[LOGITS].u.logits.a = 1;
    op[PICK].flags = op[LOGITS].flags = GY_OPF_OUTS;
    gy_kvspec *s = p->kv;
    *s = (gy_kvspec){.heads = 1, .kdim = DIM, .vdim = DIM, .donor = -1};
    s->k = s->v = (gy_cparm){.kind = GY_CODEC_F32};
    if (b.codec)
        s->k = s->v = (gy_cparm){GY_CODEC_AFFINE, (uint8_t)(b.codec[7] - '0'), GY_CODEC_F32,
                                 (uint16_t)atoi(b.codec + 9)};
    s->keep =
        (gy_keep){b.window ? GY_KEEP_WINDOW : GY_KEEP_ALL, b.window, b.keep}; /* kept rows stay */
    gy_engine_options o = {
        .threads = 1, .chunk = 16, .context = 256, .sequences = 4, .arith = GY_ARITH_EXACT};
    assert_ok(gy_engine_of_plan(p, &o, &e, &err), err);
    return e;
}

/* Slots that position pos of the sequence sees, by the engine's own predicate, on pages it holds.
 */
static int seen(gy_engine *e, const gy_seq *s, bare_spec b, int pos, int slot[SLOTS]) {
    gy_attn_sight see = gy_attn_see((gy_attn_mask){b.window, b.chunk, b.keep}, pos, NULL);
    int n = 0;
    for (int p = 0; p <= pos; p++) {
        if (!(p < see.kept || (p >= see.lo && p < see.hi))) continue;
        int g = gy_kv_layer_group(e->kv, 0);
        assert_non_null(s->group[g].at[p / GY_PAGE]);
        slot[n++] = s->tok[p];
    }
    return n;
}

/* ---- Traces ---- */

enum { ROWS = 4 };

typedef struct {
    const char *name;
    gy_engine *e;
    bare_spec b;
    gy_seq *row[ROWS];
    int rows, queries;
    double off, accept;
    const float *out; /* [n][OUT] of the reference */
} trace;

static int number(const gy_json *v) {
    int64_t n;
    assert_true(gy_json_int(v, &n));
    return (int)n;
}

static bool in_ranges(const gy_json *ranges, int slot) {
    for (uint32_t i = 0; i < ranges->n; i++) {
        const gy_json *r = ranges->item + i;
        if (slot >= number(r->item) && slot <= number(r->item + 1)) return true;
    }
    return false;
}

static void check_query(trace *t, const gy_json *q, const float *got) {
    int pos = (int)gy_json_i(q, "pos", -1), row = (int)gy_json_i(q, "row", -1), slot[SLOTS];
    const gy_json *sees = gy_json_get(q, "sees");
    const float *want = t->out + gy_json_i(q, "out", 0) * OUT;
    int n = seen(t->e, t->row[row], t->b, pos, slot), all = 0;
    assert_int_equal(t->row[row]->tok[pos], gy_json_i(q, "slot", -1));
    for (uint32_t i = 0; i < sees->n; i++)
        all += number(sees->item[i].item + 1) - number(sees->item[i].item) + 1;
    if (n != all)
        fail_msg("%s: row %d position %d sees %d slots, expected %d", t->name, row, pos, n, all);
    for (int i = 0; i < n; i++)
        if (!in_ranges(sees, slot[i]))
            fail_msg("%s: row %d position %d sees slot %d", t->name, row, pos, slot[i]);
    for (int i = 0; i < OUT; i++)
        t->off = fmax(t->off, isnan(got[i]) ? INFINITY : fabs((double)got[i] - want[i]));
    t->queries++;
}

/* Feeds slots to rows in one step and checks the step's queries, which are in the same order. */
static void append(trace *t, const gy_json *slots, const gy_json *queries) {
    static float logits[ROWS * SLOTS * SLOTS];
    int32_t ids[ROWS][SLOTS];
    gy_feed feed[ROWS];
    gy_err err = {0};
    bool one = slots->n && slots->item[0].kind == GY_JSON_NUM;
    int n = 0;
    for (int r = 0; r < t->rows; r++) {
        const gy_json *list = one ? slots : slots->item + r;
        if (!list->n) continue;
        for (uint32_t i = 0; i < list->n; i++) ids[r][i] = number(list->item + i);
        feed[n++] = (gy_feed){.seq = t->row[r], .ids = ids[r], .n = (int)list->n};
    }
    assert_ok(gy_step(t->e, feed, n, logits, &err), err);
    for (uint32_t i = 0; i < queries->n; i++)
        check_query(t, queries->item + i, logits + (size_t)i * SLOTS);
}

/* New rows whose tokens were appended before the trace looks at them. */
static void join(trace *t, const gy_json *rows, const gy_json *next) {
    for (uint32_t r = 0; r < rows->n; r++) {
        const gy_json *list = rows->item + r;
        int32_t ids[SLOTS];
        gy_err err = {0};
        int n = 0, len = (int)list->n;
        assert_true(t->rows < ROWS);
        /* extend lists every token that the row will have: those of later steps are not yet there.
         */
        for (uint32_t i = 0; i < next->n; i++)
            if (gy_json_i(next->item + i, "row", -1) == t->rows)
                len = (int)gy_json_i(next->item + i, "pos", 0);
        for (; n < len; n++) ids[n] = number(list->item + n);
        assert_ok(gy_seq_new(t->e, t->row + t->rows, &err), err);
        gy_feed f = {.seq = t->row[t->rows++], .ids = ids, .n = n, .first_out = n};
        assert_ok(gy_step(t->e, &f, 1, NULL, &err), err);
    }
}

static void keep_rows(trace *t, const gy_json *keep) {
    gy_seq *row[ROWS] = {0};
    for (uint32_t i = 0; i < keep->n; i++) {
        int r = number(keep->item + i);
        row[i] = t->row[r], t->row[r] = NULL;
    }
    for (int r = 0; r < t->rows; r++) gy_seq_free(t->e, t->row[r]);
    memcpy(t->row, row, sizeof row);
    t->rows = (int)keep->n;
}

static void trace_step(trace *t, const gy_json *steps, uint32_t i) {
    static const gy_json none = {.kind = GY_JSON_ARR};
    const gy_json *s = steps->item + i, *q = gy_json_get(s, "queries"),
                  *next = i + 1 < steps->n ? gy_json_get(steps->item + i + 1, "queries") : NULL;
    const char *op = gy_json_s(s, "op", "?");
    gy_err err = {0};
    if (!strcmp(op, "append") || !strcmp(op, "decode") || !strcmp(op, "prompt_chunk")) {
        const gy_json *slots = gy_json_get(s, "slots");
        for (; t->rows < (slots->item[0].kind == GY_JSON_NUM ? 1 : (int)slots->n); t->rows++)
            assert_ok(gy_seq_new(t->e, t->row + t->rows, &err), err);
        append(t, slots, q);
    } else if (!strcmp(op, "trim")) {
        /* Where the oracle refuses, the trace goes on without the trim; here it is always legal. */
        int len = gy_seq_len(t->row[0]), n = (int)gy_json_i(s, "n", 0);
        gy_seq *fork;
        assert_ok(gy_seq_fork(t->e, t->row[0], &fork, &err), err);
        assert_ok(gy_seq_trim(t->e, fork, len - n, &err), err);
        gy_seq_free(t->e, fork);
        n = (int)gy_json_i(s, "oracle_trimmed", n);
        assert_ok(gy_seq_trim(t->e, t->row[0], len - n, &err), err);
    } else if (!strcmp(op, "to_quantized")) {
        char kv[32];
        snprintf(kv, sizeof kv, "q%d.%d:f32", (int)gy_json_i(s, "bits", 0),
                 (int)gy_json_i(s, "group", 0));
        assert_int_equal(gy_seq_len(t->row[0]), gy_json_i(s, "offset", -1));
        assert_ok(gy_seq_transition(t->e, t->row[0], kv, 0, &err), err);
    } else if (!strcmp(op, "filter")) {
        keep_rows(t, gy_json_get(s, "keep"));
    } else if (!strcmp(op, "extend") || !strcmp(op, "merge")) {
        join(t, gy_json_get(s, "rows"), next ? next : &none);
    } else {
        fail_msg("%s: operation %s is not known", t->name, op);
    }
}

static void load(gy_json_doc *doc, const char *rel) {
    char *text;
    size_t n;
    gy_err err = {0};
    assert_ok(gy_file_read(shared_path(rel), 4 << 20, &text, &n, &err), err);
    assert_ok(gy_json_parse(doc, text, n, &err), err);
    gy_free(text);
}

static void run_trace(const char *name) {
    char rel[96];
    gy_json_doc doc = {0};
    snprintf(rel, sizeof rel, "vectors/trace_%s.json", name);
    load(&doc, rel);
    snprintf(rel, sizeof rel, "trace_%s", name);
    vectors v = vectors_open(rel);
    const gy_json *d = doc.root, *steps = gy_json_get(d, "steps");
    trace t = {.name = name, .accept = gy_json_f(d, "accept", 0)};
    t.b = (bare_spec){.window = (int)gy_json_i(d, "window", 0),
                      .keep = (int)gy_json_i(d, "keep", 0),
                      .chunk = (int)gy_json_i(d, "chunk", 0),
                      .codec = gy_json_s(d, "codec", NULL)};
    t.out = (const float *)(const void *)get(&v, "out").p;
    t.e = bare_engine(t.b);
    for (uint32_t i = 0; i < steps->n; i++) trace_step(&t, steps, i);
    assert_int_equal(t.queries, gy_json_i(d, "queries", -1));
    printf("%-26s %3d queries, off by %.2g of %.2g\n", name, t.queries, t.off, t.accept);
    if (!(t.off <= t.accept)) fail_msg("%s: off by %g, accepted %g", name, t.off, t.accept);
    for (int r = 0; r < t.rows; r++) gy_seq_free(t.e, t.row[r]);
    gy_engine_free(t.e);
    vectors_close(&v), gy_json_free(&doc);
}

static void traces(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    SKIP_WITHOUT_SHARED("vectors/traces.json");
    vectors v = vectors_open("traces");
    tensor part[] = {get(&v, "q"), get(&v, "k"), get(&v, "v")};
    for (int s = 0, col; s < SLOTS; s++) {
        col = 0;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < part[i].cols; k++) {
                uint16_t h;
                memcpy(&h, part[i].p + 2 * ((size_t)s * (size_t)part[i].cols + (size_t)k), 2);
                bare.rows[s][col++] = gy_bf16_f32(h);
            }
        assert_int_equal(col, WIDTH);
    }
    load(&doc, "vectors/traces.json");
    const gy_json *list = gy_json_get(doc.root, "traces");
    for (uint32_t i = 0; i < list->n; i++) run_trace(gy_json_s(list->item + i, "name", "?"));
    printf("traces: %u of %u\n", list->n, list->n);
    assert_true(list->n > 0);
    vectors_close(&v), gy_json_free(&doc);
}

/* ---- cases/kv/ring.json ---- */

static void check_seen(const char *id, gy_engine *e, gy_seq *s, bare_spec b, int pos,
                       const gy_json *want) {
    int slot[SLOTS], n = seen(e, s, b, pos, slot);
    if (n != (int)want->n) fail_msg("%s: position %d sees %d, expected %u", id, pos, n, want->n);
    for (int i = 0; i < n; i++)
        if (slot[i] != number(want->item + i))
            fail_msg("%s: position %d sees %d, expected %d", id, pos, slot[i],
                     number(want->item + i));
}

/* The case's window counts without the kept positions, the predicate's with them. Token p is p, so
 * that what is seen reads as positions. */
static void ring_case(const gy_json *c) {
    const char *id = gy_json_s(c, "id", "?");
    const gy_json *steps = gy_json_get(c, "steps");
    bare_spec b = {.keep = (int)gy_json_i(c, "keep", 0)};
    gy_err err = {0};
    b.window = (int)gy_json_i(c, "window", 0) + b.keep;
    gy_engine *e = bare_engine(b);
    gy_seq *s;
    assert_ok(gy_seq_new(e, &s, &err), err);
    for (uint32_t i = 0; i < steps->n; i++) {
        const gy_json *step = steps->item + i;
        int n = (int)gy_json_i(step, "n", 0), len = gy_seq_len(s);
        int32_t ids[SLOTS];
        if (!strcmp(gy_json_s(step, "op", ""), "trim")) {
            /* More than a window is kept: every one of these is served. */
            assert_ok(gy_seq_trim(e, s, len - n, &err), err);
            assert_int_equal(gy_seq_len(s), gy_json_i(step, "length", -1));
            continue;
        }
        for (int k = 0; k < n; k++) ids[k] = len + k;
        gy_feed f = {.seq = s, .ids = ids, .n = n, .first_out = n};
        assert_ok(gy_step(e, &f, 1, NULL, &err), err);
        assert_int_equal(gy_seq_len(s), gy_json_i(step, "length", -1));
        check_seen(id, e, s, b, gy_seq_len(s) - 1, gy_json_get(step, "seen_by_last"));
    }
    gy_seq_free(e, s);
    gy_engine_free(e);
}

static void rings(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    SKIP_WITHOUT_SHARED("cases/kv/ring.json");
    load(&doc, "cases/kv/ring.json");
    const gy_json *cases = gy_json_get(doc.root, "cases");
    for (uint32_t i = 0; i < cases->n; i++) ring_case(cases->item + i);
    printf("kv/ring: %u of %u\n", cases->n, cases->n);
    assert_true(cases->n > 0);
    gy_json_free(&doc);
}

/* ---- cases/spec: rounds of drafts give the tokens of the target alone ---- */

enum { IDS = 128, SPEC_CASES = 32, DRAFTS_MAX = 8, VOCAB_MAX = 128 };

typedef struct {
    const gy_json *c;
    gy_engine *te, *de; /* target; draft, NULL: prompt look-up */
    gy_seq *t, *d;
    int vocab_t, vocab_d, prompt, len, want_len; /* len: tokens known, the pending one included */
    int32_t ids[IDS], want[IDS];
    int accepted[IDS], rounds;
} round_of;

static int best(const float *row, int n) {
    int b = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[b]) b = i;
    return b;
}

static gy_engine *engine_of(const char *name, int *vocab, const char *kv) {
    char rel[64];
    gy_model *m;
    gy_engine *e;
    gy_model_info info;
    gy_err err = {0};
    gy_engine_options o = {
        .threads = 1, .arith = GY_ARITH_EXACT, .kv = kv, .context = IDS, .sequences = SPEC_CASES};
    snprintf(rel, sizeof rel, "cases/models/%s", name);
    assert_ok(gy_model_open(shared_path(rel), NULL, &m, &err), err);
    gy_model_get_info(m, &info);
    *vocab = info.vocab;
    assert_true(info.vocab <= VOCAB_MAX);
    assert_ok(gy_engine_new(m, &o, &e, &err), err);
    gy_model_unref(m);
    return e;
}

/* Up to k tokens that followed the last occurrence of the last two. */
static int look_up(const round_of *r, int k, int32_t *draft) {
    for (int i = r->len - 3; i >= 0; i--) {
        if (r->ids[i] != r->ids[r->len - 2] || r->ids[i + 1] != r->ids[r->len - 1]) continue;
        int n = 0;
        for (int p = i + 2; p < r->len && n < k; p++) draft[n++] = r->ids[p];
        return n;
    }
    return 0;
}

/* The draft model catches up with what is known, then goes on alone. It keeps no more of its own
 * guesses than the target does: what is wrong is cut back before the next round. */
static int guess(round_of *r, int k, int32_t *draft) {
    static float logits[IDS * VOCAB_MAX];
    gy_err err = {0};
    if (!r->de) return look_up(r, k, draft);
    for (int n = 0; n < k; n++) {
        int have = gy_seq_len(r->d);
        const int32_t *ids = n ? draft + n - 1 : r->ids + have;
        int more = n ? 1 : r->len - have;
        gy_feed f = {.seq = r->d, .ids = ids, .n = more, .first_out = more - 1};
        assert_ok(gy_step(r->de, &f, 1, logits, &err), err);
        draft[n] = best(logits, r->vocab_d);
    }
    return k;
}

/* What the target says of the pending token and its drafts. */
static void judge(round_of *r, const int32_t *draft, int n, const float *logits, const char *how) {
    gy_err err = {0};
    int a = 0, before = r->len;
    for (int i = 0; i <= n; i++) {
        int32_t id = best(logits + (size_t)i * (size_t)r->vocab_t, r->vocab_t);
        int at = r->len - r->prompt;
        if (at < r->want_len && id != r->want[at])
            fail_msg("spec %s on %s, %s: token %d is %d, expected %d",
                     gy_json_s(r->c, "target", "?"), gy_json_s(r->c, "draft", "?"), how, at, id,
                     r->want[at]);
        if (at < r->want_len) r->ids[r->len++] = id;
        if (i == n || draft[i] != id) break;
        a++;
    }
    assert_ok(gy_seq_settle(r->te, r->t, a, &err), err);
    assert_int_equal(gy_seq_len(r->t), before + a);
    int left = r->prompt + r->want_len - before;
    r->accepted[r->rounds++] = a < left ? a : left;
    if (r->d && gy_seq_len(r->d) > before + a)
        assert_ok(gy_seq_trim(r->de, r->d, before + a, &err), err);
}

/* Rounds of k for all of r[n], whose targets share an engine, in one batch until all have ended. */
static void rounds(round_of *r, int n, int k, const char *how) {
    static float logits[SPEC_CASES * (DRAFTS_MAX + 1) * VOCAB_MAX];
    for (bool more = true; more;) {
        int32_t ids[SPEC_CASES][DRAFTS_MAX + 1];
        gy_feed feed[SPEC_CASES];
        int of[SPEC_CASES], feeds = 0;
        gy_err err = {0};
        more = false;
        for (int i = 0; i < n; i++) {
            if (r[i].len == r[i].prompt + r[i].want_len) continue;
            int drafts = guess(r + i, k, ids[feeds] + 1);
            ids[feeds][0] = r[i].ids[r[i].len - 1];
            of[feeds] = i;
            feed[feeds] =
                (gy_feed){.seq = r[i].t, .ids = ids[feeds], .n = 1 + drafts, .drafts = drafts};
            feeds++, more = true;
        }
        const float *row = logits;
        if (more) assert_ok(gy_step(r[0].te, feed, feeds, logits, &err), err);
        for (int f = 0; f < feeds; f++) {
            judge(r + of[f], ids[f] + 1, feed[f].drafts, row, how);
            row += (size_t)feed[f].n * (size_t)r[0].vocab_t;
        }
    }
}

static int32_t ids_at(const gy_json *list, int32_t *out) {
    assert_true(gy_json_is(list, GY_JSON_ARR) && list->n < IDS / 2);
    for (uint32_t i = 0; i < list->n; i++) out[i] = number(list->item + i);
    return (int32_t)list->n;
}

/* All of the prompt but its last token is held; hit: by a fork of a sequence that went on
 * differently and was cut back. */
static void begin(round_of *r, const gy_json *c, gy_engine *te, gy_engine *de, bool hit) {
    gy_err err = {0};
    *r = (round_of){.c = c, .te = te, .de = de, .vocab_t = r->vocab_t, .vocab_d = r->vocab_d};
    r->prompt = r->len = ids_at(gy_json_get(c, "prompt"), r->ids);
    r->want_len = ids_at(gy_json_get(c, "tokens"), r->want);
    gy_seq *s;
    gy_feed f = {.ids = r->ids, .n = r->prompt - 1, .first_out = r->prompt - 1};
    assert_ok(gy_seq_new(te, &s, &err), err);
    f.seq = s;
    assert_ok(gy_step(te, &f, 1, NULL, &err), err);
    r->t = s;
    if (hit) {
        int32_t other[3] = {1, 2, 3};
        f = (gy_feed){.seq = s, .ids = other, .n = 3, .first_out = 3};
        assert_ok(gy_step(te, &f, 1, NULL, &err), err);
        assert_ok(gy_seq_fork(te, s, &r->t, &err), err);
        assert_ok(gy_seq_trim(te, r->t, r->prompt - 1, &err), err);
        gy_seq_free(te, s);
    }
    if (de) assert_ok(gy_seq_new(de, &r->d, &err), err);
}

static void end(round_of *r) {
    gy_seq_free(r->te, r->t);
    if (r->d) gy_seq_free(r->de, r->d);
}

static void check_accepted(const round_of *r) {
    const gy_json *want = gy_json_get(r->c, "accepted_by_round_k4");
    for (uint32_t i = 0; i < want->n; i++)
        if ((int)i >= r->rounds || r->accepted[i] != number(want->item + i))
            fail_msg("spec %s on %s: round %u accepts %d, expected %d",
                     gy_json_s(r->c, "target", "?"), gy_json_s(r->c, "draft", "?"), i,
                     (int)i < r->rounds ? r->accepted[i] : -1, number(want->item + i));
    assert_int_equal(r->rounds, want->n);
}

/* One case alone, with 1 to 8 drafts a round, by its draft model and by look-up. */
static void spec_alone(const gy_json *c) {
    round_of r = {0};
    gy_engine *te = engine_of(gy_json_s(c, "target", "?"), &r.vocab_t, "f32"),
              *de = engine_of(gy_json_s(c, "draft", "?"), &r.vocab_d, "f32");
    for (int k = 1; k <= DRAFTS_MAX; k++)
        for (int model = 0; model < 2; model++)
            for (int hit = 0; hit < 2; hit++) {
                begin(&r, c, te, model ? de : NULL, hit);
                rounds(&r, 1, k, model ? "alone" : "look-up");
                if (k == 4 && model) check_accepted(&r);
                end(&r);
            }
    gy_engine_free(te), gy_engine_free(de);
}

/* All cases of one target in one batch: their rows reject at different depths. */
static void spec_together(const gy_json *cases, const char *target) {
    round_of r[SPEC_CASES] = {{0}};
    int vocab, n = 0;
    gy_engine *te = engine_of(target, &vocab, "f32"), *de[SPEC_CASES];
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *c = cases->item + i;
        if (strcmp(gy_json_s(c, "target", ""), target)) continue;
        assert_true(n < SPEC_CASES);
        de[n] = engine_of(gy_json_s(c, "draft", "?"), &r[n].vocab_d, "f32");
        r[n].vocab_t = vocab;
        begin(r + n, c, te, n % 4 == 3 ? NULL : de[n], n % 2);
        n++;
    }
    if (n) rounds(r, n, 4, "together");
    for (int i = 0; i < n; i++) {
        if (r[i].de) check_accepted(r + i);
        end(r + i);
        gy_engine_free(de[i]);
    }
    gy_engine_free(te);
}

static void speculation(void **state) {
    (void)state;
    gy_json_doc doc = {0};
    SKIP_WITHOUT_SHARED("cases/spec/cases.json");
    load(&doc, "cases/spec/cases.json");
    const gy_json *cases = gy_json_get(doc.root, "cases");
    for (uint32_t i = 0; i < cases->n; i++) spec_alone(cases->item + i);
    static const char *const targets[] = {"llama_a", "llama_a_mixed_q", "swa8"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) spec_together(cases, targets[i]);
    printf("spec: %u of %u\n", cases->n, cases->n);
    assert_true(cases->n > 0);
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(traces), cmocka_unit_test(rings),
                                       cmocka_unit_test(speculation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
