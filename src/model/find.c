/* model/find - which models are on this machine, and which one a word means (spec/serving.md 18.1).
 *
 *     HF cache/models--ORG--NAME/snapshots/COMMIT   -> "ORG/NAME", and "ORG/NAME:FILE" for each
 * GGUF file in it GYRE_HOME/models/NAME or ORG/NAME             -> its path below models, without
 * .gguf
 *
 * Everything found lives in one arena for the length of a call. Only names and sizes are looked at,
 * and the index of sharded checkpoints, to tell whole ones from those still arriving. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fmap.h"
#include "base/json.h"
#include "file/hub.h"

typedef struct {
    const char *id, *path, *revision; /* revision "" outside the cache */
    const char *missing;              /* first file that is not there, or NULL: complete */
    bool gguf;
    int64_t bytes;
} found;

typedef struct {
    gy_arena arena;
    found *at; /* [n] */
    int n, cap;
    bool oom;
} catalog;

static void catalog_free(catalog *c) {
    gy_free(c->at);
    gy_arena_free(&c->arena);
}

static void add(catalog *c, const found *f) {
    if (c->n == c->cap) {
        int cap = c->cap ? 2 * c->cap : 32;
        found *p = gy_realloc(c->at, (size_t)cap * sizeof *p);
        if (!p) c->oom = true;
        if (!p) return;
        c->at = p, c->cap = cap;
    }
    if (!f->id || !f->path || !f->revision)
        c->oom = true;
    else
        c->at[c->n++] = *f;
}

static bool ends(const char *s, const char *tail) {
    size_t n = strlen(s), t = strlen(tail);
    return n >= t && !strcmp(s + n - t, tail);
}

static bool is_dir(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool exists(catalog *c, const char *dir, const char *name) {
    char *path = gy_arena_printf(&c->arena, "%s/%s", dir, name);
    if (!path) c->oom = true;
    return path && !access(path, R_OK);
}

/* The entries of a folder, sorted, without those that start with a dot. */
static int entries(catalog *c, const char *dir, char ***names) {
    DIR *d = opendir(dir);
    int n = 0, cap = 0;
    char **out = NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (n == cap) {
            char **p = gy_realloc(out, (size_t)(cap = cap ? 2 * cap : 16) * sizeof *p);
            if (!p) c->oom = true;
            if (!p) break;
            out = p;
        }
        if (!(out[n] = gy_arena_strndup(&c->arena, e->d_name, strlen(e->d_name))))
            c->oom = true;
        else
            n++;
    }
    if (d) closedir(d);
    for (int i = 1; i < n;
         i++) /* folders of models are small: insertion keeps order stable and needs nothing */
        for (int k = i; k > 0 && strcmp(out[k - 1], out[k]) > 0; k--) {
            char *t = out[k];
            out[k] = out[k - 1], out[k - 1] = t;
        }
    *names = out;
    return n;
}

/* ---- Is it all there? ---- */

/* The first shard that the index names and the folder lacks; "" when the index cannot be read. */
static const char *missing_shard(catalog *c, const char *dir) {
    char *path = gy_arena_printf(&c->arena, "%s/model.safetensors.index.json", dir), *text = NULL;
    gy_json_doc doc = {0};
    size_t n;
    const char *missing = NULL;
    if (!path || gy_file_read(path, (size_t)256 << 20, &text, &n, NULL)) return "";
    const gy_json *map =
        gy_json_parse(&doc, text, n, NULL) ? NULL : gy_json_get(doc.root, "weight_map");
    if (!gy_json_is(map, GY_JSON_OBJ)) missing = "model.safetensors.index.json";
    for (uint32_t i = 0; !missing && i < map->n; i++) {
        const gy_json *shard = map->item + i;
        if (shard->kind != GY_JSON_STR)
            missing = "model.safetensors.index.json";
        else if (i && shard[-1].kind == GY_JSON_STR && !strcmp(shard->s, shard[-1].s))
            continue;
        else if (strstr(shard->s, "..") || !exists(c, dir, shard->s))
            missing = gy_arena_strndup(&c->arena, shard->s, shard->n);
    }
    gy_json_free(&doc), gy_free(text);
    return missing;
}

static const char *missing_part(catalog *c, const char *dir) {
    if (!exists(c, dir, "config.json")) return "config.json";
    if (exists(c, dir, "model.safetensors.index.json")) return missing_shard(c, dir);
    return exists(c, dir, "model.safetensors") ? NULL : "model.safetensors";
}

/* "X-00001-of-00003.gguf": which part of how many. A file alone is 1 of 1. */
static void gguf_part(const char *name, int *part, int *parts) {
    size_t n = strlen(name);
    *part = *parts = 1;
    if (n > 20 && sscanf(name + n - 20, "-%5d-of-%5d.gguf", part, parts) != 2) *part = *parts = 1;
}

