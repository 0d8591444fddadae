"""/v1/completions as clients use it: the official openai client, every form of prompt, choices, seeds, stops, streams."""
import json

import openai
import pytest
import requests

PROMPT = "The capital of France is"
STORY = "Once upon a time, in a small village by the sea,"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def stream(server, **body):
    """Joined text by choice, finish reasons, usage, all chunks."""
    body["stream"] = True
    text, finish, usage, chunks = {}, {}, None, []
    with requests.post(server.url + "/v1/completions", json=body, stream=True, timeout=300) as reply:
        assert reply.status_code == 200, reply.text
        for line in reply.iter_lines():
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            chunk = json.loads(line[6:])
            chunks.append(chunk)
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                text[choice["index"]] = text.get(choice["index"], "") + choice["text"]
                finish[choice["index"]] = choice["finish_reason"] or finish.get(choice["index"])
    return text, finish, usage, chunks


def test_openai_client_plain(client):
    model = client.models.list().data[0].id
    reply = client.completions.create(model=model, prompt=PROMPT, max_tokens=8, temperature=0)
    assert reply.object == "text_completion" and reply.choices[0].index == 0
    assert reply.choices[0].text.startswith(" Paris")  # the first space is the answer's own
    assert reply.usage.prompt_tokens == 5 and reply.usage.completion_tokens <= 8
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_openai_client_stream(client):
    model = client.models.list().data[0].id
    plain = client.completions.create(model=model, prompt=STORY, max_tokens=40, temperature=0)
    parts = list(client.completions.create(model=model, prompt=STORY, max_tokens=40, temperature=0, stream=True,
                                           stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in parts if c.choices) == plain.choices[0].text
    assert parts[-1].usage.completion_tokens == plain.usage.completion_tokens
    assert {c.id for c in parts} == {parts[0].id} and {c.created for c in parts} == {parts[0].created}


def test_openai_client_errors_are_typed(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=client.models.list().data[0].id, prompt=[], max_tokens=4)
    assert refused.value.param == "prompt"
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="gpt-9-unknown", prompt="a", max_tokens=4)
    assert missing.value.code == "model_not_found"


@pytest.mark.parametrize("prompt, n_choices", [
    ("one string", 1), (["two", "strings"], 2), ([504, 3575], 1), ([[504, 3575], [28]], 2)])
def test_prompt_forms(server, prompt, n_choices):
    reply = server.complete(prompt=prompt, max_tokens=4, temperature=0)
    assert [c["index"] for c in reply["choices"]] == list(range(n_choices))
    assert all(c["finish_reason"] in ("stop", "length") for c in reply["choices"])


def test_ids_and_text_are_the_same_prompt(server):
    ids = requests.post(server.url + "/tokenize", json={"text": STORY}).json()["tokens"]
    assert server.complete(prompt=ids, max_tokens=20, temperature=0)["choices"][0]["text"] == \
        server.complete(prompt=STORY, max_tokens=20, temperature=0)["choices"][0]["text"]


def test_prompts_times_n_in_order(server):
    reply = server.complete(prompt=["A", STORY], n=2, max_tokens=5, temperature=0)
    texts = [c["text"] for c in reply["choices"]]
    assert len(texts) == 4 and texts[0] == texts[1] and texts[2] == texts[3] and texts[0] != texts[2]
    assert reply["usage"]["completion_tokens"] == 20


def test_seeds(server):
    ask = lambda seed, **kw: server.complete(prompt=STORY, max_tokens=24, temperature=1, seed=seed, **kw)["choices"]
    texts = {seed: ask(seed)[0]["text"] for seed in (0, 1, 2, 3)}
    assert len(set(texts.values())) == 4
    assert all(ask(seed)[0]["text"] == text for seed, text in texts.items())
    three = [c["text"] for c in ask(1, n=3)]
    assert three[0] == texts[1] and len(set(three)) == 3


def test_temperature_default_is_one_and_zero_is_greedy(server):
    texts = {server.complete(prompt=STORY, max_tokens=16)["choices"][0]["text"] for _ in range(4)}
    assert len(texts) > 1
    greedy = {server.complete(prompt=STORY, max_tokens=16, temperature=0)["choices"][0]["text"] for _ in range(3)}
    assert len(greedy) == 1
    for field in ({"top_k": 1}, {"top_p": 0}, {"top_p": 1e-9}):
        assert server.complete(prompt=STORY, max_tokens=16, **field)["choices"][0]["text"] in greedy


def test_null_is_the_default(server):
    body = dict(prompt=STORY, max_tokens=8, temperature=0)
    nulls = dict(top_p=None, top_k=None, seed=None, stop=None, n=None, stream=None, stream_options=None, user=None,
                 kv_budget=None, kv_policy=None, logprobs=None, suffix=None, logit_bias=None)
    assert server.complete(**body, **nulls)["choices"] == server.complete(**body)["choices"]


@pytest.mark.parametrize("pick", [
    lambda text: text[20:26], lambda text: [text[20:26]], lambda text: ["zzz", text[30:33]], lambda text: text[9],
    lambda text: ["never", text[40:60], "x" * 200, text[58:63]], lambda text: [text[-5:]]])
