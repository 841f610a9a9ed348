"""Frames between the gate of the heavy lane and the agent inside its guest.

| frame | sent by | answered by |
|---|---|---|
| `Warm` | gate, before a snapshot | `Ready` |
| `Hello` | host or gate, once for every clone | `Facts` |
| `File` and its data | gate, for a guest without disks | nothing |
| `Job` and its code | gate, once | streams, violations of the ring, files, `Exit` |

The agent's side is `tool_exec/era/guest`, which stands alone inside the guest; a contract
test compares the two.

SECURITY
    Everything that is parsed here was sent by a guest that may have been owned by its job,
    root included.  Sizes are checked before a body is read, every body has one spelling and
    exact keys; what is in it is the guest's word and no more.
"""

import os
import re
import struct
from dataclasses import dataclass
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need, need_number, need_word
from threegate.policy.ring.executor_profile import DIGEST, ExecutorProfile, Violation

WARM, HELLO, JOB = 1, 2, 3
READY, FACTS, STDOUT, STDERR, FILE, DATA, EXIT, VIOLATION = 11, 12, 13, 14, 15, 16, 17, 18
FROM_GUEST: Final = frozenset((READY, FACTS, STDOUT, STDERR, FILE, DATA, EXIT, VIOLATION))
HEADER: Final = struct.Struct(">BI")
MAX_FRAME_BYTES: Final = 256 * 1024
PORT_NAME: Final = "threegate.agent"
IN_SERIAL: Final = "in"

