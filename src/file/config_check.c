#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "file/config.h"

/* What every family reads, with the values that can be meant at all. null is absent everywhere. The
 * limits are far above any model and far below what overflows when sizes are multiplied. */

typedef enum {
    INT,
    INT_LIST,
    REAL,
    BOOL,
    TEXT,
    OBJECT
} kind; /* INT_LIST: an integer or a list of them */

static const struct {
    const char *name;
    kind kind;
    double low, high;
} fields[] = {
    {"hidden_size", INT, 1, 1 << 20},
    {"num_hidden_layers", INT, 1, 10000},
    {"num_attention_heads", INT_LIST, 1, 1 << 16},
    {"num_key_value_heads", INT_LIST, 1, 1 << 16},
    {"head_dim", INT, 1, 1 << 16},
    {"intermediate_size", INT_LIST, 0, 1 << 24},
    {"moe_intermediate_size", INT_LIST, 0, 1 << 24},
    {"vocab_size", INT, 1, 1 << 28},
    {"max_position_embeddings", INT, 0, 1LL << 40},
    {"original_max_position_embeddings", INT, 1, 1LL << 40},
    {"rms_norm_eps", REAL, 0, 1},
    {"layer_norm_eps", REAL, 0, 1},
    {"norm_eps", REAL, 0, 1},
    {"rope_theta", REAL, 1e-30, 1e30},
    {"rope_local_base_freq", REAL, 1e-30, 1e30},
    {"partial_rotary_factor", REAL, 0, 1},
    {"attn_logit_softcapping", REAL, 0, 1e30},
    {"final_logit_softcapping", REAL, 0, 1e30},
    {"eos_token_id", INT_LIST, -1, INT32_MAX},
    {"bos_token_id", INT_LIST, -1, INT32_MAX},
    {"pad_token_id", INT_LIST, -1, INT32_MAX},
    {"tie_word_embeddings", BOOL, 0, 0},
    {"attention_bias", BOOL, 0, 0},
    {"mlp_bias", BOOL, 0, 0},
    {"use_sliding_window", BOOL, 0, 0},
    {"hidden_act", TEXT, 0, 0},
    {"hidden_activation", TEXT, 0, 0},
    {"rope_scaling", OBJECT, 0, 0},
    {"rope_parameters", OBJECT, 0, 0},
};

/* Position of the object being checked, for messages: "" or "text_config.". */
typedef struct {
    const char *prefix;
    gy_err *err;
} where;

static const char *const kind_names[] = {"null",     "true or false", "a number",
                                         "a string", "an array",      "an object"};

static gy_rc __attribute__((format(printf, 4, 5)))
bad(const where *w, gy_rc rc, const char *field, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return gy_fail(w->err, rc, "%s%s %s", w->prefix, field, text);
}

static gy_rc bad_kind(const where *w, const char *field, const gy_json *v, const char *expected) {
    return bad(w, GY_EFORMAT, field, "is %s, %s expected", kind_names[v->kind], expected);
}

/* ---- one field ---- */

static gy_rc check_number(const where *w, const char *field, const gy_json *v, bool whole,
                          double low, double high) {
    double x;
    char text[64];
    if (!gy_json_num(v, &x)) return bad_kind(w, field, v, whole ? "an integer" : "a number");
    if (!(x >= low && x <= high) || (whole && x != floor(x))) {
        gy_err_quote(text, v->kind == GY_JSON_OBJ ? "not finite" : v->s,
                     v->kind == GY_JSON_OBJ ? 10 : v->n);
        return bad(w, GY_EFORMAT, field, "is %s, %s from %g to %g expected", text,
                   whole ? "an integer" : "a number", low, high);
    }
    return GY_OK;
}

