#include "file/hub.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fmap.h"
#include "base/json.h"

static bool safe_part(const char *s, size_t n) {
    if (!n || n > 200 || s[0] == '.') return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("-_.+", s[i])) return false;
    return true;
}

/* A repository file's name: relative, no empty or dotted part. */
static bool safe_name(const char *s) {
    size_t all = strlen(s);
    if (!all || all > 512) return false;
    for (;;) {
        size_t n = strcspn(s, "/");
        if (!n || s[0] == '.') return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)s[i] < 32 || s[i] == '\\') return false;
        if (!s[n]) return true;
        s += n + 1;
    }
}

static bool is_hex(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isxdigit((unsigned char)s[i])) return false;
    return strlen(s) == n;
}

bool gy_hub_folder(const char *cache, const char *repo, size_t n, gy_buf *path) {
    const char *slash = memchr(repo, '/', n);
    if (!slash || !safe_part(repo, (size_t)(slash - repo)) ||
        !safe_part(slash + 1, n - (size_t)(slash + 1 - repo)))
        return false;
    gy_buf_printf(path, "%s/models--%.*s--%.*s", cache, (int)(slash - repo), repo,
                  (int)(n - (size_t)(slash + 1 - repo)), slash + 1);
    return path->p != NULL;
}

bool gy_hub_snapshot(const char *folder, const char *revision, gy_buf *path) {
    char *commit = NULL;
    size_t n = 0;
    gy_buf ref = {0};
    bool found = false;
    if (!safe_name(revision)) return false;
    gy_buf_printf(&ref, "%s/refs/%s", folder, revision);
    if (ref.p && !gy_file_read(ref.p, 4096, &commit, &n, NULL)) {
        n = strcspn(commit, " \r\n");
        commit[n] = 0;
    }
    const char *name = commit && safe_part(commit, n) ? commit : revision;
    size_t start = path->n;
    gy_buf_printf(path, "%s/snapshots/%s", folder, name);
    found = path->p && !access(path->p, F_OK);
    if (!found) path->n = start;
    gy_free(commit);
    gy_buf_free(&ref);
    return found;
}

/* ---- gy_get ---- */

typedef struct {
    const gy_get_options *o;
    char *cache, *endpoint, *token; /* resolved */
    const char *repo, *quant;       /* quant: text after ':' or NULL */
    size_t repo_bytes;
    const char *revision;
    gy_buf folder, snapshot;
    gy_json_doc doc;
} get;

/* What gyre reads, at the top of the repository: others keep a second copy of the weights beside it
 * (consolidated.safetensors, original/, onnx/), as large as the first. */
static const char default_include[] =
    "model*.safetensors,model*.safetensors.index.json,config.json,generation_config.json,"
    "tokenizer.json,tokenizer_config.json,special_tokens_map.json,chat_template.jinja,"
    "chat_template.json,additional_chat_templates/*.jinja,kv_config.json,adapter_config.json,"
    "adapters.safetensors";

static bool any_glob(const char *globs, const char *name, int flags) {
    char one[256];
    for (const char *s = globs; s && *s; s += strcspn(s, ","), s += *s == ',') {
        size_t n = strcspn(s, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, s);
        if (n && n < sizeof one && !fnmatch(one, name, FNM_CASEFOLD | flags)) return true;
    }
    return false;
}

/* Adds text with what may not stand in a URL's path as %XX; '/' stays if slash. */
static void put_escaped(gy_buf *url, const char *text, bool slash) {
    for (const char *s = text; *s; s++) {
        if (isalnum((unsigned char)*s) || strchr("-._~", *s) || (slash && *s == '/'))
            gy_buf_c(url, *s);
        else
            gy_buf_printf(url, "%%%02X", (unsigned char)*s);
    }
}

static const char *file_name(const gy_json *sibling) {
    return gy_json_s(sibling, "rfilename", "");
}

/* The globs in force: the user's; *QUANT*.gguf; what a checkpoint needs; or for a GGUF-only
 * repository one quantisation. */
