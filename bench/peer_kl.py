#!/usr/bin/env python3
"""KL divergence that llama.cpp's KV types cause against its own f32 KV, over the windows that `gyre perplexity` scores.

    gyre tokenize MODEL --json < TEXT | VENV/bin/python bench/peer_kl.py MODEL [-c 512] [--windows 4] [--types f16,q8_0,q4_0]
"""
import argparse
import ctypes
import json
import sys

import llama_cpp as L
import numpy as np

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8}


def log_softmax(rows):
    top = rows.max(axis=1, keepdims=True)
    return rows - top - np.log(np.exp(rows - top).sum(axis=1, keepdims=True))


def rows_of(model, vocab, windows, size, kind, threads):
    params = L.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = size
    params.n_threads = params.n_threads_batch = threads
    params.type_k = params.type_v = TYPES[kind]
    params.flash_attn_type = 1  # coded V needs it; on for all, so that only the type differs
    ctx = L.llama_init_from_model(model, params)
    out = []
    for window in windows:
        L.llama_memory_clear(L.llama_get_memory(ctx), True)
        batch = L.llama_batch_init(size, 0, 1)
        batch.n_tokens = size - 1
        for i in range(size - 1):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = window[i], i, 1, 0
            batch.logits[i] = i >= size // 2
        if L.llama_decode(ctx, batch):
            raise SystemExit("llama_decode failed")
        for i in range(size // 2, size - 1):
            out.append(np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, i), shape=(vocab,)).copy())
        L.llama_batch_free(batch)
    L.llama_free(ctx)
    return np.array(out)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("-c", type=int, default=512)
    a.add_argument("-t", type=int, default=2)
    a.add_argument("--windows", type=int, default=4)
    a.add_argument("--types", default="f16,q8_0,q4_0")
    a.add_argument("--bos", type=int, default=-1)
    o = a.parse_args()
    ids = json.load(sys.stdin)["ids"]
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    model = L.llama_model_load_from_file(o.model.encode(), L.llama_model_default_params())
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    windows = [ids[i:i + o.c] for i in range(0, len(ids) - o.c + 1, o.c)][:o.windows]
    if o.bos >= 0:
        windows = [[o.bos, *w[1:]] for w in windows]
    base = rows_of(model, vocab, windows, o.c, "f32", o.t)
    for kind in o.types.split(","):
        other, total, same = rows_of(model, vocab, windows, o.c, kind, o.t), 0.0, 0
        for at in range(0, len(base), 64):
            p, q = log_softmax(base[at:at + 64].astype(np.float64)), log_softmax(other[at:at + 64].astype(np.float64))
            total += (np.exp(p) * (p - q)).sum()
            same += (p.argmax(1) == q.argmax(1)).sum()
        print(json.dumps({"kv": kind, "kl": total / len(base), "same_top": same / len(base), "tokens": len(base)}), flush=True)


if __name__ == "__main__":
    main()
