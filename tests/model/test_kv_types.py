"""K and V in 8 and 4 bits: the engine against the numpy definition whose keys and values are rounded in the same way.

The rounding is written here from kernels/kv_layout.h, not from the kernels. Near the middle between two codes a last bit decides
which one is taken, and what one layer so differs makes the next one round otherwise: agreement is that of the codes, not of float32.
The unit tests compare attention over the same codes, and closely.
"""
import copy
import json

import numpy as np
import pytest

from test_numbers import ids, kept_by_probe, probe, reference  # noqa: F401

BLOCK = 32


def rounded(x, kv_type):
    blocks = x.reshape(-1, BLOCK)
    if kv_type == "q8":
        scale = (np.abs(blocks).max(-1, keepdims=True) / np.float32(127)).astype(np.float16).astype(np.float32)
        least, low, high = np.float32(0), -127, 127
    else:
        least = blocks.min(-1, keepdims=True)
        scale = ((blocks.max(-1, keepdims=True) - least) / np.float32(15)).astype(np.float16).astype(np.float32)
        least, low, high = least.astype(np.float16).astype(np.float32), 0, 15
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    return (np.clip(np.rint((blocks - least) * inverse), low, high) * scale + least).astype(np.float32).reshape(x.shape)


def rounding(reference, kv_type):
    model = copy.copy(reference)

    def qkv(x, layer, pos):
        q, k, v = reference.qkv(x, layer, pos)
        return q, rounded(k, kv_type), rounded(v, kv_type)
    model.qkv = qkv
    return model


def divergence(p, q):
    """Mean KL divergence of rows of logits."""
    log = [z - z.max(-1, keepdims=True) for z in (p, q)]
    log = [z - np.log(np.exp(z).sum(-1, keepdims=True)) for z in log]
    return float((np.exp(log[0]) * (log[0] - log[1])).sum(-1).mean())


@pytest.mark.parametrize("kv_type, most", [("q8", 5e-4), ("q4", 0.1)])
def test_logits_equal_the_rounded_reference(probe, reference, ids, tmp_path, kv_type, most):  # noqa: F811
    """`most` is about twice what the definition differs from itself when its K and V move by 1e-6 of their size."""
    import roco_reference
    rows = []
    tokens = json.load(open(ids))[:128]
    roco_reference.run(rounding(reference, kv_type), tokens, on_logits=lambda start, z: rows.append(z))
    expected = np.concatenate(rows).astype(np.float64)
    probe("--tokens", 128, "--precision", "f32", "--kv-type", kv_type, "--logits", tmp_path / "logits")
    found = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape).astype(np.float64)
    distance = divergence(expected, found)
    print(f"{kv_type}: KL to the rounded definition {distance:.2e}")
    assert distance < most


@pytest.mark.parametrize("kv_type, share", [("q8", 0.98), ("q4", 0.85)])
def test_kept_positions_are_the_rounded_references(probe, reference, ids, tmp_path, kv_type, share):  # noqa: F811
    import roco_reference
    tokens = json.load(open(ids))[:450]
    probe("--tokens", 450, "--decode", 60, "--policy", "roco", "--budget", 128, "--precision", "f32", "--kv-type", kv_type,
          "--kept", tmp_path / "kept")
    found = kept_by_probe(tmp_path / "kept")
    cache = roco_reference.run(rounding(reference, kv_type), tokens, policy="roco", budget=128, decode=60)
    same = sum(len(found[layer, head] & set(cache[layer][head].pos.tolist()))
               for layer in range(reference.layers) for head in range(reference.kv_heads))
    total = 128 * reference.layers * reference.kv_heads
    print(f"{kv_type}: {same} of {total} slots the same ({same / total:.5f})")
    assert same / total >= share
