/* Reading what others wrote: a plan without KVPUT asks the pages of a sequence that another plan
 * fills, at any length of it, while it goes on, is recoded or has drafts.
 *
 * The asking plan is the writing one with its KVPUTs left out. Asked at a position with the token
 * that was fed there, it must give the very logits that were given then; asked beyond the end, with
 * `end` as the length, it must be attention by its definition. */
#include <math.h>

#include "prop/kv_rig.h"

enum { T = 230 };

static const char *const codecs[] = {"f32",  "f16",        "q8.64",      "q4.32",
                                     "k8v4", "turbo-k8v3", "turbox-k4v4"};
enum { CODECS = sizeof codecs / sizeof *codecs };

static void same(const char *what, const char *kv, rig_layout l, const float *a, const float *b,
                 int n) {
    for (int i = 0; i < n * RIG_VOCAB; i++)
        if (memcmp(a + i, b + i, sizeof *a))
            fail_msg("%s, %s, %s: logit %d of row %d is %.9g, expected %.9g", kv,
                     rig_layout_names[l], what, i % RIG_VOCAB, i / RIG_VOCAB, (double)b[i],
                     (double)a[i]);
}

static int run(gy_model *m, rig_layout l, const char *kv) {
    static float want[T * RIG_VOCAB], got[64 * RIG_VOCAB], more[64 * RIG_VOCAB];
    gy_err err = {0};
    gy_engine *e = rig_engine(m, l, (rig_options){kv, NULL, 2, 100}, &err);
    if (!e) fail_msg("%s: %s", kv, err.msg);
    rig_reader r = rig_reader_of(e, 2);
    gy_seq *s = rig_seq(e), *t = rig_seq(e);
    int32_t ids[T];
    uint64_t rng = 5;
    for (int i = 0; i < T; i++) ids[i] = (int32_t)(test_rand(&rng) % RIG_VOCAB);
    rig_feed(e, t, ids, 90, 0, NULL); /* a neighbour */
    for (int len = 0, n; len < T; len += n) {
        n = 1 + (int)(test_rand(&rng) % 40);
        if (n > T - len) n = T - len;
        rig_feed(e, s, ids + len, n, 0, want + (size_t)len * RIG_VOCAB);
        /* Its last rows, and rows up to a page ago: the window still holds what these saw. */
        int back = len + n < GY_PAGE ? len + n : GY_PAGE;
        rig_ask(&r, s, ids + len + n - back, back, len + n - back, 0, got);
        same("the last page", kv, l, want + (size_t)(len + n - back) * RIG_VOCAB, got, back);
    }
    /* An earlier length: as if the sequence had ended there. */
    for (int cut = T - 30; cut < T; cut += 7) {
        rig_ask(&r, s, ids + cut - 1, 1, cut - 1, cut, got);
        same("an earlier length", kv, l, want + (size_t)(cut - 1) * RIG_VOCAB, got, 1);
    }
    /* Drafts are not seen by whoever asks up to what is committed. */
    int32_t wrong[5] = {1, 2, 3, 4, 5};
    rig_ask(&r, s, ids, 1, T, T, got);
    rig_feed(e, s, wrong, 5, 5, NULL);
    rig_ask(&r, s, ids, 1, T, T, more);
    same("beside drafts", kv, l, got, more, 1);
    assert_ok(gy_seq_settle(e, s, 0, &err), err);
    rig_ask(&r, s, ids, 1, T, T, more);
    same("after drafts", kv, l, got, more, 1);
    /* Recoded: a view of what is stored now. */
    if (!gy_seq_transition(e, s, "q8", 0, &err)) {
        gy_seq *f;
        rig_feed(e, s, ids, 1, 0, want);
        assert_ok(gy_seq_fork(e, s, &f, &err), err);
        rig_feed(e, f, ids + 1, 30, 0, NULL);
        rig_ask(&r, s, ids, 1, T, 0, got), same("recoded", kv, l, want, got, 1);
        rig_ask(&r, f, ids, 1, T, T + 1, got), same("recoded and gone on", kv, l, want, got, 1);
        gy_seq_free(e, f);
    }
    int asked = r.asked;
    gy_seq_free(e, s), gy_seq_free(e, t);
    rig_reader_free(&r);
    gy_engine_free(e);
    return asked;
}

