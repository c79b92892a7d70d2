#!/usr/bin/env python3
"""Writes tests/data/convert/*.gguf: tiny models with random weights for the tests of conversion.

    mix.gguf     llama, byte-level BPE; every block type of 32 values that has an exact MLX form, and F16
    spm.gguf     gemma2, scored vocabulary with byte tokens; Q8_0, norms stored as 1 + w
    inexact.gguf llama with one IQ4_NL tensor, which has no exact form

Blocks are random bytes with small f16 scales. The seed is fixed.
    python3 tools/gen_tiny_gguf.py
"""
import random
import struct
from pathlib import Path

U32, F32, BOOL, STR, ARR = 4, 6, 7, 8, 9
# type id, bytes of a block, values, offsets of f16 fields
TYPES = {"F32": (0, 4, 1, []), "F16": (1, 2, 1, []), "Q4_0": (2, 18, 32, [0]), "Q4_1": (3, 20, 32, [0, 2]),
         "Q5_0": (6, 22, 32, [0]), "Q5_1": (7, 24, 32, [0, 2]), "Q8_0": (8, 34, 32, [0]), "IQ4_NL": (20, 18, 32, [0]),
         "MXFP4": (39, 17, 32, [])}
SPREAD = {"Q4_0": 8, "Q4_1": 8, "Q5_0": 16, "Q5_1": 16, "Q8_0": 128, "IQ4_NL": 128}

rnd = random.Random(20261130)


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(t, v):
    if t == STR:
        return string(v)
    if t == ARR:
        item, items = v
        return struct.pack("<IQ", item, len(items)) + b"".join(value(item, x) for x in items)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", 5: "<i"}[t], v)


def data(kind, n, norm):
    _, size, values, reals = TYPES[kind]
    if kind in ("F32", "F16"):
        code = "<f" if kind == "F32" else "<e"
        return b"".join(struct.pack(code, (1 if norm else 0) + rnd.randint(-255, 255) / 2048) for _ in range(n))
    out = b""
    for _ in range(n // values):
        b = bytearray(rnd.randbytes(size))
        for i, at in enumerate(reals):
            d = rnd.uniform(0.05, 0.2) / SPREAD[kind]
            b[at:at + 2] = struct.pack("<e", -d * SPREAD[kind] / 1.5 if i else d)
        if kind == "MXFP4":
            b[0] = rnd.randint(118, 124)
        out += bytes(b)
    return out


def write(name, meta, tensors):
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(meta))
    for key, t, v in meta:
        head += string(key) + struct.pack("<I", t) + value(t, v)
    blobs, at = b"", 0
    for tensor, shape, kind in tensors:
        size = 1
        for s in shape:
            size *= s
        blob = data(kind, size, "norm" in tensor)
        head += string(tensor) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", s) for s in reversed(shape))
        head += struct.pack("<IQ", TYPES[kind][0], at)
        blob += b"\0" * (-len(blob) % 32)
        blobs += blob
        at += len(blob)
    head += b"\0" * (-len(head) % 32)
    path = Path(__file__).resolve().parent.parent / "tests/data/convert" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + blobs)
    print(path, path.stat().st_size)


def byte_alphabet():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    return [chr(b if b in keep else 256 + sum(1 for c in range(b) if c not in keep)) for b in range(256)]


def bpe_vocab():
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"]
    types = [3, 3, 3, 4]
    tokens += byte_alphabet()
    merges = []
    for word in ("\u0120the", "\u0120a", "ing", "\u0120he", "llo", "lo", "er", "\u0120world", "'s", "12", "\u0120\u0120",
                 "\u010a\u010a", "aa", "aaaa"):
        left = word[0]
        for c in word[1:]:
            pair = (left, c)
            if "".join(pair) not in tokens:
                merges.append(" ".join(pair))
                tokens.append("".join(pair))
            left += c
    types += [1] * (len(tokens) - len(types))
    return tokens, types, merges


def spm_vocab():
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    types = [3, 3, 3, 2, 3, 3]
    scores = [0.0] * 6
    for b in range(256):
        tokens.append("<0x%02X>" % b), types.append(6), scores.append(0.0)
    words = ["\u2581the", "\u2581a", "ing", "\u2581he", "llo", "lo", "er", "\u2581world", "12", "\u2581\u2581", "aa", "aaaa", "\n\n"]
    rank = 0
    for word in words:
        for n in range(2, len(word) + 1):
            if word[:n] not in tokens:
                tokens.append(word[:n]), types.append(1), scores.append(float(-rank))
                rank += 1
    for c in "\u2581etaoinshrdlucmfwypvbgkjqxz\n12ETA.,!":
        tokens.append(c), types.append(1), scores.append(float(-1000 - rank))
        rank += 1
    return tokens, types, scores


