/* kv/snap - reading and writing one page file. See snap.h and docs/formats.md. */
#include "kv/snap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian");

enum {
    HEAD = 256,
    ENTRY = 32,
    DIGEST = 32,
    TOKENS_MAX = 1 << 26,
    PAGES_MAX = 1 << 23,
    TMP_NAMES = 100,
    ORPHAN_SECONDS = 60
};
/* Not text, and damaged by programs that treat it as text. */
static const char magic[8] = {'g', 'y', 'r', 'e', 'k', 'v', '\r', '\n'};

/* Places of the head's fields. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_FILE_BYTES = 16,
    AT_BITS = 24,
    AT_ARITH = 28,
    AT_MODEL = 32,
    AT_PLAN = 64,
    AT_LAYOUT = 96,
    AT_BEFORE = 128,
    AT_AFTER = 160,
    AT_FIRST = 192,
    AT_TOKENS = 196,
    AT_PAGES = 200,
    AT_REPLAY = 204,
    AT_KV = 208

};

static uint32_t get32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint64_t get64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static void put32(uint8_t *p, uint32_t v) {
    memcpy(p, &v, 4);
}

static void put64(uint8_t *p, uint64_t v) {
    memcpy(p, &v, 8);
}

static uint64_t align(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

/* Bytes before the digest; counts are bounded, so this cannot wrap. */
static uint64_t table_end(uint64_t n_tok, uint64_t n_pages) {
    return align(HEAD + 4 * n_tok, 8) + ENTRY * n_pages;
}

static bool digest_of(const void *p, size_t n, gy_digest *out) {
    gy_sha256 *h = gy_sha256_new();
    if (!h) return false;
    gy_sha256_add(h, p, n);
    return gy_digest_end(h, out);
}

static uint64_t check_of(const gy_snap_page *page, const void *data) {
    /* The place is part of the sum: two exchanged pages are damage too. */
    return gy_hash64(data, page->bytes, (uint64_t)page->group << 32 | page->index);
}

/* ---- Writing ---- */

static gy_rc failed(gy_err *err, const char *path, const char *what) {
    int why = errno;
    return gy_fail(err, GY_EIO, "%s: cannot %s: %s", path, what, strerror(why));
}

static int write_all(const gy_io *io, int fd, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n) {
        int64_t did = io->write(io->arg, fd, p, n);
        if (did < 0 && errno == EINTR) continue;
        if (did == 0) errno = ENOSPC; /* a disk that takes nothing and says nothing is full */
        if (did <= 0) return -1;
        p += did, n -= (size_t)did;
    }
    return 0;
}

static int write_zeros(const gy_io *io, int fd, uint64_t n) {
    static const uint8_t zero[GY_SNAP_ALIGN];
    return write_all(io, fd, zero, (size_t)n); /* n < GY_SNAP_ALIGN */
}

/* Head, tokens, table and digest as one block; fills *bytes and every offset. */
static uint8_t *head_make(const gy_snap_head *h, const void *const *data, size_t *bytes) {
    size_t table = (size_t)align(HEAD + 4 * (uint64_t)h->n_tok, 8);
    size_t end = (size_t)table_end((uint64_t)h->n_tok, (uint64_t)h->n_pages);
    uint8_t *p = gy_alloc(end + DIGEST);
    if (!p) return NULL;
    uint64_t at = end + DIGEST;
    for (int i = 0; i < h->n_pages; i++) {
        gy_snap_page page = h->page[i];
        uint8_t *e = p + table + (size_t)i * ENTRY;
        at = align(at, GY_SNAP_ALIGN);
        put32(e, page.group), put32(e + 4, page.index), put64(e + 8, at);
        put64(e + 16, page.bytes), put64(e + 24, check_of(&page, data[i]));
        at += page.bytes;
    }
    memcpy(p + AT_MAGIC, magic, sizeof magic);
    put32(p + AT_VERSION, GY_SNAP_VERSION), put32(p + AT_KIND, h->kind);
    put64(p + AT_FILE_BYTES, at);
    put32(p + AT_BITS, h->id.bits), put32(p + AT_ARITH, h->id.arith);
    memcpy(p + AT_MODEL, &h->id.model, DIGEST), memcpy(p + AT_PLAN, &h->id.plan, DIGEST);
    memcpy(p + AT_LAYOUT, &h->id.layout, DIGEST);
    memcpy(p + AT_BEFORE, &h->before, DIGEST), memcpy(p + AT_AFTER, &h->after, DIGEST);
    put32(p + AT_FIRST, (uint32_t)h->first), put32(p + AT_TOKENS, (uint32_t)h->n_tok);
    put32(p + AT_PAGES, (uint32_t)h->n_pages), put32(p + AT_REPLAY, (uint32_t)h->replay);
    memcpy(p + AT_KV, h->kv, strnlen(h->kv, GY_SNAP_KV - 1));
    if (h->n_tok) memcpy(p + HEAD, h->tok, 4 * (size_t)h->n_tok);
    gy_digest d;
    if (!digest_of(p, end, &d)) return gy_free(p), NULL;
    memcpy(p + end, &d, DIGEST);
    *bytes = end + DIGEST;
    return p;
}

