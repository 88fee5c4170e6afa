"""quantize, dequantize and convert of directories, against mlx-lm's convert (tests/data/quant/convert.json, made by
tools/make_convert_reference.py)."""
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import struct
import subprocess

import pytest

from clilib import fault, peak_memory, stop, usage
from testlib import DATA, PROGRAM, mlxcel, mlxcel_ok, safetensors_header, stored_tensors

TINY = DATA / "tiny"
CASES = json.loads((DATA / "quant" / "convert.json").read_text())
TOKENS = ",".join(str(i * 37 % 271) for i in range(30))


def planes(path):
    """name -> [dtype, shape, 16 digits of sha256], and whether every tensor is aligned to its type."""
    header, start = safetensors_header(path.read_bytes())
    size = {"U32": 4, "F32": 4, "F16": 2, "BF16": 2, "U8": 1}
    for name, t in header.items():
        assert (start + t["data_offsets"][0]) % size[t["dtype"]] == 0, name
    return unaligned_planes(path)


def logits(model, tmp_path, *options):
    out = tmp_path / "logits.safetensors"
    mlxcel_ok("logits", "-m", model, "--tokens", TOKENS, "--exact", "-o", out, "--force", *options)
    return out.read_bytes()


def quantize(out, *options, source=TINY):
    r = mlxcel("quantize", "-m", source, "-o", out, *options)
    assert r.returncode == 0, r.stderr
    assert r.stdout == b""
    return r.stderr.decode()


@pytest.mark.parametrize("name", CASES)
def test_equal_to_mlx_lm(name, tmp_path):
    case = CASES[name]
    quantize(tmp_path / "q", *case["options"])
    assert planes(tmp_path / "q" / "model.safetensors") == case["planes"]
    config = json.loads((tmp_path / "q" / "config.json").read_text())
    assert config["quantization_config"] == config["quantization"]
    assert config["quantization"] == case["quantization"]


def test_files_of_the_output(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(TINY, source)
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = config["quantization"] = None
    (source / "config.json").write_text(json.dumps(config).replace('"rope_theta": 10000.0', '"rope_theta": 1e4, "x": [Infinity, "a\\"},"]'))
    (source / "merges.txt").write_text("a b\n")
    (source / "old.bin").write_text("weights")
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "tool_use.jinja").write_text("{{ 1 }}")
    quantize(tmp_path / "q", source=source)
    names = sorted(p.name for p in (tmp_path / "q").iterdir())
    assert names == ["additional_chat_templates", "config.json", "generation_config.json", "merges.txt", "model.safetensors",
                     "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"]
    text = (tmp_path / "q" / "config.json").read_text()
    assert '"rope_theta": 1e4,' in text and '"x": [Infinity, "a\\"},"],' in text
    assert json.loads(text)["quantization"] == {"group_size": 64, "bits": 4, "mode": "affine"}
    index = json.loads((tmp_path / "q" / "model.safetensors.index.json").read_text())
    assert sorted(index["weight_map"]) == sorted(planes(tmp_path / "q" / "model.safetensors"))
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "home") == ["q", "source"]


def test_what_a_group_does_not_divide_stays_dense(tmp_path):
    said = quantize(tmp_path / "q")
    assert "2 matrices stay dense, since groups do not divide their width: model.layers.0.mlp.down_proj (96 inputs, groups of 64)" in said
    assert "warning" not in quantize(tmp_path / "q32", "--group-size", "32")


def test_rules(tmp_path):
    quantize(tmp_path / "q", "--group-size", "32", "--q", "mlp.*=affine:8:32", "--q", "layers.1.*=mxfp4", "--q",
             "embed_tokens=dense", "--q", "v_proj=nvfp4", "--q", "lm_head=affine:6")
    tensors = json.loads(mlxcel_ok("describe", "-m", tmp_path / "q", "--json"))
    assert tensors["warnings"] == []
    stored = {t["name"]: t["stored_as"] for t in tensors["tensors"]}
    assert stored["model.embed_tokens"] == "BF16"
    assert stored["lm_head"] == "affine 6 bits group 64"
    assert stored["model.layers.0.self_attn.q_proj"] == "affine 4 bits group 32"
    assert stored["model.layers.0.mlp.up_proj"] == "affine 8 bits group 32"
    assert stored["model.layers.1.mlp.up_proj"] == "mxfp4 4 bits group 32"
    assert stored["model.layers.0.self_attn.v_proj"] == stored["model.layers.1.self_attn.v_proj"] == "nvfp4 4 bits group 16"
    assert stored["model.layers.0.input_layernorm"] == "BF16"


