"""What the command line's tests share."""
import os
import re
import subprocess
import sys
import time

from testlib import PROGRAM, mlxcel

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


def peak_memory(*args):
    """kB that the program was resident with at most. Linux counts what a process was before exec as well: it is started by
    a small one."""
    start = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); " \
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    r = subprocess.run([sys.executable, "-I", "-S", "-c", start, PROGRAM, *map(str, args)], stdout=subprocess.PIPE,
                       timeout=60, check=True)
    return int(r.stdout)


def stop(args, sig, folder):
    """Starts the program, sends it a signal as soon as folder holds its temporary output; its exit status and stderr. 0: it
    was done before the signal came."""
    p = subprocess.Popen([PROGRAM, *map(str, args)], stderr=subprocess.PIPE)
    end = time.monotonic() + 20
    while p.poll() is None and time.monotonic() < end and not any(".tmp-" in n for n in os.listdir(folder)):
        time.sleep(0.001)
    p.send_signal(sig)
    _, err = p.communicate(timeout=30)
    return p.returncode, err
