/* run/persist - what outlives a sequence: shared prefixes in memory, sessions in files.
 *
 *     gy_engine --identity--> digest of model, plan, layout, arithmetic --root--> chain of prefixes
 *
 * The model's part of the identity is made at first use, because it reads a little of every weight:
 * the configuration, each tensor's name, type, shape and size, all bytes of tensors up to 4096, and
 * of larger ones 256 bytes at the beginning, in the middle and at the end. Equal files give equal
 * identities on every machine; names of folders and times of change do not matter. Two checkpoints
 * that differ only between the samples would be taken for one: whoever edits weights in place must
 * not keep page files of the old ones.
 *
 * Thread: the engine's. */
#ifndef GY_RUN_PERSIST_H
#define GY_RUN_PERSIST_H

#include "run/engine.h"

/* Fills e->identity once; GY_ENOMEM is its only failure. */
gy_rc gy_engine_identify(gy_engine *e, gy_err *err);

/* Makes what the options ask for: the tree, and the folder behind it. */
gy_rc gy_engine_open_prefix(gy_engine *e, const gy_engine_options *o, gy_err *err);

/* gy_prefix_adopt and gy_prefix_offer with the engine's tree, or a miss without one. salt may be
 * NULL. */
int gy_engine_adopt(gy_engine *e, const char *salt, struct gy_seq *seq, const int32_t *ids, int n);
void gy_engine_offer(gy_engine *e, const char *salt, const struct gy_seq *seq);

#endif
