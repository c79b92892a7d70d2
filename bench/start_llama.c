/* start_llama MODEL THREADS CONTEXT PROMPT - llama.cpp from exec to the first token, greedy, and
 * nothing else: what llama-cli does without its warm-up, its chat and its reports. bench/start.py
 * builds and runs it. Prints the token's text; tokens of the prompt on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)level, (void)text, (void)data;
}

static void fail(const char *what) {
    fprintf(stderr, "start_llama: %s\n", what);
    exit(1);
}

int main(int argc, char **argv) {
    enum { MOST = 4096 };
    static llama_token token[MOST];
    char piece[256];
    if (argc != 5) fail("MODEL THREADS CONTEXT PROMPT");
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) fail("cannot load the model");
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)atoi(argv[3]);
    p.n_threads = p.n_threads_batch = atoi(argv[2]);
    struct llama_context *ctx = llama_init_from_model(model, p);
    if (!ctx) fail("cannot make a context");
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    int n = llama_tokenize(vocab, argv[4], (int)strlen(argv[4]), token, MOST, true, false);
    if (n < 1) fail("cannot tokenize");
    fprintf(stderr, "%d\n", n);
    if (llama_decode(ctx, llama_batch_get_one(token, n))) fail("cannot decode");
    const float *logits = llama_get_logits_ith(ctx, -1);
    int best = 0;
    for (int i = 1; i < llama_vocab_n_tokens(vocab); i++)
        if (logits[i] > logits[best]) best = i;
    int bytes = llama_token_to_piece(vocab, best, piece, sizeof piece, 0, true);
    fwrite(piece, 1, bytes > 0 ? (size_t)bytes : 0, stdout);
    fflush(stdout);
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}
