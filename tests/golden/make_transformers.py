#!/usr/bin/env python3
"""Logits that transformers (float32, eager attention, on the CPU) gives for the tiny models of folders.py.

    make_transformers.py                        writes transformers.npz
    make_transformers.py GEMMA3.gguf IDS.json   writes gemma3_transformers.json

transformers.npz: for each tiny model the logits at some positions of folders.tokens_of. The models themselves are
seeded, so they are made again by whoever compares. gemma3_transformers.json, with the file's weights dequantised: -log p of each
of the first 1,024 ids, and every 4,096th logit at some positions; the perplexity of all ids is printed. Needs: torch, transformers,
numpy, gguf.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

import families_reference
import folders

HERE = pathlib.Path(__file__).resolve().parent
POSITIONS = [0, 1, 7, 20, 41, 63, 64, 99, 127, 128, 149, 200, 240, 249, 255, 256, 270, 299]
CHUNK, ROWS, STEP = 1024, 64, 4096  # of Gemma


def logits_of(name):
    config, tensors = folders.tiny(name)
    with tempfile.TemporaryDirectory() as path:
        folders.write_folder(path, config, tensors)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"], report
        with torch.no_grad():
            return model.eval()(torch.tensor([folders.tokens_of(config)]), use_cache=False).logits[0].numpy()


def gemma(path, ids):
    import gguf
    reader = gguf.GGUFReader(path)
    get = lambda key: reader.fields["gemma3." + key].contents()
    tensors = {}
    for t in reader.tensors:
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in t.shape[::-1]])
        tensors[folders.name_of(t.name, {"post_norms": True})] = w - 1 if t.name.endswith("norm.weight") else w
    config = {"model_type": "gemma3_text", "hidden_size": get("embedding_length"), "intermediate_size": get("feed_forward_length"),
              "num_hidden_layers": get("block_count"), "num_attention_heads": get("attention.head_count"),
              "num_key_value_heads": get("attention.head_count_kv"), "head_dim": get("attention.key_length"),
              "vocab_size": len(tensors["model.embed_tokens.weight"]), "max_position_embeddings": get("context_length"),
              "rms_norm_eps": get("attention.layer_norm_rms_epsilon"), "rope_theta": get("rope.freq_base"),
              "rope_local_base_freq": 10000.0, "sliding_window": get("attention.sliding_window"), "sliding_window_pattern": 6,
              "query_pre_attn_scalar": get("attention.key_length"), "hidden_activation": "gelu_pytorch_tanh",
              "tie_word_embeddings": True}
    with tempfile.TemporaryDirectory() as folder:
        folders.write_folder(folder, config, tensors)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return score(model.eval(), ids)


@torch.no_grad()
def score(model, ids):
    """A chunk at a time over its cache; logits of a few rows at a time: a vocabulary of 262,144 is wide. Prints the perplexity so far."""
    nll, logits, cache = [], {}, None
    for start in range(0, len(ids), CHUNK):
        done = model.model(torch.tensor([ids[start:start + CHUNK]]), past_key_values=cache, use_cache=True)
        cache = done.past_key_values
        for i, hidden in enumerate(done.last_hidden_state[0].split(ROWS)):
            z = model.lm_head(hidden)
            first = start + i * ROWS
            logits.update({first + r: [round(v, 4) for v in z[r, ::STEP].tolist()] for r in range(len(z)) if first + r in POSITIONS})
            p = torch.log_softmax(z.double(), -1)
            nll += [-float(p[r, ids[first + r + 1]]) for r in range(len(z)) if first + r + 1 < len(ids)]
        print(len(nll), np.exp(np.mean(nll)), flush=True)
    return {"ids": ids[:CHUNK], "nll": [round(v, 5) for v in nll[:CHUNK - 1]], "logits": logits, "step": STEP}


def main():
    torch.set_num_threads(1)
    if len(sys.argv) == 3:
        json.dump(gemma(sys.argv[1], json.load(open(sys.argv[2]))), open(HERE / "gemma3_transformers.json", "w"))
        return
    out = {}
    for name in [*families_reference.TINY, *folders.EXTRA]:
        z = logits_of(name)
        out[name] = z[[p for p in POSITIONS if p < len(z)]].astype(np.float32)
        print(name, out[name].shape, "std %.3f" % z.std())
    np.savez_compressed(HERE / "transformers.npz", positions=POSITIONS, **out)


if __name__ == "__main__":
    main()
