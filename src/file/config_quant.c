#include <inttypes.h>
#include <stdio.h>

#include "file/config.h"

/* Defaults of an entry that leaves fields out, and the one pair that a fixed format has. */
static const struct {
    const char *mode;
    int bits, group;
    bool fixed;
} modes[] = {
    {"affine", 4, 64, false}, {"mxfp4", 4, 32, true},     {"mxfp8", 8, 32, true},
    {"nvfp4", 4, 16, true},   {"trellis", 4, 256, false},
};

static int mode_index(const char *name) {
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++) {
        if (!strcmp(modes[i].mode, name)) return i;
    }
    return -1;
}

static gy_rc small_int(const gy_json *obj, const char *what, const char *key, int high, int *out,
                       gy_err *err) {
    const gy_json *v = gy_json_get(obj, key);
    int64_t i;
    if (gy_json_null(v)) return GY_OK;
    if (!gy_json_int(v, &i) || i < 1 || i > high)
        return gy_fail(err, GY_EFORMAT, "quantization %s: %s is not an integer from 1 to %d", what,
                       key, high);
    *out = (int)i;
    return GY_OK;
}

/* Reads {mode, bits, group_size} of an entry or of the block. what names it in messages. */
static gy_rc read_values(const gy_json *obj, const char *what, bool defaults, gy_config_quant *out,
                         gy_err *err) {
    const gy_json *mode = gy_json_get(obj, "mode");
    char name[64];
    int m = 0;
    if (!gy_json_null(mode)) {
        if (mode->kind != GY_JSON_STR)
            return gy_fail(err, GY_EFORMAT, "quantization %s: mode is not a string", what);
        if ((m = mode_index(mode->s)) < 0)
            return gy_fail(err, GY_EUNSUPPORTED, "quantization %s: mode \"%s\" is not supported",
                           what, gy_err_quote(name, mode->s, mode->n));
    }
    snprintf(out->mode, sizeof out->mode, "%s", modes[m].mode);
    if (defaults || modes[m].fixed) out->bits = modes[m].bits, out->group = modes[m].group;
    gy_rc rc = small_int(obj, what, "bits", 8, &out->bits, err);
    if (!rc) rc = small_int(obj, what, "group_size", 65536, &out->group, err);
    if (rc) return rc;
    if (modes[m].fixed && (out->bits != modes[m].bits || out->group != modes[m].group))
        return gy_fail(err, GY_EUNSUPPORTED,
                       "quantization %s: %s with bits %d, group_size %d; %d and %d expected", what,
                       modes[m].mode, out->bits, out->group, modes[m].bits, modes[m].group);
    if (!m && out->group && out->group != 32 && out->group != 64 && out->group != 128)
        return gy_fail(err, GY_EUNSUPPORTED,
                       "quantization %s: group_size %d; 32, 64 or 128 expected", what, out->group);
    if (!m && out->bits == 7)
        return gy_fail(err, GY_EUNSUPPORTED, "quantization %s: 7 bits are not supported", what);
    return GY_OK;
}

/* Formats of other tools, by quant_method. MLX blocks have none. */
static gy_rc read_method(const gy_json *block, gy_config_quant *out, gy_err *err) {
    const gy_json *method = gy_json_get(block, "quant_method");
    char name[64];
    if (gy_json_null(method) || gy_json_get(block, "mode"))
        return read_values(block, "block", false, out, err);
    if (method->kind != GY_JSON_STR)
        return gy_fail(err, GY_EFORMAT, "quantization_config: quant_method is not a string");
    const char *s = method->s, *mode = NULL;
    const gy_json *size = gy_json_get(block, "weight_block_size");
    int64_t rows = 0, cols = 0;
    if (gy_json_is(size, GY_JSON_ARR) && size->n == 2)
        gy_json_int(&size->item[0], &rows), gy_json_int(&size->item[1], &cols);
    if (!strcmp(s, "mxfp4") || !strcmp(s, "mxfp8"))
        mode = s;
    else if (!strcmp(s, "fp8"))
        mode = !strcmp(gy_json_s(block, "scale_fmt", ""), "ue8m0") && rows == 32 && cols == 32
                   ? "mxfp8"
                   : "fp8";
    else if (!strcmp(s, "affine") || !strcmp(s, "mlx"))
        return read_values(block, "block", false, out, err);
    if (!mode)
        return gy_fail(err, GY_EUNSUPPORTED,
                       "quantization_config: quant_method \"%s\" is not supported",
                       gy_err_quote(name, method->s, method->n));
    int m = mode_index(mode);
    snprintf(out->mode, sizeof out->mode, "%s", mode);
    out->bits = m < 0 ? 8 : modes[m].bits, out->group = m < 0 ? 0 : modes[m].group;
    return GY_OK;
}

