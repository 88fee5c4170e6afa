"""The server over models with recurrent state, a latent cache, windows: whatever is shared, stopped or computed beside others,
an answer is the one that a server gives which computes nothing else and reuses nothing."""
import json
import threading
import time

import pytest

from familymodel import make_adapter, make_model
from serverlib import Server

FAMILIES = "qwen3_next", "deepseek_v3", "gemma2"
SYSTEM = [f"You are the {who}. " + "Answer what you are asked, and nothing else. " * 6 for who in ("first", "second")]
ASKED = {"temperature": 0, "max_tokens": 10, "ignore_eos": True, "logprobs": True}


class Served:
    """A server under test, and what its answers must be."""

    def __init__(self, model, adapter):
        lora = "--lora", adapter, "--lora-init-without-apply"
        self.server = Server("--parallel", 4, "-c", 4 * 8000, *lora, model=model)
        self.fresh = Server("--parallel", 1, "-c", 8000, *lora, model=model)
        self.known = {}

    def ask(self, server, body):
        """What an answer must not change, and how much of the prompt was taken from the cache."""
        status, _, answer = server.post("/v1/chat/completions", {**ASKED, **body})
        assert status == 200, answer
        choices = [(c["message"]["content"], [t["logprob"] for t in c["logprobs"]["content"]]) for c in answer["choices"]]
        usage = answer["usage"]
        return choices, usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]

    def check(self, body):
        """Returns the answers with their log-probabilities, and how much of the prompt was cached, of how much."""
        choices, cached, n = self.ask(self.server, body)
        alone = {**body, "cache_prompt": False}
        key = json.dumps(alone)
        if key not in self.known:
            self.known[key] = self.ask(self.fresh, alone)
        assert (choices, 0, n) == self.known[key]
        return choices, cached, n

    def leave(self, body, seconds):
        """Asks, and is gone so much later."""
        with self.server.begin("/v1/chat/completions", {**ASKED, **body}):
            time.sleep(seconds)


@pytest.fixture(scope="module", params=FAMILIES)
def served(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    model = make_model(request.param, root / "model")
    s = Served(model, make_adapter(model, root / "adapter"))
    yield s
    assert (s.server.stop(), s.fresh.stop()) == (0, 0)


def at_once(jobs):
    """Runs functions at the same time; the first failure is raised."""
    failures = []

    def one(job):
        try:
            job()
        except BaseException as e:  # noqa: BLE001
            failures.append(e)

    threads = [threading.Thread(target=one, args=(job,)) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def talk(served, system, asks, hits):
    """A conversation; every turn repeats what was said so far."""
    messages = [{"role": "system", "content": system}]
    for i, text in enumerate(asks):
        messages = [*messages, {"role": "user", "content": text}]
        more = {"n": 2, "temperature": 1, "seed": 5} if i == 1 else {}
        choices, cached, _ = served.check({"messages": messages, **more})
        hits.append(cached)
        messages = [*messages, {"role": "assistant", "content": choices[0][0].replace("\0", "")}]  # no body may have it


def test_chats_that_share_their_beginnings(served):
    hits = []
    at_once([lambda i=i: talk(served, SYSTEM[i % 2], [f"{i}?", "and then?", "why?"], hits) for i in range(6)])
    assert sum(h > 100 for h in hits) >= 8, hits
    body, other = ({"messages": [{"role": "system", "content": SYSTEM[0]}, {"role": "user", "content": text}]}
                   for text in ("once more", "another time"))
    served.check(other)  # chats that began at the same moment may have left no snapshot where this one leaves them
    cached = [served.check(body)[1] for _ in range(2)]
    assert 100 < cached[0] <= cached[1]
    assert served.check({**body, "cache_prompt": False})[1] == 0


def test_clients_that_leave(served):
    long = {"messages": [{"role": "user", "content": "word " * 700}]}
    short = {"messages": [{"role": "system", "content": SYSTEM[1]}, {"role": "user", "content": "to be left"}]}
    endless = {**short, "max_tokens": 7000}
    jobs = [lambda i=i: served.leave({**(long, endless)[i % 2], "stream": i % 3 > 0}, 0.02 + i / 40) for i in range(8)]
    at_once([*jobs, lambda: served.check(short)])
    for body in long, short:
        served.check(body)
        assert served.check(body)[1] > 100
    at_once([lambda i=i: served.check({**short, "max_tokens": 5 + i}) for i in range(4)])  # all slots are there


def test_adapters_by_request(served):
    body = {"messages": [{"role": "user", "content": "adapters " * 20}]}
    chosen = [{}, {"lora": []}, {"lora": [{"id": 0, "scale": 1}]}, {"lora": [{"id": 0, "scale": 0.5}]}]
    first, again = ([served.check({**body, **lora}) for lora in chosen] for _ in range(2))
    assert [cached > 100 for _, cached, _ in first] == [False, True, False, False]  # none sees another's cache
    assert all(cached == n - 1 for _, cached, n in [first[1], *again])
    base, none, whole, half = (choices for choices, _, _ in first)
    assert base == none and base != whole != half != base
    at_once([lambda lora=lora: served.check({**body, **lora, "max_tokens": 20}) for lora in chosen])
