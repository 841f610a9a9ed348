"""How a job of the heavy lane ended, as a tool-heavy box tells the host.

SECURITY
    The host reads what a box says that listened to a hostile guest: streams and files are
    the guest's, and the box may be owned.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from threegate.base import greeting, limits, wire
from threegate.base.untrusted import Untrusted
from threegate.base.wire import (
    fields_of,
    need,
    need_bytes,
    need_number,
    need_sentence,
    need_word,
    parts_of,
)
from threegate.gates.tool_exec.era.messages import PROTOCOL, need_probes, pairs_of
from threegate.gates.tool_exec.monty.messages import EXIT_STATE, REFUSED_APPROVAL
from threegate.policy.ring.executor_profile import MAX_VIOLATIONS, Violation, parse_violations

MAX_FILES: Final = 256
MAX_FILES_BYTES: Final = 256 * limits.MIB  # of all files together; the box holds them in memory
MAX_ANSWER_BYTES: Final = limits.MAX_HEADER_BYTES + 2 * limits.MAX_STREAM_BYTES + MAX_FILES_BYTES
NOT_AS_PROMISED: Final = "refused:guest-not-as-promised"
DID_NOT_WAKE: Final = "refused:guest-did-not-wake"  # or stopped before it was given its job
STOPPED: Final = ("crashed", DID_NOT_WAKE, NOT_AS_PROMISED)
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

_NOTE: Final = re.compile(r"[a-zA-Z0-9 :,.'()/_-]{1,200}")  # words of ours, with the engine's


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended.  `code` and `message` say why nothing ran; then there is no output.

    `note` is the gate's own word about a machine that stopped; streams are the guest's alone.
    """

    exit: str
    exit_code: int | None = None  # minus its number for a signal
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    files: tuple[tuple[str, bytes], ...] = ()
    probes: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    code: str | None = None
    message: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        need_word(self.exit, EXIT_STATE, "exit")
        number = self.exit_code
        need(number is None or (type(number) is int and -64 <= number <= 255), "exit_code")
        need((self.exit == "ok") == (number == 0), "ok goes with the exit code 0")
        need(number is None or self.exit in ("ok", "error"), "an exit code of what was ended")
        for what in ("stdout", "stderr"):
            need_bytes(getattr(self, what), limits.MAX_STREAM_BYTES, what)
            need(type(getattr(self, f"{what}_truncated")) is bool, f"{what} is cut or not")
        names = [name for name, _ in self.files]
        need(len(names) <= MAX_FILES, "too many files")
        for name, data in self.files:
            need_word(name, _FILE_NAME, "the name of a file")
            need_bytes(data, MAX_FILES_BYTES, "a file")
        # After the words: what is not text cannot be sorted.
        need(names == sorted(set(names)), "files are not sorted, or one stands twice")
        need(sum(len(data) for _, data in self.files) <= MAX_FILES_BYTES, "files are too large")
        need_probes(self.probes)
        need(len(self.violations) <= MAX_VIOLATIONS, "too many violations")
        self._check_refusal()

    def _check_refusal(self) -> None:
        denied = self.exit == REFUSED_APPROVAL
        need((self.code is None) == (self.message is None), "code and message go together")
        need((self.code is not None) == denied, "a code goes with a refused approval")
        if self.exit.startswith("refused:"):
            ran = self.stdout or self.stderr or self.files or self.violations
            need(not ran, "output of what did not run")
        need(self.note is None or self.exit in STOPPED, "a note about what did not crash")
        if self.note is not None:
            need_word(self.note, _NOTE, "note")
        if denied:
            need_word(self.code, greeting.CODE, "code")
            need_sentence(self.message, limits.MAX_LINE_CHARS, "message")

    def to_bytes(self) -> bytes:
        """Return the one spelling of this message."""
        fields = {
            "code": self.code,
            "cut": [self.stdout_truncated, self.stderr_truncated],
            "exit": self.exit,
            "exit_code": self.exit_code,
            "files": [[name, len(data)] for name, data in self.files],
            "message": self.message,
            "note": self.note,
            "probes": list(self.probes),
            "violations": [one.plain() for one in self.violations],
        }
        left = b"".join(data for _, data in self.files)
        return wire.pack(PROTOCOL, "outcome", fields, [self.stdout, self.stderr, left])


def parse_outcome(data: Untrusted[bytes]) -> Outcome:
    """Return the answer to a job, or raise `ProtocolBroken`; used by the host."""
    packed = wire.unpack_due(data, "outcome", protocol=PROTOCOL, most_bytes=MAX_ANSWER_BYTES)
    names = (
        *("code", "cut", "exit", "exit_code", "files", "message", "note", "probes"),
        "violations",
    )
    code, cut, state, exit_code, files, message, note, probes, violations = fields_of(
        packed, *names
    )
    need(type(cut) is list and len(cut) == 2, "cut is not two marks")
    need(type(probes) is list, "probes is not a list")
    stdout, stderr, left = parts_of(packed, 3)
    return Outcome(
        exit=state,
        exit_code=exit_code,
        stdout=stdout,
        stderr=stderr,
        stdout_truncated=cut[0],
        stderr_truncated=cut[1],
        files=_files(files, left),
        probes=tuple(probes),
        violations=parse_violations(violations),
        code=code,
        message=message,
        note=note,
    )


def _files(value: Any, left: bytes) -> tuple[tuple[str, bytes], ...]:
    found: list[tuple[str, bytes]] = []
    at = 0
    for name, size in pairs_of(value, MAX_FILES):
        need_number(size, MAX_FILES_BYTES, "bytes")
        found.append((name, left[at : at + size]))
        at += size
    need(at == len(left), "the files do not fill their part")
    return tuple(found)
