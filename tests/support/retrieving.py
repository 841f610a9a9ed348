"""Retrieve between a question and servers of a test, without a network or TLS."""

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tests.support import samples
from tests.support.policies import GATES, altered, policy, policy_files, signers_file
from tests.support.workspaces import OPERATOR, public_of, soft_signer
from threegate.artifacts import registry
from threegate.artifacts.approval import BOUND_SECTIONS, PolicySection
from threegate.artifacts.fetch_request import FetchRequest
from threegate.audit.entry import time_of
from threegate.gates.fetch.retrieve.messages import Authority, FetchQuestion, Got, NotGot
from threegate.gates.fetch.retrieve.retriever import Retriever
from threegate.gates.fetch.retrieve.rules import rules_of
from threegate.gates.http_library.client import ByteStream, Deadline, ResponseHead
from threegate.gates.http_library.tunnel import Connection
from threegate.keys.signers import AllowedSigner
from threegate.policy.approvals import NAMESPACE
from threegate.policy.bundle import Bundle
from threegate.policy.compiler import compile_policy

CROSSREF, OPENALEX, ARXIV = "api.crossref.org", "api.openalex.org", "arxiv.org"
URL = f"https://{CROSSREF}/works/10.5555%2F12345678"
RECORD = b'{"status":"ok"}'
ASK = FetchQuestion(URL, "application/json", 2**20)

Say = Callable[[str], bytes]  # the head of a request, and what is said to it


def bundle(**changes: tuple[str, str]) -> Bundle:
    return policy(**changes).bundle()


def fetch_rules(**changes: Any) -> Bundle:
    """Return the shipped policy with other values in its section `fetch`."""
    return altered(policy(), lambda sections: sections["fetch"].update(changes)).bundle()


def answer(body: bytes = RECORD, *headers: str, status: int = 200, media_type: str = "") -> bytes:
    named = media_type or "application/json"
    lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {named}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def moved(location: str, status: int = 302) -> bytes:
    return answer(b"elsewhere", f"Location: {location}", status=status)


@dataclass
class Servers:
    """A way to servers that say what a table has for their name; everything is written down."""

    table: dict[str, Say | list[bytes]]
    absolute: bool = False
    opened: list[str] = field(default_factory=list)
    heard: list[tuple[str, str]] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def open(self, host: str, _: Deadline) -> Connection:
        self.opened.append(host)
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=self._serve, args=(host, theirs), daemon=True)
        thread.start()
        self._threads.append(thread)
        return Connection(host, ByteStream(ours), "system", time.monotonic())

    def check(self, head: ResponseHead) -> None:
        pass

    def _serve(self, host: str, sock: socket.socket) -> None:
        with sock, suppress(BrokenPipeError, ConnectionResetError):  # whoever has enough hangs up
            data = b""
            while piece := sock.recv(65536):
                data += piece
                if not data.endswith(b"\r\n\r\n"):
                    continue
                request, data = data.decode("ascii"), b""
                self.heard.append((host, request))
                said = self._said(host, request)
                sock.sendall(said)
                if not said or b"Connection: close" in said:
                    return

    def _said(self, host: str, request: str) -> bytes:
        found = self.table[host]
        return found.pop(0) if isinstance(found, list) else found(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a connection was left open"


def retrieve(
    table: dict[str, Say | list[bytes]], ask: FetchQuestion = ASK, rules: Bundle | None = None
) -> tuple[Got | NotGot, Servers]:
    """Return what comes of one question, and the servers it met."""
    with Servers(table) as servers:
        retriever = Retriever(rules_of(rules or bundle()), servers)
        found = retriever.answer(ask)
        retriever.close()
    return found, servers


def signed_bundle(**changes: tuple[str, str]) -> Bundle:
    """Return a policy whose signer is the test's operator."""
    files = policy_files(**changes)
    files["allowed_signers"] = signers_file(AllowedSigner(OPERATOR, public_of()))
    return compile_policy(files, gates=GATES).bundle()


def authority(rules: Bundle, request: FetchRequest, /, **changes: Any) -> Authority:
    """Return an approval of `request` under `rules`, as the operator would sign it."""
    now = int(time.time())
    approval = samples.approval(
        request=registry.id_of(request),
        backend="fetch",
        limits=None,
        functions_sha256=None,
        network="none",
        policy=tuple(
            PolicySection(name, rules.section_digest(name)) for name in BOUND_SECTIONS["fetch"]
        ),
        approver=OPERATOR,
        nonce=secrets.token_hex(16),
        not_before=time_of(now - 60),
        not_after=time_of(now + 3600),
    )
    data = registry.emit(replace(approval, **changes))
    return Authority(registry.emit(request), data, soft_signer().sign(data, NAMESPACE))
