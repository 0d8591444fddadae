"""A few rounds of SIGTERM under load; tests/load/sigterm does hundreds, on a sanitizer's build."""
import subprocess
import sys

from script import ROOT


def test_sigterm_under_load_exits_cleanly(build):
    run = subprocess.run([sys.executable, ROOT / "tests/load/sigterm", "--build", build, "--rounds", "8"], capture_output=True, text=True,
                         timeout=300)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
