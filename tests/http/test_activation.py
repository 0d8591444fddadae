"""A socket of the service manager: roco takes it over, whatever host and port say, and refuses what is none."""
import os
import socket
import subprocess

import pytest
import requests


def start_with(build, model, descriptor, n=1):
    """As systemd starts a unit: the socket is descriptor 3, and LISTEN_PID is the process itself."""
    script = f"exec 3<&{descriptor} {descriptor}<&-; LISTEN_FDS={n} LISTEN_PID=$$ exec \"$0\" serve \"$1\" --port 1 --kv-pool-tokens 1024"
    return subprocess.Popen(["bash", "-c", script, build / "roco", model], pass_fds=[descriptor], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": "/nonexistent"})


def test_a_passed_socket_is_served(build, model):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = start_with(build, model, listening.fileno())
        assert process.stdout.readline().strip().endswith(f":{port}")
    assert requests.get(f"http://127.0.0.1:{port}/health", timeout=10).status_code == 200
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("kind, n", [("udp", 1), ("unix", 1), ("tcp", 2)])
def test_other_sockets_are_refused(build, model, tmp_path, kind, n):
    made = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    made.bind(str(tmp_path / "s") if kind == "unix" else ("127.0.0.1", 0))
    if kind != "udp":
        made.listen()
    process = start_with(build, model, made.fileno(), n)
    assert "exactly one listening TCP socket" in process.communicate(timeout=30)[1]
    assert process.returncode == 1
