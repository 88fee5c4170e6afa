"""Adapters fused into weights: `mlxcel fuse` against mlx_lm.fuse (tests/data/lora/fuse.json, made by
tools/make_fuse_reference.py), what it leaves as it is, what it refuses, and the same at load (--adapter, --lora-fuse)."""
import hashlib
import json
import os
import resource
import shutil
import signal
import struct
import subprocess

import pytest

from clilib import fault, peak_memory, stop, usage
from loralib import base_of
from testlib import DATA, PROGRAM, mlxcel, mlxcel_ok, read_safetensors, safetensors_header, stored_tensors

LORA = DATA / "lora"
CASES = json.loads((LORA / "fuse.json").read_text())
TOKENS = "3,1,4,1,5,9,2,6,5,3,5,8,97,93,23,84"


def mlx(name):
    return LORA / "mlx" / name


def planes(path):
    """stored_tensors of all shards of a directory."""
    found = {}
    for shard in sorted(path.glob("model*.safetensors")):
        found |= stored_tensors(shard)
    return found


def fuse(out, adapter, *options, base=None):
    """Fuses; returns what was said on stderr."""
    r = mlxcel("fuse", "-m", base or base_of(adapter), "--adapter", adapter, "-o", out, *options)
    assert r.returncode == 0, r.stderr
    assert r.stdout == b""
    return r.stderr.decode()


def logits(tmp_path, model, *options):
    out = tmp_path / "logits.safetensors"
    mlxcel_ok("logits", "-m", model, "--tokens", TOKENS, "-o", out, "--force", *options)
    return out.read_bytes()


# ---- values ----

@pytest.mark.parametrize("case", CASES)
def test_equal_to_mlx_lm(case, tmp_path):
    """Every changed tensor, bit for bit; all others have the base's bytes, unless all become dense."""
    name, *options = case.split()
    fuse(tmp_path / "out", mlx(name), *options)
    ours, base = planes(tmp_path / "out"), planes(base_of(mlx(name)))
    for tensor, (dtype, shape, digest) in CASES[case].items():
        found = ours.pop(tensor)
        assert [found[0], found[1]] == [dtype, shape], tensor
        assert hashlib.sha256(found[2]).hexdigest()[:16] == digest, tensor
    if "--dequantize" in options:
        assert not any(n.endswith((".scales", ".biases")) for n in ours)
        assert "quantization" not in json.loads((tmp_path / "out/config.json").read_text())
    else:
        assert set(ours) == set(base) - set(CASES[case])
        assert all(base[n] == t for n, t in ours.items())


def expected_logits(adapter):
    """Of the reference's float32 model, as rows."""
    tensors = read_safetensors(adapter / "expected.safetensors")
    shape, values = tensors["logits"]
    return ",".join(map(str, tensors["tokens"][1])), shape, values


@pytest.mark.parametrize("adapter", ["mlx/plain", "mlx/dora", "mlx/dora-embed", "mlx/full", "mlx/rank-1", "mlx/old-alpha",
                                     "peft/plain", "peft/patterns", "peft/rslora", "peft/fan-in",
                                     "peft/dora-rslora", "peft/square"])
def test_logits_are_the_adapted_models(adapter, tmp_path):
    """On float32 bases the sum loses nothing that counts: what run time computes, up to rounding."""
    tokens, shape, want = expected_logits(LORA / adapter)
    out = tmp_path / "logits.safetensors"
    mlxcel_ok("logits", "-m", base_of(LORA / adapter), "--adapter", LORA / adapter, "--tokens", tokens, "--exact", "-o", out)
    found_shape, found = read_safetensors(out)["logits"]
    assert found_shape == shape
    mean = sum(want) / len(want)
    std = (sum((x - mean) ** 2 for x in want) / len(want)) ** 0.5
    assert max(abs(a - b) for a, b in zip(found, want)) < 1e-4 * std


