#!/usr/bin/env python3
"""Writes tests/data/file: small safetensors, GGUF, index and config cases with their verdicts.

    tools/make_file_cases.py tests/data/file

The manifests have the form of ../shared/cases: expect load, reject or either; class says what a refusal has to be
about; names is what its message must contain beside the file (default: the file's name).
"""
import json
import os
import struct
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else "tests/data/file"


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def manifest(folder, cases):
    text = ",\n".join("  " + json.dumps(c) for c in cases)
    write(f"{ROOT}/{folder}/manifest.json", '{"cases": [\n' + text + "\n]}\n")


# ---- safetensors ----

def header(text, data=b""):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def st(entries, data=b""):
    return header(json.dumps(entries), data)


F4 = struct.pack("<4f", 1, 2, 3, 4)


def safetensors_cases():
    cases = []

    def add(name, data, expect, cls=None, **more):
        write(f"{ROOT}/safetensors/{name}", data)
        cases.append({"file": name, "expect": expect, **({"class": cls} if cls else {}), **more})

    add("one.safetensors", st({"w": entry("F32", [2, 2], 0, 16)}, F4), "load", tensors={"w": [[1, 2], [3, 4]]})
    add("order.safetensors", st({"b": entry("F32", [2], 8, 16), "a": entry("F32", [2], 0, 8)}, F4), "load",
        tensors={"a": [1, 2], "b": [3, 4]})
    add("empty_between.safetensors",
        st({"a": entry("F32", [2], 0, 8), "z": entry("F32", [0, 7], 8, 8), "b": entry("F32", [2], 8, 16)}, F4), "load",
        tensors={"a": [1, 2], "z": [], "b": [3, 4]})
    add("header_of_640_bytes.safetensors",  # its length begins like a Python pickle
        header(json.dumps({"w": entry("F32", [2, 2], 0, 16)}).ljust(640), F4), "load",
        tensors={"w": [[1, 2], [3, 4]]})
    add("nested_metadata.safetensors", st({"__metadata__": {"a": {}}, "w": entry("F32", [4], 0, 16)}, F4), "reject",
        "header")
    add("twice_inside.safetensors",
        header('{"w":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}}', F4), "reject", "duplicate")
    add("float_dim.safetensors", header('{"w":{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]}}', F4), "reject",
        "shape", names="\"w\"")
    add("nine_dims.safetensors", st({"w": entry("F32", [1] * 8 + [4], 0, 16)}, F4), "reject", "shape", names="\"w\"")
    add("half_byte.safetensors", st({"w": entry("F4", [3], 0, 2)}, b"\0\0"), "reject", "shape", names="\"w\"")
    add("nul_in_name.safetensors", header('{"a\\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "reject",
        "header")
    add("entry_is_list.safetensors", st({"w": [1, 2]}), "reject", "header")
    add("gguf.safetensors", b"GGUF\3\0\0\0" + bytes(40), "reject", "not-safetensors")
    add("cut_in_data.safetensors", st({"w": entry("F32", [4], 0, 16)}, F4[:9]), "reject", "truncated", names="\"w\"")
    add("zero_inside.safetensors",
        st({"a": entry("F32", [4], 0, 16), "z": entry("U8", [0], 4, 4)}, F4), "reject", "overlap")
    manifest("safetensors", cases)


# ---- GGUF ----

TYPES = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i"),
         "f32": (6, "<f"), "bool": (7, "<B"), "str": (8, None), "arr": (9, None), "u64": (10, "<Q"), "i64": (11, "<q"),
         "f64": (12, "<d")}