def test_stop_across_tokens(server, pick):
    """Wherever the stop begins and ends within tokens, none of it is shown, streamed or plain."""
    body = dict(prompt=STORY, max_tokens=40, temperature=0)
    whole = server.complete(**body)["choices"][0]["text"]
    stops = pick(whole)
    reply = server.complete(**body, stop=stops)
    text, finish, usage, _ = stream(server, **body, stop=stops, stream_options={"include_usage": True})
    expected = whole[:min(whole.index(s) for s in ([stops] if isinstance(stops, str) else stops) if s in whole)]
    assert reply["choices"][0]["text"] == expected == text[0]
    assert reply["choices"][0]["finish_reason"] == "stop" == finish[0]
    assert usage == reply["usage"]


@pytest.mark.parametrize("fields", [
    dict(temperature=0), dict(temperature=0, kv_budget=64), dict(temperature=1, seed=5), dict(temperature=2, seed=6),
    dict(temperature=1.3, top_p=0.9, seed=7, n=3), dict(temperature=0.8, top_k=40, min_p=0.05, seed=8, kv_budget=40)])
def test_streamed_equals_plain(server, fields):
    body = dict(prompt=STORY * 8, max_tokens=120, ignore_eos=True, **fields)
    reply = server.complete(**body)
    text, finish, usage, _ = stream(server, **body, stream_options={"include_usage": True})
    for choice in reply["choices"]:
        assert text[choice["index"]] == choice["text"]
        assert finish[choice["index"]] == choice["finish_reason"] == "length"
    assert usage == reply["usage"]


def test_raw_bytes_of_a_stream(server):
    reply = requests.post(server.url + "/v1/completions", timeout=60,
                          json=dict(prompt=PROMPT, max_tokens=3, temperature=0, stream=True))
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert reply.headers["Cache-Control"] == "no-cache" and reply.headers["X-Accel-Buffering"] == "no"
    events = reply.text.split("\n\n")
    assert events[-1] == "" and events[-2] == "data: [DONE]"
    chunks = [json.loads(e[6:]) for e in events[:-2]]
    assert all("usage" not in c or c["usage"] is None for c in chunks)
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_usage_chunk_comes_last_and_only_when_asked(server):
    _, _, usage, chunks = stream(server, prompt=PROMPT, max_tokens=3, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 3
    _, _, usage, _ = stream(server, prompt=PROMPT, max_tokens=3, stream_options={"include_usage": False})
    assert usage is None


def test_end_token_stops_unless_ignored(server):
    body = dict(prompt="<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n", temperature=0, max_tokens=300)
    reply = server.complete(**body)
    assert reply["choices"][0]["finish_reason"] == "stop" and reply["usage"]["completion_tokens"] < 300
    assert "<|im_end|>" not in reply["choices"][0]["text"]
    longer = server.complete(**body, ignore_eos=True)
    assert longer["choices"][0]["finish_reason"] == "length" and longer["usage"]["completion_tokens"] == 300


def test_length_defaults_and_clamps(server):
    reply = server.complete(prompt=STORY, ignore_eos=True)
    assert reply["usage"]["completion_tokens"] == 256 and reply["choices"][0]["finish_reason"] == "length"
    reply = server.complete(prompt=[28] * 8150, max_tokens=100000, ignore_eos=True, kv_budget=64)
    assert reply["usage"]["total_tokens"] == 8192


def test_utf8_is_never_split(server):
    text, _, _, chunks = stream(server, prompt="Emoji: 😀😃😄😁😆😅😂🤣 and more emoji: 😀😃😄", temperature=2, seed=3, top_k=0,
                                max_tokens=400, ignore_eos=True)
    reply = server.complete(prompt="Emoji: 😀😃😄😁😆😅😂🤣 and more emoji: 😀😃😄", temperature=2, seed=3, top_k=0,
                            max_tokens=400, ignore_eos=True)
    assert text[0] == reply["choices"][0]["text"]


def test_tokenize_round_trip(server):
    for text in ("Hello", "    x", "\n\n \n", "\t\t y  ", " " * 64, "a\u00a0b", "𝄞 \U0010ffff ́", "<|im_end|>", ""):
        reply = requests.post(server.url + "/tokenize", json={"text": text}).json()
        assert len(reply["tokens"]) == reply["count"]
        back = requests.post(server.url + "/detokenize", json={"tokens": reply["tokens"]}).json()["text"]
        assert back == text


def test_tokenize_is_near_linear(server):
    for unit in ("a", "_", " ", "界"):
        reply = requests.post(server.url + "/tokenize", json={"text": unit * 200000}, timeout=20)
        assert reply.status_code == 200 and reply.elapsed.total_seconds() < 5


def test_models_and_health(server):
    model = requests.get(server.url + "/v1/models").json()
    assert model["object"] == "list" and len(model["data"]) == 1
    assert server.complete(prompt="a", max_tokens=1)["model"] == model["data"][0]["id"]
    for path in ("/health", "/ready"):
        assert requests.get(server.url + path).status_code == 200
    assert requests.head(server.url + "/health").status_code == 200
