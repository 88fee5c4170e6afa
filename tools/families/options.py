"""Optional features that random models draw beside their sizes: other values of a config class's fields, ropes, spellings.

A field is drawn where transformers' config class of the family has it (or, without a class, where the row has it), and never
where the row says how the hub spells it. Values that a family refuses are no fault: such draws are passed over."""
import transformers

BOTH = [False, True]
ACTS = ["silu", "silu", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "relu2", "sigmoid", "tanh"]
FACTORS = [0.25, 0.5, 1.0, 2.0, 4.0]  # exact in every type of weights that takes them up

# Field -> what it may be, or a function of the generator and the config.
FIELDS = {
    # attention
    "attention_bias": BOTH, "qkv_bias": BOTH, "use_qkv_bias": BOTH, "attention_out_bias": BOTH, "use_bias": BOTH,
    "use_qk_norm": BOTH, "qk_layernorm": BOTH, "clip_qkv": [None, 0.5, 1.25], "attn_logit_softcapping": [None, 2.0, 4.5],
    "query_pre_attn_scalar": [8, 24, 33], "attention_multiplier": [0.125, 0.3], "multi_query": BOTH,
    "scale_attn_weights": BOTH, "scale_attn_by_inverse_layer_idx": BOTH, "rope_interleave": BOTH,
    # which layers see a window, or have a rope
    "sliding_window": [None, 3, 9, 17], "use_sliding_window": BOTH, "max_window_layers": [0, 1, 2, 9],
    "no_rope_layer_interval": [1, 2, 3], "global_attn_every_n_layers": [1, 2, 3],
    "no_rope_layers": lambda rng, c: rng.choice([None, rng.choices([0, 1], k=c["num_hidden_layers"])]),
    # feed-forward blocks, wiring
    "mlp_bias": BOTH, "hidden_act": ACTS, "hidden_activation": ACTS, "activation_function": ACTS, "use_parallel_residual": BOTH,
    "n_inner": [None, 100, 160], "swiglu_limit": [1.0, 7.0], "mup_enabled": BOTH,
    # ends and factors
    "tie_word_embeddings": BOTH, "lm_head_bias": BOTH, "final_logit_softcapping": [None, 2.0, 4.5],
    "logit_scale": FACTORS, "embedding_multiplier": FACTORS, "residual_multiplier": FACTORS, "logits_scaling": FACTORS,
    "scale_emb": FACTORS, "scale_depth": FACTORS, "dim_model_base": [16, 32, 100],
    # experts
    "norm_topk_prob": BOTH, "routed_scaling_factor": [1.0, 1.5, 2.5], "route_scale": [1.0, 1.5],
    "n_shared_experts": [1, 2], "num_shared_experts": [1, 2], "moe_num_shared_experts": [1, 2],
    "first_k_dense_replace": [0, 1, 2], "num_dense_layers": [0, 1, 2], "decoder_sparse_step": [1, 2, 3],
    "mlp_only_layers": [None, [], [0], [1]], "moe_layer_start_index": [0, 1], "moe_layer_end_index": [-1, 1, 2],
    "moe_layer_interval": [1, 2], "moe_norm_min": [1e-12, 0.6], "topk_method": ["greedy", "group_limited_greedy"],
    "use_expert_bias": BOTH, "moe_latent_size": [None, 24, 40],
    "mlp_layer_types": lambda rng, c: rng.choices(["dense", "sparse", "sparse"], k=c["num_hidden_layers"]),
    "expert_layer_period": [1, 2, 3], "expert_layer_offset": [0, 1],
    "attn_layer_period": [1, 2, 3], "attn_layer_offset": [0, 1],
    # latent attention
    "q_lora_rank": [None, 24, 48],
    # states
    "use_conv_bias": BOTH, "mamba_conv_bias": BOTH, "mamba_proj_bias": BOTH, "conv_bias": BOTH, "conv_kernel": [2, 3, 4],
    "mamba_d_conv": [2, 3, 4], "linear_conv_kernel_dim": [2, 3, 4], "mamba_rms_norm": BOTH, "mamba_norm_before_gate": BOTH,
    "time_step_limit": [[0.0, float("inf")], [0.25, 1.5], [0.0, 0.75]], "time_step_rank": ["auto", 5, 8],
    "mamba_dt_rank": ["auto", 5, 8], "position_embedding_type": ["rope", "nope"], "mixer_rms_eps": [1e-6, 1e-3],
    "key_multiplier": FACTORS, "attention_in_multiplier": FACTORS, "attention_out_multiplier": FACTORS,
    "ssm_in_multiplier": FACTORS, "ssm_out_multiplier": FACTORS, "lm_head_multiplier": FACTORS,
    "chunk_size": [4, 8, 16], "mamba_chunk_size": [4, 8, 16], "mlp_hidden_act": ACTS + ["relu2"] * 6,
}
# Fields that stand for another family's shape or that a row must keep, or where the references part on what no checkpoint has.
KEPT = {
    "gemma": {"hidden_act"}, "gpt_oss": {"hidden_act"},
    "nemotron_h": {"sliding_window", "attention_bias", "time_step_limit"},
    "gemma3": {"final_logit_softcapping"},  # transformers caps in the text model, not in the whole one; mlx-lm in neither
    "kimi_linear": {"q_lora_rank", "tie_word_embeddings"},  # a head beside tied embeddings: dropped by mlx-lm alone
    "youtu_llm": {"rms_norm_eps"},  # docs/decisions/0009
}
SILU = ("mamba", "falcon_mamba", "mamba2", "bamba", "falcon_h1", "granitemoehybrid", "jamba", "qwen3_next",
        "qwen3_5", "qwen3_5_moe", "kimi_linear")  # as the mixer's activation
