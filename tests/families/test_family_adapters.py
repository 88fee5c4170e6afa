"""Adapters over every projection of the families' blocks: what runs beside the base is W + s B A, dense and on 4 bits.

The adapter is drawn over all matrices of the MLX layout but embeddings and heads. Merged by hand into the float32 weights, it
gives the logits that --lora must give.
"""
import array
import json
import random
import struct

from family import FIXTURES, RANK, SCALE, assert_close, check, draw_adapter, each, family, tensors  # noqa: F401
from loralib import write_safetensors

import pytest

from testlib import mlxcel, mlxcel_ok

TOLERANCE = 1e-4  # of the standard deviation of the logits
# One of each kind of block, and every family with experts or latent attention.
ADAPTED = """llama gemma2 phi3 gpt2 gpt_neox stablelm cohere2 olmo2 hunyuan_v1_dense internlm2 apertus
mixtral qwen2_moe qwen3_moe gpt_oss granitemoe olmoe glm4_moe minimax_m2 ernie4_5_moe phimoe dots1 afmoe exaone_moe
solar_open bailing_moe deepseek lfm2_moe deepseek_v2 deepseek_v3 deepseek_v32 glm_moe_dsa glm4_moe_lite kimi_k2 kimi_k25 youtu_llm
minicpm3 longcat_flash longcat_flash_ngram kimi_linear mamba falcon_mamba mamba2 jamba bamba falcon_h1 nemotron_h nemotron_h-moe
granitemoehybrid lfm2 qwen3_next qwen3_5 qwen3_5_moe""".split()
ADAPTED = [name for name in ADAPTED if name in FIXTURES]


def widen(dtype, data):
    if dtype == "F16":
        return array.array("f", struct.unpack(f"<{len(data) // 2}e", data))
    if dtype == "BF16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[::2], data[1::2]
        return array.array("f", bytes(wide))
    assert dtype == "F32"
    return array.array("f", data)


def wide_tensors(model):
    """name -> (shape, values)"""
    return {name: (shape, widen(dtype, data)) for name, (dtype, shape, data) in tensors(model).items()}


def merge(model, pairs, out):
    """The model, all its weights in one file of float32, with the adapter added."""
    merged = wide_tensors(model)
    for name, (n, n_out, n_in, a, b) in pairs.items():
        key = name if name in merged else name + ".weight"
        w = merged[key][1]
        assert len(w) == n * n_out * n_in
        for e in range(n):
            for o in range(n_out):
                at, (b0, b1), (a0, a1) = (e * n_out + o) * n_in, b[e][o], a[e]
                for k in range(n_in):
                    w[at + k] += SCALE * (b0 * a0[k] + b1 * a1[k])
    out.mkdir()
    (out / "config.json").write_bytes((model / "config.json").read_bytes())
    write_safetensors(out / "model.safetensors", merged)


def check_merged(family, model, wide, tmp_path):
    pairs = draw_adapter(model, tmp_path / "adapter")
    assert len(pairs) >= 2
    merge(wide, pairs, tmp_path / "merged")
    needed, base = family.exact(tmp_path / "merged"), family.exact(model)
    found = family.exact(model, "--lora", tmp_path / "adapter")
    assert_close(found, needed, TOLERANCE)
    with pytest.raises(AssertionError):  # it does something
        assert_close(base, needed, 100 * TOLERANCE)


@each(ADAPTED)
def test_adapter_on_dense(family, tmp_path):
    check_merged(family, family.mlx, family.mlx, tmp_path)


@each(ADAPTED)
def test_adapter_on_4_bits(family, tmp_path):
    check_merged(family, family.quantized("affine4"), family.widened("affine4"), tmp_path)


def fused(model, *options, out):
    """What `fuse` makes of the model: its config.json and its tensors."""
    mlxcel_ok("fuse", "-m", model, *options, "--requantize", "-o", out)
    return json.loads((out / "config.json").read_text()), tensors(out)


