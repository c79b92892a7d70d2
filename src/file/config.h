/* file/config - the JSON files of a checkpoint directory, checked.
 *
 * gy_config_open reads config.json (required) and generation_config.json, tokenizer_config.json and
 * the chat templates (optional, absent = NULL). It checks what ../shared/cases/config asks of a
 * config: kinds, ranges and consistency of the fields that every family reads, and the quantization
 * block. With text_only config.json may be absent too, and is not checked: it is only asked for end
 * ids. Family-specific meaning belongs to model/. Owner: the caller, until gy_config_close. */
#ifndef GY_FILE_CONFIG_H
#define GY_FILE_CONFIG_H

#include "base/json.h"

typedef struct {
    gy_json_doc config, generation, tokenizer, special; /* root NULL when the file is absent */
    char *template_default; /* source, or NULL: chat_template.jinja, chat_template.json, else the
                               tokenizer_config entry */
    struct {
        char *name, *source;
    } template_named[16];
    int n_named; /* list form, additional_chat_templates/NAME.jinja */
} gy_config;

gy_rc gy_config_open(gy_config *c, const char *dir, bool text_only, gy_err *err);
void gy_config_close(gy_config *c);

/* The checks alone, for a configuration from elsewhere. Names the field, what was found and what
 * was expected. */
gy_rc gy_config_check(const gy_json *root, gy_err *err);
/* Its part for the quantization block. */
gy_rc gy_config_quant_check(const gy_json *config, gy_err *err);

/* How one weight is quantised, from config's quantization (or quantization_config) block: the entry
 * of the longest module path that matches, else the block's own values. kv.md 2.7.
 *
 * A path matches when it equals module, or does so once leading "model.", "language_model." and
 * "text_model." components are left out on both sides. An entry (named) binds: shapes that disagree
 * are an error. Without one the values are the block's defaults: a module without X.scales is
 * dense, and shapes decide the rest. */
typedef struct {
    bool quantised;  /* false: the module is dense, or there is no block */
    bool named;      /* an entry names this module */
    int bits, group; /* 0 when the block does not say; shapes decide then */
    char mode[12];   /* "affine", "mxfp4", "mxfp8", "nvfp4", "trellis", "fp8" (weight_scale_inv in
                        blocks) */
} gy_config_quant;
gy_rc gy_config_quant_of(const gy_json *config, const char *module, gy_config_quant *out,
                         gy_err *err);

#endif
