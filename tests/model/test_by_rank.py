"""Positions that are ranks in the cache (`kv_positions: "cache"`): a stream goes on far past the model's context.

The definition is tests/golden/roco_reference.py: K is kept unrotated, and rotated anew by rank for every stride and token.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import roco_reference  # noqa: E402

CONTEXT, TOKENS, DECODE = 96, 480, 120


@pytest.fixture(scope="module", params=[["heads=4", "kv-heads=2"], ["heads=4", "kv-heads=4", "layers=3"]], ids=["gqa", "mha"])
def tiny(request, build, tmp_path_factory):
    path = tmp_path_factory.mktemp("rank") / "tiny.gguf"
    subprocess.run([build / "tests/make_tiny_model", path, *request.param, f"context={CONTEXT}"], check=True)
    ids = [int(i) for i in np.random.default_rng(12).integers(0, 320, TOKENS)]
    json.dump(ids, open(path.parent / "ids", "w"))
    return path, roco_reference.Model(str(path)), ids


def logits(build, path, out, *args):
    subprocess.run([build / "tests/probe", path, path.parent / "ids", "--logits", out, *map(str, args)], check=True, timeout=100)
    return np.fromfile(out, np.float32)


@pytest.mark.parametrize("policy, budget, stride", [("roco", 48, 16), ("roco", 80, 16), ("recency", 33, 16), ("tova", 40, 32),
                                                    ("r-kv", 40, 16), ("snapkv", 64, 32)])
def test_five_times_the_context(build, tiny, tmp_path, policy, budget, stride):
    path, model, ids = tiny
    rows = []
    roco_reference.run(model, ids, policy=policy, budget=budget, stride=stride, decode=DECODE, by_rank=True,
                       on_logits=lambda start, z: rows.append(z))
    args = ["--policy", policy, "--budget", budget, "--stride", stride, "--decode", DECODE, "--by-rank"]
    found = logits(build, path, tmp_path / "logits", *args).reshape(TOKENS, -1)
    assert np.abs(found - np.concatenate(rows)).max() < 2e-3
    alone = logits(build, path, tmp_path / "alone", *args, "--threads", 1, "--step-tokens", stride, "--isa", "auto")
    assert (alone.reshape(found.shape) == found).all()


def test_without_eviction_ranks_are_positions(build, tiny, tmp_path):
    path, _, _ = tiny
    args = ["--tokens", 64, "--decode", 20, "--stride", 16, "--policy", "roco", "--budget", 64]
    true, ranks = (logits(build, path, tmp_path / "logits", *args, *more) for more in ([], ["--by-rank"]))
    assert np.abs(true - ranks).max() < 2e-4


@pytest.mark.parametrize("kv_type", ["f16", "q8", "q4"])
def test_other_types_of_k_and_v(build, tiny, tmp_path, kv_type):
    path, _, _ = tiny
    args = ["--tokens", 200, "--decode", 60, "--stride", 16, "--policy", "recency", "--budget", 60, "--by-rank"]
    exact, stored = (logits(build, path, tmp_path / "logits", *args, "--kv-type", t) for t in ("f32", kv_type))
    assert np.abs(stored - exact).mean() < {"f16": 2e-3, "q8": 0.05, "q4": 0.5}[kv_type] * np.abs(exact).mean()
