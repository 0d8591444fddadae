#!/usr/bin/env python3
"""Writes a GGUF file in the shape of a known model with seeded random weights, for speed alone.

    random_model.py llama-3.1-8b|qwen3-4b OUT.gguf [--type bf16|q4_0] [--small]

The tokenizer is of bytes. All matrices are parts of one block of random numbers, so that writing 16 GB takes no longer than the disk.
"""
import argparse

import gguf
import numpy as np

SHAPES = {  # from the models' published configurations
    "llama-3.1-8b": dict(arch="llama", layers=32, width=4096, heads=32, kv_heads=8, head=128, ffn=14336, vocab=128256,
                         context=131072, theta=500000.0, tied=False),
    "qwen3-4b": dict(arch="qwen3", layers=36, width=2560, heads=32, kv_heads=8, head=128, ffn=9728, vocab=151936,
                     context=40960, theta=1000000.0, tied=True),
}
TYPES = {"bf16": gguf.GGMLQuantizationType.BF16, "q4_0": gguf.GGMLQuantizationType.Q4_0}


def keys(writer, s):
    writer.add_context_length(s["context"])
    writer.add_embedding_length(s["width"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_key_length(s["head"])
    writer.add_value_length(s["head"])
    writer.add_rope_freq_base(s["theta"])
    writer.add_rope_dimension_count(s["head"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(s["vocab"])


def tokenizer(writer, n_vocab):
    """GPT-2's names of the bytes, one merge, then unused tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = [chr(b) if b in plain else chr(256 + sum(x not in plain for x in range(b))) for b in range(256)]
    tokens = ["<|end|>", *names, names[97] + names[98], *(f"<unused{i}>" for i in range(n_vocab - 258))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * 257 + [5] * (n_vocab - 258))
    writer.add_token_merges([f"{names[97]} {names[98]}"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out")
    parser.add_argument("--type", choices=TYPES, default="bf16")
    parser.add_argument("--small", action="store_true", help="2 layers, an eighth of every width: to try the script")
    args = parser.parse_args()
    s, kind = dict(SHAPES[args.shape]), TYPES[args.type]
    if args.small:
        s.update(layers=2, vocab=4096, **{key: s[key] // 8 for key in ("width", "heads", "kv_heads", "ffn")})
    writer = gguf.GGUFWriter(args.out, s["arch"])
    writer.add_name(f"{args.shape}, random")
    keys(writer, s)
    tokenizer(writer, s["vocab"])

    largest = max(s["vocab"], s["ffn"]) * s["width"]
    block = np.random.default_rng(1).standard_normal(1 << 24, dtype=np.float32) * np.float32(0.02)
    raw = gguf.quants.quantize(block.reshape(-1, 4096), kind).reshape(-1)
    raw = np.resize(raw, int(largest / block.size * raw.size) + raw.size)
    per_value = raw.itemsize * gguf.quants.quantize(block[:4096].reshape(1, -1), kind).size / 4096

    def matrix(name, rows, cols):
        bytes_of_row = int(cols * per_value)
        data = raw.view(np.uint8)[: rows * bytes_of_row].reshape(rows, bytes_of_row)
        writer.add_tensor(name, data, raw_dtype=kind)

    def vector(name, size):
        writer.add_tensor(name, np.ones(size, dtype=np.float32))

    matrix("token_embd.weight", s["vocab"], s["width"])
    if not s["tied"]:
        matrix("output.weight", s["vocab"], s["width"])
    vector("output_norm.weight", s["width"])
    for layer in range(s["layers"]):
        at = f"blk.{layer}."
        matrix(at + "attn_q.weight", s["heads"] * s["head"], s["width"])
        matrix(at + "attn_k.weight", s["kv_heads"] * s["head"], s["width"])
        matrix(at + "attn_v.weight", s["kv_heads"] * s["head"], s["width"])
        matrix(at + "attn_output.weight", s["width"], s["heads"] * s["head"])
        matrix(at + "ffn_gate.weight", s["ffn"], s["width"])
        matrix(at + "ffn_up.weight", s["ffn"], s["width"])
        matrix(at + "ffn_down.weight", s["width"], s["ffn"])
        vector(at + "attn_norm.weight", s["width"])
        vector(at + "ffn_norm.weight", s["width"])
        if s["arch"] == "qwen3":
            vector(at + "attn_q_norm.weight", s["head"])
            vector(at + "attn_k_norm.weight", s["head"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
