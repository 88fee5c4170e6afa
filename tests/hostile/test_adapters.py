"""Adapters that must be refused, case by case, each by its words. test_adapters_right.py has what lies beside them.

Each row of a table is one adapter: a valid one with one thing changed. A refusal is exit 1, one error line that names the
fault and nothing else, and no output file.
"""
import math
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from adapters import (ALL, CONFIG, DOWN, EMBED, FILE, K, NORM, PDOWN, PFILE, PQ, Q, TAKES_DOWN, TAKES_Q, Adapter, both,
                      config, cut, dora,
                      drop, logits, lora, no_config, pair, put, raw, refusal, spoil, whole_config, write_models)
from tiny import VOCAB, WIDTH, safetensors


@pytest.fixture(scope="module", name="models")
def make_models(tmp_path_factory):
    return write_models(tmp_path_factory)


# --- mlx-lm -----------------------------------------------------------------------------------------------------------

# What is changed, the words of the error, and how many faults it has unless it is one.
MLX = {
    # widths and rows
    "half the width": (pair(Q, 16), [f"{TAKES_Q}; lora_a is [16, 4]"]),
    "packed width": (pair(DOWN, 8), [f"{TAKES_DOWN}; lora_a is [8, 4]"]),
    "as many inputs as groups": (pair(DOWN, 2), [f"{TAKES_DOWN}; lora_a is [2, 4]"]),
    "outputs as inputs": (pair(DOWN, 32, 64), [f"{TAKES_DOWN}; lora_a is [32, 4] and lora_b [4, 64]"]),
    "rows of another layer": (pair(K, 32, 32), [f"{K} takes 32 input features and produces 16; lora_b is [4, 32]"]),
    "one row short": (pair(Q, 32, 31), [f"{TAKES_Q}; lora_b is [4, 31]"]),
    "transposed": (both(pair(DOWN, rank=64, n_in=4), lora(rank=64), drop(Q + ".lora_a", Q + ".lora_b")),
                   [f"{TAKES_DOWN}; lora_a is [4, 64]"]),
    "three dimensions for a plain layer": (both(put(Q + ".lora_a", 2, 4, 32), put(Q + ".lora_b", 2, 32, 4)), [TAKES_Q]),
    "one expert for a plain layer": (both(put(Q + ".lora_a", 1, 4, 32), put(Q + ".lora_b", 1, 31, 4)), [TAKES_Q]),
    "embedding of other rows": (both(put(EMBED + ".lora_a", 261, 4), put(EMBED + ".lora_b", 4, 32)),
                                [f"{EMBED} holds 262 rows of 32 features; lora_a is [261, 4]"]),
    "embedding of another width": (both(put(EMBED + ".lora_a", 262, 4), put(EMBED + ".lora_b", 4, 16)),
                                   [f"{EMBED} holds 262 rows of 32 features; lora_b is [4, 16]"]),
    "a tied head of other rows": (pair("lm_head", 32, 261), ["lm_head takes 32 input features and produces 262"]),
    # halves
    "no b": (drop(Q + ".lora_b"), [f"{FILE}: {Q}.lora_a stands alone, there is no {Q}.lora_b"]),
    "no a": (drop(Q + ".lora_a"), [f"{FILE}: {Q}.lora_b stands alone, there is no {Q}.lora_a"]),
    "different ranks": (pair(Q, rank_b=8), [f"{Q}.lora_a is [32, 4] and {Q}.lora_b [8, 32]", "no rank in common"]),
    "one dimension": (put(Q + ".lora_a", 32), [f"{Q}.lora_a is [32], 2 dimensions"]),
    "four dimensions": (put(Q + ".lora_a", 1, 1, 32, 4), [f"{Q}.lora_a is [1, 1, 32, 4], 2 dimensions"]),
    "rank zero": (both(put(Q + ".lora_a", 32, 0), put(Q + ".lora_b", 4, 32)),
                  [f"{Q}.lora_a is [32, 0], which holds nothing"]),
    # types and values
    **{f"of type {t}": (put(Q + ".lora_a", 32, 4, dtype=t), [f"{Q}.lora_a is {t} [32, 4], F32, F16 or BF16 is needed"])
       for t in ("I32", "U32", "I64", "I16", "I8", "U8", "BOOL", "F64", "F8_E4M3")},
    "b of integers": (put(DOWN + ".lora_b", 4, 32, dtype="I32"), [f"{DOWN}.lora_b is I32 [4, 32]"]),
    "a NaN": (spoil(Q + ".lora_a", 5, math.nan), [f"element 5 of {Q}.lora_a is", "nan", "must be finite"]),
    "an infinity": (spoil(DOWN + ".lora_b", 127, math.inf), [f"element 127 of {DOWN}.lora_b is inf"]),
    "a negative infinity": (spoil(Q + ".lora_b", 0, -math.inf), [f"element 0 of {Q}.lora_b is -inf"]),
    "infinities of BF16": (put(Q + ".lora_a", 32, 4, dtype="BF16", fill=math.inf), [f"element 0 of {Q}.lora_a is inf"]),
    "infinities of F16": (put(Q + ".lora_a", 32, 4, dtype="F16", fill=math.inf), [f"element 0 of {Q}.lora_a is inf"]),
    # names
    **{f"aimed at {plane}": (both(put(f"{K}.{plane}.lora_a", 32, 4), put(f"{K}.{plane}.lora_b", 4, 16)),
                             [f"{K}.{plane}.{half} aims at the {plane} plane of {K}" for half in ("lora_a",
                                                            "lora_b")], 2)
       for plane in ("scales", "biases", "weight", "bias")},
    "a layer that is not there": (pair("model.layers.0.self_attn.x_proj"),
                                  ["model.layers.0.self_attn.x_proj is no layer of the llama model"]),
    "a router": (pair("model.layers.1.mlp.gate"), ["model.layers.1.mlp.gate is no layer of the llama model"]),
    "an expert": (pair("model.layers.1.mlp.experts.0.up_proj"), ["mlp.experts.0.up_proj is no layer"]),
    "layers beyond the last": (pair("model.layers.2.self_attn.q_proj"),
                               ["model.layers.2.self_attn.q_proj is no layer", "layers 0 to 1",
                                "takes 32 input features"]),
    "beyond the last, of another width": (pair("model.layers.2.mlp.down_proj", 5), [
        "model.layers.2.mlp.down_proj.lora_a is [5, 4]", "layers 0 to 1", "takes 64 input features and produces 32"]),
    "a layer's number with a zero before it": (pair("model.layers.00.self_attn.q_proj"),
                                               ["model.layers.00.self_attn.q_proj"]),
    "a norm": (pair(NORM), [f"{NORM} is a vector of the model, which takes no pair"]),
    "a whole block": (pair("model.layers.0"), ["model.layers.0 is no layer"]),
    "no name": (put(".lora_a", 32, 4), [".lora_a"]),
    "two spellings of one layer": (pair("language_model." + Q),
                                   [f"language_model.{Q}.lora_a", f"{Q}.lora_a", "both for"]),
    "without and with model.": (pair(Q.removeprefix("model.")), [f"{Q}.lora_a", "both for"]),
    # tensors that are no adapter's
    "a base weight": (put(Q + ".weight", 32, 32),
                      [f"{Q}.weight (F32 [32, 32]) is no tensor of a LoRA adapter of mlx-lm"]),
    "a wrapped base weight": (put(Q + ".linear.weight", 32, 32),
                              [f"{Q}.linear.weight", "is no tensor of a LoRA adapter"]),
    "an optimizer's": (put("optimizer.step", 1), ["optimizer.step (F32 [1]) is no tensor"]),
    "PEFT's names": (put(PQ + ".lora_A.weight", 4, 32),
                     [f"{PQ}.lora_A.weight (F32 [4, 32]) is no tensor of a LoRA adapter of mlx-lm"]),
    "lora_c": (put(Q + ".lora_c", 4, 32), [f"{Q}.lora_c (F32 [4, 32]) is no tensor"]),
    "numbered parts": (put(Q + ".lora_a.0", 32, 4), [f"{Q}.lora_a.0 (F32 [32, 4]) is no tensor"]),
    "nothing but others": (both(drop(Q + ".lora_a", Q + ".lora_b", DOWN + ".lora_a", DOWN + ".lora_b"), put("x", 1)),
                           ["x (F32 [1]) is no tensor"]),
    # DoRA
    "a magnitude without DoRA": (put(Q + ".m", 32), [f"{Q}.m is a magnitude of DoRA", "fine_tune_type"]),
    "a magnitude alone": (put(K + ".m", 16), [f"{K}.m"]),
    "a short magnitude": (dora(put(DOWN + ".m", 31)), [f"{TAKES_DOWN}; m is [31], needed [32]"]),
    "a magnitude as long as the input": (dora(put(DOWN + ".m", 64)), [f"{TAKES_DOWN}; m is [64], needed [32]"]),
    "a magnitude of two dimensions": (dora(put(Q + ".m", 32, 1)), [f"{Q}.m is [32, 1], one dimension"]),
    "a magnitude that is missing": (dora(drop(Q + ".m")), [f"{Q}.lora_a stands alone, there is no {Q}.m"]),
    "a magnitude of integers": (dora(put(Q + ".m", 32, dtype="I32")), [f"{Q}.m is I32 [32]"]),
    "DoRA on a norm": (dora(pair(NORM)), [f"{NORM} is a vector"]),
    "norms beyond float32": (dora(both(spoil(Q + ".lora_a", 0, 3e38), spoil(Q + ".lora_b", 0, 3e38))),
                             ["the norms that DoRA needs of " + Q, "beyond float32"]),
    "DoRA of a tied head and its embedding": (dora(both(put(EMBED + ".lora_a", VOCAB, 4),
                                                        put(EMBED + ".lora_b", 4, WIDTH), put(EMBED + ".m", VOCAB),
                                                        pair("lm_head", WIDTH, VOCAB))),
                                              ["are both DoRA for the same rows of " + EMBED]),
    "a magnitude with a NaN": (dora(spoil(Q + ".m", 3, math.nan)), [f"element 3 of {Q}.m is"]),
    # the config
    "another rank": (lora(rank=8), [f"{Q}.lora_a is [32, 4], rank 4, but {CONFIG} says rank 8",
                                    f"{DOWN}.lora_a is [64, 4]"], 2),
    "rank as text": (lora(rank="4"), [CONFIG, "rank"]),
    "rank 0 said": (lora(rank=0), [CONFIG, "rank"]),
    "negative rank": (lora(rank=-4), [CONFIG, "rank"]),
    "huge rank": (lora(rank=10**30), [CONFIG, "rank"]),
    "no rank": (lambda a: a.config["lora_parameters"].pop("rank"), [CONFIG, "rank"]),
    "no scale": (lambda a: a.config["lora_parameters"].pop("scale"), [CONFIG, "scale"]),
    "scale as text": (lora(scale="2"), [CONFIG, "scale"]),
    "scale NaN": (lora(scale=math.nan), [CONFIG, "scale"]),
    "scale infinite": (lora(scale=math.inf), [CONFIG, "lora_parameters.scale is"]),
    "scale beyond float": (lora(scale=1e300), [CONFIG, "lora_parameters.scale is 1.0"]),
    "lora_parameters as list": (config(lora_parameters=[4, 2]), [CONFIG, "lora_parameters"]),
    "no lora_parameters": (no_config("lora_parameters"), [CONFIG, "lora_parameters is missing"]),
    "another fine_tune_type": (config(fine_tune_type="lokr"), [CONFIG, "fine_tune_type", '"lokr"']),
    "fine_tune_type as number": (config(fine_tune_type=1), [CONFIG, "fine_tune_type"]),
    "config is no JSON": (whole_config(b'{"lora_parameters": '), [CONFIG, "JSON"]),
    "config is a list": (whole_config(b"[]"), [CONFIG, "object"]),
    "config is empty": (whole_config(b""), [CONFIG]),
    "config is binary": (whole_config(bytes(range(256))), [CONFIG]),
    "no config": (whole_config(None), ["there is no ", f"{CONFIG}, which tells the adapter's scale: copy it"]),
    # files
    "no tensors' file": (lambda a: setattr(a, "file", None), [f"neither {FILE} (mlx-lm) nor {PFILE} (PEFT)"]),
    "a pickle": (raw(b"\x80\x02", "adapter_model.bin"), ["adapter_model.bin is a Python pickle", PFILE]),
    "an archive of NumPy": (raw(b"PK", "adapters.npz"), ["adapters.npz is an archive of NumPy", FILE]),
    "no tensors": (lambda a: a.tensors.clear(), ["holds no adapter"]),
    "cut short": (cut(1), [FILE, "cut short"]),
    "cut in the header": (lambda a: raw(safetensors(a.tensors)[:40])(a), [FILE]),
    "an empty file": (raw(b""), [FILE]),
    "a file of text": (raw(b"version https://git-lfs.github.com/spec/v1\n"), [FILE]),
    "a header of garbage": (raw(struct.pack("<Q", 10) + b"not json!!"), [FILE]),
    "a huge header": (raw(struct.pack("<Q", 2**62) + b"{}"), [FILE]),
    "a hole in the data": (lambda a: raw(safetensors(a.tensors) + b"x")(a), [FILE]),
}

