#!/usr/bin/env python3
"""Makes tests/data/lora/peft: adapters that PEFT wrote over checkpoints of tests/data/arch, and the logits of transformers
with PEFT's layers in them.

Each row of ADAPTERS becomes a directory as PEFT's save_pretrained leaves it (adapter_config.json,
adapter_model.safetensors) with random values in every tensor, and expected.safetensors: `tokens` I32 [n], and F32
[n, vocab] `logits` with the adapter as it is and, where nothing is replaced, `half` with half of its scales. `base` names
the checkpoint. transformers gets the checkpoint's weights in float32, quantized ones dequantized by mlx-lm.

An adapter of an embedding whose matrix is the head's, too, changes both here, as a merge by PEFT does: what transformers
computes without the merge leaves the head alone. The row's logits are those of the merged model.

Two rows are changed after PEFT has written them, into spellings that occur in the wild: `.default.` in the names, and
fan_in_fan_out, which PEFT switches off for linear layers.

Usage: tools/make_peft_fixtures.py [-o DIR] [NAME...]     (packages: tools/requirements.txt)
"""
import argparse
import json
import shutil
import sys
import warnings
import zlib
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from mlx.utils import tree_flatten
from peft import LoraConfig, get_peft_model
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import lora_reference as ref

DATA = Path(__file__).resolve().parent.parent / "tests/data"
N_TOKEN = 12
AGREEMENT = 1e-4  # between transformers and mlx-lm on the base, of the logits' standard deviation
MAX_BYTES = 100_000
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]


def row(base, *modules, dtype="F32", change=None, merged=False, **fields):
    return {"base": base, "dtype": dtype, "change": change, "merged": merged,
            "fields": {"target_modules": list(modules) or ATTENTION + MLP, "r": 4, "lora_alpha": 10, **fields}}


ADAPTERS = {
    "plain": row("llama-tied-f32", "q_proj", "v_proj"),
    "linear": row("qwen3-untied-bf16", dtype="BF16", lora_alpha=2, layers_to_transform=[0, 2]),
    "square": row("llama-mha-f32", "q_proj", "o_proj", r=60, dtype="F16", layers_to_transform=[1]),
    "rslora": row("llama-tied-f32", "k_proj", "down_proj", use_rslora=True, r=6),
    "patterns": row("llama-tied-f32", "q_proj", "o_proj", "up_proj",
                    rank_pattern={"o_proj": 2, r"^model\.layers\.1\.self_attn\.q_proj": 7},
                    alpha_pattern={"up_proj": 3, r"layers\.[02]\.self_attn\.o_proj": 5}),
    "patterns-rslora": row("qwen2-untied-f16", "v_proj", "gate_proj", rank_pattern={"layers.0.mlp.gate_proj": 9},
                           alpha_pattern={"v_proj": 4}, use_rslora=True, dtype="BF16"),
    "embed": row("qwen3-untied-bf16", "embed_tokens", "q_proj", dtype="BF16"),
    "embed-tied": row("llama-tied-f32", "embed_tokens", "q_proj", merged=True),
    "head": row("llama-untied-bf16", "lm_head", "k_proj", dtype="BF16"),
    "save": row("llama-untied-bf16", "v_proj", modules_to_save=["lm_head", "embed_tokens"], dtype="BF16"),
    "save-norms": row("qwen3-q8-g32-f32", "q_proj", modules_to_save=["input_layernorm", "q_norm"]),
    "bias-all": row("qwen2-untied-f16", "q_proj", bias="all", dtype="F16"),
    "bias-only": row("llama-q5-g32-bf16", "k_proj", "down_proj", bias="lora_only", dtype="BF16"),
    "lora-bias": row("qwen2-untied-f16", "q_proj", "o_proj", lora_bias=True, dtype="F16"),
    "dora": row("qwen2-untied-f16", use_dora=True, r=3, dtype="BF16"),
    "dora-rslora": row("qwen3-tied-f32", "k_proj", "up_proj", use_dora=True, use_rslora=True),
    "q4": row("llama-q4-g64-f32", "q_proj", "gate_proj"),
    "q5-bias": row("llama-q5-g32-bf16", "v_proj", "up_proj", lora_bias=True, dtype="BF16"),
    "q4-dora": row("qwen2-q4-g64-bf16", "k_proj", "o_proj", use_dora=True, dtype="BF16"),
    "nvfp4": row("qwen3-nvfp4-f16", "q_proj", "down_proj", dtype="F16"),
    "default-names": row("llama-untied-bf16", "o_proj", "embed_tokens", dtype="BF16", change="default"),
    "fan-in": row("llama-tied-f32", "gate_proj", change="fan_in_fan_out"),
}


