#!/usr/bin/env python3
"""Makes tests/data/quant/convert.json: what mlx-lm's convert writes for tests/data/tiny, in many forms.

    tools/make_convert_reference.py                    writes the file   (packages: tools/requirements.txt)
    tools/make_convert_reference.py --check MLXCEL     instead lets that program quantize, loads its output with mlx-lm,
                                                       and compares the logits of both

A case: {"options": of `mlxcel quantize`, "quantization": of config.json, "planes": {name: [dtype, shape, 16 digits of sha256]}}.
The float modes are made from float32: MLX rounds the steps of their encoding to the input's type, on the CPU only.
"""
import argparse
import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm import convert
from mlx_lm.utils import load_model

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests/data/tiny"
NAMES = {mx.uint32: "U32", mx.uint8: "U8", mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16"}

# name -> (options of mlxcel, arguments of mlx_lm.convert)
CASES = {"affine-default": ([], {})}
for bits in (2, 3, 4, 5, 6, 8):
    for group, dtype in ((32, "float32"), (64, "float16"), (32, "bfloat16")):
        CASES[f"affine-{bits}-{group}-{dtype}"] = (
            ["--mode", "affine", "--bits", str(bits), "--group-size", str(group), "--dtype", dtype],
            {"q_bits": bits, "q_group_size": group, "dtype": dtype})
for mode in ("mxfp4", "mxfp8", "nvfp4"):
    CASES[mode] = (["--mode", mode, "--dtype", "float32"], {"q_mode": mode, "dtype": "float32"})
for recipe in ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"):
    CASES[recipe] = (["--recipe", recipe, "--group-size", "32"], {"quant_predicate": recipe, "q_group_size": 32})


def digest(a):
    return hashlib.sha256(bytes(memoryview(mx.contiguous(a).view(mx.uint8)))).hexdigest()[:16]


def reference(arguments, out):
    with contextlib.redirect_stdout(io.StringIO()):
        convert(str(SOURCE), str(out), quantize=True, **arguments)
    planes = mx.load(str(out / "model.safetensors"))
    return {"quantization": json.loads((out / "config.json").read_text())["quantization"],
            "planes": {n: [NAMES[p.dtype], p.shape, digest(p)] for n, p in sorted(planes.items())}}


def logits_of_mlx(path, tokens):
    model, _ = load_model(path)
    widen = lambda p: p.astype(mx.float32) if mx.issubdtype(p.dtype, mx.floating) else p
    model.update(tree_map(widen, model.parameters()))
    if getattr(model.model.embed_tokens, "mode", "affine") != "affine":
        embed = model.model.embed_tokens
        return model(mx.array([tokens]), input_embeddings=embed(mx.array([tokens])).astype(mx.float32))[0]
    return model(mx.array([tokens]))[0]


def check(program, options, out):
    tokens = [i * 37 % 271 for i in range(40)]
    subprocess.run([program, "quantize", "-m", SOURCE, "-o", out / "model", *options], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([program, "logits", "-m", out / "model", "--exact", "--tokens", ",".join(map(str, tokens)), "-o",
                    out / "logits.safetensors"], check=True)
    ours = mx.load(str(out / "logits.safetensors"))["logits"]
    theirs = logits_of_mlx(out / "model", tokens)
    return (mx.abs(ours - theirs).max() / mx.std(theirs)).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", metavar="MLXCEL")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    cases, worst = {}, 0
    for name, (options, arguments) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            if args.check:
                off = check(args.check, options, Path(folder))
                worst = max(worst, off)
                print(f"{name:24} {off:.1e} standard deviations")
            else:
                cases[name] = {"options": options, **reference(arguments, Path(folder) / "out")}
    if args.check:
        sys.exit(0 if worst < 1e-3 else f"{worst:.1e} is more than 1e-3")
    text = json.dumps(cases, indent=None, separators=(",", ":"))
    (ROOT / "tests/data/quant/convert.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
