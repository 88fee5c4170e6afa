"""Fields of requests: how a chat's text ends, tools, what other servers' clients send."""
import re

import pytest

from serverlib import CHAT, PROMPT, error_of
from testlib import ROOT


# ---- how a chat's text ends ----

PREFILLED = {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "the world"}]}


def rendered(server, **fields):
    return server.post("/apply-template", {**PREFILLED, **fields})[2]["prompt"]


def test_generation_prompt_and_continuation(server):
    """A new turn without a field, none with add_generation_prompt: false, the last message's with continue_final_message."""
    turn, whole, open_end = (rendered(server), rendered(server, add_generation_prompt=False),
                             rendered(server, continue_final_message=True))
    assert open_end.endswith("the world") and whole.startswith(open_end) and turn.startswith(whole)
    assert len(open_end) < len(whole) < len(turn)
    assert rendered(server, add_generation_prompt=None, continue_final_message=None) == turn
    assert rendered(server, add_generation_prompt=False, continue_final_message=True) == open_end
    assert rendered(server, add_generation_prompt=True, continue_final_message=False) == turn
    # vLLM's clients also give them among the template's variables; the request's own field counts more
    assert rendered(server, chat_template_kwargs={"continue_final_message": True}) == open_end
    assert rendered(server, chat_template_kwargs={"add_generation_prompt": False}) == whole
    assert rendered(server, chat_template_kwargs={"add_generation_prompt": False}, add_generation_prompt=True) == turn


@pytest.mark.parametrize("fields", [{}, {"add_generation_prompt": False}, {"continue_final_message": True}])
@pytest.mark.parametrize("more", [{}, {"parse_special": False}])
def test_chat_answers_what_the_template_shows(server, fields, more):
    """A chat with these fields is the completion of the text that /apply-template shows for them."""
    body = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}
    chat = server.post("/v1/chat/completions", {**PREFILLED, **fields, **body, **more})[2]
    ids = server.post("/tokenize", {"content": rendered(server, **fields)})[2]["tokens"]
    plain = server.post("/v1/completions", {"prompt": ids, **body})[2]
    assert chat["choices"][0]["message"]["content"] == plain["choices"][0]["text"]
    assert chat["usage"]["prompt_tokens"] == len(ids)
    events = server.stream("/v1/chat/completions", {**PREFILLED, **fields, **body, **more})
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1])
    assert text == plain["choices"][0]["text"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/apply-template"])
@pytest.mark.parametrize("field, fields", [
    ("continue_final_message", {"continue_final_message": True, "add_generation_prompt": True}),
    ("continue_final_message", {"continue_final_message": True, "chat_template_kwargs": {"add_generation_prompt": True}}),
    ("continue_final_message", {"continue_final_message": 1}), ("add_generation_prompt", {"add_generation_prompt": "no"}),
    ("continue_final_message", {"chat_template_kwargs": {"continue_final_message": "yes"}}),
    ("chat_template", {"chat_template": "{{ messages }}"}), ("chat_template", {"chat_template": ""}),
    ("chat_template_kwargs", {"chat_template_kwargs": {"chat_template": "x"}}),
    ("chat_template_kwargs", {"chat_template_kwargs": {"messages": []}}), ("chat_template_kwargs", {"chat_template_kwargs": 1}),
    ("tools", {"tools": [{"type": "function"}]}), ("tools", {"tools": {}, "tool_choice": "none"}),
    ("functions", {"functions": [{}]}), ("documents", {"documents": [{"text": "x"}]}), ("tool_choice", {"tool_choice": "auto"}),
])
def test_bad_chat_field(server, path, field, fields):
    e = error_of(server.post(path, {**PREFILLED, "max_tokens": 1, **fields}), 400)
    assert e["type"] == "invalid_request_error" and e["param"] == field and field in e["message"]


def test_unused_tools_are_left_out(server):
    for unused in ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
                   {"functions": [{"name": "f"}], "function_call": "none"}, {"tools": []}, {"tools": None}):
        assert rendered(server, **unused) == rendered(server)
        assert server.post("/v1/chat/completions", {**CHAT, **unused})[2]["choices"] == \
               server.post("/v1/chat/completions", CHAT)[2]["choices"]


