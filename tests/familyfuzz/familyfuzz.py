#!/usr/bin/env python3
"""Random tiny models of every family against transformers and mlx-lm, live.

    familyfuzz.py --bin DIR [-T 300] [--seed N] [--draws N] [--rows NAME,...] [--all]

DIR has mlxcel. Each draw has a seed of its own, from which everything about it follows: a row of tools/families whose family
the program has, its sizes, features and values (tools/families/draws.py), and the prompt. Then
  - `mlxcel logits --exact` is within 1e-3 of the logits' standard deviation of the reference, from the Hugging Face layout
    and from the MLX layout that `mlxcel convert` makes of it, whose tensors are mlx-lm's byte for byte;
  - other chunks and threads change no byte;
  - quantized, the model computes what its weights say when they are written out.
Draws that nothing can decide are passed over and counted: a config that transformers or, naming the field, the program
refuses, logits that hang on rounding (a router's tie). Where the references differ, transformers is taken as right. The
first difference is printed with its seed; `--seed N --draws 1` repeats it, and its files stay under build/familyfuzz. Exit status 1 then.
"""
import contextlib
import dataclasses
import io
import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(ROOT / "tests/families")]

import numpy as np

import familylib
import make_family_fixtures as maker
from families import all_rows, draws
from fuzzlib import Difference, arguments, run
from testlib import stored_tensors

WORK = ROOT / "build/familyfuzz" / str(os.getpid())
TOLERANCE = 1e-3
MODES = [["--mode", "affine", "--bits", "4", "--group-size", "32"], ["--mode", "affine", "--bits", "8", "--group-size", "64"],
         ["--mode", "mxfp4"], ["--mode", "mxfp8"], ["--mode", "nvfp4"]]


class PassedOver(Exception):
    """Why a draw says nothing."""


class Unsupported(PassedOver):
    """What of the configuration the program refuses by name."""


class Program:
    def __init__(self, path, tokens):
        self.path, self.tokens = path, ",".join(map(str, tokens))

    def run(self, *args):
        command = [str(a) for a in (self.path, *args)]
        try:
            r = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            raise Difference(f"no end after 30 s: {command}") from None
        if "; supported: " in r.stderr:
            raise Unsupported(r.stderr)
        if r.returncode:
            raise Difference(f"exit status {r.returncode}: {command}\n{r.stderr[:3000]}")
        return r.stdout

    def output(self, model, *options):
        out = WORK / "out.safetensors"
        out.unlink(missing_ok=True)
        self.run("logits", "-m", model, "--tokens", self.tokens, *options, "-o", out)
        return out

    def logits(self, model):
        dtype, shape, data = stored_tensors(self.output(model, "--exact"))["logits"]
        return np.frombuffer(data, np.float32).reshape(shape)

    def families(self):
        return {f["model_type"] for f in json.loads(self.run("arch", "--json"))}


def references(row, folder, config):
    """(Hf or None, Mlx or None): mlx-lm may fail where transformers decides."""
    fixture = WORK / row.name
    if row.hf.startswith("lacks"):
        return maker.references(row, fixture, folder, config)
    hf, _ = maker.references(dataclasses.replace(row, layout="not wanted here"), fixture, folder, config)
    try:
        return hf, None if row.layout else maker.Mlx(folder, row.for_mlx(config))
    except Exception:
        return hf, None


def reference(row, tokens_of):
    """(folder of the checkpoint, tokens, logits, what mlx.json would be or None)

    Where they differ transformers is right: mlx-lm ignores many fields."""
    try:
        folder, config = maker.build(row, WORK / row.name)
        tokens = tokens_of(maker.vocabulary(config))
        hf, mlx = references(row, folder, config)
        logits = {k: m.logits(tokens) for k, m in (("hf", hf), ("mlx", mlx)) if m and not getattr(row, k)}
        layout = maker.layout_of(mlx) if mlx else None
        right = logits.get("hf", logits.get("mlx"))
        if not np.isfinite(right).all() or not right.std():
            raise maker.Refused("the logits are not finite")
        maker.check_decided(hf if "hf" in logits else mlx, tokens, right, most=10 * TOLERANCE)
    except Exception as why:
        raise PassedOver(f"{type(why).__name__}: {why}") from None
    return folder, tokens, right, layout


def check_close(found, wanted, what):
    off = maker.distance(found, wanted) if found.shape == wanted.shape else math.nan
    if not off <= TOLERANCE:
        raise Difference(f"{what}: off by {off:.3g} standard deviations")


def check_order(rng, program, model):
    how = ["--chunk", rng.randint(1, 9), "--threads", rng.randint(1, 3)]
    if program.output(model).read_bytes() != program.output(model, *how).read_bytes():
        raise Difference(f"{model.name} with {how} gives other bytes")


def check_layout(model, layout):
    found = {}
    for file in model.glob("*.safetensors"):
        found |= {k: [d, s, familylib.hash_of(b)] for k, (d, s, b) in stored_tensors(file).items()}
    wrong = sorted(k for k in found.keys() | layout.keys() if found.get(k) != layout.get(k))
    if wrong:
        raise Difference(f"convert: {len(wrong)} tensors are not mlx-lm's: "
                         + "; ".join(f"{k}: {found.get(k)} instead of {layout.get(k)}" for k in wrong[:5]))


def check_quantized(rng, program, mlx):
    quantized = WORK / "quantized"
    try:
        program.run("quantize", "-m", mlx, "-o", quantized, *rng.choice(MODES))
    except Difference as why:
        if "there is nothing to quantize" in str(why):  # no group divides a layer's inputs
            return
        raise
    program.run("dequantize", "-m", quantized, "-o", WORK / "wide", "--dtype", "float32")
    check_close(program.logits(quantized), program.logits(WORK / "wide"), "quantized")
    check_order(rng, program, quantized)


def draw(seed, rows, path, tally):
    rng = random.Random(seed)
    row = draws.draw(rng, rng.choice(rows))
    tokens_of = lambda vocab: [rng.randrange(vocab) for _ in range(row.tokens)]
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    tally["draws"] += 1
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            folder, tokens, wanted, layout = reference(row, tokens_of)
        program = Program(path, tokens)
        check_close(program.logits(folder), wanted, "the Hugging Face layout")
        mlx = WORK / "mlx"
        program.run("convert", folder, "-o", mlx)
        if layout:
            check_layout(mlx, layout)
        check_close(program.logits(mlx), wanted, "the MLX layout")
        check_order(rng, program, mlx)
        check_quantized(rng, program, mlx)
        tally[row.model_type] += 1
    except PassedOver as why:
        tally["refused" if isinstance(why, Unsupported) else "passed over"] += 1
        return f"{row.name} passed over: {why}"
    except Difference as why:
        raise Difference(f"{row.name}: {why}\n  tokens {tokens}\n  {(WORK / row.name / 'config.json').read_text()}") from None
    return None


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rows", help="only these of tools/families")
    parser.add_argument("-v", action="store_true", help="say why draws are passed over")
    args = parser.parse_args()
    path = args.bin / "mlxcel"
    known = Program(path, []).families()
    rows = [r for n, r in all_rows().items() if (n in args.rows.split(",") if args.rows else r.model_type in known)]
    print(f"familyfuzz: seed {args.seed}, {len(rows)} rows", flush=True)

    def one(seed, tally):
        why = draw(seed, rows, path, tally)
        if why and args.v:
            print(f"familyfuzz: seed {seed}: {why[:300]}", flush=True)

    return run("familyfuzz", args, one, WORK)


if __name__ == "__main__":
    sys.exit(main())
