"""The Debian package, installed: the service's user serves with the file of options that came with it, and a purge leaves nothing.

    PACKAGE_IMAGE=roco:package pytest tests/docker/test_package.py    (tests/docker/run makes it)
"""
import os
import subprocess

import pytest

IMAGE = os.environ.get("PACKAGE_IMAGE")
pytestmark = pytest.mark.skipif(not IMAGE, reason="PACKAGE_IMAGE names no image")

SCRIPT = """
dpkg --verify roco
test "$(getent passwd roco | cut -d : -f 6,7)" = /nonexistent:/usr/sbin/nologin
test -f /lib/systemd/system/roco.service -a -f /lib/systemd/system/roco.socket
bash -n /usr/share/bash-completion/completions/roco
echo 'model = /models/model.gguf' >>/etc/roco/roco.conf
echo 'kv-pool-bytes = 64MiB' >>/etc/roco/roco.conf
setpriv --reuid roco --regid roco --clear-groups roco serve --config /etc/roco/roco.conf 2>/tmp/log &
for i in $(seq 300); do
    roco ready 2>/dev/null && break
    sleep 0.2
done
roco ready || { cat /tmp/log; exit 1; }
kill -TERM $!
wait $!
dpkg --purge roco 2>/dev/null >&2
test ! -e /usr/bin/roco -a ! -e /etc/roco -a ! -e /lib/systemd/system/roco.service
echo removed
"""


def test_it_is_installed_serves_and_goes(model):
    run = subprocess.run(["docker", "run", "--rm", "--network", "none", "-v", f"{model.resolve()}:/models/model.gguf:ro", IMAGE,
                          "bash", "-euc", SCRIPT], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert '{"status":"ready"}' in run.stdout and run.stdout.endswith("removed\n")
