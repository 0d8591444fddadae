"""Constrained answers over HTTP with the real model: fields, forms, streams, limits, and the openai client's own way."""
import concurrent.futures
import datetime
import enum
import json
import re

import jsonschema
import openai
import pydantic
import pytest
import requests

from conftest import ROOT

SCHEMAS = json.loads((ROOT / "tests/data/schemas.json").read_text())
PERSON = SCHEMAS["person"]
MESSAGES = [{"role": "user", "content": "Make up an example."}]


def post(server, expected=200, path="chat/completions", **body):
    body = {"messages": MESSAGES, **body} if path.startswith("chat") else {"prompt": "Here it is:\n", **body}
    reply = requests.post(f"{server.url}/v1/{path}", json=body, timeout=300)
    assert reply.status_code == expected, reply.text
    return reply.json()


def schema_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "example", "schema": schema, **more}}


def text_of(choice):
    return choice["message"]["content"] if "message" in choice else choice["text"]


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
def test_each_field(server, path):
    def ask(**body):
        reply = post(server, path=path, temperature=1.5, seed=3, max_tokens=300, n=3, **body)
        assert all(choice["finish_reason"] == "stop" for choice in reply["choices"])
        return [text_of(choice) for choice in reply["choices"]]

    pattern = r"[A-Z]{2}-\d{3}( [a-z]{1,8}){0,2}"
    for body in ({"regex": pattern}, {"guided_regex": pattern}, {"structured_outputs": {"regex": pattern}}):
        assert all(re.fullmatch(pattern, text) for text in ask(**body))
    gbnf = 'root ::= item ("," item){0,4}\nitem ::= [0-9]{1,2} | "(" inner ")"\ninner ::= [0-9] | "(" [0-9] ")"'
    for body in ({"grammar": gbnf}, {"guided_grammar": gbnf}, {"structured_outputs": {"grammar": gbnf}}):
        assert all(re.fullmatch(r"[0-9(),]+", text) and text.count("(") == text.count(")") for text in ask(**body))
    for body in ({"guided_choice": ["red", "dark red"]}, {"structured_outputs": {"choice": ["red", "dark red"]}}):
        assert set(ask(**body)) <= {"red", "dark red"}
    for body in ({"response_format": schema_format(PERSON, strict=True)}, {"json_schema": PERSON}, {"guided_json": PERSON},
                 {"structured_outputs": {"json": PERSON}}):
        for text in ask(**body):
            jsonschema.validate(json.loads(text), PERSON)
    free = post(server, path=path, response_format={"type": "text"}, regex="", max_tokens=8)  # both say nothing
    assert text_of(free["choices"][0])


def test_any_object(server):
    reply = post(server, response_format={"type": "json_object"}, temperature=0.8, seed=1, max_tokens=400, n=4)
    ended = [text_of(c) for c in reply["choices"] if c["finish_reason"] == "stop"]
    assert ended and all(isinstance(json.loads(text), dict) for text in ended)


def test_a_cut_answer_says_so(server):
    reply = post(server, regex="[a-z]{200}", max_tokens=5)
    assert reply["choices"][0]["finish_reason"] == "length"
    assert re.fullmatch("[a-z]+", text_of(reply["choices"][0]))


def test_streams_and_seeds_and_greedy(server):
    body = {"response_format": schema_format(PERSON), "temperature": 1.2, "seed": 9, "max_tokens": 200}
    plain = text_of(post(server, **body)["choices"][0])
    assert text_of(post(server, **body)["choices"][0]) == plain
    streamed = ""
    with requests.post(server.url + "/v1/chat/completions", json={"messages": MESSAGES, "stream": True, **body}, stream=True,
                       timeout=60) as reply:
        for line in reply.iter_lines():
            if line.startswith(b"data: {"):
                streamed += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    assert streamed == plain
    greedy = {**body, "temperature": 0}
    assert text_of(post(server, **greedy)["choices"][0]) == text_of(post(server, **greedy)["choices"][0])


