#!/usr/bin/env python3
"""One measurement of llama.cpp through llama-cpp-python, in the manner of llama-bench: prints a JSON object.

Run it with the interpreter of a virtual environment that has llama-cpp-python (built for this machine, outside the repo).
"""
import argparse
import ctypes
import json
import time

import llama_cpp as L


TYPES = {"f32": L.GGML_TYPE_F32, "f16": L.GGML_TYPE_F16, "q8_0": L.GGML_TYPE_Q8_0, "q4_0": L.GGML_TYPE_Q4_0,
         "q4_1": L.GGML_TYPE_Q4_1, "q5_0": L.GGML_TYPE_Q5_0}


def decode(ctx, rows):
    """One call with rows of (token, position, sequence); the last row of each sequence wants logits."""
    batch = L.llama_batch_init(len(rows), 0, 1)
    batch.n_tokens = len(rows)
    for i, (token, pos, seq) in enumerate(rows):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, pos, 1, seq
        batch.logits[i] = i + 1 == len(rows) or rows[i + 1][2] != seq
    if L.llama_decode(ctx, batch):
        raise SystemExit("llama_decode failed")
    L.llama_synchronize(ctx)
    L.llama_batch_free(batch)


def prefill(ctx, tokens, pos, count, sequences):
    """count tokens of every sequence from position pos on, 512 rows a call."""
    rows = [(tokens[i], pos + i, seq) for seq in range(sequences) for i in range(count)]
    for at in range(0, len(rows), 512):
        decode(ctx, rows[at:at + 512])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("-t", type=int, default=2)
    a.add_argument("-p", type=int, default=512)
    a.add_argument("-n", type=int, default=128)
    a.add_argument("-d", type=int, default=0)
    a.add_argument("-b", "--batch", type=int, default=1, help="sequences at once; rates are of all of them")
    a.add_argument("-r", type=int, default=2, help="runs; the last is reported")
    a.add_argument("-ctk", default="f16", choices=TYPES)
    a.add_argument("-ctv", default="f16", choices=TYPES)
    o = a.parse_args()
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    model = L.llama_model_load_from_file(o.model.encode(), L.llama_model_default_params())
    params = L.llama_context_default_params()
    params.n_seq_max = o.batch
    params.n_ctx = o.batch * ((o.d + max(o.p, o.n) + 319) // 256 * 256)  # shared out evenly, in steps of 256
    params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = o.t
    params.type_k, params.type_v = TYPES[o.ctk], TYPES[o.ctv]
    if o.ctv != "f16":  # quantised values need it
        params.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_ENABLED
    ctx = L.llama_init_from_model(model, params)
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    tokens = [(i * 7919 + 13) % vocab for i in range(max(o.p, o.n, o.d) + o.batch)]
    out = {}
    for name, count in (("pp", o.p), ("tg", o.n)):
        if not count:
            continue
        for _ in range(o.r):
            L.llama_memory_clear(L.llama_get_memory(ctx), True)
            prefill(ctx, tokens, 0, o.d, o.batch)
            start, cpu = time.perf_counter(), time.process_time()
            if name == "pp":
                prefill(ctx, tokens, o.d, count, o.batch)
            else:
                for i in range(count):
                    decode(ctx, [(tokens[i + seq], o.d + i, seq) for seq in range(o.batch)])
            out[name] = count * o.batch / (time.perf_counter() - start)
            out[name + "_cpu_ms"] = 1e3 * (time.process_time() - cpu) / (count * o.batch)  # of a token, on a busy machine
    print(json.dumps(out))


if __name__ == "__main__":
    main()