# --- full, over the model that has what is replaced, and others ---

FULL = {
    "a quantized layer": ("q4", put(Q + ".weight", 32, 32),
                          [f"{Q}.weight replaces {Q}.weight, which is quantized (affine 4 bits group 32)"]),
    "a quantized layer's codes": ("q4", put(Q + ".weight", 32, 4, dtype="U32"), [f"{Q}.weight"]),
    "a quantized layer's scales": ("q4", put(Q + ".scales", 32, 1), [f"{Q}.scales is no weight and no bias"]),
    "a parameter that is not there": ("dense", put("model.layers.0.mlp.router.weight", 4, 32),
                                      ["mlp.router is no layer"]),
    "another shape": ("dense", put(Q + ".weight", 32, 16), [f"{Q}.weight is [32, 16], but {Q}.weight is [32, 32]"]),
    "a norm of another length": ("dense", put(NORM + ".weight", 31),
                                 [f"{NORM}.weight is [31], but {NORM}.weight is [32]"]),
    "integers": ("dense", put(Q + ".weight", 32, 32, dtype="I32"), [f"{Q}.weight is I32 [32, 32]"]),
    "a NaN": ("dense", put(NORM + ".weight", 32, fill=math.nan), [f"element 0 of {NORM}.weight is"]),
    "a bias that the layer lacks": ("dense", put(Q + ".bias", 32),
                                    [f"{Q}.bias is a bias, but the model's layer has none"]),
    "a tied head": ("tied", put("lm_head.weight", VOCAB, WIDTH), ["lm_head.weight replaces the head alone", "ties"]),
    "another kind of tensor": ("dense", put(Q + ".lora_a", 32, 4), [f"{Q}.lora_a is no weight and no bias"]),
    "a layer beyond": ("dense", put("model.layers.2.mlp.down_proj.weight", 32, 64),
                       ["model.layers.2.mlp.down_proj is no layer", "layers 0 to 1"]),
    "a scalar": ("dense", put(NORM + ".weight"), [f"{NORM}.weight is [], but {NORM}.weight is [32]"]),
    "four dimensions": ("dense", put(NORM + ".weight", 1, 1, 1, 32),
                        [f"{NORM}.weight is [1, 1, 1, 32], but {NORM}.weight is [32]"]),
    "a bias of another length": ("biased", put(K + ".bias", 32), [f"{K}.bias is [32], but {K}.bias is [16]"]),
    "one parameter by two names": ("dense", both(put(NORM + ".weight", 32), put(f"language_model.{NORM}.weight", 32)),
                                   [f"language_model.{NORM}.weight and {NORM}.weight both replace {NORM}"]),
    "a tied head unlike its embedding": ("tied",
                                         both(put(EMBED + ".weight", VOCAB, WIDTH),
                                              put("lm_head.weight", VOCAB, WIDTH)),
                                         ["lm_head.weight differs from the embedding that the adapter brings along"]),
}

