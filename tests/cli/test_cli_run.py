"""run: turns from a pipe, one shot, and the conversation on a terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from clilib import fault, usage
from testlib import PROGRAM, mlxcel, mlxcel_ok

GREEDY = ["--temp", 0, "--ignore-eos", "-n", 6]


def test_one_shot_is_generate(model):
    text = mlxcel_ok("run", model, "-p", "hello", *GREEDY)
    assert text and text == mlxcel_ok("run", "-m", model, "-p", "hello", *GREEDY)
    assert text == mlxcel_ok("generate", "-m", model, "-p", "hello", "-n", 6, "--ignore-eos")


def chat(model, text, *options):
    r = mlxcel("run", model, *GREEDY, *options, stdin=text)
    assert r.returncode == 0, r.stderr
    return r.stdout.decode(), r.stderr.decode()


def test_turns_from_a_pipe(model):
    one, err = chat(model, "hello\n")
    assert err == "" and one == mlxcel_ok("run", model, "-p", "hello", *GREEDY) + "\n"
    two, err = chat(model, "hello\n\nhello")
    assert err == "" and two.startswith(one) and len(two) > len(one)
    again, _ = chat(model, "hello\n/clear\nhello\n")
    assert again == one + one
    for word in ("/bye", "/exit", "/quit"):
        left, _ = chat(model, f"hello\n{word}\nhello\n")
        assert left == one


def test_several_lines_in_a_turn(model):
    lines, _ = chat(model, "a\\\nb\n")
    assert lines == chat(model, '"""\na\nb\n"""\n')[0] == chat(model, '"""a\nb"""\n')[0]
    assert lines == mlxcel_ok("run", model, "-p", "a\nb", *GREEDY) + "\n"


def test_system_message(model):
    text = mlxcel_ok("run", model, "-p", "hello", "--system", "world", *GREEDY) + "\n"
    assert chat(model, "/system world\nhello\n")[0] == text == chat(model, "hello\n", "-sys", "world")[0]
    assert chat(model, "/system world\n/clear\nhello\n")[0] == text
    assert chat(model, "/system world\n/system\nhello\n")[0] == chat(model, "hello\n")[0]


def test_slash_commands(model):
    assert chat(model, "/help\n") == chat(model, "/?\n")
    out, err = chat(model, "/?\n/zork\n")
    assert out == "" and "/system TEXT" in err and "unknown command /zork" in err


def test_full_context_drops_the_oldest_turns(model):
    out, err = chat(model, "hello world\n" * 8, "-c", 64)
    assert out.count("\n") >= 8
    assert re.search(r"mlxcel: the context of 64 tokens is full: dropped the oldest \d turns?\n", err)
    _, err = chat(model, "hello\n", "-c", 64, "-n", -1)
    assert "the context of 64 tokens is full: the answer ends here" in err


def test_a_turn_beyond_the_context(model):
    r = mlxcel("run", model, *GREEDY, "-c", 64, stdin="x " * 100)
    assert r.returncode == 1 and r.stdout == b"" and r.stderr.count(b"\n") == 1 and b"64" in r.stderr


def test_default_model_is_named_when_missing():
    assert "SmolLM2" in fault("run", "-p", "hello")


def test_one_model_is_named(model):
    assert usage("run", "a", "-m", "b", "-p", "x") == '--model is given twice: once as "a" without its name'
    text = mlxcel_ok("run", model, "-p", "hello", *GREEDY, env={"MLXCEL_MODEL": "/nowhere"})
    assert text == mlxcel_ok("run", "-p", "hello", *GREEDY, env={"MLXCEL_MODEL": str(model)})


def test_a_prompt_is_no_model():
    assert "a prompt is given with -p" in usage("run", "Why is the sky blue?")
    assert "hf download owner/name" in fault("run", "owner/name", "-p", "x")


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *args, env=None):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as in a terminal, also when the tests run under nohup
            os.environ.update({"TERM": "xterm", **(env or {})})
            os.execv(PROGRAM, [PROGRAM, *map(str, args)])

    def expect(self, pattern, seconds=20):
        """Reads until the pattern appears after what was expected before; returns the text up to it."""
        end = time.monotonic() + seconds
        while not (m := re.search(pattern, self.seen.decode(errors="replace"))):
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:
                    assert False, f"ended without {pattern!r}: {self.seen!r}"
        text = self.seen.decode(errors="replace")
        self.seen = text[m.end():].encode()
        return text[:m.end()]

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def status(self):
        status = None
        while status is None:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    os.read(self.fd, 4096)
                except OSError:
                    pass
            pid, code = os.waitpid(self.pid, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if pid else None
        os.close(self.fd)
        return status


def test_conversation_on_a_terminal(model, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    t = Terminal("run", model, *GREEDY, env=env)
    t.expect(r"tiny, 512 tokens of context; /\? for help")
    t.expect(">>> ")
    t.type("hello\n")
    t.expect(r"hello\r\n.+\r\n.*>>> ")
    t.type('"""\n')
    t.expect(r"\.\.\. ")
    t.type('world"""\n')
    t.expect(">>> ")
    t.type("/bye\n")
    assert t.status() == 0
    history = tmp_path / "state/mlxcel/history"
    assert "hello" in history.read_text() and history.stat().st_mode & 0o77 == 0
    t = Terminal("run", model, *GREEDY, env=env)
    t.expect(">>> ")
    t.type("\x1b[A")
    t.expect("/bye")
    t.type("\n")
    assert t.status() == 0


def test_interrupts_on_a_terminal(model):
    t = Terminal("run", model, "--temp", 0, "--ignore-eos", "-c", 200000)
    t.expect(">>> ")
    t.type("hello\n")
    t.expect(r"hello\r\n.")
    t.type("\x03")
    t.expect(">>> ")
    t.type("half a line")
    t.expect("half a line")
    t.type("\x03")
    assert "Ctrl-C again" not in t.expect(">>> ")  # it only dropped the text
    t.type("\x03")
    t.expect("press Ctrl-C again, or Ctrl-D, to leave")
    t.expect(">>> ")
    t.type("/?\n")
    t.expect("/system TEXT")
    t.expect(">>> ")
    t.type('"""\n')
    t.expect(r"\.\.\. ")
    t.type("\x03")
    assert "Ctrl-C again" not in t.expect(">>> ")
    t.type("\x03")
    t.expect(">>> ")
    t.type("\x03")
    assert t.status() == 130


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_a_conversation(model, sig, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for answering in False, True:
        t = Terminal("run", model, "--temp", 0, "--ignore-eos", "-c", 200000, env=env)
        t.expect(">>> ")
        if answering:
            t.type("hello\n")
            t.expect(r"hello\r\n.")
        os.kill(t.pid, sig)
        assert t.status() == 128 + sig
    assert "hello" in (tmp_path / "state/mlxcel/history").read_text()


def test_ctrl_c_while_nobody_takes_the_answer(model):
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writes, b"x" * 4096)
    p = subprocess.Popen([PROGRAM, "generate", "-m", model, "-p", "hello", "--ignore-eos"], stdout=writes,
                         stderr=subprocess.DEVNULL)
    os.close(writes)
    time.sleep(1)  # it stands in its first write
    p.send_signal(signal.SIGINT)
    time.sleep(0.2)
    with open(reads, "rb") as f:
        f.read()
    assert p.wait(20) == 130


def test_end_of_input_on_a_terminal(model):
    t = Terminal("run", model)
    t.expect(">>> ")
    t.type("\x04")
    assert t.status() == 0
