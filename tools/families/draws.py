"""Random relatives of a row: other sizes, seeds and optional features, for `make family-fuzz`.

Sizes are drawn for the fields that a row's `config` has, within what the families allow (heads that share keys evenly, halves
for rope, groups that divide experts). A row that ties fields to fixed sizes elsewhere (hand-written lists, tensors that it
transforms) keeps its sizes; what else it draws are the values, the vocabulary, windows, constants and what options.py has."""
import copy
import dataclasses

from families import options

EPS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")
WIDTHS = ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size",
          "moe_shared_expert_intermediate_size")


def has_fixed_sizes(row):
    tied = [v for fields in (row.add, row.mlx_config) for v in fields.values()]
    return bool(row.transform or row.hf_extra or row.model_type in ("gpt_neox", "gemma3", "gemma3_text") or
                any(isinstance(v, (int, list, dict)) and not isinstance(v, bool) and v not in (0, 1) for v in tied))


def draw_heads(rng, row, c):
    divisible = c["hidden_size"] % c["num_attention_heads"] == 0
    grouped = c.get("num_key_value_heads", c["num_attention_heads"]) != c["num_attention_heads"]
    kv = rng.choice([1, 1, 2, 3]) if grouped else 1
    heads = kv * rng.randint(1, 4)
    c["num_attention_heads"] = heads
    if "num_key_value_heads" in c:
        c["num_key_value_heads"] = kv if grouped else heads
    if "head_dim" in c and "kv_lora_rank" not in c:
        c["head_dim"] = 8 * rng.randint(1, 4)
        c["hidden_size"] = heads * rng.randint(24 // heads + 1, 128 // heads) if divisible else rng.randint(20, 120)
        if row.model_type in ("helium", "bailing_moe"):
            c["hidden_size"] = heads * c["head_dim"]
    elif "kv_lora_rank" in c:
        c["hidden_size"] = heads * rng.randint(24 // heads + 1, 128 // heads)
    else:
        c["hidden_size"] = heads * 8 * rng.randint(1, max(1, 128 // (8 * heads)))


def draw_mla(rng, c):
    if c.get("q_lora_rank"):
        c["q_lora_rank"] = rng.randint(8, 64)
    c["kv_lora_rank"] = rng.choice([32, 64, rng.randint(8, 72)])
    c["qk_nope_head_dim"] = rng.choice([16, 32, rng.randint(4, 40)])
    c["v_head_dim"] = rng.randint(4, 40)


def draw_experts(rng, row, c, field):
    if c.get("n_group", 1) not in (1, None):
        c["n_group"] = rng.randint(2, 3)
        c["topk_group"] = rng.randint(1, c["n_group"])
        c[field] = c["n_group"] * rng.randint(2, 3)
        c["num_experts_per_tok"] = rng.randint(1, 2 * c["topk_group"])
        return
    c[field] = rng.randint(2, 9)
    if "num_experts_per_tok" in c and row.model_type != "phimoe":  # of two
        least = 2 if row.model_type == "bailing_moe" else 1  # choosing one, mlx-lm's router crashes
        c["num_experts_per_tok"] = rng.randint(least, min(4, c[field]))


def draw_ssm(rng, row, c):
    """Groups of heads of a Mamba 2 mixer, and a hidden size that they are a multiple of, which attention's heads divide."""
    groups, head = rng.randint(1, 3) if c.get("mamba_n_groups", 2) > 1 else 1, 4 * rng.randint(1, 5)
    heads, expand = groups * rng.randint(1, 4), rng.randint(1, 3)
    while heads * head % expand or heads * head // expand < 16:
        heads, expand = heads + groups, rng.randint(1, 3)
    inner = heads * head
    if "mamba_d_ssm" in c:  # beside attention: of a size of its own
        draw_heads(rng, row, c)
        c |= {"mamba_d_ssm": inner, "mamba_n_heads": heads, "mamba_d_head": head, "mamba_n_groups": groups}
        return
    c |= {"mamba_n_heads": heads, "mamba_d_head": head, "mamba_n_groups": groups, "mamba_expand": expand,
          "hidden_size": inner // expand, "num_key_value_heads": rng.choice([1, 2])}
    c["num_attention_heads"] = c["num_key_value_heads"] * rng.randint(1, 3)
    while c["hidden_size"] % (4 * c["num_attention_heads"]):
        c["hidden_size"] += inner // expand
        c["mamba_n_heads"] += heads


def draw_state(rng, c):
    """Sizes of mixers that have fields of their own."""
    if "num_heads" in c and "state_size" in c:  # mamba2
        c |= {"n_groups": rng.randint(1, 3) if c["n_groups"] > 1 else 1, "head_dim": 4 * rng.randint(1, 5),
              "expand": rng.choice([1, 2])}
        c["num_heads"] = c["n_groups"] * 2 * rng.randint(1, 3)
        c["hidden_size"] = c["num_heads"] * c["head_dim"] // c["expand"]
    elif "state_size" in c:
        c |= {"hidden_size": rng.randint(16, 96), "expand": rng.randint(1, 3)}
    if "mamba_num_heads" in c:
        c |= {"n_groups": rng.randint(1, 3), "mamba_head_dim": 4 * rng.randint(1, 5)}
        c["mamba_num_heads"] = c["n_groups"] * rng.randint(1, 4)
    if "linear_num_key_heads" in c:
        c |= {"linear_num_key_heads": rng.randint(1, 3), "linear_key_head_dim": 4 * rng.randint(2, 8),
              "linear_value_head_dim": 4 * rng.randint(2, 8)}
        c["linear_num_value_heads"] = c["linear_num_key_heads"] * rng.randint(1, 3)


def draw_sizes(rng, row, c):
    if "kv_lora_rank" in c:
        draw_mla(rng, c)
    if "mamba_n_heads" in c:
        draw_ssm(rng, row, c)
    elif "num_attention_heads" in c:
        draw_heads(rng, row, c)
    draw_state(rng, c)
    for field in WIDTHS:
        if c.get(field):
            c[field] = rng.choice([32, 64, 96, rng.randint(8, 160)])
    for field in ("num_experts", "num_local_experts", "n_routed_experts"):
        if c.get(field, 1) > 1:
            draw_experts(rng, row, c, field)
    for field in ("state_size", "ssm_state_size", "mamba_d_state"):
        if field in c:
            c[field] = 4 * rng.randint(1, 8)
    patterns = [v for v in c.values() if isinstance(v, list) and len(v) == c.get("num_hidden_layers")]
    if c.get("num_hidden_layers") == 3 and not patterns and not row.extra:
        c["num_hidden_layers"] = rng.randint(2, 5)


def draw(rng, row):
    """A row like this one, with another name, which seeds its values."""
    config = copy.deepcopy(row.config)
    c = config.get("text_config", config)
    c["vocab_size"] = rng.randint(30, 160) if not row.mlx_config.get("vocab_size") else c["vocab_size"]
    if c.get("sliding_window"):
        c["sliding_window"] = rng.randint(2, 20)
    for field in EPS:
        if field in c and field not in options.KEPT.get(row.model_type, ()):
            c[field] = rng.choice([1e-6, 1e-5, 1e-3])
    if not has_fixed_sizes(row):
        draw_sizes(rng, row, c)
    for field, choices in row.options.items():
        c[field] = rng.choice(choices)
    fields = options.class_fields(row.model_type)
    options.draw_options(rng, row, c, fields)
    options.draw_rope(rng, row, c, fields)
    # mlx-lm's longrope is right beyond the original context only.
    least = row.add.get("original_max_position_embeddings", 6) + 1 if row.hf else 7
    dtype = rng.choice(["BF16", "BF16", "F16", "F32"]) if row.dtype == "BF16" else row.dtype
    if "torch_dtype" in c:
        c["torch_dtype"] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
    return dataclasses.replace(row, name=f"{row.name}-{rng.randrange(1 << 32)}", config=config, dtype=dtype,
                               model_type=row.model_type, tokens=rng.randint(least, 60),
                               **options.draw_spelling(rng, row, fields))
