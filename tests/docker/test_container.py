"""The image as an operator meets it: what is in it, how it starts, how it ends. tests/docker/run builds it and calls this.

    ROCO_IMAGE=roco pytest tests/docker [--model FILE]
"""
import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import time

import pytest
import requests

IMAGE = os.environ.get("ROCO_IMAGE")
pytestmark = pytest.mark.skipif(not IMAGE or not shutil.which("docker"), reason="ROCO_IMAGE names no image")
STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "


def docker(*args):
    return subprocess.run(["docker", *map(str, args)], check=True, capture_output=True, text=True, timeout=300).stdout.strip()


def inspect(what, name):
    return json.loads(docker("inspect", "-f", "{{json %s}}" % what, name))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Container:
    """A server in a container as locked in as it goes: nothing to write to, no capability, no way to any."""

    def __init__(self, model, options):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        settings = {"host": "127.0.0.1", "port": port, "kv-pool-tokens": 16384, **options}
        variables = (word for name, value in settings.items()
                     for word in ("-e", f"ROCO_{name.upper().replace('-', '_')}={value}"))
        begin = time.monotonic()
        self.id = docker("run", "-d", "--network", "host", "--read-only", "--cap-drop", "ALL", "--security-opt",
                         "no-new-privileges", "-v", f"{model.resolve()}:/models/model.gguf:ro", *variables, IMAGE)
        while self.get("/ready") != 200:
            assert inspect(".State.Running", self.id) and time.monotonic() - begin < 60, docker("logs", self.id)
            time.sleep(0.02)
        self.seconds = time.monotonic() - begin

    def get(self, path):
        try:
            return requests.get(self.url + path, timeout=5).status_code
        except requests.ConnectionError:
            return None

    def running(self):
        for line in requests.get(self.url + "/metrics", timeout=5).text.splitlines():
            if line.startswith("roco_requests_running "):
                return float(line.split()[1])
        raise AssertionError("no roco_requests_running")

    def stream(self, max_tokens):
        """The events of one stream; ends where the stream ends, however that is."""
        events = []
        body = dict(prompt=STORY, max_tokens=max_tokens, ignore_eos=True, kv_budget=64, stream=True)
        with requests.post(self.url + "/v1/completions", json=body, stream=True, timeout=120) as reply:
            assert reply.status_code == 200
            try:
                for line in reply.iter_lines(chunk_size=1):
                    if line.startswith(b"data: "):
                        events.append(line)
            except requests.exceptions.ChunkedEncodingError:
                pass
        return events


def streams(container, n, max_tokens, stop):
    """n streams, all of them running when stop() is called."""
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        futures = [pool.submit(container.stream, max_tokens) for _ in range(n)]
        end = time.monotonic() + 60
        while container.running() < n:
            assert time.monotonic() < end, f"{container.running():.0f} of {n} streams run at once"
            time.sleep(0.01)
        stop()
        return [future.result() for future in futures]


@pytest.fixture
def container(model):
    made = []

    def make(**options):
        made.append(Container(model, {name.replace("_", "-"): value for name, value in options.items()}))
        return made[-1]

    yield make
    for c in made:
        docker("rm", "-f", c.id)


def test_what_is_in_it():
    assert inspect(".Size", IMAGE) < 60e6
    assert inspect(".Config.User", IMAGE) == "65532:65532"
    assert inspect(".Config.Healthcheck.Test", IMAGE) == ["CMD", "/usr/bin/roco", "ready"]
    no_shell = subprocess.run(["docker", "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", IMAGE], capture_output=True)
    assert no_shell.returncode == 127
    assert docker("run", "--rm", "--network", "none", IMAGE, "--version").startswith("roco ")


def test_no_model_is_said(model):
    run = subprocess.run(["docker", "run", "--rm", "--network", "none", IMAGE], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "/models/model.gguf" in run.stderr


def test_it_starts_and_is_process_1(container):
    c = container()
    process = inspect(".State.Pid", c.id)
    with open(f"/proc/{process}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["NSpid"].split()[-1] == "1" and status["Name"] == "roco"
    assert status["Uid"].split() == ["65532"] * 4 and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert docker("exec", c.id, "/usr/bin/roco", "ready") == '{"status":"ready"}'
    print(f"image {inspect('.Size', IMAGE) / 1e6:.1f} MB; ready {c.seconds:.2f} s after docker run; "
          f"resident {int(status['VmRSS'].split()[0]) / 1024:.0f} MiB")
    end = time.monotonic() + 30
    while inspect(".State.Health.Status", c.id) != "healthy":
        assert time.monotonic() < end, inspect(".State.Health", c.id)
        time.sleep(0.5)


def test_stop_lets_20_streams_finish(container):
    c = container(drain_timeout=200)
    done = streams(c, 20, 300, lambda: docker("stop", "-t", 250, c.id))
    assert all(events[-1] == b"data: [DONE]" for events in done)
    assert inspect(".State.ExitCode", c.id) == 0


def test_over_the_limit_streams_end_with_an_error(container):
    c = container(drain_timeout=1)
    done = streams(c, 5, 8000, lambda: docker("stop", "-t", 30, c.id))
    assert inspect(".State.ExitCode", c.id) == 0
    for events in done:
        objects = [json.loads(event[6:]) for event in events if event != b"data: [DONE]"]
        assert len(objects) == len(events) and "error" in objects[-1]
        assert not any(choice["finish_reason"] for o in objects[:-1] for choice in o["choices"])


def test_a_second_signal_ends_at_once(container):
    c = container(drain_timeout=3600)

    def twice():
        docker("kill", "-s", "TERM", c.id)
        while c.get("/ready") == 200:
            time.sleep(0.01)
        docker("kill", "-s", "TERM", c.id)
        assert int(docker("wait", c.id)) == 0  # within the time limit of one command, which is under that of the drain

    streams(c, 5, 8000, twice)
