"""Faults that servers of this kind have been reported to have, tried over HTTP: mostly on a tiny model with random weights,
which answers thousands of tokens a second; on the real one where text or time must be real."""
import concurrent.futures
import json
import re
import select
import signal
import socket
import statistics
import subprocess
import threading
import time

import numpy
import pytest
import requests
from conftest import ROOT

VOCAB = 320  # the tiny model's; id 3 is the byte 0
STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "


@pytest.fixture(scope="module")
def tiny_file(build, tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    subprocess.run([build / "tests/make_tiny_model", path, "context=4096"], check=True)
    return path


@pytest.fixture(scope="module")
def tiny(start, tiny_file):
    """Verbose, so that whatever is logged about odd requests is logged."""
    s = start("--log-level", "debug", "--kv-pool-tokens", 16384, "--max-seqs", 64, "--threads", 1, model=tiny_file)
    yield s
    assert s.stop() == 0, s.log[-5:]


def post(server, body, path="/v1/completions", **headers):
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return requests.post(server.url + path, data=data, headers={"Content-Type": "application/json", **headers}, timeout=120)


def request_bytes(body, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{lines}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def deltas(server, **body):
    """The texts of a stream's events, empty ones left out."""
    reply = post(server, dict(body, stream=True))
    events = [json.loads(e[6:]) for e in reply.content.split(b"\n\n") if e.startswith(b"data: {")]
    return [c["text"] for e in events for c in e["choices"] if c["text"]]


# --- numbers ---

@pytest.mark.parametrize("number", ["64.0", "6e1", "64", "6.4E+1", "0.64e2"])
def test_a_whole_number_in_any_spelling(tiny, number):
    reply = post(tiny, '{"prompt":"a","ignore_eos":true,"max_tokens":%s}' % number)
    assert reply.status_code == 200 and reply.json()["usage"]["completion_tokens"] == round(float(number))


@pytest.mark.parametrize("field, number", [
    ("seed", "9007199254740992"), ("seed", "9007199254740993"), ("seed", "9007199254740993.0"), ("seed", "-9007199254740992"),
    ("seed", "18446744073709551616"), ("seed", "1e400"), ("seed", "0.5"), ("max_tokens", "3000000000"),
    ("max_tokens", "2147483648"), ("max_tokens", "1e400"), ("max_tokens", "-1e400"), ("max_tokens", "0.9999999999999999"),
    ("max_tokens", "1.5"), ("n", "1.5"), ("n", "17"), ("n", "1e400"), ("top_k", "2147483648"), ("top_k", "0.5"),
    ("kv_budget", "9007199254740993"), ("kv_budget", "1e400"), ("kv_budget", "-0.5"), ("kv_sink", "1025"),
    ("temperature", "1e400"), ("top_p", "1.0000000000000002")])
def test_a_number_that_does_not_fit_is_refused_not_clamped(tiny, field, number):
    error = post(tiny, '{"prompt":"a","max_tokens":1,"%s":%s}' % (field, number) if field != "max_tokens" else
                 '{"prompt":"a","max_tokens":%s}' % number)
    assert error.status_code == 400 and error.json()["error"]["param"] == field
    assert re.search(r"\d", error.json()["error"]["message"])  # the range


def test_numbers_in_replies_are_plain_integers(tiny):
    begin = int(time.time())
    for reply in (post(tiny, dict(prompt="a" * 100, max_tokens=40, kv_budget=32, ignore_eos=True)).text,
                  requests.get(tiny.url + "/v1/models", timeout=5).text):
        reply = re.sub(r'"evicted_mass":0\.\d{4}', '"evicted_mass":0', reply)  # a share, and written as one
        json.loads(reply, parse_float=lambda text: pytest.fail(f"{text} is no plain integer"))
        assert begin - 60 <= json.loads(reply).get("created", begin) <= begin + 60


def test_a_log_probability_reads_back_as_the_same_float(tiny):
    """As many digits as a float has, and no others."""
    reply = post(tiny, dict(prompt="qxq", max_tokens=60, logprobs=5, echo=True, ignore_eos=True)).text
    entries = json.loads(reply, parse_float=str)["choices"][0]["logprobs"]
    values = [v for top in entries["top_logprobs"][1:] for v in top.values()] + entries["token_logprobs"][1:]
    texts = [v for v in values if isinstance(v, str)]
    assert len(texts) > 300 and all(format(float(numpy.float32(text)), ".9g") == text for text in texts)
    assert len(set(texts)) > 100 and any(len(text) > 9 for text in texts)


@pytest.mark.parametrize("body", [b"[" * 100000, b'{"prompt":' * 50000, b'{"prompt":"a","x":' + b"[" * 100000,
                                  b'{"prompt":' + b"[" * 65 + b"]" * 65 + b"}", b'{"prompt":"a","seed":' + b"7" * 70 + b"}"],
                         ids=["arrays", "objects", "inside", "one too many", "digits"])
def test_depth_and_digits_are_bounded(tiny, body):
    reply = post(tiny, body)
    assert reply.status_code == 400 and re.search("64|63", reply.json()["error"]["message"])


@pytest.mark.parametrize("prompt", [[-1], [VOCAB], [2**31], [2**32], [2**53 - 1], [1e300], [0.5], [[3], [VOCAB]], ["a", [3]],
                                    [[3], "a"], [[[3]]], [True], [{}], [[3], []]])
def test_ids_that_are_none(tiny, prompt):
    reply = post(tiny, {"prompt": prompt, "max_tokens": 1})
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "prompt"
    if prompt and not isinstance(prompt[0], (list, str)):
        assert post(tiny, {"tokens": prompt}, "/detokenize").status_code == 400
    assert requests.get(tiny.url + "/ready", timeout=5).status_code == 200


# --- text ---

def test_one_model_name_everywhere(tiny):
    name = requests.get(tiny.url + "/v1/models", timeout=5).json()["data"][0]["id"]
    assert post(tiny, {"prompt": "a", "max_tokens": 1, "model": name}).json()["model"] == name
    events = post(tiny, {"prompt": "a", "max_tokens": 3, "stream": True}).text
    assert set(re.findall('"model":"([^"]*)"', events)) == {name}
    assert re.search('roco_build_info{.*model="%s"' % re.escape(name), requests.get(tiny.url + "/metrics", timeout=5).text)


def test_begin_token_exactly_once(start, tiny_file, tmp_path):
    """A file that asks for a begin token gets one, also when the prompt's text has it already, and not before token ids."""
    data = bytearray(tiny_file.read_bytes())
    key = b"tokenizer.ggml.add_bos_token"
    at = data.index(key) + len(key) + 4  # the value follows the kind
    for flag in (0, 1):
        data[at] = flag
        (tmp_path / "model.gguf").write_bytes(data)
        s = start("--kv-pool-tokens", 1024, "--threads", 1, model=tmp_path / "model.gguf")
        begin = post(s, {"text": "", "add_special": True}, "/tokenize").json()["tokens"]
        assert len(begin) == flag
        bos = 1
        text = post(s, {"tokens": [bos]}, "/detokenize").json()["text"]
        count = lambda prompt: s.complete(prompt=prompt, max_tokens=1)["usage"]["prompt_tokens"]
        assert count("qqq") == 3 + flag
        assert count(text + "qqq") == 4  # its own, and no other
        assert count([10, 11, 12]) == 3
        assert count(["qqq", text + "qqq"]) == 7 + flag
        assert post(s, {"text": text + "q", "add_special": True}, "/tokenize").json()["tokens"].count(bos) == 1
        assert s.stop() == 0


def test_a_stop_that_never_comes_holds_nothing_back(server):
    """Neither text nor events wait for a long stop string of which no part occurs."""
    body = dict(prompt=STORY, max_tokens=30, temperature=0, ignore_eos=True)
    assert deltas(server, **body, stop=["\u00a7" * 100, "~" * 256]) == deltas(server, **body)


def test_no_stops_leave_the_models_own_end(server):
    body = dict(prompt="<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n", temperature=0, max_tokens=200)
    plain = server.complete(**body)
    assert plain["choices"][0]["finish_reason"] == "stop"
    for stop in ([], None):
        reply = server.complete(**body, stop=stop)
        assert reply["choices"] == plain["choices"] and reply["usage"] == plain["usage"]


def test_text_stays_readable_whatever_the_sinks(server, data):
    """Far over the budget the answer is still made of the language's words: with sinks, and without, where the policy has
    to find them itself. A policy that drops them shows that the measure sees the difference."""
    document = (data / "doc.txt").read_text()
    known = set(re.findall("[a-z]+", document.lower()))

    def share_of_words(**fields):
        text = server.complete(prompt=document[:6000], max_tokens=40, temperature=0, **fields)["choices"][0]["text"]
        print(fields, repr(text))
        words = re.findall(r"\w+", text.lower())[1:-1]  # the first and the last may be cut
        return sum(w in known for w in words) / max(len(words), 10)  # fewer words than that are none

    for budget in (64, 128):
        for sink in (0, 4):
            assert share_of_words(kv_budget=budget, kv_sink=sink) >= 0.6
    assert server.complete(prompt="a", max_tokens=1)["usage"]["kv"]["policy"] == "roco"
    assert share_of_words(kv_budget=128, kv_sink=0, kv_policy="recency", kv_heads="uniform") < 0.3


# --- streams ---

def read_blocks(port, body, gaps):
    """The raw body of a stream, cut at blank lines; the times between reads."""
    raw = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(request_bytes(dict(body, stream=True), Connection="close"))
        last = time.perf_counter()
        while data := s.recv(65536):
            raw += data
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()
    head, chunked = raw.split(b"\r\n\r\n", 1)
    text = b""
    while chunked and not chunked.startswith(b"0\r\n"):
        size, chunked = chunked.split(b"\r\n", 1)
        text += chunked[:int(size, 16)]
        chunked = chunked[int(size, 16) + 2:]
    assert text.endswith(b"\n\n")
    return text.split(b"\n\n")[:-1]


def test_a_long_prompt_is_not_silent_and_probes_are_answered(start):
    """Comments while the prompt is read, each a block of its own; /health and /metrics are not the engine's to answer."""
    s = start("--keep-alive", 1, "--kv-pool-tokens", 8192, "--threads", 1)
    gaps, blocks, times = [], [], []
    body = dict(prompt=[504, 3575, 282, 4649] * 1000, max_tokens=60, kv_policy="full", ignore_eos=True)
    reader = threading.Thread(target=lambda: blocks.extend(read_blocks(s.port, body, gaps)))
    reader.start()
    while reader.is_alive():
        for path in ("/health", "/metrics"):
            begin = time.perf_counter()
            assert requests.get(s.url + path, timeout=10).status_code == 200
            times.append(time.perf_counter() - begin)
        time.sleep(0.1)
    reader.join()
    kinds = [b.split(b" ")[0] for b in blocks]
    first = kinds.index(b"data:")
    print(f"{first} comments before the first token, longest silence {max(gaps):.2f} s, slowest probe {max(times) * 1e3:.0f} ms")
    assert first >= 1 and set(kinds[:first]) == {b":"} and set(kinds) <= {b":", b"data:"}
    assert blocks[-1] == b"data: [DONE]"
    for block in blocks[:-1]:
        if block.startswith(b"data:"):
            assert b"\n" not in block and json.loads(block[6:])["object"] == "text_completion"
        else:
            assert b"\n" not in block
    assert max(gaps) < 10 and statistics.median(times) < 0.1  # the machine may be busy
    assert s.stop() == 0


def test_a_burst_to_many_streams_arrives_whole(tiny):
    """Wake-ups merge; tokens do not."""
    def ask(i):
        body = dict(prompt=[3 + i] * 5, max_tokens=300, ignore_eos=True, seed=i, kv_budget=64)
        plain = tiny.complete(**body)
        reply = post(tiny, dict(body, stream=True, stream_options={"include_usage": True}))
        assert reply.encoding == "utf-8"  # clients take text that names none for Latin-1
        events = [json.loads(e[6:]) for e in reply.text.split("\n\n") if e.startswith("data: {")]
        assert "".join(c["text"] for e in events for c in e["choices"]) == plain["choices"][0]["text"]
        assert events[-1]["usage"] == plain["usage"] and reply.text.endswith("data: [DONE]\n\n")
        return plain["usage"]["completion_tokens"]

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, range(32))) == [300] * 32


