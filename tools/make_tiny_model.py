#!/usr/bin/env python3
"""Makes tests/data/tiny: a tiny random llama with a byte-level tokenizer and a ChatML template, for tests that need a whole
model directory (server, command line). Deterministic; standard library only."""
import json
import random
import struct
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "tiny"
HIDDEN, LAYERS, HEADS, KV_HEADS, FF = 64, 2, 4, 2, 96
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [("h", "e"), ("l", "l"), ("Ġ", "t"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"),
          ("l", "d"), ("Ġwor", "ld"), ("Ġt", "he"), ("i", "n")]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 0
    for b in range(256):
        if b in own:
            table[b] = chr(b)
        else:
            table[b] = chr(0x100 + extra)
            extra += 1
    return [table[b] for b in range(256)]


def tokenizer():
    vocab = {t: i for i, t in enumerate(SPECIAL + byte_alphabet())}
    for a, b in MERGES:
        vocab.setdefault(a + b, len(vocab))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, t in enumerate(SPECIAL)]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab,
             "merges": [list(m) for m in MERGES]}
    return vocab, {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                   "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}


def bf16(x):
    (u,) = struct.unpack("<I", struct.pack("<f", x))
    return (u + 0x7FFF + ((u >> 16) & 1)) >> 16


def tensors(n_vocab, rng):
    head = HIDDEN // HEADS
    shapes = {"model.embed_tokens.weight": (n_vocab, HIDDEN), "model.norm.weight": (HIDDEN,),
              "lm_head.weight": (n_vocab, HIDDEN)}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (HIDDEN,), p + "post_attention_layernorm.weight": (HIDDEN,),
                   p + "self_attn.q_proj.weight": (HEADS * head, HIDDEN), p + "self_attn.k_proj.weight": (KV_HEADS * head, HIDDEN),
                   p + "self_attn.v_proj.weight": (KV_HEADS * head, HIDDEN), p + "self_attn.o_proj.weight": (HIDDEN, HEADS * head),
                   p + "mlp.gate_proj.weight": (FF, HIDDEN), p + "mlp.up_proj.weight": (FF, HIDDEN),
                   p + "mlp.down_proj.weight": (HIDDEN, FF)}
    for name, shape in sorted(shapes.items()):
        n = shape[0] * (shape[1] if len(shape) == 2 else 1)
        scale = 0.6 if len(shape) == 1 else 4 / shape[1] ** 0.5
        yield name, shape, struct.pack(f"<{n}H", *(bf16(rng.gauss(1 if len(shape) == 1 else 0, scale)) for _ in range(n)))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    vocab, tok = tokenizer()
    header, data = {}, b""
    for name, shape, raw in tensors(len(vocab), random.Random(20)):
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (OUT / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "intermediate_size": FF, "vocab_size": len(vocab),
              "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "eos_token_id": 0, "torch_dtype": "bfloat16"}
    files = {"config.json": config, "tokenizer.json": tok, "generation_config.json": {"eos_token_id": [0, 2]},
             "tokenizer_config.json": {"eos_token": "<|im_end|>", "bos_token": None, "chat_template": TEMPLATE}}
    for name, value in files.items():
        (OUT / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
