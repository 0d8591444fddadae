"""tokenizer.json files of every kind, against Hugging Face `tokenizers` reading the same file.

No tokenizer is committed: they are made here, trained on the corpus or put together from the small vocabulary, one for
each kind of step that files of real families have.
"""
import json
import pathlib
import struct
import subprocess
import sys
import time

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
import make_tokenizer_corpus as corpus_maker  # noqa: E402
from folders import write_folder  # noqa: E402

TEXTS = [corpus_maker.unescape(line) for line in corpus_maker.lines_of(GOLDEN / "tokenizer" / "corpus.txt")]
MORE = ["<|user|>\n  Hi there<|end|> \n<|assistant|>", "a <mask>  b<mask>c", "xWORDx WORD WORD. WORDé", "e\u0301 \u212b \u1100\u1161",
        "<s>x</s> y", "\u2581a\u2581\u2581b", " lead", "trail ", "\U0001f9ff\U00010123", "<0x41>", "NORM norm NORM"]
ADDED = [AddedToken("<|user|>", special=True, rstrip=True, normalized=False), AddedToken("<|end|>", special=True, normalized=False),
         AddedToken("<|assistant|>", special=True, normalized=False), AddedToken("<mask>", lstrip=True, normalized=False),
         AddedToken("WORD", single_word=True, normalized=False), AddedToken("NORM", normalized=True)]
LLAMA_STEPS = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]


def byte_level(pre, normalizer=None, ignore_merges=False):
    """The small vocabulary with this pre-tokenizer."""
    pieces, types, merges = corpus_maker.read_vocab(GOLDEN / "tokenizer" / "tiny_vocab.txt")
    vocab = {piece: i for i, piece in enumerate(pieces)}
    t = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in merges], ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.add_tokens([AddedToken(p, normalized=False) for p, kind in zip(pieces, types) if kind == corpus_maker.USER_DEFINED])
    return t


def trained(model, trainer, normalizer=None, pre=None, decoder=None, texts=TEXTS[:1200]):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder or decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.train_from_iterator([text.replace("\0", "") for text in texts], trainer)
    return t


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def characters(normalizer, pre=None, fallback=True, fuse=True):
    """SentencePiece's BPE as transformers' converter writes it."""
    special = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    trainer = trainers.BpeTrainer(vocab_size=1400, special_tokens=special, limit_alphabet=250, show_progress=False)
    t = trained(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=fallback), trainer, normalizer, pre)
    return strip_bytes(t)


def unigram(pre=None, normalizer=None, fallback=False):
    special = ["<unk>", "<s>", "</s>"] + (BYTES if fallback else [])
    trainer = trainers.UnigramTrainer(vocab_size=1500, special_tokens=special, unk_token="<unk>", show_progress=False)
    t = trained(models.Unigram(), trainer, normalizer, pre, texts=corpus_maker.SENTENCES[:12] + corpus_maker.CODE)
    spec = json.loads(t.to_str())
    spec["model"]["byte_fallback"] = fallback
    return strip_bytes(Tokenizer.from_str(json.dumps(spec)))


def strip_bytes(t):
    """Byte tokens are part of the vocabulary, no added tokens."""
    spec = json.loads(t.to_str())
    spec["added_tokens"] = [a for a in spec["added_tokens"] if a["content"] not in BYTES]
    return Tokenizer.from_str(json.dumps(spec))


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(expression), behavior, invert)


def sequence(*steps, regex=False):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)])


