/* kv/snap_seq - a whole sequence in a page file, and back.
 *
 * Saved are the tokens and every page that the sequence holds; rows of the last page that no token
 * has are zero, so that a file says nothing of other sequences. What comes back holds the same
 * pages at the same positions: going on gives the bits that it would have given.
 *
 * Thread: the store's. Files made by another model, arithmetic, codec or version are refused by
 * name; nothing is converted. */
#ifndef GY_KV_SNAP_SEQ_H
#define GY_KV_SNAP_SEQ_H

#include "kv/kv.h"
#include "kv/snap.h"

/* kv_name: the KV codecs, as people write them. */
gy_rc gy_snap_save_seq(const gy_io *io, const char *path, const gy_kv *kv, const struct gy_seq *seq,
                       const gy_identity *id, const char *kv_name, gy_err *err);

/* A new sequence of at most max_len positions with tokens below vocab. */
gy_rc gy_snap_load_seq(const gy_io *io, const char *path, gy_kv *kv, const gy_identity *id,
                       const char *kv_name, int max_len, int vocab, struct gy_seq **seq,
                       gy_err *err);

#endif
