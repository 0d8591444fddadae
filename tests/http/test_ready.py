"""`roco ready`, which health checks run inside of containers."""
import os
import subprocess


def ready(build, *args, env=None):
    return subprocess.run([build / "roco", "ready", *map(str, args)], capture_output=True, text=True, timeout=20,
                          env={**os.environ, **(env or {})})


def test_a_server_that_takes_requests(build, server):
    run = ready(build, "--port", server.port)
    assert run.returncode == 0 and run.stdout == '{"status":"ready"}\n', run


def test_the_environment_names_the_server(build, server):
    run = ready(build, env={"ROCO_PORT": str(server.port), "ROCO_HOST": "0.0.0.0", "ROCO_MODEL": "/not/read"})
    assert run.returncode == 0, run


def test_no_server(build):
    run = ready(build, "--port", 1)
    assert run.returncode == 1 and "port 1: Connection refused" in run.stderr


def test_an_option_that_is_none(build):
    run = ready(build, "--prot", 1)
    assert run.returncode == 2 and "--prot" in run.stderr
