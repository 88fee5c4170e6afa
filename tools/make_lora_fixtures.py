#!/usr/bin/env python3
"""Makes tests/data/lora/mlx: adapters in the formats of mlx-lm and mlx-vlm over checkpoints of tests/data/arch, and the
logits that mlx-lm computes with them.

Each row of ADAPTERS becomes a directory as mlx-lm writes it (adapter_config.json, adapters.safetensors) with random
values in every tensor, and expected.safetensors: `tokens` I32 [n], and F32 [n, vocab] `logits` at the adapter's own scale
and `half` at half of it. `base` names the checkpoint. The reference is mlx-lm's model and mlx-lm's adapter layers,
everything in float32 over the dequantized weights; where mlx-lm puts the adapter on the quantized layers themselves, the
two must agree. The script refuses to write an adapter of which some tensor hardly changes the logits.

sums.safetensors beside them has the logits of SUMS: several adapters over one base, whose deltas are added to its weights.

Usage: tools/make_lora_fixtures.py [-o DIR] [NAME...]     (packages: tools/requirements.txt)
"""
import argparse
import json
import shutil
import sys
import zlib
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

import lora_reference as ref

DATA = Path(__file__).resolve().parent.parent / "tests/data"
N_TOKEN = 12
AGREEMENT = 1e-4   # between quantized and dequantized layers, of the logits' standard deviation
NOTICEABLE = 2e-3  # the least change that a zeroed tensor must make, in the same unit
MAX_BYTES = 100_000
ATTENTION = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
MLP = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


def row(base, kind="lora", dtype="F32", rank=3, scale=20.0, layers=-1, keys=None, form="mlx"):
    return {"base": base, "kind": kind, "dtype": dtype, "rank": rank, "scale": scale, "layers": layers, "keys": keys,
            "form": form}


