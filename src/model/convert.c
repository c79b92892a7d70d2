/* model/convert - see convert.h: what goes into the directory, and how it comes to be there whole.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/convert.h"
#include "model/gguf_map.h"

enum { MAX_PATH = 4096 };
static const uint64_t shard_limit = 5000000000u;

/* ---- Tensors of a GGUF file ---- */

/* True for a norm of a family that stores 1 + w in GGUF and w in MLX files. */
static bool is_minus1(const gy_desc *hf, const char *gguf_name) {
    static const char *const norms[] = {"attn_norm", "post_attention_norm", "ffn_norm",
                                        "post_ffw_norm"};
    const char *leaf = strrchr(gguf_name, '.'), *role = gguf_name;
    if (!leaf || strcmp(leaf, ".weight")) return false;
    for (const char *p = gguf_name; p < leaf; p++) role = *p == '.' ? p + 1 : role;
    size_t n = (size_t)(leaf - role);
    if (n == 11 && !memcmp(role, "output_norm", n)) return hf->norm == GY_NORM_RMS_PLUS1;
    if (n == 11 && (!memcmp(role, "attn_q_norm", n) || !memcmp(role, "attn_k_norm", n)))
        return hf->layer[0].mix.qk_norm_form == GY_NORM_RMS_PLUS1;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        if (n == strlen(norms[i]) && !memcmp(role, norms[i], n))
            return hf->norm == GY_NORM_RMS_PLUS1;
    }
    return false;
}

static bool dropped(const gy_model *m, const char *name) {
    for (int i = 0; i < m->n_dropped; i++) {
        if (!strcmp(m->dropped[i], name)) return true;
    }
    return false;
}

static gy_rc list_gguf(const gy_model *m, gy_arena *arena, gy_convert_list *list, gy_err *err) {
    const gy_tensors *t = &m->gguf.tensors;
    gy_desc hf = {0};
    gy_rc rc = gy_describe(m->cfg, &hf, err);
    if (rc) return rc;
    list->at = gy_arena_alloc(arena, ((size_t)t->n * 3 + 1) * sizeof *list->at);
    if (!list->at) rc = gy_fail(err, GY_ENOMEM, "out of memory");
    for (int i = 0; i < t->n && !rc; i++) {
        const gy_tensor *x = &t->at[i];
        char name[256], q[64];
        if (dropped(m, x->name)) continue;
        if (!gy_gguf_hf_name(&hf, x->name, name)) {
            rc = gy_fail(err, GY_EUNSUPPORTED,
                         "tensor %s has no name in an MLX checkpoint of this family",
                         gy_err_quote(q, x->name, strlen(x->name)));
        } else {
            rc = gy_convert_plan(list, arena, x, name, is_minus1(&hf, x->name), err);
        }
    }
    gy_desc_free(&hf);
    return rc;
}

/* ---- Configuration of a GGUF file ---- */

typedef struct {
    int bits;
    bool mx;
} form;

static bool form_of(const gy_convert_tensor *t, form *f) {
    *f = (form){t->bits, t->fill == GY_FILL_MX_CODES};
    return t->fill == GY_FILL_CODES || t->fill == GY_FILL_MX_CODES;
}

static void put_form(gy_buf *b, form f) {
    gy_buf_printf(b, "\"group_size\":32,\"bits\":%d,\"mode\":\"%s\"", f.bits,
                  f.mx ? "mxfp4" : "affine");
}

/* The commonest form at the top, an entry for every module of another. */
static void put_quantization(gy_buf *b, const gy_convert_list *list) {
    int best = 0;
    form top = {0}, f, g;
    for (int i = 0; i < list->n; i++) {
        int same = 0;
        if (!form_of(&list->at[i], &f)) continue;
        for (int k = i; k < list->n; k++)
            same += form_of(&list->at[k], &g) && g.bits == f.bits && g.mx == f.mx;
        if (same > best) best = same, top = f;
    }
    if (!best) return;
    gy_buf_puts(b, ",\n\"quantization\":{");
    put_form(b, top);
    for (int i = 0; i < list->n; i++) {
        const char *name = list->at[i].name;
        if (!form_of(&list->at[i], &f) || (f.bits == top.bits && f.mx == top.mx)) continue;
        gy_buf_puts(b, ",\n");
        gy_buf_json(b, name, strlen(name) - strlen(".weight"));
        gy_buf_puts(b, ":{");
        put_form(b, f);
        gy_buf_c(b, '}');
    }
    gy_buf_c(b, '}');
}

