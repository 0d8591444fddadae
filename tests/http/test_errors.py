"""Bad input: the right status, an error that names the field and the limit, and a server that goes on."""
import json
import socket
import time

import pytest
import requests


def post(server, body, path="/v1/completions", **kw):
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    headers = {"Content-Type": "application/json", **kw.pop("headers", {})}
    return requests.post(server.url + path, data=data, headers=headers, timeout=60, **kw)


def refused(reply, status, param=None, code=None):
    assert reply.status_code == status, reply.text
    assert reply.headers["Content-Type"].startswith("application/json")
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"] and error["type"]
    if param is not None:
        assert error["param"] == param, error
    if code is not None:
        assert error["code"] == code, error
    return error


@pytest.fixture(autouse=True)
def alive(server):
    yield
    assert server.process.poll() is None, server.log[-5:]
    assert requests.get(server.url + "/health", timeout=5).status_code == 200


FIELDS = [
    ("temperature", [-1, 1e15, 2.5, "1", True, [], {}]),
    ("top_p", [1.5, -0.1, "x"]),
    ("top_k", [-5, 1.5, "x", 10**12]),
    ("min_p", [-0.1, 1.1]),
    ("seed", [9007199254740993, 1.5, "7", -9007199254740993]),
    ("max_tokens", [-1, 1.5, "8", 3000000000000000000]),
    ("n", [0, -1, 1.5, 100000, "2"]),
    ("stop", [[None], [7], {"a": 1}, ["a", "b", "c", "d", "e"], "x" * 100000, 7, ""]),
    ("stream", [1, "true"]),
    ("stream_options", [7, {"include_usage": "yes"}]),
    ("kv_budget", [0, -1, 1.5, 1.0, "64", 1e9, 31, 8193, True]),
    ("kv_policy", ["best", 7]),
    ("kv_sink", [-1, 1.5, 10**6]),
    ("kv_recent", [-1, "x", 10**6]),
    ("prompt", [[], [[]], [-1], [49152], 7, {}, [1.5], ["a", 1], [None], ""]),
    ("ignore_eos", ["x"]),
    ("logprobs", [-1, 150000, 6, 1.5, True, "1"]),
    ("top_logprobs", [1, 1000]),
    ("best_of", [0, 17, 1000]),
    ("echo", [1, "true"]),
    ("suffix", ["x"]),
    ("logit_bias", [[5], {"x": 1}, {"49152": 1}, {"5": 101}, {"5": "1"}, {str(i): 1 for i in range(100000)}]),
    ("presence_penalty", [2.5, "0"]),
    ("frequency_penalty", [-2.5]),
    ("repetition_penalty", [0, -1]),
    ("min_tokens", [-1, 2]),
    ("stop_token_ids", [[49152], [-1], 7, ["a"], list(range(65))]),
    ("response_format", [7, "json_object"]),
    ("grammar", [7, "root ::=", "root ::= root \"a\"", "x ::= \"a\"", "root ::= " + "(" * 5000]),
    ("regex", [7, "(a", "(?=a)a", "a{5,2}", "[]"]),
    ("guided_choice", ["a", [1]]),
    ("guided_json", ["{}", []]),
    ("tools", [[{"type": "function"}]]),
]


@pytest.mark.parametrize("field, value", [(f, v) for f, values in FIELDS for v in values],
                         ids=lambda v: str(v)[:24].replace(" ", ""))
def test_a_bad_value_is_named(server, field, value):
    error = refused(post(server, {"prompt": "a", "max_tokens": 1, field: value}), 400)
    assert error["param"] in (field, f"{field}.include_usage")
    assert field in error["message"]


@pytest.mark.parametrize("field, value", [
    ("presence_penalty", 0), ("frequency_penalty", 0), ("best_of", 1), ("echo", False), ("logit_bias", {}),
    ("logprobs", False), ("min_tokens", 0), ("stop_token_ids", []), ("repetition_penalty", 1), ("max_tokens", 0),
    ("user", "somebody"), ("metadata", {"a": 1}), ("a_field_nobody_knows", [1]), ("seed", 0), ("top_p", 1), ("n", 1),
    ("seed", 9007199254740991), ("stop", []), ("kv_budget", 0.5), ("kv_budget", 32), ("kv_policy", "recency")])
def test_a_harmless_value_is_taken(server, field, value):
    assert post(server, {"prompt": "a", "max_tokens": 1, field: value}).status_code == 200


def test_neighbouring_seeds_are_two_seeds(server):
    text = lambda seed: post(server, {"prompt": "Once upon a time", "seed": seed, "max_tokens": 24}).json()["choices"][0]["text"]
    assert text(9007199254740991) != text(9007199254740990)


