"""Calls that must come are valid under their schemas, whatever the sampling; the forms of an answer in the other endpoints."""
import json
import re

import jsonschema
import openai
import pytest
import requests
from conftest import ROOT

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
                                         "days": {"type": "integer", "minimum": 1, "maximum": 9}, "unit": {"enum": ["C", "F"]}},
        "required": ["city", "days", "unit"], "additionalProperties": False}
ITEMS = {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 1, "maxItems": 3}
LIST = {"type": "object", "properties": {"items": ITEMS},
        "required": ["items"], "additionalProperties": False}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]


def tool(name, parameters, **more):
    return {"type": "function", "function": {"name": name, "description": "a function", "parameters": parameters, **more}}


WEATHER, BUY = tool("get_weather", CITY), tool("buy", LIST)


@pytest.fixture(scope="module")
def ask(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)
    name = client.models.list().data[0].id

    def create(**more):
        return client.chat.completions.create(**{"model": name, "messages": ASK, "max_tokens": 200, "temperature": 1.5, **more})
    return create


def check(call):
    arguments = json.loads(call.function.arguments)
    if call.function.name == "get_weather":
        assert set(arguments) == {"city", "days", "unit"} and len(arguments["city"]) <= 20
        assert arguments["days"] in range(1, 10) and arguments["unit"] in ("C", "F")
    else:
        assert call.function.name == "buy" and set(arguments) == {"items"} and 1 <= len(arguments["items"]) <= 3
    return call.function.name


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "buy"}}])
def test_what_must_come_is_valid(ask, choice):
    names = set()
    for seed in range(2):
        for answer in ask(tools=[WEATHER, BUY], tool_choice=choice, n=6, seed=seed).choices:
            assert answer.finish_reason == "tool_calls" and not answer.message.content and len(answer.message.tool_calls) == 1
            names.add(check(answer.message.tool_calls[0]))
    assert names == ({"buy"} if choice != "required" else {"get_weather", "buy"})


def test_more_than_one_may_come(ask):
    """If that is asked for. The last may be cut, as this model finds no end."""
    counts = []
    for answer in ask(tools=[WEATHER, BUY], tool_choice="required", parallel_tool_calls=True, n=4, seed=1).choices:
        calls = answer.message.tool_calls
        counts.append(len(calls))
        assert all(check(call) for call in (calls if answer.finish_reason == "tool_calls" else calls[:-1]))
    assert max(counts) > 1


def test_a_form_beside_tools(ask):
    """What is no call has the form."""
    form = {"type": "json_schema", "json_schema": {"name": "list", "schema": LIST}}
    for answer in ask(tools=[WEATHER, tool("later", {})], response_format=form, n=4, seed=3).choices:
        if answer.message.tool_calls:
            assert answer.finish_reason in ("tool_calls", "length") and not answer.message.content
        else:
            assert answer.finish_reason == "stop" and set(json.loads(answer.message.content)) == {"items"}
    forced = ask(tools=[BUY], response_format={"type": "json_object"}, tool_choice="required")
    assert check(forced.choices[0].message.tool_calls[0]) == "buy" and not forced.choices[0].message.content
    greedy = dict(tools=[WEATHER], response_format=form, temperature=0)
    streamed = "".join(c.choices[0].delta.content or "" for c in ask(**greedy, stream=True))
    assert streamed == (ask(**greedy).choices[0].message.content or "")


def test_streams_too(ask):
    plain = ask(tools=[WEATHER], tool_choice="required", seed=7)
    call = plain.choices[0].message.tool_calls[0]
    pieces = [c.choices[0].delta.tool_calls[0].function.arguments or "" for c in
              ask(tools=[WEATHER], tool_choice="required", seed=7, stream=True) if c.choices[0].delta.tool_calls]
    assert "".join(pieces) == call.function.arguments and len(pieces) > 2


def test_arguments_between_marks(start):
    """Qwen3-Coder's template teaches calls that are no JSON; what clients get is."""
    coder = start("--kv-pool-tokens", 8192, "--chat-template", ROOT / "tests/golden/chat/Qwen3-Coder.jinja")
    city = {**CITY, "properties": {**CITY["properties"], "city": {"type": "string", "enum": ["Paris", "La \"Ville\""]}}}
    body = {"messages": ASK, "tools": [tool("get_weather", city), BUY], "tool_choice": "required", "temperature": 1}
    for seed in range(2):
        plain = requests.post(coder.url + "/v1/chat/completions", json={**body, "seed": seed}, timeout=60).json()["choices"][0]
        call = plain["message"]["tool_calls"][0]["function"]
        assert plain["finish_reason"] == "tool_calls"
        jsonschema.validate(json.loads(call["arguments"]), city if call["name"] == "get_weather" else LIST)
        raw = requests.post(coder.url + "/v1/chat/completions", json={**body, "seed": seed, "stream": True}, timeout=60).text
        deltas = [json.loads(e[6:])["choices"][0]["delta"] for e in raw.split("\n\n") if e.startswith("data: {")]
        pieces = [c["function"].get("arguments", "") for d in deltas for c in d.get("tool_calls", [])]
        assert "".join(pieces) == call["arguments"] and not any(d.get("content") for d in deltas)
    assert coder.stop() == 0


def test_schemas_that_cannot_be_kept(ask):
    odd = {"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["b"]}}
    reply = ask(tools=[tool("f", odd)], tool_choice="required", temperature=0)
    assert isinstance(json.loads(reply.choices[0].message.tool_calls[0].function.arguments), dict)
    with pytest.raises(openai.BadRequestError) as error:
        ask(tools=[tool("f", odd, strict=True)], tool_choice="required")
    assert error.value.param.startswith("tools") and "not" in str(error.value)


def test_formats_of_the_other_endpoints(server):
    schema = {"type": "object", "properties": {"answer": {"type": "string", "maxLength": 10}}, "required": ["answer"],
              "additionalProperties": False}
    body = {"input": "The capital of France?", "text": {"format": {"type": "json_schema", "name": "x", "schema": schema}},
            "temperature": 1.5}
    reply = requests.post(server.url + "/v1/responses", json=body, timeout=60).json()
    assert set(json.loads(reply["output"][0]["content"][0]["text"])) == {"answer"}
    body = {"messages": ASK, "max_tokens": 100, "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    reply = requests.post(server.url + "/v1/messages", json=body, timeout=60).json()
    assert re.fullmatch(r'\s*\{\s*"answer".*\}\s*', reply["content"][0]["text"], re.S)
