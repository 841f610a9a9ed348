"""The real Squid with the generated configuration, behind the socket its unit puts before it."""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.support.policies import altered, policy
from threegate.host.deploy.place import SQUID, Place, default_uids
from threegate.host.deploy.squid import squid_conf
from threegate.policy.bundle import Bundle

SECONDS = 30.0
SOCKET_PROXY = "/lib/systemd/systemd-socket-proxyd"
UIDS = default_uids()


def wait_until(act: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not act():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.02)


def as_uid(uid: int, *argv: str) -> list[str]:
    """Return a command run by somebody without any privilege."""
    bounded = ["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *bounded, *argv]


class Squid:
    """Squid and the bridge before it; `log` is what it wrote about requests."""

    def __init__(self, directory: Path, conf: str, port: int) -> None:
        self._directory, self._port = directory, port
        self.logs, self.socket = directory / "squid", directory / "gateway.sock"
        self._log = self.logs / "access.log"
        self.logs.mkdir()
        os.chown(self.logs, UIDS[SQUID], UIDS[SQUID])
        file = directory / "squid.conf"
        file.write_text(conf, "utf-8")
        file.chmod(0o644)
        program = shutil.which("squid")
        assert program is not None, "no squid: `make setup-tests` installs it"
        command = as_uid(UIDS[SQUID], program, "--foreground", "-f", str(file))
        self._squid = subprocess.Popen(command, cwd=self.logs, stderr=subprocess.DEVNULL)
        wait_until(self._listens, "squid listens")
        activate = ["systemd-socket-activate", "-l", str(self.socket)]
        self._bridge = subprocess.Popen(
            [*activate, SOCKET_PROXY, f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL
        )
        wait_until(self.socket.exists, "the socket is there")

    def _listens(self) -> bool:
        assert self._squid.poll() is None, (self.logs / "cache.log").read_text("utf-8")
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def ask(self, request: bytes) -> bytes:
        """Send one request through the socket; return all that comes back."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(SECONDS)
            sock.connect(str(self.socket))
            sock.sendall(request)
            answer = b""
            while data := sock.recv(65536):
                answer += data
            return answer

    def log(self) -> list[str]:
        if not self._log.exists():
            return []
        # What only knocked, as `_listens` did, asked for nothing.
        lines = self._log.read_text("utf-8").splitlines()
        return [line for line in lines if "error:transaction-end-before-headers" not in line]

    def files(self) -> list[str]:
        """Return what it left on disk."""
        return sorted(str(path.relative_to(self.logs)) for path in self.logs.rglob("*"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._bridge, self._squid):
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)


def gateway_policy(ca: Path, hosts: dict[str, dict[str, Any]]) -> Bundle:
    """Return the shipped policy that believes `ca` alone, with changed or added hosts."""
    digest = hashlib.sha256(ca.read_bytes()).hexdigest()

    def change(sections: dict[str, Any]) -> None:
        fetch = sections["fetch"]
        fetch["trust_anchors"] = [f"sha256:{digest}"]
        for name, rule in hosts.items():
            usual = fetch["hosts"].get(name, fetch["hosts"]["api.crossref.org"])
            fetch["hosts"][name] = {**usual, **rule}
        fetch["hosts"] = dict(sorted(fetch["hosts"].items()))

    return altered(policy(), change).bundle()


def gateway_conf(bundle: Bundle, directory: Path, ca: Path, where: Place) -> str:
    """Return the configuration, with the anchor where it looks for it."""
    digest = hashlib.sha256(ca.read_bytes()).hexdigest()
    anchors = directory / "anchors"
    anchors.mkdir()
    shutil.copyfile(ca, anchors / f"{digest}.pem")
    (anchors / f"{digest}.pem").chmod(0o644)
    assert where.anchors == str(anchors)
    return squid_conf(bundle, where)
