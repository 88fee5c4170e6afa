"""How the planes of latent attention's heads may be stored, case by case: kv_b_proj whole, split, or both, in any mode.

Each row of REFUSED and RUNS is one checkpoint: a tiny model of the family with one thing changed. `describe`, which reads
headers only, and a load say the same words.
"""
import array
import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from testlib import mlxcel, read_safetensors, std
from tiny import Model, count, safetensors

HEADS, NOPE, ROPE, V, RANK, WIDTH, FF = 4, 32, 4, 16, 64, 32, 64
AT = "model.layers.1.self_attn."
KV_B, EMBED_Q, UNEMBED = AT + "kv_b_proj", AT + "embed_q", AT + "unembed_out"
SIZE = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "U8": 1, "F8_E4M3": 1}


def latent(family="deepseek_v3", split=False):
    """Two dense layers of latent attention over the tiny model's vocabulary."""
    m = Model()
    m.config.update(model_type=family, kv_lora_rank=RANK, q_lora_rank=None, qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE,
                    v_head_dim=V, num_key_value_heads=HEADS, n_routed_experts=None)
    del m.config["head_dim"]
    del m.config["quantization"]
    for name in [n for n in m.tensors if "self_attn" in n or "mlp" in n]:
        del m.tensors[name]
    for layer in range(2):
        p = f"model.layers.{layer}.mlp."
        m.dense(p + "gate_proj.weight", [FF, WIDTH])
        m.dense(p + "up_proj.weight", [FF, WIDTH])
        m.dense(p + "down_proj.weight", [WIDTH, FF])
        p = f"model.layers.{layer}.self_attn."
        m.dense(p + "q_proj.weight", [HEADS * (NOPE + ROPE), WIDTH])
        m.dense(p + "kv_a_proj_with_mqa.weight", [RANK + ROPE, WIDTH])
        m.dense(p + "kv_a_layernorm.weight", [RANK])
        m.dense(p + "o_proj.weight", [WIDTH, HEADS * V])
        if split:
            m.dense(p + "embed_q.weight", [HEADS, RANK, NOPE])
            m.dense(p + "unembed_out.weight", [HEADS, V, RANK])
        else:
            m.dense(p + "kv_b_proj.weight", [HEADS * (NOPE + V), RANK])
    return m


def put(name, dtype, *shape):
    return lambda m: m.tensors.update({name: (dtype, list(shape), bytes(count(shape) * SIZE[dtype]))})


def drop(*names):
    return lambda m: [m.tensors.pop(name) for name in names]


