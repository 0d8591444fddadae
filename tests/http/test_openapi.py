"""/openapi.json: valid, and true: what it allows is taken and what it forbids is refused, field by field."""
import itertools
import json

import pytest
import requests
from openapi_spec_validator import validate

PLAIN = {"/v1/completions": {"prompt": "a", "max_tokens": 1},
         "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
         "/v1/responses": {"input": "a", "max_output_tokens": 1},
         "/v1/messages": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
         "/tokenize": {"text": "a"}, "/detokenize": {"tokens": [5]}}


@pytest.fixture(scope="module")
def description(server):
    return requests.get(server.url + "/openapi.json", timeout=10).json()


def fields_of(description, path):
    return description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]


def test_it_is_valid_and_whole(server, description):
    validate(description)
    for path, operations in description["paths"].items():
        for method in operations:
            reply = requests.request(method, server.url + path, json={} if method == "post" else None, timeout=10)
            assert reply.status_code in (200, 400), (method, path)
    assert description["openapi"].startswith("3.1")


def refused_values(schema):
    """Values of another kind or out of bounds."""
    kinds = schema.get("type", [])
    if "boolean" in kinds and len(kinds) == 2:
        return [0, "true", []]
    if "integer" in kinds and len(kinds) == 2:
        return [schema["minimum"] - 1, schema["maximum"] + 1, 1.5, "1", True]
    if "number" in kinds and len(kinds) == 2:
        return [schema["minimum"] - 0.01, schema["maximum"] + 0.01, "1", False, []]
    return [["surely not"], {"surely": "not"}, "surely not", -7.5] if "enum" in schema else []


def taken_values(schema):
    kinds = schema.get("type", [])
    return {"boolean": [True, False, None]}.get(kinds[0], []) if kinds and len(kinds) == 2 else schema.get("enum", [])


WANT_OTHERS = {"continue_final_message"}  # true is taken where the last message is the assistant's


@pytest.mark.parametrize("path", PLAIN)
def test_it_is_true_of_every_field(server, description, path):
    for name, schema in fields_of(description, path).items():
        for value, status in itertools.chain(((v, 400) for v in refused_values(schema)), ((v, 200) for v in taken_values(schema))):
            if status == 200 and name in WANT_OTHERS:
                continue
            body = {**PLAIN[path], name: value}
            reply = requests.post(server.url + path, json=body, timeout=60)
            assert reply.status_code == status, (name, value, reply.text)
            if status == 400:
                assert name in reply.json()["error"]["message"], (name, value, reply.text)


def test_required_fields_are_required(server, description):
    for path in PLAIN:
        schema = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for name in schema["required"]:
            body = {k: v for k, v in PLAIN[path].items() if k != name}
            for bad in (body, {**body, name: None}):
                reply = requests.post(server.url + path, json=bad, timeout=10)
                assert reply.status_code == 400 and name in reply.json()["error"]["message"]


def test_errors_have_the_described_form(server, description):
    for path in PLAIN:
        reference = description["paths"][path]["post"]["responses"]["4XX"]["content"]["application/json"]["schema"]["$ref"]
        schema = description["components"]["schemas"][reference.rpartition("/")[2]]
        error = requests.post(server.url + path, json={"tokens": 7, "kv_budget": "much"}, timeout=10).json()
        assert set(schema["required"]) <= error.keys() and set(schema["properties"]["error"]["required"]) <= error["error"].keys()


def test_embeddings_are_refused_with_the_reason(server):
    for body in ({"input": "a", "model": "x"}, [], {"input": ["a", 1]}):
        reply = requests.post(server.url + "/v1/embeddings", data=json.dumps(body), timeout=10,
                              headers={"Content-Type": "application/json"})
        error = reply.json()["error"]
        assert reply.status_code == 400 and error["code"] == "unsupported_endpoint" and "/v1/completions" in error["message"]
