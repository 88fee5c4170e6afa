"""Fused models: `mlxcel fuse` beside mlx_lm.fuse, element by element, and the logits of what it wrote."""
import json
import shutil
import subprocess

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import load_adapters
from mlx_lm.utils import load_model

import lora_reference as ref
from arch_variants import reference_config

# Logits of a fused model against the run-time reference: the rounding of weights to their type, as a share of the norm.
LOGITS = {mx.float32: 1e-4, mx.float16: 2e-2, mx.bfloat16: 1e-1}
MOST_UNEQUAL = 1e-5  # share of elements that may be a neighbour off
EXPONENT = {mx.float32: (23, -126), mx.float16: (10, -14), mx.bfloat16: (7, -126)}  # bits of the fraction, least exponent


def reference(base, adapter, scratch):
    """mlx-lm's fused model. The adapter is widened to float32: mlx would multiply in its 16-bit type."""
    tensors = {k: v.astype(mx.float32) for k, v in mx.load(str(adapter.reference / "adapters.safetensors")).items()}
    ref.write_adapter(scratch, adapter.config, tensors)
    config = json.loads((base.reference / "config.json").read_text())
    model, _ = load_model(base.reference, model_config=reference_config(config))
    model = load_adapters(model, str(scratch))
    layers = [(n, m.fuse()) for n, m in model.named_modules() if hasattr(m, "fuse")]
    model.update_modules(tree_unflatten(layers))
    return model


def ulp(x, dtype):
    """The distance of x's neighbours in a type."""
    fraction, least = EXPONENT[dtype]
    exponent = mx.floor(mx.log2(mx.maximum(mx.abs(x), 2.0**least)))
    return mx.power(2.0, exponent - fraction)


def compare(found, want, base):
    """(elements, unequal ones, unequal ones that are more than a neighbour off) of a fused weight; base: before."""
    f, w, b = (x.astype(mx.float32) for x in (found, want, base))
    size = mx.maximum(mx.maximum(mx.abs(w), mx.abs(b)), mx.abs(w - b))
    off = mx.abs(f - w)
    return w.size, mx.sum(off > 0).item(), mx.sum(off > 1.0001 * ulp(size, want.dtype)).item()


def fuse(program, base, adapter, out):
    shutil.rmtree(out, ignore_errors=True)
    dense = ["--dequantize"] * ("quantization" in base.config)
    r = subprocess.run([program, "fuse", "-m", base.path, "--adapter", adapter.path, *dense, "-o", out],
                       capture_output=True, timeout=60, check=False)
    return None if r.returncode == 0 else f"fuse: exit status {r.returncode}: {r.stderr.decode(errors='replace')[:2000]}"


def comparable(base, adapter):
    """Whether mlx-lm computes the same elements. Not with DoRA, which keeps the base's type here and float32 there; not where
    a module's own scale went into the reference's lora_b; not on decoded weights, which mlx computes in their 16-bit type
    step by step and mlxcel in float32."""
    return adapter.kind == "lora" and adapter.form != "peft" and base.mode == "dense"


def read(folder):
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors |= mx.load(str(file))
    return tensors


def check(program, base, adapter, work, tally):
    """What is wrong, or None."""
    if fault := fuse(program, base, adapter, work / "fused"):
        return fault
    if not comparable(base, adapter):
        return None
    tensors = read(work / "fused")
    before, _ = load_model(base.reference, model_config=reference_config(base.config))
    before = dict(tree_flatten(before.parameters()))
    want = dict(tree_flatten(reference(base, adapter, work / "widened-adapter").parameters()))
    if set(want) - set(tensors):
        return f"the fused model lacks {sorted(set(want) - set(tensors))}"
    for name, w in want.items():
        if tensors[name].dtype != w.dtype or tensors[name].shape != w.shape:
            return f"{name} is {tensors[name].dtype} {tensors[name].shape}, needed {w.dtype} {w.shape}"
        n, unequal, wrong = compare(tensors[name], w, before[name])
        tally["fused elements"] += n
        tally["fused elements unequal"] += unequal
        if wrong or unequal > 1 + n * MOST_UNEQUAL:
            return f"fused {name}: of {n} elements {unequal} are not mlx_lm.fuse's, {wrong} by more than a neighbour"
    return None


def logits_tolerance(folder):
    """By the roughest type of the fused model's weights."""
    return max(LOGITS[t.dtype] for t in read(folder).values())
