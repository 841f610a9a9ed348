"""Frames between the gate of the heavy lane and the agent inside its guest.

A frame is a kind, a length and a body; most bodies are JSON.  The agent's side is
`tool_exec/era/guest`, which stands alone inside the guest; a contract test compares the two.

SECURITY
    Everything that is parsed here was sent by a guest that may have been owned by its job,
    root included.  Sizes are checked before a body is read, every body has one spelling and
    exact keys; what is in it is the guest's word and no more.
"""

import os
import struct
from dataclasses import replace
from typing import Final

from threegate.base.forms import DIGEST, FILE_NAME, NONCE
from threegate.base.message_shapes import OpenText, RowShape, SortedRecord
from threegate.base.messages import (
    CheckedRecord,
    FlatMessage,
    FlatParser,
    flat_message,
    head,
    record,
)
from threegate.base.schema import Boolean, Integer, ListOf, Pattern
from threegate.base.untrusted import Untrusted
from threegate.base.wire import need
from threegate.gates.tool_exec.era.messages import MODULES
from threegate.policy.ring.executor_profile import ExecutorProfile, RingViolation

WARM, HELLO, JOB = 1, 2, 3
READY, FACTS, STDOUT, STDERR, FILE, DATA, EXIT, VIOLATION = 11, 12, 13, 14, 15, 16, 17, 18
FROM_GUEST: Final = frozenset((READY, FACTS, STDOUT, STDERR, FILE, DATA, EXIT, VIOLATION))
HEADER: Final = struct.Struct(">BI")
MAX_FRAME_BYTES: Final = 256 * 1024
PORT_NAME: Final = "threegate.agent"
IN_SERIAL: Final = "in"

NONCE_BYTES: Final = 16
ENTROPY_BYTES: Final = 64
MAX_ROWS: Final = 64
MAX_FILE_BYTES: Final = 2**63 - 1  # what a file can say of itself; a sparse one costs nothing
MAX_SIGNAL: Final = 64
_WORD: Final = Pattern(r"[!-~]{1,200}", "a printable word")
_ENTROPY: Final = Pattern(rf"[0-9a-f]{{{2 * ENTROPY_BYTES}}}", "random bytes in hex")
_RING: Final = SortedRecord(ExecutorProfile)


@flat_message("guest", "WARM", sender="gate, before a snapshot", answer="`GuestReady`")
class WarmFrame(FlatMessage):
    """Load modules under a ring."""

    imports: tuple[str, ...] = head(MODULES, "what to load")
    nonce: str = head(NONCE, "for the answer")
    ring: ExecutorProfile = head(_RING, "the ring")


@flat_message("guest", "HELLO", sender="host or gate, to every clone", answer="`GuestFacts`")
class HelloFrame(FlatMessage):
    """Wake up, with randomness of your own."""

    entropy: str = head(_ENTROPY, "for the kernel's pool")
    nonce: str = head(NONCE, "for the answer")


@flat_message("guest", "FILE", sender="gate, for a guest without disks; guest")
class FileAhead(FlatMessage):
    """A file whose bytes follow in frames of data."""

    bytes: int = head(Integer(0, MAX_FILE_BYTES), "its size")
    name: str = head(FILE_NAME, "its name")


@flat_message(
    "guest", "JOB", sender="gate, once", answer="streams, `RingViolation`, files, `GuestExit`"
)
class GuestTask(FlatMessage):
    """What the agent is to run; code, if there is any, follows in a frame of its own."""

    argv: tuple[str, ...] = head(ListOf(OpenText(4096), 256), "a command; empty for code")
    disk_bytes: int = head(Integer(), "that it may write")
    inputs: bool = head(Boolean(), "whether there are inputs")
    outputs: tuple[str, ...] = head(ListOf(FILE_NAME, 256), "files to bring back")
    processes: int = head(Integer(), "how many it may have")
    recursion: int = head(Integer(), "how deep it may call")
    ring: ExecutorProfile = head(_RING, "the ring")
    now_ns: int = head(Integer(0, 2**63 - 1), "the time it begins", default=0)

    def frames(self, code: bytes, *, now_ns: int) -> bytes:
        """Return the job as the agent hears it, with the time it begins."""
        return frame(JOB, replace(self, now_ns=now_ns).to_bytes()) + frame(DATA, code)


