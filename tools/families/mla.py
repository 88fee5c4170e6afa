"""Families with multi-head latent attention, most of them with mixtures of experts."""
import re

from families.moe import COMMON, EVEN, STACKED, mtp
from families.row import SIZES, Row

MLA = {k: v for k, v in SIZES.items() if k != "head_dim"} | dict(
    num_key_value_heads=6, q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=8, v_head_dim=16)
WIDE = dict(MLA, hidden_size=96)
ROUTED = dict(n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=64,
              norm_topk_prob=True, routed_scaling_factor=1.5)
DENSE1 = dict(first_k_dense_replace=1)
SPARSE = dict(mlp_layer_types=["dense", "sparse", "sparse"])
INDEXER = dict(index_topk=8, index_head_dim=16, index_n_heads=16)
CORRECTION = {"e_score_correction_bias$": "F32"}
NOAUX = {"topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1, "first_k_dense_replace": 1}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 32,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 0.9}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.25, 1.5, 2.0],
        "long_factor": [1.5, 2.0, 3.0, 4.0], "original_max_position_embeddings": 16}
LONGCAT = dict(num_layers=2, hidden_size=64, ffn_hidden_size=96, expert_ffn_hidden_size=64, moe_topk=3,
               n_routed_experts=5, zero_expert_num=3, num_attention_heads=6, q_lora_rank=48, kv_lora_rank=32,
               qk_nope_head_dim=32, qk_rope_head_dim=8, v_head_dim=16, vocab_size=67, max_position_embeddings=512,
               routed_scaling_factor=1.5)
LONGCAT_HUB = {"attention_method": "MLA", "zero_expert_type": "identity", "mla_scale_q_lora": True,
               "mla_scale_kv_lora": True, "norm_topk_prob": False, "router_bias": False}
KIMI = dict({k: v for k, v in MLA.items() if k != "max_position_embeddings"}, num_hidden_layers=4, q_lora_rank=None,
            num_experts=6, num_experts_per_token=2, num_shared_experts=1, moe_intermediate_size=64, linear_head_dim=16,
            linear_num_heads=6, model_max_length=512, mlp_layer_types=["dense"] + ["sparse"] * 3,
            layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])
KIMI_HUB = {"linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2, 4], "head_dim": 16, "num_heads": 6,
                                   "short_conv_kernel_size": 4},
            "head_dim": 16, "rope_theta": 10000.0, "mla_use_nope": True, "moe_layer_freq": 1, "first_k_dense_replace": 1,
            "moe_router_activation_func": "sigmoid", "use_grouped_topk": True}
DENSE_MLP = [(r"block_sparse_moe\.(gate|up|down)_proj", r"mlp.\1_proj")]  # transformers saves it under the experts' name


def whole_kv_b(name, shape):
    """The projection that mlx-lm splits in two."""
    heads, nope, value = 6, MLA["qk_nope_head_dim"], MLA["v_head_dim"]
    if name.endswith("embed_q.weight"):
        return [(name.replace("embed_q", "kv_b_proj"), [heads * (nope + value), MLA["kv_lora_rank"]])]
    return [] if "unembed_out" in name else [(name, shape)]


def no_zero_experts(name, shape):
    """transformers saves weights for them too, which the hub does not have."""
    return [] if re.search(r"experts\.[567]\.", name) else [(name, shape)]


ZERO_EXPERTS = {f"model.layers.{i}.mlp.experts.{e}.{p}_proj.weight": [64, 64]
                for i in range(2) for e in (5, 6, 7) for p in ("gate", "up")}

ROWS = [
    Row("deepseek_v2", dict(WIDE, **ROUTED, **DENSE1, topk_method="group_limited_greedy", n_group=3, topk_group=2,
                            rope_parameters=YARN)),
    Row("deepseek_v2-lite", dict(WIDE | {"q_lora_rank": None}, **ROUTED, **DENSE1, rope_parameters=YARN)),
    Row("deepseek_v3", dict(MLA, **ROUTED, **DENSE1, n_group=3, topk_group=2, rope_parameters=YARN), add=NOAUX,
        dtypes=CORRECTION),
    Row("deepseek_v32", dict(MLA, **ROUTED, **SPARSE, **INDEXER, n_group=3, topk_group=2), add=NOAUX,
        drop=("mlp_layer_types",), dtypes=CORRECTION, extra=mtp(3), kinds=EVEN),
    Row("glm_moe_dsa", dict(MLA, **ROUTED, **SPARSE, **INDEXER), add=NOAUX, keep=("rope_parameters",), dtypes=CORRECTION,
        kinds=[(r"correction_bias$", "uniform -4"), *EVEN]),
    Row("glm4_moe_lite", dict(MLA, **ROUTED, **SPARSE), add=NOAUX, drop=("mlp_layer_types",), dtypes=CORRECTION,
        extra=mtp(3)),
    Row("kimi_k25", dict(text_config=dict(MLA, **ROUTED, **DENSE1, n_group=1, topk_group=1, model_type="deepseek_v3"),
                         vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                            num_attention_heads=1, patch_size=14), tie_word_embeddings=False), dtypes=CORRECTION,
        rename=[(r"language_model\.model\.blocks", "language_model.model.layers"), (r"^model\.mm_", "mm_")]),
    Row("kimi_k2", dict(WIDE, **ROUTED, **DENSE1, **COMMON, model_type="kimi_k2", n_group=1, topk_group=1,
                        topk_method="noaux_tc", scoring_func="sigmoid", moe_layer_freq=1, tie_word_embeddings=False,
                        attention_bias=False), dtypes=CORRECTION,
        source="mlx", hf="lacks this name", split=STACKED, transform=whole_kv_b),
    Row("kimi_linear", dict(KIMI), add=KIMI_HUB, rename=DENSE_MLP, dtypes=CORRECTION,
        drop=("mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim")),
    Row("kimi_linear-t5", dict(KIMI), mlx_config=KIMI_HUB, rename=DENSE_MLP, dtypes=CORRECTION, style="t5"),
    # transformers zeroes the embedding of a padding token.
    Row("youtu", dict(MLA, tie_word_embeddings=True, pad_token_id=None), layout="lacks this name (its youtu_llm is the same)"),
    Row("youtu_llm", dict(MLA, **COMMON, model_type="youtu_llm", rope_interleave=True, tie_word_embeddings=True),
        source="mlx", hf="lacks this name"),
    Row("longcat_flash", dict(LONGCAT, head_dim=8), add=LONGCAT_HUB, transform=no_zero_experts,
        hf_extra=ZERO_EXPERTS, quiet=r"gate_up_proj\[[567]\]"),
    Row("longcat_flash_ngram", dict(LONGCAT, **COMMON, **LONGCAT_HUB, model_type="longcat_flash_ngram",
                                    ngram_vocab_size_ratio=2, emb_neighbor_num=3, emb_split_num=2,
                                    tie_word_embeddings=False),
        source="mlx", hf="lacks this family", split=STACKED, transform=whole_kv_b,
        rename=[(r"ngram_embeddings\.word_embeddings", "embed_tokens")]),
    Row("minicpm3", dict(WIDE, scale_emb=3, scale_depth=1.4, dim_model_base=32, rope_parameters=LONG,
                         tie_word_embeddings=False)),
    Row("minicpm3-tied", dict(WIDE, scale_emb=3, scale_depth=1.4, dim_model_base=32, rope_parameters=LONG,
                              tie_word_embeddings=True), mlx="does not divide the hidden state before a tied head"),
]
