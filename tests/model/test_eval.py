"""`roco eval` and `roco profile`: their numbers are the engine's, in company as alone; what is wrong is said."""
import csv
import json
import math
import subprocess
import xml.etree.ElementTree

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
    """2,000 tokens. The reference at a budget of 512: full 1.23, roco 26.7, roco by head 1.31."""
    found = rows(roco, tmp_path / "json", "eval", "recall", model, "--text", text, "--budgets", "512,256")
    assert found["full", "", 0]["recall"] == pytest.approx(1.23, abs=0.02)
    assert found["roco", "uniform", 512]["recall"] == pytest.approx(26.7, rel=0.05)
    for budget, most in ((512, 1.28), (256, 1.36)):
        by_head = found["roco", "profile", budget]
        assert by_head["recall"] <= most and by_head["held"] <= budget
        assert by_head["elsewhere"] <= 1.002 * found["full", "", 0]["elsewhere"]


def test_strides_and_plot(roco, model, text, tmp_path):
    done = roco("eval", "ppl", model, "--text", text, "--tokens", 300, "--budgets", "64,100", "--policies", "full,roco", "--heads",
                "uniform", "--strides", "64,16", "--json", tmp_path / "json", "--svg", tmp_path / "svg")
    assert done.returncode == 0, done.stderr
    table = json.load(open(tmp_path / "json"))
    assert [(r["budget"], r["stride"]) for r in table] == [(0, 0), (64, 64), (64, 16), (100, 64), (100, 16)]
    assert len({r["perplexity"] for r in table}) == 5
    drawn = xml.etree.ElementTree.parse(tmp_path / "svg").getroot()
    assert len(drawn.findall(".//{*}polyline")) == 3 and len(drawn.findall(".//{*}circle")) == 4


def test_a_text_past_the_context(roco, model, text, tmp_path):
    """Ranks in the cache as positions: five times the context, and no worse than with room for true positions."""
    args = ("eval", "ppl", model, "--text", text, "--tokens", 1500, "--budgets", 192, "--policies", "roco", "--heads", "uniform")
    past = rows(roco, tmp_path / "json", *args, "--context", 300, "--positions", "cache")["roco", "uniform", 192]
    true = rows(roco, tmp_path / "json", *args)["roco", "uniform", 192]
    assert past["held"] == 192 and past["perplexity"] == pytest.approx(true["perplexity"], rel=0.03)


def test_passkey(roco, model, tmp_path):
    done = roco("eval", "passkey", model, "--lengths", "256,512", "--depths", "10,50", "--trials", 2, "--policies", "full,recency",
                "--budgets", 64, "--heads", "uniform", "--json", tmp_path / "json", "--svg", tmp_path / "svg")
    assert done.returncode == 0, done.stderr
    table = json.load(open(tmp_path / "json"))
    found = {(r["policy"], r["length"], r["depth"]): r["found"] for r in table}
    assert len(found) == 8 and all(v == (k[0] == "full") for k, v in found.items()), found
    squares = xml.etree.ElementTree.parse(tmp_path / "svg").getroot().findall(".//{*}rect")
    assert len(squares) == 1 + 8


PROMPTS = "Once upon a time there was a little\ngirl.\n---\nThe capital of France is\n---\nWrite a list of animals:\n"


def test_agree(roco, model, tmp_path):
    (tmp_path / "prompts").write_text(PROMPTS)
    args = ("eval", "agree", model, "--prompts", tmp_path / "prompts", "--heads", "uniform", "--new-tokens", 50)
    found = rows(roco, tmp_path / "json", *args, "--policies", "roco,recency", "--budgets", "32,128")
    for policy in ("roco", "recency"):
        whole, small = (found[policy, "uniform", budget] for budget in (128, 32))
        assert whole["agree"] == 1 and whole["kl"] == 0
        assert 0.5 < small["agree"] <= 1 and 0 < small["kl"] < 1 and small["held"] == 32
    assert found["roco", "uniform", 128]["evicted_mass"] == 0 < found["roco", "uniform", 32]["evicted_mass"]
    assert found["recency", "uniform", 32]["evicted_mass"] is None
    alone = rows(roco, tmp_path / "json", *args, "--policies", "roco", "--budgets", "32")
    assert alone["roco", "uniform", 32] == found["roco", "uniform", 32]


def test_compare(roco, model, tmp_path):
    (tmp_path / "prompts").write_text(PROMPTS)
    done = roco("eval", "compare", model, "--prompts", tmp_path / "prompts", "--a", "full", "--b", "recency:32:uniform",
                "--new-tokens", 60, "--json", tmp_path / "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("=== prompt") == 3 and done.stdout.count("--- recency:32:uniform, held 32") >= 1
    table = json.load(open(tmp_path / "json"))
    assert all(r["evicted_a"] == 0 for r in table) and any(r["equal_from_start"] < r["answer_a"] for r in table)


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
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--strides", "65"], "'65'"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--positions", "rank"], "--positions"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--compensation", "yes"], "--compensation"),
    (["eval", "ppl", "MODEL", "--text", "TEXT", "--policies", "tova", "--compensation", "on"], "tova"),
    (["eval", "passkey", "MODEL", "--lengths", "100"], "'100'"),
    (["eval", "passkey", "MODEL", "--depths", "101"], "'101'"),
    (["eval", "agree", "MODEL"], "--prompts"),
    (["eval", "agree", "MODEL", "--prompts", "TEXT", "--new-tokens", "0"], "1 to"),
    (["eval", "compare", "MODEL", "--prompts", "TEXT", "--b", "roco"], "'roco'"),
    (["eval", "compare", "MODEL", "--prompts", "TEXT", "--b", "roco:64:all"], "'roco:64:all'"),
    (["profile"], "usage"),
    (["profile", "MODEL", "--no-such-option", "1"], "unknown option"),
])
def test_what_is_wrong_is_said(roco, model, text, args, message):
    done = roco(*(str({"MODEL": model, "TEXT": text}.get(a, a)) for a in args))
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""