static gy_rc fill(const gy_io *io, int fd, const char *path, const gy_snap_head *h,
                  const void *const *data, gy_err *err) {
    size_t head_bytes;
    uint8_t *head = head_make(h, data, &head_bytes);
    if (!head) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    int bad = write_all(io, fd, head, head_bytes), why = errno;
    uint64_t at = head_bytes;
    gy_free(head);
    errno = why;
    for (int i = 0; !bad && i < h->n_pages; i++) {
        uint64_t to = align(at, GY_SNAP_ALIGN);
        bad = write_zeros(io, fd, to - at) || write_all(io, fd, data[i], h->page[i].bytes);
        at = to + h->page[i].bytes;
    }
    if (bad) return failed(err, path, "write");
    return io->sync(io->arg, fd) ? failed(err, path, "write") : GY_OK;
}

/* The folder that path is in; gy_alloc'd. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    return slash ? gy_strndup(n ? path : "/", n ? n : 1) : gy_strdup(".");
}

/* Before anything is written: what cannot be opened cannot be synced later. */
static gy_rc open_folder(const gy_io *io, const char *path, int *fd, gy_err *err) {
    char *dir = folder_of(path);
    if (!dir) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    *fd = io->open(io->arg, dir, O_RDONLY | O_DIRECTORY, 0);
    gy_rc rc = *fd < 0
                   ? gy_fail(err, GY_EIO, "%s: cannot open the folder: %s", path, strerror(errno))
                   : GY_OK;
    gy_free(dir);
    return rc;
}

