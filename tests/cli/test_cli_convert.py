"""convert: the command around the import, which tests/unit covers."""
from clilib import fault, usage


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
