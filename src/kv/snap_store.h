/* kv/snap_store - a folder of page files: the cold end of the prefix tree.
 *
 *     DIR/<64 hex digits of the chain digest>.<group>.kv    one page of one group, or the state of
 *                                             recurrent layers behind it, in snap.h's format
 *     DIR/quarantine/...                                    files found damaged, for people to see
 *     DIR/lock                                              held by the process that sweeps
 *
 * The files are the database: a page is there when its name is. Names say all that the bytes
 * depend on, so a file is never changed, any number of processes may share a folder, and whoever
 * writes a page that another has written meanwhile replaces it by the same bytes. Every failure is
 * a miss. Beyond the cap the files that were used longest ago go first, leaves before their
 * ancestors: a page is used when it or one behind it is.
 *
 * Owner: the caller, until gy_store_close. Thread: one at a time; processes: any number. */
#ifndef GY_KV_SNAP_STORE_H
#define GY_KV_SNAP_STORE_H

#include "kv/snap.h"

typedef struct gy_store gy_store;

/* Makes the folder when it is not there; one that cannot be written still serves reads. cap in
 * bytes. io: borrowed. */
gy_rc gy_store_open(const char *dir, int64_t cap, const gy_io *io, gy_store **store, gy_err *err);
void gy_store_close(gy_store *store); /* NULL is fine */

bool gy_store_has(gy_store *store, const gy_digest *name, int group);

/* What page `index` of a group must be for a reader. */
typedef struct {
    const gy_identity *id;
    const gy_digest *before, *name;
    const int32_t *tok; /* [GY_PAGE] */
    int index, group;   /* group: of the store's pages, or GY_SNAP_STATE */
    size_t bytes;
} gy_store_page;

/* Reads the page into dst[bytes]. A damaged file is moved to the quarantine. */
bool gy_store_get(gy_store *store, const gy_store_page *page, void *dst);
/* Writes it unless it is there, which counts as a use; what has its name but a head of another page
 * or version, a damaged one or a wrong size, is moved to the quarantine. What was written is
 * durable on GY_OK; what another process wrote is after gy_store_sync. */
gy_rc gy_store_put(gy_store *store, const gy_store_page *page, const char *kv_name,
                   const void *data, gy_err *err);
gy_rc gy_store_sync(gy_store *store, gy_err *err);
int64_t gy_store_cap(const gy_store *store); /* a page takes GY_SNAP_ALIGN bytes besides its own */

/* Deletes the oldest files beyond the cap, and what killed writers left behind. Does nothing while
 * another process does it. */
void gy_store_sweep(gy_store *store);
/* Whether so much was written since the last sweep, a 16th of the cap, that it is time for one. */
bool gy_store_crowded(const gy_store *store);

typedef struct {
    uint64_t hits, misses, written, failed, quarantined, deleted; /* pages; failed: writes */
} gy_store_stats;
void gy_store_get_stats(const gy_store *store, gy_store_stats *stats);

#endif