def gstr(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def gval(t, v):
    return gstr(v) if t == "str" else struct.pack(TYPES[t][1], v)


def kv(key, t, v, item=None):
    head = gstr(key) + struct.pack("<I", TYPES[t][0])
    if t != "arr":
        return head + gval(t, v)
    return head + struct.pack("<IQ", TYPES[item][0], len(v)) + b"".join(gval(item, x) for x in v)


def info(name, dims, typ, offset):
    return gstr(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) + \
        struct.pack("<IQ", typ, offset)


def gguf(kvs, infos, data=b"", align=32, version=3):
    b = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(kvs)) + b"".join(kvs) + b"".join(infos)
    return (b + bytes(-len(b) % align) + data) if infos else b


def all_types():
    return [kv("general.architecture", "str", "llama"), kv("k.u8", "u8", 200), kv("k.i8", "i8", -100),
            kv("k.u16", "u16", 60000), kv("k.i16", "i16", -30000), kv("k.u32", "u32", 4000000000),
            kv("k.i32", "i32", -2000000000), kv("k.f32", "f32", 1.5), kv("k.bool", "bool", 1), kv("k.str", "str", "a\0b"),
            kv("k.u64", "u64", 2**63), kv("k.i64", "i64", -2**62), kv("k.f64", "f64", 0.1),
            kv("k.strs", "arr", ["", "x", "yz"], "str"), kv("k.ints", "arr", [1, -2, 3], "i32"),
            kv("k.none", "arr", [], "u8"), kv("k.bools", "arr", [0, 1], "bool")]


def gguf_cases():
    cases = []
    arch = kv("general.architecture", "str", "llama")
    w = info("w", [4], 0, 0)

    def add(name, data, expect, cls=None, **more):
        write(f"{ROOT}/gguf/{name}", data)
        cases.append({"file": name, "level": "container", "expect": expect, **({"class": cls} if cls else {}), **more})

    add("all_types.gguf", gguf(all_types(), [w], F4), "load", tensors={"w": [1, 2, 3, 4]})
    add("no_tensors.gguf", gguf(all_types(), []), "load", tensors={})
    add("matrix.gguf", gguf([arch], [info("m", [2, 2], 0, 0), info("s", [], 0, 32)], F4 + bytes(16) + F4[:4]), "load",
        tensors={"m": [[1, 2], [3, 4]], "s": 1})
    add("version_1.gguf", gguf([arch], [w], F4, version=1), "reject", "version")
    add("iq2_xs.gguf", gguf([arch], [info("w", [256], 17, 0)], bytes(256)), "reject", "unsupported", names="IQ2_XS")
    add("overlap.gguf", gguf([arch], [info("a", [16], 0, 0), info("b", [4], 0, 32)], bytes(64)), "reject", "overlap")
    add("nul_in_key.gguf", gguf([kv("a\0b", "u8", 1)], [w], F4), "reject", None)
    add("strings_cut.gguf", gguf([gstr("a") + struct.pack("<IIQ", 9, 8, 3) + gstr("x") + struct.pack("<Q", 1 << 40) +
                                  bytes(64)], [w], F4), "reject", "string", names="a at byte")
    add("alignment_type.gguf", gguf([kv("general.alignment", "u64", 32)], [w], F4), "reject", "type")
    for i in range(2):
        split = [kv("split.no", "u16", i), kv("split.count", "u16", 2), kv("split.tensors.count", "i32", 2)]
        name = f"split-{i + 1:05d}-of-00002.gguf"
        data = gguf(([arch] if not i else []) + split, [info("ab"[i], [2], 0, 0)], F4[8 * i:8 * i + 8])
        if i:
            add(name, data, "reject", "split", names="first part")
        else:
            add(name, data, "load", tensors={"a": [1, 2], "b": [3, 4]})
    lost = [kv("split.no", "u16", 0), kv("split.count", "u16", 3)]
    add("lost-00001-of-00003.gguf", gguf([arch] + lost, [w], F4), "reject", None, names="lost-00002-of-00003.gguf")
    add("renamed.gguf", gguf([arch] + lost, [w], F4), "reject", None, names="-00001-of-00003.gguf")
    manifest("gguf", cases)


# ---- index ----

