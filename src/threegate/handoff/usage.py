"""Files and bytes per state directory, and the quotas over them.

The running totals travel in the log's outcome entries, so that no command has to count a
hundred thousand files; `audit verify` counts them again.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threegate.base.errors import QuotaExceeded
from threegate.handoff.disk import Directories
from threegate.handoff.states import INCOMING, NAMES
from threegate.policy.units import sized


@dataclass(frozen=True, slots=True)
class Quota:
    """The most a state may hold."""

    files: int
    bytes: int


class Usage:
    """Running totals, a pair (files, bytes) per directory."""

    def __init__(self, totals: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._totals = dict(totals or {})

    def copy(self) -> "Usage":
        """Return an independent copy."""
        return Usage(self._totals)

    def of(self, directory: str) -> tuple[int, int]:
        """Return (files, bytes) of a directory."""
        return self._totals.get(directory, (0, 0))

    def add(self, directory: str, *, files: int, size: int) -> None:
        """Count a change."""
        old_files, old_bytes = self.of(directory)
        self._totals[directory] = (old_files + files, old_bytes + size)

    def refuse_over(self, quotas: Mapping[str, Quota], *, than: "Usage") -> None:
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
    def from_plain(cls, value: Mapping[str, Any]) -> "Usage":
        """Return the totals a log entry holds."""
        return cls({key: (int(pair[0]), int(pair[1])) for key, pair in value.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]  # mutable


def scan_usage(directories: Directories) -> Usage:
    """Count what lies on disk."""
    usage = Usage()
    for directory, pattern in NAMES.items():
        if directory == INCOMING:
            continue
        with os.scandir(directories.fd(directory)) as entries:
            for entry in entries:
                if pattern.match(entry.name):
                    size = entry.stat(follow_symlinks=False).st_size
                    usage.add(directory, files=1, size=size)
    return usage
