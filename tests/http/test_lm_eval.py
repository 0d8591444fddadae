"""The scores of tests/lm_eval, worked out over the API as lm-eval does it, against those of transformers with the same weights.

expected.json is what lm-eval says of transformers with the dequantised file (tests/lm_eval/compare.py). Without lm-eval this shows
that echo and log-probabilities give a harness what it needs.
"""
import json
import math
import pathlib

import pytest
import requests

HERE = pathlib.Path(__file__).resolve().parent.parent / "lm_eval"
EXPECTED = json.loads((HERE / "expected.json").read_text())
WINDOW, BEGIN = 1024, 1


def rows(name):
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def tokenize(server, text):
    return requests.post(server.url + "/tokenize", json={"text": text}, timeout=60).json()["tokens"]


def likelihoods(server, pairs):
    """For each (context, continuation), both as ids, the sum of the continuation's log-probabilities."""
    sums = []
    for i in range(0, len(pairs), 32):
        part = pairs[i:i + 32]
        reply = server.complete(prompt=[context + rest for context, rest in part], echo=True, logprobs=1, max_tokens=0,
                                kv_policy="full")
        sums += [sum(choice["logprobs"]["token_logprobs"][len(context):]) for choice, (context, _) in zip(reply["choices"], part)]
    return sums


def test_multiple_choice(server):
    questions = rows("cloze.jsonl")
    pairs = []
    for q in questions:
        context = tokenize(server, q["context"])
        pairs += [(context, tokenize(server, q["context"] + " " + choice)[len(context):]) for choice in q["choices"]]
    values = likelihoods(server, pairs)
    right = right_by_length = 0
    for i, q in enumerate(questions):
        own = values[4 * i:4 * i + 4]
        normed = [v / len(choice) for v, choice in zip(own, q["choices"])]
        right += own.index(max(own)) == q["answer"]
        right_by_length += normed.index(max(normed)) == q["answer"]
    assert right / len(questions) == pytest.approx(EXPECTED["roco_cloze acc"], rel=0.005)
    assert right_by_length / len(questions) == pytest.approx(EXPECTED["roco_cloze acc_norm"], rel=0.005)


def windows(ids):
    """lm-eval's: each token is foreseen once, from as many before it as the window holds."""
    first = min(WINDOW, len(ids))
    yield [BEGIN], ids[:first]
    while first < len(ids):
        n = min(len(ids) - first, WINDOW)
        end = first + n
        yield ids[end - WINDOW - 1:end - n], ids[end - n:end]
        first = end


def test_perplexity(server):
    texts = [row["text"] for row in rows("text.jsonl")]
    pairs = [pair for text in texts for pair in windows(tokenize(server, text))]
    total = sum(likelihoods(server, pairs))
    n_bytes, n_words = sum(len(t.encode()) for t in texts), sum(len(t.split()) for t in texts)
    assert -total / n_bytes / math.log(2) == pytest.approx(EXPECTED["roco_text bits_per_byte"], rel=0.005)
    assert math.exp(-total / n_words) == pytest.approx(EXPECTED["roco_text word_perplexity"], rel=0.005)
