"""Gemma 3 270M, where `scripts/fetch-model gemma3` puts it (or GEMMA_GGUF names it): tokens, perplexity, answers."""
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
MODEL = pathlib.Path(os.environ.get("GEMMA_GGUF", f"{CACHE}/roco/gemma-3-270m.Q4_K_M.gguf"))
SPACE = "\u2581".encode()
sys.path[:0] = [str(GOLDEN), str(HERE)]

pytestmark = pytest.mark.skipif(not MODEL.exists(), reason=f"no model at {MODEL}: scripts/fetch-model gemma3")


def tokenize(build, texts, *flags):
    data = b"".join(struct.pack("<I", len(t)) + t for t in texts)
    done = subprocess.run([build / "tests/tokenize", MODEL, *flags], input=data, capture_output=True, check=True)
    lines = [line.split("\t") for line in done.stdout.decode().split("\n")[:-1]]
    return [([int(i) for i in ids.split()], bytes.fromhex(text)) for ids, text in lines]


@pytest.fixture(scope="module")
def ids(build, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("gemma") / "ids"
    json.dump(tokenize(build, [(data / "doc.txt").read_bytes()], "--bos")[0][0], open(path, "w"))
    return path


def perplexity(build, ids, *args):
    command = [build / "tests/probe", MODEL, ids, "--nll", *map(str, args)]
    return np.exp(float(subprocess.run(command, capture_output=True, check=True, timeout=600).stdout))


def test_ids_equal_sentencepiece(build):
    from test_tokenizer import digest, unescape
    texts = [unescape(line) for line in (GOLDEN / "tokenizer/corpus.txt").read_bytes().split(b"\n")[:-1]]
    expected = (GOLDEN / "tokenizer/gemma3_ids.txt").read_text().split()
    for text, want, (found, joined) in zip(texts, expected, tokenize(build, texts), strict=True):
        assert digest(found) == want, text
        assert joined == text.replace(SPACE, b" ")


def test_perplexity_is_the_references(build, ids):
    """600 tokens: past the window of 512."""
    import families_reference
    reference = families_reference.Model(str(MODEL))
    expected = np.exp(families_reference.nll(reference, json.load(open(ids))[:600]))
    f32 = perplexity(build, ids, "--tokens", 600, "--precision", "f32", "--kv-type", "f32")
    int8 = perplexity(build, ids, "--tokens", 600, "--precision", "int8", "--kv-type", "f16")
    print(f"perplexity: reference {expected:.4f}, f32 {f32:.4f}, int8 {int8:.4f}")
    assert abs(f32 / expected - 1) < 1e-4
    assert abs(int8 / expected - 1) < 5e-3


def test_every_token_is_as_likely_as_transformers_says(build, ids):
    """1,024 tokens; transformers in float32 with the same weights, dequantised (make_transformers.py)."""
    golden = json.load(open(GOLDEN / "gemma3_transformers.json"))
    assert json.load(open(ids))[:1024] == golden["ids"]
    logits = ids.parent / "logits"
    f32 = perplexity(build, ids, "--tokens", 300, "--precision", "f32", "--kv-type", "f32", "--logits", logits)
    z = np.fromfile(logits, np.float32).reshape(300, -1)[:299]
    for position, row in golden["logits"].items():
        if int(position) < len(z):
            assert np.abs(z[int(position), ::golden["step"]] - row).max() < 1e-3
    z -= z.max(-1, keepdims=True)
    nll = np.log(np.exp(z).sum(-1)) - z[np.arange(299), golden["ids"][1:300]]
    assert np.abs(nll - golden["nll"][:299]).max() < 1e-3
    int8 = perplexity(build, ids, "--tokens", 1024, "--precision", "int8", "--kv-type", "f16")
    print(f"perplexity of 300 tokens: {f32:.4f}; of 1,024: {int8:.4f}, transformers {np.exp(np.mean(golden['nll'])):.4f}")
    assert abs(f32 / np.exp(np.mean(golden["nll"][:299])) - 1) < 1e-4
    assert abs(int8 / np.exp(np.mean(golden["nll"])) - 1) < 5e-3


def test_a_budget_costs_little(build, ids):
    full = perplexity(build, ids, "--tokens", 1024, "--precision", "int8")
    roco = perplexity(build, ids, "--tokens", 1024, "--precision", "int8", "--policy", "roco", "--budget", 256)
    print(f"perplexity of 1,024 tokens: full {full:.2f}, roco at 256 {roco:.2f}")
    assert full < roco < 1.05 * full


def test_windows_and_budget_hold(build, ids, tmp_path):
    for policy, most in (("full", [512, 800]), ("roco", [256, 256])):
        subprocess.run([build / "tests/probe", MODEL, ids, "--tokens", "800", "--decode", "20", "--precision", "int8",
                        "--policy", policy, "--budget", "256", "--kept", tmp_path / "kept"], check=True)
        for line in open(tmp_path / "kept"):
            layer, _, *kept = map(int, line.split())
            is_global = layer % 6 == 5
            assert len(kept) == most[is_global]
            if policy == "full" and not is_global:
                assert kept == list(range(800 - 512, 800))


def test_it_answers(start):
    server = start("--kv-pool-tokens", 4096, model=MODEL)
    for prompt, answer in (("Water boils at", "100 degrees"), ("Monday, Tuesday, Wednesday,", "Thursday"),
                           ("The opposite of hot is", "cold")):
        text = server.complete(prompt=prompt, max_tokens=8, temperature=0)["choices"][0]["text"]
        assert answer in text, text
    server.stop()