static const char *missing_gguf(catalog *c, const char *dir, const char *name) {
    int part, parts;
    gguf_part(name, &part, &parts);
    for (int i = 2; i <= parts && i < 10000; i++) {
        char *other = gy_arena_printf(&c->arena, "%.*s-%05d-of-%05d.gguf", (int)(strlen(name) - 20),
                                      name, i, parts);
        if (!other) return c->oom = true, "";
        if (!exists(c, dir, other)) return other;
    }
    return NULL;
}

/* ---- Collecting ---- */

static int64_t size_of(catalog *c, const char *dir, const char *name) {
    struct stat st;
    char *path = gy_arena_printf(&c->arena, "%s/%s", dir, name);
    return path && !stat(path, &st) && S_ISREG(st.st_mode) ? st.st_size : 0;
}

/* Models of one folder: a directory checkpoint, GGUF files, or both. Returns how many. */
static int add_folder(catalog *c, const char *dir, const char *id, const char *revision) {
    char **name;
    int n = entries(c, dir, &name), before = c->n;
    int64_t bytes = 0;
    bool tensors = false, config = false;
    for (int i = 0; i < n; i++) {
        tensors |= ends(name[i], ".safetensors") || ends(name[i], ".safetensors.index.json");
        config |= !strcmp(name[i], "config.json") || !strcmp(name[i], "tokenizer.json");
        if (!ends(name[i], ".gguf")) bytes += size_of(c, dir, name[i]);
    }
    for (int i = 0; i < n; i++) {
        int part, parts;
        if (!ends(name[i], ".gguf")) continue;
        gguf_part(name[i], &part, &parts);
        if (part != 1) continue;
        int64_t all = 0;
        for (int k = 0; k < n; k++) /* parts share everything before their number */
            if (k == i || (parts > 1 && strlen(name[k]) == strlen(name[i]) &&
                           !strncmp(name[k], name[i], strlen(name[i]) - 20)))
                all += size_of(c, dir, name[k]);
        int stem = (int)strlen(name[i]) - 5;
        add(c, &(found){.id = *id ? gy_arena_printf(&c->arena, "%s%c%.*s", id,
                                                    *revision ? ':' : '/', stem, name[i])
                                  : gy_arena_printf(&c->arena, "%.*s", stem, name[i]),
                        .path = gy_arena_printf(&c->arena, "%s/%s", dir, name[i]),
                        .revision = revision,
                        .missing = missing_gguf(c, dir, name[i]),
                        .gguf = true,
                        .bytes = all});
    }
    if (*id && (config || tensors) && (tensors || c->n == before))
        add(c, &(found){.id = id,
                        .path = gy_arena_strndup(&c->arena, dir, strlen(dir)),
                        .revision = revision,
                        .missing = missing_part(c, dir),
                        .bytes = bytes});
    gy_free(name);
    return c->n - before;
}

/* The snapshot that refs/main names; without it, every snapshot. */
static void add_repository(catalog *c, const char *folder, const char *id) {
    gy_buf snapshot = {0};
    char **name, *snapshots = gy_arena_printf(&c->arena, "%s/snapshots", folder);
    if (gy_hub_snapshot(folder, "main", &snapshot) && snapshot.p) {
        const char *commit = strrchr(snapshot.p, '/');
        char *revision =
            commit ? gy_arena_strndup(&c->arena, commit + 1, strlen(commit + 1)) : NULL;
        if (revision && is_dir(snapshot.p)) add_folder(c, snapshot.p, id, revision);
        gy_buf_free(&snapshot);
        return;
    }
    gy_buf_free(&snapshot);
    int n = snapshots ? entries(c, snapshots, &name) : 0;
    for (int i = 0; i < n; i++) {
        char *dir = gy_arena_printf(&c->arena, "%s/%s", snapshots, name[i]);
        if (dir) add_folder(c, dir, id, name[i]);
    }
    if (snapshots) gy_free(name);
}

static void scan_cache(catalog *c, const char *cache) {
    char **name;
    int n = entries(c, cache, &name);
    for (int i = 0; i < n; i++) {
        if (strncmp(name[i], "models--", 8)) continue;
        char *folder = gy_arena_printf(&c->arena, "%s/%s", cache, name[i]);
        const char *rest = name[i] + 8, *cut = strstr(rest, "--");
        char *id = cut ? gy_arena_printf(&c->arena, "%.*s/%s", (int)(cut - rest), rest, cut + 2)
                       : gy_arena_strndup(&c->arena, rest, strlen(rest));
        if (folder && id)
            add_repository(c, folder, id);
        else
            c->oom = true;
    }
    gy_free(name);
}

