#include "golden/golden.h"

#include "base/fmap.h"
#include "base/num.h"
#include "file/tensors.h"
#include "testlib.h"

const char *const golden_dense[] = {"llama",         "gemma3",          "phi3-plain",
                                    "starcoder2",    "olmo2",           "llama-dynamic",
                                    "llama-8bit",    "llama-bf16",      "llama-f16",
                                    "llama-f32",     "llama-linear",    "llama-mixed",
                                    "llama-mxfp4",   "llama-mxfp8",     "llama-nvfp4",
                                    "llama-sharded", "llama-sliding",   "llama-traditional",
                                    "llama-yarn",    "mistral",         "iquestcoder",
                                    "minicpm5",      "smollm3",         "qwen2",
                                    "qwen3",         "qwen3-yarn",      "gemma",
                                    "gemma2",        "gemma3_text",     "phi3",
                                    "glm4",          "granite",         "qwen3_5",
                                    "mixtral",       "qwen2_moe",       "qwen3_moe",
                                    "qwen3_next",    "qwen3_5_moe",     "gpt_oss",
                                    "deepseek_v3",   "deepseek_v3-noq", NULL};

const char *golden_path(const char *name) {
    static char path[1024];
    char rel[256];
    snprintf(rel, sizeof rel, "models/%s", name);
    snprintf(path, sizeof path, "%s/golden.json", data_path(rel));
    if (!access(path, R_OK)) return snprintf(path, sizeof path, "%s", data_path(rel)), path;
    snprintf(rel, sizeof rel, "fixtures/models/%s", name);
    if (!have_shared(rel)) return NULL;
    snprintf(path, sizeof path, "%s", shared_path(rel));
    return path;
}

static int *ints(const gy_json *a, int *n) {
    assert_true(gy_json_is(a, GY_JSON_ARR));
    int *out = calloc(a->n + 1, sizeof *out);
    for (uint32_t i = 0; i < a->n; i++) {
        int64_t v;
        assert_true(gy_json_int(a->item + i, &v));
        out[i] = (int)v;
    }
    return *n = (int)a->n, out;
}

/* Appends the rows of one golden tensor, whose positions are `at`. */
static void add_rows(golden *g, const gy_tensors *t, const char *name, const int *at, int n) {
    const gy_tensor *v = gy_tensors_find(t, name);
    assert_non_null(v);
    assert_true(v->type == GY_T_F32 && v->dims == 2 && v->shape[0] == n);
    assert_true(!g->vocab || g->vocab == v->shape[1]);
    g->vocab = (int)v->shape[1];
    g->row = realloc(g->row, (size_t)(g->rows + n) * sizeof *g->row);
    g->logits = realloc(g->logits, (size_t)(g->rows + n) * (size_t)g->vocab * sizeof *g->logits);
    memcpy(g->row + g->rows, at, (size_t)n * sizeof *at);
    memcpy(g->logits + (size_t)g->rows * (size_t)g->vocab, v->data, v->bytes);
    g->rows += n;
}

/* run: where ids, margins and noise of the run stand; prefix: of its tensors' names. */
static void open_run(golden *g, const char *dir, const gy_json *run, const char *prefix) {
    char path[1200], name[64];
    gy_err err = {0};
    gy_tensors t = {0};
    int n, *list;
    snprintf(path, sizeof path, "%s/golden.safetensors", dir);
    assert_ok(gy_tensors_open_file(&t, path, &err), err);
    const gy_json *root = g->doc.root;
    int *prompt = ints(gy_json_get(root, "prompt"), &g->prompt);
    int *greedy = ints(gy_json_get(run, "greedy"), &g->greedy);
    g->ids = calloc((size_t)(g->prompt + g->greedy), sizeof *g->ids);
    for (int i = 0; i < g->prompt; i++) g->ids[i] = prompt[i];
    for (int i = 0; i < g->greedy; i++) g->ids[g->prompt + i] = greedy[i];
    list = ints(gy_json_get(root, "positions"), &n);
    snprintf(name, sizeof name, "%slogits", prefix);
    add_rows(g, &t, name, list, n);
    free(list);
    /* Step s is the distribution that chose greedy[s]: the one after the id before it. */
    list = ints(gy_json_get(root, "decode_steps"), &n);
    for (int i = 0; i < n; i++) list[i] += g->prompt - 1;
    snprintf(name, sizeof name, "%sdecode_logits", prefix);
    add_rows(g, &t, name, list, n);
    free(list), free(prompt), free(greedy);
    g->margin = calloc((size_t)g->greedy, sizeof *g->margin);
    const gy_json *margin = gy_json_get(run, "margin");
    assert_true(gy_json_is(margin, GY_JSON_ARR) && (int)margin->n == g->greedy);
    for (int i = 0; i < g->greedy; i++) assert_true(gy_json_num(margin->item + i, g->margin + i));
    g->noise = gy_json_f(run, "f32_noise", 0);
    gy_tensors_close(&t);
}

static void open_doc(golden *g, const char *dir) {
    char path[1200], *text;
    gy_err err = {0};
    size_t bytes;
    *g = (golden){0};
    snprintf(path, sizeof path, "%s/golden.json", dir);
    assert_ok(gy_file_read(path, 1 << 20, &text, &bytes, &err), err);
    assert_ok(gy_json_parse(&g->doc, text, bytes, &err), err);
    gy_free(text);
}

void golden_open(golden *g, const char *dir) {
    open_doc(g, dir);
    open_run(g, dir, g->doc.root, "");
    g->tolerance = 20 * g->noise > 5e-4 ? 20 * g->noise : 5e-4;
}

bool golden_open_kv(golden *g, const char *dir, int bits) {
    char name[16];
    open_doc(g, dir);
    snprintf(name, sizeof name, "kv.%d", bits);
    const gy_json *run = gy_json_path(g->doc.root, name);
    if (gy_json_null(run)) return golden_close(g), false;
    assert_int_equal(gy_json_i(run, "group", 0), 32);
    snprintf(name, sizeof name, "kv%d.", bits);
    open_run(g, dir, run, name);
    g->tolerance = 3 * g->noise > 0.05 ? 3 * g->noise : 0.05;
    return true;
}

void golden_close(golden *g) {
    gy_json_free(&g->doc);
    free(g->ids), free(g->margin), free(g->row), free(g->logits);
}
