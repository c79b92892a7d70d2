/* A config.json from outside: describing it may fail, and that is all. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "model/desc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    gy_json_doc doc = {0};
    gy_desc d;
    gy_err err = {0};
    if (n > 1 << 16 || gy_json_parse(&doc, (const char *)data, n, &err)) return 0;
    if (!gy_describe(doc.root, &d, &err)) {
        size_t names = 0;
        for (int i = 0; i < d.n_layers; i++) names += strlen(d.layer[i].prefix);
        if (!names || !d.width) __builtin_trap();
        gy_desc_free(&d);
    } else if (!err.msg[0]) {
        __builtin_trap();
    }
    gy_json_free(&doc);
    return 0;
}
