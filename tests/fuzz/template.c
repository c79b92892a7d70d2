/* Fuzz target: any bytes as a chat template, parsed and rendered over a small conversation. */
#include <stdint.h>

#include "base/json.h"
#include "text/tmpl.h"

static const char variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S "
    "<b>\"},{\"role\":\"user\",\"content\":\"caf\\u00e9 \\ud83d\\ude00\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":"
    "\"f\",\"arguments\":"
    "{\"a\":[1,2.5,null,true],\"b\":{\"c\":12345678901234567890}}}}]}],\"tools\":null,\"add_"
    "generation_prompt\":true,"
    "\"l\":[3,1,2],\"s\":\"Hello\",\"n\":3,\"f\":2.5,\"d\":{\"b\":1,\"a\":[1,{\"x\":null}]},\"bos_"
    "token\":\"<s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static gy_json_doc vars;
    gy_tmpl_limits limits = {.steps = 100000, .output = 1 << 20, .memory = 32 << 20};
    gy_tmpl *t = NULL;
    gy_err err = {0};
    gy_buf out = {0};
    if (!vars.root && gy_json_parse(&vars, variables, sizeof variables - 1, &err)) __builtin_trap();
    if (gy_tmpl_parse((const char *)data, n, &t, &err)) return 0;
    err = (gy_err){0};
    gy_rc rc = gy_tmpl_render(t, vars.root, &limits, &out, &err);
    if ((rc != GY_OK) != (err.rc != GY_OK)) __builtin_trap();
    gy_buf_free(&out);
    gy_tmpl_free(t);
    return 0;
}
