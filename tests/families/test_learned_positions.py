"""Models with an embedding of positions: there are no others, so longer prompts and contexts are refused."""
import familylib

from testlib import DATA, mlxcel, mlxcel_ok


def test_beyond_the_last_position(tmp_path):
    model = tmp_path / "gpt2"
    familylib.write_checkpoint(DATA / "families/gpt2", model)  # 256 positions
    mlxcel_ok("logits", "-m", model, "--tokens", ",".join(["7"] * 256), "-o", tmp_path / "all")
    r = mlxcel("logits", "-m", model, "--tokens", ",".join(["7"] * 257), "-o", tmp_path / "more")
    assert r.returncode == 1
    assert b"257" in r.stderr and b"256" in r.stderr, r.stderr
    assert len(r.stderr.splitlines()) == 1 and not (tmp_path / "more").exists()
