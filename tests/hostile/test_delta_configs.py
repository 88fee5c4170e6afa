"""Contradictory config.json files of models with delta nets and short convolutions: refused before any tensor is looked at,
naming field and value."""
import json

import pytest

from testlib import DATA, mlxcel

REFUSED = [
    ("qwen3_next", {"linear_num_value_heads": 5}, "linear_num_value_heads is 5, a multiple of linear_num_key_heads (2)"),
    ("qwen3_next", {"linear_num_key_heads": 0}, "linear_num_key_heads is 0"),
    ("qwen3_next", {"linear_key_head_dim": -16}, "linear_key_head_dim is -16"),
    ("qwen3_next", {"linear_key_head_dim": 1 << 40}, "linear_key_head_dim is 1099511627776"),
    ("qwen3_next", {"linear_value_head_dim": 0}, "linear_value_head_dim is 0"),
    ("qwen3_next", {"linear_conv_kernel_dim": 1}, "linear_conv_kernel_dim is 1"),
    ("qwen3_next", {"linear_conv_kernel_dim": 100000}, "linear_conv_kernel_dim is 100000"),
    ("qwen3_next", {"full_attention_interval": 0}, "full_attention_interval is 0"),
    ("qwen3_next", {"layer_types": ["linear_attention"] * 3}, "layer_types has 3 entries, num_hidden_layers (4)"),
    ("qwen3_next", {"layer_types": ["linear_attention"] * 3 + ["mamba"]}, 'layer_types has "mamba" at 3'),
    ("qwen3_next", {"layer_types": ["full_attention", 3, None, {}]}, "layer_types"),
    ("qwen3_next", {"num_experts_per_tok": 7}, "num_experts_per_tok is 7, at most num_experts (6)"),
    ("qwen3_next", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
    ("qwen3_next", {"hidden_act": "gelo"}, 'hidden_act is "gelo"'),
    ("qwen3_5", {"text_config.linear_num_value_heads": 3}, "text_config.linear_num_value_heads is 3, a multiple of"),
    ("qwen3_5", {"text_config.layer_types": []}, "layer_types has 0 entries"),
    ("qwen3_5", {"text_config.num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
    ("qwen3_5", {"text_config": 3}, "text_config is not an object"),
    ("lfm2", {"conv_L_cache": 0}, "conv_L_cache is 0"),
    ("lfm2", {"conv_L_cache": 1 << 33}, "conv_L_cache is 8589934592"),
    ("lfm2", {"full_attn_idxs": [1, 4]}, "full_attn_idxs[1] is 4"),
    ("lfm2", {"layer_types": ["conv", "full_attention"]}, "layer_types has 2 entries"),
    ("lfm2", {"block_dim": 64}, "block_dim is 64; supported: hidden_size (96)"),
    ("lfm2", {"block_multiple_of": 0}, "block_multiple_of is 0"),
    ("lfm2", {"block_ffn_dim_multiplier": -1}, "block_ffn_dim_multiplier is -1"),
    ("lfm2", {"block_ff_dim": 0}, "block_ff_dim is 0"),
    ("lfm2_moe", {"num_dense_layers": -1}, "num_dense_layers is -1"),
    ("lfm2_moe", {"num_experts": 0}, "num_experts is 0"),
    ("kimi_linear", {"linear_attn_config.num_heads": 0}, "linear_attn_config.num_heads is 0"),
    ("kimi_linear", {"linear_attn_config.head_dim": 4096}, "linear_attn_config.head_dim is 4096"),
    ("kimi_linear", {"linear_attn_config.kda_layers": [1, 2, 3, 4]}, "name layer 3 both"),
    ("kimi_linear", {"linear_attn_config.kda_layers": [1, 2]}, "name layer 4 neither"),
    ("kimi_linear", {"linear_attn_config.kda_layers": [0, 1, 2]}, "linear_attn_config.kda_layers[0] is 0"),
    ("kimi_linear", {"linear_attn_config.short_conv_kernel_size": 1}, "short_conv_kernel_size is 1"),
    ("kimi_linear", {"linear_attn_config": 1}, "linear_attn_config is 1, an object is needed"),
    ("kimi_linear", {"num_shared_experts": 1000, "moe_intermediate_size": 1 << 24}, "num_shared_experts times"),
    ("kimi_linear", {"moe_router_activation_func": "tanh"}, 'moe_router_activation_func is "tanh"'),
    ("kimi_linear", {"num_expert_group": 4}, "num_expert_group is 4, a divisor"),
    ("kimi_linear", {"q_lora_rank": 8}, "q_lora_rank is set"),
]


@pytest.mark.parametrize("family, changes, words", REFUSED)
def test_refused(tmp_path, family, changes, words):
    config = json.loads((DATA / "families" / family / "config.json").read_text())
    for key, value in changes.items():
        *objects, last = key.split(".")
        at = config
        for name in objects:
            at = at[name]
        at[last] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    r = mlxcel("describe", "-m", tmp_path)
    assert r.returncode > 0
    assert words in r.stderr.decode()
