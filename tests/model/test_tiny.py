"""The engine against the numpy reference on tiny seeded models: every slot of every head, for MHA, GQA and MQA.

Random weights leave no near ties, so here equal means all.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import roco_reference  # noqa: E402

SHAPES = {
    "gqa": ["heads=4", "kv-heads=2"],
    "mha": ["heads=4", "kv-heads=4"],
    "mqa": ["heads=8", "kv-heads=1", "head-dim=8"],
    "untied": ["heads=4", "kv-heads=2", "tied=0"],
    "rope_freqs": ["heads=4", "kv-heads=2", "rope-freqs=1"],
    "wide heads": ["heads=2", "kv-heads=2", "head-dim=48"],
}


@pytest.fixture(scope="module", params=SHAPES)
def tiny(request, build, tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    subprocess.run([build / "tests/make_tiny_model", path, *SHAPES[request.param], "context=1024"], check=True)
    reference = roco_reference.Model(str(path))
    if "rope_freqs.weight" in reference.W:  # the reference does not read them
        reference.inv_freq = reference.inv_freq / reference.W["rope_freqs.weight"]
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 320, 500)]
    json.dump(ids, open(path.parent / "ids", "w"))
    return path, reference, ids


def probe(build, path, *args):
    subprocess.run([build / "tests/probe", path, path.parent / "ids", *map(str, args)], check=True, timeout=100)


def test_logits(build, tiny, tmp_path):
    path, reference, ids = tiny
    rows = []
    roco_reference.run(reference, ids, on_logits=lambda start, z: rows.append(z))
    expected = np.concatenate(rows)
    probe(build, path, "--logits", tmp_path / "logits", "--decode", 100)
    found = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape)
    assert np.abs(found - expected).max() < 1e-3


@pytest.mark.parametrize("policy", ["roco", "recency"])
@pytest.mark.parametrize("budget, stride", [(32, 16), (33, 64), (64, 64), (96, 32), (200, 64)])
def test_kept_positions(build, tiny, tmp_path, policy, budget, stride):
    path, reference, ids = tiny
    probe(build, path, "--policy", policy, "--budget", budget, "--stride", stride, "--decode", 150,
          "--kept", tmp_path / "kept")
    cache = roco_reference.run(reference, ids, policy=policy, budget=budget, stride=stride, decode=150)
    for line in open(tmp_path / "kept"):
        layer, head, *positions = map(int, line.split())
        assert positions == sorted(cache[layer][head].pos.tolist())
