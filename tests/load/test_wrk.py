"""The wrk run, short."""
import shutil
import subprocess
import sys

import pytest
from script import ROOT


def test_wrk_sees_no_error_and_memory_stays_flat(build, model):
    if not shutil.which("wrk"):
        pytest.skip("wrk is not installed")
    run = subprocess.run([sys.executable, ROOT / "tests/load/run", "--build", build, "--model", model, "--seconds", "5", "--noticed", "30"],
                         capture_output=True, text=True, timeout=300)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
