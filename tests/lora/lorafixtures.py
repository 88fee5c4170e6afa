"""The adapters of tests/data/lora, what they are for, what is expected of them, and the program with them."""
import json
import math

import loralib
from testlib import DATA, mlxcel, read_safetensors, std

ADAPTERS = sorted(str(p.parent.relative_to(DATA / "lora")) for p in (DATA / "lora").glob("*/*/base"))
EXACT_TOLERANCE = 1e-4  # of the standard deviation of the reference's logits


def base_of(adapter):
    return loralib.base_of(DATA / "lora" / adapter)


def expected(adapter):
    """name -> values of expected.safetensors; tokens as a list."""
    tensors = {k: v for k, (_, v) in read_safetensors(DATA / "lora" / adapter / "expected.safetensors").items()}
    return {**tensors, "tokens": list(tensors["tokens"])}


def run(base, tokens, uses, tmp_path, *options, flag="--lora"):
    """The bytes of the output of `mlxcel logits` with adapters: (path or PATH:SCALE)..."""
    ids, out = tmp_path / "tokens.json", tmp_path / "out.safetensors"
    ids.write_text(json.dumps(tokens))
    loras = [word for use in uses for word in (flag, DATA / "lora" / use)]
    r = mlxcel("logits", "-m", base, "--tokens-file", ids, *loras, *options, "-o", out, "--force")
    assert r.returncode == 0, r.stderr.decode(errors="replace")
    return out.read_bytes()


def logits(base, tokens, uses, tmp_path, *options, **flag):
    run(base, tokens, uses, tmp_path, *options, **flag)
    return read_safetensors(tmp_path / "out.safetensors")["logits"][1]


def assert_close(found, needed):
    assert len(found) == len(needed)
    worst = max(abs(f - n) if math.isfinite(f) else math.inf for f, n in zip(found, needed))
    assert worst <= EXACT_TOLERANCE * std(needed), f"off by {worst / std(needed):.3g} standard deviations"