def load_base(path):
    """transformers' model of a checkpoint, with its dequantized weights in float32, checked against mlx-lm's logits."""
    weights = ref.load_base(path, True)
    config = json.loads((path / "config.json").read_text())
    for key in ("quantization", "quantization_config", "torch_dtype", "dtype"):
        config.pop(key, None)
    kind = config.pop("model_type")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config), attn_implementation="eager").float()
    state = {n: torch.from_numpy(np.array(p)) for n, p in tree_flatten(weights.parameters())}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        sys.exit(f"{path}: {missing} missing, {unexpected} not known")
    model.tie_weights()
    model.eval()
    tokens = draw_tokens(3)
    off = ref.distance(mx.array(logits(model, tokens)), ref.logits(weights, tokens))
    if not off < AGREEMENT:
        sys.exit(f"{path}: transformers and mlx-lm differ by {off:.2e} std")
    return model


def draw_tokens(seed):
    return [int(t) for t in mx.random.randint(0, 131, (N_TOKEN,), key=mx.random.key(seed))]


@torch.no_grad()
def logits(model, tokens):
    return model(torch.tensor([tokens])).logits[0].numpy()


@torch.no_grad()
def randomize(model, dtype, generator):
    """Random values for whatever the adapter saves, rounded to the type that they are saved in."""
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if "lora_magnitude" in name:
            x = p * (1 + 0.3 * torch.randn(p.shape, generator=generator))
        elif "lora_" in name:
            wide = name.endswith("lora_A.default.weight")
            x = torch.randn(p.shape, generator=generator) * (p.shape[1]**-0.5 if wide else 0.2)
        else:
            x = p * (1 + 0.5 * torch.randn(p.shape, generator=generator))
        p.copy_(x.to(dtype).float())


def adapted_logits(model, tokens, merged):
    if not merged:
        return logits(model, tokens)
    model.merge_adapter()
    found = logits(model, tokens)
    model.unmerge_adapter()
    return found


def scale_by(model, factor):
    """Multiplies every pair's scale."""
    for module in model.modules():
        if isinstance(scaling := getattr(module, "scaling", None), dict):
            for name in scaling:
                scaling[name] *= factor


def stored(path, dtype, change):
    """Leaves PEFT's files as they are committed: tensors in `dtype`, a base model's name, and the row's change."""
    tensors = {k: v.to(dtype) for k, v in load_file(path / "adapter_model.safetensors").items()}
    config = json.loads((path / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "example/base"
    config["target_modules"].sort()  # PEFT writes a set
    if change == "default":
        tensors = {k.replace(".weight", ".default.weight") if "lora_A" in k or "lora_B" in k else k: v
                   for k, v in tensors.items()}
    elif change:
        config[change] = True
    save_file(tensors, path / "adapter_model.safetensors", metadata={"format": "pt"})
    (path / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (path / "README.md").unlink(missing_ok=True)


def make(name, v, out):
    path = out / name
    shutil.rmtree(path, ignore_errors=True)
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[v["dtype"]]
    base = load_base(DATA / "arch" / v["base"])
    tokens = draw_tokens(seed)
    before = logits(base, tokens)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.05, **v["fields"]))
    randomize(model, dtype, torch.Generator().manual_seed(seed))
    model.eval()
    model.save_pretrained(path)  # before merging, which rounds
    expected = {"tokens": np.array(tokens, dtype=np.int32), "logits": adapted_logits(model, tokens, v["merged"])}
    if not v["fields"].get("modules_to_save") and v["fields"].get("bias", "none") == "none":
        scale_by(model, 0.5)
        expected["half"] = adapted_logits(model, tokens, v["merged"])
    stored(path, dtype, v["change"])
    save_numpy(expected, path / "expected.safetensors")
    (path / "base").write_text(f"arch/{v['base']}\n")
    moved = np.abs(expected["logits"] - before).max() / expected["logits"].std()
    if not moved > 0.1:
        sys.exit(f"{name}: the adapter moves the logits by only {moved:.2e} std")
    size = sum(f.stat().st_size for f in path.iterdir())
    if size > MAX_BYTES:
        sys.exit(f"{name}: {size} bytes, more than {MAX_BYTES}")
    print(f"{name:16} {size:7} bytes  moves {moved:.2f}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--out", type=Path, default=DATA / "lora/peft")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these adapters")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    mx.set_default_device(mx.cpu)
    torch.set_num_threads(1)
    for name in args.names or ADAPTERS:
        make(name, ADAPTERS[name], args.out)


if __name__ == "__main__":
    main()
