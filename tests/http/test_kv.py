"""What a client sees of the cache: usage.kv, budgets, policies, pages held while requests run."""
import json
import os
import threading

import pytest
import requests

IDS = [504, 3575, 282, 4649, 314]


def complete(server, **body):
    return server.complete(temperature=0, ignore_eos=True, **body)


def test_usage_kv(server):
    kv = complete(server, prompt=IDS * 60, max_tokens=100, kv_budget=128, kv_heads="uniform")["usage"]["kv"]
    # 300 prompt tokens and 99 fed answer tokens; the last one is never fed
    assert 0 < kv.pop("evicted_mass") < 1
    assert kv == {"policy": "roco", "budget": 128, "held": 128, "evicted": 271, "pinned": 0}
    kv = complete(server, prompt=IDS * 6, max_tokens=10, kv_budget=128)["usage"]["kv"]
    assert kv == {"policy": "roco", "budget": 128, "held": 39, "evicted": 0, "pinned": 0, "evicted_mass": 0}


def test_default_budget(server):
    kv = complete(server, prompt=IDS * 300, max_tokens=4)["usage"]["kv"]
    # all of it at 8 bits takes less memory than 1024 tokens at 16
    assert kv["policy"] == "roco" and kv["budget"] == 1024 and 850 <= kv["held"] <= 1024 and kv["evicted"] == 0
    kv = complete(server, prompt=IDS * 300, max_tokens=4, kv_heads="uniform")["usage"]["kv"]
    assert kv["held"] == 1024 and kv["evicted"] == 1500 + 3 - 1024


@pytest.mark.parametrize("budget", [64, 100, 256])
def test_budgets_by_head_take_no_more_than_equal_ones(server, data, budget):
    body = dict(prompt=json.load(open(data / "doc.smollm2-ids.json"))[:500], max_tokens=20, kv_budget=budget)
    default, by_head, uniform = (complete(server, **body, **heads)
                                 for heads in ({}, {"kv_heads": "profile"}, {"kv_heads": "uniform"}))
    assert default["choices"] == by_head["choices"] != uniform["choices"]
    assert uniform["usage"]["kv"]["held"] == budget
    assert 0.9 * budget <= by_head["usage"]["kv"]["held"] <= budget


def test_a_server_without_a_profile(start):
    server = start("--head-profile", "off", "--kv-pool-tokens", 2048)
    body = {"prompt": IDS * 60, "max_tokens": 4, "kv_budget": 64, "temperature": 0}
    refused = requests.post(server.url + "/v1/completions", json={**body, "kv_heads": "profile"}, timeout=10)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "kv_heads"
    assert requests.post(server.url + "/v1/completions", json=body, timeout=10).json()["usage"]["kv"]["held"] == 64
    assert requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["meta"]["kv_heads"] == "uniform"
    assert server.stop() == 0


@pytest.mark.parametrize("start", [200, 600])
def test_what_was_read_once_is_found_again(server, data, start):
    """A passage, a long filler, the start of the passage again: budgets by head go on with it, equal ones cannot."""
    ids = json.load(open(data / "doc.smollm2-ids.json"))
    prompt = ids[start:start + 200] + ids[3000:4600] + ids[start:start + 60]
    detokenize = requests.post(server.url + "/detokenize", json={"tokens": ids[start + 60:start + 100]}, timeout=10)
    expected = detokenize.json()["text"]
    agreed = {}
    for heads in ("profile", "uniform"):
        answer = server.complete(prompt=prompt, max_tokens=40, kv_budget=512, kv_heads=heads, temperature=0)
        agreed[heads] = len(os.path.commonprefix([answer["choices"][0]["text"], expected]))
    assert agreed["profile"] >= 100 and agreed["uniform"] <= 10, (agreed, len(expected))


def test_scopes(server):
    body = dict(prompt=IDS * 60, max_tokens=100, kv_heads="uniform")  # 300 and 99 tokens are fed
    held = lambda **kw: [complete(server, **body, **kw)["usage"]["kv"][k] for k in ("budget", "held", "evicted")]
    assert held(kv_budget=128, kv_scope="all") == [128, 128, 271]
    assert held(kv_budget=128, kv_scope="prompt") == [128, 128 + 99, 300 - 128]
    assert held(kv_budget=64, kv_scope="answer") == [300 + 64, 300 + 64, 99 - 64]
    assert held(kv_budget=128, kv_scope="answer") == [300 + 128, 399, 0]


