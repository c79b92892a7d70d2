/* KV codec names from outside: any bytes are read or refused with a message, and what was read has
 * a name that reads as the same. */
#include <stdlib.h>
#include <string.h>

#include "codec/kvname.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gy_cparm k, v, k2, v2;
    gy_err err = {0};
    char *text = malloc(size ? size : 1), name[48], again[48];
    if (size) memcpy(text, data, size);
    gy_rc rc = gy_kv_codec_parse(text, size, &k, &v, &err);
    free(text);
    if (rc) {
        if (!err.msg[0]) abort();
        return 0;
    }
    gy_kv_codec_name(k, v, name);
    if (gy_kv_codec_parse(name, strlen(name), &k2, &v2, NULL)) abort();
    gy_kv_codec_name(k2, v2, again);
    if (strcmp(name, again)) abort();
    for (int dim = 16; dim <= 512; dim += 16) gy_kv_codec_fits(k, v, dim, 528 - dim, NULL);
    return 0;
}
