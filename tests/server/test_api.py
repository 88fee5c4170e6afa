"""The APIs as clients meet them: the openai client, exactness, counts, stop strings, fields."""
import json
import threading

import openai
import pytest

from serverlib import CHAT, PROMPT, Server, error_of


# ---- the openai client ----


def test_openai_chat(client):
    r = client.chat.completions.create(model="any", **CHAT)
    assert r.object == "chat.completion" and r.choices[0].message.role == "assistant"
    assert r.choices[0].finish_reason in ("stop", "length")
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    again = client.chat.completions.create(model="any", **CHAT)
    assert again.choices[0].message.content == r.choices[0].message.content
    pieces = list(client.chat.completions.create(model="any", stream=True, stream_options={"include_usage": True}, **CHAT))
    assert pieces[0].choices[0].delta.role == "assistant"
    text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    assert text == r.choices[0].message.content
    assert pieces[-1].choices == [] and pieces[-1].usage.completion_tokens == r.usage.completion_tokens


def test_openai_completions_and_models(client):
    assert client.models.list().data[0].id == "tiny"
    r = client.completions.create(model="any", **PROMPT)
    text = "".join(p.choices[0].text for p in client.completions.create(model="any", stream=True, **PROMPT))
    assert text == r.choices[0].text


def test_openai_logprobs(client):
    r = client.chat.completions.create(model="any", logprobs=True, top_logprobs=3, **CHAT)
    content = r.choices[0].logprobs.content
    assert len(content) == r.usage.completion_tokens
    for c in content:
        assert len(c.top_logprobs) == 3
        assert c.top_logprobs[0].logprob == pytest.approx(c.logprob)
        assert c.top_logprobs[0].logprob >= c.top_logprobs[1].logprob >= c.top_logprobs[2].logprob
    alone = client.chat.completions.create(model="any", logprobs=True, **CHAT)
    assert all(c.top_logprobs == [] for c in alone.choices[0].logprobs.content)


def test_openai_error(client):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="any", **{**CHAT, "temperature": -1})
    assert "temperature" in str(e.value)


# ---- exactness ----


def test_batched_is_solo(server):
    bodies = [{"prompt": f"hello {i} world", "max_tokens": 40, "seed": i, "temperature": 1 if i % 2 else 0} for i in range(8)]
    solo = [server.post("/v1/completions", b)[2]["choices"][0]["text"] for b in bodies]
    got = [None] * len(bodies)

    def one(i):
        got[i] = server.post("/v1/completions", {**bodies[i], "cache_prompt": False})[2]["choices"][0]["text"]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(bodies))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == solo


def test_several_choices(server):
    body = {"prompt": "hello", "max_tokens": 16, "temperature": 1.5, "n": 4, "seed": 3}
    a = server.post("/v1/completions", body)[2]
    b = server.post("/v1/completions", body)[2]
    texts = [c["text"] for c in a["choices"]]
    assert texts == [c["text"] for c in b["choices"]]
    assert len(set(texts)) > 1 and [c["index"] for c in a["choices"]] == [0, 1, 2, 3]
    assert a["usage"]["completion_tokens"] <= 64 and a["usage"]["prompt_tokens"] == 1


def test_stop_strings(server):
    whole = server.post("/completion", {"prompt": "hello world", "n_predict": 60, "temperature": 0, "ignore_eos": True})[2]["content"]
    stop = whole[10:13]
    cut = whole.index(stop)
    r = server.post("/completion", {"prompt": "hello world", "n_predict": 60, "temperature": 0, "ignore_eos": True, "stop": [stop]})[2]
    assert r["content"] == whole[:cut] and r["stop_type"] == "word" and r["stopping_word"] == stop
    events = server.stream("/completion", {"prompt": "hello world", "n_predict": 60, "temperature": 0, "ignore_eos": True, "stop": stop})
    assert "".join(e["content"] for e in events) == whole[:cut]


def test_cached_tokens(server):
    body = {"prompt": "the world in the world in the world", "temperature": 0, "max_tokens": 8}
    cold = server.post("/v1/completions", {**body, "cache_prompt": False})[2]
    warm = server.post("/v1/completions", body)[2]
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == warm["usage"]["prompt_tokens"] - 1
    assert warm["timings"]["cache_n"] == warm["usage"]["prompt_tokens"] - 1
    assert warm["choices"][0]["text"] == cold["choices"][0]["text"]


# ---- requests that must be refused ----


