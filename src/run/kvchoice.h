/* run/kvchoice - which KV codecs each layer has, from what a user gave.
 *
 *     "q8" "k8v4" "turbo-k8v3" "f32.f16"   a name (codec/kvname.h): the same in every layer
 *     "./kv.json" "kv_config.json"         a file, known by '/' or ".json": one entry per layer
 *
 *     [{"layer_idx": 0, "bits": 8, "group_size": 64},    affine K and V; bits 16 is f16, 32 is f32
 *      {"layer_idx": 5, "kv": "turbo-k8v4"}]             any name; layers not listed have f16
 *
 * Owner: the caller frees the pairs. Thread: functions without state. */
#ifndef GY_RUN_KVCHOICE_H
#define GY_RUN_KVCHOICE_H

#include "op/op.h"

enum { GY_KV_NAME = 48 };

/* text NULL or "": f16. *kv: [n_layers], freed with gy_free. name: the codecs' full name, or
 * "per-layer" when layers differ. */
gy_rc gy_kv_choose(const char *text, int n_layers, gy_kvpair **kv, char name[GY_KV_NAME],
                   gy_err *err);

/* The file's form, from its text. kv[n_layers] is filled. */
gy_rc gy_kv_choose_json(const char *text, size_t bytes, int n_layers, gy_kvpair *kv, gy_err *err);

#endif
