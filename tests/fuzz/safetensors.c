/* A safetensors file from outside. What opens must lie inside the file; the data is not touched
 * while opening. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    gy_tensors t;
    gy_err err = {0};
    int fd = memfd_create("input", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gy_tensors_open_file(&t, path, &err)) {
        GY_ASSERT(err.rc && err.msg[0] && !t.n && !t.files);
    } else {
        for (int i = 0; i < t.n; i++) {
            const gy_tensor *x = &t.at[i];
            size_t at = (size_t)(x->data - t.file[0].map.data);
            GY_ASSERT(at <= size && x->bytes <= size - at && gy_tensors_find(&t, x->name) == x);
        }
    }
    gy_tensors_close(&t);
    close(fd);
    return 0;
}