def test_with_other_fields(server):
    """Penalties, biases and min_tokens yield where the form leaves no choice; log-probabilities are those of what was drawn."""
    reply = post(server, regex="(ab){4}", min_tokens=50, max_tokens=60, frequency_penalty=2, logit_bias={"0": 100}, logprobs=True,
                 top_logprobs=2)
    choice = reply["choices"][0]
    assert text_of(choice) == "abababab" and choice["finish_reason"] == "stop"
    assert "".join(entry["token"] for entry in choice["logprobs"]["content"]).startswith("abababab")


@pytest.mark.parametrize("body, param, said", [
    ({"response_format": schema_format({"type": "object", "properties": {"a": {"not": {}}}})}, "response_format.json_schema.schema",
     "#/properties/a/not"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "schema"),
    ({"response_format": {"type": "yaml"}}, "response_format.type", "json_object"),
    ({"regex": "(?=a)"}, "regex", "lookahead"), ({"grammar": 'root ::= root "a" | "b"'}, "grammar", "left recursion"),
    ({"regex": "a", "guided_choice": ["b"]}, "guided_choice", "give one of them"),
    ({"regex": "a", "ignore_eos": True}, "ignore_eos", "opposite"), ({"regex": "(" * 5000}, "regex", "nested"),
    ({"structured_outputs": {"regexp": "a"}}, "structured_outputs", "json, regex"), ({"grammar": "root ::= x"}, "grammar", "not defined"),
    ({"regex": "a" * 300000}, "regex", "262144"),
    ({"json_schema": {"$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}},
                      "$ref": "#/$defs/n"}}, "json_schema", "no text")], ids=lambda v: str(v)[:30])
def test_refused(server, body, param, said):
    error = post(server, 400, **body)["error"]
    assert error["param"] == param and said in error["message"], error


def test_ambiguity_without_end_fails_alone(server):
    """What compiles and then needs too much for one token ends its own request, while another goes on."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        other = pool.submit(post, server, regex="[a-z ]{150}", max_tokens=200, temperature=1.5, seed=1)
        error = post(server, 400, regex="(a{1,3000}(aa)?){200,3000}b", max_tokens=400)["error"]
        assert "ambiguous" in error["message"]
        assert text_of(other.result()["choices"][0])


def test_many_forms_at_once(server):
    """Every schema once at temperature 1.5, all at a time: masks of many grammars live side by side."""
    def ask(name):
        reply = post(server, response_format=schema_format(SCHEMAS[name]), temperature=1.5, seed=4, max_tokens=1200)
        choice = reply["choices"][0]
        assert choice["finish_reason"] == "stop", name
        jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(
            json.loads(text_of(choice)))

    before = server.metrics()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, SCHEMAS))
    after = server.metrics()
    assert after["roco_masks_total"] - before["roco_masks_total"] > 500
    assert after["roco_mask_walks_total"] - before["roco_mask_walks_total"] < after["roco_masks_total"] - before["roco_masks_total"]


# --- the openai client's structured output ---


class Weather(enum.Enum):
    sunny = "sunny"
    rainy = "rainy"


class Stop(pydantic.BaseModel):
    city: str = pydantic.Field(max_length=30)
    nights: int = pydantic.Field(ge=1, le=14)
    weather: Weather
    day: datetime.date


class Trip(pydantic.BaseModel):
    title: str = pydantic.Field(max_length=50)
    stops: list[Stop] = pydantic.Field(min_length=1, max_length=3)
    budget: float | None


def test_parse_of_the_openai_client(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)
    name = client.models.list().data[0].id
    for seed in range(3):
        reply = client.chat.completions.parse(model=name, messages=MESSAGES, response_format=Trip, temperature=1.5, seed=seed,
                                              max_tokens=1000)
        trip = reply.choices[0].message.parsed
        assert isinstance(trip, Trip) and 1 <= len(trip.stops) <= 3 and trip.stops[0].weather in Weather
    with client.chat.completions.stream(model=name, messages=MESSAGES, response_format=Trip, seed=5, max_tokens=1000) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Trip)