static gy_rc gguf_config(const gy_model *m, const gy_convert_list *list, const char *dir,
                         gy_err *err) {
    gy_buf b = {0}, g = {0};
    const gy_json *eos = gy_json_get(m->cfg, "eos_token_id");
    gy_buf_c(&b, '{');
    for (uint32_t i = 0; i < m->cfg->n; i++) {
        gy_buf_puts(&b, i ? ",\n" : "\n");
        gy_buf_json(&b, m->cfg->key[i].s, m->cfg->key[i].n);
        gy_buf_c(&b, ':');
        gy_json_write(&b, &m->cfg->item[i]);
    }
    /* Rows of q and k stay where they are, so that every sum keeps its order; neighbours rotate
     * together. */
    if (gy_gguf_permuted(&m->gguf)) gy_buf_puts(&b, ",\n\"rope_traditional\":true");
    put_quantization(&b, list);
    gy_buf_puts(&b, "}\n");
    gy_buf_puts(&g, "{");
    if (eos) gy_buf_puts(&g, "\"eos_token_id\":"), gy_json_write(&g, eos);
    gy_buf_puts(&g, "}\n");
    gy_rc rc = b.oom || g.oom ? gy_fail(err, GY_ENOMEM, "config.json: out of memory") : GY_OK;
    if (!rc) rc = gy_convert_text(dir, "config.json", b.p, b.n, err);
    if (!rc) rc = gy_convert_text(dir, "generation_config.json", g.p, g.n, err);
    gy_buf_free(&b);
    gy_buf_free(&g);
    return rc;
}

static bool plain_name(const char *s) {
    if (!*s) return false;
    for (; *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
        if (!letter && !(*s >= '0' && *s <= '9') && *s != '_' && *s != '-') return false;
    }
    return true;
}

static gy_rc gguf_templates(const gy_model *m, const char *dir, gy_err *err) {
    static const char key[] = "tokenizer.chat_template";
    size_t n = sizeof key - 1;
    gy_rc rc = GY_OK;
    for (int i = 0; i < m->gguf.n && !rc; i++) {
        const gy_gguf_kv *kv = &m->gguf.kv[i];
        char name[256] = "chat_template.jinja", sub[MAX_PATH];
        if (strncmp(kv->key, key, n) || kv->type != GY_GGUF_STR ||
            (kv->key[n] && kv->key[n] != '.'))
            continue;
        if (kv->key[n]) {
            if ((size_t)snprintf(sub, sizeof sub, "%s/additional_chat_templates", dir) >=
                sizeof sub)
                return gy_fail(err, GY_EARG, "%s: path is too long", dir);
            if (!plain_name(kv->key + n + 1) || strlen(kv->key) > 200)
                return gy_fail(err, GY_EUNSUPPORTED, "%.100s: the template's name is no file name",
                               kv->key);
            if (mkdir(sub, 0777) && errno != EEXIST)
                return gy_fail(err, GY_EIO, "%s: %s", sub, strerror(errno));
            snprintf(name, sizeof name, "additional_chat_templates/%s.jinja", kv->key + n + 1);
        }
        rc = gy_convert_text(dir, name, kv->str->s, (size_t)kv->str->n, err);
    }
    return rc;
}

/* ---- An MLX directory: the same tensors in new files, the texts as they are ---- */

static gy_rc list_dir(const gy_model *m, gy_arena *arena, gy_convert_list *list, gy_err *err) {
    const gy_tensors *t = &m->tensors;
    list->at = gy_arena_alloc(arena, ((size_t)t->n + 1) * sizeof *list->at);
    if (!list->at) return gy_fail(err, GY_ENOMEM, "out of memory");
    for (int i = 0; i < t->n; i++) {
        const gy_tensor *x = &t->at[i];
        gy_convert_tensor *o = &list->at[list->n++];
        if (x->type >= GY_T_OTHER)
            return gy_fail(err, GY_EUNSUPPORTED, "tensor %s: its type is not known", x->name);
        *o = (gy_convert_tensor){
            .name = x->name, .dtype = gy_ttype_name(x->type), .dims = x->dims, .src = x};
        memcpy(o->shape, x->shape, sizeof o->shape);
    }
    return GY_OK;
}

static bool is_text(const char *name) {
    static const char *const ends[] = {".json", ".jinja", ".txt", ".model"};
    size_t n = strlen(name);
    if (n > 11 && !strcmp(name + n - 11, ".index.json")) return false; /* of the source's shards */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t e = strlen(ends[i]);
        if (n > e && !strcmp(name + n - e, ends[i])) return true;
    }
    return false;
}

