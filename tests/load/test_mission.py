"""The mission benchmark, small: a pool carries as many requests as its pages divide into, and every answer is complete."""
import json
import subprocess
import sys

from script import ROOT


def test_a_budget_lets_more_requests_run_at_once(build, model, tmp_path):
    out = tmp_path / "mission.json"
    run = subprocess.run([sys.executable, ROOT / "tests/bench/mission", "--build", build, "--model", model, "--json", out,
                          "--clients", "16", "--kv-pool-tokens", "4096", "--prompt", "400", "--answer", "30", "--kv-budget", "64"],
                         capture_output=True, text=True, timeout=300)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    full, capped = json.loads(out.read_text())
    assert full["running"] == 4096 // 32 // 14 == 9  # 430 tokens are 14 pages
    assert capped["running"] == 16
    assert full["complete"] == capped["complete"] == 16
