"""What a client sees of the cache: usage.kv, budgets, policies, pages held while requests run."""
import threading

import pytest
import requests

IDS = [504, 3575, 282, 4649, 314]


def complete(server, **body):
    return server.complete(temperature=0, ignore_eos=True, **body)


def test_usage_kv(server):
    kv = complete(server, prompt=IDS * 60, max_tokens=100, kv_budget=128)["usage"]["kv"]
    # 300 prompt tokens and 99 fed answer tokens; the last one is never fed
    assert kv == {"policy": "roco", "budget": 128, "held": 128, "evicted": 271}
    kv = complete(server, prompt=IDS * 6, max_tokens=10, kv_budget=128)["usage"]["kv"]
    assert kv == {"policy": "roco", "budget": 128, "held": 39, "evicted": 0}


def test_default_budget(server):
    kv = complete(server, prompt=IDS * 300, max_tokens=4)["usage"]["kv"]
    assert kv["policy"] == "roco" and kv["budget"] == 1024 and kv["held"] == 1024 and kv["evicted"] == 1500 + 3 - 1024


def test_full_evicts_nothing(server):
    kv = complete(server, prompt=IDS * 300, max_tokens=4, kv_policy="full")["usage"]["kv"]
    assert kv["policy"] == "full" and kv["held"] == 1503 and kv["evicted"] == 0


def test_fraction_of_the_prompt(server):
    assert complete(server, prompt=IDS * 60, max_tokens=20, kv_budget=0.5)["usage"]["kv"]["budget"] == 150
    assert complete(server, prompt=IDS * 4, max_tokens=2, kv_budget=0.1)["usage"]["kv"]["budget"] == 32


@pytest.mark.parametrize("policy", ["roco", "recency"])
def test_a_budget_never_reached_changes_nothing(server, policy):
    body = dict(prompt=IDS * 40, max_tokens=50)
    text = lambda **kw: complete(server, **body, **kw)["choices"][0]["text"]
    assert text(kv_policy=policy, kv_budget=250) == text(kv_policy="full")


def test_policies_differ_once_they_evict(server, data):
    body = dict(prompt=(data / "doc.txt").read_text()[:4000], max_tokens=60, kv_budget=64)
    assert len({complete(server, kv_policy=p, **body)["choices"][0]["text"] for p in ("roco", "recency", "full")}) > 1


def test_the_cap_holds_while_it_runs(server):
    """Pages in use never pass what the budget allows: ceil(64 / 32) for each of 90 heads."""
    server.wait_idle()
    peak, done = 0, threading.Event()

    def watch():
        nonlocal peak
        while not done.is_set():
            peak = max(peak, server.metrics()["roco_pages_held"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    complete(server, prompt=IDS * 100, max_tokens=300, kv_budget=64)
    done.set()
    watcher.join()
    assert peak == 2 * 90
    assert server.wait_idle()["roco_pages_held"] == 0


def test_evictions_are_counted(server):
    before = server.wait_idle()
    complete(server, prompt=IDS * 60, max_tokens=100, kv_budget=128)
    after = server.wait_idle()
    name = 'roco_tokens_evicted_total{policy="roco"}'
    assert after[name] - before[name] == 271


def test_sinks_can_be_switched_off_and_text_stays_readable(server):
    for sink in (0, 4):
        text = complete(server, prompt="The quick brown fox jumps over the lazy dog. " * 30, max_tokens=30, kv_budget=64,
                        kv_sink=sink)["choices"][0]["text"]
        assert len(text) > 20


def test_a_capped_request_leaves_nothing_behind(server):
    """The same prompt with a budget, then without: the second is what a fresh request gives."""
    body = dict(prompt=IDS * 80, max_tokens=40)
    fresh = complete(server, kv_policy="full", **body)["choices"]
    complete(server, kv_budget=64, **body)
    assert complete(server, kv_policy="full", **body)["choices"] == fresh


def test_ceiling(start):
    capped = start("--kv-budget-max", 256, "--kv-budget", 128, "--kv-pool-tokens", 2048)
    over = requests.post(capped.url + "/v1/completions", json={"prompt": "a", "kv_budget": 257}, timeout=10)
    assert over.status_code == 400 and "256" in over.json()["error"]["message"]
    assert requests.post(capped.url + "/v1/completions", json={"prompt": "a", "kv_budget": 256}, timeout=10).status_code == 200
    assert capped.stop() == 0
