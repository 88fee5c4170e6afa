"""perplexity against what `logits` gives, in Python."""
import json
import math
import shutil
import struct

import pytest

from clilib import fault, usage
from testlib import DATA, mlxcel_ok, read_safetensors, safetensors_header

TINY = DATA / "tiny"
TEXT = "".join(f"The number {i} follows {i - 1}, and {i * i} is its square; é ∑ 🙂\n" for i in range(12))


def log_softmax(row):
    top = max(row)
    total = top + math.log(math.fsum(math.exp(v - top) for v in row))
    return [v - total for v in row]


def expected(ids, window, tmp_path):
    """(foretold tokens, mean nll, mean KL(exact || default), greatest, share of equal choices)."""
    nll, kl, same = [], [], 0
    for at in range(0, len(ids), window):
        part = ids[at:at + window]
        if len(part) < 2:
            continue
        rows = {}
        for name, options in (("default", []), ("exact", ["--exact"])):
            out = tmp_path / name
            mlxcel_ok("logits", "-m", TINY, "--tokens", ",".join(map(str, part)), "-o", out, "--force", *options)
            (n, vocab), values = read_safetensors(out)["logits"]
            rows[name] = [log_softmax(values[i * vocab:(i + 1) * vocab]) for i in range(n)]
        for i in range(len(part) - 1):
            q, p = rows["default"][i], rows["exact"][i]
            nll.append(-q[part[i + 1]])
            kl.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)))
            same += p.index(max(p)) == q.index(max(q))
    return len(nll), math.fsum(nll) / len(nll), math.fsum(kl) / len(kl), max(kl), same / len(nll)


@pytest.mark.parametrize("window", [50, 64, 2])
def test_as_computed_from_logits(window, tmp_path):
    ids = json.loads(mlxcel_ok("tokenize", "-m", TINY, "--ids", "--no-special", stdin=TEXT))
    n, nll, kl, most, same = expected(ids, window, tmp_path)
    (tmp_path / "text").write_text(TEXT)
    found = json.loads(mlxcel_ok("perplexity", "-m", TINY, "-f", tmp_path / "text", "-c", window, "--kl-against", "exact",
                                 "--json"))
    assert found["tokens"] == n
    assert found["windows"] == sum(1 for at in range(0, len(ids), window) if len(ids) - at > 1)
    assert found["nll"] == pytest.approx(nll, rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(nll), rel=1e-6)
    assert found["kl_mean"] == pytest.approx(kl, rel=1e-4, abs=1e-12)
    assert found["kl_max"] == pytest.approx(most, rel=1e-4, abs=1e-12)
    assert found["top1_agreement"] == pytest.approx(same)
    assert found["precision"] == "default" and found["kl_against"] == "exact"


def test_exact_against_itself_is_nothing(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    found = json.loads(mlxcel_ok("perplexity", "-m", TINY, "-f", tmp_path / "text", "--exact", "--kl-against", "exact", "--json"))
    assert found["kl_mean"] == 0 and found["top1_agreement"] == 1
    assert found["perplexity"] == found["perplexity_against"]


def test_stdin_and_words():
    text = mlxcel_ok("perplexity", "-m", TINY, "-f", "-", stdin=TEXT)
    assert text.startswith("perplexity  ") and text.count("\n") == 1
    assert "mean KL divergence" in mlxcel_ok("perplexity", "-m", TINY, "-f", "-", "--kl-against", "high", stdin=TEXT)


def test_refusals(tmp_path):
    assert "--file TEXT" in usage("perplexity", "-m", TINY)
    assert "from 2 to" in usage("perplexity", "-m", TINY, "-f", "-", "-c", "1")
    assert "nothing" in fault("perplexity", "-m", TINY, "-f", tmp_path / "nothing")
    assert "0 tokens, at least 2" in fault("perplexity", "-m", TINY, "-f", "-")
    assert "1 tokens, at least 2" in fault("perplexity", "-m", TINY, "-f", "-", stdin="a")


@pytest.mark.parametrize("bits, words", [(0x7fc0, "logits that are not numbers"), (0x4b00, None)])
def test_logits_beyond_all_measure(bits, words, tmp_path):
    """Norms of NaN, and of 2^23: a perplexity that no double holds is the greatest in JSON."""
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    data = bytearray((model / "model.safetensors").read_bytes())
    header, start = safetensors_header(data)
    low, high = (start + at for at in header["model.norm.weight"]["data_offsets"])
    data[low:high] = struct.pack("<H", bits) * ((high - low) // 2)
    (model / "model.safetensors").write_bytes(data)
    command = "perplexity", "-m", model, "-f", "-", "--json", "--kl-against", "exact"
    if words:
        assert words in fault(*command, stdin=TEXT)
    else:
        assert json.loads(mlxcel_ok(*command, stdin=TEXT))["perplexity"] == pytest.approx(1.797693e308)
