"""The origin of a packet: how it came into this workspace.

| origin | meaning |
|---|---|
| `retrieved` | the record and the raw bytes are here, and the packet was made from them |
| `imported` | reserved for imported libraries |
| `brought` | a file that the operator admitted; nothing vouches for what it says |

The audit log is the authority: the entry that announces a packet's file names the operation that
stored it.  No field of a packet has a say.  The index keeps a copy for quick answers.

SECURITY
    Reads entries of a log that somebody may have edited; `audit verify` shows that.  Anything
    unknown is `brought`.  If this module is wrong, a forged packet reads as a retrieved one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.artifacts.ids import short
from threegate.audit.entry import Entry
from threegate.handoff.admission import ADMIT_CONSISTENT, ADMIT_RETRIEVED, FETCH
from threegate.handoff.records import INTENT
from threegate.handoff.states import directory_of
from threegate.handoff.store import Store

RETRIEVED: Final = "retrieved"
BROUGHT: Final = "brought"
_PACKETS: Final = directory_of("rp", "accepted")


@dataclass(frozen=True, slots=True)
class PacketOrigin:
    """How a packet came here; `by` names the workspace and signer that vouch for a retrieval."""

    name: str
    by: str = ""
    consistent: bool = False  # a brought packet that agrees with the bytes that came with it

    @property
    def is_brought(self) -> bool:
        """Tell whether nothing vouches for what the packet says."""
        return self.name != RETRIEVED

    @property
    def words(self) -> str:
        """Return the origin as a sentence for people."""
        if not self.is_brought:
            return f"retrieved elsewhere, signed by {self.by}" if self.by else "retrieved here"
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


def announcements(store: Store) -> dict[str, PacketOrigin]:
    """Return the origin of every packet that the log ever announced: one pass over all of it."""
    # The last announcement counts: an earlier one was undone or replaced.
    return dict(filter(None, map(announced, store.journal.log.entries())))


def logged(store: Store) -> Origins:
    """Return origins read from the log itself, at the first question."""
    found: dict[str, PacketOrigin] | None = None

    def origin(packet_id: str) -> PacketOrigin:
        nonlocal found
        if found is None:
            found = announcements(store)
        return found.get(packet_id, UNKNOWN)

    return origin


def signed_by(principal: str, fingerprint: str, workspace: str) -> str:
    """Return the words that name who vouches for a retrieval in another workspace."""
    return f"{principal} ({fingerprint}) for workspace {workspace}"


def brought_words(packet_ids: list[str]) -> str:
    """Return a sentence about packets that were brought."""
    shown = ", ".join(short(one) for one in packet_ids[:8])
    more = f" and {len(packet_ids) - 8} more" if len(packet_ids) > 8 else ""
    return f"brought by the operator, not retrieved here: {shown}{more}"
