"""The HTTP API under schemathesis: the 5,000 requests of tests/fuzz/api."""
import os
import pathlib
import re
import subprocess
import sys

from conftest import ROOT


def test_no_request_gets_a_5xx(build):
    program = os.environ.get("SCHEMATHESIS") or pathlib.Path(sys.executable).with_name("schemathesis")
    run = subprocess.run([ROOT / "tests/fuzz/api", build], env={**os.environ, "SCHEMATHESIS": str(program)},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=220)
    assert run.returncode == 0, run.stdout[-8000:]
    cases = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
    assert cases and cases[1] == cases[2] and int(cases[1]) > 4000, run.stdout[-2000:]
