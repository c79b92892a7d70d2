/* gyre.h - run language models from C.
 *
 * Four nouns. A MODEL is an opened checkpoint: a mapping, its configuration, tokenizer and chat
 * template; constant after opening and shared by reference count. An ENGINE computes with one
 * model: threads, KV memory, one arithmetic. A SEQUENCE is one conversation inside an engine: its
 * tokens and what attention remembers of them. A REQUEST is what to generate; EVENTS report it as
 * it happens.
 *
 *     checkpoint --gy_model_open--> gy_model --gy_engine_new--> gy_engine --gy_seq_new--> gy_seq
 *     messages --gy_render--> text --gy_tokenize--> ids --gy_generate(.., request)--> events
 *
 * Ownership. X_new or X_open gives an object to the caller, who ends it with X_free or X_unref.
 * Every char* or array returned through an out parameter is freed with gy_free. const results are
 * borrowed and say until when.
 *
 * Errors. A fallible function returns a gy_rc and fills the caller's gy_err (which may be NULL)
 * with a message that names the file, field or argument and what was expected. On failure out
 * parameters are left untouched.
 *
 * Threads. A model may be used from any thread at once. An engine and its sequences belong to one
 * thread at a time. Only gy_cancel may be called from anywhere, including a signal handler.
 *
 * Equal bits. The tokens and logprobs of a request depend on the model, the KV codec, the
 * arithmetic and the request alone: not on other sequences in a step, chunking, threads, CPU type,
 * or how a prefix came to be there. gy_bits() names the revision of the arithmetic. */
#ifndef GYRE_H
#define GYRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GY_API __attribute__((visibility("default")))

/* ---- Errors and versions ---- */

typedef enum {
    GY_OK,
    GY_EIO,          /* the operating system refused: missing file, permission, disk, network */
    GY_EFORMAT,      /* bytes that break their own format's rules */
    GY_EUNSUPPORTED, /* well formed, but gyre does not do it */
    GY_ENOMEM,       /* allocation failed */
    GY_ELIMIT,       /* a stated limit would be exceeded: context, KV memory, request size */
    GY_ECANCEL,      /* gy_cancel was called, or a callback asked to stop */
    GY_EDEVICE,      /* a device failed; the engine is lost, the process is not */
    GY_EARG,         /* an argument is wrong: an unknown name, an id out of range */
    GY_ENOTFOUND,    /* no such model, file or revision */
    GY_EINTEGRITY    /* checksum or size differs from what was promised */
} gy_rc;

typedef struct {
    gy_rc rc;
    char msg[512]; /* UTF-8, NUL-terminated; the first failure of a call wins */
} gy_err;

GY_API const char *gy_rc_name(gy_rc rc); /* "format" for GY_EFORMAT; static */
GY_API const char *gy_version(void);     /* "0.1.0"; static */
GY_API int gy_bits(void); /* revision of the arithmetic; equal revisions give equal bits */
GY_API const char *gy_isa(
    void); /* instruction set in use: "avx512", "avx2", "neon", "generic"; static */
GY_API void gy_free(void *p); /* frees what an out parameter gave; NULL is fine */

/* ---- Finding and fetching models ---- */

/* Turns what a user typed into a path: an existing directory or .gguf file, "org/name[@revision]"
 * in the Hugging Face cache, or a unique case-insensitive part of a local model's name.
 * GY_ENOTFOUND lists the candidates. */
GY_API gy_rc gy_model_find(const char *name, char **path, gy_err *err);

/* All models found in the Hugging Face cache and GYRE_HOME/models, as a JSON array of objects
 * {"id","path","format","bytes","complete","revision"}. */
GY_API gy_rc gy_model_list(char **json, gy_err *err);

/* Progress of a long task. total is 0 when unknown. what is borrowed for the call. Return false to
 * cancel. */
typedef bool (*gy_progress_fn)(void *arg, const char *what, uint64_t done, uint64_t total);

