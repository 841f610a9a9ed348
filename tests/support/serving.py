"""`threegate proxy serve` as a process of its own, as its unit or container starts it."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from threegate.policy.bundle import Bundle

SECONDS = 30.0


class Serving:
    """A proxy that serves at a socket; `hear` reads what it decides, line by line."""

    def __init__(
        self, directory: Path, bundle: Bundle | None, env: dict[str, str] | None = None
    ) -> None:
        """Start it; without a bundle it decides by the workspace that `env` names."""
        self.socket, self.file = directory / "served.sock", directory / "bundle.json"
        options = ["--socket", str(self.socket)]
        if bundle is not None:
            self.file.write_bytes(bundle.bundle_bytes())
            options += ["--bundle", str(self.file)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "threegate", "proxy", "serve", *options],
            cwd=directory,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.first = self.hear()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.ended()[1]
        found: dict[str, Any] = json.loads(line)
        return found

    def connect(self, request: bytes) -> tuple[socket.socket, bytes]:
        """Send a request; return the connection and the first of the answer."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(SECONDS)
        sock.connect(str(self.socket))
        sock.sendall(request)
        return sock, sock.recv(4096)

    def apply(self, bundle: bytes) -> None:
        """Put other rules where it reads them, and say so."""
        self.file.write_bytes(bundle)
        self.process.send_signal(signal.SIGHUP)

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End it; return its exit code and what it said."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it said."""
        _, said = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, said.decode("utf-8", "replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
