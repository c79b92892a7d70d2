/* The ragged step: feeds of any lengths become chunks of at most e->chunk rows, each run through
 * the plan. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "run/engine.h"

static gy_rc check_feeds(const gy_engine *e, const gy_feed *feeds, int n_feeds, const float *logits,
                         gy_err *err) {
    if (n_feeds < 0 || (n_feeds && !feeds))
        return gy_fail(err, GY_EARG, "step: %d feeds, no array of them", n_feeds);
    for (int f = 0; f < n_feeds; f++) {
        const gy_feed *feed = feeds + f;
        if (!feed->seq) return gy_fail(err, GY_EARG, "feed %d: seq is NULL", f);
        if (feed->n < 0 || feed->first_out < 0 || feed->first_out > feed->n)
            return gy_fail(err, GY_EARG, "feed %d: first_out %d is not in 0..n = %d", f,
                           feed->first_out, feed->n);
        if (feed->drafts < 0 || feed->drafts > feed->n)
            return gy_fail(err, GY_EARG, "feed %d: drafts %d is not in 0..n = %d", f, feed->drafts,
                           feed->n);
        if (feed->seq->committed < feed->seq->len)
            return gy_fail(err, GY_EARG,
                           "feed %d: %d drafts of the sequence wait for gy_seq_settle", f,
                           feed->seq->len - feed->seq->committed);
        if (feed->n && !feed->ids) return gy_fail(err, GY_EARG, "feed %d: ids is NULL", f);
        if (feed->first_out < feed->n && !logits)
            return gy_fail(err, GY_EARG, "feed %d: logits are wanted, but there is no room", f);
        if (feed->n > e->context - gy_seq_len(feed->seq))
            return gy_fail(err, GY_ELIMIT,
                           "feed %d: %d positions and %d more do not fit the context of %d", f,
                           gy_seq_len(feed->seq), feed->n, e->context);
        for (int i = 0; i < feed->n; i++)
            if (feed->ids[i] < 0 || feed->ids[i] >= e->vocab)
                return gy_fail(err, GY_EARG, "feed %d: token id %d at %d is not in 0..%d", f,
                               feed->ids[i], i, e->vocab - 1);
        for (int g = 0; g < f; g++)
            if (feeds[g].seq == feed->seq)
                return gy_fail(err, GY_EARG, "feeds %d and %d name the same sequence", g, f);
    }
    return GY_OK;
}

/* One row: of the batch's last span, which is not counted yet. */
static void add_row(gy_engine *e, gy_batch *b, int32_t tok, int pos, bool out) {
    e->tok[b->rows] = tok, e->pos[b->rows] = pos, e->of[b->rows] = b->spans;
    if (out) e->out[b->outs++] = b->rows;
    b->rows++;
}

/* Fills the batch with rows of the feeds from (feed f, token i) on; both are moved on. drafts[s]:
 * of the rows of span s, how many are drafts. Tokens that a sequence must replay come first. */
static gy_batch fill(gy_engine *e, const gy_feed *feeds, int n_feeds, int *f, int *i) {
    gy_batch b = {
        .tok = e->tok, .pos = e->pos, .of = e->of, .span = e->span, .out = e->out, .seq = e->seq};
    for (; *f < n_feeds; ++*f, *i = 0) {
        const gy_feed *feed = feeds + *f;
        int room = e->chunk - b.rows, pos = feed->seq->len, again = feed->seq->replay;
        if (feed->n == *i) continue;
        if (!room) break;
        if (again > room) again = room;
        int n = feed->n - *i;
        if (n > room - again) n = room - again;
        e->span[b.spans] = (gy_span){.seq = b.spans, .row0 = b.rows, .n = again + n, .pos0 = pos};
        e->seq[b.spans] = feed->seq;
        for (int t = 0; t < again; t++, pos++) add_row(e, &b, feed->seq->tok[pos], pos, false);
        for (int t = 0; t < n; t++, pos++)
            add_row(e, &b, feed->ids[*i + t], pos, *i + t >= feed->first_out);
        int first = feed->n - feed->drafts - *i; /* row of the span that is the first draft */
        e->drafts[b.spans++] = first < 0 ? n : first < n ? n - first : 0;
        *i += n;
        if (*i < feed->n) break;
    }
    return b;
}

