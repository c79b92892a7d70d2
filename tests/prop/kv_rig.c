#include "prop/kv_rig.h"

#include "cpu/cpu.h"

const char *const rig_layout_names[RIG_LAYOUTS] = {"all",   "window", "both",   "kept", "chunk",
                                                   "donor", "sinks",  "latent", "state"};

enum { LAYERS = 2, DIM = 128, HEADS = 2, KV_HEADS = 1, WIDTH = 32, INNER = 48, CHUNK = 48 };

/* ---- The model ---- */

typedef struct {
    FILE *data, *head;
    size_t bytes;
    uint64_t rng;
    bool first;
} writer;

static void put(writer *w, const char *name, int rows, int cols, float center, float scale) {
    size_t n = (size_t)rows * (size_t)cols;
    fprintf(w->head,
            rows > 1 ? "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d]"
                     : "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%.0d%d]",
            w->first ? "" : ",", name, rows > 1 ? rows : 0, cols);
    fprintf(w->head, ",\"data_offsets\":[%zu,%zu]}", w->bytes, w->bytes + 4 * n);
    for (size_t i = 0; i < n; i++) {
        float x = center + scale * test_uniform(&w->rng);
        assert_int_equal(fwrite(&x, 4, 1, w->data), 1);
    }
    w->bytes += 4 * n, w->first = false;
}

static void write_weights(const char *path) {
    writer w = {.rng = 77, .first = true};
    char *data, *head, name[96];
    size_t data_n, head_n;
    w.data = open_memstream(&data, &data_n), w.head = open_memstream(&head, &head_n);
    fputc('{', w.head);
    put(&w, "model.embed_tokens.weight", RIG_VOCAB, WIDTH, 0, 1);
    for (int i = 0; i < LAYERS; i++) {
        static const struct {
            const char *name;
            int rows, cols;
        } part[] = {{"input_layernorm", 1, WIDTH},
                    {"post_attention_layernorm", 1, WIDTH},
                    {"self_attn.q_proj", HEADS * DIM, WIDTH},
                    {"self_attn.k_proj", KV_HEADS * DIM, WIDTH},
                    {"self_attn.v_proj", KV_HEADS * DIM, WIDTH},
                    {"self_attn.o_proj", WIDTH, HEADS * DIM},
                    {"mlp.gate_proj", INNER, WIDTH},
                    {"mlp.up_proj", INNER, WIDTH},
                    {"mlp.down_proj", WIDTH, INNER}};
        for (size_t p = 0; p < sizeof part / sizeof *part; p++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, part[p].name);
            put(&w, name, part[p].rows, part[p].cols, part[p].rows == 1,
                part[p].rows == 1 ? 0.1f : 0.3f);
        }
    }
    put(&w, "model.norm.weight", 1, WIDTH, 1, 0.1f);
    fputc('}', w.head);
    fclose(w.data), fclose(w.head);
    FILE *f = fopen(path, "wb");
    uint64_t n = head_n;
    assert_non_null(f);
    assert_true(fwrite(&n, 8, 1, f) == 1 && fwrite(head, head_n, 1, f) == 1 &&
                fwrite(data, data_n, 1, f) == 1);
    assert_int_equal(fclose(f), 0);
    free(data), free(head);
}

static void write_config(const char *path, rig_layout layout) {
    static const char *const sees[2] = {"full_attention", "sliding_attention"};
    bool a = layout == RIG_WINDOW_ || layout == RIG_KEPT_ || layout == RIG_BOTH ||
             layout == RIG_SINKS,
         b = layout == RIG_WINDOW_ || layout == RIG_KEPT_;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"model_type\":\"llama\",\"hidden_size\":%d,\"num_hidden_layers\":%d,"
            "\"intermediate_size\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
            "\"head_dim\":%d,\"rms_norm_eps\":1e-5,\"vocab_size\":%d,"
            "\"max_position_embeddings\":4096,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,"
            "\"layer_types\":[\"%s\",\"%s\"],\"sliding_window\":%d}",
            WIDTH, LAYERS, INNER, HEADS, KV_HEADS, DIM, RIG_VOCAB, sees[a], sees[b], RIG_WINDOW);
    assert_int_equal(fclose(f), 0);
}