@pytest.mark.parametrize("options", [["--bits", "3"], ["--mode", "mxfp4"], ["--mode", "mxfp8"], ["--mode", "nvfp4"]])
def test_dequantized_in_float32_is_the_same_model(options, tmp_path):
    quantize(tmp_path / "q", "--dtype", "float32", *options)
    mlxcel_ok("dequantize", "-m", tmp_path / "q", "-o", tmp_path / "d", "--dtype", "float32")
    found = planes(tmp_path / "d" / "model.safetensors")
    assert {p[0] for p in found.values()} == {"F32"} and len(found) == 21
    config = json.loads((tmp_path / "d" / "config.json").read_text())
    assert "quantization" not in config and config["torch_dtype"] == "float32"
    assert logits(tmp_path / "d", tmp_path) == logits(tmp_path / "q", tmp_path)


def test_convert_of_fp8_is_the_model_in_bfloat16(tmp_path):
    source = DATA / "arch" / "qwen3-fp8-bf16"
    mlxcel_ok("convert", source, "-o", tmp_path / "c")
    assert {p[0] for p in planes(tmp_path / "c" / "model.safetensors").values()} == {"BF16"}
    assert "quantization_config" not in json.loads((tmp_path / "c" / "config.json").read_text())
    ids = ",".join(str(i) for i in range(20))
    bytes_of = {}
    for m in (source, tmp_path / "c"):
        mlxcel_ok("logits", "-m", m, "--tokens", ids, "-o", tmp_path / "l", "--force")
        bytes_of[m] = (tmp_path / "l").read_bytes()
    assert bytes_of[source] == bytes_of[tmp_path / "c"]


def test_convert_q_is_quantize(tmp_path):
    quantize(tmp_path / "a", "--mode", "mxfp8")
    mlxcel_ok("convert", TINY, "-q", "--q-mode", "mxfp8", "-o", tmp_path / "b", "--threads", "1")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_layout_of_what_is_quantized_stays(tmp_path):
    for source in ("llama-floats-bf16", "qwen3-mixed-f16", "llama-q8-partly-f16"):
        a = DATA / "arch" / source
        mlxcel_ok("convert", a, "-o", tmp_path / source)
        assert planes(tmp_path / source / "model.safetensors") == unaligned_planes(a / "model.safetensors")
        assert json.loads(mlxcel_ok("describe", "-m", tmp_path / source, "--json"))["warnings"] == []


def unaligned_planes(path):
    return {name: [dtype, shape, hashlib.sha256(content).hexdigest()[:16]]
            for name, (dtype, shape, content) in stored_tensors(path).items()}


def test_usage(tmp_path):
    out = tmp_path / "out"
    base = ("-m", TINY, "-o", out)
    assert "--mode" in usage("quantize", *base, "--mode", "int4")
    assert "PATTERN=FORM" in usage("quantize", *base, "--q", "lm_head")
    assert "PATTERN=FORM" in usage("quantize", *base, "--q", "lm_head=int4")
    assert "PATTERN=FORM" in usage("quantize", *base, "--q", "lm_head=affine:x")
    assert "PATTERN=FORM" in usage("quantize", *base, "--q", "lm_head=affine:4:64:1")
    assert "recipe" in usage("quantize", *base, "--recipe", "mixed_2_6", "--mode", "mxfp4")
    assert "2, 3, 4, 5, 6 or 8 bits" in usage("quantize", *base, "--bits", "7")
    assert "groups of 32, 64 or 128" in usage("quantize", *base, "--group-size", "16")
    assert "4 bits and groups of 32" in usage("quantize", *base, "--mode", "mxfp4", "--group-size", "64")
    assert "8 bits and groups of 32" in usage("quantize", *base, "--q", "lm_head=mxfp8:4")
    assert "-q" in usage("convert", TINY, "-o", out, "--bits", "4")
    assert "--output" in usage("quantize", "-m", TINY)
    assert not out.exists()


