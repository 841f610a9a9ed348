"""One entry of the log: its fields, its one spelling, its time, and its possible faults.

    {"data":{...},"kind":"...","prev":"<64 hex>","seq":N,"time":"2026-11-15T21:50:55Z"}

`data` is canonical JSON and everything around it has a fixed form, so a line has one
spelling and can be taken apart by cutting at known places (`threegate.audit.chain`).

SECURITY
    Reads lines somebody may have edited.  Any bytes become fields or a Reason, never
    an exception.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from json import JSONDecoder
from typing import Any, Final

from threegate.base import canonical
from threegate.base.errors import AuditTampered

# Sizes of the audit log. They are part of the format `log/1`: changing one is a new format.

FORMAT: Final = "log/1"

# Lines per segment, its header and its seal included, so that entry `seq` is in
# segment `seq // SEGMENT_EVENTS` and a sealed segment is one complete Merkle subtree.
SEGMENT_EVENTS: Final = 1024

MAX_LINE_BYTES: Final = 64 * 1024  # newline included
MAX_SEGMENT_BYTES: Final = SEGMENT_EVENTS * MAX_LINE_BYTES

# What a crash can leave after the last whole line: part of a line, and blocks the file
# system had added but not filled.  A longer tail cannot come from a crash of ours.
MAX_TORN_BYTES: Final = 4 * 1024 * 1024

MAX_CHECKPOINT_BYTES: Final = 256
MAX_TREE_SIZE: Final = 2**53 - 1  # the largest integer every JSON reader agrees on


HEADER: Final = "segment"
SEAL: Final = "seal"
RECOVERED: Final = "log.recovered"
CLOCK: Final = "clock"  # the operator signs what time it is: the only entry that may be earlier

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_FORM: Final = re.compile(
    rb'\{"data":(?P<data>\{.*\}),"kind":"(?P<kind>[a-z][a-z0-9._-]{0,63})",'
    rb'"prev":"(?P<prev>[0-9a-f]{64})","seq":(?P<seq>0|[1-9][0-9]{0,15}),'
    rb'"time":"(?P<time>[0-9TZ:-]{20})"\}',
    re.DOTALL,
)


class LogFault(Enum):
    """A fault of a log; the name is stable, the value completes a sentence."""

    TOO_LONG = "is longer than any entry"
    FORM = "is not spelled like an entry"
    ORDER = "has the sequence number of another entry"
    CHAIN = "does not follow the entry before it"
    TIME = "has no time, or one earlier than the entry before it"
    KIND = "has a kind that is not allowed at this place"
    DATA = "holds data that is not canonical JSON"
    HEADER = "does not open its segment"
    SEAL = "does not seal its segment"
    EXTRA = "stands after the seal of its segment"
    UNSEALED = "is missing: its segment ends without a seal"
    TORN = "is torn: the log ends inside a line"
    MISSING = "is missing with its segment"
    FILE = "is in a file that is not a plain file of this user"
    UNREADABLE = "cannot be read"
    VERSION = "is in a format this program does not know"
    ORIGIN = "belongs to another workspace than the checkpoint"
    SHRUNK = "is missing: the log is shorter than it was"
    TRUNCATED = "is missing: the log is shorter than the checkpoint"
    FORK = "is not what the checkpoint covers: history was rewritten"


class LogBroken(AuditTampered):
    """The log breaks its own rules at entry `seq` of `segment`."""

    def __init__(self, reason: LogFault, *, segment: int, seq: int) -> None:
        super().__init__(f"audit log entry {seq} (segment {segment}) {reason.value}")
        self.reason = reason
        self.segment = segment
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded event, and the digest of its line."""

    seq: int
    time: str
    kind: str
    data: Mapping[str, Any]
    prev: str
    digest: str


@dataclass(frozen=True, slots=True)
class LogHead:
    """The last entry: where the log ends."""

    seq: int
    digest: str
    time: str


def unix_of(text: str) -> int:
    """Return the seconds of a log time, or raise ValueError."""
    if not _TIME.fullmatch(text):
        raise ValueError("not a UTC time in whole seconds")
    return int(datetime.fromisoformat(text).timestamp())


def time_of(seconds: int) -> str:
    """Return the log's spelling of `seconds`, or raise ValueError."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
    except (OverflowError, OSError) as exc:  # before the year 1, or after 9999
        raise ValueError("no such time") from exc


def emit_line(kind: str, data: Mapping[str, Any], *, prev: str, seq: int, time: str) -> bytes:
    """Return the line of an event, without its newline.

    Raises ValueError or TypeError for data that has no spelling.
    """
    return b'{"data":%b,"kind":"%b","prev":"%b","seq":%d,"time":"%b"}' % (
        canonical.encode(dict(data)),
        kind.encode(),
        prev.encode(),
        seq,
        time.encode(),
    )


def claimed_prev(line: bytes) -> str | None:
    """Return which digest `line` says it follows."""
    match = _FORM.fullmatch(line)
    return match["prev"].decode() if match else None


def parse_seal(line: bytes, *, segment: int) -> LogHead:
    """Return the head of a log that ends with the seal of `segment`, or raise Broken."""
    seq = (segment + 1) * SEGMENT_EVENTS - 1
    match = _FORM.fullmatch(line)
    if match is None or match["kind"] != SEAL.encode() or int(match["seq"]) != seq:
        raise LogBroken(LogFault.UNSEALED, segment=segment, seq=seq)
    return LogHead(seq, sha256(line).hexdigest(), match["time"].decode())


def what_is_wrong(line: bytes, *, seq: int) -> LogFault:
    """Return why `line` is not entry `seq` after the one before it."""
    if len(line) >= MAX_LINE_BYTES:
        return LogFault.TOO_LONG
    match = _FORM.fullmatch(line)
    if match is None:
        return LogFault.FORM
    return LogFault.ORDER if int(match["seq"]) != seq else LogFault.CHAIN


def _refuse(_: str) -> Any:
    raise ValueError("floats have no single spelling")


_DECODER: Final = JSONDecoder(parse_float=_refuse, parse_constant=_refuse)


def parse_data(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the data of every text before the first that is not canonical JSON.

    Each text begins with a brace.  Spelling is compared for all in one call of the
    encoder: faster than one by one, and as strict, because no JSON object is the
    beginning of another one.
    """
    try:
        values = [_decode(text) for text in texts]
    except (ValueError, RecursionError):
        values = list(_decode_until_bad(texts))
    return values[: _count_canonical(texts, values)]


def _decode(text: bytes) -> Any:
    # Depth needs a bracket each, so only data with many of them is worth a walk.
    if text.count(b"{") + text.count(b"[") >= canonical.MAX_DEPTH - 1:
        canonical.decode(b'{"data":%b}' % text)
    return _DECODER.raw_decode(text.decode("utf-8"))[0]


def _decode_until_bad(texts: Sequence[bytes]) -> Iterator[Any]:
    for text in texts:
        try:
            value = _decode(text)
        except (ValueError, RecursionError):
            return
        yield value


def _count_canonical(texts: Sequence[bytes], values: Sequence[dict[str, Any]]) -> int:
    texts = texts[: len(values)]
    if _spells(values, b"[" + b",".join(texts) + b"]"):
        return len(values)
    pairs = enumerate(zip(values, texts, strict=True))
    return next(index for index, (value, text) in pairs if not _spells(value, text))


def _spells(value: Any, text: bytes) -> bool:
    try:
        return canonical.encode(value) == text
    except ValueError:  # a lone surrogate, which only an escape can spell
        return False