typedef struct {
    const char *revision;  /* branch, tag or commit; NULL: "main" */
    const char *endpoint;  /* NULL: HF_ENDPOINT or https://huggingface.co */
    const char *token;     /* NULL: HF_TOKEN or $HF_HOME/token */
    const char *local_dir; /* NULL: the shared cache; else plain files in this directory */
    const char *include;   /* comma-separated globs; NULL: what gyre reads of a checkpoint */
    const char *exclude;   /* comma-separated globs; NULL: none */
    bool offline;          /* use what is there; fail otherwise */
    bool verify;           /* rehash files that are already there */
    gy_progress_fn progress;
    void *arg;
} gy_get_options;

/* Downloads a Hugging Face repository's checkpoint into the shared cache, resuming partial files by
 * range, and checks size and SHA-256. *path is the snapshot directory. */
GY_API gy_rc gy_get(const char *repo, const gy_get_options *options, char **path, gy_err *err);

/* Downloads one URL to a file, resuming FILE.incomplete by range; sha256: 64 hex digits or NULL. */
GY_API gy_rc gy_get_url(const char *url, const char *file, const char *sha256,
                        const gy_get_options *options, gy_err *err);

/* ---- Models ---- */

typedef struct gy_model gy_model;

typedef struct {
    const char *chat_template; /* source that replaces the checkpoint's; NULL: the checkpoint's */
    bool no_tokenizer;         /* open without tokenizer and template; text functions then fail */
    bool no_weights;           /* open tokenizer and template only; an engine cannot be made */
} gy_model_options;

/* Opens a directory with config.json and safetensors, or a .gguf file (first shard of several).
 * Maps, does not read: no tensor byte is touched. options may be NULL. */
GY_API gy_rc gy_model_open(const char *path, const gy_model_options *options, gy_model **model,
                           gy_err *err);
GY_API gy_model *gy_model_ref(gy_model *model);
GY_API void gy_model_unref(gy_model *model); /* NULL is fine */

typedef struct {
    const char *type;   /* model_type or GGUF architecture */
    const char *format; /* "safetensors" or "gguf" */
    const char *quant;  /* short description of the weights, such as "affine 4-bit g64" or "Q4_1" */
    int layers, width, vocab; /* vocab: rows of the output head, that is columns of logits */
    int context;        /* positions the model was made for; 0 if the configuration does not say */
    int64_t parameters; /* number of weights */
    int64_t weight_bytes; /* bytes of the mapping that hold them */
    const int32_t *eos;   /* ids that end an answer, ascending */
    int n_eos;
    bool has_tokenizer, has_template;
} gy_model_info;

GY_API void gy_model_get_info(const gy_model *model, gy_model_info *info); /* borrowed pointers */

/* The whole checkpoint as JSON: files, configuration, tensors with codec and shape, what was
 * dropped, KV bytes per token by codec. */
GY_API gy_rc gy_model_inspect(const gy_model *model, char **json, gy_err *err);

/* ---- Text ---- */

enum {
    GY_TOK_SPECIALS = 1, /* add what the post-processor adds: BOS, EOS */
    GY_TOK_PLAIN = 2     /* treat the names of special tokens in the text as ordinary text */
};

/* ids of text[bytes]. Text need not be valid UTF-8: bad bytes count as U+FFFD each. */
GY_API gy_rc gy_tokenize(const gy_model *model, const char *text, size_t bytes, unsigned flags,
                         int32_t **ids, int *n, gy_err *err);

/* Text of ids[n], special tokens left out if skip_special. *bytes may be NULL. NUL-terminated
 * besides. */
GY_API gy_rc gy_detokenize(const gy_model *model, const int32_t *ids, int n, bool skip_special,
                           char **text, size_t *bytes, gy_err *err);

/* The vocabulary's own spelling of one id; NULL if there is none. Borrowed from the model. */
GY_API const char *gy_token_name(const gy_model *model, int32_t id, size_t *bytes);

/* Renders a chat request body {"messages":[...],"tools":[...],"chat_template_kwargs":{...},
 * "add_generation_prompt":bool} (JSON text) with the model's template. */
GY_API gy_rc gy_render(const gy_model *model, const char *body, size_t bytes, char **text,
                       size_t *text_bytes, gy_err *err);

/* ---- Engines ---- */

typedef struct gy_engine gy_engine;
typedef struct gy_seq gy_seq;

