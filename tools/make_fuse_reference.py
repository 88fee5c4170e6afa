#!/usr/bin/env python3
"""Makes tests/data/lora/fuse.json: what mlx_lm.fuse makes of the adapters of tests/data/lora/mlx and their bases.

    tools/make_fuse_reference.py                    writes the file   (packages: tools/requirements.txt)
    tools/make_fuse_reference.py --check MLXCEL     instead compares what that program fuses with mlx-lm, element by element

A case is an adapter and an option of `mlxcel fuse`; the file has {"adapter --option": {name: [dtype, shape, 16 digits of
sha256]}} of the tensors that the adapter changes. What mlx would round on the way is widened to float32 first: the
adapter's tensors (s * b), scales and biases of quantized layers (code * scale, before the bias is added), and what is
quantized again in a float mode. Layers of DoRA are compared loosely, and not in the file: mlx computes their norms in the
base's type, and keeps them in float32.
"""
import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import load_adapters
from mlx_lm.utils import load_model

from arch_variants import reference_config

DATA = Path(__file__).resolve().parent.parent / "tests/data"
NAMES = {mx.uint32: "U32", mx.uint8: "U8", mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16"}
CASES = [(name, "") for name in ("plain", "plain-bf16", "plain-f16", "some", "rank-1", "rank-64", "square", "embed-tied",
                                 "embed-untied", "dora", "dora-bias", "dora-head")]
CASES += [(name, option) for name in ("q2", "q3", "q4", "q4-embed", "q5", "q6", "q8", "mixed", "mxfp4",
                                               "mxfp8", "nvfp4", "floats")
          for option in ("--dequantize", "--requantize")]


def is_dora(name):
    return name.startswith("dora")


def dense(layer):
    """A quantized layer decoded in float32, in the type of its scales."""
    wide = lambda p: None if p is None else p.astype(mx.float32) if p.dtype != mx.uint8 else p
    w = mx.dequantize(layer.weight, wide(layer.scales), wide(layer.get("biases")), layer.group_size, layer.bits, layer.mode)
    w = w.astype(layer.scales.dtype if layer.mode == "affine" else mx.bfloat16)
    out = nn.Embedding(1, 1) if isinstance(layer, nn.QuantizedEmbedding) else nn.Linear(1, 1, bias="bias" in layer)
    out.weight = w
    if "bias" in layer:
        out.bias = layer.bias
    return out


def quantize(layer, like):
    """{plane: tensor} of a dense layer in the form of another one."""
    w = layer.weight if like.mode == "affine" else layer.weight.astype(mx.float32)
    return dict(zip(("weight", "scales", "biases"), mx.quantize(w, like.group_size, like.bits, like.mode)))


def fuse(base, adapter, option):
    """{name: tensor} of the modules that the adapter changes, biases left out"""
    model, _ = load_model(base, model_config=reference_config(json.loads((base / "config.json").read_text())))
    quantized = {n: m for n, m in model.named_modules() if "scales" in m} if option else {}
    model.update_modules(tree_unflatten([(n, dense(m)) for n, m in quantized.items()]))
    model = load_adapters(model, str(adapter))
    tensors = {}
    for name, module in model.named_modules():
        if not hasattr(module, "fuse"):
            continue
        for key in ("lora_a", "lora_b", "m"):
            if key in module:
                module[key] = module[key].astype(mx.float32)
        fused = module.fuse()
        planes = {"weight": fused.weight}
        if option == "--requantize" and name in quantized:
            planes = quantize(fused, quantized[name])
        tensors.update({f"{name}.{plane}": t for plane, t in planes.items()})
    mx.eval(tensors)
    return dict(sorted(tensors.items()))


def digest(a):
    return hashlib.sha256(bytes(memoryview(mx.contiguous(a).view(mx.uint8)))).hexdigest()[:16]


def compare(ours, theirs, loose):
    """(elements that differ, elements, greatest relative difference of a tensor)"""
    differ = total = worst = 0
    for name, b in theirs.items():
        a = ours[name]
        assert a.shape == b.shape and (loose or a.dtype == b.dtype), (name, a.dtype, b.dtype)
        differ += mx.sum(a != b).item()
        total += a.size
        if a.dtype != mx.uint32:
            a, b = a.astype(mx.float32), b.astype(mx.float32)
            worst = max(worst, (mx.linalg.norm(a - b) / mx.linalg.norm(b)).item())
    return differ, total, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", metavar="MLXCEL")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    cases, bad = {}, []
    for name, option in CASES:
        adapter = DATA / "lora/mlx" / name
        base = DATA / (adapter / "base").read_text().strip()
        theirs = fuse(base, adapter, option)
        if not args.check:
            if not is_dora(name):
                cases[f"{name} {option}".strip()] = {n: [NAMES[t.dtype], t.shape, digest(t)] for n, t in theirs.items()}
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            subprocess.run([args.check, "fuse", "-m", base, "--adapter", adapter, "-o", out, *option.split()], check=True,
                           stderr=subprocess.DEVNULL)
            ours = {k: v for f in out.glob("*.safetensors") for k, v in mx.load(str(f)).items()}
            load_model(out, model_config=reference_config(json.loads((out / "config.json").read_text())))
            differ, total, worst = compare(ours, theirs, is_dora(name))
            print(f"{name:14} {option:14} {differ:6} of {total:6} elements differ, {worst:.1e}")
            if worst > 4e-3 if is_dora(name) else differ > 1e-5 * total:
                bad.append(f"{name} {option}")
    if args.check:
        sys.exit(f"not equal: {', '.join(bad)}" if bad else 0)
    (DATA / "lora/fuse.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