# --- the pool ---

def test_a_budget_multiplies_what_fits(start, tiny_file, tmp_path):
    """20 prompts of 2000 tokens: five at a time with a full cache; with a budget of 128 all at once, in a quarter of the
    pool. The tiny model has 2 layers of 2 KV heads."""
    pages = 5 * 67 * 4
    for fields, running, held in (dict(kv_policy="full"), 5, pages), (dict(kv_budget=128), 20, 20 * 4 * 4):
        s = start("--kv-pool-tokens", 5 * 2144, "--max-seqs", 64, "--threads", 1, "--trace", tmp_path / "trace", model=tiny_file)
        assert s.metrics()["roco_pool_pages"] == pages
        reply = s.complete(prompt=[[3 + i * 7 % 300 for i in range(2000)]] * 20, max_tokens=144, ignore_eos=True, **fields)
        assert reply["usage"]["completion_tokens"] == 20 * 144
        assert s.wait_idle()["roco_pages_held"] == 0
        assert s.stop() == 0
        steps = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
        assert max(step["running"] for step in steps) == running
        assert pages - min(step["free_pages"] for step in steps) == held


# --- crowds and ends ---

def test_a_request_that_waits_too_long_is_told(start, tiny_file):
    s = start("--max-seqs", 1, "--queue-timeout", 1, "--kv-pool-tokens", 4096, "--threads", 1, model=tiny_file, env=None)
    with socket.create_connection(("127.0.0.1", s.port), timeout=20) as blocker:
        blocker.sendall(request_bytes(dict(prompt="a", max_tokens=4000, n=4, ignore_eos=True, kv_policy="full")))
        s.wait_running(1)
        reply = post(s, dict(prompt="a", max_tokens=1))
        if reply.status_code != 200:  # a machine fast enough ends all four first
            assert reply.status_code == 503 and reply.json()["error"]["code"] == "queue_timeout"
            assert int(reply.headers["Retry-After"]) >= 1
    assert s.stop() == 0


