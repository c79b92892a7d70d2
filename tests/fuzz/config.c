/* A config.json from outside: a verdict with a message, and a quantisation for any module of what
 * passes. */
#include "file/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const module[] = {"lm_head", "model.layers.0.mlp.gate",
                                         "language_model.model.embed_tokens", ""};
    gy_json_doc doc;
    gy_err err = {0};
    if (gy_json_parse(&doc, (const char *)data, size, &err)) return 0;
    if (gy_config_check(doc.root, &err)) {
        GY_ASSERT(err.rc && err.msg[0]);
    } else {
        for (int i = 0; i < 4; i++) {
            gy_config_quant q;
            err = (gy_err){0};
            if (gy_config_quant_of(doc.root, module[i], &q, &err))
                GY_ASSERT(err.msg[0]);
            else
                GY_ASSERT(q.bits >= 0 && q.bits <= 8 && q.group >= 0 &&
                          strlen(q.mode) < sizeof q.mode);
        }
    }
    gy_json_free(&doc);
    return 0;
}