gy_model *rig_model(rig_layout layout) {
    char dir[] = "/tmp/gyre-rig-XXXXXX", path[64];
    gy_model *m;
    gy_err err = {0};
    if (layout == RIG_STATE) {
        assert_ok(gy_model_open(data_path("models/qwen3_5"),
                                &(gy_model_options){.no_tokenizer = true}, &m, &err),
                  err);
        return m;
    }
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.safetensors", dir), write_weights(path);
    snprintf(path, sizeof path, "%s/config.json", dir), write_config(path, layout);
    assert_ok(gy_model_open(dir, &(gy_model_options){.no_tokenizer = true}, &m, &err), err);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", dir), unlink(path); /* the mapping stays */
    rmdir(dir);
    return m;
}

/* ---- Engines ---- */

static void drop_op(gy_plan *p, int i) {
    memmove(p->op + i, p->op + i + 1, (size_t)(p->n_ops - i - 1) * sizeof *p->op);
    p->n_ops--;
}

/* What no config says. */
static void lay(gy_plan *p, rig_layout layout) {
    static const float sinks[HEADS] = {0.7f, -1.2f};
    for (int i = 0; i < p->n_ops; i++) {
        gy_op *op = p->op + i;
        if (op->kind == GY_OP_ATTN && layout == RIG_KEPT_) op->u.attn.kept = RIG_KEPT;
        if (op->kind == GY_OP_ATTN && layout == RIG_CHUNK) op->u.attn.chunk = CHUNK;
        if (op->kind == GY_OP_ATTN && layout == RIG_SINKS)
            op->u.attn.sinks = sinks, op->u.attn.cap = 5;
        if (op->kind == GY_OP_KVPUT && layout == RIG_DONOR && op->layer == 1) drop_op(p, i--);
    }
    for (int i = 0; i < p->n_layers; i++) {
        if (layout == RIG_KEPT_) p->kv[i].keep.sinks = RIG_KEPT;
        if (layout == RIG_LATENT) p->kv[i].form = GY_KV_VIEW;
    }
    if (layout == RIG_DONOR) p->kv[1].donor = 0;
}

gy_engine *rig_engine(gy_model *m, rig_layout layout, rig_options o, gy_err *why) {
    gy_engine_options eo = {.threads = o.threads,
                            .arith = GY_ARITH_EXACT,
                            .chunk = o.chunk,
                            .isa = o.isa,
                            .context = RIG_CONTEXT,
                            .sequences = RIG_SEQS};
    gy_kvpair *kv;
    gy_plan *plan;
    gy_engine *e;
    char name[GY_KV_NAME];
    if (gy_kv_choose(o.kv, m->desc.n_layers, &kv, name, why)) return NULL;
    gy_rc rc = gy_plan_build_layers(m, kv, &plan, why);
    gy_free(kv);
    if (rc) return NULL;
    lay(plan, layout);
    if (gy_engine_of_plan(plan, &eo, &e, why)) return NULL;
    e->model = gy_model_ref(m); /* whose weights the plan reads; saved sequences name it */
    return e;
}

gy_seq *rig_seq(gy_engine *e) {
    gy_seq *s;
    gy_err err = {0};
    assert_ok(gy_seq_new(e, &s, &err), err);
    return s;
}

void rig_feed(gy_engine *e, gy_seq *s, const int32_t *ids, int n, int drafts, float *logits) {
    gy_err err = {0};
    gy_feed f = {.seq = s, .ids = ids, .n = n, .first_out = logits ? 0 : n, .drafts = drafts};
    assert_ok(gy_step(e, &f, 1, logits, &err), err);
}

