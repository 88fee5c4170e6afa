#!/usr/bin/env python3
"""Random adapters over random checkpoints against mlx-lm, live.

    lorafuzz.py --bin DIR [-T 300] [--seed N] [--draws N] [--faults N] [--all]

DIR has mlxcel. Each draw has a seed of its own, from which everything about it follows: a checkpoint (family, sizes, mode,
type, tied or not), up to three adapters for it (LoRA, DoRA, full; mlx-lm's forms, mlx-vlm's, PEFT's; targets, rank, scale,
type) and their scales. Then
  - `mlxcel logits --exact --lora ...` is within 1e-4 of the logits' standard deviation of mlx-lm's own layers over the
    dequantized float32 weights, and the faster precisions stay close;
  - other chunks, threads and orders of the adapters change no byte, and at scale 0 there is the base's output;
  - `mlxcel fuse` writes what mlx_lm.fuse writes but for neighbours, and the fused model computes what the adapter does at
    run time;
  - a copy of an adapter with random damage (faults.py) ends with status 1, one error line and no output, or, where the
    damage may be none, with status 0; never by a signal.
The first difference is printed with its seed; `--seed N --draws 1` repeats it, and its files stay under build/lorafuzz.
Exit status 1 then.
"""
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import mlx.core as mx

import adapters
import bases
import fused
import lora_reference as ref
from faults import FAULTS
from fuzzlib import Difference, arguments, run

WORK = ROOT / "build/lorafuzz" / str(os.getpid())
EXACT_TOLERANCE = 1e-4
# The most that a precision may be off on weights of such tiny sizes: the norm of the difference by the norm.
PRECISIONS = {"high": (["--precision", "high"], 0.05), "default": ([], 0.3)}


