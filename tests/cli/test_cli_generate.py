"""generate: where the prompt comes from, what the options do, what is printed where."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from clilib import fault, usage
from testlib import PROGRAM, cpu_levels, mlxcel, mlxcel_ok


def answer(model, *options, **kwargs):
    return mlxcel_ok("generate", "-m", model, "--ignore-eos", *options, **kwargs)


def test_the_same_prompt_from_everywhere(model, tmp_path):
    path = tmp_path / "prompt"
    path.write_text("hello")
    text = answer(model, "-p", "hello", "-n", 12)
    assert text and text == answer(model, "-f", path, "-n", 12) == answer(model, "-n", 12, stdin="hello")


def test_statistics_on_stderr(model):
    r = mlxcel("generate", "-m", model, "-p", "hello", "-n", 4, "--ignore-eos")
    err = r.stderr.decode()
    assert r.returncode == 0
    assert re.fullmatch(r"\nload: +[\d.]+ s\nprompt: +\d+ tokens, [\d.]+ tok/s, first token after [\d.]+ s\n"
                        r"answer: +4 tokens, [\d.]+ tok/s, length\nmemory: +[\d.]+ MB at the peak\n", err), err


def test_json(model):
    v = json.loads(answer(model, "-p", "hello", "-n", 6, "--json"))
    assert v["text"] == answer(model, "-p", "hello", "-n", 6)
    assert v["completion_tokens"] == 6 and v["finish_reason"] == "length" and v["stop"] is None
    assert v["prompt_tokens"] == 5  # <s> <|user|> hello </s> <|assistant|>
    assert v["peak_rss_bytes"] > 0 and v["load_s"] > 0 and v["ttft_s"] > 0 and v["decode_tok_s"] > 0


def test_raw_and_system(model):
    count = lambda *options: json.loads(answer(model, "-n", 1, "--json", *options))["prompt_tokens"]
    assert count("-p", "hello", "--raw") == 2
    assert count("-p", "<|user|>hello", "--raw") == 3
    assert count("-p", "hello", "--system", "hello") == 8
    assert "--system" in usage("generate", "-m", model, "-p", "x", "--raw", "--system", "y")


def test_token_limits(model):
    assert answer(model, "-p", "hello", "-n", 0) == ""
    v = json.loads(answer(model, "-p", "hello", "--json", "-c", 64))
    assert v["prompt_tokens"] + v["completion_tokens"] == 64 and v["finish_reason"] == "length"
    assert "64" in fault("generate", "-m", model, "-p", "x " * 100, "-c", 64)


def test_greedy_by_default_and_seeds(model):
    hot = ["-p", "hello", "-n", 24, "--temp", 2, "--top-k", 0, "--top-p", 1, "--min-p", 0]
    assert answer(model, "-p", "hello", "-n", 24) == answer(model, "-p", "hello", "-n", 24, "--seed", 7)
    assert answer(model, *hot, "--seed", 7) == answer(model, *hot, "--seed", 7)
    assert len({answer(model, *hot) for _ in range(3)}) == 3
    assert answer(model, *hot, "--top-k", 1) == answer(model, "-p", "hello", "-n", 24)


def test_logit_bias(model):
    assert answer(model, "-p", "hello", "-n", 3, "--logit-bias", "6+1000") == "!!!"
    banned = answer(model, "-p", "hello", "-n", 3, "--logit-bias", "6+1000", "-l", "7+999", "--logit-bias", "6-inf")
    assert banned == '"""'
    for wrong in ("6", "6=1", "+1", "x+1", "6+", "6+nan", "99999999999+1"):
        assert "--logit-bias" in usage("generate", "-m", model, "-p", "x", "--logit-bias", wrong)
    assert "131" in fault("generate", "-m", model, "-p", "x", "--logit-bias", "131+1")


def test_stop(model):
    bias = ["-p", "hello", "-n", 9, "--logit-bias", "6+1000"]
    assert answer(model, *bias, "--stop", "zz", "-r", "!!!") == ""
    v = json.loads(answer(model, *bias, "--logit-bias", "7+1000", "--repeat-penalty", "100", "--stop", '"!', "--json"))
    assert v["finish_reason"] in ("stop", "length")
    v = json.loads(answer(model, *bias, "--stop", "!!!", "--json"))
    assert (v["text"], v["finish_reason"], v["stop"]) == ("", "stop", "!!!")


