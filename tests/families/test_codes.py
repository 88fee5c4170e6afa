"""Original layouts whose matrices are codes (FP8 in tiles, packed 4 bits), on every way that a checkpoint is used: what is made
straight of it is what is made of the directory that `convert` writes."""
import json

import familylib
from family import assert_close, assert_equal_folders, check, draw_adapter, each, family, tensors  # noqa: F401

import pytest

from testlib import mlxcel, mlxcel_ok

TILE = 128


def tiles(n):
    return -(-n // TILE)


def fp8(recipe):
    """Every projection in FP8, each tile of it with a scale. Heads of kv_b_proj begin within tiles."""
    coded = {}
    for name, (dtype, shape, kind) in recipe.items():
        if name.endswith("proj.weight") or "kv_a_proj" in name:
            coded[name] = "F8_E4M3", shape, "float8"
            coded[name + "_scale_inv"] = "F32", [tiles(n) for n in shape], "positive -10"
        else:
            coded[name] = dtype, shape, kind
    return coded, {"quant_method": "fp8", "weight_block_size": [TILE, TILE]}


def packed(recipe):
    """The experts in codes of 4 bits less 8, as compressed-tensors packs them."""
    coded = {}
    for name, (dtype, shape, kind) in recipe.items():
        if ".experts." in name and name.endswith(".weight"):
            rows, width = shape
            coded[name + "_packed"] = "I32", [rows, width // 8], "int -2000000000 2000000000"
            coded[name + "_scale"] = "BF16", [rows, width // 32], "positive -7"
            coded[name + "_shape"] = "I64", [2], "int 0 1"
        else:
            coded[name] = dtype, shape, kind
    return coded, {"quant_method": "compressed-tensors", "format": "pack-quantized"}


FORMS = {"fp8": fp8, "packed": packed}


@each(["deepseek_v3"])
@pytest.mark.parametrize("form", FORMS)
def test_every_way(family, form):
    recipe, quantization = FORMS[form](json.loads((family.fixture / "tensors.json").read_text()))
    work = family.work / form
    model, converted, adapter = work / "hf", work / "mlx", work / "adapter"
    model.mkdir(parents=True)
    config = json.loads((family.fixture / "config.json").read_text()) | {"quantization_config": quantization}
    (model / "config.json").write_text(json.dumps(config))
    familylib.write_safetensors(model / "model.safetensors", familylib.draw_all(family.name, recipe))
    mlxcel_ok("convert", model, "-o", converted)
    assert_close(family.exact(model), family.exact(converted), 1e-5)
    draw_adapter(converted, adapter)
    options = "--lora", adapter
    assert_close(family.exact(model, *options), family.exact(converted, *options), 1e-4)
    check("check_range", model, adapter)
    made = {}
    for base in model, converted:
        out = work / f"{base.name}-q"
        mlxcel_ok("quantize", "-m", base, "-o", out, "--bits", "4", "--group-size", "32")
        mlxcel_ok("fuse", "-m", base, *options, "-o", work / f"{base.name}-f", "--dequantize")
        made[base] = tensors(work / f"{base.name}-f")
    assert_equal_folders(work / "hf-q", work / "mlx-q")
    assert made[model] == made[converted]
    refusal = mlxcel("fuse", "-m", model, *options, "-o", work / "x").stderr.decode()
    assert "is quantized (" in refusal and "--dequantize" in refusal
