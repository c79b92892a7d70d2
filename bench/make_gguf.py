#!/usr/bin/env python3
"""Models of a known shape with random weights, for measuring: GGUF files and MLX folders of the same values.

    VENV/bin/python bench/make_gguf.py llama-3.2-1b q4_0 q4_1 q8_0 q4_k affine4-g32 mxfp4 -o /work/models/bench

Needs numpy. One draw serves every format. A weight is (c - 128) / 16 * s * D with a random byte c, a whole s in 32..63 of each
64 columns and a power of two D of the tensor, so that D * s is exact in f16 and bf16: the 4-bit formats Q4_0, Q4_1, Q4_K and
affine 4-bit all hold ((c >> 4) - 8) * s * D and are the same model; Q8_0 and affine 8-bit hold all of c and are the same model;
mxfp4 rounds the 4-bit values to its grid. All matrices of a file have one format (llama-quantize --pure), embedding and head
are tied as in the models themselves, and vocabularies are of full size with made-up tokens.
"""
import argparse
import json
import pathlib
import struct
import zlib

import numpy as np

# arch: GGUF architecture and its pre-tokenizer; special: first id of the control tokens, bos, eos.
SHAPES = {
    "llama-3.2-1b": dict(arch="llama", pre="llama-bpe", hidden=2048, ffn=8192, layers=16, heads=32, kv=8, dim=64, vocab=128256,
                         theta=5e5, eps=1e-5, factor=32.0, special=128000, bos=128000, eos=128001),
    "llama-3.2-3b": dict(arch="llama", pre="llama-bpe", hidden=3072, ffn=8192, layers=28, heads=24, kv=8, dim=128, vocab=128256,
                         theta=5e5, eps=1e-5, factor=32.0, special=128000, bos=128000, eos=128001),
    "qwen3-0.6b": dict(arch="qwen3", pre="qwen2", hidden=1024, ffn=3072, layers=28, heads=16, kv=8, dim=128, vocab=151936,
                       theta=1e6, eps=1e-6, factor=0.0, special=151643, bos=151643, eos=151645),
    "tiny": dict(arch="llama", pre="llama-bpe", hidden=256, ffn=512, layers=2, heads=4, kv=2, dim=64, vocab=1024,
                 theta=5e5, eps=1e-5, factor=32.0, special=1000, bos=1000, eos=1001),
}
GGUF = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144)}  # ggml type, block, its bytes
FILE_TYPE = {"q4_0": 2, "q4_1": 3, "q8_0": 7, "q4_k": 14}
MLX = {"affine4-g32": (4, 32), "affine4-g64": (4, 64), "affine8-g32": (8, 32), "affine8-g64": (8, 64), "mxfp4": (4, 32)}
CHUNK = 4096  # rows drawn at once; part of the draw's definition
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])


# ---- Values ----

def scale_of(cols):
    """D: a weight's deviation is about 218 D, and 1 / sqrt(cols) keeps a product's size."""
    return 2.0 ** round(np.log2(cols ** -.5 / 218))


def draw(name, rows, cols):
    """Chunks of (c u8 [n, cols], s u8 [n, cols / 64]), the same for every format; name: Hugging Face's."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for at in range(0, rows, CHUNK):
        n = min(CHUNK, rows - at)
        yield rng.integers(0, 256, (n, cols), np.uint8), rng.integers(32, 64, (n, cols // 64), np.uint8)


def norm_values(name, n):
    return 1 + np.random.default_rng(zlib.crc32(name.encode())).integers(-16, 17, n).astype(np.float32) / 64


def rope_factors(m):
    """Llama 3's division of each frequency (factor, low 1, high 4, 8192 positions of old)."""
    freq = m["theta"] ** -(np.arange(0, m["dim"], 2) / m["dim"])
    wave = 2 * np.pi / freq
    smooth = (8192 / wave - 1) / 3
    mid = 1 / ((1 - smooth) / m["factor"] + smooth)
    return np.where(wave < 2048, 1, np.where(wave > 8192, m["factor"], mid)).astype(np.float32)


