"""Dense families: attention and one feed-forward block a layer."""
from families.row import BOTH, SIZES, WIDE, Row

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}
TIE = {"tie_word_embeddings": [False, True]}
BIASES = {"attention_bias": [False, True], "mlp_bias": [False, True]}
NO_WINDOW = "has no sliding window"
# Where embeddings are multiplied, small ones leave the layers a say; norms are 1 + w.
GEMMA = [(r"norm\.weight$", "norm0"), (r"embed_tokens", "uniform -3")]
ROOT = dict(SIZES, num_attention_heads=4, num_key_value_heads=1, head_dim=24)  # 64 has a root exact in bfloat16
DEEP = dict(num_hidden_layers=4)  # a pattern of four layers
NEOX = dict(add={"rotary_emb_base": 10000, "rotary_pct": 0.25},
            drop=("rope_theta", "rope_scaling", "partial_rotary_factor"))
PLAIN = dict(torch_dtype="bfloat16", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0)


def longrope(original):
    return {"rope_type": "longrope", "rope_theta": 10000.0,
            "short_factor": [1 + 0.125 * i for i in range(6)], "long_factor": [2 + i for i in range(6)],
            "original_max_position_embeddings": original}


def wrapped(text, **rest):
    """The config of a model with a vision tower, as small as it gets."""
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, image_size=28,
                  patch_size=14)
    return dict(text_config=text, vision_config=vision, **rest)


