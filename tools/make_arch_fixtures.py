#!/usr/bin/env python3
"""Makes tests/data/arch: tiny random checkpoints of every family with the logits of an independent reference.

Each variant of VARIANTS becomes a directory as mlx-lm writes it (config.json, model.safetensors or shards with an
index) plus expected.safetensors: `tokens` I32 [n] and `logits` F32 [n, vocab], computed by mlx-lm in float32 for one
prefill of the whole prompt. Every parameter is random, norms and biases too, and sizes are odd where the family allows
it, so that a parameter that is dropped, transposed or taken from the wrong place shows. The script checks that by
itself: it refuses to write a variant in which some parameter, or the rope scaling, hardly changes the logits, or in
which decoding step by step departs from the prefill, and a set that leaves out a combination of bits and group size.

The reference takes its configuration from `reference_config`, not from config.json, because mlx-lm departs from the
models as trained in places, and the model decides what is right:
  - mlx-lm's llama (also used for mistral) and qwen2 do not read `rope_parameters`, the spelling of transformers 5:
    theta would silently be the default. The reference is always given rope_theta and rope_scaling.
  - mlx-lm ignores the sliding windows of these families: a bare `sliding_window` (Mistral v0.1, every layer),
    `use_sliding_window` (Qwen, the layers from max_window_layers on, or as `layer_types` says). transformers masks keys
    at a distance of `sliding_window` and more; the expectation is made with those masks.
  - mlx-lm takes an absent tie_word_embeddings as true for llama and qwen2; transformers takes it as false. No variant
    depends on mlx-lm's default: when the field is absent, the checkpoint has an lm_head, and the head is untied.

Usage: tools/make_arch_fixtures.py [-o DIR] [NAME...]     (packages: tools/requirements.txt)
"""
import argparse
import json
import shutil
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes, load_model

from arch_variants import VARIANTS, reference_config

DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
DECODE_TOLERANCE = 1e-4  # of the logits' standard deviation
NOTICEABLE = 2e-2        # the least change that a zeroed parameter must make, in the same unit
MAX_BYTES = 400_000      # of one variant's directory


def random_tensor(key, name, shape, dtype):
    """A parameter of a size that keeps activations near 1 and the attention uneven, rounded to the stored type."""
    x = mx.random.normal(shape, key=key)
    if "norm" in name:
        x = 1 + 0.3 * x
    elif name.endswith(".bias"):
        x = 0.5 * x
    elif "embed_tokens" not in name:
        gain = 1.6 if "q_proj" in name or "k_proj" in name else 1.0
        x = gain * x / shape[-1] ** 0.5
    return x.astype(dtype)


def quantization_of(path, module, quantization):
    """How a module is stored, by config.json: its own entry, else the global pair where it divides; None: dense."""
    default = {k: quantization[k] for k in ("group_size", "bits", "mode") if k in quantization}
    choice = quantization.get(path, True)
    if choice is False or not hasattr(module, "to_quantized"):
        return None
    choice = default if choice is True else choice
    return choice if module.weight.shape[-1] % choice["group_size"] == 0 else None


def make_tensors(v, config):
    """Every tensor of the checkpoint by name, and the (bits, group, dtype) combinations used."""
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(reference_config(config)))
    modules = dict(model.named_modules())
    dtype = DTYPES[v["dtype"]]
    names = sorted((name, tuple(p.shape)) for name, p in tree_flatten(model.parameters()))
    names += sorted((name, tuple(shape)) for name, shape in v.get("extra", {}).items())
    keys = mx.random.split(mx.random.key(zlib.crc32(v["name"].encode())), len(names))
    tensors, used = {}, set()
    for (name, shape), key in zip(names, keys):
        x = random_tensor(key, name, shape, dtype)
        path, _, leaf = name.rpartition(".")
        q = None
        if "quantization" in config and leaf == "weight" and path in modules:
            q = quantization_of(path, modules[path], config["quantization"])
        if q is None:
            tensors[name] = x
            continue
        planes = mx.quantize(x, **q)
        tensors.update(zip((name, path + ".scales", path + ".biases"), planes))
        used.add((q["bits"], q["group_size"], v["dtype"]) if len(planes) == 3 else q["mode"])
    return tensors, used