static gy_rc choose(const get *g, const gy_json *files, char include[256], gy_err *err) {
    int tensors = 0, ggufs = 0, q4km = 0;
    for (uint32_t i = 0; i < files->n; i++) {
        const char *name = file_name(files->item + i);
        tensors += !fnmatch("model*.safetensors", name, FNM_PATHNAME),
            ggufs += !fnmatch("*.gguf", name, FNM_CASEFOLD);
        q4km += !fnmatch("*Q4_K_M*.gguf", name, FNM_CASEFOLD);
    }
    if (g->quant) return snprintf(include, 256, "*%.100s*.gguf", g->quant), GY_OK;
    if (tensors || !ggufs) return include[0] = 0, GY_OK;
    if (ggufs > 1 && !q4km)
        return gy_fail(err, GY_EARG,
                       "%.*s: it holds %d GGUF files; name one as %.*s:QUANT or by --include",
                       (int)g->repo_bytes, g->repo, ggufs, (int)g->repo_bytes, g->repo);
    return snprintf(include, 256, "%s", ggufs > 1 ? "*Q4_K_M*.gguf" : "*.gguf"), GY_OK;
}

static gy_rc link_blob(const char *link, const char *etag, int depth, gy_err *err) {
    gy_buf target = {0};
    for (int i = 0; i < depth; i++) gy_buf_puts(&target, "../");
    gy_buf_printf(&target, "../../blobs/%s", etag);
    gy_rc rc = gy_file_parents(link, err);
    if (!rc) remove(link);
    if (!rc && (!target.p || symlink(target.p, link)))
        rc = gy_fail(err, GY_EIO, "%s: %s", link, strerror(errno));
    gy_buf_free(&target);
    return rc;
}

/* Waits for another process that writes the same blob; -1 when locks do not work here, which is not
 * an error. */
static int lock(const get *g, const char *etag) {
    gy_buf path = {0};
    gy_buf_printf(&path, "%s/.locks/%s/%s.lock", g->cache, strrchr(g->folder.p, '/') + 1, etag);
    int fd = -1;
    if (path.p && !gy_file_parents(path.p, NULL))
        fd = open(path.p, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0) flock(fd, LOCK_EX);
    gy_buf_free(&path);
    return fd;
}

static bool intact(const gy_fetch *f, bool rehash) {
    struct stat st;
    char hex[65];
    if (stat(f->file, &st) || (f->size >= 0 && st.st_size != f->size)) return false;
    if (!rehash || (!f->sha256 && !f->git_sha1)) return true;
    return !gy_fetch_digest(f->file, !f->sha256, hex, NULL) &&
           !strcasecmp(hex, f->sha256 ? f->sha256 : f->git_sha1);
}

static gy_rc get_file(get *g, const gy_json *sibling, gy_err *err) {
    const char *name = file_name(sibling), *commit = gy_json_s(g->doc.root, "sha", "");
    const gy_json *lfs = gy_json_get(sibling, "lfs");
    if (gy_json_null(lfs)) lfs = NULL; /* null and absent mean the same */
    const char *sha256 = gy_json_s(lfs, "sha256", NULL),
               *git = lfs ? NULL : gy_json_s(sibling, "blobId", NULL),
               *etag = sha256 ? sha256 : git;
    int depth = 0, fd = -1;
    gy_buf url = {0}, blob = {0}, link = {0};
    gy_rc rc = GY_OK;
    if ((sha256 && !is_hex(sha256, 64)) || (git && !is_hex(git, 40)))
        return gy_fail(err, GY_EFORMAT, "%s: digest is not hexadecimal", name);
    if (!g->o->local_dir && !etag)
        return gy_fail(err, GY_EFORMAT, "%s: the server names no digest for it", name);
    for (const char *s = name; *s; s++) depth += *s == '/';
    gy_buf_printf(&url, "%s/%.*s/resolve/%s/", g->endpoint, (int)g->repo_bytes, g->repo, commit);
    put_escaped(&url, name, true);
    if (g->o->local_dir)
        gy_buf_printf(&blob, "%s/%s", g->o->local_dir, name);
    else
        gy_buf_printf(&blob, "%s/blobs/%s", g->folder.p, etag),
            gy_buf_printf(&link, "%s/%s", g->snapshot.p, name);
    gy_fetch f = {.url = url.p,
                  .token = g->token,
                  .file = blob.p,
                  .sha256 = sha256,
                  .git_sha1 = git,
                  .label = name,
                  .size = gy_json_i(lfs ? lfs : sibling, "size", -1),
                  .progress = g->o->progress,
                  .arg = g->o->arg};
    if (!url.p || !blob.p) rc = gy_fail(err, GY_ENOMEM, "%s: out of memory", name);
    if (!rc) rc = gy_file_parents(blob.p, err);
    if (!rc && !g->o->local_dir) fd = lock(g, etag);
    if (!rc && !intact(&f, g->o->verify || g->o->local_dir)) rc = gy_fetch_run(&f, err);
    if (fd >= 0) close(fd);
    if (!rc && !g->o->local_dir) rc = link_blob(link.p, etag, depth, err);
    gy_buf_free(&url), gy_buf_free(&blob), gy_buf_free(&link);
    return rc;
}