static gy_rc reserve(gy_engine *e, const gy_batch *b, gy_err *err) {
    for (int s = 0; s < b->spans; s++) {
        gy_rc rc = gy_kv_reserve_drafts(e->kv, b->seq[s], b->span[s].n, e->drafts[s], err);
        if (rc) return rc;
    }
    return GY_OK;
}

static void trace(gy_engine *e, int i, const gy_batch *b) {
    const gy_op *op = e->plan->op + i;
    char name[48];
    bool outs = op->flags & GY_OPF_OUTS || op->kind == GY_OP_PICK || op->kind == GY_OP_LOGITS;
    if (op->layer >= 0)
        snprintf(name, sizeof name, "%d.%s", op->layer, gy_op_names[op->kind]);
    else
        snprintf(name, sizeof name, "%s", gy_op_names[op->kind]);
    if (op->kind == GY_OP_LOGITS) {
        e->trace(e->trace_arg, i, name, b->logits, b->outs, e->vocab, e->vocab);
    } else if (op->out >= 0) {
        int ld;
        const float *value = e->be->slot(e->be, op->out, &ld);
        e->trace(e->trace_arg, i, name, value, outs ? b->outs : b->rows,
                 e->plan->slot_cols[op->out], ld);
    }
}

static gy_rc run(gy_engine *e, const gy_batch *b, gy_err *err) {
    gy_profile *p = e->profile && e->profile->on ? e->profile : NULL;
    gy_alloc_forbid(1);
    e->be->begin(e->be, b);
    for (int i = 0; i < e->plan->n_ops; i++) {
        double start = p ? gy_profile_now() : 0;
        e->be->run(e->be, e->plan->op + i, b);
        if (p) gy_profile_op(p, e->plan, i, e->be, b, start);
        if (e->trace) {
            gy_alloc_forbid(0);
            trace(e, i, b);
            gy_alloc_forbid(1);
        }
    }
    gy_rc rc = e->be->end(e->be, err);
    gy_alloc_forbid(0);
    return rc;
}

static gy_rc step(gy_engine *e, const gy_feed *feeds, int n_feeds, float *logits, gy_err *err) {
    if (err) *err = (gy_err){0};
    gy_rc rc = check_feeds(e, feeds, n_feeds, logits, err);
    for (int f = 0, i = 0; !rc && f < n_feeds;) {
        gy_batch b = fill(e, feeds, n_feeds, &f, &i);
        if (!b.rows) break;
        if (gy_engine_cancelled(e)) return gy_fail(err, GY_ECANCEL, "step: cancelled");
        b.logits = logits;
        rc = reserve(e, &b, err);
        if (!rc) rc = run(e, &b, err);
        for (int s = 0; rc && s < b.spans; s++) gy_kv_unreserve(e->kv, b.seq[s]);
        for (int s = 0; !rc && s < b.spans; s++)
            gy_kv_append_drafts(e->kv, b.seq[s], b.tok + b.span[s].row0, b.span[s].n, e->drafts[s]);
        for (int o = 0; !rc && o < b.outs; o++)
            for (int t = e->vocab_text; t < e->vocab; t++)
                logits[(size_t)o * e->vocab + t] = -INFINITY;
        if (b.outs) logits += (size_t)b.outs * e->vocab; /* NULL when none is wanted */
    }
    return rc;
}

gy_rc gy_step(gy_engine *e, const gy_feed *feeds, int n_feeds, float *logits, gy_err *err) {
    gy_profile *p = e->profile && e->profile->on ? e->profile : NULL;
    if (!p) return step(e, feeds, n_feeds, logits, err);
    double start = gy_profile_now(), operators = gy_profile_operators(p);
    gy_rc rc = step(e, feeds, n_feeds, logits, err);
    gy_profile_step(p, start, operators);
    return rc;
}
