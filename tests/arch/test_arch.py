"""Every family against the logits of an independent reference (tests/data/arch, made by tools/make_arch_fixtures.py).

In --exact the logits are the reference's within 1e-3 of their standard deviation, at every CPU level; the faster
precisions stay close; and in each of them chunks and threads do not change a byte.
"""
import json
import math

import pytest

from testlib import DATA, cosine, cpu_levels, mlxcel, read_safetensors, std

VARIANTS = sorted(p.parent.name for p in (DATA / "arch").glob("*/config.json"))
EXACT_TOLERANCE = 1e-3  # of the standard deviation of the reference's logits
# Options of each precision and the least cosine with the reference that random weights of such tiny sizes leave it.
PRECISIONS = {"exact": (["--exact"], 0.999999), "high": (["--precision", "high"], 0.9995), "default": ([], 0.99)}


def expected(variant):
    """tokens, vocabulary size, logits (flat)."""
    tensors = read_safetensors(DATA / "arch" / variant / "expected.safetensors")
    (n, vocab), logits = tensors["logits"]
    tokens = list(tensors["tokens"][1])
    assert len(tokens) == n
    return tokens, vocab, logits


def run_logits(variant, tmp_path, *options):
    """The path of the output of `mlxcel logits` for the variant's prompt."""
    ids = tmp_path / "tokens.json"
    ids.write_text(json.dumps(expected(variant)[0]))
    out = tmp_path / ("-".join(("out", *options)) + ".safetensors")
    r = mlxcel("logits", "-m", DATA / "arch" / variant, "--tokens-file", ids, *options, "-o", out)
    message = r.stderr.decode(errors="replace")
    assert r.returncode == 0, message
    assert r.stdout == b""
    assert "error" not in message
    return out


def logits_of(path, tokens, vocab):
    tensors = read_safetensors(path)
    assert sorted(tensors) == ["logits", "tokens"]
    assert tensors["tokens"][0] == [len(tokens)] and list(tensors["tokens"][1]) == tokens
    shape, logits = tensors["logits"]
    assert logits.typecode == "f" and shape == [len(tokens), vocab]
    return logits


def assert_close(found, needed, vocab):
    limit = EXACT_TOLERANCE * std(needed)
    worst, at = max((abs(f - r) if math.isfinite(f) else math.inf, i) for i, (f, r) in enumerate(zip(found, needed)))
    assert worst <= limit, (f"position {at // vocab}, id {at % vocab}: {found[at]} instead of {needed[at]}, "
                            f"off by {worst:.3g}, more than {limit:.3g}")


def test_variants_are_there():
    assert {v.split("-")[0] for v in VARIANTS} >= {"llama", "mistral", "qwen2", "qwen3"}


@pytest.mark.parametrize("level", cpu_levels())
@pytest.mark.parametrize("variant", VARIANTS)
def test_exact_equals_reference(variant, level, tmp_path):
    tokens, vocab, needed = expected(variant)
    out = run_logits(variant, tmp_path, "--exact", "--cpu-level", level)
    assert_close(logits_of(out, tokens, vocab), needed, vocab)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_precision_is_close(variant, precision, tmp_path):
    options, least = PRECISIONS[precision]
    tokens, vocab, needed = expected(variant)
    found = logits_of(run_logits(variant, tmp_path, *options), tokens, vocab)
    assert all(map(math.isfinite, found))
    assert cosine(found, needed) > least


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_chunks_and_threads_change_no_byte(variant, precision, tmp_path):
    options, _ = PRECISIONS[precision]
    whole = run_logits(variant, tmp_path, *options).read_bytes()
    for chunk in ("1", "7", "64"):
        for threads in ("1", "2", "3"):
            out = run_logits(variant, tmp_path, *options, "--chunk", chunk, "--threads", threads)
            assert out.read_bytes() == whole, f"--chunk {chunk} --threads {threads}"
