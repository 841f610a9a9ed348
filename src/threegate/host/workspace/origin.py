"""The origin of a packet: how it came into this workspace.

| origin | meaning |
|---|---|
| `retrieved` | the record and the raw bytes are here, and the packet was made from them |
| `raw-forgotten` | retrieved; `forget` removed the record or raw bytes: nothing to compare with |
| `imported` | reserved for imported libraries |
| `brought` | a file that the operator admitted; nothing vouches for what it says |

The audit log is the authority: the entry that announces a packet's file names the operation that
stored it.  No field of a packet has a say.  The index keeps a copy for quick answers.  Tombstones
of raw bytes are looked up whenever an origin is shown.

SECURITY
    Reads entries of a log that somebody may have edited; `audit verify` shows that.  Anything
    unknown is `brought`.  If this module is wrong, a forged packet reads as a retrieved one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from threegate.artifacts.ids import digest_of, short
from threegate.audit.entry import Entry
from threegate.handoff.admission import ADMIT_CONSISTENT, ADMIT_RETRIEVED, FETCH
from threegate.handoff.records import INTENT
from threegate.handoff.states import directory_of
from threegate.handoff.store import Store
from threegate.host.workspace.places import blobs_of, is_forgotten, read_anywhere

RETRIEVED: Final = "retrieved"
RAW_FORGOTTEN: Final = "raw-forgotten"
BROUGHT: Final = "brought"
_PACKETS: Final = directory_of("rp", "accepted")
_BYTES_FORGOTTEN: Final = "its record or raw bytes were forgotten, so it cannot be compared"


@dataclass(frozen=True, slots=True)
class PacketOrigin:
    """How a packet came here; `by` names the workspace and signer that vouch for a retrieval."""

    name: str
    by: str = ""
    consistent: bool = False  # a brought packet that agrees with the bytes that came with it

    @property
    def is_brought(self) -> bool:
        """Tell whether nothing vouches for what the packet says."""
        return self.name not in (RETRIEVED, RAW_FORGOTTEN)

    @property
    def words(self) -> str:
        """Return the origin as a sentence for people."""
        if not self.is_brought:
            told = f"retrieved elsewhere, signed by {self.by}" if self.by else "retrieved here"
            return told if self.name == RETRIEVED else f"{told}; {_BYTES_FORGOTTEN}"
        if self.consistent:
            return "brought by the operator with matching raw bytes, not retrieved here"
        return "brought by the operator, not retrieved here"


RETRIEVED_HERE: Final = PacketOrigin(RETRIEVED)
UNKNOWN: Final = PacketOrigin(BROUGHT)
CONSISTENT: Final = PacketOrigin(BROUGHT, consistent=True)

Origins = Callable[[str], PacketOrigin]  # of the packet with this id


def announced(entry: Entry) -> tuple[str, PacketOrigin] | None:
    """Return the packet that a log entry announces, with its origin, if it does that."""
    data = entry.data
    if entry.kind != INTENT or data.get("act") != "put" or data.get("to") != _PACKETS:
        return None
    detail = data.get("detail")
    origin = _origin(data.get("op"), detail if isinstance(detail, Mapping) else {})
    return str(data.get("name")).removesuffix(".md"), origin


def _origin(op: object, detail: Mapping[str, Any]) -> PacketOrigin:
    if op == FETCH:
        return RETRIEVED_HERE
    if op == ADMIT_RETRIEVED:
        return PacketOrigin(RETRIEVED, str(detail.get("by", "")))
    return CONSISTENT if op == ADMIT_CONSISTENT else UNKNOWN


def with_bytes(store: Store, origin: PacketOrigin, blobs: Iterable[str]) -> PacketOrigin:
    """Return the origin of a packet that names these `blob-` ids: forgotten bytes change it."""
    if origin.name != RETRIEVED:
        return origin
    gone = any(is_forgotten(store, one) and not store.has_blob(digest_of(one)) for one in blobs)
    return replace(origin, name=RAW_FORGOTTEN) if gone else origin


def announcements(store: Store) -> Iterator[tuple[str, PacketOrigin]]:
    """Yield every packet that the log announced, with its origin, in one pass over the log.

    The last announcement of a packet counts: an earlier one was undone or replaced.
    """
    return filter(None, map(announced, store.journal.log.entries()))


def logged(store: Store) -> Origins:
    """Return origins read from the log itself, at the first question."""
    found: dict[str, PacketOrigin] | None = None

    def origin(packet_id: str) -> PacketOrigin:
        nonlocal found
        if found is None:
            found = dict(announcements(store))
        packet = read_anywhere(store, packet_id) if packet_id in found else None
        blobs = (f"blob-{one}" for one in blobs_of(packet)) if packet is not None else ()
        return with_bytes(store, found.get(packet_id, UNKNOWN), blobs)

    return origin


def signed_by(principal: str, fingerprint: str, workspace: str) -> str:
    """Return the words that name who vouches for a retrieval in another workspace."""
    return f"{principal} ({fingerprint}) for workspace {workspace}"


def brought_words(packet_ids: list[str]) -> str:
    """Return a sentence about packets that were brought."""
    shown = ", ".join(short(one) for one in packet_ids[:8])
    more = f" and {len(packet_ids) - 8} more" if len(packet_ids) > 8 else ""
    return f"brought by the operator, not retrieved here: {shown}{more}"
