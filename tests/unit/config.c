/* file/config: which template wins, which quantisation a module has. The verdicts on fields are in
 * file_cases. */
#include "file/config.h"

#include <sys/stat.h>

#include "testlib.h"

static void whole_directory(void **state) {
    (void)state;
    gy_config c;
    gy_err err = {0};
    assert_ok(gy_config_open(&c, data_path("file/checkpoint"), false, &err), err);
    assert_int_equal(gy_json_i(c.config.root, "hidden_size", 0), 64);
    assert_int_equal(gy_json_get(c.generation.root, "eos_token_id")->n, 2);
    assert_string_equal(gy_json_get(c.tokenizer.root, "model_max_length")->s,
                        "1000000000000000019884624838656");
    assert_string_equal(gy_json_s(c.special.root, "bos_token", ""), "<s>");
    assert_string_equal(c.template_default, "strongest {{ messages }}\n");
    assert_int_equal(c.n_named, 2);
    assert_string_equal(c.template_named[0].name, "tool_use");
    assert_string_equal(c.template_named[0].source, "tools");
    assert_string_equal(c.template_named[1].name, "rag");
    assert_string_equal(c.template_named[1].source, "new rag");
    gy_config_close(&c);
    assert_null(c.template_default);
}

/* ---- directories made here ---- */

static char dir[64];

static void put(const char *name, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void drop(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/gyre-config-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    static const char *const names[] = {"config.json", "tokenizer_config.json",
                                        "chat_template.json", "chat_template.jinja",
                                        "generation_config.json"};
    for (int i = 0; i < 5; i++) drop(names[i]);
    return rmdir(dir);
}

static void expect(gy_rc expected, const char *word) {
    gy_config c;
    gy_err err = {0};
    gy_rc rc = gy_config_open(&c, dir, false, &err);
    if (rc != expected)
        fail_msg("%s, %s expected: %s", gy_rc_name(rc), gy_rc_name(expected), err.msg);
    if (rc && !strstr(err.msg, word)) fail_msg("\"%s\" does not name %s", err.msg, word);
    if (rc) assert_true(!c.config.root && !c.template_default && !c.n_named);
    gy_config_close(&c);
}

static void expect_template(const char *expected) {
    gy_config c;
    gy_err err = {0};
    assert_ok(gy_config_open(&c, dir, false, &err), err);
    if (expected)
        assert_string_equal(c.template_default, expected);
    else
        assert_null(c.template_default);
    gy_config_close(&c);
}

static void optional_and_required(void **state) {
    (void)state;
    expect(GY_ENOTFOUND, "config.json");
    gy_config c;
    gy_err err = {0};
    assert_ok(gy_config_open(&c, dir, true, &err), err);
    gy_config_close(&c);
    put("config.json", "{\"model_type\":\"llama\",\"hidden_size\":-1}");
    expect(GY_EFORMAT, "hidden_size");
    assert_ok(gy_config_open(&c, dir, true, &err), err);
    gy_config_close(&c);
    put("config.json", "{\"model_type\":\"llama\"}");
    expect_template(NULL);
    put("tokenizer_config.json", "{\"chat_template\":null}");
    expect_template(NULL);
    put("tokenizer_config.json", "{\"chat_template\":\"a\"}");
    expect_template("a");
    put("chat_template.json", "{\"chat_template\":\"b\"}");
    expect_template("b");
    put("chat_template.jinja", "c");
    expect_template("c");
}

static void broken_files_are_named(void **state) {
    (void)state;
    put("config.json", "[]");
    expect(GY_EFORMAT, "config.json");
    put("config.json", "{\"model_type\":\"llama\",}");
    expect(GY_EFORMAT, "config.json: JSON line 1, column 23");
    put("config.json", "{\"model_type\":\"llama\",\"vocab_size\":-4}");
    expect(GY_EFORMAT, "config.json: vocab_size");
    put("config.json", "{\"model_type\":\"llama\"}");
    put("tokenizer_config.json", "{\"chat_template\":7}");
    expect(GY_EFORMAT, "tokenizer_config.json: chat_template");
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"default\"}]}");
    expect(GY_EFORMAT, "tokenizer_config.json: chat_template");
    put("tokenizer_config.json", "{\"chat_template\":\"a\\u0000b\"}");
    expect(GY_EFORMAT, "tokenizer_config.json: chat_template");
    put("tokenizer_config.json", "{}");
    put("generation_config.json", "");
    expect(GY_EFORMAT, "generation_config.json");
    gy_buf many = {0};
    gy_buf_puts(&many, "{\"chat_template\":[");
    for (int i = 0; i < 17; i++)
        gy_buf_printf(&many, "%s{\"name\":\"n%d\",\"template\":\"x\"}", i ? "," : "", i);
    gy_buf_puts(&many, "]}");
    put("generation_config.json", "{}");
    put("tokenizer_config.json", many.p);
    expect(GY_ELIMIT, "n16");
    gy_buf_free(&many);
}

/* ---- quantisation ---- */

