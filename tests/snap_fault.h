/* snap_fault - an I/O table over the system's that fails on demand, for tests of page files. */
#ifndef GY_SNAP_FAULT_H
#define GY_SNAP_FAULT_H

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "kv/snap_io.h"

typedef struct {
    long calls;      /* made so far: open, size, write, read, sync, rename, unlink, mkdir */
    long fail_at;    /* this call fails; 0: none */
    bool stuck;      /* and all after it */
    long die_at;     /* the process is killed before this call; 0: never */
    long half_at;    /* the process writes half of what this call writes, then is killed */
    int64_t room;    /* bytes that the disk takes before ENOSPC; < 0: no end */
    size_t most;     /* bytes one write or read takes; 0: all */
    bool silent;     /* a full disk takes 0 bytes without an error */
    bool lazy;       /* syncs succeed at once: for tests of something else */
    int interrupted; /* writes and reads that fail with EINTR first */
    long writes, syncs, renames;
} fault;

static inline bool fault_hit(fault *f, int why) {
    f->calls++;
    if (f->die_at && f->calls >= f->die_at) kill(getpid(), SIGKILL);
    if (!f->fail_at || f->calls < f->fail_at || (!f->stuck && f->calls > f->fail_at)) return false;
    errno = why;
    return true;
}

static inline int fault_open(void *arg, const char *path, int flags, int mode) {
    return fault_hit(arg, EACCES) ? -1 : gy_io_system.open(NULL, path, flags, mode);
}
static inline int64_t fault_size(void *arg, int fd) {
    return fault_hit(arg, EIO) ? -1 : gy_io_system.size(NULL, fd);
}
static inline int64_t fault_write(void *arg, int fd, const void *p, size_t n) {
    fault *f = arg;
    f->writes++;
    if (fault_hit(f, EIO)) return -1;
    if (f->interrupted > 0) return f->interrupted--, errno = EINTR, -1;
    if (f->half_at && f->calls == f->half_at) {
        gy_io_system.write(NULL, fd, p, n / 2);
        kill(getpid(), SIGKILL);
    }
    if (f->most && n > f->most) n = f->most;
    if (f->room >= 0 && (int64_t)n > f->room) n = (size_t)f->room;
    if (!n) return f->silent ? 0 : (errno = ENOSPC, -1);
    if (f->room >= 0) f->room -= (int64_t)n;
    return gy_io_system.write(NULL, fd, p, n);
}
static inline int64_t fault_read(void *arg, int fd, void *p, size_t n, int64_t at) {
    fault *f = arg;
    if (fault_hit(f, EIO)) return -1;
    if (f->interrupted > 0) return f->interrupted--, errno = EINTR, -1;
    return gy_io_system.read(NULL, fd, p, f->most && n > f->most ? f->most : n, at);
}
static inline int fault_sync(void *arg, int fd) {
    ((fault *)arg)->syncs++;
    if (fault_hit(arg, EIO)) return -1;
    return ((fault *)arg)->lazy ? 0 : gy_io_system.sync(NULL, fd);
}
static inline int fault_close(void *arg, int fd) {
    (void)arg;
    return gy_io_system.close(NULL, fd);
}
static inline int fault_rename(void *arg, const char *from, const char *to) {
    ((fault *)arg)->renames++;
    return fault_hit(arg, EACCES) ? -1 : gy_io_system.rename(NULL, from, to);
}
static inline int fault_unlink(void *arg, const char *path) {
    return fault_hit(arg, EACCES) ? -1 : gy_io_system.unlink(NULL, path);
}
static inline int fault_mkdir(void *arg, const char *path) {
    return fault_hit(arg, EACCES) ? -1 : gy_io_system.mkdir(NULL, path);
}

static inline gy_io fault_io(fault *f) {
    f->room = -1;
    return (gy_io){f,          fault_open,  fault_size,   fault_write,  fault_read,
                   fault_sync, fault_close, fault_rename, fault_unlink, fault_mkdir};
}

#endif
