/* JSON text from outside: parse, write, parse again; the second text must be equal. */
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gy_json_doc doc, again;
    gy_err err = {0};
    if (gy_json_parse(&doc, (const char *)data, size, &err)) {
        GY_ASSERT(err.rc && err.msg[0] && !doc.root);
        return 0;
    }
    gy_buf one = {0}, two = {0};
    gy_json_write(&one, doc.root);
    GY_ASSERT(!gy_json_parse(&again, one.p, one.n, &err));
    gy_json_write(&two, again.root);
    GY_ASSERT(one.n == two.n && !memcmp(one.p, two.p, one.n));
    double d;
    int64_t i;
    gy_json_num(doc.root, &d), gy_json_int(doc.root, &i);
    gy_json_free(&again);
    if (!gy_json_parse_unique(&again, (const char *)data, size, &err)) gy_json_free(&again);
    gy_buf_free(&one), gy_buf_free(&two);
    gy_json_free(&doc);
    return 0;
}
