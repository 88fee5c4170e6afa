"""All hostile cases: a name, the files, the command line, and words that the one error line must hold.

tests/hostile/write_all DIR writes every case into a folder of its own, to try them by hand.
"""
import os
from dataclasses import dataclass
from pathlib import Path

LOGITS = ["logits", "-m", "{dir}", "--tokens", "1,2,3", "-o", "{dir}/out.safetensors"]
CONVERT = ["convert", "{dir}/in.gguf", "-o", "{dir}/out"]
TOKENIZE = ["tokenize", "-m", "{dir}", "--ids"]
TEMPLATE = ["template", "--file", "{dir}/t.jinja", "--input", "{dir}/input.json"]


@dataclass
class Case:
    name: str
    files: dict  # name -> bytes, or a Special
    command: list
    words: tuple = ()  # all must stand in the message
    stdin: bytes = b""
    valid: bool = False  # a control: the unspoilt files, which must work


class Special:
    """What is no regular file: "dir", "fifo", or "link TARGET"."""

    def __init__(self, kind):
        self.kind = kind

    def write(self, path):
        if self.kind == "dir":
            path.mkdir()
        elif self.kind == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(self.kind.split(" ", 1)[1])


def write(case, folder):
    """Writes the case's files and returns its command line."""
    for name, content in case.files.items():
        if isinstance(content, Special):
            content.write(Path(folder) / name)
        else:
            (Path(folder) / name).write_bytes(content)
    return [word.replace("{dir}", str(folder)) for word in case.command]


def all_cases():
    import cases_config
    import cases_experts
    import cases_gguf
    import cases_run
    import cases_sources
    import cases_text
    import cases_weights

    modules = (cases_weights, cases_config, cases_experts, cases_gguf, cases_text, cases_sources, cases_run)
    return [case for module in modules for case in module.cases()]
