"""Every model family against two independent references (tests/data/families, made by tools/make_family_fixtures.py).

Of each fixture: its Hugging Face layout and the MLX layout that `convert` makes of it compute the reference's logits within
1e-3 of their standard deviation; the MLX layout is byte for byte mlx-lm's; quantized, the model computes what its own
weights say when they are written out, whichever layout it was quantized from; and chunks, threads, batches, interruptions and the prefix cache change no bit.
"""
import json
import subprocess
from pathlib import Path

import familylib
from family import MODES, assert_close, assert_equal_folders, each, family, tensors  # noqa: F401

import pytest

from testlib import PROGRAM, mlxcel_ok

CHECK_FAMILY = Path(PROGRAM).resolve().parent / "tests/families/check_family"


@each()
def test_hf_layout(family):
    assert_close(family.exact(family.hf), family.logits)


@each()
def test_mlx_layout(family):
    if (family.fixture / "mlx.json").exists():
        wanted = json.loads((family.fixture / "mlx.json").read_text())
        assert {k: [d, s, familylib.hash_of(b)] for k, (d, s, b) in tensors(family.mlx).items()} == wanted
    assert_close(family.exact(family.mlx), family.logits)


@each()
def test_order(family):
    family.assert_order_changes_nothing(family.mlx, (1, 1), (7, 2))


@each()
@pytest.mark.parametrize("mode", MODES)
def test_quantized(family, mode):
    model = family.quantized(mode)
    assert_close(family.exact(model), family.exact(family.widened(mode)))
    family.assert_order_changes_nothing(model, (5, 3))
    # Straight from the original layout, too, by either command.
    direct, how = family.work / "direct", ("quantize", "-m") if mode == "affine4" else ("convert", "-q")
    mlxcel_ok(*how, family.hf, "-o", direct, "--force", *MODES[mode])
    assert_equal_folders(direct, model)


@each()
def test_batches_and_caches(family):
    r = subprocess.run([CHECK_FAMILY, family.mlx], capture_output=True, text=True, timeout=60, check=False)
    assert r.returncode == 0, r.stderr
