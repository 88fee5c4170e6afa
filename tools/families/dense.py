"""Dense families: attention and one feed-forward block a layer."""
from families.row import SIZES, WIDE, Row

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}

ROWS = [
    Row("llama", dict(WIDE, attention_bias=True, mlp_bias=True)),
    Row("llama-llama3", dict(WIDE, tie_word_embeddings=True, rope_parameters=LLAMA3), style="t5"),
    Row("mistral", dict(SIZES, sliding_window=8), mlx="has no sliding window"),
    Row("qwen2", dict(WIDE, tie_word_embeddings=True)),
    Row("qwen2-window", dict(WIDE, use_sliding_window=True, sliding_window=8, max_window_layers=1),
        mlx="has no sliding window"),
    Row("qwen3", dict(SIZES)),
]
