"""Policies that let runs have a gateway, and a guest's side of one without a guest."""

import json
import os
from collections.abc import Mapping
from typing import Any

from tests.support.origins.runs import HOST, INNER, NOT_ASKED, SECOND
from tests.support.policies import altered, policy
from threegate.artifacts.tool_request import GatewayTerms
from threegate.gates.run_gateway import messages as say
from threegate.policy.bundle import Compiled

GRANTED = ("*.run-data.org",)
NETWORK = GatewayTerms(tuple(sorted((HOST, INNER, SECOND))), 8_192, 65_536)
assert NOT_ASKED not in NETWORK.hosts
# As text, for a workspace's own file: the lane, and a profile beside those that are there.
LANE_OFF = """\
    network: off
    gateway:
      hosts: []
      methods: [GET, HEAD]
"""
LANE_ON = """\
    network: gateway
    gateway:
      hosts: ["*.run-data.org"]
      methods: [GET, HEAD, POST]
"""
PROFILES = ("    profiles: [python, tools]\n", "    profiles: [online, python, tools]\n")
ONLINE = """\
interpreter_ring:
  online:
    allowed_imports: [json, sys]
    denied_imports: [socket]
    executor_network: gateway
    allowed_binaries: []
    denied_patterns: []
"""
TEXTS = ((LANE_OFF, LANE_ON), PROFILES, ("interpreter_ring:\n", ONLINE))
# The same, with the kernel around its proxy.
HELD = tuple(
    (old, new.replace("network: gateway", "network: kernel-allowlist")) for old, new in TEXTS
)


def granted(network: str = "gateway", **changes: Any) -> Compiled:
    """Return the shipped policy with a gateway of this kind; `changes` are rules of it."""
    rules = {"hosts": list(GRANTED), "methods": ["GET", "HEAD", "POST"], "up_bytes": 16_384}

    def change(sections: dict[str, Any]) -> None:
        era = sections["tool-exec"]["lanes"]["era"]
        era |= {"enabled": "yes", "network": network}
        era["gateway"] |= {**rules, **changes}
        era["profiles"] = sorted((*era["profiles"], "online"))
        ring = sections["tool-exec"]["interpreter_ring"]
        ring["online"] = {**ring["python"], "executor_network": network}

    return altered(policy(), change)


class Guest:
    """What a guest would say on its port: frames, one ask at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def ask(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Ask, and return the answer, or why there is none."""
        said = {"headers": dict(headers or {}), "line": 7, "method": method, "url": url}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        self.write(say.frame(say.ASK, text.encode()) + say.frame(say.BODY, body))
        kind, head = self.hear()
        found: dict[str, Any] = json.loads(head)
        if kind == say.ANSWER:
            found["body"] = self.hear()[1].decode()
        return found

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def hear(self) -> tuple[int, bytes]:
        kind, length = say.HEADER.unpack(self.read(say.HEADER.size))
        return kind, self.read(length)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = os.read(self._fd, size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
