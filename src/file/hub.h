/* file/hub - the shared Hugging Face cache on disk, and downloads into it.
 *
 *     CACHE/models--ORG--NAME/refs/main          text: a commit
 *                            /snapshots/COMMIT/FILE -> ../../blobs/ETAG
 *                            /blobs/ETAG          sha256 of LFS files, git's sha1 of others;
 * ETAG.incomplete while coming CACHE/.locks/models--ORG--NAME/ETAG.lock    held (flock) while a
 * blob is written
 *
 * The layout is the one of huggingface_hub, so that programs share the files. Names from the
 * network are checked before they become paths. Thread: calls are independent; two processes that
 * fetch the same blob wait for each other. */
#ifndef GY_FILE_HUB_H
#define GY_FILE_HUB_H

#include "base/buf.h"
#include "base/err.h"

/* "org/name" -> CACHE/models--org--name; false when the name has another form. */
bool gy_hub_folder(const char *cache, const char *repo, size_t repo_bytes, gy_buf *path);
/* The commit that refs/REVISION names, or the revision itself if such a snapshot exists. path: the
 * snapshot folder. */
bool gy_hub_snapshot(const char *folder, const char *revision, gy_buf *path);

/* ---- Transfers (fetch.c) ---- */

typedef struct {
    const char *url, *token; /* token NULL: none; it is not sent to other hosts after a redirect */
    const char *file;        /* where the bytes go in the end; NULL: into text */
    gy_buf *text;
    const char *sha256, *git_sha1; /* expected, hex; NULL: not checked */
    int64_t size;                  /* expected; -1: unknown */
    const char *label;
    gy_progress_fn progress;
    void *arg;
} gy_fetch;

/* One GET. With a file: resumes FILE.incomplete by range, tries again after a broken transfer,
 * checks size and digest, then renames. A wrong digest removes the partial file. */
gy_rc gy_fetch_run(const gy_fetch *f, gy_err *err);
/* Does an existing file have this digest? git: "blob SIZE\0" is hashed before the bytes. */
gy_rc gy_fetch_digest(const char *file, bool git, char hex[65], gy_err *err);

#endif
