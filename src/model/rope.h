/* model/rope - rotary frequencies from a config (spec/models.md 3).
 *
 *     config -> gy_rope_read -> {theta, scaling block} -> gy_rope_make -> inv_freq[rot/2], mscale
 *
 * Frequencies are computed in double with base/dmath (rule D4) and stored as f32: they are part of
 * GY_BITS. */
#ifndef GY_MODEL_ROPE_H
#define GY_MODEL_ROPE_H

#include "model/desc.h"

typedef struct {
    double theta;
    const gy_json *scaling; /* object with type or rope_type, or NULL: plain */
} gy_rope_config;

/* Reads rope_theta and rope_scaling, else the same inside rope_parameters (transformers 5), else
 * inside rope_parameters[layer_type] when it has one dictionary per layer type. theta_absent 0: the
 * key is required. */
gy_rc gy_rope_read(const gy_json *config, const char *layer_type, double theta_absent,
                   gy_rope_config *out, gy_err *err);

/* Fills r for `dims` rotated dimensions. config gives max_position_embeddings and a top-level
 * original_max_position_embeddings; frequencies lie in arena. */
gy_rc gy_rope_make(const gy_json *config, const gy_rope_config *c, int dims, bool pairs,
                   gy_arena *arena, gy_rope *r, gy_err *err);

#endif