/* Plain folders and files, at most two levels deep: NAME, ORG/NAME. */
static void scan_home(catalog *c, const char *dir, const char *prefix, int depth) {
    char **name;
    int n = entries(c, dir, &name);
    if (!depth) add_folder(c, dir, "", "");
    for (int i = 0; i < n; i++) {
        char *path = gy_arena_printf(&c->arena, "%s/%s", dir, name[i]);
        char *id = gy_arena_printf(&c->arena, "%s%s", prefix, name[i]);
        char *below = id ? gy_arena_printf(&c->arena, "%s/", id) : NULL;
        if (!path || !below)
            c->oom = true;
        else if (is_dir(path) && !add_folder(c, path, id, "") && !depth)
            scan_home(c, path, below, depth + 1);
    }
    gy_free(name);
}

static int by_id(const void *a, const void *b) {
    return strcmp(((const found *)a)->id, ((const found *)b)->id);
}

static gy_rc collect(catalog *c, gy_err *err) {
    char *cache = gy_env(GY_ENV_HF_CACHE), *home = gy_env(GY_ENV_HOME);
    char *models = home && *home ? gy_arena_printf(&c->arena, "%s/models", home) : NULL;
    if (!cache || !home) c->oom = true;
    if (cache && *cache) scan_cache(c, cache);
    if (models) scan_home(c, models, "", 0);
    gy_free(cache), gy_free(home);
    if (c->oom) return gy_fail(err, GY_ENOMEM, "listing models: out of memory");
    if (c->n) qsort(c->at, (size_t)c->n, sizeof *c->at, by_id);
    return GY_OK;
}

gy_rc gy_model_list(char **json, gy_err *err) {
    catalog c = {0};
    gy_buf b = {0};
    if (err) *err = (gy_err){0};
    gy_rc rc = collect(&c, err);
    gy_buf_c(&b, '[');
    for (int i = 0; !rc && i < c.n; i++) {
        const found *f = c.at + i;
        gy_buf_puts(&b, i ? ",{\"id\":" : "{\"id\":");
        gy_buf_json(&b, f->id, strlen(f->id));
        gy_buf_puts(&b, ",\"path\":");
        gy_buf_json(&b, f->path, strlen(f->path));
        gy_buf_printf(&b, ",\"format\":\"%s\",\"bytes\":%lld,\"complete\":%s,\"revision\":",
                      f->gguf ? "gguf" : "safetensors", (long long)f->bytes,
                      f->missing ? "false" : "true");
        gy_buf_json(&b, f->revision, strlen(f->revision));
        if (f->missing)
            gy_buf_puts(&b, ",\"missing\":"), gy_buf_json(&b, f->missing, strlen(f->missing));
        gy_buf_c(&b, '}');
    }
    gy_buf_c(&b, ']');
    char *text = rc ? NULL : gy_buf_take(&b, NULL);
    gy_buf_free(&b), catalog_free(&c);
    if (!rc && !text) rc = gy_fail(err, GY_ENOMEM, "listing models: out of memory");
    if (!rc) *json = text;
    return rc;
}

/* ---- Finding ---- */

static gy_rc give(const char *s, char **path, gy_err *err) {
    char *p = gy_strdup(s);
    if (!p) return gy_fail(err, GY_ENOMEM, "%s: out of memory", s);
    return *path = p, GY_OK;
}

static gy_rc give_found(const found *f, char **path, gy_err *err) {
    if (!f->missing) return give(f->path, path, err);
    if (!*f->revision)
        return gy_fail(err, GY_ENOTFOUND, "%s is incomplete: %s is missing", f->path, f->missing);
    return gy_fail(err, GY_ENOTFOUND,
                   "%s is incomplete: %s is missing in %s; fetch it again with gyre get", f->id,
                   f->missing, f->path);
}

/* Case-insensitive: does text hold part? */
static bool holds(const char *text, const char *part, size_t n) {
    for (; strlen(text) >= n; text++)
        if (!strncasecmp(text, part, n)) return true;
    return false;
}

/* A folder that is there: a checkpoint, or a home of exactly one GGUF file. id and revision ""
 * outside the cache. */
