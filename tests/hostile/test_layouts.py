"""Checkpoints in the original Hugging Face layout, a mixture of experts whose experts are tensors of their own: what is wrong
with them is refused as the files spell it, by `describe` and by a load in the same words; other forms of the same
values (fused, transposed, FP8, packed 4 bits) compute the same; every way of using a model takes it.

Each row of REFUSED is one checkpoint: the fixture with one thing changed.
"""
import json
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "families"))
import familylib
from testlib import DATA, mlxcel, mlxcel_ok, read_safetensors, stored_tensors

FIXTURE = DATA / "families" / "qwen3_moe"
EXPERTS, D, F = 6, 64, 64
LAYERS = (0, 2)  # the ones with experts
TOKENS = "1,5,9,60,3,3,7"


def expert(e, name, layer=0):
    return f"model.layers.{layer}.mlp.experts.{e}.{name}.weight"


def stack(name, layer=0):
    return f"model.layers.{layer}.mlp.switch_mlp.{name}.weight"


class Files:
    def __init__(self):
        recipe = json.loads((FIXTURE / "tensors.json").read_text())
        self.config = json.loads((FIXTURE / "config.json").read_text())
        self.tensors = familylib.draw_all(FIXTURE.name, recipe)

    def write(self, out):
        out.mkdir(parents=True)
        (out / "config.json").write_text(json.dumps(self.config))
        familylib.write_safetensors(out / "model.safetensors", self.tensors)
        return out

    def take(self, layer, name):
        """The experts' tensors of a projection, taken out: their bytes, one behind another."""
        return b"".join(self.tensors.pop(expert(e, name, layer))[2] for e in range(EXPERTS))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return Files().write(tmp_path_factory.mktemp("layouts") / "hf")


def logits(model, *options):
    out = model.parent / "logits.safetensors"
    out.unlink(missing_ok=True)
    mlxcel_ok("logits", "-m", model, "--tokens", TOKENS, "--exact", *options, "-o", out)
    return out.read_bytes()


# --- refused --------------------------------------------------------------------------------------------------------


def drop(*names):
    return lambda m: [m.tensors.pop(n) for n in names]


def put(name, dtype, *shape):
    size = familylib.SIZES[dtype] * familylib.count(shape)
    return lambda m: m.tensors.update({name: (dtype, list(shape), bytes(size))})


def both(*changes):
    return lambda m: [change(m) for change in changes]


