#!/usr/bin/env python3
"""Makes an adapter of mlx-lm's format with random pairs for every projection of a model's layers, for measurements.

    tools/make_synthetic_adapter.py MODEL OUT [--rank 8] [--dtype BF16|F16|F32] [--seed N] [--scale 0.1]

MODEL is the directory of a llama-like model, of which only config.json is read. OUT must not exist.
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np


def projections(config):
    """(name within a layer, inputs, outputs)."""
    hidden, heads, ff = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"]
    head_dim = config.get("head_dim") or hidden // heads
    q, kv = heads * head_dim, config.get("num_key_value_heads", heads) * head_dim
    return [("self_attn.q_proj", hidden, q), ("self_attn.k_proj", hidden, kv), ("self_attn.v_proj", hidden, kv),
            ("self_attn.o_proj", q, hidden), ("mlp.gate_proj", hidden, ff), ("mlp.up_proj", hidden, ff),
            ("mlp.down_proj", ff, hidden)]


def stored(array, dtype):
    if dtype == "BF16":
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.astype(np.float16 if dtype == "F16" else np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--dtype", choices=["BF16", "F16", "F32"], default="BF16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.1)
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text())
    rng, header, data, end = np.random.default_rng(args.seed), {}, [], 0
    for layer in range(config["num_hidden_layers"]):
        for name, n_in, n_out in projections(config):
            for part, shape in (("lora_a", (n_in, args.rank)), ("lora_b", (args.rank, n_out))):
                array = stored(rng.standard_normal(shape, np.float32) * np.float32(n_in ** -0.5), args.dtype)
                header[f"model.layers.{layer}.{name}.{part}"] = {
                    "dtype": args.dtype, "shape": list(shape), "data_offsets": [end, end + array.nbytes]}
                data.append(array)
                end += array.nbytes
    args.out.mkdir(parents=True)
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(args.out / "adapters.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.writelines(array.tobytes() for array in data)
    (args.out / "adapter_config.json").write_text(json.dumps({
        "fine_tune_type": "lora", "num_layers": -1,
        "lora_parameters": {"rank": args.rank, "scale": args.scale, "dropout": 0.0}}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
