/* model/bind_part - inside bind*.c: one run of binding, and what its parts share. */
#ifndef GY_MODEL_BIND_PART_H
#define GY_MODEL_BIND_PART_H

#include "model/bind.h"

typedef struct {
    gy_model *m;
    const gy_tensors *t;
    bool *used; /* [t->n] bound */
    gy_desc_root root;
    int taps_last; /* 1 + whether the convolutions seen so far have the taps last; 0: none seen */
    int experts;   /* of the layer at hand */
    gy_err *err;
} gy_binder;

/* A module is a tensor's name without its last word, the part: "weight", "scales", ... */
const gy_tensor *gy_bind_find(gy_binder *b, const char *module, const char *part);
/* Finds and marks as used; NULL when absent. */
const gy_tensor *gy_bind_take(gy_binder *b, const char *module, const char *part);
const gy_tensor *gy_bind_take_name(gy_binder *b, const char *name); /* by the whole name */
gy_rc gy_bind_missing(gy_binder *b, const char *module, const char *part);
const char *gy_bind_shape(const gy_tensor *t, char out[160]); /* "[8, 64]" */

/* The i-th value of a tensor of a plain float type. */
float gy_bind_float(const gy_tensor *t, int64_t i);
/* Copies a vector of n values of any plain float type to f32 in the model's arena. */
gy_rc gy_bind_vector(gy_binder *b, const gy_tensor *t, int64_t n, const float **out);

/* Rows of a matrix in any weight codec; t is the module's weight. stack > 0: its tensors have a
 * leading dimension of so many, and rows are those of all; rows < 0: any number. */
gy_rc gy_bind_rows(gy_binder *b, const char *module, const gy_tensor *t, int stack, int rows,
                   int cols, gy_rows *out);
/* Weights of the model, n in a row. */
gy_weight *gy_bind_weights(gy_binder *b, const char *name, int n);
gy_rc gy_bind_matrix(gy_binder *b, const char *module, int rows, int cols, bool bias,
                     gy_weight **out);

typedef struct {
    const char *role;      /* NULL: the layer has none */
    int rows, cols, cols2; /* rows 0: a norm of cols or cols2 */
    bool bias;
    gy_weight **out;
} gy_bind_part;
gy_rc gy_bind_parts(gy_binder *b, const gy_layer *l, const gy_bind_part *parts, size_t n);

/* bind_mix.c: what only some layers have. A tensor by its whole name inside the layer, n values. */
gy_rc gy_bind_values(gy_binder *b, const gy_layer *l, const char *name, int n, const float **out);
gy_rc gy_bind_delta(gy_binder *b, const gy_layer *l, gy_bound_delta *o);
gy_rc gy_bind_latent(gy_binder *b, const gy_layer *l, gy_bound_latent *o);
gy_rc gy_bind_moe(gy_binder *b, const gy_layer *l, gy_bound_moe *o);
/* What the spelling of the convolutions says about the norms; after the last layer. */
void gy_bind_norms_by_taps(gy_binder *b);

#endif