def layers(n, width, heads, kv, dim, ffn, kinds, norms):
    out = []
    for i in range(n):
        k = iter(kinds[i])
        p = "blk.%d." % i
        out += [(p + norm + ".weight", (width,), "F32") for norm in norms]
        for leaf, shape in (("attn_q", (heads * dim, width)), ("attn_k", (kv * dim, width)), ("attn_v", (kv * dim, width)),
                            ("attn_output", (width, heads * dim)), ("ffn_gate", (ffn, width)), ("ffn_up", (ffn, width)),
                            ("ffn_down", (width, ffn))):
            out.append((p + leaf + ".weight", shape, next(k)))
    return out


def llama(name, kinds, embed):
    tokens, types, merges = bpe_vocab()
    width, heads, kv, dim, ffn = 64, 4, 2, 16, 96
    meta = [("general.architecture", STR, "llama"), ("llama.block_count", U32, len(kinds)),
            ("llama.context_length", U32, 512), ("llama.embedding_length", U32, width),
            ("llama.feed_forward_length", U32, ffn), ("llama.attention.head_count", U32, heads),
            ("llama.attention.head_count_kv", U32, kv), ("llama.rope.dimension_count", U32, dim),
            ("llama.rope.freq_base", F32, 10000.0), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
            ("tokenizer.ggml.model", STR, "gpt2"), ("tokenizer.ggml.pre", STR, "smollm"),
            ("tokenizer.ggml.tokens", ARR, (STR, tokens)), ("tokenizer.ggml.token_type", ARR, (5, types)),
            ("tokenizer.ggml.merges", ARR, (STR, merges)), ("tokenizer.ggml.bos_token_id", U32, 1),
            ("tokenizer.ggml.eos_token_id", U32, 2), ("tokenizer.ggml.add_bos_token", BOOL, False),
            ("tokenizer.chat_template", STR, "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                                             "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")]
    tensors = [("token_embd.weight", (len(tokens), width), embed), ("output_norm.weight", (width,), "F32")]
    write(name, meta, tensors + layers(len(kinds), width, heads, kv, dim, ffn, kinds, ("attn_norm", "ffn_norm")))


def gemma(name):
    tokens, types, scores = spm_vocab()
    width, heads, kv, dim, ffn, n = 64, 2, 1, 32, 64, 2
    meta = [("general.architecture", STR, "gemma2"), ("gemma2.block_count", U32, n), ("gemma2.context_length", U32, 512),
            ("gemma2.embedding_length", U32, width), ("gemma2.feed_forward_length", U32, ffn),
            ("gemma2.attention.head_count", U32, heads), ("gemma2.attention.head_count_kv", U32, kv),
            ("gemma2.attention.key_length", U32, dim), ("gemma2.attention.value_length", U32, dim),
            ("gemma2.attention.layer_norm_rms_epsilon", F32, 1e-6), ("gemma2.attn_logit_softcapping", F32, 50.0),
            ("gemma2.final_logit_softcapping", F32, 30.0), ("gemma2.attention.sliding_window", U32, 64),
            ("tokenizer.ggml.model", STR, "llama"), ("tokenizer.ggml.tokens", ARR, (STR, tokens)),
            ("tokenizer.ggml.token_type", ARR, (5, types)), ("tokenizer.ggml.scores", ARR, (F32, scores)),
            ("tokenizer.ggml.bos_token_id", U32, 2), ("tokenizer.ggml.eos_token_id", U32, 1),
            ("tokenizer.ggml.unknown_token_id", U32, 3), ("tokenizer.ggml.add_bos_token", BOOL, True),
            ("tokenizer.ggml.add_space_prefix", BOOL, False)]
    tensors = [("token_embd.weight", (len(tokens), width), "Q8_0"), ("output_norm.weight", (width,), "F32")]
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    write(name, meta, tensors + layers(n, width, heads, kv, dim, ffn, [["Q8_0"] * 7] * n, norms))


llama("mix.gguf", [["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_0", "F16", "MXFP4"],
                   ["Q8_0", "Q5_1", "F16", "Q4_1", "MXFP4", "Q5_0", "Q4_0"]], "Q8_0")
gemma("spm.gguf")
llama("inexact.gguf", [["Q4_0", "Q4_1", "IQ4_NL", "Q5_1", "Q4_0", "F16", "Q8_0"]], "Q4_0")