def test_scopes_by_head(server):
    kv = complete(server, prompt=IDS * 60, max_tokens=100, kv_budget=64, kv_scope="prompt")["usage"]["kv"]
    assert 0.5 * 163 <= kv["held"] <= 64 + 99 and 0 < kv["evicted"] < 300 - 64
    kv = complete(server, prompt=IDS * 60, max_tokens=100, kv_budget=32, kv_scope="answer")["usage"]["kv"]
    assert kv["held"] == 399 * 32 // 56 and kv["evicted"] == 0  # at 8 bits even all of it takes less than prompt and 32


def test_an_answer_within_its_own_budget_is_full(server):
    body = dict(prompt=IDS * 40, max_tokens=50)
    text = lambda **kw: complete(server, **body, **kw)["choices"][0]["text"]
    assert text(kv_scope="answer", kv_budget=64) == text(kv_policy="full")


def test_pinned_tokens_are_found_again(server, data):
    """What equal budgets lose (see above) stays when it is pinned."""
    ids = json.load(open(data / "doc.smollm2-ids.json"))
    prompt = ids[600:800] + ids[3000:4600] + ids[600:660]
    detokenize = requests.post(server.url + "/detokenize", json={"tokens": ids[660:700]}, timeout=10)
    expected = detokenize.json()["text"]
    agreed = {}
    for pins in ([], [[0, 120], [100, 200]]):
        answer = server.complete(prompt=prompt, max_tokens=40, kv_budget=384, kv_heads="uniform", temperature=0, kv_pin=pins)
        assert answer["usage"]["kv"]["held"] == 384
        agreed[len(pins)] = len(os.path.commonprefix([answer["choices"][0]["text"], expected]))
    assert agreed[2] >= 100 and agreed[0] <= 10, agreed


def test_the_system_message_is_pinned_by_its_role(server, data):
    """What equal budgets lose when it was read once stays with its role pinned, and no other token does."""
    ids = json.load(open(data / "doc.smollm2-ids.json"))
    text = lambda first, end: requests.post(server.url + "/detokenize", json={"tokens": ids[first:end]}, timeout=10).json()["text"]
    messages = [{"role": "system", "content": text(600, 800)}, {"role": "user", "content": text(3000, 4600)},
                {"role": "assistant", "content": text(600, 660).strip()}]

    def ask(*pins):
        body = {"messages": messages, "continue_final_message": True, "max_tokens": 40, "temperature": 0, "kv_heads": "uniform",
                "kv_budget": 384, "kv_pin": pins}
        return requests.post(server.url + "/v1/chat/completions", json=body, timeout=300)

    expected, found = text(660, 700), {}
    for pins in ((), ("system",), ("developer", [2, 9]), ("tool",)):
        reply = ask(*pins).json()
        agreed = len(os.path.commonprefix([reply["choices"][0]["message"]["content"], expected]))
        found[pins[:1]] = agreed, reply["usage"]["kv"]["pinned"]
    assert found[()][0] <= 10 and found[("tool",)] == found[()]
    agreed, pinned = found[("system",)]
    assert agreed >= 100 and 195 <= pinned <= 205, found
    assert found[("developer",)][1] == pinned + 1  # the range begins one token earlier
    refused = ask("system", "user")
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "kv_pin"


def test_strides(server, data):
    body = dict(prompt=json.load(open(data / "doc.smollm2-ids.json"))[:700], max_tokens=20, kv_budget=64)
    texts = {stride: complete(server, kv_stride=stride, **body)["choices"][0]["text"] for stride in (1, 24, 64)}
    assert texts[64] == complete(server, **body)["choices"][0]["text"] and len(set(texts.values())) == 3


def test_compensation(server, data):
    """The slot counts in the budget, and a policy that sums no attention cannot have it."""
    body = dict(prompt=json.load(open(data / "doc.smollm2-ids.json"))[:700], max_tokens=20, kv_budget=64, kv_heads="uniform")
    plain, on = complete(server, **body), complete(server, **body, kv_compensation=True)
    assert on["usage"]["kv"]["held"] == 64 and on["usage"]["kv"]["evicted"] == plain["usage"]["kv"]["evicted"] + 1 == 700 + 19 - 63
    assert on["choices"][0]["text"] != plain["choices"][0]["text"]
    assert on["choices"] == complete(server, **body, kv_compensation=True)["choices"]
    for wrong in ({"kv_compensation": "yes"}, {"kv_policy": "tova"}, {"kv_positions": "cache"}):
        refused = requests.post(server.url + "/v1/completions", json={**body, "kv_compensation": True, **wrong}, timeout=10)
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "kv_compensation", refused.text