@pytest.mark.parametrize("field, value", [
    ("temperature", "hot"), ("temperature", -0.1), ("top_p", 1.5), ("min_p", -1), ("top_k", 1.5), ("max_tokens", -2),
    ("max_tokens", "10"), ("n", 0), ("n", 1000), ("stream", "yes"), ("stop", [1]), ("stop", {}), ("logit_bias", {"99999": 1}),
    ("logit_bias", [1]), ("seed", 1.5), ("top_logprobs", 21), ("logprobs", 3), ("tools", [{"type": "function"}]),
    ("response_format", {"type": "json_object"}), ("messages", []), ("messages", "hi"), ("messages", [{"content": "x"}]),
    ("messages", [{"role": "user", "content": "  \n"}]), ("messages", [{"role": "user", "content": [{"type": "image_url"}]}]),
    ("stream_options", 3), ("cache_prompt", 1), ("chat_template_kwargs", []), ("temperature", [0.5]), ("top_p", -0.1),
    ("top_p", True), ("frequency_penalty", "x"), ("presence_penalty", {}), ("repeat_penalty", -1), ("repeat_last_n", -2),
    ("max_completion_tokens", -5), ("max_tokens", 0.5), ("n", "2"), ("n", 65), ("seed", "x"), ("stop", [None]),
    ("stop", ["x"] * 33), ("stop", "x" * 5000), ("logit_bias", "x"), ("logit_bias", {"5": "x"}), ("logit_bias", [[5]]),
    ("logit_bias", {"-1": 1}), ("logit_bias", {"5": 1e300}), ("logit_bias", [[i % 200, 1] for i in range(5000)]),
    ("top_logprobs", 3), ("top_logprobs", "3"), ("stream_options", {"include_usage": 1}), ("messages", None),
    ("messages", [7]), ("messages", [{"role": 1, "content": "x"}]), ("messages", [{"role": "user", "content": 7}]),
    ("messages", [{"role": "user", "content": ["x"]}]), ("messages", [{"role": "user", "content": None}]),
    ("messages", [{"role": "user"}]), ("messages", [{"role": "user", "content": []}]), ("functions", [{}]),
    ("tool_choice", "auto"), ("grammar", "root ::= x"), ("json_schema", {"type": "object"}), ("lora", [{"id": 0}]),
    ("mirostat", 2), ("typical_p", 0.5), ("dry_multiplier", 1), ("xtc_probability", 0.5), ("reasoning_effort", "high"),
    ("model", 7),
])
def test_bad_field(server, field, value):
    e = error_of(server.post("/v1/chat/completions", {**CHAT, field: value}), 400)
    assert e["type"] == "invalid_request_error" and field in e["message"] + str(e.get("param")), e


def test_null_is_default_and_unknown_is_ignored(server):
    a = server.post("/v1/chat/completions", CHAT)[2]["choices"]
    b = server.post("/v1/chat/completions", {**CHAT, "top_p": None, "stop": None, "logit_bias": None, "whatever": 1})[2]["choices"]
    assert a == b


def test_token_ids(server):
    assert server.post("/v1/completions", {**PROMPT, "prompt": [5, 6, 7]})[0] == 200
    assert server.post("/v1/completions", {**PROMPT, "prompt": ["a", "b"]})[2]["choices"][1]["index"] == 1
    for bad in ([5, 99999], [-1], [], [[]], 7, [{}], None):
        error_of(server.post("/v1/completions", {**PROMPT, "prompt": bad}), 400)


def test_max_tokens_zero_and_context(server):
    r = server.post("/v1/completions", {**PROMPT, "max_tokens": 0})[2]
    assert r["choices"][0]["text"] == "" and r["choices"][0]["finish_reason"] == "length"
    assert r["usage"]["completion_tokens"] == 0
    whole = server.post("/v1/completions", {**PROMPT, "max_tokens": -1, "stop": "\u2028"})[2]
    huge = server.post("/v1/completions", {**PROMPT, "max_tokens": 10**15})[2]
    assert huge["choices"][0]["text"].startswith(whole["choices"][0]["text"][:20]) and huge["usage"]["total_tokens"] <= 20000
    for path, body in (("/v1/completions", {"prompt": [65] * 20000}), ("/completion", {"prompt": [65] * 20000}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 20000}]})):
        e = error_of(server.post(path, body), 400)
        assert e["code"] == "context_length_exceeded" and e["type"] == "invalid_request_error"
        assert "20000" in e["message"] and "tokens" in e["message"]
        assert e["param"] == ("messages" if "messages" in body else "prompt")
    assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 0, "logprobs": 1})[0] == 200