/* Makes and opens a file beside path; its name is in tmp. */
static gy_rc open_tmp(const gy_io *io, const char *path, gy_buf *tmp, int *fd, gy_err *err) {
    static atomic_uint turn;
    *fd = -1;
    /* A writer of the same process id may live in another container, or have left its file when it
     * was killed. */
    for (int i = 0; i < TMP_NAMES && (!i || (*fd < 0 && errno == EEXIST)); i++) {
        tmp->n = 0;
        gy_buf_printf(tmp, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&turn, 1));
        if (tmp->oom) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
        /* Keys and values give a conversation away: for the owner only. */
        *fd = io->open(io->arg, tmp->p, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    return *fd < 0 ? failed(err, path, "write") : GY_OK;
}

gy_rc gy_snap_write(const gy_io *io, const char *path, const gy_snap_head *head,
                    const void *const *data, gy_err *err) {
    gy_buf tmp = {0};
    int dir = -1, fd = -1;
    GY_ASSERT(head->n_tok >= 0 && head->n_tok <= TOKENS_MAX && head->n_pages <= PAGES_MAX);
    gy_rc rc = open_folder(io, path, &dir, err);
    if (rc) return rc;
    rc = open_tmp(io, path, &tmp, &fd, err);
    if (!rc) {
        /* Held while writing and let go by the system when a process dies, so that a sweep can
         * tell an orphan from a file in the making. Without locks (some network disks) age
         * decides. */
        flock(fd, LOCK_EX | LOCK_NB);
        rc = fill(io, fd, path, head, data, err);
        if (!rc && io->rename(io->arg, tmp.p, path)) rc = failed(err, path, "write");
        if (rc) io->unlink(io->arg, tmp.p);
        io->close(io->arg, fd); /* synced before: nothing is left to fail */
    }
    if (!rc && io->sync(io->arg, dir))
        rc = gy_fail(err, GY_EIO,
                     "%s: is written, but a power cut may undo it: cannot sync the folder: %s",
                     path, strerror(errno));
    io->close(io->arg, dir);
    gy_buf_free(&tmp);
    return rc;
}

/* ---- What killed writers leave ---- */

/* Whether end, which follows a file's name, is what open_tmp adds. */
static bool is_tmp(const char *end) {
    static const char digits[] = "0123456789";
    if (*end++ != '.') return false;
    size_t pid = strspn(end, digits);
    if (!pid || end[pid] != '-') return false;
    end += pid + 1;
    size_t turn = strspn(end, digits);
    return turn && !strcmp(end + turn, ".tmp");
}

/* A writer holds a lock on its file while it lives, and has it from shortly after the file is made:
 * hence the age. */
void gy_snap_drop_tmp(const gy_io *io, const char *tmp) {
    struct stat st;
    if (lstat(tmp, &st) || !S_ISREG(st.st_mode)) return;
    if (time(NULL) - st.st_mtim.tv_sec < ORPHAN_SECONDS) return;
    int fd = open(tmp, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB)) io->unlink(io->arg, tmp);
    close(fd);
}

gy_rc gy_snap_clean(const gy_io *io, const char *path, gy_err *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    char *folder = folder_of(path);
    DIR *d = folder ? opendir(folder) : NULL;
    gy_buf tmp = {0};
    bool whole = folder;
    for (struct dirent *f; d && (f = readdir(d));) {
        if (strncmp(f->d_name, name, n) || !is_tmp(f->d_name + n)) continue;
        tmp.n = 0;
        gy_buf_printf(&tmp, "%s%s", path, f->d_name + n);
        if (!tmp.oom) gy_snap_drop_tmp(io, tmp.p);
        whole &= !tmp.oom;
    }
    if (d) closedir(d);
    gy_buf_free(&tmp);
    gy_free(folder);
    return whole ? GY_OK : gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
}

/* ---- Reading ---- */

static gy_rc broken(gy_err *err, const char *what) {
    return gy_fail(err, GY_EINTEGRITY, "damaged: %s", what);
}

/* Sizes of the head, checked so far that everything it promises lies inside the file. */
static gy_rc parse_sizes(const uint8_t *p, uint64_t file_bytes, uint64_t *head_bytes, gy_err *err) {
    uint64_t n_tok = get32(p + AT_TOKENS), n_pages = get32(p + AT_PAGES);
    if (memcmp(p, magic, sizeof magic))
        return gy_fail(err, GY_EFORMAT, "not a gyre page file: the first 8 bytes are other");
    if (get32(p + AT_VERSION) != GY_SNAP_VERSION)
        return gy_fail(err, GY_EUNSUPPORTED, "page file of version %u; this program reads %d",
                       get32(p + AT_VERSION), GY_SNAP_VERSION);
    if (n_tok > TOKENS_MAX || n_pages > PAGES_MAX)
        return gy_fail(err, GY_EINTEGRITY, "damaged: %llu tokens and %llu pages",
                       (unsigned long long)n_tok, (unsigned long long)n_pages);
    if (get64(p + AT_FILE_BYTES) != file_bytes)
        return gy_fail(err, GY_EINTEGRITY, "damaged: %llu bytes, expected %llu",
                       (unsigned long long)file_bytes,
                       (unsigned long long)get64(p + AT_FILE_BYTES));
    *head_bytes = table_end(n_tok, n_pages) + DIGEST;
    return *head_bytes > file_bytes ? broken(err, "the tables end behind the file") : GY_OK;
}