def write_checkpoint(path, v, config, tensors):
    """config.json and the weights, spelled and laid out as mlx-lm's own convert does."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config, indent=4, sort_keys=True) + "\n")
    shards = v.get("shards", 1)
    if shards == 1:
        mx.save_safetensors(str(path / "model.safetensors"), tensors, metadata={"format": "mlx"})
        return
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: tensors[n] for n in sorted(tensors)[i::shards]}
        mx.save_safetensors(str(path / file), part, metadata={"format": "mlx"})
        weight_map.update(dict.fromkeys(part, file))
    total = sum(t.nbytes for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (path / "model.safetensors.index.json").write_text(json.dumps(index, indent=4) + "\n")


def fp8_of(tensors):
    """The linear layers of a bfloat16 checkpoint as Hugging Face's FP8: (what is stored, what that is in bfloat16).

    F8_E4M3 weights, and weight_scale_inv in F32 for tiles of 128 x 128, the last of a row or column being short."""
    stored, widened = {}, dict(tensors)
    for name, x in tensors.items():
        if not name.endswith("_proj.weight"):
            stored[name] = x
            continue
        tiles = [-(-n // 128) for n in x.shape]
        padded = mx.pad(x.astype(mx.float32), [(0, 128 * t - n) for t, n in zip(tiles, x.shape)])
        blocks = padded.reshape(tiles[0], 128, tiles[1], 128)
        scale = mx.abs(blocks).max(axis=(1, 3), keepdims=True) / 448
        crop = lambda a: a.reshape(padded.shape)[: x.shape[0], : x.shape[1]]
        codes = mx.to_fp8(blocks / scale)
        stored[name] = crop(codes)
        stored[name + "_scale_inv"] = scale.reshape(tiles)
        widened[name] = crop(mx.from_fp8(codes, mx.float32) * scale).astype(mx.bfloat16)
    return stored, widened


def write_fp8(path, tensors):
    """model.safetensors with the U8 arrays as F8_E4M3, which mlx cannot say."""
    names = {mx.uint8: "F8_E4M3", mx.float32: "F32", mx.bfloat16: "BF16"}
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, x in tensors.items():
        raw = bytes(memoryview(mx.contiguous(x).view(mx.uint8)))
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": names[x.dtype], "shape": x.shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    (path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


class Windowed:
    """A layer of mlx-lm that gets its own mask: query i sees keys j <= i with i - j < window (all if window is 0)."""

    def __init__(self, layer, window):
        self.layer, self.window = layer, window

    def __call__(self, x, mask=None, cache=None):
        mask = create_causal_mask(x.shape[1], cache.offset, window_size=self.window or None)
        return self.layer(x, mask, cache)

    def __getattr__(self, name):
        return getattr(self.layer, name)


@contextmanager
def windows_as_trained(model, windows):
    """Gives the model the sliding windows that transformers applies and mlx-lm leaves out."""
    layers = model.model.layers
    if windows:
        model.model.layers = [Windowed(layer, w) for layer, w in zip(layers, windows, strict=True)]
    try:
        yield
    finally:
        model.model.layers = layers


class WidenedEmbedding:
    """An embedding in a float mode, whose rows mlx gives in bfloat16 whatever the rest is; they fit it exactly."""

    def __init__(self, embedding):
        self.embedding = embedding

    def __call__(self, tokens):
        return self.embedding(tokens).astype(mx.float32)

    def __getattr__(self, name):
        return getattr(self.embedding, name)


def load_reference(path, config):
    """mlx-lm's model of the directory, all its floating parameters (scales and biases too) widened to float32."""
    model, _ = load_model(path, model_config=reference_config(config))
    widen = lambda p: p.astype(mx.float32) if mx.issubdtype(p.dtype, mx.floating) else p
    model.update(tree_map(widen, model.parameters()))
    if getattr(model.model.embed_tokens, "mode", "affine") != "affine":
        model.model.embed_tokens = WidenedEmbedding(model.model.embed_tokens)
    return model


def prefill(model, tokens, windows):
    with windows_as_trained(model, windows):
        logits = model(mx.array([tokens]), cache=make_prompt_cache(model))[0]
        mx.eval(logits)
    return logits


def decode(model, tokens, windows):
    with windows_as_trained(model, windows):
        cache = make_prompt_cache(model)
        rows = [model(mx.array([[t]]), cache=cache)[0, 0] for t in tokens]
        logits = mx.stack(rows)
        mx.eval(logits)
    return logits


