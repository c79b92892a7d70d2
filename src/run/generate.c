/* One answer: prefill in chunks, then pick, report and feed one token at a time. */
#include <time.h>

#include "base/mem.h"
#include "run/persist.h"
#include "run/sample.h"

typedef struct {
    gy_engine *e;
    struct gy_seq *seq;
    const gy_request *req;
    gy_event_fn fn;
    void *arg;
    float *logits; /* [vocab] */
    uint8_t *marks;
    gy_sampler *sampler;
    gy_detok *detok;
    gy_buf text;
    gy_result result;
    int n_prompt; /* tokens before the answer */
} job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static gy_rc check(const gy_engine *e, const struct gy_seq *seq, const gy_request *r, gy_err *err) {
    if (r->n < 1 || !r->ids)
        return gy_fail(err, GY_EARG, "request: ids are empty; at least one token is needed");
    if (r->max_tokens < 0)
        return gy_fail(err, GY_EARG, "request: max_tokens %d is negative", r->max_tokens);
    if (r->top_logprobs < 0 || r->top_logprobs > GY_TOP_LOGPROBS)
        return gy_fail(err, GY_EARG, "request: top_logprobs %d is not in 0..%d", r->top_logprobs,
                       GY_TOP_LOGPROBS);
    if (r->n_stop < 0) return gy_fail(err, GY_EARG, "request: n_stop %d is negative", r->n_stop);
    if (r->n > e->context - gy_seq_len(seq))
        return gy_fail(err, GY_ELIMIT,
                       "request: %d tokens after %d held do not fit the context of %d", r->n,
                       gy_seq_len(seq), e->context);
    for (int i = 0; i < r->n; i++) /* before the first chunk changes the sequence */
        if (r->ids[i] < 0 || r->ids[i] >= e->vocab)
            return gy_fail(err, GY_EARG, "request: token id %d at %d is not in 0..%d", r->ids[i], i,
                           e->vocab - 1);
    return GY_OK;
}