@each(ADAPTED)
def test_adapter_in_the_original_layout(family, tmp_path):
    """The same file over the checkpoint as Hugging Face has it: at run time, whole and in two parts, and fused."""
    draw_adapter(family.mlx, tmp_path / "adapter")
    options = "--lora", tmp_path / "adapter"
    assert_close(family.exact(family.hf, *options), family.exact(family.mlx, *options), TOLERANCE)
    check("check_range", family.hf, tmp_path / "adapter")
    assert fused(family.hf, *options, out=tmp_path / "a") == fused(family.mlx, *options, out=tmp_path / "b")


def write_peft(folder, tensors, draw, copy=1.0):
    """An adapter of PEFT over the original's tensors, name -> (shape, values): pairs for its matrices, norms saved whole, and
    a copy of a weight of the base, times `copy`. The tensors become those of the model that it was trained to."""
    files = {}
    for name, (shape, values) in tensors.items():
        module = "base_model.model." + name.removesuffix(".weight")
        if "norm" in name:
            values[:] = array.array("f", (x + draw.uniform(-0.5, 0.5) for x in values))
            files[module + ".weight"] = shape, values
        elif len(shape) == 2 and name.endswith("proj.weight") and "experts" not in name:
            out, n_in = shape
            a = array.array("f", (draw.gauss(0, 0.2) for _ in range(RANK * n_in)))
            b = array.array("f", (draw.gauss(0, 0.1) for _ in range(out * RANK)))
            files[module + ".lora_A.weight"], files[module + ".lora_B.weight"] = ([RANK, n_in], a), ([out, RANK], b)
            if name.endswith("o_proj.weight"):
                files[module + ".base_layer.weight"] = shape, array.array("f", (copy * x for x in values))
            for o in range(out):
                for k in range(n_in):
                    values[o * n_in + k] += SCALE * sum(b[o * RANK + r] * a[r * n_in + k] for r in range(RANK))
    folder.mkdir()
    write_safetensors(folder / "adapter_model.safetensors", files)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK * SCALE, "modules_to_save": ["norm"]}))


@each(["falcon_h1", "qwen3_next"])
def test_peft_speaks_of_the_original_model(family, tmp_path):
    """Its pairs are multiplied where the MLX layout holds the model's factors, its norms get the 1 that is in MLX's."""
    values = wide_tensors(family.hf)
    write_peft(tmp_path / "adapter", values, random.Random(7))
    (tmp_path / "merged").mkdir()
    (tmp_path / "merged/config.json").write_bytes((family.hf / "config.json").read_bytes())
    write_safetensors(tmp_path / "merged/model.safetensors", values)
    needed = family.exact(tmp_path / "merged")
    for model in family.hf, family.mlx:
        assert_close(family.exact(model, "--lora", tmp_path / "adapter"), needed, 1e-3)
    r = mlxcel("lora", "convert", tmp_path / "adapter", "--to", "mlx", "-m", family.mlx, "-o", tmp_path / "other")
    assert (b"q_proj changes a layer that MLX stores times" in r.stderr) == (family.name == "falcon_h1"), r.stderr


@each(["falcon_h1"])
def test_copies_are_of_the_original_model(family, tmp_path):
    """A weight of the base that PEFT left in its file is compared with what the MLX layout holds times a factor."""
    for copy, refused in (1.0, False), (1.02, True):
        write_peft(tmp_path / f"{copy}", wide_tensors(family.hf), random.Random(7), copy)
        r = mlxcel("lora", "inspect", tmp_path / f"{copy}", "-m", family.mlx)
        assert (b"o_proj.base_layer.weight is a copy of the base's weight" in r.stdout + r.stderr) == refused, r