WINDOWED = ("gemma", "gpt_oss", "cohere2", "olmo3", "exaone", "dots1", "afmoe")  # which transformers needs there
PARTIAL = ("phi", "glm", "glm4", "stablelm", "nemotron", "glm4_moe", "phi3")
MLX_FIELDS = {"attention_bias", "mlp_bias", "n_shared_experts", "first_k_dense_replace", "scale_emb", "scale_depth",
              "dim_model_base"}  # that mlx-lm reads, where nobody else has the family
NAMES = {"model_type", "architectures"}
LAYER_KINDS = [{"full_attention", "sliding_attention"}, {"conv", "full_attention"}, {"linear_attention", "full_attention"},
               {"linear_attention", "full_attention", "mlp", "moe"}]


def class_fields(model_type):
    """The fields of transformers' config class and what they are when absent; {} without a class."""
    if model_type not in transformers.CONFIG_MAPPING:
        return {}
    config = transformers.CONFIG_MAPPING[model_type]().get_text_config()
    return {"rope_theta": getattr(config, "default_theta", None)} | config.to_dict()


def draw_layers(rng, c):
    """Another order of the kinds of layers that the row has."""
    for field in ("layer_types", "layers_block_type"):
        kinds = c.get(field)
        if kinds and any(set(kinds) <= known for known in LAYER_KINDS):
            known = next(sorted(known) for known in LAYER_KINDS if set(kinds) <= known)
            first = rng.sample(known, 2)
            c[field] = [*first, *(rng.choice(known) for _ in kinds[2:])]  # of both; without states nothing tells a layout


def draw_options(rng, row, c, fields):
    tied = {*row.add, *row.drop, *row.mlx_config, *row.options, *KEPT.get(row.model_type, ())}
    tied |= {"hidden_act"} if row.model_type in SILU else set()
    tied |= {"sliding_window"} if row.model_type.startswith(WINDOWED) else set()
    tied |= {"tie_word_embeddings"} if "text_config" in row.config else set()  # said twice
    known = c.keys() & MLX_FIELDS if row.source == "mlx" or row.hf else fields or c
    for field, choices in FIELDS.items():
        if field in tied or field not in known or rng.random() < 0.6:
            continue
        c[field] = choices(rng, c) if callable(choices) else rng.choice(choices)
    if not row.extra and not tied & {"layer_types", "layers_block_type", "full_attn_idxs", "sliding_window_pattern",
                                     "linear_attn_config"}:
        draw_layers(rng, c)


