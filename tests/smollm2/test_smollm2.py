"""The default model against tests/data/smollm2 (made by tools/make_smollm2_reference.py): the import is lossless,
--exact answers as mlx-lm does in float32, and the faster precisions lose no more than LOSSES says.

Needs the model in the store, where `make demo` puts it; without it these tests are skipped.
"""
import hashlib
import json
import lzma
import os
from pathlib import Path

import pytest

from testlib import DATA, mlxcel_ok, read_safetensors, stored_tensors

STORE = Path(os.environ.get("MLXCEL_CACHE_DIR") or Path.home() / ".cache" / "mlxcel")
MODEL = STORE / "mlxcel" / "SmolLM2-135M-Instruct-4bit"
END = 2  # <|im_end|>
GAP = 1e-3
# Precision options; the most mean KL divergence from --exact; the least share of equal choices.
LOSSES = {"default": ([], 5e-3, 0.94), "high": (["--precision", "high"], 1e-3, 0.99)}

pytestmark = pytest.mark.skipif(not (MODEL / "config.json").exists(), reason="no default model; `make demo` gets it")


def read(name):
    return json.loads(lzma.open(DATA / "smollm2" / name).read())


@pytest.fixture(scope="module")
def greedy():
    return read("greedy.json.xz")


@pytest.fixture(scope="module")
def exact(greedy, tmp_path_factory):
    """(vocabulary size, flat logits) of the long text in --exact."""
    return logits(greedy["long"]["ids"], tmp_path_factory.mktemp("exact") / "out.safetensors", "--exact")


def logits(ids, out, *options):
    """(vocabulary size, flat logits) of every position."""
    ids_file = out.with_suffix(".json")
    ids_file.write_text(json.dumps(ids))
    mlxcel_ok("logits", "-m", MODEL, "--tokens-file", ids_file, *options, "-o", out, "--force", timeout=100)
    (n, vocab), values = read_safetensors(out)["logits"]
    assert n == len(ids)
    return vocab, values


def test_import_gives_the_expected_planes():
    needed = read("planes.json.xz")
    found = {}
    for path in MODEL.glob("model*.safetensors"):
        for name, (dtype, shape, content) in stored_tensors(path).items():
            found[name] = {"dtype": dtype, "shape": shape, "sha256": hashlib.sha256(content).hexdigest()}
    assert sorted(found) == sorted(needed)
    assert [n for n in needed if found[n] != needed[n]] == []


@pytest.mark.parametrize("i", range(10))
def test_exact_chooses_as_the_reference(i, greedy, tmp_path):
    """Each of the reference's 64 tokens is the most likely one after what comes before, where its lead is clear."""
    prompt = greedy["prompts"][i]
    ids, answer = prompt["ids"], prompt["tokens"]
    vocab, values = logits(ids + answer[:-1], tmp_path / "out.safetensors", "--exact")
    for k, (token, gap) in enumerate(zip(answer, prompt["gap"])):
        at = (len(ids) - 1 + k) * vocab
        row = values[at:at + vocab]
        if gap > GAP:
            assert row.index(max(row)) == token, f"token {k} of the answer to {prompt['text'][:40]!r}"


@pytest.mark.parametrize("i", range(0, 10, 2))
def test_generate_answers_as_the_reference(i, greedy):
    """The same by decoding one token at a time, as text. All leads of the reference are clear."""
    prompt = greedy["prompts"][i]
    assert min(prompt["gap"]) > GAP
    text = mlxcel_ok("generate", "-m", MODEL, "-p", prompt["text"], "--raw", "-n", len(prompt["tokens"]), "--exact")
    assert text.removesuffix("\n") == prompt["answer"].removesuffix("\n")


def test_tokenize_gives_the_ids_of_the_prompts(greedy):
    for prompt in greedy["prompts"]:
        assert json.loads(mlxcel_ok("tokenize", "-m", MODEL, "--ids", stdin=prompt["text"])) == prompt["ids"]


def test_exact_logits_of_a_long_text(greedy, exact):
    vocab, values = exact
    for row in greedy["long"]["rows"]:
        for i, needed in zip(row["ids"], row["logits"]):
            found = values[row["position"] * vocab + i]
            assert abs(found - needed) <= 1e-3 * row["std"], f"position {row['position']}, id {i}"


@pytest.mark.parametrize("precision", LOSSES)
def test_precision_loses_little(precision):
    """Over 2,100 tokens of a real text, in windows of 512."""
    options, most, least = LOSSES[precision]
    found = json.loads(mlxcel_ok("perplexity", "-m", MODEL, "-f", "-", "--kl-against", "exact", "--json", *options,
                                 stdin=(DATA / "smollm2" / "text.txt").read_text()[:8000], timeout=300))
    assert found["tokens"] >= 2000
    assert 0 < found["kl_mean"] <= most
    assert found["top1_agreement"] >= least


def test_memory():
    """Peak memory stays below weights, cache and 60 MB, with a prompt of 512 tokens and the default batch."""
    facts = json.loads(mlxcel_ok("bench", "-m", MODEL, "-p", "512", "-n", "16", "-r", "1", "--json"))
    cache = 512 * json.loads(mlxcel_ok("describe", "-m", MODEL, "--json"))["kv_bytes_per_token"]
    assert facts["peak_rss_bytes"] <= facts["weights_bytes"] + cache + 60e6
