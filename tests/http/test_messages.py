"""/v1/messages with the official anthropic client: plain, as typed events, with tools, keys and errors of its form."""
import anthropic
import json
import pytest
import requests

WEATHER = {"name": "get_weather", "description": "The weather of a city",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
BEGUN = FRANCE + [{"role": "assistant", "content": 'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "'}]


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def ask(client, server):
    name = requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["id"]
    return {"model": name, "messages": FRANCE, "max_tokens": 40, "extra_body": {"temperature": 0}}


def test_a_text(client, ask):
    reply = client.messages.create(**ask, system="You answer in one word.")
    assert reply.type == "message" and reply.role == "assistant" and reply.id.startswith("msg_") and reply.model == ask["model"]
    assert reply.content[0].type == "text" and "Paris" in reply.content[0].text
    assert reply.stop_reason == "end_turn" and reply.stop_sequence is None
    assert reply.usage.input_tokens > 0 and reply.usage.output_tokens > 0


def test_blocks_are_the_same_as_texts(client, ask):
    text = client.messages.create(**ask, system="Be brief.")
    blocks = client.messages.create(**{**ask, "messages": [{"role": "user", "content": [
        {"type": "text", "text": FRANCE[0]["content"], "cache_control": {"type": "ephemeral"}}]}]},
        system=[{"type": "text", "text": "Be brief."}])
    assert blocks.content[0].text == text.content[0].text and blocks.usage.input_tokens == text.usage.input_tokens


@pytest.mark.parametrize("more", [
    {}, {"max_tokens": 3}, {"stop_sequences": ["Par"]}, {"tools": [WEATHER], "tool_choice": {"type": "any"}},
    {"tools": [WEATHER], "messages": BEGUN}])
def test_events_lead_to_the_plain_reply(client, ask, more):
    plain = client.messages.create(**{**ask, **more})
    with client.messages.stream(**{**ask, **more}) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_message()
    assert [b.model_dump(exclude={"id"}) for b in final.content] == [b.model_dump(exclude={"id"}) for b in plain.content]
    assert (final.stop_reason, final.stop_sequence) == (plain.stop_reason, plain.stop_sequence)
    assert final.usage.output_tokens == plain.usage.output_tokens and final.usage.input_tokens == plain.usage.input_tokens
    assert events[0] == "message_start" and events[-1] == "message_stop"


def test_why_it_stops(client, ask):
    assert client.messages.create(**{**ask, "max_tokens": 3}).stop_reason == "max_tokens"
    stopped = client.messages.create(**ask, stop_sequences=["xyz", "Par"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Par") and "Par" not in stopped.content[0].text
    used = client.messages.create(**ask, tools=[WEATHER], tool_choice={"type": "tool", "name": "get_weather"})
    assert used.stop_reason == "tool_use" and used.content[0].name == "get_weather" and used.content[0].id.startswith("toolu_")


def test_a_message_that_is_continued(client, ask):
    reply = client.messages.create(**{**ask, "messages": FRANCE + [{"role": "assistant", "content": "The capital of France is"}]})
    assert reply.content[0].text.startswith(" Paris")


def test_a_whole_conversation_with_a_tool(client, ask):
    first = client.messages.create(**{**ask, "messages": BEGUN}, tools=[WEATHER])
    use = [b for b in first.content if b.type == "tool_use"][0]
    assert use.input == {"city": "Paris"}
    history = FRANCE + [{"role": "assistant", "content": [b.model_dump() for b in first.content]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "22 C, sunny"}]},
        {"type": "text", "text": "So?"}]}]
    reply = client.messages.create(**{**ask, "messages": history}, tools=[WEATHER])
    assert reply.content[0].text and reply.usage.input_tokens > first.usage.input_tokens


def test_counting(client, ask):
    counted = client.messages.count_tokens(model=ask["model"], messages=FRANCE, tools=[WEATHER])
    assert counted.input_tokens == client.messages.create(**ask, tools=[WEATHER]).usage.input_tokens
    forced = {"tools": [{**WEATHER, "strict": True}], "tool_choice": {"type": "any"}}  # has a grammar, compiled off the loop
    counted = client.messages.count_tokens(model=ask["model"], messages=FRANCE, **forced)
    assert counted.input_tokens == client.messages.create(**ask, **forced).usage.input_tokens


def test_raw_events(server, ask):
    body = {"messages": FRANCE, "max_tokens": 3, "temperature": 0, "stream": True}
    raw = requests.post(server.url + "/v1/messages", json=body, timeout=60)
    assert raw.headers["Content-Type"].startswith("text/event-stream")
    events = [e.split("\n") for e in raw.text.split("\n\n") if e]
    assert all(name == "event: " + json.loads(data[6:])["type"] for name, data in events)
    names = [name[7:] for name, _ in events]
    assert names[:2] == ["message_start", "content_block_start"] and names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    start, delta = json.loads(events[0][1][6:]), json.loads(events[-2][1][6:])
    assert start["message"]["content"] == [] and start["message"]["usage"]["input_tokens"] > 0
    assert delta["delta"]["stop_reason"] == "max_tokens" and delta["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("body, words", [
    ({}, "messages is missing"), ({"messages": []}, "at least one"),
    ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "tool_use_id"),
    ({"messages": FRANCE, "tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
    ({"messages": FRANCE, "tool_choice": {"type": "any"}}, "there are no tools"), ({"messages": FRANCE, "max_tokens": 0}, "max_tokens"),
    ({"messages": FRANCE, "mcp_servers": [{}]}, "mcp_servers"),
    ({"messages": FRANCE, "stop_sequences": [5]}, "stop_sequences must be"),
    ({"messages": FRANCE, "tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name must"),
    ({"messages": FRANCE, "tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema must"),
])
def test_errors_have_anthropics_form(server, body, words):
    reply = requests.post(server.url + "/v1/messages", json=body, timeout=60)
    error = reply.json()
    assert reply.status_code == 400 and error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error" and words in error["error"]["message"], error


def test_other_errors_too(server, client, ask):
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**{**ask, "model": "another"})
    assert requests.get(server.url + "/v1/messages", timeout=10).json()["error"]["type"] == "invalid_request_error"
    plain = requests.post(server.url + "/v1/messages", data="{}", headers={"Content-Type": "text/plain"}, timeout=10)
    assert plain.status_code == 415 and plain.json()["type"] == "error"


def test_keys(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret-key\n")
    keys.chmod(0o600)
    server = start("--kv-pool-tokens", 4096, "--api-key-file", keys)
    body = {"messages": FRANCE, "max_tokens": 1, "model": "x"}
    good = anthropic.Anthropic(base_url=server.url, api_key="secret-key", max_retries=0)
    with pytest.raises(anthropic.NotFoundError):  # the key was taken, the model is not there
        good.messages.create(**body)
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=server.url, api_key="other", max_retries=0).messages.create(**body)
    assert server.stop() == 0
