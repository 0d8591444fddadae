"""Start, readiness, drain, second signal, taken port, metrics format."""
import json
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import requests

STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "


def test_metrics_are_what_prometheus_expects(server):
    text = requests.get(server.url + "/metrics", timeout=5)
    assert text.headers["Content-Type"].startswith("text/plain")
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    check = subprocess.run([promtool, "check", "metrics"], input=text.text, capture_output=True, text=True)
    assert check.returncode == 0 and not check.stderr.strip() and not check.stdout.strip(), check.stdout + check.stderr


NAMES = """roco_requests_running roco_requests_queued roco_pool_pages roco_pages_total roco_pages_held roco_tokens_prompt_total
roco_tokens_generated_total""".split()
LABELLED = ["roco_requests_total", "roco_tokens_evicted_total"]
HISTOGRAMS = """roco_first_token_seconds roco_inter_token_seconds roco_queue_seconds roco_step_seconds
roco_step_rows""".split()


def test_metric_names_others_rely_on(server):
    server.complete(prompt=STORY * 8, max_tokens=8, kv_budget=32)
    m = server.wait_idle()
    for name in NAMES:
        assert name in m
    for name in LABELLED:
        assert any(key.startswith(name + "{") for key in m)
    for name in HISTOGRAMS:
        assert m[name + "_count"] > 0 and any(key.startswith(name + '_bucket{le="+Inf"') for key in m)
    assert m["roco_pool_pages"] == m["roco_pages_total"] == 16384 // 32 * 90


def test_counters_count(server):
    before = server.wait_idle()
    usage = server.complete(prompt=STORY, max_tokens=8, ignore_eos=True)["usage"]
    after = server.wait_idle()
    grown = lambda name: after[name] - before[name]
    assert grown("roco_tokens_prompt_total") == usage["prompt_tokens"]
    assert grown("roco_tokens_generated_total") == 8
    assert grown('roco_requests_total{outcome="length"}') == 1


def test_a_taken_port_is_noticed_before_the_model_is_loaded(build, server):
    """So early that a model which is not there is not missed."""
    second = subprocess.run([build / "roco", "serve", "/no/model", "--port", str(server.port)], capture_output=True, text=True,
                            timeout=20)
    assert second.returncode != 0
    assert f"port {server.port}: Address already in use" in second.stderr and "/no/model" not in second.stderr


@pytest.mark.parametrize("content", [b"<!DOCTYPE html><html></html>", b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 16])
def test_a_file_that_is_no_model(build, tmp_path, content):
    (tmp_path / "bad.gguf").write_bytes(content)
    run = subprocess.run([build / "roco", "serve", tmp_path / "bad.gguf", "--port", "0"], capture_output=True, text=True,
                         timeout=20)
    assert run.returncode not in (0, -11, -6) and "bad.gguf" in run.stderr


def test_a_cut_model_names_the_tensor(build, model, tmp_path):
    data = model.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[:int(len(data) * 0.6)])
    run = subprocess.run([build / "roco", "serve", tmp_path / "cut.gguf", "--port", "0"], capture_output=True, text=True,
                         timeout=20)
    assert run.returncode != 0 and "blk." in run.stderr


@pytest.mark.parametrize("args", [["--no-such-option", "1"], ["--port", "70000"], ["--threads", "x"], ["--kv-budget", "3"],
                                  ["--kv-pool-bytes", "1"], ["--kv-policy", "best"], ["--step-tokens", "0"]])
def test_a_bad_option_is_named(build, model, args):
    run = subprocess.run([build / "roco", "serve", model, *args], capture_output=True, text=True, timeout=20)
    assert run.returncode != 0 and args[0].lstrip("-") in run.stderr


def test_environment_and_file(start, tmp_path):
    (tmp_path / "roco.conf").write_text("kv-budget = 77\nmax-seqs = 3\n")
    s = start("--config", tmp_path / "roco.conf", "--kv-pool-tokens", 1024, env={"ROCO_KV_BUDGET": "99"})
    reply = requests.post(s.url + "/v1/completions", json=dict(prompt=STORY * 9, max_tokens=2), timeout=60)
    assert reply.json()["usage"]["kv"]["budget"] == 99  # the environment is over the file
    assert s.stop() == 0


