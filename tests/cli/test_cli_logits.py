"""logits: what is refused, and how the file appears."""
import json
import resource

import pytest

from clilib import fault, usage
from testlib import DATA, mlxcel_ok, read_safetensors

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