def head_features(c):
    return c.get("qk_rope_head_dim") or c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def scaling(rng, kind, pairs):
    original = rng.choice([8, 16, 32, 64])
    if kind == "linear":
        return {"factor": rng.choice([1.0, 2.0, 2.5])}
    if kind == "dynamic":
        return {"factor": rng.choice([1.0, 2.0, 4.0])}
    if kind == "llama3":
        low = rng.choice([0.5, 1.0, 2.0])
        return {"factor": rng.choice([2.0, 8.0]), "low_freq_factor": low, "high_freq_factor": low * rng.choice([2, 4]),
                "original_max_position_embeddings": original}
    if kind == "yarn":
        rest = {"beta_fast": rng.choice([16.0, 32.0, 64.0]), "beta_slow": rng.choice([0.5, 1.0, 2.0]),
                "truncate": rng.choice(BOTH), "attention_factor": rng.choice([0.75, 1.0, 1.5]),
                "mscale": rng.choice([0.7, 1.0]), "mscale_all_dim": rng.choice([0.9, 1.0])}
        rest = {k: v for k, v in rest.items() if rng.random() < 0.4}
        return {"factor": rng.choice([1.0, 2.0, 4.0, 8.5]), "original_max_position_embeddings": original} | rest
    if kind == "longrope":
        rest = {"attention_factor": 1.25, "factor": rng.choice([2.0, 4.0])}
        return {"short_factor": [rng.randint(8, 24) / 8 for _ in range(pairs)],
                "long_factor": [rng.randint(16, 64) / 8 for _ in range(pairs)],
                "original_max_position_embeddings": original} | {k: v for k, v in rest.items() if rng.random() < 0.4}
    return {}


def draw_rope(rng, row, c, fields):
    """Another rope, where the family has one of the usual kinds for all layers."""
    old = c.get("rope_parameters")
    if old and "short_factor" in old:
        pairs = int(head_features(c) * old.get("partial_rotary_factor", 1)) // 2
        c["rope_parameters"] = old | {k: v for k, v in scaling(rng, "longrope", pairs).items() if k.endswith("_factor")}
        return
    nested = any(rope and "rope_type" not in rope for rope in (old, fields.get("rope_parameters")))
    if "rope_parameters" not in fields or nested or row.keep or rng.random() < 0.4:
        return
    if row.model_type == "phimoe":  # its class wants longrope's two mscales whatever the kind (the row phimoe-long has it)
        return
    if {"rope_theta", "partial_rotary_factor", "rotary_dim"} & {*row.add, *row.drop} or row.options.get("rope_parameters"):
        return
    dims = head_features(c)
    new = {"rope_theta": rng.choice([100.0, 10000.0, 500000.0])}
    if row.model_type in PARTIAL:
        partial = rng.choice([p for p in (0.25, 0.5, 0.75, 1.0) if dims * p % 2 == 0])
        c.pop("partial_rotary_factor", None)
        new["partial_rotary_factor"] = partial
        dims = int(dims * partial)
    kind = rng.choice(["default", "linear", "dynamic", "llama3", "yarn", "yarn", "longrope"])
    if old and "llama_4_scaling_beta" in old:
        kind = "yarn"  # has the original length, which scales queries
    if kind == "dynamic" and dims <= 2:
        return
    new |= {k: v for k, v in (old or {}).items() if k == "llama_4_scaling_beta"}
    c["rope_parameters"] = {"rope_type": kind} | scaling(rng, kind, dims // 2) | new
    if kind == "dynamic" and "max_position_embeddings" in c:
        c["max_position_embeddings"] = rng.choice([16, 512])


def draw_spelling(rng, row, fields):
    """How config.json says it: the style of the files, the word for the kind of rope, fields left to their defaults."""
    lean = [f for f in sorted(fields.keys() - NAMES) if rng.random() < 0.5] if rng.random() < 0.5 else []
    changed = {"lean": frozenset(lean), "rope_word": rng.choice(["type", "rope_type", "both"])}
    if not (row.add or row.drop or row.keep or row.mlx_config):
        changed["style"] = rng.choice(["hub", "t5"])
    return changed