static gy_rc in_folder(catalog *c, const char *dir, const char *id, const char *revision,
                       const char *quant, char **path, gy_err *err) {
    size_t quant_bytes = strlen(quant);
    const found *one = NULL;
    int ggufs = 0;
    add_folder(c, dir, *id ? id : dir, revision);
    if (c->oom) return gy_fail(err, GY_ENOMEM, "%s: out of memory", dir);
    for (int i = 0; i < c->n; i++) {
        const found *f = c->at + i;
        const char *file = strrchr(f->path, '/');
        /* In the cache a missing part means a download that has not ended. A folder that the user
         * names is opened as it is: whoever opens it says what it lacks, if that is needed. */
        if (!f->gguf && !quant_bytes)
            return f->missing && *revision ? give_found(f, path, err) : give(dir, path, err);
        if (!f->gguf || (quant_bytes && !holds(file ? file : f->path, quant, quant_bytes)))
            continue;
        one = f, ggufs++;
    }
    if (ggufs == 1) return give_found(one, path, err);
    if (ggufs)
        return gy_fail(err, GY_ENOTFOUND, "%s holds %d GGUF files that fit: name one of them", dir,
                       ggufs);
    return gy_fail(err, GY_ENOTFOUND,
                   "%s is no model: no config.json with safetensors, and no fitting .gguf file",
                   dir);
}

/* "org/name", "org/name@revision", "org/name:quant" in the cache; *tried says that the repository
 * is there. */
static gy_rc in_cache(catalog *c, const char *name, bool *tried, char **path, gy_err *err) {
    size_t repo = strcspn(name, "@:");
    const char *revision = name[repo] == '@' ? name + repo + 1 : "main",
               *quant = name[repo] == ':' ? name + repo + 1 : "";
    char *cache = gy_env(GY_ENV_HF_CACHE);
    gy_buf folder = {0}, snapshot = {0};
    gy_rc rc = GY_OK;
    *tried = cache && *cache && memchr(name, '/', repo) &&
             gy_hub_folder(cache, name, repo, &folder) && folder.p && is_dir(folder.p);
    if (*tried && gy_hub_snapshot(folder.p, revision, &snapshot) && snapshot.p &&
        is_dir(snapshot.p)) {
        const char *commit = strrchr(snapshot.p, '/') + 1;
        char *id = gy_arena_strndup(&c->arena, name, repo);
        rc = id ? in_folder(c, snapshot.p, id, commit, quant, path, err)
                : gy_fail(err, GY_ENOMEM, "out of memory");
    } else if (*tried && name[repo] == '@') {
        rc = gy_fail(err, GY_ENOTFOUND, "revision %s of %.*s is not in %s", revision, (int)repo,
                     name, cache);
    } else {
        *tried = false;
    }
    gy_buf_free(&folder), gy_buf_free(&snapshot), gy_free(cache);
    return rc;
}

/* A whole id or its last part beats a mere substring. */
static int closeness(const char *id, const char *name) {
    const char *last = strrchr(id, '/');
    if (!strcasecmp(id, name)) return 3;
    if (last && !strcasecmp(last + 1, name)) return 2;
    return holds(id, name, strlen(name)) ? 1 : 0;
}

static gy_rc by_part(catalog *c, const char *name, char **path, gy_err *err) {
    const found *hit = NULL;
    int best = 0, hits = 0;
    gy_buf list = {0};
    char quoted[64];
    for (int i = 0; i < c->n; i++) {
        int close = closeness(c->at[i].id, name);
        if (!close || close < best) continue;
        if (close > best) best = close, hits = 0;
        hit = c->at + i, hits++;
    }
    if (hits == 1) return give_found(hit, path, err);
    for (int i = 0; i < c->n; i++)
        if (!hits || closeness(c->at[i].id, name) == best)
            gy_buf_printf(&list, "%s%s", list.n ? ", " : "", c->at[i].id);
    gy_err_quote(quoted, name, strlen(name));
    gy_rc rc =
        hits   ? gy_fail(err, GY_ENOTFOUND, "\"%s\" fits %d models: %s", quoted, hits, list.p)
        : c->n ? gy_fail(err, GY_ENOTFOUND, "no model \"%s\"; these are here: %s", quoted, list.p)
               : gy_fail(err, GY_ENOTFOUND,
                         "no model \"%s\", and no models are on this machine; gyre get ORG/NAME "
                         "fetches one",
                         quoted);
    gy_buf_free(&list);
    return rc;
}

gy_rc gy_model_find(const char *name, char **path, gy_err *err) {
    catalog c = {0};
    struct stat st;
    bool tried = false;
    gy_rc rc;
    if (err) *err = (gy_err){0};
    if (!name || !*name) return gy_fail(err, GY_EARG, "the model's name is empty");
    if (!stat(name, &st)) {
        rc = S_ISDIR(st.st_mode) ? in_folder(&c, name, "", "", "", path, err)
                                 : give(name, path, err);
    } else if (!(rc = in_cache(&c, name, &tried, path, err)) && !tried) {
        c.n = 0;
        if (!(rc = collect(&c, err))) rc = by_part(&c, name, path, err);
    }
    catalog_free(&c);
    return rc;
}
