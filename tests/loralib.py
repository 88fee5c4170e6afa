"""Small adapters for tests, in mlx-lm's layout, drawn by chance for any model directory of the tests."""
import array
import json
import random
import struct

from testlib import DATA

TINY = DATA / "tiny"
MODULES = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")


def base_of(adapter):
    """The model of an adapter of tests/data/lora, both directories."""
    return DATA / (adapter / "base").read_text().strip()


def write_safetensors(path, tensors):
    """tensors: name -> (shape, values), all float32."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def widths(config):
    """module -> (inputs, outputs)."""
    n, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim") or n // heads
    kv = config.get("num_key_value_heads", heads) * head
    ff = config["intermediate_size"]
    return {"self_attn.q_proj": (n, heads * head), "self_attn.k_proj": (n, kv), "self_attn.v_proj": (n, kv),
            "self_attn.o_proj": (heads * head, n), "mlp.gate_proj": (n, ff), "mlp.up_proj": (n, ff), "mlp.down_proj": (ff, n)}


def write_adapter(folder, seed=1, rank=4, scale=4.0, model=TINY, modules=MODULES, more_inputs=0):
    """An adapter of the model, the same for the same arguments. more_inputs: makes every lora_a too wide by so many."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((model / "config.json").read_text())
    draw, tensors = random.Random(seed), {}
    for layer in range(config["num_hidden_layers"]):
        for module in modules:
            k, o = widths(config)[module]
            name = f"model.layers.{layer}.{module}"
            for part, shape in (("lora_a", [k + more_inputs, rank]), ("lora_b", [rank, o])):
                tensors[f"{name}.{part}"] = (shape, [draw.gauss(0, 0.15) for _ in range(shape[0] * shape[1])])
    write_safetensors(folder / "adapters.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"fine_tune_type": "lora", "num_layers": config["num_hidden_layers"],
         "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0}}))
    return folder


def write_full(folder, seed=1, model=TINY, embedding=False):
    """An adapter of the model that replaces its head and last norm, and perhaps its embedding."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((model / "config.json").read_text())
    draw, n, vocab = random.Random(seed), config["hidden_size"], config["vocab_size"]
    matrices = ["lm_head.weight"] + ["model.embed_tokens.weight"] * embedding
    tensors = {name: ([vocab, n], [draw.gauss(0, 0.3) for _ in range(vocab * n)]) for name in matrices}
    tensors["model.norm.weight"] = ([n], [draw.uniform(0.5, 2) for _ in range(n)])
    write_safetensors(folder / "adapters.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "full", "lora_parameters": None}))
    return folder
