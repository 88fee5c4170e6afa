"""The variants of make_arch_fixtures.py: one table, and how a configuration is given to the reference.

A variant has a name, the type of its floating tensors ("F32", "F16", "BF16"; scales and biases of quantized tensors
have it too), a config.json, and where wanted: n (tokens of the prompt), shards, windows (each layer's sliding window as
trained, 0 for none, for the reference), extra (tensors that a loader must ignore, name -> shape), fp8 (the linear
layers are stored as Hugging Face's FP8).

Every combination of bits and group size occurs, every width with every type of scales, both spellings of rope and
dtype, and the fields that real files leave out or set to null.
"""

# Fields of real files that a loader must accept and that change nothing here.
COMMON = {
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "transformers_version": "4.51.3",
    "use_cache": True,
}
CLASSES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
TORCH = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
LLAMA3 = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
    "rope_type": "llama3",
}


def reference_config(config):
    """The same model in the one spelling that every mlx-lm family reads, with nothing left to a default of mlx-lm."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    scaled = rope.get("rope_type", rope.get("type", "default")) != "default"
    plain = {k: v for k, v in config.items() if k != "rope_parameters"}
    return {
        **plain,
        "rope_theta": rope.get("rope_theta", config.get("rope_theta", 10000.0)),
        "rope_scaling": rope if scaled else None,
        "rope_parameters": None,
        "tie_word_embeddings": config.get("tie_word_embeddings", False),
        "layer_types": None,
    }


def variant(name, dtype, hidden, heads, kv, ffn, *, layers=3, vocab=131, new=False, tied=False, theta=10000.0,
            scaling=None, fields=None, drop=(), quantization=None, **rest):
    """One row. new: the spelling of transformers 5. tied: tie_word_embeddings. drop: fields to leave out."""
    family = name.split("-")[0]
    config = {
        **COMMON,
        "architectures": [CLASSES[family] + "ForCausalLM"],
        "model_type": family,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "max_position_embeddings": 512,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv,
        "rms_norm_eps": 1e-5 if family in ("llama", "mistral") else 1e-6,
        "tie_word_embeddings": tied,
        "vocab_size": vocab,
    }
    if new:
        config["dtype"] = TORCH[dtype]
        config["rope_parameters"] = {"rope_theta": theta, "rope_type": "default", **(scaling or {})}
        config["transformers_version"] = "5.0.0"
    else:
        config["torch_dtype"] = TORCH[dtype]
        config["rope_theta"] = theta
        config["rope_scaling"] = scaling
    if quantization:
        config["quantization"] = config["quantization_config"] = quantization
    config.update(fields or {})
    for field in drop:
        del config[field]
    return {"name": name, "dtype": dtype, "config": config, **rest}


def affine(bits, group):
    return {"bits": bits, "group_size": group}


MXFP4 = {"bits": 4, "group_size": 32, "mode": "mxfp4"}
MXFP8 = {"bits": 8, "group_size": 32, "mode": "mxfp8"}
NVFP4 = {"bits": 4, "group_size": 16, "mode": "nvfp4"}


def per_layer(default, choices):
    """Overrides for layer 0, in the order q, k, v, o, gate, up, down."""
    names = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    overrides = {f"model.layers.0.{n}": affine(*c) for n, c in zip(names, choices) if c}
    return {**affine(*default), "mode": "affine", **overrides}


LLAMA = {"attention_bias": False, "mlp_bias": False, "pretraining_tp": 1}
QWEN = {"max_window_layers": 28, "sliding_window": 32768, "use_sliding_window": False}
FULL3 = {"layer_types": ["full_attention"] * 3}

VARIANTS = [
    # Dense.
    variant("llama-tied-f32", "F32", 60, 6, 2, 77, tied=True, fields=LLAMA,
            extra={"model.layers.0.self_attn.rotary_emb.inv_freq": (5,), "lm_head.weight": (131, 60)}),
    variant("llama-untied-bf16", "BF16", 60, 6, 3, 77, new=True, theta=500000.0, shards=3,
            fields={**LLAMA, "head_dim": 10}),
    variant("llama-bias-f16", "F16", 56, 6, 2, 77, tied=True,
            fields={"attention_bias": True, "mlp_bias": True, "head_dim": 10}),
    variant("llama-mha-f32", "F32", 60, 6, 6, 77, layers=2, fields={"head_dim": None},
            drop=("num_key_value_heads", "tie_word_embeddings", "rope_theta")),
    variant("llama-llama3-bf16", "BF16", 48, 3, 1, 77, new=True, scaling=LLAMA3, tied=True,
            fields={**LLAMA, "head_dim": 16}, n=200),
    variant("llama-llama3-old-f32", "F32", 48, 3, 1, 77, layers=2, scaling=LLAMA3, theta=5000.0, fields=LLAMA, n=70),
    variant("llama-linear-f32", "F32", 60, 6, 2, 77, layers=2, scaling={"factor": 4.0, "type": "linear"}, fields=LLAMA),
    variant("llama-linear-new-f16", "F16", 60, 6, 2, 77, new=True, tied=True, fields=LLAMA,
            scaling={"factor": 2.5, "rope_type": "linear"}),
    variant("mistral-bf16", "BF16", 60, 4, 2, 77, theta=1000000.0, fields={"head_dim": 18, "sliding_window": None}),
    variant("mistral-wide-f32", "F32", 60, 6, 2, 77, layers=2, fields={"sliding_window": 4096}),
    variant("mistral-window-bf16", "BF16", 60, 6, 2, 77, fields={"sliding_window": 9}, windows=[9, 9, 9], n=70),
    variant("qwen2-tied-bf16", "BF16", 60, 6, 2, 77, tied=True, theta=1000000.0, fields=QWEN),
    variant("qwen2-untied-f16", "F16", 60, 6, 1, 77, new=True, theta=1000000.0,
            fields={**FULL3, **QWEN, "sliding_window": None}),
    variant("qwen2-window-f16", "F16", 60, 6, 2, 77, tied=True, theta=1000000.0, windows=[0, 0, 11], n=70,
            fields={"max_window_layers": 2, "sliding_window": 11, "use_sliding_window": True}),
    variant("qwen3-tied-f32", "F32", 52, 6, 2, 77, tied=True, theta=1000000.0,
            fields={**QWEN, "attention_bias": False, "head_dim": 10, "sliding_window": None}),
    variant("qwen3-untied-bf16", "BF16", 60, 5, 1, 77, new=True, theta=1000000.0,
            fields={**FULL3, "attention_bias": False, "head_dim": 14, "use_sliding_window": False}),
    variant("qwen3-window-bf16", "BF16", 60, 6, 2, 77, new=True, tied=True, theta=1000000.0, windows=[8, 0, 8], n=70,
            fields={"attention_bias": False, "head_dim": 10, "max_window_layers": 28, "sliding_window": 8,
                    "use_sliding_window": True,
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    # Quantized, one width throughout.
    variant("llama-q4-g32-f16", "F16", 96, 6, 2, 160, tied=True, fields=LLAMA, quantization=affine(4, 32)),
    variant("llama-q4-g64-f32", "F32", 64, 4, 2, 128, fields=LLAMA, quantization=affine(4, 64)),
    variant("llama-q3-g64-f32", "F32", 192, 6, 2, 128, layers=2, fields=LLAMA, quantization=affine(3, 64),
            shards=2),
    variant("llama-q5-g32-bf16", "BF16", 96, 6, 2, 160, tied=True, quantization=affine(5, 32),
            fields={"attention_bias": True, "mlp_bias": True}),
    # Here 77 inputs of down_proj do not divide: it stays dense, as mlx-lm leaves it.
    variant("llama-q8-partly-f16", "F16", 64, 4, 2, 77, fields=LLAMA, quantization=affine(8, 64)),
    variant("mistral-q2-g128-f16", "F16", 128, 4, 1, 256, quantization=affine(2, 128), fields={"sliding_window": None}),
    variant("qwen2-q4-g64-bf16", "BF16", 128, 4, 2, 192, layers=2, theta=1000000.0, fields=QWEN,
            quantization={**affine(4, 64), "mode": "affine"}),
    variant("qwen3-q8-g32-f32", "F32", 96, 4, 2, 96, layers=2, tied=True, theta=1000000.0,
            fields={"attention_bias": False, "head_dim": 32}, quantization=affine(8, 32)),
    variant("qwen3-q6-g64-bf16", "BF16", 64, 4, 2, 128, new=True, theta=1000000.0,
            fields={"attention_bias": False, "head_dim": 32}, quantization=affine(6, 64)),
    # Quantized, a width of its own for most tensors of layer 0, dense ones between.
    variant("llama-mixed-f32", "F32", 128, 4, 2, 256, layers=2, fields=LLAMA,
            quantization={**per_layer((4, 128), [(8, 128), (6, 32), (5, 64), (5, 128), (2, 32), (6, 128), (3, 128)]),
                          "model.embed_tokens": affine(8, 64), "lm_head": False}),
    variant("qwen3-mixed-f16", "F16", 128, 4, 2, 128, layers=2, tied=True, theta=1000000.0,
            fields={"attention_bias": False, "head_dim": 32},
            quantization={**per_layer((4, 64), [(2, 64), (3, 32), (5, 32), (6, 64), (4, 32), (8, 128), (5, 128)]),
                          "model.embed_tokens": affine(6, 32), "model.layers.1.mlp.down_proj": False}),
    variant("qwen2-mixed-bf16", "BF16", 128, 4, 2, 128, layers=2, theta=1000000.0, fields=QWEN,
            quantization={**per_layer((3, 128), [(2, 32), (8, 64), (4, 128), (2, 64), (3, 64), (6, 128), (5, 64)]),
                          "lm_head": affine(6, 64)}),
    # The float modes: alone with tied and untied heads, rows of nvfp4 that are no multiple of 32, and mixed.
    variant("llama-mxfp4-f32", "F32", 96, 6, 2, 160, tied=True, fields=LLAMA, quantization=MXFP4),
    variant("qwen2-mxfp8-bf16", "BF16", 96, 6, 2, 160, theta=1000000.0, fields=QWEN, quantization=MXFP8),
    variant("qwen3-nvfp4-f16", "F16", 96, 4, 2, 144, tied=True, theta=1000000.0,
            fields={"attention_bias": False, "head_dim": 20}, quantization=NVFP4),
    variant("llama-floats-bf16", "BF16", 128, 4, 2, 192, layers=2, fields=LLAMA,
            quantization={**MXFP4, "model.embed_tokens": MXFP8, "lm_head": NVFP4,
                          "model.layers.0.self_attn.q_proj": NVFP4, "model.layers.0.self_attn.k_proj": affine(4, 64),
                          "model.layers.0.mlp.up_proj": MXFP8, "model.layers.1.self_attn.v_proj": MXFP8,
                          "model.layers.1.mlp.gate_proj": affine(8, 32), "model.layers.1.mlp.down_proj": False}),
    # Hugging Face's FP8 with scales for tiles of 128 x 128; mlx-lm is given what they are in bfloat16.
    variant("qwen3-fp8-bf16", "BF16", 144, 4, 2, 152, layers=1, theta=1000000.0, fp8=True,
            fields={"attention_bias": False, "head_dim": 36,
                    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                            "weight_block_size": [128, 128]}}),
]