def test_machine_options_do_not_change_exact_text(model):
    text = answer(model, "-p", "hello", "-n", 16, "--exact")
    assert text == answer(model, "-p", "hello", "-n", 16, "--precision", "exact", "--threads", 1, "--chunk", 2)


def test_faults(model, tmp_path):
    assert "missing" in fault("generate", "-m", model, "-f", tmp_path / "missing")
    assert "/nowhere" in fault("generate", "-m", "/nowhere", "-p", "x")
    assert "UTF-8" in fault("generate", "-m", model, stdin=b"a\xff")
    assert "exclude" in usage("generate", "-m", model, "-p", "x", "-f", "y")


def test_a_level_that_the_machine_lacks_is_refused_by_name(model):
    known = ["scalar", "avx2", "avx512", "avx512vnni", "neon", "neondot"]
    lacking = [level for level in known if level not in cpu_levels()]
    assert "neon" in lacking or "avx2" in lacking
    for level in lacking:
        assert fault("generate", "-m", model, "-p", "x", "--cpu-level", level) == (
            f"CPU level '{level}' does not run on this machine; these do: {', '.join(cpu_levels())}")


def test_interrupt(model):
    p = subprocess.Popen([PROGRAM, "generate", "-m", model, "-p", "hello", "--ignore-eos", "-c", "200000"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.read(p.stdout.fileno(), 1)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 130
    assert b"error" not in err and b"memory" not in err


def test_reader_that_goes_away(model):
    p = subprocess.Popen([PROGRAM, "generate", "-m", model, "-p", "hello", "--ignore-eos", "-c", "200000"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.read(p.stdout.fileno(), 1)
    p.stdout.close()
    assert p.wait(timeout=30) == 1
    assert b"error" not in p.stderr.read()
    p.stderr.close()


def prompt_tokens(model, *options, **kwargs):
    return json.loads(answer(model, "-p", "hello", "-n", 1, "--json", *options, **kwargs))["prompt_tokens"]


def test_another_chat_template(model, tmp_path):
    path = tmp_path / "own.jinja"
    path.write_text("{{ bos_token }}{{ messages[0].content }}")
    assert prompt_tokens(model) == 5
    assert prompt_tokens(model, "--chat-template-file", path) == prompt_tokens(model, "--chat-template", path.read_text()) == 2
    assert prompt_tokens(model, env={"LLAMA_ARG_CHAT_TEMPLATE": "{{ messages[0].content }}"}) == 1
    assert prompt_tokens(model, env={"LLAMA_ARG_CHAT_TEMPLATE_FILE": str(path)}) == 2
    assert prompt_tokens(model, "--chat-template-file", path, env={"LLAMA_ARG_CHAT_TEMPLATE": "{{ 'a' }}"}) == 2
    assert prompt_tokens(model, "--chat-template", path.read_text(), env={"LLAMA_ARG_CHAT_TEMPLATE_FILE": "/none"}) == 2
    assert "chatml, gemma, llama2" in fault("generate", "-m", model, "-p", "hello", "--chat-template", "alpaca")
    assert "chat_template:1:7: " in fault("generate", "-m", model, "-p", "hello", "--chat-template", "{% if %}")


def test_chat_template_kwargs(model, tmp_path):
    """Variables for the template; all commands that chat refuse what is no object."""
    template = tmp_path / "t.jinja"
    template.write_text("{{ bos_token }}{% if think is defined and not think %}hello{% else %}hello world{% endif %}")
    def n_prompt(*args, **kwargs):
        text = mlxcel_ok("generate", "-m", model, "--chat-template-file", template, "-p", "x", "-n", 1, "--json", *args, **kwargs)
        return json.loads(text)["prompt_tokens"]
    assert n_prompt() == 3 and n_prompt("--chat-template-kwargs", '{"think": false}') == 2
    assert n_prompt(env={"LLAMA_CHAT_TEMPLATE_KWARGS": '{"think": false}'}) == 2
    for command in ("run", "generate", "serve"):
        for text in ("[]", "{", "1", ""):
            assert "takes a JSON object, such" in usage(command, "-m", model, "--chat-template-kwargs", text)
