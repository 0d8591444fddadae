"""The HTTP API under schemathesis: some hundreds of the requests that tests/fuzz/api makes by the thousands."""
import os
import pathlib
import re
import subprocess
import sys

from conftest import ROOT


def test_no_request_gets_a_5xx(build):
    program = os.environ.get("SCHEMATHESIS") or pathlib.Path(sys.executable).with_name("schemathesis")
    run = subprocess.run([ROOT / "tests/fuzz/api", build, "50", "fuzzing"], env={**os.environ, "SCHEMATHESIS": str(program)},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=220)
    assert run.returncode == 0, run.stdout[-8000:]
    cases = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
    assert cases and cases[1] == cases[2] and int(cases[1]) > 200, run.stdout[-2000:]
