"""roco bench: the figures are there, belong together, and what does not fit is said."""
import json
import subprocess

import pytest


def bench(build, model, *args):
    return subprocess.run([build / "roco", "bench", model, *map(str, args)], capture_output=True, text=True, timeout=120)


def test_figures(build, model, tmp_path):
    out = tmp_path / "bench.json"
    run = bench(build, model, "--prompts", "96", "--contexts", "0,128,100000", "--budgets", "none,64", "--batches", "2",
                "--rounds", 1, "--steps", 12, "--eviction", 64, "--json", out)
    assert run.returncode == 0, run.stderr
    r = json.loads(out.read_text())
    found = {(c["what"], c["context"], c["budget"], c["batch"]): c for c in r["cases"]}
    assert set(found) == {("prefill", 96, 0, 1), ("prefill", 96, 64, 1), ("decode", 0, 0, 1), ("decode", 128, 0, 1),
                          ("decode", 128, 64, 1), ("decode", 100000, 0, 1), ("decode", 100000, 64, 1), ("decode", 0, 0, 2)}
    assert [k for k, c in found.items() if not c["fits"]] == [("decode", 100000, 0, 1), ("decode", 100000, 64, 1)]
    assert all(c["slow"] <= c["tokens_per_second"] <= c["fast"] and c["slow"] > 0 for c in r["cases"] if c["fits"])
    assert r["read_bytes_per_second"] > 1e9 and 90e6 < r["weight_bytes"] < 100e6
    assert all(us > 0 for us in r["draws_us"].values())
    for step in r["steps"][:2]:
        named = sum(step["ops"].values())
        assert 0.7 * step["step_us"] < named < step["step_us"], step
        assert step["ops"]["gate, up"] > step["ops"]["norm"]
    assert "Statistics and eviction at budget 64" in run.stdout and "does not fit" in run.stdout


@pytest.mark.parametrize("args, field", [(["--budgets", "8"], "--budgets"), (["--batches", "1,x"], "--batches"),
                                         (["--policy", "best"], "best"), (["--steps", "1"], "--steps")])
def test_refusals(build, model, args, field):
    run = bench(build, model, *args)
    assert run.returncode == 2 and field in run.stderr and not run.stdout