# --- PEFT -------------------------------------------------------------------------------------------------------------

EMBED_A, EMBED_B = f"base_model.model.{EMBED}.lora_embedding_A", f"base_model.model.{EMBED}.lora_embedding_B"
PEFT = {
    "half the width": (pair(Q, 16), [f"{TAKES_Q}; ", "lora_A.weight is [4, 16]"]),
    "rows of another layer": (pair(DOWN, 64, 64), [TAKES_DOWN, "lora_B.weight is [64, 4]"]),
    "mlx-lm's orientation": (both(put(PDOWN + ".lora_A.weight", 64, 4), put(PDOWN + ".lora_B.weight", 4, 32)),
                             [f"{PDOWN}.lora_A.weight is [64, 4]", "[4, 32]", "no rank in common"]),
    "no lora_B": (drop(PQ + ".lora_B.weight"), [f"{PQ}.lora_A.weight stands alone, there is no {PQ}.lora_B.weight"]),
    "no lora_A": (drop(PQ + ".lora_A.weight"), [f"{PQ}.lora_B.weight stands alone, there is no {PQ}.lora_A.weight"]),
    "different ranks": (pair(Q, rank_b=2), [f"{PQ}.lora_A.weight is [4, 32]", "[32, 2]", "no rank in common"]),
    "three dimensions": (put(PQ + ".lora_A.weight", 1, 4, 32),
                         [f"{PQ}.lora_A.weight is [1, 4, 32], 2 dimensions are needed"]),
    "integers": (put(PQ + ".lora_A.weight", 4, 32, dtype="I8"), [f"{PQ}.lora_A.weight is I8 [4, 32]"]),
    "an infinity": (spoil(PQ + ".lora_B.weight", 9, math.inf), [f"element 9 of {PQ}.lora_B.weight is inf"]),
    "a layer that is not there": (pair("model.layers.0.self_attn.c_attn"),
                                  ["self_attn.c_attn is no layer of the llama model"]),
    "layers beyond the last": (pair("model.layers.9.self_attn.q_proj"),
                               ["model.layers.9.self_attn.q_proj is no layer", "layers 0 to 1"]),
    "aimed at scales": (both(put(PQ + ".scales.lora_A.weight", 4, 32), put(PQ + ".scales.lora_B.weight", 1, 4)),
                        ["aims at the scales plane"], 2),
    "with and without .default.": (both(put(PQ + ".lora_A.default.weight", 4, 32),
                                        put(PQ + ".lora_B.default.weight", 32, 4)),
                                   [f"{PQ}.lora_A.default.weight and {PQ}.lora_A.weight are both for {Q}"], 2),
    "with and without the prefix": (both(put(Q + ".lora_A.weight", 4, 32), put(Q + ".lora_B.weight", 32, 4)),
                                    [f"{PQ}.lora_A.weight and {Q}.lora_A.weight are both for {Q}"], 2),
    "mlx-lm's names": (put(Q + ".lora_a", 32, 4), [f"{Q}.lora_a (F32 [32, 4]) is no tensor of a LoRA adapter of peft"]),
    "another tensor": (put(PQ + ".weight", 32, 32), [f"{PQ}.weight (F32 [32, 32]) is no tensor"]),
    "an adapter of another kind": (put(PQ + ".hada_w1_a", 32, 4), [f"{PQ}.hada_w1_a (F32 [32, 4]) is no tensor"]),
    # DoRA, biases, saved modules
    "a magnitude without DoRA": (put(PQ + ".lora_magnitude_vector", 32),
                                 [f"{PQ}.lora_magnitude_vector is a magnitude of DoRA", "use_dora"]),
    "a magnitude of another length": (dora(put(PDOWN + ".lora_magnitude_vector", 64)),
                                      [TAKES_DOWN, "[64], needed [32]"]),
    "no magnitude": (dora(drop(PQ + ".lora_magnitude_vector")), [f"there is no {PQ}.lora_magnitude_vector"]),
    "a bias of B without lora_bias": (put(PQ + ".lora_B.bias", 32),
                                      [f"{PQ}.lora_B.bias is a bias of lora_B", "lora_bias"]),
    "a bias of B of another length": (both(config(lora_bias=True), put(PQ + ".lora_B.bias", 31)),
                                      [TAKES_Q, "[31], needed [32]"]),
    "a bias that the layer lacks": (both(config(bias="lora_only"), put(PQ + ".base_layer.bias", 32)),
                                    ["is a bias, but the model's layer has none"]),
    "a bias that is not trained": (put(PQ + ".bias", 32), [f"{PQ}.bias (F32 [32]) is no tensor"]),
    "a saved module that is quantized": (both(config(modules_to_save=["k_proj"]),
                                              put(f"base_model.model.{K}.weight", 16, 32)),
                                         [f"replaces {K}.weight, which is quantized (affine 4 bits group 32)"]),
    "a saved module that is not there": (both(config(modules_to_save=["score"]),
                                              put("base_model.model.score.weight", 2, 32)),
                                         ["score is no layer"]),
    "a saved head that is tied": (both(config(modules_to_save=["lm_head"]),
                                       put("base_model.model.lm_head.weight", VOCAB, WIDTH)),
                                  ["lm_head.weight replaces the head alone"]),
    "a saved embedding with more rows": (put(f"base_model.model.{EMBED}.weight", VOCAB + 1, WIDTH),
                                         [f"{EMBED}.weight is [263, 32], but {EMBED}.weight is [262, 32]"]),
    "a saved module by two names": (both(config(modules_to_save=["norm"]),
                                         put(f"base_model.model.{NORM}.weight", WIDTH),
                                         put(f"base_model.model.{NORM}.modules_to_save.default.weight", WIDTH)),
                                    [f"base_model.model.{NORM}.weight are both for {NORM}.weight"]),
    "a copy of a bias": (put(PQ + ".base_layer.bias", 32), [f"{PQ}.base_layer.bias is a copy", "cannot be compared"]),
    "a copy of what is not there": (put("base_model.model.x.base_layer.weight", 32, 32), ["x.weight is no layer"]),
    "a copy of another base": (both(put(EMBED_A, 4, VOCAB), put(EMBED_B, WIDTH, 4),
                                    put(f"base_model.model.{EMBED}.base_layer.weight", VOCAB, WIDTH)),
                               ["is a copy of the base's weight, but this model's differs"]),
    "trainable tokens": (put(f"base_model.model.{EMBED}.token_adapter.trainable_tokens_delta", 2, WIDTH),
                         ["holds trainable tokens"]),
    # embeddings
    "an embedding's pair on a layer": (both(drop(PQ + ".lora_A.weight", PQ + ".lora_B.weight"),
                                            put(PQ + ".lora_embedding_A", 4, 32),
                                            put(PQ + ".lora_embedding_B", 32,
                                                4)), ["is a linear layer of the model, but has the pair of an embedding"]),
    "a layer's pair on an embedding": (pair(EMBED, 32, VOCAB),
                                       ["is an embedding of the model, but has the pair of a linear layer"]),
    "an embedding of other rows": (both(put(EMBED_A, 4, VOCAB - 1), put(EMBED_B, WIDTH, 4)),
                                   [f"{EMBED} holds 262 rows of 32 features; ", "lora_embedding_A is [4, 261]"]),
    "an embedding of another width": (both(put(EMBED_A, 4, VOCAB), put(EMBED_B, WIDTH // 2, 4)),
                                      [f"{EMBED} holds 262 rows of 32 features; ", "lora_embedding_B is [16, 4]"]),
    "DoRA on an embedding": (dora(both(put(EMBED_A, 4, VOCAB), put(EMBED_B, WIDTH, 4),
                                       put(f"base_model.model.{EMBED}.lora_magnitude_vector", WIDTH))),
                             [f"base_model.model.{EMBED} has DoRA on an embedding"]),
    "half an embedding": (put(EMBED_A, 4, VOCAB), [f"{EMBED_A} stands alone", "lora_embedding_B"]),
    # features, by name
    **{f"feature {field}": (config(**{field: value}), [CONFIG, field, words]) for field, value, words in (
        ("alora_invocation_tokens", [1, 2], "aLoRA"), ("use_qalora", True, "QALoRA"), ("arrow_config", {"top_k": 2},
                                                            "Arrow"),
        ("layer_replication", [[0, 2], [1, 2]], "replicated layers"), ("trainable_token_indices", [1],
                                                            "trainable tokens"),
        ("use_bdlora", {"x": 1}, "block-diagonal"), ("kasa_config", {"x": 1}, "KaSA"), ("monteclora_config", {"x": 1},
                                                            "MonteCLoRA"))},
    **{f"peft_type {t}": (config(peft_type=t), [CONFIG, "peft_type", f'"{t}"', "LORA"]) for t in ("LOHA", "IA3",
                                                            "PREFIX_TUNING", "")},
    "another bias": (config(bias="some"), [CONFIG, "bias", '"some"']),
    # numbers
    "another rank": (config(r=8, lora_alpha=16), [f"{PQ}.lora_A.weight is [4, 32], rank 4, but {CONFIG} says rank 8"],
                     2),
    "another rank by pattern": (config(rank_pattern={"down_proj": 2}),
                                [f"{PDOWN}.lora_A.weight is [4, 64], rank 4, but {CONFIG} says rank 2"]),
    "r is 0": (config(r=0), [CONFIG, "r is 0"]),
    "r as text": (config(r="4"), [CONFIG, "r"]),
    "lora_alpha as text": (config(lora_alpha="8"), [CONFIG, "lora_alpha"]),
    "lora_alpha NaN": (config(lora_alpha=math.nan), [CONFIG, "lora_alpha"]),
    "lora_alpha beyond float": (config(lora_alpha=-1e300), [CONFIG, "lora_alpha is -1.0"]),
    "alpha_pattern infinite": (config(alpha_pattern={"q_proj": math.inf}), [CONFIG, "alpha_pattern.q_proj"]),
    "use_dora as text": (config(use_dora="yes"), [CONFIG, "use_dora"]),
    "rank_pattern as list": (config(rank_pattern=[1]), [CONFIG, "rank_pattern"]),
    "rank_pattern of text": (config(rank_pattern={"q_proj": "4"}), [CONFIG, "rank_pattern", "q_proj"]),
    "rank_pattern that is no expression": (config(rank_pattern={"(q_proj": 4}), [CONFIG, "rank_pattern", "(q_proj"]),
    "rank_pattern that takes for ever": (both(*map(pair, ALL),
                                              config(rank_pattern={f"(a*)*b{i}": 4 for i in range(30000)})),
                                         [CONFIG, "rank_pattern", "takes too long"]),
    "experts of a rank that does not divide": (both(config(target_parameters=["mlp.experts.down_proj"]),
                                                    put("base_model.model.model.layers.0.mlp.experts.lora_A.weight", 6,
                                                        64),
                                                    put("base_model.model.model.layers.0.mlp.experts.lora_B.weight",
                                                        32, 6)),
                                               ["lora_A.weight is [6, 64], its rows are no whole number of experts of rank 4"]),
    "experts that the model lacks": (both(config(target_parameters=["mlp.experts.down_proj"]),
                                          put("base_model.model.model.layers.0.mlp.experts.lora_A.weight", 8, 64),
                                          put("base_model.model.model.layers.0.mlp.experts.lora_B.weight", 32, 8)),
                                     ["model.layers.0.mlp.experts.down_proj is no layer"]),
    "target_parameters of a layer that has none": (config(target_parameters=["mlp.experts.gate_up_proj"]), None),
    "more wrappers than targets": (both(put(f"{PQ}.base_layer.lora_A.weight", 4, 32),
                                        put(f"{PQ}.base_layer.lora_B.weight", 32, 4)),
                                   ["is wrapped 2 times"], 2),
    # files
    "no tensors' file": (lambda a: setattr(a, "file", None), [f"neither {FILE} (mlx-lm) nor {PFILE} (PEFT)"]),
    "a pickle": (raw(b"\x80\x02", "adapter_model.bin"), ["adapter_model.bin is a Python pickle"]),
    "no tensors": (lambda a: a.tensors.clear(), ["holds no adapter"]),
    "cut short": (cut(7), [PFILE, "cut short"]),
}

VLM = {
    "half the width": (pair(Q, 16), [f"{TAKES_Q}; A is [16, 4]"]),
    "no B": (drop(Q + ".B"), [f"{Q}.A stands alone, there is no {Q}.B"]),
    "mlx-lm's names": (put(Q + ".lora_a", 32, 4),
                       [f"{Q}.lora_a (F32 [32, 4]) is no tensor of a LoRA adapter of mlx-vlm"]),
    "another rank": (config(rank=2), [f"{Q}.A is [32, 4], rank 4, but {CONFIG} says rank 2"], 2),
    "rank 0": (config(rank=0), [CONFIG, "rank"]),
    "alpha as text": (config(alpha="1"), [CONFIG, "alpha"]),
    "a wrapped base": (put(Q + ".original_layer.weight", 32, 32),
                       [f"{Q}.original_layer.weight (F32 [32, 32]) is no tensor"]),
}


def check(model, tmp_path, form, change, words, faults=1):
    a = Adapter(form, kind=getattr(change, "kind", "lora"))
    change(a)
    a.write(tmp_path / "adapter")
    if words is None:
        logits(model, tmp_path, tmp_path / "adapter")
        return
    message = refusal(model, tmp_path, tmp_path / "adapter")
    for w in words:
        assert w in message, message
    assert message.count("; adapter") == faults - 1, message


@pytest.mark.parametrize("name", MLX)
def test_mlx(name, models, tmp_path):
    check(models["q4"], tmp_path, "mlx", *MLX[name])


@pytest.mark.parametrize("name", PEFT)
def test_peft(name, models, tmp_path):
    check(models["q4"], tmp_path, "peft", *PEFT[name])


@pytest.mark.parametrize("name", VLM)
def test_vlm(name, models, tmp_path):
    check(models["q4"], tmp_path, "vlm", *VLM[name])


@pytest.mark.parametrize("name", FULL)
def test_full(name, models, tmp_path):
    model, change, words = FULL[name]
    a = Adapter("mlx", kind="full", modules=())
    a.config["lora_parameters"] = None
    change(a)
    message = refusal(models[model], tmp_path, a.write(tmp_path / "adapter"))
    for w in words:
        assert w in message, message
    assert "; adapter" not in message, message


def test_fan_in_fan_out(models, tmp_path):
    """Conv1D's storage of a square layer cannot be told from the other; of another layer it can."""
    a = Adapter("peft", modules=())
    a.config.update(fan_in_fan_out=True, modules_to_save=["q_proj"])
    a.put(PQ + ".weight", [WIDTH, WIDTH])
    message = refusal(models["dense"], tmp_path, a.write(tmp_path / "adapter"))
    assert f"{PQ}.weight is square" in message, message


# --- paths and scales -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("suffix, words", [
    ("-absent", ["there is no adapter at"]), (":nan", [":nan"]), (":inf", [":inf"]), (":1e400", [":1e400"]), (":",
                                                            ["there is no adapter"]),
    (":0x", ["there is no adapter"]), (":1.5x", ["there is no adapter"]), (":1:x", ["there is no adapter"]), (":-",
                                                            ["there is no adapter"]),
])
def test_paths(suffix, words, models, tmp_path):
    a = Adapter().write(tmp_path / "adapter")
    message = refusal(models["q4"], tmp_path, f"{a}{suffix}")
    for w in words:
        assert w in message, message


@pytest.mark.parametrize("suffix", ["", ":1", ":-0.5", ":2e-1", ":.5", ":+1", f"/{FILE}", f"/{FILE}:0.5"])
def test_right_paths(suffix, models, tmp_path):
    logits(models["q4"], tmp_path, f"{Adapter().write(tmp_path / 'adapter')}{suffix}")


def test_a_config_alone(models, tmp_path):
    """The tensors' config is not the tensors."""
    a = Adapter().write(tmp_path / "adapter")
    assert CONFIG in refusal(models["q4"], tmp_path, a / CONFIG)


def test_both_names(models, tmp_path):
    """Where both files lie, the one that the config's format writes is read."""
    a = Adapter("peft").write(tmp_path / "adapter")
    want = logits(models["q4"], tmp_path, a)
    (a / FILE).write_bytes(b"nothing")
    assert logits(models["q4"], tmp_path, a) == want
    (a / PFILE).rename(a / FILE)
    assert logits(models["q4"], tmp_path, a) == want