def test_unsupported_of_other_apis(server):
    for field, value in [("echo", True), ("suffix", "x"), ("best_of", 2)]:
        assert field in error_of(server.post("/v1/completions", {**PROMPT, field: value}), 400)["message"]
    for field, value in [("echo", False), ("suffix", ""), ("suffix", None), ("best_of", 1), ("tools", []), ("grammar", "")]:
        assert server.post("/v1/completions", {**PROMPT, field: value})[0] == 200
    for body in ({}, {"content": 1}, {"content": "a", "add_special": 1}, {"content": "a", "with_pieces": 1}):
        error_of(server.post("/tokenize", body), 400)
    for body in ({}, {"tokens": "x"}, {"tokens": ["x"]}, {"tokens": [1, -1]}, {"tokens": {}}):
        error_of(server.post("/detokenize", body), 400)
    error_of(server.post("/completion", {**PROMPT, "n_probs": 21}), 400)
    error_of(server.post("/v1/completions", {**PROMPT, "logprobs": 21}), 400)
    error_of(server.post("/v1/completions", {**PROMPT, "logprobs": "x"}), 400)


def test_openai_stream_usage(client):
    """Usage comes once, at the end, and only when it is asked for."""
    for stream in (client.chat.completions.create(model="any", stream=True, **CHAT),
                   client.completions.create(model="any", stream=True, **PROMPT)):
        chunks = list(stream)
        assert all(c.usage is None for c in chunks)
        assert chunks[-1].choices[0].finish_reason in ("stop", "length")
        assert chunks[-1].model_extra["timings"]["predicted_n"] >= 1
    chunks = list(client.completions.create(model="any", stream=True, stream_options={"include_usage": True}, **PROMPT))
    assert chunks[-1].choices == [] and all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].usage.total_tokens == chunks[-1].usage.prompt_tokens + chunks[-1].usage.completion_tokens


def test_stream_logprobs(client):
    whole = client.chat.completions.create(model="any", logprobs=True, top_logprobs=2, **CHAT).choices[0].logprobs.content
    pieces = []
    for c in client.chat.completions.create(model="any", logprobs=True, top_logprobs=2, stream=True, **CHAT):
        pieces += c.choices[0].logprobs.content if c.choices[0].logprobs else []
    assert pieces == whole
    none = client.chat.completions.create(model="any", logprobs=True, **{**CHAT, "max_tokens": 0})
    assert none.choices[0].logprobs.content == []
    assert client.chat.completions.create(model="any", **CHAT).choices[0].logprobs is None


def test_legacy_logprobs(client):
    r = client.completions.create(model="any", logprobs=2, extra_body={"ignore_eos": True}, **PROMPT)
    l = r.choices[0].logprobs
    assert len(l.tokens) == len(l.token_logprobs) == len(l.top_logprobs) == len(l.text_offset) == r.usage.completion_tokens
    assert all(len(t) <= 2 for t in l.top_logprobs) and l.text_offset[0] == 0
    zero = client.completions.create(model="any", logprobs=0, **PROMPT).choices[0].logprobs
    assert all(t == {} for t in zero.top_logprobs) and len(zero.tokens) == len(zero.text_offset)
    assert client.completions.create(model="any", **PROMPT).choices[0].logprobs is None


def test_native_probabilities(server):
    r = server.post("/completion", {**PROMPT, "n_probs": 3, "return_tokens": True})[2]
    assert len(r["completion_probabilities"]) == r["tokens_predicted"] == len(r["tokens"])
    for token, p in zip(r["tokens"], r["completion_probabilities"]):
        assert p["id"] == token == p["top_logprobs"][0]["id"] and len(p["top_logprobs"]) == 3
        assert p["logprob"] == pytest.approx(p["top_logprobs"][0]["logprob"])


def test_logprobs_are_of_raw_logits(server):
    """A bias and a temperature change what is drawn, not what is reported."""
    plain = server.post("/completion", {**PROMPT, "max_tokens": 1, "n_probs": 1})[2]["completion_probabilities"][0]
    other = plain["id"] % 200 + 20
    forced = server.post("/completion", {**PROMPT, "max_tokens": 1, "n_probs": 1, "temperature": 2, "seed": 1,
                                         "logit_bias": {str(other): 1000}})[2]["completion_probabilities"][0]
    assert forced["id"] == other and forced["logprob"] < plain["logprob"]
    assert forced["top_logprobs"][0]["id"] == plain["id"]
    assert forced["top_logprobs"][0]["logprob"] == plain["logprob"]


