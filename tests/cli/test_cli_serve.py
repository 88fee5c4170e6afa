"""serve: the command around the server, which tests/server covers."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
from clilib import usage
from testlib import PROGRAM


def start(*args):
    return subprocess.Popen([PROGRAM, "serve", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_port_zero_is_told_and_a_signal_ends_it(model, sig):
    p = start("-m", model, "--port", 0)
    assert re.fullmatch(r"mlxcel: listening on http://127\.0\.0\.1:\d+\n", p.stderr.readline())
    p.send_signal(sig)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 0 and out == "" and "error" not in err


def test_port_in_use(model):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        p = start("-m", model, "--port", port)
        out, err = p.communicate(timeout=20)
    assert p.returncode == 1 and out == "" and re.fullmatch(rf"mlxcel: error: .*{port}.*\n", err), err


def test_fail_fast():
    p = start("-m", "/nowhere", "--port", 0, "--fail-fast")
    out, err = p.communicate(timeout=20)
    assert p.returncode == 1 and out == ""
    assert [line for line in err.splitlines() if "error" in line] == [err.splitlines()[-1]] and "/nowhere" in err


def test_a_failed_load_keeps_it_up():
    p = start("-m", "/nowhere", "--port", 0)
    lines = [p.stderr.readline(), p.stderr.readline()]
    assert re.fullmatch(r"mlxcel: error: .*/nowhere.*\n", lines[1])
    p.send_signal(signal.SIGTERM)
    assert p.wait(timeout=20) == 0
    p.communicate()


def test_a_file_that_is_cut_while_it_is_used_is_an_error_not_a_signal(model, tmp_path):
    mine = tmp_path / "mine"
    shutil.copytree(model, mine)  # files, not links
    p = start("-m", mine, "--port", 0)
    port = int(re.search(r":(\d+)$", p.stderr.readline()).group(1))
    while "is ready" not in p.stderr.readline():
        pass
    weights = next(mine.glob("*.safetensors"))
    os.truncate(weights, 1)
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with pytest.raises((http.client.HTTPException, OSError)):
        c.request("POST", "/completion", json.dumps({"prompt": [1, 2, 130], "n_predict": 1}))
        c.getresponse()
    out, err = p.communicate(timeout=20)
    assert p.returncode == 1 and out == ""
    assert err.splitlines()[-1].startswith("mlxcel: error: a file that is in use became shorter")


def test_usage():
    assert "--port takes" in usage("serve", "-m", "x", "--port", 70000)
    assert "--parallel takes" in usage("serve", "-m", "x", "--parallel", 0)
    assert "--model" in usage("serve")
