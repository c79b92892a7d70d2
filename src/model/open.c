/* model/open - from a path to a model: files, description, weights, text. */
#include <stdio.h>
#include <sys/stat.h>

#include "model/bind.h"
#include "model/gguf_map.h"

static gy_rc open_files(gy_model *m, bool weights, gy_err *err) {
    struct stat st;
    if (stat(m->path, &st))
        return gy_fail(err, GY_ENOTFOUND, "%s: no such file or directory", m->path);
    m->is_gguf = !S_ISDIR(st.st_mode);
    if (!m->is_gguf) {
        gy_rc rc = gy_config_open(&m->config, m->path, !weights, err);
        m->cfg = rc ? NULL : m->config.config.root;
        return rc || !weights ? rc : gy_tensors_open_dir(&m->tensors, m->path, err);
    }
    gy_rc rc = gy_gguf_open(&m->gguf, m->path, err);
    if (rc) return rc;
    /* A file with a vocabulary alone has no dimensions: that matters only to those who want
     * weights. */
    rc = gy_gguf_config(&m->gguf, &m->gguf_config, weights ? err : NULL);
    m->cfg = rc ? NULL : m->gguf_config.root;
    return weights ? rc : GY_OK;
}

static gy_rc open_weights(gy_model *m, gy_err *err) {
    gy_rc rc = gy_describe(m->cfg, &m->desc, err);
    if (!rc && m->is_gguf) rc = gy_gguf_adapt(&m->gguf, &m->desc, err);
    if (!rc) rc = gy_bind(m, err);
    if (!rc) gy_model_name_quant(m);
    return rc;
}

static const char *type_of(gy_model *m) {
    gy_gguf_str s;
    if (!m->is_gguf) return gy_json_s(m->cfg, "model_type", "");
    if (!gy_gguf_string(&m->gguf, "general.architecture", &s)) return "";
    return gy_arena_strndup(&m->arena, s.s, s.n);
}

/* Logits beyond the tokenizer are padding. Ids beyond the logits are an error, but for special
 * tokens of another modality (an image placeholder in the text-only version of a model): those
 * cannot come out of ordinary text. */
static gy_rc check_vocab(const gy_model *m, gy_err *err) {
    int n = m->tok ? gy_tok_size(m->tok) : 0;
    for (int id = m->desc.vocab; id < n; id++) {
        size_t bytes;
        const char *name = gy_tok_name(m->tok, id, &bytes);
        if (name && !gy_tok_special(m->tok, id))
            return gy_fail(err, GY_EFORMAT,
                           "the tokenizer has ids up to %d, but the embedding has only %d rows",
                           n - 1, m->desc.vocab);
    }
    return GY_OK;
}

gy_rc gy_model_open(const char *path, const gy_model_options *options, gy_model **model,
                    gy_err *err) {
    static const gy_model_options none;
    if (err) *err = (gy_err){0};
    if (!path || !model)
        return gy_fail(err, GY_EARG, "gy_model_open: path and model must not be NULL");
    if (!options) options = &none;
    gy_model *m = gy_alloc(sizeof *m);
    if (!m || !(m->path = gy_strdup(path)))
        return gy_free(m), gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    m->refs = 1;
    gy_rc rc = open_files(m, !options->no_weights, err);
    if (!rc && !(m->type = type_of(m))) rc = gy_fail(err, GY_ENOMEM, "out of memory");
    if (!rc && !options->no_weights) rc = open_weights(m, err);
    if (!rc) rc = gy_model_open_text(m, options, err);
    if (!rc && !options->no_weights) rc = check_vocab(m, err);
    if (rc) {
        if (err && !strstr(err->msg, path)) gy_fail_in(err, "%s", path);
        return gy_model_unref(m), rc;
    }
    *model = m;
    return GY_OK;
}

gy_model *gy_model_ref(gy_model *m) {
    m->refs++;
    return m;
}

void gy_model_unref(gy_model *m) {
    if (!m || --m->refs) return;
    gy_chat_free(m->chat);
    gy_tok_free(m->tok);
    gy_desc_free(&m->desc);
    gy_json_free(&m->gguf_config);
    if (m->is_gguf)
        gy_gguf_close(&m->gguf);
    else
        gy_tensors_close(&m->tensors), gy_config_close(&m->config);
    gy_free(m->eos), gy_free(m->path);
    gy_arena_free(&m->arena);
    gy_free(m);
}