def stream_all(url, out, **body):
    with requests.post(url + "/v1/completions", json=dict(body, stream=True), stream=True, timeout=120) as reply:
        out.append(b"\n".join(reply.iter_lines(chunk_size=1)))


def test_sigterm_drains(start):
    s = start("--kv-pool-tokens", 8192, "--drain-timeout", 300)
    out = []
    threads = [threading.Thread(target=stream_all, args=(s.url, out), kwargs=dict(
        prompt=STORY, max_tokens=900, ignore_eos=True, kv_budget=64)) for _ in range(5)]
    for t in threads:
        t.start()
    s.wait_running(5)
    kept = requests.Session()
    kept.get(s.url + "/health", timeout=5)
    s.process.send_signal(signal.SIGTERM)
    for t in threads:
        t.join(120)
    assert s.process.wait(30) == 0
    assert len(out) == 5 and all(o.endswith(b"data: [DONE]\n") or o.rstrip().endswith(b"data: [DONE]") for o in out)


def test_second_sigterm_ends_at_once(start):
    s = start("--kv-pool-tokens", 8192, "--drain-timeout", 300)
    failed = []

    def ask():
        try:
            reply = requests.post(s.url + "/v1/completions", timeout=120, json=dict(
                prompt=STORY, max_tokens=8000, ignore_eos=True, kv_budget=64))
            failed.append(reply.status_code)
        except requests.ConnectionError:
            failed.append("cut")

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for t in threads:
        t.start()
    s.wait_running(20)
    s.process.send_signal(signal.SIGTERM)
    s.wait_draining()  # two signals in one moment are one
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(30) == 0
    for t in threads:
        t.join(30)
    assert len(failed) == 20 and all(f in (503, "cut") for f in failed)


def test_a_failure_after_five_tokens_ends_the_stream_with_an_error(start):
    s = start("--kv-pool-tokens", 1024, "--fault", "device:5")
    with requests.post(s.url + "/v1/completions", stream=True, timeout=60,
                       json=dict(prompt=STORY, max_tokens=20, ignore_eos=True, stream=True)) as reply:
        lines = []
        try:
            for line in reply.iter_lines(chunk_size=1):
                lines.append(line)
        except requests.exceptions.ChunkedEncodingError:
            pass
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
    assert "error" in events[-1] and events[-1]["error"]["message"]
    assert b"data: [DONE]" not in lines
    assert sum(len(e["choices"]) for e in events[:-1]) <= 5


def test_one_broken_row_fails_alone(start):
    s = start("--kv-pool-tokens", 4096, "--fault", "nan:40")
    out = []

    def ask(i):
        out.append(requests.post(s.url + "/v1/completions", timeout=60, json=dict(
            prompt=STORY, max_tokens=30, ignore_eos=True, temperature=0)))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(r.status_code for r in out) == [200, 200, 200, 500]
    assert len({r.json()["choices"][0]["text"] for r in out if r.status_code == 200}) == 1
    assert s.wait_idle()["roco_pages_held"] == 0


def test_keep_alive_comments_while_silent(start):
    """One sequence runs, another waits: the waiting stream is not silent."""
    s = start("--max-seqs", 1, "--keep-alive", 1, "--kv-pool-tokens", 8192)
    body = dict(prompt=STORY, max_tokens=8000, ignore_eos=True, kv_budget=256, stream=True)
    with requests.post(s.url + "/v1/completions", json=body, stream=True, timeout=120):
        s.wait_running(1)
        with requests.post(s.url + "/v1/completions", json=dict(prompt="a", max_tokens=1, stream=True), stream=True,
                           timeout=120) as reply:
            first = next(line for line in reply.iter_lines(chunk_size=1) if line)
            assert first.startswith(b":")
    assert s.stop() == 0


def test_a_slow_client_is_cut(start):
    s = start("--idle-timeout", 1, "--kv-pool-tokens", 1024)
    with socket.create_connection(("127.0.0.1", s.port), timeout=20) as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
        try:
            while c.recv(4096):
                pass
        except ConnectionError:
            pass  # but not the client's own 20 s
    assert s.stop() == 0