NONCE_BYTES: Final = 16
NONCE: Final = re.compile("[0-9a-f]{32}")
ENTROPY_BYTES: Final = 64
_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63})?")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_WORD: Final = re.compile(r"[!-~]{1,200}")
MAX_MODULES: Final = 512
MAX_ROWS: Final = 64
MAX_FILE_BYTES: Final = 2**63 - 1  # what a file can say of itself; a sparse one costs nothing
MAX_SIGNAL: Final = 64


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guest says it looks like from inside, just before its job."""

    cpus: int
    environment: int
    interfaces: tuple[tuple[str, bool], ...]  # name, and whether it is up
    memory_kib: int
    mounts: tuple[tuple[str, str, str], ...]  # place, kind, `ro` or `rw`
    resolver: bool
    ring: str  # digest of the ring's profile in force
    ring_proved: tuple[str, ...]  # what of it was tried just now, and refused
    routes: int

    def __post_init__(self) -> None:
        need_number(self.cpus, 4096, "cpus")
        need_number(self.environment, 4096, "environment")
        need_number(self.memory_kib, 2**40, "memory_kib")
        need_number(self.routes, 2**20, "routes")
        need_word(self.ring, DIGEST, "the digest of a ring")
        need(len(self.ring_proved) <= MAX_ROWS, "too many proofs")
        for name in self.ring_proved:
            need_word(name, _WORD, "a proof of the ring")
        need(type(self.resolver) is bool, "resolver is there or not")
        need(max(len(self.interfaces), len(self.mounts)) <= MAX_ROWS, "too many rows")
        for name, up in self.interfaces:
            need_word(name, _WORD, "the name of an interface")
            need(type(up) is bool, "an interface is up or not")
        for row in self.mounts:
            for word in row:
                need_word(word, _WORD, "a mount")


@dataclass(frozen=True, slots=True)
class Exit:
    """How the guest says the job ended: a code, or the number of a signal."""

    code: int
    oom: bool  # the guest's kernel ran out of memory meanwhile
    signal: int

    def __post_init__(self) -> None:
        need_number(self.code, 255, "code")
        need_number(self.signal, MAX_SIGNAL, "signal")
        need(type(self.oom) is bool, "oom is true or false")
        need(not (self.code and self.signal), "a code and a signal")


@dataclass(frozen=True, slots=True)
class Task:
    """What the agent is to run; code, if there is any, follows in a frame of its own."""

    argv: tuple[str, ...]
    disk_bytes: int
    inputs: bool
    outputs: tuple[str, ...]
    processes: int
    recursion: int
    ring: ExecutorProfile

    def frames(self, code: bytes, *, now_ns: int) -> bytes:
        """Return the job as the agent hears it, with the time it begins."""
        fields = {
            "argv": list(self.argv),
            "disk_bytes": self.disk_bytes,
            "inputs": self.inputs,
            "now_ns": now_ns,
            "outputs": list(self.outputs),
            "processes": self.processes,
            "recursion": self.recursion,
            "ring": self.ring.plain(),
        }
        # Here the host's own bounds hold: a request has 256 words of 4,096 characters.
        body = canonical.encode(fields)
        return HEADER.pack(JOB, len(body)) + body + HEADER.pack(DATA, len(code)) + code


def warm_frame(nonce: str, imports: tuple[str, ...], ring: ExecutorProfile) -> bytes:
    """Return the frame that has the agent load modules under a ring, before a snapshot."""
    return _frame(WARM, {"imports": list(imports), "nonce": nonce, "ring": ring.plain()})


def hello() -> tuple[str, bytes]:
    """Return a nonce, and the frame that wakes a clone up with it and randomness of its own."""
    nonce = os.urandom(NONCE_BYTES).hex()
    entropy = os.urandom(ENTROPY_BYTES).hex()
    return nonce, _frame(HELLO, {"entropy": entropy, "nonce": nonce})


def input_frame(name: str, size: int) -> bytes:
    """Return the frame that announces an input; its bytes follow in frames of data."""
    return _frame(FILE, {"bytes": size, "name": name})


def data_frame(data: bytes) -> bytes:
    """Return a piece of an input."""
    return HEADER.pack(DATA, len(data)) + data


def _frame(kind: int, fields: dict[str, Any]) -> bytes:
    body = canonical.encode(fields)
    return HEADER.pack(kind, len(body)) + body


def parse_header(untrusted: bytes) -> tuple[int, int]:
    """Return kind and length of a frame from the guest, or raise `ProtocolBroken`."""
    kind, length = HEADER.unpack(untrusted)
    need(kind in FROM_GUEST, "not a frame of this protocol")
    need(length <= MAX_FRAME_BYTES, "a frame is too large")
    return kind, length


def parse_ready(body: Untrusted[bytes], nonce: str) -> tuple[str, ...]:
    """Return the modules the guest says it has loaded."""
    imports, answered = _fields(body, "imports", "nonce")
    need(answered == nonce, "the answer is not to our question")
    need(type(imports) is list and len(imports) <= MAX_MODULES, "imports is not a short list")
    for name in imports:
        need_word(name, _MODULE, "a module")
    return tuple(imports)


def parse_facts(body: Untrusted[bytes], nonce: str) -> Facts:
    """Return what the guest says of itself, in answer to this very question."""
    facts, answered = _fields(body, "facts", "nonce")
    need(answered == nonce, "the answer is not to our question")
    names = (
        *("cpus", "environment", "interfaces", "memory_kib", "mounts", "resolver", "ring"),
        *("ring_proved", "routes"),
    )
    need(type(facts) is dict and tuple(facts) == names, "unexpected facts")
    return Facts(
        cpus=facts["cpus"],
        environment=facts["environment"],
        interfaces=tuple((name, up) for name, up in _rows(facts["interfaces"], 2)),
        memory_kib=facts["memory_kib"],
        mounts=tuple((place, kind, mode) for place, kind, mode in _rows(facts["mounts"], 3)),
        resolver=facts["resolver"],
        ring=facts["ring"],
        ring_proved=tuple(_list(facts["ring_proved"])),
        routes=facts["routes"],
    )


def parse_file(body: Untrusted[bytes]) -> tuple[str, int]:
    """Return name and size of the file whose bytes come next."""
    size, name = _fields(body, "bytes", "name")
    need_number(size, MAX_FILE_BYTES, "bytes")
    need_word(name, _FILE_NAME, "the name of a file")
    return name, size


def parse_exit(body: Untrusted[bytes]) -> Exit:
    """Return how the guest says the job ended."""
    return Exit(*_fields(body, "code", "oom", "signal"))


def _fields(body: Untrusted[bytes], *names: str) -> list[Any]:
    try:
        value = canonical.decode(body.open_for_validation())
    except ValueError as exc:
        raise ProtocolBroken("a frame is not canonical JSON") from exc
    need(type(value) is dict and tuple(value) == names, "unexpected fields")
    return list(value.values())


def parse_violation(body: Untrusted[bytes]) -> Violation:
    """Return a rule that the job tried, as the guest tells it."""
    argument, line, rule = _fields(body, "argument", "line", "rule")
    return Violation(rule, argument, line)


def _list(value: Any) -> list[Any]:
    need(type(value) is list and len(value) <= MAX_ROWS, "not a short list")
    found: list[Any] = value
    return found


def _rows(value: Any, width: int) -> list[list[Any]]:
    rows = _list(value)
    need(all(type(row) is list and len(row) == width for row in rows), "a row of another width")
    return rows
