"""Commands, options, help and the rules for stdout, stderr and the exit status."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from clilib import fault, usage
from testlib import PROGRAM, ROOT, mlxcel, mlxcel_ok

COMMANDS = re.findall(r"^COMMAND\((\w+),", (ROOT / "src/cli/commands.def").read_text(), re.M)


def test_all_commands_are_there():
    assert {"run", "generate", "logits", "tokenize", "detokenize", "template", "describe", "inspect", "list", "arch",
            "bench", "convert", "serve", "help", "version"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command):
    text = mlxcel_ok(command, "--help")
    assert text.startswith(f"usage: mlxcel {command}")
    assert f"Examples:\n  " in text and f"mlxcel {command}" in text.split("Examples:")[1]
    assert max(map(len, text.splitlines())) <= 120
    assert mlxcel_ok("help", command) == text
    assert mlxcel_ok(command, "-h") == text


def test_help_names_defaults_and_environment():
    text = mlxcel_ok("generate", "--help")
    assert re.search(r"-c, --ctx-size N\n.*\n?.*Default: 0\.\s+Environment: MLXCEL_CTX_SIZE, LLAMA_ARG_CTX_SIZE\.", text)
    assert "--temp, --temperature T\n      Temperature; 0 takes the likeliest token. Default: 0. " in text
    assert "Default: 0.8. " in mlxcel_ok("run", "--help")


def test_help_of_the_program():
    text = mlxcel_ok("help")
    assert text == mlxcel_ok("--help") == mlxcel_ok("-h")
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", text, re.M)


def test_reference_page_is_up_to_date():
    page = (ROOT / "docs/cli.md").read_text()
    assert mlxcel_ok("help", "--markdown") == page, "run make docs"


def test_version():
    text = mlxcel_ok("version")
    assert re.fullmatch(r"mlxcel \d+\.\d+\.\d+\n", text)
    assert mlxcel_ok("--version") == mlxcel_ok("-V") == text


def test_unknown_commands():
    assert fault(status=2) == "no command given; see mlxcel --help"
    assert fault("genrate", status=2) == "unknown command genrate; did you mean generate? see mlxcel --help"
    assert fault("help", "genrate", status=2) == "unknown command genrate; did you mean generate? see mlxcel --help"
    assert fault("train", "-m", "x", status=2) == "unknown command train; see mlxcel --help"
    assert fault("tr\x1bain\n", status=2) == "unknown command tr\\x1bain\\x0a; see mlxcel --help"


def test_wrong_options():
    assert usage("generate", "--temprature", "1") == "unknown option --temprature; did you mean --temperature?"
    assert usage("generate", "-m") == "-m needs a value: DIR"
    assert usage("generate") == "generate needs --model DIR"
    assert usage("generate", "x") == "generate needs --model; did you mean --model x?"
    assert usage("generate", "-m", "x", "extra") == "unexpected argument extra"
    assert usage("tokenize", "-m", "x", "extra") == "unexpected argument extra; the input is read from stdin"
    assert "--input FILE (- for stdin)" in usage("template", "--chat-template", "chatml")
    assert usage("generate", "-m", "x", "--temp", "hot") == '--temp takes a number from 0 to 100, not "hot"'
    assert usage("generate", "-m", "x", "--temp=-1") == '--temp takes a number from 0 to 100, not "-1"'
    assert usage("generate", "-m", "x", "--top-p", "1.5") == '--top-p takes a number from 0 to 1, not "1.5"'
    assert usage("generate", "-m", "x", "--json=1") == "--json takes no value"
    assert usage("generate", "-m", "x", "--precision", "hi") == '--precision takes one of default|high|exact, not "hi"'
    assert usage("tokenize", "-m", "x", "--temp", "1") == "--temp is not an option of tokenize"
    assert usage("logits", "-m", "x", "--tokens", "1") == "logits needs --output OUT"
    assert usage("logits", "-m", "x", "--tokens", "1", "-o", "y", "--chunk", "0").endswith('not "0"')


@pytest.mark.parametrize("n", [100, 3999, 4000, 60000])
def test_long_values_are_cut(n):
    fault("generate", "-m", "x", "--top-k", "é" * n, status=2)
    assert fault("é" * n, status=2).endswith("; see mlxcel --help")


def test_environment():
    assert usage("generate", "-m", "x", env={"LLAMA_ARG_CTX_SIZE": "many"}) == (
        'LLAMA_ARG_CTX_SIZE takes an integer from 0 to 2147483647, not "many"')
    assert "needs --model" in usage("generate", env={"MLXCEL_MODEL": ""})
    missing = fault("generate", "-p", "x", env={"MLXCEL_MODEL": "/nowhere/a", "LLAMA_ARG_MODEL": "/nowhere/b"})
    assert "/nowhere/a" in missing
    assert "/nowhere/c" in fault("generate", "-p", "x", "-m", "/nowhere/c", env={"MLXCEL_MODEL": "/nowhere/a"})


def test_called_as_the_server(tmp_path):
    (tmp_path / "mlxcel-server").symlink_to(shutil.which(PROGRAM))
    r = subprocess.run([tmp_path / "mlxcel-server", "--help"], capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout == mlxcel_ok("serve", "--help")
    r = subprocess.run([tmp_path / "mlxcel-server", "--version"], capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout == mlxcel_ok("version")
    r = subprocess.run([tmp_path / "mlxcel-server", "--prot", "1"], capture_output=True, text=True)
    assert r.returncode == 2
    assert r.stderr == "mlxcel: error: unknown option --prot; did you mean --port? see mlxcel serve --help\n"


def test_full_disk_is_a_fault():
    with open("/dev/full", "wb") as full:
        r = subprocess.run([PROGRAM, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert r.returncode == 1
    assert r.stderr == "mlxcel: error: cannot write to standard output: No space left on device\n"


def test_closed_stdout_is_a_fault():
    r = subprocess.run([PROGRAM, "version"], stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(1))
    assert r.returncode == 1
    assert r.stderr == "mlxcel: error: cannot write to standard output: Bad file descriptor\n"


def test_reader_that_goes_away_ends_quietly():
    read, write = os.pipe()
    os.close(read)
    r = subprocess.run([PROGRAM, "help"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (r.returncode, r.stderr) == (1, b"")


def test_closed_stderr_and_stdin_do_no_harm(tmp_path):
    r = subprocess.run([PROGRAM, "nonsense"], preexec_fn=lambda: [os.close(0), os.close(2)])
    assert r.returncode == 2


def test_small_address_space():
    r = subprocess.run(["sh", "-c", f"ulimit -v 8388608; exec '{PROGRAM}' version"], capture_output=True)
    assert r.returncode == 0, r.stderr


def test_readme_is_up_to_date():
    subprocess.run([sys.executable, "tools/update-readme", "--check", PROGRAM], cwd=ROOT, check=True, timeout=20)
