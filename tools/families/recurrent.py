"""Families with state: Mamba 1 and 2, gated delta nets, short convolutions, alone and beside attention."""
from families.dense import wrapped
from families.moe import EVEN
from families.row import SIZES, WIDE, Row

MAMBA = dict(hidden_size=64, state_size=16, num_hidden_layers=3, expand=2, conv_kernel=4, time_step_rank=8, vocab_size=67,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)
MAMBA2 = dict(hidden_size=96, state_size=16, num_hidden_layers=3, expand=2, conv_kernel=4, num_heads=12, head_dim=16,
              vocab_size=67, chunk_size=8, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SSM = dict(mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_n_heads=12, mamba_d_head=16, mamba_chunk_size=8)
DELTA = dict(SIZES, num_hidden_layers=4, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=24,
             linear_num_key_heads=2, linear_num_value_heads=6)
MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64)
DELTA_KINDS = [(r"linear_attn\.norm\.weight$", "norm"), (r"norm\.weight$", "norm0")]
GRANITE = dict(embedding_multiplier=3.0, logits_scaling=4.0, residual_multiplier=0.5, attention_multiplier=0.2)
HYBRID = ["linear_attention", "full_attention", "linear_attention", "linear_attention"]
INNER = {"intermediate_size": lambda c: c["expand"] * c["hidden_size"]}
MAMBA_LAYERS = {"layer_types": ["mamba", "attention", "mamba", "mamba"]}


def fused_experts(name, shape):
    """As the hub has them; transformers saves them one by one."""
    head, split, tail = name.partition("experts.")
    if not split or "shared" in head[-7:]:
        return [(name, shape)]
    if not tail.startswith("0.") or "up_proj" in tail:
        return []
    if "gate_proj" in tail:
        return [(head + "experts.gate_up_proj", [6, 2 * shape[0], shape[1]])]
    return [(head + "experts.down_proj", [6, *shape])]


ROWS = [
    Row("mamba", dict(MAMBA)),
    Row("falcon_mamba", dict(MAMBA, tie_word_embeddings=False, use_bias=True)),
    Row("mamba2", dict(MAMBA2, n_groups=1), add=INNER),
    Row("mamba2-groups", dict(MAMBA2, n_groups=3, time_step_limit=[0.25, 1.5], tie_word_embeddings=True),
        add=INNER, mlx="norms all groups together"),
    Row("mamba2-t5", dict(MAMBA2, n_groups=1, use_bias=True), style="t5", mlx_config=INNER),
    Row("jamba", dict(WIDE, num_hidden_layers=4, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                      expert_layer_offset=0, num_experts=6, num_experts_per_tok=2, mamba_dt_rank=8, mamba_d_state=16,
                      use_mamba_kernels=False), mlx="normalises the chosen experts' weights"),
    Row("jamba-dense", dict(WIDE, num_hidden_layers=3, attn_layer_period=3, attn_layer_offset=1, num_experts=1,
                            num_experts_per_tok=1, mamba_dt_rank=8, mamba_d_state=16, use_mamba_kernels=False)),
    Row("bamba", dict(WIDE, **SSM, mamba_n_groups=3, attn_layer_indices=[1]), layout="lacks this family"),
    # Powers of two: the MLX layout has the factors in its bfloat16 weights.
    Row("falcon_h1", dict(WIDE, **SSM, mamba_d_ssm=192, mamba_n_groups=3, mamba_rms_norm=True, head_dim=16,
                          key_multiplier=0.5, attention_in_multiplier=2.0, attention_out_multiplier=0.5,
                          ssm_multipliers=[0.5, 0.25, 2.0, 4.0, 0.125], ssm_in_multiplier=2.0, ssm_out_multiplier=0.5,
                          mlp_multipliers=[2.0, 0.5], embedding_multiplier=2.0, lm_head_multiplier=0.5),
        mlx="norms all groups together, and has no key_multiplier"),
    Row("falcon_h1-plain", dict(WIDE, **SSM, mamba_d_ssm=192, mamba_n_groups=1, head_dim=16)),
    Row("nemotron_h", dict(SIZES, layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"],
                           ssm_state_size=16, mamba_num_heads=8, mamba_head_dim=16, n_groups=2, chunk_size=8),
        add={"hybrid_override_pattern": "M-*-", "num_hidden_layers": 4}, drop=("layers_block_type",)),
    Row("nemotron_h-moe", dict(SIZES, layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
                               ssm_state_size=16, mamba_num_heads=8, mamba_head_dim=16, n_groups=2, chunk_size=8,
                               n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=64,
                               moe_shared_expert_intermediate_size=96, routed_scaling_factor=1.5), style="t5"),
    Row("granitemoehybrid", dict(WIDE, **SSM, **GRANITE, num_hidden_layers=4, mamba_n_groups=1, num_local_experts=6,
                                 num_experts_per_tok=2, shared_intermediate_size=64, layer_types=HYBRID,
                                 position_embedding_type="nope"),
        add=MAMBA_LAYERS),
    Row("granitemoehybrid-dense", dict(WIDE, **SSM, **GRANITE, num_hidden_layers=4, mamba_n_groups=1, num_local_experts=0,
                                       num_experts_per_tok=0, shared_intermediate_size=96, layer_types=HYBRID,
                                       position_embedding_type="rope"), add=MAMBA_LAYERS),
    Row("lfm2", dict(WIDE | {"intermediate_size": 144}, num_hidden_layers=4, block_multiple_of=32, conv_bias=True,
                     layer_types=["conv", "full_attention", "conv", "full_attention"]),
        add={"block_dim": 96, "block_ff_dim": 144, "full_attn_idxs": [1, 3]}, drop=("intermediate_size",)),
    Row("qwen3_next", dict(DELTA, **MOE), kinds=DELTA_KINDS + EVEN, add={"full_attention_interval": 4}),
    Row("qwen3_5", wrapped(dict(DELTA)), kinds=DELTA_KINDS, style="t5", dtypes={"A_log$": "F32"}),
    Row("qwen3_5_moe", wrapped(dict(DELTA, **MOE)), kinds=DELTA_KINDS, style="t5", dtypes={"A_log$": "F32"},
        transform=fused_experts),
    Row("qwen3_5_moe-split", wrapped(dict(DELTA, **MOE)), kinds=DELTA_KINDS, style="t5", dtypes={"A_log$": "F32"},
        layout="reads these experts only stacked"),
]
