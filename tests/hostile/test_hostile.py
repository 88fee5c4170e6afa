"""Malformed files end in one error line and exit status 1: no signal, at most 20 s and 1.5 GB, nothing left behind."""
import os
import re
import resource
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cases import all_cases, write
from testlib import PROGRAM

SECONDS = 20
ADDRESS_SPACE = 8 << 30
RESIDENT = 1500 << 20
LINE_MAX = 4000

ALL = all_cases()
CASES = {case.name: case for case in ALL}


def run(command, stdin, folder):
    """Status (negative: a signal), stdout, stderr and peak resident bytes of one run under the limits."""
    paths = [folder / name for name in ("stdin", "stdout", "stderr")]
    paths[0].write_bytes(stdin)
    with open(paths[0], "rb") as i, open(paths[1], "wb") as o, open(paths[2], "wb") as e:
        pid = os.fork()
        if pid == 0:
            try:
                for fd, file in enumerate((i, o, e)):
                    os.dup2(file.fileno(), fd)
                resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                signal.alarm(SECONDS)
                os.execv(PROGRAM, [PROGRAM, *command])
            finally:
                os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), paths[1].read_bytes(), paths[2].read_bytes(), usage.ru_maxrss * 1024


@pytest.mark.parametrize("name", CASES)
def test_hostile(name, tmp_path):
    case = CASES[name]
    model, work = tmp_path / "in", tmp_path / "run"
    model.mkdir()
    work.mkdir()
    command = write(case, model)
    before = sorted(os.listdir(model))
    status, out, err, resident = run(command, case.stdin, work)
    assert resident <= RESIDENT
    if case.valid:
        assert status == 0, err.decode(errors="replace")
        return
    assert status == 1, (status, err.decode(errors="replace"))
    assert out == b""
    lines = [line for line in err.split(b"\n") if line and not line.startswith(b"mlxcel: warning: ")]
    assert len(lines) == 1 and lines[0].startswith(b"mlxcel: error: "), err
    assert len(lines[0]) <= LINE_MAX and err.endswith(b"\n")
    message = lines[0].decode()  # valid UTF-8
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", message)
    for words in case.words:
        assert words in message, message
    assert sorted(os.listdir(model)) == before, "something was left behind"


def test_count():
    assert len([c for c in CASES.values() if not c.valid]) >= 60
    assert len(CASES) == len(ALL), "two cases of one name"
