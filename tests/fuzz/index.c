/* A model.safetensors.index.json from outside, beside two sound shards: nothing outside the
 * directory is opened, and what opens holds only the shards' tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file/tensors.h"

static char dir[64];

static void put(const char *name, const void *data, size_t n) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    GY_ASSERT(f && fwrite(data, 1, n, f) == n);
    fclose(f);
}

static void remove_dir(void) {
    static const char *const names[] = {"a.safetensors", "b.safetensors",
                                        "model.safetensors.index.json"};
    char path[160];
    for (int i = 0; i < 3; i++) snprintf(path, sizeof path, "%s/%s", dir, names[i]), unlink(path);
    rmdir(dir);
}

static void make_dir(void) {
    static const char one[] = "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    static const char two[] = "{\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                              "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    char file[256] = {0};
    snprintf(dir, sizeof dir, "/tmp/gyre-fuzz-index-XXXXXX");
    GY_ASSERT(mkdtemp(dir));
    atexit(remove_dir);
    file[0] = sizeof one - 1;
    memcpy(file + 8, one, sizeof one);
    put("a.safetensors", file, 8 + sizeof one - 1 + 1);
    file[0] = sizeof two - 1;
    memcpy(file + 8, two, sizeof two);
    put("b.safetensors", file, 8 + sizeof two - 1 + 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gy_tensors t;
    gy_err err = {0};
    if (!dir[0]) make_dir();
    put("model.safetensors.index.json", data, size);
    if (gy_tensors_open_dir(&t, dir, &err)) {
        GY_ASSERT(err.rc && err.msg[0] && !t.n && !t.files);
    } else {
        GY_ASSERT(t.files <= 2);
        for (int i = 0; i < t.files; i++) GY_ASSERT(!strncmp(t.file[i].path, dir, strlen(dir)));
        for (int i = 0; i < t.n; i++) GY_ASSERT(t.at[i].name[0] == 'x' || t.at[i].name[0] == 'y');
    }
    gy_tensors_close(&t);
    return 0;
}
