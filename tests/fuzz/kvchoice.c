/* Per-layer KV files: any bytes are an error or codecs that have a name. */
#include "run/kvchoice.h"
#include "base/err.h"
#include "codec/kvname.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    enum { LAYERS = 8 };
    gy_kvpair kv[LAYERS];
    char name[48];
    gy_err err = {0};
    if (gy_kv_choose_json((const char *)data, n, LAYERS, kv, &err)) return 0;
    for (int i = 0; i < LAYERS; i++) GY_ASSERT(*gy_kv_codec_name(kv[i].k, kv[i].v, name) != '?');
    return 0;
}
