"""packaging/haproxy.cfg before replicas under load: restarts and drains lose nothing, a killed replica only what it had begun.

HAProxy 2.6 or newer is needed: that of the path or of /usr/sbin, or another that HAPROXY names.
"""
import collections
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import requests

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "packaging/haproxy.cfg"
HAPROXY = os.environ.get("HAPROXY") or shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")
CLIENTS = 16


def version():
    said = subprocess.run([HAPROXY, "-v"], capture_output=True, text=True).stdout if HAPROXY else ""
    found = re.search(r"version (\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0, 0)


pytestmark = pytest.mark.skipif(version() < (2, 6), reason="haproxy 2.6 or newer is not installed")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Replicas:
    """n servers of a tiny model on fixed ports, behind a balancer."""

    def __init__(self, start, model, n, folder, log):
        self.start, self.model = start, model
        self.ports = [free_port() for _ in range(n)]
        self.servers = [self.run(i) for i in range(n)]
        bind = f"127.0.0.1:{free_port()}"
        self.url = "http://" + bind
        (folder / "socket.cfg").write_text(f"global\n    stats socket {folder}/stats\n")
        self.stats = folder / "stats"
        self.balancer = subprocess.Popen([HAPROXY, "-db", "-f", str(CONFIG), "-f", folder / "socket.cfg"], stdout=log, stderr=log, env={
            **os.environ, "BIND": bind, **{f"REPLICA_{i + 1}": f"127.0.0.1:{port}" for i, port in enumerate(self.ports)}})
        for i in range(n):
            self.wait_until_seen(i, "UP")

    def run(self, i):
        return self.start("--port", self.ports[i], "--threads", 1, "--kv-pool-tokens", 8192, model=self.model)

    def restart(self, i):
        self.wait_until_seen(i, "DOWN")
        self.servers[i] = self.run(i)
        self.wait_until_seen(i, "UP")

    def seen(self, i):
        """What the balancer thinks of a replica: UP, DOWN, or one of them with a count of checks on the way to the other."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.stats))
            s.sendall(b"show stat\n")
            names, *rows = csv.reader(s.makefile().read().lstrip("# ").splitlines())
        states = {row[names.index("svname")]: row[names.index("status")] for row in rows if row}
        return states[f"roco{i + 1}"]

    def wait_until_seen(self, i, state):
        end = time.time() + 30
        while not self.stats.exists() or self.seen(i) != state:
            assert self.balancer.poll() is None, "haproxy ended; its log is beside the model"
            assert time.time() < end, f"{self.seen(i)} in place of {state}"
            time.sleep(0.02)

    def wait_until_answers(self, i):
        """Until a replica has been sent a request and has answered it."""
        end = time.time() + 30
        while self.answered()[i] == 0:
            assert time.time() < end, "the balancer sends it nothing"
            time.sleep(0.02)

    def answered(self):
        """Requests each replica has answered, of those that run now."""
        def total(server):
            return sum(v for k, v in server.metrics().items() if k.startswith("roco_requests_total"))
        return [total(server) for server in self.servers]


@pytest.fixture
def replicas(start, build, tmp_path, request):
    """Two, or as many as the test is given."""
    model = tmp_path / "tiny.gguf"
    subprocess.run([build / "tests/make_tiny_model", model, "context=4096"], check=True)
    with open(tmp_path / "haproxy.log", "wb") as log:
        made = Replicas(start, model, getattr(request, "param", 2), tmp_path, log)
        yield made
        made.balancer.terminate()
        made.balancer.wait(10)
        for server in made.servers:
            if server.process.poll() is None:
                assert server.stop() == 0


def ask(url, rng, session):
    """One request of random kind and size; (kind, what went wrong or None)."""
    stream = rng.random() < 0.5
    kind = "stream" if stream else "plain"
    body = dict(prompt=[3 + rng.randrange(300) for _ in range(rng.randint(5, 200))], max_tokens=rng.randint(50, 800),
                ignore_eos=True, stream=stream, kv_budget=64)
    try:
        with session.post(url + "/v1/completions", json=body, stream=stream, timeout=60) as reply:
            if reply.status_code != 200:
                return kind, f"{reply.status_code}: {reply.text[:100]}"
            if not stream:
                return kind, None if reply.json()["usage"]["completion_tokens"] == body["max_tokens"] else "short"
            events = [line for line in reply.iter_lines() if line.startswith(b"data: ")]
            return kind, None if events[-1] == b"data: [DONE]" else "cut"
    except requests.RequestException as error:
        return kind, type(error).__name__


def under_load(url, work):
    """Calls work() while CLIENTS clients ask one request after the other. What became of them: Counter by (kind, fault)."""
    outcomes, lock, done = collections.Counter(), threading.Lock(), threading.Event()

    def client(number):
        rng, session = random.Random(number), requests.Session()
        while not done.is_set():
            outcome = ask(url, rng, session)
            with lock:
                outcomes[outcome] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        work()
        time.sleep(1)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    print(json.dumps({" ".join(map(str, k)): v for k, v in sorted(outcomes.items(), key=str)}))
    return outcomes


@pytest.mark.parametrize("replicas", [2, 4], indirect=True)
def test_a_rolling_restart_loses_nothing(replicas):
    def restart_both():
        for i in range(2):
            assert replicas.servers[i].stop() == 0  # SIGTERM, and all that it had is finished
            replicas.restart(i)
            replicas.wait_until_answers(i)

    outcomes = under_load(replicas.url, restart_both)
    assert set(outcomes) == {("plain", None), ("stream", None)}, outcomes  # none failed


def test_a_killed_replica_costs_only_streams_it_had_begun(replicas):
    def kill_one():
        replicas.servers[0].wait_running(2)
        replicas.servers[0].process.send_signal(signal.SIGKILL)
        replicas.servers[0].process.wait()

    outcomes = under_load(replicas.url, kill_one)
    failed = {outcome: n for outcome, n in outcomes.items() if outcome[1]}
    assert all(kind == "stream" for kind, _ in failed), failed
    assert sum(failed.values()) <= CLIENTS and outcomes["plain", None] > 0
    replicas.restart(0)
    assert set(under_load(replicas.url, lambda: replicas.wait_until_answers(0))) == {("plain", None), ("stream", None)}


@pytest.mark.parametrize("replicas", [4], indirect=True)
def test_of_four_one_is_drained_and_one_is_killed(replicas):
    """All that fails are streams of the killed one; whoever drains has finished what it had."""
    def drain_and_kill():
        assert replicas.servers[0].stop() == 0
        drained = sum("finish cancelled" in line or "shutting down" in line for line in replicas.servers[0].log if "request:" in line)
        assert drained == 0
        replicas.servers[1].wait_running(2)
        replicas.servers[1].process.send_signal(signal.SIGKILL)
        replicas.servers[1].process.wait()
        time.sleep(1)

    outcomes = under_load(replicas.url, drain_and_kill)
    failed = {outcome: n for outcome, n in outcomes.items() if outcome[1]}
    assert all(kind == "stream" for kind, _ in failed) and sum(failed.values()) <= CLIENTS, failed


def grown_by(replicas, bodies, headers=None):
    """How many of the bodies each replica answered, fewest first.

    They go over one connection: the balancer counts a request as over before it reads the next, so none is in the way
    of another.
    """
    before = replicas.answered()
    with requests.Session() as session:
        for body in bodies:
            reply = session.post(replicas.url + "/v1/completions", json=dict(max_tokens=1) | body, timeout=60, headers=headers)
            assert reply.status_code == 200 and reply.headers["X-Request-Id"]
    return sorted(a - b for a, b in zip(replicas.answered(), before))


def test_what_begins_alike_stays_together(replicas):
    """By the first 256 characters of the prompt, where there is no session: one system prompt, one replica; others are spread."""
    assert grown_by(replicas, (dict(prompt="Be brief. " * 30 + f"Question {i}") for i in range(10))) == [0, 10]
    assert min(grown_by(replicas, (dict(prompt=f"{i} " * 200) for i in range(20)))) > 2


def test_a_session_stays_with_its_replica(replicas):
    assert grown_by(replicas, [dict(prompt=[5])] * 10, headers={"X-Session-Id": "one"}) == [0, 10]


def test_what_is_not_passed_on(replicas):
    assert requests.get(replicas.url + "/metrics", timeout=30).status_code == 404
    wrong = requests.post(replicas.url + "/v1/completions", json=dict(prompt=[5], kv_budget=3), timeout=30)
    assert wrong.status_code == 400 and wrong.json()["error"]["param"] == "kv_budget"
