/* kv/snap_store - see snap_store.h. */
#include "kv/snap_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

struct gy_store {
    char *dir;
    int64_t cap, since; /* since: bytes written since the last sweep */
    const gy_io *io;
    gy_buf path, other; /* kept, so that names need no allocation each */
    gy_store_stats stats;
};

gy_rc gy_store_open(const char *dir, int64_t cap, const gy_io *io, gy_store **store, gy_err *err) {
    gy_store *s = gy_alloc(sizeof *s);
    if (s) s->dir = gy_strdup(dir);
    if (!s || !s->dir) return gy_free(s), gy_fail(err, GY_ENOMEM, "%s: out of memory", dir);
    s->cap = cap, s->io = io;
    if (io->mkdir(io->arg, dir) && errno != EEXIST) {
        int fd = io->open(io->arg, dir, O_RDONLY | O_DIRECTORY, 0), why = errno;
        if (fd < 0) {
            gy_store_close(s);
            return gy_fail(err, GY_EIO, "%s: cannot make the folder: %s", dir, strerror(why));
        }
        io->close(io->arg, fd);
    }
    *store = s;
    return GY_OK;
}

void gy_store_close(gy_store *s) {
    if (!s) return;
    gy_buf_free(&s->path), gy_buf_free(&s->other);
    gy_free(s->dir);
    gy_free(s);
}

/* ---- Names ---- */

static const char *path_of(gy_store *s, const gy_digest *name, int group) {
    char hex[65];
    s->path.n = 0, s->path.oom = false;
    gy_buf_printf(&s->path, "%s/%s.%d.kv", s->dir, gy_digest_hex(name, hex), group);
    return s->path.oom ? NULL : s->path.p;
}

static const char *inside(gy_store *s, const char *name) {
    s->other.n = 0, s->other.oom = false;
    gy_buf_printf(&s->other, "%s/%s", s->dir, name);
    return s->other.oom ? NULL : s->other.p;
}

bool gy_store_has(gy_store *s, const gy_digest *name, int group) {
    const char *path = path_of(s, name, group);
    int fd = path ? s->io->open(s->io->arg, path, O_RDONLY | O_NONBLOCK, 0) : -1;
    if (fd >= 0) s->io->close(s->io->arg, fd);
    return fd >= 0;
}

/* ---- Pages ---- */

/* The file keeps its name in the quarantine; a later one of the same name replaces it there. */
static void quarantine(gy_store *s, const char *path) {
    const char *dir = inside(s, "quarantine");
    if (!dir || (s->io->mkdir(s->io->arg, dir) && errno != EEXIST)) return;
    gy_buf_puts(&s->other, strrchr(path, '/'));
    if (!s->other.oom && !s->io->rename(s->io->arg, path, s->other.p)) s->stats.quarantined++;
}

static uint32_t entry_index(const gy_store_page *p) {
    return p->group == GY_SNAP_STATE ? GY_PAGE : (uint32_t)p->index;
}

/* Whether the file is about this page. One that is not has a name it should not have. */
static bool matches(const gy_snap_head *h, const gy_store_page *p) {
    return h->kind == GY_SNAP_PAGE && h->n_tok == GY_PAGE && h->n_pages == 1 &&
           h->first == p->index * GY_PAGE && h->page[0].group == (uint32_t)p->group &&
           h->page[0].index == entry_index(p) && h->page[0].bytes == p->bytes &&
           h->id.bits == p->id->bits && h->id.arith == p->id->arith &&
           gy_digest_equal(&h->id.model, &p->id->model) &&
           gy_digest_equal(&h->id.plan, &p->id->plan) &&
           gy_digest_equal(&h->id.layout, &p->id->layout) &&
           gy_digest_equal(&h->before, p->before) && gy_digest_equal(&h->after, p->name) &&
           !memcmp(h->tok, p->tok, GY_PAGE * sizeof *p->tok);
}

/* Reads the page; or with dst NULL looks only whether it is there, by its head. GY_EARG: whole, but
 * about something else. */
