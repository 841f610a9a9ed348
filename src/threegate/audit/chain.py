"""The rules of the hash chain: which line may come next.  Pure; reader and writer share it.

`prev` of every line is the SHA-256 of the line before it.  Segments have exactly
SEGMENT_EVENTS lines: the first is the header (format, workspace, and the Merkle
frontier of everything before), the last is the seal (the SHA-256 of the segment's
bytes before it).  Those two kinds occur nowhere else.

Times never go back, except in an entry of kind `clock`: the operator's signature says that
the times before it were wrong, and `before` in its data is the time of the entry before it.
`audit verify` checks its signature.  The header
holds the latest time of all entries before it, so that a backward search for entries
of some time knows when to stop.

SECURITY
    Judges lines somebody may have edited.  Any lines either continue the chain or raise
    Broken (an AuditTampered) naming the first entry that does not; a newer format
    raises VersionUnsupported.  If this module is wrong, a changed history is believed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

from threegate.audit.checkpoint import WORKSPACE_ID, MerkleTree
from threegate.audit.entry import (
    CLOCK,
    FORMAT,
    HEADER,
    MAX_LINE_BYTES,
    SEAL,
    SEGMENT_EVENTS,
    Entry,
    LogBroken,
    LogFault,
    LogHead,
    claimed_prev,
    emit_line,
    parse_data,
    unix_of,
    what_is_wrong,
)
from threegate.base.errors import VersionUnsupported

NOTHING_BEFORE: Final = "0" * 64
LAST: Final = SEGMENT_EVENTS - 1  # position of the seal in a segment

_CLOCK: Final = CLOCK.encode()
_EDGES: Final = {0: HEADER.encode(), LAST: SEAL.encode()}
_ORDINARY: Final = re.compile(rb"(?!(?:segment|seal)\Z)[a-z][a-z0-9._-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"log/[1-9][0-9]{0,8}")
_TIME_BYTES: Final = 22  # the time and the two characters that end every line


@dataclass(slots=True)
class Links:
    """Lines that continue the chain, taken apart, one list per field."""

    start: int
    kinds: list[bytes]
    times: list[bytes]  # with the end of the line
    texts: list[bytes]
    digests: list[str]  # of the line before the first, then of each line
    datas: list[dict[str, Any]] = field(default_factory=list)

    def entries(self) -> Iterator[Entry]:
        """Return the lines as entries."""
        rows = zip(self.times, self.kinds, self.datas, pairwise(self.digests), strict=True)
        for seq, (time, kind, data, (prev, digest)) in enumerate(rows, self.start):
            yield Entry(seq, time[:-2].decode(), kind.decode(), data, prev, digest)


class Chain:
    """Everything needed to judge the next line, however long the log is."""

    __slots__ = ("_covered", "_tree", "digest", "latest", "size", "time", "workspace")

    def __init__(self, *, segment: int = 0, prev: str | None = None, time: str = "") -> None:
        """Start before the header of `segment`.

        `prev` and `time` are those of the line before it.  Without `prev` the header is not
        checked, and the reader must arrive at a digest it knows.
        """
        self.size = segment * SEGMENT_EVENTS
        self.digest = NOTHING_BEFORE if segment == 0 else prev
        self.time = time
        self.latest = time  # of any line so far; the header says so where those were not read
        self.workspace: str | None = None
        self._tree = MerkleTree() if segment == 0 else None
        self._covered = sha256()

    @property
    def segment(self) -> int:
        """Return the number of the segment of the next line."""
        return self.size // SEGMENT_EVENTS

    @property
    def position(self) -> int:
        """Return the position of the next line in its segment."""
        return self.size % SEGMENT_EVENTS

    @property
    def tree(self) -> MerkleTree:
        """Return the Merkle tree over all lines so far."""
        assert self._tree is not None, "the header has been read"
        return self._tree

    def head(self) -> LogHead:
        """Return the last entry."""
        assert self.digest is not None, "a line has been read"
        return LogHead(self.size - 1, self.digest, self.time)

    def copy(self) -> "Chain":
        """Return a chain that can go on without changing this one."""
        twin = Chain(time=self.time)
        twin.size, twin.digest, twin.workspace = self.size, self.digest, self.workspace
        twin.latest = self.latest
        twin._tree = None if self._tree is None else self._tree.copy()
        twin._covered = self._covered.copy()
        return twin

    def header(self) -> dict[str, Any]:
        """Return what the header of the next segment says."""
        return {
            "format": FORMAT,
            "frontier": [root.hex() for root in self.tree.frontier],
            "latest": self.latest,
            "segment": self.segment,
            "workspace": self.workspace,
        }

    def seal(self) -> dict[str, Any]:
        """Return what the seal of this segment says."""
        return {"events": LAST, "sha256": self._covered.hexdigest()}

    def draft(self, events: Sequence[tuple[str, Mapping[str, Any]]], *, time: str) -> list[bytes]:
        """Return lines for `feed`; raise ValueError or TypeError if one has no spelling."""
        lines: list[bytes] = []
        digest = self.head().digest
        for seq, (kind, data) in enumerate(events, self.size):
            lines.append(emit_line(kind, data, prev=digest, seq=seq, time=time))
            digest = sha256(lines[-1]).hexdigest()
        return lines

    def feed(self, lines: Sequence[bytes], *, segment: int) -> Links:
        """Follow `lines` from the file of `segment`, or raise Broken.

        After Broken, `size` is the number of entries before the one that broke the
        chain and the rest of the chain is undefined.
        """
        room = SEGMENT_EVENTS - self.position if segment == self.segment else 0
        links, reason = self._cut(lines[:room])
        links.datas = parse_data(links.texts)
        if len(links.datas) < len(links.texts):
            reason = LogFault.DATA
        if _CLOCK in links.kinds and not self._keep_clocks(links):
            reason = LogFault.TIME
        reason = self._accept(lines, links) or reason
        if reason is None and len(lines) > room:
            reason = LogFault.EXTRA
        if reason is not None:
            raise LogBroken(reason, segment=segment, seq=self.size)
        return links

    def _cut(self, lines: Sequence[bytes]) -> tuple[Links, LogFault | None]:
        """Take apart the lines up to the first that is not the next one."""
        digest = self.digest
        if digest is None:
            digest = (claimed_prev(lines[0]) if lines else None) or NOTHING_BEFORE
        kinds: list[bytes] = []
        times: list[bytes] = []
        texts: list[bytes] = []
        digests = [digest]
        reason: LogFault | None = None
        last, ending = self.time, b""
        for seq, line in enumerate(lines, self.size):
            middle = b'","prev":"%b","seq":%d,"time":"' % (digest.encode(), seq)
            time_at = len(line) - _TIME_BYTES
            kind_end = time_at - len(middle)
            kind_at = line.rfind(b',"kind":"', 0, kind_end)
            kind, time = line[kind_at + 9 : kind_end], line[time_at:]
            if line[kind_end:time_at] != middle or line[:9] != b'{"data":{' or kind_at < 0:
                reason = what_is_wrong(line, seq=seq)
            elif len(line) >= MAX_LINE_BYTES:
                reason = LogFault.TOO_LONG
            elif not _ORDINARY.fullmatch(kind) and kind != _EDGES.get(seq % SEGMENT_EVENTS):
                reason = LogFault.KIND
            elif time != ending:
                if _is_time(time, not_before="" if kind == _CLOCK else last):
                    last, ending = time[:-2].decode(), time
                else:
                    reason = LogFault.TIME
            if reason is not None:
                break
            digest = sha256(line).hexdigest()
            kinds.append(kind)
            times.append(time)
            texts.append(line[8:kind_at])
            digests.append(digest)
        return Links(self.size, kinds, times, texts, digests), reason

    def _keep_clocks(self, links: Links) -> bool:
        """Leave out the lines from the first clock entry on that misstates the time before it."""
        before = [self.time.encode(), *(time[:-2] for time in links.times)]
        for index, (kind, data) in enumerate(zip(links.kinds, links.datas, strict=False)):
            if kind == _CLOCK and data.get("before") != before[index].decode():
                links.datas = links.datas[:index]
                return False
        return True

    def _accept(self, lines: Sequence[bytes], links: Links) -> LogFault | None:
        """Take in the lines whose data could be read; judge header and seal on the way."""
        good = len(links.datas)
        if good == 0:
            return None
        if self.position == 0 and not self._open(links.kinds[0], links.datas[0]):
            return LogFault.HEADER
        sealed = self.position + good == SEGMENT_EVENTS
        covered = good - 1 if sealed else good
        self._covered.update(b"".join(line + b"\n" for line in lines[:covered]))
        reason = None
        if sealed and (links.kinds[-1], links.datas[-1]) != (SEAL.encode(), self.seal()):
            good, reason = covered, LogFault.SEAL
        self.tree.extend(sha256(b"\0" + line).digest() for line in lines[:good])
        self.size += good
        self.digest = links.digests[good]
        self.time = links.times[good - 1][:-2].decode()
        latest = max(links.times[:good], default=b"")[:-2].decode()
        self.latest = max(self.latest, latest)
        return reason

    def _open(self, kind: bytes, data: dict[str, Any]) -> bool:
        """Return whether this is the header of the next segment."""
        form, workspace = data.get("format"), data.get("workspace")
        if type(form) is str and form != FORMAT and _VERSION.fullmatch(form):
            raise VersionUnsupported(f"the audit log has the format {form}")
        if self.workspace is None and type(workspace) is str and WORKSPACE_ID.fullmatch(workspace):
            self.workspace = workspace
        if self._tree is None:
            self._tree = _tree_of(self.size, data.get("frontier"))
            latest = data.get("latest")
            if type(latest) is not str or not _is_time(_ended(latest), not_before=self.time):
                return False
            self.latest = latest
        self._covered = sha256()
        if kind != HEADER.encode() or self.workspace is None or self._tree is None:
            return False
        # `true` equals 1 in Python, so the type is checked as well.
        return type(data.get("segment")) is int and data == self.header()


def _tree_of(size: int, frontier: Any) -> MerkleTree | None:
    if type(frontier) is not list:
        return None
    if not all(type(root) is str and _DIGEST.fullmatch(root) for root in frontier):
        return None
    try:
        return MerkleTree(size=size, frontier=[bytes.fromhex(root) for root in frontier])
    except ValueError:
        return None


def _ended(time: str) -> bytes:
    return time.encode("ascii", "replace") + b'"}'


def _is_time(ending: bytes, *, not_before: str) -> bool:
    """Return whether a line ends with a time, and not with an earlier one."""
    try:
        time = ending[:-2].decode("ascii")
        unix_of(time)
    except ValueError:
        return False
    return time >= not_before and ending.endswith(b'"}')
