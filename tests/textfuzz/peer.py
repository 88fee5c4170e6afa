"""The program under test as a peer: a long-lived `mlxcel ... --jsonl` that answers value by value."""
import json
import subprocess
import threading


class Peer:
    """A context manager; restarts nothing: a peer that dies is a failure of the program."""

    def __init__(self, program, *args):
        self.args = [program, *args, "--jsonl"]
        self.process = subprocess.Popen(self.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.kill()
        self.process.wait()

    def ask(self, values):
        """The answers to a list of values, in order; raises PeerDied when the program ended instead of answering."""
        def send():
            try:
                for value in values:
                    self.process.stdin.write(json.dumps(value).encode() + b"\n")
                self.process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass

        writer = threading.Thread(target=send)
        writer.start()
        answers = [self.process.stdout.readline() for _ in values]
        writer.join()
        if not answers[-1:] or answers[-1]:
            return [json.loads(line) for line in answers]
        why = self.process.stderr.read().decode(errors="replace").strip()
        raise PeerDied(f"{' '.join(self.args)}: exit status {self.process.wait()}: {why}")

    def ask_one(self, value):
        return self.ask([value])[0]


class PeerDied(Exception):
    pass


def tokenize_bytes(program, directory, data):
    """The ids of raw bytes on stdin, which need not be UTF-8."""
    out = subprocess.run([program, "tokenize", "-m", directory, "--ids"], input=data, capture_output=True, check=False)
    return json.loads(out.stdout) if out.returncode == 0 else {"error": out.stderr.decode(errors="replace").strip()}
