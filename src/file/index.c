#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file/table.h"

/* The index decides: its shards are opened and nothing else. A tensor that it names must lie in the
 * shard that it names; the same tensor in another shard is left out. A tensor that it does not name
 * is kept, because leaving out a bias in silence would change the model: binding then finds a role
 * for it or refuses. */

enum { MAX_INDEX = 100000000, MAX_SHARDS = 99999 };
static const char index_name[] = "model.safetensors.index.json";

typedef struct {
    const char *tensor, *shard;
} entry;

/* A name inside the directory: relative, no "..", no NUL. */
static bool inside(const gy_json *name) {
    const char *s = name->s;
    if (!name->n || memchr(s, 0, name->n) || *s == '/' || strchr(s, '\\')) return false;
    for (;;) {
        size_t n = strcspn(s, "/");
        if (n == 0 || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
            return false;
        if (!s[n]) return true;
        s += n + 1;
    }
}

static gy_rc check_map(const char *path, const gy_json *map, gy_err *err) {
    char tensor[64], shard[64];
    if (!gy_json_is(map, GY_JSON_OBJ))
        return gy_fail(err, GY_EFORMAT, "%s: weight_map is not there or not an object", path);
    for (uint32_t i = 0; i < map->n; i++) {
        const gy_json *v = &map->item[i];
        gy_err_quote(tensor, map->key[i].s, map->key[i].n);
        if (memchr(map->key[i].s, 0, map->key[i].n))
            return gy_fail(err, GY_EFORMAT, "%s: weight_map: tensor name \"%s\" holds a NUL", path,
                           tensor);
        if (!gy_json_is(v, GY_JSON_STR))
            return gy_fail(err, GY_EFORMAT, "%s: weight_map: shard of \"%s\" is not a string", path,
                           tensor);
        if (!inside(v))
            return gy_fail(err, GY_EFORMAT,
                           "%s: weight_map: path \"%s\" of \"%s\" leaves the directory", path,
                           gy_err_quote(shard, v->s, v->n), tensor);
    }
    return GY_OK;
}

static int by_shard(const void *a, const void *b) {
    return strcmp(((const entry *)a)->shard, ((const entry *)b)->shard);
}
static int by_tensor(const void *a, const void *b) {
    return strcmp(((const entry *)a)->tensor, ((const entry *)b)->tensor);
}

static gy_rc read_shard(gy_table *table, const char *dir, const char *shard, gy_err *err) {
    char *path = gy_arena_printf(&table->t.arena, "%s/%s", dir, shard);
    if (!path) return gy_fail(err, GY_ENOMEM, "%s: out of memory", dir);
    if (access(path, F_OK))
        return gy_fail(err, GY_ENOTFOUND, "%s: missing shard, the download may be incomplete",
                       path);
    return gy_table_read_safetensors(table, path, err);
}

/* entry is sorted by shard; file i of the table is the i-th different shard. */
static gy_rc read_shards(gy_table *table, const char *dir, const entry *e, uint32_t n,
                         gy_err *err) {
    for (uint32_t i = 0; i < n; i++) {
        if (i && !strcmp(e[i - 1].shard, e[i].shard)) continue;
        if (table->t.files == MAX_SHARDS)
            return gy_fail(err, GY_ELIMIT, "%s/%s: more than 99999 shards", dir, index_name);
        gy_rc rc = read_shard(table, dir, e[i].shard, err);
        if (rc) return rc;
    }
    return GY_OK;
}

static const char *shard_of(const gy_tensors *t, int file, const char *dir) {
    return t->file[file].path + strlen(dir) + 1;
}

/* Drops copies in shards other than the one named. Marks every entry that is found by clearing its
 * shard. */
static void keep_named(gy_tensors *t, const char *dir, entry *e, uint32_t n) {
    int kept = 0;
    for (int i = 0; i < t->n; i++) {
        entry key = {.tensor = t->at[i].name};
        entry *named = n ? bsearch(&key, e, n, sizeof *e, by_tensor) : NULL;
        if (named) {
            if (!named->shard || strcmp(named->shard, shard_of(t, t->at[i].file, dir))) continue;
            named->shard = NULL;
        }
        t->at[kept++] = t->at[i];
    }
    t->n = kept;
}

static gy_rc read_index(gy_table *table, const char *dir, const char *path, const gy_json *map,
                        gy_err *err) {
    gy_rc rc = check_map(path, map, err);
    if (rc) return rc;
    entry *e = gy_alloc_n(map->n, sizeof *e);
    if (!e) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    for (uint32_t i = 0; i < map->n; i++) e[i] = (entry){map->key[i].s, map->item[i].s};
    if (map->n) qsort(e, map->n, sizeof *e, by_shard);
    rc = read_shards(table, dir, e, map->n, err);
    if (!rc) {
        if (map->n) qsort(e, map->n, sizeof *e, by_tensor);
        keep_named(&table->t, dir, e, map->n);
        for (uint32_t i = 0; i < map->n && !rc; i++) {
            char name[64], shard[64];
            if (!e[i].shard) continue;
            rc = gy_fail(err, GY_EFORMAT, "%s: missing tensor: \"%s\" is not in shard \"%s\"", path,
                         gy_err_quote(name, e[i].tensor, strlen(e[i].tensor)),
                         gy_err_quote(shard, e[i].shard, strlen(e[i].shard)));
        }
    }
    gy_free(e);
    return rc;
}

static gy_rc open_index(gy_table *table, const char *dir, const char *path, gy_err *err) {
    gy_fmap map;
    gy_json_doc doc;
    gy_rc rc = gy_fmap_open(&map, path, err);
    if (rc) return rc;
    if (map.bytes > MAX_INDEX) {
        rc = gy_fail(err, GY_ELIMIT, "%s: %zu bytes, at most 100000000 expected", path, map.bytes);
    } else if ((rc = gy_json_parse_unique(&doc, (const char *)map.data, map.bytes, err))) {
        gy_fail_in(err, "%s", path);
    } else {
        rc = read_index(table, dir, path, gy_json_get(doc.root, "weight_map"), err);
        gy_json_free(&doc);
    }
    gy_fmap_close(&map);
    return rc;
}

/* ---- without an index ---- */

/* A lost index: model-00001-of-000NN.safetensors names the size of its set, so a whole set can be
 * told. Returns NN, 0 when there is no such file, -1 when files of different sets lie side by side.
 */
static int shard_set(const char *dir) {
    int set = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    for (struct dirent *f; (f = readdir(d));) {
        int no = 0, of = 0, end = 0;
        if (sscanf(f->d_name, "model-%5d-of-%5d.safetensors%n", &no, &of, &end) != 2 || !end ||
            f->d_name[end])
            continue;
        set = of < 1 || (set && set != of) ? -1 : of;
        if (set < 0) break;
    }
    closedir(d);
    return set;
}

static gy_rc open_unindexed(gy_table *table, const char *dir, gy_err *err) {
    char *single = gy_arena_printf(&table->t.arena, "%s/model.safetensors", dir);
    if (!single) return gy_fail(err, GY_ENOMEM, "%s: out of memory", dir);
    if (!access(single, F_OK)) return gy_table_read_safetensors(table, single, err);
    int set = shard_set(dir);
    if (set < 0)
        return gy_fail(err, GY_EFORMAT, "%s: shards of different sets and no %s to choose by", dir,
                       index_name);
    if (!set)
        return gy_fail(err, GY_ENOTFOUND, "%s: neither model.safetensors nor %s found", dir,
                       index_name);
    for (int i = 1; i <= set; i++) {
        char shard[64];
        snprintf(shard, sizeof shard, "model-%05d-of-%05d.safetensors", i, set);
        gy_rc rc = read_shard(table, dir, shard, err);
        if (rc) return rc;
    }
    return GY_OK;
}

gy_rc gy_tensors_open_dir(gy_tensors *t, const char *dir, gy_err *err) {
    gy_table table = {0};
    char *path = gy_arena_printf(&table.t.arena, "%s/%s", dir, index_name);
    gy_rc rc = path ? GY_OK : gy_fail(err, GY_ENOMEM, "%s: out of memory", dir);
    /* A link that leads nowhere is a broken index, not an absent one. */
    bool absent = path && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
    if (!rc) rc = absent ? open_unindexed(&table, dir, err) : open_index(&table, dir, path, err);
    if (!rc) rc = gy_table_finish(&table, err);
    if (rc) gy_tensors_close(&table.t);
    *t = table.t;
    return rc;
}
