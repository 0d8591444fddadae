"""Writing Hugging Face folders with numpy alone: small models for tests, as transformers' save_pretrained lays them out."""
import json
import pathlib
import struct

import numpy as np

CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
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