typedef enum {
    GY_ARITH_DEFAULT, /* fast for quantised weights, which for others is the same as exact */
    GY_ARITH_EXACT,   /* f32 activations: what goldens test */
    GY_ARITH_FAST     /* activations coded to 8 bits per 32 for quantised weights */
} gy_arith;

typedef struct {
    int threads; /* 0: one per core that this process may use */
    gy_arith arith;
    /* KV codecs: "f16" (default), "f32", "bf16", "q8", "q4.32", "k8v4", "turbo", "turbo-k8v3",
     * "K.V" for two (README); or a file with one for each layer, named by a path with '/' or
     * ".json". */
    const char *kv;
    int context;     /* most positions of one sequence; 0: the model's, at most 32768 */
    int sequences;   /* sequences that can be full at once; 0: 1. Sets the KV memory */
    int chunk;       /* most rows of one step; 0: 512 */
    int64_t memory;  /* refuse an engine that would need more bytes when full; 0: no bound */
    const char *isa; /* force an instruction set ("generic"); NULL: GYRE_ISA or the best one */
    bool no_pack; /* read weights only as stored, without packed copies (same bits, less memory) */
    int64_t prefix_bytes;   /* memory for prefixes that later sequences share; 0: none are kept */
    const char *prefix_dir; /* folder of prefixes that outlive the process, see gy_engine_flush; any
                               number of processes may share it. NULL: none */
    int64_t prefix_dir_bytes; /* most bytes of prefix_dir; 0: 32 GiB */
} gy_engine_options;

typedef struct {
    int64_t weights, kv, prefix, scratch, total; /* bytes; kv with recurrent state */
    int64_t kv_token; /* bytes of one position more of one sequence, when windows are full */
    int context;      /* positions of each sequence */
    bool by_model;    /* more does not fit the model; else it does not fit the budget */
} gy_need;

/* Memory of an engine whose sequences are full, without making it. With a budget in bytes: the
 * largest context that fits it, and what that needs; GY_ELIMIT when none does. */
GY_API gy_rc gy_fit(gy_model *model, const gy_engine_options *options, int64_t budget,
                    gy_need *need, gy_err *err);

GY_API gy_rc gy_engine_new(gy_model *model, const gy_engine_options *options, gy_engine **engine,
                           gy_err *err);
GY_API void gy_engine_free(gy_engine *engine); /* after its sequences */

typedef struct {
    int threads, context, chunk;
    gy_arith arith;
    const char *kv;         /* codecs, spelled fully ("q8:g64"), or "per-layer"; borrowed */
    int64_t kv_bytes_token; /* bytes one position takes over all layers that keep everything */
    int64_t kv_bytes, scratch_bytes, packed_bytes;
    int64_t prefix_bytes;  /* of kv_bytes and tables, kept for later sequences */
    uint64_t kv_saturated; /* values that did not fit the KV codec and were clamped */
    int ops;               /* length of the plan */
} gy_engine_info;

GY_API void gy_engine_get_info(const gy_engine *engine, gy_engine_info *info);

/* Writes the shared prefixes that prefix_dir does not have, as far as it holds them; on GY_OK they
 * are durable. They are read whenever a request can use them; what cannot be read is computed. */
GY_API gy_rc gy_engine_flush(gy_engine *engine, gy_err *err);

/* Write-behind, while no request waits: writes at most `pages` pieces (64 positions of layers of
 * one kind) that a flush would; *left, may be NULL: those that remain. A piece that leaves memory
 * before is written then, unless the disk fails. */
GY_API gy_rc gy_engine_idle(gy_engine *engine, int pages, int *left, gy_err *err);

/* The plan as text, or as JSON. */
GY_API gy_rc gy_explain(const gy_engine *engine, bool json, char **text, gy_err *err);

/* Called after every operator of a step with its output: rows x cols f32, row-major with ld floats
 * from row to row, borrowed for the call. For debugging and porters; NULL turns it off. name is
 * like "12.attn". */
typedef void (*gy_trace_fn)(void *arg, int op, const char *name, const float *value, int rows,
                            int cols, int ld);
GY_API void gy_engine_trace(gy_engine *engine, gy_trace_fn fn, void *arg);

