"""Ten thousand connections that ask nothing cost little memory and no processor time, and do not keep others out."""
import resource
import socket
import time

import pytest
import requests
from script import cpu_seconds

MOST = 10000
ROOM = 200  # descriptors for all else


@pytest.fixture
def connections():
    """As many as this process and the server may have open, 10,000 at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(MOST, hard - ROOM) if hard != resource.RLIM_INFINITY else MOST
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n + ROOM), hard))
    yield n
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask_once(port):
    """A kept connection that has asked one thing and got its answer."""
    c = socket.create_connection(("127.0.0.1", port), timeout=10)
    c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert c.recv(4096).startswith(b"HTTP/1.1 200")
    return c


def test_idle_connections(start, connections):
    s = start("--max-connections", connections + 100, "--idle-timeout", 120, "--kv-pool-tokens", 1024)
    s.complete(prompt="a", max_tokens=1)
    assert not any("max-connections is lowered" in line for line in s.log)
    rss = s.rss()
    kept = [ask_once(s.port) for _ in range(connections)]
    grown = s.rss() - rss
    cpu, begin = cpu_seconds(s), time.time()
    time.sleep(2)
    share = (cpu_seconds(s) - cpu) / (time.time() - begin)
    print(f"{connections} idle connections: {grown / 2**20:.1f} MiB, {grown / connections / 1024:.1f} KiB each, {share:.1%} of a core")
    assert grown < connections * 40 * 1024
    assert share < 0.05
    assert requests.get(s.url + "/health", timeout=5).status_code == 200
    assert s.complete(prompt="a", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2
    for c in kept[::2]:  # the others are still there when the server ends
        c.close()
    assert s.complete(prompt="a", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2
    assert s.stop() == 0
