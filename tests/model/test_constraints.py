"""Constraints played without a model (tests/tools/grammar.c): what may be drawn is valid for independent judges, the jsonschema
package and Python's re, over a byte-level BPE and a SentencePiece vocabulary.
"""
import json
import random
import re
import subprocess

import gguf
import jsonschema
import pytest

from conftest import ROOT

SCHEMAS = json.loads((ROOT / "tests/data/schemas.json").read_text())


class Player:
    def __init__(self, build, vocabulary):
        self.process = subprocess.Popen([build / "tests/grammar", str(vocabulary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, encoding="utf-8")

    def ask(self, kind, source=None, **more):
        self.process.stdin.write(json.dumps({"kind": kind, "source": source, **more}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


def write_tokenizer(path):
    """A GGUF file with SentencePiece's kind of vocabulary and nothing else."""
    rows = [line.split(" ", 3) for line in (ROOT / "tests/golden/tokenizer/sp_llama.txt").read_text(encoding="utf-8").split("\n")
            if line.startswith("T ")]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([row[3] for row in rows])
    writer.add_token_types([int(row[1]) for row in rows])
    writer.add_token_scores([float(row[2]) for row in rows])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module", params=["bytes", "bpe", "sentencepiece"])
def player(request, build, tmp_path_factory):
    vocabulary = request.param
    if vocabulary == "bpe":
        vocabulary = request.getfixturevalue("model")
    elif vocabulary == "sentencepiece":
        vocabulary = tmp_path_factory.mktemp("sp") / "sp.gguf"
        write_tokenizer(vocabulary)
    player = Player(build, vocabulary)
    yield player
    player.close()


@pytest.fixture(scope="module")
def bytewise(build):
    player = Player(build, "bytes")
    yield player
    player.close()


def judge(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_drawn_is_valid(player, name):
    reply = player.ask("schema", SCHEMAS[name], samples=20, seed=len(name), most=4000)
    assert "error" not in reply, reply
    texts = [text for text in reply["samples"] if text is not None]
    assert len(texts) >= 18 and all(isinstance(text, str) for text in texts), reply["samples"]
    for text in texts:
        judge(SCHEMAS[name]).validate(json.loads(text))
    assert len(set(texts)) > 3  # it is not always the same


def test_any_object(player):
    reply = player.ask("object", samples=30, seed=5, most=6000)
    values = [json.loads(text) for text in reply["samples"] if text is not None]
    assert len(values) > 20 and all(isinstance(value, dict) for value in values)
    assert any(isinstance(inner, dict) for value in values for inner in value.values())


# Values beside each other: what is valid must be accepted in its plain spellings, what is not must not.
TEXTS = [
    ({"type": "integer", "minimum": -5, "maximum": 120}, [-6, -5, -1, 0, 7, 99, 100, 119, 120, 121, 1000, 1.5, "7", None, True]),
    ({"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 101}, [9, 10, 11, 55, 99, 100, 101, 102, -10]),
    ({"type": "integer", "minimum": 1234, "maximum": 56789}, [1233, 1234, 1235, 9999, 10000, 56788, 56789, 56790, 99999, 123]),
    ({"type": "integer", "maximum": -17}, [-16, -17, -18, -20, -100, 0, 17, -9]),
    ({"type": "integer", "multipleOf": 7, "minimum": -30, "maximum": 1000}, [0, 7, -7, 14, 15, -28, -35, 994, 1001, 995]),
    ({"type": "number", "minimum": 0.25, "maximum": 10.5}, [0.24, 0.25, 0.250001, 0.3, 1, 9.99, 10, 10.5, 10.51, 11, 0, -1, 0.249]),
    ({"type": "number", "exclusiveMinimum": -1.5, "exclusiveMaximum": 2}, [-1.5, -1.49, -1, -0.1, 0, 1.99, 2, 2.01, -2, 1.5]),
    ({"type": "number", "exclusiveMinimum": 0}, [0, 0.001, 1, 1e3, -0.1, 100.25]),
    ({"type": "number", "multipleOf": 0.5, "minimum": -3}, None),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["", "a", "ab", "abc", "abcd", "é€", "😀😀😀", "😀😀😀😀"]),
    ({"type": "string", "pattern": "b+"}, ["", "a", "b", "abba", "\"b\\", "\nb"]),
    ({"type": "string", "pattern": "^a.c$"}, ["abc", "a\"c", "ac", "xabc", "a\nc"]),
    ({"type": "string", "pattern": "^(a|b$)"}, None),
    ({"type": "string", "pattern": "^[ab]*$", "maxLength": 4}, ["", "abab", "ababa", "c"]),
    ({"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}, {"maxLength": 3}]}, ["a", "ab", "ba", "xab", "abxx", "bb"]),
    ({"type": "string", "format": "date"}, ["2024-02-29", "2023-02-29", "2023-02-28", "2024-13-01", "1900-02-29", "2000-02-29", "x"]),
    ({"type": "string", "format": "ipv4"}, ["1.2.3.4", "256.1.1.1", "1.2.3", "0.0.0.0", "255.255.255.255", "01.2.3.4"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "x"]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, [[], [1], [1, 2, 3], [1, 2, 3, 4], ["a"], [[1]]]),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}, "minItems": 1},
     [[], [1], [1, "a"], [1, "a", None, None], ["a"], [1, 2], [1, "a", 3]]),
    ({"enum": [1, "a", None, {"b": [1, 2]}, [], True]}, [1, "a", None, {"b": [1, 2]}, [], True, 2, "b", {}, [1], False]),
    ({"enum": ["a", "ab", "abc", 1, 2.5], "type": "string", "minLength": 2}, ["a", "ab", "abc", 1, 2.5]),
    ({"enum": [1, 2, 3, 2.5], "type": "integer", "minimum": 2}, [1, 2, 3, 2.5]),
    ({"const": "é\n\"\\"}, ["é\n\"\\", "é"]),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["b"], "additionalProperties": False},
     [{"b": None}, {"a": 1, "b": None}, {"a": 1}, {}, {"b": None, "c": 1}, {"a": "x", "b": None}]),
    ({"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "integer"}},
     [{}, {"a": "x"}, {"a": [], "b": 1}, {"b": "x"}, {"c": 1, "d": 2}, {"b": 1}]),
    ({"type": "object", "patternProperties": {"^x": {"type": "integer"}, "^y": {"type": "string"}}, "additionalProperties": False},
     [{}, {"x1": 1}, {"x": 2, "y": "z"}, {"y": 1}, {"z": 1}]),
    ({"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": {"type": "null"}}, [{}, {"ab": None}, {"abc": None}]),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2, "additionalProperties": False},
     [{}, {"a": 1}, {"a": 1, "b": 2}, {"b": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}]),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "maxProperties": 2, "additionalProperties": False},
     [{}, {"a": 1}, {"a": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}]),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, [1, "a", "ab", None]),
    ({"type": ["integer", "string"], "minimum": 3, "maxLength": 2}, [2, 3, "ab", "abc", None]),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}], "title": "t", "x-more": {"not": {}}}, [2, 3, 5, 6, None]),
    ({"anyOf": [{"minimum": 3}, {"maximum": 1}], "type": "integer"}, [0, 1, 2, 3, 4]),
    ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "boolean"}}}, [True, 1]),
    ({"$defs": {"n": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 2}]}}, "$ref": "#/$defs/n"},
     [None, [], [None], [[], [None, []]], [None, None, None], [1]]),
]


