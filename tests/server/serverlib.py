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


class Server:
    def __init__(self, *options, model=TINY, wait=True):
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
        for _ in range(400):
            if self.request("GET", "/health")[0] == 200:
                return
            time.sleep(0.02)
        raise AssertionError(f"never ready: {self.log}")

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

    def stop(self, sig=signal.SIGTERM, timeout=10):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(timeout)
        self.reader.join(5)
        return status