def test_refusals(tmp_path):
    out = tmp_path / "out"
    base = ("-m", TINY, "-o", out)
    assert "no matrix of the model is called 'lm_heat'" in fault("quantize", *base, "--q", "lm_heat=dense")
    assert "no matrix of the model is called 'norm'" in fault("quantize", *base, "--q", "norm=affine")
    assert "model.layers.0.mlp.down_proj has 96 inputs" in fault("quantize", *base, "--q", "down_proj=affine:4:64")
    assert "nothing to quantize" in fault("quantize", "-m", DATA / "arch" / "llama-q4-g32-f16", "-o", out)
    assert "nothing to dequantize" in fault("dequantize", *base)
    assert "all to stay dense" in fault("quantize", *base, "--q", "*=dense")
    assert "groups do not divide model.embed_tokens (64 inputs, groups of 128) and others" in fault("quantize", *base,
                                                                                           "--group-size", "128")
    assert "GGUF" in fault("convert", PROGRAM, "-q", "-o", out)
    out.mkdir()
    assert "exists" in fault("quantize", *base)
    assert "exists" in fault("convert", TINY, "-o", out)
    mlxcel_ok("quantize", *base, "--force")
    mlxcel_ok("quantize", *base, "--force", "--bits", "8")
    assert "affine 8 bits" in mlxcel_ok("describe", "-m", out)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "home") == ["out"]


def test_the_source_is_not_replaced(tmp_path):
    source, link = tmp_path / "source", tmp_path / "link"
    shutil.copytree(TINY, source)
    link.symlink_to(source)
    for model, out in ((source, source), (source, f"{source}/../source/"), (link, source)):
        assert "exists" in fault("quantize", "-m", model, "-o", out)
        assert "which is read" in fault("quantize", "-m", model, "-o", out, "--force")
    shutil.copy(source / "config.json", tmp_path)  # the folder around looks like a model
    assert "which is read" in fault("convert", source, "-o", tmp_path, "--force")
    assert (source / "model.safetensors").read_bytes() == (TINY / "model.safetensors").read_bytes()
    quantize(source / "inside", source=source)
    assert "affine 4 bits" in mlxcel_ok("describe", "-m", source / "inside")


@pytest.mark.parametrize("limit", [1 << 10, 20 << 10, 100 << 10])
def test_no_room(limit, tmp_path):
    r = subprocess.run([PROGRAM, "quantize", "-m", TINY, "-o", tmp_path / "out", "--bits", "8"], capture_output=True,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), timeout=60)
    assert r.returncode == 1 and b"cannot write" in r.stderr and b"File too large" in r.stderr
    assert [n for n in os.listdir(tmp_path) if n != "home"] == []


def poke(path, name, values):
    """Overwrites the first BF16 elements of a tensor."""
    data = bytearray(path.read_bytes())
    header, start = safetensors_header(data)
    at = start + header[name]["data_offsets"][0]
    for i, bits in enumerate(values):
        struct.pack_into("<H", data, at + 2 * i, bits)
    path.write_bytes(data)


