"""`make install` into a folder: what a packager gets, and a program built on it alone."""
import os
import subprocess

import pytest

from testlib import PROGRAM, ROOT

RELEASE = "release" in os.path.realpath(PROGRAM)


@pytest.mark.skipif(not RELEASE, reason="installs the release build")
def test_install(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    subprocess.run(["make", "-s", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"], cwd=ROOT, check=True, env=env, timeout=100,
                   stdout=subprocess.DEVNULL)
    usr = tmp_path / "usr"
    assert os.readlink(usr / "bin" / "mlxcel-server") == "mlxcel"
    for name in ("lib/libmlxcel.a", "lib/libmlxcel.so", "include/mlxcel.h", "lib/pkgconfig/mlxcel.pc"):
        assert (usr / name).exists(), name
    program = tmp_path / "example"
    subprocess.run(["gcc", "-std=c11", f"-I{usr}/include", "examples/generate.c", f"-L{usr}/lib", "-lmlxcel", "-o", program],
                   cwd=ROOT, check=True, timeout=60)
    r = subprocess.run([program, "tests/data/tiny", "hello"], cwd=ROOT, capture_output=True, timeout=60,
                       env={**os.environ, "LD_LIBRARY_PATH": str(usr / "lib")}, check=False)
    assert r.returncode == 0, r.stderr
    pkg_config = {**env, "PKG_CONFIG_PATH": str(usr / "lib/pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    flags = subprocess.run(["pkg-config", "--static", "--cflags", "--libs", "mlxcel"], env=pkg_config, check=True, timeout=20,
                           capture_output=True, text=True).stdout.replace("-lmlxcel", "-l:libmlxcel.a").split()
    subprocess.run(["gcc", "-std=c11", "examples/generate.c", *flags, "-o", program], cwd=ROOT, check=True, timeout=60)
    r = subprocess.run([program, "tests/data/tiny", "hello"], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert r.returncode == 0, r.stderr