static gy_rc check_field(const where *w, const gy_json *v, const char *name, kind k, double low,
                         double high) {
    gy_rc rc = GY_OK;
    switch (k) {
    case INT: return check_number(w, name, v, true, low, high);
    case REAL: return check_number(w, name, v, false, low, high);
    case INT_LIST:
        if (v->kind != GY_JSON_ARR) return check_number(w, name, v, true, low, high);
        for (uint32_t i = 0; i < v->n && !rc; i++) {
            char item[96];
            snprintf(item, sizeof item, "%s[%" PRIu32 "]", name, i);
            if (!gy_json_null(&v->item[i]))
                rc = check_number(w, item, &v->item[i], true, low, high);
        }
        return rc;
    case BOOL:
        return v->kind == GY_JSON_BOOL ? GY_OK : bad_kind(w, name, v, kind_names[GY_JSON_BOOL]);
    case TEXT: return v->kind == GY_JSON_STR ? GY_OK : bad_kind(w, name, v, "a string");
    case OBJECT: return v->kind == GY_JSON_OBJ ? GY_OK : bad_kind(w, name, v, "an object");
    }
    return GY_OK;
}

/* ---- rotary scaling ---- */

static gy_rc check_factors(const where *w, const gy_json *rope, const char *name) {
    const gy_json *v = gy_json_get(rope, name);
    gy_rc rc = GY_OK;
    if (gy_json_null(v)) return GY_OK;
    if (v->kind != GY_JSON_ARR) return bad_kind(w, name, v, "an array");
    for (uint32_t i = 0; i < v->n && !rc; i++)
        rc = check_number(w, name, &v->item[i], false, 1e-30, 1e30);
    return rc;
}

/* type, else rope_type, as models.md 3.1 says. An unknown kind is refused by name: leaving it out
 * would give other positions in silence. */
static gy_rc check_rope(const where *outer, const char *field, const gy_json *rope) {
    static const char *const known[] = {"default",      "linear",        "dynamic",  "llama3",
                                        "yarn",         "deepseek_yarn", "longrope", "su",
                                        "proportional", "mrope"};
    static const char *const positive[] = {"factor",           "low_freq_factor",
                                           "high_freq_factor", "beta_fast",
                                           "beta_slow",        "original_max_position_embeddings",
                                           "rope_theta",       "attention_factor"};
    char prefix[96], name[64];
    snprintf(prefix, sizeof prefix, "%s%s.", outer->prefix, field);
    where w = {prefix, outer->err};
    const char *key = "type";
    const gy_json *type = gy_json_get(rope, key);
    if (gy_json_null(type)) type = gy_json_get(rope, key = "rope_type");
    if (!gy_json_null(type)) {
        if (type->kind != GY_JSON_STR) return bad_kind(&w, key, type, "a string");
        size_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(known[i], type->s)) i++;
        if (i == n)
            return bad(&w, GY_EUNSUPPORTED, key, "\"%s\" is not supported",
                       gy_err_quote(name, type->s, type->n));
    }
    gy_rc rc = check_factors(&w, rope, "long_factor");
    if (!rc) rc = check_factors(&w, rope, "short_factor");
    for (size_t i = 0; i < sizeof positive / sizeof *positive && !rc; i++) {
        const gy_json *v = gy_json_get(rope, positive[i]);
        if (!gy_json_null(v)) rc = check_number(&w, positive[i], v, false, 1e-30, 1e30);
    }
    return rc;
}

/* rope_parameters may hold one dictionary per layer type instead. */
static gy_rc check_ropes(const where *outer, const gy_json *c) {
    static const char *const field[] = {"rope_scaling", "rope_parameters"};
    gy_rc rc = GY_OK;
    for (int f = 0; f < 2 && !rc; f++) {
        const gy_json *rope = gy_json_get(c, field[f]);
        if (!gy_json_is(rope, GY_JSON_OBJ)) continue;
        rc = check_rope(outer, field[f], rope);
        for (uint32_t i = 0; i < rope->n && !rc; i++) {
            char path[96], key[64];
            if (rope->item[i].kind != GY_JSON_OBJ || gy_json_get(&rope->item[i], "__float__"))
                continue;
            snprintf(path, sizeof path, "%s.%.40s", field[f],
                     gy_err_quote(key, rope->key[i].s, rope->key[i].n));
            rc = check_rope(outer, path, &rope->item[i]);
        }
    }
    return rc;
}