# ---- GGUF blocks ----

def halves(q, width):
    """Codes [n, blocks, 2 * width] as bytes: low nibbles are the first half of a block, high ones the second."""
    q = q.reshape(q.shape[0], -1, 2, width)
    return q[:, :, 0] | q[:, :, 1] << 4


def block_bytes(fmt, c, s, D):
    n, cols = c.shape
    s32 = np.repeat(s, 2, 1)
    if fmt == "q8_0":
        d = (s32 * np.float32(D / 16)).astype("<f2")[..., None].view(np.uint8)
        return np.concatenate([d, (c ^ 0x80).reshape(n, -1, 32)], 2)
    q = c >> 4
    if fmt == "q4_k":
        sc = s32.reshape(n, cols // 256, 8)  # a scale and a least value of six bits each; here they are equal numbers
        head = np.broadcast_to(np.array([D, 8 * D], "<f2").view(np.uint8), (n, cols // 256, 4))
        low = sc[..., :4] | (sc[..., 4:] >> 4) << 6
        return np.concatenate([head, low, low, (sc[..., 4:] & 15) * 17, halves(q, 32).reshape(n, -1, 128)], 2)
    d = (s32 * np.float32(D)).astype("<f2")
    head = d[..., None] if fmt == "q4_0" else np.stack([d, -8 * d], 2)
    return np.concatenate([np.ascontiguousarray(head).view(np.uint8), halves(q, 16)], 2)


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def kv(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value[0], str):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + np.array(value, "<i4").tobytes()


# ---- Vocabulary ----

def vocabulary(m):
    """Tokens, their GGUF types and merges: 256 bytes in GPT-2's letters, words of 2, 3 ... small letters, control tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in set(plain)]
    tokens = [chr(b) for b in plain] + [chr(256 + i) for i in range(len(other))]
    letters = [chr(ord("a") + i) for i in range(26)]
    merges, last = [], letters
    while len(tokens) < m["special"]:
        last = [(w, a) for w in last for a in letters][:m["special"] - len(tokens)]
        merges += [f"{w} {a}" for w, a in last]
        last = [w + a for w, a in last]
        tokens += last
    named = {m["bos"]: "<|begin_of_text|>", m["eos"]: "<|end_of_text|>"}
    types = [1] * len(tokens) + [3] * (m["vocab"] - len(tokens))
    tokens += [named.get(i, f"<|reserved_{i}|>") for i in range(len(tokens), m["vocab"])]
    return tokens, types, merges


SPLIT = {"llama-bpe": 3, "qwen2": 1}  # digits that stay together


def tokenizer_json(m, voc):
    tokens, types, merges = voc
    split = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
             % SPLIT[m["pre"]])
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True} for i, t in enumerate(tokens) if types[i] == 3],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {t: i for i, t in enumerate(tokens) if types[i] == 1}, "merges": merges}}


# ---- Tensors ----

def tensors(m):
    """(Hugging Face name, GGUF name, rows or 0 for a vector, cols) in the order of the layers."""
    h, qkv = m["hidden"], m["dim"]
    yield "model.embed_tokens", "token_embd", m["vocab"], h
    for i in range(m["layers"]):
        hf, g = f"model.layers.{i}.", f"blk.{i}."
        yield hf + "input_layernorm", g + "attn_norm", 0, h
        yield hf + "self_attn.q_proj", g + "attn_q", m["heads"] * qkv, h
        yield hf + "self_attn.k_proj", g + "attn_k", m["kv"] * qkv, h
        yield hf + "self_attn.v_proj", g + "attn_v", m["kv"] * qkv, h
        yield hf + "self_attn.o_proj", g + "attn_output", h, m["heads"] * qkv
        if m["arch"] == "qwen3":
            yield hf + "self_attn.q_norm", g + "attn_q_norm", 0, qkv
            yield hf + "self_attn.k_norm", g + "attn_k_norm", 0, qkv
        yield hf + "post_attention_layernorm", g + "ffn_norm", 0, h
        yield hf + "mlp.gate_proj", g + "ffn_gate", m["ffn"], h
        yield hf + "mlp.up_proj", g + "ffn_up", m["ffn"], h
        yield hf + "mlp.down_proj", g + "ffn_down", h, m["ffn"]
    yield "model.norm", "output_norm", 0, h


def permuted(m, g, parts):
    """GGUF's llama holds the rows of q and k in pairs: row 2 i of a head is row i, row 2 i + 1 is row i + dim / 2."""
    if m["arch"] != "llama" or not g.endswith(("attn_q", "attn_k")):
        return parts
    whole = [np.concatenate(a) for a in zip(*parts)]
    heads = m["dim"]
    return [tuple(a.reshape(-1, 2, heads // 2, a.shape[1]).swapaxes(1, 2).reshape(a.shape) for a in whole)]


def write_gguf(path, name, m, fmt):
    kind, block, size = GGUF[fmt]
    arch, (tokens, types, merges) = m["arch"], vocabulary(m)
    meta = {"general.architecture": arch, "general.name": f"{name} random {fmt}", "general.file_type": FILE_TYPE[fmt],
            "general.quantization_version": 2, f"{arch}.block_count": m["layers"], f"{arch}.context_length": 32768,
            f"{arch}.embedding_length": m["hidden"], f"{arch}.feed_forward_length": m["ffn"],
            f"{arch}.attention.head_count": m["heads"], f"{arch}.attention.head_count_kv": m["kv"],
            f"{arch}.attention.key_length": m["dim"], f"{arch}.attention.value_length": m["dim"],
            f"{arch}.attention.layer_norm_rms_epsilon": m["eps"], f"{arch}.rope.dimension_count": m["dim"],
            f"{arch}.rope.freq_base": m["theta"], f"{arch}.vocab_size": m["vocab"],
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": m["pre"], "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": m["bos"],
            "tokenizer.ggml.eos_token_id": m["eos"], "tokenizer.ggml.add_bos_token": arch == "llama"}
    table, at, extra = [], 0, [("rope_freqs", 0, m["dim"] // 2)] if m["factor"] else []
    for g, rows, cols in [(g, r, c) for _, g, r, c in tensors(m)] + extra:
        dims = (cols, rows) if rows else (cols,)
        table.append(text(g + ".weight") + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind if rows else 0, at))
        at += (rows * cols // block * size if rows else 4 * cols) + 31 & ~31
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(table), len(meta)) + b"".join(kv(*p) for p in meta.items()) + b"".join(table))
        pad = lambda: f.write(bytes(-f.tell() % 32))
        pad()
        for hf, g, rows, cols in tensors(m):
            if not rows:
                f.write(norm_values(hf, cols).astype("<f4").tobytes())
            else:
                for c, s in permuted(m, g, draw(hf, rows, cols)):
                    f.write(block_bytes(fmt, c, s, scale_of(cols)).tobytes())
            pad()
        if extra:
            f.write(rope_factors(m).tobytes())
            pad()


# ---- MLX ----

def bf16(x):
    """Values that bf16 holds exactly."""
    return (np.ascontiguousarray(x, "<f4").view("<u4") >> 16).astype("<u2")


def mx_table():
    """[64, 16]: the fp4 code nearest to (c - 8) * s / 128."""
    v = (np.arange(16)[None] - 8) * np.arange(64)[:, None] / 128
    return (np.abs(np.abs(v)[..., None] - FP4).argmin(2) + 8 * (v < 0)).astype(np.uint8)


def planes(fmt, c, s, D):
    """One chunk's planes: codes as bytes, scales, and biases unless mxfp4."""
    bits, group = MLX[fmt]
    if fmt == "mxfp4":
        q = mx_table()[np.repeat(s, 64, 1), c >> 4]
        return q[:, ::2] | q[:, 1::2] << 4, np.full((len(c), c.shape[1] // 32), 127 + round(np.log2(128 * D)), np.uint8)
    codes = c if bits == 8 else c[:, ::2] >> 4 | c[:, 1::2] & 0xF0
    scale = np.repeat(s, 64 // group, 1) * np.float32(D / 16 if bits == 8 else D)
    return codes, bf16(scale), bf16(scale * np.float32(-128 if bits == 8 else -8))


def write_mlx(path, name, m, fmt):
    bits, group = MLX[fmt]
    path.mkdir(parents=True, exist_ok=True)
    header, at, unit = {}, 0, {"U32": 4, "U8": 1, "BF16": 2}

    def add(key, dtype, shape):
        nonlocal at
        size = int(np.prod(shape)) * unit[dtype]
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size

    for hf, _, rows, cols in tensors(m):
        if not rows:
            add(hf + ".weight", "BF16", [cols])
            continue
        add(hf + ".weight", "U32", [rows, cols * bits // 32])
        add(hf + ".scales", "U8" if fmt == "mxfp4" else "BF16", [rows, cols // group])
        if fmt != "mxfp4":
            add(hf + ".biases", "BF16", [rows, cols // group])
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for hf, _, rows, cols in tensors(m):
            if not rows:
                f.write(bf16(norm_values(hf, cols)).tobytes())
                continue
            for plane in zip(*(planes(fmt, c, s, scale_of(cols)) for c, s in draw(hf, rows, cols))):
                for part in plane:
                    f.write(part.tobytes())
    quant = {"group_size": group, "bits": bits, **({"mode": "mxfp4"} if fmt == "mxfp4" else {})}
    config = {"model_type": m["arch"], "hidden_size": m["hidden"], "intermediate_size": m["ffn"],
              "num_hidden_layers": m["layers"], "num_attention_heads": m["heads"], "num_key_value_heads": m["kv"],
              "head_dim": m["dim"], "vocab_size": m["vocab"], "rms_norm_eps": m["eps"], "rope_theta": m["theta"],
              "max_position_embeddings": 32768, "tie_word_embeddings": True, "hidden_act": "silu", "bos_token_id": m["bos"],
              "eos_token_id": m["eos"], "quantization": quant}
    if m["factor"]:
        config["rope_scaling"] = {"rope_type": "llama3", "factor": m["factor"], "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 8192}
    (path / "config.json").write_text(json.dumps(config, indent=1))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer_json(m, vocabulary(m)), ensure_ascii=True))
    (path / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "tokenizer_class": "PreTrainedTokenizerFast"}))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("shape", choices=SHAPES)
    a.add_argument("format", nargs="+", choices=[*GGUF, *MLX], metavar="FORMAT", help=" ".join([*GGUF, *MLX]))
    a.add_argument("-o", default="/work/models/bench", type=pathlib.Path, help="folder")
    a.add_argument("-f", action="store_true", help="write again what is there")
    o = a.parse_args()
    o.o.mkdir(parents=True, exist_ok=True)
    for fmt in o.format:
        path = o.o / (f"{o.shape}-{fmt}" + (".gguf" if fmt in GGUF else ""))
        if o.f or not path.exists():
            part = path.with_name(path.name + ".part")
            (write_gguf if fmt in GGUF else write_mlx)(part, o.shape, SHAPES[o.shape], fmt)
            if path.is_dir():
                for old in path.iterdir():
                    old.unlink()
                path.rmdir()
            part.replace(path)
        size = sum(f.stat().st_size for f in path.iterdir()) if path.is_dir() else path.stat().st_size
        print(f"{path}\t{size}", flush=True)


if __name__ == "__main__":
    main()