static void reading(void **state) {
    (void)state;
    for (int l = 0; l < RIG_STATE; l++) { /* state is not read by others */
        gy_model *m = rig_model((rig_layout)l);
        int asked = 0;
        for (int c = 0; c < CODECS; c++) asked += run(m, (rig_layout)l, codecs[c]);
        printf("%-8s %d rows asked, all as written\n", rig_layout_names[l], asked);
        gy_model_unref(m);
    }
}

/* Beyond the end, in double: position n asks n rows of a layer under its window. */
static void beyond(void **state) {
    (void)state;
    static float logits[RIG_VOCAB], x[T * 256];
    enum { LEN = 200, DIM = 128 };
    for (int l = RIG_ALL; l <= RIG_WINDOW_; l++) {
        gy_model *m = rig_model((rig_layout)l);
        gy_err err = {0};
        gy_engine *e = rig_engine(m, (rig_layout)l, (rig_options){"q8.64", NULL, 1, 64}, &err);
        rig_reader r = rig_reader_of(e, 1);
        gy_seq *s = rig_seq(e);
        int32_t ids[LEN];
        double off = 0, gap = 0;
        for (int i = 0; i < LEN; i++) ids[i] = i % RIG_VOCAB;
        rig_feed(e, s, ids, LEN, 0, NULL);
        /* Up to the first ATTN, whose query and output the slots then hold. */
        int last = 0;
        while (r.plan->op[last].kind != GY_OP_ATTN) last++;
        r.plan->n_ops = last + 1;
        rig_ask(&r, s, ids + 3, 1, LEN, LEN, logits);
        const gy_op *op = r.plan->op + last;
        int ld, lo = l == RIG_WINDOW_ ? LEN - RIG_WINDOW + 1 : 0;
        const float *q = r.be->slot(r.be, op->in[0], &ld), *o = r.be->slot(r.be, op->out, &ld);
        for (int h = 0; h < op->u.attn.heads; h++) {
            double sc[T], max = -INFINITY, sum = 0;
            float fs = 0, fw[T];
            for (int p = lo; p < LEN; p++) {
                gy_rows k = gy_kv_page_rows(e->kv, s, 0, p / GY_PAGE, 0, false);
                gy_codecs[k.c.kind].decode(&k, p % GY_PAGE, x);
                sc[p] = 0;
                float f = 0;
                for (int i = 0; i < DIM; i++)
                    sc[p] += (double)q[h * DIM + i] * x[i], f += q[h * DIM + i] * x[i];
                sc[p] *= op->u.attn.scale, fw[p] = f * op->u.attn.scale;
                max = fmax(max, sc[p]);
            }
            for (int p = lo; p < LEN; p++)
                sum += sc[p] = exp(sc[p] - max), fs += fw[p] = expf(fw[p] - (float)max);
            for (int i = 0; i < DIM; i++) {
                double want = 0;
                float rough = 0;
                for (int p = lo; p < LEN; p++) {
                    gy_rows v = gy_kv_page_rows(e->kv, s, 0, p / GY_PAGE, 0, true);
                    gy_codecs[v.c.kind].decode(&v, p % GY_PAGE, x);
                    want += sc[p] / sum * x[i], rough += fw[p] / fs * x[i];
                }
                off = fmax(off, fabs(o[h * DIM + i] - want));
                gap = fmax(gap, fabs(rough - want));
            }
        }
        printf("%s: off by %.2g, plain float loops by %.2g\n", rig_layout_names[l], off, gap);
        assert_true(off <= 10 * gap);
        gy_seq_free(e, s);
        rig_reader_free(&r);
        gy_engine_free(e);
        gy_model_unref(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading), cmocka_unit_test(beyond)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
