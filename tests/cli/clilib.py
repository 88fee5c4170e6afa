"""What the command line's tests share."""
import re

from testlib import mlxcel

LINE = re.compile(r"mlxcel: error: [^\n]*\n")


def fault(*args, status=1, **kwargs):
    """Runs the program, which must refuse: that exit status, nothing on stdout, one error line, whose text is returned."""
    r = mlxcel(*args, **kwargs)
    err = r.stderr.decode()
    assert r.returncode == status, f"exit {r.returncode}: {err}"
    assert r.stdout == b""
    assert LINE.fullmatch(err), err
    assert len(r.stderr) <= 4000
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", err)
    return err[len("mlxcel: error: "):-1]


def usage(command, *args, **kwargs):
    """The same for wrong usage; the pointer to the help is checked and cut off."""
    text = fault(command, *args, status=2, **kwargs)
    tail = f" see mlxcel {command} --help"
    assert text.endswith(tail), text
    return text[:-len(tail)].rstrip(";")
