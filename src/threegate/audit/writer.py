"""Writing of planned bytes to disk: an error leaves the log as it was, a crash a prefix.

Order: new segments are written and synced under temporary names; then the open segment
gets its part, with one write; then the new ones get their names.  An error before the
last step leaves the log as it was.  A crash leaves a prefix of the batch.

After a sync has failed nothing is written any more: the kernel may have dropped the
bytes it could not write and a later sync would succeed without them.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from threegate.audit.chain import LAST, Chain
from threegate.audit.entry import HEADER, SEAL, Entry, LogBroken, LogFault
from threegate.audit.segment import (
    SEALED_MODE,
    discard,
    publish,
    segment_name,
    unavailable,
    write_new,
    write_once,
)
from threegate.base.errors import AuditUnavailable

# A batch of events as the bytes to be written, segment by segment. Pure.
#
# Every drafted line goes through the chain that readers use, so readers accept what is written.

CODE = "TG-AUD-003"

Events = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """The bytes a batch adds to one segment."""

    segment: int
    data: bytes
    sealed: bool


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The bytes to write, and the chain after they are written."""

    parts: tuple[SegmentPart, ...]
    entries: tuple[Entry, ...]
    chain: Chain


def plan_batch(chain: Chain, events: Events, *, time: str) -> WritePlan:
    """Return how `events` continue `chain`, which stays as it is.

    Raises AuditUnavailable for an event the log cannot hold: then nothing may happen.
    """
    after = chain.copy()
    parts: list[SegmentPart] = []
    entries: list[Entry] = []
    rest = list(events)
    while rest or after.size == 0:
        segment = after.segment
        header: Events = [(HEADER, after.header())] if after.position == 0 else []
        room = LAST - after.position - len(header)
        # A clock that is set back begins with its own entry, not with the header before it.
        lines = _extend(after, header, time=max(time, after.time))[0]
        more, added = _extend(after, rest[:room], time=time)
        lines += more
        entries += added
        rest = rest[room:]
        if after.position == LAST:
            lines += _extend(after, [(SEAL, after.seal())], time=time)[0]
        data = b"\n".join(lines) + b"\n"
        parts.append(SegmentPart(segment, data, sealed=after.position == 0))
    return WritePlan(tuple(parts), tuple(entries), after)


def _extend(chain: Chain, events: Events, *, time: str) -> tuple[list[bytes], list[Entry]]:
    try:
        lines = chain.draft(events, time=time)
        links = chain.feed(lines, segment=chain.segment)
    except LogBroken as exc:
        raise _refusal(exc.reason.value) from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise _refusal(LogFault.DATA.value) from exc
    # A tuple, or a number as a key, would be read back as another type.
    if any(dict(data) != read for (_, data), read in zip(events, links.datas, strict=True)):
        raise _refusal("does not read back as it was given")
    return lines, list(links.entries())


def _refusal(why: str) -> AuditUnavailable:
    return AuditUnavailable(f"an event {why}, so the audit log cannot hold it", code=CODE)


class Writer:
    """The end of the log, as a file.

    `fd` is the open segment, None between two segments; `length` how much of it is
    known to be whole lines; `refusal` says why nothing can be written any more.
    """

    __slots__ = ("_dir_fd", "fd", "length", "refusal")

    def __init__(self, dir_fd: int) -> None:
        self._dir_fd = dir_fd
        self.fd: int | None = None
        self.length = 0
        self.refusal = ""

    def check_usable(self) -> None:
        """Raise AuditUnavailable if nothing can be written any more."""
        if self.refusal:
            raise AuditUnavailable(f"the audit log cannot be used: {self.refusal}")

    def stand(self, fd: int | None, *, length: int) -> None:
        """Continue at `length` of `fd`."""
        if self.fd is not None and self.fd != fd:
            _close(self.fd)
        self.fd, self.length = fd, length

    def close(self) -> None:
        """Close the file."""
        self.stand(None, length=0)
        self.refusal = self.refusal or "it was closed"

    def write(self, parts: Sequence[SegmentPart], *, durable: bool) -> None:
        """Write `parts`, the first of them to the open segment if there is one."""
        self.check_usable()
        here = list(parts[:1]) if self.fd is not None else []
        new = parts[len(here) :]
        following: list[int] = []
        try:
            for part in new:
                self._prepare(part, following)
            self._extend(here, durable=durable)
        except OSError as exc:
            for part in new:
                discard(self._dir_fd, segment_name(part.segment))
            _close(*following)
            raise unavailable(exc, "write") from exc
        self._publish(new, following)
        if new:
            length = 0 if new[-1].sealed else len(new[-1].data)
            self.stand(following[0] if following else None, length=length)
        elif here and here[0].sealed:
            self.stand(None, length=0)
        elif here:
            self.length += len(here[0].data)

    def _prepare(self, part: SegmentPart, following: list[int]) -> None:
        """Write a new segment aside; the one to go on in is put into `following`."""
        fd = write_new(self._dir_fd, segment_name(part.segment), part.data)
        try:
            self._sync(fd, os.fsync)
            if part.sealed:
                os.fchmod(fd, SEALED_MODE)
        except OSError:
            _close(fd)
            raise
        if part.sealed:
            _close(fd)
        else:
            following.append(fd)

    def _extend(self, here: Sequence[SegmentPart], *, durable: bool) -> None:
        """Append to the open segment, or take back what was appended."""
        fd = self.fd
        if fd is None:
            return
        try:
            for part in here:
                write_once(fd, part.data)
            if durable or any(part.sealed for part in here):
                self._sync(fd, os.fdatasync)
            if any(part.sealed for part in here):
                os.fchmod(fd, SEALED_MODE)
        except OSError:
            self._take_back(fd)
            raise

    def _take_back(self, fd: int) -> None:
        try:
            os.ftruncate(fd, self.length)
        except OSError:  # the next to open the log finds it torn, and says so
            self.refusal = "it ends in a line that could not be taken back"

    def _publish(self, new: Sequence[SegmentPart], following: list[int]) -> None:
        try:
            for part in new:
                publish(self._dir_fd, segment_name(part.segment))
                # Each before the next: a power cut may keep the later of two names only.
                self._sync(self._dir_fd, os.fsync)
        except OSError as exc:
            # The open segment is sealed already: what follows must come from the disk.
            self.refusal = "a new segment could not be given its name"
            _close(*following)
            raise unavailable(exc, "write") from exc

    def _sync(self, fd: int, call: Callable[[int], None]) -> None:
        try:
            call(fd)
        except OSError:
            self.refusal = "a sync failed, so nobody knows what is on the disk"
            raise


def _close(*fds: int) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
