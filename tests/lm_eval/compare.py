#!/usr/bin/env python3
"""lm-eval against roco's /v1/completions, and the same tasks on transformers with the dequantised file.

    pip install 'lm_eval[api]==0.4.13' torch transformers accelerate gguf
    tests/lm_eval/dequantize.py MODEL.gguf FOLDER
    tests/lm_eval/compare.py --roco build/release/roco --model MODEL.gguf --folder FOLDER [--serve-args "--precision f32"]

Prints each score of both and their ratio; fails when one is off by more than 0.5 %. --write keeps the reference's scores in
expected.json, which tests/http/test_lm_eval.py holds roco to without any of these packages. Nothing is downloaded.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time
import urllib.request

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
HERE = pathlib.Path(__file__).resolve().parent
import lm_eval  # noqa: E402
import lm_eval.tasks  # noqa: E402

WINDOW = 1024  # tokens a passage is read in
TASKS = ["roco_cloze", "roco_text"]
TOLERANCE = 0.005


def evaluate(kind, **arguments):
    manager = lm_eval.tasks.TaskManager(include_path=str(HERE), include_defaults=False)
    results = lm_eval.simple_evaluate(model=kind, model_args=arguments, tasks=TASKS, task_manager=manager, bootstrap_iters=0)
    return {f"{task} {name.split(',')[0]}": value for task in TASKS for name, value in results["results"][task].items()
            if name.endswith(",none") and "stderr" not in name}


def serve(args):
    command = [args.roco, "serve", args.model, "--port", "0", "--kv-policy", "full", *shlex.split(args.serve_args)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        found = re.search(r"http://[\d.]+:\d+", line)
        if found:
            break
    else:
        sys.exit("the server did not start")
    threading.Thread(target=process.stdout.read, daemon=True).start()
    while True:
        try:
            urllib.request.urlopen(found[0] + "/ready")
            return process, found[0]
        except OSError:
            time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--roco", required=True, type=os.path.abspath)
    parser.add_argument("--model", required=True, type=os.path.abspath)
    parser.add_argument("--folder", required=True, type=os.path.abspath)
    parser.add_argument("--serve-args", default="")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    os.chdir(HERE)  # the tasks name their data by file name
    process, url = serve(args)
    name = json.load(urllib.request.urlopen(url + "/v1/models"))["data"][0]["id"]
    try:
        ours = evaluate("local-completions", base_url=url + "/v1/completions", model=name, tokenizer=args.folder,
                        tokenizer_backend="huggingface", max_length=WINDOW + 1, num_concurrent=4)
    finally:
        process.terminate()
        process.wait()
    theirs = evaluate("hf", pretrained=args.folder, dtype="float32", device="cpu", max_length=WINDOW, batch_size=4)
    if args.write:
        (HERE / "expected.json").write_text(json.dumps(theirs, indent=2) + "\n")
    worst = 0
    for score, value in theirs.items():
        off = abs(ours[score] / value - 1)
        worst = max(worst, off)
        print(f"{score:28} transformers {value:10.5f}  roco {ours[score]:10.5f}  off by {100 * off:.4f} %")
    sys.exit(worst > TOLERANCE)


main()
