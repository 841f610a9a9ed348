"""Compare the disk with what the log says must be there.

SECURITY
    Reads a workspace that somebody may have edited.  Changes nothing and raises nothing
    for what it finds; every difference becomes a finding.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from threegate.artifacts.ids import digest_of, sha256_hex
from threegate.audit.entry import Entry
from threegate.errors import HandoffTampered, StorageFailed
from threegate.handoff import states
from threegate.handoff.disk import Directories, read_file
from threegate.handoff.journal import INTENT, MAX_FILE_BYTES, OUTCOME, RECOVERED
from threegate.handoff.usage import Usage


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference; a stray file is one that is not ours, which is not tampering."""

    directory: str
    name: str
    problem: str
    stray: bool = False


class Fold:
    """The state of all files according to the log, built entry by entry."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], str] = {}  # (directory, name) -> digest
        self.touched: dict[str, None] = {}  # names, in the order the log first mentions them
        self.usage = Usage()
        self.pending: list[Mapping[str, Any]] = []

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == INTENT:
            self.pending.append(entry.data)
        elif entry.kind in (OUTCOME, RECOVERED):
            if entry.data.get("direction", "forward") == "forward":
                for data in self.pending:
                    self._apply(data)
            self.pending = []
            self.usage = Usage.from_plain(entry.data["usage"])

    def _apply(self, data: Mapping[str, Any]) -> None:
        digest = data.get("sha256", "")
        self.touched[data["name"]] = None
        if data["act"] in ("move", "remove"):
            digest = self.files.pop((data["from"], data["name"]), "")
        if data["act"] in ("put", "move"):
            self.files[(data["to"], data["name"])] = digest


def verify_files(
    directories: Directories, fold: Fold, progress: Callable[[int], None] | None = None
) -> Iterator[Finding]:
    """Yield every difference between the disk and the log."""
    expected: dict[str, dict[str, str]] = {directory: {} for directory in states.NAMES}
    for (directory, name), digest in fold.files.items():
        expected[directory][name] = digest
    seen = 0
    found = Usage()
    for directory, names in expected.items():
        for name in sorted(os.listdir(directories.fd(directory))):
            yield from _verify_file(directories, directory, name, names.pop(name, None), found)
            seen += 1
            if progress is not None:
                progress(seen)
        for name in sorted(names):
            yield Finding(directory, name, "is missing")
    if not fold.pending and found != fold.usage:
        yield Finding(states.HANDOFF, "usage", "the log counts other totals than lie on disk")


def _verify_file(
    directories: Directories, directory: str, name: str, digest: str | None, found: Usage
) -> Iterator[Finding]:
    fd = directories.fd(directory)
    try:
        ours = states.NAMES[directory].match(name) is not None
        data = read_file(fd, name, max_bytes=MAX_FILE_BYTES, mode=0o444 if ours else None)
    except (HandoffTampered, StorageFailed) as exc:
        yield Finding(directory, name, exc.message)
        return
    except FileNotFoundError:
        yield Finding(directory, name, "vanished while it was read")
        return
    if not ours:
        yield Finding(directory, name, "is not a file of ours", stray=True)
        return
    if directory != states.INCOMING:
        found.add(directory, files=1, size=len(data))
    if digest is None:
        yield Finding(directory, name, "is not in the log")
    elif sha256_hex(data) != digest:
        yield Finding(directory, name, "is not what the log recorded")


def artifact_places(fold: Fold) -> dict[str, str]:
    """Return the directory of every artifact id according to the log."""
    return {
        name.removesuffix(".md"): directory
        for directory, name in fold.files
        if name.endswith(".md") and len(digest_of(name.removesuffix(".md"))) == 64
    }
