"""Adapters at run time against the logits of mlx-lm and of transformers with PEFT (tests/data/lora, made by
tools/make_lora_fixtures.py and tools/make_peft_fixtures.py).

In --exact the logits are the reference's, computed in float32 from dequantized weights, within 1e-4 of their standard
deviation, at every CPU level; the faster precisions stay close. Scale 0 is the base, byte for byte; several adapters give
the same bytes in every order; chunks and threads change none.
"""
import itertools
import json
import math

import pytest

from lorafixtures import ADAPTERS, assert_close, base_of, expected, logits, run
from testlib import DATA, cosine, cpu_levels, mlxcel, read_safetensors

SUMS = json.loads((DATA / "lora/mlx/sums.json").read_text())
# Options of each precision and the least cosine with the reference that random weights of such tiny sizes leave it.
PRECISIONS = {"exact": (["--exact"], 0.999999), "high": (["--precision", "high"], 0.9995), "default": ([], 0.99)}


def test_adapters_are_there():
    assert {a.split("/")[0] for a in ADAPTERS} == {"mlx", "peft"} and len(ADAPTERS) > 50


@pytest.mark.parametrize("level", cpu_levels())
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_exact_equals_reference(adapter, level, tmp_path):
    want = expected(adapter)
    options = ["--exact", "--cpu-level", level]
    assert_close(logits(base_of(adapter), want["tokens"], [adapter], tmp_path, *options), want["logits"])
    if "half" in want:
        assert_close(logits(base_of(adapter), want["tokens"], [adapter + ":0.5"], tmp_path, *options), want["half"])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_precision_is_close(adapter, precision, tmp_path):
    options, least = PRECISIONS[precision]
    want = expected(adapter)
    found = logits(base_of(adapter), want["tokens"], [adapter], tmp_path, *options)
    assert all(map(math.isfinite, found))
    assert cosine(found, want["logits"]) > least


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_scale_0_is_the_base(adapter, precision, tmp_path):
    options, tokens = PRECISIONS[precision][0], expected(adapter)["tokens"]
    base = run(base_of(adapter), tokens, [], tmp_path, *options)
    assert run(base_of(adapter), tokens, [adapter + ":0"], tmp_path, *options) == base
    assert run(base_of(adapter), tokens, [adapter], tmp_path, *options) != base


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_chunks_and_threads_change_no_byte(adapter, precision, tmp_path):
    args = base_of(adapter), expected(adapter)["tokens"], [adapter], tmp_path, *PRECISIONS[precision][0]
    whole = run(*args)
    for chunk, threads in ("1", "2"), ("5", "3"):
        assert run(*args, "--chunk", chunk, "--threads", threads) == whole, f"--chunk {chunk} --threads {threads}"


@pytest.mark.parametrize("name", SUMS)
def test_sum_equals_reference(name, tmp_path):
    tensors = read_safetensors(DATA / "lora/mlx/sums.safetensors")
    base = base_of("mlx/" + SUMS[name][0][0])
    uses = [f"mlx/{adapter}:{scale}" for adapter, scale in SUMS[name]]
    found = logits(base, list(tensors[name + ".tokens"][1]), uses, tmp_path, "--exact")
    assert_close(found, tensors[name + ".logits"][1])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_order_of_adapters_changes_no_byte(precision, tmp_path):
    """Three adapters, one of them twice, one with DoRA and one at scale 0."""
    uses = ["mlx/plain:0.5", "mlx/old-layers:-0.75", "peft/plain", "mlx/plain:0.25", "mlx/dora-embed:0"]
    base, options = base_of("mlx/plain"), PRECISIONS[precision][0]
    found = {run(base, [1, 2, 3], order, tmp_path, *options) for order in list(itertools.permutations(uses))[::7]}
    assert len(found) == 1
    uses[4] = "mlx/dora-embed:1"
    found |= {run(base, [1, 2, 3], order, tmp_path, *options) for order in list(itertools.permutations(uses))[::7]}
    assert len(found) == 2


@pytest.mark.parametrize("uses, why", [
    (["mlx/dora", "mlx/dora-embed"], "both have DoRA on"),
    (["mlx/full", "mlx/full"], "both replace"),
    (["mlx/full", "mlx/dora"], "DoRA on"),
])
def test_adapters_that_exclude_each_other(uses, why, tmp_path):
    for order in uses, uses[::-1]:
        loras = [word for use in order for word in ("--lora", DATA / "lora" / use)]
        r = mlxcel("logits", "-m", base_of(uses[0]), "--tokens", "1,2", *loras, "-o", tmp_path / "out.safetensors")
        assert r.returncode == 1 and not list(tmp_path.iterdir())
        message = r.stderr.decode()
        assert why in message and message.endswith(": only one of them can be used at a time\n")