/* ---- fields against each other ---- */

static bool whole(const gy_json *c, const char *key) {
    return gy_json_is(gy_json_get(c, key), GY_JSON_NUM);
}

static gy_rc check_heads(const where *w, const gy_json *c) {
    if (!whole(c, "num_attention_heads")) return GY_OK;
    int64_t heads = gy_json_i(c, "num_attention_heads", 0), width = gy_json_i(c, "hidden_size", 0);
    int64_t kv = whole(c, "num_key_value_heads") ? gy_json_i(c, "num_key_value_heads", 0) : heads;
    if (heads < kv || heads % kv)
        return bad(w, GY_EFORMAT, "num_key_value_heads",
                   "is %" PRId64 ", which does not divide num_attention_heads %" PRId64, kv, heads);
    /* Latent attention gives its head sizes by other names. */
    bool derived = !whole(c, "head_dim") && !whole(c, "kv_lora_rank") && whole(c, "hidden_size");
    if (derived && width % heads)
        return bad(w, GY_EFORMAT, "hidden_size",
                   "is %" PRId64 ", which num_attention_heads %" PRId64
                   " does not divide, and head_dim is absent",
                   width, heads);
    return GY_OK;
}

static gy_rc check_experts(const where *w, const gy_json *c) {
    static const char *const count[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    if (!whole(c, "num_experts_per_tok")) return GY_OK;
    int64_t top = gy_json_i(c, "num_experts_per_tok", 0);
    for (int i = 0; i < 3; i++) {
        int64_t n = gy_json_i(c, count[i], 0);
        if (n > 0 && (top < 1 || top > n))
            return bad(w, GY_EFORMAT, "num_experts_per_tok",
                       "is %" PRId64 ", from 1 to %s %" PRId64 " expected", top, count[i], n);
    }
    return GY_OK;
}

static gy_rc check_object(const where *w, const gy_json *c) {
    gy_rc rc = GY_OK;
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !rc; i++) {
        const gy_json *v = gy_json_get(c, fields[i].name);
        if (!gy_json_null(v))
            rc = check_field(w, v, fields[i].name, fields[i].kind, fields[i].low, fields[i].high);
    }
    if (!rc) rc = check_ropes(w, c);
    if (!rc) rc = check_heads(w, c);
    if (!rc) rc = check_experts(w, c);
    return rc;
}

/* Every entry of the quantization block resolves. */
static gy_rc check_quant(const gy_json *root, gy_err *err) {
    static const char *const block[] = {"quantization", "quantization_config"};
    for (int b = 0; b < 2; b++) {
        const gy_json *q = gy_json_get(root, block[b]);
        if (gy_json_null(q)) continue;
        if (q->kind != GY_JSON_OBJ) return bad_kind(&(where){"", err}, block[b], q, "an object");
    }
    return gy_config_quant_check(root, err);
}

gy_rc gy_config_check(const gy_json *root, gy_err *err) {
    where top = {"", err}, text = {"text_config.", err};
    const gy_json *type = gy_json_get(root, "model_type"),
                  *inner = gy_json_get(root, "text_config");
    if (!gy_json_is(root, GY_JSON_OBJ))
        return gy_fail(err, GY_EFORMAT, "the configuration is not a JSON object");
    if (gy_json_null(type))
        return bad(&top, GY_EFORMAT, "model_type", "is absent, a string expected");
    if (type->kind != GY_JSON_STR) return bad_kind(&top, "model_type", type, "a string");
    gy_rc rc = check_object(&top, root);
    if (!rc && !gy_json_null(inner)) {
        if (inner->kind != GY_JSON_OBJ) return bad_kind(&top, "text_config", inner, "an object");
        rc = check_object(&text, inner);
    }
    return rc ? rc : check_quant(root, err);
}