def planes(module, *shape, bits=4, group=32, scale="F16", biases=True):
    """The planes of a module [..., rows, inputs] in codes."""
    def change(m):
        m.tensors.pop(module + ".weight", None)
        put(module + ".weight", "U32", *shape[:-1], shape[-1] * bits // 32)(m)
        put(module + ".scales", scale, *shape[:-1], shape[-1] // group)(m)
        if biases:
            put(module + ".biases", scale, *shape[:-1], shape[-1] // group)(m)
    return change


def fp8(m):
    put(KV_B + ".weight", "F8_E4M3", HEADS * (NOPE + V), RANK)(m)
    put(KV_B + ".weight_scale_inv", "F32", 2, 1)(m)


def config(**fields):
    return lambda m: m.config.update(fields)


def both(*changes):
    return lambda m: [change(m) for change in changes]


WHOLE = (HEADS * (NOPE + V), RANK)
PAIR = both(put(EMBED_Q + ".weight", "F16", HEADS, RANK, NOPE), put(UNEMBED + ".weight", "F16", HEADS, V, RANK))

# What is changed of whole or split, and the words of the one error.
REFUSED = {
    "scales without biases": (False, planes(KV_B, *WHOLE, biases=False),
                              [f"{KV_B}.scales", f"'{KV_B}.biases' is in no file", "has scales but no biases"]),
    "split: scales without biases": (True, planes(EMBED_Q, HEADS, RANK, NOPE, biases=False),
                                     [f"'{EMBED_Q}.biases' is in no file", "has scales but no biases"]),
    "too few rows": (False, put(KV_B + ".weight", "F16", 188, RANK), [f"{KV_B}.weight is F16 [188, 64]", "[192, 64]"]),
    "too many rows": (False, put(KV_B + ".weight", "F16", 196, RANK), [f"{KV_B}.weight is F16 [196, 64]", "[192, 64]"]),
    "another rank": (False, put(KV_B + ".weight", "F16", 192, 32), [f"{KV_B}.weight is F16 [192, 32]", "[192, 64]"]),
    "transposed": (False, put(KV_B + ".weight", "F16", 64, 192), [f"{KV_B}.weight is F16 [64, 192]", "[192, 64]"]),
    "three dimensions": (False, put(KV_B + ".weight", "F16", HEADS, 48, RANK), [f"{KV_B}.weight is F16 [4, 48, 64]", "[192, 64]"]),
    "one dimension": (False, put(KV_B + ".weight", "F16", 192), [f"{KV_B}.weight is F16 [192]", "[192, 64]"]),
    "empty": (False, put(KV_B + ".weight", "F16", 0, 64), [f"{KV_B}.weight is F16 [0, 64]", "[192, 64]"]),
    "of type I32": (False, put(KV_B + ".weight", "I32", *WHOLE), [f"{KV_B}.weight is I32", "F32, F16 or BF16"]),
    "codes alone": (False, put(KV_B + ".weight", "U32", 192, 8), [f"{KV_B}.weight is U32 [192, 8]", "scales"]),
    "codes of other rows": (False, planes(KV_B, 188, RANK), [f"{KV_B}.weight is U32 [188, 8]", "192"]),
    "codes of another rank": (False, planes(KV_B, 192, 128), [KV_B, "rows of 64 inputs"]),
    "of 7 bits": (False, both(planes(KV_B, *WHOLE), put(KV_B + ".weight", "U32", 192, 14)), [KV_B, "7 bits in groups of 32"]),
    "bytes with biases": (False, planes(KV_B, *WHOLE, scale="U8"), [f"{KV_B}.biases", "U8"]),
    "FP8 without scales": (False, both(fp8, drop(KV_B + ".weight_scale_inv")), [KV_B, "F8_E4M3", "weight_scale_inv"]),
    "FP8 with other tiles": (False, both(fp8, put(KV_B + ".weight_scale_inv", "F32", 1, 1)), [KV_B, "[2, 1]"]),
    "nothing": (False, drop(KV_B + ".weight"), [f"{EMBED_Q}.weight is in no file", f"{UNEMBED}.weight is in no file"]),
    "half a pair": (True, drop(UNEMBED + ".weight"), [f"{UNEMBED}.weight is in no file", "[4, 16, 64]"]),
    "the other half": (True, drop(EMBED_Q + ".weight"), [f"{EMBED_Q}.weight is in no file", "[4, 64, 32]"]),
    "embed_q untransposed": (True, put(EMBED_Q + ".weight", "F16", HEADS, NOPE, RANK), [f"{EMBED_Q}.weight is F16 [4, 32, 64]", "[4, 64, 32]"]),
    "unembed_out of other heads": (True, put(UNEMBED + ".weight", "F16", 3, V, RANK), [f"{UNEMBED}.weight is F16 [3, 16, 64]", "[4, 16, 64]"]),
    "config: other heads": (False, config(num_attention_heads=5, num_key_value_heads=5), [f"{KV_B}.weight is F16 [192, 64]", "[240, 64]"]),
    "config: other nope": (False, config(qk_nope_head_dim=28), [f"{KV_B}.weight is F16 [192, 64]", "[176, 64]"]),
    "config: key heads": (False, config(num_key_value_heads=2), ["num_key_value_heads is 2", "num_attention_heads (4)"]),
    "config: no rank": (False, config(kv_lora_rank=0), ["kv_lora_rank is 0"]),
    "config: negative": (False, config(v_head_dim=-1), ["v_head_dim is -1"]),
    "config: absurd": (False, config(qk_nope_head_dim=1 << 40), ["qk_nope_head_dim is 1099511627776"]),
    "config: odd rope": (False, config(qk_rope_head_dim=3), ["is 3", "even"]),
}

RUNS = {
    "whole": (False, []),
    "split": (True, []),
    "4 bits": (False, planes(KV_B, *WHOLE)),
    "8 bits in groups of 64": (False, planes(KV_B, *WHOLE, bits=8, group=64)),
    "3 bits": (False, planes(KV_B, *WHOLE, bits=3)),
    "mxfp4": (False, planes(KV_B, *WHOLE, scale="U8", biases=False)),
    "mxfp8": (False, planes(KV_B, *WHOLE, bits=8, scale="U8", biases=False)),
    "nvfp4": (False, planes(KV_B, *WHOLE, group=16, scale="U8", biases=False)),
    "FP8": (False, fp8),
    "split: 4 bits": (True, both(planes(EMBED_Q, HEADS, RANK, NOPE), planes(UNEMBED, HEADS, V, RANK))),
    "split: one of them": (True, planes(UNEMBED, HEADS, V, RANK, bits=8)),
    "split: each its own mode": (True, both(planes(EMBED_Q, HEADS, RANK, NOPE, bits=8, scale="U8", biases=False),
                                            planes(UNEMBED, HEADS, V, RANK, bits=2))),
}


def write(m, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    m["model.safetensors"] = safetensors(m.tensors)
    m["config.json"] = json.dumps(m.config).encode()
    for name, content in m.items():
        (folder / name).write_bytes(content)
    return folder


def made(tmp_path, split, change, family="deepseek_v3"):
    m = latent(family, split)
    for f in change if isinstance(change, list) else [change]:
        f(m)
    return write(m, tmp_path)


def run(folder):
    return mlxcel("logits", "-m", folder, "--tokens", "1,2,3,4", "-o", folder.parent / "o.safetensors")


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    split, change, words = REFUSED[case]
    folder = made(tmp_path, split, change)
    for r in run(folder), mlxcel("describe", "-m", folder):
        text = r.stderr.decode()
        assert r.returncode == 1, text
        for word in words:
            assert word in text, text


@pytest.mark.parametrize("case", [case for case, (split, _, _) in REFUSED.items() if not split])
def test_refused_where_mlx_keeps_kv_b_proj(case, tmp_path):
    folder = made(tmp_path, False, REFUSED[case][1], "deepseek_v2")
    text = run(folder).stderr.decode()
    assert mlxcel("describe", "-m", folder).stderr.decode() == text
    assert EMBED_Q not in text and ("config" in case or (KV_B in text and "; " not in text)), text


@pytest.mark.parametrize("family", ["deepseek_v3", "deepseek_v2"])
@pytest.mark.parametrize("case", RUNS)
def test_runs(case, family, tmp_path):
    split, change = RUNS[case]
    folder = made(tmp_path, split, change, family)
    r = run(folder)
    assert r.returncode == 0, r.stderr.decode()
    assert mlxcel("describe", "-m", folder).stderr == r.stderr
    assert all("is declared dense" in line for line in r.stderr.decode().splitlines()), r.stderr.decode()


@pytest.mark.parametrize("family", ["deepseek_v3", "deepseek_v2"])
@pytest.mark.parametrize("bits, said", [(4, ""), (8, f"{KV_B} is declared affine 8 bits group 32 but stored affine 4")])
def test_what_config_says_of_kv_b_proj(family, bits, said, tmp_path):
    quantization = {"group_size": 64, "bits": 8, KV_B: {"group_size": 32, "bits": bits}}
    folder = made(tmp_path, False, [planes(KV_B, *WHOLE), config(quantization=quantization)], family)
    text = run(folder).stderr.decode()
    assert mlxcel("describe", "-m", folder).stderr.decode() == text
    assert said in text and bool(text) == bool(said), text


def test_leftover_is_one_warning(tmp_path):
    """The pair wins, whatever the leftover is."""
    m = latent(split=True)
    alone = write(m, tmp_path / "a" if (tmp_path / "a").mkdir() is None else None)
    assert run(alone).returncode == 0
    want = (tmp_path / "a" / "o.safetensors").read_bytes()
    for layer in range(2):
        put(f"model.layers.{layer}.self_attn.kv_b_proj.weight", "F16", 7, 3)(m)
    (tmp_path / "b").mkdir()
    r = run(write(m, tmp_path / "b"))
    assert r.returncode == 0, r.stderr.decode()
    assert (tmp_path / "b" / "o.safetensors").read_bytes() == want
    lines = [line for line in r.stderr.decode().splitlines() if "kv_b_proj" in line]
    assert len(lines) == 1 and "warning" in lines[0].lower(), r.stderr.decode()


# --- adapters ---------------------------------------------------------------------------------------------------------

LORA_RANK, LORA_SCALE = 3, 2.0


def floats(values):
    return array.array("f", values).tobytes()


def adapter(folder, rng):
    """An adapter on kv_b_proj of layer 1 in mlx-lm's format; its A [in, rank] and B [rank, out]."""
    a = [rng.uniform(-0.3, 0.3) for _ in range(RANK * LORA_RANK)]
    b = [rng.uniform(-0.3, 0.3) for _ in range(LORA_RANK * WHOLE[0])]
    folder.mkdir()
    (folder / "adapters.safetensors").write_bytes(safetensors({
        KV_B + ".lora_a": ("F32", [RANK, LORA_RANK], floats(a)), KV_B + ".lora_b": ("F32", [LORA_RANK, WHOLE[0]], floats(b))}))
    (folder / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": {
        "rank": LORA_RANK, "scale": LORA_SCALE, "dropout": 0.0}}))
    return array.array("f", floats(a)), array.array("f", floats(b))


def changed(values, a, b):
    """W + s B A of a matrix [out, in]."""
    return [w + LORA_SCALE * sum(a[i % RANK * LORA_RANK + r] * b[r * WHOLE[0] + i // RANK] for r in range(LORA_RANK))
            for i, w in enumerate(values)]


def split_of(values):
    """embed_q and unembed_out of kv_b_proj's values."""
    rows = [values[i:i + RANK] for i in range(0, len(values), RANK)]
    embed, unembed = [], []
    for head in range(HEADS):
        at = rows[head * (NOPE + V):(head + 1) * (NOPE + V)]
        embed += [at[d][r] for r in range(RANK) for d in range(NOPE)]
        unembed += [x for row in at[NOPE:] for x in row]
    return embed, unembed


def logits(folder, *options):
    out = folder.parent / "logits.safetensors"
    out.unlink(missing_ok=True)
    r = mlxcel("logits", "-m", folder, "--exact", "--tokens", "1,2,3,4,5,6", *options, "-o", out)
    assert r.returncode == 0, r.stderr.decode()
    return read_safetensors(out)["logits"][1]


def model_with(folder, values, split):
    """The tiny model with these values of kv_b_proj in layer 1, dense F32."""
    m = latent()
    del m.tensors[KV_B + ".weight"]
    if split:
        embed, unembed = split_of(values)
        m.tensors[EMBED_Q + ".weight"] = ("F32", [HEADS, RANK, NOPE], floats(embed))
        m.tensors[UNEMBED + ".weight"] = ("F32", [HEADS, V, RANK], floats(unembed))
    else:
        m.tensors[KV_B + ".weight"] = ("F32", list(WHOLE), floats(values))
    folder.mkdir()
    return write(m, folder)


@pytest.mark.parametrize("split", [False, True])
def test_adapter_on_kv_b_proj(split, tmp_path):
    rng = random.Random(11)
    values = [rng.uniform(-0.3, 0.3) for _ in range(count(WHOLE))]
    a, b = adapter(tmp_path / "lora", rng)
    base = model_with(tmp_path / "base", values, split)
    want = logits(model_with(tmp_path / "changed", changed(values, a, b), not split))
    found, plain = logits(base, "--lora", tmp_path / "lora"), logits(base)
    bound = 1e-4 * std(want)
    assert max(abs(x - y) for x, y in zip(found, want)) <= bound
    assert max(abs(x - y) for x, y in zip(plain, want)) > 100 * bound


@pytest.mark.parametrize("change, form", [(planes(KV_B, *WHOLE), "affine 4 bits group 32"),
                                          (fp8, "fp8 tiles of 128 x 128")])
def test_fusing_asks_first_where_heads_are_quantized(change, form, tmp_path):
    """They are decoded when they are loaded; yet to fuse, without more ado, would lose a part of the change."""
    base = made(tmp_path, False, change)
    adapter(tmp_path / "lora", random.Random(11))
    what = ["fuse", "-m", base, "--adapter", tmp_path / "lora", "-o", tmp_path / "out"]
    r = mlxcel(*what)
    text = r.stderr.decode()
    assert r.returncode == 1, text
    for module in EMBED_Q, UNEMBED:
        assert (f"{module} is quantized ({form}): run the adapter beside it with --lora, or fuse with --dequantize or "
                "--requantize") in text, text
    assert not (tmp_path / "out").exists()
    r = mlxcel(*what, "--dequantize")
    assert r.returncode == 0, r.stderr.decode()
