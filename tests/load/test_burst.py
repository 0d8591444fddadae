"""Two thousand requests in one moment before a queue of 64: what fits is answered, the rest is refused at once, and nothing grows."""
import collections
import json
import resource
import selectors
import socket
import time

import pytest

REQUESTS = 2000
BODY = json.dumps({"prompt": [5, 6, 7, 8], "max_tokens": 20, "ignore_eos": True})
REQUEST = (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
           f"Content-Length: {len(BODY)}\r\n\r\n{BODY}").encode()


@pytest.fixture
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < REQUESTS + 200:
        pytest.skip(f"no more than {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, REQUESTS + 200), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def burst(port):
    """Sends all, then reads all: [(status, seconds, Retry-After)]."""
    waiting = selectors.DefaultSelector()
    for _ in range(REQUESTS):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(("127.0.0.1", port))
        waiting.register(c, selectors.EVENT_WRITE, bytearray())
    begin, replies = time.time(), []
    while len(replies) < REQUESTS:
        ready = waiting.select(60)
        assert ready, f"{REQUESTS - len(replies)} requests were never answered"
        for k, event in ready:
            if event == selectors.EVENT_WRITE:
                k.fileobj.sendall(REQUEST)
                waiting.modify(k.fileobj, selectors.EVENT_READ, k.data)
                continue
            try:
                got = k.fileobj.recv(65536)
            except ConnectionResetError:
                got = b""
            k.data.extend(got)
            if not got:
                head = bytes(k.data).split(b"\r\n\r\n")[0]
                assert head, "a connection was closed without a reply"
                replies.append((int(head.split()[1]), time.time() - begin, b"Retry-After: " in head))
                waiting.unregister(k.fileobj)
                k.fileobj.close()
    return replies


@pytest.mark.parametrize("connections", [2100, 300])  # room for all of them; far too little
def test_a_burst(start, descriptors, connections):
    s = start("--max-connections", connections, "--queue", 64, "--max-seqs", 16, "--kv-pool-tokens", 2048)
    s.complete(prompt=[5] * 2000, max_tokens=8, ignore_eos=True, kv_policy="full")  # touches the pool's memory
    burst(s.port)
    before = s.rss()
    for _ in range(2):
        replies = burst(s.port)
        counts = collections.Counter(status for status, _, _ in replies)
        slowest = max(seconds for status, seconds, _ in replies if status != 200)
        print(f"{dict(counts)}; the last refusal after {slowest:.2f} s, the last answer after {max(t for _, t, _ in replies):.2f} s; "
              f"{before / 2**20:.1f} MiB before, {s.rss() / 2**20:.1f} after")
        assert set(counts) <= {200, 429, 503} and counts[200] >= 64 and counts[429] + counts[503] > 1000, counts
        assert all(retry for status, _, retry in replies if status != 200)
        assert s.wait_idle()["roco_pages_held"] == 0
    assert s.rss() < before * 1.02
    assert s.stop() == 0