/* Makes the running or next gy_step and gy_generate return GY_ECANCEL; async-signal-safe. */
GY_API void gy_cancel(gy_engine *engine);

/* ---- Sequences ---- */

GY_API gy_rc gy_seq_new(gy_engine *engine, gy_seq **seq, gy_err *err);
GY_API void gy_seq_free(gy_engine *engine, gy_seq *seq); /* NULL is fine */
/* Shares memory. */
GY_API gy_rc gy_seq_fork(gy_engine *engine, const gy_seq *from, gy_seq **seq, gy_err *err);
GY_API int gy_seq_len(const gy_seq *seq);               /* positions held */
GY_API const int32_t *gy_seq_tokens(const gy_seq *seq); /* [len], until the next call on seq */

/* Forgets positions >= len; drafts before len stay, as when settled. Layers with a window need the
 * positions before len still held: GY_ELIMIT if they are gone, and the sequence is unchanged. */
GY_API gy_rc gy_seq_trim(gy_engine *engine, gy_seq *seq, int len, gy_err *err);

/* Keeps positions from `first` on, a multiple of 64, with other KV codecs (as in
 * gy_engine_options), what the sequence holds and what will come. No other sequence changes; this
 * one shares no prefixes from then on, cannot be saved, and cannot be trimmed to positions that
 * were computed from what the old codecs had kept (GY_ELIMIT). Codecs that those positions have
 * already change nothing, nor does a failure: GY_EARG also while drafts are unsettled or, after a
 * trim of a recurrent model, tokens wait to be replayed; GY_ELIMIT for a ninth choice of codecs in
 * one engine, the engine's own being the first, and for full KV memory; GY_EUNSUPPORTED for a codec
 * that the heads do not fit, and for a later border than an earlier call's. */
GY_API gy_rc gy_seq_transition(gy_engine *engine, gy_seq *seq, const char *kv, int first,
                               gy_err *err);

/* Writes a sequence to a file, replacing it as a whole; a power cut leaves the old file or the new
 * one. Loading gives a new sequence that goes on as the saved one would have, bit for bit, on any
 * machine. GY_ENOTFOUND, GY_EFORMAT, GY_EINTEGRITY for the file; GY_EARG for one of another model,
 * arithmetic or KV codec; GY_ELIMIT for one longer than the context. */
GY_API gy_rc gy_seq_save(gy_engine *engine, const gy_seq *seq, const char *path, gy_err *err);
GY_API gy_rc gy_seq_load(gy_engine *engine, const char *path, gy_seq **seq, gy_err *err);

/* One sequence's part of a step: n tokens to append, and the first of them whose logits are wanted
 * (n: none). The last `drafts` of them are a guess: gy_seq_settle must say how many stay before the
 * sequence is fed again. */
typedef struct {
    gy_seq *seq;
    const int32_t *ids; /* [n] */
    int n;
    int first_out;
    int drafts;
} gy_feed;

/* Ends a round of guessing: the first keep drafts stay, the others are forgotten. Never refused,
 * for keep in 0..drafts held. */
GY_API gy_rc gy_seq_settle(gy_engine *engine, gy_seq *seq, int keep, gy_err *err);

/* Appends every feed's tokens in one ragged batch; sequences must differ. logits receives [outs,
 * vocab] in the order of feeds and positions; logits beyond the tokenizer's size are -inf. The sum
 * of n may be anything: larger batches are cut into chunks, with equal bits. A wrong argument
 * changes no sequence. GY_ECANCEL, GY_ELIMIT and GY_ENOMEM come between chunks: what was finished
 * is held, feeds in their order (gy_seq_len tells), and only drafts that are held wait for
 * gy_seq_settle. What follows has the bits that it would have had. */
GY_API gy_rc gy_step(gy_engine *engine, const gy_feed *feeds, int n_feeds, float *logits,
                     gy_err *err);

/* ---- Sampling and generation ---- */

typedef struct {
    int32_t id;
    float bias; /* added to the logit */
} gy_logit_bias;

