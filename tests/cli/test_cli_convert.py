"""convert: the command around the import, which tests/unit covers."""
import random
import sys

import pytest

from clilib import fault, usage
from testlib import ROOT, mlxcel_ok

sys.path.insert(0, str(ROOT / "tests/hostile"))
from tiny import GGML_F32, VOCAB, WIDTH, Gguf  # noqa: E402


def test_refusals(tmp_path):
    out = tmp_path / "out"
    assert "IN.gguf or a directory" in usage("convert", "-o", out)
    assert "--output OUT" in usage("convert", "x.gguf")
    assert "x.gguf" in fault("convert", tmp_path / "x.gguf", "-o", out)
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 16)
    assert "bad.gguf" in fault("convert", bad, "-o", out)
    assert [p.name for p in tmp_path.iterdir() if p.name != "home"] == ["bad.gguf"]


def test_existing_directory_needs_force(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF")
    fault("convert", bad, "-o", out)
    assert "force" in fault("convert", bad, "-o", out) or (out / "mine").read_text() == "mine"
    fault("convert", bad, "-o", out, "--force")
    assert (out / "mine").read_text() == "mine"


@pytest.mark.parametrize("options", [["-q", "--group-size", "32"], ["--dtype", "bfloat16"]])
def test_gguf_in_another_form(options, tmp_path):
    """As imported and then converted; nothing else stays behind."""
    file, imported, then, at_once = (tmp_path / name for name in ("x.gguf", "imported", "then", "at-once"))
    gguf = Gguf()
    gguf.add("output.weight", GGML_F32, [WIDTH, VOCAB], random.Random(1))
    file.write_bytes(gguf.build())
    mlxcel_ok("convert", file, "-o", imported)
    mlxcel_ok("convert", imported, "-o", then, *options)
    mlxcel_ok("convert", file, "-o", at_once, *options)
    made = {f.name: f.read_bytes() for f in at_once.iterdir()}
    assert made == {f.name: f.read_bytes() for f in then.iterdir()}
    assert made["model.safetensors"] != (imported / "model.safetensors").read_bytes()
    assert "nothing to quantize, groups do not divide lm_head" in fault("convert", file, "-q", "-o", tmp_path / "y")
    assert {f.name for f in tmp_path.iterdir()} - {"home"} == {"x.gguf", "imported", "then", "at-once"}


@pytest.mark.parametrize("option", [["--bits", "8"], ["--mode", "mxfp4"], ["--recipe", "mixed_2_6"]])
def test_how_without_quantize(option, tmp_path):
    for source in tmp_path, tmp_path / "x.gguf":
        assert "not -q" in usage("convert", source, "-o", tmp_path / "out", *option)