ADAPTERS = {
    # Dense bases; by default all projections of all layers.
    "plain": row("llama-tied-f32", layers=2),
    "plain-bf16": row("llama-untied-bf16", dtype="BF16", layers=2, scale=2.0, keys=ATTENTION + ["lm_head"]),
    "plain-f16": row("llama-bias-f16", dtype="F16", layers=0, scale=0.7),
    "some": row("mistral-bf16", layers=1, rank=17, keys=["self_attn.v_proj", "mlp.down_proj"]),
    "rank-1": row("qwen3-tied-f32", rank=1),
    "rank-64": row("llama-mha-f32", rank=64, layers=1, dtype="BF16", keys=["self_attn.q_proj"]),
    "square": row("llama-mha-f32", rank=60, layers=1, keys=["self_attn.o_proj"]),  # a and b are all [60, 60]
    "embed-tied": row("qwen2-tied-bf16", keys=["self_attn.q_proj", "model.embed_tokens"]),
    "embed-untied": row("qwen3-untied-bf16", dtype="BF16", keys=["mlp.up_proj", "lm_head", "model.embed_tokens"]),
    # Quantized bases.
    "q2": row("mistral-q2-g128-f16", layers=1),
    "q3": row("llama-q3-g64-f32", dtype="BF16", layers=1),
    "q4": row("llama-q4-g64-f32", dtype="BF16"),
    "q4-embed": row("llama-q4-g32-f16", dtype="F16", keys=ATTENTION + ["model.embed_tokens"]),
    "q5": row("llama-q5-g32-bf16", dtype="BF16", layers=2),
    "q6": row("qwen3-q6-g64-bf16", layers=1),
    "q8": row("llama-q8-partly-f16", dtype="F16"),
    "mxfp4": row("llama-mxfp4-f32", dtype="BF16", keys=MLP + ["model.embed_tokens"]),
    "mxfp8": row("qwen2-mxfp8-bf16", dtype="BF16", keys=ATTENTION + ["lm_head"]),
    "nvfp4": row("qwen3-nvfp4-f16", layers=2, dtype="F16"),
    "floats": row("llama-floats-bf16", layers=1, dtype="BF16", keys=ATTENTION + MLP + ["lm_head"]),
    "mixed": row("llama-mixed-f32", dtype="BF16", layers=1),
    # DoRA.
    "dora": row("llama-tied-f32", "dora", layers=2, keys=ATTENTION + MLP),
    "dora-bias": row("llama-bias-f16", "dora", dtype="BF16", scale=2.0),
    "dora-embed": row("llama-tied-f32", "dora", keys=["mlp.gate_proj", "model.embed_tokens"]),
    "dora-head": row("qwen3-untied-bf16", "dora", layers=1, keys=["self_attn.k_proj", "lm_head", "model.embed_tokens"]),
    "dora-q3": row("llama-q3-g64-f32", "dora", dtype="BF16", layers=1),
    "dora-q4": row("qwen2-q4-g64-bf16", "dora", layers=1, dtype="BF16"),
    "dora-q4-embed": row("llama-q4-g32-f16", "dora", dtype="F16", keys=["self_attn.o_proj", "model.embed_tokens"]),
    "dora-mixed": row("qwen3-mixed-f16", "dora", layers=1, dtype="F16"),
    "dora-mxfp8": row("qwen2-mxfp8-bf16", "dora", layers=2, dtype="BF16"),
    # All parameters of the last layer and the last norm.
    "full": row("llama-tied-f32", "full", dtype="F16"),
    "full-bias": row("qwen2-untied-f16", "full", dtype="F16"),
    "full-norms": row("qwen3-q8-g32-f32", "full"),
    # Other spellings: older configurations of mlx-lm, and mlx-vlm's older form.
    "old-layers": row("llama-tied-f32", layers=2, keys=ATTENTION, form="lora_layers"),
    "old-alpha": row("qwen3-tied-f32", layers=1, scale=8.0, form="lora_alpha"),
    "vlm": row("llama-untied-bf16", layers=2, scale=5.0, dtype="BF16", form="mlx-vlm"),
}
# name: adapters with their scales
SUMS = {
    "plain+old-layers": [("plain", 1.0), ("old-layers", -0.5)],
    "plain+dora-embed": [("plain", 0.25), ("dora-embed", 1.0)],
    "plain+plain": [("plain", 0.75), ("plain", 0.25)],
    "q4-embed+dora-q4-embed": [("dora-q4-embed", 1.0), ("q4-embed", 0.5)],
    "plain+full": [("plain", 0.5), ("full", 1.0)],
}


def config_of(v, base):
    return {
        "adapter_path": "adapters", "batch_size": 4, "data": "data", "fine_tune_type": v["kind"], "iters": 600,
        "learning_rate": 1e-5, "model": f"example/{base}", "num_layers": v["layers"], "train": True,
        "lora_parameters": None if v["kind"] == "full" else {
            "rank": v["rank"], "scale": v["scale"], "dropout": 0.1, **({"keys": v["keys"]} if v["keys"] else {})},
    }


def draw_full(path, dtype, key):
    """New values for what can be trained in the last layer of a base, quantized layers left out, and for the last norm."""
    model, tensors = ref.load_base(path, False), {}
    quantized = {n for n, m in model.named_modules() if "scales" in m}
    last = f"model.layers.{len(model.layers) - 1}."
    for name, p in tree_flatten(model.parameters()):
        if name.rpartition(".")[0] not in quantized and name.startswith((last, "model.norm.")):
            key, k = mx.random.split(key)
            tensors[name] = (p * (1 + 0.5 * mx.random.normal(p.shape, key=k))).astype(dtype)
    return tensors


