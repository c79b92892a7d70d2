#include "base/fmap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

static gy_rc fail_errno(gy_err *err, const char *path, const char *what) {
    return gy_fail(err, errno == ENOMEM ? GY_ENOMEM : GY_EIO, "%s: %s: %s", path, what,
                   strerror(errno));
}

/* O_NONBLOCK keeps a FIFO of that name from blocking open; regular files ignore it. */
static gy_rc open_regular(const char *path, int *fd, uint64_t *bytes, gy_err *err) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail_errno(err, path, "cannot open");
    gy_rc rc = GY_OK;
    if (fstat(*fd, &st))
        rc = fail_errno(err, path, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        rc = gy_fail(err, GY_EIO, "%s: not a regular file", path);
    if (rc) return close(*fd), rc;
    *bytes = (uint64_t)st.st_size;
    return GY_OK;
}

gy_rc gy_fmap_open(gy_fmap *map, const char *path, gy_err *err) {
    int fd;
    uint64_t bytes;
    *map = (gy_fmap){(const uint8_t *)"", 0};
    gy_rc rc = open_regular(path, &fd, &bytes, err);
    if (rc || !bytes) return rc ? rc : (close(fd), GY_OK);
    void *p = MAP_FAILED;
    if (bytes > SIZE_MAX / 2)
        errno = EFBIG;
    else
        p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        rc = fail_errno(err, path, "cannot map");
    else
        *map = (gy_fmap){p, (size_t)bytes};
    close(fd);
    return rc;
}

void gy_fmap_close(gy_fmap *map) {
    if (map->bytes) munmap((void *)(uintptr_t)map->data, map->bytes);
    *map = (gy_fmap){0};
}

gy_rc gy_file_read(const char *path, size_t max, char **text, size_t *bytes, gy_err *err) {
    int fd;
    uint64_t size;
    *text = NULL;
    if (bytes) *bytes = 0;
    gy_rc rc = open_regular(path, &fd, &size, err);
    if (rc) return rc;
    gy_buf b = {0};
    if (size > max)
        rc = gy_fail(err, GY_ELIMIT, "%s: %llu bytes, at most %zu expected", path,
                     (unsigned long long)size, max);
    /* One byte more than the size asks for the end of the file with the first read. */
    while (!rc) {
        if (!gy_buf_need(&b, b.n < size ? (size_t)size - b.n + 1 : 4096)) {
            rc = gy_fail(err, GY_ENOMEM, "%s: out of memory for %zu bytes", path, b.n);
            break;
        }
        ssize_t n = read(fd, b.p + b.n, b.cap - b.n - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = fail_errno(err, path, "cannot read");
        if (n <= 0) break;
        b.n += (size_t)n;
        if (b.n > max)
            rc = gy_fail(err, GY_ELIMIT, "%s: grew past %zu bytes while it was read", path, max);
    }
    close(fd);
    if (!rc) *text = gy_buf_take(&b, bytes);
    gy_buf_free(&b);
    return rc;
}

gy_rc gy_file_parents(const char *path, gy_err *err) {
    gy_buf b = {0};
    gy_buf_puts(&b, path);
    if (!b.p) return gy_fail(err, GY_ENOMEM, "%s: out of memory", path);
    for (char *s = *path ? strchr(b.p + 1, '/') : NULL; s; s = strchr(s + 1, '/')) {
        *s = 0;
        if (mkdir(b.p, 0777) && errno != EEXIST) {
            gy_rc rc = gy_fail(err, GY_EIO, "%s: %s", b.p, strerror(errno));
            return gy_buf_free(&b), rc;
        }
        *s = '/';
    }
    gy_buf_free(&b);
    return GY_OK;
}
