/* rm, gc, devices: what is on this machine.
 *
 * rm and gc delete only below the Hugging Face cache and GYRE_HOME/models, print what they would
 * delete, and ask first unless --yes is given. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/mem.h"
#include "cli/common.h"

/* ---- Folders ---- */

enum { DEPTH = 16, FRESH_S = 3600 };

typedef bool (*visit_fn)(void *arg, const char *path, const struct stat *st);

/* Calls fn for everything below path, folders after what they hold; links are not followed. */
static bool walk(const char *path, int depth, visit_fn fn, void *arg) {
    struct stat st;
    if (lstat(path, &st)) return false;
    DIR *d = S_ISDIR(st.st_mode) && depth < DEPTH ? opendir(path) : NULL;
    bool ok = true;
    for (struct dirent *e; d && ok && (e = readdir(d));) {
        char *at = NULL;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        ok = asprintf(&at, "%s/%s", path, e->d_name) >= 0 && walk(at, depth + 1, fn, arg);
        free(at);
    }
    if (d) closedir(d);
    return ok && fn(arg, path, &st);
}

static bool add_size(void *arg, const char *path, const struct stat *st) {
    (void)path;
    if (S_ISREG(st->st_mode)) *(double *)arg += (double)st->st_size;
    return true;
}

static bool delete_one(void *arg, const char *path, const struct stat *st) {
    gy_err *err = arg;
    if (S_ISDIR(st->st_mode) ? rmdir(path) : unlink(path))
        return gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno)), false;
    return true;
}

/* ---- Plans ---- */

typedef struct {
    gy_buf list; /* paths, each followed by a NUL */
    double bytes;
    int n;
} doomed;

static void doom(doomed *d, const char *path) {
    gy_buf_add(&d->list, path, strlen(path) + 1);
    walk(path, 0, add_size, &d->bytes);
    d->n++;
}

/* Shows the plan, asks, deletes; an exit code. */
static int carry_out(const cli_args *a, const doomed *d) {
    gy_err err = {0};
    char size[32], reply[8] = "";
    if (d->list.oom) return EXIT_MEMORY;
    cli_bytes(size, d->bytes);
    const char *end = d->list.p + d->list.n;
    for (const char *s = d->list.p; s && s < end; s += strlen(s) + 1)
        fprintf(stderr, "delete %s\n", s);
    if (d->n && !a->yes) {
        if (!cli_tty(0)) return cli_usage(a, "stdin is no terminal to ask on; --yes deletes");
        fprintf(stderr, "%s will be freed. Delete? [y/N] ", size);
        if (!fgets(reply, sizeof reply, stdin) || (*reply != 'y' && *reply != 'Y')) {
            fprintf(stderr, "nothing deleted\n");
            return cli_signal() ? EXIT_INT : EXIT_FAIL;
        }
    }
    for (const char *s = d->list.p; s && s < end && !err.rc; s += strlen(s) + 1)
        walk(s, 0, delete_one, &err);
    if (err.rc) return cli_fail(a, &err);
    if (a->json)
        printf("{\"schema_version\":1,\"deleted\":%d,\"bytes\":%.0f}\n", d->n, d->bytes);
    else
        fprintf(stderr, d->n ? "%s freed\n" : "nothing to delete\n", size);
    return EXIT_OK;
}

/* Is path strictly below root? */
static bool below(const char *path, const char *root) {
    size_t n = strlen(root);
    return n > 1 && !strncmp(path, root, n) && path[n] == '/' && path[n + 1];
}

/* path with links above its last component resolved; malloc'd. */
static char *resolved(const char *path) {
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL, *out = NULL;
    if (!slash || !slash[1] || !strcmp(slash, "/..") || !strcmp(slash, "/.")) {
        free(copy);
        return realpath(path, NULL);
    }
    *slash = 0;
    char *folder = realpath(*copy ? copy : "/", NULL);
    if (folder && asprintf(&out, "%s/%s", folder, slash + 1) < 0) out = NULL;
    free(folder), free(copy);
    return out;
}

/* What deleting the model at path means: a repository of the cache, a file in one, or what lies in
 * GYRE_HOME/models. */