/* The page table: ascending in place and in offset, all inside the file and the tokens. */
static gy_rc parse_table(const uint8_t *e, uint64_t at, uint64_t file_bytes, const gy_snap_head *h,
                         gy_snap_page *page, gy_err *err) {
    uint64_t last = h->n_tok ? (uint64_t)(h->first + h->n_tok - 1) / GY_PAGE : 0;
    for (int i = 0; i < h->n_pages; i++, e += ENTRY, page++) {
        *page = (gy_snap_page){.group = get32(e),
                               .index = get32(e + 4),
                               .offset = get64(e + 8),
                               .bytes = get64(e + 16),
                               .check = get64(e + 24)};
        bool state = page->group == GY_SNAP_STATE;
        if (page->group > GY_SNAP_STATE || page->index > (state ? (uint64_t)h->n_tok : last) ||
            page->index < (state ? 1 : (uint32_t)h->first / GY_PAGE) || !h->n_tok)
            return broken(err, "a page of no position");
        if (i && (page->group < page[-1].group ||
                  (page->group == page[-1].group && page->index <= page[-1].index)))
            return broken(err, "pages out of order");
        if (page->offset < at || page->offset > file_bytes || !page->bytes ||
            page->bytes > file_bytes - page->offset)
            return broken(err, "a page outside the file");
        at = page->offset + page->bytes;
    }
    return GY_OK;
}

static gy_rc parse_fields(const uint8_t *p, gy_snap_head *h, gy_err *err) {
    uint32_t kind = get32(p + AT_KIND), first = get32(p + AT_FIRST);
    *h = (gy_snap_head){
        .kind = kind, .n_tok = (int)get32(p + AT_TOKENS), .n_pages = (int)get32(p + AT_PAGES)};
    if (kind != GY_SNAP_PAGE && kind != GY_SNAP_SEQ) return broken(err, "an unknown kind");
    if (first % GY_PAGE || first > (uint32_t)(INT_MAX - GY_PAGE - TOKENS_MAX))
        return broken(err, "a first position that begins no page");
    if (get32(p + AT_REPLAY) > (uint32_t)h->n_tok) return broken(err, "more tokens than there are");
    h->first = (int)first, h->replay = (int)get32(p + AT_REPLAY);
    h->id.bits = get32(p + AT_BITS), h->id.arith = get32(p + AT_ARITH);
    memcpy(&h->id.model, p + AT_MODEL, DIGEST), memcpy(&h->id.plan, p + AT_PLAN, DIGEST);
    memcpy(&h->id.layout, p + AT_LAYOUT, DIGEST);
    memcpy(&h->before, p + AT_BEFORE, DIGEST), memcpy(&h->after, p + AT_AFTER, DIGEST);
    memcpy(h->kv, p + AT_KV, GY_SNAP_KV);
    if (h->kv[GY_SNAP_KV - 1]) return broken(err, "a codec name without end");
    return GY_OK;
}

gy_rc gy_snap_parse(const uint8_t *p, size_t n, uint64_t file_bytes, gy_snap_head *head, void **mem,
                    gy_err *err) {
    uint64_t head_bytes;
    gy_snap_head h;
    gy_digest d;
    if (n < HEAD || n > file_bytes)
        return gy_fail(err, GY_EFORMAT, "not a gyre page file: %zu bytes", n);
    gy_rc rc = parse_sizes(p, file_bytes, &head_bytes, err);
    if (rc) return rc;
    if (n < head_bytes) return broken(err, "the tables end behind the bytes read");
    if (!digest_of(p, (size_t)head_bytes - DIGEST, &d))
        return gy_fail(err, GY_ENOMEM, "out of memory");
    if (memcmp(&d, p + head_bytes - DIGEST, DIGEST))
        return broken(err, "the checksum of the head differs");
    rc = parse_fields(p, &h, err);
    if (rc) return rc;
    size_t tables = (size_t)h.n_pages * sizeof(gy_snap_page);
    uint8_t *m = gy_alloc(tables + (size_t)h.n_tok * 4);
    if (!m)
        return gy_fail(err, GY_ENOMEM, "out of memory for %d tokens and %d pages", h.n_tok,
                       h.n_pages);
    if (h.n_tok) memcpy(m + tables, p + HEAD, (size_t)h.n_tok * 4);
    h.page = (const gy_snap_page *)(void *)m, h.tok = (const int32_t *)(void *)(m + tables);
    for (int i = 0; !rc && i < h.n_tok; i++)
        if (h.tok[i] < 0) rc = broken(err, "a negative token");
    const uint8_t *table = p + align(HEAD + 4 * (uint64_t)h.n_tok, 8);
    if (!rc) rc = parse_table(table, head_bytes, file_bytes, &h, (gy_snap_page *)(void *)m, err);
    if (rc) return gy_free(m), rc;
    *head = h, *mem = m;
    return GY_OK;
}

