"""The language model inside a vision-language checkpoint that neither reference has: the wrapper's names, the same logits."""
import json

from family import assert_close, each, family  # noqa: F401

import familylib
import pytest

from testlib import mlxcel_ok, stored_tensors


def rename(name, spelling):
    if spelling == "part":
        return name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name
    return "language_model." + name if spelling == "mlx" else name


@pytest.mark.parametrize("spelling", ["bare", "part", "mlx"])
@each(["youtu_llm"])
def test_youtu_vl(family, spelling, tmp_path):
    tensors = {rename(name, spelling): t for name, t in stored_tensors(family.hf / "model.safetensors").items()}
    tensors["siglip2.vision_model.embeddings.patch_embedding.weight"] = ("F32", [2, 3], bytes(24))
    tensors["merger.mlp.0.weight"] = ("F32", [2, 3], bytes(24))
    familylib.write_safetensors(tmp_path / "model.safetensors", tensors)
    text = json.loads((family.hf / "config.json").read_text())
    vision = {"model_type": "siglip2_vision_model"}
    config = {**text, "model_type": "youtu_vl", "vision_config": vision}
    if spelling == "mlx":
        config = {"model_type": "youtu_vl", "text_config": text, "vision_config": vision}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert_close(family.exact(tmp_path), family.logits)
    names = {t["name"] for t in json.loads(mlxcel_ok("describe", "-m", tmp_path, "--json"))["tensors"]}
    assert "language_model.model.norm" in names
