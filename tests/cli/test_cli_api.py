"""The public header stands alone, and a program that uses nothing else runs a model."""
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from testlib import PROGRAM, ROOT, mlxcel_ok

CC = shlex.split(os.environ.get("CC", "cc"))
CXX = shlex.split(os.environ.get("CXX", "c++"))
EXAMPLE = Path(PROGRAM).resolve().parent / "examples" / "generate"


@pytest.mark.parametrize("compiler", [CC + ["-xc", "-std=c11"], CC + ["-xc", "-std=c17"], CXX + ["-xc++", "-std=c++11"],
                                      CXX + ["-xc++", "-std=c++20"]], ids=" ".join)
def test_header_compiles_alone(compiler):
    command = [*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", ROOT / "include", "-"]
    r = subprocess.run(command, input='#include "mlxcel.h"\n#include "mlxcel.h"\n', capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def test_example_uses_only_the_header():
    includes = [line for line in (ROOT / "examples/generate.c").read_text().splitlines() if line.startswith('#include "')]
    assert includes == ['#include "mlxcel.h"']


def test_example_runs(model):
    r = subprocess.run([EXAMPLE, model, "hello"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    assert r.stdout == mlxcel_ok("generate", "-m", model, "-p", "hello", "--raw", "-n", 64) + "\n"
    r = subprocess.run([EXAMPLE, "/nowhere", "hello"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and r.stdout == "" and "/nowhere" in r.stderr
