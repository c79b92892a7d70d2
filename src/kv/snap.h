/* kv/snap - pages in a file.
 *
 * One format for a page of the prefix store and for a whole sequence (docs/formats.md):
 *
 *     head 256 bytes | tokens i32[n_tok], padded to 8 | page table 32 bytes each | SHA-256 of these
 *     page | page | ...                              each at a multiple of 4096 bytes
 *
 * A file is written beside its name, synced, renamed, and the folder synced: at every moment the
 * name holds either the old file or the whole new one. What a reader gets is checked first: sizes
 * before they are used, the head by SHA-256, each page by a 64-bit checksum.
 *
 * Owner: gy_snap_open gives memory and a descriptor to the caller, until gy_snap_close. Thread: no
 * shared state. Bits: page bytes come back as they were. */
#ifndef GY_KV_SNAP_H
#define GY_KV_SNAP_H

#include "kv/chain.h"
#include "kv/snap_io.h"

enum {
    GY_SNAP_VERSION = 1,
    GY_SNAP_ALIGN = 4096,
    GY_SNAP_GROUPS = 8,
    GY_SNAP_STATE = 8,
    GY_SNAP_KV = 48
};
typedef enum { GY_SNAP_PAGE = 1, GY_SNAP_SEQ = 2 } gy_snap_kind;

typedef struct {
    /* index: position / GY_PAGE. Group GY_SNAP_STATE: the state of recurrent layers after `index`
     * of the file's tokens. */
    uint32_t group, index;
    uint64_t offset, bytes, check;
} gy_snap_page;

typedef struct {
    gy_snap_kind kind;
    gy_identity id;
    char kv[GY_SNAP_KV];     /* name of the KV codecs, for messages; NUL-terminated */
    gy_digest before, after; /* the chain at the first token, and behind the last full page */
    int first;               /* position of tok[0], a multiple of GY_PAGE */
    int n_tok, n_pages;
    int replay;               /* of n_tok, the last that have no positions yet: see gy_seq.replay */
    const int32_t *tok;       /* [n_tok] */
    const gy_snap_page *page; /* [n_pages] ascending by (group, index) */
} gy_snap_head;

/* Writes head and data[n_pages], each page[i].bytes long; offset and check of page[i] are set
 * here. A failure leaves path as it was, but for one: when at the end the folder cannot be synced,
 * path is the new file, a power cut may bring the old one back, and the message says so. */
gy_rc gy_snap_write(const gy_io *io, const char *path, const gy_snap_head *head,
                    const void *const *data, gy_err *err);
/* Removes the files that killed writers of path have left beside it; GY_ENOMEM is its only failure.
 * The second: one such file, by its own name, when it is older than a minute and nobody writes it.
 */
gy_rc gy_snap_clean(const gy_io *io, const char *path, gy_err *err);
void gy_snap_drop_tmp(const gy_io *io, const char *tmp);

typedef struct {
    gy_snap_head head; /* pointers into mem */
    void *mem;
    int fd;
    const gy_io *io;
} gy_snap;

/* Reads and checks all but the pages. GY_ENOTFOUND, GY_EIO, GY_EFORMAT for what is no such file,
 * GY_EUNSUPPORTED for another version, GY_EINTEGRITY for a damaged one. */
gy_rc gy_snap_open(const gy_io *io, const char *path, gy_snap *snap, gy_err *err);
/* Reads page[i] into dst[page[i].bytes] and checks it. */
gy_rc gy_snap_read(const gy_snap *snap, int i, void *dst, gy_err *err);
void gy_snap_close(gy_snap *snap); /* all-zero with fd -1 is fine */

/* The checks alone, on bytes in memory: p[n] is the beginning of a file of file_bytes. On success
 * the head's tok and page point to *mem, freed with gy_free. */
gy_rc gy_snap_parse(const uint8_t *p, size_t n, uint64_t file_bytes, gy_snap_head *head, void **mem,
                    gy_err *err);

#endif
