"""TLS by --tls-cert and --tls-key: clients, certificates read anew, and peers that stall, dawdle, leave or talk nonsense."""
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import warnings

import openai
import pytest
import requests

STORY = "Once upon a time, in a small village by the sea, there lived an old fisherman. "


# Of a single day in 2020; openssl makes none that begin in the past.
LATE = """\
-----BEGIN CERTIFICATE-----
MIIBBDCBrAIBATAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARsYXRlMB4XDTIwMDEw
MTAwMDAwMFoXDTIwMDEwMjAwMDAwMFowDzENMAsGA1UEAwwEbGF0ZTBZMBMGByqG
SM49AgEGCCqGSM49AwEHA0IABIoHFuFgy6vqQ3XD2R9W4uQYi8W3STbxZPGcUUCg
JU8kzyrksI+aWyjmdJTVJ/H4+fw8/jR8BqywohZIaxGmoz4wCgYIKoZIzj0EAwID
RwAwRAIgR9irF0NVGd4zIfcBtM/NHOPG+Wm6lzl3DwKOlnmjg7ECIBvC1ctWPQOM
agB9io7O/+LcYl8oqo3tZduBTOO1np+G
-----END CERTIFICATE-----
"""


def certify(folder, name):
    """A self-signed certificate for 127.0.0.1: paths of certificate and key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "30", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    key.chmod(0o600)
    return cert, key


@pytest.fixture(scope="module")
def tls(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = certify(folder, "first")
    s = start("--tls-cert", cert, "--tls-key", key, "--kv-pool-tokens", 4096, "--idle-timeout", 2, "--max-body", "64KiB",
              verify=str(cert))
    assert s.url.startswith("https://")
    s.cert, s.key = cert, key
    yield s
    assert s.stop() == 0, s.log[-5:]


def connect(s):
    return socket.create_connection(("127.0.0.1", s.port), timeout=20)


def connect_tls(s, cafile=None):
    return ssl.create_default_context(cafile=cafile or s.cert).wrap_socket(connect(s), server_hostname="127.0.0.1")


def post(**body):
    text = json.dumps(dict(prompt=STORY, ignore_eos=True) | body)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
    return f"{head}\r\n\r\n{text}".encode()


def stream(n):
    return post(max_tokens=n, stream=True, stream_options={"include_usage": True})


def metrics(s):
    lines = requests.get(s.url + "/metrics", timeout=10, verify=s.verify).text.splitlines()
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def wait_for(condition, seconds=10):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end
        time.sleep(0.02)


def loop_seconds(s):
    """Processor time of the loop's thread, the process' first."""
    fields = open(f"/proc/{s.process.pid}/task/{s.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latency(s, n=40):
    """The longest of n new connections that ask for /health, in seconds."""
    worst = 0
    for _ in range(n):
        begin = time.perf_counter()
        assert requests.get(s.url + "/health", timeout=10, verify=s.verify).status_code == 200
        worst = max(worst, time.perf_counter() - begin)
    return worst


def test_clients(tls, build):
    http_client = openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=tls.cert))
    client = openai.OpenAI(base_url=tls.url + "/v1", api_key="none", http_client=http_client)
    model = client.models.list().data[0].id
    chunks = list(client.completions.create(model=model, prompt=STORY, max_tokens=40, stream=True, extra_body={"ignore_eos": True},
                                            stream_options={"include_usage": True}))
    assert chunks[-1].usage.completion_tokens == 40 and chunks[-2].choices[0].finish_reason == "length"
    curl = subprocess.run(["curl", "-sS", "--cacert", tls.cert, tls.url + "/ready"], capture_output=True, text=True)
    assert curl.stdout == '{"status":"ready"}', curl.stderr
    options = ["--port", str(tls.port), "--tls-cert", tls.cert, "--tls-key", tls.key]
    assert subprocess.run([build / "roco", "ready", *options], capture_output=True).returncode == 0


def test_only_current_versions(tls):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=tls.cert)
        context.minimum_version = context.maximum_version = version
        with context.wrap_socket(connect(tls), server_hostname="127.0.0.1") as c:
            assert c.version() == version.name.replace("_", ".")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the versions are deprecated: that is the point
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(connect(tls))


def test_peers_that_stall_hold_up_nobody(tls):
    """Silent ones, half a greeting, nonsense, plain HTTP: others are answered meanwhile, and all are let go of after --idle-timeout."""
    alone = latency(tls)
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(40)  # a record that promises 512 bytes
    kept = [connect(tls) for _ in range(90)]
    for i, c in enumerate(kept):
        c.sendall([b"", hello, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"][i % 3] or b"")
    beside = latency(tls)
    print(f"/health over a new connection: at most {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside 90 stalled handshakes")
    assert beside < 2  # which is how long one stalled handshake may take
    for c in kept:
        c.settimeout(20)
        try:
            while c.recv(4096):
                pass
        except ConnectionError:
            pass


def test_slow_readers_and_leavers(tls):
    """A stream that is read slowly arrives whole; one whose client leaves is cancelled; the loop does not spin for either."""
    slow, gone = connect_tls(tls), connect_tls(tls)
    slow.sendall(stream(300))
    gone.sendall(stream(3000))
    cancelled = lambda: metrics(tls)['roco_requests_total{outcome="cancelled"}']
    wait_for(lambda: metrics(tls)["roco_requests_running"] == 2)
    before = cancelled()
    gone.close()
    wait_for(lambda: cancelled() == before + 1)
    text = b""
    while b"[DONE]" not in text:
        chunk = slow.recv(4096)
        assert chunk, "cut"
        text += chunk
        time.sleep(0.01)
    assert b'"completion_tokens":300' in text


def test_a_request_behind_a_stream_waits_without_spinning(tls):
    """Bytes that TLS has decrypted already are in no socket: the daemon must neither forget them nor look again and again."""
    c = connect_tls(tls)
    c.sendall(stream(400) + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    wait_for(lambda: metrics(tls)["roco_requests_running"] == 1)
    text, begin, cpu = b"", time.time(), loop_seconds(tls)
    while chunk := c.recv(65536):
        text += chunk
    assert loop_seconds(tls) - cpu < 0.5 * (time.time() - begin)
    assert b'"completion_tokens":400' in text and text.endswith(b'{"status":"ok"}')


def test_bodies_that_never_end(tls):
    c = connect_tls(tls)
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    with pytest.raises((ConnectionError, ssl.SSLError, TimeoutError)):
        end = time.time() + 20
        while time.time() < end:
            c.sendall(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            time.sleep(0.01)
    begun = connect_tls(tls)
    begun.sendall(b"GET /health HTTP/1.1\r\nHo")
    try:
        assert begun.recv(100) == b""
    except (ConnectionError, ssl.SSLError):
        pass
    assert latency(tls, 3) < 2


def hang_up(s, says):
    seen = len(s.log)
    s.process.send_signal(signal.SIGHUP)
    wait_for(lambda: any(says in line for line in s.log[seen:]))


def test_a_new_certificate(tls, tmp_path):
    """SIGHUP: new handshakes get it, what is open goes on, and a pair that does not match changes nothing."""
    first, first_key = tls.cert.read_bytes(), tls.key.read_bytes()
    cert, key = certify(tmp_path, "second")
    streaming = connect_tls(tls)
    streaming.sendall(stream(400))
    tls.cert.write_bytes(cert.read_bytes())
    hang_up(tls, "tls-key is not the key")
    (tmp_path / "old.pem").write_bytes(first)
    connect_tls(tls, tmp_path / "old.pem").close()
    tls.key.write_bytes(key.read_bytes())
    hang_up(tls, "SIGHUP: 0 keys")
    connect_tls(tls, cert).close()
    with pytest.raises(ssl.SSLError):
        connect_tls(tls, tmp_path / "old.pem")
    text = b""
    while b"[DONE]" not in text:
        chunk = streaming.recv(65536)
        assert chunk, "cut"
        text += chunk
    tls.cert.write_bytes(first)
    tls.key.write_bytes(first_key)
    hang_up(tls, "SIGHUP: 0 keys")


@pytest.mark.parametrize("name, says", [("none", "No such file"), ("text", "tls-cert"), ("late", "out of date"), ("other", "not the key"),
                                        ("alone", "belong together")])
def test_what_cannot_be_served(build, model, tmp_path, name, says):
    cert, key = certify(tmp_path, "right")
    if name == "none":
        cert = tmp_path / "nothing"
    elif name == "text":
        cert.write_text("no certificate")
    elif name == "late":
        cert.write_text(LATE)
    elif name == "other":
        _, key = certify(tmp_path, "other")
    command = [build / "roco", "serve", model, "--port", "0", "--tls-cert", cert] + ([] if name == "alone" else ["--tls-key", key])
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode in (1, 2) and says in run.stderr, run.stderr
