"""Random tiny checkpoints, as tools/make_arch_fixtures.py makes them: every family, mode and type."""
import json
import shutil
from types import SimpleNamespace

import arch_variants as arch
import make_arch_fixtures as fixtures

FAMILIES = ["llama", "mistral", "qwen2", "qwen3"]
MODES = ["dense"] * 3 + ["affine"] * 4 + ["mixed", "mxfp4", "mxfp8", "nvfp4", "fp8"]


def quantization(rng, mode):
    """The block of config.json, and the number that widths are multiples of so that layers are quantized."""
    pair = lambda group: arch.affine(rng.choice([2, 3, 4, 5, 6, 8]), group)
    if mode == "affine":
        group = rng.choice([32, 32, 64, 128])
        return pair(group), group
    if mode == "mixed":
        layer = arch.per_layer((4, 64), [])
        choices = [pair(rng.choice([32, 64])) for _ in range(4)] + [arch.MXFP4, arch.MXFP8, arch.NVFP4, False]
        names = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
        return {**layer, **{f"model.layers.0.{n}": rng.choice(choices) for n in names}}, 64
    return {"mxfp4": (arch.MXFP4, 32), "mxfp8": (arch.MXFP8, 32), "nvfp4": (arch.NVFP4, 16)}[mode]


def draw_fields(rng, family, mode, unit):
    """Sizes of one variant: mostly multiples of `unit`, so that layers are quantized; a few layers stay dense."""
    size = lambda most: unit * rng.randint(1, max(1, most // unit)) if rng.random() < 0.85 else rng.randint(20, most)
    kv = rng.choice([1, 1, 2, 3])
    fields = {"head_dim": 2 * rng.randint(2, 12)}
    if family == "llama" and mode != "fp8":
        fields |= {"attention_bias": rng.random() < 0.3, "mlp_bias": rng.random() < 0.2}
    if family == "qwen3":
        fields["attention_bias"] = False
    heads = kv * rng.randint(1, 4)
    if family == "qwen2":  # no head_dim
        del fields["head_dim"]
        hidden = unit * rng.randint(1, max(1, 128 // unit)) if unit > 1 else 4 * heads * rng.randint(1, 6)
        heads = next(h for h in (heads, 4, 2, 1) if hidden % (2 * h) == 0)
        kv = next(k for k in (kv, 2, 1) if heads % k == 0)
    else:
        hidden = size(160)
    return {"hidden": hidden, "heads": heads, "kv": kv, "ffn": size(200), "fields": fields,
            "layers": rng.randint(1, 3), "vocab": rng.randint(40, 200), "tied": rng.random() < 0.4,
            "new": rng.random() < 0.3}


def only_where_they_divide(block, config):
    """Leaves layers dense whose own group size does not divide their inputs; mlx-lm would not load them."""
    heads = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]) * config["num_attention_heads"]
    inputs = {"o_proj": heads, "down_proj": config["intermediate_size"]}
    for name, choice in block.items():
        if isinstance(choice, dict) and inputs.get(name.rpartition(".")[2], config["hidden_size"]) % choice["group_size"]:
            block[name] = False


def draw(rng, folder):
    """Writes a checkpoint; what is known of it: path, reference (the path that mlx reads, another one for FP8), config."""
    while True:
        try:
            return draw_one(rng, folder)
        except ValueError:  # mlx cannot quantize some shapes
            continue


def draw_one(rng, folder):
    shutil.rmtree(folder, ignore_errors=True)
    family, mode = rng.choice(FAMILIES), rng.choice(MODES)
    block, unit = quantization(rng, mode) if mode not in ("dense", "fp8") else (None, 1)
    dtype = "BF16" if mode == "fp8" else rng.choice(["F32", "F16", "BF16"])
    name = f"{family}-{mode}-{rng.randrange(1 << 32)}"
    v = arch.variant(name, dtype, quantization=block, shards=rng.choice([1, 1, 2]) if mode != "fp8" else 1,
                     **draw_fields(rng, family, mode, unit))
    if block:
        only_where_they_divide(block, v["config"])
    tensors, _ = fixtures.make_tensors(v, v["config"])
    base = SimpleNamespace(name=name, config=v["config"], path=folder / "base", reference=folder / "base", mode=mode)
    if mode != "fp8":
        fixtures.write_checkpoint(base.path, v, v["config"], tensors)
        return base
    base.reference = folder / "widened"
    stored, widened = fixtures.fp8_of(tensors)
    fixtures.write_checkpoint(base.reference, v, v["config"], widened)
    config = {**v["config"], "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                                     "weight_block_size": [128, 128]}}
    base.path.mkdir()
    (base.path / "config.json").write_text(json.dumps(config))
    fixtures.write_fp8(base.path, stored)
    return base
