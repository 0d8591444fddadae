#!/usr/bin/env python3
"""Logits that transformers (float32, eager attention, on the CPU) gives for the tiny models of folders.py.

    make_transformers.py [--model FILE.gguf TEXT]

Writes transformers.npz: for each model the logits at some positions of folders.tokens_of. The models themselves are
seeded, so they are made again by whoever compares. Needs: torch, transformers, numpy, gguf.
"""
import pathlib
import tempfile

import numpy as np
import torch
import transformers

import families_reference
import folders

HERE = pathlib.Path(__file__).resolve().parent
POSITIONS = [0, 1, 7, 20, 41, 63, 64, 99, 127, 128, 149, 200, 240, 249, 255, 256, 270, 299]


def logits_of(name):
    config, tensors = folders.tiny(name)
    with tempfile.TemporaryDirectory() as path:
        folders.write_folder(path, config, tensors)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"], report
        with torch.no_grad():
            return model.eval()(torch.tensor([folders.tokens_of(config)]), use_cache=False).logits[0].numpy()


def main():
    torch.set_num_threads(1)
    out = {}
    for name in [*families_reference.TINY, *folders.EXTRA]:
        z = logits_of(name)
        out[name] = z[[p for p in POSITIONS if p < len(z)]].astype(np.float32)
        print(name, out[name].shape, "std %.3f" % z.std())
    np.savez_compressed(HERE / "transformers.npz", positions=POSITIONS, **out)


if __name__ == "__main__":
    main()
