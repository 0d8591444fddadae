"""What requests ask of single tokens: log-probabilities, echo, biases, penalties, ends, the best of several."""
import collections
import concurrent.futures
import json
import math

import openai
import pytest
import requests

PROMPT = "The capital of France is"
STORY = "Once upon a time, in a small village by the sea,"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def post(server, path, **body):
    return requests.post(server.url + path, json=body, timeout=120).json()


def ids_of(server, text):
    return post(server, "/tokenize", text=text)["tokens"]


def answer(server, **body):
    return server.complete(**{"temperature": 0, "max_tokens": 24, **body})["choices"][0]


def events(server, path="/v1/completions", **body):
    reply = requests.post(server.url + path, json=dict(body, stream=True), timeout=120)
    assert reply.status_code == 200, reply.text
    return [json.loads(e[6:]) for e in reply.content.split(b"\n\n") if e.startswith(b"data: {")]


# --- log-probabilities ---

def test_completions_logprobs(client):
    reply = client.completions.create(model="", extra_body={"model": None}, prompt=PROMPT, max_tokens=8, temperature=0,
                                      logprobs=5)
    choice = reply.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert choice.logprobs.text_offset[0] == 0 and len(choice.logprobs.text_offset) == 8
    for token, value, top in zip(choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs):
        assert len(top) == 5 and top[token] == value == max(top.values())  # greedy takes the best
        assert value <= 0 and sum(math.exp(v) for v in top.values()) <= 1 + 1e-5


def test_chat_logprobs(client):
    ask = dict(model="", extra_body={"model": None}, messages=[{"role": "user", "content": "Show a smiling emoji."}],
               max_tokens=12, temperature=0, logprobs=True, top_logprobs=3)
    choice = client.chat.completions.create(**ask).choices[0]
    entries = choice.logprobs.content
    assert bytes(b for e in entries for b in e.bytes).decode(errors="replace") == choice.message.content
    for e in entries:
        assert len(e.top_logprobs) == 3 and e.token == bytes(e.bytes).decode(errors="replace")
        assert (e.top_logprobs[0].token, e.top_logprobs[0].logprob) == (e.token, e.logprob)
    streamed = [e for chunk in client.chat.completions.create(**ask, stream=True) for c in chunk.choices
                if c.logprobs for e in c.logprobs.content]
    assert streamed == entries


def test_values_are_those_of_the_models_own_distribution(server):
    """Neither temperature nor filters nor biases change them; the drawn token is told even where it is not likely."""
    plain = answer(server, prompt=PROMPT, max_tokens=1, logprobs=2)["logprobs"]
    for fields in ({"temperature": 2}, {"top_k": 1}, {"top_p": 0.1}, {"presence_penalty": 2}):
        assert answer(server, prompt=PROMPT, max_tokens=1, logprobs=2, seed=3, **fields)["logprobs"]["top_logprobs"][0].items() \
            >= plain["top_logprobs"][0].items()
    odd = ids_of(server, " zebra")[0]
    forced = answer(server, prompt=PROMPT, max_tokens=1, logprobs=2, logit_bias={str(odd): 100})["logprobs"]
    assert forced["tokens"] == [" zebra"] and forced["token_logprobs"][0] < -8 and len(forced["top_logprobs"][0]) == 3
    banned = answer(server, prompt=PROMPT, max_tokens=1, logprobs=1, logit_bias={str(ids_of(server, " Paris")[0]): -100})
    assert banned["text"] != " Paris" and banned["logprobs"]["top_logprobs"][0][" Paris"] == plain["token_logprobs"][0]


def test_echo_scores_the_prompt(server):
    """What was drawn gets the same value when it is read again as part of a prompt."""
    first = answer(server, prompt=PROMPT, logprobs=0, ignore_eos=True)
    reply = server.complete(prompt=PROMPT + first["text"], echo=True, logprobs=0, max_tokens=0)
    again, usage = reply["choices"][0], reply["usage"]
    assert again["text"] == PROMPT + first["text"] and again["finish_reason"] == "length"
    assert usage["completion_tokens"] == 0 and usage["prompt_tokens"] == len(again["logprobs"]["tokens"])
    assert again["logprobs"]["token_logprobs"][0] is None and again["logprobs"]["top_logprobs"][0] is None
    n = len(first["logprobs"]["tokens"])
    assert again["logprobs"]["tokens"][-n:] == first["logprobs"]["tokens"]
    assert again["logprobs"]["token_logprobs"][-n:] == pytest.approx(first["logprobs"]["token_logprobs"], abs=0.02)
    for token, offset in zip(again["logprobs"]["tokens"], again["logprobs"]["text_offset"]):
        assert again["text"][offset:].startswith(token)


