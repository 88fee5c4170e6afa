"""What the Python tests share: running the program as a user does, reading safetensors, comparing, levels of this machine.

Standard library only. The program is $MLXCEL_BIN, set by tests/run, else build/mlxcel. Tests run from the root.
"""
import array
import json
import math
import os
import struct
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
PROGRAM = os.environ.get("MLXCEL_BIN", str(ROOT / "build" / "mlxcel"))
TYPECODES = {"F32": "f", "I32": "i", "U32": "I", "U8": "B"}


def mlxcel(*args, stdin=b"", timeout=60, env=None):
    """Runs the program. The result has returncode, stdout and stderr, as bytes. `env` adds to the environment."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    return subprocess.run([PROGRAM, *map(str, args)], input=stdin, capture_output=True, timeout=timeout, check=False,
                          env={**os.environ, **(env or {})})


def mlxcel_ok(*args, **kwargs):
    """Runs the program, which must succeed; returns what it printed, as text."""
    r = mlxcel(*args, **kwargs)
    assert r.returncode == 0, f"mlxcel {args}: exit {r.returncode}\n{r.stderr.decode(errors='replace')}"
    return r.stdout.decode()


def safetensors_header(data):
    """The entries of a safetensors file's bytes by tensor, and where the tensors' data begin."""
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(bytes(data[8:8 + n]))
    header.pop("__metadata__", None)
    return header, 8 + n


def stored_tensors(path):
    """name -> (dtype, shape, bytes) of a file."""
    data = memoryview(Path(path).read_bytes())
    header, start = safetensors_header(data)
    return {name: (t["dtype"], t["shape"], bytes(data[start + t["data_offsets"][0]:start + t["data_offsets"][1]]))
            for name, t in header.items()}


def read_safetensors(path):
    """name -> (shape, values) of a file whose tensors are F32, I32, U32 or U8; values is a flat array.array."""
    return {name: (shape, array.array(TYPECODES[dtype], content))
            for name, (dtype, shape, content) in stored_tensors(path).items()}


def std(x):
    mean = math.fsum(x) / len(x)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x))


def cosine(a, b):
    dot = lambda x, y: math.fsum(p * q for p, q in zip(x, y))
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def cpu_levels():
    """The names for --cpu-level that this machine can run, lowest first."""
    flags = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):  # x86, Arm
            flags = set(line.split())
            break
    levels = ["scalar"]
    x86 = [
        ("avx2", {"avx2", "fma", "f16c", "bmi2"}),
        ("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}),
        ("avx512vnni", {"avx512_vnni"}),
        ("avx512bf16", {"avx512_bf16"}),
    ]
    arm = [("neon", {"asimd"}), ("neondot", {"asimddp"})]
    for needs in x86, arm:
        for level, features in needs:
            if not features <= flags:
                break
            levels.append(level)
    return levels
