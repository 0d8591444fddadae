"""The compensation token (`kv_compensation`): one slot of a head stands for all that it evicted.

The definition is tests/golden/roco_reference.py. The slot counts in the budget: as many tokens fewer are held.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import roco_reference  # noqa: E402

TOKENS, DECODE = 300, 60


@pytest.fixture(scope="module", params=[["heads=4", "kv-heads=2"], ["heads=4", "kv-heads=4", "layers=3"]], ids=["gqa", "mha"])
def tiny(request, build, tmp_path_factory):
    path = tmp_path_factory.mktemp("compensation") / "tiny.gguf"
    subprocess.run([build / "tests/make_tiny_model", path, *request.param, "context=512"], check=True)
    ids = [int(i) for i in np.random.default_rng(5).integers(0, 320, TOKENS)]
    json.dump(ids, open(path.parent / "ids", "w"))
    return path, roco_reference.Model(str(path)), ids


def probe(build, path, out, *args):
    subprocess.run([build / "tests/probe", path, path.parent / "ids", "--logits", out / "logits", "--kept", out / "kept",
                    "--decode", str(DECODE), *map(str, args)], check=True, timeout=100)
    kept = {tuple(map(int, line.split()[:2])): list(map(int, line.split()[2:])) for line in open(out / "kept")}
    return np.fromfile(out / "logits", np.float32).reshape(TOKENS, -1), kept


@pytest.mark.parametrize("policy, budget, stride", [("roco", 48, 16), ("mean", 64, 16), ("h2o", 33, 32), ("vatp", 40, 64)])
def test_equals_the_definition(build, tiny, tmp_path, policy, budget, stride):
    path, model, ids = tiny
    rows = []
    cache = roco_reference.run(model, ids, policy=policy, budget=budget, stride=stride, decode=DECODE, compensate=True,
                               on_logits=lambda start, z: rows.append(z))
    args = ["--policy", policy, "--budget", budget, "--stride", stride]
    found, kept = probe(build, path, tmp_path, *args, "--compensate")
    assert np.abs(found - np.concatenate(rows)).max() < 2e-3
    for (layer, head), positions in kept.items():
        assert positions == cache[layer][head].pos.tolist() and len(positions) == budget - 1
    alone, _ = probe(build, path, tmp_path, *args, "--compensate", "--threads", 1, "--step-tokens", stride)
    assert (alone == found).all()
    without, _ = probe(build, path, tmp_path, *args)
    assert np.abs(without[-1] - found[-1]).max() > 2e-3


@pytest.mark.parametrize("kv_type", ["f16", "q8", "q4"])
def test_types_of_k_and_v(build, tiny, tmp_path, kv_type):
    path, _, _ = tiny
    args = ["--policy", "roco", "--budget", 80, "--stride", 16, "--compensate"]
    exact, stored = (probe(build, path, tmp_path, *args, "--kv-type", t)[0] for t in ("f32", kv_type))
    off = np.abs(stored - exact).mean() / np.abs(exact).mean()
    print(f"{kv_type}: {off:.4f}")
    assert off < {"f16": 0.1, "q8": 0.3, "q4": 0.8}[kv_type]
