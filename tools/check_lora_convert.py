#!/usr/bin/env python3
"""Lets a mlxcel convert and merge the adapters of tests/data/lora, loads what it wrote with the libraries that it is for,
mlx-lm and PEFT, and compares the logits with those of the originals.

Usage: tools/check_lora_convert.py MLXCEL     (packages: tools/requirements.txt)
"""
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import mlx.core as mx
import torch
from peft import PeftModel

import lora_reference as ref
from make_peft_fixtures import load_base, logits

DATA = Path(__file__).resolve().parent.parent / "tests/data"
MOST = 1e-4  # of the logits' standard deviation
TO_MLX = ["plain", "rslora", "linear", "embed", "fan-in", "default-names", "dora", "dora-rslora", "q4", "patterns",
          "patterns-rslora", "square"]
# of bases that transformers takes
TO_PEFT = ["plain", "plain-bf16", "rank-1", "rank-64", "square", "embed-untied", "old-alpha", "vlm", "dora", "q4"]


def by_mlx(base, adapter, tokens):
    return ref.logits(ref.adapted(base, adapter, True), tokens)


def by_peft(base, adapter, tokens):
    model = PeftModel.from_pretrained(load_base(base), str(adapter))
    model.eval()
    return mx.array(logits(model, tokens))


def check(program, source, load, *command):
    """Runs the command with the output's path behind it and returns how far the logits are off."""
    base = DATA / (source / "base").read_text().strip()
    expected = mx.load(str(source / "expected.safetensors"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        subprocess.run([program, "lora", *map(str, command), "-o", out], check=True, stderr=subprocess.DEVNULL)
        off = ref.distance(load(base, out, expected["tokens"].tolist()), expected["logits"])
    print(f"{command[0]:8} {source.parent.name}/{source.name:16} {off:.1e} standard deviations")
    return off


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = sys.argv[1]
    warnings.simplefilter("ignore")
    mx.set_default_device(mx.cpu)
    torch.set_num_threads(1)
    off = []
    for name in TO_MLX:
        off.append(check(program, DATA / "lora/peft" / name, by_mlx, "convert", DATA / "lora/peft" / name, "--to", "mlx"))
    for name in TO_PEFT:
        off.append(check(program, DATA / "lora/mlx" / name, by_peft, "convert", DATA / "lora/mlx" / name, "--to", "peft"))
    for source, load in (DATA / "lora/mlx/plain", by_mlx), (DATA / "lora/peft/patterns", by_peft):
        off.append(check(program, source, load, "merge", f"{source}:0.25", f"{source}:0.75"))
    sys.exit(0 if max(off) < MOST else f"{max(off):.1e} is more than {MOST}")


if __name__ == "__main__":
    main()
