/* tokenize, detokenize, render: text tools that need no weights. */
#include "base/mem.h"
#include "cli/common.h"

static const gy_model_options text_only = {.no_weights = true};

static void put_ids(const cli_args *a, const gy_model *m, const int32_t *ids, int n, gy_buf *b) {
    if (a->json) gy_buf_puts(b, "{\"ids\":[");
    for (int i = 0; i < n; i++) {
        if (a->pieces && !a->json) {
            size_t bytes = 0;
            const char *name = gy_token_name(m, ids[i], &bytes);
            gy_buf_printf(b, "%d\t", ids[i]);
            gy_buf_json(b, name ? name : "", bytes);
            gy_buf_c(b, '\n');
        } else {
            gy_buf_printf(b, "%s%d", i ? (a->json ? "," : " ") : "", ids[i]);
        }
    }
    if (a->json && a->pieces) {
        gy_buf_puts(b, "],\"pieces\":[");
        for (int i = 0; i < n; i++) {
            size_t bytes = 0;
            const char *name = gy_token_name(m, ids[i], &bytes);
            if (i) gy_buf_c(b, ',');
            gy_buf_json(b, name ? name : "", bytes);
        }
    }
    gy_buf_puts(b, a->json ? "]}\n" : a->pieces ? "" : "\n");
}

int cmd_tokenize(cli_args *a) {
    int code = EXIT_OK, n = 0;
    gy_err err = {0};
    size_t bytes = 0;
    int32_t *ids = NULL;
    gy_buf b = {0};
    gy_model *m = cli_open(a, &text_only, &code);
    if (!m) return code;
    char *text = a->words ? cli_join(a, &bytes) : cli_read(NULL, &bytes, &err);
    if (text) gy_tokenize(m, text, bytes, a->no_special ? 0 : GY_TOK_SPECIALS, &ids, &n, &err);
    if (ids) put_ids(a, m, ids, n, &b);
    if (ids && b.p) cli_put(b.p, b.n);
    if (!ids) code = cli_fail(a, &err);
    gy_buf_free(&b);
    gy_free(text), gy_free(ids);
    gy_model_unref(m);
    return code;
}

int cmd_detokenize(cli_args *a) {
    int code = EXIT_OK, n = 0;
    gy_err err = {0};
    size_t bytes = 0;
    char *text = NULL, *list = NULL;
    gy_model *m = cli_open(a, &text_only, &code);
    if (!m) return code;
    if ((code = cli_words(a, a->ids ? 0 : 1))) return gy_model_unref(m), code;
    if (!a->ids) list = a->words ? gy_strdup(a->word[0]) : cli_read(NULL, NULL, &err);
    int32_t *ids = a->ids || list ? cli_ids(a->ids ? a->ids : list, &n, &err) : NULL;
    if (ids) gy_detokenize(m, ids, n, false, &text, &bytes, &err);
    if (text && a->json) {
        gy_buf b = {0};
        gy_buf_puts(&b, "{\"text\":");
        gy_buf_json(&b, text, bytes);
        gy_buf_puts(&b, "}\n");
        if (b.p) cli_put(b.p, b.n);
        gy_buf_free(&b);
    } else if (text) {
        cli_put(text, bytes), cli_put("\n", 1);
    } else {
        code = cli_fail(a, &err);
    }
    gy_free(text), gy_free(ids), gy_free(list);
    gy_model_unref(m);
    return code;
}

int cmd_render(cli_args *a) {
    int code = EXIT_OK;
    gy_err err = {0};
    size_t bytes = 0, text_bytes = 0;
    char *text = NULL;
    gy_model *m = cli_open(a, &text_only, &code);
    if (!m) return code;
    if ((code = cli_words(a, 1))) return gy_model_unref(m), code;
    char *body = cli_read(a->words ? a->word[0] : NULL, &bytes, &err);
    if (body) gy_render(m, body, bytes, &text, &text_bytes, &err);
    if (text && a->json) {
        gy_buf b = {0};
        gy_buf_puts(&b, "{\"text\":");
        gy_buf_json(&b, text, text_bytes);
        gy_buf_puts(&b, "}\n");
        if (b.p) cli_put(b.p, b.n);
        gy_buf_free(&b);
    } else if (text) {
        cli_put(text, text_bytes);
    } else {
        code = cli_fail(a, &err);
    }
    gy_free(text), gy_free(body);
    gy_model_unref(m);
    return code;
}
