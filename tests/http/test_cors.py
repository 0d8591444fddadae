"""Which web pages may use the server: none, until --cors-origins says so."""
import pytest
import requests

PAGE = "https://app.example"
ASKED = "authorization,content-type,x-stainless-lang,anthropic-dangerous-direct-browser-access"
PATHS = ["/v1/completions", "/v1/models", "/tokenize"]


def preflight(server, path, origin=PAGE):
    return requests.options(server.url + path, timeout=5, headers={
        "Origin": origin, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ASKED})


def granted(reply):
    return {name.lower(): value for name, value in reply.headers.items() if name.lower().startswith("access-control-")}


@pytest.fixture(scope="module")
def listed(start, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o600)
    s = start("--cors-origins", f"{PAGE}, http://localhost:5173", "--api-key-file", keys, "--kv-pool-tokens", 1024)
    yield s
    assert s.stop() == 0


def test_by_default_no_page_may(server):
    reply = preflight(server, "/v1/completions")
    assert reply.status_code == 405 and not granted(reply) and "Vary" not in reply.headers
    reply = requests.get(server.url + "/v1/models", headers={"Origin": PAGE}, timeout=5)
    assert reply.status_code == 200 and not granted(reply)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [PAGE, "http://localhost:5173"])
def test_a_preflight_needs_no_key(listed, path, origin):
    reply = preflight(listed, path, origin)
    assert reply.status_code == 204 and not reply.content
    headers = granted(reply)
    assert headers["access-control-allow-origin"] == origin and "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == ASKED
    assert "access-control-allow-credentials" not in headers and reply.headers["Vary"] == "Origin"


@pytest.mark.parametrize("origin", ["https://evil.example", "https://app.example.evil.example", "https://app.exampl", "null",
                                    "", f"{PAGE}, http://localhost:5173", "https://APP.example"])
def test_other_pages_may_not(listed, origin):
    reply = preflight(listed, "/v1/completions", origin)
    assert reply.status_code == 405 and not granted(reply) and reply.headers["Vary"] == "Origin"
    reply = requests.get(listed.url + "/health", headers={"Origin": origin}, timeout=5)
    assert reply.status_code == 200 and not granted(reply)


def test_the_page_reads_answers_and_errors(listed):
    key = {"Authorization": "Bearer secret"}
    ask = lambda headers, **body: requests.post(listed.url + "/v1/completions", json=body, headers={"Origin": PAGE, **headers},
                                                timeout=60)
    for reply, status in [(ask(key, prompt="a", max_tokens=1), 200), (ask(key, prompt="a", max_tokens=1, stream=True), 200),
                          (ask(key, prompt=1), 400), (ask({}, prompt="a"), 401)]:
        assert reply.status_code == status and granted(reply)["access-control-allow-origin"] == PAGE
        assert "X-Request-Id" in granted(reply)["access-control-expose-headers"]


def test_options_that_are_no_preflight(listed):
    reply = requests.options(listed.url + "/v1/completions", headers={"Origin": PAGE}, timeout=5)
    assert reply.status_code == 405
    assert preflight(listed, "/nowhere").status_code == 404


def test_every_page(start):
    s = start("--cors-origins", "*", "--kv-pool-tokens", 1024)
    session = requests.Session()
    for _ in range(3):  # on one connection
        reply = session.options(s.url + "/v1/completions", timeout=5, headers={
            "Origin": PAGE, "Access-Control-Request-Method": "POST"})
        assert reply.status_code == 204 and granted(reply)["access-control-allow-origin"] == "*"
        body = session.post(s.url + "/v1/completions", json=dict(prompt="a", max_tokens=1), headers={"Origin": PAGE}, timeout=60)
        assert body.status_code == 200 and granted(body)["access-control-allow-origin"] == "*"
    assert s.stop() == 0
