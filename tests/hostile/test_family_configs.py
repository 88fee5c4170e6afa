"""Wrong config.json files of every model family, beside the right tensors: one error line or a run, never a crash.

SPOILT: some fields of each family's fixture, each with one of VALUES. REFUSED: contradictions between fields, which are
refused by name and value. COUNTS: fields that change what the model computes and no tensor's shape, so that nothing but
the logits could tell that one is ignored.
"""
import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "families"))
import familylib
from testlib import DATA, mlxcel, mlxcel_ok

FAMILIES = sorted(p.parent.name for p in (DATA / "families").glob("*/config.json"))
VALUES = [None, 0, 1, 3, -1, 0.5, 1 << 31, 1 << 63, 1e308, float("nan"), float("inf"), True, "x", [], [-1], ["x"] * 4, {"a": 1}]
SPOILT = 6  # fields of a family
TOKENS = "1,5,9,60,3,3,7,20,21,22,23,24"


def config_of(family):
    return json.loads((DATA / "families" / family / "config.json").read_text())


def fields(config, path=()):
    for key, value in config.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from fields(value, (*path, key))


def put(config, path, value):
    for key in path[:-1]:
        config = config[key]
    config[path[-1]] = value


def logits(model, config):
    (model / "config.json").write_text(json.dumps(config))
    out = model / "logits.safetensors"
    out.unlink(missing_ok=True)
    return mlxcel("logits", "-m", model, "--tokens", TOKENS, "--exact", "-o", out, timeout=20), out


@pytest.mark.parametrize("family", FAMILIES)
def test_spoilt(family, tmp_path):
    model = tmp_path / "model"
    familylib.write_checkpoint(DATA / "families" / family, model)
    rng = random.Random(family)
    paths = list(fields(config_of(family)))
    for path in rng.sample(paths, min(SPOILT, len(paths))):
        config, value = config_of(family), rng.choice(VALUES)
        put(config, path, value)
        r, out = logits(model, config)
        error = r.stderr.decode()
        assert r.returncode in (0, 1), (path, value, r.returncode, error)
        assert out.exists() == (r.returncode == 0)
        if r.returncode:
            assert error.startswith("mlxcel: error: ") and error.count("\n") == 1, (path, value, error)


LONG = [0] * 200_000
REFUSED = {
    "heads beside Mamba": ("falcon_h1", {"num_key_value_heads": 4},
                           "num_attention_heads is 6, needed a multiple of num_key_value_heads (4)"),
    "kind of indexer": ("glm_moe_dsa", {"indexer_types": ["full", "shared", "none"]},
                        'indexer_types has "none" at 2; supported: full, shared'),
    "width of shared experts": ("deepseek_v3", {"moe_intermediate_size": 1 << 24, "n_shared_experts": 1024},
                                "n_shared_experts times a width of 16777216 is 17179869184"),
    "gate of xielu": ("mixtral", {"hidden_act": "xielu"}, "hidden_act is xielu"),
    "experts of xielu": ("nemotron_h-moe", {"mlp_hidden_act": "xielu"},
                         "hidden_act is xielu, which experts do not have"),
    "odd rotary_dim": ("minimax_m2", {"rotary_dim": 3}, "makes 3 features of a head rotate"),
    "odd rope of MLA": ("deepseek_v3", {"qk_rope_head_dim": 3}, "qk_rope_head_dim is 3"),
    "layers without experts": ("qwen3_moe", {"mlp_only_layers": LONG},
                               "mlp_only_layers has 200000 entries, at most num_hidden_layers (3)"),
    "layers with attention": ("bamba", {"attn_layer_indices": LONG, "layers_block_type": None},
                              "attn_layer_indices has 200000 entries"),
    "layers with full attention": ("lfm2", {"full_attn_idxs": LONG, "layer_types": None},
                                   "full_attn_idxs has 200000 entries"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    family, changes, words = REFUSED[name]
    (tmp_path / "config.json").write_text(json.dumps({**config_of(family), **changes}))
    r = mlxcel("describe", "-m", tmp_path, timeout=20)
    error = r.stderr.decode()
    assert r.returncode == 1 and words in error, error
    assert error.count(words) == 1, "said once"


COUNTS = [("mixtral", "hidden_act", "gelu"), ("qwen2_moe", "hidden_act", "relu"), ("granitemoe", "hidden_act", "relu"),
          ("olmoe", "hidden_act", "gelu"), ("longcat_flash", "hidden_act", "relu"), ("deepseek_v3", "hidden_act", "gelu")]


@pytest.mark.parametrize("family, field, value", COUNTS)
def test_counts(family, field, value, tmp_path):
    model, config = tmp_path / "model", config_of(family)
    familylib.write_checkpoint(DATA / "families" / family, model)
    found = []
    for changes in {}, {field: value}:
        r, out = logits(model, {**config, **changes})
        assert r.returncode == 0, r.stderr
        found.append(out.read_bytes())
    assert found[0] != found[1]


def test_share_instead_of_rotary_dim(tmp_path):
    """Newer files of MiniMax M2 say which part of a head rotates as partial_rotary_factor."""
    model, config = tmp_path / "model", config_of("minimax_m2")
    familylib.write_checkpoint(DATA / "families/minimax_m2", model)
    older = logits(model, config)[1].read_bytes()
    share = config.pop("rotary_dim") / config["head_dim"]
    assert logits(model, {**config, "partial_rotary_factor": share})[1].read_bytes() == older


def test_biases_of_qwen2_moe(tmp_path):
    """qkv_bias false: the files have none, and need none."""
    recipe = json.loads((DATA / "families/qwen2_moe/tensors.json").read_text())
    tensors = familylib.draw_all("qwen2_moe", {n: t for n, t in recipe.items() if not n.endswith("_proj.bias")})
    familylib.write_safetensors(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps({**config_of("qwen2_moe"), "qkv_bias": False}))
    mlxcel_ok("describe", "-m", tmp_path)