class Program:
    def __init__(self, path, base, tokens):
        self.path, self.base, self.tokens = path, base, tokens

    def run(self, uses, *options):
        """(exit status, error lines, output file or None). uses: words for --lora."""
        out = WORK / "out.safetensors"
        out.unlink(missing_ok=True)
        command = [self.path, "logits", "-m", self.base, "--tokens", ",".join(map(str, self.tokens)), *options, "-o", out]
        for use in uses:
            command += ["--lora", use]
        try:
            r = subprocess.run(command, capture_output=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            raise Difference(f"no end after 30 s: {command}") from None
        if r.returncode not in (0, 1) or r.stdout:
            raise Difference(f"exit status {r.returncode}: {command}\n{r.stdout[:500]} {r.stderr[:2000]}")
        lines = [x for x in r.stderr.decode(errors="replace").split("\n") if x and not x.startswith("mlxcel: warning: ")]
        return r.returncode, lines, out if out.exists() else None

    def bytes(self, uses, *options):
        status, lines, out = self.run(uses, *options)
        if status or lines or not out:
            raise Difference(f"refused: {lines} with {list(map(str, uses))}")
        return out.read_bytes()

    def logits(self, uses, *options):
        self.bytes(uses, *options)
        return mx.load(str(WORK / "out.safetensors"))["logits"]


def wanted(base, uses, tokens):
    """mlx-lm's logits."""
    model = ref.combined(base.reference, [(adapter.reference, adapter.kind, scale) for adapter, scale in uses])
    return ref.logits(model, tokens)


def conflict(uses):
    """Whether two of the adapters cannot be used together: both replace a parameter, or both have DoRA on a module, or one
    has DoRA on what the other replaces."""
    claims = [{name + ".weight" for name in a.touched} if a.kind == "dora" else a.touched
              for a, _ in uses if a.kind != "lora"]
    return any(a & b for a, b in itertools.combinations(claims, 2))


def check_refusal(program, words):
    status, lines, out = program.run(words)
    if status != 1 or out or len(lines) != 1 or "only one of them can be used at a time" not in lines[0]:
        raise Difference(f"adapters that cannot be used together were taken: {words}: {lines}")


def norm(x):
    return mx.linalg.norm(x.flatten()).item()


def check_values(program, base, uses, words):
    want = wanted(base, uses, program.tokens)
    off = ref.distance(program.logits(words, "--exact"), want)
    if not off <= EXACT_TOLERANCE:
        raise Difference(f"--exact is off by {off:.3g} standard deviations")
    for name, (options, most) in PRECISIONS.items():
        found = program.logits(words, *options)
        off = norm(found - want) / norm(want)
        if not off <= most:
            raise Difference(f"{name} precision is off by {off:.3g} of the norm")


def check_order(rng, program, words):
    """Chunks, threads and the order of adapters change nothing; scale 0 is the base."""
    options = rng.choice([["--exact"], ["--precision", "high"], []])
    whole, other = program.bytes(words, *options), rng.sample(words, len(words))
    how = ["--chunk", str(rng.randint(1, 9)), "--threads", str(rng.randint(1, 3))]
    if program.bytes(other, *options, *how) != whole:
        raise Difference(f"{options} with {how} and the adapters as {list(map(str, other))} gives other bytes")
    zero = [w.rpartition(":")[0] + ":0" for w in words]
    if program.bytes(zero, *options) != program.bytes([], *options):
        raise Difference(f"{options} at scale 0 is not the base")


def check_fused(program, base, adapter, tally):
    if base.mode == "fp8":
        return
    if fault := fused.check(program.path, base, adapter, WORK, tally):
        raise Difference(fault)
    want = wanted(base, [(adapter, 1.0)], program.tokens)
    found = Program(program.path, WORK / "fused", program.tokens).logits([], "--exact")
    off = norm(found - want) / norm(want)
    if not off <= fused.logits_tolerance(WORK / "fused"):
        raise Difference(f"the fused model is off by {off:.3g} of the norm")


def check_faults(rng, program, adapter, tally, n):
    for _ in range(n):
        fault = rng.choice(FAULTS)
        name = fault.__name__
        damaged = WORK / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(adapter.path, damaged)
        must = fault(rng, damaged)
        status, lines, out = program.run([damaged])
        tally["faults"] += 1
        if status == 0 and (must or lines or not out):
            raise Difference(f"{name}: the damaged adapter ({damaged}) was taken")
        if status == 1 and (out or len(lines) != 1 or not lines[0].startswith("mlxcel: error: ") or len(lines[0].encode()) > 4000):
            raise Difference(f"{name} ({damaged}): not one error line and no output: {lines}")


def describe(base, uses):
    quantization = base.config.get("quantization")
    text = [f"base {base.name}: {base.path}", f"  quantization {json.dumps(quantization)}"]
    text += [f"  {a.kind} in the form of {a.form} at scale {s}: {a.path}\n    {json.dumps(a.config)}" for a, s in uses]
    return "\n".join(text)


def draw(seed, program_path, faults, tally):
    rng = random.Random(seed)
    base = bases.draw(rng, WORK / "model")
    uses = []
    for i in range(rng.choice([1, 1, 1, 2, 3])):
        adapter = adapters.draw(rng, base, WORK / f"adapter-{i}")
        full = adapter.kind == "full"
        uses.append((adapter, 1.0 if full else rng.choice([1.0, 0.5, -0.25, rng.uniform(-1.5, 1.5)])))
    tokens = [rng.randrange(base.config["vocab_size"]) for _ in range(rng.randint(1, 20))]
    program = Program(program_path, base.path, tokens)
    words = [f"{a.path}:{s!r}" for a, s in uses]
    try:
        if conflict(uses):
            check_refusal(program, words)
            words, uses = words[:1], uses[:1]
        check_values(program, base, uses, words)
        check_order(rng, program, words)
        check_fused(program, base, uses[0][0], tally)
        check_faults(rng, program, uses[0][0], tally, faults)
    except Difference as why:
        raise Difference(f"{why}\n{describe(base, uses)}") from None
    for adapter, _ in uses:
        tally[f"{adapter.kind} ({adapter.form})"] += 1
    tally["draws"] += 1


def main():
    args = arguments(__doc__)
    args.add_argument("--faults", type=int, default=6, help="damaged copies of each adapter")
    args = args.parse_args()
    mx.set_default_device(mx.cpu)
    WORK.mkdir(parents=True)
    print(f"lorafuzz: seed {args.seed}", flush=True)
    return run("lorafuzz", args, lambda seed, tally: draw(seed, args.bin / "mlxcel", args.faults, tally), WORK)


if __name__ == "__main__":
    sys.exit(main())
