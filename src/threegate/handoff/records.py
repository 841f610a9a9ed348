"""The journal's entries in the audit log, parsed strictly.

SECURITY
    Reads entries of a log that somebody may have edited.  An entry that the journal would not
    have written raises `AuditTampered`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.ids import is_digest
from threegate.audit.entry import Entry
from threegate.base.errors import AuditTampered, QuotaExceeded
from threegate.handoff.disk import Directories
from threegate.handoff.states import INCOMING, NAMES
from threegate.policy.leaves import sized

# Files and bytes per state directory, and the quotas over them.
#
# The running totals are part of the log's outcome entries, so that no command has to count a
# hundred thousand files; `audit verify` counts them again.


@dataclass(frozen=True, slots=True)
class Quota:
    """The most a state may hold."""

    files: int
    bytes: int


class StateUsage:
    """Running totals, a pair (files, bytes) per directory."""

    def __init__(self, totals: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._totals = dict(totals or {})

    def copy(self) -> "StateUsage":
        """Return an independent copy."""
        return StateUsage(self._totals)

    def of(self, directory: str) -> tuple[int, int]:
        """Return (files, bytes) of a directory."""
        return self._totals.get(directory, (0, 0))

    def add(self, directory: str, *, files: int, size: int) -> None:
        """Count a change."""
        old_files, old_bytes = self.of(directory)
        self._totals[directory] = (old_files + files, old_bytes + size)

    def refuse_over(self, quotas: Mapping[str, Quota], *, than: "StateUsage") -> None:
        """Raise `QuotaExceeded` for a directory that grew beyond its quota."""
        for directory, quota in quotas.items():
            files, size = self.of(directory)
            grew = (files, size) > than.of(directory)
            if grew and (files > quota.files or size > quota.bytes):
                detail = f"{directory} would hold {files} files, {sized(size)}; "
                limits = f"its quota is {quota.files} files, {sized(quota.bytes)}"
                raise QuotaExceeded(detail + limits, hint="raise the quota in handoff.policy.md")

    def plain(self) -> dict[str, list[int]]:
        """Return the value for the log."""
        return {key: list(pair) for key, pair in sorted(self._totals.items()) if pair != (0, 0)}

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> "StateUsage":
        """Return the totals a log entry holds."""
        return cls({key: (int(pair[0]), int(pair[1])) for key, pair in value.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateUsage) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]  # mutable


def scan_usage(directories: Directories) -> StateUsage:
    """Count what lies on disk."""
    usage = StateUsage()
    for directory, pattern in NAMES.items():
        if directory == INCOMING:
            continue
        with os.scandir(directories.fd(directory)) as entries:
            for entry in entries:
                if pattern.match(entry.name):
                    size = entry.stat(follow_symlinks=False).st_size
                    usage.add(directory, files=1, size=size)
    return usage


INTENT: Final = "intent"
OUTCOME: Final = "outcome"
RECOVERED: Final = "recovered"

_KEYS: Final = {
    "put": {"act", "bytes", "detail", "n", "name", "of", "op", "sha256", "to"},
    "move": {"act", "detail", "from", "n", "name", "of", "op", "to"},
    "remove": {"act", "detail", "from", "n", "name", "of", "op"},
}


@dataclass(frozen=True, slots=True)
class Intent:
    """One announced act; `source` and `to` are empty where the act has none."""

    seq: int
    act: str
    op: str
    name: str
    source: str
    to: str
    sha256: str
    number: int
    of: int

    @property
    def incoming(self) -> str:
        """Name of the new file while it is under way."""
        return str(self.seq)


@dataclass(frozen=True, slots=True)
class IntentOutcome:
    """How a batch ended."""

    first: int
    last: int
    forward: bool
    usage: StateUsage
    current: str | None  # digest of the pointer to the policy in force, if there is one


def parse_intent(entry: Entry) -> Intent:
    """Return the act an entry announces, or raise `AuditTampered`."""
    data = entry.data
    keys = _KEYS.get(str(data.get("act")))
    if keys is None or set(data) != keys:
        raise _not_ours(entry)
    source, to, name = data.get("from", ""), data.get("to", ""), data["name"]
    digest, number, of = data.get("sha256", ""), data["n"], data["of"]
    places = [place for place in (source, to) if place != ""]
    if not (
        isinstance(name, str)
        and isinstance(data["op"], str)
        and all(isinstance(p, str) and p in NAMES and NAMES[p].match(name) for p in places)
        and (digest == "" or (isinstance(digest, str) and is_digest(digest)))
        and type(number) is int
        and type(of) is int
        and 0 <= number < of
    ):
        raise _not_ours(entry)
    return Intent(entry.seq, data["act"], data["op"], name, source, to, digest, number, of)


def parse_outcome(entry: Entry) -> IntentOutcome:
    """Return how a batch ended, or raise `AuditTampered`."""
    data = entry.data
    keys = {"current", "first", "last", "usage"} | (
        {"direction"} if entry.kind == RECOVERED else set()
    )
    if set(data) != keys or data.get("direction", "forward") not in ("forward", "back"):
        raise _not_ours(entry)
    first, last = data["first"], data["last"]
    if type(first) is not int or type(last) is not int or not _is_usage(data["usage"]):
        raise _not_ours(entry)
    current = data["current"]
    if current is not None and not (isinstance(current, str) and is_digest(current)):
        raise _not_ours(entry)
    forward = data.get("direction", "forward") == "forward"
    return IntentOutcome(first, last, forward, StateUsage.from_plain(data["usage"]), current)


def _is_usage(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        for pair in value.values()
    )


def _not_ours(entry: Entry) -> AuditTampered:
    return AuditTampered(f"audit log entry {entry.seq} is not one the host writes")
