"""The proxy's supervisor: starts its box, gives it the rules, reads every decision.

When the proxy ends for any reason, nothing can be asked through it any more, and its owner is
told.

SECURITY
    Reads what a process with the network says.  A note that is not a decision in the protocol
    ends the proxy, with every tunnel it holds.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import GateUnavailable, ProtocolBroken, ThreeGateError
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import Address, InForce, ProxyRules, parse_in_force
from threegate.handoff.disk import storage_errors
from threegate.handoff.store import Store
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.machine import own_addresses, resolver
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import PACKETS
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine
from threegate.sandbox.profiles import PROXY, Profile
from threegate.sandbox.runtime import listen, runtime_directory
from threegate.sandbox.service import ServiceGate

# Decisions of the proxy as entries of the audit log.
#
# SECURITY: reads notes of a process that resolves hostile names and may be compromised. A note is
# a line with exactly these keys; otherwise the proxy has broken the protocol and is ended. A note
# is the proxy's word; where a host's own log disagrees, that host is right.

KIND: Final = "proxy.decision"
VERDICTS: Final = ("allow", "closed", "cut", "deny")
MAX_ADDRESSES: Final = 64
_KEYS: Final = ("address", "addresses", "detail", "event", "host", "reason", "rule", "verdict")
_COUNTS: Final = ("down", "up")
_TEXT: Final = re.compile(r"[ -~]{0,512}")
_MAX_COUNT: Final = 2**53 - 1


def parse_decision(note: bytes) -> dict[str, Any]:
    """Return what goes into the log, or raise `ProtocolBroken`."""
    try:
        line = canonical.decode(note)
    except ValueError as exc:
        raise ProtocolBroken("a decision of the proxy is not canonical JSON") from exc
    if type(line) is not dict or not set(_KEYS) <= set(line) <= {*_KEYS, *_COUNTS}:
        raise ProtocolBroken("not a decision of the proxy")
    if line["verdict"] not in VERDICTS or line["event"] != "tunnel":
        raise ProtocolBroken("not a decision of the proxy")
    addresses = line["addresses"]
    if type(addresses) is not list or len(addresses) > MAX_ADDRESSES:
        raise ProtocolBroken("a decision of the proxy with too many addresses")
    for text in (*(line[key] for key in ("address", "host", "rule")), *addresses):
        _need_text(text, optional=True)
    for key in ("detail", "reason"):
        _need_text(line[key], optional=False)
    for key in set(_COUNTS) & set(line):
        if type(line[key]) is not int or not 0 <= line[key] <= _MAX_COUNT:
            raise ProtocolBroken("a decision of the proxy with no number")
    return {key: value for key, value in line.items() if key != "event"}


def _need_text(value: Any, *, optional: bool) -> None:
    if value is None and optional:
        return
    if type(value) is not str or _TEXT.fullmatch(value) is None:
        raise ProtocolBroken("a decision of the proxy with a strange text")


# Writing to the audit log while a proxy reports decisions from its own thread.
#
# The workspace lock keeps other processes out, not other threads of this one. The code that starts
# a proxy therefore writes through one of these while the proxy lives.


class Noter:
    """Writes entries, one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()

    def announce(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write what is about to happen; it is durable when this returns."""
        self._append(kind, data, durable=True)

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write what has happened."""
        self._append(kind, data, durable=False)

    def decided(self, line: Mapping[str, Any]) -> None:
        """Write a decision of the proxy."""
        self.note(KIND, line)

    def _append(self, kind: str, data: Mapping[str, Any], *, durable: bool) -> None:
        with self._lock, self._store.locked() as journal:
            journal.log.append([(kind, data)], durable=durable)


# The socket of a proxy, a model or the console: listening, and handed on as a descriptor.
#
# It connects to nothing and reads nothing: the descriptor goes to the sandbox that serves. A gate
# sees the file only because it is bound into its sandbox.

SOCKET: Final = "served.sock"
SERVED_ALREADY: Final = "TG-INF-002"
# Inside, 3 is the channel; a descriptor keeps its number on the way in.
FIRST_FD: Final = 10
SHARED: Final = 0o660
PRIVATE: Final = 0o600  # for processes of the operator's own account
# Whoever else may write to the directory could have put a link there, to any file of ours.
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening socket and where it lies."""

    path: Path
    fd: int


@contextmanager
def listening(runtime: Path | None, *, purpose: str = "fetch") -> Iterator[Listening]:
    """Listen in a new private directory, which is gone afterwards.

    The path is below the directory's descriptor: nobody can put another socket there.
    """
    with runtime_directory(runtime, purpose) as place, ExitStack() as stack:
        with storage_errors("make a socket"):
            fd = _listen(place.fd, SOCKET, mode=PRIVATE, gates=True)
        stack.callback(os.close, fd)
        yield Listening(place.by_descriptor / SOCKET, fd)


@contextmanager
def listening_at(path: Path, *, who: str = "proxy", mode: int = SHARED) -> Iterator[Listening]:
    """Listen at a place the operator chose; its directory, group and mode decide who may connect.

    Raises `GateUnavailable` if somebody else serves there; what a dead one left is replaced.
    """
    with ExitStack() as stack:
        with storage_errors(f"make the socket of the {who}"):
            lock = os.open(path.with_name(f".{path.name}.lock"), _LOCK_FLAGS, 0o600)
            stack.callback(os.close, lock)
            _refuse_second(lock, path, who)
            with suppress(FileNotFoundError):
                if not stat.S_ISSOCK(path.lstat().st_mode):
                    raise FileExistsError(errno.EEXIST, "not a socket")
                path.unlink()
            place = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, place)
            fd = _listen(place, path.name, mode=mode, gates=mode != PRIVATE)
            stack.callback(os.close, fd)
            stack.callback(path.unlink, missing_ok=True)
        yield Listening(path, fd)


def _refuse_second(lock: int, path: Path, who: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        detail = f"another {who} serves at {visible(str(path))}"
        raise GateUnavailable(detail, code=SERVED_ALREADY, hint="end that one first") from exc


def _listen(directory: int, name: str, *, mode: int, gates: bool) -> int:
    if gates and os.geteuid() == 0:
        # The gates have uids of their own then.  Their only way to the socket is the bind: the
        # directory stays closed to them.
        mode = 0o666
    with listen(directory, name, mode=mode) as sock:
        return fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_FD)


RULES_SECONDS: Final = 20.0

Decided = Callable[[dict[str, Any]], None]
Gone = Callable[[ThreeGateError], None]


class Proxy:
    """A running proxy; `reload` and `close` may be called from any thread."""

    def __init__(
        self,
        machine: Machine,
        listening: Listening,
        *,
        decided: Decided,
        gone: Gone,
        purpose: str = PACKETS,
        hosts: tuple[str, ...] = (),
        profile: Profile = PROXY,
        pin: bool = False,
    ) -> None:
        self._machine, self._listening, self._purpose = machine, listening, purpose
        self._hosts, self._profile, self._pin = hosts, profile, pin
        self.pinned: tuple[Address, ...] = ()  # what it found out at its start, if it was to
        self._decided, self._gone = decided, gone
        self._gate: ServiceGate | None = None

    def start(self, bundle: Bundle) -> Evidence:
        """Start the box and put the rules in force; raise `GateUnavailable`."""
        kind = partial(
            ServiceGate,
            note=lambda note: self._decided(parse_decision(note)),
            failed=partial(ended, self._profile),
            gone=self._gone,
        )
        given, fds = {"resolver": resolver()}, (self._listening.fd,)
        gate = open_box(kind, self._machine, bundle, self._profile, given, keep_fds=fds)
        self._gate = gate
        self.pinned = self.reload(bundle).pinned
        return gate.evidence

    def reload(self, bundle: Bundle) -> InForce:
        """Put rules in force for new and for open tunnels; return when they hold."""
        assert self._gate is not None

        def parse(answer: Untrusted[bytes]) -> InForce:
            found = parse_in_force(answer)
            same = (found.generation, found.policy) == (bundle.generation, bundle.digest)
            if not same or (found.pinned and not self._pin):
                raise ProtocolBroken("the proxy put other rules in force")
            return found

        fd, own, data = self._listening.fd, own_addresses(), bundle.bundle_bytes()
        rules = ProxyRules(data, fd, own, self._purpose, self._hosts, self._pin)
        return self._gate.ask(rules.to_bytes(), parse, seconds=RULES_SECONDS)

    def close(self) -> None:
        """End the proxy with every tunnel it holds."""
        if self._gate is not None:
            self._gate.close()
