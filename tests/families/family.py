"""A model family's fixture and the checkpoints that tests make of it."""
import array
import json
import random
import shutil
import subprocess
from pathlib import Path

import familylib
import pytest

from loralib import write_safetensors
from testlib import DATA, PROGRAM, mlxcel_ok, read_safetensors, std, stored_tensors

FIXTURES = sorted(p.parent.name for p in (DATA / "families").glob("*/config.json"))
TOLERANCE = 1e-3  # of the standard deviation of the logits
RANK, SCALE = 2, 3.0  # of adapters
MODES = {"affine4": ["--mode", "affine", "--bits", "4", "--group-size", "32"], "mxfp4": ["--mode", "mxfp4"]}


class Family:
    """One fixture: its folder, what it expects, and its checkpoints, each made when it is first wanted."""

    def __init__(self, name, work):
        self.name, self.fixture, self.work = name, DATA / "families" / name, work / name
        self.model_type = json.loads((self.fixture / "config.json").read_text())["model_type"]
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

    def output(self, model, *options, threads=1):
        """One thread: several tests run at once, and threads of one process wait for each other."""
        out = self.work / "out.safetensors"
        out.unlink(missing_ok=True)
        mlxcel_ok("logits", "-m", model, "--tokens", ",".join(map(str, self.tokens)), "--threads", threads, *options,
                  "-o", out)
        return out

    def exact(self, model, *options):
        shape, logits = read_safetensors(self.output(model, "--exact", *options))["logits"]
        assert shape == self.shape
        return logits

    def assert_order_changes_nothing(self, model, *ways):
        """ways: (rows a step, threads)"""
        whole = self.output(model).read_bytes()
        for chunk, threads in ways:
            assert self.output(model, "--chunk", chunk, threads=threads).read_bytes() == whole, (chunk, threads)


@pytest.fixture(scope="module")
def family(request, tmp_path_factory):
    f = Family(request.param, tmp_path_factory.mktemp("families"))
    yield f
    shutil.rmtree(f.work, ignore_errors=True)


def each(names=FIXTURES):
    return pytest.mark.parametrize("family", names, indirect=True, scope="module")


def tensors(model):
    """name -> (type, shape, bytes) of a directory."""
    return {name: t for file in model.glob("*.safetensors") for name, t in stored_tensors(file).items()}


def check(program, *arguments):
    """Runs a C program of this folder, which must succeed; returns what it printed."""
    r = subprocess.run([Path(PROGRAM).resolve().parent / "tests/families" / program, *arguments], capture_output=True,
                       text=True, timeout=60, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


def assert_equal_folders(found, wanted):
    files = sorted(f.name for f in wanted.iterdir())
    assert sorted(f.name for f in found.iterdir()) == files
    for name in files:
        assert (found / name).read_bytes() == (wanted / name).read_bytes(), name


def assert_close(found, needed, tolerance=TOLERANCE):
    limit = tolerance * std(needed)
    worst = max((abs(f - n) for f, n in zip(found, needed)), key=lambda d: (d != d, d))
    assert worst <= limit, f"off by {worst:.3g}, {worst / limit * tolerance:.2g} std"


NO_MATRIX = "bias", ".wpe", "conv1d", ".conv", "A_log"  # stacks' biases, a lookup of positions, what recurrences take


def matrices(model):
    """name -> shape of what the adapter changes."""
    facts = json.loads(mlxcel_ok("describe", "-m", model, "--json"))
    return {t["name"]: t["shape"] for t in facts["tensors"]
            if len(t["shape"]) > 1 and t["shape"][0] != facts["vocab_size"]
            and not t["name"].endswith(NO_MATRIX) and "embed" not in t["name"].removesuffix("embed_q")}


def draw_adapter(model, folder):
    """Writes an adapter over all matrices of the MLX layout but embeddings and heads: projections, routers, stacks of experts,
    planes of heads. Returns name -> (shape of the matrices, A [n, r, in], B [n, out, r])."""
    draw, tensors, pairs = random.Random(7), {}, {}
    for name, shape in matrices(model).items():
        n, (out, n_in) = (1 if len(shape) == 2 else shape[0]), shape[-2:]
        a = [[[draw.gauss(0, 0.2) for _ in range(n_in)] for _ in range(RANK)] for _ in range(n)]
        b = [[[draw.gauss(0, 0.1) for _ in range(RANK)] for _ in range(out)] for _ in range(n)]
        a = [[array.array("f", row) for row in m] for m in a]
        b = [[array.array("f", row) for row in m] for m in b]
        pairs[name] = n, out, n_in, a, b
        if len(shape) == 2:  # [in, r] and [r, out]
            tensors[name + ".lora_a"] = [n_in, RANK], [a[0][r][k] for k in range(n_in) for r in range(RANK)]
            tensors[name + ".lora_b"] = [RANK, out], [b[0][o][r] for r in range(RANK) for o in range(out)]
        else:
            tensors[name + ".lora_a"] = [n, RANK, n_in], [x for m in a for row in m for x in row]
            tensors[name + ".lora_b"] = [n, out, RANK], [x for m in b for row in m for x in row]
    folder.mkdir()
    write_safetensors(folder / "adapters.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"fine_tune_type": "lora", "num_layers": -1, "lora_parameters": {"rank": RANK, "scale": SCALE, "dropout": 0.0}}))
    return pairs
