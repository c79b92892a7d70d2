#include "kv/snap_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int sys_open(void *arg, const char *path, int flags, int mode) {
    (void)arg;
    return open(path, flags | O_CLOEXEC, mode);
}

static int64_t sys_size(void *arg, int fd) {
    struct stat st;
    (void)arg;
    if (fstat(fd, &st)) return -1;
    if (S_ISREG(st.st_mode)) return st.st_size;
    errno = EINVAL;
    return -1;
}

static int64_t sys_write(void *arg, int fd, const void *p, size_t n) {
    (void)arg;
    return write(fd, p, n);
}

static int64_t sys_read(void *arg, int fd, void *p, size_t n, int64_t at) {
    (void)arg;
    return pread(fd, p, n, at);
}

static int sys_sync(void *arg, int fd) {
    (void)arg;
    return fsync(fd);
}

static int sys_close(void *arg, int fd) {
    (void)arg;
    return close(fd);
}

static int sys_rename(void *arg, const char *from, const char *to) {
    (void)arg;
    return rename(from, to);
}

static int sys_unlink(void *arg, const char *path) {
    (void)arg;
    return unlink(path);
}

static int sys_mkdir(void *arg, const char *path) {
    (void)arg;
    return mkdir(path, 0700);
}

const gy_io gy_io_system = {
    .open = sys_open,
    .size = sys_size,
    .write = sys_write,
    .read = sys_read,
    .sync = sys_sync,
    .close = sys_close,
    .rename = sys_rename,
    .unlink = sys_unlink,
    .mkdir = sys_mkdir,
};

int gy_io_sync_dir(const gy_io *io, const char *path) {
    int fd = io->open(io->arg, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return -1;
    int failed = io->sync(io->arg, fd), why = errno;
    io->close(io->arg, fd);
    errno = why;
    return failed;
}
