"""SIGHUP: keys and log level are read anew, a mistake changes nothing, and requests do not notice."""
import json
import signal
import threading
import time

import requests

STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "


def write(path, text):
    path.write_text(text)
    path.chmod(0o600)


def status(server, key):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return requests.get(server.url + "/v1/models", headers=headers, timeout=5).status_code


def hang_up(server, says):
    seen = len(server.log)
    server.process.send_signal(signal.SIGHUP)
    end = time.time() + 5
    while not any(says in line for line in server.log[seen:]):
        assert time.time() < end, server.log[seen:]
        time.sleep(0.01)


def test_keys_and_log_level(start, tmp_path):
    write(tmp_path / "keys", "old\n")
    (tmp_path / "roco.conf").write_text(f"api-key-file = {tmp_path}/keys\nlog-level = warn\n")
    s = start("--config", tmp_path / "roco.conf", "--kv-pool-tokens", 1024)
    assert (status(s, "old"), status(s, "new"), status(s, None)) == (200, 401, 401)

    write(tmp_path / "keys", "new\nnewer\n")
    assert status(s, "new") == 401
    (tmp_path / "roco.conf").write_text(f"api-key-file = {tmp_path}/keys\nlog-level = info\n")
    hang_up(s, "SIGHUP: 2 keys, log-level info")
    assert (status(s, "old"), status(s, "new"), status(s, "newer")) == (401, 200, 200)

    write(tmp_path / "keys", "# nothing left\n")
    hang_up(s, "nothing is changed")
    assert (status(s, "new"), status(s, None)) == (200, 401)

    write(tmp_path / "keys", "old\n")
    (tmp_path / "roco.conf").write_text(f"api-key-file = {tmp_path}/keys\nlog-level = loud\n")
    hang_up(s, "log-level")
    assert (status(s, "new"), status(s, "old")) == (200, 401)
    assert s.stop() == 0


def test_requests_go_on(start):
    s = start("--kv-pool-tokens", 1024)
    body = dict(prompt=STORY, max_tokens=100, ignore_eos=True, temperature=0)
    alone = s.complete(**body)
    together = []
    asking = threading.Thread(target=lambda: together.append(s.complete(**body)))
    asking.start()
    for _ in range(20):
        s.process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    asking.join()
    assert together[0]["choices"] == alone["choices"]
    assert s.stop() == 0


def test_while_the_model_loads(start):
    s = start("--kv-pool-tokens", 1024, wait=False)
    while not s.url:
        time.sleep(0.001)
    s.process.send_signal(signal.SIGHUP)
    s.wait_ready()
    assert s.stop() == 0


def test_a_json_log(start):
    s = start("--kv-pool-tokens", 1024, "--log-format", "json")
    headers = {"X-Request-Id": "mine"}
    requests.post(s.url + "/v1/completions", json=dict(prompt=STORY, max_tokens=3, ignore_eos=True), headers=headers, timeout=60)
    assert s.stop() == 0
    records = [json.loads(line) for line in s.log if not line.startswith("listening on ")]
    assert all(r["level"] == "info" and r["time"].endswith("Z") for r in records)
    request, = (r for r in records if r["message"] == "request")
    assert request["id"] == "mine" and request["generated"] == 3 and request["finish"] == "length" and request["first_token_ms"] > 0