def test_the_drain_limit_answers_what_still_runs(start):
    """Suspended plain requests get their 503 before the connections go; new ones get theirs while the others drain."""
    s = start("--drain-timeout", 3, "--kv-pool-tokens", 4096, "--max-seqs", 4)
    out = []

    def ask():
        out.append(post(s, dict(prompt=STORY, max_tokens=8000, ignore_eos=True, kv_budget=64)))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for t in threads:
        t.start()
    s.wait_until(lambda m: m["roco_requests_running"] + m["roco_requests_queued"] >= 20)
    s.process.send_signal(signal.SIGTERM)
    s.wait_draining()
    late = post(s, dict(prompt="a", max_tokens=1))
    assert late.status_code == 503 and late.json()["error"]["code"] == "shutting_down" and late.headers["Retry-After"]
    assert requests.get(s.url + "/ready", timeout=5).status_code == 503
    assert requests.get(s.url + "/health", timeout=5).status_code == 200
    assert s.process.wait(30) == 0  # 20 answers of 8000 tokens take longer
    for t in threads:
        t.join(30)
    assert [r.status_code for r in out] == [503] * 20
    assert {r.json()["error"]["code"] for r in out} == {"shutting_down"}


# --- templates of model files ---

def test_a_template_without_end_is_refused_and_holds_up_nobody(start, tiny_file, tmp_path):
    """It does not stop the start; a chat is refused with the limit, and others are answered meanwhile."""
    (tmp_path / "hostile.jinja").write_text(
        "{% if messages[0].content == 'x' %}{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}{% endif %}{{ messages[0].content }}")
    s = start("--kv-pool-tokens", 4096, "--threads", 1, "--chat-template", tmp_path / "hostile.jinja", model=tiny_file)
    chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
        overtaken = False
        for _ in range(20):  # a health check as slow as the rendering is no fault
            with socket.create_connection(("127.0.0.1", s.port), timeout=60) as asked:
                asked.sendall(request_bytes(chat, Connection="close").replace(b"/v1/completions", path.encode()))
                time.sleep(0.02)
                assert requests.get(s.url + "/health", timeout=60).status_code == 200
                overtaken = not select.select([asked], [], [], 0)[0]
                raw = b""
                while data := asked.recv(65536):
                    raw += data
            assert raw.startswith(b"HTTP/1.1 400") and b"chat template, line 1: " in raw
            if overtaken:
                break
        assert overtaken, path
    chat["messages"][0]["content"] = "y"
    assert post(s, chat, "/v1/chat/completions").status_code == 200
    assert s.stop() == 0


