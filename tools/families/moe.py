"""Families with mixtures of experts over ordinary attention."""
from families.row import BOTH, SIZES, WIDE, Row

SIX = dict(num_experts=6, num_experts_per_tok=2)
LOCAL = dict(num_local_experts=6, num_experts_per_tok=2)
ROUTED = dict(n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=64,
              first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5)
STACKED = [(r"switch_mlp\.(\w+)\.weight$", r"experts.{e}.\1.weight")]
EVEN = [(r"\bgate\.weight$", "weight 0")]  # a router that gives every expert some token
COMMON = dict(torch_dtype="bfloat16", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, rope_scaling=None)


def mtp(layer):
    """Some tensors of a layer that predicts further tokens, behind the last one."""
    at = f"model.layers.{layer}."
    return {at + "eh_proj.weight": ("BF16", [64, 128]), at + "enorm.weight": ("BF16", [64]),
            at + "self_attn.q_proj.weight": ("BF16", [96, 64]), at + "mlp.experts.0.up_proj.weight": ("BF16", [64, 64])}


def mxfp4_experts(name, shape):
    """What the hub has for the dense [experts, in, out] that transformers writes."""
    if not name.endswith(("gate_up_proj", "down_proj")):
        return [(name, shape)]
    experts, inputs, outputs = shape
    return [(name + "_blocks", [experts, outputs, inputs // 32, 16]), (name + "_scales", [experts, outputs, inputs // 32])]


ROWS = [
    Row("mixtral", dict(WIDE, **LOCAL)),
    Row("qwen2_moe", dict(WIDE, **SIX, moe_intermediate_size=64, shared_expert_intermediate_size=160)),
    Row("qwen2_moe-window", dict(WIDE, **SIX, num_hidden_layers=4, moe_intermediate_size=64, use_sliding_window=True,
                                 shared_expert_intermediate_size=160, sliding_window=8, qkv_bias=False), mlx="has no sliding window", layout="always has biases"),
    Row("qwen3_moe", dict(SIZES, **LOCAL, moe_intermediate_size=64, norm_topk_prob=True, mlp_only_layers=[1]),
        add={"num_experts": lambda c: c["num_local_experts"]}, drop=("num_local_experts",)),
    Row("qwen3_moe-t5", dict(SIZES, **LOCAL, moe_intermediate_size=64, decoder_sparse_step=2, rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}), style="t5",
        mlx="ignores the rope scaling", mlx_config={"num_experts": lambda c: c["num_local_experts"]}),
    Row("gpt_oss", dict(SIZES, **LOCAL, num_hidden_layers=4, sliding_window=8, rope_parameters={
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": False, "original_max_position_embeddings": 16}), keep=("layer_types",),
        layout="does not load these experts unless they are in MXFP4"),
    Row("gpt_oss-mxfp4", dict(SIZES, **LOCAL, num_hidden_layers=2, sliding_window=8, rope_parameters={
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": True, "original_max_position_embeddings": 16}), keep=("layer_types",), transform=mxfp4_experts,
        add={"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}},
        dtypes={r"_(blocks|scales)$": "U8"}, kinds=[(r"_blocks$", "int 0 256"), (r"_scales$", "int 122 126"),
                                              (r"sinks$", "positive 2")]),
    Row("granitemoe", dict(WIDE, **LOCAL, embedding_multiplier=3.0, logits_scaling=4.0, residual_multiplier=0.5,
                           attention_multiplier=0.2)),
    Row("olmoe", dict(WIDE, **SIX)),
    Row("olmoe-clip", dict(WIDE, **SIX, num_hidden_layers=2, clip_qkv=0.5), kinds=EVEN, mlx="does not clip"),
    Row("glm4_moe", dict(SIZES, **ROUTED, use_qk_norm=True, attention_bias=True, n_group=3, topk_group=2),
        extra=mtp(3)),
    Row("minimax_m2", dict(SIZES, **LOCAL), add={"rotary_dim": 8, "use_qk_norm": True, "shared_intermediate_size": 0}, kinds=EVEN),
    Row("ernie4_5_moe", dict(WIDE, moe_intermediate_size=64, moe_k=2, moe_num_experts=6, moe_num_shared_experts=2,
                             moe_layer_start_index=1, moe_layer_end_index=2), layout="drops the correction of the selection"),
    Row("phimoe", dict(WIDE, **LOCAL, attention_bias=True, lm_head_bias=True),
        kinds=[(r"layernorm\.bias$", "uniform -4"), *EVEN]),
    Row("phimoe-long", dict(WIDE, **LOCAL, num_hidden_layers=2, attention_bias=True, lm_head_bias=True, rope_parameters={
        "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0],
        "long_factor": [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 6.0], "short_mscale": 1.25, "long_mscale": 1.5,
        "original_max_position_embeddings": 16}), kinds=[(r"layernorm\.bias$", "uniform -4"), *EVEN],
        hf="never takes long_factor", add={"original_max_position_embeddings": 16}),
    Row("dots1", dict(BOTH, **ROUTED)),
    Row("lfm2_moe", dict(WIDE, num_experts=5, num_experts_per_tok=2, num_hidden_layers=4, moe_intermediate_size=64, num_dense_layers=1,
                         layer_types=["conv", "full_attention", "conv", "full_attention"]), keep=("layer_types",)),
    Row("afmoe", dict(BOTH, **SIX, num_hidden_layers=4, moe_intermediate_size=64, num_shared_experts=2, route_scale=1.5,
                      sliding_window=8, mup_enabled=True), keep=("layer_types",)),
    Row("exaone_moe", dict(BOTH, **SIX, num_hidden_layers=4, sliding_window=8, moe_intermediate_size=64,
                           num_shared_experts=1), keep=("layer_types",),
        add={"is_moe_layer": [False, True, True, True]}),
    Row("solar_open", dict(SIZES, **ROUTED | {"first_k_dense_replace": 0}), add={"partial_rotary_factor": 1.0}),
    Row("mimo", dict(WIDE, **COMMON, model_type="mimo", num_nextn_predict_layers=1, tie_word_embeddings=False),
        source="mlx", hf="lacks this family"),
    Row("bailing_moe", dict(SIZES, **COMMON, **SIX, model_type="bailing_moe", moe_intermediate_size=64,
                            num_shared_experts=1, norm_topk_prob=True, first_k_dense_replace=1, use_bias=False,
                            use_qkv_bias=True, tie_word_embeddings=False, norm_head=False, norm_softmax=False,
                            attention_bias=False, max_window_layers=3), source="mlx", hf="lacks this family", split=STACKED),
    Row("deepseek", dict(WIDE, **COMMON, model_type="deepseek", moe_intermediate_size=64, n_shared_experts=2,
                         n_routed_experts=6, num_experts_per_tok=2, moe_layer_freq=1, first_k_dense_replace=1,
                         norm_topk_prob=False, tie_word_embeddings=False, attention_bias=False),
        source="mlx", hf="lacks this family", split=STACKED),
]
