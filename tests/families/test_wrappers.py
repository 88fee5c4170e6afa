"""Language models of vision-language checkpoints under other names than the fixtures': inside a wrapper that neither reference
has, and saved alone. The same logits."""
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


@pytest.mark.parametrize("spelling", ["bare", "part"])
@each(["qwen3_5", "qwen3_5_moe"])
def test_text_part_alone(family, spelling, tmp_path):
    """As transformers saves it: the text's config at the top, with a model_type of its own."""
    def rename(name):
        return name.replace("model.language_model.", "model.") if spelling == "bare" else name

    tensors = {rename(name): t for name, t in stored_tensors(family.hf / "model.safetensors").items()}
    familylib.write_safetensors(tmp_path / "model.safetensors", tensors)
    text = json.loads((family.hf / "config.json").read_text())["text_config"]
    assert text["model_type"] == family.model_type + "_text"
    (tmp_path / "config.json").write_text(json.dumps(text))
    assert_close(family.exact(tmp_path), family.logits)