def test_echo_and_answer_join(server):
    choice = answer(server, prompt="A B C", echo=True, logprobs=1, max_tokens=1)
    assert choice["text"].startswith("A B C") and len(choice["logprobs"]["token_logprobs"]) == 4
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert answer(server, prompt="A B C", echo=True)["text"] == "A B C" + answer(server, prompt="A B C")["text"]
    ids = ids_of(server, "caf\u00e9 \U0001F600 x")
    choice = answer(server, prompt=ids, echo=True, max_tokens=0, logprobs=0)
    assert choice["text"] == "caf\u00e9 \U0001F600 x"
    assert choice["logprobs"]["text_offset"][-1] == len("caf\u00e9 \U0001F600")  # characters, not bytes
    both = server.complete(prompt=["A B C", "caf\u00e9"], n=2, echo=True, max_tokens=2)["choices"]
    assert [c["text"][:4] for c in both] == ["A B "] * 2 + ["caf\u00e9"] * 2


@pytest.mark.parametrize("fields", [{}, {"stop": ["sea"]}, {"stop": [" the s", "nd "]}, {"echo": True}, {"max_tokens": 3}])
def test_streams_tell_the_same_entries(server, fields):
    body = {**dict(prompt=STORY, temperature=0, max_tokens=30, logprobs=1), **fields}
    plain = server.complete(**body)["choices"][0]
    joined, text = collections.defaultdict(list), ""
    for event in events(server, **body):
        for choice in event["choices"]:
            text += choice["text"]
            for name, values in (choice["logprobs"] or {}).items():
                joined[name] += values
            shown = "".join((choice["logprobs"] or {"tokens": []})["tokens"])
            assert shown.startswith(choice["text"]) or "stop" in fields
    assert text == plain["text"] and text and joined == plain["logprobs"]


def test_stop_strings_cut_entries(server):
    whole = answer(server, prompt=STORY, logprobs=0)
    tokens = whole["logprobs"]["tokens"]
    at = sum(len(t) for t in tokens[:6]) + 1  # within the seventh token
    stop = whole["text"][at:at + 9]
    cut = answer(server, prompt=STORY, logprobs=0, stop=stop)
    assert cut["text"] == whole["text"][:whole["text"].index(stop)] and cut["finish_reason"] == "stop"
    n = len(cut["logprobs"]["tokens"])
    assert cut["logprobs"]["tokens"] == tokens[:n]
    assert len("".join(tokens[:n - 1])) < len(cut["text"]) <= len("".join(tokens[:n]))


def test_company_changes_no_bit(server, data):
    """Log-probabilities, penalties and draws of a sequence alone are those of the same sequence among others."""
    text = (data / "doc.txt").read_text()
    ask = dict(prompt=text[:900], echo=True, logprobs=3, max_tokens=24, temperature=0.9, seed=5, kv_budget=64,
               repetition_penalty=1.2, frequency_penalty=0.3, presence_penalty=0.1, min_tokens=24)
    alone = server.complete(**ask)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        others = [pool.submit(server.complete, prompt=text[i * 300:i * 300 + 700], max_tokens=40, seed=i, logprobs=i % 5,
                              echo=i % 2 == 0) for i in range(6)]
        crowd = [pool.submit(server.complete, **ask) for _ in range(2)]
    assert all(o.result() for o in others)
    for reply in crowd:
        assert reply.result()["choices"] == alone["choices"]


# --- biases ---

@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 1, "seed": 2}, {"temperature": 2, "top_p": 0.9, "seed": 3}])
def test_bias_bans_and_forces(server, fields):
    paris, lyon = ids_of(server, " Paris")[0], ids_of(server, " Lyon")[0]
    for seed in range(3):
        body = dict(prompt=PROMPT, max_tokens=12, ignore_eos=True, **{**fields, "seed": seed})
        assert " Paris" not in answer(server, **body, logit_bias={str(paris): -100})["text"]
        assert answer(server, **body, logit_bias={str(lyon): 100})["text"] == " Lyon" * 12


def test_an_emoji_forced_byte_by_byte_arrives_whole(server):
    """Only the three byte tokens of an emoji can be drawn, and the model copies it: each event holds whole characters."""
    star = "\U0001F31F"
    bias = {str(t): 100 for t in ids_of(server, star)}
    assert len(bias) == 3
    texts = [c["text"] for e in events(server, prompt=star * 8, max_tokens=24, temperature=0, logit_bias=bias,
                                       ignore_eos=True) for c in e["choices"]]
    assert [t for t in texts if t] == [star] * 8


# --- penalties ---