def test_usage_counts_all_choices(server):
    body = {"prompt": ["hello", "hello world"], "max_tokens": 5, "n": 3, "temperature": 1, "ignore_eos": True, "seed": 1}
    r = server.post("/v1/completions", body)[2]
    alone = [server.post("/v1/completions", {**body, "prompt": p})[2] for p in body["prompt"]]
    assert [c["index"] for c in r["choices"]] == list(range(6))
    assert r["usage"]["completion_tokens"] == 6 * 5
    assert r["usage"]["prompt_tokens"] == sum(a["usage"]["prompt_tokens"] for a in alone)
    # a prompt's answers do not depend on the other prompts of the request
    assert [c["text"] for c in r["choices"]] == [c["text"] for a in alone for c in a["choices"]]
    events = server.stream("/v1/completions", {**body, "stream_options": {"include_usage": True}})
    assert events[-1] == "[DONE]" and events[-2]["usage"]["completion_tokens"] == 30
    texts = [""] * 6
    for e in events[:-2]:
        texts[e["choices"][0]["index"]] += e["choices"][0]["text"]
    assert texts == [c["text"] for c in r["choices"]]


def test_seed(server):
    body = {"prompt": "hello", "max_tokens": 20, "temperature": 1.5, "ignore_eos": True}
    text = lambda seed: server.post("/v1/completions", {**body, "seed": seed})[2]["choices"][0]["text"]
    assert text(7) == text(7) != text(8)
    assert text(-1) != text(-1) and text(None) != text(None)


def test_special_tokens_of_users(server):
    """parse_special: false makes control tokens in messages and prompts plain text: more tokens, the same text."""
    def prompt_tokens(path, body, s=server):
        usage = s.post(path, {**body, "max_tokens": 1, "temperature": 0})[2]["usage"]
        return usage["prompt_tokens"]

    typed = {"messages": [{"role": "user", "content": "hello <|im_end|> world"}]}
    usual, plain = (prompt_tokens("/v1/chat/completions", {**typed, "parse_special": p}) for p in (None, False))
    assert plain > usual
    text = server.post("/apply-template", typed)[2]["prompt"]
    count = lambda p: len(server.post("/tokenize", {"content": text, "parse_special": p})[2]["tokens"])
    assert usual == count(True) < plain < count(False)  # those that the template writes still count
    assert prompt_tokens("/v1/chat/completions", {**CHAT, "parse_special": False}) == prompt_tokens("/v1/chat/completions", CHAT)
    completion = {"prompt": "<|im_end|>"}
    assert prompt_tokens("/v1/completions", {**completion, "parse_special": False}) > prompt_tokens("/v1/completions", completion)
    error_of(server.post("/v1/completions", {**completion, "parse_special": "no"}), 400)


def test_server_forbids_special_tokens(server):
    """--no-parse-special holds for chats whatever the request says."""
    body = {"messages": [{"role": "user", "content": "hello <|im_end|> world"}], "max_tokens": 1}
    plain = server.post("/v1/chat/completions", {**body, "parse_special": False})[2]["usage"]["prompt_tokens"]
    strict = Server("--no-parse-special")
    try:
        for field in ({}, {"parse_special": True}, {"parse_special": False}):
            assert strict.post("/v1/chat/completions", {**body, **field})[2]["usage"]["prompt_tokens"] == plain
    finally:
        assert strict.stop() == 0


def test_chat_template_kwargs(tmp_path):
    """The option's variables hold where a request does not set them."""
    template = tmp_path / "t.jinja"
    template.write_text("{{ think }} {{ style }} {{ messages[0].content }}")
    s = Server("--chat-template-file", template, "--chat-template-kwargs", '{"think": false, "style": "dry"}')
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    text = lambda **kwargs: s.post("/apply-template", {**chat, **kwargs})[2]["prompt"]
    assert text() == text(chat_template_kwargs={}) == "False dry hi"
    assert text(chat_template_kwargs={"think": True}) == "True dry hi"
    assert text() == "False dry hi"
    assert s.stop() == 0


def test_developer_is_system(server):
    chat = lambda role: {"messages": [{"role": role, "content": "be brief"}, {"role": "user", "content": "hi"}],
                         "temperature": 0, "max_tokens": 8}
    assert server.post("/apply-template", chat("developer"))[2] == server.post("/apply-template", chat("system"))[2]
    answers = [server.post("/v1/chat/completions", chat(r))[2] for r in ("developer", "system")]
    assert answers[0]["choices"] == answers[1]["choices"]


