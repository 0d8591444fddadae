"""What eviction must mean, against a model that never evicts: a dense pass over all tokens in which every query is masked,
per layer and KV head, from what the reference had evicted by then.

The dense pass knows no cache, no slots and no order of tokens, so a position counted from the tokens kept, a mask by slot
or a key rotated twice shows up in the logits.
"""
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import roco_reference  # noqa: E402

TOKENS, DECODE = 360, 60
SHAPES = {
    "gqa": ["heads=4", "kv-heads=2"],
    "mqa": ["heads=8", "kv-heads=1", "head-dim=8"],
    "mha": ["heads=4", "kv-heads=4", "layers=3"],
}


@pytest.fixture(scope="module", params=SHAPES)
def tiny(request, build, tmp_path_factory):
    path = tmp_path_factory.mktemp("masked") / "tiny.gguf"
    subprocess.run([build / "tests/make_tiny_model", path, *SHAPES[request.param], "context=1024"], check=True)
    ids = [int(i) for i in np.random.default_rng(11).integers(0, 320, TOKENS)]
    json.dump(ids, open(path.parent / "ids", "w"))
    return path, roco_reference.Model(str(path)), ids


def visible(model, trace, stride):
    """[layers, kv_heads, query, key]: causal, less what was evicted before the query's own step."""
    prompt = TOKENS - DECODE
    seen = np.broadcast_to(np.tril(np.ones((TOKENS, TOKENS), bool)), (model.layers, model.kv_heads, TOKENS, TOKENS)).copy()
    for start, layer, head, gone in trace:
        # a stride of the prompt evicts when it is done, a decode step before it attends
        first_blind = start if start >= prompt else min(start + stride, prompt)
        seen[layer, head, first_blind:, gone] = False
    return seen


def dense_logits(model, ids, seen):
    pos = np.arange(len(ids))
    x = model.W["token_embd.weight"][np.asarray(ids)]
    for layer in range(model.layers):
        q, k, v = model.qkv(x, layer, pos)
        o = np.empty((model.heads, len(ids), v.shape[-1]), np.float32)
        for a in range(model.heads):
            h = a // model.group
            s = np.where(seen[layer, h], q[a] @ k[h].T / math.sqrt(model.head_dim), -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            o[a] = (p / p.sum(-1, keepdims=True)) @ v[h]
        x = model.rest(x, o, layer)
    return model.logits(x)


def engine_logits(build, path, out, policy, budget, stride):
    done = subprocess.run([build / "tests/probe", path, path.parent / "ids", "--policy", policy, "--budget", str(budget),
                           "--stride", str(stride), "--decode", str(DECODE), "--logits", out, "--mass"], check=True, timeout=100,
                          capture_output=True)
    return np.fromfile(out, np.float32).reshape(TOKENS, -1), float(done.stdout)


@pytest.mark.parametrize("policy, budget, stride", [
    *((policy, *sizes) for policy in ("roco", "recency") for sizes in ((32, 16), (40, 16), (64, 64), (200, 64))),
    ("mean", 40, 16), ("h2o", 64, 64), ("tova", 40, 16), ("random", 40, 16), ("keydiff", 40, 16), ("roco+caote", 64, 16),
    ("h2o+caote", 40, 16), ("tova+caote", 40, 16), ("vatp", 64, 64), ("snapkv", 40, 16), ("snapkv", 64, 64), ("r-kv", 48, 16),
    ("r-kv", 64, 64)])
def test_logits_are_those_of_a_dense_model_that_masks_the_evicted(build, tiny, tmp_path, policy, budget, stride):
    path, model, ids = tiny
    trace = []
    cache = roco_reference.run(model, ids, policy=policy, budget=budget, stride=stride, decode=DECODE, trace=trace)
    seen = visible(model, trace, stride)
    assert (seen[:, :, -1].sum(-1) == budget).all()  # every head did evict
    expected = dense_logits(model, ids, seen)
    found, mass = engine_logits(build, path, tmp_path / "logits", policy, budget, stride)
    assert np.abs(found - expected).max() < 2e-3
    if policy in ("recency", "random", "keydiff"):
        assert math.isnan(mass)
    else:
        assert abs(mass - np.mean([h.mass / (1 + h.mass) for layer in cache for h in layer])) < 1e-4


def test_the_mask_matters(build, tiny, tmp_path):
    """The same comparison without the mask fails by far: the test above has something to find."""
    path, model, ids = tiny
    dense = dense_logits(model, ids, np.broadcast_to(np.tril(np.ones((TOKENS, TOKENS), bool)),
                                                     (model.layers, model.kv_heads, TOKENS, TOKENS)))
    found, _ = engine_logits(build, path, tmp_path / "logits", "roco", 32, 16)
    assert np.abs(found[:16] - dense[:16]).max() < 2e-3 < 0.1 < np.abs(found[-1] - dense[-1]).max()


def test_the_kept_set_moves_on(build, tiny, tmp_path):
    """A long answer is not spent on the prompt's tokens and the recent window alone: every head keeps tokens of the answer
    that are past the window, and what it kept at first goes with time."""
    path, _, _ = tiny
    ids = [int(i) for i in np.random.default_rng(5).integers(0, 320, 300)]
    json.dump(ids, open(tmp_path / "ids", "w"))
    kept = {}
    for n in (120, 300):
        subprocess.run([build / "tests/probe", path, tmp_path / "ids", "--tokens", str(n), "--policy", "roco", "--budget", "32",
                        "--decode", str(n - 100), "--kept", tmp_path / "kept"], check=True, timeout=100)
        kept[n] = [set(map(int, line.split()[2:])) for line in open(tmp_path / "kept")]
    for early, late in zip(kept[120], kept[300]):
        assert len(late) == 32 and set(range(4)) <= late and set(range(290, 300)) <= late  # sinks and the window
        assert sum(100 <= p < 290 for p in late) >= 6
        assert len(early & late) < len(early) - 6
    assert len(set(map(frozenset, kept[300]))) == len(kept[300])  # each head chooses for itself
