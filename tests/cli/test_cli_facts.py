"""describe, inspect, list, arch and bench: the facts, for people and as JSON."""
import json
import resource
import struct
import subprocess

from clilib import fault, usage
from testlib import DATA, PROGRAM, mlxcel, mlxcel_ok

MODEL = DATA / "arch" / "llama-q4-g32-f16"


def test_describe():
    v = json.loads(mlxcel_ok("describe", "-m", MODEL, "--json"))
    assert {"model_type", "layers", "parameters", "bytes", "modes", "kv_bytes_per_token", "context", "tensors",
            "warnings"} <= set(v)
    assert v["model_type"] == "llama" and v["context"] == 512
    assert sum(v["modes"].values()) == v["parameters"] and sum(t["bytes"] for t in v["tensors"]) == v["bytes"]
    text = mlxcel_ok("describe", "-m", MODEL)
    assert all(t["name"] in text for t in v["tensors"]) and "model type  llama" in text
    assert "/nowhere" in fault("describe", "-m", "/nowhere")


def test_describe_reads_headers_only(tmp_path):
    """A checkpoint that is larger than the address space; its data is a hole of the file."""
    config = json.loads((MODEL / "config.json").read_text())
    config.update(vocab_size=16_000_000, num_hidden_layers=1, tie_word_embeddings=True)
    config.pop("quantization", None), config.pop("quantization_config", None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    hidden, ff, head = (config[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads"))
    size = config.get("head_dim") or hidden // head
    q, kv = head * size, config["num_key_value_heads"] * size
    p = "model.layers.0."
    shapes = {"model.embed_tokens": [16_000_000, hidden], "model.norm": [hidden], p + "input_layernorm": [hidden],
              p + "post_attention_layernorm": [hidden], p + "self_attn.q_proj": [q, hidden],
              p + "self_attn.k_proj": [kv, hidden], p + "self_attn.v_proj": [kv, hidden],
              p + "self_attn.o_proj": [hidden, q], p + "mlp.gate_proj": [ff, hidden], p + "mlp.up_proj": [ff, hidden],
              p + "mlp.down_proj": [hidden, ff]}
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(tmp_path / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    r = subprocess.run([PROGRAM, "describe", "-m", tmp_path, "--json"], capture_output=True, preexec_fn=limit, timeout=20)
    assert r.returncode == 0, r.stderr
    assert json.loads(r.stdout)["bytes"] == at > 2 << 30
    r = subprocess.run([PROGRAM, "inspect", "-m", tmp_path, "--json"], capture_output=True, preexec_fn=limit, timeout=20)
    assert json.loads(r.stdout)["weights_bytes"] == at


def test_inspect():
    d = json.loads(mlxcel_ok("describe", "-m", MODEL, "--json"))
    v = json.loads(mlxcel_ok("inspect", "-m", MODEL, "--json"))
    assert v["context"] == 512 and v["weights_bytes"] == d["bytes"] and v["fits"] is True
    assert v["kv_bytes"] == 512 * d["kv_bytes_per_token"] and v["total_bytes"] > v["weights_bytes"] + v["kv_bytes"]
    v = json.loads(mlxcel_ok("inspect", "-m", MODEL, "-c", 2147483647, "--json"))
    assert v["context"] == 2147483647 and v["kv_bytes"] == 2147483647 * d["kv_bytes_per_token"]
    cache = lambda *more: json.loads(mlxcel_ok("inspect", "-m", MODEL, "--parallel", 4, *more, "--json"))["context"]
    assert cache() == 4 * 512 and cache("-c", 1000) == 1000  # as serve counts
    assert "fits        yes" in mlxcel_ok("inspect", "-m", MODEL)


def test_list(model, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    env = {"MLXCEL_CACHE_DIR": str(store)}
    assert json.loads(mlxcel_ok("list", "--json", env=env)) == []
    (store / "tiny").symlink_to(model)
    [entry] = json.loads(mlxcel_ok("list", "--json", env=env))
    assert entry["name"] == "tiny" and entry["model_type"] == "llama" and entry["bytes"] > 0
    assert "tiny" in mlxcel_ok("list", env=env).splitlines()[1]
    assert mlxcel_ok("generate", "-m", "tiny", "-p", "hello", "-n", 0, env=env) == ""
    assert "tiny" in fault("generate", "-m", "tiyn", "-p", "hello", env=env)


def test_arch():
    v = json.loads(mlxcel_ok("arch", "--json"))
    assert {"llama", "mistral", "qwen2", "qwen3"} <= {f["model_type"] for f in v}
    assert all(set(f) >= {"model_type", "parent", "summary"} for f in v)
    assert all(f["model_type"] in mlxcel_ok("arch") for f in v)


def test_bench():
    v = json.loads(mlxcel_ok("bench", "-m", MODEL, "-p", 16, "-n", 4, "-b", 2, "-r", 2, "--threads", 1, "--json"))
    assert list(v) == ["prefill_tok_s", "prefill_tok_s_min", "prefill_tok_s_max", "decode_tok_s", "decode_tok_s_min",
                       "decode_tok_s_max", "load_s", "peak_rss_bytes", "weights_bytes", "active_bytes",
                       "kv_bytes_per_token", "lora_bytes", "lora_load_s", "lora_scale_s", "depth", "threads",
                       "cpu_level", "precision", "cache_type", "model", "version"]
    assert 0 < v["prefill_tok_s_min"] <= v["prefill_tok_s"] <= v["prefill_tok_s_max"]
    assert 0 < v["decode_tok_s_min"] <= v["decode_tok_s"] <= v["decode_tok_s_max"]
    assert v["threads"] == 1 and v["precision"] == "default" and v["model"] == MODEL.name
    text = mlxcel_ok("bench", "-m", MODEL, "-p", 0, "-n", 4, "-r", 1)
    assert "decode" in text and "prompt" not in text
    assert "-r takes" in usage("bench", "-m", MODEL, "-r", 0)


def test_cache_types():
    """Named by describe, counted by inspect, used by all commands that run a model; contradictions are wrong usage."""
    d = json.loads(mlxcel_ok("describe", "-m", MODEL, "--json"))
    c = d["cache_types"]
    assert c["f16"] == d["kv_bytes_per_token"] and c["f32"] == 2 * c["f16"]
    assert c["f16"] / 2 < c["q8_0"] < c["f16"]  # and the scales
    q8 = ["-ctk", "q8_0", "-ctv", "q8_0"]
    v = json.loads(mlxcel_ok("inspect", "-m", MODEL, "-c", 512, *q8, "--json"))
    assert v["kv_bytes"] == 512 * c["q8_0"]
    for flags, name in ([], "f16"), (q8, "q8_0"), (["--exact"], "f32"), (["--exact", "-ctv", "f32"], "f32"), (
            ["-ctk", "f16"], "f16"), (["-ctv", "f16"], "f16"), (["-ctv", "f32", "-ctk", "f32"], "f32"):
        v = json.loads(mlxcel_ok("bench", "-m", MODEL, "-p", 2, "-n", 1, "-r", 1, "--json", *flags))
        assert v["cache_type"] == name
    for command in (["bench", "-m", MODEL], ["inspect", "-m", MODEL], ["generate", "-m", MODEL, "-p", "a"],
                    ["logits", "-m", MODEL, "--tokens", 1, "-o", "no"], ["run", MODEL, "-p", "a"],
                    ["serve", "-m", MODEL], ["perplexity", "-m", MODEL, "-f", "no"]):
        assert "cache-type-k is q8_0 and cache-type-v is auto" in usage(*command, "-ctk", "q8_0")
        if command[0] != "inspect":
            text = usage(*command, "--exact", "--cache-type-k", "f32", "--cache-type-v", "f16")
            assert "cache-type-v is f16, but precision exact keeps the cache in f32" in text


def test_bench_behind_tokens():
    """Depths within, at and beyond a cache page; the cache is full of earlier runs when the last begins."""
    for depth in 1, 64, 130:
        v = json.loads(mlxcel_ok("bench", "-m", MODEL, "-p", 3, "-n", 2, "-d", depth, "-b", 3, "-r", 4, "--json"))
        assert v["depth"] == depth and v["prefill_tok_s"] > 0 and v["decode_tok_s"] > 0
    assert "behind 130 tokens" in mlxcel_ok("bench", "-m", MODEL, "-p", 3, "-n", 2, "-d", 130, "-r", 1)
    assert "--batch of at most 32" in usage("bench", "-m", MODEL, "-d", 1, "-b", 33)