def test_penalties(server):
    text = lambda **more: server.post("/v1/completions", {"prompt": "hello hello hello", "temperature": 0, "max_tokens": 30,
                                                          "ignore_eos": True, **more})[2]["choices"][0]["text"]
    plain = text()
    assert text(repeat_penalty=1) == plain == text(repetition_penalty=1.0)
    assert text(repeat_penalty=5) == text(repetition_penalty=5) != plain
    assert text(repeat_penalty=5, repeat_last_n=0) == plain
    assert text(presence_penalty=9) != plain != text(frequency_penalty=9)


def test_logit_bias(server):
    ask = lambda bias: server.post("/completion", {**PROMPT, "max_tokens": 4, "ignore_eos": True, "return_tokens": True,
                                                   "logit_bias": bias})[2]["tokens"]
    assert ask({"65": 1000}) == ask([[65, 1000]]) == [65] * 4
    assert 65 not in ask({"65": False})
    ids = server.post("/tokenize", {"content": "hello"})[2]["tokens"]
    assert ask([["hello", 1000]]) == [ids[0]] * 4


def test_held_text_is_emitted(server):
    """What might begin a stop string comes out when the answer ends otherwise, also in a stream."""
    body = {"prompt": "hello world", "n_predict": 20, "temperature": 0, "ignore_eos": True}
    whole = server.post("/completion", body)[2]["content"]
    stop = [whole[i:] + "never" for i in range(5, len(whole))][:20]
    r = server.post("/completion", {**body, "stop": stop})[2]
    assert r["content"] == whole and r["stop_type"] == "limit" and r["stopping_word"] == ""
    assert "".join(e["content"] for e in server.stream("/completion", {**body, "stop": stop})) == whole


def test_first_stop_string(server):
    body = {"prompt": "hello world", "n_predict": 60, "temperature": 0, "ignore_eos": True}
    whole = server.post("/completion", body)[2]["content"]
    for stops in ([whole[9:11], whole[7:14]], [whole[20:22], whole[3:5]], [whole[10:], "zzz"]):
        r = server.post("/completion", {**body, "stop": stops})[2]
        assert r["content"] == whole[:min(whole.index(s) for s in stops if s in whole)]
        assert r["stopping_word"] in stops


def test_timings(server):
    for path in ("/v1/completions", "/v1/chat/completions", "/completion"):
        r = server.post(path, {**PROMPT, **CHAT, "cache_prompt": False})[2]
        t = r["timings"]
        assert t["cache_n"] == 0 and t["prompt_n"] > 0 and t["predicted_n"] > 0
        assert t["prompt_ms"] > 0 and t["predicted_ms"] >= 0
        if "usage" in r:
            assert t["prompt_n"] == r["usage"]["prompt_tokens"] and t["predicted_n"] == r["usage"]["completion_tokens"]
        else:
            assert t["prompt_n"] == r["tokens_evaluated"] and t["predicted_n"] == r["tokens_predicted"]


def test_reuse_is_by_token(server):
    base = "in the world hello the world in the world hello in the " * 8
    server.post("/v1/completions", {"prompt": base + "one", "max_tokens": 2})
    n = len(server.post("/tokenize", {"content": base})[2]["tokens"])
    r = server.post("/v1/completions", {"prompt": base + "two", "max_tokens": 2})[2]
    assert abs(r["usage"]["prompt_tokens_details"]["cached_tokens"] - n) <= 1
    assert r["usage"]["prompt_tokens_details"]["cached_tokens"] % 64  # not only whole pages


def test_openai_model(client, server):
    assert client.models.retrieve("tiny").model_dump() == client.models.list().data[0].model_dump()
    assert server.request("GET", "/models/tiny")[2] == server.request("GET", "/v1/models")[2]["data"][0]
    for other in ("tin", "tiny/", "tiny2", "a/b", "x" * 3000, "%22%0a", "%ff%c3"):
        assert error_of(server.request("GET", f"/v1/models/{other}"), 404)["param"] == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/other")
    assert "docs/server.md" in error_of(server.request("GET", "/v1/models/"), 404)["message"]
    code, headers, _ = server.post("/v1/models/tiny", {})
    assert code == 405 and headers["Allow"] == "GET, HEAD, OPTIONS"
    named = Server("--alias", "org/model: 1")
    try:
        url = f"http://127.0.0.1:{named.port}/v1"
        assert openai.OpenAI(base_url=url, api_key="none").models.retrieve("org/model: 1").id == "org/model: 1"
        assert named.request("GET", "/v1/models/org/model:%201")[0] == 200
    finally:
        assert named.stop() == 0