@pytest.mark.parametrize("name", ["plain", "plain-bf16", "plain-f16", "embed-tied", "embed-untied", "dora-bias", "full-bias"])
@pytest.mark.parametrize("precision", ["default", "exact"])
def test_fused_at_load_equals_the_fused_directory(name, precision, tmp_path):
    fuse(tmp_path / "out", mlx(name))
    want = logits(tmp_path, tmp_path / "out", "--precision", precision)
    base = base_of(mlx(name))
    assert logits(tmp_path, base, "--precision", precision) != want
    assert logits(tmp_path, base, "--precision", precision, "--adapter", mlx(name)) == want
    assert logits(tmp_path, base, "--precision", precision, "--lora", mlx(name), "--lora-fuse", "--threads", "1") == want


def test_several_add_in_any_order(tmp_path):
    base, one, two = base_of(mlx("plain")), mlx("plain"), mlx("old-layers")
    for out, first, second in ("a", f"{one}:0.5", f"{two}:-2"), ("b", f"{two}:-2", f"{one}:0.5"):
        mlxcel_ok("fuse", "-m", base, "--lora", first, "--lora", second, "-o", tmp_path / out)
    assert planes(tmp_path / "a") == planes(tmp_path / "b")
    at_load = logits(tmp_path, base, "--lora", f"{two}:-2", "--lora", f"{one}:0.5", "--lora-fuse")
    assert at_load == logits(tmp_path, tmp_path / "a")
    assert at_load != logits(tmp_path, base, "--lora", one, "--lora", two, "--lora-fuse")


def test_scale_0_leaves_the_bytes(tmp_path):
    base = base_of(mlx("plain"))
    mlxcel_ok("fuse", "-m", base, "--lora", f"{mlx('plain')}:0", "-o", tmp_path / "out")
    assert planes(tmp_path / "out") == planes(base)
    assert logits(tmp_path, base, "--lora", f"{mlx('plain')}:0", "--lora-fuse") == logits(tmp_path, base)


def test_run_time_adapters_beside_fused_ones(tmp_path):
    base, one, two = base_of(mlx("plain")), mlx("plain"), mlx("old-layers")
    both = logits(tmp_path, base, "--adapter", one, "--lora", two, "--exact")
    fuse(tmp_path / "out", one)
    assert both == logits(tmp_path, tmp_path / "out", "--lora", two, "--exact")


def test_run_time_dora_over_fused_weights(tmp_path):
    """Its norms would be those of rows that nobody keeps."""
    text = fault("logits", "-m", base_of(mlx("plain")), "--adapter", mlx("plain"), "--lora", mlx("dora"), "--tokens", "1",
                 "-o", tmp_path / "out")
    assert "has DoRA, which needs the weights' rows, but another adapter is fused into them" in text


