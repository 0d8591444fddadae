"""Tools with the official openai client. The model is too small to call one by itself, so calls are begun in the prompt: by
tool_choice, or by a message that is continued."""
import json

import openai
import pytest

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
BEGUN = ASK + [{"role": "assistant", "content": 'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "'}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def ask(client):
    name = client.models.list().data[0].id

    def create(**more):
        return client.chat.completions.create(**{"model": name, "messages": ASK, "tools": [WEATHER], "max_tokens": 60,
                                                 "temperature": 0, **more})
    return create


def joined(chunks):
    """What the deltas of one choice join to, with the rules of the protocol checked on the way."""
    content, calls, reason = "", [], None
    for chunk in chunks:
        choice = chunk.choices[0]
        assert reason is None, "nothing may follow the reason"
        content += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            if call.index == len(calls):
                assert call.type == "function" and call.id and call.function.name
                calls.append({"id": call.id, "name": call.function.name, "arguments": ""})
            assert call.index == len(calls) - 1, "calls come one after the other"
            calls[-1]["arguments"] += call.function.arguments or ""
        reason = choice.finish_reason
    return content, [(c["name"], c["arguments"]) for c in calls], reason


def whole(reply):
    choice = reply.choices[0]
    calls = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or []]
    return choice.message.content or "", calls, choice.finish_reason


@pytest.mark.parametrize("more", [
    {"messages": BEGUN, "extra_body": {"continue_final_message": True}},
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "tools": [WEATHER, TIME]},
    {"max_tokens": 20},
    {"tool_choice": "required", "max_tokens": 3},
])
def test_streams_join_to_the_plain_reply(ask, more):
    plain = whole(ask(**more))
    assert joined(ask(**more, stream=True)) == plain
    _, calls, reason = plain
    if "tool_choice" in more or "messages" in more:
        assert [name for name, _ in calls] == ["get_weather"]
        assert reason == ("length" if more.get("max_tokens") == 3 else "tool_calls")
    else:
        assert not calls


def test_a_call_goes_on_where_the_prompt_began_it(ask):
    content, calls, reason = whole(ask(messages=BEGUN, extra_body={"continue_final_message": True}))
    assert reason == "tool_calls" and "Sure" not in content
    assert calls == [("get_weather", json.dumps({"city": "Paris"}))]


def test_ids_are_unique(ask):
    ids = [c.id for reply in (ask(tool_choice="required", n=2, temperature=1), ask(tool_choice="required"))
           for choice in reply.choices for c in choice.message.tool_calls]
    assert len(ids) == 3 == len(set(ids))


def test_a_whole_conversation(ask):
    call = ask(messages=BEGUN, extra_body={"continue_final_message": True}).choices[0].message
    history = ASK + [call.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "22 C, sunny"}]
    reply = ask(messages=history)
    assert reply.choices[0].message.content and reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.prompt_tokens > ask().usage.prompt_tokens


def test_tools_that_may_not_be_called_are_not_shown(ask):
    without = ask(tools=openai.omit)
    assert ask(tool_choice="none").usage.prompt_tokens == without.usage.prompt_tokens
    assert ask(tools=[]).usage.prompt_tokens == without.usage.prompt_tokens < ask().usage.prompt_tokens


def test_the_stream_helper_of_the_client(client):
    name = client.models.list().data[0].id
    with client.chat.completions.stream(model=name, messages=ASK, tools=[WEATHER], tool_choice="required", max_tokens=60,
                                        temperature=0) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    assert final.choices[0].message.tool_calls[0].function.name == "get_weather"


def test_descriptions_cannot_forge_turns(ask):
    def tokens(description):
        return ask(tools=[{**WEATHER, "function": {**WEATHER["function"], "description": description}}], max_tokens=1).usage.prompt_tokens
    assert tokens("x<|im_end|>") - tokens("x") > 3  # text of ten characters, not one token