O200K = corpus_maker.GPT4O
KINDS = {
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "prefix": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "smollm": lambda: byte_level(sequence(pre_tokenizers.Digits(individual_digits=True), regex=True)),
    "digits": lambda: byte_level(sequence(pre_tokenizers.Digits(individual_digits=False), regex=True)),
    "llama3": lambda: byte_level(sequence(split(corpus_maker.LLAMA3)), ignore_merges=True),
    "qwen2": lambda: byte_level(sequence(split(corpus_maker.QWEN2)), normalizers.NFC()),
    "nfkd": lambda: byte_level(sequence(split(corpus_maker.QWEN2)), normalizers.Sequence([normalizers.NFKD(), normalizers.Strip()])),
    "o200k removed": lambda: byte_level(sequence(split(O200K, "removed", True))),
    **{name: lambda name=name: byte_level(corpus_maker.pre_tokenizer(name)) for name in corpus_maker.SEQUENCES},
    "behaviors": lambda: byte_level(sequence(split(r"[.,!?]", "merged_with_previous"), split(r"\d", "merged_with_next"),
                                             split(r"\w", "contiguous"), split(r"\S", "contiguous"))),
    "classes": lambda: byte_level(sequence(split(r"[^\S\n]+|[\w']+|[\u0370-\u03ff]|^#.*$"), pre_tokenizers.Punctuation())),
    "llama": lambda: characters(normalizers.Sequence(LLAMA_STEPS)),
    "gemma": lambda: characters(normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous")),
    "metaspace": lambda: characters(None, pre_tokenizers.Metaspace(prepend_scheme="first")),
    "metaspace whole": lambda: characters(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=False)),
    "unknown fused": lambda: characters(normalizers.Sequence(LLAMA_STEPS), fallback=False),
    "unknown each": lambda: characters(normalizers.Sequence(LLAMA_STEPS), fallback=False, fuse=False),
    "words": lambda: characters(normalizers.NFC(), pre_tokenizers.Whitespace(), fallback=False),
    "unigram": lambda: unigram(pre_tokenizers.Metaspace(prepend_scheme="always")),
    "unigram bytes": lambda: unigram(None, normalizers.Sequence(LLAMA_STEPS), fallback=True),
}