@pytest.mark.parametrize("body", [
    b"{", b"", b"[]", b"7", b'"x"', b"null", b'{"prompt":"a"} trailing', b'{"prompt":"a","max_tokens":1e400}',
    b'{"prompt":"a","max_tokens":' + b"1" * 70 + b"}", b"[" * 100000, b'{"a":' * 100000, b"\xff\xfe{\x00}\x00",
    '{"prompt":"\u4f60\u597d"}'.encode("gbk"), b'{"prompt":"a\xed\xa0\x80"}', b'{"prompt":"a\x00b"}', b"<html>"])
def test_a_bad_body(server, body):
    reply = post(server, body)
    error = refused(reply, 400)
    assert reply.elapsed.total_seconds() < 2
    assert all(c.isprintable() for c in error["message"])  # no raw bytes of the request


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/v1/nope", 404), ("PUT", "/v1/models", 405), ("POST", "/v1/models", 405), ("GET", "/v1/completions", 405),
    ("DELETE", "/health", 405), ("GET", "/", 404), ("GET", "/v1/completions/", 404)])
def test_paths_and_methods(server, method, path, status):
    reply = requests.request(method, server.url + path, timeout=10)
    refused(reply, status)
    assert status != 405 or reply.headers["Allow"]


@pytest.mark.parametrize("target", [
    "/../../etc/passwd", "/%2e%2e%2f%2e%2e%2fetc/passwd", "/..%5c..%5cetc", "//etc/passwd", "/health%00x",
    "/v1/../health"])
def test_no_path_reaches_a_file(server, target):
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head = s.recv(65536)
    assert head.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), head[:60]
    assert b"root:" not in head


def test_wrong_content_type(server):
    reply = requests.post(server.url + "/v1/completions", data='{"prompt":"a"}', timeout=5,
                          headers={"Content-Type": "text/plain", "Origin": "https://evil.example"})
    refused(reply, 415)
    assert not any(h.lower().startswith("access-control") for h in reply.headers)


def test_a_body_over_the_limit(server):
    rss = server.rss()
    refused(post(server, b'{"prompt":"' + b"a" * (9 << 20) + b'"}'), 413)
    assert server.rss() - rss < 64 << 20


def test_expect_over_the_limit_is_refused_before_the_body(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 500000000\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_chunked_body_without_end(server):
    rss = server.rss()
    sent, cut = 0, False
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"
        try:
            while sent < 200:
                s.sendall(chunk)
                sent += 1
        except OSError:
            cut = True
    assert cut and server.rss() - rss < 64 << 20


def test_a_prompt_over_the_context(server):
    error = refused(post(server, {"prompt": [28] * 8200, "max_tokens": 1}), 400, code="context_length_exceeded")
    assert "8200" in error["message"] and "8192" in error["message"]


def test_ten_megabytes_of_json_numbers(server):
    refused(post(server, {"prompt": [1] * 1_000_000, "max_tokens": 1}), 400)


def test_budget_against_protected_tokens(server):
    error = refused(post(server, {"prompt": "a", "max_tokens": 100, "kv_budget": 40, "kv_sink": 20, "kv_recent": 30}), 400)
    assert error["param"] in ("kv_sink", "kv_recent", "kv_budget")


def test_a_request_that_can_never_fit_is_refused_with_the_numbers(start):
    small = start("--kv-pool-tokens", 256, "--kv-policy", "full")
    error = refused(post(small, {"prompt": [28] * 400, "max_tokens": 10}), 400)
    assert "page" in error["message"] or "token" in error["message"]
    assert post(small, {"prompt": [28] * 100, "max_tokens": 10}).status_code == 200
    assert post(small, {"prompt": [28] * 400, "max_tokens": 10, "kv_policy": "roco", "kv_budget": 128}).status_code == 200
    assert small.stop() == 0


def test_keys(start, tmp_path):
    (tmp_path / "keys").write_text("# who\nsk-one\nsk-two\n")
    (tmp_path / "keys").chmod(0o600)
    keyed = start("--api-key-file", tmp_path / "keys", "--kv-pool-tokens", 1024)
    ask = lambda key: requests.get(keyed.url + "/v1/models", headers={"Authorization": key} if key else {}, timeout=5)
    assert ask("Bearer sk-one").status_code == ask("Bearer sk-two").status_code == 200
    wrong = [ask(k) for k in (None, "Bearer", "Bearer ", "Bearer xk-one", "Bearer sk-onX", "Bearer sk-on", "Bearer sk-one1",
                              "Basic sk-one")]
    assert {r.status_code for r in wrong} == {401} and len({r.text for r in wrong}) == 1
    refused(wrong[0], 401)
    assert requests.get(keyed.url + "/health", timeout=5).status_code == 200
    assert keyed.stop() == 0


def test_errors_come_quickly(server):
    start_time = time.time()
    for _ in range(50):
        refused(post(server, {"prompt": "a", "temperature": 9}), 400)
    assert time.time() - start_time < 5