/* ---- Pages ---- */

static void same_rows(const char *what, const gy_rows *a, const gy_rows *b, int rows, int layer,
                      int page) {
    for (int p = 0; p < 3; p++) {
        if (!a->plane[p] && !b->plane[p]) continue;
        if (a->step[p] != b->step[p] ||
            memcmp(a->plane[p], b->plane[p], (size_t)rows * (size_t)a->step[p]))
            fail_msg("%s: bytes of layer %d page %d plane %d differ", what, layer, page, p);
    }
}

int rig_same_pages(const char *what, gy_engine *ea, const gy_seq *a, gy_engine *eb,
                   const gy_seq *b) {
    int count = 0;
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->tok, b->tok, (size_t)a->len * sizeof *a->tok);
    for (int l = 0; l < ea->plan->n_layers; l++) {
        int g = gy_kv_layer_group(ea->kv, l);
        if (g < 0) continue;
        for (int i = 0; i * GY_PAGE < a->len; i++) {
            if (!gy_kv_page_needed(ea->kv, g, a->len, i)) continue;
            if (!a->group[g].at[i] || !b->group[g].at[i])
                fail_msg("%s: page %d of layer %d is gone", what, i, l);
            int rows = a->len - i * GY_PAGE < GY_PAGE ? a->len - i * GY_PAGE : GY_PAGE;
            for (int part = 0; part < 2 * ea->plan->kv[l].heads; part++) {
                gy_rows x = gy_kv_page_rows(ea->kv, a, l, i, part / 2, part % 2),
                        y = gy_kv_page_rows(eb->kv, b, l, i, part / 2, part % 2);
                if (memcmp(&x.c, &y.c, sizeof x.c))
                    fail_msg("%s: page %d of layer %d has codec %d, expected %d", what, i, l,
                             y.c.kind, x.c.kind);
                same_rows(what, &x, &y, rows, l, i), count++;
            }
        }
    }
    return count;
}

/* ---- Readers ---- */

rig_reader rig_reader_of(gy_engine *e, int threads) {
    rig_reader r = {.e = e};
    gy_err err = {0};
    gy_plan *p = calloc(1, sizeof *p);
    *p = *e->plan;
    r.op = calloc((size_t)p->n_ops, sizeof *r.op);
    p->op = r.op, p->n_ops = 0;
    for (int i = 0; i < e->plan->n_ops; i++)
        if (e->plan->op[i].kind != GY_OP_KVPUT) p->op[p->n_ops++] = e->plan->op[i];
    r.plan = p;
    assert_ok(gy_cpu_new(p, e->kv, threads, GY_BE_EXACT, NULL, 64, &r.be, &err), err);
    return r;
}

void rig_reader_free(rig_reader *r) {
    r->be->free(r->be);
    free(r->op), free(r->plan);
}

void rig_ask(rig_reader *r, gy_seq *s, const int32_t *tok, int n, int pos0, int end,
             float *logits) {
    int32_t pos[64], of[64] = {0}, out[64];
    gy_span span = {.n = n, .pos0 = pos0};
    gy_reach also[64];
    gy_err err = {0};
    assert_true(n <= 64);
    for (int i = 0; i < n; i++) pos[i] = pos0 + i, out[i] = i, also[i] = (gy_reach){0, 0, end};
    gy_batch b = {.rows = n,
                  .spans = 1,
                  .outs = n,
                  .tok = tok,
                  .pos = pos,
                  .of = of,
                  .span = &span,
                  .out = out,
                  .seq = &s,
                  .also = also,
                  .logits = logits};
    r->be->begin(r->be, &b);
    for (int i = 0; i < r->plan->n_ops; i++) r->be->run(r->be, r->plan->op + i, &b);
    assert_ok(r->be->end(r->be, &err), err);
    r->asked += n;
}
