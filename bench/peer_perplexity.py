#!/usr/bin/env python3
"""llama.cpp's perplexity over the windows that `gyre perplexity` scores: same ids, same positions.

    gyre tokenize MODEL --json < TEXT | VENV/bin/python bench/peer_perplexity.py MODEL [-c 512]
"""
import argparse
import ctypes
import json
import math
import sys

import llama_cpp as L
import numpy as np


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("-c", type=int, default=512)
    a.add_argument("-t", type=int, default=2)
    a.add_argument("--bos", type=int, default=-1)
    o = a.parse_args()
    ids = json.load(sys.stdin)["ids"]
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    model = L.llama_model_load_from_file(o.model.encode(), L.llama_model_default_params())
    params = L.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = o.c
    params.n_threads = params.n_threads_batch = o.t
    ctx = L.llama_init_from_model(model, params)
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    total, count = 0.0, 0
    for start in range(0, len(ids) - o.c + 1, o.c):
        window = ids[start:start + o.c]
        if o.bos >= 0:
            window[0] = o.bos
        L.llama_memory_clear(L.llama_get_memory(ctx), True)
        batch = L.llama_batch_init(o.c, 0, 1)
        batch.n_tokens = o.c - 1
        for i in range(o.c - 1):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = window[i], i, 1, 0
            batch.logits[i] = i >= o.c // 2
        if L.llama_decode(ctx, batch):
            raise SystemExit("llama_decode failed")
        for i in range(o.c // 2, o.c - 1):
            row = np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, i), shape=(vocab,)).astype(np.float64)
            top = row.max()
            total += math.log(np.exp(row - top).sum()) - (row[window[i + 1]] - top)
            count += 1
        L.llama_batch_free(batch)
    print(json.dumps({"perplexity": math.exp(total / count), "tokens": count}))


if __name__ == "__main__":
    main()
