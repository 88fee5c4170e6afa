"""Models with adapters as mlx-lm computes them, in float32: shared by make_lora_fixtures.py and tests/lorafuzz.

A base is loaded twice over: as mlx-lm keeps it (quantized layers stay quantized), and with every weight dequantized. An
adapter is put on by mlx-lm's own load_adapters from the files that mlxcel reads. Then every floating parameter, the
adapter's too, is widened to float32: mlx would otherwise round s * b, say, to the 16-bit type of b.
"""
import json

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map, tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers, load_adapters
from mlx_lm.utils import dequantize_model, load_model

from arch_variants import reference_config

DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}


def widen(model):
    to_f32 = lambda p: p.astype(mx.float32) if mx.issubdtype(p.dtype, mx.floating) else p
    model.update(tree_map(to_f32, model.parameters()))
    model.eval()
    return model


def load_base(path, dense):
    """mlx-lm's model of a directory; dense: without quantized layers."""
    model, _ = load_model(path, model_config=reference_config(json.loads((path / "config.json").read_text())))
    widen(model)
    return widen(dequantize_model(model)) if dense else model


def logits(model, tokens):
    found = model(mx.array([tokens]))[0]
    mx.eval(found)
    return found


def distance(a, b):
    """max |a - b| in units of the standard deviation of b."""
    return (mx.abs(a - b).max() / mx.std(b)).item()


def adapted(path, adapter, dense, scale=1.0):
    """The model of `path` with the adapter's directory on it, its scale multiplied by `scale`."""
    model = load_adapters(load_base(path, dense), str(adapter))
    for _, module in model.named_modules():
        if "lora_a" in module:
            module.scale *= scale
    return widen(model)


def mlx_can_load(path, config):
    """Whether mlx-lm puts this adapter on the quantized base as it is; else the dequantized base alone is a reference."""
    base = load_base(path, False)
    dora = config.get("fine_tune_type") == "dora"
    linear_to_lora_layers(base, config["num_layers"], config["lora_parameters"])  # not DoRA: that may not fit
    wrapped = [m.linear if "linear" in m else m.embedding for _, m in base.named_modules() if "lora_a" in m]
    for m in wrapped:
        embedding = isinstance(m, nn.QuantizedEmbedding)
        if embedding and (dora or m.mode != "affine"):  # no DoRA; rows of the float modes come in bfloat16
            return False
        if dora and isinstance(m, nn.QuantizedLinear) and m.bits not in (2, 4, 8):
            return False
    return not any(isinstance(m, nn.QuantizedEmbedding) and m.mode != "affine" for _, m in base.named_modules())


def draw_adapter(path, config, dtype, key):
    """Random tensors of an adapter that changes the model about half as much as its weights weigh; all names, all shapes
    as mlx-lm itself would save them."""
    model = load_base(path, True)
    dora = config.get("fine_tune_type") == "dora"
    linear_to_lora_layers(model, config["num_layers"], config["lora_parameters"], use_dora=dora)
    scale, rank, tensors = config["lora_parameters"]["scale"], config["lora_parameters"]["rank"], {}
    for name, module in model.named_modules():
        if "lora_a" not in module:
            continue
        key, ka, kb, km = mx.random.split(key, 4)
        size = 0.5 / (abs(scale) * rank**0.5) if scale else 1
        if "embedding" not in module:
            size /= module.lora_a.shape[0]**0.5
        tensors[name + ".lora_a"] = mx.random.normal(module.lora_a.shape, key=ka)
        tensors[name + ".lora_b"] = mx.random.normal(module.lora_b.shape, key=kb) * size
        if dora:
            tensors[name + ".m"] = module.m * (1 + 0.3 * mx.random.normal(module.m.shape, key=km))
    return {k: v.astype(dtype) for k, v in tensors.items()}


def write_adapter(out, config, tensors):
    out.mkdir(parents=True, exist_ok=True)
    (out / "adapter_config.json").write_text(json.dumps(config, indent=4, sort_keys=True) + "\n")
    mx.save_safetensors(str(out / "adapters.safetensors"), tensors)


def adapter_parameters(model):
    """(name, value) of what an adapter brought along."""
    return [(k, v) for k, v in tree_flatten(model.parameters()) if k.rpartition(".")[2] in ("lora_a", "lora_b", "m")]


def combined(path, uses):
    """The dense model of `path` with several adapters' changes: uses are (directory, kind, scale). First parameters are
    replaced; then come the layers with DoRA, at most one for a module, and around them those of LoRA."""
    model = load_base(path, True)
    for adapter, kind, _ in uses:
        if kind == "full":
            load_adapters(model, str(adapter))
    for stage in "dora", "lora":
        for adapter, kind, scale in uses:
            if kind == stage:
                wrap(model, adapted(path, adapter, True, scale))
    return widen(model)


def wrap(model, other):
    """Puts the adapter layers of `other` around the layers of `model`."""
    inner, layers = dict(model.named_modules()), []
    for name, layer in other.named_modules():
        if "lora_a" in layer:
            setattr(layer, "linear" if "linear" in layer else "embedding", inner[name])
            layers.append((name, layer))
    model.update_modules(tree_unflatten(layers))
