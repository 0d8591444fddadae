"""What is installed beside the program: manual page, completion, unit file, Debian package."""
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **kw):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, **kw)


@pytest.fixture(scope="module")
def options(build):
    return re.findall(r"^([a-z-]+) =", run(build / "roco", "config").stdout, re.M)


def test_the_manual_has_every_option(build, options):
    page = run(build / "roco", "manual").stdout
    for name in options:
        assert "\\fB\\-\\-" + name.replace("-", "\\-") + "\\fR" in page, name
    if shutil.which("groff"):
        check = run("groff", "-man", "-ww", "-Tutf8", input=page)
        assert check.returncode == 0 and not check.stderr, check.stderr


@pytest.mark.parametrize("words,found", [("s", {"serve"}), ("serve --kv-pool-b", {"--kv-pool-bytes"}),
                                         ("serve --log-level w", {"warn"}), ("serve --kv-type ", {"f16", "q8", "q4", "f32"}),
                                         ("serve --port ", set()), ("serve --config /etc/host", {"/etc/hosts"}),
                                         ("serve /etc/host", {"/etc/hosts"})])
def test_completion(build, words, found):
    script = run(build / "roco", "completion").stdout
    ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _roco; printf "%s\\n" "${COMPREPLY[@]}"'
    answer = run("bash", "-euc", script + ask, "bash", "roco", *words.split(" "))
    assert answer.returncode == 0 and found <= set(answer.stdout.split()), answer
    assert len(found) != 0 or not answer.stdout.strip()


def test_completion_knows_every_option(build, options):
    script = run(build / "roco", "completion").stdout
    assert set(options) <= {word.lstrip("-") for word in re.search("options='(.*)'", script).group(1).split()}


@pytest.mark.parametrize("path", ["docker/Dockerfile", "docker/compose.yaml", "packaging/kubernetes.yaml"])
def test_variables_are_options(options, path):
    names = re.findall(r"\bROCO_[A-Z_]+(?==\S|:? \S|, value)", (ROOT / path).read_text())
    known = {"ROCO_" + name.upper().replace("-", "_") for name in options}
    assert names and set(names) <= known, set(names) - known


def test_the_unit(build, tmp_path):
    unit = (build / "roco.service").read_text()
    assert "@" not in re.sub("@(system-service|privileged)", "", unit)
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd is not installed")
    (tmp_path / "roco.service").write_text(re.sub("ExecStart=\\S+", f"ExecStart={build}/roco", unit))  # where there is one
    shutil.copy(ROOT / "packaging/roco.socket", tmp_path)
    verified = run("systemd-analyze", "verify", "--man=no", tmp_path / "roco.service", tmp_path / "roco.socket")
    ours = [line for line in verified.stderr.splitlines() if "roco" in line]
    assert not ours, ours
    exposure = run("systemd-analyze", "security", "--offline=true", "--threshold=20", build / "roco.service")
    assert exposure.returncode == 0, exposure.stdout[-2000:]


def test_the_package(build, tmp_path):
    if not shutil.which("dpkg-deb"):
        pytest.skip("not on Debian")
    made = run("cpack", "--config", build / "CPackConfig.cmake", "-B", tmp_path, cwd=build)
    assert made.returncode == 0, made.stdout + made.stderr
    package, = tmp_path.glob("*.deb")
    control = run("dpkg-deb", "-f", package, "Depends").stdout
    assert "libmicrohttpd12" in control and "libuv1" in control
    files = set(re.findall(r" \.(/\S+[^/\s])$", run("dpkg-deb", "-c", package).stdout, re.M))
    prefix = re.search(r'CPACK_PACKAGING_INSTALL_PREFIX "(.*)"', (build / "CPackConfig.cmake").read_text()).group(1)
    assert {prefix + path for path in ("/bin/roco", "/lib/systemd/system/roco.service", "/share/man/man1/roco.1",
                                       "/share/bash-completion/completions/roco")} <= files
    assert any(path.endswith("/etc/roco/roco.conf") for path in files)
