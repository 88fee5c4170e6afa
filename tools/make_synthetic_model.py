#!/usr/bin/env python3
"""Makes a model with random weights for measurements: larger than the caches, of a given size, or of one kind of layer.

    tools/make_synthetic_model.py OUT [--family llama] [--parameters 1.5e9 | --bytes 4e9] [--bits 4 [--group-size 64]]
                                       [--original] [--seed N]

Hidden 2048, vocabulary 32,000, head not tied: as many layers of the family's row in FAMILIES as come nearest to the size asked
for. Without --bits the weights are bfloat16, normal with a deviation of 1/sqrt(inputs), and `mlxcel quantize` makes
every mode of them. With --bits the planes of affine quantization are drawn at once, random codes with float16 scales
and biases of the same deviation, so that a large quantized file needs no larger dense one before it. Names and shapes are
those of the MLX layout, with --original each expert's matrix is a tensor of its own. The tokenizer is that of
tests/data/tiny. One shard of 1 GB at a time is in memory; 1.5e9 parameters take about half a minute. OUT must not exist.
"""
import argparse
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np

TINY = Path(__file__).resolve().parent.parent / "tests" / "data" / "tiny"
HIDDEN, VOCAB, FF = 2048, 32000, 5632
SHARD = 1_000_000_000  # bytes at which a shard is full
BLOCK = 1 << 22  # elements drawn together
NAMES = ("model.embed_tokens", "model.layers", "model.norm", "lm_head")


# --- the families ------------------------------------------------------------------------------------------------------

class Tensor(NamedTuple):
    """Its shape, and of what is no matrix the range of its values; --bits quantizes matrices, unless they stay dense."""
    shape: tuple
    values: tuple = None
    dense: bool = False


class Family(NamedTuple):
    config: Callable  # number of layers -> what config.json says beyond what all say
    layer: dict  # name within a layer -> Tensor
    names: tuple = NAMES  # of the embedding, the layers, the last norm, the head


def matrix(*shape):
    return Tensor(shape)


def ones(n):
    return Tensor((n,), (1, 1))


def gated(name, n_ff, *stack):
    """A feed-forward block, or a stack of them."""
    return {f"{name}.gate_proj": matrix(*stack, n_ff, HIDDEN), f"{name}.up_proj": matrix(*stack, n_ff, HIDDEN),
            f"{name}.down_proj": matrix(*stack, HIDDEN, n_ff)}


def attention(heads, kv_heads, head_dim):
    q, kv = heads * head_dim, kv_heads * head_dim
    return {"self_attn.q_proj": matrix(q, HIDDEN), "self_attn.k_proj": matrix(kv, HIDDEN),
            "self_attn.v_proj": matrix(kv, HIDDEN), "self_attn.o_proj": matrix(HIDDEN, q)}