ROWS = [
    Row("llama", dict(WIDE, attention_bias=True, mlp_bias=True), options=BIASES | TIE),
    Row("llama-llama3", dict(WIDE, tie_word_embeddings=True, rope_parameters=LLAMA3), style="t5",
        options=TIE | {"rope_parameters": [LLAMA3, LLAMA3 | {"factor": 4.0, "low_freq_factor": 2.0}, LINEAR]}),
    Row("llama-linear", dict(WIDE, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})),
    Row("mistral", dict(SIZES, sliding_window=8), mlx=NO_WINDOW, options=TIE),
    Row("qwen2", dict(WIDE, tie_word_embeddings=True), options=TIE),
    Row("qwen2-window", dict(WIDE, use_sliding_window=True, sliding_window=8, max_window_layers=1), mlx=NO_WINDOW),
    Row("qwen3", dict(SIZES), options=TIE),
    Row("qwen3-yarn", dict(SIZES, rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
                                                   "original_max_position_embeddings": 16})),
    Row("gemma", dict(SIZES), kinds=GEMMA, add={"hidden_act": "gelu"}, mlx="takes gelu for the exact one"),
    Row("gemma2", dict(WIDE, sliding_window=8, query_pre_attn_scalar=24, attn_logit_softcapping=3.0,
                       final_logit_softcapping=4.0), kinds=GEMMA, mlx=NO_WINDOW),
    Row("gemma3_text", dict(ROOT, **DEEP, sliding_window=8, query_pre_attn_scalar=24,
                            layer_types=["sliding_attention", "sliding_attention", "full_attention"] + ["sliding_attention"]),
        kinds=GEMMA, add={"sliding_window_pattern": 3}, drop=("_sliding_window_pattern",)),
    Row("gemma3_text-t5", dict(ROOT, **DEEP, sliding_window=8, query_pre_attn_scalar=24, rope_parameters={
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
        layer_types=["sliding_attention", "full_attention"] * 2), kinds=GEMMA, style="t5",
        mlx_config={"sliding_window_pattern": 2}),
    Row("gemma3", wrapped(dict(ROOT, **DEEP, sliding_window=8, query_pre_attn_scalar=24,
                            layer_types=["sliding_attention", "full_attention"] * 2)),
        kinds=GEMMA, style="t5", mlx_config={"vocab_size": 67, "text_config": {"sliding_window_pattern": 2}}),
    Row("phi", dict(WIDE, num_key_value_heads=6, partial_rotary_factor=0.5)),
    # No prompt, nor one of an answer that goes on as a prompt, is as long as the original context.
    Row("phi3", dict(WIDE, rope_parameters=longrope(256) | {"partial_rotary_factor": 0.75}, sliding_window=8,
                     original_max_position_embeddings=256), mlx="takes the long factors always and has no window"),
    Row("phi3-long", dict(WIDE, rope_parameters=longrope(16) | {"partial_rotary_factor": 0.75},
                          original_max_position_embeddings=16, tie_word_embeddings=True)),
    Row("glm", dict(SIZES), mlx="rotates whole heads"),
    Row("glm4", dict(SIZES), options={"attention_bias": [False, True]}),
    Row("granite", dict(WIDE, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0, logits_scaling=4.0,
                        residual_multiplier=0.5, attention_multiplier=0.2), options=BIASES | TIE),
    Row("olmo", dict(WIDE, clip_qkv=0.75), layout="has another olmo, of a layout of its own"),
    Row("olmo2", dict(WIDE), options=TIE),
    Row("olmo3", dict(WIDE, **DEEP, sliding_window=8, rope_parameters={
        "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0,
                           "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}), keep=("layer_types",)),
    Row("cohere", dict(WIDE, logit_scale=0.0625), options={"attention_bias": [False, True], "use_qk_norm": [False, True]}),
    Row("cohere-norm", dict(WIDE, logit_scale=0.0625, use_qk_norm=True, attention_bias=True)),
    Row("cohere2", dict(BOTH, **DEEP, sliding_window=8), add={"sliding_window_pattern": 4}),
    Row("smollm3", dict(WIDE, **DEEP), options=BIASES | TIE),
    Row("seed_oss", dict(SIZES), options=BIASES | TIE | {"attention_out_bias": [False, True]}),
    Row("starcoder2", dict(WIDE, sliding_window=8), mlx=NO_WINDOW),
    Row("starcoder2-plain", dict(WIDE, hidden_act="gelu", tie_word_embeddings=False)),
    Row("stablelm", dict(WIDE, use_qkv_bias=True), options=TIE | {k: [False, True] for k in (
        "use_qkv_bias", "qk_layernorm", "use_parallel_residual")}),
    Row("stablelm-parallel", dict(WIDE, qk_layernorm=True, use_parallel_residual=True)),
    Row("gpt2", dict(n_embd=96, n_layer=3, n_head=6, n_positions=256, vocab_size=67), add={"n_ctx": 256},
        kinds=[(r"c_attn\.weight$", "weight0 1"), (r"c_\w+\.weight$", "weight0 0")], rename=[(r"^transformer\.", "")],
        extra={f"h.{i}.attn.bias": ("F32", [1, 1, 256, 256]) for i in range(3)}),
    Row("gpt_neox", dict(WIDE, intermediate_size=384), **NEOX, mlx="takes GELU by tanh"),
    Row("gpt_neox-serial", dict(WIDE, intermediate_size=384, use_parallel_residual=False, hidden_act="gelu_fast"),
        **NEOX),
    Row("gpt_bigcode", dict(n_inner=160, n_embd=96, n_layer=3, n_head=6, n_positions=256, vocab_size=67),
        mlx="takes the exact GELU"),
    Row("nemotron", dict(SIZES), options=BIASES, kinds=[(r"norm\.weight$", "norm0")]),
    Row("helium", dict(BOTH)),
    Row("exaone4", dict(BOTH, **DEEP, sliding_window=8, sliding_window_pattern=4), add={"sliding_window_pattern": "LLLG"},
        keep=("layer_types",)),
    Row("hunyuan_v1_dense", dict(SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0,
                                                         "factor": 1.0})),
    Row("ernie4_5", dict(SIZES), options=TIE | {"use_bias": [False, True]}),
    Row("internlm3", dict(BOTH, attention_bias=True, mlp_bias=True), add={"qkv_bias": True, "bias": True},
        drop=("attention_bias", "mlp_bias")),
    Row("ministral3", dict(SIZES, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 16,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}),
        style="t5"),
    Row("internlm2", dict(WIDE, **PLAIN, model_type="internlm2", bias=True, rope_scaling=None, tie_word_embeddings=False),
        source="mlx", hf="lacks this family"),
    Row("minicpm", dict(WIDE, **PLAIN, model_type="minicpm", scale_depth=1.4, scale_emb=3, dim_model_base=48,
                        rope_scaling=None, tie_word_embeddings=False), source="mlx", hf="lacks this family"),
    Row("mistral3", wrapped(dict(SIZES, model_type="mistral"), tie_word_embeddings=False)),
    Row("mistral3-ministral3", wrapped(dict(SIZES, model_type="ministral3", rope_parameters={
        "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 16,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}), tie_word_embeddings=False), style="t5"),
    Row("apertus", dict(WIDE), add={"mlp_bias": False, "post_norm": False, "qk_norm": True},
        kinds=[(r"alpha_.$", "uniform -1"), (r"beta$", "value 1 -1"), (r"eps$", "value -1 -20")],
        quiet=r"act_fn\.eps$"),
]