def part_of(path, adapter, wanted):
    """The adapter's tensors of which `wanted` is in the name."""
    shutil.copytree(adapter, path)
    header, data = {}, b""
    for name, (dtype, shape, content) in stored_tensors(adapter / "adapters.safetensors").items():
        if wanted in name:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
    text = json.dumps(header).encode()
    (path / "adapters.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_run_time_dora_beside_fused_weights(tmp_path):
    """Other layers than the fused ones have their rows."""
    base, dora = base_of(mlx("plain")), part_of(tmp_path / "dora", mlx("dora"), "layers.1.self_attn.q_proj")
    plain = part_of(tmp_path / "plain", mlx("plain"), "layers.1.mlp")
    both = logits(tmp_path, base, "--adapter", plain, "--lora", dora, "--exact")
    fuse(tmp_path / "out", plain)
    assert both == logits(tmp_path, tmp_path / "out", "--lora", dora, "--exact")
    assert both != logits(tmp_path, tmp_path / "out", "--exact")


# ---- what stays ----

def split(source, out):
    """The model as two shards with an index, whose headers no program of ours would write; the planes of a matrix are in
    both, in an order of their own."""
    tensors = planes(source)
    out.mkdir()
    weight_map = {}
    for i, names in enumerate((sorted(tensors)[::2][::-1], sorted(tensors)[1::2])):
        header, data = {"__metadata__": {"format": "mlx", "x": str(i)}}, b""
        for name in names:
            dtype, shape, content = tensors[name]
            header[name] = {"shape": shape, "data_offsets": [len(data), len(data) + len(content)], "dtype": dtype}
            data += content
            weight_map[name] = f"model-{i}.safetensors"
        text = json.dumps(header, indent=1).encode() + b"   "
        (out / f"model-{i}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (out / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map, "metadata": {"a": 1}}))
    config = (source / "config.json").read_text()
    (out / "config.json").write_text(config.replace("{", '{  "note": 1e0,', 1))
    (out / "notes.txt").write_text("read me")
    (out / "old.bin").write_text("weights")
    return out


@pytest.mark.parametrize("name, options", [("plain", []), ("embed-tied", []), ("q4-embed", ["--requantize"]),
                                           ("mxfp4", ["--requantize"]), ("plain", ["--dequantize"])])
def test_every_other_byte_stays(name, options, tmp_path):
    source, out = split(base_of(mlx(name)), tmp_path / "source"), tmp_path / "out"
    fuse(out, mlx(name), *options, base=source)
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model-0.safetensors", "model-1.safetensors",
                                                     "model.safetensors.index.json", "notes.txt"]
    for same in "config.json", "model.safetensors.index.json", "notes.txt":
        assert (out / same).read_bytes() == (source / same).read_bytes()
    fuse(tmp_path / "whole", mlx(name), *options)
    whole, base, ours = planes(tmp_path / "whole"), planes(source), planes(out)
    assert ours == whole and ours != base
    for shard in "model-0.safetensors", "model-1.safetensors":
        before, after = (source / shard).read_bytes(), bytearray((out / shard).read_bytes())
        header, start = safetensors_header(before)
        for tensor, t in header.items():
            if ours[tensor] != base[tensor]:
                begin, end = (start + x for x in t["data_offsets"])
                after[begin:end] = before[begin:end]
        assert bytes(after) == before


# ---- refusals ----

INSTEAD = ", or fuse with --dequantize or --requantize"  # told by `fuse` alone


@pytest.mark.parametrize("name", ["q4", "q4-embed", "mxfp8", "dora-q4"])
def test_a_quantized_base_is_refused_before_anything_is_written(name, tmp_path):
    base = base_of(mlx(name))
    text = fault("fuse", "-m", base, "--adapter", mlx(name), "-o", tmp_path / "out")
    assert os.listdir(tmp_path) == ["home"] or os.listdir(tmp_path) == []
    for options in ["--adapter", mlx(name)], ["--lora", mlx(name), "--lora-fuse"]:
        assert fault("logits", "-m", base, "--tokens", "1", *options, "-o", tmp_path / "logits") == text.replace(INSTEAD, "")
    layers = sorted({n.rpartition(".")[0] for n in planes_of_adapter(mlx(name))})
    parts = text.split("; ")
    assert len(layers) <= 20 or parts.pop() == f"and {len(layers) - 20} more"
    assert len(parts) == min(len(layers), 20)
    for layer, part in zip(layers, parts):
        assert part.startswith(f"{layer} is quantized (") and part.endswith("run the adapter beside it with --lora" + INSTEAD)


def planes_of_adapter(path):
    return list(stored_tensors(path / "adapters.safetensors"))


def test_only_dense_layers_of_a_mixed_base_need_be_dense(tmp_path):
    """An adapter of dense layers is fused whatever the others are."""
    base = base_of(mlx("full-norms"))
    fuse(tmp_path / "out", mlx("full-norms"))
    assert logits(tmp_path, base, "--adapter", mlx("full-norms")) == logits(tmp_path, tmp_path / "out")


def write_adapter(path, shapes):
    """An adapter of mlx-lm whose tensors have these shapes."""
    path.mkdir()
    header, data = {}, b""
    for name, (rows, cols) in shapes.items():
        content = struct.pack(f"<{rows * cols}f", *(0.01 * (i % 7 - 3) for i in range(rows * cols)))
        header[name] = {"dtype": "F32", "shape": [rows, cols], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    (path / "adapters.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (path / "adapter_config.json").write_text('{"lora_parameters": {"rank": 3, "scale": 2.0}, "num_layers": -1}')
    return path


def test_fp8_is_dequantized_and_no_more(tmp_path):
    base, name = DATA / "arch/qwen3-fp8-bf16", "model.layers.0.self_attn.q_proj"
    out, in_ = planes(base)[f"{name}.weight"][1]
    adapter = write_adapter(tmp_path / "adapter", {f"{name}.lora_a": (in_, 3), f"{name}.lora_b": (3, out)})
    text = fault("fuse", "-m", base, "--adapter", adapter, "-o", tmp_path / "out")
    assert text == f"{name} is quantized (fp8 tiles of 128 x 128): run the adapter beside it with --lora{INSTEAD}"
    text = fault("fuse", "-m", base, "--adapter", adapter, "-o", tmp_path / "out", "--requantize")
    assert text == f"{name} is stored as fp8, which is not a mode of MLX: fuse with --dequantize"
    fuse(tmp_path / "out", adapter, "--dequantize", base=base)
    mlxcel_ok("dequantize", "-m", base, "-o", tmp_path / "dense")
    fused, dense = planes(tmp_path / "out"), planes(tmp_path / "dense")
    assert set(fused) == set(dense)
    assert [n for n in fused if fused[n] != dense[n]] == [f"{name}.weight"]


def test_the_head_of_a_tied_model(tmp_path):
    base = base_of(mlx("plain"))
    rows, width = planes(base)["model.embed_tokens.weight"][1]
    adapter = write_adapter(tmp_path / "adapter", {"lm_head.lora_a": (width, 3), "lm_head.lora_b": (3, rows)})
    mlxcel_ok("logits", "-m", base, "--tokens", "1", "--lora", adapter, "-o", tmp_path / "logits")
    assert fault("fuse", "-m", base, "--adapter", adapter, "-o", tmp_path / "out") == (
        "lm_head changes model.embed_tokens only as the head, but the matrix is also the embedding: run the adapter beside "
        "it with --lora")


def test_scales_beyond_float32(tmp_path):
    text = fault("fuse", "-m", base_of(mlx("plain")), "--lora", f"{mlx('plain')}:1e38", "-o", tmp_path / "out")
    assert f"{mlx('plain')}: the scale of model.layers.1.mlp.down_proj is inf, beyond float32" in text


def test_dora_of_what_another_replaces(tmp_path):
    """As at run time: the norms that it was trained with are the base's."""
    base, name = base_of(mlx("dora")), "model.layers.1.self_attn.q_proj"
    full = write_adapter(tmp_path / "full", {f"{name}.weight": planes(base)[f"{name}.weight"][1]})
    (full / "adapter_config.json").write_text('{"fine_tune_type": "full"}')
    text = fault("fuse", "-m", base, "--lora", mlx("dora"), "--lora", full, "-o", tmp_path / "out")
    assert text == f"{name}: {full} and {mlx('dora')} replaces, and has DoRA for, it; one of them at most can be fused"


def test_two_that_exclude_each_other(tmp_path):
    base = base_of(mlx("dora"))
    text = fault("fuse", "-m", base, "--lora", mlx("dora"), "--lora", f"{mlx('dora')}:0.5", "-o", tmp_path / "out")
    assert text.startswith("model.layers.1.mlp.down_proj: ") and "both have DoRA for it" in text
    assert not (tmp_path / "out").exists()


def test_a_bias_that_has_no_place(tmp_path):
    adapter = LORA / "peft/lora-bias"
    text = fault("fuse", "-m", base_of(adapter), "--adapter", adapter, "-o", tmp_path / "out")
    assert "brings a bias, but" in text and "has none that it could be added to" in text


def test_misfits_are_those_of_run_time(tmp_path):
    text = fault("fuse", "-m", DATA / "tiny", "--adapter", mlx("plain"), "-o", tmp_path / "out")
    assert text == fault("logits", "-m", DATA / "tiny", "--lora", mlx("plain"), "--tokens", "1", "-o", tmp_path / "l")
    text = fault("fuse", "-m", DATA / "tiny", "--adapter", tmp_path / "none", "-o", tmp_path / "out")
    assert str(tmp_path / "none") in text
    both = fault("fuse", "-m", DATA / "tiny", "--lora", mlx("some"), "--lora", tmp_path / "none", "-o", tmp_path / "out")
    assert f"{mlx('some')}: adapters.safetensors: model.layers." in both and f"none: {text}" in both  # one report


def test_outputs_and_usage(tmp_path):
    adapter, out = mlx("plain"), tmp_path / "out"
    fuse(out, adapter)
    assert fault("fuse", "-m", base_of(adapter), "--adapter", adapter, "-o", out).endswith("give --force to replace it")
    fuse(out, adapter, "--force")
    base = shutil.copytree(base_of(adapter), tmp_path / "base")
    fault("fuse", "-m", base, "--adapter", adapter, "-o", base, "--force")
    assert planes(base) == planes(base_of(adapter))
    assert usage("fuse", "-m", base, "-o", tmp_path / "x") == "fuse needs an adapter, --adapter PATH"
    assert usage("fuse", "-m", base, "--adapter", adapter, "-o", tmp_path / "x", "--dequantize", "--requantize") == (
        "--dequantize and --requantize exclude each other")


def test_requantize_tells_what_it_loses(tmp_path):
    lines = fuse(tmp_path / "out", mlx("q4"), "--requantize").splitlines()
    names = sorted({n.rpartition(".")[0] for n in planes_of_adapter(mlx("q4"))})
    told = {}
    for line in lines[:len(names)]:
        name, text = line.removeprefix("mlxcel: ").split(": relative error of the weights ")
        told[name] = float(text)
    assert sorted(told) == names
    assert all(0.01 < x < 0.2 for x in told.values()) # 4 bits
    worst = max(told, key=told.get)
    assert lines[len(names)] == (f"mlxcel: quantized {len(names)} matrices again: relative error "
                                 f"{sum(told.values()) / len(told):.5f} on average, at most {told[worst]:.5f} ({worst})")


def large(path, rows):
    """The base of `plain` with a large vocabulary, whose embedding is a hole in the file."""
    shutil.copytree(base_of(mlx("plain")), path)
    tensors = planes(path)
    width = tensors.pop("model.embed_tokens.weight")[1][1]
    tensors.pop("lm_head.weight", None)
    header, at = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    header["model.embed_tokens.weight"] = {"dtype": "F32", "shape": [rows, width],
                                           "data_offsets": [at, at + 4 * rows * width]}
    text = json.dumps(header).encode()
    with open(path / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))
        f.truncate(8 + len(text) + at + 4 * rows * width)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "vocab_size": rows}))
    return path


