"""How much memory a process holds at its peak: its own pages and those of mapped files apart."""
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INTERVAL = 0.002  # seconds between looks


def resident(pid):
    """(own, mapped) bytes of a process; None once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}
    return (1024 * kilobytes["RssAnon"], 1024 * kilobytes["RssFile"]) if kilobytes else None


def peaks(command):
    """Runs a command: (stdout, {"own": peak, "mapped": peak, "both": greatest sum}), the last as the system kept it."""
    own = mapped = 0
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(list(map(str, command)), stdout=out)
        status = 0
        while not status:
            if now := resident(child.pid):
                own, mapped = max(own, now[0]), max(mapped, now[1])
            time.sleep(INTERVAL)
            status, code, usage = os.wait4(child.pid, os.WNOHANG)
        child.returncode = os.waitstatus_to_exitcode(code)
        if child.returncode:
            sys.exit(f"memory: {' '.join(map(str, command))}: exit {child.returncode}")
        out.seek(0)
        return out.read(), {"own": own, "mapped": mapped, "both": 1024 * usage.ru_maxrss}