NORMS = {"input_layernorm": ones(HIDDEN), "post_attention_layernorm": ones(HIDDEN)}
CONV = (-0.5, 0.5)
FAMILIES = {
    "llama": Family(
        lambda n: {"num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": FF},
        NORMS | attention(32, 4, 64) | gated("mlp", FF)),
    "qwen3_moe": Family(  # 8 of 64 experts
        lambda n: {"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": FF,
                   "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 1024, "norm_topk_prob": True},
        NORMS | attention(32, 4, 64) | {"self_attn.q_norm": ones(64), "self_attn.k_norm": ones(64)}
        | {"mlp.gate": Tensor((64, HIDDEN), dense=True)} | gated("mlp.switch_mlp", 1024, 64)),
    "mamba2": Family(  # the layer of mamba2-1.3b
        lambda n: {"num_heads": 64, "head_dim": 64, "state_size": 128, "n_groups": 1, "conv_kernel": 4, "expand": 2,
                   "use_bias": False, "use_conv_bias": True, "layer_norm_epsilon": 1e-5},
        {"norm": ones(HIDDEN), "mixer.in_proj": matrix(2 * 4096 + 2 * 128 + 64, HIDDEN),
         "mixer.conv1d": Tensor((4096 + 2 * 128, 4, 1), CONV), "mixer.conv1d.bias": Tensor((4096 + 2 * 128,), CONV),
         "mixer.A_log": Tensor((64,), (0, 2)), "mixer.D": ones(64), "mixer.dt_bias": Tensor((64,), (-2, 1)),
         "mixer.norm": ones(4096), "mixer.out_proj": matrix(HIDDEN, 4096)},
        ("backbone.embeddings", "backbone.layers", "backbone.norm_f", "lm_head")),
    "qwen3_5": Family(  # gated delta nets in all layers, of Qwen3-Next's size
        lambda n: {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": FF,
                   "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                   "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention"] * n},
        NORMS | gated("mlp", FF) | {
            "linear_attn.in_proj_qkv": matrix(2 * 2048 + 4096, HIDDEN), "linear_attn.in_proj_z": matrix(4096, HIDDEN),
            "linear_attn.in_proj_a": matrix(32, HIDDEN), "linear_attn.in_proj_b": matrix(32, HIDDEN),
            "linear_attn.conv1d": Tensor((2 * 2048 + 4096, 4, 1), CONV), "linear_attn.A_log": Tensor((32,), (0, 2)),
            "linear_attn.dt_bias": Tensor((32,), (-2, 1)), "linear_attn.norm": ones(128),
            "linear_attn.out_proj": matrix(HIDDEN, 4096)},
        tuple("language_model." + name for name in NAMES)),
    "kimi_linear": Family(  # Kimi delta attention and a dense feed-forward block in all layers
        lambda n: {"num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 72, "intermediate_size": FF,
                   "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                   "mla_use_nope": True, "model_max_length": 131072, "first_k_dense_replace": n, "moe_layer_freq": 1,
                   "num_experts": 8, "num_experts_per_token": 2, "moe_intermediate_size": 64,
                   "moe_router_activation_func": "sigmoid",
                   "linear_attn_config": {"kda_layers": list(range(1, n + 1)), "full_attn_layers": [], "head_dim": 128,
                                          "num_heads": 32, "short_conv_kernel_size": 4}},
        NORMS | attention(32, 32, 128) | gated("mlp", FF) | {
            **{f"self_attn.{k}_conv.conv": Tensor((4096, 4, 1), CONV) for k in "qkv"},
            **{f"self_attn.{k}_a_proj": matrix(128, HIDDEN) for k in "fg"},
            **{f"self_attn.{k}_b_proj": matrix(4096, 128) for k in "fg"},
            "self_attn.b_proj": matrix(32, HIDDEN), "self_attn.A_log": Tensor((1, 1, 32, 1), (0, 2)),
            "self_attn.dt_bias": Tensor((4096,), (-2, 1)), "self_attn.o_norm": ones(128)}),
    "deepseek_v3": Family(  # latent attention of DeepSeek-V2-Lite's size, a dense feed-forward block in all layers
        lambda n: {"num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": FF, "q_lora_rank": None,
                   "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                   "n_routed_experts": None},
        NORMS | gated("mlp", FF) | {
            "self_attn.q_proj": matrix(16 * (128 + 64), HIDDEN), "self_attn.kv_a_proj_with_mqa": matrix(512 + 64, HIDDEN),
            "self_attn.kv_a_layernorm": ones(512), "self_attn.embed_q": matrix(16, 512, 128),
            "self_attn.unembed_out": matrix(16, 128, 512), "self_attn.o_proj": matrix(HIDDEN, 16 * 128)}),
}


def original(layer):
    """The layer as the model's makers publish it: stacked experts one by one."""
    apart = {}
    for name, t in layer.items():
        stack, part = t.shape[0], t._replace(shape=t.shape[1:])
        apart |= {name.replace("switch_mlp", f"experts.{i}"): part for i in range(stack)} if "switch_mlp" in name else {name: t}
    return apart


def count(layer):
    return sum(math.prod(t.shape) for t in layer.values())


# --- the values ----------------------------------------------------------------------------------------------------------

def normal(rng, shape):
    """bfloat16 as uint16, by blocks."""
    out = np.empty(math.prod(shape), np.uint16)
    for at in range(0, out.size, BLOCK):
        part = rng.standard_normal(min(BLOCK, out.size - at), np.float32) * np.float32(shape[-1] ** -0.5)
        out[at:at + BLOCK] = part.view(np.uint32) >> 16
    return out.reshape(shape)


def uniform(rng, shape, values):
    return (rng.uniform(*values, shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def affine(rng, name, shape, bits, group):
    """Uniform codes with zero in their middle; a uniform code of n bits deviates by 2^n / sqrt(12)."""
    *rows, cols = shape
    scale = cols ** -0.5 * 12 ** 0.5 / 2 ** bits
    scales = lambda: np.full((*rows, cols // group), scale, np.float16)
    yield name + ".weight", "U32", lambda: rng.integers(0, 1 << 32, (*rows, cols * bits // 32), np.uint32)
    yield name + ".scales", "F16", scales
    yield name + ".biases", "F16", lambda: scales() * np.float16((1 - 2 ** bits) / 2)


def drawn(rng, name, t, bits, group):
    """(name, dtype, function that draws it) of a tensor or its planes."""
    whole = name if name.endswith((".bias", ".A_log", ".D", ".dt_bias")) else name + ".weight"
    if t.values:
        yield whole, "BF16", lambda: uniform(rng, t.shape, t.values)
    elif bits and not t.dense:
        yield from affine(rng, name, t.shape, bits, group)
    else:
        yield whole, "BF16", lambda: normal(rng, t.shape)


def tensors(rng, family, n_layer, bits, group):
    """The same of all tensors, in the order of the files."""
    embed, layers, norm, head = family.names
    yield from drawn(rng, embed, matrix(VOCAB, HIDDEN), bits, group)
    for i in range(n_layer):
        for name, t in family.layer.items():
            yield from drawn(rng, f"{layers}.{i}.{name}", t, bits, group)
    yield from drawn(rng, norm, ones(HIDDEN), bits, group)
    yield from drawn(rng, head, matrix(VOCAB, HIDDEN), bits, group)


# --- the files -----------------------------------------------------------------------------------------------------------

def write_shard(path, dtypes, arrays):
    """A safetensors file whose header is padded to 8 bytes."""
    header, end = {}, 0
    for (name, array), dtype in zip(arrays.items(), dtypes):
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            array.tofile(f)


def write_weights(out, items):
    """Shards of about SHARD bytes and their index; returns the bytes of all tensors."""
    shards, dtypes, arrays, size = [], [], {}, 0

    def flush():
        write_shard(out / f"part-{len(shards)}", dtypes, arrays)
        shards.append(list(arrays))
        dtypes.clear()
        arrays.clear()

    for name, dtype, draw in items:
        arrays[name] = draw()
        dtypes.append(dtype)
        size += arrays[name].nbytes
        if sum(a.nbytes for a in arrays.values()) >= SHARD:
            flush()
    if arrays:
        flush()
    file_name = lambda i: f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
    for i in range(len(shards)):
        (out / f"part-{i}").rename(out / file_name(i))
    index = {"metadata": {"total_size": size}, "weight_map": {n: file_name(i) for i, s in enumerate(shards) for n in s}}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    return size


def config(model_type, n_layer, args):
    c = {"model_type": model_type, "hidden_size": HIDDEN, "num_hidden_layers": n_layer, "vocab_size": VOCAB,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "eos_token_id": 0, "torch_dtype": "bfloat16"}
    if args.bits:
        c["quantization"] = {"group_size": args.group_size, "bits": args.bits}
    return c | FAMILIES[model_type].config(n_layer)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--family", choices=FAMILIES, default="llama")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--parameters", type=float, default=1.5e9)
    size.add_argument("--bytes", type=float, help="of the weight files together")
    parser.add_argument("--bits", type=int, choices=(2, 3, 4, 5, 6, 8))
    parser.add_argument("--group-size", type=int, choices=(32, 64, 128), default=64)
    parser.add_argument("--original", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse()
    bits, group, family = args.bits, args.group_size, FAMILIES[args.family]
    bytes_each = bits / 8 + 4 / group if bits else 2
    parameters = args.bytes / bytes_each if args.bytes else args.parameters
    ends, per_layer = 2 * VOCAB * HIDDEN, count(family.layer)
    n_layer = max(1, round((parameters - ends) / per_layer))
    if args.original:
        family = family._replace(layer=original(family.layer))
    args.out.mkdir(parents=True)
    size = write_weights(args.out, tensors(np.random.default_rng(args.seed), family, n_layer, bits, group))
    (args.out / "config.json").write_text(json.dumps(config(args.family, n_layer, args), indent=1) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(TINY / name, args.out / name)
    print(f"{args.out}: {n_layer} layers, {(n_layer * per_layer + ends) / 1e9:.2f}e9 parameters, {size / 1e9:.2f} GB",
          file=sys.stderr)


if __name__ == "__main__":
    main()
