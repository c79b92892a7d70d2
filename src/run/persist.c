/* run/persist - see persist.h. */
#include "run/persist.h"

#include "base/mem.h"
#include "kv/snap_seq.h"

enum { WHOLE = 4096, SAMPLE = 256 };

/* ---- Identity ---- */

static void add_tensor(gy_sha256 *h, const gy_tensor *t) {
    gy_digest_text(h, t->name), gy_digest_text(h, gy_ttype_name(t->type));
    gy_digest_int(h, (uint64_t)t->dims);
    for (int d = 0; d < t->dims; d++) gy_digest_int(h, (uint64_t)t->shape[d]);
    gy_digest_int(h, t->bytes);
    if (t->bytes <= WHOLE) {
        gy_sha256_add(h, t->data, t->bytes);
        return;
    }
    gy_sha256_add(h, t->data, SAMPLE);
    gy_sha256_add(h, t->data + t->bytes / 2, SAMPLE);
    gy_sha256_add(h, t->data + t->bytes - SAMPLE, SAMPLE);
}

static bool digest_model(const gy_model *m, gy_digest *out) {
    const gy_tensors *t = m->is_gguf ? &m->gguf.tensors : &m->tensors;
    gy_buf config = {0};
    if (m->cfg) gy_json_write(&config, m->cfg);
    gy_sha256 *h = config.oom ? NULL : gy_sha256_new();
    if (h) {
        gy_digest_text(h, "gyre model 1");
        gy_digest_text(h, config.p);
        gy_digest_int(h, (uint64_t)t->n);
        for (int i = 0; i < t->n; i++) add_tensor(h, t->at + i);
    }
    gy_buf_free(&config);
    return h && gy_digest_end(h, out);
}

static bool digest_plan(const gy_plan *plan, gy_digest *out) {
    gy_buf text = {0};
    gy_plan_print(plan, true, &text);
    gy_sha256 *h = text.oom ? NULL : gy_sha256_new();
    if (h) gy_digest_text(h, "gyre plan 1"), gy_digest_text(h, text.p);
    gy_buf_free(&text);
    return h && gy_digest_end(h, out);
}

gy_rc gy_engine_identify(gy_engine *e, gy_err *err) {
    gy_identity id = {.bits = (uint32_t)gy_bits(), .arith = e->arith};
    if (e->identified) return GY_OK;
    if (!digest_model(e->model, &id.model) || !digest_plan(e->plan, &id.plan) ||
        !gy_chain_layout(e->plan->kv, e->plan->n_layers, &id.layout))
        return gy_fail(err, GY_ENOMEM, "out of memory for the identity of the model");
    e->identity = id, e->identified = true;
    return GY_OK;
}

/* ---- Prefixes ---- */

/* Without a folder the tree belongs to one engine, so that its identity need not be known: a start
 * reads no weights for it. */
gy_rc gy_engine_open_prefix(gy_engine *e, const gy_engine_options *o, gy_err *err) {
    static const int64_t dir_default = (int64_t)32 << 30;
    if (!o->prefix_bytes) return GY_OK;
    gy_rc rc = gy_prefix_new(e->kv, o->prefix_bytes, &e->prefix, err);
    if (rc || !o->prefix_dir) return rc;
    rc = gy_engine_identify(e, err);
    if (!rc)
        rc = gy_store_open(o->prefix_dir, o->prefix_dir_bytes ? o->prefix_dir_bytes : dir_default,
                           &gy_io_system, &e->store, err);
    if (!rc) gy_prefix_attach(e->prefix, e->store, &e->identity, e->kv_name);
    return rc;
}

gy_rc gy_engine_flush(gy_engine *e, gy_err *err) {
    if (err) *err = (gy_err){0};
    return e->prefix ? gy_prefix_flush(e->prefix, 0, NULL, err) : GY_OK;
}

gy_rc gy_engine_idle(gy_engine *e, int pages, int *left, gy_err *err) {
    int rest = 0;
    if (err) *err = (gy_err){0};
    if (pages < 1) return gy_fail(err, GY_EARG, "pages: %d; expected 1 or more", pages);
    gy_rc rc = e->store ? gy_prefix_flush(e->prefix, pages, &rest, err) : GY_OK;
    if (!rc && left) *left = rest;
    return rc;
}

/* A tree without a folder has one root per salt from its first page to its last, whether or not
 * saving a session has made the identity known meanwhile. */
static bool root_of(const gy_engine *e, const char *salt, gy_digest *root) {
    static const gy_identity none;
    return gy_chain_root(e->store ? &e->identity : &none, NULL, salt, root);
}

int gy_engine_adopt(gy_engine *e, const char *salt, struct gy_seq *seq, const int32_t *ids, int n) {
    gy_digest root;
    if (!e->prefix || !root_of(e, salt, &root)) return 0;
    return gy_prefix_adopt(e->prefix, &root, seq, ids, n);
}

void gy_engine_offer(gy_engine *e, const char *salt, const struct gy_seq *seq) {
    gy_digest root;
    if (e->prefix && root_of(e, salt, &root)) gy_prefix_offer(e->prefix, &root, seq);
}

/* ---- Sessions ---- */

gy_rc gy_seq_save(gy_engine *e, const gy_seq *seq, const char *path, gy_err *err) {
    if (err) *err = (gy_err){0};
    gy_rc rc = gy_engine_identify(e, err);
    return rc ? rc
              : gy_snap_save_seq(&gy_io_system, path, e->kv, seq, &e->identity, e->kv_name, err);
}

gy_rc gy_seq_load(gy_engine *e, const char *path, gy_seq **seq, gy_err *err) {
    if (err) *err = (gy_err){0};
    gy_rc rc = gy_engine_identify(e, err);
    if (rc) return rc;
    return gy_snap_load_seq(&gy_io_system, path, e->kv, &e->identity, e->kv_name, e->context,
                            e->vocab, seq, err);
}
