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