# ---- fields of other servers ----


@pytest.mark.parametrize("path, body", [("/v1/chat/completions", CHAT), ("/v1/completions", PROMPT), ("/completion", PROMPT)])
def test_constraints_of_other_servers(server, path, body):
    """What would constrain the answer is refused by name; its neutral value is not."""
    for field, value in [("structured_outputs", {"choice": ["a"]}), ("guided_json", {}), ("guided_regex", "a*"),
                         ("guided_choice", ["a"]), ("guided_grammar", "root ::= x"), ("structural_tag", "x"), ("min_tokens", 3),
                         ("allowed_token_ids", [5]), ("bad_words", ["x"]), ("logits_processors", ["x"]), ("json_schema", {}),
                         ("use_beam_search", True), ("skip_special_tokens", False), ("include_stop_str_in_output", True),
                         ("truncate_prompt_tokens", 5), ("prompt_logprobs", 1), ("min_keep", 2)]:
        e = error_of(server.post(path, {**body, field: value}), 400)
        assert e["param"] == field and field in e["message"]
    neutral = {"structured_outputs": None, "guided_json": None, "min_tokens": 0, "bad_words": [], "skip_special_tokens": True,
               "use_beam_search": False, "include_stop_str_in_output": False, "json_schema": None, "min_keep": 0}
    assert server.post(path, {**body, **neutral, "priority": 1, "guided_decoding_backend": "x"})[0] == 200


def test_stop_token_ids(server):
    """An answer ends at any of the ids, without that token's text, also where ends of text are ignored."""
    body = {"prompt": "hello world", "n_predict": 40, "temperature": 0, "ignore_eos": True, "return_tokens": True}
    ids = server.post("/completion", body)[2]["tokens"]
    stop = ids[10]
    first = ids.index(stop)
    r = server.post("/completion", {**body, "stop_token_ids": [stop, 3]})[2]
    cut = min(i for i, t in enumerate(ids) if t in (stop, 3))
    assert cut <= first and r["tokens"][:cut] == ids[:cut] and r["tokens_predicted"] == cut + 1
    assert r["stop_type"] == "eos"
    r = server.post("/v1/completions", {**body, "max_tokens": 40, "stop_token_ids": [stop, 3]})[2]["choices"][0]
    assert r["finish_reason"] == "stop" and r["text"] == server.post("/completion", {**body, "n_predict": cut})[2]["content"]
    assert server.post("/completion", {**body, "stop_token_ids": []})[2]["tokens"] == ids
    for bad in (5, ["5"], [5, -1], [10**12], [1.5], [5] * 257, {}):
        assert error_of(server.post("/completion", {**body, "stop_token_ids": bad}), 400)["param"] == "stop_token_ids"


def test_documentation_names_every_field():
    """Each row of params.def is in docs/server.md, and what else the server reads."""
    text = (ROOT / "docs/server.md").read_text(encoding="utf-8")
    rows = re.findall(r'^(?:NUM|INT|FLAG|UNSUPPORTED)\("(\w+)"', (ROOT / "src/server/params.def").read_text(encoding="ascii"), re.M)
    source = "".join((ROOT / f"src/server/{f}.c").read_text(encoding="ascii") for f in ("params", "prompts", "handlers"))
    read = re.findall(r'(?:get|json_object_get|read_flag|read_count|read_chat_flag|read_tools)\(body, "(\w+)"', source)
    assert len(rows) > 50 and {"seed", "content", "continue_final_message", "tools"} <= set(read)
    assert [f for f in {*rows, *read} if f"`{f}`" not in text] == []