static gy_rc write_ref(const get *g, const char *commit, gy_err *err) {
    gy_buf path = {0}, part = {0};
    gy_buf_printf(&path, "%s/refs/%s", g->folder.p, g->revision);
    gy_buf_printf(&part, "%s.%d", path.p ? path.p : "", (int)getpid());
    gy_rc rc = path.p && part.p ? gy_file_parents(path.p, err)
                                : gy_fail(err, GY_ENOMEM, "refs: out of memory");
    FILE *f = rc ? NULL : fopen(part.p, "w");
    if (!rc && (!f || fputs(commit, f) < 0))
        rc = gy_fail(err, GY_EIO, "%s: %s", part.p, strerror(errno));
    if (f && fclose(f) && !rc) rc = gy_fail(err, GY_EIO, "%s: %s", part.p, strerror(errno));
    if (!rc && rename(part.p, path.p)) rc = gy_fail(err, GY_EIO, "%s: %s", path.p, strerror(errno));
    gy_buf_free(&path), gy_buf_free(&part);
    return rc;
}

/* Asks the hub what the revision holds; fills g->doc and g->snapshot. */
static gy_rc ask_hub(get *g, gy_err *err) {
    gy_buf url = {0}, text = {0};
    gy_buf_printf(&url, "%s/api/models/%.*s/revision/", g->endpoint, (int)g->repo_bytes, g->repo);
    put_escaped(&url, g->revision, false);
    gy_buf_puts(&url, "?blobs=true");
    gy_fetch f = {
        .url = url.p, .token = g->token, .text = &text, .size = -1, .label = "repository"};
    gy_rc rc = url.p ? gy_fetch_run(&f, err) : gy_fail(err, GY_ENOMEM, "get: out of memory");
    if (!rc) rc = gy_json_parse(&g->doc, text.p ? text.p : "", text.n, err);
    if (rc) gy_fail_in(err, "%s", url.p ? url.p : "get");
    const char *commit = gy_json_s(g->doc.root, "sha", "");
    if (!rc && (!safe_part(commit, strlen(commit)) ||
                !gy_json_is(gy_json_get(g->doc.root, "siblings"), GY_JSON_ARR)))
        rc = gy_fail(err, GY_EFORMAT, "%s: expected an object with sha and siblings", url.p);
    if (!rc) gy_buf_printf(&g->snapshot, "%s/snapshots/%s", g->folder.p, commit);
    gy_buf_free(&url), gy_buf_free(&text);
    return rc;
}

