/* A GGUF file from outside, opened as a model: metadata, names, shapes, vocabulary, plan. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char path[64];
    gy_model *m;
    gy_plan *plan;
    gy_cparm f16 = {.kind = GY_CODEC_F16};
    gy_err err;
    int fd = memfd_create("model", 0);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, n) == (ssize_t)n && !gy_model_open(path, NULL, &m, &err)) {
        if (!gy_plan_build(m, f16, f16, &plan, &err)) gy_plan_free(plan);
        char *json;
        if (!gy_model_inspect(m, &json, &err)) gy_free(json);
        gy_model_unref(m);
    }
    close(fd);
    return 0;
}
