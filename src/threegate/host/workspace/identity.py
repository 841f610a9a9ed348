"""Which work a packet is about: its identifiers in one spelling each.

Two packets are of one work if they share an identifier.  ISBN and ISSN do not count: chapters
and articles share them with their book or journal.

SECURITY
    Opens identifiers that sources state, to compare them.  If this module is wrong, packets of
    one work are not found together, and a retraction is missed.
"""

from typing import Final

from threegate.artifacts.research_packet import ResearchPacket
from threegate.protocol.identifiers import VERSION
from threegate.protocol.references import parse_reference

SCHEMES: Final = ("arxiv", "doi", "openalex", "pmcid", "pmid", "semanticscholar")
_ARXIV_DOI: Final = "10.48550/arxiv."

Name = tuple[str, str]  # scheme and value


def names_of(packet: ResearchPacket) -> tuple[Name, ...]:
    """Return the identifiers of the packet's work; a list of search results has none."""
    reference = packet.reference.open_for_validation()
    if reference.startswith("search:"):
        return ()
    spelled = [(one.scheme, one.value.open_for_validation()) for one in packet.identifiers]
    scheme, _, value = reference.partition(":")
    asked = [(scheme, value)] if scheme in SCHEMES else []
    found = {_name(scheme, value) for scheme, value in (*spelled, *asked) if scheme in SCHEMES}
    return tuple(sorted(found))


def joins_names(packet: ResearchPacket) -> bool:
    """Tell whether the packet's identifiers are names of one work: a registry says so.

    A web page may name any number of works, so it joins none of them.
    """
    return packet.source != "url"


def _name(scheme: str, value: str) -> Name:
    try:
        value = parse_reference(f"{scheme}:{value}").value
    except ValueError:
        value = value.strip()
    value = value.lower()
    if scheme == "doi" and value.startswith(_ARXIV_DOI):
        scheme, value = "arxiv", value.removeprefix(_ARXIV_DOI)
    if scheme == "arxiv":  # all versions are one work
        value = VERSION.sub("", value)
    return scheme, value
