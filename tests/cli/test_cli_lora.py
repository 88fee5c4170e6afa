"""Adapters on the command line: spellings, scales, several at once, every command, refusals."""
import json

import pytest

from clilib import fault, usage
from loralib import TINY, write_adapter
from testlib import DATA, mlxcel, mlxcel_ok, read_safetensors

QUANTIZED = DATA / "arch" / "qwen2-q4-g64-bf16"
IDS = "3,1,17,100,9,44"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("lora")
    write_adapter(root / "a", seed=1)
    write_adapter(root / "b", seed=2, rank=20)
    write_adapter(root / "a:1", seed=3)
    write_adapter(root / "wide", more_inputs=1)
    write_adapter(root / "half", seed=1, scale=2.0)  # a, with half its scale
    return root


def logits(tmp, *options, model=TINY):
    """The bytes of the logits with these options."""
    out = tmp / "out"
    assert mlxcel_ok("logits", "-m", model, "--tokens", IDS, "-o", out, "--force", *options) == ""
    return out.read_bytes()


def test_spellings(files, tmp_path):
    a = logits(tmp_path, "--lora", files / "a")
    assert a != logits(tmp_path)
    for same in (["--lora", f"{files / 'a'}:1"], ["--lora", f"{files / 'a'}/"], ["--lora", files / "a" / "adapters.safetensors"],
                 ["--lora-scaled", f"{files / 'a'}:1.0"], ["--lora", f"{files / 'a'}:+1e0"], [f"--lora={files / 'a'}"]):
        assert logits(tmp_path, *same) == a, same


def test_scale_follows_the_last_colon(files, tmp_path):
    assert logits(tmp_path, "--lora", f"{files / 'a'}:1:1") == logits(tmp_path, "--lora", f"{files / 'a:1'}:1.0")
    assert logits(tmp_path, "--lora", f"{files / 'a'}:0.5") == logits(tmp_path, "--lora", files / "half")
    for not_a_scale in ("inf", "nan", "x", "", "1x", " 1", "0.5,"):
        assert f"a:{not_a_scale}" in fault("logits", "-m", TINY, "--tokens", "1", "-o", tmp_path / "o", "--lora",
                                          f"{files / 'a'}:{not_a_scale}")


def test_scale_zero_is_the_base(files, tmp_path):
    base = logits(tmp_path)
    for options in (["--lora", f"{files / 'a'}:0"], ["--lora-scaled", f"{files / 'a'}:0,{files / 'b'}:-0.0"],
                    ["--lora", files / "b", "--lora-init-without-apply"]):
        assert logits(tmp_path, *options) == base, options


def test_adapters_add_in_any_order(files, tmp_path):
    both = logits(tmp_path, "--lora", files / "a", "--lora", f"{files / 'b'}:0.5")
    assert logits(tmp_path, "--lora", f"{files / 'b'}:0.5", "--lora", files / "a") == both
    assert logits(tmp_path, "--lora-scaled", f"{files / 'b'}:0.5,{files / 'a'}:1") == both
    assert logits(tmp_path, "--lora", files / "a", "--lora", f"{files / 'b'}:0.5", "--chunk", 1, "--threads", 1) == both
    assert both not in (logits(tmp_path, "--lora", files / "a"), logits(tmp_path, "--lora", f"{files / 'b'}:0.5"))


def test_quantized_base(tmp_path):
    write_adapter(tmp_path / "q", model=QUANTIZED)
    assert logits(tmp_path, "--lora", tmp_path / "q", model=QUANTIZED) != logits(tmp_path, model=QUANTIZED)
    message = fault("logits", "-m", QUANTIZED, "--tokens", "1", "-o", tmp_path / "o", "--adapter", tmp_path / "q")
    assert "quantized" in message and "--lora" in message