/* All-zero is greedy. Order of application: serving.md section 12. */
typedef struct {
    float temperature; /* <= 0: greedy, ties to the lowest id */
    int top_k;         /* 0: off */
    float top_p;       /* 0 or >= 1: off */
    float min_p;       /* 0: off */
    float typical_p;   /* 0 or >= 1: off */
    float top_n_sigma; /* 0: off */
    float xtc_probability, xtc_threshold;
    float repetition_penalty; /* 0 or 1: off */
    float frequency_penalty, presence_penalty;
    int penalty_last;                 /* tokens that count for penalties; 0: 64; < 0: all */
    float dry_multiplier, dry_base;   /* multiplier 0: off; base 0: 1.75 */
    int dry_allowed_length, dry_last; /* 0: 2; 0: all of the context */
    float dynatemp_range, dynatemp_exponent;
    int mirostat;                     /* 0 off, 1, 2 */
    float mirostat_tau, mirostat_eta; /* 0: 5, 0.1 */
    uint64_t seed;
    int min_keep; /* 0: 1 */
    int n_bias;
    const gy_logit_bias *bias; /* [n_bias] */
} gy_sampling;

typedef struct {
    int32_t id;
    float logprob; /* natural logarithm, of the distribution before temperature and filters */
} gy_logprob;

typedef struct {
    const int32_t *ids; /* [n] tokens to append before generating, at least one */
    int n;
    int max_tokens; /* 0: until the context is full */
    bool ignore_eos;
    gy_sampling sampling;
    const char *const *stop; /* [n_stop] strings that end the answer and are not part of it */
    int n_stop;
    int top_logprobs; /* alternatives per token, at most 20; logprob of the token itself is always
                         reported */
    bool no_prefix;   /* neither take nor leave a shared prefix, for measurements */
    const char *prefix_salt; /* prefixes are shared among requests of equal salts; NULL: "" */
} gy_request;

typedef enum { GY_EV_PREFILL, GY_EV_TOKEN, GY_EV_END } gy_event_kind;
typedef enum { GY_END_NONE, GY_END_STOP, GY_END_STRING, GY_END_LENGTH, GY_END_CANCEL } gy_end;

typedef struct {
    gy_event_kind kind;
    int done, total;  /* PREFILL: prompt tokens */
    int32_t id;       /* TOKEN */
    int pos;          /* TOKEN: its absolute position */
    const char *text; /* TOKEN, END: text that became certain, whole code points; may be empty */
    size_t bytes;
    float logprob;
    const gy_logprob *top; /* [n_top], descending */
    int n_top;
    gy_end end; /* END */
} gy_event;

typedef bool (*gy_event_fn)(void *arg, const gy_event *event); /* borrowed; false stops */

typedef struct {
    int prompt_tokens, tokens; /* appended by this request; generated */
    int cached_tokens; /* of prompt_tokens, found as a shared prefix: same bits, less time */
    gy_end end;
    double prefill_s, decode_s;
} gy_result;

/* Appends the request's ids, then generates. The last token sampled is not yet in the sequence,
 * exactly like a token that a user typed; it is passed again with the next request's ids. An end
 * token has no TOKEN event. GY_ECANCEL after gy_cancel, with END reported and result filled. result
 * may be NULL. */
GY_API gy_rc gy_generate(gy_engine *engine, gy_seq *seq, const gy_request *request, gy_event_fn fn,
                         void *arg, gy_result *result, gy_err *err);

/* Samples one id from logits[n]. pos is the index of the token in the answer, from 0: the random
 * numbers are a function of (seed, pos) alone. history[n_history] are the tokens before it, oldest
 * first, of which the last pos are the answer's (penalties). logits are not changed. GY_EARG if a
 * logit is NaN. */
GY_API gy_rc gy_sample(const gy_sampling *sampling, const float *logits, int n,
                       const int32_t *history, int n_history, int pos, int32_t *id, float *logprob,
                       gy_err *err);

/* ---- Conversion ---- */

/* Writes a model as an MLX directory whose values are exactly the source's; GY_EUNSUPPORTED names
 * the first tensor that has no exact form. Written beside the target and renamed when whole. */
GY_API gy_rc gy_convert(const char *source, const char *target, gy_progress_fn progress, void *arg,
                        gy_err *err);

#ifdef __cplusplus
}
#endif
#endif
