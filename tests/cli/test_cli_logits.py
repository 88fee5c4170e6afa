"""logits: what is refused, and how the file appears."""
import json
import resource
import shutil

import pytest

from clilib import fault, usage
from testlib import DATA, cpu_levels, mlxcel_ok, read_safetensors, safetensors_header

MODEL = DATA / "arch" / "qwen3-tied-f32"


def test_writes_the_file(tmp_path):
    out = tmp_path / "out.safetensors"
    assert mlxcel_ok("logits", "-m", MODEL, "--tokens", "3, 1,130", "-o", out) == ""
    tensors = read_safetensors(out)
    assert tensors["logits"][0] == [3, 131] and list(tensors["tokens"][1]) == [3, 1, 130]
    assert [p.name for p in tmp_path.iterdir() if p.name != "home"] == ["out.safetensors"]


def test_tokens_from_a_file(tmp_path):
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps([3, 1, 130]))
    mlxcel_ok("logits", "-m", MODEL, "--tokens", "3,1,130", "-o", tmp_path / "a")
    mlxcel_ok("logits", "-m", MODEL, "--tokens-file", ids, "--chunk", "100000", "-o", tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_existing_file_needs_force(tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    assert "--force" in fault("logits", "-m", MODEL, "--tokens", "1", "-o", out)
    assert out.read_text() == "mine"
    mlxcel_ok("logits", "-m", MODEL, "--tokens", "1", "-o", out, "--force")
    assert read_safetensors(out)["logits"][0] == [1, 131]


def test_only_a_regular_file_is_replaced(tmp_path):
    out = tmp_path / "out"
    out.symlink_to("/dev/stdout")
    assert "regular file" in fault("logits", "-m", MODEL, "--tokens", "1", "-o", out, "--force")
    assert out.is_symlink()
    assert "empty" in fault("logits", "-m", MODEL, "--tokens", "1", "-o", "")


def test_file_beyond_the_size_limit(tmp_path):
    """`ulimit -f` raises a signal, which is a fault like a full disk."""
    out = tmp_path / "out"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        message = fault("logits", "-m", MODEL, "--tokens", "1", "-o", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in message and str(out) in message
    assert [p.name for p in tmp_path.iterdir() if p.name != "home"] == []


@pytest.mark.parametrize("ids, words", [
    ("", "empty"),
    ("-1", "id -1 at position 0 is outside 0.."),
    ("5,131", "id 131 at position 1 is outside"),
    ("1,99999999999", "id 99999999999 at position 1 is outside"),
    ("1,99999999999999999999999", "99999999999999999999999"),
    ("1,,2", "comma"),
    ("1;2", "comma"),
    ("one", "one"),
])
def test_refuses_ids(ids, words, tmp_path):
    assert words in fault("logits", "-m", MODEL, "--tokens", ids, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["[]", "{}", "[1.0]", "[[1]]", "[-1]", "[131]", '["1"]', "[1", "", "[18446744073709551616]"])
def test_refuses_files(text, tmp_path):
    path = tmp_path / "ids.json"
    path.write_text(text)
    fault("logits", "-m", MODEL, "--tokens-file", path, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_refuses_usage(tmp_path):
    out = tmp_path / "out"
    assert "--tokens" in usage("logits", "-m", MODEL, "-o", out)
    assert "--tokens" in usage("logits", "-m", MODEL, "--tokens", "1", "--tokens-file", "x", "-o", out)
    for chunk in ("0", "-1", "x"):
        assert f'not "{chunk}"' in usage("logits", "-m", MODEL, "--tokens", "1", "-o", out, "--chunk", chunk)
    assert "missing" in fault("logits", "-m", MODEL, "--tokens-file", tmp_path / "missing", "-o", out)
    assert "no/such" in fault("logits", "-m", MODEL, "--tokens", "1", "-o", tmp_path / "no/such/out")


def poison(path):
    """NaNs of several payloads and signs in the scales and biases of a quantized model."""
    data = bytearray(path.read_bytes())
    header, start = safetensors_header(data)
    nans = {"F32": (4, [0x7FC00001, 0xFFC00002]), "F16": (2, [0x7E01, 0xFE02]), "BF16": (2, [0x7FC1, 0xFFC2])}
    for name, t in header.items():
        if name.endswith((".scales", ".biases")):
            size, values = nans[t["dtype"]]
            begin = start + t["data_offsets"][0]
            for i in range(0, 6, 2 if name.endswith("s.scales") else 1):
                at = begin + i * size
                data[at:at + size] = values[(i + name.endswith(".biases")) % 2].to_bytes(size, "little")
    path.write_bytes(data)


def test_one_nan(tmp_path):
    """The same bytes also where a model's scales are NaN: the sign and the payload that a sum of two keeps is chance."""
    model = tmp_path / "model"
    shutil.copytree(DATA / "arch" / "llama-q4-g64-f32", model)
    poison(model / "model.safetensors")
    got = set()
    for options in [("--chunk", c, "--cpu-level", level) for c in (1, 2, 9, 16) for level in cpu_levels()]:
        mlxcel_ok("logits", "-m", model, "--tokens", ",".join(map(str, range(16))), "-o", tmp_path / "o", "--force", *options)
        got.add((tmp_path / "o").read_bytes())
    logits = read_safetensors(tmp_path / "o")["logits"][1]
    nans = {b for b, f in zip(memoryview(logits).cast("B").cast("I"), logits) if f != f}
    assert nans == {0x7FC00000} and len(got) == 1
