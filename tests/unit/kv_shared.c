/* KV codecs against the shared vectors: turbo tables, turbo rows bit for bit, and the attention
 * traces over affine KV. Affine rows themselves: codec_shared.c. */
#include "vectors.h"

#include <math.h>

#include "codec/turbo.h"

/* ---- Turbo ---- */

static void turbo_tables(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/turbo_tables.safetensors");
    static const int widths[] = {2, 3, 4, 5, 8}, dims[] = {64, 128, 256, 512};
    vectors v = vectors_open("turbo_tables");
    int floats = 0, signs = 0;
    for (int i = 0; i < 5; i++) {
        int b = widths[i];
        tensor c = get(&v, "centroids_%d", b), e = get(&v, "boundaries_%d", b);
        const gy_turbo_table *t = &gy_turbo_tables[b];
        assert_int_equal(c.rows, 1 << b);
        assert_int_equal(e.rows, (1 << b) - 1);
        if (memcmp(t->level, c.p, c.bytes)) fail_msg("levels of %d bits", b);
        if (memcmp(t->edge, e.p, e.bytes)) fail_msg("edges of %d bits", b);
        floats += c.rows + e.rows;
    }
    for (int i = 0; i < 4; i++) {
        tensor s = get(&v, "signs_%d", dims[i]);
        const uint32_t *word = gy_turbo_sign_words(dims[i]);
        for (int k = 0; k < dims[i]; k++, signs++) {
            if ((word[k / 32] >> k % 32 & 1) != ((int8_t)s.p[k] < 0))
                fail_msg("sign %d of %d", k, dims[i]);
        }
    }
    printf("turbo tables: %d levels and edges of 5 widths, %d signs of 4 dims\n", floats, signs);
    vectors_close(&v);
}

/* In groups that the guard of kv.md 3.3.6 replaces, all codes are 0. Returns their number. */
static int clear_guarded(uint8_t *codes, tensor scale, tensor zero, int bits) {
    int n = 0;
    for (int j = 0; j < scale.rows * scale.cols; j++) {
        uint16_t s = gy_load_u16(scale.p + 2 * j), z = gy_load_u16(zero.p + 2 * j);
        if ((s & 0x7FFF) && (z & 0x7C00) != 0x7C00) continue;
        memset(codes + (size_t)j * 4 * (size_t)bits, 0, 4 * (size_t)bits);
        n++;
    }
    return n;
}

/* The reference decodes float codes before they are packed, among them -0; stored codes have no
 * sign, so such a value is +0 here (kv.md 3.3.6). Nothing else may differ. Returns their number. */
static int same_row(const float *y, tensor want, int row, const char *what) {
    int zeros = 0;
    for (int i = 0; i < want.cols; i++) {
        float w = real_at(want.p, (size_t)(row * want.cols + i), GY_CODEC_F32);
        if (gy_f32_bits(w) == 0x80000000 && gy_f32_bits(y[i]) == 0)
            zeros++;
        else if (!same(y[i], w))
            fail_msg("%s row %d col %d: %.9g, not %.9g", what, row, i, y[i], w);
    }
    return zeros;
}

/* Rows as the reference made them decode to its values; x becomes the guarded bytes. */
static void key_set(const vectors *v, int dim, int bits, int count[3]) {
    char what[40];
    snprintf(what, sizeof what, "turbo_d%d k%d", dim, bits);
    tensor x = get(v, "x"), idx = get(v, "k%d.idx", bits), scale = get(v, "k%d.scale", bits),
           zero = get(v, "k%d.zero", bits), value = get(v, "k%d.f32", bits),
           gs = get(v, "k%d.guard_scale", bits), gz = get(v, "k%d.guard_zero", bits),
           gv = get(v, "k%d.guard_f32", bits);
    gy_cparm c = {.kind = GY_CODEC_TURBO_K, .bits = (uint8_t)bits};
    const gy_codec *codec = &gy_codecs[c.kind];
    assert_true(codec->fits(c, dim) && !codec->turn);
    uint8_t *codes = malloc(idx.bytes),
            *raw[3] = {calloc(1, idx.bytes), calloc(1, gs.bytes), calloc(1, gz.bytes)};
    memcpy(codes, idx.p, idx.bytes);
    count[1] += clear_guarded(codes, scale, zero, bits);
    gy_rows plain = rows_of(
        c, x.rows, dim, (uint8_t *[3]){(uint8_t *)idx.p, (uint8_t *)scale.p, (uint8_t *)zero.p});
    gy_rows guarded =
        rows_of(c, x.rows, dim, (uint8_t *[3]){codes, (uint8_t *)gs.p, (uint8_t *)gz.p});
    gy_rows mine = rows_of(c, x.rows, dim, raw);
    assert_int_equal((size_t)mine.step[0] * (size_t)x.rows, idx.bytes);
    assert_int_equal((size_t)mine.step[1] * (size_t)x.rows, gs.bytes);
    float in[512], y[512];
    for (int r = 0; r < x.rows; r++, count[0]++) {
        codec->decode(&plain, r, y);
        count[2] += same_row(y, value, r, what);
        codec->decode(&guarded, r, y);
        count[2] += same_row(y, gv, r, what);
        for (int i = 0; i < dim; i++) in[i] = real_at(x.p, (size_t)(r * dim + i), GY_CODEC_BF16);
        codec->encode(&mine, r, in);
    }
    if (memcmp(raw[1], gs.p, gs.bytes)) fail_msg("%s: scales", what);
    if (memcmp(raw[2], gz.p, gz.bytes)) fail_msg("%s: zeros", what);
    if (memcmp(raw[0], codes, idx.bytes)) fail_msg("%s: codes", what);
    for (int p = 0; p < 3; p++) free(raw[p]);
    free(codes);
}

