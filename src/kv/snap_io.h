/* kv/snap_io - the calls by which page files reach the disk, as a table.
 *
 * Tests replace it to make the Nth call fail, to cut a write short, or to fill the disk. Every
 * function returns -1 and sets errno on failure, as the system's do. Thread: functions without
 * state, but for what arg holds. */
#ifndef GY_KV_SNAP_IO_H
#define GY_KV_SNAP_IO_H

#include "base/err.h"

typedef struct {
    void *arg;
    int (*open)(void *arg, const char *path, int flags, int mode);
    int64_t (*size)(void *arg, int fd); /* of a regular file; else -1 with EINVAL */
    int64_t (*write)(void *arg, int fd, const void *p, size_t n);
    int64_t (*read)(void *arg, int fd, void *p, size_t n, int64_t at);
    int (*sync)(void *arg, int fd);
    int (*close)(void *arg, int fd);
    int (*rename)(void *arg, const char *from, const char *to);
    int (*unlink)(void *arg, const char *path);
    int (*mkdir)(void *arg, const char *path);
} gy_io;

extern const gy_io gy_io_system;

/* Syncs the folder at path, so that names in it last. */
int gy_io_sync_dir(const gy_io *io, const char *path);

#endif