@pytest.mark.parametrize("schema, values", TEXTS, ids=lambda v: json.dumps(v)[:60] if isinstance(v, dict) else "")
def test_texts(bytewise, schema, values):
    texts = [json.dumps(value, ensure_ascii=ascii, separators=form) for value in values or []
             for ascii, form in ((False, (",", ":")), (False, (", ", ": ")))]
    reply = bytewise.ask("schema", schema, texts=texts, samples=20, seed=1, most=3000)
    if values is None and "error" in reply:
        assert reply["status"] in (-1, -5)  # refused with a reason
        return
    assert "error" not in reply, reply
    for text, accepted in zip(texts, reply["accepts"]):
        assert accepted == judge(schema).is_valid(json.loads(text)), text
    for text in filter(None, reply["samples"]):
        judge(schema).validate(json.loads(text))


REFUSED = [
    ({"not": {"type": "null"}}, "#/not"), ({"not": {}}, "#/not"),
    ({"type": "object", "properties": {"a": {"if": {}}}}, "#/properties/a/if"),
    ({"type": "array", "uniqueItems": True}, "#/uniqueItems"), ({"type": "array", "contains": {}}, "#/contains"),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, "#/dependentRequired"), ({"$ref": "other.json"}, "#/$ref"),
    ({"$ref": "#/nowhere"}, "#/$ref"), ({"$ref": "#"}, "itself"), ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                                                                    "$ref": "#/$defs/a"}, "itself"),
    ({"type": "text"}, "#/type"), ({"type": "string", "pattern": "(?=a)"}, "lookahead"), ({"type": "string", "pattern": "("}, "group"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "no text"), (False, "no text"), ({"enum": []}, "#/enum"),
    ({"type": "string", "enum": [1]}, "no text"), ({"type": "string", "minLength": 3, "maxLength": 2}, "no text"),
    ({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}, "no text"),
    ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"}, "itself"),
    ({"type": "string", "minLength": 10**7}, "1000000"), ({"type": "integer", "multipleOf": 0}, "#/multipleOf"), ([1], "a schema"),
    ({"type": "object", "required": ["a"], "properties": {}, "additionalProperties": False}, "no text"),
    ({"type": "object", "patternProperties": {"a": {}, "b": {}}}, "overlap"), ({"properties": []}, "#/properties"),
    ({"type": "string", "pattern": "^(a{900}b){900}$", "maxLength": 5}, "too large"),
    ({"type": "string", "pattern": "(a|b)*a(a|b){18}$", "maxLength": 500}, "too large"),
    ({"allOf": [{"anyOf": [{"properties": {f"p{i}{k}": {}}} for k in range(8)]} for i in range(12)]}, ""),
    ({"enum": [f"{i:05}" + "x" * 300 for i in range(3000)]}, "too"),
]


