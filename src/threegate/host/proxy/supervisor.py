"""The running proxy: start, rules, sockets, decisions in the audit log, and the proxy as a service.

When the proxy ends for any reason, nothing can be asked through it, and its owner is notified.
`serve_proxy` runs it as a service under one bundle until a signal ends it or makes it read the
bundle again.  A lock of the workspace excludes other processes, not other threads of this one; so
while a proxy lives, its owner writes log entries through a `LogWriter`.

SECURITY
    Reads notes of a process that resolves hostile names, has the network and may be compromised.  A
    note is a line with exactly the keys of a decision; anything else ends the proxy with every
    tunnel it holds.  The content of a note is the proxy's own statement; where the log of a host
    contradicts it, the host is right.
    The bundle of a service is a file whose owner decides what FETCH may reach: no signature is
    checked here, so it belongs to root or to the account of the proxy.  A bundle that cannot be
    read, or is older than the one in force, ends the proxy with all its tunnels.
"""

import errno
import fcntl
import os
import re
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import FrameType
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import GateUnavailable, PolicyInvalid, ProtocolBroken, ThreeGateError
from threegate.base.limits import MAX_BUNDLE_BYTES
from threegate.base.text import visible
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.proxy.messages import Address, InForce, ProxyRules, parse_in_force
from threegate.handoff.disk import storage_errors
from threegate.handoff.store import Store
from threegate.host.open_box import ended, open_box
from threegate.host.proxy.machine import own_addresses, resolver
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.policy.purposes import PACKETS
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import Machine, find_machine
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
    """Return the log entry of a decision, or raise `ProtocolBroken`."""
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
            raise ProtocolBroken("a decision of the proxy with an invalid number")
    return {key: value for key, value in line.items() if key != "event"}


def _need_text(value: Any, *, optional: bool) -> None:
    if value is None and optional:
        return
    if type(value) is not str or _TEXT.fullmatch(value) is None:
        raise ProtocolBroken("a decision of the proxy with an invalid text")


# Writing to the audit log while a proxy reports decisions from its own thread.
#
# The workspace lock keeps other processes out, not other threads of this one. The code that starts
# a proxy therefore writes through one of these while the proxy lives.


class LogWriter:
    """Writes log entries, one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()

    def announce(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write an entry before an act; it is durable when this returns."""
        self._append(kind, data, durable=True)

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write an entry after an act."""
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
# In a sandbox, 3 is the channel; descriptors keep their numbers.
FIRST_FD: Final = 10
SHARED: Final = 0o660
PRIVATE: Final = 0o600  # for processes of the operator's own account
# Another writer of the directory could have put a link there, to any file of this user.
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening socket and its path."""

    path: Path
    fd: int


@contextmanager
def listening(runtime: Path | None, *, purpose: str = "fetch") -> Iterator[Listening]:
    """Listen in a new private directory, which is removed afterwards.

    The path is below the directory's descriptor: nobody can replace the socket.
    """
    with runtime_directory(runtime, purpose) as place, ExitStack() as stack:
        with storage_errors("make a socket"):
            fd = _listen(place.fd, SOCKET, mode=PRIVATE, gates=True)
        stack.callback(os.close, fd)
        yield Listening(place.by_descriptor / SOCKET, fd)


@contextmanager
def listening_at(path: Path, *, who: str = "proxy", mode: int = SHARED) -> Iterator[Listening]:
    """Listen at a path that the operator chose; directory, group and mode decide who may connect.

    Raises `GateUnavailable` if another process serves there; the socket of a dead one is replaced.
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
        # Gates then have their own uids.  They reach the socket only through the bind: the
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
        self.pinned: tuple[Address, ...] = ()  # addresses resolved at the start, if `pin`
        self._decided, self._gone = decided, gone
        self._gate: ServiceGate | None = None

    def start(self, bundle: Bundle) -> Evidence:
        """Start the sandbox and put the rules in force; raise `GateUnavailable`."""
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
        """Put rules in force for new and open tunnels, and return after that."""
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


_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
Tell = Callable[[dict[str, Any]], None]


def read_bundle(path: Path) -> Bundle:
    """Return the bundle in a file, or raise `PolicyInvalid`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BUNDLE_BYTES + 1)
    except OSError as exc:
        detail = f"cannot read {visible(str(path))}: {os.strerror(exc.errno or 0)}"
        hint = "`threegate infra write DIR` makes a bundle.json"
        raise PolicyInvalid(detail, hint=hint) from exc
    return parse_bundle(data)


def serve_proxy(socket: Path, read: Callable[[], Bundle], tell: Tell) -> None:
    """Serve until a signal ends it; SIGHUP reads the bundle again.

    `tell` gets each decision before it takes effect: if it fails, the proxy ends.
    """
    events: SimpleQueue[int | ThreeGateError] = SimpleQueue()
    with listening_at(socket) as listening, _signals(events):
        bundle = read()
        proxy = Proxy(find_machine(), listening, decided=tell, gone=events.put)
        try:
            proxy.start(bundle)
            tell(_in_force(bundle))
            while (word := events.get()) == signal.SIGHUP:
                bundle = _newer(read(), bundle)
                proxy.reload(bundle)
                tell(_in_force(bundle))
            if isinstance(word, ThreeGateError):
                raise word
        finally:
            proxy.close()


def _in_force(bundle: Bundle) -> dict[str, Any]:
    return {"event": "in-force", "generation": bundle.generation, "policy": bundle.digest}


def _newer(found: Bundle, before: Bundle) -> Bundle:
    if found.generation < before.generation:
        detail = f"generation {found.generation} is older than {before.generation}, in force now"
        raise PolicyInvalid(detail, hint="restart the proxy if that is intended")
    return found


@contextmanager
def _signals(events: "SimpleQueue[int | ThreeGateError]") -> Iterator[None]:
    """Put signals into the queue, which may be used inside a handler."""

    def put(number: int, _: FrameType | None) -> None:
        events.put(number)

    before = {number: signal.signal(number, put) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
