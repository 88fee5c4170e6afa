"""Every model family against two independent references (tests/data/families, made by tools/make_family_fixtures.py).

Of each fixture: its Hugging Face layout and the MLX layout that `convert` makes of it compute the reference's logits within
1e-3 of their standard deviation; the MLX layout is byte for byte mlx-lm's; quantized, the model computes what its own
weights say when they are written out, whichever layout it was quantized from; and chunks, threads, batches, interruptions
and the prefix cache change no bit.
"""
import json
import shutil

import familylib
from family import MODES, assert_close, assert_equal_folders, check, draw_adapter, each, family, tensors  # noqa: F401

import pytest

from testlib import mlxcel, mlxcel_ok


def fault(*command):
    """The error line of a command that must fail."""
    r = mlxcel(*command)
    assert r.returncode == 1, r
    return r.stderr.decode()


@each()
def test_hf_layout(family):
    assert_close(family.exact(family.hf), family.logits)


TOGETHER = {"longcat_flash": 2, "longcat_flash_ngram": 2}  # places where two layers are one in the files


@each()
def test_two_parts_of_the_hf_layout(family):
    n = int(check("check_range", family.hf))
    assert n == json.loads(mlxcel_ok("describe", "-m", family.hf, "--json"))["layers"] - 1 - TOGETHER.get(family.name, 0)


@each(["glm_moe_dsa"])
def test_layers_that_share_keys_stay_together(family):
    """Where layer 2 takes the keys that layer 1's indexer chose, a part may begin at layer 1 alone."""
    model = family.work / "shared"
    recipe = json.loads((family.fixture / "tensors.json").read_text())
    config = json.loads((family.fixture / "config.json").read_text()) | {"indexer_types": ["full", "full", "shared"]}
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(config))
    kept = {name: t for name, t in recipe.items() if "layers.2.self_attn.indexer" not in name}
    familylib.write_safetensors(model / "model.safetensors", familylib.draw_all(family.name, kept))
    assert check("check_range", model) == "1\n"


@each()
def test_mlx_layout(family):
    if (family.fixture / "mlx.json").exists():
        wanted = json.loads((family.fixture / "mlx.json").read_text())
        assert {k: [d, s, familylib.hash_of(b)] for k, (d, s, b) in tensors(family.mlx).items()} == wanted
    assert_close(family.exact(family.mlx), family.logits)


@each()
def test_order(family):
    family.assert_order_changes_nothing(family.mlx, (1, 1), (7, 2))


@each()
@pytest.mark.parametrize("mode", MODES)
def test_quantized(family, mode):
    model = family.quantized(mode)
    assert_close(family.exact(model), family.exact(family.widened(mode)))
    family.assert_order_changes_nothing(model, (5, 3))
    # Straight from the original layout, too, by either command.
    direct, how = family.work / "direct", ("quantize", "-m") if mode == "affine4" else ("convert", "-q")
    mlxcel_ok(*how, family.hf, "-o", direct, "--force", *MODES[mode])
    assert_equal_folders(direct, model)


KEPT = {"afmoe": "expert_bias", "deepseek_v3": "e_score_correction_bias", "exaone_moe": "e_score_correction_bias",
        "glm4_moe": "e_score_correction_bias", "kimi_linear": "dt_bias", "lfm2_moe": "expert_bias",
        "minimax_m2": "e_score_correction_bias", "nemotron_h-moe": "e_score_correction_bias", "qwen3_5": "A_log",
        "solar_open": "e_score_correction_bias"}


@each(KEPT)
def test_types_that_stay(family):
    """What mlx-lm's cast_predicate names; of each family here one kind."""
    wide, out = family.work / "wide", family.work / "narrow"
    familylib.write_checkpoint(family.fixture, wide, "F32")
    mlxcel_ok("convert", wide, "-o", out, "--dtype", "bfloat16")
    kept = {name for name, (dtype, _, _) in tensors(out).items() if dtype == "F32"}
    assert {name for name in tensors(out) if name.endswith(KEPT[family.name])} <= kept, kept
    assert kept and all(name.endswith(("bias", "A_log")) for name in kept), kept


@each(["ernie4_5_moe"])
def test_what_mlx_leaves_out(family):
    """mlx-lm's files of this family are without the corrections: every command takes them as they are."""
    model, adapter, out = family.work / "without", family.work / "adapter", family.work / "out"
    kept = {name: t for name, t in tensors(family.mlx).items() if not name.endswith("correction_bias")}
    model.mkdir()
    shutil.copy(family.mlx / "config.json", model)
    familylib.write_safetensors(model / "model.safetensors", kept)
    draw_adapter(model, adapter)
    facts = json.loads(mlxcel_ok("describe", "-m", model, "--json"))
    assert {t["name"] + ".weight" for t in facts["tensors"]} == set(kept) and list(facts["modes"]) == ["BF16"]
    assert facts["parameters"] == facts["modes"]["BF16"]
    for command in (("convert", model), ("quantize", "-m", model, "--group-size", "32"),
                    ("fuse", "-m", model, "--adapter", adapter)):
        mlxcel_ok(*command, "-o", out, "--force")
        assert {name for name in tensors(out) if not name.endswith((".scales", ".biases"))} == set(kept)
        family.exact(out)
    shutil.rmtree(adapter)
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"fine_tune_type": "full", "num_layers": -1}')
    corrections = {name: t for name, t in tensors(family.mlx).items() if name not in kept}
    familylib.write_safetensors(adapter / "adapters.safetensors", corrections)
    said = fault("logits", "-m", model, "--tokens", "1", "--lora", adapter, "-o", family.work / "logits")
    assert "that the model's files are without" in said
    mlxcel_ok("quantize", "-m", model, "--group-size", "32", "-o", out, "--force")
    mlxcel_ok("dequantize", "-m", out, "-o", family.work / "wide")
    assert tensors(family.work / "wide").keys() == kept.keys()