@flat_message("guest", "READY", sender="guest", most_bytes=MAX_FRAME_BYTES)
class GuestReady(FlatMessage):
    """The modules that the guest says it has loaded."""

    imports: tuple[str, ...] = head(MODULES, "what is loaded")
    nonce: str = head(NONCE, "of the question")


@record
class GuestFacts(CheckedRecord):
    """What the guest says it looks like from inside, just before its job."""

    cpus: int = head(Integer(0, 4096), "processors")
    environment: int = head(Integer(0, 4096), "variables in the environment")
    interfaces: tuple[tuple[str, bool], ...] = head(
        ListOf(RowShape(_WORD, Boolean()), MAX_ROWS), "name, and whether it is up"
    )
    memory_kib: int = head(Integer(0, 2**40), "memory")
    mounts: tuple[tuple[str, str, str], ...] = head(
        ListOf(RowShape(_WORD, _WORD, _WORD), MAX_ROWS), "place, kind, `ro` or `rw`"
    )
    resolver: bool = head(Boolean(), "whether there is one")
    ring: str = head(DIGEST, "digest of the ring's profile in force")
    ring_proved: tuple[str, ...] = head(
        ListOf(_WORD, MAX_ROWS), "what of it was tried just now, and refused"
    )
    routes: int = head(Integer(0, 2**20), "routes")


@flat_message("guest", "FACTS", sender="guest", most_bytes=MAX_FRAME_BYTES)
class GuestAwake(FlatMessage):
    """What the guest says of itself."""

    facts: GuestFacts = head(SortedRecord(GuestFacts), "what it looks like from inside")
    nonce: str = head(NONCE, "of the question")


@flat_message("guest", "EXIT", sender="guest", most_bytes=MAX_FRAME_BYTES)
class GuestExit(FlatMessage):
    """How the guest says the job ended: a code, or the number of a signal."""

    code: int = head(Integer(0, 255), "exit code")
    oom: bool = head(Boolean(), "whether the guest's kernel ran out of memory meanwhile")
    signal: int = head(Integer(0, MAX_SIGNAL), "signal that ended it; 0 for none")

    def check(self) -> None:
        need(not (self.code and self.signal), "a code and a signal")


parse_file: Final = FlatParser(FileAhead)
parse_exit: Final = FlatParser(GuestExit)
parse_violation: Final = FlatParser(RingViolation)


def warm_frame(nonce: str, imports: tuple[str, ...], ring: ExecutorProfile) -> bytes:
    """Return the frame that has the agent load modules under a ring, before a snapshot."""
    return frame(WARM, WarmFrame(imports, nonce, ring).to_bytes())


def hello() -> tuple[str, bytes]:
    """Return a nonce, and the frame that wakes a clone up with it and randomness of its own."""
    nonce, entropy = os.urandom(NONCE_BYTES).hex(), os.urandom(ENTROPY_BYTES).hex()
    return nonce, frame(HELLO, HelloFrame(entropy, nonce).to_bytes())


def input_frame(name: str, size: int) -> bytes:
    """Return the frame that announces an input; its bytes follow in frames of data."""
    return frame(FILE, FileAhead(size, name).to_bytes())


def frame(kind: int, data: bytes) -> bytes:
    """Return one frame."""
    return HEADER.pack(kind, len(data)) + data


def parse_header(untrusted: bytes) -> tuple[int, int]:
    """Return kind and length of a frame from the guest, or raise `ProtocolBroken`."""
    kind, length = HEADER.unpack(untrusted)
    need(kind in FROM_GUEST, "not a frame of this protocol")
    need(length <= MAX_FRAME_BYTES, "a frame is too large")
    return kind, length


def parse_ready(body: Untrusted[bytes], nonce: str) -> tuple[str, ...]:
    """Return the modules the guest says it has loaded."""
    found = FlatParser(GuestReady)(body)
    need(found.nonce == nonce, "the answer is not to our question")
    return found.imports


def parse_facts(body: Untrusted[bytes], nonce: str) -> GuestFacts:
    """Return what the guest says of itself, in answer to this very question."""
    found = FlatParser(GuestAwake)(body)
    need(found.nonce == nonce, "the answer is not to our question")
    return found.facts
