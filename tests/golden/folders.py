"""Writing Hugging Face folders with numpy alone: small models for tests, as transformers' save_pretrained lays them out.

`tiny` gives the seeded models of families_reference.py in the names and the meaning that transformers gives them: Q and K
of the llama and granite families not permuted, Gemma's norm gains less 1.
"""
import json
import math
import pathlib
import struct

import numpy as np

CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
PARTS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "post_attention_norm": "post_attention_layernorm",
         "post_ffw_norm": "post_feedforward_layernorm"}
TINY_CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
               "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
TINY_TOKENIZER = json.dumps({"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})


def to_bytes(values, dtype):
    if dtype != "bfloat16":
        return np.ascontiguousarray(values, dtype).tobytes()
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def rounded(values, dtype):
    """The float32 values that are left of these in a file."""
    data = to_bytes(values, dtype)
    if dtype == "bfloat16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(values.shape)
    return np.frombuffer(data, dtype).astype(np.float32).reshape(values.shape)


def write_safetensors(path, tensors, dtype="float32"):
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        blobs.append(to_bytes(values, dtype))
        header[name] = {"dtype": CODES[dtype], "shape": list(values.shape), "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def write_folder(path, config=None, tensors=None, dtype="float32", shards=1, tokenizer=TINY_TOKENIZER, tokenizer_config=None,
                 generation_config=None):
    """What is not given is as small as it can be: enough to open the folder's tokenizer."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    tensors = tensors or {"model.embed_tokens.weight": np.zeros((4, 32), np.float32)}
    if shards == 1:
        write_safetensors(path / "model.safetensors", tensors, dtype)
    else:
        names = list(tensors)
        places = {}
        for i in range(shards):
            file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
            write_safetensors(path / file, {name: tensors[name] for name in names[i::shards]}, dtype)
            places.update(dict.fromkeys(names[i::shards], file))
        (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (path / "config.json").write_text(json.dumps(config or TINY_CONFIG))
    (path / "tokenizer.json").write_text(tokenizer)
    for name, value in (("tokenizer_config", tokenizer_config), ("generation_config", generation_config)):
        if value is not None:
            (path / f"{name}.json").write_text(json.dumps(value))
    return path


# --- the tiny models of families_reference.py ---

def rope_of(spec, s):
    """rope_scaling, or None."""
    keys = spec.get("keys", {})
    kind = keys.get("rope.scaling.type")
    scaling = {"rope_type": kind, "factor": keys.get("rope.scaling.factor")} if kind else None
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = keys["rope.scaling.original_context_length"]
    if spec.get("factors"):
        half = s["head_dim"] // 2
        scaling = {"type": "longrope", "long_factor": np.linspace(1, 9, half, dtype=np.float32).tolist(),
                   "short_factor": np.linspace(1, 1.5, half, dtype=np.float32).tolist(), "attention_factor": keys["rope.scaling.attn_factor"]}
    return scaling


def config_of(name, spec, s):
    keys, arch = spec.get("keys", {}), s["arch"]
    kind = {"gemma3": "gemma3_text", "llama": "mistral" if name == "mistral" else "llama"}.get(arch, arch)
    gemma = arch.startswith("gemma")
    config = {"model_type": kind, "hidden_size": s["width"], "intermediate_size": s["ffn"], "num_hidden_layers": s["layers"],
              "num_attention_heads": s["heads"], "num_key_value_heads": s["kv_heads"], "head_dim": s["head_dim"],
              "vocab_size": s["vocab"], "max_position_embeddings": s["context"], "rms_norm_eps": 1e-5,
              "rope_theta": keys.get("rope.freq_base", 10000.0), "tie_word_embeddings": s.get("tied", True),
              "hidden_act": "gelu_pytorch_tanh" if gemma else "silu", "sliding_window": keys.get("attention.sliding_window"),
              "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if rope_of(spec, s):
        config["rope_scaling"] = rope_of(spec, s)
    if arch == "phi3":
        config["partial_rotary_factor"] = keys.get("rope.dimension_count", s["head_dim"]) / s["head_dim"]
        config["original_max_position_embeddings"] = keys.get("rope.scaling.original_context_length", s["context"])
    if arch in ("gemma2", "gemma3"):
        config["query_pre_attn_scalar"] = s["head_dim"]
        config["hidden_activation"] = config.pop("hidden_act")
        config["attn_logit_softcapping"] = keys.get("attn_logit_softcapping")
        config["final_logit_softcapping"] = keys.get("final_logit_softcapping")
    if arch == "gemma3":
        config.update(rope_local_base_freq=10000.0, sliding_window_pattern=6)
    if arch == "granite":
        config.update(attention_multiplier=keys["attention.scale"], embedding_multiplier=keys["embedding_scale"],
                      residual_multiplier=keys["residual_scale"], logits_scaling=keys["logit_scale"])
    return config


def halves(values, heads):
    """Rows of rotary pairs from neighbours to half a head apart."""
    rows = values.reshape(heads, -1, 2, *values.shape[1:])
    return rows.swapaxes(1, 2).reshape(values.shape)


def name_of(name, spec):
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
             "output.weight": "lm_head.weight"}
    if name in whole:
        return whole[name]
    _, layer, part, end = name.split(".")
    to = PARTS[part]
    if part == "ffn_norm" and spec.get("post_norms"):
        to = "pre_feedforward_layernorm"
    if part == "ffn_up" and spec.get("fused"):
        to = "mlp.gate_up_proj"
    return f"model.layers.{layer}.{to}.{end}"


def tiny(name, seed=7):
    """(config, tensors) of the tiny model that families_reference.write_tiny writes as a GGUF file, and some more."""
    import families_reference as families
    spec = families.TINY[EXTRA[name][0] if name in EXTRA else name]
    s = {**families.BASE, **spec}
    config = {**config_of(name, spec, s), **(EXTRA[name][1] if name in EXTRA else {})}
    tensors = {}
    for own, values in families.tensors_of(spec, np.random.default_rng(seed)):
        if own.startswith("rope_"):
            continue  # they are in the config
        part = own.split(".")[2] if own.startswith("blk.") else ""
        if s["arch"] in ("llama", "granite") and part in ("attn_q", "attn_k"):
            values = halves(values, s["heads"] if part == "attn_q" else s["kv_heads"])
        if s["arch"].startswith("gemma") and own.endswith("norm.weight"):
            values = values - 1
        tensors[name_of(own, spec)] = values
    return config, tensors


# What has no GGUF twin: {name: (the model it is made from, members of config.json)}.
EXTRA = {
    "llama 3": ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                           "original_max_position_embeddings": 64}, "rope_theta": 500.0}),
    "llama dynamic": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 150}),
    "llama yarn mscale": ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.2,
                                                     "beta_fast": 16, "original_max_position_embeddings": 256}}),
    "gemma3 scalar": ("gemma3", {"query_pre_attn_scalar": 20}),
}


def tokens_of(config):
    """300 ids, or as many as the model's context holds."""
    scaling = config.get("rope_scaling") or {}
    context = config["max_position_embeddings"] * (scaling["factor"] if scaling.get("type") == "dynamic" else 1)
    return [int(i) for i in np.random.default_rng(3).integers(0, config["vocab_size"], min(300, math.floor(context)))]