def other_form(form, config, tensors):
    """The same adapter as older programs spell it: (config, tensors)."""
    if form == "lora_layers":
        config = {**config, "lora_layers": config.pop("num_layers")}
        del config["fine_tune_type"]
    elif form == "lora_alpha":
        p = dict(config["lora_parameters"])
        p["alpha"] = p.pop("scale") * p["rank"]
        config = {**config, "lora_parameters": p}
    elif form == "mlx-vlm":
        p = config["lora_parameters"]
        config = {"rank": p["rank"], "alpha": p["scale"] * p["rank"], "dropout": p["dropout"]}
        tensors = {k.replace("lora_a", "A").replace("lora_b", "B"): v for k, v in tensors.items()}
    return config, tensors


def check_sensitivity(name, model, tokens, logits):
    """Every tensor of an adapter must matter."""
    for path, p in ref.adapter_parameters(model):
        model.load_weights([(path, mx.zeros_like(p))], strict=False)
        moved = ref.distance(ref.logits(model, tokens), logits)
        model.load_weights([(path, p)], strict=False)
        if not moved > NOTICEABLE:
            sys.exit(f"{name}: zeroing {path} moves the logits by only {moved:.2e} std")


def make(name, v, out):
    base, path = DATA / "arch" / v["base"], out / name
    shutil.rmtree(path, ignore_errors=True)
    config, dtype, key = config_of(v, v["base"]), ref.DTYPES[v["dtype"]], mx.random.key(zlib.crc32(name.encode()))
    full = v["kind"] == "full"
    tensors = draw_full(base, dtype, key) if full else ref.draw_adapter(base, config, dtype, key)
    ref.write_adapter(path, config, tensors)
    tokens = [int(t) for t in mx.random.randint(0, 131, (N_TOKEN,), key=key)]
    both = not full and ref.mlx_can_load(base, config)
    expected = {"tokens": mx.array(tokens, dtype=mx.int32)}
    for what, scale in ("logits", 1.0), ("half", 0.5):
        if full and what == "half":
            continue  # a replaced parameter has no scale
        model = ref.adapted(base, path, not full, scale)
        expected[what] = ref.logits(model, tokens)
        if both:
            off = ref.distance(ref.logits(ref.adapted(base, path, False, scale), tokens), expected[what])
            if not off < AGREEMENT:
                sys.exit(f"{name}: quantized and dequantized layers differ by {off:.2e} std")
        if what == "logits":
            check_sensitivity(name, model, tokens, expected[what])
    moved = ref.distance(ref.logits(ref.load_base(base, True), tokens), expected["logits"])
    if not moved > 0.1:
        sys.exit(f"{name}: the adapter moves the logits by only {moved:.2e} std")
    ref.write_adapter(path, *other_form(v["form"], config, tensors))
    mx.save_safetensors(str(path / "expected.safetensors"), expected)
    (path / "base").write_text(f"arch/{v['base']}\n")
    size = sum(f.stat().st_size for f in path.iterdir())
    if size > MAX_BYTES:
        sys.exit(f"{name}: {size} bytes, more than {MAX_BYTES}")
    print(f"{name:16} {size:7} bytes  moves {moved:.2f}  {'quantized too' if both else ''}", file=sys.stderr)


def make_sums(out):
    tensors = {}
    for name, uses in SUMS.items():
        model = ref.combined(DATA / "arch" / ADAPTERS[uses[0][0]]["base"],
                             [(out / adapter, ADAPTERS[adapter]["kind"], scale) for adapter, scale in uses])
        tokens = [int(t) for t in mx.random.randint(0, 131, (N_TOKEN,), key=mx.random.key(5))]
        tensors |= {name + ".tokens": mx.array(tokens, dtype=mx.int32), name + ".logits": ref.logits(model, tokens)}
    mx.save_safetensors(str(out / "sums.safetensors"), tensors)
    (out / "sums.json").write_text(json.dumps(SUMS, indent=4) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--out", type=Path, default=DATA / "lora/mlx")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these adapters")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    for name in args.names or ADAPTERS:
        make(name, ADAPTERS[name], args.out)
    if not args.names:
        make_sums(args.out)


if __name__ == "__main__":
    main()
