"""Each model family against an independent forward pass in numpy, on tiny seeded models: logits of prompt and decode,
alone and beside another sequence, and every position that every head keeps.

Random weights leave no near ties, so here equal means all.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import families_reference  # noqa: E402

TOKENS = 250


@pytest.fixture(scope="module", params=families_reference.TINY)
def tiny(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("family")
    families_reference.write_tiny(request.param, folder / "tiny.gguf")
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 320, TOKENS)]
    json.dump(ids, open(folder / "ids", "w"))
    return folder / "tiny.gguf", families_reference.Model(str(folder / "tiny.gguf")), ids


def probe(build, path, *args):
    subprocess.run([build / "tests/probe", path, path.parent / "ids", *map(str, args)], check=True, timeout=100)


@pytest.mark.parametrize("company", [[], ["--company", 90]])
def test_logits(build, tiny, tmp_path, company):
    path, reference, ids = tiny
    rows = []
    families_reference.run(reference, ids, on_logits=lambda start, z: rows.append(z))
    expected = np.concatenate(rows)
    assert expected.std() > 0.3
    probe(build, path, "--logits", tmp_path / "logits", "--decode", 60, *company)
    found = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape)
    assert np.abs(found - expected).max() < 1e-3


@pytest.mark.parametrize("policy", ["roco", "recency"])
@pytest.mark.parametrize("budget, stride", [(32, 16), (33, 64), (100, 32)])
def test_kept_positions(build, tiny, tmp_path, policy, budget, stride):
    path, reference, ids = tiny
    probe(build, path, "--policy", policy, "--budget", budget, "--stride", stride, "--decode", 80,
          "--kept", tmp_path / "kept", "--logits", tmp_path / "logits")
    rows = []
    cache = families_reference.run(reference, ids, policy=policy, budget=budget, stride=stride, decode=80,
                                   on_logits=lambda start, z: rows.append(z))
    for line in open(tmp_path / "kept"):
        layer, head, *positions = map(int, line.split())
        assert positions == sorted(cache[layer][head].pos.tolist())
    expected = np.concatenate(rows)
    found = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape)
    assert np.abs(found - expected).max() < 1e-3


@pytest.mark.parametrize("name", families_reference.TINY)
def test_llama_cpp_agrees(build, tmp_path, name):
    """Log-probabilities of llama.cpp, committed. Its GELU is a table in f16."""
    peer = json.load(open(pathlib.Path(families_reference.__file__).parent / "families_peer.json"))[name]
    families_reference.write_tiny(name, tmp_path / "tiny.gguf")
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 320, TOKENS)]
    json.dump(ids, open(tmp_path / "ids", "w"))
    probe(build, tmp_path / "tiny.gguf", "--logits", tmp_path / "logits")
    z = np.fromfile(tmp_path / "logits", np.float32).reshape(TOKENS, -1).astype(np.float64)
    z -= np.log(np.exp(z).sum(-1, keepdims=True))
    for length, top in peer.items():
        for token, expected in top.items():
            assert abs(z[int(length) - 1][int(token)] - expected) < (4e-3 if "gemma" in name else 1e-4)
