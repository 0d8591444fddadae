"""Many at once: company changes nothing, gone clients cost nothing, a full queue refuses, a long prompt stalls nobody."""
import concurrent.futures
import json
import random
import socket
import statistics
import threading
import time

import pytest
import requests

STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "
NOTICED = 15  # seconds after which a busy machine has seen that a client left, too; an answer of 8000 tokens takes longer


def variants():
    """Requests that differ in everything that must not leak from one to another."""
    for i in range(17):
        yield dict(prompt=STORY * (1 + i % 9), max_tokens=40 + i, ignore_eos=True, seed=i,
                   temperature=0 if i % 2 else 1, kv_budget=[64, 100, 4096][i % 3], n=1 + (i % 5 == 0))


def test_company_changes_nothing(server):
    bodies = list(variants())
    alone = [server.complete(**b) for b in bodies]
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(lambda b: server.complete(**b), bodies))
    for a, t in zip(alone, together):
        assert a["choices"] == t["choices"] and a["usage"] == t["usage"]


def send(s, body):
    data = json.dumps(body).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
              + str(len(data)).encode() + b"\r\n\r\n" + data)


def gone_client(port, body, delay):
    """Sends a request, reads nothing, and closes the connection after `delay` seconds: what has come by then resets it."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        send(s, body)
        time.sleep(delay)


def test_gone_clients_cost_nothing(server):
    free = server.wait_idle()["roco_pages_held"]
    rng = random.Random(1)

    def one(i):
        gone_client(server.port, dict(prompt=STORY * rng.randint(1, 60), max_tokens=4000, ignore_eos=True, stream=bool(i % 2),
                                      kv_budget=rng.choice([64, 256, 1024])), rng.random() * 0.4)

    cancelled = lambda m: m['roco_requests_total{outcome="cancelled"}']
    before = cancelled(server.metrics())
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        list(pool.map(one, range(300)))
    after = server.wait_idle(NOTICED)
    assert after["roco_pages_held"] == free == 0
    assert cancelled(after) - before >= 150  # not those that left before their request was read


@pytest.mark.parametrize("stream", [False, True])
def test_a_gone_client_is_noticed(server, stream):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as s:
        send(s, dict(prompt=STORY, max_tokens=8000, ignore_eos=True, kv_budget=64, stream=stream))
        server.wait_running(1)
    begin = time.time()
    server.wait_idle(NOTICED)
    print(f"noticed after {(time.time() - begin) * 1e3:.0f} ms at most")


def test_64_that_wait_and_leave_are_noticed(start):
    """Requests that are only queued cost nothing either once their clients have gone, though nothing is written to them."""
    s = start("--max-seqs", 1, "--kv-pool-tokens", 8192, "--max-connections", 200)
    with socket.create_connection(("127.0.0.1", s.port), timeout=10) as first:
        send(first, dict(prompt=STORY, max_tokens=8000, ignore_eos=True, kv_budget=64))
        s.wait_running(1)
        waiting = [socket.create_connection(("127.0.0.1", s.port), timeout=10) for _ in range(64)]
        for c in waiting:
            send(c, dict(prompt="a", max_tokens=1))
        s.wait_until(lambda m: m["roco_requests_queued"] == 64)
        for c in waiting:
            c.close()
        s.wait_until(lambda m: m["roco_requests_queued"] == 0, NOTICED)
        assert s.metrics()["roco_requests_running"] == 1
    assert s.wait_idle(NOTICED)["roco_pages_held"] == 0
    assert s.stop() == 0


def test_a_full_queue_refuses_at_once(start):
    busy = start("--queue", 64, "--max-seqs", 4, "--kv-pool-tokens", 4096, "--max-connections", 2500)
    body = dict(prompt=STORY, max_tokens=2, ignore_eos=True, kv_budget=64)
    rss = busy.rss()

    def ask(_):
        return requests.post(busy.url + "/v1/completions", json=body, timeout=120)

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        replies = list(pool.map(ask, range(2000)))
    codes = {r.status_code for r in replies}
    assert codes <= {200, 429, 503} and 200 in codes
    for r in replies:
        assert r.status_code == 200 or (int(r.headers["Retry-After"]) >= 1 and r.json()["error"]["code"])
    assert busy.rss() - rss < 200 << 20
    assert busy.wait_idle()["roco_pages_held"] == 0
    assert busy.stop() == 0


def test_jobs_larger_than_half_the_pool_all_finish(start):
    """Nobody is preempted: what fits runs to its end, the others wait, and no answer is other than alone."""
    small = start("--kv-pool-tokens", 1024, "--kv-policy", "full")
    ask = lambda i: small.complete(prompt=STORY * 30, max_tokens=60, ignore_eos=True, seed=i)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(ask, range(10)))
    assert all(r["usage"]["completion_tokens"] == 60 for r in replies)
    assert all(ask(i)["choices"] == replies[i]["choices"] for i in (0, 9))
    assert small.wait_idle()["roco_pages_held"] == 0
    assert small.stop() == 0


def stream_gaps(server, until, gaps, started):
    body = dict(prompt=STORY, max_tokens=8000, ignore_eos=True, stream=True, temperature=0, kv_budget=256)
    with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=300) as reply:
        last = None
        for line in reply.iter_lines(chunk_size=1):
            if line.startswith(b"data: {"):
                now = time.perf_counter()
                if last:
                    gaps.append(now - last)
                last = now
                started.set()
            if until.is_set():
                return


def test_a_long_prompt_stalls_neither_streams_nor_health(server):
    """A running stream gets a token with every step of the prompt; /health answers from the loop thread."""
    server.wait_idle()
    gaps, health, done, started = [], [], threading.Event(), threading.Event()
    streaming = threading.Thread(target=stream_gaps, args=(server, done, gaps, started))
    streaming.start()
    started.wait(30)
    before = server.metrics()

    def watch():
        while not done.is_set():
            begin = time.perf_counter()
            requests.get(server.url + "/health", timeout=10)
            health.append(time.perf_counter() - begin)
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    gaps.clear()
    server.complete(prompt=[504, 3575, 282, 4649] * 1000, max_tokens=1, kv_budget=512)
    after = server.metrics()
    done.set()
    watcher.join(), streaming.join()
    grown = lambda name: after[name] - before[name]
    steps, tokens = grown("roco_step_rows_count"), grown("roco_tokens_generated_total") - 1
    full_step = grown("roco_step_seconds_sum") / (4000 / 512)  # nearly all of that time is the long prompt's full steps
    print(f"largest gap {max(gaps):.3f} s, a full step {full_step:.3f} s, {steps:.0f} steps, {tokens:.0f} tokens meanwhile, health p99 "
          f"{statistics.quantiles(health, n=100)[98] * 1e3:.1f} ms of {len(health)}")
    assert steps >= 4000 / 512 and tokens >= steps - 1
    assert max(gaps) < 10 * full_step + 1  # a busy machine stretches one step more than the other
    assert statistics.median(health) < 0.1
    server.wait_idle()