# Family -> part of the names of its experts, what transformers 5 has in its place, and what it calls the router. Its
# checkpoints have other names; PEFT's files have these.
RENAMED = {
    "mixtral": ("block_sparse_moe.", "mlp.", "mlp.gate"),
    "phimoe": ("block_sparse_moe.", "mlp.", "mlp.router"),
    "minimax_m2": ("block_sparse_moe.", "mlp.", "mlp.gate"),
    "granitemoe": ("", "", None),
    "granitemoehybrid": ("", "", None),
    "lfm2_moe": ("", "", None),
    "kimi_linear": ("", "", None),
    "nemotron_h-moe": ("backbone.", "model.", None),
}


def stack_pairs(pairs, rank):
    """PEFT's A [n * rank, in] and B [out, n * rank], the experts of B innermost, of matrices one below the other."""
    n, n_in = pairs[0][0], pairs[0][2]
    a, b = array.array("f"), []
    for e in range(n):
        rows = [row for p in pairs for row in p[3][e]]
        for row in rows + [array.array("f", bytes(4 * n_in))] * (rank - len(rows)):
            a += row
    for i, p in enumerate(pairs):
        for o in range(p[1]):
            for r in range(rank):
                b += [p[4][e][o][r - i * RANK] if i * RANK <= r < (i + 1) * RANK else 0.0 for e in range(n)]
    return ([n * rank, n_in], a), ([len(b) // (n * rank), n * rank], b)


@each([f for f in RENAMED if f in FIXTURES])
def test_names_of_transformers_5(family, tmp_path):
    """Experts that a checkpoint has one by one, or under another name, are one fused parameter of a module there."""
    old, new, router = RENAMED[family.name]
    pairs, mine, peft, targets = draw_adapter(family.mlx, tmp_path / "all"), {}, {}, set()
    drawn = tensors(tmp_path / "all")
    for name, pair in pairs.items():
        if name.endswith(".gate") and router:
            hf = name.replace("block_sparse_moe.gate", router)
            (_, _, n_in, a, b), zero = pair, [0.0] * RANK
            peft[hf + ".lora_A.weight"] = [2 * RANK, n_in], [x for row in a[0] for x in row] + [0.0] * (RANK * n_in)
            peft[hf + ".lora_B.weight"] = [len(b[0]), 2 * RANK], [x for row in b[0] for x in [*row, *zero]]
        elif name.endswith((".down_proj", ".fc2")) and "switch_mlp" in name:
            first = [name.replace("down_proj", "gate_proj"), name.replace("down_proj", "up_proj")]
            if name.endswith("fc2"):
                first = [name.replace("fc2", "fc1")]
            module = name.rsplit(".switch_mlp", 1)[0].replace(old, new) + ".experts"
            inner, outer = stack_pairs([pairs[f] for f in first], 2 * RANK), stack_pairs([pair], 2 * RANK)
            peft[module + ".base_layer.lora_A.weight"], peft[module + ".base_layer.lora_B.weight"] = inner
            peft[module + ".lora_A.weight"], peft[module + ".lora_B.weight"] = outer
            targets |= {"experts." + ("up_proj" if name.endswith("fc2") else "gate_up_proj"), "experts.down_proj"}
            for used in [name, *first]:
                mine |= {used + half: drawn[used + half] for half in (".lora_a", ".lora_b")}
            continue
        else:
            continue
        mine |= {name + half: drawn[name + half] for half in (".lora_a", ".lora_b")}
    (tmp_path / "mlx").mkdir()
    write_safetensors(tmp_path / "mlx/adapters.safetensors", {n: (s, widen(d, v)) for n, (d, s, v) in mine.items()})
    (tmp_path / "mlx/adapter_config.json").write_bytes((tmp_path / "all/adapter_config.json").read_bytes())
    (tmp_path / "peft").mkdir()
    write_safetensors(tmp_path / "peft/adapter_model.safetensors",
                      {"base_model.model." + n: t for n, t in peft.items()})
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 2 * RANK, "lora_alpha": 2 * RANK * SCALE, "target_parameters": sorted(targets)}))
    needed = family.exact(family.mlx, "--lora", tmp_path / "mlx")
    for model in family.mlx, family.hf:
        assert_close(family.exact(model, "--lora", tmp_path / "peft"), needed, TOLERANCE)
    check_converted(family, tmp_path, drawn)


