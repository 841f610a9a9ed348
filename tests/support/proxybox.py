"""The real proxy in its real box, driven as the host does it."""

import fcntl
import io
import json
import os
import socket
import time
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.addresses import Address
from threegate.gates.fetch.proxy.messages import InForce, ProxyRules, parse_in_force
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import PACKETS
from threegate.sandbox.box import Start
from threegate.sandbox.channel import frames
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import PROXY
from threegate.sandbox.session import start_gate
from threegate.sandbox.supervise import Ended, Line

PAYLOAD = "threegate.gates.fetch.proxy.gate:serve"
SECONDS = 30.0


class ProxyBox:
    """A started proxy; `lines` are the decisions it has told."""

    def __init__(
        self,
        directory: Path,
        resolv_conf: str,
        *own: str,
        purpose: str = PACKETS,
        hosts: tuple[str, ...] = (),
    ) -> None:
        self.socket = directory / "proxy.sock"
        self._purpose, self._hosts = purpose, hosts
        self.lines: list[dict[str, Any]] = []
        self._own: tuple[Address, ...] = tuple(ip_address(text) for text in own)
        conf = directory / "resolv.conf"
        conf.write_text(resolv_conf, "ascii")
        conf.chmod(0o644)
        # Inside, 3 is the channel; a descriptor keeps its number on the way in.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as low:
            fd = fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)
        self._listening = socket.socket(fileno=fd)
        self._listening.bind(str(self.socket))
        self._listening.listen(64)
        start = Start(PROXY, PAYLOAD, {"resolver": str(conf)}, keep_fds=(self._listening.fileno(),))
        started, _ = start_gate(find_machine(), start)
        self._line = Line(started, PROXY, note=self._note)
        why = self._line.greet(time.monotonic() + SECONDS)
        if why is not None or not self._line.is_ready:
            ended = self._line.end(why)
            raise AssertionError(ended, ended.stderr.open_for_display())

    def _note(self, data: bytes) -> None:
        self.lines.append(json.loads(data))

    def apply(self, policy: Bundle) -> InForce:
        """Put rules in force, and return what the proxy says about it."""
        answer = io.BytesIO()
        fd, purpose = self._listening.fileno(), self._purpose
        message = ProxyRules(policy.bundle_bytes(), fd, self._own, purpose, self._hosts)
        self._line.expect(answer)
        self._line.send(frames(message.to_bytes()))
        why = self._line.wait_for_answer(time.monotonic() + SECONDS)
        assert (why, self._line.is_answered) == (None, True), self._line.end(why)
        return parse_in_force(Untrusted(answer.getvalue()))

    def hear(self, until: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Listen until the lines are as wanted; return them, and begin anew."""
        end = time.monotonic() + SECONDS
        while not until(self.lines):
            why = self._line.wait_for_end(time.monotonic() + 0.05)
            assert why == "deadline", self._line.end(why)
            assert time.monotonic() < end, f"not told in time: {self.lines}"
        heard, self.lines = self.lines, []
        return heard

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(SECONDS)
        sock.connect(str(self.socket))
        return sock

    def close(self) -> Ended:
        self._line.hang_up()
        why = self._line.wait_for_end(time.monotonic() + SECONDS)
        self._listening.close()
        return self._line.end(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.unlink(self.socket)
        if not self._line.is_gone:
            self.close()
