#!/usr/bin/env python3
"""Makes a llama, or with --experts a Qwen 3 MoE, with random weights, for measurements that need a model larger than the caches or a file of a given size.

    tools/make_synthetic_model.py OUT [--parameters 1.5e9 | --bytes 4e9] [--bits 4 [--group-size 64]] [--seed N]
                                       [--experts 64 [--top-k 8] [--expert-ff 1024]]

Hidden 2048, 32 heads of which 4 have keys and values, feed-forward 5632, vocabulary 32,000, head not tied: as many such
layers as come nearest to the size asked for. With --experts each layer has that many feed-forward blocks of --expert-ff
instead of one, of which a token uses --top-k. Without --bits the weights are bfloat16, normal with a deviation of
1/sqrt(inputs), and `mlxcel quantize` makes every mode of them. With --bits the planes of affine quantization are drawn
at once, random codes with float16 scales and biases of the same deviation, so that a large quantized file needs no
larger dense one before it. The tokenizer is that of tests/data/tiny. One shard of 1 GB at a time is in memory; 1.5e9
parameters take about half a minute. OUT must not exist.
"""
import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np

TINY = Path(__file__).resolve().parent.parent / "tests" / "data" / "tiny"
HIDDEN, HEADS, KV_HEADS, FF, VOCAB = 2048, 32, 4, 5632, 32000
KV = HIDDEN // HEADS * KV_HEADS
SHARD = 1_000_000_000  # bytes at which a shard is full
LINEARS = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV, HIDDEN), "self_attn.v_proj": (KV, HIDDEN),
           "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (FF, HIDDEN), "mlp.up_proj": (FF, HIDDEN),
           "mlp.down_proj": (HIDDEN, FF)}
ATTENTION = {k: v for k, v in LINEARS.items() if "attn" in k}
ENDS = 2 * VOCAB * HIDDEN  # parameters of embedding and head
BLOCK = 1 << 22  # elements drawn together


def linears(experts, expert_ff):
    """name -> shape of a layer's matrices and stacks."""
    if not experts:
        return LINEARS
    stacks = {"gate": (expert_ff, HIDDEN), "up": (expert_ff, HIDDEN), "down": (HIDDEN, expert_ff)}
    return ATTENTION | {"mlp.gate": (experts, HIDDEN)} | {
        f"mlp.switch_mlp.{k}_proj": (experts, *shape) for k, shape in stacks.items()}


def count(shapes):
    return sum(int(np.prod(shape)) for shape in shapes.values())


def normal(rng, shape):
    """bfloat16 as uint16, by blocks."""
    out = np.empty(int(np.prod(shape)), np.uint16)
    for at in range(0, out.size, BLOCK):
        part = rng.standard_normal(min(BLOCK, out.size - at), np.float32) * np.float32(shape[-1] ** -0.5)
        out[at:at + BLOCK] = part.view(np.uint32) >> 16
    return out.reshape(shape)


def dense(rng, name, shape):
    yield name + ".weight", "BF16", lambda: normal(rng, shape)


def affine(rng, name, shape, bits, group):
    """Uniform codes with zero in their middle; a uniform code of n bits deviates by 2^n / sqrt(12)."""
    *rows, cols = shape
    scale = cols ** -0.5 * 12 ** 0.5 / 2 ** bits
    scales = lambda: np.full((*rows, cols // group), scale, np.float16)
    yield name + ".weight", "U32", lambda: rng.integers(0, 1 << 32, (*rows, cols * bits // 32), np.uint32)
    yield name + ".scales", "F16", scales
    yield name + ".biases", "F16", lambda: scales() * np.float16((1 - 2 ** bits) / 2)


def tensors(rng, layers, shapes, bits, group):
    """(name, dtype, function that draws it) of every tensor, in the order of the files."""
    linear = lambda name, shape: affine(rng, name, shape, bits, group) if bits else dense(rng, name, shape)
    norm = lambda name: (name + ".weight", "BF16", lambda: np.full(HIDDEN, 0x3F80, np.uint16))
    yield from linear("model.embed_tokens", (VOCAB, HIDDEN))
    for i in range(layers):
        yield norm(f"model.layers.{i}.input_layernorm")
        yield norm(f"model.layers.{i}.post_attention_layernorm")
        if shapes is not LINEARS:
            for name in "qk":
                yield (f"model.layers.{i}.self_attn.{name}_norm.weight", "BF16",
                       lambda: np.full(HIDDEN // HEADS, 0x3F80, np.uint16))
        for name, shape in shapes.items():
            router = name == "mlp.gate"
            yield from (dense(rng, f"model.layers.{i}.{name}", shape) if router else linear(f"model.layers.{i}.{name}", shape))
    yield norm("model.norm")
    yield from linear("lm_head", (VOCAB, HIDDEN))


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


def config(layers, args):
    c = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
         "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
         "intermediate_size": FF, "vocab_size": VOCAB, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "eos_token_id": 0,
         "torch_dtype": "bfloat16"}
    if args.experts:
        c |= {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": args.experts,
              "num_experts_per_tok": args.top_k, "moe_intermediate_size": args.expert_ff, "norm_topk_prob": True,
              "head_dim": HIDDEN // HEADS}
    if args.bits:
        c["quantization"] = {"group_size": args.group_size, "bits": args.bits}
    return c


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--parameters", type=float, default=1.5e9)
    size.add_argument("--bytes", type=float, help="of the weight files together")
    parser.add_argument("--bits", type=int, choices=(2, 3, 4, 5, 6, 8))
    parser.add_argument("--group-size", type=int, choices=(32, 64, 128), default=64)
    parser.add_argument("--experts", type=int, default=0)
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--expert-ff", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse()
    bits, group = args.bits, args.group_size
    bytes_each = bits / 8 + 4 / group if bits else 2
    parameters = args.bytes / bytes_each if args.bytes else args.parameters
    shapes = linears(args.experts, args.expert_ff)
    layers = max(1, round((parameters - ENDS) / count(shapes)))
    args.out.mkdir(parents=True)
    size = write_weights(args.out, tensors(np.random.default_rng(args.seed), layers, shapes, bits, group))
    (args.out / "config.json").write_text(json.dumps(config(layers, args), indent=1) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(TINY / name, args.out / name)
    print(f"{args.out}: {layers} layers, {(layers * count(shapes) + ENDS) / 1e9:.2f}e9 parameters, {size / 1e9:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