def test_memory_does_not_grow_with_the_model(tmp_path):
    base = large(tmp_path / "base", 800_000)
    used = peak_memory("fuse", "-m", base, "--adapter", mlx("plain"), "-o", tmp_path / "out")
    assert (tmp_path / "out/model.safetensors").stat().st_size == (base / "model.safetensors").stat().st_size > 190e6
    assert used < 100_000


@pytest.mark.parametrize("limit", [1 << 10, 20 << 10, 100 << 10])
def test_no_room(limit, tmp_path):
    r = subprocess.run([PROGRAM, "fuse", "-m", base_of(mlx("plain")), "--adapter", mlx("plain"), "-o", tmp_path / "out"],
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), timeout=60,
                       capture_output=True)
    assert r.returncode == 1 and b"cannot write" in r.stderr and b"File too large" in r.stderr
    assert [n for n in os.listdir(tmp_path) if n != "home"] == []


@pytest.mark.parametrize("sig, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_leaves_nothing(sig, status, tmp_path):
    base = large(tmp_path / "base", 400_000)
    found, err = stop(["fuse", "-m", base, "--adapter", mlx("plain"), "-o", tmp_path / "out", "--threads", "1"], sig, tmp_path)
    if found == 0:
        pytest.skip("it was done before the signal came")
    assert found == status, err
    assert [n for n in os.listdir(tmp_path) if n not in ("base", "home")] == []
