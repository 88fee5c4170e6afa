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
