/* run/kvchoice - a name or a file to codecs per layer. See kvchoice.h. */
#include "run/kvchoice.h"

#include <stdio.h>
#include <string.h>

#include "base/fmap.h"
#include "base/json.h"
#include "codec/kvname.h"

enum { FILE_MAX = 1 << 20, GROUP_DEFAULT = 64 };

static const gy_cparm f16 = {.kind = GY_CODEC_F16};

/* ---- One entry of a file ---- */

static gy_rc by_bits(int64_t bits, int64_t group, gy_kvpair *out, gy_err *err) {
    if (bits == 16 || bits == 32) {
        out->k = out->v = (gy_cparm){.kind = bits == 16 ? GY_CODEC_F16 : GY_CODEC_F32};
        return GY_OK;
    }
    bool known = bits == 2 || bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8;
    if (!known)
        return gy_fail(err, GY_EFORMAT, "bits is %lld; expected 2, 3, 4, 5, 6, 8, 16 or 32",
                       (long long)bits);
    if (group != 32 && group != 64 && group != 128)
        return gy_fail(err, GY_EFORMAT, "group_size is %lld; expected 32, 64 or 128",
                       (long long)group);
    out->k = out->v = (gy_cparm){GY_CODEC_AFFINE, (uint8_t)bits, GY_CODEC_F16, (uint16_t)group};
    return GY_OK;
}

static gy_rc number_of(const gy_json *v, const char *key, int64_t *out, gy_err *err) {
    if (v->kind == GY_JSON_NUM && gy_json_int(v, out)) return GY_OK;
    return gy_fail(err, GY_EFORMAT, "%s is not an integer", key);
}

/* Reads the members of one entry; what is not known is refused, for it may mean another codec. */
static gy_rc entry(const gy_json *e, int64_t *layer, gy_kvpair *out, gy_err *err) {
    int64_t bits = -1, group = GROUP_DEFAULT;
    const gy_json *name = NULL;
    gy_rc rc = GY_OK;
    bool grouped = false;
    *layer = -1;
    if (e->kind != GY_JSON_OBJ) return gy_fail(err, GY_EFORMAT, "not an object");
    for (uint32_t i = 0; !rc && i < e->n; i++) {
        const char *key = e->key[i].s;
        const gy_json *v = e->item + i;
        char quoted[64];
        if (!strcmp(key, "layer_idx"))
            rc = number_of(v, key, layer, err);
        else if (!strcmp(key, "bits"))
            rc = number_of(v, key, &bits, err);
        else if (!strcmp(key, "group_size"))
            rc = number_of(v, key, &group, err), grouped = true;
        else if (!strcmp(key, "kv") && v->kind == GY_JSON_STR)
            name = v;
        else if (strcmp(key, "mode") || v->kind != GY_JSON_STR || strcmp(v->s, "affine"))
            rc = gy_fail(err, GY_EFORMAT,
                         "member \"%s\": expected layer_idx, bits, group_size or kv",
                         gy_err_quote(quoted, key, e->key[i].n));
    }
    if (rc) return rc;
    if (*layer < 0) return gy_fail(err, GY_EFORMAT, "layer_idx is missing or negative");
    if (name && (bits >= 0 || grouped))
        return gy_fail(err, GY_EFORMAT, "kv and bits exclude each other");
    if (name) return gy_kv_codec_parse(name->s, name->n, &out->k, &out->v, err);
    return by_bits(bits, group, out, err);
}

gy_rc gy_kv_choose_json(const char *text, size_t bytes, int n_layers, gy_kvpair *kv, gy_err *err) {
    gy_json_doc doc = {0};
    gy_rc rc = gy_json_parse_unique(&doc, text, bytes, err);
    if (rc) return rc;
    bool *seen = gy_alloc_n((size_t)n_layers + 1, sizeof *seen);
    if (!seen) rc = gy_fail(err, GY_ENOMEM, "out of memory");
    for (int i = 0; i < n_layers; i++) kv[i] = (gy_kvpair){f16, f16};
    if (!rc && !gy_json_is(doc.root, GY_JSON_ARR))
        rc = gy_fail(err, GY_EFORMAT, "expected an array with an entry per layer");
    for (uint32_t i = 0; !rc && i < doc.root->n; i++) {
        int64_t layer;
        gy_kvpair pair;
        rc = entry(doc.root->item + i, &layer, &pair, err);
        if (!rc && layer >= n_layers)
            rc = gy_fail(err, GY_EFORMAT, "layer_idx is %lld; the model has %d layers",
                         (long long)layer, n_layers);
        if (!rc && seen[layer])
            rc = gy_fail(err, GY_EFORMAT, "layer %lld has two entries", (long long)layer);
        if (rc)
            gy_fail_in(err, "entry %u", i);
        else
            kv[layer] = pair, seen[layer] = true;
    }
    gy_free(seen);
    gy_json_free(&doc);
    return rc;
}

/* ---- What a user gave ---- */

static bool is_path(const char *text) {
    size_t n = strlen(text);
    return strchr(text, '/') || (n > 5 && !strcmp(text + n - 5, ".json"));
}

static gy_rc from_file(const char *path, int n_layers, gy_kvpair *kv, gy_err *err) {
    char *text, quoted[64];
    size_t bytes;
    gy_rc rc = gy_file_read(path, FILE_MAX, &text, &bytes, err);
    if (!rc) {
        rc = gy_kv_choose_json(text, bytes, n_layers, kv, err);
        if (rc) gy_fail_in(err, "%s", gy_err_quote(quoted, path, strlen(path)));
        gy_free(text);
    }
    if (rc) gy_fail_in(err, "kv");
    return rc;
}

gy_rc gy_kv_choose(const char *text, int n_layers, gy_kvpair **out, char name[GY_KV_NAME],
                   gy_err *err) {
    gy_kvpair pair = {f16, f16}, *kv = gy_alloc_n((size_t)n_layers, sizeof *kv);
    if (!kv) return gy_fail(err, GY_ENOMEM, "kv: out of memory");
    bool file = text && is_path(text);
    gy_rc rc = file            ? from_file(text, n_layers, kv, err)
               : text && *text ? gy_kv_codec_parse(text, strlen(text), &pair.k, &pair.v, err)
                               : GY_OK;
    if (rc) return gy_free(kv), rc;
    bool one = true;
    for (int i = 0; i < n_layers; i++) {
        if (!file) kv[i] = pair;
        one &= gy_cparm_same(kv[i].k, kv[0].k) && gy_cparm_same(kv[i].v, kv[0].v);
    }
    if (n_layers) pair = kv[0];
    if (one)
        gy_kv_codec_name(pair.k, pair.v, name);
    else
        snprintf(name, GY_KV_NAME, "per-layer");
    *out = kv;
    return GY_OK;
}
