"""Keys with names and limits: 429 with Retry-After, the name in log and metrics, and a reload that drops nobody."""
import signal
import threading
import time

import pytest
import requests

STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "
KEYS = """\
# three of one company, and ours
k-alice name=alice running=1 queued=1
k-alice-new name=alice
k-bob   name=bob tokens-per-minute=60
k-plain
"""


def write(path, text):
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture
def keyed(start, tmp_path):
    write(tmp_path / "keys", KEYS)
    s = start("--api-key-file", tmp_path / "keys", "--kv-pool-tokens", 4096)
    s.keys = tmp_path / "keys"
    yield s
    assert s.stop() == 0


def post(s, key, **body):
    body = dict(prompt=STORY, max_tokens=3, ignore_eos=True) | body
    return requests.post(s.url + "/v1/completions", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60,
                         stream=body.get("stream", False))


def metrics(s):
    lines = requests.get(s.url + "/metrics", headers={"Authorization": "Bearer k-plain"}, timeout=5).text.splitlines()
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def wait_for(condition):
    end = time.time() + 10
    while not condition():
        assert time.time() < end
        time.sleep(0.01)


def limited(reply, code):
    assert reply.status_code == 429, reply.text
    assert reply.json()["error"]["code"] == code and reply.json()["error"]["type"] == "rate_limit_error"
    assert "alice" in reply.text or "bob" in reply.text
    return int(reply.headers["Retry-After"])


def test_running_and_queued(keyed):
    """One runs, one waits, a third is refused; others are not held up, and the second key of the name counts to it as well."""
    long = post(keyed, "k-alice", max_tokens=2000, stream=True)
    wait_for(lambda: metrics(keyed)['roco_key_sequences{key="alice",state="running"}'] == 1)
    waits = []
    waiting = threading.Thread(target=lambda: waits.append(post(keyed, "k-alice-new")))
    waiting.start()
    wait_for(lambda: metrics(keyed)['roco_key_sequences{key="alice",state="queued"}'] == 1)
    assert limited(post(keyed, "k-alice-new"), "key_limit") == 1
    assert post(keyed, "k-alice", n=3).status_code == 400  # could never run
    assert post(keyed, "k-plain").status_code == 200  # behind the one that waits for its key
    long.close()
    waiting.join()
    assert waits[0].status_code == 200
    m = metrics(keyed)
    assert m['roco_key_limited_total{key="alice",limit="sequences"}'] == 1
    assert m['roco_key_requests_total{key="alice",outcome="length"}'] == 1
    assert m['roco_key_requests_total{key="alice",outcome="cancelled"}'] == 1
    assert m['roco_key_requests_total{key="alice",outcome="rejected"}'] == 2
    assert not any("k-alice" in name or "plain" in name for name in m)
    wait_for(lambda: sum("key alice" in line for line in keyed.log if "request:" in line) == 2)
    assert any("over a limit" in line and "key alice" in line for line in keyed.log)
    assert not any("k-alice" in line for line in keyed.log)


def test_tokens_per_minute(keyed):
    """60 tokens a minute: what was begun is finished, then it takes a second for each token that was too many."""
    used = post(keyed, "k-bob", max_tokens=50).json()["usage"]["total_tokens"]
    assert used > 60
    wait = limited(post(keyed, "k-bob"), "token_limit")
    assert used - 60 <= wait + 1 and wait <= used - 60 + 2
    m = metrics(keyed)
    assert m['roco_key_tokens_total{key="bob",kind="prompt"}'] + m['roco_key_tokens_total{key="bob",kind="answer"}'] == used
    assert m['roco_key_limited_total{key="bob",limit="tokens"}'] == 1
    assert post(keyed, "k-alice").status_code == 200


def test_new_limits_and_keys_while_requests_run(keyed):
    """What runs goes on when its key goes; new limits hold at once, and what was used stays used."""
    running = post(keyed, "k-alice", max_tokens=1500, stream=True, stream_options={"include_usage": True})
    wait_for(lambda: metrics(keyed)['roco_key_sequences{key="alice",state="running"}'] == 1)
    assert post(keyed, "k-bob", max_tokens=50).status_code == 200
    write(keyed.keys, "k-other name=alice running=1 queued=0\nk-bob name=bob tokens-per-minute=61\nk-plain\n")
    seen = len(keyed.log)
    keyed.process.send_signal(signal.SIGHUP)
    wait_for(lambda: any("SIGHUP: 3 keys" in line for line in keyed.log[seen:]))
    assert post(keyed, "k-alice").status_code == 401
    assert limited(post(keyed, "k-other"), "key_limit") == 1  # the old key's request is still there
    assert limited(post(keyed, "k-bob"), "token_limit") > 1
    events = [line for line in running.iter_lines() if line.startswith(b"data: ")]
    assert events[-1] == b"data: [DONE]" and b'"completion_tokens":1500' in events[-2]
    assert post(keyed, "k-other").status_code == 200
