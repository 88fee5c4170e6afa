"""Contradictory config.json files of models with experts."""
from cases import LOGITS, Case
from tiny import Model

QWEN = {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 8}
GLM = {"model_type": "glm4_moe", "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
       "first_k_dense_replace": 0}


def fields():
    """(name, changes, words)"""
    for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "decoder_sparse_step"):
        yield f"{key}_zero", QWEN | {key: 0}, key
        yield f"{key}_negative", QWEN | {key: -1}, key
        yield f"{key}_text", QWEN | {key: "many"}, key
        yield f"{key}_huge", QWEN | {key: 1 << 40}, key
    yield "more_per_token", QWEN | {"num_experts_per_tok": 5}, "num_experts_per_tok is 5"
    yield "dense_layer_beyond", QWEN | {"mlp_only_layers": [9]}, "mlp_only_layers"
    yield "dense_layer_text", QWEN | {"mlp_only_layers": ["first"]}, "mlp_only_layers"
    yield "vanished", QWEN, "switch_mlp"
    yield "groups_uneven", GLM | {"n_group": 4, "topk_group": 2}, "n_group is 4"
    yield "groups_above", GLM | {"n_group": 3, "topk_group": 4}, "topk_group is 4"
    yield "groups_too_few", GLM | {"n_group": 6, "topk_group": 1}, "topk_group is 1"
    yield "groups_zero", GLM | {"n_group": 0}, "n_group"
    yield "groups_huge", GLM | {"n_group": 1 << 20}, "n_group"
    yield "shared_huge", GLM | {"n_shared_experts": 1 << 19, "moe_intermediate_size": 1 << 20}, "n_shared_experts"
    yield "scale_zero", GLM | {"routed_scaling_factor": 0}, "routed_scaling_factor"
    yield "first_negative", GLM | {"first_k_dense_replace": -1}, "first_k_dense_replace"
    yield "needed", {"model_type": "dots1"}, "n_routed_experts"
    yield "scores", {"model_type": "minimax_m2", "num_local_experts": 4, "num_experts_per_tok": 2,
                     "scoring_func": "tanh"}, "tanh"
    yield "kinds_length", {"model_type": "exaone_moe", "mlp_layer_types": ["sparse"]}, "mlp_layer_types"
    yield "kinds_unknown", {"model_type": "exaone_moe", "mlp_layer_types": ["sparse", "warped"]}, "warped"
    yield "three_mixed", {"model_type": "phimoe", "num_local_experts": 4, "num_experts_per_tok": 3}, "num_experts_per_tok is 3"


def cases():
    for name, changes, words in fields():
        m = Model()
        m.config |= changes
        yield Case("experts_" + name, m.build(), LOGITS, (words,))