static bool plan_rm(const char *path, doomed *d) {
    gy_buf home_models = {0};
    char *home = gy_env(GY_ENV_HOME), *cache = gy_env(GY_ENV_HF_CACHE);
    gy_buf_printf(&home_models, "%s/models", home ? home : "");
    char *at = resolved(path), *hub = cache && *cache ? realpath(cache, NULL) : NULL,
         *mine = home_models.p ? realpath(home_models.p, NULL) : NULL;
    bool ok = true;
    if (at && hub && below(at, hub)) {
        struct stat st;
        char *repo_end = strchr(at + strlen(hub) + 1, '/');
        bool file = !lstat(at, &st) && !S_ISDIR(st.st_mode);
        if (repo_end && !file) *repo_end = 0;
        ok = !strncmp(at + strlen(hub) + 1, "models--", 8);
        if (ok) doom(d, at);
        if (ok && file) fprintf(stderr, "the file's bytes are freed by gyre gc\n");
    } else if (at && mine && below(at, mine)) {
        doom(d, at);
    } else {
        ok = false;
    }
    free(at), free(hub), free(mine);
    gy_free(home), gy_free(cache);
    gy_buf_free(&home_models);
    return ok;
}

int cmd_rm(cli_args *a) {
    gy_err err = {0};
    doomed d = {0};
    char *path = NULL;
    const char *name = cli_model_name(a);
    if (!name || cli_words(a, 0)) return EXIT_USAGE;
    if (gy_model_find(name, &path, &err)) return cli_fail(a, &err);
    int code = plan_rm(path, &d)
                   ? carry_out(a, &d)
                   : cli_usage(a, "%s is not in the cache nor in GYRE_HOME/models", path);
    gy_free(path);
    gy_buf_free(&d.list);
    return code;
}

/* ---- gc ---- */

typedef struct {
    gy_buf used; /* "/blob\n" of every link in snapshots */
    doomed *d;
    const char *blobs; /* folder whose files are judged */
    time_t now;
} sweep;

static bool note_link(void *arg, const char *path, const struct stat *st) {
    sweep *s = arg;
    char to[PATH_MAX];
    ssize_t n = S_ISLNK(st->st_mode) ? readlink(path, to, sizeof to - 1) : -1;
    if (n < 0) return true;
    to[n] = 0;
    const char *name = strrchr(to, '/');
    gy_buf_printf(&s->used, "/%s\n", name ? name + 1 : to);
    return true;
}

static bool judge_blob(void *arg, const char *path, const struct stat *st) {
    sweep *s = arg;
    char key[NAME_MAX + 4];
    const char *name = strrchr(path, '/') + 1;
    /* A download in progress has bytes that no link names yet. */
    if (!S_ISREG(st->st_mode) || s->now - st->st_mtime < FRESH_S) return true;
    snprintf(key, sizeof key, "/%s\n", name);
    if (!s->used.p || !strstr(s->used.p, key)) doom(s->d, path);
    return true;
}

int cmd_gc(cli_args *a) {
    char *hub = gy_env(GY_ENV_HF_CACHE);
    doomed d = {0};
    if (cli_words(a, 0)) return gy_free(hub), EXIT_USAGE;
    DIR *dir = hub && *hub ? opendir(hub) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *snapshots = NULL, *blobs = NULL;
        sweep s = {.d = &d, .now = time(NULL)};
        if (strncmp(e->d_name, "models--", 8)) continue;
        if (asprintf(&snapshots, "%s/%s/snapshots", hub, e->d_name) >= 0 &&
            asprintf(&blobs, "%s/%s/blobs", hub, e->d_name) >= 0) {
            walk(snapshots, 0, note_link, &s);
            if (!s.used.oom) walk(blobs, 0, judge_blob, &s);
        }
        free(snapshots), free(blobs);
        gy_buf_free(&s.used);
    }
    if (dir) closedir(dir);
    int code = carry_out(a, &d);
    gy_buf_free(&d.list);
    gy_free(hub);
    return code;
}

/* ---- devices ---- */

/* "model name : X" of /proc/cpuinfo, or "". */
static void cpu_name(char out[128]) {
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    *out = 0;
    while (f && !*out && fgets(line, sizeof line, f)) {
        char *colon = strncmp(line, "model name", 10) ? NULL : strchr(line, ':');
        if (colon) snprintf(out, 128, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (f) fclose(f);
}

int cmd_devices(cli_args *a) {
    char name[128], size[32];
    gy_buf b = {0};
    if (cli_words(a, 0)) return EXIT_USAGE;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    cpu_name(name);
    cli_bytes(size, memory);
    if (a->json) {
        gy_buf_puts(&b, "{\"schema_version\":1,\"devices\":[{\"backend\":\"cpu\",\"name\":");
        gy_buf_json(&b, name, strlen(name));
        gy_buf_printf(&b, ",\"isa\":\"%s\",\"cores\":%ld,\"memory_bytes\":%.0f}]}\n", gy_isa(),
                      cores, memory);
    } else {
        gy_buf_printf(&b, "cpu  %s, %s, %ld cores, %s\n", *name ? name : "unknown", gy_isa(), cores,
                      size);
    }
    if (b.p) cli_put(b.p, b.n);
    gy_buf_free(&b);
    return EXIT_OK;
}
