"""Adapters over HTTP: chosen by request, by default scale and by model name, loaded and unloaded while others stream."""
import json
import os
import threading

import pytest

from loralib import write_adapter, write_full
from serverlib import CHAT, LONG, PROMPT, TINY, Server, error_of, wait_for
from testlib import mlxcel

BODY = {**PROMPT, "max_tokens": 24, "ignore_eos": True, "logprobs": 5}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three LoRAs, a full adapter, and a LoRA that is too wide."""
    root = tmp_path_factory.mktemp("lora")
    for i, name in enumerate("abc"):
        write_adapter(root / name, seed=i + 1, rank=(4, 8, 40)[i])
    write_adapter(root / "wide", more_inputs=3)
    write_full(root / "f")
    return root


@pytest.fixture(scope="module")
def base():
    """What the model answers without any adapter, by a server that knows none."""
    with Server() as s:
        yield answer(s)


@pytest.fixture
def two(files):
    with Server("--lora", files / "a", "--lora", f"{files / 'b'}:0.5", "--lora-init-without-apply") as s:
        yield s


def answer(server, path="/v1/completions", **fields):
    """The whole of an answer that must not differ: text and log-probabilities."""
    status, _, body = server.post(path, {**BODY, **fields})
    assert status == 200, body
    return body["choices"][0]["text"], body["choices"][0]["logprobs"]["token_logprobs"]


def only(id, scale=1):
    return {"lora": [{"id": id, "scale": scale}]}


def adapters(server):
    return {a["name"]: a for a in server.request("GET", "/lora-adapters")[2]}


def load(server, name, path, **fields):
    return server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path), **fields})


def unload(server, name):
    return server.post("/v1/unload_lora_adapter", {"lora_name": name})


# ---- choosing ----


def test_list(two, files):
    a, b = two.request("GET", "/lora-adapters")[2]
    assert (a["id"], a["path"], a["scale"], a["name"]) == (0, str(files / "a"), 0, "a")
    assert (b["id"], b["path"], b["scale"], b["rank"], b["format"]) == (1, str(files / "b"), 0, 8, "mlx-lm")
    models = two.request("GET", "/v1/models")[2]["data"]
    assert [m["id"] for m in models] == ["tiny", "a", "b"]
    assert [m["parent"] for m in models] == [None, "tiny", "tiny"] and models[2]["root"] == str(files / "b")
    assert two.request("GET", "/v1/models/b")[2]["id"] == "b"


def test_requests_choose(two, base):
    a, b = answer(two, **only(0)), answer(two, **only(1))
    assert answer(two) == base and len({base[0], a[0], b[0]}) == 3
    assert answer(two, lora=[]) == base and answer(two, **only(0, 0)) == base and answer(two, lora=None) == base
    both = answer(two, lora=[{"id": 0, "scale": 1}, {"id": 1, "scale": 0.25}])
    assert both not in (a, b, base)
    assert answer(two, lora=[{"id": 1, "scale": 0.25}, {"id": 0, "scale": 1}]) == both
    for path in ("/v1/completions", "/completion", "/v1/chat/completions"):
        texts = set()
        for chosen in ([], [{"id": 0, "scale": 1}], [{"id": 1, "scale": 1}]):
            status, _, body = two.post(path, {**CHAT, **PROMPT, "ignore_eos": True, "lora": chosen})
            assert status == 200
            texts.add(body["content"] if path == "/completion" else str(body["choices"][0]))
        assert len(texts) == 3, path


@pytest.mark.parametrize("path", ["/v1/completions", "/completion", "/v1/chat/completions"])
@pytest.mark.parametrize("lora, says", [
    ([{"id": 2, "scale": 1}], "id 2"), ([{"id": -1, "scale": 1}], "id -1"), ([{"id": 0}], "lora[0]"), ([{"scale": 1}], "lora[0]"),
    ([{"id": 0, "scale": 1}, {"id": 0, "scale": 1}], "twice"), ([{"id": 0, "scale": "1"}], "lora[0]"), ([7], "lora[0]"),
    ([{"id": 0.5, "scale": 1}], "lora[0]"), ({"id": 0, "scale": 1}, "list"), ("a", "list"), (1, "list"),
    ([{"id": 0, "scale": 1e300}], "out of range"), ([{"id": 2**40, "scale": 1}], str(2**40)), ([{"id": True, "scale": 1}], "lora[0]"),
])
def test_wrong_choice(two_shared, path, lora, says):
    e = error_of(two_shared.post(path, {**CHAT, **PROMPT, "lora": lora}), 400)
    assert says in e["message"] and e["param"] == "lora" and e["type"] == "invalid_request_error"


@pytest.fixture(scope="module")
def two_shared(files):
    with Server("--lora", files / "a", "--lora", files / "b", "--lora-init-without-apply") as s:
        yield s


def test_by_model_name(two, base):
    a, b = answer(two, **only(0)), answer(two, **only(1, 0.5))
    assert answer(two, model="a") == a and answer(two, model="b") == b
    assert answer(two, model="tiny") == base and answer(two, model="whatever") == base
    assert two.post("/v1/completions", {**BODY, "model": "a"})[2]["model"] == "a"
    assert two.stream("/v1/chat/completions", {**CHAT, "model": "b"})[0]["model"] == "b"
    assert two.post("/v1/completions", {**BODY, "model": "tiny"})[2]["model"] == "tiny"
    assert "exclude" in error_of(two.post("/v1/completions", {**BODY, "model": "a", "lora": []}), 400)["message"]


def test_default_scales(two, base):
    a, b = answer(two, **only(0)), answer(two, **only(1, 0.5))
    assert two.post("/lora-adapters", [{"id": 0, "scale": 1}])[::2] == (200, {"success": True})
    assert answer(two) == a and answer(two, lora=[]) == base
    assert two.post("/lora-adapters", [{"id": 1, "scale": 0.5}])[0] == 200  # 0 is not listed
    assert answer(two) == b and adapters(two)["a"]["scale"] == 0
    for wrong in ([{"id": 0, "scale": 1}, {"id": 9, "scale": 1}], [{"id": 0}], [{"id": 0, "scale": "x"}], [[0, 1]],
                  [{"id": 0, "scale": 1}, {"id": 0, "scale": 2}], {"id": 0, "scale": 1}, "x", [{"id": 0, "scale": 1e99}]):
        error_of(two.post("/lora-adapters", wrong), 400)
        assert (adapters(two)["a"]["scale"], adapters(two)["b"]["scale"]) == (0, 0.5)
    assert answer(two) == b
    assert two.post("/lora-adapters", [])[0] == 200
    assert answer(two) == base


def test_command_line_scales(files):
    with Server("--lora", files / "a", "--lora-scaled", f"{files / 'b'}:0.5,{files / 'c'}:0") as s:
        assert [(a["name"], a["scale"]) for a in s.request("GET", "/lora-adapters")[2]] == [("a", 1), ("b", 0.5), ("c", 0)]
        assert answer(s) == answer(s, lora=[{"id": 0, "scale": 1}, {"id": 1, "scale": 0.5}])


# ---- many at once ----


SETS = [[], [{"id": 0, "scale": 1}], [{"id": 1, "scale": 1}], [{"id": 2, "scale": 0.7}], [{"id": 0, "scale": -0.5}],
        [{"id": 0, "scale": 1}, {"id": 2, "scale": 1}], [{"id": 1, "scale": 2}, {"id": 2, "scale": 0}]]


def together(server, bodies):
    """All answers, requested at once."""
    out = [None] * len(bodies)

    def ask(i):
        out[i] = answer(server, **bodies[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


@pytest.mark.parametrize("cache", [True, False])
def test_together_as_alone(files, cache):
    """Requests with different adapters in one step have the bytes that each has alone, also behind a cached prefix; the
    third adapter needs more scratch than what ran before it."""
    with Server("--parallel", 4, *(x for n in "abc" for x in ("--lora", files / n)), "--lora-init-without-apply") as s:
        bodies = [{"lora": v, "prompt": p, "seed": 3, "temperature": t, "cache_prompt": cache}
                  for v in SETS for p in ("hello world", "hello world again " * 20) for t in (0, 1)]
        alone = [answer(s, **{**b, "cache_prompt": False}) for b in bodies]
        assert len({str(a) for a in alone}) == len(bodies)
        assert together(s, bodies) == alone
        assert together(s, bodies) == alone


def test_prefixes_are_not_shared(two, files):
    """A prompt that is cached for one set is not reused by another: not by the base, another scale or another version."""
    def cached(**fields):
        return two.post("/v1/completions", {**BODY, "prompt": "a longer prompt " * 10, **fields})[2]["timings"]["cache_n"]

    for chosen in (dict(lora=[]), only(0), only(0, 0.5), only(1)):
        assert cached(**chosen) == 0 and cached(**chosen) > 0
    assert cached(**only(0, 0)) == cached(lora=[])  # scale 0 is the base
    assert cached(model="a") == cached(**only(0))
    assert load(two, "v", files / "a")[0] == 200
    assert cached(model="v") == cached(**only(0))  # the same contents
    assert load(two, "v", files / "c", load_inplace=True)[0] == 200
    assert cached(model="v") == 0


def test_running_answers_keep_their_scales(two):
    """Neither new defaults nor unloading reaches an answer that has begun."""
    long = {**PROMPT, "max_tokens": 1500, "ignore_eos": True, "cache_prompt": False}
    expect = two.post("/v1/completions", {**long, **only(0)})[2]["choices"][0]["text"]
    assert two.post("/lora-adapters", [{"id": 0, "scale": 1}])[0] == 200
    c = two.connect()
    c.request("POST", "/v1/completions", json.dumps({**long, "stream": True}))
    r = c.getresponse()
    lines = [r.readline()]
    assert two.post("/lora-adapters", [{"id": 1, "scale": 3}])[0] == 200
    assert unload(two, "a")[0] == 200
    lines += r.read().splitlines()
    c.close()
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
    assert "".join(e["choices"][0]["text"] for e in events) == expect
    assert two.post("/v1/completions", {**long, "max_tokens": 40})[2]["choices"][0]["text"] != expect[:40]


# ---- loading and unloading ----


def test_answers_of_one_request_have_one_scale(two):
    """However many they are, and whatever is set meanwhile."""
    done = threading.Event()

    def set_scales():
        while not done.is_set():
            for scale in 0, 1:
                two.post("/lora-adapters", [{"id": 0, "scale": scale}])

    threads = [threading.Thread(target=set_scales) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(25):
        body = two.post("/v1/completions", {**PROMPT, "max_tokens": 2, "n": 32, "temperature": 0, "ignore_eos": True})[2]
        if len({c["text"] for c in body["choices"]}) > 1:
            break
    else:
        body = None
    done.set()
    for t in threads:
        t.join()
    assert body is None, body


def test_load_and_unload(two, base, files):
    status, headers, body = load(two, "new", files / "c")
    assert (status, body) == (200, b"Success: LoRA adapter 'new' added successfully.")
    assert headers["Content-Type"].startswith("text/plain")
    assert adapters(two)["new"]["id"] == 2 and adapters(two)["new"]["scale"] == 0
    new = answer(two, model="new")
    assert new != base and answer(two, **only(2)) == new and answer(two) == base
    e = error_of(load(two, "new", files / "a"), 400)
    assert e["message"].startswith("The lora adapter 'new' has already been loaded. If you want to load the adapter in place")
    assert answer(two, model="new") == new
    assert load(two, "new", files / "a", load_inplace=True)[0] == 200
    assert adapters(two)["new"]["id"] == 2 and answer(two, model="new") == answer(two, **only(0))
    assert unload(two, "new")[::2] == (200, b"Success: LoRA adapter 'new' removed successfully.")
    assert "new" not in adapters(two) and "id 2" in error_of(two.post("/v1/completions", {**BODY, **only(2)}), 400)["message"]
    assert "does not exist" in error_of(two.post("/v1/completions", {**BODY, "model": "new"}), 404)["message"]
    assert error_of(unload(two, "new"), 404)["message"] == "The lora adapter 'new' cannot be found."
    assert load(two, "new", files / "b")[0] == 200 and adapters(two)["new"]["id"] == 3  # ids are not used again
    assert answer(two, model="new") == answer(two, **only(1))


def test_refused_loads_change_nothing(two, base, files):
    before = two.request("GET", "/lora-adapters")[2]
    e = error_of(load(two, "wide", files / "wide"), 400)
    assert "model.layers.0.self_attn.q_proj takes 64 input features" in e["message"] and "[67, 4]" in e["message"]
    assert "model.layers.1.mlp.down_proj" in e["message"]
    error_of(load(two, "a", files / "wide", load_inplace=True), 400)
    error_of(load(two, "x", files / "missing"), 404)
    error_of(load(two, "tiny", files / "c"), 400)
    for body in ({}, {"lora_name": "x"}, {"lora_path": str(files / "c")}, {"lora_name": "", "lora_path": str(files / "c")},
                 {"lora_name": 1, "lora_path": str(files / "c")}, {"lora_name": "x", "lora_path": ["y"]}):
        assert error_of(two.post("/v1/load_lora_adapter", body), 400)["message"] == (
            "Both 'lora_name' and 'lora_path' must be provided.")
    error_of(load(two, "x" * 300, files / "c"), 400)
    error_of(load(two, "x", files / "c", load_inplace="yes"), 400)
    error_of(two.post("/v1/unload_lora_adapter", {}), 400)
    assert two.request("GET", "/lora-adapters")[2] == before and answer(two) == base


def test_loading_beside_streams(two, files):
    """Adapters come and go while others stream: no answer changes, none fails, and the memory does not grow."""
    expect = [answer(two, cache_prompt=False, **v) for v in (dict(lora=[]), only(0), only(1))]
    stop, bad, done = threading.Event(), [], [0]

    def ask(i):
        while not stop.is_set():
            got = answer(two, **({"lora": []}, only(0), only(1))[i])
            done[0] += 1
            if got != expect[i]:
                bad.append((i, got))

    def use_new():
        while not stop.is_set():
            status, _, body = two.post("/v1/completions", {**BODY, "model": "new"})
            if status not in (200, 404):
                bad.append((status, body))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)] + [threading.Thread(target=use_new)]
    for t in threads:
        t.start()
    sizes = []
    while len(sizes) < 40 or done[0] < 30:
        i = len(sizes)
        assert load(two, "new", files / "bf"[i % 2])[0] == 200
        assert load(two, "new", files / "fa"[i % 2], load_inplace=True)[0] == 200
        error_of(load(two, "wide", files / "wide"), 400)
        assert unload(two, "new")[0] == 200
        sizes.append(two.status("VmRSS"))
    stop.set()
    for t in threads:
        t.join()
    assert not bad, bad[:2]
    assert sizes[-1] < sizes[9] + 8000, sizes


def test_files_that_change(files, tmp_path):
    """Whoever trains writes the file again, in place: what was loaded stays what it was, and so does the server."""
    folder = write_full(tmp_path / "full", embedding=True)
    tensors = folder / "adapters.safetensors"
    with Server("--lora", folder) as s:
        before = answer(s, cache_prompt=False)
        size = tensors.stat().st_size
        with tensors.open("r+b") as f:
            f.seek(size // 2)
            f.write(bytes(size // 4))
        assert answer(s, cache_prompt=False) == before
        os.truncate(tensors, 100)
        assert answer(s, cache_prompt=False) == before
        error_of(load(s, "cut", folder), 400)


def test_at_the_start(files):
    """A wrong adapter is a failed load: the process stays up and tells every fault."""
    with Server("--lora", files / "a", "--lora", files / "wide", "--lora", files / "missing", wait=False) as s:
        assert wait_for(lambda: s.request("GET", "/health")[2]["error"]["message"] != "Loading model")
        for answered in (s.request("GET", "/health"), s.post("/v1/completions", PROMPT)):
            message = error_of(answered, 503)["message"]
            assert "model.layers.0.self_attn.q_proj takes 64 input features" in message and "missing" in message
    r = mlxcel("serve", "-m", TINY, "--port", "0", "--fail-fast", "--lora", files / "wide", timeout=30)
    assert r.returncode == 1 and b"takes 64 input features" in r.stderr


def test_fused(files, base):
    """A fused adapter is part of the weights: whatever would change its scale is refused."""
    with Server("--lora", files / "a", "--lora-fuse") as s:
        fused = answer(s)
        assert fused != base and adapters(s)["a"]["fused"] is True and adapters(s)["a"]["scale"] == 1
        for chosen in ([], [{"id": 0, "scale": 0.5}]):
            assert "fused" in error_of(s.post("/lora-adapters", chosen), 400)["message"]
            assert "fused" in error_of(s.post("/v1/completions", {**BODY, "lora": chosen}), 400)["message"]
        error_of(unload(s, "a"), 400)
        error_of(load(s, "a", files / "b", load_inplace=True), 400)
        assert s.post("/lora-adapters", [{"id": 0, "scale": 1}])[0] == 200
        assert answer(s, **only(0)) == fused and answer(s, model="a") == fused
        assert load(s, "b", files / "b")[0] == 200  # beside the fused one
        assert answer(s, model="b") == answer(s, lora=[{"id": 0, "scale": 1}, {"id": 1, "scale": 1}]) != fused
        assert answer(s) == fused


# ---- who may load ----


def test_who_may_load(two, files):
    """Without a key: programs of this machine, not pages in its browsers."""
    e = error_of(two.post("/v1/load_lora_adapter", {"lora_name": "n", "lora_path": str(files / "c")}, Origin="http://evil"), 403)
    assert "--lora-runtime" in e["message"]
    error_of(two.post("/v1/unload_lora_adapter", {"lora_name": "a"}, Origin="null"), 403)
    assert len(adapters(two)) == 2
    with Server("--host", "0.0.0.0") as s:
        error_of(load(s, "n", files / "c"), 403)
    with Server("--host", "0.0.0.0", "--lora-runtime") as s:
        assert load(s, "n", files / "c")[0] == 200
    with Server("--host", "0.0.0.0", "--api-key", "k") as s:
        error_of(load(s, "n", files / "c"), 401)
        assert s.post("/v1/load_lora_adapter", {"lora_name": "n", "lora_path": str(files / "c")}, Authorization="Bearer k")[0] == 200


def test_flood_of_loads(files):
    """Many clients that load and unload the same names at once: every answer is one of those that are due."""
    with Server() as s:
        seen, asked = set(), set()

        def flood(k):
            for i in range(10):
                seen.add(load(s, f"n{(k + i) % 3}", files / "abc"[i % 3])[0])
                asked.add(s.post("/v1/completions", {**PROMPT, "max_tokens": 1, "model": f"n{i % 3}"})[0])
                seen.add(unload(s, f"n{(k + i) % 3}")[0])

        threads = [threading.Thread(target=flood, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert seen <= {200, 400, 404} and 200 in seen and asked <= {200, 404}
        for name in list(adapters(s)):
            assert unload(s, name)[0] == 200
        assert s.request("GET", "/lora-adapters")[2] == []
        assert s.post("/v1/completions", {**LONG, "max_tokens": 3})[0] == 200