# --- metrics ---

def test_every_metric_is_in_the_docs_with_its_kind(start, tiny_file, tmp_path):
    """Dashboards are built on the documented names: none is missing, none is there that the docs do not tell of."""
    (tmp_path / "keys").write_text("a-key name=alice\n")
    s = start("--kv-pool-tokens", 1024, "--api-key-file", tmp_path / "keys", model=tiny_file)
    text = requests.get(s.url + "/metrics", headers={"Authorization": "Bearer a-key"}, timeout=5).text
    assert s.stop() == 0
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    documented = set()
    for row in re.findall(r"^\| (`roco_.*)$", (ROOT / "docs/API.md").read_text(), re.M):
        names, kind, _ = row.split(" | ", 2)
        for name in re.findall(r"`(roco_\w+)", names):
            documented.add(name)
            assert kinds.get(name) in re.split(r"\W+", kind.replace("histograms", "histogram")), (name, kind)
    assert documented == set(kinds)
    assert set(re.findall(r"^# HELP (\S+) \S", text, re.M)) == set(kinds)
    assert all(re.fullmatch("roco_[a-z_]+", name) for name in kinds)
    assert all(name.endswith("_total") for name, kind in kinds.items() if kind == "counter")


# --- bodies ---

def test_a_large_body_is_asked_for_at_once(tiny):
    """Expect: 100-continue is answered before the client would give up waiting."""
    body = json.dumps({"text": "q " * (1 << 20)}).encode()
    with socket.create_connection(("127.0.0.1", tiny.port), timeout=20) as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                  b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n")
        assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"  # while nothing of the body has been sent
        s.sendall(body)
        raw = b""
        while data := s.recv(1 << 20):
            raw += data
    assert raw.startswith(b"HTTP/1.1 "), raw[:80]
    assert raw.split(b" ", 2)[1] in (b"200", b"400")


def test_others_go_on_while_a_huge_text_is_tokenized(server):
    """8 MB without a space, the worst there is, take seconds; completions do not wait for it."""
    done, times = threading.Event(), []

    def tokenize():
        assert post(server, {"text": "a" * (8 * 10**6)}, "/tokenize").status_code in (200, 400)
        done.set()

    thread = threading.Thread(target=tokenize)
    thread.start()
    while not done.is_set():
        begin = time.perf_counter()
        server.complete(prompt="a", max_tokens=1)
        times.append(time.perf_counter() - begin)
    thread.join()
    print(f"slowest of {len(times)} completions {max(times) * 1e3:.0f} ms")
    assert len(times) >= 3  # the last of them may have ended after it