@pytest.mark.parametrize("bits, word", [(0x7f80, "inf"), (0xff80, "-inf"), (0x7fc0, "nan")])
def test_values_that_are_not_finite(bits, word, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(TINY, source)
    poke(source / "model.safetensors", "model.layers.1.self_attn.k_proj.weight", [0] * 70 + [bits])
    said = fault("quantize", "-m", source, "-o", tmp_path / "out")
    assert f"model.layers.1.self_attn.k_proj has {word} in row 1, column 6" in said.replace("-nan", "nan")
    assert not (tmp_path / "out").exists()
    mlxcel_ok("convert", source, "-o", tmp_path / "out")  # stays dense: as it is


def test_the_bar_of_a_terminal(tmp_path):
    """Each way to the end leaves it in lines of its own; a pipe has none."""
    source, (terminal, stderr) = tmp_path / "source", os.openpty()
    shutil.copytree(TINY, source)
    poke(source / "model.safetensors", "model.layers.1.self_attn.k_proj.weight", [0x7fc0])
    for command, last in (("convert", source), "mlxcel: made"), (("quantize", "-m", source), "mlxcel: error: model.safet"):
        subprocess.run([PROGRAM, *command, "-o", tmp_path / command[0]], stderr=stderr, timeout=60)
        said = os.read(terminal, 1 << 16).decode().split("\r\n")
        assert said[0].startswith("\r[") and said[0].endswith("%") and said[-2].startswith(last), said
        assert not any("[" in line for line in said[1:]), said
    os.close(stderr)
    assert "[" not in quantize(tmp_path / "piped")


def test_values_beyond_the_type(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(TINY, source)
    poke(source / "model.safetensors", "lm_head.weight", [0x7f00])
    said = fault("quantize", "-m", source, "-o", tmp_path / "out", "--dtype", "float16")
    assert "lm_head has 1.70141e+38 in row 0, column 0" in said and "--dtype" in said
    quantize(tmp_path / "out", source=source)


def write_hole(path, config, dtype, shapes):
    """A model whose weights are a hole in the file."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = {"BF16": 2, "F32": 4}[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    with open(path / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def big_source(path):
    """A model that takes a while: one layer, a large vocabulary."""
    config = json.loads((TINY / "config.json").read_text())
    config.update(vocab_size=200_000, num_hidden_layers=1)
    shapes = {n: t[1] for n, t in planes(TINY / "model.safetensors").items() if ".layers.1." not in n}
    shapes["model.embed_tokens.weight"] = shapes["lm_head.weight"] = [200_000, 64]
    write_hole(path, config, "BF16", shapes)


def test_memory_does_not_grow_with_the_experts(tmp_path):
    """64 of 3 MB, each a hole in the file: no stack of them is in memory as a whole."""
    source, wide, n = tmp_path / "source", 512, 64
    config = {"model_type": "qwen3_moe", "hidden_size": wide, "num_hidden_layers": 1, "num_attention_heads": 1,
              "num_key_value_heads": 1, "head_dim": 64, "intermediate_size": wide, "moe_intermediate_size": wide,
              "num_experts": n, "num_experts_per_tok": 2, "vocab_size": 16, "tie_word_embeddings": True}
    layer = {"input_layernorm.weight": [wide], "post_attention_layernorm.weight": [wide], "mlp.gate.weight": [n, wide],
             "self_attn.o_proj.weight": [wide, 64]}
    layer |= {f"self_attn.{x}_norm.weight": [64] for x in "qk"} | {f"self_attn.{x}_proj.weight": [64, wide] for x in "qkv"}
    layer |= {f"mlp.experts.{e}.{x}_proj.weight": [wide, wide] for e in range(n) for x in ("gate", "up", "down")}
    write_hole(source, config, "F32", {"model.embed_tokens.weight": [16, wide], "model.norm.weight": [wide]}
               | {f"model.layers.0.{name}": shape for name, shape in layer.items()})
    assert peak_memory("quantize", "-m", source, "-o", tmp_path / "out", "--bits", "2") < 50_000


@pytest.mark.parametrize("sig, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129),
                                         (signal.SIGKILL, -9)])
def test_a_stopped_run_leaves_no_model(sig, status, tmp_path):
    big_source(tmp_path / "big")
    out = tmp_path / "out"
    found, _ = stop(["quantize", "-m", tmp_path / "big", "-o", out, "--mode", "mxfp4", "--threads", "1"], sig, tmp_path)
    if found == 0:
        pytest.skip("it was done before the signal came")
    assert found == status
    assert not out.exists()
    left = [n for n in os.listdir(tmp_path) if n != "big" and n != "home"]
    assert all(n.startswith(".out.tmp-") for n in left) if sig == signal.SIGKILL else left == []
    assert "out" not in mlxcel_ok("list", "--json", env={"MLXCEL_CACHE_DIR": str(tmp_path)})
