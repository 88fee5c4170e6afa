"""Spoilt config.json files."""
import json

from cases import LOGITS, Case, Special
from tiny import Model

BIG = 16 << 20


def whole_files():
    """(name, content of config.json, words)"""
    yield "empty", b"", "config.json"
    yield "list", b"[1]", "config.json"
    yield "open", b'{"model_type":"llama"', "not valid JSON"
    yield "zeros", bytes(100), "not valid JSON"
    yield "bad_utf8", b'{"model_type":"\xff"}', "not valid JSON"
    yield "deep", b'{"a":' + b"[" * 1_000_000, "nesting"
    yield "deep_objects", b'{"a":' * 100_000, "nesting"
    yield "too_large", b"{" + b" " * BIG + b"}", "16777216"
    yield "many_values", b'{"a":[' + b"{}," * 300_000 + b"{}]}", "200000"
    yield "folder", Special("dir"), "config.json"
    yield "fifo", Special("fifo"), "config.json"
    yield "device", Special("link /dev/zero"), "config.json"


def fields():
    """(name, changes, words); None removes a field."""
    yield "no_model_type", {"model_type": None}, "model_type"
    yield "model_type_unknown", {"model_type": "no-such-family"}, "no-such-family"
    yield "model_type_number", {"model_type": 3}, "model_type"
    yield "model_type_path", {"model_type": "../../etc/passwd"}, "etc/passwd"
    yield "no_hidden_size", {"hidden_size": None}, "hidden_size"
    yield "hidden_size_text", {"hidden_size": "32"}, "hidden_size"
    yield "hidden_size_zero", {"hidden_size": 0}, "hidden_size"
    yield "hidden_size_negative", {"hidden_size": -32}, "hidden_size"
    yield "hidden_size_fraction", {"hidden_size": 32.5}, "hidden_size"
    yield "hidden_size_huge", {"hidden_size": 2**40}, "hidden_size"
    yield "hidden_size_other", {"hidden_size": 64}, "hidden_size"
    yield "layers_billion", {"num_hidden_layers": 10**9}, "num_hidden_layers"
    yield "layers_zero", {"num_hidden_layers": 0}, "num_hidden_layers"
    yield "layers_one_more", {"num_hidden_layers": 3}, "model.layers.2."
    yield "layers_one_less", {"num_hidden_layers": 1}, "model.layers.1."
    yield "heads_zero", {"num_attention_heads": 0}, "num_attention_heads"
    yield "heads_huge", {"num_attention_heads": 2**31}, "num_attention_heads"
    yield "kv_heads_zero", {"num_key_value_heads": 0}, "num_key_value_heads"
    yield "kv_heads_odd", {"num_key_value_heads": 3}, ""
    yield "head_dim_odd", {"head_dim": 7}, "head_dim"
    yield "head_dim_huge", {"head_dim": 10**12}, "head_dim"
    yield "vocab_zero", {"vocab_size": 0}, "vocab_size"
    yield "vocab_huge", {"vocab_size": 2**50}, "vocab_size"
    yield "vocab_other", {"vocab_size": 100}, "model.embed_tokens.weight"
    yield "ff_other", {"intermediate_size": 96}, "mlp."
    yield "context_zero", {"max_position_embeddings": 0}, "max_position_embeddings"
    yield "context_huge", {"max_position_embeddings": 10**18}, "max_position_embeddings"
    yield "eps_negative", {"rms_norm_eps": -1}, "rms_norm_eps"
    yield "eps_list", {"rms_norm_eps": [1e-5]}, "rms_norm_eps"
    yield "theta_zero", {"rope_theta": 0}, "rope_theta"
    yield "rope_text", {"rope_scaling": "linear"}, "rope_scaling"
    yield "rope_type_unknown", {"rope_scaling": {"rope_type": "spiral", "factor": 2}}, "spiral"
    yield "rope_yarn_base_one", {"rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 4}}, "rope_theta"
    yield "rope_yarn_betas", {"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2}}, "beta_fast"
    yield "rope_long_counts", {"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": []}}, "long_factor"
    yield "rope_long_text", {"rope_scaling": {"type": "longrope", "short_factor": "x", "long_factor": {}}}, "short_factor"
    yield "rope_dynamic_negative", {"rope_scaling": {"type": "dynamic", "factor": -1}}, "factor"
    yield "rope_original_zero", {"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 0}}, \
        "original_max_position_embeddings"
    yield "rope_partial_negative", {"partial_rotary_factor": -0.5}, "partial_rotary_factor"
    yield "window_zero", {"model_type": "mistral", "sliding_window": 0}, "sliding_window"
    yield "window_negative", {"model_type": "gemma2", "sliding_window": -8}, "sliding_window"
    yield "pattern_zero", {"model_type": "gemma3_text", "sliding_window_pattern": 0}, "sliding_window_pattern"
    yield "pattern_word", {"model_type": "exaone4", "sliding_window_pattern": "LXG"}, "LXG"
    yield "layer_types_short", {"model_type": "gemma2", "layer_types": ["full_attention"]}, "layer_types has 1"
    yield "layer_types_unknown", {"model_type": "cohere2", "layer_types": ["full_attention", "warped"]}, "warped"
    yield "layer_types_numbers", {"model_type": "olmo3", "layer_types": [1, 2]}, "layer_types"
    yield "no_rope_layers_long", {"model_type": "smollm3", "no_rope_layers": [1, 0, 1]}, "no_rope_layers has 3"
    yield "no_rope_layers_two", {"model_type": "smollm3", "no_rope_layers": [1, 2]}, "no_rope_layers"
    yield "softcap_zero", {"model_type": "gemma2", "attn_logit_softcapping": 0}, "attn_logit_softcapping"
    yield "query_scale_zero", {"model_type": "gemma2", "query_pre_attn_scalar": 0}, "query_pre_attn_scalar"
    yield "both_directions", {"model_type": "gemma3_text", "use_bidirectional_attention": True}, \
        "use_bidirectional_attention"
    yield "act_without_a_gate", {"hidden_act": "xielu"}, "xielu"
    yield "clip_negative", {"model_type": "olmo", "clip_qkv": -1}, "clip_qkv"
    yield "logits_scaling_zero", {"model_type": "granite", "logits_scaling": 0}, "logits_scaling"
    yield "residual_text", {"model_type": "granite", "residual_multiplier": "x"}, "residual_multiplier"
    yield "rotary_pct_negative", {"model_type": "gpt_neox", "rotary_pct": -1}, "rotary_pct"
    yield "post_norm", {"model_type": "apertus", "post_norm": True}, "post_norm"
    yield "positions_none", {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 0}, "n_positions"
    yield "heads_not_dividing", {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 3}, "n_head"
    yield "cross_attention", {"model_type": "gpt_bigcode", "n_embd": 8, "n_layer": 1, "n_head": 1,
                              "add_cross_attention": True}, "add_cross_attention"
    yield "inner_huge", {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_inner": 1 << 40}, "n_inner"
    yield "act_unknown", {"model_type": "gemma", "hidden_act": "warped"}, "warped"
    yield "logit_scale_text", {"model_type": "cohere", "logit_scale": "x"}, "logit_scale"
    yield "position_scale_huge", {"model_type": "ministral3", "rope_scaling": {
        "type": "yarn", "factor": 4, "llama_4_scaling_beta": 1e300}}, "llama_4_scaling_beta"
    yield "text_unknown", {"model_type": "mistral3", "text_config": {"model_type": "warped"}}, "warped"
    yield "rope_factor_missing", {"rope_scaling": {"rope_type": "linear"}}, "factor"
    yield "rope_factor_zero", {"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor"
    yield "rope_per_layer_type", {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "rope_parameters"
    yield "activation_unknown", {"hidden_act": "sinus"}, "sinus"
    yield "tie_text", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"
    yield "text_config_list", {"text_config": []}, "text_config"
    yield "quant_method_other", {"quantization": None, "quantization_config": {"quant_method": "gptq"}}, "gptq"


def texts():
    """(name, text that replaces the value of rms_norm_eps, words)"""
    yield "number_overflow", "1e400", "not valid JSON"
    yield "number_nan", "NaN", "rms_norm_eps"
    yield "number_infinite", "Infinity", "rms_norm_eps"
    yield "number_huge_integer", "1" + "0" * 400, ""
    yield "number_long", "1" * 5_000_000, ""
    yield "key_twice", '1e-5,"hidden_size":32', "hidden_size"


def cases():
    m = Model()
    yield Case("config_missing", {k: v for k, v in m.build().items() if k != "config.json"}, LOGITS, ("config.json",))
    for name, content, words in whole_files():
        m = Model()
        m["config.json"] = content
        yield Case("config_" + name, m.build(), LOGITS, (words,))
    for name, changes, words in fields():
        m = Model()
        m.config = {k: v for k, v in {**m.config, **changes}.items() if v is not None}
        yield Case("config_" + name, m.build(), LOGITS, (words,))
    for name, text, words in texts():
        m = Model()
        m.config["rms_norm_eps"] = "HERE"
        m["config.json"] = json.dumps(m.config).replace('"HERE"', text).encode()
        yield Case("config_" + name, m.build(), LOGITS, (words,))