def distance(a, b):
    """max |a - b| in units of the standard deviation of b."""
    return (mx.abs(a - b).max() / mx.std(b)).item()


def check_sensitivity(model, tokens, windows, logits, name):
    """Every parameter must matter: set to zero one by one, each must move the logits."""
    for path, p in tree_flatten(model.parameters()):
        if p.dtype == mx.uint32 or (path.endswith(".scales") and p.dtype != mx.uint8):
            continue  # a quantized weight is tried through its biases, in a mode without them through its scales
        model.load_weights([(path, mx.zeros_like(p))], strict=False)
        moved = distance(prefill(model, tokens, windows), logits)
        model.load_weights([(path, p)], strict=False)
        if not moved > NOTICEABLE:
            sys.exit(f"{name}: zeroing {path} moves the logits by only {moved:.2e} std")


def check_rope_scaling(path, config, tokens, logits, name):
    """Leaving the rope scaling out must show."""
    reference = reference_config(config)
    if not reference.get("rope_scaling"):
        return
    plain = load_reference(path, {**reference, "rope_scaling": None})
    moved = distance(prefill(plain, tokens, None), logits)
    if not moved > NOTICEABLE:
        sys.exit(f"{name}: the rope scaling moves the logits by only {moved:.2e} std")


def make_tokens(n, vocab):
    """n ids: the first and the last of the vocabulary, a repeated run, and the rest spread evenly."""
    spread = [(i * i * 7 + i * 31 + 3) % vocab for i in range(n - 6)]
    return [0, vocab - 1, 5, 5, 5, 1] + spread


def make_variant(v, out):
    config = v["config"]
    path = out / v["name"]
    shutil.rmtree(path, ignore_errors=True)
    tensors, used = make_tensors(v, config)
    if v.get("fp8"):
        stored, tensors = fp8_of(tensors)
    write_checkpoint(path, v, config, tensors)
    model = load_reference(path, config)
    windows = v.get("windows")
    tokens = make_tokens(v.get("n", 24), config["vocab_size"])
    logits = prefill(model, tokens, windows)
    off = distance(decode(model, tokens, windows), logits)
    if not off < DECODE_TOLERANCE:
        sys.exit(f"{v['name']}: decode departs from prefill by {off:.2e} std")
    check_sensitivity(model, tokens, windows, logits, v["name"])
    check_rope_scaling(path, config, tokens, logits, v["name"])
    if windows and not distance(prefill(model, tokens, None), logits) > NOTICEABLE:
        sys.exit(f"{v['name']}: the windows hardly move the logits")
    if v.get("fp8"):
        write_fp8(path, stored)
        used = {"fp8"}
    expected = {"tokens": mx.array(tokens, dtype=mx.int32), "logits": logits}
    mx.save_safetensors(str(path / "expected.safetensors"), expected)
    size = sum(f.stat().st_size for f in path.iterdir())
    if size > MAX_BYTES:
        sys.exit(f"{v['name']}: {size} bytes, more than {MAX_BYTES}")
    print(f"{v['name']:28} {size:7} bytes  std {mx.std(logits).item():.3f}  decode {off:.1e}", file=sys.stderr)
    return used


def check_coverage(used):
    """Over the whole set every width meets every group size, and every width every type of scales."""
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            if not any(u[:2] == (bits, group) for u in used):
                sys.exit(f"no variant stores {bits} bits in groups of {group}")
        for dtype in DTYPES:
            if not any((u[0], u[2]) == (bits, dtype) for u in used):
                sys.exit(f"no variant has {bits} bits with {dtype} scales")
    for mode in ("mxfp4", "mxfp8", "nvfp4", "fp8"):
        if mode not in used:
            sys.exit(f"no variant stores {mode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).parent.parent / "tests/data/arch")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these variants")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    chosen = [v for v in VARIANTS if not args.names or v["name"] in args.names]
    if unknown := set(args.names) - {v["name"] for v in VARIANTS}:
        sys.exit(f"no such variant: {', '.join(sorted(unknown))}")
    used = set()
    for v in chosen:
        used |= make_variant(v, args.out)
    if not args.names:
        check_coverage(used)


if __name__ == "__main__":
    main()