def test_penalties_lower_repetition(server):
    body = dict(prompt="one one one one one one one one one one", temperature=0, max_tokens=40, ignore_eos=True, logprobs=0)

    def most_common(**fields):
        return max(collections.Counter(answer(server, **body, **fields)["logprobs"]["tokens"]).values())

    plain = most_common()
    assert plain >= 10
    for fields in ({"frequency_penalty": 2}, {"presence_penalty": 2, "frequency_penalty": 1}, {"repetition_penalty": 1.5}):
        assert most_common(**fields) < plain / 2
    assert most_common(frequency_penalty=-2) >= plain


# --- ends ---

HI = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n"


def test_min_tokens_keeps_ends_away(server):
    plain = server.complete(prompt=HI, temperature=0, max_tokens=100)
    n = plain["usage"]["completion_tokens"]
    assert plain["choices"][0]["finish_reason"] == "stop"
    longer = server.complete(prompt=HI, temperature=0, max_tokens=100, min_tokens=n + 5)
    assert longer["usage"]["completion_tokens"] >= n + 5
    assert longer["choices"][0]["text"].startswith(plain["choices"][0]["text"])
    assert server.complete(prompt=HI, temperature=0, max_tokens=100, min_tokens=n - 1)["choices"] == plain["choices"]


def test_stop_token_ids(server):
    whole = answer(server, prompt=STORY, logprobs=0)
    token = whole["logprobs"]["tokens"][4]
    stop = ids_of(server, token)[0]
    cut = server.complete(prompt=STORY, temperature=0, max_tokens=24, stop_token_ids=[1, stop], ignore_eos=True)
    assert cut["choices"][0]["text"] == whole["text"][:whole["text"].index(token)]
    assert cut["choices"][0]["finish_reason"] == "stop" and cut["usage"]["completion_tokens"] <= 5
    banned = server.complete(prompt=STORY, temperature=0, max_tokens=24, stop_token_ids=[stop], min_tokens=24)
    assert token not in banned["choices"][0]["text"] and banned["choices"][0]["finish_reason"] == "length"


# --- several ---

def mean(choice):
    values = choice["logprobs"]["token_logprobs"]
    return sum(values) / len(values)


def test_the_best_are_the_most_probable(server):
    body = dict(prompt=STORY, temperature=1.2, seed=11, max_tokens=10, logprobs=0, ignore_eos=True)
    tried = server.complete(**body, n=8)
    best = server.complete(**body, n=3, best_of=8)
    assert [c["index"] for c in best["choices"]] == [0, 1, 2]
    ranked = sorted(tried["choices"], key=mean, reverse=True)
    assert [c["text"] for c in best["choices"]] == [c["text"] for c in ranked[:3]]
    assert best["usage"]["completion_tokens"] == tried["usage"]["completion_tokens"]
    unasked = server.complete(**{**body, "logprobs": None}, best_of=8)["choices"]
    assert [c["text"] for c in unasked] == [ranked[0]["text"]] and unasked[0]["logprobs"] is None


def test_each_choice_has_a_seed_of_its_own(server):
    body = dict(prompt=STORY, temperature=1, seed=7, max_tokens=10)
    three = [c["text"] for c in server.complete(**body, n=3)["choices"]]
    assert len(set(three)) == 3 and three == [c["text"] for c in server.complete(**body, n=3)["choices"]]
    assert server.complete(**body)["choices"][0]["text"] == three[0]
    assert len({c["text"] for c in server.complete(prompt="a", n=2, temperature=0, max_tokens=5)["choices"]}) == 1


# --- fields together ---

@pytest.mark.parametrize("fields, param", [
    ({"top_logprobs": 2}, "top_logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": 1}, "logprobs"), ({"echo": True}, "echo"), ({"best_of": 2}, "best_of"), ({"max_tokens": 0}, "max_tokens"),
    ({"logit_bias": {"49152": 1}}, "logit_bias"), ({"suffix": "x"}, "suffix")])
def test_what_chats_refuse(server, fields, param):
    reply = requests.post(server.url + "/v1/chat/completions", timeout=60,
                          json={"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, **fields})
    assert reply.status_code == 400 and reply.json()["error"]["param"] == param


def test_the_text_of_tokens_is_bounded(server):
    [spaces] = ids_of(server, " " * 64)
    most = (16 << 20) // 64
    reply = requests.post(server.url + "/detokenize", json={"tokens": [spaces] * (most + 1)}, timeout=120)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "tokens", reply.text[:200]
    reply = requests.post(server.url + "/detokenize", json={"tokens": [spaces] * most}, timeout=120)
    assert reply.status_code == 200 and len(reply.json()["text"]) == 16 << 20
