"""roco and Prometheus as docker/compose.yaml says, on a network of their own: the scrape works and no alert is on.

Compose itself needs a bridge, which a daemon without iptables has not; so what the file says is handed to `docker run` here. Grafana
is in no distribution: its files are checked by tests/deploy/test_dashboards.py.
"""
import json
import os
import pathlib
import subprocess
import time

import pytest
import yaml

IMAGE = os.environ.get("ROCO_IMAGE")
PROMETHEUS = os.environ.get("PROMETHEUS_IMAGE")
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docker"

pytestmark = pytest.mark.skipif(not IMAGE or not PROMETHEUS, reason="ROCO_IMAGE and PROMETHEUS_IMAGE name no images")


def docker(*args):
    run = subprocess.run(["docker", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, f"docker {args[0]}: {run.stderr}"
    return run.stdout.strip()


def filled_in(text, variables):
    """${NAME:-default}, as Compose fills it in."""
    while "${" in text:
        before, _, rest = text.partition("${")
        name, _, after = rest.partition("}")
        name, _, default = name.partition(":-")
        text = before + variables.get(name, default) + after
    return text


def words(service, variables):
    """What a service of the file is in words of `docker run`; ports are left out, both share one network."""
    for volume in service.get("volumes", ()):
        place, _, rest = filled_in(volume, variables).partition(":")
        yield from ("-v", f"{(FOLDER / place).resolve()}:{rest}")
    for name, value in service.get("environment", {}).items():
        yield from ("-e", f"{name}={filled_in(str(value), variables)}")
    for option in service.get("security_opt", ()):
        yield from ("--security-opt", option)
    for capability in service.get("cap_drop", ()):
        yield from ("--cap-drop", capability)
    if service.get("read_only"):
        yield "--read-only"


@pytest.fixture
def composed(model, tmp_path):
    (tmp_path / "model.gguf").write_bytes(model.read_bytes())
    tmp_path.chmod(0o755)
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    variables = {"ROCO_MODELS": str(tmp_path), "ROCO_KV_POOL_BYTES": "64MiB"}
    started = []
    try:
        # The first one's network, cut off from all others, is shared by the second; "roco" is a name in it as in Compose's.
        for name, image, network in (("roco", IMAGE, ["none", "--add-host", "roco:127.0.0.1"]), ("prometheus", PROMETHEUS, None)):
            network = network or [f"container:{started[0]}"]
            started.append(docker("run", "-d", "--network", *network, *words(services[name], variables), image))
        yield started
    finally:
        for container in started:
            docker("rm", "-f", container)


def query(prometheus, expression):
    """{labels as text: value}"""
    asked = subprocess.run(["docker", "exec", prometheus, "promtool", "query", "instant", "-o", "json", "http://localhost:9090",
                            expression], capture_output=True, text=True, timeout=60)
    return {json.dumps(r["metric"]): float(r["value"][1]) for r in json.loads(asked.stdout)} if asked.returncode == 0 else {}


def test_prometheus_sees_roco(composed):
    roco, prometheus = composed
    end = time.time() + 60
    while list(query(prometheus, 'up{job="roco"}').values()) != [1.0]:
        assert time.time() < end, docker("logs", prometheus)
        time.sleep(0.5)
    assert docker("exec", roco, "/usr/bin/roco", "ready") == '{"status":"ready"}'
    while not query(prometheus, "roco_pool_pages"):
        assert time.time() < end
        time.sleep(0.5)
    assert list(query(prometheus, "roco_pool_pages").values())[0] > 0
    assert query(prometheus, 'ALERTS{alertstate="firing"}') == {}
    docker("stop", "-t", "40", roco)
    assert docker("inspect", "-f", "{{.State.ExitCode}}", roco) == "0"
