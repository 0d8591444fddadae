"""The soak, for a minute; tests/load/soak does it for an hour."""
import subprocess
import sys

from script import ROOT


def test_a_minute_of_everything(build):
    command = [sys.executable, ROOT / "tests/load/soak", "--build", build, "--seconds", "40", "--rounds", "5"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