REFUSED = {
    "missing expert": (drop(expert(3, "up_proj")), [
        expert(3, "up_proj") + " is in no file, needed with shape [64, 64]"]),
    "two missing": (drop(expert(3, "up_proj"), expert(5, "up_proj", 2)), [
        expert(3, "up_proj") + " is in no file", expert(5, "up_proj", 2) + " is in no file"]),
    "all of a projection": (drop(*(expert(e, "up_proj") for e in range(EXPERTS))), [
        stack("up_proj") + " is in no file (nor is model.layers.0.mlp.experts.#.up_proj)"]),
    "one expert more": (put(expert(EXPERTS, "up_proj"), "BF16", F, D), [
        expert(6, "up_proj") + " (BF16 [64, 64]) is not a parameter of the qwen3_moe model"]),
    "a number with a zero before it": (lambda m: m.tensors.update(
        {expert("03", "up_proj"): m.tensors.pop(expert(3, "up_proj"))}), [
            expert(3, "up_proj") + " is in no file", expert("03", "up_proj") + " (BF16 [64, 64]) is not a parameter"]),
    "one shape": (put(expert(2, "down_proj"), "BF16", D, F + 32), [
        expert(2, "down_proj") + " is BF16 [64, 96], but " + expert(0, "down_proj") + " is BF16 [64, 64]"]),
    "all shapes": (both(*(put(expert(e, "down_proj"), "BF16", D, F + 32) for e in range(EXPERTS))), [
        expert(0, "down_proj") + " is BF16 [64, 96], needed F32, F16 or BF16 [64, 64]"]),
    "one type": (put(expert(1, "gate_proj"), "F16", F, D), [
        expert(1, "gate_proj") + " is F16 [64, 64], but " + expert(0, "gate_proj") + " is BF16 [64, 64]; needed alike"]),
    "whole numbers": (both(*(put(expert(e, "gate_proj"), "I32", F, D) for e in range(EXPERTS))), [
        expert(0, "gate_proj") + " is I32 [64, 64], needed F32, F16 or BF16 [64, 64]"]),
    "scales of one expert": (put("model.layers.0.mlp.experts.1.up_proj.scales", "U8", F, 2), [
        "model.layers.0.mlp.experts.0.up_proj.scales is in no file"]),
    "both layouts": (put(stack("gate_proj"), "BF16", EXPERTS, F, D), [
        expert(0, "gate_proj") + " (BF16 [64, 64]) is not a parameter"]),
    "half of a fused pair": (both(drop(*(expert(e, n) for e in range(EXPERTS) for n in ("gate_proj", "up_proj"))),
                                  put("model.layers.0.mlp.experts.gate_up_proj", "BF16", EXPERTS, F, D)), [
        "model.layers.0.mlp.experts.gate_up_proj is BF16 [6, 64, 64], needed F32, F16 or BF16 [6, 128, 64]"]),
    "a fused pair and one of its halves": (both(
        drop(*(expert(e, "gate_proj") for e in range(EXPERTS))),
        put("model.layers.0.mlp.experts.gate_up_proj", "BF16", EXPERTS, 2 * F, D)), [
            "model.layers.0.mlp.experts.gate_up_proj"]),
    "FP8 without scales": (both(*(put(expert(e, "up_proj"), "F8_E4M3", F, D) for e in range(EXPERTS))), [
        expert(0, "up_proj") + " is F8_E4M3 [64, 64] without"]),
    "packed codes of another width": (both(
        drop(*(expert(e, "up_proj") for e in range(EXPERTS))),
        *(put(expert(e, "up_proj") + "_packed", "I32", F, D // 4) for e in range(EXPERTS)),
        *(put(expert(e, "up_proj") + "_scale", "BF16", F, 2) for e in range(EXPERTS))), [
            expert(0, "up_proj") + "_packed is I32 [64, 16] with scales BF16 [64, 2], needed words I32 of 8 codes"]),
    "gptq": (lambda m: m.config.update(quantization_config={"quant_method": "gptq", "bits": 4}), [
        'quantization_config.quant_method is "gptq"', "mlxcel convert -q"]),
    "packed otherwise": (lambda m: m.config.update(quantization_config={
        "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}), [
            'quantization_config.format is "nvfp4-pack-quantized", pack-quantized (of 4 bits)']),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    change, messages = REFUSED[name]
    m = Files()
    change(m)
    model = m.write(tmp_path / "hf")
    told = [mlxcel("describe", "-m", model), mlxcel("logits", "-m", model, "--tokens", TOKENS, "-o", tmp_path / "l"),
            mlxcel("convert", model, "-o", tmp_path / "mlx")]
    for r in told:
        assert r.returncode == 1, r.stderr
        for message in messages:
            assert message in r.stderr.decode()
    assert told[0].stderr == told[1].stderr == told[2].stderr
    assert not (tmp_path / "mlx").exists()


# --- other forms of the same values ---------------------------------------------------------------------------------


def rows(data, n):
    """n rows of the bytes."""
    size = len(data) // n
    return [data[i * size:(i + 1) * size] for i in range(n)]


def fuse(m):
    for layer in LAYERS:
        pairs = zip(rows(m.take(layer, "gate_proj"), EXPERTS), rows(m.take(layer, "up_proj"), EXPERTS))
        m.tensors[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = (
            "BF16", [EXPERTS, 2 * F, D], b"".join(gate + up for gate, up in pairs))
        m.tensors[f"model.layers.{layer}.mlp.experts.down_proj"] = (
            "BF16", [EXPERTS, D, F], m.take(layer, "down_proj"))


def stack_up(m):
    for layer in LAYERS:
        for name in ("gate_proj", "up_proj", "down_proj"):
            m.tensors[stack(name, layer)] = "BF16", [EXPERTS, 64, 64], m.take(layer, name)


def one_layer(m):
    stack_up(m)
    keep = {n: t for n, t in m.tensors.items() if ".layers.2." not in n or "switch" not in n}
    keep.update({n: t for n, t in Files().tensors.items() if ".layers.2.mlp.experts" in n})
    m.tensors = keep


SAME = {"fused": fuse, "stacked": stack_up, "another layout in each layer": one_layer}


@pytest.mark.parametrize("form", SAME)
def test_same_values(original, tmp_path, form):
    m = Files()
    SAME[form](m)
    assert logits(m.write(tmp_path / form)) == logits(original)


def test_fp8(tmp_path):
    """Experts of FP8 with scales of tiles compute what their values as bfloat16 do, and are converted to those."""
    m, wide = Files(), Files()
    for name, (_, shape, _) in list(m.tensors.items()):
        if ".experts." in name:
            codes = familylib.draw(1, name, "float8", "F8_E4M3", familylib.count(shape))
            m.tensors[name] = "F8_E4M3", shape, codes
            m.tensors[name + "_scale_inv"] = "F32", [1, 1], struct.pack("<f", 0.0078125)
            values = b"".join(struct.pack("<f", e4m3(c) * 0.0078125)[2:] for c in codes)
            wide.tensors[name] = "BF16", shape, values
    m.config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    model, same = m.write(tmp_path / "fp8"), wide.write(tmp_path / "wide")
    assert logits(model) == logits(same)
    mlxcel_ok("convert", model, "-o", tmp_path / "mlx")
    mlxcel_ok("convert", same, "-o", tmp_path / "mlx-wide")
    assert stored_tensors(tmp_path / "mlx/model.safetensors") == stored_tensors(tmp_path / "mlx-wide/model.safetensors")
    assert "quantization_config" not in json.loads((tmp_path / "mlx/config.json").read_text())


def test_fp8_with_one_scale(tmp_path):
    m, tiles = Files(), Files()
    name = "model.layers.1.mlp.up_proj.weight"
    shape = m.tensors[name][1]
    codes = familylib.draw(1, name, "float8", "F8_E4M3", familylib.count(shape))
    for files, scale in ((m, []), (tiles, [1, 1])):
        files.tensors[name] = "F8_E4M3", shape, codes
        files.tensors[name + "_scale_inv"] = "BF16", scale, struct.pack("<f", 0.0625)[2:]
        files.config["quantization_config"] = {"quant_method": "fp8"}
    m.tensors[name.replace(".weight", ".activation_scale")] = "BF16", [], b"\0\0"
    assert logits(m.write(tmp_path / "one")) == logits(tiles.write(tmp_path / "tiles"))


def e4m3(code):
    sign, e, f = -1 if code & 128 else 1, code >> 3 & 15, code & 7
    return sign * (f / 8 * 2.0 ** -6 if e == 0 else (1 + f / 8) * 2.0 ** (e - 7))


def test_packed(tmp_path):
    """compressed-tensors' words of codes less 8 are affine with biases of -8 scales, as mlx-lm makes of them."""
    m, affine = Files(), Files()
    for name in [n for n in m.tensors if ".experts." in n]:
        base = name.removesuffix(".weight")
        words, scales = familylib.draw(1, name, "float8", "U8", 64 * 32), familylib.draw(
            2, name, "uniform -4", "BF16", 64 * 2)
        for files in (m, affine):
            del files.tensors[name]
        m.tensors |= {base + ".weight_packed": ("I32", [64, 8], words), base + ".weight_scale": ("BF16", [64, 2], scales),
                      base + ".weight_shape": ("I64", [2], struct.pack("<qq", 64, 64))}
        negative = b"".join(struct.pack("<f", -8 * v[0])[2:] for v in struct.iter_unpack("<f", widen(scales)))
        affine.tensors |= {base + ".weight": ("U32", [64, 8], words), base + ".scales": ("BF16", [64, 2], scales),
                           base + ".biases": ("BF16", [64, 2], negative)}
    m.config["quantization_config"] = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    affine.config["quantization"] = {"group_size": 32, "bits": 4}
    model, same = m.write(tmp_path / "packed"), affine.write(tmp_path / "affine")
    r = mlxcel("logits", "-m", model, "--tokens", TOKENS, "--exact", "-o", tmp_path / "l.safetensors")
    assert r.returncode == 0 and b"warning" not in r.stderr, r.stderr
    assert (tmp_path / "l.safetensors").read_bytes() == logits(same)
    mlxcel_ok("convert", model, "-o", tmp_path / "mlx")
    mlxcel_ok("convert", same, "-o", tmp_path / "mlx-same")
    assert stored_tensors(tmp_path / "mlx/model.safetensors") == stored_tensors(tmp_path / "mlx-same/model.safetensors")


def widen(data):
    return b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))


# --- every way of using a model -------------------------------------------------------------------------------------


def test_describe(original):
    tensors = {t["name"]: t for t in json.loads(mlxcel_ok("describe", "-m", original, "--json"))["tensors"]}
    gate = tensors["model.layers.0.mlp.switch_mlp.gate_proj"]
    assert gate["shape"] == [EXPERTS, F, D] and gate["stored_in"] == "model.layers.0.mlp.experts.#.gate_proj"
    assert "stored_in" not in tensors["model.norm"]
    assert "experts.#.gate_proj" in mlxcel_ok("describe", "-m", original)


def write_adapter(folder, shapes):
    """PEFT's pairs for modules: name -> (inputs, outputs)."""
    tensors = {}
    for name, (n_in, n_out) in shapes.items():
        for part, shape in (("lora_A", [4, n_in]), ("lora_B", [n_out, 4])):
            full = f"base_model.model.{name}.{part}.weight"
            tensors[full] = "F32", shape, familylib.draw(3, full, "uniform -2", "F32", familylib.count(shape))
    folder.mkdir()
    familylib.write_safetensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": sorted({n.split(".")[-1] for n in shapes})}))
    return folder


def test_adapters(original, tmp_path):
    """PEFT's names are the original layout's: an adapter on single experts acts alike over both layouts, runs like the
    model it is fused into, and what it is fused into is the MLX layout."""
    adapter = write_adapter(tmp_path / "adapter", {
        "model.layers.0.mlp.experts.3.gate_proj": (D, F), "model.layers.2.mlp.experts.0.down_proj": (F, D),
        "model.layers.1.mlp.up_proj": (D, 96)})
    mlxcel_ok("convert", original, "-o", tmp_path / "mlx")
    over = [logits(m, "--lora", adapter) for m in (original, tmp_path / "mlx")]
    assert over[0] == over[1] != logits(original)
    mlxcel_ok("fuse", "-m", original, "--adapter", adapter, "-o", tmp_path / "fused")
    mlxcel_ok("fuse", "-m", tmp_path / "mlx", "--adapter", adapter, "-o", tmp_path / "fused-mlx")
    fused = stored_tensors(tmp_path / "fused/model.safetensors")
    assert fused == stored_tensors(tmp_path / "fused-mlx/model.safetensors")
    assert stack("gate_proj") in fused and expert(0, "gate_proj") not in fused


def test_quantize(original, tmp_path):
    mlxcel_ok("convert", original, "-o", tmp_path / "mlx")
    mlxcel_ok("quantize", "-m", original, "-o", tmp_path / "a", "--group-size", "32")
    mlxcel_ok("quantize", "-m", tmp_path / "mlx", "-o", tmp_path / "b", "--group-size", "32")
    mlxcel_ok("convert", original, "-q", "-o", tmp_path / "c", "--group-size", "32")
    a, b, c = (stored_tensors(tmp_path / x / "model.safetensors") for x in "abc")
    assert a == b == c and a[stack("gate_proj")][0] == "U32"


def test_further_layers_are_a_fault_here(tmp_path):
    """Layers beyond num_hidden_layers are ignored only where the family has such on purpose."""
    m = Files()
    put("model.layers.3.input_layernorm.weight", "BF16", D)(m)
    r = mlxcel("describe", "-m", m.write(tmp_path / "hf"))
    assert r.returncode == 1 and b"model.layers.3.input_layernorm.weight (BF16 [64]) is not a parameter" in r.stderr