RECIPE = "--recipe", "mixed_3_6", "--group-size", "32"


@each(["deepseek_v3"])
def test_bare_arrays_stay_dense(family):
    """MLX's routers of this kind are no layers: nothing that is asked of all matrices is asked of them."""
    gate, q = "model.layers.1.mlp.gate", family.work / "q"
    for asked in RECIPE, ("--q", "*=mxfp8"):
        mlxcel_ok("quantize", "-m", family.mlx, "-o", q, "--force", *asked, "--q", "q_b_proj=dense")
        assert tensors(q)[gate + ".weight"] == tensors(family.mlx)[gate + ".weight"]
        assert gate not in json.loads((q / "config.json").read_text())["quantization"]
    assert f"{gate} is never quantized" in fault("quantize", "-m", family.mlx, "-o", q, "--force", "--q", "mlp.gate=affine:8")


@each(["lfm2"])
def test_a_recipe_needs_down_projections(family):
    assert "down_proj; this lfm2 model has none" in fault("quantize", "-m", family.mlx, "-o", family.work / "q", *RECIPE)


@each(["granitemoe"])
def test_experts_of_granite_are_down_projections(family):
    """As in mlx-lm: what ends with mlp.down_proj gets 8 bits in groups of 64, switch_mlp.down_proj, too."""
    model, out = family.work / "narrow", family.work / "narrow-q"
    recipe = json.loads((family.fixture / "tensors.json").read_text())
    for name, (dtype, shape, kind) in recipe.items():
        if name.endswith(("input_linear.weight", "output_linear.weight")):
            recipe[name] = dtype, [shape[0], 128, 96] if "input" in name else [shape[0], 96, 64], kind
    config = json.loads((family.fixture / "config.json").read_text()) | {"intermediate_size": 64}
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(config))
    familylib.write_safetensors(model / "model.safetensors", familylib.draw_all(family.name, recipe))
    mlxcel_ok("quantize", "-m", model, "-o", out, "--group-size", "32")
    forms = json.loads((out / "config.json").read_text())["quantization"]
    assert forms["model.layers.0.block_sparse_moe.switch_mlp.down_proj"] == {"group_size": 64, "bits": 8, "mode": "affine"}


@each(["longcat_flash"])
def test_a_recipe_counts_layers_as_their_names_do(family):
    """Where two of ours are one of theirs: of three the last gets more bits."""
    model, out = family.work / "three", family.work / "three-q"
    recipe = json.loads((family.fixture / "tensors.json").read_text())
    recipe |= {name.replace("layers.1.", "layers.2."): t for name, t in recipe.items()}
    config = json.loads((family.fixture / "config.json").read_text()) | {"num_layers": 3}
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(config))
    familylib.write_safetensors(model / "model.safetensors", familylib.draw_all(family.name, recipe))
    mlxcel_ok("quantize", "-m", model, "-o", out, *RECIPE)
    forms = json.loads((out / "config.json").read_text())["quantization"]
    bits = [forms[f"model.layers.{i}.mlps.{part}.down_proj"]["bits"] for i in range(3) for part in (0, 1)]
    assert bits == [3, 3, 3, 3, 6, 6]


@each(["qwen3_moe"])
def test_groups_of_all_matrices_hold_for_routers_too(family):
    said = fault("quantize", "-m", family.mlx, "-o", family.work / "q", "--group-size", "128")
    assert "groups do not divide model.embed_tokens (64 inputs, groups of 128) and others" in said


@each(["kimi_k25"])
def test_text_config_says_nothing_of_how_it_was_stored(family):
    model, out = family.work / "in-text", family.work / "dense"
    mlxcel_ok("quantize", "-m", family.mlx, "-o", model, *MODES["affine4"])
    config = json.loads((model / "config.json").read_text())
    config["text_config"] |= {key: config.pop(key) for key in ("quantization", "quantization_config")}
    (model / "config.json").write_text(json.dumps(config))
    assert json.loads(mlxcel_ok("describe", "-m", model, "--json"))["warnings"] == []
    mlxcel_ok("dequantize", "-m", model, "-o", out)
    assert json.loads(mlxcel_ok("describe", "-m", out, "--json"))["warnings"] == []
    del config["text_config"]["quantization"], config["text_config"]["quantization_config"]
    made = json.loads((out / "config.json").read_text())
    assert made == {key: value for key, value in config.items() if key != "vision_config"}


@each()
def test_batches_and_caches(family):
    check("check_family", family.mlx)
