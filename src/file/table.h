/* file/table - a tensor table while it is being filled; internal to file/.
 *
 * The readers map files and add tensors in any order; finish sorts them by name and refuses
 * duplicates. On failure the reader closes table.t, which is then whole enough for
 * gy_tensors_close. */
#ifndef GY_FILE_TABLE_H
#define GY_FILE_TABLE_H

#include "file/tensors.h"

typedef struct {
    gy_tensors t;
    int cap, file_cap;
} gy_table;

/* Maps path as the next file; its index is t.files - 1 afterwards. */
gy_rc gy_table_map(gy_table *table, const char *path, gy_err *err);
/* A zeroed tensor at the end of the table, valid until the next call; NULL when memory is out. */
gy_tensor *gy_table_add(gy_table *table);
/* Sorts by name; GY_EFORMAT names a tensor that is there twice. */
gy_rc gy_table_finish(gy_table *table, gy_err *err);
/* a * b when both are >= 0 and the product fits, else -1. */
int64_t gy_table_mul(int64_t a, int64_t b);

/* Maps path and adds its tensors (safetensors.c). The map is closed again by gy_tensors_close only.
 */
gy_rc gy_table_read_safetensors(gy_table *table, const char *path, gy_err *err);

/* Which of size bytes of data a tensor takes; readers check that no two tensors overlap. */
typedef struct {
    uint64_t begin, end;
    const char *name;
} gy_extent;
/* Sorts by begin, then end. Returns the index of the first extent that begins before its
 * predecessor's end, or -1. */
int gy_extent_overlap(gy_extent *e, int n);

#endif
