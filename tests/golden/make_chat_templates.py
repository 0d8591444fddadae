#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2, set up as transformers sets it up, for tests/unit/chat to compare with.

    make_chat_templates.py                     writes chat/features.txt and chat/families.txt beside this script
    make_chat_templates.py FOLDER OUT          the conversations over all FOLDER/*.jinja, into OUT/families.txt

A file is a list of records. `template NAME` names NAME.jinja in the file's folder; `inline N` is followed by N bytes of template. Each
`case VALUE` (see encode) is followed by `text N` with the N bytes that come out, or by `error`: jinja2 refused.
"""
import datetime
import functools
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent / "chat"
NOW = datetime.datetime(2026, 3, 9, 7, 5, 2)  # what the C tests pass as the time, in UTC


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers parses it: a body of its own scope."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def as_list(function):
    """The filter, with a list for its generator."""
    @functools.wraps(function)
    def apply(*args, **kw):
        result = function(*args, **kw)
        return list(result) if not isinstance(result, str) else result

    return apply


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    for name in ("map", "select", "reject", "selectattr", "rejectattr", "unique", "batch", "reverse"):
        env.filters[name] = as_list(env.filters[name])  # roco makes lists where jinja2 makes generators
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda text: NOW.strftime(text)
    return env


def encode(value):
    """None n, booleans t f, integers i1;, floats d1.5;, strings s<bytes>:..., lists l<count>:..., dicts m<count>:key value ..."""
    if value is None:
        return b"n"
    if value is True or value is False:
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i%d;" % value
    if isinstance(value, float):
        return b"d%s;" % repr(value).encode()
    if isinstance(value, str):
        data = value.encode()
        return b"s%d:%s" % (len(data), data)
    if isinstance(value, list):
        return b"l%d:" % len(value) + b"".join(map(encode, value))
    return b"m%d:" % len(value) + b"".join(encode(k) + encode(v) for k, v in value.items())


def render(template, values):
    try:
        return environment().from_string(template).render(**values)
    except Exception:  # whatever it is, jinja2 made no text
        return None


def write_case(out, template, values):
    text = render(template, values)
    out.write(b"case " + encode(values) + b"\n")
    if text is None:
        out.write(b"error\n")
    else:
        data = text.encode()
        out.write(b"text %d\n%s\n" % (len(data), data))
    return text is not None


# --- conversations over published templates ---

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a place; units: \"C\" or 'F' <now> & later\n2nd line",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "City, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14.5},
        "where": {"type": "array", "items": {"type": "object", "properties": {"lat": {"type": "number"}}}}}}}}, {
    "type": "function", "function": {"name": "no_arguments", "description": "Does nothing",
                                     "parameters": {"type": "object", "properties": {}}}}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "Be brief.\nAlways."}
TOOL_TURN = [user("Weather in Bern?"), assistant("", tool_calls=[call("get_weather", {"place": "Bern", "days": 2})]),
             {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"t\": 21.5}"}]
CONVERSATIONS = [
    {"messages": [user("Hello")]},
    {"messages": [user("  spaces, ünïcode 漢字 \U0001f600 <|im_end|> {{ x }} \n")], "add_generation_prompt": False},
    {"messages": [SYSTEM, user("Hi"), assistant("Hello! "), user("Who are you?")]},
    {"messages": [SYSTEM]},
    {"messages": []},
    {"messages": [user("a"), user("b")]},
    {"messages": [assistant("I start"), user("b")]},
    {"messages": [user("go"), assistant("<think>\nhm\n</think>\n\nyes"), user("on"), assistant("<think>x</think>no")],
     "add_generation_prompt": False},
    {"messages": [user("go"), assistant("yes", reasoning_content="thought"), user("on")]},
    {"messages": [SYSTEM, user("Think?")], "enable_thinking": False},
    {"messages": [SYSTEM, user("Think?")], "enable_thinking": True},
    {"messages": [SYSTEM, user("Weather?")], "tools": TOOLS},
    {"messages": [user("Weather?")], "tools": TOOLS, "enable_thinking": False},
    {"messages": TOOL_TURN, "tools": TOOLS},
    {"messages": [SYSTEM] + TOOL_TURN + [assistant("21.5 degrees."), user("Thanks")], "tools": TOOLS},
    {"messages": TOOL_TURN[:2] + [{**TOOL_TURN[2], "content": "first"}, {**TOOL_TURN[2], "content": "second"}]},
    {"messages": [user("x"), assistant(None, tool_calls=[call("no_arguments", {}), call("get_weather", {"place": "a'b\"c"}, "call00002")]),
                  {"role": "tool", "tool_call_id": "call00001", "content": "ok"}], "tools": TOOLS},
    {"messages": [user("x"), assistant("", tool_calls=[call("get_weather", "{\"place\": \"Rom\"}")])], "tools": TOOLS},
    {"messages": [user([{"type": "text", "text": "part one "}, {"type": "text", "text": "part two"}])]},
    {"messages": [{"role": "critic", "content": "an unknown role"}]},
]


def conversation(given):
    values = {"tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    return {**values, **given}


def write_families(folder, path):
    templates = sorted(folder.glob("*.jinja"))
    with open(path, "wb") as out:
        for file in templates:
            template = file.read_bytes().decode()
            out.write(b"template %s\n" % file.stem.encode())
            rendered = sum(write_case(out, template, conversation(c)) for c in CONVERSATIONS)
            print(f"{file.stem}: {rendered} of {len(CONVERSATIONS)} conversations rendered")


# --- one feature each ---

VALUES = {"text": "Hello wörld", "n": 7, "x": 2.5, "yes": True, "no": False, "nil": None, "empty": [], "list": [3, 1, 2],
          "names": ["b", "A", "c"], "dict": {"b": 1, "a": {"c": [1, 2]}, "A": 2}, "lines": "one\n two\n\nthree\n",
          "people": [{"name": "Ann", "age": 30, "x": {"y": 1}}, {"name": "bob", "age": 25, "x": {"y": 0}}, {"name": "Cy", "x": {}}]}


def write_features(path):
    features = (HERE / "features.templates").read_text().split("\n=====\n")
    with open(path, "wb") as out:
        for template in features:
            data = template.encode()
            out.write(b"inline %d\n%s\n" % (len(data), data))
            if not write_case(out, template, VALUES) and "{# refused #}" not in template:
                raise SystemExit(f"jinja2 refuses: {template}")
    print(f"{len(features)} features")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_families(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]) / "families.txt")
    else:
        write_features(HERE / "features.txt")
        write_families(HERE, HERE / "families.txt")
