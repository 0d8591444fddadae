"""The engine against the numpy definition of the model and of RoCo, on the real model.

The reference is tests/golden/roco_reference.py; both sides read the same file and the same token ids.
"""
import json
import subprocess
import sys

import numpy as np
import pytest

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parent / "golden/roco_reference.py"
sys.path.insert(0, str(REFERENCE.parent))


@pytest.fixture(scope="session")
def ids(data):
    return data / "doc.smollm2-ids.json"


@pytest.fixture(scope="session")
def reference(model):
    import roco_reference
    return roco_reference.Model(str(model))


@pytest.fixture(scope="session")
def probe(build, model, ids):
    def run(*args):
        command = [str(build / "tests/probe"), str(model), str(ids), *map(str, args)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    return run


def test_logits_equal_the_reference(probe, reference, ids, tmp_path):
    import roco_reference
    rows = []
    tokens = json.load(open(ids))[:256]
    roco_reference.run(reference, tokens, on_logits=lambda start, z: rows.append(z))
    expected = np.concatenate(rows)
    probe("--tokens", 256, "--precision", "f32", "--kv-type", "f32", "--logits", tmp_path / "logits")
    found = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape)
    worst = np.abs(found - expected).max()
    print(f"largest difference of {expected.size} logits: {worst:.2e}")
    assert worst < 1e-3
    assert (found.argmax(-1) == expected.argmax(-1)).all()


def test_int8_perplexity_is_that_of_f32(probe):
    nll = {p: float(probe("--tokens", 2048, "--precision", p, "--kv-type", "f16", "--nll")) for p in ("f32", "int8")}
    ratio = np.exp(nll["int8"] - nll["f32"])
    print(f"perplexity f32 {np.exp(nll['f32']):.3f}, int8 {np.exp(nll['int8']):.3f}, ratio {ratio:.5f}")
    assert abs(ratio - 1) < 0.005


def kept_by_probe(path):
    kept = {}
    for line in open(path):
        layer, head, *positions = map(int, line.split())
        kept[layer, head] = set(positions)
    return kept


def unequal(reference):
    """A budget for each head that averages 192: 96..288 in a fixed order."""
    n = reference.layers * reference.kv_heads
    return (96 + (np.arange(n) * 37 % 193)).reshape(reference.layers, reference.kv_heads)


@pytest.mark.parametrize("kv_type, share", [("f32", 0.999), ("f16", 0.995)])
@pytest.mark.parametrize("budget", [128, 256, "unequal"])
def test_roco_keeps_what_the_reference_keeps(probe, reference, ids, tmp_path, budget, kv_type, share):
    import roco_reference
    tokens = json.load(open(ids))[:1024]
    args = ["--tokens", 1024, "--decode", 128, "--policy", "roco", "--precision", "f32", "--kv-type", kv_type,
            "--kept", tmp_path / "kept"]
    if budget == "unequal":
        budgets = unequal(reference)
        json.dump(budgets.tolist(), open(tmp_path / "budgets", "w"))
        args += ["--head-budgets", tmp_path / "budgets"]
    else:
        budgets = np.full((reference.layers, reference.kv_heads), budget)
        args += ["--budget", budget]
    probe(*args)
    found = kept_by_probe(tmp_path / "kept")
    cache = roco_reference.run(reference, tokens, policy="roco", budget=budgets, decode=128)
    same = total = 0
    for layer in range(reference.layers):
        for head in range(reference.kv_heads):
            expected = set(cache[layer][head].pos.tolist())
            assert len(found[layer, head]) == len(expected) == budgets[layer, head]
            same += len(found[layer, head] & expected)
            total += len(expected)
    print(f"budget {budget}, K and V in {kv_type}: {same} of {total} slots the same ({same / total:.5f})")
    assert same / total >= share


@pytest.mark.parametrize("policy", ["mean", "h2o", "tova"])
def test_other_policies_keep_what_the_reference_keeps(probe, reference, ids, tmp_path, policy):
    import roco_reference
    tokens = json.load(open(ids))[:700]
    probe("--tokens", 700, "--decode", 60, "--policy", policy, "--budget", 128, "--precision", "f32", "--kv-type", "f32",
          "--kept", tmp_path / "kept")
    found = kept_by_probe(tmp_path / "kept")
    cache = roco_reference.run(reference, tokens, policy=policy, budget=128, decode=60)
    same = sum(len(found[layer, head] & set(cache[layer][head].pos.tolist()))
               for layer in range(reference.layers) for head in range(reference.kv_heads))
    total = 128 * reference.layers * reference.kv_heads
    print(f"{policy}: {same} of {total} slots the same ({same / total:.5f})")
    assert same / total >= 0.995


# roco_reference.py ppl MODEL tests/data/doc.smollm2-ids.json --tokens 512 --budget 64 --policy ...
PERPLEXITY = {"mean": 59.9071, "roco": 60.1101, "tova": 60.7280, "h2o": 61.0962, "recency": 63.3674, "random": 63.6875}


def test_policies_cost_what_the_reference_says(probe):
    """Within 0.5 %, and in the same order."""
    found = {policy: np.exp(float(probe("--tokens", 512, "--policy", policy, "--budget", 64, "--precision", "f32", "--kv-type",
                                        "f32", "--nll"))) for policy in PERPLEXITY}
    assert found == pytest.approx(PERPLEXITY, rel=0.005)
    assert sorted(found, key=found.get) == list(PERPLEXITY)


def mix(z):
    mask = (1 << 64) - 1
    z = (z + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_random_follows_its_rule(probe, reference, tmp_path):
    """The rule that engine/policy_random.c states, replayed without a model."""
    tokens, decode, budget, stride = 400, 50, 64, 64
    probe("--tokens", tokens, "--decode", decode, "--policy", "random", "--budget", budget, "--kept", tmp_path / "kept")
    prompt = tokens - decode
    ends = list(range(stride, prompt, stride)) + list(range(prompt, tokens + 1))
    for (layer, head), found in kept_by_probe(tmp_path / "kept").items():
        kept, fed = [], 0
        for end in ends:
            # a prompt evicts after its stride, a decode step before its token
            if end > prompt:
                kept = evict(kept, budget - 1, end - 2, layer, head)
            kept += range(fed, end)
            kept, fed = evict(kept, budget, end - 1, layer, head), end
        assert set(kept) == found


def evict(kept, left, now, layer, head):
    key = lambda p: (mix((mix(layer << 32 | head) + (now << 32) + p) & ((1 << 64) - 1)) >> 11, p)
    victims = sorted((p for p in kept if 4 <= p <= now - 10), key=key)[:max(len(kept) - left, 0)]
    return [p for p in kept if p not in set(victims)]


def test_recency_keeps_sinks_and_newest(probe, tmp_path):
    probe("--tokens", 700, "--decode", 100, "--policy", "recency", "--budget", 128, "--kept", tmp_path / "kept")
    expected = set(range(4)) | set(range(700 - 124, 700))
    assert all(kept == expected for kept in kept_by_probe(tmp_path / "kept").values())


def test_a_budget_never_reached_is_full(probe, tmp_path):
    """Bit for bit, prompt and decode."""
    for name, args in (("full", ["--policy", "full"]), ("roco", ["--policy", "roco", "--budget", 300])):
        probe("--tokens", 300, "--decode", 40, "--precision", "int8", "--kv-type", "f16", "--logits", tmp_path / name,
              *args)
    assert (tmp_path / "full").read_bytes() == (tmp_path / "roco").read_bytes()