static gy_rc get_all(get *g, gy_err *err) {
    char include[256];
    int taken = 0;
    gy_rc rc = ask_hub(g, err);
    if (rc) return rc;
    const gy_json *files = gy_json_get(g->doc.root, "siblings");
    rc = choose(g, files, include, err);
    bool usual = !g->o->include && !*include;
    const char *globs = g->o->include ? g->o->include : usual ? default_include : include;
    for (uint32_t i = 0; !rc && i < files->n; i++) {
        const char *name = file_name(files->item + i);
        if (!any_glob(globs, name, usual ? FNM_PATHNAME : 0) || any_glob(g->o->exclude, name, 0))
            continue;
        if (!safe_name(name))
            return gy_fail(err, GY_EFORMAT, "repository: it names a file outside itself");
        rc = get_file(g, files->item + i, err), taken++;
    }
    if (!rc && !taken)
        rc = gy_fail(err, GY_ENOTFOUND, "%.*s: no file matches %s", (int)g->repo_bytes, g->repo,
                     globs);
    if (!rc && !g->o->local_dir) rc = write_ref(g, gy_json_s(g->doc.root, "sha", ""), err);
    return rc;
}

static gy_rc start(get *g, const char *repo, gy_err *err) {
    const char *colon = strchr(repo, ':'), *at = strchr(repo, '@');
    char q[64];
    g->repo = repo, g->repo_bytes = strcspn(repo, ":@");
    g->quant = colon ? colon + 1 : NULL;
    g->revision = at ? at + 1 : g->o->revision ? g->o->revision : "main";
    g->cache = gy_env(GY_ENV_HF_CACHE);
    g->endpoint = g->o->endpoint ? gy_strdup(g->o->endpoint) : gy_env(GY_ENV_HF_ENDPOINT);
    g->token = g->o->token ? gy_strdup(g->o->token) : gy_env(GY_ENV_HF_TOKEN);
    if (!g->cache || !g->endpoint || !g->token)
        return gy_fail(err, GY_ENOMEM, "get: out of memory");
    if (!safe_name(g->revision))
        return gy_fail(err, GY_EARG, "revision: '%s' is not a name",
                       gy_err_quote(q, g->revision, strlen(g->revision)));
    if (!gy_hub_folder(g->cache, repo, g->repo_bytes, &g->folder))
        return gy_fail(err, GY_EARG, "repository: '%s' is not of the form org/name",
                       gy_err_quote(q, repo, strlen(repo)));
    return GY_OK;
}

gy_rc gy_get(const char *repo, const gy_get_options *options, char **path, gy_err *err) {
    static const gy_get_options none;
    get g = {.o = options ? options : &none};
    if (err) *err = (gy_err){0};
    gy_rc rc = start(&g, repo, err);
    char *offline = gy_env(GY_ENV_HF_OFFLINE);
    if (!rc && (g.o->offline || (offline && *offline == '1'))) {
        if (!gy_hub_snapshot(g.folder.p, g.revision, &g.snapshot))
            rc = gy_fail(err, GY_ENOTFOUND, "%s: not in the cache, and offline is asked for", repo);
    } else if (!rc) {
        rc = get_all(&g, err);
    }
    if (!rc) {
        char *p = g.o->local_dir ? gy_strdup(g.o->local_dir) : gy_buf_take(&g.snapshot, NULL);
        if (p)
            *path = p;
        else
            rc = gy_fail(err, GY_ENOMEM, "get: out of memory");
    }
    gy_free(offline), gy_free(g.cache), gy_free(g.endpoint), gy_free(g.token);
    gy_buf_free(&g.folder), gy_buf_free(&g.snapshot);
    gy_json_free(&g.doc);
    return rc;
}

gy_rc gy_get_url(const char *url, const char *file, const char *sha256,
                 const gy_get_options *options, gy_err *err) {
    static const gy_get_options none;
    const gy_get_options *o = options ? options : &none;
    const char *slash = strrchr(file, '/');
    if (err) *err = (gy_err){0};
    if (sha256 && !is_hex(sha256, 64))
        return gy_fail(err, GY_EARG, "sha256: expected 64 hexadecimal digits");
    gy_fetch f = {.url = url,
                  .token = o->token,
                  .file = file,
                  .sha256 = sha256,
                  .size = -1,
                  .label = slash ? slash + 1 : file,
                  .progress = o->progress,
                  .arg = o->arg};
    gy_rc rc = gy_file_parents(file, err);
    if (!rc && sha256 && intact(&f, true)) return GY_OK;
    return rc ? rc : gy_fetch_run(&f, err);
}