static void value_set(const vectors *v, int dim, int bits, int count[3]) {
    char what[40];
    snprintf(what, sizeof what, "turbo_d%d v%d", dim, bits);
    tensor x = get(v, "x"), idx = get(v, "v%d.idx", bits), scale = get(v, "v%d.scale", bits),
           turned = get(v, "v%d.rot_f32", bits), value = get(v, "v%d.f32", bits);
    gy_cparm c = {.kind = GY_CODEC_TURBO_V, .bits = (uint8_t)bits};
    const gy_codec *codec = &gy_codecs[c.kind];
    assert_true(codec->fits(c, dim));
    uint8_t *raw[3] = {calloc(1, idx.bytes), calloc(1, scale.bytes), NULL};
    gy_rows given =
        rows_of(c, x.rows, dim, (uint8_t *[3]){(uint8_t *)idx.p, (uint8_t *)scale.p, NULL});
    gy_rows mine = rows_of(c, x.rows, dim, raw);
    assert_int_equal((size_t)mine.step[0] * (size_t)x.rows, idx.bytes);
    assert_int_equal((size_t)mine.step[1] * (size_t)x.rows, scale.bytes);
    float in[512], y[512];
    for (int r = 0; r < x.rows; r++, count[0]++) {
        codec->decode(&given, r, y);
        count[2] += same_row(y, turned, r, what);
        codec->turn(c, y, dim, true);
        count[2] += same_row(y, value, r, what);
        for (int i = 0; i < dim; i++) in[i] = real_at(x.p, (size_t)(r * dim + i), GY_CODEC_BF16);
        codec->encode(&mine, r, in);
    }
    if (memcmp(raw[1], scale.p, scale.bytes)) fail_msg("%s: scales", what);
    if (memcmp(raw[0], idx.p, idx.bytes)) fail_msg("%s: codes", what);
    free(raw[0]);
    free(raw[1]);
}

static void turbo_rows(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/turbo_d128.safetensors");
    static const int kb[] = {2, 4, 5, 8}, vb[] = {2, 3, 4, 5, 8}, dims[] = {64, 128, 256};
    for (int d = 0; d < 3; d++) {
        char name[40];
        int keys[3] = {0}, values[3] = {0};
        snprintf(name, sizeof name, "turbo_d%d", dims[d]);
        vectors v = vectors_open(name);
        for (int i = 0; i < 4; i++) key_set(&v, dims[d], kb[i], keys);
        for (int i = 0; i < 5; i++) value_set(&v, dims[d], vb[i], values);
        printf("%s: 4 key widths, %d rows (%d groups guarded, %d zeros without "
               "sign); 5 value widths, %d rows (%d): decoded and encoded\n",
               name, keys[0], keys[1], keys[2], values[0], values[2]);
        vectors_close(&v);
    }
}

/* ---- Traces over affine KV ---- */

enum { DIM = 32, HEADS = 2, SLOTS = 120 };

typedef struct {
    float q[SLOTS][HEADS][DIM], k[SLOTS][DIM], v[SLOTS][DIM];
} pool;

static void pool_read(pool *p) {
    vectors v = vectors_open("traces");
    tensor q = get(&v, "q"), k = get(&v, "k"), w = get(&v, "v");
    assert_true(q.rows == SLOTS && q.cols == HEADS * DIM && k.cols == DIM && w.cols == DIM);
    for (int s = 0; s < SLOTS; s++) {
        for (int i = 0; i < HEADS * DIM; i++)
            p->q[s][i / DIM][i % DIM] = real_at(q.p, (size_t)(s * HEADS * DIM + i), GY_CODEC_BF16);
        for (int i = 0; i < DIM; i++) {
            p->k[s][i] = real_at(k.p, (size_t)(s * DIM + i), GY_CODEC_BF16);
            p->v[s][i] = real_at(w.p, (size_t)(s * DIM + i), GY_CODEC_BF16);
        }
    }
    vectors_close(&v);
}

