"""The server as clients meet it: a real process, real sockets, the openai client."""
import json
import socket
import threading
import time

import openai
import pytest

from serverlib import TINY, Server
from testlib import mlxcel

CHAT = {"messages": [{"role": "user", "content": "hello world"}], "temperature": 0, "max_tokens": 12}
PROMPT = {"prompt": "hello world", "temperature": 0, "max_tokens": 12}
LONG = {"prompt": "hello", "temperature": 0, "max_tokens": 100000, "ignore_eos": True}


@pytest.fixture(scope="module")
def server():
    s = Server("--parallel", 4, "-c", 4 * 20000)
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", timeout=30, max_retries=0)


def error_of(answer, status):
    code, _, body = answer
    assert code == status, body
    assert set(body) == {"error"} and body["error"]["message"]
    return body["error"]


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
    ("stream_options", 3), ("cache_prompt", 1), ("chat_template_kwargs", []),
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
    e = error_of(server.post("/v1/completions", {**PROMPT, "prompt": "a b" * 30000}), 400)
    assert e["code"] == "context_length_exceeded" and "20000" in e["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"prompt": "\xff"}', b'{"a":1}{', b"\x00" * 10])
def test_bad_json(server, body):
    error_of(server.post("/v1/completions", body), 400)


def test_routes(server):
    error_of(server.request("GET", "/nothing"), 404)
    status, headers, _ = server.request("DELETE", "/v1/models")
    assert status == 405 and headers["Allow"].startswith("GET")
    assert server.request("GET", "/v1/completions")[0] == 405
    status, headers, body = server.request("HEAD", "/health")
    assert status == 200 and body == b""
    status, headers, _ = server.request("OPTIONS", "/v1/chat/completions")
    assert status == 204 and "POST" in headers["Allow"]
    assert server.request("GET", "/props")[2]["default_generation_settings"]["n_ctx"] == 20000
    ids = server.post("/tokenize", {"content": "hello"})[2]["tokens"]
    assert server.post("/detokenize", {"tokens": ids})[2]["content"] == "hello"
    assert "assistant" in server.post("/apply-template", CHAT)[2]["prompt"]


# ---- the wire ----


def test_keep_alive_survives_errors_and_streams(server):
    c = server.connect()
    for path, body, status in [("/v1/completions", b"{", 400), ("/v1/completions", json.dumps({**PROMPT, "stream": True}), 200),
                               ("/nope", b"{}", 404), ("/v1/completions", json.dumps(PROMPT), 200)]:
        c.request("POST", path, body)
        r = c.getresponse()
        r.read()
        assert r.status == status
    c.close()


def test_pipelining_and_http10(server):
    one = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    assert server.raw(one + one).count(b'{"status":"ok"}') == 2
    body = json.dumps({**PROMPT, "stream": True}).encode()
    old = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert b"chunked" not in old.lower() and old.rstrip().endswith(b"data: [DONE]")


def test_chunked_body_and_expect(server):
    body = json.dumps(PROMPT).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    answer = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as s:
        s.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert s.recv(100).startswith(b"HTTP/1.1 100")
        s.sendall(body)
        assert b"HTTP/1.1 200" in s.recv(1000)


def test_conflicting_lengths(server):
    for extra in (b"Content-Length: 2\r\nContent-Length: 3\r\n", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"):
        answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + extra + b"\r\n{}")
        assert answer.startswith(b"HTTP/1.1 400"), answer


def test_limits(server):
    answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    answer = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")


def test_any_content_type(server):
    assert server.post("/v1/completions", PROMPT, **{"Content-Type": "text/plain"})[0] == 200


# ---- clients that leave ----


def busy(server):
    """Whether a sequence is running: with --parallel 1 another request would wait."""
    start = time.monotonic()
    assert server.post("/v1/completions", {**PROMPT, "max_tokens": 1})[0] == 200
    return time.monotonic() - start


@pytest.mark.parametrize("stream", [True, False])
def test_lost_client_frees_its_slot(stream):
    s = Server("--parallel", 1, "-c", 100000)
    try:
        with socket.create_connection(("127.0.0.1", s.port)) as c:
            body = json.dumps({**LONG, "stream": stream}).encode()
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if stream:
                assert b"200" in c.recv(100)
            else:
                time.sleep(0.3)
        assert busy(s) < 5
    finally:
        assert s.stop() == 0


def test_stream_headers_come_before_prefill():
    s = Server("--parallel", 1, "-c", 100000)
    try:
        with socket.create_connection(("127.0.0.1", s.port), timeout=20) as c:
            body = json.dumps({**PROMPT, "prompt": "hello world " * 20000, "stream": True}).encode()
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            first = c.recv(4096)
            assert first.startswith(b"HTTP/1.1 200") and b"data:" not in first
        assert busy(s) < 10
    finally:
        assert s.stop() == 0


# ---- life ----


def test_loading_and_failed(tmp_path):
    (tmp_path / "config.json").write_text((TINY / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes((TINY / "model.safetensors").read_bytes()[:-100])
    s = Server(model=tmp_path, wait=False)
    for _ in range(200):
        e = error_of(s.request("GET", "/health"), 503)
        if e["message"] != "Loading model":
            break
        time.sleep(0.02)
    assert "model.safetensors" in e["message"] and e["type"] == "unavailable_error" and e["code"] == 503
    assert error_of(s.post("/v1/chat/completions", CHAT), 503)["message"] == e["message"]
    assert s.process.poll() is None
    assert s.stop() == 0
    r = mlxcel("serve", "-m", tmp_path, "--port", "0", "--fail-fast", timeout=30)
    assert r.returncode == 1
    lines = [line for line in r.stderr.decode().splitlines() if line.startswith("mlxcel: error: ")]
    assert len(lines) == 1 and "model.safetensors" in lines[0]


def test_port_in_use(server):
    r = mlxcel("serve", "-m", TINY, "--port", server.port, timeout=30)
    assert r.returncode == 1 and r.stderr.decode().startswith("mlxcel: error: ")


def test_api_key():
    s = Server("--api-key", "secret", wait=False)
    try:
        for _ in range(200):
            if s.request("GET", "/health")[0] == 200:
                break
            time.sleep(0.02)
        missing, wrong = s.post("/v1/completions", PROMPT), s.post("/v1/completions", PROMPT, Authorization="Bearer nope")
        assert missing[0] == wrong[0] == 401 and missing[2] == wrong[2]
        assert s.post("/v1/completions", PROMPT, Authorization="Bearer secret")[0] == 200
        assert s.post("/v1/completions", PROMPT, **{"X-Api-Key": "secret"})[0] == 200
    finally:
        assert s.stop() == 0


def test_terminate_while_streaming():
    s = Server("-c", 100000)
    with socket.create_connection(("127.0.0.1", s.port), timeout=20) as c:
        body = json.dumps({**LONG, "stream": True}).encode()
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        c.recv(1000)
        start = time.monotonic()
        s.process.terminate()
        data = b""
        while chunk := c.recv(65536):
            data += chunk
        assert b"data: [DONE]" in data and data.endswith(b"0\r\n\r\n")
    assert s.process.wait(10) == 0
    assert time.monotonic() - start < 5


def test_idle_uses_no_processor(server):
    def used():
        fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    time.sleep(0.3)
    before = used()
    time.sleep(1)
    assert used() - before <= 2  # hundredths of a second
