"""What the load scripts and tests/bench/mission share: their options, and a server of their own."""
import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from conftest import Server  # noqa: E402 (found through the line above)


def options(doc):
    """A parser with the options every script has: which build, which model, where results go."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="folder that holds roco")
    parser.add_argument("--model", default=f"{cache}/roco/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--json", metavar="OUT", help="write the results to this file as well")
    return parser


def cpu_seconds(server):
    """Processor time the server has used, user and system."""
    with open(f"/proc/{server.process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
