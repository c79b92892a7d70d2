#include "file/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fmap.h"

enum { MAX_JSON = 64 << 20, MAX_TEMPLATE = 4 << 20, MAX_PATH = 4096 };

static gy_rc join(char path[MAX_PATH], const char *dir, const char *file, gy_err *err) {
    int n = snprintf(path, MAX_PATH, "%s/%s", dir, file);
    if (n >= 0 && n < MAX_PATH) return GY_OK;
    return gy_fail(err, GY_ELIMIT, "%s: path longer than 4096 bytes", file);
}

/* A link that leads nowhere counts as there, so that reading it reports the broken download. */
static bool absent(const char *path) {
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) &&
           (errno == ENOENT || errno == ENOTDIR);
}

static gy_rc read_json(gy_json_doc *doc, const char *dir, const char *file, bool required,
                       gy_err *err) {
    char path[MAX_PATH], *text;
    size_t n;
    gy_rc rc = join(path, dir, file, err);
    if (rc) return rc;
    if (absent(path))
        return required ? gy_fail(err, GY_ENOTFOUND, "%s: no such file", path) : GY_OK;
    rc = gy_file_read(path, MAX_JSON, &text, &n, err);
    if (rc) return rc;
    rc = gy_json_parse(doc, text, n, err);
    gy_free(text);
    if (rc) return gy_fail_in(err, "%s", path), rc;
    if (gy_json_is(doc->root, GY_JSON_OBJ)) return GY_OK;
    return gy_fail(err, GY_EFORMAT, "%s: not a JSON object", path);
}

/* ---- chat templates ---- */

static gy_rc oom(gy_err *err) {
    return gy_fail(err, GY_ENOMEM, "out of memory for a chat template");
}

/* Takes source. A name that is there already gets the new source: files are read after the JSON
 * entry. */
static gy_rc put_template(gy_config *c, const char *name, size_t name_bytes, char *source,
                          gy_err *err) {
    char quoted[64];
    if (!source) return oom(err);
    if (name_bytes == 7 && !memcmp(name, "default", 7)) {
        gy_free(c->template_default);
        c->template_default = source;
        return GY_OK;
    }
    int i = 0;
    while (i < c->n_named && (strlen(c->template_named[i].name) != name_bytes ||
                              memcmp(c->template_named[i].name, name, name_bytes)))
        i++;
    if (i < c->n_named) {
        gy_free(c->template_named[i].source);
        c->template_named[i].source = source;
        return GY_OK;
    }
    char *copy = NULL;
    gy_rc rc = GY_OK;
    if (i == sizeof c->template_named / sizeof *c->template_named)
        rc = gy_fail(err, GY_ELIMIT, "chat template \"%s\": more than %d named templates",
                     gy_err_quote(quoted, name, name_bytes), i);
    else if (!(copy = gy_strndup(name, name_bytes)))
        rc = oom(err);
    if (rc) return gy_free(source), rc;
    c->template_named[i].name = copy, c->template_named[i].source = source;
    c->n_named++;
    return GY_OK;
}

static gy_rc take_string(gy_config *c, const char *file, const gy_json *name, const gy_json *text,
                         gy_err *err) {
    if (!gy_json_is(name, GY_JSON_STR) || !gy_json_is(text, GY_JSON_STR))
        return gy_fail(
            err, GY_EFORMAT,
            "%s: chat_template: every entry of the list needs a name and a template string", file);
    if (memchr(text->s, 0, text->n) || memchr(name->s, 0, name->n))
        return gy_fail(err, GY_EFORMAT, "%s: chat_template holds a NUL", file);
    return put_template(c, name->s, name->n, gy_strndup(text->s, text->n), err);
}

/* The member chat_template of a file: a string, or a list of {name, template}. */
static gy_rc take_entry(gy_config *c, const char *file, const gy_json *root, gy_err *err) {
    static const gy_json dflt = {.kind = GY_JSON_STR, .n = 7, .s = "default"};
    const gy_json *v = gy_json_get(root, "chat_template");
    if (gy_json_null(v)) return GY_OK;
    if (v->kind == GY_JSON_STR) return take_string(c, file, &dflt, v, err);
    if (v->kind != GY_JSON_ARR)
        return gy_fail(err, GY_EFORMAT, "%s: chat_template is neither a string nor a list", file);
    gy_rc rc = GY_OK;
    for (uint32_t i = 0; i < v->n && !rc; i++) {
        const gy_json *e = &v->item[i];
        rc = take_string(c, file, gy_json_get(e, "name"), gy_json_get(e, "template"), err);
    }
    return rc;
}

