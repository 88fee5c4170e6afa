"""The server's life: loading, failing, clients that leave or do not read, full queues, fairness, ending."""
import json
import math
import os
import re
import shutil
import socket
import struct
import threading
import time

import pytest

from serverlib import CHAT, HUGE, LONG, PROMPT, TINY, Server, error_of, wait_for
from testlib import mlxcel


# ---- clients that leave, or do not read ----


def free(server):
    """Seconds until a short request was answered: with --parallel 1 it waits for the slot."""
    start = time.monotonic()
    assert server.post("/v1/completions", {**PROMPT, "max_tokens": 1})[0] == 200
    return time.monotonic() - start


@pytest.fixture(scope="module")
def single():
    """One slot, so that a request that holds it holds up the others."""
    with Server("--parallel", 1, "-c", 100000) as s:
        yield s


@pytest.mark.parametrize("body", [LONG, HUGE, {**LONG, "n": 8}], ids=["decoding", "prefilling", "choices"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_lost_client_frees_its_slot(single, stream, body):
    with single.begin("/v1/completions", {**body, "stream": stream}) as c:
        if stream:
            assert c.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.3)
    assert free(single) < 4


def test_lost_client_with_more_requests_behind(single):
    """Bytes that wait on the socket do not hide that its client is gone."""
    with single.begin("/v1/completions", LONG) as c:
        c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        time.sleep(0.2)
    assert free(single) < 4


def test_lost_clients_in_the_queue(single):
    """Requests that wait for a slot leave the queue with their clients."""
    with single.begin("/v1/completions", {**LONG, "stream": True}) as c:
        assert c.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(30):
            single.begin("/v1/completions", {**LONG, "n": 60, "max_tokens": 5}).close()
        assert wait_for(lambda: single.status("Threads") < 20)
        time.sleep(0.3)
        with single.begin("/v1/completions", {**PROMPT, "stream": True}) as waiting:  # 1,800 sequences would fill the queue
            assert waiting.recv(100).startswith(b"HTTP/1.1 200")
    assert free(single) < 4


def test_full_queue(single):
    with single.begin("/v1/completions", {**LONG, "stream": True}) as c:
        assert c.recv(100).startswith(b"HTTP/1.1 200")
        waiting = [single.begin("/v1/completions", {**LONG, "n": 64, "stream": True}) for _ in range(16)]
        assert all(w.recv(100).startswith(b"HTTP/1.1 200") for w in waiting)
        status, headers, body = single.post("/v1/completions", {**PROMPT, "n": 40})
        assert error_of((status, headers, body), 503)["type"] == "unavailable_error" and int(headers["Retry-After"]) > 0
        assert single.request("GET", "/health")[0] == 200  # busy is not unready
        for w in waiting:
            w.close()
    assert wait_for(lambda: single.post("/v1/completions", {**PROMPT, "max_tokens": 1})[0] == 200)


def test_stream_headers_come_before_prefill(single):
    with single.begin("/v1/completions", {**HUGE, "stream": True}) as c:
        first = c.recv(4096)
        assert first.startswith(b"HTTP/1.1 200") and b"data:" not in first
    assert free(single) < 4


def test_client_that_does_not_read():
    """Neither others nor the memory nor the end wait for it."""
    with Server("--parallel", 16, "-c", 400000, "--timeout", 2) as s:
        free(s)
        before = s.status("VmRSS")
        body = {**LONG, "stream": True, "logprobs": 20, "n": 8}  # fills the buffers between us quickly
        idle = [s.begin("/v1/completions", body, 4096) for _ in range(2)]
        assert s.request("GET", "/health")[0] == 200
        assert free(s) < 15  # both were closed before, by the timeout or for their backlog
        assert s.status("VmRSS") - before < 100 << 10
        for c in idle:
            c.close()


def test_clients_that_do_not_read_do_not_delay_the_end():
    s = Server("--parallel", 2, "-c", 200000)
    idle = [s.begin("/v1/completions", {**LONG, "stream": True}) for _ in range(4)]
    time.sleep(0.5)
    start = time.monotonic()
    assert s.stop() == 0 and time.monotonic() - start < 5
    for c in idle:
        c.close()


def test_cancel_storm(server):
    """Many clients that leave at random moments; the ones that stay get what they get alone."""
    body = {"prompt": "hello world", "max_tokens": 30, "temperature": 1, "seed": 3, "ignore_eos": True}
    alone = server.post("/v1/completions", body)[2]["choices"][0]["text"]
    stop, answers = time.monotonic() + 3, []

    def leave(i):
        k = 0
        while time.monotonic() < stop:
            k += 1
            c = server.begin("/v1/completions", {**LONG, "stream": bool((i + k) % 2), "prompt": "hello " * ((i * k) % 50 + 1)})
            time.sleep((i * 7 + k * 13) % 40 / 1000)
            c.close()

    def stay():
        while time.monotonic() < stop:
            answers.append(server.post("/v1/completions", body)[2]["choices"][0]["text"])

    threads = [threading.Thread(target=leave, args=(i,)) for i in range(6)] + [threading.Thread(target=stay)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers and set(answers) == {alone}


def test_hundred_streams(server):
    body = {"prompt": "hello world", "max_tokens": 15, "temperature": 1, "seed": 5, "ignore_eos": True}
    alone = server.post("/v1/completions", body)[2]["choices"][0]["text"]
    got = [None] * 100

    def one(i):
        events = server.stream("/v1/completions", body)
        got[i] = "".join(e["choices"][0]["text"] for e in events[:-1])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(got) == {alone}


def test_prefill_delays_streams_little():
    """The longest gap of a running stream while another's prompt is computed: max(0.5 s, half of that prompt's own time)."""
    with Server("--parallel", 2, "-c", 40000) as s:
        prompt = {"prompt": "hello world " * 2500, "max_tokens": 1, "cache_prompt": False}
        start = time.monotonic()
        assert s.post("/v1/completions", prompt)[0] == 200
        solo = time.monotonic() - start
        with s.begin("/v1/completions", {**LONG, "stream": True}) as c:
            times, done = [], threading.Event()

            def other():
                time.sleep(0.2)
                s.post("/v1/completions", prompt)
                done.set()

            t = threading.Thread(target=other)
            t.start()
            while not done.is_set():
                assert c.recv(65536)
                times.append(time.monotonic())
            t.join()
        gaps = [b - a for a, b in zip(times, times[1:])]
        assert max(gaps) < max(0.5, solo / 2), (max(gaps), solo)
        assert len(gaps) > 10


# ---- memory and processor ----


def test_repeated_requests_do_not_grow_memory(server):
    def round_trip():
        for _ in range(50):
            assert server.post("/v1/chat/completions", {**CHAT, "n": 2, "logprobs": True, "top_logprobs": 5})[0] == 200
            server.stream("/v1/completions", {**PROMPT, "stop": ["zzz"]})
            assert server.post("/v1/completions", {**PROMPT, "temperature": -1})[0] == 400

    round_trip()
    before = server.status("VmRSS")
    for _ in range(3):
        round_trip()
    assert server.status("VmRSS") - before < 2048


def test_idle_uses_no_processor(server):
    with socket.create_connection(("127.0.0.1", server.port)):
        time.sleep(0.3)
        before = server.ticks()
        time.sleep(1)
        assert server.ticks() - before <= 2


# ---- loading ----


@pytest.fixture(scope="module")
def slow_model(tmp_path_factory):
    """A model that takes long to load: its chat template counts to the limit whenever it is tried."""
    d = tmp_path_factory.mktemp("slow") / "slow"
    shutil.copytree(TINY, d)
    config = json.loads((d / "tokenizer_config.json").read_text())
    slow = "{% for i in range(99999) %}{% for j in range(99999) %}{{ '' }}{% endfor %}{% endfor %}"
    (d / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": slow + config.get("chat_template", "")}))
    return d


LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


def test_loading(slow_model):
    with Server("--api-key", "k", model=slow_model, wait=False) as s:
        key = {"Authorization": "Bearer k"}
        for method, path in [("GET", "/health"), ("GET", "/v1/health"), ("GET", "/"), ("GET", "/v1/models"), ("GET", "/props"),
                             ("POST", "/v1/chat/completions"), ("POST", "/completion"), ("GET", "/nothing")]:
            status, headers, body = s.request(method, path, b"{" if method == "POST" else None, key)
            assert (status, body) == (503, LOADING) and int(headers["Retry-After"]) > 0, (path, s.log)
        assert s.request("HEAD", "/health")[0] == 503
        error_of(s.post("/v1/completions", PROMPT), 401)
        assert wait_for(lambda: s.request("GET", "/health")[0] == 200, 30)


def test_terminate_while_loading(slow_model):
    s = Server(model=slow_model, wait=False)
    assert s.request("GET", "/health")[0] == 503
    start = time.monotonic()
    assert s.stop() == 0 and time.monotonic() - start < 5
    assert not [line for line in s.log if "error" in line]


def broken_model(tmp_path, how):
    d = tmp_path / "broken"
    shutil.copytree(TINY, d)
    weights = (d / "model.safetensors").read_bytes()
    if how == "truncated":
        (d / "model.safetensors").write_bytes(weights[:-100])
    elif how == "misfit":
        (d / "config.json").write_text((d / "config.json").read_text().replace('"hidden_size": 64', '"hidden_size": 128'))
    elif how == "missing":
        (d / "config.json").unlink()
    else:
        (d / "tokenizer.json").write_text("{")
    return d


@pytest.mark.parametrize("how, names", [("truncated", "model.safetensors"), ("misfit", "model."), ("missing", "config.json"),
                                        ("tokenizer", "tokenizer.json")])
def test_failed_load(tmp_path, how, names):
    d = broken_model(tmp_path, how)
    with Server(model=d, wait=False) as s:
        assert wait_for(lambda: s.request("GET", "/health")[2] != LOADING)
        e = error_of(s.request("GET", "/health"), 503)
        assert names in e["message"] and e["type"] == "unavailable_error" and e["code"] == 503
        for path in ("/v1/chat/completions", "/completion", "/nothing"):
            assert error_of(s.post(path, CHAT), 503) == e
        assert s.process.poll() is None
        assert len([line for line in s.log if line.startswith("mlxcel: error: ")]) == 1
    r = mlxcel("serve", "-m", d, "--port", "0", "--fail-fast", timeout=30)
    assert r.returncode == 1
    lines = [line for line in r.stderr.decode().splitlines() if "error" in line]
    assert len(lines) == 1 and lines[0].startswith("mlxcel: error: ") and names in lines[0]


def large_model(tmp_path):
    """A model with a large vocabulary, whose embedding and head are holes in the file: it takes a moment to load."""
    d = tmp_path / "large"
    shutil.copytree(TINY, d)
    content, rows = (d / "model.safetensors").read_bytes(), 400_000
    header, at = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]]), 0
    header.pop("__metadata__", None)
    for name, t in header.items():
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            t["shape"][0] = rows
        size = 2 * math.prod(t["shape"])
        t["data_offsets"] = [at, at + size]
        at += size
    text = json.dumps(header).encode()
    with open(d / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    (d / "config.json").write_text(json.dumps({**json.loads((d / "config.json").read_text()), "vocab_size": rows}))
    return d


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_file_that_is_cut_while_it_is_loaded(tmp_path, fail_fast):
    d = large_model(tmp_path)
    weights = d / "model.safetensors"
    size = weights.stat().st_size
    for _ in range(5):  # it may be loaded before we come to cut
        os.truncate(weights, size)
        s = Server(*["--fail-fast"] * fail_fast, model=d, wait=False)
        with open(f"/proc/{s.process.pid}/maps") as maps:
            while str(weights) not in maps.read():  # its size and header are looked at before the rest is read
                maps.seek(0)
        os.truncate(weights, 1 << 16)
        assert wait_for(lambda: any("is ready" in line or "error" in line for line in s.log))
        if not any("is ready" in line for line in s.log):
            break
        s.stop()
    if fail_fast:
        assert s.process.wait(20) == 1
    else:
        assert wait_for(lambda: s.request("GET", "/health")[2] != LOADING)
        e = error_of(s.request("GET", "/health"), 503)
        assert str(d) in e["message"] and "became shorter" in e["message"]
        assert error_of(s.post("/v1/completions", PROMPT), 503) == e
        assert s.stop() == 0
    s.reader.join(5)
    assert len([line for line in s.log if line.startswith("mlxcel: error: ") and "became shorter" in line]) == 1


def test_port_in_use(server):
    r = mlxcel("serve", "-m", TINY, "--port", server.port, timeout=30)
    lines = r.stderr.decode().splitlines()
    assert r.returncode == 1 and len(lines) == 1 and re.match(rf"mlxcel: error: .*{server.port}", lines[0])


@pytest.mark.parametrize("flag", ["--metrics", "--slots"])
def test_flags_known_but_not_built(flag):
    r = mlxcel("serve", "-m", TINY, "--port", "0", flag, timeout=30)
    lines = r.stderr.decode().splitlines()
    assert r.returncode == 2 and len(lines) == 1 and f"{flag} is not supported" in lines[0]


def test_context_is_divided():
    with Server("-c", 1000, "--parallel", 3) as s:
        assert s.request("GET", "/props")[2]["default_generation_settings"]["n_ctx"] == 333
        assert s.request("GET", "/props")[2]["total_slots"] == 3
        assert "333" in error_of(s.post("/v1/completions", {"prompt": [65] * 400}), 400)["message"]
        r = s.post("/v1/completions", {"prompt": "hello", "ignore_eos": True})[2]
        assert r["usage"]["total_tokens"] == 333 and r["choices"][0]["finish_reason"] == "length"


def test_api_key():
    with Server("--api-key", "secret") as s:
        tries = [{}, {"Authorization": "Bearer nope"}, {"Authorization": "Bearer secret2"}, {"Authorization": "secret"},
                 {"X-Api-Key": ""}, {"Authorization": "Bearer "}]
        answers = [s.post("/v1/completions", PROMPT, **h) for h in tries]
        assert all(a[0] == 401 and a[2] == answers[0][2] for a in answers)
        error_of(answers[0], 401)
        error_of(s.request("GET", "/v1/models"), 401)
        error_of(s.request("GET", "/nothing"), 401)
        for path in ("/", "/health", "/v1/health"):
            assert s.request("GET", path)[0] == 200
        assert s.request("OPTIONS", "/v1/completions")[0] == 204
        assert s.post("/v1/completions", PROMPT, Authorization="Bearer secret")[0] == 200
        assert s.post("/v1/completions", PROMPT, **{"X-Api-Key": "secret"})[0] == 200


# ---- the end ----


def test_terminate_while_streaming():
    """Streams that decode, prefill and wait end well-formed; a second signal changes nothing."""
    s = Server("-c", 300000, "--parallel", 3, "--chunk", 64)
    bodies = [LONG, HUGE, {**LONG, "n": 8}, {**LONG, "messages": CHAT["messages"]}]
    clients = [s.begin("/v1/chat/completions" if "messages" in b else "/v1/completions", {**b, "stream": True}) for b in bodies]
    assert all(c.recv(10) == b"HTTP/1.1 2" for c in clients)
    start = time.monotonic()
    s.process.terminate()
    time.sleep(0.2)
    s.process.terminate()
    for c in clients:
        data = b""
        while chunk := c.recv(65536):
            data += chunk
        assert data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert b'"error":{' in data or b'"finish_reason":"' in data
        c.close()
    assert s.stop() == 0 and time.monotonic() - start < 5


def test_terminate_drains():
    """What ends within 3 s is answered; nothing new is accepted."""
    s = Server("-c", 100000, "--parallel", 1)
    with s.begin("/v1/completions", {**LONG, "max_tokens": 1500}) as c, s.begin("/v1/completions", PROMPT) as queued:
        idle = s.connect()
        idle.request("GET", "/health")
        idle.getresponse().read()
        time.sleep(0.1)
        s.process.terminate()
        time.sleep(0.2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", s.port), timeout=1)
        if s.process.poll() is None:
            idle.request("GET", "/health")
            r = idle.getresponse()
            assert r.status == 503 and "shutting down" in json.loads(r.read())["error"]["message"]
        for socket_ in (c, queued):
            assert socket_.recv(100).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
    assert s.stop() == 0


def test_terminate_with_half_sent_requests():
    s = Server()
    halves = [s.connect() for _ in range(4)]
    for i, h in enumerate(halves):
        h.connect()
        h.sock.sendall([b"GET /hea", b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"][i % 2])
    time.sleep(0.1)
    start = time.monotonic()
    assert s.stop() == 0 and time.monotonic() - start < 2  # nothing to drain