def test_fused(files, tmp_path):
    """The weights are bfloat16: fused adapters agree to their rounding; a fused and a run-time one add."""
    def values(*options):
        logits(tmp_path, "--exact", *options)
        return read_safetensors(tmp_path / "out")["logits"][1]

    runtime = values("--lora", files / "a")
    for options in (["--adapter", files / "a"], ["--adapter-path", files / "a"], ["--lora", files / "a", "--lora-fuse"]):
        assert 0 < max(abs(x - y) for x, y in zip(values(*options), runtime)) < 0.1 * max(map(abs, runtime)), options
    assert logits(tmp_path, "--adapter", files / "a", "--lora", files / "b") not in (
        logits(tmp_path, "--adapter", files / "a"), logits(tmp_path, "--lora", files / "b"))
    assert logits(tmp_path, "--lora", f"{files / 'a'}:0", "--lora-fuse") == logits(tmp_path)
    assert logits(tmp_path, "--adapter", files / "a", "--lora", files / "b", "--lora-init-without-apply") == logits(
        tmp_path, "--adapter", files / "a")


def test_every_command(files):
    text = files / "text.txt"
    text.write_text("hello world " * 20)
    for command in (["run", "-p", "hello", "--temp", "0", "-n", "8", "-m"], ["generate", "--raw", "-p", "hello", "-n", "8", "-m"],
                    ["perplexity", "-f", text, "--json", "-m"]):
        plain, adapted = (mlxcel_ok(*command, TINY, *o) for o in ([], ["--lora", files / "a"]))
        assert plain != adapted, command
        assert mlxcel_ok(*command, TINY, "--lora", f"{files / 'a'}:0") == plain, command
    bench = ["bench", "-m", TINY, "-p", 4, "-n", 2, "-r", 1, "--json"]
    assert json.loads(mlxcel_ok(*bench))["lora_bytes"] == 0
    stored = (files / "b" / "adapters.safetensors").stat().st_size
    assert stored * 0.9 < json.loads(mlxcel_ok(*bench, "--lora", files / "b"))["lora_bytes"] < stored * 1.7


def test_bench_tells_what_adapters_take(files):
    small = ["bench", "-m", TINY, "-p", 0, "-n", 2, "-r", 1]
    pair = ["--lora", files / "a", "--lora", files / "b"]
    facts = json.loads(mlxcel_ok(*small, "-b", 3, "--lora-each", *pair, "--json"))
    assert facts["lora_load_s"] > 0 and facts["lora_scale_s"] > 0
    one = json.loads(mlxcel_ok(*small, "--lora", files / "a", "--json"))
    assert facts["lora_bytes"] > one["lora_bytes"] > 0
    assert "the first loads in" in mlxcel_ok(*small, *pair)
    assert "the first loads in" not in mlxcel_ok(*small, "--adapter", files / "a")
    for options in ([], ["--adapter", files / "a"]):
        assert "--lora-each needs adapters" in usage(*small, "--lora-each", *options)


def test_faults_of_all_adapters_are_one_report(files, tmp_path):
    message = fault("logits", "-m", TINY, "--tokens", "1", "-o", tmp_path / "o", "--lora", files / "wide", "--lora", files / "a",
                    "--lora", files / "none")
    assert f"{files / 'wide'}: adapters.safetensors: model.layers.0.mlp.down_proj takes " in message
    assert "; adapters.safetensors: model.layers.0.self_attn.q_proj takes 64 input features" in message
    assert f"{files / 'none'}: there is no adapter at {files / 'none'}" in message
    assert not (tmp_path / "o").exists()


def test_usage(files, tmp_path):
    out = tmp_path / "o"
    for options in (["--lora", ""], ["--lora", ":1"], ["--lora-scaled", files / "a"], ["--lora-scaled", f"{files / 'a'}:1,"],
                    ["--lora-scaled", f"{files / 'a'}:x"], ["--adapter", ""]):
        assert "path" in usage("logits", "-m", TINY, "--tokens", "1", "-o", out, *options).lower(), options
    assert "exclude" in usage("logits", "-m", TINY, "--tokens", "1", "-o", out, "--lora", files / "a", "--lora-fuse",
                              "--lora-init-without-apply")
    assert mlxcel("tokenize", "-m", TINY, "--lora", files / "a").returncode == 2
