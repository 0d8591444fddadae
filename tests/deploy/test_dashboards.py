"""What Prometheus and Grafana are given: metrics that are served, expressions that parse, places that exist."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest
import requests

DOCKER = pathlib.Path(__file__).resolve().parents[2] / "docker"


def dashboard():
    return json.loads((DOCKER / "grafana/dashboards/roco.json").read_text())


def expressions():
    yield from (target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])
    yield from re.findall(r"^ +expr: (.*)$", (DOCKER / "alerts.yaml").read_text(), re.M)


def test_every_metric_is_served(start, tmp_path):
    (tmp_path / "keys").write_text("a-key name=alice\n")
    server = start("--kv-pool-tokens", 1024, "--api-key-file", tmp_path / "keys")  # with a name, so that all there is is served
    served = requests.get(server.url + "/metrics", headers={"Authorization": "Bearer a-key"}, timeout=5).text
    assert server.stop() == 0
    for expression in expressions():
        for name in re.findall(r"\broco_\w+", expression):
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert re.search(f"^# TYPE {family} ", served, re.M), name


def test_prometheus_takes_them(tmp_path):
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    lines = ["groups: [{name: dashboard, rules: ["]
    for i, expression in enumerate(expressions()):
        expression = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
        lines.append(f"  {{record: r{i}, expr: {json.dumps(expression)}}},")
    (tmp_path / "rules.yaml").write_text("\n".join(lines + ["]}]", ""]))
    for command in (["check", "rules", tmp_path / "rules.yaml"], ["check", "rules", DOCKER / "alerts.yaml"],
                    ["check", "config", "--syntax-only", DOCKER / "prometheus.yaml"]):
        check = subprocess.run([promtool, *command], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout + check.stderr


def test_the_data_source_exists():
    source = (DOCKER / "grafana/provisioning/datasources/prometheus.yaml").read_text()
    uid = re.search(r"uid: (\w+)", source).group(1)
    assert all(panel["datasource"]["uid"] == uid for panel in dashboard()["panels"])


def test_compose_takes_its_file():
    command = ["docker", "compose", "-f", DOCKER / "compose.yaml", "config", "--quiet"]
    if not shutil.which("docker") or subprocess.run([*command[:2], "version"], capture_output=True).returncode != 0:
        pytest.skip("docker compose is not installed")
    check = subprocess.run(command, capture_output=True, text=True)
    assert check.returncode == 0 and not check.stderr, check.stderr


def test_compose_mounts_what_is_there():
    mounts = re.findall(r"(\./[\w./-]+):/", (DOCKER / "compose.yaml").read_text())
    assert len(mounts) == 4 and all((DOCKER / mount).exists() for mount in mounts)
