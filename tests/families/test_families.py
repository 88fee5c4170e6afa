"""Every model family against two independent references (tests/data/families, made by tools/make_family_fixtures.py).

Of each fixture: its Hugging Face layout and the MLX layout that `convert` makes of it compute the reference's logits within
1e-3 of their standard deviation; the MLX layout is byte for byte mlx-lm's; quantized, the model computes what its own
weights say when they are written out, whichever layout it was quantized from; and chunks, threads, batches, interruptions
and the prefix cache change no bit.
"""
import json

import familylib
from family import MODES, assert_close, assert_equal_folders, check, each, family, tensors  # noqa: F401

import pytest

from testlib import mlxcel_ok


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


@each()
def test_batches_and_caches(family):
    check("check_family", family.mlx)