static gy_rc read_template(gy_config *c, const char *path, const char *name, size_t name_bytes,
                           gy_err *err) {
    char *text;
    size_t n;
    gy_rc rc = gy_file_read(path, MAX_TEMPLATE, &text, &n, err);
    if (rc) return rc;
    if (memchr(text, 0, n)) rc = gy_fail(err, GY_EFORMAT, "%s: chat template holds a NUL", path);
    if (rc) return gy_free(text), rc;
    return put_template(c, name, name_bytes, text, err);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* additional_chat_templates/NAME.jinja, in the order of their names whatever the directory's order.
 */
static gy_rc read_named_files(gy_config *c, const char *dir, gy_err *err) {
    char path[MAX_PATH], *name[64];
    int n = 0;
    gy_rc rc = join(path, dir, "additional_chat_templates", err);
    DIR *d = rc ? NULL : opendir(path);
    if (!d) return rc;
    for (struct dirent *f; !rc && (f = readdir(d));) {
        size_t k = strlen(f->d_name);
        if (k <= 6 || strcmp(f->d_name + k - 6, ".jinja")) continue;
        if (n == 64)
            rc = gy_fail(err, GY_ELIMIT, "%s: more than 64 files", path);
        else if (!(name[n] = gy_strndup(f->d_name, k)))
            rc = oom(err);
        else
            n++;
    }
    closedir(d);
    if (n) qsort(name, (size_t)n, sizeof *name, by_text);
    for (int i = 0; i < n; i++) {
        char file[MAX_PATH];
        if (!rc) rc = join(file, path, name[i], err);
        if (!rc) rc = read_template(c, file, name[i], strlen(name[i]) - 6, err);
        gy_free(name[i]);
    }
    return rc;
}

/* From the weakest source to the strongest, so that a later one replaces an earlier one. */
static gy_rc read_templates(gy_config *c, const char *dir, gy_err *err) {
    char path[MAX_PATH];
    gy_json_doc doc = {0};
    gy_rc rc = take_entry(c, "tokenizer_config.json", c->tokenizer.root, err);
    if (!rc) rc = read_json(&doc, dir, "chat_template.json", false, err);
    if (!rc) rc = take_entry(c, "chat_template.json", doc.root, err);
    gy_json_free(&doc);
    if (!rc) rc = read_named_files(c, dir, err);
    if (!rc) rc = join(path, dir, "chat_template.jinja", err);
    if (!rc && !absent(path)) rc = read_template(c, path, "default", 7, err);
    return rc;
}

/* ---- the directory ---- */

gy_rc gy_config_open(gy_config *c, const char *dir, bool text_only, gy_err *err) {
    *c = (gy_config){0};
    gy_rc rc = read_json(&c->config, dir, "config.json", !text_only, err);
    if (!rc && !text_only && (rc = gy_config_check(c->config.root, err)))
        gy_fail_in(err, "%s/config.json", dir);
    if (!rc) rc = read_json(&c->generation, dir, "generation_config.json", false, err);
    if (!rc) rc = read_json(&c->tokenizer, dir, "tokenizer_config.json", false, err);
    if (!rc) rc = read_json(&c->special, dir, "special_tokens_map.json", false, err);
    if (!rc) rc = read_templates(c, dir, err);
    if (rc) gy_config_close(c);
    return rc;
}

void gy_config_close(gy_config *c) {
    gy_json_free(&c->config);
    gy_json_free(&c->generation);
    gy_json_free(&c->tokenizer);
    gy_json_free(&c->special);
    gy_free(c->template_default);
    for (int i = 0; i < c->n_named; i++)
        gy_free(c->template_named[i].name), gy_free(c->template_named[i].source);
    *c = (gy_config){0};
}
