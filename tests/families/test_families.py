"""Every model family against two independent references (tests/data/families, made by tools/make_family_fixtures.py).

Of each fixture: its Hugging Face layout and the MLX layout that `convert` makes of it compute the reference's logits within
1e-3 of their standard deviation; the MLX layout is byte for byte mlx-lm's; quantized, the model computes what its own
weights say when they are written out; and chunks, threads, batches, interruptions and the prefix cache change no bit.
"""
import json
import shutil
import subprocess
from pathlib import Path

import familylib
import pytest

from testlib import DATA, PROGRAM, mlxcel_ok, read_safetensors, std, stored_tensors

FIXTURES = sorted(p.parent.name for p in (DATA / "families").glob("*/config.json"))
TOLERANCE = 1e-3  # of the standard deviation of the logits
MODES = {"affine4": ["--mode", "affine", "--bits", "4", "--group-size", "32"], "mxfp4": ["--mode", "mxfp4"]}
CHECK_FAMILY = Path(PROGRAM).resolve().parent / "tests/families/check_family"


class Family:
    """One fixture: its folder, what it expects, and its checkpoints, each made when it is first wanted."""

    def __init__(self, name, work):
        self.fixture, self.work = DATA / "families" / name, work / name
        expected = read_safetensors(self.fixture / "expected.safetensors")
        self.tokens = list(expected.pop("tokens")[1])
        (self.shape, self.logits), = expected.values()

    def made(self, name, make):
        path = self.work / name
        if not path.exists():
            make(path)
        return path

    @property
    def hf(self):
        return self.made("hf", lambda path: familylib.write_checkpoint(self.fixture, path))

    @property
    def mlx(self):
        return self.made("mlx", lambda path: mlxcel_ok("convert", self.hf, "-o", path))

    def quantized(self, mode):
        return self.made(mode, lambda path: mlxcel_ok("quantize", "-m", self.mlx, "-o", path, *MODES[mode]))

    def widened(self, mode):
        """The model with the values of its quantized weights, as float32."""
        return self.made(mode + "-wide", lambda path: mlxcel_ok("dequantize", "-m", self.quantized(mode), "-o", path,
                                                                "--dtype", "float32"))

    def output(self, model, *options):
        out = self.work / "out.safetensors"
        out.unlink(missing_ok=True)
        mlxcel_ok("logits", "-m", model, "--tokens", ",".join(map(str, self.tokens)), *options, "-o", out)
        return out

    def exact(self, model):
        shape, logits = read_safetensors(self.output(model, "--exact"))["logits"]
        assert shape == self.shape
        return logits

    def assert_order_changes_nothing(self, model, *ways):
        """ways: (rows a step, threads)"""
        whole = self.output(model).read_bytes()
        for chunk, threads in ways:
            assert self.output(model, "--chunk", chunk, "--threads", threads).read_bytes() == whole, (chunk, threads)


@pytest.fixture(scope="module")
def family(request, tmp_path_factory):
    f = Family(request.param, tmp_path_factory.mktemp("families"))
    yield f
    shutil.rmtree(f.work, ignore_errors=True)


each_family = pytest.mark.parametrize("family", FIXTURES, indirect=True, scope="module")


def assert_close(found, needed):
    limit = TOLERANCE * std(needed)
    worst = max((abs(f - n) for f, n in zip(found, needed)), key=lambda d: (d != d, d))
    assert worst <= limit, f"off by {worst:.3g}, {worst / limit * TOLERANCE:.2g} std"


@each_family
def test_hf_layout(family):
    assert_close(family.exact(family.hf), family.logits)


@each_family
def test_mlx_layout(family):
    if (family.fixture / "mlx.json").exists():
        wanted = json.loads((family.fixture / "mlx.json").read_text())
        found = {}
        for file in family.mlx.glob("*.safetensors"):
            found |= {k: [d, s, familylib.hash_of(b)] for k, (d, s, b) in stored_tensors(file).items()}
        assert found == wanted
    assert_close(family.exact(family.mlx), family.logits)


@each_family
def test_order(family):
    family.assert_order_changes_nothing(family.mlx, (1, 1), (7, 2), (64, 3))


@each_family
@pytest.mark.parametrize("mode", MODES)
def test_quantized(family, mode):
    model = family.quantized(mode)
    assert_close(family.exact(model), family.exact(family.widened(mode)))
    family.assert_order_changes_nothing(model, (5, 1))


@each_family
def test_batches_and_caches(family):
    r = subprocess.run([CHECK_FAMILY, family.mlx], capture_output=True, text=True, timeout=60, check=False)
    assert r.returncode == 0, r.stderr