static void quant(const char *config, const char *module, gy_rc expected_rc, gy_config_quant want) {
    gy_json_doc doc;
    gy_err err = {0};
    gy_config_quant q;
    assert_ok(gy_json_parse(&doc, config, strlen(config), &err), err);
    gy_rc rc = gy_config_quant_of(doc.root, module, &q, &err);
    if (rc != expected_rc) fail_msg("%s in %s: %s: %s", module, config, gy_rc_name(rc), err.msg);
    if (!rc && (q.quantised != want.quantised || q.named != want.named || q.bits != want.bits ||
                q.group != want.group || strcmp(q.mode, want.mode)))
        fail_msg("%s in %s: quantised %d named %d bits %d group %d mode \"%s\"", module, config,
                 q.quantised, q.named, q.bits, q.group, q.mode);
    gy_json_free(&doc);
}

static void quant_resolution(void **state) {
    (void)state;
    const char *c = "{\"quantization\":{\"group_size\":32,\"bits\":4,\"model.a\":{\"group_size\":"
                    "64,\"bits\":8},"
                    "\"model.b\":false,\"model.c\":true,\"lm_head\":{\"bits\":6},\"language_model."
                    "model.d\":{\"bits\":3},"
                    "\"d\":{\"bits\":2},\"model.f\":{\"mode\":\"mxfp8\"}},"
                    "\"quantization_config\":{\"quant_method\":\"gptq\"}}";
    quant("{}", "model.a", GY_OK, (gy_config_quant){0});
    quant("{\"quantization\":null}", "model.a", GY_OK, (gy_config_quant){0});
    quant(c, "model.x", GY_OK, (gy_config_quant){true, false, 4, 32, "affine"});
    quant(c, "model.a", GY_OK, (gy_config_quant){true, true, 8, 64, "affine"});
    quant(c, "a", GY_OK, (gy_config_quant){true, true, 8, 64, "affine"});
    quant(c, "language_model.model.a", GY_OK, (gy_config_quant){true, true, 8, 64, "affine"});
    quant(c, "model.a.b", GY_OK, (gy_config_quant){true, false, 4, 32, "affine"});
    quant(c, "model.b", GY_OK, (gy_config_quant){false, true, 0, 0, ""});
    quant(c, "model.c", GY_OK, (gy_config_quant){true, true, 4, 32, "affine"});
    quant(c, "language_model.lm_head", GY_OK, (gy_config_quant){true, true, 6, 64, "affine"});
    quant(c, "model.d", GY_OK,
          (gy_config_quant){true, true, 3, 64, "affine"}); /* the longest of two that match */
    quant(c, "d", GY_OK, (gy_config_quant){true, true, 2, 64, "affine"}); /* the exact one */
    quant(c, "model.f", GY_OK, (gy_config_quant){true, true, 8, 32, "mxfp8"});
}

static void quant_formats(void **state) {
    (void)state;
    quant("{\"quantization\":{\"mode\":\"nvfp4\"}}", "x", GY_OK,
          (gy_config_quant){true, false, 4, 16, "nvfp4"});
    quant("{\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\",\"r\":{\"group_"
          "size\":64,\"bits\":8}}}",
          "r", GY_OK, (gy_config_quant){true, true, 8, 64, "affine"});
    quant("{\"quantization\":{}}", "x", GY_OK, (gy_config_quant){true, false, 0, 0, "affine"});
    quant(
        "{\"quantization_config\":{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"x\"]}}",
        "x", GY_OK, (gy_config_quant){true, false, 4, 32, "mxfp4"});
    quant("{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}",
          "x", GY_OK, (gy_config_quant){true, false, 8, 0, "fp8"});
    quant("{\"quantization_config\":{\"quant_method\":\"fp8\",\"scale_fmt\":\"ue8m0\",\"weight_"
          "block_size\":[32,32]}}",
          "x", GY_OK, (gy_config_quant){true, false, 8, 32, "mxfp8"});
    quant("{\"text_config\":{\"quantization_config\":{\"bits\":4,\"group_size\":128}}}", "x", GY_OK,
          (gy_config_quant){true, false, 4, 128, "affine"});
    quant("{\"quantization\":{\"x\":{\"mode\":\"trellis\",\"bits\":2,\"group_size\":256,"
          "\"trellis\":{\"L\":12}}}}",
          "x", GY_OK, (gy_config_quant){true, true, 2, 256, "trellis"});
    quant("{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4}}", "x", GY_EUNSUPPORTED,
          (gy_config_quant){0});
    quant("{\"quantization\":{\"mode\":\"nvfp4\",\"group_size\":32}}", "x", GY_EUNSUPPORTED,
          (gy_config_quant){0});
    quant("{\"quantization\":{\"x\":{\"bits\":4.5}}}", "x", GY_EFORMAT, (gy_config_quant){0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_directory),
        cmocka_unit_test_setup_teardown(optional_and_required, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(broken_files_are_named, make_dir, remove_dir),
        cmocka_unit_test(quant_resolution),
        cmocka_unit_test(quant_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
