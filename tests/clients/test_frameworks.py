"""langchain-openai and litellm against the server: answers, streams and tools. Run by `scripts/test clients`, which installs them;
elsewhere they are skipped."""
import os

import pytest
import requests

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # litellm fetches its price list otherwise
langchain_openai = pytest.importorskip("langchain_openai")
litellm = pytest.importorskip("litellm")

FRANCE = "What is the capital of France?"
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


@pytest.fixture(scope="module")
def name(server):
    return requests.get(server.url + "/v1/models", timeout=10).json()["data"][0]["id"]


@pytest.fixture(scope="module")
def chat(server, name):
    def make(**more):
        return langchain_openai.ChatOpenAI(base_url=server.url + "/v1", api_key="unused", model=name, temperature=0, max_tokens=40,
                                           max_retries=0, **more)
    return make


@pytest.mark.parametrize("responses", [False, True])
def test_langchain_answers_and_streams(chat, responses):
    model = chat(use_responses_api=responses)
    reply = model.invoke([("system", "You answer in one word."), ("user", FRANCE)])
    assert "Paris" in reply.text and reply.usage_metadata["total_tokens"] > 0
    pieces = list(model.stream([("system", "You answer in one word."), ("user", FRANCE)]))
    assert "".join(p.text for p in pieces) == reply.text and len(pieces) > 1


@pytest.mark.parametrize("responses", [False, True])
def test_langchain_tools(chat, responses):
    model = chat(use_responses_api=responses).bind_tools([WEATHER], tool_choice="get_weather")
    reply = model.invoke("What is the weather in Paris?")
    calls = reply.tool_calls + reply.invalid_tool_calls  # the small model may leave its arguments unfinished
    assert [c["name"] for c in calls] == ["get_weather"] and calls[0]["id"]
    whole = None
    for piece in model.stream("What is the weather in Paris?"):
        whole = piece if whole is None else whole + piece
    assert [c["name"] for c in whole.tool_calls + whole.invalid_tool_calls] == ["get_weather"]


def test_langchain_counts_what_a_conversation_holds(chat):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    call = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}
    reply = chat().bind_tools([WEATHER]).invoke([HumanMessage("What is the weather in Paris?"), AIMessage("", tool_calls=[call]),
                                                 ToolMessage("22 C, sunny", tool_call_id="call_1")])
    assert reply.text


def test_langchain_structured_output(chat):
    schema = {"title": "capital", "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
              "additionalProperties": False}
    assert set(chat().with_structured_output(schema, method="json_schema").invoke(FRANCE)) == {"city"}
    assert set(chat().with_structured_output(schema, method="function_calling").invoke(FRANCE)) == {"city"}


def test_langchain_completions(server, name):
    model = langchain_openai.OpenAI(base_url=server.url + "/v1", api_key="unused", model=name, temperature=0, max_tokens=8)
    assert "Paris" in model.invoke("The capital of France is")


@pytest.mark.parametrize("provider, path", [("openai", "/v1"), ("anthropic", "")])
def test_litellm(server, name, provider, path):
    ask = dict(model=f"{provider}/{name}", api_base=server.url + path, api_key="unused", temperature=0, max_tokens=40, num_retries=0,
               messages=[{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": FRANCE}])
    plain = litellm.completion(**ask)
    assert "Paris" in plain.choices[0].message.content and plain.choices[0].finish_reason == "stop"
    assert plain.usage.completion_tokens > 0
    text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**ask, stream=True))
    assert text == plain.choices[0].message.content


@pytest.mark.parametrize("provider, path", [("openai", "/v1"), ("anthropic", "")])
def test_litellm_tools(server, name, provider, path):
    ask = dict(model=f"{provider}/{name}", api_base=server.url + path, api_key="unused", temperature=0, max_tokens=80, num_retries=0,
               messages=[{"role": "user", "content": "What is the weather in Paris?"}], tools=[WEATHER], tool_choice="required")
    reply = litellm.completion(**ask)
    assert reply.choices[0].finish_reason == "tool_calls"
    assert reply.choices[0].message.tool_calls[0].function.name == "get_weather"
    chunks = list(litellm.completion(**ask, stream=True))
    names = [call.function.name for c in chunks for call in c.choices[0].delta.tool_calls or [] if call.function.name]
    assert names == ["get_weather"]


def test_litellm_responses(server, name):
    reply = litellm.responses(model=f"openai/{name}", api_base=server.url + "/v1", api_key="unused", input=FRANCE, max_output_tokens=40,
                              temperature=0)
    assert "Paris" in reply.output[0].content[0].text