static bool is_eos(const gy_model *m, int32_t id) {
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

/* Marks are read only by DRY and XTC, and cost a pass over the vocabulary. */
static gy_rc mark_vocab(job *j, gy_err *err) {
    const gy_tok *tok = j->e->model->tok;
    const gy_sampling *s = &j->req->sampling;
    if (!tok || (s->dry_multiplier == 0 && s->xtc_probability == 0)) return GY_OK;
    j->marks = gy_alloc((size_t)j->e->vocab);
    if (!j->marks) return gy_fail(err, GY_ENOMEM, "generate: out of memory");
    gy_buf text = {0};
    for (int32_t id = 0; id < j->e->vocab_text; id++) {
        text.n = 0;
        gy_rc rc = gy_tok_decode(tok, &id, 1, false, &text, NULL);
        if (rc == GY_ENOMEM) return gy_buf_free(&text), gy_fail(err, rc, "generate: out of memory");
        if (rc) continue; /* an id without a name */
        j->marks[id] = gy_sampler_mark(text.p ? text.p : "", text.n, is_eos(j->e->model, id));
    }
    gy_buf_free(&text);
    return GY_OK;
}

static gy_rc prepare(job *j, gy_err *err) {
    const gy_request *r = j->req;
    j->logits = gy_alloc_n((size_t)j->e->vocab, sizeof *j->logits);
    gy_rc rc = j->logits ? mark_vocab(j, err) : gy_fail(err, GY_ENOMEM, "generate: out of memory");
    if (!rc)
        rc = gy_sampler_new(&r->sampling, j->e->vocab, j->e->context, j->marks, &j->sampler, err);
    if (!rc && j->e->model->tok)
        rc = gy_detok_new(j->e->model->tok, true, r->stop, r->n_stop, &j->detok, err);
    if (!rc && !j->detok && r->n_stop)
        rc = gy_fail(err, GY_EARG, "request: stop strings need a tokenizer");
    return rc;
}

static bool report(job *j, const gy_event *ev) {
    return !j->fn || j->fn(j->arg, ev);
}

static gy_rc prefill(job *j, gy_err *err) {
    const gy_request *r = j->req;
    double start = now();
    gy_rc rc = GY_OK;
    int before = gy_seq_len(j->seq);
    int at = r->no_prefix ? 0 : gy_engine_adopt(j->e, r->prefix_salt, j->seq, r->ids, r->n);
    j->result.cached_tokens = at;
    for (; !rc && at < r->n && !j->result.end; at += j->e->chunk) {
        int n = r->n - at < j->e->chunk ? r->n - at : j->e->chunk, out = at + n == r->n ? n - 1 : n;
        gy_feed feed = {.seq = j->seq, .ids = r->ids + at, .n = n, .first_out = out};
        rc = gy_step(j->e, &feed, 1, j->logits, err);
        if (rc) break;
        /* After every chunk, while layers with a window still hold its last pages. */
        if (!r->no_prefix) gy_engine_offer(j->e, r->prefix_salt, j->seq);
        if (!report(j, &(gy_event){.kind = GY_EV_PREFILL, .done = at + n, .total = r->n}))
            j->result.end = GY_END_CANCEL;
    }
    j->result.prompt_tokens = gy_seq_len(j->seq) - before; /* a step that failed held some */
    j->n_prompt = j->seq->len;
    j->result.prefill_s = now() - start;
    return rc;
}

/* Picks the next token from j->logits and reports it. */
static gy_rc pick(job *j, int32_t *id, gy_err *err) {
    const gy_request *r = j->req;
    gy_sample_out out;
    gy_sample_in in = {.logits = j->logits,
                       .n = j->e->vocab,
                       .history = j->seq->tok,
                       .n_history = j->seq->len,
                       .n_prompt = j->n_prompt,
                       .pos = j->result.tokens};
    gy_rc rc = gy_sampler_pick(j->sampler, &in, r->top_logprobs, &out, err);
    if (rc) return rc;
    *id = out.id;
    j->text.n = 0;
    j->result.tokens++;
    if (!r->ignore_eos && is_eos(j->e->model, out.id)) return j->result.end = GY_END_STOP, GY_OK;
    if (j->detok && gy_detok_push(j->detok, out.id, &j->text)) j->result.end = GY_END_STRING;
    gy_event ev = {.kind = GY_EV_TOKEN,
                   .id = out.id,
                   .pos = j->seq->len,
                   .text = j->text.n ? j->text.p : "",
                   .bytes = j->text.n,
                   .logprob = out.logprob,
                   .top = out.top,
                   .n_top = out.n_top};
    if (!report(j, &ev)) j->result.end = GY_END_CANCEL;
    return GY_OK;
}

static gy_rc answer(job *j, gy_err *err) {
    const gy_request *r = j->req;
    double start = now();
    gy_rc rc = GY_OK;
    int most =
        j->e->context - j->seq->len; /* tokens that can still be held; one more can be sampled */
    if (r->max_tokens && r->max_tokens <= most) most = r->max_tokens - 1;
    while (!rc && !j->result.end) {
        int32_t id = 0;
        rc = pick(j, &id, err);
        if (rc || j->result.end) break;
        if (j->result.tokens > most)
            j->result.end = GY_END_LENGTH;
        else
            rc = gy_step(j->e, &(gy_feed){.seq = j->seq, .ids = &id, .n = 1}, 1, j->logits, err);
    }
    j->result.decode_s = now() - start;
    return rc;
}

static void finish(job *j) {
    j->text.n = 0;
    if (j->detok && j->result.end != GY_END_STRING) gy_detok_end(j->detok, &j->text);
    report(j, &(gy_event){.kind = GY_EV_END,
                          .end = j->result.end,
                          .text = j->text.n ? j->text.p : "",
                          .bytes = j->text.n,
                          .pos = j->seq->len});
}

gy_rc gy_generate(gy_engine *e, gy_seq *seq, const gy_request *request, gy_event_fn fn, void *arg,
                  gy_result *result, gy_err *err) {
    job j = {.e = e, .seq = seq, .req = request, .fn = fn, .arg = arg};
    if (err) *err = (gy_err){0};
    gy_rc rc = check(e, seq, request, err);
    if (!rc) rc = prepare(&j, err);
    if (!rc) rc = prefill(&j, err);
    if (!rc) rc = answer(&j, err);
    if (!request->no_prefix && j.result.tokens) gy_engine_offer(e, request->prefix_salt, seq);
    if (rc == GY_ECANCEL) j.result.end = GY_END_CANCEL;
    if (j.result.end) finish(&j);
    if (result) *result = j.result;
    gy_detok_free(j.detok);
    gy_sampler_free(j.sampler);
    gy_buf_free(&j.text);
    gy_free(j.logits), gy_free(j.marks);
    return rc;
}