def test_evicted_mass(server, data):
    body = dict(prompt=json.load(open(data / "doc.smollm2-ids.json"))[:1500], max_tokens=40, kv_heads="uniform")
    mass = lambda **kw: complete(server, **body, **kw)["usage"]["kv"]["evicted_mass"]
    before = server.metrics()
    assert 0 < mass(kv_budget=1024) < mass(kv_budget=256) < mass(kv_budget=64) < 1
    assert mass(kv_policy="full") == 0 and mass(kv_policy="recency", kv_budget=128) is None
    grown = {k: v - before.get(k, 0) for k, v in server.metrics().items() if k.startswith("roco_evicted_mass")}
    assert grown["roco_evicted_mass_count"] == 3 and grown['roco_evicted_mass_bucket{le="0"}'] == 0


@pytest.mark.parametrize("field, value", [
    ("kv_heads", "all"), ("kv_heads", 1), ("kv_scope", "both"), ("kv_scope", ["all"]), ("kv_pin", "system"), ("kv_pin", [5]),
    ("kv_pin", [[5]]), ("kv_pin", [[5, 5]]), ("kv_pin", [[-1, 5]]), ("kv_pin", [[0, 5, 6]]), ("kv_pin", [[0, 1.5]]),
    ("kv_pin", [[0, 1]] * 17), ("kv_pin", [[0, 31]]), ("kv_pin", [[0, 20]]), ("kv_pin", ["system"]),
    ("kv_pin", ["nobody"]), ("kv_stride", 0), ("kv_stride", 65)])
def test_bad_values(server, field, value):
    body = {"prompt": IDS * 6, "max_tokens": 40, "kv_budget": 32, field: value}
    reply = requests.post(server.url + "/v1/completions", json=body, timeout=10)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == field


def test_full_evicts_nothing(server):
    kv = complete(server, prompt=IDS * 300, max_tokens=4, kv_policy="full")["usage"]["kv"]
    assert kv["policy"] == "full" and kv["held"] == 1503 and kv["evicted"] == 0


def test_fraction_of_the_prompt(server):
    assert complete(server, prompt=IDS * 60, max_tokens=20, kv_budget=0.5)["usage"]["kv"]["budget"] == 150
    assert complete(server, prompt=IDS * 4, max_tokens=2, kv_budget=0.1)["usage"]["kv"]["budget"] == 32


@pytest.mark.parametrize("policy", ["roco", "recency", "mean", "h2o", "tova", "random", "keydiff", "roco+caote", "h2o+caote",
                                    "tova+caote", "vatp", "snapkv", "r-kv"])
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
    assert 90 < peak <= 2 * 90
    assert server.wait_idle()["roco_pages_held"] == 0


def test_evictions_are_counted(server):
    before = server.wait_idle()
    complete(server, prompt=IDS * 60, max_tokens=100, kv_budget=128, kv_heads="uniform")
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


def test_a_stream_past_the_context(start, data):
    """With ranks in the cache as positions prompt and answer go on past the context; what a head holds may not."""
    server = start("--context", 512, "--kv-pool-tokens", 2048, "--step-tokens", 128, "--max-seqs", 4)
    ids = json.load(open(data / "doc.smollm2-ids.json"))[:1500]
    body = {"prompt": ids, "max_tokens": 400, "ignore_eos": True, "temperature": 0, "kv_budget": 256}
    post = lambda **kw: requests.post(server.url + "/v1/completions", json={**body, **kw}, timeout=300)
    reply = post(kv_positions="cache")
    assert reply.status_code == 200, reply.text
    usage = reply.json()["usage"]
    assert usage["completion_tokens"] == 400 and usage["kv"]["held"] == 256 and usage["kv"]["evicted"] == 1500 + 399 - 256
    assert reply.json()["choices"][0]["text"] == post(kv_positions="cache").json()["choices"][0]["text"]
    for wrong, field in (({}, "prompt"), ({"kv_positions": "text"}, "prompt"), ({"kv_positions": "rank"}, "kv_positions"),
                         ({"kv_positions": "cache", "kv_budget": 460}, "kv_budget"),
                         ({"kv_positions": "cache", "kv_scope": "prompt"}, "kv_budget"),
                         ({"kv_positions": "cache", "max_tokens": 1 << 20, "logprobs": 1}, "logprobs"),
                         ({"kv_positions": "cache", "kv_policy": "full"}, "kv_budget")):
        refused = post(**wrong)
        assert refused.status_code == 400 and refused.json()["error"]["param"] == field, (wrong, refused.text)
    assert server.stop() == 0