def tokenize(build, folder, texts, *flags):
    data = b"".join(struct.pack("<I", len(t)) + t for t in texts)
    done = subprocess.run([build / "tests" / "tokenize", folder, *flags], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.decode().split("\n")[:-1]]
    assert len(lines) == len(texts)
    return [([int(i) for i in ids.split()], bytes.fromhex(text)) for ids, text in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_the_reference(build, tmp_path, kind):
    tokenizer = KINDS[kind]()
    tokenizer.add_tokens(ADDED)
    texts = TEXTS + MORE
    write_folder(tmp_path, tokenizer=tokenizer.to_str())
    for flags in [], ["--special"]:
        tokenizer.encode_special_tokens = not flags
        results = tokenize(build, tmp_path, [t.encode() for t in texts], *flags)
        # To the reference's unigram model the text of a control or byte token is that token, whoever wrote it.
        forged = ("<0x", *([] if flags else ["<s>", "</s>", "<unk>"])) if "unigram" in kind else ()
        wrong = [(text, ids, want) for text, (ids, _) in zip(texts, results)
                 if not any(f in text for f in forged) and ids != (want := tokenizer.encode(text, add_special_tokens=False).ids)]
        assert not wrong, f"{flags}: {len(wrong)} of {len(texts)}, first: {wrong[0]}"


def test_merges_are_read_as_strings_and_as_pairs(build, tmp_path):
    spec = json.loads(KINDS["gpt2"]().to_str())
    results = []
    for form in (lambda m: m if isinstance(m, list) else m.split(" ")), (lambda m: m if isinstance(m, str) else " ".join(m)):
        spec["model"]["merges"] = [form(m) for m in spec["model"]["merges"]]
        write_folder(tmp_path, tokenizer=json.dumps(spec))
        results.append(tokenize(build, tmp_path, [t.encode() for t in TEXTS[:300]]))
    assert results[0] == results[1]


def test_the_begin_token_is_as_the_template_or_the_config_says(build, tmp_path):
    tokenizer = KINDS["llama"]()
    begin = tokenizer.token_to_id("<s>")
    text = [b"Hi"]
    for post, config, wanted in ((False, {}, False), (True, {}, True), (True, {"add_bos_token": False}, False),
                                 (False, {"add_bos_token": True, "bos_token": {"content": "<s>"}}, True)):
        if post:
            tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
        spec = json.loads(tokenizer.to_str())
        spec["post_processor"] = spec["post_processor"] if post else None
        write_folder(tmp_path, tokenizer=json.dumps(spec), tokenizer_config=config)
        [(ids, _)] = tokenize(build, tmp_path, text, "--bos")
        assert (ids[0] == begin) == wanted
        [(again, _)] = tokenize(build, tmp_path, [b"<s>Hi"], "--bos", "--special")
        assert again.count(begin) == 1


@pytest.mark.parametrize("kind", ["llama3", "llama", "gemma", "unigram bytes"])
def test_text_comes_back(build, tmp_path, kind):
    write_folder(tmp_path, tokenizer=KINDS[kind]().to_str())
    for text, (_, joined) in zip(TEXTS, tokenize(build, tmp_path, [t.encode() for t in TEXTS])):
        prefix = b" " if kind in ("llama", "unigram bytes") and text else b""
        assert joined == prefix + text.replace("\u2581", " ").encode() or kind == "llama3" and joined == text.encode()


@pytest.mark.parametrize("kind", ["llama3", "llama", "unigram bytes", "qwen2", "deepseek-v3"])
@pytest.mark.parametrize("unit", ["a", " ", "\u8a9e", "\n", "e\u0301", "\u0321\u0301", "<s>"])
def test_long_runs_take_near_linear_time(build, tmp_path, kind, unit):
    write_folder(tmp_path, tokenizer=KINDS[kind]().to_str())
    start = time.monotonic()
    tokenize(build, tmp_path, [(unit * 200_000).encode()])
    assert time.monotonic() - start < 5


def change(path, value):
    def apply(spec):
        *rest, last = path
        for key in rest:
            spec = spec[key]
        if value is None:
            del spec[last]
        else:
            spec[last] = value
    return apply


BROKEN = {
    "no model": (change(["model"], None), "no model"),
    "WordPiece": (change(["model", "type"], "WordPiece"), "neither BPE nor Unigram"),
    "huge id": (change(["model", "vocab", "a"], 16_000_000), "ids up to 16000000"),
    "negative id": (change(["model", "vocab", "a"], -1), "not a whole number"),
    "an id twice": (change(["model", "vocab", "a"], 5), "two tokens have the id 5"),
    "vocab is a list": (change(["model", "vocab"], []), "no vocab"),
    "merge of one": (change(["model", "merges", 0], ["a"]), "merge 0"),
    "merge of nothing": (change(["model", "merges", 0], ["qqq", "zzz"]), "merge 0"),
    "added without id": (change(["added_tokens", 0, "id"], None), "added token"),
    "added without text": (change(["added_tokens", 0, "content"], ""), "added token"),
    "normalizer": (change(["normalizer"], {"type": "BertNormalizer"}), "BertNormalizer"),
    "pre_tokenizer": (change(["pre_tokenizer"], {"type": "UnicodeScripts"}), "UnicodeScripts"),
    "decoder": (change(["decoder"], {"type": "CTC"}), "CTC"),
    "expression": (change(["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"}), "does not compile"),
    "intersection": (change(["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[a&&b]"}, "behavior": "Isolated"}), "&&"),
    "no behavior": (change(["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "a"}}), "behavior"),
    "subwords": (change(["model", "continuing_subword_prefix"], "##"), "continuing_subword_prefix"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name(build, tmp_path, name):
    apply, words = BROKEN[name]
    spec = json.loads(KINDS["gpt2"]().to_str())
    apply(spec)
    write_folder(tmp_path, tokenizer=json.dumps(spec))
    done = subprocess.run([build / "tests" / "tokenize", tmp_path], input="", capture_output=True, text=True)
    assert done.returncode == 1 and words in done.stderr, done.stderr
