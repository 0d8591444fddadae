"""`roco eval` and `roco profile`: their numbers are the engine's, in company as alone; what is wrong is said."""
import csv
import json
import math
import subprocess

import pytest


@pytest.fixture(scope="module")
def roco(build, tmp_path_factory):
    def run(*args):
        return subprocess.run([str(build / "roco"), *map(str, args)], capture_output=True, text=True, timeout=500)
    return run


@pytest.fixture(scope="module")
def text(data):
    return data / "doc.txt"


def rows(roco, out, *args):
    done = roco(*args, "--json", out)
    assert done.returncode == 0, done.stderr
    return {(r["policy"], r["heads"], r["budget"]): r for r in json.load(open(out))}


def test_perplexity_is_the_probe_s(roco, build, model, data, text, tmp_path):
    found = rows(roco, tmp_path / "json", "eval", "ppl", model, "--text", text, "--tokens", 500, "--budgets", 96,
                 "--policies", "full,roco,tova", "--heads", "uniform", "--csv", tmp_path / "csv")
    for policy, budget in (("full", 0), ("roco", 96), ("tova", 96)):
        nll = subprocess.run([build / "tests/probe", model, data / "doc.smollm2-ids.json", "--tokens", "500", "--policy",
                              policy, "--budget", str(budget or 512), "--precision", "int8", "--kv-type", "f16", "--nll"],
                             capture_output=True, text=True, check=True).stdout
        row = found[policy, "uniform" if budget else "", budget]
        assert row["perplexity"] == pytest.approx(math.exp(float(nll)), rel=1e-4)
        assert row["held"] == (budget or 500) and row["tokens"] == 500
    full = found["full", "", 0]["perplexity"]
    assert found["roco", "uniform", 96]["percent_over_full"] == pytest.approx(
        100 * (found["roco", "uniform", 96]["perplexity"] / full - 1), abs=0.01)
    table = list(csv.DictReader(open(tmp_path / "csv")))
    assert [r["policy"] for r in table] == ["full", "roco", "tova"] and float(table[0]["perplexity"]) == full


def test_company_changes_nothing(roco, model, text, tmp_path):
    args = ("eval", "ppl", model, "--text", text, "--tokens", 300)
    alone = rows(roco, tmp_path / "a", *args, "--budgets", 64, "--policies", "h2o", "--heads", "uniform")
    many = rows(roco, tmp_path / "b", *args, "--budgets", "64,100,200", "--policies", "full,roco,mean,h2o,random,recency")
    assert len(many) == 1 + 5 * 3 * 2
    for key, row in alone.items():
        assert row["perplexity"] == many[key]["perplexity"]


def test_recall_by_head(roco, model, text, tmp_path):
    """2,000 tokens at an average budget of 512. The reference: full 1.23, roco 26.7, roco by head 1.31."""
    found = rows(roco, tmp_path / "json", "eval", "recall", model, "--text", text, "--budgets", 512)
    assert found["full", "", 0]["recall"] == pytest.approx(1.23, abs=0.02)
    assert found["roco", "uniform", 512]["recall"] == pytest.approx(26.7, rel=0.05)
    by_head = found["roco", "profile", 512]
    assert by_head["recall"] <= 1.35 and by_head["held"] <= 512
    assert by_head["elsewhere"] == pytest.approx(found["roco", "uniform", 512]["elsewhere"], rel=0.005)


def test_profile_command(roco, model, tmp_path):
    linked = tmp_path / "m.gguf"
    linked.symlink_to(model.resolve())
    done = roco("profile", linked)
    assert done.returncode == 0 and "written to " in done.stdout
    profile = json.load(open(tmp_path / "m.heads.json"))
    assert profile["roco_head_profile"] == 1 and len(profile["scores"]) == profile["layers"] == 30
    assert profile["scores"][18][2] == max(map(max, profile["scores"]))


@pytest.mark.parametrize("args, message", [
    (["eval"], "usage"),
    (["eval", "nonsense"], "usage"),
    (["eval", "ppl", "MODEL"], "--text"),
    (["eval", "ppl", "--text", "TEXT"], "model"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--budgets", "12"], "'12'"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--budgets", "64,x"], "'x'"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--policies", "lru"], "'lru'"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--policies", "roco", "--budgets", ""], "nothing"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--heads", "all"], "--heads"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--tokens", "1"], "2 to"),
    (["eval", "ppl", "MODEL", "--text"], "needs a value"),
    (["eval", "recall", "MODEL", "--text", "TEXT", "--filler", "50000"], "tokens"),
    (["eval", "recall", "MODEL", "--text", "TEXT", "--depth", "3500", "--filler", "4000"], "context"),
    (["profile"], "usage"),
    (["profile", "MODEL", "--no-such-option", "1"], "unknown option"),
])
def test_what_is_wrong_is_said(roco, model, text, args, message):
    done = roco(*(str({"MODEL": model, "TEXT": text}.get(a, a)) for a in args))
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""