def index_cases():
    cases = []
    a, b = entry("F32", [2], 0, 8), entry("F32", [2], 0, 8)
    one, two = st({"a": a}, F4[:8]), st({"b": b}, F4[8:])
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    good = {"a": names[0], "b": names[1]}

    def add(ident, files, weight_map, expect, cls=None, **more):
        for name, data in files.items():
            write(f"{ROOT}/index/{ident}/{name}", data)
        if weight_map is not None:
            text = weight_map if isinstance(weight_map, str) else json.dumps({"weight_map": weight_map})
            write(f"{ROOT}/index/{ident}/model.safetensors.index.json", text)
        cases.append({"id": ident, "expect": expect, **({"class": cls} if cls else {}), **more})

    both = {names[0]: one, names[1]: two}
    add("single", {"model.safetensors": st({"a": a, "b": entry("F32", [2], 8, 16)}, F4)}, None, "load")
    add("two", both, good, "load")
    add("folder", {"part/" + names[0]: one, names[1]: two}, {"a": "part/" + names[0], "b": names[1]}, "load")
    add("set_without_index", both, None, "load")
    add("two_sets_without_index", {**both, "model-00001-of-00003.safetensors": one}, None, "reject",
        names="different sets")
    add("incomplete_set", {names[0]: one}, None, "reject", "missing-file", names=names[1])
    add("nothing", {"readme.txt": "no weights here\n"}, None, "reject", names="model.safetensors")
    add("dots", both, {"a": "x/../" + names[0], "b": names[1]}, "reject", "path", names="\"a\"")
    add("empty_name", both, {"a": "", "b": names[1]}, "reject", "path", names="\"a\"")
    add("named_twice", both, '{"weight_map":{"a":"%s","a":"%s","b":"%s"}}' % (names[0], names[1], names[1]), "reject",
        "duplicate")
    add("unnamed_tensor", {names[0]: st({"a": a, "b": entry("F32", [2], 8, 16)}, F4)}, {"a": names[0]}, "load")
    add("unnamed_in_two", {names[0]: st({"a": a, "x": entry("F32", [2], 8, 16)}, F4),
                           names[1]: st({"b": b, "x": entry("F32", [2], 8, 16)}, F4)}, good, "reject", "duplicate",
        names="\"x\"")
    add("map_is_list", both, '{"weight_map":[]}', "reject", "index", names="weight_map")
    manifest("index", cases)


# ---- config ----

BASE = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 96, "rms_norm_eps": 1e-5, "rope_theta": 1e4}


