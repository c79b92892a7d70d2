/* model/gguf_map - GGUF metadata and tensor names in the words that families read.
 *
 *     general.architecture, ARCH.* -> gy_gguf_config -> config.json words -> gy_describe ->
 * description, HF names
 *                                                                              |
 *     blk.N.attn_q.weight ... <- bind <- description, GGUF names <- gy_gguf_adapt
 *
 * Values are never moved: an architecture whose q and k rows were permuted when the file was made
 * rotates neighbouring pairs instead, and gemma's norms, stored as 1 + w, are plain ones. */
#ifndef GY_MODEL_GGUF_MAP_H
#define GY_MODEL_GGUF_MAP_H

#include "file/tensors.h"
#include "model/desc.h"

/* The metadata as config.json words. The caller frees out (gy_json_free). */
gy_rc gy_gguf_config(const gy_gguf *g, gy_json_doc *out, gy_err *err);

/* Turns a description made from those words into one of this file: names, pairing, norm form. */
gy_rc gy_gguf_adapt(const gy_gguf *g, gy_desc *d, gy_err *err);

/* True when q and k rows of this file are stored permuted: row 2 i of a head is row i of Hugging
 * Face's order, row 2 i + 1 is row i + rot/2 (rot: rotated dimensions). */
bool gy_gguf_permuted(const gy_gguf *g);

/* The Hugging Face name of a GGUF tensor ("blk.3.attn_q.weight" ->
 * "model.layers.3.self_attn.q_proj.weight"), by a description that gy_gguf_adapt has not touched;
 * its first root is used. False when the tensor has no role in it. */
bool gy_gguf_hf_name(const gy_desc *hf, const char *gguf, char out[256]);

#endif