static gy_rc get(gy_store *s, const char *path, const gy_store_page *page, void *dst) {
    gy_snap f;
    gy_rc rc = gy_snap_open(s->io, path, &f, NULL);
    if (rc) return rc;
    rc = !matches(&f.head, page) ? GY_EARG : dst ? gy_snap_read(&f, 0, dst, NULL) : GY_OK;
    /* The time of change is the time of use; a folder that cannot be written keeps its order. */
    if (!rc) (void)futimens(f.fd, NULL);
    gy_snap_close(&f);
    return rc;
}

bool gy_store_get(gy_store *s, const gy_store_page *page, void *dst) {
    const char *path = path_of(s, page->name, page->group);
    gy_rc rc = path ? get(s, path, page, dst) : GY_ENOMEM;
    if (rc == GY_EINTEGRITY || rc == GY_EFORMAT || rc == GY_EARG) quarantine(s, path);
    s->stats.hits += rc == GY_OK, s->stats.misses += rc != GY_OK;
    return rc == GY_OK;
}

gy_rc gy_store_put(gy_store *s, const gy_store_page *page, const char *kv_name, const void *data,
                   gy_err *err) {
    const char *path = path_of(s, page->name, page->group);
    gy_rc rc = path ? get(s, path, page, NULL) : GY_ENOMEM;
    if (!rc) return GY_OK;
    if (rc == GY_ENOMEM) return gy_fail(err, rc, "%s: out of memory", s->dir);
    /* Another version's too: it is here that this one's is wanted. */
    if (rc == GY_EINTEGRITY || rc == GY_EFORMAT || rc == GY_EARG || rc == GY_EUNSUPPORTED)
        quarantine(s, path);
    gy_snap_page entry = {
        .group = (uint32_t)page->group, .index = entry_index(page), .bytes = page->bytes};
    gy_snap_head h = {.kind = GY_SNAP_PAGE,
                      .id = *page->id,
                      .before = *page->before,
                      .after = *page->name,
                      .first = page->index * GY_PAGE,
                      .n_tok = GY_PAGE,
                      .n_pages = 1,
                      .tok = page->tok,
                      .page = &entry};
    snprintf(h.kv, sizeof h.kv, "%s", kv_name);
    rc = gy_snap_write(s->io, path, &h, &data, err);
    if (!rc) s->since += GY_SNAP_ALIGN + (int64_t)page->bytes;
    s->stats.written += rc == GY_OK, s->stats.failed += rc != GY_OK;
    return rc;
}

gy_rc gy_store_sync(gy_store *s, gy_err *err) {
    if (!gy_io_sync_dir(s->io, s->dir)) return GY_OK;
    return gy_fail(err, GY_EIO, "%s: cannot sync the folder: %s", s->dir, strerror(errno));
}

int64_t gy_store_cap(const gy_store *s) {
    return s->cap;
}

bool gy_store_crowded(const gy_store *s) {
    return s->since > s->cap / 16;
}

/* ---- Sweeping ---- */

/* Names of one page's files begin with the same HEX digits. */
enum { HEX = 64 };

typedef struct {
    char name[80], parent[HEX + 1]; /* parent: "" when the file does not tell */
    int64_t bytes, used;            /* used: nanoseconds */
    int first;                      /* position of its first token */
} entry;

typedef struct {
    entry *at;
    size_t n, cap;
    int64_t bytes;
} entries;

/* "" for a page, "...tmp" for one in the making, NULL for what is none of ours and not touched. */
static const char *ours(const char *name) {
    size_t hex = strspn(name, "0123456789abcdef");
    size_t digits = hex == 64 && name[64] == '.' ? strspn(name + 65, "0123456789") : 0;
    const char *end = name + 65 + digits;
    return digits && digits < 3 && !strncmp(end, ".kv", 3) ? end + 3 : NULL;
}

static bool is_orphan(const char *end) {
    size_t n = strlen(end);
    return n > 4 && !strcmp(end + n - 4, ".tmp");
}

static bool note(entries *list, const char *name, const struct stat *st) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 256;
        entry *at = gy_realloc(list->at, cap * sizeof *at);
        if (!at) return false;
        list->at = at, list->cap = cap;
    }
    entry *e = &list->at[list->n++];
    snprintf(e->name, sizeof e->name, "%.79s", name);
    e->bytes = st->st_size, e->first = 0, *e->parent = 0;
    e->used = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    list->bytes += e->bytes;
    return true;
}