def check_converted(family, tmp_path, known):
    """With a model `convert` gives PEFT's modules the names that mlx-lm knows, and the same bytes of logits."""
    mlxcel_ok("lora", "convert", tmp_path / "peft", "--to", "mlx", "-m", family.mlx, "-o", tmp_path / "converted")
    assert tensors(tmp_path / "converted").keys() <= known.keys()
    assert family.exact(family.mlx, "--lora", tmp_path / "converted") == family.exact(
        family.mlx, "--lora", tmp_path / "peft")


@each(["qwen3_moe"])
def test_experts_one_by_one(family, tmp_path):
    """As transformers 4 has them: each a module, here of all experts but the first."""
    pairs, peft = draw_adapter(family.mlx, tmp_path / "mlx"), {}
    for name, (n, out, n_in, a, b) in pairs.items():
        for e in range(1, n):
            hf = "base_model.model." + name.replace("switch_mlp", f"experts.{e}")
            peft[hf + ".lora_A.weight"] = [RANK, n_in], [x for row in a[e] for x in row]
            peft[hf + ".lora_B.weight"] = [out, RANK], [x for row in b[e] for x in row]
    (tmp_path / "peft").mkdir()
    write_safetensors(tmp_path / "peft/adapter_model.safetensors", peft)
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK * SCALE}))
    check_converted(family, tmp_path, tensors(tmp_path / "mlx"))
    assert_close(family.exact(family.hf, "--lora", tmp_path / "peft"),
                 family.exact(family.mlx, "--lora", tmp_path / "peft"), TOLERANCE)


@each(["gpt2"])
def test_names_of_the_original_files(family, tmp_path):
    """PEFT calls modules "transformer.h.0.attn.c_attn" and saves norms as "transformer.ln_f"; several rules say so."""
    pairs, peft = draw_adapter(family.mlx, tmp_path / "mlx"), {}
    for name, (_, out, n_in, a, b) in pairs.items():
        hf = "base_model.model." + name.replace("model.", "transformer.", 1)
        peft[hf + ".lora_A.weight"] = [RANK, n_in], [x for row in a[0] for x in row]
        peft[hf + ".lora_B.weight"] = [out, RANK], [x for row in b[0] for x in row]
    for name, (shape, values) in wide_tensors(family.mlx).items():
        if ".ln_" in name:
            peft["base_model.model." + name.replace("model.", "transformer.", 1)] = shape, values
    (tmp_path / "peft").mkdir()
    write_safetensors(tmp_path / "peft/adapter_model.safetensors", peft)
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK * SCALE, "fan_in_fan_out": True,
         "modules_to_save": ["ln_1", "ln_2", "ln_f"]}))
    needed = family.exact(family.mlx, "--lora", tmp_path / "mlx")
    for model in family.mlx, family.hf:
        assert_close(family.exact(model, "--lora", tmp_path / "peft"), needed, TOLERANCE)


@pytest.mark.parametrize("fan_in_fan_out", [False, True])
@each(["gpt2"])
def test_saved_matrices_are_stored_as_in_the_original(family, fan_in_fan_out, tmp_path):
    """[in, out], also square ones, whatever the flag is, which speaks of the modules that have pairs."""
    merged, saved = wide_tensors(family.hf), {}
    for name, (shape, values) in merged.items():
        if name.endswith("c_proj.weight"):
            values[:] = array.array("f", (v + 0.1 * ((i * 7) % 11 - 5) for i, v in enumerate(values)))
            saved["base_model.model.transformer." + name] = shape, values
    (tmp_path / "merged").mkdir()
    (tmp_path / "merged/config.json").write_bytes((family.hf / "config.json").read_bytes())
    write_safetensors(tmp_path / "merged/model.safetensors", merged)
    (tmp_path / "peft").mkdir()
    write_safetensors(tmp_path / "peft/adapter_model.safetensors", saved)
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 1, "fan_in_fan_out": fan_in_fan_out, "modules_to_save": ["c_proj"]}))
    assert_close(family.exact(family.mlx, "--lora", tmp_path / "peft"), family.exact(tmp_path / "merged"), TOLERANCE)