/* What the cache holds: each row coded and decoded by itself. */
static void through_codec(gy_cparm c, float x[SLOTS][DIM]) {
    uint8_t plane[3][DIM * 4];
    gy_rows m = rows_of(c, 1, DIM, (uint8_t *[3]){plane[0], plane[1], plane[2]});
    assert_true(gy_codecs[c.kind].fits(c, DIM));
    for (int s = 0; s < SLOTS; s++) {
        gy_codecs[c.kind].encode(&m, 0, x[s]);
        gy_codecs[c.kind].decode(&m, 0, x[s]);
    }
}

/* Attention of one query head in double over the slots that it sees. */
static void attend(const pool *p, int slot, int head, const bool *sees, double *out) {
    double score[SLOTS], top = -INFINITY, sum = 0;
    for (int s = 0; s < SLOTS; s++) {
        if (!sees[s]) continue;
        double dot = 0;
        for (int i = 0; i < DIM; i++) dot += (double)p->q[slot][head][i] * (double)p->k[s][i];
        score[s] = dot * (double)(float)pow(DIM, -0.5);
        if (score[s] > top) top = score[s];
    }
    for (int i = 0; i < DIM; i++) out[i] = 0;
    for (int s = 0; s < SLOTS; s++) {
        if (!sees[s]) continue;
        double w = exp(score[s] - top);
        sum += w;
        for (int i = 0; i < DIM; i++) out[i] += w * (double)p->v[s][i];
    }
    for (int i = 0; i < DIM; i++) out[i] /= sum;
}

static double query_error(const pool *p, const gy_json *q, tensor want) {
    bool sees[SLOTS] = {0};
    const gy_json *list = gy_json_get(q, "sees");
    int slot = (int)gy_json_i(q, "slot", -1), row = (int)gy_json_i(q, "out", -1);
    double worst = 0, out[DIM];
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t a, b;
        assert_true(gy_json_int(&list->item[i].item[0], &a));
        assert_true(gy_json_int(&list->item[i].item[1], &b));
        for (; a <= b; a++) sees[a] = true;
    }
    assert_in_range(slot, 0, SLOTS - 1);
    for (int h = 0; h < HEADS; h++) {
        attend(p, slot, h, sees, out);
        for (int i = 0; i < DIM; i++) {
            size_t at = (size_t)((row * HEADS + h) * DIM + i);
            double gap = fabs(out[i] - (double)real_at(want.p, at, GY_CODEC_F32));
            if (!(gap <= worst)) worst = gap;
        }
    }
    return worst;
}

static gy_json_doc json_read(const char *rel, char **text) {
    FILE *f = fopen(shared_path(rel), "rb");
    if (!f) fail_msg("cannot open %s", rel);
    *text = calloc(1, 1 << 20);
    size_t n = fread(*text, 1, (1 << 20) - 1, f);
    fclose(f);
    gy_json_doc doc = {0};
    gy_err err = {0};
    assert_ok(gy_json_parse(&doc, *text, n, &err), err);
    return doc;
}

/* coded: the cache codes from the start; otherwise from the step that says so. */
static void trace_one(const char *name, int bits, bool coded) {
    char rel[80], *text;
    static pool plain, held;
    snprintf(rel, sizeof rel, "vectors/trace_%s.json", name);
    gy_json_doc doc = json_read(rel, &text);
    snprintf(rel, sizeof rel, "trace_%s", name);
    vectors v = vectors_open(rel);
    tensor want = get(&v, "out");
    gy_cparm c = {GY_CODEC_AFFINE, (uint8_t)bits, GY_CODEC_F32, 32};
    pool_read(&plain);
    held = plain;
    through_codec(c, held.k);
    through_codec(c, held.v);
    double accept = gy_json_f(doc.root, "accept", 0), worst = 0;
    const gy_json *steps = gy_json_get(doc.root, "steps");
    int queries = 0;
    for (uint32_t i = 0; i < steps->n; i++) {
        const gy_json *step = &steps->item[i], *list = gy_json_get(step, "queries");
        if (!strcmp(gy_json_s(step, "op", ""), "to_quantized")) coded = true;
        for (uint32_t k = 0; list && k < list->n; k++, queries++) {
            double gap = query_error(coded ? &held : &plain, &list->item[k], want);
            if (!(gap <= accept)) fail_msg("%s step %u query %u: off by %g", name, i, k, gap);
            if (gap > worst) worst = gap;
        }
    }
    assert_int_equal(queries, want.rows);
    printf("trace %s: %d queries, worst %.2g of %.2g\n", name, queries, worst, accept);
    vectors_close(&v);
    gy_json_free(&doc);
    free(text);
}

static void traces(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("vectors/traces.safetensors");
    trace_one("quant_b2_g32", 2, true);
    trace_one("quant_b4_g32", 4, true);
    trace_one("quant_b8_g32", 8, true);
    trace_one("transition_b4", 4, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(turbo_tables), cmocka_unit_test(turbo_rows),
                                       cmocka_unit_test(traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
