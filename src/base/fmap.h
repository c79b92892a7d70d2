/* base/fmap - a file mapped for reading.
 *
 * The mapping is private and read-only; nothing is read before it is touched. A file that shrinks
 * while mapped kills a process that touches the lost part, as with every mmap; a file of 0 bytes is
 * a valid empty map. Owner: the caller, until gy_fmap_close. Thread: constant after opening. */
#ifndef GY_BASE_FMAP_H
#define GY_BASE_FMAP_H

#include "base/err.h"

typedef struct {
    const uint8_t *data;
    size_t bytes;
} gy_fmap;

gy_rc gy_fmap_open(gy_fmap *map, const char *path, gy_err *err);
void gy_fmap_close(gy_fmap *map);

/* Reads a whole small file into gy_alloc'd, NUL-terminated memory; GY_ELIMIT beyond max bytes. */
gy_rc gy_file_read(const char *path, size_t max, char **text, size_t *bytes, gy_err *err);

/* Makes the directories that path names before its last slash, where they are not there. */
gy_rc gy_file_parents(const char *path, gy_err *err);

#endif