static bool collect(gy_store *s, entries *list) {
    DIR *d = opendir(s->dir);
    bool ok = d != NULL;
    for (struct dirent *f; ok && (f = readdir(d));) {
        struct stat st;
        const char *end = ours(f->d_name), *path = end ? inside(s, f->d_name) : NULL;
        if (!path || lstat(path, &st) || !S_ISREG(st.st_mode)) continue;
        if (is_orphan(end))
            gy_snap_drop_tmp(s->io, path);
        else if (!*end)
            ok = note(list, f->d_name, &st);
    }
    if (d) closedir(d);
    return ok;
}

/* ---- The order of going ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* The oldest first, and of equally old ones the deepest. */
static int by_use(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->used != y->used) return x->used < y->used ? -1 : 1;
    if (x->first != y->first) return x->first > y->first ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_depth(const void *a, const void *b) {
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    return x->first != y->first ? (x->first > y->first ? -1 : 1) : 0;
}

static void read_link(gy_store *s, entry *e) {
    gy_snap f;
    const char *path = inside(s, e->name);
    if (!path || gy_snap_open(s->io, path, &f, NULL)) return;
    if (f.head.kind == GY_SNAP_PAGE) gy_digest_hex(&f.head.before, e->parent);
    e->first = f.head.first;
    gy_snap_close(&f);
}

/* The files of the page of that name, in a list sorted by name: [*at, end). */
static size_t find_page(const entries *list, const char *hex, size_t *at) {
    size_t lo = 0, hi = list->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strncmp(list->at[mid].name, hex, HEX) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*at = lo; lo < list->n && !strncmp(list->at[lo].name, hex, HEX);) lo++;
    return lo;
}

/* A page is of use only while all before it are there, so it counts as used when it or one behind
 * it was: then leaves go before their ancestors, whatever order they were written in and however
 * coarse the clock of the disk is. */
static bool use_ancestors(gy_store *s, entries *list) {
    entry **deepest = gy_alloc_n(list->n, sizeof *deepest);
    if (!deepest) return false;
    for (size_t i = 0; i < list->n; i++) read_link(s, list->at + i);
    qsort(list->at, list->n, sizeof *list->at, by_name);
    for (size_t i = 0; i < list->n; i++) deepest[i] = list->at + i;
    qsort(deepest, list->n, sizeof(entry *), by_depth);
    for (size_t i = 0; i < list->n; i++) {
        const entry *e = deepest[i];
        size_t at, end;
        /* Its own page's other files, then its parent's: not yet looked at, for they are less
         * deep. A file that says otherwise is not believed. */
        for (int parent = 0; parent < 2; parent++)
            for (end = find_page(list, parent ? e->parent : e->name, &at); at < end; at++)
                if (list->at[at].first < e->first + !parent && list->at[at].used < e->used)
                    list->at[at].used = e->used;
    }
    gy_free(deepest);
    return true;
}

void gy_store_sweep(gy_store *s) {
    const char *lock = inside(s, "lock");
    int fd = lock ? s->io->open(s->io->arg, lock, O_RDWR | O_CREAT, 0600) : -1;
    s->since = 0;
    if (fd < 0) return;
    entries list = {0};
    if (!flock(fd, LOCK_EX | LOCK_NB) && collect(s, &list) && list.bytes > s->cap &&
        use_ancestors(s, &list)) {
        qsort(list.at, list.n, sizeof *list.at, by_use);
        for (size_t i = 0; i < list.n && list.bytes > s->cap; i++) {
            const char *path = inside(s, list.at[i].name);
            if (!path || s->io->unlink(s->io->arg, path)) continue;
            list.bytes -= list.at[i].bytes, s->stats.deleted++;
        }
    }
    gy_free(list.at);
    s->io->close(s->io->arg, fd);
}

void gy_store_get_stats(const gy_store *s, gy_store_stats *stats) {
    *stats = s->stats;
}
