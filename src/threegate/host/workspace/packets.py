"""Origin and identity of packets: how each came into this workspace, and which work it describes.

| origin | meaning |
|---|---|
| `retrieved` | the record and the raw bytes are here, and the packet was made from them |
| `raw-forgotten` | retrieved or imported; `forget` removed its record or raw bytes |
| `imported` | made here from a file that the operator imported; its origin is not known |
| `brought` | a file that the operator admitted; nothing vouches for its content |

The audit log decides the origin: the entry that announces a packet's file names the operation that
stored it.  The fields of a packet have no influence.  The index holds a copy for quick answers.
Tombstones of raw bytes are looked up whenever an origin is shown.

Two packets are about one work if they share an identifier.  ISBN and ISSN do not count: chapters
and articles share them with their book or journal.

SECURITY
    Reads entries of a log that somebody may have edited; `audit verify` shows that.  Anything
    unknown is `brought`.  Opens identifiers that sources state, to compare them.  If this module is
    wrong, a forged packet is shown as a retrieved one, or packets of one work are not found
    together and a retraction is missed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

from threegate.artifacts.ids import digest_of, short
from threegate.artifacts.references import LIST_PREFIXES, parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.artifacts.sources import LOCAL_SOURCES, PRECEDENCE, WORK_SCHEMES
from threegate.audit.entry import Entry
from threegate.handoff.admission import ADMIT_CONSISTENT, ADMIT_RETRIEVED, FETCH, IMPORT
from threegate.handoff.records import INTENT
from threegate.handoff.states import directory_of
from threegate.handoff.store import Store
from threegate.host.workspace.places import blobs_of, is_forgotten, read_anywhere

RETRIEVED: Final = "retrieved"
IMPORTED: Final = "imported"
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
    from_file: bool = False  # of `raw-forgotten`: it was imported

    @property
    def is_brought(self) -> bool:
        """Tell whether nothing vouches for what the packet says."""
        return self.name not in (RETRIEVED, IMPORTED, RAW_FORGOTTEN)

    @property
    def words(self) -> str:
        """Return the origin as a sentence for people."""
        if not self.is_brought:
            told = f"retrieved elsewhere, signed by {self.by}" if self.by else "retrieved here"
            if self.name == IMPORTED or self.from_file:
                told = "imported here from a file of the operator"
            return f"{told}; {_BYTES_FORGOTTEN}" if self.name == RAW_FORGOTTEN else told
        if self.consistent:
            return "brought by the operator with matching raw bytes, not retrieved here"
        return "brought by the operator, not retrieved here"


RETRIEVED_HERE: Final = PacketOrigin(RETRIEVED)
IMPORTED_HERE: Final = PacketOrigin(IMPORTED)
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
    if op == IMPORT:
        return IMPORTED_HERE
    if op == ADMIT_RETRIEVED:
        return PacketOrigin(RETRIEVED, str(detail.get("by", "")))
    return CONSISTENT if op == ADMIT_CONSISTENT else UNKNOWN


def with_bytes(store: Store, origin: PacketOrigin, blobs: Iterable[str]) -> PacketOrigin:
    """Return the origin of a packet that names these `blob-` ids: forgotten bytes change it."""
    if origin.name not in (RETRIEVED, IMPORTED):
        return origin
    gone = any(is_forgotten(store, one) and not store.has_blob(digest_of(one)) for one in blobs)
    if not gone:
        return origin
    return replace(origin, name=RAW_FORGOTTEN, from_file=origin.name == IMPORTED)


def announcements(store: Store) -> Iterator[tuple[str, PacketOrigin]]:
    """Yield every packet that the log announced, with its origin, in one pass over the log.

    The last announcement of a packet counts: an earlier one was undone or replaced.
    """
    return filter(None, map(announced, store.journal.log.entries()))


def logged_origins(store: Store) -> Origins:
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


_ARXIV_DOI: Final = "10.48550/arxiv."
_VERSION: Final = re.compile(r"v[0-9]{1,3}\Z")
# ASCII alone, as DOIs are compared: `lower` would make one of a letter and the Kelvin sign.
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

Name = tuple[str, str]  # scheme and value


def names_of(packet: ResearchPacket) -> tuple[Name, ...]:
    """Return the identifiers of the packet's work; a list of candidates has none."""
    if is_search(packet):
        return ()
    reference = packet.reference.open_for_validation()
    spelled = [(one.scheme, one.value.open_for_validation()) for one in packet.identifiers]
    given = (*spelled, _asked(reference))
    return tuple(
        sorted(
            {normalized_name(scheme, value) for scheme, value in given if scheme in WORK_SCHEMES}
        )
    )


def is_search(packet: ResearchPacket) -> bool:
    """Tell whether a packet lists candidates, such as search results; it is not a work then."""
    return packet.reference.open_for_validation().startswith(LIST_PREFIXES)


def joins_names(packet: ResearchPacket) -> bool:
    """Tell whether the packet's identifiers are names of one work: a registry says so.

    A web page or a file may name any number of works, so it joins none of them.  An open copy of
    a work is a page in the packet of that work; the identifiers there are those of registries,
    as are those of a file after a lookup.
    """
    if packet.source in LOCAL_SOURCES:
        return any(
            one.field == "identifiers" and one.source in PRECEDENCE for one in packet.metadata_from
        )
    return packet.source != "url" or _asked(packet.reference.open_for_validation())[0] != "url"


def _asked(reference: str) -> Name:
    try:
        found = parse_reference(reference)  # also the address of a work, at doi.org or arxiv.org
    except ValueError:
        scheme, _, value = reference.partition(":")
        return scheme, value
    return found.scheme, found.value


def normalized_name(scheme: str, value: str) -> Name:
    """Return an identifier in one spelling, whichever of the usual ones a source chose."""
    value = unquote(value.strip())
    if scheme == "pmcid" and value.isdigit():
        value = f"PMC{value}"
    # As it is named, then as a whole reference: a URL, or with its prefix written twice.
    for spelled in (f"{scheme}:{value.lstrip('0') if scheme == 'pmid' else value}", value):
        try:
            reference = parse_reference(spelled)
        except ValueError:
            continue
        if reference.scheme == scheme:
            value = reference.value
            break
    value = value.translate(_LOWER)
    if scheme == "doi" and value.startswith(_ARXIV_DOI):
        return normalized_name("arxiv", value.removeprefix(_ARXIV_DOI))
    if scheme == "arxiv":  # all versions are one work
        value = _VERSION.sub("", value)
    return scheme, value