static gy_rc read_entry(const gy_json *block, const char *path, const gy_json *v,
                        gy_config_quant *out, gy_err *err) {
    char name[64];
    gy_err_quote(name, path, strlen(path));
    *out = (gy_config_quant){.named = true, .quantised = true};
    if (v->kind == GY_JSON_OBJ) return read_values(v, name, true, out, err);
    if (v->kind != GY_JSON_BOOL)
        return gy_fail(err, GY_EFORMAT, "quantization %s: neither an object nor true or false",
                       name);
    out->quantised = v->truth;
    return v->truth ? read_method(block, out, err) : GY_OK;
}

/* ---- which entry ---- */

static const gy_json *find_block(const gy_json *config) {
    static const char *const path[] = {"quantization", "quantization_config",
                                       "text_config.quantization",
                                       "text_config.quantization_config"};
    for (int i = 0; i < 4; i++) {
        const gy_json *q = gy_json_path(config, path[i]);
        if (gy_json_is(q, GY_JSON_OBJ)) return q;
    }
    return NULL;
}

/* path without leading wrapper components. */
static const char *bare(const char *path) {
    static const char *const wrapper[] = {"model.", "language_model.", "text_model."};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(wrapper[i]);
        if (!strncmp(path, wrapper[i], n)) path += n, i = -1;
    }
    return path;
}

/* Index of the entry for module, or -1. An exact path wins over one that matches bare; of those,
 * the longest. Thousands of modules meet thousands of entries, so the last bytes are compared
 * first: nearly all entries end there. */
static int64_t find_entry(const gy_json *block, const char *module) {
    const char *want = bare(module);
    size_t n = strlen(want);
    int64_t best = -1;
    for (uint32_t i = 0; i < block->n; i++) {
        gy_json_key key = block->key[i];
        if (key.n < n || memcmp(key.s + key.n - n, want, n) || strcmp(bare(key.s), want)) continue;
        if (block->item[i].kind != GY_JSON_OBJ && block->item[i].kind != GY_JSON_BOOL) continue;
        if (!strcmp(key.s, module)) return i;
        if (best < 0 || key.n > block->key[best].n) best = i;
    }
    return best;
}

gy_rc gy_config_quant_of(const gy_json *config, const char *module, gy_config_quant *out,
                         gy_err *err) {
    const gy_json *block = find_block(config);
    *out = (gy_config_quant){0};
    if (!block) return GY_OK;
    int64_t i = find_entry(block, module);
    if (i >= 0) return read_entry(block, block->key[i].s, &block->item[i], out, err);
    out->quantised = true;
    return read_method(block, out, err);
}

gy_rc gy_config_quant_check(const gy_json *config, gy_err *err) {
    const gy_json *block = find_block(config);
    gy_config_quant q = {0};
    if (!block) return GY_OK;
    gy_rc rc = read_method(block, &q, err);
    for (uint32_t i = 0; i < block->n && !rc; i++) {
        const gy_json *v = &block->item[i];
        if (v->kind != GY_JSON_OBJ || (!gy_json_get(v, "bits") && !gy_json_get(v, "group_size")))
            continue;
        rc = read_entry(block, block->key[i].s, v, &q, err);
    }
    return rc;
}
