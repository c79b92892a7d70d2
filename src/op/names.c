#include "op/op.h"

const char *const gy_op_names[GY_OP_COUNT] = {
    "embed",   "norm", "linear", "headnorm", "rope", "kvput", "attn",    "act",  "add",   "route",
    "experts", "gate", "clip",   "conv",     "scan", "heads", "regroup", "pick", "logits"};
const char *const gy_norm_names[] = {"rms", "rms+1", "layer"};
const char *const gy_act_names[] = {"silu",  "gelu-tanh",  "gelu-erf",    "relu",
                                    "relu2", "quick-gelu", "clamped-gelu"};
const char *const gy_gate_names[] = {"sigmoid", "norm-silu", "sigmoid-all"};
const char *const gy_route_names[] = {"softmax", "chosen", "sigmoid"};
