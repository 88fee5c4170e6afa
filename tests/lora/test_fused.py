"""The adapters of tests/data/lora fused while loading (--adapter): the logits are those of the adapter at run time, but for the
rounding of weights to their type. In a quantized matrix that would lose more: fusing is refused.
"""
import json

import pytest

from lorafixtures import ADAPTERS, assert_close, base_of, expected, logits
from testlib import DATA, cosine, mlxcel

LEAST = {"float16": 0.99999, "bfloat16": 0.999}  # cosine with the reference
UNTOUCHED = {"mlx/full-norms"}  # changes no quantized matrix of a quantized base
NO_PLACE = {"peft/lora-bias"}   # brings biases to layers that have none


def config(adapter):
    return json.loads((base_of(adapter) / "config.json").read_text())


DENSE = [a for a in ADAPTERS if "quantization" not in config(a) or a in UNTOUCHED]
REFUSED = [a for a in ADAPTERS if a not in DENSE or a in NO_PLACE]


@pytest.mark.parametrize("adapter", sorted(set(DENSE) - NO_PLACE))
def test_fused_equals_reference(adapter, tmp_path):
    want, c = expected(adapter), config(adapter)
    found = logits(base_of(adapter), want["tokens"], [adapter], tmp_path, "--exact", flag="--adapter")
    kind = c.get("dtype") or c["torch_dtype"]
    if kind == "float32":
        assert_close(found, want["logits"])
    assert cosine(found, want["logits"]) > LEAST.get(kind, 0.999999)


@pytest.mark.parametrize("adapter", REFUSED)
def test_others_are_not_fused(adapter, tmp_path):
    r = mlxcel("logits", "-m", base_of(adapter), "--tokens", "1,2", "--adapter", DATA / "lora" / adapter, "-o", tmp_path / "out")
    message = r.stderr.decode()
    lines = [line for line in message.splitlines() if not line.startswith("mlxcel: warning: ")]
    assert r.returncode == 1 and len(lines) == 1 and not list(tmp_path.iterdir())
    assert "model." in lines[0] and "--lora" in lines[0]
