#!/usr/bin/env python3
"""The corpora of the fuzzers: seeds, and packing what was found into the files that replay.c reads.

    corpus.py seeds gguf|folder FOLDER   writes seeds for fuzz_gguf (needs numpy and gguf) or fuzz_folder
    corpus.py pack FOLDER FILE.corpus    all files of the folder, smallest first
    corpus.py unpack FILE.corpus FOLDER
"""
import json
import pathlib
import struct
import sys

SAFETENSORS, CONFIG, TOKENIZER = b"\x00", b"\x01", b"\x02"
TINY = dict(layers=1, width=8, heads=2, kv_heads=1, head_dim=4, ffn=8, vocab=16, context=64)  # both formats' models
CONFIGS = ["gemma3", "llama", "qwen2", "phi3"]  # as in fuzz_folder.c
LAYERS = ["self_attn.q_proj", "self_attn.qkv_proj", "mlp.down_proj", "input_layernorm", "post_feedforward_layernorm"]
TYPES = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "granite", "olmo2"]
ROPES = [{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
         {"type": "linear", "factor": 2}, {"type": "dynamic", "factor": 2.5},
         {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.1, "beta_fast": 32, "mscale": 1, "mscale_all_dim": 1},
         {"type": "longrope", "short_factor": [1, 1.1], "long_factor": [2, 3], "original_max_position_embeddings": 32}]


def safetensors(entries):
    at, header = 0, {"__metadata__": {"format": "pt"}}
    for name, dtype, shape, size in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(range(256)) * (at // 256 + 1)


def config(kind, **more):
    return json.dumps({"model_type": kind, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
                       "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, **more}).encode()


def tokenizers():
    model = {"type": "BPE", "vocab": {c: i for i, c in enumerate("abĠ1'sÂ¬Ċ")}, "merges": ["a b", ["Ġ", "b"]], "unk_token": None}
    model["vocab"].update({"ab": 20, "Ġb": 21})
    model["vocab"].update({chr(c): 30 + c for c in range(33, 127)})
    added = [{"id": 200, "content": "<s>", "special": True, "lstrip": True, "rstrip": True, "normalized": False, "single_word": False},
             {"id": 201, "content": "x", "special": False, "single_word": True, "normalized": True}]
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": r"(?i:'s)|[^\s\p{L}]+\S|\w{1,3}|\u0041|[[:alpha:]\S]"}, "invert": True,
             "behavior": "MergedWithNext"}
    digits = {"type": "Digits", "individual_digits": True}
    yield {"added_tokens": added, "model": model, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, split, level]},
           "normalizer": {"type": "NFC"}, "decoder": {"type": "ByteLevel"},
           "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]}}
    pieces = ["<unk>", "<s>", "\u2581", "a", "b", "\u2581a", "ab", "<0x41>", "<0xFF>"]
    steps = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "NFKD"}, {"type": "Strip"},
                                                 {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    spaces = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                               {"type": "ByteFallback"}]}
    yield {"added_tokens": added[1:], "normalizer": steps, "decoder": spaces,
           "model": {"type": "BPE", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": ["a b", "\u2581 a"], "byte_fallback": True,
                     "unk_token": "<unk>", "fuse_unk": True, "ignore_merges": True}}
    yield {"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [[p, -float(i)] for i, p in enumerate(pieces)]},
           "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}, "added_tokens": []}


def tiny_models():
    """{name: spec} of families_reference.py, as small as they can be."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
    import families_reference
    families_reference.BASE.update(TINY)
    for name, spec in families_reference.TINY.items():
        spec.update({k: v for k, v in TINY.items() if k in spec})
        if "rope.dimension_count" in spec.get("keys", {}):
            spec["keys"]["rope.dimension_count"] = 2
    return families_reference


def gguf_seeds(folder):
    """Whole models: of each family; with a byte-level tokenizer; with each kind of weight and of value."""
    import gguf
    import numpy as np
    families = tiny_models()
    path = pathlib.Path(folder) / "seed.gguf"

    def written(w):
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        data = path.read_bytes()
        path.unlink()
        return data

    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for name in families.TINY:
        families.write_tiny(name, path)
        data = path.read_bytes()
        path.unlink()
        yield data
    w = gguf.GGUFWriter(str(path), "llama")
    pieces = list("abĠ1'sÂ©Ċ") + ["ab", "Ġb", "<s>", "<x>"]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(pieces)
    w.add_token_types([1] * (len(pieces) - 2) + [3, 4])
    w.add_token_merges(["a b", "Ġ b"])
    w.add_bos_token_id(len(pieces) - 2)
    w.add_add_bos_token(True)
    w.add_chat_template("{{ messages[0].content }}")
    for name, value in ("int8", -3), ("uint64", 1 << 40), ("int64", -(1 << 40)), ("float64", 0.5), ("uint16", 7):
        getattr(w, f"add_{name}")(name, value)
    for kind in [0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30]:
        kind = gguf.GGMLQuantizationType(kind)
        block = gguf.GGML_QUANT_SIZES[kind][1]
        w.add_tensor(f"{kind.name}.weight", np.arange(block, dtype=np.uint8).reshape(1, block), raw_dtype=kind)
    yield written(w)


def folder_models():
    """safetensors of whole models, behind the number of their config."""
    families = tiny_models()
    import folders
    for i, name in enumerate(CONFIGS):
        families.TINY[name]["vocab"] = 8
        entries = [(n, "F32", list(v.shape), 4 * v.size) for n, v in folders.tiny(name)[1].items()]
        yield bytes([3 * i]) + safetensors(entries)


def folder_seeds(folder):
    yield from folder_models()
    names = ["model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"]
    names += [f"model.layers.{l}.{part}.weight" for l in range(2) for part in LAYERS] + ["language_model.model.layers.0.mlp.up_proj.bias"]
    yield SAFETENSORS + safetensors([(n, "BF16", [4, 2], 16) for n in names])
    yield SAFETENSORS + safetensors([("vision_tower.x", "I64", [2], 16),
                                     ("model.norm.weight", "F32", [8], 32), ("s", "F16", [], 2)])
    for kind in TYPES:
        yield CONFIG + config(kind)
    for rope in ROPES:
        yield CONFIG + config("llama", rope_scaling=rope, rope_theta=1e4, eos_token_id=[1, 2])
        yield CONFIG + config("phi3", rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5, **rope})
    both = {"sliding_attention": {"rope_theta": 1e4}, "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6}}
    text = config("gemma3_text", rope_parameters=both, sliding_window=4, layer_types=["sliding_attention", "full_attention"],
                  query_pre_attn_scalar=4, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True)
    yield CONFIG + text
    template = [{"name": "default", "template": "x"}]
    yield CONFIG + json.dumps({"model_type": "gemma3", "text_config": json.loads(text), "chat_template": template,
                               "bos_token": {"content": "<s>"}, "add_bos_token": True}).encode()
    for spec in tokenizers():
        yield TOKENIZER + json.dumps(spec, ensure_ascii=False).encode()


def pack(folder, out):
    inputs = sorted((p.read_bytes() for p in pathlib.Path(folder).iterdir() if p.is_file()), key=lambda b: (len(b), b))
    pathlib.Path(out).write_bytes(b"".join(struct.pack("<I", len(b)) + b for b in inputs))


def unpack(file, folder):
    data, at = pathlib.Path(file).read_bytes(), 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        write(folder, data[at + 4:at + 4 + size])
        at += 4 + size


def write(folder, data):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{len(list(folder.iterdir())):05d}").write_bytes(data)


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "seeds":
        for data in {"gguf": gguf_seeds, "folder": folder_seeds}[paths[0]](paths[1]):
            write(paths[1], data)
    else:
        {"pack": pack, "unpack": unpack}[command](*paths)
