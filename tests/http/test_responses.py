"""/v1/responses with the official openai client: plain, as typed events, with tools, and what is refused."""
import openai
import pytest
import requests

WEATHER = {"type": "function", "name": "get_weather", "description": "The weather of a city", "strict": False,
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
FRANCE = "What is the capital of France?"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def create(client):
    name = client.models.list().data[0].id

    def ask(**more):
        return client.responses.create(**{"model": name, "input": FRANCE, "max_output_tokens": 40, "temperature": 0, **more})
    return ask


def test_a_text(create):
    reply = create(instructions="You answer in one word.", metadata={"a": "b"})
    assert reply.object == "response" and reply.id.startswith("resp_") and reply.status == "completed"
    assert "Paris" in reply.output_text and reply.output[0].role == "assistant" and reply.error is None
    assert reply.instructions == "You answer in one word." and reply.metadata == {"a": "b"} and reply.store is False
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens
    assert reply.usage.model_extra["kv"]["policy"] == "roco"


def test_the_same_as_a_chat(create, client):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": FRANCE},
                {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "And of Spain?"}]
    chat = client.chat.completions.create(model=client.models.list().data[0].id, messages=messages, max_tokens=40, temperature=0)
    items = [{"role": "user", "content": [{"type": "input_text", "text": FRANCE}]},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Paris."}]},
             {"role": "user", "content": "And of Spain?"}]
    reply = create(instructions="Be brief.", input=items)
    assert reply.output_text == chat.choices[0].message.content
    assert reply.usage.input_tokens == chat.usage.prompt_tokens


@pytest.mark.parametrize("more", [{}, {"max_output_tokens": 3}, {"tools": [WEATHER], "tool_choice": "required"}])
def test_events_lead_to_the_plain_reply(create, more):
    plain, events = create(**more), list(create(**more, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert [e.type for e in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0].response.status == "in_progress" and events[0].response.output == []
    last = events[-1]
    assert last.type == ("response.incomplete" if plain.status == "incomplete" else "response.completed")
    assert last.response.usage.model_dump() == plain.usage.model_dump()
    deltas = "".join(e.delta for e in events if e.type.endswith(".delta"))
    item, told = last.response.output[0], [e for e in events if e.type == "response.output_item.done"][0].item
    assert item == told and item.type == plain.output[0].type
    if item.type == "function_call":
        assert deltas == item.arguments == plain.output[0].arguments and item.name == "get_weather"
        types = ["response.output_item.added", "response.function_call_arguments.done", "response.output_item.done"]
    else:
        assert deltas == last.response.output_text == plain.output_text
        types = ["response.output_item.added", "response.content_part.added", "response.output_text.done",
                 "response.content_part.done", "response.output_item.done"]
    assert [e.type for e in events[2:-1] if not e.type.endswith(".delta")] == types
    assert {e.output_index for e in events[2:-1]} == {0}


def test_an_answer_that_is_cut(create):
    reply = create(max_output_tokens=3)
    assert reply.status == "incomplete" and reply.incomplete_details.reason == "max_output_tokens"
    assert reply.output[0].status == "incomplete" and reply.usage.output_tokens == 3


def test_the_stream_helper_of_the_client(client):
    with client.responses.stream(model=client.models.list().data[0].id, input=FRANCE, max_output_tokens=20, temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text and "Paris" in text


def test_tools_and_their_results(create):
    first = create(input="What is the weather in Paris?", tools=[WEATHER], tool_choice={"type": "function", "name": "get_weather"})
    call = first.output[0]
    assert call.type == "function_call" and call.name == "get_weather" and call.call_id.startswith("call_")
    items = [{"role": "user", "content": "What is the weather in Paris?"}, call.model_dump(exclude_none=True),
             {"type": "function_call_output", "call_id": call.call_id, "output": "22 C, sunny"}]
    reply = create(input=items, tools=[WEATHER])
    assert reply.output_text and reply.usage.input_tokens > first.usage.input_tokens


@pytest.mark.parametrize("body, param, words", [
    ({}, "input", "missing"), ({"input": []}, "input", "at least one"), ({"input": 5}, "input", "string or an array"),
    ({"input": "x", "store": True}, "store", "keeps no responses"),
    ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id", "whole conversation"),
    ({"input": "x", "conversation": "c"}, "conversation", "not supported"),
    ({"input": "x", "background": True}, "background", "not supported"),
    ({"input": "x", "messages": [{"role": "user", "content": "x"}]}, "messages", "not supported"),
    ({"input": "x", "tools": [{"type": "function", "name": "a b"}]}, "tools[0].name", "letters"),
    ({"input": "x", "tools": [{"type": "function", "name": "f", "parameters": 5}]}, "tools[0].parameters", "JSON Schema"),
    ({"input": "x", "reasoning": {"effort": "much"}}, "reasoning.effort", "must be one of"),
    ({"input": "x", "n": 2}, "n", "not supported"), ({"input": "x", "truncation": "auto"}, "truncation", "disabled"),
    ({"input": "x", "include": ["message.output_text.logprobs"]}, "include", "encrypted"),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type", "no tools of its own"),
    ({"input": "x", "max_output_tokens": 0}, "max_output_tokens", "from 1"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]}, "input[0].content[0]", "no images"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "must be one of"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "function_call"),
    ({"input": [{"type": "function_call", "name": "f"}]}, "input[0]", "call_id"),
    ({"input": "word " * 9000}, "input", "the context is"),
])
def test_what_is_refused(server, body, param, words):
    reply = requests.post(server.url + "/v1/responses", json=body, timeout=60)
    error = reply.json()["error"]
    assert reply.status_code == 400 and error["param"] == param and words in error["message"], error


def test_numbers_are_repeated_as_they_came(server):
    body = {"input": "x", "max_output_tokens": 1, "temperature": 0.7, "top_p": 0.9}
    raw = requests.post(server.url + "/v1/responses", json=body, timeout=60).text
    assert '"temperature":0.7,"top_p":0.9,' in raw


def test_embeddings_say_what_the_server_is_for(client):
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        client.embeddings.create(model="x", input="x")