/* Copies the text files of from/sub (sub "": the directory itself). */
static gy_rc copy_texts(const char *from, const char *sub, const char *dir, gy_err *err) {
    char path[MAX_PATH], name[MAX_PATH];
    gy_rc rc = GY_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", from, sub) >= sizeof path)
        return gy_fail(err, GY_EARG, "%s: path is too long", from);
    DIR *d = opendir(path);
    if (!d)
        return *sub && errno == ENOENT ? GY_OK
                                       : gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno));
    for (struct dirent *e; !rc && (e = readdir(d));) {
        char *text;
        size_t n;
        if (!is_text(e->d_name)) continue;
        snprintf(name, sizeof name, "%s%s%s", sub, *sub ? "/" : "", e->d_name);
        if ((size_t)snprintf(path, sizeof path, "%s/%s", from, name) >= sizeof path) {
            rc = gy_fail(err, GY_EARG, "%s: path is too long", from);
            break;
        }
        rc = gy_file_read(path, (size_t)1 << 30, &text, &n, err);
        if (!rc && *sub) {
            snprintf(path, sizeof path, "%s/%s", dir, sub);
            if (mkdir(path, 0777) && errno != EEXIST)
                rc = gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno));
        }
        if (!rc) rc = gy_convert_text(dir, name, text, n, err), gy_free(text);
    }
    closedir(d);
    return rc;
}

/* ---- The directory ---- */

static bool is_ours(const char *name) {
    size_t n = strlen(name);
    return is_text(name) || !strcmp(name, "model.safetensors.index.json") ||
           (n > 12 && !strcmp(name + n - 12, ".safetensors"));
}

/* Removes a directory with what this module writes into one; other files stay, and with them the
 * directory. */
static void sweep(const char *dir) {
    char path[MAX_PATH];
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= sizeof path) continue;
        if (!strcmp(e->d_name, "additional_chat_templates")) {
            sweep(path);
        } else if (is_ours(e->d_name)) {
            unlink(path);
        }
    }
    closedir(d);
    rmdir(dir);
}

static gy_rc fill(const gy_model *m, const char *dir, uint64_t shard_bytes, gy_progress_fn progress,
                  void *arg, gy_err *err) {
    gy_arena arena = {0};
    gy_convert_list list = {0};
    gy_rc rc = m->is_gguf ? list_gguf(m, &arena, &list, err) : list_dir(m, &arena, &list, err);
    if (!rc && m->is_gguf) {
        rc = gguf_config(m, &list, dir, err);
        if (!rc && m->tok) rc = gy_convert_tokenizer(m, dir, err);
        if (!rc) rc = gguf_templates(m, dir, err);
    } else if (!rc) {
        rc = copy_texts(m->path, "", dir, err);
        if (!rc) rc = copy_texts(m->path, "additional_chat_templates", dir, err);
    }
    if (!rc) rc = gy_convert_write(dir, &list, shard_bytes, progress, arg, err);
    gy_arena_free(&arena);
    return rc;
}

gy_rc gy_convert_sharded(const char *source, const char *target, uint64_t shard_bytes,
                         gy_progress_fn progress, void *arg, gy_err *err) {
    char part[MAX_PATH];
    struct stat st;
    gy_model *m = NULL;
    if (err) *err = (gy_err){0};
    if (!source || !target || !*target)
        return gy_fail(err, GY_EARG, "gy_convert: source and target must be given");
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/') n--;
    if ((size_t)snprintf(part, sizeof part, "%.*s.part", (int)n, target) >= sizeof part)
        return gy_fail(err, GY_EARG, "%s: path is too long", target);
    if (!lstat(target, &st)) return gy_fail(err, GY_EARG, "%s is there already", target);
    gy_rc rc = gy_model_open(source, NULL, &m, err);
    if (rc) return rc;
    sweep(part); /* what an interrupted conversion left */
    if (mkdir(part, 0777)) rc = gy_fail(err, GY_EIO, "%s: %s", part, strerror(errno));
    if (!rc) {
        rc = fill(m, part, shard_bytes, progress, arg, err);
        if (!rc && rename(part, target))
            rc = gy_fail(err, GY_EIO, "%s: %s", target, strerror(errno));
        if (rc) sweep(part);
    }
    gy_model_unref(m);
    return rc;
}

gy_rc gy_convert(const char *source, const char *target, gy_progress_fn progress, void *arg,
                 gy_err *err) {
    return gy_convert_sharded(source, target, shard_limit, progress, arg, err);
}
