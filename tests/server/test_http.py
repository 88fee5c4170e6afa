"""HTTP itself: routes and methods, connections, bodies, limits, and everything that is not HTTP."""
import json
import random
import socket
import time

import pytest

from serverlib import CHAT, PROMPT, Server, error_of, wait_for


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
    pieces = server.post("/tokenize", {"content": "hello \u2603", "with_pieces": True})[2]["tokens"]
    bytes_of = lambda piece: piece.encode() if isinstance(piece, str) else bytes(piece)
    assert b"".join(bytes_of(t["piece"]) for t in pieces).decode() == "hello \u2603" and pieces[0]["id"] == ids[0]
    assert "assistant" in server.post("/apply-template", CHAT)[2]["prompt"]


def test_pages_of_any_origin_may_ask(server):
    for answer in (server.request("GET", "/health"), server.request("GET", "/nothing"), server.post("/v1/completions", PROMPT)):
        assert answer[1]["Access-Control-Allow-Origin"] == "*"
    headers = server.request("OPTIONS", "/v1/chat/completions", headers={"Origin": "http://other.example"})[1]
    assert headers["Access-Control-Allow-Headers"] == "*" and "POST" in headers["Access-Control-Allow-Methods"]


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


def test_unsupported_transfer_coding(server):
    answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 501"), answer


def test_chunked_body_beyond_the_limit(server):
    """Without a declared length it is noticed while it comes; the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        for _ in range(33):
            s.sendall(piece)
        s.sendall(b"0\r\n\r\n")
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 413") and b"32 MiB" in answer


def test_routes_known_but_not_built(server):
    for method, path in [("GET", "/metrics"), ("GET", "/slots"), ("POST", "/v1/embeddings"),
                         ("POST", "/v1/messages"), ("POST", "/v1/rerank"), ("POST", "/infill")]:
        e = error_of(server.request(method, path, b"{}" if method == "POST" else None), 501)
        assert path in e["message"] and e["type"] == "not_supported_error"


def test_head_and_methods(server):
    for path in ("/", "/health", "/v1/models", "/props"):
        status, headers, body = server.request("HEAD", path)
        assert status == 200 and body == b"" and int(headers["Content-Length"]) > 0
    for method, path in [("PUT", "/health"), ("PATCH", "/v1/chat/completions"), ("GET", "/v1/chat/completions")]:
        status, headers, body = server.request(method, path)
        assert status == 405 and body["error"]["code"] == 405
        assert "OPTIONS" in headers["Allow"] and ("POST" in headers["Allow"]) == ("chat" in path)
    error_of(server.request("OPTIONS", "/nothing"), 404)
    error_of(server.post("/v1/chat/completionsx", CHAT), 404)


def test_pipelining_behind_generations(server):
    body = json.dumps(PROMPT).encode()
    one = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    stream = json.dumps({**PROMPT, "stream": True}).encode()
    two = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(stream) + stream
    last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = server.raw(one + two + one + last)
    assert answer.count(b"HTTP/1.1 200") == 4 and answer.count(b"[DONE]") == 1 and answer.endswith(b'{"status":"ok"}')


def test_odd_lengths(server):
    for length in (b"-1", b"x", b"1, 2", b"+2", b"0x2", b"99999999999999999999999999"):
        answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n{}")
        assert answer[9:12] in (b"400", b"413") or answer == b"", (length, answer)


def test_random_bytes(server):
    rng = random.Random(5)
    good = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\nConnection: close\r\n\r\n" + b'{"prompt":"a","n":1}'
    for i in range(150):
        data = bytearray(good) if i % 3 else bytearray(rng.randbytes(rng.randrange(1, 300)))
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            try:
                answer = s.recv(65536)
            except ConnectionResetError:
                answer = b""
        left = b"the client left" in answer  # it did: it closed its side
        assert left or answer[9:10] in (b"2", b"4", b"") or answer[9:12] in (b"501", b"505"), (bytes(data), answer)
    assert server.request("GET", "/health")[0] == 200


def test_random_json(server):
    """Bodies with one value replaced by another: 200 or 400, never 5xx."""
    rng = random.Random(6)
    values = [None, True, -1, 0, 1, 2.5, 1e308, 10**18, "", "x", "\u0000", "\ud83d\ude00", [], [[]], [1, 2], {}, {"a": {}},
              [None], ["x" * 3000], {"role": "user"}, [{"role": "user", "content": "x"}], {"1": 1}]
    fields = ["messages", "prompt", "temperature", "top_p", "top_k", "min_p", "n", "stop", "seed", "logit_bias", "logprobs",
              "top_logprobs", "n_probs", "stream", "stream_options", "tools", "response_format", "chat_template_kwargs",
              "cache_prompt", "repeat_last_n", "max_tokens", "ignore_eos", "model", "content", "add_special", "tokens"]
    paths = ["/v1/chat/completions", "/v1/completions", "/completion", "/tokenize", "/detokenize", "/apply-template"]
    for _ in range(300):
        body = {**CHAT, **PROMPT, "content": "hello", "tokens": [65], "max_tokens": 2}
        for _ in range(rng.randrange(1, 4)):
            body[rng.choice(fields)] = rng.choice(values)
        if body["max_tokens"] not in (0, 1, 2.5, "", "x"):
            body["max_tokens"] = 2
        path = rng.choice(paths)
        status = server.post(path, body)[0]
        assert status in (200, 400), (path, body, status)


def test_escapes_and_depth(server):
    deep = b"[" * 3000 + b"]" * 3000
    for body in (b'{"prompt":"a\\ud800b"}', b'{"prompt":"a\\u0000b"}', b'{"prompt":' + deep + b"}", b'{"prompt":"a","x":1e999}',
                 b'{"prompt":"\xed\xa0\x80"}', b'{"prompt":"\xc0\x80"}', b'\xef\xbb\xbf{"prompt":"a"}x'):
        error_of(server.post("/v1/completions", body), 400)
    nested = {**CHAT, "messages": [{"role": "user", "content": "x", "more": json.loads(b"[" * 500 + b"]" * 500)}]}
    assert server.post("/v1/chat/completions", nested)[0] in (200, 400)


def test_thousand_connections(server):
    threads = server.status("Threads")
    for i in range(1000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as s:
            if i % 2:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert s.recv(1000).startswith(b"HTTP/1.1 200")
    assert wait_for(lambda: server.status("Threads") <= threads + 2)


def test_half_sent_requests_block_nobody():
    """They are closed after --timeout, which neither a running answer nor a waiting one is subject to."""
    with Server("--parallel", 1, "-c", 30000, "--timeout", 1) as s:
        halves = [socket.create_connection(("127.0.0.1", s.port), timeout=10) for _ in range(60)]
        for i, half in enumerate(halves):
            half.sendall([b"", b"GET /hea", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"][i % 3])
        start = time.monotonic()
        assert s.post("/v1/completions", PROMPT)[0] == 200
        with s.begin("/v1/completions", {"prompt": "hello " * 6000, "max_tokens": 1}) as slow, \
                s.begin("/v1/completions", {**PROMPT, "stream": True}) as waiting:
            assert slow.recv(100).startswith(b"HTTP/1.1 200")
            took = time.monotonic() - start
            answer = b""
            while b"[DONE]" not in answer:
                answer += (chunk := waiting.recv(65536))
                assert chunk
        print(f"an answer after {took:.1f} s")
        for half in halves:
            assert half.recv(1000)[9:12] in (b"", b"408")
            half.close()
