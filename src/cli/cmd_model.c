/* ls, inspect, convert, get: checkpoints on disk. */
#include "base/json.h"
#include "cli/common.h"

int cmd_ls(cli_args *a) {
    gy_err err = {0};
    char *json = NULL;
    gy_json_doc doc = {0};
    if (cli_words(a, 0)) return EXIT_USAGE;
    if (gy_model_list(&json, &err)) return cli_fail(a, &err);
    if (a->json) {
        cli_put(json, strlen(json)), cli_put("\n", 1);
    } else if (!gy_json_parse(&doc, json, strlen(json), &err)) {
        for (uint32_t i = 0; i < doc.root->n; i++) {
            const gy_json *m = doc.root->item + i;
            char size[32];
            cli_bytes(size, gy_json_f(m, "bytes", 0));
            printf("%-50s %-12s %10s%s\n", gy_json_s(m, "id", "?"), gy_json_s(m, "format", "?"),
                   size, gy_json_b(m, "complete", true) ? "" : "  incomplete");
        }
        if (!doc.root->n && !a->quiet)
            fprintf(stderr, "no local models; gyre get ORG/NAME fetches one\n");
    }
    gy_json_free(&doc);
    gy_free(json);
    return err.rc ? cli_fail(a, &err) : EXIT_OK;
}

static void show_value(const char *name, const gy_json *v) {
    gy_buf b = {0};
    if (gy_json_null(v) || v->kind == GY_JSON_ARR || v->kind == GY_JSON_OBJ) return;
    if (v->kind == GY_JSON_STR)
        gy_buf_add(&b, v->s, v->n);
    else
        gy_json_write(&b, v);
    printf("%-22s %s\n", name, b.p ? b.p : "");
    gy_buf_free(&b);
}

static void show(const cli_args *a, const gy_json *root) {
    for (uint32_t i = 0; i < root->n; i++)
        if (strcmp(root->key[i].s, "chat_template")) show_value(root->key[i].s, root->item + i);
    const gy_json *kv = gy_json_get(root, "kv_bytes_per_token"),
                  *files = gy_json_get(root, "files");
    const gy_json *drop = gy_json_get(root, "dropped"), *tensors = gy_json_get(root, "tensors");
    for (uint32_t i = 0; gy_json_is(files, GY_JSON_ARR) && i < files->n; i++) {
        char size[32];
        cli_bytes(size, gy_json_f(files->item + i, "bytes", 0));
        printf("%-22s %s (%s)\n", "file", gy_json_s(files->item + i, "path", "?"), size);
    }
    for (uint32_t i = 0; gy_json_is(kv, GY_JSON_OBJ) && i < kv->n; i++) {
        int64_t window = gy_json_i(kv->item + i, "window", 0);
        printf("%-22s %s: %lld", "kv bytes per token", kv->key[i].s,
               (long long)gy_json_i(kv->item + i, "all", 0));
        if (window)
            printf(" + %lld in windows of %lld", (long long)window,
                   (long long)gy_json_i(kv->item + i, "longest_window", 0));
        printf("\n");
    }
    for (uint32_t i = 0; gy_json_is(drop, GY_JSON_ARR) && i < drop->n; i++)
        printf("%-22s %s\n", "not used", drop->item[i].kind == GY_JSON_STR ? drop->item[i].s : "?");
    for (uint32_t i = 0; a->tensors && gy_json_is(tensors, GY_JSON_ARR) && i < tensors->n; i++) {
        const gy_json *t = tensors->item + i;
        gy_buf shape = {0};
        gy_json_write(&shape, gy_json_get(t, "shape"));
        printf("%-56s %-18s %s\n", gy_json_s(t, "name", "?"), gy_json_s(t, "type", "?"),
               shape.p ? shape.p : "");
        gy_buf_free(&shape);
    }
    if (a->template_text) printf("%s\n", gy_json_s(root, "chat_template", "(no chat template)"));
}

int cmd_inspect(cli_args *a) {
    int code = EXIT_OK;
    gy_err err = {0};
    char *json = NULL;
    gy_json_doc doc = {0};
    gy_model *m = cli_open(a, NULL, &code);
    if (!m) return code;
    if ((code = cli_words(a, 0))) return gy_model_unref(m), code;
    if (!gy_model_inspect(m, &json, &err)) {
        if (a->json)
            cli_put(json, strlen(json)), cli_put("\n", 1);
        else if (!gy_json_parse(&doc, json, strlen(json), &err))
            show(a, doc.root);
    }
    if (err.rc) code = cli_fail(a, &err);
    gy_json_free(&doc);
    gy_free(json);
    gy_model_unref(m);
    return code;
}

/* {"path":..} with --json, else the path alone where plain asks for it. */
static void put_path(const cli_args *a, const char *path, bool plain) {
    gy_buf b = {0};
    if (a->json) {
        gy_buf_puts(&b, "{\"schema_version\":1,\"path\":");
        gy_buf_json(&b, path, strlen(path));
        gy_buf_puts(&b, "}\n");
    } else if (plain) {
        gy_buf_printf(&b, "%s\n", path);
    }
    if (b.n) cli_put(b.p, b.n);
    gy_buf_free(&b);
}

int cmd_convert(cli_args *a) {
    gy_err err = {0};
    cli_bar bar = {.title = "convert", .quiet = a->quiet};
    char *path = NULL;
    if (!a->words || !a->out) return cli_usage(a, "SOURCE and --out are needed");
    if (cli_words(a, 1)) return EXIT_USAGE;
    if (!gy_model_find(a->word[0], &path, &err)) gy_convert(path, a->out, cli_progress, &bar, &err);
    cli_progress_end(&bar);
    gy_free(path);
    if (err.rc) return cli_fail(a, &err);
    put_path(a, a->out, false);
    return EXIT_OK;
}

/* --url: one file, resumed and checked. */
static int get_url(cli_args *a) {
    gy_err err = {0};
    if (!a->out) return cli_usage(a, "--url needs --out FILE");
    gy_rc rc = gy_get_url(a->url, a->out, a->sha256, &a->get, &err);
    cli_progress_end(a->get.arg);
    if (rc) return cli_fail(a, &err);
    put_path(a, a->out, true);
    return EXIT_OK;
}

int cmd_get(cli_args *a) {
    gy_err err = {0};
    char *path = NULL;
    cli_bar bar = {.title = "get", .quiet = a->quiet};
    a->get.progress = cli_progress, a->get.arg = &bar;
    if (a->url) return get_url(a);
    if (!a->words) return cli_usage(a, "REPO (org/name) or --url is needed");
    if (cli_words(a, 1)) return EXIT_USAGE;
    gy_rc rc = gy_get(a->word[0], &a->get, &path, &err);
    cli_progress_end(&bar);
    if (rc) return cli_fail(a, &err);
    put_path(a, path, true);
    gy_free(path);
    return EXIT_OK;
}
