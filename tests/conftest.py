"""What all Python tests share: where the build is, where the model is, and a running server.

    pytest tests [--build build/dev] [--model FILE.gguf] [--server URL]

--server drives a server that already runs (a debugger, a container) instead of starting one; tests that need their own options skip.
"""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

import pytest
import requests

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = tempfile.TemporaryDirectory()  # where servers keep what they measured


def pytest_addoption(parser):
    parser.addoption("--build", default=os.environ.get("ROCO_BUILD", str(ROOT / "build/dev")))
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    default = f"{cache}/roco/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser.addoption("--model", default=os.environ.get("ROCO_TEST_MODEL", default))
    parser.addoption("--server", default=None, help="URL of a server that already runs")


@pytest.fixture(scope="session")
def build(request):
    if request.config.getoption("--server"):
        pytest.skip("starts programs of its own")
    return pathlib.Path(request.config.getoption("--build")).resolve()


@pytest.fixture(scope="session")
def model(request):
    path = pathlib.Path(request.config.getoption("--model"))
    assert path.exists(), f"no model at {path}: run scripts/fetch-model"
    return path


@pytest.fixture(scope="session")
def data():
    return ROOT / "tests/data"


class Server:
    """A `roco serve` process on a free port. `log` holds the lines it has printed so far."""

    def __init__(self, build, model, *args, env=None, wait=True, verify=True):
        command = [str(build / "roco"), "serve", str(model), "--port", "0", *map(str, args)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, "XDG_CACHE_HOME": CACHE.name, **(env or {})})
        self.verify = verify  # a file with the certificate to trust, for a server with --tls-cert
        self.log = []
        self._url = threading.Event()
        self.url = None
        threading.Thread(target=self._read, daemon=True).start()
        if wait:
            self.wait_ready()

    def _read(self):
        for line in self.process.stdout:
            self.log.append(line.rstrip("\n"))
            found = re.search(r"https?://[\d.]+:(\d+)", line)
            if found and not self.url:
                self.url = found.group(0)
                self.port = int(found.group(1))
                self._url.set()

    def wait_ready(self, seconds=60):
        assert self._url.wait(seconds), self.log
        end = time.time() + seconds
        while time.time() < end:
            assert self.process.poll() is None, "\n".join(self.log)
            if self.ready_status() == 200:
                return
            time.sleep(0.02)
        raise AssertionError("the server did not become ready:\n" + "\n".join(self.log))

    def metrics(self):
        """{'roco_pages_held': 3.0, 'roco_requests_total{outcome="stop"}': 1.0, ...}"""
        lines = requests.get(self.url + "/metrics", timeout=10).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def rss(self):
        """Resident bytes of the process."""
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def wait_until(self, condition, seconds=20):
        """Until condition(metrics) holds."""
        end = time.time() + seconds
        while not condition(self.metrics()):
            assert time.time() < end, f"it never came to be: {self.metrics()}"
            time.sleep(0.005)

    def wait_running(self, n):
        """Until n sequences run at once."""
        self.wait_until(lambda m: m["roco_requests_running"] >= n)

    def wait_draining(self, seconds=20):
        """Until SIGTERM was noticed: /ready says so, or nobody listens any more."""
        end = time.time() + seconds
        while self.ready_status() == 200:
            assert time.time() < end, "it does not drain"
            time.sleep(0.005)

    def ready_status(self):
        """What /ready answers; None when nobody does."""
        try:
            return requests.get(self.url + "/ready", timeout=10, verify=self.verify).status_code
        except requests.ConnectionError:
            return None

    def wait_idle(self, seconds=30):
        end = time.time() + seconds
        while time.time() < end:
            m = self.metrics()
            if m["roco_requests_running"] == 0 and m["roco_requests_queued"] == 0:
                return m
            time.sleep(0.02)
        raise AssertionError(f"still busy: {m}")

    def complete(self, **body):
        reply = requests.post(self.url + "/v1/completions", json=body, timeout=300)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def stop(self, seconds=60):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class RunningServer(Server):
    """The server of --server: what it says over HTTP can be tested, not what its process uses or prints."""

    class process:
        poll = staticmethod(lambda: None)

    def __init__(self, url):
        self.url = url.rstrip("/")
        self.port = int(self.url.rpartition(":")[2])
        self.verify = True
        self.log = []

    def rss(self):
        pytest.skip("the process is not ours")


@pytest.fixture(scope="session")
def start(build, model):
    """start(*args): a server of the test's own; stopped at the end of the session at the latest."""
    started = []

    def make(*args, **kw):
        server = Server(build, kw.pop("model", model), *args, **kw)
        started.append(server)
        return server

    yield make
    for server in started:
        if server.process.poll() is None:
            server.process.kill()


@pytest.fixture(scope="session")
def server(request):
    """The server most tests share."""
    url = request.config.getoption("--server")
    if url:
        yield RunningServer(url)
        return
    shared = request.getfixturevalue("start")("--kv-pool-tokens", 16384, "--max-seqs", 64)
    yield shared
    assert shared.stop() == 0, shared.log[-5:]