@each(["phi3"])
def test_two_doras_on_parts_of_one_weight(family, tmp_path):
    """One on the queries, one on the values of a fused projection: together they are the one that has both."""
    draw, width = random.Random(5), json.loads((family.mlx / "config.json").read_text())["hidden_size"]
    facts = json.loads(mlxcel_ok("describe", "-m", family.mlx, "--json"))
    config = json.loads((family.mlx / "config.json").read_text())
    head = width // config["num_attention_heads"]
    rows = {"q_proj": width, "v_proj": head * config["num_key_value_heads"]}
    parts = {part: {f"model.layers.{i}.self_attn.{part}.{half}": (shape, [draw.uniform(0.1, 0.4) for _ in range(
        shape[0] * shape[-1] if len(shape) > 1 else shape[0])]) for i in range(facts["layers"])
        for half, shape in (("lora_a", [width, RANK]), ("lora_b", [RANK, n]), ("m", [n]))} for part, n in rows.items()}
    for name, tensors_of in (*parts.items(), ("both", {**parts["q_proj"], **parts["v_proj"]})):
        (tmp_path / name).mkdir()
        write_safetensors(tmp_path / name / "adapters.safetensors", tensors_of)
        (tmp_path / name / "adapter_config.json").write_text(json.dumps(
            {"fine_tune_type": "dora", "lora_parameters": {"rank": RANK, "scale": SCALE}}))
    both = family.exact(family.mlx, "--lora", tmp_path / "both")
    options = "--lora", tmp_path / "q_proj", "--lora", tmp_path / "v_proj"
    assert_close(family.exact(family.mlx, *options), both, 1e-6)
    assert fused(family.mlx, *options, out=tmp_path / "a") == fused(family.mlx, "--lora", tmp_path / "both",
                                                                   out=tmp_path / "b")
    refused = mlxcel("logits", "-m", family.mlx, "--tokens", "1", *options[:2], "--lora", tmp_path / "both", "-o",
                     tmp_path / "out")
    assert b"both have DoRA on model.layers.0.self_attn.qkv_proj" in refused.stderr, refused.stderr


def rounded(dtype, values):
    """As a tensor of the type can hold them."""
    if dtype == "F16":
        return widen("F16", struct.pack(f"<{len(values)}e", *values))
    raw = bytearray(values.tobytes())
    if dtype == "BF16":
        raw[0::4] = raw[1::4] = bytes(len(values))
    return array.array("f", bytes(raw))


@each([f for f in "gpt2 stablelm apertus gpt_oss deepseek_v2 kimi_linear mamba qwen3_next nemotron_h-moe".split()
       if f in FIXTURES])
def test_every_parameter_replaced(family, tmp_path):
    """A full adapter of all that a model has, norms' biases and recurrences' vectors too, makes another model of it."""
    draw, other = random.Random(3), wide_tensors(family.mlx)
    for name, (dtype, _, _) in tensors(family.mlx).items():
        shape, v = other[name]
        v = array.array("f", (x * (1 + draw.uniform(-0.3, 0.3)) + draw.uniform(-0.01, 0.01) for x in v))
        other[name] = shape, rounded(dtype, v)
    for folder, file in ("model", "model.safetensors"), ("full", "adapters.safetensors"):
        (tmp_path / folder).mkdir()
        write_safetensors(tmp_path / folder / file, other)
    (tmp_path / "model/config.json").write_bytes((family.mlx / "config.json").read_bytes())
    (tmp_path / "full/adapter_config.json").write_text('{"fine_tune_type": "full", "lora_parameters": null}')
    needed = family.exact(tmp_path / "model")
    for how in "--lora", "--adapter":
        assert_close(family.exact(family.mlx, how, tmp_path / "full"), needed, TOLERANCE)