def config_cases():
    cases = []

    def add(name, change, expect, cls=None, **more):
        full = {k: v for k, v in {**BASE, **change}.items() if v is not Ellipsis}
        write(f"{ROOT}/config/{name}.json", json.dumps(full, indent=0) + "\n")
        cases.append({"file": name + ".json", "expect": expect, **({"class": cls} if cls else {}), **more})

    def bad(name, change, field, cls="range"):
        add(name, change, "reject", cls, names=field)

    add("base", {}, "load")
    add("nulls", {k: None for k in ("head_dim", "rope_scaling", "sliding_window", "quantization", "text_config")}, "load")
    add("whole_floats", {"hidden_size": 64.0, "rope_theta": 10000}, "load")
    add("lists", {"eos_token_id": [1, 2, None], "intermediate_size": [128, 64]}, "load")
    add("float_word", {"rope_parameters": {"full": {"rope_type": "default", "factor": 1}},
                       "embedding_multiplier": {"__float__": "Infinity"}}, "load")
    add("overrides", {"quantization": {"group_size": 64, "bits": 4, "lm_head": {"group_size": 32, "bits": 8},
                                       "model.x": False, "model.y": True}}, "load")
    bad("no_model_type", {"model_type": ...}, "model_type", "kind")
    bad("model_type_number", {"model_type": 3}, "model_type", "kind")
    bad("hidden_string", {"hidden_size": "64"}, "hidden_size", "kind")
    bad("hidden_negative", {"hidden_size": -64}, "hidden_size")
    bad("hidden_fraction", {"hidden_size": 64.5}, "hidden_size")
    bad("hidden_huge", {"hidden_size": 2**64 + 64}, "hidden_size")
    bad("layers_zero", {"num_hidden_layers": 0}, "num_hidden_layers")
    bad("layers_4_billion", {"num_hidden_layers": 2**32 - 1}, "num_hidden_layers")
    bad("heads_zero", {"num_attention_heads": 0}, "num_attention_heads")
    bad("kv_heads_over", {"num_key_value_heads": 8}, "num_key_value_heads", "relation")
    bad("kv_heads_uneven", {"num_key_value_heads": 3}, "num_key_value_heads", "relation")
    bad("head_dim_uneven", {"num_attention_heads": 6, "num_key_value_heads": 6}, "hidden_size", "relation")
    bad("eps_nan", {"rms_norm_eps": float("nan")}, "rms_norm_eps")
    bad("theta_zero", {"rope_theta": 0}, "rope_theta")
    bad("tie_string", {"tie_word_embeddings": "yes"}, "tie_word_embeddings", "kind")
    bad("eos_string", {"eos_token_id": "</s>"}, "eos_token_id", "kind")
    bad("rope_list", {"rope_scaling": [1]}, "rope_scaling", "kind")
    bad("rope_unknown", {"rope_scaling": {"rope_type": "spiral", "factor": 2}}, "spiral", "unsupported")
    bad("rope_factor", {"rope_scaling": {"type": "linear", "factor": -1}}, "rope_scaling.factor")
    bad("rope_long", {"rope_scaling": {"type": "longrope", "long_factor": [1, "x"]}}, "rope_scaling.long_factor", "kind")
    bad("text_config_number", {"text_config": 1}, "text_config", "kind")
    bad("inner_heads", {"text_config": {"num_attention_heads": 0}}, "text_config.num_attention_heads")
    bad("experts_over", {"num_experts": 4, "num_experts_per_tok": 8}, "num_experts_per_tok", "relation")
    bad("quant_list", {"quantization": [4]}, "quantization", "kind")
    bad("quant_bits", {"quantization": {"group_size": 64, "bits": 9}}, "bits", None)
    bad("quant_group", {"quantization": {"group_size": 48, "bits": 4}}, "group_size", None)
    bad("quant_mode", {"quantization": {"group_size": 64, "bits": 4, "mode": "cubic"}}, "cubic", "unsupported")
    bad("quant_entry", {"quantization": {"group_size": 64, "bits": 4, "model.x": {"bits": "8"}}}, "model.x", None)
    bad("quant_method", {"quantization_config": {"quant_method": "bitsandbytes"}}, "bitsandbytes", "unsupported")
    manifest("config", cases)



# ---- a whole directory, for gy_config_open ----

def checkpoint():
    def put(name, text):
        write(f"{ROOT}/checkpoint/{name}", text if isinstance(text, str) else json.dumps(text, indent=0) + "\n")

    put("config.json", BASE)
    put("generation_config.json", {"eos_token_id": [2, 67], "temperature": 0.6})
    put("special_tokens_map.json", {"bos_token": "<s>"})
    put("tokenizer_config.json", {
        "model_max_length": 1000000000000000019884624838656,
        "chat_template": [{"name": "default", "template": "weakest"}, {"name": "tool_use", "template": "tools"},
                          {"name": "rag", "template": "old rag"}]})
    put("chat_template.json", {"chat_template": "weaker"})
    put("chat_template.jinja", "strongest {{ messages }}\n")
    put("additional_chat_templates/rag.jinja", "new rag")
    put("additional_chat_templates/notes.txt", "not a template")


checkpoint()
safetensors_cases()
gguf_cases()
index_cases()
config_cases()