/* 0, -1 with errno, or 1 when the file is shorter. */
static int read_all(const gy_io *io, int fd, void *dst, size_t n, uint64_t at) {
    uint8_t *p = dst;
    while (n) {
        int64_t did = io->read(io->arg, fd, p, n, (int64_t)at);
        if (did < 0 && errno == EINTR) continue;
        if (did <= 0) return did < 0 ? -1 : 1;
        p += did, n -= (size_t)did, at += (uint64_t)did;
    }
    return 0;
}

static gy_rc read_part(const gy_io *io, int fd, void *dst, size_t n, uint64_t at, gy_err *err) {
    int bad = read_all(io, fd, dst, n, at);
    if (bad < 0) return gy_fail(err, GY_EIO, "cannot read: %s", strerror(errno));
    return bad ? broken(err, "the file ends early") : GY_OK;
}

static gy_rc open_head(const gy_io *io, int fd, gy_snap *s, gy_err *err) {
    uint8_t head[HEAD];
    uint64_t head_bytes;
    int64_t size = io->size(io->arg, fd);
    if (size < 0) return gy_fail(err, GY_EIO, "not a regular file");
    if (size < HEAD) return gy_fail(err, GY_EFORMAT, "not a gyre page file: %d bytes", (int)size);
    gy_rc rc = read_part(io, fd, head, HEAD, 0, err);
    if (!rc) rc = parse_sizes(head, (uint64_t)size, &head_bytes, err);
    if (rc) return rc;
    uint8_t *p = gy_alloc((size_t)head_bytes);
    if (!p) return gy_fail(err, GY_ENOMEM, "out of memory");
    rc = read_part(io, fd, p, (size_t)head_bytes, 0, err);
    if (!rc) rc = gy_snap_parse(p, (size_t)head_bytes, (uint64_t)size, &s->head, &s->mem, err);
    gy_free(p);
    return rc;
}

gy_rc gy_snap_open(const gy_io *io, const char *path, gy_snap *snap, gy_err *err) {
    gy_err local = {0};
    gy_err *e = err ? err : &local;
    /* A pipe would let the opener wait for its other end. */
    int fd = io->open(io->arg, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return gy_fail(err, errno == ENOENT || errno == ENOTDIR ? GY_ENOTFOUND : GY_EIO,
                       "%s: cannot open: %s", path, strerror(errno));
    gy_snap s = {.fd = fd, .io = io};
    gy_rc rc = open_head(io, fd, &s, e);
    if (rc) {
        io->close(io->arg, fd);
        gy_fail_in(e, "%s", path);
        return rc;
    }
    *snap = s;
    return GY_OK;
}

gy_rc gy_snap_read(const gy_snap *s, int i, void *dst, gy_err *err) {
    const gy_snap_page *page = s->head.page + i;
    gy_rc rc = read_part(s->io, s->fd, dst, (size_t)page->bytes, page->offset, err);
    if (!rc && check_of(page, dst) != page->check)
        return gy_fail(err, GY_EINTEGRITY, "damaged: the checksum of page %u of group %u differs",
                       page->index, page->group);
    return rc;
}

void gy_snap_close(gy_snap *s) {
    if (s->fd >= 0 && s->io) s->io->close(s->io->arg, s->fd);
    gy_free(s->mem);
    *s = (gy_snap){.fd = -1};
}
