"""A thousand connections that ask nothing cost little memory and no processor time, and do not keep others out."""
import resource
import socket
import time

import pytest
import requests
from script import cpu_seconds

CONNECTIONS = 1000


@pytest.fixture
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"no more than {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask_once(port):
    """A kept connection that has asked one thing and got its answer."""
    c = socket.create_connection(("127.0.0.1", port), timeout=10)
    c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert c.recv(4096).startswith(b"HTTP/1.1 200")
    return c


def test_a_thousand_idle_connections(start, descriptors):
    s = start("--max-connections", CONNECTIONS + 100, "--kv-pool-tokens", 1024)
    s.complete(prompt="a", max_tokens=1)
    rss = s.rss()
    kept = [ask_once(s.port) for _ in range(CONNECTIONS)]
    grown = s.rss() - rss
    cpu, begin = cpu_seconds(s), time.time()
    time.sleep(3)
    share = (cpu_seconds(s) - cpu) / (time.time() - begin)
    print(f"{CONNECTIONS} idle connections: {grown / 2**20:.1f} MiB, {share:.1%} of a core")
    assert grown < 64 << 20
    assert share < 0.02
    assert requests.get(s.url + "/health", timeout=5).status_code == 200
    assert s.complete(prompt="a", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2
    for c in kept:
        c.close()
    assert s.stop() == 0
