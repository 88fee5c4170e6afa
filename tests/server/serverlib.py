"""A real server process for the tests: started on a free port of the loopback, ended by its own id."""
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time

from testlib import DATA, PROGRAM

TINY = DATA / "tiny"
CHAT = {"messages": [{"role": "user", "content": "hello world"}], "temperature": 0, "max_tokens": 12}
PROMPT = {"prompt": "hello world", "temperature": 0, "max_tokens": 12}
LONG = {"prompt": "hello", "temperature": 0, "max_tokens": 100000, "ignore_eos": True}  # an answer of many seconds
HUGE = {"prompt": "hello world " * 6000, "max_tokens": 1, "cache_prompt": False}  # a prompt of many seconds


def error_of(answer, status):
    """The error object of an answer with this status, after checking its form."""
    code, _, body = answer
    assert code == status, body
    assert set(body) == {"error"} and body["error"]["message"] and body["error"]["type"]
    return body["error"]


def wait_for(condition, seconds=10):
    """Whether the condition holds within so many seconds."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return held


class Server:
    def __init__(self, *options, model=TINY, wait=True):
        """wait: until the model is loaded (the server may need no key then)."""
        command = [PROGRAM, "serve", "-m", str(model), "--host", "127.0.0.1", "--port", "0", *map(str, options)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, errors="replace")
        self.log, self.port = [], None
        ready = threading.Event()
        self.reader = threading.Thread(target=self.read_log, args=(ready,), daemon=True)
        self.reader.start()
        assert ready.wait(20), f"no port: {self.log}"
        assert self.port, f"the server ended: {self.log}"
        if wait:
            self.wait_ready()

    def read_log(self, ready):
        for line in self.process.stderr:
            self.log.append(line)
            if m := re.search(r"listening on http://[^ ]*:(\d+)", line):
                self.port = int(m.group(1))
                ready.set()
        ready.set()

    def wait_ready(self):
        assert wait_for(lambda: self.request("GET", "/health")[0] == 200), f"never ready: {self.log}"

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, parsed JSON or text)."""
        c = self.connect()
        raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.request(method, path, raw, headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        try:
            value = json.loads(data)
        except ValueError:
            value = data
        return r.status, r.headers, value

    def post(self, path, body, **headers):
        return self.request("POST", path, body, headers)

    def raw(self, data, timeout=10):
        """Sends bytes, returns everything the server says until it closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            s.sendall(data)
            out = b""
            s.settimeout(2)
            with contextlib.suppress(TimeoutError):
                while chunk := s.recv(65536):
                    out += chunk
            return out

    def begin(self, path, body, receive_buffer=None):
        """A socket on which the request was sent; nothing has been read from it."""
        raw = json.dumps(body).encode()
        s = socket.socket()
        s.settimeout(30)
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.connect(("127.0.0.1", self.port))
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
        return s

    def status(self, field):
        """A number of /proc/PID/status: VmRSS in KiB, Threads."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"^{field}:\s*(\d+)", f.read(), re.M).group(1))

    def ticks(self):
        """Processor time used so far, in hundredths of a second."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def stream(self, path, body):
        """The data of every event of a stream, parsed (the end mark as a string)."""
        c = self.connect()
        c.request("POST", path, json.dumps({**body, "stream": True}))
        r = c.getresponse()
        assert r.status == 200, r.read()
        assert r.getheader("Content-Type").startswith("text/event-stream")
        events = [line[6:].decode() for line in r.read().splitlines() if line.startswith(b"data: ")]
        c.close()
        return [e if e == "[DONE]" else json.loads(e) for e in events]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        status = self.stop()
        assert kind or status == 0, (status, self.log[-3:])

    def stop(self, sig=signal.SIGTERM, timeout=10):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(timeout)
        self.reader.join(5)
        return status
