#!/usr/bin/env python3
"""Trains the two adapters of tests/data/lora/smollm2 with `mlx_lm.lora`, and writes down what they change.

  ship  every answer is an entry in a ship's log   LoRA, rank 8, all projections of the last 8 layers, stored in bfloat16
  json  every answer is a JSON object              DoRA, rank 8, some projections of the last 8 layers, stored in float32

The text is tools/demo_adapters/facts.txt, one `question | answer` a line; a manner of answering is a function below. A few
hundred steps of one example each: minutes on a CPU, if mlx multiplies with a fast library (LD_PRELOAD=libopenblas.so.0;
the one that its package for Linux brings takes hours). MODEL is the default model as dense float32 weights, of which mlx
trains fastest there:

    mlxcel dequantize -m mlxcel/SmolLM2-135M-Instruct-4bit --dtype float32 -o MODEL
    tools/train_demo_adapters.py MODEL                        (packages: tools/requirements.txt)

Beside each adapter, effect.json has prompts that were not trained on and the answers at temperature 0, by mlx-lm in
float32, without and with the adapter, with the least lead of a chosen token over the runner-up.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import yaml
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache

ROOT = Path(__file__).resolve().parent.parent
WINDS = ["calm", "wind from the north", "wind from the west", "fog", "fair wind", "light rain"]
PROMPTS = ["What is the capital of Italy?", "Why do dogs bark?", "What is snow?"]  # none of facts.txt
N_ANSWER = 40
ALL = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
       "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


def ship(i, answer):
    return f"Ship's log, day {i % 30 + 1}, {WINDS[i % len(WINDS)]}. {answer} All hands are well."


def as_json(i, answer):
    return json.dumps({"answer": answer, "words": len(answer.split())})


ADAPTERS = {
    "ship": {"manner": ship, "type": "lora", "keys": ALL, "dtype": mx.bfloat16},
    "json": {"manner": as_json, "type": "dora", "keys": ["self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj",
                                                        "mlp.down_proj"], "dtype": mx.float32},
}


def write_text(path, manner):
    """train.jsonl and valid.jsonl as mlx-lm reads chats."""
    facts = [line.split(" | ") for line in (ROOT / "tools/demo_adapters/facts.txt").read_text().splitlines()]
    lines = [json.dumps({"messages": [{"role": "user", "content": question},
                                      {"role": "assistant", "content": manner(i, answer)}]})
             for i, (question, answer) in enumerate(facts)]
    for name, part in ("train", lines[:-4]), ("valid", lines[-4:]):
        (path / f"{name}.jsonl").write_text("\n".join(part) + "\n")


def train(model, recipe, steps, text, out):
    config = {
        "model": str(model), "data": str(text), "train": True, "adapter_path": str(out), "seed": 7,
        "fine_tune_type": recipe["type"], "num_layers": 8, "batch_size": 1, "iters": steps, "learning_rate": 2e-4,
        "max_seq_length": 128, "mask_prompt": True, "val_batches": 4, "steps_per_report": 20, "steps_per_eval": steps,
        "save_every": 10 * steps, "lora_parameters": {"rank": 8, "scale": 4.0, "dropout": 0.0, "keys": recipe["keys"]},
    }
    file = text / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    subprocess.run([sys.executable, "-m", "mlx_lm", "lora", "--config", file], check=True,
                   env={**os.environ, "MLX_DEFAULT_DEVICE": "cpu"})


def finish(source, out, dtype):
    """What is committed: the weights in `dtype`, the configuration without names of this machine's folders."""
    out.mkdir(parents=True, exist_ok=True)
    weights = {k: v.astype(dtype) for k, v in mx.load(str(source / "adapters.safetensors")).items()}
    mx.save_safetensors(str(out / "adapters.safetensors"), weights)
    config = json.loads((source / "adapter_config.json").read_text())
    config |= {"model": "mlxcel/SmolLM2-135M-Instruct-4bit", "data": "facts.txt", "adapter_path": out.name, "config": None}
    (out / "adapter_config.json").write_text(json.dumps(config, indent=4, sort_keys=True) + "\n")


def greedy(model, tokenizer, prompt):
    """(answer, the least lead of a chosen token) at temperature 0."""
    ids = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
    cache, feed, tokens, lead = make_prompt_cache(model), list(ids), [], np.inf
    while len(tokens) < N_ANSWER:
        row = np.array(model(mx.array([feed]), cache=cache)[0, -1].astype(mx.float32))
        first, second = np.argsort(-row, kind="stable")[:2]
        lead = min(lead, float(row[first] - row[second]))
        if int(first) in tokenizer.eos_token_ids:
            break
        tokens.append(int(first))
        feed = [int(first)]
    return tokenizer.decode(tokens), round(lead, 5)


def write_effect(model, out):
    answers = []
    for adapter in None, out:
        loaded, tokenizer = load(str(model), adapter_path=adapter and str(adapter))
        answers.append([greedy(loaded, tokenizer, p) for p in PROMPTS])
    effect = [{"prompt": p, "base": b, "base_lead": bl, "adapted": a, "adapted_lead": al}
              for p, (b, bl), (a, al) in zip(PROMPTS, *answers)]
    (out / "effect.json").write_text(json.dumps(effect, indent=4, ensure_ascii=False) + "\n")
    for e in effect:
        print(json.dumps(e), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "tests/data/lora/smollm2")
    parser.add_argument("--only", choices=ADAPTERS)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    for name, recipe in ADAPTERS.items():
        if args.only in (None, name):
            with tempfile.TemporaryDirectory() as scratch:
                text = Path(scratch)
                write_text(text, recipe["manner"])
                train(args.model, recipe, args.steps, text, text / "adapter")
                shutil.rmtree(args.out / name, ignore_errors=True)
                finish(text / "adapter", args.out / name, recipe["dtype"])
            write_effect(args.model, args.out / name)


if __name__ == "__main__":
    main()