@pytest.mark.parametrize("schema, said", REFUSED, ids=lambda v: json.dumps(v)[:60] if not isinstance(v, str) else "")
def test_refused(bytewise, schema, said):
    reply = bytewise.ask("schema", schema)
    assert "error" in reply and said in reply["error"] and reply["status"] in (-1, -2, -5), reply
    assert reply["compile_ms"] < 20000  # the limit is two seconds of a machine of its own


def deep(schema, wrap, times):
    for _ in range(times):
        schema = wrap(schema)
    return schema


def test_large_but_fine(bytewise):
    wide = {"type": "object", "properties": {f"property{i}": {"type": "integer"} for i in range(600)}, "additionalProperties": False}
    nested = deep({"type": "null"}, lambda s: {"type": "object", "properties": {"a": s}, "required": ["a"]}, 25)
    words = {"enum": [f"word number {i}" for i in range(5000)]}
    union = {"anyOf": [{"type": "object", "properties": {"kind": {"const": f"k{i}"}}, "required": ["kind"]} for i in range(300)]}
    for schema in (wide, nested, words, union):
        reply = bytewise.ask("schema", schema, samples=3, seed=2, most=60000)
        assert "error" not in reply, reply
        for text in reply["samples"]:
            judge(schema).validate(json.loads(text))


# --- regular expressions ---

ATOMS = ["a", "b", "[abc]", "[^a]", ".", "\\d", "\\w", "\\s", "[0-9-]", "\\.", "é", "[à-ü]", "(?:ab|c)", "(?:x{2})"]
COUNTS = ["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"]


def make_pattern(rng, depth=2):
    """Groups are repeated a few times at most: Python's own matcher takes exponential time for stars of stars."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        atom = rng.choice(ATOMS)
        if depth and rng.random() < 0.3:
            group = f"({make_pattern(rng, depth - 1)}|{make_pattern(rng, depth - 1)})"
            parts.append(group + rng.choice(["", "?", "{2}", "{0,2}"]))
        else:
            parts.append(atom + rng.choice(COUNTS))
    return "".join(parts)


def test_regex_as_python(bytewise):
    rng = random.Random(11)
    n_matching = 0
    for seed in range(150):
        pattern = make_pattern(rng)
        texts = ["".join(rng.choice("abcx19_-. \té\n") for _ in range(rng.randint(0, 8))) for _ in range(40)]
        reply = bytewise.ask("regex", pattern, texts=texts, samples=8, seed=seed, most=40)
        assert "error" not in reply, (pattern, reply)
        expected = [re.fullmatch(pattern, text, re.ASCII) is not None for text in texts]
        assert reply["accepts"] == expected, pattern
        n_matching += sum(expected)
        for text in filter(None, reply["samples"]):
            assert re.fullmatch(pattern, text, re.ASCII), (pattern, text)
    assert n_matching > 100


def test_pattern_in_a_string_as_python(bytewise):
    """The same inside JSON, where a pattern is searched for and characters are escaped."""
    rng = random.Random(12)
    for seed in range(60):
        pattern = make_pattern(rng) + rng.choice(["", "$"])
        schema = {"type": "string", "pattern": pattern, **rng.choice([{}, {}, {"maxLength": 12}])}
        texts = ["".join(rng.choice("abcx19_-. \té\n\"\\") for _ in range(rng.randint(0, 8))) for _ in range(20)]
        reply = bytewise.ask("schema", schema, texts=[json.dumps(t, ensure_ascii=False) for t in texts], samples=8, seed=seed,
                             most=40)
        if "error" in reply:
            assert "maxLength" in schema and ("no text" in reply["error"] or "too large" in reply["error"])
            continue
        found = [re.search(pattern.removesuffix("$") + r"\Z" * pattern.endswith("$"), t, re.ASCII) is not None and
                 len(t) <= schema.get("maxLength", 99) for t in texts]
        assert reply["accepts"] == found, pattern
        for text in filter(None, reply["samples"]):
            assert re.search(pattern, json.loads(text), re.ASCII), (pattern, text)
