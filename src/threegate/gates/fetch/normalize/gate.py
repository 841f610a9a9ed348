"""The payload of a normalize box: one message in, one packet or one refusal out, then the end.

`serve` is for the box without libraries.  A box with one has a payload of its own that calls
`serve_with` with further readers.

SECURITY
    Reads hostile bytes, after a host that may be confused.  The raw bytes must be those the
    record names.  Nothing but our own messages leaves: an error nobody thought of ends the
    box, and its text stays inside.
"""

import gc
from collections.abc import Mapping
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import (
    ManyMade,
    Normalize,
    NormalizeMany,
    PacketMade,
    PacketNotMade,
    RetrievalRecord,
    parse_normalize,
    parse_record,
)
from threegate.gates.fetch.normalize.packet import NothingMade, make_packet
from threegate.gates.fetch.normalize.readers.registry import PLAIN
from threegate.gates.fetch.normalize.text import Read
from threegate.sandbox.payload import answer_once

BROKEN_RECORD: Final = "TG-NRM-001"
OTHER_BYTES: Final = "TG-NRM-002"
TOO_LARGE: Final = "TG-NRM-005"


def serve() -> None:
    """Answer one message; the payload of a fetch-normalize box."""
    serve_with(PLAIN)


def serve_with(readers: Mapping[str, Read]) -> None:
    """Answer one message with these readers."""
    gc.freeze()  # what was imported stays: a tenth of the time went into looking it over
    answer_once(lambda message: _answer(message, readers), parse_normalize.most_bytes)


def _answer(message: bytes, readers: Mapping[str, Read]) -> bytes:
    ask = parse_normalize(Untrusted(message))
    if isinstance(ask, Normalize):
        return answer(ask, readers).to_bytes()
    return answer_many(ask, readers).to_bytes()


def answer_many(ask: NormalizeMany, readers: Mapping[str, Read]) -> ManyMade:
    """Return the answer for each file, as if it had come alone; all are files of one commit."""
    asked = [
        Normalize(record, (raw,))
        for record, raw in zip(ask.pieces[::2], ask.pieces[1::2], strict=True)
    ]
    if len({_commit_of(one) for one in asked}) > 1:
        # Files that share a sandbox can affect each other, so they must have one origin.
        raise ProtocolBroken("files of several commits")
    return ManyMade(tuple(answer(one, readers).to_bytes() for one in asked))


def _commit_of(ask: Normalize) -> str:
    record = parse_record(Untrusted(ask.record))
    if len(record.answers) != 1 or record.answers[0].source != "git":
        raise ProtocolBroken("not a file of a commit")
    return record.answers[0].url.partition("/")[0]


def answer(ask: Normalize, readers: Mapping[str, Read]) -> PacketMade | PacketNotMade:
    """Return the packet, or why there is none."""
    try:
        record = parse_record(Untrusted(ask.record))
    except ProtocolBroken as exc:
        return PacketNotMade(BROKEN_RECORD, exc.message)
    if not _are_named(ask.raws, record):
        return PacketNotMade(OTHER_BYTES, "the raw bytes are not those the record names")
    raws = tuple(map(Untrusted, ask.raws))
    try:
        return PacketMade(make_packet(record, sha256_hex(ask.record), raws, readers))
    except NothingMade as exc:
        return PacketNotMade(exc.code, exc.message)
    except (MemoryError, RecursionError):
        return PacketNotMade(TOO_LARGE, "it does not fit into the memory of the box")


def _are_named(raws: tuple[bytes, ...], record: RetrievalRecord) -> bool:
    named = [(item.bytes, item.sha256) for item in record.answers]
    return named == [(len(raw), sha256_hex(raw)) for raw in raws]
